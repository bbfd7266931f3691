//! Verifies that several nodes belong to the same chain.
//!
//! reads   the marks that identify a chain

use std::time::Duration;

use crate::error::LoadError;
use crate::rpc::{Retryable, Rpc, RpcError};

/// Names and values that identify a chain.
pub type Marks = Vec<(&'static str, String)>;

/// Verifies that further nodes belong to the first one's chain, by the `marks` that both report. Returns the nodes that
/// do not answer: they may do so later.
pub fn check_chains(
    first: &Rpc,
    others: &[String],
    timeout: Duration,
    marks: fn(&Rpc) -> Result<Marks, RpcError>,
) -> Result<Vec<RpcError>, LoadError> {
    let mut silent = vec![];
    if others.is_empty() {
        return Ok(silent);
    }
    let ours = marks(first)?;
    for url in others {
        let first = || first.url().to_owned();
        let theirs = match marks(&Rpc::new(url, timeout)?) {
            Ok(theirs) => theirs,
            Err(why @ RpcError::Refused { .. }) if !why.may_pass() => {
                return Err(LoadError::OtherKind { url: url.clone(), first: first(), why });
            }
            Err(why) => {
                silent.push(why);
                continue;
            }
        };
        let pairs = ours.iter().filter_map(|(what, ours)| {
            let (_, theirs) = theirs.iter().find(|(name, _)| name == what)?;
            (ours != theirs).then(|| (*what, ours.clone(), theirs.clone()))
        });
        if let Some((what, ours, theirs)) = { pairs }.next() {
            return Err(LoadError::OtherChain { url: url.clone(), first: first(), what, ours, theirs });
        }
    }
    Ok(silent)
}
