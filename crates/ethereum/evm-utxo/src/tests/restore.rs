//! Chains that start from another chain's state, and chains that keep only the last blocks.

use std::fs;

use alloy_consensus::Header;
use hearth_evm::block::Block;
use hearth_evm::blocks;
use hearth_evm::chain::{ChainSnapshot, RestoreError};
use hearth_evm::state::Entry;

use super::*;

fn keeper() -> OwnerKey {
    OwnerKey(SigningKey::from_seed(&[5; 32]).public_key())
}

fn config(dir: Option<&Path>, retain_blocks: u64) -> ChainConfig {
    let accounts: Vec<_> = (1..=3).map(|n| (account(n), U256::from(10u128.pow(22)))).collect();
    let (dir, genesis) = (dir.map(Path::to_path_buf), genesis::dev(CHAIN, &accounts, 500_000_000));
    ChainConfig { dir, retain_blocks, block_time: BlockTime::Manual, ..ChainConfig::new(genesis) }
}

fn retaining(dir: Option<&Path>, retain_blocks: u64) -> Chain {
    Chain::open(config(dir, retain_blocks)).unwrap()
}

/// A contract that stores the hash of the block 200 before, its own number and its caller.
fn deploy(chain: &Chain) -> Bytes {
    // NUMBER 200 SWAP1 SUB BLOCKHASH NUMBER SSTORE, as the constructor.
    let input = Bytes::from_static(&[0x60, 200, 0x43, 0x03, 0x40, 0x43, 0x55, 0x00]);
    let transaction = TxEip1559 {
        chain_id: CHAIN,
        nonce: nonce(chain, 1),
        gas_limit: 100_000,
        max_fee_per_gas: PRICE,
        to: TxKind::Create,
        input,
        ..Default::default()
    };
    Tx::signed(transaction.into(), &signer(1)).raw
}

fn pay_itself(chain: &Chain) -> Option<Bytes> {
    let key = SigningKey::from_seed(&[5; 32]);
    let available = chain.outputs().outputs_of(&keeper(), None, 4);
    let outputs = vec![Output { asset: AssetId::NATIVE, amount: 7, owner: keeper(), memo: Bytes::from_static(b"m") }];
    Builder { chain_id: CHAIN, key: &key, available: &available, outputs, action: Action::Transfer }
        .build()
        .ok()
        .map(Bytes::from)
}

/// Makes a block of both ledgers; returns its input, for use on another chain.
fn make(chain: &Chain) -> BlockInput {
    let there = call(CHAIN, nonce(chain, 2), PRICE, &keeper(), 1_000_000, &signer(2)).raw;
    let raws: Vec<Bytes> = [Some(deploy(chain)), Some(there), pay_itself(chain)].into_iter().flatten().collect();
    assert!(chain.submit(raws).iter().all(Result::is_ok));
    let head = chain.head();
    let (number, timestamp) = (head.number() + 1, 1_700_000_000 + head.number());
    let (txs, side) = (chain.propose(usize::MAX), chain.propose_side(usize::MAX));
    let input = BlockInput { number, timestamp, txs, side, ..Default::default() };
    follow(chain, &input);
    input
}

fn follow(chain: &Chain, input: &BlockInput) -> Arc<Block> {
    let ready = chain.execute_block(input.clone()).unwrap();
    assert!(ready.refused.is_empty() && ready.side_refused().is_empty());
    chain.commit(ready).unwrap()
}

/// A chain's snapshot in its wire form.
struct WireSnapshot {
    headers: Vec<Header>,
    block: Vec<u8>,
    items: Vec<Bytes>,
    entries: Vec<Entry>,
}

fn take(chain: &Chain) -> WireSnapshot {
    let ChainSnapshot { block, headers, view, side } = chain.freeze().unwrap().unwrap();
    let items = side.unwrap().collect::<Result<_, _>>().unwrap();
    let mut entries: Vec<Entry> = view.sorted().collect();
    let codes = entries.iter().filter_map(|entry| match entry {
        Entry::Account { account, .. } => Some(account.code_hash),
        _ => None,
    });
    let codes: Vec<Entry> = codes.filter_map(|hash| Some(Entry::Code { hash, code: view.code(&hash)? })).collect();
    entries.splice(0..0, codes);
    WireSnapshot { headers, block: blocks::encode(&block), items, entries }
}

impl WireSnapshot {
    fn give(&self, chain: &Chain) -> Result<(), RestoreError> {
        let block = blocks::decode_foreign(&self.block, &self.headers[0], CHAIN);
        let block = block.map_err(|what| RestoreError::Wrong(what.into()))?;
        let mut set = chain.side().unwrap().set();
        assert!(self.items.iter().all(|item| set.add(item)));
        chain.restore(&self.headers, block, Some(set), self.entries.iter().cloned().map(Ok))
    }
}

fn same(one: &Chain, other: &Chain) {
    let (head, view) = other.head_and_view();
    assert_eq!(one.head().hash, head.hash);
    assert_eq!(one.outputs().commitment(), other.outputs().commitment());
    assert_eq!(view.number(), head.number());
    assert!(view.sorted().eq(one.view().sorted()));
}

#[test]
fn a_chain_continues_from_anothers_state() {
    let (folder, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let one = retaining(Some(folder.path()), 0);
    let other = retaining(Some(target.path()), 0);
    let in_memory = retaining(None, 0);
    assert!(one.freeze().unwrap().unwrap().headers.len() == 1);
    (0..230).for_each(|_| drop(make(&one)));
    let taken = take(&one);
    assert_eq!(taken.headers.len(), 231);
    for chain in [&other, &in_memory] {
        assert!(chain.submit(vec![deploy(chain)]).remove(0).is_ok());
        taken.give(chain).unwrap();
        same(&one, chain);
        assert_eq!(chain.pool().status().pending, 0, "what waited is in a block by now");
        assert_eq!((chain.first_block(), chain.block(229), chain.block(0).is_some()), (230, None, true));
        // Once more, as if the engine asked twice; then with later blocks, which refer to a block 200 back.
        taken.give(chain).unwrap();
    }
    for _ in 0..3 {
        let input = make(&one);
        [&other, &in_memory].into_iter().for_each(|chain| drop(follow(chain, &input)));
    }
    [&other, &in_memory].into_iter().for_each(|chain| same(&one, chain));
    assert!(matches!(taken.give(&other), Err(RestoreError::NotNew(233))));
    // A snapshot of a chain that began with one is the same.
    let (first, second) = (take(&one), take(&other));
    assert_eq!((first.headers.len(), &first.headers[..]), (234, &second.headers[..]));
    assert_eq!((&first.block, &first.items, &first.entries), (&second.block, &second.items, &second.entries));
    other.stop();
    drop(other);
    let other = retaining(Some(target.path()), 0);
    same(&one, &other);
    assert_eq!(other.first_block(), 230);
    let input = make(&one);
    follow(&other, &input);
    same(&one, &other);
}

#[test]
fn mismatch_with_the_header_changes_nothing() {
    let (one, folder) = (retaining(None, 0), tempfile::tempdir().unwrap());
    (0..5).for_each(|_| drop(make(&one)));
    let other = retaining(Some(folder.path()), 0);
    let zero = other.head().hash;
    let wrong = |change: &dyn Fn(&mut WireSnapshot)| {
        let mut taken = take(&one);
        change(&mut taken);
        let error = taken.give(&other).unwrap_err();
        assert!(matches!(error, RestoreError::Wrong(_)), "{error}");
        assert_eq!(other.head().hash, zero);
        error.to_string()
    };
    let said = wrong(&|taken| drop(taken.entries.pop()));
    assert!(said.contains("root"), "{said}");
    let said = wrong(&|taken| drop(taken.items.pop()));
    assert!(said.contains("outputs"), "{said}");
    wrong(&|taken| drop(taken.headers.remove(0)));
    wrong(&|taken| taken.entries.insert(0, Entry::Code { hash: B256::ZERO, code: Bytes::new() }));
    take(&one).give(&other).unwrap();
    same(&one, &other);
}

#[test]
fn a_restoring_that_is_cut_off_leaves_the_genesis() {
    let (one, folder) = (retaining(None, 0), tempfile::tempdir().unwrap());
    (0..3).for_each(|_| drop(make(&one)));
    let other = retaining(Some(folder.path()), 0);
    take(&one).give(&other).unwrap();
    other.stop();
    drop(other);
    // As if a crash had come before the mark was removed, and before some of the files were written.
    for gone in ["", "state", "blocks"] {
        fs::write(folder.path().join("restoring"), b"").unwrap();
        if !gone.is_empty() {
            fs::remove_dir_all(folder.path().join(gone)).unwrap();
        }
        let other = retaining(Some(folder.path()), 0);
        assert_eq!((other.head().number(), other.outputs().totals()), (0, Default::default()));
        take(&one).give(&other).unwrap();
        same(&one, &other);
        other.stop();
    }
}

#[test]
fn a_chain_of_the_last_blocks_continues_from_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (all, mut chain) = (retaining(None, 0), retaining(Some(folder.path()), 20));
    for round in 1..=4_u64 {
        for _ in 0..25 {
            let input = make(&all);
            follow(&chain, &input);
        }
        let head = chain.head().number();
        assert_eq!(head, 25 * round);
        // A file has sixteen blocks, and is removed when none of them is among the last.
        let first = 1 + (head - 20) / 16 * 16;
        hearth_testkit::wait_until("old blocks go", || chain.first_block() == first);
        assert!((first..=head).all(|number| chain.block(number).is_some()));
        chain.stop();
        drop(chain);
        chain = retaining(Some(folder.path()), 20);
        same(&all, &chain);
        assert_eq!(chain.first_block(), first);
        assert!(first < 2 || chain.block(first - 1).is_none());
        let gone = all.block(1).unwrap();
        assert_eq!(chain.tx(&gone.txs[0].hash).is_some(), first == 1);
    }
    assert!(chain.first_block() > 40);
    let small = retaining(None, 3);
    (0..9).for_each(|_| drop(make(&small)));
    assert_eq!((small.first_block(), small.block(6), small.block(0).is_some()), (7, None, true));
}
