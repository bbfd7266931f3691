//! A sink that speaks Ethereum's JSON-RPC, and the run against it.
//!
//! reads   raw transactions
//! writes  their hashes; a block of them every 100 ms
//! memory  the transaction hashes

use std::fmt::Write;
use std::time::Duration;

use alloy_primitives::{B256, hex, keccak256};
use hearth_load::account::generate;
use hearth_load::ethereum::node::connect;
use hearth_load::ethereum::run::drive;
use hearth_load::ethereum::workload::{Contracts, Kind};
use hearth_load::report::Report;
use hearth_load::series::Pool;
use hearth_testkit::http::{self, Reply};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::asked;
use crate::sink::{self, Sink, live, pin};

const ACCOUNTS: usize = 2_000;
/// Transactions signed in advance per account: 300,000 in all.
const PRESIGN: u64 = 150;

type Chain = Mutex<sink::Chain<B256>>;

/// Main function of the sink process.
pub fn sink() {
    pin(1);
    let chain = Mutex::new(sink::Chain::new());
    live(&http::serve(move |body| answer(&chain, body)));
}

const PARAMETER: &[u8] = b"\"params\":[\"0x";

fn answer(chain: &Chain, body: &[u8]) -> Reply {
    if body.starts_with(b"[") && body.windows(22).take(80).any(|window| window == b"eth_sendRawTransaction") {
        return take(chain, body);
    }
    sink::answer(body, |method, params| result(chain, method, params))
}

/// Accepts a batch. Its requests are in order, with ids from 0.
fn take(chain: &Chain, body: &[u8]) -> Reply {
    let (mut rest, mut hashes) = (body, vec![]);
    while let Some(at) = rest.windows(PARAMETER.len()).position(|window| window == PARAMETER) {
        rest = &rest[at + PARAMETER.len()..];
        let end = rest.iter().position(|byte| *byte == b'"').expect("a whole request");
        hashes.push(keccak256(hex::decode(&rest[..end]).expect("hexadecimal digits")));
        rest = &rest[end..];
    }
    let mut text = String::new();
    for (id, hash) in hashes.iter().enumerate() {
        let first = if id == 0 { '[' } else { ',' };
        write!(text, r#"{first}{{"jsonrpc":"2.0","id":{id},"result":"{hash}"}}"#).expect("a string takes all");
    }
    text.push(']');
    chain.lock().take(&mut hashes);
    Reply::Answer(text)
}

fn result(chain: &Chain, method: &str, params: &Value) -> Option<Value> {
    let mut chain = chain.lock();
    let last = chain.advance();
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

/// Runs for four seconds and measures the last three.
pub fn run(rate: Option<f64>) -> Report {
    let sink = Sink::start("sink-http");
    let accounts = generate(ACCOUNTS).expect("random bytes");
    let node = connect(&sink.url, Duration::from_secs(10)).expect("the sink answers");
    let mut asked = asked(&sink.url, Kind::Transfer, 2, PRESIGN, rate);
    asked.timing.beside.pool = Pool::of(&sink.url, None).expect("the sink answers");
    drive(&asked, &node, Contracts::default(), &accounts, &|| false, |_| {}).expect("the sink takes all")
}
