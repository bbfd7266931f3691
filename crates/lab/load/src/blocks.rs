//! The blocks of a run, a line each: when there are too many lines, neighbours share one, however fast the chain is.
//!
//! reads   blocks, as they are read
//! writes  lines; see [`Block::count`]
//! memory  [`LINES_MAX`] lines, 112 B each
//! drops   nothing: sums over a run and over its measured time are those of all blocks, and so is the mean time between
//!         two; of what came when within a line nothing is known any more

use std::time::Instant;

/// More lines than these are put together.
pub const LINES_MAX: usize = 20_000;
/// Of the newest this share stays as it is: a run may be ending among them.
const NEWEST_SHARE: usize = 20;

/// A block as read, or several that follow each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The number of the first; on Solana its slot.
    pub first: u64,
    /// That of the last.
    pub number: u64,
    /// How many there are.
    pub count: u64,
    /// When the first could be read.
    pub first_seen: Instant,
    /// When the last could be read.
    pub seen: Instant,
    /// The last one's own time, in seconds since 1970.
    pub timestamp: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Of these, the load's.
    pub ours: u64,
    /// Gas they used.
    pub gas_used: u64,
    /// Gas there was.
    pub gas_limit: u64,
    /// Blocks in which a unit of gas cost more than the load paid at the beginning.
    pub too_dear: u64,
    /// The load's transactions that had been taken and were not in a block yet, after the last.
    pub under_way: usize,
}

impl Block {
    /// One that could be read just now, without anything in it.
    pub fn one(number: u64, seen: Instant) -> Self {
        Self {
            first: number,
            number,
            count: 1,
            first_seen: seen,
            seen,
            timestamp: 0,
            transactions: 0,
            ours: 0,
            gas_used: 0,
            gas_limit: 0,
            too_dear: 0,
            under_way: 0,
        }
    }

    /// Takes in those that follow.
    fn join(&mut self, next: &Self) {
        (self.number, self.seen, self.timestamp, self.under_way) =
            (next.number, next.seen, next.timestamp, next.under_way);
        self.count += next.count;
        self.transactions += next.transactions;
        self.ours += next.ours;
        self.gas_used = self.gas_used.saturating_add(next.gas_used);
        self.gas_limit = self.gas_limit.saturating_add(next.gas_limit);
        self.too_dear += next.too_dear;
    }

    /// Whether the measured time begins or ends between this one and the next.
    fn is_parted(&self, next: &Self, edge: Instant) -> bool {
        self.seen <= edge && next.seen >= edge
    }
}

/// When measuring began and ended, as far as that is known.
pub type Edges = [Option<Instant>; 2];

/// All of a run.
#[derive(Debug)]
pub struct Blocks {
    lines: Vec<Block>,
    lines_max: usize,
    /// A line has this many blocks at most.
    each: u64,
}

impl Default for Blocks {
    fn default() -> Self {
        Self::bounded(LINES_MAX)
    }
}

impl Blocks {
    /// With this many lines at most.
    fn bounded(lines_max: usize) -> Self {
        assert!(lines_max >= NEWEST_SHARE, "some lines are the newest");
        Self { lines: vec![], lines_max, each: 1 }
    }

    /// Adds one that follows all others.
    pub fn push(&mut self, block: Block, edges: &Edges) {
        if self.lines.len() >= self.lines_max {
            self.merge(edges);
        }
        self.lines.push(block);
    }

    /// The lines, in order.
    pub fn lines(&self) -> &[Block] {
        &self.lines
    }

    /// Puts neighbours together until a good part of the lines is free again.
    fn merge(&mut self, edges: &Edges) {
        self.merge_once(edges);
        while self.lines.len() > self.lines_max / 4 * 3 {
            self.each = self.each.saturating_mul(2);
            self.merge_once(edges);
        }
    }

    /// Whatever a report adds up stays what it was: the first block stands alone, as nobody knows since when what it
    /// has had been on its way; no line has blocks of the measured time and others, and a block that the edge of the
    /// measured time cuts stands alone, as only a part of it counts. A run that has sent all ends with
    /// the last block that has some of it, so that what follows that one is apart too.
    fn merge_once(&mut self, edges: &Edges) {
        let newest = self.lines.len() - self.lines_max / NEWEST_SHARE;
        let last_ours = self.lines.iter().rposition(|line| line.ours > 0);
        // Whether an edge is in the time between a line and the one before it.
        let cut: Vec<bool> = std::iter::once(false)
            .chain(
                self.lines.windows(2).map(|pair| edges.iter().flatten().any(|edge| pair[0].is_parted(&pair[1], *edge))),
            )
            .collect();
        let (each, mut index) = (self.each, 0);
        self.lines.dedup_by(|line, before| {
            index += 1;
            let stays = index == 1
                || index >= newest
                || last_ours == Some(index - 1)
                || before.count + line.count > each
                || cut[index]
                || cut[index - 1];
            if !stays {
                before.join(line);
            }
            !stays
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// Blocks of a run: the µs since the one before, and what of the load is in it.
    pub fn runs() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let block = (1u64..50_000, prop_oneof![Just(0u64), 0u64..300]);
        prop::collection::vec(block, 1..3_000)
    }

    /// These blocks, on lines without a bound and on a few, with the measured time: it begins at this share of the run,
    /// and ends at another, or with the last block that has some of the load.
    pub fn both(run: &[(u64, u64)], shares: (f64, f64), sent_all: bool) -> (Blocks, Blocks, Instant, Instant) {
        let zero = Instant::now();
        let all: Duration = run.iter().map(|(us, _)| Duration::from_micros(*us)).sum();
        let (begin, told) = (zero + all.mul_f64(shares.0), zero + all.mul_f64(shares.0.max(shares.1)));
        let (mut whole, mut few) = (Blocks::bounded(usize::MAX), Blocks::bounded(40));
        let (mut seen, mut end, mut last_ours) = (zero, None, None);
        for (number, (us, ours)) in (7..).zip(run) {
            seen += Duration::from_micros(*us);
            if seen > told && end.is_none() {
                end = Some(last_ours.filter(|at| sent_all && *at >= begin).unwrap_or(told));
            }
            // Who has sent all sends nothing more.
            let ours = if end.is_some() && sent_all { 0 } else { *ours };
            last_ours = if ours > 0 { Some(seen) } else { last_ours };
            let block = Block {
                timestamp: number / 3,
                transactions: ours + number % 5,
                ours,
                gas_used: 21_000 * ours,
                gas_limit: 1 << 30,
                too_dear: number % 2,
                under_way: number as usize,
                ..Block::one(number, seen)
            };
            whole.push(block.clone(), &[None, None]);
            few.push(block, &[Some(begin).filter(|begin| *begin <= seen), end]);
        }
        (whole, few, begin.min(end.unwrap_or(told)), end.unwrap_or(told))
    }

    proptest! {
        #[test]
        fn sums_stay_what_they_were(
            run in runs(), begin in 0.0..1.0f64, end in 0.0..1.0f64, sent_all: bool,
        ) {
            let (whole, few, begin, end) = both(&run, (begin, end), sent_all);
            prop_assert!(few.lines().len() <= 40 && whole.lines().len() == run.len());
            let sums = |blocks: &Blocks| {
                let is_inside = |line: &&Block| line.seen >= begin && line.seen <= end;
                let of = |lines: Vec<&Block>| {
                    let sum = |of: fn(&Block) -> u64| lines.iter().map(|line| of(line)).sum::<u64>();
                    (
                        [sum(|line| line.count), sum(|line| line.transactions), sum(|line| line.ours)],
                        [sum(|line| line.gas_used), sum(|line| line.gas_limit), sum(|line| line.too_dear)],
                        lines.first().map(|line| (line.first, line.first_seen)),
                        lines.last().map(|line| (line.number, line.seen, line.timestamp, line.under_way)),
                    )
                };
                let lines = blocks.lines();
                (of(lines.iter().collect()), of(lines.iter().filter(is_inside).collect()), lines[0].clone())
            };
            prop_assert_eq!(sums(&few), sums(&whole));
            let follow = |pair: &[Block]| pair[0].number + 1 == pair[1].first && pair[0].seen <= pair[1].first_seen;
            prop_assert!(few.lines().windows(2).all(follow), "{:?}", few.lines());
        }
    }

    #[test]
    fn lines_are_as_fine_as_their_bound_allows() {
        let zero = Instant::now();
        let mut blocks = Blocks::default();
        for number in 0..1_000_000 {
            let seen = zero + Duration::from_millis(2 * number);
            blocks.push(Block { ours: 1, ..Block::one(number, seen) }, &[None, None]);
            assert!(blocks.lines().len() <= LINES_MAX);
        }
        assert!(blocks.lines().len() >= LINES_MAX / 4, "{}", blocks.lines().len());
        assert!(blocks.lines().iter().all(|line| line.count <= 128), "{}", blocks.each);
        assert_eq!(size_of::<Block>(), 112);
    }
}
