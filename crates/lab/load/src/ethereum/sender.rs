//! The sending threads. Each has its own accounts, so that an account's transactions go out in order.
//!
//! reads   the node's verdicts; the nonce that it waits for
//! writes  batches of raw transactions, each with at most one of an account
//! memory  transactions signed in advance; a batch; what signing many at once needs, 50 KB
//! drops   nothing: a transaction that finds the pool full is kept and sent again with its original due time; after any
//!         other refusal the account's nonce is queried; transactions that the pool lost are sent again
//!
//! A batch whose answer is lost is sent again unchanged, to the next node if there are several. The same bytes have the
//! same hash, so nothing is sent twice.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_primitives::B256;
use hearth_crypto::secp256k1::{BurstSigner, SignItem, Signer};

use super::queue::{Queue, SignedTx};
use super::shared::Shared;
use super::workload::with_signature;
use crate::outcome::record;
use crate::refusal::Reason;
use crate::rpc::{Refusal, Retryable, Rpc, RpcError};
use crate::run_clock::{SenderTally, Stopwatch, Timetable};

/// How long a sender waits when the pool is full or no node answers.
const BACK_OFF: Duration = Duration::from_millis(20);
/// The longest such wait, after repeated failures.
const BACK_OFF_MAX: Duration = Duration::from_secs(1);
/// How many transactions of one account are signed together in advance.
const SIGNED_TOGETHER: u64 = 128;
/// How often a waiting sender checks whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often a sender checks whether the pool has lost some of its transactions: while it sends, and afterwards.
const HEAL_EVERY: Duration = Duration::from_secs(10);
const HEAL_AFTERWARDS_EVERY: Duration = Duration::from_secs(2);

/// State of one sending thread.
struct Sender<'a> {
    /// The nodes, and the index of the one in use.
    nodes: (Vec<Rpc>, usize),
    shared: &'a Shared<'a>,
    queues: Vec<Queue<'a>>,
    /// Signs the transactions of a batch together.
    signer: BurstSigner,
    /// Index of the account whose turn it is.
    turn: usize,
    watch: Stopwatch,
    tally: SenderTally,
}

/// A moment of a sender, with how long it had waited for the node by then.
struct Mark {
    at: Instant,
    for_node: Duration,
}

impl Mark {
    fn new(watch: &Stopwatch) -> Self {
        Self { at: Instant::now(), for_node: watch.spent.for_node() }
    }
}

/// Signs ahead, waits for the other senders, sends until the end, and resends lost transactions until the run is over.
/// `index` numbers the senders.
pub fn send(nodes: Vec<Rpc>, shared: &Shared<'_>, index: usize, signers: &[(Signer, u64)]) -> SenderTally {
    // No two accounts pay the same one at the same time. Each begins with the one after itself, and reaches itself
    // after paying all others.
    let target = |k: usize| index + (k + 1) * shared.senders;
    let queues = signers.iter().enumerate().map(|(k, (signer, nonce))| Queue::new(signer, *nonce, target(k))).collect();
    let first = index % nodes.len();
    let mut sender = Sender {
        nodes: (nodes, first),
        shared,
        queues,
        signer: BurstSigner::default(),
        turn: 0,
        watch: Stopwatch::default(),
        tally: SenderTally::default(),
    };
    sender.presign();
    shared.course.is_ready();
    sender.run(index);
    sender.tally.spent = sender.watch.end().unwrap_or_default();
    sender.tally.stalls = std::mem::take(&mut sender.watch.stalls);
    sender.queues.iter().for_each(|queue| sender.tally.signed_late.add(&queue.signed_late));
    shared.course.at_work.fetch_sub(1, Ordering::AcqRel);
    sender.heal_until_over();
    sender.tally
}

impl<'a> Sender<'a> {
    /// Signs transactions of each account in advance.
    fn presign(&mut self) {
        for index in 0..self.queues.len() {
            let mut left = self.shared.pace.presign;
            while left > 0 && !self.shared.course.stopped() {
                let count = left.min(SIGNED_TOGETHER);
                let txs = self.queues[index].build_ahead(self.shared, count);
                self.sign(txs.into_iter().map(|tx| (index, tx)).collect());
                self.shared.course.signed.fetch_add(count, Ordering::Relaxed);
                left -= count;
            }
        }
    }

    fn rpc(&self) -> &Rpc {
        &self.nodes.0[self.nodes.1]
    }

    fn batch(&self) -> usize {
        self.shared.batch.load(Ordering::Relaxed)
    }

    fn run(&mut self, index: usize) {
        let mut timetable =
            self.shared.pace.rate.map(|rate| self.shared.course.timetable(rate, self.shared.senders, index));
        let mut healed = Instant::now();
        let mut from = Mark::new(&self.watch);
        loop {
            let due = timetable.as_ref().map(|timetable| timetable.due(timetable.gone));
            self.count_behind(timetable.as_ref(), &mut from);
            if !self.wait(due) {
                break;
            }
            self.count_behind(timetable.as_ref(), &mut from);
            self.watch.look(self.shared.course.measured.load(Ordering::Relaxed));
            if healed.elapsed() > HEAL_EVERY {
                self.heal();
                healed = Instant::now();
            }
            let (now, most) = (Instant::now(), self.batch());
            let count = timetable.as_ref().map_or(most, |timetable| timetable.together(now, most));
            let batch = self.take(count, now);
            if batch.is_empty() {
                if self.queues.iter().all(|queue| queue.left(self.shared) == 0 || queue.gives_up(self.shared)) {
                    break;
                }
                self.idle(BACK_OFF);
                continue;
            }
            // Signing late also counts as lag.
            self.announce(&batch, &mut timetable, Instant::now());
            self.deliver(batch);
        }
        if let Some(timetable) = &timetable {
            let end = self.shared.course.stop.get().copied().unwrap_or_else(Instant::now);
            let left = self.queues.iter().fold(0u64, |sum, queue| sum.saturating_add(queue.left(self.shared)));
            timetable.count_unsent(&mut self.tally, end, left);
        }
    }

    /// Counts how long the sender was behind since `from`, and moves `from` to now.
    fn count_behind(&mut self, timetable: Option<&Timetable>, from: &mut Mark) {
        let now = Mark::new(&self.watch);
        if let Some(timetable) = timetable
            && self.shared.course.measured.load(Ordering::Relaxed)
        {
            let node = now.for_node.saturating_sub(from.for_node);
            timetable.count_behind(&mut self.tally.behind, from.at, now.at, node);
        }
        *from = now;
    }

    /// Called before a batch is sent, because a block may be read before the node's answer. Each transaction has its
    /// own due time, and at a given rate counts as gone.
    fn announce(&mut self, batch: &[(usize, SignedTx)], timetable: &mut Option<Timetable>, now: Instant) {
        let (course, measured) = (self.shared.course, self.shared.course.measured.load(Ordering::Relaxed));
        for (_, signed) in batch {
            if signed.again {
                course.outcomes.sending_again([signed.hash].iter());
                continue;
            }
            let mut due = now;
            if let Some(timetable) = timetable {
                due = timetable.due(timetable.gone).min(now);
                timetable.gone += 1;
                if measured {
                    record(&mut self.tally.lag_us, now.saturating_duration_since(due));
                }
            }
            course.outcomes.sending([signed.hash].iter(), due, measured);
        }
    }

    /// Waits until a batch may go. Returns false if the sender is to stop.
    fn wait(&mut self, due: Option<Instant>) -> bool {
        let begin = Instant::now();
        let go = loop {
            if self.shared.course.stopped() {
                break false;
            }
            let Some(due) = due else {
                if self.shared.course.outcomes.wait_below(self.shared.pace.under_way, LOOK_EVERY) {
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
        self.watch.spent.idle += begin.elapsed();
        go
    }

    fn idle(&mut self, time: Duration) {
        std::thread::sleep(time);
        self.watch.held(time);
    }

    /// Takes the next transactions, at most one of each account, with the account's index.
    fn take(&mut self, count: usize, now: Instant) -> Vec<(usize, SignedTx)> {
        self.sign_together(count, now);
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

    /// Signs what the accounts whose turn it is have to send next and have not signed yet. Together that takes a
    /// fraction of the time that one after the other would take.
    fn sign_together(&mut self, count: usize, now: Instant) {
        let (mut ready, mut unsigned) = (0, Vec::new());
        for step in 0..self.queues.len() {
            if ready + unsigned.len() == count {
                break;
            }
            let index = (self.turn + step) % self.queues.len();
            let queue = &self.queues[index];
            ready += usize::from(queue.is_signed_ahead());
            unsigned.extend(queue.unsigned(self.shared, now).map(|tx| (index, tx)));
        }
        if self.shared.pace.presign > 0 {
            unsigned.iter().for_each(|(index, _)| self.queues[*index].signed_late.count(now));
        }
        self.sign(unsigned);
    }

    /// Signs transactions together, each of the account with this index, and adds them to their queues in order.
    fn sign(&mut self, unsigned: Vec<(usize, TxEip1559)>) {
        let item = |(index, tx): &(usize, TxEip1559)| SignItem {
            signer: self.queues[*index].signer(),
            hash: tx.signature_hash().0,
        };
        let items: Vec<SignItem<'a>> = unsigned.iter().map(item).collect();
        let mut signatures = Vec::with_capacity(items.len());
        self.signer.sign_burst(&items, &mut signatures);
        for ((index, tx), signature) in unsigned.into_iter().zip(&signatures) {
            let max_fee = tx.max_fee_per_gas;
            let (raw, hash) = with_signature(tx, signature);
            self.queues[index].add_signed(max_fee, raw, hash);
        }
    }

    fn unanswered(&mut self, why: RpcError) {
        self.tally.unanswered += 1;
        self.tally.error = Some(why);
        self.nodes.1 = (self.nodes.1 + 1) % self.nodes.0.len();
    }

    fn ask(&mut self, raws: &[&[u8]]) -> Result<Vec<Result<B256, Refusal>>, RpcError> {
        let begin = Instant::now();
        let verdicts = self.rpc().send_raw(raws);
        self.watch.answered(begin);
        verdicts
    }

    /// Sends a batch until the node has given a verdict on each transaction.
    fn deliver(&mut self, batch: Vec<(usize, SignedTx)>) {
        let (mut back_off, mut resent) = (BACK_OFF, false);
        let verdicts = loop {
            let raws: Vec<_> = batch.iter().map(|(_, signed)| &signed.raw[..]).collect();
            match self.ask(&raws) {
                Ok(verdicts) => break verdicts,
                Err(why) if why.may_be_too_long() && batch.len() > 1 => return self.deliver_in_halves(batch, why),
                // The refusal is about the batch's only transaction.
                Err(RpcError::Refused { code, message, data, .. }) if Reason::of(&message) != Reason::Full => {
                    break vec![Err(Refusal { code, message, data })];
                }
                Err(why) => self.unanswered(why),
            }
            if self.shared.course.stopped() {
                // Unknown whether they were accepted; the end of the run asks the node.
                return;
            }
            self.idle(back_off);
            back_off = (back_off * 2).min(BACK_OFF_MAX);
            resent = true;
        };
        self.hear(batch, verdicts, resent);
    }

    /// The node refuses a request of this size: from now on none has more than half.
    fn deliver_in_halves(&mut self, mut batch: Vec<(usize, SignedTx)>, why: RpcError) {
        let second = batch.split_off(batch.len() / 2);
        self.shared.batch.fetch_min(second.len(), Ordering::Relaxed);
        self.tally.too_long = Some(why);
        self.deliver(batch);
        self.deliver(second);
    }

    /// Processes the node's verdicts on a batch.
    fn hear(&mut self, batch: Vec<(usize, SignedTx)>, verdicts: Vec<Result<B256, Refusal>>, resent: bool) {
        let (mut full, mut astray, mut taken) = (false, vec![], vec![]);
        for ((index, signed), verdict) in batch.into_iter().zip(verdicts) {
            match verdict {
                Ok(hash) if hash == signed.hash => {
                    self.queues[index].taken();
                    taken.push(hash);
                }
                Ok(_) => self.tally.other_hash += 1,
                Err(Refusal { message, .. }) => match Reason::of(&message) {
                    Reason::Known => taken.push(signed.hash),
                    Reason::Full => {
                        full = true;
                        self.shared.course.outcomes.held(&signed.hash);
                        self.queues[index].put_back(signed);
                        self.tally.full_words = Some(message);
                    }
                    Reason::Fee => self.pay_more(index, &signed),
                    // It may have been accepted before and be in an unread block; the end of the run asks the node.
                    Reason::NonceUsed if resent || signed.again => astray.push(index),
                    reason => {
                        self.shared.course.outcomes.rejected(&signed.hash, &message);
                        match reason {
                            Reason::Funds => self.queues[index].is_poor(Instant::now()),
                            _ => self.queues[index].refused(Instant::now()),
                        }
                        astray.push(index);
                    }
                },
            }
        }
        self.shared.course.outcomes.taken(taken.iter());
        self.renonce(&astray);
        if full {
            self.tally.full += 1;
            self.idle(BACK_OFF);
        }
    }

    fn pay_more(&mut self, index: usize, signed: &SignedTx) {
        self.tally.dearer += 1;
        self.shared.fees.dearer(signed.max_fee);
        self.shared.course.outcomes.held(&signed.hash);
        let hash = self.queues[index].put_back_dearer(self.shared, signed);
        self.shared.course.outcomes.resigned(&signed.hash, &hash);
    }

    /// After a refusal the next nonce is uncertain: asks the node for it.
    fn renonce(&mut self, indices: &[usize]) {
        if indices.is_empty() {
            return;
        }
        self.tally.renonced += indices.len() as u64;
        let begin = Instant::now();
        let awaited = self.awaited(indices);
        self.watch.answered(begin);
        match awaited {
            Ok(nonces) => {
                indices.iter().zip(nonces).for_each(|(&index, nonce)| self.queues[index].align(self.shared, nonce));
            }
            Err(why) => self.unanswered(why),
        }
    }

    /// The nonces that the node waits for, one per account. A nonce above everything sent may come from someone else's
    /// transactions, and is believed only if the node repeats it.
    fn awaited(&self, indices: &[usize]) -> Result<Vec<u64>, RpcError> {
        let ask = |indices: &[usize]| {
            let addresses: Vec<_> = indices.iter().map(|&index| self.queues[index].address).collect();
            self.rpc().nonces(&addresses)
        };
        let mut awaited = ask(indices)?;
        let is_strange = |at: &usize| awaited[*at] > self.queues[indices[*at]].fresh();
        let strange: Vec<_> = (0..indices.len()).filter(is_strange).collect();
        if !strange.is_empty() {
            let again = ask(&strange.iter().map(|&at| indices[at]).collect::<Vec<_>>())?;
            strange.iter().zip(again).for_each(|(&at, again)| awaited[at] = awaited[at].min(again));
        }
        Ok(awaited)
    }

    /// Checks whether the node waits for a nonce that was already sent: a full pool may have dropped it, and everything
    /// after it would wait forever.
    fn heal(&mut self) {
        let begin = Instant::now();
        let awaited = self.awaited(&(0..self.queues.len()).collect::<Vec<_>>());
        self.watch.answered(begin);
        let nonces = match awaited {
            Ok(nonces) => nonces,
            Err(why) => return self.unanswered(why),
        };
        let mut lost = vec![];
        for (index, awaited) in nonces.into_iter().enumerate() {
            let signed = self.queues[index].look(self.shared, awaited);
            lost.extend(signed.into_iter().map(|signed| (index, signed)));
        }
        let mut looked: BTreeMap<usize, bool> = BTreeMap::new();
        for batch in lost.chunks(self.batch()) {
            let raws: Vec<_> = batch.iter().map(|(_, signed)| &signed.raw[..]).collect();
            match self.ask(&raws) {
                Ok(verdicts) => {
                    for ((index, signed), verdict) in batch.iter().zip(verdicts) {
                        *looked.entry(*index).or_default() |= self.is_healed(*index, signed, verdict.err());
                    }
                }
                Err(why) => return self.unanswered(why),
            }
        }
        looked.into_iter().for_each(|(index, lost)| self.queues[index].looked(lost));
    }

    /// Processes the node's verdict on a possibly lost transaction, and returns whether it was lost. A refusal changes
    /// nothing, unless fees have risen since: then the next check sends it with today's.
    fn is_healed(&mut self, index: usize, signed: &SignedTx, refusal: Option<Refusal>) -> bool {
        let outcomes = &self.shared.course.outcomes;
        match refusal {
            None => {
                outcomes.sending_again([signed.hash].iter());
                self.tally.healed += 1;
                true
            }
            Some(refusal) if Reason::of(&refusal.message) == Reason::Fee => {
                self.tally.dearer += 1;
                self.shared.fees.dearer(signed.max_fee);
                outcomes.resigned(&signed.hash, &self.queues[index].dearer(self.shared, signed).hash);
                true
            }
            Some(_) => false,
        }
    }

    fn heal_until_over(&mut self) {
        let mut healed = Instant::now();
        while !self.shared.course.over.load(Ordering::Acquire) {
            std::thread::sleep(LOOK_EVERY);
            if healed.elapsed() > HEAL_AFTERWARDS_EVERY {
                self.heal();
                healed = Instant::now();
            }
        }
    }
}
