//! A sink that takes transactions as a TPU does and tells of them by Solana's JSON-RPC, and the run against it.
//!
//! reads   transactions over QUIC
//! writes  a block of their signatures every 100 ms
//! memory  the signatures

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hearth_lab::load::course::{Beside, Pace, Timing};
use hearth_lab::load::report::Report;
use hearth_lab::load::rpc::Rpc;
use hearth_lab::load::solana::Node;
use hearth_lab::load::solana::keys::generate;
use hearth_lab::load::solana::run::{Asked, drive};
use hearth_lab::load::solana::workload::Kind;
use hearth_quic::{Server, ServerConfig};
use hearth_tile::sys::event::{EventFd, wait_readable};
use hearth_tile::sys::udp::{Message, Options, RecvBatch, Sharing, UdpSocket};
use hearth_wire::Signature;
use hearth_wire::base58::{encode_32, encode_64};
use serde_json::{Value, json};

use crate::http;
use crate::sink::{Sink, live, pin};

const SLOT: Duration = Duration::from_millis(100);
const ACCOUNTS: usize = 2_000;
/// Signed ahead of each account: 700,000 in all.
const PRESIGN: u64 = 350;

struct Chain {
    began: Instant,
    blocks: Vec<Vec<Signature>>,
    waiting: Vec<Signature>,
    tpu: SocketAddr,
}

impl Chain {
    /// Makes the blocks that time has come for.
    fn advance(&mut self) {
        let due = (self.began.elapsed().as_millis() / SLOT.as_millis()) as usize;
        if self.blocks.len() <= due {
            self.blocks.push(std::mem::take(&mut self.waiting));
            self.blocks.resize(due + 1, vec![]);
        }
    }
}

/// The sink's process.
pub fn sink() {
    pin(1);
    let options = Options { sharing: Sharing::None, buffer_bytes: 4 << 20 };
    let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), options).expect("a port");
    let tpu = socket.local_addr();
    let chain = Arc::new(Mutex::new(Chain { began: Instant::now(), blocks: vec![vec![]], waiting: vec![], tpu }));
    let taken = chain.clone();
    thread::spawn(move || take(&socket, &taken));
    live(&http::serve(move |body, out| answer(&chain, body, out)));
}

/// Takes transactions as long as the process lives.
fn take(socket: &UdpSocket, chain: &Mutex<Chain>) {
    let config = ServerConfig { streams_concurrent: 8_192, ..ServerConfig::local() };
    let mut server = Server::new(config, &[1; 32], &[2; 32], Instant::now()).expect("a server with these settings");
    let (event, mut received) = (EventFd::new().expect("an event"), RecvBatch::new(16));
    let (mut buffer, mut signatures) = (Vec::with_capacity(64 << 10), vec![]);
    loop {
        let now = Instant::now();
        let count = socket.receive(&mut received).expect("the socket receives");
        for (from, data) in received.datagrams() {
            server.handle_datagram(now, from, None, data);
        }
        server.handle_timeout(now);
        let signature_of = |raw: &[u8]| -> Signature { raw[1..65].try_into().expect("a whole transaction") };
        while let Some(signature) = server.poll_transaction(now, |_, raw| signature_of(raw)) {
            signatures.push(signature);
        }
        while let Some(transmit) = server.poll_transmit(now, &mut buffer) {
            let segment = transmit.segment_size.map(|size| size as u16);
            let _ = socket.send(&[Message { to: transmit.to, data: &buffer, segment }]);
        }
        if !signatures.is_empty() {
            let mut chain = chain.lock().expect("nobody panics with it");
            chain.advance();
            chain.waiting.append(&mut signatures);
        }
        if count == 0 {
            wait_readable(&event, &[socket.raw_fd()], 1_000_000);
        }
    }
}

fn answer(chain: &Mutex<Chain>, body: &[u8], out: &mut Vec<u8>) {
    let question: Value = serde_json::from_slice(body).expect("JSON");
    let found = result(chain, question["method"].as_str().unwrap_or_default(), &question["params"]);
    let text = match found {
        Some(result) => json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }),
        None => json!({ "jsonrpc": "2.0", "id": question["id"], "error": { "code": -32601, "message": "not here" } }),
    };
    serde_json::to_writer(out, &text).expect("a vector takes all");
}

fn hash_of(slot: usize) -> String {
    let mut hash = [9; 32];
    hash[..8].copy_from_slice(&slot.to_le_bytes());
    encode_32(&hash).to_string()
}

fn result(chain: &Mutex<Chain>, method: &str, params: &Value) -> Option<Value> {
    let mut chain = chain.lock().expect("nobody panics with it");
    chain.advance();
    let last = chain.blocks.len() - 1;
    let number = |index: usize| params[index].as_u64().map_or(last, |slot| slot as usize);
    Some(match method {
        "getVersion" => json!({ "solana-core": "sink" }),
        "getIdentity" => json!({ "identity": hash_of(0) }),
        "getSlot" | "getBlockHeight" => json!(last),
        "getSlotLeaders" => json!([hash_of(0)]),
        "getClusterNodes" => json!([{ "pubkey": hash_of(0), "tpuQuic": chain.tpu.to_string() }]),
        "getLatestBlockhash" => {
            json!({ "value": { "blockhash": hash_of(last), "lastValidBlockHeight": last + 600 } })
        }
        "getBlocks" => (number(0)..=number(1).min(last)).collect(),
        "getBlock" if params[1]["transactionDetails"] == "signatures" => {
            let slot = number(0);
            let block = chain.blocks.get(slot)?.clone();
            // Whoever takes transactions does not wait for their texts.
            drop(chain);
            let texts: Vec<_> = block.iter().map(|one| encode_64(one).to_string()).collect();
            json!({
                "blockhash": hash_of(slot),
                "previousBlockhash": hash_of(slot.wrapping_sub(1)),
                "blockHeight": slot,
                "blockTime": 0,
                "signatures": texts,
            })
        }
        _ => return None,
    })
}

/// A run of four seconds, of which three count.
pub fn run(rate: Option<f64>) -> Report {
    let sink = Sink::start("sink-quic");
    let accounts = generate(ACCOUNTS).expect("random bytes");
    let rpc = Rpc::new(&sink.url, Duration::from_secs(10)).expect("an address");
    let node = Node::ask(rpc).expect("the sink answers");
    let asked = Asked {
        networks: vec![sink.url.clone()],
        timeout: Duration::from_secs(10),
        mix: Kind::Transfer.into(),
        senders: 1,
        pace: Pace { rate, batch: 100, under_way: 1_000_000, count: None, presign: PRESIGN },
        timing: Timing {
            warmup: Duration::from_secs(1),
            duration: Duration::from_secs(3),
            pids: vec![],
            beside: Beside::default(),
        },
        rpc_send: false,
        tpu: None,
    };
    drive(&asked, &node, &[], &accounts, &|| false, |_| {}).expect("the sink takes all")
}
