//! Predicts the load of a layout from the costs of the kinds of tiles so far.
//!
//! reads   regimes: each tile's busy share at a rate
//! writes  core-seconds per transaction of each kind; the predicted load of each core in another layout
//! source  ridge regression of the costs' logarithms
//!
//! At first the model knows nothing about caches, the cost of links, or tiles that hinder each other; trials teach it.
//! It only suggests what is worth a trial.

use std::collections::BTreeMap;

use super::LayoutMeasurement;
use super::space::{Layout, Space};

/// Candidates for the slowdown of a hyperthread whose sibling is equally busy. The one that explains the trials best is
/// taken, or the first if the trials cannot decide.
const SIBLINGS: [f64; 5] = [0.3, 0.15, 0.0, 0.45, 0.6];
/// Sweeps over the elastic kinds; the distribution is stable after these.
const SWEEPS: usize = 4;
/// An additional tile must win this fraction.
const TILE: f64 = 0.002;
/// If two layouts have the same maximum load, the more even one has more room.
const EVENNESS: f64 = 0.02;

/// Squared ratio of the deviation of a trial's costs to the prior deviation of their slopes.
const RIDGE: f64 = 0.03;
/// Prior effect of other kinds on the same core, relative to that of tiles of the same kind.
const OTHERS: f64 = 0.25;
/// The most by which a predicted cost may differ, as a factor.
const CHANGE_MOST: f64 = 4.0;

/// The costs of the kinds in core-seconds per transaction, and how they depend on the number of tiles and on
/// neighbours: learned from trials that deviated from the prediction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// The logarithm of each kind's cost in the base layout.
    base: Vec<f64>,
    /// The features of the base layout.
    at: Vec<Vec<f64>>,
    /// For each kind the slope of each feature.
    slopes: Vec<Vec<f64>>,
    /// Slowdown of a hyperthread whose sibling is equally busy.
    sibling: f64,
}

impl Costs {
    /// Estimates the costs from trials of all layouts, with `best` as the base layout.
    pub fn of(space: &Space, best: &Layout, trials: &[(&Layout, &LayoutMeasurement)]) -> Self {
        let has_siblings = space.cores.allowed.iter().any(|core| !space.siblings(*core).is_empty());
        let guesses = if has_siblings { &SIBLINGS[..] } else { &SIBLINGS[..1] };
        let all = guesses.iter().map(|sibling| Self::with(space, best, trials, *sibling));
        all.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(costs, _)| costs).unwrap_or_default()
    }

    /// The costs under this slowdown of siblings, and how badly they explain the trials.
    fn with(space: &Space, best: &Layout, trials: &[(&Layout, &LayoutMeasurement)], sibling: f64) -> (Self, f64) {
        let kinds = space.kinds.len();
        let at: Vec<Vec<f64>> = (0..kinds).map(|kind| features(space, best, kind)).collect();
        let own: Vec<Vec<f64>> =
            trials.iter().map(|(layout, trial)| unhindered(space, layout, trial, sibling)).collect();
        let (mut base, mut slopes, mut missed) = (Vec::new(), Vec::new(), 0.0);
        for kind in 0..kinds {
            let row = |((layout, trial), own): (&(&Layout, &LayoutMeasurement), &Vec<f64>)| {
                let mut row: Vec<f64> =
                    features(space, layout, kind).iter().zip(&at[kind]).map(|(now, then)| now - then).collect();
                row.insert(0, 1.0);
                (row, (own[kind] / trial.rate.max(f64::MIN_POSITIVE)).max(1e-12).ln())
            };
            let rows: Vec<(Vec<f64>, f64)> = trials.iter().zip(&own).map(row).collect();
            let mut found = ridge(&rows);
            let miss = |(row, value): &(Vec<f64>, f64)| {
                let thought: f64 = row.iter().zip(&found).map(|(feature, slope)| feature * slope).sum();
                (value - thought).powi(2)
            };
            // A slope that is needed for an explanation counts as an error.
            missed += rows.iter().map(miss).sum::<f64>();
            missed += RIDGE * found.iter().skip(1).map(|slope| slope * slope).sum::<f64>();
            base.push(if found.is_empty() { 0.0 } else { found.remove(0) });
            slopes.push(found);
        }
        (Self { base, at, slopes, sibling }, missed)
    }

    /// A model for tests, in which each kind costs the same in every layout.
    #[cfg(test)]
    pub fn fixed(space: &Space, costs: &[f64]) -> Self {
        let none: Vec<f64> = space.kinds.iter().map(|_| 0.0).chain([0.0]).collect();
        let all = vec![none; costs.len()];
        Self {
            base: costs.iter().map(|cost| cost.max(1e-12).ln()).collect(),
            at: all.clone(),
            slopes: all,
            sibling: SIBLINGS[0],
        }
    }

    /// Returns equally plausible costs, varied with a deviation of `by`.
    pub fn shaken(&self, by: f64, random: &mut fastrand::Rng) -> Self {
        let mut draw = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        Self { base: self.base.iter().map(|log| log + by * draw()).collect(), ..self.clone() }
    }

    /// Returns the cost of each kind in the base layout.
    pub fn here(&self) -> Vec<f64> {
        self.base.iter().map(|log| log.exp()).collect()
    }

    /// The predicted cost of each kind in a layout.
    fn there(&self, space: &Space, layout: &Layout) -> Vec<f64> {
        let most = CHANGE_MOST.ln();
        let of = |kind: usize| {
            let slopes = &self.slopes[kind];
            if slopes.iter().all(|slope| *slope == 0.0) {
                return self.base[kind].exp();
            }
            let features = features(space, layout, kind);
            let moved = features.iter().zip(&self.at[kind]).map(|(now, then)| now - then);
            let change: f64 = moved.zip(slopes).map(|(by, slope)| by * slope).sum();
            (self.base[kind] + change.clamp(-most, most)).exp()
        };
        (0..self.base.len()).map(of).collect()
    }
}

/// How busy each kind would have been without hindrance by siblings.
fn unhindered(space: &Space, layout: &Layout, trial: &LayoutMeasurement, sibling: f64) -> Vec<f64> {
    let mut cores: BTreeMap<usize, f64> = BTreeMap::new();
    let all = || layout.tiles.iter().zip(&trial.tiles).map(|(places, tiles)| places.iter().zip(tiles));
    all().flatten().for_each(|(core, tile)| *cores.entry(core.unwrap_or(usize::MAX)).or_default() += tile.busy);
    let slowed = |core: &Option<usize>| {
        let Some(core) = core else { return 1.0 };
        let own = cores.get(core).copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
        let beside = space.cores.siblings.get(core).into_iter().flatten();
        let beside: f64 = beside.filter_map(|one| cores.get(one)).map(|busy| (busy / own).min(1.0)).sum();
        1.0 + sibling * beside
    };
    all().map(|tiles| tiles.map(|(core, tile)| tile.busy / slowed(core)).sum()).collect()
}

/// The features of a kind's cost: the logarithms of the number of tiles of each kind, and how many other kinds are on
/// its cores.
fn features(space: &Space, layout: &Layout, kind: usize) -> Vec<f64> {
    let mut all: Vec<f64> =
        layout.tiles.iter().map(|tiles| if tiles.len() > 1 { (tiles.len() as f64).ln() } else { 0.0 }).collect();
    let is_beside = |other: usize, core: &Option<usize>| other != kind && layout.tiles[other].contains(core);
    let beside = |core: &Option<usize>| (0..space.kinds.len()).filter(|other| is_beside(*other, core)).count();
    let own = &layout.tiles[kind];
    let others: usize = own.iter().filter(|core| core.is_some()).map(beside).sum();
    all.push(OTHERS * others as f64 / own.len().max(1) as f64);
    all
}

/// Least squares with a penalty on slopes, so that features that never varied get zero slope. The first coefficient is
/// the value where all features are zero.
fn ridge(rows: &[(Vec<f64>, f64)]) -> Vec<f64> {
    let Some(count) = rows.first().map(|(row, _)| row.len()) else { return Vec::new() };
    let mut system = vec![vec![0.0; count + 1]; count];
    for (row, value) in rows {
        for (a, line) in row.iter().zip(&mut system) {
            row.iter().chain([value]).zip(line).for_each(|(b, cell)| *cell += a * b);
        }
    }
    (1..count).for_each(|at| system[at][at] += RIDGE);
    // The matrix is positive definite, so no pivot is zero.
    for at in 0..count {
        let (above, below) = system.split_at_mut(at + 1);
        let pivot = &above[at];
        for line in below {
            let factor = line[at] / pivot[at];
            line.iter_mut().zip(pivot).for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    let mut found = vec![0.0; count];
    for at in (0..count).rev() {
        let rest: f64 = (at + 1..count).map(|other| system[at][other] * found[other]).sum();
        found[at] = (system[at][count] - rest) / system[at][at];
    }
    // Values this small are rounding errors.
    found.iter_mut().skip(1).filter(|slope| slope.abs() < 1e-6).for_each(|slope| *slope = 0.0);
    found
}

/// The predicted load of the cores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Seconds per transaction of each core with tiles, including hindrance by its siblings.
    pub cores: BTreeMap<usize, f64>,
    /// The highest of these.
    pub limit: f64,
    /// The value to minimize.
    pub score: f64,
}

impl Load {
    /// Returns the core with the highest load.
    pub fn hottest(&self) -> Option<usize> {
        self.cores.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(core, _)| *core)
    }

    /// Returns the cores in ascending order of load; those without tiles come first.
    pub fn emptiest(&self, space: &Space) -> Vec<usize> {
        let mut all = space.cores.allowed.clone();
        // The first core also runs the system's work.
        let first = space.cores.allowed.first().copied();
        let load = |core: &usize| (self.cores.get(core).copied().unwrap_or(0.0), Some(*core) == first);
        all.sort_by(|a, b| load(a).partial_cmp(&load(b)).unwrap_or(std::cmp::Ordering::Equal));
        all
    }
}

/// Predicts the load of each core; `mixed` is the extra cost of a kind that shares its core with other kinds.
pub fn load(space: &Space, layout: &Layout, costs: &Costs, mixed: f64) -> Load {
    let sibling = costs.sibling;
    let costs = costs.there(space, layout);
    let places: Vec<Vec<usize>> = layout.tiles.iter().map(|kind| kind.iter().flatten().copied().collect()).collect();
    let top = space.cores.allowed.last().map_or(0, |core| core + 1);
    let (mut plain, mut kinds) = (vec![0.0; top], vec![0u32; top]);
    for (kind, cores) in places.iter().enumerate() {
        let share = costs[kind] / cores.len().max(1) as f64;
        cores.iter().for_each(|core| plain[*core] += share);
        let mut before = None;
        for core in cores.iter().filter(|core| before.replace(**core) != Some(**core)) {
            kinds[*core] += 1;
        }
    }
    let elastic: Vec<usize> =
        (0..places.len()).filter(|kind| space.kinds[*kind].is_elastic && places[*kind].len() > 1).collect();
    let mut shares: Vec<Vec<f64>> =
        elastic.iter().map(|kind| vec![costs[*kind] / places[*kind].len() as f64; places[*kind].len()]).collect();
    for _ in 0..if elastic.len() > 1 { SWEEPS } else { 1 } {
        for (kind, shares) in elastic.iter().zip(&mut shares) {
            level(&mut plain, &places[*kind], shares, costs[*kind]);
        }
    }
    let dearer = |core: usize| if kinds[core] > 1 { 1.0 + mixed } else { 1.0 };
    let of = |core: usize| {
        let own = plain[core] * dearer(core);
        let beside = space.cores.siblings.get(&core).into_iter().flatten().filter(|one| **one < top);
        own + sibling * beside.map(|one| plain[*one].min(own)).sum::<f64>()
    };
    let cores: BTreeMap<usize, f64> = (0..top).filter(|core| kinds[*core] > 0).map(|core| (core, of(core))).collect();
    let limit = cores.values().copied().fold(0.0, f64::max);
    let square: f64 = cores.values().map(|load| load * load).sum::<f64>() / cores.len().max(1) as f64;
    let score = limit * (1.0 + TILE * layout.total() as f64) + EVENNESS * square.sqrt();
    Load { cores, limit, score }
}

/// Distributes a kind's work over its tiles so that the maximum load of their cores is minimal.
fn level(plain: &mut [f64], cores: &[usize], shares: &mut [f64], cost: f64) {
    cores.iter().zip(shares.iter()).for_each(|(core, share)| plain[*core] -= share);
    let mut order: Vec<usize> = (0..cores.len()).collect();
    order.sort_by(|a, b| plain[cores[*a]].total_cmp(&plain[cores[*b]]));
    let (mut sum, mut count) = (0.0, 0.0);
    let mut water = 0.0;
    for (at, tile) in order.iter().enumerate() {
        sum += plain[cores[*tile]];
        count += 1.0;
        water = (cost + sum) / count;
        if order.get(at + 1).is_none_or(|next| plain[cores[*next]] >= water) {
            break;
        }
    }
    for (tile, core) in cores.iter().enumerate() {
        shares[tile] = (water - plain[*core]).max(0.0);
        plain[*core] += shares[tile];
    }
}

#[cfg(test)]
mod tests {
    use super::super::Use;
    use super::super::space::tests::space;
    use super::*;

    fn used(busy: &[f64]) -> Vec<Use> {
        busy.iter().map(|busy| Use { busy: *busy, ..Use::default() }).collect()
    }

    fn near(found: &[f64], wanted: &[f64]) -> bool {
        found.iter().zip(wanted).all(|(found, wanted)| (found / wanted - 1.0).abs() < 0.02)
    }

    #[test]
    fn costs_are_what_was_busy_to_the_rate() {
        let space = space(4, false);
        let layout = Layout::new(vec![vec![Some(0)], vec![Some(1), Some(2)], vec![Some(3)], vec![None]]);
        let tiles = vec![used(&[0.5]), used(&[0.75, 0.25]), used(&[0.1]), used(&[0.01])];
        let trial = LayoutMeasurement { rate: 100.0, tiles, ..LayoutMeasurement::default() };
        let costs = Costs::of(&space, &layout, &[(&layout, &trial), (&layout, &trial)]);
        let wanted = [0.005, 0.01, 0.001, 0.0001];
        assert!(near(&costs.here(), &wanted), "{:?}", costs.here());
        assert!(near(&costs.there(&space, &layout.without(1, 2)), &wanted), "what was not varied changes nothing");
    }

    #[test]
    fn that_tiles_hinder_each_other_is_learned() {
        let space = space(4, false);
        let two = Layout::new(vec![vec![Some(0)], vec![Some(1), Some(2)], vec![Some(3)], vec![None]]);
        let three = two.with(1, 3);
        let trial = |busy: &[f64]| {
            let tiles = vec![used(&[0.5]), used(busy), used(&[0.1]), used(&[0.01])];
            LayoutMeasurement { rate: 100.0, tiles, ..LayoutMeasurement::default() }
        };
        let (first, second) = (trial(&[0.5, 0.5]), trial(&[0.7, 0.7, 0.7]));
        let costs = Costs::of(&space, &two, &[(&two, &first), (&three, &second)]);
        let one = costs.there(&space, &two.without(1, 2))[1];
        assert!(one < 0.006 && near(&costs.here()[..1], &[0.005]), "{one} {:?}", costs.here());
    }

    #[test]
    fn elastic_tiles_fill_what_others_leave() {
        let space = space(4, false);
        let layout = Layout::new(vec![vec![Some(0)], vec![Some(0), Some(1), Some(2)], vec![Some(1)], vec![None]]);
        let found = load(&space, &layout, &Costs::fixed(&space, &[3.0, 6.0, 9.0, 0.0]), 0.0);
        assert!(
            near(&found.cores.values().copied().collect::<Vec<_>>(), &[4.5, 9.0, 4.5]),
            "core 1 is full of pack: {found:?}"
        );
        assert_eq!(found.hottest(), Some(1));
        assert_eq!(found.emptiest(&space), [3, 2, 0, 1], "of two as empty the first core is the last");
        let mixed = load(&space, &layout, &Costs::fixed(&space, &[3.0, 6.0, 9.0, 0.0]), 0.1);
        assert!(near(&[mixed.cores[&0], mixed.cores[&2]], &[4.95, 4.5]), "{mixed:?}");
    }

    #[test]
    fn what_gets_equal_parts_does_not() {
        let mut space = space(4, false);
        space.kinds[1].is_elastic = false;
        let layout = Layout::new(vec![vec![Some(0)], vec![Some(0), Some(1)], vec![Some(2)], vec![None]]);
        let found = load(&space, &layout, &Costs::fixed(&space, &[3.0, 6.0, 1.0, 0.0]), 0.0);
        assert!(near(&found.cores.values().copied().collect::<Vec<_>>(), &[6.0, 3.0, 1.0]), "{found:?}");
    }

    #[test]
    fn a_busy_sibling_hinders() {
        let space = space(4, true);
        let layout = |pack| Layout::new(vec![vec![Some(0)], vec![Some(2)], vec![Some(pack)], vec![None]]);
        let costs = Costs::fixed(&space, &[2.0, 2.0, 2.0, 0.0]);
        let (beside, alone) = (load(&space, &layout(1), &costs, 0.0), load(&space, &layout(3), &costs, 0.0));
        assert!(beside.cores[&0] > 2.5 && near(&[alone.cores[&0]], &[2.0]), "{beside:?} {alone:?}");
    }
}
