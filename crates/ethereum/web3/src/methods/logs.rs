//! Logs of a range of blocks, and later notifications: filters and subscriptions.
//!
//! reads   blooms of blocks, first of groups; then the matching blocks
//! writes  logs
//! memory  the logs of one answer: at most [`Limits::logs`](crate::Limits), or those of one block
//! drops   queries that find too much (-32005) or take too long (-32000); a filter's changes beyond that are left for
//!         the next request
//! source  `eth/filters` of go-ethereum 1.16

use std::sync::Arc;

use hearth_evm::block::Block;

use super::{Api, Caller};
use crate::call_pool::Deadline;
use crate::criteria::{Blocks, Criteria};
use crate::failure::Failure;
use crate::filters::{Changes, EventPosition};
use crate::json;
use crate::params::{BlockId, Params, string};
use crate::shapes::{self, TxPosition};
use crate::subscriber_queue::Watch;

/// Blocks searched between two checks of the deadline.
const BLOCKS_AT_ONCE: u64 = 65_536;

/// The logs found, as JSON.
struct LogsAnswer {
    out: String,
    count: usize,
    count_max: usize,
    bytes_max: usize,
}

impl LogsAnswer {
    fn new(api: &Api) -> Self {
        let limits = api.config.limits;
        Self { out: "[".into(), count: 0, count_max: limits.logs, bytes_max: limits.answer_bytes }
    }

    /// Adds all logs of one block.
    fn add_whole(&mut self, block: &Block, criteria: &Criteria) -> Result<(), Failure> {
        let bounds = (self.count_max, self.bytes_max);
        (self.count_max, self.bytes_max) = (usize::MAX, usize::MAX);
        let added = self.add(block, criteria);
        (self.count_max, self.bytes_max) = bounds;
        added
    }

    /// Adds a block's logs, all or none.
    fn add(&mut self, block: &Block, criteria: &Criteria) -> Result<(), Failure> {
        let (length, count) = (self.out.len(), self.count);
        self.add_each(block, criteria).inspect_err(|_| {
            self.out.truncate(length);
            self.count = count;
        })
    }

    fn add_each(&mut self, block: &Block, criteria: &Criteria) -> Result<(), Failure> {
        if !criteria.may_be_in(&block.header.logs_bloom) {
            return Ok(());
        }
        let mut log_index = 0;
        for (index, receipt) in block.receipts.iter().enumerate() {
            for (log, log_index) in receipt.logs.iter().zip(log_index..) {
                if !criteria.matches(log) {
                    continue;
                }
                if self.count >= self.count_max {
                    return Err(Failure::limit(format!("query returned more than {} results", self.count_max)));
                }
                if self.count > 0 {
                    self.out.push(',');
                }
                self.count += 1;
                shapes::push_log(&mut self.out, log, &TxPosition { block, index }, log_index, false);
                if self.out.len() > self.bytes_max {
                    return Err(Failure::too_large());
                }
            }
            log_index += receipt.logs.len() as u64;
        }
        Ok(())
    }

    fn finish(mut self) -> String {
        self.out.push(']');
        self.out
    }
}

impl Api {
    /// Returns the logs that match a query.
    fn logs(&self, criteria: &Criteria, deadline: Deadline) -> Result<String, Failure> {
        let mut found = LogsAnswer::new(self);
        match criteria.blocks {
            Blocks::Hash(hash) => {
                let block = self.block(BlockId::Hash(hash))?.ok_or_else(|| Failure::server("unknown block"))?;
                found.add_whole(&block, criteria)?;
            }
            Blocks::Range { from, to } => {
                let head = self.chain.head().number();
                let number = |id: Option<BlockId>| match id {
                    Some(BlockId::Number(number)) => number,
                    Some(BlockId::Earliest) => self.earliest(),
                    Some(BlockId::Safe | BlockId::Finalized) => self.chain.synced().min(head),
                    _ => head,
                };
                let (from, to) = (number(from), number(to));
                // A filter may be of future blocks.
                if from > to && from <= head {
                    return Err(Failure::invalid_params("invalid block range params"));
                }
                if from > 0 && from < self.earliest() {
                    return Err(Failure::pruned());
                }
                self.add_logs(&mut found, criteria, from, to.min(head), deadline)?;
            }
        }
        Ok(found.finish())
    }

    fn add_logs(
        &self,
        found: &mut LogsAnswer,
        criteria: &Criteria,
        from: u64,
        to: u64,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        let is_one = from == to;
        let mut from = from;
        while from <= to {
            deadline.check()?;
            // Blocks may go meanwhile: old ones are pruned, or the chain is set back.
            let first = from.max(1);
            if first <= to && first < self.earliest() {
                return Err(Failure::pruned());
            }
            let last = to.min(from.saturating_add(BLOCKS_AT_ONCE - 1));
            let Some(number) = self.chain.next_with(from, last, |bloom| criteria.may_be_in(bloom)) else {
                from = last + 1;
                continue;
            };
            from = number;
            let Some(block) = self.chain.block(number) else {
                if number < self.earliest() {
                    continue;
                }
                break;
            };
            if is_one {
                found.add_whole(&block, criteria)?;
            } else {
                found.add(&block, criteria)?;
            }
            from = number + 1;
        }
        Ok(())
    }

    /// Returns what has changed for a filter since its last request, and the first block that the answer does not
    /// cover.
    fn changes(&self, changes: Changes, deadline: Deadline) -> Result<(String, u64), Failure> {
        match changes {
            Changes::Blocks { from, to } => {
                let mut next = from;
                let blocks = (from..to).take_while(|_| !deadline.has_passed()).inspect(|number| next = number + 1);
                let blocks = blocks.filter_map(|number| self.chain.block(number));
                Ok((json::array(blocks, |out, block| json::push_data(out, block.hash.as_slice())), next))
            }
            Changes::Logs { criteria, from, to } => {
                let mut found = LogsAnswer::new(self);
                // The range of the filter's criteria still applies.
                let (mut first, mut last) = (from, to);
                if let Blocks::Range { from, to } = criteria.blocks {
                    if let Some(BlockId::Number(number)) = from {
                        first = first.max(number);
                    }
                    if let Some(BlockId::Number(number)) = to {
                        last = last.min(number.saturating_add(1));
                    }
                }
                for number in first..last {
                    let Some(block) = self.chain.block(number) else { break };
                    // Each request delivers at least one block, however much it has; the rest at the next.
                    if number == first {
                        deadline.check()?;
                        found.add_whole(&block, &criteria)?;
                    } else if deadline.has_passed() || found.add(&block, &criteria).is_err() {
                        return Ok((found.finish(), number));
                    }
                }
                Ok((found.finish(), to))
            }
            Changes::Pending(hashes) => Ok((json::array(hashes, |out, hash| json::push_data(out, hash.as_slice())), 0)),
        }
    }
}

impl Caller<'_> {
    pub(super) async fn eth_get_logs(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(1)?;
        if params.len() == 0 {
            return Err(Failure::invalid_params("missing value for required argument 0"));
        }
        let criteria = Criteria::of(&params, 0)?;
        criteria.check_order()?;
        let head = self.api.chain.head().number();
        if criteria.last_number().is_some_and(|last| last > head) {
            return Err(Failure::invalid_params("block range extends beyond current head block"));
        }
        self.query(criteria).await
    }

    async fn query(&self, criteria: Criteria) -> Result<String, Failure> {
        let api = Arc::clone(self.api);
        self.api.heavy.run(move |deadline| api.logs(&criteria, deadline)).await
    }

    pub(super) async fn filter(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(usize::from(method != "eth_newBlockFilter"))?;
        let next = || self.api.chain.head().number() + 1;
        // The event first: what comes in between is delivered.
        let now = || EventPosition { event: self.api.chain.events(), next: next() };
        let filters = &self.api.filters;
        match method {
            "eth_newFilter" => {
                let criteria = Criteria::of(&params, 0)?;
                criteria.check_order()?;
                filters.add_logs(criteria, now)
            }
            "eth_newBlockFilter" => filters.add_blocks(now),
            "eth_newPendingTransactionFilter" => filters.add_pending(|| self.api.chain.pool().announced()),
            "eth_uninstallFilter" => {
                let id: alloy_primitives::U256 = params.required(0)?;
                Ok(filters.remove(&id).to_string())
            }
            "eth_getFilterLogs" => {
                let criteria = filters.criteria(&params.required(0)?)?;
                self.query(criteria).await
            }
            _ => {
                let telling = filters.changes(&params.required(0)?, next).await?;
                let (api, changes) = (Arc::clone(self.api), telling.changes.clone());
                let (text, next) = self.api.heavy.run(move |deadline| api.changes(changes, deadline)).await?;
                telling.delivered(next);
                Ok(text)
            }
        }
    }

    pub(super) fn eth_subscribe(&self, params: Params<'_>) -> Result<String, Failure> {
        let Some(connection) = self.connection else {
            return Err(Failure::no_subscription("notifications not supported"));
        };
        let kind: String = params.required(0)?;
        let watch = match kind.as_str() {
            "newHeads" => Watch::Heads,
            "logs" => Watch::Logs(Arc::new(Criteria::of(&params, 1)?)),
            "newPendingTransactions" => Watch::Pending { whole: params.optional(1)?.unwrap_or(false) },
            "syncing" => Watch::Syncing,
            other => {
                let shown: String = other.chars().take(64).collect();
                return Err(Failure::no_subscription(format!("no \"{shown}\" subscription in eth namespace")));
            }
        };
        let chain = &self.api.chain;
        let is_pending = matches!(watch, Watch::Pending { .. });
        self.api.hub.subscribe(connection, watch, || if is_pending { chain.pool().announced() } else { chain.events() })
    }

    pub(super) fn eth_unsubscribe(&self, params: Params<'_>) -> Result<String, Failure> {
        let Some(connection) = self.connection else {
            return Err(Failure::no_subscription("notifications not supported"));
        };
        let params = params.at_most(1)?;
        let json = params.json(0).ok_or_else(|| Failure::invalid_params("missing value for required argument 0"))?;
        string(json, "rpc.ID").map_err(|why| Failure::argument(0, why))?;
        match self.api.hub.unsubscribe(connection, json) {
            true => Ok("true".into()),
            false => Err(Failure::server("subscription not found")),
        }
    }
}
