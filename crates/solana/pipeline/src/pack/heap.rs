//! heap: transactions ordered by pay, in a 4-ary heap that tracks each transaction's position, so that any of them can
//! be removed.
//!
//! reads   reward, cost and arrival order of a transaction
//! writes  `places`: the heap position of each pool slot
//! memory  24 B per transaction; a trimmed heap has at most four times what it needs
//! drops   nothing
//! source  reward ÷ cost is compared by cross-multiplication, so rounding never decides; ties go to the earlier arrival

/// Children per node: four entries of 24 B span one or two cache lines.
const ARITY: usize = 4;
/// A heap with capacity for fewer entries is not trimmed.
const SHRINK_FROM: usize = 64;

/// The rank of a pending transaction: the higher its reward per cost, the sooner it is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Lamports paid to the leader.
    pub reward: u64,
    /// Arrival order, unique per transaction.
    pub seq: u64,
    /// Compute units; at least 1.
    pub cost: u32,
    /// Its slot in the pool.
    pub slot: u32,
}

const _: () = assert!(size_of::<Entry>() == 24);

impl Entry {
    /// Whether this transaction is scheduled before `other`.
    #[inline]
    pub fn before(&self, other: &Self) -> bool {
        if self.reward == other.reward && self.cost == other.cost {
            return self.seq < other.seq;
        }
        let ours = u128::from(self.reward) * u128::from(other.cost);
        let theirs = u128::from(other.reward) * u128::from(self.cost);
        ours > theirs || (ours == theirs && self.seq < other.seq)
    }
}

/// A heap with the next transaction to schedule at its root.
#[derive(Debug, Default)]
pub struct Heap {
    entries: Vec<Entry>,
}

impl Heap {
    /// A heap with memory for `capacity` entries.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity) }
    }

    /// How many transactions it holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The next transaction to schedule.
    #[inline]
    pub fn top(&self) -> Option<&Entry> {
        self.entries.first()
    }

    /// Adds a transaction's rank, and writes the heap positions that change to `places`.
    #[inline]
    pub fn push(&mut self, entry: Entry, places: &mut [u32]) {
        self.entries.push(entry);
        self.sift_up(self.entries.len() - 1, entry, places);
    }

    /// Removes the next transaction to schedule.
    #[inline]
    pub fn pop(&mut self, places: &mut [u32]) -> Option<Entry> {
        let top = *self.entries.first()?;
        self.remove(0, places);
        Some(top)
    }

    /// Removes the transaction at `place`.
    pub fn remove(&mut self, place: usize, places: &mut [u32]) {
        let last = self.entries.pop().expect("the place is in the heap");
        if place < self.entries.len() {
            let hole = self.sink_hole(place, places);
            self.sift_up(hole, last, places);
        }
    }

    /// Shrinks the allocation if it is much larger than the entries need.
    #[inline]
    pub fn trim(&mut self) {
        let capacity = self.entries.capacity();
        if capacity > SHRINK_FROM && self.entries.len() < capacity / 4 {
            self.give_back(capacity / 2);
        }
    }

    #[cold]
    fn give_back(&mut self, capacity: usize) {
        self.entries.shrink_to(capacity);
    }

    /// Moves the hole at `place` down to a leaf, promoting the best child each time. The entry that fills it comes from
    /// the bottom and usually belongs there, so comparing it on the way would be wasted.
    fn sink_hole(&mut self, mut place: usize, places: &mut [u32]) -> usize {
        loop {
            let first = ARITY * place + 1;
            let Some(children) = self.entries.get(first..) else { return place };
            let mut children = children.iter().take(ARITY).enumerate();
            let Some((_, mut best)) = children.next() else { return place };
            let mut child = first;
            for (offset, entry) in children {
                if entry.before(best) {
                    (child, best) = (first + offset, entry);
                }
            }
            let best = *best;
            self.put(place, best, places);
            place = child;
        }
    }

    #[inline]
    fn sift_up(&mut self, mut place: usize, entry: Entry, places: &mut [u32]) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            let above = self.entries[parent];
            if !entry.before(&above) {
                break;
            }
            self.put(place, above, places);
            place = parent;
        }
        self.put(place, entry, places);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: Entry, places: &mut [u32]) {
        self.entries[place] = entry;
        places[entry.slot as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a sorted list: pushes, pops and removals from the middle.
        #[test]
        fn matches_model(ops in prop::collection::vec((0u8..4, 0u64..6, 1u32..6, 0usize..64), 0..300)) {
            let mut heap = Heap::with_capacity(4);
            let mut places = vec![u32::MAX; 300];
            let mut model: Vec<Entry> = vec![];
            for (seq, (op, reward, cost, pick)) in ops.into_iter().enumerate() {
                if op < 2 {
                    let entry = Entry { reward, cost, seq: seq as u64, slot: seq as u32 };
                    heap.push(entry, &mut places);
                    let at = model.partition_point(|e| e.before(&entry));
                    model.insert(at, entry);
                } else if op == 2 {
                    let expected = (!model.is_empty()).then(|| model.remove(0));
                    prop_assert_eq!(heap.pop(&mut places), expected);
                } else if !model.is_empty() {
                    let gone = model.remove(pick % model.len());
                    heap.remove(places[gone.slot as usize] as usize, &mut places);
                }
                prop_assert_eq!(heap.top(), model.first());
                prop_assert_eq!(heap.len(), model.len());
            }
        }
    }

    #[test]
    fn no_rounding_decides() {
        let entry = |reward, cost, seq| Entry { reward, cost, seq, slot: 0 };
        let (big, bigger) = (entry(u64::MAX - 1, u32::MAX, 0), entry(u64::MAX, u32::MAX, 1));
        assert!(bigger.before(&big) && !big.before(&bigger));
        let (third, also_third) = (entry(1, 3, 0), entry(2, 6, 1));
        assert!(third.before(&also_third) && !also_third.before(&third));
    }

    #[test]
    fn a_trimmed_heap_gives_memory_back() {
        let mut heap = Heap::default();
        let mut places = vec![0; 10_000];
        for slot in 0..10_000 {
            heap.push(Entry { reward: 1, cost: 1, seq: slot, slot: slot as u32 }, &mut places);
        }
        while heap.len() > 10 {
            heap.pop(&mut places);
            heap.trim();
        }
        assert!(heap.entries.capacity() <= 2 * SHRINK_FROM, "{}", heap.entries.capacity());
    }
}
