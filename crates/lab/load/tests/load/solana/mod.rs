//! Loads and funding on misbehaving Solana nodes: every transaction gets its true outcome.

mod stub;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hearth_load::chain::check_chains;
use hearth_load::connect::{ConnectError, ConnectedNode, connect, connect_patiently};
use hearth_load::error::LoadError;
use hearth_load::options::RunOptions;
use hearth_load::report::Report;
use hearth_load::retry::Caller;
use hearth_load::solana::fund::{FundError, fund};
use hearth_load::solana::keys::{Account, generate};
use hearth_load::solana::node::marks;
use hearth_load::solana::run::{SendVia, drive, set_up};
use hearth_load::solana::workload::Kind;
use hearth_load::solana::{Node, inspect};
use hearth_testkit::http::{Reply, answered, serve, serve_on};
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use crate::{TIMEOUT, asked};
use stub::{Manners, Stub};

struct Scene {
    stub: Stub,
    accounts: Vec<Account>,
    asked: RunOptions<Kind>,
    by: SendVia,
}

fn node(url: &str) -> Node {
    match connect(url, TIMEOUT).unwrap() {
        ConnectedNode::Solana(node) => node,
        ConnectedNode::Ethereum(_) => panic!("it speaks Solana's JSON-RPC"),
    }
}

/// A load with this many funded accounts, on a node with these manners.
fn scene(accounts: usize, manners: Manners) -> Scene {
    let accounts = generate(accounts).unwrap();
    let addresses: Vec<Pubkey> = accounts.iter().map(|account| account.address).collect();
    let stub = Stub::start(Manners { slot_ms: manners.slot_ms.max(20), ..manners }, &addresses);
    let asked = asked(&stub.url, Kind::Transfer);
    Scene { stub, accounts, asked, by: SendVia::Leaders }
}

impl Scene {
    /// Limits each account to this many transactions.
    fn counted(mut self, count: u64) -> Self {
        self.asked.pace.count = Some(count);
        self
    }

    fn over_rpc(mut self) -> Self {
        self.by = SendVia::Rpc;
        self
    }

    fn run(&self) -> Report {
        let node = node(&self.stub.url);
        let report = drive(&self.asked, self.by, &node, &[], &self.accounts, &|| false, |_| {}).unwrap();
        let Report { sent, included, rejected, dropped, unknown, .. } = &report;
        assert_eq!(*sent, included + rejected + dropped + unknown, "{}", report.text());
        assert_eq!(*included, self.stub.with(|world| world.landed()) as u64, "{}", report.text());
        assert!(self.stub.with(|world| world.most_often()) <= 1, "something was done twice\n{}", report.text());
        report
    }
}

#[test]
fn a_node_that_behaves_includes_all_by_either_way() {
    for by in [SendVia::Leaders, SendVia::Rpc] {
        let mut scene = scene(6, Manners { skips_every: 5, ..Manners::default() }).counted(20);
        scene.by = by;
        let report = scene.run();
        assert_eq!((report.sent, report.included), (120, 120), "{}", report.text());
        assert_eq!((report.receipts_seen, report.failed), (120, Some(0)));
        assert_eq!((report.resigned, report.other_hash, report.reorganised), (0, 0, 0), "{}", report.text());
        assert!(report.client.contains("solana-core 0.0.1") && report.tps > 0.0, "{}", report.text());
    }
}

#[test]
fn failed_transaction_is_included_and_counted_apart() {
    let report = scene(4, Manners { fails_every: 4, ..Manners::default() }).counted(10).run();
    assert_eq!((report.included, report.receipts_seen, report.failed), (40, 40, Some(10)), "{}", report.text());
}

#[test]
fn lost_transaction_is_sent_again() {
    // Of 24 it forgets 6, and one of those again.
    let by_this = |by: SendVia| {
        let scene = scene(4, Manners { slot_ms: 100, forgets_every: 4, ..Manners::default() }).counted(6);
        let report = Scene { by, ..scene }.run();
        assert_eq!((report.sent, report.included, report.resigned), (24, 24, 0), "{}", report.text());
        assert!(report.sent_again >= 7 && report.healed == 0, "{}", report.text());
    };
    std::thread::scope(|scope| {
        scope.spawn(|| by_this(SendVia::Leaders));
        by_this(SendVia::Rpc);
    });
}

#[test]
fn expired_transaction_is_signed_again() {
    // A blockhash lives for 150 blocks of 20 ms, and the node ignores transactions during the first 75.
    let manners = Manners { deaf_for: 75, ..Manners::default() };
    let report = scene(4, manners).counted(5).run();
    assert_eq!((report.sent, report.included), (20, 20), "{}", report.text());
    assert!(report.resigned > 0, "{}", report.text());
}

#[test]
fn held_transaction_is_signed_again_on_expiry() {
    let manners = Manners { deaf_for: 75, says_so: true, ..Manners::default() };
    let report = scene(4, manners).over_rpc().counted(5).run();
    assert_eq!((report.sent, report.included, report.rejected), (20, 20, 0), "{}", report.text());
    assert!(report.resigned > 0 && report.pool_full > 0, "{}", report.text());
}

#[test]
fn refused_but_landed_is_not_sent_twice() {
    let manners = Manners { refuses_and_takes_every: 3, ..Manners::default() };
    let report = scene(4, manners).over_rpc().counted(10).run();
    assert_eq!((report.sent, report.included, report.resigned), (40, 40, 0), "{}", report.text());
    assert!(report.pool_full > 0, "{}", report.text());
}

#[test]
fn requests_that_are_too_long_go_out_in_pieces() {
    // Ten transfers in one request exceed this size.
    let manners = Manners { request_bytes_max: 3_000, ..Manners::default() };
    let report = scene(6, manners).over_rpc().counted(20).run();
    assert_eq!((report.sent, report.included, report.rejected), (120, 120, 0), "{}", report.text());
    assert!((1..=6).contains(&report.unanswered), "{}", report.text());
    // The standard request size is known in advance.
    let mut scene = scene(4, Manners::default()).over_rpc().counted(200);
    (scene.asked.pace.batch, scene.asked.pace.under_way) = (500, 1_000);
    let report = scene.run();
    assert_eq!((report.included, report.unanswered), (800, 0), "{}", report.text());
}

#[test]
fn a_dead_leader_leaves_its_slots_to_the_next() {
    let report = scene(4, Manners { dead_leader: true, ..Manners::default() }).counted(5).run();
    assert_eq!((report.sent, report.included), (20, 20), "{}", report.text());
}

#[test]
fn expired_without_a_block_is_dropped() {
    let manners = Manners { deaf_for: u64::MAX, ..Manners::default() };
    let mut scene = scene(4, manners);
    (scene.asked.pace.rate, scene.asked.timing.duration) = (Some(20.0), Duration::from_secs(1));
    let report = scene.run();
    assert!(report.sent >= 10 && report.dropped == report.sent, "{}", report.text());
}

#[test]
fn answers_lost_halved_and_refused_for_a_while_cost_nothing() {
    for manners in [
        Manners { answer_lost_every: 3, ..Manners::default() },
        Manners { half_every: 5, ..Manners::default() },
        Manners { busy_every: 2, ..Manners::default() },
    ] {
        let report = scene(6, manners).over_rpc().counted(10).run();
        assert_eq!((report.sent, report.included, report.rejected), (60, 60, 0), "{manners:?}\n{}", report.text());
        assert!(report.unanswered > 0 && report.last_error.is_some(), "{manners:?}\n{}", report.text());
    }
}

#[test]
fn a_refusal_is_counted_with_its_words() {
    let report = scene(4, Manners { refuses_every: 5, ..Manners::default() }).over_rpc().counted(10).run();
    assert_eq!((report.sent, report.included + report.rejected, report.rejected), (40, 40, 8), "{}", report.text());
    assert_eq!(report.reasons.keys().collect::<Vec<_>>(), ["Transaction signature verification failure"]);
}

#[test]
fn a_block_has_the_last_word_over_a_node_that_lies() {
    let report = scene(4, Manners { lies: true, ..Manners::default() }).over_rpc().counted(5).run();
    assert_eq!((report.included, report.other_hash), (20, 20), "{}", report.text());
}

#[test]
fn a_node_that_dies_leaves_a_report() {
    let mut scene = scene(6, Manners { dies_after: 3, ..Manners::default() });
    (scene.asked.pace.under_way, scene.asked.patience) = (20, Duration::from_secs(2));
    let node = node(&scene.stub.url);
    let report = drive(&scene.asked, scene.by, &node, &[], &scene.accounts, &|| false, |_| {}).unwrap();
    assert!(report.included > 0 && report.unknown > 0 && report.dropped == 0, "{}", report.text());
    assert!(report.reading_ended.is_some(), "{}", report.text());
}

#[test]
fn a_rate_is_offered_whole_and_on_time() {
    let mut scene = scene(5, Manners::default());
    scene.asked.pace.rate = Some(500.0);
    scene.asked.timing.duration = Duration::from_secs(2);
    let report = scene.run();
    let (offered, due) = ((report.sent + report.unsent) as f64, 500.0 * report.seconds);
    assert!((offered / due - 1.0).abs() < 0.1, "{offered} of {due}\n{}", report.text());
}

#[test]
fn everybody_gets_money_and_nothing_is_paid_twice() {
    let all = |count: usize, manners: Manners| {
        let scene = scene(1, manners);
        let (node, accounts) = (node(&scene.stub.url), generate(count).unwrap());
        let amount = 10_000_000;
        let short =
            fund(&node, Some(&scene.accounts[0]), &accounts, amount, Caller::new(&|| false), |_, _| {}).unwrap();
        let has = |account: &Account| scene.stub.with(|world| world.balance(&account.address));
        assert!(short == count && accounts.iter().all(|account| has(account) >= amount), "{manners:?}");
        let paid = 1_000_000_000_000 - has(&scene.accounts[0]);
        let count = count as u64;
        assert!(paid <= count * (amount + 5_000) + (count / 20) * 5_000, "{paid}, {manners:?}");
        assert_eq!(
            fund(&node, None, &accounts, amount, Caller::new(&|| false), |_, _| {}).unwrap(),
            0,
            "nobody is short any more"
        );
    };
    std::thread::scope(|scope| {
        for manners in [
            Manners { turns_away_every: 4, ..Manners::default() },
            Manners { half_every: 3, ..Manners::default() },
            Manners { answer_lost_every: 2, ..Manners::default() },
            Manners { request_bytes_max: 30_000, ..Manners::default() },
        ] {
            scope.spawn(move || all(400, manners));
        }
        for manners in [Manners::default(), Manners { forgets_every: 3, ..Manners::default() }] {
            scope.spawn(move || all(2_000, manners));
        }
    });
}

#[test]
fn airdrop_pays_without_a_funder() {
    let scene = scene(1, Manners::default());
    let (accounts, amount) = (generate(30).unwrap(), 5_000_000);
    assert_eq!(fund(&node(&scene.stub.url), None, &accounts, amount, Caller::new(&|| false), |_, _| {}).unwrap(), 30);
    let why = fund(
        &node(&scene.stub.url),
        Some(&accounts[1]),
        &generate(9).unwrap(),
        amount,
        Caller::new(&|| false),
        |_, _| {},
    );
    let why = why.unwrap_err().to_string();
    assert!(why.contains(&*encode_32(&accounts[1].address)) && why.contains("for 9 accounts"), "{why}");
    assert!(why.contains(" SOL (") && why.contains(" lamports), and ") && why.contains("a lower --amount"), "{why}");
    let stingy = self::scene(1, Manners { no_airdrop: true, ..Manners::default() });
    let why = fund(&node(&stingy.stub.url), None, &accounts, amount, Caller::new(&|| false), |_, _| {}).unwrap_err();
    assert!(matches!(why, FundError::Airdrop { .. }) && why.to_string().contains("--funder"), "{why}");
}

#[test]
fn airdrop_is_repeated_only_after_expiry() {
    for (manners, airdrops) in [
        (Manners { airdrop_unanswered: true, ..Manners::default() }, 1),
        (Manners { airdrop_lost: true, life: 30, ..Manners::default() }, 2),
        (Manners { turns_away_every: 4, ..Manners::default() }, 1),
    ] {
        let scene = scene(1, manners);
        assert_eq!(
            fund(&node(&scene.stub.url), None, &generate(30).unwrap(), 5_000_000, Caller::new(&|| false), |_, _| {})
                .unwrap(),
            30
        );
        assert_eq!(scene.stub.with(|world| world.airdrops()), airdrops, "{manners:?}");
    }
}

#[test]
fn bad_answers_cost_neither_the_money_nor_the_token() {
    let all = |manners: Manners| {
        let mut scene = scene(1, manners).counted(3);
        scene.accounts = generate(60).unwrap();
        scene.asked.mix = Kind::Token.into();
        let node = node(&scene.stub.url);
        fund(&node, None, &scene.accounts, 50_000_000, Caller::new(&|| false), |_, _| {}).unwrap();
        let tokens = set_up(&node, &scene.accounts, &scene.asked.mix, &|| false, &mut |_| {}).unwrap();
        let report = drive(&scene.asked, scene.by, &node, &tokens, &scene.accounts, &|| false, |_| {}).unwrap();
        assert_eq!((report.sent, report.included), (180, 180), "{manners:?}\n{}", report.text());
        assert!(scene.stub.with(|world| world.most_often()) <= 1, "{manners:?}");
    };
    std::thread::scope(|scope| {
        for manners in [
            Manners { turns_away_every: 4, ..Manners::default() },
            Manners { half_every: 4, ..Manners::default() },
            Manners { request_bytes_max: 30_000, ..Manners::default() },
        ] {
            scope.spawn(move || all(manners));
        }
    });
}

#[test]
fn a_node_and_its_blocks_are_looked_at() {
    let scene = scene(3, Manners::default()).counted(2);
    scene.run();
    let node = node(&scene.stub.url);
    let text = inspect::node(&node).unwrap();
    assert!(text.contains("solana-core 0.0.1") && text.contains("127.0.0.1:"), "{text}");
    assert!(text.contains("epoch "), "asked for with the commitment of all else: {text}");
    let text = inspect::account(&node, &scene.accounts[0].address).unwrap();
    assert!(text.contains("SOL"), "{text}");
    let text = inspect::blocks(&node, 0, node.slot().unwrap()).unwrap();
    assert!(text.contains("6 transactions"), "{text}");
}

#[test]
fn further_nodes_are_of_the_same_chain() {
    let [first, same] = [0, 0].map(|_| scene(1, Manners::default()));
    let other = scene(1, Manners { genesis: 7, ..Manners::default() });
    let node = node(&first.stub.url);
    let check = |second: &str| check_chains(&node.rpc, &[same.stub.url.clone(), second.into()], TIMEOUT, marks);
    assert_eq!(check("http://127.0.0.1:1").unwrap().len(), 1, "one that is silent may come");
    let why = check(&other.stub.url).unwrap_err();
    assert!(matches!(&why, LoadError::OtherChain { url, .. } if *url == other.stub.url), "{why}");
    assert!(why.to_string().contains("its genesis is"), "{why}");
    let ethereum = crate::stub::Stub::start(Default::default(), &[]);
    let why = check(&ethereum.url).unwrap_err().to_string();
    assert!(why.contains(&ethereum.url) && why.contains("getGenesisHash"), "{why}");
}

#[test]
fn unknown_kind_of_node_is_reported() {
    let refusal = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such thing"}}"#;
    let url = serve(move |_| Reply::Answer(refusal.into()));
    let why = connect(&url, TIMEOUT).err().unwrap();
    assert!(matches!(why, ConnectError::Neither { .. }) && why.to_string().contains("no such thing"), "{why}");
    let url = serve(|_| Reply::Status(502));
    let why = connect(&url, TIMEOUT).err().unwrap().to_string();
    assert!(why.contains("502"), "{why}");
}

#[test]
fn a_node_that_is_not_up_at_once_is_waited_for() {
    let [ethereum, solana] = ["web3", "solana"].map(|language| {
        move |question: &Value| {
            answered(question, |method, _| match (language, method) {
                ("web3", "eth_chainId") => Ok(json!("0x7")),
                ("web3", "web3_clientVersion") => Ok(json!("slow")),
                ("web3", "eth_getBlockByNumber") => Ok(json!({ "baseFeePerGas": "0x1" })),
                ("web3", "eth_maxPriorityFeePerGas") => Ok(json!("0x1")),
                ("solana", "getVersion") => Ok(json!({ "solana-core": "1.2.3" })),
                ("solana", "getIdentity") => Ok(json!({ "identity": "x" })),
                _ => Err((-32601, "no such thing".into())),
            })
        }
    });
    let answers: [Arc<dyn Fn(&Value) -> Value + Send + Sync>; 2] = [Arc::new(ethereum), Arc::new(solana)];
    for (answer, is_solana) in answers.into_iter().zip([false, true]) {
        // First nothing listens; then a server that is overloaded for a while, or sends half answers.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut warnings = vec![];
        let mut starts = |why: &ConnectError| {
            warnings.push(why.to_string());
            let (answer, requests) = (answer.clone(), AtomicU64::new(0));
            serve_on(TcpListener::bind(address).unwrap(), move |_, body| {
                let answer = answer(&serde_json::from_slice(body).unwrap());
                match requests.fetch_add(1, Ordering::Relaxed) {
                    0..3 => Reply::Status(503),
                    3..5 => Reply::Half(answer.to_string()),
                    _ => Reply::Answer(answer.to_string()),
                }
            });
        };
        let url = format!("http://{address}");
        let found = connect_patiently(&url, TIMEOUT, TIMEOUT, &|| false, &mut starts).unwrap();
        assert_eq!(matches!(found, ConnectedNode::Solana(_)), is_solana);
        assert!(warnings.len() == 1 && warnings[0].contains(&url), "{warnings:?}");
    }
    // A stopped caller does not wait, and neither does one that finds a server of another kind.
    let mut warnings = vec![];
    let stopped =
        connect_patiently("http://127.0.0.1:1", TIMEOUT, TIMEOUT, &|| true, &mut |why| warnings.push(why.to_string()));
    assert!(stopped.is_err() && warnings.is_empty());
    let missing = serve(|_| Reply::Status(404));
    let ended = connect_patiently(&missing, TIMEOUT, TIMEOUT, &|| false, &mut |why| warnings.push(why.to_string()));
    assert!(ended.is_err() && warnings.is_empty(), "{warnings:?}");
}
