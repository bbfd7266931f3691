//! Repair's server: shreds for nodes that lack them.
//!
//! reads   requests; the block store
//! writes  shreds, and pings to who has not shown to be where it says
//! memory  [`SETS_KEPT`] sets; [`NODES_MAX`] nodes, 100 B each
//! drops   what is no request, is not for this node, is of another time or has a wrong signature; what there is no
//!         budget for: each
//!         is counted in [`Counts`]
//! source  `solana-core` 4.2.2, `repair/serve_repair.rs`; `docs/cluster-protocol.md`, section 3
//!
//! An address is sent nothing larger than what it sent before it has answered a ping, so nobody is flooded on
//! another's word.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use hearth_cluster::gossip::pong_hash;
use hearth_crypto::ed25519::{SigningKey, Verifier, VerifierConfig};
use hearth_ledger::blockstore::Reader;
use hearth_pipeline::shred::FecSet;
use hearth_tile::CounterSet;
use hearth_wire::gossip::Ping;
use hearth_wire::repair::{self, Asked, Request, Wanted};
use hearth_wire::shred::DATA_PER_SET;
use hearth_wire::{Hash, Pubkey, Signature};

use super::socket::{PeerLinks, PeerSocket};
use super::{Words, now_ms};

/// Bytes for the tables of keys that ask again and again.
const TABLE_BYTES: usize = 4 << 20;
/// How far a request's time may be from ours, ms.
const TIME_MS: u64 = 600_000;
/// For how long a pong counts, ms.
const PONG_MS: u64 = 1_280_000;
/// The least time between two pings to a node, ms.
const PING_MS: u64 = 2_000;
/// Nodes that are remembered.
const NODES_MAX: usize = 65_536;
/// Bytes a second.
const BYTES_PER_S: u64 = 12_000_000;
/// Sets whose shreds are kept made.
const SETS_KEPT: usize = 32;
/// How many ancestors an orphan is answered with.
const ANCESTORS: usize = 11;
/// How often it is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

hearth_tile::counters! {
    /// What became of datagrams.
    pub struct Counts {
        /// Shreds that repair's server sent.
        served: Counter,
        /// Requests for shreds that are not here.
        not_found: Counter,
        /// Datagrams that are no request.
        malformed: Counter,
        /// Requests for another node, or of this one.
        misdirected: Counter,
        /// Requests of another time.
        out_of_time: Counter,
        /// Requests and pongs with a wrong signature, or that answer nothing.
        bad_signature: Counter,
        /// Requests not served, as their sender has not shown to be at its address; it was sent a ping, now or a
        /// moment ago.
        unproved: Counter,
        /// Requests beyond the bytes that may be sent, or of more nodes than are remembered.
        over_budget: Counter,
    }
}

/// A node at an address.
type Node = (Pubkey, SocketAddr);

/// The server's state, without its socket.
pub struct Server {
    key: SigningKey,
    own: Pubkey,
    shred_version: u16,
    reader: Reader,
    verifier: Verifier,
    proved: HashMap<Node, u64>,
    pinged: HashMap<Node, (u64, Hash)>,
    sets: VecDeque<((u64, u32), FecSet)>,
    budget: u64,
    filled_at: u64,
    /// What became of datagrams.
    pub counts: Counts,
}

impl Server {
    /// Serves what `reader` has.
    pub fn new(key: SigningKey, shred_version: u16, reader: Reader) -> Self {
        Self {
            own: key.public_key(),
            key,
            shred_version,
            reader,
            verifier: Verifier::new(VerifierConfig { cache_bytes: TABLE_BYTES, ..VerifierConfig::default() }),
            proved: HashMap::new(),
            pinged: HashMap::new(),
            sets: VecDeque::new(),
            budget: BYTES_PER_S,
            filled_at: 0,
            counts: Counts::default(),
        }
    }

    /// The answers to a datagram, each to whoever sent it.
    pub fn answer(&mut self, from: SocketAddr, datagram: &[u8], now: u64) -> Vec<Vec<u8>> {
        match Asked::parse(datagram) {
            Err(_) => self.counts.malformed += 1,
            Ok(Asked::Pong(pong)) => {
                let node = (pong.from, from);
                let is_awaited = self.pinged.get(&node).is_some_and(|(_, hash)| *hash == pong.hash);
                if is_awaited && self.verifier.verify(&pong.from, &pong.signature, &pong.hash).is_ok() {
                    self.pinged.remove(&node);
                    self.proved.insert(node, now);
                } else {
                    self.counts.bad_signature += 1;
                }
            }
            Ok(Asked::Request(request, signature)) => return self.request(from, &request, &signature, datagram, now),
        }
        vec![]
    }

    fn request(
        &mut self,
        from: SocketAddr,
        request: &Request,
        signature: &Signature,
        datagram: &[u8],
        now: u64,
    ) -> Vec<Vec<u8>> {
        if request.recipient != self.own || request.sender == self.own {
            self.counts.misdirected += 1;
            return vec![];
        }
        if now.abs_diff(request.time_ms) > TIME_MS {
            self.counts.out_of_time += 1;
            return vec![];
        }
        if self.verifier.verify(&request.sender, signature, &repair::signed_bytes(datagram)).is_err() {
            self.counts.bad_signature += 1;
            return vec![];
        }
        let node = (request.sender, from);
        if self.proved.get(&node).is_none_or(|at| now > at + PONG_MS) {
            self.counts.unproved += 1;
            return self.ping(node, now).into_iter().collect();
        }
        let shreds = self.wanted(&request.wanted);
        if shreds.is_empty() {
            self.counts.not_found += 1;
        }
        let mut answers = vec![];
        for mut shred in shreds {
            shred.extend_from_slice(&request.nonce.to_le_bytes());
            if !self.pay(shred.len() as u64, now) {
                self.counts.over_budget += 1;
                break;
            }
            self.counts.served += 1;
            answers.push(shred);
        }
        answers
    }

    fn ping(&mut self, node: Node, now: u64) -> Option<Vec<u8>> {
        if self.pinged.get(&node).is_some_and(|(at, _)| now < at + PING_MS) {
            return None;
        }
        if self.pinged.len() + self.proved.len() >= NODES_MAX {
            self.pinged.retain(|_, (at, _)| now < *at + PING_MS);
            self.proved.retain(|_, at| now < *at + PONG_MS);
            if self.pinged.len() + self.proved.len() >= NODES_MAX {
                self.counts.over_budget += 1;
                return None;
            }
        }
        // Nobody may guess one from another: who can answers for addresses that are not its own.
        let mut token = [0; 32];
        hearth_tile::sys::random::fill(&mut token[..8]);
        self.pinged.insert(node, (now, pong_hash(&token)));
        Some(repair::write_ping(&Ping { from: self.own, token, signature: self.key.sign(&token) }))
    }

    /// Takes bytes from the budget, if it has them.
    fn pay(&mut self, bytes: u64, now: u64) -> bool {
        let filled = now.saturating_sub(self.filled_at).min(1_000) * (BYTES_PER_S / 1_000);
        self.filled_at = now;
        self.budget = (self.budget + filled).min(BYTES_PER_S);
        let has_it = self.budget >= bytes;
        self.budget -= if has_it { bytes } else { 0 };
        has_it
    }

    fn wanted(&mut self, wanted: &Wanted) -> Vec<Vec<u8>> {
        match *wanted {
            Wanted::Shred { slot, index } => self.shred(slot, index).into_iter().collect(),
            Wanted::Highest { slot, from } => {
                let highest = self.highest(slot).filter(|highest| *highest >= from);
                highest.and_then(|highest| self.shred(slot, highest)).into_iter().collect()
            }
            Wanted::Orphan { slot } => {
                let (mut found, mut next) = (vec![], Some(slot));
                while let Some(slot) = next.filter(|_| found.len() < ANCESTORS) {
                    let Some(shred) = self.highest(slot).and_then(|highest| self.shred(slot, highest)) else { break };
                    found.push(shred);
                    next = self.reader.slot(slot).map(|info| info.parent_slot).filter(|parent| *parent < slot);
                }
                found
            }
        }
    }

    /// The highest data shred that is here.
    fn highest(&self, slot: u64) -> Option<u32> {
        let mut highest = None;
        // What cannot be read is not here.
        let _ = self.reader.sets(slot, |set| highest = highest.max(Some(set.fec_set_index)));
        highest.map(|set| set + DATA_PER_SET as u32 - 1)
    }

    fn shred(&mut self, slot: u64, index: u32) -> Option<Vec<u8>> {
        let set_index = index - index % DATA_PER_SET as u32;
        let place = self.sets.iter().position(|(name, _)| *name == (slot, set_index));
        if place.is_none() {
            let (mut found, version) = (None, self.shred_version);
            let _ = self.reader.sets(slot, |set| {
                if set.fec_set_index == set_index {
                    found = FecSet::of_record(set, version);
                }
            });
            self.sets.push_front(((slot, set_index), found?));
            self.sets.truncate(SETS_KEPT);
        }
        let (_, set) = &self.sets[place.unwrap_or(0)];
        set.shreds().nth((index - set_index) as usize).map(<[u8]>::to_vec)
    }
}

/// The server, running; dropping it stops it.
pub struct RepairThread {
    /// Where it counts.
    pub words: Words,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RepairThread {
    /// Listens at `address`.
    pub fn start(address: SocketAddrV4, mut server: Server, links: &PeerLinks) -> io::Result<Self> {
        let words = Words::default();
        let region = Arc::clone(&words);
        let mut socket = PeerSocket::bind(address, links)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("serve-repair".into()).spawn(move || {
            let mut buffer = [0; 2_048];
            while !stopped.load(SeqCst) {
                if let Some(words) = region.get() {
                    server.counts.flush(words.words());
                }
                let Ok((size, from)) = socket.receive(&mut buffer, LOOK_EVERY) else { continue };
                let answers = server.answer(from, &buffer[..size], now_ms());
                answers.iter().for_each(|answer| socket.send(answer, from));
            }
        })?;
        Ok(Self { words, stop, thread: Some(thread) })
    }
}

impl Drop for RepairThread {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use hearth_ledger::blockstore::{BlockStore, Config, FecSetRecord, SyncPolicy};
    use hearth_pipeline::shred::{Shredder, ShredderConfig};
    use hearth_wire::entry::write_entry;
    use hearth_wire::gossip::Pong;
    use hearth_wire::repair::Answer;

    use super::*;

    const VERSION: u16 = 7;

    /// A store with the blocks of slots 1 and 2, and the shreds of both.
    fn store(folder: &std::path::Path) -> (BlockStore, Vec<Vec<u8>>) {
        let config = Config { sync: SyncPolicy::Kernel, ..Config::new(1 << 30, [1; 32]) };
        let (mut store, _) = BlockStore::open(folder, config).unwrap();
        let config = ShredderConfig { version: VERSION, batch_sets: 1, ..ShredderConfig::default() };
        let mut shredder = Shredder::new(config, [3; 32]);
        let (mut shreds, mut entry, mut set) = (vec![], vec![], FecSet::new());
        write_entry(1, &[4; 32], 1, &[5; 30_000], &mut entry);
        for slot in [1, 2] {
            shredder.begin_slot(slot, slot - 1).unwrap();
            for ends in [false, true] {
                shredder.push(&entry, 1).unwrap();
                shredder.end_batch(ends);
                while shredder.next_set(&mut set) {
                    set.sign(&[6; 64]);
                    shreds.extend(set.shreds().take(DATA_PER_SET).map(<[u8]>::to_vec));
                    let header = set.header();
                    store
                        .append_set(&FecSetRecord {
                            slot,
                            parent_slot: slot - 1,
                            fec_set_index: header.set_index,
                            reference_tick: header.reference_tick,
                            last_in_slot: header.ends_slot,
                            merkle_root: *set.root(),
                            chained_root: *set.chained_root(),
                            signature: [6; 64],
                            data: &set.entry_chunks().collect::<Vec<_>>().concat(),
                        })
                        .unwrap();
                }
            }
        }
        (store, shreds)
    }

    struct Asker {
        key: SigningKey,
        from: SocketAddr,
    }

    impl Asker {
        fn request(&self, server: &Server, wanted: Wanted, time_ms: u64) -> Vec<u8> {
            let sender = self.key.public_key();
            let mut bytes = Request { sender, recipient: server.own, time_ms, nonce: 77, wanted }.write();
            let signature = self.key.sign(&repair::signed_bytes(&bytes));
            repair::set_signature(&mut bytes, &signature);
            bytes
        }

        /// Answers the ping that a request is answered with.
        fn prove(&self, server: &mut Server, now: u64) {
            let request = self.request(server, Wanted::Orphan { slot: 1 }, now);
            let answers = server.answer(self.from, &request, now);
            let [ping] = &answers[..] else { panic!("{answers:?}") };
            assert!(ping.len() <= request.len(), "nobody is sent more than came from there");
            let Some(Answer::Ping(ping)) = Answer::parse(ping) else { panic!("{ping:?}") };
            let hash = pong_hash(&ping.token);
            let pong = Pong { from: self.key.public_key(), hash, signature: self.key.sign(&hash) };
            assert!(server.answer(self.from, &repair::write_pong(&pong), now).is_empty());
        }
    }

    fn server(store: &BlockStore) -> Server {
        Server::new(SigningKey::from_seed(&[1; 32]), VERSION, store.reader())
    }

    #[test]
    fn shreds_are_served_as_they_were_made() {
        let folder = tempfile::tempdir().unwrap();
        let (store, shreds) = store(folder.path());
        let mut server = server(&store);
        let asker = Asker { key: SigningKey::from_seed(&[2; 32]), from: "127.0.0.1:9".parse().unwrap() };
        asker.prove(&mut server, 1_000);
        let mut ask = |wanted| -> Vec<Vec<u8>> {
            let answers = server.answer(asker.from, &asker.request(&server, wanted, 1_000), 1_000);
            let shred = |answer: &Vec<u8>| match Answer::parse(answer) {
                Some(Answer::Shred(shred, 77)) => shred.to_vec(),
                other => panic!("{other:?}"),
            };
            answers.iter().map(shred).collect()
        };
        let of_slot = shreds.len() / 2;
        for place in [0, 31, 32, of_slot - 1] {
            assert_eq!(ask(Wanted::Shred { slot: 2, index: place as u32 }), [shreds[of_slot + place].clone()]);
        }
        let last = (of_slot - 1) as u32;
        assert_eq!(ask(Wanted::Highest { slot: 1, from: last }), [shreds[of_slot - 1].clone()]);
        assert_eq!(ask(Wanted::Orphan { slot: 2 }), [shreds[2 * of_slot - 1].clone(), shreds[of_slot - 1].clone()]);
        for nothing in [Wanted::Highest { slot: 1, from: last + 1 }, Wanted::Shred { slot: 3, index: 0 }] {
            assert!(ask(nothing).is_empty());
        }
        assert_eq!((server.counts.served, server.counts.not_found), (7, 2));
    }

    #[test]
    fn who_has_shown_nothing_is_served_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = store(folder.path());
        let mut server = server(&store);
        let key = |seed| SigningKey::from_seed(&[seed; 32]);
        let asker = Asker { key: key(2), from: "127.0.0.1:9".parse().unwrap() };
        let wanted = Wanted::Shred { slot: 1, index: 0 };
        asker.prove(&mut server, 1_000);
        // The same node elsewhere, another node at the same place.
        for other in [Asker { key: key(2), from: "127.0.0.1:8".parse().unwrap() }, Asker { key: key(3), ..asker }] {
            let request = other.request(&server, wanted, 1_000);
            let answers = server.answer(other.from, &request, 1_000);
            assert!(answers.len() == 1 && answers[0].len() <= request.len());
            assert!(server.answer(other.from, &request, 1_001).is_empty(), "one ping in two seconds");
        }
        let asker = Asker { key: key(2), from: "127.0.0.1:9".parse().unwrap() };
        let good = asker.request(&server, wanted, 1_000);
        assert_eq!(server.answer(asker.from, &good, 1_000).len(), 1);
        let mut forged = good.clone();
        forged[10] ^= 1;
        assert!(server.answer(asker.from, &forged, 1_000).is_empty());
        assert!(server.answer(asker.from, &good, 1_000 + TIME_MS + 1).is_empty());
        assert!(server.answer(asker.from, &good[1..], 1_000).is_empty());
        let own = Asker { key: key(1), ..asker };
        assert!(server.answer(own.from, &own.request(&server, wanted, 1_000), 1_000).is_empty());
        let pong = Pong { from: [7; 32], hash: [8; 32], signature: [9; 64] };
        assert!(server.answer(own.from, &repair::write_pong(&pong), 1_000).is_empty());
        let Counts { bad_signature, out_of_time, malformed, misdirected, unproved, .. } = server.counts;
        assert_eq!((bad_signature, out_of_time, malformed, misdirected, unproved), (2, 1, 1, 1, 5));
    }

    #[test]
    fn a_flood_gets_what_the_budget_has() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = store(folder.path());
        let mut server = server(&store);
        let asker = Asker { key: SigningKey::from_seed(&[2; 32]), from: "127.0.0.1:9".parse().unwrap() };
        asker.prove(&mut server, 1_000);
        let request = asker.request(&server, Wanted::Shred { slot: 1, index: 0 }, 1_000);
        server.budget = 3 * 1_207;
        server.filled_at = 1_000;
        let served = (0..20).filter(|_| !server.answer(asker.from, &request, 1_000).is_empty()).count();
        assert_eq!((served, server.counts.over_budget), (3, 17));
        // A millisecond is worth 12,000 bytes.
        let served = (0..20).filter(|_| !server.answer(asker.from, &request, 1_001).is_empty()).count();
        assert_eq!(served, 9);
    }
}
