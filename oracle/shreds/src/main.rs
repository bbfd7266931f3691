//! Makes the vectors that Hearth's own shredder is tested against, with the cluster's own crates.
//!
//! reads   nothing; everything is derived from constants
//! writes  the file named on the command line
//! memory  a few megabytes
//! source  `solana-ledger` and `solana-entry` 4.2.2
//!
//! Run by hand, when a format changes; it builds RocksDB (20–30 CPU minutes) and needs
//! `apt-get install clang libclang-dev protobuf-compiler`:
//!
//! ```text
//! cd oracle/shreds && cargo run --locked -- ../../crates/solana/pipeline/src/shred/tests/vectors.bin
//! ```
//!
//! The file is a sequence of cases, all integers little endian:
//!
//! ```text
//! secret key 32, start hash of the chain 32, shred version u16, number of cases u32
//! case    slot u64, parent u64, reference tick u8, last in slot u8, first index u32, chained root 32,
//!         entry byte count u32, set count u32, whole u8; then
//!         whole = 1: the entry bytes, and the shreds, each a length u16 and its bytes;
//!         whole = 0: for each set the digest of its 64 shreds, 32; the entry bytes are `noise`
//! ```

use solana_entry::entry::{Entry, next_entry};
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_ledger::shred::{ProcessShredsStats, ReedSolomonCache, Shred, Shredder};
use solana_message::Message;
use solana_pubkey::Pubkey;
use solana_sha256_hasher::hash;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::Transaction;

const SECRET_KEY: [u8; 32] = [0x42; 32];
const VERSION: u16 = 0x1234;
/// Entry bytes of a set, and of the last set of a slot.
const SETS: [usize; 2] = [30_816, 28_768];

/// One batch of a slot.
struct Case {
    slot: u64,
    parent: u64,
    tick: u8,
    last: bool,
    first_index: u32,
    chained_root: Hash,
    bytes: Vec<u8>,
    whole: bool,
}

impl Case {
    /// The shreds of the batch, set by set, data first.
    fn shreds(&self) -> Vec<Shred> {
        let shredder = Shredder::new(self.slot, self.parent, self.tick, VERSION).expect("a valid slot");
        let made = shredder.make_shreds_from_data_slice(
            &Keypair::new_from_array(SECRET_KEY),
            &self.bytes,
            self.last,
            self.chained_root,
            self.first_index,
            self.first_index,
            &ReedSolomonCache::default(),
            &mut ProcessShredsStats::default(),
        );
        made.expect("shreds").collect()
    }

    /// Appends the case to the file; returns the root that the next batch is chained to, and its index.
    fn write(&self, out: &mut Vec<u8>) -> (Hash, u32) {
        let shreds = self.shreds();
        out.extend(self.slot.to_le_bytes());
        out.extend(self.parent.to_le_bytes());
        out.extend([self.tick, u8::from(self.last)]);
        out.extend(self.first_index.to_le_bytes());
        out.extend(self.chained_root.as_ref());
        out.extend(u32::try_from(self.bytes.len()).expect("a short batch").to_le_bytes());
        out.extend(u32::try_from(shreds.len() / 64).expect("few sets").to_le_bytes());
        out.push(u8::from(self.whole));
        if self.whole {
            out.extend(&self.bytes);
        }
        for set in shreds.chunks(64) {
            let payloads: Vec<&[u8]> = set.iter().map(|shred| &shred.payload()[..]).collect();
            if self.whole {
                for payload in payloads {
                    out.extend(u16::try_from(payload.len()).expect("a packet").to_le_bytes());
                    out.extend(payload);
                }
            } else {
                out.extend(hash(&payloads.concat()).as_ref());
            }
        }
        let root = shreds.last().expect("a set").merkle_root().expect("a root");
        (root, self.first_index + u32::try_from(shreds.len() / 2).expect("few shreds"))
    }
}

/// Returns `len` bytes that look like a batch of one entry: a count of one, then noise.
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

/// Entries after `previous`: ticks, and microblocks of transfers with one to three signatures.
fn entries(previous: &mut Hash, microblocks: u64) -> Vec<Entry> {
    let payer = Keypair::new_from_array([7; 32]);
    let others = [Keypair::new_from_array([8; 32]), Keypair::new_from_array([9; 32])];
    let mut out = Vec::new();
    for i in 0..microblocks {
        let transactions = (0..=i)
            .map(|j| {
                let signers = [&[&payer], &others.each_ref()[..(i + j) as usize % 3]].concat();
                let to = Pubkey::new_from_array(hash(&(i * 64 + j).to_le_bytes()).to_bytes());
                let pay = |from: &&Keypair| transfer(&from.pubkey(), &to, 1 + j);
                let instructions: Vec<_> = signers.iter().map(pay).collect();
                let message = Message::new_with_blockhash(&instructions, Some(&payer.pubkey()), previous);
                Transaction::new(&signers, message, *previous)
            })
            .collect();
        out.push(next_entry(previous, 1 + i * 3, transactions));
        *previous = out.last().expect("just pushed").hash;
        if i % 4 == 3 {
            out.push(next_entry(previous, 50 + i, vec![]));
            *previous = out.last().expect("just pushed").hash;
        }
    }
    out.push(next_entry(previous, 12, vec![]));
    *previous = out.last().expect("just pushed").hash;
    out
}

fn serialized(entries: &[Entry]) -> Vec<u8> {
    wincode::serialize(entries).expect("entries serialize")
}

fn cases() -> (Hash, Vec<u8>, u32) {
    let start = hash(b"the chain begins");
    let (mut out, mut count, mut poh) = (Vec::new(), 0, start);
    // A block of two batches, three sets in all, shred by shred.
    let mut at = (hash(b"the parent block's last root"), 0);
    for (microblocks, tick, last) in [(10, 5, false), (14, 63, true)] {
        let bytes = serialized(&entries(&mut poh, microblocks));
        let (slot, parent, (chained_root, first_index)) = (1_000_003, 1_000_001, at);
        at = Case { slot, parent, tick, last, first_index, chained_root, bytes, whole: true }.write(&mut out);
        count += 1;
    }
    // Every length at which the division into sets and shreds turns.
    let mut lens = vec![9, 100, 898, 899, 900, 962, 963, 964, 1926, 100_000];
    for around in [SETS[0], SETS[1], SETS[0] + SETS[1], 2 * SETS[0], 2 * SETS[0] + SETS[1]] {
        lens.extend([around - 1, around, around + 1]);
    }
    for (i, &len) in lens.iter().enumerate() {
        for last in [false, true] {
            let (slot, parent) = (7 + i as u64 * 1000, i as u64);
            let (tick, first_index) = (i as u8 * 3, 32 * i as u32);
            let (chained_root, bytes) = (hash(&[i as u8]), noise(len));
            Case { slot, parent, tick, last, first_index, chained_root, bytes, whole: false }.write(&mut out);
            count += 1;
        }
    }
    (start, out, count)
}

fn main() {
    let path = std::env::args().nth(1).expect("usage: hearth-oracle FILE");
    let (start, cases, count) = cases();
    let mut file = Vec::new();
    file.extend(SECRET_KEY);
    file.extend(start.as_ref());
    file.extend(VERSION.to_le_bytes());
    file.extend(count.to_le_bytes());
    file.extend(cases);
    std::fs::write(&path, &file).unwrap_or_else(|error| panic!("cannot write {path}: {error}"));
    println!("{count} cases, {} bytes", file.len());
}
