//! Ctrl-C, SIGTERM and a terminal that is closed, and the end of a parent, as a flag that loops look at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How often to look for the parent.
const PARENT_LOOK: Duration = Duration::from_millis(200);
/// So long an orphan may tidy up.
const ORPHAN_GRACE: Duration = Duration::from_secs(4);

/// Set by Ctrl-C, SIGTERM, or SIGHUP where that is not ignored, as `nohup` has it.
#[derive(Clone, Default)]
pub struct StopSignal {
    set: Arc<AtomicBool>,
    presses: Arc<AtomicUsize>,
}

impl StopSignal {
    /// Takes over these signals. The third one ends the process at once.
    pub fn install() -> std::io::Result<Self> {
        let signal = Self::default();
        let hangs_up = Some(SIGHUP).filter(|_| !is_ignored(SIGHUP));
        for number in [SIGINT, SIGTERM].into_iter().chain(hangs_up) {
            let (set, presses) = (signal.set.clone(), signal.presses.clone());
            let exit_at = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register_conditional_shutdown(number, 130, exit_at.clone())?;
            let mut signals = signal_hook::iterator::Signals::new([number])?;
            std::thread::Builder::new().name("signals".into()).spawn(move || {
                for _ in signals.forever() {
                    set.store(true, Ordering::Release);
                    if presses.fetch_add(1, Ordering::AcqRel) >= 1 {
                        exit_at.store(true, Ordering::Release);
                    }
                }
            })?;
        }
        Ok(signal)
    }

    /// Stops when this parent has ended, however it did; what does not stop then in time is ended.
    pub fn set_when_orphaned(&self, parent: u32) -> std::io::Result<()> {
        let signal = self.clone();
        let watch = move || {
            let is_there = || rustix::process::getppid().is_some_and(|now| now.as_raw_pid() as u32 == parent);
            while is_there() {
                std::thread::sleep(PARENT_LOOK);
            }
            signal.set();
            std::thread::sleep(ORPHAN_GRACE);
            std::process::exit(130);
        };
        std::thread::Builder::new().name("parent".into()).spawn(watch).map(|_| ())
    }

    /// Stops as the first Ctrl-C does.
    pub fn set(&self) {
        self.set.store(true, Ordering::Release);
    }

    /// Whether to stop.
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// How often it was asked for.
    pub fn presses(&self) -> usize {
        self.presses.load(Ordering::Acquire)
    }
}

/// Whether this process was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
