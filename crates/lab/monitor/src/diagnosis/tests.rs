//! Diagnoses of synthetic samples: each finding, distinguished from its neighbours.

use super::*;
use crate::sample::{LinkSample, Regimes};

fn tile(name: &str, core: usize, busy: f64) -> TileSample {
    let regimes = Regimes { finish: busy, wait: 1.0 - busy, ..Regimes::default() };
    TileSample {
        tile: name.into(),
        kind: kind_of(name).into(),
        core: Some(core),
        count_key: (kind_of(name) == "verify").then(|| "layout.verify_tile_count".into()),
        state: TileState::Run,
        stale_s: Some(0.001),
        heart: true,
        waited_for_core: Some(0.0),
        regimes,
        ..TileSample::default()
    }
}

/// A tile that is in backpressure for a share `backp` of its time.
fn blocked(name: &str, core: usize, busy: f64, backp: f64) -> TileSample {
    let regimes = Regimes { finish: busy, backp, wait: 1.0 - busy - backp, ..Regimes::default() };
    TileSample { regimes, ..tile(name, core, busy) }
}

fn slow(producer: &str, consumer: &str, per_s: f64) -> LinkSample {
    LinkSample {
        link: format!("{}_{}", kind_of(producer), kind_of(consumer)),
        producer: producer.into(),
        consumer: consumer.into(),
        reliable: true,
        depth: 128,
        slow_per_s: per_s,
        ..LinkSample::default()
    }
}

fn node(tiles: Vec<TileSample>, links: Vec<LinkSample>) -> Sample {
    let mut sample = Sample { alive: true, pid: 7, cores_allowed: 8, txn_per_s: 1e5, links, ..Sample::default() };
    for tile in &tiles {
        let core = tile.core.expect("pinned");
        let found = sample.cores.iter().position(|sample| sample.core == core);
        let at = found.unwrap_or_else(|| {
            sample.cores.push(CoreSample { core, ..CoreSample::default() });
            sample.cores.len() - 1
        });
        let of_core = &mut sample.cores[at];
        of_core.tiles.push(tile.tile.clone());
        of_core.busy += tile.regimes.busy();
        of_core.taken = of_core.taken.max(tile.waited_for_core.unwrap_or(0.0));
    }
    sample.tiles = tiles;
    sample
}

fn message_of(sample: &Sample, finding: Finding, kind: &str) -> String {
    let found = diagnose(sample);
    assert_eq!((found.finding, found.kind.as_deref().unwrap_or("")), (finding, kind), "{found}");
    found.to_string()
}

#[test]
fn a_kind_that_is_full_is_the_limit_and_more_of_it_the_advice() {
    let verify = (0..4).map(|i| tile(&format!("verify:{i}"), i + 1, 0.99));
    let mut lossy = slow("quic:0", "verify:0", 0.0);
    lossy.overrun_per_s = 9.0;
    let sample = node(std::iter::once(blocked("quic:0", 0, 0.3, 0.5)).chain(verify).collect(), vec![lossy]);
    assert_eq!(
        message_of(&sample, Finding::KindFull, "verify"),
        "verify is the limit: 4 of 4 tiles are 99 % busy and overrun 9/s; add a verify tile, 3 cores are free (`layout.verify_tile_count = 5`)"
    );
    let cramped = Sample { cores_allowed: 5, ..sample };
    assert!(message_of(&cramped, Finding::KindFull, "verify").contains("none is free"));
}

#[test]
fn a_chain_of_backpressure_is_followed_to_its_end() {
    let tiles = vec![
        blocked("bank:0", 0, 0.2, 0.7),
        blocked("poh:0", 1, 0.3, 0.6),
        blocked("shred:0", 2, 0.1, 0.8),
        tile("store:0", 3, 0.97),
    ];
    let links = vec![slow("bank:0", "poh:0", 90.0), slow("poh:0", "shred:0", 80.0), slow("shred:0", "store:0", 70.0)];
    let sample = node(tiles.clone(), links.clone());
    let says = message_of(&sample, Finding::KindFull, "store");
    assert!(says.starts_with("store is the limit: it is 97 % busy; bank, poh and shred wait for it"), "{says}");
    assert!(says.contains("there is one of it"), "{says}");
    // The same, but the end of the chain is idle: it waits for something outside.
    let mut idle = tiles;
    idle[3] = tile("store:0", 3, 0.4);
    let says = message_of(&node(idle, links), Finding::WaitsOutside, "store");
    assert!(says.contains("waits for the disk (40 % busy)"), "{says}");
}

/// The node holds the load back over the network, without any link: its full core is the limit, not the sender.
#[test]
fn a_sender_that_waits_for_the_node_is_not_the_limit() {
    let tiles = |verify| {
        let load = vec![blocked("benchg:0", 1, 0.2, 0.8), tile("benchs:0", 1, 0.07)];
        let node = vec![tile("quic:0", 0, 0.07), tile("verify:0", 0, 0.3), tile("poh:0", 0, verify)];
        load.into_iter().chain(node).collect()
    };
    let links = vec![slow("benchg:0", "benchs:0", 300.0)];
    let mut sample = node(tiles(0.6), links.clone());
    sample.cores_allowed = 2;
    let says = message_of(&sample, Finding::CoreFull, "poh");
    assert!(says.starts_with("core 0 is the limit") && says.contains("the load waits for it"), "{says}");
    assert!(says.ends_with("move tiles to core 1, which is 27 % busy (`layout.affinity`)"), "{says}");
    let says = message_of(&node(tiles(0.1), links), Finding::WaitsOutside, "benchs");
    assert!(says.starts_with("the load waits for the node: the QUIC connections of benchs:0 hold as much"), "{says}");
    assert!(
        says.contains("more connections raise the rate") && says.ends_with("(`development.bench.connections`)"),
        "{says}"
    );
}

#[test]
fn a_ring_of_backpressure_has_an_end() {
    let tiles = vec![blocked("pack:0", 0, 0.2, 0.7), blocked("bank:0", 1, 0.2, 0.7)];
    let links = vec![slow("pack:0", "bank:0", 9.0), slow("bank:0", "pack:0", 9.0)];
    assert_eq!(diagnose(&node(tiles, links)).finding, Finding::WaitsOutside);
}

#[test]
fn backpressure_counts_by_the_time_that_the_core_was_the_tiles() {
    // A tile that runs 4 % of the time and is blocked for 2 % is blocked a third of its own time.
    let regimes = Regimes { finish: 0.04, backp: 0.02, elsewhere: 0.94, ..Regimes::default() };
    let quic = TileSample { regimes, ..tile("quic:0", 0, 0.0) };
    let tiles = vec![quic, tile("verify:0", 0, 0.93), tile("bank:0", 1, 0.2)];
    let says = message_of(&node(tiles, vec![slow("quic:0", "verify:0", 50.0)]), Finding::CoreFull, "verify");
    assert!(says.contains("shares it with quic:0; quic waits for it; let the tiles spread over the cores"), "{says}");
}

#[test]
fn shared_cores_are_distinguished_from_tiles_with_a_core() {
    let tiles = vec![tile("verify:0", 0, 0.6), tile("dedup:0", 0, 0.35), tile("bank:0", 1, 0.2)];
    let sample = Sample { cores_allowed: 2, ..node(tiles, vec![]) };
    let says = message_of(&sample, Finding::CoreFull, "verify");
    assert!(says.starts_with("core 0 is the limit: it is 95 % busy, 63 % of it with verify:0"), "{says}");
    assert!(says.ends_with("move tiles to core 1, which is 20 % busy (`layout.affinity`)"), "{says}");
    let tiles =
        vec![tile("verify:0", 0, 0.6), tile("dedup:0", 0, 0.35), tile("verify:1", 1, 0.6), tile("bank:0", 1, 0.36)];
    let sample = Sample { cores_allowed: 2, ..node(tiles, vec![]) };
    let says = message_of(&sample, Finding::AllCoresFull, "verify");
    assert!(says.starts_with("the cores are the limit: all 2 are 96 % busy, and 2 verify tiles take 63 % of that"));
    assert!(says.ends_with("only more or faster cores raise the rate"), "{says}");
}

/// Only if moving tiles gains little, and poh takes the most.
#[test]
fn a_chain_that_hashes_too_much_is_reported() {
    let told_with = |busy: f64, poh: f64, finding, kind| {
        let tiles = vec![tile("poh:0", 0, poh), tile("pack:0", 0, 0.97 - poh), tile("verify:0", 1, busy)];
        message_of(&Sample { cores_allowed: 2, ..node(tiles, vec![]) }, finding, kind)
    };
    let says = told_with(0.85, 0.6, Finding::CoreFull, "poh");
    assert!(says.ends_with("have ticks timed instead of hashed (`development.genesis.hashes_per_tick = 0`)"), "{says}");
    let says = told_with(0.5, 0.6, Finding::CoreFull, "poh");
    assert!(says.ends_with("move tiles to core 1, which is 50 % busy (`layout.affinity`)"), "{says}");
    // Tiles are not moved to a core that would be the next to be full.
    let says = told_with(0.84, 0.3, Finding::CoreFull, "pack");
    let none = "no other core has room (the idlest, 1, is 84 % busy): only more or faster cores raise the rate";
    assert!(says.ends_with(none), "{says}");
    assert!(told_with(0.92, 0.96, Finding::AllCoresFull, "poh").contains("hashes_per_tick"));
}

#[test]
fn cores_that_others_have_are_distinguished_from_busy_ones() {
    let mut verify = tile("verify:0", 0, 0.97);
    (verify.waited_for_core, verify.preempted_per_s) = (Some(0.4), 310.0);
    let says = message_of(&node(vec![verify.clone(), tile("bank:0", 1, 0.2)], vec![]), Finding::CoresTaken, "");
    assert!(says.starts_with("other programs have core 0: for 40 % of the time verify:0 waited for it, preempted 310"));
    // An otherwise idle core does not miss the time that others used.
    verify.regimes = tile("verify:0", 0, 0.3).regimes;
    assert_eq!(diagnose(&node(vec![verify.clone()], vec![])).finding, Finding::Room);
    // Unless they use it most of the time: then backpressure and idleness elsewhere mean nothing.
    verify.waited_for_core = Some(0.7);
    let tiles = vec![verify, blocked("quic:0", 1, 0.1, 0.8)];
    assert_eq!(diagnose(&node(tiles, vec![slow("quic:0", "verify:0", 50.0)])).finding, Finding::CoresTaken);
}

/// The tiles of a core publish their shares at different moments, so their sum may slightly exceed 1.
#[test]
fn shares_stop_at_all_of_it() {
    let tiles = vec![tile("verify:0", 0, 0.7), tile("dedup:0", 0, 0.35), tile("bank:0", 1, 0.2)];
    let says = message_of(&Sample { cores_allowed: 2, ..node(tiles, vec![]) }, Finding::CoreFull, "verify");
    assert!(says.starts_with("core 0 is the limit: it is 100 % busy, 67 % of it with verify:0"), "{says}");
}

#[test]
fn the_dead_explain_all() {
    let full = || vec![tile("verify:0", 0, 0.99), tile("bank:0", 1, 0.99)];
    let gone = Sample { alive: false, ..node(full(), vec![]) };
    assert!(message_of(&gone, Finding::Gone, "").contains("pid 7"));
    let mut tiles = full();
    tiles[1].state = TileState::Died;
    let died = node(tiles, vec![]);
    assert!(message_of(&died, Finding::TileDied, "bank").starts_with("bank:0 died; its panic"));
    let says = message_of(&Sample { alive: false, ..died }, Finding::TileDied, "bank");
    assert!(says.starts_with("bank:0 died; the node is gone; its panic"), "{says}");
    let mut tiles = full();
    tiles[0].stale_s = Some(31.0);
    assert!(message_of(&node(tiles, vec![]), Finding::TileStuck, "verify").contains("for 31 s: its thread is stuck"));
}

#[test]
fn conflicts_overruns_and_rest_are_reported() {
    let busy = || vec![tile("verify:0", 0, 0.4), tile("shred:0", 1, 0.2)];
    let sample = Sample { held_back: 20_000, ..node(busy(), vec![]) };
    assert!(message_of(&sample, Finding::Conflicts, "pack").starts_with("20000 transactions wait"));
    let sample = Sample { block_full: BTreeMap::from([("account".to_owned(), 0.4)]), ..sample };
    assert!(
        message_of(&sample, Finding::Conflicts, "pack").contains("for 40 % of the time an account that they write")
    );
    let mut lossy = slow("net:0", "shred:0", 0.0);
    lossy.overrun_per_s = 120.0;
    let says = message_of(&node(busy(), vec![lossy]), Finding::Overrun, "shred");
    assert!(says.starts_with("shred:0 loses 120 frags/s of net_shred"), "{says}");
    assert!(message_of(&node(busy(), vec![]), Finding::Room, "").contains("the busiest core, 0, is 40 % busy"));
    let rest = Sample { txn_per_s: 2.5, ..node(busy(), vec![]) };
    message_of(&rest, Finding::Idle, "");
}

#[test]
fn a_block_that_is_full_is_the_limit_however_busy_the_cores_are() {
    let busy = || vec![tile("verify:0", 0, 0.99), tile("bank:0", 1, 0.99)];
    let full = |of: &str, share: f64| Sample { block_full: [(of.to_owned(), share)].into(), ..node(busy(), vec![]) };
    assert_eq!(
        message_of(&full("compute", 0.62), Finding::BlockFull, "pack"),
        "the block is the limit: for 62 % of the time it has no compute units left, and transactions wait for the next; \
         lift the limit on them (`development.bench.larger_max_cost_per_block = true`)"
    );
    for (of, key) in
        [("bytes", Some("larger_shred_limits")), ("microblocks", Some("hashes_per_tick")), ("growth", None)]
    {
        let advice = diagnose(&full(of, 0.3)).advice;
        assert_eq!(advice.is_some(), key.is_some());
        advice.iter().for_each(|advice| assert!(advice.key.as_ref().unwrap().contains(key.unwrap()), "{advice:?}"));
    }
    // A short moment is no limit.
    assert_eq!(diagnose(&full("compute", 0.05)).finding, Finding::KindFull);
}

#[test]
fn late_hashing_is_named_before_full_blocks() {
    let full = BTreeMap::from([("compute".to_owned(), 0.9)]);
    let busy = || vec![tile("poh:0", 0, 0.6), tile("verify:1", 0, 0.35), tile("verify:0", 1, 0.5)];
    let late = Sample { slots_late_s: 1.24, hashes_per_tick: 300_000.0, block_full: full, ..node(busy(), vec![]) };
    assert_eq!(
        message_of(&late, Finding::SlotsLate, "poh"),
        "poh is the limit: slots begin 1.2 s late, since it cannot do 300000 hashes in a tick; \
         ask for fewer (`development.genesis.hashes_per_tick = 62500`)"
    );
    // A node that cannot reach the cluster's number is advised to do no hashing.
    let slower = Sample { hashes_per_tick: 62_500.0, ..late.clone() };
    assert!(diagnose(&slower).to_string().ends_with("hashes_per_tick = 0`)"));
    // Without hashes something else makes them late.
    assert_eq!(diagnose(&Sample { hashes_per_tick: 3.0, ..late }).finding, Finding::BlockFull);
}

#[test]
fn slots_that_something_else_makes_late_are_not_blamed_on_hashing() {
    let late = |tiles, links| Sample { slots_late_s: 3.0, hashes_per_tick: 62_500.0, ..node(tiles, links) };
    // A slow disk blocks every tile before it, including poh.
    let tiles = vec![blocked("poh:0", 0, 0.5, 0.45), blocked("shred:0", 1, 0.1, 0.8), tile("store:0", 2, 0.2)];
    let links = vec![slow("poh:0", "shred:0", 80.0), slow("shred:0", "store:0", 70.0)];
    let says = message_of(&late(tiles, links), Finding::WaitsOutside, "store");
    assert!(says.starts_with("store:0 waits for the disk (20 % busy); poh and shred wait for it"), "{says}");
    // Other programs use its core for part of the time in which it would hash.
    let mut poh = tile("poh:0", 0, 0.97);
    poh.waited_for_core = Some(0.4);
    message_of(&late(vec![poh.clone()], vec![]), Finding::CoresTaken, "");
    // It waits for work.
    message_of(&late(vec![tile("poh:0", 0, 0.4)], vec![]), Finding::Room, "");
    // With the core to itself and only hashes to do, hashing is the cause.
    poh.waited_for_core = Some(0.01);
    message_of(&late(vec![poh], vec![]), Finding::SlotsLate, "poh");
}

#[test]
fn shared_core_is_reported_with_both_keys() {
    let mut tiles = vec![tile("verify:0", 0, 0.6), tile("bank:0", 0, 0.35)];
    let alone = message_of(&node(tiles.clone(), vec![]), Finding::AllCoresFull, "verify");
    assert!(alone.starts_with("core 0 is the limit: all tiles share it, it is 95 % busy"), "{alone}");
    assert!(alone.ends_with("the cores, 7 cores are free (`layout.affinity = \"auto\"`)"), "{alone}");
    tiles[0].load = true;
    let bench = message_of(&node(tiles, vec![]), Finding::AllCoresFull, "verify");
    assert!(bench.contains("the load's too by `development.bench.affinity`"), "{bench}");
}
