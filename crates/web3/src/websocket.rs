//! WebSocket: every method, and what its client has asked to be told.
//!
//! reads   text messages; the connection's queue of notifications
//! writes  answers and notifications, in the order in which they arose
//! memory  one message of at most [`Limits::request_bytes`](crate::Limits), one answer, the queue
//! drops   clients that take no notification or stay silent for too long: closed, counted
//! source  RFC 6455; `rpc/websocket.go` of go-ethereum 1.16

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use tokio::sync::mpsc;

use crate::counters::count;
use crate::jsonrpc;
use crate::methods::{Api, Caller};
use crate::server::Connection;

/// How often a send that does not come to an end looks whether it shall.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What a connection is to be told.
type Queue = mpsc::Receiver<Utf8Bytes>;

/// Turns a request for an upgrade into a connection that is served until it ends.
pub async fn upgrade(
    api: Arc<Api>,
    connection: Arc<Connection>,
    address: IpAddr,
    request: Request<Body>,
) -> Response<Body> {
    let (mut parts, _) = request.into_parts();
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade,
        Err(rejection) => return rejection.into_response(),
    };
    let bytes_max = api.config.limits.request_bytes;
    let upgrade = upgrade.max_message_size(bytes_max).max_frame_size(bytes_max);
    upgrade.on_upgrade(move |socket| async move {
        let (number, queue) = api.hub.join();
        let session = Session { api, address, number };
        session.serve(socket, queue, &connection).await;
    })
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

impl Session {
    async fn serve(&self, mut socket: WebSocket, mut queue: Queue, connection: &Connection) {
        let patience = self.api.config.limits.patience;
        let mut stopped = connection.stopped.clone();
        let mut heard = Instant::now();
        let mut pings = tokio::time::interval(patience);
        pings.reset();
        let close = loop {
            let message = tokio::select! {
                received = socket.recv() => {
                    heard = Instant::now();
                    match received {
                        Some(Ok(Message::Text(text))) => self.reply(text.as_bytes()).await,
                        Some(Ok(Message::Binary(bytes))) => self.reply(&bytes).await,
                        // Pings are answered below; pongs have been heard.
                        Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                        Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    }
                }
                text = queue.recv() => match text {
                    Some(text) => Some(text),
                    None => break Some((close_code::POLICY, "notifications were not read in time")),
                },
                _ = pings.tick() => {
                    if heard.elapsed() > 2 * patience {
                        count(&self.api.counters.websockets_dropped);
                        break None;
                    }
                    if self.send(&mut socket, Message::Ping(Default::default()), &queue).await.is_err() {
                        return;
                    }
                    continue;
                }
                _ = stopped.changed() => break Some((close_code::AWAY, "the node stops")),
            };
            if let Some(text) = message
                && self.send(&mut socket, Message::Text(text), &queue).await.is_err()
            {
                return;
            }
        };
        if let Some((code, reason)) = close {
            let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
            // Whoever is gone needs no goodbye.
            let _ = self.send(&mut socket, Message::Close(Some(frame)), &queue).await;
        }
    }

    async fn reply(&self, text: &[u8]) -> Option<Utf8Bytes> {
        let api = &self.api;
        let caller = Caller { api, address: self.address, connection: Some(self.number) };
        jsonrpc::answer(text, &api.config.limits, &api.counters, &caller).await.map(Utf8Bytes::from)
    }

    /// Sends, unless the client takes nothing for too long or the hub has given it up.
    async fn send(&self, socket: &mut WebSocket, message: Message, queue: &Queue) -> Result<(), ()> {
        let end = Instant::now() + self.api.config.limits.patience;
        let mut sending = std::pin::pin!(socket.send(message));
        loop {
            match tokio::time::timeout(LOOK_EVERY, sending.as_mut()).await {
                Ok(sent) => return sent.map_err(|_| ()),
                // Counted by the hub.
                Err(_) if queue.is_closed() => return Err(()),
                Err(_) if Instant::now() >= end => {
                    count(&self.api.counters.websockets_dropped);
                    return Err(());
                }
                Err(_) => {}
            }
        }
    }
}
