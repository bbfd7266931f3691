//! An index of blooms for groups of blocks, so that a log query skips most of the chain.
//!
//! memory  264 B for each [`GROUP`] blocks that logged something, 8 B for each that did not
//!
//! A block of hundreds of logs has most of its bloom's bits set, so such blocks are always searched.

use std::ops::RangeInclusive;

use alloy_primitives::Bloom;

/// Number of blocks whose blooms are combined in one group.
pub(super) const GROUP: u64 = 16;

/// The blooms of all blocks.
#[derive(Default)]
pub(super) struct Blooms(Vec<Option<Box<Bloom>>>);

impl Blooms {
    /// Records the bloom of block `number`.
    pub(super) fn add(&mut self, number: u64, bloom: &Bloom) {
        let group = usize::try_from(number / GROUP).expect("fewer blocks than bytes in memory");
        if self.0.len() <= group {
            self.0.resize(group + 1, None);
        }
        if !bloom.is_zero() {
            **self.0[group].get_or_insert_default() |= *bloom;
        }
    }

    /// Removes the blocks after `number`. Their bits stay in a shared group until the group is removed.
    pub(super) fn truncate(&mut self, number: u64) {
        self.0.truncate((number / GROUP + 1) as usize);
    }

    /// Removes the blocks before `number`.
    pub(super) fn forget_before(&mut self, number: u64) {
        let groups = usize::try_from(number / GROUP).unwrap_or(usize::MAX).min(self.0.len());
        self.0[..groups].fill(None);
    }

    /// Returns the first range of blocks from `from` to `to`, within one group, that may match. If none of the next
    /// `groups` groups may match, the error is the block from which to continue.
    pub(super) fn next(
        &self,
        from: u64,
        to: u64,
        groups: u64,
        may: &impl Fn(&Bloom) -> bool,
    ) -> Result<RangeInclusive<u64>, u64> {
        let first = from / GROUP;
        let last = (to / GROUP).min(first.saturating_add(groups));
        for group in first..=last {
            let bloom = self.0.get(group as usize).and_then(Option::as_deref).unwrap_or(&Bloom::ZERO);
            if may(bloom) {
                return Ok(from.max(group * GROUP)..=to.min(group * GROUP + GROUP - 1));
            }
        }
        Err((last + 1) * GROUP)
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::BloomInput;
    use proptest::prelude::*;

    use super::*;

    fn bloom(of: u8) -> Bloom {
        Bloom::from(BloomInput::Raw(&[of]))
    }

    proptest! {
        #[test]
        fn no_matching_block_is_left_out(
            blocks in prop::collection::vec(prop::option::of(0u8..6), 1..400),
            from in 0u64..200, length in 0u64..300, wanted in 0u8..6, groups in 0u64..4, cut in 0u64..400,
        ) {
            let mut blooms = Blooms::default();
            let mut kept = blocks;
            for (number, logged) in kept.iter().enumerate() {
                blooms.add(number as u64, &logged.map_or(Bloom::ZERO, bloom));
            }
            blooms.truncate(cut);
            kept.truncate(cut as usize + 1);
            let (to, may) = (from + length, |some: &Bloom| some.contains(&bloom(wanted)));
            let (mut at, mut found) = (from, Vec::new());
            while at <= to {
                match blooms.next(at, to, groups, &may) {
                    Ok(range) => {
                        prop_assert!(*range.start() >= at && *range.end() <= to);
                        at = range.end() + 1;
                        found.extend(range);
                    }
                    Err(next) => {
                        prop_assert!(next > at);
                        at = next;
                    }
                }
            }
            let meant = (from..=to).filter(|at| kept.get(*at as usize).copied().flatten() == Some(wanted));
            prop_assert!(meant.into_iter().all(|number| found.contains(&number)));
        }
    }

    #[test]
    fn blocks_without_logs_are_no_candidates() {
        let mut blooms = Blooms::default();
        (0..10_000).for_each(|number| blooms.add(number, &Bloom::ZERO));
        blooms.add(5_000, &bloom(1));
        let next = |from| blooms.next(from, 9_999, u64::MAX, &|some: &Bloom| !some.is_zero());
        assert_eq!((next(0), next(5_008)), (Ok(4_992..=5_007), Err(10_000)));
    }
}
