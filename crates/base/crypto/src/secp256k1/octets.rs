//! Sums of two multiples for many items: eight at a time, then all divisions with one inversion.
//!
//! reads   the inputs of each sum, lane by lane
//! writes  the points u1·G + u2·R in affine coordinates
//! memory  two octets' digits and the tables of one, 16 KB; 2 KB for each eight of the most sums at once

#![allow(unsafe_code)]

use super::eight::{self, Affine, EightSums, Sums};
use super::table::{self, Entry, PointTables};

/// Sums in pairs of octets. Exists only on processors with the lanes' instructions.
pub(super) struct OctetSums {
    base: &'static [Entry],
    tables: Box<PointTables>,
    octets: Box<[EightSums; 2]>,
    sums: Vec<Sums>,
    points: Vec<Affine>,
}

impl OctetSums {
    /// Makes the generator's table if no one has yet; `None` if the processor lacks the lanes' instructions.
    pub(super) fn new() -> Option<Self> {
        super::field8::available().then(|| Self {
            base: table::base(),
            tables: Box::new([[Entry::ZERO; _]; 8]),
            octets: Box::default(),
            sums: Vec::new(),
            points: Vec::new(),
        })
    }

    /// Computes `count` sums. `set` puts the inputs of the sum at an index into a lane of an octet. Returns, for each
    /// eight in order, which lanes have no sum, and the points.
    pub(super) fn compute(
        &mut self,
        count: usize,
        mut set: impl FnMut(usize, &mut EightSums, usize),
    ) -> (&[Sums], &[Affine]) {
        self.sums.clear();
        for first in (0..count).step_by(16) {
            let here = (count - first).min(16);
            // Lanes without an item repeat the last one.
            for lane in 0..here.next_multiple_of(8) {
                set(first + lane.min(here - 1), &mut self.octets[lane / 8], lane % 8);
            }
            // SAFETY: `OctetSums` exist only if the processor has the required features.
            unsafe {
                if here > 8 {
                    self.sums.extend(eight::sum(&self.octets, self.base, &mut self.tables));
                } else {
                    let one = self.octets.first_chunk::<1>().expect("there are two");
                    self.sums.extend(eight::sum(one, self.base, &mut self.tables));
                }
            }
        }
        // SAFETY: as above.
        unsafe { eight::divide(&mut self.sums, &mut self.points) };
        (&self.sums, &self.points)
    }
}
