//! An in-memory node of one chain that implements the part of Ethereum's JSON-RPC that a load uses, and misbehaves on
//! request.
//!
//! reads   requests over HTTP on 127.0.0.1
//! writes  answers; a block every few milliseconds
//! memory  the chain

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use alloy_consensus::{EthereumTxEnvelope, Transaction, TxEip4844};
use alloy_eips::eip2718::Decodable2718;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use hearth_crypto::secp256k1::{Arithmetic, HighS, RecoverItem, Recoverer};
use hearth_testkit::http::{Refusal, Reply, answered, serve};
use hearth_testkit::pause;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::is_send;

/// An account outside the load.
const STRANGER: Address = Address::repeat_byte(0x55);

/// How the node misbehaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// Time between blocks, in milliseconds.
    pub block_ms: u64,
    /// Transactions that the pool holds; 0 means no bound.
    pub pool_max: usize,
    /// Every nth accepted transaction is forgotten; 0 means none.
    pub forgets_every: u64,
    /// Every nth sending request is carried out and never answered; 0 means none.
    pub answer_lost_every: u64,
    /// After this many non-empty blocks were read, nothing is answered any more; 0 means never.
    pub dies_after: u64,
    /// Every nth request gets status 429 and is not carried out; 0 means none.
    pub busy_every: u64,
    /// Every nth request is carried out and gets a broken answer: wrong ids, half of the JSON, half of the body, in
    /// turn; 0 means none.
    pub garbles_every: u64,
    /// Every nth reported nonce is this much too low; 0 means none.
    pub nonces_behind_every: u64,
    pub nonces_behind: u64,
    /// Every nth reported nonce is this much too high; 0 means none.
    pub nonces_ahead_every: u64,
    pub nonces_ahead: u64,
    /// The most calls in a request; 0 means no bound.
    pub batch_max: usize,
    /// After this many accepted transactions all accounts are out of money; 0 means never.
    pub poor_after: u64,
    /// Every nth accepted transaction is answered as if the pool were full; 0 means none.
    pub full_is_a_lie_every: u64,
    /// Blocks below this number are pruned.
    pub blocks_kept_from: usize,
    /// Seconds between the timestamps of two blocks; 0 means one.
    pub block_s: usize,
    /// Hash of the first block.
    pub genesis: B256,
    /// Milliseconds that each sending request takes.
    pub slow_ms: u64,
    /// Blocks become readable only some time after this many transactions are in them: three times as long as that
    /// took. 0 means at once.
    pub blocks_held_until: usize,
    /// Whether it lacks the method for receipts of whole blocks.
    pub no_block_receipts: bool,
    /// The least fee per gas once the given number of transactions was accepted.
    pub base_fee: u128,
    pub base_fee_after: u64,
    /// Every nth transaction is refused with an unusual message; 0 means none.
    pub refuses_every: u64,
    /// A full pool answers like geth's.
    pub full_is_underpriced: bool,
    /// Each block has a failed transaction of another account.
    pub stranger_fails: bool,
    /// It has an account of its own that pays on request.
    pub pays: bool,
}

struct Pooled {
    hash: B256,
    to: Address,
    value: U256,
}

struct Block {
    hash: B256,
    transactions: Vec<(B256, Address)>,
    is_read: bool,
}

/// The chain's state and its pool.
pub struct World {
    manners: Manners,
    balances: HashMap<Address, U256>,
    nonces: HashMap<Address, u64>,
    pool: HashMap<Address, BTreeMap<u64, Pooled>>,
    blocks: Vec<Block>,
    mined: HashMap<B256, usize>,
    recoverer: Recoverer,
    taken: u64,
    sends: u64,
    seen: u64,
    requests: u64,
    nonces_told: u64,
    lies: u64,
    dead: bool,
    /// When the first transaction was accepted.
    begun: Option<Instant>,
    /// When blocks become readable.
    readable: Option<Instant>,
}

/// A node that listens on a port of its own.
pub struct Stub {
    /// URL of the node.
    pub url: String,
    world: Arc<Mutex<World>>,
    _end: Sender<()>,
}

impl Stub {
    /// Starts a node on which the accounts `rich` have a large balance.
    pub fn start(manners: Manners, rich: &[Address]) -> Self {
        let world = Arc::new(Mutex::new(World {
            manners,
            balances: rich.iter().map(|&account| (account, U256::from(10).pow(U256::from(24)))).collect(),
            nonces: HashMap::new(),
            pool: HashMap::new(),
            blocks: vec![Block { hash: manners.genesis, transactions: vec![], is_read: false }],
            mined: HashMap::new(),
            recoverer: Recoverer::new(Arithmetic::Portable),
            taken: 0,
            sends: 0,
            seen: 0,
            requests: 0,
            nonces_told: 0,
            lies: 0,
            dead: false,
            begun: None,
            readable: None,
        }));
        let (end, ended) = channel();
        let chain = world.clone();
        thread::spawn(move || {
            let between = Duration::from_millis(manners.block_ms.max(5));
            while !matches!(ended.recv_timeout(between), Err(std::sync::mpsc::RecvTimeoutError::Disconnected)) {
                chain.lock().mine();
            }
        });
        let chain = world.clone();
        let url = serve(move |body| answer(&chain, body));
        Self { url, world, _end: end }
    }

    /// Reads the chain's state.
    pub fn with<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.world.lock())
    }

    /// Replaces the manners, except for the time between blocks.
    pub fn behave(&self, manners: Manners) {
        self.world.lock().manners = manners;
    }

    /// Makes a block now.
    pub fn mine(&self) {
        self.world.lock().mine();
    }

    /// Drops pending transactions, except for each account's highest nonce.
    pub fn evict(&self) {
        self.world.lock().evict();
    }
}

/// A broken answer: the first variant has another request's id.
fn garbled(answers: &Value, turn: u64) -> Reply {
    let text = answers.to_string();
    match turn % 3 {
        0 => Reply::Answer(text.replace("\"id\":", "\"id\":70000")),
        1 => Reply::Answer(text[..text.len() / 2].into()),
        _ => Reply::Half(text),
    }
}

fn answer(world: &Mutex<World>, body: &[u8]) -> Reply {
    let request: Value = serde_json::from_slice(body).unwrap();
    let sends = is_send(&request, "eth_sendRawTransaction");
    let slow_ms = world.lock().manners.slow_ms;
    if sends && slow_ms > 0 {
        pause(Duration::from_millis(slow_ms));
    }
    while is_send(&request, "eth_getBlockByNumber") && world.lock().holds_blocks() {
        pause(Duration::from_millis(5));
    }
    let mut world = world.lock();
    if world.dead {
        return Reply::Silence;
    }
    world.requests += 1;
    let turn = world.requests;
    let is_nth = |every: u64| every > 0 && turn % every == 0;
    if is_nth(world.manners.busy_every) {
        return Reply::Status(429);
    }
    if sends && world.manners.batch_max > 0 && request.as_array().is_some_and(|all| all.len() > world.manners.batch_max)
    {
        return Reply::Answer(
            json!([{ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": "batch too large" } }])
                .to_string(),
        );
    }
    let answers = answered(&request, |method, params| world.call(method, params));
    if sends {
        world.sends += 1;
        let every = world.manners.answer_lost_every;
        if every > 0 && world.sends % every == 0 {
            return Reply::Silence;
        }
    }
    let every = world.manners.garbles_every;
    if is_nth(every) { garbled(&answers, turn / every) } else { Reply::Answer(answers.to_string()) }
}

impl World {
    fn mine(&mut self) {
        if self.dead {
            return;
        }
        let number = self.blocks.len();
        let mut transactions = vec![];
        for (from, waiting) in &mut self.pool {
            let nonce = self.nonces.entry(*from).or_default();
            while let Some(pooled) = waiting.remove(nonce) {
                *nonce += 1;
                *self.balances.entry(*from).or_default() -= pooled.value;
                *self.balances.entry(pooled.to).or_default() += pooled.value;
                self.mined.insert(pooled.hash, number);
                transactions.push((pooled.hash, *from));
            }
        }
        if self.manners.stranger_fails {
            let hash = keccak256((number as u64 ^ u64::MAX).to_be_bytes());
            self.mined.insert(hash, number);
            transactions.push((hash, STRANGER));
        }
        self.pool.retain(|_, waiting| !waiting.is_empty());
        if let Some(begun) = self.begun.filter(|_| self.mined.len() >= self.manners.blocks_held_until) {
            self.readable.get_or_insert_with(|| Instant::now() + 3 * begun.elapsed());
        }
        let hash = keccak256(number.to_be_bytes());
        self.blocks.push(Block { hash, transactions, is_read: false });
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value, Refusal> {
        let address = || params[0].as_str().unwrap().parse::<Address>().unwrap();
        let block = |world: &Self| {
            let text = params[0].as_str().unwrap();
            let number = text.strip_prefix("0x").map(|digits| usize::from_str_radix(digits, 16).unwrap());
            number.unwrap_or(world.blocks.len() - 1)
        };
        Ok(match method {
            "eth_chainId" => json!("0x7a69"),
            "eth_accounts" if self.manners.pays => json!([STRANGER]),
            "eth_sendTransaction" if self.manners.pays => {
                let to = params[0]["to"].as_str().unwrap().parse().unwrap();
                *self.balances.entry(to).or_default() += params[0]["value"].as_str().unwrap().parse::<U256>().unwrap();
                json!(B256::ZERO)
            }
            "web3_clientVersion" => json!("stub"),
            "eth_maxPriorityFeePerGas" => json!("0x1"),
            "eth_blockNumber" => json!(format!("{:#x}", self.blocks.len() - 1)),
            "eth_getBalance" => json!(self.balances.get(&address()).copied().unwrap_or_default()),
            "eth_getTransactionCount" => {
                self.nonces_told += 1;
                let every = self.manners.nonces_behind_every;
                let behind = if every > 0 && self.nonces_told % every == 0 { self.manners.nonces_behind } else { 0 };
                let every = self.manners.nonces_ahead_every;
                let ahead = if every > 0 && self.nonces_told % every == 0 { self.manners.nonces_ahead } else { 0 };
                let nonce = self.nonce(address(), params[1] == "pending");
                json!(format!("{:#x}", nonce.saturating_sub(behind) + ahead))
            }
            "eth_getBlockByNumber" => {
                let number = block(self);
                self.block(number)
            }
            "eth_getBlockReceipts" if !self.manners.no_block_receipts => {
                let hashes: Vec<_> = self.blocks[block(self)].transactions.iter().map(|(hash, _)| *hash).collect();
                hashes.into_iter().map(|hash| self.receipt(hash)).collect()
            }
            "eth_getTransactionReceipt" => self.receipt(params[0].as_str().unwrap().parse().unwrap()),
            "eth_getTransactionByHash" => {
                let hash: B256 = params[0].as_str().unwrap().parse().unwrap();
                let waits = self.pool.values().flat_map(BTreeMap::values).any(|pooled| pooled.hash == hash);
                match self.mined.get(&hash) {
                    Some(number) => json!({ "blockNumber": format!("{number:#x}") }),
                    None if waits => json!({ "blockNumber": null }),
                    None => Value::Null,
                }
            }
            "eth_sendRawTransaction" => json!(self.send(params[0].as_str().unwrap().parse().unwrap())?),
            other => return Err((-32601, format!("the method {other} does not exist"))),
        })
    }

    fn holds_blocks(&self) -> bool {
        let is_held = self.manners.blocks_held_until > 0 && self.begun.is_some();
        is_held && self.readable.is_none_or(|at| Instant::now() < at)
    }

    fn nonce(&self, account: Address, pending: bool) -> u64 {
        let mut nonce = self.nonces.get(&account).copied().unwrap_or_default();
        while pending && self.pool.get(&account).is_some_and(|waiting| waiting.contains_key(&nonce)) {
            nonce += 1;
        }
        nonce
    }

    fn block(&mut self, number: usize) -> Value {
        if !(self.manners.blocks_kept_from..self.blocks.len()).contains(&number) {
            return Value::Null;
        }
        self.blocks[number].is_read = true;
        let block = &self.blocks[number];
        let parent = number.checked_sub(1).map_or(B256::ZERO, |parent| self.blocks[parent].hash);
        let read = self.blocks.iter().filter(|block| block.is_read && !block.transactions.is_empty()).count() as u64;
        self.dead = self.manners.dies_after > 0 && read >= self.manners.dies_after;
        let hashes: Vec<_> = block.transactions.iter().map(|(hash, _)| hash).collect();
        json!({
            "number": format!("{number:#x}"),
            "hash": block.hash,
            "parentHash": parent,
            "timestamp": format!("{:#x}", number * self.manners.block_s.max(1)),
            "gasUsed": format!("{:#x}", 21_000 * hashes.len()),
            "gasLimit": "0x1dcd6500",
            "baseFeePerGas": "0x0",
            "transactions": hashes,
        })
    }

    fn receipt(&self, hash: B256) -> Value {
        let Some(&number) = self.mined.get(&hash) else { return Value::Null };
        let (_, from) = self.blocks[number].transactions.iter().find(|(other, _)| *other == hash).unwrap();
        let status = if *from == STRANGER { "0x0" } else { "0x1" };
        json!({ "transactionHash": hash, "from": from, "status": status })
    }

    /// Adds a transaction to the pool.
    fn send(&mut self, raw: Bytes) -> Result<B256, Refusal> {
        let refuse = |words: &str| Err((-32000, words.to_owned()));
        let transaction = EthereumTxEnvelope::<TxEip4844>::decode_2718(&mut &raw[..]).unwrap();
        let (hash, nonce, from) = (*transaction.tx_hash(), transaction.nonce(), self.sender(&transaction));
        if self.mined.contains_key(&hash) || nonce < self.nonce(from, false) {
            return refuse(&format!("nonce too low: next nonce {}, tx nonce {nonce}", self.nonce(from, false)));
        }
        if let Some(there) = self.pool.get(&from).and_then(|waiting| waiting.get(&nonce)) {
            let known = there.hash == hash;
            return refuse(if known { "already known" } else { "replacement transaction underpriced" });
        }
        self.seen += 1;
        let cost =
            U256::from(transaction.max_fee_per_gas()) * U256::from(transaction.gas_limit()) + transaction.value();
        let poor = self.manners.poor_after > 0 && self.taken >= self.manners.poor_after;
        if poor || self.balance(from) < cost {
            return refuse("insufficient funds for gas * price + value");
        }
        if self.taken >= self.manners.base_fee_after && transaction.max_fee_per_gas() < self.manners.base_fee {
            return refuse("max fee per gas less than block base fee");
        }
        if self.manners.pool_max > 0 && self.waiting() >= self.manners.pool_max {
            return refuse(if self.manners.full_is_underpriced { "transaction underpriced" } else { "txpool is full" });
        }
        if self.manners.refuses_every > 0 && self.seen % self.manners.refuses_every == 0 {
            return refuse("no room at the inn 17");
        }
        self.taken += 1;
        self.begun.get_or_insert_with(Instant::now);
        if self.manners.forgets_every == 0 || self.taken % self.manners.forgets_every != 0 {
            let (to, value) = (transaction.to().unwrap_or_default(), transaction.value());
            self.pool.entry(from).or_default().insert(nonce, Pooled { hash, to, value });
        }
        if self.manners.full_is_a_lie_every > 0 && self.taken % self.manners.full_is_a_lie_every == 0 {
            self.lies += 1;
            return refuse("txpool is full");
        }
        Ok(hash)
    }

    fn sender(&mut self, transaction: &EthereumTxEnvelope<TxEip4844>) -> Address {
        let EthereumTxEnvelope::Eip1559(signed) = transaction else { panic!("another type") };
        let signature = signed.signature();
        let item = RecoverItem {
            hash: signed.signature_hash().0,
            r: signature.r().to_be_bytes(),
            s: signature.s().to_be_bytes(),
            odd: signature.v(),
        };
        let key = self.recoverer.recover(&item, HighS::Refuse).unwrap();
        Address::from(hearth_crypto::secp256k1::address(&key))
    }

    /// Returns the number of transactions in blocks.
    pub fn included(&self) -> usize {
        self.mined.len()
    }

    /// Returns how often it claimed a full pool while accepting a transaction.
    pub fn lies(&self) -> u64 {
        self.lies
    }

    /// Returns an account's balance.
    pub fn balance(&self, account: Address) -> U256 {
        self.balances.get(&account).copied().unwrap_or_default()
    }

    /// Returns the hash of some transaction in a block.
    pub fn any_mined(&self) -> Option<B256> {
        self.mined.keys().next().copied()
    }

    /// Returns the number of pending transactions.
    pub fn waiting(&self) -> usize {
        self.pool.values().map(BTreeMap::len).sum()
    }

    /// Drops pending transactions, except for each account's highest nonce, which leaves a gap.
    fn evict(&mut self) {
        self.pool.values_mut().for_each(|waiting| {
            let last = waiting.keys().max().copied();
            waiting.retain(|nonce, _| Some(*nonce) == last);
        });
    }
}
