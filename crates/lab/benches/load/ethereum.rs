//! A sink that speaks Ethereum's JSON-RPC, and the run against it.
//!
//! reads   raw transactions
//! writes  their hashes; a block of them every 100 ms
//! memory  the hashes

use std::sync::Mutex;
use std::time::{Duration, Instant};

use alloy_primitives::{B256, hex, keccak256};
use hearth_lab::load::account::generate;
use hearth_lab::load::report::Report;
use hearth_lab::load::run::{Asked, connect, drive};
use hearth_lab::load::sender::Pace;
use hearth_lab::load::workload::{Contracts, Kind};
use serde_json::{Value, json};

use crate::http;
use crate::sink::{Sink, live, pin};

const BLOCK_EVERY: Duration = Duration::from_millis(100);
const ACCOUNTS: usize = 2_000;
/// Signed ahead of each account: 300,000 in all.
const PRESIGN: u64 = 150;

struct Chain {
    began: Instant,
    blocks: Vec<Vec<B256>>,
    waiting: Vec<B256>,
}

impl Chain {
    /// Makes the blocks that time has come for.
    fn advance(&mut self) {
        let due = (self.began.elapsed().as_millis() / BLOCK_EVERY.as_millis()) as usize;
        if self.blocks.len() <= due {
            self.blocks.push(std::mem::take(&mut self.waiting));
            self.blocks.resize(due + 1, vec![]);
        }
    }
}

/// The sink's process.
pub fn sink() {
    pin(1);
    let chain = Mutex::new(Chain { began: Instant::now(), blocks: vec![vec![]], waiting: vec![] });
    live(&http::serve(move |body, out| answer(&chain, body, out)));
}

const PARAMETER: &[u8] = b"\"params\":[\"0x";

fn answer(chain: &Mutex<Chain>, body: &[u8], out: &mut Vec<u8>) {
    if body.starts_with(b"[") && body.windows(22).take(80).any(|window| window == b"eth_sendRawTransaction") {
        return take(chain, body, out);
    }
    let request: Value = serde_json::from_slice(body).expect("JSON");
    let one = |question: &Value| {
        let id = &question["id"];
        match result(chain, question["method"].as_str().unwrap_or_default(), &question["params"]) {
            Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            None => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "not here" } }),
        }
    };
    let text = match request.as_array() {
        Some(questions) => Value::from(questions.iter().map(one).collect::<Vec<_>>()),
        None => one(&request),
    };
    serde_json::to_writer(out, &text).expect("a vector takes all");
}

/// Takes a batch: the questions stand in order, with ids from 0.
fn take(chain: &Mutex<Chain>, body: &[u8], out: &mut Vec<u8>) {
    let (mut rest, mut hashes) = (body, vec![]);
    while let Some(at) = rest.windows(PARAMETER.len()).position(|window| window == PARAMETER) {
        rest = &rest[at + PARAMETER.len()..];
        let end = rest.iter().position(|byte| *byte == b'"').expect("a whole request");
        hashes.push(keccak256(hex::decode(&rest[..end]).expect("hexadecimal digits")));
        rest = &rest[end..];
    }
    for (id, hash) in hashes.iter().enumerate() {
        out.extend_from_slice(if id == 0 { b"[" } else { b"," });
        out.extend_from_slice(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"0x").as_bytes());
        out.extend_from_slice(hex::encode(hash).as_bytes());
        out.extend_from_slice(b"\"}");
    }
    out.push(b']');
    let mut chain = chain.lock().expect("nobody panics with it");
    chain.advance();
    chain.waiting.extend(hashes);
}

fn result(chain: &Mutex<Chain>, method: &str, params: &Value) -> Option<Value> {
    let mut chain = chain.lock().expect("nobody panics with it");
    chain.advance();
    let last = chain.blocks.len() - 1;
    Some(match method {
        "eth_chainId" | "eth_maxPriorityFeePerGas" => json!("0x1"),
        "web3_clientVersion" => json!("sink"),
        "eth_getTransactionCount" => json!("0x0"),
        "eth_blockNumber" => json!(format!("{last:#x}")),
        "eth_getBlockByNumber" => {
            let digits = params[0].as_str().and_then(|text| text.strip_prefix("0x"));
            let number = digits.map_or(last, |digits| usize::from_str_radix(digits, 16).expect("a number"));
            let Some(hashes) = chain.blocks.get(number) else { return Some(Value::Null) };
            let hash_of = |number: usize| keccak256(number.to_be_bytes());
            json!({
                "hash": hash_of(number),
                "parentHash": hash_of(number.wrapping_sub(1)),
                "timestamp": "0x0",
                "gasUsed": "0x0",
                "gasLimit": "0x1",
                "transactions": hashes,
            })
        }
        _ => return None,
    })
}

/// A run of four seconds, of which three count.
pub fn run(rate: Option<f64>) -> Report {
    let sink = Sink::start("sink-http");
    let accounts = generate(ACCOUNTS).expect("random bytes");
    let node = connect(&sink.url, Duration::from_secs(10)).expect("the sink answers");
    let asked = Asked {
        networks: vec![sink.url.clone()],
        timeout: Duration::from_secs(10),
        mix: Kind::Transfer.into(),
        senders: 2,
        pace: Pace { rate, batch: 100, under_way: 1_000_000, count: None, presign: PRESIGN },
        warmup: Duration::from_secs(1),
        duration: Duration::from_secs(3),
        pids: vec![],
        comet: None,
        profile: None,
    };
    drive(&asked, &node, Contracts::default(), &accounts, &|| false, |_| {}).expect("the sink takes all")
}
