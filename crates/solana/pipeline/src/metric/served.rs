//! A metric as it is served: its name, type, help and labels.
//!
//! memory  about 200 B a metric, while a template or the reference is made
//! drops   nothing

use hearth_tile::CounterKind;

/// A metric's type, as Prometheus knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Only grows while the node runs.
    Counter,
    /// Moves both ways.
    Gauge,
    /// Buckets, a sum and a count.
    Histogram,
}

impl Type {
    /// The word of the text format.
    pub fn name(self) -> &'static str {
        match self {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        }
    }
}

impl From<CounterKind> for Type {
    fn from(kind: CounterKind) -> Self {
        match kind {
            CounterKind::Counter => Type::Counter,
            CounterKind::Gauge => Type::Gauge,
        }
    }
}

/// One metric as it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// With its prefix and unit.
    pub name: String,
    /// Counter, gauge or histogram.
    pub kind: Type,
    /// One sentence.
    pub help: String,
    /// The labels' names; a histogram has `le` besides.
    pub labels: Vec<&'static str>,
}
