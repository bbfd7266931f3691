//! The tile between its links.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use hearth_ledger::tower::is_vote_message_by;
use hearth_tile::rig::{DEPTH, Rig};

use super::super::{Config as TileConfig, Tower as TowerTile};
use super::*;
use crate::failure::Failure;

/// Gossip and the like: what the tile gave them, and votes that it is to hear.
struct Others {
    given: Sender<Output>,
    heard: Receiver<Vec<u8>>,
}

impl Peers for Others {
    fn hear(&mut self, core: &mut Core) -> bool {
        let votes: Vec<_> = self.heard.try_iter().collect();
        votes.iter().for_each(|vote| core.on_vote(vote));
        !votes.is_empty()
    }

    fn take(&mut self, output: Output) {
        self.given.send(output).expect("the test lives");
    }
}

struct Trial {
    rig: Rig<TowerTile>,
    failure: Failure<TowerError>,
    given: Receiver<Output>,
    votes: Sender<Vec<u8>>,
    disk: Arc<Mutex<Disk>>,
}

/// A disk that the test looks at.
struct Shared(Arc<Mutex<Disk>>);

impl Files for Shared {
    fn save_tower(&mut self, bytes: &[u8]) -> Result<(), SavedError> {
        self.0.lock().unwrap().save_tower(bytes)
    }

    fn save_root(&mut self, root: BankId) -> Result<(), SavedError> {
        self.0.lock().unwrap().save_root(root)
    }
}

impl Trial {
    fn new() -> Self {
        Self::new_as(0)
    }

    fn new_as(number: u8) -> Self {
        let ((to_test, given), (votes, heard)) = (channel(), channel());
        let (disk, failure) = (Arc::new(Mutex::new(Disk::default())), Failure::default());
        let config = TileConfig {
            core: Core::new(config(number), start(), None, now(Duration::ZERO)).expect("there is no tower yet"),
            files: Box::new(Shared(Arc::clone(&disk))),
            peers: Box::new(Others { given: to_test, heard }),
            failure: failure.clone(),
        };
        let outputs = ["tower_replay", "tower_sign", "tower_txsend"];
        let rig = Rig::new(config, &["replay_tower", "sign_tower"], &outputs);
        Self { rig, failure, given, votes, disk }
    }

    fn commands(&mut self) -> Vec<Command> {
        self.rig.run();
        self.rig.take("tower_replay").iter().map(|(_, bytes)| Command::decode(bytes)).collect()
    }

    /// A block of this slot on the one before is executed, where all have voted for those below it, and the node's
    /// vote for it is signed.
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
}

#[test]
fn event_becomes_a_vote_that_sign_signs() {
    let mut trial = Trial::new();
    assert_eq!(trial.commands(), [Command::BuildOn(id(0))]);
    let first = trial.rig.take("tower_sign");
    assert_eq!(first.len(), 1, "where it stands");
    trial.give(&Event::Frozen(Box::new(block(id(1), id(0), vec![voted(1, &[]), voted(2, &[])]))), 100);
    assert_eq!(trial.commands(), [Command::BuildOn(id(1))]);
    assert_eq!(trial.disk.lock().unwrap().towers.len(), 1);
    let asked = trial.rig.take("tower_sign");
    let [(tag, message)] = &asked[..] else { panic!("{asked:?}") };
    assert!(is_vote_message_by(message, &node(0), &node(0), &account(0)), "sign signs it");
    assert!(trial.given.try_iter().next().is_none(), "nothing is sent unsigned");
    assert_eq!(trial.rig.count().votes, 0);
    trial.rig.give("sign_tower", *tag, &[5; 64]);
    trial.rig.run();
    let given: Vec<Output> = trial.given.try_iter().collect();
    let [Output::Gossip(said)] = &given[..] else { panic!("{given:?}") };
    let [(_, sent)] = &trial.rig.take("tower_txsend")[..] else { panic!("one vote") };
    assert_eq!((sent, voted_for(&Txn::parse(said).unwrap()).unwrap().slot), (said, 1));
    assert_eq!(trial.rig.count().votes, 1);
}

#[test]
fn vote_without_room_waits_for_it_or_a_newer_one() {
    let mut trial = Trial::new();
    trial.commands();
    trial.rig.take("tower_sign");
    let full = u64::from(DEPTH);
    (1..=full + 2).for_each(|slot| trial.vote_for(slot));
    assert_eq!((trial.rig.count().votes, trial.rig.count().replaced_votes), (full, 1));
    let sent = |rig: &mut Rig<TowerTile>| {
        rig.run();
        let slot = |(_, vote): &(u64, Vec<u8>)| voted_for(&Txn::parse(vote).unwrap()).unwrap().slot;
        rig.take("tower_txsend").iter().map(slot).collect::<Vec<_>>()
    };
    assert!(sent(&mut trial.rig).into_iter().eq(1..=full));
    assert_eq!(sent(&mut trial.rig), [full + 2], "it says all that the one before did");
    assert_eq!((trial.rig.count().votes, trial.rig.count().replaced_votes), (full + 1, 1));
}

#[test]
fn votes_of_gossip_reach_replay() {
    let mut trial = Trial::new();
    trial.commands();
    trial.votes.send(vote_by(1, 1, id(5))).unwrap();
    assert_eq!(trial.commands(), [], "gossip is heard at each tick");
    trial.rig.advance(Duration::from_millis(10));
    let voted = Voted { account: account(1), slot: 5, bank_hash: id(5).hash, block_id: [7; 32] };
    assert_eq!(trial.commands(), [Command::Voted(voted)]);
    assert_eq!(trial.given.try_iter().collect::<Vec<_>>(), [Output::Want(5)]);
    assert_eq!(trial.rig.count().heard_votes, 1);
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
fn broken_disk_stops_the_tile_and_is_said() {
    let mut trial = Trial::new();
    trial.commands();
    trial.disk.lock().unwrap().fault = Some(io::ErrorKind::PermissionDenied);
    trial.give(&Event::Frozen(Box::new(block(id(1), id(0), vec![]))), 1_000);
    trial.rig.take("tower_sign");
    trial.rig.run();
    assert!(matches!(trial.failure.take(), Some(TowerError::Saved(_))));
    assert!(trial.rig.take("tower_sign").is_empty());
}
