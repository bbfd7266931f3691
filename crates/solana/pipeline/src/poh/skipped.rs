//! skipped: the ticks of slots that nobody makes, between a block and the next one on it.
//!
//! reads   the block that is built on; the time; which slot is to be made
//! writes  ticks, in order
//! memory  32 B for each tick that is hashed ahead, [`AHEAD_MAX`] at most
//! drops   ticks hashed ahead when another block is built on, or when the slot to be made comes earlier
//! source  `solana-poh` 4.2, `poh_recorder.rs`, its cache of ticks; `docs/cluster-protocol.md`, section 7
//!
//! A block's entries begin with the ticks of the slots that it skips. With hashes they take as long as those slots
//! would have, so they are hashed ahead while others have their turn: no faster than the clock goes.

use hearth_crypto::sha256::sha256_chain;

use super::HASHES_PER_STEP;

/// Ticks that are hashed ahead: of 512 slots of 64.
const AHEAD_MAX: usize = 512 * 64;

/// A chain that waits for its turn, or tells what it has skipped.
#[derive(Clone, Debug)]
pub(super) struct Skipped {
    /// The block that is built on.
    parent_slot: u64,
    /// The hash after the last tick of `ahead` and `in_tick` more.
    hash: [u8; 32],
    /// The hashes of the ticks that are complete, from the parent's end on.
    ahead: Vec<[u8; 32]>,
    /// Where the parent ends.
    parent_hash: [u8; 32],
    in_tick: u64,
    /// When the parent's end was heard of, nanoseconds.
    since_ns: u64,
    /// Ticks told and ticks to be told, once a slot is to be made.
    told: usize,
    to_tell: usize,
}

/// What one call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Hashes were done.
    Hashed,
    /// A tick is to be told: its hash.
    Tick([u8; 32]),
    /// Nothing to do until then, nanoseconds.
    Early(u64),
    /// Nothing to do.
    Done,
}

impl Skipped {
    /// A chain that goes on from the end of a block, heard of at `now_ns`.
    pub fn on(parent_slot: u64, hash: [u8; 32], now_ns: u64) -> Self {
        Self { parent_slot, hash, ahead: vec![], parent_hash: hash, in_tick: 0, since_ns: now_ns, told: 0, to_tell: 0 }
    }

    /// The block that is built on, and its last hash.
    pub fn parent(&self) -> (u64, [u8; 32]) {
        (self.parent_slot, self.parent_hash)
    }

    /// The hash that the slot's own ticks go on from, once all is told.
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// `slot` is to be made: what it skips is told from now on.
    pub fn tell_until(&mut self, slot: u64, ticks_per_slot: u64) {
        self.to_tell = ((slot - self.parent_slot - 1) * ticks_per_slot) as usize;
        if self.ahead.len() > self.to_tell || (self.ahead.len() == self.to_tell && self.in_tick > 0) {
            self.ahead.truncate(self.to_tell);
            self.hash = self.ahead.last().copied().unwrap_or(self.parent_hash);
            self.in_tick = 0;
        }
    }

    /// Tells the next tick, or hashes towards it; in low power (`None`) a tick is one hash.
    pub fn tell(&mut self, hashes_per_tick: Option<u64>) -> Progress {
        if self.told == self.to_tell {
            return Progress::Done;
        }
        if self.told < self.ahead.len() {
            self.told += 1;
            return Progress::Tick(self.ahead[self.told - 1]);
        }
        let hashes = hashes_per_tick.unwrap_or(1);
        self.hash_some(hashes);
        if self.in_tick < hashes {
            return Progress::Hashed;
        }
        self.in_tick = 0;
        self.told += 1;
        Progress::Tick(self.hash)
    }

    /// Hashes ahead, while no slot is to be made. A tick takes `tick_ns`.
    pub fn go_ahead(&mut self, hashes_per_tick: Option<u64>, tick_ns: u64, now_ns: u64) -> Progress {
        let Some(hashes) = hashes_per_tick.filter(|_| self.ahead.len() < AHEAD_MAX) else { return Progress::Done };
        let wanted = HASHES_PER_STEP.min(hashes - self.in_tick);
        let done = u128::from(self.ahead.len() as u64 * hashes + self.in_tick + wanted);
        let due_ns = self.since_ns + (done * u128::from(tick_ns)).div_ceil(hashes.into()) as u64;
        if now_ns < due_ns {
            return Progress::Early(due_ns);
        }
        self.hash_some(hashes);
        if self.in_tick == hashes {
            self.in_tick = 0;
            self.ahead.push(self.hash);
        }
        Progress::Hashed
    }

    fn hash_some(&mut self, hashes: u64) {
        let count = HASHES_PER_STEP.min(hashes - self.in_tick);
        self.hash = sha256_chain(self.hash, count);
        self.in_tick += count;
    }
}
