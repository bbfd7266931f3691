//! Funds accounts as a tree: accounts with more than they need pay others; see [`crate::funding_tree`].
//!
//! reads   balances, statuses of transfers
//! writes  transfers, twenty per transaction; an airdrop if no other account pays
//! memory  the transfers of one level
//! drops   nothing: a repeated call continues from the current balances
//!
//! A transfer is repeated only when its blockhash has expired and no block contains it, so nothing is paid twice.

use std::thread;
use std::time::{Duration, Instant};

use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use hearth_wire::message::Message;
use hearth_wire::program::system;

use super::deliver::{End, deliver};
use super::inspect::sol;
use super::keys::Account;
use super::node::{Blockhash, Node};
use super::retry::RetryingNode;
use crate::account::AccountError;
use crate::funding_tree::{Survey, Transfer};
use crate::retry::{Caller, NoAnswer};
use crate::rpc::RpcError;

/// Transfers per transaction: 1,147 of 1,232 bytes.
const TRANSFERS: usize = 20;
/// Transactions of one account in a level: they run one after the other, because all write the account.
const FAN: usize = 16;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The longest wait for an airdrop: two lifetimes of a blockhash.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why the accounts are not funded.
#[derive(Debug, thiserror::Error)]
pub enum FundError {
    /// The node does not answer, or refuses.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The payer has too little.
    #[error(
        "{payer} has {} ({has} lamports), and {} ({needed} lamports) are needed for {count} accounts and their fees: name \
         fewer, a lower --amount, or another --funder",
        sol(*has),
        sol(*needed)
    )]
    Poor {
        /// Address of the payer.
        payer: String,
        /// Its balance, in lamports.
        has: u64,
        /// Required balance, in lamports.
        needed: u64,
        /// Number of accounts to fund.
        count: usize,
    },
    /// The node refuses the airdrop.
    #[error(
        "the node gives no airdrop of {} ({lamports} lamports): {why}; use fewer accounts, a lower --amount, or a key \
         file that pays with --funder",
        sol(*lamports)
    )]
    Airdrop {
        /// Lamports requested for the first account, which pays the others.
        lamports: u64,
        /// Why the node refuses, in its own words.
        why: String,
    },
    /// The airdrop did not arrive.
    #[error("the airdrop of {} ({} lamports) is in no block after two minutes", sol(*.0), .0)]
    Late(u64),
    /// A transfer failed in its block, or an airdrop did not count.
    #[error("a funding transfer failed: {0}")]
    Failed(String),
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
}

/// Why a funding ended early.
enum FundEnd {
    /// The funding failed with this error.
    For(FundError),
    /// The caller stopped it.
    Stopped,
}

impl From<FundError> for FundEnd {
    fn from(why: FundError) -> Self {
        Self::For(why)
    }
}

impl From<RpcError> for FundEnd {
    fn from(why: RpcError) -> Self {
        Self::For(why.into())
    }
}

impl From<NoAnswer> for FundEnd {
    fn from(why: NoAnswer) -> Self {
        match why {
            NoAnswer::Stopped => Self::Stopped,
            NoAnswer::Rpc(why) => why.into(),
        }
    }
}

/// Sorts accounts, by index, into short ones and payers.
fn survey(balances: &[u64], amount: u64, each: u64) -> Survey<usize> {
    let enough_for = |has: &u64| Some((has.checked_sub(amount)? / each).min(balances.len() as u64) as usize);
    Survey::of(balances.iter().map(enough_for).enumerate())
}

/// Gives `amount` lamports to each account that has less: from accounts that have more, then from `funder`, or else
/// from an airdrop to the first account. The callback gets the number of funded accounts. Returns how many were short.
pub fn fund(
    node: &Node,
    funder: Option<&Account>,
    accounts: &[Account],
    amount: u64,
    caller: Caller<'_>,
    mut on_progress: impl FnMut(usize, usize),
) -> Result<usize, FundError> {
    // How many short accounts were funded, and how many were short.
    let mut reached = (0, accounts.len());
    let ended = levels(node, funder, accounts, amount, caller, |done, count| {
        reached = (done, count);
        on_progress(done, count);
    });
    match ended {
        Ok(short) => Ok(short),
        Err(FundEnd::For(why)) => Err(why),
        Err(FundEnd::Stopped) => Err(FundError::Stopped { done: reached.0, count: reached.1 }),
    }
}

/// Runs the levels of the tree one after the other.
fn levels(
    node: &Node,
    funder: Option<&Account>,
    accounts: &[Account],
    amount: u64,
    caller: Caller<'_>,
    mut on_progress: impl FnMut(usize, usize),
) -> Result<usize, FundEnd> {
    let ask = &RetryingNode { node, stop: caller.stop };
    let addresses: Vec<Pubkey> = accounts.iter().map(|account| account.address).collect();
    // One transaction fee per transfer: more than is needed, and the rest stays with the payer.
    let each = amount + ask.ask(Node::fee)?;
    let mut count = None;
    loop {
        let mut balances = ask.balances(&addresses)?;
        let mut survey = self::survey(&balances, amount, each);
        let count = *count.get_or_insert(survey.short.len());
        let done = count.saturating_sub(survey.short.len());
        on_progress(done, count);
        if survey.short.is_empty() {
            return Ok(count);
        }
        if (ask.stop)() {
            return Err(FundEnd::Stopped);
        }
        let needed = each.saturating_mul(survey.beyond() as u64);
        match funder {
            Some(funder) if needed > 0 => check(ask, funder, needed, survey.beyond())?,
            None if needed > 0 => {
                let asked = needed + amount.saturating_sub(balances[0]);
                (caller.before_paying)().map_err(FundError::from)?;
                airdrop(ask, &addresses[0], asked, balances[0])?;
                balances = ask.balances(&addresses)?;
                survey = self::survey(&balances, amount, each);
            }
            _ => {}
        }
        if funder.is_none() && survey.beyond() > 0 {
            // The balances come from another replica, or are false.
            return Err(FundError::Failed("the node confirmed an airdrop that the balances lack".into()).into());
        }
        let transfers = survey.level(TRANSFERS * FAN);
        let blockhash = ask.ask(Node::blockhash)?;
        let (raws, paid) = signed(&transfers, funder, accounts, (amount, each), &blockhash);
        let arrived = |landed: usize| (landed * transfers.len() / raws.len().max(1)).min(paid);
        (caller.before_paying)().map_err(FundError::from)?;
        for end in deliver(ask, &raws, &blockhash, |landed| on_progress(done + arrived(landed), count))? {
            match end {
                // An expired transfer is in no block: the next survey of balances finds the accounts that are still
                // short.
                End::Landed | End::Expired => {}
                End::Failed(why) => return Err(FundError::Failed(why).into()),
                End::Stopped => return Err(FundEnd::Stopped),
            }
        }
    }
}

fn check(ask: &RetryingNode<'_>, funder: &Account, needed: u64, count: usize) -> Result<(), FundEnd> {
    let has = ask.balances(&[funder.address])?[0];
    match has < needed {
        true => Err(FundError::Poor { payer: encode_32(&funder.address).to_string(), has, needed, count }.into()),
        false => Ok(()),
    }
}

/// Requests lamports for an account with balance `before`, and waits until they arrive. The request is repeated only
/// once no block can contain the airdrop requested before.
fn airdrop(ask: &RetryingNode<'_>, to: &Pubkey, lamports: u64, before: u64) -> Result<(), FundEnd> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        // A lost answer may have been a success: then the airdrop is pending, and another request would be a second
        // one.
        let asked = ask.ask(|node| match node.airdrop(to, lamports) {
            Err(RpcError::Connection { .. } | RpcError::Garbled { .. }) => Ok(()),
            Err(RpcError::Status { status: 500.., .. }) => Ok(()),
            other => other,
        });
        match asked {
            Err(NoAnswer::Rpc(RpcError::Refused { message, .. })) => {
                return Err(FundError::Airdrop { lamports, why: message }.into());
            }
            other => other?,
        }
        let last_valid = ask.ask(Node::blockhash)?.last_valid;
        let mut is_over = false;
        while !is_over && Instant::now() < deadline {
            // In this order, so that an airdrop in the last possible block is still seen.
            is_over = ask.ask(Node::block_height)? > last_valid;
            if ask.balances(&[*to])?[0] >= before.saturating_add(lamports) {
                return Ok(());
            }
            if (ask.stop)() {
                return Err(FundEnd::Stopped);
            }
            thread::sleep(LOOK_EVERY);
        }
    }
    Err(FundError::Late(lamports).into())
}

/// Signs the transfers as transactions, and returns the number of transfers.
fn signed(
    transfers: &[Transfer<usize>],
    funder: Option<&Account>,
    accounts: &[Account],
    (amount, each): (u64, u64),
    blockhash: &Blockhash,
) -> (Vec<Vec<u8>>, usize) {
    let mut raws = vec![];
    for of_one in transfers.chunk_by(|a, b| a.from == b.from) {
        let payer = match of_one[0].from {
            Some(index) => &accounts[index],
            None => funder.expect("without a funder nothing is beyond what accounts have"),
        };
        for some in of_one.chunks(TRANSFERS) {
            let transfer = |transfer: &Transfer<usize>| {
                let lamports = amount + each * (transfer.accounts as u64 - 1);
                system::transfer(&payer.address, &accounts[transfer.to].address, lamports)
            };
            let instructions: Vec<_> = some.iter().map(transfer).collect();
            let message = Message::compile(&payer.address, &instructions, &blockhash.hash).expect("so many fit");
            raws.push(message.sign_with(|_, message| payer.key.sign(message)));
        }
    }
    (raws, transfers.len())
}

#[cfg(test)]
mod tests {
    use super::super::keys::generate;
    use super::*;

    #[test]
    fn payer_signs() {
        let each = 1_005;
        let survey = survey(&[1_000 + 2 * each, 0, 0, 0], 1_000, each);
        assert_eq!((survey.beyond(), survey.payers.clone()), (1, vec![(0, 2)]));
        let transfers = survey.level(TRANSFERS * FAN);
        assert_eq!(transfers.iter().map(|t| t.from).collect::<Vec<_>>(), [Some(0), Some(0), None]);
        let accounts = generate(5).unwrap();
        let blockhash = Blockhash { hash: [1; 32], last_valid: 1 };
        let (raws, count) = signed(&transfers, Some(&accounts[4]), &accounts, (1_000, each), &blockhash);
        assert_eq!((raws.len(), count), (2, 3));
    }

    #[test]
    fn as_many_transfers_as_are_sent_together_fit_a_packet() {
        let accounts = generate(TRANSFERS + 1).unwrap();
        let transfers: Vec<_> = (1..=TRANSFERS).map(|to| Transfer { from: Some(0), to, accounts: 1 }).collect();
        let blockhash = Blockhash { hash: [1; 32], last_valid: 1 };
        assert_eq!(signed(&transfers, None, &accounts, (1, 2), &blockhash).0.len(), 1);
    }
}
