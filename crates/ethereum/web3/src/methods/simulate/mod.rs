//! `eth_simulateV1`: calls in hypothetical blocks, one block on the other.
//!
//! reads   a block and the state after it; overrides of accounts and of blocks; calls
//! writes  the blocks, and each call's result
//! memory  what all calls together change, and the answer: at most [`Limits::answer_bytes`](crate::Limits)
//! drops   more than 256 blocks or 5,000 calls: error -38026; a call that no block could hold: the whole simulation,
//!         with the numbers from -38010 on; what takes longer than a call may: error -32000
//! source  `internal/ethapi/simulate.go` of go-ethereum 1.16

mod blocks;
mod plan;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::call::Message;
use super::overrides::{BlockOverrides, StateOverrides};
use super::{Api, Caller};
use crate::call_pool::Deadline;
use crate::failure::Failure;
use crate::params::{BlockId, FirstItems, Params, shape_error};

/// Maximum blocks of one simulation, including those that fill gaps, as in geth.
const BLOCKS_MAX: usize = 256;
/// Maximum calls of one simulation.
const CALLS_MAX: usize = 5_000;
/// The error code for too many blocks or calls.
const TOO_MUCH: i64 = -38_026;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Request<'a> {
    #[serde(borrow)]
    block_state_calls: Option<FirstItems<'a, BLOCKS_MAX>>,
    trace_transfers: bool,
    validation: bool,
    return_full_transactions: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireBlock<'a> {
    block_overrides: Option<BlockOverrides>,
    #[serde(borrow)]
    state_overrides: Option<&'a RawValue>,
    #[serde(borrow)]
    calls: Option<FirstItems<'a, CALLS_MAX>>,
}

#[derive(Default)]
struct BlockRequest {
    overrides: BlockOverrides,
    state: StateOverrides,
    calls: Vec<Message>,
}

/// How the calls are executed, and what the answer contains.
#[derive(Clone, Copy)]
struct Options {
    /// Transfers of ether are reported as logs.
    trace_transfers: bool,
    /// Nonces and base fees are validated as in a block of the chain.
    validation: bool,
    /// Transactions are returned whole.
    whole: bool,
}

/// Parses an object; a list of its fields' values is refused.
fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, Failure> {
    if !json.starts_with('{') {
        return Err(Failure::argument(0, "json: cannot unmarshal a value that is not an object into one"));
    }
    serde_json::from_str(json).map_err(|why| Failure::argument(0, shape_error(&why)))
}

/// Reads the blocks of a request, within the limit.
fn read_blocks(wanted: FirstItems<'_, BLOCKS_MAX>) -> Result<Vec<BlockRequest>, Failure> {
    if wanted.count == 0 {
        return Err(Failure::invalid_params("empty input"));
    }
    if wanted.count > BLOCKS_MAX {
        return Err(Failure::simulation(TOO_MUCH, "too many blocks"));
    }
    let mut blocks = Vec::with_capacity(wanted.items.len());
    let mut calls_in_all = 0;
    for json in wanted.items {
        let wire: WireBlock<'_> = read(json.get())?;
        let calls = wire.calls.unwrap_or_default();
        calls_in_all += calls.count;
        if calls_in_all > CALLS_MAX {
            return Err(Failure::simulation(TOO_MUCH, format!("too many calls: {calls_in_all} > {CALLS_MAX}")));
        }
        blocks.push(BlockRequest {
            overrides: wire.block_overrides.unwrap_or_default(),
            state: StateOverrides::read(wire.state_overrides.map(|json| json.get()), 0)?,
            calls: calls.items.into_iter().map(|json| read(json.get())).collect::<Result<_, _>>()?,
        });
    }
    Ok(blocks)
}

impl Caller<'_> {
    pub(super) async fn eth_simulate(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let json = params.json(0).ok_or_else(|| Failure::invalid_params("missing value for required argument 0"))?;
        let request: Request<'_> = read(json)?;
        let id = params.optional(1)?.unwrap_or(BlockId::Latest);
        let options = Options {
            trace_transfers: request.trace_transfers,
            validation: request.validation,
            whole: request.return_full_transactions,
        };
        let blocks = read_blocks(request.block_state_calls.unwrap_or_default())?;
        let api = Arc::clone(self.api);
        self.api.heavy.run(move |deadline: Deadline| api.simulate(id, blocks, options, deadline)).await
    }
}

impl Api {
    fn simulate(
        &self,
        id: BlockId,
        asked: Vec<BlockRequest>,
        options: Options,
        deadline: Deadline,
    ) -> Result<String, Failure> {
        let (base, view) = match id {
            BlockId::Latest => self.chain.head_and_view(),
            BlockId::Pending => {
                return Err(Failure::server("nothing is simulated on the pending block: name the latest"));
            }
            id => {
                let block = self.block(id)?.ok_or_else(|| Failure::server("header not found"))?;
                let view = self.view_after(&block)?;
                (block, view)
            }
        };
        let planned = plan::in_order(asked, base.number(), base.header.timestamp)?;
        blocks::run(self, base, &view, planned, options, deadline)
    }
}
