//! Controls of a development chain: time, accounts, snapshots, blocks on demand.
//!
//! reads   requests
//! writes  the chain, through its own controls
//! memory  the number of one snapshot
//! drops   requests that the chain cannot fulfil: error -32000
//! source  the `evm_`, `anvil_` and `hardhat_` methods of anvil 1.5 and Hardhat 2

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};
use hearth_evm::chain::{BlockTime, Chain, ChainError};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::Caller;
use crate::failure::Failure;
use crate::json;
use crate::params::{Field, Param, Params};
use crate::shapes::{self, Stage};

/// How long a change of the mining mode waits for blocks of pending transactions.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum blocks of one request.
const BLOCKS_MAX: u64 = 100_000;

/// The state of these methods.
pub struct Dev {
    /// The snapshot of the chain at the server's start.
    beginning: Mutex<Option<u64>>,
    /// The chain's instance id: each `reset` makes a new one.
    instance: Mutex<B256>,
}

impl Dev {
    /// Remembers the chain's current state as its beginning, if these methods are served.
    pub fn new(chain: &Chain, is_served: bool) -> Self {
        Self { beginning: Mutex::new(is_served.then(|| chain.snapshot())), instance: Mutex::new(new_instance()) }
    }

    /// Returns the chain's instance id.
    pub(super) fn instance(&self) -> B256 {
        *self.instance.lock()
    }

    /// Returns whether a snapshot is the server's own. No client has its number.
    pub(super) fn is_beginning(&self, id: u64) -> bool {
        *self.beginning.lock() == Some(id)
    }
}

fn new_instance() -> B256 {
    B256::from_slice(&[crate::ids::unguessable(), crate::ids::unguessable()].concat())
}

/// The parameter of `evm_mine`: a time, or these options.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MineOptions {
    blocks: Option<Field<u64>>,
    timestamp: Option<Field<u64>>,
}

/// A whole number of seconds or milliseconds, in any of the clients' forms.
pub(super) struct Span(pub u64);

impl Param for Span {
    fn read(json: &str) -> Result<Self, String> {
        // Decimal digits in quotes, as Hardhat's helpers send them.
        let within = json.trim_matches('"');
        match within.parse() {
            Ok(number) => Ok(Self(number)),
            Err(_) if json.starts_with("\"0x") => u64::read(json).map(Self),
            Err(_) if json.starts_with('[') => Err("it must be one whole number, not a list".into()),
            Err(_) if json.starts_with('{') => Err("it must be a whole number, not an object".into()),
            Err(_) => Err(format!("it must be a whole number, 0 or more, not {}", first_of(json))),
        }
    }
}

/// Shortens a number or a word for an error message.
fn first_of(json: &str) -> String {
    json.chars().take(24).collect()
}

fn failed(why: ChainError) -> Failure {
    Failure::chain(why)
}

/// Whether a `reset` names a chain or a block to fork from. viem names both, as null, if it forks nothing.
fn asks_for_fork(json: &str) -> bool {
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let is_named = |fork: &Map<String, Value>, name: &str| fork.get(name).is_some_and(|named| !named.is_null());
    match value.get("forking").unwrap_or(&value) {
        Value::Object(fork) => is_named(fork, "jsonRpcUrl") || is_named(fork, "blockNumber"),
        other => !other.is_null(),
    }
}

/// A change to the chain, which waits until no block is being made; `None` if it has no result of its own.
type Change = Box<dyn FnOnce(&Chain) -> Result<Option<String>, Failure> + Send>;

/// Sets parameters of future blocks.
fn set_blocks(method: &str, name: &str, params: Params<'_>) -> Result<Change, Failure> {
    // Parameters are counted once the method is known, so that an unknown method is reported as such.
    let one = || params.clone().at_most(1);
    let span = || one()?.required::<Span>(0).map(|Span(number)| number);
    let saying = |text: &'static str| Ok(Some(text.into()));
    Ok(match name {
        "increaseTime" => {
            let seconds = span()?;
            Box::new(move |chain| Ok(Some(chain.increase_time(seconds).to_string())))
        }
        "setTime" => {
            let time = span()?;
            // A time too large for seconds is in milliseconds, as in Ganache.
            let seconds = if time > 100_000_000_000 { time / 1_000 } else { time };
            Box::new(move |chain| Ok(Some(chain.set_time(seconds).to_string())))
        }
        "setNextBlockTimestamp" => {
            let time = span()?;
            Box::new(move |chain| chain.set_next_timestamp(time).map(|()| None).map_err(failed))
        }
        "setBlockTimestampInterval" => silent(span()?, |chain, seconds| chain.set_timestamp_interval(Some(seconds))),
        "removeBlockTimestampInterval" => {
            one()?;
            Box::new(move |chain| {
                chain.set_timestamp_interval(None);
                saying("true")
            })
        }
        "setBlockGasLimit" => {
            let gas_limit = span()?;
            Box::new(move |chain| {
                chain.set_gas_limit(gas_limit);
                saying("true")
            })
        }
        "setNextBlockBaseFeePerGas" => silent(span()?, Chain::set_next_base_fee),
        "setPrevRandao" | "setNextBlockPrevRandao" => silent(one()?.required::<B256>(0)?, Chain::set_prevrandao),
        "setCoinbase" => silent(one()?.required::<Address>(0)?, Chain::set_beneficiary),
        _ => return Err(Failure::method_not_found(method)),
    })
}

fn silent<T: Send + 'static>(value: T, set: impl FnOnce(&Chain, T) + Send + 'static) -> Change {
    Box::new(move |chain| {
        set(chain, value);
        Ok(None)
    })
}

impl Caller<'_> {
    pub(super) async fn dev(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        let (namespace, name) = method.split_once('_').unwrap_or_default();
        // The result of a method without one: `null` in anvil, `true` in Hardhat.
        let done = || Ok(if namespace == "anvil" { "null".into() } else { "true".into() });
        let chain = &self.api.chain;
        match name {
            "mine" => self.mine(namespace, params).await,
            "mine_detailed" if namespace != "hardhat" => self.mine_detailed(params).await,
            "getGenesisTime" => params.at_most(0).map(|_| chain.genesis().timestamp.to_string()),
            "snapshot" => self.blocking(|chain| Ok(json::quantity(chain.snapshot()))).await,
            "revert" => {
                let id: Span = params.at_most(1)?.required(0)?;
                if self.api.dev.is_beginning(id.0) {
                    return Ok("false".into());
                }
                self.blocking(move |chain| chain.revert(id.0).map_err(failed)).await.map(|was| was.to_string())
            }
            "dumpState" => self.dump_state(params).await,
            "loadState" => self.load_state(params).await,
            "reset" => self.reset(params).await.and_then(|()| done()),
            "setAutomine" | "getAutomine" | "setIntervalMining" | "getIntervalMining" => {
                self.block_time(namespace, name, params).await
            }
            "impersonateAccount" => {
                chain.impersonate(params.at_most(1)?.required::<Address>(0)?);
                done()
            }
            "stopImpersonatingAccount" => {
                chain.stop_impersonating(&params.at_most(1)?.required::<Address>(0)?);
                done()
            }
            "autoImpersonateAccount" => {
                chain.impersonate_all(params.at_most(1)?.required::<bool>(0)?);
                done()
            }
            "dropTransaction" => self.drop_one(namespace, params),
            "dropAllTransactions" | "removePoolTransactions" => self.drop_waiting(name, params),
            "setLoggingEnabled" => done(),
            "dealERC20" | "setERC20Balance" | "setERC20Allowance" => {
                self.set_token(name, params).await.and_then(|()| done())
            }
            "rollback" => {
                let depth = params.at_most(1)?.optional::<Span>(0)?.map_or(1, |Span(depth)| depth);
                self.roll_back(depth).await.and_then(|()| done())
            }
            // A chain that is no fork ignores it, as in anvil.
            "setRpcUrl" if namespace == "anvil" => {
                params.at_most(1)?.required::<String>(0)?;
                done()
            }
            // In anvil's words: there is always a base fee.
            "setMinGasPrice" if namespace != "evm" => {
                params.at_most(1)?.required::<U256>(0)?;
                Err(Failure::invalid_params(format!("{method} is not supported when EIP-1559 is active")))
            }
            "nodeInfo" if namespace != "evm" => Ok(self.node_info()),
            "metadata" if namespace != "evm" => Ok(self.metadata(namespace)),
            "setBalance" | "addBalance" | "setNonce" | "setAccountNonce" | "setCode" | "setStorageAt" => {
                self.set_account(method, name, params).await.and_then(|()| done())
            }
            _ => {
                let change = set_blocks(method, name, params)?;
                self.blocking(change).await.and_then(|said| said.map_or_else(done, Ok))
            }
        }
    }

    /// Runs work that makes blocks on a thread that may block. It is boxed so that the runtime's tasks are compiled
    /// once and not for each kind of work.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Chain) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let chain = self.api.chain.clone();
        let (answer, answered) = oneshot::channel();
        let boxed: Box<dyn FnOnce() + Send> = Box::new(move || {
            // The caller may have stopped waiting.
            let _ = answer.send(work(&chain));
        });
        // A panic drops the sender, which the receiver notices.
        let _ = tokio::task::spawn_blocking(boxed).await;
        answered.await.unwrap_or_else(|_| Err(Failure::internal("the chain failed")))
    }

    async fn mine(&self, namespace: &str, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        if namespace == "evm" {
            self.mine_as_asked(&params).await?;
            return Ok("\"0x0\"".into());
        }
        let count = params.optional::<Span>(0)?.map_or(1, |span| span.0);
        let interval = params.optional::<Span>(1)?.map(|span| span.0);
        self.mine_blocks(count, interval).await?;
        Ok(if namespace == "anvil" { "null".into() } else { "true".into() })
    }

    /// Makes the blocks that a time or options ask for; returns how many.
    async fn mine_as_asked(&self, params: &Params<'_>) -> Result<u64, Failure> {
        let options = match params.json(0) {
            Some(json) if json.starts_with('{') => params.shape::<MineOptions>(0)?,
            _ => MineOptions { blocks: None, timestamp: params.optional::<Span>(0)?.map(|span| Field(span.0)) },
        };
        if let Some(Field(timestamp)) = options.timestamp {
            self.blocking(move |chain| chain.set_next_timestamp(timestamp).map_err(failed)).await?;
        }
        let count = options.blocks.map_or(1, |blocks| blocks.0);
        self.mine_blocks(count, None).await.map(|()| count)
    }

    /// Makes blocks and returns them whole: the newest ones, as many as were made, within the limit of an answer.
    async fn mine_detailed(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(1)?;
        let count = self.mine_as_asked(&params).await?;
        let api = Arc::clone(self.api);
        let tell = move |_| {
            let head = api.chain.head().number();
            let mut left = api.config.limits.answer_bytes;
            let mut texts = Vec::new();
            for number in head.saturating_sub(count) + 1..=head {
                let Some(block) = api.chain.block(number) else { continue };
                let text = shapes::block(&block, Stage::Made, true);
                left = left.checked_sub(text.len()).ok_or_else(Failure::too_large)?;
                texts.push(text);
            }
            Ok(format!("[{}]", texts.join(",")))
        };
        self.api.heavy.run(tell).await
    }

    async fn mine_blocks(&self, count: u64, interval_s: Option<u64>) -> Result<(), Failure> {
        if count > BLOCKS_MAX {
            return Err(Failure::server(format!("{count} blocks: at most {BLOCKS_MAX} at once")));
        }
        self.blocking(move |chain| chain.mine_many(count, interval_s).map_err(failed)).await
    }

    async fn reset(&self, params: Params<'_>) -> Result<(), Failure> {
        if params.json(0).is_some_and(asks_for_fork) {
            return Err(Failure::server("this chain is not a fork of another"));
        }
        let api = Arc::clone(self.api);
        self.blocking(move |chain| {
            let mut beginning = api.dev.beginning.lock();
            let was = beginning.map_or(Ok(false), |id| chain.revert(id)).map_err(failed)?;
            if !was {
                return Err(Failure::server("the chain as it was when the server began is no longer kept"));
            }
            *beginning = Some(chain.snapshot());
            *api.dev.instance.lock() = new_instance();
            Ok(())
        })
        .await
    }

    /// Takes back the newest blocks.
    async fn roll_back(&self, depth: u64) -> Result<(), Failure> {
        self.blocking(move |chain| {
            let head = chain.head().number();
            if depth > head {
                let why = "Rollback depth must not exceed current chain height: current height";
                return Err(Failure::invalid_params(format!("{why} {head}, depth {depth}")));
            }
            match chain.roll_back(depth).map_err(failed)? {
                true => Ok(()),
                false => Err(Failure::server(format!("the state {depth} blocks ago is no longer kept"))),
            }
        })
        .await
    }

    async fn block_time(&self, namespace: &str, name: &str, params: Params<'_>) -> Result<String, Failure> {
        let now = self.api.chain.block_time();
        let set = |block_time| {
            self.blocking(move |chain: &Chain| {
                chain.set_block_time(block_time).map_err(failed)?;
                // If each transaction starts a block, the pending ones are in blocks before this is answered.
                chain.caught_up(PATIENCE);
                Ok(())
            })
        };
        let in_seconds = self.counts_seconds(namespace);
        match name {
            "getAutomine" => Ok((now == BlockTime::Instant).to_string()),
            "getIntervalMining" => Ok(match now {
                // Never 0, which would mean no interval: an interval may be less than a second.
                BlockTime::Every(every) if in_seconds => every.as_millis().div_ceil(1000).to_string(),
                BlockTime::Every(every) => every.as_millis().to_string(),
                BlockTime::Instant | BlockTime::Manual => "null".into(),
            }),
            "setAutomine" => {
                match (params.at_most(1)?.required(0)?, now) {
                    (true, _) => set(BlockTime::Instant).await?,
                    (false, BlockTime::Instant) => set(BlockTime::Manual).await?,
                    (false, BlockTime::Every(_) | BlockTime::Manual) => {}
                }
                Ok(if namespace == "anvil" { "null".into() } else { "true".into() })
            }
            _ => {
                let params = params.at_most(1)?;
                if params.json(0).is_some_and(|json| json.starts_with('[')) {
                    let why = "an interval is one number: a random one, given as [min, max], is not supported";
                    return Err(Failure::argument(0, why));
                }
                let Span(every) = params.required(0)?;
                let every = if in_seconds { Duration::from_secs(every) } else { Duration::from_millis(every) };
                match (every.is_zero(), now) {
                    (false, _) => set(BlockTime::Every(every)).await?,
                    (true, BlockTime::Every(_)) => set(BlockTime::Manual).await?,
                    (true, BlockTime::Instant | BlockTime::Manual) => {}
                }
                Ok(if namespace == "anvil" { "null".into() } else { "true".into() })
            }
        }
    }

    /// Returns whether an interval is in seconds, as in anvil under any name; else in milliseconds, as in Hardhat.
    fn counts_seconds(&self, namespace: &str) -> bool {
        namespace == "anvil" || self.api.config.client_version.starts_with("anvil/")
    }

    /// Drops one pending transaction. anvil answers with its hash, or null; Hardhat says whether it was there, and
    /// refuses one that is in a block.
    fn drop_one(&self, namespace: &str, params: Params<'_>) -> Result<String, Failure> {
        let chain = &self.api.chain;
        let hash: B256 = params.at_most(1)?.required(0)?;
        let was_there = chain.drop_transaction(&hash);
        match namespace {
            "hardhat" if !was_there && chain.tx(&hash).is_some() => {
                let why = format!("Transaction {hash} cannot be dropped because it's already mined");
                Err(Failure::invalid_params(why))
            }
            "hardhat" => Ok(was_there.to_string()),
            _ if was_there => Ok(json::data(hash.as_slice())),
            _ => Ok("null".into()),
        }
    }

    pub(super) fn drop_waiting(&self, name: &str, params: Params<'_>) -> Result<String, Failure> {
        let chain = &self.api.chain;
        let all = match name {
            "removePoolTransactions" => {
                let account: Address = params.at_most(1)?.required(0)?;
                chain.pool().content_from(&account).into_iter().collect()
            }
            _ => chain.pool().content(),
        };
        for tx in all.iter().flat_map(|content| content.pending.iter().chain(&content.queued)) {
            chain.drop_transaction(&tx.hash);
        }
        Ok("null".into())
    }

    async fn set_account(&self, method: &str, name: &str, params: Params<'_>) -> Result<(), Failure> {
        match name {
            "setBalance" | "addBalance" => {
                let params = params.at_most(2)?;
                let (account, wei): (Address, U256) = (params.required(0)?, params.required(1)?);
                let add = name == "addBalance";
                self.blocking(move |chain| {
                    let had = chain.view().account(&account).map_or(U256::ZERO, |account| account.balance);
                    let balance = if add { had.saturating_add(wei) } else { wei };
                    chain.set_balance(account, balance).map_err(failed)
                })
                .await
            }
            "setNonce" | "setAccountNonce" => {
                let params = params.at_most(2)?;
                let (account, nonce): (Address, u64) = (params.required(0)?, params.required(1)?);
                self.blocking(move |chain| chain.set_nonce(account, nonce).map_err(failed)).await
            }
            "setCode" => {
                let params = params.at_most(2)?;
                let (account, code): (Address, Bytes) = (params.required(0)?, params.required(1)?);
                self.blocking(move |chain| chain.set_code(account, code).map_err(failed)).await
            }
            "setStorageAt" => {
                let params = params.at_most(3)?;
                let account: Address = params.required(0)?;
                let slot = params.required::<crate::params::StorageKey>(1)?.0;
                let value = params.required::<crate::params::StorageKey>(2)?.0;
                self.blocking(move |chain| chain.set_storage(account, slot, value).map_err(failed)).await
            }
            _ => Err(Failure::method_not_found(method)),
        }
    }
}
