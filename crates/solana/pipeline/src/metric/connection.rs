//! connection: one HTTP connection of `metric`: a request, a response, then close.
//!
//! reads   at most 4 KiB of request
//! writes  one response
//! memory  the request buffer and the response
//! drops   the caller closes the connection, according to the result of [`Connection::step`]
//! source  RFC 9112

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};

use hearth_ring::Observer;

use super::text::{Page, Template};

pub(super) const MAX_REQUEST: usize = 4096;
const TIMEOUT_NS: u64 = 5_000_000_000;
/// Maximum bytes that one step writes to the socket.
const WRITE: usize = 32 << 10;

/// State of a connection after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The peer must read or write first.
    Waiting,
    /// A step was made, and the next one can follow.
    Working,
    /// The metrics were sent.
    Served,
    /// An error was sent.
    Refused,
    /// The peer disconnected or is too slow.
    Broken,
}

enum State {
    Request(Vec<u8>),
    Writing(Page),
    Response { bytes: Vec<u8>, written: usize, end: Progress },
}

/// A connection between accept and close.
pub struct Connection {
    stream: TcpStream,
    state: State,
    deadline: u64,
}

impl Connection {
    /// Wraps a connection accepted at `now`; the stream must be non-blocking.
    pub fn new(stream: TcpStream, now: u64) -> Self {
        Self { stream, state: State::Request(Vec::with_capacity(512)), deadline: now + TIMEOUT_NS }
    }

    /// The socket, to poll.
    pub fn raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// When the connection times out, on the host's clock.
    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Whether the request is complete: the remaining steps are the expensive ones.
    pub fn is_answering(&self) -> bool {
        !matches!(self.state, State::Request(_))
    }

    /// Whether no request is complete and no unread bytes are waiting.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Request(_)) && !self.stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0)
    }

    /// Performs one step: reads a part of the request, writes a piece of the text, or sends a part of the response.
    pub fn step(&mut self, now: u64, template: &Template, observer: &Observer) -> Progress {
        if now >= self.deadline {
            return Progress::Broken;
        }
        match &mut self.state {
            State::Request(request) => match read(&mut self.stream, request) {
                Progress::Served => self.state = answer(request),
                other => return other,
            },
            State::Writing(page) => {
                if template.write(observer, page) {
                    self.state =
                        response("200 OK", "text/plain; version=0.0.4; charset=utf-8", &page.text, Progress::Served);
                }
            }
            State::Response { bytes, written, end } => return write(&mut self.stream, bytes, written, *end),
        }
        Progress::Working
    }
}

/// Sends a surplus connection as much of a 503 as its socket accepts at once, and closes it.
pub fn refuse_at_once(mut stream: TcpStream) {
    // Read a request that has already arrived: unread bytes would turn the close into a reset, which overtakes the
    // response. A peer that disconnected needs none.
    let _ = stream.read(&mut [0; 1024]);
    if let State::Response { bytes, .. } = refuse("503 Service Unavailable", "16 scrapes are under way: try again\n") {
        let _ = stream.write(&bytes);
    }
}

/// Reads available bytes, at most 1 KiB. [`Progress::Served`] once the request is complete or too long to become so.
fn read(stream: &mut TcpStream, request: &mut Vec<u8>) -> Progress {
    let mut buffer = [0; 1024];
    match stream.read(&mut buffer) {
        Ok(0) => return Progress::Broken,
        Ok(n) => request.extend_from_slice(&buffer[..n]),
        Err(e) if e.kind() == ErrorKind::WouldBlock => return Progress::Waiting,
        Err(e) if e.kind() == ErrorKind::Interrupted => {}
        Err(_) => return Progress::Broken,
    }
    let complete = request.len() > MAX_REQUEST || request.windows(4).any(|w| w == b"\r\n\r\n");
    if complete { Progress::Served } else { Progress::Working }
}

fn answer(request: &[u8]) -> State {
    let line = request.split(|b| *b == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let too_long = request.len() > MAX_REQUEST;
    match words[..] {
        [b"GET", b"/metrics" | b"/", version] if version.starts_with(b"HTTP/1.") && !too_long => {
            State::Writing(Page::default())
        }
        [b"GET", _, version] if version.starts_with(b"HTTP/1.") && !too_long => {
            refuse("404 Not Found", "metrics are at /metrics\n")
        }
        [_, _, version] if version.starts_with(b"HTTP/1.") && !too_long => {
            refuse("405 Method Not Allowed", "use GET\n")
        }
        _ => refuse("400 Bad Request", "not an HTTP/1 request of at most 4 KiB\n"),
    }
}

fn refuse(status: &str, body: &str) -> State {
    response(status, "text/plain; charset=utf-8", body, Progress::Refused)
}

fn response(status: &str, kind: &str, body: &str, end: Progress) -> State {
    let len = body.len();
    let retry = if status.starts_with("503") { "Retry-After: 1\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n{retry}Connection: close\r\n\r\n"
    );
    State::Response { bytes: [head.as_bytes(), body.as_bytes()].concat(), written: 0, end }
}

fn write(stream: &mut TcpStream, bytes: &[u8], written: &mut usize, end: Progress) -> Progress {
    match stream.write(&bytes[*written..bytes.len().min(*written + WRITE)]) {
        Ok(0) => return Progress::Broken,
        Ok(n) => *written += n,
        Err(e) if e.kind() == ErrorKind::WouldBlock => return Progress::Waiting,
        Err(e) if e.kind() == ErrorKind::Interrupted => {}
        Err(_) => return Progress::Broken,
    }
    if *written == bytes.len() { end } else { Progress::Working }
}
