//! Panic policy: a panic ends the process, with one line and an exit code.
//!
//! reads   the panic, and the name of the panicking thread
//! writes  standard error
//!
//! A process that has lost a thread is half alive: it may serve without making blocks, or the reverse. Durable state is
//! on disk before it is acknowledged, so an immediate exit is as safe as a kill. Two kinds of panic end no process: a
//! tile's panic stops its node in order, and a panic while answering a client ends that client's request only.

use std::panic::PanicHookInfo;

use hearth_command::stop;

/// Same exit code as Rust's default panic.
const PANICKED: i32 = 101;
/// Threads where a panic ends only the request being answered.
const SERVERS: [&str; 2] = ["rpc", "web3"];
/// How the panics begin of tokio and of the standard library where the system gives no thread, or no stack for its
/// signals.
const NO_THREADS: [&str; 3] =
    ["OS can't spawn worker thread", "failed to spawn thread", "failed to allocate an alternative stack"];
/// More than a backtrace takes: it maps the program's file and its symbols.
const BACKTRACE_BYTES: usize = 512 << 20;

/// Ends the process at a panic that is not caught. Must come before any thread.
pub fn install() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let name = std::thread::current().name().map(str::to_owned);
        if is_survived(name.as_deref(), message(panic)) {
            return usual(panic);
        }
        let is_asked = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
        if is_asked && has_memory_for_backtrace() {
            usual(panic);
        }
        stop::last_words(line(name.as_deref(), panic));
        signal_hook::low_level::exit(PANICKED);
    }));
}

/// Returns whether a backtrace can be printed. The standard library holds a lock meanwhile, takes it again to report an
/// allocation that fails, and so would wait for itself.
fn has_memory_for_backtrace() -> bool {
    Vec::<u8>::new().try_reserve_exact(BACKTRACE_BYTES).is_ok()
}

/// Returns whether the process survives: the panic is caught, and nothing waits for the thread's work.
fn is_survived(thread: Option<&str>, message: &str) -> bool {
    let answers = thread.is_some_and(|name| SERVERS.contains(&name));
    // The server's runtime has lost one of its threads.
    let is_without_threads = NO_THREADS.iter().any(|begins| message.starts_with(begins));
    hearth_tile::panics::is_caught() || (answers && !is_without_threads && !hearth_svm::is_executing())
}

fn message<'a>(panic: &'a PanicHookInfo<'_>) -> &'a str {
    panic.payload_as_str().unwrap_or("a panic without a message")
}

fn line(thread: Option<&str>, panic: &PanicHookInfo<'_>) -> String {
    let at = panic.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
    words(thread, message(panic), &at)
}

fn words(thread: Option<&str>, message: &str, at: &str) -> String {
    if NO_THREADS.iter().any(|begins| message.starts_with(begins)) {
        return "error: cannot start another thread: the limit on processes (`ulimit -u`) or on memory (`ulimit -v`) \
                is too low"
            .into();
    }
    let message = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    format!("error: thread {} panicked: {message}{at}", thread.unwrap_or("without a name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_line() {
        let line = words(Some("gossip"), "assertion failed\n  left: 1\n right: 2", " (a.rs:7)");
        assert_eq!(line, "error: thread gossip panicked: assertion failed left: 1 right: 2 (a.rs:7)");
        let os = "failed to spawn thread: Os { code: 11, kind: WouldBlock, message: \"…\" }";
        let line = words(Some("main"), os, "");
        assert!(line.starts_with("error: cannot start another thread: ") && line.contains("ulimit -u"), "{line}");
    }

    #[test]
    fn a_request_may_fail_and_a_thread_may_not() {
        assert!(is_survived(Some("rpc"), "index out of bounds") && is_survived(Some("web3"), ""));
        assert!(!is_survived(Some("rpc"), "OS can't spawn worker thread: Resource temporarily unavailable"));
        for thread in [Some("main"), Some("gossip"), Some("sequencer"), None] {
            assert!(!is_survived(thread, "index out of bounds"), "{thread:?}");
        }
        assert!(hearth_tile::panics::catch(|| is_survived(Some("core 1"), "a tile")).unwrap());
    }
}
