//! observer: a view of a workspace from outside: another process, another user, while the node runs or after it
//! crashed.
//!
//! reads   a workspace file, mapped read-only; it may be torn or hostile, so nothing in it is trusted
//! writes  nothing, not even a lock
//! memory  copies of the directory and the topology, which the file's size limits

use crate::directory::{self, Directory, LinkEntry, header};
use crate::error::WorkspaceError;
use crate::file::is_locked;
use crate::lines::{ConsumerLines, ProducerLines};
use crate::map::Region;
use crate::protocol::{Entry, load_words, read_entry};
use crate::sync::{AtomicU64, Ordering};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Maximum frags by which a ring may be ahead of its producer's published number: twice the publishing interval.
const WALK_MAX: u64 = 128;

/// A read-only view of a workspace.
///
/// The file is mapped: its owner can crash the observer by truncating it. Nodes never do.
#[derive(Debug)]
pub struct Observer {
    region: Region,
    file: File,
    directory: Directory,
    topology: Vec<u8>,
    pid: u32,
    started_unix_ns: u64,
}

/// A snapshot of one link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkView {
    /// The link's name in the plan, unique in the workspace.
    pub name: String,
    /// Maximum frags in flight.
    pub depth: u32,
    /// Maximum bytes of a payload.
    pub mtu: u32,
    /// Frags published so far.
    pub producer_seq: u64,
    /// Its consumers, in the order of the plan.
    pub consumers: Vec<ConsumerView>,
}

/// One consumer of a link, as of its last release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerView {
    /// The consumer's name in the plan, unique on the link.
    pub name: String,
    /// Whether the producer waits for it.
    pub reliable: bool,
    /// All frags below this are consumed or lost.
    pub seq: u64,
    /// Frags lost because they were overtaken before their metadata was read.
    pub overrun_poll: u64,
    /// Frags lost because they were overtaken while their payload was read.
    pub overrun_read: u64,
    /// How often the producer lacked credits because of this consumer.
    pub slow: u64,
    /// Frags that it skipped unread.
    pub filtered: u64,
    /// Payload bytes that it read.
    pub bytes: u64,
}

impl Observer {
    /// Maps the workspace at `path` read-only.
    pub fn attach(path: &Path) -> Result<Self, WorkspaceError> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let file = file.map_err(|e| WorkspaceError::io(path, "open the workspace", e))?;
        let found = file.metadata().map_err(|e| WorkspaceError::io(path, "look at the workspace", e))?;
        if !found.is_file() || found.len() < crate::plan::HEADER {
            return Err(WorkspaceError::NotWorkspace { path: path.to_owned() });
        }
        let region =
            Region::map(&file, found.len(), false).map_err(|e| WorkspaceError::io(path, "map the workspace", e))?;
        let torn = |what| WorkspaceError::Torn { path: path.to_owned(), what };
        let words = words(&region, 0, header::WORDS as u64).ok_or_else(|| torn("no header"))?;
        let word = |position: usize| words[position].load(Ordering::Relaxed);
        if words[header::MAGIC].load(Ordering::Acquire) != directory::MAGIC {
            return Err(WorkspaceError::NotWorkspace { path: path.to_owned() });
        }
        if word(header::VERSION) != u64::from(directory::VERSION) {
            let found = u32::try_from(word(header::VERSION)).unwrap_or(u32::MAX);
            return Err(WorkspaceError::Version { path: path.to_owned(), found, expected: directory::VERSION });
        }
        if word(header::SIZE) != region.size() {
            return Err(torn("its size is not what its header says"));
        }
        let listed = bytes(&region, word(header::DIRECTORY), word(header::DIRECTORY_SIZE));
        let listed = listed.ok_or_else(|| torn("the directory is outside the file"))?;
        let topology = bytes(&region, word(header::TOPOLOGY), word(header::TOPOLOGY_SIZE));
        let topology = topology.ok_or_else(|| torn("the topology is outside the file"))?;
        let directory = directory::decode(&listed, region.size()).map_err(torn)?;
        let pid = u32::try_from(word(header::PID)).map_err(|_| torn("the process number is out of range"))?;
        let started_unix_ns = word(header::STARTED_UNIX_NS);
        Ok(Self { region, file, directory, topology, pid, started_unix_ns })
    }

    /// The opaque bytes of [`WorkspacePlan::topology`](crate::WorkspacePlan::topology).
    pub fn topology(&self) -> &[u8] {
        &self.topology
    }

    /// Returns every link with its counts, in the order of the plan.
    pub fn links(&self) -> Vec<LinkView> {
        self.directory.links.iter().map(|link| self.link(link)).collect()
    }

    /// Returns the link with this index in the plan.
    pub fn link_at(&self, index: usize) -> Option<LinkView> {
        self.directory.links.get(index).map(|link| self.link(link))
    }

    /// Returns the counters region called `name`. It is mapped read-only: load from it, never store.
    pub fn counters(&self, name: &str) -> Option<&[AtomicU64]> {
        self.counters_at(self.counter_names().position(|region| region == name)?)
    }

    /// Like [`Observer::counters`], for the region with this index in [`Observer::counter_names`].
    pub fn counters_at(&self, index: usize) -> Option<&[AtomicU64]> {
        let region = self.directory.counters.get(index)?;
        words(&self.region, region.start, region.words)
    }

    /// The names of the counters regions, in the order of the plan.
    pub fn counter_names(&self) -> impl Iterator<Item = &str> {
        self.directory.counters.iter().map(|region| region.name.as_str())
    }

    /// Whether the node that created this workspace is still running.
    pub fn is_alive(&self) -> bool {
        is_locked(&self.file)
    }

    /// The node's process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// When the workspace was created, in nanoseconds since 1970.
    pub fn started_unix_ns(&self) -> u64 {
        self.started_unix_ns
    }

    fn link(&self, link: &LinkEntry) -> LinkView {
        let consumers = link.consumers.iter().map(|consumer| {
            // SAFETY: used within this function; other processes write this range by atomics only.
            let lines = unsafe {
                &self.region.slice::<ConsumerLines>(consumer.lines, 1).expect("the directory was checked")[0]
            };
            // Read before the counts, so that these are at least as new.
            let seq = lines.progress.load(Ordering::Acquire);
            let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
            ConsumerView {
                name: consumer.name.clone(),
                reliable: consumer.reliable,
                seq,
                overrun_poll: load(&lines.overrun_poll),
                overrun_read: load(&lines.overrun_read),
                slow: load(&lines.slow),
                filtered: load(&lines.filtered),
                bytes: load(&lines.bytes),
            }
        });
        let consumers = consumers.collect();
        LinkView {
            name: link.name.clone(),
            depth: link.depth,
            mtu: link.mtu,
            producer_seq: self.producer_seq(link),
            consumers,
        }
    }

    /// The producer publishes its sequence number from time to time; the ring entries provide the rest.
    fn producer_seq(&self, link: &LinkEntry) -> u64 {
        // SAFETY: used within this function; other processes write these ranges by atomics only.
        let (shared, entries) = unsafe {
            (
                self.region.slice::<ProducerLines>(link.start, 1),
                self.region.slice::<Entry>(link.entries, link.depth as usize),
            )
        };
        let (shared, entries) =
            (shared.expect("the directory was checked"), entries.expect("the directory was checked"));
        let published = shared[0].seq.load(Ordering::Acquire);
        (0..WALK_MAX)
            .map(|step| published.wrapping_add(step))
            .find(|&seq| read_entry(entries, seq).is_none())
            .unwrap_or(published.wrapping_add(WALK_MAX))
    }
}

fn words(region: &Region, offset: u64, count: u64) -> Option<&[AtomicU64]> {
    // SAFETY: the result borrows the region; other processes write it by atomics only.
    unsafe { region.slice(offset, usize::try_from(count).ok()?) }
}

fn bytes(region: &Region, offset: u64, size: u64) -> Option<Vec<u8>> {
    let size = usize::try_from(size).ok()?;
    let count = size.div_ceil(8);
    let words = words(region, offset, count as u64)?;
    let mut copy = vec![[0; 8]; count];
    load_words(words, &mut copy);
    let mut copy = copy.into_flattened();
    copy.truncate(size);
    Some(copy)
}
