//! workspace: a workspace that this process creates or has a part of, and from which its tiles take their ends of
//! links by [`Workspace::producer`] and [`Workspace::consumer`], which are defined with these ends.
//!
//! reads   a plan
//! writes  the workspace file, removed when the last handle is dropped
//! memory  [`WorkspacePlan::size`] bytes, shared

use crate::directory::{self, header};
use crate::error::WorkspaceError;
use crate::file::LockedFile;
use crate::map::{Region, Shared};
use crate::plan::{Layout, LinkLayout, LinkPlan, WorkspacePlan};
use crate::protocol::{Entry, initial_seq};
use crate::sync::{AtomicU64, Ordering};
use crate::unix_time::unix_time;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

/// The default folder for the workspaces of this machine's nodes: files in memory.
pub const WORKSPACE_FOLDER: &str = "/dev/shm";

/// Returns the workspace file of the node with this name, where observers look for it.
pub fn workspace_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("hearth-{name}"))
}

/// A workspace held by this process. Clones share it; the file is removed when the last clone, producer, consumer and
/// counters handle is dropped. After a crash it stays, for observers, until the next node with that path starts.
#[derive(Clone, Debug)]
pub struct Workspace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // Dropped in this order: unmapped, then unlinked and unlocked.
    region: Region,
    _file: Option<LockedFile>,
    path: PathBuf,
    plan: WorkspacePlan,
    layout: Layout,
    taken: Mutex<HashSet<(usize, Option<usize>)>>,
}

impl Workspace {
    /// Creates the workspace file at `path` with mode 0644, replacing one whose node no longer runs.
    ///
    /// The file is complete when it appears at `path`. All its space is reserved first, so a full file system is
    /// [`WorkspaceError::NoRoom`] and never a signal later. A running node there is [`WorkspaceError::InUse`].
    pub fn create(path: &Path, plan: &WorkspacePlan) -> Result<Self, WorkspaceError> {
        plan.check()?;
        let layout = Layout::of(plan);
        let mut file = LockedFile::reserve(path, layout.size, plan.huge_pages)?;
        let region =
            Region::map(&file.file, layout.size, true).map_err(|e| WorkspaceError::io(path, "map the workspace", e))?;
        region.populate();
        let workspace = Self::laid_out(region, path, plan, layout);
        workspace.initialise(&plan.topology, std::process::id(), unix_time().as_nanos() as u64);
        file.appear(path)?;
        let mut inner = Arc::into_inner(workspace.0).expect("nobody else has it yet");
        inner._file = Some(file);
        Ok(Self(Arc::new(inner)))
    }

    /// Maps the parts of another process's workspace that its plan [shares](crate::SharePlan), and nothing else of the
    /// file. The plan must be the one that the workspace was created with, and ends of links that this process takes
    /// must not be taken there.
    ///
    /// `read` and `write` are the file at `path`, opened for reading and for both: what may only be read is mapped from
    /// `read`, so that nothing can make it writable. Both may be closed afterwards.
    pub fn attach(path: &Path, read: &File, write: &File, plan: &WorkspacePlan) -> Result<Self, WorkspaceError> {
        plan.check()?;
        let layout = Layout::of(plan);
        let Some(shared) = &layout.shared else {
            return Err(WorkspaceError::Unknown { what: "part for another process".to_owned() });
        };
        for file in [read, write] {
            let found = file.metadata().map_err(|e| WorkspaceError::io(path, "look at the workspace", e))?;
            if found.len() != layout.size {
                return Err(WorkspaceError::Torn { path: path.to_owned(), what: "its size is not that of its plan" });
            }
        }
        let parts = [(read, shared.read.clone(), false), (write, shared.written.clone(), true)];
        let region = Region::map_parts(layout.size, plan.huge_pages.page_size(), &parts)
            .map_err(|e| WorkspaceError::io(path, "map parts of the workspace", e))?;
        Ok(Self::laid_out(region, path, plan, layout))
    }

    /// A workspace in plain memory of this process, without a file and so without observers: for simulations of many
    /// nodes, and for tests.
    pub fn in_heap(plan: &WorkspacePlan) -> Result<Self, WorkspaceError> {
        plan.check()?;
        let layout = Layout::of(plan);
        let workspace = Self::laid_out(Region::heap(layout.size), Path::new("heap"), plan, layout);
        workspace.initialise(&plan.topology, 0, 0);
        Ok(workspace)
    }

    /// Path of the workspace file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the counters region called `name`; any number of handles may be taken.
    pub fn counters(&self, name: &str) -> Result<Counters, WorkspaceError> {
        let position = self.0.plan.counters.iter().position(|plan| plan.name == name);
        let position = position.ok_or_else(|| WorkspaceError::Unknown { what: format!("counters region {name}") })?;
        Ok(Counters { workspace: self.clone(), position })
    }

    fn laid_out(region: Region, path: &Path, plan: &WorkspacePlan, layout: Layout) -> Self {
        let plan = WorkspacePlan { topology: vec![], ..plan.clone() };
        let taken = Mutex::default();
        Self(Arc::new(Inner { region, _file: None, path: path.to_owned(), plan, layout, taken }))
    }

    fn initialise(&self, topology: &[u8], pid: u32, started_unix_ns: u64) {
        let (plan, layout) = (&self.0.plan, &self.0.layout);
        self.store_bytes(crate::plan::HEADER, &directory::encode(plan, layout));
        self.store_bytes(layout.topology, topology);
        for (link, place) in plan.links.iter().zip(&layout.links) {
            // SAFETY: used within this function; only ever used as atomics.
            let entries = unsafe { self.slice::<Entry>(place.entries, link.depth as usize) };
            for (index, entry) in entries.iter().enumerate() {
                entry.0[0].store(initial_seq(index, entries.len()), Ordering::Relaxed);
            }
        }
        // SAFETY: used within this function; only ever used as atomics.
        let words = unsafe { self.slice::<AtomicU64>(0, header::WORDS) };
        let set = |word: usize, value: u64| words[word].store(value, Ordering::Relaxed);
        set(header::VERSION, u64::from(directory::VERSION));
        set(header::SIZE, layout.size);
        set(header::PID, u64::from(pid));
        set(header::STARTED_UNIX_NS, started_unix_ns);
        set(header::DIRECTORY, crate::plan::HEADER);
        set(header::DIRECTORY_SIZE, layout.directory_size);
        set(header::TOPOLOGY, layout.topology);
        set(header::TOPOLOGY_SIZE, topology.len() as u64);
        words[header::MAGIC].store(directory::MAGIC, Ordering::Release);
    }

    fn store_bytes(&self, offset: u64, bytes: &[u8]) {
        // SAFETY: used within this function; only ever used as atomics.
        let words = unsafe { self.slice::<AtomicU64>(offset, bytes.len().div_ceil(8)) };
        crate::protocol::store_words(words, bytes);
    }

    /// Returns a link's index and its plan.
    pub(crate) fn link(&self, name: &str) -> Result<(usize, &LinkPlan), WorkspaceError> {
        let found = self.0.plan.links.iter().enumerate().find(|(_, link)| link.name == name);
        found.ok_or_else(|| WorkspaceError::Unknown { what: format!("link {name}") })
    }

    /// Returns the offsets of the parts of a link.
    pub(crate) fn layout_of(&self, link: usize) -> &LinkLayout {
        &self.0.layout.links[link]
    }

    /// Marks an end of a link, the producer's or a consumer's, as taken, which can be done once.
    pub(crate) fn take(
        &self,
        link: usize,
        consumer: Option<usize>,
        what: impl Fn() -> String,
    ) -> Result<(), WorkspaceError> {
        let fresh = self.0.taken.lock().insert((link, consumer));
        if fresh { Ok(()) } else { Err(WorkspaceError::Taken { what: what() }) }
    }

    /// Returns the start of a link's payloads.
    pub(crate) fn payload(&self, link: usize) -> NonNull<u8> {
        let size = self.0.plan.links[link].payload_size() as usize;
        self.0.region.start_of(self.0.layout.links[link].payload, size).expect("the layout lies inside the region")
    }

    /// # Safety
    /// The caller must keep the workspace alive as long as the slice, and the range may only ever be used as atomics.
    pub(crate) unsafe fn slice<T: Shared>(&self, offset: u64, count: usize) -> &'static [T] {
        // SAFETY: passed on to our caller.
        unsafe { self.0.region.slice(offset, count) }.expect("the layout lies inside the region")
    }
}

/// A region of 64-bit counters, each written by one thread, readable by all and by observers.
#[derive(Clone, Debug)]
pub struct Counters {
    workspace: Workspace,
    position: usize,
}

impl Counters {
    /// The counters, initially zero.
    pub fn words(&self) -> &[AtomicU64] {
        let inner = &self.workspace.0;
        // SAFETY: the returned borrow keeps `self` and so the workspace; the range is only ever used as atomics.
        let words = unsafe {
            inner.region.slice(inner.layout.counters[self.position], inner.plan.counters[self.position].words)
        };
        words.expect("the layout lies inside the region")
    }
}
