//! bencho: observes the chain from outside, through the node's own RPC.
//!
//! reads   its TCP connection: `getLatestBlockhash` and `getTransactionCount`, once per second each
//! writes  `bencho_benchg`, reliable: the latest blockhash; [`Sample`]s, through the configured channel
//! memory  one request and one response of at most 64 KiB
//! drops   invalid JSON-RPC responses, after which it reconnects. Counted
//! source  Solana's JSON-RPC; the count is of processed transactions, as other benchmark clients read it

mod http;

use std::net::SocketAddr;
use std::sync::mpsc::Sender;

use hearth_tile::{Frag, Host, InitError, Out, Poll, Port, Tile, WaitFor};

use crate::links::BENCHO_BENCHG;
use http::{Answer, HttpClient};

hearth_tile::counters! {
    /// The counters of bencho.
    pub struct Counters {
        /// Answers of the RPC about the progress of the chain.
        answers: Counter,
        /// Requests to the RPC that failed: no connection, no answer within 2 s, an answer that makes no sense.
        failed: Counter,
        /// Transactions that the chain has executed, by the last answer.
        chain_transactions: Gauge,
    }
}

/// One observation of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When the answer arrived, on the host's clock, in nanoseconds.
    pub at_ns: u64,
    /// Transactions executed since genesis.
    pub transaction_count: u64,
}

/// The configuration of bencho: the RPC to observe, and the receiver of samples.
#[derive(Clone, Debug)]
pub struct Config {
    /// The RPC's HTTP address.
    pub rpc: SocketAddr,
    /// Receives the samples; a closed channel is not an error.
    pub samples: Sender<Sample>,
}

const EVERY_NS: u64 = 1_000_000_000;
const TIMEOUT_NS: u64 = 2_000_000_000;
/// How soon to check again whether a connection is established.
const RETRY_NS: u64 = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Blockhash,
    Count,
}

/// Polls the RPC on a fixed schedule.
pub struct Bencho {
    http: HttpClient,
    samples: Sender<Sample>,
    benchg: Port,
    asked: Option<(Question, u64)>,
    next: [(Question, u64); 2],
    last_poll_ns: u64,
}

impl Tile for Bencho {
    const NAME: &'static str = "bencho";
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let now = host.clock().now();
        Ok(Self {
            http: HttpClient::new(config.rpc),
            samples: config.samples,
            benchg: host.output(BENCHO_BENCHG)?,
            asked: None,
            next: [(Question::Count, now), (Question::Blockhash, now)],
            last_poll_ns: now,
        })
    }

    fn on_frag(&mut self, _: Frag<'_>, _: &mut Out<'_, Self>) {}

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let now = out.now();
        self.last_poll_ns = now;
        if let Some((question, since)) = self.asked {
            let answer = self.http.poll();
            match answer {
                Answer::Waiting if now - since < TIMEOUT_NS => return Poll::Idle,
                Answer::Body(body) if self.on_answer(question, &body, out).is_some() => out.count.answers += 1,
                _ => {
                    self.http.disconnect();
                    out.count.failed += 1;
                }
            }
            self.asked = None;
            return Poll::Busy;
        }
        let Some(due) = self.next.iter_mut().filter(|(_, at)| *at <= now).min_by_key(|(_, at)| *at) else {
            return Poll::Idle;
        };
        // On a fixed grid, so that the seconds do not drift by the responses' latency.
        due.1 = (due.1 + EVERY_NS).max(now.saturating_sub(EVERY_NS));
        let question = due.0;
        let body = match question {
            Question::Count => {
                r#"{"jsonrpc":"2.0","id":1,"method":"getTransactionCount","params":[{"commitment":"processed"}]}"#
            }
            Question::Blockhash => {
                r#"{"jsonrpc":"2.0","id":1,"method":"getLatestBlockhash","params":[{"commitment":"processed"}]}"#
            }
        };
        match self.http.ask(body) {
            Ok(()) => self.asked = Some((question, now)),
            Err(_) => out.count.failed += 1,
        }
        Poll::Busy
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        wait.until(match self.asked {
            // The end of a TCP connect is not an event to wait for.
            Some((_, since)) if self.http.is_sending() => Some((since + TIMEOUT_NS).min(self.last_poll_ns + RETRY_NS)),
            Some((_, since)) => Some(since + TIMEOUT_NS),
            None => self.next.iter().map(|(_, at)| *at).min(),
        });
        wait.descriptors(self.http.raw_fd());
    }
}

impl Bencho {
    fn on_answer(&mut self, question: Question, body: &[u8], out: &mut Out<'_, Self>) -> Option<()> {
        let json: serde_json::Value = serde_json::from_slice(body).ok()?;
        let result = json.get("result")?;
        match question {
            Question::Count => {
                let transaction_count = result.as_u64()?;
                out.count.chain_transactions = transaction_count;
                // The receiver of the samples may be gone.
                let _ = self.samples.send(Sample { at_ns: out.now(), transaction_count });
            }
            Question::Blockhash => {
                let text = result.get("value")?.get("blockhash")?.as_str()?;
                let blockhash = hearth_wire::base58::decode_32(text).ok()?;
                out.publish(self.benchg, 0, &blockhash);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
