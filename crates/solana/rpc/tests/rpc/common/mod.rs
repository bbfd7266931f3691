//! Shared by these tests: a chain whose slots the test drives, its server, and small clients.
//!
//! writes  requests: by `rpc-client`, or byte by byte where the protocol itself is tested

pub mod client;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hearth_ledger::blockstore::{self, BlockStore, FecSetRecord};
use hearth_ledger::genesis::funded_account_key;
use hearth_ledger::history::{self, BlockMeta, History};
use hearth_ledger::{
    Account, BlockSummary, DropTable, Executor, Genesis, GenesisConfig, Ledger, LedgerConfig, StatusCacheConfig,
};
use hearth_rpc::{Admin, Busy, Counters, Limits, Liveness, RpcConfig, RpcError, RpcNode, RpcServer, TransactionInlet};
use hearth_rpc_client::http::Patience;
use hearth_rpc_client::{Options, RpcClient};
use hearth_serve::dashboard::LookAt;
use hearth_testkit::http;
use hearth_wire::base58::{encode_32, encode_64};
use hearth_wire::message::{Instruction, Message};
use hearth_wire::program::system;
use hearth_wire::{Hash, Pubkey, Txn};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Lamports of a funded account at genesis.
pub const RICH: u64 = 500_000_000_000;
/// Deadline of any wait in these tests.
pub const DEADLINE: Duration = hearth_testkit::PATIENCE;

/// Key number of the faucet.
pub const FAUCET: usize = 1_000;

/// The address of key `n`: those below 8 are funded.
pub fn address(n: usize) -> Pubkey {
    funded_account_key(n).public_key()
}

/// Base58 of an address or a hash.
pub fn text(bytes: &[u8; 32]) -> String {
    encode_32(bytes).to_string()
}

pub fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Signs instructions with key `payer`.
pub fn signed(payer: usize, instructions: &[Instruction], blockhash: &Hash) -> Vec<u8> {
    let message = Message::compile(&address(payer), instructions, blockhash).unwrap();
    let key = funded_account_key(payer);
    message.sign_with(|_, message| key.sign(message))
}

/// Base58 of a transaction's first signature.
pub fn signature_of(bytes: &[u8]) -> String {
    encode_64(Txn::parse(bytes).unwrap().first_signature()).to_string()
}

fn verify(txn: &Txn<'_>) -> bool {
    txn.signatures().iter().zip(txn.signer_keys()).all(|(signature, key)| {
        let key = ed25519_dalek::VerifyingKey::from_bytes(key);
        key.is_ok_and(|key| key.verify_strict(txn.message(), &ed25519_dalek::Signature::from_bytes(signature)).is_ok())
    })
}

/// An inlet that executes each transaction at once, in the slot in progress.
struct Executing {
    ledger: Arc<Ledger>,
    full: Arc<AtomicBool>,
    taken: Arc<Mutex<Vec<Vec<u8>>>>,
    again: Arc<AtomicU64>,
}

impl TransactionInlet for Executing {
    fn send(&mut self, wire: &[u8], again: bool) -> Result<(), Busy> {
        if self.full.load(Relaxed) {
            return Err(Busy);
        }
        self.taken.lock().push(wire.to_vec());
        self.again.fetch_add(u64::from(again), Relaxed);
        let txn = Txn::parse(wire).unwrap();
        if verify(&txn) {
            let Some(bank) = self.ledger.working_bank() else { return Err(Busy) };
            bank.execute(&mut Executor::new(), &[txn], &mut Vec::new());
        }
        Ok(())
    }
}

/// A chain and its server.
pub struct Chain {
    pub ledger: Arc<Ledger>,
    /// The record of dropped transactions.
    pub fates: Arc<DropTable>,
    /// Makes the inlet refuse.
    pub full: Arc<AtomicBool>,
    /// The transactions that the inlet accepted.
    pub taken: Arc<Mutex<Vec<Vec<u8>>>>,
    /// How many of them were marked as resent.
    pub again: Arc<AtomicU64>,
    /// The liveness that the node reports.
    pub liveness: Arc<Mutex<Liveness>>,
    /// The server under test.
    pub server: RpcServer,
    /// The block store and the history, if the chain has them.
    kept: Option<StoreAndHistory>,
}

/// A block store and a history, both initially empty.
struct StoreAndHistory {
    blocks: BlockStore,
    history: History,
    _folder: tempfile::TempDir,
}

impl StoreAndHistory {
    fn new(genesis_hash: &Hash) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = blockstore::Config::new(64 << 20, *genesis_hash);
        let (blocks, _) = BlockStore::open(&folder.path().join("blocks"), config).unwrap();
        let config = history::Config::new(64 << 20, *genesis_hash);
        let history = History::open(&folder.path().join("history"), config, 0).unwrap();
        Self { blocks, history, _folder: folder }
    }
}

/// The genesis time that the node reports.
pub const GENESIS_TIME: i64 = 1_700_000_000;

/// Options that not every test needs.
#[derive(Default)]
struct ExtraOptions {
    look_at: Option<LookAt>,
    admin: Option<Admin>,
    genesis_slot: u64,
    chain_faucet: Option<Pubkey>,
    /// Epochs of 32 slots, full inflation, and these accounts.
    inflating: Option<Vec<(Pubkey, Account)>>,
}

impl Chain {
    /// A chain in slot 1, with limits that suit tests.
    pub fn new() -> Self {
        Self::with(Limits { inlet_wait: Duration::from_millis(20), ..Limits::default() }, true)
    }

    /// A chain with these limits, with or without statuses.
    pub fn with(limits: Limits, transaction_history: bool) -> Self {
        let config = RpcConfig::new("127.0.0.1:0".parse().unwrap());
        Self::start(config, limits, transaction_history).unwrap()
    }

    /// A chain with a block store and a history.
    pub fn with_history() -> Self {
        let config = RpcConfig::new("127.0.0.1:0".parse().unwrap());
        Self::build(RpcConfig { limits: Limits::default(), ..config }, true, true, ExtraOptions::default()).unwrap()
    }

    /// A chain with a server of this configuration.
    pub fn start(config: RpcConfig, limits: Limits, transaction_history: bool) -> Result<Self, RpcError> {
        Self::build(RpcConfig { limits, ..config }, transaction_history, false, ExtraOptions::default())
    }

    /// A chain with a dashboard that shows `look_at`.
    pub fn with_dashboard(look_at: LookAt) -> Self {
        let config = RpcConfig::new("127.0.0.1:0".parse().unwrap());
        Self::build(config, true, false, ExtraOptions { look_at: Some(look_at), ..ExtraOptions::default() }).unwrap()
    }

    /// A chain with a history whose genesis is at this slot.
    pub fn warped(genesis_slot: u64) -> Self {
        let config = RpcConfig::new("127.0.0.1:0".parse().unwrap());
        Self::build(config, true, true, ExtraOptions { genesis_slot, ..ExtraOptions::default() }).unwrap()
    }

    /// A chain with a history, inflation, epochs of 32 slots, and these accounts.
    pub fn inflating(accounts: Vec<(Pubkey, Account)>) -> Self {
        let config = RpcConfig::new("127.0.0.1:0".parse().unwrap());
        Self::build(config, true, true, ExtraOptions { inflating: Some(accounts), ..ExtraOptions::default() }).unwrap()
    }

    /// A chain whose node holds another faucet key than the funded one.
    pub fn of_another_faucet(chain_faucet: Pubkey) -> Self {
        let config = RpcConfig::new("127.0.0.1:0".parse().unwrap());
        let extra = ExtraOptions { chain_faucet: Some(chain_faucet), ..ExtraOptions::default() };
        Self::build(config, true, false, extra).unwrap()
    }

    /// A chain whose node has an owner.
    pub fn with_admin(admin: Admin) -> Self {
        let config = RpcConfig::new("127.0.0.1:0".parse().unwrap());
        Self::build(config, true, false, ExtraOptions { admin: Some(admin), ..ExtraOptions::default() }).unwrap()
    }

    fn build(config: RpcConfig, transaction_history: bool, keep: bool, extra: ExtraOptions) -> Result<Self, RpcError> {
        let genesis_slot = extra.genesis_slot;
        let genesis = GenesisConfig::development(address(500), address(FAUCET), 0);
        let mut genesis = GenesisConfig { fund_initial_accounts: 8, genesis_slot, ..genesis };
        if let Some(accounts) = extra.inflating {
            (genesis.slots_per_epoch, genesis.extra_accounts) = (32, accounts);
            genesis.inflation = Default::default();
        }
        let genesis = Genesis::create(genesis, |_| {}).unwrap();
        let status_cache = StatusCacheConfig { enabled: transaction_history, capacity_txns: 1_000 };
        let ledger = Ledger::new(&genesis, LedgerConfig { status_cache, ..LedgerConfig::default() });
        ledger.begin_slot(genesis_slot + 1, genesis_slot).unwrap();
        let (full, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let again = Arc::new(AtomicU64::new(0));
        let liveness = Arc::new(Mutex::new(Liveness::default()));
        let shown = Arc::clone(&liveness);
        let inlet = Executing {
            ledger: Arc::clone(&ledger),
            full: Arc::clone(&full),
            taken: Arc::clone(&taken),
            again: Arc::clone(&again),
        };
        let (key, fates) = (funded_account_key(FAUCET), Arc::new(DropTable::new(512, 9)));
        let kept = keep.then(|| StoreAndHistory::new(ledger.genesis_hash()));
        let node = RpcNode {
            ledger: Arc::clone(&ledger),
            inlet: Box::new(inlet),
            identity: Box::new(|| address(500)),
            faucet: address(FAUCET),
            chain_faucet: extra.chain_faucet.unwrap_or(address(FAUCET)),
            sign_as_faucet: Box::new(move |message| key.sign(message)),
            verify,
            shred_version: 77,
            offer: Box::new(|_| None),
            cluster_nodes: Box::new(Vec::new),
            gossip: "127.0.0.1:8001".parse().unwrap(),
            tpu: "127.0.0.1:9001".parse().unwrap(),
            tpu_quic: "127.0.0.1:9007".parse().unwrap(),
            transaction_history,
            slot_ms: 400,
            counters: Arc::default(),
            blocks: kept.as_ref().map(|kept| kept.blocks.reader()),
            history: kept.as_ref().map(|kept| kept.history.reader()),
            fates: Arc::clone(&fates),
            began_unix_s: 1_000,
            genesis_time: GENESIS_TIME,
            genesis_slot,
            feature_set: Some(7),
            call_for_slot: Box::new(|_| {}),
            admin: extra.admin,
            newest_snapshot: Box::new(|| None),
            liveness: Box::new(move || shown.lock().clone()),
            look_at: extra.look_at.ok_or("[rpc] dashboard"),
        };
        let server = RpcServer::start(config, node)?;
        Ok(Self { ledger, fates, full, taken, again, server, kept, liveness })
    }

    /// Ends the slot in progress and begins the next.
    pub fn next_slot(&self) {
        let bank = self.ledger.working_bank().unwrap();
        let mut hash = [0xbb; 32];
        hash[..8].copy_from_slice(&bank.slot().to_le_bytes());
        self.ledger.end_slot(bank.slot(), hash).unwrap();
        self.ledger.begin_slot(bank.slot() + 1, bank.slot()).unwrap();
    }

    /// Runs a slot, whose empty block is durable and in the history once it has ended; returns the block.
    pub fn recorded_slot(&mut self) -> BlockSummary {
        self.next_slot();
        let (block, parent) = (self.ledger.recent_blocks(1)[0], self.ledger.recent_blocks(2)[1]);
        let StoreAndHistory { blocks, history, .. } = self.kept.as_mut().unwrap();
        let set = FecSetRecord {
            slot: block.slot,
            parent_slot: block.parent,
            fec_set_index: 0,
            reference_tick: 63,
            last_in_slot: true,
            ends_batch: None,
            merkle_root: [1; 32],
            chained_root: [2; 32],
            signature: [3; 64],
            data: &[0; 8],
        };
        blocks.append_set(&set).unwrap();
        // The call also publishes what was appended.
        blocks.durable_slots().for_each(drop);
        let rewards = self.ledger.rewards(&block).unwrap_or_default();
        let meta = BlockMeta {
            slot: block.slot,
            parent: block.parent,
            height: block.height,
            time: block.unix_timestamp,
            blockhash: block.blockhash,
            previous_blockhash: parent.blockhash,
            transaction_count: 0,
            rewards: rewards.rewards.clone(),
            num_partitions: rewards.num_partitions,
        };
        history.close(&meta).unwrap();
        history.wait_until_indexed().unwrap();
        self.ledger.mark_stored(block.slot);
        block
    }

    /// Runs `count` slots, each durable once it has ended.
    pub fn durable_slots(&self, count: usize) {
        for _ in 0..count {
            self.next_slot();
            self.ledger.mark_stored(self.ledger.working_bank().unwrap().parent());
        }
    }

    /// Makes everything so far final.
    pub fn settle(&self) {
        self.durable_slots(34);
    }

    /// The newest valid blockhash: that of the working bank's parent.
    pub fn blockhash(&self) -> Hash {
        *self.ledger.working_bank().unwrap().parent_blockhash()
    }

    /// A transfer signed by key `from`.
    pub fn transfer(&self, from: usize, to: &Pubkey, lamports: u64) -> Vec<u8> {
        signed(from, &[system::transfer(&address(from), to, lamports)], &self.blockhash())
    }

    /// The address of HTTP.
    pub fn http(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// The result of one call. Panics on an error.
    #[track_caller]
    pub fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The code, the message and the data of the error of one call. Panics on a result.
    #[track_caller]
    pub fn error(&self, method: &str, params: Value) -> (i64, String, Value) {
        let answer = self.ask(method, params);
        let error = &answer["error"];
        assert!(answer.get("result").is_none() && error.is_object(), "{method}: {answer}");
        let message = error["message"].as_str().unwrap().to_owned();
        (error["code"].as_i64().unwrap(), message, error["data"].clone())
    }

    /// Sends one request and returns its response.
    pub fn ask(&self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let options = Options { patience: Patience::Step(DEADLINE), ..Options::default() };
        // One client per request, so that its connection does not outlive the request.
        let client = RpcClient::new(&format!("http://{}", self.http()), &options).unwrap();
        let (_, answer) = client.exchange(request.to_string().as_bytes()).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(1)), "{answer}");
        answer
    }

    /// The value of the server's counter that `which` selects.
    pub fn counted(&self, which: fn(&Counters) -> &AtomicU64) -> u64 {
        which(&self.server.counters()).load(Relaxed)
    }

    /// Waits until a counter has a value.
    #[track_caller]
    pub fn wait_counted(&self, which: fn(&Counters) -> &AtomicU64, value: u64) {
        hearth_testkit::wait_for("a count", || match self.counted(which) {
            count if count == value => Ok(()),
            count => Err(format!("of {value}: it is {count}")),
        });
    }
}

/// An HTTP response with a body of text.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Its headers, in lower case.
    pub head: String,
    pub body: String,
}

/// A connection to the server.
pub fn connect(address: SocketAddr) -> TcpStream {
    http::connect(address)
}

/// Posts a body as JSON, whose bytes or whose answer's head matter.
pub fn post(address: SocketAddr, body: &str) -> Answer {
    let length = body.len();
    let head =
        format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n");
    request(address, &format!("{head}Connection: close\r\n\r\n{body}"))
}

/// Sends a whole request and reads until the server closes.
pub fn request(address: SocketAddr, request: &str) -> Answer {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    read_answer(&mut stream)
}

/// Reads until the server closes.
pub fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP answer: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.into() }
}
