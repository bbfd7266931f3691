//! WebSocket: a connection's requests, and the notifications that its client subscribes to.
//!
//! reads   messages; the connection's queue of notifications
//! writes  answers and notifications, in the order in which they arose
//! memory  requests in progress, at most [`Bounds::calls_at_once`], of [`Bounds::message_bytes`] and one
//!         message together; their answers; the queue
//! drops   clients that read no notifications or stay silent for too long: closed, counted
//! source  RFC 6455
//!
//! A slow request delays neither later requests nor notifications: requests run concurrently, and each answer is sent
//! when it is ready. At the limit nothing more is read, so that the client's sending stalls. A request that can be
//! answered immediately is answered before anything else is read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts;
pub use axum::extract::ws::Utf8Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::counters::{CountedEvent, count};
use crate::server::Connection;

/// How often a stalled send checks whether to give up.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The texts that wait to be sent to the client of a connection.
pub trait Queue: Send + 'static {
    /// Returns the next text; `None` once the sender has given the client up. Cancel-safe: dropping the future loses
    /// nothing.
    fn next(&mut self) -> impl Future<Output = Option<Utf8Bytes>> + Send;

    /// Whether the client has been given up.
    fn is_closed(&self) -> bool;
}

impl Queue for mpsc::Receiver<Utf8Bytes> {
    async fn next(&mut self) -> Option<Utf8Bytes> {
        self.recv().await
    }

    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }
}

/// Limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of a message.
    pub message_bytes: usize,
    /// How long a client may take for a message, and half of how long it may stay silent.
    pub patience: Duration,
    /// Maximum number of a connection's messages in progress, at least one; the next is read when one of them is
    /// answered.
    pub calls_at_once: usize,
}

/// Answers a connection's requests, until it is dropped.
pub trait Session: Send + 'static {
    /// Returns the answer to a text; `None` if none is wanted. It runs concurrently with others, and is dropped with
    /// the connection.
    fn reply(&self, text: Bytes) -> impl Future<Output = Option<String>> + Send + 'static;

    /// Whether the client has subscriptions. Without any its connection is idle while no request is under way.
    fn is_subscribed(&self) -> bool;

    /// Whether a text may bring notifications that its client understands only once it has the answer.
    fn may_subscribe(&self, text: &[u8]) -> bool;
}

/// Turns a request for an upgrade into a connection that is served until it ends; `begin` is called once it is one.
pub async fn upgrade<S: Session, Q: Queue>(
    request: Request<Body>,
    connection: Arc<Connection>,
    bounds: Bounds,
    begin: impl FnOnce() -> (S, Q) + Send + 'static,
) -> Response<Body> {
    let (mut parts, _) = request.into_parts();
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade,
        Err(rejection) => return rejection.into_response(),
    };
    let upgrade = upgrade.max_message_size(bounds.message_bytes).max_frame_size(bounds.message_bytes);
    upgrade.on_upgrade(move |socket| async move {
        let (session, queue) = begin();
        let calls = Calls { running: JoinSet::new(), bytes: 0, subscribing: 0, bounds };
        WebSocketTask { session, queue, connection, patience: bounds.patience }.serve(socket, calls).await;
    })
}

/// An answer on its way.
type Reply = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// A request that is being answered.
struct Call {
    bytes: usize,
    subscribes: bool,
    answer: Option<String>,
}

/// The calls under way on a connection.
struct Calls {
    running: JoinSet<Call>,
    /// Total bytes of the requests' texts.
    bytes: usize,
    /// How many may subscribe.
    subscribing: usize,
    bounds: Bounds,
}

impl Calls {
    /// Whether another one may begin.
    fn have_room(&self) -> bool {
        let (count, bytes) = (self.running.len(), self.bytes);
        count < self.bounds.calls_at_once.max(1) && (count == 0 || bytes < self.bounds.message_bytes)
    }

    /// Starts to answer a text; returns the answer if it is ready at once.
    fn begin<'a, S: Session>(
        &'a mut self,
        session: &S,
        text: Bytes,
    ) -> impl Future<Output = Option<String>> + Send + use<'a, S> {
        let (bytes, subscribes) = (text.len(), session.may_subscribe(&text));
        let mut reply: Reply = Box::pin(session.reply(text));
        async move {
            match at_once(&mut reply).await {
                Poll::Ready(answer) => answer,
                Poll::Pending => {
                    self.bytes += bytes;
                    self.subscribing += usize::from(subscribes);
                    self.running.spawn(async move { Call { bytes, subscribes, answer: reply.await } });
                    None
                }
            }
        }
    }

    /// Returns the next finished answer; pending while there are no calls. Cancel-safe. An error means that it
    /// panicked.
    async fn next(&mut self) -> Result<Option<String>, ()> {
        let Some(ended) = self.running.join_next().await else { return std::future::pending().await };
        let Call { bytes, subscribes, answer } = ended.map_err(|_| ())?;
        self.bytes -= bytes;
        self.subscribing -= usize::from(subscribes);
        Ok(answer)
    }
}

/// Polls the reply once.
async fn at_once(reply: &mut Reply) -> Poll<Option<String>> {
    std::future::poll_fn(|context| Poll::Ready(reply.as_mut().poll(context))).await
}

/// Completes the handshake after the client's close frame, within `patience`: the next read sends the reply. Without a
/// reply the client sees an abnormal end (1006), and clients such as web3.js then connect again and never exit.
async fn answer_close(socket: &mut WebSocket, patience: Duration) {
    let _ = tokio::time::timeout(patience, socket.recv()).await;
}

/// A WebSocket connection and its state.
struct WebSocketTask<S, Q> {
    session: S,
    queue: Q,
    connection: Arc<Connection>,
    patience: Duration,
}

impl<S: Session, Q: Queue> WebSocketTask<S, Q> {
    async fn serve(&mut self, mut socket: WebSocket, mut calls: Calls) {
        let mut stopped = self.connection.stopped.clone();
        let mut heard = Instant::now();
        let mut pings = tokio::time::interval(self.patience);
        pings.reset();
        let mut kept = None;
        let close = loop {
            match !calls.running.is_empty() || self.session.is_subscribed() {
                true if kept.is_none() => kept = Some(self.connection.place.keep()),
                true => {}
                false => kept = None,
            }
            let message = tokio::select! {
                received = socket.recv(), if calls.have_room() => {
                    heard = Instant::now();
                    match received {
                        Some(Ok(Message::Text(text))) => {
                            kept.get_or_insert_with(|| self.connection.place.keep());
                            calls.begin(&self.session, text.into()).await
                        }
                        Some(Ok(Message::Binary(bytes))) => {
                            kept.get_or_insert_with(|| self.connection.place.keep());
                            calls.begin(&self.session, bytes).await
                        }
                        // Pings are answered below; pongs have been heard.
                        Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                        Some(Ok(Message::Close(_))) => return answer_close(&mut socket, self.patience).await,
                        Some(Err(_)) | None => return,
                    }
                    .map(Utf8Bytes::from)
                }
                answered = calls.next() => match answered {
                    Ok(answer) => answer.map(Utf8Bytes::from),
                    // The call panicked, which has been reported already.
                    Err(()) => return,
                },
                text = self.queue.next(), if calls.subscribing == 0 => match text {
                    Some(text) => Some(text),
                    None => break Some((close_code::POLICY, "notifications were not read in time")),
                },
                _ = pings.tick() => {
                    // At the limit nothing is read, so the silence does not count.
                    if !calls.have_room() {
                        heard = Instant::now();
                    }
                    if heard.elapsed() > 2 * self.patience {
                        self.count_dropped();
                        break None;
                    }
                    if self.send(&mut socket, Message::Ping(Default::default())).await.is_err() {
                        return;
                    }
                    continue;
                }
                () = self.connection.place.given_up() => {
                    break Some((close_code::AGAIN, "too many connections are open, and this one was idle"));
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
            self.close(&mut socket, code, reason).await;
        }
    }

    /// Sends a close frame with a reason. The client may be gone already, so an error does not matter.
    async fn close(&mut self, socket: &mut WebSocket, code: u16, reason: &'static str) {
        let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
        let _ = self.send(socket, Message::Close(Some(frame))).await;
    }

    fn count_dropped(&self) {
        count(self.connection.counters.word(CountedEvent::WebsocketsDropped));
    }

    /// Sends, unless the client takes nothing for too long or has been given up.
    async fn send(&mut self, socket: &mut WebSocket, message: Message) -> Result<(), ()> {
        let end = Instant::now() + self.patience;
        let mut sending = std::pin::pin!(socket.send(message));
        loop {
            match tokio::time::timeout(LOOK_EVERY.min(self.patience), sending.as_mut()).await {
                Ok(sent) => return sent.map_err(|_| ()),
                // The queue's owner has counted the client as lost.
                Err(_) if self.queue.is_closed() => return Err(()),
                Err(_) if Instant::now() >= end => {
                    self.count_dropped();
                    return Err(());
                }
                Err(_) => {}
            }
        }
    }
}
