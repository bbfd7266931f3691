//! The transactions that one account of a sender has to send, in nonce order.
//!
//! reads   the account's next nonce, as reported by the node
//! writes  signed transactions
//! memory  transactions signed in advance, 300 B each
//!
//! The recipient of a transaction follows from its nonce, and signing is deterministic. So a transaction that must be
//! sent again but is no longer stored is signed again with the same fees, and has the same bytes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256};
use hearth_crypto::secp256k1::Signer;

use super::shared::Shared;
use super::workload::{Terms, sign};
use crate::account::address;
use crate::run_clock::SignedLate;

/// This many refusals in a row cause no rest.
const REFUSALS_BORNE: u32 = 3;
/// The first rest after that. It doubles each time.
const REST: Duration = Duration::from_millis(100);
const REST_DOUBLINGS_MAX: u32 = 6;
/// Number of rests, 6.3 s together, before the account gives up.
const RESTS: u32 = 6;
/// The most transactions that fill a gap at once.
const GAP_MAX: u64 = 16;
/// How many ended nonces are skipped at once.
const PASSED_OVER: usize = 64;

/// The send queue of one account.
pub struct Queue<'a> {
    signer: &'a Signer,
    /// Address of the account.
    pub address: Address,
    /// The first nonce, and the index of the account that it pays.
    first: (u64, usize),
    /// The next unsigned nonce.
    unsigned: u64,
    /// The lowest nonce that was never sent.
    fresh: u64,
    /// Number of nonces sent.
    sent: u64,
    /// Signed transactions by nonce, without gaps except for ended ones.
    ahead: VecDeque<SignedTx>,
    refusals: u32,
    broke: bool,
    rests_until: Option<Instant>,
    /// The nonce that the node waited for at the last look, if it was already sent.
    stuck_at: Option<u64>,
    /// Transactions that had to be signed while sending.
    pub signed_late: SignedLate,
    /// How many looks to skip before checking again whether the node lost transactions, and how many were skipped.
    patience: (u32, u32),
}

/// A signed transaction of the queue's account.
pub struct SignedTx {
    /// The account's nonce that it uses.
    pub nonce: u64,
    /// The transaction in its EIP-2718 encoding, as sent to the node.
    pub raw: Vec<u8>,
    /// Hash of these bytes.
    pub hash: B256,
    /// Maximum fee per gas, in wei.
    pub max_fee: u128,
    /// Whether it was sent before.
    pub again: bool,
}

impl<'a> Queue<'a> {
    /// A queue that starts at `nonce` and pays the account with index `target` first.
    pub fn new(signer: &'a Signer, nonce: u64, target: usize) -> Self {
        Self {
            signer,
            address: address(signer),
            first: (nonce, target),
            unsigned: nonce,
            fresh: nonce,
            sent: 0,
            ahead: VecDeque::new(),
            refusals: 0,
            broke: false,
            rests_until: None,
            stuck_at: None,
            patience: (1, 0),
            signed_late: SignedLate::default(),
        }
    }

    fn build(&self, shared: &Shared<'_>, terms: &Terms, nonce: u64) -> TxEip1559 {
        let index = self.first.1 + nonce.saturating_sub(self.first.0) as usize;
        let target = shared.targets[index % shared.targets.len()];
        shared.workload.build(terms, nonce, self.address, target)
    }

    fn sign_with(&self, shared: &Shared<'_>, terms: &Terms, nonce: u64) -> SignedTx {
        let (raw, hash) = sign(self.build(shared, terms, nonce), self.signer);
        SignedTx { nonce, raw, hash, max_fee: terms.max_fee, again: nonce < self.fresh }
    }

    /// Returns the signer of the account.
    pub fn signer(&self) -> &'a Signer {
        self.signer
    }

    /// Whether the next transaction is signed already.
    pub fn is_signed_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Builds the next `count` transactions to be signed in advance and given to [`Queue::add_signed`].
    pub fn build_ahead(&self, shared: &Shared<'_>, count: u64) -> Vec<TxEip1559> {
        let terms = shared.fees.today();
        (0..count).map(|step| self.build(shared, &terms, self.unsigned.saturating_add(step))).collect()
    }

    /// Builds the transaction that [`Queue::next`] would sign now, to be signed together with those of other accounts
    /// and given to [`Queue::add_signed`]. None if the account has no new transaction to send now.
    pub fn unsigned(&self, shared: &Shared<'_>, now: Instant) -> Option<TxEip1559> {
        let rests = self.rests_until.is_some_and(|until| now < until);
        if rests || self.is_signed_ahead() || self.unsigned < self.fresh || self.fresh_left(shared) == 0 {
            return None;
        }
        Some(self.build(shared, &shared.fees.today(), self.unsigned))
    }

    /// Adds the next of what [`Queue::build_ahead`] or [`Queue::unsigned`] built, signed: its bytes and their hash.
    pub fn add_signed(&mut self, max_fee: u128, raw: Vec<u8>, hash: B256) {
        self.ahead.push_back(SignedTx { nonce: self.unsigned, raw, hash, max_fee, again: false });
        self.unsigned = self.unsigned.saturating_add(1);
    }

    /// Rebuilds the transaction sent with this nonce, with its original fees; none if it has ended.
    fn sign_again(&self, shared: &Shared<'_>, nonce: u64) -> Option<SignedTx> {
        let fees = shared.fees.all();
        let mut signed = fees.iter().rev().map(|terms| self.sign_with(shared, terms, nonce));
        signed.find(|signed| shared.course.outcomes.is_open(&signed.hash))
    }

    fn sign_at(&self, shared: &Shared<'_>, nonce: u64) -> Option<SignedTx> {
        if nonce < self.fresh {
            return self.sign_again(shared, nonce);
        }
        Some(self.sign_with(shared, &shared.fees.today(), nonce))
    }

    /// Signs one more transaction in advance, unless its nonce has ended.
    pub fn sign_ahead(&mut self, shared: &Shared<'_>) {
        let signed = self.sign_at(shared, self.unsigned);
        self.unsigned = self.unsigned.saturating_add(1);
        self.ahead.extend(signed);
    }

    /// Returns how many transactions are left to send: new ones, and at least one if sent ones may have to be sent
    /// again.
    pub fn left(&self, shared: &Shared<'_>) -> u64 {
        self.fresh_left(shared).saturating_add(u64::from(self.next_nonce() < self.fresh))
    }

    fn fresh_left(&self, shared: &Shared<'_>) -> u64 {
        shared.pace.count.map_or(u64::MAX, |count| count.saturating_sub(self.sent))
    }

    /// Returns the next transaction; none if everything is sent or the account rests.
    pub fn next(&mut self, shared: &Shared<'_>, now: Instant) -> Option<SignedTx> {
        if self.rests_until.is_some_and(|until| now < until) {
            return None;
        }
        for _ in 0..PASSED_OVER {
            if !self.ahead.is_empty() || self.left(shared) == 0 {
                break;
            }
            if shared.pace.presign > 0 && self.unsigned >= self.fresh {
                self.signed_late.count(now);
            }
            self.sign_ahead(shared);
        }
        if self.next_nonce() >= self.fresh && self.fresh_left(shared) == 0 {
            return None;
        }
        let signed = self.ahead.pop_front()?;
        if signed.nonce >= self.fresh {
            self.sent += 1;
            self.fresh = signed.nonce.saturating_add(1);
        }
        Some(signed)
    }

    /// Returns the lowest nonce that was never sent. If the node waits for a higher one, someone else sent it
    /// transactions of this account.
    pub fn fresh(&self) -> u64 {
        self.fresh
    }

    /// Returns whether the account stops sending: the node refused everything for a while, and either the account had a
    /// fixed number to send or the node reported insufficient funds. Pending transactions may reserve more of an
    /// account's money than they finally cost.
    pub fn gives_up(&self, shared: &Shared<'_>) -> bool {
        (self.broke || shared.pace.count.is_some()) && self.refusals > REFUSALS_BORNE + RESTS
    }

    /// Records that the account lacks the money for what it sends.
    pub fn is_poor(&mut self, now: Instant) {
        self.broke = true;
        self.refused(now);
    }

    /// The nonce of the next transaction to send.
    fn next_nonce(&self) -> u64 {
        self.ahead.front().map_or(self.unsigned, |signed| signed.nonce)
    }

    /// Puts back a transaction that the pool had no room for, to be sent first next time.
    pub fn put_back(&mut self, mut signed: SignedTx) {
        signed.again = true;
        self.ahead.push_front(signed);
    }

    /// Replaces a transaction that pays too little with one at today's fees, to be sent first next time. Returns the
    /// hash of the new one.
    pub fn put_back_dearer(&mut self, shared: &Shared<'_>, cheap: &SignedTx) -> B256 {
        let signed = self.dearer(shared, cheap);
        let hash = signed.hash;
        self.put_back(signed);
        hash
    }

    /// The same transaction with today's fees.
    pub fn dearer(&self, shared: &Shared<'_>, cheap: &SignedTx) -> SignedTx {
        self.sign_with(shared, &shared.fees.today(), cheap.nonce)
    }

    /// Records that the node accepted a transaction.
    pub fn taken(&mut self) {
        (self.refusals, self.rests_until, self.broke) = (0, None, false);
    }

    /// Records a final refusal. After several in a row the account rests.
    pub fn refused(&mut self, now: Instant) {
        self.refusals += 1;
        if let Some(beyond) = self.refusals.checked_sub(REFUSALS_BORNE) {
            self.rests_until = Some(now + REST * (1 << beyond.min(REST_DOUBLINGS_MAX)));
        }
    }

    /// Continues from the nonce that the node waits for: drops lower nonces, and fills a gap.
    pub fn align(&mut self, shared: &Shared<'_>, awaited: u64) {
        while self.ahead.front().is_some_and(|signed| signed.nonce < awaited) {
            self.ahead.pop_front();
        }
        if self.ahead.is_empty() {
            self.unsigned = awaited;
        } else if self.next_nonce() - awaited > GAP_MAX {
            self.ahead.clear();
            self.unsigned = awaited;
        }
        for nonce in (awaited..self.next_nonce()).rev() {
            if let Some(signed) = self.sign_at(shared, nonce) {
                self.ahead.push_front(signed);
            }
        }
    }

    /// Compares the queue with the nonce that the node waits for. If the node already waited for the same sent nonce at
    /// the last look, the pool has lost it and everything after it is stuck: returns what must be sent again.
    pub fn look(&mut self, shared: &Shared<'_>, awaited: u64) -> Vec<SignedTx> {
        let next = self.next_nonce();
        if awaited >= next {
            self.stuck_at = None;
            if awaited > next {
                self.align(shared, awaited);
            }
            return vec![];
        }
        if self.stuck_at.replace(awaited) != Some(awaited) {
            self.patience.1 = 0;
            return vec![];
        }
        self.patience.1 += 1;
        if self.patience.1 < self.patience.0 {
            return vec![];
        }
        self.patience.1 = 0;
        (awaited..next.min(awaited + GAP_MAX)).filter_map(|nonce| self.sign_again(shared, nonce)).collect()
    }

    /// Records whether the node had lost what [`Queue::look`] returned. A node that is only slow is checked less and
    /// less often.
    pub fn looked(&mut self, lost: bool) {
        self.patience.0 = if lost { 1 } else { (self.patience.0 * 2).min(64) };
    }
}
