//! chain: the proof-of-history chain of a leader, without I/O and without a clock of its own.
//!
//! reads   the time its caller says it is; microblocks' mixins in order; that pack is done
//! writes  one [`Step`] or [`Entry`] a call
//! memory  constant, and what is hashed ahead of a turn
//! drops   nothing; a microblock that may not be mixed in now is a [`Refused`] and stays with the caller
//! source  `solana-entry` 4.2 `poh.rs` for the hashes; the reserve for microblocks as Firedancer keeps it
//!
//! A slot is `ticks_per_slot` ticks. With hashes, a tick is `hashes_per_tick` hashes, the last of them plain: a
//! microblock takes the place of any other. In low power (`hashes_per_tick: None`) a tick is one hash, a microblock
//! one more, and only the clock tells ticks apart: a few at a time, since nobody can tell.
//!
//! Two things hold the chain back. The clock: no tick comes before its time, and no hash that is not a microblock's.
//! The reserve: as many hashes that a microblock may take are kept as microblocks may still come, until pack says
//! how many there are; the slot's last tick waits for that and for all of them.
//!
//! A slot ends when its last tick is out, perhaps late. The next one then has what is left of its time, but at least
//! half: the chain catches up at no more than double speed. What it is behind by more than [`LAG_SLOTS_MAX`] slots is
//! forgiven, and the schedule moves.
//!
//! Where leaders take turns the chain waits on a block ([`PohChain::wait_on`]) until it is told which slot to make
//! ([`PohChain::lead`]); the ticks of the slots between come first (skipped.rs).

use hearth_crypto::sha256::{sha256_chain, sha256_mix};
use hearth_ledger::genesis::{SLOT_HASHES_MAX, SLOT_MS_MAX, TICKS_PER_SLOT_MAX};

use super::HASHES_PER_STEP;
use super::skipped::{Progress, Skipped};

/// Microblocks of a slot by default: 80,000 a second in slots of 400 ms, each of up to 64 transactions. The reserve
/// kept for them is 0.8 % of the hashes of a slot of 64 × 62,500.
pub const MAX_MICROBLOCKS: u64 = 32_768;
/// The chain catches up with the clock when it is this many slots behind or fewer.
pub const LAG_SLOTS_MAX: u64 = 4;
/// How long before a slot's end pack is done in low power, nanoseconds, where a tick is longer. What banks have in hand
/// takes longer under load, and the slot's last tick waits for it; what comes meanwhile waits for the next slot, so
/// that every moment in which banks have nothing to do is seen in the latency of the many that come then.
const LOW_POWER_MARGIN_NS: u64 = 100_000;
/// Times in a slot at which ticks come in low power: every 25 ms in slots of 400.
const LOW_POWER_WAKES: u64 = 16;

/// The rules of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Hashes of a tick, at least 2; `None` is low power.
    pub hashes_per_tick: Option<u64>,
    /// Ticks of a slot, 1 to 255.
    pub ticks_per_slot: u64,
    /// Length of a slot, nanoseconds, at least one for each tick.
    pub slot_ns: u64,
    /// Microblocks of a slot at most. With hashes it is lowered to half of what they have room for.
    pub max_microblocks: u64,
}

impl Default for Config {
    /// The mainnet's: 64 ticks of 62,500 hashes in 400 ms.
    fn default() -> Self {
        Self {
            hashes_per_tick: Some(62_500),
            ticks_per_slot: 64,
            slot_ns: 400_000_000,
            max_microblocks: MAX_MICROBLOCKS,
        }
    }
}

/// Why a [`Config`] cannot be.
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

    /// Microblocks of a slot at most, such that half of its hashes may pass before the reserve holds them back.
    fn microblocks(&self) -> u64 {
        let room = self.hashes_per_tick.map_or(u64::MAX, |h| (h - 1) * self.ticks_per_slot / 2);
        self.max_microblocks.min(room.max(1))
    }
}

/// An entry of a block but for its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The slot it belongs to.
    pub slot: u64,
    /// The block that one builds on.
    pub parent_slot: u64,
    /// Ticks of the slot that are complete, this entry included; 0 in ticks of slots that it skips.
    pub tick: u8,
    /// Whether it is the slot's last.
    pub last: bool,
    /// Hashes since the entry before, the mixing one included.
    pub num_hashes: u64,
    /// The chain's hash after them.
    pub hash: [u8; 32],
}

/// What one [`PohChain::step`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A slot began.
    SlotBegan {
        /// The slot.
        slot: u64,
        /// When, nanoseconds.
        start_ns: u64,
        /// When pack should be done, nanoseconds.
        end_ns: u64,
        /// How many microblocks may be mixed in.
        max_microblocks: u64,
    },
    /// The chain moved on; no entry came of it.
    Hashed,
    /// A tick. When it is the slot's last, its hash is the slot's blockhash, and the slot has ended.
    Tick(Entry),
    /// Nothing to do until then, nanoseconds.
    Early(u64),
    /// Nothing to do until a microblock comes or pack is done.
    Waiting,
}

/// Why a microblock cannot be mixed in now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No slot is under way.
    #[error("no slot is under way")]
    NoSlot,
    /// It belongs to another slot.
    #[error("a microblock of slot {0} while slot {1} is under way")]
    Slot(u64, u64),
    /// Another microblock comes first.
    #[error("microblock {0} before microblock {1}")]
    Order(u64, u64),
    /// The slot has had all of its microblocks.
    #[error("the slot takes no more than {0} microblocks")]
    Full(u64),
    /// A tick must come first.
    #[error("a tick comes first")]
    Tick,
}

/// Where a chain is that takes turns with others.
#[derive(Clone, Debug)]
enum Turn {
    /// It is always its turn.
    Always,
    /// Somebody else's.
    Waits(Skipped),
    /// The slot's, whose skipped ticks come first.
    Skips(Skipped),
    /// The slot is under way, or begins next.
    Leads,
}

/// A leader's chain.
#[derive(Clone, Debug)]
pub struct PohChain {
    config: Config,
    max_microblocks: u64,
    hash: [u8; 32],
    /// Hashes since the last entry.
    since_entry: u64,
    /// The slot under way or the next to begin.
    slot: u64,
    parent_slot: u64,
    active: Option<Active>,
    /// When `slot` should begin.
    scheduled_ns: u64,
    late_ns: u64,
    forgiven_ns: u64,
    /// How long the last slot took.
    took_ns: u64,
    turn: Turn,
}

/// The slot under way.
#[derive(Clone, Copy, Debug)]
struct Active {
    start_ns: u64,
    end_ns: u64,
    /// Ticks out.
    ticks: u64,
    /// Hashes since the last tick.
    in_tick: u64,
    /// Microblocks taken.
    taken: u64,
    /// Microblocks there will be; `None` until pack is done.
    total: Option<u64>,
}

impl PohChain {
    /// A chain that goes on from `hash`, the last hash of `parent_slot`, with `slot` beginning at `start_ns`.
    ///
    /// # Errors
    /// A [`ConfigError`] when the rules leave no room for a block.
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

    /// Waits for its turn on a block, which ends with `hash`. For between slots; a slot that was to be made and has
    /// not begun is not made.
    pub fn wait_on(&mut self, parent_slot: u64, hash: [u8; 32], now_ns: u64) {
        self.turn = Turn::Waits(Skipped::on(parent_slot, hash, now_ns));
    }

    /// The block that it waits on, and that one's last hash.
    pub fn waits_on(&self) -> Option<(u64, [u8; 32])> {
        match &self.turn {
            Turn::Waits(skipped) => Some(skipped.parent()),
            _ => None,
        }
    }

    /// Makes `slot` on the block that it waits on, from `now_ns` on, or on its own last one from when that should have
    /// ended. For a chain that waits, and a slot above that block's.
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

    /// Goes on by at most [`HASHES_PER_STEP`] hashes or one tick, as far as the time `now_ns` allows.
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

    /// The microblock that comes next, of the slot under way; `None` when none may come before a step.
    pub fn wants(&self) -> Option<(u64, u64)> {
        let active = self.active?;
        let id = active.taken;
        self.may_mix(self.slot, id).is_ok().then_some((self.slot, id))
    }

    /// Mixes in a microblock and returns its entry. A microblock of which nothing was committed has no mixin:
    /// it is taken note of and leaves no entry.
    ///
    /// # Errors
    /// [`Refused`]; the chain is as it was.
    pub fn mix(&mut self, slot: u64, id: u64, mixin: Option<[u8; 32]>) -> Result<Option<Entry>, Refused> {
        self.may_mix(slot, id)?;
        let active = self.active.as_mut().ok_or(Refused::NoSlot)?;
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

    /// Pack schedules no more in `slot`: it has `microblocks` in all. What it says of other slots is ignored.
    ///
    /// # Errors
    /// [`Refused::Full`] when that is more than the slot may have or fewer than were mixed in already.
    pub fn done_packing(&mut self, slot: u64, microblocks: u64) -> Result<(), Refused> {
        let max = self.max_microblocks;
        if let Some(active) = self.active.as_mut().filter(|_| slot == self.slot) {
            if microblocks > max || microblocks < active.taken {
                return Err(Refused::Full(max.min(active.taken)));
            }
            active.total = Some(microblocks);
        }
        Ok(())
    }

    /// The slot under way need not last longer: it ends as soon as it can.
    pub fn hurry(&mut self, now_ns: u64) {
        if let Some(active) = &mut self.active {
            active.end_ns = active.end_ns.min(now_ns.max(active.start_ns + 1));
        }
    }

    /// The next slot begins at `at_ns`.
    pub fn schedule(&mut self, at_ns: u64) {
        self.scheduled_ns = at_ns;
    }

    /// The chain's hash.
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// The slot under way, or the next one.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// Whether no slot is under way, nor to be made: the next step begins one, or waits for its turn.
    pub fn is_between_slots(&self) -> bool {
        self.active.is_none() && matches!(self.turn, Turn::Always | Turn::Waits(_))
    }

    /// How late the slot under way began, nanoseconds.
    pub fn late_ns(&self) -> u64 {
        self.late_ns
    }

    /// By how much the schedule was moved in all, nanoseconds.
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
                // What it skips may have taken its time.
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
        // A core too slow for the rate makes slots longer than planned: pack may use most of what the last one took.
        let hashing_late = self.late_ns > 0 && self.config.hashes_per_tick.is_some();
        let likely_ns = if hashing_late { self.took_ns.min(LAG_SLOTS_MAX * slot_ns) / 8 * 7 } else { 0 };
        let end_ns = end_ns.max(now_ns + likely_ns);
        let end_ns = end_ns - self.margin_ns(end_ns - now_ns);
        Step::SlotBegan { slot, start_ns: now_ns, end_ns, max_microblocks }
    }

    /// How long before a slot's end the reserve would stop the chain, one tick at least: pack should be done by then.
    /// In low power nothing is reserved, and a slot that ends late by what banks have in hand takes it from the next.
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
        // A few ticks come together: each time of its own would wake a core that has nothing to do.
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
        // The end of this step, were there enough time.
        let to_tick = hashes - active.in_tick;
        let wanted = if to_tick == 1 { 1 } else { HASHES_PER_STEP.min(to_tick - 1) };
        let last_tick = to_tick == 1 && active.ticks + 1 == ticks;
        let spare = if to_tick == 1 { u64::MAX } else { self.spare(&active, hashes) };
        if spare == 0 || (last_tick && active.total != Some(active.taken)) {
            return Step::Waiting;
        }
        let count = wanted.min(spare);
        if done + count > due {
            // Rounded up: by then they are due.
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

    /// Hashes that may pass without a microblock before too few are left for those that may still come.
    fn spare(&self, active: &Active, hashes: u64) -> u64 {
        let ticks_left = self.config.ticks_per_slot - active.ticks;
        let room = ticks_left * hashes - active.in_tick - ticks_left;
        room - (active.total.unwrap_or(self.max_microblocks) - active.taken).min(room)
    }

    fn may_mix(&self, slot: u64, id: u64) -> Result<(), Refused> {
        let active = self.active.as_ref().ok_or(Refused::NoSlot)?;
        let max = active.total.unwrap_or(self.max_microblocks);
        let at_tick = self.config.hashes_per_tick.is_some_and(|hashes| active.in_tick + 1 == hashes);
        match active.taken {
            _ if slot != self.slot => Err(Refused::Slot(slot, self.slot)),
            taken if id != taken => Err(Refused::Order(id, taken)),
            taken if taken >= max => Err(Refused::Full(max)),
            _ if at_tick => Err(Refused::Tick),
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
