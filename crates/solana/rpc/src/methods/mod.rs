//! Dispatch of the methods, and their shared state.
//!
//! reads   requests; the ledger
//! memory  one response
//! drops   unknown methods: error -32601

mod accounts;
mod admin;
mod airdrop;
mod blocks;
mod chain;
mod changes;
mod cluster;
mod demand;
mod epochs;
mod fate;
mod health;
mod history;
mod inflation;
mod prices;
mod resend;
mod scan;
mod simulation;
mod supply;
mod tokens;
mod transactions;
mod validators;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hearth_ledger::blockstore::Reader;
use hearth_ledger::{Bank, Commitment, DropTable, Executor, Ledger, StateView};
use hearth_serve::body::BodyRoom;
use hearth_serve::dashboard::{self, Dashboard};
use hearth_serve::file::Downloads;
use hearth_serve::jsonrpc::{Answerer, Call};
use hearth_serve::rate::RateLimit;
use hearth_wire::Txn;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::config::{ClusterNodes, IdentitySource, Limits, Liveness, NewestSnapshot, Offer, RpcNode, TransactionInlet};
use crate::counters::Counters;
use crate::history::HistoryView;
use crate::jsonrpc::{self, Failure, Request};
use crate::params::{Options, Params};
use crate::profiler::Admin;
pub use admin::PROFILE_HZ_MAX;
use airdrop::Faucet;
use demand::Calls;
use health::Progress;
use prices::Prices;
use resend::ResendQueue;

/// Polling interval while a request waits.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Maximum parallel downloads: more would take disk bandwidth from the chain.
const DOWNLOADS_MAX: usize = 8;

/// State shared by all methods.
pub struct Api {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) limits: Limits,
    pub(crate) transaction_history: bool,
    pub(crate) rate: RateLimit,
    pub(crate) bodies: Arc<BodyRoom>,
    pub(crate) answers: Arc<BodyRoom>,
    pub(crate) dashboard: Result<Dashboard, &'static str>,
    pub(crate) offer: Offer,
    pub(crate) downloads: Downloads,
    cluster_nodes: ClusterNodes,
    gossip: SocketAddr,
    inlet: Mutex<Box<dyn TransactionInlet>>,
    resend: ResendQueue,
    /// Idle executors for simulations.
    executors: Mutex<Vec<Executor>>,
    identity: IdentitySource,
    faucet: Faucet,
    verify: fn(&Txn<'_>) -> bool,
    shred_version: u16,
    tpu: SocketAddr,
    tpu_quic: SocketAddr,
    http: SocketAddr,
    websocket: SocketAddr,
    blocks: Option<Reader>,
    history: Option<HistoryView>,
    fates: Arc<DropTable>,
    began_unix_s: u64,
    genesis_time: i64,
    genesis_slot: u64,
    feature_set: Option<u32>,
    prices: Prices,
    newest_snapshot: Box<dyn Fn() -> Option<NewestSnapshot> + Send + Sync>,
    progress: Progress,
    liveness: Box<dyn Fn() -> Liveness + Send + Sync>,
    calls: Calls,
    admin: Option<Admin>,
    call_for_slot: Box<dyn Fn(u64) + Send + Sync>,
    /// One permit: long scans run one at a time.
    long_work: Semaphore,
}

impl Api {
    /// Serves `node`, which is reachable at the two addresses.
    pub fn new(node: RpcNode, limits: Limits, http: SocketAddr, websocket: SocketAddr) -> Self {
        Self {
            ledger: node.ledger,
            limits,
            transaction_history: node.transaction_history,
            rate: RateLimit::new(limits.requests_per_second),
            dashboard: node
                .look_at
                .map(|look_at| Dashboard::new(dashboard::Ledger::Solana, look_at, node.counters.clone())),
            counters: node.counters,
            offer: node.offer,
            downloads: Downloads::at_once(DOWNLOADS_MAX, limits.patience),
            cluster_nodes: node.cluster_nodes,
            gossip: node.gossip,
            inlet: Mutex::new(node.inlet),
            resend: ResendQueue::default(),
            executors: Mutex::default(),
            identity: node.identity,
            faucet: Faucet::new((node.faucet, node.chain_faucet), node.sign_as_faucet, &limits),
            verify: node.verify,
            shred_version: node.shred_version,
            tpu: node.tpu,
            tpu_quic: node.tpu_quic,
            http,
            websocket,
            history: node.history.zip(node.blocks.clone()).map(|(log, blocks)| HistoryView::new(log, blocks)),
            fates: node.fates,
            began_unix_s: node.began_unix_s,
            genesis_time: node.genesis_time,
            genesis_slot: node.genesis_slot,
            blocks: node.blocks,
            feature_set: node.feature_set,
            prices: Prices::default(),
            newest_snapshot: node.newest_snapshot,
            liveness: node.liveness,
            progress: Progress::new(node.slot_ms, limits.slots_may_stand),
            calls: Calls::default(),
            admin: node.admin,
            call_for_slot: node.call_for_slot,
            long_work: Semaphore::new(1),
            bodies: BodyRoom::of_requests(),
            answers: BodyRoom::of_answers(),
        }
    }

    async fn call(&self, request: Request<'_>) -> Result<Value, Failure> {
        let params = || Params::of(request.params);
        match request.method {
            "getHealth" => self.get_health(params()?),
            "getVersion" => self.get_version(params()?),
            "getIdentity" => self.get_identity(params()?),
            "getClusterNodes" => self.get_cluster_nodes(params()?),
            "getSlotLeader" => self.get_slot_leader(params()?),
            "getSlotLeaders" => self.get_slot_leaders(params()?),

            "getLeaderSchedule" => self.get_leader_schedule(params()?),
            "getBlockProduction" => self.get_block_production(params()?),

            "getVoteAccounts" => self.get_vote_accounts(params()?),
            "getBlockCommitment" => self.get_block_commitment(params()?),
            "getRecentPerformanceSamples" => self.get_performance_samples(params()?),
            "getRecentPrioritizationFees" => self.get_prioritization_fees(params()?).await,

            "getSlot" => self.get_slot(params()?),
            "getBlockHeight" => self.get_block_height(params()?),
            "getEpochInfo" => self.get_epoch_info(params()?),
            "getEpochSchedule" => self.get_epoch_schedule(params()?),
            "getGenesisHash" => self.get_genesis_hash(params()?),
            "getLatestBlockhash" => self.get_latest_blockhash(params()?),
            "isBlockhashValid" => self.is_blockhash_valid(params()?),
            "getTransactionCount" => self.get_transaction_count(params()?),

            "getStakeMinimumDelegation" => self.get_stake_minimum_delegation(params()?),
            "getInflationGovernor" => self.get_inflation_governor(params()?),
            "getInflationRate" => self.get_inflation_rate(params()?),
            "getInflationReward" => self.get_inflation_reward(params()?).await,
            "getFirstAvailableBlock" => self.get_first_available_block(params()?),
            "minimumLedgerSlot" => self.minimum_ledger_slot(params()?),
            "getBlock" => self.get_block(params()?).await,
            "getBlocks" => self.get_blocks(params()?),
            "getBlocksWithLimit" => self.get_blocks_with_limit(params()?),
            "getBlockTime" => self.get_block_time(params()?),
            "getTransaction" => self.get_transaction(params()?).await,
            "getSignaturesForAddress" => self.get_signatures_for_address(params()?),
            "getHighestSnapshotSlot" => self.get_highest_snapshot_slot(params()?),
            "getMaxRetransmitSlot" => self.get_max_retransmit_slot(params()?),
            "getMaxShredInsertSlot" => self.get_max_shred_insert_slot(params()?),

            "getBalance" => self.get_balance(params()?),
            "getAccountInfo" => self.get_account_info(params()?),
            "getMultipleAccounts" => self.get_multiple_accounts(params()?),
            "getMinimumBalanceForRentExemption" => self.get_minimum_balance(params()?),

            "getProgramAccounts" => self.get_program_accounts(params()?).await,
            "getLargestAccounts" => self.get_largest_accounts(params()?).await,
            "getSupply" => self.get_supply(params()?).await,
            "getTokenAccountBalance" => self.get_token_account_balance(params()?),
            "getTokenSupply" => self.get_token_supply(params()?),
            "getTokenLargestAccounts" => self.get_token_largest_accounts(params()?).await,
            "getTokenAccountsByOwner" => self.get_token_accounts_by_owner(params()?).await,
            "getTokenAccountsByDelegate" => self.get_token_accounts_by_delegate(params()?).await,

            "sendTransaction" => self.send_transaction(params()?).await,
            "simulateTransaction" => self.simulate_transaction(params()?).await,
            "getSignatureStatuses" => self.get_signature_statuses(params()?),
            "getTransactionFate" => self.get_transaction_fate(params()?),
            "getSlotChanges" => self.get_slot_changes(params()?).await,
            "getFeeForMessage" => self.get_fee_for_message(params()?),
            "requestAirdrop" => self.request_airdrop(params()?).await,

            unknown => Err(Failure::method_not_found(unknown)),
        }
    }

    /// Fails if an address exceeds its rate or a batch is too long.
    pub fn admit(&self, address: IpAddr, requests: usize) -> Result<(), Failure> {
        let longest = self.limits.batch_length;
        if requests > longest.max(1) {
            return Err(Failure::invalid_request(format!("a batch of {requests} requests; at most {longest}")));
        }
        if self.rate.admits(address, requests) {
            return Ok(());
        }
        self.counters.requests_limited().fetch_add(requests as u64, Relaxed);
        Err(Failure::too_many_requests(self.limits.requests_per_second))
    }

    /// The slot of a commitment; fails if it is below `minContextSlot`.
    fn slot_for(&self, commitment: Commitment, options: Options<'_>) -> Result<u64, Failure> {
        let slot = self.ledger.slot(commitment);
        match options.number("minContextSlot")? {
            Some(least) if slot < least => Err(Failure::before_min_context_slot(slot)),
            _ => Ok(slot),
        }
    }

    /// The newest slot, for results that ignore the commitment: statuses and simulations.
    fn newest_slot(&self, options: Options<'_>) -> Result<u64, Failure> {
        options.commitment()?;
        self.slot_for(Commitment::Processed, options)
    }

    /// The accounts at the requested commitment; fails if its slot is below `minContextSlot`.
    fn state(&self, options: Options<'_>) -> Result<StateView<'_>, Failure> {
        let state = self.ledger.state(options.commitment()?);
        match options.number("minContextSlot")? {
            Some(least) if state.slot < least => Err(Failure::before_min_context_slot(state.slot)),
            _ => Ok(state),
        }
    }

    /// The bank in progress, to simulate on. If there is none: with slots on demand the bank that comes next, else
    /// waits a moment.
    async fn working_bank(&self) -> Result<Arc<Bank>, Failure> {
        let deadline = Instant::now() + self.limits.inlet_wait;
        loop {
            // At an epoch boundary there may be no bank for a moment.
            let in_time = Instant::now() < deadline;
            if self.limits.slots_may_stand && !(in_time && self.ledger.is_epoch_turning()) {
                return Ok(self.ledger.open_bank());
            }
            if let Some(bank) = self.ledger.working_bank().filter(|_| !self.limits.slots_may_stand) {
                return Ok(bank);
            }
            if !in_time {
                return Err(Failure::unhealthy("no block is in the making", None));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// A client and the API that serves it.
pub struct Caller<'a> {
    /// The API that serves the client.
    pub api: &'a Api,
    /// Address of the client.
    pub address: IpAddr,
    /// Whether a web page may have made the request.
    pub may_be_web_page: bool,
}

impl Answerer for Caller<'_> {
    type Failure = Failure;

    fn admit(&self, requests: usize) -> Result<(), Failure> {
        self.api.admit(self.address, requests)
    }

    async fn call(&self, call: Call<'_>) -> Result<String, Failure> {
        let params = jsonrpc::params(&call)?;
        let request = Request { method: &call.method, params: params.as_ref() };
        let result = match self.admin(&request).await {
            Some(answer) => answer?,
            None => self.api.call(request).await?,
        };
        Ok(result.to_string())
    }
}

/// Fails if a scan may have found accounts of different slots, since more was replaced meanwhile than is kept.
fn check_kept(state: &StateView<'_>) -> Result<(), Failure> {
    let changed = || Failure::scan("Scan aborted: too many accounts changed meanwhile");
    state.is_kept().then_some(()).ok_or_else(changed)
}

/// Wraps a value in the `context` of its slot.
pub fn with_context(slot: u64, value: Value) -> Value {
    json!({ "context": { "apiVersion": crate::INTERFACE_VERSION, "slot": slot }, "value": value })
}
