//! Tests against a server of a few lines, and on answers alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;

use super::http::{self, Patience};
use super::*;

/// Gives these answers, whole or not, over one connection after the other, and hangs up after the last of each; then
/// the bodies of the questions.
fn served(connections: Vec<Vec<String>>) -> (RpcClient, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut bodies = vec![];
        for answers in connections {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            for answer in answers {
                bodies.push(body(&mut stream));
                // A client that has read enough hangs up.
                let _ = stream.get_mut().write_all(answer.as_bytes());
            }
        }
        bodies
    });
    (RpcClient::new(&url, &Options { answer_max: 1_000, ..Options::default() }).unwrap(), server)
}

fn body(stream: &mut BufReader<std::net::TcpStream>) -> String {
    let mut length = 0;
    loop {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the head has an end");
        match line.trim_end().to_ascii_lowercase() {
            line if line.is_empty() => break,
            line => length = line.strip_prefix("content-length: ").map_or(length, |length| length.parse().unwrap()),
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

fn whole(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn asked(client: &RpcClient) -> Result<serde_json::Value, RpcError> {
    client.call("getSlot", &json!([]))
}

#[test]
fn connection_is_kept() {
    let refusal = whole(r#"{"error":{"code":-32601,"message":"no","data":{"a":1}}}"#);
    let (client, server) = served(vec![vec![whole(r#"{"id":1,"result":7}"#), refusal]]);
    assert_eq!(asked(&client).unwrap(), 7);
    let error = asked(&client).unwrap_err();
    assert_eq!(error.to_string(), "getSlot: no (-32601)");
    assert!(matches!(error, RpcError::Refused { data: Some(data), .. } if *data == json!({ "a": 1 })));
    let question = json!({ "jsonrpc": "2.0", "id": 1, "method": "getSlot", "params": [] }).to_string();
    assert_eq!(server.join().unwrap(), [question.clone(), question]);
}

#[test]
fn closed_connection_is_replaced() {
    let seven = || whole(r#"{"id":1,"result":7}"#);
    let (client, server) = served(vec![vec![seven()], vec![seven(), "HTTP/1.1 2".into()]]);
    assert_eq!(asked(&client).unwrap(), 7);
    // The server has hung up, or does so before the next answer: a request that it never read may be lost.
    while asked(&client).is_err() {}
    let broken = asked(&client).unwrap_err();
    assert!(matches!(broken, RpcError::Connection { .. }), "{broken}");
    assert_eq!(server.join().unwrap().len(), 3, "no question is asked twice");
}

#[test]
fn endless_heads_and_answers_are_refused() {
    let head = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(70_000));
    let (client, server) = served(vec![vec![head], vec![whole(&"7".repeat(2_000))]]);
    let error = asked(&client).unwrap_err().to_string();
    assert!(error.contains("header is too big"), "{error}");
    let error = asked(&client).unwrap_err().to_string();
    assert!(error.contains("larger than request limit"), "{error}");
    server.join().unwrap();
}

#[test]
fn status_without_answer_is_an_error() {
    let with = |status: &str, body: &str| whole(body).replacen("200 OK", status, 1);
    let refusal = r#"{"id":1,"error":{"code":-32700,"message":"no"}}"#;
    let (client, server) = served(vec![vec![with("429 x", ""), with("500 x", refusal), with("302 x", "")]]);
    let error = asked(&client).unwrap_err();
    assert!(matches!(error, RpcError::Status { status: 429, .. }), "{error}");
    assert_eq!(error.reason(), "HTTP status 429");
    assert!(matches!(asked(&client), Err(RpcError::Refused { code: -32700, .. })));
    let error = asked(&client).unwrap_err();
    assert!(matches!(error, RpcError::Status { status: 302, .. }), "{error}");
    server.join().unwrap();
}

#[test]
fn page_needs_success() {
    let (client, server) = served(vec![vec![whole("a page"), "HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n".into()]]);
    let agent = http::direct(Patience::Whole(Duration::from_secs(10)));
    assert_eq!(http::get(&agent, client.url(), 100).unwrap(), "a page");
    assert!(http::get(&agent, client.url(), 100).unwrap_err().to_string().contains("404"));
    server.join().unwrap();
}

fn nobody() -> RpcClient {
    RpcClient::new("http://127.0.0.1:1", &Options::default()).unwrap()
}

/// The answers to two questions.
fn ordered(text: &str) -> Result<Vec<Result<u64, String>>, RpcError> {
    let answers = nobody().ordered("method", 2, text.as_bytes())?;
    Ok(answers.into_iter().map(|answer| answer.map_err(|refusal| refusal.message)).collect())
}

#[test]
fn answers_come_in_the_order_of_the_questions() {
    let text = r#" [{"id":1,"result":7,"error":null},{"id":0,"result":null,"error":{"message":"no"}}]"#;
    assert_eq!(ordered(text).unwrap(), [Err("no".to_owned()), Ok(7)]);
}

#[test]
fn damaged_answers_are_garbled() {
    for (text, wrong) in [
        ("", "EOF"),
        (r#"[{"id":0,"result":1},{"id":1,"res"#, "EOF"),
        (r#"[{"id":0,"result":1}]"#, "fewer answers than questions"),
        (r#"[{"id":0,"result":1},{"id":0,"result":1}]"#, "ids that were not asked"),
        (r#"[{"id":0,"result":1},{"id":2,"result":1}]"#, "ids that were not asked"),
        (r#"[{"id":0,"result":1},{"result":1}]"#, "ids that were not asked"),
        (r#"[{"id":0,"result":1},{"id":1}]"#, "neither a result nor an error"),
        (r#"[{"id":0,"result":1},{"id":1,"result":1,"error":{"code":1}}]"#, "neither a result nor an error"),
        (r#"[{"id":0,"result":1},{"id":1,"result":"x"}]"#, "invalid type"),
        (r#"{"id":0,"result":1}"#, "one answer to a batch"),
    ] {
        let error = ordered(text).unwrap_err();
        assert!(matches!(&error, RpcError::Garbled { why, .. } if why.contains(wrong)), "{text}: {error}");
    }
}

#[test]
fn one_refusal_may_be_for_all() {
    let error = ordered(r#"{"id":null,"error":{"code":-32005,"message":"too many requests"}}"#).unwrap_err();
    assert!(matches!(error, RpcError::Refused { code: -32005, .. }), "{error}");
    let error = ordered(r#"[{"id":0,"error":{"code":-32600,"message":"batch too large"}}]"#).unwrap_err();
    assert_eq!(error.to_string(), "method: batch too large (-32600)");
}

#[test]
fn only_urls_are_asked() {
    for wrong in ["", "127.0.0.1:8545", "http://", "http:///x", "ws://127.0.0.1"] {
        let error = RpcClient::new(wrong, &Options::default()).unwrap_err();
        assert_eq!(error, RpcError::Url { url: wrong.into(), expected: "http://HOST:PORT" });
    }
    assert!(RpcClient::new("https://127.0.0.1", &Options::default()).is_err());
    let options = Options { https: true, ..Options::default() };
    let address = |url: &str| RpcClient::new(url, &options).unwrap().address().unwrap().to_string();
    assert_eq!(address("http://127.0.0.1:8899/path"), "127.0.0.1:8899");
    assert_eq!(address("http://127.0.0.1"), "127.0.0.1:80");
    assert_eq!(address("https://[::1]/"), "[::1]:443");
    let error = asked(&nobody()).unwrap_err();
    assert!(matches!(&error, RpcError::Connection { .. }) && error.reason().contains("refused"), "{error}");
}
