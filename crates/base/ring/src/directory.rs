//! directory: encodes and decodes the header and the directory, which locate every part of the file.
//!
//! The header is a page of little-endian words; the directory lists links and counters with their offsets, so that a
//! reader computes none. Decoding trusts nothing: everything it returns is inside the file and aligned.
//!
//! reads   a plan, or the bytes of a directory that may be torn or hostile
//! writes  the bytes of a directory
//! memory  at most the directory's own size, which the file's size limits

use crate::plan::{ALIGN, CONSUMER_LINES, ENTRY, Layout, PRODUCER_LINES, WorkspacePlan};

/// The first word of every workspace.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"HEARTHWS");
/// The layout version that this program writes and reads. Increment it with every change of layout or meaning.
pub(crate) const VERSION: u32 = 1;

/// Positions of the header's words.
pub(crate) mod header {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    pub(crate) const SIZE: usize = 2;
    pub(crate) const PID: usize = 3;
    pub(crate) const STARTED_UNIX_NS: usize = 4;
    pub(crate) const DIRECTORY: usize = 5;
    pub(crate) const DIRECTORY_SIZE: usize = 6;
    pub(crate) const TOPOLOGY: usize = 7;
    pub(crate) const TOPOLOGY_SIZE: usize = 8;
    pub(crate) const WORDS: usize = 9;
}

/// The parts of a workspace, according to its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) links: Vec<LinkEntry>,
    pub(crate) counters: Vec<CountersEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkEntry {
    pub(crate) name: String,
    pub(crate) depth: u32,
    pub(crate) mtu: u32,
    pub(crate) start: u64,
    pub(crate) entries: u64,
    pub(crate) consumers: Vec<ConsumerEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsumerEntry {
    pub(crate) name: String,
    pub(crate) reliable: bool,
    pub(crate) lines: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountersEntry {
    pub(crate) name: String,
    pub(crate) words: u64,
    pub(crate) start: u64,
}

/// Encodes the directory of a plan laid out as `layout`.
pub(crate) fn encode(plan: &WorkspacePlan, layout: &Layout) -> Vec<u8> {
    let mut out = Vec::with_capacity(layout.directory_size as usize);
    out.extend((plan.links.len() as u32).to_le_bytes());
    for (link, place) in plan.links.iter().zip(&layout.links) {
        put_name(&mut out, &link.name);
        out.extend(link.depth.to_le_bytes());
        out.extend(link.mtu.to_le_bytes());
        out.extend(place.start.to_le_bytes());
        out.extend(place.entries.to_le_bytes());
        out.extend((link.consumers.len() as u32).to_le_bytes());
        for (consumer, lines) in link.consumers.iter().zip(&place.consumers) {
            put_name(&mut out, &consumer.name);
            out.push(u8::from(consumer.reliable));
            out.extend(lines.to_le_bytes());
        }
    }
    out.extend((plan.counters.len() as u32).to_le_bytes());
    for (region, start) in plan.counters.iter().zip(&layout.counters) {
        put_name(&mut out, &region.name);
        out.extend((region.words as u64).to_le_bytes());
        out.extend(start.to_le_bytes());
    }
    assert_eq!(out.len() as u64, layout.directory_size, "the layout leaves as much room as the directory takes");
    out
}

/// Decodes the directory of a file of `file_size` bytes; `Err` names the first contradiction.
pub(crate) fn decode(bytes: &[u8], file_size: u64) -> Result<Directory, &'static str> {
    let mut input = Input(bytes);
    let mut links = vec![];
    for _ in 0..input.u32()? {
        links.push(decode_link(&mut input, file_size)?);
    }
    let mut counters = vec![];
    for _ in 0..input.u32()? {
        let (name, words, start) = (input.name()?, input.u64()?, input.u64()?);
        let size = words.checked_mul(8).ok_or("a counters region is larger than the file")?;
        inside(start, size, file_size)?;
        counters.push(CountersEntry { name, words, start });
    }
    Ok(Directory { links, counters })
}

fn decode_link(input: &mut Input<'_>, file_size: u64) -> Result<LinkEntry, &'static str> {
    let (name, depth, mtu) = (input.name()?, input.u32()?, input.u32()?);
    if !depth.is_power_of_two() || depth < 2 {
        return Err("a link's depth is not a power of two");
    }
    let (start, entries) = (input.u64()?, input.u64()?);
    inside(start, PRODUCER_LINES, file_size)?;
    inside(entries, u64::from(depth) * ENTRY, file_size)?;
    let mut consumers = vec![];
    for _ in 0..input.u32()? {
        let (name, [reliable], lines) = (input.name()?, input.take()?, input.u64()?);
        inside(lines, CONSUMER_LINES, file_size)?;
        consumers.push(ConsumerEntry { name, reliable: reliable != 0, lines });
    }
    Ok(LinkEntry { name, depth, mtu, start, entries, consumers })
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    out.extend((name.len() as u16).to_le_bytes());
    out.extend(name.as_bytes());
}

fn inside(start: u64, size: u64, file_size: u64) -> Result<(), &'static str> {
    if !start.is_multiple_of(ALIGN) {
        return Err("a part is not aligned");
    }
    match start.checked_add(size) {
        Some(end) if end <= file_size => Ok(()),
        _ => Err("a part is outside the file"),
    }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (head, rest) = self.0.split_first_chunk().ok_or("the directory is cut short")?;
        self.0 = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        self.take().map(u64::from_le_bytes)
    }

    fn name(&mut self) -> Result<String, &'static str> {
        let size = usize::from(u16::from_le_bytes(self.take()?));
        let (name, rest) = self.0.split_at_checked(size).ok_or("the directory is cut short")?;
        self.0 = rest;
        String::from_utf8(name.to_vec()).map_err(|_| "a name is not UTF-8")
    }
}
