//! Byte-for-byte equality with the cluster's own crates: vectors that `oracle/` generated with `solana-ledger` and
//! `solana-entry` 4.2.2.

use super::*;
use hearth_crypto::ed25519::SigningKey;
use hearth_crypto::merkle::MixinTree;
use hearth_crypto::sha256::{sha256, sha256_chain, sha256_mix};
use hearth_wire::entry::Entries;
use hearth_wire::shred::SHREDS_PER_SET;

static FILE: &[u8] = include_bytes!("vectors.bin");

/// Reads the file from its front; the format is described in `oracle/shreds/src/main.rs`.
struct Reader(&'static [u8]);

impl Reader {
    fn slice(&mut self, len: usize) -> &'static [u8] {
        let (head, rest) = self.0.split_at(len);
        self.0 = rest;
        head
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.slice(N).try_into().unwrap()
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }
}

/// The shreds of a case: all their bytes, or a digest of each set.
enum Expected {
    Whole(Vec<&'static [u8]>),
    Digests(Vec<[u8; 32]>),
}

/// Equals the function with that name in `oracle/shreds/src/main.rs`.
fn noise(len: usize) -> Vec<u8> {
    let mut x = len as u64 | 1;
    let noise = std::iter::repeat_with(move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 24) as u8
    });
    1u64.to_le_bytes().into_iter().chain(noise).take(len).collect()
}

struct Case {
    slot: u64,
    parent: u64,
    tick: u8,
    last: bool,
    first_index: u32,
    chained_root: [u8; 32],
    bytes: Vec<u8>,
    expected: Expected,
}

struct Vectors {
    key: SigningKey,
    chain_start: [u8; 32],
    version: u16,
    cases: Vec<Case>,
}

fn vectors() -> Vectors {
    let mut file = Reader(FILE);
    let key = SigningKey::from_seed(&file.array());
    let (chain_start, version) = (file.array(), u16::from_le_bytes(file.array()));
    let count = file.u32();
    let cases = (0..count)
        .map(|_| {
            let (slot, parent) = (u64::from_le_bytes(file.array()), u64::from_le_bytes(file.array()));
            let [tick, last] = file.array();
            let (first_index, chained_root) = (file.u32(), file.array());
            let (len, sets) = (file.u32() as usize, file.u32() as usize);
            let [whole] = file.array();
            let (bytes, expected) = if whole == 1 {
                let bytes = file.slice(len).to_vec();
                let mut shred = || {
                    let len = u16::from_le_bytes(file.array());
                    file.slice(len.into())
                };
                (bytes, Expected::Whole((0..sets * SHREDS_PER_SET).map(|_| shred()).collect()))
            } else {
                (noise(len), Expected::Digests((0..sets).map(|_| file.array()).collect()))
            };
            Case { slot, parent, tick, last: last == 1, first_index, chained_root, bytes, expected }
        })
        .collect();
    assert!(file.0.is_empty(), "the file ends with its last case");
    Vectors { key, chain_start, version, cases }
}

/// Makes the signed sets of a case with our shredder.
fn sets_of(vectors: &Vectors, case: &Case) -> Vec<FecSet> {
    let config = ShredderConfig { version: vectors.version, batch_sets: 8, ..ShredderConfig::default() };
    let mut shredder = Shredder::new(config, case.chained_root);
    shredder.begin_slot(case.slot, case.parent).unwrap();
    shredder.set_next_index(case.first_index);
    shredder.push_batch(&case.bytes, case.tick);
    shredder.end_batch(case.last);
    let (mut sets, mut set) = (Vec::new(), FecSet::new());
    while shredder.next_set(&mut set) {
        set.sign(&vectors.key.sign(set.root()));
        sets.push(set.clone());
    }
    sets
}

#[test]
fn shreds_are_those_of_the_cluster() {
    let vectors = vectors();
    assert!(vectors.cases.len() > 40);
    for case in &vectors.cases {
        let sets = sets_of(&vectors, case);
        let ours: Vec<&[u8]> = sets.iter().flat_map(FecSet::shreds).collect();
        let what = format!("{} entry bytes, last in slot: {}", case.bytes.len(), case.last);
        match &case.expected {
            Expected::Whole(theirs) => {
                assert_eq!(ours.len(), theirs.len(), "{what}");
                for (i, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                    assert!(ours == theirs, "shred {i} of {what}:\n{ours:02x?}\n{theirs:02x?}");
                }
            }
            Expected::Digests(theirs) => {
                let ours: Vec<[u8; 32]> = ours.chunks(SHREDS_PER_SET).map(sha256).collect();
                assert!(&ours == theirs, "{what}");
            }
        }
    }
}

#[test]
fn the_clusters_shreds_give_its_entries_back() {
    let vectors = vectors();
    let block: Vec<&Case> = vectors.cases.iter().take(2).collect();
    let mut deshredder = Deshredder::new(block[0].slot, Some(block[0].chained_root), SHREDS_PER_SLOT_MAX);
    for case in &block {
        let Expected::Whole(shreds) = &case.expected else {
            panic!("the first two cases are whole");
        };
        // Every third data shred is lost; parity fills in.
        for (i, bytes) in shreds.iter().enumerate().filter(|(i, _)| i % SHREDS_PER_SET % 3 != 1) {
            let shred = Shred::parse(bytes).unwrap();
            let root = merkle_root(&shred).unwrap();
            assert_eq!(shred.signature(), vectors.key.sign(&root), "shred {i}");
            deshredder.add(&shred).unwrap();
        }
    }
    for case in block {
        assert_eq!(deshredder.next_batch(), Ok(Some(case.bytes.clone())));
    }
    assert!(deshredder.ended());
}

#[test]
fn the_clusters_entries_follow_from_each_other() {
    let vectors = vectors();
    let (mut hash, mut tree) = (vectors.chain_start, MixinTree::default());
    let (mut ticks, mut transactions) = (0, 0);
    for case in &vectors.cases[..2] {
        for entry in Entries::parse(&case.bytes).unwrap() {
            let entry = entry.unwrap();
            if entry.is_tick() {
                ticks += 1;
                hash = sha256_chain(hash, entry.num_hashes);
            } else {
                for transaction in entry.transactions() {
                    transaction.signatures().iter().for_each(|s| tree.push(s));
                    transactions += 1;
                }
                hash = sha256_mix(sha256_chain(hash, entry.num_hashes - 1), tree.take_root());
            }
            assert_eq!(&hash, entry.hash);
        }
    }
    assert!(ticks > 5 && transactions > 100, "{ticks} ticks, {transactions} transactions");
}
