//! The threads that send: each has accounts of its own, so that an account's transactions go out in order.
//!
//! reads   the node's verdicts; what nonce it waits for
//! writes  batches of raw transactions, one of each account at most in a batch
//! memory  what was signed ahead; a batch
//! drops   nothing: what the pool has no room for is kept, sent again, and due when it first was; after any other
//!         refusal the account's nonce is asked for anew; what a pool has lost is sent again
//!
//! A batch whose answer is lost is sent again as it is, to the next node where there are several: the same bytes have
//! the same hash: nothing is sent twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256};
use hdrhistogram::Histogram;
use hearth_crypto::secp256k1::Signer;

use super::outcome::{Outcomes, histogram, record};
use super::process::thread_busy;
use super::queue::{Queue, Signed};
use super::refusal::Reason;
use super::rpc::{Refusal, Rpc, RpcError};
use super::workload::{Terms, Workload};

/// How long a sender waits when the pool is full, or nobody answers.
const BACK_OFF: Duration = Duration::from_millis(20);
/// The longest such wait, after many.
const BACK_OFF_MAX: Duration = Duration::from_secs(1);
/// How often a waiting sender looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// At a rate, what falls due within this goes out together.
const TOGETHER: Duration = Duration::from_millis(20);
/// How often a sender looks whether the pool has lost some of its transactions: while it sends, and afterwards.
const HEAL_EVERY: Duration = Duration::from_secs(10);
const HEAL_AFTERWARDS_EVERY: Duration = Duration::from_secs(2);
/// What dearer transactions pay more: three blocks' worth of the fastest rise are a factor of 1.4.
const DEARER: u128 = 8;

/// How to send.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Transactions a second, of all senders together; none sends as many as the node takes.
    pub rate: Option<f64>,
    /// Transactions in a request, at most.
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
    /// Fees and chain: fees rise when a node asks for more.
    pub terms: &'a Mutex<Terms>,
    /// To whom: the accounts of the load.
    pub targets: &'a [Address],
    /// What becomes of it.
    pub outcomes: &'a Outcomes,
    /// When sending ended.
    pub stop: &'a OnceLock<Instant>,
    /// The end of all.
    pub over: &'a AtomicBool,
    /// Set when the warm-up is over.
    pub measured: &'a AtomicBool,
    /// Passed when all have signed ahead.
    pub ready: &'a Barrier,
    /// Counts how many have been signed ahead.
    pub signed: &'a AtomicU64,
    /// How many senders have something to send.
    pub at_work: &'a AtomicUsize,
}

impl Shared<'_> {
    /// Today's fees.
    pub fn terms(&self) -> Terms {
        *self.terms.lock().expect("nobody panics with it")
    }

    /// A node asks for more than `max_fee`.
    fn dearer(&self, max_fee: u128) {
        let mut terms = self.terms.lock().expect("nobody panics with it");
        if terms.max_fee <= max_fee {
            terms.max_fee = max_fee.saturating_mul(DEARER);
        }
    }

    fn stopped(&self) -> bool {
        self.stop.get().is_some()
    }
}

/// What a sender tells at its end.
pub struct Told {
    /// From when a batch was due to when it was sent, at a given rate; to the end, for those that were not.
    pub lag_us: Histogram<u64>,
    /// How many were due and not sent, at a given rate; without those that the node had no room for.
    pub unsent: u64,
    /// Requests without an answer.
    pub unanswered: u64,
    /// Times that the pool had no room for some of a batch.
    pub full: u64,
    /// Times that the node asked for a higher fee.
    pub dearer: u64,
    /// Times that an account's nonce was asked for anew.
    pub renonced: u64,
    /// Transactions that the pool had lost, sent again.
    pub healed: u64,
    /// Answers with another hash than that of what was sent.
    pub other_hash: u64,
    /// How the measured time went by.
    pub spent: Spent,
    /// The last error of the connection.
    pub error: Option<RpcError>,
    /// The last words of a node that had no room.
    pub full_words: Option<String>,
}

/// How a sender spent its measured time.
#[derive(Clone, Copy, Default)]
pub struct Spent {
    /// All of it.
    pub all: Duration,
    /// Waiting for the node's answers.
    pub answers: Duration,
    /// Waiting until fewer are under way, or the next is due, or after the node had no room.
    pub idle: Duration,
    /// Running, or waiting for a core.
    pub busy: Duration,
}

/// When the measured time of a sender began, with what it had spent until then.
struct Begun {
    at: Instant,
    busy: Option<Duration>,
    before: Spent,
}

/// One sender at work.
struct Sender<'a> {
    /// The nodes, and which of them it talks to.
    nodes: (Vec<Rpc>, usize),
    shared: &'a Shared<'a>,
    queues: Vec<Queue<'a>>,
    /// Whose turn it is.
    turn: usize,
    spent: Spent,
    begun: Option<Begun>,
    told: Told,
}

/// Signs ahead, waits for the others, sends until the end, and heals until all is over. `index` of the senders.
pub fn send(nodes: Vec<Rpc>, shared: &Shared<'_>, index: usize, signers: &[(Signer, u64)]) -> Told {
    let told = Told {
        lag_us: histogram(),
        unsent: 0,
        unanswered: 0,
        full: 0,
        dearer: 0,
        renonced: 0,
        healed: 0,
        other_hash: 0,
        spent: Spent::default(),
        error: None,
        full_words: None,
    };
    // No two accounts pay to the same one at the same time, nor to themselves.
    let target = |k: usize| index + (k + 1) * shared.senders;
    let queues = signers.iter().enumerate().map(|(k, (signer, nonce))| Queue::new(signer, *nonce, target(k))).collect();
    let first = index % nodes.len();
    let mut sender =
        Sender { nodes: (nodes, first), shared, queues, turn: 0, spent: Spent::default(), begun: None, told };
    for queue in &mut sender.queues {
        for _ in 0..shared.pace.presign {
            if shared.stopped() {
                break;
            }
            queue.sign_ahead(shared);
            shared.signed.fetch_add(1, Ordering::Relaxed);
        }
    }
    shared.ready.wait();
    sender.run(index);
    sender.account_time();
    shared.at_work.fetch_sub(1, Ordering::AcqRel);
    sender.heal_until_over();
    sender.told
}

/// A sender's timetable at a rate: when which of its transactions is due.
struct Timetable {
    first: Instant,
    each: Duration,
    /// How many have gone out.
    gone: u64,
}

impl Timetable {
    /// Each sender has an equal share of the rate, and its own place in the interval.
    fn new(rate: f64, senders: usize, index: usize) -> Self {
        let each = Duration::from_secs_f64(senders as f64 / rate);
        Self { first: Instant::now() + each.mul_f64(index as f64 / senders as f64), each, gone: 0 }
    }

    fn due(&self, nth: u64) -> Instant {
        self.first + self.each.mul_f64(nth as f64)
    }

    fn together(&self, batch: usize) -> usize {
        ((TOGETHER.as_secs_f64() / self.each.as_secs_f64()) as usize).clamp(1, batch)
    }

    /// How many were to have gone by then.
    fn due_until(&self, end: Instant) -> u64 {
        let time = end.saturating_duration_since(self.first);
        (time.as_secs_f64() / self.each.as_secs_f64()) as u64 + u64::from(end >= self.first)
    }
}

impl<'a> Sender<'a> {
    fn rpc(&self) -> &Rpc {
        &self.nodes.0[self.nodes.1]
    }

    fn run(&mut self, index: usize) {
        let pace = self.shared.pace;
        let mut timetable = pace.rate.map(|rate| Timetable::new(rate, self.shared.senders, index));
        let together = timetable.as_ref().map_or(pace.batch, |timetable| timetable.together(pace.batch));
        let mut healed = Instant::now();
        loop {
            let due = timetable.as_ref().map(|timetable| timetable.due(timetable.gone));
            if !self.wait(due) {
                break;
            }
            self.begin_measuring();
            if healed.elapsed() > HEAL_EVERY {
                self.heal();
                healed = Instant::now();
            }
            let now = Instant::now();
            let batch = self.take(together, now);
            if batch.is_empty() {
                if self.queues.iter().all(|queue| queue.left(self.shared) == 0) {
                    return;
                }
                self.idle(BACK_OFF);
                continue;
            }
            let measured = self.shared.measured.load(Ordering::Relaxed);
            let fresh = batch.iter().filter(|(_, signed)| !signed.again).count() as u64;
            if let (Some(timetable), Some(due)) = (&mut timetable, due) {
                timetable.gone += fresh;
                if measured && fresh > 0 {
                    record(&mut self.told.lag_us, now.saturating_duration_since(due));
                }
            }
            self.deliver(batch, due.unwrap_or(now), measured);
        }
        if let Some(timetable) = &timetable {
            self.count_unsent(timetable, together);
        }
    }

    /// What was due and did not go out is as late as the end at least. What fell due just then is not meant.
    fn count_unsent(&mut self, timetable: &Timetable, together: usize) {
        let end = self.shared.stop.get().copied().unwrap_or_else(Instant::now);
        let left = self.queues.iter().fold(0u64, |sum, queue| sum.saturating_add(queue.left(self.shared)));
        self.told.unsent = timetable.due_until(end - TOGETHER).saturating_sub(timetable.gone).min(left);
        for nth in (0..self.told.unsent).step_by(together) {
            let due = timetable.due(timetable.gone + nth);
            record(&mut self.told.lag_us, end.saturating_duration_since(due));
        }
    }

    /// Waits until a batch may go; false when it is to stop.
    fn wait(&mut self, due: Option<Instant>) -> bool {
        let begin = Instant::now();
        let go = loop {
            if self.shared.stopped() {
                break false;
            }
            let Some(due) = due else {
                if self.shared.outcomes.wait_below(self.shared.pace.under_way, LOOK_EVERY) {
                    break true;
                }
                continue;
            };
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break true;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        };
        self.spent.idle += begin.elapsed();
        go
    }

    fn idle(&mut self, time: Duration) {
        std::thread::sleep(time);
        self.spent.idle += time;
    }

    /// The next transactions, one of each account at most, with the account's index.
    fn take(&mut self, count: usize, now: Instant) -> Vec<(usize, Signed)> {
        let mut batch = Vec::with_capacity(count);
        for _ in 0..self.queues.len() {
            if batch.len() == count {
                break;
            }
            let index = self.turn;
            self.turn = (self.turn + 1) % self.queues.len();
            batch.extend(self.queues[index].next(self.shared, now).map(|signed| (index, signed)));
        }
        batch
    }

    fn unanswered(&mut self, why: RpcError) {
        self.told.unanswered += 1;
        self.told.error = Some(why);
        self.nodes.1 = (self.nodes.1 + 1) % self.nodes.0.len();
    }

    fn ask(&mut self, raws: &[&[u8]]) -> Result<Vec<Result<B256, Refusal>>, RpcError> {
        let begin = Instant::now();
        let verdicts = self.rpc().send_raw(raws);
        self.spent.answers += begin.elapsed();
        verdicts
    }

    /// Sends a batch until the node has said something of each of it.
    fn deliver(&mut self, batch: Vec<(usize, Signed)>, due: Instant, measured: bool) {
        self.shared.outcomes.sending(batch.iter().map(|(_, signed)| &signed.hash), due, measured);
        let (mut back_off, mut resent) = (BACK_OFF, false);
        let verdicts = loop {
            let raws: Vec<_> = batch.iter().map(|(_, signed)| &signed.raw[..]).collect();
            match self.ask(&raws) {
                Ok(verdicts) => break verdicts,
                Err(why) => self.unanswered(why),
            }
            if self.shared.stopped() {
                // Nobody knows whether they were taken: the end will tell.
                return;
            }
            self.idle(back_off);
            back_off = (back_off * 2).min(BACK_OFF_MAX);
            resent = true;
        };
        let (mut full, mut astray) = (false, vec![]);
        for ((index, signed), verdict) in batch.into_iter().zip(verdicts) {
            match verdict {
                Ok(hash) if hash == signed.hash => self.queues[index].taken(),
                Ok(_) => self.told.other_hash += 1,
                Err(Refusal { message, .. }) => match Reason::of(&message) {
                    Reason::Known => {}
                    Reason::Full => {
                        full = true;
                        self.shared.outcomes.held(&signed.hash);
                        self.queues[index].put_back(signed);
                        self.told.full_words = Some(message);
                    }
                    Reason::Fee => self.pay_more(index, &signed),
                    // It may have been taken before, and be in a block that has not been read yet: the end will tell.
                    Reason::NonceUsed if resent || signed.again => astray.push(index),
                    Reason::NonceUsed | Reason::Other => {
                        self.shared.outcomes.rejected(&signed.hash, &message);
                        self.queues[index].refused(Instant::now());
                        astray.push(index);
                    }
                },
            }
        }
        self.renonce(&astray);
        if full {
            self.told.full += 1;
            self.idle(BACK_OFF);
        }
    }

    fn pay_more(&mut self, index: usize, signed: &Signed) {
        self.told.dearer += 1;
        self.shared.dearer(signed.max_fee);
        self.shared.outcomes.held(&signed.hash);
        let hash = self.queues[index].put_back_dearer(self.shared, signed);
        self.shared.outcomes.resigned(&signed.hash, &hash);
    }

    /// What comes after a refused one has another nonce than was thought: asks for it.
    fn renonce(&mut self, indices: &[usize]) {
        if indices.is_empty() {
            return;
        }
        self.told.renonced += indices.len() as u64;
        let addresses: Vec<_> = indices.iter().map(|&index| self.queues[index].address).collect();
        match self.rpc().nonces(&addresses) {
            Ok(nonces) => {
                indices.iter().zip(nonces).for_each(|(&index, nonce)| self.queues[index].align(self.shared, nonce));
            }
            Err(why) => self.unanswered(why),
        }
    }

    /// Looks whether the node waits for a nonce that was sent: a pool that was full may have dropped one, and what
    /// comes after it waits for ever.
    fn heal(&mut self) {
        let addresses: Vec<_> = self.queues.iter().map(|queue| queue.address).collect();
        let nonces = match self.rpc().nonces(&addresses) {
            Ok(nonces) => nonces,
            Err(why) => return self.unanswered(why),
        };
        let mut lost = vec![];
        for (index, awaited) in nonces.into_iter().enumerate() {
            let signed = self.queues[index].look(self.shared, awaited);
            lost.extend(signed.into_iter().map(|signed| (index, signed)));
        }
        let mut looked: BTreeMap<usize, bool> = BTreeMap::new();
        for batch in lost.chunks(self.shared.pace.batch) {
            self.shared.outcomes.sending(batch.iter().map(|(_, signed)| &signed.hash), Instant::now(), false);
            let raws: Vec<_> = batch.iter().map(|(_, signed)| &signed.raw[..]).collect();
            match self.ask(&raws) {
                Ok(verdicts) => {
                    for ((index, _), verdict) in batch.iter().zip(verdicts) {
                        self.told.healed += u64::from(verdict.is_ok());
                        *looked.entry(*index).or_default() |= verdict.is_ok();
                    }
                }
                Err(why) => return self.unanswered(why),
            }
        }
        looked.into_iter().for_each(|(index, lost)| self.queues[index].looked(lost));
    }

    fn heal_until_over(&mut self) {
        let mut healed = Instant::now();
        while !self.shared.over.load(Ordering::Acquire) {
            std::thread::sleep(LOOK_EVERY);
            if healed.elapsed() > HEAL_AFTERWARDS_EVERY {
                self.heal();
                healed = Instant::now();
            }
        }
    }

    fn begin_measuring(&mut self) {
        if self.begun.is_none() && self.shared.measured.load(Ordering::Relaxed) {
            self.begun = Some(Begun { at: Instant::now(), busy: thread_busy(), before: self.spent });
        }
    }

    fn account_time(&mut self) {
        let Some(Begun { at, busy, before }) = self.begun.take() else { return };
        let all = at.elapsed();
        let answers = self.spent.answers.saturating_sub(before.answers);
        let idle = self.spent.idle.saturating_sub(before.idle);
        // Where the kernel does not count it, what is left is its own.
        let own = || all.saturating_sub(answers + idle);
        let busy = busy.zip(thread_busy()).map_or_else(own, |(then, now)| now.saturating_sub(then));
        self.told.spent = Spent { all, answers, idle, busy };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timetable_offers_the_whole_rate() {
        // 2000 a second by four senders: 500 each, ten together every 20 ms.
        let mut timetable = Timetable::new(2000.0, 4, 1);
        assert_eq!(timetable.together(100), 10);
        assert_eq!(timetable.together(4), 4);
        assert_eq!(Timetable::new(1.0, 4, 0).together(100), 1);
        let begin = timetable.first;
        timetable.gone += 500;
        assert_eq!(timetable.due(timetable.gone) - begin, Duration::from_secs(1));
        assert_eq!(timetable.due_until(begin + Duration::from_secs(2)), 1001);
        assert_eq!(timetable.due_until(begin - Duration::from_millis(1)), 0);
    }
}
