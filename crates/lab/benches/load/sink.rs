//! The sink as a process: started, found, and ended with whoever started it.
//!
//! reads   its address, from the sink's output
//! writes  –

use std::io::{BufRead, BufReader, Read, stdin};
use std::process::{Child, Command, Stdio};

use hearth_tile::sys::thread::{allowed_cores, pin_to};

/// Keeps this thread, and all that it starts, on one core: the nth that there is.
pub fn pin(nth: usize) {
    let cores = allowed_cores().expect("the kernel tells the cores");
    pin_to(&[cores[nth % cores.len()]]).expect("a core that is allowed");
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
