//! stakes: who stakes how much on whom, as a bank's fields have it: in the bank's epoch, and for leader schedules.
//!
//! reads   parts of the file of fields
//! writes  the same
//! memory  a vote account has up to 10 MiB of data by its length, 3,762 B in fact
//! drops   delegations in what leader schedules are drawn from: the cluster neither uses nor writes them
//! source  `solana-runtime` 4.2, `stakes.rs` and `epoch_stakes.rs`; `vote_account.rs` of `solana-vote` 4.2

use std::io::Read;
use std::sync::Arc;

use hearth_wire::Pubkey;

use super::codec::{Decoder, Encoder};
use super::error::Fault;
use super::storage::DATA_MAX;
use crate::account::Account;

/// A vote account and what is staked on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StakedVote {
    /// Address of the vote account.
    pub address: Pubkey,
    /// Lamports that are active.
    pub stake: u64,
    /// The vote account itself, data included.
    pub account: Account,
}

/// The delegation of a stake account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StakeDelegation {
    /// The stake account's address.
    pub address: Pubkey,
    /// The vote account that it is delegated to.
    pub vote: Pubkey,
    /// Lamports that are delegated.
    pub stake: u64,
    /// The epoch in which it was delegated; `u64::MAX` in a genesis.
    pub activation_epoch: u64,
    /// The epoch in which it was taken back; `u64::MAX` if it was not.
    pub deactivation_epoch: u64,
    /// Bytes that once were a rate. No rule reads them.
    pub reserved: [u8; 8],
}

/// All stake of an epoch that is past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StakeOfEpoch {
    /// The number of the epoch.
    pub epoch: u64,
    /// Lamports that were active.
    pub effective: u64,
    /// Lamports that were becoming active.
    pub activating: u64,
    /// Lamports that were ceasing to be.
    pub deactivating: u64,
}

/// The stakes in a bank's epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BankStakes {
    /// The vote accounts, each with the stake on it.
    pub votes: Vec<StakedVote>,
    /// The delegations, one for each stake account.
    pub delegations: Vec<StakeDelegation>,
    /// The number of the bank's epoch.
    pub epoch: u64,
    /// The epochs before it.
    pub history: Vec<StakeOfEpoch>,
}

/// The vote accounts of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVotes {
    /// The identity of the node.
    pub node: Pubkey,
    /// The addresses of its vote accounts.
    pub votes: Vec<Pubkey>,
    /// The lamports staked on them together.
    pub stake: u64,
}

/// The stakes from which the leaders of an epoch are drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochStakes {
    /// The epoch whose leaders they are.
    pub epoch: u64,
    /// The vote accounts as they were then.
    pub votes: Vec<StakedVote>,
    /// The epoch in which the stakes were these.
    pub staked_in: u64,
    /// The epochs before that.
    pub history: Vec<StakeOfEpoch>,
    /// The lamports staked on all vote accounts together.
    pub total: u64,
    /// The nodes with stake.
    pub nodes: Vec<NodeVotes>,
    /// Vote accounts and who may vote with each.
    pub voters: Vec<(Pubkey, Pubkey)>,
}

impl BankStakes {
    pub(super) fn encode(&self, to: &mut Encoder) {
        encode_votes(&self.votes, to);
        to.many(&self.delegations, |to, delegation| {
            to.raw(&delegation.address);
            to.raw(&delegation.vote);
            to.u64(delegation.stake);
            to.u64(delegation.activation_epoch);
            to.u64(delegation.deactivation_epoch);
            to.raw(&delegation.reserved);
        });
        to.u64(0); // Unused.
        to.u64(self.epoch);
        encode_history(&self.history, to);
    }

    pub(super) fn decode<R: Read>(from: &mut Decoder<R>) -> Result<Self, Fault> {
        let votes = decode_votes(from)?;
        let delegations = from.many(32 + 64, |from| {
            Ok(StakeDelegation {
                address: from.array()?,
                vote: from.array()?,
                stake: from.u64()?,
                activation_epoch: from.u64()?,
                deactivation_epoch: from.u64()?,
                reserved: from.array()?,
            })
        })?;
        from.u64()?;
        Ok(Self { votes, delegations, epoch: from.u64()?, history: decode_history(from)? })
    }
}

impl EpochStakes {
    /// Bytes of an epoch without stake.
    pub(super) const SIZE_MIN: u64 = 8 + 4 + 2 * 8 + 2 * 8 + 8 + 8 + 2 * 8;

    pub(super) fn encode(&self, to: &mut Encoder) {
        to.u64(self.epoch);
        to.u32(0); // The one form that there is.
        encode_votes(&self.votes, to);
        to.u64(0); // Delegations.
        to.u64(0); // Unused.
        to.u64(self.staked_in);
        encode_history(&self.history, to);
        to.u64(self.total);
        to.many(&self.nodes, |to, node| {
            to.raw(&node.node);
            to.many(&node.votes, |to, vote| to.raw(vote));
            to.u64(node.stake);
        });
        to.many(&self.voters, |to, (vote, voter)| {
            to.raw(vote);
            to.raw(voter);
        });
    }

    pub(super) fn decode<R: Read>(from: &mut Decoder<R>) -> Result<Self, Fault> {
        let epoch = from.u64()?;
        if from.u32()? != 0 {
            return Err(Fault::Malformed("stakes of an epoch in an unknown form"));
        }
        let votes = decode_votes(from)?;
        // Delegations with the credits that each had observed.
        for _ in 0..from.count(32 + 72)? {
            from.array::<{ 32 + 72 }>()?;
        }
        from.u64()?;
        let (staked_in, history, total) = (from.u64()?, decode_history(from)?, from.u64()?);
        let nodes = from.many(32 + 16, |from| {
            Ok(NodeVotes { node: from.array()?, votes: from.many(32, |from| from.array())?, stake: from.u64()? })
        })?;
        let voters = from.many(64, |from| Ok((from.array()?, from.array()?)))?;
        Ok(Self { epoch, votes, staked_in, history, total, nodes, voters })
    }
}

/// Bytes of a vote account without data.
const VOTE_SIZE_MIN: u64 = 32 + 8 + 8 + 8 + 32 + 1 + 8;

fn encode_votes(votes: &[StakedVote], to: &mut Encoder) {
    to.many(votes, |to, vote| {
        to.raw(&vote.address);
        to.u64(vote.stake);
        to.u64(vote.account.lamports);
        to.bytes(vote.account.data());
        to.raw(&vote.account.owner);
        to.flag(vote.account.executable);
        to.u64(vote.account.rent_epoch);
    });
}

fn decode_votes<R: Read>(from: &mut Decoder<R>) -> Result<Vec<StakedVote>, Fault> {
    from.many(VOTE_SIZE_MIN, |from| {
        let (address, stake): (Pubkey, u64) = (from.array()?, from.u64()?);
        let mut account = Account::wallet(from.u64()?);
        account.set_shared_data(Arc::new(from.bytes(DATA_MAX)?));
        account.owner = from.array()?;
        account.executable = from.flag()?;
        account.rent_epoch = from.u64()?;
        Ok(StakedVote { address, stake, account })
    })
}

fn encode_history(history: &[StakeOfEpoch], to: &mut Encoder) {
    to.many(history, |to, entry| {
        for value in [entry.epoch, entry.effective, entry.activating, entry.deactivating] {
            to.u64(value);
        }
    });
}

/// The entries of a stake history, as its sysvar has them: what is behind them is of no meaning.
pub fn read_stake_history(data: &[u8]) -> Result<Vec<StakeOfEpoch>, Fault> {
    decode_history(&mut Decoder::new(data, data.len() as u64))
}

fn decode_history<R: Read>(from: &mut Decoder<R>) -> Result<Vec<StakeOfEpoch>, Fault> {
    from.many(32, |from| {
        let (epoch, effective) = (from.u64()?, from.u64()?);
        Ok(StakeOfEpoch { epoch, effective, activating: from.u64()?, deactivating: from.u64()? })
    })
}
