//! A chain in memory, from submitting to reading back.

mod history;
mod limits;

use std::sync::atomic::{AtomicBool, Ordering};

use alloy_consensus::{Transaction, TxEip1559};
use alloy_primitives::{TxKind, U256};
use hearth_testkit::{PATIENCE, wait_for, wait_until};

use super::*;
pub(super) use crate::builders::{account, rich, signer};
use crate::pool::PoolError;
use crate::tx::{Tx, TypedTransaction};

pub(super) const CHAIN: u64 = 31337;
pub(super) const GWEI: u128 = 1_000_000_000;

pub(super) fn chain(block_time: BlockTime) -> Chain {
    let genesis = Genesis::dev(CHAIN, &rich(1..=8), 500_000_000);
    Chain::open(ChainConfig { block_time, ..ChainConfig::new(genesis) }).expect("it opens")
}

pub(super) fn unsigned(nonce: u64, fee: u128) -> TypedTransaction {
    TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: fee,
        max_priority_fee_per_gas: 1,
        to: TxKind::Call(Address::repeat_byte(0x77)),
        value: U256::from(1),
        ..Default::default()
    }
    .into()
}

pub(super) fn transfer(seed: u8, nonce: u64) -> Bytes {
    Tx::signed(unsigned(nonce, 100 * GWEI), &signer(seed)).raw
}

pub(super) fn accepted(results: Vec<Result<B256, SubmitError>>) -> Vec<B256> {
    results.into_iter().map(|result| result.expect("it is taken")).collect()
}

#[test]
fn submitted_transaction_is_soon_in_a_block() {
    let chain = chain(BlockTime::Instant);
    let raw: Vec<Bytes> = (0..20).flat_map(|nonce| (1..=8).map(move |seed| transfer(seed, nonce))).collect();
    let hashes = accepted(chain.submit(raw.clone()));
    assert!(chain.settled(&hashes, PATIENCE));
    for (hash, raw) in hashes.iter().zip(&raw) {
        let (block, index) = chain.tx(hash).expect("it is in a block");
        assert_eq!(&block.txs[index].raw, raw);
        assert!(block.receipts[index].status);
        assert_eq!(chain.block(block.number()).expect("it is there").hash, block.hash);
        assert_eq!(chain.block_by_hash(&block.hash).expect("it is there").number(), block.number());
    }
    let view = chain.view();
    assert_eq!(view.account(&account(1)).map(|account| account.nonce), Some(20));
    assert_eq!(view.account(&Address::repeat_byte(0x77)).map(|account| account.balance), Some(U256::from(160)));
    // The counters are complete when the turn is over.
    chain.stop();
    let metrics = chain.metrics();
    assert_eq!((metrics.txs, metrics.submitted, metrics.refused), (160, 160, 0));
    assert_eq!(metrics.head, chain.head().number());
}

#[test]
fn each_of_a_burst_has_its_own_answer() {
    let chain = chain(BlockTime::Manual);
    let other = TxEip1559 { chain_id: 1, gas_limit: 21_000, ..Default::default() };
    let other = Tx::signed(other.into(), &signer(1)).raw;
    let burst =
        vec![transfer(1, 0), Bytes::from_static(b"\xc0"), other, transfer(9, 0), transfer(1, 0), transfer(1, 1)];
    let said: Vec<String> = chain
        .submit(burst)
        .into_iter()
        .map(|result| result.map_or_else(|error| error.to_string(), |_| "ok".into()))
        .collect();
    assert_eq!((said[0].as_str(), said[5].as_str()), ("ok", "ok"));
    assert!(said[1].starts_with("rlp: "), "{}", said[1]);
    assert_eq!(said[2], "invalid chain id for signer: have 1 want 31337");
    assert!(said[3].starts_with("insufficient funds"), "{}", said[3]);
    assert_eq!(said[4], "already known");
    let block = chain.mine().expect("it is made");
    assert_eq!(block.txs.len(), 2);
    assert_eq!(chain.metrics().refused, 4);
    let again = chain.submit(vec![transfer(1, 0)]).remove(0);
    assert!(matches!(again, Err(SubmitError::Pool(PoolError::NonceTooLow { .. }))), "{again:?}");
}

#[test]
fn blocks_come_by_the_clock() {
    let chain = chain(BlockTime::Every(Duration::from_millis(10)));
    let events = chain.subscribe();
    accepted(chain.submit(vec![transfer(1, 0)]));
    let (mut seen, mut txs) = (Vec::new(), 0);
    while seen.len() < 5 || txs < 1 {
        match events.next_within(PATIENCE).expect("blocks come") {
            ChainEvent::Block(block) => {
                txs += block.txs.len();
                seen.push(block);
            }
            other => panic!("{other:?}"),
        }
    }
    for pair in seen.windows(2) {
        assert_eq!(pair[1].header.parent_hash, pair[0].hash);
        assert!(pair[1].header.timestamp > pair[0].header.timestamp, "as every client wants it");
    }
    chain.stop();
}

#[test]
fn the_base_fee_follows_what_blocks_use() {
    let chain = chain(BlockTime::Manual);
    let first = chain.mine().expect("it is made");
    let second = chain.mine().expect("it is made");
    assert_eq!(first.base_fee(), 875_000_000);
    assert_eq!(second.base_fee(), 765_625_000);
    assert_eq!(chain.pending_env().base_fee, 669_921_875);
}

#[test]
fn blocks_can_be_executed_again_from_what_readers_see() {
    let chain = chain(BlockTime::Manual);
    for nonce in 0..3 {
        accepted(chain.submit((1..=4).map(|seed| transfer(seed, nonce)).collect()));
        chain.mine().expect("it is made");
    }
    for number in 1..=3 {
        let block = chain.block(number).expect("it is there");
        let before = chain.view_at(number - 1).expect("it is kept");
        let env = chain.env_of(&block);
        let mut executed = crate::exec::execute(&before, &env, &block.txs);
        let again = crate::block::seal(&env, &block.txs, &mut executed, block.header.state_root, Bytes::new());
        assert_eq!(*again, *block);
        assert_eq!(chain.view_at(number).expect("it is kept").state_root(), block.header.state_root);
        assert_eq!(block.header.timestamp, env.timestamp);
    }
    assert!(chain.view_at(4).is_none());
}

#[test]
fn dev_account_changes_apply_at_once() {
    let chain = chain(BlockTime::Instant);
    let (who, contract) = (Address::repeat_byte(0x31), Address::repeat_byte(0x32));
    chain.set_balance(who, U256::from(10u128.pow(18))).expect("set");
    chain.set_nonce(who, 7).expect("set");
    chain.set_code(contract, Bytes::from_static(&[0x60, 0x01])).expect("set");
    chain.set_storage(contract, U256::from(5), U256::from(6)).expect("set");
    let view = chain.view();
    assert_eq!(
        view.account(&who).map(|account| (account.nonce, account.balance)),
        Some((7, U256::from(10u128.pow(18))))
    );
    assert_eq!(view.storage(&contract, &U256::from(5)), U256::from(6));
    let code = view.account(&contract).expect("it is there").code_hash;
    assert_eq!(view.code(&code), Some(Bytes::from_static(&[0x60, 0x01])));

    chain.impersonate(who);
    assert!(chain.is_impersonated(&who) && !chain.is_impersonated(&contract));
    let hash = chain.submit_as(who, unsigned(7, 10 * GWEI)).expect("it is taken");
    assert!(chain.settled(&[hash], PATIENCE));
    let (block, index) = chain.tx(&hash).expect("it is in a block");
    assert_eq!(block.txs[index].sender, who);
    assert!(block.receipts[index].status);
}

#[test]
fn a_snapshot_is_gone_back_to_once() {
    let chain = chain(BlockTime::Manual);
    let events = chain.subscribe();
    let id = chain.snapshot();
    let before = chain.head();
    let hash = accepted(chain.submit(vec![transfer(1, 0)]))[0];
    chain.mine().expect("it is made");
    chain.increase_time(1000);
    let later = chain.mine().expect("it is made");
    assert!(later.header.timestamp >= now_s() + 999);
    assert!(chain.revert(id).expect("it goes back"));
    assert_eq!(chain.head().hash, before.hash);
    assert!(chain.tx(&hash).is_none() && chain.block(1).is_none() && chain.view_at(1).is_none());
    assert_eq!(chain.view().account(&account(1)).map(|account| account.nonce), Some(0));
    assert!(!chain.revert(id).expect("there is none"));
    let reorg = std::iter::from_fn(|| events.try_next()).last();
    assert!(matches!(reorg, Some(ChainEvent::Reorg(head, gone)) if head.hash == before.hash && gone.len() == 2));
    // The same transaction can come again.
    accepted(chain.submit(vec![transfer(1, 0)]));
    let block = chain.mine().expect("it is made");
    assert_eq!((block.number(), block.txs.len()), (1, 1));
    assert!(block.header.timestamp < now_s() + 900);
}

#[test]
fn time_is_what_it_is_set_to() {
    let chain = chain(BlockTime::Manual);
    let start = now_s() + 100_000;
    chain.set_next_timestamp(start).expect("it is later");
    assert_eq!(chain.mine().expect("made").header.timestamp, start);
    let next = chain.mine().expect("made").header.timestamp;
    assert!((start + 1..start + 60).contains(&next), "time goes on from there");
    let error = chain.set_next_timestamp(start).expect_err("it is over");
    assert!(error.to_string().contains("lower than or equal to previous block's timestamp"), "{error}");
    chain.mine_many(3, Some(60)).expect("made");
    let times: Vec<u64> = (3..=5).map(|number| chain.block(number).expect("made").header.timestamp).collect();
    assert_eq!((times[1] - times[0], times[2] - times[1]), (60, 60));
    chain.set_timestamp_interval(Some(5));
    assert_eq!(chain.mine().expect("made").header.timestamp, times[2] + 5);
}

#[test]
fn a_consensus_engine_makes_the_same_block_everywhere() {
    let (one, other) = (chain(BlockTime::Manual), chain(BlockTime::Manual));
    accepted(one.submit(vec![transfer(1, 0), transfer(1, 1), transfer(2, 0)]));
    let mut txs = one.propose(usize::MAX);
    assert_eq!(txs.len(), 3);
    assert_eq!(one.propose(txs[0].raw.len()).len(), 1);
    // One that cannot be in the block.
    txs.push(txs[0].clone());
    let input = BlockInput { number: 1, timestamp: 1_700_000_000, txs, ..Default::default() };
    let ready = one.execute_block(input.clone()).expect("it follows");
    assert_eq!(one.head().number(), 0, "nobody sees it yet");
    assert_eq!(ready.refused.iter().map(|(index, ..)| *index).collect::<Vec<_>>(), [3]);
    let block = one.commit(ready).expect("it follows");
    let again = other.execute_block(input.clone()).expect("it follows");
    assert_eq!(other.commit(again).expect("it follows").hash, block.hash);
    assert!(matches!(one.execute_block(input), Err(ChainError::NotNext { number: 1, head: 1 })));
    assert_eq!(one.pool().status().pending, 0);
}

#[test]
fn manual_change_waits_only_for_the_current_block() {
    let (chain, done) = (chain(BlockTime::Instant), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let (chain, done) = (&chain, &done);
            scope.spawn(move || {
                for nonce in (0..).take_while(|_| !done.load(Ordering::Relaxed)) {
                    accepted(chain.submit(vec![transfer(seed, nonce)]));
                }
            });
        }
        let mut waited: Vec<u64> = Vec::new();
        wait_for("two hundred blocks and a hundred changes", || {
            chain.set_balance(Address::repeat_byte(0x55), U256::from(waited.len())).expect("set");
            let before = chain.head().number();
            let between = chain.inner.between_blocks();
            // No block is made until it is dropped, however long this thread is put aside here.
            waited.push(chain.head().number() - before);
            drop(between);
            let head = chain.head().number();
            if waited.len() > 100 && head >= 200 { Ok(()) } else { Err(format!("{head} blocks, {waited:?}")) }
        });
        done.store(true, Ordering::Relaxed);
        waited.sort_unstable();
        // One that was begun before, and one that was executed ahead. The thread may be put aside before it asks.
        assert!(waited[waited.len() / 2] <= 2, "{waited:?}");
    });
}

/// Reads everything that a client can see, again and again; returns how often.
fn look(chain: &Chain, done: &AtomicBool) -> u64 {
    let (mut looks, mut pending, mut last) = (0u64, [0; 4], false);
    while !last {
        // Read before the look: the last one begins when all is over, and sees the end.
        last = done.load(Ordering::Acquire);
        let (head, view) = chain.head_and_view();
        assert_eq!(head.header.state_root, view.state_root());
        let number = chain.head().number();
        let block = chain.block(number).expect("a published number can be read");
        assert_eq!(block.txs.len(), block.receipts.len());
        // A reader may be put aside while as many blocks are made as states are kept.
        assert!(chain.view_at(number).is_some() || chain.head().number() >= number + crate::state::WINDOW as u64);
        for tx in &block.txs {
            assert!(chain.tx(&tx.hash).is_some());
            let state_nonce = chain.view().account(&tx.sender).map_or(0, |account| account.nonce);
            assert!(state_nonce > tx.envelope.nonce());
        }
        for (seed, before) in (1..).zip(&mut pending) {
            let state_nonce = view.account(&account(seed)).map_or(0, |account| account.nonce);
            let next = chain.pool().next_nonce(&account(seed), state_nonce);
            assert!(next >= *before, "the pending nonce goes back from {before} to {next}");
            *before = next;
        }
        looks += 1;
    }
    assert_eq!(pending, [60; 4]);
    looks
}

fn number_block_receipt_and_nonce_agree(chain: &Chain) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| look(chain, &done))).collect();
        let writers: Vec<_> = (1..=4)
            .map(|seed| {
                scope.spawn(move || {
                    (0..60).flat_map(|nonce| accepted(chain.submit(vec![transfer(seed, nonce)]))).collect::<Vec<_>>()
                })
            })
            .collect();
        let hashes: Vec<B256> = writers.into_iter().flat_map(|writer| writer.join().expect("it sends")).collect();
        assert!(chain.settled(&hashes, PATIENCE));
        // Each reader sees the end.
        let head = chain.head().number();
        wait_until("what waits is included", || chain.head().number() != head || chain.pool().status().pending == 0);
        done.store(true, Ordering::Release);
        assert!(hashes.iter().all(|hash| chain.tx(hash).is_some()), "what is acknowledged is included");
        assert!(readers.into_iter().all(|reader| reader.join().expect("all agrees") > 0));
    });
}

#[test]
fn all_agrees_at_any_instant() {
    number_block_receipt_and_nonce_agree(&chain(BlockTime::Instant));
}

#[test]
fn all_agrees_at_any_instant_in_a_folder() {
    let dir = tempfile::tempdir().expect("a folder");
    number_block_receipt_and_nonce_agree(&in_folder(dir.path(), BlockTime::Instant).expect("it opens"));
}

#[test]
fn unreferenced_chain_ends_its_thread() {
    let chain = chain(BlockTime::Every(Duration::from_millis(5)));
    let thread = chain.inner.sequencer.lock().take().expect("it runs");
    drop(chain);
    wait_until("its thread ends", || thread.is_finished());
}

pub(super) fn in_folder(dir: &std::path::Path, block_time: BlockTime) -> Result<Chain, ChainError> {
    let genesis = Genesis::dev(CHAIN, &rich(1..=8), 500_000_000);
    Chain::open(ChainConfig { block_time, dir: Some(dir.to_owned()), ..ChainConfig::new(genesis) })
}

#[test]
fn a_folder_continues_where_it_ended() {
    let dir = tempfile::tempdir().expect("a folder");
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    let contract = Address::repeat_byte(0x32);
    let mut hashes = Vec::new();
    for nonce in 0..4 {
        hashes.extend(accepted(chain.submit((1..=3).map(|seed| transfer(seed, nonce)).collect())));
        chain.mine().expect("made");
    }
    chain.set_code(contract, Bytes::from_static(&[0x60, 0x01])).expect("set");
    chain.set_storage(contract, U256::from(5), U256::from(6)).expect("set");
    chain.set_balance(contract, U256::from(7)).expect("set");
    let undone = chain.snapshot();
    chain.mine().expect("made");
    assert!(chain.revert(undone).expect("it goes back"));
    let waiting = accepted(chain.submit(vec![transfer(1, 4), transfer(2, 4), transfer(3, 9)]));
    let (head, view) = chain.head_and_view();
    chain.stop();
    drop(chain);

    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    let (again, state) = chain.head_and_view();
    assert_eq!((&again, state.state_root()), (&head, view.state_root()));
    for hash in &hashes {
        let (block, index) = chain.tx(hash).expect("it is in a block");
        assert_eq!(block.txs[index].hash, *hash);
        assert_eq!(chain.block_by_hash(&block.hash), chain.block(block.number()));
    }
    assert_eq!(chain.block(0).expect("the genesis").hash, chain.block(1).expect("read").header.parent_hash);
    assert!(chain.block(head.number() + 1).is_none() && chain.tx(&waiting[0]).is_none());
    assert_eq!(state.storage(&contract, &U256::from(5)), U256::from(6));
    let status = chain.pool().status();
    assert_eq!((status.pending, status.queued), (2, 1));
    let block = chain.mine().expect("made");
    assert_eq!((block.number(), block.txs.len()), (head.number() + 1, 2));
}

#[test]
fn a_folder_of_another_chain_or_in_use_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    chain.mine().expect("made");
    let error = in_folder(dir.path(), BlockTime::Manual).err().expect("it is in use").to_string();
    assert!(error.contains("in use"), "{error}");
    drop(chain);
    let other = ChainConfig { dir: Some(dir.path().to_owned()), ..ChainConfig::new(Genesis::dev(5, &[], 1 << 30)) };
    let error = Chain::open(other).err().expect("it is another's").to_string();
    assert!(error.contains(&dir.path().display().to_string()), "{error}");
}

#[test]
fn the_times_of_blocks_are_reported_once() {
    let chain = chain(BlockTime::Manual);
    let hashes = accepted(chain.submit(vec![transfer(1, 0), transfer(2, 0)]));
    assert_eq!(hashes.len(), 2);
    chain.mine_many(3, None).expect("they are made");
    let (made, times) = chain.block_times(0);
    assert_eq!((made, times.iter().map(|(number, _)| *number).collect::<Vec<_>>()), (3, vec![1, 2, 3]));
    assert_eq!(chain.block_times(2).1, times[2..]);
    assert_eq!(chain.block_times(3), (3, vec![]));
    let metrics = chain.metrics();
    assert_eq!(metrics.last, times[2].1);
    assert!(metrics.recover_ns > 0 && metrics.pool_ns > 0);
}

#[test]
fn a_snapshot_is_gone_back_to_from_afar() {
    let dir = tempfile::tempdir().expect("a folder");
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    chain.mine_many(200, None).expect("they are made");
    let (id, before) = (chain.snapshot(), chain.head());
    let hashes = |chain: &Chain| (0..200).map(|number| chain.view().hash_of(number)).collect::<Vec<_>>();
    let expected = hashes(&chain);
    let hash = accepted(chain.submit(vec![transfer(1, 0)]))[0];
    chain.mine_many(crate::state::WINDOW as u64 + 40, None).expect("they are made");
    assert!(chain.revert(id).expect("it goes back"));
    assert_eq!((chain.head().hash, chain.view().state_root()), (before.hash, before.header.state_root));
    assert!(chain.tx(&hash).is_none() && hashes(&chain) == expected && expected.iter().all(Option::is_some));
    assert!(!chain.revert(id).expect("it is used up"));
    accepted(chain.submit(vec![transfer(2, 0)]));
    let head = chain.mine().expect("it goes on");
    drop(chain);
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    assert_eq!((chain.head().hash, chain.pool().status().pending), (head.hash, 0));
    assert_eq!(hashes(&chain), expected);
}

fn copy_all(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).expect("a folder").map(|entry| entry.expect("listed")) {
        let to = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            std::fs::create_dir(&to).expect("made");
            copy_all(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("copied");
        }
    }
}

#[test]
fn reverted_blocks_stay_reverted_after_a_kill() {
    let (dir, killed) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    let id = chain.snapshot();
    accepted(chain.submit(vec![transfer(1, 0)]));
    chain.mine().expect("it is made");
    let waits = accepted(chain.submit(vec![transfer(2, 0)]))[0];
    // As the end of the program would leave it at the moment at which the blocks are no more.
    let (from, to) = (dir.path().to_owned(), killed.path().to_owned());
    let events = chain.subscribe_with(move || copy_all(&from, &to));
    assert!(chain.revert(id).expect("it goes back"));
    assert!(matches!(events.try_next(), Some(ChainEvent::Reorg(..))));
    for dir in [killed.path(), dir.path()] {
        let again =
            if dir == killed.path() { in_folder(dir, BlockTime::Manual).expect("it opens") } else { chain.clone() };
        let status = again.pool().status();
        assert_eq!((again.head().number(), status.pending, status.queued), (0, 1, 0), "{status:?}");
        assert!(again.pool().get(&waits).is_some());
    }
}

#[test]
fn contracts_can_ask_for_the_same_hashes_after_going_far_back_and_a_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    chain.mine_many(300, None).expect("they are made");
    let id = chain.snapshot();
    chain.mine_many(20, None).expect("they are made");
    // The start's checkpoint is of a block that is removed afterwards.
    chain.inner.writer().expect("it goes on").checkpoint().expect("it is written");
    chain.mine_many(5, None).expect("they are made");
    assert!(chain.revert(id).expect("it goes back"));
    let hashes = |chain: &Chain| (0..=300).map(|number| chain.view().hash_of(number)).collect::<Vec<_>>();
    let expected = hashes(&chain);
    assert_eq!(expected.iter().flatten().count(), crate::state::HASHES);
    drop(chain);
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    assert_eq!((chain.head().number(), hashes(&chain) == expected), (300, true));
    chain.mine().expect("it goes on");
    assert_eq!(chain.view().hash_of(46), expected[46]);
}

#[test]
fn the_oldest_snapshots_go_where_they_keep_too_much() {
    let chain = chain(BlockTime::Manual);
    let (beginning, kept) = (chain.head_and_view(), chain.inner.dev.lock().snapshot_bytes_max);
    assert_eq!(kept, 256 << 20);
    let oldest = chain.snapshot();
    chain.mine_many(10_000, None).expect("they are made");
    // Days of empty blocks at one a second fit.
    let bytes = chain.view().bytes_since(&beginning.1);
    assert!(bytes < 10_000 * 2_048, "{bytes}");
    let later = chain.snapshot();
    chain.inner.dev.lock().snapshot_bytes_max = bytes + 4_096;
    chain.mine_many(100, None).expect("they are made");
    assert!(!chain.revert(oldest).expect("there is none"), "it would keep more than it may");
    let head = chain.head().number();
    assert!(chain.revert(later).expect("it goes back") && chain.head().number() == head - 100);
    // Reverted blocks count, too: they are in memory as well.
    let again = chain.snapshot();
    chain.inner.dev.lock().snapshot_bytes_max = 1;
    chain.mine().expect("it is made");
    assert!(!chain.revert(again).expect("there is none") && chain.head().number() == head - 99);
}

#[test]
fn a_snapshot_goes_with_its_block() {
    let dir = tempfile::tempdir().expect("a folder");
    let (dir, genesis) = (Some(dir.path().to_owned()), Genesis::dev(CHAIN, &rich(1..=8), 500_000_000));
    let config = ChainConfig { retain_blocks: 16, dir, block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
    let chain = Chain::open(config.clone()).expect("it opens");
    let beginning = chain.snapshot();
    chain.mine_many(2, None).expect("they are made");
    let before = chain.snapshot();
    chain.mine_many(60, None).expect("they are made");
    wait_until("the first blocks go", || chain.first_block() > 2 || chain.failure().is_some());
    let head = chain.head();
    assert!(!chain.revert(before).expect("its block is gone"));
    assert!(!chain.revert(beginning).expect("the first block is gone"));
    assert_eq!((chain.head().hash, chain.failure()), (head.hash, None));
    let kept = chain.snapshot();
    chain.mine_many(5, None).expect("they are made");
    assert!(chain.revert(kept).expect("it goes back"));
    let last = chain.mine().expect("it goes on");
    drop(chain);
    let chain = Chain::open(config).expect("it opens again");
    assert_eq!((chain.head().hash, last.number()), (last.hash, head.number() + 1));
}

#[test]
fn dropped_transactions_stay_dropped_after_a_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    let dropped = accepted(chain.submit(vec![transfer(1, 0)]))[0];
    assert!(chain.drop_transaction(&dropped));
    let id = chain.snapshot();
    let undone = accepted(chain.submit(vec![transfer(2, 0)]))[0];
    chain.mine().expect("it is made");
    assert!(chain.revert(id).expect("it goes back"));
    let waits = accepted(chain.submit(vec![transfer(3, 0)]))[0];
    // Transactions that are in a block at the next start, and one that the state no longer allows.
    let included = accepted(chain.submit(vec![transfer(4, 0), transfer(5, 0)]));
    drop(chain);
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    assert_eq!(chain.pool().status().pending, 3);
    assert!([dropped, undone].iter().all(|hash| chain.pool().get(hash).is_none()));
    // The journal as if its end had been cut off with the block.
    let log = std::fs::read(dir.path().join("pool.log")).expect("a file");
    chain.set_nonce(account(5), 9).expect("set");
    chain.drop_transaction(&waits);
    chain.mine().expect("it is made");
    drop(chain);
    std::fs::write(dir.path().join("pool.log"), log).expect("written");
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    assert!(chain.pool().get(&waits).is_some() && chain.pool().fate(&included[0]).is_none());
    let fate = chain.pool().fate(&included[1]).expect("it is known").to_string();
    assert_eq!(fate, "nonce too low: next nonce 9, tx nonce 0");
}

#[test]
fn unstorable_transaction_is_not_acknowledged() {
    let dir = tempfile::tempdir().expect("a folder");
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    accepted(chain.submit(vec![transfer(1, 0)]));
    let file = std::fs::File::options().write(true).open(dir.path().join("pool.log")).expect("a file");
    let disk = Arc::new(hearth_wal::faulty::Faulty::new(file));
    disk.faults().leave(60);
    chain.inner.journal.as_ref().expect("a folder").put_disk(disk.clone());
    let refused = chain.submit(vec![transfer(2, 0), transfer(2, 1)]);
    assert!(refused.iter().all(|result| matches!(result, Err(SubmitError::NotKept(_)))), "{refused:?}");
    assert_eq!(chain.pool().status().pending, 1);
    disk.faults().leave(1 << 20);
    accepted(chain.submit(vec![transfer(2, 0)]));
    drop(chain);
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    assert_eq!(chain.pool().status().pending, 2);
}

#[test]
fn code_that_is_half_a_delegation_is_code() {
    let dir = tempfile::tempdir().expect("a folder");
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    let code = Bytes::from_static(&[0xef, 0x01, 0x00, 0x07]);
    chain.set_code(Address::repeat_byte(0x77), code.clone()).expect("set");
    let mut call = unsigned(0, 100 * GWEI);
    if let TypedTransaction::Eip1559(call) = &mut call {
        call.gas_limit = 100_000;
    }
    accepted(chain.submit(vec![Tx::signed(call, &signer(1)).raw]));
    assert!(!chain.mine().expect("made").receipts[0].status, "its first byte is no instruction");
    drop(chain);
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    let hash = chain.view().account(&Address::repeat_byte(0x77)).expect("it is there").code_hash;
    assert_eq!(chain.view().code(&hash), Some(code));
    let genesis = r#"{"config": {"chainId": 7, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
        "byzantiumBlock": 0, "constantinopleBlock": 0, "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 0,
        "terminalTotalDifficulty": 0}, "alloc": {"0x77": {"balance": "0x0", "code": "0xef0100"}}}"#;
    let genesis = genesis.replace("0x77", &Address::repeat_byte(0x77).to_string());
    Chain::open(ChainConfig::new(Genesis::from_json(&genesis).expect("it reads"))).expect("it opens");
}

#[test]
fn absurd_block_time_is_refused() {
    let chain = chain(BlockTime::Manual);
    for wrong in [Duration::ZERO, Duration::from_secs(u64::MAX), Duration::MAX] {
        assert!(matches!(chain.set_block_time(BlockTime::Every(wrong)), Err(ChainError::Interval)), "{wrong:?}");
        let config = ChainConfig { block_time: BlockTime::Every(wrong), ..ChainConfig::new(chain.genesis().clone()) };
        assert!(matches!(Chain::open(config), Err(ChainError::Interval)));
    }
    chain.set_block_time(BlockTime::Every(Duration::from_secs(86_400 * 365))).expect("somebody may");
    assert_eq!((chain.block_time(), chain.failure()), (BlockTime::Every(Duration::from_secs(86_400 * 365)), None));
}

#[test]
fn forks_that_have_begun_cannot_be_changed() {
    let dir = tempfile::tempdir().expect("a folder");
    let json = |forks: &str| {
        let text = format!(
            r#"{{"config": {{"chainId": 7, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
            "byzantiumBlock": 0, "constantinopleBlock": 0, "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 0,
            "terminalTotalDifficulty": 0, "shanghaiTime": 0{forks}}}, "alloc": {{}}}}"#
        );
        Genesis::from_json(&text).expect("it reads")
    };
    let open = |forks: &str| {
        let dir = Some(dir.path().to_owned());
        Chain::open(ChainConfig { dir, block_time: BlockTime::Manual, ..ChainConfig::new(json(forks)) })
    };
    let (soon, late) = (now_s() + 1_000, now_s() + 100_000);
    let cancun = |at: u64| format!(", \"cancunTime\": {at}");
    open(&cancun(soon)).expect("new").mine().expect("made");
    // A fork that has not begun can be changed: later, never, and earlier than it was.
    open(&cancun(late)).expect("it has not begun");
    open("").expect("it has not begun");
    let chain = open(&cancun(soon)).expect("it has not begun");
    chain.set_next_timestamp(soon + 5).expect("it is later");
    chain.mine().expect("made");
    drop(chain);
    for changed in [cancun(late), cancun(soon + 1), String::new(), cancun(soon) + ", \"pragueTime\": 5000000000"] {
        let opened = open(&changed);
        if changed.contains("prague") {
            opened.expect("another after it may come");
            continue;
        }
        let error = opened.err().expect("it has begun").to_string();
        assert!(error.contains("block 2") && error.contains("Cancun") && error.contains("forks"), "{error}");
    }
    open(&cancun(soon)).expect("nothing was changed");
}

#[test]
fn bounds_on_blobs_that_have_begun_cannot_be_changed() {
    let dir = tempfile::tempdir().expect("a folder");
    let open = |osaka: u64, later: Option<(u64, u64)>| {
        let mut genesis = chain(BlockTime::Manual).genesis().clone();
        genesis.blobs.set("osaka", 1, osaka, 5_007_716).expect("a fork");
        if let Some((time, max)) = later {
            genesis.blobs.set(&time.to_string(), 1, max, 5_007_716).expect("a time");
        }
        let dir = Some(dir.path().to_owned());
        Chain::open(ChainConfig { dir, block_time: BlockTime::Manual, ..ChainConfig::new(genesis) })
    };
    let soon = now_s() + 1_000;
    open(9, None).expect("new").mine().expect("made");
    let error = open(8, None).err().expect("it has begun").to_string();
    assert!(error.contains("block 1") && error.contains("1 9 5007716") && error.contains("forks"), "{error}");
    // A fork that has not begun can be changed.
    open(9, Some((soon, 12))).expect("it has not begun");
    let chain = open(9, Some((soon, 15))).expect("it has not begun");
    chain.set_next_timestamp(soon + 5).expect("it is later");
    chain.mine().expect("made");
    drop(chain);
    for changed in [None, Some((soon, 16)), Some((soon + 1, 15))] {
        assert!(open(9, changed).is_err(), "{changed:?}");
    }
    open(9, Some((soon, 15))).expect("nothing was changed");
}

#[test]
fn a_genesis_from_before_the_merge_is_refused() {
    let genesis = Genesis {
        forks: crate::genesis::Forks::all_until(SpecId::LONDON),
        ..chain(BlockTime::Manual).genesis().clone()
    };
    let error = Chain::open(ChainConfig::new(genesis)).err().expect("it is refused").to_string();
    assert!(error.contains("before the merge"), "{error}");
}

#[test]
fn subscriber_gets_later_events() {
    let chain = chain(BlockTime::Manual);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut nonce = 0;
            while !done.load(Ordering::Relaxed) {
                accepted(chain.submit((1..=8).map(|seed| transfer(seed, nonce)).collect()));
                chain.mine().expect("it is made");
                nonce += 1;
            }
        });
        let mut kept = vec![chain.pool().subscribe()];
        let mut rounds = 0;
        while rounds < 300 {
            let (head, events) = (chain.head().number(), chain.subscribe());
            let waiting: Vec<B256> =
                chain.pool().content().iter().flat_map(|of| of.pending.iter().map(|tx| tx.hash)).collect();
            let (announced, mut feed) = (chain.pool().announced(), chain.pool().subscribe());
            let Some((number, ChainEvent::Block(block))) = events.next_numbered_within(PATIENCE) else {
                panic!("blocks come");
            };
            assert!(block.number() > head, "block {} is notified to a subscriber that has seen {head}", block.number());
            assert!(number >= block.number(), "block {} was event {number}", block.number());
            let news = feed.take();
            assert!(news.before >= announced, "{} and {announced}", news.before);
            let seen = news.hashes.iter().find(|hash| waiting.contains(hash));
            assert!(seen.is_none(), "{seen:?} was in the pool before");
            kept[0].take();
            rounds += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn next_block_settings_apply_to_a_later_start() {
    let chain = chain(BlockTime::Every(Duration::from_millis(1)));
    let events = chain.subscribe();
    let mut head = 0;
    for round in 0..100 {
        // Work, so that a block is being made most of the time.
        let many = (1..=8).flat_map(|seed| (0..8).map(move |more| transfer(seed, 8 * round + more)));
        accepted(chain.submit(many.collect()));
        let base_fee = 2_000_000_000 + round;
        chain.set_next_base_fee(base_fee);
        let shown = chain.head().number();
        let found = loop {
            match events.next_within(PATIENCE).expect("blocks come") {
                ChainEvent::Block(block) if block.number() > head => {
                    head = block.number();
                    if block.base_fee() == base_fee {
                        break head;
                    }
                    assert!(head <= shown + 1, "block {head} does not have what was set at {shown}");
                }
                other => panic!("{other:?}"),
            }
        };
        assert!(found <= shown + 1, "it is block {found}, set at {shown}");
    }
    // Once the clock is off nothing comes that was begun before.
    for round in 0..20 {
        chain.set_block_time(BlockTime::Every(Duration::from_millis(1))).expect("it is set");
        events.next_within(PATIENCE).expect("blocks come");
        chain.set_block_time(BlockTime::Manual).expect("it is set");
        let base_fee = 3_000_000_000 + round;
        chain.set_next_base_fee(base_fee);
        assert_eq!(chain.mine().expect("it is made").base_fee(), base_fee);
    }
}

/// A transaction that deploys `1 SSTORE(0)` and a byte of code, `fee` wei a unit.
fn deploying(seed: u8, nonce: u64) -> Bytes {
    let tx = TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: 200_000,
        max_fee_per_gas: 100 * GWEI,
        max_priority_fee_per_gas: 1,
        to: TxKind::Create,
        // PUSH1 1 PUSH0 SSTORE; PUSH1 1 PUSH0 RETURN: a byte of zeros is the code.
        input: alloy_primitives::hex!("60015f5560015ff3").into(),
        ..Default::default()
    };
    Tx::signed(tx.into(), &signer(seed)).raw
}

#[test]
fn pending_block_is_the_one_made() {
    let chain = chain(BlockTime::Manual);
    chain.set_next_timestamp(4_000_000_000).expect("it is to come");
    accepted(chain.submit(vec![transfer(1, 0), transfer(2, 0), deploying(3, 0)]));
    let pending = chain.pending().expect("it is executed");
    let state = StateAt::Pending(pending.clone());
    let contract = account(3).create(0);
    let code_hash = state.account(&contract).expect("it is deployed").code_hash;
    assert_eq!(state.code(&code_hash), Some(Bytes::from_static(&[0])));
    assert_eq!(state.storage(&contract, &U256::ZERO), U256::from(1));
    assert_eq!(state.account(&account(1)).map(|account| account.nonce), Some(1));
    assert_eq!(chain.view().account(&contract), None);
    let block = chain.pending_block().expect("it is sealed");
    let made = chain.mine().expect("it is made");
    assert_eq!(made, block);
    assert_eq!(chain.view().state_root(), block.header.state_root);
}

#[test]
fn pending_block_is_executed_once() {
    let chain = chain(BlockTime::Manual);
    chain.set_next_timestamp(4_000_000_000).expect("it is to come");
    accepted(chain.submit(vec![transfer(1, 0)]));
    let first = chain.pending().expect("it is executed");
    assert!(Arc::ptr_eq(&first, &chain.pending().expect("it is there")));
    accepted(chain.submit(vec![transfer(2, 0)]));
    let second = chain.pending().expect("it is executed");
    assert_eq!((first.txs().len(), second.txs().len()), (1, 2));
    let head = chain.mine().expect("it is made");
    assert!(chain.inner.pending.lock().is_none(), "it would keep what blocks replace");
    let third = chain.pending().expect("it is executed");
    assert_eq!(third.env().parent_hash, Some(head.hash));
    assert!(third.txs().is_empty());
}

#[test]
fn pending_block_leaves_out_what_is_refused() {
    let chain = chain(BlockTime::Manual);
    // Each alone can be paid, both together cannot.
    let half = |nonce| {
        let value = U256::from(6 * 10u128.pow(21));
        let tx = TxEip1559 {
            chain_id: CHAIN,
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: 100 * GWEI,
            to: TxKind::Call(Address::repeat_byte(0x77)),
            value,
            ..Default::default()
        };
        Tx::signed(tx.into(), &signer(1)).raw
    };
    accepted(chain.submit(vec![half(0)]));
    let both = chain.submit(vec![half(1)]).remove(0).is_ok();
    let txs = chain.pending_block().expect("it is sealed").txs.len();
    assert_eq!(txs, 1, "taken: {both}");
}
