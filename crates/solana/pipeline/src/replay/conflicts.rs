//! conflicts: decides which transactions of a block may execute now.
//!
//! reads   each transaction's accounts, in block order, and which of them it may write; which transactions have
//!         finished
//! writes  batches: transactions that wait for none outside of their batch
//! memory  about 20 B per transaction, 12 B per pair of conflicting transactions, 40 B per account of the block
//! drops   nothing
//! source  `unified_scheduler_logic` of `solana-unified-scheduler-logic` 4.2, for what conflicts
//!
//! Two transactions conflict if one may write an account that the other touches; the later one waits for the earlier.
//! Any parallel execution therefore has the same result as the block's order. A chain of transactions that wait only
//! for each other goes into one batch, which executes in order: a busy account costs parallelism but no messages.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use hearth_ledger::AccountHash;
use hearth_mutation::{Mutation, active};

/// No transaction, or the end of a list.
const NONE: u32 = u32::MAX;

/// The dependency graph of a block's transactions.
#[derive(Default)]
pub(super) struct Conflicts {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    touches: HashMap<AccountHash, Touch, BuildHasherDefault<Identity>>,
    readers: Vec<Reader>,
    /// Transactions that wait for none.
    ready: BinaryHeap<Reverse<u32>>,
    /// Transactions that wait only for members of the batch being built, and below all that wait for at least one of
    /// them.
    inside: BinaryHeap<Reverse<u32>>,
    followers: Vec<u32>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Waiting,
    Running,
    Finished,
}

/// The state of a transaction.
struct Node {
    /// Edges from unfinished transactions.
    waits: u32,
    /// How many of those come from members of the batch being built.
    inside: u32,
    /// Index of its first edge.
    edge: u32,
    state: State,
}

/// `to` waits for the transaction that owns this list.
struct Edge {
    to: u32,
    next: u32,
}

/// The last transactions that touched an account.
struct Touch {
    writer: u32,
    /// Index in `readers` of the last transaction to read it since that write.
    reader: u32,
}

struct Reader {
    txn: u32,
    before: u32,
}

impl Conflicts {
    /// Removes all transactions, but keeps the memory.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.edges.clear();
        self.touches.clear();
        self.readers.clear();
        self.ready.clear();
    }

    /// How many transactions were added.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a transaction below `end` is ready.
    pub fn has(&self, end: u32) -> bool {
        self.ready.peek().is_some_and(|Reverse(txn)| *txn < end)
    }

    /// Adds the block's next transaction, which touches these accounts; `true` marks those it may write.
    pub fn add(&mut self, touched: &[(AccountHash, bool)]) {
        let txn = self.nodes.len() as u32;
        self.nodes.push(Node { waits: 0, inside: 0, edge: NONE, state: State::Waiting });
        for &(account, writes) in touched {
            let touch = self.touches.entry(account).or_insert(Touch { writer: NONE, reader: NONE });
            let Touch { writer, reader } = *touch;
            if writes {
                *touch = Touch { writer: txn, reader: NONE };
                // The readers come after the previous writer, so waiting for them includes waiting for it.
                let mut at = reader;
                while let Some(Reader { txn: earlier, before }) = self.readers.get(at as usize) {
                    let (earlier, before) = (*earlier, *before);
                    self.wait(txn, earlier);
                    at = before;
                }
            } else if self.readers.get(reader as usize).is_none_or(|reader| reader.txn != txn) && writer != txn {
                touch.reader = self.readers.len() as u32;
                self.readers.push(Reader { txn, before: reader });
            }
            if !(writes && active(Mutation::MissedConflict)) {
                self.wait(txn, writer);
            }
        }
        if self.nodes[txn as usize].waits == 0 {
            self.ready.push(Reverse(txn));
        }
    }

    fn wait(&mut self, txn: u32, earlier: u32) {
        if earlier == NONE || earlier == txn || self.nodes[earlier as usize].state == State::Finished {
            return;
        }
        let node = &mut self.nodes[earlier as usize];
        self.edges.push(Edge { to: txn, next: node.edge });
        node.edge = self.edges.len() as u32 - 1;
        self.nodes[txn as usize].waits += 1;
    }

    /// Takes a batch of at most `count` transactions below `end` that `fits` accepts, in block order.
    pub fn take(&mut self, count: usize, end: u32, mut fits: impl FnMut(u32) -> bool) -> Vec<u32> {
        let mut batch = vec![];
        while batch.len() < count
            && let Some(txn) = self.first()
        {
            if txn >= end || !fits(txn) {
                break;
            }
            self.pop(txn);
            self.nodes[txn as usize].state = State::Running;
            batch.push(txn);
            let mut edge = self.nodes[txn as usize].edge;
            while let Some(Edge { to, next }) = self.edges.get(edge as usize) {
                let node = &mut self.nodes[*to as usize];
                node.inside += 1;
                self.followers.push(*to);
                if node.inside == node.waits {
                    self.inside.push(Reverse(*to));
                }
                edge = *next;
            }
        }
        self.inside.clear();
        for follower in self.followers.drain(..) {
            self.nodes[follower as usize].inside = 0;
        }
        batch
    }

    /// The first transaction of the block that could join the batch.
    fn first(&self) -> Option<u32> {
        let heaps = [self.ready.peek(), self.inside.peek()];
        heaps.into_iter().flatten().map(|Reverse(txn)| *txn).min()
    }

    fn pop(&mut self, txn: u32) {
        let is_ready = self.ready.peek() == Some(&Reverse(txn));
        if is_ready {
            self.ready.pop()
        } else {
            self.inside.pop()
        };
    }

    /// Marks a batch as finished.
    pub fn finish(&mut self, batch: &[u32]) {
        for txn in batch {
            self.nodes[*txn as usize].state = State::Finished;
            let mut edge = self.nodes[*txn as usize].edge;
            while let Some(Edge { to, next }) = self.edges.get(edge as usize) {
                let node = &mut self.nodes[*to as usize];
                node.waits -= 1;
                if node.waits == 0 && node.state == State::Waiting {
                    self.ready.push(Reverse(*to));
                }
                edge = *next;
            }
        }
    }
}

/// A hasher for account hashes, which are uniform already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
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

#[cfg(test)]
mod tests;
