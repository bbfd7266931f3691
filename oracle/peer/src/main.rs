//! A node of the cluster's own gossip among Hearth nodes: compares what each side learns of the other.
//!
//! reads   the first node's gossip address, then the JSON-RPC address of each node, as IP:PORT; the cluster's shred
//!         version from the first, over TCP
//! writes  one JSON object: each side's view of the other, and the mismatches
//! memory  as much as `solana-gossip` uses
//! source  `solana-gossip` 4.2.2, with the bytes and rules of Agave 4.2.2
//!
//! Run by hand, by `cargo xtask soak gossip`; it builds RocksDB (30 CPU minutes) and needs
//! `apt-get install clang libclang-dev protobuf-compiler`.
//!
//! The node starts with the first node's address alone. It learns of the others by that node's pull responses and
//! pushes, and the others learn of it the same way.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use solana_gossip::cluster_info::ClusterInfo;
use solana_gossip::contact_info::{ContactInfo, Protocol};
use solana_gossip::crds::Cursor;
use solana_gossip::gossip_service::GossipService;
use solana_keypair::Keypair;
use solana_net_utils::SocketAddrSpace;
use solana_pubkey::Pubkey;
use solana_signer::Signer;

/// The gossip addresses of the cluster's node, and of one with another shred version.
const ADDRESSES: [SocketAddr; 2] = [at(77), at(78)];
/// Slots that the cluster's node claims to have.
const SLOTS: [u64; 5] = [1, 2, 3, 5, 8];
/// Advertised TVU address, so that other nodes count this one among those that receive shreds.
const TVU: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 7, 77)), 8_003);
/// How long each side has.
const PATIENCE: Duration = Duration::from_secs(60);
/// For how long values come and go after that.
const THEN: Duration = Duration::from_secs(20);

const fn at(host: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 7, host)), 8_001)
}

/// A node of the cluster's gossip.
struct Peer {
    key: Pubkey,
    info: Arc<ClusterInfo>,
    /// Keeps the service's threads alive until the program ends.
    _service: GossipService,
}

impl Peer {
    /// Creates a node that knows only an entrypoint. Does what `make_node` does, but binds a socket to its own address,
    /// where `make_node` binds to all of the machine's.
    fn new(entrypoint: SocketAddr, address: SocketAddr, shred_version: u16) -> Self {
        let (key, exit) = (Keypair::new(), Arc::new(AtomicBool::new(false)));
        let mut contact = ContactInfo::new(key.pubkey(), solana_time_utils::timestamp(), shred_version);
        contact.set_gossip(address).expect("an address");
        let key_public = key.pubkey();
        let info = Arc::new(ClusterInfo::new(contact, Arc::new(key), SocketAddrSpace::Unspecified));
        info.set_entrypoints(vec![ContactInfo::new_gossip_entry_point(&entrypoint)]);
        let sockets = Arc::new([UdpSocket::bind(address).expect("the address is free")]);
        let service = GossipService::new(&info, None, sockets, None, None, true, None, exit);
        Self { key: key_public, info, _service: service }
    }

    /// The nodes that it has, without itself.
    fn others(&self) -> Vec<ContactInfo> {
        let all = self.info.all_peers().into_iter().map(|(node, _)| node);
        all.filter(|node| *node.pubkey() != self.key).collect()
    }

    /// Number of slots that each node claims to have.
    fn slots_told(&self) -> BTreeMap<String, usize> {
        let mut slots: BTreeMap<String, usize> = BTreeMap::new();
        for report in self.info.get_epoch_slots(&mut Cursor::default()) {
            *slots.entry(report.from.to_string()).or_default() += report.to_slots(0).count();
        }
        slots
    }
}

/// A call of a node's JSON-RPC.
fn call(rpc: SocketAddr, method: &str) -> Value {
    let question = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": [] });
    let client = reqwest::blocking::Client::builder().no_proxy().build().expect("a client");
    let answer = client.post(format!("http://{rpc}")).json(&question).send().expect("the node's RPC");
    answer.json::<Value>().expect("JSON")["result"].take()
}

/// A node's advertised sockets, by the names of `getClusterNodes`.
fn sockets(contact: &ContactInfo) -> Value {
    let text = |address: Option<SocketAddr>| address.map(|address| address.to_string());
    json!({
        "gossip": text(contact.gossip()),
        "tvu": text(contact.tvu(Protocol::UDP)),
        "tpuQuic": text(contact.tpu(Protocol::QUIC)),
        "serveRepair": text(contact.serve_repair(Protocol::UDP)),
        "rpc": text(contact.rpc()),
        "pubsub": text(contact.rpc_pubsub()),
    })
}

/// Lists where the cluster's table and the node's own list differ on a node.
fn differences(theirs: &Value, ours: &Value) -> Vec<String> {
    let names = theirs.as_object().expect("an object").keys();
    let differs = names.filter(|name| theirs[name.as_str()] != ours[name.as_str()]);
    differs.map(|name| format!("{name}: {} here, {} there", theirs[name.as_str()], ours[name.as_str()])).collect()
}

/// Polls `look` until it is true; returns the seconds since `begun`, or `None` on timeout.
fn wait(begun: Instant, mut look: impl FnMut() -> bool) -> Option<f64> {
    while begun.elapsed() < PATIENCE {
        if look() {
            return Some(begun.elapsed().as_secs_f64());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    None
}

/// Returns the entry for node `of` in a node's `getClusterNodes`.
fn listed(rpc: SocketAddr, of: &str) -> Option<Value> {
    let nodes = call(rpc, "getClusterNodes");
    nodes.as_array().expect("a list").iter().find(|node| node["pubkey"] == of).cloned()
}

/// Compares the cluster node's view of one of our nodes with that node's own, and the reverse.
fn compare(peer: &Peer, stranger: Pubkey, rpc: SocketAddr, shred_version: u16, wrong: &mut Vec<String>) -> Value {
    let identity = call(rpc, "getIdentity")["identity"].as_str().expect("an identity").to_owned();
    let Some(contact) = peer.others().into_iter().find(|node| node.pubkey().to_string() == identity) else {
        wrong.push(format!("{rpc}, {identity}, is not in the cluster's table"));
        return Value::Null;
    };
    let there = listed(rpc, &identity).unwrap_or_default();
    wrong.extend(differences(&sockets(&contact), &there).into_iter().map(|why| format!("{rpc}: {why}")));
    if contact.shred_version() != shred_version {
        wrong.push(format!("{rpc}: shred version {}", contact.shred_version()));
    }
    let here = listed(rpc, &peer.key.to_string()).unwrap_or_default();
    if here["tvu"] != TVU.to_string() || here["gossip"] != ADDRESSES[0].to_string() {
        wrong.push(format!("{rpc} does not list the cluster's node, or otherwise than it is: {here}"));
    }
    if listed(rpc, &stranger.to_string()).is_some() {
        wrong.push(format!("{rpc} lists a node of another shred version"));
    }
    let snapshot = peer.info.get_snapshot_hashes_for_node(contact.pubkey()).map(|hashes| hashes.full.0);
    let slots = peer.slots_told().get(&identity).copied().unwrap_or(0);
    if slots == 0 {
        wrong.push(format!("{rpc}: the cluster's node has no slots of it"));
    }
    json!({
        "identity": identity, "sockets": sockets(&contact), "version": contact.version().to_string(),
        "snapshot_slot": snapshot, "slots_told": slots,
    })
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<SocketAddr>().expect("IP:PORT"));
    let entrypoint = arguments.next().expect("the first node's gossip address");
    let rpcs: Vec<SocketAddr> = arguments.collect();
    let shred_version = solana_net_utils::get_cluster_shred_version(&entrypoint).expect("the shred version, over TCP");
    let mut wrong = vec![];

    let peer = Peer::new(entrypoint, ADDRESSES[0], shred_version);
    peer.info.set_tvu_socket(TVU).expect("an address");
    let stranger = Peer::new(entrypoint, ADDRESSES[1], shred_version ^ 1);
    let (own, begun) = (peer.key.to_string(), Instant::now());
    let knows_all_s = wait(begun, || peer.others().len() >= rpcs.len());
    let is_known = |rpc: &SocketAddr| listed(*rpc, &own).is_some_and(|node| node["tvu"].is_string());
    let known_to_all_s = wait(begun, || rpcs.iter().all(is_known));
    peer.info.push_lowest_slot(1);
    peer.info.push_epoch_slots(&SLOTS);
    std::thread::sleep(THEN);

    let nodes: Vec<Value> =
        rpcs.iter().map(|rpc| compare(&peer, stranger.key, *rpc, shred_version, &mut wrong)).collect();
    let votes = peer.info.get_votes(&mut Cursor::default()).len();
    if votes == 0 {
        wrong.push("the cluster's node has no vote".into());
    }
    let stranger_knows = stranger.others().len();
    if stranger_knows > 0 {
        wrong.push(format!("the node of another shred version has {stranger_knows} nodes"));
    }

    for (what, took) in
        [("the cluster's node does not know all", knows_all_s), ("not all know the cluster's node", known_to_all_s)]
    {
        if took.is_none() {
            wrong.push(format!("{what} after {} s", PATIENCE.as_secs()));
        }
    }
    let report = json!({
        "shred_version": shred_version, "knows_all_after_s": knows_all_s, "known_to_all_after_s": known_to_all_s,
        "nodes": nodes, "votes": votes, "wrong": wrong,
    });
    println!("{report}");
    // The threads of the others go with it.
    std::process::exit(i32::from(!wrong.is_empty()));
}
