//! One account's transactions, by nonce: those that can be executed one after the other, and those behind a gap.
//!
//! memory  a [`Slot`] a transaction

use std::collections::VecDeque;

use alloy_primitives::{Address, B256, U256};

use super::rank::Fees;
use crate::tx::SharedTx;

/// A transaction in the pool, with the values that its account's queue needs.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The transaction itself, with its sender.
    pub tx: SharedTx,
    /// The transaction's nonce, by which the queue is sorted.
    pub nonce: u64,
    /// The transaction's gas limit.
    pub gas: u64,
    /// The fees that it offers.
    pub fees: Fees,
    /// Gas × price + value, in wei.
    pub cost: U256,
    /// Its number among all that came.
    pub arrival: u64,
    /// When it came, in milliseconds since the pool began.
    pub at_ms: u64,
}

/// The state of a sending account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderState {
    /// The nonce of its next transaction.
    pub nonce: u64,
    /// The balance, in wei.
    pub balance: U256,
    /// Whether it has a delegation (EIP-7702).
    pub delegated: bool,
    /// Whether it has code other than a delegation: such an account cannot send (EIP-3607).
    pub is_contract: bool,
}

/// How an account stands in the pool's orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountStanding {
    /// The fees of its first transaction, and when it came.
    pub head: Option<(Fees, u64)>,
    /// The least that one of its executable transactions offers.
    pub ready: Option<Fees>,
    /// The least that one of those behind a gap offers.
    pub gapped: Option<Fees>,
    /// Number of executable transactions.
    pub ready_count: usize,
    /// Number of transactions behind a nonce gap.
    pub gapped_count: usize,
}

/// The pending transactions of one account.
#[derive(Clone, Debug)]
pub struct Queue {
    /// The address of the sending account.
    pub address: Address,
    /// The account's nonce, balance and code after `block`.
    pub state: SenderState,
    /// The block after which `state` was read.
    pub block: u64,
    /// The arrival of the first transaction with which it came into the pool.
    pub joined: u64,
    /// How it stood when the pool's orders were last set.
    pub standing: AccountStanding,
    /// By nonce, none below the state's.
    slots: VecDeque<Slot>,
    /// How many of them are executable.
    ready: usize,
    /// The total cost of the executable ones, in wei.
    spent: U256,
    floor_ready: Fees,
    floor_gapped: Fees,
}

impl Queue {
    /// Creates a queue without transactions.
    pub fn new(address: Address, state: SenderState, block: u64, joined: u64) -> Self {
        Self {
            address,
            state,
            block,
            joined,
            standing: AccountStanding::default(),
            slots: VecDeque::new(),
            ready: 0,
            spent: U256::ZERO,
            floor_ready: Fees::MAX,
            floor_gapped: Fees::MAX,
        }
    }

    /// The nonce after the last executable transaction's: the first that is missing.
    pub fn next(&self) -> u64 {
        self.state.nonce + self.ready as u64
    }

    /// Returns the transactions, by nonce.
    pub fn slots(&self) -> &VecDeque<Slot> {
        &self.slots
    }

    /// How many of them are executable.
    pub fn ready(&self) -> usize {
        self.ready
    }

    /// How many are behind a gap.
    pub fn gapped(&self) -> usize {
        self.slots.len() - self.ready
    }

    /// The least that an executable transaction offers.
    pub fn floor_ready(&self) -> Fees {
        self.floor_ready
    }

    /// Returns the total cost of the executable transactions from nonce `from` on, in wei.
    pub fn spent_from(&self, from: u64) -> U256 {
        if from <= self.state.nonce {
            return self.spent;
        }
        let later = self.slots.iter().take(self.ready).filter(|slot| slot.nonce >= from);
        later.fold(U256::ZERO, |sum, slot| sum.saturating_add(slot.cost))
    }

    /// Returns the position of the transaction with `nonce`, or where it would be inserted.
    pub fn find(&self, nonce: u64) -> Result<usize, usize> {
        let guess = nonce.saturating_sub(self.state.nonce);
        if guess < self.ready as u64 && nonce >= self.state.nonce {
            return Ok(guess as usize);
        }
        if self.slots.back().is_none_or(|last| last.nonce < nonce) {
            return Err(self.slots.len());
        }
        self.slots.binary_search_by_key(&nonce, |slot| slot.nonce)
    }

    /// Puts a transaction of a nonce that is not here yet where `find` said.
    pub fn insert(&mut self, at: usize, slot: Slot) {
        let (next, last) = (slot.nonce == self.next(), at == self.slots.len());
        if last && next && at == self.ready {
            self.ready += 1;
            self.spent = self.spent.saturating_add(slot.cost);
            self.floor_ready = self.floor_ready.least(slot.fees);
            self.slots.push_back(slot);
            return;
        }
        self.slots.insert(at, slot);
        self.refresh();
    }

    /// Puts a transaction in the place of another of its nonce.
    pub fn replace(&mut self, at: usize, slot: Slot) -> Slot {
        let old = std::mem::replace(&mut self.slots[at], slot);
        self.refresh();
        old
    }

    /// Takes out the transaction at `at`; those after it come behind a gap.
    pub fn remove(&mut self, at: usize) -> Option<Slot> {
        let slot = self.slots.remove(at);
        self.refresh();
        slot
    }

    /// Applies a new state: returns transactions whose nonce is used, and those that cost more than the account has.
    pub fn recheck(&mut self, state: SenderState, block: u64) -> (Vec<Slot>, Vec<Slot>) {
        (self.state, self.block) = (state, block);
        let passed = self.slots.iter().take_while(|slot| slot.nonce < state.nonce).count();
        let passed = self.slots.drain(..passed).collect();
        let mut costly = vec![];
        if self.slots.iter().any(|slot| slot.cost > state.balance) {
            let (keep, gone): (VecDeque<_>, VecDeque<_>) =
                self.slots.drain(..).partition(|slot| slot.cost <= state.balance);
            (self.slots, costly) = (keep, gone.into());
        }
        self.refresh();
        (passed, costly)
    }

    /// Takes out what came before `before_ms`.
    pub fn expire(&mut self, before_ms: u64) -> Vec<Slot> {
        if self.slots.iter().all(|slot| slot.at_ms >= before_ms) {
            return vec![];
        }
        let (keep, gone): (VecDeque<_>, VecDeque<_>) = self.slots.drain(..).partition(|slot| slot.at_ms >= before_ms);
        self.slots = keep;
        self.refresh();
        gone.into()
    }

    /// The hashes of the executable transactions from nonce `from` on.
    pub fn ready_from(&self, from: u64) -> impl Iterator<Item = B256> + '_ {
        let skipped = from.saturating_sub(self.state.nonce).min(self.ready as u64) as usize;
        self.slots.range(skipped..self.ready).map(|slot| slot.tx.hash)
    }

    /// Returns its current standing.
    pub fn stand(&self) -> AccountStanding {
        let head = self.slots.front().filter(|_| self.ready > 0);
        AccountStanding {
            head: head.map(|slot| (slot.fees, slot.arrival)),
            ready: (self.ready > 0).then_some(self.floor_ready),
            gapped: (self.gapped() > 0).then_some(self.floor_gapped),
            ready_count: self.ready,
            gapped_count: self.gapped(),
        }
    }

    fn refresh(&mut self) {
        let first = self.state.nonce;
        let follows = |(index, slot): &(usize, &Slot)| slot.nonce == first + *index as u64;
        self.ready = self.slots.iter().enumerate().take_while(follows).count();
        let (mut spent, mut floors) = (U256::ZERO, [Fees::MAX; 2]);
        for (index, slot) in self.slots.iter().enumerate() {
            let gapped = usize::from(index >= self.ready);
            floors[gapped] = floors[gapped].least(slot.fees);
            if gapped == 0 {
                spent = spent.saturating_add(slot.cost);
            }
        }
        (self.spent, [self.floor_ready, self.floor_gapped]) = (spent, floors);
    }
}
