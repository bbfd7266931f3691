//! Properties that the simulation must have.

use super::*;

fn plan(nodes: usize, tps: f64) -> Plan {
    Plan { nodes, tps, seeds: 3, sets: u16::MAX, world: World::shipped().without_loss(), ..Plan::default() }
}

#[test]
fn talk_is_compared_in_its_direction() {
    let Calibration { bandwidths, growth } = calibrate().expect("simulated");
    let sent: Vec<(&str, f64, f64)> = bandwidths.iter().map(|row| (row.of, row.tps, row.shown_bps)).collect();
    let (low, high) = (81_500.0, 1_040_000.0);
    assert_eq!(
        sent,
        [
            ("a follower sends", low, 340e6),
            ("the leader sends", low, 724e6),
            ("a follower sends", high, 4.3e9),
            ("the leader sends", high, 5.12e9),
            ("the load generator sends", high, 2.37e9),
        ]
    );
    for row in &bandwidths {
        assert!(row.difference().abs() < 0.06, "{row:?}");
    }
    // Nine followers receive every shred once from ten senders, so a follower sends 8/9 of what it receives: the leader
    // sends the first copy of each.
    let leader_shreds = bandwidths[1].ours_bps - bandwidths[1].modelled_bps;
    assert!((bandwidths[0].ours_bps / leader_shreds / (8.0 / 9.0) - 1.0).abs() < 0.02, "{bandwidths:?}");
    for (row, shreds) in bandwidths.iter().filter(|row| row.modelled_bps > 0.0).zip([370e6, 4.7e9]) {
        assert!(((row.ours_bps - row.modelled_bps) / shreds - 1.0).abs() < 0.05, "{row:?}");
    }
    assert_eq!(growth.iter().map(|row| row.of).collect::<Vec<_>>(), ["transactions", FOLLOWER_SENDS, LEADER_SENDS]);
    assert!((growth[1].ours / growth[1].shown - 1.0).abs() < 0.02, "{growth:?}");
}

const FOLLOWER_SENDS: &str = "a follower sends";
const LEADER_SENDS: &str = "the leader sends";

#[test]
fn lossless_network_needs_no_repair() {
    let report = plan(300, 20_000.0).run().expect("simulated");
    let [sets, simulated] = report.sets;
    assert_eq!((sets, simulated), (56, 56));
    let slots_bps = traffic::set() as f64 * sets as f64 * 8.0 / 0.4;
    for seed in &report.seeds {
        assert_eq!((seed.without, seed.repaired), (0, 0.0));
        // Each follower gets one copy of each shred, so as much is sent as is received.
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert!(near(seed.leader_out_bps, slots_bps) && seed.follower_in_bps.iter().all(|bps| near(*bps, slots_bps)));
        let sent: f64 = seed.leader_out_bps + seed.followers_bps.iter().map(|one| one[0]).sum::<f64>();
        assert!(near(sent, slots_bps * 299.0), "{sent}");
        // The farthest gets it by way of the root, with queues and jitter: at most 115 ms for each of the two paths.
        let last = seed.stake_ms[2].expect("reached");
        assert!((50.0..260.0).contains(&last), "{last} ms");
        assert_eq!(seed.stake_ms, seed.live_stake_ms);
        assert!((seed.curve.last().expect("a curve")[1] - 1.0).abs() < 1e-9);
    }
}

#[test]
fn parity_mends_loss_before_repair() {
    let lossy = |loss: f64| Plan { world: World::shipped().with_loss(loss), ..plan(120, 20_000.0) };
    let some = lossy(0.05).run().expect("simulated");
    let most = lossy(0.45).run().expect("simulated");
    for (some, most) in some.seeds.iter().zip(&most.seeds) {
        assert!(some.repaired < 0.01, "half of the shreds are enough: {}", some.repaired);
        assert!(most.repaired > 0.05, "{}", most.repaired);
        assert_eq!((some.without, most.without), (0, 0), "all is had in the end");
        assert!(most.stake_ms[2] > some.stake_ms[2]);
    }
}

#[test]
fn dead_nodes_cost_their_children_and_their_stake() {
    let plan = Plan { dead: 0.2, stakes: Stakes::Equal, ..plan(200, 20_000.0) };
    let report = plan.run().expect("simulated");
    assert_eq!(report.dead, 40);
    for seed in &report.seeds {
        assert_eq!((seed.without, seed.followers_bps.len()), (0, 159));
        assert!(seed.stake_ms[0].is_some() && seed.stake_ms[1].is_none(), "80 in 100 are there: {:?}", seed.stake_ms);
        assert!(seed.live_stake_ms[2].is_some());
    }
}

#[test]
fn sampled_sets_match_all_sets() {
    let all = Plan { world: World::shipped(), seeds: 6, ..plan(150, 200_000.0) };
    let some = Plan { sets: 60, ..all.clone() };
    let (all, some) = (all.run().expect("simulated"), some.run().expect("simulated"));
    assert_eq!((all.sets, some.sets), ([560, 560], [560, 60]));
    let mean = |report: &Report, of: &dyn Fn(&Seed) -> f64| {
        report.seeds.iter().map(of).sum::<f64>() / report.seeds.len() as f64
    };
    let near = |name: &str, part: f64, of: &dyn Fn(&Seed) -> f64| {
        let (whole, part_of) = (mean(&all, of), mean(&some, of));
        assert!((part_of / whole - 1.0).abs() < part, "{name}: {whole} of all, {part_of} of some");
    };
    near("leader out", 0.001, &|seed| seed.leader_out_bps);
    near("in", 0.02, &|seed| seed.follower_in_bps[0]);
    near("out", 0.2, &|seed| seed.follower_out_bps[0]);
    near("50 %", 0.1, &|seed| seed.stake_ms[0].expect("reached"));
    near("99 %", 0.1, &|seed| seed.stake_ms[2].expect("reached"));
}

#[test]
fn a_slow_uplink_makes_blocks_late() {
    let slow = |rate_gbps: f64| {
        let mut world = World::shipped().without_loss();
        world.regions.iter_mut().for_each(|region| region.rate_gbps = rate_gbps);
        let report = Plan { world, seeds: 1, ..plan(100, 50_000.0) }.run().expect("simulated");
        (report.seeds[0].stake_ms[1].expect("reached"), report.seeds[0].overloaded)
    };
    // The leader alone must send 223 Mb/s.
    let (late, soon) = (slow(0.15), slow(25.0));
    assert!(late.0 > soon.0 + 150.0 && late.1 > soon.1, "{late:?} and {soon:?}");
}

/// The shipped map, with a leader's region of this rate.
fn slow_leader(rate_gbps: f64) -> World {
    let mut world = World::shipped().without_loss();
    world.regions[0].rate_gbps = rate_gbps;
    world
}

#[test]
fn overloaded_leader_is_late_and_reported() {
    let of = |rate_gbps: f64| {
        let world = slow_leader(rate_gbps);
        let plan = Plan { world, seeds: 1, sets: 64, leader: Some(0), ..plan(40, 1e6) };
        plan.run().expect("simulated")
    };
    let late = of(1.0);
    // 4.45 Gb/s on an uplink of 1 Gb/s: 400 ms of it take 1,781 ms, starting as the first set is cut.
    let behind_ms = traffic::set() as f64 * 8.0 * late.sets[0] as f64 / 1e6 - 400.0;
    assert!((1_380.0..1_382.0).contains(&behind_ms), "{behind_ms}");
    let found = late.seeds[0].stake_ms[1].expect("reached");
    assert!((behind_ms..behind_ms + 250.0).contains(&found), "{found}");
    assert!(late.seeds[0].leader_overloaded);
    assert!(text(&late).contains("leader") && text(&late).contains("times are lower bounds"), "{}", text(&late));
    assert_eq!(late.seeds[0].repaired, 0.0, "what the leader has not sent yet is not asked for");
    let soon = of(25.0);
    assert!(soon.seeds[0].stake_ms[1] < Some(250.0), "{:?}", soon.seeds[0].stake_ms);
    assert!(!soon.seeds[0].leader_overloaded);
}

#[test]
fn sampled_sets_match_for_a_slow_leader() {
    // 100,000 transfers a second are 445 Mb/s.
    for rate_gbps in [0.1, 0.4, 0.5] {
        let all = Plan { world: slow_leader(rate_gbps), seeds: 1, leader: Some(0), ..plan(30, 100_000.0) };
        let some = Plan { sets: 40, ..all.clone() };
        let [all, some] = [all, some].map(|plan| plan.run().expect("simulated").seeds.remove(0));
        for (all, some) in all.stake_ms.into_iter().zip(some.stake_ms) {
            let (all, some) = (all.expect("reached"), some.expect("reached"));
            assert!((some / all - 1.0).abs() < 0.1, "{rate_gbps} Gb/s: {all} of all, {some} of some");
        }
    }
}

#[test]
fn a_seed_is_a_course() {
    let run = |seed: u64| {
        let plan = Plan { world: World::shipped(), dead: 0.05, seed, ..plan(80, 20_000.0) };
        serde_json::to_string(&plan.run().expect("simulated")).expect("JSON")
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn contradictory_options_are_reported() {
    let of = |plan: Plan| plan.run().expect_err("no plan").to_string();
    assert_eq!(of(plan(1, 1e6)), "1 nodes: from 2 to 50000 can be simulated");
    assert_eq!(of(plan(10, 0.0)), "transactions a second: 0 is not from 1 to 1000000000");
    assert_eq!(of(Plan { dead: 1.0, ..plan(10, 1e6) }), "the part of dead nodes: 1 is not from 0 to 0.99");
    let missing = Plan { stakes: Stakes::File("none".into()), ..plan(10, 1e6) };
    assert!(of(missing).starts_with("`none` is neither `equal`, `zipf`, `zipf:POWER` nor a file"));
}

#[test]
fn excess_is_refused_before_allocation() {
    let of = |plan: Plan| plan.run().expect_err("no plan").to_string();
    for stakes in [Stakes::Equal, Stakes::default()] {
        let many = Plan { stakes, ..plan(usize::MAX, 1e6) };
        assert_eq!(of(many), format!("{} nodes: from 2 to 50000 can be simulated", usize::MAX));
    }
    let wide = Plan { fanout: usize::MAX, ..plan(10, 1e6) };
    assert_eq!(of(wide), format!("a fanout of {}: from 1 to 50000 can be simulated", usize::MAX));
    let long = Plan { sets: u16::MAX, tps: 1e9, ..plan(2_000, 1e9) };
    assert_eq!(
        of(long),
        "65535 sets of 2000 nodes take some 281.2 GiB of memory, and a simulation takes 4.0 at most: ask for 932 sets \
         at most (--sets), or fewer nodes"
    );
    let often = Plan { seeds: u32::MAX, ..plan(10, 1e6) };
    assert_eq!(
        of(often),
        "what 4294967295 seeds tell of 10 nodes takes some 13440.0 GiB: ask for 639132 at most (--seeds)"
    );
}

#[test]
fn memory_bounds_sets_and_slots_at_once() {
    let plan = |nodes: usize, sets: u16| Plan { seeds: 4, sets, ..plan(nodes, 1e9) };
    assert_eq!(plan(2_000, 64).at_once().expect("room"), 14);
    assert_eq!(plan(2_000, 932).at_once().expect("room"), 1);
    assert!(plan(2_000, 933).at_once().is_err());
    assert!(plan(NODES_MAX, 37).at_once().is_ok());
}

#[test]
fn invalid_number_is_reported() {
    for (name, plan) in [
        ("transactions a second", plan(10, f64::NAN)),
        ("milliseconds of a slot", Plan { slot_ms: f64::NAN, ..plan(10, 1e3) }),
        ("the part of dead nodes", Plan { dead: f64::NAN, ..plan(10, 1e3) }),
    ] {
        let why = plan.run().expect_err("no plan").to_string();
        assert!(why.starts_with(&format!("{name}: NaN is not from")), "{why}");
    }
}
