//! WebSocket: every method, and notifications of subscriptions.
//!
//! reads   messages of at most [`Limits::request_bytes`](crate::Limits)
//! writes  answers, in the order of their completion; notifications from the connection's queue
//! memory  the answers of [`Limits::calls_per_connection`](crate::Limits) messages
//! source  `rpc/websocket.go` of go-ethereum 1.16

use std::net::IpAddr;
use std::sync::Arc;

use hearth_serve::Connection;
use hearth_serve::http::{Request, Response};
use hearth_serve::jsonrpc;
use hearth_serve::websocket::{self, Bounds};
use hearth_serve::{Body, Bytes};

use crate::methods::{Api, Caller};

/// Upgrades a request to a WebSocket connection and serves it until it ends.
pub async fn upgrade(api: &Arc<Api>, connection: &Arc<Connection>, request: Request<Body>) -> Response<Body> {
    let limits = &api.config.limits;
    let (message_bytes, calls_at_once) = (limits.request_bytes, limits.calls_per_connection);
    let bounds = Bounds { message_bytes, patience: limits.patience, calls_at_once };
    let (api, address) = (Arc::clone(api), connection.peer);
    let begin = move || {
        let (number, queue) = api.hub.join();
        (Session { api, address, number }, queue)
    };
    websocket::upgrade(request, Arc::clone(connection), bounds, begin).await
}

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
    fn reply(&self, text: Bytes) -> impl Future<Output = Option<String>> + Send + 'static {
        let (api, address, number) = (Arc::clone(&self.api), self.address, self.number);
        async move {
            let caller = Caller { api: &api, address, connection: Some(number) };
            jsonrpc::answer(&text, api.config.limits.of_answer(), &*api.counters, &caller).await.text
        }
    }

    fn is_subscribed(&self) -> bool {
        self.api.hub.is_subscribed(self.number)
    }

    fn may_subscribe(&self, text: &[u8]) -> bool {
        // A name with escapes in it matches no method; such a client gets the subscription's number a little late.
        memchr::memmem::find(text, b"eth_subscribe").is_some()
    }
}
