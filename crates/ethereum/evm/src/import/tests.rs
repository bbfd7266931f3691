//! Files of blocks, whole and not.

use std::sync::Arc;

use alloy_consensus::TxLegacy;
use alloy_primitives::{Address, TxKind};

use super::rlp::Item;
use super::*;
use crate::block::transactions_root;
use crate::builders::{rich, signer, transfer};
use crate::chain::{BlockTime, Chain, ChainConfig};
use crate::genesis::Genesis;
use crate::tx::Tx;

const CHAIN: u64 = 31337;

/// Three blocks one behind the other, and where each ends.
fn file() -> (Vec<u8>, Vec<usize>) {
    let genesis = Genesis::dev(CHAIN, &rich(1..=2), 30_000_000);
    let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
    let chain = Chain::open(config).expect("it opens");
    let (mut file, mut ends) = (Vec::new(), Vec::new());
    for nonce in 0..3 {
        let sent = chain.submit(vec![transfer(CHAIN, 1, nonce).raw, transfer(CHAIN, 2, nonce).raw]);
        assert!(sent.iter().all(Result::is_ok), "{sent:?}");
        chain.mine().expect("made").encode(&mut file);
        ends.push(file.len());
    }
    (file, ends)
}

/// How many blocks are read before the end or an error, and the error.
fn read(file: &[u8]) -> (usize, Option<ReadError>) {
    let mut reader = BlockReader::new(file);
    let mut count = 0;
    while let Some(block) = reader.next() {
        match block {
            Ok(_) => count += 1,
            Err(error) => {
                assert!(reader.next().is_none(), "behind an error there is nothing");
                return (count, Some(error));
            }
        }
    }
    (count, None)
}

fn offset_of(error: Option<ReadError>) -> u64 {
    match error {
        Some(ReadError::Block(InvalidBlock::Rlp(fault))) => fault.offset,
        other => panic!("no byte is named: {other:?}"),
    }
}

#[test]
fn blocks_come_back_as_they_were_written() {
    let (file, ends) = file();
    let numbers: Vec<u64> = BlockReader::new(&file[..]).map(|block| block.expect("whole").header.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let first = decode_block(&file[..ends[0]], 0).expect("whole");
    assert_eq!((first.size, first.hash), (ends[0] as u64, first.header.hash_slow()));
    assert_eq!(senders(first.txs).expect("signed").len(), 2);
    assert!(matches!(read(&[]), (0, None)));
}

#[test]
fn a_cut_file_has_the_byte_at_which_its_block_begins() {
    let (file, ends) = file();
    for length in 0..file.len() {
        let whole = ends.iter().filter(|end| **end <= length).count();
        let begins = whole.checked_sub(1).map_or(0, |last| ends[last]);
        let (count, error) = read(&file[..length]);
        assert_eq!(count, whole, "cut at {length}");
        if length == begins {
            assert!(error.is_none(), "{error:?}");
        } else {
            assert_eq!(offset_of(error), begins as u64, "cut at {length}");
        }
    }
}

/// The contents of a block: its hash, the root of its transactions if they are signed, its withdrawals.
fn content(block: &GivenBlock) -> (B256, Option<B256>, Option<Vec<Withdrawal>>) {
    let txs = senders(block.txs.clone()).ok();
    (block.hash, txs.map(|txs| crate::block::transactions_root(&txs)), block.withdrawals.clone())
}

fn list(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    alloy_rlp::Header { list: true, payload_length: payload.len() }.encode(&mut out);
    out.extend_from_slice(payload);
    out
}

/// The first block, with other bytes for a field of its header.
fn with_field(block: &[u8], index: usize, bytes: &[u8]) -> Vec<u8> {
    let block = Item::first(block, 0).expect("a block");
    let parts: Vec<&[u8]> = block.items().map(|part| part.whole).collect();
    let header = Item::first(parts[0], 0).expect("a header");
    let mut fields: Vec<&[u8]> = header.items().map(|field| field.whole).collect();
    fields[index] = bytes;
    list(&[&list(&fields.concat())[..], &parts[1..].concat()].concat())
}

#[test]
fn a_changed_byte_is_no_panic_and_no_other_block() {
    let (file, ends) = file();
    let block = decode_block(&file[..ends[0]], 0).expect("whole");
    for at in 0..ends[0] {
        for bit in [1, 0x80] {
            let mut wrong = file[..ends[0]].to_vec();
            wrong[at] ^= bit;
            if let Ok(other) = decode_block(&wrong, 0) {
                assert!(content(&other) != content(&block), "byte {at} says nothing");
            }
        }
    }
}

#[test]
fn lying_lengths_are_refused_without_their_memory() {
    // A block of 2^63 bytes, and one of a byte more than may be.
    let huge = [&[0xff][..], &(1u64 << 63).to_be_bytes()].concat();
    assert_eq!(offset_of(read(&huge).1), 0);
    let long = [&[0xfb][..], &(BLOCK_BYTES_MAX as u32).to_be_bytes()].concat();
    assert_eq!(offset_of(read(&long).1), 0);
    // A valid head without its payload.
    let empty = [&[0xfb][..], &(BLOCK_BYTES_MAX as u32 - 5).to_be_bytes()].concat();
    let mut reader = BlockReader::new(&empty[..]);
    assert!(reader.next().is_some_and(|block| block.is_err()));
    assert!(reader.bytes_held() < 1 << 16, "{} bytes were made room for", reader.bytes_held());
    // No list at all.
    assert_eq!(offset_of(read(b"chain").1), 0);
}

#[test]
fn parts_and_fields_are_named() {
    let said = |bytes: &[u8]| decode_block(bytes, 0).expect_err("it is not a block").to_string();
    assert!(said(&[0xc0]).contains("lacks its header"));
    assert!(said(&[0xc3, 0xc0, 0xc0, 0xc0]).contains("header: 0 fields"));
    assert!(said(&list(&[&list(&[0x80; 22])[..], &[0xc0, 0xc0]].concat())).contains("header: 22 fields"));
    assert!(said(&[0xc5, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0]).contains("byte 5: a block has no fifth part"));
    assert!(said(&[0xc3, 0x80, 0xc0, 0xc0]).contains("byte 1: header: expected a list"));
    let (file, ends) = file();
    let wrong: [(usize, &[u8], &str); 6] = [
        (0, &[0x81, 0x80], "header: parentHash: 1 bytes, not 32"),
        (2, &[0xc0], "header: miner: a list"),
        (8, &[0x82, 0, 1], "header: number: a number that begins with zeros"),
        (9, &[0x89, 1, 2, 3, 4, 5, 6, 7, 8, 9], "header: gasLimit: a number of 9 bytes, more than 8"),
        (14, &[0x80], "header: nonce: 0 bytes, not 8"),
        (20, &[0x05], "header: requestsHash: 1 bytes, not 32"),
    ];
    for (index, bytes, what) in wrong {
        let said = said(&with_field(&file[..ends[0]], index, bytes));
        assert!(said.starts_with("byte ") && said.ends_with(what), "{said}");
    }
}

#[test]
fn a_signature_for_one_chain_came_with_eip_155() {
    let check = |chain_id: Option<u64>, spec: SpecId| {
        let to = TxKind::Call(Address::repeat_byte(0x77));
        let tx = TxLegacy { chain_id, gas_limit: 21_000, gas_price: 1, to, ..Default::default() };
        let txs = [Arc::new(Tx::signed(tx.into(), &signer(1)))];
        let header = Header { transactions_root: transactions_root(&txs), ..Default::default() };
        check_body(&header, spec, &txs, None, 0)
    };
    for spec in [SpecId::HOMESTEAD, SpecId::TANGERINE] {
        assert_eq!(check(None, spec), Ok(()));
        assert!(matches!(check(Some(CHAIN), spec), Err(InvalidBlock::Transaction { index: 0, .. })));
    }
    assert_eq!(check(Some(CHAIN), SpecId::SPURIOUS_DRAGON), Ok(()));
}
