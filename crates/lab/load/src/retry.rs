//! Repeats requests while a node does not answer, so that one failed answer does not lose money in transit.
//!
//! reads   a node's answers
//! writes  the same requests, up to a second apart
//! drops   nothing: a node that is silent for half a minute, or refuses, is reported

use std::time::{Duration, Instant};

use alloy_primitives::{Address, U256};

use crate::account::AccountError;
use crate::rpc::{Retryable, Rpc, RpcError};

/// How long errors may last without an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The first pause after an error. It doubles each time.
const REST: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(1);
/// Accounts per query: answered queries are not repeated.
const TOGETHER: usize = 500;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// The caller stopped the request.
    #[error("stopped")]
    Stopped,
    /// The node refuses, or is silent.
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

/// A node whose failed requests are repeated.
#[derive(Clone, Copy)]
pub struct RetryingRpc<'a> {
    /// RPC client of the node.
    pub rpc: &'a Rpc,
    /// Ends the repetition when it returns true.
    pub stop: &'a dyn Fn() -> bool,
}

/// Callbacks of a funding's caller.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// Ends the funding when it returns true.
    pub stop: &'a dyn Fn() -> bool,
    /// Called before each payment: new keys must be saved by then.
    pub before_paying: &'a dyn Fn() -> Result<(), AccountError>,
    /// Receives a note if another account than the payer provides the money.
    pub says: &'a dyn Fn(&str),
}

impl<'a> Caller<'a> {
    /// A caller without keys to save, which ignores notes.
    pub fn new(stop: &'a dyn Fn() -> bool) -> Self {
        Self { stop, before_paying: &|| Ok(()), says: &|_| {} }
    }
}

/// Repeats a request until there is an answer or a permanent error, or until transient errors have lasted half a
/// minute.
pub fn again<T>(
    stop: &dyn Fn() -> bool,
    question: impl Fn() -> Result<T, RpcError>,
    may_pass: impl Fn(&RpcError) -> bool,
) -> Result<T, NoAnswer> {
    let (deadline, mut rest) = (Instant::now() + PATIENCE, REST);
    loop {
        match question() {
            Ok(answer) => return Ok(answer),
            Err(why) if !may_pass(&why) || Instant::now() > deadline => return Err(why.into()),
            Err(_) if stop() => return Err(NoAnswer::Stopped),
            Err(_) => std::thread::sleep(rest),
        }
        rest = (rest * 2).min(REST_MAX);
    }
}

impl RetryingRpc<'_> {
    /// Sends a request, and repeats it after transient errors.
    pub fn ask<T>(&self, question: impl Fn(&Rpc) -> Result<T, RpcError>) -> Result<T, NoAnswer> {
        again(self.stop, || question(self.rpc), RpcError::may_pass)
    }

    fn of_each<T>(
        &self,
        accounts: &[Address],
        question: fn(&Rpc, &[Address]) -> Result<Vec<T>, RpcError>,
    ) -> Result<Vec<T>, NoAnswer> {
        let mut answers = Vec::with_capacity(accounts.len());
        for chunk in accounts.chunks(TOGETHER) {
            answers.extend(self.ask(|rpc| question(rpc, chunk))?);
        }
        Ok(answers)
    }

    /// Repeats [`Rpc::nonces`] until the node answers.
    pub fn nonces(&self, accounts: &[Address]) -> Result<Vec<u64>, NoAnswer> {
        self.of_each(accounts, Rpc::nonces)
    }

    /// Repeats [`Rpc::mined_nonces`] until the node answers.
    pub fn mined_nonces(&self, accounts: &[Address]) -> Result<Vec<u64>, NoAnswer> {
        self.of_each(accounts, Rpc::mined_nonces)
    }

    /// Repeats [`Rpc::balances`] until the node answers.
    pub fn balances(&self, accounts: &[Address]) -> Result<Vec<U256>, NoAnswer> {
        self.of_each(accounts, Rpc::balances)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn transient_error_is_retried() {
        let rpc = Rpc::new("http://127.0.0.1:1", Duration::from_secs(1)).unwrap();
        let asked = Cell::new(0);
        let busy = |status| RpcError::Status { url: String::new(), status };
        let third = |_: &Rpc| {
            asked.set(asked.get() + 1);
            if asked.get() < 3 { Err(busy(429)) } else { Ok(asked.get()) }
        };
        let patient = RetryingRpc { rpc: &rpc, stop: &|| false };
        assert_eq!(patient.ask(third).unwrap(), 3);
        assert!(patient.ask(|_| Err::<(), _>(busy(404))).is_err(), "no patience finds what is not there");
        let stopped = RetryingRpc { stop: &|| true, ..patient }.ask(|_| Err::<(), _>(busy(503)));
        assert!(matches!(stopped, Err(NoAnswer::Stopped)));
        assert_eq!(RetryingRpc { stop: &|| true, ..patient }.ask(|_| Ok(7)).unwrap(), 7, "an answer is an answer");
    }
}
