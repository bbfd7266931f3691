//! text: counters and links as Prometheus text.
//!
//! reads   the topology once (families.rs: names, types, help); the workspace and the process (values) line by line
//! writes  the text, a piece at a time
//! memory  [`Template`]: about 150 B per line, allocated at startup; a [`Page`]: about as much while it is written
//! drops   values that the system does not report: a missing sample is clearer than 0
//! source  the Prometheus text exposition format, version 0.0.4

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use hearth_ring::Observer;
use hearth_tile::latency::Histogram;
use hearth_tile::topology::Topology;

use super::families::{Family, NameResolver, OfConsumer, Sample, Source, families};
use super::process::Disk;

/// Minimum lines that [`Template::write`] adds at a time, up to the end of a histogram: about 20 µs.
const PIECE: usize = 64;
/// Exponents of the served bucket bounds, which are powers of two in microseconds: 32 µs to 16.8 s.
const BOUNDS_US: std::ops::RangeInclusive<u32> = 5..=24;
/// Lines of a histogram: its buckets, the one without a bound, the sum, the count.
const HISTOGRAM_LINES: usize = (*BOUNDS_US.end() - *BOUNDS_US.start() + 1) as usize + 3;

/// A line: the text before the value, and the value's source. For a histogram, all of its lines.
struct MetricLine {
    before: String,
    name: String,
    labels: String,
    source: Source,
    nanos: bool,
}

/// A node's text without the values: nothing else changes while it runs.
pub struct Template {
    lines: Vec<MetricLine>,
    disk: Disk,
}

/// A text being written.
#[derive(Default)]
pub struct Page {
    /// The text so far.
    pub text: String,
    next: usize,
}

impl Template {
    /// Builds the template for a node with this ledger folder. Fails if no thread can be started to query its disk.
    pub fn new(topology: &Topology, observer: &Observer, ledger: PathBuf) -> std::io::Result<Self> {
        let disk = Disk::new(ledger)?;
        let links: Vec<String> = observer.links().into_iter().map(|link| link.name).collect();
        let region = |name: &str| observer.counter_names().position(|region| region == name);
        let link = |name: &str| links.iter().position(|link| link == name);
        let families = families(topology, &NameResolver { region: &region, link: &link });
        Ok(Self { lines: families.iter().flat_map(|(name, family)| lines(name, family)).collect(), disk })
    }

    /// Adds a piece of the text to a page, with current values; returns true if it was the last.
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
                Source::Process(process) => {
                    match process.read(observer.started_unix_ns(), &self.disk) {
                        Some(value) => line.write_value(&mut page.text, value),
                        // A missing sample says more clearly than 0 that the system does not report the value.
                        None => Ok(()),
                    }
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

impl MetricLine {
    /// Writes a line with its value.
    fn write_value(&self, text: &mut String, value: f64) -> std::fmt::Result {
        let Self { name, labels, .. } = self;
        if labels.is_empty() { writeln!(text, "{name} {value}") } else { writeln!(text, "{name}{{{labels}}} {value}") }
    }

    /// Writes all lines of a histogram from a single read, so that they are consistent.
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

/// Reads the value; 0 if the workspace lacks it, which cannot happen with a topology of the same node.
fn read(observer: &Observer, source: Source) -> u64 {
    let value = match source {
        Source::Word { region, word } => {
            observer.counters_at(region).and_then(|words| words.get(word)).map(|w| w.load(Relaxed))
        }
        Source::Latency { .. } | Source::Process(_) => unreachable!("no single word of the workspace"),
        Source::Published { link } => observer.link_at(link).map(|link| link.producer_seq),
        Source::Consumer { link, consumer, what } => of_consumer(observer, link, consumer, what),
    };
    value.unwrap_or(0)
}

fn of_consumer(observer: &Observer, link: usize, consumer: usize, what: OfConsumer) -> Option<u64> {
    let link = observer.link_at(link)?;
    let it = link.consumers.get(consumer)?;
    Some(match what {
        OfConsumer::Waiting => link.producer_seq.saturating_sub(it.seq),
        OfConsumer::Filtered => it.filtered,
        OfConsumer::Bytes => it.bytes,
        OfConsumer::Overruns => it.overrun_poll + it.overrun_read,
        OfConsumer::Slow => it.slow,
    })
}

/// Builds the lines of a family; its head precedes the first.
fn lines(name: &str, family: &Family) -> Vec<MetricLine> {
    let mut head = format!("# HELP {name} {}\n# TYPE {name} {}\n", family.help, family.kind.name());
    let mut line = |sample: &Sample| {
        let (head, source, nanos) = (std::mem::take(&mut head), sample.source, sample.nanos);
        let labels: Vec<String> = sample.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let labels = labels.join(",");
        match source {
            Source::Latency { .. } | Source::Process(_) => {
                MetricLine { before: head, name: name.into(), labels, source, nanos }
            }
            _ => {
                let before = format!("{head}{name}{{{labels}}}");
                MetricLine { before, name: String::new(), labels: String::new(), source, nanos }
            }
        }
    };
    family.samples.iter().map(&mut line).collect()
}
