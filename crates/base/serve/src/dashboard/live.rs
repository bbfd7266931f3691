//! Streams the node's activity, second by second, to all subscribers.
//!
//! reads   the node, through the caller's [`LookAt`], while there are subscribers
//! writes  the same event to every stream
//! memory  [`QUEUED`] events per stream at most, shared between the streams; [`STREAMS`] streams
//! drops   streams over the limit, and those whose client does not read: counted

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use hyper::body::Frame;
use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::counters::{CountedEvent, Counts, OpenGuard, count};

/// Maximum number of streams: each is a browser tab.
const STREAMS: usize = 16;
/// Events that wait for a client; one that leaves more unread is dropped.
const QUEUED: usize = 8;
/// How often each stream gets an event.
const EVERY: Duration = Duration::from_secs(1);

/// Returns the activity since the previous call, as one line of JSON; `None` if the node cannot be observed.
pub type Second = Box<dyn FnMut() -> Option<String> + Send>;
/// Begins to look at the node.
pub type LookAt = Box<dyn Fn() -> Option<Second> + Send + Sync>;

/// The open streams, and the source of their events.
pub(super) struct Live {
    look_at: LookAt,
    pub(super) counters: Arc<dyn Counts>,
    /// `None` once the server has stopped.
    streams: Mutex<Option<Vec<mpsc::Sender<Bytes>>>>,
    joined: Notify,
}

impl Live {
    pub(super) fn new(look_at: LookAt, counters: Arc<dyn Counts>) -> Self {
        Self { look_at, counters, streams: Mutex::new(Some(vec![])), joined: Notify::new() }
    }

    /// Opens a stream; `None` if there are too many.
    pub(super) fn join(&self) -> Option<Events> {
        let mut streams = self.streams.lock();
        let streams = streams.as_mut()?;
        streams.retain(|stream| !stream.is_closed());
        if streams.len() >= STREAMS {
            count(self.counters.word(CountedEvent::DashboardsRefused));
            return None;
        }
        let (stream, queue) = mpsc::channel(QUEUED);
        // Tells the browser at once that it is connected, and how soon to reconnect.
        stream.try_send(Bytes::from_static(b"retry: 1000\n\n")).expect("an empty queue");
        streams.push(stream);
        count(self.counters.word(CountedEvent::Dashboards));
        self.joined.notify_one();
        Some(Events { queue, _open: OpenGuard::new(Arc::clone(&self.counters), CountedEvent::DashboardsOpen) })
    }

    /// Observes the node while there are subscribers, until the server stops.
    pub(super) async fn watch(&self, mut stopped: watch::Receiver<bool>) {
        let watching = async {
            loop {
                self.joined.notified().await;
                // Streams that joined during the last round have already received events.
                if self.is_heard() {
                    self.send_to_all().await;
                }
            }
        };
        tokio::select! {
            () = watching => {}
            _ = stopped.changed() => {}
        }
        // Their clients see the end of the stream.
        self.streams.lock().take();
    }

    /// Sends an event per second to all streams, until none is left.
    async fn send_to_all(&self) {
        let Some(mut next) = (self.look_at)() else { return self.tell(None) };
        let mut seconds = interval_at(Instant::now() + EVERY, EVERY);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.is_heard() {
            seconds.tick().await;
            self.tell(next());
        }
    }

    fn is_heard(&self) -> bool {
        self.streams.lock().as_ref().is_some_and(|streams| !streams.is_empty())
    }

    /// Queues an event for each stream; without one the streams end, and their clients come back.
    fn tell(&self, second: Option<String>) {
        let mut streams = self.streams.lock();
        let Some(streams) = streams.as_mut() else { return };
        let Some(second) = second else { return streams.clear() };
        let event = Bytes::from(format!("data: {second}\n\n"));
        streams.retain(|stream| match stream.try_send(event.clone()) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(_)) => {
                count(self.counters.word(CountedEvent::DashboardsDropped));
                false
            }
        });
    }
}

/// The body of a stream's answer.
pub(super) struct Events {
    queue: mpsc::Receiver<Bytes>,
    _open: OpenGuard,
}

impl HttpBody for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.queue.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
