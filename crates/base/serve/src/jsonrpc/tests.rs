//! Texts of every kind, answered in two dialects.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

/// An error of either dialect.
struct Failure<const NAMED: bool>(ErrorObject);

impl<const NAMED: bool> From<Failure<NAMED>> for ErrorObject {
    fn from(failure: Failure<NAMED>) -> Self {
        failure.0
    }
}

impl<const NAMED: bool> Dialect for Failure<NAMED> {
    const ID_FIRST: bool = NAMED;
    const BOOLEAN_IDS: bool = NAMED;
    const REFUSALS_HAVE_IDS: bool = NAMED;
    const STOPS_WHEN_FULL: bool = NAMED;

    fn malformed(why: Malformed<'_>) -> Self {
        let code = if matches!(why, Malformed::NotJson(_)) { PARSE_ERROR } else { INVALID_REQUEST };
        Self(ErrorObject::new(code, why.to_string()))
    }

    fn too_long(over: usize) -> Self {
        Self(ErrorObject::new(-32003, format!("{over} bytes too long")))
    }
}

/// Implements `echo`, `fail` and `send`, the last one in bursts.
#[derive(Default)]
struct Echo<const NAMED: bool> {
    bursts: Mutex<Vec<usize>>,
    calls: AtomicU64,
}

impl<const NAMED: bool> Answerer for Echo<NAMED> {
    type Failure = Failure<NAMED>;

    fn admit(&self, requests: usize) -> Result<(), Failure<NAMED>> {
        match requests {
            0..=10 => Ok(()),
            more => Err(Failure(ErrorObject::new(INVALID_REQUEST, format!("{more} are too many")))),
        }
    }

    async fn call(&self, call: Call<'_>) -> Result<String, Failure<NAMED>> {
        self.calls.fetch_add(1, Relaxed);
        match &*call.method {
            "echo" => Ok(call.params.map_or("null", |params| params.get()).to_owned()),
            "fail" => Err(Failure(ErrorObject::new(3, "it failed").with_data(format!("\"{}\"", "x".repeat(700))))),
            _ => Err(Failure(ErrorObject::new(METHOD_NOT_FOUND, call.method.into_owned()))),
        }
    }

    fn burst(&self, call: &Call<'_>) -> Option<usize> {
        (call.method == "send").then_some(120)
    }

    async fn call_together(&self, calls: Vec<Call<'_>>) -> Vec<Result<String, Failure<NAMED>>> {
        self.bursts.lock().push(calls.len());
        calls.iter().map(|call| Ok(call.params.map_or("null", |params| params.get()).to_owned())).collect()
    }
}

#[derive(Default)]
struct Counters {
    requests: AtomicU64,
    errors: AtomicU64,
    other: AtomicU64,
}

impl Counts for Counters {
    fn word(&self, what: CountedEvent) -> &AtomicU64 {
        match what {
            CountedEvent::Requests => &self.requests,
            CountedEvent::Errors => &self.errors,
            _ => &self.other,
        }
    }
}

fn reply<const NAMED: bool>(echo: &Echo<NAMED>, counters: &Counters, text: &str) -> Reply {
    let bounds = Bounds { batch_read: 10, batch_bytes: 1_000, answer_bytes: 5_000 };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(answer(text.as_bytes(), bounds, counters, echo))
}

fn ask<const NAMED: bool>(echo: &Echo<NAMED>, text: &str) -> Value {
    let reply = reply(echo, &Counters::default(), text);
    reply.text.map_or(Value::Null, |text| serde_json::from_str(&text).expect("an answer is JSON"))
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_default()
}

fn codes(answer: &Value) -> Vec<i64> {
    answer.as_array().expect("a list").iter().map(code).collect()
}

fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

#[test]
fn answers_have_the_id_of_their_request() {
    let (named, plain) = (Echo::<true>::default(), Echo::<false>::default());
    for id in ["1", "\"a\"", "null", "1.5"] {
        let value: Value = serde_json::from_str(id).unwrap();
        let expected = json!({ "jsonrpc": "2.0", "id": value, "result": ["x"] });
        assert_eq!(ask(&named, &request(id, "echo", "[\"x\"]")), expected);
        assert_eq!(ask(&plain, &request(id, "echo", "[\"x\"]")), expected);
    }
    assert_eq!(ask(&named, r#"{"jsonrpc":"2.0","method":"echo"}"#), Value::Null);
    assert_eq!(ask(&named, &request("1", "ec\\u0068o", "7"))["result"], 7);
    assert_eq!(ask(&named, &request("true", "echo", "7"))["id"], true);
    assert_eq!(code(&ask(&plain, &request("true", "echo", "7"))), INVALID_REQUEST);
    // Of two fields with one name the last is taken.
    assert_eq!(ask(&plain, r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"echo","more":{}}"#)["id"], 2);
}

#[test]
fn the_id_is_where_clients_expect_it() {
    let text = |reply: Reply| reply.text.unwrap();
    let counters = Counters::default();
    let named = text(reply(&Echo::<true>::default(), &counters, &request("1", "echo", "7")));
    assert_eq!(named, r#"{"jsonrpc":"2.0","id":1,"result":7}"#);
    let plain = text(reply(&Echo::<false>::default(), &counters, &request("1", "echo", "7")));
    assert_eq!(plain, r#"{"jsonrpc":"2.0","result":7,"id":1}"#);
}

#[test]
fn malformed_texts_are_refused() {
    let echo = Echo::<false>::default();
    let table = [
        ("", PARSE_ERROR, "EOF"),
        ("{", PARSE_ERROR, "EOF"),
        ("nonsense", PARSE_ERROR, "expected"),
        ("[1,", PARSE_ERROR, "EOF"),
        ("[]", INVALID_REQUEST, "an empty batch"),
        ("1", INVALID_REQUEST, "expected an object, found 1"),
        ("\"text\"", INVALID_REQUEST, "found \"text\""),
        ("{}", INVALID_REQUEST, "\"jsonrpc\""),
        (r#"{"id":1,"method":"echo"}"#, INVALID_REQUEST, "\"jsonrpc\""),
        (r#"{"jsonrpc":"1.0","id":1,"method":"echo"}"#, INVALID_REQUEST, "\"jsonrpc\""),
        (r#"{"jsonrpc":"2.0","id":{},"method":"echo"}"#, INVALID_REQUEST, "the id"),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, INVALID_REQUEST, "\"method\""),
        (r#"{"jsonrpc":"2.0","id":1,"method":"none"}"#, METHOD_NOT_FOUND, "none"),
    ];
    for (text, expected, words) in table {
        let answer = ask(&echo, text);
        assert_eq!(code(&answer), expected, "{text}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{answer}");
    }
    // A list is no request, whatever is in it, and is not followed down.
    let deep = format!("[[\"2.0\",1,\"echo\"],{}1{}]", "[".repeat(5_000), "]".repeat(5_000));
    let answer = ask(&echo, &deep);
    assert_eq!(codes(&answer), [INVALID_REQUEST; 2]);
    assert!(answer[1]["error"]["message"].as_str().unwrap().ends_with("found an array"), "{answer}");
}

#[test]
fn batches_are_answered_in_order() {
    let (echo, counters) = (Echo::<false>::default(), Counters::default());
    let (one, two) = (request("1", "echo", "1"), request("2", "echo", "2"));
    let text = format!("[{one},5,{two},{{\"jsonrpc\":\"2.0\",\"method\":\"echo\"}}]");
    let answer: Value = serde_json::from_str(&reply(&echo, &counters, &text).text.unwrap()).unwrap();
    assert_eq!(codes(&answer), [0, INVALID_REQUEST, 0]);
    assert_eq!((&answer[0]["result"], &answer[2]["result"]), (&1.into(), &2.into()));
    assert_eq!((counters.requests.load(Relaxed), counters.errors.load(Relaxed)), (4, 1));
    assert_eq!(ask(&echo, r#"[{"jsonrpc":"2.0","method":"echo"}]"#), Value::Null);
}

#[test]
fn too_many_requests_are_refused_as_a_whole() {
    let text: Vec<String> = (7..18).map(|id: u32| request(&id.to_string(), "echo", "1")).collect();
    let text = format!("[{}]", text.join(","));
    let named = Echo::<true>::default();
    let answer = ask(&named, &text);
    assert_eq!((code(&answer[0]), &answer[0]["id"]), (INVALID_REQUEST, &7.into()));
    assert_eq!(named.calls.load(Relaxed), 0);
    let reply = reply(&Echo::<false>::default(), &Counters::default(), &text);
    assert_eq!(reply.refused, Some(INVALID_REQUEST));
    let answer: Value = serde_json::from_str(&reply.text.unwrap()).unwrap();
    assert_eq!((code(&answer), &answer["id"]), (INVALID_REQUEST, &Value::Null));
}

#[test]
fn long_answers_are_replaced_by_errors() {
    let long = request("1", "echo", &format!("[\"{}\"]", "x".repeat(700)));
    let text = format!("[{long},{long},{},{},5]", request("3", "echo", "3"), request("4", "send", "4"));
    // This dialect sends any answer that fits, whatever came before it.
    let plain = Echo::<false>::default();
    assert_eq!(codes(&ask(&plain, &text)), [0, -32003, 0, 0, INVALID_REQUEST]);
    // And this one executes nothing more.
    let named = Echo::<true>::default();
    assert_eq!(codes(&ask(&named, &text)), [0, -32003, -32003, -32003, INVALID_REQUEST]);
    assert_eq!((named.calls.load(Relaxed), named.bursts.lock().len()), (2, 0));
    // Errors are measured like any answer.
    let failing = format!("[{}]", vec![request("1", "fail", "[]"); 9].join(","));
    assert_eq!(codes(&ask(&named, &failing)), [[3].as_slice(), &[-32003; 8]].concat());
    // A burst is not made if not all of its answers would fit.
    let sends = format!("[{}]", vec![request("1", "send", "1"); 9].join(","));
    assert_eq!(codes(&ask(&named, &sends)), [-32003; 9]);
    assert!(named.bursts.lock().is_empty());
    // A single request has a limit of its own.
    let alone = |length: usize| ask(&named, &request("1", "echo", &format!("[\"{}\"]", "x".repeat(length))));
    assert_eq!(alone(4_000)["result"][0].as_str().map(str::len), Some(4_000));
    assert_eq!(code(&alone(5_000)), -32003);
}

#[test]
fn calls_side_by_side_are_one_burst() {
    let echo = Echo::<true>::default();
    let send = |id: &str| request(id, "send", id);
    let batch = [send("1"), send("2"), request("9", "echo", "9"), send("3"), "5".into(), send("4")];
    let answer = ask(&echo, &format!("[{}]", batch.join(",")));
    assert_eq!(*echo.bursts.lock(), [2, 1, 1]);
    let results: Vec<&Value> = answer.as_array().unwrap().iter().map(|answer| &answer["result"]).collect();
    assert_eq!(results, [&json!(1), &json!(2), &json!(9), &json!(3), &Value::Null, &json!(4)]);
}

#[test]
fn no_more_of_a_batch_is_read_than_wanted() {
    let text = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    let read = |text: &str| request::read_batch(text.as_bytes(), 10, false).map(|requests| requests.len()).ok();
    assert_eq!([text(9), text(10), text(11), text(1_000_000)].map(|text| read(&text)), [9, 10, 11, 11].map(Some));
    // Of objects too, whatever comes after them.
    assert_eq!(read(&format!("[{}", "{},".repeat(1_000))), Some(11));
    assert_eq!(read("[{},1,"), None);
    assert_eq!(read("[{}]]"), None);
}

proptest::proptest! {
    #[test]
    fn any_text_is_answered_with_json(text in "[\\[\\]{}\",:a-z0-9 \\\\]{0,60}") {
        ask(&Echo::<true>::default(), &text);
        ask(&Echo::<false>::default(), &text);
    }
}
