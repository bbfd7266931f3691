//! Internal faults of the node: the log gets the full error, with paths; a client gets a reason and a number that
//! identifies it.
//!
//! reads   errors, the clock
//! writes  the log; text for the client
//! memory  the last [`LOGGED_MAX`] faults that were logged, 32 B each
//! drops   a fault that was logged within [`LOG_EVERY`]: clients that repeat a request cannot fill the disk
//!
//! The names and places of a node's files concern only its owner.

use std::collections::VecDeque;
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How often the log gets the same fault.
const LOG_EVERY: Duration = Duration::from_secs(60);
/// Faults that are remembered for that.
const LOGGED_MAX: usize = 64;

static LOGGED: Mutex<VecDeque<(u32, Instant)>> = Mutex::new(VecDeque::new());

/// Logs `error` and returns the text for the client: `reason`, which names no file, and the fault's number, which is
/// the same for equal errors.
pub fn report(reason: &str, error: &dyn Display) -> String {
    let text = error.to_string();
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let number = hasher.finish() as u32;
    if is_due(&mut LOGGED.lock(), number, Instant::now()) {
        tracing::error!("fault {number:08x}: {reason}: {text}");
    }
    format!("{reason} (fault {number:08x}; the node's log says more)")
}

fn is_due(logged: &mut VecDeque<(u32, Instant)>, number: u32, now: Instant) -> bool {
    logged.retain(|(_, at)| now.saturating_duration_since(*at) < LOG_EVERY);
    if logged.iter().any(|(other, _)| *other == number) {
        return false;
    }
    if logged.len() >= LOGGED_MAX {
        logged.pop_front();
    }
    logged.push_back((number, now));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_a_reason_and_a_number() {
        let error = "/srv/node/ledger/blocks/0001.log at byte 7: no record";
        let words = report("the block cannot be read", &error);
        assert!(words.starts_with("the block cannot be read (fault ") && !words.contains("ledger"), "{words}");
        assert!(!words.contains('/') && !words.contains("byte"), "{words}");
        assert_eq!(words, report("the block cannot be read", &error), "the same number again");
        assert_ne!(words, report("the block cannot be read", &"another"));
    }

    #[test]
    fn the_log_gets_a_fault_once_a_minute() {
        let (mut logged, now) = (VecDeque::new(), Instant::now());
        assert!(is_due(&mut logged, 1, now) && is_due(&mut logged, 2, now));
        assert!(!is_due(&mut logged, 1, now + LOG_EVERY / 2));
        assert!(is_due(&mut logged, 1, now + LOG_EVERY));
        for number in 10..200 {
            assert!(is_due(&mut logged, number, now + LOG_EVERY));
        }
        assert_eq!(logged.len(), LOGGED_MAX);
    }
}
