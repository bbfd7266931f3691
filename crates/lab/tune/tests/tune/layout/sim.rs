//! A simulated machine and node whose best layout is known.
//!
//! reads   costs of stages, and the effects of sharing, hyperthreads, links and tiles of the same kind
//! writes  rates, with noise and outliers, and the regimes that a monitor would report

use std::convert::Infallible;

use hearth_tile::affinity::Cores;
use hearth_tune::layout::{Evaluate, Kind, Layout, LayoutMeasurement, Outcome, Space, Trial, Use};

/// Stages in a row; each does its part for every transaction.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The space of choices.
    pub space: Space,
    /// The layout that the search starts from.
    pub default: Layout,
    /// Core-seconds per transaction of each stage.
    pub cost: Vec<f64>,
    /// Extra cost of each, per square of the number of its other tiles.
    pub contention: Vec<f64>,
    /// Extra cost of the work on a core for each group of stages there that are not neighbours: cache effects.
    pub mixed: f64,
    /// Core-seconds per transaction that a stage pays for each tile but one of the stage after it.
    pub link: f64,
    /// Extra cost of the work on a core while its hyperthread sibling is equally busy.
    pub smt: f64,
    /// Whether the rate is constant, whatever the layout.
    pub flat: bool,
}

pub fn kind(name: &str, most: usize, is_elastic: bool, spread: bool) -> Kind {
    Kind { name: name.into(), most, floats: false, is_elastic, spread, quiet: name == "pack" }
}

pub fn cores(count: usize, are_pairs: bool) -> Cores {
    let siblings = (0..count).map(|core| (core, if are_pairs { vec![core ^ 1] } else { vec![] })).collect();
    Cores { allowed: (0..count).collect(), siblings }
}

/// The load of each core per transaction, and each tile's share of it.
struct Flow {
    cores: Vec<f64>,
    tiles: Vec<Vec<f64>>,
}

impl Machine {
    /// Returns transactions per second, without noise.
    pub fn rate(&self, layout: &Layout) -> f64 {
        if self.flat {
            return 1_000.0;
        }
        1.0 / self.flow(layout).cores.iter().copied().fold(0.0, f64::max)
    }

    fn flow(&self, layout: &Layout) -> Flow {
        let count = self.space.cores.allowed.len();
        let stages = self.cost.len();
        let places: Vec<Vec<usize>> = layout.tiles.iter().map(|all| all.iter().flatten().copied().collect()).collect();
        let mut on = vec![vec![false; stages]; count];
        places.iter().enumerate().for_each(|(stage, all)| all.iter().for_each(|core| on[*core][stage] = true));
        // Neighbours in the pipeline share data; others evict each other's cache lines.
        let groups = |on: &Vec<bool>| (0..stages).filter(|at| on[*at] && (*at == 0 || !on[at - 1])).count();
        let dearer: Vec<f64> = on.iter().map(|on| 1.0 + self.mixed * groups(on).saturating_sub(1) as f64).collect();
        let cost: Vec<f64> = (0..stages)
            .map(|stage| {
                let others = (places[stage].len() - 1) as f64;
                let after = places.get(stage + 1).map_or(0, |after| after.len().saturating_sub(1)) as f64;
                self.cost[stage] * (1.0 + self.contention[stage] * others * others) + self.link * after
            })
            .collect();
        let mut tiles: Vec<Vec<f64>> =
            places.iter().zip(&cost).map(|(all, cost)| vec![cost / all.len() as f64; all.len()]).collect();
        let mut full = vec![0.0; count];
        for (all, shares) in places.iter().zip(&tiles) {
            all.iter().zip(shares).for_each(|(core, share)| full[*core] += share * dearer[*core]);
        }
        for _ in 0..4 {
            for stage in (0..stages).filter(|at| self.space.kinds[*at].is_elastic && places[*at].len() > 1) {
                let (all, shares) = (&places[stage], &mut tiles[stage]);
                all.iter().zip(shares.iter()).for_each(|(core, share)| full[*core] -= share * dearer[*core]);
                // The level to which the work rises, by bisection.
                let (mut low, mut high) = (0.0, full.iter().copied().fold(0.0, f64::max) + 2.0 * cost[stage]);
                for _ in 0..40 {
                    let middle = (low + high) / 2.0;
                    let held: f64 = all.iter().map(|core| (middle - full[*core]).max(0.0) / dearer[*core]).sum();
                    if held < cost[stage] { low = middle } else { high = middle }
                }
                for (core, share) in all.iter().zip(shares.iter_mut()) {
                    *share = (high - full[*core]).max(0.0) / dearer[*core];
                    full[*core] += *share * dearer[*core];
                }
            }
        }
        let limit = full.iter().copied().fold(0.0, f64::max);
        let slowed = |core: usize| {
            let beside: f64 = self.space.siblings(core).iter().map(|one| full[*one] / limit).sum();
            dearer[core] * (1.0 + self.smt * beside)
        };
        let slowed: Vec<f64> = (0..count).map(slowed).collect();
        for (all, shares) in places.iter().zip(&mut tiles) {
            all.iter().zip(shares).for_each(|(core, share)| *share *= slowed[*core]);
        }
        let cores = (0..count).map(|core| full[core] / dearer[core] * slowed[core]).collect();
        Flow { cores, tiles }
    }

    /// Returns the best rate, by trying every layout.
    pub fn best(&self) -> f64 {
        let cores = self.space.cores.allowed.len();
        let choices: Vec<Vec<Vec<Option<usize>>>> = self
            .space
            .kinds
            .iter()
            .map(|kind| {
                let sets = (1u32..1 << cores).filter(|set| set.count_ones() as usize <= kind.most);
                sets.map(|set| (0..cores).filter(|core| set & 1 << core != 0).map(Some).collect()).collect()
            })
            .collect();
        let mut at = vec![0; choices.len()];
        let mut best = 0.0f64;
        loop {
            let tiles = choices.iter().zip(&at).map(|(all, at)| all[*at].clone()).collect();
            best = best.max(self.rate(&Layout { tiles }));
            let Some(next) = (0..at.len()).find(|kind| at[*kind] + 1 < choices[*kind].len()) else { return best };
            at[..next].fill(0);
            at[next] += 1;
        }
    }
}

/// A machine that is measured, with noise.
pub struct Trials<'a> {
    pub machine: &'a Machine,
    /// Deviation of a run.
    pub noise: f64,
    /// Share of runs that are slowed by a quarter to a half.
    pub outliers: f64,
    pub random: fastrand::Rng,
    pub seconds: f64,
}

impl Trials<'_> {
    fn normal(&mut self) -> f64 {
        let (a, b) = (self.random.f64().max(1e-12), self.random.f64());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

impl Evaluate for Trials<'_> {
    type Error = Infallible;

    fn evaluate(&mut self, layout: &Layout, _: f64) -> Result<Trial, Infallible> {
        assert!(self.machine.space.has(layout), "{}", self.machine.space.text(layout));
        // Each trial uses its own random stream, so that an additional draw affects no other trial.
        let next = self.random.u64(..);
        let mut later = std::mem::replace(&mut self.random, fastrand::Rng::with_seed(next));
        let flow = self.machine.flow(layout);
        let true_rate = self.machine.rate(layout);
        let is_outlier = self.random.f64() < self.outliers;
        let slowed = if is_outlier { 0.5 + 0.25 * self.random.f64() } else { 1.0 };
        let rate = true_rate * slowed * (self.noise * self.normal()).exp();
        // The regimes are as noisy as the rate.
        let noise = self.noise;
        let mut used = |share: f64| {
            let busy = (share * rate * (noise * self.normal()).exp()).min(1.0);
            Use { busy, backpressure: 0.0, wait: 1.0 - busy }
        };
        let tiles = flow.tiles.iter().map(|all| all.iter().map(|share| used(*share)).collect()).collect();
        let hottest = (0..flow.cores.len()).max_by(|a, b| flow.cores[*a].total_cmp(&flow.cores[*b]));
        let there = |stage: &usize| layout.tiles[*stage].iter().position(|place| *place == hottest);
        let part = |stage: &usize| there(stage).map_or(0.0, |tile| flow.tiles[*stage][tile]);
        let limit = (0..self.machine.cost.len()).max_by(|a, b| part(a).total_cmp(&part(b)));
        std::mem::swap(&mut self.random, &mut later);
        let measured = LayoutMeasurement { rate, tiles, limit, says: String::new() };
        Ok(Trial { outcome: Outcome::Measured(measured), seconds: self.seconds })
    }
}
