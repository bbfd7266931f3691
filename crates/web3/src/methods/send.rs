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

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use alloy_primitives::{B256, Bytes};
use hearth_evm::chain::Chain;
use tokio::sync::{mpsc, oneshot};

use super::Api;
use crate::counters::{Counters, count, count_many};
use crate::failure::Failure;

/// Single transactions that wait for the thread; more wait in their connections.
const QUEUE: usize = 4_096;
/// Transactions that it takes at once.
const BURST: usize = 256;

pub(super) type Answer = Result<B256, Failure>;
type Queue = mpsc::Sender<(Bytes, oneshot::Sender<Answer>)>;

/// The way to the thread that gathers single transactions.
#[derive(Default)]
pub struct Sender(OnceLock<Queue>);

/// Starts the thread. It ends with the last sender to its queue.
pub fn start(api: &Api) -> std::io::Result<()> {
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
    let _ = api.sender.0.set(queue);
    Ok(())
}

fn submit(chain: &Chain, counters: &Counters, burst: Vec<Bytes>) -> Vec<Answer> {
    count(&counters.bursts);
    count_many(&counters.transactions_in, burst.len());
    let results = chain.submit(burst);
    let refused = results.iter().filter(|result| result.is_err()).count();
    counters.transactions_refused.fetch_add(refused as u64, Relaxed);
    results.into_iter().map(|result| result.map_err(Failure::server)).collect()
}

impl Api {
    /// Hands a raw transaction to the chain; for who may wait.
    pub(super) fn send_now(&self, raw: Bytes) -> Answer {
        let result = submit(&self.chain, &self.counters, vec![raw]).pop();
        result.unwrap_or_else(|| Err(Failure::internal("the transaction got no answer")))
    }

    /// Hands raw transactions to the chain.
    pub(super) async fn send(&self, mut burst: Vec<Bytes>) -> Vec<Answer> {
        if burst.len() > 1 {
            // It takes as long as the cryptography does: meanwhile the other connections are another thread's.
            return tokio::task::block_in_place(|| submit(&self.chain, &self.counters, burst));
        }
        let (Some(queue), Some(one)) = (self.sender.0.get(), burst.pop()) else {
            return vec![Err(Failure::internal("the node stops"))];
        };
        let (answer, answered) = oneshot::channel();
        if queue.send((one, answer)).await.is_err() {
            return vec![Err(Failure::internal("the node stops"))];
        }
        vec![answered.await.unwrap_or_else(|_| Err(Failure::internal("the node stops")))]
    }
}
