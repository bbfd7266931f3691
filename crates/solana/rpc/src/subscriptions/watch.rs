//! What a client can want to be told.
//!
//! reads   the parameters of a request to subscribe
//! writes  a [`Watch`]
//! memory  about 200 B each; an account's data where one is watched; what is held back until it is sure
//! drops   parameters that are wrong: error -32602
//! source  `rpc_pubsub.rs` of `solana-rpc` 4.2 for names, parameters and codes

use std::collections::{BTreeMap, VecDeque};

use hearth_ledger::notifier::Wanted;
use hearth_ledger::{Account, Commitment};
use hearth_wire::{Pubkey, Signature};
use serde_json::Value;

use crate::encoding::account::AccountFormat;
use crate::filters::Filters;
use crate::jsonrpc::{Failure, kind};
use crate::params::{self, Params};

/// What a client wants to be told.
#[derive(Clone, Debug)]
pub enum Watch {
    /// That a transaction has reached a commitment; once.
    Signature {
        /// The transaction's first signature.
        signature: Signature,
        /// The commitment.
        commitment: Commitment,
        /// Whether it shall also be told when it is first seen.
        received: bool,
    },
    /// That an account has changed.
    Account {
        /// Its address.
        key: Pubkey,
        /// How it shall be written.
        format: AccountFormat,
        /// How sure the change must be.
        commitment: Commitment,
        /// As it was told last.
        last: Option<Account>,
    },
    /// That an account of a program has changed.
    Program {
        /// The program.
        program: Pubkey,
        /// Which of its accounts.
        filters: Filters,
        /// How they shall be written.
        format: AccountFormat,
        /// How sure the change must be.
        commitment: Commitment,
        /// Changes that are not sure enough, by slot and address.
        held: BTreeMap<(u64, Pubkey), Account>,
    },
    /// What transactions log.
    Logs {
        /// Which transactions.
        filter: LogsFilter,
        /// How sure they must be.
        commitment: Commitment,
        /// What is not sure enough: slot and value.
        held: VecDeque<(u64, Value)>,
    },
    /// That a slot has begun.
    Slot,
    /// Each step of a slot.
    SlotsUpdates,
    /// That a slot has become final.
    Root,
    /// That somebody has voted.
    Vote,
}

/// Transactions whose logs are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogsFilter {
    /// All but votes.
    All,
    /// All.
    AllWithVotes,
    /// Those that name an address.
    Mentions(Pubkey),
}

impl Watch {
    /// What a request to subscribe asks for; `None` for a method that is none.
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

    /// What it needs to be told by the banks.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            logs: matches!(self, Self::Logs { .. }),
            votes: matches!(self, Self::Vote),
            accounts: matches!(self, Self::Program { .. }),
        }
    }
}

/// The kind of subscription that a method to unsubscribe is for.
pub fn unsubscribes(method: &str) -> Option<&str> {
    let name = method.strip_suffix("Unsubscribe")?;
    let kinds = ["signature", "account", "program", "logs", "slot", "slotsUpdates", "root", "vote"];
    kinds.contains(&name).then_some(name)
}
