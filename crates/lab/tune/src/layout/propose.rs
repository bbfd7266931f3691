//! Proposes layouts to try next: those that the regimes suggest, and neighbours that they do not.
//!
//! reads   the best layout so far, the costs of the kinds in it, the layouts tried
//! writes  layouts, each with a reason
//!
//! A step of the model goes far where tiles behave as predicted. Where they do not (caches, hyperthreads, tiles that
//! hinder each other) its next step would be just as wrong, so each round also has neighbours: one tile less, one more,
//! moved, exchanged, or two cores merged.

use std::collections::BTreeSet;

use super::model::{Costs, Load, load};
use super::space::{Layout, Signature, Space};

/// Extra cost of kinds that share a core: a first guess, and one that keeps them apart.
const MIXED: [f64; 2] = [0.02, 0.15];
/// Maximum steps of the model.
const STEPS: usize = 120;
/// How many of the least loaded cores are considered.
const EMPTIEST: usize = 4;
/// Random walks, each with other plausible costs.
const WORLDS: usize = 3;
/// The most proposals that each walk contributes.
const OF_WORLD: usize = 2;
/// Extra cost of kinds that share a core, in the walks.
const WORLDS_MIXED: [f64; 3] = [0.02, 0.08, 0.15];
/// Deviation of the costs in the walks.
const SHAKEN: f64 = 0.03;
/// Steps of a walk with one core; fewer with more cores, because each step costs more.
const WANDER: usize = 8_000;
/// Minimum steps of a walk.
const WANDER_LEAST: usize = 200;
/// How much worse a step of a walk may be at first.
const HEAT: f64 = 0.1;
/// Scores that differ by less count as equal.
const ALIKE: f64 = 0.003;
/// Minimum gain of a model step.
const STEP: f64 = 1e-4;
/// Neighbours are not tried if the model predicts a limit this many times as high.
const HOPELESS: f64 = 1.3;
/// Random neighbours per sort.
const DRAWN: usize = 40;

/// A layout, and why to try it.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The layout to try.
    pub layout: Layout,
    /// The reason in words.
    pub why: String,
}

/// The state of the search.
pub struct Position<'a> {
    /// The space of choices.
    pub space: &'a Space,
    /// The best layout so far.
    pub best: &'a Layout,
    /// The costs of the kinds in it.
    pub costs: &'a Costs,
    /// The kind that the monitor reports as the limit.
    pub limit: Option<usize>,
    /// Layouts that were already tried.
    pub tried: &'a BTreeSet<Signature>,
}

impl Position<'_> {
    fn is_new(&self, layout: &Layout, others: &[Proposal]) -> bool {
        let signature = self.space.signature(layout);
        let is_other = |other: &Proposal| self.space.signature(&other.layout) != signature;
        let is_plain = layout.twins() <= self.best.twins() && self.space.has(layout);
        is_plain && !self.tried.contains(&signature) && others.iter().all(is_other)
    }

    fn load(&self, layout: &Layout, mixed: f64) -> Load {
        load(self.space, layout, self.costs, mixed)
    }

    fn gain(&self, layout: &Layout) -> f64 {
        self.load(self.best, MIXED[0]).limit / self.load(layout, MIXED[0]).limit.max(f64::MIN_POSITIVE) - 1.0
    }
}

/// Returns the next layouts to try, at most `count`, the most promising first; fewer if there are no more.
pub fn propose(at: &Position<'_>, round: usize, count: usize, random: &mut fastrand::Rng) -> Vec<Proposal> {
    let mut all: Vec<Proposal> = Vec::new();
    // Besides the model's own proposals, each round but the first has at least one neighbour.
    let directed = if round == 0 { count } else { count.saturating_sub(1).max(1) };
    for proposal in optima(at, random).into_iter().chain(obvious(at)) {
        if all.len() < directed && at.is_new(&proposal.layout, &all) {
            all.push(proposal);
        }
    }
    for proposal in neighbours(at, round, random) {
        if all.len() < count && at.is_new(&proposal.layout, &all) {
            all.push(proposal);
        }
    }
    all
}

/// The model's best layouts, starting from the best so far and from an automatic layout by measured costs. Those
/// without a predicted gain are left out.
fn optima(at: &Position<'_>, random: &mut fastrand::Rng) -> Vec<Proposal> {
    let mut all: Vec<(f64, Proposal)> = Vec::new();
    let automatic = at.space.automatic(&shares(at), &at.costs.here());
    for (start, from) in [(at.best, "where it works most"), (&automatic, "by what each kind costs")] {
        for mixed in MIXED {
            let layout = climb(at.space, start, at.costs, mixed);
            let gain = at.gain(&layout);
            let why = format!("the model, {from}: {:+.0} %", 100.0 * gain);
            all.push((gain, Proposal { layout, why }));
        }
    }
    for _ in 0..WORLDS {
        all.extend(wander(at, random));
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().filter(|(gain, _)| *gain > STEP).map(|(_, proposal)| proposal).collect()
}

/// The best layouts on a random walk that may also go down, less and less as it proceeds (simulated annealing). It uses
/// other plausible costs than the measured ones, so that layouts which the model cannot distinguish are tried in turn.
fn wander(at: &Position<'_>, random: &mut fastrand::Rng) -> Vec<(f64, Proposal)> {
    let costs = at.costs.shaken(SHAKEN, random);
    let mixed = *random.choice(&WORLDS_MIXED).expect("some");
    let measure = |layout: &Layout| load(at.space, layout, &costs, mixed);
    let here = measure(at.best).limit;
    let steps = (WANDER / at.space.cores.allowed.len()).max(WANDER_LEAST);
    let mut seen: Vec<(f64, f64, Layout)> = Vec::new();
    let mut now = (measure(at.best).score, at.best.clone());
    for step in 0..steps {
        let heat = HEAT * (1.0 - step as f64 / steps as f64).powi(2) + 1e-4;
        let Some(layout) = drawn(at.space, &now.1, random) else { continue };
        if layout.twins() > at.best.twins() || !at.space.has(&layout) {
            continue;
        }
        let load = measure(&layout);
        if random.f64() < (-(load.score / now.0).ln() / heat).exp() {
            now = (load.score, layout.clone());
            seen.push((load.score, load.limit, layout));
        }
    }
    // Equally good layouts come in random order.
    let mut order: Vec<(f64, f64, Layout)> =
        seen.into_iter().map(|(score, limit, layout)| (score * (1.0 + ALIKE * random.f64()), limit, layout)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut signatures = BTreeSet::new();
    let mut all: Vec<(f64, Proposal)> = Vec::new();
    for (_, limit, layout) in order {
        let signature = at.space.signature(&layout);
        if at.tried.contains(&signature) || !signatures.insert(signature) {
            continue;
        }
        let gain = here / limit.max(f64::MIN_POSITIVE) - 1.0;
        let why = format!("the model, after a walk: {:+.0} %", 100.0 * gain);
        all.push((gain, Proposal { layout, why }));
        if all.len() == OF_WORLD {
            break;
        }
    }
    all
}

/// A step in a random direction.
fn drawn(space: &Space, from: &Layout, random: &mut fastrand::Rng) -> Option<Layout> {
    let tiles = pinned(from);
    let (kind, here) = *random.choice(&tiles)?;
    let there = *random.choice(&space.cores.allowed)?;
    let is_free = !from.tiles[kind].contains(&Some(there));
    match random.u8(0..10) {
        0..4 if is_free => Some(from.moved(kind, here, there)),
        4..6 if is_free && from.count(kind) < space.kinds[kind].most => Some(from.with(kind, there)),
        6..8 if from.count(kind) > 1 => Some(from.without(kind, here)),
        _ => {
            let (other, place) = *random.choice(&tiles)?;
            let is_new = other != kind && place != here;
            let free = !from.tiles[kind].contains(&Some(place)) && !from.tiles[other].contains(&Some(here));
            (is_new && free).then(|| from.moved(kind, here, place).moved(other, place, here))
        }
    }
}

/// The number of tiles of each kind, proportional to its share of the load.
fn shares(at: &Position<'_>) -> Vec<usize> {
    let costs = at.costs.here();
    let total: f64 = costs.iter().sum();
    let cores = at.space.cores.allowed.len() as f64;
    let of = |(kind, cost): (&super::space::Kind, &f64)| {
        ((cores * cost / total.max(f64::MIN_POSITIVE)).round() as usize).clamp(1, kind.most)
    };
    at.space.kinds.iter().zip(&costs).map(of).collect()
}

/// Improves a layout by moves that relieve the most loaded core, until the model finds none.
fn climb(space: &Space, from: &Layout, costs: &Costs, mixed: f64) -> Layout {
    let mut best = from.clone();
    let mut now = load(space, &best, costs, mixed);
    for _ in 0..STEPS {
        let twins = best.twins();
        let next = moves(space, &best, &now).into_iter().filter(|layout| layout.twins() <= twins).map(|layout| {
            let load = load(space, &layout, costs, mixed);
            (layout, load)
        });
        let Some((layout, load)) = next.min_by(|a, b| a.1.score.total_cmp(&b.1.score)) else { break };
        if load.score > now.score * (1.0 - STEP) {
            break;
        }
        (best, now) = (layout, load);
    }
    best
}

/// Moves that take load from the most loaded core, or give its kinds more room.
fn moves(space: &Space, layout: &Layout, now: &Load) -> Vec<Layout> {
    let Some(hot) = now.hottest() else { return Vec::new() };
    let by_core = layout.by_core();
    let on_hot: BTreeSet<usize> = by_core.get(&hot).into_iter().flatten().copied().collect();
    let emptiest: Vec<usize> = distinct(space, layout, now).into_iter().filter(|core| *core != hot).collect();
    let few = &emptiest[..emptiest.len().min(EMPTIEST)];
    let room = |kind: usize| layout.count(kind) < space.kinds[kind].most;
    let mut all = Vec::new();
    for kind in &on_hot {
        all.extend(few.iter().map(|to| layout.moved(*kind, hot, *to)));
        if layout.count(*kind) > 1 {
            all.push(layout.without(*kind, hot));
        }
        if room(*kind) {
            all.extend(few.iter().map(|to| layout.with(*kind, *to)));
            // Replaces a tile of a kind that has several.
            for other in (0..layout.tiles.len()).filter(|other| other != kind && layout.count(*other) > 1) {
                let fewest =
                    layout.tiles[other].iter().flatten().min_by(|a, b| full(now, **a).total_cmp(&full(now, **b)));
                all.extend(fewest.map(|core| layout.without(other, *core).with(*kind, *core)));
            }
        }
        for to in few {
            let there: BTreeSet<usize> = by_core.get(to).into_iter().flatten().copied().collect();
            for other in there.iter().filter(|other| *other != kind && !on_hot.contains(other)) {
                all.push(layout.moved(*kind, hot, *to).moved(*other, *to, hot));
            }
        }
    }
    // Merges two cores, and uses the free one for what is on the most loaded one.
    let used: Vec<usize> = emptiest.iter().copied().filter(|core| by_core.contains_key(core)).take(EMPTIEST).collect();
    for (at, from) in used.iter().enumerate() {
        for to in &used[at + 1..] {
            let merged = layout.merged(*from, *to);
            for kind in &on_hot {
                if room(*kind) {
                    all.push(merged.with(*kind, *from));
                }
                all.push(merged.moved(*kind, hot, *from));
            }
        }
    }
    all
}

fn full(now: &Load, core: usize) -> f64 {
    now.cores.get(&core).copied().unwrap_or(0.0)
}

/// The cores in ascending order of load; among cores without tiles, one for each state of their siblings.
fn distinct(space: &Space, layout: &Layout, now: &Load) -> Vec<usize> {
    let by_core = layout.by_core();
    let mut seen = BTreeSet::new();
    let is_first = |core: &usize| {
        by_core.contains_key(core) || {
            let beside: Vec<_> = space.siblings(*core).iter().map(|one| by_core.get(one).cloned()).collect();
            seen.insert((Some(core) == space.cores.allowed.first(), beside))
        }
    };
    now.emptiest(space).into_iter().filter(is_first).collect()
}

/// The obvious fix of someone who reads the monitor: add a tile of the limiting kind, or move one to where there is
/// room.
fn obvious(at: &Position<'_>) -> Vec<Proposal> {
    let now = at.load(at.best, MIXED[0]);
    let Some(hot) = now.hottest() else { return Vec::new() };
    let emptiest = distinct(at.space, at.best, &now);
    let mut all = Vec::new();
    let named = at.limit.filter(|kind| !at.space.kinds[*kind].floats);
    if let Some(kind) = named.filter(|kind| at.best.count(*kind) < at.space.kinds[*kind].most) {
        let free = emptiest.iter().find(|core| !at.best.tiles[kind].contains(&Some(**core)));
        all.extend(free.map(|core| Proposal {
            layout: at.best.with(kind, *core),
            why: format!("{} is the limit: one more, on core {core}", at.space.kinds[kind].name),
        }));
    }
    let on_hot = at.best.by_core().remove(&hot).unwrap_or_default();
    if let (true, Some(to)) = (on_hot.len() > 1, emptiest.first().filter(|core| **core != hot)) {
        let best = on_hot.iter().map(|kind| (*kind, at.best.moved(*kind, hot, *to)));
        let best = best.min_by(|a, b| at.load(&a.1, MIXED[0]).score.total_cmp(&at.load(&b.1, MIXED[0]).score));
        all.extend(best.map(|(kind, layout)| Proposal {
            layout,
            why: format!("core {hot} is the fullest: {} to core {to}", at.space.kinds[kind].name),
        }));
    }
    all
}

/// Layouts one step away, ordered so that every sort of step comes early and, within a sort, the model's favourites
/// first.
fn neighbours(at: &Position<'_>, round: usize, random: &mut fastrand::Rng) -> Vec<Proposal> {
    let mut sorts = [fewer(at), moved(at, at.best, random), merged(at), exchanged(at, at.best, random), more(at)];
    let limit = at.load(at.best, MIXED[0]).limit;
    for (sort, all) in sorts.iter_mut().enumerate() {
        // One tile less of the limiting kind may be right if its tiles hinder each other, whatever the model says.
        all.retain(|one| sort == 0 || at.load(&one.layout, MIXED[0]).limit < limit * HOPELESS);
        all.sort_by(|a, b| at.load(&a.layout, MIXED[0]).score.total_cmp(&at.load(&b.layout, MIXED[0]).score));
    }
    let longest = sorts.iter().map(Vec::len).max().unwrap_or(0);
    let count = sorts.len();
    let mut all = Vec::new();
    for at in 0..longest {
        for sort in 0..count {
            all.extend(sorts[(sort + round) % count].get(at).cloned());
        }
    }
    all
}

fn fewer(at: &Position<'_>) -> Vec<Proposal> {
    let now = at.load(at.best, MIXED[0]);
    let kinds = (0..at.space.kinds.len()).filter(|kind| at.best.count(*kind) > 1);
    let one = |kind: usize| {
        let cores = at.best.tiles[kind].iter().flatten();
        let core = cores.max_by(|a, b| full(&now, **a).total_cmp(&full(&now, **b)))?;
        let why = format!("a neighbour: one {} less", at.space.kinds[kind].name);
        Some(Proposal { layout: at.best.without(kind, *core), why })
    };
    kinds.filter_map(one).collect()
}

fn more(at: &Position<'_>) -> Vec<Proposal> {
    let emptiest = distinct(at.space, at.best, &at.load(at.best, MIXED[0]));
    let kinds = at.space.kinds.iter().enumerate();
    let kinds = kinds.filter(|(place, kind)| !kind.floats && at.best.count(*place) < kind.most);
    let one = |(place, kind): (usize, &super::space::Kind)| {
        let core = emptiest.iter().find(|core| !at.best.tiles[place].contains(&Some(**core)))?;
        let why = format!("a neighbour: one {} more", kind.name);
        Some(Proposal { layout: at.best.with(place, *core), why })
    };
    kinds.filter_map(one).collect()
}

fn moved(at: &Position<'_>, from: &Layout, random: &mut fastrand::Rng) -> Vec<Proposal> {
    let tiles = pinned(from);
    let cores = distinct(at.space, from, &at.load(from, MIXED[0]));
    let draw = |_| {
        let (kind, here) = *random.choice(&tiles)?;
        let to = *random.choice(&cores).filter(|to| **to != here && !from.tiles[kind].contains(&Some(**to)))?;
        let why = format!("a neighbour: {} to core {to}", at.space.kinds[kind].name);
        Some(Proposal { layout: from.moved(kind, here, to), why })
    };
    (0..DRAWN).filter_map(draw).collect()
}

fn exchanged(at: &Position<'_>, from: &Layout, random: &mut fastrand::Rng) -> Vec<Proposal> {
    let tiles = pinned(from);
    let draw = |_| {
        let ((a, here), (b, there)) = (*random.choice(&tiles)?, *random.choice(&tiles)?);
        if a == b || here == there {
            return None;
        }
        let names = (&at.space.kinds[a].name, &at.space.kinds[b].name);
        let why = format!("a neighbour: {} and {} exchanged", names.0, names.1);
        Some(Proposal { layout: from.moved(a, here, there).moved(b, there, here), why })
    };
    (0..DRAWN).filter_map(draw).collect()
}

fn merged(at: &Position<'_>) -> Vec<Proposal> {
    let now = at.load(at.best, MIXED[0]);
    let used: Vec<usize> = now.emptiest(at.space).into_iter().filter(|core| now.cores.contains_key(core)).collect();
    let pairs = used.iter().take(EMPTIEST).enumerate();
    let pairs = pairs.flat_map(|(place, from)| used.iter().take(EMPTIEST).skip(place + 1).map(move |to| (*from, *to)));
    let one = |(from, to): (usize, usize)| Proposal {
        layout: at.best.merged(from, to),
        why: format!("a neighbour: core {from} and core {to} made one"),
    };
    pairs.map(one).collect()
}

/// Kind and core of each pinned tile.
fn pinned(layout: &Layout) -> Vec<(usize, usize)> {
    let of = |(kind, tiles): (usize, &Vec<Option<usize>>)| {
        tiles.iter().flatten().map(|core| (kind, *core)).collect::<Vec<_>>()
    };
    layout.tiles.iter().enumerate().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::space::tests::space;
    use super::*;

    fn names(proposals: &[Proposal], space: &Space) -> Vec<String> {
        proposals.iter().map(|one| format!("{}: {}", one.why, space.text(&one.layout))).collect()
    }

    #[test]
    fn the_model_goes_to_where_the_work_is() {
        let space = space(8, false);
        let best = Layout::new(vec![vec![Some(1)], vec![Some(2)], vec![Some(3)], vec![None]]);
        let (costs, tried) = (Costs::fixed(&space, &[1.0, 4.0, 1.0, 0.0]), [space.signature(&best)].into());
        let at = Position { space: &space, best: &best, costs: &costs, limit: Some(1), tried: &tried };
        let all = propose(&at, 0, 3, &mut fastrand::Rng::with_seed(1));
        assert_eq!(all.len(), 3);
        assert!(all[0].layout.count(1) >= 4, "{:#?}", names(&all, &space));
        assert!(all.iter().all(|one| space.has(&one.layout)));
        assert!(at.gain(&all[0].layout) > 2.9, "{:#?}", names(&all, &space));
    }

    #[test]
    fn tried_layouts_are_proposed_last() {
        let space = Space { kinds: space(2, false).kinds[..3].to_vec(), ..space(2, false) };
        let best = Layout::new(vec![vec![Some(0)], vec![Some(0)], vec![Some(0)]]);
        let costs = Costs::fixed(&space, &[1.0; 3]);
        let mut tried: BTreeSet<Signature> = [space.signature(&best)].into();
        let mut random = fastrand::Rng::with_seed(2);
        for round in 0..100 {
            let at = Position { space: &space, best: &best, costs: &costs, limit: None, tried: &tried };
            let all = propose(&at, round, 2, &mut random);
            if all.is_empty() {
                assert!(round > 1, "{round}");
                return;
            }
            let new: Vec<Signature> = all.iter().map(|one| space.signature(&one.layout)).collect();
            assert!(new.into_iter().all(|one| tried.insert(one)));
        }
        panic!("a space of 27 layouts has no end");
    }

    #[test]
    fn each_round_has_a_neighbour() {
        let space = space(8, false);
        let best = Layout::new(vec![vec![Some(1)], vec![Some(2), Some(3)], vec![Some(4)], vec![None]]);
        let (costs, tried) = (Costs::fixed(&space, &[1.0, 4.0, 1.0, 0.0]), [space.signature(&best)].into());
        let at = Position { space: &space, best: &best, costs: &costs, limit: Some(1), tried: &tried };
        for round in 1..6 {
            let all = propose(&at, round, 3, &mut fastrand::Rng::with_seed(1));
            assert!(all.iter().any(|one| one.why.starts_with("a neighbour")), "{:#?}", names(&all, &space));
        }
    }
}
