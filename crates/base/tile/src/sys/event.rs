//! event: an event descriptor, and waiting for it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A Linux eventfd: any thread signals it, one thread waits for it.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Opens an eventfd. Fails if the process is out of descriptors.
    pub fn new() -> std::io::Result<Self> {
        // SAFETY: eventfd takes no pointers; the result is checked before use.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: `fd` is a descriptor just opened, owned by nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// An eventfd that was opened elsewhere: by the process from which this one inherited it.
    pub fn from_owned(event: OwnedFd) -> Self {
        Self(event)
    }

    /// A second descriptor of the same event. Fails if the process is out of descriptors.
    pub fn try_clone(&self) -> std::io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// The descriptor's number, for a process that inherits it.
    pub fn raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Makes the descriptor readable. A counter already at its ceiling is readable too, so errors do not matter.
    pub fn signal(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: `one` is eight readable bytes, as eventfd asks.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes the descriptor unreadable again.
    pub fn drain(&self) {
        let mut value = [0u8; 8];
        // SAFETY: `value` is eight writable bytes, as eventfd asks; the descriptor is non-blocking.
        unsafe { libc::read(self.0.as_raw_fd(), value.as_mut_ptr().cast(), value.len()) };
    }
}

/// Maximum descriptors that one core waits for besides its own event.
pub const MAX_WAIT: usize = 31;

/// Sleeps until `event` or one of `others` is readable, or `timeout_ns` has passed. Returns a bit for each that is
/// readable or has failed: the lowest for `event`, which is drained then, and the next for the first of `others`.
/// Checks only the first [`MAX_WAIT`] of `others`.
pub fn wait_readable(event: &EventFd, others: &[RawFd], timeout_ns: u64) -> u32 {
    let mut fds = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; MAX_WAIT + 1];
    fds[0].fd = event.0.as_raw_fd();
    for (slot, fd) in fds[1..].iter_mut().zip(others) {
        slot.fd = *fd;
    }
    let count = 1 + others.len().min(MAX_WAIT);
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `fds` holds `count` initialised entries and `timeout` lives through the call; no signal mask is given.
    unsafe { libc::ppoll(fds.as_mut_ptr(), count as libc::nfds_t, &timeout, std::ptr::null()) };
    if fds[0].revents != 0 {
        event.drain();
    }
    fds[..count].iter().enumerate().map(|(at, fd)| u32::from(fd.revents != 0) << at).sum()
}

const _: () = assert!(MAX_WAIT < u32::BITS as usize, "a bit for each descriptor and for the event");
