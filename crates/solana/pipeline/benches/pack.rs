//! pack and dedup: how many transactions per second they carry on one core.
//!
//! reads   synthetic transfers of 215 bytes between random accounts
//! writes  one line per figure, next to its required minimum
//! memory  a pool of 65,536 transactions; 2^22 tags

use std::hint::black_box;

use hearth_pipeline::pack::{Candidate, Idle, Limits, Pacing, Scheduler, SchedulerConfig};
use hearth_pipeline::tag_cache::TagCache;
use hearth_testkit::bench::{Bench, Unit};
use hearth_testkit::random::Random;
use hearth_wire::AccountSet;
use hearth_wire::consts::Pubkey;
use hearth_wire::transfer::TRANSFER_SIZE;

const CAPACITY: usize = 1 << 16;
const BANKS: usize = 4;
/// Compute units reserved for a transfer; half of them are used.
const COST: u32 = 1_900;
const ROUND: usize = 1 << 14;

fn account(n: u64) -> Pubkey {
    Random(n).key()
}

fn scheduler() -> Scheduler {
    let limits = Limits {
        block_cost: u64::MAX / 2,
        account_cost: u32::MAX / 2,
        block_bytes: u64::MAX / 2,
        block_growth: u64::MAX / 2,
        microblock_txns: 64,
        microblock_cost: u64::MAX / 2,
        microblock_bytes: 59_934,
    };
    let mut scheduler = Scheduler::new(SchedulerConfig {
        capacity: CAPACITY,
        accounts: 4 * CAPACITY,
        banks: BANKS,
        flights_per_bank: 2,
        limits,
        use_consumed_cus: true,
        pacing: Pacing::None,
        secret: 3,
    });
    scheduler.begin_slot(1, 0, 1, u64::MAX);
    scheduler
}

/// Transfers: the payer and the receiver write, the system program needs no lock.
struct Transfers {
    keys: Vec<[Pubkey; 3]>,
    rewards: Vec<u64>,
    next: usize,
    tag: Random,
}

const SYSTEM_PROGRAM: Pubkey = [0; 32];

impl Transfers {
    /// Creates transfers whose payers and receivers come from `pick`, which gets a source of random words.
    fn new(count: usize, mut pick: impl FnMut(&mut Random) -> (u64, u64), random_rewards: bool) -> Self {
        let mut state = Random(7);
        let mut keys = || {
            let (from, to) = pick(&mut state);
            [account(from), account(to + (u64::from(from == to) << 60)), SYSTEM_PROGRAM]
        };
        let keys = (0..count).map(|_| keys()).collect();
        let mut state = Random(9);
        let mut reward = || if random_rewards { 2_500 + state.word() % 100_000 } else { 2_500 };
        let rewards = (0..count).map(|_| reward()).collect();
        Self { keys, rewards, next: 0, tag: Random(1) }
    }

    fn insert(&mut self, scheduler: &mut Scheduler) {
        self.insert_until(scheduler, 150);
    }

    fn insert_until(&mut self, scheduler: &mut Scheduler, expires_at: u64) {
        let mut writes = AccountSet::default();
        writes.insert(0);
        writes.insert(1);
        let mut unlocked = AccountSet::default();
        unlocked.insert(2);
        let tag = self.tag.word();
        let mut bytes = [0x5a; TRANSFER_SIZE];
        bytes[..8].copy_from_slice(&tag.to_le_bytes());
        let candidate = Candidate {
            bytes: &bytes,
            tag,
            reward: self.rewards[self.next],
            cost: COST,
            growth: 0,
            expires_at,
            origin_us: 0,
            loaded: None,
            keys: &self.keys[self.next],
            writes,
            unlocked,
        };
        scheduler.insert(&candidate).expect("there is room");
        self.next = (self.next + 1) % self.keys.len();
    }
}

/// Microblocks in flight at the banks: the bytes are copied out, as into a link.
struct Banks {
    /// Slot, id and number of transactions.
    flights: [std::collections::VecDeque<(u64, u64, usize)>; BANKS],
    bank: usize,
    link: Vec<u8>,
}

impl Banks {
    fn new() -> Self {
        Self { flights: Default::default(), bank: 0, link: Vec::with_capacity(60_000) }
    }

    /// Schedules one microblock for the next bank, which completes an older one if it has two.
    fn turn(&mut self, scheduler: &mut Scheduler) -> u64 {
        let bank = self.bank;
        self.bank = (bank + 1) % BANKS;
        if self.flights[bank].len() == 2 {
            self.complete(bank, scheduler);
        }
        match scheduler.schedule(bank, 0, 256) {
            Ok(made) => {
                self.link.clear();
                made.txns().for_each(|(_, bytes)| self.link.extend_from_slice(bytes));
                black_box(&self.link);
                self.flights[bank].push_back((made.slot, made.id, made.txn_count()));
                made.txn_count() as u64
            }
            Err(Idle::NothingReady) => {
                self.complete(bank, scheduler);
                0
            }
            Err(_) => 0,
        }
    }

    fn complete(&mut self, bank: usize, scheduler: &mut Scheduler) {
        if let Some((slot, id, txns)) = self.flights[bank].pop_front() {
            scheduler.complete(bank, slot, id, std::iter::repeat_n(COST / 2, txns));
        }
    }
}

/// Insert, schedule and complete, with about `depth` transactions pending at all times.
fn whole_way(transfers: &mut Transfers, depth: usize) -> impl FnMut() -> u64 {
    let (mut scheduler, mut banks) = (scheduler(), Banks::new());
    for _ in 0..depth {
        transfers.insert(&mut scheduler);
    }
    let mut slot = 1;
    move || {
        // One block per iteration: otherwise one hot account would reach its limit permanently.
        (0..2 * BANKS).for_each(|bank| banks.complete(bank % BANKS, &mut scheduler));
        scheduler.end_slot();
        slot += 1;
        scheduler.begin_slot(slot, 0, 1, u64::MAX);
        let mut done = 0;
        while done < ROUND as u64 {
            let scheduled = banks.turn(&mut scheduler);
            (0..scheduled).for_each(|_| transfers.insert(&mut scheduler));
            done += scheduled;
        }
        done
    }
}

/// Draws a number from 0 to `count` - 1 with odds of n about 1 / (n + 1).
fn zipf(state: &mut Random, count: u64) -> u64 {
    let uniform = (state.word() >> 11) as f64 / (1u64 << 53) as f64;
    ((count as f64).powf(uniform) - 1.0) as u64
}

/// Admission alone; the clock then expires everything.
fn insert_and_expire(bench: &Bench) {
    let mut transfers = Transfers::new(ROUND, |s| (s.word(), s.word()), true);
    let mut scheduler = scheduler();
    let mut time = 0;
    bench.run("pack insert and expire", Unit::PerSecond, None, || {
        (0..ROUND).for_each(|_| transfers.insert_until(&mut scheduler, time));
        time += 1;
        scheduler.expire(time, |_| None);
        assert_eq!(scheduler.pending(), 0);
        ROUND as u64
    });
}

/// The current memory latency of this machine: the figures below consist of such loads.
fn memory(bench: &Bench) {
    let words: Vec<u64> = (0..1 << 23).map(|n| n * 3).collect();
    let (mut state, mut last) = (Random(1), 0);
    bench.run("(memory: a random load after another, 64 MiB)", Unit::NanosPerItem, None, || {
        for _ in 0..ROUND {
            last = words[(state.word() ^ last) as usize % words.len()];
        }
        black_box(last);
        ROUND as u64
    });
}

fn dedup(bench: &Bench) {
    let mut cache = TagCache::new(1 << 22, 5).expect("a hundred megabytes");
    let mut state = Random(1);
    (0..1 << 22).for_each(|_| assert!(cache.insert(state.word())));
    bench.run("dedup insert, 2^22 tags", Unit::NanosPerItem, Some(80.0), || {
        (0..ROUND).for_each(|_| {
            black_box(cache.insert(state.word()));
        });
        ROUND as u64
    });
    bench.run("dedup insert, 2^22 tags, bursts of 32", Unit::NanosPerItem, Some(80.0), || {
        for _ in 0..ROUND / 32 {
            let tags: [u64; 32] = std::array::from_fn(|_| state.word());
            cache.prefetch(&tags);
            tags.iter().for_each(|tag| {
                black_box(cache.insert(*tag));
            });
        }
        ROUND as u64
    });
}

fn main() {
    let bench = Bench::from_args();
    memory(&bench);
    dedup(&bench);
    insert_and_expire(&bench);
    let independent = |s: &mut Random| (s.word(), s.word());
    for (name, depth, random_rewards) in [
        ("pack independent, equal pay, 4 K pending", 1 << 12, false),
        ("pack independent, 4 K pending", 1 << 12, true),
        ("pack independent, 60 K pending", 60 << 10, true),
    ] {
        let mut transfers = Transfers::new(2 * depth, independent, random_rewards);
        bench.run(name, Unit::PerSecond, Some(1e6), whole_way(&mut transfers, depth));
    }
    let contended = |s: &mut Random| (zipf(s, 100_000), zipf(s, 100_000));
    let mut transfers = Transfers::new(4 * CAPACITY, contended, true);
    bench.run("pack, hot accounts, 16 K pending", Unit::PerSecond, Some(0.6e6), whole_way(&mut transfers, 1 << 14));
    let one_hot = |s: &mut Random| (s.word(), 1);
    let mut transfers = Transfers::new(4 * CAPACITY, one_hot, true);
    bench.run("pack, all write one account, 16 K pending", Unit::PerSecond, None, whole_way(&mut transfers, 1 << 14));
}
