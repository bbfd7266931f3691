//! pack: transfers in, microblocks out, each completed once the banks have all that they may have.

use std::collections::VecDeque;
use std::hint::black_box;

use hearth_ledger::BlockLimits;
use hearth_ledger::cost::Cost;
use hearth_pipeline::links::{
    BANK_PACK, COMPLETION_MTU, Completion, DEDUP_PACK, LeaderSlot, Microblock, PACK_BANK, PACK_POH, POH_PACK,
};
use hearth_pipeline::pack::{Candidate, Config, Limits, Pacing, Pack, Scheduler, SchedulerConfig};
use hearth_testkit::bench::{Bench, Unit};
use hearth_testkit::random::Random;
use hearth_tile::rig::Rig;
use hearth_wire::consts::Pubkey;
use hearth_wire::{AccountSet, Txn};

use crate::load::{MICROBLOCK, TRANSFER_SIZE, bytes, transfer};

const BANKS: usize = 2;
/// Microblocks that a bank has at a time, as the tile has it.
const FLIGHTS: usize = 8;
/// Transfers pending all the time, those in flight not counted.
const PENDING: usize = 1 << 12;
/// Different transfers, in turn: many more than are pending and in flight.
const TRANSFERS: usize = 1 << 14;
/// Transfers of a round: a microblock for each bank.
const ROUND: usize = BANKS * MICROBLOCK;
/// Compute units that a transfer really takes.
const TAKEN: u32 = 1_481;
const LIFTED: u64 = u32::MAX as u64;

pub fn transfers(bench: &Bench) {
    let (mut tile, mut bare) = (Tile::new(), Bare::new());
    let name = "pack tile, independent, 4 K pending";
    bench.paired_with_floor(name, Unit::PerSecond, Some(1e6), None, || tile.round(), || bare.round());
}

fn accounts(n: usize) -> (Pubkey, Pubkey) {
    let n = (n % TRANSFERS) as u64;
    (bytes(2 * n), bytes(2 * n + 1))
}

struct Tile {
    rig: Rig<Pack>,
    transfers: Vec<[u8; TRANSFER_SIZE]>,
    next: usize,
    tag: Random,
    /// Of each bank: ids of the microblocks under way, and how many transactions each has.
    flights: [VecDeque<(u64, usize)>; BANKS],
}

impl Tile {
    /// In a slot without end, whose limits are out of reach; every bank has all the microblocks it may have.
    fn new() -> Self {
        let limits = BlockLimits {
            block_cost: u64::MAX / 2,
            account_cost: LIFTED,
            data_growth_bytes: u64::MAX / 2,
            shreds: 1 << 40,
            entry_bytes: u64::MAX / 2,
        };
        let inputs = [DEDUP_PACK.into(), link(BANK_PACK, 0), link(BANK_PACK, 1), POH_PACK.into()];
        let outputs = [link(PACK_BANK, 0), link(PACK_BANK, 1), PACK_POH.into()];
        let rig = Rig::new(&Config { limits, ..Config::default() }, &names(&inputs), &names(&outputs));
        let made = (0..TRANSFERS).map(|n| {
            let (from, to) = accounts(n);
            transfer(&from, &to, n as u64).bytes().try_into().expect("a transfer of the usual size")
        });
        let mut tile = Self { rig, transfers: made.collect(), next: 0, tag: Random(1), flights: Default::default() };
        for _ in 0..(PENDING + FLIGHTS * ROUND) / ROUND {
            tile.give();
            tile.rig.run();
        }
        let leader =
            LeaderSlot { slot: 1, start_ns: 0, end_ns: u64::MAX, max_microblocks: u64::MAX, blockhash: [0; 32] };
        tile.rig.give(POH_PACK, 1, &leader.encode());
        tile.rig.run();
        assert_eq!(tile.take(), (FLIGHTS * ROUND) as u64);
        tile
    }

    fn give(&mut self) {
        for _ in 0..ROUND {
            self.rig.give(DEDUP_PACK, self.tag.word(), &self.transfers[self.next]);
            self.next = (self.next + 1) % TRANSFERS;
        }
    }

    /// Takes the banks' microblocks; how many transactions there were.
    fn take(&mut self) -> u64 {
        let mut taken = 0;
        for (bank, flights) in self.flights.iter_mut().enumerate() {
            self.rig.drain(&link(PACK_BANK, bank), |_, payload| {
                let microblock = Microblock::read(black_box(payload));
                flights.push_back((microblock.id, microblock.len()));
                taken += microblock.len() as u64;
            });
        }
        taken
    }

    fn round(&mut self) -> u64 {
        self.give();
        for (bank, flights) in self.flights.iter_mut().enumerate() {
            let (id, count) = flights.pop_front().expect("each bank has microblocks under way");
            let mut buffer = [0; COMPLETION_MTU];
            let size = Completion::write(&mut buffer, 1, id, std::iter::repeat_n(TAKEN, count));
            self.rig.give(&link(BANK_PACK, bank), id, &buffer[..size]);
        }
        self.rig.run();
        let taken = self.take();
        assert_eq!(taken, ROUND as u64);
        taken
    }
}

fn link(name: &str, n: usize) -> String {
    format!("{name}:{n}")
}

fn names(links: &[String]) -> Vec<&str> {
    links.iter().map(String::as_str).collect()
}

/// The scheduler alone, which gets candidates ready made.
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
