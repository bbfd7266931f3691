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

/// What changes one field of a header, which field the error names, and how its words in geth begin.
type Slip = (&'static str, &'static str, fn(&mut Header));

const SLIPS: [Slip; 31] = [
    ("parentHash", "unknown ancestor", |header| header.parent_hash.0[31] ^= 1),
    ("sha3Uncles", "invalid uncle hash", |header| header.ommers_hash.0[31] ^= 1),
    ("stateRoot", "invalid merkle root (remote: ", |header| header.state_root.0[31] ^= 1),
    // Only the state root depends on the fee recipient, and on `PREVRANDAO` as contracts read it.
    ("stateRoot", "invalid merkle root (remote: ", |header| header.beneficiary.0.0[19] ^= 1),
    ("transactionsRoot", "transaction root hash mismatch (header value ", |header| {
        header.transactions_root.0[31] ^= 1;
    }),
    ("receiptsRoot", "invalid receipt root hash (remote: ", |header| header.receipts_root.0[31] ^= 1),
    ("logsBloom", "invalid bloom", |header| header.logs_bloom.0.0[255] ^= 1),
    ("difficulty", "invalid difficulty: have 1, want 0", |header| header.difficulty = U256::ONE),
    ("number", "invalid block number", |header| header.number += 1),
    ("number", "invalid block number", |header| header.number -= 1),
    ("gasLimit", "invalid gas limit: have 500488281, want 500000000 +-= 488280", |header| {
        header.gas_limit += header.gas_limit / 1_024;
    }),
    ("gasLimit", "invalid gas limit: have 499511719, want 500000000 +-= 488280", |header| {
        header.gas_limit -= header.gas_limit / 1_024;
    }),
    ("gasLimit", "invalid gasLimit: have 9223372036854775808, max 9223372036854775807", |header| {
        header.gas_limit = 1 << 63;
    }),
    ("gasUsed", "invalid gas used (remote: ", |header| header.gas_used += 1),
    ("gasUsed", "invalid gas used (remote: ", |header| header.gas_used -= 1),
    ("gasUsed", "invalid gasUsed: have 500000001, gasLimit 500000000", |header| {
        header.gas_used = header.gas_limit + 1;
    }),
    ("timestamp", "invalid timestamp", |header| header.timestamp = 0),
    ("extraData", "extra-data longer than 32 bytes (33)", |header| {
        header.extra_data = Bytes::from_static(&[7; 33]);
    }),
    ("nonce", "invalid nonce", |header| header.nonce = B64::with_last_byte(1)),
    ("baseFeePerGas", "invalid baseFee: have ", |header| {
        header.base_fee_per_gas = header.base_fee_per_gas.map(|fee| fee + 1);
    }),
    ("baseFeePerGas", "invalid baseFee: have ", |header| {
        header.base_fee_per_gas = header.base_fee_per_gas.map(|fee| fee - 1);
    }),
    ("baseFeePerGas", "header is missing baseFee", |header| header.base_fee_per_gas = None),
    ("withdrawalsRoot", "withdrawals root hash mismatch (header value ", |header| {
        header.withdrawals_root = header.transactions_root.into();
    }),
    ("blobGasUsed", "blob gas used 1 not a multiple of blob gas per blob 131072", |header| {
        header.blob_gas_used = Some(1);
    }),
    ("blobGasUsed", "blob gas used mismatch (header 131072, calculated 0)", |header| {
        header.blob_gas_used = Some(DATA_GAS_PER_BLOB);
    }),
    ("blobGasUsed", "blob gas used 131072000 exceeds maximum allowance ", |header| {
        header.blob_gas_used = Some(1_000 * DATA_GAS_PER_BLOB);
    }),
    ("excessBlobGas", "invalid excessBlobGas: have 1, want 0", |header| header.excess_blob_gas = Some(1)),
    ("excessBlobGas", "header is missing excessBlobGas", |header| header.excess_blob_gas = None),
    ("parentBeaconBlockRoot", "header is missing beaconRoot", |header| header.parent_beacon_block_root = None),
    ("requestsHash", "invalid requests hash (remote: ", |header| {
        header.requests_hash = header.transactions_root.into();
    }),
    ("requestsHash", "header is missing requestsHash", |header| header.requests_hash = None),
];

/// The field that the error names, and its words.
fn field_and_words(error: ImportError) -> (&'static str, String) {
    match error {
        ImportError::Invalid { why: InvalidBlock::Field { field, words }, .. } => (field, words),
        other => panic!("no field is named: {other}"),
    }
}

fn field_of(error: ImportError) -> &'static str {
    field_and_words(error).0
}

#[test]
fn each_wrong_field_is_named_in_geths_words_and_leaves_nothing() {
    let from = made();
    let to = fresh(&from);
    for (index, (field, words, slip)) in SLIPS.iter().enumerate() {
        let mut block = given(&from, 1);
        slip(&mut block.header);
        let (found, said) = field_and_words(to.import(block, Paths::Both(2)).expect_err(field));
        assert_eq!(found, *field, "slip {index}");
        assert!(said.starts_with(words), "slip {index}: {said}");
        assert_eq!(to.head().number(), 0);
    }
    let mut without = given(&from, 1);
    without.withdrawals = None;
    let missing = field_and_words(to.import(without, Paths::Serial).expect_err("they are missing"));
    assert_eq!(missing, ("withdrawals", "missing withdrawals in block body".into()));
    let missing = to.import(given(&from, 2), Paths::Serial).expect_err("block 1 is missing");
    assert_eq!(field_of(missing), "number");
    to.import(given(&from, 1), Paths::Serial).expect("what was given before has left nothing");
}

#[test]
fn a_field_of_a_later_fork_is_refused() {
    let forks = Forks::all_until(SpecId::LONDON);
    let genesis = Genesis { forks, difficulty: U256::from(1 << 20), ..Genesis::dev(31337, &[], 30_000_000) };
    let zero = Header { difficulty: genesis.difficulty, gas_limit: 30_000_000, ..Default::default() };
    let hash = zero.hash_slow();
    let after = Header {
        parent_hash: hash,
        number: 1,
        timestamp: 15,
        difficulty: zero.difficulty,
        // The first block with a base fee has twice the limit.
        gas_limit: 60_000_000,
        base_fee_per_gas: Some(1_000_000_000),
        ..Default::default()
    };
    assert_eq!(check_header(&after, &zero, hash, &genesis), Ok(()));
    let said = |slip: fn(&mut Header)| {
        let mut header = after.clone();
        slip(&mut header);
        check_header(&header, &zero, hash, &genesis).expect_err("it is refused").to_string()
    };
    assert_eq!(said(|header| header.blob_gas_used = Some(7)), "invalid blobGasUsed: have 7, expected nil");
    assert_eq!(said(|header| header.excess_blob_gas = Some(7)), "invalid excessBlobGas: have 7, expected nil");
    assert!(said(|header| header.withdrawals_root = Some(B256::ZERO)).starts_with("invalid withdrawalsHash: have 000"));
    let early = said(|header| header.parent_beacon_block_root = Some(B256::ZERO));
    assert_eq!(early, format!("invalid parentBeaconRoot, have 0x{}, expected nil", "0".repeat(64)));
    assert!(said(|header| header.requests_hash = Some(B256::ZERO)).starts_with("invalid requestsHash: have 000"));
    assert_eq!(said(|header| header.timestamp = 0), "timestamp older than parent");
    assert_eq!(said(|header| header.extra_data = vec![0; 33].into()), "extra-data too long: 33 > 32");
    let fee = "invalid baseFee: have 1000000001, want 1000000000, parentBaseFee <nil>, parentGasUsed 0";
    assert_eq!(said(|header| header.base_fee_per_gas = Some(1_000_000_001)), fee);
    let early = Genesis { forks: Forks::all_until(SpecId::BERLIN), ..genesis.clone() };
    let header = Header { gas_limit: 30_000_000, ..after.clone() };
    let why = check_header(&header, &zero, hash, &early).expect_err("Berlin has no base fee").to_string();
    assert_eq!(why, "invalid baseFee before fork: have 1000000000, expected 'nil'");
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
    assert!(error.contains("block 1 (0x") && error.contains("could not apply tx 0: nonce too high"), "{error}");
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
