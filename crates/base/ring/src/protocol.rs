//! protocol: the lock-free core of a link, over slices of atomics alone, so that loom can model-check it.
//!
//! Entry `seq & (depth − 1)` of the ring describes frag `seq`. An entry's first word says which frag it holds. A
//! producer with lossy consumers first sets it to `seq − 1`, which matches neither the previous frag (`seq − depth`)
//! nor the new one, then writes the other words, then sets it to `seq`. Payload slots rotate over `depth + 1` places:
//! the slot in preparation was last used by frag `seq − depth − 1`, whose ring entry has been overwritten since. Hence
//! a payload is intact whenever its ring entry still is, which a lossy consumer rechecks after copying.
//!
//! reads   ring entries, progress of reliable consumers
//! writes  ring entries, payload words of links with a lossy consumer
//! memory  none of its own
//! drops   nothing; an overrun is reported to the caller, which counts it

use crate::frag::FragMeta;
use crate::sync::{AtomicU64, Ordering, fence};

/// One entry of the metadata ring: the words of a [`FragMeta`].
#[repr(C, align(32))]
#[derive(Debug)]
pub(crate) struct Entry(pub(crate) [AtomicU64; 4]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Entry>() == 32);

/// What the first word of entry `index` holds before anything is published: the frag one lap before frag `index`.
pub(crate) fn initial_seq(index: usize, depth: usize) -> u64 {
    (index as u64).wrapping_sub(depth as u64)
}

/// The producer's part of a frag's metadata; the link itself supplies `seq` and `chunk`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Label {
    pub(crate) tag: u64,
    pub(crate) size: u16,
    pub(crate) control: u16,
    pub(crate) origin_us: u32,
    pub(crate) publish_ns: u32,
}

/// The producer's end of a link.
#[derive(Debug)]
pub(crate) struct Sender<'a> {
    entries: &'a [Entry],
    mask: usize,
    seq: u64,
    /// First sequence number that would overtake a reliable consumer.
    limit: u64,
    /// Start of the payload slot in preparation, in chunks.
    chunk: u32,
    /// Chunks from one slot to the next.
    stride: u32,
    /// Chunks in all `depth + 1` slots.
    chunks: u32,
    lossy: bool,
}

impl<'a> Sender<'a> {
    /// Creates a sender at frag 0 of a fresh ring. `stride` is in chunks; `lossy` and `reliable` say which kinds of
    /// consumer the link has.
    pub(crate) fn new(entries: &'a [Entry], stride: u32, lossy: bool, reliable: bool) -> Self {
        assert!(entries.len().is_power_of_two() && entries.len() >= 2);
        let slots = u32::try_from(entries.len()).ok().and_then(|depth| depth.checked_add(1));
        let chunks = slots.and_then(|slots| slots.checked_mul(stride)).expect("chunk numbers fit in u32");
        let limit = if reliable { entries.len() as u64 } else { u64::MAX };
        Self { entries, mask: entries.len() - 1, seq: 0, limit, chunk: 0, stride, chunks, lossy }
    }

    #[inline(always)]
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    #[inline(always)]
    pub(crate) fn chunk(&self) -> u32 {
        self.chunk
    }

    #[inline(always)]
    pub(crate) fn depth(&self) -> usize {
        self.entries.len()
    }

    /// How many frags may be published according to the cached limit, without reading the consumers' progress.
    #[inline(always)]
    pub(crate) fn cached_credits(&self) -> usize {
        usize::try_from(self.limit - self.seq).unwrap_or(usize::MAX)
    }

    /// Rereads the progress of every reliable consumer; returns the credits, and the index in `progress` of the
    /// limiting consumer.
    pub(crate) fn refresh_credits<'p>(
        &mut self,
        progress: impl Iterator<Item = &'p AtomicU64>,
    ) -> (usize, Option<usize>) {
        let (mut slowest, mut least) = (None, u64::MAX);
        for (position, consumed) in progress.enumerate() {
            // Acquire: the consumer's reads of the payload happen before we write there again.
            let consumed = consumed.load(Ordering::Acquire);
            if consumed < least {
                (slowest, least) = (Some(position), consumed);
            }
        }
        if slowest.is_some() {
            self.limit = least + self.depth() as u64;
        }
        (self.cached_credits(), slowest)
    }

    /// Publishes the frag in preparation and moves to the next slot.
    ///
    /// Panics if that would overtake a reliable consumer.
    #[inline(always)]
    pub(crate) fn publish(&mut self, label: Label) {
        assert!(self.seq != self.limit, "published without a credit");
        let entry = self.entry(self.seq);
        let meta = FragMeta {
            seq: self.seq,
            tag: label.tag,
            chunk: self.chunk,
            size: label.size,
            control: label.control,
            origin_us: label.origin_us,
            publish_ns: label.publish_ns,
        };
        let [seq, tag, place, times] = meta.to_words();
        if self.lossy {
            entry.0[0].store(seq.wrapping_sub(1), Ordering::Relaxed);
            // A consumer that sees any word written from here on, up to the payload of the next frag, also sees that
            // the old frag is gone. Loom shows that one fence is enough.
            fence(Ordering::Release);
        }
        entry.0[1].store(tag, Ordering::Relaxed);
        entry.0[2].store(place, Ordering::Relaxed);
        entry.0[3].store(times, Ordering::Relaxed);
        entry.0[0].store(seq, Ordering::Release);
        self.seq = seq + 1;
        self.chunk += self.stride;
        if self.chunk == self.chunks {
            self.chunk = 0;
        }
    }

    #[inline(always)]
    fn entry(&self, seq: u64) -> &'a Entry {
        &self.entries[seq as usize & self.mask]
    }
}

/// The result of a poll at a consumer's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollOutcome {
    /// The frag at the consumer's position is not published yet.
    Empty,
    /// The metadata of the frag at the consumer's position.
    Ready(FragMeta),
    /// The producer has overtaken the consumer, which was moved forward by this many frags.
    Overrun(u64),
}

/// A consumer's end of a link.
#[derive(Debug)]
pub(crate) struct Receiver<'a> {
    entries: &'a [Entry],
    mask: usize,
    seq: u64,
    lossy: bool,
}

impl<'a> Receiver<'a> {
    /// Creates a receiver at frag 0.
    pub(crate) fn new(entries: &'a [Entry], lossy: bool) -> Self {
        assert!(entries.len().is_power_of_two() && entries.len() >= 2);
        Self { entries, mask: entries.len() - 1, seq: 0, lossy }
    }

    #[inline(always)]
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        self.seq += 1;
    }

    /// Looks at the next frag without advancing past it.
    #[inline(always)]
    pub(crate) fn poll(&mut self) -> PollOutcome {
        let entry = self.entry(self.seq);
        let found = entry.0[0].load(Ordering::Acquire);
        if found != self.seq {
            return self.not_next(found);
        }
        let words = [
            found,
            entry.0[1].load(Ordering::Relaxed),
            entry.0[2].load(Ordering::Relaxed),
            entry.0[3].load(Ordering::Relaxed),
        ];
        if self.lossy {
            fence(Ordering::Acquire);
            let again = entry.0[0].load(Ordering::Relaxed);
            if again != found {
                return self.not_next(again);
            }
        }
        PollOutcome::Ready(FragMeta::from_words(words))
    }

    /// Returns the metadata of frag `seq` if the ring currently holds it whole, wherever this receiver is.
    #[inline(always)]
    pub(crate) fn peek(&self, seq: u64) -> Option<FragMeta> {
        read_entry(self.entries, seq)
    }

    /// Checks that frag `seq` is still in the ring, so that every payload word read before this call belongs to it.
    /// `Err` says by how many frags the receiver was moved forward.
    #[inline(always)]
    pub(crate) fn recheck(&mut self, seq: u64) -> Result<(), u64> {
        fence(Ordering::Acquire);
        let found = self.entry(seq).0[0].load(Ordering::Relaxed);
        if found == seq { Ok(()) } else { Err(self.skip_behind(found)) }
    }

    #[cold]
    fn not_next(&mut self, found: u64) -> PollOutcome {
        // Signed distance: an unused entry holds a number below 0.
        let ahead = found.wrapping_sub(self.seq) as i64;
        if ahead < 0 { PollOutcome::Empty } else { PollOutcome::Overrun(self.skip_behind(found)) }
    }

    /// Moves forward to half a lap behind frag `newest`, so that a slow consumer neither loses a whole lap at a time
    /// nor is overtaken again at once. Returns how many frags that skips.
    fn skip_behind(&mut self, newest: u64) -> u64 {
        let target = newest.wrapping_add(1).wrapping_sub(self.entries.len() as u64 / 2);
        let lost = target.wrapping_sub(self.seq) as i64;
        if lost <= 0 {
            return 0;
        }
        self.seq = target;
        lost as u64
    }

    #[inline(always)]
    fn entry(&self, seq: u64) -> &'a Entry {
        &self.entries[seq as usize & self.mask]
    }
}

/// Returns the metadata of frag `seq` if `entries` currently holds it whole.
#[inline(always)]
pub(crate) fn read_entry(entries: &[Entry], seq: u64) -> Option<FragMeta> {
    let entry = &entries[seq as usize & (entries.len() - 1)];
    if entry.0[0].load(Ordering::Acquire) != seq {
        return None;
    }
    let words = [
        seq,
        entry.0[1].load(Ordering::Relaxed),
        entry.0[2].load(Ordering::Relaxed),
        entry.0[3].load(Ordering::Relaxed),
    ];
    fence(Ordering::Acquire);
    (entry.0[0].load(Ordering::Relaxed) == seq).then(|| FragMeta::from_words(words))
}

/// Writes `bytes` into `words`, padding the last word with zeros.
///
/// Panics if they do not fit.
#[inline]
pub(crate) fn store_words(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<8>();
    let (body, tail) = words.split_at(whole.len());
    for (word, bytes) in body.iter().zip(whole) {
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        tail[0].store(u64::from_le_bytes(last), Ordering::Relaxed);
    }
}

/// Reads `words` into `bytes`, eight bytes each.
#[inline]
pub(crate) fn load_words(words: &[AtomicU64], bytes: &mut [[u8; 8]]) {
    for (word, bytes) in words.iter().zip(bytes) {
        *bytes = word.load(Ordering::Relaxed).to_le_bytes();
    }
}
