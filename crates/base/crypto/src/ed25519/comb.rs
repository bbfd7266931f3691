//! Combs: tables of multiples of one point, and sums over them with few doublings.
//!
//! reads   scalars as digits, tables
//! writes  points; tables
//! memory  a table of width w and spacing g holds about (253 / (w·g))·2^(w − 1) entries of 96 bytes
//! source  Lim and Lee, "More flexible exponentiation with precomputation" (1994); signed digits as in
//!         Bernstein, Duif, Lange, Schwabe, Yang, "High-speed high-security signatures" (2011), §4
//!
//! A scalar below 2^253 is written in signed digits of w bits. Table number i holds 1 to 2^(w − 1) times
//! 2^(w·g·i)·P, so that it serves the g digits from g·i on; those that stand at the same place within
//! their group of g are summed together, with w doublings from one place to the next.

#![allow(unsafe_code)]

use super::field::{Fe, Field, LANES_MAX};
use super::point::{Addend, Entry, Point};

/// Most digits that any width in use has.
pub(super) const DIGITS_MAX: usize = 64;

/// Most multiples that [`Comb::multiply`] has at hand.
const MULTIPLES_MAX: usize = 16;

/// A scalar in signed digits, least significant first.
pub(super) type Digits = [i16; DIGITS_MAX];

/// The shape of a comb: `WIDTH` bits a digit, a table for every `SPACING` digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comb<const WIDTH: usize, const SPACING: usize>;

/// The comb of a public key: 17 KB. Larger ones take fewer sums and more cache misses, and are no faster.
pub(super) type KeyComb = Comb<5, 5>;

impl<const WIDTH: usize, const SPACING: usize> Comb<WIDTH, SPACING> {
    /// Where the width divides 252 the topmost digit takes bit 252 as well: it is not negative and reaches
    /// 2^WIDTH, because the group's order is just above 2^252.
    const WIDE_TOP: bool = 252 % WIDTH == 0;
    /// Digits of a scalar.
    pub(super) const DIGITS: usize = if Self::WIDE_TOP { 252 / WIDTH } else { 253_usize.div_ceil(WIDTH) };
    /// Tables of a point.
    pub(super) const TABLES: usize = Self::DIGITS.div_ceil(SPACING);
    const HALF: usize = 1 << (WIDTH - 1);
    /// Entries of a point's tables, all together.
    pub(super) const ENTRIES: usize = Self::TABLES * Self::HALF + if Self::WIDE_TOP { Self::HALF } else { 0 };

    /// The signed digits of a number below 2^252 + 2^125. No branch and no address depends on it.
    pub(super) fn digits(scalar: &[u64; 4]) -> Digits {
        const { assert!(Self::DIGITS <= DIGITS_MAX && WIDTH <= 14) };
        let mut digits = [0; DIGITS_MAX];
        let mut carry = 0;
        for (i, digit) in digits.iter_mut().enumerate().take(Self::DIGITS) {
            let at = i * WIDTH;
            let last = i + 1 == Self::DIGITS;
            let high = if at / 64 < 3 { scalar[at / 64 + 1] } else { 0 };
            let bits = ((u128::from(high) << 64 | u128::from(scalar[at / 64])) >> (at % 64)) as u64;
            let value = if last { bits } else { bits & ((1 << WIDTH) - 1) } + carry;
            carry = if last { 0 } else { (value + Self::HALF as u64 - 1) >> WIDTH };
            *digit = (value as i64 - ((carry as i64) << WIDTH)) as i16;
        }
        digits
    }

    /// The entry for a digit of table `table` and whether it is to be negated.
    #[inline(always)]
    fn entry(tables: &[Entry], table: usize, digit: i16) -> &Entry {
        if digit == 0 {
            return &Entry::NEUTRAL;
        }
        &tables[table * Self::HALF + usize::from(digit.unsigned_abs()) - 1]
    }

    /// Prefetches the entry's two cache lines.
    #[inline(always)]
    fn prefetch(tables: &[Entry], table: usize, digit: i16) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let entry: *const Entry = Self::entry(tables, table, digit);
            // SAFETY: a prefetch reads nothing; both addresses lie within one entry.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(entry.cast());
                _mm_prefetch::<_MM_HINT_T0>(entry.cast::<i8>().add(64));
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (tables, table, digit);
    }

    /// start + Σ over the lanes' combs: `lane(i)` gives tables and digits of lane i. The result has t when
    /// the last sum had it.
    #[inline(always)]
    pub(super) fn sum<'a, F: Field>(start: Point<F>, lane: impl Fn(usize) -> (&'a [Entry], &'a Digits)) -> Point<F> {
        /// Number of sums ahead of the current one whose entries are prefetched.
        const AHEAD: usize = 3;
        let mut point = start;
        for place in (0..SPACING).rev() {
            if place + 1 < SPACING {
                for step in 0..WIDTH {
                    point = if step + 1 == WIDTH { point.double::<true>() } else { point.double::<false>() };
                }
            }
            let tables = (Self::DIGITS - place).div_ceil(SPACING);
            for table in 0..tables {
                // Past the last table of this place come those of the place below.
                let (next_table, next_place) = match table + AHEAD {
                    t if t < tables => (t, place),
                    t => ((t - tables).min(Self::TABLES - 1), place.saturating_sub(1)),
                };
                for l in 0..F::LANES {
                    let (entries, digits) = lane(l);
                    Self::prefetch(entries, next_table, digits[next_table * SPACING + next_place]);
                }
                let digit = |l: usize| lane(l).1[table * SPACING + place];
                point = point.add_entry::<true>(|l| Self::entry(lane(l).0, table, digit(l)), |l| digit(l) < 0);
            }
        }
        point
    }

    /// start + Σ over the tables, reading each table whole, so that neither time nor addresses depend on the digits.
    /// Lane l takes every `stride`-th table from table l·(stride > 1) on; `lane(l)` gives its digits. For a spacing of
    /// 1.
    #[inline(always)]
    pub(super) fn sum_hidden<'a, F: Field>(
        entries: &[Entry],
        stride: usize,
        lane: impl Fn(usize) -> &'a Digits,
    ) -> Point<F> {
        const { assert!(SPACING == 1) };
        let mut point = Point::<F>::neutral();
        for first in (0..Self::TABLES).step_by(stride) {
            let mut selected = [Entry::NEUTRAL; LANES_MAX];
            let mut negative = [false; LANES_MAX];
            for l in 0..F::LANES {
                let table = first + l * usize::from(stride > 1);
                if table < Self::TABLES {
                    let digit = i64::from(lane(l)[table]);
                    let sign = digit >> 63;
                    negative[l] = sign != 0;
                    let end = if table + 1 == Self::TABLES { Self::ENTRIES } else { (table + 1) * Self::HALF };
                    let of_table = &entries[table * Self::HALF..end];
                    selected[l] = Entry::select(of_table, ((digit ^ sign) - sign) as u64, negative[l]);
                }
            }
            point = point.add_selected(|l| &selected[l], |l| negative[l]);
        }
        point
    }

    /// Σ digit·2^(WIDTH·i)·point with doublings and a table made for the purpose, for points that are not
    /// worth a comb; `digits(l)` are lane l's.
    #[inline(always)]
    pub(super) fn multiply<'a, F: Field>(point: &Point<F>, digits: impl Fn(usize) -> &'a Digits) -> Point<F> {
        const { assert!(SPACING == 1 && !Self::WIDE_TOP && Self::HALF <= MULTIPLES_MAX) };
        let two_d = F::splat(&Fe::D.plus(&Fe::D));
        let mut multiples = [Addend::neutral(); MULTIPLES_MAX + 1];
        multiples[1] = point.addend(&two_d);
        let mut multiple = *point;
        for n in 2..=Self::HALF {
            multiple = multiple.add_point::<true>(&multiples[1]);
            multiples[n] = multiple.addend(&two_d);
        }
        let mut sum = Point::neutral();
        for i in (0..Self::DIGITS).rev() {
            for step in 0..WIDTH {
                sum = if step + 1 == WIDTH { sum.double::<true>() } else { sum.double::<false>() };
            }
            let addend = Addend::pick(|l| &multiples[usize::from(digits(l)[i].unsigned_abs())], |l| digits(l)[i] < 0);
            sum = sum.add_point::<true>(&addend);
        }
        sum
    }

    /// Fills `entries` (of length `ENTRIES`) with the tables of `point`.
    pub(super) fn build(point: &Point<Fe>, entries: &mut [Entry]) {
        assert_eq!(entries.len(), Self::ENTRIES);
        let mut bases = Vec::with_capacity(Self::TABLES);
        let mut base = *point;
        for table in 0..Self::TABLES {
            if table > 0 {
                for step in 0..WIDTH * SPACING {
                    base = if step + 1 == WIDTH * SPACING { base.double::<true>() } else { base.double::<false>() };
                }
            }
            bases.push(base);
        }
        let mut scratch = Vec::new();
        let affine_bases = to_entries(&bases, &mut scratch);
        let mut multiples = Vec::with_capacity(Self::ENTRIES);
        for (table, (base, entry)) in bases.iter().zip(&affine_bases).enumerate() {
            let last = table + 1 == Self::TABLES;
            let count = if last && Self::WIDE_TOP { 2 * Self::HALF } else { Self::HALF };
            let mut multiple = *base;
            multiples.push(multiple);
            for _ in 1..count {
                multiple = multiple.add_entry::<true>(|_| entry, |_| false);
                multiples.push(multiple);
            }
        }
        entries.copy_from_slice(&to_entries(&multiples, &mut scratch));
    }
}

/// The entries of points, with one inversion for all.
fn to_entries(points: &[Point<Fe>], scratch: &mut Vec<Fe>) -> Vec<Entry> {
    let mut inverses: Vec<Fe> = points.iter().map(Point::z).collect();
    Fe::invert_all(&mut inverses, scratch);
    points
        .iter()
        .zip(&inverses)
        .map(|(point, inverse)| {
            let (x, y) = point.affine(inverse);
            Entry::new(&x, &y)
        })
        .collect()
}
