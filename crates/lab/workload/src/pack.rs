//! pack: transfers in, microblocks out, each completed once the banks have as many as they may.

use std::collections::VecDeque;
use std::hint::black_box;

use hearth_ledger::BlockLimits;
use hearth_pipeline::links::{
    BANK_PACK, COMPLETION_MTU, Completion, DEDUP_PACK, LeaderSlot, Microblock, PACK_BANK, PACK_POH, POH_PACK,
};
use hearth_pipeline::pack::{Config, Pack};
use hearth_tile::rig::Rig;
use hearth_wire::consts::Pubkey;

use crate::Work;
use crate::synthetic::{MICROBLOCK, TRANSFER_SIZE, bytes, transfer};

/// Banks that microblocks are made for.
pub const BANKS: usize = 2;
/// Microblocks that a bank has at a time, as in the tile.
pub const FLIGHTS: usize = 8;
/// Transfers that are always pending, not counting those in flight.
pub const PENDING: usize = 1 << 12;
/// Different transfers, used in turn: many more than are pending and in flight.
pub const TRANSFERS: usize = 1 << 14;
/// Transfers per round: a microblock for each bank.
pub const ROUND: usize = BANKS * MICROBLOCK;
/// Compute units that a transfer really uses.
pub const TAKEN: u32 = 1_481;
const LIFTED: u64 = u32::MAX as u64;

/// Returns the payer and the receiver of a transfer.
pub fn accounts(n: usize) -> (Pubkey, Pubkey) {
    let n = (n % TRANSFERS) as u64;
    (bytes(2 * n), bytes(2 * n + 1))
}

/// The tile; every bank has all the microblocks it may have.
pub struct Load {
    rig: Rig<Pack>,
    transfers: Vec<[u8; TRANSFER_SIZE]>,
    next: usize,
    tag: fastrand::Rng,
    /// For each bank, the ids of the microblocks in flight, and how many transactions each has.
    flights: [VecDeque<(u64, usize)>; BANKS],
}

impl Load {
    /// Starts in an endless slot whose limits are out of reach.
    pub fn new() -> Self {
        let limits = BlockLimits {
            block_cost: u64::MAX / 2,
            account_cost: LIFTED,
            data_growth_bytes: u64::MAX / 2,
            shreds: 1 << 40,
            entry_bytes: u64::MAX / 2,
        };
        let inputs = [DEDUP_PACK.into(), link(BANK_PACK, 0), link(BANK_PACK, 1), POH_PACK.into()];
        let outputs = [link(PACK_BANK, 0), link(PACK_BANK, 1), PACK_POH.into()];
        let rig = Rig::new(Config { limits, ..Config::default() }, &names(&inputs), &names(&outputs));
        let made = (0..TRANSFERS).map(|n| {
            let (from, to) = accounts(n);
            transfer(&from, &to, n as u64).bytes().try_into().expect("a transfer of the usual size")
        });
        let mut load = Self {
            rig,
            transfers: made.collect(),
            next: 0,
            tag: fastrand::Rng::with_seed(1),
            flights: Default::default(),
        };
        for _ in 0..(PENDING + FLIGHTS * ROUND) / ROUND {
            load.give();
            load.rig.run();
        }
        let leader =
            LeaderSlot { slot: 1, start_ns: 0, end_ns: u64::MAX, max_microblocks: u64::MAX, blockhash: [0; 32] };
        load.rig.give(POH_PACK, 1, &leader.encode());
        load.rig.run();
        assert_eq!(load.take(), (FLIGHTS * ROUND) as u64);
        load
    }

    fn give(&mut self) {
        for _ in 0..ROUND {
            self.rig.give(DEDUP_PACK, self.tag.u64(..), &self.transfers[self.next]);
            self.next = (self.next + 1) % TRANSFERS;
        }
    }

    /// Takes the banks' microblocks, and returns the number of transactions.
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
}

impl Default for Load {
    fn default() -> Self {
        Self::new()
    }
}

impl Work for Load {
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
