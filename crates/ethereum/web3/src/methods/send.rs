//! Submission of transactions to the chain.
//!
//! reads   raw transactions, one by one or in batches
//! writes  bursts to the chain
//! memory  the transactions of the requests under way
//! drops   what the chain refuses, in geth's words, counted
//!
//! A burst costs less per transaction than one alone, since its senders are recovered together. A batch is one burst. A
//! thread collects single transactions of all connections and submits all that are queued at once: an idle server adds
//! no delay, a busy one forms bursts.
//!
//! On a chain that makes blocks as transactions come, every answer reflects what was acknowledged before it. If the
//! chain is idle, a send is answered once its transactions are in a block, as in Hardhat and anvil. If others are under
//! way, it is answered at once, so that a busy sender is not slowed down to one request per block; then every other
//! request waits for the blocks of earlier sends. A transaction that waits for something else, such as a missing nonce,
//! delays no request.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use alloy_consensus::Transaction;
use alloy_primitives::{B256, Bytes};
use hearth_evm::chain::{Chain, SubmitError};
use hearth_evm::pool::PoolError;
use hearth_evm::tx::{SIZE_MAX, SharedTx};
use hearth_serve::jsonrpc::Call;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::{Api, Caller, dev::Span};
use crate::config::STACK_BYTES;
use crate::counters::{Counters, count, count_many};
use crate::failure::Failure;
use crate::params::Params;
use crate::{hexadecimal, json, shapes};

/// The method whose requests are submitted in bursts.
pub(super) const METHOD: &str = "eth_sendRawTransaction";
/// Maximum bytes of an answer with a hash, besides its id.
pub(super) const ANSWER_BYTES: usize = 120;

/// Single transactions queued for the thread; more wait in their connections.
const QUEUE: usize = 4_096;
/// Maximum transactions of one burst.
const BURST: usize = 256;

/// Bursts with blobs that are verified at once. Their proofs take up to seconds of a core before it is known whether
/// their senders can pay.
static WITH_BLOBS: Semaphore = Semaphore::const_new(2);

/// How long requests that came meanwhile wait if no block comes.
const LOOK_FOR_OTHERS: Duration = Duration::from_millis(5);

/// How long `eth_sendRawTransactionSync` waits by default, and at most.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// How often it checks whether the transaction was dropped, of which no block tells.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(super) type Answer = Result<B256, Failure>;
type Queue = mpsc::Sender<(Bytes, oneshot::Sender<SubmitResult>)>;

/// The outcome of a submission.
type SubmitResult = Result<B256, SendRefusal>;

struct SendRefusal {
    failure: Failure,
    /// Whether it may succeed after the next block.
    for_now: bool,
}

impl From<Failure> for SendRefusal {
    fn from(failure: Failure) -> Self {
        Self { failure, for_now: false }
    }
}

impl From<SubmitError> for SendRefusal {
    fn from(error: SubmitError) -> Self {
        use PoolError::{AddressReserved, AuthorityReserved, DelegatedGapped, DelegatedInFlight, InsufficientFunds};
        let of_state = matches!(
            error,
            SubmitError::Pool(
                InsufficientFunds(_) | AddressReserved | AuthorityReserved | DelegatedGapped | DelegatedInFlight
            )
        );
        Self { failure: Failure::submit(error), for_now: of_state }
    }
}

/// A request whose transactions are on their way into blocks.
struct PendingRequest {
    /// Its number: requests are handed over in order.
    number: u64,
    hashes: Vec<B256>,
    until: std::time::Instant,
}

/// The queues of the threads that collect single transactions, and that watch those under way.
pub struct Sender {
    singles: OnceLock<Queue>,
    waiting: Mutex<Option<std::sync::mpsc::Sender<PendingRequest>>>,
    /// The number of the last request in `waiting`.
    last: AtomicU64,
    /// The last request that is settled, with all before it: in blocks, or waiting for something else.
    settled: watch::Sender<u64>,
}

impl Default for Sender {
    fn default() -> Self {
        let (last, settled) = (AtomicU64::new(0), watch::Sender::new(0));
        Self { singles: OnceLock::new(), waiting: Mutex::new(None), last, settled }
    }
}

/// Starts the threads. They end with the last sender to their queues.
pub fn start(api: &Api) -> std::io::Result<()> {
    let (waiting, requests) = std::sync::mpsc::channel();
    let (chain, settled) = (api.chain.clone(), api.sender.settled.clone());
    std::thread::Builder::new().name("web3-mined".into()).spawn(move || look_after(&chain, &requests, &settled))?;
    *api.sender.waiting.lock() = Some(waiting);
    let (queue, mut waiting) = mpsc::channel::<(Bytes, oneshot::Sender<SubmitResult>)>(QUEUE);
    let (chain, counters) = (api.chain.clone(), Arc::clone(&api.counters));
    let thread = std::thread::Builder::new().name("web3-send".into()).stack_size(STACK_BYTES);
    thread.spawn(move || {
        while let Some((first, answer)) = waiting.blocking_recv() {
            let (mut burst, mut answers) = (vec![first], vec![answer]);
            while burst.len() < BURST
                && let Ok((next, answer)) = waiting.try_recv()
            {
                burst.push(next);
                answers.push(answer);
            }
            for (result, answer) in submit(&chain, &counters, burst).into_iter().zip(answers) {
                // A client that has gone away needs no answer.
                let _ = answer.send(result);
            }
        }
    })?;
    let _ = api.sender.singles.set(queue);
    Ok(())
}

/// Watches requests until their transactions are all in blocks, or wait for something else.
fn look_after(chain: &Chain, requests: &std::sync::mpsc::Receiver<PendingRequest>, settled: &watch::Sender<u64>) {
    while let Ok(first) = requests.recv() {
        let mut last = first.number;
        let mut waiting = vec![first];
        while !waiting.is_empty() {
            for next in requests.try_iter() {
                last = next.number;
                waiting.push(next);
            }
            // Read before the check: what happens during it ends the wait after it.
            let seen = chain.moves();
            let now = std::time::Instant::now();
            waiting.retain_mut(|one| {
                chain.retain_under_way(&mut one.hashes);
                !one.hashes.is_empty() && one.until > now
            });
            settled.send_replace(waiting.first().map_or(last, |oldest| oldest.number - 1));
            if !waiting.is_empty() {
                chain.wait_for_move(seen, LOOK_FOR_OTHERS);
            }
        }
    }
}

fn submit(chain: &Chain, counters: &Counters, burst: Vec<Bytes>) -> Vec<SubmitResult> {
    count(&counters.bursts);
    count_many(&counters.transactions_in, burst.len());
    let results = chain.submit(burst);
    let refused = results.iter().filter(|result| result.is_err()).count();
    counters.transactions_refused.fetch_add(refused as u64, Relaxed);
    results.into_iter().map(|result| result.map_err(SendRefusal::from)).collect()
}

/// The one parameter of a request to send a transaction.
fn raw_transaction(params: Option<&RawValue>) -> Result<Bytes, Failure> {
    // The form of nearly every client, read without an intermediate list.
    let plain = params.and_then(|params| {
        let text = params.get().strip_prefix("[\"")?.strip_suffix("\"]")?;
        hexadecimal::data(text).ok()
    });
    match plain {
        Some(bytes) => Ok(bytes.into()),
        None => Params::of(params)?.at_most(1)?.required(0),
    }
}

impl Api {
    /// Answers requests to send a transaction: all well-formed ones are submitted in one burst.
    pub(super) async fn send_together(self: &Arc<Self>, calls: &[Call<'_>]) -> Vec<Result<String, Failure>> {
        let mut burst = Vec::with_capacity(calls.len());
        let read: Vec<Result<(), Failure>> =
            calls.iter().map(|call| raw_transaction(call.params).map(|bytes| burst.push(bytes))).collect();
        let sent = if burst.is_empty() { Vec::new() } else { self.send(burst).await };
        let mut sent = sent.into_iter();
        let answer = |read: Result<(), Failure>| -> Result<String, Failure> {
            read?;
            let hash = sent.next().unwrap_or_else(|| Err(Failure::internal("the transaction got no answer")))?;
            Ok(json::data(hash.as_slice()))
        };
        read.into_iter().map(answer).collect()
    }

    /// Submits a raw transaction; the caller must be able to block.
    pub(super) fn send_now(&self, raw: Bytes) -> Answer {
        let result = submit(&self.chain, &self.counters, vec![raw]).pop();
        let result = result.unwrap_or_else(|| Err(Failure::internal("the transaction got no answer").into()));
        result.map_err(|refused| refused.failure)
    }

    /// Submits raw transactions. If the chain is idle and makes blocks at once, waits for theirs.
    pub(super) async fn send(self: &Arc<Self>, burst: Vec<Bytes>) -> Vec<Answer> {
        let at_rest = self.is_at_rest();
        // The bytes are shared.
        let again = if at_rest { Vec::new() } else { burst.clone() };
        let mut handed = self.hand_over(burst).await;
        if !at_rest {
            self.hand_over_again(&mut handed, again).await;
        }
        let hashes = handed.iter().filter_map(|handed| handed.as_ref().ok()).copied().collect();
        let number = self.look_after(hashes);
        // Hardhat's answer depends on their outcome.
        if at_rest || self.is_hardhat() {
            self.settled(number).await;
        }
        let mut answers: Vec<Answer> = Vec::with_capacity(handed.len());
        for one in handed {
            answers.push(self.as_hardhat(one.map_err(|refused| refused.failure)).await);
        }
        answers
    }

    /// Submits refused transactions once more after the blocks under way, if the state before those was the reason.
    async fn hand_over_again(&self, handed: &mut [SubmitResult], burst: Vec<Bytes>) {
        let (mut places, mut again) = (Vec::new(), Vec::new());
        for (place, raw) in handed.iter_mut().zip(burst) {
            if matches!(place, Err(refused) if refused.for_now) {
                places.push(place);
                again.push(raw);
            }
        }
        if again.is_empty() {
            return;
        }
        self.read_after_sends().await;
        for (place, answer) in places.into_iter().zip(self.hand_over(again).await) {
            *place = answer;
        }
    }

    /// Returns whether nothing acknowledged is on its way into a block.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.chain.is_catching_up()
    }

    /// Makes later requests wait for the blocks of these transactions; returns the number to wait for.
    pub(super) fn look_after(&self, mut hashes: Vec<B256>) -> u64 {
        self.chain.retain_under_way(&mut hashes);
        if hashes.is_empty() {
            return 0;
        }
        let until = std::time::Instant::now() + self.config.limits.until_mined;
        let queue = self.sender.waiting.lock();
        let number = self.sender.last.load(Relaxed) + 1;
        match queue.as_ref().map(|queue| queue.send(PendingRequest { number, hashes, until })) {
            Some(Ok(())) => self.sender.last.store(number, Release),
            // The server stops.
            Some(Err(_)) | None => return 0,
        }
        number
    }

    /// Waits until the requests up to that number are settled.
    async fn settled(&self, number: u64) {
        if *self.sender.settled.borrow() < number {
            let mut settled = self.sender.settled.subscribe();
            // Longer than the thread takes for any of them.
            let patience = 2 * self.config.limits.until_mined;
            let _ = tokio::time::timeout(patience, settled.wait_for(|settled| *settled >= number)).await;
        }
    }

    /// Waits until everything acknowledged earlier is in blocks.
    pub(super) async fn read_after_sends(&self) {
        self.settled(self.sender.last.load(Acquire)).await;
    }

    /// Waits until a just accepted transaction is in a block, if blocks are made at once.
    pub(super) async fn mined(&self, hash: B256) {
        self.settled(self.look_after(vec![hash])).await;
    }

    async fn hand_over(&self, mut burst: Vec<Bytes>) -> Vec<SubmitResult> {
        let has_blobs = burst.iter().any(|raw| raw.len() > SIZE_MAX);
        if burst.len() > 1 || has_blobs {
            // Never closed, so it is always got.
            let _turn = if has_blobs { WITH_BLOBS.acquire().await.ok() } else { None };
            // This takes as long as the cryptography does, up to seconds with blobs: other connections move to another
            // thread meanwhile.
            return tokio::task::block_in_place(|| submit(&self.chain, &self.counters, burst));
        }
        let (Some(queue), Some(one)) = (self.sender.singles.get(), burst.pop()) else {
            return vec![Err(Failure::internal("the node stops").into())];
        };
        let (answer, answered) = oneshot::channel();
        if queue.send((one, answer)).await.is_err() {
            return vec![Err(Failure::internal("the node stops").into())];
        }
        vec![answered.await.unwrap_or_else(|_| Err(Failure::internal("the node stops").into()))]
    }
}

impl Caller<'_> {
    /// Submits a raw transaction, and answers with its receipt.
    pub(super) async fn send_and_wait(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let raw: Bytes = params.required(0)?;
        let asked = params.optional::<Span>(1)?.map(|Span(ms)| Duration::from_millis(ms));
        let patience = asked.filter(|asked| !asked.is_zero()).unwrap_or(PATIENCE).min(PATIENCE_MAX);
        let answer = self.api.hand_over(vec![raw]).await.pop();
        let answer = answer.unwrap_or_else(|| Err(Failure::internal("the transaction got no answer").into()));
        self.receipt_within(answer.map_err(|refused| refused.failure)?, patience).await
    }

    /// As [`send_and_wait`](Self::send_and_wait), for a message of an account whose key the node has, or that is
    /// impersonated.
    pub(super) async fn send_own_and_wait(&self, params: Params<'_>) -> Result<String, Failure> {
        let hash = self.send_own(params, false).await?;
        self.receipt_within(hash, PATIENCE).await
    }

    /// Waits for the receipt of an accepted transaction.
    async fn receipt_within(&self, hash: B256, patience: Duration) -> Result<String, Failure> {
        let chain = &self.api.chain;
        let news = Arc::new(Notify::new());
        let wake = Arc::clone(&news);
        let events = chain.subscribe_with(move || wake.notify_one());
        let _watch = self.api.watch_disk(&news);
        let end = Instant::now() + patience;
        loop {
            while events.try_next().is_some() {}
            // The pool first: the transaction may move into a block between the two lookups.
            let waiting = chain.pool().get(&hash);
            match chain.tx(&hash) {
                Some((block, index)) if self.api.is_acknowledged(block.number()) => {
                    let mut out = String::new();
                    let blob_price = chain.env_of(&block).blobs.price();
                    shapes::push_receipt(&mut out, shapes::TxPosition { block: &block, index }, blob_price);
                    return Ok(out);
                }
                // Its block is not on disk.
                Some(_) => {}
                None => self.check_waiting(&hash, waiting)?,
            }
            if Instant::now() >= end {
                return Err(Failure::unsettled(&hash, patience));
            }
            // A drop is no event of the chain, so the waiting request also checks now and then.
            let _ = timeout_at(end.min(Instant::now() + LOOK_AGAIN), news.notified()).await;
        }
    }

    /// Returns an error if a transaction is in no block and will not be in the next.
    fn check_waiting(&self, hash: &B256, waiting: Option<SharedTx>) -> Result<(), Failure> {
        let chain = &self.api.chain;
        let Some(tx) = waiting else {
            let fate = chain.pool().fate(hash);
            return Err(fate.map_or_else(|| Failure::server("the transaction is gone"), Failure::server));
        };
        let state_nonce = chain.view().account(&tx.sender).map_or(0, |account| account.nonce);
        let next = chain.pool().next_nonce(&tx.sender, state_nonce);
        if tx.envelope.nonce() > next { Err(Failure::gapped(hash, next)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_parameter_is_a_transaction() {
        let read = |params: &str| raw_transaction(Some(serde_json::from_str(params).unwrap()));
        assert_eq!(read("[\"0x05\"]"), Ok(Bytes::from_static(&[5])));
        assert_eq!(read("[ \"0x05\" ]"), Ok(Bytes::from_static(&[5])));
        for wrong in ["[]", "[\"0x1\"]", "[\"0xzz\"]", "[\"0x05\",1]", "5"] {
            assert_eq!(read(wrong).unwrap_err().code(), -32602, "{wrong}");
        }
        assert_eq!(raw_transaction(None).unwrap_err().code(), -32602);
    }
}
