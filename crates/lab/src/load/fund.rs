//! Money for a load's accounts: from one rich account, as a tree, so that thousands take a few blocks.
//!
//! reads   balances, nonces
//! writes  plain transfers: the rich account pays to some, those to others, a level of the tree at a time
//! memory  100 B an account
//! drops   nothing: a transfer that is refused ends the funding with the node's words; called again, it pays only those
//!         that are short

use std::time::{Duration, Instant};

use alloy_primitives::{Address, U256};
use hearth_crypto::secp256k1::Signer;
use serde_json::json;

use super::account::address;
use super::rpc::{Rpc, RpcError};
use super::workload::{TRANSFER_GAS, Terms, plain, sign};

/// How many accounts one pays for. Nodes hold at least 16 transactions of a sender.
const FAN: usize = 15;
/// How long a level may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why the accounts have no money.
#[derive(Debug, thiserror::Error)]
pub enum FundError {
    /// The node does not answer, or refuses.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The rich account is not rich enough.
    #[error("{payer} has {has} wei, and {needed} are needed for {count} accounts")]
    Poor {
        /// Who pays.
        payer: Address,
        /// What it has.
        has: U256,
        /// What is needed, fees included.
        needed: U256,
        /// For how many.
        count: usize,
    },
    /// A transfer was refused.
    #[error("the node refuses a transfer that funds: {0}")]
    Refused(String),
    /// It is not in a block after [`PATIENCE`].
    #[error("{missing} of {count} transfers that fund are in no block after {} s", PATIENCE.as_secs())]
    Late {
        /// How many accounts still wait.
        missing: usize,
        /// Of how many.
        count: usize,
    },
}

/// Gives `amount` to each account that has less, out of the account of `payer`. `told` hears how many are done.
/// Gives how many were short.
pub fn fund(
    rpc: &Rpc,
    terms: &Terms,
    payer: &Signer,
    accounts: &[Signer],
    amount: U256,
    mut told: impl FnMut(usize, usize),
) -> Result<usize, FundError> {
    let addresses: Vec<_> = accounts.iter().map(address).collect();
    let balances = rpc.balances(&addresses)?;
    let short: Vec<_> = accounts.iter().zip(balances).filter(|(_, has)| *has < amount).collect();
    let count = short.len();
    let fee = U256::from(terms.max_fee) * U256::from(TRANSFER_GAS);
    let needed = (amount + fee) * U256::from(count);
    let has = rpc.balances(&[address(payer)])?[0];
    if has < needed {
        return Err(FundError::Poor { payer: address(payer), has, needed, count });
    }
    // A heap: the payer is 0, the children of k are FAN·k + 1 … FAN·k + FAN.
    let sizes = subtree_sizes(count + 1);
    let mut level = 0..1;
    loop {
        let children = (FAN * level.start + 1).min(count + 1)..(FAN * level.end + 1).min(count + 1);
        if children.is_empty() {
            return Ok(count);
        }
        let payers: Vec<_> = level.clone().map(|k| if k == 0 { payer } else { short[k - 1].0 }).collect();
        let payer_addresses: Vec<_> = payers.iter().map(|signer| address(signer)).collect();
        let mut nonces = rpc.nonces(&payer_addresses)?;
        let mut raws = vec![];
        for child in children.clone() {
            let parent = (child - 1) / FAN - level.start;
            let below = U256::from(sizes[child] - 1);
            let value = amount + (amount + fee) * below;
            let to = address(short[child - 1].0);
            raws.push(sign(plain(terms, nonces[parent], to, value), payers[parent]).0);
            nonces[parent] += 1;
        }
        pay(rpc, &raws)?;
        let waiting: Vec<_> = children.clone().map(|child| address(short[child - 1].0)).collect();
        wait_until_rich(rpc, &waiting, amount)?;
        level = children;
        told(level.end - 1, count);
    }
}

/// The number of nodes below and with each.
fn subtree_sizes(nodes: usize) -> Vec<usize> {
    let mut sizes = vec![1; nodes];
    for k in (1..nodes).rev() {
        sizes[(k - 1) / FAN] += sizes[k];
    }
    sizes
}

fn pay(rpc: &Rpc, raws: &[Vec<u8>]) -> Result<(), FundError> {
    for chunk in raws.chunks(100) {
        let chunk: Vec<_> = chunk.iter().map(Vec::as_slice).collect();
        for verdict in rpc.send_raw(&chunk)? {
            verdict.map_err(|refusal| FundError::Refused(refusal.message))?;
        }
    }
    Ok(())
}

/// Waits until each has the amount.
fn wait_until_rich(rpc: &Rpc, accounts: &[Address], amount: U256) -> Result<(), FundError> {
    let deadline = Instant::now() + PATIENCE;
    let mut waiting = accounts.to_vec();
    loop {
        let balances = rpc.balances(&waiting)?;
        waiting =
            waiting.into_iter().zip(balances).filter(|(_, has)| *has < amount).map(|(account, _)| account).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(FundError::Late { missing: waiting.len(), count: accounts.len() });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Where a development node keeps the rich account to itself (`geth --dev`), asks it to pay `amount` to the account.
pub fn ask_developer_account(rpc: &Rpc, to: Address, amount: U256) -> Result<bool, FundError> {
    let accounts = match rpc.call("eth_accounts", &json!([])) {
        Ok(accounts) => accounts,
        Err(RpcError::Refused { .. }) => return Ok(false),
        Err(why) => return Err(why.into()),
    };
    let Some(rich) = accounts.get(0) else { return Ok(false) };
    let transaction = json!({ "from": rich, "to": to, "value": amount });
    match rpc.call("eth_sendTransaction", &json!([transaction])) {
        Ok(_) => wait_until_rich(rpc, &[to], amount).map(|()| true),
        Err(RpcError::Refused { .. }) => Ok(false),
        Err(why) => Err(why.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_pays_for_everybody() {
        for nodes in [1, 2, 16, 17, 241, 2001] {
            let sizes = subtree_sizes(nodes);
            assert_eq!(sizes[0], nodes);
            for k in 0..nodes {
                let children = (FAN * k + 1..FAN * k + 1 + FAN).filter(|&child| child < nodes);
                assert_eq!(sizes[k], 1 + children.map(|child| sizes[child]).sum::<usize>());
            }
        }
    }
}
