//! HTTP: reads a request's body, holds an answer's text, and builds plain text answers.
//!
//! reads   bodies that hyper delivers in pieces
//! writes  error responses
//! memory  one body of at most [`BodyBounds::bytes_max`] per connection, from its first byte until it is answered, and
//!         one answer, until its client has taken it: [`FREE_BYTES`] of each, and a [`BodyRoom`] for the rest of all
//! drops   bodies that are too long (413), too slow (408), incomplete (400), or for which there is no room (503), and
//!         answers for which there is none (503); the caller counts them

use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, Response, StatusCode, header};

/// Bytes of each body that take no room in a [`BodyRoom`]: those of an ordinary request or answer.
pub const FREE_BYTES: usize = 64 << 10;
/// Bytes of a server's room for long requests.
const REQUESTS_BYTES: usize = 256 << 20;
/// Bytes of a server's room for long answers.
const ANSWERS_BYTES: usize = 512 << 20;

/// Memory that all requests' bodies, or all answers, share, each with what it has beyond [`FREE_BYTES`]. Clients that
/// never end long requests, or never read long answers, may fill it; it then refuses other long ones, and no ordinary
/// one.
#[derive(Debug)]
pub struct BodyRoom {
    left: AtomicUsize,
}

impl BodyRoom {
    fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(bytes) })
    }

    /// The room of a server's requests: 256 MiB.
    pub fn of_requests() -> Arc<Self> {
        Self::new(REQUESTS_BYTES)
    }

    /// The room of a server's answers: 512 MiB.
    pub fn of_answers() -> Arc<Self> {
        Self::new(ANSWERS_BYTES)
    }
}

/// The room that one body has taken; given back when it is dropped.
struct RoomShare {
    room: Arc<BodyRoom>,
    taken: usize,
}

impl RoomShare {
    fn new(room: &Arc<BodyRoom>) -> Self {
        Self { room: Arc::clone(room), taken: 0 }
    }

    /// Takes what a body of `bytes` needs. Returns whether there was room.
    fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(FREE_BYTES).saturating_sub(self.taken);
        let is_there =
            more == 0 || self.room.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(more)).is_ok();
        if is_there {
            self.taken += more;
        }
        is_there
    }
}

impl Drop for RoomShare {
    fn drop(&mut self) {
        self.room.left.fetch_add(self.taken, Relaxed);
    }
}

/// A request's body. It has its share of the room until it is dropped.
pub struct WholeBody {
    bytes: Vec<u8>,
    _share: RoomShare,
}

impl Deref for WholeBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A long answer. It has its share of the room until the kernel has all of it, or its connection has ended.
struct HeldText {
    text: String,
    _share: RoomShare,
}

impl AsRef<[u8]> for HeldText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// Returns an answer's body; `None` if there is no room for it: then [`no_room_for_answer`] is the response.
pub fn held(text: String, room: &Arc<BodyRoom>) -> Option<Body> {
    if text.len() <= FREE_BYTES {
        return Some(Body::from(text));
    }
    let mut share = RoomShare::new(room);
    share.grow_to(text.len()).then(|| Body::from(Bytes::from_owner(HeldText { text, _share: share })))
}

/// The response in place of an answer for which there is no room.
pub fn no_room_for_answer() -> Response<Body> {
    no_room("too many long answers were not read yet: try again, or ask for less\n")
}

fn no_room(why: &'static str) -> Response<Body> {
    let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, why);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Why a body is not read to its end.
enum Unfit {
    /// It has at least this many bytes, which are too many.
    TooLong(u64),
    /// Other long bodies have filled the room.
    NoRoom,
}

/// Limits of a body.
#[derive(Clone, Copy, Debug)]
pub struct BodyBounds {
    /// Maximum length in bytes.
    pub bytes_max: usize,
    /// Bytes of it that are read though it is too long, so that a client that has sent it all sees the refusal.
    pub discarded_max: usize,
    /// How long it may take.
    pub patience: Duration,
}

/// Returns the whole body, or the error response for a client whose body is not acceptable; `too_long` is the text for
/// a body of at least this many bytes.
pub async fn whole(
    body: Body,
    bounds: BodyBounds,
    room: &Arc<BodyRoom>,
    too_long: impl FnOnce(u64) -> String,
) -> Result<WholeBody, Response<Body>> {
    let refuse = |status, why: String| Err(plain(status, why));
    match tokio::time::timeout(bounds.patience, read(body, bounds, room)).await {
        Ok(Ok(Ok(body))) => Ok(body),
        Ok(Ok(Err(Unfit::TooLong(seen)))) => refuse(StatusCode::PAYLOAD_TOO_LARGE, too_long(seen)),
        Ok(Ok(Err(Unfit::NoRoom))) => Err(no_room(NO_ROOM)),
        Ok(Err(error)) => refuse(StatusCode::BAD_REQUEST, format!("cannot read the body: {error}\n")),
        Err(_) => {
            let why = format!("the body took longer than {} s\n", bounds.patience.as_secs_f32());
            refuse(StatusCode::REQUEST_TIMEOUT, why)
        }
    }
}

const NO_ROOM: &str = "too many long requests are under way: try again, or send shorter ones\n";

/// The whole body, or why it is not read.
async fn read(
    mut body: Body,
    bounds: BodyBounds,
    room: &Arc<BodyRoom>,
) -> Result<Result<WholeBody, Unfit>, axum::Error> {
    let BodyBounds { bytes_max, discarded_max, .. } = bounds;
    let announced = body.size_hint().lower();
    if announced > discarded_max as u64 {
        return Ok(Err(Unfit::TooLong(announced)));
    }
    let mut share = RoomShare::new(room);
    let mut bytes = Vec::with_capacity((announced as usize).min(bytes_max));
    let mut seen = 0;
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame?.into_data() else { continue };
        seen += data.len();
        if seen <= bytes_max {
            if !share.grow_to(seen) {
                return Ok(Err(Unfit::NoRoom));
            }
            bytes.extend_from_slice(&data);
        } else if seen > bytes_max.max(discarded_max) {
            break;
        }
    }
    Ok(if seen <= bytes_max { Ok(WholeBody { bytes, _share: share }) } else { Err(Unfit::TooLong(seen as u64)) })
}

/// An answer in words.
pub fn plain(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    let mut response = Response::new(Body::from(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a body of this length; the status of its refusal otherwise.
    fn read_body(len: usize, room: &Arc<BodyRoom>) -> Result<WholeBody, StatusCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bounds = BodyBounds { bytes_max: 1 << 20, discarded_max: 1 << 20, patience: Duration::from_secs(60) };
        let body = whole(Body::from(vec![b' '; len]), bounds, room, |_| String::new());
        runtime.block_on(body).map_err(|refusal| refusal.status())
    }

    fn status(len: usize, room: &Arc<BodyRoom>) -> Result<usize, StatusCode> {
        read_body(len, room).map(|body| body.len())
    }

    #[test]
    fn long_bodies_share_a_room() {
        let room = BodyRoom::new(100_000);
        let other = read_body(FREE_BYTES + 60_000, &room).unwrap();
        assert_eq!(room.left.load(Relaxed), 40_000, "it is held until it is answered");
        assert_eq!(status(FREE_BYTES, &room), Ok(FREE_BYTES));
        assert_eq!(status(FREE_BYTES + 40_001, &room), Err(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(status(FREE_BYTES + 40_000, &room), Ok(FREE_BYTES + 40_000));
        drop(other);
        assert_eq!(status(FREE_BYTES + 100_000, &room), Ok(FREE_BYTES + 100_000));
        assert_eq!(status((1 << 20) + 1, &room), Err(StatusCode::PAYLOAD_TOO_LARGE));
        assert_eq!(room.left.load(Relaxed), 100_000);
    }

    #[test]
    fn unread_answers_share_a_room() {
        let room = BodyRoom::new(100_000);
        let text = |len| "a".repeat(len);
        let mut unread = held(text(FREE_BYTES + 60_000), &room).expect("there is room");
        assert!(held(text(FREE_BYTES + 40_001), &room).is_none());
        assert!(held(text(FREE_BYTES), &room).is_some(), "an ordinary one needs none");
        assert_eq!(room.left.load(Relaxed), 40_000);
        // The connection takes its bytes out of the body.
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(Some(Ok(frame))) = Pin::new(&mut unread).poll_frame(&mut context) else {
            panic!("it is there");
        };
        drop(unread);
        assert_eq!(room.left.load(Relaxed), 40_000);
        assert_eq!(frame.into_data().map(|data| data.len()).ok(), Some(FREE_BYTES + 60_000));
        assert_eq!(room.left.load(Relaxed), 100_000);
        assert_eq!(no_room_for_answer().status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
