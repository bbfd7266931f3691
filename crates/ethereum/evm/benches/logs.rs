//! A look for logs through all of a chain on disk, of which few blocks logged anything.
//!
//! reads   `--blocks N`
//! writes  milliseconds of one look, beside its goal
//! memory  the index of the blocks; on disk about 700 B for each
//! source  every thousandth block has a log of one of ten contracts
//!
//! cargo bench -p hearth-evm --bench logs

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use alloy_consensus::TxLegacy;
use alloy_primitives::{Address, B256, Bloom, BloomInput, Bytes, Log, TxKind, U256};
use hearth_crypto::secp256k1::Signer;
use hearth_evm::block::{Block, Body, Receipt, Roots};
use hearth_evm::blocks::BlockStore;
use hearth_evm::exec::BlockEnv;
use hearth_evm::state::Changes;
use hearth_evm::tx::{Tx, TypedTransaction};
use hearth_testkit::bench::Stats;
use revm::primitives::hardfork::SpecId;

/// Milliseconds that a look may take for each million of blocks.
const GOAL_MS: f64 = 50.0;
const ROUNDS: usize = 15;

fn contract(number: u64) -> Address {
    Address::repeat_byte(0x40 + (number / 1_000 % 10) as u8)
}

fn block(number: u64, signer: &Signer) -> Arc<Block> {
    let env = BlockEnv {
        number,
        timestamp: number,
        beneficiary: Address::ZERO,
        gas_limit: 1 << 30,
        base_fee: 7,
        prevrandao: B256::ZERO,
        parent_hash: Some(B256::from(U256::from(number))),
        parent_beacon_block_root: Some(B256::ZERO),
        chain_id: 1,
        spec: SpecId::OSAKA,
        limits: Default::default(),
        blobs: Default::default(),
        deposit_contract: Default::default(),
    };
    let mut body = Body::default();
    if number.is_multiple_of(1_000) {
        let to = TxKind::Call(contract(number));
        let tx = TxLegacy { chain_id: Some(1), nonce: number, gas_price: 9, to, ..Default::default() };
        let tx = Arc::new(Tx::signed(TypedTransaction::from(tx), signer));
        let log = Log::new_unchecked(contract(number), vec![B256::repeat_byte(4)], Bytes::new());
        body.receipts.push(Receipt::new(&tx, true, 21_000, vec![log], 0, 7));
        body.txs.push(tx);
    }
    let roots = Roots::of(&body);
    Block::seal(&env, body, roots, Vec::new(), B256::ZERO, Bytes::new())
}

/// How many blocks may have a log of that contract, and were read to see.
fn look(store: &BlockStore, blocks: u64, of: Address) -> u64 {
    let wanted = Bloom::from(BloomInput::Raw(of.as_slice()));
    let (mut from, mut found) = (1, 0);
    while let Some(number) = store.next_with(from, blocks, |bloom| bloom.contains(&wanted)).expect("it is read") {
        black_box(store.block(number).expect("it is read"));
        found += 1;
        from = number + 1;
    }
    found
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let mut blocks = 1_000_000;
    while let Some(arg) = args.next() {
        if arg == "--blocks" {
            blocks = args.next().and_then(|count| count.parse().ok()).expect("--blocks N");
        }
    }
    let (dir, signer) = (tempfile::tempdir().expect("a folder"), Signer::new(&[7; 32]).expect("a key"));
    let open = || BlockStore::open(dir.path(), 1, B256::ZERO).expect("it opens");
    {
        let store = open();
        for number in 1..=blocks {
            store.append(&block(number, &signer), &Changes::default()).expect("appended");
        }
    }
    let began = Instant::now();
    let store = open();
    println!("{blocks} blocks, opened in {:.2} s", began.elapsed().as_secs_f64());
    for (name, of) in [("one contract's logs", contract(0)), ("nobody's logs", Address::ZERO)] {
        let mut samples: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let began = Instant::now();
                let found = look(&store, blocks, of);
                assert!(found >= if of == contract(0) { blocks / 10_000 } else { 0 });
                began.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        let Stats { p5, median, p95 } = Stats::of(&mut samples);
        let goal = GOAL_MS * (blocks as f64 / 1e6).max(0.1);
        let verdict = if median <= goal { "met" } else { "MISSED" };
        println!("{name:<24} {median:>9.2} ms  [{p5:.2} – {p95:.2}]   ceiling {goal:.0} ms {verdict}");
    }
}
