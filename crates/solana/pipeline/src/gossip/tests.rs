//! Tile tests: two nodes whose links the test holds, on virtual time.

use std::net::SocketAddrV4;
use std::time::Duration;

use hearth_crypto::ed25519::SigningKey;
use hearth_gossip::{SignKind, SignRequest, pong_hash};
use hearth_ledger::blockstore::{self, BlockStore, FecSetRecord, SyncPolicy};
use hearth_ledger::{Genesis, GenesisConfig, LedgerConfig, stakes};
use hearth_tile::rig::{DEPTH, Rig};
use hearth_wire::consts::VOTE_PROGRAM;
use hearth_wire::gossip::{Carrier, CrdsData, Ping, Protocol, SocketKind, Version, write_ping, write_values_header};
use hearth_wire::message::{AccountMeta, Instruction, Message};

use super::*;
use crate::links::{PeerNews, SLOT_NEWS_MTU, STATEMENT_MTU};

const FROM_NET: &str = "net_gossip:0";
const FROM_SHRED: &str = "shred_gossip:0";
const INPUTS: [&str; 4] = [FROM_NET, SIGN_GOSSIP, FROM_SHRED, TOWER_GOSSIP];
const OUTPUTS: [&str; 6] = [GOSSIP_NET, GOSSIP_SIGN, GOSSIP_SHRED, GOSSIP_REPAIR, GOSSIP_TXSEND, GOSSIP_TOWER];
const STEP: Duration = Duration::from_millis(5);

fn key(node: u8) -> SigningKey {
    SigningKey::from_seed(&[node + 1; 32])
}

fn address(node: u8) -> SocketAddrV4 {
    SocketAddrV4::new([10, 0, 0, node + 1].into(), 8_001)
}

/// A ledger on which nodes 0 and 1 have stake.
fn ledger() -> Arc<Ledger> {
    let accounts = |node: u8| {
        let name = |kind: u8| [[kind; 16], [node; 16]].concat().try_into().expect("32 bytes");
        stakes::genesis_accounts(&name(100), &name(101), &key(node).public_key())
    };
    let config = GenesisConfig {
        fund_initial_accounts: 0,
        extra_accounts: (0..2).flat_map(accounts).collect(),
        ..GenesisConfig::development(key(0).public_key(), [2; 32], 1_700_000_000)
    };
    Ledger::new(&Genesis::create(config, |_| {}).unwrap(), LedgerConfig::default())
}

/// A node without its sign and net tiles.
struct Node {
    rig: Rig<Gossip>,
    board: Arc<Board>,
    store: BlockStore,
    key: SigningKey,
    _folder: tempfile::TempDir,
}

impl Node {
    fn new(node: u8) -> Self {
        Self::serving(node, Arc::default())
    }

    /// One that serves archives of the cluster's.
    fn serving(node: u8, archives: Arc<AnnouncedArchives>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = blockstore::Config { sync: SyncPolicy::Kernel, ..blockstore::Config::new(1 << 30, [1; 32]) };
        let (store, _) = BlockStore::open(folder.path(), store).unwrap();
        let own = ContactInfo::new(key(node).public_key(), 1_000 + u64::from(node), 7, Version::default())
            .with(SocketKind::Gossip, address(node))
            .with(SocketKind::Tvu, SocketAddrV4::new(*address(node).ip(), 8_002))
            .with(SocketKind::ServeRepair, SocketAddrV4::new(*address(node).ip(), 8_003));
        let board = Arc::new(Board::default());
        let config = Config {
            protocol: protocol::Config {
                entrypoints: vec![address(0)],
                allow_private: true,
                verifier_bytes_max: 0,
                ..protocol::Config::default()
            },
            identity: own.pubkey.into(),
            own,
            ledger: ledger(),
            blocks: store.reader(),
            archives,
            board: board.clone(),
        };
        let rig = Rig::new(config, &INPUTS, &OUTPUTS);
        Self { rig, board, store, key: key(node), _folder: folder }
    }

    fn give(&mut self, from: SocketAddrV4, data: &[u8]) {
        let mut frag = vec![0; Datagram::HEADER + data.len()];
        let size = Datagram { from: from.into(), port: PortKind::Gossip, data }.write(&mut frag);
        self.rig.give(FROM_NET, 0, &frag[..size]);
    }

    /// Takes its requests to sign.
    fn requests(&mut self) -> Vec<SignRequest> {
        let request = |(tag, kind, bytes)| SignRequest { tag, kind: SignKind::of(kind).expect("a kind"), bytes };
        self.rig.take_frags(GOSSIP_SIGN).into_iter().map(request).collect()
    }

    /// Answers all requests to sign; returns how many.
    fn sign(&mut self) -> usize {
        let requests = self.requests();
        for request in &requests {
            self.rig.give(SIGN_GOSSIP, request.tag, &request.sign(&self.key));
        }
        self.rig.run();
        requests.len()
    }

    /// Gives it a statement of consensus.
    fn state(&mut self, statement: Statement<'_>) {
        let mut message = [0; STATEMENT_MTU];
        let size = statement.write(&mut message);
        self.rig.give(TOWER_GOSSIP, 0, &message[..size]);
    }

    /// Gives it a shred tile's news of a slot.
    fn slot(&mut self, news: SlotNews<'_>) {
        let mut message = [0; SLOT_NEWS_MTU];
        let size = news.write(&mut message);
        self.rig.give(FROM_SHRED, 0, &message[..size]);
    }

    /// Takes the node news that it sent to a tile.
    fn peer_news(&mut self, link: &str) -> Vec<PeerNews> {
        self.rig.take(link).iter().map(|(_, message)| PeerNews::read(message)).collect()
    }

    /// Whether it has sent such news to consensus since the last call.
    fn tells(&mut self, is_so: impl Fn(&TowerNews<'_>) -> bool) -> bool {
        self.rig.take(GOSSIP_TOWER).iter().any(|(_, message)| is_so(&TowerNews::read(message)))
    }

    /// Takes the datagrams that it sent.
    fn sent(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let read = |(_, frag): (u64, Vec<u8>)| {
            let outgoing = Outgoing::read(&frag);
            assert_eq!((outgoing.port, outgoing.segment), (PortKind::Gossip, 0));
            (outgoing.to, outgoing.data.to_vec())
        };
        self.rig.take(GOSSIP_NET).into_iter().map(read).collect()
    }
}

/// Exchanges datagrams between the nodes until `is_so`; fails after a minute of virtual time.
fn talk_until(nodes: &mut [Node], what: &str, mut is_so: impl FnMut(&mut [Node]) -> bool) {
    for _ in 0..12_000 {
        if is_so(nodes) {
            return;
        }
        for from in 0..nodes.len() {
            nodes[from].rig.advance(STEP);
            nodes[from].rig.run();
            while nodes[from].sign() > 0 {}
            for (to, data) in nodes[from].sent() {
                let to = (0..nodes.len()).find(|node| SocketAddr::V4(address(*node as u8)) == to);
                if let Some(to) = to.filter(|to| *to != from) {
                    nodes[to].give(address(from as u8), &data);
                    nodes[to].rig.run();
                }
            }
        }
    }
    panic!("not within a minute: {what}");
}

fn knows(node: &Node, count: usize) -> bool {
    node.board.nodes().len() == count
}

fn vote(slot: u8) -> Vec<u8> {
    let mut data = 14u32.to_le_bytes().to_vec();
    data.extend(u64::MAX.to_le_bytes());
    data.extend([1, slot, 1]);
    data.extend([7; 32]);
    data.push(0);
    data.extend([8; 32]);
    let accounts = vec![AccountMeta::writable([2; 32], false), AccountMeta::readonly([3; 32], true)];
    let message = Message::compile(&[3; 32], &[Instruction { program_id: VOTE_PROGRAM, accounts, data }], &[4; 32]);
    message.unwrap().sign_with(|_, _| [5; 64])
}

fn ping(token: [u8; 32]) -> Vec<u8> {
    let mut bytes = vec![];
    write_ping(&Ping { from: key(9).public_key(), token, signature: key(9).sign(&token) }, &mut bytes);
    bytes
}

fn pongs(sent: &[(SocketAddr, Vec<u8>)]) -> Vec<[u8; 32]> {
    let hash = |(_, bytes): &(SocketAddr, Vec<u8>)| match Protocol::parse(bytes) {
        Ok(Protocol::Pong(pong)) => Some(pong.hash),
        _ => None,
    };
    sent.iter().filter_map(hash).collect()
}

#[test]
fn two_nodes_meet_and_hear_each_others_votes() {
    let mut nodes = [Node::new(0), Node::new(1)];
    talk_until(&mut nodes, "they know each other", |nodes| nodes.iter().all(|node| knows(node, 2)));
    for link in [GOSSIP_SHRED, GOSSIP_REPAIR, GOSSIP_TXSEND] {
        let mut known = vec![];
        for news in nodes[0].peer_news(link) {
            let PeerNews::Known(peer) = news else { panic!("nobody is gone") };
            known.push((peer.identity, peer.tvu.map(|tvu| tvu.port())));
        }
        known.sort_unstable();
        known.dedup();
        let mut expected = [0, 1].map(|node| (key(node).public_key(), Some(8_002)));
        expected.sort_unstable();
        assert_eq!(known, expected, "{link}");
    }
    nodes[1].state(Statement::Vote(&vote(9)));
    talk_until(&mut nodes, "the vote is heard", |nodes| nodes[0].tells(|news| *news == TowerNews::Vote(&vote(9))));
    nodes[1].slot(SlotNews::Whole(12));
    let has_slot = |news: &TowerNews<'_>| match news {
        TowerNews::Slots(node, near) => *node == key(1).public_key() && near.slots().eq([12]),
        _ => false,
    };
    talk_until(&mut nodes, "the slot is heard of", |nodes| nodes[0].tells(has_slot));
    let set = FecSetRecord {
        slot: 5,
        parent_slot: 4,
        fec_set_index: 0,
        reference_tick: 1,
        last_in_slot: true,
        ends_batch: None,
        merkle_root: [1; 32],
        chained_root: [2; 32],
        signature: [3; 64],
        data: b"entries",
    };
    nodes[1].store.append_set(&set).unwrap();
    let lowest = |nodes: &mut [Node]| {
        let news = nodes[0].peer_news(GOSSIP_SHRED);
        news.iter().any(|news| matches!(news, PeerNews::Known(peer) if peer.lowest == 5))
    };
    talk_until(&mut nodes, "the lowest slot is known", lowest);
    nodes.iter_mut().for_each(|node| node.rig.run());
    nodes.iter_mut().for_each(|node| {
        node.rig.turn_after(Duration::from_millis(2));
    });
    let count = nodes[0].rig.count();
    assert!(count.protocol.pull_requests_sent > 0 && count.protocol.pings_sent > 0);
    assert_eq!((count.protocol.bad_signature, count.protocol.unsigned_late, count.own.unstaked_values), (0, 0, 0));
    assert!(nodes[0].rig.latencies()[0].count() > 0, "how long datagrams were under way");
}

#[test]
fn archives_are_announced() {
    let archives = Arc::new(AnnouncedArchives::default());
    let mut nodes = [Node::new(0), Node::serving(1, Arc::clone(&archives))];
    // The node writes a newer one while it runs.
    for slot in [60, 80] {
        let hash = [slot as u8; 32];
        archives.set(Some(ServedArchives { full: (slot, hash), incremental: Some((slot + 5, [7; 32])) }));
        let is_known = |nodes: &mut [Node]| {
            let served = nodes[0].board.snapshots();
            let wanted = (key(1).public_key(), slot, hash);
            served.iter().any(|served| (served.identity, served.slot, served.hash) == wanted)
        };
        talk_until(&mut nodes, "the archive is known", is_known);
    }
}

#[test]
fn tile_sleeps_until_work_is_due() {
    let mut node = Node::new(0);
    for _ in 0..200 {
        node.rig.run();
        while node.sign() > 0 {}
        let now = node.rig.clock().now();
        let deadline = node.rig.waits_for().deadline.expect("something is due some time");
        assert!(deadline > now && deadline <= now + SLEEP_MAX_MS * MS, "{now} to {deadline}");
        assert!(deadline.is_multiple_of(GRID_NS), "together with other tiles: {deadline}");
        node.rig.turn_after(Duration::from_nanos(deadline - now));
    }
    let seconds = node.rig.clock().now() / 1_000_000_000;
    assert!(seconds >= 10, "200 sleeps in {seconds} s");
}

#[test]
fn unsigned_values_are_held_and_sign_not_flooded() {
    let mut node = Node::new(0);
    node.rig.run();
    node.sign();
    let count = GOSSIP_SIGN_DEPTH as u8 + 20;
    for number in 0..count {
        node.give(address(9), &ping([number; 32]));
        node.rig.run();
    }
    let requests = node.requests();
    assert_eq!(requests.len(), GOSSIP_SIGN_DEPTH);
    assert!(pongs(&node.sent()).is_empty());
    for request in &requests {
        node.rig.give(SIGN_GOSSIP, request.tag, &request.sign(&key(0)));
    }
    node.rig.run();
    assert_eq!(node.sign(), 20);
    let expected: Vec<_> = (0..count).map(|number| pong_hash(&[number; 32])).collect();
    assert_eq!(pongs(&node.sent()), expected);
}

#[test]
fn refused_requests_free_their_places() {
    let mut node = Node::new(0);
    node.rig.run();
    node.sign();
    for number in 0..GOSSIP_SIGN_DEPTH as u8 + 20 {
        node.give(address(9), &ping([number; 32]));
        node.rig.run();
    }
    let requests = node.requests();
    assert_eq!(requests.len(), GOSSIP_SIGN_DEPTH);
    requests[..10].iter().for_each(|request| node.rig.give(SIGN_GOSSIP, request.tag, &[]));
    node.rig.run();
    assert_eq!(node.requests().len(), 10, "as many more as there are answers");
    assert!(pongs(&node.sent()).is_empty(), "a refusal is not a signature");
}

#[test]
fn time_frees_no_place_of_a_request() {
    let mut node = Node::new(0);
    node.rig.run();
    node.sign();
    for number in 0..GOSSIP_SIGN_DEPTH as u8 {
        node.give(address(9), &ping([number; 32]));
        node.rig.run();
    }
    let requests = node.requests();
    assert_eq!(requests.len(), GOSSIP_SIGN_DEPTH);
    // Sign has stalled, and the clock is advanced: the link back may still fill with the old answers.
    for _ in 0..12 {
        node.rig.turn_after(Duration::from_millis(SLEEP_MAX_MS));
    }
    node.rig.clock().set_wall(3_600_000_000_000);
    node.rig.turn_after(Duration::from_millis(SLEEP_MAX_MS));
    node.give(address(9), &ping([100; 32]));
    node.rig.run();
    assert!(node.requests().is_empty());
    node.rig.give(SIGN_GOSSIP, requests[0].tag, &requests[0].sign(&key(0)));
    node.rig.run();
    assert_eq!(node.requests().len(), 1);
}

#[test]
fn full_net_link_holds_input_without_loss() {
    let mut node = Node::new(0);
    let (mut given, depth) = (0u32, DEPTH);
    let token = |number: u32| [&number.to_le_bytes()[..], &[0; 28]].concat().try_into().expect("32 bytes");
    while given < depth + 40 {
        node.give(address(9), &ping(token(given)));
        given += 1;
        node.rig.run();
        node.sign();
    }
    assert!(node.rig.backpressure().0);
    assert_eq!(node.rig.waits_for().deadline, None, "it waits for room");
    let mut answered = vec![];
    for _ in 0..3 {
        answered.extend(pongs(&node.sent()));
        node.rig.run();
        while node.sign() > 0 {}
    }
    answered.extend(pongs(&node.sent()));
    assert_eq!(answered, (0..given).map(|number| pong_hash(&token(number))).collect::<Vec<_>>());
    assert!(!node.rig.backpressure().0);
}

#[test]
fn wall_clock_set_back_is_noticed() {
    let mut node = Node::new(0);
    node.rig.run();
    while node.sign() > 0 {}
    let signed = |node: &Node| node.board.nodes().first().map_or(0, |own| own.wallclock);
    node.rig.turn_after(Duration::from_millis(200));
    let before = signed(&node);
    node.rig.clock().set_wall(-3_600_000_000_000);
    node.rig.turn_after(Duration::from_millis(SLEEP_MAX_MS));
    while node.sign() > 0 {}
    node.rig.turn_after(Duration::from_millis(200));
    assert_eq!(node.rig.count().protocol.clock_set_back, 1);
    assert!(before > 0 && signed(&node) < before - 3_000_000, "{before} to {}", signed(&node));
}

#[test]
fn another_process_with_the_same_key_is_found() {
    let mut node = Node::new(0);
    node.rig.run();
    while node.sign() > 0 {}
    let now_ms = node.rig.clock().wall_ns() / MS;
    let other =
        ContactInfo { wallclock: now_ms, ..ContactInfo::new(key(0).public_key(), 5_000, 7, Version::default()) };
    let mut data = vec![];
    CrdsData::ContactInfo(other.with(SocketKind::Gossip, address(5))).write(&mut data);
    let mut push = vec![];
    write_values_header(Carrier::Push, &key(5).public_key(), 1, &mut push);
    push.extend([&key(0).sign(&data)[..], &data].concat());
    let is_double = |news: &TowerNews<'_>| *news == TowerNews::Double;
    assert!(!node.tells(is_double));
    node.give(address(5), &push);
    node.rig.run();
    assert!(node.tells(is_double));
}

#[test]
fn news_waits_for_room() {
    let mut node = Node::new(0);
    node.rig.run();
    let count = u64::from(DEPTH) + 40;
    for slot in 0..count {
        node.slot(SlotNews::Duplicate(slot));
        node.rig.run();
    }
    let mut slots = vec![];
    for _ in 0..2 {
        for (_, message) in node.rig.take(GOSSIP_TOWER) {
            if let TowerNews::Duplicate(slot) = TowerNews::read(&message) {
                slots.push(slot);
            }
        }
        node.rig.run();
    }
    assert_eq!(slots, (0..count).collect::<Vec<_>>());
    assert_eq!(node.rig.count().own.dropped_duplicates, 0);
}

#[test]
fn contradiction_is_proved_and_reported_to_consensus() {
    let mut node = Node::new(0);
    node.rig.run();
    while node.sign() > 0 {}
    node.slot(SlotNews::Contradiction { slot: 7, shreds: [&[1; 1_203], &[2; 1_203]] });
    node.rig.run();
    let is_proof = |request: &SignRequest| matches!(CrdsData::parse(&request.bytes), Ok(CrdsData::DuplicateShred(_)));
    assert_eq!(node.requests().iter().filter(|request| is_proof(request)).count(), 3, "two shreds are three pieces");
    assert!(node.tells(|news| *news == TowerNews::Duplicate(7)));
}

#[test]
fn idle_it_does_nothing_between_what_is_due() {
    let mut node = Node::new(0);
    node.rig.run();
    while node.sign() > 0 {}
    let mut turns = 0;
    let end = node.rig.clock().now() + 60_000 * MS;
    while node.rig.clock().now() < end {
        let now = node.rig.clock().now();
        let deadline = node.rig.waits_for().deadline.expect("something is due some time");
        node.rig.turn_after(Duration::from_nanos(deadline.saturating_sub(now).max(1)));
        while node.sign() > 0 {}
        turns += 1;
    }
    assert!(turns < 60 * 8, "{turns} turns in a minute");
}

#[test]
fn stakes_are_of_the_next_epoch_if_known() {
    let known = |epoch: u64| (3..=5).contains(&epoch).then_some(epoch);
    assert_eq!([1, 2, 4, 5, 6].map(|root| of_next(root, known)), [None, Some(3), Some(5), Some(5), None]);
}
