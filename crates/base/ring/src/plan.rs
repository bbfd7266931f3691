//! plan: what a workspace holds, and at which offset in the file each part is.
//!
//! reads   a plan, which the topology derives from the configuration
//! writes  offsets, all multiples of 128 bytes so that no two writers share a pair of cache lines
//! memory  a few hundred bytes per link

use crate::error::WorkspaceError;
use std::collections::HashSet;

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
    /// Its consumers.
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

    /// Each part's name and size, in file order; the sizes sum to [`WorkspacePlan::size`].
    pub fn parts(&self) -> Vec<(String, u64)> {
        let layout = Layout::of(self);
        let links = layout.links.iter().map(|link| link.start);
        let counters = layout.counters.iter().copied();
        let starts: Vec<u64> = [0, layout.topology].into_iter().chain(links).chain(counters).collect();
        let links = self.links.iter().map(|link| format!("link {}", link.name));
        let counters = self.counters.iter().map(|region| format!("counters {}", region.name));
        let names = ["header and directory".to_owned(), "topology".to_owned()].into_iter().chain(links).chain(counters);
        let ends = starts.iter().skip(1).copied().chain([layout.end]);
        let mut parts: Vec<_> =
            names.zip(starts.iter().zip(ends)).map(|(name, (start, end))| (name, end - start)).collect();
        parts.push(("rounding to whole pages".to_owned(), layout.size - layout.end));
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
#[derive(Clone, Debug)]
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
    pub(crate) end: u64,
    pub(crate) size: u64,
}

impl Layout {
    pub(crate) fn of(plan: &WorkspacePlan) -> Self {
        let directory_size = directory_size(plan);
        let mut place = LayoutCursor(HEADER);
        place.take(directory_size);
        let topology = place.take(plan.topology.len() as u64);
        let links = plan.links.iter().map(|link| LinkLayout::of(link, &mut place)).collect();
        let counters = plan.counters.iter().map(|region| place.take((region.words as u64).saturating_mul(8))).collect();
        let end = place.0;
        let size = end.checked_next_multiple_of(plan.huge_pages.page_size()).unwrap_or(u64::MAX);
        Self { directory_size, topology, links, counters, end, size }
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
    fn of(link: &LinkPlan, place: &mut LayoutCursor) -> Self {
        let start = place.take(PRODUCER_LINES);
        let consumers = link.consumers.iter().map(|_| place.take(CONSUMER_LINES)).collect();
        let entries = place.take(u64::from(link.depth) * ENTRY);
        let payload = place.take(link.payload_size());
        Self { start, entries, payload, consumers }
    }
}

/// Allocates aligned space, one part after another.
struct LayoutCursor(u64);

impl LayoutCursor {
    fn take(&mut self, size: u64) -> u64 {
        let start = self.0;
        self.0 = start.saturating_add(size).checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX);
        start
    }
}
