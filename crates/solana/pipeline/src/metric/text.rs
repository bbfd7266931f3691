//! Counters and links as Prometheus text.
//!
//! reads   the topology once (families.rs: names, types, help); the workspace and the process (values) line by line
//! writes  the text, a piece at a time
//! memory  [`Template`]: about 150 B a line, taken at the start; a [`Page`]: about as much while it is written
//! drops   values that the system does not report: a missing sample is clearer than 0
//! source  the Prometheus text exposition format, version 0.0.4

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use hearth_ring::Observer;
use hearth_tile::latency::Histogram;
use hearth_tile::topology::Topology;

use super::families::{Family, OfConsumer, Places, Sample, Source, families};
use super::process::Disk;

/// Lines that [`Template::write`] adds at a time, if the last family does not go beyond: some 20 µs.
const PIECE: usize = 64;
/// Bounds of the buckets that are served, as powers of two, microseconds: 32 µs to 16.8 s.
const BOUNDS_US: std::ops::RangeInclusive<u32> = 5..=24;
/// Lines of a histogram: its buckets, the one without a bound, the sum, the count.
const HISTOGRAM_LINES: usize = (*BOUNDS_US.end() - *BOUNDS_US.start() + 1) as usize + 3;

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
    disk: Disk,
}

/// A text in the making.
#[derive(Default)]
pub struct Page {
    /// What is written so far.
    pub text: String,
    next: usize,
}

impl Template {
    /// The template of a node whose ledger is in a folder. Fails when no thread can be started to look at its disk.
    pub fn new(topology: &Topology, observer: &Observer, ledger: PathBuf) -> std::io::Result<Self> {
        let disk = Disk::new(ledger)?;
        let links: Vec<String> = observer.links().into_iter().map(|link| link.name).collect();
        let region = |name: &str| observer.counter_names().position(|region| region == name);
        let link = |name: &str| links.iter().position(|link| link == name);
        let families = families(topology, &Places { region: &region, link: &link });
        Ok(Self { lines: families.iter().flat_map(|(name, family)| lines(name, family)).collect(), disk })
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
                Source::Process(process) => {
                    match process.read(observer.started_unix_ns(), &self.disk) {
                        Some(value) => line.write_value(&mut page.text, value),
                        // No sample says better than 0 that the system does not tell.
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

impl Line {
    /// A line whose value was read at this moment.
    fn write_value(&self, text: &mut String, value: f64) -> std::fmt::Result {
        let Self { name, labels, .. } = self;
        if labels.is_empty() { writeln!(text, "{name} {value}") } else { writeln!(text, "{name}{{{labels}}} {value}") }
    }

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

/// The value; 0 where the workspace has none, which a topology of the same node rules out.
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

/// The lines of a family; its head stands before the first.
fn lines(name: &str, family: &Family) -> Vec<Line> {
    let mut head = format!("# HELP {name} {}\n# TYPE {name} {}\n", family.help, family.kind.name());
    let mut line = |sample: &Sample| {
        let (head, source, nanos) = (std::mem::take(&mut head), sample.source, sample.nanos);
        let labels: Vec<String> = sample.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let labels = labels.join(",");
        match source {
            Source::Latency { .. } | Source::Process(_) => {
                Line { before: head, name: name.into(), labels, source, nanos }
            }
            _ => {
                let before = format!("{head}{name}{{{labels}}}");
                Line { before, name: String::new(), labels: String::new(), source, nanos }
            }
        }
    };
    family.samples.iter().map(&mut line).collect()
}
