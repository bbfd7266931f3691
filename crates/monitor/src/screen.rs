//! The full-screen view on a terminal.
//!
//! reads   samples as they come; keys
//! writes  the terminal's other screen, which is put back at the end, after a panic too
//! memory  the sample that is shown

mod view;

use std::io;
use std::time::Instant;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::diagnosis::Diagnosis;
use crate::sample::Sample;
use view::View;

/// The terminal cannot be drawn on or read.
#[derive(Debug, thiserror::Error)]
#[error("the terminal cannot be used: {0}; pipe the output (`| cat` after the same command) for plain text")]
pub struct ScreenError(#[from] io::Error);

/// A terminal that shows samples.
#[derive(Debug)]
pub struct Screen {
    terminal: DefaultTerminal,
    view: View,
}

impl Screen {
    /// Takes the terminal over. `note` stands at its bottom until the first key.
    pub fn open(note: Option<String>) -> Result<Self, ScreenError> {
        Ok(Self { terminal: ratatui::try_init()?, view: View::new(note) })
    }

    /// Shows a sample, unless the view is paused; `rates` are those of the last moments, the newest last.
    pub fn show(&mut self, sample: Sample, diagnosis: Diagnosis, rates: &[f64]) -> Result<(), ScreenError> {
        self.view.take(sample, diagnosis, rates);
        self.draw()
    }

    /// Follows keys until then; true when the reader wants to leave.
    pub fn follow_keys(&mut self, until: Instant) -> Result<bool, ScreenError> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !event::poll(left)? {
                return Ok(false);
            }
            match event::read()? {
                Event::Key(key) if is_leaving(&key) => return Ok(true),
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    if self.view.key(key.code) {
                        return Ok(true);
                    }
                    self.draw()?;
                }
                Event::Resize(..) => self.draw()?,
                _ => {}
            }
        }
    }

    fn draw(&mut self) -> Result<(), ScreenError> {
        self.terminal.draw(|frame| self.view.draw(frame))?;
        Ok(())
    }
}

/// Ctrl-C comes as a key while the terminal is taken over.
fn is_leaving(key: &KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
