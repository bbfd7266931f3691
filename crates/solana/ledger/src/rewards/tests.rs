//! Rewards on whole chains: who gets what when an epoch turns, and that no lamport appears or vanishes unaccounted.
//!
//! `HEARTH_SEED` is the seed of the first random chain; the others follow it.

use std::sync::Arc;

use hearth_crypto::sha256::sha256;
use hearth_testkit::random::{Random, seed};
use hearth_wire::consts::{LAMPORTS_PER_SOL, SYSVAR_EPOCH_REWARDS, SYSVAR_RENT, VOTE_PROGRAM};
use hearth_wire::program::system;
use solana_inflation::Inflation;

use super::calculation::Commission;
use super::*;
use crate::accounts::Accounts;
use crate::block::{BlockRewards, BlockSummary, Reward, RewardKind};
use crate::genesis::{Genesis, GenesisConfig};
use crate::ledger::{Forks, Ledger, LedgerConfig};
use crate::stakes::{Delegation, StakeAccount, StakeHistory, new_stake_account, set_rewarded};
use crate::sysvars::EpochRewards;
use crate::testing::{IDENTITY, bytes_of, parse, wallet};
use crate::vote_state::{VoteState, new_vote_state};
use crate::{Executor, StatusCacheConfig};

const RICH: u64 = 1_000 * LAMPORTS_PER_SOL;
const SLOTS: u64 = 32;
/// Offsets of fields in the data of a vote account of version 4, with no votes, no root and one voter.
const COLLECTOR_AT: usize = 4 + 64;
const COMMISSION_AT: usize = 4 + 128;
const CREDITS_AT: usize = 4 + 128 + 12 + 49 + 8 + 1 + 8 + 40;

fn vote(n: u64) -> Pubkey {
    sha256(&[b"vote", &n.to_le_bytes()])
}

fn stake(n: u64) -> Pubkey {
    sha256(&[b"stake", &n.to_le_bytes()])
}

fn change(account: &mut Account, at: usize, bytes: &[u8]) {
    let mut data = account.data().to_vec();
    data[at..at + bytes.len()].copy_from_slice(bytes);
    account.set_data(&data);
}

fn vote_account(n: u64, commission_bps: u16, collector: &Pubkey) -> (Pubkey, Account) {
    let mut account = Account::with_data(RICH, VOTE_PROGRAM, &new_vote_state(&vote(n), &IDENTITY));
    change(&mut account, COMMISSION_AT, &commission_bps.to_le_bytes());
    change(&mut account, COLLECTOR_AT, collector);
    (vote(n), account)
}

fn credit(account: &mut Account, epochs: &[(u64, u64, u64)]) {
    let words: Vec<u64> = epochs.iter().flat_map(|&(epoch, last, first)| [epoch, last, first]).collect();
    change(account, CREDITS_AT, &(epochs.len() as u64).to_le_bytes());
    change(account, CREDITS_AT + 8, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
}

/// A chain with inflation and epochs of 32 slots, between two slots.
struct Rig {
    ledger: Arc<Ledger>,
    slot: u64,
}

impl Rig {
    fn new(extra_accounts: Vec<(Pubkey, Account)>) -> Self {
        let config = GenesisConfig {
            fund_initial_accounts: 0,
            slots_per_epoch: SLOTS,
            inflation: Inflation::default(),
            extra_accounts,
            ..GenesisConfig::development(IDENTITY, [2; 32], 1_700_000_000)
        };
        let genesis = Genesis::create(config, |_| {}).unwrap();
        let status_cache = StatusCacheConfig { enabled: true, capacity_txns: 0 };
        let config = LedgerConfig { status_cache, forks: Some(Forks::default()), ..LedgerConfig::default() };
        Self { ledger: Ledger::new(&genesis, config), slot: 0 }
    }

    /// Makes a block; returns its rewards.
    fn next(&mut self) -> (BlockSummary, BlockRewards) {
        self.next_with(|_| {})
    }

    fn next_with(&mut self, run: impl FnOnce(&crate::Bank)) -> (BlockSummary, BlockRewards) {
        let bank = self.ledger.begin_slot(self.slot + 1, self.slot).unwrap();
        run(&bank);
        self.slot += 1;
        let block = self.ledger.end_slot(self.slot, sha256(&[&self.slot.to_le_bytes()])).unwrap();
        self.ledger.hash_all();
        let rewards = self.ledger.rewards(&block);
        assert_eq!(rewards.is_some(), block.has_rewards);
        (block, rewards.map(|rewards| BlockRewards::clone(&rewards)).unwrap_or_default())
    }

    /// Makes blocks up to the last one of an epoch.
    fn end_epoch(&mut self, epoch: u64) {
        while self.slot < (epoch + 1) * SLOTS - 1 {
            self.next();
        }
    }

    fn update(&self, key: &Pubkey, change: impl FnOnce(&mut Account)) {
        self.ledger.accounts().update(key, change);
    }

    fn delegation(&self, n: u64) -> Delegation {
        Delegation::read(self.ledger.account(&stake(n)).unwrap().data()).unwrap()
    }
}

/// Vote account 0 takes 10.5 %, vote account 1 nothing; stakes 0 and 1 are with the first, stake 2 with the second.
fn two_validators() -> Rig {
    let mut accounts = vec![vote_account(0, 1_050, &vote(0)), vote_account(1, 0, &vote(1))];
    for (n, of, sol) in [(0, 0, 3_000), (1, 0, 1_000), (2, 1, 2_000)] {
        accounts.push((stake(n), new_stake_account(sol * LAMPORTS_PER_SOL, &vote(of), &[7; 32])));
    }
    Rig::new(accounts)
}

/// The lamports follow `calculate_epoch_inflation_rewards`: rate · capitalization · years, where an epoch is 32 slots
/// of 400 ms, the rate that of full inflation after one epoch less the foundation's 5 %. Points are lamports times
/// credits; a share is points · lamports / all points, and each side's part of it is rounded down.
#[test]
fn an_epoch_pays_commissions_and_then_stakes() {
    let mut rig = two_validators();
    rig.end_epoch(0);
    rig.update(&vote(0), |account| credit(account, &[(0, 100, 0)]));
    rig.update(&vote(1), |account| credit(account, &[(0, 300, 0)]));
    let (stakes, capitalization) = ([0, 1, 2].map(|n| rig.delegation(n).stake), rig.ledger.capitalization());
    let (years, total) = (32.0 / 78_892_314.984, 0.08 * 0.85f64.powf(32.0 / 78_892_314.984));
    let lamports = ((total - total * 0.05) * capitalization as f64 * years) as u64;
    let points = [stakes[0] * 100, stakes[1] * 100, stakes[2] * 300].map(u128::from);
    let all: u128 = points.iter().sum();
    let shares = points.map(|points| (points * u128::from(lamports) / all) as u64);
    let of_vote = shares.map(|share| (u128::from(share) * 1_050 / 10_000) as u64);
    let of_stake = [0, 1].map(|n: usize| (u128::from(shares[n]) * 8_950 / 10_000) as u64);

    let (block, first) = rig.next();
    let epoch_rewards = EpochRewards::load(rig.ledger.accounts());
    assert_eq!((epoch_rewards.total_points, epoch_rewards.total_rewards, epoch_rewards.active), (all, lamports, true));
    let commission = of_vote[0] + of_vote[1];
    assert!(commission > 0 && epoch_rewards.distributed_rewards == commission);
    assert_eq!((first.num_partitions, epoch_rewards.num_partitions), (Some(1), 1));
    let paid = |n: u64, lamports: u64| Reward {
        pubkey: vote(n),
        lamports: lamports as i64,
        post_balance: RICH + lamports,
        kind: RewardKind::Voting,
        commission: None,
        commission_bps: None,
    };
    let mut expected = [paid(0, commission), paid(1, 0)];
    expected.sort_by_key(|reward| reward.pubkey);
    assert_eq!(first.rewards, expected);
    assert_eq!((block.slot, rig.delegation(2).stake), (SLOTS, stakes[2]));
    assert_eq!(rig.ledger.capitalization(), capitalization + commission);

    let (_, second) = rig.next();
    let epoch_rewards = EpochRewards::load(rig.ledger.accounts());
    let rewards = [of_stake[0], of_stake[1], shares[2]];
    let distributed = commission + rewards.iter().sum::<u64>();
    assert_eq!((epoch_rewards.distributed_rewards, epoch_rewards.active), (distributed, false));
    assert!(distributed <= lamports && lamports - distributed < 10, "only fractions are left over");
    assert_eq!(rig.ledger.capitalization(), capitalization + distributed);
    assert_eq!((second.num_partitions, second.rewards.len()), (None, 3));
    for (n, credits) in [(0, 100), (1, 100), (2, 300)] {
        let reward = second.rewards.iter().find(|reward| reward.pubkey == stake(n)).unwrap();
        let got = rewards[n as usize];
        assert_eq!((reward.lamports, reward.kind), (got as i64, RewardKind::Staking));
        assert_eq!(reward.post_balance, rig.ledger.balance(&stake(n)));
        let after = rig.delegation(n);
        assert_eq!((after.stake, after.credits_observed), (stakes[n as usize] + got, credits));
    }
    let (block, third) = rig.next();
    assert!(!block.has_rewards && third.is_empty());
}

#[test]
fn a_commission_counts_one_whole_epoch_later() {
    let mut rig = two_validators();
    let share = |rig: &mut Rig, epoch: u64| {
        rig.end_epoch(epoch);
        // Only the first vote account votes.
        rig.update(&vote(0), |account| credit(account, &[(epoch, 100 * epoch + 100, 100 * epoch)]));
        let (_, first) = rig.next();
        let (_, second) = rig.next();
        let sum = |rewards: &BlockRewards| rewards.rewards.iter().map(|reward| reward.lamports).sum::<i64>();
        (sum(&first), sum(&second))
    };
    let is_tenth =
        |(of_vote, of_stakes): (i64, i64)| of_vote > 0 && (of_vote * 8_950 - of_stakes * 1_050).abs() < 50_000;
    assert!(is_tenth(share(&mut rig, 0)));
    // In epoch 1 it takes all; which counts for epoch 3, since it was so when epoch 2 began.
    rig.update(&vote(0), |account| change(account, COMMISSION_AT, &10_000u16.to_le_bytes()));
    assert!(is_tenth(share(&mut rig, 1)));
    assert!(is_tenth(share(&mut rig, 2)));
    let (of_vote, of_stakes) = share(&mut rig, 3);
    assert!(of_vote > 0 && of_stakes == 0);
}

#[test]
fn commissions_go_to_who_may_collect_them() {
    let (rich, poor) = ([81; 32], [82; 32]);
    let collectors = [rich, poor, SYSVAR_RENT, INCINERATOR, vote(5), vote(5)];
    let mut accounts = vec![(rich, Account::wallet(RICH)), (poor, Account::wallet(1))];
    for (n, collector) in (0..).zip(&collectors) {
        accounts.push(vote_account(n, 5_000, collector));
        accounts.push((stake(n), new_stake_account(1_000 * LAMPORTS_PER_SOL, &vote(n), &[7; 32])));
    }
    let mut rig = Rig::new(accounts);
    rig.end_epoch(0);
    (0..6).for_each(|n| rig.update(&vote(n), |account| credit(account, &[(0, 100, 0)])));
    let before = rig.ledger.capitalization();
    let (_, first) = rig.next();
    let epoch_rewards = EpochRewards::load(rig.ledger.accounts());
    let one = epoch_rewards.total_rewards / 6 / 2;
    // Six commissions are done with. The sysvar cannot collect, nor a vote account that is another's; the incinerator
    // has burned its own by now.
    assert!(epoch_rewards.distributed_rewards.abs_diff(6 * one) < 6);
    let got: Vec<Pubkey> = first.rewards.iter().map(|reward| reward.pubkey).collect();
    let mut expected = vec![rich, poor, INCINERATOR, vote(5)];
    expected.sort_unstable();
    assert_eq!(got, expected);
    assert!(first.rewards.iter().all(|reward| (reward.lamports as u64).abs_diff(one) < 2));
    assert_eq!(rig.ledger.balance(&INCINERATOR), 0);
    assert!(rig.ledger.capitalization().abs_diff(before + 3 * one) < 6);
}

#[test]
fn a_delegation_shrinks_to_what_its_account_holds() {
    let (accounts, history) = (Accounts::new(), StakeHistory::default());
    let (_, mut voter) = vote_account(0, 0, &vote(0));
    credit(&mut voter, &[(0, 100, 0)]);
    accounts.store(&vote(0), voter);
    let put = |n: u64, lost: u64| {
        let mut account = new_stake_account(10 * LAMPORTS_PER_SOL, &vote(0), &[7; 32]);
        account.lamports -= lost;
        accounts.store(&stake(n), account.clone());
        let delegation = Delegation::read(account.data()).unwrap();
        StakeAccount { key: stake(n), lamports: account.lamports, data_len: account.data().len(), delegation }
    };
    // The second has lost a sol, the third all but the minimum; both have seen all credits.
    let delegated = 10 * LAMPORTS_PER_SOL - minimum_balance(200);
    let mut stakes = [put(0, 0), put(1, LAMPORTS_PER_SOL), put(2, delegated)];
    stakes[1..].iter_mut().for_each(|stake| stake.delegation.credits_observed = 100);
    let features = &RewardFeatures::ALL;
    let boundary = EpochBoundary {
        accounts: &accounts,
        stakes: &stakes,
        history: &history,
        rewarded: 4,
        earlier: [None; 2],
        features,
        lamports: 1_000,
        votes: None,
    };
    let calculated = boundary.calculate();
    assert_eq!((calculated.points, calculated.stakes.len()), (u128::from(delegated) * 100, 3));
    let paid = PayoutBlock { accounts: &accounts, history: &history, epoch: 5, features }.pay(&calculated.stakes);
    assert_eq!((paid.distributed, paid.rewards.len(), paid.rewards[0].lamports), (1_000, 1, 1_000));
    let read = |n| Delegation::read(accounts.load(&stake(n)).unwrap().data()).unwrap();
    assert_eq!((read(0).stake, read(0).credits_observed), (delegated + 1_000, 100));
    assert_eq!((read(1).stake, read(1).deactivation_epoch), (delegated - LAMPORTS_PER_SOL, u64::MAX));
    assert_eq!((read(2).stake, read(2).deactivation_epoch), (0, 4));
    let off = RewardFeatures { relax_post_exec_min_balance_check: false, ..RewardFeatures::ALL };
    let strict = EpochBoundary { features: &off, ..boundary };
    assert_eq!(strict.calculate().stakes.len(), 1);
}

/// SipHash 1-3 without a key over blockhash and address, as `solana-epoch-rewards-hasher` has it, computed by a second
/// implementation of the paper's algorithm: 0x0f5352ac656a5e82, 0x3cbed8f496042609, 0x5ab6bf28f3647998 and
/// 0x723db6caf180a104, each divided by 2^64 and multiplied by the number of blocks.
#[test]
fn a_hash_says_which_block_pays_a_stake() {
    let of = |count| [1, 2, 3, 200].map(|n| partition_of(&[n; 32], &[7; 32], count));
    assert_eq!((of(43), of(1_000)), ([2, 10, 15, 19], [59, 237, 354, 446]));
    assert_eq!(of(1), [0; 4]);
}

#[test]
fn features_select_the_commission_field() {
    let all = RewardFeatures::ALL;
    assert_eq!((all.shown_commission(750), all.counted_commission_bps(750)), ((None, None), 750));
    let no_collectors = RewardFeatures { custom_commission_collector: false, ..all };
    assert_eq!(no_collectors.shown_commission(750), (None, Some(750)));
    let percent = RewardFeatures { commission_rate_in_basis_points: false, ..no_collectors };
    assert_eq!((percent.shown_commission(700), percent.counted_commission_bps(799)), ((Some(7), None), 700));
    assert_eq!(percent.counted_commission_bps(u16::MAX), 25_500);
}

#[test]
fn a_rewind_takes_rewards_back_and_a_restart_keeps_those_that_are_due() {
    let mut rig = two_validators();
    rig.end_epoch(0);
    rig.update(&vote(0), |account| credit(account, &[(0, 100, 0)]));
    rig.next();
    let (before, at) = (rig.ledger.capitalization(), rig.slot);
    let kept = rig.ledger.chain().epochs.kept();
    let text = serde_json::to_string(&kept).unwrap();
    let mut read: crate::epochs::KeptEpochs = serde_json::from_str(&text).unwrap();
    assert_ne!(read, kept, "vote accounts are beside the rest");
    let accounts = kept.vote_accounts().map(|(epoch, key, account)| ((epoch, *key), account.clone()));
    let accounts: crate::epochs::VoteAccounts = accounts.collect();
    assert!(!read.clone().set_vote_accounts(Default::default()), "they are needed");
    assert!(read.set_vote_accounts(accounts.clone()));
    assert_eq!(read, kept);
    let one_more = [((9, [9; 32]), Account::wallet(1))];
    assert!(!read.set_vote_accounts(accounts.into_iter().chain(one_more).collect()), "and no others");
    let schedule = *rig.ledger.epoch_schedule();
    assert_eq!(crate::epochs::Epochs::restore(schedule, kept.clone()).kept(), kept);
    let (block, rewards) = rig.next();
    let (after, hash) = (rig.ledger.capitalization(), rig.ledger.bank_hash(block.slot));
    assert!(after > before && rewards.rewards.len() == 2);
    rig.ledger.rewind(at).unwrap();
    assert_eq!((rig.ledger.capitalization(), rig.ledger.rewards(&block)), (before, None));
    rig.slot = at;
    let (again, same) = rig.next();
    assert_eq!((rig.ledger.capitalization(), rig.ledger.bank_hash(again.slot), same), (after, hash, rewards));
}

/// Gives a vote account the credits of an epoch that ends.
fn vote_for(account: &mut Account, epoch: u64, credits: u64) {
    let mut all = VoteState::of_account(account).unwrap().epoch_credits;
    let first = all.last().map_or(0, |(_, last, _)| *last);
    all.push((epoch, first + credits, first));
    let from = all.len().saturating_sub(64);
    credit(account, &all[from..]);
}

/// The strongest property: at the end of every slot, what is counted as all lamports is their sum, and differs from
/// that of the genesis by what was paid and what was burned.
fn lamports_add_up(seed: u64) {
    let mut random = Random(seed);
    let mut accounts: Vec<_> = (0..4).map(|n| (wallet(n), Account::wallet(RICH))).collect();
    let (votes, stakes) = (1 + random.below(5), random.below(12));
    for n in 0..votes {
        let collector = [vote(n), wallet(n), [85; 32], SYSVAR_RENT, INCINERATOR, vote(0)][random.index(6)];
        let bps = [0, 1, 5_000, 9_999, 10_000, u16::MAX][random.index(6)];
        accounts.push(vote_account(n, bps, &collector));
    }
    for n in 0..stakes {
        // The last vote account does not exist.
        let bits = [1, 10, 40][random.index(3)];
        let lamports = minimum_balance(200) + random.below(1 << bits);
        accounts.push((stake(n), new_stake_account(lamports, &vote(random.below(votes + 1)), &[7; 32])));
    }
    let mut rig = Rig::new(accounts);
    // The first slot makes the sysvar of slot hashes, whose balance is new too.
    rig.next();
    let (start, mut paid) = (rig.ledger.capitalization(), 0u64);
    let mut executor = Executor::new();
    for _ in 2..4 * SLOTS {
        if (rig.slot + 1).is_multiple_of(SLOTS) {
            for n in (0..votes).filter(|_| random.chance(700)).collect::<Vec<_>>() {
                let credits = random.below(1_000);
                rig.update(&vote(n), |account| vote_for(account, rig.slot / SLOTS, credits));
            }
        }
        let (from, to) = (random.below(4), [wallet(random.below(4)), INCINERATOR][random.index(2)]);
        let (_, rewards) = rig.next_with(|bank| {
            let transfer = system::transfer(&wallet(from), &to, LAMPORTS_PER_SOL);
            let bytes = bytes_of(&wallet(from), &[transfer], bank.parent_blockhash());
            let mut outcomes = vec![];
            bank.execute(&mut executor, &[parse(&bytes)], &mut outcomes);
            assert!(outcomes[0].is_committed());
        });
        paid += rewards.rewards.iter().map(|reward| reward.lamports as u64).sum::<u64>();
        let counted = rig.ledger.capitalization();
        assert_eq!(u128::from(counted), rig.ledger.accounts().total_lamports(), "slot {}", rig.slot);
        assert_eq!(counted, start + paid - rig.ledger.burned_lamports(), "slot {}", rig.slot);
    }
    let epoch_rewards = EpochRewards::load(rig.ledger.accounts());
    assert!(!epoch_rewards.active && epoch_rewards.distributed_rewards <= epoch_rewards.total_rewards);
    let sysvar = rig.ledger.account(&SYSVAR_EPOCH_REWARDS).unwrap();
    assert_eq!(sysvar.lamports, minimum_balance(sysvar.data().len()));
}

#[test]
fn lamports_add_up_on_any_chain() {
    let first = seed();
    for seed in (0..12).map(|n| first.wrapping_add(n)) {
        println!("again with: HEARTH_SEED={seed} cargo test -p hearth-ledger lamports_add_up");
        lamports_add_up(seed);
    }
}

/// A stake account that says it delegates more than it holds.
fn boasting_stake(n: u64, of: u64, delegated: u64) -> (Pubkey, Account) {
    let mut account = new_stake_account(10 * LAMPORTS_PER_SOL, &vote(of), &[7; 32]);
    let mut data = account.data().to_vec();
    let delegation = Delegation { stake: delegated, ..Delegation::read(&data).unwrap() };
    set_rewarded(&mut data, &delegation);
    account.set_data(&data);
    (stake(n), account)
}

/// A genesis or an archive of another node may have any delegations and credits: neither ends the node.
#[test]
fn sums_that_do_not_fit_saturate() {
    let most = u64::MAX;
    let mut accounts = vec![vote_account(0, 0, &vote(0)), vote_account(1, 0, &vote(1))];
    accounts.extend([(0, 0), (1, 0), (2, 1)].map(|(n, of)| boasting_stake(n, of, most)));
    let mut rig = Rig::new(accounts);
    let total = |rig: &Rig, epoch| rig.ledger.chain().epochs.stakes(epoch).map(|stakes| stakes.total());
    assert_eq!(total(&rig, 0), Some(most));
    rig.end_epoch(0);
    for n in 0..2 {
        rig.update(&vote(n), |account| credit(account, &[(0, most / 2, 0), (1, most, most / 2)]));
    }
    rig.next();
    let epoch_rewards = EpochRewards::load(rig.ledger.accounts());
    assert_eq!(epoch_rewards.total_points, u128::MAX);
    assert_eq!(StakeHistory::load(rig.ledger.accounts()).get(0).map(|all| all.effective), Some(most));
    assert_eq!(total(&rig, 2), Some(most));
    rig.next();
    let epoch_rewards = EpochRewards::load(rig.ledger.accounts());
    assert!(!epoch_rewards.active && epoch_rewards.distributed_rewards <= epoch_rewards.total_rewards);
    assert_eq!(u128::from(rig.ledger.capitalization()), rig.ledger.accounts().total_lamports());
}

#[test]
fn payments_that_do_not_fit_saturate() {
    let (accounts, history, features) = (Accounts::new(), StakeHistory::default(), &RewardFeatures::ALL);
    let most = u64::MAX;
    let all = Commission { lamports: most, burned: most, is_vote_account: true, commission_bps: 0 };
    let commissions = std::collections::BTreeMap::from([(vote(0), all), (vote(1), all)]);
    assert_eq!(pay_commissions(&accounts, &commissions, features).distributed, most);
    let reward =
        |n| StakeReward { key: stake(n), lamports: most, delegated: 1, credits_observed: 0, commission_bps: 0 };
    let block = PayoutBlock { accounts: &accounts, history: &history, epoch: 5, features };
    assert_eq!(block.pay(&[reward(0), reward(1)]).distributed, most);
}

/// Whatever delegations and credits are, epochs begin.
#[test]
fn no_delegation_stops_the_chain() {
    let first = seed();
    for seed in (0..12).map(|n| first.wrapping_add(n)) {
        println!("again with: HEARTH_SEED={seed} cargo test -p hearth-ledger no_delegation_stops");
        let mut random = Random(seed);
        let mut accounts: Vec<_> = (0..3).map(|n| vote_account(n, random.word() as u16, &vote(n))).collect();
        for n in 0..6 {
            let delegated = random.word() >> random.index(64);
            accounts.push(boasting_stake(n, random.below(4), delegated));
        }
        let mut rig = Rig::new(accounts);
        for epoch in 0..3 {
            rig.end_epoch(epoch);
            for n in 0..3 {
                let credits = [0; 3].map(|_: u64| (epoch, random.word() >> random.index(64), random.word()));
                rig.update(&vote(n), |account| credit(account, &credits));
            }
            rig.next();
            let stakes = rig.ledger.chain().epochs.stakes(epoch + 2).map(|stakes| stakes.total());
            assert!(stakes.is_some(), "the leaders of the epoch after the next are known");
            assert_eq!(u128::from(rig.ledger.capitalization()), rig.ledger.accounts().total_lamports());
        }
    }
}
