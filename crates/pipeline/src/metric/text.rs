//! Counters and links as Prometheus text.
//!
//! reads   the topology (names, kinds, help) and the workspace (values)
//! writes  one family per counter of each tile kind, one per loop counter, three for the links
//! source  Prometheus naming: base units (seconds), counters end in `_total`

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use hearth_ring::Observer;
use hearth_tile::counters::{CounterSet, FIRST_REGIME, LoopCounters};
use hearth_tile::regime::Regime;
use hearth_tile::topology::{CounterSpec, TileSpec, Topology};
use hearth_tile::{CounterDecl, CounterKind};

struct Family {
    help: String,
    kind: CounterKind,
    samples: Vec<(String, f64)>,
}

/// All metrics of a node at this moment.
pub fn render(topology: &Topology, observer: &Observer) -> String {
    let mut families = BTreeMap::new();
    for tile in &topology.tiles {
        let Some(words) = observer.counters(&tile.name()) else { continue };
        let values: Vec<u64> = words.iter().map(|w| w.load(Ordering::Relaxed)).collect();
        add_loop_counters(&mut families, tile, &values);
        for (spec, value) in tile.counters.iter().zip(&values[LoopCounters::DECLS.len().min(values.len())..]) {
            let labels = format!("tile=\"{}\"", tile.name());
            add(&mut families, &tile.kind, spec, labels, *value);
        }
    }
    add_links(&mut families, observer);
    print(&families)
}

fn add_loop_counters(families: &mut BTreeMap<String, Family>, tile: &TileSpec, values: &[u64]) {
    let labels = format!("tile=\"{}\",kind=\"{}\"", tile.name(), tile.kind);
    for (decl, value) in LoopCounters::DECLS[..FIRST_REGIME].iter().zip(values) {
        add(families, "tile", &CounterSpec::from(decl), labels.clone(), *value);
    }
    let decl = CounterDecl {
        name: "regime_ns",
        kind: CounterKind::Counter,
        help: "Time in each regime; the regimes of a tile sum to all of its time.",
    };
    for (regime, value) in Regime::ALL.iter().zip(values.get(FIRST_REGIME..).unwrap_or_default()) {
        let labels = format!("{labels},regime=\"{}\"", regime.column());
        add(families, "tile", &CounterSpec::from(&decl), labels, *value);
    }
}

fn add_links(families: &mut BTreeMap<String, Family>, observer: &Observer) {
    let spec = |name: &str, kind, help: &str| CounterSpec { name: name.into(), kind, help: help.into() };
    let frags = spec("frags", CounterKind::Counter, "Frags published.");
    let overruns = spec("overruns", CounterKind::Counter, "Times that a lossy consumer was lapped.");
    let slow = spec("slow", CounterKind::Counter, "Times that a consumer held its producer up.");
    for link in observer.links() {
        let label = format!("link=\"{}\"", link.name);
        add(families, "link", &frags, label.clone(), link.producer_seq);
        for consumer in &link.consumers {
            let label = format!("{label},consumer=\"{}\"", consumer.name);
            add(families, "link", &overruns, label.clone(), consumer.overrun_poll + consumer.overrun_read);
            add(families, "link", &slow, label, consumer.slow);
        }
    }
}

fn add(families: &mut BTreeMap<String, Family>, area: &str, spec: &CounterSpec, labels: String, value: u64) {
    let (base, value) = match spec.name.strip_suffix("_ns") {
        Some(base) => (format!("{base}_seconds"), value as f64 / 1e9),
        None => (spec.name.clone(), value as f64),
    };
    let suffix = if spec.kind == CounterKind::Counter { "_total" } else { "" };
    let help = spec.help.replace(", nanoseconds", "");
    let family = families.entry(format!("hearth_{area}_{base}{suffix}")).or_insert_with(|| Family {
        help,
        kind: spec.kind,
        samples: vec![],
    });
    family.samples.push((labels, value));
}

fn print(families: &BTreeMap<String, Family>) -> String {
    let mut text = String::new();
    for (name, family) in families {
        let kind = match family.kind {
            CounterKind::Counter => "counter",
            CounterKind::Gauge => "gauge",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", family.help);
        for (labels, value) in &family.samples {
            let _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
    }
    text
}
