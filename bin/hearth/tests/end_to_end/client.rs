//! A client that sends handmade transactions over QUIC and plain UDP.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hearth_crypto::ed25519::SigningKey;
pub use hearth_ledger::builders::transfer;
use hearth_quic::{Client, ClientConfig, ClientCounters};
use hearth_wire::message::{Instruction, Message};
use hearth_wire::{Hash, Pubkey, Signature};

use super::node::DEADLINE;

/// A signed transaction of any instructions, paid for and signed by one key.
pub fn transaction(payer: &SigningKey, instructions: &[Instruction], blockhash: &Hash) -> Vec<u8> {
    let message = Message::compile(&payer.public_key(), instructions, blockhash).expect("it fits a packet");
    message.sign_with(|_, message| payer.sign(message))
}

/// The first signature of a transaction with fewer than 128.
pub fn signature_of(transaction: &[u8]) -> Signature {
    *transaction[1..].first_chunk().expect("a signature")
}

/// Returns an address for which no key exists. `kind` and `number` make it unique.
pub fn fresh_address(kind: u8, number: usize) -> Pubkey {
    let mut address = [kind; 32];
    address[..8].copy_from_slice(&(number as u64 + 1).to_be_bytes());
    address
}

/// A TPU client on a real socket.
pub struct Sender {
    socket: UdpSocket,
    client: Client,
    buffer: Vec<u8>,
}

impl Sender {
    /// One connection to `node` from the loopback address 127.0.0.`host`.
    pub fn connect(node: SocketAddr, host: u8) -> Self {
        let mut sender = Self::new(node, host, 1, hearth_quic::ALPN_TPU);
        sender.drive("the connection", |client| client.counters().connected > 0);
        sender
    }

    /// `connections` attempts, not driven yet.
    pub fn new(node: SocketAddr, host: u8, connections: usize, alpn: &[u8]) -> Self {
        Self::with_config(ClientConfig::local(), node, host, connections, alpn)
    }

    /// The same with other tuning.
    pub fn with_config(config: ClientConfig, node: SocketAddr, host: u8, connections: usize, alpn: &[u8]) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, host), 0)).expect("a socket");
        // One datagram at a time: this socket has no segmentation offload.
        let config = ClientConfig { segments_max: 1, ..config };
        let port = socket.local_addr().expect("bound").port();
        let mut entropy = [host; 32];
        entropy[..2].copy_from_slice(&port.to_le_bytes());
        let mut client = Client::with_alpn(config, Some(&[host; 32]), &entropy, alpn).expect("a client");
        for _ in 0..connections {
            client.connect(Instant::now(), node);
        }
        Self { socket, client, buffer: vec![] }
    }

    pub fn counters(&self) -> &ClientCounters {
        self.client.counters()
    }

    /// Sends all and waits until the node's transport has acknowledged, stopped or lost each.
    pub fn send_all(&mut self, transactions: &[Vec<u8>]) {
        transactions.iter().for_each(|transaction| self.send(transaction));
        self.drive("the acknowledgements", |client| client.in_flight() == 0);
    }

    /// Takes one transaction, waiting for room.
    pub fn send(&mut self, transaction: &[u8]) {
        let start = Instant::now();
        while self.client.send_transaction(transaction).is_err() {
            assert!(start.elapsed() < DEADLINE, "no room to send: {:?}", self.client.counters());
            self.step(Duration::from_millis(1));
        }
    }

    /// Takes one transaction if there is room; [`Sender::step`] moves it.
    pub fn offer(&mut self, transaction: &[u8]) -> bool {
        self.client.send_transaction(transaction).is_ok()
    }

    /// Queues one transaction if there is room, and moves pending datagrams.
    pub fn try_send(&mut self, transaction: &[u8]) -> bool {
        let taken = self.client.send_transaction(transaction).is_ok();
        self.step(Duration::from_millis(1));
        taken
    }

    /// Drives the connection until `done`.
    pub fn drive(&mut self, what: &str, mut done: impl FnMut(&Client) -> bool) {
        let start = Instant::now();
        while !done(&self.client) {
            assert!(start.elapsed() < DEADLINE, "{what}: not in time: {:?}", self.client.counters());
            self.step(Duration::from_millis(1));
        }
    }

    /// Sends all pending datagrams without reading any answer.
    pub fn transmit(&mut self) {
        let now = Instant::now();
        while let Some(transmit) = self.client.poll_transmit(now, &mut self.buffer) {
            // A full socket buffer loses the datagram, as a network would.
            let _ = self.socket.send_to(&self.buffer[..transmit.len], transmit.to);
        }
    }

    /// Sends and retransmits all due datagrams without reading any answer.
    pub fn transmit_again(&mut self) {
        let now = Instant::now();
        if self.client.next_timeout().is_some_and(|due| due <= now) {
            self.client.handle_timeout(now);
        }
        self.transmit();
    }

    /// Sends pending datagrams and processes those that arrive within `wait`.
    pub fn step(&mut self, wait: Duration) {
        self.transmit_again();
        let mut datagram = [0; 2048];
        self.socket.set_nonblocking(false).expect("a socket");
        self.socket.set_read_timeout(Some(wait)).expect("a socket");
        while let Ok((len, from)) = self.socket.recv_from(&mut datagram) {
            self.client.handle_datagram(Instant::now(), from, None, &datagram[..len]);
            self.socket.set_nonblocking(true).expect("a socket");
        }
        self.transmit();
    }
}

/// A transaction as the RPC takes it.
pub fn base64_of(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
