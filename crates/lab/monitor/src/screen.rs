//! The full-screen view on a terminal.
//!
//! reads   samples as they come; keys
//! writes  the terminal's alternate screen, which is restored at the end, even after a panic
//! memory  the displayed sample

mod keys;
mod view;

use std::io;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::layout::Size;

use crate::diagnosis::Diagnosis;
use crate::sample::Sample;
use keys::{KeyEvent, KeyInput, Keys};
use view::View;

/// How often the terminal's size and the stop flag are checked while no key comes.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The terminal cannot be drawn on or read.
#[derive(Debug, thiserror::Error)]
#[error("the terminal cannot be used: {0}; pipe the output (`| cat` after the same command) for plain text")]
pub struct ScreenError(#[from] io::Error);

/// A terminal that shows samples.
#[derive(Debug)]
pub struct Screen {
    /// Dropped by hand: if the terminal is gone, its own drop would panic.
    terminal: ManuallyDrop<DefaultTerminal>,
    keys: Keys,
    size: Option<Size>,
    view: View,
}

impl Screen {
    /// Takes over the terminal. `note` is shown at its bottom for some seconds, or until the first key.
    pub fn open(note: Option<String>) -> Result<Self, ScreenError> {
        let keys = Keys::of(io::stdin())?;
        let terminal = ManuallyDrop::new(ratatui::try_init()?);
        let size = terminal.size().ok();
        Ok(Self { terminal, keys, size, view: View::new(note) })
    }

    /// Shows a sample, unless the view is paused; `rates` are the recent rates, the newest last.
    pub fn show(&mut self, sample: Sample, diagnosis: Diagnosis, rates: &[f64]) -> Result<(), ScreenError> {
        self.view.take(sample, diagnosis, rates);
        self.draw()
    }

    /// Handles keys until the given time. Returns true if the user quits, the terminal is gone, or at `stop`.
    pub fn follow_keys(&mut self, until: Instant, stop: &dyn Fn() -> bool) -> Result<bool, ScreenError> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.keys.next(left.min(LOOK_EVERY)) {
                KeyInput::Closed | KeyInput::KeyEvent(KeyEvent::Interrupt) => return Ok(true),
                KeyInput::KeyEvent(KeyEvent::Key(key)) => {
                    if self.view.key(key) {
                        return Ok(true);
                    }
                    self.draw()?;
                }
                KeyInput::Nothing if stop() => return Ok(true),
                KeyInput::Nothing if left.is_zero() => return Ok(false),
                KeyInput::Nothing => {
                    let size = self.terminal.size().ok();
                    if std::mem::replace(&mut self.size, size) != size {
                        self.draw()?;
                    }
                }
            }
        }
    }

    fn draw(&mut self) -> Result<(), ScreenError> {
        self.terminal.draw(|frame| self.view.draw(frame))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, nothing needs to be restored.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}
