//! Subscriptions over a real WebSocket: which notifications arrive, when, and when they stop.

use std::time::{Duration, Instant};

use hearth_rpc::Limits;
use hearth_testkit::{wait_for, wait_until};
use serde_json::{Value, json};
use tungstenite::Message;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;

use crate::common::client::Client;
use crate::common::*;

fn send(chain: &Chain, bytes: &[u8]) -> Value {
    chain.call("sendTransaction", json!([base64(bytes), { "encoding": "base64", "skipPreflight": true }]))
}

#[test]
fn a_signature_is_reported_at_its_commitment_once() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    let bytes = chain.transfer(0, &address(20), 1_000_000);
    let signature = signature_of(&bytes);
    let mut subscribe = |name: &str| client.call("signatureSubscribe", json!([signature, { "commitment": name }]));
    let [processed, confirmed, finalized] = ["processed", "confirmed", "finalized"].map(&mut subscribe);
    assert!(processed != confirmed && confirmed != finalized);
    assert_eq!(chain.counted(|c| c.subscriptions_open()), 3);
    send(&chain, &bytes);
    let result = client.notified("signatureNotification", &processed);
    assert_eq!(result, json!({ "context": { "slot": 1 }, "value": { "err": null } }));
    chain.next_slot();
    assert!(client.hears_nothing());
    chain.ledger.mark_stored(1);
    assert_eq!(client.notified("signatureNotification", &confirmed)["context"]["slot"], 1);
    chain.durable_slots(31);
    assert!(client.hears_nothing());
    chain.durable_slots(1);
    assert_eq!(client.notified("signatureNotification", &finalized)["value"], json!({ "err": null }));
    chain.wait_counted(|c| c.subscriptions_open(), 0);
    // A one-time subscription ends with its notification.
    let gone = client.ask("signatureUnsubscribe", json!([finalized]));
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
    assert_eq!(chain.counted(|c| c.notifications()), 3);
}

#[test]
fn landed_signature_is_notified_at_once_with_its_error() {
    let chain = Chain::new();
    let bytes = chain.transfer(0, &address(20), RICH);
    let signature = send(&chain, &bytes);
    let mut client = Client::new(&chain);
    let options = json!({ "commitment": "processed", "enableReceivedNotification": true });
    let id = client.call("signatureSubscribe", json!([signature, options]));
    assert_eq!(client.notified("signatureNotification", &id)["value"], "receivedSignature");
    let err = json!({ "err": { "InstructionError": [0, { "Custom": 1 }] } });
    assert_eq!(client.notified("signatureNotification", &id)["value"], err);
}

#[test]
fn a_websocket_without_subscriptions_makes_room() {
    let chain = Chain::with(Limits { websocket_connections: 2, ..Limits::default() }, true);
    let mut subscribed = Client::new(&chain);
    let id = subscribed.call("slotSubscribe", json!([]));
    let mut idle = Client::new(&chain);
    assert!(idle.call("getVersion", json!([])).is_object());
    // The connection is not idle until its response has been sent.
    let mut third = wait_for("a connection", || Client::try_new(&chain).ok_or("it has no room".into()));
    let closed = loop {
        match idle.socket.read().unwrap() {
            Message::Close(frame) => break frame.expect("it says why"),
            Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(u16::from(closed.code), 1013, "{closed:?}");
    let other = third.call("rootSubscribe", json!([]));
    assert!(other != id);
    // Now both have a subscription.
    let refused = chain.counted(|c| c.connections_refused());
    let answer = read_answer(&mut connect(chain.server.websocket_addr()));
    assert_eq!(answer.status, 503, "{answer:?}");
    chain.next_slot();
    subscribed.notified("slotNotification", &id);
    assert_eq!(chain.counted(|c| c.connections_idle_closed()), 1);
    assert_eq!(chain.counted(|c| c.connections_refused()), refused + 1);
}

/// Notifications do not depend on the end of the slot: it stays open throughout.
#[test]
fn a_signature_is_reported_before_its_slot_ends() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    for lamports in 1_000_000..1_000_010 {
        let bytes = chain.transfer(0, &address(20), lamports);
        let params = json!([signature_of(&bytes), { "commitment": "processed" }]);
        let id = client.call("signatureSubscribe", params);
        send(&chain, &bytes);
        assert_eq!(client.notified("signatureNotification", &id)["context"]["slot"], 1);
    }
}

#[test]
fn slots_and_roots_are_reported_without_gaps() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    let mut other = Client::new(&chain);
    let slots = client.call("slotSubscribe", json!([]));
    let roots = other.call("rootSubscribe", json!([]));
    // More slots than there are polls of the ledger.
    chain.durable_slots(40);
    for slot in 2..=41 {
        let notification = client.notified("slotNotification", &slots);
        assert_eq!((&notification["slot"], &notification["parent"]), (&json!(slot), &json!(slot - 1)));
    }
    for root in 1..=8 {
        assert_eq!(other.notified("rootNotification", &roots), root);
    }
    assert_eq!(client.call("slotUnsubscribe", json!([slots])), true);
    // Of another kind, and of another connection.
    assert_eq!(client.ask("rootUnsubscribe", json!([roots]))["error"]["code"], -32602);
    assert_eq!(other.ask("slotUnsubscribe", json!([roots]))["error"]["code"], -32602);
    chain.durable_slots(1);
    assert_eq!(other.notified("rootNotification", &roots), 9);
    assert!(client.hears_nothing());
    assert_eq!(other.call("rootUnsubscribe", json!([roots])), true);
    chain.wait_counted(|c| c.subscriptions_open(), 0);
}

#[test]
fn accounts_are_reported_when_they_change() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    let key = text(&address(20));
    let id = client.call("accountSubscribe", json!([key, { "encoding": "base64", "commitment": "processed" }]));
    chain.next_slot();
    assert!(client.hears_nothing());
    send(&chain, &chain.transfer(0, &address(20), 1_000_000));
    let notification = client.notified("accountNotification", &id);
    assert_eq!((&notification["context"]["slot"], &notification["value"]["lamports"]), (&json!(2), &json!(1_000_000)));
    assert_eq!(notification["value"]["data"], json!(["", "base64"]));
    send(&chain, &chain.transfer(0, &address(21), 1_000_000));
    assert!(client.hears_nothing());
    // With its last lamport the account is gone.
    send(&chain, &chain.transfer(20, &address(21), 1_000_000 - 5_000));
    assert_eq!(client.notified("accountNotification", &id)["value"]["lamports"], 0);
    assert_eq!(client.call("accountUnsubscribe", json!([id])), true);
}

#[test]
fn an_account_is_reported_when_its_commitment_has_the_change() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    let mut subscribe = |name: &str| {
        client.call("accountSubscribe", json!([text(&address(20)), { "encoding": "base64", "commitment": name }]))
    };
    let [confirmed, finalized] = ["confirmed", "finalized"].map(&mut subscribe);
    let balance = |name: &str| {
        let answer = chain.call("getBalance", json!([text(&address(20)), { "commitment": name }]));
        answer["value"].as_u64().unwrap()
    };
    send(&chain, &chain.transfer(0, &address(20), 1_000_000));
    chain.next_slot();
    assert!(client.hears_nothing());
    chain.ledger.mark_stored(1);
    let notification = client.notified("accountNotification", &confirmed);
    assert_eq!((&notification["context"]["slot"], &notification["value"]["lamports"]), (&json!(1), &json!(1_000_000)));
    // A client that is notified sees that state.
    assert_eq!((balance("confirmed"), balance("finalized")), (1_000_000, 0));
    chain.durable_slots(31);
    assert!(client.hears_nothing());
    chain.durable_slots(1);
    assert_eq!(client.notified("accountNotification", &finalized)["context"]["slot"], 1);
    assert_eq!(balance("finalized"), 1_000_000);
}

#[test]
fn wrong_requests_are_answered_as_over_http() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    client.send("nonsense");
    assert_eq!(client.read()["error"]["code"], -32700);
    let signature = "1".repeat(64);
    let cases = [
        ("getSlot", json!([]), -32601, "getSlot"),
        ("blockSubscribe", json!(["all"]), -32601, "blockSubscribe"),
        ("signatureSubscribe", json!([]), -32602, "parameter 1 (signature) is missing"),
        ("signatureSubscribe", json!(["abc"]), -32602, "not the base58 of 64 bytes"),
        ("signatureSubscribe", json!([signature, { "commitment": 5 }]), -32602, "commitment"),
        ("accountSubscribe", json!([signature]), -32602, "not the base58 of 32 bytes"),
        ("slotSubscribe", json!([1]), -32602, "at most 0 parameters"),
        ("slotUnsubscribe", json!(["x"]), -32602, "parameter 1 (subscription)"),
        ("slotUnsubscribe", json!([12_345]), -32602, "Invalid subscription id"),
    ];
    for (method, params, code, what) in cases {
        let error = client.ask(method, params)["error"].clone();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().contains(what), "{error}");
    }
    // A notification gets no response; a batch gets one.
    client.send(r#"{"jsonrpc":"2.0","method":"ping","params":null}"#);
    client.send(r#"[{"jsonrpc":"2.0","id":1,"method":"slotSubscribe"},{"jsonrpc":"2.0","id":2,"method":"no"}]"#);
    let batch = client.read();
    assert!(batch[0]["result"].is_u64() && batch[1]["error"]["code"] == -32601, "{batch}");
    let off = Chain::with(Limits::default(), false);
    let error = Client::new(&off).ask("signatureSubscribe", json!([signature]));
    assert_eq!(error["error"]["code"], -32011);
}

#[test]
fn subscriptions_have_limits() {
    let limits = Limits { subscriptions: 5, subscriptions_per_connection: 3, ..Limits::default() };
    let chain = Chain::with(limits, true);
    let (mut one, mut two) = (Client::new(&chain), Client::new(&chain));
    let ids = [(); 3].map(|()| one.call("slotSubscribe", json!([])));
    let refused = one.ask("rootSubscribe", json!([]));
    assert!(refused["error"]["message"].as_str().unwrap().contains("3 subscriptions"), "{refused}");
    two.call("slotSubscribe", json!([]));
    two.call("slotSubscribe", json!([]));
    let refused = two.ask("slotSubscribe", json!([]));
    assert!(refused["error"]["message"].as_str().unwrap().contains("5 subscriptions"), "{refused}");
    assert_eq!(chain.counted(|c| c.subscriptions_refused()), 2);
    one.call("slotUnsubscribe", json!([ids[1]]));
    two.call("slotSubscribe", json!([]));
    // A connection's subscriptions end with it.
    drop(two);
    chain.wait_counted(|c| c.subscriptions_open(), 2);
    one.call("slotSubscribe", json!([]));
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let limits = Limits { queued_notifications: 16, patience: Duration::from_secs(10), ..Limits::default() };
    let chain = Chain::with(limits, true);
    let (mut lazy, mut keen) = (Client::new(&chain), Client::new(&chain));
    for _ in 0..200 {
        lazy.call("slotSubscribe", json!([]));
    }
    let id = keen.call("slotSubscribe", json!([]));
    let mut slot = 1;
    wait_until("the one that does not read is dropped", || {
        chain.durable_slots(1);
        slot += 1;
        assert_eq!(keen.notified("slotNotification", &id)["slot"], slot);
        chain.counted(|c| c.websockets_dropped()) > 0
    });
    chain.wait_counted(|c| c.subscriptions_open(), 1);
    assert!(matches!(lazy.read_to_the_end(), Some(Message::Close(_) | Message::Text(_))));
    chain.wait_counted(|c| c.connections_open(), 1);
}

#[test]
fn a_silent_connection_is_closed_and_a_live_one_is_kept() {
    let chain = Chain::with(Limits { patience: Duration::from_secs(2), ..Limits::default() }, true);
    let mut live = Client::new(&chain);
    live.call("slotSubscribe", json!([]));
    let dead = Client::new(&chain);
    // The live client answers the server's pings by reading; the dead one does not read.
    live.socket.get_ref().set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    wait_until("the dead one is dropped", || {
        let read = live.socket.read();
        assert!(!matches!(read, Ok(Message::Close(_))), "{read:?}");
        chain.counted(|c| c.websockets_dropped()) > 0
    });
    chain.wait_counted(|c| c.connections_open(), 1);
    drop(dead);
    live.call("rootSubscribe", json!([]));
}

#[test]
fn a_close_is_answered_with_its_code() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    client.call("slotSubscribe", json!([]));
    let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    client.socket.close(Some(normal)).unwrap();
    let reply = client.read_to_the_end();
    assert!(matches!(&reply, Some(Message::Close(Some(frame))) if frame.code == CloseCode::Normal), "{reply:?}");
    chain.wait_counted(|c| c.connections_open(), 0);
}

#[test]
fn stopping_says_goodbye() {
    let chain = Chain::with(Limits { patience: 10 * DEADLINE, ..Limits::default() }, true);
    let mut client = Client::new(&chain);
    client.call("slotSubscribe", json!([]));
    let started = Instant::now();
    chain.server.stop();
    assert!(started.elapsed() < DEADLINE, "{:?}", started.elapsed());
    assert!(matches!(client.read_to_the_end(), Some(Message::Close(Some(frame))) if frame.reason.contains("stops")));
}

#[test]
fn messages_have_an_end() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    // The server may close before all of it is written.
    let _ = client.socket.send(Message::text(" ".repeat(60 * 1024)));
    assert!(!matches!(client.read_to_the_end(), Some(Message::Text(_))));
    chain.wait_counted(|c| c.connections_open(), 0);
}
