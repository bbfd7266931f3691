//! The IP echo protocol: a starting node asks an entrypoint over TCP for its own address, the shred version, and
//! whether its ports are reachable.
//!
//! reads   a request of 21 B; a response of 27 B
//! writes  the same
//! drops   invalid requests and responses
//! source  `solana-net-utils` 4.2.2, `ip_echo_server.rs`, `lib.rs`

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::read::{GossipErrorKind, Reader, Result, write_u32};

/// Size of a request.
pub const REQUEST_SIZE: usize = 21;

/// Size of a response, padding included.
pub const ANSWER_SIZE: usize = 27;

/// Four zeros before either, to distinguish it from HTTP.
const HEADER: u32 = 0;

/// The last byte of a request.
const END: u8 = b'\n';

/// A request to be connected to and sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpEchoRequest {
    /// Ports to which the server connects; 0 is none.
    pub tcp_ports: [u16; 4],
    /// Ports to which the server sends a datagram with one zero byte; 0 is none.
    pub udp_ports: [u16; 4],
}

/// The server's response: the requester's address as it sees it, and its shred version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpEchoAnswer {
    /// Source address of the request.
    pub address: IpAddr,
    /// The server's shred version.
    pub shred_version: Option<u16>,
}

impl IpEchoRequest {
    /// Parses exactly a request.
    ///
    /// # Errors
    ///
    /// Wrong length, header or end.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        Reader::check(reader.u32()? == HEADER, GossipErrorKind::Tag, 0)?;
        let mut ports = || -> Result<[u16; 4]> { Ok([reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?]) };
        let request = Self { tcp_ports: ports()?, udp_ports: ports()? };
        let at = reader.at();
        Reader::check(reader.u8()? == END, GossipErrorKind::Tag, at)?;
        reader.end().map(|()| request)
    }

    /// Serializes the request, header and end included.
    pub fn bytes(&self) -> [u8; REQUEST_SIZE] {
        let mut bytes = [0; REQUEST_SIZE];
        let ports = self.tcp_ports.iter().chain(&self.udp_ports);
        bytes[4..20].as_chunks_mut().0.iter_mut().zip(ports).for_each(|(to, port)| *to = port.to_le_bytes());
        bytes[20] = END;
        bytes
    }
}

impl IpEchoAnswer {
    /// Parses a response. Trailing bytes are ignored: servers pad it with zeros.
    ///
    /// # Errors
    ///
    /// Too short, wrong header, address or option.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        Reader::check(reader.u32()? == HEADER, GossipErrorKind::Tag, 0)?;
        let address = match reader.u32()? {
            0 => IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?)),
            1 => IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?)),
            _ => return Err(Reader::error(GossipErrorKind::Tag, 4)),
        };
        let shred_version = if reader.flag()? { Some(reader.u16()?) } else { None };
        Ok(Self { address, shred_version })
    }

    /// Serializes the response with padding. A client uses the result of one read, so send it in one write.
    pub fn bytes(&self) -> [u8; ANSWER_SIZE] {
        let mut out = Vec::with_capacity(ANSWER_SIZE);
        write_u32(HEADER, &mut out);
        match self.address {
            IpAddr::V4(address) => {
                write_u32(0, &mut out);
                out.extend_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                write_u32(1, &mut out);
                out.extend_from_slice(&address.octets());
            }
        }
        out.push(u8::from(self.shred_version.is_some()));
        out.extend(self.shred_version.into_iter().flat_map(u16::to_le_bytes));
        let mut bytes = [0; ANSWER_SIZE];
        bytes[..out.len()].copy_from_slice(&out);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn bytes_are_those_of_the_vectors() {
        let request = hex("00000000000000000000000000000000000000000a");
        assert_eq!(IpEchoRequest::default().bytes()[..], request);
        assert_eq!(IpEchoRequest::parse(&request), Ok(IpEchoRequest::default()));
        let answer = hex("00000000000000000a000001013412000000000000000000000000");
        let wanted = IpEchoAnswer { address: IpAddr::from([10, 0, 0, 1]), shred_version: Some(0x1234) };
        assert_eq!(wanted.bytes()[..], answer);
        assert_eq!(IpEchoAnswer::parse(&answer), Ok(wanted));
        assert_eq!(IpEchoAnswer::parse(&answer[..15]), Ok(wanted), "without the zeros");
    }

    #[test]
    fn written_message_is_read_back() {
        let request = IpEchoRequest { tcp_ports: [8_000, 0, 65_535, 1], udp_ports: [2, 0x0a0a, 0, 4] };
        assert_eq!(IpEchoRequest::parse(&request.bytes()), Ok(request));
        for address in [IpAddr::from([127, 0, 0, 1]), IpAddr::from([7u16; 8])] {
            for shred_version in [None, Some(1), Some(u16::MAX)] {
                let answer = IpEchoAnswer { address, shred_version };
                assert_eq!(IpEchoAnswer::parse(&answer.bytes()), Ok(answer));
            }
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = IpEchoRequest::default().bytes();
        assert!((0..REQUEST_SIZE).all(|len| IpEchoRequest::parse(&bytes[..len]).is_err()));
        assert!(IpEchoRequest::parse(&[&bytes[..], &[0]].concat()).is_err());
        assert!(IpEchoRequest::parse(b"GET / HTTP/1.1\r\nHost:").is_err());
        let answer = IpEchoAnswer { address: IpAddr::from([1, 2, 3, 4]), shred_version: Some(3) }.bytes();
        assert!((0..15).all(|len| IpEchoAnswer::parse(&answer[..len]).is_err()));
    }
}
