//! Ctrl-C and SIGTERM as a flag that loops look at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Set by Ctrl-C or SIGTERM.
#[derive(Clone, Default)]
pub struct StopSignal {
    set: Arc<AtomicBool>,
    presses: Arc<AtomicUsize>,
}

impl StopSignal {
    /// Takes over both signals. The third one ends the process at once.
    pub fn install() -> std::io::Result<Self> {
        let signal = Self::default();
        for number in [SIGINT, SIGTERM] {
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
