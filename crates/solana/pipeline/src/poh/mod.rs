//! poh: hashes continuously, mixes in microblocks and delimits slots.
//!
//! reads   `bank_poh` ×B, reliable: executed microblocks, consumed strictly in the order of their ids (the frag's tag);
//!         `pack_poh`, reliable: the number of microblocks of a slot; `store_poh`, reliable: whether the disk has room;
//!         on a node alone, `rpc_poh`, reliable: requested slots; in a cluster, `replay_poh`, reliable: orders to
//!         produce slots
//! writes  `poh_pack`, reliable: a leader slot has started or ended; `poh_shred`, reliable: every entry; in a cluster,
//!         `poh_replay`, reliable: the outcome of an order
//! memory  constant; microblocks that arrive out of order stay on their links
//! drops   nothing
//! source  chain.rs for producing blocks, check.rs for verifying them
//!
//! With slots on demand (demand.rs), a slot starts when there is work and ends when pack has none left.
//!
//! While the disk has no room for blocks, no slot starts. With a slot that would activate a feature which this program
//! lacks the chain ends: the tile reports the feature, and the node ends.
//!
//! In a cluster, consensus decides when a slot starts and on which parent (leader_control.rs); shred first receives the
//! parent's last Merkle root to chain to.
//!
//! The ledger learns of a slot's start before pack does, so that banks find its bank, and of its end, with the
//! blockhash, before the next slot starts.
//!
//! On a shared core poh hashes for as long as the other tiles have just run, but at least 20 µs: at most half of the
//! core, and at least what is due. In low power it uses next to no time.

pub mod chain;
pub mod check;
mod demand;
mod leader_control;
mod skipped;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tile_tests;
#[cfg(test)]
mod turn_tests;

use std::sync::Arc;

use hearth_ledger::{Commitment, Ledger, SlotError};
use hearth_ring::FragMeta;
use hearth_tile::{Filter, Frag, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};

use crate::failure::Failure;
use crate::links::{
    BANK_POH, CHAINS_TO, DISK_FULL, DonePacking, ExecutedMicroblock, HAD_WORK, LeaderSlot, PACK_POH, POH_PACK,
    POH_REPLAY, POH_SHRED, PohEntry, PohEntryAt, REPLAY_POH, RPC_POH, SLOT_BEGINS, SLOT_ENDED, STORE_POH, WORK_WAITS,
};
use chain::{Entry, PohChain, Step};
pub use demand::OnDemand;
use demand::{Demand, Progress};
use leader_control::Turns;
pub use leader_control::{LeaderAnswer, LeaderOrder, Parent};

/// Maximum hashes per [`PohChain::step`]: 10–20 µs on a core from 2020.
const HASHES_PER_STEP: u64 = 256;

hearth_tile::counters! {
    /// The counters of poh.
    pub struct Counters {
        /// Ticks that the chain has emitted.
        ticks: Counter,
        /// Slots that have ended.
        slots: Counter,
        /// Microblocks received from banks, including those without committed transactions.
        microblocks: Counter,
        /// Transactions mixed into the chain.
        transactions: Counter,
        /// Hashes that the chain has done.
        hashes: Counter,
        /// The slot under way.
        slot: Gauge,
        /// How late the slot under way began, nanoseconds.
        late_ns: Gauge,
        /// By how much the schedule was moved since the chain could not catch up, nanoseconds.
        forgiven_ns: Counter,
    }
}

/// Minimum time to keep hashing in one call, if enough hashes are due.
const TURN_NS_MIN: u64 = 20_000;
/// Maximum chain steps per call.
const STEPS_MAX: u32 = 128;
/// Maximum ticks and slot starts per call. Each may publish one frag to `poh_shred` and one to `poh_pack`.
const TOLD_MAX: usize = 8;

/// The chain's parameters and the ledger for which it produces blocks.
#[derive(Clone)]
pub struct Config {
    /// Parameters of the chain.
    pub chain: chain::Config,
    /// Set if slots start on demand; `None`: by the clock.
    pub on_demand: Option<OnDemand>,
    /// The chain continues from this ledger's last block.
    pub ledger: Arc<Ledger>,
    /// Receives why no more slot can begin.
    pub failure: Failure<SlotError>,
}

/// Runs the chain against the clock.
pub struct Poh {
    chain: PohChain,
    ledger: Arc<Ledger>,
    pack_in: In,
    store_in: In,
    /// Requests for slots; `None` in a cluster.
    calls_in: Option<In>,
    pack: Port,
    shred: Port,
    demand: Option<Demand>,
    /// Leader turns as consensus assigns them; `None`: this node leads every slot.
    turns: Option<Turns>,
    /// The disk has no room for blocks, so no slot starts.
    is_disk_full: bool,
    failure: Failure<SlotError>,
    /// No more slot can begin, and the node ends.
    has_failed: bool,
    /// The parent of the current or next slot.
    parent_slot: u64,
    /// When the chain next has something to do.
    due_ns: Option<u64>,
    /// When the last call ended.
    left_ns: u64,
}

impl Tile for Poh {
    const NAME: &'static str = "poh";
    const BURST: usize = TOLD_MAX + 1;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let last = config.ledger.recent_blocks(1)[0];
        let now = host.clock().now();
        let chain = PohChain::new(config.chain, last.slot + 1, last.slot, last.blockhash, now);
        let mut chain = chain.map_err(|e| host.error(e))?;
        let orders = host.inputs_named(REPLAY_POH).first().copied();
        let turns = orders.zip(host.outputs(POH_REPLAY).first().copied());
        let turns = turns.map(|(orders, answers)| Turns::new(orders, answers));
        if turns.is_some() {
            chain.wait_on(last.slot, last.blockhash, now);
        }
        host.input(BANK_POH)?;
        Ok(Self {
            chain,
            ledger: config.ledger,
            pack_in: host.input(PACK_POH)?,
            store_in: host.input(STORE_POH)?,
            calls_in: host.inputs_named(RPC_POH).first().copied(),
            pack: host.output(POH_PACK)?,
            shred: host.output(POH_SHRED)?,
            demand: config.on_demand.map(|rules| Demand::new(rules, last.slot + 1, now)),
            turns,
            is_disk_full: false,
            failure: config.failure,
            has_failed: false,
            parent_slot: last.slot,
            due_ns: Some(now),
            left_ns: now,
        })
    }

    fn filter(&mut self, meta: &FragMeta, input: In) -> Filter {
        let is_order = self.turns.as_ref().is_some_and(|turns| turns.orders == input);
        let is_word = is_order || [Some(self.pack_in), Some(self.store_in), self.calls_in].contains(&Some(input));
        let is_next = is_word || self.chain.wants().is_some_and(|(_, id)| id == meta.tag);
        if is_next { Filter::Take } else { Filter::Later }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        if self.has_failed {
            return;
        }
        if frag.input() == self.pack_in {
            self.on_pack(&frag, out.now());
        } else if frag.input() == self.store_in {
            self.is_disk_full = frag.control() == DISK_FULL;
        } else if self.calls_in == Some(frag.input()) {
            self.demand.iter_mut().for_each(|demand| demand.call_for(frag.tag()));
        } else if let Some(turns) = self.turns.as_mut().filter(|turns| turns.orders == frag.input()) {
            turns.hear(&frag, out);
        } else {
            let executed = ExecutedMicroblock::read(frag.payload());
            let mixin = (executed.txn_count > 0).then_some(executed.mixin);
            let entry = self.chain.mix(executed.slot, executed.id, mixin).expect("the filter lets only the next pass");
            out.count.microblocks += 1;
            if let Some(entry) = entry {
                out.count.transactions += u64::from(executed.txn_count);
                self.publish(&entry, executed.txn_count, executed.txns, out);
            }
        }
        // The chain may have been waiting for this frag.
        self.due_ns = Some(out.now());
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        if self.has_failed {
            return Poll::Idle;
        }
        let began = out.now();
        self.on_consensus(out);
        if self.chain.is_between_slots()
            && let Err(look_at) = self.may_begin(began)
        {
            (self.due_ns, self.left_ns) = (look_at, began);
            return Poll::Idle;
        }
        let until = began + began.saturating_sub(self.left_ns).max(TURN_NS_MIN);
        let mut now = began;
        let (mut work, mut published) = (Poll::Idle, 0);
        for steps in 1..=STEPS_MAX {
            let step = self.chain.step(now);
            self.due_ns = Some(now);
            match step {
                Step::Early(when) => self.due_ns = Some(when),
                Step::Waiting => self.due_ns = None,
                Step::Hashed => {}
                Step::SlotBegan { slot, start_ns, end_ns, max_microblocks } => {
                    let bank = match self.ledger.begin_slot(slot, self.parent_slot) {
                        Ok(bank) => bank,
                        Err(why) => {
                            self.fail(why);
                            return Poll::Idle;
                        }
                    };
                    let blockhash = *bank.parent_blockhash();
                    // While epoch rewards are distributed, transactions that change stakes are rejected. With slots on
                    // demand the next slot is a moment away, so all work waits for the end of the distribution.
                    let waits = self.demand.is_some() && self.ledger.is_epoch_turning();
                    let max_microblocks = if waits { 0 } else { max_microblocks };
                    let begins = LeaderSlot { slot, start_ns, end_ns, max_microblocks, blockhash };
                    out.publish_control(self.pack, slot, SLOT_BEGINS, &begins.encode());
                }
                Step::Tick(entry) => self.tick(&entry, out),
            }
            if matches!(step, Step::Early(_) | Step::Waiting) {
                break;
            }
            work = Poll::Busy;
            now = out.fresh_now();
            published += usize::from(step != Step::Hashed);
            // The next slot follows an ended one immediately: until pack receives its start, nothing executes.
            let ended = matches!(step, Step::Tick(Entry { last: true, .. }));
            // The next turn asks whether the next slot may start: an unused answer would be lost, and with it the
            // request of the waiting work.
            if published == TOLD_MAX || steps == STEPS_MAX || (now >= until && !ended) {
                break;
            }
            if ended && let Err(look_at) = self.may_begin(now) {
                self.due_ns = look_at;
                break;
            }
        }
        self.left_ns = now;
        work
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        out.count.slot = self.chain.slot();
        out.count.late_ns = self.chain.late_ns();
        out.count.forgiven_ns = self.chain.forgiven_ns();
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        wait.until(self.due_ns);
    }
}

impl Poh {
    /// Ends the chain here: with the next slot it would have a rule that this program lacks. No other tile has learned
    /// of that slot.
    fn fail(&mut self, why: SlotError) {
        let is_feature = matches!(why, SlotError::Feature { .. });
        assert!(is_feature, "poh alone begins slots, one after the other: {why}");
        self.failure.set(why);
        self.has_failed = true;
        self.due_ns = None;
    }

    fn on_pack(&mut self, frag: &Frag<'_>, now: u64) {
        if frag.control() == WORK_WAITS {
            self.demand.iter_mut().for_each(Demand::work_waits);
            return;
        }
        let done = DonePacking::read(frag.payload());
        self.chain.done_packing(done.slot, done.microblocks).expect("pack keeps to the slot's limit");
        if let Some(demand) = &mut self.demand {
            self.chain.hurry(now);
            if frag.control() & HAD_WORK != 0 {
                demand.worked(done.slot);
            }
            if frag.control() & WORK_WAITS != 0 {
                demand.work_waits();
            }
        }
    }

    /// Whether the next slot may start; otherwise when to ask again, or `None` to wait for an event.
    fn may_begin(&mut self, now: u64) -> Result<(), Option<u64>> {
        if self.turns.is_some() {
            return Ok(());
        }
        if self.is_disk_full {
            // Store reports when the disk has room.
            return Err(None);
        }
        let Some(demand) = &mut self.demand else { return Ok(()) };
        let slot = |commitment| self.ledger.slot(commitment);
        let confirmed = slot(Commitment::Confirmed);
        // No other node produces blocks, so blocks with this node's votes are final. Waiting 32 more slots would only
        // age blockhashes, which clients keep for 30 s. If the node does not vote this has no effect, and the slots
        // come.
        self.ledger.mark_rooted(confirmed);
        let finalized = slot(Commitment::Finalized);
        let is_epoch_turning = self.ledger.is_epoch_turning();
        demand.begin(Progress { ended: self.parent_slot, confirmed, finalized, is_epoch_turning }, now)?;
        self.chain.schedule(now);
        Ok(())
    }

    /// Between slots: applies the latest order of consensus.
    fn on_consensus(&mut self, out: &mut Out<'_, Self>) {
        let Some(turns) = self.turns.as_mut().filter(|_| self.chain.is_between_slots()) else { return };
        let now = out.now();
        // While the disk has no room the order stays pending and can be retracted.
        let Some((parent, make)) = turns.take(!self.is_disk_full) else { return };
        // Keep the ticks that were already hashed ahead on this parent.
        if self.chain.waits_on() != Some((parent.slot, parent.blockhash)) {
            self.chain.wait_on(parent.slot, parent.blockhash, now);
        }
        if let Some(slot) = make {
            self.parent_slot = parent.slot;
            out.publish_control(self.shred, slot, CHAINS_TO, &parent.block_id);
            self.chain.lead(slot, now);
        }
    }

    fn tick(&mut self, entry: &Entry, out: &mut Out<'_, Self>) {
        out.count.ticks += 1;
        self.publish(entry, 0, &[], out);
        if entry.last {
            let slot = entry.slot;
            self.ledger.end_slot(slot, entry.hash).expect("poh alone ends slots");
            let now = out.now();
            let ended = LeaderSlot { slot, start_ns: now, end_ns: now, max_microblocks: 0, blockhash: entry.hash };
            out.publish_control(self.pack, slot, SLOT_ENDED, &ended.encode());
            out.count.slots += 1;
            self.parent_slot = slot;
            self.demand.iter_mut().for_each(|demand| demand.ended(now));
            if let Some(turns) = &self.turns {
                self.chain.wait_on(slot, entry.hash, now);
                turns.ended(slot, out);
            }
        }
    }

    fn publish(&mut self, entry: &Entry, txn_count: u16, txns: &[u8], out: &mut Out<'_, Self>) {
        let Entry { slot, parent_slot, tick, last, num_hashes, hash } = *entry;
        out.count.hashes += num_hashes;
        let at = PohEntryAt { slot, parent_slot, tick, last };
        out.publish_with(self.shred, slot, |buffer| {
            PohEntry::write(buffer, &at, num_hashes, &hash, txn_count.into(), txns)
        });
    }
}
