//! A command's output: lines for the user, files written at its end, layouts as text.
//!
//! reads   whether a file can be written, before the work starts
//! writes  standard output, or standard error where standard output carries data (`bench --json -`); notes
//! drops   output after a failed write; the error is kept, and a command whose reader is gone stops
//!
//! `println!` panics when the reader is gone (`hearth monitor | head -3`); this remembers the failure instead, so that
//! a command can end cleanly. Clippy rejects the macros in this crate.

use std::cell::RefCell;
use std::fmt::Display;
use std::fs;
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

use hearth_tile::topology::Topology;

use crate::exit_code::ExitCode;
use crate::stop;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Destination {
    #[default]
    Stdout,
    Stderr,
    Nobody,
}

/// Destination of a command's lines.
#[derive(Default)]
pub struct CommandOutput {
    to: Destination,
    failed: RefCell<Option<Error>>,
}

impl CommandOutput {
    /// Standard error: standard output is for data alone.
    pub fn stderr() -> Self {
        Self { to: Destination::Stderr, ..Self::default() }
    }

    /// An output that discards every line.
    pub fn nothing() -> Self {
        Self { to: Destination::Nobody, ..Self::default() }
    }

    /// Writes one or more lines.
    pub fn line(&self, text: impl Display) {
        self.text(format_args!("{text}\n"));
    }

    /// Writes a text without a newline.
    pub fn text(&self, text: impl Display) {
        if self.is_closed() {
            return;
        }
        // In one piece, so that lines of several threads do not mix.
        let text = text.to_string();
        let written = match self.to {
            Destination::Nobody => Ok(()),
            Destination::Stderr => std::io::stderr().write_all(text.as_bytes()),
            Destination::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(text.as_bytes()).and_then(|()| out.flush())
            }
        };
        match self.to {
            Destination::Stdout => stop::at_end_of_reader(&written),
            _ => stop::at_hang_up(&written),
        }
        *self.failed.borrow_mut() = written.err();
    }

    /// Whether the reader has gone.
    pub fn is_closed(&self) -> bool {
        self.failed.borrow().is_some()
    }

    /// Returns whether all output was written. A reader that went away is not an error.
    pub fn end(&self) -> Result<(), Error> {
        match self.failed.take() {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Error::new(error.kind(), format!("cannot write the output: {error}")))
            }
            _ => Ok(()),
        }
    }
}

thread_local! {
    /// Notes of this thread since a test began to collect; `None` if none does.
    static NOTES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Returns this thread's notes since the last call, for tests. A thread's first call starts collecting.
pub fn take_notes() -> Vec<String> {
    NOTES.replace(Some(vec![])).unwrap_or_default()
}

/// Returns `thing` in singular or plural, according to `count`.
pub fn plural(count: u64, thing: &str) -> String {
    if count == 1 { thing.to_owned() } else { format!("{thing}s") }
}

/// Writes a line to standard error. Failures are ignored.
pub fn note(text: impl Display) {
    NOTES.with_borrow_mut(|notes| {
        if let Some(notes) = notes {
            notes.push(text.to_string());
        }
    });
    stop::at_hang_up(&std::io::stderr().write_all(format!("{text}\n").as_bytes()));
}

/// A file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the result to {}: {source}", path.display())]
pub struct WriteError {
    /// Path of the file.
    pub path: PathBuf,
    /// Why the file could not be written, as the system says it.
    pub source: Error,
}

impl ExitCode for WriteError {}

/// Writes JSON and a newline to a file, or to the command's lines where `path` is `-`.
pub fn json(path: &Path, text: impl Display, say: &CommandOutput) -> Result<(), WriteError> {
    if is_stdout(Some(path)) {
        say.line(text);
        return Ok(());
    }
    fs::write(path, format!("{text}\n")).map_err(|source| WriteError { path: path.into(), source })
}

/// Whether a result is for standard output: `-`.
pub fn is_stdout(path: Option<&Path>) -> bool {
    path.is_some_and(|path| path.as_os_str() == "-")
}

/// A result that cannot be written is better known now than after the run. Leaves no file that was not there.
pub fn can_be_written(path: &Path) -> Result<(), WriteError> {
    let failed = |source| WriteError { path: path.into(), source };
    let is_new = !path.exists();
    fs::OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    if is_new { fs::remove_file(path).map_err(failed) } else { Ok(()) }
}

/// Lists the tiles of each core, a line a core.
pub fn layout(topology: &Topology) -> String {
    let mut lines = vec![];
    let mut floating = vec![];
    for (core, tiles) in topology.by_core() {
        let names: Vec<String> = tiles.iter().map(|t| t.name()).collect();
        match core {
            Some(core) => lines.push(format!("  core {core:<3} {}", names.join(" "))),
            None => floating.extend(names),
        }
    }
    if !floating.is_empty() {
        lines.push(format!("  floating {}", floating.join(" ")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_goes_to_the_named_file() {
        let path = std::env::temp_dir().join(format!("hearth-output-{}.json", std::process::id()));
        json(&path, "{}", &CommandOutput::nothing()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n");
        fs::remove_file(&path).unwrap();
        let refused = json(&path.join("below"), "{}", &CommandOutput::nothing()).unwrap_err();
        assert!(refused.to_string().starts_with("cannot write the result to "), "{refused}");
        json(Path::new("-"), "{}", &CommandOutput::nothing()).unwrap();
        assert!(!Path::new("-").exists(), "it is standard output");
    }
}
