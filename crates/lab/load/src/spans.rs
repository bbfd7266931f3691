//! Spans of time: when the load itself did not run, and when a node owed an answer.
//!
//! memory  32 B for each span, [`SPANS_MAX`] of them at most
//! drops   spans beyond that many: the sums of a longer list are too small

use std::time::{Duration, Instant};

/// An answer that takes a second makes one span, so this many last for hours.
const SPANS_MAX: usize = 10_000;

/// Spans of time, in the order in which they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Vec<(Instant, Instant)>);

impl Spans {
    /// Adds a span, unless it is empty or there are [`SPANS_MAX`] already.
    pub fn push(&mut self, from: Instant, to: Instant) {
        if from < to && self.0.len() < SPANS_MAX {
            self.0.push((from, to));
        }
    }

    /// Returns the parts between `begin` and `end`.
    pub fn within(&self, begin: Instant, end: Instant) -> Self {
        let parts = self.0.iter().map(|&(from, to)| (from.max(begin), to.min(end)));
        Self(parts.filter(|(from, to)| from < to).collect())
    }

    /// Returns the union of all spans, as disjoint spans.
    pub fn union<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let mut spans: Vec<_> = all.flat_map(|one| one.0.iter().copied()).collect();
        spans.sort_unstable();
        spans.dedup_by(|next, before| {
            let meet = next.0 <= before.1;
            if meet {
                before.1 = before.1.max(next.1);
            }
            meet
        });
        Self(spans)
    }

    /// Returns the sum of their lengths.
    pub fn time(&self) -> Duration {
        self.0.iter().map(|&(from, to)| to.duration_since(from)).sum()
    }

    /// Returns how much of the time from `from` to `to` they cover.
    pub fn overlap(&self, from: Instant, to: Instant) -> Duration {
        self.0.iter().map(|span| span.1.min(to).saturating_duration_since(span.0.max(from))).sum()
    }

    /// Returns how much of these spans the others cover.
    pub fn overlap_with(&self, others: &Self) -> Duration {
        self.0.iter().map(|&(from, to)| others.overlap(from, to)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_spans_count_once() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let ms = Duration::from_millis;
        let spans = |all: &[(u64, u64)]| {
            let mut spans = Spans::default();
            all.iter().for_each(|&(from, to)| spans.push(at(from), at(to)));
            spans
        };
        let one = spans(&[(0, 100), (300, 400)]);
        let other = spans(&[(50, 150), (320, 330), (500, 500)]);
        let both = Spans::union([&one, &other].into_iter());
        assert_eq!(both, spans(&[(0, 150), (300, 400)]));
        assert_eq!(both.time(), ms(250));
        assert_eq!(both.within(at(100), at(310)), spans(&[(100, 150), (300, 310)]));
        assert_eq!(one.overlap(at(90), at(310)), ms(20));
        assert_eq!(one.overlap_with(&other), ms(60));
        let mut full = Spans::default();
        (0..2 * SPANS_MAX as u64).for_each(|nth| full.push(at(2 * nth), at(2 * nth + 1)));
        assert_eq!(full.time(), ms(SPANS_MAX as u64));
    }
}
