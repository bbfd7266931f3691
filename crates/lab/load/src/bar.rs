//! How far the money for accounts is: on a terminal a bar that is drawn over, elsewhere a line for each change.
//!
//! writes  standard error
//! memory  none
//! drops   what nobody reads

use std::io::{IsTerminal, Stderr, Write};

use hearth_command::stop;

/// As wide as the bar is.
const WIDTH: usize = 30;

/// The bar of one funding.
pub struct Bar<W: Write = Stderr> {
    to: W,
    is_terminal: bool,
    told: Option<usize>,
}

impl Bar {
    /// On standard error.
    pub fn new() -> Self {
        let to = std::io::stderr();
        Self { is_terminal: to.is_terminal(), to, told: None }
    }
}

impl<W: Write> Bar<W> {
    /// So many of all have their money; says so where that has changed.
    pub fn tell(&mut self, done: usize, all: usize) {
        if all == 0 || self.told.replace(done) == Some(done) {
            return;
        }
        let words = format!("{done} of {all} accounts funded");
        let written = match self.is_terminal {
            true => {
                let full = (done.min(all) * WIDTH) / all;
                let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH - full));
                write!(self.to, "\r\x1b[K{bar} {words}").and_then(|()| self.to.flush())
            }
            false => self.to.write_all(format!("{words}\n").as_bytes()),
        };
        stop::at_hang_up(&written);
    }
}

impl<W: Write> Drop for Bar<W> {
    fn drop(&mut self) {
        if self.is_terminal && self.told.is_some() {
            // What is said next has a line of its own.
            let _ = writeln!(self.to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(is_terminal: bool) -> String {
        let mut text = vec![];
        let mut bar = Bar { to: &mut text, is_terminal, told: None };
        for done in [0, 0, 15, 15, 30] {
            bar.tell(done, 30);
        }
        bar.tell(0, 0);
        drop(bar);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_line_for_each_change_where_there_is_no_terminal() {
        assert_eq!(told(false), "0 of 30 accounts funded\n15 of 30 accounts funded\n30 of 30 accounts funded\n");
    }

    #[test]
    fn one_line_that_is_drawn_over_on_a_terminal() {
        let text = told(true);
        assert_eq!((text.matches('\r').count(), text.matches('\n').count()), (3, 1), "{text}");
        assert!(text.ends_with(&format!("\r\x1b[K{} 30 of 30 accounts funded\n", "█".repeat(30))), "{text}");
        assert!(text.contains(&format!("{}{} 15 of", "█".repeat(15), "░".repeat(15))), "{text}");
    }
}
