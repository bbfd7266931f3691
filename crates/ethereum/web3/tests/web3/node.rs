//! A chain, its server, and small clients of it.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use alloy_consensus::{Transaction, TxEip1559};
use alloy_primitives::{Address, Bytes, TxKind, U256, hex};
use hearth_evm::builders::rich;
pub use hearth_evm::builders::{account, signer};
use hearth_evm::chain::{BlockTime, Chain, ChainConfig};
use hearth_evm::genesis::Genesis;
use hearth_evm::state::History;
use hearth_evm::tx::Tx;
use hearth_evm_utxo::genesis;
use hearth_rpc_client::http::Patience;
use hearth_rpc_client::{Options, RpcClient};
use hearth_serve::dashboard::LookAt;
use hearth_testkit::http;
use hearth_web3::{Config, Instruments, Limits, Server, serve};
use serde_json::{Value, json};

pub const CHAIN_ID: u64 = 31337;
pub const GWEI: u128 = 1_000_000_000;
/// How long anything may take in these tests.
pub const DEADLINE: Duration = hearth_testkit::PATIENCE;

/// Logs its input under topic 1.
pub const LOGS: &str = "365f5f376001365fa100";
/// Reverts with its input.
pub const REVERTS: &str = "365f5f37365ffd";
/// Keeps the first word of its input in slot 0.
pub const KEEPS: &str = "5f355f5500";
/// Loops until its gas is used up.
pub const LOOPS: &str = "5b5f56";
/// Returns the number of the block.
pub const NUMBERS: &str = "435f5260205ff3";

/// Code that creates a contract with this code.
pub fn creates(runtime: &str) -> String {
    let length = runtime.len() / 2;
    format!("60{length:02x}8060095f395ff3{runtime}")
}

/// A transaction with the fields that differ between tests.
pub struct Plan {
    pub seed: u8,
    pub nonce: u64,
    pub to: TxKind,
    pub value: u128,
    pub gas: u64,
    pub input: Bytes,
}

impl Plan {
    pub fn transfer(seed: u8, nonce: u64) -> Self {
        let to = TxKind::Call(Address::repeat_byte(0x77));
        Self { seed, nonce, to, value: 1, gas: 21_000, input: Bytes::new() }
    }

    pub fn tx(&self) -> TxEip1559 {
        TxEip1559 {
            chain_id: CHAIN_ID,
            nonce: self.nonce,
            gas_limit: self.gas,
            max_fee_per_gas: 100 * GWEI,
            max_priority_fee_per_gas: GWEI,
            to: self.to,
            value: U256::from(self.value),
            input: self.input.clone(),
            ..Default::default()
        }
    }

    pub fn raw(&self) -> String {
        raw(self.tx(), self.seed)
    }
}

/// A signed transaction as clients send it.
pub fn raw(tx: TxEip1559, seed: u8) -> String {
    assert!(tx.gas_limit() > 0);
    hex::encode_prefixed(&Tx::signed(tx.into(), &signer(seed)).raw)
}

/// A server, and a client of it.
pub struct Node {
    pub chain: Chain,
    pub server: Server,
    client: RpcClient,
}

impl Node {
    pub fn new(block_time: BlockTime) -> Self {
        Self::with(block_time, |_| {})
    }

    pub fn with(block_time: BlockTime, change: impl FnOnce(&mut Config)) -> Self {
        Self::seen(block_time, change, None)
    }

    /// With a dashboard of what `look_at` sees.
    pub fn seen(block_time: BlockTime, change: impl FnOnce(&mut Config), look_at: Option<LookAt>) -> Self {
        let genesis = genesis::dev(CHAIN_ID, &rich(1..=8), 500_000_000);
        Self::of(ChainConfig { block_time, ..ChainConfig::new(genesis) }, change, look_at)
    }

    /// A chain of this genesis, which makes blocks on demand.
    pub fn of_genesis(genesis: Genesis) -> Self {
        Self::of(ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) }, |_| {}, None)
    }

    /// A chain that has a folder, and makes blocks on demand.
    pub fn in_folder(dir: &std::path::Path, change: impl FnOnce(&mut Config)) -> Self {
        let genesis = genesis::dev(CHAIN_ID, &rich(1..=1), 500_000_000);
        let (dir, block_time) = (Some(dir.to_owned()), BlockTime::Manual);
        Self::of(ChainConfig { dir, block_time, ..ChainConfig::new(genesis) }, change, None)
    }

    /// A chain that keeps its last `retain_blocks` blocks.
    pub fn forgetful(retain_blocks: u64) -> Self {
        let genesis = genesis::dev(CHAIN_ID, &rich(1..=1), 500_000_000);
        let config = ChainConfig { block_time: BlockTime::Manual, retain_blocks, ..ChainConfig::new(genesis) };
        Self::of(config, |_| {}, None)
    }

    /// A chain that keeps the states of so many blocks, and makes blocks on demand.
    pub fn remembering(blocks: u64) -> Self {
        let genesis = genesis::dev(CHAIN_ID, &rich(1..=1), 500_000_000);
        let history = Some(History { blocks, bytes: History::BYTES });
        let config = ChainConfig { block_time: BlockTime::Manual, history, ..ChainConfig::new(genesis) };
        Self::of(config, |_| {}, None)
    }

    fn of(chain: ChainConfig, change: impl FnOnce(&mut Config), look_at: Option<LookAt>) -> Self {
        let chain = Chain::open(chain).unwrap();
        let mut config = Config::new(([127, 0, 0, 1], 0).into());
        config.accounts = (1..=3).map(|seed| [seed; 32]).collect();
        change(&mut config);
        let server =
            serve(config, chain.clone(), Instruments { look_at: look_at.ok_or("--no-dashboard"), profiler: None })
                .unwrap();
        let client = client(&server);
        Self { chain, server, client }
    }

    pub fn limited(limits: Limits) -> Self {
        Self::with(BlockTime::Instant, |config| config.limits = limits)
    }

    /// Another client of the same server, with connections of its own.
    pub fn another(&self) -> Client {
        Client { chain: self.chain.clone(), client: client(&self.server) }
    }

    /// Status and body of the answer to a request with this body.
    pub fn post(&self, body: &str) -> (u16, String) {
        let (status, answer) = self.client.exchange(body.as_bytes()).unwrap();
        (status, String::from_utf8(answer).unwrap())
    }

    /// The JSON of the answer to a JSON.
    pub fn ask_value(&self, request: &Value) -> Value {
        let (status, body) = self.post(&request.to_string());
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    pub fn ask(&self, method: &str, params: Value) -> Value {
        let answer = self.ask_value(&json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }));
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)));
        answer
    }

    /// The result of a request that must have one.
    #[track_caller]
    pub fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Number and words of the error of a request that must fail.
    #[track_caller]
    pub fn fails(&self, method: &str, params: Value) -> (i64, String) {
        let answer = self.ask(method, params);
        let error = answer.get("error").unwrap_or_else(|| panic!("{method}: {answer}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// Sends a transaction and waits for its receipt.
    #[track_caller]
    pub fn run(&self, plan: &Plan) -> Value {
        let hash = self.call("eth_sendRawTransaction", json!([plan.raw()]));
        self.receipt(&hash)
    }

    #[track_caller]
    pub fn receipt(&self, hash: &Value) -> Value {
        hearth_testkit::wait_for("a receipt", || match self.call("eth_getTransactionReceipt", json!([hash])) {
            Value::Null => Err(format!("of {hash}")),
            receipt => Ok(receipt),
        })
    }

    /// Deploys code by account `seed`; its address.
    #[track_caller]
    pub fn deploy(&self, seed: u8, nonce: u64, runtime: &str) -> String {
        let input = hex::decode(creates(runtime)).unwrap().into();
        let receipt = self.run(&Plan { seed, nonce, to: TxKind::Create, value: 0, gas: 200_000, input });
        assert_eq!(receipt["status"], "0x1");
        receipt["contractAddress"].as_str().unwrap().to_owned()
    }
}

/// A client to be used from another thread.
pub struct Client {
    chain: Chain,
    client: RpcClient,
}

impl Client {
    /// The result of a request that must have one.
    #[track_caller]
    pub fn call(&self, method: &str, params: Value) -> Value {
        self.client.call(method, &params).unwrap_or_else(|why| panic!("{method}: {why}"))
    }

    /// The results of requests in one, each of which must have one.
    #[track_caller]
    pub fn batch(&self, method: &str, params: &[Value]) -> Vec<Value> {
        let results = self.client.batch(method, params).unwrap_or_else(|why| panic!("{method}: {why}"));
        results.into_iter().map(|result| result.unwrap_or_else(|why| panic!("{method}: {why:?}"))).collect()
    }

    /// Up to which block the chain is on disk.
    pub fn synced(&self) -> u64 {
        self.chain.synced()
    }
}

fn client(server: &Server) -> RpcClient {
    let options = Options { patience: Patience::Step(DEADLINE), answer_max: 1 << 30, ..Options::default() };
    RpcClient::new(&format!("http://{}", server.address()), &options).unwrap()
}

pub fn connect(server: &Server) -> TcpStream {
    http::connect(server.address())
}

/// Status and body of the answer to a request whose head matters.
pub fn send(mut stream: &TcpStream, method: &str, head: &str, body: &[u8]) -> (u16, String) {
    let request = format!("{method} / HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    read_answer(stream)
}

pub fn read_answer(stream: &TcpStream) -> (u16, String) {
    http::read_answer(&mut BufReader::new(stream))
}

/// The number in a quantity.
#[track_caller]
pub fn number(value: &Value) -> u128 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x")).unwrap_or_else(|| panic!("{value}"));
    u128::from_str_radix(digits, 16).unwrap()
}

/// A word as contracts take it.
pub fn word(number: u64) -> String {
    format!("0x{number:064x}")
}
