//! Produces blocks one after the other, each executed while the one before is sealed and appended.
//!
//! reads   the pool; the signal that says when a block is due
//! writes  blocks, in order
//! memory  two blocks' changes; a thread, while blocks follow each other closely
//! drops   an executed block whose parent could not be appended: its transactions stay in the pool
//!
//! ```text
//!  this thread    ──► execute 1 ──► execute 2 ────────► execute 3 ──── …
//!  sealer                       └─► seal 1, append 1 ─► seal 2, append 2 ─► …
//! ```
//!
//! At most one block is executed ahead. No reader sees anything of a block before it is appended, and any other change
//! of the chain waits for the writer's lock, which is held until all is appended. A block is executed ahead only if
//! that can pay and its result cannot differ: the one before is not small, touches nothing of the side ledger, and
//! leaves the history contract as it is everywhere.

use std::sync::Arc;
#[cfg(test)]
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;

use super::parent::Parent;
use super::produce::{EmptyBlocks, UnsealedBlock};
use super::speculative::{AheadView, HashPublisher};
use super::{ChainError, Inner};
use crate::block::Block;
use crate::exec::Verdict;
use crate::pool::NextNonces;
use crate::state::State;

/// From how many transactions on sealing a block takes longer than handing it to another thread.
const APART_MIN: usize = 64;

/// A block that is being sealed, as the next one sees it.
struct SealingBlock {
    view: AheadView,
    parent: Parent,
    taken: NextNonces,
}

impl SealingBlock {
    fn of(on: &Inner, block: &UnsealedBlock) -> (Self, HashPublisher) {
        let base = on.published().view().clone();
        let (view, teller) = AheadView::new(base, block.env.number, block.changes.clone());
        let parent = Parent::executed(&block.env, block.gas_used, block.blob_gas_used());
        (Self { view, parent, taken: block.taken() }, teller)
    }
}

/// A block is being sealed. However that ends, the waiting threads are notified.
struct SealGuard<'a>(&'a Inner);

impl Drop for SealGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail("a panic while a block was being sealed".into());
        }
        self.0.signal.sealed();
    }
}

impl Inner {
    /// Makes the next block, and those that come due while one is being sealed. If a block would be empty and empty
    /// ones are skipped, makes none; returns whether there was a block.
    pub(super) fn make_on(&self, state: &mut State, empty: EmptyBlocks) -> Result<bool, ChainError> {
        match self.execute_next(empty)? {
            None => Ok(false),
            Some(block) if self.may_overlap(&block) => self.overlapped(state, block).map(|()| true),
            Some(block) => self.finish(state, block).map(|_| true),
        }
    }

    fn may_overlap(&self, block: &UnsealedBlock) -> bool {
        let is_crossing = self.is_crossing();
        let crosses = |verdict: &Verdict| match verdict {
            Verdict::Included(outcome) => outcome.logs.iter().any(&is_crossing),
            Verdict::Refused(_) => false,
        };
        self.config.overlap
            && block.txs.len() >= APART_MIN
            && block.part.is_untouched()
            && !block.verdicts.iter().any(crosses)
    }

    fn overlapped(&self, state: &mut State, mut block: UnsealedBlock) -> Result<(), ChainError> {
        let sealing = &mut *state;
        let left = thread::scope(|scope| -> Result<_, ChainError> {
            let (jobs, queue) = mpsc::channel::<(UnsealedBlock, HashPublisher)>();
            let (tell, sealed) = mpsc::channel();
            let work = move || {
                for (block, teller) in queue {
                    let _sealed = SealGuard(self);
                    #[cfg(test)]
                    self.let_look(block.env.number);
                    let result = self.finish_telling(sealing, block, &teller);
                    // The thread that asked may have panicked.
                    let _ = tell.send(result);
                }
            };
            if let Err(error) = thread::Builder::new().name("sealer".into()).spawn_scoped(scope, work) {
                tracing::warn!(%error, "no thread to seal a block on: it is sealed on this one");
                return Ok(Some(block));
            }
            loop {
                let (mut ahead, teller) = SealingBlock::of(self, &block);
                let may_overlap = self.may_overlap(&block) && ahead.view.is_usual();
                self.signal.sealing();
                #[cfg(test)]
                self.looked.store(!may_overlap, Ordering::Release);
                // A thread that panicked has dropped its ends, and the scope panics with it.
                if jobs.send((block, teller)).is_err() {
                    return Ok(None);
                }
                let next = if may_overlap { self.execute_meanwhile(&mut ahead) } else { Ok(None) };
                let Ok(sealed) = sealed.recv() else { return Ok(None) };
                let sealed = sealed?;
                let Some(next) = next? else { return Ok(None) };
                self.times.executed_ahead();
                block = next;
                ahead.view.complete(sealed.hash, &mut block.env, Arc::make_mut(&mut block.changes))?;
            }
        });
        match left? {
            Some(block) => self.finish(state, block).map(drop),
            None => Ok(()),
        }
    }

    /// Executes the next block, if one is due before the one ahead of it is sealed.
    fn execute_meanwhile(&self, ahead: &mut SealingBlock) -> Result<Option<UnsealedBlock>, ChainError> {
        let mut look = true;
        while self.wanted() == 0
            && let Some(empty) = self.signal.meanwhile(look)
        {
            look = false;
            #[cfg(test)]
            self.looked.store(true, Ordering::Release);
            let clock = self.dev.lock().clock.clone();
            let Some(begun) = self.begin(&ahead.parent, &clock, empty, &ahead.taken) else { continue };
            ahead.view.begin(begun.env.spec);
            let block = self.run(&ahead.view, begun)?;
            if empty == EmptyBlocks::Skipped && block.is_empty() {
                // Refused transactions are executed again, and dropped, once the block before is appended.
                return Ok(None);
            }
            self.dev.lock().clock.block_made(block.env.timestamp);
            return Ok(Some(block));
        }
        #[cfg(test)]
        self.looked.store(true, Ordering::Release);
        Ok(None)
    }

    /// In tests every other block is sealed when the next has been looked for: both orders come about on any machine.
    /// Where none comes soon there is no look to wait for.
    #[cfg(test)]
    fn let_look(&self, number: u64) {
        use super::BlockTime;
        let comes_soon = || match self.signal.block_time() {
            BlockTime::Instant => true,
            BlockTime::Every(interval) => interval < std::time::Duration::from_secs(1),
            BlockTime::Manual => false,
        };
        if number.is_multiple_of(2) {
            let is_over = || self.looked.load(Ordering::Acquire) || !comes_soon();
            hearth_testkit::wait_until("a look for the next block", is_over);
        }
    }

    fn finish_telling(
        &self,
        state: &mut State,
        block: UnsealedBlock,
        teller: &HashPublisher,
    ) -> Result<Arc<Block>, ChainError> {
        let ready = self.seal(state, block);
        teller.tell(ready.block.hash);
        self.append(state, ready)
    }
}

#[cfg(test)]
mod tests;
