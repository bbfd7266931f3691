//! The observers: a monitor on a terminal, a browser on the dashboard, and a scraper once per second.
//!
//! reads   the CPU time of their processes
//! writes  an unseen terminal; a folder for the browser
//!
//! Dropping them ends every process.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hearth_rpc_client::http::{self, Patience};
use parking_lot::Mutex;

use super::bench::{Bench, threads};
use super::median;
use crate::node::wait_for;
use crate::rpc;

/// Prometheus' way, once a second.
const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// The dashboard's stream is given up where nothing comes for so long.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The observers of one window.
pub struct Observers {
    monitor: Group,
    browser: Option<Group>,
    ended: Arc<AtomicBool>,
    scrapes: Arc<Mutex<Vec<f64>>>,
}

impl Observers {
    /// Starts every observer, and waits until the dashboard's stream is open.
    pub fn attach(binary: &Path, browser: Option<&str>, folder: &Path, bench: &Bench) -> Result<Self, String> {
        let ended = Arc::new(AtomicBool::new(false));
        let scrapes = Arc::new(Mutex::new(Vec::new()));
        // `script` provides a terminal; its input stays open while it runs.
        let mut monitor = Command::new("script");
        let watch =
            format!("stty cols 160 rows 48; exec '{}' monitor --config '{}'", binary.display(), bench.config.display());
        monitor.args(["-q", "-e", "-c", &watch, "/dev/null"]);
        let page = format!("http://127.0.0.1:{}/dashboard", bench.port);
        let browser = match browser {
            Some(browser) => Some(Group::start(&mut headless(browser, folder, &page))?),
            None => {
                read_stream(bench.port, &ended)?;
                None
            }
        };
        let observers = Self { monitor: Group::start(&mut monitor)?, browser, ended, scrapes };
        let is_open = || {
            let metrics = bench.metrics().ok()?;
            metrics.contains("hearth_rpc_dashboards_open{service=\"rpc\"} 1").then_some(())
        };
        wait_for("the dashboard's stream", Duration::from_secs(60), is_open)?;
        observers.scrape(bench.port + 2);
        Ok(observers)
    }

    /// CPU time so far of the monitor and of the browser, nanoseconds.
    pub fn cpu_ns(&self) -> (u64, u64) {
        (self.monitor.cpu_ns(), self.browser.as_ref().map_or(0, Group::cpu_ns))
    }

    /// The median time of a scrape.
    pub fn scrape_ms(&self) -> f64 {
        median(self.scrapes.lock().clone())
    }

    fn scrape(&self, port: u16) {
        let (ended, scrapes) = (self.ended.clone(), self.scrapes.clone());
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let begun = Instant::now();
                if rpc::get(Ipv4Addr::LOCALHOST, port, "/metrics").is_ok() {
                    scrapes.lock().push(begun.elapsed().as_secs_f64() * 1e3);
                }
                std::thread::sleep(SCRAPE_EVERY.saturating_sub(begun.elapsed()));
            }
        });
    }
}

impl Drop for Observers {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// A browser without a window that has opened the page and stays.
fn headless(browser: &str, folder: &Path, page: &str) -> Command {
    let mut command = Command::new(browser);
    command.arg(format!("--user-data-dir={}", folder.join("browser").display()));
    // A browser run by root has no sandbox; it opens only our page on loopback.
    if fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
        command.arg("--no-sandbox");
    }
    command.args(["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    command.args(["--window-size=1280,900", "--remote-debugging-port=0", page]);
    command
}

/// Reads the dashboard's stream where there is no browser.
fn read_stream(port: u16, ended: &Arc<AtomicBool>) -> Result<(), String> {
    let ended = ended.clone();
    let live = http::direct(Patience::Step(SILENCE_MAX)).get(&format!("http://127.0.0.1:{port}/dashboard/live")).call();
    let live = live.map_err(|error| format!("no dashboard: {}", http::why(&error)))?;
    let lines = BufReader::new(live.into_body().into_reader()).lines();
    std::thread::spawn(move || {
        let _ = lines.map_while(Result::ok).find(|_| ended.load(Ordering::Relaxed));
    });
    Ok(())
}

/// A program and its descendants, which end with it.
struct Group(Child);

impl Group {
    fn start(command: &mut Command) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let name = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Self).map_err(|error| format!("cannot start {name}: {error}"))
    }

    fn cpu_ns(&self) -> u64 {
        family(self.0.id()).into_iter().flat_map(threads).map(|(_, ns)| ns).sum()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The whole process tree, since some members may have process groups of their own.
        let pids: Vec<String> = family(self.0.id()).iter().map(u32::to_string).collect();
        let _ = Command::new("kill").arg("-KILL").args(pids).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

/// A process and its descendants.
fn family(root: u32) -> Vec<u32> {
    let parents: BTreeMap<u32, u32> =
        fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(parent).collect();
    let is_of = |pid: u32| {
        let line = std::iter::successors(Some(pid), |pid| parents.get(pid).copied());
        line.take(parents.len()).any(|pid| pid == root)
    };
    parents.keys().copied().filter(|pid| is_of(*pid)).collect()
}

fn parent(process: fs::DirEntry) -> Option<(u32, u32)> {
    let pid = process.file_name().to_str()?.parse().ok()?;
    let stat = fs::read_to_string(process.path().join("stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    Some((pid, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_children_and_ends_with_its_head() {
        let group = Group::start(Command::new("sh").args(["-c", "sleep 600 & sleep 600"])).unwrap();
        let found = || Some(family(group.0.id())).filter(|found| found.len() == 3);
        let all = wait_for("both children", Duration::from_secs(10), found).unwrap();
        drop(group);
        let left =
            || all.iter().all(|pid| !Path::new(&format!("/proc/{pid}/stat")).exists() || is_ended(*pid)).then_some(());
        wait_for("their end", Duration::from_secs(10), left).unwrap();
    }

    /// A zombie counts as ended: it only waits for its new parent.
    fn is_ended(pid: u32) -> bool {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    }
}
