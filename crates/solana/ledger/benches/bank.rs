//! Benchmarks the bank and its parts on one thread: transfers per second, and nanoseconds per table operation.
//!
//! reads   the name filter; `HEARTH_ACCOUNTS=N` adds a comparison of N accounts with a small store
//! writes  one line per figure
//! memory  about 300 MB, and 350 B for each of `HEARTH_ACCOUNTS`
//! source  floor: 400 K simple transfers per second, including the checks of blockhash and status

use std::hint::black_box;
use std::sync::Arc;

use hearth_ledger::status_cache::LandedStatus;
use hearth_ledger::{Account, Accounts, Bank, Executor, Forks, Ledger, LedgerConfig, Outcome};
use hearth_ledger::{StatusCache, StatusCacheConfig, builders};
use hearth_testkit::bench::{Bench, Unit};
use hearth_testkit::random::Random;
use hearth_wire::{Hash, Pubkey, TransferTemplate, Txn};

/// Transactions per microblock. 300 blocks hold a million transactions, the default capacity of the status cache.
const MICROBLOCK: usize = 64;
const BLOCK: usize = 50 * MICROBLOCK;
/// Accounts of the small store in the comparison.
const FEW: usize = 10_000;

fn address(n: usize) -> Pubkey {
    Random(n as u64).key()
}

/// Generates transfers between random accounts for each microblock.
struct Load {
    accounts: Vec<Pubkey>,
    templates: Vec<TransferTemplate>,
    random: Random,
    made: u64,
}

impl Load {
    fn new(accounts: usize) -> Self {
        let accounts = (0..accounts).map(address).collect();
        Self { accounts, templates: vec![TransferTemplate::new(); MICROBLOCK], random: Random(7), made: 0 }
    }

    fn microblock(&mut self, blockhash: &Hash) -> Vec<Txn<'_>> {
        for template in &mut self.templates {
            let random = self.random.word();
            let from = random as usize % self.accounts.len();
            let to = (from + 1 + (random >> 32) as usize % (self.accounts.len() - 1)) % self.accounts.len();
            self.made += 1;
            template.set_from(&self.accounts[from]);
            template.set_to(&self.accounts[to]);
            template.set_lamports(self.made);
            template.set_recent_blockhash(blockhash);
            template.set_signature(&signature(self.made));
        }
        self.templates.iter().map(|template| Txn::parse(template.bytes()).expect("a transfer")).collect()
    }
}

fn signature(n: u64) -> [u8; 64] {
    let mut signature = [0; 64];
    let mut random = Random(n);
    signature.as_chunks_mut().0.iter_mut().for_each(|word| *word = random.word().to_le_bytes());
    signature
}

fn ledger(load: &Load, hash_accounts: bool, forks: Option<Forks>) -> Arc<Ledger> {
    let ledger = Ledger::new(&builders::genesis(0), LedgerConfig { hash_accounts, forks, ..LedgerConfig::default() });
    load.accounts.iter().for_each(|key| ledger.accounts().store(key, Account::wallet(1 << 50)));
    ledger
}

/// Executes microblock after microblock, block after block. Accounts are not hashed: see [`bank_hash`].
struct Transfers {
    load: Load,
    ledger: Arc<Ledger>,
    bank: Arc<Bank>,
    executor: Executor,
    outcomes: Vec<Outcome>,
    in_block: usize,
}

impl Transfers {
    fn among(accounts: usize) -> Self {
        Self::with_forks(accounts, None)
    }

    fn with_forks(accounts: usize, forks: Option<Forks>) -> Self {
        let load = Load::new(accounts);
        let ledger = ledger(&load, false, forks);
        let bank = ledger.begin_slot(1, 0).expect("the first slot");
        Self { load, ledger, bank, executor: Executor::new(), outcomes: vec![], in_block: 0 }
    }

    fn microblock(&mut self) -> u64 {
        if self.in_block == BLOCK {
            let slot = self.bank.slot();
            self.ledger.end_slot(slot, address(slot as usize)).expect("the slot ends");
            // As consensus would, 32 blocks later.
            if self.ledger.keeps_forks() && slot > 32 {
                assert!(self.ledger.mark_stored(slot - 32) && self.ledger.mark_rooted(slot - 32));
            }
            self.bank = self.ledger.begin_slot(slot + 1, slot).expect("the next slot");
            self.in_block = 0;
        }
        let txns = self.load.microblock(self.bank.parent_blockhash());
        self.bank.execute(&mut self.executor, &txns, &mut self.outcomes);
        assert!(self.outcomes.iter().all(Outcome::is_committed), "every transfer lands");
        self.in_block += MICROBLOCK;
        MICROBLOCK as u64
    }
}

fn bank_transfers(bench: &Bench, name: &str, accounts: usize, floor: Option<f64>) {
    let mut transfers = Transfers::among(accounts);
    bench.run(name, Unit::PerSecond, floor, || transfers.microblock());
}

/// Compares a bank and a bare lookup among `count` accounts with the same among 10,000, in alternating rounds.
fn many_accounts(bench: &Bench, count: usize) {
    let (mut many, mut few) = (Transfers::among(count), Transfers::among(FEW));
    let name = format!("bank: transfers, {count} accounts");
    bench.paired(&name, Unit::PerSecond, Some(0.5), || many.microblock(), || few.microblock());
    let look_up = |transfers: &Transfers, random: &mut Random| {
        for _ in 0..MICROBLOCK {
            let key = &transfers.load.accounts[random.index(transfers.load.accounts.len())];
            black_box(transfers.ledger.accounts().load(key));
        }
        MICROBLOCK as u64
    };
    let (mut one, mut other) = (Random(1), Random(2));
    let name = format!("accounts: load, {count} accounts");
    bench.paired(&name, Unit::NanosPerItem, None, || look_up(&many, &mut one), || look_up(&few, &mut other));
}

fn status_cache(bench: &Bench) {
    let cache = StatusCache::new(&StatusCacheConfig::default());
    let mut load = Load::new(1024);
    let mut made = 0u64;
    bench.run("status cache: claim and record", Unit::NanosPerItem, None, || {
        let txns = load.microblock(&[3; 32]);
        let height = 1 + made / BLOCK as u64;
        for txn in &txns {
            assert!(cache.claim(cache.expect(txn), height - 1, height).is_some());
            cache.record(txn.first_signature(), LandedStatus { slot: height, result: Ok(()) }, height);
        }
        made += MICROBLOCK as u64;
        MICROBLOCK as u64
    });
}

fn account_store(bench: &Bench) {
    let keys: Vec<Pubkey> = (0..32_768).map(address).collect();
    let accounts = Accounts::new();
    keys.iter().for_each(|key| accounts.store(key, Account::wallet(1)));
    let mut state = Random(1);
    let mut random = || &keys[state.index(32_768)];
    bench.run("accounts: load, 32,768 accounts", Unit::NanosPerItem, None, || {
        (0..MICROBLOCK).for_each(|_| drop(black_box(accounts.load(random()))));
        MICROBLOCK as u64
    });
    let mut state = Random(2);
    let mut random = || &keys[state.index(32_768)];
    bench.run("accounts: store, 32,768 accounts", Unit::NanosPerItem, None, || {
        (0..MICROBLOCK).for_each(|n| accounts.store(random(), Account::wallet(1 + n as u64)));
        MICROBLOCK as u64
    });
}

/// The time to hash a bank per account that its slot changed, including the share of the sysvars.
fn bank_hash(bench: &Bench, name: &str, changed: usize) {
    let load = Load::new(changed);
    let ledger = ledger(&load, true, None);
    let mut slot = 0;
    bench.run(name, Unit::NanosPerItem, None, || {
        ledger.begin_slot(slot + 1, slot).expect("the next slot");
        slot += 1;
        load.accounts.iter().for_each(|key| ledger.accounts().store(key, Account::wallet((1 << 50) + slot)));
        ledger.end_slot(slot, address(slot as usize)).expect("the slot ends");
        ledger.hash_all();
        changed as u64
    });
}

/// Compares blocks that are made, hashed and undone with blocks that are only made and hashed, per changed account.
fn going_back(bench: &Bench, name: &str, changed: usize) {
    let load = Load::new(changed);
    let ledgers = [(); 2].map(|()| ledger(&load, true, Some(Forks::default())));
    let load = &load;
    let make = |ledger: &Ledger, parent: u64, slot: u64| {
        ledger.begin_slot(slot, parent).expect("the next slot");
        load.accounts.iter().for_each(|key| ledger.accounts().store(key, Account::wallet((1 << 50) + slot)));
        ledger.end_slot(slot, address(slot as usize)).expect("the slot ends");
        ledger.hash_all();
        changed as u64
    };
    ledgers.iter().for_each(|ledger| {
        make(ledger, 0, 1);
        assert!(ledger.mark_stored(1) && ledger.mark_rooted(1));
    });
    let (mut undone, mut kept) = (1, 1);
    let there_and_back = || {
        undone += 1;
        let made = make(&ledgers[0], 1, undone);
        ledgers[0].rewind(1).expect("it is the root");
        made
    };
    let there = || {
        kept += 1;
        let made = make(&ledgers[1], kept - 1, kept);
        assert!(ledgers[1].mark_stored(kept) && ledgers[1].mark_rooted(kept));
        made
    };
    bench.paired(name, Unit::NanosPerItem, None, there_and_back, there);
}

/// Compares transfers in blocks that can be undone with transfers in blocks that cannot.
fn with_forks(bench: &Bench, name: &str, accounts: usize) {
    let mut kept = Transfers::with_forks(accounts, Some(Forks::default()));
    let mut off = Transfers::among(accounts);
    bench.paired(name, Unit::PerSecond, None, || kept.microblock(), || off.microblock());
}

fn main() {
    let bench = Bench::from_args();
    bank_transfers(&bench, "bank: transfers, 1,024 accounts", 1024, Some(400e3));
    bank_transfers(&bench, "bank: transfers, 32,768 accounts", 32_768, Some(400e3));
    let mut load = Load::new(32_768);
    bench.run("  of which making and parsing them", Unit::PerSecond, None, || {
        black_box(load.microblock(&[3; 32])).len() as u64
    });
    bank_hash(&bench, "bank hash: slots that change 16 accounts", 16);
    bank_hash(&bench, "bank hash: slots that change 32,768", 32_768);
    with_forks(&bench, "forks: transfers, 32,768 accounts", 32_768);
    going_back(&bench, "forks: there and back, 16 accounts", 16);
    going_back(&bench, "forks: there and back, 32,768", 32_768);
    status_cache(&bench);
    account_store(&bench);
    if let Ok(text) = std::env::var("HEARTH_ACCOUNTS") {
        many_accounts(&bench, text.parse().expect("a number"));
    }
}
