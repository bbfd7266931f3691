//! WebSocket: every method, and what its client has asked to be told.
//!
//! reads   messages of at most [`Limits::request_bytes`](crate::Limits)
//! writes  answers; subscriptions of the hub, which fills the connection's queue
//! memory  one answer
//! source  `rpc/websocket.go` of go-ethereum 1.16

use std::net::IpAddr;
use std::sync::Arc;

use hearth_serve::Body;
use hearth_serve::Connection;
use hearth_serve::http::{Request, Response};
use hearth_serve::websocket::{self, Bounds};

use crate::jsonrpc;
use crate::methods::{Api, Caller};

/// Turns a request for an upgrade into a connection that is served until it ends.
pub async fn upgrade(api: &Arc<Api>, connection: &Arc<Connection>, request: Request<Body>) -> Response<Body> {
    let limits = &api.config.limits;
    let bounds = Bounds { message_bytes: limits.request_bytes, patience: limits.patience };
    let (api, address) = (Arc::clone(api), connection.peer);
    let begin = move || {
        let (number, queue) = api.hub.join();
        (Session { api, address, number }, queue)
    };
    websocket::upgrade(request, Arc::clone(connection), bounds, begin).await
}

/// One connection.
struct Session {
    api: Arc<Api>,
    address: IpAddr,
    number: u64,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.api.hub.leave(self.number);
    }
}

impl websocket::Session for Session {
    async fn reply(&mut self, text: &[u8]) -> Option<String> {
        let api = &self.api;
        let caller = Caller { api, address: self.address, connection: Some(self.number) };
        jsonrpc::answer(text, &api.config.limits, &api.counters, &caller).await
    }
}
