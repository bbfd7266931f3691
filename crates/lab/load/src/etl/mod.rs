//! Collects block data from logs and live nodes into one row per height.
//!
//! reads   logs ([`log`], [`mod@line`]); nodes' RPC and metrics ([`live`])
//! writes  a [`store::Store`]: a database file ([`sqlite`]) or Redis ([`redis`]); tables of its rows ([`table`])
//! memory  see the modules
//! drops   nothing that is complete: damaged records are counted ([`log::Counts`]), and so are contradictions
//!
//! The stages: a line → a [`row::Row`] with its values → joined by height with the stored row → figures ([`summary`]).

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
use row::MergeCounts;
use store::Store;

/// Why collecting from a source stopped.
#[derive(Debug, thiserror::Error)]
pub enum EtlError {
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A node cannot be read.
    #[error(transparent)]
    Live(#[from] LiveError),
}

impl EtlError {
    /// Priority of the error: the highest is reported.
    fn weight(&self) -> u8 {
        match (self.may_pass(), self.is_refusal()) {
            (false, _) => 2,
            (true, true) => 1,
            (true, false) => 0,
        }
    }

    /// Returns whether the store cannot be written, so that there is nothing to sum up.
    pub fn is_of_target(&self) -> bool {
        matches!(self, Self::Log(LogError::Store(_)) | Self::Live(LiveError::Store(_)))
    }

    /// Returns whether a node refuses the request: a starting node may do so for a while.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Live(LiveError::Rpc(why @ RpcError::Refused { .. })) if !why.may_pass())
    }

    /// Returns whether the error may pass by itself: a log is being rotated, or a node or the store is unreachable.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Log(LogError::File { why, .. }) => why.kind() == ErrorKind::NotFound,
            Self::Log(LogError::Store(why)) | Self::Live(LiveError::Store(why)) => why.may_pass(),
            // An incomplete file: another process may be writing the rest.
            Self::Log(LogError::Broken { is_cut, .. }) => *is_cut,
            Self::Live(LiveError::Rpc(_) | LiveError::Metrics { .. }) => true,
            Self::Live(LiveError::OtherChain { .. } | LiveError::Pruned { .. }) => false,
        }
    }
}

/// Counts of what was read and merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EtlCounts {
    /// Counts of the logs.
    pub logs: Counts,
    /// Heights requested from nodes.
    pub asked: u64,
    /// Requested heights whose results CometBFT does not have.
    pub without_results: u64,
    /// Requested heights whose blocks an Ethereum node no longer has.
    pub forgotten: u64,
    /// Heights that were not stored before.
    pub new: u64,
    /// Stored heights that gained values.
    pub more: u64,
    /// Stored times that were reported again with another value, as a node does after a kill: the first stays.
    pub repeated: u64,
    /// Stored counts that were reported again with another value, as another chain does: the first stays.
    pub contradictions: u64,
}

/// The logs, nodes and metrics to read from.
#[derive(Default)]
pub struct Sources {
    logs: Vec<Log>,
    blocks: Vec<Blocks>,
    metrics: Vec<Metrics>,
    counts: Counts,
    merged: MergeCounts,
}

impl Sources {
    /// Sources that are still unread.
    pub fn new(logs: Vec<Log>, blocks: Vec<Blocks>, metrics: Vec<Metrics>) -> Self {
        Self { logs, blocks, metrics, ..Self::default() }
    }

    /// Returns whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty() && self.blocks.is_empty() && self.metrics.is_empty()
    }

    /// Reads what is new in every source. After an error the next call continues from what was stored.
    pub fn pass(&mut self, store: &mut dyn Store, stop: &dyn Fn() -> bool) -> Result<(), EtlError> {
        let (counts, merged) = (&mut self.counts, &mut self.merged);
        let mut worst: Option<EtlError> = None;
        // An unavailable or broken source does not keep the others from being read; a broken store does.
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

    /// Returns the counts so far.
    pub fn found(&self) -> EtlCounts {
        let sum = |of: fn(&Blocks) -> u64| self.blocks.iter().map(of).sum();
        let MergeCounts { new, more, repeated, contradictions } = self.merged;
        EtlCounts {
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

impl EtlCounts {
    /// Formats the counts as text.
    pub fn text(&self) -> String {
        let Self { logs, asked, without_results, forgotten, new, more, repeated, contradictions } = self;
        let mut lines = vec![];
        if logs.lines > 0 || logs.unfinished > 0 || logs.begun_anew > 0 {
            let Counts { lines: all, of_use, damaged, unfinished, begun_anew, .. } = logs;
            let unfinished = if *unfinished > 0 { ", the last is not whole yet" } else { "" };
            let restarted = if *begun_anew > 0 { ", restarted: another file than before" } else { "" };
            lines.push(format!("lines             {all}: {of_use} of use, {damaged} damaged{unfinished}{restarted}"));
        }
        if *asked > 0 {
            lines.push(format!(
                "asked for         {asked} heights, {without_results} without results, {forgotten} forgotten"
            ));
        }
        lines.push(format!("stored            {new} new heights, {more} with more known"));
        if *repeated > 0 {
            lines.push(format!("reported again    {repeated} times with another value; the first stays"));
        }
        if *contradictions > 0 {
            lines.push(format!(
                "contradictions    {contradictions}: another chain's? The first stays; use a --db for each chain"
            ));
        }
        lines.join("\n") + "\n"
    }
}
