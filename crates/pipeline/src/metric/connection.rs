//! One HTTP connection of `metric`: a request in, a response out, then closed.
//!
//! reads   at most 4 KiB of request
//! writes  one response
//! memory  the request buffer and the response
//! drops   by the caller, on what [`Connection::step`] returns

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};

const MAX_REQUEST: usize = 4096;
const TIMEOUT_NS: u64 = 5_000_000_000;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More to read or to write.
    Waiting,
    /// Metrics were sent.
    Served,
    /// An error was sent.
    Refused,
    /// The peer is gone or too slow.
    Broken,
}

/// A connection between accept and close.
pub struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    response: Vec<u8>,
    written: usize,
    end: Progress,
    deadline: u64,
}

impl Connection {
    /// A connection accepted at `now`; the stream must be non-blocking.
    pub fn new(stream: TcpStream, now: u64) -> Self {
        let (request, response) = (Vec::with_capacity(512), vec![]);
        Self { stream, request, response, written: 0, end: Progress::Waiting, deadline: now + TIMEOUT_NS }
    }

    /// The socket, to wait for.
    pub fn raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// When the connection is given up, on the host's clock.
    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Reads and writes what can be without waiting.
    pub fn step(&mut self, now: u64, metrics: impl FnOnce() -> String) -> Progress {
        if now >= self.deadline {
            return Progress::Broken;
        }
        if self.response.is_empty() {
            match self.read() {
                Ok(false) => return Progress::Waiting,
                Ok(true) => self.answer(metrics),
                Err(()) => return Progress::Broken,
            }
        }
        self.write()
    }

    /// True when the request is complete or too long to become so.
    fn read(&mut self) -> Result<bool, ()> {
        let mut buffer = [0; 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(()),
                Ok(n) => self.request.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(()),
            }
            if self.request.len() > MAX_REQUEST || self.request.windows(4).any(|w| w == b"\r\n\r\n") {
                return Ok(true);
            }
        }
    }

    fn answer(&mut self, metrics: impl FnOnce() -> String) {
        let line = self.request.split(|b| *b == b'\r').next().unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
        let too_long = self.request.len() > MAX_REQUEST;
        let (status, kind, body) = match words[..] {
            [b"GET", b"/metrics" | b"/", version] if version.starts_with(b"HTTP/1.") && !too_long => {
                self.end = Progress::Served;
                ("200 OK", "text/plain; version=0.0.4; charset=utf-8", metrics())
            }
            [b"GET", _, version] if version.starts_with(b"HTTP/1.") && !too_long => {
                self.refuse("404 Not Found", "metrics are at /metrics\n")
            }
            [_, _, version] if version.starts_with(b"HTTP/1.") && !too_long => {
                self.refuse("405 Method Not Allowed", "use GET\n")
            }
            _ => self.refuse("400 Bad Request", "not an HTTP/1 request of at most 4 KiB\n"),
        };
        let len = body.len();
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
        self.response = [head.as_bytes(), body.as_bytes()].concat();
    }

    fn refuse(&mut self, status: &'static str, body: &str) -> (&'static str, &'static str, String) {
        self.end = Progress::Refused;
        (status, "text/plain; charset=utf-8", body.to_owned())
    }

    fn write(&mut self) -> Progress {
        while self.written < self.response.len() {
            match self.stream.write(&self.response[self.written..]) {
                Ok(0) => return Progress::Broken,
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Progress::Waiting,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Progress::Broken,
            }
        }
        self.end
    }
}
