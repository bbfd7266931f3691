//! chain: a leader's proof-of-history chain, without I/O and without a clock of its own.
//!
//! reads   the caller's time; the mixins of microblocks, in order; pack's announcement that a slot is packed
//! writes  one [`Step`] or [`Entry`] per call
//! memory  constant, plus the ticks hashed ahead of a leader turn
//! drops   nothing; a microblock that cannot be mixed in now is [`MixinRefusal`] and stays with the caller
//! source  `solana-entry` 4.2 `poh.rs` for the hashes; the microblock reserve works as in Firedancer
//!
//! A slot is `ticks_per_slot` ticks. When hashing, a tick is `hashes_per_tick` hashes and its last hash is plain; a
//! microblock may replace any of the others. In low power (`hashes_per_tick: None`) a tick is one hash and a microblock
//! adds one. Only the clock spaces low-power ticks, so the chain emits several at a time: no verifier can tell.
//!
//! Two limits hold the chain back. The clock: no tick and no plain hash comes before its time; a microblock's hash may.
//! The reserve: the chain keeps one free hash for each microblock that may still come, until pack announces the final
//! count; the slot's last tick waits for that announcement and for all of those microblocks.
//!
//! A slot ends with its last tick, possibly late. The next slot then gets the rest of its time, but at least half: the
//! chain catches up at no more than double speed. Lag beyond [`LAG_SLOTS_MAX`] slots is forgiven, and the schedule
//! shifts.
//!
//! When leaders take turns, the chain waits on a block ([`PohChain::wait_on`]) until the caller names the slot to
//! produce ([`PohChain::lead`]); the ticks of the skipped slots in between come first (skipped.rs).

use hearth_crypto::sha256::{sha256_chain, sha256_mix};
use hearth_ledger::genesis::{SLOT_HASHES_MAX, SLOT_MS_MAX, TICKS_PER_SLOT_MAX};

use super::HASHES_PER_STEP;
use super::skipped::{Progress, SkippedSlots};

/// Default maximum of microblocks per slot: 80,000 per second in 400 ms slots, each of up to 64 transactions. Their
/// reserve is 0.8 % of the hashes of a slot of 64 × 62,500.
pub const MAX_MICROBLOCKS: u64 = 32_768;
/// The chain catches up with the clock if it lags by this many slots or fewer.
pub const LAG_SLOTS_MAX: u64 = 4;
/// How long before a slot's end pack should finish in low power, in nanoseconds, if a tick is longer than that. Under
/// load the banks' microblocks in flight take longer, and the slot's last tick waits for them. Arrivals meanwhile wait
/// for the next slot, so any time in which banks idle shows in the latency of many transactions.
const LOW_POWER_MARGIN_NS: u64 = 100_000;
/// Low-power ticks come in this many groups per slot: every 25 ms in a 400 ms slot.
const LOW_POWER_WAKES: u64 = 16;

/// Parameters of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Hashes per tick, at least 2; `None` is low power.
    pub hashes_per_tick: Option<u64>,
    /// Ticks per slot, 1 to 255.
    pub ticks_per_slot: u64,
    /// Slot length in nanoseconds, at least one per tick.
    pub slot_ns: u64,
    /// Maximum microblocks per slot. When hashing, the chain lowers it to half of the hashes that can carry a
    /// microblock.
    pub max_microblocks: u64,
}

impl Default for Config {
    /// Mainnet's: 64 ticks of 62,500 hashes in 400 ms.
    fn default() -> Self {
        Self {
            hashes_per_tick: Some(62_500),
            ticks_per_slot: 64,
            slot_ns: 400_000_000,
            max_microblocks: MAX_MICROBLOCKS,
        }
    }
}

/// Why a [`Config`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A tick of one hash has no room for a microblock.
    #[error("hashes_per_tick = {0}: at least 2, or none at all for low power")]
    HashesPerTick(u64),
    /// The tick travels in one byte.
    #[error("ticks_per_slot = {0}: from 1 to 255")]
    TicksPerSlot(u64),
    /// Times would be zero or overflow.
    #[error("a slot of {0} ns: from 1 ns a tick to one hour")]
    Slot(u64),
    /// Hash counts would overflow.
    #[error("{0} hashes a slot: at most 2^40")]
    Hashes(u64),
}

const SLOT_NS_MAX: u64 = SLOT_MS_MAX * 1_000_000;

impl Config {
    fn check(&self) -> Result<(), ConfigError> {
        let ticks = self.ticks_per_slot;
        let hashes = self.hashes_per_tick.unwrap_or(2);
        let slot_hashes = hashes.saturating_mul(ticks);
        match self {
            _ if hashes < 2 => Err(ConfigError::HashesPerTick(hashes)),
            _ if !(1..=TICKS_PER_SLOT_MAX).contains(&ticks) => Err(ConfigError::TicksPerSlot(ticks)),
            _ if !(ticks..=SLOT_NS_MAX).contains(&self.slot_ns) => Err(ConfigError::Slot(self.slot_ns)),
            _ if slot_hashes > SLOT_HASHES_MAX => Err(ConfigError::Hashes(slot_hashes)),
            _ => Ok(()),
        }
    }

    /// Maximum microblocks per slot, such that half of the slot's hashes can pass before the reserve holds the chain
    /// back.
    fn microblocks(&self) -> u64 {
        let room = self.hashes_per_tick.map_or(u64::MAX, |h| (h - 1) * self.ticks_per_slot / 2);
        self.max_microblocks.min(room.max(1))
    }
}

/// An entry of a block, without its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The slot in whose block the entry is.
    pub slot: u64,
    /// The slot of the parent block.
    pub parent_slot: u64,
    /// Completed ticks of the slot, this entry included; 0 in the ticks of skipped slots.
    pub tick: u8,
    /// Whether this is the slot's last entry.
    pub last: bool,
    /// Hashes since the previous entry, including the one that mixes in.
    pub num_hashes: u64,
    /// The chain's hash after those hashes.
    pub hash: [u8; 32],
}

/// The outcome of one [`PohChain::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A slot has started.
    SlotBegan {
        /// The started slot's number.
        slot: u64,
        /// Its start, in nanoseconds.
        start_ns: u64,
        /// When pack should be done, in nanoseconds.
        end_ns: u64,
        /// How many microblocks may be mixed in.
        max_microblocks: u64,
    },
    /// The chain advanced without producing an entry.
    Hashed,
    /// A tick. If it is the slot's last, its hash is the slot's blockhash and the slot has ended.
    Tick(Entry),
    /// Nothing to do until this time, in nanoseconds.
    Early(u64),
    /// Nothing to do until a microblock arrives or pack is done.
    Waiting,
}

/// Why a microblock cannot be mixed in now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixinRefusal {
    /// No slot is in progress.
    #[error("no slot is under way")]
    NoSlot,
    /// It belongs to another slot.
    #[error("a microblock of slot {0} while slot {1} is under way")]
    Slot(u64, u64),
    /// Another microblock comes first.
    #[error("microblock {0} before microblock {1}")]
    Order(u64, u64),
    /// The slot has all of its microblocks.
    #[error("the slot takes no more than {0} microblocks")]
    Full(u64),
    /// A tick must come first.
    #[error("a tick comes first")]
    Tick,
}

/// State of a chain whose node may share the schedule with other leaders.
#[derive(Clone, Debug)]
enum Turn {
    /// This node leads every slot.
    Always,
    /// Another node leads; meanwhile the chain hashes ahead for the slots that may be skipped.
    Waits(SkippedSlots),
    /// This node leads next, and the ticks of skipped slots come first.
    Skips(SkippedSlots),
    /// The slot is in progress, or starts next.
    Leads,
}

/// The hash chain of a leader: when to hash, tick, mix in, and start and end slots.
#[derive(Clone, Debug)]
pub struct PohChain {
    config: Config,
    max_microblocks: u64,
    hash: [u8; 32],
    /// Hashes since the last entry.
    since_entry: u64,
    /// The current slot, or the next one to start.
    slot: u64,
    parent_slot: u64,
    active: Option<Active>,
    /// When `slot` should start.
    scheduled_ns: u64,
    late_ns: u64,
    forgiven_ns: u64,
    /// How long the last slot took.
    took_ns: u64,
    turn: Turn,
}

/// The slot in progress.
#[derive(Clone, Copy, Debug)]
struct Active {
    start_ns: u64,
    end_ns: u64,
    /// Ticks of the slot that were emitted so far.
    ticks: u64,
    /// Hashes since the last tick.
    in_tick: u64,
    /// Microblocks of the slot that were mixed in so far.
    taken: u64,
    /// The slot's final count of microblocks; `None` until pack is done.
    total: Option<u64>,
}

impl PohChain {
    /// Creates a chain that continues from `hash`, the last hash of `parent_slot`; `slot` starts at `start_ns`.
    ///
    /// # Errors
    /// A [`ConfigError`] if the parameters leave no room for a block.
    pub fn new(
        config: Config,
        slot: u64,
        parent_slot: u64,
        hash: [u8; 32],
        start_ns: u64,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config,
            max_microblocks: config.microblocks(),
            hash,
            since_entry: 0,
            slot,
            parent_slot,
            active: None,
            scheduled_ns: start_ns,
            late_ns: 0,
            forgiven_ns: 0,
            took_ns: 0,
            turn: Turn::Always,
        })
    }

    /// Waits for this node's turn, on the block that ends with `hash`. Call it between slots; a slot that was ordered
    /// but has not started is dropped.
    pub fn wait_on(&mut self, parent_slot: u64, hash: [u8; 32], now_ns: u64) {
        self.turn = Turn::Waits(SkippedSlots::on(parent_slot, hash, now_ns));
    }

    /// The parent on which the chain waits, and that block's last hash.
    pub fn waits_on(&self) -> Option<(u64, [u8; 32])> {
        match &self.turn {
            Turn::Waits(skipped) => Some(skipped.parent()),
            _ => None,
        }
    }

    /// Starts `slot` on the parent on which the chain waits: from `now_ns` on or, if the parent is this chain's own
    /// block, from when that block should have ended. The chain must be waiting, and `slot` above the parent.
    pub fn lead(&mut self, slot: u64, now_ns: u64) {
        if let Turn::Waits(mut skipped) = std::mem::replace(&mut self.turn, Turn::Leads) {
            skipped.tell_until(slot, self.config.ticks_per_slot);
            if skipped.parent() != (slot - 1, self.hash) {
                (self.scheduled_ns, self.took_ns) = (now_ns, 0);
            }
            (self.slot, self.parent_slot, self.since_entry) = (slot, skipped.parent().0, 0);
            self.turn = Turn::Skips(skipped);
        }
    }

    /// Advances by at most [`HASHES_PER_STEP`] hashes or one tick, as far as `now_ns` allows.
    pub fn step(&mut self, now_ns: u64) -> Step {
        let Some(active) = self.active else { return self.between(now_ns) };
        let step = match self.config.hashes_per_tick {
            Some(hashes) => self.step_hashing(active, hashes, now_ns),
            None => self.step_low_power(active, now_ns),
        };
        if self.active.is_none() {
            self.took_ns = now_ns.saturating_sub(active.start_ns);
        }
        step
    }

    /// The slot and id of the next microblock; `None` if none may come before the next step.
    pub fn wants(&self) -> Option<(u64, u64)> {
        let active = self.active?;
        let id = active.taken;
        self.may_mix(self.slot, id).is_ok().then_some((self.slot, id))
    }

    /// Mixes in a microblock and returns its entry. A microblock that committed nothing has no mixin: it is counted and
    /// leaves no entry.
    ///
    /// # Errors
    /// [`MixinRefusal`]; the chain is unchanged.
    pub fn mix(&mut self, slot: u64, id: u64, mixin: Option<[u8; 32]>) -> Result<Option<Entry>, MixinRefusal> {
        self.may_mix(slot, id)?;
        let active = self.active.as_mut().ok_or(MixinRefusal::NoSlot)?;
        active.taken += 1;
        let Some(mixin) = mixin else { return Ok(None) };
        if self.config.hashes_per_tick.is_some() {
            active.in_tick += 1;
        }
        let tick = active.ticks as u8;
        self.hash = sha256_mix(self.hash, mixin);
        self.since_entry += 1;
        Ok(Some(self.entry(tick, false)))
    }

    /// Records that pack schedules no more in `slot`, which has `microblocks` in all. Other slots are ignored.
    ///
    /// # Errors
    /// [`MixinRefusal::Full`] if that exceeds the slot's maximum or is less than the number already mixed in.
    pub fn done_packing(&mut self, slot: u64, microblocks: u64) -> Result<(), MixinRefusal> {
        let max = self.max_microblocks;
        if let Some(active) = self.active.as_mut().filter(|_| slot == self.slot) {
            if microblocks > max || microblocks < active.taken {
                return Err(MixinRefusal::Full(max.min(active.taken)));
            }
            active.total = Some(microblocks);
        }
        Ok(())
    }

    /// Ends the current slot as soon as possible.
    pub fn hurry(&mut self, now_ns: u64) {
        if let Some(active) = &mut self.active {
            active.end_ns = active.end_ns.min(now_ns.max(active.start_ns + 1));
        }
    }

    /// Schedules the next slot to start at `at_ns`.
    pub fn schedule(&mut self, at_ns: u64) {
        self.scheduled_ns = at_ns;
    }

    /// The newest hash of the chain.
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// The current slot, or the next one.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// Whether no slot is in progress or ordered: the next step starts one, or waits for this node's turn.
    pub fn is_between_slots(&self) -> bool {
        self.active.is_none() && matches!(self.turn, Turn::Always | Turn::Waits(_))
    }

    /// How late the current slot started, in nanoseconds.
    pub fn late_ns(&self) -> u64 {
        self.late_ns
    }

    /// By how much the schedule was shifted in total, in nanoseconds.
    pub fn forgiven_ns(&self) -> u64 {
        self.forgiven_ns
    }

    fn between(&mut self, now_ns: u64) -> Step {
        let Config { hashes_per_tick, slot_ns, ticks_per_slot, .. } = self.config;
        let progress = match &mut self.turn {
            Turn::Always | Turn::Leads => return self.begin(now_ns),
            Turn::Waits(skipped) => skipped.go_ahead(hashes_per_tick, slot_ns / ticks_per_slot, now_ns),
            Turn::Skips(skipped) => skipped.tell(hashes_per_tick),
        };
        match (progress, &self.turn) {
            (Progress::Hashed, _) => Step::Hashed,
            (Progress::Early(when), _) => Step::Early(when),
            (Progress::Done, Turn::Skips(skipped)) => {
                // The skipped slots may have used up its time.
                if skipped.parent().0 + 1 < self.slot {
                    self.scheduled_ns = now_ns;
                }
                self.hash = skipped.hash();
                self.turn = Turn::Leads;
                self.begin(now_ns)
            }
            (Progress::Done, _) => Step::Waiting,
            (Progress::Tick(hash), _) => {
                let (slot, parent_slot, num_hashes) = (self.slot, self.parent_slot, hashes_per_tick.unwrap_or(1));
                Step::Tick(Entry { slot, parent_slot, tick: 0, last: false, num_hashes, hash })
            }
        }
    }

    fn begin(&mut self, now_ns: u64) -> Step {
        if now_ns < self.scheduled_ns {
            return Step::Early(self.scheduled_ns);
        }
        let slot_ns = self.config.slot_ns;
        self.late_ns = now_ns - self.scheduled_ns;
        if self.late_ns > LAG_SLOTS_MAX * slot_ns {
            self.forgiven_ns += self.late_ns;
            self.scheduled_ns = now_ns;
        }
        self.scheduled_ns += slot_ns;
        let end_ns = self.scheduled_ns.max(now_ns + slot_ns.div_ceil(2));
        self.active = Some(Active { start_ns: now_ns, end_ns, ticks: 0, in_tick: 0, taken: 0, total: None });
        let (slot, max_microblocks) = (self.slot, self.max_microblocks);
        // If the core is too slow for the hash rate, slots take longer than planned: let pack use most of the last
        // duration.
        let hashing_late = self.late_ns > 0 && self.config.hashes_per_tick.is_some();
        let likely_ns = if hashing_late { self.took_ns.min(LAG_SLOTS_MAX * slot_ns) / 8 * 7 } else { 0 };
        let end_ns = end_ns.max(now_ns + likely_ns);
        let end_ns = end_ns - self.margin_ns(end_ns - now_ns);
        Step::SlotBegan { slot, start_ns: now_ns, end_ns, max_microblocks }
    }

    /// How long before a slot's end the reserve would stop the chain, at least one tick: pack should be done by then.
    /// In low power nothing is reserved, and a slot that ends late because of microblocks in flight takes the time from
    /// the next.
    fn margin_ns(&self, length_ns: u64) -> u64 {
        let tick = length_ns / self.config.ticks_per_slot;
        let Some(hashes) = self.config.hashes_per_tick else { return tick.min(LOW_POWER_MARGIN_NS) };
        let slot_hashes = u128::from(hashes * self.config.ticks_per_slot);
        let reserve = u128::from(length_ns) * u128::from(self.max_microblocks) / slot_hashes;
        tick.max(reserve as u64)
    }

    fn step_low_power(&mut self, active: Active, now_ns: u64) -> Step {
        let ticks = self.config.ticks_per_slot;
        let length = active.end_ns - active.start_ns;
        // Emit a few ticks together: separate deadlines would wake an idle core for each.
        let together = ticks.div_ceil(LOW_POWER_WAKES).max(1);
        let until = (active.ticks + 1).next_multiple_of(together).min(ticks);
        let due = active.start_ns + muldiv(length, until, ticks);
        if now_ns < due {
            Step::Early(due)
        } else if active.ticks + 1 == ticks && active.total != Some(active.taken) {
            Step::Waiting
        } else {
            self.tick(1)
        }
    }

    fn step_hashing(&mut self, active: Active, hashes: u64, now_ns: u64) -> Step {
        let ticks = self.config.ticks_per_slot;
        let length = active.end_ns - active.start_ns;
        let elapsed = now_ns.saturating_sub(active.start_ns).min(length);
        let (done, slot_hashes) = (active.ticks * hashes + active.in_tick, ticks * hashes);
        let due = muldiv(elapsed, slot_hashes, length);
        // The end of this step, given enough time.
        let to_tick = hashes - active.in_tick;
        let wanted = if to_tick == 1 { 1 } else { HASHES_PER_STEP.min(to_tick - 1) };
        let last_tick = to_tick == 1 && active.ticks + 1 == ticks;
        let spare = if to_tick == 1 { u64::MAX } else { self.spare(&active, hashes) };
        if spare == 0 || (last_tick && active.total != Some(active.taken)) {
            return Step::Waiting;
        }
        let count = wanted.min(spare);
        if done + count > due {
            // Rounded up, so that the hashes are due by then.
            let when = (u128::from(length) * u128::from(done + count)).div_ceil(slot_hashes.into());
            return Step::Early(active.start_ns + when as u64);
        }
        if to_tick == 1 {
            return self.tick(1);
        }
        self.hash = sha256_chain(self.hash, count);
        self.since_entry += count;
        self.active = Some(Active { in_tick: active.in_tick + count, ..active });
        Step::Hashed
    }

    /// Hashes that may pass without a microblock before too few remain for those that may still come.
    fn spare(&self, active: &Active, hashes: u64) -> u64 {
        let ticks_left = self.config.ticks_per_slot - active.ticks;
        let room = ticks_left * hashes - active.in_tick - ticks_left;
        room - (active.total.unwrap_or(self.max_microblocks) - active.taken).min(room)
    }

    fn may_mix(&self, slot: u64, id: u64) -> Result<(), MixinRefusal> {
        let active = self.active.as_ref().ok_or(MixinRefusal::NoSlot)?;
        let max = active.total.unwrap_or(self.max_microblocks);
        let at_tick = self.config.hashes_per_tick.is_some_and(|hashes| active.in_tick + 1 == hashes);
        match active.taken {
            _ if slot != self.slot => Err(MixinRefusal::Slot(slot, self.slot)),
            taken if id != taken => Err(MixinRefusal::Order(id, taken)),
            taken if taken >= max => Err(MixinRefusal::Full(max)),
            _ if at_tick => Err(MixinRefusal::Tick),
            _ => Ok(()),
        }
    }

    /// Ends a tick with `count` plain hashes.
    fn tick(&mut self, count: u64) -> Step {
        let active = self.active.as_mut().expect("only called within a slot");
        active.ticks += 1;
        active.in_tick = 0;
        let (tick, last) = (active.ticks, active.ticks == self.config.ticks_per_slot);
        self.hash = sha256_chain(self.hash, count);
        self.since_entry += count;
        let entry = self.entry(tick as u8, last);
        if last {
            self.active = None;
            self.parent_slot = self.slot;
            self.slot += 1;
        }
        Step::Tick(entry)
    }

    fn entry(&mut self, tick: u8, last: bool) -> Entry {
        let num_hashes = std::mem::take(&mut self.since_entry);
        Entry { slot: self.slot, parent_slot: self.parent_slot, tick, last, num_hashes, hash: self.hash }
    }
}

/// `a * b / c` without overflow in between.
fn muldiv(a: u64, b: u64, c: u64) -> u64 {
    (u128::from(a) * u128::from(b) / u128::from(c)) as u64
}
