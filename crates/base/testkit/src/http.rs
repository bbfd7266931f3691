//! A fake node: an HTTP server on 127.0.0.1 that answers as a test says, and can break off an answer; a thread for each
//! connection.
//!
//! reads   requests with a Content-Length
//! writes  the answers of the test

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

/// What the server does with a request.
pub enum Reply {
    /// An answer.
    Answer(String),
    /// An answer that is no text.
    Bytes(Vec<u8>),
    /// A status, and nothing else.
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

/// Serves on a listening socket. `answer` is given the place that the request asks for, and its body.
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

/// Reads a request's body; returns the place that it asks for, as `/path?query`.
fn read_request(reader: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> Option<String> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let place = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    body.resize(length, 0);
    reader.read_exact(body).ok()?;
    Some(place)
}
