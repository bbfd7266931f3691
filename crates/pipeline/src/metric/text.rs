//! Counters and links as Prometheus text.
//!
//! reads   the topology (names, kinds, help) once; the workspace (values) line by line
//! writes  one family per counter and per latency of each tile kind and service, one per loop counter, three for the
//!         links
//! memory  [`Template`]: about 150 B a line, taken at the start; a [`Page`]: about as much while it is written
//! drops   –
//! source  Prometheus naming: base units (seconds), counters end in `_total`

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use hearth_ring::Observer;
use hearth_tile::counters::{CounterSet, FIRST_REGIME, LoopCounters};
use hearth_tile::latency::Histogram;
use hearth_tile::regime::Regime;
use hearth_tile::topology::{CounterSpec, TileSpec, Topology};
use hearth_tile::{CounterDecl, CounterKind};

/// Lines that [`Template::write`] adds at a time, if the last family does not go beyond: some 20 µs.
const PIECE: usize = 64;
/// Bounds of the buckets that are served, as powers of two, microseconds: 32 µs to 16.8 s.
const BOUNDS_US: std::ops::RangeInclusive<u32> = 5..=24;
/// Lines of a histogram: its buckets, the one without a bound, the sum, the count.
const HISTOGRAM_LINES: usize = (*BOUNDS_US.end() - *BOUNDS_US.start() + 1) as usize + 3;

/// Where the value of a line stands in the workspace.
#[derive(Clone, Copy)]
enum Source {
    /// A word of a counters region.
    Word { region: usize, word: usize },
    /// A histogram in a counters region: many lines.
    Latency { region: usize, word: usize },
    /// Frags that a link carried.
    Published { link: usize },
    /// Times that a consumer was lapped.
    Overruns { link: usize, consumer: usize },
    /// Times that a consumer held its producer up.
    Slow { link: usize, consumer: usize },
}

/// A line: what comes before the value, and where that is. Of a histogram, all its lines.
struct Line {
    before: String,
    name: String,
    labels: String,
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
    kind: &'static str,
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
            for (at, spec) in tile.latencies.iter().enumerate() {
                let name = format!("hearth_{}_{}_seconds", tile.kind, spec.name);
                let source = Source::Latency { region, word: tile.latency_at(at) };
                let sample = (format!("tile=\"{}\"", tile.name()), source, false);
                families.entry(name).or_insert_with(|| Family::new(&spec.help, "histogram")).samples.push(sample);
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
        let mut written = 0;
        while written < PIECE
            && let Some(line) = self.lines.get(page.next)
        {
            page.text.push_str(&line.before);
            // Writing to a String cannot fail.
            let _ = match line.source {
                Source::Latency { region, word } => {
                    written += HISTOGRAM_LINES - 1;
                    let words = observer.counters_at(region).and_then(|words| words.get(word..));
                    line.write_histogram(&mut page.text, &Histogram::read(words.unwrap_or_default()))
                }
                source if line.nanos => writeln!(page.text, " {}", read(observer, source) as f64 / 1e9),
                source => writeln!(page.text, " {}", read(observer, source)),
            };
            page.next += 1;
            written += 1;
        }
        page.next >= self.lines.len()
    }
}

impl Line {
    /// All lines of a histogram, which was read at once, so that they fit together.
    fn write_histogram(&self, text: &mut String, it: &Histogram) -> std::fmt::Result {
        let Self { name, labels, .. } = self;
        let count = it.count();
        for bound in BOUNDS_US {
            let us = 1u64 << bound;
            writeln!(text, "{name}_bucket{{{labels},le=\"{}\"}} {}", us as f64 / 1e6, it.count_below(us))?;
        }
        writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}")?;
        writeln!(text, "{name}_sum{{{labels}}} {}", it.sum_us() as f64 / 1e6)?;
        writeln!(text, "{name}_count{{{labels}}} {count}")
    }
}

impl Family {
    fn new(help: &str, kind: &'static str) -> Self {
        Self { help: help.into(), kind, samples: vec![] }
    }
}

/// The value; 0 where the workspace has none, which a topology of the same node rules out.
fn read(observer: &Observer, source: Source) -> u64 {
    let of_consumer = |link, consumer: usize| observer.link_at(link)?.consumers.get(consumer).cloned();
    let value = match source {
        Source::Word { region, word } => {
            observer.counters_at(region).and_then(|words| words.get(word)).map(|w| w.load(Relaxed))
        }
        Source::Latency { .. } => unreachable!("a histogram is no single value"),
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
    let kind = match spec.kind {
        CounterKind::Counter => "counter",
        CounterKind::Gauge => "gauge",
    };
    let help = spec.help.replace(", nanoseconds", "");
    let family = families.entry(format!("hearth_{area}_{base}{suffix}"));
    let family = family.or_insert_with(|| Family::new(&help, kind));
    family.samples.push((labels, source, nanos));
}

/// The lines of a family; its head stands before the first.
fn lines(name: &str, family: &Family) -> Vec<Line> {
    let mut head = format!("# HELP {name} {}\n# TYPE {name} {}\n", family.help, family.kind);
    let mut line = |(labels, source, nanos): &(String, Source, bool)| {
        let head = std::mem::take(&mut head);
        let (source, nanos) = (*source, *nanos);
        match source {
            Source::Latency { .. } => Line { before: head, name: name.into(), labels: labels.clone(), source, nanos },
            _ => {
                let before = format!("{head}{name}{{{labels}}}");
                Line { before, name: String::new(), labels: String::new(), source, nanos }
            }
        }
    };
    family.samples.iter().map(&mut line).collect()
}
