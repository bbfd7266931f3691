//! Whole clusters of the real consensus on virtual time, with blocks that contain only votes.
//!
//! Whatever the network does, no two nodes root different blocks, a node's roots are a chain, what is confirmed stays,
//! and no vote violates an earlier one, even with crashes between saving and sending. Once the network heals all nodes
//! root again.
//!
//! `HEARTH_SEEDS` sets the number of seeds (200), `HEARTH_SEED` the first; `HEARTH_SEED` alone runs only that one.

mod network;
mod node;
mod oracle;
mod world;

use network::{Network, NetworkFaults};
use node::{SLOT_US, StartPoint};

/// Slots within which all must have a new root after recovery: votes 8 deep bind for 256 slots, then 32 more make a
/// root, and half of the slots may have a leader that is not heard in time.
const LIVE_SLOTS: u64 = 1_200;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Runs a scenario with many seeds; reports a failing seed with the command to rerun it.
fn by_seeds(test: &str, count: u64, mut scenario: impl FnMut(u64) -> Result<(), String>) {
    let (first, several) = (number("HEARTH_SEED"), number("HEARTH_SEEDS"));
    let count = several.unwrap_or(if first.is_some() { 1 } else { count });
    let first = first.unwrap_or(0);
    for seed in first..first + count {
        if let Err(why) = scenario(seed) {
            let again = format!("cargo test -p hearth-consensus --release --test consensus {test}");
            panic!("seed {seed}: {why}\nagain: HEARTH_SEED={seed} {again}");
        }
    }
}

fn stakes(random: &mut fastrand::Rng, nodes: usize) -> Vec<u64> {
    match random.bool() {
        true => vec![1_000; nodes],
        false => (0..nodes).map(|_| random.u64(100..1_000)).collect(),
    }
}

/// Restores all nodes and links, until all root a newer slot than any so far. Returns how many slots that took.
fn heals(network: &mut Network) -> Result<Option<u64>, String> {
    network.weather = NetworkFaults::good(network.nodes.len());
    for node in 0..network.nodes.len() {
        network.start(node, StartPoint::Root)?;
    }
    let newest = network.world.blocks.keys().last().expect("genesis").slot;
    let begin = network.now_us;
    let is_done = |network: &Network| network.oracle.roots.iter().all(|root| root.slot > newest);
    let is_live = network.run(begin + LIVE_SLOTS * SLOT_US, is_done)?;
    if !is_live && !network.unresolved().is_empty() {
        return Ok(None);
    }
    let slots = (network.now_us - begin) / SLOT_US;
    let state = || format!("after {slots} good slots roots are not above {newest}:\n{}", network.state());
    is_live.then_some(Some(slots)).ok_or_else(state)
}

/// One fault for a while; returns whether it is an equivocating leader.
fn trouble(network: &mut Network) -> Result<bool, String> {
    let nodes = network.nodes.len();
    let slots = network.random.u64(5..60);
    let mut weather = NetworkFaults::good(nodes);
    match network.random.u8(..6) {
        0 => weather.groups = (0..nodes).map(|_| network.random.usize(..2)).collect(),
        1 => weather.groups = (0..nodes).map(|_| network.random.usize(..3)).collect(),
        2 => {
            (weather.loss, weather.delay_us) =
                (network.random.f64() * 0.4, (20_000, network.random.u64(100_000..900_000)))
        }
        3 => weather.crash_at_vote = 0.02,
        4 => weather.equivocator = Some((network.random.usize(..nodes), network.random.f64())),
        _ => (0..nodes).for_each(|node| {
            if network.random.u8(..3) == 0 {
                network.crash(node)
            }
        }),
    }
    let equivocates = weather.equivocator.is_some();
    network.weather = weather;
    network.run_slots(slots)?;
    for node in 0..nodes {
        if !network.is_up(node) && network.random.bool() {
            // A node that loses its blocks is faulty: such nodes stay below a third of the stake in a run.
            let is_lost = |one: &usize| *one == node || network.nodes[*one].has_lost;
            let lost: u64 = (0..nodes).filter(is_lost).map(|one| network.world.stakes[one]).sum();
            let may_lose = 3 * lost < network.world.stakes.iter().sum();
            let from = match network.random.u8(..4) {
                0 => StartPoint::Older(network.random.usize(..20)),
                1 if may_lose => StartPoint::Other(network.oracle.roots[network.random.usize(..nodes)]),
                _ => StartPoint::Root,
            };
            network.start(node, from)?;
        }
    }
    Ok(equivocates)
}

#[test]
fn safety_holds_and_progress_returns() {
    let (mut runs, mut with_two, mut stopped, mut slowest) = (0, 0, 0, 0);
    by_seeds("nothing_breaks", 200, |seed| {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let nodes = random.usize(4..=10);
        let mut network = Network::new(stakes(&mut random, nodes), seed)?;
        network.run_slots(random.u64(1..50))?;
        let mut equivocates = false;
        for _ in 0..random.u8(1..=4) {
            equivocates |= trouble(&mut network)?;
        }
        (runs, with_two) = (runs + 1, with_two + u64::from(equivocates));
        match heals(&mut network)? {
            Some(slots) => slowest = slots.max(slowest),
            None if equivocates => stopped += 1,
            None => return Err(format!("it stopped without a leader's two versions:\n{}", network.state())),
        }
        Ok(())
    });
    println!(
        "{runs} runs, {stopped} of {with_two} with a leader's two versions stopped, the slowest healed after {slowest} slots"
    );
    assert!(runs < 100 || stopped * 5 < with_two, "{stopped} of {with_two} runs did not go on");
}

/// Runs until all running nodes root a newer slot than any so far.
fn goes_on(network: &mut Network) -> Result<(), String> {
    let newest = network.world.blocks.keys().last().expect("genesis").slot;
    let until = network.now_us + LIVE_SLOTS * SLOT_US;
    let has_rooted = |network: &Network, node: usize| network.oracle.roots[node].slot > newest;
    let is_done =
        |network: &Network| (0..network.nodes.len()).all(|node| !network.is_up(node) || has_rooted(network, node));
    let state = |network: &Network| format!("{LIVE_SLOTS} slots after {newest}:\n{}", network.state());
    network.run(until, is_done)?.then_some(()).ok_or_else(|| state(network))
}

#[test]
fn four_nodes_survive_one_death_not_two() {
    by_seeds("four_go_on", 20, |seed| {
        let mut network = Network::new(vec![1_000; 4], seed)?;
        network.run_slots(seed % 60)?;
        let mut nodes = [0, 1, 2, 3];
        network.random.shuffle(&mut nodes);
        network.crash(nodes[0]);
        goes_on(&mut network)?;
        network.crash(nodes[1]);
        let newest = network.world.blocks.keys().last().expect("genesis").slot;
        network.run_slots(300)?;
        let confirmed = network.oracle.confirmed.last().map_or(0, |id| id.slot);
        if confirmed > newest || network.oracle.root.slot > newest {
            return Err(format!("two of four confirmed {confirmed}, rooted {:?} after {newest}", network.oracle.root));
        }
        let made = network.world.blocks.keys().last().expect("genesis").slot;
        if made < newest + 100 {
            return Err(format!("two of four made blocks up to {made} only, from {newest}"));
        }
        let returns = network.random.choice([nodes[0], nodes[1]]).expect("two");
        network.start(returns, StartPoint::Root)?;
        goes_on(&mut network)
    });
}

#[test]
fn node_with_an_old_copy_of_its_tower_votes_again() {
    by_seeds("node_with_an_old_copy", 20, |seed| {
        let mut network = Network::new(vec![1_000; 4], seed)?;
        network.run_slots(50 + seed)?;
        let copy = network.nodes[0].disk.tower.clone();
        network.run_slots(60)?;
        network.crash(0);
        network.nodes[0].disk.tower = copy;
        network.start(0, StartPoint::OldTower)?;
        let running = network.nodes[0].running.as_ref().expect("it was started");
        if !running.consensus.is_settling() {
            return Err("it votes before it knows its votes".into());
        }
        goes_on(&mut network)?;
        let running = network.nodes[0].running.as_mut().expect("it runs");
        let adoption = running.consensus.take_adoption();
        adoption.map(|_| ()).ok_or_else(|| "it has taken no votes from its account".into())
    });
}

#[test]
fn three_nodes_continue_without_a_deaf_one() {
    by_seeds("three_of_four", 20, |seed| {
        let mut network = Network::new(vec![1_000; 4], seed)?;
        network.run_slots(50)?;
        let alone = network.random.usize(..4);
        network.weather.groups[alone] = 1;
        let newest = network.world.blocks.keys().last().expect("genesis").slot;
        network.run_slots(150)?;
        let roots = &network.oracle.roots;
        let has_rooted = |node: usize| roots[node].slot > newest;
        if let Some(node) = (0..4).find(|node| has_rooted(*node) == (*node == alone)) {
            return Err(format!("node {node}, {alone} alone from {newest} on, roots {roots:?}"));
        }
        heals(&mut network)?.map(|_| ()).ok_or_else(|| "nobody made two versions, and it stopped".into())
    });
}

#[test]
fn one_of_two_versions_wins_everywhere() {
    let (mut runs, mut dumps, mut healed) = (0, 0, 0);
    by_seeds("of_a_leaders_two_versions", 20, |seed| {
        let mut network = Network::new(vec![1_000; 7], seed)?;
        network.weather.equivocator = Some((network.random.usize(..7), 0.85));
        network.run_slots(120)?;
        dumps += network.dumps;
        runs += 1;
        healed += u64::from(heals(&mut network)?.is_some());
        Ok(())
    });
    assert!(runs < 20 || healed * 2 > runs, "{healed} of {runs} went on");
    println!("{healed} of {runs} went on, {dumps} versions were dropped");
    assert!(dumps > 0 || number("HEARTH_SEED").is_some(), "no version was dropped");
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    let run = |seed| {
        let mut network = Network::new(vec![500, 700, 300, 900, 400], seed)?;
        network.weather.loss = 0.2;
        network.run_slots(80)?;
        Ok::<_, String>((network.oracle.roots.clone(), network.world.blocks.len(), network.oracle.switches))
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
