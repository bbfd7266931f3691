//! Blocks kept, found, cut off, damaged.

use alloy_consensus::TxLegacy;
use alloy_primitives::{Address, Bytes, Log, TxKind, U256};
use hearth_crypto::secp256k1::Signer;
use proptest::prelude::*;
use revm::primitives::hardfork::SpecId;

use super::*;
use crate::block::{Body, Receipt, Roots};
use crate::exec::BlockEnv;
use crate::tx::{Tx, TypedTransaction};

const ZERO: B256 = B256::repeat_byte(0x10);

/// A block of `count` transactions, every third of which logs something and every fourth creates a contract.
fn block(number: u64, count: u64) -> Arc<Block> {
    let signer = Signer::new(&[7; 32]).expect("a key");
    let env = BlockEnv {
        number,
        timestamp: number,
        beneficiary: Address::ZERO,
        gas_limit: 1 << 30,
        base_fee: 7,
        prevrandao: B256::ZERO,
        parent_hash: B256::with_last_byte(number as u8),
        parent_beacon_block_root: Some(B256::ZERO),
        chain_id: 1,
        spec: SpecId::OSAKA,
    };
    let mut body = Body::default();
    let mut gas = 0;
    for nonce in 0..count {
        let to = if nonce % 4 == 1 { TxKind::Create } else { TxKind::Call(Address::repeat_byte(2)) };
        let nonce = number << 16 | nonce;
        let tx =
            TxLegacy { chain_id: Some(1), nonce, gas_price: 9, to, value: U256::from(nonce), ..Default::default() };
        let tx = Arc::new(Tx::signed(TypedTransaction::from(tx), &signer));
        let log = Log::new_unchecked(Address::repeat_byte(3), vec![B256::repeat_byte(4)], Bytes::from_static(b"data"));
        let logs = if nonce % 3 == 0 { vec![log] } else { Vec::new() };
        let receipt = Receipt::new(&tx, nonce % 5 != 0, 21_000, logs, gas, 7);
        gas = receipt.cumulative_gas_used;
        body.txs.push(tx);
        body.receipts.push(receipt);
    }
    let roots = Roots::of(&body);
    Block::seal(&env, body, roots, Vec::new(), B256::ZERO, Bytes::new())
}

fn open(dir: &Path) -> Result<BlockStore, BlocksError> {
    BlockStore::open(dir, 1, ZERO, || ())
}

fn the_file(dir: &Path) -> PathBuf {
    segment::paths(dir).expect("a folder").pop().expect("a file")
}

#[test]
fn what_is_kept_is_found_again_after_a_restart() {
    let dir = tempfile::tempdir().expect("a folder");
    let blocks: Vec<_> = (1..=9).map(|number| block(number, number * 3 % 7)).collect();
    let store = open(dir.path()).expect("it opens");
    assert_eq!(store.newest(), 0);
    blocks.iter().for_each(|block| store.append(block, &Changes::default()).expect("it is kept"));
    drop(store);
    let store = open(dir.path()).expect("it opens");
    assert_eq!(store.newest(), 9);
    for block in &blocks {
        assert_eq!(store.block(block.number()).expect("read").as_ref(), Some(block));
        assert_eq!(store.number_of(&block.hash), Some(block.number()));
        for (index, tx) in block.txs.iter().enumerate() {
            assert_eq!(store.place_of(&tx.hash), Some((block.number(), index)));
        }
    }
    assert_eq!(store.block(0).expect("read"), None);
    assert_eq!(store.block(10).expect("read"), None);
    assert_eq!(store.place_of(&B256::ZERO), None);
}

#[test]
fn what_was_cut_off_is_gone_and_can_be_kept_anew() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path()).expect("it opens");
    (1..=5).for_each(|number| store.append(&block(number, 3), &Changes::default()).expect("it is kept"));
    store.truncate(2).expect("it is cut");
    assert_eq!((store.newest(), store.number_of(&block(3, 3).hash)), (2, None));
    store.append(&block(3, 1), &Changes::default()).expect("it is kept");
    assert_eq!(store.block(3).expect("read"), Some(block(3, 1)));
    store.truncate(0).expect("it is cut");
    store.append(&block(1, 2), &Changes::default()).expect("it is kept");
    drop(store);
    assert_eq!(open(dir.path()).expect("it opens").newest(), 1);
}

#[test]
fn only_one_at_a_time_and_only_of_its_own_chain() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path()).expect("it opens");
    store.append(&block(1, 0), &Changes::default()).expect("it is kept");
    assert!(matches!(open(dir.path()), Err(BlocksError::InUse(_))));
    drop(store);
    let error = BlockStore::open(dir.path(), 5, ZERO, || ()).err().expect("it is another's").to_string();
    assert!(error.contains("chain 1") && error.contains("chain 5") && error.contains(".blocks"), "{error}");
    assert!(matches!(BlockStore::open(dir.path(), 1, B256::ZERO, || ()), Err(BlocksError::OtherChain { .. })));
}

#[test]
fn a_damaged_file_is_named_and_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path()).expect("it opens");
    (1..=3).for_each(|number| store.append(&block(number, 2), &Changes::default()).expect("it is kept"));
    drop(store);
    let path = the_file(dir.path());
    let whole = fs::read(&path).expect("it is there");
    for at in (0..whole.len()).step_by(13) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        fs::write(&path, &damaged).expect("written");
        let error = open(dir.path()).err().unwrap_or_else(|| panic!("byte {at} is not missed")).to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn the_blocks_before_must_be_there() {
    let dir = tempfile::tempdir().expect("a folder");
    Segment::create(dir.path(), &SegmentHead { chain_id: 1, zero: ZERO }, 5).expect("it is made");
    assert!(matches!(open(dir.path()), Err(BlocksError::Damaged { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the length at which a file ended, the blocks before it are all there.
    #[test]
    fn a_torn_end_costs_that_block_alone(counts in proptest::collection::vec(0u64..4, 1..6), cut in any::<usize>()) {
        let dir = tempfile::tempdir().expect("a folder");
        let blocks: Vec<_> = (1..).zip(&counts).map(|(number, count)| block(number, *count)).collect();
        let store = open(dir.path()).expect("it opens");
        let mut ends = vec![64];
        for block in &blocks {
            store.append(block, &Changes::default()).expect("it is kept");
            ends.push(fs::metadata(the_file(dir.path())).expect("a file").len());
        }
        drop(store);
        let path = the_file(dir.path());
        let length = cut as u64 % (ends[blocks.len()] + 1);
        File::options().write(true).open(&path).and_then(|file| file.set_len(length)).expect("cut");
        let store = open(dir.path()).expect("it opens");
        let whole = ends.iter().filter(|end| **end <= length).count().saturating_sub(1) as u64;
        prop_assert_eq!(store.newest(), whole);
        for block in &blocks[..whole as usize] {
            let got = store.block(block.number()).expect("read");
            prop_assert_eq!(got.as_ref(), Some(block));
        }
        // And it goes on.
        for block in &blocks[whole as usize..] {
            store.append(block, &Changes::default()).expect("it is kept");
        }
        drop(store);
        prop_assert_eq!(open(dir.path()).expect("it opens").newest(), blocks.len() as u64);
    }
}
