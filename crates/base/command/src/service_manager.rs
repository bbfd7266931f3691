//! Reports to the service manager that started this process, such as systemd with `Type=notify`.
//!
//! reads   `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`
//! writes  datagrams to the socket that `NOTIFY_SOCKET` names
//! source  sd_notify(3), sd_watchdog_enabled(3)
//!
//! Without `NOTIFY_SOCKET`, as in a terminal, all of this does nothing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use crate::output::note;

/// The service manager, if one waits for reports.
#[derive(Default)]
pub struct ServiceManager {
    socket: Option<OsString>,
    /// The longest silence before the manager takes the process for hung.
    patience: Option<Duration>,
    last: Option<Instant>,
}

impl ServiceManager {
    /// Reports that the process serves. A manager that cannot be reached gets a notice on standard error.
    pub fn ready() -> Self {
        let text = |name: &str| std::env::var(name).ok();
        let socket = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty());
        let patience = patience(text("WATCHDOG_USEC"), text("WATCHDOG_PID"), std::process::id());
        let manager = Self { socket, patience, last: None };
        if let Err(why) = manager.send("READY=1") {
            note(format_args!("notice: the service manager does not learn that the node serves: {why}"));
        }
        manager
    }

    /// Reports that the process works, where the manager watches it and the last report is old enough. Call this often.
    pub fn alive(&mut self) {
        let Some(patience) = self.patience else { return };
        // The manager's advice is half of its patience.
        if self.last.is_none_or(|last| last.elapsed() >= patience / 2) {
            self.last = Some(Instant::now());
            // One lost report does no harm, and without any the manager acts.
            let _ = self.send("WATCHDOG=1");
        }
    }

    /// Reports that the process is about to end.
    pub fn stopping(&self) {
        // The manager sees the end of the process anyway.
        let _ = self.send("STOPPING=1");
    }

    fn send(&self, state: &str) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let sender = UnixDatagram::unbound()?;
        // A manager that does not read must not stop the node.
        sender.set_nonblocking(true)?;
        let sent = sender.send_to_addr(state.as_bytes(), &address(socket)?)?;
        if sent == state.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// Returns the address of a socket: a path, or a name in the abstract namespace after `@`.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(socket),
    }
}

/// Returns the manager's patience: `WATCHDOG_USEC` microseconds, if it is meant for this process.
fn patience(micros: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    let is_own = pid.is_none_or(|pid| pid.parse::<u32>() == Ok(own));
    let micros = micros?.parse::<u64>().ok().filter(|micros| *micros > 0)?;
    is_own.then(|| Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a manager at a socket in the abstract namespace, and the socket.
    fn manager(test: &str, patience: Option<Duration>) -> (ServiceManager, UnixDatagram) {
        let name = format!("hearth-{test}-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        (ServiceManager { socket: Some(format!("@{name}").into()), patience, last: None }, socket)
    }

    /// Returns the next datagram; a local one is there as soon as it is sent.
    fn received(socket: &UnixDatagram) -> Option<String> {
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    #[test]
    fn reports_reach_the_socket() {
        let (manager, socket) = manager("reports", None);
        manager.send("READY=1").unwrap();
        assert_eq!(received(&socket).as_deref(), Some("READY=1"));
        manager.stopping();
        assert_eq!(received(&socket).as_deref(), Some("STOPPING=1"));
        drop(socket);
        assert!(manager.send("READY=1").is_err(), "nobody listens");
    }

    #[test]
    fn a_path_is_a_socket_too() {
        let folder = std::env::temp_dir().join(format!("hearth-notify-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        ServiceManager { socket: Some(path.into()), ..ServiceManager::default() }.send("READY=1").unwrap();
        assert_eq!(received(&socket).as_deref(), Some("READY=1"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn watchdog_is_fed_at_half_its_patience() {
        let (mut unwatched, socket) = manager("unwatched", None);
        unwatched.alive();
        assert_eq!(received(&socket), None);
        let (mut watched, socket) = manager("watched", Some(Duration::from_secs(3_600)));
        watched.alive();
        watched.alive();
        assert_eq!(received(&socket).as_deref(), Some("WATCHDOG=1"));
        assert_eq!(received(&socket), None, "it is not due again");
        watched.patience = Some(Duration::ZERO);
        watched.alive();
        assert_eq!(received(&socket).as_deref(), Some("WATCHDOG=1"));
    }

    #[test]
    fn patience_is_for_the_process_that_was_started() {
        let text = |text: &str| Some(text.to_owned());
        let second = Some(Duration::from_secs(1));
        assert_eq!(patience(text("1000000"), None, 7), second);
        assert_eq!(patience(text("1000000"), text("7"), 7), second);
        assert_eq!(patience(text("1000000"), text("8"), 7), None);
        assert_eq!(patience(text("0"), None, 7), None);
        assert_eq!(patience(text("soon"), None, 7), None);
        assert_eq!(patience(None, None, 7), None);
    }

    #[test]
    fn no_manager_is_no_error() {
        let mut manager = ServiceManager::default();
        assert!(manager.send("READY=1").is_ok());
        manager.alive();
        manager.stopping();
    }
}
