//! A blocking WebSocket client that runs in the test's own thread.
//!
//! memory  notifications that arrived while a response was awaited

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::{Error, Message, WebSocket};

use super::{Chain, DEADLINE, connect};

/// A blocking WebSocket client.
pub struct Client {
    pub socket: WebSocket<TcpStream>,
    /// Notifications that arrived while a response was awaited.
    unread: Vec<Value>,
}

impl Client {
    /// Connects; panics if there is no room.
    pub fn new(chain: &Chain) -> Self {
        Self::try_new(chain).expect("there is room")
    }

    /// Connects, if there is room.
    pub fn try_new(chain: &Chain) -> Option<Self> {
        let address = chain.server.websocket_addr();
        let (socket, _) = tungstenite::client(format!("ws://{address}/"), connect(address)).ok()?;
        Some(Self { socket, unread: vec![] })
    }

    pub fn send(&mut self, text: &str) {
        self.socket.send(Message::text(text)).unwrap();
    }

    /// The next message as JSON.
    #[track_caller]
    pub fn read(&mut self) -> Value {
        loop {
            match self.socket.read().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Sends a request and returns its response.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": 9, "method": method, "params": params }).to_string());
        loop {
            let message = self.read();
            if message.get("id").is_some() {
                assert_eq!(message["id"], 9);
                return message;
            }
            self.unread.push(message);
        }
    }

    /// Sends a request and returns its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// The result of the next notification of this method and subscription.
    #[track_caller]
    pub fn notified(&mut self, method: &str, subscription: &Value) -> Value {
        let message = if self.unread.is_empty() { self.read() } else { self.unread.remove(0) };
        let params = &message["params"];
        assert_eq!((&message["jsonrpc"], &message["method"]), (&json!("2.0"), &json!(method)), "{message}");
        assert_eq!(&params["subscription"], subscription, "{message}");
        params["result"].clone()
    }

    /// Whether no notification arrives for a while.
    pub fn hears_nothing(&mut self) -> bool {
        let quiet = Duration::from_millis(100);
        self.socket.get_ref().set_read_timeout(Some(quiet)).unwrap();
        let read = self.socket.read();
        self.socket.get_ref().set_read_timeout(Some(DEADLINE)).unwrap();
        self.unread.is_empty() && matches!(read, Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Reads until the server closes.
    pub fn read_to_the_end(&mut self) -> Option<Message> {
        let mut last = None;
        while let Ok(message) = self.socket.read() {
            last = Some(message);
        }
        last
    }
}
