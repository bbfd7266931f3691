//! Public key recovery in bursts.
//!
//! reads   hashes and signatures
//! writes  public keys, or reasons for failure
//! memory  two octets' digits and the tables of one, 16 KB; 2 KB for each eight of the largest burst up to 128; 104 B
//!         for each item of the largest burst
//! source  SEC 1 §4.1.6: the key is −(z/r)·G + (s/r)·R
//!
//! The checks of r and s come first, and signatures that pass are grouped into octets: eight signatures in parallel if
//! the processor has AVX-512 with IFMA. 1/r and the last division share one inversion among many signatures. A
//! signature whose sum the lanes' formulas cannot compute (chosen maliciously, or with infinity as its result) goes to
//! libsecp256k1, at the usual cost of any node.

use super::modular::{ORDER, bytes_of, is_high, words_of};
#[cfg(target_arch = "x86_64")]
use super::octets::OctetSums;
use super::single::Single;
use super::{Arithmetic, HighS, PublicKey, RecoverError, RecoverItem};

/// Signatures that share one inversion.
const TOGETHER: usize = 128;
/// From how many signatures on an octet is faster than one after the other.
const OCTET_MIN: usize = 2;

/// Recovers public keys; holds the memory for that.
pub struct Recoverer {
    single: Single,
    one: Vec<Result<PublicKey, RecoverError>>,
    jobs: Vec<Job>,
    #[cfg(target_arch = "x86_64")]
    lanes: Option<Lanes>,
}

/// A signature whose r and s are in range, with its place in the burst.
struct Job {
    index: usize,
    r: [u64; 4],
    s: [u64; 4],
    z: [u64; 4],
}

impl Default for Recoverer {
    fn default() -> Self {
        Self::new(Arithmetic::Detect)
    }
}

impl Recoverer {
    /// Takes the memory; makes the generator's table if no one has yet.
    pub fn new(arithmetic: Arithmetic) -> Self {
        #[cfg(not(target_arch = "x86_64"))]
        let _ = arithmetic;
        Self {
            single: Single::new(),
            one: Vec::new(),
            jobs: Vec::new(),
            #[cfg(target_arch = "x86_64")]
            lanes: (arithmetic == Arithmetic::Detect).then(Lanes::new).flatten(),
        }
    }

    /// Recovers the public key of one signature.
    pub fn recover(&mut self, item: &RecoverItem, high_s: HighS) -> Result<PublicKey, RecoverError> {
        let mut results = std::mem::take(&mut self.one);
        self.recover_burst(std::slice::from_ref(item), high_s, &mut results);
        let result = results[0];
        self.one = results;
        result
    }

    /// Recovers the public keys of a burst. `results` is cleared, then holds one result per item, in order; an invalid
    /// signature does not affect the others. Best with 32 items or more, in multiples of eight.
    pub fn recover_burst(
        &mut self,
        items: &[RecoverItem],
        high_s: HighS,
        results: &mut Vec<Result<PublicKey, RecoverError>>,
    ) {
        results.clear();
        let mut jobs = std::mem::take(&mut self.jobs);
        jobs.clear();
        for (index, item) in items.iter().enumerate() {
            match check(index, item, high_s) {
                Ok(job) => {
                    jobs.push(job);
                    // Overwritten below.
                    results.push(Err(RecoverError::Infinity));
                }
                Err(error) => results.push(Err(error)),
            }
        }
        for jobs in jobs.chunks(TOGETHER) {
            self.recover_jobs(items, jobs, results);
        }
        self.jobs = jobs;
    }

    fn recover_jobs(&mut self, items: &[RecoverItem], jobs: &[Job], results: &mut [Result<PublicKey, RecoverError>]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(lanes) = &mut self.lanes
            && jobs.len() >= OCTET_MIN
        {
            lanes.recover(&self.single, items, jobs, results);
            return;
        }
        for job in jobs {
            results[job.index] = self.single.recover(&items[job.index]);
        }
    }
}

/// r and s in range?
fn check(index: usize, item: &RecoverItem, high_s: HighS) -> Result<Job, RecoverError> {
    let in_range = |x: &[u64; 4]| *x != [0; 4] && ORDER.contains(x);
    let (r, s) = (words_of(&item.r), words_of(&item.s));
    if !in_range(&r) {
        return Err(RecoverError::ROutOfRange);
    }
    if !in_range(&s) {
        return Err(RecoverError::SOutOfRange);
    }
    if high_s == HighS::Refuse && is_high(&s) {
        return Err(RecoverError::HighS);
    }
    Ok(Job { index, r, s, z: ORDER.reduce(words_of(&item.hash)) })
}

/// Eight signatures at a time.
#[cfg(target_arch = "x86_64")]
struct Lanes {
    sums: OctetSums,
    inverses: Vec<[u64; 4]>,
}

#[cfg(target_arch = "x86_64")]
impl Lanes {
    /// Returns `None` if the processor lacks the lanes' instructions.
    fn new() -> Option<Self> {
        Some(Self { sums: OctetSums::new()?, inverses: Vec::new() })
    }

    fn recover(
        &mut self,
        single: &Single,
        items: &[RecoverItem],
        jobs: &[Job],
        results: &mut [Result<PublicKey, RecoverError>],
    ) {
        let Self { sums, inverses } = self;
        ORDER.invert_all(jobs.iter().map(|job| &job.r), inverses);
        let (sums, points) = sums.compute(jobs.len(), |at, octet, lane| {
            let (job, inverse) = (&jobs[at], &inverses[at]);
            let u1 = ORDER.negate(&ORDER.mul(&job.z, inverse));
            let u2 = ORDER.mul(&job.s, inverse);
            octet.set(lane, &job.r, items[job.index].odd, &u1, &u2);
        });
        for ((jobs, sums), points) in jobs.chunks(8).zip(sums).zip(points) {
            for (l, job) in jobs.iter().enumerate() {
                results[job.index] = if sums.off_curve >> l & 1 == 1 {
                    Err(RecoverError::NoPoint)
                } else if sums.unknown >> l & 1 == 1 {
                    single.recover(&items[job.index])
                } else {
                    Ok(key(&points[l]))
                };
            }
        }
    }
}

fn key(point: &[[u64; 4]; 2]) -> PublicKey {
    let [x, y] = point.each_ref().map(bytes_of);
    std::array::from_fn(|i| if i < 32 { x[i] } else { y[i - 32] })
}
