//! Blocks of one chain, given to another of the same genesis.

use alloy_consensus::Header;
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_primitives::{Address, B64, Bytes, Sealable, U256};

use super::super::tests::{GWEI, accepted, chain, transfer, unsigned};
use super::super::{BlockTime, ChainConfig};
use super::*;
use crate::builders::{account, rich, signer};
use crate::exec::credit_wei;
use crate::genesis::{Forks, Genesis};
use crate::import::{BlockReader, decode_block};
use crate::tx::{Tx, TypedTransaction};

/// A chain of a block with transfers and a contract, an empty block, and another of transfers.
fn made() -> Chain {
    let chain = chain(BlockTime::Manual);
    let mut create = unsigned(0, 100 * GWEI);
    if let TypedTransaction::Eip1559(create) = &mut create {
        // Its constructor logs, with one topic.
        create.gas_limit = 200_000;
        create.to = alloy_primitives::TxKind::Create;
        create.input = Bytes::from_static(&[0x60, 0xff, 0x5f, 0x5f, 0xa1, 0x00]);
    }
    let create = Tx::signed(create, &signer(3)).raw;
    accepted(chain.submit(vec![transfer(1, 0), transfer(1, 1), transfer(2, 0), create]));
    chain.mine().expect("made");
    chain.mine().expect("made");
    accepted(chain.submit(vec![transfer(1, 2), transfer(2, 1)]));
    chain.mine().expect("made");
    chain
}

/// A chain of the same genesis without blocks.
fn fresh(of: &Chain) -> Chain {
    let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(of.genesis().clone()) };
    Chain::open(config).expect("it opens")
}

fn given(chain: &Chain, number: u64) -> GivenBlock {
    let mut bytes = Vec::new();
    let block = chain.block(number).expect("it is there");
    block.encode(&mut bytes);
    assert_eq!(bytes.len() as u64, block.size());
    decode_block(&bytes, 0).expect("it decodes")
}

#[test]
fn given_blocks_make_the_same_chain() {
    let from = made();
    assert!(from.block(1).expect("made").receipts.iter().any(|receipt| !receipt.logs.is_empty()));
    for paths in [Paths::Serial, Paths::Threads(2), Paths::Both(2)] {
        let to = fresh(&from);
        for number in 1..=3 {
            let imported = to.import(given(&from, number), paths).expect("it is valid");
            assert_eq!(*imported.block, *from.block(number).expect("made"));
            assert_eq!(to.head().hash, imported.block.hash);
        }
        assert_eq!(to.view().state_root(), from.view().state_root());
        assert_eq!(to.view().account(&account(1)).expect("rich").nonce, 3);
        // The chain continues by itself, and knows the accounts' nonces.
        accepted(to.submit(vec![transfer(1, 3)]));
        assert_eq!(to.mine().expect("made").txs.len(), 1);
    }
}

#[test]
fn execution_ahead_comes_to_the_same() {
    let (from, mut before) = (made(), None);
    let to = fresh(&from);
    for number in 1..=3 {
        let imported = to.import(given(&from, number), Paths::Serial).expect("it is valid");
        if let Some(parent_changes) = before.replace(imported.changes) {
            let (ahead, usual) = to.execute_ahead(parent_changes).expect("the history contract is the usual one");
            assert_eq!(ahead.verdicts, usual.verdicts);
            assert_eq!(ahead.changes, usual.changes, "block {number}");
        }
    }
}

/// What changes one field of a header, and which field the error names.
type Slip = (&'static str, fn(&mut Header));

const SLIPS: [Slip; 23] = [
    ("parentHash", |header| header.parent_hash.0[31] ^= 1),
    ("sha3Uncles", |header| header.ommers_hash.0[31] ^= 1),
    ("stateRoot", |header| header.state_root.0[31] ^= 1),
    // Only the state root depends on the fee recipient, and on `PREVRANDAO` as contracts read it.
    ("stateRoot", |header| header.beneficiary.0.0[19] ^= 1),
    ("transactionsRoot", |header| header.transactions_root.0[31] ^= 1),
    ("receiptsRoot", |header| header.receipts_root.0[31] ^= 1),
    ("logsBloom", |header| header.logs_bloom.0.0[255] ^= 1),
    ("difficulty", |header| header.difficulty = U256::ONE),
    ("number", |header| header.number += 1),
    ("number", |header| header.number -= 1),
    ("gasLimit", |header| header.gas_limit += header.gas_limit / 1_024),
    ("gasUsed", |header| header.gas_used += 1),
    ("gasUsed", |header| header.gas_used = header.gas_limit + 1),
    ("timestamp", |header| header.timestamp = 0),
    ("extraData", |header| header.extra_data = Bytes::from_static(&[7; 33])),
    ("nonce", |header| header.nonce = B64::with_last_byte(1)),
    ("baseFeePerGas", |header| header.base_fee_per_gas = header.base_fee_per_gas.map(|fee| fee + 1)),
    ("withdrawalsRoot", |header| header.withdrawals_root = header.transactions_root.into()),
    ("blobGasUsed", |header| header.blob_gas_used = Some(1)),
    ("blobGasUsed", |header| header.blob_gas_used = Some(DATA_GAS_PER_BLOB)),
    ("excessBlobGas", |header| header.excess_blob_gas = Some(1)),
    ("parentBeaconBlockRoot", |header| header.parent_beacon_block_root = None),
    ("requestsHash", |header| header.requests_hash = header.transactions_root.into()),
];

fn field_of(error: ImportError) -> &'static str {
    match error {
        ImportError::Invalid { why: InvalidBlock::Field { field, .. }, .. } => field,
        other => panic!("no field is named: {other}"),
    }
}

#[test]
fn each_wrong_field_is_named_and_leaves_nothing() {
    let from = made();
    let to = fresh(&from);
    for (index, (field, slip)) in SLIPS.iter().enumerate() {
        let mut block = given(&from, 1);
        slip(&mut block.header);
        let error = to.import(block, Paths::Both(2)).expect_err(field);
        assert_eq!(field_of(error), *field, "slip {index}");
        assert_eq!(to.head().number(), 0);
    }
    let mut without = given(&from, 1);
    without.withdrawals = None;
    assert_eq!(field_of(to.import(without, Paths::Serial).expect_err("they are missing")), "withdrawals");
    let missing = to.import(given(&from, 2), Paths::Serial).expect_err("block 1 is missing");
    assert_eq!(field_of(missing), "number");
    to.import(given(&from, 1), Paths::Serial).expect("what was given before has left nothing");
}

#[test]
fn a_chain_of_proof_of_work_leaves_no_folder() {
    let forks = Forks::all_until(SpecId::HOMESTEAD);
    let genesis = Genesis { forks, ..Genesis::dev(31337, &rich(1..=2), 30_000_000) };
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("chain");
    let refused = Chain::open(ChainConfig { dir: Some(dir.clone()), ..ChainConfig::new(genesis) }).err();
    assert!(matches!(refused, Some(ChainError::BeforeMerge(SpecId::HOMESTEAD))));
    assert!(!dir.exists());
}

#[test]
fn a_block_of_proof_of_work_pays_for_it_and_is_made_by_others() {
    let (forks, difficulty) = (Forks::all_until(SpecId::HOMESTEAD), U256::from(1 << 20));
    let genesis = Genesis { forks, difficulty, timestamp: 1_000, ..Genesis::dev(31337, &rich(1..=2), 30_000_000) };
    let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
    let chain = Chain::open(config).expect("it may take such blocks");
    assert!(matches!(chain.mine(), Err(ChainError::BeforeMerge(SpecId::HOMESTEAD))));
    let automatic = chain.set_block_time(BlockTime::Instant);
    assert!(matches!(automatic, Err(ChainError::BeforeMerge(SpecId::HOMESTEAD))), "it would end the sequencer");
    let (zero, view) = chain.head_and_view();
    let (miner, reward) = (Address::repeat_byte(0x33), U256::from(5_000_000_000_000_000_000_u64));
    let mut changes = Changes::default();
    credit_wei(&view, &mut changes, [(miner, reward)]).expect("it reads");
    let header = Header {
        parent_hash: zero.hash,
        number: 1,
        beneficiary: miner,
        timestamp: 1_015,
        difficulty,
        gas_limit: zero.header.gas_limit,
        state_root: view.root_with(&changes).expect("it is kept"),
        ..Default::default()
    };
    let given = |header: Header| {
        let mut bytes = Vec::new();
        Block::zero(header.seal_slow()).encode(&mut bytes);
        decode_block(&bytes, 0).expect("it decodes")
    };
    let easy = Header { difficulty: difficulty - U256::ONE, ..header.clone() };
    assert_eq!(field_of(chain.import(given(easy), Paths::Serial).expect_err("too easy")), "difficulty");
    chain.import(given(header), Paths::Both(2)).expect("it is valid");
    assert_eq!(chain.view().account(&miner).expect("paid").balance, reward);
}

#[test]
fn a_transaction_that_cannot_be_there_is_named() {
    let from = chain(BlockTime::Manual);
    accepted(from.submit(vec![transfer(1, 0), transfer(1, 1)]));
    from.mine().expect("made");
    let to = fresh(&from);
    let mut block = given(&from, 1);
    block.txs.swap(0, 1);
    let txs = senders(block.txs.clone()).expect("signed");
    block.header.transactions_root = crate::block::transactions_root(&txs);
    let error = to.import(block, Paths::Both(2)).expect_err("a nonce is too high").to_string();
    assert!(error.contains("block 1 (0x") && error.contains("transaction 0: nonce too high"), "{error}");
}

#[test]
fn whole_blocks_before_a_bad_one_stay() {
    let from = made();
    let to = fresh(&from);
    let mut file = Vec::new();
    let ends: Vec<usize> = (1..=3)
        .map(|number| {
            from.block(number).expect("made").encode(&mut file);
            file.len()
        })
        .collect();
    // In the third block's state root: behind its head, its header's, three words and an address.
    file[ends[1] + 3 + 3 + 2 * 33 + 21 + 5] ^= 1;
    let mut ended = None;
    for block in BlockReader::new(&file[..]) {
        if let Err(error) = to.import(block.expect("it decodes"), Paths::Serial) {
            ended = Some(field_of(error));
            break;
        }
    }
    assert_eq!((ended, to.head().hash), (Some("stateRoot"), from.block(2).expect("made").hash));
}
