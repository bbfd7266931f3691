//! udp: sends and receives UDP in batches: `recvmmsg` with GRO, `sendmmsg` with GSO.
//!
//! reads   datagrams of one socket into preallocated buffers
//! memory  [`RecvBatch`]: its slots × 64 KiB (a GRO buffer holds a whole run of datagrams)
//! drops   nothing by itself: with a full kernel buffer `send` takes fewer; [`UdpSocket::kernel_drops`] counts what the
//!         kernel dropped
//! source  udp(7), recvmmsg(2), sendmmsg(2), SO_REUSEPORT in socket(7)

use std::io::{Error, ErrorKind, Result};
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::addr::{from_raw, to_raw};

/// Size of a buffer: the largest UDP payload, which is also the largest run that GRO joins.
const SLOT: usize = 65_536;
/// Maximum sockets polled by one call of [`readable`].
pub const MAX_POLLED: usize = 16;
/// Maximum messages per system call.
pub const MAX_BATCH: usize = 64;
/// Maximum messages for which a send uses small tables. Those for [`MAX_BATCH`] messages are 21 KB that must be
/// cleared, and a core that wakes for one datagram has none of that in its caches.
const FEW_SENT: usize = 8;
/// The same for a receive, whose tables are 5 KB.
const FEW_RECEIVED: usize = 16;
const CONTROL: usize = 128;
/// More than a socket's buffer holds: bounds [`UdpSocket::discard`] even if a sender is faster.
const DISCARDED_MAX: usize = 1 << 17;

/// How to open a socket.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether other sockets share the port.
    pub sharing: PortSharing,
    /// Kernel buffer to request in each direction, in bytes. The kernel may grant less.
    pub buffer_bytes: usize,
}

/// How a socket shares its port: the kernel spreads flows over the sharing sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortSharing {
    /// The socket has the port to itself.
    None,
    /// The first of several. A foreign socket on the port is an error, even if it is willing to share.
    First,
    /// A further socket, after the first.
    Joins,
}

/// A non-blocking UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    fd: OwnedFd,
    local: SocketAddr,
    gso: bool,
}

impl UdpSocket {
    /// Opens and binds a socket.
    pub fn bind(addr: SocketAddr, options: Options) -> Result<Self> {
        let family = if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: socket takes no pointers; the result is checked before use.
        let raw = unsafe { libc::socket(family, kind, 0) };
        if raw < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: `raw` is a descriptor just opened, owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let share = || set_option(raw, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1);
        if options.sharing == PortSharing::Joins {
            share()?;
        }
        let bytes = options.buffer_bytes.min(i32::MAX as usize) as i32;
        for option in [libc::SO_RCVBUF, libc::SO_SNDBUF] {
            set_option(raw, libc::SOL_SOCKET, option, bytes)?;
        }
        // GRO and GSO are speed, not function: a kernel without them still works.
        let _ = set_option(raw, libc::SOL_UDP, libc::UDP_GRO, 1);
        let gso = set_option(raw, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        let (name, len) = to_raw(addr);
        // SAFETY: `name` holds a socket address of `len` bytes.
        if unsafe { libc::bind(raw, (&raw const name).cast(), len) } != 0 {
            return Err(Error::last_os_error());
        }
        if options.sharing == PortSharing::First {
            // Bound exclusively, so no foreign socket has the port; from here on others may join.
            share()?;
        }
        let local = local_addr(raw)?;
        Ok(Self { fd, local, gso })
    }

    /// The bound address, with the port filled in.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Duplicates the socket: both take datagrams out of one buffer.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, local: self.local, gso: self.gso })
    }

    /// Drops datagrams received before the node was ready, at most [`DISCARDED_MAX`] runs of them.
    pub fn discard(&self) {
        let mut byte = 0u8;
        for _ in 0..DISCARDED_MAX {
            // SAFETY: `byte` is writable and one byte long; the rest of a datagram is cut off.
            let got = unsafe { libc::recv(self.raw_fd(), (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) };
            if got < 0 {
                return;
            }
        }
    }

    /// Whether the kernel splits a long buffer into datagrams by itself.
    pub fn gso(&self) -> bool {
        self.gso
    }

    /// The descriptor, to poll.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Datagrams that the kernel dropped since the socket was opened, because its buffer was full.
    pub fn kernel_drops(&self) -> u64 {
        const DROPS: usize = 8;
        let mut info = [0u32; DROPS + 1];
        let mut len = size_of_val(&info) as u32;
        // SAFETY: `info` is writable and `len` its size; the kernel writes at most that much.
        let rc = unsafe {
            libc::getsockopt(self.raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, info.as_mut_ptr().cast(), &mut len)
        };
        if rc == 0 && len as usize == size_of_val(&info) { info[DROPS].into() } else { 0 }
    }

    /// Receives available datagrams, at most the batch's size. Returns zero if there are none.
    pub fn receive(&self, batch: &mut RecvBatch) -> Result<usize> {
        match batch.slots() {
            ..=FEW_RECEIVED => self.receive_up_to::<FEW_RECEIVED>(batch),
            _ => self.receive_up_to::<MAX_BATCH>(batch),
        }
    }

    /// Receives into a batch of at most `N` slots.
    fn receive_up_to<const N: usize>(&self, batch: &mut RecvBatch) -> Result<usize> {
        batch.received = 0;
        let count = batch.slots();
        assert!(count <= N, "a table for each slot");
        let mut iovecs: [libc::iovec; N] =
            std::array::from_fn(|_| libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 });
        // SAFETY: an all-zero mmsghdr is a valid empty message.
        let mut messages: [libc::mmsghdr; N] = unsafe { zeroed() };
        for (i, buffer) in batch.buffers.chunks_exact_mut(SLOT).enumerate() {
            iovecs[i] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: SLOT };
            let header = &mut messages[i].msg_hdr;
            header.msg_iov = &mut iovecs[i];
            header.msg_iovlen = 1;
            header.msg_name = (&raw mut batch.names[i]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            header.msg_control = batch.controls[i].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL;
        }
        // SAFETY: the first `count` messages point at buffers, names and controls of `batch`, each of the length
        // given, all of which outlive the call.
        let got = unsafe {
            libc::recvmmsg(self.raw_fd(), messages.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT, std::ptr::null_mut())
        };
        if got < 0 {
            let error = Error::last_os_error();
            return match error.kind() {
                // A reset is an ICMP response to an earlier send; it says nothing about receiving.
                ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused => Ok(0),
                _ => Err(error),
            };
        }
        for (i, message) in messages.iter().take(got as usize).enumerate() {
            batch.lengths[i] = message.msg_len as usize;
            batch.segments[i] = gro_segment(&message.msg_hdr).unwrap_or(0);
        }
        batch.received = got as usize;
        Ok(batch.received)
    }

    /// Sends `messages` in order; returns how many the kernel took (fewer if its buffer is full). An error refers to
    /// the first of them; see [`is_unreachable`] and [`may_be_split`].
    pub fn send(&self, messages: &[Message<'_>]) -> Result<usize> {
        match messages.len() {
            0 => Ok(0),
            1..=FEW_SENT => self.send_up_to::<FEW_SENT>(messages),
            _ => self.send_up_to::<MAX_BATCH>(messages),
        }
    }

    /// Sends the first `N` messages, or all of fewer.
    fn send_up_to<const N: usize>(&self, messages: &[Message<'_>]) -> Result<usize> {
        let count = messages.len().min(N);
        // SAFETY: all-zero values of these plain C structs are valid.
        let mut names: [libc::sockaddr_storage; N] = unsafe { zeroed() };
        let mut iovecs: [libc::iovec; N] =
            std::array::from_fn(|_| libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 });
        let mut controls = [Control([0; CONTROL]); N];
        // SAFETY: an all-zero mmsghdr is a valid empty message.
        let mut headers: [libc::mmsghdr; N] = unsafe { zeroed() };
        for (i, message) in messages.iter().take(count).enumerate() {
            let (name, len) = to_raw(message.to);
            names[i] = name;
            iovecs[i] = libc::iovec { iov_base: message.data.as_ptr().cast_mut().cast(), iov_len: message.data.len() };
            let header = &mut headers[i].msg_hdr;
            header.msg_name = (&raw mut names[i]).cast();
            header.msg_namelen = len;
            header.msg_iov = &mut iovecs[i];
            header.msg_iovlen = 1;
            if let Some(segment) = message.segment.filter(|s| usize::from(*s) < message.data.len()) {
                header.msg_control = controls[i].0.as_mut_ptr().cast();
                header.msg_controllen = put_gso_segment(&mut controls[i], segment);
            }
        }
        // SAFETY: the first `count` headers point at names, buffers and controls that outlive the call; the kernel
        // only reads the payload.
        let sent = unsafe { libc::sendmmsg(self.raw_fd(), headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT) };
        if sent >= 0 {
            return Ok(sent as usize);
        }
        let error = Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS) => Ok(0),
            _ => Err(error),
        }
    }
}

/// Polls the first [`MAX_POLLED`] of these sockets with one system call. Returns a bit for each that has datagrams, the
/// lowest for the first. A bit is also set if a receive would return an error, and all bits are set if `poll` fails.
pub fn readable<'a>(sockets: impl IntoIterator<Item = &'a UdpSocket>) -> u16 {
    let mut fds = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; MAX_POLLED];
    let mut count = 0;
    for (slot, socket) in fds.iter_mut().zip(sockets) {
        slot.fd = socket.raw_fd();
        count += 1;
    }
    // SAFETY: `fds` holds `count` initialised entries or more, and lives through the call.
    let found = unsafe { libc::poll(fds.as_mut_ptr(), count, 0) };
    let bit = |(at, fd): (usize, &libc::pollfd)| u16::from(found < 0 || fd.revents != 0) << at;
    fds.iter().take(count as usize).enumerate().map(bit).sum()
}

/// Whether a send failed only because of its address: the kernel has no route or may not send there (a rule of this
/// machine, a broadcast address), or the host has replied that the port is closed. The next message may still succeed.
pub fn is_unreachable(error: &Error) -> bool {
    use ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, PermissionDenied};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | PermissionDenied)
}

/// Whether a send of a run may have failed only because it is a run: the kernel or the device on its way does not split
/// such runs. Its datagrams may still be sent one by one.
pub fn may_be_split(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE))
}

/// One send: a datagram, or a run of equal datagrams (the last may be shorter) to one address.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Address of the receiver, the same for all datagrams of the run.
    pub to: SocketAddr,
    /// The bytes of all datagrams, concatenated.
    pub data: &'a [u8],
    /// Size of each datagram except the last; `None` if `data` is a single datagram.
    pub segment: Option<u16>,
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Preallocated buffers for [`UdpSocket::receive`].
pub struct RecvBatch {
    buffers: Vec<u8>,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<Control>,
    lengths: Vec<usize>,
    segments: Vec<usize>,
    received: usize,
}

impl RecvBatch {
    /// Allocates `slots` buffers, 1 to [`MAX_BATCH`].
    pub fn new(slots: usize) -> Self {
        assert!((1..=MAX_BATCH).contains(&slots), "a batch has 1 to {MAX_BATCH} slots");
        Self {
            buffers: vec![0; slots * SLOT],
            // SAFETY: an all-zero sockaddr_storage is a valid empty address.
            names: vec![unsafe { zeroed() }; slots],
            controls: vec![Control([0; CONTROL]); slots],
            lengths: vec![0; slots],
            segments: vec![0; slots],
            received: 0,
        }
    }

    fn slots(&self) -> usize {
        self.names.len()
    }

    /// The datagrams of the last receive with their senders, in order.
    pub fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        (0..self.received).filter_map(|i| Some((i, from_raw(&self.names[i])?))).flat_map(|(i, from)| {
            let data = &self.buffers[i * SLOT..][..self.lengths[i]];
            let segment = if self.segments[i] == 0 { data.len().max(1) } else { self.segments[i] };
            // An empty datagram must be counted too.
            data.chunks(segment).chain(data.is_empty().then_some(data)).map(move |datagram| (from, datagram))
        })
    }
}

fn set_option(fd: RawFd, level: i32, option: i32, value: i32) -> Result<()> {
    // SAFETY: `value` is a readable int of the length given.
    let rc = unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), size_of::<i32>() as u32) };
    if rc == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

fn local_addr(fd: RawFd) -> Result<SocketAddr> {
    // SAFETY: an all-zero sockaddr_storage is a valid empty address.
    let mut name: libc::sockaddr_storage = unsafe { zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as u32;
    // SAFETY: `name` is writable and `len` its length.
    if unsafe { libc::getsockname(fd, (&raw mut name).cast(), &mut len) } != 0 {
        return Err(Error::last_os_error());
    }
    from_raw(&name).ok_or_else(|| Error::from(ErrorKind::Unsupported))
}

/// Returns the datagram size in a run that GRO joined.
fn gro_segment(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel filled `header` and its control buffer, which is alive; the CMSG macros stay within
    // msg_controllen. UDP_GRO carries an int.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            if (*control).cmsg_level == libc::SOL_UDP && (*control).cmsg_type == libc::UDP_GRO {
                let segment: i32 = std::ptr::read_unaligned(libc::CMSG_DATA(control).cast());
                return usize::try_from(segment).ok().filter(|s| *s > 0);
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    None
}

/// Writes the GSO segment size as a control message; returns the length of the control data.
fn put_gso_segment(control: &mut Control, segment: u16) -> usize {
    // SAFETY: CMSG_SPACE and CMSG_LEN are arithmetic. The buffer is CONTROL (≥ CMSG_SPACE(2)) bytes, aligned to 8,
    // so it holds one header and the u16.
    unsafe {
        let space = libc::CMSG_SPACE(size_of::<u16>() as u32) as usize;
        let header: *mut libc::cmsghdr = control.0.as_mut_ptr().cast();
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as usize;
        std::ptr::write_unaligned(libc::CMSG_DATA(header).cast(), segment);
        space
    }
}

const _: () = assert!(CONTROL >= 64 && size_of::<libc::cmsghdr>() + 8 <= CONTROL);

#[cfg(test)]
mod tests {
    use super::*;

    use hearth_testkit::wait_until;

    const OPTIONS: Options = Options { sharing: PortSharing::None, buffer_bytes: 1 << 20 };

    fn receive_all(socket: &UdpSocket, want: usize) -> Vec<Vec<u8>> {
        let (mut batch, mut all) = (RecvBatch::new(8), vec![]);
        wait_until("the datagrams", || {
            socket.receive(&mut batch).unwrap();
            all.extend(batch.datagrams().map(|(_, d)| d.to_vec()));
            all.len() >= want
        });
        all
    }

    #[test]
    fn empty_datagrams_arrive_too() {
        let receiver = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), OPTIONS).unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for data in [&b"one"[..], b"", b"two", b""] {
            sender.send_to(data, receiver.local_addr()).unwrap();
        }
        assert_eq!(receive_all(&receiver, 4), [&b"one"[..], b"", b"two", b""]);
    }

    #[test]
    fn runs_and_single_datagrams_arrive_whole() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(receiver) = UdpSocket::bind(local.parse().unwrap(), OPTIONS) else {
                assert!(local.starts_with('['), "IPv4 loopback must bind");
                continue;
            };
            let sender = UdpSocket::bind(local.parse().unwrap(), OPTIONS).unwrap();
            let to = receiver.local_addr();
            let run: Vec<u8> = (0..2500u32).map(|i| i as u8).collect();
            let segment = sender.gso().then_some(1000);
            let one = Message { to, data: &run[..700], segment: None };
            let many = Message { to, data: &run, segment };
            assert_eq!(sender.send(&[one, many]).unwrap(), 2);
            let got = receive_all(&receiver, if segment.is_some() { 4 } else { 2 });
            assert_eq!(got[0], &run[..700]);
            assert_eq!(got[1..].concat(), run);
            if segment.is_some() {
                assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [700, 1000, 1000, 500]);
            }
        }
    }

    #[test]
    fn one_of_several_sockets_is_readable_until_it_was_read() {
        let sockets = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0".parse().unwrap(), OPTIONS).unwrap());
        assert_eq!((readable(&sockets), readable([])), (0, 0));
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"one", sockets[2].local_addr()).unwrap();
        wait_until("the datagram", || readable(&sockets) != 0);
        assert_eq!((readable(&sockets), readable(&sockets[..2])), (0b100, 0));
        assert_eq!(receive_all(&sockets[2], 1), [b"one"]);
        assert_eq!(readable(&sockets), 0);
    }

    #[test]
    fn batches_of_any_size_arrive_whole_and_in_order() {
        let sender = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), OPTIONS).unwrap();
        for slots in [1, FEW_RECEIVED, FEW_RECEIVED + 1, MAX_BATCH] {
            let receiver = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), OPTIONS).unwrap();
            let mut batch = RecvBatch::new(slots);
            assert_eq!(receiver.receive(&mut batch).unwrap(), 0);
            for count in [1, FEW_SENT, FEW_SENT + 1, MAX_BATCH, MAX_BATCH + 5] {
                let numbers: Vec<[u8; 2]> = (0..count as u16).map(u16::to_le_bytes).collect();
                let messages: Vec<Message<'_>> = numbers
                    .iter()
                    .map(|number| Message { to: receiver.local_addr(), data: number, segment: None })
                    .collect();
                let sent = sender.send(&messages).unwrap();
                assert_eq!(sent, count.min(MAX_BATCH));
                let mut came = vec![];
                wait_until("the datagrams", || {
                    receiver.receive(&mut batch).unwrap();
                    came.extend(batch.datagrams().map(|(_, data)| data.to_vec()));
                    came.len() >= sent
                });
                assert_eq!(came, numbers[..sent], "{count} sent, {slots} slots");
            }
        }
        assert_eq!(sender.send(&[]).unwrap(), 0);
    }

    #[test]
    fn a_port_in_use_is_an_error() {
        let first = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), OPTIONS).unwrap();
        let error = UdpSocket::bind(first.local_addr(), OPTIONS).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }

    #[test]
    fn sockets_that_share_a_port_each_get_flows_and_a_stranger_is_noticed() {
        let first = Options { sharing: PortSharing::First, ..OPTIONS };
        let joins = Options { sharing: PortSharing::Joins, ..OPTIONS };
        let ours = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), first).unwrap();
        let addr = ours.local_addr();
        let other = UdpSocket::bind(addr, joins).unwrap();
        // A `First` socket fails if the port is in use, by a sharing socket or not.
        assert_eq!(UdpSocket::bind(addr, first).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(UdpSocket::bind(addr, OPTIONS).unwrap_err().kind(), ErrorKind::AddrInUse);
        let stranger = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), joins).unwrap();
        assert_eq!(UdpSocket::bind(stranger.local_addr(), first).unwrap_err().kind(), ErrorKind::AddrInUse);
        // Odds of 2^-63 that all of 64 flows reach the same socket.
        let senders: Vec<_> = (0..64).map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        senders.iter().for_each(|sender| assert_eq!(sender.send_to(b"x", addr).unwrap(), 1));
        let (mut batch, mut got) = (RecvBatch::new(8), [0, 0]);
        wait_until("a datagram of each sender", || {
            for (socket, got) in [&ours, &other].into_iter().zip(&mut got) {
                socket.receive(&mut batch).unwrap();
                *got += batch.datagrams().count();
            }
            got[0] + got[1] >= senders.len()
        });
        assert_eq!(got[0] + got[1], senders.len());
        assert!(got[0] > 0 && got[1] > 0, "{got:?}");
    }
}
