//! The threads that send: each has accounts of its own, so that an account's transactions go out in order.
//!
//! reads   the node's verdicts
//! writes  batches of raw transactions, one of each account at most in a batch
//! memory  what was signed ahead; a batch
//! drops   nothing: what the pool has no room for is kept and sent again; after any other refusal the account's nonce
//!         is asked for anew
//!
//! A batch whose answer is lost is sent again as it is: the same bytes have the same hash: nothing is sent twice.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256};
use hdrhistogram::Histogram;
use hearth_crypto::secp256k1::Signer;

use super::account::address;
use super::outcome::{Outcomes, histogram, record};
use super::rpc::{Refusal, Rpc, RpcError};
use super::workload::{Terms, Workload, sign};

/// How long a sender waits when the pool is full, or nobody answers.
const BACK_OFF: Duration = Duration::from_millis(20);
/// The longest such wait, after many.
const BACK_OFF_MAX: Duration = Duration::from_secs(1);
/// How often a waiting sender looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How to send.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Transactions a second, of all senders together; none sends as many as the node takes.
    pub rate: Option<f64>,
    /// Transactions in a request.
    pub batch: usize,
    /// The most that are under way at once, where no rate is given.
    pub under_way: usize,
    /// The most that each account sends.
    pub count: Option<u64>,
    /// How many of each account are signed before the first is sent.
    pub presign: u64,
}

/// What all senders share.
pub struct Shared<'a> {
    /// The pace.
    pub pace: Pace,
    /// How many senders there are.
    pub senders: usize,
    /// What they send.
    pub workload: Workload,
    /// Fees and chain.
    pub terms: Terms,
    /// To whom: the accounts of the load.
    pub targets: &'a [Address],
    /// What becomes of it.
    pub outcomes: &'a Outcomes,
    /// The end.
    pub stop: &'a AtomicBool,
    /// Set when the warm-up is over.
    pub measured: &'a AtomicBool,
    /// Passed when all have signed ahead.
    pub ready: &'a Barrier,
    /// Counts how many have been signed ahead.
    pub signed: &'a AtomicU64,
}

/// What a sender tells at its end.
pub struct Told {
    /// From when a batch was due to when it was sent, at a given rate.
    pub lag_us: Histogram<u64>,
    /// Requests without an answer.
    pub unanswered: u64,
    /// Times that the pool had no room for some of a batch.
    pub full: u64,
    /// Times that an account's nonce was asked for anew.
    pub renonced: u64,
    /// The last error of the connection.
    pub error: Option<RpcError>,
}

/// An account that sends.
struct Account<'a> {
    signer: &'a Signer,
    address: Address,
    nonce: u64,
    sent: u64,
    /// Whom it pays next, an index.
    target: usize,
    /// Signed ahead, by nonce; what has to be sent again goes first.
    ahead: VecDeque<Signed>,
}

struct Signed {
    nonce: u64,
    raw: Vec<u8>,
    hash: B256,
}

impl Account<'_> {
    fn sign_next(&mut self, shared: &Shared<'_>) -> Signed {
        let target = shared.targets[self.target % shared.targets.len()];
        self.target += 1;
        let nonce = self.nonce;
        self.nonce += 1;
        let (raw, hash) = sign(shared.workload.build(&shared.terms, nonce, target), self.signer);
        Signed { nonce, raw, hash }
    }

    fn next(&mut self, shared: &Shared<'_>) -> Option<Signed> {
        if shared.pace.count.is_some_and(|count| self.sent >= count) {
            return None;
        }
        self.sent += 1;
        Some(match self.ahead.pop_front() {
            Some(signed) => signed,
            None => self.sign_next(shared),
        })
    }
}

/// One sender at work.
struct Sender<'a> {
    rpc: Rpc,
    shared: &'a Shared<'a>,
    accounts: Vec<Account<'a>>,
    /// Whose turn it is.
    turn: usize,
    told: Told,
}

/// Signs ahead, waits for the others, and sends until the end. `index` of the senders.
pub fn send(rpc: Rpc, shared: &Shared<'_>, index: usize, signers: &[(Signer, u64)]) -> Told {
    let told = Told { lag_us: histogram(), unanswered: 0, full: 0, renonced: 0, error: None };
    let own = signers.iter().enumerate().map(|(k, (signer, nonce))| {
        let (address, nonce) = (address(signer), *nonce);
        // No two accounts pay to the same one at the same time, nor to themselves.
        Account { signer, address, nonce, sent: 0, target: index + (k + 1) * shared.senders, ahead: VecDeque::new() }
    });
    let mut sender = Sender { rpc, shared, accounts: own.collect(), turn: 0, told };
    for account in &mut sender.accounts {
        for _ in 0..shared.pace.presign {
            if shared.stop.load(Ordering::Relaxed) {
                break;
            }
            let signed = account.sign_next(shared);
            account.ahead.push_back(signed);
            shared.signed.fetch_add(1, Ordering::Relaxed);
        }
    }
    shared.ready.wait();
    sender.run(index);
    sender.told
}

impl Sender<'_> {
    fn run(&mut self, index: usize) {
        let pace = self.shared.pace;
        let begin = Instant::now();
        // Each sender has an equal share of the rate; their batches are spread over the interval.
        let interval = pace.rate.map(|rate| Duration::from_secs_f64((pace.batch * self.shared.senders) as f64 / rate));
        let offset =
            interval.map_or(Duration::ZERO, |interval| interval.mul_f64(index as f64 / self.shared.senders as f64));
        for turn in 0u32.. {
            let due = match interval {
                Some(interval) => begin + offset + interval.mul_f64(f64::from(turn)),
                None => begin,
            };
            if !self.wait(due, interval.is_some()) {
                return;
            }
            let batch = self.take(pace.batch);
            if batch.is_empty() {
                return;
            }
            let now = Instant::now();
            let due = if interval.is_some() { due } else { now };
            let measured = self.shared.measured.load(Ordering::Relaxed);
            if interval.is_some() && measured {
                record(&mut self.told.lag_us, now.saturating_duration_since(due));
            }
            self.deliver(batch, due, measured);
        }
    }

    /// Waits until a batch may go; false when it is to stop.
    fn wait(&self, due: Instant, at_rate: bool) -> bool {
        loop {
            if self.shared.stop.load(Ordering::Relaxed) {
                return false;
            }
            if !at_rate {
                if self.shared.outcomes.wait_below(self.shared.pace.under_way, LOOK_EVERY) {
                    return true;
                }
                continue;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// The next transactions, one of each account at most, with the account's index.
    fn take(&mut self, count: usize) -> Vec<(usize, Signed)> {
        let mut batch = Vec::with_capacity(count);
        for _ in 0..self.accounts.len() {
            if batch.len() == count {
                break;
            }
            let account = self.turn;
            self.turn = (self.turn + 1) % self.accounts.len();
            batch.extend(self.accounts[account].next(self.shared).map(|signed| (account, signed)));
        }
        batch
    }

    /// Sends a batch until the node has said something of each of it.
    fn deliver(&mut self, batch: Vec<(usize, Signed)>, due: Instant, measured: bool) {
        let outcomes = self.shared.outcomes;
        outcomes.sending(batch.iter().map(|(_, signed)| &signed.hash), due, measured);
        let mut back_off = BACK_OFF;
        let verdicts = loop {
            let raws: Vec<_> = batch.iter().map(|(_, signed)| &signed.raw[..]).collect();
            match self.rpc.send_raw(&raws) {
                Ok(verdicts) => break verdicts,
                Err(why) => {
                    self.told.unanswered += 1;
                    self.told.error = Some(why);
                }
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                // Nobody knows whether they were taken: the end will tell.
                return;
            }
            std::thread::sleep(back_off);
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        };
        let mut full = false;
        for ((account, signed), verdict) in batch.into_iter().zip(verdicts) {
            let Err(Refusal { message, .. }) = verdict else { continue };
            match Reason::of(&message) {
                Reason::Known => {}
                Reason::Full => {
                    full = true;
                    outcomes.withdrawn(&signed.hash);
                    self.accounts[account].sent -= 1;
                    self.accounts[account].ahead.push_front(signed);
                }
                Reason::Nonce | Reason::Other => self.refused(account, &signed, &message),
            }
        }
        if full {
            self.told.full += 1;
            std::thread::sleep(BACK_OFF);
        }
    }

    /// The node refuses it for good: what comes after it has another nonce.
    fn refused(&mut self, account: usize, signed: &Signed, message: &str) {
        self.shared.outcomes.rejected(&signed.hash, message);
        let account = &mut self.accounts[account];
        self.told.renonced += 1;
        match self.rpc.nonces(&[account.address]) {
            Ok(nonces) if nonces[0] != signed.nonce + 1 => {
                account.ahead.clear();
                account.nonce = nonces[0];
            }
            Ok(_) => {}
            Err(why) => {
                self.told.unanswered += 1;
                self.told.error = Some(why);
            }
        }
    }
}

/// What a refusal means to a sender. Nodes have no codes for it, only words.
#[derive(Debug, PartialEq, Eq)]
enum Reason {
    /// The node has it.
    Known,
    /// The pool has no room now.
    Full,
    /// The nonce is used, or too far ahead.
    Nonce,
    /// Anything else.
    Other,
}

impl Reason {
    fn of(message: &str) -> Self {
        let message = message.to_ascii_lowercase();
        let any = |words: &[&str]| words.iter().any(|word| message.contains(word));
        match () {
            () if any(&[
                "already known",
                "known transaction",
                "already imported",
                "already in mempool",
                "tx already exists",
            ]) =>
            {
                Self::Known
            }
            () if any(&["is full", "limit exceeded", "too many", "rate limit", "busy"]) => Self::Full,
            () if any(&["nonce"]) => Self::Nonce,
            () => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_in_the_words_of_nodes() {
        assert_eq!(Reason::of("already known"), Reason::Known);
        assert_eq!(Reason::of("transaction already imported"), Reason::Known);
        assert_eq!(Reason::of("txpool is full"), Reason::Full);
        assert_eq!(Reason::of("mempool is full: number of txs 8000 (max: 8000)"), Reason::Full);
        assert_eq!(Reason::of("nonce too low: next nonce 5, tx nonce 4"), Reason::Nonce);
        assert_eq!(Reason::of("insufficient funds for gas * price + value"), Reason::Other);
    }
}
