//! The sending threads. Each has its own accounts and its own connection.
//!
//! reads   outcomes of sent transactions; the chain's time; a node's verdicts if it sends over RPC
//! writes  transactions
//! memory  400 B for each transaction signed ahead, and for each sent one until a block contains it or its blockhash
//!         has expired, about a minute: at a given rate at most a million of those, 400 MB, and transactions beyond
//!         that are late
//! drops   nothing: a transaction that no block contains is sent again with the same bytes; when its blockhash has
//!         expired and every block that may contain it was read, it is signed again
//!
//! The same bytes are the same transaction, executed once however often it is sent. New bytes are made only once no
//! block can contain the old ones, so nothing is executed twice.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hearth_wire::consts::PACKET_DATA_SIZE;

use super::collect::Targets;
use super::deliver::is_final;
use super::keys::Account;
use super::node::{self, ChainTime};
use super::workload::{SignedTx, Workload};
use crate::options::SendOptions;
use crate::outcome::{Outcome, record};
use crate::rpc::{Refusal, Rpc, RpcError};
use crate::run_clock::{RunState, SenderTally, SignedLate, Stopwatch, Timetable};
use crate::tpu::Tpu;

/// A transaction that no block contains after this time is sent again; then after twice as long, and so on.
const AGAIN: Duration = Duration::from_secs(2);
const _: () = assert!(AGAIN.as_secs() == 2, "the words of a report have it");
/// How often that time doubles, at most.
const DOUBLINGS: usize = 5;
/// How often a sender checks its sent transactions.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How many it checks before it sends those that have fallen due.
const LOOKS_TOGETHER: usize = 512;
/// The longest sleep: a block may have come meanwhile.
const SLEEP_MAX: Duration = Duration::from_millis(2);
/// At a rate above one per this time, transactions due within it are sent together, in one system call.
const GATHER: Duration = Duration::from_micros(300);
/// The most transactions sent in one turn.
const TURN: u64 = 256;
/// A transaction signed in advance is signed again when its blockhash is valid for fewer than this many blocks.
const BLOCKS_LEFT_MIN: u64 = 20;
/// How often a transaction is signed before it is dropped.
const SIGNINGS_MAX: u8 = 3;
/// At a given rate, the most sent transactions without a known outcome, of all senders together.
pub const IN_NO_BLOCK_MAX: usize = 1_000_000;
/// How long a sender waits when no node answers, or none has room.
const BACK_OFF: Duration = Duration::from_millis(20);
/// The longest such wait, after repeated failures.
const BACK_OFF_MAX: Duration = Duration::from_secs(1);

/// How transactions are sent.
pub enum SendRoute<'a> {
    /// Over QUIC, to these addresses.
    Tpu(&'a Targets),
    /// By these nodes' `sendTransaction`.
    Rpc(&'a [Rpc]),
}

/// State that all senders share.
pub struct Shared<'a> {
    /// The pace of the run.
    pub pace: SendOptions,
    /// Number of senders, which share the accounts and the rate.
    pub senders: usize,
    /// The accounts that send.
    pub accounts: &'a [Account],
    /// The transactions to send.
    pub workload: Workload,
    /// The number of each account's first transaction.
    pub first_number: u64,
    /// The newest blockhash, and how far blocks are read.
    pub time: &'a ChainTime,
    /// How transactions are sent.
    pub way: SendRoute<'a>,
    /// At a given rate, the most transactions that wait for a block, of all senders together.
    pub in_no_block_max: usize,
    /// State of the run, the same on all chains.
    pub course: &'a RunState,
}

/// The transactions that one account has to send.
struct Lane {
    account: usize,
    next: u64,
    sent: u64,
    ahead: VecDeque<SignedTx>,
    signed_late: SignedLate,
}

impl Lane {
    fn sign_ahead(&mut self, shared: &Shared<'_>) {
        let blockhash = shared.time.newest();
        let from = &shared.accounts[self.account];
        self.ahead.push_back(shared.workload.sign(from, self.account, self.next, &blockhash));
        self.next += 1;
    }

    fn left(&self, shared: &Shared<'_>) -> u64 {
        shared.pace.count.map_or(u64::MAX, |count| count.saturating_sub(self.sent))
    }

    /// Takes the next transaction, with enough of its lifetime left.
    fn take(&mut self, shared: &Shared<'_>) -> Option<SignedTx> {
        if self.left(shared) == 0 {
            return None;
        }
        let is_late = shared.pace.presign > 0;
        if self.ahead.is_empty() {
            self.sign_ahead(shared);
            if is_late {
                self.signed_late.count(Instant::now());
            }
        }
        self.sent += 1;
        let signed = self.ahead.pop_front()?;
        let had = signed.last_valid;
        let signed = shared.with_life(signed);
        // Its blockhash was too old, so it was signed ahead in vain.
        if is_late && signed.last_valid != had {
            self.signed_late.count(Instant::now());
        }
        Some(signed)
    }
}

impl Shared<'_> {
    /// Returns an unsent transaction with enough of its lifetime left, signed again if necessary.
    fn with_life(&self, signed: SignedTx) -> SignedTx {
        if self.time.height() + BLOCKS_LEFT_MIN <= signed.last_valid { signed } else { self.sign_again(&signed) }
    }

    /// Signs the same transaction with the newest blockhash.
    fn sign_again(&self, signed: &SignedTx) -> SignedTx {
        let from = &self.accounts[signed.account];
        self.workload.sign(from, signed.account, signed.number, &self.time.newest())
    }

    /// Returns whether a transaction signed now has enough of its lifetime left: the block reader may be behind with
    /// the newest blockhash.
    fn has_new_blockhash(&self) -> bool {
        self.time.height() + BLOCKS_LEFT_MIN <= self.time.newest().last_valid
    }
}

/// A sent transaction that may have to be sent again.
struct UnconfirmedTx {
    signed: SignedTx,
    at: Instant,
}

/// The transport of one sender.
enum Transport<'a> {
    Tpu {
        tpu: Box<Tpu>,
        targets: &'a Targets,
        aimed: u64,
    },
    Rpc {
        nodes: &'a [Rpc],
        at: usize,
        back_off: Duration,
        rests_until: Option<Instant>,
        /// The most bytes of a request.
        request_bytes: usize,
    },
}

/// State of one sending thread.
struct Sender<'a> {
    shared: &'a Shared<'a>,
    carrier: Transport<'a>,
    lanes: Vec<Lane>,
    /// Index of the lane whose turn it is.
    turn: usize,
    /// To be sent before anything new: there was no room, or it had to be signed again.
    first: VecDeque<SignedTx>,
    /// Sent transactions, by how often they were sent; in each queue the oldest first.
    waiting: [VecDeque<UnconfirmedTx>; DOUBLINGS + 1],
    looked: Instant,
    /// Whether the transport accepted no more in this turn.
    is_blocked: bool,
    watch: Stopwatch,
    tally: SenderTally,
}

/// Returns whether a refusal's message contains these words.
fn says(refusal: &Refusal, words: &str) -> bool {
    refusal.message.to_ascii_lowercase().contains(words)
}

/// Signs ahead, waits for the other senders, sends until the end, and resends pending transactions until the run is
/// over. `tpu` is the sender's own client if it sends over QUIC; `index` numbers the senders.
pub fn send(shared: &Shared<'_>, index: usize, accounts: &[usize], tpu: Option<Tpu>) -> SenderTally {
    let carrier = match (&shared.way, tpu) {
        (SendRoute::Tpu(targets), Some(tpu)) => Transport::Tpu { tpu: Box::new(tpu), targets, aimed: u64::MAX },
        (SendRoute::Tpu(_), None) => unreachable!("a sender by QUIC has a socket"),
        (SendRoute::Rpc(nodes), _) => Transport::Rpc {
            nodes,
            at: index % nodes.len(),
            back_off: BACK_OFF,
            rests_until: None,
            request_bytes: node::REQUEST_BYTES,
        },
    };
    let mut sender = Sender::new(shared, carrier, accounts);
    for lane in &mut sender.lanes {
        for _ in 0..shared.pace.presign {
            if shared.course.stopped() {
                break;
            }
            lane.sign_ahead(shared);
            shared.course.signed.fetch_add(1, Ordering::Relaxed);
        }
    }
    shared.course.is_ready();
    sender.run(index);
    sender.tally.spent = sender.watch.end().unwrap_or_default();
    sender.tally.stalls = std::mem::take(&mut sender.watch.stalls);
    sender.lanes.iter().for_each(|lane| sender.tally.signed_late.add(&lane.signed_late));
    sender.give_up_unsent();
    shared.course.at_work.fetch_sub(1, Ordering::AcqRel);
    sender.look_after();
    sender.tally
}

impl<'a> Sender<'a> {
    fn new(shared: &'a Shared<'a>, carrier: Transport<'a>, accounts: &[usize]) -> Self {
        let lane = |&account: &usize| Lane {
            account,
            next: shared.first_number,
            sent: 0,
            ahead: VecDeque::new(),
            signed_late: SignedLate::default(),
        };
        Self {
            shared,
            carrier,
            lanes: accounts.iter().map(lane).collect(),
            turn: 0,
            first: VecDeque::new(),
            waiting: Default::default(),
            looked: Instant::now(),
            is_blocked: false,
            watch: Stopwatch::default(),
            tally: SenderTally::default(),
        }
    }

    fn run(&mut self, index: usize) {
        let pace = self.shared.pace;
        let mut timetable = pace.rate.map(|rate| self.shared.course.timetable(rate, self.shared.senders, index));
        while !self.shared.course.stopped() {
            let (from, for_node) = (Instant::now(), self.watch.spent.for_node());
            self.watch.look(self.shared.course.measured.load(Ordering::Relaxed));
            self.is_blocked = false;
            let mut busy = self.turn();
            self.look();
            let room = self.room(timetable.as_ref());
            if room > 0 && !self.rests() {
                busy |= self.hand_over(room.min(TURN), &mut timetable);
                self.turn();
            }
            if pace.count.is_some() && self.has_ended() {
                return;
            }
            if !busy {
                self.sleep(timetable.as_ref());
            }
            if let Some(timetable) = &timetable {
                self.count_behind(timetable, from, for_node, room == 0);
            }
        }
        if let Some(timetable) = &timetable {
            let end = self.shared.course.stop.get().copied().unwrap_or_else(Instant::now);
            let left = self.lanes.iter().fold(0u64, |sum, lane| sum.saturating_add(lane.left(self.shared)));
            timetable.count_unsent(&mut self.tally, end, left);
        }
    }

    /// Counts how long the sender was behind in a turn that began at `from`, when it had waited `for_node`. A turn in
    /// which the node let nothing out is attributed to the node entirely.
    fn count_behind(&mut self, timetable: &Timetable, from: Instant, for_node: Duration, had_no_room: bool) {
        if !self.shared.course.measured.load(Ordering::Relaxed) {
            return;
        }
        let now = Instant::now();
        // No room for due transactions means that the maximum already waits for a block.
        let is_held = self.is_blocked || self.rests() || (had_no_room && timetable.due(timetable.gone) < from);
        let asked = self.watch.spent.for_node().saturating_sub(for_node);
        let node = if is_held { now - from } else { asked };
        timetable.count_behind(&mut self.tally.behind, from, now, node);
    }

    /// Returns whether everything was sent and has an outcome.
    fn has_ended(&self) -> bool {
        self.first.is_empty()
            && self.waiting.iter().all(VecDeque::is_empty)
            && self.lanes.iter().all(|lane| lane.left(self.shared) == 0)
    }

    /// Returns how many may be sent now.
    fn room(&self, timetable: Option<&Timetable>) -> u64 {
        let Some(timetable) = timetable else {
            return self.shared.pace.under_way.saturating_sub(self.shared.course.outcomes.under_way()) as u64;
        };
        let due = timetable.due_until(Instant::now()).saturating_sub(timetable.gone);
        let waiting: usize = self.waiting.iter().map(VecDeque::len).sum();
        let most = (self.shared.in_no_block_max / self.shared.senders).saturating_sub(waiting);
        due.max(self.first.len() as u64).min(most as u64)
    }

    /// Receives and transmits packets. Returns whether there were any.
    fn turn(&mut self) -> bool {
        let Transport::Tpu { tpu, targets, aimed } = &mut self.carrier else { return false };
        let now = Instant::now();
        let version = targets.version();
        if *aimed != version {
            tpu.aim(now, &targets.get());
            *aimed = version;
        }
        tpu.turn(now)
    }

    fn rests(&self) -> bool {
        match &self.carrier {
            Transport::Tpu { tpu, .. } => !tpu.is_connected(),
            Transport::Rpc { rests_until, .. } => rests_until.is_some_and(|until| Instant::now() < until),
        }
    }

    fn sleep(&mut self, timetable: Option<&Timetable>) {
        let begin = Instant::now();
        let longest = timetable.filter(|_| !self.rests()).map_or(SLEEP_MAX, |timetable| {
            let gathered = timetable.due(timetable.gone) + timetable.each().min(GATHER);
            gathered.saturating_duration_since(begin).min(SLEEP_MAX)
        });
        match &self.carrier {
            Transport::Tpu { tpu, .. } => tpu.wait(longest),
            Transport::Rpc { .. } => std::thread::sleep(longest),
        }
        self.watch.spent.idle += begin.elapsed();
    }

    /// Returns the next transaction to send, and whether it is new.
    fn next(&mut self) -> Option<(SignedTx, bool)> {
        for _ in 0..self.first.len() {
            let signed = self.first.pop_front()?;
            if signed.signings == 0 {
                return Some((self.shared.with_life(signed), true));
            }
            // In this order, so that a transaction in the last possible block already counts as ended.
            let is_over = self.shared.time.is_over(signed.last_valid);
            match (self.shared.course.outcomes.is_open(&signed.id()), is_over) {
                // A node had accepted it, whatever it answered.
                (false, _) => {}
                (true, false) => return Some((signed, false)),
                (true, true) if self.shared.has_new_blockhash() => self.expired(signed),
                (true, true) => self.first.push_back(signed),
            }
        }
        for _ in 0..self.lanes.len() {
            let index = self.turn;
            self.turn = (self.turn + 1) % self.lanes.len();
            if let Some(signed) = self.lanes[index].take(self.shared) {
                return Some((signed, true));
            }
        }
        None
    }

    /// Sends this many transactions. Returns whether it sent any.
    fn hand_over(&mut self, count: u64, timetable: &mut Option<Timetable>) -> bool {
        match self.carrier {
            Transport::Tpu { .. } => self.to_tpu(count, timetable),
            Transport::Rpc { .. } => self.to_rpc(count, timetable),
        }
    }

    /// Returns when the next transaction is due, and counts it as gone with its lag.
    fn depart(&mut self, timetable: &mut Option<Timetable>, measured: bool) -> Instant {
        let now = Instant::now();
        let Some(timetable) = timetable else { return now };
        let due = timetable.due(timetable.gone);
        timetable.gone += 1;
        if measured {
            record(&mut self.tally.lag_us, now.saturating_duration_since(due));
        }
        due
    }

    fn to_tpu(&mut self, count: u64, timetable: &mut Option<Timetable>) -> bool {
        let measured = self.shared.course.measured.load(Ordering::Relaxed);
        for handed in 0..count {
            let Some((signed, is_new)) = self.next() else { return handed > 0 };
            let Transport::Tpu { tpu, .. } = &mut self.carrier else { unreachable!("asked for by the TPU's sender") };
            if !tpu.send(&signed.raw) {
                // It was not sent, so it stays as new as it was.
                self.first.push_front(SignedTx { signings: if is_new { 0 } else { signed.signings }, ..signed });
                self.is_blocked = true;
                return handed > 0;
            }
            // The packet leaves in the next turn, so it is recorded before any block can contain it.
            self.goes_out(&signed, is_new, timetable, measured);
            self.wait_for(0, SignedTx { signings: signed.signings.max(1), ..signed });
        }
        true
    }

    fn to_rpc(&mut self, count: u64, timetable: &mut Option<Timetable>) -> bool {
        let measured = self.shared.course.measured.load(Ordering::Relaxed);
        let Transport::Rpc { request_bytes, .. } = self.carrier else { unreachable!("asked for by the RPC's sender") };
        let most = (count as usize).min(self.shared.pace.batch);
        // No more than fits one request, assuming the longest next transaction: a second request would leave later than
        // recorded.
        let (mut batch, mut bytes) = (vec![], node::sending_bytes(PACKET_DATA_SIZE));
        while batch.len() < most && (batch.is_empty() || bytes <= request_bytes) {
            let Some((signed, is_new)) = self.next() else { break };
            bytes += node::sending_bytes(signed.raw.len());
            self.goes_out(&signed, is_new, timetable, measured);
            batch.push(SignedTx { signings: signed.signings.max(1), ..signed });
        }
        if batch.is_empty() {
            return false;
        }
        self.ask(batch, 0);
        true
    }

    /// Records a transaction before any block can contain it.
    fn goes_out(&mut self, signed: &SignedTx, is_new: bool, timetable: &mut Option<Timetable>, measured: bool) {
        let (outcomes, ids) = (&self.shared.course.outcomes, [signed.id()]);
        if is_new {
            let due = self.depart(timetable, measured);
            outcomes.sending(ids.iter(), due, measured);
        } else {
            outcomes.sending_again(ids.iter());
        }
    }

    fn wait_for(&mut self, level: usize, signed: SignedTx) {
        self.waiting[level].push_back(UnconfirmedTx { signed, at: Instant::now() });
    }

    /// Sends a batch over RPC, in requests that the node accepts.
    fn ask(&mut self, batch: Vec<SignedTx>, level: usize) {
        let mut left = VecDeque::from(batch);
        while !left.is_empty() {
            let Transport::Rpc { request_bytes, .. } = self.carrier else { return };
            let sizes = left.iter().map(|signed| node::sending_bytes(signed.raw.len()));
            let some = left.drain(..node::fitting(sizes, request_bytes)).collect();
            for signed in self.request(some, level).into_iter().rev() {
                left.push_front(signed);
            }
        }
    }

    /// Sends one request; its transactions wait at this level. Returns those that were not sent because the request was
    /// too long. Transactions without an answer are sent again like unseen ones.
    fn request(&mut self, batch: Vec<SignedTx>, level: usize) -> Vec<SignedTx> {
        let Transport::Rpc { nodes, at, back_off, rests_until, request_bytes } = &mut self.carrier else {
            return vec![];
        };
        let begin = Instant::now();
        let raws: Vec<&[u8]> = batch.iter().map(|signed| signed.raw.as_slice()).collect();
        let answer = node::send(&nodes[*at], &raws);
        self.watch.answered(begin);
        let verdicts = match answer {
            Ok(verdicts) => verdicts,
            Err(why) if node::is_too_long(&why) && batch.len() > 1 => {
                *request_bytes = batch.iter().map(|signed| node::sending_bytes(signed.raw.len())).sum::<usize>() / 2;
                self.unanswered(why);
                return batch;
            }
            Err(why) => {
                *at = (*at + 1) % nodes.len();
                *rests_until = Some(Instant::now() + *back_off);
                *back_off = (*back_off * 2).min(BACK_OFF_MAX);
                self.unanswered(why);
                batch.into_iter().for_each(|signed| self.wait_for(level, signed));
                return vec![];
            }
        };
        (*back_off, *rests_until) = (BACK_OFF, None);
        self.judge(batch, verdicts, level);
        vec![]
    }

    /// Processes the node's verdicts.
    fn judge(&mut self, batch: Vec<SignedTx>, verdicts: Vec<Result<String, Refusal>>, level: usize) {
        let mut full = None;
        for (signed, verdict) in batch.into_iter().zip(verdicts) {
            match verdict {
                Ok(text) if text == signed.signature() => self.wait_for(level, signed),
                Ok(_) => {
                    self.tally.other_hash += 1;
                    self.wait_for(level, signed);
                }
                Err(refusal) if is_final(&refusal) => {
                    self.shared.course.outcomes.rejected(&signed.id(), &refusal.message);
                }
                Err(refusal) if says(&refusal, "already been processed") => self.wait_for(level, signed),
                Err(refusal) => {
                    // A transaction sent before may be with some node; and a node that does not know its blockhash is
                    // not short of room.
                    if level > 0 || says(&refusal, "blockhash not found") {
                        self.wait_for(level, signed);
                    } else {
                        self.shared.course.outcomes.held(&signed.id());
                        self.first.push_back(signed);
                    }
                    full = Some(refusal.message);
                }
            }
        }
        if full.is_some() {
            self.tally.full += 1;
            self.tally.full_words = full;
            if let Transport::Rpc { rests_until, .. } = &mut self.carrier {
                *rests_until = Some(Instant::now() + BACK_OFF);
            }
        }
    }

    fn unanswered(&mut self, why: RpcError) {
        self.tally.unanswered += 1;
        self.tally.error = Some(why);
    }

    /// Checks the sent transactions: those that no block contains after a while are sent again, and expired ones are
    /// signed again.
    fn look(&mut self) {
        if !self.forget_ended() || self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        for level in 0..self.waiting.len() {
            let pause = AGAIN * (1 << level);
            let mut batch = vec![];
            while let Some(front) = self.waiting[level].front() {
                // In this order, so that a transaction in the last possible block is no longer under way.
                let is_over = self.shared.time.is_over(front.signed.last_valid);
                let is_open = self.shared.course.outcomes.is_under_way(&front.signed.id());
                if is_open && !is_over && front.at.elapsed() < pause {
                    break;
                }
                if is_open && is_over && !self.shared.has_new_blockhash() && !self.shared.course.stopped() {
                    break;
                }
                let Some(UnconfirmedTx { signed, .. }) = self.waiting[level].pop_front() else { break };
                match (is_open, is_over) {
                    (false, _) => {}
                    (true, true) => self.expired(signed),
                    (true, false) => batch.push(signed),
                }
            }
            self.again(batch, (level + 1).min(DOUBLINGS));
        }
    }

    /// Drops transactions that a block contains, the oldest first and a few at a time, so that due transactions do not
    /// wait for a whole block. Returns whether none are left.
    fn forget_ended(&mut self) -> bool {
        let outcomes = &self.shared.course.outcomes;
        self.waiting.iter_mut().fold(true, |done, waiting| {
            let ended = outcomes.ended_of(waiting.iter().take(LOOKS_TOGETHER).map(|waiting| waiting.signed.id()));
            waiting.drain(..ended);
            done && ended < LOOKS_TOGETHER
        })
    }

    /// Sends these again with the same bytes.
    fn again(&mut self, batch: Vec<SignedTx>, level: usize) {
        if batch.is_empty() {
            return;
        }
        if let Transport::Rpc { .. } = self.carrier {
            self.tally.sent_again += batch.len() as u64;
            let mut batch = batch.into_iter().peekable();
            while batch.peek().is_some() {
                let some: Vec<_> = batch.by_ref().take(self.shared.pace.batch).collect();
                self.ask(some, level);
            }
            return;
        }
        for signed in batch {
            let Transport::Tpu { tpu, .. } = &mut self.carrier else { return };
            self.tally.sent_again += u64::from(tpu.send(&signed.raw));
            self.wait_for(level, signed);
        }
        self.turn();
    }

    /// Handles a transaction that no block contains and none can.
    fn expired(&mut self, signed: SignedTx) {
        let outcomes = &self.shared.course.outcomes;
        if self.shared.course.stopped() || signed.signings >= SIGNINGS_MAX {
            outcomes.sending_again([signed.id()].iter());
            outcomes.end(&signed.id(), &Outcome::Dropped);
            return;
        }
        let signed_again = self.shared.sign_again(&signed);
        outcomes.held(&signed.id());
        outcomes.resigned(&signed.id(), &signed_again.id());
        self.tally.resigned += 1;
        self.first.push_back(SignedTx { signings: signed.signings + 1, ..signed_again });
    }

    /// Ends transactions that were signed again but not sent any more: their earlier bytes were sent and are in no
    /// block.
    fn give_up_unsent(&mut self) {
        for signed in self.first.drain(..).filter(|signed| signed.signings > 1) {
            self.shared.course.outcomes.sending_again([signed.id()].iter());
            self.shared.course.outcomes.end(&signed.id(), &Outcome::Dropped);
        }
    }

    fn look_after(&mut self) {
        while !self.shared.course.over.load(Ordering::Acquire) {
            let busy = self.turn();
            self.look();
            if !busy {
                self.sleep(None);
            }
        }
        if let Transport::Tpu { tpu, .. } = &self.carrier {
            self.tally.unanswered += tpu.failures();
            if let Some(why) = tpu.last_error() {
                self.tally.error = Some(RpcError::Connection { url: "transactions".into(), why });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::generate;
    use super::super::node::Blockhash;
    use super::super::workload::Kind;
    use super::*;

    #[test]
    fn at_a_rate_only_so_many_wait_for_a_block() {
        let accounts = generate(2).unwrap();
        let addresses = accounts.iter().map(|account| account.address).collect();
        let time = ChainTime::new(Blockhash { hash: [1; 32], last_valid: 150 });
        let (course, targets) = (RunState::new(1), Targets::default());
        let shared = Shared {
            pace: SendOptions { rate: Some(1e9), batch: 1, under_way: 1, count: None, presign: 0 },
            senders: 1,
            accounts: &accounts,
            workload: Workload { mix: Kind::Transfer.into(), accounts: addresses, tokens: vec![], salt: 0 },
            first_number: 0,
            time: &time,
            way: SendRoute::Tpu(&targets),
            in_no_block_max: 3,
            course: &course,
        };
        let carrier = Transport::Rpc { nodes: &[], at: 0, back_off: BACK_OFF, rests_until: None, request_bytes: 1 };
        let mut sender = Sender::new(&shared, carrier, &[0, 1]);
        let timetable = course.timetable(1e9, 1, 0);
        for left in (0..3).rev() {
            let (signed, _) = sender.next().unwrap();
            sender.wait_for(0, signed);
            assert_eq!(sender.room(Some(&timetable)), left);
        }
    }
}
