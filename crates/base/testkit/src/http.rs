//! A fake node: an HTTP server on 127.0.0.1 that answers as a test says and can break off an answer, with a thread per
//! connection. Also the client side, for tests and benches that write a request's bytes themselves.
//!
//! reads   requests and answers with a Content-Length
//! writes  the answers of the test
//!
//! Ordinary requests use `rpc-client`. A test writes the bytes itself if they are its subject; a bench does if it has
//! several requests in progress on a connection, or measures microseconds.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The server's reaction to a request.
pub enum Reply {
    /// Sends an answer with this body.
    Answer(String),
    /// An answer that is no text.
    Bytes(Vec<u8>),
    /// Sends only a status.
    Status(u16),
    /// The first half of an answer, and the connection is closed.
    Half(String),
    /// The connection is closed without a word.
    Silence,
}

/// The code and the message of a JSON-RPC error.
pub type Refusal = (i64, String);

/// Returns the answer to a request, or the answers to a batch.
pub fn answered(request: &Value, mut call: impl FnMut(&str, &Value) -> Result<Value, Refusal>) -> Value {
    let mut one = |question: &Value| match call(question["method"].as_str().unwrap(), &question["params"]) {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }),
        Err((code, message)) => {
            json!({ "jsonrpc": "2.0", "id": question["id"], "error": { "code": code, "message": message } })
        }
    };
    match request.as_array() {
        Some(questions) => questions.iter().map(one).collect(),
        None => one(request),
    }
}

/// Serves JSON-RPC while the process lives; returns the URL. `call` answers a method and its parameters.
pub fn serve_calls(call: impl Fn(&str, &Value) -> Result<Value, Refusal> + Send + Sync + 'static) -> String {
    serve(move |body| Reply::Answer(answered(&serde_json::from_slice(body).unwrap(), &call).to_string()))
}

/// Serves while the process lives; returns the URL. `answer` is given the body of a request.
pub fn serve(answer: impl Fn(&[u8]) -> Reply + Send + Sync + 'static) -> String {
    serve_on(TcpListener::bind("127.0.0.1:0").unwrap(), move |_, body| answer(body))
}

/// Serves on a listening socket. `answer` receives the request's path and body.
pub fn serve_on(listener: TcpListener, answer: impl Fn(&str, &[u8]) -> Reply + Send + Sync + 'static) -> String {
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            thread::spawn(move || converse(stream, &*answer));
        }
    });
    url
}

/// Serves one connection until it ends.
fn converse(stream: TcpStream, answer: &dyn Fn(&str, &[u8]) -> Reply) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut reader, mut body) = (BufReader::new(stream), vec![]);
    loop {
        let place = read_request(&mut reader, &mut body)?;
        let (status, bytes) = match answer(&place, &body) {
            Reply::Answer(text) => (200, text.into_bytes()),
            Reply::Bytes(bytes) => (200, bytes),
            Reply::Status(status) => (status, vec![]),
            Reply::Half(text) => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
                reader.get_mut().write_all(format!("{head}{}", &text[..text.len() / 2]).as_bytes()).ok()?;
                return None;
            }
            Reply::Silence => return None,
        };
        let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", bytes.len());
        reader.get_mut().write_all(&[head.as_bytes(), &bytes].concat()).ok()?;
    }
}

/// Reads a request's body; returns its path, as `/path?query`.
fn read_request(reader: &mut impl BufRead, body: &mut Vec<u8>) -> Option<String> {
    let line = read_message(reader, body)?;
    line.split(' ').nth(1).map(str::to_owned)
}

/// Reads a message with a body of its Content-Length, or none without one; returns its first line.
fn read_message(reader: &mut impl BufRead, body: &mut Vec<u8>) -> Option<String> {
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    body.resize(length, 0);
    reader.read_exact(body).ok()?;
    Some(first)
}

/// How long a client of a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connects to a server under test.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Writes the head of a POST of JSON, and the body.
pub fn write_post(to: &mut impl Write, body: &str) {
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    to.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
}

/// Reads one answer; returns its status and its body.
#[track_caller]
pub fn read_answer(from: &mut impl BufRead) -> (u16, String) {
    let mut body = vec![];
    let line = read_message(from, &mut body).expect("a whole answer");
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {line}")), String::from_utf8(body).unwrap())
}
