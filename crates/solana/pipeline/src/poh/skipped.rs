//! skipped: the ticks of skipped slots, between a parent and the next block on it.
//!
//! reads   the parent block; the time; the slot to produce
//! writes  ticks, in order
//! memory  32 B per tick hashed ahead, at most [`AHEAD_MAX`] ticks
//! drops   ticks hashed ahead, when the parent changes or the slot to produce comes earlier
//! source  `solana-poh` 4.2, `poh_recorder.rs`, its tick cache; `docs/cluster-protocol.md`, section 7
//!
//! A block's entries start with the ticks of the slots that it skips. When hashing, those take as long as the slots
//! themselves, so the chain hashes them ahead during other leaders' slots, no faster than the clock.

use hearth_crypto::sha256::sha256_chain;

use super::HASHES_PER_STEP;

/// Maximum ticks hashed ahead: those of 512 slots of 64.
const AHEAD_MAX: usize = 512 * 64;

/// A chain that waits for its turn, or emits the ticks of the slots it skipped.
#[derive(Clone, Debug)]
pub(super) struct SkippedSlots {
    /// The slot of the parent block.
    parent_slot: u64,
    /// The hash after the last tick in `ahead` and `in_tick` further hashes.
    hash: [u8; 32],
    /// The hashes of completed ticks since the parent's end.
    ahead: Vec<[u8; 32]>,
    /// The parent's last hash.
    parent_hash: [u8; 32],
    in_tick: u64,
    /// When this node learned of the parent's end, in nanoseconds.
    since_ns: u64,
    /// Ticks emitted and ticks to emit, once the slot to produce is known.
    published: usize,
    to_tell: usize,
}

/// The outcome of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Advanced without completing a tick.
    Hashed,
    /// Emitted a tick with this hash.
    Tick([u8; 32]),
    /// Nothing to do until this time, in nanoseconds.
    Early(u64),
    /// Nothing left to do.
    Done,
}

impl SkippedSlots {
    /// Creates a chain that continues from the end of a block, learned at `now_ns`.
    pub fn on(parent_slot: u64, hash: [u8; 32], now_ns: u64) -> Self {
        Self {
            parent_slot,
            hash,
            ahead: vec![],
            parent_hash: hash,
            in_tick: 0,
            since_ns: now_ns,
            published: 0,
            to_tell: 0,
        }
    }

    /// The parent's slot and last hash.
    pub fn parent(&self) -> (u64, [u8; 32]) {
        (self.parent_slot, self.parent_hash)
    }

    /// The hash from which the slot's own ticks continue, once all skipped ticks are emitted.
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// Starts to emit the ticks that `slot` skips.
    pub fn tell_until(&mut self, slot: u64, ticks_per_slot: u64) {
        self.to_tell = ((slot - self.parent_slot - 1) * ticks_per_slot) as usize;
        if self.ahead.len() > self.to_tell || (self.ahead.len() == self.to_tell && self.in_tick > 0) {
            self.ahead.truncate(self.to_tell);
            self.hash = self.ahead.last().copied().unwrap_or(self.parent_hash);
            self.in_tick = 0;
        }
    }

    /// Emits the next tick, or hashes towards it; in low power (`None`) a tick is one hash.
    pub fn tell(&mut self, hashes_per_tick: Option<u64>) -> Progress {
        if self.published == self.to_tell {
            return Progress::Done;
        }
        if self.published < self.ahead.len() {
            self.published += 1;
            return Progress::Tick(self.ahead[self.published - 1]);
        }
        let hashes = hashes_per_tick.unwrap_or(1);
        self.hash_some(hashes);
        if self.in_tick < hashes {
            return Progress::Hashed;
        }
        self.in_tick = 0;
        self.published += 1;
        Progress::Tick(self.hash)
    }

    /// Hashes ahead while there is no slot to produce. A tick takes `tick_ns`.
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
