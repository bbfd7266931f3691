//! Snapshots from one application to another, without CometBFT between them.

use std::path::Path;

use alloy_consensus::TxEip1559;
use alloy_primitives::TxKind;
use bytes::Bytes;
use hearth_abci::response::{ApplyChunkResult, Offer};
use hearth_abci::types::{Snapshot, Timestamp};
use hearth_abci::{Application, request, response};
use hearth_comet::App;
use hearth_comet::app::Config;
use hearth_crypto::ed25519::SigningKey;
use hearth_evm::builders::{rich, signer};
use hearth_evm::chain::{BlockTime, Chain, ChainConfig};
use hearth_evm::tx::Tx;
use hearth_evm_utxo::{UtxoChain, genesis};
use hearth_testkit::wait_for;
use hearth_utxo::OwnerKey;

const CHAIN: u64 = 777;

fn owner() -> OwnerKey {
    OwnerKey(SigningKey::from_seed(&[5; 32]).public_key())
}

fn node(dir: Option<&Path>, interval: u64) -> App {
    let genesis = genesis::dev(CHAIN, &rich(1..=1), 500_000_000);
    let folder = dir.map(|dir| dir.join("snapshots"));
    let config =
        ChainConfig { dir: dir.map(Path::to_path_buf), block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
    let app = App::new(Chain::open(config).unwrap(), Config { retain_blocks: 3 });
    match folder {
        Some(folder) => app.with_snapshots(&folder, interval, 2).unwrap(),
        None => app,
    }
}

/// A contract's creation: the init code stores the block number, and leaves code of one byte.
fn deploy(nonce: u64) -> Bytes {
    let input = alloy_primitives::Bytes::from_static(&[0x43, 0x43, 0x55, 0x60, 1, 0x60, 0, 0xf3]);
    let transaction = TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: 200_000,
        max_fee_per_gas: 100_000_000_000,
        to: TxKind::Create,
        input,
        ..Default::default()
    };
    Tx::signed(transaction.into(), &signer(1)).raw.0.clone()
}

/// The transactions of the block of a height: of both ledgers.
fn txs(height: i64) -> Vec<Bytes> {
    let nonce = 2 * (height as u64 - 1);
    let there = hearth_evm_utxo::prism::call(CHAIN, nonce + 1, 100_000_000_000, &owner(), 1_000_000, &signer(1));
    vec![deploy(nonce), there.raw.0.clone()]
}

/// Executes and commits a block; gives the app hash and from which height on CometBFT is to keep blocks.
fn make(app: &App, height: i64) -> (Bytes, i64) {
    let time = Some(Timestamp { seconds: 1_700_000_000 + height, nanos: 0 });
    let request = request::FinalizeBlock { txs: txs(height), height, time, ..Default::default() };
    let end = app.finalize_block(request).unwrap();
    assert!(end.tx_results.iter().all(|result| result.code == 0));
    (end.app_hash, app.commit(request::Commit {}).unwrap().retain_height)
}

fn list(app: &App) -> Vec<Snapshot> {
    app.list_snapshots(request::ListSnapshots {}).unwrap().snapshots
}

/// Waits for the snapshot of that height.
fn snapshot(app: &App, height: u64) -> Snapshot {
    wait_for("a snapshot", || {
        let found = list(app).into_iter().find(|snapshot| snapshot.height == height);
        found.ok_or_else(|| format!("of block {height}"))
    })
}

fn offer(app: &App, snapshot: &Snapshot, app_hash: &Bytes) -> Offer {
    let request = request::OfferSnapshot { snapshot: Some(snapshot.clone()), app_hash: app_hash.clone() };
    app.offer_snapshot(request).unwrap().result()
}

fn apply(app: &App, index: u32, chunk: Bytes) -> response::ApplySnapshotChunk {
    app.apply_snapshot_chunk(request::ApplySnapshotChunk { index, chunk, sender: "peer".into() }).unwrap()
}

fn load(app: &App, height: u64, chunk: u32) -> Bytes {
    app.load_snapshot_chunk(request::LoadSnapshotChunk { height, format: 1, chunk }).unwrap().chunk
}

fn apply_all(app: &App, from: &App, snapshot: &Snapshot) -> ApplyChunkResult {
    (0..snapshot.chunks).map(|index| apply(app, index, load(from, snapshot.height, index)).result()).last().unwrap()
}

fn info(app: &App) -> (i64, Bytes) {
    let info = app.info(request::Info::default()).unwrap();
    (info.last_block_height, info.last_block_app_hash)
}

#[test]
fn a_node_begins_with_anothers_snapshot_and_continues() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let (one, other) = (node(Some(folders[0].path()), 4), node(Some(folders[1].path()), 4));
    let in_memory = node(None, 0);
    let mut hashes = vec![Bytes::new()];
    for height in 1..=10 {
        let (hash, retain) = make(&one, height);
        hashes.push(hash);
        if height % 4 == 0 {
            snapshot(&one, height as u64);
        }
        // Blocks needed by a node that starts from the oldest snapshot are not pruned.
        assert!(retain <= 4 && retain <= (height - 3).max(0), "{retain} of {height}");
    }
    assert_eq!(list(&one).iter().map(|snapshot| snapshot.height).collect::<Vec<_>>(), [4, 8]);
    let taken = snapshot(&one, 8);
    assert!(load(&one, 9, 0).is_empty() && load(&one, 8, taken.chunks).is_empty());
    for app in [&other, &in_memory] {
        assert_eq!(offer(app, &taken, &hashes[8]), Offer::Accept);
        assert_eq!(apply_all(app, &one, &taken), ApplyChunkResult::Accept);
        assert_eq!(info(app), (8, hashes[8].clone()));
        // CometBFT may have been killed before it knew: it asks once more.
        assert_eq!(offer(app, &taken, &hashes[8]), Offer::Accept);
        assert_eq!(apply_all(app, &one, &taken), ApplyChunkResult::Accept);
        for height in 9..=10 {
            assert_eq!(make(app, height).0, hashes[height as usize]);
        }
        assert_eq!(app.chain().outputs().commitment(), one.chain().outputs().commitment());
        assert_eq!((app.chain().block(7), app.chain().first_block()), (None, 8));
        assert_eq!(offer(app, &taken, &hashes[8]), Offer::Abort, "it has blocks of its own");
    }
    // A node that was restored offers the same snapshots.
    for height in 11..=12 {
        assert_eq!(make(&one, height).0, make(&other, height).0);
    }
    assert_eq!(snapshot(&one, 12), snapshot(&other, 12));
    let query = request::Query { path: "/snapshots".into(), ..Default::default() };
    assert_eq!(one.query(query).unwrap().value, "[8,12]");
    drop(other);
    let other = node(Some(folders[1].path()), 4);
    assert_eq!(info(&other), info(&one));
    assert_eq!(list(&other).last(), list(&one).last());
}

#[test]
fn snapshot_other_than_offered_is_refused() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (one, other) = (node(Some(folders[0].path()), 3), node(Some(folders[1].path()), 0));
    let hashes: Vec<Bytes> = (1..=3).map(|height| make(&one, height).0).collect();
    let (taken, hash) = (snapshot(&one, 3), &hashes[2]);
    let with = |change: &dyn Fn(&mut Snapshot)| {
        let mut other_snapshot = taken.clone();
        change(&mut other_snapshot);
        offer(&other, &other_snapshot, hash)
    };
    assert_eq!(with(&|snapshot| snapshot.format = 9), Offer::RejectFormat);
    assert_eq!(with(&|snapshot| snapshot.chunks = 1), Offer::Reject);
    assert_eq!(with(&|snapshot| snapshot.hash = Bytes::from_static(&[1; 32])), Offer::Reject);
    assert_eq!(with(&|snapshot| snapshot.metadata = Bytes::from_static(&[1; 33])), Offer::Reject);
    assert_eq!(other.offer_snapshot(request::OfferSnapshot::default()).unwrap().result(), Offer::Reject);
    assert_eq!(apply(&other, 0, load(&one, 3, 0)).result(), ApplyChunkResult::RejectSnapshot, "none was accepted");
    // The app hash of another block.
    assert_eq!(offer(&other, &taken, &hashes[1]), Offer::Accept);
    assert_eq!(apply(&other, 0, load(&one, 3, 0)).result(), ApplyChunkResult::RejectSnapshot);
    // A chunk corrupted on its way: retry with another sender.
    assert_eq!(offer(&other, &taken, hash), Offer::Accept);
    let said = apply(&other, 0, Bytes::from_static(b"else"));
    assert_eq!(
        (said.result(), said.refetch_chunks, said.reject_senders),
        (ApplyChunkResult::Retry, vec![0], vec!["peer".into()])
    );
    assert_eq!(apply(&other, 0, load(&one, 3, 0)).result(), ApplyChunkResult::Accept);
    assert!(folders[1].path().join("snapshots/incoming.part").exists());
    // A lie about anything after the headers is detected at the end.
    let mut lie = load(&one, 3, 1).to_vec();
    let last = lie.len() - 1;
    lie[last] ^= 1;
    let chunk_hashes = [load(&one, 3, 0), lie.clone().into()].map(|chunk| hearth_crypto::keccak::keccak256(&chunk));
    let metadata = chunk_hashes.concat();
    let hash_of_lie = Bytes::copy_from_slice(&hearth_crypto::keccak::keccak256(&metadata));
    let lying = Snapshot { hash: hash_of_lie, metadata: metadata.into(), ..taken.clone() };
    assert_eq!(offer(&other, &lying, hash), Offer::Accept);
    assert_eq!(apply(&other, 0, load(&one, 3, 0)).result(), ApplyChunkResult::Accept);
    assert_eq!(apply(&other, 1, lie.into()).result(), ApplyChunkResult::RejectSnapshot);
    assert_eq!(info(&other).0, 0);
    // And the right one still does.
    assert_eq!(offer(&other, &taken, hash), Offer::Accept);
    assert_eq!(apply_all(&other, &one, &taken), ApplyChunkResult::Accept);
    assert_eq!(info(&other), (3, hash.clone()));
    assert!(!folders[1].path().join("snapshots/incoming.part").exists());
}
