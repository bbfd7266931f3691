//! Several nodes on virtual time: leaders in turn, loss, delay, reordering; the tile, the store and the repair server
//! are a node's own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use hearth_crypto::ed25519::{SigningKey, Verifier, VerifierConfig};
use hearth_gossip::{Peer as ClusterPeer, duplicate, pong_hash};
use hearth_ledger::blockstore::{self, BlockStore, FecSetRecord, SyncPolicy};
use hearth_ledger::{Genesis, GenesisConfig, Ledger, LedgerConfig, stakes};
use hearth_tile::rig::Rig;
use hearth_turbine::{Contact, NodeSet, Scratch, ShredId};
use hearth_wire::entry::write_entry;
use hearth_wire::repair::PING_DATAGRAM_SIZE;
use hearth_wire::shred::Shred as Piece;
use hearth_wire::{Hash, Pubkey};

use super::cluster::Cluster;
use super::counters::Counters;
use super::features::Features;
use super::receiver::ReceiverConfig;
use super::store_message::write_message;
use super::tile::{Config, Shred};
use super::{FecSet, Shredder, ShredderConfig, ShredderError};
use crate::links::{
    Datagram, GOSSIP_REPAIR, GOSSIP_SHRED, OUTGOING_MTU, Outgoing, PEER_NEWS_MTU, PONG, PeerNews, PortKind,
    REPLAY_SHRED, SlotNews, TOWER_REPAIR, TOWER_SHRED, VOTED, ping_token, read_set,
};
use crate::repair::nonce::NonceKey;
use crate::repair::{self, Repair};
use crate::rserve::{self, Rserve};

const VERSION: u16 = 7;
const STEP: Duration = Duration::from_millis(1);
/// Datagrams given to a tile before its turns.
const BATCH: usize = 16;
const TVU: u16 = 1;
const REPAIR: u16 = 2;
const SERVE: u16 = 3;

fn key(node: usize) -> SigningKey {
    SigningKey::from_seed(&[node as u8 + 1; 32])
}

fn address(node: usize, port: u16) -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, node as u8), port).into()
}

fn contact(node: usize) -> Contact {
    Contact { identity: key(node).public_key(), address: Some(address(node, TVU)) }
}

/// A ledger on which this many nodes have equal stake.
fn ledger(nodes: usize, slots_per_epoch: u64) -> Arc<Ledger> {
    let accounts = |node: usize| {
        let name = |kind: u8| [[kind; 16], [node as u8; 16]].concat().try_into().expect("32 bytes");
        stakes::genesis_accounts(&name(100), &name(101), &key(node).public_key())
    };
    let config = GenesisConfig {
        fund_initial_accounts: 0,
        slots_per_epoch,
        extra_accounts: (0..nodes).flat_map(accounts).collect(),
        ..GenesisConfig::development(key(0).public_key(), [2; 32], 1_700_000_000)
    };
    Ledger::new(&Genesis::create(config, |_| {}).unwrap(), LedgerConfig::default())
}

const INPUTS: [&str; 5] = ["net_shred:0", "sign_shred:0", GOSSIP_SHRED, REPLAY_SHRED, TOWER_SHRED];
const OUTPUTS: [&str; 5] = ["shred_sign:0", "shred_store:0", "shred_net:0", "shred_repair:0", "shred_gossip:0"];
const REPAIR_INPUTS: [&str; 5] = ["net_repair:0", "sign_repair", "shred_repair:0", GOSSIP_REPAIR, TOWER_REPAIR];
const REPAIR_OUTPUTS: [&str; 3] = ["repair_net", "repair_sign", "repair_tower"];
const SERVER_INPUTS: [&str; 3] = ["net_rserve:0", "sign_rserve", "tower_rserve"];
const SERVER_OUTPUTS: [&str; 2] = ["rserve_net", "rserve_sign"];

/// Makes the shred tile of a node that knows all nodes from gossip.
fn rig(config: &Config, nodes: usize) -> Rig<Shred> {
    let mut rig = Rig::new(config.clone(), &INPUTS, &OUTPUTS);
    for message in (0..nodes).map(peer_news) {
        rig.give(GOSSIP_SHRED, 0, &message);
        rig.run();
    }
    rig
}

/// Makes the repair tile of such a node.
fn repair_rig(config: &repair::Config, nodes: usize) -> Rig<Repair> {
    let mut rig = Rig::new(config.clone(), &REPAIR_INPUTS, &REPAIR_OUTPUTS);
    for message in (0..nodes).map(peer_news) {
        rig.give(GOSSIP_REPAIR, 0, &message);
        rig.run();
    }
    rig
}

/// Encodes gossip's news of a node that receives shreds and serves repair.
fn peer_news(node: usize) -> Vec<u8> {
    let address = |port| match address(node, port) {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(_) => unreachable!("it is made of one"),
    };
    let peer = ClusterPeer {
        identity: key(node).public_key(),
        tvu: address(TVU),
        serve_repair: address(SERVE),
        tpu_quic: None,
        tpu_vote_quic: None,
        stake: stakes::GENESIS_STAKE_LAMPORTS,
        lowest: 0,
    };
    let mut message = vec![0; PEER_NEWS_MTU];
    let size = PeerNews::Known(peer).write(&mut message);
    message.truncate(size);
    message
}

/// Two shreds that a leader cannot have made for one block.
struct Contradiction {
    slot: u64,
    shreds: [Vec<u8>; 2],
}

struct Peer {
    config: Config,
    repair_config: repair::Config,
    rig: Rig<Shred>,
    repair: Rig<Repair>,
    store: BlockStore,
    server: Rig<Rserve>,
    key: SigningKey,
    is_up: bool,
    contradictions: Vec<Contradiction>,
    _folder: tempfile::TempDir,
}

/// Arrival time, sequence number, source, destination, bytes.
type Packet = (u64, u64, SocketAddr, SocketAddr, Vec<u8>);

struct World {
    peers: Vec<Peer>,
    ledger: Arc<Ledger>,
    packets: BinaryHeap<Reverse<Packet>>,
    sent: u64,
    now_ms: u64,
    random: fastrand::Rng,
    seed: u64,
    loss_percent: u64,
    /// For each slot, the sets on which the cluster agrees.
    blocks: BTreeMap<u64, Vec<FecSet>>,
}

impl World {
    fn new(nodes: usize, slots_per_epoch: u64, (slots_max, sets_max): (usize, usize), seed: u64) -> Self {
        let ledger = ledger(nodes, slots_per_epoch);
        let peer = |node: usize| {
            let folder = tempfile::tempdir().unwrap();
            let config = blockstore::Config { sync: SyncPolicy::Kernel, ..blockstore::Config::new(1 << 30, [1; 32]) };
            let (store, _) = BlockStore::open(folder.path(), config).unwrap();
            let receiver = ReceiverConfig {
                version: VERSION,
                own: key(node).public_key(),
                shreds_per_slot_max: 1_024,
                slots_per_epoch,
                slots_max,
                sets_max,
            };
            let nonces = NonceKey([node as u8; 32]);
            let identity = receiver.own.into();
            let cluster = Cluster { identity, receiver, ledger: ledger.clone(), blocks: store.reader(), nonces };
            let own = || key(node).public_key().into();
            let repair_config = repair::Config { own: own(), ledger: ledger.clone(), blocks: store.reader(), nonces };
            let repair = repair_rig(&repair_config, nodes);
            let config = Config {
                shred_version: VERSION,
                shreds_per_slot_max: 1_024,
                chained_root: [3; 32],
                first_slot: 1,
                takes_turns: false,
                destinations: vec![],
                cluster: Some(cluster),
                tap: None,
            };
            let rig = rig(&config, nodes);
            let server = rserve::Config { own: own(), shred_version: VERSION, blocks: store.reader() };
            let server = Rig::new(server, &SERVER_INPUTS, &SERVER_OUTPUTS);
            Peer {
                config,
                repair_config,
                rig,
                repair,
                store,
                server,
                key: key(node),
                is_up: true,
                contradictions: vec![],
                _folder: folder,
            }
        };
        Self {
            peers: (0..nodes).map(peer).collect(),
            ledger: ledger.clone(),
            packets: BinaryHeap::new(),
            sent: 0,
            now_ms: 0,
            random: fastrand::Rng::with_seed(seed),
            seed,
            loss_percent: 0,
            blocks: BTreeMap::new(),
        }
    }

    fn leader(&self, slot: u64) -> usize {
        let leader = self.ledger.leader_at(slot).expect("of the first two epochs leaders are known").node;
        (0..self.peers.len()).find(|node| key(*node).public_key() == leader).expect("one of the nodes")
    }

    /// Makes a block on the previous one; another `mark` makes another block of the same slot.
    fn make(&self, slot: u64, sets: usize, mark: u8) -> Vec<FecSet> {
        let parent_root = self.blocks.get(&(slot - 1)).map_or([3; 32], |sets| *sets.last().expect("a set").root());
        let config = ShredderConfig { version: VERSION, batch_sets: 1, ..ShredderConfig::default() };
        let mut shredder = Shredder::new(config, parent_root);
        let (key, mut made) = (key(self.leader(slot)), vec![]);
        shredder.begin_slot(slot, slot - 1).unwrap();
        let mut drain = |shredder: &mut Shredder| {
            let mut set = FecSet::new();
            while shredder.next_set(&mut set) {
                let signature = key.sign(set.root());
                set.sign(&signature);
                made.push(set.clone());
            }
        };
        let mut entry = vec![];
        write_entry(slot, &[mark; 32], 1, &[mark; 20_000], &mut entry);
        for number in 0..sets {
            while shredder.push(&entry, 1) == Err(ShredderError::BatchFull) {
                shredder.end_batch(false);
                drain(&mut shredder);
            }
            if number + 1 == sets {
                shredder.end_batch(true);
            }
        }
        drain(&mut shredder);
        made
    }

    fn keep(store: &mut BlockStore, sets: &[FecSet]) {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        for set in sets {
            let parent = set.header().slot - u64::from(set.header().parent_offset);
            let size = write_message(set, parent, &mut buffer);
            let record: FecSetRecord<'_> = read_set(&buffer[..size]);
            store.append_set(&record).unwrap();
        }
    }

    /// Returns each shred of a block, with the address of the root of its tree.
    fn roots(&self, sets: &[FecSet]) -> Vec<(SocketAddr, Vec<u8>)> {
        let slot = sets[0].header().slot;
        let leader = self.leader(slot);
        let all: Vec<Contact> = (0..self.peers.len()).map(contact).collect();
        let epoch = self.ledger.epoch_schedule().epoch(slot);
        let stakes = self.ledger.epoch_stakes(epoch).expect("of the first two epochs stakes are known");
        let stakes = stakes.votes.iter().map(|vote| (vote.node, vote.stake)).collect();
        let features = Features::of(&self.ledger.features(), epoch, self.ledger.epoch_schedule());
        let nodes = NodeSet::new(contact(leader), &all, &stakes, features.cipher, false);
        let mut scratch = Scratch::default();
        let root = |bytes: &[u8]| {
            let shred = Piece::parse(bytes).unwrap();
            let id = ShredId { slot, kind: shred.variant().kind, index: shred.index() };
            let root = nodes.root(&id, &key(leader).public_key(), &mut scratch).and_then(|node| node.address);
            (root.expect("all have one"), bytes.to_vec())
        };
        sets.iter().flat_map(FecSet::shreds).map(root).collect()
    }

    /// Broadcasts a block as its leader: sends each shred to the root of its tree.
    fn broadcast(&mut self, sets: &[FecSet]) {
        let leader = self.leader(sets[0].header().slot);
        for (root, bytes) in self.roots(sets) {
            self.send(address(leader, TVU), root, bytes);
        }
    }

    fn send(&mut self, from: SocketAddr, to: SocketAddr, data: Vec<u8>) {
        if self.random.u64(..100) < self.loss_percent {
            return;
        }
        let at = self.now_ms + 1 + self.random.u64(..30);
        self.sent += 1;
        self.packets.push(Reverse((at, self.sent, from, to, data)));
    }

    fn place(at: SocketAddr) -> (usize, u16) {
        let SocketAddr::V4(at) = at else { unreachable!("all are of that kind") };
        (usize::from(at.ip().octets()[3]), at.port())
    }

    /// Advances the time by a millisecond.
    fn step(&mut self) {
        self.now_ms += 1;
        let mut given: BTreeMap<usize, usize> = BTreeMap::new();
        while self.packets.peek().is_some_and(|Reverse((at, ..))| *at <= self.now_ms) {
            let Some(Reverse((_, _, from, to, data))) = self.packets.pop() else { break };
            let (node, port) = Self::place(to);
            if !self.peers[node].is_up {
                continue;
            }
            let kind = match port {
                TVU => PortKind::Tvu,
                REPAIR => PortKind::Repair,
                _ => PortKind::ServeRepair,
            };
            let mut buffer = [0; 2_048];
            let size = Datagram { from, port: kind, data: &data }.write(&mut buffer);
            match kind {
                PortKind::ServeRepair => self.peers[node].server.give("net_rserve:0", 0, &buffer[..size]),
                PortKind::Repair if data.len() == PING_DATAGRAM_SIZE => {
                    self.peers[node].repair.give("net_repair:0", 0, &buffer[..size]);
                }
                _ => self.peers[node].rig.give("net_shred:0", 0, &buffer[..size]),
            }
            let count = given.entry(node).or_default();
            *count += 1;
            if count.is_multiple_of(BATCH) {
                self.work(node);
            }
        }
        for node in 0..self.peers.len() {
            self.peers[node].rig.advance(STEP);
            self.peers[node].server.advance(STEP);
            self.peers[node].repair.advance(STEP);
            if self.peers[node].is_up {
                self.work(node);
            }
        }
    }

    /// Runs a node's tiles, and plays its sign and store tiles.
    fn work(&mut self, node: usize) {
        loop {
            let peer = &mut self.peers[node];
            peer.rig.run();
            let asked = peer.rig.take("shred_sign:0");
            for (tag, root) in &asked {
                peer.rig.give("sign_shred:0", *tag, &peer.key.sign(root));
            }
            for (control, gaps) in peer.rig.take_control("shred_repair:0") {
                peer.repair.give_control("shred_repair:0", 0, control, &gaps);
            }
            peer.repair.run();
            for (tag, question) in peer.repair.take("repair_sign") {
                let signature = match question.strip_prefix(&PONG) {
                    Some(token) if token.len() == 32 => peer.key.sign(&pong_hash(token.try_into().unwrap())),
                    _ => peer.key.sign(&question),
                };
                peer.repair.give("sign_repair", tag, &signature);
            }
            peer.repair.run();
            for (slot, message) in peer.rig.take("shred_store:0") {
                match message.is_empty() {
                    true => drop(peer.store.dump(slot).unwrap()),
                    false => drop(peer.store.append_set(&read_set(&message)).unwrap()),
                }
            }
            peer.server.run();
            for (tag, nonce) in peer.server.take("rserve_sign") {
                let signature = peer.key.sign(&ping_token(nonce.as_slice().try_into().unwrap()));
                peer.server.give("sign_rserve", tag, &signature);
            }
            peer.server.run();
            let mut outgoing = peer.rig.take("shred_net:0");
            outgoing.extend(peer.server.take("rserve_net"));
            outgoing.extend(peer.repair.take("repair_net"));
            for (_, news) in peer.rig.take("shred_gossip:0") {
                if let SlotNews::Contradiction { slot, shreds } = SlotNews::read(&news) {
                    peer.contradictions.push(Contradiction { slot, shreds: shreds.map(<[u8]>::to_vec) });
                }
            }
            for (_, message) in &outgoing {
                assert!(message.len() <= OUTGOING_MTU);
                let message = Outgoing::read(message);
                let port = match message.port {
                    PortKind::Repair => REPAIR,
                    PortKind::ServeRepair => SERVE,
                    _ => TVU,
                };
                let size = if message.segment == 0 { message.data.len() } else { message.segment.into() };
                for data in message.data.chunks(size) {
                    self.send(address(node, port), message.to, data.to_vec());
                }
            }
            if asked.is_empty() && outgoing.is_empty() {
                return;
            }
        }
    }

    /// The roots of a node's block of a slot, if the block is complete there.
    fn block(&self, node: usize, slot: u64) -> Option<BTreeMap<u32, Hash>> {
        let reader = self.peers[node].store.reader();
        reader.slot(slot).filter(|info| info.whole)?;
        let mut roots = BTreeMap::new();
        let keep = |set: &FecSetRecord<'_>| {
            roots.insert(set.fec_set_index, set.merkle_root);
        };
        reader.sets(slot, keep).unwrap();
        Some(roots)
    }

    fn lacks(&self) -> Vec<(usize, u64)> {
        let wanted = |sets: &[FecSet]| sets.iter().map(|set| (set.header().set_index, *set.root())).collect();
        let wanted = self.blocks.iter().map(|(slot, sets)| (slot, wanted(sets)));
        let of_slot = |(slot, wanted): (&u64, BTreeMap<u32, Hash>)| -> Vec<(usize, u64)> {
            let lack = (0..self.peers.len()).filter(|node| self.block(*node, *slot).as_ref() != Some(&wanted));
            lack.map(|node| (node, *slot)).collect()
        };
        wanted.flat_map(of_slot).collect()
    }

    /// Kills the node and starts it again.
    fn restart(&mut self, node: usize) {
        let nodes = self.peers.len();
        let peer = &mut self.peers[node];
        peer.rig = rig(&peer.config, nodes);
        peer.repair = repair_rig(&peer.repair_config, nodes);
    }

    /// Runs until every node has every block, with `each` after every 100 ms; panics after `limit_ms`.
    fn settle(&mut self, limit_ms: u64, mut each: impl FnMut(&mut Self)) -> u64 {
        let start = self.now_ms;
        loop {
            (0..100).for_each(|_| self.step());
            let lacks = self.lacks();
            if lacks.is_empty() {
                return self.now_ms - start;
            }
            assert!(self.now_ms < start + limit_ms, "seed {}: node and slot: {lacks:?}", self.seed);
            each(self);
        }
    }

    /// The number of repair requests by all nodes.
    fn requests(&self) -> u64 {
        self.peers.iter().map(|peer| peer.repair.count().requests).sum()
    }

    fn total(&self, of: impl Fn(&Counters) -> u64) -> u64 {
        self.peers.iter().map(|peer| of(peer.rig.count())).sum()
    }
}

#[test]
fn all_blocks_come_whole_through_loss_and_two_blocks_of_a_slot() {
    const TWO: [u64; 2] = [21, 44];
    let mut repaired = 0;
    for seed in [1, 2, 3] {
        let mut world = World::new(5, 32, (64, 256), seed);
        world.loss_percent = 15;
        for slot in 1..=52 {
            let sets = 1 + world.random.usize(..4);
            let block = world.make(slot, sets, 5);
            let leader = world.leader(slot);
            World::keep(&mut world.peers[leader].store, &block);
            world.broadcast(&block);
            if TWO.contains(&slot) {
                // Of equal or different lengths, and sent to the same nodes.
                let sets = 1 + world.random.usize(..4);
                let other = world.make(slot, sets, 6);
                world.broadcast(&other);
            }
            world.blocks.insert(slot, block);
            (0..20).for_each(|_| world.step());
        }
        let took = world.settle(60_000, |world| {
            // Simulates consensus, which knows the majority's block. A node with the complete other block dumps it; a
            // node with a part of it gives it up by itself.
            for (node, slot) in world.lacks().into_iter().filter(|(_, slot)| TWO.contains(slot)) {
                if world.block(node, slot).is_some() {
                    world.peers[node].rig.give(REPLAY_SHRED, slot, &[]);
                }
            }
        });
        let count = |of: fn(&Counters) -> u64| world.total(of);
        println!("seed {seed}: {took} ms after the last block; {} requests", world.requests());
        assert!(count(|c| c.shreds_recovered) > 0, "seed {seed}");
        repaired += count(|c| c.shreds_repaired);
        assert_eq!(count(|c| c.dropped_sender), 0, "seed {seed}: all who send on sign, from epoch 1 on");
        assert_eq!((count(|c| c.dropped_signature), count(|c| c.dropped_proof)), (0, 0), "seed {seed}");
        let mut verifier = Verifier::new(VerifierConfig::default());
        let mut proved = vec![];
        for found in world.peers.iter().flat_map(|peer| &peer.contradictions) {
            let leader: Pubkey = key(world.leader(found.slot)).public_key();
            let shreds = found.shreds.each_ref().map(Vec::as_slice);
            assert_eq!(duplicate::check(found.slot, shreds, VERSION, &leader, &mut verifier), Ok(()), "seed {seed}");
            proved.push(found.slot);
        }
        proved.sort_unstable();
        proved.dedup();
        assert_eq!(proved, TWO, "seed {seed}");
    }
    assert!(repaired > 0, "with any of the seeds");
}

#[test]
fn node_with_part_of_another_block_gets_the_clusters() {
    // The first, the last and all but one shred of a block that no other node has: the leader sends these straight to
    // two nodes, before and after the block that it sends to all.
    for (seed, places) in [(1, 0..1), (2, 95..96), (3, 0..31), (4, 0..95)] {
        let mut world = World::new(5, 32, (64, 256), seed);
        world.loss_percent = 5;
        let (slot, leader) = (9, world.leader(9));
        let [block, other] = [5, 6].map(|mark| world.make(slot, 3, mark));
        let victims: Vec<usize> = (0..5).filter(|node| *node != leader).take(2).collect();
        let straight = |world: &mut World| {
            let data = other.iter().flat_map(|set| set.shreds().take(32)).enumerate();
            for (_, shred) in data.filter(|(place, _)| places.contains(place)) {
                for victim in &victims {
                    world.packets.push(Reverse((
                        world.now_ms + 1,
                        0,
                        address(leader, TVU),
                        address(*victim, TVU),
                        shred.to_vec(),
                    )));
                }
            }
        };
        straight(&mut world);
        (0..5).for_each(|_| world.step());
        World::keep(&mut world.peers[leader].store, &block);
        world.broadcast(&block);
        for slot in 1..=slot {
            let block = if slot == 9 { block.clone() } else { world.make(slot, 1, 5) };
            (0..5).filter(|_| slot < 9).for_each(|node| World::keep(&mut world.peers[node].store, &block));
            world.blocks.insert(slot, block);
        }
        let took = world.settle(30_000, straight);
        let dumped = world.total(|count| count.slots_dumped);
        println!("seed {seed}: {took} ms, {dumped} blocks given up");
        assert!(dumped >= victims.len() as u64, "seed {seed}: they had another");
    }
}

#[test]
fn two_blocks_are_not_mixed_by_a_kill() {
    // The first set of a block is stored, and the node killed; then all of another block arrives.
    let (mut world, slot) = (World::new(5, 32, (64, 256), 5), 9);
    let leader = world.leader(slot);
    let victim = (leader + 1) % 5;
    let [block, other] = [5, 6].map(|mark| world.make(slot, 3, mark));
    for shred in other[0].shreds().take(32) {
        world.packets.push(Reverse((1, 0, address(leader, TVU), address(victim, TVU), shred.to_vec())));
    }
    (0..2).for_each(|_| world.step());
    assert_eq!(
        world.peers[victim].store.reader().slot(slot).map(|info| (info.set_count, info.whole)),
        Some((1, false))
    );
    world.restart(victim);
    World::keep(&mut world.peers[leader].store, &block);
    world.broadcast(&block);
    for slot in 1..slot {
        let block = world.make(slot, 1, 5);
        (0..5).for_each(|node| World::keep(&mut world.peers[node].store, &block));
        world.blocks.insert(slot, block);
    }
    world.blocks.insert(slot, block);
    world.settle(10_000, |_| {});
    assert_eq!(world.peers[victim].rig.count().voided_slots, 1);
    assert_eq!(world.total(|count| count.voided_slots), 1, "where nothing is stored nothing is void");
}

#[test]
fn voted_slot_is_requested_without_any_shred() {
    let mut world = World::new(5, 4_096, (64, 256), 7);
    let leader = world.leader(1);
    for slot in 1..=3 {
        let block = world.make(slot, 1, 5);
        World::keep(&mut world.peers[leader].store, &block);
        world.blocks.insert(slot, block);
    }
    (0..2_000).for_each(|_| world.step());
    assert_eq!(world.requests(), 0, "nothing is known of them");
    for peer in &mut world.peers {
        peer.repair.give_control(TOWER_REPAIR, 3, VOTED, &[]);
        // For a slot that never existed nothing arrives, and the others do not wait for it.
        peer.repair.give_control(TOWER_REPAIR, 9, VOTED, &[]);
    }
    // One node of five has it, and each request goes to one of four chosen at random, every 150 ms: the last of a
    // hundred shreds may take twenty tries.
    let took = world.settle(10_000, |_| {});
    assert!(took < 5_000, "{took} ms");
    // It is requested every 150 ms, and forgotten after 30 s.
    let before = world.requests();
    (0..31_000).for_each(|_| world.step());
    let asked = world.requests();
    (0..2_000).for_each(|_| world.step());
    assert_eq!(world.requests(), asked);
    assert!(asked - before <= 5 * 200, "{before} and {asked} requests");
}

#[test]
fn node_far_behind_catches_up_under_new_blocks() {
    const BEHIND: u64 = 500;
    let seed = 9;
    let mut world = World::new(4, 4_096, (24, 24), seed);
    world.loss_percent = 5;
    let late = 3;
    world.peers[late].is_up = false;
    for slot in 1..=BEHIND {
        let block = world.make(slot, 1, 5);
        (0..3).for_each(|node| World::keep(&mut world.peers[node].store, &block));
        if world.leader(slot) == late {
            World::keep(&mut world.peers[late].store, &block);
        }
        world.blocks.insert(slot, block);
    }
    world.peers[late].is_up = true;
    for slot in BEHIND + 1..=BEHIND + 60 {
        let block = world.make(slot, 3, 5);
        let leader = world.leader(slot);
        World::keep(&mut world.peers[leader].store, &block);
        world.broadcast(&block);
        world.blocks.insert(slot, block);
        (0..40).for_each(|_| world.step());
    }
    let took = world.settle(60_000, |_| {});
    let count = *world.peers[late].rig.count();
    println!("{took} ms after the last block; {} sets, {} slots made room", count.evicted_sets, count.evicted_slots);
    assert!(count.dropped_no_room > 0, "there was too much: seed {seed}");
    assert!(count.evicted_sets > 0, "the next ones came first: seed {seed}");
}

#[test]
fn retransmitter_must_sign_last_sets_from_epoch_1() {
    for (slot, is_asked) in [(9, false), (40, true)] {
        let mut world = World::new(5, 32, (64, 256), 1);
        let block = world.make(slot, 1, 5);
        let node = (world.leader(slot) + 1) % 5;
        let mut buffer = [0; 2_048];
        for bytes in block[0].shreds() {
            let size = Datagram { from: address(9, TVU), port: PortKind::Tvu, data: bytes }.write(&mut buffer);
            world.peers[node].rig.give("net_shred:0", 0, &buffer[..size]);
            world.work(node);
        }
        let count = *world.peers[node].rig.count();
        assert_eq!(count.dropped_sender > 0, is_asked, "{count:?}");
        // It requests no shreds for which it is the tree's root.
        assert_eq!(count.shreds_taken + count.dropped_sender + count.dropped_duplicate, 64, "{count:?}");
        assert!(count.shreds_taken > 0);
    }
}

#[test]
fn shreds_of_a_burst_go_to_each_child_in_runs() {
    let (mut world, slot) = (World::new(5, 4_096, (64, 256), 1), 9);
    let block = world.make(slot, 1, 5);
    let leader = world.leader(slot);
    let node = (leader + 1) % 5;
    let shreds = world.roots(&block);
    let rig = &mut world.peers[node].rig;
    let (mut messages, mut sent) = (0, BTreeMap::<SocketAddr, Vec<Vec<u8>>>::new());
    for burst in shreds.chunks(BATCH) {
        for (_, bytes) in burst {
            let mut buffer = [0; 2_048];
            let size = Datagram { from: address(9, TVU), port: PortKind::Tvu, data: bytes }.write(&mut buffer);
            rig.give("net_shred:0", 0, &buffer[..size]);
        }
        rig.run();
        for (_, message) in rig.take("shred_net:0") {
            let message = Outgoing::read(&message);
            let run = message.data.chunks(message.segment.into()).map(<[u8]>::to_vec);
            sent.entry(message.to).or_default().extend(run);
            messages += 1;
        }
    }
    let rooted = shreds.into_iter().filter(|(root, _)| *root == address(node, TVU));
    let mut rooted: Vec<Vec<u8>> = rooted.map(|(_, bytes)| bytes).collect();
    rooted.sort_unstable();
    assert!(rooted.len() > 6, "of 64 shreds a quarter: {}", rooted.len());
    let children: Vec<SocketAddr> = (0..5).filter(|n| ![leader, node].contains(n)).map(|n| address(n, TVU)).collect();
    assert!(sent.keys().eq(&children), "{:?}", sent.keys());
    for (child, mut came) in sent {
        came.sort_unstable();
        assert_eq!(came, rooted, "{child}: each of them once, those too that were recovered");
    }
    assert!(2 * messages < children.len() * rooted.len(), "{messages} messages of {} shreds", rooted.len());
    assert_eq!(rig.count().shreds_sent_on, (children.len() * rooted.len()) as u64);
}

#[test]
fn unanswered_requests_are_repeated() {
    // A full table of unanswered requests; each slot's leader has the shreds, but is stopped.
    let (mut world, node) = (World::new(4, 4_096, (64, 256), 3), 3);
    (0..3).for_each(|node| world.peers[node].is_up = false);
    for slot in 1..=32 {
        let block = world.make(slot, 4, 5);
        let leader = world.leader(slot);
        (0..4).filter(|peer| *peer != node || leader == node).for_each(|peer| {
            World::keep(&mut world.peers[peer].store, &block);
        });
        if leader != node {
            for shred in block.iter().filter_map(|set| set.shreds().next()) {
                world.send(address(leader, TVU), address(node, TVU), shred.to_vec());
            }
        }
        world.blocks.insert(slot, block);
    }
    (0..3_000).for_each(|_| world.step());
    let asked = world.peers[node].repair.count().requests;
    assert!(asked > 16_384, "{asked} requests");
    (0..3).for_each(|node| world.peers[node].is_up = true);
    world.settle(10_000, |_| {});
}

/// While nothing arrives the core wakes as often as for a node's other tiles, and whenever something is due.
#[test]
fn quiet_nodes_are_woken_when_something_is_due() {
    let mut world = World::new(2, 32, (64, 256), 1);
    let leader = world.leader(1);
    let node = 1 - leader;
    let wakes_at_ms = |world: &mut World| {
        let deadline = world.peers[node].rig.waits_for().deadline.expect("it looks some time");
        assert!(deadline > world.now_ms * 1_000_000, "a time that is over would keep the core awake");
        deadline / 1_000_000
    };
    let step_to = |world: &mut World, ms: u64| {
        while world.now_ms < ms {
            world.step();
            wakes_at_ms(world);
        }
    };
    step_to(&mut world, 10);
    assert_eq!(wakes_at_ms(&mut world), 50);
    let block = world.make(1, 2, 5);
    let shred = block[0].shreds().next().unwrap().to_vec();
    world.packets.push(Reverse((11, 0, address(leader, TVU), address(node, TVU), shred)));
    step_to(&mut world, 11);
    assert_eq!(world.peers[node].rig.count().shreds_taken, 1);
    assert_eq!(wakes_at_ms(&mut world), 25, "repair hears of the slot");
    step_to(&mut world, 25);
    assert_eq!(wakes_at_ms(&mut world), 50);
    // The rest is expected within 250 ms.
    step_to(&mut world, 256);
    assert_eq!((wakes_at_ms(&mut world), world.requests()), (265, 0));
    step_to(&mut world, 265);
    assert_eq!(wakes_at_ms(&mut world), 300, "it has said all");
    step_to(&mut world, 270);
    assert!(world.requests() > 0);
}
