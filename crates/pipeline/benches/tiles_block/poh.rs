//! poh in low power: executed microblocks in, entries out, slot after slot.

use std::hint::black_box;
use std::time::Duration;

use hearth_pipeline::links::{BANK_POH, DonePacking, Executed, LeaderSlot, PACK_POH, POH_PACK, POH_SHRED, SLOT_BEGINS};
use hearth_pipeline::poh::chain::{self, PohChain, Step};
use hearth_pipeline::poh::{Config, Poh};
use hearth_testkit::bench::{Bench, Unit};
use hearth_tile::rig::Rig;

use crate::load::{MICROBLOCK, ledger, transfers};

/// Microblocks of a round, and of a slot.
const ROUND: u64 = 16;
const SLOT: u64 = 512;
const LOW_POWER: chain::Config =
    chain::Config { hashes_per_tick: None, ticks_per_slot: 64, slot_ns: 400_000_000, max_microblocks: SLOT };

pub fn microblocks(bench: &Bench) {
    let (mut tile, mut chain) = (Tile::new(), Bare::new());
    let name = "poh tile, low power, microblocks of 64";
    bench.paired(name, Unit::PerSecond, None, || tile.round(), || chain.round());
}

struct Tile {
    rig: Rig<Poh>,
    /// A microblock, whose header is written anew each time.
    executed: Vec<u8>,
    slot: u64,
    id: u64,
    bank: String,
}

impl Tile {
    fn new() -> Self {
        let bank = format!("{BANK_POH}:0");
        let config = Config { chain: LOW_POWER, on_demand: None, ledger: ledger(&[]) };
        let mut rig = Rig::<Poh>::new(&config, &[&bank, PACK_POH], &[POH_PACK, POH_SHRED]);
        rig.run();
        let executed = [vec![0; Executed::HEADER], transfers()].concat();
        Self { rig, executed, slot: 1, id: 0, bank }
    }

    fn round(&mut self) -> u64 {
        const { assert!(SLOT.is_multiple_of(ROUND)) };
        let len = self.executed.len() - Executed::HEADER;
        for _ in 0..ROUND {
            let mixin = [self.id as u8; 32];
            Executed::write_header(&mut self.executed, self.slot, self.id, &mixin, MICROBLOCK as u16, len);
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

    fn drain(&mut self) -> usize {
        self.rig.drain(POH_SHRED, |_, payload| {
            black_box(payload);
        })
    }

    /// Pack is done and the time is over: the ticks come, and the next slot begins.
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

/// The chain alone: nothing is copied, and no ledger hears of slots.
struct Bare {
    chain: PohChain,
    now: u64,
}

impl Bare {
    fn new() -> Self {
        let chain = PohChain::new(LOW_POWER, 1, 0, [7; 32], 0).expect("low power has no rules to break");
        Self { chain, now: 0 }
    }

    /// A slot.
    fn round(&mut self) -> u64 {
        loop {
            match self.chain.step(self.now) {
                Step::Tick(entry) if entry.last => return SLOT * MICROBLOCK as u64,
                Step::SlotBegan { slot, .. } => {
                    for id in 0..SLOT {
                        black_box(self.chain.mix(slot, id, Some([id as u8; 32])).expect("it is the one wanted"));
                    }
                    self.chain.done_packing(slot, SLOT).expect("as many as were mixed in");
                }
                Step::Early(when) => self.now = when,
                Step::Tick(_) | Step::Hashed | Step::Waiting => {}
            }
        }
    }
}
