//! codec: encodes events and commands, and splits them into chunks that fit a link.
//!
//! reads   messages; chunks
//! writes  chunks; messages
//! memory  one message: an event with all vote accounts takes 450 B for each
//! drops   nothing
//!
//! Numbers are little endian. Both ends belong to the same build, so a message that does not decode is a broken
//! invariant.

use std::sync::Arc;

use hearth_consensus::{AccountVotes, BankId, FrozenBank};
use hearth_ledger::stakes::{EpochStakes, VoteStake};
use hearth_wire::vote::{Lockout, VoteTarget};

use super::messages::{Command, Event, FrozenBlock, StoredBlock};
use crate::links::MORE;
use crate::links::codec::Reader;

/// Reassembles the chunks of a message.
#[derive(Debug, Default)]
pub struct Pieces {
    bytes: Vec<u8>,
    is_done: bool,
}

impl Pieces {
    /// Takes a frag's payload and control bits. Returns the message once it is complete.
    pub fn push(&mut self, piece: &[u8], control: u16) -> Option<&[u8]> {
        if std::mem::take(&mut self.is_done) {
            self.bytes.clear();
        }
        self.bytes.extend_from_slice(piece);
        self.is_done = control & MORE == 0;
        self.is_done.then_some(&self.bytes)
    }
}

/// Splits a message into chunks of at most `mtu` bytes, each with its control bits.
pub fn pieces(message: &[u8], mtu: usize) -> impl Iterator<Item = (&[u8], u16)> {
    let last = message.len().div_ceil(mtu) - 1;
    message.chunks(mtu).enumerate().map(move |(at, piece)| (piece, if at == last { 0 } else { MORE }))
}

impl Event {
    /// Encodes the event as one message, which is sent in chunks.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![];
        match self {
            Self::Epoch(stakes) => {
                out.push(0);
                put(&mut out, stakes.epoch);
                put(&mut out, stakes.votes.len() as u64);
                for one in &stakes.votes {
                    out.extend([one.vote, one.node, one.collector].as_flattened());
                    put(&mut out, one.stake);
                }
            }
            Self::Frozen(block) => {
                out.push(1);
                put_block(&mut out, block);
            }
            Self::Dead(slot) => put_slot(&mut out, 2, *slot),
            Self::Retracted(slot) => put_slot(&mut out, 3, *slot),
            Self::Dumped(slot) => put_slot(&mut out, 4, *slot),
            Self::Stored(StoredBlock { slot, parent, is_whole }) => {
                put_slot(&mut out, 5, *slot);
                put(&mut out, *parent);
                out.push((*is_whole).into());
            }
            Self::Voided(slot) => put_slot(&mut out, 6, *slot),
            Self::Backlog(has_backlog) => out.extend([7, (*has_backlog).into()]),
        }
        out
    }

    /// Decodes the event that [`Event::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut r = Reader(bytes);
        match r.u8() {
            0 => {
                let mut stakes = EpochStakes::default();
                stakes.epoch = r.u64();
                let count = r.u64();
                let one = |r: &mut Reader<'_>| VoteStake {
                    vote: *r.bytes(),
                    node: *r.bytes(),
                    collector: *r.bytes(),
                    stake: r.u64(),
                };
                stakes.votes = (0..count).map(|_| one(&mut r)).collect();
                Self::Epoch(Arc::new(stakes))
            }
            1 => Self::Frozen(Box::new(read_block(&mut r))),
            2 => Self::Dead(r.u64()),
            3 => Self::Retracted(r.u64()),
            4 => Self::Dumped(r.u64()),
            5 => Self::Stored(StoredBlock { slot: r.u64(), parent: r.u64(), is_whole: r.u8() == 1 }),
            6 => Self::Voided(r.u64()),
            7 => Self::Backlog(r.u8() == 1),
            kind => unreachable!("an event of no kind: {kind}"),
        }
    }
}

impl Command {
    /// Encodes the command as one message, which is sent in chunks.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![];
        match self {
            Self::BuildOn(id) => put_id(&mut out, 0, id),
            Self::Begin { slot, parent } => {
                put_id(&mut out, 1, parent);
                put(&mut out, *slot);
            }
            Self::Root(id) => put_id(&mut out, 2, id),
            Self::Confirmed(id) => put_id(&mut out, 3, id),
            Self::Finalized(slot) => put_slot(&mut out, 4, *slot),
            Self::Dump(slot) => put_slot(&mut out, 5, *slot),
            Self::Voted(voted) => {
                put_slot(&mut out, 6, voted.slot);
                out.extend([voted.account, voted.bank_hash, voted.block_id].as_flattened());
            }
        }
        out
    }

    /// Decodes the command that [`Command::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut r = Reader(bytes);
        match r.u8() {
            0 => Self::BuildOn(read_id(&mut r)),
            1 => Self::Begin { parent: read_id(&mut r), slot: r.u64() },
            2 => Self::Root(read_id(&mut r)),
            3 => Self::Confirmed(read_id(&mut r)),
            4 => Self::Finalized(r.u64()),
            5 => Self::Dump(r.u64()),
            6 => Self::Voted(VoteTarget {
                slot: r.u64(),
                account: *r.bytes(),
                bank_hash: *r.bytes(),
                block_id: *r.bytes(),
            }),
            kind => unreachable!("a command of no kind: {kind}"),
        }
    }
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn put_slot(out: &mut Vec<u8>, kind: u8, slot: u64) {
    out.push(kind);
    put(out, slot);
}

fn put_id(out: &mut Vec<u8>, kind: u8, id: &BankId) {
    put_slot(out, kind, id.slot);
    out.extend(id.hash);
}

fn read_id(r: &mut Reader<'_>) -> BankId {
    BankId { slot: r.u64(), hash: *r.bytes() }
}

fn put_block(out: &mut Vec<u8>, block: &FrozenBlock) {
    let FrozenBlock { bank, blockhash, voters } = block;
    for id in [&bank.id, &bank.parent] {
        put(out, id.slot);
        out.extend(id.hash);
    }
    out.extend([bank.block_id, bank.leader, *blockhash].as_flattened());
    put(out, bank.votes.len() as u64);
    for account in &bank.votes {
        out.extend(account.key);
        put(out, account.stake);
        out.push(account.root.is_some().into());
        put(out, account.root.unwrap_or(0));
        let (slot, unix_s) = account.last_timestamp;
        put(out, slot);
        out.extend(unix_s.to_le_bytes());
        put(out, account.votes.len() as u64);
        for vote in &account.votes {
            put(out, vote.slot);
            out.extend(vote.confirmation_count.to_le_bytes());
        }
    }
    put(out, voters.len() as u64);
    voters.iter().for_each(|(account, voter)| out.extend([*account, *voter].as_flattened()));
}

fn read_block(r: &mut Reader<'_>) -> FrozenBlock {
    let [id, parent] = [read_id(r), read_id(r)];
    let [block_id, leader, blockhash] = [*r.bytes(), *r.bytes(), *r.bytes()];
    let votes = (0..r.u64()).map(|_| read_account(r)).collect();
    let voters = (0..r.u64()).map(|_| (*r.bytes(), *r.bytes())).collect();
    FrozenBlock { bank: FrozenBank { id, parent, block_id, leader, votes }, blockhash, voters }
}

fn read_account(r: &mut Reader<'_>) -> AccountVotes {
    let (key, stake) = (*r.bytes(), r.u64());
    let has_root = r.u8() == 1;
    let root = Some(r.u64()).filter(|_| has_root);
    let last_timestamp = (r.u64(), r.u64() as i64);
    let lockout = |r: &mut Reader<'_>| Lockout { slot: r.u64(), confirmation_count: r.u32() };
    let votes = (0..r.u64()).map(|_| lockout(r)).collect();
    AccountVotes { key, stake, votes, root, last_timestamp }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u64) -> BankId {
        BankId { slot, hash: [slot as u8; 32] }
    }

    fn account(number: u8, root: Option<u64>) -> AccountVotes {
        let votes = vec![Lockout { slot: 4, confirmation_count: 31 }, Lockout { slot: 70_000, confirmation_count: 1 }];
        AccountVotes { key: [number; 32], stake: u64::MAX, votes, root, last_timestamp: (70_000, -5) }
    }

    #[test]
    fn events_keep_what_they_say() {
        let mut stakes = EpochStakes::default();
        stakes.epoch = 7;
        let one = |number| VoteStake { vote: [number; 32], node: [2; 32], collector: [3; 32], stake: 5 };
        stakes.votes = (0..3).map(one).collect();
        let votes = vec![account(1, Some(3)), account(2, None)];
        let bank = FrozenBank { id: id(9), parent: id(7), block_id: [4; 32], leader: [5; 32], votes };
        let block = FrozenBlock { bank, blockhash: [6; 32], voters: vec![([1; 32], [8; 32])] };
        let events = [
            Event::Epoch(Arc::new(stakes)),
            Event::Frozen(Box::new(block)),
            Event::Dead(1),
            Event::Retracted(2),
            Event::Dumped(3),
            Event::Stored(StoredBlock { slot: 4, parent: 3, is_whole: true }),
            Event::Voided(5),
            Event::Backlog(true),
        ];
        for event in events {
            assert_eq!(format!("{:?}", Event::decode(&event.encode())), format!("{event:?}"));
        }
    }

    #[test]
    fn commands_keep_what_they_say() {
        let commands = [
            Command::BuildOn(id(1)),
            Command::Begin { slot: 5, parent: id(2) },
            Command::Root(id(3)),
            Command::Confirmed(id(4)),
            Command::Finalized(5),
            Command::Dump(6),
            Command::Voted(VoteTarget { account: [1; 32], slot: 7, bank_hash: [2; 32], block_id: [3; 32] }),
        ];
        for command in commands {
            assert_eq!(Command::decode(&command.encode()), command);
        }
    }

    #[test]
    fn pieces_make_the_message() {
        let message: Vec<u8> = (0..100).collect();
        let mut assembly = Pieces::default();
        for mtu in [7, 50, 99, 100, 101] {
            let mut whole = vec![];
            for (piece, control) in pieces(&message, mtu) {
                assert!(whole.is_empty(), "only the last piece ends it");
                whole.extend_from_slice(assembly.push(piece, control).unwrap_or_default());
            }
            assert_eq!(whole, message, "{mtu}");
        }
    }
}
