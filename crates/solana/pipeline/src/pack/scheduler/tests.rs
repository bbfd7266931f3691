//! The scheduler against its rules, checked from outside on everything that it schedules.

use std::collections::{BTreeMap, HashMap};

use hearth_wire::AccountSet;
use hearth_wire::consts::Pubkey;
use proptest::prelude::*;

use super::flights::{ENTRY_BYTES, MISFITS};
use super::*;
use crate::pack::accounts::NONE;
use crate::pack::pool::State;
use crate::pack::{Idle, Limits, Pacing};

fn config() -> SchedulerConfig {
    SchedulerConfig {
        capacity: 64,
        accounts: 256,
        banks: 2,
        flights_per_bank: 2,
        limits: Limits {
            block_cost: 1 << 40,
            account_cost: 1 << 30,
            block_bytes: 1 << 40,
            block_growth: 1 << 40,
            microblock_txns: 4,
            microblock_cost: 1 << 40,
            microblock_bytes: 60_000,
        },
        use_consumed_cus: true,
        pacing: Pacing::None,
        secret: 11,
    }
}

fn key(n: u16) -> Pubkey {
    let mut key = [0; 32];
    key[..2].copy_from_slice(&n.to_le_bytes());
    key
}

fn set(indexes: impl IntoIterator<Item = usize>) -> AccountSet {
    let mut set = AccountSet::default();
    indexes.into_iter().for_each(|index| set.insert(index as u8));
    set
}

/// Makes a small transaction that writes all its accounts.
fn plain<'a>(bytes: &'a [u8], tag: u64, reward: u64, keys: &'a [Pubkey]) -> Candidate<'a> {
    let (writes, unlocked) = (set(0..keys.len()), AccountSet::default());
    let (cost, growth, expires_at, origin_us, loaded) = (1000, 0, 9, 0, None);
    Candidate { bytes, tag, reward, cost, growth, expires_at, origin_us, loaded, keys, writes, unlocked }
}

#[derive(Clone, Debug)]
struct Spec {
    reward: u64,
    cost: u32,
    len: usize,
    growth: u32,
    expires_at: u64,
    locks: BTreeMap<u16, bool>,
}

impl Spec {
    fn new(reward: u64, locks: &[(u16, bool)]) -> Self {
        Self { reward, cost: 1000, len: 200, growth: 0, expires_at: 100, locks: locks.iter().copied().collect() }
    }

    fn conflicts(&self, other: &Self) -> bool {
        self.locks.iter().any(|(key, write)| other.locks.get(key).is_some_and(|theirs| *write || *theirs))
    }
}

/// A scheduler, and everything known about it from outside.
struct CheckedScheduler {
    scheduler: Scheduler,
    config: SchedulerConfig,
    pending: HashMap<u64, (Spec, u64)>,
    flights: Vec<Vec<(u64, u64, Vec<Spec>)>>,
    arrivals: u64,
    next_id: u64,
    slot: u64,
    block_cost: u64,
    block_bytes: u64,
    account_cost: HashMap<u16, u64>,
    time: u64,
}

impl CheckedScheduler {
    fn new(config: SchedulerConfig) -> Self {
        Self {
            scheduler: Scheduler::new(config),
            config,
            pending: HashMap::new(),
            flights: vec![vec![]; config.banks],
            arrivals: 0,
            next_id: 0,
            slot: 0,
            block_cost: 0,
            block_bytes: 0,
            account_cost: HashMap::new(),
            time: 0,
        }
    }

    fn begin(&mut self) {
        self.slot += 1;
        self.scheduler.begin_slot(self.slot, 0, 1000, u64::MAX);
        (self.next_id, self.block_cost, self.block_bytes) = (0, 0, 0);
        self.account_cost.clear();
    }

    /// Inserts a transaction; its bytes contain the tag, to identify it in a microblock.
    fn insert(&mut self, spec: Spec) -> Result<u64, RejectReason> {
        let tag = self.arrivals;
        self.arrivals += 1;
        let worst = self.pending.values().map(|(s, _)| pay_class(s.reward, s.cost)).min();
        let full = self.pending.len() == self.config.capacity;
        let result = self.insert_tagged(tag, &spec);
        if result.is_ok() {
            if full {
                let ours = pay_class(spec.reward, spec.cost);
                assert!(worst.unwrap() < ours, "evicts only what pays worse");
                self.forget_evicted(worst.unwrap());
            }
            self.pending.insert(tag, (spec, tag));
        }
        self.check();
        result.map(|()| tag)
    }

    fn insert_tagged(&mut self, tag: u64, spec: &Spec) -> Result<(), RejectReason> {
        let mut bytes = vec![0; spec.len];
        bytes[..8].copy_from_slice(&tag.to_le_bytes());
        let keys: Vec<_> = spec.locks.keys().map(|n| key(*n)).collect();
        let writes = set(spec.locks.values().enumerate().filter(|(_, write)| **write).map(|(index, _)| index));
        self.scheduler.insert(&Candidate {
            bytes: &bytes,
            tag,
            reward: spec.reward,
            cost: spec.cost,
            growth: spec.growth,
            expires_at: spec.expires_at,
            origin_us: 0,
            loaded: None,
            keys: &keys,
            writes,
            unlocked: AccountSet::default(),
        })
    }

    fn forget_evicted(&mut self, class: usize) {
        let of_class = self.pending.iter().filter(|(_, (s, _))| pay_class(s.reward, s.cost) == class);
        let newest = of_class.map(|(tag, _)| *tag).max().expect("one of the worst class was evicted");
        assert!(!self.scheduler.pool.contains(newest));
        self.pending.remove(&newest);
    }

    /// Schedules, and checks every rule for the microblock.
    fn schedule(&mut self, bank: usize, budget: usize) -> Result<Vec<u64>, Idle> {
        let scheduled = self.scheduler.schedule(bank, 0, budget);
        let made = match scheduled {
            Ok(made) => made,
            Err(idle) => {
                self.check();
                return Err(idle);
            }
        };
        assert_eq!((made.slot, made.id), (self.slot, self.next_id));
        self.next_id += 1;
        let tags: Vec<u64> = made.txns().map(|(_, b)| u64::from_le_bytes(*b.first_chunk().unwrap())).collect();
        let bytes: usize = made.txns().map(|(_, b)| b.len() + SchedulerConfig::TXN_HEADER).sum();
        assert!(!tags.is_empty() && tags.len() <= self.config.limits.microblock_txns);
        assert!(bytes <= self.config.limits.microblock_bytes);
        let mut microblock: Vec<Spec> = vec![];
        let mut cost = 0;
        for (tag, (reserved, bytes)) in tags.iter().zip(made.txns()) {
            let (spec, _) = self.pending.remove(tag).expect("scheduled once, and only what is pending");
            assert_eq!((spec.cost, spec.len), (reserved, bytes.len()));
            let flying = self.flights.iter().flatten().flat_map(|(_, _, specs)| specs);
            for other in flying.chain(&microblock) {
                assert!(!spec.conflicts(other), "{spec:?} conflicts with {other:?}");
            }
            for (account, _) in spec.locks.iter().filter(|(_, write)| **write) {
                let spent = self.account_cost.entry(*account).or_default();
                *spent += u64::from(spec.cost);
            }
            cost += u64::from(spec.cost);
            self.block_bytes += spec.len as u64;
            microblock.push(spec);
        }
        assert_eq!(made.cost, cost);
        self.block_cost += cost;
        self.block_bytes += ENTRY_BYTES;
        self.flights[bank].push((made.slot, made.id, microblock));
        self.check();
        Ok(tags)
    }

    /// Completes a bank's oldest microblock, with each transaction at `share` 256ths of its cost.
    fn complete(&mut self, bank: usize, share: u64) -> bool {
        if self.flights[bank].is_empty() {
            return false;
        }
        let (slot, id, specs) = self.flights[bank].remove(0);
        let took = |spec: &Spec| (u64::from(spec.cost) * share / 256) as u32;
        self.scheduler.complete(bank, slot, id, specs.iter().map(took));
        if slot == self.slot && self.config.use_consumed_cus {
            for spec in &specs {
                let unused = u64::from(spec.cost - took(spec));
                self.block_cost -= unused;
                for (account, _) in spec.locks.iter().filter(|(_, write)| **write) {
                    *self.account_cost.get_mut(account).unwrap() -= unused;
                }
            }
        }
        self.check();
        true
    }

    fn expire(&mut self, by: u64) {
        self.time += by;
        self.scheduler.expire(self.time, |_| None);
        self.pending.retain(|_, (spec, _)| spec.expires_at >= self.time);
        self.check();
    }

    fn check(&self) {
        let s = &self.scheduler;
        let counts = s.counts();
        assert_eq!(s.pending(), self.pending.len());
        assert_eq!(counts.offered, counts.scheduled + counts.dropped() + s.pending() as u64, "nothing is lost");
        let limits = self.config.limits;
        if let Some((cost, bytes)) = s.block() {
            assert_eq!((cost, bytes), (self.block_cost, self.block_bytes));
            assert!(cost <= limits.block_cost && bytes <= limits.block_bytes);
        }
        assert!(self.account_cost.values().all(|spent| *spent <= u64::from(limits.account_cost)));
        self.check_queues();
        let known: std::collections::BTreeSet<u16> = self
            .pending
            .values()
            .map(|(spec, _)| spec)
            .chain(self.flights.iter().flatten().flat_map(|(_, _, specs)| specs))
            .flat_map(|spec| spec.locks.keys().copied())
            .collect();
        assert_eq!(s.accounts(), known.len(), "accounts are known while somebody names them");
    }

    fn check_queues(&self) {
        let s = &self.scheduler;
        let mut standing = s.ready.len() + s.block_short.len() + s.account_short.len();
        for (tag, (spec, _)) in &self.pending {
            let slot = (0..self.config.capacity)
                .find(|at| s.pool.meta(*at).tag == *tag && s.pool.meta(*at).state != State::Vacant);
            let State::Waiting(id) = s.pool.meta(slot.expect("pending")).state else { continue };
            standing += 1;
            let account = s.accounts.get(id);
            assert!(account.queue != NONE, "{spec:?} waits in a queue");
            assert!(!account.is_free() || account.capped || account.delegate != NONE, "{spec:?} waits for nothing");
        }
        assert_eq!(standing, self.pending.len());
        let used = s.queues.len() - s.spare_queues.len();
        assert_eq!(used, s.queues.iter().filter(|q| !q.is_empty()).count());
    }

    /// Whether a pending transaction conflicts with nothing in flight and with no better one.
    fn is_entitled(&self, tag: u64) -> bool {
        let (spec, _) = &self.pending[&tag];
        let before = |a: u64, b: u64| {
            let entry = |tag: u64| Entry {
                reward: self.pending[&tag].0.reward,
                cost: self.pending[&tag].0.cost,
                seq: tag,
                slot: 0,
            };
            entry(a).before(&entry(b))
        };
        let mut flying = self.flights.iter().flatten().flat_map(|(_, _, specs)| specs);
        !flying.any(|other| spec.conflicts(other))
            && !self
                .pending
                .keys()
                .any(|other| *other != tag && before(*other, tag) && spec.conflicts(&self.pending[other].0))
    }
}

fn spec(accounts: u16) -> impl Strategy<Value = Spec> {
    let locks = prop::collection::btree_map(0..accounts, any::<bool>(), 1..4);
    (0u64..8, prop::sample::select(vec![500u32, 1000, 1000, 3000]), 8usize..400, 0u64..6, locks)
        .prop_map(|(reward, cost, len, expires_at, locks)| Spec { reward, cost, len, growth: 0, expires_at, locks })
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Spec),
    Schedule(usize, usize),
    Complete(usize, u64),
    Expire,
    Begin,
    End,
}

fn ops(accounts: u16, len: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => spec(accounts).prop_map(Op::Insert),
        5 => (0usize..2, 1usize..12).prop_map(|(bank, budget)| Op::Schedule(bank, budget)),
        4 => (0usize..2, 0u64..=256).prop_map(|(bank, share)| Op::Complete(bank, share)),
        1 => Just(Op::Expire),
        1 => Just(Op::Begin),
        1 => Just(Op::End),
    ];
    prop::collection::vec(op, 0..len)
}

fn run(config: SchedulerConfig, ops: Vec<Op>) -> CheckedScheduler {
    let mut watched = CheckedScheduler::new(config);
    watched.begin();
    for op in ops {
        match op {
            Op::Insert(mut spec) => {
                spec.expires_at += watched.time;
                let _ = watched.insert(spec);
            }
            Op::Schedule(bank, budget) => {
                let _ = watched.schedule(bank, budget);
            }
            Op::Complete(bank, share) => {
                watched.complete(bank, share);
            }
            Op::Expire => watched.expire(1),
            Op::Begin => watched.begin(),
            Op::End => {
                let ended = watched.scheduler.end_slot();
                assert!(ended.is_none_or(|(slot, count)| (slot, count) == (watched.slot, watched.next_id)));
            }
        }
    }
    watched
}

/// Everything left gets its turn once banks continue.
fn drain(watched: &mut CheckedScheduler) {
    watched.begin();
    for _ in 0..10_000 {
        let busy = watched.schedule(0, 8);
        if busy == Err(Idle::BlockFull) || (busy == Err(Idle::NothingReady) && watched.scheduler.ready() == 0) {
            let completed = watched.complete(0, 256) | watched.complete(1, 256);
            if watched.pending.is_empty() && !completed {
                return;
            }
            if !completed {
                watched.begin();
            }
        } else if busy == Err(Idle::BankBusy) {
            watched.complete(0, 256);
        }
    }
    panic!("{} transactions never get their turn", watched.pending.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Conflicts, limits, conservation and queues hold after every step.
    #[test]
    fn rules_hold(ops in ops(6, 250)) {
        let mut watched = run(config(), ops);
        drain(&mut watched);
    }

    /// The same with limits that always bind.
    #[test]
    fn rules_hold_at_the_limits(ops in ops(5, 250), use_consumed_cus: bool) {
        let limits = Limits {
            block_cost: 9_000,
            account_cost: 4_000,
            block_bytes: 3_000,
            block_growth: 1 << 40,
            microblock_txns: 3,
            microblock_cost: 2_500,
            microblock_bytes: TXN_BYTES + SchedulerConfig::TXN_HEADER + SchedulerConfig::LOADED_HEADER,
        };
        let mut watched = run(SchedulerConfig { limits, use_consumed_cus, capacity: 20, ..config() }, ops);
        drain(&mut watched);
    }

    /// A transaction that conflicts with nothing in flight and with no better one precedes all that pay worse: none is
    /// passed over.
    #[test]
    fn no_eligible_transaction_is_passed_over(ops in ops(6, 200)) {
        let mut watched = CheckedScheduler::new(config());
        watched.begin();
        for op in ops {
            match op {
                Op::Insert(mut spec) => {
                    spec.expires_at = 500;
                    let _ = watched.insert(spec);
                }
                Op::Schedule(bank, _) => {
                    let entitled: Vec<u64> =
                        watched.pending.keys().copied().filter(|tag| watched.is_entitled(*tag)).collect();
                    let specs = watched.pending.clone();
                    let Ok(tags) = watched.schedule(bank, usize::MAX) else { continue };
                    let entry = |tag: u64| {
                        let spec = &specs[&tag].0;
                        Entry { reward: spec.reward, cost: spec.cost, seq: tag, slot: 0 }
                    };
                    let last = entry(*tags.last().unwrap());
                    for tag in entitled {
                        let passed_over = !tags.contains(&tag) && entry(tag).before(&last);
                        prop_assert!(!passed_over, "{tag} {:?} by {tags:?}", specs[&tag]);
                    }
                    for pair in tags.windows(2) {
                        prop_assert!(entry(pair[0]).before(&entry(pair[1])), "best first");
                    }
                }
                Op::Complete(bank, share) => {
                    watched.complete(bank, share);
                }
                Op::Expire | Op::Begin | Op::End => {}
            }
        }
    }

    /// The same input yields the same microblocks, whatever the secret.
    #[test]
    fn order_does_not_depend_on_the_secret(specs in prop::collection::vec(spec(9), 0..60)) {
        let trace = |secret| {
            let mut watched = CheckedScheduler::new(SchedulerConfig { secret, ..config() });
            watched.begin();
            for spec in specs.clone() {
                let _ = watched.insert(spec);
            }
            let mut trace = vec![];
            while let Ok(tags) = watched.schedule(trace.len() % 2, usize::MAX) {
                trace.push(tags);
            }
            trace
        };
        prop_assert_eq!(trace(1), trace(2));
    }
}

#[test]
fn independent_transactions_go_by_reward_per_cost() {
    let mut w = CheckedScheduler::new(config());
    w.begin();
    let rewards = [5, 9, 1, 9, 7, 2, 8, 3];
    for (n, reward) in rewards.iter().enumerate() {
        w.insert(Spec::new(*reward, &[(n as u16, true), (99, false)])).unwrap();
    }
    assert_eq!(w.schedule(0, 100).unwrap(), [1, 3, 6, 4]);
    assert_eq!(w.schedule(1, 100).unwrap(), [0, 7, 5, 2]);
    assert_eq!(w.schedule(0, 100), Err(Idle::NothingReady));
}

#[test]
fn best_payer_runs_once_the_hot_account_is_free() {
    let mut w = CheckedScheduler::new(config());
    w.begin();
    let low = w.insert(Spec::new(1, &[(0, true)])).unwrap();
    assert_eq!(w.schedule(0, 100).unwrap(), [low]);
    let high = w.insert(Spec::new(90, &[(0, true), (1, true)])).unwrap();
    let other = w.insert(Spec::new(2, &[(2, true)])).unwrap();
    let late = w.insert(Spec::new(50, &[(0, true)])).unwrap();
    assert_eq!(w.schedule(1, 100).unwrap(), [other]);
    w.complete(0, 256);
    assert_eq!(w.schedule(0, 100).unwrap(), [high]);
    w.complete(0, 256);
    assert_eq!(w.schedule(0, 100).unwrap(), [late]);
}

#[test]
fn readers_run_together_and_do_not_starve_a_writer() {
    let mut w = CheckedScheduler::new(config());
    w.begin();
    let first = w.insert(Spec::new(3, &[(0, false), (1, true)])).unwrap();
    assert_eq!(w.schedule(0, 100).unwrap(), [first]);
    let writer = w.insert(Spec::new(5, &[(0, true)])).unwrap();
    for n in 2..6 {
        w.insert(Spec::new(4, &[(0, false), (n, true)])).unwrap();
    }
    let better = w.insert(Spec::new(9, &[(0, false), (9, true)])).unwrap();
    assert_eq!(w.schedule(1, 100).unwrap(), [better], "readers that pay less wait behind the writer");
    w.complete(0, 256);
    w.complete(1, 256);
    assert_eq!(w.schedule(0, 100).unwrap(), [writer]);
    w.complete(0, 256);
    assert_eq!(w.schedule(0, 100).unwrap().len(), 4, "then the readers run together");
}

#[test]
fn a_hundred_thousand_writers_of_one_account_are_not_quadratic() {
    let count = 100_000u64;
    let capacity = count as usize;
    let mut scheduler = Scheduler::new(SchedulerConfig { capacity, accounts: 2 * capacity, ..config() });
    scheduler.begin_slot(1, 0, 1, u64::MAX);
    let payer = |n: u64| {
        let mut key = [1; 32];
        key[8..16].copy_from_slice(&n.to_le_bytes());
        key
    };
    for n in 0..count {
        let tag = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Each later one pays better, so that each passes through the heap.
        scheduler.insert(&plain(&n.to_le_bytes(), tag, n, &[payer(n), key(0)])).unwrap();
    }
    let mut expected = count;
    for _ in 0..count {
        let made = loop {
            match scheduler.schedule(0, 0, 64) {
                Ok(made) => break made,
                Err(Idle::OutOfBudget) => {}
                Err(idle) => panic!("{idle:?}"),
            }
        };
        expected -= 1;
        let (slot, id) = (made.slot, made.id);
        assert_eq!(made.txns().map(|(_, b)| b.to_vec()).collect::<Vec<_>>(), [expected.to_le_bytes()]);
        scheduler.complete(0, slot, id, [1000].into_iter());
    }
    let counts = scheduler.counts();
    assert_eq!((counts.scheduled, scheduler.pending()), (count, 0));
    // Each is examined when it meets the lock and when its turn comes, and waits once.
    assert!(counts.looked_at <= 3 * count, "{} looks", counts.looked_at);
    assert!(counts.waited <= 2 * count, "{} waits", counts.waited);
}

#[test]
fn a_full_pool_evicts_the_worst() {
    let mut w = CheckedScheduler::new(SchedulerConfig { capacity: 3, ..config() });
    w.begin();
    for (n, reward) in [30, 10, 20].into_iter().enumerate() {
        w.insert(Spec::new(reward, &[(n as u16, true)])).unwrap();
    }
    assert_eq!(w.insert(Spec::new(10, &[(7, true)])), Err(RejectReason::PoolFull));
    w.insert(Spec::new(25, &[(8, true)])).unwrap();
    assert_eq!((w.scheduler.counts().pool_full, w.scheduler.counts().evicted), (1, 1));
    assert_eq!(w.schedule(0, 100).unwrap(), [0, 4, 2]);
}

#[test]
fn few_accounts_evict_the_worst_too() {
    let mut w = CheckedScheduler::new(SchedulerConfig { accounts: TXN_LOCKS, ..config() });
    w.begin();
    let wide = |from: u16, reward| Spec::new(reward, &(from..from + 60).map(|n| (n, true)).collect::<Vec<_>>());
    w.insert(wide(0, 5)).unwrap();
    w.insert(wide(100, 6)).unwrap();
    assert_eq!(w.insert(wide(200, 1)), Err(RejectReason::AccountsFull));
    w.insert_tagged(70, &wide(200, 9)).unwrap();
    assert_eq!((w.scheduler.counts().accounts_full, w.scheduler.counts().evicted), (1, 1));
}

#[test]
fn each_refusal_is_counted() {
    let mut w = CheckedScheduler::new(config());
    w.begin();
    w.expire(3);
    let good = Spec::new(5, &[(0, true)]);
    w.insert_tagged(7, &good).unwrap();
    assert_eq!(w.insert_tagged(7, &good), Err(RejectReason::Duplicate));
    assert_eq!(w.insert_tagged(8, &Spec { expires_at: 2, ..good.clone() }), Err(RejectReason::Expired));
    assert_eq!(w.insert_tagged(8, &Spec { cost: u32::MAX, ..good.clone() }), Err(RejectReason::TooCostly));
    assert_eq!(w.insert_tagged(8, &Spec { len: TXN_BYTES + 1, ..good.clone() }), Err(RejectReason::TooLong));
    assert_eq!(w.insert_tagged(8, &Spec { locks: BTreeMap::new(), ..good }), Err(RejectReason::TooManyAccounts));
    assert_eq!(w.scheduler.insert(&plain(&[0; 9], 8, 1, &[key(1), key(1)])), Err(RejectReason::AccountTwice));
    let c = *w.scheduler.counts();
    let refused = [c.duplicate, c.expired_on_arrival, c.too_costly, c.too_long, c.too_many_accounts, c.account_twice];
    assert_eq!(refused, [1; 6]);
    assert_eq!((c.offered, c.dropped(), w.scheduler.pending(), w.scheduler.accounts()), (7, 6, 1, 1));
}

#[test]
fn a_microblock_holds_no_more_bytes_than_it_may() {
    let limits = Limits { microblock_bytes: 2 * (1000 + SchedulerConfig::TXN_HEADER), ..config().limits };
    let mut w = CheckedScheduler::new(SchedulerConfig { limits, ..config() });
    w.begin();
    for n in 0..3 {
        w.insert(Spec { len: 1000, ..Spec::new(1, &[(n, true)]) }).unwrap();
    }
    assert_eq!(w.schedule(0, 100).unwrap(), [0, 1]);
    assert_eq!(w.schedule(0, 100).unwrap(), [2]);
}

#[test]
fn a_microblock_of_several_costs_no_more_than_it_may() {
    let limits = Limits { microblock_cost: 2_500, ..config().limits };
    let mut w = CheckedScheduler::new(SchedulerConfig { limits, ..config() });
    w.begin();
    for (n, cost) in [1000, 1000, 1000, 9000, 1000].into_iter().enumerate() {
        w.insert(Spec { cost, ..Spec::new(u64::from(cost), &[(n as u16, true)]) }).unwrap();
    }
    let made = [0, 1, 0, 1].map(|bank| w.schedule(bank, 100));
    assert_eq!(made, [Ok(vec![0, 1]), Ok(vec![2]), Ok(vec![3]), Ok(vec![4])]);
}

#[test]
fn accounts_grow_no_more_than_they_may_in_a_block() {
    let limits = Limits { block_growth: 20, ..config().limits };
    let mut w = CheckedScheduler::new(SchedulerConfig { limits, ..config() });
    w.begin();
    for (n, growth) in [12, 12, 8].into_iter().enumerate() {
        w.insert(Spec { growth, ..Spec::new(1, &[(n as u16, true)]) }).unwrap();
    }
    assert_eq!(w.schedule(0, 100).unwrap(), [0, 2]);
    assert_eq!(w.schedule(0, 100), Err(Idle::NothingReady));
    w.begin();
    assert_eq!(w.schedule(0, 100).unwrap(), [1]);
}

#[test]
fn unused_compute_comes_back_within_the_block_or_not() {
    for (use_consumed_cus, expected) in [(true, Ok(vec![2, 3])), (false, Err(Idle::NothingReady))] {
        let limits = Limits { block_cost: 2000, ..config().limits };
        let mut w = CheckedScheduler::new(SchedulerConfig { limits, use_consumed_cus, ..config() });
        w.begin();
        for n in 0..5 {
            w.insert(Spec::new(1, &[(n, true)])).unwrap();
        }
        assert_eq!(w.schedule(0, 100).unwrap(), [0, 1]);
        w.complete(0, 0);
        assert_eq!(w.schedule(0, 100), expected);
        w.begin();
        let rest = if use_consumed_cus { vec![4] } else { vec![2, 3] };
        assert_eq!(w.schedule(0, 100).unwrap(), rest);
    }
}

/// A hot account is charged what its own writers used, whichever transactions shared their microblock.
#[test]
fn a_hot_account_is_charged_what_its_writers_took() {
    let limits = Limits { account_cost: 2500, microblock_txns: 2, ..config().limits };
    let mut w = CheckedScheduler::new(SchedulerConfig { limits, ..config() });
    w.begin();
    let hot: Vec<u64> = (1..8).map(|n| w.insert(Spec::new(5, &[(0, true), (n, true)])).unwrap()).collect();
    // Each round one writer with 1000 reserved and 500 used: the limit of 2500 suffices for four, not only two.
    for (round, writer) in hot.iter().enumerate().take(4) {
        let other = w.insert(Spec::new(9, &[(100 + round as u16, true)])).unwrap();
        assert_eq!(w.schedule(0, 100).unwrap(), [other, *writer]);
        w.complete(0, 128);
    }
    assert_eq!(w.schedule(0, 100), Err(Idle::NothingReady));
    assert_eq!((w.account_cost[&0], w.scheduler.counts().put_off_account_limit), (2000, 3));
}

#[test]
fn a_block_that_nothing_fits_is_full() {
    let limits = Limits { block_cost: 1500, ..config().limits };
    let mut w = CheckedScheduler::new(SchedulerConfig { limits, capacity: 100, ..config() });
    w.begin();
    for n in 0..100 {
        w.insert(Spec::new(1, &[(n, true)])).unwrap();
    }
    assert_eq!(w.schedule(0, usize::MAX).unwrap(), [0]);
    assert_eq!(w.schedule(1, usize::MAX), Err(Idle::BlockFull));
    assert!(w.scheduler.counts().looked_at <= 1 + u64::from(MISFITS), "it does not look at all of them");
    w.complete(0, 0);
    assert_eq!(w.schedule(1, usize::MAX).unwrap(), [1], "there is room again");
}

#[test]
fn writers_of_a_spent_account_wait_for_the_next_block_and_readers_do_not() {
    let limits = Limits { account_cost: 3000, ..config().limits };
    let mut w = CheckedScheduler::new(SchedulerConfig { limits, use_consumed_cus: false, ..config() });
    w.begin();
    for n in 1..8 {
        w.insert(Spec::new(5, &[(0, true), (n, true)])).unwrap();
    }
    for round in 0..3 {
        assert_eq!(w.schedule(0, 100).unwrap(), [round]);
        w.complete(0, 256);
    }
    assert_eq!(w.schedule(0, 100), Err(Idle::NothingReady));
    let reader = w.insert(Spec::new(1, &[(0, false)])).unwrap();
    assert_eq!(w.schedule(0, 100).unwrap(), [reader]);
    w.complete(0, 256);
    assert_eq!(w.scheduler.counts().put_off_account_limit, 1, "the others wait behind the first");
    w.begin();
    assert_eq!(w.schedule(0, 100).unwrap(), [3]);
}

#[test]
fn microblocks_are_no_more_than_poh_can_mix_in() {
    let mut w = CheckedScheduler::new(config());
    w.begin();
    w.scheduler.begin_slot(1, 0, 1, 1);
    for n in 0..5 {
        w.insert(Spec::new(1, &[(n, true)])).unwrap();
    }
    assert_eq!(w.schedule(0, 100).unwrap().len(), 4);
    assert_eq!(w.schedule(1, 100), Err(Idle::BlockFull));
    assert_eq!(w.scheduler.end_slot(), Some((1, 1)));
    assert_eq!(w.schedule(1, 100), Err(Idle::NoSlot));
}

#[test]
fn even_pacing_fills_the_block_by_its_end() {
    let limits = Limits { block_cost: 8000, ..config().limits };
    let mut scheduler = Scheduler::new(SchedulerConfig { limits, pacing: Pacing::Even, ..config() });
    scheduler.begin_slot(1, 1_000, 9_000, u64::MAX);
    for n in 0..8u64 {
        scheduler.insert(&plain(&[0; 9], n, 1, &[key(n as u16)])).unwrap();
    }
    assert_eq!(scheduler.schedule(0, 1_000, 100).unwrap().txn_count(), 4);
    assert_eq!(scheduler.schedule(1, 4_999, 100).unwrap_err(), Idle::Paced { until_ns: 5_000 });
    assert_eq!(scheduler.schedule(1, 5_000, 100).unwrap().txn_count(), 4);
    assert_eq!(scheduler.block().unwrap().0, 8000);
}

#[test]
fn expiry_reaches_transactions_wherever_they_stand() {
    let mut w = CheckedScheduler::new(config());
    w.begin();
    for (n, expires_at) in [(0, 9), (0, 4), (0, 5), (1, 4), (1, 6)] {
        w.insert(Spec { expires_at, ..Spec::new(1, &[(n, true)]) }).unwrap();
    }
    assert_eq!(w.schedule(0, 100).unwrap(), [0, 3]);
    w.expire(5);
    assert_eq!(w.scheduler.counts().expired, 1);
    w.complete(0, 256);
    w.expire(EXPIRY_SPAN * 3);
    assert_eq!((w.scheduler.counts().expired, w.scheduler.pending(), w.scheduler.accounts()), (3, 0, 0));
}

#[test]
fn read_only_accounts_need_no_lock() {
    let mut w = CheckedScheduler::new(config());
    w.begin();
    for n in 0..2 {
        let keys = [key(n), key(9)];
        let candidate = Candidate { unlocked: set([1]), writes: set([0]), ..plain(&[0; 9], n.into(), 1, &keys) };
        w.scheduler.insert(&candidate).unwrap();
    }
    assert_eq!(w.scheduler.accounts(), 2);
    assert_eq!(w.scheduler.schedule(0, 0, 100).unwrap().txn_count(), 2);
}
