//! A run of plain transfers, split over threads by account, without versions and without validation.
//!
//! reads   the run's transfers, and the cells of their accounts after earlier transactions
//! writes  the same cells, at the place of the run's last transaction
//! memory  each sender's cell before the run, until the run is known to be valid
//! drops   nothing: an invalid run is undone and cut before the transaction that broke it
//!
//! Each shard of accounts belongs to one thread during the run. First every sender pays, in order, from what it had
//! when the run began and no more; then every recipient receives. What a sender receives within the run can only add to
//! its balance, so if all can pay without it, all can pay with it, in any order of the sums: the accounts end as they
//! would one after the other. If one cannot pay, or a nonce is wrong, or there is code, the run ends before that
//! transaction.

use super::memory::{FIRST, Memory, ReplacedVersion, SHARDS, Shard, WriterIndex};
use super::plain_transfer::{PlainTransfer, TransferEnd, is_simple};
use crate::state::Accounts;
use parking_lot::MutexGuard;
use revm::DatabaseRef;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The cell of an account that is no simple one.
pub(super) const NOT_SIMPLE: u32 = u32::MAX;

/// The places of each transfer's accounts in their shards.
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

/// The shards of one thread.
pub(super) struct OwnedShards<'m> {
    shards: Vec<MutexGuard<'m, Shard>>,
    threads: usize,
}

impl<'m> OwnedShards<'m> {
    pub fn new<D: DatabaseRef>(memory: &'m Memory<'_, D>, thread: usize, threads: usize) -> Self {
        Self { shards: (thread..SHARDS).step_by(threads).map(|index| memory.shard(index)).collect(), threads }
    }

    /// Returns one of this thread's shards.
    fn get(&mut self, shard: u8) -> &mut Shard {
        &mut self.shards[usize::from(shard) / self.threads]
    }

    /// Finds this thread's cells of the transfers' accounts, and reads unknown bases.
    pub fn find<'p, D: Accounts, I: Iterator<Item = (usize, &'p PlainTransfer, TransferEnd)>>(
        &mut self,
        memory: &Memory<'_, D>,
        ends: impl Fn() -> I,
        cells: &Cells,
    ) -> Result<(), D::Error> {
        let of = |plain: &'p PlainTransfer, end| match end {
            TransferEnd::Sender => (plain.sender_shard, &plain.sender, &cells.sender),
            TransferEnd::Recipient => (plain.to_shard, &plain.to, &cells.to),
        };
        let (mut unread, mut addresses) = (Vec::new(), Vec::new());
        for (index, plain, end) in ends() {
            let (shard, address, found) = of(plain, end);
            let (at, is_unread) = self.get(shard).cell(address);
            if is_unread {
                unread.push((shard, at));
                addresses.push(*address);
            }
            found[index].store(at, Ordering::Relaxed);
        }
        // All together: the state may then wait for all of them at once.
        for ((shard, at), base) in unread.into_iter().zip(memory.base_accounts(&addresses)?) {
            self.get(shard).cells[at as usize].found(base);
        }
        let mut asked = self.shards.iter().flat_map(|shard| &shard.cells).filter(|cell| cell.asked);
        if asked.all(|cell| cell.current().is_none_or(is_simple)) {
            return Ok(());
        }
        for (index, plain, end) in ends() {
            let (shard, _, found) = of(plain, end);
            let at = found[index].load(Ordering::Relaxed) as usize;
            if !self.get(shard).cells[at].current().is_none_or(is_simple) {
                found[index].store(NOT_SIMPLE, Ordering::Relaxed);
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

    fn place(&self) -> WriterIndex {
        (self.to - 1) as WriterIndex + FIRST
    }

    /// This thread's senders pay. The return is for [`Run::take_back`].
    pub fn pay<'p>(
        &self,
        owned: &mut OwnedShards<'_>,
        cells: &Cells,
        ends: impl Iterator<Item = (usize, &'p PlainTransfer, TransferEnd)>,
    ) -> Vec<(u8, u32, ReplacedVersion)> {
        let place = self.place();
        let mut before = Vec::new();
        for (index, plain, end) in ends {
            let holds = match end {
                TransferEnd::Recipient => {
                    let at = cells.to[index].load(Ordering::Relaxed);
                    owned.get(plain.to_shard).cells[at as usize].current().is_none_or(is_simple)
                }
                TransferEnd::Sender => {
                    let at = cells.sender[index].load(Ordering::Relaxed);
                    let cell = &mut owned.get(plain.sender_shard).cells[at as usize];
                    if !cell.is_of(place) {
                        let held = cell.current().copied();
                        before.push((plain.sender_shard, at, cell.replace(place, held)));
                    }
                    cell.of_mut(place).as_mut().is_some_and(|held| plain.pay(held))
                }
            };
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
        owned: &mut OwnedShards<'_>,
        cells: &Cells,
        ends: impl Iterator<Item = (usize, &'p PlainTransfer, TransferEnd)>,
    ) {
        let place = self.place();
        for (index, plain, _) in ends.filter(|(_, _, end)| *end == TransferEnd::Recipient) {
            let cell = &mut owned.get(plain.to_shard).cells[cells.to[index].load(Ordering::Relaxed) as usize];
            if !cell.is_of(place) {
                let held = cell.current().copied();
                cell.replace(place, held);
            }
            assert!(plain.receive(cell.of_mut(place)), "all recipients were simple when the senders paid");
        }
    }

    /// Undoes the payments of this thread's senders.
    pub fn take_back(&self, owned: &mut OwnedShards<'_>, before: Vec<(u8, u32, ReplacedVersion)>) {
        for (shard, at, before) in before {
            owned.get(shard).cells[at as usize].restore(before);
        }
    }
}
