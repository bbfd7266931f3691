//! plan: what a workspace holds, and at which offset in the file each part is.
//!
//! reads   a plan, which the topology derives from the configuration
//! writes  offsets, all multiples of 128 bytes so that no two writers share a pair of cache lines
//! memory  a few hundred bytes per link

use crate::error::WorkspaceError;
use std::collections::HashSet;
use std::ops::Range;

/// Bytes in a chunk, the unit of payload addresses.
pub(crate) const CHUNK: usize = 64;
/// Every part starts at a multiple of this: two cache lines, since processors prefetch neighbours in pairs.
pub(crate) const ALIGN: u64 = 128;
/// Bytes of the header at the start of the file.
pub(crate) const HEADER: u64 = 4096;
/// Bytes of the lines that the producer keeps for observers.
pub(crate) const PRODUCER_LINES: u64 = 128;
/// Bytes of the lines that a consumer and its producer keep about each other.
pub(crate) const CONSUMER_LINES: u64 = 256;
/// Bytes of one ring entry.
pub(crate) const ENTRY: u64 = 32;
/// Maximum entries of a ring.
const DEPTH_MAX: u32 = 1 << 26;
/// Maximum bytes of a name.
const NAME_MAX: usize = 255;

/// Everything that a workspace contains.
#[derive(Clone, Debug, Default)]
pub struct WorkspacePlan {
    /// The links, each with its own ring and payload region.
    pub links: Vec<LinkPlan>,
    /// Regions of 64-bit counters.
    pub counters: Vec<CountersPlan>,
    /// Opaque bytes for observers: the node's description of itself.
    pub topology: Vec<u8>,
    /// The kind of pages to use.
    pub huge_pages: HugePages,
    /// The parts that another process maps, if one does.
    pub share: Option<SharePlan>,
}

/// The parts of a workspace that another process maps, without the rest of the file: they are on pages of their own.
///
/// Of a link that it reads, metadata and payloads are on pages that it maps read-only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharePlan {
    /// Names of the links that it reads, as their only consumer.
    pub reads: Vec<String>,
    /// Names of the links that it writes.
    pub writes: Vec<String>,
    /// Names of the counters regions that it writes.
    pub counters: Vec<String>,
}

/// One link: a producer, its ring and payloads, and its consumers.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// `producer_consumer`, unique in the workspace, 1 to 255 bytes.
    pub name: String,
    /// Frags in flight: a power of two from 2 to 2²⁶.
    pub depth: u32,
    /// Maximum bytes of a payload, at most 65,535.
    pub mtu: u32,
    /// The consumers, each of which gets every frag.
    pub consumers: Vec<ConsumerPlan>,
}

/// One consumer of a link.
#[derive(Clone, Debug)]
pub struct ConsumerPlan {
    /// Unique among the consumers of the link, 1 to 255 bytes.
    pub name: String,
    /// Whether the producer waits for it (`true`) or may overtake it.
    pub reliable: bool,
}

/// A region of counters.
#[derive(Clone, Debug)]
pub struct CountersPlan {
    /// Unique among the regions, 1 to 255 bytes.
    pub name: String,
    /// Number of 64-bit words.
    pub words: usize,
}

/// The pages that hold the workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// The system's own pages; the path is usually in `/dev/shm`.
    #[default]
    None,
    /// 2 MiB pages; the path must be on a hugetlbfs of that page size.
    TwoMiB,
    /// 1 GiB pages; the path must be on a hugetlbfs of that page size.
    OneGiB,
}

impl HugePages {
    /// Size of a page in bytes; 4096 for [`HugePages::None`].
    pub fn page_size(self) -> u64 {
        match self {
            Self::None => 4096,
            Self::TwoMiB => 2 << 20,
            Self::OneGiB => 1 << 30,
        }
    }
}

impl WorkspacePlan {
    /// Size of the workspace file in bytes, rounded up to whole pages.
    pub fn size(&self) -> u64 {
        Layout::of(self).size
    }

    /// Each part's name and size; the sizes sum to [`WorkspacePlan::size`].
    pub fn parts(&self) -> Vec<(String, u64)> {
        let layout = Layout::of(self);
        let topology = aligned(self.topology.len() as u64);
        let mut parts = vec![
            ("header and directory".to_owned(), HEADER + aligned(layout.directory_size)),
            ("topology".to_owned(), topology),
        ];
        parts.extend(self.links.iter().map(|link| (format!("link {}", link.name), link.size())));
        parts.extend(self.counters.iter().map(|region| (format!("counters {}", region.name), region.size())));
        let sum: u64 = parts.iter().map(|(_, size)| size).sum();
        parts.push(("rounding to whole pages".to_owned(), layout.size - sum));
        parts
    }

    pub(crate) fn check(&self) -> Result<(), WorkspaceError> {
        let mut links = HashSet::new();
        for link in &self.links {
            let name = &link.name;
            check_name("link", name, &mut links)?;
            if !link.depth.is_power_of_two() || !(2..=DEPTH_MAX).contains(&link.depth) {
                return refuse(format!(
                    "link {name}: depth {} is not a power of two from 2 to {DEPTH_MAX}",
                    link.depth
                ));
            }
            if link.mtu > u32::from(u16::MAX) {
                return refuse(format!("link {name}: mtu {} is over 65,535", link.mtu));
            }
            if (u64::from(link.depth) + 1) * link.stride() > u64::from(u32::MAX) {
                return refuse(format!("link {name}: {} payloads of {} bytes are over 256 GiB", link.depth, link.mtu));
            }
            let mut consumers = HashSet::new();
            for consumer in &link.consumers {
                check_name("consumer", &consumer.name, &mut consumers)?;
            }
        }
        let mut regions = HashSet::new();
        for region in &self.counters {
            check_name("counters region", &region.name, &mut regions)?;
        }
        if let Some(share) = &self.share {
            share.check(&links, &regions)?;
        }
        if self.size() > i64::MAX as u64 {
            return refuse(format!("{} bytes in all are more than a file can have", self.size()));
        }
        Ok(())
    }
}

impl LinkPlan {
    /// Chunks from one payload slot to the next. Odd, so that slots whose size is a power of two spread over all cache
    /// sets.
    pub(crate) fn stride(&self) -> u64 {
        u64::from(self.mtu).div_ceil(CHUNK as u64) | 1
    }

    /// Bytes of the payload region: for the last `depth` frags and the one in preparation.
    pub(crate) fn payload_size(&self) -> u64 {
        (u64::from(self.depth) + 1).saturating_mul(self.stride()).saturating_mul(CHUNK as u64)
    }

    /// Bytes of all its parts in the file.
    fn size(&self) -> u64 {
        let lines = PRODUCER_LINES + self.consumers.len() as u64 * CONSUMER_LINES;
        lines + aligned(u64::from(self.depth) * ENTRY) + aligned(self.payload_size())
    }
}

impl CountersPlan {
    /// Bytes in the file.
    fn size(&self) -> u64 {
        aligned((self.words as u64).saturating_mul(8))
    }
}

impl SharePlan {
    /// Checks that the workspace has each part, and that no link is both read and written.
    fn check(&self, links: &HashSet<&str>, counters: &HashSet<&str>) -> Result<(), WorkspaceError> {
        let shared = self.reads.iter().chain(&self.writes);
        let absent = shared.filter(|name| !links.contains(name.as_str()));
        let absent = absent.chain(self.counters.iter().filter(|name| !counters.contains(name.as_str()))).next();
        if let Some(name) = absent {
            return refuse(format!("{name} is shared with another process, and not there"));
        }
        match self.reads.iter().find(|name| self.writes.contains(name)) {
            Some(name) => refuse(format!("link {name}: another process reads and writes it")),
            None => Ok(()),
        }
    }

    fn access(&self, link: &str) -> Option<Access> {
        let is_in = |names: &[String]| names.iter().any(|name| name == link);
        match (is_in(&self.reads), is_in(&self.writes)) {
            (true, _) => Some(Access::Reads),
            (_, true) => Some(Access::Writes),
            _ => None,
        }
    }
}

/// The access of another process to a link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Reads,
    Writes,
}

fn check_name<'a>(what: &str, name: &'a str, seen: &mut HashSet<&'a str>) -> Result<(), WorkspaceError> {
    if name.is_empty() || name.len() > NAME_MAX {
        return refuse(format!("{what} name {name:?} does not have 1 to {NAME_MAX} bytes"));
    }
    if !seen.insert(name) {
        return refuse(format!("two of the same {what} name {name:?}"));
    }
    Ok(())
}

fn refuse(reason: String) -> Result<(), WorkspaceError> {
    Err(WorkspaceError::Plan { reason })
}

/// Offsets of the parts of one link.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkLayout {
    pub(crate) start: u64,
    pub(crate) entries: u64,
    pub(crate) payload: u64,
    pub(crate) consumers: Vec<u64>,
}

/// Offsets of every part of a workspace.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) directory_size: u64,
    pub(crate) topology: u64,
    pub(crate) links: Vec<LinkLayout>,
    pub(crate) counters: Vec<u64>,
    /// The ranges that another process maps, if one does.
    pub(crate) shared: Option<SharedRanges>,
    pub(crate) size: u64,
}

/// Ranges of the file that another process maps: whole pages, which hold nothing else.
#[derive(Clone, Debug)]
pub(crate) struct SharedRanges {
    pub(crate) read: Range<u64>,
    pub(crate) written: Range<u64>,
}

impl Layout {
    pub(crate) fn of(plan: &WorkspacePlan) -> Self {
        let directory_size = directory_size(plan);
        let mut place = LayoutCursor(HEADER);
        place.take(directory_size);
        let topology = place.take(plan.topology.len() as u64);
        let mut links = vec![LinkLayout::default(); plan.links.len()];
        let mut counters = vec![0; plan.counters.len()];
        let page = plan.huge_pages.page_size();
        let access = |link: &LinkPlan| plan.share.as_ref().and_then(|share| share.access(&link.name));
        let is_shared =
            |region: &CountersPlan| plan.share.as_ref().is_some_and(|share| share.counters.contains(&region.name));
        for (link, at) in plan.links.iter().zip(&mut links) {
            match access(link) {
                None => at.take(link, &mut place),
                // The producer's lines are for observers: the other process does not need them.
                Some(Access::Reads) => at.start = place.take(PRODUCER_LINES),
                Some(Access::Writes) => {}
            }
        }
        for (region, at) in plan.counters.iter().zip(&mut counters).filter(|(region, _)| !is_shared(region)) {
            *at = place.take(region.size());
        }
        let shared = plan.share.is_some().then(|| {
            let read = place.pages(page, |place| {
                for (link, at) in plan.links.iter().zip(&mut links).filter(|(l, _)| access(l) == Some(Access::Reads)) {
                    at.take_frags(link, place);
                }
            });
            let written = place.pages(page, |place| {
                for (link, at) in plan.links.iter().zip(&mut links) {
                    match access(link) {
                        None => {}
                        Some(Access::Reads) => at.take_consumers(link, place),
                        Some(Access::Writes) => at.take(link, place),
                    }
                }
                for (region, at) in plan.counters.iter().zip(&mut counters).filter(|(region, _)| is_shared(region)) {
                    *at = place.take(region.size());
                }
            });
            SharedRanges { read, written }
        });
        let size = place.0.checked_next_multiple_of(page).unwrap_or(u64::MAX);
        Self { directory_size, topology, links, counters, shared, size }
    }
}

/// Bytes of the directory of `plan`, in which two bytes of length precede each name.
fn directory_size(plan: &WorkspacePlan) -> u64 {
    let name = |name: &String| 2 + name.len() as u64;
    let consumers = |link: &LinkPlan| link.consumers.iter().map(|c| name(&c.name) + 1 + 8).sum::<u64>();
    let links = plan.links.iter().map(|link| name(&link.name) + 4 + 4 + 8 + 8 + 4 + consumers(link)).sum::<u64>();
    let counters = plan.counters.iter().map(|region| name(&region.name) + 8 + 8).sum::<u64>();
    4 + links + 4 + counters
}

impl LinkLayout {
    /// Places all parts of a link.
    fn take(&mut self, link: &LinkPlan, place: &mut LayoutCursor) {
        self.start = place.take(PRODUCER_LINES);
        self.take_consumers(link, place);
        self.take_frags(link, place);
    }

    fn take_consumers(&mut self, link: &LinkPlan, place: &mut LayoutCursor) {
        self.consumers = link.consumers.iter().map(|_| place.take(CONSUMER_LINES)).collect();
    }

    /// Places what the producer writes and its consumers read.
    fn take_frags(&mut self, link: &LinkPlan, place: &mut LayoutCursor) {
        self.entries = place.take(u64::from(link.depth) * ENTRY);
        self.payload = place.take(link.payload_size());
    }
}

/// Bytes that a part of this size takes.
fn aligned(size: u64) -> u64 {
    size.checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX)
}

/// Allocates aligned space, one part after another.
struct LayoutCursor(u64);

impl LayoutCursor {
    fn take(&mut self, size: u64) -> u64 {
        let start = self.0;
        self.0 = start.saturating_add(size).checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX);
        start
    }

    /// Allocates parts on pages of their own, and returns the range of these.
    fn pages(&mut self, page: u64, take: impl FnOnce(&mut Self)) -> Range<u64> {
        let whole = |at: u64| at.checked_next_multiple_of(page).unwrap_or(u64::MAX);
        self.0 = whole(self.0);
        let start = self.0;
        take(self);
        self.0 = whole(self.0);
        start..self.0
    }
}
