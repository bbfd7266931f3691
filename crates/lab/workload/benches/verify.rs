//! verify: signatures per second through the tile, including its links, compared with stock ed25519-dalek.
//!
//! reads   transfers of 1,024 signers, each of which signs repeatedly
//! writes  one line per figure, and the ratio to dalek's `verify_strict` with the key decoded
//! memory  8,192 transfers; 512 MB of signature tables at most
//!
//! cargo bench -p hearth-workload --bench verify

use std::hint::black_box;

use hearth_testkit::bench::{Bench, Unit};
use hearth_wire::txn::Txn;
use hearth_workload::Work;
use hearth_workload::verify::{Load, TABLES};

fn dalek(transfer: &[u8]) {
    let txn = Txn::parse(transfer).expect("a transfer");
    let key = ed25519_dalek::VerifyingKey::from_bytes(&txn.signer_keys()[0]).expect("a key");
    let signature = ed25519_dalek::Signature::from_bytes(&txn.signatures()[0]);
    key.verify_strict(black_box(txn.message()), &signature).expect("valid");
}

fn main() {
    let bench = Bench::from_args();
    for (name, table_bytes, goal) in
        [("verify tile, 1,024 repeat signers", TABLES, 3.0), ("verify tile, keys without tables", 0, 1.5)]
    {
        let mut load = Load::new(table_bytes);
        let (transfers, mut at) = (load.transfers().to_vec(), 0);
        let yardstick = || {
            for _ in 0..32 {
                dalek(&transfers[at]);
                at = (at + 1) % transfers.len();
            }
            32
        };
        bench.paired(name, Unit::PerSecond, Some(goal), || load.round(), yardstick);
    }
}
