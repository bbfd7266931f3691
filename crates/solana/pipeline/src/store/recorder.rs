//! recorder: joins transaction metadata with the blocks that were stored.
//!
//! reads   batches of metadata from banks and replay, in chunks; which blocks are whole; which slot is confirmed; the
//!         ledger's block summaries
//! writes  the history: batches as they arrive, a block once it is whole here and in the block store
//! memory  one batch per bank and of replay, at most 16 MiB; 24 B per whole block that is not closed, and its summary
//!         in the ledger; if other nodes make blocks too, what [`UnconfirmedBlocks`] holds
//! drops   if other nodes make blocks too, the transactions of blocks for which [`UnconfirmedBlocks`] had no room:
//!         `history_lost_blocks`. Otherwise nothing: while the disk is full it accepts no more, and the banks wait
//! source  [`hearth_ledger::history`]

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth_ledger::history::{BlockMeta, History, HistoryError};
use hearth_ledger::{BlockRewards, BlockSummary, Ledger, Reward, RewardKind};

use super::unconfirmed::UnconfirmedBlocks;
use crate::links::MORE;

/// Joins batches and blocks.
pub(super) struct Recorder {
    history: History,
    ledger: Arc<Ledger>,
    /// A partial batch for each input.
    pieces: Vec<Vec<u8>>,
    /// Slot and parent of the blocks that are whole in the block store.
    whole: BTreeMap<u64, u64>,
    /// The last block that was closed, or existed at startup.
    closed: u64,
    /// Whether the disk refused a write.
    stuck: bool,
    /// If other nodes make blocks too: metadata of blocks that are closed once the cluster has confirmed them.
    unconfirmed: Option<UnconfirmedBlocks>,
    /// The block that the disk had no room to close.
    closing: Option<BlockMeta>,
    /// Blocks closed without their transactions, because there was no room for those while they waited, here or in
    /// replay.
    pub lost_blocks: u64,
}

impl Recorder {
    /// Continues after the last block of the chain, `slot`; `is_in_cluster` says whether other nodes make blocks too.
    /// `notify` is called whenever there may be work.
    pub fn new(
        history: History,
        ledger: Arc<Ledger>,
        slot: u64,
        is_in_cluster: bool,
        notify: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        history.on_indexed(notify);
        ledger.keep_line_from(slot);
        Self {
            history,
            ledger,
            pieces: vec![],
            whole: BTreeMap::new(),
            closed: slot,
            stuck: false,
            unconfirmed: is_in_cluster.then(UnconfirmedBlocks::default),
            closing: None,
            lost_blocks: 0,
        }
    }

    /// Whether it accepts more batches now.
    pub fn has_room(&self) -> bool {
        !self.stuck && self.history.has_room()
    }

    /// Takes a chunk of a batch from the input with this number, which is replay's if `is_replayed`, or else a bank's.
    pub fn take(&mut self, input: usize, control: u16, piece: &[u8], is_replayed: bool) {
        if self.pieces.len() <= input {
            self.pieces.resize(input + 1, vec![]);
        }
        let batch = &mut self.pieces[input];
        if control & MORE != 0 {
            batch.extend_from_slice(piece);
            return;
        }
        let mut append = |batch: &[u8]| match &mut self.unconfirmed {
            Some(unconfirmed) if is_replayed => unconfirmed.add(batch),
            Some(unconfirmed) => unconfirmed.add_from_bank(batch),
            None => self.history.append(batch),
        };
        if batch.is_empty() {
            append(piece);
        } else {
            batch.extend_from_slice(piece);
            append(batch);
            batch.clear();
        }
    }

    /// Starts a block of this slot that replay has executed: its batches follow and replace those of any other one.
    /// Replay has dropped the metadata of `dropped` transactions of the block.
    pub fn begin(&mut self, slot: u64, dropped: u64) {
        self.unconfirmed.as_mut().expect("only a node in a cluster has replay").begin(slot, dropped);
    }

    /// Records that a block is whole in the block store.
    pub fn whole(&mut self, slot: u64, parent: u64) {
        if self.unconfirmed.is_none() {
            self.whole.insert(slot, parent);
        }
    }

    /// Whether a block is waiting to be closed; `confirmed` is as in [`Recorder::work`].
    pub fn is_waiting(&self, confirmed: Option<u64>) -> bool {
        confirmed.map_or(!self.whole.is_empty(), |confirmed| confirmed > self.closed)
    }

    /// The last block that can be found in the history.
    pub fn found_slot(&self) -> u64 {
        if self.closed > self.history.last_slot() { self.closed } else { self.history.indexed_slot() }
    }

    /// Bytes of the history on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.history.disk_bytes()
    }

    /// Closes the complete blocks, and writes what is due. If other nodes make blocks too, `confirmed` is the newest
    /// slot that the cluster has confirmed. Returns whether a block was closed.
    ///
    /// # Errors
    /// [`HistoryError::NoRoom`]: call again later.
    pub fn work(&mut self, confirmed: Option<u64>) -> Result<bool, HistoryError> {
        let done = self.close_some(confirmed);
        self.stuck = done.is_err();
        done
    }

    fn close_some(&mut self, confirmed: Option<u64>) -> Result<bool, HistoryError> {
        self.history.write_some()?;
        if let Some(confirmed) = confirmed {
            return self.close_confirmed(confirmed);
        }
        let mut any = false;
        // Without forks, blocks are closed in chain order.
        while let Some((&slot, &parent)) = self.whole.first_key_value()
            && parent == self.closed
            && let Some(block) = self.complete(slot)
        {
            self.history.close(&block)?;
            self.whole.remove(&slot);
            self.is_closed(slot);
            any = true;
        }
        Ok(any)
    }

    fn close_confirmed(&mut self, confirmed: u64) -> Result<bool, HistoryError> {
        let mut any = false;
        loop {
            // After a full disk the same block is closed first, before anything is appended.
            let Some(block) = self.closing.take().or_else(|| self.append_confirmed(confirmed)) else { return Ok(any) };
            if let Err(why) = self.history.close(&block) {
                self.closing = Some(block);
                return Err(why);
            }
            self.is_closed(block.slot);
            any = true;
        }
    }

    fn is_closed(&mut self, slot: u64) {
        self.closed = slot;
        // The next block names its parent's hash, however far the chain is ahead by then.
        self.ledger.keep_line_from(slot);
    }

    /// Appends the batches of the next block that the cluster has confirmed, once they are all here.
    fn append_confirmed(&mut self, confirmed: u64) -> Option<BlockMeta> {
        if confirmed <= self.closed || !self.history.has_room() {
            return None;
        }
        // Not while the ledger is on another fork.
        let (block, parent) = self.ledger.next_on_line(self.closed, confirmed)?;
        let rewards = rewards_of(&self.ledger, &block)?;
        let unconfirmed = self.unconfirmed.as_mut().expect("only a cluster confirms blocks");
        let (batches, is_dropped) = unconfirmed.take(block.slot, block.counts.committed)?;
        batches.iter().for_each(|batch| self.history.append(batch));
        let mut meta = block_meta(&block, &parent, &rewards);
        if is_dropped {
            // The index treats a block that lacks transactions as damaged.
            meta.transaction_count = 0;
            self.lost_blocks += 1;
        }
        Some(meta)
    }

    /// Returns the record of a block; `None` until it has ended and all its transactions are here.
    fn complete(&self, slot: u64) -> Option<BlockMeta> {
        let block = self.ledger.summary(slot)?;
        if self.history.seen(slot) < block.counts.committed {
            return None;
        }
        let rewards = rewards_of(&self.ledger, &block)?;
        Some(block_meta(&block, &self.ledger.summary(block.parent)?, &rewards))
    }
}

/// The rewards of inflation in a block; `None` if the ledger is on another fork than a moment ago.
fn rewards_of(ledger: &Ledger, block: &BlockSummary) -> Option<Arc<BlockRewards>> {
    if block.has_rewards { ledger.rewards(block) } else { Some(Arc::default()) }
}

/// Builds the record of a block, in which inflation paid these rewards.
pub fn block_meta(block: &BlockSummary, parent: &BlockSummary, rewards: &BlockRewards) -> BlockMeta {
    let reward = block.reward.map(|reward| Reward {
        pubkey: reward.collector,
        lamports: reward.lamports as i64,
        post_balance: reward.post_balance,
        kind: RewardKind::Fee,
        commission: None,
        commission_bps: None,
    });
    BlockMeta {
        slot: block.slot,
        parent: block.parent,
        height: block.height,
        time: block.unix_timestamp,
        blockhash: block.blockhash,
        previous_blockhash: parent.blockhash,
        transaction_count: block.counts.committed as u32,
        rewards: rewards.rewards.iter().copied().chain(reward).collect(),
        num_partitions: rewards.num_partitions,
    }
}
