//! What limits the rate: a kind of tile, and the figures that say so.
//!
//! reads   how each tile spent the measured time, and what the process had of the cores
//! writes  [`Bottleneck`]

use std::collections::BTreeMap;

use hearth_machine::process::CoresHad;

use super::report::{Bottleneck, TileUse};

/// Cores busier than this have nothing left to give.
const SATURATED: f64 = 0.9;
/// More transactions than this held back by others are a limit and not a moment's state.
const MANY_WAITING: u64 = 1_000;

/// With so much of the cores taken away, what a tile could have done with them is not known.
const TAKEN: f64 = 0.1;

/// More than this taken by the hypervisor is said.
const STOLEN: f64 = 0.05;

/// The cores that the process may use, and what it had of them.
pub struct Allowed {
    /// Affinity ∩ quota.
    pub cores: f64,
    /// What it had.
    pub had: CoresHad,
}

impl Allowed {
    /// What others took of `cores` cores, if that is the limit: the time of a tile runs on while its thread waits for
    /// its core, so that the tile seems busy.
    fn taken(&self, cores: usize) -> Option<String> {
        let cores = self.cores.min(cores as f64);
        let CoresHad { had, waited_for } = self.had;
        let taken = had < (1.0 - TAKEN) * cores && waited_for > TAKEN * cores;
        taken.then(|| {
            format!(
                "node and load got {had:.1} of {} cores and waited for {waited_for:.1} more: other programs took the rest",
                (10.0 * cores).round() / 10.0
            )
        })
    }
}

/// What others took of the machine, where it is so much that another run would measure something else. Of a node that
/// is another process only the hypervisor's share can be told from its own.
pub fn noise(machine: &Allowed, stolen: f64, is_outside: bool) -> Option<String> {
    let taken = machine.taken(usize::MAX).filter(|_| !is_outside);
    let stolen =
        (stolen > STOLEN).then(|| format!("the hypervisor gave {:.0} % of the time to others", 100.0 * stolen));
    let parts: Vec<String> = taken.into_iter().chain(stolen).collect();
    (!parts.is_empty()).then(|| format!("the machine is not quiet: {}", parts.join("; ")))
}

/// `waiting`: transactions in pack's pool that other transactions hold back.
pub fn bottleneck(tiles: &[TileUse], machine: &Allowed, rate: Option<f64>, waiting: u64) -> Bottleneck {
    let mut cores: BTreeMap<usize, f64> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for tile in tiles {
        if let Some(core) = tile.core {
            *cores.entry(core).or_default() += tile.busy;
        }
        let kind = kinds.entry(tile.tile.split(':').next().unwrap_or_default()).or_default();
        *kind = (kind.0 + tile.busy, kind.1 + 1);
    }
    let busiest = tiles.iter().filter(|t| t.core.is_some()).max_by(|a, b| a.busy.total_cmp(&b.busy));
    let Some(busiest) = busiest else { return Bottleneck::default() };
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let any_full = cores.values().any(|busy| *busy >= SATURATED);
    if let Some(why) = machine.taken(cores.len()).filter(|_| any_full || rate.is_none()) {
        return Bottleneck { tile: "machine".into(), why };
    }
    let all_full = !cores.is_empty() && cores.values().all(|busy| *busy >= SATURATED);
    if all_full {
        let (kind, (busy, count)) = kinds.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0)).expect("there are tiles");
        let why = format!(
            "all {} cores are {} busy; {count} {kind} tiles take {} of them",
            cores.len(),
            percent(cores.values().sum::<f64>() / cores.len() as f64),
            percent(busy / cores.len() as f64),
        );
        return Bottleneck { tile: (*kind).into(), why };
    }
    if busiest.busy >= SATURATED {
        let why = format!("{} is {} busy on a core of its own", busiest.tile, percent(busiest.busy));
        return Bottleneck { tile: busiest.tile.split(':').next().unwrap_or_default().into(), why };
    }
    let full = cores.iter().find(|(_, busy)| **busy >= SATURATED);
    if let Some((core, busy)) = full {
        let on_core = tiles.iter().filter(|t| t.core == Some(*core));
        let top = on_core.max_by(|a, b| a.busy.total_cmp(&b.busy)).expect("the core has tiles");
        let why =
            format!("core {core} is {} busy, {} of it with {}", percent(*busy), percent(top.busy / busy), top.tile);
        return Bottleneck { tile: top.tile.split(':').next().unwrap_or_default().into(), why };
    }
    if waiting > MANY_WAITING {
        let why = format!(
            "{waiting} transactions wait in the pool for accounts that others hold: they run one after the other"
        );
        return Bottleneck { tile: "pack".into(), why };
    }
    let idle: Vec<String> = cores.iter().map(|(core, busy)| format!("core {core} {}", percent(*busy))).collect();
    match rate {
        Some(rate) => Bottleneck {
            tile: "none".into(),
            why: format!("the load was held at {rate} txn/s; busy: {}", idle.join(", ")),
        },
        None => Bottleneck {
            tile: "none".into(),
            why: format!("no core is full ({}); the machine took time away or links were short", idle.join(", ")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(name: &str, core: usize, busy: f64) -> TileUse {
        TileUse { tile: name.into(), core: Some(core), busy, elsewhere: 1.0 - busy, ..Default::default() }
    }

    /// All of `cores` cores.
    fn all(cores: f64) -> Allowed {
        Allowed { cores, had: CoresHad { had: cores, waited_for: 0.1 } }
    }

    #[test]
    fn cores_that_others_had_are_the_limit() {
        let tiles = [tile("benchg:0", 0, 0.95), tile("verify:0", 1, 0.98)];
        let machine = Allowed { cores: 2.0, had: CoresHad { had: 1.04, waited_for: 0.93 } };
        let limit = bottleneck(&tiles, &machine, None, 0);
        assert_eq!(limit.tile, "machine");
        assert!(limit.why.starts_with("node and load got 1.0 of 2 cores and waited for 0.9 more"), "{}", limit.why);
        // A quota is all there is to get; and a rate that was reached with cores to spare is no limit.
        let quota = Allowed { cores: 1.0, ..machine };
        assert_eq!(bottleneck(&tiles, &quota, None, 0).tile, "verify");
        let idle = [tile("benchg:0", 0, 0.2), tile("verify:0", 1, 0.3)];
        let machine = Allowed { cores: 2.0, had: CoresHad { had: 0.5, waited_for: 0.4 } };
        assert_eq!(bottleneck(&idle, &machine, Some(1000.0), 0).tile, "none");
        assert_eq!(bottleneck(&idle, &machine, None, 0).tile, "machine");
    }

    #[test]
    fn a_machine_that_is_not_quiet_is_told() {
        let quiet = Allowed { cores: 2.0, had: CoresHad { had: 1.9, waited_for: 0.1 } };
        assert_eq!(noise(&quiet, 0.01, false), None);
        let told = noise(&quiet, 0.12, false).unwrap();
        assert_eq!(told, "the machine is not quiet: the hypervisor gave 12 % of the time to others");
        let shared = Allowed { cores: 2.0, had: CoresHad { had: 1.1, waited_for: 0.8 } };
        assert!(noise(&shared, 0.0, false).unwrap().contains("got 1.1 of 2 cores and waited for 0.8 more"));
        assert_eq!(noise(&shared, 0.0, true), None, "that is the node");
        let idle = Allowed { cores: 2.0, had: CoresHad { had: 0.3, waited_for: 0.0 } };
        assert_eq!(noise(&idle, 0.0, false), None);
    }

    #[test]
    fn the_largest_share_of_full_cores_is_the_limit() {
        let tiles =
            [tile("benchg:0", 0, 0.4), tile("verify:0", 0, 0.55), tile("verify:1", 1, 0.7), tile("bank:0", 1, 0.27)];
        let limit = bottleneck(&tiles, &all(2.0), None, 0);
        assert_eq!(limit.tile, "verify");
        assert!(limit.why.contains("all 2 cores are 96 % busy"), "{}", limit.why);
    }

    #[test]
    fn a_full_core_among_idle_ones_is_named() {
        let tiles = [tile("verify:0", 0, 0.97), tile("bank:0", 1, 0.2)];
        assert!(bottleneck(&tiles, &all(2.0), None, 0).why.contains("verify:0 is 97 % busy"));
        let tiles = [tile("pack:0", 0, 0.5), tile("poh:0", 0, 0.45), tile("bank:0", 1, 0.2)];
        assert!(bottleneck(&tiles, &all(2.0), None, 0).why.starts_with("core 0 is 95 % busy"));
    }

    #[test]
    fn a_rate_below_capacity_has_no_limit() {
        let tiles = [tile("verify:0", 0, 0.3), tile("bank:0", 1, 0.2)];
        let limit = bottleneck(&tiles, &all(2.0), Some(1000.0), 0);
        assert_eq!(limit.tile, "none");
        assert!(limit.why.contains("held at 1000"));
        assert_eq!(bottleneck(&tiles, &all(2.0), None, 50_000).tile, "pack");
    }
}
