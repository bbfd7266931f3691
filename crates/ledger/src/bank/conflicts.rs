//! conflicts: the units of a block on several threads, each after those before it that it conflicts with.
//!
//! reads   the accounts of each unit, and which of them it may write
//! writes  an order: two units of which one may write what the other touches run in the block's; others at once
//! memory  about 60 B an account of the block, 8 B for each two units of which one waits for the other
//! drops   units behind one that ends the block
//! source  `unified_scheduler_logic` of `solana-unified-scheduler-logic` 4.2: what conflicts
//!
//! One thread goes through the units in order and takes part when it is through; the others begin with the first. Where
//! the first ones mostly wait for each other one thread does all of it.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Stands for an account: a hash of its address that nobody can choose addresses for. Two that are alike are taken for
/// one account, which costs time alone.
pub type AccountHash = u64;

/// Units at the beginning of a block by which it is judged whether several threads are worth it.
const SAMPLE: usize = 64;

/// Runs `count` units by `workers`, each with a thread of its own; the last one's is the caller's. `accounts` pushes
/// the accounts of a unit, and whether it may write each. `run` says whether the block goes on: when one says no, units
/// after it need not run, and all before it do. Returns the first unit that said no.
pub fn in_order<W: Send>(
    count: usize,
    workers: &mut [W],
    mut accounts: impl FnMut(usize, &mut Vec<(AccountHash, bool)>),
    run: impl Fn(&mut W, usize) -> bool + Sync,
) -> Option<usize> {
    let board = Board::default();
    let (own, others) = workers.split_last_mut()?;
    if others.is_empty() || is_narrow(count, &mut accounts) {
        return (0..count).find(|unit| !run(own, *unit));
    }
    std::thread::scope(|scope| {
        for worker in others {
            scope.spawn(|| board.work(worker, &run));
        }
        let leaves = Leaves(&board);
        let (mut orders, mut touched) = (Orders::default(), vec![]);
        for unit in 0..count {
            touched.clear();
            accounts(unit, &mut touched);
            board.add(unit, orders.add(unit, &touched));
        }
        board.lock().is_all = true;
        board.changed.notify_all();
        board.work(own, &run);
        drop(leaves);
    });
    board.lock().ends_at
}

/// Whether so many of the first units wait for each other that other threads would have little to do.
fn is_narrow(count: usize, accounts: &mut impl FnMut(usize, &mut Vec<(AccountHash, bool)>)) -> bool {
    let (mut orders, mut touched, mut depths) = (Orders::default(), vec![], vec![]);
    for unit in 0..count.min(SAMPLE) {
        touched.clear();
        accounts(unit, &mut touched);
        let before = orders.add(unit, &touched).iter().map(|before| depths[*before]).max();
        depths.push(before.unwrap_or(0) + 1);
    }
    let longest: usize = depths.iter().copied().max().unwrap_or(0);
    depths.len() * 2 < longest * 3
}

/// Who touched an account last.
#[derive(Default)]
struct Touch {
    writer: Option<usize>,
    /// Since then.
    readers: Vec<usize>,
}

/// Which units have to come before which.
#[derive(Default)]
struct Orders {
    touches: HashMap<AccountHash, Touch, BuildHasherDefault<Taken>>,
    before: BTreeSet<usize>,
}

impl Orders {
    /// The units that have to come before this one.
    fn add(&mut self, unit: usize, touched: &[(AccountHash, bool)]) -> &BTreeSet<usize> {
        self.before.clear();
        for (account, writes) in touched {
            let touch = self.touches.entry(*account).or_default();
            self.before.extend(touch.writer);
            if *writes {
                // Who reads comes after the writer before, so that one is no matter any more.
                self.before.extend(touch.readers.drain(..));
                touch.writer = Some(unit);
            } else if touch.readers.last() != Some(&unit) {
                touch.readers.push(unit);
            }
        }
        self.before.remove(&unit);
        &self.before
    }
}

/// A hash that is one already.
#[derive(Default)]
struct Taken(u64);

impl Hasher for Taken {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("accounts are hashed before");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// What is to be done.
#[derive(Default)]
struct Board {
    state: Mutex<State>,
    /// There is a unit to run, or there will be none.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    units: Vec<Unit>,
    /// Units that wait for none, the first of the block first.
    ready: BTreeSet<usize>,
    done: usize,
    /// No unit is added any more.
    is_all: bool,
    ends_at: Option<usize>,
    /// A thread has panicked.
    is_broken: bool,
}

#[derive(Default)]
struct Unit {
    /// How many have to come before it.
    waits: usize,
    is_done: bool,
    /// Those that wait for it.
    after: Vec<usize>,
}

impl State {
    fn is_over(&self) -> bool {
        self.is_broken || (self.is_all && self.done == self.units.len())
    }

    /// A unit has run, or need not.
    fn end(&mut self, unit: usize) {
        self.done += 1;
        self.units[unit].is_done = true;
        for next in std::mem::take(&mut self.units[unit].after) {
            self.units[next].waits -= 1;
            if self.units[next].waits == 0 {
                self.ready.insert(next);
            }
        }
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, unit: usize, before: &BTreeSet<usize>) {
        let mut state = self.lock();
        let mut waits = 0;
        for other in before {
            if !state.units[*other].is_done {
                state.units[*other].after.push(unit);
                waits += 1;
            }
        }
        state.units.push(Unit { waits, ..Unit::default() });
        if waits == 0 {
            state.ready.insert(unit);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Runs units until there are none.
    fn work<W>(&self, worker: &mut W, run: &impl Fn(&mut W, usize) -> bool) {
        let leaves = Leaves(self);
        let mut state = self.lock();
        while !state.is_over() {
            let Some(unit) = state.ready.pop_first() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if state.ends_at.is_none_or(|end| unit < end) {
                drop(state);
                let goes_on = run(worker, unit);
                state = self.lock();
                if !goes_on {
                    state.ends_at = Some(state.ends_at.map_or(unit, |end| end.min(unit)));
                }
            }
            state.end(unit);
            // One is this thread's own next.
            match state.ready.len() {
                _ if state.is_over() => self.changed.notify_all(),
                0 | 1 => {}
                2 => self.changed.notify_one(),
                _ => self.changed.notify_all(),
            }
        }
        drop(state);
        drop(leaves);
    }
}

/// Lets the other threads go when one panics.
struct Leaves<'a>(&'a Board);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_broken = true;
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
