//! Shreds of other leaders on their way into the store: the receiver, and the reader of entries.
//!
//! reads   an input of [`pieces`], or of a block's entries
//! writes  nothing; panics if a property does not hold
//! memory  a few sets of 64 shreds

use std::collections::BTreeMap;
use std::hint::black_box;

use hearth_crypto::ed25519::SigningKey;
use hearth_pipeline::shred::{
    AddResult, Deshredder, FecSet, Receiver, ReceiverConfig, ShredSource, Shredder, ShredderConfig, ShredderError,
    merkle_root,
};
use hearth_wire::Pubkey;
use hearth_wire::shred::{SHREDS_PER_SLOT_MAX, Shred};

use crate::pieces::pieces;

/// This node's identity, which leads no slot here.
const OWN: Pubkey = [9; 32];
/// Shreds of an input that are looked at.
const SHREDS_MAX: usize = 192;
/// Partial slots and started sets that the receiver keeps.
const SLOTS_MAX: usize = 4;
const SETS_MAX: usize = 6;
/// How long a missing shred is waited for, in nanoseconds.
const PATIENCE_NS: u64 = 250_000_000;
/// Bytes of a block's entries that are looked at.
const ENTRIES_MAX: usize = 100_000;

fn leader() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

fn receiver(version: u16, root: u64) -> Receiver {
    let config = ReceiverConfig {
        version,
        own: OWN,
        shreds_per_slot_max: SHREDS_PER_SLOT_MAX,
        slots_per_epoch: 432_000,
        slots_max: SLOTS_MAX,
        sets_max: SETS_MAX,
    };
    Receiver::new(config, root)
}

/// Shreds, each with a byte that says how it comes: whether the leader signs it, from where, and how long after the one
/// before.
pub fn shred_receiver(input: &[u8]) {
    let key = leader();
    let public = key.public_key();
    let mut first = pieces(input).filter_map(|piece| Shred::parse(piece.get(1..)?).ok());
    let (version, slot) = first.next().map_or((0, 0), |shred| (shred.version(), shred.slot()));
    let mut receiver = receiver(version, slot.saturating_sub(4));
    let mut now_ns = 1_000_000_000;
    for piece in pieces(input).take(SHREDS_MAX) {
        let Some((how, bytes)) = piece.split_first() else { continue };
        let mut datagram = bytes.to_vec();
        if how & 1 == 1 {
            sign(&key, &mut datagram);
        }
        let source = if how & 2 == 2 { ShredSource::Repair } else { ShredSource::Turbine };
        now_ns += u64::from(how >> 2) * 50_000_000;
        let taken = receiver.take(&datagram, source, now_ns, |_| Some(public), |_| false);
        if let Ok(resolved) = taken {
            let progress = resolved.progress;
            assert_eq!(progress.completes, resolved.completed.is_some());
            assert!(progress.completes || !progress.ends);
            assert_eq!(progress.leader, public);
            let parsed = Shred::parse(&datagram[..shred_size(&datagram)]).expect("it was taken");
            assert_eq!((progress.slot, progress.set_index), (parsed.slot(), parsed.set_index()));
            assert_eq!(merkle_root(&parsed), Some(resolved.root));
        }
        look(&mut receiver, now_ns);
    }
}

/// The size of the shred that begins here: repair's and Turbine's datagrams may have bytes behind it.
fn shred_size(datagram: &[u8]) -> usize {
    (0..=datagram.len()).rev().find(|end| Shred::parse(&datagram[..*end]).is_ok()).unwrap_or(0)
}

/// Signs a shred as its leader.
fn sign(key: &SigningKey, bytes: &mut [u8]) {
    let root = Shred::parse(bytes).ok().and_then(|shred| merkle_root(&shred));
    if let Some(root) = root {
        bytes[..64].copy_from_slice(&key.sign(&root));
    }
}

/// Asks the receiver for everything that the tile asks it for.
fn look(receiver: &mut Receiver, now_ns: u64) {
    black_box(receiver.findings().len());
    black_box(receiver.take_lost(now_ns));
    let slots: Vec<u64> = receiver.slots().collect();
    for slot in slots {
        assert!(slot > receiver.root());
        let missing = receiver.missing(slot, now_ns, PATIENCE_NS, 64);
        assert!(missing.shreds.len() <= 64);
        assert!(missing.shreds.is_sorted());
        black_box((receiver.parent(slot), receiver.whole_parent(slot), receiver.equivocates(slot)));
    }
}

/// Entries of a block, cut into shreds by the leader. The first 16 bytes say which of its shreds are lost, repeated or
/// changed. What comes out is what went in, or nothing.
pub fn shred_block(input: &[u8]) {
    let Some((plan, entries)) = input.split_first_chunk::<16>() else { return };
    let entries = &entries[..entries.len().min(ENTRIES_MAX)];
    let sets = block(entries);
    let mut receiver = receiver(7, 1);
    let mut deshredder = Deshredder::new(2, Some([3; 32]), SHREDS_PER_SLOT_MAX);
    let (mut complete, mut batches) = (BTreeMap::new(), Vec::new());
    let public = leader().public_key();
    for (index, shred) in sets.iter().flat_map(FecSet::shreds).enumerate() {
        let how = plan[index % 16] >> (index / 16 % 4);
        let mut shred = shred.to_vec();
        if how & 0x10 != 0 {
            let at = (usize::from(how) * 7 + index) % shred.len();
            shred[at] ^= how | 1;
        } else if how & 1 != 0 {
            continue;
        }
        let taken = receiver.take(&shred, ShredSource::Turbine, 1_000_000_000, |_| Some(public), |_| false);
        if let Ok(resolved) = taken
            && let Some(completed) = resolved.completed
        {
            complete.insert(completed.set.header().set_index, *completed.set.root());
        }
        if let Ok(shred) = Shred::parse(&shred)
            && deshredder.add(&shred) == Ok(AddResult::Completed)
        {
            while let Ok(Some(batch)) = deshredder.next_batch() {
                batches.push(batch);
            }
        }
    }
    for (set_index, root) in complete {
        let signed = sets.iter().find(|set| set.header().set_index == set_index).expect("a set that was made");
        assert_eq!(root, *signed.root());
    }
    check_batches(&sets, &batches);
}

/// The leader's sets of slot 2 with these entries, 20,000 bytes to an entry.
fn block(entries: &[u8]) -> Vec<FecSet> {
    let (mut shredder, mut sets) =
        (Shredder::new(ShredderConfig { version: 7, ..Default::default() }, [3; 32]), vec![]);
    let mut drain = |shredder: &mut Shredder| {
        let mut set = FecSet::new();
        while shredder.next_set(&mut set) {
            let signature = leader().sign(set.root());
            set.sign(&signature);
            sets.push(set.clone());
        }
    };
    shredder.begin_slot(2, 1).expect("a slot after its parent");
    for entry in entries.chunks(20_000) {
        while shredder.push(entry, 1) == Err(ShredderError::BatchFull) {
            shredder.end_batch(false);
            drain(&mut shredder);
        }
    }
    shredder.end_batch(true);
    drain(&mut shredder);
    sets
}

/// The batches that were read are the first of the block, unless a changed shred was taken: no signature protects what
/// the reader of entries is given.
fn check_batches(sets: &[FecSet], batches: &[Vec<u8>]) {
    let mut wanted: Vec<Vec<u8>> = vec![Vec::new()];
    for set in sets {
        let batch = wanted.last_mut().expect("one at least");
        set.entry_chunks().for_each(|chunk| batch.extend_from_slice(chunk));
        if set.header().ends_batch {
            wanted.push(Vec::new());
        }
    }
    assert!(batches.len() <= wanted.len());
    for (batch, wanted) in batches.iter().zip(&wanted) {
        assert_eq!(batch, wanted);
    }
}
