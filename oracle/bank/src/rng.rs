//! The generator of random choices: SplitMix64, so that a ledger depends on its seed and on nothing else.

/// A stream of random numbers.
pub struct Rng(u64);

impl Rng {
    /// Starts the stream of `seed` for the part of the program that `label` names.
    pub fn new(seed: u64, label: &str) -> Self {
        let mixed = label.bytes().fold(seed ^ 0x9E37_79B9_7F4A_7C15, |state, byte| {
            (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23)
        });
        Self(mixed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "no number is below 0");
        self.number() % end
    }

    /// Returns a number from `from` up to, and without, `end`.
    pub fn between(&mut self, from: u64, end: u64) -> u64 {
        from + self.below(end - from)
    }

    /// Returns true in `percent` of the cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `items`, which are not empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// Returns an index into `len` items.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.number() as u8).collect()
    }
}
