//! metric: serves every tile's counters as Prometheus text over HTTP.
//!
//! reads   the workspace, read-only: counters and links of all tiles; the state of the process and its disk; its socket
//! writes  HTTP responses
//! memory  at most 16 connections, 4 KiB of request and one response each
//! drops   the longest idle connection for a new one beyond 16, or the new one, with a 503, if none is idle; requests
//!         that are malformed, longer than 4 KiB or unfinished after 5 s; counted
//! source  the Prometheus text exposition format, version 0.0.4
//!
//! It never slows another tile: it only loads words that they store, all of its sockets are non-blocking, a turn
//! advances one connection's response by one piece, and it uses at most a sixteenth of the time, however many clients
//! there are ([`pace`]).

mod connection;
pub mod families;
mod pace;
mod process;
pub mod served;
pub mod text;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use hearth_ring::Observer;
use hearth_tile::topology::Topology;
use hearth_tile::{Frag, Host, InitError, Out, Poll, Tile, WaitFor};

use connection::{Connection, Progress, refuse_at_once};
use pace::WorkDebt;
use text::Template;

hearth_tile::counters! {
    /// The counters of metric.
    pub struct Counters {
        /// Requests answered with metrics.
        scrapes: Counter,
        /// Requests answered with an error.
        bad_requests: Counter,
        /// Connections answered with 503, since sixteen were open and none was idle.
        refused_connections: Counter,
        /// Connections without a request that were closed to make room for new ones.
        idle_connections_closed: Counter,
        /// Connections dropped: too slow, or broken.
        dropped_connections: Counter,
    }
}

/// Configuration of metric: the address to serve at, and the sources of the values.
#[derive(Debug)]
pub struct Config {
    /// Address and TCP port of the HTTP server.
    pub listen: SocketAddr,
    /// A socket already listening there.
    pub bound: Option<TcpListener>,
    /// Path of the workspace file, which holds the counters of all tiles.
    pub workspace: PathBuf,
    /// A folder on the ledger's file system.
    pub ledger: PathBuf,
}

const MAX_CONNECTIONS: usize = 16;
/// Maximum bytes of requests held at once.
pub const REQUESTS_BYTES_MAX: usize = MAX_CONNECTIONS * connection::MAX_REQUEST;
/// Maximum connections accepted per turn, at two or three system calls each.
const ACCEPTS: usize = 4;

/// Minimum interval between calls of `accept` while the core is awake, in nanoseconds: each is a system call. Each
/// sleep of the core looks for connections too.
const ACCEPT_EVERY_NS: u64 = 1_000_000;

/// Serves metrics over HTTP.
pub struct Metric {
    listener: TcpListener,
    accept_at: u64,
    /// Whether the core's last sleep found connections to accept, if it looked and no turn has come since.
    looked: Option<bool>,
    connections: Vec<Connection>,
    observer: Observer,
    template: Template,
    pace: WorkDebt,
}

impl Tile for Metric {
    const NAME: &'static str = "metric";
    const BURST: usize = 0;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let what = format!("the metrics port {}", config.listen);
        let bound = config.bound.map_or_else(|| TcpListener::bind(config.listen), Ok);
        let listener = bound.map_err(|e| host.socket_error(&what, e))?;
        listener.set_nonblocking(true).map_err(|e| host.socket_error(&what, e))?;
        let observer = Observer::attach(&config.workspace).map_err(|e| host.error(e))?;
        let topology = Topology::from_workspace(observer.topology()).map_err(|e| host.error(e))?;
        let template = Template::new(&topology, &observer, config.ledger).map_err(|e| host.error(e))?;
        Ok(Self {
            listener,
            accept_at: 0,
            looked: None,
            connections: Vec::with_capacity(MAX_CONNECTIONS),
            observer,
            template,
            pace: WorkDebt::default(),
        })
    }

    fn on_frag(&mut self, _: Frag<'_>, _: &mut Out<'_, Self>) {}

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        if !self.pace.may_work(out.now()) {
            return Poll::Idle;
        }
        match self.looked.take() {
            Some(true) => self.accept_at = out.now(),
            Some(false) => self.accept_at = out.now() + ACCEPT_EVERY_NS,
            None => {}
        }
        let accepted = out.now() >= self.accept_at && !out.sleeps_next() && self.accept(out);
        if !self.step(out) && !accepted {
            return Poll::Idle;
        }
        self.pace.worked(out.now(), out.fresh_now());
        Poll::Busy
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        if let Some(deadline) = self.pace.rests_until() {
            return wait.until(deadline);
        }
        wait.descriptors([self.listener.as_raw_fd()]);
        wait.descriptors(self.connections.iter().map(Connection::raw_fd));
        wait.until(self.connections.iter().map(|c| c.deadline()).min());
    }

    fn slept(&mut self, readable: u32) {
        self.looked = Some(readable & 1 != 0);
    }
}

impl Metric {
    /// Accepts some waiting connections. Returns whether there were any.
    fn accept(&mut self, out: &mut Out<'_, Self>) -> bool {
        self.accept_at = out.now() + ACCEPT_EVERY_NS;
        for taken in 0..ACCEPTS {
            let Ok((stream, _)) = self.listener.accept() else { return taken > 0 };
            match stream.set_nonblocking(true) {
                Ok(()) if self.connections.len() < MAX_CONNECTIONS => {
                    self.connections.push(Connection::new(stream, out.now()));
                }
                Ok(()) if make_room(&mut self.connections) => {
                    out.count.idle_connections_closed += 1;
                    self.connections.push(Connection::new(stream, out.now()));
                }
                Ok(()) => {
                    refuse_at_once(stream);
                    out.count.refused_connections += 1;
                }
                Err(_) => out.count.dropped_connections += 1,
            }
        }
        true
    }

    /// Advances each connection. Returns whether any made progress.
    fn step(&mut self, out: &mut Out<'_, Self>) -> bool {
        let mut busy = false;
        let (observer, template) = (&self.observer, &self.template);
        let mut answering = false;
        // A different connection's response goes first each time.
        let step = usize::from(self.connections.len() > 1);
        self.connections.rotate_left(step);
        self.connections.retain_mut(|connection| {
            if answering && connection.is_answering() {
                return true;
            }
            let answers = connection.is_answering();
            match connection.step(out.now(), template, observer) {
                Progress::Waiting => return true,
                Progress::Working => {
                    busy = true;
                    answering |= answers;
                    return true;
                }
                Progress::Served => out.count.scrapes += 1,
                Progress::Refused => out.count.bad_requests += 1,
                Progress::Broken => out.count.dropped_connections += 1,
            }
            busy = true;
            false
        });
        busy
    }
}

/// Closes the connection that has waited longest without a request; returns whether there was one.
fn make_room(connections: &mut Vec<Connection>) -> bool {
    let idle = connections.iter().enumerate().filter(|(_, connection)| connection.is_idle());
    let longest = idle.min_by_key(|(_, connection)| connection.deadline()).map(|(at, _)| at);
    longest.map(|at| connections.swap_remove(at)).is_some()
}

#[cfg(test)]
mod tests;
