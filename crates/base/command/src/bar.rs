//! Progress toward a known amount: a bar redrawn in place on a terminal, elsewhere one line per change.
//!
//! writes  standard error
//! drops   output that cannot be written

use std::io::{IsTerminal, Stderr, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::stop;

/// A progress bar for one task.
pub struct Bar<W: Write = Stderr> {
    shown: BarView<W>,
    what: &'static str,
    said: Option<usize>,
}

/// How it is shown.
enum BarView<W> {
    Drawn(ProgressBar),
    Lines(W),
}

impl Bar {
    /// Creates a bar on standard error; `what` follows the numbers: `3 of 5 accounts funded`.
    pub fn new(what: &'static str) -> Self {
        let to = std::io::stderr();
        let shown = match to.is_terminal() {
            true => BarView::Drawn(drawn(ProgressDrawTarget::stderr())),
            false => BarView::Lines(to),
        };
        Self { shown, what, said: None }
    }
}

fn drawn(target: ProgressDrawTarget) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {msg}").expect("a template");
    ProgressBar::with_draw_target(Some(0), target).with_style(style.progress_chars("█░"))
}

impl<W: Write> Bar<W> {
    /// Updates the bar if the amount has changed.
    pub fn tell(&mut self, done: usize, all: usize) {
        if all == 0 || self.said.replace(done) == Some(done) {
            return;
        }
        let words = format!("{done} of {all} {}", self.what);
        match &mut self.shown {
            BarView::Drawn(bar) => {
                bar.update(|state| {
                    state.set_len(all as u64);
                    state.set_pos(done.min(all) as u64);
                });
                bar.set_message(words);
                // Regardless of the redraw interval: no later draw may follow.
                bar.force_draw();
                stop::at_closed_terminal();
            }
            BarView::Lines(to) => stop::at_hang_up(&to.write_all(format!("{words}\n").as_bytes())),
        }
    }
}

impl<W: Write> Drop for Bar<W> {
    fn drop(&mut self) {
        // Leave the bar on the screen, so that later output starts on a new line.
        if let BarView::Drawn(bar) = &self.shown
            && self.said.is_some()
        {
            bar.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell(bar: &mut Bar<&mut Vec<u8>>) {
        for done in [0, 0, 15, 15, 30, 20] {
            bar.tell(done, 30);
        }
        bar.tell(0, 0);
    }

    #[test]
    fn lines_tell_each_change() {
        let mut text = vec![];
        tell(&mut Bar { shown: BarView::Lines(&mut text), what: "done", said: None });
        assert_eq!(String::from_utf8(text).unwrap(), "0 of 30 done\n15 of 30 done\n30 of 30 done\n20 of 30 done\n");
    }

    #[test]
    fn the_bar_is_as_long_as_what_is_done() {
        let bar = drawn(ProgressDrawTarget::hidden());
        tell(&mut Bar { shown: BarView::Drawn(bar.clone()), what: "done", said: None });
        assert_eq!((bar.position(), bar.length()), (20, Some(30)));
        assert_eq!(bar.message(), "20 of 30 done");
        assert!(bar.is_finished(), "and stays when its work has ended");
    }
}
