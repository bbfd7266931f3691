//! poh in low power, compared with the chain that it drives.

use std::hint::black_box;

use hearth_pipeline::poh::chain::{PohChain, Step};
use hearth_testkit::bench::{Bench, Unit};
use hearth_workload::Work;
use hearth_workload::poh::{LOW_POWER, Load, SLOT};
use hearth_workload::synthetic::MICROBLOCK;

pub fn microblocks(bench: &Bench) {
    let (mut tile, mut chain) = (Load::new(), Bare::new());
    let name = "poh tile, low power, microblocks of 64";
    bench.paired(name, Unit::PerSecond, None, || tile.round(), || chain.round());
}

/// The chain alone: nothing is copied, and no ledger is notified of slots.
struct Bare {
    chain: PohChain,
    now: u64,
}

impl Bare {
    fn new() -> Self {
        let chain = PohChain::new(LOW_POWER, 1, 0, [7; 32], 0).expect("low power has no rules to break");
        Self { chain, now: 0 }
    }

    /// Mixes in the microblocks of one slot, and returns the number of their transactions.
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
