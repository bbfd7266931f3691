//! Collects the activity of all nodes of a local cluster, for the dashboard of any of them.
//!
//! reads   `cluster.json`, the map and the file of links in the cluster's folder; each node's metrics, once a second
//! writes  [`ClusterSample`], for the dashboard
//! memory  a line per node, and one node's metrics at a time
//!
//! [`mod@scrape`] reads the figures of each node; [`dashboard_view`] computes rates, places and cuts from them for the
//! dashboard's page. It runs on its own thread, since a stopped node may answer late or never, and only while the page
//! is open.

mod dashboard_view;
mod scrape;

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
pub use dashboard_view::ClusterSample;
use dashboard_view::{NodeLook, shown};
use scrape::ScrapedCounters;

/// Interval of the rounds.
const EVERY: Duration = Duration::from_secs(1);

/// The cluster to which this process's node belongs.
#[derive(Clone, Debug)]
pub struct Membership {
    folder: PathBuf,
    own: Ipv4Addr,
    world: World,
}

impl Membership {
    /// The cluster of a configuration, if `cluster.json` beside its file of links contains the node's address.
    pub fn of(config: &Config) -> Option<Self> {
        let links = links_config(config)?;
        let folder = links.file.parent()?.to_owned();
        let cluster = Cluster::read(&folder).ok()??;
        let world = cluster.world().ok()?;
        let is_member = cluster.nodes.iter().any(|node| node.address == links.own);
        is_member.then_some(Self { folder, own: links.own, world })
    }
}

/// The metrics address of a node.
fn metrics_of(node: &Member) -> SocketAddr {
    (node.address, Config::default().tiles.metric.prometheus_listen_port).into()
}

/// Queries all nodes once a second, until it is dropped.
pub struct Gatherer {
    newest: Arc<Mutex<Option<Arc<ClusterSample>>>>,
    stop: Arc<AtomicBool>,
    thread: Thread,
}

impl Gatherer {
    /// Starts the thread; `None` if that fails.
    pub fn start(membership: &Membership) -> Option<Self> {
        let (newest, stop) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let (shared, stopped) = (Arc::clone(&newest), Arc::clone(&stop));
        let mut rounds = Rounds::of(membership.clone());
        let gather = move || {
            while !stopped.load(Relaxed) {
                let due = Instant::now() + EVERY;
                // If something cannot be read in this second, the previous result stays.
                if let Some(shown) = rounds.round() {
                    *shared.lock() = Some(Arc::new(shown));
                }
                while let Some(rest) = due.checked_duration_since(Instant::now()).filter(|_| !stopped.load(Relaxed)) {
                    std::thread::park_timeout(rest);
                }
            }
        };
        let thread = std::thread::Builder::new().name("gather".into()).spawn(gather).ok()?.thread().clone();
        Some(Self { newest, stop, thread })
    }

    /// The result of the last round.
    pub fn newest(&self) -> Option<Arc<ClusterSample>> {
        self.newest.lock().clone()
    }
}

impl Drop for Gatherer {
    fn drop(&mut self) {
        // Nobody waits for the thread: a round in progress ends by its own deadline.
        self.stop.store(true, Relaxed);
        self.thread.unpark();
    }
}

/// The state kept between rounds.
struct Rounds {
    membership: Membership,
    /// For each node its process, and its last answer.
    before: Vec<(Option<Process>, Option<(Instant, ScrapedCounters)>)>,
}

impl Rounds {
    fn of(membership: Membership) -> Self {
        Self { membership, before: vec![] }
    }

    fn round(&mut self) -> Option<ClusterSample> {
        let Membership { folder, own, world } = &self.membership;
        let cluster = Cluster::read(folder).ok()??;
        let cuts = cluster.cuts().ok()?;
        let addresses: Vec<SocketAddr> = cluster.nodes.iter().map(metrics_of).collect();
        let answers = scrape::all(&addresses);
        self.before.resize(cluster.nodes.len(), (None, None));
        let mut looks = vec![];
        for ((node, now), last) in cluster.nodes.iter().zip(answers).zip(&mut self.before) {
            // Another process counts from zero.
            let before = last.1.filter(|_| last.0 == node.process);
            let is_alive = node.process.is_some_and(|process| process.is_alive());
            // An answer at the address of an ended node comes from another program.
            let now = now.filter(|_| is_alive);
            looks.push(NodeLook { is_alive, before, now });
            *last = (node.process, now.or(before));
        }
        let unix_ns = unix_time().as_nanos() as u64;
        Some(shown(unix_ns, *own, &cluster, world, &cuts, &looks))
    }
}
