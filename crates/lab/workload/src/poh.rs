//! poh in low power: executed microblocks in, entries out, slot after slot.

use std::hint::black_box;
use std::time::Duration;

use hearth_pipeline::failure::Failure;
use hearth_pipeline::links::{
    BANK_POH, DonePacking, ExecutedMicroblock, LeaderSlot, PACK_POH, POH_PACK, POH_SHRED, SLOT_BEGINS, STORE_POH,
};
use hearth_pipeline::poh::chain::Config as ChainConfig;
use hearth_pipeline::poh::{Config, Poh};
use hearth_tile::rig::Rig;

use crate::Work;
use crate::synthetic::{MICROBLOCK, ledger, transfers};

/// Microblocks that a round mixes in.
const ROUND: u64 = 16;
/// Microblocks after which the slot is full.
pub const SLOT: u64 = 512;
/// No hashes between the ticks.
pub const LOW_POWER: ChainConfig =
    ChainConfig { hashes_per_tick: None, ticks_per_slot: 64, slot_ns: 400_000_000, max_microblocks: SLOT };

/// The tile, and a ledger without accounts.
pub struct Load {
    rig: Rig<Poh>,
    /// A microblock, whose header is rewritten each time.
    executed: Vec<u8>,
    slot: u64,
    id: u64,
    bank: String,
}

impl Load {
    /// Starts in low power at the first slot.
    pub fn new() -> Self {
        let bank = format!("{BANK_POH}:0");
        let config = Config { chain: LOW_POWER, on_demand: None, ledger: ledger(&[]), failure: Failure::default() };
        let mut rig = Rig::<Poh>::new(config, &[&bank, PACK_POH, STORE_POH], &[POH_PACK, POH_SHRED]);
        rig.run();
        let executed = [vec![0; ExecutedMicroblock::HEADER], transfers()].concat();
        Self { rig, executed, slot: 1, id: 0, bank }
    }

    fn drain(&mut self) -> usize {
        self.rig.drain(POH_SHRED, |_, payload| {
            black_box(payload);
        })
    }

    /// Ends the slot: pack is done and the time is over, so the ticks come, and the next slot begins.
    fn end_slot(&mut self) {
        let done = DonePacking { slot: self.slot, microblocks: self.id };
        self.rig.give(PACK_POH, self.slot, &done.encode());
        self.rig.advance(Duration::from_nanos(LOW_POWER.slot_ns));
        self.rig.run();
        assert_eq!(self.drain(), LOW_POWER.ticks_per_slot as usize);
        let events = self.rig.take_control(POH_PACK);
        let (control, begins) = events.last().expect("the next slot begins");
        assert_eq!((*control, LeaderSlot::read(begins).slot), (SLOT_BEGINS, self.slot + 1));
        (self.slot, self.id) = (self.slot + 1, 0);
    }
}

impl Default for Load {
    fn default() -> Self {
        Self::new()
    }
}

impl Work for Load {
    fn round(&mut self) -> u64 {
        const { assert!(SLOT.is_multiple_of(ROUND)) };
        let len = self.executed.len() - ExecutedMicroblock::HEADER;
        for _ in 0..ROUND {
            let mixin = [self.id as u8; 32];
            ExecutedMicroblock::write_header(&mut self.executed, self.slot, self.id, &mixin, MICROBLOCK as u16, len);
            self.rig.give(&self.bank, self.id, &self.executed);
            self.id += 1;
        }
        self.rig.run();
        assert_eq!(self.drain(), ROUND as usize);
        if self.id == SLOT {
            self.end_slot();
        }
        ROUND * MICROBLOCK as u64
    }
}
