//! The dispatch of all methods, and what they share.
//!
//! reads   requests; the chain
//! writes  results
//! memory  what one answer takes
//! drops   unknown methods: error -32601

mod about;
mod access;
mod blobs;
mod blocks;
mod build;
mod call;
mod debug;
mod dev;
mod dump;
mod durable;
mod fees;
mod hardhat;
mod info;
mod logs;
mod otterscan;
mod outputs;
mod overrides;
mod parity;
mod pool;
mod profile;
mod ranges;
mod send;
mod sign;
mod simulate;
mod tokens;
mod typed;
mod typed_data;

use std::future::ready;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};
use hearth_evm::block::Block;
use hearth_evm::chain::{Chain, ChainError, StateAt};
use hearth_evm::exec::BlockEnv;
use hearth_evm::state::StateView;
use hearth_serve::body::BodyRoom;
use hearth_serve::dashboard::{Dashboard, Ledger};
use hearth_serve::jsonrpc::{Answerer, Call};
use hearth_serve::rate::RateLimit;
use parking_lot::Mutex;

use crate::call_pool::CallPool;
use crate::config::Config;
use crate::counters::{Counters, count};
use crate::error::ServeError;
use crate::failure::Failure;
use crate::filters::Filters;
use crate::params::{BlockId, Params};
use crate::profiler::{Instruments, Profiler};
use crate::subscriptions::SubscriptionHub;
use dev::Dev;
use sign::Accounts;

/// The methods' shared state.
pub struct Api {
    pub(crate) chain: Chain,
    pub(crate) config: Config,
    pub(crate) counters: Arc<Counters>,
    pub(crate) hub: SubscriptionHub,
    pub(crate) filters: Filters,
    pub(crate) heavy: CallPool,
    pub(crate) dashboard: Result<Dashboard, &'static str>,
    pub(crate) bodies: Arc<BodyRoom>,
    pub(crate) answers: Arc<BodyRoom>,
    rate: RateLimit,
    accounts: Accounts,
    dev: Dev,
    sender: send::Sender,
    profiler: Option<Arc<dyn Profiler>>,
    /// The tip last suggested, and the block that it is for.
    last_tip: Mutex<(B256, u128)>,
}

impl Api {
    /// Serves `chain`; `instruments` are the dashboard and the profiler.
    pub fn new(config: Config, chain: Chain, instruments: Instruments) -> Result<Arc<Self>, ServeError> {
        let Instruments { look_at, profiler } = instruments;
        let counters = Arc::new(Counters::default());
        let limits = config.limits;
        Ok(Arc::new(Self {
            accounts: Accounts::new(&config.accounts)?,
            hub: SubscriptionHub::new(limits, Arc::clone(&counters)),
            filters: Filters::new(limits, Arc::clone(&counters)),
            heavy: CallPool::new(limits, Arc::clone(&counters)),
            dashboard: look_at.map(|look_at| Dashboard::new(Ledger::Ethereum, look_at, counters.clone())),
            bodies: BodyRoom::of_requests(),
            answers: BodyRoom::of_answers(),
            rate: RateLimit::new(limits.requests_per_second),
            dev: Dev::new(&chain, config.dev),
            sender: send::Sender::default(),
            profiler,
            last_tip: Mutex::default(),
            counters,
            chain,
            config,
        }))
    }

    /// Starts the threads that submit transactions.
    pub fn start(&self) -> std::io::Result<()> {
        send::start(self)
    }

    /// Returns the chain id (EIP-155).
    pub fn chain_id(&self) -> u64 {
        self.chain.genesis().chain_id
    }

    /// Returns the number of the first block that is kept: 0, or higher if old ones are pruned.
    fn earliest(&self) -> u64 {
        match self.chain.first_block() {
            0 | 1 => 0,
            first => first,
        }
    }

    /// Returns a block. The pending one is executed for the answer.
    pub fn block(&self, id: BlockId) -> Result<Option<Arc<Block>>, Failure> {
        Ok(match id {
            BlockId::Latest => Some(self.chain.head()),
            BlockId::Safe | BlockId::Finalized => Some(self.chain.finalized()),
            BlockId::Pending => Some(self.chain.pending_block().map_err(pending_failure)?),
            BlockId::Earliest => self.chain.block(self.earliest()),
            BlockId::Number(number) => match self.chain.block(number) {
                None if number < self.earliest() => return Err(Failure::pruned()),
                block => block,
            },
            BlockId::Hash(hash) => self.chain.block_by_hash(&hash),
        })
    }

    /// Returns the state after a block.
    pub fn view(&self, id: BlockId) -> Result<StateAt, Failure> {
        match id {
            BlockId::Pending => self.chain.pending().map(StateAt::Pending).map_err(pending_failure),
            id => self.settled_view(id).map(StateAt::Block),
        }
    }

    /// Returns the state after a block of the chain; for the pending block, that of the newest.
    fn settled_view(&self, id: BlockId) -> Result<StateView, Failure> {
        match id {
            BlockId::Latest | BlockId::Pending => Ok(self.chain.view()),
            id => {
                let block = self.block(id)?.ok_or_else(|| Failure::server("header not found"))?;
                self.view_after(&block)
            }
        }
    }

    /// Returns the state after this block, if it is still kept.
    pub fn view_after(&self, block: &Block) -> Result<StateView, Failure> {
        let number = block.number();
        self.chain.view_at(number).ok_or_else(|| {
            let (head, kept) = (self.chain.head().number(), self.chain.kept_states());
            let why = if head.saturating_sub(number) < kept.blocks_max {
                // Memory was short, or the node started later.
                format!("block {number} is older than block {}, the oldest whose state is in memory", kept.oldest)
            } else {
                format!("block {number} is no more among the last {} whose state is kept", kept.blocks_max)
            };
            let root = block.header.state_root;
            Failure::server(format!(
                "missing trie node {root} (path ) state {root} is not available: {why} (the newest is {head})"
            ))
        })
    }

    /// The block for estimates when the client names none. A development chain estimates on the pending block, as anvil
    /// and Hardhat do; under CometBFT, where executing it for every estimate is costly, on the newest, as geth does.
    fn next_block(&self) -> BlockId {
        if self.config.dev { BlockId::Pending } else { BlockId::Latest }
    }

    /// Returns the block in which to execute a message, and the state before it.
    fn scene(&self, id: BlockId) -> Result<(BlockEnv, StateAt), Failure> {
        match id {
            BlockId::Pending => {
                let pending = self.chain.pending().map_err(pending_failure)?;
                Ok((pending.env().clone(), StateAt::Pending(pending)))
            }
            BlockId::Latest => {
                // The head may move between two reads: the view names its block.
                let view = self.chain.view();
                let block = self.chain.block(view.number()).ok_or_else(|| Failure::server("header not found"))?;
                Ok((self.chain.env_of(&block), StateAt::Block(view)))
            }
            id => {
                let block = self.block(id)?.ok_or_else(|| Failure::server("header not found"))?;
                Ok((self.chain.env_of(&block), StateAt::Block(self.view_after(&block)?)))
            }
        }
    }

    /// Returns whether an account has code other than a delegation (EIP-7702).
    fn is_contract(&self, address: &Address) -> bool {
        hearth_evm::pool::Accounts::sender(&self.chain.view(), address).is_contract
    }

    /// Returns an account's nonce, with or without the pool's transactions.
    fn nonce(&self, address: &Address, id: BlockId) -> Result<u64, Failure> {
        // The pool first: what leaves it between the two reads is in a block by then, and the view counts it.
        let waiting = if id == BlockId::Pending { self.chain.pool().next_nonce(address, 0) } else { 0 };
        let nonce = self.settled_view(id)?.account(address).map_or(0, |account| account.nonce);
        Ok(nonce.max(waiting))
    }
}

/// Converts the error of a missing pending block.
fn pending_failure(why: ChainError) -> Failure {
    Failure::stored("the pending block cannot be executed", why)
}

/// The future answer of a call. It is boxed, so that the code that awaits it is compiled once and not for each method.
type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Result<String, Failure>> + Send + 'a>>;

/// The client of a request.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// The methods' shared state.
    pub api: &'a Arc<Api>,
    /// The client's IP address.
    pub address: IpAddr,
    /// The number of the connection, if it can get notifications.
    pub connection: Option<u64>,
}

impl Answerer for Caller<'_> {
    type Failure = Failure;

    fn admit(&self, requests: usize) -> Result<(), Failure> {
        if requests > self.api.config.limits.batch_length {
            return Err(Failure::invalid_request("batch too large"));
        }
        if self.api.rate.admits(self.address, requests) {
            return Ok(());
        }
        count(&self.api.counters.requests_limited);
        let per_second = self.api.config.limits.requests_per_second;
        Err(Failure::limit(format!("too many requests: an address may make {per_second} in a second")))
    }

    async fn call(&self, call: Call<'_>) -> Result<String, Failure> {
        let method = &*call.method;
        if method.is_empty() {
            return Err(Failure::invalid_request("invalid request"));
        }
        let params = Params::of(call.params)?;
        if !matches!(method, "eth_chainId" | "net_version" | "web3_clientVersion" | "eth_sendRawTransactionSync") {
            self.api.read_after_sends().await;
        }
        let answering: AnswerFuture<'_> = match method.split_once('_').map_or("", |(namespace, _)| namespace) {
            "eth" => self.eth(method, params),
            "net" | "web3" | "rpc" => return self.node(method, params),
            "txpool" => Box::pin(self.txpool(method, params)),
            "debug" => Box::pin(self.debug(method, params)),
            "trace" => Box::pin(self.parity(method, params)),
            "ots" => Box::pin(self.otterscan(method, params)),
            "utxo" => Box::pin(self.utxo(method, params)),
            "personal" if method == "personal_sign" => Box::pin(self.signing(method, params)),
            "hearth" => match method {
                "hearth_transactionFate" => Box::pin(self.transaction_fate(params)),
                _ => Box::pin(self.profile(method, params)),
            },
            "erigon" if method == "erigon_getHeaderByNumber" => {
                Box::pin(self.block_method("eth_getHeaderByNumber", params))
            }
            "testing" if self.api.config.dev => Box::pin(self.testing(method, params)),
            "tenderly" if self.api.config.dev => match method {
                "tenderly_setBalance" => Box::pin(self.dev("anvil_setBalance", params)),
                "tenderly_addBalance" => Box::pin(self.dev("anvil_addBalance", params)),
                unknown => return Err(Failure::method_not_found(unknown)),
            },
            "evm" | "anvil" | "hardhat" if self.api.config.dev => match method {
                "anvil_getBlobByHash" | "anvil_getBlobsByTransactionHash" => Box::pin(self.anvil_blobs(method, params)),
                _ => Box::pin(self.dev(method, params)),
            },
            _ => return Err(Failure::method_not_found(method)),
        };
        answering.await
    }

    fn burst(&self, call: &Call<'_>) -> Option<usize> {
        (call.method == send::METHOD).then_some(send::ANSWER_BYTES)
    }

    async fn call_together(&self, calls: Vec<Call<'_>>) -> Vec<Result<String, Failure>> {
        self.api.send_together(&calls).await
    }
}

impl Caller<'_> {
    fn node(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        use crate::json::text;
        let params = params.at_most(usize::from(method == "web3_sha3"))?;
        match method {
            "net_version" => Ok(text(&self.api.chain_id().to_string())),
            "net_listening" => Ok("true".into()),
            "net_peerCount" => Ok("\"0x0\"".into()),
            "web3_clientVersion" => Ok(text(&self.api.config.client_version)),
            "web3_sha3" => {
                let bytes: Bytes = params.at_most(1)?.required(0)?;
                Ok(crate::json::data(&hearth_crypto::keccak::keccak256(&bytes)))
            }
            "rpc_modules" => {
                let modules = ["eth", "net", "web3", "txpool", "debug", "trace", "ots", "rpc"];
                let dev = ["evm", "anvil", "hardhat"].into_iter().filter(|_| self.api.config.dev);
                Ok(crate::json::object(|object| {
                    modules.into_iter().chain(dev).for_each(|name| object.text(name, "1.0"))
                }))
            }
            unknown => Err(Failure::method_not_found(unknown)),
        }
    }

    /// Answers methods without parameters; `None` for any other method.
    fn eth_plain(&self, method: &str) -> Option<String> {
        Some(match method {
            "eth_blockNumber" => crate::json::quantity(self.api.chain.head().number()),
            "eth_chainId" => crate::json::quantity(self.api.chain_id()),
            "eth_gasPrice" => quantity_128(self.api.suggested_price()),
            "eth_maxPriorityFeePerGas" => quantity_128(self.api.suggested_tip()),
            // The next block's, as `eth_call` sees it; geth returns the newest one's.
            "eth_blobBaseFee" => quantity_128(self.api.chain.pending_env().blobs.price()),
            "eth_baseFee" => self.api.next_base_fee(),
            "eth_config" => self.api.fork_config(),
            "eth_capabilities" => self.api.capabilities(),
            "eth_syncing" | "eth_mining" => "false".into(),
            "eth_hashrate" => "\"0x0\"".into(),
            "eth_protocolVersion" => "\"0x44\"".into(),
            "eth_coinbase" => crate::json::data(self.api.chain.pending_env().beneficiary.as_slice()),
            "eth_accounts" | "eth_requestAccounts" => self.eth_accounts(),
            "eth_networkId" => crate::json::text(&self.api.chain_id().to_string()),
            _ => return None,
        })
    }

    fn eth<'a>(&'a self, method: &'a str, params: Params<'a>) -> AnswerFuture<'a> {
        if let Some(answer) = self.eth_plain(method) {
            return Box::pin(ready(params.at_most(0).map(|_| answer)));
        }
        match method {
            "eth_call" => Box::pin(self.eth_call(params)),
            "eth_simulateV1" => Box::pin(self.eth_simulate(params)),
            "eth_estimateGas" => Box::pin(self.eth_estimate_gas(params)),
            "eth_createAccessList" => Box::pin(self.eth_create_access_list(params)),
            "eth_getTransactionCount" => Box::pin(self.eth_get_transaction_count(params)),
            "eth_getBalance" => Box::pin(self.eth_get_balance(params)),
            "eth_getCode" => Box::pin(self.eth_get_code(params)),
            "eth_getStorageAt" => Box::pin(self.eth_get_storage_at(params)),
            "eth_getAccount" => Box::pin(self.eth_get_account(params)),
            "eth_getAccountInfo" => Box::pin(self.eth_get_account_info(params)),
            "eth_getStorageValues" => Box::pin(self.eth_get_storage_values(params)),
            "eth_getProof" => Box::pin(self.eth_get_proof(params)),
            "eth_getLogs" => Box::pin(self.eth_get_logs(params)),
            "eth_feeHistory" => Box::pin(self.eth_fee_history(params)),
            "eth_getBlobSidecars" | "eth_getBlobSidecarByTxHash" => Box::pin(self.blob_sidecars(method, params)),
            "eth_newFilter"
            | "eth_newBlockFilter"
            | "eth_newPendingTransactionFilter"
            | "eth_uninstallFilter"
            | "eth_getFilterChanges"
            | "eth_getFilterLogs" => Box::pin(self.filter(method, params)),
            "eth_sendRawTransactionSync" => Box::pin(self.send_and_wait(params)),
            "eth_sendTransactionSync" => Box::pin(self.send_own_and_wait(params)),
            "eth_pendingTransactions" => Box::pin(self.pending_transactions(params)),
            "eth_getTransactionBySenderAndNonce" => Box::pin(self.transaction_by_nonce(params)),
            // This node gives out no work.
            "eth_submitWork" | "eth_submitHashrate" => Box::pin(ready(params.at_most(3).map(|_| "false".into()))),
            "eth_subscribe" => Box::pin(ready(self.eth_subscribe(params))),
            "eth_unsubscribe" => Box::pin(ready(self.eth_unsubscribe(params))),
            "eth_sendTransaction"
            | "eth_sign"
            | "eth_signTransaction"
            | "eth_fillTransaction"
            | "eth_sendUnsignedTransaction"
            | "eth_signTypedData"
            | "eth_signTypedData_v3"
            | "eth_signTypedData_v4" => Box::pin(self.signing(method, params)),
            _ => Box::pin(self.block_method(method, params)),
        }
    }
}

/// Returns a 128-bit number as JSON.
fn quantity_128(number: u128) -> String {
    crate::json::quantity_256(&alloy_primitives::U256::from(number))
}
