//! Notifications over WebSocket.

use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;

use alloy_primitives::{TxKind, hex};
use hearth_evm::chain::BlockTime;
use hearth_testkit::wait_until;
use hearth_web3::Limits;
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::node::{DEADLINE, LOGS, Node, Plan, account, connect, word};

struct Client {
    socket: WebSocket<TcpStream>,
    notified: Vec<Value>,
}

impl Client {
    fn new(node: &Node) -> Self {
        let url = format!("ws://{}/", node.server.address());
        let (socket, _) = tungstenite::client(url, connect(&node.server)).unwrap();
        Self { socket, notified: Vec::new() }
    }

    fn read(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.read().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// Asks, and does not wait for the answer.
    fn begin(&mut self, id: u64, method: &str, params: Value) {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.socket.send(Message::text(request.to_string())).unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.socket.send(Message::text(request.to_string())).unwrap();
        loop {
            let message = self.read();
            if message.get("id").is_some() {
                return message;
            }
            self.notified.push(message);
        }
    }

    #[track_caller]
    fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Returns the next notification of a subscription.
    fn notified(&mut self, subscription: &Value) -> Value {
        loop {
            let is_it = |message: &Value| &message["params"]["subscription"] == subscription;
            if let Some(at) = self.notified.iter().position(is_it) {
                let message = self.notified.remove(at);
                assert_eq!(message["method"], "eth_subscription");
                return message["params"]["result"].clone();
            }
            let message = self.read();
            self.notified.push(message);
        }
    }
}

#[test]
fn heads_logs_and_pending_transactions_are_reported() {
    let node = Node::new(BlockTime::Manual);
    let mut client = Client::new(&node);
    assert_eq!(client.call("eth_chainId", json!([])), "0x7a69");
    let deploy = json!([{ "from": crate::node::account(1), "data": format!("0x{}", crate::node::creates(LOGS)) }]);
    let deployed = node.call("eth_sendTransaction", deploy);
    node.chain.mine().unwrap();
    let contract = node.receipt(&deployed)["contractAddress"].as_str().unwrap().to_owned();
    let heads = client.call("eth_subscribe", json!(["newHeads"]));
    let logs = client.call("eth_subscribe", json!(["logs", { "address": contract, "topics": [word(1)] }]));
    let others = client.call("eth_subscribe", json!(["logs", { "topics": [word(2)] }]));
    let hashes = client.call("eth_subscribe", json!(["newPendingTransactions"]));
    let whole = client.call("eth_subscribe", json!(["newPendingTransactions", true]));
    let snapshot = node.chain.snapshot();
    let plan = Plan {
        seed: 1,
        nonce: 1,
        to: TxKind::Call(contract.parse().unwrap()),
        value: 0,
        gas: 100_000,
        input: hex::decode("0x0102").unwrap().into(),
    };
    let hash = client.call("eth_sendRawTransaction", json!([plan.raw()]));
    assert_eq!(client.notified(&hashes), hash);
    assert_eq!(client.notified(&whole)["hash"], hash);
    let block = node.chain.mine().unwrap();
    let head = client.notified(&heads);
    assert_eq!((&head["hash"], &head["number"]), (&json!(block.hash), &json!("0x2")));
    let log = client.notified(&logs);
    assert_eq!((&log["transactionHash"], &log["data"], &log["removed"]), (&hash, &json!("0x0102"), &json!(false)));
    // A chain that goes back tells which logs are no more.
    node.chain.revert(snapshot).unwrap();
    let gone = client.notified(&logs);
    assert_eq!((&gone["transactionHash"], &gone["removed"]), (&hash, &json!(true)));
    for subscription in [&heads, &others, &hashes] {
        assert_eq!(client.call("eth_unsubscribe", json!([subscription])), true);
    }
    assert_eq!(client.ask("eth_unsubscribe", json!([heads]))["error"]["message"], "subscription not found");
    assert!(client.notified.iter().all(|message| message["params"]["subscription"] != others), "{:?}", client.notified);
}

/// More than wait for one reader: there is no room for all events, yet every block is delivered.
#[test]
fn no_head_is_left_out_however_fast_they_come() {
    let node = Node::new(BlockTime::Manual);
    let mut client = Client::new(&node);
    let heads = client.call("eth_subscribe", json!(["newHeads"]));
    let reader = std::thread::spawn(move || (1..=5_000).map(|_| client.notified(&heads)["number"].clone()).collect());
    node.chain.mine_many(5_000, None).unwrap();
    let notified: Vec<Value> = reader.join().unwrap();
    let expected: Vec<Value> = (1..=5_000).map(|number| json!(format!("{number:#x}"))).collect();
    assert_eq!(notified, expected);
}

#[test]
fn subscriptions_need_a_websocket_and_a_kind() {
    let node = Node::new(BlockTime::Manual);
    assert_eq!(node.fails("eth_subscribe", json!(["newHeads"])), (-32601, "notifications not supported".into()));
    let mut client = Client::new(&node);
    let unknown = client.ask("eth_subscribe", json!(["nothing"]));
    assert_eq!(unknown["error"]["message"], "no \"nothing\" subscription in eth namespace");
    assert_eq!(unknown["error"]["code"], -32601);
    client.call("eth_subscribe", json!(["syncing"]));
    let batch = json!([
        { "jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber" },
        { "jsonrpc": "2.0", "id": 2, "method": "eth_chainId" },
    ]);
    client.socket.send(Message::text(batch.to_string())).unwrap();
    assert_eq!(client.read()[1]["id"], 2);
}

#[test]
fn slow_reader_is_dropped_and_others_served() {
    // Nobody waits for the silent one to take what it is sent.
    let limits = Limits { queued_bytes: 20_000, patience: 10 * DEADLINE, ..Default::default() };
    let node = Node::with(BlockTime::Manual, |config| config.limits = limits);
    let (mut silent, mut heard) = (Client::new(&node), Client::new(&node));
    for _ in 0..50 {
        silent.call("eth_subscribe", json!(["newHeads"]));
    }
    let heads = heard.call("eth_subscribe", json!(["newHeads"]));
    let counters = node.server.counters();
    wait_until("the silent one is dropped", || {
        let block = node.chain.mine().unwrap();
        assert_eq!(heard.notified(&heads)["hash"], json!(block.hash));
        counters.websockets_dropped.load(Relaxed) > 0
    });
    assert_eq!(counters.subscriptions_open.load(Relaxed), 1);
    wait_until("its connection ends", || counters.connections_open.load(Relaxed) <= 1);
}

#[test]
fn subscriptions_end_with_their_connection() {
    let node = Node::new(BlockTime::Manual);
    let counters = node.server.counters();
    let mut client = Client::new(&node);
    client.call("eth_subscribe", json!(["newHeads"]));
    assert_eq!(counters.subscriptions_open.load(Relaxed), 1);
    drop(client);
    wait_until("the subscription ends", || counters.subscriptions_open.load(Relaxed) == 0);
}

#[test]
fn prompt_reader_gets_the_busiest_block() {
    let node = Node::new(BlockTime::Manual);
    let mut client = Client::new(&node);
    // 2,000 times LOG0.
    let logs = crate::node::creates("6107d05b5f5fa0600190038060035700");
    let deployed = node.call("eth_sendTransaction", json!([{ "from": account(1), "data": format!("0x{logs}") }]));
    node.chain.mine().unwrap();
    let contract = node.receipt(&deployed)["contractAddress"].clone();
    let logs = client.call("eth_subscribe", json!(["logs", { "address": contract }]));
    let heads = client.call("eth_subscribe", json!(["newHeads"]));
    for _ in 0..2 {
        node.call("eth_sendTransaction", json!([{ "from": account(1), "to": contract, "gas": "0x1e8480" }]));
    }
    node.chain.mine().unwrap();
    for index in 0..4_000 {
        assert_eq!(client.notified(&logs)["logIndex"], format!("{index:#x}"));
    }
    assert_eq!(client.notified(&heads)["number"], "0x2");
    assert_eq!(node.server.counters().websockets_dropped.load(Relaxed), 0);
}

#[test]
fn subscription_omits_earlier_events() {
    let node = Node::new(BlockTime::Manual);
    let mut client = Client::new(&node);
    let snapshot = node.chain.snapshot();
    for nonce in 0..200 {
        let send = |nonce| node.call("eth_sendRawTransaction", json!([Plan::transfer(1, nonce).raw()]));
        send(2 * nonce);
        let pending = client.call("eth_subscribe", json!(["newPendingTransactions"]));
        let filter = node.call("eth_newPendingTransactionFilter", json!([]));
        let second = send(2 * nonce + 1);
        assert_eq!(client.notified(&pending), second);
        assert_eq!(node.call("eth_getFilterChanges", json!([filter])), json!([second]));
        node.chain.mine().unwrap();
        let heads = client.call("eth_subscribe", json!(["newHeads"]));
        let block = node.chain.mine().unwrap();
        assert_eq!(client.notified(&heads)["hash"], json!(block.hash));
        for subscription in [pending, heads] {
            assert_eq!(client.call("eth_unsubscribe", json!([subscription])), true);
        }
    }
    node.chain.revert(snapshot).unwrap();
    node.chain.mine().unwrap();
    let filter = node.call("eth_newBlockFilter", json!([]));
    let block = node.chain.mine().unwrap();
    assert_eq!(node.call("eth_getFilterChanges", json!([filter])), json!([block.hash]));
}

#[test]
fn a_call_that_takes_long_holds_up_nothing_else_of_its_connection() {
    let node = Node::new(BlockTime::Manual);
    let mut client = Client::new(&node);
    let heads = client.call("eth_subscribe", json!(["newHeads"]));
    // Answered with the receipt: not before there is a block.
    client.begin(7, "eth_sendRawTransactionSync", json!([Plan::transfer(1, 0).raw()]));
    client.begin(8, "eth_blockNumber", json!([]));
    let first = client.read();
    assert_eq!((&first["id"], &first["result"]), (&json!(8), &json!("0x0")), "{first}");
    wait_until("it waits for a block", || node.chain.pool().status().pending > 0);
    let block = node.chain.mine().unwrap();
    let mut notified = [client.read(), client.read()];
    notified.sort_by_key(|message| message["id"].as_u64());
    assert_eq!(
        (&notified[0]["params"]["subscription"], &notified[0]["params"]["result"]["hash"]),
        (&heads, &json!(block.hash))
    );
    assert_eq!((&notified[1]["id"], &notified[1]["result"]["blockHash"]), (&json!(7), &json!(block.hash)));
    // A subscription's notifications come after its number.
    let batch = json!([
        { "jsonrpc": "2.0", "id": 9, "method": "eth_subscribe", "params": ["newHeads"] },
        { "jsonrpc": "2.0", "id": 10, "method": "eth_sendRawTransactionSync", "params": [Plan::transfer(1, 1).raw()] },
    ]);
    assert_eq!(client.call("eth_unsubscribe", json!([heads])), true);
    client.socket.send(Message::text(batch.to_string())).unwrap();
    wait_until("it waits for a block", || node.chain.pool().status().pending > 0);
    let block = node.chain.mine().unwrap();
    let answers = client.read();
    assert_eq!(answers[1]["result"]["blockHash"], json!(block.hash), "{answers}");
    assert_eq!(client.notified(&answers[0]["result"])["hash"], json!(block.hash));
}

#[test]
fn the_calls_of_a_connection_are_bounded() {
    let node = Node::with(BlockTime::Manual, |config| config.limits.calls_per_connection = 2);
    let mut client = Client::new(&node);
    for seed in [1, 2] {
        let raw = Plan::transfer(seed, 0).raw();
        client.begin(seed.into(), "eth_sendRawTransactionSync", json!([raw]));
    }
    client.begin(3, "eth_blockNumber", json!([]));
    wait_until("both wait for a block", || node.chain.pool().status().pending >= 2);
    // Another connection is served.
    assert_eq!(Client::new(&node).call("eth_blockNumber", json!([])), "0x0");
    node.chain.mine().unwrap();
    let answers: Vec<Value> = (0..3).map(|_| client.read()).collect();
    let last = answers.iter().find(|answer| answer["id"] == 3).unwrap();
    assert_eq!(last["result"], "0x1", "it was read when there was room again");
}
