//! Tile tests: a block on disk becomes orders, and reports become an event.

use std::time::Duration;

use hearth_consensus::BankId;
use hearth_crypto::ed25519::SigningKey;
use hearth_crypto::merkle::MixinTree;
use hearth_crypto::sha256::{sha256_chain, sha256_mix};
use hearth_ledger::blockstore::{self, BlockStore, FecSetRecord};
use hearth_ledger::history::{self, Batch, History};
use hearth_ledger::stakes::validator_accounts;
use hearth_ledger::{Account, BlockLimits, Forks, Genesis, GenesisConfig, LedgerConfig, StatusCacheConfig, builders};
use hearth_tile::rig::{DEPTH, Rig};
use hearth_wire::Txn;
use hearth_wire::entry::{write_batch_header, write_entry};
use hearth_wire::vote::VoteTarget;

use super::*;
use crate::bank::RecorderConfig;
use crate::exec::{Worker as ExecWorker, WorkerConfig};
use crate::links::{CONFIRMED, HISTORY_BEGINS};
use crate::tower::{Event, Pieces};

const GENESIS_ID: Hash = [77; 32];
const BLOCK_ID: Hash = [78; 32];
const RULES: Rules = Rules { ticks_per_slot: 1, hashes_per_tick: Some(400), limits: BlockLimits::CLUSTER };
const INPUTS: [&str; 5] = ["store_replay", "tower_replay", "exec_replay:0", "exec_replay:1", "poh_replay"];
const OUTPUTS: [&str; 6] =
    ["replay_tower", "replay_exec:0", "replay_exec:1", "replay_poh", "replay_shred", "replay_store"];

fn payer() -> SigningKey {
    SigningKey::from_seed(&[3; 32])
}

struct Trial {
    rig: Rig<ReplayTile>,
    ledger: Arc<Ledger>,
    store: BlockStore,
    failure: Failure<PositionError>,
    workers: [ExecWorker; 2],
    events: Pieces,
    /// Whether replay has reported its failure to tower: the node must not vote any more.
    has_failure: bool,
    _folder: tempfile::TempDir,
}

impl Trial {
    /// A new chain of four nodes with equal stake.
    fn new() -> Self {
        Self::recording(None)
    }

    /// The same, with a history if `recording` is set.
    fn recording(recording: Option<RecorderConfig>) -> Self {
        let accounts = |n: u8| validator_accounts(&[10 + n; 32], &[50 + n; 32], &[100 + n; 32], 1 << 40);
        let config = GenesisConfig {
            fund_initial_accounts: 0,
            extra_accounts: (0..4).flat_map(accounts).collect(),
            ..GenesisConfig::development([100; 32], [2; 32], 1_700_000_000)
        };
        let status_cache = StatusCacheConfig { enabled: true, capacity_txns: 0 };
        let of_ledger = LedgerConfig { status_cache, forks: Some(Forks::default()), ..LedgerConfig::default() };
        let ledger = Ledger::new(&Genesis::create(config, |_| {}).unwrap(), of_ledger);
        ledger.accounts().store(&payer().public_key(), Account::wallet(1 << 50));
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = BlockStore::open(folder.path(), blockstore::Config::new(8 << 20, [7; 32])).unwrap();
        let failure = Failure::default();
        let config = Config {
            ledger: ledger.clone(),
            block_id: GENESIS_ID,
            blocks: store.reader(),
            rules: RULES,
            records: recording.is_some(),
            failure: failure.clone(),
        };
        let worker = || ExecWorker::new(&WorkerConfig { table_bytes: 1 << 20, recording: recording.clone() });
        Self {
            rig: Rig::new(config, &INPUTS, &OUTPUTS),
            ledger,
            store,
            failure,
            workers: [worker(), worker()],
            events: Pieces::default(),
            has_failure: false,
            _folder: folder,
        }
    }

    /// Makes a block of this many transfers on the genesis; the last signature may be wrong.
    fn block(&self, transfers: u64, is_wrong: bool) -> Vec<u8> {
        let parent = self.ledger.recent_blocks(1)[0].blockhash;
        let mut txns: Vec<Vec<u8>> = (0..transfers).map(|number| transfer(&parent, number)).collect();
        if is_wrong {
            txns.last_mut().expect("there is one")[5] ^= 1;
        }
        let mut tree = MixinTree::default();
        txns.iter().for_each(|txn| tree.push(Txn::parse(txn).unwrap().first_signature()));
        let mixed = sha256_mix(sha256_chain(parent, 1), tree.take_root());
        let mut block = vec![];
        write_batch_header(2, &mut block);
        write_entry(2, &mixed, txns.len(), &txns.concat(), &mut block);
        write_entry(398, &sha256_chain(mixed, 398), 0, &[], &mut block);
        block
    }

    /// Stores a block of slot 1, and notifies replay.
    fn store(&mut self, data: &[u8]) {
        self.append(data);
        self.rig.give("store_replay", 1, &[]);
    }

    fn append(&mut self, data: &[u8]) {
        let set = FecSetRecord {
            slot: 1,
            parent_slot: 0,
            fec_set_index: 0,
            reference_tick: 0,
            last_in_slot: true,
            ends_batch: None,
            merkle_root: BLOCK_ID,
            chained_root: GENESIS_ID,
            signature: [3; 64],
            data,
        };
        self.store.append_set(&set).unwrap();
    }

    /// Lets both exec tiles perform their orders; returns how many.
    fn execute(&mut self) -> [usize; 2] {
        [0, 1].map(|number| {
            let orders = self.rig.take(OUTPUTS[1 + number]);
            for (id, payload) in &orders {
                let (order, bank) = (ExecOrder::read(payload), self.ledger.bank(1));
                let worker = &mut self.workers[number];
                worker.begin(&order);
                let report = loop {
                    worker.step(&order, payload, bank.as_deref());
                    if let Some(report) = worker.take_report() {
                        break report;
                    }
                };
                if !report.history.is_empty() {
                    self.rig.give_control(INPUTS[2 + number], *id, MORE, &report.history);
                }
                let mut verdict = [0; ExecVerdict::SIZE_MAX];
                let size = ExecVerdict::write(&mut verdict, report.failure, &report.costs);
                self.rig.give(INPUTS[2 + number], *id, &verdict[..size]);
            }
            orders.len()
        })
    }

    /// Runs all tiles until nothing is left; returns the events sent to tower.
    fn run(&mut self) -> Vec<Event> {
        loop {
            self.rig.run();
            if self.execute() == [0, 0] {
                break;
            }
        }
        self.events()
    }

    fn events(&mut self) -> Vec<Event> {
        let frags = self.rig.take_control("replay_tower");
        assert!(!self.has_failure || frags.is_empty(), "it is the last word");
        self.has_failure |= frags.last().is_some_and(|(control, _)| *control == FAILED);
        let frags = frags.iter().filter(|(control, _)| *control != FAILED);
        frags.filter_map(|(control, piece)| self.events.push(piece, *control).map(Event::decode)).collect()
    }

    /// Takes the orders sent to poh.
    fn orders(&mut self) -> Vec<LeaderOrder> {
        self.rig.run();
        self.rig.take("replay_poh").iter().map(|(_, bytes)| LeaderOrder::read(bytes)).collect()
    }

    fn answer(&mut self, answer: LeaderAnswer) {
        let mut buffer = [0; LeaderAnswer::SIZE];
        answer.write(&mut buffer);
        self.rig.give("poh_replay", 0, &buffer);
    }

    fn root(&self) -> BankId {
        let (slot, hash) = self.ledger.hash_all();
        BankId { slot, hash }
    }

    fn command(&mut self, command: &Command) {
        self.rig.give("tower_replay", 0, &command.encode());
    }
}

fn transfer(blockhash: &[u8; 32], number: u64) -> Vec<u8> {
    builders::transfer(&payer(), &[9; 32], (1 << 30) + number, blockhash)
}

fn frozen(events: &[Event]) -> Option<&crate::tower::FrozenBlock> {
    events.iter().find_map(|event| if let Event::Frozen(block) = event { Some(&**block) } else { None })
}

#[test]
fn block_on_disk_is_executed_and_reported() {
    let mut trial = Trial::new();
    assert!(frozen(&trial.run()).is_none());
    let block = trial.block(150, false);
    trial.store(&block);
    trial.rig.run();
    assert!(trial.events().iter().all(|event| frozen(std::slice::from_ref(event)).is_none()), "nobody has executed it");
    let events = trial.run();
    let frozen = frozen(&events).expect("it is executed");
    assert_eq!((frozen.bank.id.slot, frozen.bank.block_id), (1, BLOCK_ID));
    assert_eq!(Some(frozen.bank.id.hash), trial.ledger.bank_hash(1));
    assert_eq!((trial.rig.count().executed_blocks, trial.rig.count().executed_transactions), (1, 150));
    assert_eq!(trial.ledger.account(&[9; 32]).unwrap().lamports, 150 * (1 << 30) + 149 * 150 / 2);
}

#[test]
fn store_has_metadata_before_block_is_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let log = History::open(folder.path(), history::Config::new(1 << 20, [1; 32]), 0).unwrap();
    let mut trial = Trial::recording(Some(RecorderConfig { key: log.key(), extended: false }));
    let block = trial.block(150, false);
    trial.store(&block);
    let events = trial.run();
    let id = frozen(&events).expect("it is executed").bank.id;
    let frags = trial.rig.take_frags("replay_store");
    let (begins, batches) = frags.split_first().unwrap();
    assert_eq!(*begins, (1, HISTORY_BEGINS, vec![0; 8]));
    assert!(batches.iter().all(|(slot, control, _)| *slot == 1 && *control == 0), "each fits into one frag");
    let read: Vec<Batch<'_>> = batches.iter().map(|(_, _, batch)| Batch::read(batch)).collect();
    assert!(read.iter().all(|batch| batch.slot == 1));
    assert!(read.iter().map(|batch| batch.count).eq([64, 64, 22]));
    trial.command(&Command::Confirmed(id));
    trial.run();
    assert_eq!(trial.rig.take_frags("replay_store"), [(1, CONFIRMED, vec![])]);
    assert_eq!(trial.rig.count().dropped_metadata, 0);
}

#[test]
fn replay_continues_while_store_takes_nothing() {
    let mut trial = Trial::new();
    let root = trial.root();
    trial.run();
    // More than the link holds: an unsent confirmation is replaced by the next.
    for _ in 0..2 * DEPTH {
        trial.command(&Command::Confirmed(root));
        trial.rig.run();
    }
    let block = trial.block(1, false);
    trial.store(&block);
    let events = trial.run();
    let id = frozen(&events).expect("it is executed").bank.id;
    trial.command(&Command::Confirmed(id));
    trial.run();
    let mut slots = vec![];
    while slots.last() != Some(&1) {
        let frags = trial.rig.take_frags("replay_store");
        assert!(!frags.is_empty(), "{} confirmations", slots.len());
        assert!(frags.iter().all(|(_, control, _)| *control == CONFIRMED));
        slots.extend(frags.iter().map(|(slot, _, _)| *slot));
        trial.rig.run();
    }
    assert_eq!(slots.len(), DEPTH as usize + 1);
}

#[test]
fn orders_go_to_both_and_two_wait_for_each_at_most() {
    let mut trial = Trial::new();
    trial.rig.run();
    let block = trial.block(3, false);
    trial.store(&block);
    trial.rig.run();
    // The transfers depend on each other; hashes on nothing.
    assert_eq!(trial.execute(), [1, 1]);
    assert!(frozen(&trial.run()).is_some());
}

#[test]
fn slot_is_taken_back_when_poh_says_so() {
    let mut trial = Trial::new();
    let parent = trial.root();
    let blockhash = trial.ledger.recent_blocks(1)[0].blockhash;
    let reset = LeaderOrder::Reset(Parent { slot: 0, blockhash, block_id: GENESIS_ID });
    trial.command(&Command::BuildOn(parent));
    trial.command(&Command::Begin { slot: 8, parent });
    assert_eq!(trial.orders(), [reset, LeaderOrder::Make(8)]);
    // Meanwhile poh owns the ledger.
    let block = trial.block(1, false);
    trial.store(&block);
    trial.command(&Command::BuildOn(parent));
    trial.command(&Command::BuildOn(parent));
    assert_eq!(trial.orders(), [LeaderOrder::Retract(8)], "once");
    assert!(frozen(&trial.run()).is_none());
    trial.answer(LeaderAnswer::Retracted(8));
    assert_eq!(trial.orders(), [reset; 2]);
    let events = trial.run();
    assert!(events.iter().any(|event| matches!(event, Event::Retracted(8))), "{events:?}");
    assert!(frozen(&events).is_some(), "the ledger is replay's again");
}

#[test]
fn slot_that_has_begun_is_waited_for() {
    let mut trial = Trial::new();
    let parent = trial.root();
    trial.command(&Command::BuildOn(parent));
    trial.command(&Command::Begin { slot: 1, parent });
    trial.rig.run();
    trial.ledger.begin_slot(1, 0).unwrap();
    trial.command(&Command::BuildOn(parent));
    trial.rig.run();
    let block = trial.block(0, false);
    trial.ledger.end_slot(1, [7; 32]).unwrap();
    trial.answer(LeaderAnswer::Ended(1));
    assert!(frozen(&trial.run()).is_none(), "it is not on disk");
    trial.orders();
    trial.store(&block);
    let events = trial.run();
    assert_eq!(frozen(&events).map(|block| block.bank.id.slot), Some(1));
    assert!(matches!(trial.orders()[..], [LeaderOrder::Reset(_)]), "what waited for the ledger is done");
}

#[test]
fn wrong_block_is_dead_and_leaves_nothing() {
    let mut trial = Trial::new();
    let block = trial.block(70, true);
    trial.store(&block);
    let events = trial.run();
    assert!(events.iter().any(|event| matches!(event, Event::Dead(1))), "{events:?}");
    assert!(frozen(&events).is_none() && trial.ledger.account(&[9; 32]).is_none());
    assert_eq!((trial.rig.count().dead_blocks, trial.rig.count().executed_blocks), (1, 0));
    assert!(trial.failure.take().is_none(), "it is the block's leader who is wrong");
}

#[test]
fn node_that_differs_from_a_third_of_the_stake_says_so_and_stops() {
    let mut trial = Trial::new();
    let block = trial.block(1, false);
    trial.store(&block);
    trial.run();
    for number in 0..2 {
        let voted = VoteTarget { account: [10 + number; 32], slot: 1, bank_hash: [1; 32], block_id: BLOCK_ID };
        trial.command(&Command::Voted(voted));
    }
    trial.rig.run();
    assert!(matches!(trial.failure.take(), Some(PositionError::Refuted { slot: 1, .. })));
    assert!(trial.events().is_empty() && trial.has_failure, "tower must not vote any more");
    trial.command(&Command::Finalized(1));
    assert!(trial.run().is_empty(), "it takes what comes, and does nothing");
}

#[test]
fn tower_does_not_hear_of_a_block_that_a_third_of_the_stake_refutes() {
    let mut trial = Trial::new();
    trial.run();
    for number in 0..2 {
        let voted = VoteTarget { account: [10 + number; 32], slot: 1, bank_hash: [1; 32], block_id: BLOCK_ID };
        trial.command(&Command::Voted(voted));
    }
    let block = trial.block(1, false);
    trial.store(&block);
    assert!(frozen(&trial.run()).is_none(), "it would vote for it");
    assert!(trial.has_failure);
    assert!(matches!(trial.failure.take(), Some(PositionError::Refuted { slot: 1, .. })));
}

#[test]
fn failure_is_reported_after_the_events_before_it() {
    let mut trial = Trial::new();
    let block = trial.block(1, false);
    trial.store(&block);
    trial.run();
    // Each is answered by an event: one more than the link holds.
    let events = u64::from(DEPTH) + 1;
    for slot in 100..100 + events {
        trial.command(&Command::Dump(slot));
        if slot % 100 == 0 {
            trial.rig.run();
        }
    }
    for number in 0..2 {
        let voted = VoteTarget { account: [10 + number; 32], slot: 1, bank_hash: [1; 32], block_id: BLOCK_ID };
        trial.command(&Command::Voted(voted));
    }
    trial.rig.run();
    assert!(trial.failure.take().is_none(), "an event waits for room");
    assert!(trial.rig.backpressure().0);
    let mut dumped = vec![];
    while dumped.len() < events as usize {
        let before = dumped.len();
        let of = |event: Event| if let Event::Dumped(slot) = event { Some(slot) } else { None };
        dumped.extend(trial.events().into_iter().filter_map(of));
        assert!(dumped.len() > before, "{before} of {events}");
        trial.rig.run();
    }
    assert!(dumped.into_iter().eq(100..100 + events));
    assert!(matches!(trial.failure.take(), Some(PositionError::Refuted { slot: 1, .. })));
}

#[test]
fn store_is_looked_at_now_and_then() {
    let mut trial = Trial::new();
    trial.rig.run();
    let block = trial.block(1, false);
    trial.append(&block);
    trial.rig.run();
    assert_eq!(trial.execute(), [0, 0], "nobody says that there is something new");
    trial.rig.advance(Duration::from_nanos(LOOK_NS));
    assert!(frozen(&trial.run()).is_some());
}

#[test]
fn looks_at_the_store_coincide_with_those_of_other_tiles() {
    let mut trial = Trial::new();
    trial.rig.advance(Duration::from_nanos(LOOK_NS + 7));
    trial.rig.run();
    assert_eq!(trial.rig.waits_for().deadline, Some(2 * LOOK_NS));
}
