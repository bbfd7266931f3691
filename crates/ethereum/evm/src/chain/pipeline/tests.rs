//! Compares blocks executed ahead with blocks executed one after the other, and what readers see meanwhile.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use alloy_consensus::{SignableTransaction, Transaction, TxLegacy};
use alloy_eips::eip2935::HISTORY_STORAGE_ADDRESS;
use alloy_primitives::map::B256Set;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use hearth_testkit::{PATIENCE, wait_until};
use hearth_wal::Disk;
use hearth_wal::faulty::Faulty;
use proptest::prelude::*;

use super::*;
use crate::block::next_base_fee;
use crate::chain::{BlockTime, Chain, ChainConfig};
use crate::genesis::Genesis;
use crate::pool::PoolConfig;
use crate::tx::{SharedTx, Tx};

const CHAIN: u64 = 31337;
const SENDERS: u8 = 8;
/// So little that the pool has several blocks.
const GAS_LIMIT: u64 = 6_000_000;
/// The fee recipient, whose balance contracts read.
const BENEFICIARY: Address = Address::repeat_byte(0xbe);

fn account(number: u8) -> Address {
    Address::repeat_byte(number)
}

/// Returns code that runs `steps`, each of which leaves one word, and stores the words under the block's number.
fn recorder(steps: &[&[u8]]) -> Vec<u8> {
    let mut code = Vec::new();
    for (place, step) in (0u8..).zip(steps) {
        code.extend_from_slice(step);
        // number << 3 + place, SSTORE
        code.extend([0x43, 0x60, 3, 0x1b, 0x60, place, 0x01, 0x55]);
    }
    code
}

/// BASEFEE, PREVRANDAO, the beneficiary's balance, TIMESTAMP, the hash of the block before the parent.
fn environment() -> Vec<u8> {
    recorder(&[&[0x48], &[0x44], &[0x41, 0x31], &[0x42], &[0x60, 2, 0x43, 0x03, 0x40]])
}

/// The parent's hash by BLOCKHASH, and by the history contract.
fn hashes() -> Vec<u8> {
    let parent = [0x60, 1, 0x43, 0x03];
    // MSTORE at 0, STATICCALL of 32 bytes for 32 bytes, POP, MLOAD
    let call = [&parent[..], &[0x5f, 0x52, 0x60, 32, 0x5f, 0x60, 32, 0x5f, 0x73], HISTORY_STORAGE_ADDRESS.as_slice()];
    let call = [&call.concat()[..], &[0x5a, 0xfa, 0x50, 0x5f, 0x51]].concat();
    recorder(&[&[&parent[..], &[0x40]].concat(), &call])
}

const ENVIRONMENT: Address = Address::repeat_byte(0xe0);
const HASHES: Address = Address::repeat_byte(0xe1);

fn genesis() -> Genesis {
    let accounts: Vec<_> = (1..=SENDERS).map(|number| (account(number), U256::from(10u128.pow(22)))).collect();
    let mut genesis = Genesis::dev(CHAIN, &accounts, GAS_LIMIT);
    for (address, code) in [(ENVIRONMENT, environment()), (HASHES, hashes())] {
        let account = genesis.alloc.entry(address).or_default();
        (account.nonce, account.code) = (Some(1), Some(code.into()));
    }
    genesis
}

fn config(threads: usize) -> ChainConfig {
    let pool = PoolConfig { per_sender: 1 << 20, ..PoolConfig::default() };
    ChainConfig {
        block_time: BlockTime::Manual,
        beneficiary: BENEFICIARY,
        threads,
        pool,
        overlap: true,
        ..ChainConfig::new(genesis())
    }
}

fn tx(from: u8, nonce: u64, to: TxKind, input: Vec<u8>, gas_limit: u64) -> SharedTx {
    // More than the base fee comes to after some dozen full blocks.
    let gas_price = 10u128.pow(13) + u128::from(from);
    let value = U256::from(u64::from(input.is_empty()));
    let tx = TxLegacy { chain_id: Some(CHAIN), nonce, gas_price, gas_limit, to, value, input: input.into() };
    let sender = account(from);
    Arc::new(Tx::with_sender(tx.into_signed(Tx::impersonated_signature(&sender)).into(), sender))
}

fn transfer(from: u8, nonce: u64) -> SharedTx {
    tx(from, nonce, TxKind::Call(Address::repeat_byte(0x77)), Vec::new(), 21_000)
}

/// The action of one transaction.
#[derive(Clone, Copy, Debug)]
enum Act {
    Transfer(u8),
    ToBeneficiary,
    Environment,
    Hashes,
    /// A contract that does what [`ENVIRONMENT`] does,
    Create,
    /// and a call of the one that an account made with one of its nonces.
    Call(u8, u8),
}

impl Act {
    fn tx(self, from: u8, nonce: u64) -> SharedTx {
        let call = |to: Address| tx(from, nonce, TxKind::Call(to), vec![0], 200_000);
        match self {
            Self::Transfer(to) => tx(from, nonce, TxKind::Call(Address::repeat_byte(to)), Vec::new(), 21_000),
            Self::ToBeneficiary => tx(from, nonce, TxKind::Call(BENEFICIARY), Vec::new(), 21_000),
            Self::Environment => call(ENVIRONMENT),
            Self::Hashes => call(HASHES),
            Self::Create => {
                let code = environment();
                // CODECOPY of what follows, RETURN
                let init = [0x60, code.len() as u8, 0x60, 12, 0x5f, 0x39, 0x60, code.len() as u8, 0x5f, 0xf3, 0, 0];
                tx(from, nonce, TxKind::Create, [&init[..], &code].concat(), 200_000)
            }
            Self::Call(by, with) => call(account(by).create(u64::from(with))),
        }
    }
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        30 => (1u8..40).prop_map(Act::Transfer),
        2 => Just(Act::ToBeneficiary),
        4 => Just(Act::Environment),
        2 => Just(Act::Hashes),
        1 => Just(Act::Create),
        2 => (1..=SENDERS, 0u8..40).prop_map(|(by, with)| Act::Call(by, with)),
    ]
}

/// Starts block production. It does not wait for a block that is begun: no block is executed ahead of one that a thread
/// waits for.
fn begin(chain: &Chain, block_time: BlockTime) {
    chain.inner.signal.set_block_time(block_time);
}

/// Submits transactions, makes blocks of them, and waits until all are in blocks.
fn make_all(chain: &Chain, txs: Vec<SharedTx>, block_time: BlockTime) -> Vec<B256> {
    let hashes: Vec<B256> = chain.submit_recovered(txs).into_iter().flatten().collect();
    begin(chain, block_time);
    assert!(chain.settled(&hashes, PATIENCE), "{:?}", chain.failure());
    hashes
}

/// Executes all blocks again, one after the other, on a state of its own.
fn check_by_itself(chain: &Chain) {
    let mut state = State::open(None, chain.genesis()).expect("in memory");
    let mut parent = chain.block(0).expect("the genesis");
    for number in 1..=chain.head().number() {
        let block = chain.block(number).expect("it is there");
        let (header, env) = (&block.header, chain.env_of(&block));
        assert_eq!(header.parent_hash, parent.hash);
        let base_fee = next_base_fee(parent.header.gas_used, parent.header.gas_limit, parent.base_fee());
        assert_eq!((block.base_fee(), header.mix_hash), (base_fee, Parent::from(&*parent).draw()));
        let mut executed = crate::exec::execute(&state.head(), &env, &block.txs);
        let root = state.root_after(&executed.changes);
        let again = crate::block::seal(&env, &block.txs, &mut executed, root, Bytes::new());
        assert_eq!(*again, *block, "block {number}");
        state.commit(number, block.hash, executed.changes).expect("it follows");
        parent = block;
    }
}

/// Returns what a contract has stored under a block's number.
fn stored(chain: &Chain, contract: &Address, block: u64, place: u64) -> U256 {
    chain.view().storage(contract, &(U256::from(block << 3) + U256::from(place)))
}

#[test]
fn blocks_executed_ahead_are_those_executed_one_after_the_other() {
    let ahead = AtomicU64::new(0);
    let all = (prop::collection::vec((1..=SENDERS, act()), 300..700), 1usize..3, any::<bool>());
    proptest!(ProptestConfig { cases: 12, ..ProptestConfig::default() }, |((acts, threads, clock) in all)| {
        let mut nonces = [0; SENDERS as usize + 1];
        let mut txs = Vec::new();
        for (from, act) in acts {
            let nonce = &mut nonces[usize::from(from)];
            txs.push(act.tx(from, *nonce));
            *nonce += 1;
        }
        let chain = Chain::open(config(threads)).expect("it opens");
        // By the clock each block comes while the one before is being sealed.
        let block_time = if clock { BlockTime::Every(Duration::from_micros(1)) } else { BlockTime::Instant };
        let hashes = make_all(&chain, txs, block_time);
        chain.stop();
        check_by_itself(&chain);
        ahead.fetch_add(chain.metrics().ahead, Ordering::Relaxed);
        for hash in hashes {
            let included = chain.tx(&hash).is_some();
            prop_assert!(included || chain.pool().fate(&hash).is_some(), "{} is lost", hash);
            prop_assert!(!included || chain.pool().get(&hash).is_none());
        }
        for number in 2..=chain.head().number() {
            let parent = U256::from_be_bytes(chain.block(number - 1).expect("there").hash.0);
            let both = [0, 1].map(|place| stored(&chain, &HASHES, number, place));
            prop_assert!(both == [U256::ZERO; 2] || both == [parent; 2], "{:?} is not {}", both, parent);
        }
    });
    assert!(ahead.into_inner() > 0, "none was executed ahead");
}

#[test]
fn readers_see_one_moment_while_blocks_are_executed_ahead() {
    let chain = Chain::open(config(2)).expect("it opens");
    let done = AtomicBool::new(false);
    let each = 500;
    let txs: Vec<SharedTx> = (0..each).flat_map(|nonce| (1..=SENDERS).map(move |from| transfer(from, nonce))).collect();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read_until(&chain, &done))).collect();
        let (first, later) = txs.split_at(txs.len() / 2);
        let mut hashes: Vec<B256> = chain.submit_recovered(first.to_vec()).into_iter().flatten().collect();
        begin(&chain, BlockTime::Instant);
        for burst in later.chunks(97) {
            hashes.extend(chain.submit_recovered(burst.to_vec()).into_iter().flatten());
        }
        assert_eq!(hashes.len(), txs.len(), "all are acknowledged");
        let settled = chain.settled(&hashes, PATIENCE);
        done.store(true, Ordering::Relaxed);
        assert!(settled && hashes.iter().all(|hash| chain.tx(hash).is_some()), "what is acknowledged is included");
        assert!(readers.into_iter().all(|reader| reader.join().expect("all agrees") > 0));
    });
    assert!(chain.metrics().ahead > 0);
    chain.stop();
    check_by_itself(&chain);
}

/// Checks again and again whether block number, block, receipts, nonces and the pool agree; returns how often.
fn read_until(chain: &Chain, done: &AtomicBool) -> u64 {
    let (mut looks, mut height) = (0, 0);
    let mut nonces = [0; SENDERS as usize + 1];
    loop {
        let (head, view) = chain.head_and_view();
        assert_eq!((head.header.state_root, head.number()), (view.state_root(), view.number()));
        assert!(head.number() >= height, "it does not go back");
        height = head.number();
        assert_eq!(chain.block(height).expect("a published number can be read").hash, head.hash);
        assert_eq!(head.txs.len(), head.receipts.len());
        assert!(chain.block(chain.head().number() + 1).is_none_or(|next| next.number() <= chain.head().number()));
        for tx in head.txs.iter().take(20) {
            let (block, index) = chain.tx(&tx.hash).expect("it is in a block");
            assert_eq!((block.hash, block.txs[index].hash), (head.hash, tx.hash));
            let nonce = view.account(&tx.sender).map_or(0, |account| account.nonce);
            assert!(nonce > tx.envelope.nonce());
        }
        for from in 1..=SENDERS {
            let nonce = chain.view().account(&account(from)).map_or(0, |account| account.nonce);
            let next = chain.pool().next_nonce(&account(from), nonce);
            let last = &mut nonces[usize::from(from)];
            assert!(next >= nonce && next >= *last, "the next nonce does not go back");
            *last = next;
        }
        looks += 1;
        if done.load(Ordering::Relaxed) {
            return looks;
        }
    }
}

#[test]
fn manual_change_waits_for_the_block_in_progress() {
    let chain = Chain::open(config(2)).expect("it opens");
    let (txs, more): (Vec<SharedTx>, Vec<SharedTx>) = (0..2_000u64)
        .flat_map(|nonce| (1..=4).map(move |from| transfer(from, nonce)))
        .partition(|tx| tx.envelope.nonce() < 1_000);
    let hashes: Vec<B256> = chain.submit_recovered(txs).into_iter().flatten().collect();
    chain.set_block_time(BlockTime::Instant).expect("it is");
    let rich = Address::repeat_byte(0x99);
    for round in 1..=10u64 {
        chain.set_balance(rich, U256::from(round)).expect("set");
        let (head, view) = chain.head_and_view();
        assert_eq!(head.header.state_root, view.state_root());
        assert_eq!(view.account(&rich).map(|account| account.balance), Some(U256::from(round)));
        let mined = chain.mine().expect("made");
        assert_eq!(chain.block(mined.number()).expect("it is there").hash, mined.hash);
    }
    assert!(chain.settled(&hashes, PATIENCE));
    let id = chain.snapshot();
    let before = chain.head();
    // All of them wait before the first block is begun: it is followed by others.
    chain.set_block_time(BlockTime::Manual).expect("it is");
    let gone: Vec<B256> = chain.submit_recovered(more).into_iter().flatten().collect();
    begin(&chain, BlockTime::Instant);
    wait_until("three blocks", || chain.head().number() >= before.number() + 3 || chain.failure().is_some());
    assert_eq!(chain.failure(), None);
    assert!(chain.revert(id).expect("it goes back"));
    chain.stop();
    let mut child = chain.head();
    while child.number() > 0 {
        let parent = chain.block(child.number() - 1).expect("it is there");
        assert_eq!(child.header.parent_hash, parent.hash);
        child = parent;
    }
    assert_eq!(chain.block(before.number()).expect("it is there").hash, before.hash);
    assert!(hashes.iter().all(|hash| chain.tx(hash).is_some()));
    assert!(gone.iter().all(|hash| chain.tx(hash).is_none_or(|(block, _)| block.number() > before.number())));
    assert!(chain.metrics().ahead > 0);
}

#[test]
fn a_block_that_the_disk_has_no_room_for_takes_the_next_with_it_and_no_transaction() {
    let dir = tempfile::tempdir().expect("a folder");
    let open = || Chain::open(ChainConfig { dir: Some(dir.path().to_owned()), ..config(1) }).expect("it opens");
    let chain = open();
    chain.mine().expect("made");
    let file = File::options().write(true).open(dir.path().join(format!("blocks/{:020}.blocks", 1))).expect("there");
    let disk = Arc::new(Faulty::new(file));
    disk.faults().leave(200_000);
    chain.inner.store.as_ref().expect("in a folder").put_disk(disk);
    let txs: Vec<SharedTx> = (0..700u64).flat_map(|nonce| (1..=4).map(move |from| transfer(from, nonce))).collect();
    let hashes: Vec<B256> = chain.submit_recovered(txs).into_iter().flatten().collect();
    begin(&chain, BlockTime::Instant);
    wait_until("the disk is full", || chain.failure().is_some());
    assert!(chain.failure().is_some_and(|why| why.contains("cannot write")), "{:?}", chain.failure());
    assert!(chain.metrics().ahead > 0);
    let waiting = |chain: &Chain| {
        let blocks = (1..=chain.head().number()).map(|number| chain.block(number).expect("it is there"));
        let included: B256Set =
            blocks.flat_map(|block| block.txs.iter().map(|tx| tx.hash).collect::<Vec<_>>()).collect();
        let waiting: Vec<_> = hashes.iter().filter(|hash| !included.contains(*hash)).collect();
        assert!(waiting.iter().all(|hash| chain.pool().get(hash).is_some()), "none is lost");
        waiting.len()
    };
    let (head, left) = (chain.head(), waiting(&chain));
    assert_eq!((chain.pool().status().pending, left > 0), (left, true));
    check_by_itself(&chain);
    chain.stop();
    drop(chain);
    let chain = open();
    assert_eq!((chain.head().hash, waiting(&chain), chain.pool().status().pending), (head.hash, left, left));
    chain.set_block_time(BlockTime::Instant).expect("it is");
    assert!(chain.settled(&hashes, PATIENCE));
    chain.stop();
    assert_eq!(waiting(&chain), 0);
}

/// A disk on which the next write panics.
struct Panics(File, AtomicBool);

impl Disk for Panics {
    fn write(&self, parts: &[std::io::IoSlice<'_>], at: u64) -> std::io::Result<usize> {
        assert!(!self.1.swap(false, Ordering::Relaxed), "this panic is wanted");
        Disk::write(&self.0, parts, at)
    }

    fn cut(&self, length: u64) -> std::io::Result<()> {
        Disk::cut(&self.0, length)
    }

    fn sync(&self) -> std::io::Result<()> {
        Disk::sync(&self.0)
    }
}

#[test]
fn panic_while_sealing_wakes_all_waiters() {
    let dir = tempfile::tempdir().expect("a folder");
    let chain = Chain::open(ChainConfig { dir: Some(dir.path().to_owned()), ..config(1) }).expect("it opens");
    chain.mine().expect("made");
    let file = File::options().write(true).open(dir.path().join(format!("blocks/{:020}.blocks", 1))).expect("there");
    let disk = Arc::new(Panics(file, AtomicBool::new(true)));
    chain.inner.store.as_ref().expect("in a folder").put_disk(disk);
    // One block's worth, so that nothing else wakes the thread that waits for its end.
    let txs: Vec<SharedTx> = (0..20u64).flat_map(|nonce| (1..=4).map(move |from| transfer(from, nonce))).collect();
    assert!(chain.submit_recovered(txs).iter().all(Result::is_ok));
    chain.set_block_time(BlockTime::Instant).expect("it is");
    let other = chain.clone();
    let mine = std::thread::spawn(move || {
        wait_until("the panic", || other.failure().is_some());
        other.mine().is_err()
    });
    wait_until("the end of a wait for a block", || mine.is_finished());
    assert!(mine.join().expect("it is notified"), "nothing is made any more");
    chain.stop();
}

#[test]
fn a_history_contract_of_another_kind_is_waited_for() {
    let chain = Chain::open(config(1)).expect("it opens");
    let code = chain.view().code(&chain.view().account(&HISTORY_STORAGE_ADDRESS).expect("it is there").code_hash);
    // One more instruction at its end, never reached.
    let code: Bytes = [&code.expect("it is known")[..], &[0]].concat().into();
    chain.set_code(HISTORY_STORAGE_ADDRESS, code).expect("set");
    let txs = (0..200u64).flat_map(|nonce| (1..=4).map(move |from| transfer(from, nonce))).collect();
    make_all(&chain, txs, BlockTime::Instant);
    chain.stop();
    assert_eq!((chain.metrics().ahead, chain.head().number() > 2), (0, true));
}
