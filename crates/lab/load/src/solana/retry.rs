//! Questions to a node of Solana's that are asked again while it does not answer; see [`crate::retry`].
//!
//! reads   a node's answers
//! writes  the same questions, up to a second apart
//! drops   nothing: who is silent for half a minute, or refuses, is told of

use hearth_wire::Pubkey;

use super::node::Node;
use crate::retry::{NoAnswer, again};
use crate::rpc::{Retryable, RpcError};

/// The code of a node that is behind its cluster.
pub const UNHEALTHY: i64 = -32005;
/// Accounts asked for at once, in one request: what has been answered is not asked again.
const TOGETHER: usize = 900;

/// A node that is asked with patience.
#[derive(Clone, Copy)]
pub struct Patient<'a> {
    /// The node.
    pub node: &'a Node,
    /// Ends the patience.
    pub stop: &'a dyn Fn() -> bool,
}

/// Whether the same question may have an answer later: one that is behind its cluster says so by a code.
pub(crate) fn may_pass(why: &RpcError) -> bool {
    matches!(why, RpcError::Refused { code: UNHEALTHY, .. }) || why.may_pass()
}

impl Patient<'_> {
    /// Asks, and asks again where that may help.
    pub fn ask<T>(&self, question: impl Fn(&Node) -> Result<T, RpcError>) -> Result<T, NoAnswer> {
        again(self.stop, || question(self.node), may_pass)
    }

    /// See [`Node::balances`].
    pub fn balances(&self, accounts: &[Pubkey]) -> Result<Vec<u64>, NoAnswer> {
        let mut balances = Vec::with_capacity(accounts.len());
        for some in accounts.chunks(TOGETHER) {
            balances.extend(self.ask(|node| node.balances(some))?);
        }
        Ok(balances)
    }
}
