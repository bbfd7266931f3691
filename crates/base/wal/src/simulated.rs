//! For tests: a disk that records every step, fails at a chosen one, and computes what a crash of the process or of the
//! machine would have left at any step.
//!
//! A [`SimulatedDisk`] is mounted over a folder. The files there are real, so that stores read what they wrote, but
//! nothing is really synced. It records a [`Trace`] of all steps, from which the disk's contents after a crash before
//! any step follow: one run covers every crash, without being repeated.
//!
//! A process crash keeps every completed write, and perhaps part of the current one. A machine crash keeps each file's
//! last synced contents. Of the later writes any may survive, whole or in sectors and in any order, and of unsynced
//! names the first few.
//!
//! memory  all bytes that were ever written
//! source  "All File Systems Are Not Created Equal" (OSDI 2014): crash states from a trace. LWN, "PostgreSQL's fsync()
//!         surprise" (2018): after a failed sync the kernel marks data clean that it could not write

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Disk, FileSystem, Volume, write_all};

/// Bytes that a disk writes whole or not at all.
const SECTOR: u64 = 512;

/// Contents of the files of a folder, by relative path.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Gives a number below the one that it is given, which is at least 1.
pub type Choose<'a> = &'a mut dyn FnMut(u64) -> u64;

/// One step on the disk. Files have numbers, which stay the same when they are renamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file is made.
    Create {
        /// Number of the file, unique in a run.
        file: u64,
        /// Relative path of the file.
        name: PathBuf,
    },
    /// Writes bytes to a file.
    Write {
        /// Number of the file.
        file: u64,
        /// Offset of the write.
        at: u64,
        /// The bytes that the file took, perhaps fewer than it was given.
        bytes: Vec<u8>,
    },
    /// A file gets a length; new bytes are zeros.
    Cut {
        /// Number of the file.
        file: u64,
        /// Its length from now on.
        length: u64,
    },
    /// Syncs a file's data to stable storage.
    Sync {
        /// Number of the file.
        file: u64,
    },
    /// A sync that fails: data that was not on disk yet never will be.
    FailedSync {
        /// Number of the file.
        file: u64,
    },
    /// A file gets another name.
    Rename {
        /// Its path so far.
        from: PathBuf,
        /// Its path from now on.
        to: PathBuf,
    },
    /// A file is taken away.
    Remove {
        /// Relative path of the file.
        name: PathBuf,
    },
    /// The names in a folder are brought to stable storage.
    SyncDir {
        /// Path of the folder.
        dir: PathBuf,
    },
}

/// Formats the step without its bytes, which may be random: the same for the same run.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { file, name } => write!(f, "create {} as file {file}", name.display()),
            Self::Write { file, at, bytes } => write!(f, "write {} bytes of file {file} at {at}", bytes.len()),
            Self::Cut { file, length } => write!(f, "cut file {file} to {length} bytes"),
            Self::Sync { file } => write!(f, "sync file {file}"),
            Self::FailedSync { file } => write!(f, "fail to sync file {file}"),
            Self::Rename { from, to } => write!(f, "rename {} to {}", from.display(), to.display()),
            Self::Remove { name } => write!(f, "remove {}", name.display()),
            Self::SyncDir { dir } => write!(f, "sync folder {}", dir.display()),
        }
    }
}

/// Kinds of disk faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// One write fails halfway; those after it succeed.
    Write,
    /// One write is done in part, and from then on there is no room until [`SimulatedDisk::heal`].
    Full,
    /// One sync fails; later ones succeed, without writing the data that it should have written.
    Sync,
}

/// A fault, and the first step at which it may happen: it waits for one of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFault {
    /// Index of the step, from 0.
    pub step: usize,
    /// The kind of fault.
    pub kind: FaultKind,
}

/// A disk below one folder; a clone is the same one.
#[derive(Clone)]
pub struct SimulatedDisk(Arc<Shared>);

struct Shared {
    dir: PathBuf,
    state: Mutex<State>,
}

struct State {
    trace: Trace,
    /// The number of the file of each name.
    names: BTreeMap<PathBuf, u64>,
    /// How many files there have been.
    files: u64,
    fault: Option<DiskFault>,
    is_full: bool,
    /// Whether the fault has happened.
    has_failed: bool,
}

impl State {
    fn next(&self) -> usize {
        self.trace.steps.len()
    }

    /// Whether a fault of this kind happens now; it happens once.
    fn fails(&mut self, kind: FaultKind) -> bool {
        let next = self.next();
        let fails = self.fault.take_if(|fault| fault.kind == kind && next >= fault.step).is_some();
        self.has_failed |= fails;
        fails
    }

    fn check_room(&self) -> io::Result<()> {
        if self.is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl SimulatedDisk {
    /// Creates the files of `base` in `dir`. All of them count as synced.
    ///
    /// # Errors
    /// The file system's.
    pub fn new(dir: &Path, base: Files) -> io::Result<Self> {
        lay_out(dir, &base)?;
        let names: BTreeMap<PathBuf, u64> = base.keys().cloned().zip(0..).collect();
        let files = names.len() as u64;
        let trace = Trace { base, steps: Vec::new() };
        let state = State { trace, names, files, fault: None, is_full: false, has_failed: false };
        Ok(Self(Arc::new(Shared { dir: dir.to_owned(), state: Mutex::new(state) })))
    }

    /// From now on waits for this fault.
    pub fn plan(&self, fault: DiskFault) {
        self.0.state.lock().fault = Some(fault);
    }

    /// Whether the fault has happened.
    pub fn has_failed(&self) -> bool {
        self.0.state.lock().has_failed
    }

    /// There is room again.
    pub fn heal(&self) {
        self.0.state.lock().is_full = false;
    }

    /// How many steps were done.
    pub fn steps(&self) -> usize {
        self.0.state.lock().next()
    }

    /// The trace of all steps so far.
    pub fn trace(&self) -> Trace {
        self.0.state.lock().trace.clone()
    }

    fn name(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.0.dir).expect("it is mounted above").to_owned()
    }

    fn file(&self, number: u64, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        Arc::new(SimulatedFile { on: self.0.clone(), number, disk })
    }
}

impl Volume for SimulatedDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        let mut state = self.0.state.lock();
        state.check_room()?;
        let (disk, name) = (FileSystem.create(path)?, self.name(path));
        let file = state.files;
        state.files += 1;
        state.names.insert(name.clone(), file);
        state.trace.steps.push(Step::Create { file, name });
        Ok(self.file(file, disk))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        let number = self.0.state.lock().names.get(&self.name(path)).copied();
        let number = number.ok_or(io::ErrorKind::NotFound)?;
        Ok(self.file(number, FileSystem.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.state.lock();
        FileSystem.rename(from, to)?;
        let (from, to) = (self.name(from), self.name(to));
        rename(&mut state.names, &from, &to);
        state.trace.steps.push(Step::Rename { from, to });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.state.lock();
        FileSystem.remove(path)?;
        let name = self.name(path);
        state.names.remove(&name);
        state.trace.steps.push(Step::Remove { name });
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = self.name(dir);
        self.0.state.lock().trace.steps.push(Step::SyncDir { dir });
        Ok(())
    }
}

fn rename(names: &mut BTreeMap<PathBuf, u64>, from: &Path, to: &Path) {
    if let Some(file) = names.remove(from) {
        names.insert(to.to_owned(), file);
    }
}

struct SimulatedFile {
    on: Arc<Shared>,
    number: u64,
    disk: Arc<dyn Disk>,
}

impl Disk for SimulatedFile {
    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<usize> {
        let mut bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let mut state = self.on.state.lock();
        state.check_room()?;
        let fails = state.fails(FaultKind::Write);
        let fills = !fails && state.fails(FaultKind::Full);
        if fails || fills {
            bytes.truncate(bytes.len() / 2);
        }
        state.is_full |= fills;
        write_all(&*self.disk, &mut [IoSlice::new(&bytes)], at)?;
        let count = bytes.len();
        if count > 0 {
            state.trace.steps.push(Step::Write { file: self.number, at, bytes });
        }
        match () {
            () if fails => Err(io::Error::other("the simulated disk does not write")),
            () if fills && count == 0 => Err(io::ErrorKind::StorageFull.into()),
            () => Ok(count),
        }
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        let mut state = self.on.state.lock();
        self.disk.cut(length)?;
        state.trace.steps.push(Step::Cut { file: self.number, length });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.on.state.lock();
        let file = self.number;
        if state.fails(FaultKind::Sync) {
            state.trace.steps.push(Step::FailedSync { file });
            return Err(io::Error::other("the simulated disk does not sync"));
        }
        state.trace.steps.push(Step::Sync { file });
        Ok(())
    }
}

/// The steps performed on a disk, and its initial contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Initial contents, all synced.
    pub base: Files,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A file's bytes as an end of the machine finds them.
#[derive(Clone, Default)]
struct Content {
    durable: Vec<u8>,
    /// Writes and cuts since.
    unsynced: Vec<Step>,
}

impl Trace {
    /// Returns the files after a process crash before step `count`; `is_torn`: in the middle of it, if it is a write.
    pub fn after_kill(&self, count: usize, is_torn: bool) -> Files {
        let (mut names, mut contents) = self.begin();
        for step in &self.steps[..count] {
            apply_name(&mut names, step);
            apply_bytes(&mut contents, step);
        }
        if is_torn && let Some(Step::Write { file, at, bytes }) = self.steps.get(count) {
            put(contents.entry(*file).or_default(), *at, &bytes[..bytes.len() / 2]);
        }
        let bytes = |file: &u64| contents.get(file).cloned().unwrap_or_default();
        names.iter().map(|(name, file)| (name.clone(), bytes(file))).collect()
    }

    /// Returns the files after a power loss before step `count`; `choose` selects which unsynced data survives.
    pub fn after_power_loss(&self, count: usize, choose: Choose<'_>) -> Files {
        let (mut names, contents) = self.begin();
        let durable = |(file, durable)| (file, Content { durable, unsynced: Vec::new() });
        let mut contents: BTreeMap<u64, Content> = contents.into_iter().map(durable).collect();
        let mut unsynced: Vec<&Step> = Vec::new();
        for step in &self.steps[..count] {
            match step {
                Step::Create { .. } | Step::Rename { .. } | Step::Remove { .. } => unsynced.push(step),
                Step::Write { file, .. } | Step::Cut { file, .. } => {
                    contents.entry(*file).or_default().unsynced.push(step.clone());
                }
                Step::Sync { file } => contents.entry(*file).or_default().settle(),
                Step::FailedSync { file } => contents.entry(*file).or_default().unsynced.clear(),
                Step::SyncDir { dir } => unsynced.retain(|step| {
                    let is_there = folder(step) == Some(dir.as_path());
                    if is_there {
                        apply_name(&mut names, step);
                    }
                    !is_there
                }),
            }
        }
        let survive = choose(unsynced.len() as u64 + 1) as usize;
        unsynced[..survive].iter().for_each(|step| apply_name(&mut names, step));
        let mut files = Files::new();
        for (name, file) in names {
            let bytes = contents.get(&file).map(|content| content.remains(choose)).unwrap_or_default();
            files.insert(name, bytes);
        }
        files
    }

    fn begin(&self) -> (BTreeMap<PathBuf, u64>, BTreeMap<u64, Vec<u8>>) {
        let names = self.base.keys().cloned().zip(0..).collect();
        (names, (0..).zip(self.base.values().cloned()).collect())
    }
}

impl Content {
    fn settle(&mut self) {
        let unsynced = std::mem::take(&mut self.unsynced);
        unsynced.iter().for_each(|step| apply(&mut self.durable, step));
    }

    /// Returns the contents of a file after a power loss.
    fn remains(&self, choose: Choose<'_>) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        match choose(4) {
            0 => {}
            1 => self.unsynced.iter().for_each(|step| apply(&mut bytes, step)),
            // The first few, and of the next one its first sectors.
            2 => {
                let whole = choose(self.unsynced.len() as u64 + 1) as usize;
                self.unsynced[..whole].iter().for_each(|step| apply(&mut bytes, step));
                if let Some(Step::Write { at, bytes: torn, .. }) = self.unsynced.get(whole) {
                    let sectors = sectors(*at, torn);
                    let survive = choose(sectors.len() as u64 + 1) as usize;
                    sectors[..survive].iter().for_each(|(at, sector)| put(&mut bytes, *at, sector));
                }
            }
            // Each sector survives or is lost independently.
            _ => {
                for step in &self.unsynced {
                    match step {
                        Step::Write { at, bytes: written, .. } => {
                            let survivors = sectors(*at, written).into_iter().filter(|_| choose(2) == 0);
                            survivors.for_each(|(at, sector)| put(&mut bytes, at, sector));
                        }
                        other => apply(&mut bytes, other),
                    }
                }
                if choose(2) == 0 {
                    // The length was noted before the bytes were there.
                    let mut whole = self.clone();
                    whole.settle();
                    let length = whole.durable.len().max(bytes.len());
                    bytes.resize(length, 0);
                }
            }
        }
        bytes
    }
}

/// Returns the folder whose names a step changes.
fn folder(step: &Step) -> Option<&Path> {
    match step {
        Step::Create { name, .. } | Step::Remove { name } | Step::Rename { to: name, .. } => name.parent(),
        _ => None,
    }
}

fn apply_name(names: &mut BTreeMap<PathBuf, u64>, step: &Step) {
    match step {
        Step::Create { file, name } => {
            names.insert(name.clone(), *file);
        }
        Step::Rename { from, to } => rename(names, from, to),
        Step::Remove { name } => {
            names.remove(name);
        }
        _ => {}
    }
}

fn apply_bytes(contents: &mut BTreeMap<u64, Vec<u8>>, step: &Step) {
    if let Step::Write { file, .. } | Step::Cut { file, .. } = step {
        apply(contents.entry(*file).or_default(), step);
    }
}

fn apply(content: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Write { at, bytes, .. } => put(content, *at, bytes),
        Step::Cut { length, .. } => content.resize(*length as usize, 0),
        _ => {}
    }
}

fn put(content: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let begin = at as usize;
    let end = begin + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[begin..end].copy_from_slice(bytes);
}

/// The bytes that are written at an offset, sector by sector.
fn sectors(mut at: u64, mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut sectors = Vec::new();
    while !bytes.is_empty() {
        let count = (SECTOR - at % SECTOR).min(bytes.len() as u64);
        let (sector, rest) = bytes.split_at(count as usize);
        sectors.push((at, sector));
        at += count;
        bytes = rest;
    }
    sectors
}

/// Writes these files below `dir`.
///
/// # Errors
/// The file system's.
pub fn lay_out(dir: &Path, files: &Files) -> io::Result<()> {
    for (name, bytes) in files {
        let path = dir.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
