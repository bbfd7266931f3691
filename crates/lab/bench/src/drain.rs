//! Waits until every sent transaction has an outcome.
//!
//! reads   counters

use std::time::{Duration, Instant};

use hearth_command::stop::StopSignal;
use hearth_pipeline::node::Node;

use super::BenchError;
use super::observe::Snapshot;

/// The wait ends after this long without any new outcome; the rest is reported as unresolved.
const STANDSTILL: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until the counts balance and stay so, or until the time is up. Returns true if Ctrl-C ended the wait.
pub fn wait(node: &Node, stop: &StopSignal) -> Result<bool, BenchError> {
    let mut progress = (0, Instant::now());
    let presses = stop.presses();
    let mut balanced_since: Option<(Instant, u64)> = None;
    while progress.1.elapsed() < STANDSTILL && stop.presses() == presses {
        let now = Snapshot::take(node);
        if now.ended() != progress.0 {
            progress = (now.ended(), Instant::now());
        }
        let sent = now.sent();
        let settled = now.is_settled();
        match balanced_since {
            Some((since, at)) if settled && at == sent => {
                // Counters reach shared memory about once per millisecond.
                if since.elapsed() > Duration::from_millis(100) {
                    return Ok(false);
                }
            }
            _ => balanced_since = settled.then(|| (Instant::now(), sent)),
        }
        if let Some(died) = node.died() {
            return Err(died.into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(stop.presses() != presses)
}
