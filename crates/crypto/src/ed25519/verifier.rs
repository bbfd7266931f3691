//! Verification with memory: tables for keys that come back, and bursts.
//!
//! reads   public keys, signatures and messages
//! writes  one verdict per signature
//! memory  at most `VerifierConfig::cache_bytes` of tables, 4.3 MB of tables of B shared by the process, and
//!         about 1 KB per signature of the largest burst so far
//! drops   nothing
//! source  the rule of [`super::verify`]; combs of [`super::comb`]
//!
//! s·B − k·A is summed from the tables of B and of −A. Four signatures run side by side where the processor
//! has AVX2 and FMA; the portable path runs the same formulas one signature at a time. The points of a burst
//! become affine with one inversion.

#![allow(unsafe_code)]

use super::cache::TableCache;
use super::comb::{Comb, Digits};
use super::field::{Fe, words_of};
use super::point::{Entry, Point, has_small_order_y};
use super::verify::{VerifyError, canonical_scalar, challenge, compare, split, verify_strict};
use super::{Arithmetic, base};

/// The comb of a public key.
pub(super) type KeyComb = Comb<6, 3>;

/// One signature of a burst.
#[derive(Clone, Copy, Debug)]
pub struct VerifyItem<'a> {
    /// The encoded public key A.
    pub public_key: &'a [u8; 32],
    /// R ‖ S.
    pub signature: &'a [u8; 64],
    /// What was signed.
    pub message: &'a [u8],
}

/// How much a [`Verifier`] may keep, and how it computes.
#[derive(Clone, Copy, Debug)]
pub struct VerifierConfig {
    /// Upper bound of the memory held by tables of repeat signers, in bytes. A key takes about 46 KB.
    pub cache_bytes: usize,
    /// Sightings of a key before the one that builds its table, which costs about as much as two
    /// signatures of an unknown key.
    pub build_after: u8,
    /// Which field arithmetic to use.
    pub arithmetic: Arithmetic,
}

impl Default for VerifierConfig {
    fn default() -> Self {
        Self { cache_bytes: 96 << 20, build_after: 2, arithmetic: Arithmetic::Detect }
    }
}

/// A signature whose key has a table.
struct Job {
    item: usize,
    slot: u32,
    k: Digits,
    s: Digits,
    r: [u8; 32],
}

/// Verifies signatures, and is faster for keys that it meets again.
pub struct Verifier {
    cache: TableCache,
    four_lanes: bool,
    base: &'static [Entry],
    jobs: Vec<Job>,
    cold: Vec<usize>,
    points: Vec<Point<Fe>>,
    inverses: Vec<Fe>,
    scratch: Vec<Fe>,
    single: Vec<Result<(), VerifyError>>,
}

impl Verifier {
    /// A verifier that has met no key yet. The first one of a process computes the table of B (some 10 ms).
    pub fn new(config: VerifierConfig) -> Self {
        Self {
            cache: TableCache::new(config.cache_bytes, KeyComb::ENTRIES, config.build_after),
            four_lanes: config.arithmetic.four_lanes(),
            base: base::verifying_table(),
            jobs: Vec::new(),
            cold: Vec::new(),
            points: Vec::new(),
            inverses: Vec::new(),
            scratch: Vec::new(),
            single: Vec::new(),
        }
    }

    /// Keys that have a table now.
    pub fn cached_keys(&self) -> usize {
        self.cache.len()
    }

    /// One signature by the strict rule.
    pub fn verify(&mut self, public_key: &[u8; 32], signature: &[u8; 64], message: &[u8]) -> Result<(), VerifyError> {
        let mut results = std::mem::take(&mut self.single);
        self.verify_burst(&[VerifyItem { public_key, signature, message }], &mut results);
        let verdict = results[0];
        self.single = results;
        verdict
    }

    /// Every signature of a burst by the strict rule. `results` is cleared, then holds one verdict per
    /// item, in order; one bad signature does not touch the others. Best with 32 items or more.
    pub fn verify_burst(&mut self, items: &[VerifyItem<'_>], results: &mut Vec<Result<(), VerifyError>>) {
        results.clear();
        results.resize(items.len(), Ok(()));
        self.jobs.clear();
        self.cold.clear();
        for (i, item) in items.iter().enumerate() {
            let (r, s) = split(item.signature);
            match canonical_scalar(&s) {
                Err(error) => results[i] = Err(error),
                Ok(s) => match self.cache.find(item.public_key) {
                    None => self.cold.push(i),
                    Some(slot) => self.jobs.push(job(i, slot, item, &s, r)),
                },
            }
        }
        self.run_jobs(results);
        // Only now: a new table may take the slot of one that the jobs above used.
        for at in 0..self.cold.len() {
            let i = self.cold[at];
            results[i] = self.verify_cold(&items[i]);
        }
    }

    fn run_jobs(&mut self, results: &mut [Result<(), VerifyError>]) {
        let Self { cache, base, jobs, points, inverses, scratch, .. } = self;
        points.clear();
        let mut rest = jobs.as_slice();
        #[cfg(target_arch = "x86_64")]
        while self.four_lanes && rest.len() >= 2 {
            // Lanes without a signature repeat the last one.
            let lane = |l: usize| &rest[l.min(rest.len() - 1)];
            let lanes: [(&[Entry], &Job); 4] = std::array::from_fn(|l| (cache.table(lane(l).slot), lane(l)));
            let count = rest.len().min(4);
            // SAFETY: `four_lanes` is set only where AVX2 and FMA were detected.
            let sum = unsafe { sum_four(&lanes, base) };
            points.extend((0..count).map(|l| sum.lane(l)));
            rest = &rest[count..];
        }
        points.extend(rest.iter().map(|job| sum_one(cache.table(job.slot), job, base)));
        inverses.clear();
        inverses.extend(points.iter().map(Point::z));
        Fe::invert_all(inverses, scratch);
        for ((job, point), inverse) in jobs.iter().zip(points.iter()).zip(inverses.iter()) {
            results[job.item] = compare(&point.encode(inverse), &job.r);
        }
    }

    fn verify_cold(&mut self, item: &VerifyItem<'_>) -> Result<(), VerifyError> {
        if self.cache.wants_table(item.public_key) && !has_small_order_y(item.public_key) {
            if let Some(point) = Point::decode(item.public_key) {
                self.cache.insert(*item.public_key, |entries| KeyComb::build(&point.negated(), entries));
            }
        }
        verify_strict(item.public_key, item.signature, item.message)
    }

    #[cfg(test)]
    pub(super) fn spoil_tables(&mut self) {
        self.cache.spoil();
    }
}

fn job(index: usize, slot: u32, item: &VerifyItem<'_>, s: &[u64; 4], r: [u8; 32]) -> Job {
    let k = challenge(&r, item.public_key, item.message);
    Job { item: index, slot, k: KeyComb::digits(&words_of(k.as_bytes())), s: base::VerifyingComb::digits(s), r }
}

fn sum_one(table: &[Entry], job: &Job, base: &[Entry]) -> Point<Fe> {
    let from_key = KeyComb::sum(Point::<Fe>::neutral(), |_| (table, &job.k));
    base::VerifyingComb::sum(from_key, |_| (base, &job.s))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn sum_four(lanes: &[(&[Entry], &Job); 4], base: &[Entry]) -> Point<super::field4::Fe4> {
    let start = Point::<super::field4::Fe4>::neutral();
    let from_key = KeyComb::sum(start, |l| (lanes[l].0, &lanes[l].1.k));
    base::VerifyingComb::sum(from_key, |l| (base, &lanes[l].1.s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ed25519::SigningKey;

    /// A path whose tables are wrong must not go on accepting: this is what gives the differential tests
    /// their meaning.
    #[test]
    fn spoiled_tables_are_noticed() {
        let message = b"table";
        let keys: Vec<_> = (0..8).map(|n| SigningKey::from_seed(&[n; 32])).collect();
        let signed: Vec<_> = keys.iter().map(|key| (key.public_key(), key.sign(message))).collect();
        let items: Vec<_> = signed
            .iter()
            .map(|(public_key, signature)| VerifyItem { public_key, signature, message })
            .collect();
        for arithmetic in [Arithmetic::Detect, Arithmetic::Portable] {
            let mut verifier = Verifier::new(VerifierConfig { build_after: 0, arithmetic, ..Default::default() });
            let mut results = Vec::new();
            for _ in 0..2 {
                verifier.verify_burst(&items, &mut results);
                assert!(results.iter().all(Result::is_ok));
            }
            assert_eq!(verifier.cached_keys(), 8);
            verifier.spoil_tables();
            verifier.verify_burst(&items, &mut results);
            assert!(results.iter().all(|r| *r == Err(VerifyError::Mismatch)));
        }
    }
}
