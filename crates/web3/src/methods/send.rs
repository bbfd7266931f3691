//! Transactions into the chain.
//!
//! reads   raw transactions, one by one or in batches
//! writes  bursts to the chain
//! memory  the transactions of the requests under way
//! drops   what the chain refuses, in geth's words, counted
//!
//! A burst costs less per transaction than one alone: its senders are recovered together. A batch is one burst.
//! Requests with one transaction each, from whatever connections, wait for a thread that takes all there are at once:
//! alone they wait for nobody, under load they travel together.
//!
//! Where blocks are made as transactions come, a request is answered once its transactions can be read in one, as
//! Hardhat and anvil do, so that no read after it is stale. What has to wait for something else is answered at once.
//! One thread looks after all requests that wait, so that those of other connections come into the same block.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use alloy_consensus::Transaction;
use alloy_primitives::{B256, Bytes};
use hearth_evm::chain::Chain;
use hearth_evm::tx::SharedTx;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::{Api, Caller, dev::Span, shapes};
use crate::counters::{Counters, count, count_many};
use crate::failure::Failure;
use crate::params::Params;

/// Single transactions that wait for the thread; more wait in their connections.
const QUEUE: usize = 4_096;
/// Transactions that it takes at once.
const BURST: usize = 256;

/// How long an answer waits for the transactions' block, where blocks are made as transactions come.
const UNTIL_MINED: Duration = Duration::from_secs(10);
/// How long requests that have come meanwhile wait where no block comes.
const LOOK_FOR_OTHERS: Duration = Duration::from_millis(5);

/// How long `eth_sendRawTransactionSync` waits where the client does not say, and at most.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// How long it goes without looking whether the transaction was given up, which no block tells.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(super) type Answer = Result<B256, Failure>;
type Queue = mpsc::Sender<(Bytes, oneshot::Sender<Answer>)>;

/// A request whose transactions are under way into blocks.
struct Waiting {
    hashes: Vec<B256>,
    until: std::time::Instant,
    done: oneshot::Sender<()>,
}

/// The ways to the threads that gather single transactions, and that look after those under way.
#[derive(Default)]
pub struct Sender {
    singles: OnceLock<Queue>,
    waiting: OnceLock<std::sync::mpsc::Sender<Waiting>>,
}

/// Starts the threads. They end with the last sender to their queues.
pub fn start(api: &Api) -> std::io::Result<()> {
    let (waiting, requests) = std::sync::mpsc::channel();
    let chain = api.chain.clone();
    std::thread::Builder::new().name("web3-mined".into()).spawn(move || look_after(&chain, &requests))?;
    let _ = api.sender.waiting.set(waiting);
    let (queue, mut waiting) = mpsc::channel::<(Bytes, oneshot::Sender<Answer>)>(QUEUE);
    let (chain, counters) = (api.chain.clone(), Arc::clone(&api.counters));
    let thread = std::thread::Builder::new().name("web3-send".into()).stack_size(crate::server::STACK_BYTES);
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
                // Whoever went away needs no answer.
                let _ = answer.send(result);
            }
        }
    })?;
    let _ = api.sender.singles.set(queue);
    Ok(())
}

/// Ends the waiting of each request whose transactions are all in blocks, or wait for something else.
fn look_after(chain: &Chain, requests: &std::sync::mpsc::Receiver<Waiting>) {
    while let Ok(first) = requests.recv() {
        let mut waiting = vec![first];
        while !waiting.is_empty() {
            waiting.extend(requests.try_iter());
            // Before the look: what happens during it ends the wait after it.
            let seen = chain.moves();
            let now = std::time::Instant::now();
            let is_over = |one: &mut Waiting| {
                chain.retain_under_way(&mut one.hashes);
                // Who went away waits for nothing.
                one.hashes.is_empty() || one.until <= now || one.done.is_closed()
            };
            for one in waiting.extract_if(.., is_over) {
                let _ = one.done.send(());
            }
            if !waiting.is_empty() {
                chain.wait_for_move(seen, LOOK_FOR_OTHERS);
            }
        }
    }
}

fn submit(chain: &Chain, counters: &Counters, burst: Vec<Bytes>) -> Vec<Answer> {
    count(&counters.bursts);
    count_many(&counters.transactions_in, burst.len());
    let results = chain.submit(burst);
    let refused = results.iter().filter(|result| result.is_err()).count();
    counters.transactions_refused.fetch_add(refused as u64, Relaxed);
    results.into_iter().map(|result| result.map_err(Failure::submit)).collect()
}

impl Api {
    /// Hands a raw transaction to the chain; for who may wait.
    pub(super) fn send_now(&self, raw: Bytes) -> Answer {
        let result = submit(&self.chain, &self.counters, vec![raw]).pop();
        result.unwrap_or_else(|| Err(Failure::internal("the transaction got no answer")))
    }

    /// Hands raw transactions to the chain, and waits until they can be read in blocks, where these are made at once.
    pub(super) async fn send(self: &Arc<Self>, burst: Vec<Bytes>) -> Vec<Answer> {
        let mut answers = self.hand_over(burst).await;
        self.mined(answers.iter().filter_map(|answer| answer.as_ref().ok()).copied().collect()).await;
        for answer in &mut answers {
            if let Ok(hash) = *answer {
                *answer = self.as_hardhat(Ok(hash)).await;
            }
        }
        answers
    }

    /// Waits until these transactions can be read in blocks, where they are made as transactions come.
    pub(super) async fn mined(&self, mut hashes: Vec<B256>) {
        self.chain.retain_under_way(&mut hashes);
        let Some(waiting) = self.sender.waiting.get().filter(|_| !hashes.is_empty()) else { return };
        let (done, is_done) = oneshot::channel();
        let until = std::time::Instant::now() + UNTIL_MINED;
        if waiting.send(Waiting { hashes, until, done }).is_ok() {
            let _ = is_done.await;
        }
    }

    async fn hand_over(&self, mut burst: Vec<Bytes>) -> Vec<Answer> {
        if burst.len() > 1 {
            // It takes as long as the cryptography does: meanwhile the other connections are another thread's.
            return tokio::task::block_in_place(|| submit(&self.chain, &self.counters, burst));
        }
        let (Some(queue), Some(one)) = (self.sender.singles.get(), burst.pop()) else {
            return vec![Err(Failure::internal("the node stops"))];
        };
        let (answer, answered) = oneshot::channel();
        if queue.send((one, answer)).await.is_err() {
            return vec![Err(Failure::internal("the node stops"))];
        }
        vec![answered.await.unwrap_or_else(|_| Err(Failure::internal("the node stops")))]
    }
}

impl Caller<'_> {
    /// Hands a raw transaction to the chain, and answers with its receipt.
    pub(super) async fn send_and_wait(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let raw: Bytes = params.required(0)?;
        let asked = params.optional::<Span>(1)?.map(|Span(ms)| Duration::from_millis(ms));
        let patience = asked.filter(|asked| !asked.is_zero()).unwrap_or(PATIENCE).min(PATIENCE_MAX);
        let chain = &self.api.chain;
        let news = Arc::new(Notify::new());
        let wake = Arc::clone(&news);
        let events = chain.subscribe_with(move || wake.notify_one());
        let _watch = self.api.watch_disk(&news);
        let answer = self.api.hand_over(vec![raw]).await.pop();
        let hash = answer.unwrap_or_else(|| Err(Failure::internal("the transaction got no answer")))?;
        let end = Instant::now() + patience;
        loop {
            while events.try_next().is_some() {}
            // First where it waits: between the two looks it may have come into a block.
            let waiting = chain.pool().get(&hash);
            match chain.tx(&hash) {
                Some((block, index)) if self.api.is_acknowledged(block.number()) => {
                    let mut out = String::new();
                    shapes::push_receipt(&mut out, shapes::Place { block: &block, index });
                    return Ok(out);
                }
                // Its block is not on disk.
                Some(_) => {}
                None => self.check_waiting(&hash, waiting)?,
            }
            if Instant::now() >= end {
                return Err(Failure::unsettled(&hash, patience));
            }
            // A drop is no event of the chain: whoever waits looks again now and then.
            let _ = timeout_at(end.min(Instant::now() + LOOK_AGAIN), news.notified()).await;
        }
    }

    /// Refuses to wait for a transaction that is in no block and will not be in the next.
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
