//! Blocks kept, found, cut off, damaged.

use alloy_consensus::TxLegacy;
use alloy_primitives::{Address, Bytes, Log, TxKind, U256};
use hearth_crypto::secp256k1::Signer;
use hearth_testkit::wait_until;
use hearth_wal::faulty::Faulty;
use proptest::prelude::*;
use revm::primitives::hardfork::SpecId;

use super::*;
use crate::block::{Body, Receipt, Roots};
use crate::exec::BlockEnv;
use crate::tx::{Tx, TypedTransaction};

const ZERO: B256 = B256::repeat_byte(0x10);

/// Returns a block of `count` transactions, every third of which logs something and every fourth creates a contract.
fn block(number: u64, count: u64) -> Arc<Block> {
    let signer = Signer::new(&[7; 32]).expect("a key");
    let env = BlockEnv {
        number,
        timestamp: number,
        beneficiary: Address::ZERO,
        gas_limit: 1 << 30,
        base_fee: 7,
        prevrandao: B256::ZERO,
        parent_hash: Some(B256::with_last_byte(number as u8)),
        parent_beacon_block_root: Some(B256::ZERO),
        chain_id: 1,
        spec: SpecId::OSAKA,
        limits: Default::default(),
        blobs: Default::default(),
        deposit_contract: Default::default(),
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
    BlockStore::open(dir, 1, ZERO)
}

fn the_file(dir: &Path) -> PathBuf {
    segment::paths(dir).expect("a folder").pop().expect("a file")
}

#[test]
fn a_block_from_before_the_merge_keeps_its_ommers_and_roots() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut old = Block::clone(&block(1, 3));
    old.ommers = vec![alloy_consensus::Header { number: 1, ..Default::default() }];
    old.receipts.iter_mut().for_each(|receipt| receipt.root = Some(B256::repeat_byte(7)));
    let old = std::sync::Arc::new(old);
    let store = open(dir.path()).expect("it opens");
    store.append(&old, &Changes::default()).expect("it is kept");
    drop(store);
    let store = open(dir.path()).expect("it opens");
    assert_eq!(store.block(1).expect("read").as_ref(), Some(&old));
}

#[test]
fn kept_blocks_are_found_after_a_restart() {
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
fn truncated_blocks_can_be_stored_again() {
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
    let error = BlockStore::open(dir.path(), 5, ZERO).err().expect("it is another's").to_string();
    assert!(error.contains("chain 1") && error.contains("chain 5") && error.contains(".blocks"), "{error}");
    assert!(matches!(BlockStore::open(dir.path(), 1, B256::ZERO), Err(BlocksError::OtherChain { .. })));
}

#[test]
fn a_damaged_file_is_named_and_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path()).expect("it opens");
    (1..=3).for_each(|number| store.append(&block(number, 2), &Changes::default()).expect("it is kept"));
    drop(store);
    let path = the_file(dir.path());
    let whole = fs::read(&path).expect("it is there");
    // Behind the last block is what says that all are on disk.
    for at in (0..whole.len() - 32).step_by(13) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        fs::write(&path, &damaged).expect("written");
        let error = open(dir.path()).err().unwrap_or_else(|| panic!("byte {at} is not missed")).to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn a_file_that_was_on_disk_and_is_shorter_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path()).expect("it opens");
    let mut ends = vec![64];
    for number in 1..=6 {
        store.append(&block(number, 2), &Changes::default()).expect("it is kept");
        ends.push(fs::metadata(the_file(dir.path())).expect("a file").len() as usize);
    }
    drop(store);
    let path = the_file(dir.path());
    let whole = fs::read(&path).expect("it is there");
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("written");
        match open(dir.path()).err() {
            Some(BlocksError::Damaged { path: named, offset, .. }) => {
                assert_eq!(
                    (named, fs::read(&path).expect("read") == bytes),
                    (path.clone(), true),
                    "nothing is changed"
                );
                offset as usize
            }
            other => panic!("it was opened, or refused otherwise: {other:?}"),
        }
    };
    // At a record's end, within one, within the file's head, and all of it.
    assert_eq!(refused(&whole[..ends[3]]), ends[3]);
    assert_eq!(refused(&whole[..ends[3] + 40]), ends[3]);
    assert_eq!(refused(&whole[..40]), 0);
    assert_eq!(refused(&[]), 0);
    // The head alone is zeros, or the last records are.
    assert_eq!(refused(&[&[0; 64], &whole[64..]].concat()), 0);
    assert_eq!(refused(&[&whole[..ends[4]], &vec![0; whole.len() - ends[4]]].concat()), ends[4]);
    fs::remove_file(&path).expect("it is there");
    assert!(matches!(open(dir.path()), Err(BlocksError::Damaged { .. })), "the file is missing");
    fs::write(&path, &whole).expect("written");
    assert_eq!(open(dir.path()).expect("it is whole").newest(), 6);
}

#[test]
fn the_blocks_before_must_be_there() {
    let dir = tempfile::tempdir().expect("a folder");
    Segment::create(dir.path(), &SegmentHead { chain_id: 1, zero: ZERO }, 5).expect("it is made");
    assert!(matches!(open(dir.path()), Err(BlocksError::Damaged { .. })));
}

/// Returns the newest file, with injected faults.
fn filling(dir: &Path) -> Arc<Faulty> {
    Arc::new(Faulty::new(File::options().write(true).open(the_file(dir)).expect("a file")))
}

/// Returns an order that records its calls.
fn noting(calls: &Arc<Mutex<Vec<String>>>) -> SyncOrder {
    let [before, after, failed] = [0; 3].map(|_| calls.clone());
    SyncOrder {
        before: Box::new(move || Ok(before.lock().push("before".into()))),
        after: Box::new(move || Ok(after.lock().push("after".into()))),
        synced: Box::new(|| {}),
        failed: Box::new(move |why| failed.lock().push(why)),
    }
}

#[test]
fn unsynced_tail_is_truncated_and_synced_damage_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path()).expect("it opens");
    let mut ends = vec![64];
    for number in 1..=5 {
        store.append(&block(number, 3), &Changes::default()).expect("it is kept");
        ends.push(fs::metadata(the_file(dir.path())).expect("a file").len() as usize);
        if number == 3 {
            store.sync().expect("the disk works");
        }
    }
    let whole = fs::read(the_file(dir.path())).expect("it is there");
    // Dropped without closing, as in a power failure.
    std::mem::forget(store);
    let reopened = |bytes: &[u8]| {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join(format!("{:020}.blocks", 1)), bytes).expect("written");
        let store = open(dir.path())?;
        let newest = store.newest();
        store.append(&block(newest + 1, 1), &Changes::default()).expect("it goes on");
        drop(store);
        assert_eq!(open(dir.path()).expect("it opens").newest(), newest + 1);
        Ok::<_, BlocksError>(newest)
    };
    for zeros in [1, 31, 32, 5_000] {
        assert_eq!(reopened(&[&whole[..], &vec![0; zeros]].concat()).expect("zeros are no record"), 5);
        assert_eq!(reopened(&[&whole[..ends[4] + 40], &vec![0; zeros]].concat()).expect("half a record"), 4);
    }
    for (number, newest) in [(1, None), (2, None), (3, None), (4, Some(3)), (5, Some(4))] {
        for at in [ends[number - 1] + 2, ends[number - 1] + 6, ends[number] - 3] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x20;
            match (reopened(&damaged), newest) {
                (Ok(found), Some(newest)) => assert_eq!(found, newest),
                (Err(BlocksError::Damaged { offset, .. }), None) => assert_eq!(offset, ends[number - 1] as u64),
                (found, _) => panic!("block {number}: {found:?}"),
            }
        }
    }
    // A file that was being made.
    assert_eq!(reopened(&[0; 64]).expect("it was never begun"), 0);
}

#[test]
fn a_record_that_failed_leaves_nothing_behind_a_shorter_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path()).expect("it opens");
    store.append(&block(1, 1), &Changes::default()).expect("it is kept");
    let disk = filling(dir.path());
    store.put_disk(disk.clone());
    for broken in [false, true] {
        disk.faults().leave(2_000);
        disk.faults().refuse_cuts(broken);
        let error = store.append(&block(2, 40), &Changes::default()).err().expect("no room").to_string();
        assert!(error.contains("cannot write"), "{error}");
        assert_eq!(store.newest(), 1);
    }
    disk.faults().leave(1 << 20);
    disk.faults().refuse_cuts(false);
    store.append(&block(2, 1), &Changes::default()).expect("it is kept");
    drop(store);
    assert_eq!(open(dir.path()).expect("nothing is behind it").newest(), 2);
}

#[test]
fn a_file_is_on_disk_before_the_next_is_begun() {
    for broken in [false, true] {
        let dir = tempfile::tempdir().expect("a folder");
        let mut store = open(dir.path()).expect("it opens");
        store.append(&block(1, 4), &Changes::default()).expect("it is kept");
        let disk = filling(dir.path());
        store.put_disk(disk.clone());
        store.append(&block(2, 4), &Changes::default()).expect("it is kept");
        disk.faults().refuse_syncs(broken);
        store.segment_bytes = 1;
        let appended = store.append(&block(3, 4), &Changes::default());
        let files = segment::paths(dir.path()).expect("a folder").len();
        if broken {
            assert!(matches!(appended, Err(BlocksError::NotSynced(_))), "{appended:?}");
            assert_eq!((store.newest(), store.synced(), files), (2, 0, 1));
        } else {
            appended.expect("it is kept");
            assert_eq!((store.newest(), store.synced(), files), (3, 2, 2));
            drop(store);
            assert_eq!(open(dir.path()).expect("it opens").newest(), 3);
        }
    }
}

#[test]
fn a_failed_sync_is_the_last() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut store = open(dir.path()).expect("it opens");
    store.append(&block(1, 1), &Changes::default()).expect("it is kept");
    let disk = filling(dir.path());
    store.put_disk(disk.clone());
    let calls = Arc::new(Mutex::new(Vec::new()));
    store.start(noting(&calls)).expect("a thread");
    store.shared.bring_all().expect("the disk works");
    disk.faults().refuse_syncs(true);
    store.append(&block(2, 1), &Changes::default()).expect("it is kept");
    let failed = store.shared.bring_all().err().expect("it is not on disk");
    assert!(matches!(&failed, BlocksError::NotSynced(why) if why.contains("the disk is broken")), "{failed}");
    disk.faults().refuse_syncs(false);
    let refused = [store.sync(), store.append(&block(3, 1), &Changes::default())];
    assert!(refused.iter().all(|result| matches!(result, Err(BlocksError::NotSynced(_)))), "{refused:?}");
    assert_eq!((store.newest(), store.synced()), (2, 1));
    drop(store);
    let calls = calls.lock();
    let failures = calls.iter().filter(|call| call.contains("the disk is broken")).count();
    let at = |what: &str| calls.iter().filter(|call| *call == what).count();
    assert_eq!(failures, 1, "{calls:?}");
    assert!(
        calls[..2] == ["before", "after"] && at("before") > at("after"),
        "no state after blocks that are not: {calls:?}"
    );
}

#[test]
fn authorization_signers_are_kept() {
    use alloy_consensus::TxEip7702;
    use alloy_eips::eip7702::{Authorization, SignedAuthorization};
    let signer = Signer::new(&[7; 32]).expect("a key");
    let inner = Authorization { chain_id: U256::from(1), address: Address::repeat_byte(3), nonce: 9 };
    let signature = signer.sign(&inner.signature_hash().0);
    let (r, s) = (U256::from_be_bytes(signature.r), U256::from_be_bytes(signature.s));
    let good = SignedAuthorization::new_unchecked(inner.clone(), u8::from(signature.odd), r, s);
    let bad = SignedAuthorization::new_unchecked(inner, 7, r, s);
    let tx = TxEip7702 { chain_id: 1, authorization_list: vec![good, bad], ..Default::default() };
    let tx = Arc::new(Tx::signed(TypedTransaction::from(tx), &signer));
    assert_eq!(tx.authorities, [Some(Address::from(signer.address())), None]);
    let mut block = (*block(1, 2)).clone();
    block.receipts.push(Receipt::new(&tx, true, 1, vec![], block.receipts[1].cumulative_gas_used, 7));
    block.txs.push(tx);
    let mut bytes = Vec::new();
    record::encode(&block, &Changes::default(), &mut bytes);
    assert_eq!(record::decode(&bytes).expect("it decodes").0, block);
}

#[test]
fn only_the_last_blocks_are_kept() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut store = open(dir.path()).expect("it opens");
    store.retain(40);
    store.start(noting(&Arc::default())).expect("a thread");
    let blocks: Vec<_> = (1..=200).map(|number| block(number, number % 3)).collect();
    for block in &blocks {
        store.append(block, &Changes::default()).expect("it is kept");
        // At most an eighth beyond the configured number, and a file that is not full.
        wait_until("old blocks go", || store.first() + 40 + 2 * 16 > block.number());
    }
    let first = 161;
    wait_until("the last old blocks go", || store.first() == first);
    let check = |store: &BlockStore| {
        for block in &blocks {
            let (number, kept) = (block.number(), block.number() >= store.first());
            assert_eq!(store.block(number).expect("read").is_some(), kept);
            assert_eq!(store.number_of(&block.hash).is_some(), kept);
            assert!(block.txs.iter().all(|tx| store.place_of(&tx.hash).is_some() == kept));
            assert_eq!(store.header(number).expect("read").as_ref(), Some(&block.header));
        }
        assert_eq!(store.newest(), 200);
    };
    check(&store);
    drop(store);
    // A file that was to go when the program ended goes at the start.
    drop(Segment::create(dir.path(), &SegmentHead { chain_id: 1, zero: ZERO }, 1).expect("it is made"));
    let store = open(dir.path()).expect("it opens");
    check(&store);
    assert_eq!(
        (store.first(), segment::first_of(&segment::paths(dir.path()).expect("files")[0])),
        (first, Some(first))
    );
    store.truncate(first + 3).expect("it is cut");
    assert_eq!(store.newest(), first + 3);
    drop(store);
    fs::write(dir.path().join("base"), b"HRTHBLB1 and nothing more").expect("written");
    assert!(matches!(open(dir.path()), Err(BlocksError::Damaged { .. })));
    fs::remove_file(dir.path().join("base")).expect("it is there");
    assert!(matches!(open(dir.path()), Err(BlocksError::Damaged { .. })), "the blocks before are missing");
}

#[test]
fn a_store_begins_with_any_block() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path()).expect("it opens");
    store.append(&block(1, 2), &Changes::default()).expect("it is kept");
    let before: Vec<Header> = (20..70).rev().map(|number| block(number, 0).header.clone()).collect();
    store.begin_with(&block(70, 3), &before).expect("it begins");
    assert_eq!((store.first(), store.newest(), store.block(1).expect("read")), (70, 70, None));
    assert_eq!(store.number_of(&block(1, 2).hash), None);
    store.append(&block(71, 1), &Changes::default()).expect("it is kept");
    drop(store);
    let store = open(dir.path()).expect("it opens");
    assert_eq!((store.first(), store.newest(), store.block(70).expect("read")), (70, 71, Some(block(70, 3))));
    assert_eq!(store.header(69).expect("read").as_ref(), before.first());
    assert_eq!(store.header(20).expect("read").as_ref(), before.last());
    assert_eq!(store.header(19).expect("read"), None);
    // Repeated, as after an interruption.
    store.begin_with(&block(90, 0), &[]).expect("it begins");
    assert_eq!((store.first(), store.newest(), store.header(69).expect("read")), (90, 90, None));
}

#[test]
fn a_foreign_block_is_doubted() {
    let block = block(7, 9);
    let bytes = encode(&block);
    let header = &block.header;
    assert_eq!(decode_foreign(&bytes, header, 1).as_ref(), Ok(&*block));
    assert!(decode_foreign(&bytes, header, 2).is_err(), "of another chain");
    assert!(decode_foreign(&bytes[..bytes.len() - 1], header, 1).is_err());
    let with_gas = |gas_used| decode_foreign(&bytes, &Header { gas_used, ..header.clone() }, 1).unwrap_err();
    assert_eq!(with_gas(header.gas_used + 1), "the block is another");
    assert_eq!(with_gas(9 * GAS_PER_TX_MIN - 1), "the block has more than its gas pays for");
    let sender = block.txs[3].sender;
    let with = |change: &dyn Fn(&mut Block)| {
        let mut other = (*block).clone();
        change(&mut other);
        decode_foreign(&encode(&other), header, 1).unwrap_err()
    };
    with(&|other| other.receipts[2].status = !other.receipts[2].status);
    with(&|other| other.receipts[2].logs.clear());
    with(&|other| drop(other.txs.pop().and_then(|_| other.receipts.pop())));
    with(&|other| other.withdrawals.push(Default::default()));
    with(&|other| other.txs[3] = Arc::new(Tx { sender: Address::ZERO, ..(*other.txs[3]).clone() }));
    assert_ne!(sender, Address::ZERO);
    // Empty transactions, a byte each, without end.
    let record = vec![0x80; 1_000_000];
    let list = |payload: Vec<u8>| {
        let mut list = Vec::new();
        alloy_rlp::Header { list: true, payload_length: payload.len() }.encode(&mut list);
        [list, payload].concat()
    };
    let record = list([alloy_rlp::encode(header), list(record), vec![0xc0; 4]].concat());
    assert_eq!(decode_foreign(&record, header, 1), Err("the block has more than its gas pays for"));
}

#[test]
fn a_header_is_read_without_its_block() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path()).expect("it opens");
    for number in 1..=3 {
        store.append(&block(number, 40 * number), &Changes::default()).expect("it is kept");
    }
    for number in 1..=3 {
        assert_eq!(store.header(number).expect("read").as_ref(), Some(&block(number, 40 * number).header));
    }
    // A longer one than Ethereum's chains have.
    let mut long = (*block(4, 1)).clone();
    long.header.extra_data = vec![7; 5_000].into();
    store.append(&long, &Changes::default()).expect("it is kept");
    assert_eq!(store.header(4).expect("read"), Some(long.header));
    assert_eq!(store.header(5).expect("read"), None);
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
        // The state after a power failure.
        let from = the_file(dir.path());
        let length = cut as u64 % (ends[blocks.len()] + 1);
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join(from.file_name().expect("named")), &fs::read(&from).expect("read")[..length as usize])
            .expect("written");
        drop(store);
        let store = open(dir.path()).expect("it opens");
        let whole = ends.iter().filter(|end| **end <= length).count().saturating_sub(1) as u64;
        prop_assert_eq!(store.newest(), whole);
        for block in &blocks[..whole as usize] {
            let got = store.block(block.number()).expect("read");
            prop_assert_eq!(got.as_ref(), Some(block));
        }
        // The store continues.
        for block in &blocks[whole as usize..] {
            store.append(block, &Changes::default()).expect("it is kept");
        }
        drop(store);
        prop_assert_eq!(open(dir.path()).expect("it opens").newest(), blocks.len() as u64);
    }
}

#[test]
fn blocks_that_logged_are_found_by_their_blooms() {
    let dir = tempfile::tempdir().expect("a folder");
    let logged = |number: u64| number.is_multiple_of(37);
    {
        let store = open(dir.path()).expect("it opens");
        for number in 1..=300 {
            // Of one transaction nothing is logged where its nonce is no multiple of three.
            let count = if logged(number) { 3 } else { 0 };
            store.append(&block(number, count), &Changes::default()).expect("appended");
        }
    }
    let store = open(dir.path()).expect("it opens");
    let wanted = alloy_primitives::logs_bloom(&[Log::new_unchecked(
        Address::repeat_byte(3),
        vec![B256::repeat_byte(4)],
        Bytes::new(),
    )]);
    let all = |store: &BlockStore, from, to| {
        let next = |from: &mut u64| {
            let found = store.next_with(*from, to, |bloom| bloom.contains(&wanted)).expect("it is read")?;
            *from = found + 1;
            Some(found)
        };
        let mut from = from;
        std::iter::from_fn(|| next(&mut from)).collect::<Vec<_>>()
    };
    for number in 1..=300 {
        let bloom = store.block(number).expect("read").expect("there").header.logs_bloom;
        assert_eq!(store.lock().find(number).expect("there").bloom().expect("read"), bloom);
    }
    let expected: Vec<u64> = (1..=300).filter(|number| logged(*number)).collect();
    assert_eq!(all(&store, 0, u64::MAX), expected);
    assert_eq!(all(&store, 38, 110), [74]);
    store.truncate(100).expect("cut");
    assert_eq!(all(&store, 0, u64::MAX), [37, 74]);
    store.append(&block(101, 0), &Changes::default()).expect("appended");
    assert_eq!(all(&store, 75, u64::MAX), [] as [u64; 0]);
}
