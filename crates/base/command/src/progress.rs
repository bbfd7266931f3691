//! Progress of a long task, shown to the user.
//!
//! reads   the clock
//! writes  standard error: on a terminal one line redrawn in place, elsewhere a line every five seconds
//! drops   updates that arrive more often

use std::fmt::Display;
use std::io::{IsTerminal, Stderr, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::stop;

/// Interval between lines when standard error is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Between two changes of the line on a terminal.
const CHANGE_EVERY: Duration = Duration::from_millis(200);

/// The progress display of one task.
pub struct Progress<W: Write = Stderr> {
    shown: ProgressView<W>,
    said: Instant,
}

/// How it is shown.
enum ProgressView<W> {
    /// The work's output goes to the same terminal and shows how far it is.
    Nowhere,
    /// As a line that is drawn over, once it has been.
    Drawn(Option<ProgressBar>),
    /// As line after line.
    Lines(W),
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// Creates a display for a task whose own output, if any, is not on the terminal.
    pub fn new() -> Self {
        let to = std::io::stderr();
        let shown = if to.is_terminal() { ProgressView::Drawn(None) } else { ProgressView::Lines(to) };
        Self { shown, said: Instant::now() }
    }

    /// Makes the progress of a work that writes its lines to standard output: silent where these are seen.
    pub fn beside_lines() -> Self {
        match std::io::stdout().is_terminal() {
            true => Self { shown: ProgressView::Nowhere, said: Instant::now() },
            false => Self::new(),
        }
    }
}

fn drawn() -> ProgressBar {
    let style = ProgressStyle::with_template("  … {msg}").expect("a template");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
}

impl<W: Write> Progress<W> {
    /// Shows the progress if an update is due.
    pub fn tell<T: Display>(&mut self, what: impl FnOnce() -> T) {
        self.tell_at(Instant::now(), what);
    }

    fn tell_at<T: Display>(&mut self, now: Instant, what: impl FnOnce() -> T) {
        let every = if matches!(self.shown, ProgressView::Lines(_)) { LINE_EVERY } else { CHANGE_EVERY };
        if now.saturating_duration_since(self.said) < every {
            return;
        }
        self.said = now;
        match &mut self.shown {
            ProgressView::Nowhere => {}
            ProgressView::Drawn(line) => {
                line.get_or_insert_with(drawn).set_message(what().to_string());
                stop::at_closed_terminal();
            }
            ProgressView::Lines(to) => stop::at_hang_up(&writeln!(to, "  … {}", what())),
        }
    }

    /// Makes room on the terminal for another line.
    pub fn clear(&mut self) {
        if let ProgressView::Drawn(line) = &mut self.shown
            && let Some(line) = line.take()
        {
            line.finish_and_clear();
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

    /// Reports a number every tenth of a second for this many seconds.
    fn tell(progress: &mut Progress<&mut Vec<u8>>, seconds: u64) {
        let begun = progress.said;
        for tenth in 0..=10 * seconds {
            progress.tell_at(begun + Duration::from_millis(100 * tenth), || tenth);
        }
    }

    #[test]
    fn a_line_every_five_seconds_where_there_is_no_terminal() {
        for (seconds, lines) in [(4, ""), (11, "  … 50\n  … 100\n")] {
            let mut text = vec![];
            tell(&mut Progress { shown: ProgressView::Lines(&mut text), said: Instant::now() }, seconds);
            assert_eq!(String::from_utf8(text).unwrap(), lines);
        }
    }

    #[test]
    fn a_line_that_changes_and_is_cleared_on_a_terminal() {
        let line = drawn();
        line.set_draw_target(ProgressDrawTarget::hidden());
        let mut progress = Progress { shown: ProgressView::Drawn(Some(line.clone())), said: Instant::now() };
        tell(&mut progress, 0);
        assert_eq!(line.message(), "");
        tell(&mut progress, 1);
        assert_eq!(line.message(), "10");
        progress.clear();
        assert!(line.is_finished());
        progress.clear();
    }

    #[test]
    fn bytes_are_reported_in_megabytes() {
        assert_eq!(megabytes(12_345_678, 45_600_000), "12.3 of 45.6 MB");
        assert_eq!(megabytes(7_000_000, 0), "7.0 of 7.0 MB");
    }
}
