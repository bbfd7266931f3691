//! Counters and links as Prometheus text.
//!
//! reads   the topology (names, kinds, help) once; the workspace (values) line by line
//! writes  one family per counter of each tile kind and service, one per loop counter, three for the links
//! memory  [`Template`]: about 150 B a line, taken at the start; a [`Page`]: about as much while it is written
//! drops   –
//! source  Prometheus naming: base units (seconds), counters end in `_total`

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use hearth_ring::Observer;
use hearth_tile::counters::{CounterSet, FIRST_REGIME, LoopCounters};
use hearth_tile::regime::Regime;
use hearth_tile::topology::{CounterSpec, TileSpec, Topology};
use hearth_tile::{CounterDecl, CounterKind};

/// Lines that [`Template::write`] adds at a time: some 20 µs.
const PIECE: usize = 64;

/// Where the value of a line stands in the workspace.
#[derive(Clone, Copy)]
enum Source {
    /// A word of a counters region.
    Word { region: usize, word: usize },
    /// Frags that a link carried.
    Published { link: usize },
    /// Times that a consumer was lapped.
    Overruns { link: usize, consumer: usize },
    /// Times that a consumer held its producer up.
    Slow { link: usize, consumer: usize },
}

/// A line: what comes before the value, and where that is.
struct Line {
    before: String,
    source: Source,
    nanos: bool,
}

/// The text of a node but for the values: nothing else changes while it runs.
pub struct Template {
    lines: Vec<Line>,
}

/// A text in the making.
#[derive(Default)]
pub struct Page {
    /// What is written so far.
    pub text: String,
    next: usize,
}

struct Family {
    help: String,
    kind: CounterKind,
    samples: Vec<(String, Source, bool)>,
}

type Families = BTreeMap<String, Family>;

impl Template {
    /// The template of a node.
    pub fn new(topology: &Topology, observer: &Observer) -> Self {
        let mut families = Families::new();
        for tile in &topology.tiles {
            let Some(region) = observer.counter_names().position(|name| name == tile.name()) else { continue };
            add_loop_counters(&mut families, tile, region);
            for (at, spec) in tile.counters.iter().enumerate() {
                let source = Source::Word { region, word: LoopCounters::DECLS.len() + at };
                add(&mut families, &tile.kind, spec, format!("tile=\"{}\"", tile.name()), source);
            }
        }
        for service in &topology.services {
            let Some(region) = observer.counter_names().position(|name| name == service.name) else { continue };
            for (word, spec) in service.counters.iter().enumerate() {
                let labels = format!("service=\"{}\"", service.name);
                add(&mut families, &service.name, spec, labels, Source::Word { region, word });
            }
        }
        add_links(&mut families, observer);
        Self { lines: families.iter().flat_map(|(name, family)| lines(name, family)).collect() }
    }

    /// Adds a piece of the text to a page, with the values of this moment; true when it was the last.
    pub fn write(&self, observer: &Observer, page: &mut Page) -> bool {
        for line in self.lines.iter().skip(page.next).take(PIECE) {
            let value = read(observer, line.source);
            page.text.push_str(&line.before);
            // Writing to a String cannot fail.
            let _ = match line.nanos {
                true => writeln!(page.text, "{}", value as f64 / 1e9),
                false => writeln!(page.text, "{value}"),
            };
        }
        page.next += PIECE;
        page.next >= self.lines.len()
    }
}

/// The value; 0 where the workspace has none, which a topology of the same node rules out.
fn read(observer: &Observer, source: Source) -> u64 {
    let of_consumer = |link, consumer: usize| observer.link_at(link)?.consumers.get(consumer).cloned();
    let value = match source {
        Source::Word { region, word } => {
            observer.counters_at(region).and_then(|words| words.get(word)).map(|w| w.load(Relaxed))
        }
        Source::Published { link } => observer.link_at(link).map(|link| link.producer_seq),
        Source::Overruns { link, consumer } => of_consumer(link, consumer).map(|c| c.overrun_poll + c.overrun_read),
        Source::Slow { link, consumer } => of_consumer(link, consumer).map(|c| c.slow),
    };
    value.unwrap_or(0)
}

fn add_loop_counters(families: &mut Families, tile: &TileSpec, region: usize) {
    let labels = format!("tile=\"{}\",kind=\"{}\"", tile.name(), tile.kind);
    for (word, decl) in LoopCounters::DECLS[..FIRST_REGIME].iter().enumerate() {
        add(families, "tile", &CounterSpec::from(decl), labels.clone(), Source::Word { region, word });
    }
    let decl = CounterDecl {
        name: "regime_ns",
        kind: CounterKind::Counter,
        help: "Time in each regime; the regimes of a tile sum to all of its time.",
    };
    for (at, regime) in Regime::ALL.iter().enumerate() {
        let labels = format!("{labels},regime=\"{}\"", regime.column());
        let source = Source::Word { region, word: FIRST_REGIME + at };
        add(families, "tile", &CounterSpec::from(&decl), labels, source);
    }
}

fn add_links(families: &mut Families, observer: &Observer) {
    let spec = |name: &str, kind, help: &str| CounterSpec { name: name.into(), kind, help: help.into() };
    let frags = spec("frags", CounterKind::Counter, "Frags published.");
    let overruns = spec("overruns", CounterKind::Counter, "Times that a lossy consumer was lapped.");
    let slow = spec("slow", CounterKind::Counter, "Times that a consumer held its producer up.");
    for (link, view) in observer.links().iter().enumerate() {
        let label = format!("link=\"{}\"", view.name);
        add(families, "link", &frags, label.clone(), Source::Published { link });
        for (consumer, it) in view.consumers.iter().enumerate() {
            let label = format!("{label},consumer=\"{}\"", it.name);
            add(families, "link", &overruns, label.clone(), Source::Overruns { link, consumer });
            add(families, "link", &slow, label, Source::Slow { link, consumer });
        }
    }
}

fn add(families: &mut Families, area: &str, spec: &CounterSpec, labels: String, source: Source) {
    let (base, nanos) = match spec.name.strip_suffix("_ns") {
        Some(base) => (format!("{base}_seconds"), true),
        None => (spec.name.clone(), false),
    };
    let suffix = if spec.kind == CounterKind::Counter { "_total" } else { "" };
    let help = spec.help.replace(", nanoseconds", "");
    let family = families.entry(format!("hearth_{area}_{base}{suffix}")).or_insert_with(|| Family {
        help,
        kind: spec.kind,
        samples: vec![],
    });
    family.samples.push((labels, source, nanos));
}

/// The lines of a family; its head stands before the first.
fn lines(name: &str, family: &Family) -> Vec<Line> {
    let kind = match family.kind {
        CounterKind::Counter => "counter",
        CounterKind::Gauge => "gauge",
    };
    let mut head = format!("# HELP {name} {}\n# TYPE {name} {kind}\n", family.help);
    let mut line = |(labels, source, nanos): &(String, Source, bool)| {
        let before = format!("{}{name}{{{labels}}} ", std::mem::take(&mut head));
        Line { before, source: *source, nanos: *nanos }
    };
    family.samples.iter().map(&mut line).collect()
}
