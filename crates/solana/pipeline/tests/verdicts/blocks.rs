//! Blocks that keep the rules or break one, as the batches of entries that their shreds carry.
//!
//! writes  the blocks, which follow the hash [`PARENT`] and have four ticks of 40 hashes

use std::collections::BTreeMap;

use hearth_crypto::ed25519::SigningKey;
use hearth_crypto::merkle::MixinTree;
use hearth_crypto::sha256::{sha256_chain, sha256_mix};
use hearth_ledger::builders;
use hearth_wire::Hash;
use hearth_wire::consts::SYSTEM_PROGRAM;
use hearth_wire::entry::{write_batch_header, write_entry};
use hearth_wire::message::{Instruction, Message};

/// The last hash of the parent block.
pub const PARENT: Hash = [5; 32];
/// The lamports of each wallet: the accounts 0 to 23.
pub const SOL: u64 = 1_000_000_000;
/// Has 4,000 lamports, less than the fee.
pub const POOR: u8 = 30;
/// Has the minimum balance and 4,000 lamports, less than the fee, above it.
pub const BARELY: u8 = 31;
/// Belongs to a program.
pub const OWNED: u8 = 32;
/// Stands for an account that does not exist.
const NOBODY: u8 = 33;

/// The key of an account.
pub fn key(number: u8) -> SigningKey {
    SigningKey::from_seed(&[number; 32])
}

/// An entry to be hashed.
#[derive(Clone)]
struct RawEntry {
    num_hashes: u64,
    txns: Vec<Vec<u8>>,
    has_wrong_hash: bool,
}

fn tick(num_hashes: u64) -> RawEntry {
    RawEntry { num_hashes, txns: vec![], has_wrong_hash: false }
}

fn microblock(txns: Vec<Vec<u8>>) -> RawEntry {
    RawEntry { num_hashes: 2, txns, has_wrong_hash: false }
}

/// A block whose first tick contains these microblocks.
fn block(microblocks: Vec<Vec<Vec<u8>>>) -> Vec<RawEntry> {
    let used = 2 * microblocks.len() as u64;
    let ticks = [40 - used, 40, 40, 40].map(tick);
    microblocks.into_iter().map(microblock).chain(ticks).collect()
}

/// The bytes of batches that follow a hash.
fn hashed(mut hash: Hash, batches: &[Vec<RawEntry>]) -> Vec<Vec<u8>> {
    let mut tree = MixinTree::default();
    let mut bytes_of = |batch: &Vec<RawEntry>| {
        let mut bytes = vec![];
        write_batch_header(batch.len(), &mut bytes);
        for entry in batch {
            if entry.txns.is_empty() {
                hash = sha256_chain(hash, entry.num_hashes);
            } else {
                // Some transactions do not parse, but each begins with a signature.
                entry.txns.iter().for_each(|txn| tree.push(txn[1..].first_chunk().expect("a signature")));
                hash = sha256_mix(sha256_chain(hash, entry.num_hashes - 1), tree.take_root());
            }
            hash[0] ^= u8::from(entry.has_wrong_hash);
            write_entry(entry.num_hashes, &hash, entry.txns.len(), &entry.txns.concat(), &mut bytes);
        }
        bytes
    };
    batches.iter().map(&mut bytes_of).collect()
}

fn transfer(from: u8, to: u8, lamports: u64) -> Vec<u8> {
    builders::transfer(&key(from), &key(to).public_key(), lamports, &PARENT)
}

fn transfers(count: u8, ends: impl Fn(u8) -> (u8, u8)) -> Vec<Vec<u8>> {
    let of = |n: u8| {
        let (from, to) = ends(n);
        transfer(from, to, 1)
    };
    (0..count).map(of).collect()
}

/// Two microblocks of transfers without conflicts.
fn valid() -> Vec<RawEntry> {
    block(vec![vec![transfer(0, 1, 1)], vec![transfer(2, 3, 1), transfer(4, 5, 1)]])
}

/// Collects the blocks by name, each as its hashed batches.
struct Maker {
    blocks: BTreeMap<&'static str, Vec<Vec<u8>>>,
}

impl Maker {
    fn add(&mut self, name: &'static str, batches: &[Vec<RawEntry>]) {
        self.blocks.insert(name, hashed(PARENT, batches));
    }

    /// A block of one microblock.
    fn add_txns(&mut self, name: &'static str, txns: Vec<Vec<u8>>) {
        self.add(name, &[block(vec![txns])]);
    }

    fn add_changed(&mut self, name: &'static str, change: impl FnOnce(&mut Vec<RawEntry>)) {
        let mut entries = valid();
        change(&mut entries);
        self.add(name, &[entries]);
    }

    fn ticks(&mut self) {
        self.add_changed("entry-hash", |entries| entries[0].has_wrong_hash = true);
        self.add_changed("tick-hash", |entries| entries[5].has_wrong_hash = true);
        let valid = valid();
        self.blocks.insert("chained-to-another-hash", hashed([7; 32], &[valid.clone()]));
        self.add_changed("too-few-ticks", |entries| drop(entries.pop()));
        self.add_changed("too-many-ticks", |entries| entries.push(tick(40)));
        self.add_changed("short-tick", |entries| entries[2].num_hashes -= 1);
        self.add_changed("long-tick", |entries| entries[2].num_hashes += 1);
        self.add_changed("tick-without-hash", |entries| {
            entries[1].num_hashes += entries[2].num_hashes;
            entries[2].num_hashes = 0;
        });
        let after = microblock(vec![transfer(6, 7, 1)]);
        self.add_changed("trailing-entry", |entries| entries.push(after.clone()));
        self.add("last-tick-before-the-last-batch", &[valid.clone(), vec![after]]);
        self.add("tick-after-the-last-batch", &[valid.clone(), vec![tick(40)]]);
        let mut first = valid.clone();
        first.truncate(1);
        first[0].num_hashes = 40;
        let rest = valid[1..].to_vec();
        self.add("full-tick-ends-a-batch", &[first, rest]);
    }

    fn batches(&mut self) {
        let valid = hashed(PARENT, &[valid()]).remove(0);
        self.blocks.insert("valid", vec![valid.clone()]);
        self.blocks.insert("bytes-after-a-batch", vec![[&valid[..], b"anything"].concat()]);
        self.blocks.insert("batch-in-two-parts", vec![valid[..100].to_vec(), valid[100..].to_vec()]);
        self.blocks.insert("truncated-batch", vec![valid[..valid.len() - 10].to_vec()]);
        self.blocks.insert("not-a-batch", vec![vec![0xff; 64]]);
        // The header of a later protocol's block.
        let marker = [&[0; 8][..], &[1, 0, 1, 41, 0, 1], &[0; 40]].concat();
        self.blocks.insert("block-marker", vec![marker, valid]);
    }

    fn transactions(&mut self) {
        self.add_txns("conflicts-in-an-entry", vec![transfer(0, 1, 1), transfer(0, 1, 2)]);
        self.add_txns("failed-transaction", vec![transfer(0, 1, 2 * SOL)]);
        let mut unsigned = transfer(0, 1, 1);
        unsigned[7] ^= 1;
        self.add_txns("signature", vec![unsigned]);
        let twice = transfer(0, 1, 1);
        self.add_txns("duplicate-in-an-entry", vec![twice.clone(), twice.clone()]);
        self.add("duplicate-in-a-block", &[block(vec![vec![twice.clone()], vec![twice]])]);
        let unknown = builders::transfer(&key(0), &key(1).public_key(), 1, &[8; 32]);
        self.add_txns("unknown-blockhash", vec![unknown]);
        self.add_txns("payer-without-account", vec![transfer(NOBODY, 1, 1)]);
        self.add_txns("payer-below-the-fee", vec![transfer(POOR, 1, 1)]);
        self.add_txns("payer-below-the-minimum", vec![transfer(BARELY, 1, 1)]);
        self.add_txns("payer-of-a-program", vec![transfer(OWNED, 1, 1)]);
        self.add_txns("account-twice", vec![transfer(0, 0, 1)]);
        let calls = vec![Instruction { program_id: SYSTEM_PROGRAM, accounts: vec![], data: vec![] }; 65];
        let message = Message::compile(&key(0).public_key(), &calls, &PARENT).unwrap();
        self.add_txns("too-many-instructions", vec![message.sign_with(|_, message| key(0).sign(message))]);
    }

    /// Transactions that are no valid ones whatever the state. Their signatures are wrong too, which comes later.
    fn malformed(&mut self) {
        // A signature, the header, three accounts, the blockhash, one instruction.
        let program = 1 + 64 + 3 + 1 + 3 * 32 + 32 + 1;
        let mut bytes = transfer(0, 1, 1);
        bytes[program] = 0;
        self.add_txns("payer-is-called", vec![bytes]);
        let mut bytes = transfer(0, 1, 1);
        bytes[program + 2] = 3;
        self.add_txns("account-index", vec![bytes]);
        let mut bytes = transfer(0, 1, 1);
        bytes[65] = 2;
        self.add_txns("signature-count", vec![bytes]);
        let data = 1_200u16;
        let mut bytes = transfer(0, 1, 1)[..program].to_vec();
        bytes.extend([2, 0, data as u8 | 0x80, (data >> 7) as u8]);
        bytes.resize(bytes.len() + usize::from(data), 0);
        self.add_txns("too-long", vec![bytes]);
    }

    fn costs(&mut self) {
        for (name, count) in [("full-block", 10), ("block-cost", 11)] {
            let txns = transfers(count, |n| (2 * n, 2 * n + 1));
            self.add_txns(name, txns);
        }
        for (name, count) in [("full-account", 5), ("account-cost", 6)] {
            let txns = transfers(count, |n| (0, n + 1));
            self.add_txns(name, txns);
        }
    }
}

/// The batches of each block, by the block's name.
pub fn all() -> BTreeMap<&'static str, Vec<Vec<u8>>> {
    let mut maker = Maker { blocks: BTreeMap::new() };
    maker.ticks();
    maker.batches();
    maker.transactions();
    maker.malformed();
    maker.costs();
    maker.blocks
}
