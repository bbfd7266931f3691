//! Pruning of old blocks, a file at a time, on the thread that syncs.
//!
//! reads   the hashes of the pruned blocks
//! writes  the new first block, before a file is removed
//! memory  the hashes of one file's blocks
//! drops   blocks beyond the configured number

use std::hash::BuildHasher;
use std::path::Path;

use parking_lot::Mutex;

use super::base::{Base, HEADERS_MAX};
use super::record::Hashes;
use super::segment::{RecordPlace, SegmentHead};
use super::{BlocksError, Inner};

/// Minimum blocks of a file.
const BLOCKS_MIN: u64 = 16;

/// Returns the maximum blocks of a file, if the last `retain` are kept: at most an eighth more stays on disk.
pub(super) fn blocks_max(retain: u64) -> u64 {
    if retain == 0 { u64::MAX } else { (retain / 8).max(BLOCKS_MIN) }
}

/// Removes the oldest files without any of the last `retain` blocks.
pub(super) fn let_go(inner: &Mutex<Inner>, dir: &Path, of: &SegmentHead, retain: u64) -> Result<(), BlocksError> {
    loop {
        let found = {
            let inner = inner.lock();
            oldest(&inner, retain)
        };
        let Some((first, places)) = found else { return Ok(()) };
        let base = Base { first, headers: headers_before(inner, first)? };
        base.write(dir, of)?;
        for (number, place) in &places {
            let hashes = place.hashes()?;
            inner.lock().forget_at(*number, &hashes);
        }
        let gone = {
            let mut inner = inner.lock();
            // The chain may have been set back meanwhile.
            if inner.segments.get(1).is_none_or(|segment| segment.first() != first) {
                return Ok(());
            }
            inner.base = base;
            inner.blooms.forget_before(first);
            inner.segments.remove(0)
        };
        gone.remove()?;
    }
}

/// Returns the places of the blocks of the oldest file, if it is to be removed, and the number of the first that stays.
fn oldest(inner: &Inner, retain: u64) -> Option<(u64, Vec<(u64, RecordPlace)>)> {
    let [oldest, next, ..] = &inner.segments[..] else { return None };
    if retain == 0 || next.first().saturating_add(retain) > inner.newest() + 1 {
        return None;
    }
    let numbers = oldest.first()..next.first();
    Some((next.first(), numbers.filter_map(|number| Some((number, oldest.find(number)?))).collect()))
}

fn headers_before(inner: &Mutex<Inner>, first: u64) -> Result<Vec<alloy_consensus::Header>, BlocksError> {
    let mut headers = Vec::new();
    for number in (first.saturating_sub(HEADERS_MAX)..first).rev() {
        let (place, kept) = {
            let inner = inner.lock();
            (inner.find(number), inner.base.header(number))
        };
        match (place, kept) {
            (Some(place), _) => headers.push(place.read()?.0.header),
            (None, Some(header)) => headers.push(header),
            // Block zero, which the chain knows.
            (None, None) => break,
        }
    }
    Ok(headers)
}

impl Inner {
    fn forget_at(&mut self, number: u64, hashes: &Hashes) {
        let key = self.key.hash_one(hashes.block);
        if self.by_hash.get(&key) == Some(&number) {
            self.by_hash.remove(&key);
        }
        for hash in &hashes.txs {
            let key = self.key.hash_one(hash);
            if self.by_tx.get(&key).is_some_and(|place| place >> super::INDEX_BITS == number) {
                self.by_tx.remove(&key);
            }
        }
    }
}
