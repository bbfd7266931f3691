//! Files that a node reads: its configuration, keys, recorded ledgers and logs.
//!
//! reads   arbitrary bytes
//! writes  nothing; panics if a property does not hold
//! memory  what an input decodes to

use std::hint::black_box;
use std::path::Path;

use hearth_node::config::{check, idle_keys, load_str};
use hearth_node::recorded::format::parse_blocks;
use hearth_wal::frames::{self, Frame, HEAD};
use hearth_wal::{Step, Walk, read_record};
use hearth_wire::base58::decode_32;

use crate::pieces::pieces;

/// The name of the input in messages.
const NAME: &str = "input";

/// The configuration of a Solana node.
pub fn node_config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match load_str(text, Path::new(NAME)) {
        Ok(loaded) => {
            assert_eq!(check(&loaded.config), Ok(()));
            black_box((idle_keys(&loaded.config), loaded.config.tile_counts()));
        }
        Err(why) => assert!(why.to_string().contains(NAME)),
    }
}

/// A key file: a parsed one has a public key that belongs to its private key.
pub fn key_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match hearth_keys::parse(text, Path::new(NAME)) {
        Ok(identity) => {
            assert_eq!(identity.keypair.public_key(), identity.public);
            assert_eq!(decode_32(&identity.address()), Ok(identity.public));
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

/// The blocks of a recorded ledger, unpacked.
pub fn recorded_blocks(input: &[u8]) {
    let Ok(blocks) = parse_blocks(input, Path::new(NAME)) else { return };
    assert_eq!(blocks[0].slot, 0);
    for block in &blocks {
        assert!(block.parent < block.slot || block.slot == 0);
    }
}

/// A log's file, of whatever bytes.
pub fn log_file(input: &[u8]) {
    if let Ok(contents) = frames::read(input) {
        let mut written = Vec::new();
        for (place, bytes) in &contents.records {
            assert_eq!(*place, written.len() as u64);
            frames::push(&mut written, 0, &[*bytes]);
        }
        assert_eq!(contents.whole, written.len() as u64);
        assert_eq!(&input[..written.len()], written);
    }
    let (mut walk, mut at) = (Walk::new(input, Frame, 0, input.len() as u64), 0);
    loop {
        match walk.step().expect("memory can be read") {
            Step::Record { bytes, at: begin, end } => {
                assert_eq!(begin, at);
                assert_eq!(end - begin, bytes.len() as u64);
                at = end;
            }
            Step::Damage(damage) => {
                assert_eq!(damage.at, at);
                assert!(damage.length > 0);
                at += damage.length;
            }
            Step::Skipped => panic!("nothing is passed over"),
            Step::End => break,
        }
    }
    assert_eq!(at, input.len() as u64);
    let mut buffer = Vec::new();
    for at in [0, 1, input.len() as u64 / 2, input.len() as u64, u64::MAX] {
        black_box(read_record(input, Frame, at, &mut buffer).expect("memory can be read").is_ok());
    }
}

/// A log of the records in an input of [`pieces`], damaged as its first bytes say: where, two bytes in little endian,
/// and how, one byte, three times. No record is read other than it was written.
pub fn log_damage(input: &[u8]) {
    let Some((damage, records)) = input.split_first_chunk::<9>() else { return };
    let mut whole = Vec::new();
    pieces(records).for_each(|record| frames::push(&mut whole, 0, &[record]));
    let mut damaged = whole.clone();
    for [low, high, change] in damage.as_chunks::<3>().0 {
        if !damaged.is_empty() {
            let at = usize::from(u16::from_le_bytes([*low, *high])) % damaged.len();
            match change % 4 {
                0 => damaged.truncate(at),
                _ => damaged[at] ^= change,
            }
        }
    }
    match frames::read(&damaged) {
        Ok(contents) => {
            assert!(contents.whole <= damaged.len() as u64);
            for (place, bytes) in contents.records {
                let begin = place as usize + HEAD;
                assert_eq!(whole.get(begin..begin + bytes.len()), Some(bytes));
            }
        }
        Err(place) => assert!(place < damaged.len() as u64),
    }
}
