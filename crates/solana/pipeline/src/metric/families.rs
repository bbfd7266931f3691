//! families: which metrics there are: names, types, labels and help, derived from the topology alone.
//!
//! reads   the topology: what every tile, service and link declares
//! writes  [`declared`]: for the reference, and for tests of anything that names a metric; for the text, the place of
//!         each value
//! memory  about 200 B per sample, while a template or the reference is built
//! drops   metrics of the topology that the workspace lacks: they are not served
//! source  Prometheus naming: base units (seconds, bytes) last, counters end in `_total`

use std::collections::BTreeMap;

use hearth_tile::counters::{CounterSet, FIRST_REGIME, LoopCounters};
use hearth_tile::regime::Regime;
use hearth_tile::topology::{CounterSpec, LatencySpec, TileSpec, Topology};
use hearth_tile::{CounterDecl, CounterKind};

use super::process::Process;
use super::served::{Metric, Type};

/// The source of a sample's value.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// A word of a counters region.
    Word { region: usize, word: usize },
    /// A histogram in a counters region, which takes many lines.
    Latency { region: usize, word: usize },
    /// The number of frags that a link carried.
    Published { link: usize },
    /// A counter of one consumer of a link.
    Consumer { link: usize, consumer: usize, what: OfConsumer },
    /// A value of the process.
    Process(Process),
}

/// The counters of a link's consumer.
#[derive(Clone, Copy)]
pub(super) enum OfConsumer {
    /// Frags waiting for it.
    Waiting,
    /// Frags that it skipped unread.
    Filtered,
    /// Payload bytes that it read.
    Bytes,
    /// Frags lost because the producer lapped it.
    Overruns,
    /// Times that it blocked its producer.
    Slow,
}

/// One sample: its labels, and the source of its value.
pub(super) struct Sample {
    pub labels: Vec<(&'static str, String)>,
    pub source: Source,
    pub nanos: bool,
}

/// A metric with all its samples.
pub(super) struct Family {
    pub help: String,
    pub kind: Type,
    pub samples: Vec<Sample>,
}

/// Metric families by name.
pub(super) type Families = BTreeMap<String, Family>;

/// Resolves names of the topology to indices in the workspace. Names that it lacks are not served.
pub(super) struct NameResolver<'a> {
    /// The index of a counters region.
    pub region: &'a dyn Fn(&str) -> Option<usize>,
    /// The index of a link.
    pub link: &'a dyn Fn(&str) -> Option<usize>,
}

/// Lists every metric that a node of this topology serves, by name.
pub fn declared(topology: &Topology) -> Vec<Metric> {
    let families = families(topology, &NameResolver { region: &|_| Some(0), link: &|_| Some(0) });
    let metric = |(name, family): (String, Family)| {
        let labels = family.samples.first().map(|sample| sample.labels.iter().map(|(label, _)| *label).collect());
        Metric { name, kind: family.kind, help: family.help, labels: labels.unwrap_or_default() }
    };
    families.into_iter().map(metric).collect()
}

/// Returns how a counter of an area (a kind of tile, a service, `tile`, `link`) is served.
pub fn counter(area: &str, spec: &CounterSpec) -> Metric {
    let base = spec.name.strip_suffix("_ns").map_or_else(|| spec.name.clone(), |base| format!("{base}_seconds"));
    let suffix = if spec.kind == CounterKind::Counter { "_total" } else { "" };
    let name = format!("hearth_{area}_{base}{suffix}");
    Metric { name, kind: spec.kind.into(), help: spec.help.replace(", nanoseconds", ""), labels: vec![] }
}

/// Returns how a latency of a kind of tile is served.
pub fn latency(area: &str, spec: &LatencySpec) -> Metric {
    let name = format!("hearth_{area}_{}_seconds", spec.name);
    Metric { name, kind: Type::Histogram, help: spec.help.clone(), labels: vec![] }
}

/// Lists the counters that every tile has; its regimes are one metric.
pub fn of_every_tile() -> Vec<CounterSpec> {
    const REGIMES: CounterDecl = CounterDecl {
        name: "regime_ns",
        kind: CounterKind::Counter,
        help: "Time in each regime, which sum to all of a tile's time: hkeep (housekeeping), backp (a consumer has no \
               room), wait (nothing to do), ovrnp and ovrnr (lapped by a producer while polling or reading), filt1 and \
               filt2 (filtered by metadata, dropped after reading), finish (useful work), elsewhere (the core ran \
               other tiles).",
    };
    LoopCounters::DECLS[..FIRST_REGIME].iter().chain([&REGIMES]).map(CounterSpec::from).collect()
}

/// Lists the counters of every link: its producer's frags, then [`OF_CONSUMER`] for each consumer.
pub fn of_every_link() -> Vec<CounterSpec> {
    const FRAGS: CounterDecl =
        CounterDecl { name: "frags", kind: CounterKind::Counter, help: "Frags published to the link." };
    std::iter::once(&FRAGS).chain(OF_CONSUMER.iter().map(|(_, decl)| decl)).map(CounterSpec::from).collect()
}

/// Lists the metrics of the process and its disk.
pub fn of_the_process() -> Vec<Metric> {
    Process::ALL.map(Process::metric).into()
}

const fn decl(name: &'static str, kind: CounterKind, help: &'static str) -> CounterDecl {
    CounterDecl { name, kind, help }
}

const OF_CONSUMER: [(OfConsumer, CounterDecl); 5] = [
    (OfConsumer::Waiting, decl("waiting_frags", CounterKind::Gauge, "Frags of the link that wait for the consumer.")),
    (
        OfConsumer::Filtered,
        decl("filtered", CounterKind::Counter, "Frags of the link that the consumer skipped unread."),
    ),
    (OfConsumer::Bytes, decl("bytes", CounterKind::Counter, "Payload bytes of the link that the consumer read.")),
    (
        OfConsumer::Overruns,
        decl("overruns", CounterKind::Counter, "Frags of the link that a lossy consumer lost, since it was lapped."),
    ),
    (OfConsumer::Slow, decl("slow", CounterKind::Counter, "Times that the consumer held the producer of the link up.")),
];

/// Builds all families of a topology.
pub(super) fn families(topology: &Topology, places: &NameResolver<'_>) -> Families {
    let mut families = Families::new();
    for tile in &topology.tiles {
        if let Some(region) = (places.region)(&tile.name()) {
            add_tile(&mut families, tile, region);
        }
    }
    for service in &topology.services {
        let Some(region) = (places.region)(&service.name) else { continue };
        for (word, spec) in service.counters.iter().enumerate() {
            let labels = vec![("service", service.name.clone())];
            add_counter(&mut families, &service.name, spec, labels, Source::Word { region, word });
        }
    }
    for link in &topology.links {
        let Some(at) = (places.link)(&link.name) else { continue };
        let specs = of_every_link();
        let label = ("link", link.name.clone());
        add_counter(&mut families, "link", &specs[0], vec![label.clone()], Source::Published { link: at });
        for (consumer, end) in link.consumers.iter().enumerate() {
            for (spec, (what, _)) in specs[1..].iter().zip(OF_CONSUMER) {
                let labels = vec![label.clone(), ("consumer", end.tile.clone())];
                add_counter(&mut families, "link", spec, labels, Source::Consumer { link: at, consumer, what });
            }
        }
    }
    for process in Process::ALL {
        add(&mut families, process.metric(), process.label_values(), Source::Process(process), false);
    }
    families
}

fn add_tile(families: &mut Families, tile: &TileSpec, region: usize) {
    let name = ("tile", tile.name());
    let labels = vec![name.clone(), ("kind", tile.kind.clone())];
    let specs = of_every_tile();
    let (regimes, words) = specs.split_last().expect("the regimes are the last");
    for (word, spec) in words.iter().enumerate() {
        add_counter(families, "tile", spec, labels.clone(), Source::Word { region, word });
    }
    for (at, regime) in Regime::ALL.iter().enumerate() {
        let labels = labels.iter().cloned().chain([("regime", regime.column().to_owned())]).collect();
        add_counter(families, "tile", regimes, labels, Source::Word { region, word: FIRST_REGIME + at });
    }
    for (at, spec) in tile.counters.iter().enumerate() {
        let source = Source::Word { region, word: LoopCounters::DECLS.len() + at };
        add_counter(families, &tile.kind, spec, vec![name.clone()], source);
    }
    for (at, spec) in tile.latencies.iter().enumerate() {
        let source = Source::Latency { region, word: tile.latency_at(at) };
        add(families, latency(&tile.kind, spec), vec![name.clone()], source, false);
    }
}

type Labels = Vec<(&'static str, String)>;

fn add_counter(families: &mut Families, area: &str, spec: &CounterSpec, labels: Labels, source: Source) {
    add(families, counter(area, spec), labels, source, spec.name.ends_with("_ns"));
}

fn add(families: &mut Families, metric: Metric, labels: Labels, source: Source, nanos: bool) {
    let new = || Family { help: metric.help, kind: metric.kind, samples: vec![] };
    families.entry(metric.name).or_insert_with(new).samples.push(Sample { labels, source, nanos });
}
