//! Repeats requests to a Solana node while it does not answer; see [`crate::retry`].
//!
//! reads   a node's answers
//! writes  the same requests, up to a second apart
//! drops   nothing: a node that is silent for half a minute, or refuses, is reported

use hearth_wire::Pubkey;

use super::node::Node;
use crate::retry::{NoAnswer, again};
use crate::rpc::{Retryable, RpcError};

/// Error code of a node that is behind its cluster.
pub const UNHEALTHY: i64 = -32005;
/// Accounts per query: answered queries are not repeated.
const TOGETHER: usize = 900;

/// A node whose failed requests are repeated.
#[derive(Clone, Copy)]
pub struct RetryingNode<'a> {
    /// The node to query.
    pub node: &'a Node,
    /// Ends the repetition when it returns true.
    pub stop: &'a dyn Fn() -> bool,
}

/// Returns whether the same request may be answered later: a node that is behind its cluster says so by a code.
pub(crate) fn may_pass(why: &RpcError) -> bool {
    matches!(why, RpcError::Refused { code: UNHEALTHY, .. }) || why.may_pass()
}

impl RetryingNode<'_> {
    /// Sends a request, and repeats it after transient errors.
    pub fn ask<T>(&self, question: impl Fn(&Node) -> Result<T, RpcError>) -> Result<T, NoAnswer> {
        again(self.stop, || question(self.node), may_pass)
    }

    /// Repeats [`Node::balances`] until the node answers.
    pub fn balances(&self, accounts: &[Pubkey]) -> Result<Vec<u64>, NoAnswer> {
        let mut balances = Vec::with_capacity(accounts.len());
        for some in accounts.chunks(TOGETHER) {
            balances.extend(self.ask(|node| node.balances(some))?);
        }
        Ok(balances)
    }
}
