//! Our side: microblocks through a bank, on one thread or two.

use std::sync::{Arc, Barrier};
use std::time::Instant;

use hearth_ledger::bank::Outcome;
use hearth_ledger::{Bank, Executor, Genesis, GenesisConfig, Ledger, LedgerConfig};
use hearth_svm::Svm;
use hearth_wire::Txn;

use crate::load::{self, Kind, MICROBLOCK, PAIRS};
use crate::raw::Raw;

/// Microblocks of a thread per block.
const BLOCK: usize = 64;
/// Rounds of the two-thread measurement.
const ROUNDS: usize = 15;
/// Blocks whose transactions one round of a measurement executes.
const BLOCKS_A_ROUND: usize = 4;

/// A chain, a bank, and the transactions that each thread will run.
pub struct OurBank {
    kind: Kind,
    ledger: Arc<Ledger>,
    bank: Arc<Bank>,
    lanes: Vec<Lane>,
}

/// The account pairs, executor and prepared microblocks of one thread.
struct Lane {
    first_pair: u64,
    executor: Executor,
    outcomes: Vec<Outcome>,
    ready: Vec<Vec<Vec<u8>>>,
    turn: u64,
}

impl OurBank {
    pub fn new(kind: Kind, threads: u64) -> Self {
        let config = GenesisConfig {
            fund_initial_accounts: 0,
            extra_accounts: hearth_svm::programs::genesis_accounts(),
            ..GenesisConfig::development([1; 32], [2; 32], 0)
        };
        let genesis = Genesis::create(config, |_| {}).expect("a chain");
        // The bank hash is measured elsewhere.
        let config = LedgerConfig { general: Box::new(Svm::new()), hash_accounts: false, ..LedgerConfig::default() };
        let ledger = Ledger::new(&genesis, config);
        let lane = |n| Lane {
            first_pair: n * PAIRS as u64,
            executor: Executor::without_fast_path(),
            outcomes: vec![],
            ready: vec![],
            turn: 0,
        };
        let lanes: Vec<_> = (0..threads).map(lane).collect();
        for lane in &lanes {
            for (key, account) in load::accounts(kind, lane.first_pair) {
                ledger.accounts().store(&key, account);
            }
        }
        let bank = ledger.begin_slot(1, 0).expect("the first slot");
        let mut ours = Self { kind, ledger, bank, lanes };
        ours.prepare();
        ours
    }

    /// Ends the block and prepares the transactions of the next.
    fn next_block(&mut self) {
        let slot = self.bank.slot();
        self.ledger.end_slot(slot, load::address(u64::MAX / 4 - slot)).expect("the slot ends");
        self.bank = self.ledger.begin_slot(slot + 1, slot).expect("the next slot");
        self.prepare();
    }

    fn prepare(&mut self) {
        let (kind, blockhash) = (self.kind, *self.bank.parent_blockhash());
        for lane in &mut self.lanes {
            lane.ready.clear();
            for microblock in 0..BLOCK {
                lane.turn += u64::from((microblock * MICROBLOCK).is_multiple_of(PAIRS));
                let first = lane.first_pair + (microblock * MICROBLOCK % PAIRS) as u64;
                let pairs = first..first + MICROBLOCK as u64;
                lane.ready.push(pairs.map(|n| load::bytes(kind, n, lane.turn, &blockhash)).collect());
            }
        }
        // The first transaction in a slot reads the sysvars; a block has thousands of transactions, a round here few.
        for lane in 0..self.lanes.len() {
            self.lanes[lane].run(&self.bank);
        }
    }
}

impl Lane {
    fn run(&mut self, bank: &Bank) -> u64 {
        let bytes = self.ready.pop().expect("a microblock is ready");
        let txns: Vec<_> = bytes.iter().map(|bytes| Txn::parse(bytes).expect("a transaction")).collect();
        bank.execute(&mut self.executor, &txns, &mut self.outcomes);
        let good = |outcome: &Outcome| matches!(outcome, Outcome::Committed(landed) if landed.err.is_none());
        assert!(self.outcomes.iter().all(good), "{:?}", self.outcomes[0]);
        txns.len() as u64
    }
}

/// Processor time of this thread in nanoseconds.
fn processor_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

/// Processor and wall time of a transaction in nanoseconds with `threads` threads.
fn cost(ours: &mut OurBank, threads: usize) -> (f64, f64) {
    let (mut busy, mut wall, mut done) = (0, 0, 0);
    for _ in 0..BLOCKS_A_ROUND {
        ours.next_block();
        let (bank, start) = (&ours.bank, &Barrier::new(threads));
        let run = |lane: &mut Lane| {
            start.wait();
            let (busy, wall) = (processor_nanos(), Instant::now());
            let mut done = 0;
            while !lane.ready.is_empty() {
                done += lane.run(bank);
            }
            (processor_nanos() - busy, wall.elapsed().as_nanos() as u64, done)
        };
        let parts: Vec<(u64, u64, u64)> = std::thread::scope(|scope| {
            let lanes = ours.lanes[..threads].iter_mut();
            let running: Vec<_> = lanes.map(|lane| scope.spawn(move || run(lane))).collect();
            running.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
        });
        busy += parts.iter().map(|part| part.0).sum::<u64>();
        wall += parts.iter().map(|part| part.1).max().unwrap_or(0);
        done += parts.iter().map(|part| part.2).sum::<u64>();
    }
    (busy as f64 / done as f64, wall as f64 / done as f64)
}

/// Processor time of a transaction in the bare engine, in nanoseconds.
fn raw_cost(raw: &mut Raw) -> f64 {
    let busy = processor_nanos();
    let done: u64 = (0..BLOCK * BLOCKS_A_ROUND).map(|_| raw.batch()).sum();
    (processor_nanos() - busy) as f64 / done as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Compares our side with the bare engine, on one thread, by processor time.
pub fn beside_raw(name: &str, kind: Kind, goal: f64) {
    let (mut ours, mut raw) = (OurBank::new(kind, 1), Raw::new(kind));
    let (mut us, mut it, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let (a, b) = (cost(&mut ours, 1).0, raw_cost(&mut raw));
        us.push(a);
        it.push(b);
        ratios.push(b / a);
    }
    let (us, it, ratio) = (median(&mut us), median(&mut it), median(&mut ratios));
    println!("{name:<30} {ratio:>6.2}× of the engine's rate: {us:.0} ns, it {it:.0} ns   goal {goal:.2}×");
}

/// Compares two threads with one, by processor time and by wall time.
pub fn scaling(name: &str, kind: Kind) {
    let mut ours = OurBank::new(kind, 2);
    let (mut by_processor, mut by_wall) = (vec![], vec![]);
    cost(&mut ours, 2);
    for _ in 0..ROUNDS {
        let (one, two) = (cost(&mut ours, 1), cost(&mut ours, 2));
        by_processor.push(2.0 * one.0 / two.0);
        by_wall.push(one.1 / two.1);
    }
    let (processor, wall) = (median(&mut by_processor), median(&mut by_wall));
    println!("{name:<30} {processor:>6.2}× by processor time, {wall:.2}× by wall time   goal 1.80×");
}
