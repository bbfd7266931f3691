//! pack, compared with the scheduler that it drives.

use std::collections::VecDeque;
use std::hint::black_box;

use hearth_ledger::cost::Cost;
use hearth_pipeline::pack::{Candidate, Config, Limits, Pacing, Scheduler, SchedulerConfig};
use hearth_testkit::bench::{Bench, Unit};
use hearth_testkit::random::Random;
use hearth_wire::consts::Pubkey;
use hearth_wire::{AccountSet, Txn};
use hearth_workload::Work;
use hearth_workload::pack::{BANKS, FLIGHTS, Load, PENDING, ROUND, TAKEN, TRANSFERS, accounts};
use hearth_workload::synthetic::{MICROBLOCK, TRANSFER_SIZE, transfer};

pub fn transfers(bench: &Bench) {
    let (mut tile, mut bare) = (Load::new(), Bare::new());
    let name = "pack tile, independent, 4 K pending";
    bench.paired_with_floor(name, Unit::PerSecond, Some(1e6), None, || tile.round(), || bare.round());
}

/// The scheduler alone, with prepared candidates.
struct Bare {
    scheduler: Scheduler,
    keys: Vec<[Pubkey; 3]>,
    cost: u32,
    next: usize,
    tag: Random,
    flights: [VecDeque<(u64, usize)>; BANKS],
}

impl Bare {
    fn new() -> Self {
        let config = Config::default();
        let limits = Limits {
            block_cost: u64::MAX / 2,
            account_cost: u32::MAX / 2,
            block_bytes: u64::MAX / 2,
            block_growth: u64::MAX / 2,
            microblock_txns: MICROBLOCK,
            microblock_cost: u64::MAX / 2,
            microblock_bytes: 59_934,
        };
        let mut scheduler = Scheduler::new(SchedulerConfig {
            capacity: config.capacity,
            accounts: config.accounts,
            banks: BANKS,
            flights_per_bank: FLIGHTS as u32,
            limits,
            use_consumed_cus: true,
            pacing: Pacing::None,
            secret: 3,
        });
        scheduler.begin_slot(1, 0, 1, u64::MAX);
        let keys = (0..TRANSFERS).map(accounts).map(|(from, to)| [from, to, [0; 32]]).collect();
        let template = transfer(&[1; 32], &[2; 32], 1);
        let cost = Cost::estimate(&Txn::parse(template.bytes()).expect("a transfer"), None).total() as u32;
        let mut bare = Self { scheduler, keys, cost, next: 0, tag: Random(1), flights: Default::default() };
        for _ in 0..(PENDING + FLIGHTS * ROUND) / ROUND {
            bare.insert();
        }
        (0..FLIGHTS).for_each(|_| assert_eq!(bare.schedule(), ROUND as u64));
        bare
    }

    fn insert(&mut self) {
        let (mut writes, mut unlocked) = (AccountSet::default(), AccountSet::default());
        writes.insert(0);
        writes.insert(1);
        unlocked.insert(2);
        for _ in 0..ROUND {
            let tag = self.tag.word();
            let mut bytes = [0x5a; TRANSFER_SIZE];
            bytes[..8].copy_from_slice(&tag.to_le_bytes());
            let candidate = Candidate {
                bytes: &bytes,
                tag,
                reward: 2_500,
                cost: self.cost,
                growth: 0,
                expires_at: 150,
                origin_us: 0,
                loaded: None,
                keys: &self.keys[self.next],
                writes,
                unlocked,
            };
            self.scheduler.insert(&candidate).expect("there is room");
            self.next = (self.next + 1) % TRANSFERS;
        }
    }

    fn schedule(&mut self) -> u64 {
        let mut taken = 0;
        for (bank, flights) in self.flights.iter_mut().enumerate() {
            let made = self.scheduler.schedule(bank, 0, 4 * MICROBLOCK).expect("enough is pending");
            made.txns().for_each(|txn| {
                black_box(txn);
            });
            flights.push_back((made.id, made.txn_count()));
            taken += made.txn_count() as u64;
        }
        taken
    }

    fn round(&mut self) -> u64 {
        self.insert();
        for (bank, flights) in self.flights.iter_mut().enumerate() {
            let (id, count) = flights.pop_front().expect("each bank has microblocks under way");
            self.scheduler.complete(bank, 1, id, std::iter::repeat_n(TAKEN, count));
        }
        self.schedule()
    }
}
