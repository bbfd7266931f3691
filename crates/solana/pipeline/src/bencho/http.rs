//! http: a JSON-RPC client that never blocks: one keep-alive connection, one request at a time.
//!
//! reads   one HTTP response with a Content-Length, at most 64 KiB
//! writes  one HTTP request
//! memory  the request's buffer and the response's
//! drops   the connection, on anything but such a response
//! source  RFC 9112

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

use hearth_tile::sys::tcp;

const MAX_RESPONSE: usize = 64 << 10;

/// State of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The response is incomplete.
    Waiting,
    /// The response is complete; this is its body.
    Body(Vec<u8>),
    /// The connection broke, or the response is invalid.
    Broken,
}

/// A connection to one server, established on demand.
pub struct HttpClient {
    server: SocketAddr,
    stream: Option<TcpStream>,
    /// The part of the request not sent yet.
    request: Vec<u8>,
    response: Vec<u8>,
}

impl HttpClient {
    /// Creates a client of `server`, not yet connected.
    pub fn new(server: SocketAddr) -> Self {
        Self { server, stream: None, request: vec![], response: Vec::with_capacity(1024) }
    }

    /// The socket, to poll.
    pub fn raw_fd(&self) -> Option<RawFd> {
        self.stream.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Whether a part of the request is not sent yet, usually because the connection is being established.
    pub fn is_sending(&self) -> bool {
        !self.request.is_empty()
    }

    /// Starts to send a JSON body. An earlier request must be answered, or abandoned by [`HttpClient::disconnect`].
    pub fn ask(&mut self, body: &str) -> std::io::Result<()> {
        if !self.stream.as_mut().is_some_and(is_idle) {
            let stream = tcp::connect(self.server)?;
            stream.set_nodelay(true)?;
            self.stream = Some(stream);
        }
        self.response.clear();
        let request = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.server,
            body.len()
        );
        self.request = request.into_bytes();
        Ok(())
    }

    /// Sends and reads as much as possible without blocking.
    pub fn poll(&mut self) -> Answer {
        let Some(stream) = &mut self.stream else { return Answer::Broken };
        while !self.request.is_empty() {
            match stream.write(&self.request) {
                Ok(n) => drop(self.request.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Answer::Waiting,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Answer::Broken,
            }
        }
        let (mut buffer, mut ended) = ([0; 4096], false);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(n) => self.response.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Answer::Broken,
            }
            if self.response.len() > MAX_RESPONSE {
                return Answer::Broken;
            }
        }
        match body_of(&self.response) {
            Answer::Waiting if ended => Answer::Broken,
            answer => answer,
        }
    }

    /// Closes the connection, and forgets the request under way.
    pub fn disconnect(&mut self) {
        self.stream = None;
        self.request.clear();
    }
}

/// Whether a kept connection can take a request: the server has neither closed it nor sent unsolicited bytes.
fn is_idle(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock)
}

fn body_of(response: &[u8]) -> Answer {
    let Some(end) = response.windows(4).position(|w| w == b"\r\n\r\n") else { return Answer::Waiting };
    let Ok(head) = std::str::from_utf8(&response[..end]) else { return Answer::Broken };
    let mut lines = head.split("\r\n");
    if !lines.next().is_some_and(|status| status.starts_with("HTTP/1.1 200")) {
        return Answer::Broken;
    }
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok());
    let Some(length) = length else { return Answer::Broken };
    match response[end + 4..].get(..length) {
        Some(body) => Answer::Body(body.to_vec()),
        None => Answer::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_found_when_complete() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
        for cut in 0..whole.len() {
            assert_eq!(body_of(&whole[..cut]), Answer::Waiting, "cut at {cut}");
        }
        assert_eq!(body_of(whole), Answer::Body(b"abc".to_vec()));
        assert_eq!(body_of(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n"), Answer::Broken);
        assert_eq!(body_of(b"HTTP/1.1 200 OK\r\n\r\n"), Answer::Broken);
    }
}
