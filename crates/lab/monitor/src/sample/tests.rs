//! Samples of a synthetic workspace.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hearth_ring::{HugePages, Workspace};
use hearth_tile::bandwidth::Table;
use hearth_tile::counters::{CounterSet, FIRST_REGIME, LoopCounters};
use hearth_tile::topology::{Consumption, LinkSpec};

use super::*;

hearth_tile::counters! {
    /// Counters of this test's bank.
    pub struct BankCounters {
        /// Transactions that landed with success.
        landed: Counter,
        /// Transactions that landed and failed.
        failed: Counter,
        /// Transactions that were dropped for another reason.
        dropped_other: Counter,
    }
}

fn topology() -> Topology {
    let consumers = vec![Consumption { tile: "bank:0".into(), reliable: true }];
    let pack = TileSpec { core: Some(0), peers: 2, ..TileSpec::new::<()>("pack", 0) };
    Topology {
        name: "test".into(),
        tiles: vec![pack, TileSpec::new::<BankCounters>("bank", 0)],
        links: vec![LinkSpec { name: "pack_bank".into(), depth: 8, mtu: 64, producer: "pack:0".into(), consumers }],
        services: vec![],
    }
}

#[test]
fn rates_and_shares_are_those_of_the_time_between() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("workspace");
    let plan = topology().workspace_plan(HugePages::None);
    let workspace = Workspace::create(&path, &plan).unwrap();
    let watch = Watch::attach(&[folder.path().join("none"), path.clone()]).unwrap();
    let before = watch.look();

    let words = |tile: &str| workspace.counters(tile).unwrap();
    let own = |at: usize| LoopCounters::DECLS.len() + at;
    let (pack, bank) = (words("pack:0"), words("bank:0"));
    bank.words()[own(0)].store(900, Relaxed);
    bank.words()[own(1)].store(100, Relaxed);
    bank.words()[own(2)].store(50, Relaxed);
    pack.words()[FIRST_REGIME + Regime::Finish as usize].store(300, Relaxed);
    pack.words()[FIRST_REGIME + Regime::Elsewhere as usize].store(700, Relaxed);
    let state = LoopCounters::DECLS.iter().position(|decl| decl.name == "state").unwrap();
    pack.words()[state].store(1, Relaxed);
    let (mut producer, mut consumer) =
        (workspace.producer("pack_bank").unwrap(), workspace.consumer("pack_bank", "bank:0").unwrap());
    for _ in 0..4 {
        producer.send(&[0; 16], 0, 0, 0, 0);
    }
    while let hearth_ring::PollResult::Ready(_) = consumer.poll() {
        consumer.advance();
    }
    consumer.release();

    let mut table = Table::new(2, [1, 2]);
    table.received("192.0.2.7:8001".parse().unwrap(), 3_000);
    table.sent("192.0.2.7:8001".parse().unwrap(), 500);
    table.flush(&pack.words()[own(0)..], 0);

    let mut after = watch.look();
    after.at = before.at + Duration::from_secs(2);
    let sample = Sample::between(&watch, &before, &after);
    assert!(sample.alive && sample.pid == std::process::id() && sample.cores_allowed >= 1);
    assert_eq!((sample.txn_per_s, sample.failed_per_s), (500.0, 50.0));
    assert_eq!(sample.dropped_per_s.clone().into_iter().collect::<Vec<_>>(), [("bank_other".into(), 25.0)]);
    let pack = &sample.tiles[0];
    assert_eq!((pack.state, pack.stale_s, pack.heart), (TileState::Run, None, false));
    assert_eq!((pack.regimes.finish, pack.regimes.elsewhere, pack.regimes.busy()), (0.3, 0.7, 0.3));
    assert_eq!(sample.cores, [CoreSample { core: 0, tiles: vec!["pack:0".into()], busy: 0.3, taken: 0.0 }]);
    let link = &sample.links[0];
    assert_eq!((link.producer.as_str(), link.consumer.as_str()), ("pack:0", "bank:0"));
    assert_eq!((link.total_per_s, link.unique_per_s, link.sequence, link.sequence_delta), (2.0, 2.0, 4, 4));
    assert_eq!(link.waiting, 0);
    let bandwidth = &sample.bandwidth;
    assert_eq!((bandwidth.received_bits_per_s, bandwidth.sent_bits_per_s), (12_000.0, 2_000.0));
    assert_eq!((bandwidth.peers.len(), &bandwidth.peers[0].peer[..]), (1, "192.0.2.7"));

    // The last activity stays after the node is gone, with the final states of its tiles.
    let mut end = Sample { unix_ns: 7, tiles: sample.tiles.clone(), ..Sample::default() };
    end.tiles[0].state = TileState::Died;
    let left = sample.left_as(&end);
    assert_eq!((left.alive, left.unix_ns, left.txn_per_s, left.tiles[0].state), (false, 7, 500.0, TileState::Died));
    assert_eq!(left.tiles[0].regimes, sample.tiles[0].regimes);

    drop((producer, consumer, workspace));
}

#[test]
fn a_node_that_is_gone_leaves_its_last_second_and_may_have_a_successor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("workspace");
    let plan = topology().workspace_plan(HugePages::None);
    let workspace = Workspace::create(&path, &plan).unwrap();
    let watch = Watch::attach(&[path.clone()]).unwrap();
    assert!(watch.successor().unwrap().is_some_and(|same| same.is_alive()), "it runs");
    let mut seconds = crate::Seconds::of(watch);
    workspace.counters("bank:0").unwrap().words()[LoopCounters::DECLS.len()].store(900, Relaxed);
    let before = seconds.next_second();
    assert!(before.sample.alive && before.sample.txn_per_s > 0.0);

    drop(workspace);
    let after = seconds.next_second();
    assert_eq!((after.sample.alive, after.diagnosis.finding), (false, crate::Finding::Gone));
    assert_eq!(after.sample.txn_per_s, before.sample.txn_per_s, "what it did last");
    assert!(seconds.watch().successor().unwrap().is_none());
    let next = Workspace::create(&path, &plan).unwrap();
    assert!(seconds.watch().successor().unwrap().is_some_and(|next| next.is_alive()));
    let end = seconds.follow().unwrap().expect("the end of a node that was seen to run");
    assert_eq!((end.sample.alive, end.sample.txn_per_s), (false, before.sample.txn_per_s));
    assert!(seconds.follow().unwrap().is_some_and(|second| second.sample.alive), "the next node");
    drop(next);
}

#[test]
fn a_node_that_starts_is_not_taken_for_a_dead_one() {
    let folder = tempfile::tempdir().unwrap();
    let [path, left] = ["workspace", "left"].map(|name| folder.path().join(name));
    let plan = topology().workspace_plan(HugePages::None);
    let workspace = Workspace::create(&path, &plan).unwrap();
    // A killed node leaves its file, which no process holds.
    std::fs::copy(&path, &left).unwrap();
    drop(workspace);
    std::fs::rename(&left, &path).unwrap();
    let mut seconds = crate::Seconds::of(Watch::attach(&[path.clone()]).unwrap());
    let alone = seconds.follow().unwrap().expect("no other node runs, so this one's end is reported");
    assert_eq!(alone.diagnosis.finding, crate::Finding::Gone);

    let starting = Workspace::create(&path, &plan).unwrap();
    assert!(seconds.follow().unwrap().is_none(), "the end of the one before is no news");
    let first = seconds.follow().unwrap().expect("a second of the new node");
    assert!(first.sample.alive && first.diagnosis.finding != crate::Finding::Gone, "{:?}", first.diagnosis);
    // Its tiles have not run yet: there is no heartbeat, and nothing is wrong with that.
    let tile = &first.sample.tiles[0];
    assert_eq!((tile.state, tile.stale_s), (TileState::Boot, None));
    assert_ne!(first.diagnosis.finding, crate::Finding::TileStuck);
    drop(starting);
}

#[test]
fn missing_node_names_every_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let stranger = folder.path().join("stranger");
    std::fs::write(&stranger, vec![7; 8192]).unwrap();
    let none = || folder.path().join("none");
    let why = Watch::attach(&[none(), none()]).unwrap_err().to_string();
    assert!(why.starts_with("no running node to watch") && why.lines().count() == 3, "{why}");
    let why = Watch::attach(&[none(), stranger]).unwrap_err().to_string();
    assert!(why.starts_with("nothing here can be watched") && why.lines().count() == 3, "{why}");
}
