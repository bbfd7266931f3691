//! archiver: writes the state of a ledger as an archive of the cluster's.
//!
//! reads   the ledger between two slots; the genesis; the transactions of the last blocks, which the caller reads:
//!         [`ChainFacts`]
//! writes  a full archive
//! memory  the bank's fields, with the vote accounts of up to six times; 64 bytes for each transaction of the last 300
//!         blocks; a pass over all accounts for the lengths of the files, one to write them
//! drops   the unfinished archive, if it does not become whole
//! source  `get_fields_to_serialize` of `bank.rs` of `solana-runtime` 4.2
//!
//! This is a module beside [`archive`](crate::archive) because it reads the ledger. Which slot wrote an account last is
//! not known: the accounts are spread over files of the newest slots, which means the same.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use hearth_wire::consts::{STAKE_PROGRAM, SYSVAR_STAKE_HISTORY, VOTE_PROGRAM};
use hearth_wire::{Hash, Pubkey, Txn};
use solana_fee_calculator::FeeRateGovernor;
use solana_inflation::Inflation;

use crate::account::Account;
use crate::archive::{
    ArchiveError, ArchiveName, BankFields, BankStakes, BankStats, BlockhashQueue, EpochStakes, Fault, NewArchive,
    NodeVotes, QueuedHash, SlotStatuses, StakeDelegation, StakedVote, StorageInfo, read_stake_history, stored_size,
};
use crate::genesis::Genesis;
use crate::ledger::Ledger;
use crate::stakes::{self, Delegation, StakeHistory};
use crate::vote_state::VoteState;

/// Bytes from which a new account file begins.
const FILE_SIZE: u64 = 1 << 30;
/// Hashes that stay in the queue of the cluster's nodes.
const MAX_AGE: u64 = 300;
/// Where the unused bytes of a delegation are in a stake account.
const RESERVED: std::ops::Range<usize> = 180..188;

/// What an archive says of a chain beside the state.
#[derive(Clone, Debug)]
pub struct ChainFacts {
    /// When the chain began, Unix time in seconds.
    pub creation_time: i64,
    /// Ticks in a slot.
    pub ticks_per_slot: u64,
    /// Hashes in a tick; `None` where ticks come by the clock.
    pub hashes_per_tick: Option<u64>,
    /// The time of a slot, nanoseconds.
    pub slot_ns: u64,
    /// Slots in a year.
    pub slots_per_year: f64,
    /// Slots from which the chain is another one, and how many forks each stands for.
    pub hard_forks: Vec<(u64, u64)>,
    /// How the price of a signature moves.
    pub fee_rate_governor: FeeRateGovernor,
    /// The price of a signature now, lamports.
    pub lamports_per_signature: u64,
    /// The inflation.
    pub inflation: Inflation,
    /// The stakes of each epoch whose leaders are known, from the bank's epoch on, with the vote accounts of then.
    pub epoch_stakes: Vec<EpochStakes>,
    /// The transactions of the newest 300 slots with blocks.
    pub statuses: Vec<SlotStatuses>,
    /// The id of the last block.
    pub block_id: Hash,
}

impl ChainFacts {
    /// Those of a ledger's last block, whose id is given, and the transactions of its newest 300 blocks:
    /// [`block_statuses`].
    pub fn of(ledger: &Ledger, genesis: &Genesis, statuses: Vec<SlotStatuses>, block_id: Hash) -> Self {
        let config = genesis.config();
        let inflating = ledger.reward_rules(&ledger.features()).inflating;
        let chain = ledger.chain();
        Self {
            creation_time: config.creation_time as i64,
            ticks_per_slot: config.ticks_per_slot,
            hashes_per_tick: config.hashes_per_tick,
            slot_ns: config.slot_ns(),
            slots_per_year: inflating.slots_per_year,
            hard_forks: ledger.hard_forks(),
            // The cluster derives the bounds of the price with each block; the price itself is below.
            fee_rate_governor: FeeRateGovernor::new_derived(&config.fee_rate_governor, 0),
            lamports_per_signature: chain.blockhashes.last_price(),
            inflation: inflating.inflation,
            epoch_stakes: chain.epochs.all().map(|stakes| epoch_stakes(stakes)).collect(),
            statuses,
            block_id,
        }
    }
}

/// The transactions of one of the last 300 blocks as an archive has them. `None` if the result of one is not known.
pub fn block_statuses<'a>(
    ledger: &Ledger,
    slot: u64,
    transactions: impl IntoIterator<Item = Txn<'a>>,
) -> Option<SlotStatuses> {
    let now = ledger.recent_blocks(1)[0].height;
    let landed = |txn: Txn<'a>| {
        let status = ledger.statuses().status(txn.first_signature(), now)?;
        (status.slot == slot).then_some((txn, status.result))
    };
    let transactions: Vec<_> = transactions.into_iter().map(landed).collect::<Option<_>>()?;
    Some(SlotStatuses::of_block(slot, transactions))
}

/// The stakes of an epoch as the cluster keeps them.
fn epoch_stakes(counted: &stakes::EpochStakes) -> EpochStakes {
    let (mut votes, mut voters, mut nodes) = (vec![], vec![], BTreeMap::<Pubkey, NodeVotes>::new());
    for vote in counted.counted() {
        let (address, stake, node) = (vote.stake.vote, vote.stake.stake, vote.stake.node);
        let voter = VoteState::of_account(&vote.account).and_then(|state| state.voter(counted.epoch));
        votes.push(StakedVote { address, stake, account: vote.account });
        // One without stake leads no slot, and its votes do not count.
        let Some(voter) = voter.filter(|_| stake > 0) else { continue };
        let of_node = nodes.entry(node).or_insert_with(|| NodeVotes { node, votes: vec![], stake: 0 });
        of_node.votes.push(address);
        of_node.stake += stake;
        voters.push((address, voter));
    }
    EpochStakes {
        epoch: counted.epoch,
        votes,
        staked_in: counted.counted_in,
        // The cluster leaves it out here.
        history: vec![],
        total: counted.total(),
        nodes: nodes.into_values().collect(),
        voters,
    }
}

/// Writes the state at the end of the last block into `folder`, as `snapshot-SLOT-HASH.tar.zst`. `progress` is called
/// with the number of accounts that are written. A file of that name is not replaced.
///
/// # Panics
///
/// A slot is in progress.
pub fn write_archive(
    ledger: &Ledger,
    facts: &ChainFacts,
    folder: &Path,
    mut progress: impl FnMut(u64),
) -> Result<PathBuf, ArchiveError> {
    assert!(ledger.working_bank().is_none(), "the state is whole between two slots alone");
    let fields = bank_fields(ledger, facts).map_err(|fault| ArchiveError::of(folder, fault))?;
    let name = ArchiveName { base: None, slot: fields.slot, hash: fields.lattice.checksum() };
    let path = folder.join(name.to_string());
    if path.exists() {
        return Err(ArchiveError::of(&path, Fault::Write(ErrorKind::AlreadyExists.into())));
    }
    let mut archive = NewArchive::create(folder, None, &fields, &facts.statuses)?;
    let mut count = 0;
    let written = ledger.accounts().scan(|key, account| match archive.account(key, account) {
        Ok(()) => {
            count += 1;
            progress(count);
            ControlFlow::Continue(())
        }
        Err(why) => ControlFlow::Break(why),
    });
    match written {
        ControlFlow::Continue(()) => archive.finish(),
        ControlFlow::Break(why) => Err(why),
    }
}

/// The fields of the last block's bank.
fn bank_fields(ledger: &Ledger, facts: &ChainFacts) -> Result<BankFields, Fault> {
    let (slot, hash) = ledger.hash_all();
    let block = ledger.recent_blocks(1)[0];
    let totals = Totals::of(ledger, slot);
    let fields = BankFields {
        blockhashes: blockhashes(ledger),
        hash,
        parent_hash: ledger.bank_hash(block.parent).unwrap_or_default(),
        parent_slot: block.parent,
        hard_forks: facts.hard_forks.clone(),
        transaction_count: block.transaction_count,
        tick_height: (slot + 1) * facts.ticks_per_slot,
        signature_count: block.counts.signatures,
        capitalization: totals.lamports,
        max_tick_height: (slot + 1) * facts.ticks_per_slot,
        hashes_per_tick: facts.hashes_per_tick,
        ticks_per_slot: facts.ticks_per_slot,
        ns_per_slot: facts.slot_ns.into(),
        genesis_creation_time: facts.creation_time,
        slots_per_year: facts.slots_per_year,
        accounts_data_len: totals.data_len,
        slot,
        block_height: block.height,
        leader: ledger.leader_at(slot).map_or([0; 32], |leader| leader.node),
        fee_rate_governor: FeeRateGovernor {
            lamports_per_signature: facts.lamports_per_signature,
            ..facts.fee_rate_governor.clone()
        },
        epoch_schedule: *ledger.epoch_schedule(),
        inflation: facts.inflation,
        stakes: stakes(ledger, slot, totals.votes, totals.stakes)?,
        is_delta: true,
        storages: totals.storages,
        stats: BankStats::default(),
        lamports_per_signature: facts.lamports_per_signature,
        epoch_stakes: facts.epoch_stakes.clone(),
        lattice: ledger.lattice(),
        block_id: Some(facts.block_id),
    };
    match fields.computed_hash() {
        computed if computed != hash => Err(Fault::Hash { what: "the bank's hash", found: hash, computed }),
        _ => Ok(fields),
    }
}

fn blockhashes(ledger: &Ledger) -> BlockhashQueue {
    let chain = ledger.chain();
    // The genesis hash has number 0, that of slot 0 is the first of a block.
    let last_index = chain.blockhashes.last_height() + 1;
    let queued = |(age, (hash, price)): (usize, (&Hash, u64))| QueuedHash {
        hash: *hash,
        lamports_per_signature: price,
        index: last_index - age as u64,
        timestamp: 0,
    };
    let hashes = chain.blockhashes.newest_first().enumerate().map(queued).collect();
    BlockhashQueue { last_index, last: Some(*chain.blockhashes.last()), hashes, max_age: MAX_AGE }
}

/// What a pass over all accounts finds.
struct Totals {
    lamports: u64,
    data_len: u64,
    storages: Vec<StorageInfo>,
    votes: Vec<(Pubkey, Account)>,
    stakes: Vec<(Pubkey, Account)>,
}

impl Totals {
    fn of(ledger: &Ledger, slot: u64) -> Self {
        let mut totals = Self { lamports: 0, data_len: 0, storages: vec![], votes: vec![], stakes: vec![] };
        let (mut lens, mut len) = (vec![], 0);
        ledger.accounts().for_each(|key, account| {
            totals.lamports += account.lamports;
            totals.data_len += account.data().len() as u64;
            if account.owner == VOTE_PROGRAM && VoteState::of_account(account).is_some() {
                totals.votes.push((*key, account.clone()));
            } else if account.owner == STAKE_PROGRAM && Delegation::read(account.data()).is_some() {
                totals.stakes.push((*key, account.clone()));
            }
            // A slot has one file, so that there are as many as slots at most.
            if len >= FILE_SIZE && (lens.len() as u64) < slot {
                lens.push(std::mem::take(&mut len));
            }
            len += stored_size(account.data().len());
        });
        lens.push(len);
        totals.storages =
            lens.into_iter().zip(0..).map(|(len, n)| StorageInfo { slot: slot - n, id: n + 1, len }).collect();
        totals
    }
}

fn stakes(
    ledger: &Ledger,
    slot: u64,
    votes: Vec<(Pubkey, Account)>,
    stakes: Vec<(Pubkey, Account)>,
) -> Result<BankStakes, Fault> {
    let (accounts, epoch) = (ledger.accounts(), ledger.epoch_schedule().epoch(slot));
    let history = StakeHistory::load(accounts);
    let mut effective = BTreeMap::<Pubkey, u64>::new();
    let mut delegations = Vec::with_capacity(stakes.len());
    for (address, account) in &stakes {
        let Some(delegation) = Delegation::read(account.data()) else { continue };
        *effective.entry(delegation.vote).or_default() += delegation.activation(epoch, &history).effective;
        delegations.push(StakeDelegation {
            address: *address,
            vote: delegation.vote,
            stake: delegation.stake,
            activation_epoch: delegation.activation_epoch,
            deactivation_epoch: delegation.deactivation_epoch,
            reserved: account.data()[RESERVED].try_into().expect("8 bytes"),
        });
    }
    let staked = |(address, account): (Pubkey, Account)| {
        let stake = effective.get(&address).copied().unwrap_or_default();
        StakedVote { address, stake, account }
    };
    let votes = votes.into_iter().map(staked).collect();
    let history =
        accounts.load(&SYSVAR_STAKE_HISTORY).map_or(Ok(vec![]), |account| read_stake_history(account.data()))?;
    Ok(BankStakes { votes, delegations, epoch, history })
}

#[cfg(test)]
mod tests;
