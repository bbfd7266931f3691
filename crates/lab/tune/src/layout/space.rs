//! The space of layouts: how many tiles of each kind, and on which cores.
//!
//! reads   kinds of tiles and the allowed cores
//! writes  layouts, and moves from one to the next

use std::collections::BTreeMap;

use hearth_tile::affinity::{Cores, Seat, auto};
use serde::{Deserialize, Serialize};

/// A kind of tile.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Name of the kind.
    pub name: String,
    /// Maximum number of tiles.
    pub most: usize,
    /// Whether its tiles are never pinned to a core.
    pub floats: bool,
    /// Whether its tiles take work as they have time. Otherwise each gets an equal share.
    pub is_elastic: bool,
    /// Whether the automatic layout spreads it over all cores in turn when cores are shared.
    pub spread: bool,
    /// Whether it should have a physical core for itself.
    pub quiet: bool,
}

/// The space of choices.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// The kinds, in the order of the data flow.
    pub kinds: Vec<Kind>,
    /// The allowed cores and their topology.
    pub cores: Cores,
}

/// A layout, one point of the space.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Layout {
    /// For each kind the core of each of its tiles, ascending; `None` floats.
    pub tiles: Vec<Vec<Option<usize>>>,
}

/// Identifies layouts that behave the same.
pub type Signature = Vec<Vec<Vec<usize>>>;

impl Layout {
    /// Creates a layout and sorts its tiles.
    pub fn new(mut tiles: Vec<Vec<Option<usize>>>) -> Self {
        tiles.iter_mut().for_each(|kind| kind.sort_unstable());
        Self { tiles }
    }

    /// Returns the number of tiles of a kind.
    pub fn count(&self, kind: usize) -> usize {
        self.tiles[kind].len()
    }

    /// Returns the number of tiles.
    pub fn total(&self) -> usize {
        self.tiles.iter().map(Vec::len).sum()
    }

    /// Returns the number of tiles that share a core with another of their kind, and so add nothing.
    pub fn twins(&self) -> usize {
        let of =
            |tiles: &Vec<Option<usize>>| tiles.windows(2).filter(|two| two[0].is_some() && two[0] == two[1]).count();
        self.tiles.iter().map(of).sum()
    }

    /// Returns the kinds on each core that has tiles, once for each of their tiles there.
    pub fn by_core(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut all: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (kind, tiles) in self.tiles.iter().enumerate() {
            tiles.iter().flatten().for_each(|core| all.entry(*core).or_default().push(kind));
        }
        all
    }

    /// Returns the layout with one more tile.
    pub fn with(&self, kind: usize, core: usize) -> Self {
        let mut tiles = self.tiles.clone();
        tiles[kind].push(Some(core));
        Self::new(tiles)
    }

    /// Returns the layout without a tile of this kind on this core.
    pub fn without(&self, kind: usize, core: usize) -> Self {
        let mut tiles = self.tiles.clone();
        if let Some(at) = tiles[kind].iter().position(|place| *place == Some(core)) {
            tiles[kind].remove(at);
        }
        Self::new(tiles)
    }

    /// Returns the layout with a tile of this kind moved to another core.
    pub fn moved(&self, kind: usize, from: usize, to: usize) -> Self {
        self.without(kind, from).with(kind, to)
    }

    /// Returns the layout with all tiles of a core moved to another.
    pub fn merged(&self, from: usize, to: usize) -> Self {
        let place = |place: &Option<usize>| if *place == Some(from) { Some(to) } else { *place };
        let mut tiles: Vec<Vec<_>> = self.tiles.iter().map(|kind| kind.iter().map(place).collect()).collect();
        // Two tiles of a kind on one core do the work of one.
        for kind in &mut tiles {
            let there = kind.iter().filter(|place| **place == Some(to)).count();
            (1..there).for_each(|_| {
                let at = kind.iter().position(|place| *place == Some(to));
                at.map(|at| kind.remove(at));
            });
        }
        Self::new(tiles)
    }
}

impl Space {
    /// Returns the index of a kind.
    pub fn kind(&self, name: &str) -> Option<usize> {
        self.kinds.iter().position(|kind| kind.name == name)
    }

    /// Returns whether a layout belongs to this space.
    pub fn has(&self, layout: &Layout) -> bool {
        let fits = |(kind, tiles): (&Kind, &Vec<Option<usize>>)| {
            (1..=kind.most).contains(&tiles.len())
                && tiles.iter().all(|place| match place {
                    None => kind.floats,
                    Some(core) => !kind.floats && self.cores.allowed.contains(core),
                })
        };
        layout.tiles.len() == self.kinds.len() && self.kinds.iter().zip(&layout.tiles).all(fits)
    }

    /// Returns the automatic layout for these tile counts and costs of each kind.
    pub fn automatic(&self, counts: &[usize], weights: &[f64]) -> Layout {
        let mut seats = Vec::new();
        for ((kind, count), weight) in self.kinds.iter().zip(counts).zip(weights) {
            seats.extend((0..*count).map(|at| Seat {
                name: format!("{}:{at}", kind.name),
                weight: weight / *count as f64,
                floats: kind.floats,
                spread: kind.spread,
                quiet: kind.quiet,
            }));
        }
        let mut places = auto(&seats, &self.cores).into_iter();
        Layout::new(counts.iter().map(|count| places.by_ref().take(*count).collect()).collect())
    }

    /// Returns what distinguishes a layout: which kinds share a core, and which cores share a physical core. The first
    /// core is distinct from the others, because it also runs the system's work.
    pub fn signature(&self, layout: &Layout) -> Signature {
        let by_core = layout.by_core();
        let first = self.cores.allowed.first();
        let mut seen = Vec::new();
        let mut all = Signature::new();
        for core in &self.cores.allowed {
            if seen.contains(core) {
                continue;
            }
            let siblings = self.siblings(*core);
            seen.push(*core);
            seen.extend(&siblings);
            let of = |core: &usize| {
                let mut kinds = by_core.get(core).cloned().unwrap_or_default();
                if Some(core) == first && !kinds.is_empty() {
                    kinds.push(self.kinds.len());
                }
                kinds
            };
            let mut group: Vec<Vec<usize>> = [core].into_iter().chain(&siblings).map(of).collect();
            group.sort();
            if group.iter().any(|kinds| !kinds.is_empty()) {
                all.push(group);
            }
        }
        all.sort();
        all
    }

    /// Returns the allowed hyperthread siblings of a core.
    pub fn siblings(&self, core: usize) -> Vec<usize> {
        let all = self.cores.siblings.get(&core).cloned().unwrap_or_default();
        all.into_iter().filter(|one| self.cores.allowed.contains(one)).collect()
    }

    /// Formats a layout in one line: `net 0; verify 0,1; metric f`.
    pub fn text(&self, layout: &Layout) -> String {
        let place = |place: &Option<usize>| place.map_or("f".to_owned(), |core| core.to_string());
        let of = |(kind, tiles): (&Kind, &Vec<Option<usize>>)| {
            format!("{} {}", kind.name, tiles.iter().map(place).collect::<Vec<_>>().join(","))
        };
        self.kinds.iter().zip(&layout.tiles).map(of).collect::<Vec<_>>().join("; ")
    }

    /// Describes the changes between two layouts: `verify 2 → 3; bank 1 → 0 (core)`.
    pub fn change(&self, from: &Layout, to: &Layout) -> String {
        let show = |tiles: &[Option<usize>]| {
            let all: Vec<String> = tiles.iter().map(|p| p.map_or("f".to_owned(), |core| core.to_string())).collect();
            all.join(",")
        };
        let of = |(kind, (before, after)): (&Kind, (&Vec<Option<usize>>, &Vec<Option<usize>>))| {
            if before == after {
                return None;
            }
            let count = match (before.len(), after.len()) {
                (before, after) if before == after => String::new(),
                (before, after) => format!(" × {before} → {after},"),
            };
            let plural = |tiles: &[_]| if tiles.len() == 1 { "core" } else { "cores" };
            Some(format!("{}{count} {} {} → {}", kind.name, plural(before), show(before), show(after)))
        };
        let all: Vec<String> = self.kinds.iter().zip(from.tiles.iter().zip(&to.tiles)).filter_map(of).collect();
        if all.is_empty() { "the same".into() } else { all.join("; ") }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn kind(name: &str, most: usize) -> Kind {
        Kind { name: name.into(), most, floats: false, is_elastic: true, spread: false, quiet: false }
    }

    pub(crate) fn space(cores: usize, are_pairs: bool) -> Space {
        let siblings = (0..cores).map(|core| (core, if are_pairs { vec![core ^ 1] } else { vec![] })).collect();
        let watch = Kind { floats: true, ..kind("metric", 1) };
        Space {
            kinds: vec![kind("net", 4), Kind { spread: true, ..kind("verify", cores) }, kind("pack", 1), watch],
            cores: Cores { allowed: (0..cores).collect(), siblings },
        }
    }

    fn layout(places: [&[usize]; 3]) -> Layout {
        let mut tiles: Vec<Vec<_>> = places.iter().map(|kind| kind.iter().map(|c| Some(*c)).collect()).collect();
        tiles.push(vec![None]);
        Layout::new(tiles)
    }

    #[test]
    fn layouts_that_differ_by_the_names_of_cores_are_the_same() {
        let space = space(4, false);
        let of = |places| space.signature(&layout(places));
        assert_eq!(of([&[1], &[2, 3], &[1]]), of([&[2], &[1, 3], &[2]]));
        assert_ne!(of([&[1], &[2, 3], &[1]]), of([&[0], &[2, 3], &[0]]), "the first core has other work too");
        assert_ne!(of([&[1], &[2, 3], &[1]]), of([&[1], &[2, 3], &[2]]));
    }

    #[test]
    fn hyperthreads_make_a_difference() {
        let space = space(8, true);
        let of = |places| space.signature(&layout(places));
        assert_eq!(of([&[2], &[4], &[3]]), of([&[6], &[2], &[7]]));
        assert_ne!(of([&[2], &[4], &[3]]), of([&[2], &[4], &[6]]));
    }

    #[test]
    fn moves_leave_layouts_of_the_space() {
        let space = space(4, false);
        let from = space.automatic(&[1, 4, 1, 1], &[1.0, 4.0, 1.0, 0.1]);
        assert!(space.has(&from) && from.count(1) == 4, "{}", space.text(&from));
        let merged = from.merged(3, 0);
        assert!(space.has(&merged) && !merged.by_core().contains_key(&3), "{}", space.text(&merged));
        assert_eq!(merged.count(1), 3, "two of a kind on a core are one");
        assert_eq!(from.moved(2, 3, 1).without(1, 0).with(1, 0), from.moved(2, 3, 1));
        assert!(!space.has(&from.with(2, 0)), "there is one pack");
        assert_eq!(space.change(&from, &from), "the same");
        assert_eq!(
            space.change(&layout([&[0], &[0], &[1]]), &layout([&[1], &[0, 2], &[1]])),
            "net core 0 → 1; verify × 1 → 2, core 0 → 0,2"
        );
    }
}
