//! JSON-RPC 2.0: one request or a batch, and their answers.
//!
//! reads   the text of a request
//! writes  the text of an answer; nothing for notifications
//! memory  per request of a batch a few words that point into the text, for one more than a batch may have; raw
//!         transactions; the answer, of a batch at most [`Limits::answer_bytes`](crate::Limits)
//! drops   what is no request: errors -32700 and -32600; batches that are too long: -32600; of a batch what comes after
//!         the first answer that does not fit: -32003, and it is not executed; counted
//! source  jsonrpc.org/specification; `rpc/handler.go` of go-ethereum 1.16 for what it leaves open
//!
//! Raw transactions are what a node is asked for most. Those that stand next to each other in a batch go to the chain
//! as one burst; from the text of a request to the bytes of its transaction nothing is built but these bytes.

use std::borrow::Cow;

use alloy_primitives::{B256, Bytes};
use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::counters::{Counters, count, count_many};
use crate::failure::Failure;
use crate::params::Params;
use crate::{hexadecimal, json};

/// A longer answer's room is given back.
const LONG_BYTES: usize = 64 << 10;
/// What an answer with a hash takes beside its id, and more.
const SENT_BYTES: usize = 120;
/// The method whose requests go to the chain in bursts.
const SEND: &str = "eth_sendRawTransaction";

/// What answers requests.
pub trait Answerer {
    /// Whether so many requests may be made now.
    fn admit(&self, requests: usize) -> Result<(), Failure>;

    /// The result of one request, as JSON.
    fn call(&self, method: &str, params: Params<'_>) -> impl Future<Output = Result<String, Failure>> + Send;

    /// Hands raw transactions to the chain: their hashes.
    fn send(&self, burst: Vec<Bytes>) -> impl Future<Output = Vec<Result<B256, Failure>>> + Send;
}

/// A request as it stands in the text.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
}

/// A field that is there, null included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A request that has the form of one, or why it has not; beside the id of the answer.
struct Request<'a> {
    /// `None`: no answer is wanted.
    id: Option<&'a str>,
    call: Result<(Cow<'a, str>, Option<&'a RawValue>), Failure>,
}

impl<'a> Request<'a> {
    fn of(wire: &Wire<'a>) -> Self {
        let id = wire.id.map(RawValue::get).filter(|id| !id.starts_with(['{', '[']));
        let version = wire.jsonrpc.map(RawValue::get) == Some("\"2.0\"");
        let method = wire.method.and_then(|method| crate::params::string(method.get(), "string").ok());
        match method.filter(|method| version && !method.is_empty() && (id.is_some() || wire.id.is_none())) {
            Some(method) => Self { id, call: Ok((method, wire.params)) },
            None => Self { id: id.or(Some("null")), call: Err(Failure::invalid_request("invalid request")) },
        }
    }

    fn of_text(text: &'a RawValue) -> Self {
        match serde_json::from_str::<Wire<'_>>(text.get()) {
            Ok(wire) => Self::of(&wire),
            Err(_) => Self { id: Some("null"), call: Err(Failure::invalid_request("invalid request")) },
        }
    }

    /// The transaction, where it is a request to send one.
    fn transaction(&self) -> Option<Result<Bytes, Failure>> {
        let (method, params) = self.call.as_ref().ok()?;
        (method == SEND).then(|| raw_transaction(*params))
    }
}

/// The one parameter of a request to send a transaction.
fn raw_transaction(params: Option<&RawValue>) -> Result<Bytes, Failure> {
    // What nearly every client writes, read without a list in between.
    let plain = params.and_then(|params| {
        let text = params.get().strip_prefix("[\"")?.strip_suffix("\"]")?;
        hexadecimal::data(text).ok()
    });
    match plain {
        Some(bytes) => Ok(bytes.into()),
        None => Params::of(params)?.at_most(1)?.required(0),
    }
}

/// Answers a text: a request or a batch. `None`: nothing wanted an answer.
pub async fn answer<A: Answerer + Sync>(
    text: &[u8],
    limits: &crate::Limits,
    counters: &Counters,
    answerer: &A,
) -> Option<String> {
    let first = text.iter().copied().find(|byte| !byte.is_ascii_whitespace());
    let is_batch = first == Some(b'[');
    let requests = match is_batch {
        true => read_batch(text, limits.batch_length),
        false => serde_json::from_slice::<&RawValue>(text).map(|text| vec![Request::of_text(text)]),
    };
    let refusal = |failure: Failure, id: Option<&str>| {
        count(&counters.requests);
        count(&counters.errors);
        let mut out = String::new();
        push_answer(&mut out, id.unwrap_or("null"), Err(failure));
        Some(if is_batch && id.is_some() { format!("[{out}]") } else { out })
    };
    let requests = match requests {
        Ok(requests) => requests,
        Err(_) => return refusal(Failure::parse(), None),
    };
    if requests.is_empty() {
        return refusal(Failure::invalid_request("empty batch"), None);
    }
    // geth's way: one answer, with the id of the first request that wants one.
    let an_id = || Some(requests.iter().find_map(|request| request.id).unwrap_or("null"));
    if requests.len() > limits.batch_length {
        return refusal(Failure::invalid_request("batch too large"), an_id());
    }
    if let Err(failure) = answerer.admit(requests.len()) {
        return refusal(failure, an_id());
    }
    count_many(&counters.requests, requests.len());
    let bytes_max = if is_batch { limits.answer_bytes } else { usize::MAX };
    let mut answers = Answers { out: String::new(), one: String::new(), bytes_max, is_full: false, is_batch, counters };
    let mut rest = requests.into_iter().peekable();
    while let Some(request) = rest.next() {
        if answers.is_full {
            answers.push(request.id, request.call.and(Err(Failure::too_large())));
            continue;
        }
        if let Some(transaction) = request.transaction() {
            let mut run = vec![(request.id, transaction)];
            while let Some(next) = rest.peek().and_then(|next| Some((next.id, next.transaction()?))) {
                run.push(next);
                rest.next();
            }
            // Nothing is sent whose hash could not be told.
            if !answers.have_room_for(&run) {
                answers.is_full = true;
                run.into_iter().for_each(|(id, _)| answers.push(id, Err(Failure::too_large())));
                continue;
            }
            send(run, &mut answers, answerer).await;
            continue;
        }
        let result = match request.call {
            Ok((method, params)) => match Params::of(params) {
                Ok(params) => answerer.call(&method, params).await,
                // What there is not has no wrong parameters.
                Err(failure) => Err(failure),
            },
            Err(failure) => Err(failure),
        };
        answers.push(request.id, result);
    }
    answers.end()
}

/// The requests of a batch; the first `most` and one more where there are more.
fn read_batch(text: &[u8], most: usize) -> Result<Vec<Request<'_>>, serde_json::Error> {
    // In one pass if all are objects; else each for itself.
    read_with(text, most, |wire: Wire<'_>| Request::of(&wire)).or_else(|_| read_with(text, most, Request::of_text))
}

fn read_with<'a, T: Deserialize<'a>>(
    text: &'a [u8],
    most: usize,
    request: fn(T) -> Request<'a>,
) -> Result<Vec<Request<'a>>, serde_json::Error> {
    let mut requests = Vec::new();
    let batch = Batch { requests: &mut requests, most, request };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    match batch.deserialize(&mut deserializer).and_then(|()| deserializer.end()) {
        // What comes after them is not even read.
        Err(_) if requests.len() > most => Ok(requests),
        result => result.map(|()| requests),
    }
}

/// Reads a batch until there are too many.
struct Batch<'v, 'a, T> {
    requests: &'v mut Vec<Request<'a>>,
    most: usize,
    request: fn(T) -> Request<'a>,
}

impl<'a, T: Deserialize<'a>> DeserializeSeed<'a> for Batch<'_, 'a, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'a, T: Deserialize<'a>> Visitor<'a> for Batch<'_, 'a, T> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a batch")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            self.requests.push((self.request)(item));
            if self.requests.len() > self.most {
                return Err(A::Error::custom("too many"));
            }
        }
        Ok(())
    }
}

/// Sends transactions in one burst and answers for each.
async fn send<A: Answerer + Sync>(
    run: Vec<(Option<&str>, Result<Bytes, Failure>)>,
    answers: &mut Answers<'_>,
    answerer: &A,
) {
    let mut burst = Vec::with_capacity(run.len());
    let wanted: Vec<(Option<&str>, Option<Failure>)> = run
        .into_iter()
        .map(|(id, transaction)| match transaction {
            Ok(bytes) => {
                burst.push(bytes);
                (id, None)
            }
            Err(failure) => (id, Some(failure)),
        })
        .collect();
    let mut sent = if burst.is_empty() { Vec::new() } else { answerer.send(burst).await }.into_iter();
    answers.out.reserve(wanted.len() * SENT_BYTES);
    for (id, failure) in wanted {
        let result = match failure {
            Some(failure) => Err(failure),
            None => sent.next().unwrap_or_else(|| Err(Failure::internal("the transaction got no answer"))),
        };
        answers.push(id, result.map(|hash| json::data(hash.as_slice())));
    }
}

/// The answers so far.
struct Answers<'a> {
    out: String,
    /// The last answer of a batch, before it is known whether it fits.
    one: String,
    bytes_max: usize,
    /// Whether one did not fit: nothing but errors is answered any more.
    is_full: bool,
    is_batch: bool,
    counters: &'a Counters,
}

impl Answers<'_> {
    /// Whether the hashes of so many transactions fit.
    fn have_room_for(&self, run: &[(Option<&str>, Result<Bytes, Failure>)]) -> bool {
        let bytes: usize = run.iter().map(|(id, _)| id.map_or(0, str::len) + SENT_BYTES).sum();
        self.bytes_max.saturating_sub(self.out.len()) >= bytes
    }

    fn push(&mut self, id: Option<&str>, result: Result<String, Failure>) {
        if result.is_err() {
            count(&self.counters.errors);
        }
        // Whoever gives no id wants no answer.
        let Some(id) = id else { return };
        if !self.is_batch {
            return push_answer(&mut self.out, id, result);
        }
        self.out.push(if self.out.is_empty() { '[' } else { ',' });
        let is_error = result.is_err();
        self.one.clear();
        push_answer(&mut self.one, id, result);
        // Errors are as long as a contract makes them, which says why it reverted; after the first that does not fit
        // there are short ones only.
        if !self.is_full && self.out.len() + self.one.len() > self.bytes_max {
            if !is_error {
                count(&self.counters.errors);
            }
            self.is_full = true;
            push_answer(&mut self.out, id, Err(Failure::too_large()));
        } else {
            self.out.push_str(&self.one);
        }
        // Of a long one no room stays taken while the rest of the batch is answered.
        if self.one.capacity() > LONG_BYTES {
            self.one = String::new();
        }
    }

    fn end(mut self) -> Option<String> {
        if self.out.is_empty() {
            return None;
        }
        if self.is_batch {
            self.out.push(']');
        }
        Some(self.out)
    }
}

fn push_answer(out: &mut String, id: &str, result: Result<String, Failure>) {
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    out.push_str(id);
    match result {
        Ok(result) => {
            out.push_str(",\"result\":");
            out.push_str(&result);
        }
        Err(failure) => {
            out.push_str(",\"error\":");
            failure.push(out);
        }
    }
    out.push('}');
}

/// The text of a notification to a subscriber; `subscription` is its quoted number.
pub fn notification(subscription: &str, result: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"eth_subscription\",\"params\":{{\"subscription\":{subscription},\
         \"result\":{result}}}}}"
    )
}

#[cfg(test)]
mod tests {

    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;

    /// Knows `echo`, and notes the bursts.
    #[derive(Default)]
    struct Echo {
        bursts: Mutex<Vec<usize>>,
    }

    impl Answerer for Echo {
        fn admit(&self, _: usize) -> Result<(), Failure> {
            Ok(())
        }

        async fn call(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
            match method {
                "echo" => Ok(params.json(0).unwrap_or("null").into()),
                "revert" => Err(Failure::reverted(&[7; 350])),
                other => Err(Failure::method_not_found(other)),
            }
        }

        async fn send(&self, burst: Vec<Bytes>) -> Vec<Result<B256, Failure>> {
            self.bursts.lock().push(burst.len());
            burst.iter().map(|bytes| Ok(B256::left_padding_from(bytes))).collect()
        }
    }

    fn ask_of(echo: &Echo, text: &str) -> Value {
        let limits = crate::Limits { batch_length: 10, answer_bytes: 1_000, ..Default::default() };
        let counters = Counters::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(answer(text.as_bytes(), &limits, &counters, echo));
        answer.map_or(Value::Null, |answer| serde_json::from_str(&answer).expect("an answer is JSON"))
    }

    fn ask(text: &str) -> Value {
        ask_of(&Echo::default(), text)
    }

    fn code(answer: &Value) -> i64 {
        answer["error"]["code"].as_i64().unwrap_or_default()
    }

    #[test]
    fn requests_are_answered_under_their_id() {
        for id in ["1", "\"a\"", "null", "1.5"] {
            let answer = ask(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo","params":["x"]}}"#));
            let id: Value = serde_json::from_str(id).unwrap();
            assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": id, "result": "x" }));
        }
        assert_eq!(ask(r#"{"jsonrpc":"2.0","method":"echo"}"#), Value::Null);
        let escaped = ask(r#"{"jsonrpc":"2.0","id":1,"method":"ec\u0068o","params":[7]}"#);
        assert_eq!(escaped["result"], 7);
    }

    #[test]
    fn what_is_no_request_is_refused_with_geths_numbers() {
        let table = [
            ("", -32700),
            ("{", -32700),
            ("nonsense", -32700),
            ("[1,", -32700),
            ("[]", -32600),
            ("1", -32600),
            ("\"text\"", -32600),
            ("{}", -32600),
            (r#"{"id":1,"method":"echo"}"#, -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"echo"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"echo"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"none"}"#, -32601),
            (r#"{"jsonrpc":"2.0","id":1,"method":"echo","params":5}"#, -32602),
            (r#"{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":[]}"#, -32602),
            (r#"{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x1"]}"#, -32602),
        ];
        for (text, expected) in table {
            assert_eq!(code(&ask(text)), expected, "{text}");
        }
        // Nesting beyond all measure is only looked at, never followed down.
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"none","params":{}1{}}}"#,
            "[".repeat(5_000),
            "]".repeat(5_000)
        );
        ask(&deep);
    }

    #[test]
    fn batches_are_answered_in_order_and_bounded() {
        let one = |id: usize| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo","params":[{id}]}}"#);
        let answer = ask(&format!("[{},5,{},{{\"jsonrpc\":\"2.0\",\"method\":\"echo\"}}]", one(1), one(2)));
        let answers = answer.as_array().unwrap();
        assert_eq!(answers.len(), 3);
        assert_eq!((&answers[0]["result"], code(&answers[1]), &answers[2]["result"]), (&1.into(), -32600, &2.into()));
        let many: Vec<String> = (7..18).map(one).collect();
        let refused = ask(&format!("[{}]", many.join(",")));
        assert_eq!((code(&refused[0]), &refused[0]["id"]), (-32600, &7.into()));
        assert_eq!(refused[0]["error"]["message"], "batch too large");
        assert_eq!(ask(r#"[{"jsonrpc":"2.0","method":"echo"}]"#), Value::Null);
        let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":["{}"]}}"#, "x".repeat(700));
        let send = r#"{"jsonrpc":"2.0","id":4,"method":"eth_sendRawTransaction","params":["0x01"]}"#;
        let echo = Echo::default();
        let answer = ask_of(&echo, &format!("[{long},{long},{},{send},5]", one(3)));
        let codes: Vec<i64> = answer.as_array().unwrap().iter().map(code).collect();
        assert_eq!(codes, [0, -32003, -32003, -32003, -32600]);
        assert!(echo.bursts.lock().is_empty(), "who is told that there is no answer has sent nothing");
        // What a contract says when it reverts is measured like any answer.
        let revert = |id: usize| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"revert"}}"#);
        let answer = ask_of(&echo, &format!("[{}]", (0..9).map(revert).collect::<Vec<_>>().join(",")));
        let codes: Vec<i64> = answer.as_array().unwrap().iter().map(code).collect();
        assert_eq!(codes, [[3].as_slice(), &[-32003; 8]].concat());
        // A burst whose hashes would not fit is not sent at all.
        let burst = format!("[{}]", vec![send; 9].join(","));
        let answer = ask_of(&echo, &burst);
        assert!(answer.as_array().unwrap().iter().all(|answer| code(answer) == -32003));
        assert!(echo.bursts.lock().is_empty(), "who is told that there is no answer has sent nothing");
        // One answer alone is as long as it is.
        let longer = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":["{}"]}}"#, "x".repeat(7_000));
        assert_eq!(ask(&longer)["result"].as_str().map(str::len), Some(7_000));
    }

    #[test]
    fn no_more_of_a_batch_is_read_than_it_may_have() {
        let text = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        let read = |text: &str| read_batch(text.as_bytes(), 10).map(|requests| requests.len()).ok();
        assert_eq!([text(9), text(10), text(11), text(1_000_000)].map(|text| read(&text)), [9, 10, 11, 11].map(Some));
        // Of objects too, whatever comes after them.
        assert_eq!(read(&format!("[{}", "{},".repeat(1_000))), Some(11));
        assert_eq!(read("[{},1,"), None);
        assert_eq!(read("[{}]]"), None);
    }

    #[test]
    fn transactions_side_by_side_are_one_burst() {
        let echo = Echo::default();
        let send = |id: usize, data: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_sendRawTransaction","params":["{data}"]}}"#)
        };
        let other = r#"{"jsonrpc":"2.0","id":9,"method":"echo","params":[]}"#;
        let batch = [send(0, "0x01"), send(1, "0xzz"), send(2, "0x02"), other.into(), send(3, "0x03")];
        let answer = ask_of(&echo, &format!("[{}]", batch.join(",")));
        assert_eq!(*echo.bursts.lock(), [2, 1]);
        let hash = |last: u8| json!(format!("0x{}{last:02x}", "00".repeat(31)));
        assert_eq!((&answer[0]["result"], &answer[2]["result"]), (&hash(1), &hash(2)));
        assert_eq!((code(&answer[1]), &answer[1]["id"]), (-32602, &1.into()));
        assert_eq!((&answer[3]["id"], &answer[4]["result"]), (&9.into(), &hash(3)));
        let spaced = r#"{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":[ "0x05" ]}"#;
        assert_eq!(ask_of(&echo, spaced)["result"], hash(5));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered_with_json(text in "[\\[\\]{}\",:a-z0-9 \\\\]{0,60}") {
            ask(&text);
        }
    }
}
