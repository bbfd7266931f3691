//! The blocks of a run, one per line. Neighbours are merged into one line when there are too many, however fast the
//! chain is.
//!
//! reads   blocks, in the order in which they are read
//! writes  lines; see [`Block::count`]
//! memory  [`LINES_MAX`] lines, 112 B each
//! drops   nothing: sums over a run and over its measured time, and the mean block time, cover all blocks; only the
//!         times of single blocks within a merged line are lost

use std::time::Instant;

/// Above this many lines, neighbours are merged.
pub const LINES_MAX: usize = 20_000;
/// One in this many lines, the newest, is never merged: a run may be ending among them.
const NEWEST_SHARE: usize = 20;

/// A block as read, or several consecutive ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Number of the first block; on Solana its slot.
    pub first: u64,
    /// Number of the last block.
    pub number: u64,
    /// Number of blocks, from the first to the last.
    pub count: u64,
    /// When the first block could be read.
    pub first_seen: Instant,
    /// When the last block could be read.
    pub seen: Instant,
    /// Timestamp of the last block, in seconds since 1970.
    pub timestamp: u64,
    /// Transactions in these blocks.
    pub transactions: u64,
    /// Transactions of the load among them.
    pub ours: u64,
    /// Gas that the transactions used, summed over the blocks.
    pub gas_used: u64,
    /// Gas limit, summed over the blocks.
    pub gas_limit: u64,
    /// Blocks in which gas cost more than the load paid at the beginning.
    pub too_dear: u64,
    /// The load's transactions that were accepted but not yet in a block, after the last of these blocks.
    pub under_way: usize,
}

impl Block {
    /// An empty block that became readable at `seen`.
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

    /// Merges the next blocks into this line.
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

    /// Returns whether an edge of the measured time falls between this line and the next.
    fn is_parted(&self, next: &Self, edge: Instant) -> bool {
        self.seen <= edge && next.seen >= edge
    }
}

/// When measuring began and ended, as far as known.
pub type Edges = [Option<Instant>; 2];

/// All blocks of a run.
#[derive(Debug)]
pub struct Blocks {
    lines: Vec<Block>,
    lines_max: usize,
    /// The most blocks that a merged line may cover.
    each: u64,
}

impl Default for Blocks {
    fn default() -> Self {
        Self::bounded(LINES_MAX)
    }
}

impl Blocks {
    /// An empty list of at most this many lines.
    fn bounded(lines_max: usize) -> Self {
        assert!(lines_max >= NEWEST_SHARE, "some lines are the newest");
        Self { lines: vec![], lines_max, each: 1 }
    }

    /// Appends a block that follows all others.
    pub fn push(&mut self, block: Block, edges: &Edges) {
        if self.lines.len() >= self.lines_max {
            self.merge(edges);
        }
        self.lines.push(block);
    }

    /// Returns the lines in order.
    pub fn lines(&self) -> &[Block] {
        &self.lines
    }

    /// Merges neighbours until a quarter of the lines is free.
    fn merge(&mut self, edges: &Edges) {
        self.merge_once(edges);
        while self.lines.len() > self.lines_max / 4 * 3 {
            self.each = self.each.saturating_mul(2);
            self.merge_once(edges);
        }
    }

    /// Merging must not change any sum in the report. The first block stays alone, because the start of its interval is
    /// unknown. No line mixes blocks inside and outside the measured time, and a block that an edge cuts stays alone,
    /// because only a part of it counts. A run that has sent everything ends with the last block that holds some of it,
    /// so the blocks after that one stay separate too.
    fn merge_once(&mut self, edges: &Edges) {
        let newest = self.lines.len() - self.lines_max / NEWEST_SHARE;
        let last_ours = self.lines.iter().rposition(|line| line.ours > 0);
        // Whether an edge falls between a line and the one before it.
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

    /// Blocks of a run: µs since the block before, and the load's transactions in it.
    pub fn runs() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let block = (1u64..50_000, prop_oneof![Just(0u64), 0u64..300]);
        prop::collection::vec(block, 1..3_000)
    }

    /// The same blocks in an unbounded list and in a short one, with the measured time. It begins at one share of the
    /// run, and ends at another or with the last block that holds transactions of the load.
    pub fn both(run: &[(u64, u64)], shares: (f64, f64), sent_all: bool) -> (Blocks, Blocks, Instant, Instant) {
        let zero = Instant::now();
        let all: Duration = run.iter().map(|(us, _)| Duration::from_micros(*us)).sum();
        let (begin, decided) = (zero + all.mul_f64(shares.0), zero + all.mul_f64(shares.0.max(shares.1)));
        let (mut whole, mut few) = (Blocks::bounded(usize::MAX), Blocks::bounded(40));
        let (mut seen, mut end, mut last_ours) = (zero, None, None);
        for (number, (us, ours)) in (7..).zip(run) {
            seen += Duration::from_micros(*us);
            if seen > decided && end.is_none() {
                end = Some(last_ours.filter(|at| sent_all && *at >= begin).unwrap_or(decided));
            }
            // A load that has sent everything sends nothing more.
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
        (whole, few, begin.min(end.unwrap_or(decided)), end.unwrap_or(decided))
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
