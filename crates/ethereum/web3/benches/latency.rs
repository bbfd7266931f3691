//! Measures common calls over HTTP on a chain with many accounts, and on one with ten thousand.
//!
//! reads   a number of accounts from the command line (1,000,000; the goal is of 10,000,000); `--turns N` (2,000)
//! writes  microseconds of each call on both chains, median and 99th percentile, and their ratios beside the goal
//! memory  both chains: some 250 B an account, and as much for its line of the genesis
//!
//! Each turn sends each call to both chains, over one connection to each, about accounts drawn from all. Every hundred
//! turns the chains make a block of the sent transactions. The token has as many holders as there are accounts, at most
//! a million. Client and servers share the cores.
//!
//! cargo bench -p hearth-web3 --bench latency [-- 10000000 --turns 2000]

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Instant;

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, U256, hex};
use hearth_crypto::keccak::{keccak256, keccak256_burst};
use hearth_crypto::secp256k1::Signer;
use hearth_evm::chain::{BlockTime, Chain, ChainConfig};
use hearth_evm::tx::Tx;
use hearth_evm_utxo::genesis;
use hearth_testkit::http::{connect, read_answer, write_post};
use hearth_testkit::random::Random;
use hearth_web3::{Config, Instruments, Server, serve};
use serde_json::json;

const CHAIN_ID: u64 = 31337;
const GWEI: u128 = 1_000_000_000;
const FEW: u64 = 10_000;
const HOLDERS_MAX: u64 = 1_000_000;
/// Turns between two blocks.
const BLOCK: usize = 100;
/// Maximum ratio of the times with many accounts and with few.
const GOAL: f64 = 2.0;
const TOKEN: Address = Address::repeat_byte(0x70);
/// Answers every call as `balanceOf`: returns the word at the hash of the argument and zero, where solc stores the
/// first mapping.
const CODE: [u8; 20] = hex!("6004355f525f60205260405f20545f5260205ff3");
const CALLS: [&str; 6] = [
    "eth_getBalance",
    "eth_getTransactionCount",
    "eth_call",
    "eth_getProof",
    "eth_estimateGas",
    "eth_sendRawTransaction",
];

/// Returns the address of account `number`.
fn address(number: u64) -> Address {
    Address::from_slice(&keccak256(&number.to_le_bytes())[..20])
}

/// Returns the sender of a turn's transaction.
fn sender(turn: usize) -> Signer {
    Signer::new(&keccak256(&[&b"sender"[..], &turn.to_le_bytes()].concat())).expect("a hash is a secret")
}

/// Returns the storage slots with the token balances of these accounts.
fn slots(numbers: std::ops::Range<u64>) -> Vec<B256> {
    let place = |number: u64| [B256::left_padding_from(address(number).as_slice()).0, [0; 32]].concat();
    let places: Vec<Vec<u8>> = numbers.map(place).collect();
    let mut slots = vec![[0; 32]; places.len()];
    keccak256_burst(&places.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut slots);
    slots.into_iter().map(B256::from).collect()
}

/// A chain, its server, and a client.
struct Node {
    chain: Chain,
    server: Server,
    connection: BufReader<TcpStream>,
    accounts: u64,
    random: Random,
    times: [Vec<f64>; CALLS.len()],
}

impl Node {
    fn new(accounts: u64, turns: usize) -> Self {
        let began = Instant::now();
        let senders = (0..turns).map(|turn| (sender(turn).address().into(), U256::from(10u128.pow(18))));
        let mut genesis = genesis::dev(CHAIN_ID, &senders.collect::<Vec<_>>(), 500_000_000);
        for number in 0..accounts {
            genesis.alloc.entry(address(number)).or_default().balance = U256::from(10u128.pow(18));
        }
        let token = genesis.alloc.entry(TOKEN).or_default();
        token.code = Some(Bytes::copy_from_slice(&CODE));
        let holders = slots(0..accounts.min(HOLDERS_MAX));
        let balances: BTreeMap<_, _> = holders.into_iter().map(|slot| (slot, B256::with_last_byte(7))).collect();
        token.storage = Some(balances);
        let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
        let chain = Chain::open(config).expect("a chain in memory");
        let server =
            serve(Config::new(([127, 0, 0, 1], 0).into()), chain.clone(), Instruments::default()).expect("a port");
        println!("{accounts} accounts after {:.1} s", began.elapsed().as_secs_f64());
        let (connection, times) = (BufReader::new(connect(server.address())), std::array::from_fn(|_| Vec::new()));
        Self { chain, server, connection, accounts, random: Random(accounts), times }
    }

    fn account(&mut self) -> Address {
        address(self.random.below(self.accounts))
    }

    /// Returns the request bodies of a turn, one for each call.
    fn bodies(&mut self, turn: usize) -> [String; CALLS.len()] {
        let holder = address(self.random.below(self.accounts.min(HOLDERS_MAX)));
        let balance_of = [&hex!("70a08231")[..], B256::left_padding_from(holder.as_slice()).as_slice()].concat();
        let transfer = TxEip1559 {
            chain_id: CHAIN_ID,
            gas_limit: 21_000,
            max_fee_per_gas: 10 * GWEI,
            max_priority_fee_per_gas: GWEI,
            to: self.account().into(),
            value: U256::from(1),
            ..Default::default()
        };
        let raw = hex::encode_prefixed(&Tx::signed(transfer.into(), &sender(turn)).raw);
        let params = [
            json!([self.account(), "latest"]),
            json!([self.account(), "latest"]),
            json!([{"to": TOKEN, "data": Bytes::from(balance_of)}, "latest"]),
            json!([self.account(), [], "latest"]),
            json!([{"from": self.account(), "to": self.account(), "value": "0x1"}]),
            json!([raw]),
        ];
        let mut params = params.into_iter();
        CALLS.map(|method| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params.next()}).to_string())
    }

    /// Sends a request and records the time until its answer.
    fn ask(&mut self, call: usize, body: &str) {
        let mut request = vec![];
        write_post(&mut request, body);
        let began = Instant::now();
        self.connection.get_mut().write_all(&request).expect("it listens");
        let (_, answer) = read_answer(&mut self.connection);
        self.times[call].push(began.elapsed().as_secs_f64() * 1e6);
        assert!(answer.contains("\"result\""), "{}: {answer}", CALLS[call]);
        let zero = call == 2 && answer.contains(&"0".repeat(64));
        assert!(!zero, "each holder has something");
    }
}

/// Returns the median and the 99th percentile.
fn median_and_p99(times: &[f64]) -> [f64; 2] {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    [sorted[sorted.len() / 2], sorted[(sorted.len() * 99 / 100).min(sorted.len() - 1)]]
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let (mut many, mut turns) = (1_000_000, 2_000);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--turns" => turns = args.next().and_then(|count| count.parse().ok()).expect("--turns N"),
            _ => many = arg.replace('_', "").parse().expect("a number of accounts"),
        }
    }
    let mut nodes = [Node::new(FEW, turns), Node::new(many, turns)];
    // The first node closed its idle connection while the second was created.
    nodes.iter_mut().for_each(|node| node.connection = BufReader::new(connect(node.server.address())));
    for turn in 0..turns {
        let bodies = nodes.each_mut().map(|node| node.bodies(turn));
        for call in 0..CALLS.len() {
            // Alternate the order: the second request finds the caches full of the first one's data.
            for at in [turn % 2, 1 - turn % 2] {
                nodes[at].ask(call, &bodies[at][call]);
            }
        }
        if turn % BLOCK == BLOCK - 1 {
            nodes.iter().for_each(|node| assert_eq!(node.chain.mine().expect("a block").txs.len(), BLOCK));
        }
    }
    println!("µs over HTTP, {FEW} accounts beside {many}, {turns} turns: median and 99th percentile");
    for (call, name) in CALLS.iter().enumerate() {
        let [few, many] = nodes.each_ref().map(|node| median_and_p99(&node.times[call]));
        let verdict = if many[0] / few[0] <= GOAL { "met" } else { "MISSED" };
        println!(
            "  {name:<24} {:>8.1} {:>8.1} {:>5.2}×   {:>8.1} {:>8.1} {:>5.2}×   goal {GOAL}× at most: {verdict}",
            few[0],
            many[0],
            many[0] / few[0],
            few[1],
            many[1],
            many[1] / few[1]
        );
    }
}
