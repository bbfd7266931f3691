//! How far a long work is, for whoever waits.
//!
//! reads   the clock
//! writes  standard error: on a terminal one line that is written over, elsewhere a line every five seconds
//! memory  none
//! drops   what is told more often than that

use std::io::{IsTerminal, Stderr, Write};
use std::time::{Duration, Instant};

use crate::stop;

/// Between two lines where nobody watches.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Between two changes of the line on a terminal.
const CHANGE_EVERY: Duration = Duration::from_millis(200);

/// The progress of one work.
pub struct Progress<W: Write = Stderr> {
    to: W,
    terminal: bool,
    /// Its output's lines go to the same terminal and show how far it is.
    silent: bool,
    said: Instant,
    shown: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// Of a work whose output, if it has any, is not for the eye.
    pub fn new() -> Self {
        let to = std::io::stderr();
        Self { terminal: to.is_terminal(), silent: false, to, said: Instant::now(), shown: false }
    }

    /// Of a work that writes line after line to standard output: silent where these are seen.
    pub fn beside_lines() -> Self {
        let mut progress = Self::new();
        progress.silent = std::io::stdout().is_terminal();
        progress
    }
}

impl<W: Write> Progress<W> {
    /// Says how far it is, if it is time to.
    pub fn tell<T: std::fmt::Display>(&mut self, what: impl FnOnce() -> T) {
        self.tell_at(Instant::now(), what);
    }

    fn tell_at<T: std::fmt::Display>(&mut self, now: Instant, what: impl FnOnce() -> T) {
        let every = if self.terminal { CHANGE_EVERY } else { LINE_EVERY };
        if self.silent || now.saturating_duration_since(self.said) < every {
            return;
        }
        (self.said, self.shown) = (now, self.terminal);
        let what = what();
        let written = match self.terminal {
            true => write!(self.to, "\r\x1b[K  … {what}").and_then(|()| self.to.flush()),
            false => writeln!(self.to, "  … {what}"),
        };
        stop::at_hang_up(&written);
    }

    /// Makes room on the terminal for another line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(self.to, "\r\x1b[K").and_then(|()| self.to.flush());
        }
    }
}

impl<W: Write> Drop for Progress<W> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// 12.3 of 45.6 MB
pub fn megabytes(done: u64, all: u64) -> String {
    format!("{:.1} of {:.1} MB", done as f64 / 1e6, all.max(done) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written when a number is told every tenth of a second for so many seconds.
    fn told(terminal: bool, seconds: u64) -> String {
        let begun = Instant::now();
        let mut progress = Progress { to: vec![], terminal, silent: false, said: begun, shown: false };
        for tenth in 0..=10 * seconds {
            progress.tell_at(begun + Duration::from_millis(100 * tenth), || tenth);
        }
        progress.clear();
        progress.clear();
        String::from_utf8(std::mem::take(&mut progress.to)).unwrap()
    }

    #[test]
    fn a_line_every_five_seconds_where_there_is_no_terminal() {
        assert_eq!(told(false, 4), "");
        assert_eq!(told(false, 11), "  … 50\n  … 100\n");
    }

    #[test]
    fn a_line_written_over_and_cleared_on_a_terminal() {
        assert_eq!(told(true, 0), "");
        assert_eq!(told(true, 1), "\r\x1b[K  … 2\r\x1b[K  … 4\r\x1b[K  … 6\r\x1b[K  … 8\r\x1b[K  … 10\r\x1b[K");
    }

    #[test]
    fn bytes_are_told_in_megabytes() {
        assert_eq!(megabytes(12_345_678, 45_600_000), "12.3 of 45.6 MB");
        assert_eq!(megabytes(7_000_000, 0), "7.0 of 7.0 MB");
    }
}
