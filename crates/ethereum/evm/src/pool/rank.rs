//! An order by effective tip that stays correct when the base fee changes, without sorting again.
//!
//! reads   the fees of entries, and the base fee
//! writes  the entries from best to worst or from worst to best
//! memory  two ordered sets' nodes and 48 B an entry
//!
//! A transaction pays min(tip, cap − base fee) per gas. While the base fee is at most `cap − tip`, that is the tip;
//! above, it is the cap less the base fee. So entries are of two classes, and within each the order does not depend on
//! the base fee. When it moves, those whose `cap − tip` it passes change their class: each set is also ordered by that.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::iter::Peekable;

/// The fees of a transaction, in wei per gas; `tip` ≤ `cap`. Both are capped at 2^127 − 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fees {
    /// The most for base fee and tip together.
    pub cap: u128,
    /// The most for the tip.
    pub tip: u128,
}

impl Fees {
    /// Higher than any fee: the minimum of no transactions.
    pub const MAX: Self = Self { cap: i128::MAX as u128, tip: i128::MAX as u128 };

    /// Creates the fees, capped.
    pub fn new(cap: u128, tip: u128) -> Self {
        Self { cap: cap.min(Self::MAX.cap), tip: tip.min(Self::MAX.tip) }
    }

    /// Returns what it pays beyond the base fee, in wei per gas; negative if it does not even pay that.
    pub fn value(self, base_fee: u64) -> i128 {
        (self.tip as i128).min(self.cap as i128 - i128::from(base_fee))
    }

    /// The lesser of both caps. Its value at any base fee is the lesser of both values.
    pub fn least(self, other: Self) -> Self {
        Self { cap: self.cap.min(other.cap), tip: self.tip.min(other.tip) }
    }

    /// The base fee up to which the tip is paid in full.
    fn pivot(self) -> u128 {
        self.cap - self.tip
    }

    /// Whether these fees may take the place of `old`: both caps above, and by `bump` percent.
    pub fn replaces(self, old: Self, bump: u64) -> bool {
        let enough = |new: u128, old: u128| {
            new > old && new >= old.checked_mul(100 + u128::from(bump)).map_or(u128::MAX, |raised| raised / 100)
        };
        enough(self.cap, old.cap) && enough(self.tip, old.tip)
    }
}

/// An entry's position: by what it pays, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankPosition {
    /// In wei per gas, beyond the base fee.
    pub value: i128,
    /// The complement of the arrival: greater came earlier.
    pub earlier: u64,
    /// The id of the entry.
    pub id: u32,
}

type Key = (u128, u64, u32);

/// The order of entries.
#[derive(Debug, Default)]
pub struct RankedEntries {
    base_fee: u64,
    entries: Vec<Option<(Fees, u64)>>,
    /// The entries that pay their tip in full, by it, and by their pivot.
    full: BTreeSet<Key>,
    full_pivots: BTreeSet<(u128, u32)>,
    /// The entries that pay their cap, by it, and by their pivot.
    capped: BTreeSet<Key>,
    capped_pivots: BTreeSet<(u128, u32)>,
}

impl RankedEntries {
    /// Sets what `id` offers and when it came; nothing takes it out.
    pub fn set(&mut self, id: u32, entry: Option<(Fees, u64)>) {
        let index = id as usize;
        if self.entries.len() <= index {
            self.entries.resize(index + 1, None);
        }
        let before = std::mem::replace(&mut self.entries[index], entry);
        if before == entry {
            return;
        }
        if let Some((fees, arrival)) = before {
            self.take_out(id, fees, arrival);
        }
        if let Some((fees, arrival)) = entry {
            self.put_in(id, fees, arrival);
        }
    }

    fn is_full(&self, fees: Fees) -> bool {
        u128::from(self.base_fee) <= fees.pivot()
    }

    fn put_in(&mut self, id: u32, fees: Fees, arrival: u64) {
        if self.is_full(fees) {
            self.full.insert((fees.tip, !arrival, id));
            self.full_pivots.insert((fees.pivot(), id));
        } else {
            self.capped.insert((fees.cap, !arrival, id));
            self.capped_pivots.insert((fees.pivot(), id));
        }
    }

    fn take_out(&mut self, id: u32, fees: Fees, arrival: u64) {
        let was_there = if self.is_full(fees) {
            self.full_pivots.remove(&(fees.pivot(), id)) && self.full.remove(&(fees.tip, !arrival, id))
        } else {
            self.capped_pivots.remove(&(fees.pivot(), id)) && self.capped.remove(&(fees.cap, !arrival, id))
        };
        assert!(was_there, "every entry has its place");
    }

    /// The base fee is another now; costs what changes its class.
    pub fn set_base_fee(&mut self, base_fee: u64) {
        let fee = u128::from(base_fee);
        let moved: Vec<u32> = match base_fee.cmp(&self.base_fee) {
            Ordering::Equal => return,
            Ordering::Greater => self.full_pivots.range(..(fee, 0)).map(|(_, id)| *id).collect(),
            Ordering::Less => self.capped_pivots.range((fee, 0)..).map(|(_, id)| *id).collect(),
        };
        let entry = |this: &Self, id: u32| this.entries[id as usize].expect("an entry that has a place");
        for id in &moved {
            let (fees, arrival) = entry(self, *id);
            self.take_out(*id, fees, arrival);
        }
        self.base_fee = base_fee;
        for id in moved {
            let (fees, arrival) = entry(self, id);
            self.put_in(id, fees, arrival);
        }
    }

    /// From the best to the worst.
    pub fn best(&self) -> impl Iterator<Item = RankPosition> + '_ {
        let base_fee = i128::from(self.base_fee);
        let full = self.full.iter().rev().map(|key| place(key, 0));
        let capped = self.capped.iter().rev().map(move |key| place(key, base_fee));
        MergedOrder { left: full.peekable(), right: capped.peekable(), first: Ordering::Greater }
    }

    /// From the worst to the best; of equal ones the latest first.
    pub fn worst(&self) -> impl Iterator<Item = RankPosition> + '_ {
        let base_fee = i128::from(self.base_fee);
        let full = self.full.iter().map(|key| place(key, 0));
        let capped = self.capped.iter().map(move |key| place(key, base_fee));
        MergedOrder { left: full.peekable(), right: capped.peekable(), first: Ordering::Less }
    }
}

fn place(key: &Key, base_fee: i128) -> RankPosition {
    RankPosition { value: key.0 as i128 - base_fee, earlier: key.1, id: key.2 }
}

/// Two ordered sequences as one.
struct MergedOrder<L: Iterator, R: Iterator> {
    left: Peekable<L>,
    right: Peekable<R>,
    first: Ordering,
}

impl<L: Iterator<Item = RankPosition>, R: Iterator<Item = RankPosition>> Iterator for MergedOrder<L, R> {
    type Item = RankPosition;

    fn next(&mut self) -> Option<RankPosition> {
        match (self.left.peek(), self.right.peek()) {
            (Some(left), Some(right)) if left.cmp(right) == self.first => self.left.next(),
            (Some(_), None) => self.left.next(),
            _ => self.right.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_sorting(
            steps in prop::collection::vec((0u32..12, prop::option::of((0u128..30, 0u128..30)), 0u64..30), 1..80),
        ) {
            let mut ranked = RankedEntries::default();
            let mut model = std::collections::BTreeMap::new();
            for (arrival, (id, fees, base_fee)) in steps.into_iter().enumerate() {
                let entry = fees.map(|(tip, more)| (Fees::new(tip + more, tip), arrival as u64));
                ranked.set(id, entry);
                match entry {
                    Some(entry) => model.insert(id, entry),
                    None => model.remove(&id),
                };
                ranked.set_base_fee(base_fee);
                let mut sorted: Vec<RankPosition> = model
                    .iter()
                    .map(|(id, (fees, arrival))| {
                        let (value, earlier) = (fees.value(base_fee), !arrival);
                        RankPosition { value, earlier, id: *id }
                    })
                    .collect();
                sorted.sort();
                prop_assert_eq!(ranked.worst().collect::<Vec<_>>(), sorted.clone());
                sorted.reverse();
                prop_assert_eq!(ranked.best().collect::<Vec<_>>(), sorted);
            }
        }
    }

    #[test]
    fn a_bump_is_as_geth_counts_it() {
        let old = Fees::new(100, 15);
        assert!(Fees::new(110, 16).replaces(old, 10), "15 × 1.1 is 16.5, cut to 16");
        assert!(!Fees::new(110, 15).replaces(old, 10));
        assert!(!Fees::new(109, 17).replaces(old, 10));
        assert!(!Fees::new(0, 0).replaces(Fees::new(0, 0), 10), "both must rise");
        assert!(Fees::new(1, 1).replaces(Fees::new(0, 0), 10));
        assert!(!Fees::MAX.replaces(Fees::MAX, 10));
    }
}
