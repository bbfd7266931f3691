//! Delivers transactions of the set-up over RPC until each is in a block or has expired.
//!
//! reads   the statuses of signatures; the chain's height
//! writes  transactions; the same bytes again until they are seen
//! memory  the transactions

use std::thread;
use std::time::{Duration, Instant};

use hearth_wire::base58::encode_64;

use super::node::{Blockhash, Node, Status};
use super::retry::{RetryingNode, UNHEALTHY, may_pass};
use crate::retry::NoAnswer;
use crate::rpc::{Refusal, RpcError};

/// Transactions per request: as many of the longest as fit.
const TOGETHER: usize = 26;
/// Signatures whose statuses a node returns at once.
const STATUSES_TOGETHER: usize = 256;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Unseen transactions are sent again after this time.
const AGAIN: Duration = Duration::from_secs(2);
/// How long a stopped delivery waits for pending transactions.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is in a confirmed block.
    Landed,
    /// It failed in its block, or was refused, with this message.
    Failed(String),
    /// No block contains it, and none can: its blockhash has expired.
    Expired,
    /// Unknown: the delivery was stopped.
    Stopped,
}

/// Sends transactions that use this blockhash and returns the outcome of each. The callback gets the number of finished
/// ones.
pub fn deliver(
    ask: &RetryingNode<'_>,
    raws: &[Vec<u8>],
    blockhash: &Blockhash,
    mut on_progress: impl FnMut(usize),
) -> Result<Vec<End>, RpcError> {
    let signatures: Vec<String> = raws
        .iter()
        .map(|raw| encode_64(raw[1..65].try_into().expect("a signature has 64 bytes")).to_string())
        .collect();
    let mut ends: Vec<Option<End>> = vec![None; raws.len()];
    let (mut sent, mut stopped): (Option<Instant>, Option<Instant>) = (None, None);
    loop {
        if sent.is_none_or(|sent| sent.elapsed() > AGAIN) {
            send_open(ask.node, raws, &mut ends)?;
            sent = Some(Instant::now());
        }
        // In this order, so that a transaction in the last possible block is still seen.
        let is_over = match ask.ask(Node::block_height) {
            Ok(height) => height > blockhash.last_valid,
            Err(NoAnswer::Stopped) => return Ok(ended(ends, &End::Stopped)),
            Err(NoAnswer::Rpc(why)) => return Err(why),
        };
        match look(ask, &signatures, &mut ends) {
            Ok(()) => {}
            Err(NoAnswer::Stopped) => return Ok(ended(ends, &End::Stopped)),
            Err(NoAnswer::Rpc(why)) => return Err(why),
        }
        let open = ends.iter().filter(|end| end.is_none()).count();
        on_progress(raws.len() - open);
        if stopped.is_none() && (ask.stop)() {
            stopped = Some(Instant::now());
        }
        let given_up = stopped.is_some_and(|since| since.elapsed() > STOP_PATIENCE);
        if open == 0 || is_over || given_up {
            return Ok(ended(ends, if is_over { &End::Expired } else { &End::Stopped }));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Completes the outcomes: those that are missing become `rest`.
fn ended(ends: Vec<Option<End>>, rest: &End) -> Vec<End> {
    ends.into_iter().map(|end| end.unwrap_or_else(|| rest.clone())).collect()
}

/// Sends the transactions without an outcome. Those that the node has no room for are sent again next time.
fn send_open(node: &Node, raws: &[Vec<u8>], ends: &mut [Option<End>]) -> Result<(), RpcError> {
    let open: Vec<usize> = (0..raws.len()).filter(|&index| ends[index].is_none()).collect();
    for chunk in open.chunks(TOGETHER) {
        let some: Vec<&[u8]> = chunk.iter().map(|&index| raws[index].as_slice()).collect();
        let verdicts = match node.send(&some) {
            Ok(verdicts) => verdicts,
            Err(why) if !may_pass(&why) => return Err(why),
            // Unknown whether they were accepted; their statuses will show it. If the node does not answer at all, the
            // remaining requests are not tried.
            Err(RpcError::Connection { .. }) => return Ok(()),
            Err(_) => continue,
        };
        for (&index, verdict) in chunk.iter().zip(verdicts) {
            if let Err(refusal) = verdict
                && is_final(&refusal)
            {
                ends[index] = Some(End::Failed(refusal.message));
            }
        }
    }
    Ok(())
}

/// Returns whether a refusal is permanent, and not due to a full queue or a node that is behind.
pub fn is_final(refusal: &Refusal) -> bool {
    let words = refusal.message.to_ascii_lowercase();
    let passing = ["already been processed", "blockhash not found", "try again", "behind", "too many", "rate limit"];
    refusal.code != UNHEALTHY && !passing.iter().any(|passing| words.contains(passing))
}

fn look(ask: &RetryingNode<'_>, signatures: &[String], ends: &mut [Option<End>]) -> Result<(), NoAnswer> {
    let open: Vec<usize> = (0..ends.len()).filter(|&index| ends[index].is_none()).collect();
    for chunk in open.chunks(STATUSES_TOGETHER) {
        let some: Vec<String> = chunk.iter().map(|&index| signatures[index].clone()).collect();
        for (&index, status) in chunk.iter().zip(ask.ask(|node| node.statuses(&some))?) {
            match status {
                Status::Unseen | Status::Seen => {}
                Status::Landed => ends[index] = Some(End::Landed),
                Status::Failed(why) => ends[index] = Some(End::Failed(why)),
            }
        }
    }
    Ok(())
}
