//! What one account of a sender has to send, in the order of its nonces.
//!
//! reads   the account's next nonce, as the node tells it
//! writes  signed transactions
//! memory  what was signed ahead, 300 B each
//! drops   nothing
//!
//! Whom a transaction pays follows from its nonce, and signing is deterministic: what has to be sent again and is no
//! longer kept is signed again, with the fees that it had, and has the same bytes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256};
use hearth_crypto::secp256k1::Signer;

use super::shared::Shared;
use super::workload::{Terms, sign};
use crate::account::address;
use crate::run_clock::SignedLate;

/// So many refusals in a row are borne without a rest.
const REFUSALS_BORNE: u32 = 3;
/// The first rest after them; each further one doubles it.
const REST: Duration = Duration::from_millis(100);
const REST_DOUBLINGS_MAX: u32 = 6;
/// After so many rests, 6.3 s together, it is hopeless.
const RESTS: u32 = 6;
/// The most that fills a gap at once.
const GAP_MAX: u64 = 16;
/// So many nonces that have ended are passed over at once.
const PASSED_OVER: usize = 64;

/// An account that sends.
pub struct Queue<'a> {
    signer: &'a Signer,
    /// Who it is.
    pub address: Address,
    /// The nonce at the beginning, and the index of whom that one pays.
    first: (u64, usize),
    /// The next nonce that nothing is signed for.
    unsigned: u64,
    /// The first nonce that has never gone out.
    fresh: u64,
    /// How many nonces have gone out.
    sent: u64,
    /// Signed, by nonce, without a hole but for what has ended.
    ahead: VecDeque<Signed>,
    refusals: u32,
    broke: bool,
    rests_until: Option<Instant>,
    /// The nonce that the node waits for, when it was seen to wait.
    stuck_at: Option<u64>,
    /// What had to be signed while it sent.
    pub signed_late: SignedLate,
    /// How many looks pass before the next time that it is taken for stuck; and how many did.
    patience: (u32, u32),
}

/// A transaction as it goes out.
pub struct Signed {
    /// Its nonce.
    pub nonce: u64,
    /// Its bytes.
    pub raw: Vec<u8>,
    /// Their hash.
    pub hash: B256,
    /// The most wei it pays for a unit of gas.
    pub max_fee: u128,
    /// Whether it has gone out before.
    pub again: bool,
}

impl<'a> Queue<'a> {
    /// The account `signer` that goes on from `nonce`, and pays the account `target` first.
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

    fn sign_with(&self, shared: &Shared<'_>, terms: &Terms, nonce: u64) -> Signed {
        let index = self.first.1 + nonce.saturating_sub(self.first.0) as usize;
        let target = shared.targets[index % shared.targets.len()];
        let (raw, hash) = sign(shared.workload.build(terms, nonce, self.address, target), self.signer);
        Signed { nonce, raw, hash, max_fee: terms.max_fee, again: nonce < self.fresh }
    }

    /// What has gone out with this nonce, with the fees that it had; none if it has ended.
    fn sign_again(&self, shared: &Shared<'_>, nonce: u64) -> Option<Signed> {
        let fees = shared.fees.all();
        let mut signed = fees.iter().rev().map(|terms| self.sign_with(shared, terms, nonce));
        signed.find(|signed| shared.course.outcomes.is_open(&signed.hash))
    }

    fn sign_at(&self, shared: &Shared<'_>, nonce: u64) -> Option<Signed> {
        if nonce < self.fresh {
            return self.sign_again(shared, nonce);
        }
        Some(self.sign_with(shared, &shared.fees.today(), nonce))
    }

    /// Signs one more ahead, unless that has ended.
    pub fn sign_ahead(&mut self, shared: &Shared<'_>) {
        let signed = self.sign_at(shared, self.unsigned);
        self.unsigned = self.unsigned.saturating_add(1);
        self.ahead.extend(signed);
    }

    /// How many it may still send: fresh ones, and at least one if some that have gone out may have to go again.
    pub fn left(&self, shared: &Shared<'_>) -> u64 {
        self.fresh_left(shared).saturating_add(u64::from(self.next_nonce() < self.fresh))
    }

    fn fresh_left(&self, shared: &Shared<'_>) -> u64 {
        shared.pace.count.map_or(u64::MAX, |count| count.saturating_sub(self.sent))
    }

    /// The next transaction; none if it has sent all or rests.
    pub fn next(&mut self, shared: &Shared<'_>, now: Instant) -> Option<Signed> {
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

    /// The first nonce that has never gone out: a node that waits for a higher one has heard of it from somebody else.
    pub fn fresh(&self) -> u64 {
        self.fresh
    }

    /// Whether it sends no more: the node has refused for a while whatever came, and it was to send a number; or the
    /// node has said all that while that the account cannot pay. What waits in a pool may hold more of an account's
    /// money than it costs in the end.
    pub fn gives_up(&self, shared: &Shared<'_>) -> bool {
        (self.broke || shared.pace.count.is_some()) && self.refusals > REFUSALS_BORNE + RESTS
    }

    /// The account has not the money for what it sends.
    pub fn is_poor(&mut self, now: Instant) {
        self.broke = true;
        self.refused(now);
    }

    /// The nonce of what goes out next.
    fn next_nonce(&self) -> u64 {
        self.ahead.front().map_or(self.unsigned, |signed| signed.nonce)
    }

    /// There was no room for it: it goes first next time.
    pub fn put_back(&mut self, mut signed: Signed) {
        signed.again = true;
        self.ahead.push_front(signed);
    }

    /// It pays too little: the same with today's fees goes first next time. Gives its hash.
    pub fn put_back_dearer(&mut self, shared: &Shared<'_>, cheap: &Signed) -> B256 {
        let signed = self.dearer(shared, cheap);
        let hash = signed.hash;
        self.put_back(signed);
        hash
    }

    /// The same with today's fees.
    pub fn dearer(&self, shared: &Shared<'_>, cheap: &Signed) -> Signed {
        self.sign_with(shared, &shared.fees.today(), cheap.nonce)
    }

    /// The node took one.
    pub fn taken(&mut self) {
        (self.refusals, self.rests_until, self.broke) = (0, None, false);
    }

    /// The node refused one for good: after some in a row it rests.
    pub fn refused(&mut self, now: Instant) {
        self.refusals += 1;
        if let Some(beyond) = self.refusals.checked_sub(REFUSALS_BORNE) {
            self.rests_until = Some(now + REST * (1 << beyond.min(REST_DOUBLINGS_MAX)));
        }
    }

    /// Goes on from the nonce that the node waits for: what has a lower one is of no use, and a hole is filled.
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

    /// A look at the nonce that the node waits for. Gives what is to be sent anew if the node has waited for one that
    /// was sent since the look before: the pool has lost it, and what comes after it stands still.
    pub fn look(&mut self, shared: &Shared<'_>, awaited: u64) -> Vec<Signed> {
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

    /// What [`Queue::look`] gave was sent: whether the node had lost any. A slow node is looked at ever less.
    pub fn looked(&mut self, lost: bool) {
        self.patience.0 = if lost { 1 } else { (self.patience.0 * 2).min(64) };
    }
}
