//! A JSON-RPC client of a few lines: one request a connection, over loopback.
//!
//! reads   answers of a node's RPC
//! writes  requests to it
//! memory  one answer
//! source  JSON-RPC 2.0; HTTP/1.1 with `Connection: close`

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A node's RPC on 127.0.0.1.
#[derive(Clone, Copy)]
pub struct Rpc {
    /// Its port.
    pub port: u16,
}

impl Rpc {
    /// The result of one call.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, String> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let answer = self.post(&request).map_err(|error| format!("{method}: {error}"))?;
        let body = body(&answer).ok_or_else(|| format!("{method}: no HTTP answer but {answer:?}"))?;
        let answer: Value = serde_json::from_str(body).map_err(|error| format!("{method}: {error} in {body:?}"))?;
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(format!("{method}: {answer}")),
        }
    }

    fn post(&self, body: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let head = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close";
        stream.write_all(format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// The text at a path of what serves HTTP on a port of 127.0.0.1.
pub fn get(port: u16, path: &str) -> Result<String, String> {
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    let answer = ask().map_err(|error| format!("GET {path}: {error}"))?;
    let text = body(&answer).filter(|_| answer.starts_with("HTTP/1.1 200 "));
    text.map(str::to_owned).ok_or_else(|| format!("GET {path}: {answer:?}"))
}

/// What follows the head of an HTTP answer.
fn body(answer: &str) -> Option<&str> {
    answer.starts_with("HTTP/1.1 ").then(|| answer.split_once("\r\n\r\n"))?.map(|(_, body)| body)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Answers one request with `answer`, and gives the request back.
    fn serve_once(answer: &'static str) -> (Rpc, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let rpc = Rpc { port: listener.local_addr().unwrap().port() };
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            // The body, an object without others in it, ends with the first brace.
            while !request.ends_with(b"}") {
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(request).unwrap()
        });
        (rpc, server)
    }

    #[test]
    fn a_call_gives_its_result() {
        let (rpc, server) =
            serve_once("HTTP/1.1 200 OK\r\n\r\n{\"jsonrpc\":\"2.0\",\"result\":{\"value\":7},\"id\":1}");
        assert_eq!(rpc.call("getBalance", json!([])), Ok(json!({ "value": 7 })));
        assert!(server.join().unwrap().contains("\"method\":\"getBalance\""));
    }

    #[test]
    fn an_error_is_told_with_its_method() {
        let (rpc, server) = serve_once("HTTP/1.1 200 OK\r\n\r\n{\"error\":{\"code\":-32601,\"message\":\"no\"}}");
        let error = rpc.call("getNothing", json!([])).unwrap_err();
        assert!(error.contains("getNothing") && error.contains("-32601"), "{error}");
        server.join().unwrap();
    }
}
