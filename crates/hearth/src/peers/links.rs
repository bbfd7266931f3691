//! Emulated links: the file of their rules, and the way on which the node's threads send.
//!
//! reads   the file of rules, again when it has changed; datagrams of gossip, repair, votes and clients
//! writes  the rules, for the net tile too; the same datagrams, when they have come through
//! memory  see `hearth_cluster::links`; [`WAITING_MAX`] datagrams that are not looked at yet
//! drops   what links lose and what does not fit, as links that are full do; a file that is wrong leaves the rules as
//!         they were, and is said
//!
//! Only datagrams that this node sends are emulated: what it receives has been through the other node's links. TCP goes
//! as it does.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use hearth_cluster::links::{Datagram, Emulator, Links, Rule, Rules};
use serde::Deserialize;

use crate::say::note;

/// How often it is looked whether the file has changed.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Datagrams that wait for the thread.
const WAITING_MAX: usize = 4_096;
/// The longest delay, ms.
const DELAY_MAX_MS: f64 = 60_000.0;
/// What the links of the threads are drawn by, where net's tiles have their numbers.
const NAME: u64 = u64::MAX;

/// What can be wrong with a file of rules.
#[derive(Debug, thiserror::Error)]
pub enum LinksError {
    /// The file.
    #[error("cannot read {}: {source} (development.links_path)", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its text.
    #[error("{}: {why}", file.display())]
    Text {
        /// The file.
        file: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    to: Vec<To>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct To {
    address: Ipv4Addr,
    #[serde(default)]
    delay_ms: f64,
    #[serde(default)]
    jitter_ms: f64,
    #[serde(default)]
    loss: f64,
    rate_mbps: Option<f64>,
    #[serde(default)]
    cut: bool,
}

/// The rules in a file.
///
/// # Errors
/// It cannot be read, or is of another form.
pub fn read(file: &Path) -> Result<Rules, LinksError> {
    let text = std::fs::read_to_string(file).map_err(|source| LinksError::Read { file: file.into(), source })?;
    parse(&text).map_err(|why| LinksError::Text { file: file.into(), why })
}

fn parse(text: &str) -> Result<Rules, String> {
    let file: File = toml::from_str(text).map_err(|why| why.to_string().trim_end().to_owned())?;
    let mut rules = Rules { seed: file.seed, to: HashMap::new() };
    for to in file.to {
        let within = |key, value: f64, max| match (0.0..=max).contains(&value) {
            true => Ok(value),
            false => Err(format!("{}: {key} = {value}: from 0 to {max}", to.address)),
        };
        let ns = |key, ms| Ok::<u64, String>((within(key, ms, DELAY_MAX_MS)? * 1e6) as u64);
        if to.rate_mbps.is_some_and(|rate| rate.is_nan() || rate <= 0.0) {
            return Err(format!("{}: rate_mbps must be above 0", to.address));
        }
        let rule = Rule {
            delay_ns: ns("delay_ms", to.delay_ms)?,
            jitter_ns: ns("jitter_ms", to.jitter_ms)?,
            loss: within("loss", to.loss, 1.0)?,
            bytes_per_s: to.rate_mbps.map(|rate| rate * 1e6 / 8.0),
            is_cut: to.cut,
        };
        match rules.to.entry(to.address) {
            Entry::Vacant(entry) => drop(entry.insert(rule)),
            Entry::Occupied(_) => return Err(format!("{}: there are two rules for it", to.address)),
        }
    }
    Ok(rules)
}

/// A datagram, and the socket to send it from.
type Sent = (Arc<UdpSocket>, SocketAddr, Vec<u8>);

/// How a thread sends: at once, or over emulated links.
#[derive(Clone, Default)]
pub struct Way(Option<SyncSender<Sent>>);

impl Way {
    /// Sends a datagram. One that a link loses is sent to those who ask.
    ///
    /// # Errors
    /// The system does not take it.
    pub fn send(&self, socket: &Arc<UdpSocket>, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        match &self.0 {
            None => socket.send_to(bytes, to).map(|_| ()),
            Some(thread) => {
                // Full: it is lost, as on a link that is.
                let _ = thread.try_send((Arc::clone(socket), to, bytes.to_vec()));
                Ok(())
            }
        }
    }
}

/// Emulated links; dropping them stops their thread.
pub struct LinksThread {
    /// Their rules, for the net tile.
    pub links: Arc<Links>,
    /// The way over them.
    pub way: Way,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LinksThread {
    /// Reads the rules in a file, and watches it.
    ///
    /// # Errors
    /// The file is wrong.
    pub fn start(file: &Path) -> Result<Self, LinksError> {
        let seen = changed_at(file);
        let links = Arc::new(Links::new(read(file)?));
        let (sender, inbox) = sync_channel(WAITING_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let mut driver = Driver {
            file: file.into(),
            seen,
            links: Arc::clone(&links),
            emulator: Emulator::new(Arc::clone(&links), NAME),
            began: Instant::now(),
        };
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("links".into()).spawn(move || driver.run(&inbox, &stopped));
        let thread = thread.map_err(|source| LinksError::Read { file: file.into(), source })?;
        Ok(Self { links, way: Way(Some(sender)), stop, thread: Some(thread) })
    }
}

impl Drop for LinksThread {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.way = Way::default();
        self.thread.take().map(JoinHandle::join);
    }
}

struct Driver {
    file: PathBuf,
    seen: Option<(SystemTime, u64)>,
    links: Arc<Links>,
    emulator: Emulator<Arc<UdpSocket>>,
    began: Instant,
}

impl Driver {
    fn run(&mut self, inbox: &Receiver<Sent>, stop: &AtomicBool) {
        let mut look_at = Instant::now() + LOOK_EVERY;
        while !stop.load(SeqCst) {
            let due = self.emulator.due_ns().map(|due| Duration::from_nanos(due.saturating_sub(self.now())));
            let wait = look_at.saturating_duration_since(Instant::now()).min(due.unwrap_or(LOOK_EVERY));
            match inbox.recv_timeout(wait) {
                Ok(first) => {
                    let now = self.now();
                    self.give(first, now);
                    inbox.try_iter().take(WAITING_MAX).for_each(|sent| self.give(sent, now));
                }
                Err(RecvTimeoutError::Timeout) => {}
                // All who send are gone; what is under way is, too.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = self.now();
            while let Some(Datagram { to, of, data }) = self.emulator.pop(now) {
                // A datagram that the system does not take is one that is lost.
                let _ = of.send_to(&data, to);
            }
            if Instant::now() >= look_at {
                look_at = Instant::now() + LOOK_EVERY;
                self.look();
            }
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn give(&mut self, (socket, to, data): Sent, now: u64) {
        if let Some(socket) = self.emulator.push(to, socket, &data, now) {
            let _ = socket.send_to(&data, to);
        }
    }

    /// Reads the file again, if it has changed.
    fn look(&mut self) {
        let now = changed_at(&self.file);
        if now == self.seen {
            return;
        }
        self.seen = now;
        match read(&self.file) {
            Ok(rules) => self.links.put(rules),
            Err(why) => note(format_args!("{why}; links stay as they were")),
        }
    }
}

fn changed_at(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_or_it_is_said_what_is_wrong() {
        let text = "seed = 3\n[[to]]\naddress = \"127.0.0.2\"\ndelay_ms = 1.5\nloss = 0.1\nrate_mbps = 8\n[[to]]\naddress = \"127.0.0.3\"\ncut = true\n";
        let rules = parse(text).unwrap();
        let rule = rules.to[&Ipv4Addr::new(127, 0, 0, 2)];
        assert_eq!((rules.seed, rule.delay_ns, rule.loss, rule.bytes_per_s), (3, 1_500_000, 0.1, Some(1e6)));
        assert!(rules.to[&Ipv4Addr::new(127, 0, 0, 3)].is_cut && rules.to.len() == 2);
        for (line, word) in [
            ("delay = 3", "delay"),
            ("delay_ms = -1", "delay_ms"),
            ("jitter_ms = 60001", "jitter_ms"),
            ("loss = 1.1", "loss"),
            ("rate_mbps = 0", "rate_mbps"),
            ("rate_mbps = nan", "rate_mbps"),
            ("cut = 1", "cut"),
            ("[[to]]\naddress = \"127.0.0.2\"", "two rules"),
            ("[[to]]\naddress = \"::1\"", "address"),
        ] {
            let why = parse(&format!("[[to]]\naddress = \"127.0.0.2\"\n{line}\n")).unwrap_err();
            assert!(why.contains(word), "{line}: {why}");
        }
    }

    #[test]
    fn a_file_that_changes_changes_the_links_and_a_wrong_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("links.toml");
        assert!(matches!(LinksThread::start(&file), Err(LinksError::Read { .. })));
        let cut = "[[to]]\naddress = \"127.0.0.1\"\ncut = true\n";
        std::fs::write(&file, cut).unwrap();
        let thread = LinksThread::start(&file).unwrap();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (socket, to) = (Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap()), receiver.local_addr().unwrap());
        let mut comes = |times: usize| {
            (0..times).any(|_| {
                thread.way.send(&socket, b"hello", to).unwrap();
                receiver.recv_from(&mut [0; 8]).is_ok()
            })
        };
        assert!(!comes(3), "the link is cut");
        std::fs::write(&file, "[[to]]\naddress = 7\n").unwrap();
        assert!(!comes(6), "what cannot be read changes nothing");
        std::fs::write(&file, "[[to]]\naddress = \"127.0.0.1\"\ndelay_ms = 1\n").unwrap();
        assert!(comes(100), "ten seconds are enough to look at a file");
    }
}
