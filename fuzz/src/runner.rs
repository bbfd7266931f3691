//! The stable engine: replays the corpus, then tries seeded mutations until the time is up.
//!
//! reads   the corpus; the clock; the CPU time of threads, `/proc/PID/task/TID/schedstat`
//! writes  the first input of each target that breaks a property, into `fuzz/artifacts/TARGET`; to standard error the
//!         command that runs it again
//! memory  a target's corpus, and an input per thread
//!
//! An input on which its thread computes for longer than [`HANG`] counts as a failure, and so does one that has not
//! ended after [`STALL`]: it is written, and the process ends, since a thread cannot be stopped. Computing is measured
//! in CPU time, so a busy machine makes no failure. The sequence of inputs depends on seed and target alone, so a
//! process that a target brings down (by a stack overflow, or for lack of memory) does the same again with the printed
//! seed.

use std::any::Any;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::Target;
use crate::mutate::Mutator;

/// CPU time that the thread of an input may take.
pub const HANG: Duration = Duration::from_secs(120);
/// An input may take this long by the clock: its thread may wait for something that never comes.
pub const STALL: Duration = Duration::from_secs(30 * 60);
/// Stack of the threads that run targets: as much as the main thread has by default.
const STACK_BYTES: usize = 8 << 20;
/// How often it is checked whether an input hangs.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A property that does not hold.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Name of the target.
    pub target: &'static str,
    /// The file with the input.
    pub input: PathBuf,
    /// The message of the panic.
    pub why: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { target, input, why } = self;
        write!(f, "{target}: {why}\n  again: HEARTH_FUZZ_TARGET={target} HEARTH_FUZZ_INPUT={} ", input.display())?;
        f.write_str("cargo test --release --workspace --test fuzz")
    }
}

/// The work that was done on a target.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Name of the target.
    pub target: &'static str,
    /// Number of inputs that it ran.
    pub inputs: u64,
    /// The slowest of them.
    pub slowest: Duration,
}

/// The time and the chance of a run of mutations.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed from which all mutations follow.
    pub seed: u64,
    /// Time of all targets together; each has an equal part.
    pub time: Duration,
    /// Targets that run at once.
    pub threads: usize,
}

/// The folder of the package, which holds the corpus.
pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The committed inputs of a target with their paths, by name.
///
/// # Panics
/// A file cannot be read.
pub fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = package().join("corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a folder's entry").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// The bytes of an input's file.
///
/// # Panics
/// It cannot be read.
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a target on inputs of files.
///
/// # Errors
/// The first input that breaks a property.
pub fn replay(target: &'static Target, inputs: &[(PathBuf, Vec<u8>)]) -> Result<Summary, Broken> {
    let mut summary = Summary { target: target.name, inputs: 0, slowest: Duration::ZERO };
    let run = |progress: &Progress| -> Result<(), Broken> {
        for (path, input) in inputs {
            let broken = |why| Broken { target: target.name, input: path.clone(), why };
            check(target, input, progress, &mut summary).map_err(broken)?;
        }
        Ok(())
    };
    in_threads(1, vec![run]).pop().expect("one result of one thread").map(|()| summary)
}

/// Tries mutations of each target's corpus.
///
/// # Errors
/// The first input of each target that breaks a property. It is in `fuzz/artifacts` then.
pub fn mutate(targets: &[&'static Target], plan: Plan) -> Result<Vec<Summary>, Vec<Broken>> {
    let each = plan.time / u32::try_from(targets.len()).expect("targets are few").max(1);
    let Plan { seed, threads, .. } = plan;
    let job = |target| move |progress: &Progress| mutate_one(target, seed, each, progress);
    let results = in_threads(threads, targets.iter().copied().map(job).collect());
    let (mut summaries, mut broken) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(summary) => summaries.push(summary),
            Err(why) => broken.push(why),
        }
    }
    if broken.is_empty() { Ok(summaries) } else { Err(broken) }
}

fn mutate_one(target: &'static Target, seed: u64, time: Duration, progress: &Progress) -> Result<Summary, Broken> {
    let corpus: Vec<Vec<u8>> = corpus(target.name).into_iter().map(|(_, bytes)| bytes).collect();
    let mut mutator = Mutator::new(seed ^ hash(target.name.as_bytes()), &corpus, target.tokens);
    let mut summary = Summary { target: target.name, inputs: 0, slowest: Duration::ZERO };
    let (mut input, start) = (Vec::new(), Instant::now());
    loop {
        mutator.next(&mut input);
        if let Err(why) = check(target, &input, progress, &mut summary) {
            return Err(Broken { target: target.name, input: keep(target.name, &input), why });
        }
        if start.elapsed() >= time {
            return Ok(summary);
        }
    }
}

/// Runs one input; the error is the message of its panic.
fn check(target: &Target, input: &[u8], progress: &Progress, summary: &mut Summary) -> Result<(), String> {
    let start = progress.begin(target.name, input);
    let result = catch_unwind(|| (target.run)(input)).map_err(|cause| message(&*cause));
    progress.end();
    summary.inputs += 1;
    summary.slowest = summary.slowest.max(start.elapsed());
    result
}

fn message(cause: &(dyn Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

/// Writes an input that breaks a property.
fn keep(target: &str, input: &[u8]) -> PathBuf {
    let folder = package().join("artifacts").join(target);
    let path = folder.join(format!("broken-{:016x}", hash(input)));
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

/// FNV-1a, for names of files and seeds of targets.
fn hash(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The input that a thread is running.
#[derive(Default)]
struct Progress(Mutex<Watched>);

#[derive(Default)]
struct Watched {
    /// The file in which the kernel says how long the thread has run.
    times: Option<PathBuf>,
    running: Option<Running>,
}

struct Running {
    target: &'static str,
    input: Vec<u8>,
    since: Instant,
    /// The thread's CPU time when the input was first looked at.
    ran_before: Option<Duration>,
}

impl Progress {
    /// Says that the calling thread is the one that runs the inputs.
    fn enter(&self) {
        let own = std::fs::read_link("/proc/thread-self").ok();
        self.0.lock().times = own.map(|own| Path::new("/proc").join(own).join("schedstat"));
    }

    fn begin(&self, target: &'static str, input: &[u8]) -> Instant {
        let since = Instant::now();
        self.0.lock().running = Some(Running { target, input: input.to_vec(), since, ran_before: None });
        since
    }

    fn end(&self) {
        self.0.lock().running = None;
    }

    /// Ends the process if the input hangs.
    fn look(&self) {
        let mut watched = self.0.lock();
        let Watched { times, running } = &mut *watched;
        let Some(running) = running else { return };
        let ran = times.as_deref().and_then(ran);
        running.ran_before = running.ran_before.or(ran);
        let spent = ran.zip(running.ran_before).map_or(Duration::ZERO, |(ran, before)| ran.saturating_sub(before));
        let Some(why) = hangs(spent, running.since.elapsed()) else { return };
        let input = keep(running.target, &running.input);
        eprintln!("{}", Broken { target: running.target, input, why });
        std::process::exit(101);
    }
}

/// Returns the CPU time of a thread so far; `None` if the kernel does not say.
fn ran(times: &Path) -> Option<Duration> {
    let text = std::fs::read_to_string(times).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Returns why an input counts as a failure on which its thread has spent this CPU time, and which began so long ago.
pub fn hangs(spent: Duration, elapsed: Duration) -> Option<String> {
    if spent > HANG {
        return Some(format!("an input takes more than {} s of CPU time", HANG.as_secs()));
    }
    (elapsed > STALL).then(|| format!("an input has not ended after {} s", STALL.as_secs()))
}

/// Runs jobs on threads of their own, and watches them. Results are in the order of the jobs.
fn in_threads<T: Send, J: FnOnce(&Progress) -> T + Send>(threads: usize, jobs: Vec<J>) -> Vec<T> {
    let count = jobs.len();
    let jobs: Vec<Mutex<Option<J>>> = jobs.into_iter().map(|job| Mutex::new(Some(job))).collect();
    let results: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let progress: Vec<Progress> = (0..threads.clamp(1, count.max(1))).map(|_| Progress::default()).collect();
    let next = AtomicUsize::new(0);
    let work = |progress: &Progress| {
        while let Some(index) = Some(next.fetch_add(1, Relaxed)).filter(|index| *index < count) {
            let job = jobs[index].lock().take().expect("each index is taken once");
            *results[index].lock() = Some(job(progress));
        }
    };
    thread::scope(|scope| {
        let (done, ended) = channel::<()>();
        scope.spawn({
            let progress = &progress;
            move || watch(progress, &ended)
        });
        for progress in &progress {
            let (work, done) = (&work, done.clone());
            let run = move || {
                progress.enter();
                work(progress);
                drop(done);
            };
            let builder = thread::Builder::new().name("fuzz".into()).stack_size(STACK_BYTES);
            builder.spawn_scoped(scope, run).expect("a thread");
        }
    });
    results.into_iter().map(|result| result.into_inner().expect("each job has run")).collect()
}

/// Looks at the threads' inputs until the last of them has ended.
fn watch(progress: &[Progress], ended: &Receiver<()>) {
    while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        progress.iter().for_each(Progress::look);
    }
}
