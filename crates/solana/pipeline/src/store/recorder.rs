//! recorder: joins what the banks say of transactions with the blocks that were stored.
//!
//! reads   batches of metadata, in pieces, of banks and of replay; which blocks are whole; which slot is confirmed; the
//!         ledger's summaries of blocks
//! writes  the history: batches as they come, a block once it is whole here and in the block store
//! memory  one batch of each bank and of replay, at most 16 MiB; 24 B for each whole block that is not closed, and its
//!         summary in the ledger; where others make blocks too what [`Unconfirmed`] holds
//! drops   where others make blocks too the transactions of blocks that [`Unconfirmed`] had no room for:
//!         `history_lost_blocks`. Else nothing: with the disk full it takes no more, and the banks wait
//! source  [`hearth_ledger::history`]

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth_ledger::history::{BlockMeta, History, HistoryError, Reward, RewardKind};
use hearth_ledger::{BlockSummary, Ledger};

use super::unconfirmed::Unconfirmed;
use crate::links::MORE;

/// Joins batches and blocks.
pub(super) struct Recorder {
    history: History,
    ledger: Arc<Ledger>,
    /// A batch of which not all has come, for each input.
    pieces: Vec<Vec<u8>>,
    /// Slot and parent of the blocks that are whole in the block store.
    whole: BTreeMap<u64, u64>,
    /// The last block that was closed, or that was there at the start.
    closed: u64,
    /// The disk did not take what was to be written.
    stuck: bool,
    /// Where others make blocks too: a block is closed once the cluster has confirmed it.
    unconfirmed: Option<Unconfirmed>,
    /// The block that the disk had no room to close.
    closing: Option<BlockMeta>,
    /// Blocks closed without their transactions, for which there was no room while they waited, here or in replay.
    pub lost_blocks: u64,
}

impl Recorder {
    /// Goes on behind the last block of the chain, `slot`; `is_in_cluster` says whether others make blocks too.
    /// `notify` is called whenever there may be something to do.
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
            unconfirmed: is_in_cluster.then(Unconfirmed::default),
            closing: None,
            lost_blocks: 0,
        }
    }

    /// Whether more batches may be given now.
    pub fn has_room(&self) -> bool {
        !self.stuck && self.history.has_room()
    }

    /// Takes a piece of a batch from the input of this number, which is replay's if `is_replayed`, or else a bank's.
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

    /// Replay has executed a block of this slot, whose batches follow and replace those of any other one. It has
    /// dropped the metadata of `dropped` transactions of the block.
    pub fn begin(&mut self, slot: u64, dropped: u64) {
        self.unconfirmed.as_mut().expect("only a node in a cluster has replay").begin(slot, dropped);
    }

    /// A block is whole in the block store.
    pub fn whole(&mut self, slot: u64, parent: u64) {
        if self.unconfirmed.is_none() {
            self.whole.insert(slot, parent);
        }
    }

    /// Whether a block waits to be closed; `confirmed` is as in [`Recorder::work`].
    pub fn is_waiting(&self, confirmed: Option<u64>) -> bool {
        confirmed.map_or(!self.whole.is_empty(), |confirmed| confirmed > self.closed)
    }

    /// The last block that can be found.
    pub fn found_slot(&self) -> u64 {
        if self.closed > self.history.last_slot() { self.closed } else { self.history.indexed_slot() }
    }

    /// Bytes on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.history.disk_bytes()
    }

    /// Closes the blocks that are complete, and writes what is due. Where others make blocks too, `confirmed` is the
    /// newest slot that the cluster has confirmed. Returns whether a block was closed.
    ///
    /// # Errors
    /// [`HistoryError::NoRoom`]: to be tried again.
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
        // The chain is a line: blocks are closed in its order.
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
            // After a full disk the same block is closed again before anything is appended.
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
        let unconfirmed = self.unconfirmed.as_mut().expect("only a cluster confirms blocks");
        let (batches, is_dropped) = unconfirmed.take(block.slot, block.counts.committed)?;
        batches.iter().for_each(|batch| self.history.append(batch));
        let mut meta = block_meta(&block, &parent);
        if is_dropped {
            // The index takes a block that lacks transactions for a damaged one.
            meta.transaction_count = 0;
            self.lost_blocks += 1;
        }
        Some(meta)
    }

    /// What is to be remembered of a block; `None` until it has ended and all its transactions are here.
    fn complete(&self, slot: u64) -> Option<BlockMeta> {
        let block = self.ledger.summary(slot)?;
        if self.history.seen(slot) < block.counts.committed {
            return None;
        }
        Some(block_meta(&block, &self.ledger.summary(block.parent)?))
    }
}

/// What is remembered of a block.
pub fn block_meta(block: &BlockSummary, parent: &BlockSummary) -> BlockMeta {
    let reward = block.reward.map(|reward| Reward {
        pubkey: reward.collector,
        lamports: reward.lamports as i64,
        post_balance: reward.post_balance,
        kind: RewardKind::Fee,
        commission: None,
    });
    BlockMeta {
        slot: block.slot,
        parent: block.parent,
        height: block.height,
        time: block.unix_timestamp,
        blockhash: block.blockhash,
        previous_blockhash: parent.blockhash,
        transaction_count: block.counts.committed as u32,
        rewards: reward.into_iter().collect(),
    }
}
