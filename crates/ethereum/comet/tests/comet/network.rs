//! Nodes without CometBFT between them: each accepts the others' proposals, and all have the same app hash.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use alloy_primitives::Address;
use bytes::Bytes;
use hearth_abci::types::{CommitInfo, Timestamp, VoteInfo};
use hearth_abci::{Application, request, response};
use hearth_comet::app::Config;
use hearth_comet::check::{CODE_GONE, CODE_MALFORMED, CODE_REFUSED};
use hearth_comet::envelope::{self, Content, Sealer};
use hearth_comet::{App, block};
use hearth_evm::builders::{self, account, signer};
use hearth_evm::chain::{BlockTime, Chain, ChainConfig};
use hearth_evm::pool::PoolConfig;
use hearth_evm_utxo::{UtxoChain, genesis};
use proptest::prelude::*;

const CHAIN: u64 = 777;
const GENESIS_SECOND: i64 = 1_700_000_000;

fn node() -> App {
    let genesis = genesis::dev(CHAIN, &builders::rich(1..=9), 500_000_000);
    let config = ChainConfig { block_time: BlockTime::Manual, pool: PoolConfig::comet(), ..ChainConfig::new(genesis) };
    App::new(Chain::open(config).expect("it opens"), Config::default())
}

fn transfer(seed: u8, nonce: u64) -> Bytes {
    builders::transfer(CHAIN, seed, nonce).raw.0
}

fn seal(raws: &[Bytes]) -> Vec<Bytes> {
    let mut sealer = Sealer::default();
    let mut envelopes: Vec<Bytes> = raws.iter().filter_map(|raw| sealer.push(raw)).collect();
    envelopes.extend(sealer.close());
    envelopes
}

fn check(app: &App, tx: &Bytes) -> response::CheckTx {
    app.check_tx(request::CheckTx { tx: tx.clone(), r#type: 0 }).unwrap()
}

fn recheck(app: &App, tx: &Bytes) -> u32 {
    app.check_tx(request::CheckTx { tx: tx.clone(), r#type: 1 }).unwrap().code
}

fn submit(app: &App, raws: &[Bytes]) {
    assert!(app.chain().submit(raws.iter().map(|raw| raw.clone().into()).collect()).iter().all(Result::is_ok));
}

fn time(height: i64) -> Option<Timestamp> {
    // Three blocks a second.
    Some(Timestamp { seconds: GENESIS_SECOND + height / 3, nanos: 0 })
}

fn proposer() -> Bytes {
    Bytes::from_static(&[7; 20])
}

fn prepare_within(app: &App, height: i64, txs: Vec<Bytes>, max_tx_bytes: i64) -> Vec<Bytes> {
    let (time, proposer_address) = (time(height), proposer());
    let request = request::PrepareProposal { max_tx_bytes, txs, height, time, proposer_address, ..Default::default() };
    app.prepare_proposal(request).unwrap().txs
}

fn prepare(app: &App, height: i64, mempool: Vec<Bytes>) -> Vec<Bytes> {
    prepare_within(app, height, mempool, 20 << 20)
}

fn process(app: &App, height: i64, txs: &[Bytes]) -> response::Proposal {
    let (txs, time, proposer_address) = (txs.to_vec(), time(height), proposer());
    let request = request::ProcessProposal { txs, height, time, proposer_address, ..Default::default() };
    app.process_proposal(request).unwrap().status()
}

fn finalize(app: &App, height: i64, txs: &[Bytes]) -> response::FinalizeBlock {
    let (txs, time, proposer_address) = (txs.to_vec(), time(height), proposer());
    let request = request::FinalizeBlock { txs, height, time, proposer_address, ..Default::default() };
    app.finalize_block(request).unwrap()
}

fn commit(app: &App) {
    app.commit(request::Commit {}).unwrap();
}

/// Makes a block of the waiting transactions on one node.
fn make(app: &App, height: i64) -> (Vec<Bytes>, response::FinalizeBlock) {
    let txs = prepare(app, height, vec![]);
    let end = finalize(app, height, &txs);
    commit(app);
    (txs, end)
}

fn info(app: &App) -> (i64, Bytes) {
    let info = app.info(request::Info::default()).unwrap();
    (info.last_block_height, info.last_block_app_hash)
}

#[test]
fn three_nodes_agree_and_each_block_is_executed_once() {
    let nodes: [App; 3] = std::array::from_fn(|_| node());
    for height in 1..=6_i64 {
        let from = (height as u64 - 1) * 50;
        let raws: Vec<Bytes> =
            (1..=5).flat_map(|seed| (from..from + 50).map(move |nonce| transfer(seed, nonce))).collect();
        // Spread through the mempool to all.
        let envelopes = seal(&raws);
        assert!(nodes.iter().all(|node| envelopes.iter().all(|envelope| check(node, envelope).code == 0)));
        let txs = prepare(&nodes[height as usize % 3], height, envelopes.clone());
        assert_eq!(txs.len(), 3, "250 transactions in envelopes of a hundred");
        let ends = nodes.each_ref().map(|node| {
            assert_eq!(process(node, height, &txs), response::Proposal::Accept);
            let end = finalize(node, height, &txs);
            assert_eq!(info(node).0, height - 1, "no block is visible before its commit");
            commit(node);
            assert!(envelopes.iter().all(|envelope| recheck(node, envelope) == CODE_GONE));
            end
        });
        assert!(ends[0] == ends[1] && ends[1] == ends[2]);
        assert!(ends[0].tx_results.iter().all(|result| result.code == 0));
        assert_eq!(ends[0].tx_results.iter().map(|result| result.gas_used).sum::<i64>(), 250 * 21_000);
        assert_eq!(info(&nodes[0]), (height, ends[0].app_hash.clone()));
        let head = nodes[0].chain().head();
        assert_eq!((head.txs.len(), head.header.beneficiary), (250, Address::repeat_byte(7)));
        assert_eq!(head.header.timestamp, time(height).unwrap().seconds as u64);
    }
    for node in &nodes {
        let counters = node.counters();
        assert_eq!(counters.remembered.load(Ordering::Relaxed), 6);
        assert_eq!(counters.executed.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_node_that_was_away_replays_to_the_same_hash() {
    let (here, away) = (node(), node());
    let mut blocks = Vec::new();
    for height in 1..=5_i64 {
        (1..=4).for_each(|seed| assert_eq!(check(&here, &transfer(seed, height as u64 - 1)).code, 0));
        blocks.push(make(&here, height));
    }
    for (height, (txs, end)) in (1..).zip(&blocks) {
        assert_eq!(finalize(&away, height, txs), *end);
        commit(&away);
    }
    assert_eq!(info(&here), info(&away));
}

#[test]
fn single_transactions_get_no_envelope() {
    let app = node();
    let singles = [transfer(1, 0), transfer(2, 0)];
    for tx in &singles {
        let checked = check(&app, tx);
        assert_eq!((checked.code, checked.data.len()), (0, 32));
    }
    submit(&app, &[0, 1, 2, 3, 4].map(|nonce| transfer(3, nonce)));
    let txs = prepare(&app, 1, singles.to_vec());
    assert!(singles.iter().all(|tx| txs.contains(tx)), "under the hash that CometBFT knows");
    let all: usize = txs.iter().map(|tx| envelope::open(tx).unwrap().txs().len()).sum();
    assert_eq!(all, 7);
    let end = finalize(&app, 1, &txs);
    for (tx, result) in txs.iter().zip(&end.tx_results) {
        let single = matches!(envelope::open(tx).unwrap(), Content::Single(_));
        assert_eq!((result.code, result.data.len()), (0, if single { 32 } else { 0 }));
    }
}

#[test]
fn invalid_block_is_rejected_or_has_no_effect() {
    let app = node();
    let bad: [Vec<Bytes>; 5] = [
        vec![Bytes::from_static(&[0xc0])],
        vec![Bytes::from_static(&[envelope::MARK, 9])],
        // A nonce too high, then one that was used.
        vec![transfer(1, 4)],
        vec![transfer(1, 0), transfer(1, 0)],
        seal(&[transfer(1, 0), Bytes::from_static(b"else")]),
    ];
    for txs in &bad {
        assert_eq!(process(&app, 1, txs), response::Proposal::Reject);
    }
    assert_eq!(process(&app, 1, &[]), response::Proposal::Accept);
    // If a majority decides such a block anyway, each node gets the same result from it.
    let all: Vec<Bytes> = bad.iter().flatten().cloned().collect();
    let other = node();
    let end = finalize(&app, 1, &all);
    assert_eq!(end, finalize(&other, 1, &all));
    let codes: Vec<u32> = end.tx_results.iter().map(|result| result.code).collect();
    assert_eq!(codes, [CODE_MALFORMED, CODE_MALFORMED, CODE_REFUSED, 0, CODE_REFUSED, CODE_MALFORMED]);
    commit(&app);
    assert_eq!(app.chain().head().txs.len(), 1);
}

#[test]
fn checks_say_what_geth_says() {
    let app = node();
    assert_eq!(check(&app, &transfer(1, 0)).code, 0);
    // A known transaction is accepted: it may have come by another way than the mempool.
    assert_eq!(check(&app, &transfer(1, 0)).code, 0);
    let (txs, end) = make(&app, 1);
    assert_eq!((txs.len(), end.tx_results[0].code), (1, 0));
    let low = check(&app, &transfer(1, 0));
    assert_eq!(low.code, CODE_REFUSED);
    assert!(low.log.starts_with("nonce too low"), "{}", low.log);
    let poor = check(&app, &transfer(77, 0));
    assert!(poor.log.starts_with("insufficient funds"), "{}", poor.log);
    assert_eq!(check(&app, &Bytes::from_static(&[1, 2, 3])).code, CODE_MALFORMED);
    // Valid transactions of an envelope are taken, whatever the rest.
    assert_eq!(check(&app, &seal(&[transfer(1, 0), transfer(1, 1)])[0]).code, 0);
    assert_eq!(app.chain().pool().status().pending, 1);
}

#[test]
fn rounds_of_one_height_are_kept_apart() {
    let (app, other) = (node(), node());
    assert_eq!(check(&app, &transfer(1, 0)).code, 0);
    let first = prepare(&app, 1, vec![]);
    assert_eq!(check(&other, &transfer(2, 0)).code, 0);
    let second = prepare(&other, 1, vec![]);
    assert_eq!(process(&app, 1, &second), response::Proposal::Accept);
    assert_eq!(process(&other, 1, &first), response::Proposal::Accept);
    assert_eq!(finalize(&app, 1, &second), finalize(&other, 1, &second));
    commit(&app);
    commit(&other);
    assert_eq!(info(&app), info(&other));
    // The transactions of the lost round still wait.
    assert_eq!(recheck(&app, &first[0]), 0);
}

#[test]
fn other_genesis_is_refused() {
    let app = node();
    let init = |text: &str, initial_height| {
        let app_state_bytes = Bytes::copy_from_slice(text.as_bytes());
        app.init_chain(request::InitChain { app_state_bytes, initial_height, ..Default::default() })
    };
    assert_eq!(init("{}", 1).unwrap().app_hash, info(&app).1);
    assert!(init(r#"{"config": {"chainId": 5}, "alloc": {}}"#, 1).is_err());
    assert!(init("", 7).is_err());
    assert!(init("nonsense", 1).is_err());
    assert!(app.commit(request::Commit {}).is_err(), "there was no block");
}

#[test]
fn queries_are_answered_for_a_height() {
    let app = node();
    for height in 1..=2_i64 {
        assert_eq!(check(&app, &transfer(1, height as u64 - 1)).code, 0);
        make(&app, height);
    }
    let ask = |path: &str, data: &[u8], height| {
        let data = Bytes::copy_from_slice(data);
        app.query(request::Query { path: path.into(), data, height, prove: false }).unwrap()
    };
    let has_nonce = |height, nonce: u64| {
        let answer = ask("/account", account(1).as_slice(), height);
        assert_eq!(answer.code, 0, "{}", answer.log);
        String::from_utf8(answer.value.to_vec()).unwrap().contains(&format!("\"nonce\":{nonce}"))
    };
    assert!(has_nonce(1, 1) && has_nonce(2, 2) && has_nonce(0, 2));
    let hash = app.chain().head().txs[0].hash;
    assert_eq!(ask("/tx", hash.as_slice(), 0).code, 0);
    assert_eq!(ask("/block", &[], 1).height, 1);
    let wrong: [(&str, &[u8], i64); 6] = [
        ("/tx", &[1; 32], 0),
        ("/tx", &[1], 0),
        ("/account", &[1], 0),
        ("/", &[], 0),
        ("/block", &[], 9),
        ("/block", &[], -1),
    ];
    for (path, data, height) in wrong {
        assert_ne!(ask(path, data, height).code, 0, "{path} {height}");
    }
}

#[test]
fn checks_run_while_blocks_are_made() {
    let app = Arc::new(node());
    let raws: Vec<Bytes> = (1..=8).flat_map(|seed| (0..150).map(move |nonce| transfer(seed, nonce))).collect();
    let checking = {
        let app = app.clone();
        std::thread::spawn(move || raws.iter().filter(|raw| check(&app, raw).code == 0).count())
    };
    let (mut height, mut included) = (0, 0);
    while included < 1200 {
        height += 1;
        let txs = prepare(&app, height, vec![]);
        assert_eq!(process(&app, height, &txs), response::Proposal::Accept);
        finalize(&app, height, &txs);
        commit(&app);
        included += app.chain().head().txs.len();
        assert!(height < 100_000);
    }
    assert_eq!((checking.join().unwrap(), included), (1200, 1200));
}

#[test]
fn blocks_keep_to_the_bytes_allowed() {
    let app = node();
    let raws: Vec<Bytes> = (1..=9).flat_map(|seed| (0..40).map(move |nonce| transfer(seed, nonce))).collect();
    submit(&app, &raws);
    for max in [0, 100, 3_000, 20_000, 1 << 20] {
        let txs = prepare_within(&app, 1, vec![], max);
        // As CometBFT counts them: each with its tag and its length.
        let bytes: usize = txs.iter().map(|tx| tx.len() + 1 + if tx.len() < 128 { 1 } else { 3 }).sum();
        assert!(bytes as i64 <= max, "{bytes} of {max}");
        assert!(block::bytes_to_choose(max) as i64 <= max);
    }
}

#[test]
fn a_validator_knows_whether_it_is_alone() {
    let app = node();
    let alone = || app.spread().alone.load(Ordering::Relaxed);
    let process = |count| {
        let (time, proposer_address) = (time(1), proposer());
        let proposed_last_commit = Some(CommitInfo { round: 0, votes: vec![VoteInfo::default(); count] });
        let request =
            request::ProcessProposal { height: 1, time, proposer_address, proposed_last_commit, ..Default::default() };
        app.process_proposal(request).unwrap();
    };
    process(1);
    assert!(!alone(), "it follows");
    prepare(&app, 1, vec![]);
    process(1);
    assert!(alone());
    process(4);
    assert!(!alone());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_block_has_one_result_on_all_nodes(
        singles in prop::collection::vec((1_u8..5, 0_u64..4), 0..12),
        batched in prop::collection::vec((1_u8..5, 0_u64..4), 0..12),
        junk in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..3),
        known: bool,
    ) {
        let nodes = [node(), node()];
        let singles: Vec<Bytes> = singles.into_iter().map(|(seed, nonce)| transfer(seed, nonce)).collect();
        let batched: Vec<Bytes> = batched.into_iter().map(|(seed, nonce)| transfer(seed, nonce)).collect();
        if known {
            // One node has them in its pool already.
            singles.iter().chain(&batched).for_each(|tx| drop(check(&nodes[0], tx)));
        }
        let junk = junk.into_iter().map(Bytes::from);
        let txs: Vec<Bytes> = singles.into_iter().chain(junk).chain(seal(&batched)).collect();
        let said: Vec<response::Proposal> = nodes.iter().map(|node| process(node, 1, &txs)).collect();
        prop_assert_eq!(said[0], said[1]);
        let ends: Vec<response::FinalizeBlock> = nodes.iter().map(|node| finalize(node, 1, &txs)).collect();
        prop_assert_eq!(&ends[0], &ends[1]);
        prop_assert_eq!(ends[0].tx_results.len(), txs.len());
        nodes.iter().for_each(commit);
        prop_assert_eq!(info(&nodes[0]), info(&nodes[1]));
    }
}

#[test]
fn both_ledgers_are_in_one_block_on_every_node() {
    use hearth_utxo::tx::{Action, Builder};
    use hearth_utxo::{AssetId, Output, OwnerKey};
    let (one, other) = (node(), node());
    let key = hearth_crypto::ed25519::SigningKey::from_seed(&[5; 32]);
    let owner = OwnerKey(key.public_key());
    let there = hearth_evm_utxo::prism::call(CHAIN, 0, 100_000_000_000, &owner, 5_000_000, &signer(1)).raw.0.clone();
    submit(&one, &[there]);
    let (txs, made) = make(&one, 1);
    assert_eq!(
        (process(&other, 1, &txs), finalize(&other, 1, &txs).app_hash),
        (response::Proposal::Accept, made.app_hash)
    );
    commit(&other);
    let available = one.chain().outputs().outputs_of(&owner, None, 9);
    let spend = |amount| {
        let outputs = vec![Output { asset: AssetId::NATIVE, amount, owner, memo: Default::default() }];
        let builder = Builder { chain_id: CHAIN, key: &key, available: &available, outputs, action: Action::Transfer };
        Bytes::from(builder.build().unwrap())
    };
    let (first, second) = (spend(1), spend(2));
    assert_eq!((check(&one, &first).code, check(&one, &second).code), (0, CODE_REFUSED));
    assert_eq!(recheck(&one, &first), 0);
    submit(&one, &[transfer(1, 1)]);
    let txs = prepare(&one, 2, vec![first.clone()]);
    assert_eq!((txs.len(), &txs[0]), (2, &first), "a single transaction, before the envelope");
    assert_eq!(process(&other, 2, &txs), response::Proposal::Accept);
    // A proposal with a double spend is rejected.
    assert_eq!(process(&other, 2, &[first.clone(), second.clone()]), response::Proposal::Reject);
    let (here, elsewhere) = (finalize(&one, 2, &txs), finalize(&other, 2, &txs));
    assert_eq!((&here.app_hash, &here.tx_results), (&elsewhere.app_hash, &elsewhere.tx_results));
    assert_eq!(here.tx_results.iter().map(|result| result.code).collect::<Vec<_>>(), [0, 0]);
    commit(&one);
    commit(&other);
    assert_eq!(one.chain().outputs().commitment(), other.chain().outputs().commitment());
    assert_eq!((recheck(&one, &first), check(&one, &second).code), (CODE_GONE, CODE_REFUSED));
    assert_eq!(one.chain().head().header.transactions_root, other.chain().head().header.transactions_root);
}
