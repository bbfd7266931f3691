//! What happened in a study beside its values, so that it is still known when the study goes on.
//!
//! reads   a file of events that was begun, whatever its end looks like
//! writes  a row for each build that failed, each run that was disturbed, each that was given up; on the disk at once
//! memory  the failures; the rest is counted
//! drops   a torn last row

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

const HEADER: &str = "event,build,round,why\n";

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A build takes no part any more.
    Failed,
    /// A run was disturbed.
    Rejected,
    /// A run was disturbed too often, and its value is missing.
    GivenUp,
}

impl Event {
    const ALL: [Self; 3] = [Self::Failed, Self::Rejected, Self::GivenUp];

    fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::GivenUp => "given up",
        }
    }
}

/// The file.
pub struct Events {
    file: File,
    /// Builds that failed, and how.
    pub failed: BTreeMap<String, String>,
    /// Runs that were disturbed.
    pub rejected: usize,
    /// Runs that were given up.
    pub given_up: usize,
}

impl Events {
    /// Opens a file, or begins it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut made = Self { file, failed: BTreeMap::new(), rejected: 0, given_up: 0 };
        let mut bytes = Vec::new();
        made.file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole < bytes.len() {
            made.file.set_len(whole as u64)?;
        }
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        if text.is_empty() {
            made.file.write_all(HEADER.as_bytes())?;
            made.file.sync_all()?;
            return Ok(made);
        }
        let strange = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let rows = text.strip_prefix(HEADER).ok_or_else(|| strange("it is no list of events".into()))?;
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(rows.as_bytes());
        for row in reader.records() {
            let row = row.map_err(io::Error::other)?;
            let event = Event::ALL.into_iter().find(|event| row.get(0) == Some(event.name()));
            let event = event.ok_or_else(|| strange(format!("`{}` is no event", row.get(0).unwrap_or_default())))?;
            made.count(event, row.get(1).unwrap_or_default(), row.get(3).unwrap_or_default());
        }
        Ok(made)
    }

    /// Adds an event; when this returns it is on the disk.
    pub fn add(&mut self, event: Event, build: &str, round: u32, why: &str) -> io::Result<()> {
        // A row is a line: what is torn is seen by its end.
        let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record([event.name(), build, &round.to_string(), &why]).map_err(io::Error::other)?;
        let row = writer.into_inner().map_err(|why| io::Error::other(why.to_string()))?;
        self.file.write_all(&row)?;
        self.file.sync_data()?;
        self.count(event, build, &why);
        Ok(())
    }

    fn count(&mut self, event: Event, build: &str, why: &str) {
        match event {
            Event::Failed => {
                self.failed.insert(build.into(), why.into());
            }
            Event::Rejected => self.rejected += 1,
            Event::GivenUp => self.given_up += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_stay_wherever_the_file_is_torn() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.csv");
        let mut events = Events::open(&path).expect("new");
        events.add(Event::Rejected, "plain", 1, "others, many").expect("added");
        events.add(Event::Failed, "lto=fat", 2, "it said «a\nb»").expect("added");
        events.add(Event::GivenUp, "plain", 2, "").expect("added");
        let whole = std::fs::read(&path).expect("there");
        for end in 0..=whole.len() {
            std::fs::write(&path, &whole[..end]).expect("torn");
            let events = Events::open(&path).expect("opened");
            let rows = whole[..end].iter().filter(|byte| **byte == b'\n').count();
            let found = (events.rejected, events.failed.len(), events.given_up);
            assert_eq!(found, (usize::from(rows > 1), usize::from(rows > 2), usize::from(rows > 3)), "{end}");
        }
        let events = Events::open(&path).expect("opened");
        assert_eq!(events.failed["lto=fat"], "it said «a b»");
        std::fs::write(&path, "x\n").expect("written");
        assert!(Events::open(&path).is_err(), "another file");
    }
}
