//! The cluster in the form that the dashboard shows.
//!
//! reads   the nodes' places, the map, the cuts, each node's figures now and before
//! writes  [`ClusterSample`]: plain data
//! memory  a line per node, and per pair of regions

use std::net::Ipv4Addr;
use std::time::Instant;

use hearth_netem::{Cut, Region, World};
use serde::Serialize;

use super::scrape::ScrapedCounters;
use crate::local::member::{Cluster, Member, Role};

/// The cluster's state in one second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterSample {
    /// The time in nanoseconds since 1970.
    pub unix_ns: u64,
    /// The cluster's name, as `--name` gave it.
    pub name: String,
    /// The node that reports this.
    pub own: String,
    /// All regions of the map, in the map's order; rows and links have indices into them.
    pub regions: Vec<MapRegion>,
    /// The link between each two regions with nodes.
    pub links: Vec<RegionLink>,
    /// Its nodes, the first leader first.
    pub nodes: Vec<Row>,
}

/// A region of the map, with its coordinates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MapRegion {
    /// The region's name in the map.
    pub name: String,
    /// Degrees north; `null` if the map has none.
    pub latitude: Option<f64>,
    /// Degrees east; `null` if the map has none.
    pub longitude: Option<f64>,
}

/// The link between nodes of two regions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionLink {
    /// Indices of the regions.
    pub regions: [usize; 2],
    /// Round-trip time in ms.
    pub rtt_ms: f64,
    /// The fraction of the node pairs that are cut off from each other.
    pub cut: f64,
}

/// Whether a node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It answered the last query of its metrics.
    Serves,
    /// Its process runs but does not answer: it is starting, stopped, or starved.
    Silent,
    /// Its process has ended.
    Ended,
}

/// A node's state and rates, as the dashboard's table shows them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The node's name: `node-1` and so on.
    pub node: String,
    /// Its part in the cluster: leader, validator or follower.
    pub role: Role,
    /// Index of its region.
    pub region: usize,
    /// URL of its JSON-RPC, which also serves its dashboard.
    pub rpc: String,
    /// Whether it answers, is silent, or has ended.
    pub state: State,
    /// Number of other nodes from which it is cut off.
    pub cut_from: usize,
    /// The last slot that it has executed.
    pub slot: Option<u64>,
    /// Slots that another node has executed and this one has not.
    pub slots_behind: Option<u64>,
    /// Transactions per second of its own blocks whose shreds have left its shred tile; `null` for a follower.
    pub left_txn_per_s: Option<f64>,
    /// Transactions per second that it has executed, votes included.
    pub txn_per_s: Option<f64>,
    /// Bits per second of datagrams received by net.
    pub received_bits_per_s: Option<f64>,
    /// Bits per second of datagrams sent by net.
    pub sent_bits_per_s: Option<f64>,
}

/// The known state of a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeLook {
    /// Whether its process runs.
    pub is_alive: bool,
    /// The previous figures of the same process, and their time.
    pub before: Option<(Instant, ScrapedCounters)>,
    /// The figures of the last query and their time; `None` if it did not answer.
    pub now: Option<(Instant, ScrapedCounters)>,
}

impl NodeLook {
    fn state(&self) -> State {
        match (self.now, self.is_alive) {
            (Some(_), _) => State::Serves,
            (None, true) => State::Silent,
            (None, false) => State::Ended,
        }
    }

    /// The growth of a counter per second; `None` before the second answer, and if it decreased.
    fn rate(&self, of: impl Fn(&ScrapedCounters) -> u64) -> Option<f64> {
        let ((then, before), (at, now)) = (self.before?, self.now?);
        let seconds = at.checked_duration_since(then)?.as_secs_f64();
        (seconds > 0.0).then_some(of(&now).checked_sub(of(&before))? as f64 / seconds)
    }
}

/// Computes the dashboard's state; `looks` are those of the cluster's nodes, `own` the address of the reporting one.
pub fn shown(
    unix_ns: u64,
    own: Ipv4Addr,
    cluster: &Cluster,
    world: &World,
    cuts: &[Cut],
    looks: &[NodeLook],
) -> ClusterSample {
    let slot = |look: &NodeLook| look.now.and_then(|(_, figures)| figures.slot);
    let newest = looks.iter().filter_map(slot).max();
    let row = |(node, look): (&Member, &NodeLook)| Row {
        node: node.name.clone(),
        role: node.role,
        region: region_of(node, world),
        rpc: node.rpc(),
        state: look.state(),
        cut_from: cluster.nodes.iter().filter(|other| is_cut(cuts, node, other)).count(),
        slot: slot(look),
        slots_behind: slot(look).zip(newest).map(|(slot, newest)| newest - slot),
        left_txn_per_s: look.rate(|figures| figures.left).filter(|_| node.role != Role::Follower),
        txn_per_s: look.rate(|figures| figures.executed),
        received_bits_per_s: look.rate(|figures| 8 * figures.received_bytes),
        sent_bits_per_s: look.rate(|figures| 8 * figures.sent_bytes),
    };
    let place = |region: &Region| MapRegion {
        name: region.name.clone(),
        latitude: region.latitude,
        longitude: region.longitude,
    };
    let owner = cluster.nodes.iter().find(|node| node.address == own);
    ClusterSample {
        unix_ns,
        name: cluster.name.clone(),
        own: owner.map_or(String::new(), |node| node.name.clone()),
        regions: world.regions.iter().map(place).collect(),
        links: links(cluster, world, cuts),
        nodes: cluster.nodes.iter().zip(looks).map(row).collect(),
    }
}

/// The first region if the map has none with this name; no node starts that way.
fn region_of(node: &Member, world: &World) -> usize {
    world.place(&node.region).unwrap_or(0)
}

/// The links between each two regions with nodes.
fn links(cluster: &Cluster, world: &World, cuts: &[Cut]) -> Vec<RegionLink> {
    let of = |region: usize| -> Vec<&Member> {
        cluster.nodes.iter().filter(|node| region_of(node, world) == region).collect()
    };
    let groups: Vec<(usize, Vec<&Member>)> =
        (0..world.regions.len()).map(|region| (region, of(region))).filter(|(_, nodes)| !nodes.is_empty()).collect();
    let mut links = vec![];
    for (at, (a, ours)) in groups.iter().enumerate() {
        for (b, theirs) in &groups[at + 1..] {
            let pairs = ours.iter().flat_map(|one| theirs.iter().map(move |other| (one, other)));
            let cut = pairs.filter(|(one, other)| is_cut(cuts, one, other)).count();
            let cut = cut as f64 / (ours.len() * theirs.len()) as f64;
            links.push(RegionLink { regions: [*a, *b], rtt_ms: world.link(*a, *b).rtt_ms, cut });
        }
    }
    links
}

fn is_cut(cuts: &[Cut], one: &Member, other: &Member) -> bool {
    let [one, other] = [one, other].map(|node| node.address);
    let parts =
        |[a, b]: &[Vec<Ipv4Addr>; 2]| a.contains(&one) && b.contains(&other) || b.contains(&one) && a.contains(&other);
    cuts.iter().any(|cut| parts(&cut.between))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::local::member::Plan;
    use crate::local::{ClusterSelector, UpOptions};

    fn four(folder: &std::path::Path) -> Cluster {
        let which = ClusterSelector { name: "test".into(), folder: None };
        let address = Some(Ipv4Addr::new(127, 3, 0, 1));
        let up = UpOptions { which, nodes: Some(4), validators: Some(2), map: None, address, reset: false };
        Cluster::create(folder, &Plan::of(&up).unwrap(), &[0]).unwrap()
    }

    #[test]
    fn each_node_has_its_place_its_rates_and_what_it_is_cut_off_from() {
        let folder = tempfile::tempdir().unwrap();
        let (cluster, world, then) = (four(folder.path()), World::shipped(), Instant::now());
        let at = then + Duration::from_secs(2);
        let before = ScrapedCounters { slot: Some(90), left: 100, executed: 100, received_bytes: 0, sent_bytes: 1_000 };
        let now = ScrapedCounters { slot: Some(95), left: 300, executed: 200, received_bytes: 250, sent_bytes: 2_000 };
        let serves = NodeLook { is_alive: true, before: Some((then, before)), now: Some((at, now)) };
        let begun_again =
            NodeLook { now: Some((at, ScrapedCounters { slot: Some(93), ..ScrapedCounters::default() })), ..serves };
        let silent = NodeLook { now: None, ..serves };
        let ended = NodeLook { is_alive: false, ..silent };
        let address = |number: usize| cluster.nodes[number].address;
        let cuts = [Cut { between: [vec![address(3)], vec![address(0), address(1)]] }];
        let shown = shown(7, address(1), &cluster, &world, &cuts, &[serves, begun_again, silent, ended]);

        assert_eq!((shown.unix_ns, &shown.own[..], shown.regions.len()), (7, "node-2", 4));
        let states: Vec<State> = shown.nodes.iter().map(|node| node.state).collect();
        assert_eq!(states, [State::Serves, State::Serves, State::Silent, State::Ended]);
        assert_eq!(shown.nodes.iter().map(|node| node.cut_from).collect::<Vec<_>>(), [1, 1, 0, 2]);
        assert_eq!(shown.nodes.iter().map(|node| node.region).collect::<Vec<_>>(), [0, 1, 2, 3]);
        let first = &shown.nodes[0];
        assert_eq!((first.slot, first.slots_behind, first.left_txn_per_s), (Some(95), Some(0), Some(100.0)));
        assert_eq!(
            (first.txn_per_s, first.received_bits_per_s, first.sent_bits_per_s),
            (Some(50.0), Some(1e3), Some(4e3))
        );
        let second = &shown.nodes[1];
        assert_eq!((second.slots_behind, second.txn_per_s, second.sent_bits_per_s), (Some(2), None, None));
        assert!(shown.nodes[2..].iter().all(|node| node.slot.is_none() && node.txn_per_s.is_none()));

        assert_eq!(shown.links.len(), 6);
        let link = |regions: [usize; 2]| shown.links.iter().find(|link| link.regions == regions).unwrap();
        assert_eq!((link([0, 3]).rtt_ms, link([0, 3]).cut), (175.0, 1.0));
        assert_eq!((link([1, 3]).cut, link([2, 3]).cut, link([0, 1]).cut), (1.0, 0.0, 0.0));
    }

    #[test]
    fn a_follower_has_no_blocks_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (cluster, then) = (four(folder.path()), Instant::now());
        let look = |seconds| Some((then + Duration::from_secs(seconds), ScrapedCounters::default()));
        let looks = [NodeLook { is_alive: true, before: look(0), now: look(1) }; 4];
        let shown = shown(0, Ipv4Addr::LOCALHOST, &cluster, &World::shipped(), &[], &looks);
        let left: Vec<Option<f64>> = shown.nodes.iter().map(|node| node.left_txn_per_s).collect();
        assert_eq!(left, [Some(0.0), Some(0.0), None, None]);
        assert!(shown.own.is_empty() && shown.nodes.iter().all(|node| node.txn_per_s == Some(0.0)));
        let json = serde_json::to_value(&shown).unwrap();
        assert!(json["nodes"][3]["left_txn_per_s"].is_null() && json["nodes"][0]["state"] == "serves", "{json:#}");
    }
}
