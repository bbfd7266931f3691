//! The tile between its links.

use hearth_consensus::{NEAR_WORDS, NearSlots};
use hearth_gossip::Peer;
use hearth_tile::rig::{DEPTH, Rig};
use hearth_wire::vote::is_vote_message_by;
use parking_lot::Mutex;

use super::super::{Config as TileConfig, Membership, Tower as TowerTile};
use super::*;
use crate::failure::Failure;
use crate::links::{AncestorAnswer, AncestorQuestion, FAILED, PeerNews, Statement, TOWER_NEWS_MTU, TowerNews};

const INPUTS: [&str; 4] = ["replay_tower", "gossip_tower", "sign_tower", "repair_tower"];
const OUTPUTS: [&str; 7] =
    ["tower_replay", "tower_sign", "tower_txsend", "tower_gossip", "tower_shred", "tower_repair", "tower_rserve"];
const TICK: Duration = Duration::from_millis(10);

struct Trial {
    rig: Rig<TowerTile>,
    failure: Failure<TowerError>,
    disk: Arc<Mutex<Disk>>,
}

/// A disk that the test can inspect.
struct Shared(Arc<Mutex<Disk>>);

impl Files for Shared {
    fn save_tower(&mut self, bytes: &[u8]) -> std::task::Poll<Result<(), SavedError>> {
        self.0.lock().save_tower(bytes)
    }

    fn save_root(&mut self, root: BankId) -> Result<(), SavedError> {
        self.0.lock().save_root(root)
    }
}

/// A statement that tower sends to gossip.
#[derive(Debug, PartialEq)]
enum TowerMessage {
    /// A vote for this slot.
    Vote(u64),
    Root(u64),
}

impl Trial {
    fn new() -> Self {
        Self::new_as(0)
    }

    fn new_as(number: u8) -> Self {
        Self::of(config(number))
    }

    fn of(config: Config) -> Self {
        let (disk, failure) = (Arc::new(Mutex::new(Disk::default())), Failure::default());
        let config = TileConfig {
            core: Core::new(config, start(), None, now(Duration::ZERO)).expect("there is no tower yet"),
            files: Box::new(Shared(Arc::clone(&disk))),
            failure: failure.clone(),
            membership: Membership::Cluster,
        };
        Self { rig: Rig::new(config, &INPUTS, &OUTPUTS), failure, disk }
    }

    fn commands(&mut self) -> Vec<Command> {
        self.rig.run();
        self.rig.take("tower_replay").iter().map(|(_, bytes)| Command::decode(bytes)).collect()
    }

    /// Takes the statements sent to gossip since the last call.
    fn said(&mut self) -> Vec<TowerMessage> {
        self.rig.run();
        let read = |(_, message): &(u64, Vec<u8>)| match Statement::read(message) {
            Statement::Vote(transaction) => TowerMessage::Vote(slot_of(transaction)),
            Statement::Root(slot) => TowerMessage::Root(slot),
        };
        self.rig.take("tower_gossip").iter().map(read).collect()
    }

    /// Executes a block of this slot on the previous one, in which all have voted for the earlier ones, and signs the
    /// node's vote for it.
    fn vote_for(&mut self, slot: u64) {
        let below: Vec<u64> = (1..slot).collect();
        let votes = (0..NODES).map(|number| voted(number, &below)).collect();
        self.give(&Event::Frozen(Box::new(block(id(slot), id(slot - 1), votes))), 1_000);
        self.commands();
        let asked = self.rig.take("tower_sign");
        let [(tag, _)] = &asked[..] else { panic!("one vote for slot {slot}: {asked:?}") };
        self.rig.give("sign_tower", *tag, &[5; 64]);
        self.rig.run();
    }

    fn give(&mut self, event: &Event, mtu: usize) {
        for (piece, control) in pieces(&event.encode(), mtu) {
            self.rig.give_control("replay_tower", 0, control, piece);
        }
    }

    /// Gives it gossip's news.
    fn tell(&mut self, news: TowerNews<'_>) {
        let mut message = [0; TOWER_NEWS_MTU];
        let size = news.write(&mut message);
        self.rig.give("gossip_tower", 0, &message[..size]);
    }
}

fn slot_of(vote: &[u8]) -> u64 {
    voted_for(&Txn::parse(vote).unwrap()).unwrap().slot
}

/// Another node that serves shreds.
fn peer(number: u8) -> Peer {
    let address = |port| Some(std::net::SocketAddrV4::new([10, 0, 0, number + 1].into(), port));
    Peer {
        identity: node(number),
        tvu: address(8_001),
        serve_repair: address(8_002),
        tpu_quic: None,
        tpu_vote_quic: None,
        stake: STAKE,
        lowest: 0,
    }
}

#[test]
fn event_becomes_a_vote_that_sign_signs() {
    let mut trial = Trial::new();
    assert_eq!(trial.commands(), [Command::BuildOn(id(0))]);
    assert_eq!(trial.said(), [TowerMessage::Root(0)]);
    let first = trial.rig.take("tower_sign");
    assert_eq!(first.len(), 1, "where it stands");
    trial.give(&Event::Frozen(Box::new(block(id(1), id(0), vec![voted(1, &[]), voted(2, &[])]))), 100);
    assert_eq!(trial.commands(), [Command::BuildOn(id(1))]);
    assert_eq!(trial.disk.lock().towers.len(), 1);
    let asked = trial.rig.take("tower_sign");
    let [(tag, message)] = &asked[..] else { panic!("{asked:?}") };
    assert!(is_vote_message_by(message, &node(0), &node(0), &account(0)), "sign signs it");
    assert_eq!(trial.said(), [], "nothing is sent unsigned");
    assert_eq!(trial.rig.count().votes, 0);
    trial.rig.give("sign_tower", *tag, &[5; 64]);
    assert_eq!(trial.said(), [TowerMessage::Vote(1)]);
    let [(_, sent)] = &trial.rig.take("tower_txsend")[..] else { panic!("one vote") };
    assert_eq!((slot_of(sent), trial.rig.count().votes), (1, 1));
}

#[test]
fn vote_without_room_waits_for_it_or_a_newer_one() {
    let mut trial = Trial::new();
    trial.commands();
    trial.rig.take("tower_sign");
    trial.said();
    let full = u64::from(DEPTH);
    (1..=full + 2).for_each(|slot| trial.vote_for(slot));
    assert_eq!((trial.rig.count().votes, trial.rig.count().replaced_votes), (full, 1));
    let sent = |rig: &mut Rig<TowerTile>| {
        rig.run();
        rig.take("tower_txsend").iter().map(|(_, vote)| slot_of(vote)).collect::<Vec<_>>()
    };
    assert!(sent(&mut trial.rig).into_iter().eq(1..=full));
    assert_eq!(sent(&mut trial.rig), [full + 2], "it says all that the one before did");
    assert_eq!((trial.rig.count().votes, trial.rig.count().replaced_votes), (full + 1, 1));
}

#[test]
fn full_gossip_gets_the_newest_vote_and_root() {
    let mut trial = Trial::new();
    trial.commands();
    trial.rig.take("tower_sign");
    let newest = u64::from(DEPTH) + 2;
    for slot in 1..=newest {
        trial.vote_for(slot);
        trial.rig.take("tower_txsend");
        trial.rig.take("tower_rserve");
    }
    assert!(trial.rig.backpressure().0, "it waits for gossip");
    let root = trial.rig.count().root_slot;
    assert!(root > 0 && trial.rig.count().unpublished_votes > 0);
    let first = trial.said();
    assert_eq!(first.len(), DEPTH as usize);
    assert_eq!(trial.said(), [TowerMessage::Root(root), TowerMessage::Vote(newest)]);
    assert!(!trial.rig.backpressure().0);
}

#[test]
fn votes_of_gossip_reach_replay() {
    let mut trial = Trial::new();
    trial.commands();
    trial.tell(TowerNews::Vote(&vote_by(1, 1, id(5))));
    let voted = VoteTarget { account: account(1), slot: 5, bank_hash: id(5).hash, block_id: [7; 32] };
    assert_eq!(trial.commands(), [Command::Voted(voted)]);
    assert_eq!(trial.rig.take("tower_repair"), [], "consensus goes on at each tick");
    trial.rig.advance(TICK);
    assert_eq!(trial.commands(), []);
    assert_eq!(trial.rig.take("tower_repair"), [(5, vec![])]);
    assert_eq!(trial.rig.count().heard_votes, 1);
}

#[test]
fn first_news_in_a_while_is_acted_on_at_once() {
    let mut trial = Trial::of(Config { leads: false, ..config(0) });
    trial.commands();
    trial.rig.advance(2 * TICK);
    trial.tell(TowerNews::Vote(&vote_by(1, 1, id(5))));
    trial.commands();
    assert_eq!(trial.rig.take("tower_repair"), [(5, vec![])], "the core is awake");
    trial.tell(TowerNews::Vote(&vote_by(2, 2, id(6))));
    trial.commands();
    assert_eq!(trial.rig.take("tower_repair"), [], "one step for all of a while");
    trial.rig.advance(TICK);
    trial.commands();
    assert_eq!(trial.rig.take("tower_repair"), [(6, vec![])]);
}

#[test]
fn news_waits_while_replay_has_no_room() {
    let mut trial = Trial::new();
    trial.commands();
    let depth = u64::from(DEPTH);
    let votes = |range: std::ops::RangeInclusive<u64>, trial: &mut Trial| {
        range.for_each(|slot| trial.tell(TowerNews::Vote(&vote_by(1, 1, id(slot)))));
        trial.rig.run();
    };
    votes(1..=depth, &mut trial);
    votes(depth + 1..=2 * depth - 20, &mut trial);
    assert!(trial.rig.backpressure().0, "it waits for replay");
    // Frags of replay and sign are read anyway.
    for _ in 0..3 * DEPTH {
        trial.give(&Event::Backlog(true), 100);
        trial.rig.run();
    }
    let mut heard = vec![];
    while heard.len() < 2 * DEPTH as usize - 20 {
        let commands = trial.commands();
        assert!(!commands.is_empty(), "only {} votes were heard", heard.len());
        heard.extend(commands.iter().map(|command| match command {
            Command::Voted(voted) => voted.slot,
            other => panic!("{other:?}"),
        }));
    }
    assert!(heard.into_iter().eq(1..=2 * depth - 20), "each once, in order");
}

/// The nodes that repair is to ask about slot 2, a tick later.
fn asked(trial: &mut Trial) -> Vec<Pubkey> {
    trial.rig.advance(TICK);
    trial.rig.run();
    let questions = trial.rig.take("tower_repair");
    let questions = questions.iter().map(|(_, message)| AncestorQuestion::read(message));
    questions.inspect(|question| assert_eq!(question.slot, 2)).map(|question| question.node).collect()
}

/// A node that cannot execute slot 2, which the others have; gossip names `servers`, which serve repair.
fn without_slot_2(servers: std::ops::Range<u8>) -> Trial {
    let mut trial = Trial::new();
    trial.commands();
    servers.for_each(|number| trial.tell(TowerNews::Peer(PeerNews::Known(peer(number)))));
    trial.give(&Event::Frozen(Box::new(block(id(1), id(0), vec![]))), 1_000);
    trial.commands();
    trial.give(&Event::Dead(2), 1_000);
    trial.rig.run();
    let mut words = [0; NEAR_WORDS];
    words[0] = 0b10;
    (1..NODES).for_each(|number| trial.tell(TowerNews::Slots(node(number), NearSlots { first: 1, words })));
    trial.rig.run();
    trial.rig.advance(TICK);
    trial.rig.run();
    trial
}

fn answer(trial: &mut Trial, number: u8, chain: &[BankId]) {
    let hashes = chain.iter().map(|id| (id.slot, id.hash)).collect();
    trial.rig.give("repair_tower", 0, &AncestorAnswer { node: node(number), hashes }.encode());
    trial.rig.run();
}

#[test]
fn ancestors_are_asked_of_nodes_that_gossip_names() {
    let mut trial = without_slot_2(0..NODES);
    trial.tell(TowerNews::Peer(PeerNews::Gone(node(2))));
    trial.rig.run();
    let wanted: Vec<Pubkey> = (1..NODES).filter(|number| *number != 2).map(node).collect();
    let mut nodes = asked(&mut trial);
    nodes.sort_unstable();
    assert_eq!(nodes, wanted, "neither itself nor who is gone");
    assert_eq!(trial.rig.count().asked_ancestors, wanted.len() as u64);
    assert!(asked(&mut trial).is_empty(), "each once");
}

#[test]
fn enough_stake_for_other_ancestors_drops_the_block() {
    let mut trial = without_slot_2(1..NODES);
    let nodes = asked(&mut trial).len() as u8;
    assert_eq!(nodes, NODES - 1);
    trial.commands();
    let chain = [other(2), id(1), id(0)];
    answer(&mut trial, 0, &chain);
    answer(&mut trial, 1, &[other(3), id(1)]);
    assert_eq!(trial.rig.count().dropped_ancestors, 2, "that node and that slot were not asked about");
    answer(&mut trial, 1, &chain);
    trial.rig.advance(TICK);
    assert_eq!(trial.commands(), [], "one voice is too few");
    (2..NODES).for_each(|number| answer(&mut trial, number, &chain));
    trial.rig.advance(TICK);
    assert_eq!(trial.commands(), [Command::Dump(2)], "this version is not the cluster's");
    assert_eq!(trial.rig.count().answered_ancestors, u64::from(nodes));
}

#[test]
fn full_repair_is_asked_once_it_has_room() {
    let mut trial = without_slot_2(100..200);
    // No node answers: each is asked repeatedly, over a link that repair does not read.
    for wait in [TICK, Duration::from_secs(5), Duration::from_secs(5)] {
        trial.rig.advance(wait);
        for _ in 0..4 {
            trial.rig.run();
            trial.rig.advance(TICK);
        }
    }
    assert_eq!(asked(&mut trial).len(), DEPTH as usize);
    let rest = asked(&mut trial);
    assert_eq!(rest.len(), 300 - DEPTH as usize, "none is lost");
    assert!(asked(&mut trial).is_empty());
}

#[test]
fn duplicate_of_gossip_reaches_consensus() {
    let mut trial = Trial::new();
    trial.commands();
    [0, 3].into_iter().for_each(|slot| trial.tell(TowerNews::Duplicate(slot)));
    trial.rig.run();
    trial.rig.advance(TICK);
    trial.rig.run();
    assert_eq!(trial.rig.count().duplicate_slots, 1, "one of the root's slot is no news");
}

#[test]
fn another_process_with_this_identity_stops_the_tile() {
    let mut trial = Trial::new();
    trial.commands();
    trial.rig.take("tower_sign");
    trial.tell(TowerNews::Double);
    trial.rig.run();
    assert!(matches!(trial.failure.take(), Some(TowerError::Double)));
    trial.give(&Event::Frozen(Box::new(block(id(1), id(0), vec![]))), 1_000);
    assert_eq!(trial.commands(), []);
    assert!(trial.rig.take("tower_sign").is_empty(), "it votes no more");
}

#[test]
fn no_vote_leaves_once_replay_has_failed() {
    let mut trial = Trial::new();
    trial.commands();
    trial.rig.take("tower_sign");
    trial.give(&Event::Frozen(Box::new(block(id(1), id(0), vec![]))), 1_000);
    trial.commands();
    let asked = trial.rig.take("tower_sign");
    let [(tag, _)] = &asked[..] else { panic!("one vote: {asked:?}") };
    trial.rig.give_control("replay_tower", 0, FAILED, &[]);
    trial.rig.give("sign_tower", *tag, &[5; 64]);
    trial.give(&Event::Frozen(Box::new(block(id(2), id(1), vec![]))), 1_000);
    assert_eq!(trial.commands(), []);
    assert!(trial.rig.take("tower_sign").is_empty() && trial.rig.take("tower_txsend").is_empty());
    assert!(trial.failure.take().is_none(), "replay says why");
}

#[test]
fn slot_begins_when_its_time_comes() {
    let own = leader(1);
    let mut trial = Trial::new_as(own);
    trial.commands();
    trial.rig.advance(JOINED - Duration::from_millis(10));
    assert_eq!(trial.commands(), []);
    trial.rig.advance(Duration::from_millis(20));
    assert_eq!(trial.commands(), [Command::Begin { slot: 1, parent: id(0) }], "no message says so");
}

#[test]
fn slow_disk_keeps_no_vote_back_for_good() {
    let mut trial = Trial::new();
    trial.commands();
    trial.rig.take("tower_sign");
    // Two blocks arrive while a tower is being written.
    trial.disk.lock().delay = 2;
    let mut signed = 0;
    for slot in 1..=30 {
        trial.give(&Event::Frozen(Box::new(block(id(slot), id(slot - 1), vec![]))), 1_000);
        trial.commands();
        for (tag, _) in trial.rig.take("tower_sign") {
            trial.rig.give("sign_tower", tag, &[5; 64]);
            signed += 1;
        }
    }
    assert!(signed >= 5, "{signed} votes");
    trial.disk.lock().delay = 0;
    trial.rig.advance(TICK);
    trial.commands();
    let disk = trial.disk.lock();
    let last = disk.towers.last().map(|tower| hearth_consensus::Tower::restore(tower, &node(0)).unwrap());
    assert!(
        last.and_then(|tower| tower.last_vote()).is_some_and(|vote| vote.id.slot == 30),
        "the newest comes after the one before"
    );
}

#[test]
fn broken_disk_stops_the_tile_and_is_reported() {
    let mut trial = Trial::new();
    trial.commands();
    trial.disk.lock().fault = Some(io::ErrorKind::PermissionDenied);
    trial.give(&Event::Frozen(Box::new(block(id(1), id(0), vec![]))), 1_000);
    trial.rig.take("tower_sign");
    trial.rig.run();
    assert!(matches!(trial.failure.take(), Some(TowerError::Saved(_))));
    assert!(trial.rig.take("tower_sign").is_empty());
}
