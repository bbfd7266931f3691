//! The scores of `polkadot benchmark machine`: the same bytes, the same work per call, the same clock.
//!
//! writes  an unlinked file of 64 MiB in the measured folder
//! memory  128 MiB for the copy, 64 MiB for the written data
//! source  behaviour of frame-benchmarking-cli 64.0.0, sc-sysinfo 51.0.0, sp-core 43.0.0

use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use hearth_tile::sys::disk;
use schnorrkel::{ExpansionMode, Keypair, MiniSecretKey, PublicKey, Signature};

use super::measure::{Measurement, Slice, measure};
use super::{ScoreError, ScoreResult};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// Size of the file of both disk scores.
const FILE_BYTES: usize = 64 * MIB;
/// Threads of the parallel score.
pub const THREADS: usize = 8;
/// Signatures verified per call, as in Substrate.
const SIGNATURES: usize = 2048;
/// Bytes of a signed message; only these count.
const MESSAGE_BYTES: usize = 32;
/// Distance between the starts of two random writes, and size of each.
const SLOT_BYTES: usize = 4 * KIB;
const WRITE_BYTES: usize = 2 * KIB;
/// The signing context of Substrate.
const CONTEXT: &[u8] = b"substrate";
/// The secret of the well-known development account `//Alice`.
const ALICE: [u8; 32] = [
    0xe5, 0xbe, 0x9a, 0x50, 0x92, 0xb8, 0x1b, 0xca, 0x64, 0xbe, 0x81, 0xd2, 0x12, 0xe7, 0xf2, 0xf9, 0xeb, 0xa1, 0x83,
    0xbb, 0x7a, 0x90, 0x95, 0x4f, 0x7b, 0x76, 0x36, 0x1f, 0x6e, 0xdb, 0x5c, 0x0a,
];

/// BLAKE2-256 of 32 KiB per call.
pub fn blake2_256(limit: Duration, is_stopped: &dyn Fn() -> bool) -> ScoreResult {
    let buffer = vec![0x66; 32 * KIB];
    let mut params = blake2b_simd::Params::new();
    params.hash_length(32);
    measure(buffer.len() as f64, limit, is_stopped, || {
        black_box(params.hash(black_box(&buffer)));
        Ok(())
    })
}

/// The same on eight threads that start together: the mean of their scores.
pub fn blake2_256_parallel(limit: Duration, is_stopped: &(dyn Fn() -> bool + Sync)) -> ScoreResult {
    let (there, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one = || {
        there.fetch_add(1, Ordering::AcqRel);
        while there.load(Ordering::Acquire) < THREADS {
            if failed.load(Ordering::Acquire) > 0 {
                return Ok(None);
            }
            thread::yield_now();
        }
        blake2_256(limit, is_stopped)
    };
    let all: Vec<ScoreResult> = thread::scope(|scope| {
        let begun: Vec<_> = (0..THREADS).map(|_| thread::Builder::new().spawn_scoped(scope, one)).collect();
        failed.store(begun.iter().filter(|thread| thread.is_err()).count(), Ordering::Release);
        let ended = |thread: io::Result<thread::ScopedJoinHandle<'_, ScoreResult>>| match thread {
            Ok(thread) => thread.join().expect("hashing does not panic"),
            Err(source) => Err(ScoreError::System { what: "a thread", source }),
        };
        begun.into_iter().map(ended).collect()
    });
    let all: Option<Vec<Measurement>> = all.into_iter().collect::<Result<_, _>>()?;
    Ok(all.map(|all| mean(&all)))
}

fn mean(all: &[Measurement]) -> Measurement {
    let of = |value: &dyn Fn(&Measurement) -> f64| all.iter().map(value).sum::<f64>() / all.len() as f64;
    let cpu: Option<Vec<f64>> = all.iter().map(|one| one.cpu).collect();
    // They started together, so their nth half seconds were at about the same time.
    let slice = |at: usize| {
        let each = || all.iter().map(|one| one.slices[at]);
        let cpu: Option<Vec<f64>> = each().map(|slice| slice.cpu).collect();
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        Slice { wall: mean(&each().map(|slice| slice.wall).collect::<Vec<_>>()), cpu: cpu.map(|cpu| mean(&cpu)) }
    };
    Measurement {
        wall: of(&|one| one.wall),
        cpu: cpu.map(|cpu| cpu.iter().sum::<f64>() / cpu.len() as f64),
        slices: (0..all.iter().map(|one| one.slices.len()).min().unwrap_or_default()).map(slice).collect(),
        calls: all.iter().map(|one| one.calls).sum(),
    }
}

/// 2048 verifications per call, keys and signatures decoded each time; the score counts the messages' bytes.
pub fn sr25519_verify(limit: Duration, is_stopped: &dyn Fn() -> bool) -> ScoreResult {
    let pair = alice();
    let mut random = fastrand::Rng::with_seed(1);
    let signed: Vec<_> = (0..SIGNATURES)
        .map(|_| {
            let message: [u8; MESSAGE_BYTES] = std::array::from_fn(|_| random.u8(..));
            (message, pair.sign_simple(CONTEXT, &message).to_bytes())
        })
        .collect();
    let key = pair.public.to_bytes();
    measure((SIGNATURES * MESSAGE_BYTES) as f64, limit, is_stopped, || {
        let is_valid = signed.iter().all(|(message, signature)| verifies(&key, signature, message));
        is_valid.then_some(()).ok_or(ScoreError::Wrong("a valid SR25519 signature was refused"))
    })
}

fn alice() -> Keypair {
    let secret = MiniSecretKey::from_bytes(&ALICE).expect("32 bytes");
    secret.expand_to_keypair(ExpansionMode::Ed25519)
}

fn verifies(key: &[u8; 32], signature: &[u8; 64], message: &[u8]) -> bool {
    let (Ok(key), Ok(signature)) = (PublicKey::from_bytes(key), Signature::from_bytes(signature)) else { return false };
    key.verify_simple(CONTEXT, message, &signature).is_ok()
}

/// Copies 64 MiB per call, counted once.
pub fn copy(limit: Duration, is_stopped: &dyn Fn() -> bool) -> ScoreResult {
    let (from, mut to) = (vec![0x66u8; 64 * MIB], vec![0x77u8; 64 * MIB]);
    measure(from.len() as f64, limit, is_stopped, || {
        black_box(&mut to).copy_from_slice(black_box(&from));
        Ok(())
    })
}

/// Writes 64 MiB from the beginning of the file and syncs it, per call.
pub fn disk_sequential(folder: &Path, limit: Duration, is_stopped: &dyn Fn() -> bool) -> ScoreResult {
    let buffer = noise();
    let mut scratch = Scratch::new(folder)?;
    let path = scratch.path.clone();
    measure(buffer.len() as f64, limit, is_stopped, || {
        scratch.whole(&buffer).map_err(|source| ScoreError::Disk { path: path.clone(), source })
    })
}

/// Writes 2 KiB at each of 16384 places in random order and syncs, per call; only these bytes count.
pub fn disk_random(folder: &Path, limit: Duration, is_stopped: &dyn Fn() -> bool) -> ScoreResult {
    let buffer = noise();
    let mut scratch = Scratch::new(folder)?;
    let path = scratch.path.clone();
    let failed = |source| ScoreError::Disk { path: path.clone(), source };
    scratch.whole(&buffer).map_err(failed)?;
    let mut places: Vec<usize> = (0..FILE_BYTES / SLOT_BYTES).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut places);
    measure((places.len() * WRITE_BYTES) as f64, limit, is_stopped, || {
        scratch.scattered(&buffer, &places).map_err(failed)
    })
}

/// Bytes that no disk can compress.
fn noise() -> Vec<u8> {
    let mut bytes = vec![0; FILE_BYTES];
    fastrand::Rng::with_seed(1).fill(&mut bytes);
    bytes
}

/// An unlinked file: however the process ends, nothing is left.
struct Scratch {
    /// The folder that contains it.
    path: PathBuf,
    file: File,
}

impl Scratch {
    fn new(folder: &Path) -> Result<Self, ScoreError> {
        let failed = |source| ScoreError::Disk { path: folder.into(), source };
        let free = disk::space(folder).map_err(failed)?.free_bytes;
        has_room(folder, free)?;
        // Never overwrites an existing file, and two concurrent measurements use different names.
        let path = folder.join(format!(".hearth_tune_machine.{}.tmp", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
        fs::remove_file(&path).map_err(failed)?;
        Ok(Self { path: folder.into(), file })
    }

    fn whole(&mut self, buffer: &[u8]) -> io::Result<()> {
        self.file.write_all(buffer)?;
        self.file.sync_all()?;
        self.file.rewind()
    }

    fn scattered(&mut self, buffer: &[u8], places: &[usize]) -> io::Result<()> {
        for place in places {
            let at = place * SLOT_BYTES;
            self.file.seek(SeekFrom::Start(at as u64))?;
            self.file.write_all(&buffer[at..at + WRITE_BYTES])?;
        }
        self.file.sync_all()
    }
}

fn has_room(folder: &Path, free: u64) -> Result<(), ScoreError> {
    if free < FILE_BYTES as u64 {
        return Err(ScoreError::Full { path: folder.into(), free, needed: FILE_BYTES as u64 });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_hash_is_blake2b_of_32_bytes() {
        let digest = blake2b_simd::Params::new().hash_length(32).hash(b"");
        assert_eq!(hex(digest.as_bytes()), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    }

    #[test]
    fn alice_is_alice_and_verification_verifies() {
        let pair = alice();
        let key = pair.public.to_bytes();
        assert_eq!(hex(&key), "d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d");
        let signature = pair.sign_simple(CONTEXT, b"message").to_bytes();
        assert!(verifies(&key, &signature, b"message"));
        assert!(!verifies(&key, &signature, b"massage"));
        let mut other = signature;
        other[3] ^= 1;
        assert!(!verifies(&key, &other, b"message"));
    }

    #[test]
    fn eight_threads_have_the_mean_of_each() {
        let slice = |wall: f64| Slice { wall, cpu: Some(2.0 * wall) };
        let one = |wall: f64| Measurement { wall, cpu: Some(2.0 * wall), slices: vec![slice(wall); 2], calls: 5 };
        let both = mean(&[one(1.0), one(3.0)]);
        assert_eq!(both, Measurement { wall: 2.0, cpu: Some(4.0), slices: vec![slice(2.0); 2], calls: 10 });
        assert_eq!(mean(&[one(1.0), Measurement { cpu: None, ..one(1.0) }]).cpu, None);
        let stopped = blake2_256_parallel(Duration::from_secs(3600), &|| true);
        assert!(stopped.expect("no error").is_none());
    }

    #[test]
    fn each_score_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let scores = [
            blake2_256(SHORT, &|| false),
            blake2_256_parallel(SHORT, &|| false),
            sr25519_verify(SHORT, &|| false),
            copy(SHORT, &|| false),
            disk_sequential(folder.path(), SHORT, &|| false),
            disk_random(folder.path(), SHORT, &|| false),
        ];
        for score in scores {
            let score = score.expect("measured").expect("not stopped");
            assert!(score.calls > 0 && score.wall.is_finite() && score.wall > 0.0, "{score:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0, "the file is removed");
    }

    #[test]
    fn written_requirements_equal_the_given() {
        let folder = tempfile::tempdir().expect("a folder");
        let buffer = noise();
        let mut scratch = Scratch::new(folder.path()).expect("room");
        scratch.whole(&buffer).expect("written");
        let written = |file: &mut File| {
            let mut all = Vec::new();
            file.rewind().and_then(|()| file.read_to_end(&mut all)).expect("readable");
            file.rewind().expect("a file");
            all
        };
        assert!(written(&mut scratch.file) == buffer);
        // Another order of places with bytes from the same offsets: the file stays the same, and its holes are filled.
        scratch.file.set_len(0).expect("emptied");
        scratch.scattered(&buffer, &[3, 0]).expect("written");
        let found = written(&mut scratch.file);
        assert_eq!(found.len(), 3 * SLOT_BYTES + WRITE_BYTES);
        assert!(found[..WRITE_BYTES] == buffer[..WRITE_BYTES]);
        assert!(found[3 * SLOT_BYTES..] == buffer[3 * SLOT_BYTES..3 * SLOT_BYTES + WRITE_BYTES]);
        assert!(found[WRITE_BYTES..3 * SLOT_BYTES].iter().all(|byte| *byte == 0));
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0, "it has no name");
    }

    #[test]
    fn no_existing_file_is_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(format!(".hearth_tune_machine.{}.tmp", std::process::id()));
        fs::write(&path, "mine").expect("written");
        assert!(Scratch::new(folder.path()).is_err());
        assert_eq!(fs::read(&path).expect("there"), b"mine");
    }

    #[test]
    fn a_stop_leaves_no_file_and_a_full_disk_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let hour = Duration::from_secs(3600);
        assert!(disk_sequential(folder.path(), hour, &|| true).expect("no error").is_none());
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0);
        assert!(has_room(folder.path(), FILE_BYTES as u64).is_ok());
        let why = has_room(folder.path(), 7).expect_err("full").to_string();
        assert!(why.contains("7 bytes are free"), "{why}");
        assert!(disk_random(&folder.path().join("none"), hour, &|| true).is_err());
    }
}
