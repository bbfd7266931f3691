//! A node's JSON-RPC, asked one question at a time over a connection that is kept.
//!
//! reads   answers with a Content-Length
//! writes  requests
//! memory  one answer, 64 MiB at most
//! source  JSON-RPC 2.0; HTTP/1.1

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::{Value, json};

/// The longest wait for an answer, unless another is set.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest head of an answer.
const HEAD_MAX: u64 = 16 << 10;
/// The longest answer.
const ANSWER_MAX: usize = 64 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The URL is not one that can be asked.
    #[error("{0} is no URL of a node's RPC: expected http://HOST:PORT")]
    Url(String),
    /// The host is not known.
    #[error("the host of {0} has no address")]
    Host(String),
    /// The connection.
    #[error("{method}: {source}")]
    Connection {
        /// What was asked.
        method: String,
        /// What the system said.
        source: io::Error,
    },
    /// The node refuses.
    #[error("{method}: the node answers {error}")]
    Refused {
        /// What was asked.
        method: String,
        /// Its error.
        error: Value,
    },
}

/// A node's RPC.
pub struct Rpc {
    host: String,
    path: String,
    /// Where it listens.
    pub address: SocketAddr,
    timeout: Duration,
    stream: Option<BufReader<TcpStream>>,
}

impl Rpc {
    /// The RPC at `url`, not yet connected to.
    pub fn at(url: &str) -> Result<Self, RpcError> {
        let wrong = || RpcError::Url(url.into());
        let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let mut found = host.to_socket_addrs().map_err(|_| RpcError::Host(url.into()))?;
        let address = found.next().ok_or_else(|| RpcError::Host(url.into()))?;
        Ok(Self { host, path: format!("/{path}"), address, timeout: TIMEOUT, stream: None })
    }

    /// The same, waited for so long at most.
    pub fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// A second connection to the same.
    pub fn another(&self) -> Self {
        let Self { host, path, address, timeout, .. } = self;
        Self { host: host.clone(), path: path.clone(), address: *address, timeout: *timeout, stream: None }
    }

    /// The result of a call.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, RpcError> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let answer = self.post(&body);
        let broken = |source| RpcError::Connection { method: method.into(), source };
        let mut answer: Value = serde_json::from_slice(&answer.map_err(broken)?).map_err(|e| broken(e.into()))?;
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(RpcError::Refused { method: method.into(), error: answer["error"].take() }),
        }
    }

    fn post(&mut self, body: &str) -> io::Result<Vec<u8>> {
        let kept = self.stream.is_some();
        let answered = match self.ask(body) {
            // A server may hang up on a connection that was idle, and has not heard what was asked then. After any
            // other failure it may have: asked again, it would do it twice.
            Err(why) if kept && is_hung_up(&why) => {
                self.stream = None;
                self.ask(body)
            }
            answered => answered,
        };
        let answer = answered.and_then(read_answer);
        if answer.is_err() {
            self.stream = None;
        }
        answer
    }

    /// Asks, and waits for the first byte of the answer.
    fn ask(&mut self, body: &str) -> io::Result<&mut BufReader<TcpStream>> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let stream = TcpStream::connect_timeout(&self.address, self.timeout)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(self.timeout))?;
                stream.set_write_timeout(Some(self.timeout))?;
                none.insert(BufReader::new(stream))
            }
        };
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.path,
            self.host,
            body.len()
        );
        stream.get_mut().write_all(request.as_bytes())?;
        match stream.fill_buf()? {
            [] => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(stream),
        }
    }
}

/// What a node's error says, without its code.
pub fn message(error: &Value) -> String {
    error["message"].as_str().map_or_else(|| error.to_string(), Into::into)
}

fn is_hung_up(why: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(why.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn read_answer(stream: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut head = stream.by_ref().take(HEAD_MAX);
    let mut length = None;
    loop {
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            let is_long = head.limit() == 0;
            return Err(if is_long {
                io::Error::other("the head is too long")
            } else {
                ErrorKind::UnexpectedEof.into()
            });
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse().ok(),
            None if !line.contains(" 200") => return Err(io::Error::other(line.to_owned())),
            _ => {}
        }
    }
    let length = length.filter(|length| *length <= ANSWER_MAX);
    let mut answer = vec![0; length.ok_or_else(|| io::Error::other("an answer without its length, or too long"))?];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    #[test]
    fn what_is_no_url_is_refused() {
        assert!(matches!(Rpc::at("https://127.0.0.1:8899"), Err(RpcError::Url(_))));
        assert!(matches!(Rpc::at("127.0.0.1:8899"), Err(RpcError::Url(_))));
        let rpc = Rpc::at("http://127.0.0.1:8899/path").unwrap();
        assert_eq!((rpc.address.port(), rpc.path.as_str()), (8899, "/path"));
        assert_eq!(Rpc::at("http://127.0.0.1").unwrap().address.port(), 80);
    }

    /// Gives these answers, whole or not, over one connection after the other, and hangs up after the last of each.
    /// Tells how often it was asked.
    fn served(connections: Vec<Vec<String>>) -> (Rpc, JoinHandle<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rpc = Rpc::at(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let server = std::thread::spawn(move || {
            let mut asked = 0;
            for answers in connections {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                for answer in answers {
                    let mut line = String::new();
                    while line.trim_end() != "" || line.is_empty() {
                        line.clear();
                        stream.read_line(&mut line).unwrap();
                    }
                    // The body of what is asked here, whole.
                    stream
                        .read_exact(&mut [0; r#"{"id":1,"jsonrpc":"2.0","method":"getSlot","params":[]}"#.len()])
                        .unwrap();
                    asked += 1;
                    stream.get_mut().write_all(answer.as_bytes()).unwrap();
                }
            }
            asked
        });
        (rpc, server)
    }

    fn whole(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    #[test]
    fn a_connection_is_kept_and_errors_are_told() {
        let refusal = whole(r#"{"error":{"code":-32601,"message":"no"}}"#);
        let (mut rpc, server) = served(vec![vec![whole(r#"{"result":7}"#), refusal]]);
        assert_eq!(rpc.call("getSlot", json!([])).unwrap(), 7);
        let error = rpc.call("getSlot", json!([])).unwrap_err();
        assert!(error.to_string().contains("getSlot") && error.to_string().contains("-32601"), "{error}");
        assert!(matches!(error, RpcError::Refused { error, .. } if message(&error) == "no"));
        assert_eq!(server.join().unwrap(), 2);
    }

    #[test]
    fn only_what_was_not_heard_is_asked_again() {
        let seven = || whole(r#"{"result":7}"#);
        let (mut rpc, server) = served(vec![vec![seven()], vec![seven(), "HTTP/1.1 2".into()]]);
        // The second finds the connection closed, the third's answer breaks off.
        assert_eq!(rpc.call("getSlot", json!([])).unwrap(), 7);
        assert_eq!(rpc.call("getSlot", json!([])).unwrap(), 7);
        let error = rpc.call("getSlot", json!([])).unwrap_err();
        assert!(matches!(error, RpcError::Connection { .. }), "{error}");
        assert_eq!(server.join().unwrap(), 3);
    }

    #[test]
    fn a_head_without_an_end_is_not_read_on() {
        let (mut rpc, server) = served(vec![vec![format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(HEAD_MAX as usize))]]);
        let error = rpc.call("getSlot", json!([])).unwrap_err().to_string();
        assert!(error.contains("the head is too long"), "{error}");
        server.join().unwrap();
    }
}
