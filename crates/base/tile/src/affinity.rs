//! affinity: which tile runs on which core: affinity strings and the automatic layout.
//!
//! reads   the configured string, the tiles in the order of the data flow, the available cores
//! writes  a core (or none: floating) for each tile
//! source  Firedancer's `layout.affinity`: a comma-separated list of `N`, `A-B`, `A-B/S`, `fN`; and `Nh` in the
//!         blocklist. `N*K` is ours: the next K tiles share core N.
//!
//! An invalid string is rejected together with a drawing of the assignment as far as it goes, because such mistakes
//! come from counting tiles by hand.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// The properties of a tile that the layout needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Seat {
    /// The tile's name with its index, such as `verify:1`.
    pub name: String,
    /// Cost in CPU time per transaction, relative to the other tiles.
    pub weight: f64,
    /// Whether it floats: such tiles have little to do and must not take a core.
    pub floats: bool,
    /// Whether there is one per shared core: these tiles take whatever load there is.
    pub spread: bool,
    /// Whether its core's hyperthread sibling should stay free, if it has a core of its own and there is room.
    pub quiet: bool,
}

/// The machine's usable cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Cores on which this process may run, ascending.
    pub allowed: Vec<usize>,
    /// Hyperthread siblings of each core, except itself.
    pub siblings: BTreeMap<usize, Vec<usize>>,
}

impl Cores {
    /// Reads the machine's cores. Siblings are empty if the kernel does not report them.
    pub fn of_machine() -> std::io::Result<Self> {
        let allowed = crate::sys::thread::allowed_cores()?;
        let sibling = |core: &usize| {
            let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
            let list = std::fs::read_to_string(path).unwrap_or_default();
            let all = list.trim().split(',').filter_map(|part| range(part).ok()).flatten();
            (*core, all.filter(|c| c != core).collect())
        };
        let siblings = allowed.iter().map(sibling).collect();
        Ok(Self { allowed, siblings })
    }

    /// Removes the cores of a blocklist.
    pub fn without(mut self, blocklist: &Blocklist) -> Result<Self, Mistake> {
        if let Some(mistake) = &blocklist.mistake {
            return Err(mistake.clone());
        }
        for (cores, with_siblings) in &blocklist.blocked {
            let siblings = cores.iter().filter_map(|core| self.siblings.get(core)).flatten();
            let siblings: Vec<usize> = siblings.copied().filter(|_| *with_siblings).collect();
            self.allowed.retain(|core| !cores.contains(core) && !siblings.contains(core));
        }
        if self.allowed.is_empty() {
            return Err(Mistake::NoCores);
        }
        Ok(self)
    }
}

/// Cores that no tile may use (`0`, `4-7`, `2h` for core 2 and its siblings), parsed once. Mistakes in the text are
/// kept, to be reported with everything else that is wrong with a layout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Blocklist {
    text: String,
    /// Cores, and whether their siblings are blocked too.
    blocked: Vec<(Vec<usize>, bool)>,
    mistake: Option<Mistake>,
}

impl From<&str> for Blocklist {
    fn from(text: &str) -> Self {
        let (mut blocked, mut parts, mut whys) = (vec![], vec![], vec![]);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let core = part.strip_suffix('h');
            match range(core.unwrap_or(part)) {
                Ok(cores) => blocked.push((cores, core.is_some())),
                Err(why) => {
                    parts.push(part);
                    whys.push(why);
                }
            }
        }
        let mistake = (!parts.is_empty()).then(|| Mistake::Syntax { part: parts.join("`, `"), why: whys.join("; ") });
        Self { text: text.into(), blocked, mistake }
    }
}

/// The places of the tiles, parsed once: `auto`, or a place for each. Mistakes in the text are kept, to be reported
/// with everything else that is wrong with a layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Affinity {
    text: String,
    /// The parsed text; `None` for `auto`, with which the layout chooses the places.
    places: Option<ParsedAffinity>,
}

impl Default for Affinity {
    /// The text `auto`: the layout chooses all places.
    fn default() -> Self {
        "auto".into()
    }
}

impl From<&str> for Affinity {
    fn from(text: &str) -> Self {
        Self { text: text.into(), places: (text.trim() != "auto").then(|| ParsedAffinity::of(text)) }
    }
}

/// Implements parsing from a string and writing as one.
macro_rules! as_text {
    ($($kind:ident),+) => {
        $(
            impl From<String> for $kind {
                fn from(text: String) -> Self {
                    text.as_str().into()
                }
            }

            impl From<$kind> for String {
                fn from(value: $kind) -> Self {
                    value.text
                }
            }
        )+
    };
}

as_text!(Blocklist, Affinity);

/// Why an affinity string is rejected: all mistakes, and the resulting assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffinityError {
    /// The mistakes, at least one.
    pub mistakes: Vec<Mistake>,
    /// The assignment as far as it goes; empty if there is none.
    drawing: String,
}

impl std::error::Error for AffinityError {}

impl std::fmt::Display for AffinityError {
    /// The text follows `layout.`, so it starts with the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.mistakes[..] {
            [one] => write!(f, "affinity {one}")?,
            several => {
                write!(f, "affinity has {} mistakes:", several.len())?;
                several.iter().try_for_each(|mistake| write!(f, "\n  - it {mistake}"))?;
            }
        }
        if self.mistakes.iter().any(|mistake| matches!(mistake, Mistake::Syntax { .. })) {
            write!(f, "; {FORMS}")?;
        }
        write!(f, "; `affinity = \"auto\"` places every tile by itself")?;
        if !self.drawing.is_empty() {
            write!(f, ":\n{}", self.drawing)?;
        }
        Ok(())
    }
}

/// The valid forms of a part.
const FORMS: &str =
    "the forms are `auto`, `3`, `1-16`, `0-10/2`, `f2` (two tiles float) and `0*6` (six tiles share core 0)";

/// One mistake in an affinity string or a blocklist. Its text follows the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// A part that matches no form of the grammar.
    #[error("`{part}`: {why}")]
    Syntax {
        /// The part of the text, between two commas.
        part: String,
        /// A description of the fault.
        why: String,
    },
    /// The string leaves tiles without a place.
    #[error("gives places to {given} tiles, but the layout has {tiles}")]
    Count {
        /// Places in the string.
        given: usize,
        /// Tiles in the layout.
        tiles: usize,
    },
    /// A core that does not exist or that this process may not use.
    #[error("uses core {core}, but this process may use {allowed}")]
    NoSuchCore {
        /// The core that the text names.
        core: usize,
        /// The cores that this process may use, as a list of ranges.
        allowed: String,
    },
    /// A core given to two tiles without the sharing form.
    #[error("gives core {core} to more than one tile; write `{core}*K` to share it")]
    Twice {
        /// The core that the text names more than once.
        core: usize,
    },
    /// The blocklist leaves no core.
    #[error("leaves no core to run on")]
    NoCores,
}

impl Affinity {
    /// Whether every tile is placed by its share of the work instead of by hand.
    pub fn is_auto(&self) -> bool {
        self.places.is_none()
    }

    /// Assigns cores, also for `auto`. Places beyond the last tile are not used: see [`Affinity::unused`].
    pub fn assign(&self, seats: &[Seat], cores: &Cores) -> Result<Vec<Option<usize>>, AffinityError> {
        let Some(places) = &self.places else { return Ok(auto(seats, cores)) };
        let ParsedAffinity { mut places, shared, mut mistakes } = places.clone();
        // The number of places is unknown if a part is invalid.
        if mistakes.is_empty() && places.len() < seats.len() {
            mistakes.push(Mistake::Count { given: places.len(), tiles: seats.len() });
        }
        places.truncate(seats.len());
        let mut used = BTreeMap::new();
        for core in places.iter().flatten() {
            *used.entry(*core).or_insert(0) += 1;
        }
        for (core, count) in used {
            if !cores.allowed.contains(&core) {
                mistakes.push(Mistake::NoSuchCore { core, allowed: show(&cores.allowed) });
            }
            if count > 1 && !shared.contains(&core) {
                mistakes.push(Mistake::Twice { core });
            }
        }
        match mistakes.is_empty() {
            true => Ok(places),
            false => Err(AffinityError { drawing: drawing(&mistakes, &places, seats), mistakes }),
        }
    }

    /// How many places have no tile.
    pub fn unused(&self, tiles: usize) -> usize {
        self.places.as_ref().map_or(0, |given| given.places.len().saturating_sub(tiles))
    }
}

/// Draws the assignment if that helps to see the mistake.
fn drawing(mistakes: &[Mistake], places: &[Option<usize>], seats: &[Seat]) -> String {
    let is_syntax = |mistake: &Mistake| matches!(mistake, Mistake::Syntax { .. });
    if mistakes.iter().any(is_syntax) { String::new() } else { draw(places, seats) }
}

/// The parsed parts of an affinity string.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ParsedAffinity {
    places: Vec<Option<usize>>,
    /// Cores that may have several tiles.
    shared: Vec<usize>,
    /// Parts that match no form, to be reported with the layout's other mistakes.
    mistakes: Vec<Mistake>,
}

impl ParsedAffinity {
    fn of(affinity: &str) -> Self {
        let mut found = Self { places: vec![], shared: vec![], mistakes: vec![] };
        for part in affinity.split(',').map(str::trim) {
            if let Err(why) = found.take(part) {
                found.mistakes.push(Mistake::Syntax { part: part.into(), why });
            }
        }
        found
    }

    fn take(&mut self, part: &str) -> Result<(), String> {
        if let Some(count) = part.strip_prefix('f') {
            let count = if count.is_empty() { 1 } else { number(count)? };
            self.places.extend(std::iter::repeat_n(None, count));
        } else if let Some((core, count)) = part.split_once('*') {
            let (core, count) = (number(core)?, number(count)?);
            self.shared.push(core);
            self.places.extend(std::iter::repeat_n(Some(core), count));
        } else {
            self.places.extend(range(part)?.into_iter().map(Some));
        }
        Ok(())
    }
}

/// Computes the automatic layout. Each tile gets a core if there are enough (one is left to the operating system);
/// otherwise tiles share cores. If there is a spread tile for each core, those are placed on the cores in turn, and the
/// remaining sequence is cut into runs of about equal weight. Otherwise all tiles form the circle of the data flow,
/// load, node and back, which is cut so that the heaviest arc is as light as possible.
pub fn auto(seats: &[Seat], cores: &Cores) -> Vec<Option<usize>> {
    let seated = seats.iter().filter(|s| !s.floats).count();
    if seated < cores.allowed.len() { alone(seats, cores) } else { together(seats, cores) }
}

fn alone(seats: &[Seat], cores: &Cores) -> Vec<Option<usize>> {
    let seated = seats.iter().filter(|s| !s.floats).count();
    // The first core also handles interrupts and everything else.
    let mut free: Vec<usize> = cores.allowed[1..].to_vec();
    let mut spare = free.len() - seated;
    let mut places = Vec::with_capacity(seats.len());
    for seat in seats {
        if seat.floats {
            places.push(None);
            continue;
        }
        let core = free.remove(0);
        if seat.quiet && spare > 0 {
            let before = free.len();
            free.retain(|c| spare == 0 || !cores.siblings.get(&core).is_some_and(|s| s.contains(c)));
            spare = spare.saturating_sub(before - free.len());
        }
        places.push(Some(core));
    }
    places
}

fn together(seats: &[Seat], cores: &Cores) -> Vec<Option<usize>> {
    let cores = &cores.allowed;
    let spread = seats.iter().filter(|s| s.spread).count() >= cores.len();
    let in_parts = |s: &&Seat| !s.floats && !(s.spread && spread);
    let weights: Vec<f64> = seats.iter().filter(in_parts).map(|s| s.weight).collect();
    let mut parts = if spread { runs(&weights, cores.len()) } else { arcs(&weights, cores.len()) }.into_iter();
    let mut in_turn = cores.iter().cycle();
    let mut place = |seat: &Seat| match (seat.floats, seat.spread && spread) {
        (true, _) => None,
        (false, true) => in_turn.next().copied(),
        (false, false) => parts.next().map(|part| cores[part]),
    };
    seats.iter().map(&mut place).collect()
}

/// Returns the run of each weight when their sequence is cut into `count` runs: a weight belongs to the run of its
/// middle.
fn runs(weights: &[f64], count: usize) -> Vec<usize> {
    let total = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let middles = weights.iter().scan(0.0, |before, weight| {
        *before += weight;
        Some(*before - weight / 2.0)
    });
    middles.map(|middle| ((middle / total * count as f64) as usize).min(count - 1)).collect()
}

/// Returns the arc of each weight when their circle is cut into at most `count` arcs whose heaviest is as light as
/// possible. The first weight is in the first arc.
fn arcs(weights: &[f64], count: usize) -> Vec<usize> {
    let circle = |start: usize| weights[start..].iter().chain(&weights[..start]);
    // Cut before any weight that would make an arc heavier than the bound.
    let cut = |start: usize, bound: f64| -> Option<Vec<usize>> {
        let (mut arc, mut sum) = (0, 0.0);
        let arc_of = |weight: &f64| {
            (arc, sum) = if sum + weight > bound { (arc + 1, *weight) } else { (arc, sum + weight) };
            arc
        };
        let mut found: Vec<usize> = circle(start).map(arc_of).collect();
        found.rotate_right(start);
        (arc < count).then_some(found)
    };
    let sums = |start: usize| {
        circle(start).scan(0.0, |sum, weight| {
            Some({
                *sum += weight;
                *sum
            })
        })
    };
    let mut bounds: Vec<f64> = (0..weights.len()).flat_map(sums).collect();
    bounds.sort_by(f64::total_cmp);
    let heaviest = weights.iter().copied().fold(0.0, f64::max);
    let cut_anywhere = |bound: &f64| (0..weights.len()).find_map(|start| cut(start, *bound));
    // A single arc with everything is always possible.
    let first = bounds.partition_point(|bound| *bound < heaviest || cut_anywhere(bound).is_none());
    let found = bounds.get(first).and_then(cut_anywhere).unwrap_or_default();
    let (begin, used) = (found.first().copied().unwrap_or(0), found.iter().max().map_or(1, |last| last + 1));
    found.into_iter().map(|arc| (arc + used - begin) % used).collect()
}

/// Writes places as an affinity string that assigns them.
pub fn written(places: &[Option<usize>]) -> String {
    let is_shared = |core: &Option<usize>| places.iter().filter(|place| *place == core).count() > 1;
    let part = |run: &[Option<usize>]| match (run[0], run.len()) {
        (None, 1) => "f".to_owned(),
        (None, count) => format!("f{count}"),
        (Some(core), count) if is_shared(&run[0]) => format!("{core}*{count}"),
        (Some(core), _) => core.to_string(),
    };
    places.chunk_by(|a, b| a == b).map(part).collect::<Vec<_>>().join(",")
}

/// Draws the assignment: one line per core, floating tiles last, then the tiles without a place.
pub fn draw(places: &[Option<usize>], seats: &[Seat]) -> String {
    let mut cores: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut floating = vec![];
    for (place, seat) in places.iter().zip(seats) {
        match place {
            Some(core) => cores.entry(*core).or_default().push(&seat.name),
            None => floating.push(seat.name.as_str()),
        }
    }
    let mut picture = String::new();
    for (core, names) in cores {
        // Writing to a String cannot fail.
        let _ = writeln!(picture, "  core {core:>3}  {}", names.join(" "));
    }
    if !floating.is_empty() {
        let _ = writeln!(picture, "  floating  {}", floating.join(" "));
    }
    if let Some(rest) = seats.get(places.len()..).filter(|r| !r.is_empty()) {
        let names: Vec<&str> = rest.iter().map(|s| s.name.as_str()).collect();
        let _ = writeln!(picture, "  no place  {}", names.join(" "));
    }
    picture
}

/// Parses `N`, `A-B` or `A-B/S`.
fn range(part: &str) -> Result<Vec<usize>, String> {
    let Some((first, rest)) = part.split_once('-') else {
        return number(part).map(|n| vec![n]);
    };
    let (last, step) = rest.split_once('/').unwrap_or((rest, "1"));
    let (first, last, step) = (number(first)?, number(last)?, number(step)?);
    if step == 0 {
        return Err("a step of 0 never ends".into());
    }
    if first > last {
        return Err(format!("{first} is greater than {last}"));
    }
    Ok((first..=last).step_by(step).collect())
}

fn number(text: &str) -> Result<usize, String> {
    let number: usize = text.trim().parse().map_err(|_| format!("`{text}` is not a number"))?;
    if number < 1024 { Ok(number) } else { Err(format!("{number} is beyond the 1024 cores supported")) }
}

fn show(cores: &[usize]) -> String {
    let (Some(first), Some(last)) = (cores.first(), cores.last()) else { return "no core".into() };
    if last - first + 1 == cores.len() && cores.len() > 1 {
        return format!("cores {first}-{last}");
    }
    let list: Vec<String> = cores.iter().map(usize::to_string).collect();
    format!("cores {}", list.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(names: &[&str]) -> Vec<Seat> {
        let seat = |n: &&str| Seat {
            name: (*n).into(),
            weight: 1.0,
            floats: n.starts_with("metric"),
            spread: n.starts_with("verify"),
            quiet: n.starts_with("poh"),
        };
        names.iter().map(seat).collect()
    }

    fn cores(count: usize) -> Cores {
        let siblings = (0..count).map(|c| (c, vec![c ^ 1])).collect();
        Cores { allowed: (0..count).collect(), siblings }
    }

    fn given(affinity: &str, tiles: usize) -> Result<Vec<Option<usize>>, AffinityError> {
        let names: Vec<String> = (0..tiles).map(|i| format!("tile:{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Affinity::from(affinity).assign(&seats(&names), &cores(12))
    }

    #[test]
    fn the_grammar() {
        assert_eq!(given("1-3", 3).unwrap(), [Some(1), Some(2), Some(3)]);
        assert_eq!(given("0-10/5,f2,1", 6).unwrap(), [Some(0), Some(5), Some(10), None, None, Some(1)]);
        assert_eq!(given("0*2, 1*1, f", 4).unwrap(), [Some(0), Some(0), Some(1), None]);
        for wrong in ["", "x", "3-1", "0-4/0", "1-", "f-1", "0*", "99999", "1;2"] {
            let found = given(wrong, 1).unwrap_err().mistakes;
            assert!(matches!(found[..], [Mistake::Syntax { .. }]), "{wrong}: {found:?}");
        }
    }

    #[test]
    fn wrong_assignments_are_drawn() {
        let short = given("0-1", 3).unwrap_err().to_string();
        assert!(short.contains("places to 2 tiles") && short.contains("no place  tile:2"), "{short}");
        let beyond = given("40", 1).unwrap_err();
        assert!(matches!(beyond.mistakes[..], [Mistake::NoSuchCore { core: 40, .. }]), "{beyond}");
        assert!(beyond.to_string().contains("`affinity = \"auto\"`"), "{beyond}");
        let twice = given("1,1", 2).unwrap_err().to_string();
        assert!(twice.contains("1*K") && twice.contains("core   1  tile:0 tile:1"), "{twice}");
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let found = given("40,1,1,41", 6).unwrap_err();
        let allowed = "cores 0-11".to_owned();
        let expected = [
            Mistake::Count { given: 4, tiles: 6 },
            Mistake::Twice { core: 1 },
            Mistake::NoSuchCore { core: 40, allowed: allowed.clone() },
            Mistake::NoSuchCore { core: 41, allowed },
        ];
        assert_eq!(found.mistakes, expected);
        let said = found.to_string();
        assert!(said.starts_with("affinity has 4 mistakes:\n  - it gives places to 4 tiles"), "{said}");
        assert_eq!(given("x,0-1,y", 3).unwrap_err().mistakes.len(), 2, "each part that is none");
    }

    #[test]
    fn places_beyond_the_last_tile_are_not_used() {
        assert_eq!(given("0-3,40,40", 3).unwrap(), [Some(0), Some(1), Some(2)]);
        let unused = |affinity: &str| Affinity::from(affinity).unused(3);
        assert_eq!((unused("0-3,40,40"), unused("0-2"), unused("auto")), (3, 0, 0));
    }

    #[test]
    fn written_affinity_is_assigned() {
        let (a, b) = (Some(3), Some(0));
        for (places, text) in [
            (vec![a, b, None], "3,0,f"),
            (vec![a, a, b, a, None, None], "3*2,0,3*1,f2"),
            (vec![Some(1), Some(2), Some(3)], "1,2,3"),
        ] {
            assert_eq!(written(&places), text);
            assert_eq!(given(text, places.len()).unwrap(), places);
        }
    }

    #[test]
    fn blocklist_with_siblings() {
        let left = cores(8).without(&"2h,5-6".into()).unwrap();
        assert_eq!(left.allowed, [0, 1, 4, 7]);
        assert_eq!(cores(2).without(&"0-1".into()), Err(Mistake::NoCores));
        let wrong = cores(2).without(&"0g,1,x".into()).unwrap_err().to_string();
        assert_eq!(wrong, "`0g`, `x`: `0g` is not a number; `x` is not a number");
    }

    #[test]
    fn auto_gives_a_core_each_when_there_are_enough() {
        let seats = seats(&["net:0", "poh:0", "store:0", "metric:0"]);
        let places = Affinity::default().assign(&seats, &cores(8)).unwrap();
        assert_eq!(places, [Some(1), Some(2), Some(4), None], "poh's sibling 3 stays free");
        assert_eq!(Affinity::default().assign(&seats, &cores(4)).unwrap(), [Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn auto_shares_by_weight_and_spreads_verify() {
        let mut seats = seats(&["benchg:0", "benchs:0", "net:0", "verify:0", "verify:1", "pack:0", "metric:0"]);
        seats[0].weight = 3.0;
        let places = Affinity::default().assign(&seats, &cores(2)).unwrap();
        assert_eq!(places, [Some(0), Some(1), Some(1), Some(0), Some(1), Some(1), None]);
        let one = Affinity::default().assign(&seats, &cores(1)).unwrap();
        assert!(one.iter().flatten().all(|c| *c == 0));
        // With one for two cores, it is placed like the others.
        seats.remove(4);
        seats[3].weight = 3.0;
        assert_eq!(auto(&seats, &cores(2)), [Some(0), Some(0), Some(0), Some(1), Some(1), None]);
    }

    #[test]
    fn a_circle_is_cut_where_the_heaviest_arc_is_lightest() {
        assert_eq!(arcs(&[5.0, 2.5, 0.4, 1.8, 8.0, 0.5, 2.0, 2.5, 1.7], 2), [0, 0, 0, 1, 1, 1, 1, 0, 0]);
        assert_eq!(arcs(&[1.0, 9.0, 1.0], 2), [0, 1, 0]);
        assert_eq!((arcs(&[], 3), arcs(&[2.0], 3), arcs(&[0.0, 0.0], 1)), (vec![], vec![0], vec![0, 0]));
        // Every circle of one to six of these weights.
        let circle =
            |number: usize, length| (0..length).map(move |place| [0.0, 1.0, 3.0, 7.0][number >> (2 * place) & 3]);
        let circles =
            (1..=6).flat_map(|length| (0..1 << (2 * length)).map(move |number| circle(number, length).collect()));
        for (weights, count) in circles.flat_map(|weights: Vec<f64>| (1..5).map(move |count| (weights.clone(), count)))
        {
            let found = arcs(&weights, count);
            let heaviest = |of: &[usize]| {
                let sum = |arc| weights.iter().zip(of).filter(|(_, one)| **one == arc).map(|(w, _)| w).sum::<f64>();
                (0..count).map(sum).fold(0.0, f64::max)
            };
            // Every way to cut the circle, as sets of places.
            let ways = (0..1_u32 << weights.len()).filter(|cuts| cuts.count_ones() as usize <= count);
            let way = |cuts: u32| -> Vec<usize> {
                let used = cuts.count_ones().max(1) as usize;
                let arc = |place: usize| (cuts & ((2 << place) - 1)).count_ones() as usize % used;
                (0..weights.len()).map(arc).collect()
            };
            let best = ways.map(|cuts| heaviest(&way(cuts))).fold(f64::INFINITY, f64::min);
            assert_eq!((heaviest(&found), found[0]), (best, 0), "{weights:?} {count} {found:?}");
        }
    }
}
