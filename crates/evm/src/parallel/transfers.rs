//! A run of plain transfers, split over threads by account, without versions and without validation.
//!
//! reads   the run's transfers, and the cells of their accounts as those before left them
//! writes  the same cells, at the place of the run's last transaction
//! memory  what each sender's cell held before, until the run is known to hold
//! drops   nothing: a run that does not hold is taken back and cut where it broke
//! source  –
//!
//! Each shard of accounts is one thread's for the length of the run. First every sender pays, in order, from what it
//! had when the run began and no more; then every recipient receives. What a sender receives within the run can only
//! add to what it had, so if all can pay without it, all can pay with it, in whatever order the sums are made: the
//! accounts end as they would one after the other. If one cannot, or a nonce is wrong, or there is code, the run ends
//! before that transaction.

use super::memory::{Before, FIRST, Memory, Place, SHARDS, Shard};
use super::plain::{Plain, is_simple};
use revm::DatabaseRef;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The cell of an account that is no simple one.
pub(super) const NOT_SIMPLE: u32 = u32::MAX;

/// Where the accounts of each transfer lie in their shards.
pub(super) struct Cells {
    sender: Vec<AtomicU32>,
    to: Vec<AtomicU32>,
}

impl Cells {
    pub fn new(count: usize) -> Self {
        let none = || (0..count).map(|_| AtomicU32::new(NOT_SIMPLE)).collect();
        Self { sender: none(), to: none() }
    }

    /// Whether both accounts were simple before the block.
    pub fn are_simple(&self, index: usize) -> bool {
        let simple = |cells: &[AtomicU32]| cells[index].load(Ordering::Relaxed) != NOT_SIMPLE;
        simple(&self.sender) && simple(&self.to)
    }
}

/// One thread's shards.
pub(super) struct Owned<'m> {
    shards: Vec<MutexGuard<'m, Shard>>,
    thread: usize,
    threads: usize,
}

impl<'m> Owned<'m> {
    pub fn new<D: DatabaseRef>(memory: &'m Memory<'_, D>, thread: usize, threads: usize) -> Self {
        Self { shards: (thread..SHARDS).step_by(threads).map(|index| memory.shard(index)).collect(), thread, threads }
    }

    fn get(&mut self, shard: u8) -> Option<&mut Shard> {
        let shard = usize::from(shard);
        (shard % self.threads == self.thread).then(|| &mut *self.shards[shard / self.threads])
    }

    /// Finds the cells of the transfers' accounts that are this thread's, and reads what is not known yet.
    pub fn find<'p, D: DatabaseRef>(
        &mut self,
        db: &D,
        transfers: impl Iterator<Item = (usize, &'p Plain)>,
        cells: &Cells,
    ) -> Result<(), D::Error> {
        for (index, plain) in transfers {
            let ends = [(plain.sender_shard, &plain.sender, &cells.sender), (plain.to_shard, &plain.to, &cells.to)];
            for (shard, address, found) in ends {
                if let Some(shard) = self.get(shard) {
                    let at = shard.cell(db, address)?;
                    if shard.cells[at].current().is_none_or(is_simple) {
                        found[index].store(at as u32, Ordering::Relaxed);
                    }
                }
            }
        }
        Ok(())
    }
}

/// A run of transfers: the indices `from..to` of the block.
pub(super) struct Run {
    pub from: usize,
    pub to: usize,
    /// The first transfer that does not hold; `to` if all do.
    pub broken_at: AtomicUsize,
}

impl Run {
    pub fn new(from: usize, to: usize) -> Self {
        Self { from, to, broken_at: AtomicUsize::new(to) }
    }

    fn place(&self) -> Place {
        (self.to - 1) as Place + FIRST
    }

    /// This thread's senders pay. The return is for [`Run::take_back`].
    pub fn pay<'p>(
        &self,
        owned: &mut Owned<'_>,
        cells: &Cells,
        transfers: impl Iterator<Item = (usize, &'p Plain)>,
    ) -> Vec<(u8, u32, Before)> {
        let place = self.place();
        let mut before = Vec::new();
        for (index, plain) in transfers {
            let mut holds = true;
            if let Some(shard) = owned.get(plain.to_shard) {
                let at = cells.to[index].load(Ordering::Relaxed);
                holds &= shard.cells[at as usize].current().is_none_or(is_simple);
            }
            if let Some(shard) = owned.get(plain.sender_shard) {
                let at = cells.sender[index].load(Ordering::Relaxed);
                let cell = &mut shard.cells[at as usize];
                if !cell.is_of(place) {
                    let held = cell.current().cloned();
                    before.push((plain.sender_shard, at, cell.replace(place, held)));
                }
                holds &= cell.of_mut(place).as_mut().is_some_and(|held| plain.pay(held));
            }
            if !holds {
                self.broken_at.fetch_min(index, Ordering::Relaxed);
                break;
            }
        }
        before
    }

    /// This thread's recipients receive, once all senders have paid.
    pub fn receive<'p>(
        &self,
        owned: &mut Owned<'_>,
        cells: &Cells,
        transfers: impl Iterator<Item = (usize, &'p Plain)>,
    ) {
        let place = self.place();
        for (index, plain) in transfers {
            if let Some(shard) = owned.get(plain.to_shard) {
                let cell = &mut shard.cells[cells.to[index].load(Ordering::Relaxed) as usize];
                if !cell.is_of(place) {
                    let held = cell.current().cloned();
                    cell.replace(place, held);
                }
                assert!(plain.receive(cell.of_mut(place)), "all recipients were simple when the senders paid");
            }
        }
    }

    /// Takes back what this thread's senders paid.
    pub fn take_back(&self, owned: &mut Owned<'_>, before: Vec<(u8, u32, Before)>) {
        for (shard, at, before) in before {
            let shard = owned.get(shard).expect("this thread's own");
            shard.cells[at as usize].restore(before);
        }
    }
}
