//! Collecting what nodes tell of their blocks, from logs and live, into one row a height.
//!
//! reads   logs ([`log`], [`mod@line`]); nodes' RPC and metrics ([`live`])
//! writes  a [`store::Store`]: a database file ([`sqlite`]) or Redis ([`redis`]); tables of its rows ([`table`])
//! memory  see the modules
//! drops   nothing that is whole: what is damaged is counted ([`log::Counts`]), what contradicts what is known, too
//!
//! The walk: a line → a [`row::Row`] of what it tells → joined by height with what is stored → figures ([`summary`]).

pub mod line;
pub mod live;
pub mod log;
pub mod redis;
pub mod row;
pub mod sqlite;
pub mod store;
pub mod summary;
pub mod table;

#[cfg(test)]
mod tests;

use std::io::ErrorKind;

use serde::Serialize;

use crate::rpc::{Retryable, RpcError};
use live::{Blocks, LiveError, Metrics};
use log::{Counts, Log, LogError};
use row::Merged;
use store::Store;

/// Why collecting ended.
#[derive(Debug, thiserror::Error)]
pub enum EtlError {
    /// A log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A node.
    #[error(transparent)]
    Live(#[from] LiveError),
}

impl EtlError {
    /// How much it says that others do not.
    fn weight(&self) -> u8 {
        match (self.may_pass(), self.is_refusal()) {
            (false, _) => 2,
            (true, true) => 1,
            (true, false) => 0,
        }
    }

    /// Whether it is the target that cannot be written, so that there is nothing to sum up.
    pub fn is_of_target(&self) -> bool {
        matches!(self, Self::Log(LogError::Store(_)) | Self::Live(LiveError::Store(_)))
    }

    /// Whether a node refuses what it is asked: one that is starting may do so for a while.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Live(LiveError::Rpc(why @ RpcError::Refused { .. })) if !why.may_pass())
    }

    /// Whether it may be well again by itself: a log that is being rotated, a node or a target that is away.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Log(LogError::File { why, .. }) => why.kind() == ErrorKind::NotFound,
            Self::Log(LogError::Store(why)) | Self::Live(LiveError::Store(why)) => why.may_pass(),
            // Half of it: somebody may be writing the rest.
            Self::Log(LogError::Broken { is_cut, .. }) => *is_cut,
            Self::Live(LiveError::Rpc(_) | LiveError::Metrics { .. }) => true,
            Self::Live(LiveError::OtherChain { .. } | LiveError::Pruned { .. }) => false,
        }
    }
}

/// What was read and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// In logs.
    pub logs: Counts,
    /// Heights that nodes were asked for.
    pub asked: u64,
    /// Of these, those whose results CometBFT does not have.
    pub without_results: u64,
    /// Of these, those that an Ethereum node has forgotten.
    pub forgotten: u64,
    /// Heights that were not stored before.
    pub new: u64,
    /// Stored heights of which more is known now.
    pub more: u64,
    /// Times that were stored already and are told otherwise, as a node does after a kill: the first stays.
    pub repeated: u64,
    /// Counts that were stored already and are told otherwise, as another chain does: the first stays.
    pub contradictions: u64,
}

/// Where from.
#[derive(Default)]
pub struct Sources {
    logs: Vec<Log>,
    blocks: Vec<Blocks>,
    metrics: Vec<Metrics>,
    counts: Counts,
    merged: Merged,
}

impl Sources {
    /// What is to be read; nothing is yet.
    pub fn new(logs: Vec<Log>, blocks: Vec<Blocks>, metrics: Vec<Metrics>) -> Self {
        Self { logs, blocks, metrics, ..Self::default() }
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty() && self.blocks.is_empty() && self.metrics.is_empty()
    }

    /// Reads what is new everywhere. After an error the next time goes on from what was stored.
    pub fn pass(&mut self, store: &mut dyn Store, stop: &dyn Fn() -> bool) -> Result<(), EtlError> {
        let (counts, merged) = (&mut self.counts, &mut self.merged);
        let mut worst: Option<EtlError> = None;
        // One that is away or broken keeps nobody else from being read; without the target, nothing can be.
        let mut seen = |result: Result<(), EtlError>| match result {
            Err(why) if !why.is_of_target() => {
                if worst.as_ref().is_none_or(|worst| worst.weight() < why.weight()) {
                    worst = Some(why);
                }
                Ok(())
            }
            result => result,
        };
        for log in &mut self.logs {
            seen(log.pass(store, counts, merged, stop).map_err(EtlError::from))?;
        }
        for node in &mut self.blocks {
            seen(node.pass(store, merged, stop).map_err(EtlError::from))?;
        }
        for metrics in &self.metrics {
            seen(metrics.sample(store).map_err(EtlError::from))?;
        }
        worst.map_or(Ok(()), Err)
    }

    /// Reads standard input to its end.
    pub fn standard_input(&mut self, store: &mut dyn Store, stop: &dyn Fn() -> bool) -> Result<(), EtlError> {
        Ok(log::stream(std::io::stdin(), store, &mut self.counts, &mut self.merged, stop)?)
    }

    /// What was found until now.
    pub fn found(&self) -> Found {
        let sum = |of: fn(&Blocks) -> u64| self.blocks.iter().map(of).sum();
        let Merged { new, more, repeated, contradictions } = self.merged;
        Found {
            logs: self.counts,
            asked: sum(|node| node.read),
            without_results: sum(|node| node.without_results),
            forgotten: sum(|node| node.forgotten),
            new,
            more,
            repeated,
            contradictions,
        }
    }
}

impl Found {
    /// As text.
    pub fn text(&self) -> String {
        let Self { logs, asked, without_results, forgotten, new, more, repeated, contradictions } = self;
        let mut lines = vec![];
        if logs.lines > 0 || logs.unfinished > 0 || logs.begun_anew > 0 {
            let Counts { lines: all, of_use, damaged, unfinished, begun_anew, .. } = logs;
            let unfinished = if *unfinished > 0 { ", the last is not whole yet" } else { "" };
            let anew = if *begun_anew > 0 { ", begun anew: another file than before" } else { "" };
            lines.push(format!("lines             {all}: {of_use} of use, {damaged} damaged{unfinished}{anew}"));
        }
        if *asked > 0 {
            lines.push(format!(
                "asked for         {asked} heights, {without_results} without results, {forgotten} forgotten"
            ));
        }
        lines.push(format!("stored            {new} new heights, {more} with more known"));
        if *repeated > 0 {
            lines.push(format!("told again        {repeated} times otherwise; the first stays"));
        }
        if *contradictions > 0 {
            lines.push(format!(
                "contradictions    {contradictions}: another chain's? The first stays; use a --db for each chain"
            ));
        }
        lines.join("\n") + "\n"
    }
}
