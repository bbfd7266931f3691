//! A node's vote transaction, which carries its whole tower.
//!
//! reads   a tower and the block that it is for; transactions
//! writes  messages to sign; the block that a transaction votes for
//! drops   transactions that are not votes: `None`
//! source  `vote_state_v4.rs` and `state/mod.rs` of `solana-vote-interface` 6.0; `consensus.rs` of `solana-core` 4.2

use crate::consts::VOTE_PROGRAM;
use crate::message::{AccountMeta, Instruction, Message};
use crate::{Hash, Pubkey, Txn, compact};

/// Maximum votes of a tower: one more makes the oldest vote's slot the root.
pub const MAX_LOCKOUTS: usize = 31;
/// The vote program's instruction that carries a whole tower.
const TOWER_SYNC: u32 = 14;
/// The same for a vote that switches forks.
const TOWER_SYNC_SWITCH: u32 = 15;

/// The block that a vote is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VotedBlock {
    /// The slot of the block.
    pub slot: u64,
    /// The hash of its bank.
    pub bank_hash: Hash,
    /// The root of its last FEC set.
    pub block_id: Hash,
    /// Its last entry's hash, which the transaction uses as blockhash.
    pub blockhash: Hash,
}

/// A vote of a tower, which locks out other forks for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lockout {
    /// The slot voted for.
    pub slot: u64,
    /// It binds for 2 to the power of this many slots.
    pub confirmation_count: u32,
}

impl Lockout {
    /// The last slot for which it binds.
    pub fn last_locked_out_slot(&self) -> u64 {
        self.slot.saturating_add(1 << self.confirmation_count.min(MAX_LOCKOUTS as u32))
    }

    /// Whether it still binds at a slot.
    pub fn binds_at(&self, slot: u64) -> bool {
        self.last_locked_out_slot() >= slot
    }
}

/// A vote account, with its stake in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteStake {
    /// Address of the vote account.
    pub vote: Pubkey,
    /// The node that votes with it.
    pub node: Pubkey,
    /// The recipient of its blocks' fees.
    pub collector: Pubkey,
    /// Effective stake in lamports.
    pub stake: u64,
}

/// The votes and the root of a vote account after a block, with its stake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountVotes {
    /// Address of the vote account.
    pub key: Pubkey,
    /// Lamports delegated to it that are effective in the block's epoch.
    pub stake: u64,
    /// Its votes, the oldest first, slots ascending.
    pub votes: Vec<Lockout>,
    /// The newest slot that the votes have made final; `None` before there is one.
    pub root: Option<u64>,
    /// The newest vote with a timestamp: its slot, and Unix seconds; zeros if there is none.
    pub last_timestamp: (u64, i64),
}

impl AccountVotes {
    /// The newest slot voted for.
    pub fn last_vote(&self) -> Option<u64> {
        self.votes.last().map(|vote| vote.slot)
    }
}

/// Size of a vote transaction if the node votes with its own key, and the tower is full of nearby slots: 1 + 64 of a
/// signature; 3 + 1 + 3 × 32 + 32 of a message with three addresses and a blockhash; 1 + 1 + 3 + 2 of its instruction;
/// 4 + 8 + 1 + 31 × 2 + 32 + 9 + 32 of that instruction's data.
pub const VOTE_TRANSACTION_BYTES: usize = 65 + 132 + 7 + 148;

/// A tower, in the form of the vote program's instruction of this name.
#[derive(Clone, Copy, Debug)]
pub struct TowerSync<'a> {
    /// The binding votes, the oldest first.
    pub votes: &'a [Lockout],
    /// The newest slot that the votes have made final; `None` before there is one.
    pub root: Option<u64>,
    /// Unix time in seconds.
    pub timestamp: Option<i64>,
    /// Whether this vote switches forks. The cluster does not check the switch proof, which is all zeros.
    pub is_switch: bool,
}

impl TowerSync<'_> {
    /// The message by which `node` sends the tower, whose newest vote is for `block`, with its account `vote`.
    pub fn message(&self, node: &Pubkey, vote: &Pubkey, block: &VotedBlock) -> Message {
        self.message_by(node, node, vote, block)
    }

    /// The same if another key than the node's is the authorized voter: the node pays, and both sign.
    pub fn message_by(&self, node: &Pubkey, voter: &Pubkey, vote: &Pubkey, block: &VotedBlock) -> Message {
        let instruction = Instruction {
            program_id: VOTE_PROGRAM,
            accounts: vec![AccountMeta::writable(*vote, false), AccountMeta::readonly(*voter, true)],
            data: self.instruction(block),
        };
        Message::compile(node, &[instruction], &block.blockhash).expect("31 votes fit a packet")
    }

    fn instruction(&self, block: &VotedBlock) -> Vec<u8> {
        let tag = if self.is_switch { TOWER_SYNC_SWITCH } else { TOWER_SYNC };
        let mut data = tag.to_le_bytes().to_vec();
        self.write(&block.bank_hash, &block.block_id, &mut data);
        if self.is_switch {
            data.extend([0; 32]);
        }
        data
    }

    /// Appends the tower, whose newest vote is for the block with these hashes, in the cluster's encoding: root, votes
    /// as differences, the block's bank hash, timestamp, block id.
    pub(crate) fn write(&self, bank_hash: &Hash, block_id: &Hash, out: &mut Vec<u8>) {
        out.extend(self.root.unwrap_or(u64::MAX).to_le_bytes());
        compact::write(self.votes.len() as u16, out);
        let mut before = self.root.unwrap_or(0);
        for vote in self.votes {
            variable(vote.slot - before, out);
            out.push(vote.confirmation_count as u8);
            before = vote.slot;
        }
        out.extend(bank_hash);
        out.push(self.timestamp.is_some().into());
        out.extend(self.timestamp.into_iter().flat_map(i64::to_le_bytes));
        out.extend(block_id);
    }
}

/// Appends a varint: seven bits per byte, the lowest first.
fn variable(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Whether the bytes are a message whose only effect is a vote with the account `vote`, as made by
/// [`TowerSync::message_by`]: `node` pays, it and `voter` sign, and the one instruction calls the vote program with a
/// tower.
pub fn is_vote_message_by(bytes: &[u8], node: &Pubkey, voter: &Pubkey, vote: &Pubkey) -> bool {
    let is_alone = node == voter;
    let mut frame = if is_alone { vec![1, 0, 1, 3] } else { vec![2, 1, 1, 4] };
    let keys = [Some(node), Some(voter).filter(|_| !is_alone), Some(vote), Some(&VOTE_PROGRAM)];
    keys.into_iter().flatten().for_each(|key| frame.extend_from_slice(key));
    let call: [u8; 5] = if is_alone { [1, 2, 2, 1, 0] } else { [1, 3, 2, 2, 1] };
    let Some(rest) = bytes.strip_prefix(&frame[..]) else { return false };
    // Skips the blockhash.
    let Some(data) = rest.get(32..).and_then(|rest| rest.strip_prefix(&call)) else { return false };
    let Ok((length, at)) = compact::read(data, 0) else { return false };
    let tells = |tag: u32| data[at..].starts_with(&tag.to_le_bytes());
    at + usize::from(length) == data.len() && (tells(TOWER_SYNC) || tells(TOWER_SYNC_SWITCH))
}

/// Whether a transaction is a vote: it calls the vote program once, and nothing else.
pub fn is_vote(txn: &Txn<'_>) -> bool {
    let mut instructions = txn.instructions();
    let calls_vote = instructions.next().is_some_and(|call| {
        txn.account_keys().get(usize::from(call.program_id_index)).is_some_and(|program| *program == VOTE_PROGRAM)
    });
    calls_vote && instructions.next().is_none() && txn.signatures().len() <= 2
}

/// The block that a transaction votes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteTarget {
    /// Address of the vote account that votes.
    pub account: Pubkey,
    /// The newest slot voted for.
    pub slot: u64,
    /// The hash of its bank.
    pub bank_hash: Hash,
    /// The root of its last FEC set.
    pub block_id: Hash,
}

/// The block that a transaction votes for, if it carries a whole tower. Its signatures are not verified.
pub fn voted_for(txn: &Txn<'_>) -> Option<VoteTarget> {
    if !is_vote(txn) {
        return None;
    }
    let call = txn.instructions().next()?;
    let account = *txn.account_keys().get(usize::from(*call.accounts.first()?))?;
    let (tag, tower) = call.data.split_first_chunk()?;
    if ![TOWER_SYNC, TOWER_SYNC_SWITCH].contains(&u32::from_le_bytes(*tag)) {
        return None;
    }
    let (root, rest) = tower.split_first_chunk()?;
    let (count, at) = compact::read(rest, 0).ok()?;
    let mut slot = Some(u64::from_le_bytes(*root)).filter(|root| *root != u64::MAX).unwrap_or(0);
    let mut rest = rest.get(at..)?;
    for _ in 0..count {
        let offset;
        (offset, rest) = read_variable(rest)?;
        slot = slot.checked_add(offset)?;
        rest = rest.get(1..)?;
    }
    let (bank_hash, rest) = rest.split_first_chunk()?;
    let block_id = match rest.split_first()? {
        (0, rest) => rest.first_chunk()?,
        (_, rest) => rest.get(8..)?.first_chunk()?,
    };
    (count > 0).then_some(VoteTarget { account, slot, bank_hash: *bank_hash, block_id: *block_id })
}

/// Reads a number written by [`variable`]; returns the remaining bytes too.
pub(crate) fn read_variable(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)?;
    let shifted = |(place, byte): (usize, &u8)| u64::from(byte & 0x7f).checked_shl(7 * place as u32);
    let number = bytes[..=end].iter().enumerate().try_fold(0, |sum, part| Some(sum | shifted(part)?))?;
    Some((number, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests;
