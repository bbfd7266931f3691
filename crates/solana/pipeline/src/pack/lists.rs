//! lists: many doubly linked lists over the slots of one pool; a slot is in at most one list.
//!
//! reads   list and slot numbers
//! writes  nothing but its own state
//! memory  8 B per slot, 4 B and a bit per list, allocated in [`Lists::new`]
//! drops   nothing
//! source  doubly linked lists in an array, with a bitmap of the non-empty ones

const NONE: u32 = u32::MAX;

/// Lists, each with its newest slot first.
#[derive(Debug)]
pub struct Lists {
    heads: Vec<u32>,
    /// Previous and next slot, for each slot.
    links: Vec<[u32; 2]>,
    used: Vec<u64>,
}

impl Lists {
    /// Creates `lists` empty lists over `slots` slots.
    pub fn new(lists: usize, slots: usize) -> Self {
        Self { heads: vec![NONE; lists], links: vec![[NONE; 2]; slots], used: vec![0; lists.div_ceil(64)] }
    }

    /// The newest slot of `list`.
    #[inline]
    pub fn newest(&self, list: usize) -> Option<usize> {
        let head = self.heads[list];
        (head != NONE).then_some(head as usize)
    }

    /// The first list that is not empty.
    pub fn first_used(&self) -> Option<usize> {
        let word = self.used.iter().position(|word| *word != 0)?;
        Some(64 * word + self.used[word].trailing_zeros() as usize)
    }

    /// Inserts `slot`, which is in no list, at the head of `list`.
    #[inline]
    pub fn push(&mut self, list: usize, slot: usize) {
        let head = std::mem::replace(&mut self.heads[list], slot as u32);
        self.links[slot] = [NONE, head];
        if head == NONE {
            self.used[list / 64] |= 1 << (list % 64);
        } else {
            self.links[head as usize][0] = slot as u32;
        }
    }

    /// Removes `slot` from `list`, which must contain it.
    #[inline]
    pub fn remove(&mut self, list: usize, slot: usize) {
        let [before, after] = self.links[slot];
        if after != NONE {
            self.links[after as usize][0] = before;
        }
        if before != NONE {
            self.links[before as usize][1] = after;
        } else {
            self.heads[list] = after;
            if after == NONE {
                self.used[list / 64] &= !(1 << (list % 64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn matches_model(ops in prop::collection::vec((0usize..130, 0usize..20), 0..300)) {
            let mut lists = Lists::new(130, 20);
            let mut model = vec![Vec::new(); 130];
            let mut at = [None; 20];
            for (list, slot) in ops {
                if let Some(old) = at[slot].take() {
                    lists.remove(old, slot);
                    model[old].retain(|s| *s != slot);
                } else {
                    lists.push(list, slot);
                    model[list].push(slot);
                    at[slot] = Some(list);
                }
                prop_assert_eq!(lists.first_used(), model.iter().position(|l| !l.is_empty()));
                prop_assert_eq!(lists.newest(list), model[list].last().copied());
            }
        }
    }
}
