//! Loads on misbehaving nodes: there is a report, and every transaction gets its true outcome.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256};
use hearth_crypto::secp256k1::Signer;
use hearth_load::account::{address, generate};
use hearth_load::chain::check_chains;
use hearth_load::error::LoadError;
use hearth_load::ethereum::collect::block_time;
use hearth_load::ethereum::inspect;
use hearth_load::ethereum::node::{Node, connect, marks};
use hearth_load::ethereum::run::{drive, set_up};
use hearth_load::ethereum::workload::{Contracts, Kind};
use hearth_load::options::{GiveUp, RunOptions, SendOptions};
use hearth_load::progress::Progress;
use hearth_load::ramp::{Bound, ramp};
use hearth_load::report::{Limit, Report};
use hearth_load::series::Pool;
use hearth_testkit::http::{Reply, serve};
use hearth_testkit::{PATIENCE, wait_until};
use serde_json::json;

use crate::stub::{Manners, Stub};
use crate::{TIMEOUT, asked};

struct Scene {
    stub: Stub,
    signers: Vec<Signer>,
    asked: RunOptions<Kind>,
}

/// A load with this many accounts, on a node with these manners.
fn scene(accounts: usize, manners: Manners) -> Scene {
    let signers = generate(accounts).unwrap();
    let addresses: Vec<Address> = signers.iter().map(address).collect();
    let stub = Stub::start(manners, &addresses);
    let mut asked = asked(&stub.url, Kind::Transfer);
    asked.timing.beside.pool = Pool::of(&stub.url, None).unwrap();
    Scene { stub, signers, asked }
}

impl Scene {
    /// Limits each account to this many transactions.
    fn counted(mut self, count: u64) -> Self {
        self.asked.pace.count = Some(count);
        self
    }

    /// Creates the contracts that the load calls.
    fn contracts(&self, node: &Node, stop: &dyn Fn() -> bool) -> Result<Contracts, LoadError> {
        set_up(node, &self.signers[0], &self.signers, &self.asked.mix, stop, &mut |_| {})
    }

    fn run(&self) -> Report {
        self.run_on(&connect(&self.stub.url, TIMEOUT).unwrap())
    }

    fn run_on(&self, node: &Node) -> Report {
        let contracts = self.contracts(node, &|| false).unwrap();
        let report = drive(&self.asked, node, contracts, &self.signers, &|| false, |_| {}).unwrap();
        let Report { sent, included, rejected, dropped, unknown, .. } = &report;
        assert_eq!(*sent, included + rejected + dropped + unknown);
        assert!(!report.text().is_empty());
        report
    }
}

#[test]
fn a_node_that_behaves_includes_all() {
    let scene = scene(6, Manners { block_ms: 50, stranger_fails: true, ..Manners::default() }).counted(10);
    let report = scene.run();
    assert_eq!((report.sent, report.included), (60, 60));
    assert_eq!((report.receipts_seen, report.failed), (60, Some(0)), "what fails of strangers is not ours");
    assert!(report.tps > 0.0 && report.seconds < 30.0, "{} in {} s", report.tps, report.seconds);
}

#[test]
fn receipts_are_fetched_singly_without_block_receipts() {
    let manners = Manners { no_block_receipts: true, stranger_fails: true, ..Manners::default() };
    let report = scene(4, manners).counted(3).run();
    assert_eq!((report.included, report.receipts_seen, report.failed), (12, 12, Some(0)));
}

#[test]
fn accepted_then_forgotten_is_dropped() {
    let report = scene(4, Manners { forgets_every: 1, ..Manners::default() }).counted(2).run();
    assert_eq!((report.sent, report.dropped, report.unknown), (8, 8, 0));
}

#[test]
fn a_gap_that_the_pool_made_is_healed() {
    let report = scene(6, Manners { forgets_every: 9, ..Manners::default() }).counted(6).run();
    assert_eq!((report.sent, report.included), (36, 36), "{}", report.text());
    assert!(report.healed >= 1, "{}", report.text());
}

#[test]
fn an_answer_that_is_lost_costs_nothing() {
    let scene = scene(6, Manners { answer_lost_every: 3, ..Manners::default() }).counted(20);
    let report = scene.run();
    assert_eq!((report.sent, report.included, report.rejected), (120, 120, 0), "{}", report.text());
    assert!(report.unanswered > 0 && report.last_error.is_some());
    assert_eq!(scene.stub.with(|world| world.included()), 120, "nothing is sent twice");
}

#[test]
fn a_node_that_dies_leaves_a_report() {
    let mut scene = scene(6, Manners { block_ms: 50, dies_after: 3, ..Manners::default() });
    (scene.asked.timing.duration, scene.asked.patience) = (Duration::from_secs(2), Duration::from_secs(2));
    let report = scene.run();
    assert!(report.included > 0 && report.unknown > 0, "{}", report.text());
    assert!(report.reading_ended.is_some() && report.last_error.is_some());
}

#[test]
fn abandoned_wait_still_gives_a_report() {
    // No block comes, and by the chain's block times the load would wait five minutes for one.
    let mut scene = scene(4, Manners { block_ms: 600_000, block_s: 100, ..Manners::default() }).counted(5);
    (0..4).for_each(|_| scene.stub.mine());
    let node = connect(&scene.stub.url, TIMEOUT).unwrap();
    let waits = Arc::new(AtomicBool::new(false));
    let asked_to = waits.clone();
    scene.asked.timing.give_up = GiveUp::when(move || asked_to.load(Ordering::Relaxed));
    let (begun, mut steps) = (Instant::now(), vec![]);
    let on_progress = |progress: Progress<'_>| {
        if let Progress::Step(step) = progress {
            // The first Ctrl-C was seen; the second comes while the load waits.
            waits.fetch_or(step == "waiting for what is under way", Ordering::Relaxed);
            steps.push(step.to_owned());
        }
    };
    let stop = || scene.stub.with(|world| world.waiting()) == 20;
    let report = drive(&scene.asked, &node, Contracts::default(), &scene.signers, &stop, on_progress).unwrap();
    assert_eq!((report.sent, report.unknown, report.included), (20, 20, 0), "{}", report.text());
    assert!(steps.iter().any(|step| step.contains("nothing more is waited for")), "{steps:?}");
    assert!(begun.elapsed() < PATIENCE, "it does not wait for three blocks' time");
}

#[test]
fn tokens_are_minted_for_many_at_a_time() {
    let mut scene = scene(450, Manners { block_ms: 600_000, ..Manners::default() });
    scene.asked.mix = Kind::Erc20.into();
    let node = connect(&scene.stub.url, TIMEOUT).unwrap();
    let most = Cell::new(0);
    // Mines a block as soon as transactions are pending.
    let stop = || {
        let waiting = scene.stub.with(|world| world.waiting());
        most.set(waiting.max(most.get()));
        if waiting > 0 {
            scene.stub.mine();
        }
        false
    };
    scene.contracts(&node, &stop).unwrap();
    assert_eq!((most.get(), scene.stub.with(|world| world.included())), (5, 6), "one contract, five times minting");
    // Requests that are too long for the node, and a pool that holds two transactions.
    scene.stub.behave(Manners { batch_max: 3, pool_max: 2, ..Manners::default() });
    scene.contracts(&node, &stop).unwrap();
    assert_eq!(scene.stub.with(|world| world.included()), 12);
}

#[test]
fn setup_is_funded_where_the_node_allows() {
    let mut scene = scene(3, Manners::default());
    scene.asked.mix = "contract=1,swap=1,erc20=1".parse().unwrap();
    let (poor, node) = (generate(1).unwrap().remove(0), connect(&scene.stub.url, TIMEOUT).unwrap());
    let set_up = || set_up(&node, &poor, &scene.signers, &scene.asked.mix, &|| false, &mut |_| {});
    let why = set_up().unwrap_err();
    assert_eq!(why.to_string(), "creating a contract: insufficient funds for gas * price + value");
    scene.stub.behave(Manners { pays: true, ..Manners::default() });
    let contracts = set_up().unwrap();
    assert!([contracts.token, contracts.store, contracts.pool].iter().all(|contract| *contract != Address::ZERO));
}

#[test]
fn a_full_pool_is_waited_for() {
    for full_is_underpriced in [false, true] {
        let manners = Manners { pool_max: 4, block_ms: 20, full_is_underpriced, ..Manners::default() };
        let report = scene(8, manners).counted(8).run();
        assert_eq!((report.sent, report.included, report.rejected), (64, 64, 0), "{}", report.text());
        assert!(report.pool_full > 0 && report.pool_full_words.is_some());
        assert_eq!(report.unsent, 0);
    }
}

#[test]
fn transaction_without_pool_room_counts_as_unsent() {
    let mut scene = scene(8, Manners { pool_max: 3, block_ms: 600_000, ..Manners::default() });
    scene.asked.pace.rate = Some(100.0);
    scene.asked.timing.duration = Duration::from_secs(2);
    let report = scene.run();
    assert_eq!((report.sent, report.unknown), (3, 3), "{}", report.text());
    assert!(report.unsent > 150, "{}", report.text());
    // Whether the node or the load was the limit depends on what else this machine does.
    assert_ne!(report.limit, Limit::Rate);
}

#[test]
fn a_refusal_is_counted_once_and_the_rest_continues() {
    let scene = scene(4, Manners { refuses_every: 7, ..Manners::default() }).counted(12);
    let report = scene.run();
    // A refused transaction is sent again unchanged until a block contains it.
    assert_eq!((report.sent, report.included), (48, 48), "{}", report.text());
    assert!(report.renonced >= 4, "{}", report.text());
    assert!(report.reasons.keys().all(|reason| reason == "no room at the inn …"), "{}", report.text());
}

#[test]
fn included_counts_once_despite_refusal() {
    let scene = scene(6, Manners { full_is_a_lie_every: 4, ..Manners::default() }).counted(10);
    let report = scene.run();
    assert!(scene.stub.with(|world| world.lies()) >= 15);
    assert_eq!((report.sent, report.included), (60, 60), "{}", report.text());
    assert_eq!(scene.stub.with(|world| world.included()), 60);
}

#[test]
fn nonces_that_are_behind_count_nothing_twice() {
    let manners = Manners { nonces_behind_every: 2, nonces_behind: 3, refuses_every: 9, ..Manners::default() };
    let scene = scene(4, manners).counted(20);
    let report = scene.run();
    assert_eq!(report.included, scene.stub.with(|world| world.included()) as u64, "{}", report.text());
    assert!(report.sent <= 80 && report.sent == report.included + report.rejected, "{}", report.text());
    assert!(report.reasons.keys().all(|reason| reason == "no room at the inn …"), "{}", report.text());
}

#[test]
fn a_nonce_that_is_far_too_high_ends_nothing() {
    let manners =
        Manners { nonces_ahead_every: 7, nonces_ahead: 1 << 60, refuses_every: 5, block_ms: 5, ..Manners::default() };
    let report = scene(4, manners).counted(30).run();
    assert_eq!((report.sent, report.included), (120, 120), "{}", report.text());
    assert!(report.renonced >= 7, "{}", report.text());
}

#[test]
fn requests_become_as_short_as_the_node_takes() {
    let report = scene(20, Manners { batch_max: 3, ..Manners::default() }).counted(5).run();
    assert_eq!((report.sent, report.included, report.unanswered), (100, 100, 0), "{}", report.text());
    assert!(report.too_long.as_deref().is_some_and(|words| words.contains("batch too large")), "{}", report.text());
}

#[test]
fn never_accepted_is_not_dropped() {
    // All answers to sent transactions are lost, and the node keeps none of them.
    let manners = Manners { answer_lost_every: 1, forgets_every: 1, ..Manners::default() };
    let mut scene = scene(4, manners);
    scene.asked.timing.duration = Duration::from_millis(500);
    let report = scene.run();
    assert!(report.unknown > 0, "{}", report.text());
    assert_eq!((report.dropped, report.included), (0, 0), "{}", report.text());
}

#[test]
fn a_run_whose_accounts_have_no_money_left_ends_and_says_so() {
    let report = scene(4, Manners { poor_after: 40, block_ms: 5, ..Manners::default() }).run();
    assert_eq!((report.included, report.limit), (40, Limit::Funds), "{}", report.text());
    assert!(report.seconds < 55.0, "{}", report.text());
}

#[test]
fn repriced_transaction_is_counted_as_one() {
    // Of the first 18 the pool forgets one; then gas costs more than the load pays.
    let dearer = Manners { base_fee: 30_000_000_000, base_fee_after: 18, ..Manners::default() };
    let scene = scene(6, Manners { forgets_every: 10, ..dearer }).counted(6);
    let report = scene.run();
    assert_eq!((report.sent, report.included, report.dropped), (36, 36, 0), "{}", report.text());
    assert!(report.healed >= 1 && report.dearer >= 1, "{}", report.text());
}

#[test]
fn a_node_that_answers_with_anything_costs_nothing() {
    for manners in [
        Manners { busy_every: 3, ..Manners::default() },
        Manners { garbles_every: 4, ..Manners::default() },
        Manners { busy_every: 5, garbles_every: 3, answer_lost_every: 7, ..Manners::default() },
    ] {
        let mut scene = scene(6, Manners::default()).counted(8);
        scene.asked.mix = "contract=1,erc20=1".parse().unwrap();
        let node = connect(&scene.stub.url, TIMEOUT).unwrap();
        scene.stub.behave(manners);
        let report = scene.run_on(&node);
        assert_eq!((report.sent, report.included, report.rejected), (48, 48, 0), "{}", report.text());
        assert_eq!(scene.stub.with(|world| world.included()), 48 + 3, "nothing is sent twice");
    }
}

#[test]
fn further_nodes_are_of_the_same_chain() {
    let first = scene(1, Manners::default());
    let same = scene(1, Manners::default());
    let other = scene(1, Manners { genesis: B256::repeat_byte(7), ..Manners::default() });
    let node = connect(&first.stub.url, TIMEOUT).unwrap();
    let silent = "http://127.0.0.1:1".to_owned();
    let check = |second: &str| check_chains(&node.rpc, &[same.stub.url.clone(), second.into()], TIMEOUT, marks);
    assert_eq!(check(&silent).unwrap().len(), 1, "one that is silent may come");
    let why = check(&other.stub.url).unwrap_err();
    assert!(matches!(&why, LoadError::OtherChain { url, .. } if *url == other.stub.url), "{why}");
    let refusal = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"no such thing"}}"#;
    let stranger = serve(move |_| Reply::Answer(refusal.into()));
    let why = check(&stranger).unwrap_err().to_string();
    assert!(why.contains(&stranger) && why.contains("no such thing"), "{why}");
}

#[test]
fn how_often_blocks_come_is_known_before_the_first() {
    let scene = scene(1, Manners { block_s: 15, block_ms: 600_000, ..Manners::default() });
    let rpc = connect(&scene.stub.url, TIMEOUT).unwrap().rpc;
    assert_eq!(block_time(&rpc, 0), Duration::ZERO);
    scene.stub.mine();
    assert_eq!(block_time(&rpc, 1), Duration::ZERO, "the time of the first block says nothing");
    (2..=5).for_each(|_| scene.stub.mine());
    assert_eq!(block_time(&rpc, 5), Duration::from_secs(15));
}

#[test]
fn stopping_while_contracts_are_created_ends_that() {
    let mut scene = scene(2, Manners { block_ms: 600_000, ..Manners::default() });
    scene.asked.mix = Kind::Erc20.into();
    let node = connect(&scene.stub.url, TIMEOUT).unwrap();
    let waits = || scene.stub.with(|world| world.waiting()) > 0;
    let why = scene.contracts(&node, &waits).unwrap_err();
    assert!(matches!(why, LoadError::Stopped), "{why}");
}

#[test]
fn fees_rise_when_the_node_asks_for_more() {
    let manners = Manners { base_fee: 30_000_000_000, ..Manners::default() };
    let report = scene(4, manners).counted(4).run();
    assert_eq!((report.sent, report.included, report.rejected), (16, 16, 0), "{}", report.text());
    assert!(report.dearer > 0);
}

/// Asserts that due transactions were sent or counted as unsent. Those that fall due at the very end are neither.
fn offered(report: &Report, rate: f64) {
    let (offered, due) = ((report.sent + report.unsent) as f64, rate * report.seconds);
    assert!((offered / due - 1.0).abs() < 0.1, "{offered} of {due}\n{}", report.text());
}

#[test]
fn a_rate_is_offered_whole_whatever_the_number_of_accounts() {
    let mut scene = scene(3, Manners { block_ms: 50, ..Manners::default() });
    scene.asked.pace = SendOptions { rate: Some(100.0), batch: 100, ..scene.asked.pace };
    scene.asked.timing.duration = Duration::from_secs(3);
    let report = scene.run();
    offered(&report, 100.0);
}

#[test]
fn late_node_is_reported() {
    let mut scene = scene(8, Manners { slow_ms: 200, block_ms: 50, ..Manners::default() });
    scene.asked.pace.rate = Some(200.0);
    scene.asked.timing.duration = Duration::from_secs(3);
    let report = scene.run();
    offered(&report, 200.0);
    assert!(report.unsent > 100, "{}", report.text());
    assert!(report.send_lag.unwrap().max_ms > 1000.0, "{}", report.text());
    assert!(report.behind_for_node_s > 1.0, "{}", report.text());
    // Whether round trips or the load's own cores are the limit depends on what else this machine does.
    assert!(![Limit::Rate, Limit::Unknown].contains(&report.limit), "{}", report.text());
}

#[test]
fn a_node_that_stood_still_is_the_limit_of_a_rate() {
    let mut scene = scene(8, Manners { block_ms: 50, ..Manners::default() });
    scene.asked.pace.rate = Some(50.0);
    scene.asked.timing.duration = Duration::from_secs(6);
    let node = connect(&scene.stub.url, TIMEOUT).unwrap();
    let stands = Cell::new(false);
    let on_progress = |progress: Progress<'_>| {
        if let Progress::Second(at, ..) = progress {
            // Like a node that is stopped for two seconds: requests are answered afterwards.
            let still = !stands.replace(at >= 1.0) && at >= 1.0;
            let slow_ms = if still { 2000 } else { 0 };
            scene.stub.behave(Manners { block_ms: 50, slow_ms, ..Manners::default() });
        }
    };
    let report = drive(&scene.asked, &node, Contracts::default(), &scene.signers, &|| false, on_progress).unwrap();
    assert!(report.behind_for_node_s > 1.0, "{}", report.text());
    assert!(![Limit::Rate, Limit::Unknown].contains(&report.limit), "{}", report.text());
}

#[test]
fn a_sender_that_is_late_catches_up() {
    // Each of two senders makes five requests per second, and 500 of its transactions fall due in that time.
    let mut scene = scene(800, Manners { slow_ms: 200, block_ms: 50, ..Manners::default() });
    scene.asked.pace = SendOptions { rate: Some(1000.0), batch: 400, ..scene.asked.pace };
    scene.asked.timing.duration = Duration::from_secs(3);
    let report = scene.run();
    offered(&report, 1000.0);
    // A busy machine may keep less.
    assert!(report.sent > 1000, "{}", report.text());
}

#[test]
fn another_node_takes_over_from_one_that_is_silent() {
    let mut scene = scene(6, Manners::default()).counted(5);
    scene.asked.networks.push("http://127.0.0.1:1".into());
    let report = scene.run();
    assert_eq!((report.sent, report.included), (30, 30), "{}", report.text());
    assert!(report.unanswered >= 1);
}

#[test]
fn evicted_transaction_is_sent_again_under_load() {
    // The test decides when blocks come; their timestamps make the load wait long for them.
    let scene = scene(4, Manners { block_ms: 600_000, block_s: 15, ..Manners::default() }).counted(5);
    (0..4).for_each(|_| scene.stub.mine());
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| scene.run());
        let until_there_wait = |enough: usize| {
            wait_until("all wait in the pool", || {
                assert!(!running.is_finished(), "{enough} do not wait");
                scene.stub.with(|world| world.waiting()) >= enough
            });
        };
        until_there_wait(20);
        scene.stub.evict();
        until_there_wait(20);
        scene.stub.mine();
        running.join().unwrap()
    });
    assert_eq!((report.sent, report.included, report.dropped), (20, 20, 0), "{}", report.text());
    assert_eq!(report.healed, 16);
}

#[test]
fn contracts_are_created_before_they_are_called() {
    let scene = scene(6, Manners::default()).counted(8);
    let scene =
        Scene { asked: RunOptions { mix: "contract=2,swap=1,erc20=1".parse().unwrap(), ..scene.asked }, ..scene };
    let report = scene.run();
    assert_eq!((report.sent, report.included, report.kind.as_str()), (48, 48, "contract=2,swap=1,erc20=1"));
    // Three contracts and two rounds of minting, besides the load.
    assert_eq!(scene.stub.with(|world| world.included()), 48 + 5);
}

/// A node that takes 40 ms per request, two at a time: 50 requests per second, and at such a low rate each holds one
/// transaction.
#[test]
fn the_highest_rate_under_a_bound_is_found() {
    let mut scene = scene(6, Manners { slow_ms: 40, block_ms: 20, ..Manners::default() });
    scene.asked.timing.duration = Duration::from_secs(1);
    let node = connect(&scene.stub.url, TIMEOUT).unwrap();
    let bound = Bound { p99: Duration::from_millis(1000), begin: 12.0 };
    let step = |asked: &RunOptions<Kind>, on_progress: &mut fn(Progress<'_>)| {
        drive(asked, &node, Contracts::default(), &scene.signers, &|| false, on_progress)
    };
    let found = ramp(&scene.asked, bound, &|| false, (|_| {}) as fn(Progress<'_>), step).unwrap();
    // A busy machine may keep less.
    assert!(found.highest.is_some(), "{}", found.text());
    assert!(found.steps.iter().any(|step| !step.good()), "{}", found.text());
    assert_eq!(found.report.and_then(|report| report.rate), found.highest);
}

#[test]
fn blocks_have_their_own_numbers_where_older_ones_are_not_kept() {
    let scene = scene(1, Manners { blocks_kept_from: 4, block_ms: 600_000, ..Manners::default() });
    (1..=6).for_each(|_| scene.stub.mine());
    let rpc = connect(&scene.stub.url, TIMEOUT).unwrap().rpc;
    let text = inspect::blocks(&rpc, 1, 6).unwrap();
    let numbers: Vec<_> = text.lines().skip(1).map_while(|line| line.split_whitespace().next()).collect();
    assert_eq!(numbers[..3], ["4", "5", "6"], "{text}");
}

#[test]
fn a_node_its_blocks_and_what_is_in_them_are_looked_at() {
    let scene = scene(3, Manners::default()).counted(2);
    scene.run();
    let node = connect(&scene.stub.url, TIMEOUT).unwrap();
    assert!(inspect::node(&node).unwrap().contains("31337"), "{}", inspect::node(&node).unwrap());
    let sender = address(&scene.signers[0]);
    let text = inspect::account(&node.rpc, sender).unwrap();
    assert!(text.contains(&sender.to_string()) && text.contains("sent, in blocks   2"), "{text}");
    let newest = node.rpc.number("eth_blockNumber", &json!([])).unwrap();
    let text = inspect::blocks(&node.rpc, 0, newest + 5).unwrap();
    assert!(text.contains("6 transactions"), "{text}");
    let hash = scene.stub.with(|world| world.any_mined()).unwrap();
    let text = inspect::transaction(&node.rpc, hash).unwrap();
    assert!(text.contains("it succeeded"), "{text}");
    let text = inspect::transaction(&node.rpc, Default::default()).unwrap();
    assert!(text.contains("does not know it"), "{text}");
}

#[test]
fn exhausted_presigned_transactions_are_reported() {
    let mut enough = scene(4, Manners::default()).counted(5);
    enough.asked.pace.presign = 5;
    let report = enough.run();
    assert_eq!((report.included, report.signed_late, report.signed_late_from_s), (20, 0, None));
    let mut few = scene(4, Manners::default()).counted(5);
    few.asked.pace.presign = 2;
    let report = few.run();
    assert_eq!((report.included, report.signed_late), (20, 12), "{}", report.text());
    assert!(report.text().contains("12 were signed while the load sent"), "{}", report.text());
    // If nothing is signed ahead, nothing can run out.
    let none = scene(4, Manners::default()).counted(5).run();
    assert_eq!((none.included, none.signed_late), (20, 0));
}

#[test]
fn how_late_the_load_reads_is_no_latency_of_the_node() {
    // No block can be read before everything is in blocks, which takes at least twice as long as the slowest
    // transaction took.
    let mut scene = scene(4, Manners { block_ms: 20, blocks_held_until: 80, ..Manners::default() }).counted(20);
    scene.asked.pace.rate = Some(100.0);
    let report = scene.run_on(&connect(&scene.stub.url, Duration::from_secs(120)).unwrap());
    assert_eq!(report.included, report.sent, "{}", report.text());
    let (latency, lag) = (report.latency.unwrap(), report.reading_lag.unwrap());
    assert!(latency.p50_ms < lag.p50_ms, "{}", report.text());
    assert!(report.text().contains("reading lag"), "{}", report.text());
}
