//! Tests of which block the ledger moves to: a real ledger with a scripted store, executor and poh.

use std::cell::RefCell;
use std::rc::Rc;

use hearth_ledger::stakes::validator_accounts;
use hearth_ledger::{Forks, Genesis, GenesisConfig, LedgerConfig, StatusCacheConfig};

use super::*;

const NODES: u8 = 4;
const GENESIS_ID: Hash = [77; 32];

fn node(number: u8) -> Pubkey {
    [100 + number; 32]
}

fn account(number: u8) -> Pubkey {
    [10 + number; 32]
}

/// A ledger of four nodes of equal stake.
fn ledger() -> Arc<Ledger> {
    let accounts = |number: u8| validator_accounts(&account(number), &[50 + number; 32], &node(number), 1 << 40);
    let config = GenesisConfig {
        fund_initial_accounts: 0,
        extra_accounts: (0..NODES).flat_map(accounts).collect(),
        ..GenesisConfig::development(node(0), [2; 32], 1_700_000_000)
    };
    let status_cache = StatusCacheConfig { enabled: true, capacity_txns: 0 };
    let config_of_ledger = LedgerConfig { status_cache, forks: Some(Forks::default()), ..LedgerConfig::default() };
    Ledger::new(&Genesis::create(config, |_| {}).expect("a chain"), config_of_ledger)
}

/// A block in the store, with its last hash as data.
#[derive(Clone)]
struct TestBlock {
    parent: u64,
    parent_id: Hash,
    id: Hash,
    is_whole: bool,
    is_wrong: bool,
    votes: Vec<VoteTarget>,
}

#[derive(Clone, Default)]
struct Store(Rc<RefCell<BTreeMap<u64, TestBlock>>>);

impl Store {
    /// Adds a version of a block on the store's version of its parent.
    fn add(&self, slot: u64, parent: u64, version: u8) {
        self.add_with(slot, parent, version, |_| ());
    }

    fn add_with(&self, slot: u64, parent: u64, version: u8, change: impl FnOnce(&mut TestBlock)) {
        let parent_id = self.0.borrow().get(&parent).map_or(GENESIS_ID, |parent| parent.id);
        let id = block_id(slot, version);
        let mut stored = TestBlock { parent, parent_id, id, is_whole: true, is_wrong: false, votes: vec![] };
        change(&mut stored);
        self.0.borrow_mut().insert(slot, stored);
    }
}

fn block_id(slot: u64, version: u8) -> Hash {
    let mut id = [version; 32];
    id[..8].copy_from_slice(&slot.to_le_bytes());
    id
}

fn info(slot: u64, stored: &TestBlock) -> SlotInfo {
    SlotInfo { slot, parent_slot: stored.parent, set_count: 1, whole: stored.is_whole, place: 0 }
}

impl BlockSource for Store {
    fn slots(&self, from: u64, count: usize) -> Vec<SlotInfo> {
        self.0.borrow().range(from..).take(count).map(|(slot, stored)| info(*slot, stored)).collect()
    }

    fn block(&self, slot: u64) -> Result<Option<Block>, StoreError> {
        let of = |stored: &TestBlock| {
            let data = stored.id.to_vec();
            Block { info: info(slot, stored), block_id: stored.id, data, batch_ends: None }
        };
        Ok(self.0.borrow().get(&slot).map(of))
    }

    fn chained_root(&self, slot: u64) -> Result<Option<Hash>, StoreError> {
        Ok(self.0.borrow().get(&slot).map(|stored| stored.parent_id))
    }
}

/// An executor that needs only a block's last hash.
#[derive(Clone, Default)]
struct Executor {
    store: Store,
    executed: Rc<RefCell<Vec<u64>>>,
    begun: Rc<RefCell<Option<(Block, bool)>>>,
    /// Whether the current block is waiting for workers.
    is_held: Rc<RefCell<bool>>,
    /// Whether a block gets another hash each time it is executed.
    is_unsteady: Rc<RefCell<bool>>,
}

impl BlockExecutor for Executor {
    fn begin(&mut self, _ledger: &Ledger, block: Block, is_known: bool) {
        let before = self.begun.borrow_mut().replace((block, is_known));
        assert!(before.is_none(), "one block at a time");
    }

    fn step(&mut self, ledger: &Ledger) -> Progress {
        if *self.is_held.borrow() {
            return Progress::Waits;
        }
        let (block, is_known) = self.begun.borrow_mut().take().expect("a block was begun");
        Progress::Ended(self.execute(ledger, &block, is_known))
    }
}

impl Executor {
    fn execute(&self, ledger: &Ledger, block: &Block, is_known: bool) -> Result<ExecutionSummary, ReplayError> {
        let slot = block.info.slot;
        let stored = self.store.0.borrow()[&slot].clone();
        ledger.begin_slot(slot, block.info.parent_slot).expect("the ledger is at the parent");
        if stored.is_wrong {
            return Err(ReplayError::Signature { slot, signature: "a test's".into() });
        }
        let mut hash = stored.id;
        hash[31] ^= u8::from(is_known && *self.is_unsteady.borrow());
        ledger.end_slot(slot, hash).expect("it has begun");
        self.executed.borrow_mut().push(slot);
        Ok(ExecutionSummary { transactions: 3, votes: stored.votes, batches: Some(vec![vec![slot as u8]]) })
    }
}

#[derive(Default)]
struct PohState {
    parent: Option<Parent>,
    wanted: Option<u64>,
    making: Option<u64>,
}

#[derive(Clone, Default)]
struct Poh(Rc<RefCell<PohState>>);

impl Poh {
    fn begins(&self) -> u64 {
        let mut state = self.0.borrow_mut();
        let slot = state.wanted.take().expect("a slot is wanted");
        state.making = Some(slot);
        slot
    }
}

impl LeaderControl for Poh {
    fn reset(&mut self, parent: Parent) {
        self.0.borrow_mut().parent = Some(parent);
    }

    fn make(&mut self, slot: u64) {
        self.0.borrow_mut().wanted = Some(slot);
    }

    fn retract(&mut self) -> bool {
        self.0.borrow_mut().wanted.take().is_some()
    }

    fn making(&self) -> Option<u64> {
        let state = self.0.borrow();
        state.making.or(state.wanted)
    }
}

/// A position (the code under test) and its scripted dependencies.
struct World {
    position: Position<Store, Executor, Poh>,
    ledger: Arc<Ledger>,
    store: Store,
    executor: Executor,
    poh: Poh,
    /// The executed blocks, by slot.
    frozen: BTreeMap<u64, BankId>,
}

impl World {
    fn new() -> Self {
        Self::at(ledger(), GENESIS_ID, Store::default())
    }

    /// Starts at the ledger's last block, with the given id.
    fn at(ledger: Arc<Ledger>, id: Hash, store: Store) -> Self {
        let poh = Poh::default();
        let executor = Executor { store: store.clone(), ..Executor::default() };
        let position = Position::new(Arc::clone(&ledger), id, store.clone(), executor.clone(), Some(poh.clone()));
        let root = start(&ledger, id, &store, None).block.bank.id;
        Self { position, ledger, store, executor, poh, frozen: BTreeMap::from([(root.slot, root)]) }
    }

    fn outputs(&mut self) -> Vec<Output> {
        let outputs = self.position.outputs();
        for output in &outputs {
            if let Output::Tower(Event::Frozen(block)) = output {
                self.frozen.insert(block.bank.id.slot, block.bank.id);
            }
        }
        outputs
    }

    fn run(&mut self) -> Vec<Output> {
        self.try_run().expect("the node agrees with the cluster")
    }

    fn try_run(&mut self) -> Result<Vec<Output>, PositionError> {
        self.position.look();
        while self.position.turn()? {}
        Ok(self.outputs())
    }

    fn command(&mut self, command: Command) -> Vec<Output> {
        self.try_command(command).expect("it can be done")
    }

    /// Performs a command, including the re-executions that it needs.
    fn try_command(&mut self, command: Command) -> Result<Vec<Output>, PositionError> {
        self.position.command(command)?;
        while self.position.is_executing() && self.position.turn()? {}
        Ok(self.outputs())
    }

    fn head(&self) -> u64 {
        self.ledger.recent_blocks(1)[0].slot
    }

    /// The slots executed since the last call.
    fn executed(&self) -> Vec<u64> {
        std::mem::take(&mut self.executor.executed.borrow_mut())
    }

    /// Lets poh complete the slot that it has started, and stores its block.
    fn make(&mut self, slot: u64, parent: u64) {
        self.ledger.begin_slot(slot, parent).expect("the ledger is at the parent");
        self.ledger.end_slot(slot, block_id(slot, 9)).expect("it has begun");
        self.store.add(slot, parent, 9);
        self.poh.0.borrow_mut().making = None;
    }

    fn vote(&self, number: u8, slot: u64, bank_hash: Hash, version: u8) -> VoteTarget {
        VoteTarget { account: account(number), slot, bank_hash, block_id: block_id(slot, version) }
    }
}

fn frozen(outputs: &[Output]) -> Vec<(u64, u64)> {
    let of = |output: &Output| match output {
        Output::Tower(Event::Frozen(block)) => Some((block.bank.id.slot, block.bank.parent.slot)),
        _ => None,
    };
    outputs.iter().filter_map(of).collect()
}

fn has_died(outputs: &[Output], slot: u64) -> bool {
    outputs.iter().any(|output| matches!(output, Output::Tower(Event::Dead(dead)) if *dead == slot))
}

fn confirmed(outputs: &[Output]) -> Vec<u64> {
    let of = |output: &Output| if let Output::Confirmed(slot) = output { Some(*slot) } else { None };
    outputs.iter().filter_map(of).collect()
}

#[test]
fn start_has_all_vote_accounts_and_stakes() {
    let world = World::new();
    let start = start(&world.ledger, GENESIS_ID, &world.store, None);
    assert_eq!((start.block.bank.votes.len(), start.block.voters.len()), (4, 4));
    assert_eq!(start.block.voters[0], (account(0), node(0)));
    assert_eq!((start.epochs.len(), start.epochs[0].votes.len(), start.stored.len()), (2, 4, 0));
    assert_eq!((start.block.bank.id.slot, start.block.bank.block_id), (0, GENESIS_ID));
}

/// Makes a final block for each of these slots, one on top of the other.
fn extend(ledger: &Ledger, slots: &[u64]) {
    for slot in slots {
        let parent = ledger.recent_blocks(1)[0].slot;
        ledger.begin_slot(*slot, parent).expect("the ledger is at the parent");
        ledger.end_slot(*slot, block_id(*slot, 1)).expect("it has begun");
        assert!(ledger.mark_rooted(*slot));
    }
}

#[test]
fn restart_above_the_towers_root_has_all_ancestors() {
    let ledger = ledger();
    // More blocks than the ledger keeps of its fork; every third slot is empty.
    let slots: Vec<u64> = (1..900).filter(|slot| slot % 3 != 0).collect();
    extend(&ledger, &slots);
    let (oldest, last) = (ledger.line_from(0)[0], 899);
    assert!((50..last).contains(&oldest), "the line begins at {oldest}");
    let from = |first: u64| slots.iter().copied().filter(|slot| (first..last).contains(slot)).collect::<Vec<_>>();
    let ancestors = |rooted| start(&ledger, block_id(last, 1), &Store::default(), rooted).ancestors;
    assert_eq!(ancestors(Some(10)), from(10), "down to the tower's root, by the slot history");
    assert_eq!(ancestors(Some(12)), from(13), "a slot without a block is no ancestor");
    assert_eq!(ancestors(Some(oldest + 30)), from(oldest), "a root on the line needs no history");
    assert_eq!(ancestors(None), from(oldest));
}

#[test]
fn restart_executes_what_is_stored_above_its_root() {
    let mut world = World::new();
    for (slot, parent) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (7, 1)] {
        world.store.add(slot, parent, 1);
    }
    world.store.add_with(6, 5, 1, |block| block.is_whole = false);
    world.run();
    let before = world.frozen.clone();
    let root = world.frozen[&2];
    world.command(Command::Root(root));
    assert_eq!(world.head(), 2, "a restart has the ledger at the root");
    let store = world.store.clone();
    let start = start(&world.ledger, block_id(2, 1), &store, None);
    let stored: Vec<_> = start.stored.iter().map(|block| (block.slot, block.is_whole)).collect();
    assert_eq!(stored, [(3, true), (4, true), (5, true), (6, false), (7, true)], "tower hears of all of it");
    let mut again = World::at(Arc::clone(&world.ledger), block_id(2, 1), store);
    assert_eq!(frozen(&again.run()), [(3, 2), (5, 3), (4, 2)], "slot 7 is off the root");
    for slot in 3..=5 {
        assert_eq!(again.frozen[&slot], before[&slot], "it comes to the same bank");
    }
    again.store.0.borrow_mut().get_mut(&6).unwrap().is_whole = true;
    assert_eq!(frozen(&again.run()), [(6, 5)]);
}

#[test]
fn node_that_joins_executes_its_way_to_the_newest_block() {
    let ledger = ledger();
    extend(&ledger, &[1, 2, 3]);
    let mut world = World::at(ledger, block_id(3, 1), Store::default());
    let comes = |world: &World, slot: u64, parent: u64| {
        world.store.add_with(slot, parent, 1, |block| block.parent_id = block_id(parent, 1));
    };
    // The newest blocks arrive first. One is older than the snapshot, and one is on an abandoned fork.
    for (slot, parent) in [(9, 8), (7, 5), (2, 1), (4, 2)] {
        comes(&world, slot, parent);
    }
    let outputs = world.run();
    assert!(frozen(&outputs).is_empty() && !outputs.iter().any(|it| matches!(it, Output::Tower(Event::Dead(_)))));
    comes(&world, 5, 3);
    assert_eq!(frozen(&world.run()), [(5, 3), (7, 5)]);
    comes(&world, 8, 7);
    assert_eq!(frozen(&world.run()), [(8, 7), (9, 8)]);
    assert_eq!((world.executed(), world.head()), (vec![5, 7, 8, 9], 9), "each once");
}

#[test]
fn ledger_goes_from_fork_to_fork() {
    let mut world = World::new();
    world.store.add(1, 0, 1);
    world.store.add(2, 1, 1);
    world.store.add(4, 1, 1);
    let outputs = world.run();
    assert_eq!(frozen(&outputs), [(1, 0), (2, 1), (4, 1)]);
    let recorded = outputs.iter().filter(|output| matches!(output, Output::Record { .. })).count();
    assert_eq!((recorded, world.head(), world.position.count.forks_left), (3, 4, 1));
    assert_eq!(world.executed(), [1, 2, 4]);
    // A block on the abandoned fork.
    world.store.add(5, 2, 1);
    assert_eq!(frozen(&world.run()), [(5, 2)]);
    assert_eq!((world.executed(), world.head()), (vec![2, 5], 5), "slot 2 is executed again");
    assert_eq!((world.position.count.executed_blocks, world.position.count.executed_again_blocks), (4, 1));
    let hash = world.frozen[&5].hash;
    assert_eq!(world.ledger.bank_hash(5), Some(hash));
}

#[test]
fn block_on_the_head_comes_first() {
    let mut world = World::new();
    world.store.add(1, 0, 1);
    world.store.add(2, 1, 1);
    world.run();
    world.store.add(3, 1, 1);
    world.store.add(4, 2, 1);
    assert_eq!(frozen(&world.run()), [(4, 2), (3, 1)]);
}

#[test]
fn block_that_comes_to_another_hash_ends_the_node() {
    let mut world = World::new();
    for (slot, parent) in [(1, 0), (2, 1), (3, 1)] {
        world.store.add(slot, parent, 1);
    }
    world.run();
    *world.executor.is_unsteady.borrow_mut() = true;
    let parent = world.frozen[&2];
    let done = world.try_command(Command::Begin { slot: 8, parent });
    assert!(matches!(done, Err(PositionError::NotTheSame(2))));
}

#[test]
fn commands_wait_while_a_block_is_executed() {
    let mut world = World::new();
    for (slot, parent) in [(1, 0), (2, 1), (3, 1)] {
        world.store.add(slot, parent, 1);
    }
    world.run();
    let two = world.frozen[&2];
    world.store.add(4, 3, 1);
    *world.executor.is_held.borrow_mut() = true;
    assert!(frozen(&world.run()).is_empty() && world.position.is_executing());
    world.command(Command::Begin { slot: 8, parent: two });
    world.command(Command::Dump(1));
    assert!(world.poh.making().is_none() && world.head() == 3, "the block is not at its end");
    *world.executor.is_held.borrow_mut() = false;
    let outputs = world.run();
    assert_eq!(frozen(&outputs), [(4, 3)]);
    assert!(outputs.iter().any(|output| matches!(output, Output::Tower(Event::Retracted(8)))), "it came first");
    assert_eq!(world.head(), 0, "and what it was to be made on is dropped");
}

#[test]
fn way_to_another_fork_ends_where_it_was_to_go() {
    let mut world = World::new();
    for (slot, parent) in [(1, 0), (2, 1), (3, 2), (4, 1)] {
        world.store.add(slot, parent, 1);
    }
    world.run();
    world.executed();
    *world.executor.is_held.borrow_mut() = true;
    let parent = world.frozen[&3];
    world.command(Command::Begin { slot: 8, parent });
    assert_eq!((world.head(), world.poh.making()), (1, None), "the ledger is on its way");
    // Meanwhile the root moves to a block behind the ledger's target.
    let root = world.frozen[&1];
    world.command(Command::Root(root));
    assert_eq!(world.position.root, 1);
    *world.executor.is_held.borrow_mut() = false;
    world.run();
    assert_eq!((world.executed(), world.head(), world.poh.making()), (vec![2, 3], 3, Some(8)));
}

#[test]
fn block_that_is_void_meanwhile_is_not_dead() {
    let mut world = World::new();
    world.store.add(1, 0, 1);
    world.position.look();
    world.store.0.borrow_mut().remove(&1);
    while world.position.turn().unwrap() {}
    let outputs = world.outputs();
    assert!(!has_died(&outputs, 1) && frozen(&outputs).is_empty());
    assert!(outputs.iter().any(|output| matches!(output, Output::Tower(Event::Voided(1)))));
}

#[test]
fn version_that_is_here_in_part_is_not_executed() {
    let mut world = World::new();
    for (slot, parent) in [(1, 0), (2, 1), (3, 1)] {
        world.store.add(slot, parent, 1);
    }
    world.run();
    world.store.add(4, 2, 1);
    *world.executor.is_held.borrow_mut() = true;
    world.run();
    assert_eq!(world.head(), 1, "the ledger is on its way to slot 2");
    world.store.add_with(4, 2, 2, |block| block.is_whole = false);
    *world.executor.is_held.borrow_mut() = false;
    let outputs = world.run();
    assert!(frozen(&outputs).is_empty() && !has_died(&outputs, 4));
    world.store.add(4, 2, 2);
    assert_eq!(frozen(&world.run()), [(4, 2)]);
}

#[test]
fn dead_block_leaves_the_ledger_at_its_parent() {
    let mut world = World::new();
    world.store.add(1, 0, 1);
    world.store.add_with(2, 1, 1, |block| block.is_wrong = true);
    world.store.add(3, 2, 1);
    world.store.add(4, 1, 1);
    let outputs = world.run();
    assert!(has_died(&outputs, 2) && !has_died(&outputs, 3), "nothing is known of slot 3");
    assert_eq!((frozen(&outputs), world.head()), (vec![(1, 0), (4, 1)], 4));
    assert_eq!(world.position.count.dead_blocks, 1, "it is tried once");
    assert!(world.run().is_empty());
}

#[test]
fn block_on_another_version_of_its_parent_is_dead() {
    let mut world = World::new();
    world.store.add(1, 0, 1);
    world.store.add_with(2, 1, 1, |block| block.parent_id = block_id(1, 2));
    let outputs = world.run();
    assert!(has_died(&outputs, 2) && frozen(&outputs) == [(1, 0)]);
    // Other nodes' execution of this version says nothing against this node, which lacks the parent.
    for number in 0..3 {
        world.command(Command::Voted(world.vote(number, 2, [1; 32], 1)));
    }
}

#[test]
fn dropped_version_is_replaced_by_another() {
    let mut world = World::new();
    for (slot, parent) in [(1, 0), (2, 1), (3, 2)] {
        world.store.add(slot, parent, 1);
    }
    world.store.add_with(4, 3, 1, |block| block.is_wrong = true);
    world.run();
    let outputs = world.command(Command::Dump(2));
    assert!(outputs.iter().any(|output| matches!(output, Output::Dump(2))));
    assert!(matches!(outputs.last(), Some(Output::Tower(Event::Dumped(2)))));
    assert_eq!(world.head(), 1, "what was executed on it is undone");
    assert!(frozen(&world.run()).is_empty(), "the store still has the old one");
    world.executed();
    world.store.0.borrow_mut().clear();
    for (slot, parent) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
        world.store.add(slot, parent, if slot == 1 { 1 } else { 2 });
    }
    let old = world.frozen[&2];
    assert_eq!(frozen(&world.run()), [(2, 1), (3, 2), (4, 3)], "slot 4 is no longer dead");
    assert_ne!(world.frozen[&2], old);
}

#[test]
fn tower_hears_what_the_store_has() {
    let mut world = World::new();
    world.store.add_with(3, 1, 1, |block| block.is_whole = false);
    let first = StoredBlock { slot: 3, parent: 1, is_whole: false };
    assert_eq!(start(&world.ledger, GENESIS_ID, &world.store, None).stored, [first]);
    let stored = |outputs: &[Output]| {
        let of = |output: &Output| match output {
            Output::Tower(Event::Stored(block)) => Some((block.slot, block.parent, block.is_whole)),
            Output::Tower(Event::Voided(slot)) => Some((*slot, 0, false)),
            _ => None,
        };
        outputs.iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(stored(&world.run()), [(3, 1, false)]);
    assert!(stored(&world.run()).is_empty(), "once");
    world.store.add(3, 1, 1);
    world.store.add(5, 0, 1);
    let outputs = world.run();
    assert_eq!(stored(&outputs), [(3, 1, true), (5, 0, true)]);
    let backlog = |output: &Output| if let Output::Tower(Event::Backlog(is)) = output { Some(*is) } else { None };
    assert_eq!(outputs.iter().filter_map(backlog).collect::<Vec<_>>(), [true, false], "slot 5 was executed");
    world.store.0.borrow_mut().remove(&3);
    assert_eq!(stored(&world.run()), [(3, 0, false)]);
}

/// How many changes of stored slots each look reports until none is left, and the backlog reported by the last look.
fn changes_by_look(world: &mut World) -> (Vec<usize>, Option<bool>) {
    let mut looks = vec![];
    loop {
        world.position.look();
        let outputs = world.outputs();
        let is_change = |output: &&Output| matches!(output, Output::Tower(Event::Stored(_) | Event::Voided(_)));
        looks.push(outputs.iter().filter(is_change).count());
        let backlog = |output: &Output| if let Output::Tower(Event::Backlog(is)) = output { Some(*is) } else { None };
        let backlog = outputs.iter().find_map(backlog);
        if !world.position.is_behind() {
            return (looks, backlog);
        }
        assert_eq!(backlog, None, "more may come that is whole");
    }
}

#[test]
fn each_look_reports_a_bounded_number_of_slots() {
    let mut world = World::new();
    let count = 2 * CHANGES_PER_LOOK_MAX as u64 + 5;
    for slot in 2..2 + count {
        world.store.add_with(slot, 1, 1, |block| block.is_whole = false);
    }
    world.store.add(2 + count, 0, 1);
    assert_eq!(changes_by_look(&mut world), (vec![CHANGES_PER_LOOK_MAX, CHANGES_PER_LOOK_MAX, 6], Some(true)));
    assert_eq!(world.position.stored.len(), 2 * CHANGES_PER_LOOK_MAX + 6);
    assert_eq!(changes_by_look(&mut world), (vec![0], None));
    // All but the whole block are void, and one has changed.
    world.store.0.borrow_mut().retain(|slot, _| *slot == 2 || *slot == 2 + count);
    world.store.add_with(2, 0, 2, |block| block.is_whole = false);
    assert_eq!(changes_by_look(&mut world), (vec![CHANGES_PER_LOOK_MAX, CHANGES_PER_LOOK_MAX, 5], None));
    assert!(world.position.stored.iter().map(|info| info.slot).eq([2, 2 + count]));
}

#[test]
fn own_slot_is_made_on_its_parent_and_reported() {
    let mut world = World::new();
    for (slot, parent) in [(1, 0), (2, 1), (3, 1)] {
        world.store.add(slot, parent, 1);
    }
    world.run();
    let parent = world.frozen[&2];
    world.command(Command::BuildOn(parent));
    let expected = Parent { slot: 2, blockhash: block_id(2, 1), block_id: block_id(2, 1) };
    assert_eq!(world.poh.0.borrow().parent, Some(expected));
    world.command(Command::Begin { slot: 8, parent });
    assert_eq!((world.head(), world.poh.begins()), (2, 8));
    // Other nodes' blocks wait meanwhile, and so do commands that need the ledger.
    world.store.add(4, 3, 1);
    let on = world.frozen[&3];
    assert!(frozen(&world.run()).is_empty() && frozen(&world.command(Command::BuildOn(on))).is_empty());
    world.command(Command::Dump(1));
    assert_eq!(world.head(), 2, "the ledger is not touched");
    world.make(8, 2);
    let outputs = world.run();
    assert_eq!(frozen(&outputs)[0], (8, 2));
    assert_eq!(world.poh.0.borrow().parent.unwrap().slot, 3, "in order: first built on, then dropped");
    assert!(outputs.iter().any(|output| matches!(output, Output::Tower(Event::Dumped(1)))));
    assert_eq!(world.head(), 0, "all of it was on slot 1");
}

#[test]
fn own_slot_waits_for_its_block_on_disk() {
    let mut world = World::new();
    let parent = world.frozen[&0];
    world.command(Command::Begin { slot: 3, parent });
    world.poh.begins();
    world.make(3, 0);
    world.store.0.borrow_mut().get_mut(&3).unwrap().is_whole = false;
    assert!(frozen(&world.run()).is_empty());
    world.store.0.borrow_mut().get_mut(&3).unwrap().is_whole = true;
    assert_eq!(frozen(&world.run()), [(3, 0)]);
}

#[test]
fn slot_that_poh_has_not_begun_is_taken_back() {
    let mut world = World::new();
    world.store.add(1, 0, 1);
    world.run();
    let parent = world.frozen[&1];
    world.command(Command::Begin { slot: 8, parent });
    let outputs = world.command(Command::BuildOn(parent));
    assert!(matches!(outputs[..], [Output::Tower(Event::Retracted(8))]), "{outputs:?}");
    assert!(world.poh.making().is_none());
    world.store.add(2, 1, 1);
    assert_eq!(frozen(&world.run()), [(2, 1)]);
}

#[test]
fn a_third_of_the_stake_refutes_the_bank_hash() {
    let mut world = World::new();
    world.store.add(1, 0, 1);
    world.run();
    let ours = world.frozen[&1].hash;
    // Votes for another version of the block, and votes for the same hash, do not count.
    for number in 0..4 {
        world.command(Command::Voted(world.vote(number, 1, [1; 32], 2)));
        world.command(Command::Voted(world.vote(number, 1, ours, 1)));
    }
    world.command(Command::Voted(world.vote(0, 1, [1; 32], 1)));
    let vote = world.vote(1, 1, [1; 32], 1);
    let refuted = world.position.command(Command::Voted(vote));
    let Err(PositionError::Refuted { slot, theirs, ours: here }) = refuted else { panic!("{refuted:?}") };
    assert_eq!(slot, 1);
    assert_eq!(theirs, [1; 32]);
    assert_eq!(here, ours);
}

/// Consensus counts such votes, and would have the block dumped as another version.
#[test]
fn votes_far_ahead_refute_what_is_executed_later() {
    let mut world = World::new();
    for number in 0..2 {
        world.command(Command::Voted(world.vote(number, 40, [1; 32], 1)));
    }
    world.store.add(40, 0, 1);
    assert!(matches!(world.try_run(), Err(PositionError::Refuted { slot: 40, .. })));
}

#[test]
fn votes_in_blocks_refute_what_was_executed() {
    let mut world = World::new();
    world.store.add(1, 0, 1);
    let votes = [0, 1].map(|number| world.vote(number, 1, [1; 32], 1)).to_vec();
    world.store.add_with(2, 1, 1, |block| block.votes = votes);
    assert!(matches!(world.try_run(), Err(PositionError::Refuted { slot: 1, .. })));
}

#[test]
fn dead_block_that_others_executed_ends_the_node() {
    let mut world = World::new();
    world.store.add_with(1, 0, 1, |block| block.is_wrong = true);
    world.command(Command::Voted(world.vote(0, 1, [1; 32], 1)));
    assert!(has_died(&world.run(), 1), "a quarter of the stake may be wrong");
    let vote = world.vote(1, 1, [1; 32], 1);
    let refuted = world.position.command(Command::Voted(vote));
    assert!(matches!(refuted, Err(PositionError::RefutedDead { slot: 1, .. })), "{refuted:?}");
    // The votes may arrive first.
    let mut world = World::new();
    world.store.add_with(1, 0, 1, |block| block.is_wrong = true);
    for number in 0..2 {
        world.command(Command::Voted(world.vote(number, 1, [1; 32], 1)));
    }
    assert!(matches!(world.try_run(), Err(PositionError::RefutedDead { slot: 1, .. })));
}

#[test]
fn root_off_the_line_takes_the_ledger_there() {
    let mut world = World::new();
    for (slot, parent) in [(1, 0), (2, 1), (3, 1), (4, 3)] {
        world.store.add(slot, parent, 1);
    }
    world.run();
    assert_eq!(world.head(), 4);
    let root = world.frozen[&2];
    world.command(Command::Root(root));
    assert_eq!((world.head(), world.ledger.root()), (2, Some(0)), "two thirds have not rooted it");
    world.command(Command::Finalized(9));
    assert_eq!(world.ledger.root(), Some(2), "nothing above this node's root");
    // Blocks that do not descend from the root are removed.
    world.store.add(6, 4, 1);
    world.store.add(7, 2, 1);
    let outputs = world.run();
    assert_eq!(frozen(&outputs), [(7, 2)]);
    assert!(!outputs.iter().any(|output| matches!(output, Output::Tower(Event::Voided(_)))));
}

#[test]
fn root_off_the_line_waits_while_poh_has_the_ledger() {
    let mut world = World::new();
    for (slot, parent) in [(1, 0), (2, 0)] {
        world.store.add(slot, parent, 1);
    }
    world.run();
    let [root, parent] = [1, 2].map(|slot| world.frozen[&slot]);
    world.command(Command::Begin { slot: 8, parent });
    world.poh.begins();
    world.command(Command::Root(root));
    assert_eq!(world.head(), 2);
    world.make(8, 2);
    world.run();
    assert_eq!(world.head(), 1);
}

#[test]
fn block_is_confirmed_once_the_ledger_is_on_its_line() {
    let mut world = World::new();
    for (slot, parent) in [(1, 0), (2, 1), (3, 1)] {
        world.store.add(slot, parent, 1);
    }
    world.run();
    let [one, two] = [1, 2].map(|slot| world.frozen[&slot]);
    assert_eq!(confirmed(&world.command(Command::Confirmed(one))), [1]);
    assert!(confirmed(&world.command(Command::Confirmed(two))).is_empty(), "the ledger is at slot 3");
    world.store.add(4, 2, 1);
    let outputs = world.run();
    assert_eq!((confirmed(&outputs), world.position.count.confirmed_slot), (vec![2], 2));
    // The confirmation of another version of the block does not count.
    let other = BankId { slot: 4, hash: [9; 32] };
    assert!(confirmed(&world.command(Command::Confirmed(other))).is_empty());
}
