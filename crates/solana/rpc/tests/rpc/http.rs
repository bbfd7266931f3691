//! The protocol below the methods: JSON-RPC's rules, HTTP's edge cases, slow and excess clients.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use hearth_rpc::{Limits, RpcConfig, RpcError};
use hearth_testkit::wait_until;
use serde_json::{Value, json};

use crate::common::*;

/// The code, message and id of an error response.
fn error_of(answer: &Value) -> (i64, &str, &Value) {
    (answer["error"]["code"].as_i64().unwrap(), answer["error"]["message"].as_str().unwrap(), &answer["id"])
}

fn answer_to(chain: &Chain, body: &str) -> Value {
    let answer = post(chain.http(), body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.head.contains("content-type: application/json"), "{answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn invalid_json_is_a_parse_error() {
    let chain = Chain::new();
    let deep = "[".repeat(20_000);
    for body in ["", "{", "nonsense", "{\"jsonrpc\":\"2.0\",", "\u{0}", &deep] {
        let answer = answer_to(&chain, body);
        let (code, message, id) = error_of(&answer);
        assert_eq!((code, id), (-32700, &Value::Null), "{body:?}");
        assert!(message.starts_with("Parse error: "), "{message}");
    }
    assert_eq!((chain.counted(|c| c.requests()), chain.counted(|c| c.errors())), (6, 6));
    assert_eq!(chain.call("getHealth", json!([])), "ok");
}

#[test]
fn invalid_request_gets_the_reason() {
    let chain = Chain::new();
    let cases = [
        ("5", "expected an object, found 5", Value::Null),
        ("[]", "an empty batch", Value::Null),
        (r#"{"id":3,"method":"getSlot"}"#, "\"jsonrpc\" must be \"2.0\"", json!(3)),
        (r#"{"jsonrpc":"1.0","id":3,"method":"getSlot"}"#, "\"jsonrpc\" must be \"2.0\"", json!(3)),
        (r#"{"jsonrpc":"2.0","method":5}"#, "\"method\" must be a string", Value::Null),
        (r#"{"jsonrpc":"2.0","id":"a"}"#, "\"method\" must be a string", json!("a")),
        (r#"{"jsonrpc":"2.0","id":{},"method":"getSlot"}"#, "id must be", Value::Null),
    ];
    for (body, what, id) in cases {
        let answer = answer_to(&chain, body);
        let (code, message, found) = error_of(&answer);
        assert_eq!((code, found), (-32600, &id), "{body}");
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn unknown_methods_and_wrong_params_are_named() {
    let chain = Chain::new();
    let (code, message, _) = chain.error("getUnicorns", json!([]));
    assert_eq!((code, &message[..]), (-32601, "Method not found: getUnicorns"));
    // Subscriptions require WebSocket.
    assert_eq!(chain.error("slotSubscribe", json!([])).0, -32601);
    let key = text(&address(0));
    let cases = [
        ("getBalance", json!([]), "parameter 1 (address) is missing"),
        ("getBalance", json!([5]), "parameter 1 (address): expected a string, found 5"),
        ("getBalance", json!(["0OIl"]), "parameter 1 (address): character '0' is not base58"),
        ("getBalance", json!(["abc"]), "parameter 1 (address): not the base58 of 32 bytes"),
        ("getBalance", json!({ "address": key }), "params: expected an array, found an object"),
        ("getBalance", json!([key, {}, 3]), "expected at most 2 parameters, found 3"),
        ("getBalance", json!([key, "processed"]), "parameter 2 (options): expected an object, found \"processed\""),
        ("getBalance", json!([key, { "commitment": "sure" }]), "commitment: \"sure\" is none of"),
        ("getSlot", json!([{ "commitment": 1 }]), "commitment: expected a string, found 1"),
        ("getSlot", json!([{ "minContextSlot": -1 }]), "minContextSlot: expected a whole number, found -1"),
        ("getMultipleAccounts", json!([[key, 7]]), "parameter 1 (addresses), element 1: expected a string, found 7"),
        ("getSlotLeaders", json!([0, 5001]), "Invalid limit; max 5000"),
        ("getAccountInfo", json!([key, { "encoding": "hex" }]), "encoding: \"hex\" is none of"),
        ("getAccountInfo", json!([key, { "dataSlice": { "offset": 1 } }]), "dataSlice: needs an offset and a length"),
    ];
    for (method, params, what) in cases {
        let (code, message, _) = chain.error(method, params);
        assert!(code == -32602 && message.contains(what), "{method}: {code} {message}");
    }
    // Null counts as missing; unknown keys are ignored.
    chain.call("getSlot", Value::Null);
    chain.call("getSlot", json!([null]));
    chain.call("getBalance", json!([key, { "commitment": null, "novelty": true }]));
}

/// Clients compare these messages, so they are Agave's to the letter.
#[test]
fn refusals_are_in_agaves_words() {
    let chain = Chain::new();
    let wallet = text(&address(0));
    let cases = [
        ("getSlotLeaders", json!([0, 5001]), "Invalid limit; max 5000"),
        ("getRecentPerformanceSamples", json!([721]), "Invalid limit; max 720"),
        ("getTokenAccountBalance", json!([text(&[1; 32])]), "Invalid param: could not find account"),
        ("getTokenAccountBalance", json!([wallet]), "Invalid param: not a Token account"),
        ("getTokenSupply", json!([wallet]), "Invalid param: not a Token mint"),
        ("getTokenLargestAccounts", json!([text(&[1; 32])]), "Invalid param: could not find mint"),
        ("getMultipleAccounts", json!([vec![wallet.clone(); 101]]), "Too many inputs provided; max 100"),
        ("getProgramAccounts", json!([wallet, { "filters": [1, 2, 3, 4, 5] }]), "Too many filters provided; max 4"),
    ];
    for (method, params, words) in cases {
        assert_eq!(chain.error(method, params), (-32602, words.to_owned(), Value::Null), "{method}");
    }
}

#[test]
fn batches_are_answered_in_order_without_their_notifications() {
    let chain = Chain::new();
    let answer = answer_to(
        &chain,
        r#"[{"jsonrpc":"2.0","id":"a","method":"getHealth"},
            {"jsonrpc":"2.0","method":"getHealth"},
            7,
            {"jsonrpc":"2.0","id":2.5,"method":"no"},
            {"jsonrpc":"2.0","id":null,"method":"getSlot"}]"#,
    );
    let answers = answer.as_array().unwrap();
    assert_eq!(answers.len(), 4, "{answer}");
    assert_eq!(answers[0], json!({ "jsonrpc": "2.0", "result": "ok", "id": "a" }));
    assert_eq!(error_of(&answers[1]).0, -32600);
    assert_eq!((error_of(&answers[2]).0, &answers[2]["id"]), (-32601, &json!(2.5)));
    assert_eq!(answers[3], json!({ "jsonrpc": "2.0", "result": 0, "id": null }));
    assert_eq!((chain.counted(|c| c.requests()), chain.counted(|c| c.errors())), (5, 2));
    // A single notification has an empty response.
    for body in [r#"{"jsonrpc":"2.0","method":"getSlot"}"#, r#"[{"jsonrpc":"2.0","method":"getSlot"}]"#] {
        let answer = post(chain.http(), body);
        assert_eq!((answer.status, &answer.body[..]), (200, ""));
    }
}

#[test]
fn a_batch_cannot_ask_for_more_than_is_allowed() {
    let chain = Chain::with(Limits { answer_bytes: 2_000, ..Limits::default() }, true);
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "getClusterNodes" });
    let answer = answer_to(&chain, &Value::from(vec![request; 20]).to_string());
    let answers = answer.as_array().unwrap();
    assert!(answers[0].get("result").is_some());
    let (code, message, _) = error_of(&answers[19]);
    assert!(code == -32603 && message.contains("ask for less"), "{message}");
}

#[test]
fn a_batch_has_an_end() {
    let chain = Chain::with(Limits { batch_length: 3, ..Limits::default() }, true);
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "getHealth" });
    assert_eq!(answer_to(&chain, &Value::from(vec![request.clone(); 3]).to_string()).as_array().unwrap().len(), 3);
    let answer = answer_to(&chain, &Value::from(vec![request; 4]).to_string());
    let (code, message, id) = error_of(&answer);
    assert_eq!((code, id), (-32600, &Value::Null));
    assert!(message.contains("a batch of 4 requests; at most 3"), "{message}");
}

#[test]
fn exceeded_rate_is_reported() {
    let chain = Chain::with(Limits { requests_per_second: 5, ..Limits::default() }, true);
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "getHealth" }).to_string();
    assert!((0..5).all(|_| post(chain.http(), &request).status == 200));
    // A batch counts as all its requests: this one uses up a hundred seconds of the rate.
    let batch = Value::from(vec![serde_json::from_str::<Value>(&request).unwrap(); 500]).to_string();
    wait_until("room for a batch", || post(chain.http(), &batch).status == 200);
    let before = chain.counted(|c| c.requests_limited());
    let refused: Vec<Answer> = (0..10).map(|_| post(chain.http(), &request)).collect();
    assert!(refused.iter().all(|answer| answer.status == 429), "{refused:?}");
    assert!(refused[0].head.contains("retry-after: 1"), "{:?}", refused[0]);
    let refusal: Value = serde_json::from_str(&refused[0].body).unwrap();
    assert_eq!(error_of(&refusal).0, 429);
    assert_eq!(chain.counted(|c| c.requests_limited()), before + refused.len() as u64);
}

#[test]
fn bodies_have_an_end_and_a_type() {
    let chain = Chain::new();
    let padded = |len: usize| {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"getHealth"}"#;
        format!("{request}{}", " ".repeat(len - request.len()))
    };
    assert!(answer_to(&chain, &padded(50 * 1024)).get("result").is_some());
    let long = post(chain.http(), &padded(50 * 1024 + 1));
    assert_eq!(long.status, 413);
    assert!(long.body.contains("51200 bytes"), "{long:?}");
    // In chunks, without a content length.
    let chunk = format!("8000\r\n{}\r\n", " ".repeat(0x8000));
    let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    let chunked = request(chain.http(), &format!("{head}Connection: close\r\n\r\n{chunk}{chunk}0\r\n\r\n"));
    assert_eq!(chunked.status, 413);
    let untyped =
        request(chain.http(), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
    assert_eq!(untyped.status, 415);
    assert_eq!(chain.counted(|c| c.bodies_refused()), 3);
}

#[test]
fn get_knows_the_health_and_browsers_may_ask() {
    let chain = Chain::new();
    let get = |what: &str| request(chain.http(), &format!("{what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    let health = get("GET /health");
    assert_eq!((health.status, &health.body[..]), (200, "ok"));
    let other = get("GET /");
    assert!(other.status == 405 && other.body.contains("POST"), "{other:?}");
    let preflight = get("OPTIONS /");
    assert_eq!(preflight.status, 200);
    for answer in [&health, &preflight, &post(chain.http(), "{}")] {
        assert!(answer.head.contains("access-control-allow-origin: *"), "{answer:?}");
    }
    // A WebSocket port that gets a plain HTTP request says so.
    let upgrade = request(chain.server.websocket_addr(), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!((400..500).contains(&upgrade.status), "{upgrade:?}");
}

#[test]
fn one_connection_serves_many_requests() {
    let chain = Chain::new();
    let mut stream = connect(chain.http());
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"getHealth"}"#;
    let head =
        format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    // Two pipelined requests, then one that closes.
    let kept = format!("{head}\r\n{body}");
    stream.write_all(format!("{kept}{kept}{head}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches(r#""result":"ok""#).count(), 3, "{answers}");
    assert_eq!(chain.counted(|c| c.connections()), 1);
}

#[test]
fn slow_clients_are_dropped_and_delay_no_other() {
    let patience = Duration::from_secs(2);
    let chain = Chain::with(Limits { patience, ..Limits::default() }, true);
    let mut silent = connect(chain.http());
    let mut head = connect(chain.http());
    head.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n").unwrap();
    let mut body = connect(chain.http());
    let typed = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    body.write_all(typed.as_bytes()).unwrap();
    chain.wait_counted(|c| c.connections(), 3);
    // Others are served meanwhile.
    assert_eq!(chain.call("getHealth", json!([])), "ok");
    let started = Instant::now();
    let mut rest = Vec::new();
    for stream in [&mut silent, &mut head] {
        stream.read_to_end(&mut rest).unwrap();
    }
    let mut answer = [0; 12];
    body.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert!(started.elapsed() < DEADLINE / 2);
    drop(body);
    chain.wait_counted(|c| c.connections_open(), 0);
    assert_eq!(chain.counted(|c| c.bodies_refused()), 1);
}

#[test]
fn a_client_that_takes_no_answer_is_let_go() {
    let patience = Duration::from_millis(300);
    let chain = Chain::with(Limits { patience, ..Limits::default() }, true);
    let stream = connect(chain.http());
    // 5,000 leaders are 230 KB: a hundred such responses fill every buffer in between.
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "getSlotLeaders", "params": [0, 5000] }).to_string();
    let head =
        format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    (&stream).write_all(format!("{head}\r\n{body}").repeat(100).as_bytes()).unwrap();
    chain.wait_counted(|c| c.connections(), 1);
    chain.wait_counted(|c| c.connections_open(), 0);
    assert!(chain.counted(|c| c.requests()) < 100);
}

#[test]
fn excess_connections_get_the_reason_and_are_closed() {
    let limits = Limits { http_connections: 2, websocket_connections: 0, ..Limits::default() };
    let chain = Chain::with(limits, true);
    let held = [unread_answer(&chain), unread_answer(&chain)];
    chain.wait_counted(|c| c.requests(), 2 * CALLS as u64);
    for address in [chain.http(), chain.server.websocket_addr()] {
        let answer = read_answer(&mut connect(address));
        assert!(answer.status == 503 && answer.head.contains("retry-after: 1"), "{answer:?}");
        assert!(answer.body.contains("too many connections"), "{answer:?}");
    }
    assert_eq!(chain.counted(|c| c.connections_refused()), 2);
    drop(held);
    chain.wait_counted(|c| c.connections_open(), 0);
    assert_eq!(chain.call("getHealth", json!([])), "ok");
}

/// Calls in a request of [`unread_answer`].
const CALLS: usize = 100;

/// A request whose answer, of 23 MB, is more than every buffer in between, and is not read.
fn unread_answer(chain: &Chain) -> std::net::TcpStream {
    let mut stream = connect(chain.http());
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "getSlotLeaders", "params": [0, 5000] });
    let body = json!(vec![call; CALLS]).to_string();
    let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    stream
}

/// A request whose body is incomplete and being read by the server.
fn begun_request(chain: &Chain) -> std::net::TcpStream {
    let mut stream = connect(chain.http());
    // The answer to the first request shows that the connection is being served.
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"getHealth"}"#;
    let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    let length = body.len();
    let text =
        format!("{head}Content-Length: {length}\r\n\r\n{body}{head}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    // Once the server asks for the body, the request is in flight.
    let mut seen = String::new();
    while !seen.contains("100 Continue") {
        let mut buffer = [0; 1024];
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "{seen}");
        seen += std::str::from_utf8(&buffer[..count]).unwrap();
    }
    stream
}

/// Far more silent clients than there is room for do not keep others from being served.
#[test]
fn idle_connections_make_room() {
    let chain = Chain::with(Limits { http_connections: 8, ..Limits::default() }, true);
    let mut under_way = unread_answer(&chain);
    chain.wait_counted(|c| c.requests(), CALLS as u64);
    let mut held = vec![];
    for number in 0..60 {
        let mut stream = connect(chain.http());
        match number % 3 {
            0 => {}
            1 => stream.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n").unwrap(),
            _ => {
                let request = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
                stream.write_all(request.as_bytes()).unwrap();
                assert!(stream.read(&mut [0; 512]).unwrap() > 0, "it is served, and stays");
            }
        }
        held.push(stream);
        // Until the server has read the requests of the others they are not idle, so this one is refused.
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "getHealth" }).to_string();
        wait_until("it is served", || post(chain.http(), &request).status == 200);
    }
    let (closed, refused) =
        (chain.counted(|c| c.connections_idle_closed()), chain.counted(|c| c.connections_refused()));
    assert!(closed > 0 && closed + refused >= 50, "as many as there was no place for: {closed} and {refused}");
    // The longest idle ones are closed, and complete requests are answered.
    for stream in &mut held[..40] {
        let mut rest = vec![];
        stream.read_to_end(&mut rest).unwrap();
    }
    let mut answer = [0; 12];
    under_way.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

/// Clients that never end their requests do not keep others from being served.
#[test]
fn incomplete_requests_make_room() {
    let chain = Chain::with(Limits { http_connections: 4, ..Limits::default() }, true);
    let mut begun: Vec<_> = (0..12).map(|_| begun_request(&chain)).collect();
    assert_eq!(chain.call("getHealth", json!([])), "ok");
    assert_eq!(chain.counted(|c| c.connections_refused()), 0);
    assert!(chain.counted(|c| c.connections_idle_closed()) >= 8);
    // The newest still has its place, and its request is answered.
    let newest = begun.last_mut().unwrap();
    newest.write_all(b"{\"a\": 1} ").unwrap();
    let mut answer = [0; 12];
    newest.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[test]
fn an_address_has_its_share_of_connections() {
    let chain = Chain::with(Limits { connections_per_address: 2, ..Limits::default() }, true);
    let held = [unread_answer(&chain), unread_answer(&chain)];
    chain.wait_counted(|c| c.requests(), 2 * CALLS as u64);
    let answer = read_answer(&mut connect(chain.http()));
    assert_eq!(answer.status, 503, "{answer:?}");
    drop(held);
    chain.wait_counted(|c| c.connections_open(), 0);
    let _idle = [connect(chain.http()), connect(chain.http())];
    assert_eq!(chain.call("getHealth", json!([])), "ok");
    assert_eq!(chain.counted(|c| c.connections_refused()), 1);
}

#[test]
fn port_in_use_is_reported_with_advice() {
    let chain = Chain::new();
    for (index, taken) in [chain.http(), chain.server.websocket_addr()].into_iter().enumerate() {
        let mut config = RpcConfig::new("127.0.0.1:0".parse().unwrap());
        *[&mut config.http, &mut config.websocket][index] = taken;
        let error = start(config).unwrap();
        assert!(matches!(error, RpcError::PortInUse { address, .. } if address == taken), "{error}");
        let error = error.to_string();
        for part in [&taken.to_string(), "in use", "[rpc] port", ["HTTP", "WebSocket"][index]] {
            assert!(error.contains(part), "{error}");
        }
    }
    let error = start(RpcConfig::new("192.0.2.1:0".parse().unwrap())).unwrap();
    assert!(matches!(error, RpcError::Listen { .. }), "{error}");
    let error = start(RpcConfig::new("127.0.0.1:65535".parse().unwrap())).unwrap();
    assert!(error.to_string().contains("lower"), "{error}");
    assert_eq!(RpcConfig::new("127.0.0.1:8899".parse().unwrap()).websocket.port(), 8900);
}

/// The error of a server that does not start with this configuration.
fn start(config: RpcConfig) -> Option<RpcError> {
    Chain::start(config, Limits::default(), true).err()
}

#[test]
fn stopping_waits_for_no_client() {
    let chain = Chain::with(Limits { patience: 10 * DEADLINE, ..Limits::default() }, true);
    let address = chain.http();
    let silent = connect(address);
    let mut half = connect(address);
    half.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
        .unwrap();
    let _socket = connect(chain.server.websocket_addr());
    chain.wait_counted(|c| c.connections_open(), 3);
    let started = Instant::now();
    chain.server.stop();
    assert!(started.elapsed() < DEADLINE, "{:?}", started.elapsed());
    drop(silent);
    assert!(std::net::TcpStream::connect(address).is_err());
    // The port is free again.
    std::net::TcpListener::bind(address).unwrap();
}
