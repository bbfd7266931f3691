//! The drop log: which transactions did not land, which tile dropped them, why and when.
//!
//! reads   the tags of signatures, with a reason and the time, from any tile that drops a transaction
//! writes  the newest drop of each, and how many copies of it were dropped as duplicates
//! memory  [`DropTable::bytes`]: 30 B per remembered drop, allocated as drops arrive
//! drops   the oldest drop of a full shard to make room for a new one; the time up to which drops are forgotten is kept
//!
//! Transactions that land cost nothing here. A drop costs one table operation under a lock. A signature is identified
//! by its tag, a keyed hash of 64 bits: two are confused with odds of capacity / 2^64.
//!
//! Anyone who knows a signature can send garbage under it. So a drop from before signature verification never replaces
//! a drop from after it.

mod reason;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use hashbrown::HashTable;
use hearth_wire::consts::Signature;
use hearth_wire::hash64;
use parking_lot::{Mutex, MutexGuard};

use crate::error::{PackedStatus, TransactionError};

pub use reason::{DropKind, DropReason};

/// Number of shards; a power of two.
const SHARDS: usize = 256;
const NO_REASON: u8 = u8::MAX;

/// The drops of one signature.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u64,
    /// The error in the low 56 bits, the reason above it.
    why: u64,
    /// When it was dropped for that reason, in Unix seconds.
    unix_s: u32,
    duplicates: u16,
    /// The reason of the last duplicate.
    duplicate: u8,
}

const _: () = assert!(size_of::<Entry>() == 24);

impl Entry {
    fn reason(&self) -> Option<DropReason> {
        DropReason::of_number((self.why >> PackedStatus::BITS) as u8)
    }

    fn note(&mut self, reason: DropReason, error: Option<TransactionError>, unix_s: u32) {
        let checked = self.reason().is_some_and(|before| before.kind() == DropKind::Refused);
        match reason.kind() {
            DropKind::Duplicate => {
                self.duplicates = self.duplicates.saturating_add(1);
                self.duplicate = reason as u8;
                if self.reason().is_none() {
                    self.unix_s = unix_s;
                }
            }
            DropKind::Unsigned if checked => {}
            _ => {
                let error = error.map_or(0, |error| PackedStatus::pack(Err(error)).to_bits());
                (self.why, self.unix_s) = (u64::from(reason as u8) << PackedStatus::BITS | error, unix_s);
            }
        }
    }
}

/// Entries in order of arrival, and the index of each.
#[derive(Debug, Default)]
struct Shard {
    places: HashTable<u32>,
    entries: Vec<Entry>,
    /// Index of the oldest entry, once the shard is full.
    oldest: usize,
}

impl Shard {
    fn find(&self, tag: u64) -> Option<usize> {
        self.places.find(tag, |place| self.entries[*place as usize].tag == tag).map(|place| *place as usize)
    }

    /// Adds an entry; returns the one that it evicted.
    fn add(&mut self, entry: Entry, capacity: usize) -> Option<Entry> {
        let Self { places, entries, oldest } = self;
        let (at, gone) = if entries.len() < capacity {
            entries.push(entry);
            (entries.len() - 1, None)
        } else {
            let at = *oldest;
            *oldest = (at + 1) % capacity;
            let gone = std::mem::replace(&mut entries[at], entry);
            let place = places.find_entry(gone.tag, |place| *place as usize == at);
            place.expect("every entry has its place").remove();
            (at, Some(gone))
        };
        places.insert_unique(entry.tag, at as u32, |place| entries[*place as usize].tag);
        gone
    }
}

/// The known drops of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropRecord {
    /// Its last drop other than as a duplicate.
    pub dropped: Option<DropEntry>,
    /// Number of copies dropped as duplicates, saturating at 65,535.
    pub duplicates: u16,
    /// The tile that dropped the last duplicate.
    pub duplicate: Option<DropReason>,
}

/// One drop of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropEntry {
    /// The tile and the reason.
    pub reason: DropReason,
    /// The bank's error, if the bank dropped it.
    pub error: Option<TransactionError>,
    /// When, in Unix seconds.
    pub unix_s: u32,
}

impl DropEntry {
    /// Advice for the sender. After a failed preflight it is the advice for the bank's error.
    pub fn hint(&self) -> &'static str {
        let reason = match self.error.filter(|_| self.reason == DropReason::RpcSimulation) {
            Some(TransactionError::AccountNotFound) => DropReason::BankAccount,
            Some(TransactionError::InsufficientFundsForFee) => DropReason::BankFee,
            Some(TransactionError::BlockhashNotFound) => DropReason::BankBlockhash,
            Some(TransactionError::AlreadyProcessed) => DropReason::BankProcessed,
            _ => self.reason,
        };
        reason.hint()
    }
}

/// How far back the log reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Maximum number of signatures in the log.
    pub capacity: usize,
    /// Signatures that are in the log.
    pub kept: usize,
    /// When the newest forgotten drop happened, in Unix seconds; every later drop is in the log.
    pub forgotten_unix_s: Option<u32>,
}

/// The drop log of a running node.
#[derive(Debug)]
pub struct DropTable {
    key: u64,
    shards: Box<[Mutex<Shard>]>,
    /// Maximum entries of a shard.
    per_shard: usize,
    forgotten_unix_s: AtomicU32,
}

impl DropTable {
    /// Memory of `capacity` drops, in bytes: an entry each, and its slot in a table that is at most 7/8 full.
    pub const fn bytes(capacity: usize) -> u64 {
        (capacity * (size_of::<Entry>() + 6)) as u64
    }

    /// A log of about `capacity` signatures, none if 0. Tags are keyed by `key`, a secret shared with the verify tile.
    pub fn new(capacity: usize, key: u64) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { key, shards, per_shard: capacity.div_ceil(SHARDS), forgotten_unix_s: AtomicU32::new(0) }
    }

    /// The secret key of the tags.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The tag of a signature.
    pub fn tag(&self, signature: &Signature) -> u64 {
        hash64(self.key, signature)
    }

    /// The tag of the first signature in bytes that may not be a transaction, if they are long enough.
    pub fn tag_of_bytes(&self, bytes: &[u8]) -> Option<u64> {
        let (&count, rest) = bytes.split_first()?;
        // A signature count of more than one byte would not fit in a packet.
        (1..0x80).contains(&count).then(|| rest.first_chunk()).flatten().map(|signature| self.tag(signature))
    }

    fn shard(&self, tag: u64) -> MutexGuard<'_, Shard> {
        // The shard's table uses the low bits and the top seven.
        let shard = &self.shards[(tag >> 32) as usize % SHARDS];
        shard.lock()
    }

    /// Records a drop, with the bank's error if there is one.
    pub fn note(&self, tag: u64, reason: DropReason, error: Option<TransactionError>, unix_s: u32) {
        if self.per_shard == 0 {
            return;
        }
        let mut shard = self.shard(tag);
        if let Some(at) = shard.find(tag) {
            return shard.entries[at].note(reason, error, unix_s);
        }
        let why = u64::from(NO_REASON) << PackedStatus::BITS;
        let mut entry = Entry { tag, why, unix_s, duplicates: 0, duplicate: NO_REASON };
        entry.note(reason, error, unix_s);
        if let Some(gone) = shard.add(entry, self.per_shard) {
            self.forgotten_unix_s.fetch_max(gone.unix_s, Relaxed);
        }
    }

    /// The drops of a signature within the window.
    pub fn of(&self, signature: &Signature) -> Option<DropRecord> {
        let tag = self.tag(signature);
        let shard = self.shard(tag);
        let entry = shard.entries[shard.find(tag)?];
        let error = PackedStatus::from_bits(entry.why).unpack().err();
        Some(DropRecord {
            dropped: entry.reason().map(|reason| DropEntry { reason, error, unix_s: entry.unix_s }),
            duplicates: entry.duplicates,
            duplicate: DropReason::of_number(entry.duplicate),
        })
    }

    /// How far back the log reaches.
    pub fn window(&self) -> Window {
        let kept = |shard: &Mutex<Shard>| shard.lock().entries.len();
        let forgotten = self.forgotten_unix_s.load(Relaxed);
        Window {
            capacity: self.per_shard * SHARDS,
            kept: self.shards.iter().map(kept).sum(),
            forgotten_unix_s: (forgotten > 0).then_some(forgotten),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(n: u32) -> Signature {
        let mut signature = [7; 64];
        signature[..4].copy_from_slice(&n.to_le_bytes());
        signature
    }

    #[test]
    fn a_refused_preflight_has_the_hint_of_its_error() {
        let hint = |reason, error| DropEntry { reason, error, unix_s: 0 }.hint();
        let no_payer = hint(DropReason::RpcSimulation, Some(TransactionError::AccountNotFound));
        assert!(no_payer.starts_with("Fund the payer first"), "{no_payer}");
        let poor = hint(DropReason::RpcSimulation, Some(TransactionError::InsufficientFundsForFee));
        assert!(poor.starts_with("Fund the payer"), "{poor}");
        assert_eq!(hint(DropReason::RpcSimulation, None), DropReason::RpcSimulation.hint());
        let by_bank = hint(DropReason::BankOther, Some(TransactionError::AccountNotFound));
        assert_eq!(by_bank, DropReason::BankOther.hint());
    }

    fn note(fates: &DropTable, n: u32, reason: DropReason, unix_s: u32) {
        fates.note(fates.tag(&signature(n)), reason, None, unix_s);
    }

    fn reason(fates: &DropTable, n: u32) -> Option<DropReason> {
        fates.of(&signature(n)).and_then(|fate| fate.dropped).map(|dropped| dropped.reason)
    }

    #[test]
    fn the_newest_drop_counts_and_copies_do_not_hide_it() {
        let fates = DropTable::new(1000, 5);
        assert_eq!(fates.of(&signature(1)), None);
        note(&fates, 1, DropReason::VerifyDuplicate, 9);
        let fate = DropRecord { dropped: None, duplicates: 1, duplicate: Some(DropReason::VerifyDuplicate) };
        assert_eq!(fates.of(&signature(1)), Some(fate));
        note(&fates, 1, DropReason::PackEvicted, 10);
        let error = Some(TransactionError::InvalidAccountForFee);
        fates.note(fates.tag(&signature(1)), DropReason::BankOther, error, 11);
        note(&fates, 1, DropReason::DedupDuplicate, 12);
        let dropped = Some(DropEntry { reason: DropReason::BankOther, error, unix_s: 11 });
        let fate = DropRecord { dropped, duplicates: 2, duplicate: Some(DropReason::DedupDuplicate) };
        assert_eq!((fates.of(&signature(1)), fates.of(&signature(2))), (Some(fate), None));
    }

    #[test]
    fn garbage_under_a_signature_does_not_hide_what_became_of_it() {
        let fates = DropTable::new(1000, 5);
        note(&fates, 1, DropReason::VerifyMalformed, 1);
        assert_eq!(reason(&fates, 1), Some(DropReason::VerifyMalformed));
        note(&fates, 1, DropReason::VerifySignature, 2);
        assert_eq!(reason(&fates, 1), Some(DropReason::VerifySignature));
        note(&fates, 1, DropReason::PackExpired, 3);
        note(&fates, 1, DropReason::VerifyMalformed, 4);
        assert_eq!(reason(&fates, 1), Some(DropReason::PackExpired));
    }

    #[test]
    fn oldest_drops_are_forgotten_up_to_a_reported_time() {
        let fates = DropTable::new(10_000, 5);
        for n in 0..30_000 {
            note(&fates, n, DropReason::PackExpired, 1000 + n);
        }
        let window = fates.window();
        assert_eq!((window.kept, window.capacity), (10_240, 10_240));
        let forgotten = window.forgotten_unix_s.unwrap() - 1000;
        assert!((15_000..25_000).contains(&forgotten), "{forgotten}");
        assert!((forgotten + 1..30_000).all(|n| reason(&fates, n).is_some()), "every later drop is known");
        assert_eq!((0..30_000).filter(|n| reason(&fates, *n).is_some()).count(), window.kept);
    }

    #[test]
    fn drop_log_of_size_zero_remembers_nothing() {
        let fates = DropTable::new(0, 5);
        note(&fates, 1, DropReason::PackExpired, 3);
        assert_eq!((fates.of(&signature(1)), fates.window().kept), (None, 0));
    }

    #[test]
    fn the_signature_of_what_is_no_transaction() {
        let fates = DropTable::new(10, 5);
        let bytes = [&[1][..], &signature(3), b"rest"].concat();
        assert_eq!(fates.tag_of_bytes(&bytes), Some(fates.tag(&signature(3))));
        for bytes in [&bytes[..64], &[], &[0; 100], &[0xff; 100]] {
            assert_eq!(fates.tag_of_bytes(bytes), None);
        }
    }
}
