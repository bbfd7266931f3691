//! Benchmarks parsing, patching, tags and base58 of a 215-byte transfer.
//!
//! reads   the name filter of `cargo bench -- NAME`
//! writes  one line per figure; the ceiling for a parse is 60 ns, the goal 40 ns
//! memory  1024 transfers, 220 KB

use std::hint::black_box;
use std::time::Duration;

use hearth_testkit::bench::{Bench, Unit};
use hearth_wire::base58;
use hearth_wire::entry::{Entry, write_entry};
use hearth_wire::{TagHasher, TransferTemplate, Txn, hash64};

const TRANSFERS: usize = 1024;

/// Bytes that look random, so that no two transfers are alike.
fn noise<const N: usize>(seed: u64) -> [u8; N] {
    std::array::from_fn(|i| hash64(seed, &i.to_le_bytes()) as u8)
}

fn transfers(template: TransferTemplate) -> Vec<Vec<u8>> {
    let mut template = template;
    (0..TRANSFERS as u64)
        .map(|i| {
            template.set_from(&noise(4 * i));
            template.set_to(&noise(4 * i + 1));
            template.set_recent_blockhash(&noise(3));
            template.set_lamports(i);
            template.sign_with(|_| noise(4 * i + 2)).to_vec()
        })
        .collect()
}

fn main() {
    // Short rounds, most of which run undisturbed on a busy machine.
    let bench = Bench::from_args().with_rounds(101, Duration::from_millis(2));
    let plain = transfers(TransferTemplate::new());
    let limited = transfers(TransferTemplate::with_limits(450, 32 * 1024));
    let count = TRANSFERS as u64;

    let parse_all = |transfers: &[Vec<u8>]| {
        for bytes in transfers {
            let _ = black_box(Txn::parse(black_box(bytes)));
        }
        count
    };
    bench.run("parse a 215-byte transfer", Unit::NanosPerItem, Some(60.0), || parse_all(&plain));
    bench.run("parse a 263-byte transfer with limits", Unit::NanosPerItem, Some(60.0), || parse_all(&limited));

    bench.run("parse and read every field", Unit::NanosPerItem, None, || {
        for bytes in &plain {
            let txn = Txn::parse(black_box(bytes)).expect("a transfer");
            black_box((txn.first_signature(), txn.message(), txn.account_keys(), txn.recent_blockhash()));
            for instruction in txn.instructions() {
                black_box(instruction);
            }
        }
        count
    });

    let mut template = TransferTemplate::new();
    let (from, to, blockhash, signature) = (noise(1), noise(2), noise(3), noise(4));
    let mut lamports = 0;
    bench.run("patch a transfer template", Unit::NanosPerItem, Some(20.0), || {
        for _ in 0..count {
            lamports += 1;
            template.set_from(black_box(&from));
            template.set_to(black_box(&to));
            template.set_recent_blockhash(black_box(&blockhash));
            template.set_lamports(lamports);
            black_box(template.sign_with(|_| *black_box(&signature)));
        }
        count
    });

    let hasher = TagHasher::new(black_box(7));
    bench.run("hash64 of a signature", Unit::NanosPerItem, Some(20.0), || {
        for bytes in &plain {
            black_box(hasher.hash64(&bytes[1..65]));
        }
        count
    });

    let mut entry = Vec::new();
    write_entry(1, &[1; 32], 64, &plain[..64].concat(), &mut entry);
    bench.run("parse an entry, per transfer", Unit::NanosPerItem, Some(60.0), || {
        let _ = black_box(Entry::parse(black_box(&entry)));
        64
    });
    base58_texts(&bench);
}

fn base58_texts(bench: &Bench) {
    let (key, signature) = (noise(5), noise(6));
    let (key_text, signature_text) = (base58::encode_32(&key), base58::encode_64(&signature));
    // The crate bs58 is the baseline.
    let ns = Unit::NanosPerItem;
    let each = |work: &dyn Fn()| (0..20).map(|_| work()).count() as u64;
    let mut buffer = [0u8; 88];
    let mut yardstick = |bytes: &[u8]| {
        black_box(bs58::encode(black_box(bytes)).onto(&mut buffer[..])).expect("fits");
        1
    };
    let ours = || each(&|| _ = black_box(base58::encode_32(black_box(&key))));
    bench.paired("base58 encode 32 bytes", ns, Some(0.5), ours, || yardstick(&key));
    let ours = || each(&|| _ = black_box(base58::encode_64(black_box(&signature))));
    bench.paired("base58 encode 64 bytes", ns, Some(0.5), ours, || yardstick(&signature));
    let mut yardstick = |text: &str| {
        black_box(bs58::decode(black_box(text)).onto(&mut buffer[..])).expect("fits");
        1
    };
    let ours = || each(&|| _ = black_box(base58::decode_32(black_box(&key_text))));
    bench.paired("base58 decode 32 bytes", ns, Some(0.5), ours, || yardstick(&key_text));
    let ours = || each(&|| _ = black_box(base58::decode_64(black_box(&signature_text))));
    bench.paired("base58 decode 64 bytes", ns, Some(0.5), ours, || yardstick(&signature_text));
}
