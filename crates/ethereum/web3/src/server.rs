//! The server: one socket for HTTP and WebSocket, what answers there, and its end.
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
use hearth_serve::dashboard::LookAt;
use hearth_serve::http::{Request, Response};
use hearth_serve::server::Bounds;
use hearth_serve::{Connection, Listener, Service};

use crate::config::Config;
use crate::counters::Counters;
use crate::http;
use crate::methods::Api;

/// Bytes of a thread's stack: a burst of signatures is worked on in arrays there.
pub const STACK_BYTES: usize = 8 * 1024 * 1024;

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is taken.
    #[error(
        "Web3 cannot listen on {0}: the port is in use. Stop the other program (`ss -tanp` shows it), or choose \
         another port"
    )]
    PortInUse(SocketAddr),
    /// Another reason not to listen.
    #[error("Web3 cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// No threads.
    #[error("cannot start Web3's threads: {0}")]
    Threads(io::Error),
    /// A dev account's key is none.
    #[error("the key of dev account {0} is no secp256k1 key")]
    Account(usize),
}

/// A running server; dropping it stops it.
pub struct Server {
    server: hearth_serve::Server,
    api: Arc<Api>,
    address: SocketAddr,
}

/// Listens, and answers for `chain` until it is stopped; with a dashboard of what `look_at` sees. What takes long runs
/// on other threads than those that answer: see [`heavy`](crate::heavy).
pub fn serve(config: Config, chain: Chain, look_at: Option<LookAt>) -> Result<Server, ServeError> {
    let listener = listen(config.address)?;
    serve_at(listener, config, chain, look_at)
}

/// The same at a socket that listens already, whatever address the configuration has.
pub fn serve_on(
    socket: TcpListener,
    config: Config,
    chain: Chain,
    look_at: Option<LookAt>,
) -> Result<Server, ServeError> {
    let address = config.address;
    let listener = Listener::of(socket).map_err(|why| ServeError::Listen(address, why))?;
    serve_at(listener, config, chain, look_at)
}

fn serve_at(listener: Listener, config: Config, chain: Chain, look_at: Option<LookAt>) -> Result<Server, ServeError> {
    let address = listener.address();
    let api = Api::new(config, chain, look_at)?;
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
    api.start(server.stopped()).map_err(ServeError::Threads)?;
    let (watching, until) = (Arc::clone(&api), server.stopped());
    server.spawn(async move {
        if let Some(dashboard) = &watching.dashboard {
            dashboard.watch(until).await;
        }
    });
    Ok(Server { server, api, address })
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has been counted.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.api.counters)
    }

    /// Takes no more requests, ends those under way, closes every connection; within a second.
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

/// What every connection needs.
#[derive(Clone)]
struct Host {
    api: Arc<Api>,
}

impl Service for Host {
    async fn answer(&self, request: Request<Body>, connection: &Arc<Connection>) -> Response<Body> {
        http::handle(&self.api, connection, request).await
    }
}
