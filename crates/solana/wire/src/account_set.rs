//! A set of account indices of one transaction, as 256 bits.
//!
//! memory  32 bytes, `Copy`
//! source  an index of an account in a transaction is one byte

/// A set of account indices, 0..=255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountSet([u64; 4]);

impl AccountSet {
    /// Whether `index` is in the set; false for any index over 255.
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Adds `index`, which may be in the set already.
    #[inline]
    pub fn insert(&mut self, index: u8) {
        self.0[usize::from(index / 64)] |= 1 << (index % 64);
    }

    /// The number of indices in the set.
    #[inline]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The indices in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let words = self.0;
        (0..256).filter(move |&index| words[index / 64] >> (index % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in() {
        let mut set = AccountSet::default();
        for index in [0, 63, 64, 200, 255] {
            assert!(!set.contains(usize::from(index)));
            set.insert(index);
            set.insert(index);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 200, 255]);
        assert_eq!((set.count(), set.contains(256), set.contains(1)), (5, false, false));
    }
}
