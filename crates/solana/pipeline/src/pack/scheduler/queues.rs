//! queues: where transactions wait: in the heap, in an account's queue, or deferred until the block or an account has
//! room.
//!
//! reads   accounts that open; transactions that arrive or leave
//! writes  the places of transactions
//! memory  the scheduler's

use super::Scheduler;
use crate::pack::accounts::NONE;
use crate::pack::heap::{Entry, Heap};
use crate::pack::pool::{LockId, State};

impl Scheduler {
    /// Sends a delegate if transactions wait for an account that is open to all.
    #[inline]
    pub(super) fn open(&mut self, account: u32) {
        let it = self.accounts.get(account);
        if it.queue != NONE && it.is_free() && !it.capped {
            self.send_delegate(account);
        }
    }

    /// Lets the best of an account's queue compete on behalf of all of it, unless a better delegate already does.
    pub(super) fn send_delegate(&mut self, account: u32) {
        let it = self.accounts.get(account);
        let queue = it.queue as usize;
        if it.delegate != NONE {
            let best = self.queues[queue].top().expect("a queue is not empty");
            let delegate = self.pool.meta_mut(it.delegate as usize);
            if delegate.entry.before(best) {
                return;
            }
            // It stays in the heap, for itself alone.
            delegate.delegate_of = None;
        }
        let best = self.queues[queue].pop(&mut self.pool.places).expect("a queue is not empty");
        self.accounts.get_mut(account).delegate = best.slot;
        self.tidy_queue(account);
        let meta = self.pool.meta_mut(best.slot as usize);
        (meta.state, meta.delegate_of) = (State::Ready, Some(account));
        self.ready.push(best, &mut self.pool.places);
    }

    /// Ends a transaction's role as delegate when it leaves the heap. The next in the queue takes over if the account
    /// is open to all, or open to readers and was open to this one.
    #[inline]
    pub(super) fn resign(&mut self, slot: usize) {
        let Some(account) = self.pool.meta_mut(slot).delegate_of.take() else { return };
        let it = self.accounts.get_mut(account);
        it.delegate = NONE;
        if it.queue == NONE || it.writer || it.capped {
            return;
        }
        let reads = self.pool.locks(slot).contains(&LockId::new(account, false));
        if reads || it.is_free() {
            self.send_delegate(account);
        }
    }

    /// Puts a transaction into an account's queue.
    pub(super) fn wait(&mut self, entry: Entry, account: u32) {
        self.counts.waited += 1;
        let it = self.accounts.get_mut(account);
        if it.queue == NONE {
            it.queue = self.spare_queues.pop().unwrap_or_else(|| {
                self.queues.push(Heap::default());
                self.queues.len() as u32 - 1
            });
        }
        self.queues[it.queue as usize].push(entry, &mut self.pool.places);
        self.pool.meta_mut(entry.slot as usize).state = State::Waiting(account);
    }

    pub(super) fn tidy_queue(&mut self, account: u32) {
        let it = self.accounts.get_mut(account);
        let queue = &mut self.queues[it.queue as usize];
        queue.trim();
        if queue.is_empty() {
            self.spare_queues.push(it.queue);
            it.queue = NONE;
        }
    }

    /// Defers a transaction that has left the heap.
    pub(super) fn put_off(&mut self, slot: usize, until: State) {
        let aside = match until {
            State::BlockShort => &mut self.block_short,
            _ => &mut self.account_short,
        };
        self.pool.places[slot] = aside.len() as u32;
        aside.push(slot as u32);
        self.pool.meta_mut(slot).state = until;
        self.resign(slot);
    }

    pub(super) fn resume_block_short(&mut self) {
        while let Some(slot) = self.block_short.pop() {
            self.make_ready(slot);
        }
    }

    pub(super) fn make_ready(&mut self, slot: u32) {
        let meta = self.pool.meta_mut(slot as usize);
        meta.state = State::Ready;
        let entry = meta.entry;
        self.ready.push(entry, &mut self.pool.places);
    }

    /// Removes a pending transaction from wherever it waits.
    pub(super) fn take_out(&mut self, slot: usize) {
        let place = self.pool.places[slot] as usize;
        match self.pool.meta(slot).state {
            State::Vacant => unreachable!("only pending transactions are taken out"),
            State::Ready => {
                self.ready.remove(place, &mut self.pool.places);
                self.resign(slot);
            }
            State::Waiting(account) => {
                let queue = self.accounts.get(account).queue as usize;
                self.queues[queue].remove(place, &mut self.pool.places);
                self.tidy_queue(account);
            }
            State::BlockShort => remove_aside(&mut self.block_short, place, &mut self.pool.places),
            State::AccountShort => remove_aside(&mut self.account_short, place, &mut self.pool.places),
        }
        for at in 0..self.pool.locks(slot).len() {
            let account = self.pool.locks(slot)[at].account();
            self.accounts.forgo(account);
        }
        self.pool.free(slot);
    }
}

fn remove_aside(aside: &mut Vec<u32>, place: usize, places: &mut [u32]) {
    aside.swap_remove(place);
    if let Some(moved) = aside.get(place) {
        places[*moved as usize] = place as u32;
    }
}
