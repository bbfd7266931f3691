//! Tower's reaction to each kind of message: four nodes with equal stake, one of which is tested.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hearth_consensus::{AccountVotes, BankId, FrozenBank, LastVote, Lockouts, Tower};
use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::epoch::EpochSchedule;
use hearth_ledger::leaders::LeaderSchedule;
use hearth_ledger::stakes::{EpochStakes, VoteStake};
use hearth_wire::vote::{TowerSync, VoteTarget, VotedBlock, voted_for};
use hearth_wire::{Hash, Pubkey, Txn};

use super::{CoreConfig as Config, *};
use crate::voters::{VoterDesk, Voters};

mod alone;
mod identity;
mod tile;

const NODES: u8 = 4;
const STAKE: u64 = 10;
const SLOT: Duration = Duration::from_millis(400);
const SCHEDULE: EpochSchedule = EpochSchedule::without_warmup(8_192);
/// After the maximum wait for the cluster.
const JOINED: Duration = Duration::from_secs(20);

fn key(node: u8) -> SigningKey {
    SigningKey::from_seed(&[node + 1; 32])
}

fn node(number: u8) -> Pubkey {
    key(number).public_key()
}

fn account(number: u8) -> Pubkey {
    [number + 1; 32]
}

fn stakes() -> EpochStakes {
    let one = |number| {
        let node = node(number);
        VoteStake { vote: account(number), node, collector: node, stake: STAKE }
    };
    let mut stakes = EpochStakes::default();
    stakes.votes = (0..NODES).map(one).collect();
    stakes
}

/// The number of a slot's leader.
fn leader(slot: u64) -> u8 {
    let stakes = stakes();
    let leaders: &LeaderSchedule = stakes.leaders(SCHEDULE.slots_in_epoch(0));
    let leader = leaders.leader(slot).expect("there is stake").node;
    (0..NODES).find(|number| node(*number) == leader).expect("one of them")
}

fn id(slot: u64) -> BankId {
    BankId { slot, hash: [slot as u8; 32] }
}

/// Another version of a slot.
fn other(slot: u64) -> BankId {
    BankId { slot, hash: [200 + slot as u8; 32] }
}

fn voted(number: u8, slots: &[u64]) -> AccountVotes {
    let mut lockouts = Lockouts::default();
    slots.iter().for_each(|slot| assert!(lockouts.process(*slot)));
    let (votes, root) = (lockouts.votes, lockouts.root);
    AccountVotes { key: account(number), stake: STAKE, votes, root, last_timestamp: (0, 0) }
}

fn block(id: BankId, parent: BankId, votes: Vec<AccountVotes>) -> FrozenBlock {
    let bank = FrozenBank { id, parent, block_id: [7; 32], leader: [9; 32], votes };
    FrozenBlock { bank, blockhash: [(id.slot as u8).wrapping_add(50); 32], voters: vec![] }
}

fn start() -> Start {
    let votes = (0..NODES).map(|number| voted(number, &[])).collect();
    let voters = (0..NODES).map(|number| (account(number), node(number))).collect();
    Start {
        block: FrozenBlock { voters, ..block(id(0), id(0), votes) },
        ancestors: vec![],
        schedule: SCHEDULE,
        epochs: vec![Arc::new(stakes())],
        stored: vec![],
    }
}

fn config(number: u8) -> Config {
    Config {
        node: node(number),
        vote_account: Some(account(number)),
        voters: Voters::one(node(number)),
        leads: true,
        gossips: true,
        is_begin: true,
        slot: SLOT,
    }
}

/// The transaction of a node's vote, signed by another node's key or its own.
fn vote_by(signer: u8, number: u8, id: BankId) -> Vec<u8> {
    let votes = [hearth_wire::vote::Lockout { slot: id.slot, confirmation_count: 1 }];
    let sync = TowerSync { votes: &votes, root: None, timestamp: None, is_switch: false };
    let block = VotedBlock { slot: id.slot, bank_hash: id.hash, block_id: [7; 32], blockhash: [9; 32] };
    let message = sync.message(&node(signer), &account(number), &block);
    message.sign_with(|_, bytes| key(signer).sign(bytes))
}

/// A disk that can be full or broken.
#[derive(Default)]
struct Disk {
    towers: Vec<Vec<u8>>,
    roots: Vec<BankId>,
    fault: Option<io::ErrorKind>,
    /// How many calls a tower takes to be written.
    delay: usize,
    asked: usize,
    /// Calls that are left until a tower is put away.
    leaves_after: usize,
}

impl Disk {
    fn check(&self) -> Result<(), SavedError> {
        let failed =
            |kind| SavedError::Io { doing: "write", file: PathBuf::from("tower.bin"), source: io::Error::from(kind) };
        self.fault.map_or(Ok(()), |kind| Err(failed(kind)))
    }
}

impl Files for Disk {
    fn save_tower(&mut self, bytes: &[u8]) -> Poll<Result<(), SavedError>> {
        self.check()?;
        if self.asked < self.delay {
            self.asked += 1;
            return Poll::Pending;
        }
        self.asked = 0;
        self.towers.push(bytes.to_vec());
        Poll::Ready(Ok(()))
    }

    fn save_root(&mut self, root: BankId) -> Result<(), SavedError> {
        self.check()?;
        self.roots.push(root);
        Ok(())
    }

    fn leave(&mut self, _: &Pubkey) -> Poll<Result<(), SavedError>> {
        let Some(left) = self.leaves_after.checked_sub(1) else { return Poll::Ready(Ok(())) };
        self.leaves_after = left;
        Poll::Pending
    }
}

/// A node with its disk and its clock.
struct Node {
    core: Core,
    disk: Disk,
    at: Duration,
}

impl Node {
    fn new(number: u8) -> Self {
        Self::started(config(number), start(), None)
    }

    fn started(config: Config, start: Start, saved: Option<Tower>) -> Self {
        let at = Duration::ZERO;
        let core = Core::new(config, start, saved, now(at)).expect("the tower fits");
        Self { core, disk: Disk::default(), at }
    }

    /// A node after its maximum wait for others, with its outputs so far.
    fn joined(number: u8) -> Self {
        let mut node = Self::new(number);
        node.step();
        node.at = JOINED;
        node
    }

    fn event(&mut self, event: Event) {
        self.core.on_event(event, now(self.at));
    }

    /// Reports another node's executed block.
    fn froze(&mut self, id: BankId, parent: BankId, votes: Vec<AccountVotes>) {
        self.event(Event::Frozen(Box::new(block(id, parent, votes))));
    }

    /// Reports a stored block of this node.
    fn made(&mut self, id: BankId, parent: BankId, by: u8) {
        let mut block = block(id, parent, vec![]);
        block.bank.leader = node(by);
        self.event(Event::Frozen(Box::new(block)));
    }

    fn store(&mut self, slot: u64, parent: u64) {
        self.event(Event::Stored(StoredBlock { slot, parent, is_whole: true }));
    }

    /// Does what is due, and signs votes.
    fn step(&mut self) -> Vec<Output> {
        let outputs = self.try_step().expect("the disk works, or is full");
        let mut all = vec![];
        for output in outputs {
            let signed = match &output {
                Output::Sign { number, message } => Some((*number, message.signers().len())),
                _ => None,
            };
            all.push(output);
            if let Some((number, count)) = signed {
                self.core.on_signed(number, &vec![[1; 64]; count], now(self.at));
                all.extend(self.core.outputs());
            }
        }
        all
    }

    /// Does what is due.
    fn try_step(&mut self) -> Result<Vec<Output>, TowerError> {
        self.core.poll(now(self.at), &mut self.disk)?;
        Ok(self.core.outputs())
    }

    fn commands(&mut self) -> Vec<Command> {
        commands(&self.step())
    }

    /// The slots for which the node votes in this step.
    fn votes(&mut self) -> Vec<u64> {
        votes(&self.step())
    }
}

fn now(at: Duration) -> Clocks {
    Clocks { monotonic: at, unix_ms: 1_700_000_000_000 + at.as_millis() as u64 }
}

fn commands(outputs: &[Output]) -> Vec<Command> {
    let command = |output: &Output| if let Output::Replay(command) = output { Some(command.clone()) } else { None };
    outputs.iter().filter_map(command).collect()
}

/// The slots of votes sent to leaders.
fn votes(outputs: &[Output]) -> Vec<u64> {
    let slot = |output: &Output| match output {
        Output::Vote(transaction) => Some(voted_for(&Txn::parse(transaction).unwrap()).unwrap().slot),
        _ => None,
    };
    outputs.iter().filter_map(slot).collect()
}

fn begun(outputs: &[Output]) -> Vec<(u64, u64)> {
    let begin = |command| if let Command::Begin { slot, parent } = command { Some((slot, parent.slot)) } else { None };
    commands(outputs).into_iter().filter_map(begin).collect()
}

fn is_sign(output: &Output) -> bool {
    matches!(output, Output::Sign { .. })
}

#[test]
fn vote_is_signed_and_sent_after_its_tower_is_saved() {
    let mut node = Node::new(0);
    let first = node.step();
    let is_gossip = |output: &Output| matches!(output, Output::Gossip(_));
    assert!(first.iter().any(is_sign) && first.iter().any(is_gossip), "where it stands: {first:?}");
    assert!(votes(&first).is_empty(), "that is no vote for leaders");
    assert!(first.contains(&Output::Replay(Command::BuildOn(id(0)))));
    node.froze(id(1), id(0), vec![]);
    let outputs = node.try_step().unwrap();
    let Some(Output::Sign { number, message }) = outputs.iter().find(|output| is_sign(output)) else {
        panic!("{outputs:?}")
    };
    assert!(votes(&outputs).is_empty() && outputs.contains(&Output::Replay(Command::BuildOn(id(1)))));
    let saved = Tower::restore(node.disk.towers.last().unwrap(), &super::tests::node(0)).unwrap();
    assert_eq!(saved.last_vote().map(|last| last.id), Some(id(1)));
    assert_eq!(message.signers(), [super::tests::node(0)]);
    node.core.on_signed(*number, &[[5; 64]], now(node.at));
    let outputs = node.core.outputs();
    let [Output::Vote(transaction), Output::Gossip(said)] = &outputs[..] else { panic!("{outputs:?}") };
    let txn = Txn::parse(transaction).unwrap();
    assert_eq!(
        voted_for(&txn),
        Some(VoteTarget { account: account(0), slot: 1, bank_hash: id(1).hash, block_id: [7; 32] })
    );
    assert_eq!(txn.recent_blockhash(), &[51; 32], "the blockhash of the block voted for");
    assert_eq!((said, txn.signatures()), (transaction, &[[5; 64]][..]));
}

#[test]
#[should_panic(expected = "sign refused the node's own vote")]
fn refused_vote_ends_the_node() {
    let mut node = Node::new(0);
    node.step();
    node.froze(id(1), id(0), vec![]);
    let outputs = node.try_step().unwrap();
    let Some(Output::Sign { number, .. }) = outputs.iter().find(|output| is_sign(output)) else {
        panic!("{outputs:?}")
    };
    node.core.on_signed(*number, &[], now(node.at));
}

#[test]
fn authorized_voter_signs_beside_the_node() {
    let key = || hearth_keys::Keypair::from_seed(&[77; 32]).expect("a page may be locked");
    let voter = key().public_key();
    let (desk, voters, _keys) = VoterDesk::new(node(0), vec![key()]);
    let mut begins = start();
    begins.block.voters[0] = (account(0), voter);
    let mut own = Node::started(Config { voters, ..config(0) }, begins, None);
    own.step();
    own.froze(id(1), id(0), vec![]);
    let outputs = own.step();
    let Some(Output::Sign { message, .. }) = outputs.iter().find(|output| is_sign(output)) else {
        panic!("{outputs:?}")
    };
    assert_eq!(message.signers(), [node(0), voter]);
    assert_eq!(votes(&outputs), [1]);
    // The key is removed while a vote is on its way, and sign refuses it.
    own.froze(id(2), id(1), vec![]);
    let outputs = own.try_step().unwrap();
    let Some(Output::Sign { number, .. }) = outputs.iter().find(|output| is_sign(output)) else {
        panic!("{outputs:?}")
    };
    desk.remove_all().unwrap();
    own.core.on_signed(*number, &[], now(own.at));
    own.froze(id(3), id(2), vec![]);
    let outputs = own.step();
    assert!(!outputs.iter().any(is_sign), "{outputs:?}");
    let saved = Tower::restore(own.disk.towers.last().unwrap(), &node(0)).unwrap();
    assert_eq!(saved.last_vote().map(|last| last.id), Some(id(3)), "the tower continues");
    desk.add(key()).unwrap();
    own.froze(id(4), id(3), vec![]);
    assert_eq!(own.votes(), [4]);
}

#[test]
fn vote_is_signed_by_the_voter_of_its_epoch() {
    let keys = || [77, 78].map(|seed| hearth_keys::Keypair::from_seed(&[seed; 32]).expect("a page may be locked"));
    let [old, new] = keys().map(|key| key.public_key());
    let (_desk, voters, _keys) = VoterDesk::new(node(0), keys().into());
    let mut begins = start();
    begins.block.voters[0] = (account(0), old);
    let mut own = Node::started(Config { voters, ..config(0) }, begins, None);
    own.step();
    let mut next = stakes();
    next.epoch = 1;
    own.event(Event::Epoch(Arc::new(next)));
    let first = SCHEDULE.first_slot(1);
    // Returns the voter that signs a vote for a block. A block that changed the account names the account's voter.
    // Another node votes for the epoch's first block, so that its fork is the heavier one.
    let mut signer = |slot: u64, parent: u64, named: Option<Pubkey>| {
        let votes = if slot > first { vec![voted(1, &[first])] } else { vec![] };
        let mut block = block(id(slot), id(parent), votes);
        block.voters = named.map(|voter| (account(0), voter)).into_iter().collect();
        own.event(Event::Frozen(Box::new(block)));
        own.step().iter().find_map(|output| match output {
            Output::Sign { message, .. } => message.signers().last().copied(),
            _ => None,
        })
    };
    assert_eq!(signer(1, 0, None), Some(old));
    assert_eq!(signer(first, 1, Some(new)), Some(new));
    assert_eq!(signer(2, 1, Some(old)), None, "a block of the epoch before, on a fork that the node has left");
    assert_eq!(signer(first + 1, first, None), Some(new));
}

#[test]
fn full_disk_holds_votes_back_and_the_newest_is_sent() {
    let mut node = Node::new(0);
    node.step();
    node.disk.fault = Some(io::ErrorKind::StorageFull);
    node.froze(id(1), id(0), vec![]);
    let outputs = node.step();
    assert!(!outputs.iter().any(is_sign) && votes(&outputs).is_empty(), "{outputs:?}");
    assert!(outputs.contains(&Output::Replay(Command::BuildOn(id(1)))), "everything else continues");
    node.froze(id(2), id(1), vec![]);
    assert!(!node.step().iter().any(is_sign));
    assert!(node.core.count.unsaved >= 2 && node.disk.towers.is_empty());
    node.disk.fault = None;
    assert_eq!(node.votes(), [2]);
    let saved = Tower::restore(node.disk.towers.last().unwrap(), &super::tests::node(0)).unwrap();
    assert_eq!(saved.last_vote().map(|last| last.id), Some(id(2)));
    assert!(node.votes().is_empty(), "once");
}

#[test]
fn broken_disk_ends_the_node_before_the_vote() {
    let mut node = Node::new(0);
    node.step();
    node.disk.fault = Some(io::ErrorKind::PermissionDenied);
    node.froze(id(1), id(0), vec![]);
    assert!(matches!(node.try_step(), Err(TowerError::Saved(_))));
    assert!(!node.core.outputs().iter().any(is_sign));
}

#[test]
fn signature_of_a_replaced_vote_is_dropped() {
    let mut node = Node::new(0);
    node.step();
    let mut numbers = vec![];
    for slot in [1, 2] {
        node.froze(id(slot), id(slot - 1), vec![]);
        let number = |output: &Output| if let Output::Sign { number, .. } = output { Some(*number) } else { None };
        numbers.extend(node.try_step().unwrap().iter().filter_map(number));
    }
    let signed = |core: &mut Core, number| {
        core.on_signed(number, &[[5; 64]], now(Duration::ZERO));
        votes(&core.outputs())
    };
    assert!(signed(&mut node.core, numbers[0]).is_empty());
    assert_eq!(signed(&mut node.core, numbers[1]), [2]);
    assert!(signed(&mut node.core, numbers[1]).is_empty(), "once");
}

#[test]
fn only_signed_votes_of_authorized_voters_count() {
    let mut node = Node::new(0);
    node.step();
    node.core.on_vote(&vote_by(2, 1, id(5)));
    let mut damaged = vote_by(1, 1, id(5));
    damaged[7] ^= 1;
    node.core.on_vote(&damaged);
    node.core.on_vote(&[1, 2, 3]);
    assert_eq!((node.core.count.heard_votes, node.core.count.refused_votes), (0, 3));
    assert!(node.step().is_empty());
    node.core.on_vote(&vote_by(1, 1, id(5)));
    assert_eq!((node.core.count.heard_votes, node.core.count.refused_votes), (1, 3));
    let outputs = node.step();
    let voted = VoteTarget { account: account(1), slot: 5, bank_hash: id(5).hash, block_id: [7; 32] };
    assert_eq!(outputs, [Output::Replay(Command::Voted(voted)), Output::Want(5)], "a quarter of the stake has it");
    // Another key may vote with the account from now on.
    let mut changed = block(id(1), id(0), vec![]);
    changed.voters = vec![(account(1), super::tests::node(2))];
    node.event(Event::Frozen(Box::new(changed)));
    node.core.on_vote(&vote_by(2, 1, id(6)));
    node.core.on_vote(&vote_by(1, 1, id(7)));
    assert_eq!((node.core.count.heard_votes, node.core.count.refused_votes), (2, 4));
}

#[test]
fn known_voters_are_verified_like_new_ones() {
    let mut node = Node::new(0);
    node.step();
    // From the third vote on its key has a table.
    for slot in 1..=8 {
        node.core.on_vote(&vote_by(1, 1, id(slot)));
        let mut damaged = vote_by(1, 1, id(slot + 1));
        damaged[7] ^= 1;
        node.core.on_vote(&damaged);
        assert_eq!(node.core.count.heard_votes, slot);
        assert_eq!(node.core.count.refused_votes, slot);
    }
}

#[test]
fn epochs_first_block_names_all_voters() {
    let mut node = Node::new(0);
    node.step();
    node.froze(id(1), id(0), vec![]);
    let slot = SCHEDULE.first_slot(SCHEDULE.epoch(0) + 1);
    let mut first = block(id(slot), id(1), vec![]);
    first.voters = vec![(account(2), super::tests::node(2))];
    node.event(Event::Frozen(Box::new(first)));
    node.core.on_vote(&vote_by(1, 1, id(slot + 1)));
    assert_eq!((node.core.count.heard_votes, node.core.count.refused_votes), (0, 1), "its voter is not named any more");
    node.core.on_vote(&vote_by(2, 2, id(slot + 1)));
    assert_eq!((node.core.count.heard_votes, node.core.count.refused_votes), (1, 1));
}

#[test]
fn fork_is_left_only_with_enough_stake_on_the_other() {
    let mut node = Node::new(0);
    node.step();
    node.froze(id(1), id(0), vec![]);
    assert_eq!(node.votes(), [1]);
    node.froze(id(2), id(0), vec![]);
    node.froze(id(3), id(2), vec![voted(1, &[2])]);
    // The vote for slot 1 binds until slot 3.
    node.froze(id(6), id(3), vec![voted(1, &[2, 3])]);
    let outputs = node.step();
    assert!(votes(&outputs).is_empty(), "a quarter of the stake is locked out there: {outputs:?}");
    let both = vec![voted(1, &[2, 3, 6]), voted(2, &[3, 6])];
    node.froze(id(7), id(6), both);
    let outputs = node.step();
    assert_eq!(votes(&outputs), [7], "half of it is");
    assert!(commands(&outputs).contains(&Command::BuildOn(id(7))));
}

#[test]
fn block_of_another_version_is_dropped_and_the_clusters_taken() {
    let mut node = Node::new(0);
    node.step();
    node.froze(id(1), id(0), vec![]);
    node.froze(id(2), id(1), vec![]);
    node.core.on_duplicate(2);
    let outputs = node.step();
    assert_eq!((votes(&outputs), node.core.count.duplicate_slots), (vec![1], 1), "2 is in doubt");
    for number in 1..3 {
        node.core.on_vote(&vote_by(number, number, other(2)));
    }
    assert!(!node.commands().contains(&Command::Dump(2)), "half of the stake");
    node.core.on_vote(&vote_by(3, 3, other(2)));
    assert!(node.commands().contains(&Command::Dump(2)));
    // Events that replay sent before it dropped the block.
    node.froze(id(2), id(1), vec![]);
    node.froze(id(3), id(2), vec![]);
    node.event(Event::Dead(2));
    assert!(node.commands().is_empty());
    node.event(Event::Dumped(2));
    node.froze(other(2), id(1), vec![]);
    assert_eq!(node.votes(), [2]);
    node.froze(id(4), other(2), vec![]);
    assert_eq!(node.votes(), [4]);
}

#[test]
fn doubtful_block_is_taken_once_it_is_confirmed() {
    let mut node = Node::new(0);
    node.step();
    node.froze(id(1), id(0), vec![]);
    node.core.on_duplicate(1);
    assert!(node.votes().is_empty());
    for number in 1..4 {
        node.core.on_vote(&vote_by(number, number, id(1)));
    }
    let outputs = node.step();
    assert_eq!(votes(&outputs), [1]);
    assert!(outputs.contains(&Output::Confirmed(id(1))) && commands(&outputs).contains(&Command::Confirmed(id(1))));
}

#[test]
fn ancestors_of_a_dead_block_are_requested() {
    let mut node = Node::new(0);
    node.step();
    node.froze(id(1), id(0), vec![]);
    node.step();
    node.event(Event::Dead(2));
    let asked = |node: &mut Node| node.step().contains(&Output::AskAncestors(2));
    for number in 1..3 {
        node.core.on_slots(&super::tests::node(number), [2]);
    }
    assert!(!asked(&mut node), "half of the stake has it");
    node.core.on_slots(&super::tests::node(3), [2]);
    assert!(asked(&mut node) && !asked(&mut node), "once");
    node.core.on_ancestors(&[other(2), id(1), id(0)]);
    assert_eq!(node.commands(), [Command::Dump(2)], "this version is not the cluster's");
    node.event(Event::Dumped(2));
    node.froze(other(2), id(1), vec![]);
    assert_eq!(node.votes(), [2]);
}

#[test]
fn other_ancestor_of_a_dead_block_is_dropped() {
    let mut node = Node::new(0);
    node.step();
    node.froze(id(1), id(0), vec![]);
    node.step();
    node.event(Event::Dead(2));
    node.core.on_ancestors(&[id(2), other(1), id(0)]);
    assert_eq!(node.commands()[0], Command::Dump(1));
}

#[test]
fn node_waits_for_the_cluster_before_it_leads() {
    let own = leader(1);
    let mut node = Node::new(own);
    assert!(begun(&node.step()).is_empty());
    node.at = JOINED - Duration::from_millis(1);
    assert!(begun(&node.step()).is_empty());
    node.at = JOINED;
    assert_eq!(begun(&node.step()), [(1, 0)], "slots count from here");
    // Other nodes have voted for a block that is not here yet.
    let mut node = Node::new(own);
    node.step();
    for number in (0..NODES).filter(|number| *number != own) {
        node.core.on_vote(&vote_by(number, number, id(9)));
    }
    node.at = Duration::from_secs(2);
    assert!(begun(&node.step()).is_empty());
    // It has the block that they voted for: its own turn of slots 1 to 3 is over.
    node.froze(id(9), id(0), vec![]);
    let next = (10..).find(|slot| leader(*slot) == own).unwrap();
    node.step();
    node.at += SLOT * (next - 9) as u32 + SLOT * 2;
    let begun = begun(&node.step());
    assert!(begun.len() == 1 && begun[0].0 >= next && begun[0].1 == 9, "{begun:?}, {next}");
}

#[test]
fn slot_begins_again_only_after_it_was_undone() {
    let own = leader(1);
    let mut node = Node::joined(own);
    assert_eq!(begun(&node.step()), [(1, 0)]);
    node.at += SLOT * 3;
    assert!(begun(&node.step()).is_empty(), "it is being made");
    node.at = JOINED;
    node.event(Event::Retracted(1));
    assert_eq!(begun(&node.step()), [(1, 0)]);
    node.made(id(1), id(0), own);
    let outputs = node.step();
    assert_eq!((begun(&outputs), votes(&outputs)), (vec![(2, 1)], vec![1]), "and the next on it");
    assert_eq!(node.core.count.begun_slots, 3);
}

#[test]
fn nothing_begins_while_another_own_slot_is_made() {
    let own = leader(1);
    let mut node = Node::joined(own);
    assert_eq!(begun(&node.step()), [(1, 0)]);
    let next = (8..).find(|slot| leader(*slot) == own && leader(slot - 1) != own).unwrap();
    // Another node's block arrives, and right after it this node would lead.
    node.froze(id(next - 1), id(0), vec![]);
    let outputs = node.step();
    assert!(commands(&outputs).contains(&Command::BuildOn(id(next - 1))), "{outputs:?}");
    assert!(begun(&outputs).is_empty() && begun(&node.step()).is_empty());
    node.event(Event::Retracted(1));
    assert_eq!(begun(&node.step()), [(next, next - 1)]);
}

#[test]
fn slots_count_from_the_decision_while_an_own_slot_is_made() {
    let own = leader(1);
    let mut node = Node::joined(own);
    assert_eq!(begun(&node.step()), [(1, 0)]);
    let next = (8..).find(|slot| leader(*slot) == own && leader(slot - 1) != own).unwrap();
    node.froze(id(next - 1), id(0), vec![]);
    assert!(commands(&node.step()).contains(&Command::BuildOn(id(next - 1))));
    // Poh switches to it only when the own slot has ended, one and a half slots later.
    node.at += SLOT * 3 / 2;
    assert!(begun(&node.step()).is_empty());
    node.made(id(1), id(0), own);
    assert_eq!(begun(&node.step()), [(next + 1, next - 1)], "one slot's time has passed since the decision");
}

#[test]
fn late_slot_skips_none_of_its_turn() {
    let own = leader(1);
    let mut node = Node::joined(own);
    assert_eq!(begun(&node.step()), [(1, 0)]);
    node.at += SLOT * 5 / 2;
    node.made(id(1), id(0), own);
    assert_eq!(begun(&node.step()), [(2, 1)], "no slot is skipped");
}

#[test]
fn leader_executes_first_what_a_third_voted_for() {
    let turn = (4..).step_by(4).find(|slot| leader(*slot) != leader(1)).unwrap();
    let own = leader(turn);
    let others: Vec<u8> = (0..NODES).filter(|number| *number != own).collect();
    let begins = |voters: usize, has_backlog: bool| {
        let mut node = Node::joined(own);
        node.step();
        node.at += SLOT * (turn as u32 + 1);
        others[..voters].iter().for_each(|number| node.core.on_vote(&vote_by(*number, *number, id(3))));
        node.event(Event::Backlog(has_backlog));
        begun(&node.step())
    };
    assert!(begins(2, true).is_empty(), "half of the stake voted for a block that may be of another fork");
    assert_eq!(begins(2, false), [(turn + 2, 0)], "there is nothing to execute");
    assert_eq!(begins(1, true), [(turn + 2, 0)], "a quarter of the stake may be wrong");
}

#[test]
fn leader_waits_for_blocks_of_the_leader_before() {
    let is_turn = |slot: &u64| [4, 8].iter().all(|before| leader(slot - before) != leader(*slot));
    let turn = (8..).step_by(4).find(is_turn).unwrap();
    let parent = turn - 6;
    let begins = |after: u64, is_child_stored: bool| {
        let mut node = Node::joined(leader(turn));
        node.step();
        node.froze(id(parent), id(0), vec![]);
        node.step();
        if is_child_stored {
            node.store(turn - 2, parent);
        }
        node.at += SLOT * (turn + after - parent - 1) as u32;
        begun(&node.step())
    };
    assert_eq!(begins(0, false), [(turn, parent)], "there is nothing to wait for");
    assert!(begins(0, true).is_empty(), "a block on the parent is on its way");
    assert_eq!(begins(2, true), [(turn + 2, parent)], "for the time of two slots");
}

#[test]
fn follower_without_poh_begins_nothing() {
    let own = leader(1);
    let mut node = Node::started(Config { leads: false, ..config(own) }, start(), None);
    node.step();
    node.at = JOINED;
    assert!(begun(&node.step()).is_empty());
}

#[test]
fn restart_keeps_to_the_saved_tower() {
    let mut before = Node::new(0);
    before.step();
    before.froze(id(3), id(0), vec![]);
    assert_eq!(before.votes(), [3]);
    let saved = Tower::restore(before.disk.towers.last().unwrap(), &node(0)).unwrap();
    let mut after = Node::started(Config { is_begin: false, ..config(0) }, start(), Some(saved.clone()));
    let outputs = after.step();
    assert!(outputs.iter().any(is_sign), "it publishes its last vote: {outputs:?}");
    after.froze(id(4), id(0), vec![]);
    after.froze(id(7), id(4), vec![]);
    assert!(after.votes().is_empty(), "neither while the vote binds, nor without a reason to leave its fork");
    after.froze(id(3), id(0), vec![]);
    after.froze(id(8), id(3), vec![]);
    assert_eq!(after.votes(), [8]);
    // A chain that never contained its root.
    let mut tower = saved;
    tower.set_root(other(0));
    let wrong = Core::new(config(0), start(), Some(tower), now(Duration::ZERO));
    assert!(matches!(wrong.err(), Some(TowerError::Start(_))));
}

#[test]
fn own_slot_of_the_run_before_is_not_made_again() {
    let own = leader(1);
    let of_before = StoredBlock { slot: 1, parent: 0, is_whole: true };
    for (stored, is_made) in [(vec![], true), (vec![of_before], false)] {
        let mut node = Node::started(config(own), Start { stored, ..start() }, None);
        node.step();
        node.at = JOINED;
        assert_eq!(begun(&node.step()).iter().any(|(slot, _)| *slot == 1), is_made);
    }
}

#[test]
fn node_that_lost_its_tower_does_not_lead() {
    let own = leader(1);
    let mut node = Node::started(Config { is_begin: false, ..config(own) }, start(), None);
    let first = node.step();
    assert!(!first.iter().any(is_sign), "it knows of no vote");
    node.at = JOINED;
    assert!(begun(&node.step()).is_empty());
}

#[test]
fn node_moved_from_agave_does_not_lead_at_once() {
    let own = leader(1);
    let mut tower = Tower::new(id(0));
    tower.vote(LastVote { id: id(1), block_id: [7; 32] });
    let file = tower.to_agave(&node(own), |data| key(own).sign(data)).unwrap();
    let moved = Tower::from_agave(&file, &node(own)).unwrap();
    for (saved, leads) in [(tower, true), (moved, false)] {
        let mut node = Node::started(config(own), start(), Some(saved));
        node.step();
        node.at = JOINED;
        assert_eq!(begun(&node.step()).iter().any(|(slot, _)| *slot == 1), leads);
    }
}

/// Executes blocks 1 to `to`. In each of them, all nodes have voted for all earlier blocks.
fn line(node: &mut Node, to: u64) -> Vec<Output> {
    let mut all = vec![];
    for slot in 1..=to {
        let slots: Vec<u64> = (1..slot).collect();
        node.froze(id(slot), id(slot - 1), (0..NODES).map(|number| voted(number, &slots)).collect());
        node.at += SLOT;
        all.extend(node.step());
    }
    all
}

#[test]
fn root_follows_32_votes_and_is_saved() {
    let mut node = Node::started(Config { leads: false, ..config(0) }, start(), None);
    let outputs = line(&mut node, 40);
    let roots: Vec<BankId> = (1..=9).map(id).collect();
    let rooted: Vec<BankId> = commands(&outputs)
        .into_iter()
        .filter_map(|it| if let Command::Root(id) = it { Some(id) } else { None })
        .collect();
    assert_eq!((rooted, &node.disk.roots), (roots.clone(), &roots));
    assert!(outputs.contains(&Output::Root(9)));
    assert!(commands(&outputs).iter().any(|command| matches!(command, Command::Finalized(_))));
    assert_eq!((node.core.count.root_slot, node.core.count.unrooted_blocks), (9, 31));
    // A block on an abandoned fork may still arrive.
    node.froze(id(50), id(5), vec![]);
    assert!(node.votes().is_empty());
}

#[test]
fn full_disk_does_not_stop_the_root() {
    let mut node = Node::started(Config { leads: false, ..config(0) }, start(), None);
    node.disk.fault = Some(io::ErrorKind::StorageFull);
    let outputs = line(&mut node, 40);
    assert!(commands(&outputs).contains(&Command::Root(id(9))) && node.disk.roots.is_empty());
    assert!(votes(&outputs).is_empty());
}

#[test]
fn stakes_of_a_new_epoch_weigh_its_votes() {
    let mut node = Node::new(0);
    node.step();
    let first = SCHEDULE.first_slot(1);
    let hash: Hash = [1; 32];
    node.core.on_vote(&vote_by(1, 1, BankId { slot: first - 1, hash }));
    let wanted = |node: &mut Node| node.step().iter().any(|output| matches!(output, Output::Want(_)));
    assert!(!wanted(&mut node), "it is too far ahead");
    let mut near = start();
    near.block.bank.id = BankId { slot: first - 2, hash };
    near.block.bank.parent = near.block.bank.id;
    let mut node = Node::started(Config { is_begin: false, ..config(0) }, near, None);
    node.core.on_vote(&vote_by(1, 1, BankId { slot: first, hash }));
    assert!(!wanted(&mut node), "no stakes are known for that epoch, and one node may lie");
    let mut stakes = stakes();
    stakes.epoch = 1;
    node.event(Event::Epoch(Arc::new(stakes)));
    node.core.on_vote(&vote_by(1, 1, BankId { slot: first + 1, hash }));
    assert!(wanted(&mut node));
}

#[test]
fn votes_show_how_far_the_cluster_is_even_epochs_ahead() {
    let mut node = Node::new(0);
    node.step();
    node.at = JOINED / 2;
    // Neither the stakes nor the leaders of that epoch are known here.
    let ahead = SCHEDULE.first_slot(3) + 5;
    for number in 1..NODES {
        node.core.on_vote(&vote_by(number, number, BankId { slot: ahead, hash: [1; 32] }));
    }
    let outputs = node.step();
    assert!(outputs.contains(&Output::Want(ahead)), "{outputs:?}");
    // While it may still catch up, it makes no blocks: they would be on a fork of its own.
    for tenths in 0..90 {
        node.at = JOINED + Duration::from_millis(100 * tenths);
        assert!(commands(&node.step()).iter().all(|command| !matches!(command, Command::Begin { .. })), "{tenths}");
    }
}
