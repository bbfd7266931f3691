//! Measures the RPC's throughput, and its latency at a steady 200 requests a second.
//!
//! `cargo bench -p hearth-rpc --bench rpc [ADDRESS]`: without an address the bench starts a server in this process, on
//! a small chain; with an `ip:port` it measures that running node, for example while `hearth bench` loads it. The
//! client shares the same cores. With `HEARTH_ACCOUNTS=N` it also compares getAccountInfo among N accounts with a small
//! store.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearth_ledger::genesis::funded_account_key;
use hearth_ledger::{Account, DropTable, Genesis, GenesisConfig, Ledger, LedgerConfig};
use hearth_rpc::{Busy, RpcConfig, RpcNode, RpcServer, TransactionInlet};
use hearth_testkit::http::{connect, read_answer, write_post};
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;

/// Connections of the throughput test. Each keeps [`PIPELINED`] requests in flight.
const CONNECTIONS: usize = 4;
const PIPELINED: usize = 16;
const FAST_FOR: Duration = Duration::from_secs(3);
/// Requests sent at the steady rate.
const STEADY: usize = 1_000;
/// Accounts of the small store in the comparison; `TURNS` is the number of requests to each store.
const FEW: u64 = 10_000;
const TURNS: u64 = 20_000;
const STEADY_EVERY: Duration = Duration::from_millis(5);

struct Refusing;

impl TransactionInlet for Refusing {
    fn send(&mut self, _: &[u8], _: bool) -> Result<(), Busy> {
        Err(Busy)
    }
}

/// The address of account `n` of the chain.
fn address(n: u64) -> [u8; 32] {
    let mut address = [7; 32];
    address[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    address
}

fn server(accounts: u64) -> RpcServer {
    let key = |n| funded_account_key(n).public_key();
    let genesis = GenesisConfig::development(key(1), key(2), 0);
    let genesis = Genesis::create(genesis, |_| {}).expect("a chain");
    let ledger = Ledger::new(&genesis, LedgerConfig::default());
    (0..accounts).for_each(|n| ledger.accounts().store(&address(n), Account::wallet(1 + n)));
    ledger.begin_slot(1, 0).expect("the first slot");
    let faucet = funded_account_key(2);
    let node = RpcNode {
        ledger,
        inlet: Box::new(Refusing),
        identity: Box::new(|| funded_account_key(1).public_key()),
        faucet: key(2),
        chain_faucet: key(2),
        sign_as_faucet: Box::new(move |message| faucet.sign(message)),
        verify: |_| true,
        shred_version: 1,
        offer: Box::new(|_| None),
        cluster_nodes: Box::new(Vec::new),
        gossip: "127.0.0.1:8001".parse().unwrap(),
        tpu: ([127, 0, 0, 1], 9001).into(),
        tpu_quic: ([127, 0, 0, 1], 9007).into(),
        transaction_history: true,
        slot_ms: 400,
        counters: Arc::default(),
        blocks: None,
        feature_set: Some(7),
        call_for_slot: Box::new(|_| {}),
        admin: None,
        newest_snapshot: Box::new(|| None),
        liveness: Box::new(hearth_rpc::Liveness::default),
        look_at: Err("[rpc] dashboard"),
        history: None,
        fates: Arc::new(DropTable::new(0, 1)),
        began_unix_s: 1_000,
        genesis_time: 0,
        genesis_slot: 0,
    };
    RpcServer::start(RpcConfig::new(([127, 0, 0, 1], 0).into()), node).expect("a free port")
}

/// A keep-alive connection that pipelines requests.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: SocketAddr) -> Self {
        Self(BufReader::new(connect(address)))
    }

    fn send(&mut self, request: &[u8]) {
        self.0.get_mut().write_all(request).expect("the server takes it");
    }

    fn receive(&mut self) {
        let (_, body) = read_answer(&mut self.0);
        assert!(body.contains("\"result\""), "{body}");
    }
}

/// An HTTP request for `method` on one account.
fn request_of(method: &str, key: &Pubkey, commitment: &str) -> Vec<u8> {
    let key = encode_32(key).to_string();
    let options = format!(r#"{{"commitment":"{commitment}","encoding":"base64"}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":["{key}",{options}]}}"#);
    let mut request = vec![];
    write_post(&mut request, &body);
    request
}

fn request(method: &str) -> Vec<u8> {
    request_of(method, &funded_account_key(0).public_key(), "confirmed")
}

fn account_info(n: u64) -> Vec<u8> {
    request_of("getAccountInfo", &address(n), "processed")
}

/// Compares the median latency of getAccountInfo among `many` accounts with that among [`FEW`], in alternation.
fn many_accounts(many: u64) {
    let servers = [many, FEW].map(|count| (server(count), count));
    let mut clients = servers.each_ref().map(|(server, count)| (Client::new(server.local_addr()), *count, vec![]));
    for turn in 0..TURNS {
        for (client, count, took) in &mut clients {
            let request = account_info(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % *count);
            let started = Instant::now();
            client.send(&request);
            client.receive();
            took.push(started.elapsed());
        }
    }
    let p50 = clients.map(|(_, _, mut took)| {
        took.sort();
        took[took.len() / 2]
    });
    let ratio = p50[0].as_secs_f64() / p50[1].as_secs_f64();
    println!(
        "getAccountInfo p50 among {many} accounts {:?}, among {FEW} {:?}: {ratio:.2}×   at most 2×",
        p50[0], p50[1]
    );
}

fn fast(address: SocketAddr, method: &str, pipelined: usize) -> f64 {
    let started = Instant::now();
    let one = || {
        let (mut client, request) = (Client::new(address), request(method).repeat(pipelined));
        let mut answered = 0u64;
        while started.elapsed() < FAST_FOR {
            client.send(&request);
            (0..pipelined).for_each(|_| client.receive());
            answered += pipelined as u64;
        }
        answered
    };
    let answered: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(one)).collect();
        clients.into_iter().map(|client| client.join().expect("no panic")).sum()
    });
    answered as f64 / started.elapsed().as_secs_f64()
}

/// Sorted latencies at a steady rate, each measured from when its request was due.
fn steady(address: SocketAddr, method: &str) -> Vec<Duration> {
    let (mut client, request) = (Client::new(address), request(method));
    let started = Instant::now();
    let mut latencies: Vec<Duration> = (0..STEADY)
        .map(|n| {
            let due = started + STEADY_EVERY * n as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            client.send(&request);
            client.receive();
            due.elapsed()
        })
        .collect();
    latencies.sort();
    latencies
}

fn main() {
    let given = std::env::args().nth(1).filter(|argument| !argument.starts_with("--"));
    let address: Option<SocketAddr> = given.map(|text| text.parse().expect("ip:port"));
    let own = address.is_none().then(|| server(0));
    let address = address.unwrap_or_else(|| own.as_ref().expect("a server").local_addr());
    for method in ["getBalance", "getAccountInfo"] {
        let pipelined = fast(address, method, PIPELINED);
        println!("{method}, {CONNECTIONS} connections, {PIPELINED} requests under way: {pipelined:.0} /s");
        println!("{method}, {CONNECTIONS} connections, one request under way: {:.0} /s", fast(address, method, 1));
        let latencies = steady(address, method);
        let at = |part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize];
        println!("{method} at 200 /s: p50 {:?}, p99 {:?}, worst {:?}", at(0.5), at(0.99), at(1.0));
    }
    if let Ok(text) = std::env::var("HEARTH_ACCOUNTS") {
        many_accounts(text.parse().expect("a number"));
    }
}
