//! Applies changes to the machine, and reverts them.
//!
//! reads   reports, the record of earlier changes
//! writes  kernel settings, directly or by commands; `configure.json` in the given folder
//!
//! A change is recorded before it is made, so that a program that ends in between leaves one that can be reverted. Only
//! a setting that still is as [`init`] left it is reverted: later changes by others stay. No change outlasts a reboot,
//! so records from before the last boot are discarded.

use std::fs::{self, OpenOptions};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::{Fault, MachineRequirements, Remedy, Stage, check, ethtool};
use crate::memory::{chosen, file_system_of};
use crate::{Machine, Root};

const FILE: &str = "configure.json";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Why the machine was not set up, or not set back.
#[derive(Debug, thiserror::Error)]
pub enum ConfigureError {
    /// The user may not write a setting; nothing has been changed.
    #[error("{why}; nothing was changed. With the right to do so (sudo), or one by one:\n{commands}")]
    NotPermitted {
        /// The setting that cannot be written.
        why: String,
        /// The commands, a line each.
        commands: String,
    },
    /// The record of changes cannot be written or read.
    #[error("{}: {why}", path.display())]
    Memory {
        /// The file, or its folder.
        path: PathBuf,
        /// Why the file cannot be read or written, or that its contents are no record of changes.
        why: String,
    },
    /// Not all could be done.
    #[error("{failed} of {all} could not be done, see above")]
    Failed {
        /// Number of failed steps.
        failed: usize,
        /// How many were tried.
        all: usize,
    },
}

/// A step that was attempted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The stage that it belongs to.
    pub stage: Stage,
    /// The command, or the file and its value.
    pub what: String,
    /// The outcome of the step.
    pub outcome: Outcome,
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The change was made.
    Done,
    /// Not done, and it should not be: why.
    Left(String),
    /// The user has to do it.
    ByHand,
    /// It could not be done: why.
    Failed(String),
}

/// One change that can be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    stage: Stage,
    /// The start of the machine that it was made in.
    boot: String,
    #[serde(flatten)]
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Wrote { path: String, before: String, after: String },
    Ran { command: Vec<String>, undo: Vec<String>, made_folder: Option<PathBuf> },
}

/// The file that remembers.
struct Record {
    path: PathBuf,
    changes: Vec<Change>,
}

impl Record {
    fn open(root: &Root, folder: &Path) -> Result<Self, ConfigureError> {
        let path = root.path(folder).join(FILE);
        let wrong = |why: String| ConfigureError::Memory { path: path.clone(), why };
        let changes = match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|e| wrong(format!("not as it was written: {e}")))?,
            Err(error) if error.kind() == ErrorKind::NotFound => vec![],
            Err(error) => return Err(wrong(error.to_string())),
        };
        Ok(Self { path, changes })
    }

    /// Writes it, in one piece; an empty one goes.
    fn save(&self) -> Result<(), Error> {
        if self.changes.is_empty() {
            match fs::remove_file(&self.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            // The folder is removed if empty; otherwise the call fails and it stays.
            let _ = fs::remove_dir(self.path.parent().expect("a file is in a folder"));
            return Ok(());
        }
        let new = self.path.with_extension("new");
        fs::create_dir_all(self.path.parent().expect("a file is in a folder"))?;
        fs::write(&new, serde_json::to_vec_pretty(&self.changes).expect("plain data"))?;
        fs::File::open(&new)?.sync_all()?;
        fs::rename(&new, &self.path)
    }

    fn keep(&self) -> Result<(), ConfigureError> {
        self.save().map_err(|e| ConfigureError::Memory { path: self.path.clone(), why: e.to_string() })
    }

    /// Records a file's previous value; of several writes to one file, only the first.
    fn wrote(&mut self, stage: Stage, boot: &str, file: &str, was: &str, becomes: &str) {
        let same = |change: &&mut Change| {
            change.boot == boot
                && matches!(&change.kind, Kind::Wrote { path, after, .. } if path == file && after == was)
        };
        if let Some(Change { kind: Kind::Wrote { after, .. }, .. }) = self.changes.iter_mut().find(same) {
            *after = becomes.into();
            return;
        }
        let kind = Kind::Wrote { path: file.into(), before: was.into(), after: becomes.into() };
        self.changes.push(Change { stage, boot: boot.into(), kind });
    }
}

/// Applies the possible changes of `stages`, and records them in `folder`. `say` receives each step.
pub fn init(
    root: &Root,
    wants: &MachineRequirements,
    stages: &[Stage],
    folder: &Path,
    say: &mut dyn FnMut(&Step),
) -> Result<(), ConfigureError> {
    let reports = check(root, &Machine::read(root), wants, stages);
    let faults: Vec<(Stage, &Fault)> = reports.iter().flat_map(|r| r.faults.iter().map(|f| (r.stage, f))).collect();
    let (by_hand, ours): (Vec<_>, Vec<_>) =
        faults.into_iter().partition(|(_, fault)| matches!(fault.remedy, Remedy::ByHand(_)));
    let mut record = Record::open(root, folder)?;
    let (mut failed, mut all) = (0, 0);
    if !ours.is_empty() {
        let commands = || ours.iter().map(|(_, fault)| format!("  {}", fault.remedy.command())).collect();
        may_write(root, &ours, &record).map_err(|why| not_permitted(why, commands()))?;
        let boot = root.text(BOOT).unwrap_or_default();
        record.changes.retain(|change| change.boot == boot);
        for (stage, fault) in ours {
            for step in mend(root, &mut record, &boot, stage, &fault.remedy)? {
                all += 1;
                failed += usize::from(matches!(step.outcome, Outcome::Failed(_)));
                say(&step);
            }
        }
    }
    for (stage, fault) in by_hand {
        say(&Step { stage, what: fault.remedy.command(), outcome: Outcome::ByHand });
    }
    if failed > 0 { Err(ConfigureError::Failed { failed, all }) } else { Ok(()) }
}

fn not_permitted(why: String, commands: Vec<String>) -> ConfigureError {
    ConfigureError::NotPermitted { why, commands: commands.join("\n") }
}

/// Whether all files may be written and the record kept, before anything is changed.
fn may_write(root: &Root, faults: &[(Stage, &Fault)], record: &Record) -> Result<(), String> {
    let paths = faults.iter().filter_map(|(_, fault)| match &fault.remedy {
        Remedy::Write { paths, .. } => Some(paths),
        _ => None,
    });
    for path in paths.flatten() {
        may_write_file(root, path)?;
    }
    let folder = record.path.parent().expect("a file is in a folder");
    let probe = folder.join("configure.new");
    let made = fs::create_dir_all(folder).and_then(|()| OpenOptions::new().create(true).append(true).open(&probe));
    made.and_then(|_| fs::remove_file(&probe)).map_err(|error| format!("cannot write in {}: {error}", folder.display()))
}

/// Only missing permission counts: any other problem with a file is the step's own failure.
fn may_write_file(root: &Root, path: &str) -> Result<(), String> {
    match OpenOptions::new().write(true).open(root.path(path)) {
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            Err(format!("cannot write {path}: {error}"))
        }
        _ => Ok(()),
    }
}

fn mend(
    root: &Root,
    record: &mut Record,
    boot: &str,
    stage: Stage,
    remedy: &Remedy,
) -> Result<Vec<Step>, ConfigureError> {
    let step = |what: String, outcome| Step { stage, what, outcome };
    match remedy {
        Remedy::Write { paths, value } => {
            let mut steps = vec![];
            for path in paths {
                let outcome = write(root, record, boot, stage, path, value)?;
                steps.push(step(format!("{path} = {value}"), outcome));
            }
            Ok(steps)
        }
        Remedy::Run { command, undo, folder } => {
            let made = folder.as_ref().filter(|path| !root.path(path).exists());
            let kind = Kind::Ran { command: command.clone(), undo: undo.clone(), made_folder: made.cloned() };
            record.changes.push(Change { stage, boot: boot.into(), kind });
            record.keep()?;
            let folder = made.map_or(Ok(()), |path| fs::create_dir_all(root.path(path)).map_err(|e| e.to_string()));
            let outcome = match folder.and_then(|()| run(root, command)) {
                Ok(()) => Outcome::Done,
                Err(why) => {
                    made.map(|path| fs::remove_dir(root.path(path)));
                    record.changes.pop();
                    record.keep()?;
                    Outcome::Failed(why)
                }
            };
            Ok(vec![step(remedy.command(), outcome)])
        }
        Remedy::ByHand(_) => Ok(vec![]),
    }
}

/// Writes one file, and reads the kernel's resulting value back, since [`fini`] will find that value.
fn write(
    root: &Root,
    record: &mut Record,
    boot: &str,
    stage: Stage,
    path: &str,
    value: &str,
) -> Result<Outcome, ConfigureError> {
    let Some(before) = held(root, path) else { return Ok(Outcome::Failed("it cannot be read".into())) };
    if before == value {
        // Cores that share a policy share a governor: writing the first core's sets the others'.
        return Ok(Outcome::Left("it is so already".into()));
    }
    let remembered = record.changes.clone();
    record.wrote(stage, boot, path, &before, value);
    record.keep()?;
    let error = fs::write(root.path(path), format!("{value}\n")).err();
    let after = held(root, path).unwrap_or_default();
    if after == before {
        record.changes = remembered;
        record.keep()?;
        let why = error.map_or("the kernel takes it and changes nothing".to_owned(), |error| error.to_string());
        return Ok(Outcome::Failed(why));
    }
    if after != value {
        record.changes = remembered;
        record.wrote(stage, boot, path, &before, &after);
        record.keep()?;
    }
    // For huge pages, the kernel allocates as many as it can.
    let short = after.parse::<u64>().ok().zip(value.parse().ok()).is_some_and(|(got, asked)| got < asked);
    Ok(if short { Outcome::Failed(format!("the kernel gave {after}")) } else { Outcome::Done })
}

/// Returns the contents of a kernel file; for a choice, the selected word.
fn held(root: &Root, path: &str) -> Option<String> {
    let text = root.text(path)?;
    Some(chosen(&text).unwrap_or(text))
}

fn run(root: &Root, command: &[String]) -> Result<(), String> {
    let (name, arguments) = command.split_first().expect("a command has a program");
    let program = root.program(name).ok_or_else(|| format!("{name} is not there"))?;
    let output = Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().next().map_or_else(|| format!("{}", output.status), str::to_owned))
}

/// Reverts the changes of [`init`] for `stages` that are recorded in `folder`, in reverse order.
pub fn fini(root: &Root, stages: &[Stage], folder: &Path, say: &mut dyn FnMut(&Step)) -> Result<(), ConfigureError> {
    let mut record = Record::open(root, folder)?;
    let boot = root.text(BOOT).unwrap_or_default();
    let ours = |change: &&Change| stages.contains(&change.stage);
    let changes: Vec<Change> = record.changes.iter().rev().filter(ours).cloned().collect();
    let denied = changes.iter().filter(|change| change.boot == boot).find_map(|change| match &change.kind {
        Kind::Wrote { path, .. } => may_write_file(root, path).err(),
        Kind::Ran { .. } => None,
    });
    if let Some(why) = denied {
        return Err(not_permitted(why, changes.iter().map(|change| format!("  {}", undoing(change))).collect()));
    }
    let (mut failed, all) = (0, changes.len());
    for change in changes {
        let outcome = take_back(root, &boot, &change);
        if matches!(outcome, Outcome::Failed(_)) {
            failed += 1;
        } else {
            record.changes.retain(|other| *other != change);
            record.keep()?;
        }
        let what = match &change.kind {
            Kind::Wrote { path, before, .. } => format!("{path} = {before}"),
            Kind::Ran { undo, .. } => undo.join(" "),
        };
        say(&Step { stage: change.stage, what, outcome });
    }
    if failed > 0 { Err(ConfigureError::Failed { failed, all }) } else { Ok(()) }
}

/// The command that takes a change back.
fn undoing(change: &Change) -> String {
    let remedy = match &change.kind {
        Kind::Wrote { path, before, .. } => Remedy::Write { paths: vec![path.clone()], value: before.clone() },
        Kind::Ran { undo, command, .. } => Remedy::Run { command: undo.clone(), undo: command.clone(), folder: None },
    };
    remedy.command()
}

fn take_back(root: &Root, boot: &str, change: &Change) -> Outcome {
    if change.boot != boot {
        return Outcome::Left("the machine has started again since, and nothing of it is left".into());
    }
    match &change.kind {
        Kind::Wrote { path, before, after } => match held(root, path) {
            None => Outcome::Left("the file is no longer there".into()),
            Some(now) if now == *before => Outcome::Left("it is so already".into()),
            Some(now) if now != *after => Outcome::Left(format!("somebody has set it to {now} since")),
            Some(_) => fs::write(root.path(path), format!("{before}\n"))
                .map_or_else(|error| Outcome::Failed(error.to_string()), |()| Outcome::Done),
        },
        Kind::Ran { command, .. } if !still_is(root, command) => Outcome::Left("somebody has changed it since".into()),
        Kind::Ran { undo, made_folder, .. } => match run(root, undo) {
            Ok(()) => {
                // A folder that is not empty is in use.
                made_folder.as_ref().map(|path| fs::remove_dir(root.path(path)));
                Outcome::Done
            }
            Err(why) => Outcome::Failed(why),
        },
    }
}

/// Whether the effect of a command is still in place, as far as that can be seen.
fn still_is(root: &Root, command: &[String]) -> bool {
    let last = command.last().expect("a command has words");
    match command[0].as_str() {
        "mount" => file_system_of(root, Path::new(last)).as_deref() == Some("hugetlbfs"),
        "ethtool" => ethtool::now(root, command).is_none_or(|now| now == *last),
        _ => true,
    }
}
