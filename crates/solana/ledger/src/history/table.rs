//! table: the index of one full segment, searched on disk.
//!
//! reads   pages of a table's file, a few per search
//! writes  the whole file once, under another name until it is complete
//! memory  the header; a page per search
//! drops   nothing; a page that fails verification is an error that names it
//! source  our own format; hashes are uniform, so a search guesses the page by interpolation and then bisects
//!
//! ```text
//! page    4,084 B of entries, nothing of which is split; 8 B zero; crc u32 over segment, page number and the rest
//! file    header page, pages of blocks, of transactions, of signatures, of addresses
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::index::{HashEntry, Index, SlotEntry, TxnEntry, merged};
use super::record::{array_at, u32_at, u64_at};
use super::{HistoryError, table_path};

const PAGE_SIZE: usize = 4096;
const BODY_SIZE: usize = PAGE_SIZE - 12;
const MAGIC: u64 = u64::from_le_bytes(*b"hHisTab1");
/// Interpolation guesses before a search bisects: after that many, the key is likely among many equal hashes.
const GUESSES: usize = 3;

/// An entry of fixed size in a section.
trait Fixed: Copy {
    const SIZE: usize;
    const PER_PAGE: u64 = (BODY_SIZE / Self::SIZE) as u64;
    fn put(&self, out: &mut [u8]);
    fn get(bytes: &[u8]) -> Self;
}

impl Fixed for SlotEntry {
    const SIZE: usize = 32;

    fn put(&self, out: &mut [u8]) {
        out[0..8].copy_from_slice(&self.slot.to_le_bytes());
        out[8..16].copy_from_slice(&self.time.to_le_bytes());
        out[16..20].copy_from_slice(&self.close_at.to_le_bytes());
        out[20..24].copy_from_slice(&self.first.to_le_bytes());
        out[24..28].copy_from_slice(&self.count.to_le_bytes());
    }

    fn get(bytes: &[u8]) -> Self {
        let (close_at, first, count) = (u32_at(bytes, 16), u32_at(bytes, 20), u32_at(bytes, 24));
        Self { slot: u64_at(bytes, 0), time: u64_at(bytes, 8) as i64, close_at, first, count }
    }
}

impl Fixed for TxnEntry {
    const SIZE: usize = 12;

    fn put(&self, out: &mut [u8]) {
        out[0..4].copy_from_slice(&self.record.to_le_bytes());
        out[4..8].copy_from_slice(&self.slot_number.to_le_bytes());
        out[8..10].copy_from_slice(&self.position.to_le_bytes());
        out[10..12].copy_from_slice(&self.back.to_le_bytes());
    }

    fn get(bytes: &[u8]) -> Self {
        let half = |at| u16::from_le_bytes(array_at(bytes, at));
        Self { record: u32_at(bytes, 0), slot_number: u32_at(bytes, 4), position: half(8), back: half(10) }
    }
}

impl Fixed for HashEntry {
    const SIZE: usize = 12;

    fn put(&self, out: &mut [u8]) {
        out[0..8].copy_from_slice(&self.hash.to_le_bytes());
        out[8..12].copy_from_slice(&self.ordinal.to_le_bytes());
    }

    fn get(bytes: &[u8]) -> Self {
        Self { hash: u64_at(bytes, 0), ordinal: u32_at(bytes, 8) }
    }
}

/// A section: a number of entries, starting at a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section {
    page: u64,
    count: u64,
}

/// An open table: the index of a full segment on disk.
#[derive(Debug)]
pub(super) struct Table {
    pub segment: u32,
    /// The first and the last block of the segment.
    pub first_slot: u64,
    pub last_slot: u64,
    /// End of the segment's last closing record.
    pub closed_to: u64,
    /// The same as [`Index::unclosed_from`].
    pub unclosed_from: (u32, u32),
    /// Bytes of the table and of the segment's log.
    pub disk_bytes: u64,
    slots: Section,
    txns: Section,
    signatures: Section,
    addresses: Section,
    file: File,
    path: PathBuf,
}

/// The page that was read last.
struct Page {
    number: u64,
    bytes: Box<[u8; PAGE_SIZE]>,
}

impl Page {
    fn new() -> Self {
        Self { number: u64::MAX, bytes: Box::new([0; PAGE_SIZE]) }
    }
}

impl Table {
    /// Writes the table of a segment that has blocks, and opens it.
    pub fn create(dir: &Path, index: &Index, log_bytes: u64, sync: bool) -> Result<Self, HistoryError> {
        let path = table_path(dir, index.segment);
        let new = path.with_extension("table.new");
        let failed = |e| HistoryError::io("writing", &new, e);
        let file = File::create(&new).map_err(failed)?;
        let mut out = Pages { to: BufWriter::with_capacity(1 << 20, &file), segment: index.segment, number: 0 };
        write_all(&mut out, index, log_bytes).map_err(failed)?;
        out.to.flush().map_err(failed)?;
        drop(out);
        if sync {
            file.sync_data().map_err(failed)?;
        }
        std::fs::rename(&new, &path).map_err(|e| HistoryError::io("renaming", &new, e))?;
        Self::open(dir, index.segment)?.ok_or(HistoryError::Corrupt { file: path, offset: 0, what: "not as written" })
    }

    /// Opens the table of a segment; `None` if there is none, or it is incomplete.
    pub fn open(dir: &Path, segment: u32) -> Result<Option<Self>, HistoryError> {
        let path = table_path(dir, segment);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(HistoryError::io("opening", &path, e)),
        };
        let len = file.metadata().map_err(|e| HistoryError::io("looking at", &path, e))?.len();
        let mut page = Page::new();
        let read = file.read_exact_at(&mut *page.bytes, 0).is_ok();
        let header = &*page.bytes;
        if !read || !is_good(header, segment, 0) || u64_at(header, 0) != MAGIC {
            return Ok(None);
        }
        let section = |at| Section { page: u64_at(header, at), count: u64_at(header, at + 8) };
        let pages = u64_at(header, 104);
        let table = Self {
            segment,
            first_slot: u64_at(header, 8),
            last_slot: u64_at(header, 16),
            closed_to: u64_at(header, 24),
            disk_bytes: u64_at(header, 32) + len,
            unclosed_from: ((u64_at(header, 112) >> 32) as u32, u64_at(header, 112) as u32),
            slots: section(40),
            txns: section(56),
            signatures: section(72),
            addresses: section(88),
            file,
            path,
        };
        Ok((len == pages * PAGE_SIZE as u64).then_some(table))
    }

    /// The number of blocks and of transactions.
    pub fn counts(&self) -> (u64, u64) {
        (self.slots.count, self.txns.count)
    }

    /// Verifies the whole table. Returns offset and length of the first damaged page, and the kind of damage: its
    /// checksum, its position, the order of its entries, or an index out of range.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn check(&self) -> Result<Option<(u64, u64, &'static str)>, HistoryError> {
        let mut page = 1;
        for (section, per_page) in [
            (self.slots, SlotEntry::PER_PAGE),
            (self.txns, TxnEntry::PER_PAGE),
            (self.signatures, HashEntry::PER_PAGE),
            (self.addresses, HashEntry::PER_PAGE),
        ] {
            if section.page != page {
                return Ok(Some((0, PAGE_SIZE as u64, "its sections do not follow one another")));
            }
            page += section.count.div_ceil(per_page);
        }
        if self.signatures.count != self.txns.count {
            return Ok(Some((0, PAGE_SIZE as u64, "it has not one signature for each transaction")));
        }
        let (mut last, mut txns) = (None, 0);
        let slots = self.check_section(self.slots, |slot: &SlotEntry| {
            let follows = last.is_none_or(|last| last < slot.slot) && u64::from(slot.first) == txns;
            (last, txns) = (Some(slot.slot), txns + u64::from(slot.count));
            follows
        })?;
        if slots.is_some() {
            return Ok(slots);
        }
        if txns != self.txns.count || (last.is_some() && last != Some(self.last_slot)) {
            return Ok(Some((0, PAGE_SIZE as u64, "its blocks have another count of transactions, or end elsewhere")));
        }
        let mut block = 0;
        let txns = self.check_section(self.txns, |txn: &TxnEntry| {
            let follows = txn.slot_number >= block && u64::from(txn.slot_number) < self.slots.count;
            block = txn.slot_number;
            follows
        })?;
        if txns.is_some() {
            return Ok(txns);
        }
        for section in [self.signatures, self.addresses] {
            let mut before = None;
            let hashes = self.check_section(section, |entry: &HashEntry| {
                let follows =
                    before.is_none_or(|before| before <= *entry) && u64::from(entry.ordinal) < self.txns.count;
                before = Some(*entry);
                follows
            })?;
            if hashes.is_some() {
                return Ok(hashes);
            }
        }
        Ok(None)
    }

    /// Reads a section in order; `follows` tells whether an entry may follow the previous one.
    fn check_section<T: Fixed>(
        &self,
        section: Section,
        mut follows: impl FnMut(&T) -> bool,
    ) -> Result<Option<(u64, u64, &'static str)>, HistoryError> {
        let mut page = Page::new();
        for number in 0..section.count {
            let what = match self.get::<T>(section, number, &mut page) {
                Ok(entry) if follows(&entry) => continue,
                Ok(_) => "an entry is out of order, or leads nowhere",
                Err(HistoryError::Corrupt { what, .. }) => what,
                Err(other) => return Err(other),
            };
            return Ok(Some(((section.page + number / T::PER_PAGE) * PAGE_SIZE as u64, PAGE_SIZE as u64, what)));
        }
        Ok(None)
    }

    /// The block of this slot.
    pub fn find_slot(&self, slot: u64) -> Result<Option<SlotEntry>, HistoryError> {
        let (mut low, mut high, page) = (0, self.slots.count, &mut Page::new());
        while low < high {
            let middle = low + (high - low) / 2;
            let entry: SlotEntry = self.get(self.slots, middle, page)?;
            match entry.slot.cmp(&slot) {
                std::cmp::Ordering::Equal => return Ok(Some(entry)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    /// A block by its number in the segment.
    pub fn slot(&self, number: u32) -> Result<SlotEntry, HistoryError> {
        self.get(self.slots, number.into(), &mut Page::new())
    }

    /// The transactions with these ordinals.
    pub fn txns(&self, ordinals: impl Iterator<Item = u32>) -> Result<Vec<TxnEntry>, HistoryError> {
        let mut page = Page::new();
        ordinals.map(|ordinal| self.get(self.txns, ordinal.into(), &mut page)).collect()
    }

    /// The ordinals of the transactions whose signature has this hash.
    pub fn signature(&self, hash: u64) -> Result<Vec<u32>, HistoryError> {
        self.last_of(self.signatures, hash, u32::MAX, usize::MAX)
    }

    /// The last `count` ordinals below `below` of the transactions that name the address with this hash, descending.
    pub fn address(&self, hash: u64, below: u32, count: usize) -> Result<Vec<u32>, HistoryError> {
        self.last_of(self.addresses, hash, below, count)
    }

    fn last_of(&self, section: Section, hash: u64, below: u32, count: usize) -> Result<Vec<u32>, HistoryError> {
        let (mut page, mut found) = (Page::new(), vec![]);
        let mut at = self.lower_bound(section, &HashEntry { hash, ordinal: below }, &mut page)?;
        while at > 0 && found.len() < count {
            at -= 1;
            let entry: HashEntry = self.get(section, at, &mut page)?;
            if entry.hash != hash {
                break;
            }
            found.push(entry.ordinal);
        }
        Ok(found)
    }

    /// The number of the section's entries before `key`.
    fn lower_bound(&self, section: Section, key: &HashEntry, page: &mut Page) -> Result<u64, HistoryError> {
        let per_page = HashEntry::PER_PAGE;
        let (mut low, mut high) = (0, section.count.div_ceil(per_page));
        let mut guesses = 0;
        // Finds the page with entries on both sides of the key, or the end.
        while low < high {
            let guess = ((u128::from(key.hash) * u128::from(section.count.div_ceil(per_page))) >> 64) as u64;
            let in_range = guesses < GUESSES && guess >= low && guess < high;
            let middle = match (in_range, guesses) {
                (true, 0) => guess,
                // Close to the first guess.
                (_, 1) => guess.saturating_sub(1).clamp(low, high - 1),
                (_, 2) => (guess + 1).clamp(low, high - 1),
                _ => low + (high - low) / 2,
            };
            guesses += 1;
            let (first, end) = (middle * per_page, ((middle + 1) * per_page).min(section.count));
            if *key <= self.get::<HashEntry>(section, first, page)? {
                high = middle;
            } else if *key > self.get::<HashEntry>(section, end - 1, page)? {
                low = middle + 1;
            } else {
                return self.bisect(section, key, first, end, page);
            }
        }
        Ok((low * per_page).min(section.count))
    }

    fn bisect(
        &self,
        section: Section,
        key: &HashEntry,
        mut low: u64,
        mut high: u64,
        page: &mut Page,
    ) -> Result<u64, HistoryError> {
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get::<HashEntry>(section, middle, page)? < *key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }

    fn get<T: Fixed>(&self, section: Section, number: u64, page: &mut Page) -> Result<T, HistoryError> {
        let wanted = section.page + number / T::PER_PAGE;
        let corrupt = |what| HistoryError::Corrupt { file: self.path.clone(), offset: wanted * PAGE_SIZE as u64, what };
        if number >= section.count {
            return Err(corrupt("an entry points beyond the table"));
        }
        if page.number != wanted {
            page.number = u64::MAX;
            let read = self.file.read_exact_at(&mut *page.bytes, wanted * PAGE_SIZE as u64);
            read.map_err(|e| HistoryError::io("reading", &self.path, e))?;
            if !is_good(&page.bytes, self.segment, wanted) {
                return Err(corrupt("a page does not match its checksum"));
            }
            page.number = wanted;
        }
        Ok(T::get(&page.bytes[(number % T::PER_PAGE) as usize * T::SIZE..]))
    }
}

struct Pages<W> {
    to: W,
    segment: u32,
    number: u64,
}

impl<W: Write> Pages<W> {
    fn page(&mut self, body: &[u8]) -> io::Result<()> {
        let mut page = [0; PAGE_SIZE];
        page[..body.len()].copy_from_slice(body);
        let crc = checksum(&page, self.segment, self.number);
        page[PAGE_SIZE - 4..].copy_from_slice(&crc.to_le_bytes());
        self.number += 1;
        self.to.write_all(&page)
    }

    fn section<T: Fixed>(&mut self, entries: &[T]) -> io::Result<()> {
        for chunk in entries.chunks(T::PER_PAGE as usize) {
            let mut body = [0; BODY_SIZE];
            chunk.iter().enumerate().for_each(|(nth, entry)| entry.put(&mut body[nth * T::SIZE..]));
            self.page(&body)?;
        }
        Ok(())
    }
}

fn write_all(out: &mut Pages<impl Write>, index: &Index, log_bytes: u64) -> io::Result<()> {
    let joined = |runs: &[super::index::Run]| {
        // The newest runs are the shortest: merged from that end, each entry is moved a few times.
        runs.iter()
            .rev()
            .fold(vec![], |behind, run| if behind.is_empty() { run.to_vec() } else { merged(run, &behind) })
    };
    let (signatures, addresses) = (joined(&index.signatures), joined(&index.addresses));
    let mut header = [0; BODY_SIZE];
    let (first, last) = (index.slots.first().map_or(0, |s| s.slot), index.slots.last().map_or(0, |s| s.slot));
    let mut put = |at: usize, word: u64| header[at..at + 8].copy_from_slice(&word.to_le_bytes());
    for (nth, word) in [MAGIC, first, last, index.closed_to, log_bytes].into_iter().enumerate() {
        put(8 * nth, word);
    }
    let mut page = 1;
    for (at, count, per_page) in [
        (40, index.slots.len() as u64, SlotEntry::PER_PAGE),
        (56, index.txns.len() as u64, TxnEntry::PER_PAGE),
        (72, signatures.len() as u64, HashEntry::PER_PAGE),
        (88, addresses.len() as u64, HashEntry::PER_PAGE),
    ] {
        put(at, page);
        put(at + 8, count);
        page += count.div_ceil(per_page);
    }
    put(104, page);
    put(112, u64::from(index.unclosed_from.0) << 32 | u64::from(index.unclosed_from.1));
    out.page(&header)?;
    out.section(&index.slots)?;
    out.section(&index.txns)?;
    out.section(&signatures)?;
    out.section(&addresses)
}

fn is_good(page: &[u8; PAGE_SIZE], segment: u32, number: u64) -> bool {
    u32_at(page, PAGE_SIZE - 4) == checksum(page, segment, number)
}

fn checksum(page: &[u8; PAGE_SIZE], segment: u32, number: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&segment.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    hasher.update(&page[..PAGE_SIZE - 4]);
    hasher.finalize()
}
