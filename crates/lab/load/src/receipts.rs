//! Results of the load's transactions by their receipts, on any chain.
//!
//! memory  two counts per line of blocks

use std::collections::BTreeMap;

use crate::blocks::Block;

/// Counts of the load's receipts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipts {
    /// Receipts that were read.
    pub seen: u64,
    /// Failed transactions among them.
    pub failed: u64,
    /// By the number of a line's first block: receipts read, and failed transactions among them.
    pub of_lines: BTreeMap<u64, (u64, u64)>,
}

impl Receipts {
    /// Reads receipts until `is_over`. `ask` returns how many of the load's transactions a block has and how many of
    /// them failed, if the node answers. Blocks are visited in scattered order, one per line before any line gets a
    /// second, so that a partial result is a fair sample.
    pub fn gather(lines: &[Block], is_over: &dyn Fn() -> bool, mut ask: impl FnMut(u64) -> Option<(u64, u64)>) -> Self {
        let scattered = |line: &Block| line.first.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
        let mut open: Vec<_> = lines.iter().filter(|line| line.ours > 0).collect();
        open.sort_by_key(|line| scattered(line));
        let mut sum = Self::default();
        for turn in 0.. {
            if open.is_empty() {
                break;
            }
            let mut left = vec![];
            for line in open {
                if is_over() {
                    return sum;
                }
                let span = line.number - line.first + 1;
                let number = line.first + (scattered(line) % span + turn) % span;
                if let Some((seen, failed)) = ask(number) {
                    sum.seen += seen;
                    sum.failed += failed;
                    let of_line = sum.of_lines.entry(line.first).or_default();
                    *of_line = (of_line.0 + seen, of_line.1 + failed);
                }
                let is_seen = sum.of_lines.get(&line.first).is_some_and(|(seen, _)| *seen >= line.ours);
                left.extend((turn + 1 < span && !is_seen).then_some(line));
            }
            open = left;
        }
        sum
    }

    /// Returns how many transactions of the load's accounts the run did not send.
    pub fn foreign(&self, lines: &[Block]) -> u64 {
        let seen = |line: &Block| self.of_lines.get(&line.first).map_or(0, |(seen, _)| *seen);
        lines.iter().map(|line| seen(line).saturating_sub(line.ours)).sum()
    }

    /// Returns how many of a line's transactions failed; none if not all of its receipts were read.
    pub fn failed_in(&self, line: &Block) -> Option<u64> {
        if line.ours == 0 {
            return Some(0);
        }
        let (seen, failed) = self.of_lines.get(&line.first)?;
        (line.count == 1 || *seen >= line.ours).then_some(*failed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Lines of these many blocks each, with two of the load's transactions in every block.
    fn lines(counts: &[u64]) -> Vec<Block> {
        let now = Instant::now();
        let mut first = 10;
        let line = |count: &u64| {
            let line = Block { count: *count, number: first + count - 1, ours: 2 * count, ..Block::one(first, now) };
            first += count;
            line
        };
        counts.iter().map(line).collect()
    }

    #[test]
    fn every_block_of_every_line_is_asked_about_once() {
        let lines = lines(&[1, 4, 1, 7, 32]);
        let mut asked = vec![];
        let receipts = Receipts::gather(&lines, &|| false, |number| {
            asked.push(number);
            Some((2, u64::from(number % 3 == 0)))
        });
        assert_eq!(receipts.seen, 90);
        assert_eq!(receipts.failed, asked.iter().filter(|number| *number % 3 == 0).count() as u64);
        assert_eq!(lines.iter().filter_map(|line| receipts.failed_in(line)).sum::<u64>(), receipts.failed);
        asked[..5].sort_unstable();
        let of_line =
            |line: &Block| asked[..5].iter().filter(|number| (line.first..=line.number).contains(number)).count();
        assert!(lines.iter().all(|line| of_line(line) == 1), "each line has its turn: {asked:?}");
        asked.sort_unstable();
        assert_eq!(asked, (10..55).collect::<Vec<_>>());
    }

    #[test]
    fn a_line_that_was_not_looked_at_whole_tells_nothing() {
        let lines = lines(&[1, 4]);
        let asked = std::cell::Cell::new(0);
        let receipts = Receipts::gather(&lines, &|| asked.get() == 3, |_| {
            asked.set(asked.get() + 1);
            Some((2, 1))
        });
        assert_eq!((receipts.seen, receipts.failed), (6, 3));
        assert_eq!((receipts.failed_in(&lines[0]), receipts.failed_in(&lines[1])), (Some(1), None));
        // Blocks without the load's transactions, like Solana's empty slots, are skipped.
        let ours_in_one = [Block { ours: 2, ..lines[1].clone() }];
        let receipts = Receipts::gather(&ours_in_one, &|| false, |number| (number == 12).then_some((2, 1)));
        assert_eq!(receipts.failed_in(&ours_in_one[0]), Some(1));
        assert_eq!(receipts.foreign(&ours_in_one), 0);
        // Someone else sends with the same keys.
        let receipts = Receipts::gather(&ours_in_one, &|| false, |number| (number == 12).then_some((7, 1)));
        assert_eq!(receipts.foreign(&ours_in_one), 5);
    }
}
