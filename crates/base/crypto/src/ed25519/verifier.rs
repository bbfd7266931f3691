//! Verification with memory: tables for keys that come back, and bursts.
//!
//! reads   public keys, signatures and messages
//! writes  one verdict per signature
//! memory  at most `VerifierConfig::cache_bytes` of tables, 4.3 MB of tables of B shared by the process, and
//!         about 1 KB per signature of the largest burst so far
//! source  the rule of [`super::verify`]; combs of [`super::comb`]
//!
//! s·B − k·A is summed from the tables of B and of −A. Eight or four signatures run side by side where the
//! processor can; the portable path runs the same formulas one signature at a time. The points of a burst become
//! affine with one inversion.

#![allow(unsafe_code)]

use super::cache::TableCache;
use super::comb::KeyComb;
use super::field::{Fe, words_of};
use super::job::{Job, VerifyItem};
#[cfg(target_arch = "x86_64")]
use super::lanes::{Eight, Four};
use super::point::{Entry, Point, has_small_order_y};
use super::verify::{VerifyError, canonical_scalar, compare, split, verify_strict};
use super::{Arithmetic, Lanes, base};

/// How much a [`Verifier`] may keep, and how it computes.
#[derive(Clone, Copy, Debug)]
pub struct VerifierConfig {
    /// Upper bound of the memory held by tables of repeat signers, in bytes. A key takes about 17 KB.
    pub cache_bytes: usize,
    /// Sightings of a key before the one that builds its table, which costs about as much as two
    /// signatures of an unknown key.
    pub build_after: u8,
    /// Which field arithmetic to use.
    pub arithmetic: Arithmetic,
}

impl Default for VerifierConfig {
    /// For a standalone verifier; a node's verify tiles share `tiles.verify.table_bytes`.
    fn default() -> Self {
        Self { cache_bytes: 96 << 20, build_after: 2, arithmetic: Arithmetic::Detect }
    }
}

/// The jobs of a burst, by whether their key has a table.
#[derive(Default)]
struct Jobs<'a> {
    known: Vec<Job<'a>>,
    /// The table of each of the known ones.
    slots: Vec<u32>,
    fresh: Vec<Job<'a>>,
}

impl<'a> Jobs<'a> {
    fn push(&mut self, job: Job<'a>, cache: &mut TableCache) {
        match cache.find(job.item.public_key) {
            Some(slot) => {
                self.slots.push(slot);
                self.known.push(job);
            }
            None => self.fresh.push(job),
        }
    }
}

/// Verifies signatures, and is faster for keys that it meets again.
pub struct Verifier {
    cache: TableCache,
    lanes: Lanes,
    base: &'static [Entry],
    #[cfg(target_arch = "x86_64")]
    eight: Eight,
    #[cfg(target_arch = "x86_64")]
    four: Four,
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
            lanes: config.arithmetic.lanes(),
            base: base::verifying_table(),
            #[cfg(target_arch = "x86_64")]
            eight: Eight::default(),
            #[cfg(target_arch = "x86_64")]
            four: Four::default(),
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

    /// Verifies every signature of a burst by the strict rule. `results` is cleared, then holds one verdict per item,
    /// in order; an invalid signature does not affect the others. Best with 32 items or more.
    pub fn verify_burst(&mut self, items: &[VerifyItem<'_>], results: &mut Vec<Result<(), VerifyError>>) {
        results.clear();
        results.resize(items.len(), Ok(()));
        let mut jobs = Jobs::default();
        for (index, item) in items.iter().enumerate() {
            let (r, s) = split(item.signature);
            match canonical_scalar(&s) {
                Err(error) => results[index] = Err(error),
                Ok(s) => jobs.push(Job { index, item: *item, r, s }, &mut self.cache),
            }
        }
        if self.build_tables(&jobs.fresh) {
            // The keys of the new tables are known now, and keys whose tables these replaced no longer are.
            let Jobs { known, fresh, .. } = std::mem::take(&mut jobs);
            known.into_iter().chain(fresh).for_each(|job| jobs.push(job, &mut self.cache));
        }
        let Jobs { known, slots, fresh } = jobs;
        self.points.clear();
        self.verify_known(&known, &slots);
        let fresh = self.verify_fresh(fresh, results);
        self.finish(known.iter().chain(&fresh), results);
    }

    /// Appends s·B − k·A for each job, with the tables in `slots`.
    fn verify_known(&mut self, jobs: &[Job<'_>], slots: &[u32]) {
        let mut done = 0;
        #[cfg(target_arch = "x86_64")]
        while self.lanes != Lanes::One && jobs.len() - done >= 2 {
            let rest = &jobs[done..];
            let count = rest.len().min(if self.lanes == Lanes::Eight { Eight::LANES } else { Four::LANES });
            let lane = |l: usize| (&rest[l], self.cache.table(slots[done + l]));
            // SAFETY: this variant is chosen only if its instructions were detected.
            unsafe {
                match self.lanes {
                    Lanes::Eight => self.eight.sum_known(count, lane, self.base, &mut self.points),
                    _ => self.four.sum_known(count, lane, self.base, &mut self.points),
                }
            }
            done += count;
        }
        for at in done..jobs.len() {
            let job = &jobs[at];
            let k = KeyComb::digits(&words_of(job.challenge().as_bytes()));
            let s = base::VerifyingComb::digits(&job.s);
            let table = self.cache.table(slots[at]);
            let from_key = KeyComb::sum(Point::<Fe>::neutral(), |_| (table, &k));
            self.points.push(base::VerifyingComb::sum(from_key, |_| (self.base, &s)));
        }
    }

    /// Builds the tables of those keys that have come often enough. Returns whether there were any.
    fn build_tables(&mut self, jobs: &[Job<'_>]) -> bool {
        let mut has_built = false;
        for key in jobs.iter().map(|job| job.item.public_key) {
            // A key that comes several times in one burst may have got its table a moment ago.
            if self.cache.wants_table(key)
                && !has_small_order_y(key)
                && self.cache.find(key).is_none()
                && let Some(point) = Point::decode(key)
            {
                self.cache.insert(*key, |entries| KeyComb::build(&point.negated(), entries));
                has_built = true;
            }
        }
        has_built
    }

    /// Appends s·B − k·A for the jobs that it returns; the others have their verdict in `results`.
    fn verify_fresh<'a>(&mut self, jobs: Vec<Job<'a>>, results: &mut [Result<(), VerifyError>]) -> Vec<Job<'a>> {
        let mut summed = Vec::new();
        let mut rest = jobs;
        #[cfg(target_arch = "x86_64")]
        while self.lanes != Lanes::One && rest.len() >= 2 {
            let width = if self.lanes == Lanes::Eight { Eight::LANES } else { Four::LANES };
            let later = rest.split_off(rest.len().min(width));
            // SAFETY: this variant is chosen only if its instructions were detected.
            let verdicts = unsafe {
                match self.lanes {
                    Lanes::Eight => self.eight.sum_fresh(&rest, self.base, &mut self.points),
                    _ => self.four.sum_fresh(&rest, self.base, &mut self.points),
                }
            };
            for (job, verdict) in rest.into_iter().zip(verdicts) {
                results[job.index] = verdict;
                if verdict.is_ok() {
                    summed.push(job);
                }
            }
            rest = later;
        }
        for Job { index, item, .. } in rest {
            results[index] = verify_strict(item.public_key, item.signature, item.message);
        }
        summed
    }

    /// Compares the encodings of the points with R, with one inversion for all.
    fn finish<'a>(&mut self, jobs: impl Iterator<Item = &'a Job<'a>>, results: &mut [Result<(), VerifyError>]) {
        self.inverses.clear();
        self.inverses.extend(self.points.iter().map(Point::z));
        Fe::invert_all(&mut self.inverses, &mut self.scratch);
        for ((job, point), inverse) in jobs.zip(&self.points).zip(&self.inverses) {
            results[job.index] = compare(&point.encode(inverse), &job.r);
        }
    }

    #[cfg(test)]
    pub(super) fn spoil_tables(&mut self) {
        self.cache.spoil();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ed25519::SigningKey;

    /// A verifier with room for two tables, of which each burst replaces some that serve it, gives the right verdicts.
    #[test]
    fn tables_that_a_burst_builds_serve_it() {
        let keys: Vec<_> = (0..12).map(|n| SigningKey::from_seed(&[n; 32])).collect();
        let messages: Vec<[u8; 8]> = (0..600u64).map(u64::to_le_bytes).collect();
        let signed: Vec<_> = messages.iter().enumerate().map(|(n, message)| keys[n * 7 % 12].sign(message)).collect();
        let public: Vec<[u8; 32]> = keys.iter().map(SigningKey::public_key).collect();
        let table_bytes = KeyComb::ENTRIES * size_of::<Entry>();
        for arithmetic in [Arithmetic::Detect, Arithmetic::FourLanes, Arithmetic::Portable] {
            let config = VerifierConfig { cache_bytes: 2 * table_bytes + 1_024, build_after: 0, arithmetic };
            let mut verifier = Verifier::new(config);
            let mut results = Vec::new();
            for (burst, numbers) in (0..messages.len()).collect::<Vec<_>>().chunks(100).enumerate() {
                let item = |n: &usize| {
                    // Every ninth is another key's.
                    let key = if n.is_multiple_of(9) { n * 7 + 1 } else { n * 7 };
                    VerifyItem { public_key: &public[key % 12], signature: &signed[*n], message: &messages[*n] }
                };
                let items: Vec<_> = numbers.iter().map(item).collect();
                verifier.verify_burst(&items, &mut results);
                let right: Vec<bool> = numbers.iter().map(|n| !n.is_multiple_of(9)).collect();
                assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), right, "burst {burst}");
                assert!(verifier.cached_keys() <= 2);
            }
            assert_eq!(verifier.cached_keys(), 2);
        }
        // Alone, too: a wrong table that the call builds would refuse it.
        let mut verifier = Verifier::new(VerifierConfig::default());
        for _ in 0..5 {
            assert!(verifier.verify(&public[0], &signed[0], &messages[0]).is_ok());
            assert!(verifier.verify(&public[1], &signed[0], &messages[0]).is_err());
        }
        assert_eq!(verifier.cached_keys(), 2);
    }

    /// A path with wrong tables must not keep accepting: otherwise the differential tests would prove nothing.
    #[test]
    fn spoiled_tables_are_noticed() {
        let message = b"table";
        let keys: Vec<_> = (0..8).map(|n| SigningKey::from_seed(&[n; 32])).collect();
        let signed: Vec<_> = keys.iter().map(|key| (key.public_key(), key.sign(message))).collect();
        let items: Vec<_> =
            signed.iter().map(|(public_key, signature)| VerifyItem { public_key, signature, message }).collect();
        for arithmetic in [Arithmetic::Detect, Arithmetic::FourLanes, Arithmetic::Portable] {
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
