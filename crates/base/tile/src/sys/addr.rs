//! addr: converts socket addresses to and from the kernel's format.
//!
//! reads   `sockaddr_storage`
//! writes  `sockaddr_storage`
//! source  ip(7), ipv6(7)

use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Converts an address to the kernel's format; returns it with its size.
pub fn to_raw(addr: SocketAddr) -> (libc::sockaddr_storage, u32) {
    // SAFETY: an all-zero sockaddr_storage is a valid empty address.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let len = match addr {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is at least as large and as aligned as sockaddr_in.
            unsafe { std::ptr::write((&raw mut storage).cast(), raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: sockaddr_storage is at least as large and as aligned as sockaddr_in6.
            unsafe { std::ptr::write((&raw mut storage).cast(), raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as u32)
}

/// Converts an address from the kernel's format; `None` if it is not an IP address.
pub fn from_raw(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage holds a sockaddr_in.
            let raw: libc::sockaddr_in = unsafe { std::ptr::read((&raw const *storage).cast()) };
            let ip = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(raw.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that the storage holds a sockaddr_in6.
            let raw: libc::sockaddr_in6 = unsafe { std::ptr::read((&raw const *storage).cast()) };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(raw.sin6_port)))
        }
        _ => None,
    }
}
