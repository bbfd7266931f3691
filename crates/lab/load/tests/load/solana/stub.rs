//! An in-memory node of one chain that implements the part of Solana's JSON-RPC that a load uses, accepts transactions
//! over QUIC as well, and misbehaves on request.
//!
//! reads   requests over HTTP and transactions over QUIC on 127.0.0.1
//! writes  answers; a block every few milliseconds
//! memory  the chain

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hearth_quic::{Server, ServerConfig};
use hearth_testkit::http::{self, Refusal, Reply, answered};
use hearth_wire::base58::{decode_32, encode_32, encode_64};
use hearth_wire::program::system::SystemInstruction;
use hearth_wire::{Hash, Pubkey, Signature, Txn};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::is_send;

const FEE: u64 = 5_000;
const IDENTITY: [u8; 32] = [77; 32];
const DEAD: [u8; 32] = [78; 32];
const BEHIND: i64 = -32005;

/// How the node misbehaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// Time between slots, in milliseconds.
    pub slot_ms: u64,
    /// Blocks that a blockhash lives for; 0 means 150.
    pub life: u64,
    /// Every nth received transaction is forgotten; 0 means none.
    pub forgets_every: u64,
    /// Forgets all transactions with a blockhash from before the first one arrived, or from this many blocks after it.
    pub deaf_for: u64,
    /// Reports over RPC that those were not accepted: that it is behind, or, once their blockhash has expired, that it
    /// does not know it.
    pub says_so: bool,
    /// Every nth sending request is carried out and never answered; 0 means none.
    pub answer_lost_every: u64,
    /// After the first transaction every nth answer breaks off; 0 means none.
    pub half_every: u64,
    /// Every nth sending request gets status 429; 0 means none.
    pub busy_every: u64,
    /// Every nth transaction sent over RPC is refused; 0 means none.
    pub refuses_every: u64,
    /// Every nth transaction sent over RPC is refused for lack of room, and accepted nevertheless; 0 means none.
    pub refuses_and_takes_every: u64,
    /// Every nth request gets status 429, except those for the node's identity; 0 means none.
    pub turns_away_every: u64,
    /// Longer requests get status 413; 0 means 50 KiB.
    pub request_bytes_max: usize,
    /// The first leader ignores everything.
    pub dead_leader: bool,
    /// The first airdrop is granted, and never answered.
    pub airdrop_unanswered: bool,
    /// The first airdrop is promised, and is in no block.
    pub airdrop_lost: bool,
    /// Every nth transaction in blocks fails; 0 means none.
    pub fails_every: u64,
    /// Every nth slot has no block; 0 means none.
    pub skips_every: u64,
    /// After this many non-empty blocks were read, nothing is answered any more; 0 means never.
    pub dies_after: u64,
    /// Answers sent transactions with a wrong signature.
    pub lies: bool,
    /// Refuses every request for an airdrop.
    pub no_airdrop: bool,
    /// Byte that identifies its genesis.
    pub genesis: u8,
}

struct Block {
    height: u64,
    hash: Hash,
    parent: Hash,
    transactions: Vec<(Signature, Pubkey, bool)>,
    is_read: bool,
}

/// State of the chain and of the node's misbehaviour.
pub struct World {
    manners: Manners,
    slot: u64,
    blocks: BTreeMap<u64, Block>,
    /// The height of the block of each blockhash.
    heights: HashMap<Hash, u64>,
    height: u64,
    tip: Hash,
    balances: HashMap<Pubkey, u64>,
    waiting: Vec<Vec<u8>>,
    landed: HashMap<Signature, bool>,
    /// Executed messages without their blockhash, and how often each was executed.
    done: HashMap<Vec<u8>, u64>,
    taken: u64,
    answers: u64,
    sends: u64,
    executed: u64,
    airdrops: u64,
    requests: u64,
    /// The height when the first transaction arrived.
    first_taken: Option<u64>,
    is_dead: bool,
    tpu: String,
    /// The socket of the dead leader.
    silent: UdpSocket,
}

/// A node that listens on a port of its own.
pub struct Stub {
    /// URL of the node.
    pub url: String,
    world: Arc<Mutex<World>>,
    _end: Sender<()>,
}

fn hash_of(slot: u64) -> Hash {
    let mut hash = [9; 32];
    hash[..8].copy_from_slice(&slot.to_le_bytes());
    hash
}

impl Stub {
    /// Starts a node on which the accounts `rich` have a large balance.
    pub fn start(manners: Manners, rich: &[Pubkey]) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let genesis = Block { height: 0, hash: hash_of(0), parent: [0; 32], transactions: vec![], is_read: false };
        let world = Arc::new(Mutex::new(World {
            manners,
            slot: 0,
            blocks: BTreeMap::from([(0, genesis)]),
            heights: HashMap::from([(hash_of(0), 0)]),
            height: 0,
            tip: hash_of(0),
            balances: rich.iter().map(|key| (*key, 1_000_000_000_000)).collect(),
            waiting: vec![],
            landed: HashMap::new(),
            done: HashMap::new(),
            taken: 0,
            answers: 0,
            sends: 0,
            executed: 0,
            airdrops: 0,
            requests: 0,
            first_taken: None,
            is_dead: false,
            silent: UdpSocket::bind("127.0.0.1:0").unwrap(),
            tpu: socket.local_addr().unwrap().to_string(),
        }));
        let (end, ended) = channel();
        let chain = world.clone();
        thread::spawn(move || {
            let pause = Duration::from_millis(manners.slot_ms.max(5));
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                chain.lock().advance();
            }
        });
        let chain = Arc::downgrade(&world);
        thread::spawn(move || {
            let mut server = Server::new(ServerConfig::local(), &[1; 32], &[2; 32], Instant::now()).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
            let mut buffer = vec![0; 65_536];
            while let Some(chain) = chain.upgrade() {
                let received = socket.recv_from(&mut buffer);
                let now = Instant::now();
                if let Ok((length, from)) = received {
                    server.handle_datagram(now, from, None, &buffer[..length]);
                }
                server.handle_timeout(now);
                while let Some(raw) = server.poll_transaction(now, |_, raw| raw.to_vec()) {
                    chain.lock().take(raw);
                }
                while let Some(transmit) = server.poll_transmit(now, &mut buffer) {
                    let _ = socket.send_to(&buffer, transmit.to);
                }
                buffer.resize(65_536, 0);
            }
        });
        let chain = world.clone();
        let url = http::serve(move |body| answer(&chain, body));
        Self { url, world, _end: end }
    }

    /// Reads the chain's state.
    pub fn with<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.world.lock())
    }
}

fn every(count: u64, each: u64) -> bool {
    each > 0 && count % each == 0
}

fn answer(world: &Mutex<World>, body: &[u8]) -> Reply {
    let request: Value = serde_json::from_slice(body).unwrap();
    let mut world = world.lock();
    let manners = world.manners;
    // Agave's limit.
    let bytes_max = if manners.request_bytes_max == 0 { 50 << 10 } else { manners.request_bytes_max };
    if body.len() > bytes_max {
        return Reply::Status(413);
    }
    if world.is_dead {
        return Reply::Silence;
    }
    let asks_who = ["eth_chainId", "getVersion", "getIdentity"].iter().any(|method| request["method"] == *method);
    world.requests += u64::from(!asks_who);
    if !asks_who && every(world.requests, manners.turns_away_every) {
        return Reply::Status(429);
    }
    let sends = is_send(&request, "sendTransaction");
    world.sends += u64::from(sends);
    if sends && every(world.sends, manners.busy_every) {
        return Reply::Status(429);
    }
    let text = answered(&request, |method, params| world.call(method, params)).to_string();
    let is_airdrop = request["method"] == "requestAirdrop" && world.airdrops == 1;
    if sends && every(world.sends, manners.answer_lost_every) || is_airdrop && manners.airdrop_unanswered {
        return Reply::Silence;
    }
    world.answers += 1;
    if world.taken > 0 && every(world.answers, manners.half_every) { Reply::Half(text) } else { Reply::Answer(text) }
}

fn key_at(params: &Value) -> Pubkey {
    decode_32(params[0].as_str().unwrap()).unwrap()
}

impl World {
    fn life(&self) -> u64 {
        if self.manners.life == 0 { 150 } else { self.manners.life }
    }

    fn advance(&mut self) {
        self.slot += 1;
        if every(self.slot, self.manners.skips_every) {
            return;
        }
        self.height += 1;
        let mut transactions = vec![];
        for raw in std::mem::take(&mut self.waiting) {
            transactions.extend(self.execute(&raw));
        }
        let (hash, parent) = (hash_of(self.slot), self.tip);
        self.heights.insert(hash, self.height);
        self.blocks.insert(self.slot, Block { height: self.height, hash, parent, transactions, is_read: false });
        self.tip = hash;
    }

    /// Receives a transaction. Returns whether it was accepted.
    fn take(&mut self, raw: Vec<u8>) -> bool {
        self.taken += 1;
        let deaf_to = self.first_taken.get_or_insert(self.height).saturating_add(self.manners.deaf_for);
        let is_deaf = self.manners.deaf_for > 0 && self.height_named(&raw) <= deaf_to;
        if !every(self.taken, self.manners.forgets_every) && !is_deaf {
            self.waiting.push(raw);
        }
        !is_deaf
    }

    /// The height of the block whose hash a transaction names.
    fn height_named(&self, raw: &[u8]) -> u64 {
        self.heights.get(Txn::parse(raw).unwrap().recent_blockhash()).copied().unwrap_or_default()
    }

    fn execute(&mut self, raw: &[u8]) -> Option<(Signature, Pubkey, bool)> {
        let txn = Txn::parse(raw).unwrap();
        let (signature, payer) = (*txn.first_signature(), *txn.fee_payer());
        let height = *self.heights.get(txn.recent_blockhash())?;
        if self.landed.contains_key(&signature) || self.height > height + self.life() {
            return None;
        }
        self.executed += 1;
        let fails = every(self.executed, self.manners.fails_every);
        *self.balances.entry(payer).or_default() -= FEE;
        for instruction in txn.instructions().filter(|_| !fails) {
            let keys = txn.account_keys();
            if keys[usize::from(instruction.program_id_index)] != [0; 32] {
                continue;
            }
            let [from, to] = [0, 1].map(|i| keys[usize::from(instruction.accounts[i])]);
            if let Some(SystemInstruction::Transfer { lamports }) = SystemInstruction::decode(instruction.data) {
                *self.balances.get_mut(&from).unwrap() -= lamports;
                *self.balances.entry(to).or_default() += lamports;
            }
        }
        let mut message = txn.message().to_vec();
        let at = message.windows(32).position(|window| window == txn.recent_blockhash()).unwrap();
        message[at..at + 32].fill(0);
        *self.done.entry(message).or_default() += 1;
        self.landed.insert(signature, fails);
        Some((signature, payer, fails))
    }

    /// Returns the number of transactions in blocks.
    pub fn landed(&self) -> usize {
        self.landed.len()
    }

    /// Returns the most often that any message was executed, by accounts, amounts and programs.
    pub fn most_often(&self) -> u64 {
        self.done.values().copied().max().unwrap_or_default()
    }

    /// Returns the number of airdrops granted.
    pub fn airdrops(&self) -> u64 {
        self.airdrops
    }

    /// Returns an account's balance.
    pub fn balance(&self, key: &Pubkey) -> u64 {
        self.balances.get(key).copied().unwrap_or_default()
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value, Refusal> {
        let text = |hash: &Hash| encode_32(hash).to_string();
        Ok(match method {
            "getVersion" => json!({ "solana-core": "0.0.1", "feature-set": 1 }),
            "getIdentity" => json!({ "identity": text(&IDENTITY) }),
            "getHealth" => json!("ok"),
            "getGenesisHash" => json!(text(&[self.manners.genesis; 32])),
            "getEpochInfo" if params[0]["commitment"] == "confirmed" => json!({ "epoch": 3 }),
            "getSlot" => json!(self.slot),
            "getBlockHeight" => json!(self.height),
            "getTransactionCount" => json!(self.landed.len()),
            "getSlotLeaders" if self.manners.dead_leader => json!([text(&DEAD), text(&DEAD), text(&IDENTITY)]),
            "getSlotLeaders" => json!([text(&IDENTITY)]),
            "getClusterNodes" => {
                let silent = self.silent.local_addr().unwrap().to_string();
                let dead = json!({ "pubkey": text(&DEAD), "tpuQuic": silent });
                json!([{ "pubkey": text(&IDENTITY), "tpuQuic": self.tpu }, dead])
            }
            "getMinimumBalanceForRentExemption" => json!(2_000_000),
            "getFeeForMessage" => json!({ "value": FEE }),
            "getLatestBlockhash" => {
                let last_valid = self.height + self.life();
                json!({ "value": { "blockhash": text(&self.tip), "lastValidBlockHeight": last_valid } })
            }
            "getMultipleAccounts" => {
                let account = |key: &Value| {
                    let lamports = self.balance(&decode_32(key.as_str().unwrap()).unwrap());
                    if lamports == 0 { Value::Null } else { json!({ "lamports": lamports }) }
                };
                json!({ "value": params[0].as_array().unwrap().iter().map(account).collect::<Vec<_>>() })
            }
            "getAccountInfo" => json!({ "value": { "lamports": self.balance(&key_at(params)), "space": 0 } }),
            "requestAirdrop" if !self.manners.no_airdrop => {
                let is_lost = self.airdrops == 0 && self.manners.airdrop_lost;
                let lamports = if is_lost { 0 } else { params[1].as_u64().unwrap() };
                *self.balances.entry(key_at(params)).or_default() += lamports;
                self.airdrops += 1;
                json!(encode_64(&[1; 64]).to_string())
            }
            "getSignatureStatuses" => {
                let texts: HashSet<_> =
                    params[0].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
                let known: HashMap<String, bool> =
                    self.landed.iter().map(|(signature, fails)| (encode_64(signature).to_string(), *fails)).collect();
                assert!(texts.len() <= 256, "a node tells of 256 at once");
                let status = |text: &Value| match known.get(text.as_str().unwrap()) {
                    None => Value::Null,
                    Some(true) => json!({ "err": "AccountNotFound", "confirmationStatus": "confirmed" }),
                    Some(false) => json!({ "err": null, "confirmationStatus": "confirmed" }),
                };
                json!({ "value": params[0].as_array().unwrap().iter().map(status).collect::<Vec<_>>() })
            }
            "getBlocks" => {
                let range = params[0].as_u64().unwrap()..=params[1].as_u64().unwrap();
                json!(self.blocks.range(range).map(|(slot, _)| slot).collect::<Vec<_>>())
            }
            "getBlock" => self.block(params)?,
            "sendTransaction" => self.send(params)?,
            other => return Err((-32601, format!("Method not found: {other}"))),
        })
    }

    fn block(&mut self, params: &Value) -> Result<Value, Refusal> {
        let slot = params[0].as_u64().unwrap();
        let read = self.blocks.values().filter(|block| block.is_read).count() as u64;
        let block = self.blocks.get_mut(&slot).ok_or((-32007, format!("Slot {slot} was skipped")))?;
        block.is_read = !block.transactions.is_empty();
        self.is_dead = self.manners.dies_after > 0 && read >= self.manners.dies_after;
        let mut result = json!({
            "blockhash": encode_32(&block.hash).to_string(),
            "previousBlockhash": encode_32(&block.parent).to_string(),
            "blockHeight": block.height,
            "blockTime": slot,
        });
        if params[1]["transactionDetails"] == "signatures" {
            result["signatures"] = block.transactions.iter().map(|one| json!(encode_64(&one.0).to_string())).collect();
        } else {
            let one = |(_, payer, fails): &(Signature, Pubkey, bool)| {
                let error = if *fails { json!("AccountNotFound") } else { Value::Null };
                let keys = json!([{ "pubkey": encode_32(payer).to_string(), "signer": true }]);
                json!({ "transaction": { "accountKeys": keys }, "meta": { "err": error } })
            };
            result["transactions"] = block.transactions.iter().map(one).collect();
        }
        Ok(result)
    }

    fn send(&mut self, params: &Value) -> Result<Value, Refusal> {
        let raw = STANDARD.decode(params[0].as_str().unwrap()).unwrap();
        let signature = *Txn::parse(&raw).unwrap().first_signature();
        if every(self.taken + 1, self.manners.refuses_every) {
            self.taken += 1;
            return Err((-32003, "Transaction signature verification failure".into()));
        }
        let refuses_and_takes = every(self.taken + 1, self.manners.refuses_and_takes_every);
        let expired = self.height > self.height_named(&raw) + self.life();
        match self.take(raw) {
            false if self.manners.says_so && expired => return Err((-32002, "Blockhash not found".into())),
            false if self.manners.says_so => return Err((BEHIND, "Node is behind by 42 slots".into())),
            _ if refuses_and_takes => return Err((BEHIND, "Node is behind by 42 slots".into())),
            _ => {}
        }
        let result = if self.manners.lies { [3; 64] } else { signature };
        Ok(json!(encode_64(&result).to_string()))
    }
}
