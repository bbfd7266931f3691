//! datagrams: messages between net and the tiles behind it: received datagrams, and runs of datagrams to send.
//!
//! reads   messages
//! writes  messages
//! memory  none beyond the link's

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::codec::{Reader, Writer, writer};

/// One of the node's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PortKind {
    /// TPU over QUIC: a unidirectional stream is a transaction.
    Quic = 0,
    /// The plain UDP TPU port: a datagram is a transaction.
    Udp = 1,
    /// Turbine: a datagram is a shred.
    Tvu = 2,
    /// Responses to this node's repair requests.
    Repair = 3,
    /// Other nodes' repair requests.
    ServeRepair = 4,
    /// Gossip: a datagram is a message of its protocol.
    Gossip = 5,
    /// Responses of leaders to which this node sends transactions.
    TxSend = 6,
}

impl PortKind {
    fn read(byte: u8) -> Self {
        match byte {
            0 => Self::Quic,
            1 => Self::Udp,
            2 => Self::Tvu,
            3 => Self::Repair,
            4 => Self::ServeRepair,
            5 => Self::Gossip,
            6 => Self::TxSend,
            _ => unreachable!("net and the tiles behind it are of one build"),
        }
    }
}

/// A datagram that net received, without IP and UDP headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Address and UDP port of the sender.
    pub from: SocketAddr,
    /// The port that received it.
    pub port: PortKind,
    /// The datagram's payload, at most a packet long.
    pub data: &'a [u8],
}

const ADDR: usize = 18;

fn put_addr(w: &mut Writer<'_>, addr: SocketAddr) {
    let ip = match addr.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    w.put(&ip.octets()).u16(addr.port());
}

fn get_addr(r: &mut Reader<'_>) -> SocketAddr {
    let ip = Ipv6Addr::from(*r.bytes::<16>());
    SocketAddr::new(ip.to_canonical(), r.u16())
}

impl<'a> Datagram<'a> {
    /// Bytes before the datagram.
    pub const HEADER: usize = ADDR + 1;

    /// Writes the message; returns its size.
    pub fn write(&self, buffer: &mut [u8]) -> usize {
        let mut w = writer(buffer);
        put_addr(&mut w, self.from);
        w.u8(self.port as u8).put(self.data).at
    }

    /// Reads a message that [`Self::write`] made.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        let from = get_addr(&mut r);
        let port = PortKind::read(r.u8());
        Self { from, port, data: r.0 }
    }
}

/// Datagrams to send to one address: equal in size, the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Address and UDP port of the receiver.
    pub to: SocketAddr,
    /// The port to send from; any port if the node lacks that one.
    pub port: PortKind,
    /// Size of each datagram except the last; 0 if `data` is a single datagram.
    pub segment: u16,
    /// The bytes of all datagrams.
    pub data: &'a [u8],
}

impl<'a> Outgoing<'a> {
    /// Bytes before the datagrams.
    pub const HEADER: usize = ADDR + 1 + 2;

    /// Writes only the header; the caller has put the data after it. Returns the message's size.
    pub fn write_header(buffer: &mut [u8], (to, port): (SocketAddr, PortKind), segment: u16, data_len: usize) -> usize {
        let mut w = writer(buffer);
        put_addr(&mut w, to);
        w.u8(port as u8).u16(segment).at + data_len
    }

    /// Reads a message that [`Self::write_header`] began.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        let (to, port, segment) = (get_addr(&mut r), PortKind::read(r.u8()), r.u16());
        Self { to, port, segment, data: r.0 }
    }
}
