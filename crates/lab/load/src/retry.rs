//! Questions that are asked again while a node does not answer: one bad answer does not cost the money on its way.
//!
//! reads   a node's answers
//! writes  the same questions, up to a second apart
//! drops   nothing: who is silent for half a minute, or refuses, is told of

use std::time::{Duration, Instant};

use alloy_primitives::{Address, U256};

use crate::account::AccountError;
use crate::rpc::{Retryable, Rpc, RpcError};

/// How long nothing but errors may come.
const PATIENCE: Duration = Duration::from_secs(30);
/// The first rest after one; each further one doubles it.
const REST: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(1);
/// Accounts asked for at once: what has been answered is not asked again.
const TOGETHER: usize = 500;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Whoever called does not want it any more.
    #[error("stopped")]
    Stopped,
    /// The node refuses, or is silent.
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

/// A node that is asked with patience.
#[derive(Clone, Copy)]
pub struct Patient<'a> {
    /// The node.
    pub rpc: &'a Rpc,
    /// Ends the patience.
    pub stop: &'a dyn Fn() -> bool,
}

/// Whoever has accounts funded.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// Ends the funding.
    pub stop: &'a dyn Fn() -> bool,
    /// Called before any money goes out, each time: keys that are kept nowhere are to be kept by then.
    pub before_paying: &'a dyn Fn() -> Result<(), AccountError>,
    /// Hears whose money is taken, where it is not that of who was to pay.
    pub says: &'a dyn Fn(&str),
}

impl<'a> Caller<'a> {
    /// One that has nothing to keep, and says nothing.
    pub fn new(stop: &'a dyn Fn() -> bool) -> Self {
        Self { stop, before_paying: &|| Ok(()), says: &|_| {} }
    }
}

/// Asks until there is an answer, an error that does not pass, or half a minute of such that may is over.
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

impl Patient<'_> {
    /// Asks, and asks again where that may help.
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

    /// See [`Rpc::nonces`].
    pub fn nonces(&self, accounts: &[Address]) -> Result<Vec<u64>, NoAnswer> {
        self.of_each(accounts, Rpc::nonces)
    }

    /// See [`Rpc::mined_nonces`].
    pub fn mined_nonces(&self, accounts: &[Address]) -> Result<Vec<u64>, NoAnswer> {
        self.of_each(accounts, Rpc::mined_nonces)
    }

    /// See [`Rpc::balances`].
    pub fn balances(&self, accounts: &[Address]) -> Result<Vec<U256>, NoAnswer> {
        self.of_each(accounts, Rpc::balances)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_may_pass_is_asked_again() {
        let rpc = Rpc::new("http://127.0.0.1:1", Duration::from_secs(1)).unwrap();
        let asked = Cell::new(0);
        let busy = |status| RpcError::Status { url: String::new(), status };
        let third = |_: &Rpc| {
            asked.set(asked.get() + 1);
            if asked.get() < 3 { Err(busy(429)) } else { Ok(asked.get()) }
        };
        let patient = Patient { rpc: &rpc, stop: &|| false };
        assert_eq!(patient.ask(third).unwrap(), 3);
        assert!(patient.ask(|_| Err::<(), _>(busy(404))).is_err(), "no patience finds what is not there");
        let stopped = Patient { stop: &|| true, ..patient }.ask(|_| Err::<(), _>(busy(503)));
        assert!(matches!(stopped, Err(NoAnswer::Stopped)));
        assert_eq!(Patient { stop: &|| true, ..patient }.ask(|_| Ok(7)).unwrap(), 7, "an answer is an answer");
    }
}
