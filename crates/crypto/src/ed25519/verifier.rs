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

/// A signature in work: k and S in the digits of the combs that will be used.
struct Job {
    item: usize,
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
    /// The slots of the jobs' tables.
    slots: Vec<u32>,
    /// Items whose keys have no table.
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
            slots: Vec::new(),
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
        self.slots.clear();
        self.cold.clear();
        for (i, item) in items.iter().enumerate() {
            let (r, s) = split(item.signature);
            match canonical_scalar(&s) {
                Err(error) => results[i] = Err(error),
                Ok(s) => match self.cache.find(item.public_key) {
                    None => self.cold.push(i),
                    Some(slot) => {
                        self.slots.push(slot);
                        self.jobs.push(job(i, item, &s, r));
                    }
                },
            }
        }
        self.run_jobs(results);
        self.verify_cold(items, results);
    }

    fn run_jobs(&mut self, results: &mut [Result<(), VerifyError>]) {
        let Self { cache, base, jobs, slots, points, inverses, scratch, .. } = self;
        points.clear();
        let tables = |at: usize| cache.table(slots[at]);
        let mut done = 0;
        #[cfg(target_arch = "x86_64")]
        while self.four_lanes && jobs.len() - done >= 2 {
            let count = (jobs.len() - done).min(4);
            // Lanes without a signature repeat the last one.
            let at = |l: usize| done + l.min(count - 1);
            let lanes: [(&[Entry], &Job); 4] = std::array::from_fn(|l| (tables(at(l)), &jobs[at(l)]));
            // SAFETY: `four_lanes` is set only where AVX2 and FMA were detected.
            let sum = unsafe { sum_four(&lanes, base) };
            points.extend((0..count).map(|l| sum.lane(l)));
            done += count;
        }
        points.extend((done..jobs.len()).map(|at| sum_one(tables(at), &jobs[at], base)));
        finish(jobs, points, inverses, scratch, results);
    }

    /// The items in `cold`, whose keys have no table.
    fn verify_cold(&mut self, items: &[VerifyItem<'_>], results: &mut [Result<(), VerifyError>]) {
        let Self { cold, .. } = self;
        let mut rest = cold.as_slice();
        #[cfg(target_arch = "x86_64")]
        {
            self.jobs.clear();
            self.points.clear();
            while self.four_lanes && rest.len() >= 2 {
                let count = rest.len().min(4);
                let four = std::array::from_fn(|l| rest[l.min(count - 1)]);
                fresh::four(four, count, items, self.base, &mut self.jobs, &mut self.points, results);
                rest = &rest[count..];
            }
            finish(&self.jobs, &self.points, &mut self.inverses, &mut self.scratch, results);
        }
        for i in rest {
            results[*i] = verify_strict(items[*i].public_key, items[*i].signature, items[*i].message);
        }
        for i in cold.iter() {
            let key = items[*i].public_key;
            // A key that comes several times in one burst may have got its table a moment ago.
            if self.cache.wants_table(key) && !has_small_order_y(key) && self.cache.find(key).is_none() {
                if let Some(point) = Point::decode(key) {
                    self.cache.insert(*key, |entries| KeyComb::build(&point.negated(), entries));
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn spoil_tables(&mut self) {
        self.cache.spoil();
    }
}

/// Compares the encodings of `points` with R, with one inversion for all.
fn finish(
    jobs: &[Job],
    points: &[Point<Fe>],
    inverses: &mut Vec<Fe>,
    scratch: &mut Vec<Fe>,
    results: &mut [Result<(), VerifyError>],
) {
    inverses.clear();
    inverses.extend(points.iter().map(Point::z));
    Fe::invert_all(inverses, scratch);
    for ((job, point), inverse) in jobs.iter().zip(points).zip(inverses.iter()) {
        results[job.item] = compare(&point.encode(inverse), &job.r);
    }
}

fn job(index: usize, item: &VerifyItem<'_>, s: &[u64; 4], r: [u8; 32]) -> Job {
    let k = challenge(&r, item.public_key, item.message);
    Job { item: index, k: KeyComb::digits(&words_of(k.as_bytes())), s: base::VerifyingComb::digits(s), r }
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

/// Four signatures of keys without tables.
#[cfg(target_arch = "x86_64")]
mod fresh {
    use super::super::field::{Field, root_candidate};
    use super::super::field4::Fe4;
    use super::super::point::{ratio, signed};
    use super::*;

    /// The shape of the scalars that multiply a key without a table.
    type FreshComb = Comb<5, 1>;

    /// Sums the first `count` of the four items with lane arithmetic, into `jobs` and `points`; those whose
    /// key is no good have their verdict at once.
    pub(super) fn four(
        four: [usize; 4],
        count: usize,
        items: &[VerifyItem<'_>],
        base: &[Entry],
        jobs: &mut Vec<Job>,
        points: &mut Vec<Point<Fe>>,
        results: &mut [Result<(), VerifyError>],
    ) {
        let keys = four.map(|i| items[i].public_key);
        let ys = keys.map(Fe::from_bytes);
        let ratios = ys.map(|y| ratio(&y));
        let words = ratios.map(|(u, v)| [u.to_words(), v.to_words()]);
        // SAFETY: the caller has detected AVX2 and FMA.
        let roots = unsafe { roots(&words) };
        let mut affine = [(Fe::ZERO, Fe::ONE); 4];
        let mut good = [false; 4];
        for l in 0..4 {
            let root = Fe::checked_root(&ratios[l].0, &ratios[l].1, &roots.lane(l));
            results[four[l]] = match root {
                None => Err(VerifyError::BadKey),
                Some(_) if has_small_order_y(keys[l]) => Err(VerifyError::SmallOrderKey),
                Some(x) => {
                    good[l] = true;
                    affine[l] = (Fe::ZERO.minus(&signed(x, keys[l])), ys[l]);
                    Ok(())
                }
            };
        }
        let lanes: [Job; 4] = std::array::from_fn(|l| {
            let item = &items[four[l]];
            let (r, s) = split(item.signature);
            let k = challenge(&r, item.public_key, item.message);
            Job {
                item: four[l],
                k: FreshComb::digits(&words_of(k.as_bytes())),
                s: base::VerifyingComb::digits(&words_of(&s)),
                r,
            }
        });
        // SAFETY: the caller has detected AVX2 and FMA.
        let sum = unsafe { sum(&affine, &lanes, base) };
        for (l, job) in lanes.into_iter().enumerate().take(count) {
            if good[l] {
                jobs.push(job);
                points.push(sum.lane(l));
            }
        }
    }

    #[target_feature(enable = "avx2,fma")]
    fn roots(ratios: &[[[u64; 4]; 2]; 4]) -> Fe4 {
        let u = Fe4::load(|l| &ratios[l][0]);
        let v = Fe4::load(|l| &ratios[l][1]);
        root_candidate(&u, &v)
    }

    #[target_feature(enable = "avx2,fma")]
    fn sum(affine: &[(Fe, Fe); 4], lanes: &[Job; 4], base: &[Entry]) -> Point<Fe4> {
        let keys = Point::<Fe4>::gather(|l| affine[l]);
        let from_keys = FreshComb::multiply(&keys, |l| &lanes[l].k);
        base::VerifyingComb::sum(from_keys, |l| (base, &lanes[l].s))
    }
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
