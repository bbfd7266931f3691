//! A client of a server in this process, which sends bytes as they are.
//!
//! reads   answers over a loopback connection
//! writes  requests: HTTP with any body, WebSocket frames of any kind
//! memory  one answer
//!
//! The servers turn a panic of a request into the end of its connection. So a request without an answer is a failure,
//! and so is a panic on any thread that is not the engine's ([`panics`]).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How long an answer may take: no busy machine takes so long, and the engine waits for longer than twice.
const PATIENCE: Duration = Duration::from_secs(600);
/// WebSocket's opcode that ends a connection, with the bit of a last frame.
const CLOSE: u8 = 0x88;
/// The key of a WebSocket request: any 16 bytes in Base64.
const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAA==";

static PANICS: AtomicU64 = AtomicU64::new(0);

/// How many threads of servers have panicked; those of the engine and of tests are not counted.
pub fn panics() -> u64 {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            let is_server = |name: &str| ["rpc", "web3"].iter().any(|server| name.starts_with(server));
            if thread.name().is_some_and(is_server) {
                PANICS.fetch_add(1, Relaxed);
            }
            before(info);
        }));
    });
    PANICS.load(Relaxed)
}

/// A connection to a server.
pub struct Connection(BufReader<TcpStream>);

/// An HTTP response that was read to its end.
pub struct Answer {
    /// The status code, such as 200.
    pub status: u16,
    /// The bytes of the body.
    pub body: Vec<u8>,
    /// Whether the server keeps the connection.
    pub is_kept: bool,
}

impl Connection {
    /// Connects.
    ///
    /// # Panics
    /// The server does not accept the connection.
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        stream.set_write_timeout(Some(PATIENCE)).expect("a deadline");
        stream.set_nodelay(true).expect("a socket");
        Self(BufReader::new(stream))
    }

    /// Sends a body of JSON-RPC; `None` if the connection ends without a whole answer.
    pub fn post(&mut self, body: &[u8]) -> Option<Answer> {
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        self.write(&[head.as_bytes(), body].concat())?;
        self.answer()
    }

    /// Asks for a WebSocket; whether the server agrees.
    pub fn upgrade(&mut self) -> bool {
        let head = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
        let head = format!("{head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n");
        self.write(head.as_bytes()).is_some() && self.answer().is_some_and(|answer| answer.status == 101)
    }

    /// Sends a frame with this first byte: the bits and the opcode.
    pub fn send_frame(&mut self, first: u8, payload: &[u8]) -> Option<()> {
        // The mask is zero, so the payload is sent as it is.
        const MASKED: u8 = 0x80;
        let mut frame = vec![first];
        match payload.len() {
            length @ 0..126 => frame.push(MASKED | length as u8),
            length => {
                let length = u16::try_from(length).expect("a piece of an input is below 64 KiB");
                frame.push(MASKED | 126);
                frame.extend(length.to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend_from_slice(payload);
        self.write(&frame)
    }

    /// Reads a frame: its first byte and its payload; `None` at the end of the connection.
    pub fn read_frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let [first, second] = self.array()?;
        let length = match second & 0x7f {
            126 => u64::from(u16::from_be_bytes(self.array()?)),
            127 => u64::from_be_bytes(self.array()?),
            length => length.into(),
        };
        let mut payload = vec![0; usize::try_from(length).ok()?];
        self.0.read_exact(&mut payload).ok()?;
        Some((first, payload))
    }

    /// Ends the connection in order, and waits until the server has ended it too.
    pub fn close(mut self) {
        if self.send_frame(CLOSE, &[]).is_some() {
            self.drain();
        }
    }

    /// Sends bytes that need be no frame, and nothing more; waits until the server has ended the connection.
    pub fn break_off(mut self, bytes: &[u8]) {
        if self.write(bytes).is_some() && self.0.get_ref().shutdown(Shutdown::Write).is_ok() {
            self.drain();
        }
    }

    fn drain(&mut self) {
        // The end may be a reset: the server does not read what it need not.
        let _ = std::io::copy(&mut self.0, &mut std::io::sink());
    }

    fn write(&mut self, bytes: &[u8]) -> Option<()> {
        self.0.get_mut().write_all(bytes).ok()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|count| *count > 0)?;
        Some(line.trim_end().to_ascii_lowercase())
    }

    fn answer(&mut self) -> Option<Answer> {
        let status = self.line()?.split(' ').nth(1)?.parse().ok()?;
        let (mut length, mut is_kept) = (0, true);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else { return None };
            match (name, value.trim()) {
                ("content-length", value) => length = value.parse().ok()?,
                ("connection", "close") => is_kept = false,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).ok()?;
        Some(Answer { status, body, is_kept })
    }
}
