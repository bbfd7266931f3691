//! The sink as a process: started, found, and ended with whoever started it; and its chain.
//!
//! reads   its address, from the sink's output
//! writes  a block of what was taken every 100 ms
//! memory  the names of transactions

use std::io::{BufRead, BufReader, Read, stdin};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hearth_testkit::http::{Reply, answered};
use hearth_tile::sys::thread::{allowed_cores, pin_to};
use serde_json::Value;

/// Keeps this thread, and all that it starts, on one core: the nth that there is.
pub fn pin(nth: usize) {
    let cores = allowed_cores().expect("the kernel tells the cores");
    pin_to(&[cores[nth % cores.len()]]).expect("a core that is allowed");
}

/// Time between blocks.
const BLOCK_EVERY: Duration = Duration::from_millis(100);

/// Blocks of the names of transactions.
pub struct Chain<T> {
    began: Instant,
    /// Those that are whole, from number 0.
    pub blocks: Vec<Vec<T>>,
    waiting: Vec<T>,
}

impl<T: Clone> Chain<T> {
    /// With a block that has nothing.
    pub fn new() -> Self {
        Self { began: Instant::now(), blocks: vec![vec![]], waiting: vec![] }
    }

    /// Makes the blocks that time has come for; the number of the last.
    pub fn advance(&mut self) -> usize {
        let due = (self.began.elapsed().as_millis() / BLOCK_EVERY.as_millis()) as usize;
        if self.blocks.len() <= due {
            self.blocks.push(std::mem::take(&mut self.waiting));
            self.blocks.resize(due + 1, vec![]);
        }
        self.blocks.len() - 1
    }

    /// Takes these, which the next block has.
    pub fn take(&mut self, names: &mut Vec<T>) {
        self.advance();
        self.waiting.append(names);
    }
}

/// The answers to a request; what has no result is refused.
pub fn answer(request: &[u8], result: impl Fn(&str, &Value) -> Option<Value>) -> Reply {
    let request = serde_json::from_slice(request).expect("JSON");
    let call = |method: &str, params: &Value| result(method, params).ok_or((-32601, "not here".into()));
    Reply::Answer(answered(&request, call).to_string())
}

/// A sink that runs.
pub struct Sink {
    process: Child,
    /// Where its RPC is.
    pub url: String,
}

impl Sink {
    /// Starts this program again as the sink of this name.
    pub fn start(name: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts");
        let mut url = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut url).expect("the sink tells its address");
        Self { process, url: url.trim().into() }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// The sink's side: tells where it is, and lives as long as whoever started it.
pub fn live(url: &str) {
    println!("{url}");
    let _ = stdin().read(&mut [0]);
}
