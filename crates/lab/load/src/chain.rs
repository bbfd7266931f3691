//! That several nodes are of the same chain.
//!
//! reads   what tells a chain from others

use std::time::Duration;

use crate::error::LoadError;
use crate::rpc::{Retryable, Rpc, RpcError};

/// What tells a chain from others: names and values.
pub type Marks = Vec<(&'static str, String)>;

/// That further nodes are of the first one's chain, by `marks` that both tell. Gives those that do not answer: they may
/// do so later.
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
