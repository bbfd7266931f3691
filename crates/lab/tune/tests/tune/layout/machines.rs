//! Machines whose best layout is known: with few cores all layouts can be tried; with many, one indivisible stage
//! bounds the rate, and a known layout reaches the bound.

use hearth_tune::layout::{Layout, Space};

use super::sim::{Machine, cores, kind};

/// A machine, and the best rate it can reach.
pub struct KnownMachine {
    pub machine: Machine,
    pub best: f64,
}

fn machine(space: Space, default: Layout, cost: Vec<f64>) -> Machine {
    let contention = vec![0.0; cost.len()];
    Machine { space, default, cost, contention, mixed: 0.0, link: 0.0, smt: 0.0, flat: false }
}

fn between(random: &mut fastrand::Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * random.f64()
}

/// Few cores: all layouts are tried. The automatic layout's assumptions about costs are off by up to a factor of four.
pub fn small(count: usize, are_pairs: bool, seed: u64) -> KnownMachine {
    let mut random = fastrand::Rng::with_seed(seed);
    let few = if count > 4 { 1 } else { count };
    let kinds = vec![
        kind("net", few, false, false),
        kind("verify", count, true, true),
        kind("pack", 1, true, false),
        kind("bank", few, true, false),
        kind("store", 1, true, false),
    ];
    let space = Space { kinds, cores: cores(count, are_pairs) };
    let cost: Vec<f64> = [(0.2, 1.5), (1.0, 8.0), (0.3, 2.0), (0.3, 4.0), (0.1, 2.0)]
        .map(|(low, high)| between(&mut random, low, high) / 1e5)
        .to_vec();
    let guess: Vec<f64> = cost.iter().map(|cost| cost * between(&mut random, 0.5, 2.0)).collect();
    let default = space.automatic(&[1, count, 1, 1, 1], &guess);
    let contention = vec![0.0, between(&mut random, 0.0, 0.02), 0.0, between(&mut random, 0.0, 0.1), 0.0];
    let machine = Machine {
        contention,
        mixed: between(&mut random, 0.0, 0.1),
        link: between(&mut random, 0.0, 0.05) / 1e5,
        smt: if are_pairs { between(&mut random, 0.2, 0.6) } else { 0.0 },
        ..machine(space, default, cost)
    };
    let best = machine.best();
    KnownMachine { machine, best }
}

/// Many cores. pack cannot be divided and is always busy at the best rate, so no layout is better; nearly all of every
/// other core is needed for it.
pub fn planted(count: usize, seed: u64) -> KnownMachine {
    let mut random = fastrand::Rng::with_seed(seed ^ (count as u64) << 32);
    let kinds = vec![
        kind("net", count, false, false),
        kind("quic", count, false, false),
        kind("verify", count, true, true),
        kind("pack", 1, true, false),
        kind("bank", count, true, false),
        kind("store", 1, true, false),
    ];
    let space = Space { kinds, cores: cores(count, false) };
    let best = between(&mut random, 20_000.0, 100_000.0);
    // One core each, and the others at random.
    let mut counts = [1usize; 6];
    for _ in 0..count - 6 {
        counts[*random.choice(&[0, 1, 2, 2, 2, 4, 4]).expect("some")] += 1;
    }
    let cost: Vec<f64> = counts
        .iter()
        .enumerate()
        .map(|(kind, count)| match kind {
            3 => 1.0 / best,
            5 => between(&mut random, 0.3, 0.95) / best,
            _ => between(&mut random, 0.9, 0.99) * *count as f64 / best,
        })
        .collect();
    let guess: Vec<f64> = cost.iter().map(|cost| cost * between(&mut random, 0.5, 2.0)).collect();
    let total: f64 = guess.iter().sum();
    let share = |cost: &f64| (((count - 1) as f64 * cost / total) as usize).max(1);
    let counts: Vec<usize> = guess.iter().zip(&space.kinds).map(|(cost, kind)| share(cost).min(kind.most)).collect();
    let default = space.automatic(&counts, &guess);
    let machine = Machine { mixed: between(&mut random, 0.0, 0.2), ..machine(space, default, cost) };
    let reached = Layout::new(planted_tiles(&machine, best));
    assert!(machine.rate(&reached) > 0.999 * best, "the bound is reached");
    KnownMachine { machine, best }
}

/// A core for each tile, as many as the work needs.
fn planted_tiles(machine: &Machine, best: f64) -> Vec<Vec<Option<usize>>> {
    let mut free = machine.space.cores.allowed.iter().copied();
    let of = |cost: &f64| {
        let count = (cost * best - 1e-9).ceil() as usize;
        free.by_ref().take(count).map(Some).collect()
    };
    machine.cost.iter().map(of).collect()
}

/// All layouts have the same rate.
pub fn flat(count: usize) -> Machine {
    Machine { flat: true, ..if count < 8 { small(count, false, 1) } else { planted(count, 1) }.machine }
}

/// Machines on which another tile or another core for the fullest kind is the wrong move.
pub fn wrong_moves() -> Vec<(&'static str, KnownMachine)> {
    let base = |count: usize, are_pairs: bool| {
        let kinds = vec![
            kind("net", 1, false, false),
            kind("verify", count, true, true),
            kind("pack", 1, true, false),
            kind("bank", count, true, false),
        ];
        Space { kinds, cores: cores(count, are_pairs) }
    };
    let known = |machine: Machine| {
        let best = machine.best();
        KnownMachine { machine, best }
    };
    let at = |places: [&[usize]; 4]| {
        Layout::new(places.iter().map(|all| all.iter().map(|core| Some(*core)).collect()).collect())
    };
    // bank is the limit on its two cores, and a third makes each slower: one is best.
    let space = base(4, false);
    let default = at([&[0], &[1], &[1], &[2, 3]]);
    let hindered =
        Machine { contention: vec![0.0, 0.0, 0.0, 1.6], ..machine(space, default, vec![0.3e-5, 0.8e-5, 0.3e-5, 1e-5]) };
    // verify is the limit, but each of its tiles costs net more than it wins.
    let space = base(4, false);
    let default = at([&[0], &[0, 1, 2, 3], &[1], &[2]]);
    let links = Machine { link: 0.55e-5, ..machine(space, default, vec![0.6e-5, 2e-5, 0.4e-5, 0.5e-5]) };
    // pack is the limit on its own core, and its sibling is as busy: what runs there must move.
    let space = base(6, true);
    let default = at([&[4], &[1, 3], &[0], &[2]]);
    let siblings = Machine { smt: 0.7, ..machine(space, default, vec![0.3e-5, 2e-5, 1e-5, 0.8e-5]) };
    // Sharing a core is expensive: fewer stages per core are better, even if a core stays emptier.
    let space = base(3, false);
    let default = at([&[0], &[0, 1, 2], &[1], &[0, 2]]);
    let caches = Machine { mixed: 0.4, ..machine(space, default, vec![0.5e-5, 1.1e-5, 0.5e-5, 0.6e-5]) };
    vec![
        ("tiles that hinder each other", known(hindered)),
        ("links that cost", known(links)),
        ("a busy hyperthread", known(siblings)),
        ("caches that do not hold two", known(caches)),
    ]
}
