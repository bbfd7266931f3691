//! The sink process and its chain: starts it, learns its address, and ends it together with its parent.
//!
//! reads   its address, from the sink's output
//! writes  a block of the accepted transactions every 100 ms
//! memory  the transaction names

use std::io::{BufRead, BufReader, Read, stdin};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hearth_testkit::http::{Reply, answered};
use hearth_tile::sys::thread::{allowed_cores, pin_to};
use serde_json::Value;

/// Pins this thread, and every thread that it starts, to the nth available core.
pub fn pin(nth: usize) {
    let cores = allowed_cores().expect("the kernel tells the cores");
    pin_to(&[cores[nth % cores.len()]]).expect("a core that is allowed");
}

/// The time from one block to the next.
const BLOCK_EVERY: Duration = Duration::from_millis(100);

/// Blocks of transaction names.
pub struct Chain<T> {
    began: Instant,
    /// The complete blocks, from number 0.
    pub blocks: Vec<Vec<T>>,
    waiting: Vec<T>,
}

impl<T: Clone> Chain<T> {
    /// Starts with one empty block.
    pub fn new() -> Self {
        Self { began: Instant::now(), blocks: vec![vec![]], waiting: vec![] }
    }

    /// Makes the blocks that are due and returns the number of the last.
    pub fn advance(&mut self) -> usize {
        let due = (self.began.elapsed().as_millis() / BLOCK_EVERY.as_millis()) as usize;
        if self.blocks.len() <= due {
            self.blocks.push(std::mem::take(&mut self.waiting));
            self.blocks.resize(due + 1, vec![]);
        }
        self.blocks.len() - 1
    }

    /// Queues these transactions for the next block.
    pub fn take(&mut self, names: &mut Vec<T>) {
        self.advance();
        self.waiting.append(names);
    }
}

/// Answers a request. A method without a result gets an error.
pub fn answer(request: &[u8], result: impl Fn(&str, &Value) -> Option<Value>) -> Reply {
    let request = serde_json::from_slice(request).expect("JSON");
    let call = |method: &str, params: &Value| result(method, params).ok_or((-32601, "not here".into()));
    Reply::Answer(answered(&request, call).to_string())
}

/// A running sink process.
pub struct Sink {
    process: Child,
    /// URL of its RPC server.
    pub url: String,
}

impl Sink {
    /// Starts this program again as the sink with this name.
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

/// Runs in the sink process: prints its URL and returns when the parent closes standard input.
pub fn live(url: &str) {
    println!("{url}");
    let _ = stdin().read(&mut [0]);
}
