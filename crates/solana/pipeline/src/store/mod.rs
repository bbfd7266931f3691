//! store: writes signed FEC sets to the block store, and reports durable blocks to the ledger.
//!
//! reads   `shred_store` ×S, reliable: one FEC set per frag, or a slot whose block is void; with a history,
//!         `bank_store` ×B, reliable: chunks of a batch of transaction metadata; in a cluster `replay_store`, reliable:
//!         confirmed slots and, with a history, chunks of batches for other nodes' blocks
//! writes  the block store; the history; if the node makes blocks, `store_poh`, elective: whether the disk has room for
//!         them; if it votes alone, `store_tower`, reliable: the newest block that is durable with all before it, else
//!         the ledger's stored slot; in a cluster `store_replay`, reliable: slots that are started, whole or void
//! memory  one set while the disk is full; 16 B per block whose parent is not yet durable, and 4 B per set of those; 40
//!         B per block to report to tower; the recorder's
//! drops   sets that cannot belong to their block and sets stored before, both counted; transaction metadata as the
//!         recorder does: `history_lost_blocks`
//! source  [`hearth_ledger::blockstore`]
//!
//! If the disk is full, poh starts no slot. The tile logs that once, retries the set at hand every 100 ms, confirms no
//! block that is not stored, and continues when there is room. With a history, a block counts as confirmed only once it
//! can be found there too, because clients query a transaction as soon as they learn that it is confirmed. A disk that
//! lost data ends the node: promises already made may not hold.
//!
//! Store takes replay's messages whatever the disk does, and replay takes store's: neither waits for the other.

mod recorder;
#[cfg(test)]
mod tests;
mod unconfirmed;

pub use recorder::block_meta;
pub use unconfirmed::BYTES_MAX as UNCONFIRMED_BYTES_MAX;

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_ledger::blockstore::{AppendResult, BlockStore, StoreError};
use hearth_ledger::history::{History, HistoryError};
use hearth_ring::FragMeta;
use hearth_tile::{Filter, Frag, Host, In, InitError, LatencyDecl, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::Hash;

use crate::links::{
    BANK_STORE, CONFIRMED, DISK_FULL, DUMP, HISTORY_BEGINS, REPLAY_STORE, SHRED_STORE, STORE_POH, STORE_REPLAY,
    STORE_TOWER, read_set,
};
use recorder::Recorder;

hearth_tile::counters! {
    /// The counters of store.
    pub struct Counters {
        /// FEC sets appended to the block store.
        sets: Counter,
        /// Bytes of entries appended to the block store.
        bytes: Counter,
        /// Blocks with all FEC sets stored.
        blocks: Counter,
        /// FEC sets dropped: stored before.
        dropped_duplicate: Counter,
        /// FEC sets dropped: they cannot belong to their block.
        dropped_malformed: Counter,
        /// Blocks made void so that another block of their slot can be stored.
        dumped: Counter,
        /// FEC sets not stored since storing is switched off from their slot on.
        switched_off: Counter,
        /// Attempts to append to the block store that failed for want of room or another error of the disk; each was
        /// tried again.
        failed_attempts: Counter,
        /// Whether the tile waits for room on the disk.
        waiting_for_room: Gauge,
        /// Bytes of the block store on disk.
        disk_bytes: Gauge,
        /// Bytes of the transaction history on disk.
        history_bytes: Gauge,
        /// Pieces of transaction metadata received, of own blocks and of others'.
        history_pieces: Counter,
        /// Blocks recorded without their transactions, for which there was no room while the cluster had not confirmed
        /// them.
        history_lost_blocks: Counter,
        /// The newest block that is durable, with all before it where the node alone makes blocks.
        durable_slot: Gauge,
        /// The newest snapshot's slot; 0 while there is none.
        snapshot_slot: Gauge,
        /// Snapshots of the state taken.
        snapshots: Counter,
        /// Snapshots given up for want of room or another error.
        failed_snapshots: Counter,
        /// Archives of the cluster's format written.
        archives: Counter,
        /// Archives given up for want of room or another error.
        failed_archives: Counter,
    }
}

/// Latency from a transaction's entry into the node until its block is on disk.
pub const DURABLE: LatencyDecl = LatencyDecl {
    name: "received_to_durable",
    help: "Time from the receipt of a transaction until its block is on disk with all before it; of each FEC set, the first of its batch.",
    by_loop: false,
};

/// How long to wait before retrying a set that the disk refused.
const RETRY_NS: u64 = 100_000_000;

/// How often to check a block that waits for the end of its slot or for its last transactions.
const RECORD_NS: u64 = 1_000_000;

/// The opened block store, and the ledger to report to.
pub struct Config {
    store: BlockStore,
    history: Option<History>,
    ledger: Arc<Ledger>,
    /// In a cluster: the newest confirmed slot at startup.
    confirmed: Option<u64>,
}

impl Config {
    /// Creates the configuration of a node without history that is in no cluster.
    pub fn new(store: BlockStore, ledger: Arc<Ledger>) -> Self {
        Self { store, history: None, ledger, confirmed: None }
    }

    /// Makes the tile write a history of transactions.
    pub fn with_history(self, history: History) -> Self {
        Self { history: Some(history), ..self }
    }

    /// For a node in a cluster: there are forks, and a block counts as confirmed when the cluster has confirmed it.
    /// `confirmed` is the newest such slot at startup.
    pub fn in_cluster(self, confirmed: u64) -> Self {
        Self { confirmed: Some(confirmed), ..self }
    }
}

/// Stores sets and reports durable blocks.
pub struct Store {
    /// The block store; `None` once the tile has stopped.
    store: Option<BlockStore>,
    ledger: Arc<Ledger>,
    recorder: Option<Recorder>,
    /// Inputs from shred; the others carry transaction metadata.
    sets: Vec<In>,
    /// When to call the recorder again.
    record_at: Option<u64>,
    /// In a cluster: the newest confirmed slot.
    confirmed: Option<u64>,
    /// Output to replay, which executes other nodes' blocks.
    replay: Option<Port>,
    from_replay: Option<In>,
    /// Output to poh, if the node makes blocks.
    poh: Option<Port>,
    /// Whether poh was notified that the disk has no room.
    has_stopped_poh: bool,
    /// Output to tower, if the node is alone and votes.
    tower: Option<Port>,
    /// The ids of whole blocks not yet reported to tower.
    block_ids: BTreeMap<u64, Hash>,
    /// The newest block that is durable with all before it.
    durable_slot: u64,
    /// With forks: the blocks that have just become durable.
    forks_durable: Vec<u64>,
    /// The newest durable block that was reported to tower or to the ledger.
    reported_slot: u64,
    /// Slot and parent of blocks that are whole but not yet durable.
    whole: BTreeMap<u64, u64>,
    /// Parent and slot of blocks that became durable before their parents.
    early: BTreeMap<u64, u64>,
    /// Receipt times of the sets of each slot that is not yet durable.
    origins_us: BTreeMap<u64, Vec<u32>>,
    /// A set that the disk refused, as received; for a slot to dump, its number.
    kept_back: Vec<u8>,
    retry_at: Option<u64>,
    /// The disk refuses blocks, and that was logged.
    stands: bool,
    /// The disk refuses the history.
    record_stuck: bool,
}

impl Tile for Store {
    const NAME: &'static str = "store";
    const LATENCIES: &'static [LatencyDecl] = &[DURABLE];
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        host.input(SHRED_STORE)?;
        let Config { mut store, history, ledger, confirmed } = config;
        let durable_slot = ledger.recent_blocks(1)[0].slot;
        if confirmed.is_none() {
            // Anything that a killed run left after the chain's last block is not part of it: those slots are produced
            // again.
            store.discard_from(durable_slot + 1).map_err(|e| host.error(e))?;
        }
        let waker = host.waker();
        store.on_durable(move || waker.wake());
        let has_banks = !host.inputs_named(BANK_STORE).is_empty();
        if history.is_some() != has_banks && (has_banks || confirmed.is_none()) {
            return Err(host.error("a history and links from the banks go together"));
        }
        let waker = host.waker();
        let is_in_cluster = confirmed.is_some();
        let recorder = history
            .map(|history| Recorder::new(history, ledger.clone(), durable_slot, is_in_cluster, move || waker.wake()));
        let poh = host.outputs(STORE_POH).first().copied();
        // Poh waits for shred, and shred for this tile, so this tile must not wait for poh.
        poh.iter().for_each(|poh| host.elective(*poh));
        Ok(Self {
            store: Some(store),
            replay: host.outputs(STORE_REPLAY).first().copied(),
            from_replay: confirmed.map(|_| host.input(REPLAY_STORE)).transpose()?,
            poh,
            has_stopped_poh: false,
            tower: host.outputs(STORE_TOWER).first().copied(),
            block_ids: BTreeMap::new(),
            ledger,
            confirmed,
            recorder,
            sets: host.inputs_named(SHRED_STORE),
            record_at: None,
            durable_slot,
            forks_durable: vec![],
            reported_slot: durable_slot,
            whole: BTreeMap::new(),
            early: BTreeMap::new(),
            origins_us: BTreeMap::new(),
            kept_back: Vec::with_capacity(usize::from(u16::MAX)),
            retry_at: None,
            stands: false,
            record_stuck: false,
        })
    }

    fn filter(&mut self, _meta: &FragMeta, input: In) -> Filter {
        let may = match &self.recorder {
            _ if self.from_replay == Some(input) => true,
            Some(recorder) if !self.sets.contains(&input) => recorder.has_room(),
            _ => self.retry_at.is_none(),
        };
        if may { Filter::Take } else { Filter::Later }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        if self.from_replay == Some(frag.input()) {
            return self.take_from_replay(&frag, out);
        }
        if !self.sets.contains(&frag.input())
            && let Some(recorder) = &mut self.recorder
        {
            recorder.take(frag.input().index(), frag.control(), frag.payload(), false);
            out.count.history_pieces += 1;
            return;
        }
        let slot = frag.tag().to_le_bytes();
        let payload = if frag.control() == DUMP { &slot[..] } else { frag.payload() };
        if !self.append(payload, out) {
            self.kept_back.clear();
            self.kept_back.extend_from_slice(payload);
            self.retry_at = Some(out.now() + RETRY_NS);
        }
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let mut work = self.record(out);
        if self.report_durable(out) == Poll::Busy {
            self.record_latencies(out);
            work = Poll::Busy;
        }
        if self.retry_at.is_some_and(|at| out.now() >= at) {
            let set = std::mem::take(&mut self.kept_back);
            self.retry_at = if self.append(&set, out) { None } else { Some(out.now() + RETRY_NS) };
            self.kept_back = set;
            work = Poll::Busy;
        }
        self.resume();
        self.notify_poh(out);
        work
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        out.count.disk_bytes = self.store.as_ref().map_or(0, BlockStore::disk_bytes);
        out.count.history_bytes = self.recorder.as_ref().map_or(0, Recorder::disk_bytes);
        out.count.waiting_for_room = self.stands.into();
        out.count.durable_slot = self.durable_slot;
        if let Some(confirmed) = self.confirmed {
            // Blocks that never became whole.
            self.origins_us = self.origins_us.split_off(&confirmed);
            self.whole = self.whole.split_off(&confirmed);
        }
        out.count.history_lost_blocks = self.recorder.as_ref().map_or(0, |recorder| recorder.lost_blocks);
        if let Some(snapshots) = self.ledger.snapshots() {
            out.count.snapshot_slot = snapshots.newest_slot().unwrap_or(0);
            (out.count.snapshots, out.count.failed_snapshots) = snapshots.counts();
            (out.count.archives, out.count.failed_archives) = snapshots.archive_counts();
        }
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        wait.until(self.retry_at);
        wait.until(self.record_at);
    }

    fn stop(&mut self, _out: &mut Out<'_, Self>) {
        // Syncs and closes.
        self.store = None;
        self.recorder = None;
    }
}

impl Store {
    /// Handles a message of replay: a confirmed slot, the start of a block's batches, or a chunk of one.
    fn take_from_replay(&mut self, frag: &Frag<'_>, out: &mut Out<'_, Self>) {
        if frag.control() == CONFIRMED {
            self.confirmed = self.confirmed.max(Some(frag.tag()));
            return;
        }
        // Only after `stop`.
        let Some(recorder) = &mut self.recorder else { return };
        if frag.control() == HISTORY_BEGINS {
            let dropped: [u8; 8] = frag.payload().try_into().expect("a number of transactions");
            recorder.begin(frag.tag(), u64::from_le_bytes(dropped));
        } else {
            recorder.take(frag.input().index(), frag.control(), frag.payload(), true);
            out.count.history_pieces += 1;
        }
    }

    /// Appends one set; returns false if the disk refused it and it must be retried.
    fn append(&mut self, payload: &[u8], out: &mut Out<'_, Self>) -> bool {
        let Some(store) = &mut self.store else { return true };
        if let Ok(slot) = payload.try_into() {
            return self.dump(u64::from_le_bytes(slot), out);
        }
        let set = read_set(payload);
        let appended = store.append_set(&set);
        if set.last_in_slot
            && self.tower.is_some()
            && matches!(appended, Ok(AppendResult::Stored { .. } | AppendResult::Disabled))
        {
            self.block_ids.insert(set.slot, set.merkle_root);
        }
        match appended {
            Ok(AppendResult::Stored { slot_whole }) => {
                out.count.sets += 1;
                out.count.bytes += set.data.len() as u64;
                let is_first = !self.origins_us.contains_key(&set.slot);
                self.origins_us.entry(set.slot).or_default().push(out.origin_us());
                if is_first || slot_whole {
                    self.replay.iter().for_each(|replay| out.publish(*replay, set.slot, &[]));
                }
                if slot_whole {
                    out.count.blocks += 1;
                    self.whole.insert(set.slot, set.parent_slot);
                    if let Some(recorder) = &mut self.recorder {
                        recorder.whole(set.slot, set.parent_slot);
                    }
                }
            }
            Ok(AppendResult::Duplicate) => out.count.dropped_duplicate += 1,
            Ok(AppendResult::Disabled) => {
                // Nothing is promised about these blocks, and nothing may wait for them.
                out.count.switched_off += 1;
                if set.last_in_slot {
                    self.durable(set.slot, set.parent_slot);
                }
            }
            Err(StoreError::BadSet { .. }) => out.count.dropped_malformed += 1,
            Err(fatal @ StoreError::SyncFailed(_)) => panic!("{fatal}"),
            Err(why) => {
                out.count.failed_attempts += 1;
                self.halt(&why);
                return false;
            }
        }
        true
    }

    /// Voids what is stored of a slot; returns false if the disk refused that and it must be retried.
    fn dump(&mut self, slot: u64, out: &mut Out<'_, Self>) -> bool {
        let Some(store) = &mut self.store else { return true };
        match store.dump(slot) {
            Ok(was_there) => {
                out.count.dumped += u64::from(was_there);
                self.whole.remove(&slot);
                self.early.retain(|_, early| *early != slot);
                self.origins_us.remove(&slot);
                self.replay.iter().for_each(|replay| out.publish(*replay, slot, &[]));
                true
            }
            Err(fatal @ StoreError::SyncFailed(_)) => panic!("{fatal}"),
            Err(why) => {
                out.count.failed_attempts += 1;
                self.halt(&why);
                false
            }
        }
    }

    /// Handles a full disk: no slot starts until there is room, and that is logged once.
    fn halt(&mut self, why: &dyn std::error::Error) {
        if !std::mem::replace(&mut self.stands, true) {
            tracing::error!("{why}; the chain halts until then");
        }
    }

    fn resume(&mut self) {
        if self.retry_at.is_none() && !self.record_stuck && std::mem::take(&mut self.stands) {
            tracing::warn!("blocks are stored again, the chain continues");
        }
    }

    /// Notifies poh whether slots may start, if that has changed and its link has room.
    fn notify_poh(&mut self, out: &mut Out<'_, Self>) {
        let Some(poh) = self.poh.filter(|_| self.has_stopped_poh != self.stands) else { return };
        if out.credits(poh, 1) == 0 {
            return out.held_up();
        }
        out.publish_control(poh, 0, if self.stands { DISK_FULL } else { 0 }, &[]);
        self.has_stopped_poh = self.stands;
    }

    /// Reports the newest durable block: to tower, which confirms it by a vote, or else to the ledger.
    fn report_durable(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let Some(store) = &mut self.store else { return Poll::Idle };
        let durable: Vec<u64> = store.durable_slots().collect();
        for slot in &durable {
            if let Some(parent) = self.whole.remove(slot) {
                self.durable(*slot, parent);
            }
        }
        // With forks each block is durable by itself; the cluster decides which of them count.
        let durable_slot = self.confirmed.unwrap_or(self.durable_slot);
        let sure = self.recorder.as_ref().map_or(u64::MAX, Recorder::found_slot).min(durable_slot);
        if sure > self.reported_slot {
            let is_reported = match self.tower {
                Some(tower) => {
                    let later = self.block_ids.split_off(&(sure + 1));
                    let mut block_ids = std::mem::replace(&mut self.block_ids, later);
                    // What the previous run left after its last block was discarded, and the history ends there too.
                    let block_id = block_ids.remove(&sure).expect("the block's last set has passed this tile");
                    out.publish(tower, sure, &block_id);
                    true
                }
                // A ledger that is currently on another fork rejects it: it is reported again.
                None => self.ledger.mark_stored(sure),
            };
            if is_reported {
                self.reported_slot = sure;
                return Poll::Busy;
            }
        }
        if durable.is_empty() { Poll::Idle } else { Poll::Busy }
    }

    /// Lets the recorder close blocks.
    fn record(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let Some(recorder) = &mut self.recorder else { return Poll::Idle };
        if self.record_at.is_some_and(|at| out.now() < at) {
            return Poll::Idle;
        }
        self.record_at = None;
        match recorder.work(self.confirmed) {
            Ok(closed) => {
                self.record_stuck = false;
                if recorder.is_waiting(self.confirmed) {
                    self.record_at = Some(out.now() + RECORD_NS);
                }
                if closed { Poll::Busy } else { Poll::Idle }
            }
            Err(why @ HistoryError::NoRoom { .. }) => {
                out.count.failed_attempts += 1;
                self.record_stuck = true;
                self.halt(&why);
                self.record_at = Some(out.now() + RETRY_NS);
                Poll::Idle
            }
            Err(fatal) => panic!("{fatal}"),
        }
    }

    /// Records the latencies of the sets that have become durable.
    fn record_latencies(&mut self, out: &mut Out<'_, Self>) {
        for slot in self.forks_durable.drain(..) {
            let origins_us = self.origins_us.remove(&slot).unwrap_or_default();
            origins_us.into_iter().for_each(|origin_us| out.record_latency(0, origin_us, out.now()));
        }
        if self.confirmed.is_some() {
            return;
        }
        while let Some(slot) = self.origins_us.first_entry()
            && *slot.key() <= self.durable_slot
        {
            slot.remove().into_iter().for_each(|origin_us| out.record_latency(0, origin_us, out.now()));
        }
    }

    /// Handles a durable block: the ledger learns of it once its parent is durable.
    fn durable(&mut self, slot: u64, parent: u64) {
        if self.confirmed.is_some() {
            self.durable_slot = self.durable_slot.max(slot);
            self.forks_durable.push(slot);
            return;
        }
        self.early.insert(parent, slot);
        while let Some(next) = self.early.remove(&self.durable_slot) {
            self.durable_slot = next;
        }
    }
}
