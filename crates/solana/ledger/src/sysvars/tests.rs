//! Layouts against the crates with which programs read them.

use crate::rent::minimum_balance;
use solana_sysvar::epoch_rewards::EpochRewards as TheirRewards;

use super::*;

fn data(accounts: &Accounts, key: &Pubkey) -> Vec<u8> {
    let account = accounts.load(key).expect("the sysvar is there");
    assert_eq!(account.owner, SYSVAR_OWNER);
    assert_eq!(account.lamports, minimum_balance(account.data().len()));
    account.data().to_vec()
}

fn begin(accounts: &Accounts, schedule: &EpochSchedule, clock: &Clock) {
    let rent = crate::GenesisConfig::development([1; 32], [2; 32], 0).rent_sysvar();
    begin_chain(accounts, schedule, clock, &rent, std::iter::once((&[7; 32], 0)));
}

fn chain() -> Accounts {
    let accounts = Accounts::new();
    let schedule = EpochSchedule::without_warmup(432_000);
    begin(&accounts, &schedule, &Clock::at_genesis(&schedule, 0, 400_000_000, 1_700_000_000));
    accounts
}

#[test]
fn a_new_chain_has_them_all() {
    let accounts = chain();
    let rent: solana_rent::Rent = bincode::deserialize(&data(&accounts, &SYSVAR_RENT)).unwrap();
    assert_eq!(rent.minimum_balance(165), minimum_balance(165));
    let rent_bytes = data(&accounts, &SYSVAR_RENT);
    assert_eq!((rent_bytes.len(), rent_bytes[16]), (17, 50));
    let schedule: solana_epoch_schedule::EpochSchedule =
        bincode::deserialize(&data(&accounts, &SYSVAR_EPOCH_SCHEDULE)).unwrap();
    assert_eq!(schedule, solana_epoch_schedule::EpochSchedule::custom(432_000, 432_000, false));
    assert_eq!(data(&accounts, &SYSVAR_LAST_RESTART_SLOT), [0; 8]);
    let clock: solana_clock::Clock = bincode::deserialize(&data(&accounts, &SYSVAR_CLOCK)).unwrap();
    assert_eq!((clock.slot, clock.epoch, clock.leader_schedule_epoch), (0, 0, 1));
    assert_eq!((clock.unix_timestamp, clock.epoch_start_timestamp), (1_700_000_000, 1_700_000_000));
    let history: solana_stake_interface::stake_history::StakeHistory =
        bincode::deserialize(&data(&accounts, &SYSVAR_STAKE_HISTORY)).unwrap();
    assert!(history.is_empty());
    let rewards: TheirRewards = bincode::deserialize(&data(&accounts, &SYSVAR_EPOCH_REWARDS)).unwrap();
    assert_eq!(rewards, TheirRewards::default());
}

#[test]
fn a_chain_may_begin_late() {
    let (accounts, schedule) = (Accounts::new(), EpochSchedule::without_warmup(100));
    let clock = Clock::at_genesis(&schedule, 5_000_050, 400_000_000, 1_700_000_000);
    assert_eq!((clock.epoch, clock.leader_schedule_epoch), (50_000, 50_001));
    assert_eq!((clock.unix_timestamp, clock.epoch_start_timestamp), (1_700_000_000, 1_700_000_000 - 20));
    begin(&accounts, &schedule, &clock);
    assert_eq!(Clock::load(&accounts), clock);
    let mut history = solana_slot_history::SlotHistory::default();
    history.add(5_000_050);
    assert_eq!(data(&accounts, &SYSVAR_SLOT_HISTORY), bincode::serialize(&history).unwrap());
}

#[test]
fn clock_and_rewards_are_read_as_written() {
    let accounts = chain();
    let clock = Clock { slot: 5, epoch_start_timestamp: -6, epoch: 7, leader_schedule_epoch: 8, unix_timestamp: 9 };
    clock.store(&accounts);
    assert_eq!(Clock::load(&accounts), clock);
    let theirs: solana_clock::Clock = bincode::deserialize(&data(&accounts, &SYSVAR_CLOCK)).unwrap();
    assert_eq!((theirs.slot, theirs.epoch_start_timestamp, theirs.epoch), (5, -6, 7));
    assert_eq!((theirs.leader_schedule_epoch, theirs.unix_timestamp), (8, 9));
    let rewards = EpochRewards {
        distribution_starting_block_height: 1,
        num_partitions: 2,
        parent_blockhash: [3; 32],
        total_points: 1 << 100,
        total_rewards: 5,
        distributed_rewards: 4,
        active: true,
    };
    rewards.store(&accounts);
    assert_eq!(EpochRewards::load(&accounts), rewards);
    let theirs: TheirRewards = bincode::deserialize(&data(&accounts, &SYSVAR_EPOCH_REWARDS)).unwrap();
    assert_eq!((theirs.distribution_starting_block_height, theirs.num_partitions), (1, 2));
    assert_eq!((theirs.parent_blockhash.to_bytes(), theirs.total_points), ([3; 32], 1 << 100));
    assert_eq!((theirs.total_rewards, theirs.distributed_rewards, theirs.active), (5, 4, true));
}

#[test]
fn slot_hashes_are_the_newest_512() {
    let (accounts, mut theirs) = (chain(), solana_slot_hashes::SlotHashes::default());
    for slot in 0..600u64 {
        let hash = hearth_crypto::sha256::sha256(&[&slot.to_le_bytes()]);
        add_slot_hash(&accounts, slot, &hash);
        theirs.add(slot, solana_hash::Hash::new_from_array(hash));
        if slot % 101 == 0 || slot > 508 && slot < 515 {
            let data = data(&accounts, &SYSVAR_SLOT_HASHES);
            assert_eq!(data.len(), 20_488);
            assert_eq!(bincode::deserialize::<solana_slot_hashes::SlotHashes>(&data).unwrap(), theirs);
        }
    }
}

#[test]
fn slot_history_remembers_a_million_slots() {
    let (accounts, mut theirs) = (chain(), solana_slot_history::SlotHistory::default());
    theirs.add(0);
    for slot in [1, 2, 5, 63, 64, 1_048_575, 1_048_577, 1_048_640, 5_000_000, 5_000_001] {
        end_slot(&accounts, slot, std::iter::once((&[7; 32], 5_000)));
        theirs.add(slot);
        assert_eq!(data(&accounts, &SYSVAR_SLOT_HISTORY), bincode::serialize(&theirs).unwrap(), "{slot}");
    }
}

#[test]
#[allow(deprecated)]
fn recent_blockhashes_are_the_newest_150() {
    use solana_sysvar::recent_blockhashes::RecentBlockhashes;
    let accounts = chain();
    let hashes: Vec<Hash> = (0..151u64).map(|n| hearth_crypto::sha256::sha256(&[&n.to_le_bytes()])).collect();
    for count in [1, 2, 150, 151] {
        end_slot(&accounts, 1, hashes[..count].iter().zip(7_000..));
        let data = data(&accounts, &SYSVAR_RECENT_BLOCKHASHES);
        assert_eq!(data.len(), 6_008);
        let theirs: RecentBlockhashes = bincode::deserialize(&data).unwrap();
        assert_eq!(theirs.len(), count.min(150));
        for (entry, (hash, price)) in theirs.iter().zip(hashes.iter().zip(7_000..)) {
            assert_eq!(entry.blockhash.to_bytes(), *hash);
            assert_eq!(entry.fee_calculator.lamports_per_signature, price);
        }
    }
}
