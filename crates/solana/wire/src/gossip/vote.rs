//! A vote in gossip: a legacy transaction whose first instruction is a vote.
//!
//! reads   a transaction at the front of more bytes
//! writes  its end, and the last slot that it votes for
//! drops   exactly what the cluster's nodes refuse: they drop a whole datagram for one such value, so a node that
//!         accepted more would spoil its own datagrams, and one that accepted less would lose theirs
//! source  `solana-transaction` 4.1, `sanitize`; `solana-vote` 4.2.2, `vote_parser.rs`; `solana-vote-interface` 6.0

use super::read::{GossipErrorKind, Reader, Result};
use crate::consts::{Pubkey, VOTE_PROGRAM};

/// Instructions of the vote program that are votes.
const VOTE: u32 = 2;
const VOTE_SWITCH: u32 = 6;
const UPDATE: u32 = 8;
const UPDATE_SWITCH: u32 = 9;
const COMPACT_UPDATE: u32 = 12;
const COMPACT_UPDATE_SWITCH: u32 = 13;
const TOWER_SYNC: u32 = 14;
const TOWER_SYNC_SWITCH: u32 = 15;

/// Reads the transaction. Returns its bytes and the last slot voted for, if any.
pub(super) fn read_transaction<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], Option<u64>)> {
    let start = reader.at();
    let signatures = reader.short_count()?;
    reader.take(64 * signatures)?;
    let header = reader.at();
    let [required, readonly_signed, readonly_unsigned] = reader.array::<3>()?.map(usize::from);
    let accounts = reader.short_count()?;
    let keys: &[Pubkey] = reader.take(32 * accounts)?.as_chunks().0;
    let is_sound = required <= signatures
        && signatures <= accounts
        && required + readonly_unsigned <= accounts
        && readonly_signed < required;
    Reader::check(is_sound, GossipErrorKind::Vote, header)?;
    reader.take(32)?;
    let mut vote = None;
    for index in 0..reader.short_count()? {
        let at = reader.at();
        let program = usize::from(reader.u8()?);
        let count = reader.short_count()?;
        let named = reader.take(count)?;
        let len = reader.short_count()?;
        let data = reader.take(len)?;
        let is_sound = (1..accounts).contains(&program) && named.iter().all(|account| usize::from(*account) < accounts);
        Reader::check(is_sound, GossipErrorKind::Vote, at)?;
        if index == 0 && keys[program] == VOTE_PROGRAM && !named.is_empty() {
            vote = read_instruction(data).ok();
        }
    }
    let slot = vote.ok_or(Reader::error(GossipErrorKind::Vote, start))?;
    Ok((reader.since(start), slot))
}

/// The last slot of a vote instruction. Trailing bytes are ignored.
fn read_instruction(data: &[u8]) -> Result<Option<u64>> {
    let mut reader = Reader::new(data);
    let tag = reader.u32()?;
    let slot = match tag {
        VOTE | VOTE_SWITCH => {
            let count = reader.count(8)?;
            let slots: &[[u8; 8]] = reader.take(8 * count)?.as_chunks().0;
            slots.last().map(|slot| u64::from_le_bytes(*slot))
        }
        UPDATE | UPDATE_SWITCH => {
            let count = reader.count(12)?;
            let lockouts: &[[u8; 12]] = reader.take(12 * count)?.as_chunks().0;
            let slot = lockouts.last().and_then(|lockout| lockout.first_chunk().copied()).map(u64::from_le_bytes);
            if reader.flag()? {
                reader.u64()?;
            }
            slot
        }
        COMPACT_UPDATE | COMPACT_UPDATE_SWITCH | TOWER_SYNC | TOWER_SYNC_SWITCH => read_offsets(&mut reader)?,
        _ => return Err(Reader::error(GossipErrorKind::Vote, 0)),
    };
    // The bank's hash and the timestamp.
    reader.take(32)?;
    if reader.flag()? {
        reader.u64()?;
    }
    let has_block = matches!(tag, TOWER_SYNC | TOWER_SYNC_SWITCH);
    let is_switch = matches!(tag, VOTE_SWITCH | UPDATE_SWITCH | COMPACT_UPDATE_SWITCH | TOWER_SYNC_SWITCH);
    reader.take(32 * (usize::from(has_block) + usize::from(is_switch)))?;
    Ok(slot)
}

/// A root, and lockouts as differences of slots.
fn read_offsets(reader: &mut Reader<'_>) -> Result<Option<u64>> {
    let root = reader.u64()?;
    let mut slot = if root == u64::MAX { 0 } else { root };
    let count = reader.short_count()?;
    for _ in 0..count {
        let at = reader.at();
        slot = slot.checked_add(reader.varint(64)?).ok_or(Reader::error(GossipErrorKind::Range, at))?;
        reader.u8()?;
    }
    Ok((count > 0).then_some(slot))
}
