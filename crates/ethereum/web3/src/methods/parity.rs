//! `trace_`: traces of transactions and messages, in the shapes of OpenEthereum.
//!
//! reads   blocks and the states before them; messages
//! writes  traces, one after the other or with what they change
//! memory  the text of an answer: at most [`Limits::answer_bytes`](crate::Limits)
//! drops   ranges of more than 100 blocks: error -32602; blocks whose parent's state is no longer kept: error -32000
//! source  the `trace` module of OpenEthereum; reth for what it leaves open

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};
use hearth_evm::block::Block;
use hearth_evm::exec::{BlockDb, BlockExtras, Checks, SimulationResult};
use hearth_evm::tx::{decode_one_as_sent, to_tx_env};
use revm::DatabaseRef;
use serde::Deserialize;

use super::call::Message;
use super::debug::not_found;
use super::overrides::{BlockOverrides, StateOverrides};
use super::{Api, Caller};
use crate::call_pool::Deadline;
use crate::failure::Failure;
use crate::json;
use crate::params::{BlockId, Field, FirstItems, Params, shape_error};
use crate::trace::{Budget, ErrorStyle, Frame, Frames, OpcodeGas, Subject, VmSteps, output_of, push_frame, state_diff};

/// Maximum blocks of one filter, as in reth.
const BLOCKS_MAX: u64 = 100;
/// Maximum messages of one request.
const MESSAGES_MAX: usize = 1_024;

/// The parts of a replay that a request can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Part {
    Trace,
    StateDiff,
    VmTrace,
}

/// The criteria of `trace_filter`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    from_block: Option<Field<BlockId>>,
    to_block: Option<Field<BlockId>>,
    from_address: Option<Vec<Field<Address>>>,
    to_address: Option<Vec<Field<Address>>>,
    mode: Mode,
    after: Option<u64>,
    count: Option<u64>,
}

/// How the two lists of addresses combine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Mode {
    #[default]
    Union,
    Intersection,
}

impl Filter {
    fn matches(&self, frame: &Frame) -> bool {
        let within = |list: &Option<Vec<Field<Address>>>, address: &Address| {
            let list = list.as_deref().filter(|list| !list.is_empty())?;
            Some(list.iter().any(|field| field.0 == *address))
        };
        match (within(&self.from_address, &frame.from), within(&self.to_address, &frame.to), self.mode) {
            (None, None, _) => true,
            (Some(one), None, _) | (None, Some(one), _) => one,
            (Some(from), Some(to), Mode::Union) => from || to,
            (Some(from), Some(to), Mode::Intersection) => from && to,
        }
    }
}

/// Executes a message and returns the wanted parts.
fn full<D: DatabaseRef>(
    subject: &Subject<'_, D>,
    parts: &[Part],
    budget: Budget,
) -> Result<(Vec<(&'static str, String)>, SimulationResult), Failure> {
    let wants = |part: Part| parts.contains(&part);
    let mut frames = Frames::new(false, budget);
    let mut vm = String::from("null");
    let done = if wants(Part::VmTrace) {
        let mut both = (frames, VmSteps::new(budget));
        let done = subject.run(&mut both)?;
        frames = both.0;
        vm = both.1.finish()?;
        done
    } else {
        subject.run(&mut frames)?
    };
    let frames = if wants(Part::Trace) { frames.finish()? } else { frames.finish().map(|_| Vec::new())? };
    let trace = json::array(&frames, |out, frame| push_frame(out, frame, None, ErrorStyle::Parity));
    let difference = match wants(Part::StateDiff) {
        true => state_diff(subject.db, &done.state, budget.bytes)?,
        false => "null".into(),
    };
    let fields =
        vec![("output", output_of(&done.result)), ("stateDiff", difference), ("trace", trace), ("vmTrace", vm)];
    Ok((fields, done))
}

/// As [`full`], as an object, with the transaction's hash if there is one; its length is deducted from the budget.
fn encode_replay<D: DatabaseRef>(
    subject: &Subject<'_, D>,
    parts: &[Part],
    budget: &mut Budget,
) -> Result<(String, SimulationResult), Failure> {
    let (fields, done) = full(subject, parts, *budget)?;
    let text = json::object(|object| {
        fields.iter().for_each(|(name, text)| object.raw(name, text));
        if let Some(place) = &subject.place {
            object.data("transactionHash", place.tx_hash.as_slice());
        }
    });
    budget.bytes = budget.bytes.checked_sub(text.len()).ok_or_else(Failure::too_large)?;
    Ok((text, done))
}

fn list(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

impl Api {
    /// Returns the frames of a block's transactions, or of the one at `only`: the JSON of each that `wanted` accepts.
    fn localized(
        &self,
        block: &Block,
        only: Option<usize>,
        mut wanted: impl FnMut(&Frame) -> bool,
        budget: &mut Budget,
    ) -> Result<Vec<String>, Failure> {
        if block.txs.is_empty() {
            return Ok(Vec::new());
        }
        let all = self.replay(block, only, budget.deadline, |subject| {
            let mut frames = Frames::new(false, *budget);
            let done = subject.run(&mut frames)?;
            let mut texts = Vec::new();
            for frame in frames.finish()?.iter().filter(|frame| wanted(frame)) {
                let mut text = String::new();
                push_frame(&mut text, frame, subject.place.as_ref(), ErrorStyle::Parity);
                budget.bytes = budget.bytes.checked_sub(text.len()).ok_or_else(Failure::too_large)?;
                texts.push(text);
            }
            Ok((texts, done.state))
        })?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Returns the gas by instruction of a block's transactions, or of the one at `only`.
    fn opcode_gas(&self, block: &Block, only: Option<usize>, mut budget: Budget) -> Result<Vec<String>, Failure> {
        self.replay(block, only, budget.deadline, |subject| {
            let mut counts = OpcodeGas::new(budget);
            let done = subject.run(&mut counts)?;
            let counts = counts.finish()?;
            let text = json::object(|object| {
                if let Some(place) = &subject.place {
                    object.data("transactionHash", place.tx_hash.as_slice());
                }
                object.raw("opcodeGas", &counts);
            });
            budget.bytes = budget.bytes.checked_sub(text.len()).ok_or_else(Failure::too_large)?;
            Ok((text, done.state))
        })
    }

    fn filtered(&self, filter: &Filter, mut budget: Budget) -> Result<String, Failure> {
        let number = |id: Option<Field<BlockId>>| {
            let id = id.map_or(BlockId::Latest, |field| field.0);
            self.block(id)?.map(|block| block.number()).ok_or_else(|| not_found(id))
        };
        let (from, to) = (number(filter.from_block)?, number(filter.to_block)?);
        if from > to {
            return Err(Failure::invalid_params("invalid parameters: fromBlock cannot be greater than toBlock"));
        }
        if to - from >= BLOCKS_MAX {
            let why = format!("Block range too large; currently limited to {BLOCKS_MAX} blocks");
            return Err(Failure::invalid_params(why));
        }
        let mut skipped = 0;
        let mut left = filter.count.unwrap_or(u64::MAX);
        let mut all = Vec::new();
        for number in from..=to {
            budget.deadline.check()?;
            let block = self.chain.block(number).ok_or_else(|| not_found(BlockId::Number(number)))?;
            let wanted = |frame: &Frame| {
                if left == 0 || !filter.matches(frame) {
                    return false;
                }
                if skipped < filter.after.unwrap_or(0) {
                    skipped += 1;
                    return false;
                }
                left -= 1;
                true
            };
            all.extend(self.localized(&block, None, wanted, &mut budget)?);
            if left == 0 {
                break;
            }
        }
        Ok(list(&all))
    }
}

impl Caller<'_> {
    pub(super) async fn parity(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        match method {
            "trace_block" => {
                let id: BlockId = params.at_most(1)?.required(0)?;
                self.told_by(move |api, mut budget| match api.block(id)? {
                    None => Ok("null".into()),
                    Some(block) => Ok(list(&api.localized(&block, None, |_| true, &mut budget)?)),
                })
                .await
            }
            "trace_transaction" | "trace_get" => {
                let is_one = method == "trace_get";
                let params = params.at_most(if is_one { 2 } else { 1 })?;
                let hash: B256 = params.required(0)?;
                let at: Option<Vec<Field<u64>>> = if is_one { Some(params.shape(1)?) } else { None };
                self.told_by(move |api, mut budget| {
                    let Some((block, index)) = api.chain.tx(&hash) else { return Ok("null".into()) };
                    let all = api.localized(&block, Some(index), |_| true, &mut budget)?;
                    let Some(at) = at else { return Ok(list(&all)) };
                    // One index, as in reth: the place in the list.
                    let at = if let [Field(at)] = at[..] { usize::try_from(at).ok() } else { None };
                    Ok(at.and_then(|at| all.into_iter().nth(at)).unwrap_or_else(|| "null".into()))
                })
                .await
            }
            "trace_transactionOpcodeGas" => self.trace_opcode_gas(params).await,
            "trace_blockOpcodeGas" => self.trace_opcode_gas_of_block(params).await,
            "trace_filter" => {
                let filter: Filter = params.at_most(1)?.shape(0)?;
                self.told_by(move |api, budget| api.filtered(&filter, budget)).await
            }
            "trace_replayTransaction" => {
                let params = params.at_most(2)?;
                let hash: B256 = params.required(0)?;
                let parts: Vec<Part> = params.shape(1)?;
                self.told_by(move |api, budget| {
                    let found = api.chain.tx(&hash).ok_or_else(|| Failure::server("transaction not found"))?;
                    let (block, index) = found;
                    Ok(api.replayed(&block, Some(index), &parts, budget)?.pop().unwrap_or_else(|| "null".into()))
                })
                .await
            }
            "trace_replayBlockTransactions" => {
                let params = params.at_most(2)?;
                let id: BlockId = params.required(0)?;
                let parts: Vec<Part> = params.shape(1)?;
                self.told_by(move |api, budget| match api.block(id)? {
                    None => Ok("null".into()),
                    Some(block) if block.txs.is_empty() => Ok("[]".into()),
                    Some(block) => Ok(list(&api.replayed(&block, None, &parts, budget)?)),
                })
                .await
            }
            "trace_call" => self.trace_call(params).await,
            "trace_callMany" => self.trace_call_many(params).await,
            "trace_rawTransaction" => self.trace_raw(params).await,
            unknown => Err(Failure::method_not_found(unknown)),
        }
    }

    async fn trace_opcode_gas(&self, params: Params<'_>) -> Result<String, Failure> {
        let hash: B256 = params.at_most(1)?.required(0)?;
        self.told_by(move |api, budget| {
            let Some((block, index)) = api.chain.tx(&hash) else { return Ok("null".into()) };
            Ok(api.opcode_gas(&block, Some(index), budget)?.pop().unwrap_or_else(|| "null".into()))
        })
        .await
    }

    async fn trace_opcode_gas_of_block(&self, params: Params<'_>) -> Result<String, Failure> {
        let id: BlockId = params.at_most(1)?.required(0)?;
        self.told_by(move |api, budget| {
            let Some(block) = api.block(id)? else { return Ok("null".into()) };
            let all = if block.txs.is_empty() { Vec::new() } else { api.opcode_gas(&block, None, budget)? };
            Ok(json::object(|object| {
                object.data("blockHash", block.hash.as_slice());
                object.decimal("blockNumber", block.number());
                object.raw("transactions", &list(&all));
            }))
        })
        .await
    }

    /// Runs `work` on the call pool, within the limit of one answer.
    async fn told_by(
        &self,
        work: impl FnOnce(&Api, Budget) -> Result<String, Failure> + Send + 'static,
    ) -> Result<String, Failure> {
        let api = Arc::clone(self.api);
        let bytes = api.config.limits.answer_bytes;
        self.api.heavy.run(move |deadline: Deadline| work(&api, Budget { bytes, deadline })).await
    }

    async fn trace_call(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(5)?;
        let message: Message = params.shape(0)?;
        let parts: Vec<Part> = params.shape(1)?;
        let id = params.optional(2)?.unwrap_or(BlockId::Latest);
        let overrides = StateOverrides::read(params.json(3), 3)?;
        let block_overrides: BlockOverrides = params.shape_or_none(4)?.unwrap_or_default();
        self.told_by(move |api, mut budget| {
            let (mut env, view) = api.scene(id)?;
            let (db, extras) = overrides.apply(view, &block_overrides, &mut env, api.chain.genesis())?;
            let tx = message.to_env(api.chain_id(), api.config.limits.call_gas)?;
            let subject = Subject { db: &db, env: &env, extras: &extras, tx, checks: Checks::Call, place: None };
            encode_replay(&subject, &parts, &mut budget).map(|(text, _)| text)
        })
        .await
    }

    async fn trace_call_many(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let wanted: FirstItems<'_, MESSAGES_MAX> = params.shape(0)?;
        if wanted.count > MESSAGES_MAX {
            return Err(Failure::invalid_params(format!("too many calls: {} > {MESSAGES_MAX}", wanted.count)));
        }
        let read = |json: &serde_json::value::RawValue| {
            serde_json::from_str::<(Message, Vec<Part>)>(json.get())
                .map_err(|why| Failure::argument(0, shape_error(&why)))
        };
        let messages = wanted.items.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let id = params.optional(1)?.unwrap_or(BlockId::Latest);
        self.told_by(move |api, mut budget| {
            let (env, view) = api.scene(id)?;
            let mut db = BlockDb::new(&view, env.spec);
            let extras = BlockExtras::default();
            let mut all = Vec::with_capacity(messages.len());
            for (message, parts) in messages {
                budget.deadline.check()?;
                let tx = message.to_env(api.chain_id(), api.config.limits.call_gas)?;
                let subject = Subject { db: &db, env: &env, extras: &extras, tx, checks: Checks::Call, place: None };
                let (text, done) = encode_replay(&subject, &parts, &mut budget)?;
                all.push(text);
                db.absorb(done.state);
            }
            Ok(list(&all))
        })
        .await
    }

    async fn trace_raw(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(3)?;
        let raw: Bytes = params.required(0)?;
        let parts: Vec<Part> = params.shape(1)?;
        let id = params.optional(2)?.unwrap_or(BlockId::Latest);
        self.told_by(move |api, mut budget| {
            let tx = decode_one_as_sent(&raw, api.chain_id()).map_err(Failure::server)?;
            let (env, view) = api.scene(id)?;
            let extras = BlockExtras::default();
            let tx = to_tx_env(&tx);
            let subject = Subject { db: &view, env: &env, extras: &extras, tx, checks: Checks::All, place: None };
            encode_replay(&subject, &parts, &mut budget).map(|(text, _)| text)
        })
        .await
    }
}

impl Api {
    /// Replays a block's transactions, or the one at `only`.
    fn replayed(
        &self,
        block: &Block,
        only: Option<usize>,
        parts: &[Part],
        mut budget: Budget,
    ) -> Result<Vec<String>, Failure> {
        self.replay(block, only, budget.deadline, |subject| {
            encode_replay(subject, parts, &mut budget).map(|(text, done)| (text, done.state))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_goes_by_who_calls_and_whom() {
        let [one, two, three] = [1, 2, 3].map(Address::repeat_byte);
        let frame = crate::trace::frame_of(one, two);
        let filter = |from: &[Address], to: &[Address], mode| Filter {
            from_address: Some(from.iter().copied().map(Field).collect()),
            to_address: Some(to.iter().copied().map(Field).collect()),
            mode,
            ..Filter::default()
        };
        assert!(Filter::default().matches(&frame));
        for (from, to, union, both) in [
            (&[one][..], &[three][..], true, false),
            (&[one][..], &[two][..], true, true),
            (&[three][..], &[][..], false, false),
            (&[][..], &[two][..], true, true),
            (&[three][..], &[one][..], false, false),
        ] {
            assert_eq!(filter(from, to, Mode::Union).matches(&frame), union, "{from:?} {to:?}");
            assert_eq!(filter(from, to, Mode::Intersection).matches(&frame), both, "{from:?} {to:?}");
        }
    }
}
