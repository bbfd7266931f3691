//! A sink that accepts transactions like a TPU and serves their blocks over Solana's JSON-RPC, and the run against it.
//!
//! reads   transactions over QUIC
//! writes  a block of their signatures every 100 ms
//! memory  the signatures

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hearth_load::report::Report;
use hearth_load::rpc::Rpc;
use hearth_load::solana::Node;
use hearth_load::solana::keys::generate;
use hearth_load::solana::run::{SendVia, drive};
use hearth_load::solana::workload::Kind;
use hearth_quic::{Server, ServerConfig};
use hearth_testkit::http;
use hearth_tile::sys::event::{EventFd, wait_readable};
use hearth_tile::sys::udp::{Message, Options, PortSharing, RecvBatch, UdpSocket};
use hearth_wire::Signature;
use hearth_wire::base58::{encode_32, encode_64};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::asked;
use crate::sink::{self, Sink, live, pin};

const ACCOUNTS: usize = 2_000;
/// Transactions signed in advance per account: 700,000 in all.
const PRESIGN: u64 = 350;

type Chain = Mutex<sink::Chain<Signature>>;

/// Main function of the sink process.
pub fn sink() {
    pin(1);
    let options = Options { sharing: PortSharing::None, buffer_bytes: 4 << 20 };
    let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), options).expect("a port");
    let tpu = socket.local_addr();
    let chain = Arc::new(Mutex::new(sink::Chain::new()));
    let taken = chain.clone();
    thread::spawn(move || take(&socket, &taken));
    live(&http::serve(move |body| sink::answer(body, |method, params| result(&chain, tpu, method, params))));
}

/// Accepts transactions until the process ends.
fn take(socket: &UdpSocket, chain: &Chain) {
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
            chain.lock().take(&mut signatures);
        }
        if count == 0 {
            wait_readable(&event, &[socket.raw_fd()], 1_000_000);
        }
    }
}

fn hash_of(slot: usize) -> String {
    let mut hash = [9; 32];
    hash[..8].copy_from_slice(&slot.to_le_bytes());
    encode_32(&hash).to_string()
}

fn result(chain: &Chain, tpu: SocketAddr, method: &str, params: &Value) -> Option<Value> {
    let mut chain = chain.lock();
    let last = chain.advance();
    let number = |index: usize| params[index].as_u64().map_or(last, |slot| slot as usize);
    Some(match method {
        "getVersion" => json!({ "solana-core": "sink" }),
        "getIdentity" => json!({ "identity": hash_of(0) }),
        "getSlot" | "getBlockHeight" => json!(last),
        "getSlotLeaders" => json!([hash_of(0)]),
        "getClusterNodes" => json!([{ "pubkey": hash_of(0), "tpuQuic": tpu.to_string() }]),
        "getLatestBlockhash" => {
            json!({ "value": { "blockhash": hash_of(last), "lastValidBlockHeight": last + 600 } })
        }
        "getBlocks" => (number(0)..=number(1).min(last)).collect(),
        "getBlock" if params[1]["transactionDetails"] == "signatures" => {
            let slot = number(0);
            let block = chain.blocks.get(slot)?.clone();
            // Unlock before encoding, so that the receiving thread does not wait for it.
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

/// Runs for four seconds and measures the last three.
pub fn run(rate: Option<f64>) -> Report {
    let sink = Sink::start("sink-quic");
    let accounts = generate(ACCOUNTS).expect("random bytes");
    let rpc = Rpc::new(&sink.url, Duration::from_secs(10)).expect("an address");
    let node = Node::ask(rpc).expect("the sink answers");
    let asked = asked(&sink.url, Kind::Transfer, 1, PRESIGN, rate);
    drive(&asked, SendVia::Leaders, &node, &[], &accounts, &|| false, |_| {}).expect("the sink takes all")
}
