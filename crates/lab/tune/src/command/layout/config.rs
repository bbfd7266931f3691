//! Layouts as configurations: the space of choices, the keys that set a layout, the file with the answer.
//!
//! reads   a configuration and its topology; the result of a search
//! writes  configurations, with the usual keys

use hearth_node::config::Config;
use hearth_pipeline::kinds::{self, Count, Role};
use hearth_pipeline::topology::{core_host, seat};
use hearth_tile::affinity::{Cores, written};
use hearth_tile::topology::Topology;

use super::Options;
use crate::layout::{Kind, Layout, SearchResult, Space, report};

/// Width of the evidence comments in the configuration, in characters.
const WIDTH: usize = 110;

/// Returns the space of choices, and the layout that the configuration has.
pub fn space(base: &Config, topology: &Topology, cores: Cores) -> (Space, Layout) {
    let hashing = base.development.genesis.hashes_per_tick > 0;
    let mut kinds: Vec<Kind> = Vec::new();
    let mut tiles: Vec<Vec<Option<usize>>> = Vec::new();
    for tile in topology.tiles.iter().filter(|tile| core_host(&topology.tiles, tile).is_none()) {
        let seat = seat(tile, hashing);
        let declared = declared(&tile.kind);
        if kinds.last().is_none_or(|kind| kind.name != tile.kind) {
            kinds.push(Kind {
                name: tile.kind.clone(),
                most: if declared.count == Count::One { 1 } else { cores.allowed.len() },
                floats: seat.floats,
                is_elastic: declared.is_elastic,
                spread: seat.spread,
                quiet: seat.quiet,
            });
            tiles.push(Vec::new());
        }
        if let (Some(kind), Some(places)) = (kinds.last_mut(), tiles.last_mut()) {
            places.push(tile.core);
            kind.floats |= tile.core.is_none();
            kind.most = kind.most.max(places.len());
        }
    }
    (Space { kinds, cores }, Layout::new(tiles))
}

fn declared(kind: &str) -> &'static kinds::Kind {
    kinds::Kind::named(kind).expect("a tile of this pipeline")
}

/// Sets a layout in the configuration, by the usual keys.
pub fn with_layout(base: &Config, space: &Space, layout: &Layout) -> Config {
    let mut config = base.clone();
    let (mut load, mut node) = (Vec::new(), Vec::new());
    for (kind, places) in space.kinds.iter().zip(&layout.tiles) {
        let declared = declared(&kind.name);
        if declared.role == Role::Load { &mut load } else { &mut node }.extend(places);
        if let Some(count) = config.tile_count_mut(declared) {
            *count = places.len();
        }
    }
    config.layout.affinity = written(&node).into();
    config.development.bench.affinity = written(&load).into();
    config
}

/// Formats the keys of a configuration that differ from the defaults.
pub fn differing(config: &Config) -> String {
    fn less(mine: toml::Table, other: &toml::Table) -> toml::Table {
        let keep = |(key, value): (String, toml::Value)| match (value, other.get(&key)) {
            (toml::Value::Table(inner), Some(toml::Value::Table(other))) => {
                let inner = less(inner, other);
                (!inner.is_empty()).then_some((key, toml::Value::Table(inner)))
            }
            (value, Some(other)) if value == *other => None,
            (value, _) => Some((key, value)),
        };
        mine.into_iter().filter_map(keep).collect()
    }
    let table = |config: &Config| toml::Table::try_from(config).expect("plain data");
    toml::to_string(&less(table(config), &table(&Config::default()))).expect("plain data")
}

/// Formats the recommended configuration with the evidence.
pub fn configuration(
    base: &Config,
    space: &Space,
    found: &SearchResult,
    options: &Options,
    blind: Option<&str>,
) -> String {
    let config = if found.is_better() { with_layout(base, space, &found.layout) } else { base.clone() };
    let mut lines = vec![format!(
        "Written by `hearth tune layout` on {} cores: benches of {} s after {} s, seed {}.",
        space.cores.allowed.len(),
        options.duration,
        options.warmup,
        options.seed
    )];
    lines.extend(report::evidence(space, found));
    lines.extend(blind.map(str::to_owned));
    lines.extend(report::path(space, found));
    let comment: String = lines.iter().flat_map(|line| wrapped(line)).map(|line| format!("# {line}\n")).collect();
    let keys = differing(&config);
    if keys.is_empty() { comment } else { format!("{comment}\n{keys}") }
}

/// Wraps a line at spaces and indents the continuation.
fn wrapped(line: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for word in line.split_whitespace() {
        let last = all.last_mut().expect("there is one");
        if !last.trim().is_empty() && last.chars().count() + 1 + word.chars().count() > WIDTH {
            all.push(format!("  {word}"));
        } else if last.is_empty() {
            last.push_str(word);
        } else {
            last.push(' ');
            last.push_str(word);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use hearth_node::boot;

    use super::*;

    fn of(count: usize) -> (Space, Layout) {
        let siblings = (0..count).map(|core| (core, vec![])).collect();
        let cores = Cores { allowed: (0..count).collect(), siblings };
        let base = Config::default();
        let topology = boot::topology(&base, &cores, true).expect("it fits");
        space(&base, &topology, cores)
    }

    #[test]
    fn a_layout_is_the_same_when_it_is_read_again() {
        for count in [1, 2, 4, 16, 80] {
            let (space, default) = of(count);
            let mut layouts = vec![default.clone()];
            let verify = space.kind("verify").expect("there is one");
            layouts.push(Layout::new(
                default
                    .tiles
                    .iter()
                    .enumerate()
                    .map(|(kind, places)| if kind == verify { vec![Some(0)] } else { places.clone() })
                    .collect(),
            ));
            for layout in layouts {
                assert!(space.has(&layout), "{count}: {}", space.text(&layout));
                let text = differing(&with_layout(&Config::default(), &space, &layout));
                let config: Config = toml::from_str(&text).expect("a configuration");
                let topology = boot::topology(&config, &space.cores, true).expect("it fits");
                let (_, read) = super::space(&config, &topology, space.cores.clone());
                assert_eq!(read, layout, "{count}: {text}");
                assert!(boot::topology(&config, &space.cores, false).is_ok(), "it is good for `hearth run`");
            }
        }
    }

    #[test]
    fn only_what_differs_is_written() {
        assert_eq!(differing(&Config::default()), "");
        let mut config = Config::default();
        config.layout.verify_tile_count = 3;
        config.development.genesis.hashes_per_tick = 7;
        assert_eq!(
            differing(&config),
            "[development.genesis]\nhashes_per_tick = 7\n\n[layout]\nverify_tile_count = 3\n"
        );
    }

    #[test]
    fn evidence_is_cut_at_spaces() {
        let line = "word ".repeat(60);
        let lines = wrapped(&line);
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= WIDTH + 2), "{lines:?}");
        assert_eq!(lines.join(" ").split_whitespace().count(), 60);
        assert_eq!(wrapped("a  b"), ["a b"]);
    }
}
