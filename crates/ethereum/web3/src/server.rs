//! The server: one socket for HTTP and WebSocket, its start and its end.
//!
//! reads   connections
//! writes  nothing itself
//! memory  that of [`hearth_serve::server`] for as many connections as [`Limits`](crate::Limits) says

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hearth_evm::chain::Chain;
use hearth_serve::Body;
use hearth_serve::http::{Request, Response};
use hearth_serve::server::Bounds;
use hearth_serve::{Connection, Listener, Service};

use crate::config::{Config, STACK_BYTES};
use crate::counters::Counters;
use crate::error::ServeError;
use crate::methods::Api;
use crate::profiler::Instruments;
use crate::{console_printer, feed, http};

/// A running server; dropping it stops it.
pub struct Server {
    server: hearth_serve::Server,
    api: Arc<Api>,
    address: SocketAddr,
}

/// Listens, and serves `chain` until it is stopped; `instruments` are the dashboard and the profiler. Expensive calls
/// run on other threads: see [`call_pool`](crate::call_pool).
pub fn serve(config: Config, chain: Chain, instruments: Instruments) -> Result<Server, ServeError> {
    let listener = listen(config.address)?;
    serve_at(listener, config, chain, instruments)
}

/// As [`serve`], on a socket that listens already; the configuration's address is ignored.
pub fn serve_on(
    socket: TcpListener,
    config: Config,
    chain: Chain,
    instruments: Instruments,
) -> Result<Server, ServeError> {
    let address = config.address;
    let listener = Listener::of(socket).map_err(|why| ServeError::Listen(address, why))?;
    serve_at(listener, config, chain, instruments)
}

fn serve_at(listener: Listener, config: Config, chain: Chain, instruments: Instruments) -> Result<Server, ServeError> {
    let address = listener.address();
    let api = Api::new(config, chain, instruments)?;
    api.counters.http_port.store(address.port().into(), Relaxed);
    let server = hearth_serve::Server::start("web3", Some(STACK_BYTES)).map_err(ServeError::Threads)?;
    let limits = api.config.limits;
    let bounds = Bounds {
        connections: limits.connections,
        connections_per_address: limits.connections_per_address,
        patience: limits.patience,
    };
    let host = Host { api: Arc::clone(&api) };
    server.accept(listener, bounds, api.counters.clone(), host).map_err(ServeError::Threads)?;
    start_threads(&api, &server).map_err(ServeError::Threads)?;
    let (watching, until) = (Arc::clone(&api), server.stopped());
    server.spawn(async move {
        if let Ok(dashboard) = &watching.dashboard {
            dashboard.watch(until).await;
        }
    });
    Ok(Server { server, api, address })
}

/// Starts the background threads, which run until the server stops.
fn start_threads(api: &Arc<Api>, server: &hearth_serve::Server) -> io::Result<()> {
    api.start()?;
    console_printer::start(api)?;
    feed::start(api, server.stopped())
}

impl Server {
    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server's counters, which it keeps updating.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.api.counters)
    }

    /// Stops: takes no more requests, ends those under way and closes every connection, within a second.
    pub fn stop(mut self) {
        self.server.stop();
    }
}

fn listen(address: SocketAddr) -> Result<Listener, ServeError> {
    Listener::bind(address).map_err(|why| match why.kind() {
        io::ErrorKind::AddrInUse => ServeError::PortInUse(address),
        _ => ServeError::Listen(address, why),
    })
}

/// The state that every connection shares.
#[derive(Clone)]
struct Host {
    api: Arc<Api>,
}

impl Service for Host {
    async fn answer(&self, request: Request<Body>, connection: &Arc<Connection>) -> Response<Body> {
        http::handle(&self.api, connection, request).await
    }
}
