//! Funds a load's accounts from one rich account, as a tree, so that thousands take a few blocks.
//!
//! reads   balances, nonces
//! writes  plain transfers, one level of the tree at a time: the rich account pays some accounts, which pay others
//! memory  100 B per account
//! drops   nothing: a refused transfer ends the funding with the node's message
//!
//! Each round starts from all balances; see [`crate::funding_tree`]. So an interrupted funding resumes: money that an
//! account received for others still goes to others. Pending transactions are waited for first, so that nothing is paid
//! twice.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use alloy_primitives::utils::format_ether;
use alloy_primitives::{Address, U256};
use hearth_crypto::secp256k1::Signer;
use serde_json::json;

use super::workload::{TRANSFER_GAS, Terms, plain, sign};
use crate::account::{AccountError, address};
use crate::funding_tree::{Survey, Transfer};
use crate::refusal::Reason;
use crate::retry::{Caller, NoAnswer, RetryingRpc};
use crate::rpc::{Refusal, Retryable, Rpc, RpcError};

/// How many accounts one payer pays. Nodes hold at least 16 transactions of a sender.
const FAN: usize = 15;
/// The most transfers in one request.
const TOGETHER: usize = 100;
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long one level may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why the accounts are not funded.
#[derive(Debug, thiserror::Error)]
pub enum FundError {
    /// The node does not answer, or refuses.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The rich account has too little money.
    #[error(
        "{payer} has {} ether, and {} are needed for {count} accounts: use fewer accounts, a lower --amount, or another \
         --funder",
        format_ether(*has),
        format_ether(*needed)
    )]
    Poor {
        /// Address of the payer.
        payer: Address,
        /// Its balance, in wei.
        has: U256,
        /// Required balance in wei, fees included.
        needed: U256,
        /// Number of accounts to fund.
        count: usize,
    },
    /// The node refused a transfer.
    #[error("the node refuses a funding transfer: {0}")]
    Refused(String),
    /// The keys cannot be saved, so nothing is paid.
    #[error(transparent)]
    Keys(#[from] AccountError),
    /// The caller stopped the funding.
    #[error("stopped: {done} of {count} accounts are funded; the same command continues from there")]
    Stopped {
        /// How many short accounts were funded.
        done: usize,
        /// How many were short.
        count: usize,
    },
    /// Transactions of an earlier call are still pending.
    #[error(
        "earlier transactions of {account} and of {others} other accounts are in no block after {} s; `hearth why \
         HASH` says what one of its transactions waits for, `txpool_contentFrom` lists them",
        PATIENCE.as_secs()
    )]
    Pending {
        /// The first account with pending transactions.
        account: Address,
        /// How many other accounts have some.
        others: usize,
    },
    /// Transfers are not in a block after [`PATIENCE`].
    #[error("{missing} of {count} funding transfers are in no block after {} s", PATIENCE.as_secs())]
    Late {
        /// How many accounts still wait.
        missing: usize,
        /// How many accounts were paid.
        count: usize,
    },
}

impl From<NoAnswer> for FundError {
    fn from(why: NoAnswer) -> Self {
        match why {
            NoAnswer::Stopped => STOPPED,
            NoAnswer::Rpc(why) => why.into(),
        }
    }
}

/// Stopped, before [`fund`] fills in how far it got.
const STOPPED: FundError = FundError::Stopped { done: 0, count: 0 };

/// Returns the wei that one funded account costs its payer: the amount, and the fee of the transfer.
fn each(terms: &Terms, amount: U256) -> U256 {
    amount + U256::from(terms.max_fee) * U256::from(TRANSFER_GAS)
}

/// Reads the balances of these accounts and sorts them into short ones and payers.
fn survey<'a>(
    ask: &RetryingRpc<'_>,
    accounts: &[&'a Signer],
    amount: U256,
    each: U256,
) -> Result<Survey<&'a Signer>, NoAnswer> {
    let addresses: Vec<_> = accounts.iter().map(|signer| address(signer)).collect();
    let enough_for = |has: U256| {
        let others = has.checked_sub(amount)? / each;
        Some(others.min(U256::from(accounts.len())).to::<usize>())
    };
    let balances = ask.balances(&addresses)?;
    Ok(Survey::of(accounts.iter().copied().zip(balances.into_iter().map(enough_for))))
}

/// Returns what the rich account must have so that each of these gets `amount`.
pub fn needed(ask: &RetryingRpc<'_>, terms: &Terms, accounts: &[Signer], amount: U256) -> Result<U256, NoAnswer> {
    let each = each(terms, amount);
    let survey = survey(ask, &accounts.iter().collect::<Vec<_>>(), amount, each)?;
    Ok(each * U256::from(survey.beyond()))
}

/// The most that this account can have, in wei: its own balance, or what a development node's account could give.
pub fn purse(ask: &RetryingRpc<'_>, payer: Address) -> Result<U256, NoAnswer> {
    let own = ask.balances(&[payer])?[0];
    if !is_development(ask)? {
        return Ok(own);
    }
    let accounts = match ask.ask(|rpc| rpc.call("eth_accounts", &json!([]))) {
        Ok(accounts) => accounts,
        Err(NoAnswer::Rpc(RpcError::Refused { .. })) => return Ok(own),
        Err(why) => return Err(why),
    };
    let Some(rich) = accounts[0].as_str().and_then(|rich| rich.parse().ok()) else { return Ok(own) };
    Ok(own.max(ask.balances(&[rich])?[0]))
}

/// Gives `amount` to each account that has less, from the accounts that have more and from `payer`. The callback gets
/// the number of funded accounts. Returns how many were short.
pub fn fund(
    rpc: &Rpc,
    terms: &Terms,
    payer: &Signer,
    accounts: &[Signer],
    amount: U256,
    caller: Caller<'_>,
    mut on_progress: impl FnMut(usize, usize),
) -> Result<usize, FundError> {
    let each = each(terms, amount);
    let Caller { stop, before_paying, .. } = caller;
    let ask = RetryingRpc { rpc, stop };
    let mut open: Vec<&Signer> = accounts.iter().collect();
    let (mut count, mut done) = (accounts.len(), None);
    let far = |why: FundError, done: Option<usize>, count| match why {
        FundError::Stopped { .. } => FundError::Stopped { done: done.unwrap_or(0), count },
        why => why,
    };
    wait_for_pool(&ask, payer, accounts).map_err(|why| far(why, done, count))?;
    loop {
        let survey = survey(&ask, &open, amount, each).map_err(|why| far(why.into(), done, count))?;
        if done.is_none() {
            count = survey.short.len();
        }
        let done = *done.insert(count - survey.short.len());
        on_progress(done, count);
        if survey.short.is_empty() {
            return Ok(count);
        }
        if stop() {
            return Err(FundError::Stopped { done, count });
        }
        let beyond = survey.beyond();
        let stopped = |why| far(why, Some(done), count);
        let has = ask.balances(&[address(payer)]).map_err(|why| stopped(why.into()))?[0];
        let needed = each * U256::from(beyond);
        if has < needed {
            return Err(FundError::Poor { payer: address(payer), has, needed, count: beyond });
        }
        let transfers = survey.level(FAN);
        let raws = signed(&ask, terms, payer, &transfers, (amount, each)).map_err(|why| stopped(why.into()))?;
        before_paying()?;
        pay(&ask, &raws).map_err(stopped)?;
        let waiting: Vec<_> = transfers.iter().map(|transfer| address(transfer.to)).collect();
        wait_until_rich(&ask, &waiting, amount, |arrived| on_progress(done + arrived, count)).map_err(stopped)?;
        open = survey.short;
        open.extend(survey.payers.iter().map(|(signer, _)| *signer));
    }
}

/// Signs the transfers; those without a payer come from `rich`. A payer's transfers are adjacent, in nonce order.
fn signed(
    ask: &RetryingRpc<'_>,
    terms: &Terms,
    rich: &Signer,
    transfers: &[Transfer<&Signer>],
    (amount, each): (U256, U256),
) -> Result<Vec<Vec<u8>>, NoAnswer> {
    let mut payers: Vec<_> = transfers.iter().map(|transfer| address(transfer.from.unwrap_or(rich))).collect();
    payers.dedup();
    let nonces = ask.nonces(&payers)?;
    let mut next: HashMap<Address, u64> = payers.into_iter().zip(nonces).collect();
    let sign_one = |transfer: &Transfer<&Signer>| {
        let payer = transfer.from.unwrap_or(rich);
        let nonce = next.get_mut(&address(payer)).expect("asked for above");
        let value = amount + each * U256::from(transfer.accounts - 1);
        let raw = sign(plain(terms, *nonce, address(transfer.to), value), payer).0;
        *nonce += 1;
        raw
    };
    Ok(transfers.iter().map(sign_one).collect())
}

/// Sends the transfers until the node has accepted all of them.
fn pay(ask: &RetryingRpc<'_>, raws: &[Vec<u8>]) -> Result<(), FundError> {
    let deadline = Instant::now() + PATIENCE;
    for chunk in raws.chunks(TOGETHER) {
        let mut left: Vec<&[u8]> = chunk.iter().map(Vec::as_slice).collect();
        let mut resent = false;
        while !left.is_empty() {
            let why = match ask.rpc.send_raw(&left) {
                Ok(verdicts) => {
                    let (again, words) = not_taken(&left, verdicts, resent)?;
                    left = again;
                    FundError::Refused(words)
                }
                Err(why) if !why.may_pass() => return Err(why.into()),
                Err(why) => why.into(),
            };
            if left.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                return Err(why);
            }
            if (ask.stop)() {
                return Err(STOPPED);
            }
            resent = true;
            std::thread::sleep(LOOK_EVERY);
        }
    }
    Ok(())
}

/// Returns the transfers that the pool had no room for, with the node's message.
fn not_taken<'a, T>(
    raws: &[&'a [u8]],
    verdicts: Vec<Result<T, Refusal>>,
    resent: bool,
) -> Result<(Vec<&'a [u8]>, String), FundError> {
    let (mut again, mut words) = (vec![], String::new());
    for (raw, verdict) in raws.iter().zip(verdicts) {
        let Err(Refusal { message, .. }) = verdict else { continue };
        match Reason::of(&message) {
            Reason::Known => {}
            // The earlier answer was lost, and the transfer is in a block by now.
            Reason::NonceUsed if resent => {}
            Reason::Full | Reason::NonceAhead => {
                again.push(*raw);
                words = message;
            }
            Reason::NonceUsed | Reason::Fee | Reason::Funds | Reason::Other => {
                return Err(FundError::Refused(message));
            }
        }
    }
    Ok((again, words))
}

/// Waits until the transactions of an earlier call are in blocks.
fn wait_for_pool(ask: &RetryingRpc<'_>, payer: &Signer, accounts: &[Signer]) -> Result<(), FundError> {
    let deadline = Instant::now() + PATIENCE;
    let mut waiting: Vec<_> = accounts.iter().chain([payer]).map(address).collect();
    loop {
        // In this order, so that a block in between does not make a mined transaction look pending.
        let (pending, mined) = (ask.nonces(&waiting)?, ask.mined_nonces(&waiting)?);
        let pairs = waiting.iter().zip(pending.iter().zip(&mined));
        waiting = pairs.filter(|(_, (pending, mined))| pending > mined).map(|(account, _)| *account).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(FundError::Pending { account: waiting[0], others: waiting.len() - 1 });
        }
        if (ask.stop)() {
            return Err(STOPPED);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until each account has the amount, and reports how many do.
fn wait_until_rich(
    ask: &RetryingRpc<'_>,
    accounts: &[Address],
    amount: U256,
    mut on_progress: impl FnMut(usize),
) -> Result<(), FundError> {
    let deadline = Instant::now() + PATIENCE;
    let (mut waiting, mut arrived) = (accounts.to_vec(), 0);
    loop {
        let balances = ask.balances(&waiting)?;
        waiting =
            waiting.into_iter().zip(balances).filter(|(_, has)| *has < amount).map(|(account, _)| account).collect();
        if accounts.len() - waiting.len() > arrived {
            arrived = accounts.len() - waiting.len();
            on_progress(arrived);
        }
        if waiting.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(FundError::Late { missing: waiting.len(), count: accounts.len() });
        }
        if (ask.stop)() {
            return Err(STOPPED);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Chain ids of development nodes: geth's, and the one of anvil, Hardhat and ours.
const DEVELOPMENT: [u64; 2] = [1337, 31337];

/// Whether money on this chain is worthless. On any other chain an account that the node keeps belongs to its owner.
fn is_development(ask: &RetryingRpc<'_>) -> Result<bool, NoAnswer> {
    Ok(DEVELOPMENT.contains(&ask.ask(|rpc| rpc.number("eth_chainId", &json!([])))?))
}

/// If a development node holds the rich account's key itself (`geth --dev`), asks it to pay `amount` to the account.
/// Returns the account that paid, if any.
pub fn ask_developer_account(ask: &RetryingRpc<'_>, to: Address, amount: U256) -> Result<Option<Address>, FundError> {
    if !is_development(ask)? {
        return Ok(None);
    }
    let accounts = match ask.ask(|rpc| rpc.call("eth_accounts", &json!([]))) {
        Ok(accounts) => accounts,
        Err(NoAnswer::Rpc(RpcError::Refused { .. })) => return Ok(None),
        Err(why) => return Err(why.into()),
    };
    let Some(rich) = accounts[0].as_str().and_then(|rich| rich.parse::<Address>().ok()) else { return Ok(None) };
    let transaction = json!({ "from": rich, "to": to, "value": amount });
    // Sent only once: if the answer were lost, a retry would be a second transaction.
    match ask.rpc.call("eth_sendTransaction", &json!([transaction])) {
        Ok(_) => wait_until_rich(ask, &[to], amount, |_| {}).map(|()| Some(rich)),
        Err(RpcError::Refused { .. }) => Ok(None),
        Err(why) => Err(why.into()),
    }
}
