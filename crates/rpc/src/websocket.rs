//! WebSocket: a connection's requests to be told, and its notifications.
//!
//! reads   text messages; the connection's queue of notifications
//! writes  answers and notifications, in the order in which they arose
//! memory  one message of at most [`Limits::request_bytes`](crate::Limits), one answer
//! drops   clients that take no notification or stay silent for too long: closed, counted
//! source  RFC 6455; `rpc_pubsub_service.rs` of `solana-rpc` 4.2

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::counters::count;
use crate::jsonrpc::{self, Answerer, Failure, Request as RpcRequest};
use crate::methods::Api;
use crate::params::Params;
use crate::server::Connection;
use crate::subscriptions::{Hub, Watch, unsubscribes};

/// Turns a request for an upgrade into a connection that is served until it ends.
pub async fn handle(
    api: Arc<Api>,
    hub: Arc<Hub>,
    connection: Arc<Connection>,
    address: IpAddr,
    request: Request<Body>,
) -> Result<Response<Body>, Infallible> {
    let (mut parts, _) = request.into_parts();
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade,
        Err(rejection) => return Ok(rejection.into_response()),
    };
    let bytes_max = api.limits.request_bytes;
    let upgrade = upgrade.max_message_size(bytes_max).max_frame_size(bytes_max);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let (number, queue) = hub.join();
        let mut session = Session { api, hub, address, number };
        session.serve(socket, queue, &connection).await;
    }))
}

/// One connection.
struct Session {
    api: Arc<Api>,
    hub: Arc<Hub>,
    address: IpAddr,
    number: u64,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.hub.leave(self.number);
    }
}

impl Session {
    async fn serve(&mut self, mut socket: WebSocket, mut queue: mpsc::Receiver<Utf8Bytes>, connection: &Connection) {
        let patience = self.api.limits.patience;
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
                        count(self.api.counters.websockets_dropped());
                        break None;
                    }
                    if self.send(&mut socket, Message::Ping(Default::default())).await.is_err() {
                        return;
                    }
                    continue;
                }
                _ = stopped.changed() => break Some((close_code::AWAY, "the node stops")),
            };
            if let Some(text) = message
                && self.send(&mut socket, Message::Text(text)).await.is_err()
            {
                return;
            }
        };
        if let Some((code, reason)) = close {
            let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
            // Whoever is gone needs no goodbye.
            let _ = self.send(&mut socket, Message::Close(Some(frame))).await;
        }
    }

    async fn reply(&mut self, text: &[u8]) -> Option<Utf8Bytes> {
        let api = Arc::clone(&self.api);
        let answer = jsonrpc::answer_text(text, api.limits.answer_bytes, &api.counters, self).await;
        answer.text.map(Utf8Bytes::from)
    }

    async fn send(&self, socket: &mut WebSocket, message: Message) -> Result<(), ()> {
        match tokio::time::timeout(self.api.limits.patience, socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(()),
            Err(_) => {
                count(self.api.counters.websockets_dropped());
                Err(())
            }
        }
    }

    fn subscribe(&self, watch: Watch) -> Result<Value, Failure> {
        self.hub.subscribe(self.number, watch).map(Value::from)
    }

    fn unsubscribe(&self, name: &str, params: Params<'_>) -> Result<Value, Failure> {
        let id = params.at_most(1)?.number(0, "subscription")?;
        match self.hub.unsubscribe(self.number, name, id) {
            true => Ok(json!(true)),
            false => Err(Failure::invalid_params("Invalid subscription id.")),
        }
    }

    fn call(&self, request: RpcRequest<'_>) -> Result<Value, Failure> {
        let params = Params::of(request.params);
        if let Some(kind) = unsubscribes(request.method) {
            return self.unsubscribe(kind, params?);
        }
        if request.method.ends_with("Subscribe")
            && let Some(watch) = Watch::of(request.method, params.clone()?)?
        {
            // Without statuses nobody can tell what became of a signature.
            if matches!(watch, Watch::Signature { .. }) && !self.api.transaction_history {
                return Err(Failure::no_history());
            }
            return self.subscribe(watch);
        }
        match request.method {
            "getVersion" => self.api.get_version(params?),
            // What web3.js says every five seconds so that the connection is not thought idle.
            "ping" => params.map(|_| Value::Null),
            unknown => Err(Failure::method_not_found(unknown)),
        }
    }
}

impl Answerer for Session {
    fn admit(&mut self, requests: usize) -> Result<(), Failure> {
        self.api.admit(self.address, requests)
    }

    async fn answer(&mut self, request: RpcRequest<'_>) -> Result<Value, Failure> {
        self.call(request)
    }
}
