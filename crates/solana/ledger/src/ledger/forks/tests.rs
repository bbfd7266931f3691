//! Forks, left and revisited: the state equals that of a ledger that never saw another fork.
//!
//! `HEARTH_SEED` runs one seed of the random walks, `HEARTH_SEEDS` sets their number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use hearth_crypto::sha256::sha256;
use hearth_testkit::random::Random;
use hearth_wire::consts::VOTE_PROGRAM;
use hearth_wire::program::system;

use super::super::*;
use super::*;
use crate::account::Account;
use crate::bank::{Executor, Outcome};
use crate::genesis::GenesisConfig;
use crate::stakes;
use crate::testing::{IDENTITY, bytes_of, landed, parse, wallet};
use crate::view::SignatureStatus;
use crate::{StatusCacheConfig, TransactionError, vote_state};

const RICH: u64 = 10_000_000_000;
const WALLETS: u64 = 12;
const VOTES: u64 = 4;

fn vote(n: u64) -> Pubkey {
    sha256(&[b"vote", &n.to_le_bytes()])
}

fn stake(n: u64) -> Pubkey {
    sha256(&[b"stake", &n.to_le_bytes()])
}

/// A chain of epochs of 32 slots of 7 s, with wallets, vote accounts and stakes.
fn genesis() -> Genesis {
    let mut extra_accounts: Vec<_> = (0..WALLETS / 2).map(|n| (wallet(n), Account::wallet(RICH))).collect();
    for n in 0..VOTES / 2 {
        extra_accounts.extend(stakes::genesis_accounts(&vote(n), &stake(n), &[n as u8 + 1; 32]));
    }
    let config = GenesisConfig {
        fund_initial_accounts: 0,
        slots_per_epoch: 32,
        slot_ms: 7_000,
        extra_accounts,
        ..GenesisConfig::development(IDENTITY, [2; 32], 1_700_000_000)
    };
    Genesis::create(config, |_| {}).unwrap()
}

fn config(forks: Option<Forks>) -> LedgerConfig {
    let status_cache = StatusCacheConfig { enabled: true, capacity_txns: 0 };
    LedgerConfig { status_cache, forks, ..LedgerConfig::default() }
}

fn new(forks: Option<Forks>) -> Arc<Ledger> {
    Ledger::new(&genesis(), config(forks))
}

/// An action in a block. Drawn once, so that every execution of the block is the same.
#[derive(Clone, Debug)]
enum Action {
    /// A transfer with the genesis blockhash or the newest; it fails if it exceeds the balance.
    Pay { from: u64, to: u64, lamports: u64, by_genesis: bool },
    /// Sets a vote account's state, or deletes it.
    Vote(u64, Option<u64>),
    /// Sets a stake's vote account and lamports; zero lamports delete it.
    Stake(u64, u64, u64),
    /// Sets the data of a program's account.
    Data(u64, usize),
}

#[derive(Clone, Debug)]
struct Block {
    parent: usize,
    slot: u64,
    hash: Hash,
    actions: Vec<Action>,
}

fn action(random: &mut Random) -> Action {
    match random.below(10) {
        0 => Action::Vote(random.below(VOTES), random.chance(850).then(|| random.below(1_000))),
        1 => Action::Stake(random.below(2 * VOTES), random.below(VOTES), random.below(3) * 5 * RICH),
        2 => Action::Data(random.below(4), random.index(300)),
        _ => {
            let (from, to) = (random.below(WALLETS), random.below(WALLETS));
            let all = random.chance(200);
            let lamports = if all { RICH - 5_000 } else { random.below(RICH / 2) };
            Action::Pay { from, to, lamports, by_genesis: random.chance(500) }
        }
    }
}

/// A tree of blocks; the first is genesis.
fn tree(random: &mut Random, count: usize) -> Vec<Block> {
    let mut blocks = vec![Block { parent: 0, slot: 0, hash: [0; 32], actions: vec![] }];
    for n in 1..count {
        let parent = match random.chance(700) {
            true => n - 1,
            false => n - 1 - random.index(n.min(12)),
        };
        let skipped = if random.chance(100) { random.below(40) } else { random.below(3) };
        let slot = blocks[parent].slot + 1 + skipped;
        let actions = (0..random.below(20)).map(|_| action(random)).collect();
        blocks.push(Block { parent, slot, hash: random.key(), actions });
    }
    blocks
}

fn ancestors(blocks: &[Block], mut at: usize) -> Vec<usize> {
    let mut line = vec![at];
    while at != 0 {
        at = blocks[at].parent;
        line.push(at);
    }
    line.reverse();
    line
}

/// Applies an action, with the same effect on every ledger.
fn act(ledger: &Ledger, bank: &Bank, executor: &mut Executor, action: &Action) -> Option<Outcome> {
    let accounts = ledger.accounts();
    match action {
        Action::Pay { from, to, lamports, by_genesis } => {
            let hash = if *by_genesis { ledger.genesis_hash() } else { bank.parent_blockhash() };
            let bytes = bytes_of(&wallet(*from), &[system::transfer(&wallet(*from), &wallet(*to), *lamports)], hash);
            let mut outcomes = vec![];
            bank.execute(executor, &[parse(&bytes)], &mut outcomes);
            return outcomes.pop();
        }
        Action::Vote(n, None) => accounts.store(&vote(*n), Account::default()),
        Action::Vote(n, Some(credits)) => {
            let new = vote_state::new_vote_state(&vote(*n), &[*n as u8 + 1; 32]);
            let root = 4 + 128 + 12 + 49 + 8;
            let rest = &new[root + 1..vote_state::VOTE_STATE_BYTES - 8];
            let mut data = [&new[..root], &[1][..], &credits.to_le_bytes()[..], rest].concat();
            let at = root + 1 + 8 + 8 + 40;
            [1, bank.slot() / 32, *credits, 0u64].iter().enumerate().for_each(|(word, value)| {
                data[at + 8 * word..at + 8 * word + 8].copy_from_slice(&value.to_le_bytes());
            });
            accounts.store(&vote(*n), Account::with_data(RICH, VOTE_PROGRAM, &data));
        }
        Action::Stake(n, of, lamports) => {
            accounts.store(&stake(*n), stakes::new_stake_account(*lamports, &vote(*of), &[9; 32]));
        }
        Action::Data(n, bytes) => {
            let account = Account::with_data(*bytes as u64, [7; 32], &vec![*n as u8; *bytes]);
            accounts.store(&sha256(&[b"data", &n.to_le_bytes()]), account);
        }
    }
    None
}

/// Executes a block on the last; returns the outcomes of its transactions.
fn execute(ledger: &Ledger, blocks: &[Block], at: usize) -> Vec<Outcome> {
    let Block { parent, slot, hash, actions } = &blocks[at];
    let bank = ledger.begin_slot(*slot, blocks[*parent].slot).unwrap();
    let mut executor = Executor::new();
    let outcomes = actions.iter().filter_map(|action| act(ledger, &bank, &mut executor, action)).collect();
    ledger.end_slot(*slot, *hash).unwrap();
    outcomes
}

/// All observable state of a ledger whose newest block is hashed.
#[derive(Debug, PartialEq)]
struct LedgerState {
    accounts: BTreeMap<Pubkey, Account>,
    hash: (u64, Hash),
    lattice: Vec<u8>,
    capitalization: u64,
    blocks: Vec<BlockSummary>,
    blockhashes: Vec<(Hash, u64)>,
    burned_lamports: u64,
    transaction_count: u64,
    samples: Samples,
    epochs: crate::epochs::KeptEpochs,
    is_epoch_turning: bool,
    votes: BTreeSet<Pubkey>,
    stakes: BTreeSet<Pubkey>,
    statuses: Vec<(Option<u64>, bool)>,
}

/// Every transaction with the genesis blockhash that any block could contain.
fn transactions(blocks: &[Block], genesis_hash: &Hash) -> Vec<Vec<u8>> {
    let pays = blocks.iter().flat_map(|block| &block.actions).filter_map(|action| match action {
        Action::Pay { from, to, lamports, by_genesis: true } => {
            Some(bytes_of(&wallet(*from), &[system::transfer(&wallet(*from), &wallet(*to), *lamports)], genesis_hash))
        }
        _ => None,
    });
    pays.collect()
}

fn whole(ledger: &Ledger, blocks: &[Block]) -> LedgerState {
    let (hash, chain) = (ledger.hash_all(), ledger.chain());
    let mut accounts = BTreeMap::new();
    ledger.accounts().for_each(|key, account| assert!(accounts.insert(*key, account.clone()).is_none()));
    assert_eq!(ledger.accounts().count(), accounts.len());
    let index = ledger.shared.hashing.stake_index();
    let now = chain.last().height + 1;
    let statuses = transactions(blocks, ledger.genesis_hash());
    let status = |bytes: &Vec<u8>| {
        let txn = parse(bytes);
        let status = ledger.statuses().status(txn.first_signature(), now);
        (status.map(|status| status.slot), ledger.statuses().has_landed(&txn, now))
    };
    let statuses = statuses.iter().map(status).collect();
    let blockhashes = chain.blockhashes.by_age().map(|(hash, price)| (*hash, price)).collect();
    let samples = chain.samples.clone();
    let epochs = chain.epochs.kept();
    drop(chain);
    LedgerState {
        accounts,
        hash,
        lattice: ledger.lattice().to_bytes().to_vec(),
        capitalization: ledger.capitalization(),
        blocks: ledger.recent_blocks(RECENT_BLOCKS),
        blockhashes,
        burned_lamports: ledger.burned_lamports(),
        transaction_count: ledger.transaction_count(Commitment::Processed),
        samples,
        epochs,
        is_epoch_turning: ledger.is_epoch_turning(),
        votes: index.votes,
        stakes: index.stakes,
        statuses,
    }
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let (from, count) = match (number("HEARTH_SEED"), number("HEARTH_SEEDS")) {
        (Some(from), count) => (from, count.unwrap_or(1)),
        (None, given) => (0, given.unwrap_or(count)),
    };
    from..from + count
}

/// Walks back and forth in a tree of blocks. Returns the number of rewinds, and of blocks undone.
fn walk(seed: u64) -> (usize, usize) {
    println!("again: HEARTH_SEED={seed} cargo test --release -p hearth-ledger forks");
    let mut random = Random(seed);
    let blocks = tree(&mut random, 40);
    let ledger = new(Some(Forks::default()));
    let (mut line, mut root, mut done) = (vec![0], 0, (0, 0));
    for _ in 0..12 {
        let to = ancestors(&blocks, random.index(blocks.len()));
        if !to.contains(&root) {
            continue;
        }
        let shared = line.iter().zip(&to).take_while(|(a, b)| a == b).count();
        if random.chance(400) {
            // A slot that is begun and aborted.
            let last = blocks[*line.last().unwrap()].slot;
            let bank = ledger.begin_slot(last + 1 + random.below(40), last).unwrap();
            let mut executor = Executor::new();
            for _ in 0..random.below(9) {
                act(&ledger, &bank, &mut executor, &action(&mut random));
            }
        }
        done = (done.0 + 1, done.1 + line.len() - shared);
        ledger.rewind(blocks[to[shared - 1]].slot).unwrap();
        if random.chance(500) {
            ledger.hash_some(random.index(9));
        }
        for at in &to[shared..] {
            execute(&ledger, &blocks, *at);
            if random.chance(500) {
                while ledger.hash_some(3) {}
            }
        }
        line = to;
        let fresh = new(None);
        line[1..].iter().for_each(|at| drop(execute(&fresh, &blocks, *at)));
        assert_eq!(whole(&ledger, &blocks), whole(&fresh, &blocks), "seed {seed} at {line:?}");
        if random.chance(300) {
            root = line[random.index(line.len())].max(root);
            assert!(ledger.mark_stored(blocks[root].slot) && ledger.mark_rooted(blocks[root].slot));
        }
    }
    done
}

#[test]
fn a_fork_that_was_left_leaves_no_trace() {
    let done: Vec<_> = seeds(40).map(walk).collect();
    let (times, blocks) = done.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(done.len() < 40 || times > 250 && blocks > 700, "{times} times over {blocks} blocks");
}

fn pay(from: u64, to: u64, lamports: u64) -> Action {
    Action::Pay { from, to, lamports, by_genesis: true }
}

/// Blocks with these slots, each on the previous, starting on the block at `parent`.
fn extend(blocks: &mut Vec<Block>, mut parent: usize, slots: impl Iterator<Item = u64>, actions: &[Action]) {
    for slot in slots {
        let hash = sha256(&[&slot.to_le_bytes(), &blocks[parent].hash]);
        blocks.push(Block { parent, slot, hash, actions: actions.to_vec() });
        parent = blocks.len() - 1;
    }
}

fn genesis_block() -> Vec<Block> {
    vec![Block { parent: 0, slot: 0, hash: [0; 32], actions: vec![] }]
}

#[test]
fn transaction_lands_once_on_each_fork() {
    let ledger = new(Some(Forks::default()));
    let mut blocks = genesis_block();
    extend(&mut blocks, 0, 1..2, &[]);
    extend(&mut blocks, 1, 2..3, &[pay(0, 1, 77), pay(0, 1, 2 * RICH)]);
    // The other fork, with a repeated transfer.
    extend(&mut blocks, 1, 3..4, &[pay(0, 1, 77), pay(0, 1, 77), pay(0, 1, 2 * RICH)]);
    execute(&ledger, &blocks, 1);
    let outcomes = execute(&ledger, &blocks, 2);
    let (first, failed) = (landed(outcomes[0]), landed(outcomes[1]));
    assert!(first.err.is_none() && failed.err.is_some());
    let bytes = &transactions(&blocks, ledger.genesis_hash())[0];
    let status =
        |slot| SignatureStatus { slot, result: Ok(()), confirmations: Some(0), commitment: Commitment::Processed };
    assert_eq!(ledger.signature_status(parse(bytes).first_signature()), Some(status(2)));
    ledger.rewind(1).unwrap();
    assert_eq!(ledger.signature_status(parse(bytes).first_signature()), None);
    assert_eq!((ledger.balance(&wallet(1)), ledger.transaction_count(Commitment::Processed)), (RICH, 0));
    let outcomes = execute(&ledger, &blocks, 3);
    let twice = Outcome::NotCommitted(TransactionError::AlreadyProcessed);
    assert_eq!(outcomes, [Outcome::Committed(first), twice, Outcome::Committed(failed)]);
    assert_eq!(ledger.signature_status(parse(bytes).first_signature()), Some(status(3)));
    assert_eq!(ledger.balance(&wallet(1)), RICH + 77);
}

#[test]
fn goes_back_over_more_than_all_that_is_remembered() {
    let mut blocks = genesis_block();
    extend(&mut blocks, 0, 1..41, &[]);
    blocks[10].actions = vec![pay(0, 1, 5), pay(1, 2, 6)];
    // Claims of block 10 are dead from height 152 on, statuses from 310 on, and other entries replace them.
    extend(&mut blocks, 40, 41..700, &[]);
    let mut random = Random(5);
    for (at, block) in blocks.iter_mut().enumerate().take(500).skip(200) {
        let to_newest = |n| Action::Pay { from: n, to: n + 1, lamports: at as u64, by_genesis: false };
        block.actions = vec![to_newest(random.below(5)), Action::Vote(random.below(VOTES), Some(at as u64))];
    }
    extend(&mut blocks, 40, 1_000..1_003, &[pay(0, 1, 5)]);
    let ledger = new(Some(Forks::default()));
    (1..blocks.len() - 3).for_each(|at| drop(execute(&ledger, &blocks, at)));
    assert_eq!(ledger.kept_forks().unwrap().blocks, 699);
    // Nothing is final, so the initial state is read.
    assert_eq!(ledger.state(Commitment::Finalized).slot, 0);
    assert_eq!(ledger.state(Commitment::Finalized).balance(&wallet(0)), RICH);
    ledger.rewind(40).unwrap();
    let fresh = new(None);
    (1..=40).for_each(|at| drop(execute(&fresh, &blocks, at)));
    assert_eq!(whole(&ledger, &blocks), whole(&fresh, &blocks));
    for at in blocks.len() - 3..blocks.len() {
        let outcomes = execute(&ledger, &blocks, at);
        assert_eq!(outcomes, [Outcome::NotCommitted(TransactionError::AlreadyProcessed)]);
        execute(&fresh, &blocks, at);
    }
    assert_eq!(whole(&ledger, &blocks), whole(&fresh, &blocks));
}

#[test]
fn the_line_goes_back_to_the_root_and_to_what_is_wanted() {
    let mut blocks = genesis_block();
    extend(&mut blocks, 0, (2..3_000).step_by(2), &[]);
    let ledger = new(Some(Forks::default()));
    (1..=1_200).for_each(|at| drop(execute(&ledger, &blocks, at)));
    assert_eq!(ledger.line_from(0).len(), 1_201, "nothing is rooted");
    assert_eq!(ledger.line_from(2_395), [2_396, 2_398, 2_400]);
    let next = |after, to| ledger.next_on_line(after, to).map(|(block, parent)| (parent.slot, block.slot));
    assert_eq!((next(0, 2_400), next(5, 8), next(8, 2_400)), (Some((0, 2)), Some((4, 6)), Some((8, 10))));
    assert_eq!((next(8, 8), next(8, 9), next(10, 8), next(8, 2_402)), (None, None, None, None));
    // A reader at slot 20 still finds the next block after everything is rooted and pruned.
    ledger.keep_line_from(20);
    assert!(ledger.mark_rooted(2_400));
    execute(&ledger, &blocks, 1_201);
    assert_eq!((next(20, 2_402), ledger.line_from(0).contains(&20)), (Some((20, 22)), true));
    ledger.keep_line_from(2_400);
    (1_202..=1_210).for_each(|at| drop(execute(&ledger, &blocks, at)));
    assert_eq!((ledger.line_from(0).len(), next(20, 2_402)), (RECENT_BLOCKS + 10, None), "10 are above the root");
    ledger.rewind(2_410).unwrap();
    assert_eq!((next(2_408, 2_410), next(2_408, 2_412)), (Some((2_408, 2_410)), None));
}

#[test]
fn blockhash_that_was_undone_is_valid_until_the_root_is_above_its_slot() {
    let ledger = new(Some(Forks::default()));
    let make = |slot: u64, parent: u64, hash: u8| {
        ledger.begin_slot(slot, parent).unwrap();
        ledger.end_slot(slot, [hash; 32]).unwrap().blockhash
    };
    let [_, confirmed, processed] = [1, 2, 3].map(|slot| make(slot, slot - 1, slot as u8));
    assert!(ledger.mark_stored(2));
    ledger.rewind(1).unwrap();
    let valid = |hash: &Hash| {
        [Commitment::Processed, Commitment::Confirmed, Commitment::Finalized]
            .map(|commitment| ledger.is_blockhash_valid_at(hash, commitment))
    };
    // Another fork.
    make(4, 1, 9);
    assert_eq!((valid(&confirmed), valid(&processed)), ([true, true, false], [true, false, false]));
    assert!(ledger.may_return(&confirmed) && !ledger.is_blockhash_valid(&confirmed));
    assert!(!ledger.may_return(&[7; 32]) && !ledger.may_return(ledger.genesis_hash()));
    // Back, where its block is executed again.
    ledger.rewind(1).unwrap();
    assert_eq!(make(2, 1, 2), confirmed);
    assert!(ledger.is_blockhash_valid(&confirmed) && !ledger.may_return(&confirmed));
    make(5, 2, 5);
    assert!(ledger.mark_stored(5) && ledger.may_return(&processed));
    assert!(ledger.mark_rooted(5) && !ledger.may_return(&processed));
    assert_eq!(valid(&processed), [false; 3]);
}

#[test]
fn undo_records_end_at_the_root() {
    let mut blocks = genesis_block();
    extend(&mut blocks, 0, 1..101, &[Action::Data(1, 200), Action::Vote(1, Some(1))]);
    let ledger = new(Some(Forks::default()));
    (1..=60).for_each(|at| drop(execute(&ledger, &blocks, at)));
    assert!(!ledger.mark_rooted(61) && !ledger.mark_stored(61), "no such block");
    assert_eq!((ledger.root(), ledger.slot(Commitment::Confirmed)), (Some(0), 0));
    assert!(ledger.mark_stored(55) && ledger.mark_rooted(50));
    assert_eq!((ledger.root(), ledger.slot(Commitment::Confirmed)), (Some(50), 55));
    assert_eq!(ledger.rewind(49), Err(RewindError::BelowRoot { slot: 49, root: 50 }));
    assert_eq!(ledger.rewind(70), Err(RewindError::NotOnLine { slot: 70, head: 60 }));
    (61..=62).for_each(|at| drop(execute(&ledger, &blocks, at)));
    ledger.hash_all();
    let kept = ledger.kept_forks().unwrap();
    assert_eq!((kept.oldest_slot, kept.blocks), (50, 12));
    assert!(kept.bytes > 12 * CHECKPOINT_BYTES && kept.bytes < 14 * (CHECKPOINT_BYTES + 200_000), "{kept:?}");
    assert_eq!(ledger.frozen(49), None);
    ledger.rewind(52).unwrap();
    // A confirmed slot is no longer confirmed once it is undone.
    let slots = [Commitment::Processed, Commitment::Confirmed, Commitment::Finalized].map(|level| ledger.slot(level));
    assert_eq!(slots, [52, 52, 50]);
    extend(&mut blocks, 52, 53..57, &[pay(0, 1, 1)]);
    (blocks.len() - 4..blocks.len()).for_each(|at| drop(execute(&ledger, &blocks, at)));
    assert_eq!(
        (ledger.slot(Commitment::Processed), ledger.slot(Commitment::Confirmed)),
        (56, 52),
        "nor others instead"
    );
    ledger.rewind(50).unwrap();
    assert_eq!(ledger.rewind(50), Ok(()), "that is where it is");
    let off = new(None);
    execute(&off, &blocks, 1);
    assert_eq!((off.rewind(1), off.kept_forks()), (Err(RewindError::NotKept), None));
}

#[test]
fn oversized_undo_is_given_up_and_reported() {
    let mut blocks = genesis_block();
    extend(&mut blocks, 0, 1..41, &[pay(0, 1, 1)]);
    let ledger = new(Some(Forks { bytes_max: 2 << 20 }));
    (1..=40).for_each(|at| drop(execute(&ledger, &blocks, at)));
    ledger.hash_all();
    let kept = ledger.kept_forks().unwrap();
    let oldest = kept.oldest_slot;
    assert!((25..40).contains(&oldest) && kept.blocks as u64 == 40 - oldest, "{kept:?}");
    assert!(kept.bytes <= kept.bytes_max + 300_000 && kept.bytes_max == 2 << 20, "{kept:?}");
    let before = whole(&ledger, &blocks);
    let bank = ledger.begin_slot(41, 40).unwrap();
    assert_eq!(ledger.rewind(oldest - 1), Err(RewindError::Forgotten { slot: oldest - 1, oldest }));
    let paid = act(&ledger, &bank, &mut Executor::new(), &pay(1, 0, 1)).unwrap();
    landed(paid);
    ledger.rewind(40).unwrap();
    assert_eq!(whole(&ledger, &blocks), before);
    ledger.rewind(oldest).unwrap();
    let fresh = new(None);
    (1..=oldest as usize).for_each(|at| drop(execute(&fresh, &blocks, at)));
    assert_eq!(whole(&ledger, &blocks), whole(&fresh, &blocks));
}

#[test]
fn a_slot_is_aborted_though_banks_execute_it() {
    let mut blocks = genesis_block();
    extend(&mut blocks, 0, 1..2, &[pay(0, 1, 1_000_000), pay(1, 2, 50)]);
    let ledger = new(Some(Forks::default()));
    execute(&ledger, &blocks, 1);
    let before = whole(&ledger, &blocks);
    for slot in 2..12 {
        let bank = ledger.begin_slot(slot, 1).unwrap();
        std::thread::scope(|scope| {
            let runners: Vec<_> = (0..3)
                .map(|thread| {
                    scope.spawn({
                        let (bank, ledger) = (&bank, &ledger);
                        move || {
                            let (mut executor, mut count) = (Executor::new(), 0);
                            for n in 0.. {
                                // It creates an account, which then pays itself.
                                let action =
                                    pay(thread, if n == 0 { thread + 6 } else { thread }, 1_000_000 * slot + n);
                                let outcome = act(ledger, bank, &mut executor, &action);
                                match outcome.unwrap() {
                                    Outcome::Committed(_) => count += 1,
                                    Outcome::SlotEnded => break,
                                    other => panic!("{other:?}"),
                                }
                            }
                            count
                        }
                    })
                })
                .collect();
            hearth_testkit::wait_until("some land", || bank.counts().committed >= 50);
            ledger.rewind(1).unwrap();
            let landed: u64 = runners.into_iter().map(|runner| runner.join().unwrap()).sum();
            assert_eq!(landed, bank.counts().committed);
        });
        assert!(ledger.working_bank().is_none());
        assert_eq!(ledger.end_slot(slot, [9; 32]), Err(SlotError::NotBegun(slot)));
        assert_eq!(whole(&ledger, &blocks), before, "slot {slot}");
        for thread in 0..3 {
            // Each thread's first transfer has landed or would have; it may land again.
            let Action::Pay { from, to, lamports, .. } = pay(thread, thread + 6, 1_000_000 * slot) else { continue };
            let transfer = system::transfer(&wallet(from), &wallet(to), lamports);
            let bytes = bytes_of(&wallet(from), &[transfer], ledger.genesis_hash());
            assert!(!ledger.statuses().has_landed(&parse(&bytes), 2));
        }
    }
}

/// An account that is consistent only if its lamports match its data.
fn marked(slot: u64) -> Account {
    let data: Vec<u8> = std::iter::repeat_n(slot.to_le_bytes(), 20).flatten().collect();
    Account::with_data(RICH + slot, [7; 32], &data)
}

#[test]
fn readers_see_whole_accounts_and_what_is_final_as_it_was() {
    const KEYS: u64 = 40;
    let ledger = new(Some(Forks::default()));
    let make = |slot: u64, parent: u64| {
        ledger.begin_slot(slot, parent).unwrap();
        (0..KEYS).for_each(|n| ledger.accounts().store(&wallet(n), marked(slot)));
        ledger.end_slot(slot, sha256(&[&slot.to_le_bytes()])).unwrap();
    };
    (1..=5).for_each(|slot| make(slot, slot - 1));
    assert!(ledger.mark_stored(5) && ledger.mark_rooted(5));
    let stop = AtomicBool::new(false);
    let check = || {
        let mut reads = 0u64;
        while !stop.load(Relaxed) {
            for level in [Commitment::Processed, Commitment::Confirmed, Commitment::Finalized] {
                let state = ledger.state(level);
                let slots: Vec<u64> = (0..KEYS)
                    .map(|n| {
                        let account = state.account(&wallet(n)).expect("it is always there");
                        assert_eq!(account, marked(account.lamports - RICH));
                        account.lamports - RICH
                    })
                    .collect();
                // What is final stays readable while it is read.
                if level == Commitment::Finalized {
                    assert!(slots.iter().all(|slot| *slot == state.slot), "{} {slots:?}", state.slot);
                }
                reads += 1;
            }
        }
        reads
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(check)).collect();
        let (mut root, mut slot) = (5, 5);
        for round in 0..150 {
            let mut parent = root;
            for _ in 0..4 {
                slot += 1;
                make(slot, parent);
                parent = slot;
                assert!(ledger.mark_stored(slot));
            }
            if round % 5 == 4 {
                root = slot - 2;
                assert!(ledger.mark_rooted(root));
            }
            ledger.rewind(root).unwrap();
        }
        stop.store(true, Relaxed);
        let reads: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(reads > 30, "{reads}");
    });
}

#[test]
fn vote_changes_of_a_block_are_reported() {
    let mut blocks = genesis_block();
    extend(&mut blocks, 0, 1..2, &[Action::Vote(1, Some(7)), Action::Stake(5, 1, 5 * RICH)]);
    extend(&mut blocks, 1, 2..3, &[Action::Vote(0, None), Action::Vote(3, Some(1))]);
    extend(&mut blocks, 2, 3..4, &[pay(0, 1, 5)]);
    // An epoch begins.
    extend(&mut blocks, 3, 33..35, &[]);
    let ledger = new(Some(Forks::default()));
    let sorted = |votes: &[u64]| {
        let mut keys: Vec<_> = votes.iter().map(|n| vote(*n)).collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(ledger.frozen(0).unwrap().votes, sorted(&[0, 1]), "all of the first");
    for at in 1..blocks.len() {
        assert_eq!(ledger.frozen(blocks[at].slot), None);
        execute(&ledger, &blocks, at);
        let (slot, bank_hash) = ledger.hash_all();
        let frozen = ledger.frozen(slot).unwrap();
        let expected = FrozenBlock {
            slot,
            parent: blocks[at - 1].slot,
            blockhash: blocks[at].hash,
            bank_hash,
            votes: frozen.votes.clone(),
        };
        assert_eq!(frozen, expected);
        let votes: [&[u64]; 6] = [&[], &[1], &[0, 3], &[], &[1, 3], &[]];
        assert_eq!(frozen.votes, sorted(votes[at]), "of slot {slot}");
    }
    let of_genesis = stakes::GENESIS_STAKE_LAMPORTS - crate::rent::minimum_balance(stakes::STAKE_STATE_BYTES);
    let at = |slot, keys: &[Pubkey]| -> Vec<_> {
        let found = ledger.votes_at(slot, Some(keys)).unwrap();
        found.into_iter().map(|(one, voter)| (one.key, one.root, one.stake, voter)).collect()
    };
    let voter = |n: u8| Some([n + 1; 32]);
    assert_eq!(at(0, &[vote(1)]), [(vote(1), None, of_genesis, voter(1))]);
    let both = [(vote(0), None, of_genesis, voter(0)), (vote(1), Some(7), of_genesis, voter(1))];
    assert_eq!(at(1, &[vote(0), vote(1)]), both);
    assert_eq!(at(2, &[vote(0)]), [(vote(0), None, 0, None)], "it is no more");
    assert_eq!(
        at(34, &[vote(1)]),
        [(vote(1), Some(7), of_genesis + 5 * RICH - crate::rent::minimum_balance(stakes::STAKE_STATE_BYTES), voter(1))]
    );
    let all = |slot| ledger.votes_at(slot, None).unwrap().into_iter().map(|(one, _)| one.key).collect::<Vec<_>>();
    assert_eq!([all(0), all(1), all(2)], [sorted(&[0, 1]), sorted(&[0, 1]), sorted(&[1, 3])]);
    assert_eq!(ledger.votes_at(4, None), None, "no such block");
    ledger.rewind(1).unwrap();
    assert_eq!((ledger.frozen(1).unwrap().votes, ledger.frozen(2)), (sorted(&[1]), None));
    assert_eq!(all(1), sorted(&[0, 1]));
}

/// Pages of a block's changes, concatenated.
fn changed(ledger: &Ledger, slot: u64, limit: usize) -> Option<Vec<ChangedAccount>> {
    let mut all: Vec<ChangedAccount> = vec![];
    loop {
        let page = ledger.slot_changes(slot, all.last().map(|account| &account.key), limit)?;
        assert_eq!((page.slot, Some(page.bank_hash)), (slot, ledger.bank_hash(slot)));
        assert!(page.accounts.len() == limit || !page.more);
        all.extend(page.accounts);
        if !page.more {
            return Some(all);
        }
    }
}

#[test]
fn kept_changes_of_a_block_are_listed_by_address() {
    let ledger = new(Some(Forks::default()));
    let mut blocks = genesis_block();
    extend(&mut blocks, 0, 1..2, &[pay(0, 1, 77), pay(1, 2, 5), Action::Data(1, 200), Action::Data(2, 90)]);
    extend(&mut blocks, 1, 3..4, &[pay(2, 3, 1), Action::Data(1, 200), Action::Data(2, 0)]);
    extend(&mut blocks, 2, 4..5, &[pay(0, 3, 2)]);
    (1..=3).for_each(|at| drop(execute(&ledger, &blocks, at)));
    ledger.hash_all();
    // The accounts that slot 3 changed, out of all.
    let fresh = new(None);
    execute(&fresh, &blocks, 1);
    let before = whole(&fresh, &blocks).accounts;
    execute(&fresh, &blocks, 2);
    let after = whole(&fresh, &blocks).accounts;
    let keys: BTreeSet<_> =
        before.keys().chain(after.keys()).filter(|key| before.get(*key) != after.get(*key)).collect();
    let changes = changed(&ledger, 3, 2).unwrap();
    assert_eq!(changes.iter().map(|account| &account.key).collect::<Vec<_>>(), keys.into_iter().collect::<Vec<_>>());
    assert_eq!(changed(&ledger, 3, 1_000).as_ref(), Some(&changes));
    for account in &changes {
        let expected = after.get(&account.key).cloned().unwrap_or_default();
        assert_eq!((account.lamports, account.space), (expected.lamports, expected.data().len()));
        assert_eq!(account.hash, crate::lattice::account_hash(&account.key, &expected));
    }
    let [same, gone] = [1u64, 2].map(|n| sha256(&[b"data", &n.to_le_bytes()]));
    assert!(changes.iter().all(|account| account.key != same), "written as it was");
    assert!(changes.iter().any(|account| account.key == gone && account.hash == [0; 32]), "it has ceased to exist");
    let page = ledger.slot_changes(3, None, 1_000).unwrap();
    assert_eq!((page.parent, page.more), (1, false));
    // No such block, an abandoned one, and one below the root.
    assert_eq!(ledger.slot_changes(2, None, 9), None);
    ledger.rewind(3).unwrap();
    assert_eq!(ledger.slot_changes(4, None, 9), None);
    assert_eq!(changed(&ledger, 3, 9).as_ref(), Some(&changes));
    assert!(ledger.mark_stored(3) && ledger.mark_rooted(3));
    extend(&mut blocks, 2, 5..8, &[pay(0, 3, 3)]);
    (blocks.len() - 3..blocks.len()).for_each(|at| drop(execute(&ledger, &blocks, at)));
    ledger.hash_all();
    assert_eq!(ledger.slot_changes(1, None, 9), None, "what it replaced is forgotten");
    assert!(ledger.slot_changes(6, None, 9).is_some());
}
