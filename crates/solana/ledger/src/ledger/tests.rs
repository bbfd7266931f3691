//! The life cycle of slots, the flow of fees, and the clients' view.

use hearth_wire::consts::LAMPORTS_PER_SOL;
use hearth_wire::program::compute_budget::ComputeBudgetInstruction::{SetComputeUnitLimit, SetComputeUnitPrice};
use hearth_wire::program::system;

use super::*;
use crate::commitment::Commitment;
use crate::rent;
use crate::stakes;
use crate::testing::{Chain, IDENTITY, landed, parse, wallet};
use crate::view::SignatureStatus;
use crate::{InstructionError, TransactionError};

const RICH: u64 = 10 * LAMPORTS_PER_SOL;

#[test]
fn slots_follow_one_another() {
    let chain = Chain::new(&[]);
    let ledger = &chain.ledger;
    assert_eq!(ledger.begin_slot(2, 1).err(), Some(SlotError::Unfinished(1)));
    assert_eq!(ledger.end_slot(2, [2; 32]), Err(SlotError::NotBegun(2)));
    assert!(ledger.bank(1).is_some() && ledger.bank(2).is_none());
    let block = ledger.end_slot(1, [1; 32]).unwrap();
    assert_eq!((block.slot, block.parent, block.height, block.blockhash), (1, 0, 1, [1; 32]));
    assert_eq!(ledger.end_slot(1, [1; 32]), Err(SlotError::NotBegun(1)));
    assert!(ledger.working_bank().is_none());
    let wrong = |slot, parent| Some(SlotError::WrongParent { slot, parent, last: 1 });
    assert_eq!(ledger.begin_slot(2, 0).err(), wrong(2, 0));
    assert_eq!(ledger.begin_slot(1, 1).err(), wrong(1, 1));
    // Slots may be skipped; heights count blocks.
    let bank = ledger.begin_slot(9, 1).unwrap();
    assert_eq!((bank.slot(), bank.parent(), bank.height(), bank.parent_blockhash()), (9, 1, 2, &[1; 32]));
}

#[test]
fn fees_are_halved_and_priority_is_not() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let total = chain.total_lamports();
    chain.ledger.accounts().store(&IDENTITY, Account::wallet(1_000_000));
    let priority = [SetComputeUnitPrice(1_000_000).instruction(), SetComputeUnitLimit(777).instruction()];
    let transfer = system::transfer(&wallet(0), &wallet(1), 1);
    landed(chain.run_one(&wallet(0), &[priority[0].clone(), priority[1].clone(), transfer]));
    landed(chain.run_one(&wallet(1), &[system::transfer(&wallet(1), &wallet(0), 2 * RICH)]));
    chain.next_slot();
    assert_eq!(chain.ledger.burned_lamports(), 5_000);
    assert_eq!(chain.ledger.balance(&IDENTITY), 1_000_000 + 5_000 + 777);
    assert_eq!(chain.total_lamports(), total + 1_000_000);
}

#[test]
fn uncollectable_fees_are_burned() {
    let mut chain = Chain::new(&[RICH]);
    let total = chain.total_lamports();
    // Too few lamports to create an account.
    landed(chain.run_one(&wallet(0), &[]));
    chain.next_slot();
    assert_eq!((chain.ledger.burned_lamports(), chain.ledger.balance(&IDENTITY)), (5_000, 0));
    // An account that may not collect.
    chain.ledger.accounts().store(&IDENTITY, Account::with_data(5, [9; 32], b"x"));
    landed(chain.run_one(&wallet(0), &[]));
    chain.next_slot();
    assert_eq!((chain.ledger.burned_lamports(), chain.ledger.balance(&IDENTITY)), (10_000, 5));
    assert_eq!(chain.total_lamports(), total + 5);
}

#[test]
fn accounts_are_read_at_a_commitment() {
    let mut chain = Chain::new(&[RICH]);
    let commitments = [Commitment::Processed, Commitment::Confirmed, Commitment::Finalized];
    let read = |chain: &Chain| {
        commitments.map(|commitment| {
            let state = chain.ledger.state(commitment);
            let (mut found, mut sum) = (0, 0u128);
            state.for_each(|key, account| {
                found += if *key == wallet(1) { account.lamports } else { 0 };
                sum += u128::from(account.lamports);
            });
            assert_eq!((found, sum), (state.balance(&wallet(1)), state.total_lamports()));
            (state.slot, found)
        })
    };
    // Each slot adds a lamport.
    let mut balance = 1_000_000;
    landed(chain.run_one(&wallet(0), &[system::transfer(&wallet(0), &wallet(1), balance)]));
    assert_eq!(read(&chain), [(1, balance), (0, 0), (0, 0)]);
    for slot in 2..=80u64 {
        chain.next_slot();
        landed(chain.run_one(&wallet(0), &[system::transfer(&wallet(0), &wallet(1), 1)]));
        balance += 1;
        // One slot is still being written to disk.
        chain.ledger.mark_stored(slot - 2);
        let of = |slot: u64| if slot == 0 { 0 } else { 1_000_000 + slot - 1 };
        let (confirmed, last) = (slot - 2, slot.saturating_sub(34));
        assert_eq!(read(&chain), [(slot, balance), (confirmed, of(confirmed)), (last, of(last))]);
    }
    // A deleted account is still readable at older commitments.
    chain.ledger.accounts().store(&wallet(1), Account::wallet(0));
    assert_eq!(read(&chain)[..2], [(80, 0), (78, 1_000_077)]);
    chain.next_slot();
    chain.ledger.mark_stored(80);
    assert_eq!(read(&chain)[..2], [(81, 0), (80, 0)]);
    assert_eq!(read(&chain)[2], (48, 1_000_047));
}

#[test]
fn view_is_unchanged_while_the_chain_continues() {
    let mut chain = Chain::new(&[]);
    let next = |chain: &mut Chain, slot: u64| {
        chain.ledger.accounts().store(&wallet(0), Account::wallet(1_000_000 + slot));
        chain.next_slot();
        chain.ledger.hash_all();
        chain.ledger.mark_stored(slot);
    };
    (1..=40).for_each(|slot| next(&mut chain, slot));
    let ledger = Arc::clone(&chain.ledger);
    let view = ledger.state(Commitment::Finalized);
    (41..=80).for_each(|slot| next(&mut chain, slot));
    assert_eq!((view.slot, view.balance(&wallet(0)), view.is_kept()), (8, 1_000_008, true));
    view.for_each(|key, account| assert!(*key != wallet(0) || account.lamports == 1_000_008));
    let pinned = ledger.accounts().oldest_era();
    drop(view);
    next(&mut chain, 81);
    assert!(ledger.accounts().oldest_era() > pinned + 30, "nothing is kept for dropped views");
}

#[test]
fn full_history_moves_old_commitments_forward() {
    let mut chain = Chain::new(&[]);
    // Data that is replaced in each slot: nine of ten slots cannot be kept.
    let big = |slot: u64| Account::with_data(1_000 + slot, [9; 32], &vec![slot as u8; 10 << 20]);
    for slot in 1..=20 {
        chain.ledger.accounts().store(&wallet(0), big(slot));
        chain.next_slot();
        chain.ledger.hash_all();
        chain.ledger.mark_stored(slot);
    }
    let state = chain.ledger.state(Commitment::Finalized);
    assert!((13..20).contains(&state.slot), "{}", state.slot);
    assert_eq!(state.account(&wallet(0)), Some(big(state.slot)));
    assert_eq!(chain.ledger.state(Commitment::Confirmed).account(&wallet(0)), Some(big(20)));
}

#[test]
fn statuses_rise_in_commitment() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let good = chain.txn(&wallet(0), &[system::transfer(&wallet(0), &wallet(1), 1)]);
    let bad = chain.txn(&wallet(0), &[system::transfer(&wallet(0), &wallet(1), 2 * RICH)]);
    let refused = chain.txn(&wallet(9), &[]);
    chain.run(&[good.clone(), bad.clone(), refused.clone()]);
    let signature = |bytes: &[u8]| *parse(bytes).first_signature();
    let status = |chain: &Chain, bytes: &[u8]| chain.ledger.signature_status(&signature(bytes));
    let processed =
        SignatureStatus { slot: 1, result: Ok(()), confirmations: Some(0), commitment: Commitment::Processed };
    assert_eq!(status(&chain, &good), Some(processed));
    let error = TransactionError::InstructionError(0, InstructionError::Custom(1));
    assert_eq!(status(&chain, &bad), Some(SignatureStatus { result: Err(error), ..processed }));
    assert_eq!(status(&chain, &refused), None);
    chain.next_slot();
    assert_eq!(status(&chain, &good), Some(SignatureStatus { confirmations: Some(1), ..processed }));
    chain.ledger.mark_stored(1);
    let confirmed = SignatureStatus { confirmations: Some(1), commitment: Commitment::Confirmed, ..processed };
    assert_eq!(status(&chain, &good), Some(confirmed));
    for slot in 2..=33 {
        assert_eq!(status(&chain, &good).unwrap().commitment, Commitment::Confirmed, "at {slot}");
        chain.next_slot();
        chain.ledger.mark_stored(slot);
    }
    let last = SignatureStatus { confirmations: None, commitment: Commitment::Finalized, ..processed };
    assert_eq!(status(&chain, &good), Some(last));
}

#[test]
fn heights_and_blockhashes_by_commitment() {
    use Commitment::*;
    let mut chain = Chain::new(&[RICH]);
    let heights = |chain: &Chain| [Processed, Confirmed, Finalized].map(|level| chain.ledger.block_height(level));
    let genesis = *chain.ledger.genesis_hash();
    assert_eq!(heights(&chain), [1, 0, 0]);
    let latest = chain.ledger.latest_blockhash(Processed);
    assert_eq!((latest.slot, latest.blockhash, latest.last_valid_block_height), (1, genesis, 151));
    landed(chain.run_one(&wallet(0), &[]));
    let counts = |chain: &Chain| [Processed, Confirmed].map(|level| chain.ledger.transaction_count(level));
    assert_eq!(counts(&chain), [1, 0], "processed is seen at once");
    for slot in 1..=40 {
        chain.next_slot();
        chain.ledger.mark_stored(slot - u64::from(slot > 1));
    }
    assert_eq!((heights(&chain), counts(&chain)), ([41, 39, 7], [1, 1]));
    let blocks = chain.ledger.recent_blocks(100);
    assert_eq!((blocks.len(), blocks[0].height), (41, 40));
    for (level, height) in [(Processed, 40), (Confirmed, 39), (Finalized, 7)] {
        let latest = chain.ledger.latest_blockhash(level);
        let block = blocks.iter().find(|block| block.height == height).unwrap();
        assert_eq!(latest.blockhash, block.blockhash);
        assert_eq!(latest.last_valid_block_height, chain.ledger.block_height(level) + 150, "{level:?}");
        assert!(chain.ledger.is_blockhash_valid_at(&latest.blockhash, level));
    }
    assert!(chain.ledger.is_blockhash_valid(&genesis) && !chain.ledger.is_blockhash_valid(&[9; 32]));
    // A commitment mark beyond the chain's tip takes effect when the chain reaches it.
    chain.ledger.mark_stored(1_000);
    assert_eq!(heights(&chain)[1], 40);
}

#[test]
fn blockhash_validity_depends_on_commitment() {
    use Commitment::*;
    let mut chain = Chain::new(&[RICH]);
    let genesis = *chain.ledger.genesis_hash();
    // Block 151 has ended, and block 150 is durable: 118 is final.
    for _ in 0..151 {
        chain.next_slot();
    }
    chain.ledger.mark_stored(150);
    let valid =
        |chain: &Chain, hash| [Processed, Confirmed, Finalized].map(|c| chain.ledger.is_blockhash_valid_at(hash, c));
    assert_eq!(chain.ledger.block_height(Confirmed), 150);
    assert_eq!(valid(&chain, &genesis), [false, true, true], "transactions with it may not be final yet");
    chain.ledger.mark_stored(151);
    assert_eq!(valid(&chain, &genesis), [false, false, true]);
    let newest = chain.ledger.latest_blockhash(Processed).blockhash;
    assert_eq!(valid(&chain, &newest), [true, true, false]);
    assert_eq!(valid(&chain, &[9; 32]), [false; 3]);
}

#[test]
fn transaction_lands_until_last_valid_block_height() {
    let mut chain = Chain::new(&[RICH]);
    let latest = chain.ledger.latest_blockhash(Commitment::Processed);
    let early = chain.txn(&wallet(0), &[system::transfer(&wallet(0), &wallet(0), 1)]);
    let late = chain.txn(&wallet(0), &[system::transfer(&wallet(0), &wallet(0), 2)]);
    while chain.bank.height() < latest.last_valid_block_height {
        chain.next_slot();
    }
    assert!(chain.run(&[early])[0].is_committed());
    chain.next_slot();
    assert!(!chain.run(&[late])[0].is_committed());
}

/// A chain with epochs of 32 slots whose node has all the stake, and its vote and stake accounts.
fn staked() -> (std::sync::Arc<Ledger>, Pubkey, Pubkey) {
    use crate::genesis::GenesisConfig;
    let (vote, stake) = ([8; 32], [9; 32]);
    let extra_accounts = stakes::genesis_accounts(&vote, &stake, &IDENTITY).to_vec();
    let config = GenesisConfig {
        fund_initial_accounts: 0,
        slots_per_epoch: 32,
        extra_accounts,
        ..GenesisConfig::development(IDENTITY, [2; 32], 1_700_000_000)
    };
    let genesis = Genesis::create(config, |_| {}).unwrap();
    (Ledger::new(&genesis, LedgerConfig::default()), vote, stake)
}

fn make_slot(ledger: &Ledger, slot: u64) {
    ledger.begin_slot(slot, slot - 1).unwrap();
    ledger.end_slot(slot, hearth_crypto::sha256::sha256(&[&slot.to_le_bytes()])).unwrap();
}

#[test]
fn the_node_leads_and_its_stake_counts_from_genesis_on() {
    let (ledger, vote, _) = staked();
    for epoch in [0, 1] {
        let schedule = ledger.leader_schedule(epoch).unwrap();
        assert_eq!(schedule.len(), 32);
        assert!(schedule.iter().all(|leader| leader.node == IDENTITY && leader.vote == vote));
    }
    assert_eq!((ledger.leader_schedule(2), ledger.leader_at(64)), (None, None));
    assert_eq!(ledger.leader_at(63).map(|leader| leader.node), Some(IDENTITY));
    let accounts = ledger.vote_accounts();
    let stake = stakes::GENESIS_STAKE_LAMPORTS - rent::minimum_balance(stakes::STAKE_STATE_BYTES);
    assert_eq!((accounts.len(), accounts[0].key, accounts[0].stake), (1, vote, stake));
    assert_eq!(ledger.epoch_stakes(0).unwrap().total(), stake);
}

#[test]
fn genesis_stakes_are_known_without_a_ledger() {
    use crate::genesis::GenesisConfig;
    // The first two vote with two accounts of one node.
    let accounts =
        |n: u8| stakes::validator_accounts(&[20 + n; 32], &[40 + n; 32], &[n.max(1); 32], RICH * u64::from(n + 1));
    let extra_accounts = (0..4).flat_map(accounts).collect();
    let config =
        GenesisConfig { fund_initial_accounts: 2, extra_accounts, ..GenesisConfig::development([9; 32], [2; 32], 0) };
    let genesis = Genesis::create(config, |_| {}).unwrap();
    let ledger = Ledger::new(&genesis, LedgerConfig::default());
    let mut expected = std::collections::BTreeMap::<Pubkey, u64>::new();
    for vote in &ledger.epoch_stakes(0).unwrap().votes {
        *expected.entry(vote.node).or_default() += vote.stake;
    }
    assert_eq!((stakes::stakes_at_genesis(&genesis), expected.len()), (expected.clone(), 3));
}

#[test]
fn epochs_turn() {
    let (ledger, vote, stake) = staked();
    // The vote account earns 1,000 credits in epoch 0.
    let credited = |account: &mut Account| {
        let mut data = account.data().to_vec();
        let at = 4 + 128 + 12 + 49 + 8 + 1 + 8 + 40;
        [1, 0, 1_000, 0u64].iter().enumerate().for_each(|(n, word)| {
            data[at + 8 * n..at + 8 * n + 8].copy_from_slice(&word.to_le_bytes());
        });
        account.set_data(&data);
    };
    ledger.accounts().update(&vote, credited);
    assert_eq!(ledger.vote_accounts()[0].state.epoch_credits, [(0, 1_000, 0)]);
    (1..32).for_each(|slot| make_slot(&ledger, slot));
    let rewards = |ledger: &Ledger| ledger.account(&hearth_wire::consts::SYSVAR_EPOCH_REWARDS).unwrap().data().to_vec();
    assert_eq!((ledger.clock().epoch, rewards(&ledger)), (0, vec![0; 81]));
    let capitalization = {
        ledger.hash_all();
        ledger.capitalization()
    };

    ledger.begin_slot(32, 31).unwrap();
    let clock = ledger.clock();
    assert_eq!((clock.slot, clock.epoch, clock.leader_schedule_epoch), (32, 1, 2));
    assert_eq!(clock.epoch_start_timestamp, clock.unix_timestamp);
    // No vote has a timestamp: 12.8 s of slots less a quarter, each rounded down.
    assert_eq!(clock.unix_timestamp, 1_700_000_000 + 12 - 3);
    let counts = stakes::GENESIS_STAKE_LAMPORTS - rent::minimum_balance(stakes::STAKE_STATE_BYTES);
    assert_eq!(ledger.stake_history().get(0).unwrap().effective, counts);
    assert_eq!(ledger.leader_schedule(2).unwrap().len(), 32);
    let sysvar = rewards(&ledger);
    // The rewards are distributed in one block, at height 33. Every lamport counts for 1,000 credits. Distribution is
    // active.
    assert_eq!((sysvar[0], sysvar[8], sysvar[80]), (33, 1, 1));
    assert_eq!(u128::from_le_bytes(sysvar[48..64].try_into().unwrap()), u128::from(counts) * 1_000);
    let observed = || stakes::Delegation::read(ledger.account(&stake).unwrap().data()).unwrap().credits_observed;
    assert_eq!(observed(), 0);
    ledger.end_slot(32, [32; 32]).unwrap();
    ledger.begin_slot(33, 32).unwrap();
    assert_eq!((observed(), rewards(&ledger)[80]), (1_000, 0));
    ledger.end_slot(33, [33; 32]).unwrap();
    ledger.hash_all();
    assert_eq!(ledger.capitalization(), capitalization, "inflation is off");

    // Even if whole epochs have no block, the leaders of the next are known.
    ledger.begin_slot(32 * 7 + 5, 33).unwrap();
    assert_eq!((ledger.leader_schedule(7).unwrap().len(), ledger.leader_schedule(8).unwrap().len()), (32, 32));
    assert!(ledger.epoch_stakes(1).is_none(), "stakes of long ago are dropped");
}

#[test]
fn stake_is_active_an_epoch_before_it_leads() {
    let (ledger, _, stake) = staked();
    let counts = stakes::GENESIS_STAKE_LAMPORTS - rent::minimum_balance(stakes::STAKE_STATE_BYTES);
    let stakes = || {
        let account = ledger.vote_accounts().remove(0);
        (account.stake, account.activated_stake)
    };
    ledger.begin_slot(1, 0).unwrap();
    // Another account of the same delegation, which is active without warming up.
    ledger.accounts().store(&wallet(0), ledger.account(&stake).unwrap());
    ledger.end_slot(1, [1; 32]).unwrap();
    assert_eq!(stakes(), (counts, counts));
    (2..=32).for_each(|slot| make_slot(&ledger, slot));
    assert_eq!(stakes(), (counts, 2 * counts));
    (33..=64).for_each(|slot| make_slot(&ledger, slot));
    assert_eq!(stakes(), (2 * counts, 2 * counts));
}

#[test]
fn fees_go_to_the_leader() {
    use hearth_wire::consts::VOTE_PROGRAM;
    let (ledger, vote, _) = staked();
    let collector = ledger.epoch_stakes(0).unwrap().vote(&vote).unwrap().collector;
    assert_eq!(collector, IDENTITY);
    assert_eq!(ledger.account(&vote).unwrap().owner, VOTE_PROGRAM);
    let before = ledger.balance(&IDENTITY);
    let bank = ledger.begin_slot(1, 0).unwrap();
    ledger.accounts().store(&wallet(0), Account::wallet(RICH));
    let bytes = crate::testing::bytes_of(
        &wallet(0),
        &[system::transfer(&wallet(0), &wallet(1), RICH / 2)],
        ledger.genesis_hash(),
    );
    let mut outcomes = vec![];
    bank.execute(&mut crate::Executor::new(), &[parse(&bytes)], &mut outcomes);
    landed(outcomes[0]);
    let reward = ledger.end_slot(1, [1; 32]).unwrap().reward.unwrap();
    assert_eq!((reward.collector, reward.lamports, ledger.balance(&IDENTITY)), (IDENTITY, 2_500, before + 2_500));
}

/// The target is four signatures a slot. Three raise the price by 500 a slot; slots without any lower it to 5,000.
#[test]
fn prices_follow_the_signatures_of_the_parent() {
    use crate::genesis::GenesisConfig;
    let governor = FeeRateGovernor { target_signatures_per_slot: 4, ..FeeRateGovernor::default() };
    let config = GenesisConfig {
        fund_initial_accounts: 0,
        fee_rate_governor: governor.clone(),
        extra_accounts: vec![(wallet(0), Account::wallet(RICH))],
        ..GenesisConfig::development(IDENTITY, [2; 32], 0)
    };
    let genesis = Genesis::create(config, |_| {}).unwrap();
    let ledger = Ledger::new(&genesis, LedgerConfig { forks: Some(Forks::default()), ..LedgerConfig::default() });
    assert_eq!(ledger.blockhashes().last_price(), 0);
    let mut executor = crate::Executor::new();
    let mut make = |slot: u64, parent: u64, count: u64| {
        let bank = ledger.begin_slot(slot, parent).unwrap();
        for n in 0..count {
            let transfer = system::transfer(&wallet(0), &wallet(1), 1_000_000 + n);
            let bytes = crate::testing::bytes_of(&wallet(0), &[transfer], bank.parent_blockhash());
            let mut outcomes = vec![];
            bank.execute(&mut executor, &[parse(&bytes)], &mut outcomes);
            assert_eq!(landed(outcomes[0]).fee, 5_000, "the fee is not the price");
        }
        ledger.end_slot(slot, [slot as u8; 32]).unwrap();
        ledger.blockhashes().last_price()
    };
    let (mut theirs, mut signatures) = (governor.clone_with_lamports_per_signature(0), 0);
    let expected = [5_000, 5_500, 6_000, 6_500, 6_000, 5_500, 5_000, 5_000];
    for ((count, price), slot) in [3, 4, 9, 0, 0, 0, 0, 0].into_iter().zip(expected).zip(1..) {
        theirs = FeeRateGovernor::new_derived(&theirs, signatures);
        signatures = count;
        let ours = make(slot, slot - 1, count);
        assert_eq!((ours, theirs.lamports_per_signature), (price, price), "slot {slot}");
    }
    // On another fork the price follows from the signatures of that fork's parent.
    ledger.rewind(3).unwrap();
    assert_eq!(ledger.blockhashes().last_price(), 6_000);
    assert_eq!(make(20, 3, 0), 6_500);
    let listed = ledger.account(&hearth_wire::consts::SYSVAR_RECENT_BLOCKHASHES).unwrap();
    let (entries, _) = listed.data()[8..].as_chunks::<40>();
    let prices: Vec<u64> = entries[..5].iter().map(|entry| sysvars::u64_at(entry, 32)).collect();
    assert_eq!(prices, [6_500, 6_000, 5_500, 5_000, 0]);
}

/// The cluster's bank counts the lamport of a new builtin program before it calculates the rewards of the same
/// boundary.
#[test]
fn a_new_builtin_program_counts_as_created() {
    use crate::features::feature_account;
    use crate::genesis::GenesisConfig;
    let feature = agave_feature_set::zk_token_sdk_enabled::ID.to_bytes();
    let created = |since: Option<u64>| {
        let config = GenesisConfig {
            fund_initial_accounts: 0,
            slots_per_epoch: 32,
            extra_accounts: vec![(feature, feature_account(since))],
            ..GenesisConfig::development(IDENTITY, [2; 32], 0)
        };
        let genesis = Genesis::create(config, |_| {}).unwrap();
        let ledger = Ledger::new(&genesis, LedgerConfig::default());
        [31, 32].map(|slot| ledger.begin_features(&mut ledger.chain_mut(), slot).unwrap())
    };
    assert_eq!(created(None), [0, 1], "only at the boundary");
    assert_eq!(created(Some(0)), [0, 0], "it is there from the start");
}

#[test]
fn genesis_rent_account_has_no_effect() {
    use crate::genesis::GenesisConfig;
    use hearth_wire::consts::SYSVAR_RENT;
    for data in [&[][..], &[0; 17], &[255; 17]] {
        let account = Account::with_data(5, [7; 32], data);
        let config = GenesisConfig {
            fund_initial_accounts: 0,
            extra_accounts: vec![(SYSVAR_RENT, account)],
            ..GenesisConfig::development(IDENTITY, [2; 32], 0)
        };
        let ledger = Ledger::new(&Genesis::create(config, |_| {}).unwrap(), LedgerConfig::default());
        assert_eq!(ledger.features().lamports_per_byte(), 6_960);
        let sysvar = ledger.account(&SYSVAR_RENT).unwrap();
        assert_eq!(sysvar.lamports, rent::minimum_balance(17));
        assert_eq!(sysvar.data()[..8], 6_960u64.to_le_bytes());
    }
}
