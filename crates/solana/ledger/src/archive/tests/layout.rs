//! The bank's fields against bincode and the cluster's own types: the order of fields as `solana-runtime` 4.2 has it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use solana_fee_calculator::{FeeCalculator, FeeRateGovernor};
use solana_hard_forks::HardForks;
use solana_inflation::Inflation;
use solana_rent::Rent;

use super::*;

type Key = [u8; 32];
type TheirSchedule = solana_epoch_schedule::EpochSchedule;

#[derive(Serialize)]
struct HashInfo {
    fee_calculator: FeeCalculator,
    hash_index: u64,
    timestamp: u64,
}

#[derive(Serialize)]
struct Queue {
    last_hash_index: u64,
    last_hash: Option<Key>,
    hashes: BTreeMap<Key, HashInfo>,
    max_age: usize,
}

#[derive(Serialize)]
struct VoteAccount {
    lamports: u64,
    data: Vec<u8>,
    owner: Key,
    executable: bool,
    rent_epoch: u64,
}

#[derive(Serialize)]
struct Delegation {
    voter_pubkey: Key,
    stake: u64,
    activation_epoch: u64,
    deactivation_epoch: u64,
    reserved: [u8; 8],
}

#[derive(Serialize)]
struct Stake {
    delegation: Delegation,
    credits_observed: u64,
}

#[derive(Serialize)]
struct HistoryEntry {
    effective: u64,
    activating: u64,
    deactivating: u64,
}

#[derive(Serialize)]
struct Stakes<T> {
    vote_accounts: BTreeMap<Key, (u64, VoteAccount)>,
    stake_delegations: BTreeMap<Key, T>,
    unused: u64,
    epoch: u64,
    stake_history: Vec<(u64, HistoryEntry)>,
}

#[derive(Serialize)]
struct RentCollector {
    epoch: u64,
    epoch_schedule: TheirSchedule,
    slots_per_year: f64,
    rent: Rent,
}

#[derive(Serialize)]
struct Bank {
    blockhash_queue: Queue,
    ancestors: BTreeMap<u64, usize>,
    hash: Key,
    parent_hash: Key,
    parent_slot: u64,
    hard_forks: HardForks,
    transaction_count: u64,
    tick_height: u64,
    signature_count: u64,
    capitalization: u64,
    max_tick_height: u64,
    hashes_per_tick: Option<u64>,
    ticks_per_slot: u64,
    ns_per_slot: u128,
    genesis_creation_time: i64,
    slots_per_year: f64,
    accounts_data_len: u64,
    slot: u64,
    epoch: u64,
    block_height: u64,
    leader_id: Key,
    collector_fees: u64,
    fee_calculator: u64,
    fee_rate_governor: FeeRateGovernor,
    collected_rent: u64,
    rent_collector: RentCollector,
    epoch_schedule: TheirSchedule,
    inflation: Inflation,
    stakes: Stakes<Delegation>,
    unused_accounts: (Vec<Key>, Vec<Key>, BTreeMap<Key, u64>),
    unused_epoch_stakes: BTreeMap<u64, ()>,
    is_delta: bool,
}

#[derive(Serialize)]
struct StorageEntry {
    id: usize,
    accounts_current_len: usize,
}

#[derive(Default, Serialize)]
struct BankHashInfo {
    accounts_delta_hash: Key,
    accounts_hash: Key,
    stats: [u64; 5],
}

#[derive(Serialize)]
struct AccountsDb(BTreeMap<u64, Vec<StorageEntry>>, u64, u64, BankHashInfo, Vec<u64>, Vec<(u64, Key)>);

#[derive(Serialize)]
struct IncrementalPersistence {
    full_slot: u64,
    full_hash: Key,
    full_capitalization: u64,
    incremental_hash: Key,
    incremental_capitalization: u64,
}

#[derive(Serialize)]
struct NodeVoteAccounts {
    vote_accounts: Vec<Key>,
    total_stake: u64,
}

#[derive(Serialize)]
enum VersionedEpochStakes {
    Current {
        stakes: Stakes<Stake>,
        total_stake: u64,
        node_id_to_vote_accounts: BTreeMap<Key, NodeVoteAccounts>,
        epoch_authorized_voters: BTreeMap<Key, Key>,
    },
}

#[derive(Serialize)]
struct Extra {
    lamports_per_signature: u64,
    incremental_snapshot_persistence: Option<IncrementalPersistence>,
    epoch_accounts_hash: Option<Key>,
    versioned_epoch_stakes: Vec<(u64, VersionedEpochStakes)>,
    accounts_lt_hash: Option<[[u16; 32]; 32]>,
    block_id: Option<Key>,
}

/// The value whose bytes are all zero.
fn zeroed<T: DeserializeOwned>(len: usize) -> T {
    bincode::deserialize(&vec![0; len]).unwrap()
}

fn votes(all: &[StakedVote]) -> BTreeMap<Key, (u64, VoteAccount)> {
    let theirs = |vote: &StakedVote| VoteAccount {
        lamports: vote.account.lamports,
        data: vote.account.data().to_vec(),
        owner: vote.account.owner,
        executable: vote.account.executable,
        rent_epoch: vote.account.rent_epoch,
    };
    all.iter().map(|vote| (vote.address, (vote.stake, theirs(vote)))).collect()
}

fn history(all: &[StakeOfEpoch]) -> Vec<(u64, HistoryEntry)> {
    let entry = |one: &StakeOfEpoch| HistoryEntry {
        effective: one.effective,
        activating: one.activating,
        deactivating: one.deactivating,
    };
    all.iter().map(|one| (one.epoch, entry(one))).collect()
}

fn delegation(ours: &StakeDelegation) -> Delegation {
    Delegation {
        voter_pubkey: ours.vote,
        stake: ours.stake,
        activation_epoch: ours.activation_epoch,
        deactivation_epoch: ours.deactivation_epoch,
        reserved: ours.reserved,
    }
}

fn queue(ours: &BlockhashQueue) -> Queue {
    let info = |one: &QueuedHash| HashInfo {
        fee_calculator: FeeCalculator::new(one.lamports_per_signature),
        hash_index: one.index,
        timestamp: one.timestamp,
    };
    Queue {
        last_hash_index: ours.last_index,
        last_hash: ours.last,
        hashes: ours.hashes.iter().map(|one| (one.hash, info(one))).collect(),
        max_age: ours.max_age as usize,
    }
}

fn schedule(ours: &EpochSchedule) -> TheirSchedule {
    TheirSchedule {
        slots_per_epoch: ours.slots_per_epoch,
        leader_schedule_slot_offset: ours.leader_schedule_slot_offset,
        warmup: ours.warmup,
        first_normal_epoch: ours.first_normal_epoch,
        first_normal_slot: ours.first_normal_slot,
    }
}

fn bank(ours: &BankFields) -> Bank {
    let mut hard_forks = HardForks::default();
    for (slot, count) in &ours.hard_forks {
        (0..*count).for_each(|_| hard_forks.register(*slot));
    }
    Bank {
        blockhash_queue: queue(&ours.blockhashes),
        ancestors: BTreeMap::new(),
        hash: ours.hash,
        parent_hash: ours.parent_hash,
        parent_slot: ours.parent_slot,
        hard_forks,
        transaction_count: ours.transaction_count,
        tick_height: ours.tick_height,
        signature_count: ours.signature_count,
        capitalization: ours.capitalization,
        max_tick_height: ours.max_tick_height,
        hashes_per_tick: ours.hashes_per_tick,
        ticks_per_slot: ours.ticks_per_slot,
        ns_per_slot: ours.ns_per_slot,
        genesis_creation_time: ours.genesis_creation_time,
        slots_per_year: ours.slots_per_year,
        accounts_data_len: ours.accounts_data_len,
        slot: ours.slot,
        epoch: 0,
        block_height: ours.block_height,
        leader_id: ours.leader,
        collector_fees: 0,
        fee_calculator: 0,
        fee_rate_governor: ours.fee_rate_governor.clone(),
        collected_rent: 0,
        rent_collector: RentCollector { epoch: 0, epoch_schedule: zeroed(33), slots_per_year: 0.0, rent: zeroed(17) },
        epoch_schedule: schedule(&ours.epoch_schedule),
        inflation: ours.inflation,
        stakes: Stakes {
            vote_accounts: votes(&ours.stakes.votes),
            stake_delegations: ours.stakes.delegations.iter().map(|one| (one.address, delegation(one))).collect(),
            unused: 0,
            epoch: ours.stakes.epoch,
            stake_history: history(&ours.stakes.history),
        },
        unused_accounts: Default::default(),
        unused_epoch_stakes: BTreeMap::new(),
        is_delta: ours.is_delta,
    }
}

fn accounts_db(ours: &BankFields) -> AccountsDb {
    let entry = |one: &StorageInfo| StorageEntry { id: one.id as usize, accounts_current_len: one.len as usize };
    let BankStats { updated_accounts, removed_accounts, lamports_stored, data_len, executable_accounts } = ours.stats;
    let stats = [updated_accounts, removed_accounts, lamports_stored, data_len, executable_accounts];
    let storages = ours.storages.iter().map(|one| (one.slot, vec![entry(one)])).collect();
    AccountsDb(storages, 0, ours.slot, BankHashInfo { stats, ..BankHashInfo::default() }, vec![], vec![])
}

fn epoch_stakes(ours: &EpochStakes) -> VersionedEpochStakes {
    let node = |one: &NodeVotes| NodeVoteAccounts { vote_accounts: one.votes.clone(), total_stake: one.stake };
    VersionedEpochStakes::Current {
        stakes: Stakes {
            vote_accounts: votes(&ours.votes),
            stake_delegations: BTreeMap::new(),
            unused: 0,
            epoch: ours.staked_in,
            stake_history: history(&ours.history),
        },
        total_stake: ours.total,
        node_id_to_vote_accounts: ours.nodes.iter().map(|one| (one.node, node(one))).collect(),
        epoch_authorized_voters: ours.voters.iter().copied().collect(),
    }
}

fn extra(ours: &BankFields) -> Extra {
    let mut lanes = [[0u16; 32]; 32];
    let bytes = ours.lattice.to_bytes();
    let values = bytes.as_chunks::<2>().0.iter().map(|lane| u16::from_le_bytes(*lane));
    lanes.iter_mut().flatten().zip(values).for_each(|(to, value)| *to = value);
    Extra {
        lamports_per_signature: ours.lamports_per_signature,
        incremental_snapshot_persistence: None,
        epoch_accounts_hash: None,
        versioned_epoch_stakes: ours.epoch_stakes.iter().map(|one| (one.epoch, epoch_stakes(one))).collect(),
        accounts_lt_hash: Some(lanes),
        block_id: ours.block_id,
    }
}

fn decode(bytes: &[u8]) -> Result<BankFields, Fault> {
    BankFields::decode(bytes, bytes.len() as u64)
}

fn sample() -> BankFields {
    fields(70, &full(), &full())
}

#[test]
fn fields_are_those_of_the_cluster() {
    let ours = sample();
    let theirs = bincode::serialize(&(bank(&ours), accounts_db(&ours), extra(&ours))).unwrap();
    assert_eq!(ours.encode(), theirs);
    assert_eq!(decode(&theirs).unwrap(), ours);
    assert_eq!(solana_hash(&ours), ours.hash);
}

/// The bank's hash with the cluster's own rule for hard forks.
fn solana_hash(ours: &BankFields) -> Key {
    let hash = ours.lattice.bank_hash(&ours.parent_hash, ours.signature_count, &ours.blockhashes.last.unwrap());
    let forked = bank(ours).hard_forks.get_hash_data(ours.slot, ours.parent_slot).expect("a hard fork");
    hearth_crypto::sha256::sha256(&[&hash, &forked])
}

#[test]
fn fields_that_are_no_longer_used_are_read_over() {
    let ours = sample();
    let mut old = bank(&ours);
    old.ancestors = [(1, 2), (3, 4)].into();
    (old.epoch, old.collector_fees, old.fee_calculator, old.collected_rent) = (1, 2, 3, 4);
    let rent_collector = RentCollector {
        epoch: 5,
        epoch_schedule: TheirSchedule::default(),
        slots_per_year: 6.0,
        rent: Rent::default(),
    };
    old.rent_collector = rent_collector;
    old.stakes.unused = 7;
    old.unused_accounts = (vec![[1; 32]], vec![[2; 32], [3; 32]], [([4; 32], 5)].into());
    let mut accounts = accounts_db(&ours);
    accounts.1 = 8;
    (accounts.3.accounts_delta_hash, accounts.3.accounts_hash) = ([9; 32], [10; 32]);
    accounts.4 = vec![1, 2];
    accounts.5 = vec![(3, [4; 32])];
    let mut more = extra(&ours);
    more.incremental_snapshot_persistence = Some(IncrementalPersistence {
        full_slot: 1,
        full_hash: [2; 32],
        full_capitalization: 3,
        incremental_hash: [4; 32],
        incremental_capitalization: 5,
    });
    more.epoch_accounts_hash = Some([11; 32]);
    let VersionedEpochStakes::Current { stakes, .. } = &mut more.versioned_epoch_stakes[0].1;
    let one = Stake { delegation: delegation(&ours.stakes.delegations[0]), credits_observed: 12 };
    stakes.stake_delegations = [([50; 32], one)].into();
    assert_eq!(decode(&bincode::serialize(&(old, accounts, more)).unwrap()).unwrap(), ours);
}

#[test]
fn fields_that_cannot_be_are_refused() {
    let good = sample().encode();
    for len in 0..good.len() {
        let decoded = decode(&good[..len]);
        // The block's id alone may be missing: a node that writes none ends there.
        let ends_before_id = len == good.len() - 33;
        assert_eq!(decoded.is_ok(), ends_before_id, "{len}");
    }
    assert!(decode(&[&good[..], &[0]].concat()).is_err(), "a byte more");
    let with = |change: fn(&mut Bank)| {
        let ours = sample();
        let mut bank = bank(&ours);
        change(&mut bank);
        decode(&bincode::serialize(&(bank, accounts_db(&ours), extra(&ours))).unwrap())
    };
    assert!(with(|_| {}).is_ok());
    assert!(with(|bank| bank.unused_epoch_stakes = [(1, ())].into()).is_err());
    assert!(with(|bank| bank.epoch_schedule.slots_per_epoch = 0).is_err());
    assert!(with(|bank| bank.epoch_schedule.first_normal_epoch = 60).is_err());
    assert!(with(|bank| bank.epoch_schedule.first_normal_slot = 1).is_err());
    assert!(with(|bank| bank.epoch_schedule.leader_schedule_slot_offset = u64::MAX).is_err());
    assert!(with(|bank| bank.blockhash_queue.last_hash_index = 1).is_err());
    assert!(with(|bank| bank.slot = u64::MAX).is_err());
    assert!(with(|bank| bank.slot = 71).is_err(), "another slot than the accounts");
    assert!(with(|bank| bank.parent_slot = 71).is_err());
}
