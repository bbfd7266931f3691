//! A world on virtual time: one server, many clients, and a network that loses, doubles and
//! reorders datagrams by a seed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hearth_quic::{Client, ClientConfig, Peer, Server, ServerConfig, Transmit, tls};
use hearth_testkit::random::Random;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{
    ConnectError, Connection, ConnectionError, ConnectionHandle, ConnectionId, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, Side, StreamEvent, StreamId, TransportConfig, TransportError, VarInt, crypto,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};

/// The delays and losses of the emulated network.
#[derive(Clone, Copy)]
pub struct NetworkFaults {
    pub latency: Duration,
    /// Up to this much is added to the latency at random: datagrams overtake each other.
    pub jitter: Duration,
    pub loss_per_mille: u64,
    pub double_per_mille: u64,
    /// Maximum payload in bytes; larger ones are lost.
    pub mtu: usize,
}

impl NetworkFaults {
    pub const FAIR: Self = Self {
        latency: Duration::from_micros(100),
        jitter: Duration::ZERO,
        loss_per_mille: 0,
        double_per_mille: 0,
        mtu: 1472,
    };
    pub const FOUL: Self = Self {
        latency: Duration::from_millis(5),
        jitter: Duration::from_millis(4),
        loss_per_mille: 50,
        double_per_mille: 50,
        mtu: 1472,
    };
}

/// A TPU client of ours, or a plain quinn connection driven by hand.
pub enum Node {
    Tpu(Box<Client>),
    Raw(Box<Raw>),
}

struct Flight {
    from: SocketAddr,
    to: SocketAddr,
    payload: Vec<u8>,
}

pub struct World {
    pub start: Instant,
    pub now: Instant,
    pub rng: Random,
    pub weather: NetworkFaults,
    pub server: Server,
    pub server_address: SocketAddr,
    pub nodes: Vec<(SocketAddr, Node)>,
    /// Whether the caller of the server has room for transactions.
    pub room: bool,
    pub received: Vec<(Peer, Vec<u8>)>,
    flights: BinaryHeap<Reverse<(Instant, u64)>>,
    payloads: std::collections::HashMap<u64, Flight>,
    flight_next: u64,
    buffer: Vec<u8>,
}

impl World {
    pub fn new(config: ServerConfig, weather: NetworkFaults, seed: u64) -> Self {
        let start = Instant::now();
        Self {
            start,
            now: start,
            rng: Random(seed),
            weather,
            server: Server::new(config, &[3; 32], &[4; 32], start).expect("server"),
            server_address: "10.0.0.1:8009".parse().expect("address"),
            nodes: Vec::new(),
            room: true,
            received: Vec::new(),
            flights: BinaryHeap::new(),
            payloads: Default::default(),
            flight_next: 0,
            buffer: Vec::new(),
        }
    }

    /// Address of the nth node, all different IPs.
    pub fn address(n: usize) -> SocketAddr {
        SocketAddr::from(([10, 1, (n >> 8) as u8, n as u8], 9000))
    }

    /// Adds a TPU client with one connection to the server; its number.
    pub fn add_client(&mut self, config: ClientConfig) -> usize {
        let n = self.nodes.len();
        self.add_client_at(config, Self::address(n), Some([(n as u8).wrapping_add(1); 32]))
    }

    pub fn add_client_at(&mut self, config: ClientConfig, address: SocketAddr, seed: Option<[u8; 32]>) -> usize {
        let n = self.nodes.len();
        let mut entropy = [9; 32];
        entropy[..8].copy_from_slice(&(n as u64).to_le_bytes());
        let mut client = Client::new(config, seed.as_ref(), &entropy).expect("client");
        client.connect(self.now, self.server_address);
        self.nodes.push((address, Node::Tpu(Box::new(client))));
        n
    }

    pub fn add_raw(&mut self, raw: RawConfig) -> usize {
        let n = self.nodes.len();
        let address = raw.address.unwrap_or(Self::address(n));
        let raw = Raw::new(self.now, self.server_address, raw, n as u64);
        self.nodes.push((address, Node::Raw(Box::new(raw))));
        n
    }

    pub fn client(&mut self, n: usize) -> &mut Client {
        match &mut self.nodes[n].1 {
            Node::Tpu(client) => client,
            Node::Raw(_) => panic!("node {n} is raw"),
        }
    }

    pub fn client_close(&mut self, n: usize, connection: hearth_quic::ClientConnectionId) {
        let now = self.now;
        self.client(n).close(now, connection);
    }

    pub fn raw(&mut self, n: usize) -> &mut Raw {
        match &mut self.nodes[n].1 {
            Node::Raw(raw) => raw,
            Node::Tpu(_) => panic!("node {n} is a TPU client"),
        }
    }

    /// Puts a datagram on the way, in whatever weather there is.
    pub fn send(&mut self, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
        let w = self.weather;
        if payload.len() > w.mtu || self.rng.chance(w.loss_per_mille) {
            return;
        }
        let copies = 1 + u64::from(self.rng.chance(w.double_per_mille));
        for _ in 0..copies {
            let jitter = w.jitter.as_nanos() as u64;
            let extra = if jitter == 0 { 0 } else { self.rng.below(jitter) };
            let at = self.now + w.latency + Duration::from_nanos(extra);
            self.flight_next += 1;
            self.flights.push(Reverse((at, self.flight_next)));
            let flight = Flight { from, to, payload: payload.to_vec() };
            self.payloads.insert(self.flight_next, flight);
        }
    }

    /// Lets every party act at the present moment.
    pub fn settle(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for n in 0..self.nodes.len() {
            while let Some(t) = self.nodes[n].1.transmit(self.now, &mut buffer) {
                assert_eq!(t.len, buffer.len());
                for datagram in buffer.chunks(t.segment_size.unwrap_or(t.len)) {
                    self.send(self.nodes[n].0, t.to, datagram);
                }
            }
        }
        while self.room {
            let read = self.server.poll_transaction(self.now, |peer, b| (*peer, b.to_vec()));
            let Some(read) = read else { break };
            self.received.push(read);
        }
        while let Some(t) = self.server.poll_transmit(self.now, &mut buffer) {
            assert_eq!(t.len, buffer.len());
            self.send(self.server_address, t.to, &buffer);
        }
        self.buffer = buffer;
    }

    /// Goes to the next moment at which something happens; false if nothing ever will.
    pub fn step(&mut self) -> bool {
        self.step_until(None)
    }

    /// As [`Self::step`], but not beyond `limit`.
    fn step_until(&mut self, limit: Option<Instant>) -> bool {
        self.settle();
        let due = |n: &(SocketAddr, Node)| n.1.next_timeout();
        let timeouts = self.nodes.iter().filter_map(due);
        let flight = self.flights.peek().map(|r| r.0.0);
        let next = timeouts.chain(self.server.next_timeout()).chain(flight).chain(limit).min();
        let Some(next) = next else { return false };
        self.now = self.now.max(next);
        while let Some(&Reverse((at, id))) = self.flights.peek()
            && at <= self.now
        {
            self.flights.pop();
            let f = self.payloads.remove(&id).expect("a payload for each flight");
            if f.to == self.server_address {
                self.server.handle_datagram(self.now, f.from, None, &f.payload);
            } else if let Some(n) = self.nodes.iter().position(|n| n.0 == f.to) {
                self.nodes[n].1.handle(self.now, f.from, &f.payload);
            }
        }
        self.server.handle_timeout(self.now);
        for (_, node) in &mut self.nodes {
            node.timeout(self.now);
        }
        true
    }

    /// Steps until `done`, which must come true within `limit` of virtual time.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = self.now + limit;
        loop {
            self.settle();
            if done(self) {
                return;
            }
            assert!(self.now < deadline, "not within {limit:?}: {:#?}", self.server.counters());
            assert!(self.step(), "nothing happens any more: {:#?}", self.server.counters());
        }
    }

    /// Steps for `span` of virtual time.
    pub fn run_for(&mut self, span: Duration) {
        let deadline = self.now + span;
        while self.now < deadline {
            self.step_until(Some(deadline));
        }
        self.settle();
    }
}

impl Node {
    fn transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        match self {
            Self::Tpu(client) => client.poll_transmit(now, buffer),
            Self::Raw(raw) => raw.transmit(now, buffer),
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        match self {
            Self::Tpu(client) => client.next_timeout(),
            Self::Raw(raw) => raw.deadline,
        }
    }

    fn timeout(&mut self, now: Instant) {
        match self {
            Self::Tpu(client) => client.handle_timeout(now),
            Self::Raw(raw) => raw.timeout(now),
        }
    }

    fn handle(&mut self, now: Instant, from: SocketAddr, payload: &[u8]) {
        match self {
            Self::Tpu(client) => client.handle_datagram(now, from, None, payload),
            Self::Raw(raw) => raw.handle(now, from, payload),
        }
    }
}

/// The set-up of a hand-driven quinn client.
pub struct RawConfig {
    pub address: Option<SocketAddr>,
    pub alpn: Vec<Vec<u8>>,
    /// The certificate's key and the key that signs; the same one for an honest client.
    pub identity: Option<([u8; 32], [u8; 32])>,
    pub transport: TransportConfig,
    /// Whether it sends its first datagram, and then nothing more.
    pub half_open: bool,
    /// Transport parameters, encoded, that it believes the server to have sent besides the real
    /// ones: a client that breaks the server's limits.
    pub greed: &'static [u8],
}

impl RawConfig {
    /// As the TPU client of the Solana repositories sets quinn up.
    pub fn solana(seed: Option<[u8; 32]>) -> Self {
        let mut transport = TransportConfig::default();
        transport
            .max_idle_timeout(Some(Duration::from_secs(30).try_into().expect("a time-out")))
            .keep_alive_interval(Some(Duration::from_secs(1)))
            .send_fairness(false);
        Self {
            address: None,
            alpn: vec![b"solana-tpu".to_vec()],
            identity: seed.map(|s| (s, s)),
            transport,
            half_open: false,
            greed: &[],
        }
    }
}

/// A quinn endpoint with one connection to the server, driven by the test.
pub struct Raw {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub quic: Connection,
    pub connected: bool,
    pub lost: Option<ConnectionError>,
    pub finished: u64,
    pub stopped: u64,
    half_open: bool,
    sent: bool,
    deadline: Option<Instant>,
    responses: VecDeque<(Transmit, Vec<u8>)>,
}

impl Raw {
    /// The code of the server's close, if it closed the connection.
    pub fn close_code(&self) -> Option<u64> {
        match self.lost.as_ref()? {
            ConnectionError::ApplicationClosed(close) => Some(close.error_code.into_inner()),
            _ => None,
        }
    }

    fn new(now: Instant, server: SocketAddr, config: RawConfig, n: u64) -> Self {
        let mut tls = tls_config(config.identity);
        tls.alpn_protocols = config.alpn;
        // As Solana's clients ask for.
        tls.enable_early_data = true;
        let crypto = QuicClientConfig::try_from(tls).expect("crypto");
        let crypto = Arc::new(GreedyConfig { honest: Arc::new(crypto), greed: config.greed });
        let mut quic_config = quinn_proto::ClientConfig::new(crypto);
        quic_config.transport_config(Arc::new(config.transport));
        let mut seed = [5; 32];
        seed[..8].copy_from_slice(&n.to_le_bytes());
        let mut endpoint_config = EndpointConfig::default();
        endpoint_config.rng_seed(Some(seed));
        let mut endpoint = Endpoint::new(Arc::new(endpoint_config), None, true, None);
        let (handle, quic) = endpoint.connect(now, quic_config, server, "connect").expect("dial");
        Self {
            endpoint,
            handle,
            quic,
            connected: false,
            lost: None,
            finished: 0,
            stopped: 0,
            half_open: config.half_open,
            sent: false,
            deadline: Some(now),
            responses: VecDeque::new(),
        }
    }

    pub fn open(&mut self) -> StreamId {
        self.quic.streams().open(Dir::Uni).expect("a stream")
    }

    pub fn send(&mut self, bytes: &[u8], finish: bool) -> StreamId {
        let id = self.open();
        self.write(id, bytes, finish);
        id
    }

    pub fn write(&mut self, id: StreamId, bytes: &[u8], finish: bool) {
        assert_eq!(self.quic.send_stream(id).write(bytes), Ok(bytes.len()));
        if finish {
            self.quic.send_stream(id).finish().expect("finish");
        }
    }

    pub fn close(&mut self, now: Instant) {
        self.quic.close(now, VarInt::from_u32(0), Bytes::new());
    }

    fn events(&mut self) {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.connected = true,
                Event::ConnectionLost { reason } => {
                    // A second reason may follow the first.
                    self.lost.get_or_insert(reason);
                }
                Event::Stream(StreamEvent::Finished { .. }) => self.finished += 1,
                Event::Stream(StreamEvent::Stopped { .. }) => self.stopped += 1,
                _ => {}
            }
        }
    }

    pub fn transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        buffer.clear();
        if self.half_open && self.sent {
            self.deadline = None;
            return None;
        }
        if let Some((t, payload)) = self.responses.pop_front() {
            buffer.extend_from_slice(&payload);
            return Some(t);
        }
        self.sent = true;
        let t = self.quic.poll_transmit(now, 1, buffer);
        self.events();
        self.deadline = self.quic.poll_timeout();
        t.map(|t| Transmit { to: t.destination, len: t.size, segment_size: None, ecn: None })
    }

    fn timeout(&mut self, now: Instant) {
        if !self.half_open && self.deadline.is_some_and(|at| at <= now) {
            self.quic.handle_timeout(now);
            self.events();
            self.deadline = self.quic.poll_timeout();
        }
    }

    pub fn handle(&mut self, now: Instant, from: SocketAddr, payload: &[u8]) {
        if self.half_open {
            return;
        }
        let mut scratch = Vec::new();
        match self.endpoint.handle(now, from, None, None, BytesMut::from(payload), &mut scratch) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                self.quic.handle_event(event);
                self.events();
            }
            Some(DatagramEvent::Response(t)) => {
                let to = t.destination;
                let t = Transmit { to, len: t.size, segment_size: None, ecn: None };
                self.responses.push_back((t, scratch));
            }
            _ => {}
        }
    }
}

fn tls_config(identity: Option<([u8; 32], [u8; 32])>) -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer));
    match identity {
        None => builder.with_no_client_auth(),
        Some((shown, signing)) => {
            let certificate = CertificateDer::from(tls::certificate(&tls::public_key(&shown)));
            let key = PrivatePkcs8KeyDer::from(tls::private_key(&signing));
            let key = rustls::crypto::ring::sign::any_eddsa_type(&key).expect("key");
            let key = rustls::sign::CertifiedKey::new(vec![certificate], key);
            builder.with_client_cert_resolver(Arc::new(Shows(Arc::new(key))))
        }
    }
}

#[derive(Debug)]
struct Shows(Arc<rustls::sign::CertifiedKey>);

impl rustls::client::ResolvesClientCert for Shows {
    fn resolve(
        &self,
        _hints: &[&[u8]],
        _schemes: &[rustls::SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct AnyServer;

impl rustls::client::danger::ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let provider = rustls::crypto::ring::default_provider();
        let algorithms = &provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        vec![rustls::SignatureScheme::ED25519]
    }
}

/// Quinn's TLS, except that it adds to the server's transport parameters.
struct GreedyConfig {
    honest: Arc<QuicClientConfig>,
    greed: &'static [u8],
}

impl crypto::ClientConfig for GreedyConfig {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        let honest = self.honest.clone().start_session(version, server_name, params)?;
        Ok(Box::new(GreedySession { honest, greed: self.greed }))
    }
}

struct GreedySession {
    honest: Box<dyn crypto::Session>,
    greed: &'static [u8],
}

impl crypto::Session for GreedySession {
    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(honest) = self.honest.transport_parameters()? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        honest.write(&mut bytes);
        bytes.extend_from_slice(self.greed);
        let read = TransportParameters::read(Side::Client, &mut std::io::Cursor::new(bytes));
        Ok(Some(read.expect("the test's parameters are well-formed")))
    }

    fn initial_keys(&self, id: &ConnectionId, side: Side) -> crypto::Keys {
        self.honest.initial_keys(id, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn std::any::Any>> {
        self.honest.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn std::any::Any>> {
        self.honest.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn crypto::HeaderKey>, Box<dyn crypto::PacketKey>)> {
        self.honest.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.honest.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.honest.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.honest.read_handshake(buf)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<crypto::Keys> {
        self.honest.write_handshake(buf)
    }

    fn next_1rtt_keys(&mut self) -> Option<crypto::KeyPair<Box<dyn crypto::PacketKey>>> {
        self.honest.next_1rtt_keys()
    }

    fn is_valid_retry(&self, id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.honest.is_valid_retry(id, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), crypto::ExportKeyingMaterialError> {
        self.honest.export_keying_material(output, label, context)
    }
}
