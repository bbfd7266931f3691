//! The kinds of subscriptions.
//!
//! reads   the parameters of a subscribe request
//! writes  a [`Watch`]
//! memory  about 200 B each; the data of a watched account; values held back until they reach their commitment
//! drops   invalid parameters: error -32602
//! source  `rpc_pubsub.rs` of `solana-rpc` 4.2 for names, parameters and codes

use std::collections::{BTreeMap, VecDeque};

use hearth_ledger::notifier::Interests;
use hearth_ledger::{Account, Commitment};
use hearth_wire::{Pubkey, Signature};
use serde_json::Value;

use crate::encoding::account::AccountFormat;
use crate::filters::Filters;
use crate::jsonrpc::{Failure, kind};
use crate::params::{self, Params};

/// A subscription, with its state.
#[derive(Clone, Debug)]
pub enum Watch {
    /// Notifies once that a transaction has reached a commitment.
    Signature {
        /// The transaction's first signature.
        signature: Signature,
        /// The commitment to reach.
        commitment: Commitment,
        /// Whether to also notify when the transaction is first seen.
        received: bool,
    },
    /// Notifies changes of an account.
    Account {
        /// The address of the account to watch.
        key: Pubkey,
        /// The format of the account.
        format: AccountFormat,
        /// The commitment of the changes.
        commitment: Commitment,
        /// The state that was notified last.
        last: Option<Account>,
    },
    /// Notifies changes of a program's accounts.
    Program {
        /// The program that owns the accounts to watch.
        program: Pubkey,
        /// Filters on its accounts.
        filters: Filters,
        /// The format of the accounts.
        format: AccountFormat,
        /// The commitment of the changes.
        commitment: Commitment,
        /// Changes below the commitment, by slot and address.
        held: BTreeMap<(u64, Pubkey), Account>,
    },
    /// Notifies the logs of transactions.
    Logs {
        /// Selects the transactions whose logs are notified.
        filter: LogsFilter,
        /// The commitment of the transactions.
        commitment: Commitment,
        /// Logs below the commitment: slot and value.
        held: VecDeque<(u64, Value)>,
    },
    /// Notifies that a slot has begun.
    Slot,
    /// Notifies each stage of a slot.
    SlotsUpdates,
    /// Notifies that a slot has become final.
    Root,
    /// Notifies the vote of each landed vote transaction.
    Vote,
}

/// Selects the transactions of a logs subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogsFilter {
    /// Every transaction but votes: `"all"` in the request.
    All,
    /// Every transaction, votes included: `"allWithVotes"` in the request.
    AllWithVotes,
    /// Transactions that mention an address.
    Mentions(Pubkey),
}

impl Watch {
    /// Parses a subscribe request; `None` for any other method.
    pub fn of(method: &str, params: Params<'_>) -> Result<Option<Self>, Failure> {
        Ok(Some(match method {
            "signatureSubscribe" => Self::signature(params)?,
            "accountSubscribe" => Self::account(params)?,
            "programSubscribe" => Self::program(params)?,
            "logsSubscribe" => Self::logs(params)?,
            "slotSubscribe" => params.at_most(0).map(|_| Self::Slot)?,
            "slotsUpdatesSubscribe" => params.at_most(0).map(|_| Self::SlotsUpdates)?,
            "rootSubscribe" => params.at_most(0).map(|_| Self::Root)?,
            "voteSubscribe" => params.at_most(0).map(|_| Self::Vote)?,
            _ => return Ok(None),
        }))
    }

    fn signature(params: Params<'_>) -> Result<Self, Failure> {
        let signature = params.at_most(2)?.signature(0, "signature")?;
        let options = params.options(1)?;
        let received = options.flag("enableReceivedNotification")?;
        Ok(Self::Signature { signature, commitment: options.commitment()?, received })
    }

    fn account(params: Params<'_>) -> Result<Self, Failure> {
        let key = params.at_most(2)?.pubkey(0, "address")?;
        let options = params.options(1)?;
        let (format, commitment) = (AccountFormat::of(options, "binary")?, options.commitment()?);
        Ok(Self::Account { key, format, commitment, last: None })
    }

    fn program(params: Params<'_>) -> Result<Self, Failure> {
        let program = params.at_most(2)?.pubkey(0, "program")?;
        let options = params.options(1)?;
        Ok(Self::Program {
            program,
            filters: Filters::of(options)?,
            format: AccountFormat::of(options, "binary")?,
            commitment: options.commitment()?,
            held: BTreeMap::new(),
        })
    }

    fn logs(params: Params<'_>) -> Result<Self, Failure> {
        let place = "parameter 1 (filter)";
        let filter = match params.at_most(2)?.value(0) {
            Some(Value::String(text)) if text == "all" => LogsFilter::All,
            Some(Value::String(text)) if text == "allWithVotes" => LogsFilter::AllWithVotes,
            Some(Value::Object(map)) if map.len() == 1 && map.contains_key("mentions") => {
                match map["mentions"].as_array().map(Vec::as_slice) {
                    Some([Value::String(text)]) => {
                        LogsFilter::Mentions(params::pubkey(text, || format!("{place}: mentions"))?)
                    }
                    _ => return Err(Failure::invalid_params("Only 1 address supported")),
                }
            }
            other => {
                let found = other.map_or("nothing".into(), kind);
                let wanted = "\"all\", \"allWithVotes\" or {\"mentions\": [address]}";
                return Err(Failure::invalid_params(format!("{place}: expected {wanted}, found {found}")));
            }
        };
        Ok(Self::Logs { filter, commitment: params.options(1)?.commitment()?, held: VecDeque::new() })
    }

    /// The name of the subscription: `signature` of `signatureSubscribe`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Signature { .. } => "signature",
            Self::Account { .. } => "account",
            Self::Program { .. } => "program",
            Self::Logs { .. } => "logs",
            Self::Slot => "slot",
            Self::SlotsUpdates => "slotsUpdates",
            Self::Root => "root",
            Self::Vote => "vote",
        }
    }

    /// The kinds of events that the banks must publish for this subscription.
    pub fn wanted(&self) -> Interests {
        Interests {
            logs: matches!(self, Self::Logs { .. }),
            votes: matches!(self, Self::Vote),
            accounts: matches!(self, Self::Program { .. }),
        }
    }
}

/// The subscription name in an unsubscribe method; `None` for any other method.
pub fn unsubscribes(method: &str) -> Option<&str> {
    let name = method.strip_suffix("Unsubscribe")?;
    let kinds = ["signature", "account", "program", "logs", "slot", "slotsUpdates", "root", "vote"];
    kinds.contains(&name).then_some(name)
}
