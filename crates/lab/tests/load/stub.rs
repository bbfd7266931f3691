//! A node of one chain in memory that speaks as much of Ethereum's JSON-RPC as a load asks for, and misbehaves as told.
//!
//! reads   requests over HTTP on 127.0.0.1
//! writes  answers; a block every few milliseconds
//! memory  the chain

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use alloy_consensus::{EthereumTxEnvelope, Transaction, TxEip4844};
use alloy_eips::eip2718::Decodable2718;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use hearth_crypto::secp256k1::{Arithmetic, HighS, RecoverItem, Recoverer};
use serde_json::{Value, json};

/// Who has nothing to do with a load.
const STRANGER: Address = Address::repeat_byte(0x55);

/// How it misbehaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// Time between blocks.
    pub block_ms: u64,
    /// Transactions that the pool holds; 0 is no bound.
    pub pool_max: usize,
    /// Of the transactions taken, each so-manieth is forgotten; 0 is none.
    pub forgets_every: u64,
    /// Of the requests that send, each so-manieth is carried out and never answered; 0 is none.
    pub answer_lost_every: u64,
    /// From this block on nothing is answered; 0 is never.
    pub dies_at: u64,
    /// Time that each request which sends takes.
    pub slow_ms: u64,
    /// Whether it knows receipts of whole blocks.
    pub no_block_receipts: bool,
    /// What a transaction must pay for a unit of gas at least.
    pub base_fee: u128,
    /// The words in which it refuses each so-manieth transaction; 0 is none.
    pub refuses_every: u64,
    /// A full pool speaks as geth's.
    pub full_is_underpriced: bool,
    /// Each block has a failed transaction of somebody else.
    pub stranger_fails: bool,
}

struct Pooled {
    hash: B256,
    to: Address,
    value: U256,
}

struct Block {
    hash: B256,
    transactions: Vec<(B256, Address)>,
}

/// The chain and its pool.
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
    dead: bool,
}

/// A node that listens.
pub struct Stub {
    /// Where.
    pub url: String,
    world: Arc<Mutex<World>>,
    _end: Sender<()>,
}

impl Stub {
    /// A node whose accounts `rich` have a lot.
    pub fn start(manners: Manners, rich: &[Address]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let world = Arc::new(Mutex::new(World {
            manners,
            balances: rich.iter().map(|&account| (account, U256::from(10).pow(U256::from(24)))).collect(),
            nonces: HashMap::new(),
            pool: HashMap::new(),
            blocks: vec![Block { hash: keccak256(b"genesis"), transactions: vec![] }],
            mined: HashMap::new(),
            recoverer: Recoverer::new(Arithmetic::Portable),
            taken: 0,
            sends: 0,
            seen: 0,
            dead: false,
        }));
        let (end, ended) = channel();
        let chain = world.clone();
        thread::spawn(move || {
            let pause = Duration::from_millis(manners.block_ms.max(5));
            while !matches!(ended.recv_timeout(pause), Err(std::sync::mpsc::RecvTimeoutError::Disconnected)) {
                lock(&chain).mine();
            }
        });
        let chain = world.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let chain = chain.clone();
                thread::spawn(move || serve(stream, &chain));
            }
        });
        Self { url, world, _end: end }
    }

    /// Looks at the chain.
    pub fn with<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&lock(&self.world))
    }

    /// Makes a block now.
    pub fn mine(&self) {
        lock(&self.world).mine();
    }

    /// The pool loses what waits, but for the highest nonce of each account.
    pub fn evict(&self) {
        lock(&self.world).evict();
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap()
}

/// One connection.
fn serve(stream: TcpStream, world: &Mutex<World>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
                continue;
            }
            return;
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let Some(answer) = answer(world, &body) else { return };
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", answer.len());
        if reader.get_mut().write_all(format!("{head}{answer}").as_bytes()).is_err() {
            return;
        }
    }
}

/// None: the connection is closed without a word.
fn answer(world: &Mutex<World>, body: &[u8]) -> Option<String> {
    let request: Value = serde_json::from_slice(body).unwrap();
    let questions = request.as_array().cloned().unwrap_or_else(|| vec![request.clone()]);
    let sends = questions[0]["method"] == "eth_sendRawTransaction";
    let slow_ms = lock(world).manners.slow_ms;
    if sends && slow_ms > 0 {
        wait(Duration::from_millis(slow_ms));
    }
    let mut world = lock(world);
    if world.dead {
        return None;
    }
    let answers: Vec<_> = questions
        .iter()
        .map(|question| {
            let (method, params) = (question["method"].as_str().unwrap(), &question["params"]);
            match world.call(method, params) {
                Ok(result) => json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }),
                Err((code, message)) => {
                    json!({ "jsonrpc": "2.0", "id": question["id"], "error": { "code": code, "message": message } })
                }
            }
        })
        .collect();
    if sends {
        world.sends += 1;
        let every = world.manners.answer_lost_every;
        if every > 0 && world.sends % every == 0 {
            return None;
        }
    }
    Some(if request.is_array() { Value::from(answers).to_string() } else { answers[0].to_string() })
}

/// A slow server's time.
fn wait(time: Duration) {
    let (_sender, receiver): (Sender<()>, Receiver<()>) = channel();
    let _ = receiver.recv_timeout(time);
}

type Refusal = (i64, String);

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
        let hash = keccak256(number.to_be_bytes());
        self.blocks.push(Block { hash, transactions });
        self.dead = self.manners.dies_at > 0 && number as u64 >= self.manners.dies_at;
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
            "web3_clientVersion" => json!("stub"),
            "eth_maxPriorityFeePerGas" => json!("0x1"),
            "eth_blockNumber" => json!(format!("{:#x}", self.blocks.len() - 1)),
            "eth_getBalance" => json!(self.balances.get(&address()).copied().unwrap_or_default()),
            "eth_getTransactionCount" => json!(format!("{:#x}", self.nonce(address(), params[1] == "pending"))),
            "eth_getBlockByNumber" => self.block(block(self)),
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

    fn nonce(&self, account: Address, pending: bool) -> u64 {
        let mut nonce = self.nonces.get(&account).copied().unwrap_or_default();
        while pending && self.pool.get(&account).is_some_and(|waiting| waiting.contains_key(&nonce)) {
            nonce += 1;
        }
        nonce
    }

    fn block(&self, number: usize) -> Value {
        let Some(block) = self.blocks.get(number) else { return Value::Null };
        let hashes: Vec<_> = block.transactions.iter().map(|(hash, _)| hash).collect();
        json!({
            "hash": block.hash,
            "parentHash": number.checked_sub(1).map_or(B256::ZERO, |parent| self.blocks[parent].hash),
            "timestamp": format!("{number:#x}"),
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

    /// Puts a transaction into the pool.
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
        if self.balance(from) < cost {
            return refuse("insufficient funds for gas * price + value");
        }
        if transaction.max_fee_per_gas() < self.manners.base_fee {
            return refuse("max fee per gas less than block base fee");
        }
        if self.manners.pool_max > 0 && self.waiting() >= self.manners.pool_max {
            return refuse(if self.manners.full_is_underpriced { "transaction underpriced" } else { "txpool is full" });
        }
        if self.manners.refuses_every > 0 && self.seen % self.manners.refuses_every == 0 {
            return refuse("no room at the inn 17");
        }
        self.taken += 1;
        if self.manners.forgets_every == 0 || self.taken % self.manners.forgets_every != 0 {
            let (to, value) = (transaction.to().unwrap_or_default(), transaction.value());
            self.pool.entry(from).or_default().insert(nonce, Pooled { hash, to, value });
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

    /// How many transactions are in blocks.
    pub fn included(&self) -> usize {
        self.mined.len()
    }

    /// What an account has.
    pub fn balance(&self, account: Address) -> U256 {
        self.balances.get(&account).copied().unwrap_or_default()
    }

    /// A transaction that is in a block.
    pub fn any_mined(&self) -> Option<B256> {
        self.mined.keys().next().copied()
    }

    /// How many transactions wait in the pool.
    pub fn waiting(&self) -> usize {
        self.pool.values().map(BTreeMap::len).sum()
    }

    /// Forgets what waits, but for the highest nonce of each account: a gap before it.
    fn evict(&mut self) {
        self.pool.values_mut().for_each(|waiting| {
            let last = waiting.keys().max().copied();
            waiting.retain(|nonce, _| Some(*nonce) == last);
        });
    }
}
