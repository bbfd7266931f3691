//! dedup: transactions with random tags in, the new ones out.

use std::hint::black_box;

use hearth_pipeline::dedup::{Config, Dedup};
use hearth_tile::rig::Rig;

use crate::Work;

/// Transactions per round: half the capacity of a rig's link.
const ROUND: usize = 128;
const IN: &str = "verify_dedup:0";
const OUT: &str = "dedup_pack";
const TRANSACTION: [u8; 215] = [0x5a; 215];

/// The tile, its history full.
pub struct Load {
    rig: Rig<Dedup>,
    random: fastrand::Rng,
    /// Every nth transaction repeats the one before; 0 means none.
    repeats: usize,
}

impl Load {
    /// Gives every `repeats`-th transaction the tag of the one before; with 0 all are new.
    pub fn new(repeats: usize) -> Self {
        let config = Config::default();
        let history = config.history;
        let mut load = Self { rig: Rig::new(config, &[IN], &[OUT]), random: fastrand::Rng::with_seed(1), repeats: 0 };
        (0..history / ROUND).for_each(|_| {
            load.round();
        });
        Self { repeats, ..load }
    }
}

impl Work for Load {
    fn round(&mut self) -> u64 {
        let (mut tag, mut fresh) = (0, 0);
        for n in 0..ROUND {
            if self.repeats == 0 || n % self.repeats != self.repeats - 1 {
                (tag, fresh) = (self.random.u64(..), fresh + 1);
            }
            self.rig.give(IN, tag, &TRANSACTION);
        }
        self.rig.run();
        let passed = self.rig.drain(OUT, |tag, payload| {
            black_box((tag, payload));
        });
        assert_eq!(passed, fresh);
        ROUND as u64
    }
}
