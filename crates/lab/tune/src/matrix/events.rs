//! The log of what happened in a study besides its values, so that a resumed study still knows it.
//!
//! reads   an existing file of events, even with a torn end
//! writes  a row for each round's builds, each failed build, each run's pace, each run that was disturbed or given up;
//!         synced at once
//! memory  the builds of each round, the failures, tries and paces of runs; other events are only counted
//! drops   a torn last row, and a round whose builds are incomplete

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use super::results::Run;

const HEADER: &str = "event,build,workload,round,why\n";

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A build takes part in a round.
    TakesPart,
    /// The list of a round's builds is complete, and the round begins.
    Round,
    /// A build failed and takes part no more.
    Failed,
    /// A run was disturbed.
    Rejected,
    /// A run was disturbed too often, and its value is missing.
    GivenUp,
    /// Every run of a round was disturbed: they are tried again.
    Busy,
    /// Pace of the cores during a run, disturbed or not: nanoseconds of a piece of work.
    Pace,
}

impl Event {
    const ALL: [Self; 7] =
        [Self::TakesPart, Self::Round, Self::Failed, Self::Rejected, Self::GivenUp, Self::Busy, Self::Pace];

    fn name(self) -> &'static str {
        match self {
            Self::TakesPart => "takes part",
            Self::Round => "round",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::GivenUp => "given up",
            Self::Busy => "busy",
            Self::Pace => "pace",
        }
    }
}

/// A round, and the builds that take part in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Number of the round, from 1.
    pub number: u32,
    /// Names of the builds.
    pub builds: BTreeSet<String>,
}

/// The file of events, and what it says.
pub struct Events {
    file: File,
    /// Rounds that were begun.
    pub rounds: Vec<Round>,
    /// Builds that failed, and why.
    pub failed: BTreeMap<String, String>,
    /// Number of disturbed runs.
    pub rejected: usize,
    /// The cause of the last disturbance.
    pub last: String,
    /// How often each run was disturbed since the machine was last busy all the time.
    tries: BTreeMap<Run, u32>,
    /// Pace of each run, unless it was disturbed later.
    paces: BTreeMap<Run, f64>,
    /// Best pace of each workload in any run.
    best: BTreeMap<usize, f64>,
    /// Builds of a round whose list is incomplete.
    taking_part: BTreeSet<String>,
}

impl Events {
    /// Opens a file, or creates it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut made = Self {
            file,
            rounds: Vec::new(),
            failed: BTreeMap::new(),
            rejected: 0,
            last: String::new(),
            tries: BTreeMap::new(),
            paces: BTreeMap::new(),
            best: BTreeMap::new(),
            taking_part: BTreeSet::new(),
        };
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
        let rows = text.strip_prefix(HEADER).ok_or_else(|| strange("it is not a list of events".into()))?;
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(rows.as_bytes());
        for row in reader.records() {
            let row = row.map_err(io::Error::other)?;
            let cell = |at: usize| row.get(at).unwrap_or_default();
            let event = Event::ALL.into_iter().find(|event| cell(0) == event.name());
            let event = event.ok_or_else(|| strange(format!("`{}` is not an event", cell(0))))?;
            let number = |at: usize| cell(at).parse::<u32>();
            let (Ok(workload), Ok(round)) = (number(2), number(3)) else {
                return Err(strange(format!("`{}` has no number of a round", cell(0))));
            };
            made.count(event, &(cell(1).to_owned(), (workload as usize).saturating_sub(1), round), cell(4));
        }
        // A round whose list was torn does not count.
        made.taking_part.clear();
        Ok(made)
    }

    /// Adds several events. They are on disk when this returns.
    pub fn add(&mut self, all: &[(Event, &Run, &str)]) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut counted = Vec::new();
        for (event, run, why) in all {
            // One line per row, so that a torn row is recognized by its missing end.
            let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let (build, workload, round) = run;
            let numbers = [(workload + 1).to_string(), round.to_string()];
            let row = [event.name(), build, &numbers[0], &numbers[1], &why];
            writer.write_record(row).map_err(io::Error::other)?;
            counted.push((*event, *run, why));
        }
        let rows = writer.into_inner().map_err(|why| io::Error::other(why.to_string()))?;
        self.file.write_all(&rows)?;
        self.file.sync_data()?;
        counted.into_iter().for_each(|(event, run, why)| self.count(event, run, &why));
        Ok(())
    }

    /// Records that a round begins, and which builds take part in it.
    pub fn begin(&mut self, round: &Round) -> io::Result<()> {
        let runs: Vec<Run> = round.builds.iter().map(|build| (build.clone(), 0, round.number)).collect();
        let end = (String::new(), 0, round.number);
        let all = runs.iter().map(|run| (Event::TakesPart, run, "")).chain([(Event::Round, &end, "")]);
        self.add(&all.collect::<Vec<_>>())
    }

    /// Returns how often a run was disturbed.
    pub fn tries(&self, run: &Run) -> u32 {
        self.tries.get(run).copied().unwrap_or_default()
    }

    /// Returns the best time of a piece of work while this workload ran, in nanoseconds.
    pub fn best_ns(&self, workload: usize) -> Option<f64> {
        self.best.get(&workload).copied()
    }

    /// Counts accepted runs that were slower than the best pace by more than this fraction; it was not known when they
    /// were accepted.
    pub fn slow(&self, limit: f64) -> usize {
        let is_slow = |((_, workload, _), ns): &(&Run, &f64)| {
            limit < 1.0 && self.best_ns(*workload).is_some_and(|best| **ns > best * (1.0 + limit))
        };
        self.paces.iter().filter(is_slow).count()
    }

    fn count(&mut self, event: Event, run: &Run, why: &str) {
        let (build, workload, round) = run;
        match event {
            Event::TakesPart => {
                self.taking_part.insert(build.clone());
            }
            Event::Round => {
                self.rounds.push(Round { number: *round, builds: std::mem::take(&mut self.taking_part) });
            }
            Event::Failed => {
                self.failed.insert(build.clone(), why.into());
            }
            Event::Rejected => {
                self.rejected += 1;
                self.last = why.into();
                *self.tries.entry(run.clone()).or_default() += 1;
                self.paces.remove(run);
            }
            Event::Busy => self.tries.retain(|(_, _, of), _| of != round),
            Event::GivenUp => {}
            Event::Pace => {
                let Ok(ns) = why.parse::<f64>() else { return };
                self.paces.insert(run.clone(), ns);
                let best = self.best.entry(*workload).or_insert(ns);
                *best = best.min(ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(build: &str, workload: usize, round: u32) -> Run {
        (build.into(), workload, round)
    }

    #[test]
    fn events_stay_wherever_the_file_is_torn() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.csv");
        let mut events = Events::open(&path).expect("new");
        let round = Round { number: 3, builds: ["plain", "lto=fat"].map(String::from).into() };
        events.begin(&round).expect("added");
        events.add(&[(Event::Rejected, &run("plain", 1, 3), "others, many")]).expect("added");
        events.add(&[(Event::Failed, &run("lto=fat", 0, 3), "it said \"a\nb\"")]).expect("added");
        events.add(&[(Event::GivenUp, &run("plain", 1, 3), "")]).expect("added");
        let whole = std::fs::read(&path).expect("there");
        for end in 0..=whole.len() {
            std::fs::write(&path, &whole[..end]).expect("torn");
            let events = Events::open(&path).expect("opened");
            let rows = whole[..end].iter().filter(|byte| **byte == b'\n').count();
            let found = (events.rounds.len(), events.rejected, events.failed.len());
            assert_eq!(found, (usize::from(rows > 3), usize::from(rows > 4), usize::from(rows > 5)), "{end}");
            assert!(events.rounds.iter().all(|one| *one == round), "a round is there with all of its builds");
        }
        let mut events = Events::open(&path).expect("opened");
        assert_eq!((&*events.failed["lto=fat"], &*events.last), ("it said \"a b\"", "others, many"));
        assert_eq!((events.tries(&run("plain", 1, 3)), events.tries(&run("plain", 0, 3))), (1, 0));
        events.add(&[(Event::Busy, &run("", 0, 3), "")]).expect("added");
        assert_eq!(Events::open(&path).expect("opened").tries(&run("plain", 1, 3)), 0, "it starts from zero");
        for (round, ns) in [(1, "21"), (2, "20"), (3, "22")] {
            events.add(&[(Event::Pace, &run("plain", 1, round), ns)]).expect("added");
        }
        events.add(&[(Event::Rejected, &run("plain", 1, 3), "slow")]).expect("added");
        let events = Events::open(&path).expect("opened");
        assert_eq!((events.best_ns(1), events.best_ns(0)), (Some(20.0), None));
        assert_eq!((events.slow(0.04), events.slow(0.06), events.slow(1.0)), (1, 0, 0), "the third was not taken");
        std::fs::write(&path, "x\n").expect("written");
        assert!(Events::open(&path).is_err(), "another file");
    }

    #[test]
    fn torn_round_drops_all_participants() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.csv");
        let round = |number: u32, build: &str| Round { number, builds: [build.to_owned()].into() };
        let mut events = Events::open(&path).expect("new");
        events.begin(&round(1, "old")).expect("added");
        let text = std::fs::read_to_string(&path).expect("there");
        std::fs::write(&path, &text[..text.len() - 3]).expect("torn");
        events = Events::open(&path).expect("opened");
        events.begin(&round(1, "new")).expect("added");
        assert_eq!(events.rounds, [round(1, "new")]);
    }
}
