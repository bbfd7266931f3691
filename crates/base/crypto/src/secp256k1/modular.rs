//! Numbers modulo the prime p of the field and the order n of the group, in 64-bit registers.
//!
//! reads   four little-endian words, below the modulus unless said otherwise
//! writes  the same
//! source  SEC 2 §2.4.1 for the moduli; a product is folded at 2^256, since both moduli lie close below it

/// A modulus m close below 2^256.
pub(super) struct Modulus {
    /// The modulus m itself, little-endian words.
    value: [u64; 4],
    /// 2^256 − m, below 2^130.
    rest: [u64; 3],
}

/// p = 2^256 − 2^32 − 977.
pub(super) const PRIME: Modulus =
    Modulus { value: [0xffff_fffe_ffff_fc2f, u64::MAX, u64::MAX, u64::MAX], rest: [0x1_0000_03d1, 0, 0] };

/// n, the number of points.
pub(super) const ORDER: Modulus = Modulus {
    value: [0xbfd2_5e8c_d036_4141, 0xbaae_dce6_af48_a03b, 0xffff_ffff_ffff_fffe, u64::MAX],
    rest: [0x402d_a173_2fc9_bebf, 0x4551_2319_50b7_5fc4, 1],
};

/// ⌊n / 2⌋, the largest s that Ethereum takes since Homestead.
const HALF_ORDER: [u64; 4] = [0xdfe9_2f46_681b_20a0, 0x5d57_6e73_57a4_501d, u64::MAX, 0x7fff_ffff_ffff_ffff];

impl Modulus {
    /// Whether the number is below m.
    pub(super) fn contains(&self, x: &[u64; 4]) -> bool {
        x.iter().rev().lt(self.value.iter().rev())
    }

    /// Any number of four words, modulo m.
    pub(super) fn reduce(&self, x: [u64; 4]) -> [u64; 4] {
        if self.contains(&x) { x } else { sub(&x, &self.value) }
    }

    /// The negative of x modulo m, for x below m.
    pub(super) fn negate(&self, x: &[u64; 4]) -> [u64; 4] {
        if *x == [0; 4] { *x } else { sub(&self.value, x) }
    }

    /// The product a·b modulo m.
    pub(super) fn mul(&self, a: &[u64; 4], b: &[u64; 4]) -> [u64; 4] {
        let wide: [u64; 8] = product(a, b);
        // Below 2^386, below 2^260, below 2^256 + 2^134: each fold takes 126 bits off what is above 2^256.
        let wide: [u64; 7] = self.fold(&wide);
        let wide: [u64; 5] = self.fold(&wide);
        let wide: [u64; 5] = self.fold(&wide);
        let wide: [u64; 5] = self.fold(&wide);
        debug_assert_eq!(wide[4], 0);
        self.reduce([wide[0], wide[1], wide[2], wide[3]])
    }

    /// low + high·2^256 as low + high·(2^256 − m).
    #[inline(always)]
    fn fold<const N: usize, const M: usize>(&self, wide: &[u64; N]) -> [u64; M] {
        let mut out = [0; M];
        out[..4].copy_from_slice(&wide[..4]);
        for (i, high) in wide[4..].iter().enumerate() {
            add_row(&mut out[i..], *high, &self.rest);
        }
        out
    }

    /// 1/x for each of `values`, none of which is 0, with one inversion. `inverses` is cleared first.
    pub(super) fn invert_all<'a, I>(&self, values: I, inverses: &mut Vec<[u64; 4]>)
    where
        I: DoubleEndedIterator<Item = &'a [u64; 4]> + ExactSizeIterator + Clone,
    {
        inverses.clear();
        let mut product = [1, 0, 0, 0];
        for value in values.clone() {
            inverses.push(product);
            product = self.mul(&product, value);
        }
        let mut inverse = self.invert(&product);
        for (value, before) in values.zip(inverses.iter_mut()).rev() {
            *before = self.mul(before, &inverse);
            inverse = self.mul(&inverse, value);
        }
    }

    /// 1/x, and 0 for 0: x^(m − 2), four bits of the exponent at a time.
    pub(super) fn invert(&self, x: &[u64; 4]) -> [u64; 4] {
        let mut powers = [[1, 0, 0, 0]; 16];
        for i in 1..16 {
            powers[i] = self.mul(&powers[i - 1], x);
        }
        let exponent = sub(&self.value, &[2, 0, 0, 0]);
        let mut out = [1, 0, 0, 0];
        for nibble in (0..64).rev() {
            for _ in 0..4 {
                out = self.mul(&out, &out);
            }
            out = self.mul(&out, &powers[(exponent[nibble / 16] >> (nibble % 16 * 4)) as usize & 15]);
        }
        out
    }
}

/// Whether s is in the upper half of the group's order.
pub(super) fn is_high(s: &[u64; 4]) -> bool {
    s.iter().rev().gt(HALF_ORDER.iter().rev())
}

/// to += factor·row, in as many words as `to` has.
#[inline(always)]
fn add_row(to: &mut [u64], factor: u64, row: &[u64]) {
    let mut carry = 0u128;
    for (i, word) in to.iter_mut().enumerate() {
        let term = row.get(i).map_or(0, |r| u128::from(factor) * u128::from(*r));
        carry += u128::from(*word) + term;
        *word = carry as u64;
        carry >>= 64;
    }
}

/// The low L words of the product a·b.
#[inline(always)]
pub(super) fn product<const N: usize, const M: usize, const L: usize>(a: &[u64; N], b: &[u64; M]) -> [u64; L] {
    let mut out = [0; L];
    for (i, factor) in a.iter().enumerate() {
        add_row(&mut out[i..], *factor, b);
    }
    out
}

/// a − b modulo 2^(64·N).
#[inline(always)]
pub(super) fn sub<const N: usize>(a: &[u64; N], b: &[u64; N]) -> [u64; N] {
    let mut borrow = false;
    std::array::from_fn(|i| {
        let (d, first) = a[i].overflowing_sub(b[i]);
        let (d, second) = d.overflowing_sub(u64::from(borrow));
        borrow = first || second;
        d
    })
}

/// a + b modulo 2^(64·N).
#[inline(always)]
pub(super) fn add<const N: usize>(a: &[u64; N], b: &[u64; N]) -> [u64; N] {
    let mut carry = false;
    std::array::from_fn(|i| {
        let (s, first) = a[i].overflowing_add(b[i]);
        let (s, second) = s.overflowing_add(u64::from(carry));
        carry = first || second;
        s
    })
}

/// Four little-endian words of a big-endian string.
pub(super) fn words_of(bytes: &[u8; 32]) -> [u64; 4] {
    std::array::from_fn(|i| u64::from_be_bytes(std::array::from_fn(|j| bytes[24 - 8 * i + j])))
}

/// The big-endian string of four little-endian words.
pub(super) fn bytes_of(words: &[u64; 4]) -> [u8; 32] {
    std::array::from_fn(|i| words[3 - i / 8].to_be_bytes()[i % 8])
}
