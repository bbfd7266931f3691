//! Whole clusters of the real consensus on virtual time, with blocks that hold nothing but votes.
//!
//! Whatever the network does, no two nodes root different blocks, a node's roots are a chain, what is confirmed stays, and
//! no vote breaks an earlier one, also over crashes between saving and sending. Once the network heals all root again.
//!
//! `HEARTH_SEEDS` says how many seeds to run (200), `HEARTH_SEED` runs one.

mod network;
mod node;
mod oracle;
mod world;

use network::{Network, Weather};
use node::{From, SLOT_US};

/// Slots after which all must have rooted anew once all is well: votes 8 deep bind for 256 slots, then 32 more root, and
/// half of the slots may be led by who is not heard in time.
const LIVE_SLOTS: u64 = 1_200;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Runs a scenario by many seeds; a seed that fails is told with the command that runs it again.
fn by_seeds(test: &str, count: u64, scenario: impl Fn(u64) -> Result<(), String>) {
    let count = number("HEARTH_SEEDS").unwrap_or(count);
    let seeds = number("HEARTH_SEED").map_or(0..count, |seed| seed..seed + 1);
    for seed in seeds {
        if let Err(why) = scenario(seed) {
            panic!(
                "seed {seed}: {why}\nagain: HEARTH_SEED={seed} cargo test -p hearth-cluster --release --test consensus {test}"
            );
        }
    }
}

fn stakes(random: &mut fastrand::Rng, nodes: usize) -> Vec<u64> {
    match random.bool() {
        true => vec![1_000; nodes],
        false => (0..nodes).map(|_| random.u64(100..1_000)).collect(),
    }
}

/// Everything is up and hears everything: all root a slot that is newer than any so far. How many slots that took.
fn heals(network: &mut Network) -> Result<Option<u64>, String> {
    network.weather = Weather::good(network.nodes.len());
    for node in 0..network.nodes.len() {
        network.start(node, From::Root)?;
    }
    let newest = network.world.blocks.keys().last().expect("genesis").slot;
    let begin = network.now_us;
    let is_done = |network: &Network| network.oracle.roots.iter().all(|root| root.slot > newest);
    let is_live = network.run(begin + LIVE_SLOTS * SLOT_US, is_done)?;
    if !is_live && network.oracle.is_split(&network.world) {
        return Ok(None);
    }
    let slots = (network.now_us - begin) / SLOT_US;
    let roots = &network.oracle.roots;
    is_live.then_some(Some(slots)).ok_or_else(|| format!("after {slots} good slots roots are {roots:?}, not above {newest}"))
}

/// One thing that goes wrong for a while.
fn trouble(network: &mut Network) -> Result<(), String> {
    let nodes = network.nodes.len();
    let slots = network.random.u64(5..60);
    let mut weather = Weather::good(nodes);
    match network.random.u8(..6) {
        0 => weather.groups = (0..nodes).map(|_| network.random.usize(..2)).collect(),
        1 => weather.groups = (0..nodes).map(|_| network.random.usize(..3)).collect(),
        2 => (weather.loss, weather.delay_us) = (network.random.f64() * 0.4, (20_000, network.random.u64(100_000..900_000))),
        3 => weather.crash_at_vote = 0.02,
        4 => weather.equivocator = Some((network.random.usize(..nodes), network.random.f64())),
        _ => (0..nodes).for_each(|node| if network.random.u8(..3) == 0 { network.crash(node) }),
    }
    network.weather = weather;
    network.run_slots(slots)?;
    for node in 0..nodes {
        if !network.is_up(node) && network.random.bool() {
            let from = match network.random.u8(..4) {
                0 => From::Older(network.random.usize(..20)),
                1 => From::Other(network.oracle.roots[network.random.usize(..nodes)]),
                _ => From::Root,
            };
            network.start(node, from)?;
        }
    }
    Ok(())
}

#[test]
fn nothing_breaks_whatever_the_network_does_and_all_goes_on_after() {
    let (splits, slowest) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let runs = std::cell::Cell::new(0);
    by_seeds("nothing_breaks", 200, |seed| {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let nodes = random.usize(4..=10);
        let mut network = Network::new(stakes(&mut random, nodes), seed)?;
        network.run_slots(random.u64(1..50))?;
        for _ in 0..random.u8(1..=4) {
            trouble(&mut network)?;
        }
        runs.set(runs.get() + 1);
        match heals(&mut network)? {
            Some(slots) => slowest.set(slots.max(slowest.get())),
            None => splits.set(splits.get() + 1),
        }
        Ok(())
    });
    println!("{} runs, {} split by a leader, the slowest healed after {} slots", runs.get(), splits.get(), slowest.get());
}
