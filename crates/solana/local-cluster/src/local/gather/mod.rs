//! What all nodes of a cluster on this machine do, for the dashboard of any of them.
//!
//! reads   `cluster.json`, the map and the file of links in the cluster's folder; each node's metrics, once a second
//! writes  [`Shown`], for whoever asks
//! memory  a line a node, and one node's metrics at a time
//!
//! The walk: [`mod@scrape`] (figures of each node) → [`mod@shown`] (what they mean, where each node is, who does not
//! reach whom) → the dashboard's page. A thread of its own asks, since nodes may be stopped and answer late or never;
//! it runs while somebody looks.

mod scrape;
mod shown;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::Thread;
use std::time::{Duration, Instant};

use hearth_netem::World;
use hearth_node::config::Config;
use hearth_node::peers::socket::links_config;
use hearth_ring::unix_time;
use parking_lot::Mutex;

use super::member::{Cluster, Member};
use super::process::Process;
use scrape::Figures;
pub use shown::Shown;
use shown::{NodeLook, shown};

/// Between two rounds.
const EVERY: Duration = Duration::from_secs(1);

/// A cluster whose node this process is.
#[derive(Clone, Debug)]
pub struct Membership {
    folder: PathBuf,
    own: Ipv4Addr,
    world: World,
}

impl Membership {
    /// The cluster that a configuration is of: `cluster.json` beside its file of links names the node's address.
    pub fn of(config: &Config) -> Option<Self> {
        let links = links_config(config)?;
        let folder = links.file.parent()?.to_owned();
        let cluster = Cluster::read(&folder).ok()??;
        let world = cluster.world().ok()?;
        let is_member = cluster.nodes.iter().any(|node| node.address == links.own);
        is_member.then_some(Self { folder, own: links.own, world })
    }
}

/// Where a node's metrics are.
fn metrics_of(node: &Member) -> SocketAddr {
    (node.address, Config::default().tiles.metric.prometheus_listen_port).into()
}

/// Asks all nodes once a second, until it is dropped.
pub struct Gatherer {
    newest: Arc<Mutex<Option<Arc<Shown>>>>,
    stop: Arc<AtomicBool>,
    thread: Thread,
}

impl Gatherer {
    /// Begins; `None` where there is no thread to be had.
    pub fn start(membership: &Membership) -> Option<Self> {
        let (newest, stop) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let (told, stopped) = (Arc::clone(&newest), Arc::clone(&stop));
        let mut rounds = Rounds::of(membership.clone());
        let gather = move || {
            while !stopped.load(Relaxed) {
                let due = Instant::now() + EVERY;
                // What cannot be read in this second is in the next: the last look stays.
                if let Some(shown) = rounds.round() {
                    *told.lock() = Some(Arc::new(shown));
                }
                while let Some(rest) = due.checked_duration_since(Instant::now()).filter(|_| !stopped.load(Relaxed)) {
                    std::thread::park_timeout(rest);
                }
            }
        };
        let thread = std::thread::Builder::new().name("gather".into()).spawn(gather).ok()?.thread().clone();
        Some(Self { newest, stop, thread })
    }

    /// The last second.
    pub fn newest(&self) -> Option<Arc<Shown>> {
        self.newest.lock().clone()
    }
}

impl Drop for Gatherer {
    fn drop(&mut self) {
        // Nobody waits for it: a round that is under way ends by its own deadline.
        self.stop.store(true, Relaxed);
        self.thread.unpark();
    }
}

/// From one round to the next.
struct Rounds {
    membership: Membership,
    /// Of each node its process then, and what it answered last.
    before: Vec<(Option<Process>, Option<(Instant, Figures)>)>,
}

impl Rounds {
    fn of(membership: Membership) -> Self {
        Self { membership, before: vec![] }
    }

    fn round(&mut self) -> Option<Shown> {
        let Membership { folder, own, world } = &self.membership;
        let cluster = Cluster::read(folder).ok()??;
        let cuts = cluster.cuts().ok()?;
        let addresses: Vec<SocketAddr> = cluster.nodes.iter().map(metrics_of).collect();
        let answers = scrape::all(&addresses);
        self.before.resize(cluster.nodes.len(), (None, None));
        let mut looks = vec![];
        for ((node, now), last) in cluster.nodes.iter().zip(answers).zip(&mut self.before) {
            // Another process counts from nought.
            let before = last.1.filter(|_| last.0 == node.process);
            let is_alive = node.process.is_some_and(|process| process.is_alive());
            // Who answers at the address of a node that has ended is another one.
            let now = now.filter(|_| is_alive);
            looks.push(NodeLook { is_alive, before, now });
            *last = (node.process, now.or(before));
        }
        let unix_ns = unix_time().as_nanos() as u64;
        Some(shown(unix_ns, *own, &cluster, world, &cuts, &looks))
    }
}
