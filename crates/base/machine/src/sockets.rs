//! Finds the program that uses a port of this machine: the question after "Address already in use".
//!
//! reads   `/proc/net/tcp`, `tcp6`, `udp` and `udp6`; `/proc/PID/fd` and `comm` of the processes that may be seen
//! memory  one of those tables at a time
//! source  proc_net_tcp in the kernel's documentation
//!
//! A connection that this machine opened holds its local port just as a listener does, but `ss -l` does not list it.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The state of a connection that is over, as the kernel's tables have it.
const TIME_WAIT: &str = "06";

/// Transport protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Listeners and connections over TCP.
    Tcp,
    /// A socket that sends and receives datagrams over UDP.
    Udp,
}

/// How a socket uses its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Takes connections, or datagrams of any sender.
    Listens,
    /// Is one end of a connection.
    Connected(SocketAddr),
}

/// A process that has a socket open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Id of its process.
    pub pid: u32,
    /// Its name, as `ps` shows it.
    pub name: String,
}

/// The socket that has a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// How it uses the port.
    pub usage: Usage,
    /// The program; `None` if the process is another user's, or the connection outlived it.
    pub program: Option<Program>,
}

impl fmt::Display for Holder {
    /// Continues the text "the port is in use by".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = match &self.program {
            Some(Program { pid, name }) => format!("`{name}` (process {pid})"),
            None => "another program".into(),
        };
        match self.usage {
            Usage::Listens => f.write_str(&program),
            Usage::Connected(peer) => write!(f, "a connection of {program} to {peer}"),
        }
    }
}

/// Returns the socket that prevents binding `address`; `None` if none is visible: it may be bound without being in use,
/// or have been closed meanwhile. Prefers a listener to a connection.
pub fn holder(protocol: Protocol, address: SocketAddr) -> Option<Holder> {
    let tables = match protocol {
        Protocol::Tcp => ["/proc/net/tcp", "/proc/net/tcp6"],
        Protocol::Udp => ["/proc/net/udp", "/proc/net/udp6"],
    };
    let texts = tables.map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets = texts.iter().flat_map(|text| sockets(text)).filter(|socket| meet(socket.local, address));
    let socket = sockets.min_by_key(|socket| socket.usage != Usage::Listens)?;
    Some(Holder { usage: socket.usage, program: program(socket.inode) })
}

/// A line of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    local: SocketAddr,
    usage: Usage,
    /// 0: it belongs to no process any more.
    inode: u64,
}

/// The sockets of a table.
fn sockets(text: &str) -> impl Iterator<Item = Socket> {
    text.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = address(fields.next()?)?;
        let peer = address(fields.next()?)?;
        let state = fields.next()?;
        let usage = if peer.port() == 0 { Usage::Listens } else { Usage::Connected(peer) };
        let inode = fields.nth(5)?.parse().ok()?;
        // A connection that both ends have closed lingers there for a minute, and keeps no server from its port.
        (state != TIME_WAIT).then_some(Socket { local, usage, inode })
    })
}

/// An address of a table: each 32-bit word in the machine's own byte order.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// Whether two sockets of one protocol conflict over their port.
fn meet(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
}

/// The process that has a socket open.
fn program(inode: u64) -> Option<Program> {
    let name = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == name.as_str()))
    };
    let pid = pids.into_iter().find(has)?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(Program { pid, name: name.trim_end().into() })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn addresses_are_words_of_the_machine() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:22C3 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1060 1 0\n\
                     1: 0100007F:A1B2 0200007F:01BB 01 00000000:00000000 00:00000000 00000000     0        0 2061 1 0\n\
                     2: 0100007F:22C3 0200007F:01BB 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0\n";
        let found: Vec<Socket> = sockets(table).collect();
        let connected = Usage::Connected("127.0.0.2:443".parse().unwrap());
        let expected = [
            Socket { local: "127.0.0.1:8899".parse().unwrap(), usage: Usage::Listens, inode: 1060 },
            Socket { local: "127.0.0.1:41394".parse().unwrap(), usage: connected, inode: 2061 },
        ];
        assert_eq!(found, expected);
        let mapped = address("0000000000000000FFFF00000100007F:22C3").unwrap();
        assert_eq!(mapped, "127.0.0.1:8899".parse().unwrap());
        assert_eq!(address("00000000000000000000000001000000:0050").unwrap(), "[::1]:80".parse().unwrap());
    }

    #[test]
    fn a_port_is_its_listeners_or_its_connections() {
        let pid = std::process::id();
        let has = |holder: &Holder| holder.program.as_ref().is_some_and(|program| program.pid == pid);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let connection = TcpStream::connect(there).unwrap();
        let found = holder(Protocol::Tcp, there).unwrap();
        assert!(found.usage == Usage::Listens && has(&found), "{found:?}");
        let outgoing = connection.local_addr().unwrap();
        let found = holder(Protocol::Tcp, outgoing).unwrap();
        assert!(found.usage == Usage::Connected(there) && has(&found), "{found:?}");
        assert!(found.to_string().starts_with("a connection of `"), "{found}");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let found = holder(Protocol::Udp, socket.local_addr().unwrap()).unwrap();
        assert!(found.usage == Usage::Listens && has(&found), "{found:?}");
        let free = socket.local_addr().unwrap();
        drop(socket);
        assert_eq!(holder(Protocol::Udp, free).filter(has), None);
    }
}
