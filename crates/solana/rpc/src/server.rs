//! The server: its two sockets, their handlers, and shutdown.
//!
//! memory  that of [`hearth_serve::server`] for as many connections as [`Limits`] allows

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hearth_serve::Body;
use hearth_serve::http::{Request, Response};
use hearth_serve::server::Bounds;
use hearth_serve::{Connection, Counts, Listener, Server, Service};

use crate::config::{Limits, RpcConfig, RpcNode};
use crate::counters::Counters;
use crate::methods::Api;
use crate::subscriptions::SubscriptionHub;
use crate::{http, websocket};

/// Why the RPC cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The port is in use.
    #[error(
        "the RPC cannot listen on {address} for {what}: the port is in use. Stop the other program (`ss -tanp` shows \
         it), or choose another port ([rpc] port: HTTP is there, WebSocket one above)"
    )]
    PortInUse {
        /// The address that was requested.
        address: SocketAddr,
        /// The protocol of the port: `HTTP` or `WebSocket`.
        what: &'static str,
    },
    /// Listening failed for another reason.
    #[error("the RPC cannot listen on {address} for {what}: {source}")]
    Listen {
        /// The address that was requested.
        address: SocketAddr,
        /// The protocol of the port: `HTTP` or `WebSocket`.
        what: &'static str,
        /// Why the port cannot be bound, as the system says it.
        source: io::Error,
    },
    /// HTTP uses the highest port, so there is none above it for WebSocket.
    #[error("the RPC's port is 65535 and WebSocket needs the one above: choose a lower [rpc] port")]
    NoPortAbove,
    /// The runtime's threads could not be started.
    #[error("cannot start the RPC's threads: {0}")]
    Threads(io::Error),
}

/// A running server; dropping it stops it.
pub struct RpcServer {
    server: Server,
    counters: Arc<Counters>,
    http: SocketAddr,
    websocket: SocketAddr,
}

impl RpcServer {
    /// Listens at the configured addresses and serves `node` until it is stopped.
    pub fn start(config: RpcConfig, node: RpcNode) -> Result<Self, RpcError> {
        if config.http.port() == u16::MAX && config.websocket.port() == 0 {
            return Err(RpcError::NoPortAbove);
        }
        let listeners = [listen(config.http, "HTTP")?, listen(config.websocket, "WebSocket")?];
        Self::serve(listeners, config.limits, node)
    }

    /// The same on sockets that already listen: HTTP first, then WebSocket.
    pub fn start_on(listeners: [TcpListener; 2], limits: Limits, node: RpcNode) -> Result<Self, RpcError> {
        let [http, websocket] = listeners.map(|socket| Listener::of(socket).map_err(RpcError::Threads));
        Self::serve([http?, websocket?], limits, node)
    }

    fn serve(listeners: [Listener; 2], limits: Limits, node: RpcNode) -> Result<Self, RpcError> {
        let [http_listener, websocket_listener] = listeners;
        let (http, websocket) = (http_listener.address(), websocket_listener.address());
        let server = Server::start("rpc", None).map_err(RpcError::Threads)?;
        let api = Arc::new(Api::new(node, limits, reachable(http), reachable(websocket)));
        let hub = SubscriptionHub::new(&api);
        let counters = Arc::clone(&api.counters);
        counters.http_port().store(http.port().into(), Relaxed);
        let counts: Arc<dyn Counts> = counters.clone();
        let accept = |listener, connections, protocol| {
            let bounds = Bounds {
                connections,
                connections_per_address: limits.connections_per_address,
                patience: limits.patience,
            };
            let host = Host { api: Arc::clone(&api), hub: Arc::clone(&hub), protocol };
            server.accept(listener, bounds, Arc::clone(&counts), host).map_err(RpcError::Threads)
        };
        accept(http_listener, limits.http_connections, Protocol::Http)?;
        accept(websocket_listener, limits.websocket_connections, Protocol::WebSocket)?;
        server.spawn(hub.watch());
        let (watching, until) = (Arc::clone(&api), server.stopped());
        server.spawn(async move {
            if let Ok(dashboard) = &watching.dashboard {
                dashboard.watch(until).await;
            }
        });
        server.spawn(api.resend_all());
        Ok(Self { server, counters, http, websocket })
    }

    /// The address of HTTP.
    pub fn local_addr(&self) -> SocketAddr {
        self.http
    }

    /// The address of WebSocket.
    pub fn websocket_addr(&self) -> SocketAddr {
        self.websocket
    }

    /// The counters of its requests, connections and subscriptions, which outlive it.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Accepts no more requests, finishes those in flight and closes all connections, within a second.
    pub fn stop(mut self) {
        self.server.stop();
    }
}

fn listen(address: SocketAddr, what: &'static str) -> Result<Listener, RpcError> {
    Listener::bind(address).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => RpcError::PortInUse { address, what },
        _ => RpcError::Listen { address, what, source },
    })
}

/// An address to connect to: a server that listens on all addresses is reached on loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, v6.port())),
        address => address,
    }
}

#[derive(Clone, Copy)]
enum Protocol {
    Http,
    WebSocket,
}

/// State shared by all connections.
#[derive(Clone)]
struct Host {
    api: Arc<Api>,
    hub: Arc<SubscriptionHub>,
    protocol: Protocol,
}

impl Service for Host {
    async fn answer(&self, request: Request<Body>, connection: &Arc<Connection>) -> Response<Body> {
        match self.protocol {
            Protocol::Http => http::handle(&self.api, connection.peer, request).await,
            Protocol::WebSocket => websocket::handle(&self.api, &self.hub, connection, request).await,
        }
    }
}
