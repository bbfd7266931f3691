//! A client of an application: for tests, and for looking at one without CometBFT.

use std::io::{self, BufReader, Write};

use crate::address::{Address, Stream};
use crate::frame::{self, FrameError};
use crate::request::{self, Request};
use crate::response::{self, Response};

/// An answer may be a chunk of a snapshot or a block.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// One connection to an application.
pub struct Client {
    from: BufReader<Stream>,
    to: Stream,
    out: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed, or a frame is invalid or too long.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The application ended it.
    #[error("the application closed the connection")]
    Closed,
    /// The application returned a fatal error.
    #[error("the application cannot go on: {0}")]
    Exception(String),
    /// The answer is missing or has another type.
    #[error("an answer without a value")]
    Empty,
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Frame(error.into())
    }
}

impl Client {
    /// Connects to an application.
    pub fn connect(address: &Address) -> io::Result<Self> {
        let to = address.connect()?;
        Ok(Self { from: BufReader::new(to.try_clone()?), to, out: Vec::new() })
    }

    /// Asks and waits for the answer.
    pub fn call(&mut self, request: request::Value) -> Result<response::Value, ClientError> {
        self.send(request)?;
        self.flush()?;
        let answer = self.receive()?;
        match self.receive()? {
            response::Value::Flush(_) => Ok(answer),
            _ => Err(ClientError::Empty),
        }
    }

    /// Buffers a request, which a flush sends. Each request gets one answer, in order.
    pub fn send(&mut self, request: request::Value) -> Result<(), ClientError> {
        self.out.clear();
        frame::append(&Request { value: Some(request) }, &mut self.out);
        Ok(self.to.write_all(&self.out)?)
    }

    /// Sends all buffered requests, with a flush request that gets an answer of its own.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.send(request::Value::Flush(request::Flush {}))
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    /// Waits for the next answer.
    pub fn receive(&mut self) -> Result<response::Value, ClientError> {
        let answer = frame::read_message::<Response>(&mut self.from, ANSWER_BYTES_MAX)?.ok_or(ClientError::Closed)?;
        match answer.value.ok_or(ClientError::Empty)? {
            response::Value::Exception(exception) => Err(ClientError::Exception(exception.error)),
            value => Ok(value),
        }
    }
}
