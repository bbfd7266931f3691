//! A network that loses, delays and reorders datagrams, and nodes on it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::net::SocketAddrV4;

use hearth_crypto::ed25519::SigningKey;
use hearth_crypto::sha256::sha256;
use hearth_testkit::random::Random;
use hearth_wire::Pubkey;
use hearth_wire::gossip::{ContactInfo, SocketKind, Version};

use super::super::*;

/// Start time of each run, in Unix milliseconds.
pub const START: u64 = 1_700_000_000_000;
/// The shred version of all nodes, unless a test sets another.
pub const SHRED_VERSION: u16 = 0x5a5a;

/// A datagram in flight: arrival time, a tie-breaking number, destination, source, bytes.
type Flight = Reverse<(u64, u64, SocketAddrV4, SocketAddrV4, Vec<u8>)>;

pub struct Network {
    pub now: u64,
    pub random: Random,
    /// Datagrams lost per thousand.
    pub loss_per_mille: u64,
    /// Minimum and maximum delay of a datagram, in ms.
    pub delay: (u64, u64),
    /// Nodes on different sides cannot reach each other; a node that is not listed is on side 0.
    pub sides: HashMap<SocketAddrV4, u8>,
    /// Running nodes by address; a missing one has crashed.
    pub nodes: BTreeMap<SocketAddrV4, Gossip>,
    pub stakes: HashMap<Pubkey, u64>,
    pub keys: HashMap<SocketAddrV4, SigningKey>,
    /// A hash over everything sent.
    pub digest: Hash,
    pub sent: u64,
    flights: BinaryHeap<Flight>,
    out: Outbox,
}

/// The address of node `n`.
pub fn address(n: usize) -> SocketAddrV4 {
    SocketAddrV4::new([10, 0, (n / 250) as u8, (n % 250) as u8 + 1].into(), 8_000)
}

/// The seed of node `n`'s key.
pub fn key(n: usize) -> SigningKey {
    let mut seed = [0x42; 32];
    seed[..8].copy_from_slice(&(n as u64).to_le_bytes());
    SigningKey::from_seed(&seed)
}

pub fn identity(n: usize) -> Pubkey {
    key(n).public_key()
}

/// The contact info of node `n`, started at `now`.
pub fn contact(n: usize, now: u64) -> ContactInfo {
    let version = Version { major: 4, minor: 2, patch: 2, client: 8, ..Version::default() };
    let socket = |port| SocketAddrV4::new(*address(n).ip(), port);
    ContactInfo::new(identity(n), now * 1_000, SHRED_VERSION, version)
        .with(SocketKind::Gossip, address(n))
        .with(SocketKind::Tvu, socket(8_001))
        .with(SocketKind::ServeRepair, socket(8_002))
}

pub fn config(entrypoints: &[usize]) -> Config {
    let entrypoints = entrypoints.iter().map(|n| address(*n)).collect();
    Config { entrypoints, allow_private: true, verifier_bytes_max: 0, ..Config::default() }
}

impl Network {
    pub fn new(seed: u64) -> Self {
        Self {
            now: START,
            random: Random(seed),
            loss_per_mille: 50,
            delay: (1, 80),
            sides: HashMap::new(),
            nodes: BTreeMap::new(),
            keys: HashMap::new(),
            stakes: HashMap::new(),
            digest: [0; 32],
            sent: 0,
            flights: BinaryHeap::new(),
            out: Outbox::default(),
        }
    }

    /// Adds a node that starts now. Returns its number.
    pub fn add(&mut self, entrypoints: &[usize]) -> usize {
        let n = self.nodes.len();
        self.start(n, config(entrypoints), contact(n, self.now));
        n
    }

    pub fn add_many(&mut self, count: usize, entrypoints: &[usize]) {
        for _ in 0..count {
            self.add(entrypoints);
        }
    }

    /// Starts node `n` now.
    pub fn start(&mut self, n: usize, config: Config, own: ContactInfo) {
        let at = own.socket(SocketKind::Gossip).expect("it has one");
        self.start_at(at, n, config, own);
    }

    /// Starts a node with the key of `n` at an address.
    pub fn start_at(&mut self, at: SocketAddrV4, n: usize, config: Config, own: ContactInfo) {
        let own = ContactInfo { pubkey: identity(n), ..own };
        let mut gossip = Gossip::new(config, own, self.random.key(), self.now);
        gossip.set_stakes(self.stakes.clone(), 120_000);
        self.nodes.insert(at, gossip);
        self.keys.insert(at, key(n));
    }

    pub fn gossip(&self, n: usize) -> &Gossip {
        &self.nodes[&address(n)]
    }

    pub fn gossip_mut(&mut self, n: usize) -> &mut Gossip {
        self.nodes.get_mut(&address(n)).expect("the node runs")
    }

    pub fn crash(&mut self, n: usize) {
        self.nodes.remove(&address(n)).expect("the node ran");
    }

    fn side(&self, at: &SocketAddrV4) -> u8 {
        self.sides.get(at).copied().unwrap_or_default()
    }

    /// Sends a datagram, which may be lost.
    pub fn send(&mut self, from: SocketAddrV4, to: SocketAddrV4, bytes: &[u8]) {
        self.sent += 1;
        let is_lost = self.random.chance(self.loss_per_mille) || self.side(&from) != self.side(&to);
        let (least, most) = self.delay;
        let at = self.now + least + self.random.below(most - least + 1);
        let head: Vec<u8> = [&from.port().to_le_bytes()[..], &from.ip().octets(), &to.ip().octets()].concat();
        self.digest = sha256(&[&self.digest, &head, &at.to_le_bytes(), bytes]);
        if !is_lost {
            self.flights.push(Reverse((at, self.sent, to, from, bytes.to_vec())));
        }
    }

    /// Signs a node's requests, and sends its outbox.
    fn flush(&mut self, from: SocketAddrV4) {
        let mut out = std::mem::take(&mut self.out);
        let gossip = self.nodes.get_mut(&from).expect("it runs");
        gossip.sign_with(self.now, &self.keys[&from], &mut out);
        for (to, bytes) in out.iter() {
            assert!(bytes.len() <= 1_232, "{} bytes", bytes.len());
            self.send(from, to, bytes);
        }
        out.clear();
        self.out = out;
    }

    /// Sets all clocks back. A node's caller checks its clock often.
    pub fn set_back(&mut self, ms: u64) {
        self.now -= ms;
        let flights = std::mem::take(&mut self.flights).into_iter();
        self.flights =
            flights.map(|Reverse((at, sent, to, from, bytes))| Reverse((at - ms, sent, to, from, bytes))).collect();
        let nodes: Vec<SocketAddrV4> = self.nodes.keys().copied().collect();
        for at in nodes {
            self.nodes.get_mut(&at).expect("it runs").tick(self.now, &mut self.out);
            self.flush(at);
        }
    }

    /// Runs until `end`; what the test made nodes publish is signed first.
    pub fn run_until(&mut self, end: u64) {
        let nodes: Vec<SocketAddrV4> = self.nodes.keys().copied().collect();
        nodes.into_iter().for_each(|at| self.flush(at));
        loop {
            let tick = self.nodes.iter().map(|(at, gossip)| (gossip.next_tick().max(self.now), *at)).min();
            let flight = self.flights.peek().map(|Reverse((at, ..))| *at);
            let next = tick.map(|(at, _)| at).into_iter().chain(flight).min().unwrap_or(u64::MAX);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            if flight == Some(next) {
                let Some(Reverse((_, _, to, from, bytes))) = self.flights.pop() else { continue };
                if let Some(gossip) = self.nodes.get_mut(&to) {
                    gossip.receive(next, from.into(), &bytes, &mut self.out);
                    self.flush(to);
                }
            } else if let Some((_, at)) = tick {
                self.nodes.get_mut(&at).expect("it was found above").tick(next, &mut self.out);
                self.flush(at);
            }
        }
    }

    pub fn run_for(&mut self, ms: u64) {
        self.run_until(self.now + ms);
    }

    /// Runs until `is_so`, checked every 100 ms; panics after `ms`. Returns the time it took, in ms.
    pub fn run_while_not(&mut self, ms: u64, what: &str, is_so: impl Fn(&Self) -> bool) -> u64 {
        let start = self.now;
        while !is_so(self) {
            assert!(self.now - start < ms, "not within {ms} ms: {what}");
            self.run_for(100);
        }
        println!("{what}: after {} ms", self.now - start);
        self.now - start
    }

    /// Whether each running node knows exactly these nodes.
    pub fn all_know(&self, wanted: &[usize]) -> bool {
        let mut wanted: Vec<Pubkey> = wanted.iter().map(|n| identity(*n)).collect();
        wanted.sort_unstable();
        self.nodes.values().all(|gossip| {
            let mut known: Vec<Pubkey> = gossip.contact_infos().map(|contact| contact.pubkey).collect();
            known.sort_unstable();
            known == wanted
        })
    }
}
