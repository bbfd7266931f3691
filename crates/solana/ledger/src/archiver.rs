//! archiver: writes the state of a ledger as an archive of the cluster's.
//!
//! reads   the ledger between two slots, or as it was cut beside a running chain (part.rs); the genesis; the
//!         transactions of the last blocks ([`last_statuses`])
//! writes  a full archive, or an incremental one on a full one
//! memory  the bank's fields, with the vote accounts of up to six times; 64 bytes for each transaction of the last 300
//!         blocks; a pass over all accounts for the lengths of the files, one to write them
//! drops   the unfinished archive, if it does not become whole; old ones ([`Retention`])
//! source  `get_fields_to_serialize` of `bank.rs`, `purge_old_snapshot_archives` of `snapshot_utils.rs` of
//!         `solana-runtime` 4.2
//!
//! This is a module beside [`archive`](crate::archive) because it reads the ledger. Which slot wrote an account last is
//! not known: the accounts are spread over files of the newest slots, which means the same. What an incremental archive
//! holds follows from a comparison with the full one ([`Changes`]), or from what the account store recorded since.

mod bank;
mod changes;
mod part;
mod retention;
mod statuses;
mod totals;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use hearth_wire::{Hash, Pubkey};
use solana_fee_calculator::FeeRateGovernor;
use solana_inflation::Inflation;

use crate::account::Account;
use crate::archive::{
    ArchiveError, ArchiveName, EpochStakes, Fault, NewArchive, NodeVotes, SlotStatuses, StakedVote, stored_size,
};
use crate::features::ActiveFeatures;
use crate::genesis::{Genesis, GenesisConfig};
use crate::ledger::Ledger;
use crate::stakes;
use crate::vote_state::VoteState;
use bank::EndedBank;
pub use changes::Changes;
pub use part::{ArchiveConfig, WrittenArchive};
pub(crate) use part::{Archiver, EndedCut, Part};
pub use retention::Retention;
pub use statuses::{StatusesError, last_statuses};
use totals::Totals;

/// The facts that an archive states about a chain besides its state.
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
    /// The yearly rates of inflation.
    pub inflation: Inflation,
    /// The stakes of each epoch whose leaders are known, from the bank's epoch on, with the vote accounts of then.
    pub epoch_stakes: Vec<EpochStakes>,
    /// The transactions of the newest 300 slots with blocks.
    pub statuses: Vec<SlotStatuses>,
    /// The id of the last block.
    pub block_id: Hash,
}

impl ChainFacts {
    /// The facts of a ledger's last block, whose id is given, and the transactions of its newest 300 blocks:
    /// [`last_statuses`].
    pub fn of(ledger: &Ledger, genesis: &Genesis, statuses: Vec<SlotStatuses>, block_id: Hash) -> Self {
        let lasting = Self::lasting(ledger, genesis.config(), &ledger.features());
        let chain = ledger.chain();
        Self {
            lamports_per_signature: chain.blockhashes.last_price(),
            epoch_stakes: chain.epochs.all().map(|stakes| epoch_stakes(stakes)).collect(),
            statuses,
            block_id,
            ..lasting
        }
    }

    /// The facts that are the same in each block in which these features are active. The rest is empty.
    fn lasting(ledger: &Ledger, config: &GenesisConfig, features: &ActiveFeatures) -> Self {
        let inflating = ledger.reward_rules(features).inflating;
        Self {
            creation_time: config.creation_time as i64,
            ticks_per_slot: config.ticks_per_slot,
            hashes_per_tick: config.hashes_per_tick,
            slot_ns: config.slot_ns(),
            slots_per_year: inflating.slots_per_year,
            hard_forks: ledger.hard_forks(),
            // The cluster derives the bounds of the price with each block; the price itself is below.
            fee_rate_governor: FeeRateGovernor::new_derived(&config.fee_rate_governor, 0),
            lamports_per_signature: 0,
            inflation: inflating.inflation,
            epoch_stakes: vec![],
            statuses: vec![],
            block_id: [0; 32],
        }
    }
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
    progress: impl FnMut(u64),
) -> Result<PathBuf, ArchiveError> {
    write(ledger, facts, folder, None, progress)
}

/// As [`write_archive`], an incremental archive, `incremental-snapshot-BASE-SLOT-HASH.tar.zst`: what is not as in the
/// full one with which `changes` compared this state. An account that no longer exists is there without lamports.
///
/// # Panics
///
/// A slot is in progress.
pub fn write_incremental(
    ledger: &Ledger,
    facts: &ChainFacts,
    folder: &Path,
    changes: &Changes,
    progress: impl FnMut(u64),
) -> Result<PathBuf, ArchiveError> {
    write(ledger, facts, folder, Some(changes), progress)
}

fn write(
    ledger: &Ledger,
    facts: &ChainFacts,
    folder: &Path,
    changes: Option<&Changes>,
    mut progress: impl FnMut(u64),
) -> Result<PathBuf, ArchiveError> {
    assert!(ledger.working_bank().is_none(), "the state is whole between two slots alone");
    let (bank, base) = (EndedBank::of(ledger), changes.map(Changes::base));
    let is_held = |key: &Pubkey| changes.is_none_or(|changes| changes.has(key));
    let gone = changes.map(Changes::gone).unwrap_or_default();
    let mut totals = Totals::new(bank.block.slot, base);
    ledger.accounts().for_each(|key, account| {
        totals.note(key, account);
        if is_held(key) {
            totals.stored(stored_size(account.data().len()));
        }
    });
    gone.iter().for_each(|_| totals.stored(stored_size(0)));
    let fields = bank.fields(facts, totals).map_err(|fault| ArchiveError::of(folder, fault))?;
    changes.map_or(Ok(()), |changes| changes.check(&fields)).map_err(|fault| ArchiveError::of(folder, fault))?;
    let name = ArchiveName { base, slot: fields.slot, hash: fields.lattice.checksum() };
    let path = folder.join(name.to_string());
    if path.exists() {
        return Err(ArchiveError::of(&path, Fault::Write(ErrorKind::AlreadyExists.into())));
    }
    let mut archive = NewArchive::create(folder, base, &fields, &facts.statuses)?;
    let mut count = 0;
    let mut add = |key: &Pubkey, account: &Account| {
        count += 1;
        progress(count);
        archive.account(key, account)
    };
    let written = ledger.accounts().scan(|key, account| match is_held(key).then(|| add(key, account)) {
        Some(Err(why)) => ControlFlow::Break(why),
        _ => ControlFlow::Continue(()),
    });
    if let ControlFlow::Break(why) = written {
        return Err(why);
    }
    gone.iter().try_for_each(|key| add(key, &Account::default()))?;
    archive.finish()
}

#[cfg(test)]
mod tests;
