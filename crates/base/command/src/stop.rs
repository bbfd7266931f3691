//! Requests to end, and their enforcement: Ctrl-C, SIGTERM, a closed terminal, a parent that has ended.
//!
//! reads   signals; the names of this process's threads
//! writes  a flag that loops check; the parts that did not stop, on standard error
//! memory  the names of threads
//!
//! Whatever a thread waits for, the process ends within [`GRACE`] of the first request. Durable state is on disk before
//! it is acknowledged, so ending in the middle is as safe as a kill. The exception is output that a command writes only
//! at its end, such as a report: the process waits while its [`Save`] makes progress.

use std::io::{Error, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// From the first request to end until the process ends, whatever happens.
pub const GRACE: Duration = Duration::from_secs(10);
/// After this long, work that only waits for results is asked to give up, as by a second Ctrl-C.
const HURRY: Duration = Duration::from_secs(6);
/// How long the last message may take: standard error may be a pipe that nothing reads.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How often to look for the parent.
const PARENT_LOOK: Duration = Duration::from_millis(200);
/// So long an orphan may tidy up.
const ORPHAN_GRACE: Duration = Duration::from_secs(4);
/// The shell's exit code for SIGINT.
const INTERRUPTED: i32 = 130;
/// Exit code of a process that did not stop in time.
const NOT_STOPPED: i32 = 1;

/// How often to look whether a save is done.
const SAVE_LOOK: Duration = Duration::from_millis(50);

/// Returns the parts that have not stopped.
type Explain = Box<dyn Fn() -> Vec<String> + Send>;

/// The signal of this process, for code that detects a closed terminal.
static INSTALLED: OnceLock<StopSignal> = OnceLock::new();
/// Whether this process keeps running without a reader.
static GOES_ON: AtomicBool = AtomicBool::new(false);

/// Set by Ctrl-C, SIGTERM, or SIGHUP unless that is ignored, as under `nohup`.
#[derive(Clone, Default)]
pub struct StopSignal {
    set: Arc<AtomicBool>,
    presses: Arc<AtomicUsize>,
    /// Starts the clock of the watchdog.
    begun: Option<SyncSender<()>>,
    explain: Arc<Mutex<Option<Explain>>>,
    unsaved: Arc<Mutex<Option<UnsavedData>>>,
    /// The thread that waits for it.
    waiter: Arc<Mutex<Option<Thread>>>,
}

/// Data that would be lost if the process ended now.
struct UnsavedData {
    what: &'static str,
    /// How long it may make no progress.
    patience: Duration,
    progress: Instant,
}

/// Keeps the process from being ended before something is written, until it is dropped.
pub struct Save(Arc<Mutex<Option<UnsavedData>>>);

impl Save {
    /// It is further than before.
    pub fn progress(&self) {
        if let Some(unsaved) = self.0.lock().as_mut() {
            unsaved.progress = Instant::now();
        }
    }
}

impl Drop for Save {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl StopSignal {
    /// Installs handlers for these signals. The third signal ends the process at once.
    pub fn install() -> std::io::Result<Self> {
        let cannot = |error: Error| Error::new(error.kind(), format!("cannot start the threads of signals: {error}"));
        Self::installed().map_err(cannot)
    }

    fn installed() -> std::io::Result<Self> {
        let (begun, begins) = sync_channel(1);
        let signal = Self { begun: Some(begun), ..Self::default() };
        let watched = signal.clone();
        std::thread::Builder::new().name("watchdog".into()).spawn(move || watched.see_to_the_end(&begins))?;
        let hangs_up = Some(SIGHUP).filter(|_| !is_ignored(SIGHUP));
        let exit_at = Arc::new(AtomicBool::new(false));
        let numbers: Vec<i32> = [SIGINT, SIGTERM].into_iter().chain(hangs_up).collect();
        for &number in &numbers {
            signal_hook::flag::register_conditional_shutdown(number, INTERRUPTED, exit_at.clone())?;
        }
        let mut signals = signal_hook::iterator::Signals::new(numbers)?;
        let asked = signal.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for (before, _) in signals.forever().enumerate() {
                asked.press();
                exit_at.store(before >= 1, Ordering::Release);
            }
        })?;
        let _ = INSTALLED.set(signal.clone());
        Ok(signal)
    }

    /// Ends the process where it has not ended in time.
    fn see_to_the_end(&self, begins: &Receiver<()>) {
        if begins.recv().is_err() {
            return;
        }
        let asked = Instant::now();
        std::thread::sleep(HURRY);
        self.presses.fetch_add(1, Ordering::AcqRel);
        std::thread::sleep(GRACE.saturating_sub(asked.elapsed()));
        if self.wait_for_save(asked) {
            // After the save the rest of the shutdown gets its full grace period.
            std::thread::sleep(GRACE);
        }
        let seconds = asked.elapsed().as_secs();
        let parts = self.explain.try_lock().and_then(|explain| explain.as_ref().map(|explain| explain()));
        let left = unstopped(parts.unwrap_or_default(), threads());
        last_words(format!("error: not stopped within {seconds} s, and ended as by a kill: {left}"));
        signal_hook::low_level::exit(NOT_STOPPED);
    }

    /// Waits while a save makes progress, or may still make some; whether one was under way and has ended.
    fn wait_for_save(&self, asked: Instant) -> bool {
        let unsaved = || {
            let unsaved = self.unsaved.lock();
            unsaved.as_ref().map(|unsaved| (unsaved.what, unsaved.progress.max(asked) + unsaved.patience))
        };
        let Some((what, _)) = unsaved() else { return false };
        last_words(format!("{what} is not written yet; a third Ctrl-C ends the process without it"));
        while let Some((_, until)) = unsaved() {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(SAVE_LOOK);
        }
        true
    }

    /// Until the guard is dropped, the process is not forced to end while `what` makes progress, with at most
    /// `patience` between two steps. Only one save may be active.
    pub fn save(&self, what: &'static str, patience: Duration) -> Save {
        let unsaved = UnsavedData { what, patience, progress: Instant::now() };
        *self.unsaved.lock() = Some(unsaved);
        Save(Arc::clone(&self.unsaved))
    }

    /// Sets the signal when this parent ends, however it ends; a process that does not stop in time is then forced to
    /// end.
    pub fn set_when_orphaned(&self, parent: u32) -> std::io::Result<()> {
        let signal = self.clone();
        let watch = move || {
            let is_there = || rustix::process::getppid().is_some_and(|now| now.as_raw_pid() as u32 == parent);
            while is_there() {
                std::thread::sleep(PARENT_LOOK);
            }
            signal.set();
            std::thread::sleep(ORPHAN_GRACE);
            signal_hook::low_level::exit(INTERRUPTED);
        };
        std::thread::Builder::new().name("parent".into()).spawn(watch).map(|_| ())
    }

    /// Names the parts that have not stopped, should the process not end in time.
    pub fn explain(&self, parts: impl Fn() -> Vec<String> + Send + 'static) {
        *self.explain.lock() = Some(Box::new(parts));
    }

    /// Stops as the first Ctrl-C does.
    pub fn set(&self) {
        self.set.store(true, Ordering::Release);
        self.waiter.lock().iter().for_each(Thread::unpark);
        // The watchdog waits for the first alone.
        let _ = self.begun.as_ref().map(|begun| begun.try_send(()));
    }

    fn press(&self) {
        self.presses.fetch_add(1, Ordering::AcqRel);
        self.set();
    }

    /// Waits until the signal is set, at most `longest`; may return early. Only one thread may wait at a time.
    pub fn wait(&self, longest: Duration) {
        *self.waiter.lock() = Some(std::thread::current());
        // A thread that sets it from here on finds this one.
        if !self.is_set() {
            std::thread::park_timeout(longest);
        }
    }

    /// Whether the process should stop.
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Number of requests to stop; a while after the first, one is added.
    pub fn presses(&self) -> usize {
        self.presses.load(Ordering::Acquire)
    }
}

/// Keeps a command running without a reader: a node is there for others.
pub fn never_for_readers() {
    GOES_ON.store(true, Ordering::Relaxed);
}

/// Stops as at Ctrl-C where a write failed because its reader is gone: a pipe, or a terminal that was closed.
pub fn at_end_of_reader(written: &std::io::Result<()>) {
    let is_gone = |error: &Error| error.kind() == ErrorKind::BrokenPipe;
    at_hang_up(written);
    if written.as_ref().is_err_and(is_gone) {
        stop_without_reader();
    }
}

/// Sets the signal if a write failed because the terminal was closed. SIGHUP may not arrive: it goes only to processes
/// of the terminal's own session.
pub fn at_hang_up(written: &std::io::Result<()>) {
    const EIO: i32 = 5;
    if written.as_ref().is_err_and(|error| error.raw_os_error() == Some(EIO)) {
        stop_without_reader();
    }
}

/// Sets the signal if standard error was a terminal and no longer is: the terminal was closed, and the drawing code
/// does not report failed writes.
pub fn at_closed_terminal() {
    if !std::io::stderr().is_terminal() {
        stop_without_reader();
    }
}

fn stop_without_reader() {
    if let Some(signal) = INSTALLED.get().filter(|_| !GOES_ON.load(Ordering::Relaxed)) {
        signal.set();
    }
}

/// Writes a line, if standard error accepts it soon.
pub fn last_words(text: String) {
    let (said, done) = sync_channel(1);
    let say = move || {
        let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
        let _ = said.send(());
    };
    if std::thread::Builder::new().name("last words".into()).spawn(say.clone()).is_ok() {
        // Without an answer, standard error is blocked.
        let _ = done.recv_timeout(LAST_WORDS);
    } else {
        say();
    }
}

/// The names of the threads of this process, but for those of this module; the first is the main thread's.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
    let main = std::process::id();
    // Numbers come round: a thread's may be lower than that of the process.
    numbers.sort_unstable_by_key(|number| (*number != main, *number));
    let name = |number: u32| match number == main {
        true => Some("the main thread".to_owned()),
        false => Some(std::fs::read_to_string(format!("/proc/self/task/{number}/comm")).ok()?.trim().to_owned()),
    };
    numbers.into_iter().filter_map(name).collect()
}

/// Describes the parts that have not stopped.
fn unstopped(parts: Vec<String>, threads: Vec<String>) -> String {
    const OWN: [&str; 4] = ["signals", "watchdog", "parent", "last words"];
    let mut named: Vec<(String, usize)> = vec![];
    for thread in threads.into_iter().filter(|thread| !OWN.contains(&thread.as_str())) {
        match named.iter_mut().find(|(name, _)| *name == thread) {
            Some((_, count)) => *count += 1,
            None => named.push((thread, 1)),
        }
    }
    let text = |(name, count): &(String, usize)| match count {
        1 => name.clone(),
        _ => format!("{name} ({count} times)"),
    };
    let threads: Vec<String> = named.iter().map(text).collect();
    match (parts.is_empty(), threads.is_empty()) {
        (true, true) => "nothing of this process says why".into(),
        (true, false) => format!("threads {}", threads.join(", ")),
        (false, _) => format!("{}; threads {}", parts.join(", "), threads.join(", ")),
    }
}

/// Whether this process was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unstopped_part_is_named() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        let threads = names(&["the main thread", "signals", "rpc", "watchdog", "rpc", "core 1"]);
        assert_eq!(unstopped(vec![], threads.clone()), "threads the main thread, rpc (2 times), core 1");
        let text = unstopped(names(&["tile bank:0"]), threads);
        assert_eq!(text, "tile bank:0; threads the main thread, rpc (2 times), core 1");
        assert_eq!(unstopped(vec![], names(&["signals"])), "nothing of this process says why");
    }

    #[test]
    fn a_save_is_waited_for_while_it_makes_progress() {
        let signal = StopSignal::default();
        let asked = Instant::now();
        assert!(!signal.wait_for_save(asked), "nothing is unsaved");
        let save = signal.save("the report", Duration::from_secs(3_600));
        let written = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let written = &written;
            scope.spawn(move || {
                save.progress();
                written.store(true, Ordering::Release);
                drop(save);
            });
            signal.wait_for_save(asked);
            assert!(written.load(Ordering::Acquire));
        });
        let stuck = signal.save("the report", Duration::ZERO);
        assert!(!signal.wait_for_save(asked), "its patience is over");
        drop(stuck);
    }

    #[test]
    fn set_wakes_the_waiting_thread() {
        let signal = StopSignal::default();
        let asked = Instant::now();
        let longest = Duration::from_secs(60);
        std::thread::scope(|scope| {
            let setter = signal.clone();
            scope.spawn(move || setter.set());
            while !signal.is_set() {
                signal.wait(longest);
            }
        });
        signal.wait(longest);
        assert!(asked.elapsed() < longest, "it has not waited for as long as it might");
    }

    #[test]
    fn threads_are_listed_by_name() {
        let (end, ended) = sync_channel::<()>(0);
        let (begin, begun) = sync_channel(1);
        // A thread has its name when its work begins.
        let work = move || {
            begin.send(()).unwrap();
            ended.recv()
        };
        let thread = std::thread::Builder::new().name("a test thread".into()).spawn(work).unwrap();
        begun.recv().unwrap();
        let listed = threads();
        assert_eq!(listed.first().map(String::as_str), Some("the main thread"));
        assert!(listed.iter().any(|name| name == "a test thread"), "{listed:?}");
        drop(end);
        assert!(thread.join().unwrap().is_err());
    }
}
