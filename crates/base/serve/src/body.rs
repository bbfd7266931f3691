//! HTTP: reads a request's body, and builds plain text answers.
//!
//! reads   bodies that hyper delivers in pieces
//! writes  error responses
//! memory  one body of at most [`BodyBounds::bytes_max`] per connection; of those that arrive, [`FREE_BYTES`] each, and
//!         a [`BodyRoom`] for all together
//! drops   bodies that are too long (413), too slow (408), incomplete (400), or for which there is no room (503); the
//!         caller counts them

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, Response, StatusCode, header};

/// Bytes of each body that take no room in a [`BodyRoom`]: those of an ordinary request.
pub const FREE_BYTES: usize = 64 << 10;
/// Bytes of a server's room for long bodies.
const ROOM_BYTES: usize = 256 << 20;

/// Memory that all bodies share while they arrive, each with what it has beyond [`FREE_BYTES`]. Clients that never end
/// long requests may fill it; it then refuses other long ones, and no ordinary one.
#[derive(Debug)]
pub struct BodyRoom {
    left: AtomicUsize,
}

impl BodyRoom {
    /// A room of this many bytes.
    pub const fn new(bytes: usize) -> Self {
        Self { left: AtomicUsize::new(bytes) }
    }
}

impl Default for BodyRoom {
    /// 256 MiB.
    fn default() -> Self {
        Self::new(ROOM_BYTES)
    }
}

/// What one body has taken of the room; given back when it is dropped.
struct RoomShare<'a> {
    room: &'a BodyRoom,
    taken: usize,
}

impl RoomShare<'_> {
    /// Takes what a body of `bytes` needs. Returns whether there was room.
    fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(FREE_BYTES).saturating_sub(self.taken);
        let is_there = self.room.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(more)).is_ok();
        if is_there {
            self.taken += more;
        }
        is_there
    }
}

impl Drop for RoomShare<'_> {
    fn drop(&mut self) {
        self.room.left.fetch_add(self.taken, Relaxed);
    }
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
    room: &BodyRoom,
    too_long: impl FnOnce(u64) -> String,
) -> Result<Vec<u8>, Response<Body>> {
    let refuse = |status, why: String| Err(plain(status, why));
    match tokio::time::timeout(bounds.patience, read(body, bounds, room)).await {
        Ok(Ok(Ok(body))) => Ok(body),
        Ok(Ok(Err(Unfit::TooLong(seen)))) => refuse(StatusCode::PAYLOAD_TOO_LARGE, too_long(seen)),
        Ok(Ok(Err(Unfit::NoRoom))) => {
            let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, NO_ROOM);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            Err(response)
        }
        Ok(Err(error)) => refuse(StatusCode::BAD_REQUEST, format!("cannot read the body: {error}\n")),
        Err(_) => {
            let why = format!("the body took longer than {} s\n", bounds.patience.as_secs_f32());
            refuse(StatusCode::REQUEST_TIMEOUT, why)
        }
    }
}

const NO_ROOM: &str = "too many long requests arrive at once: try again, or send shorter ones\n";

/// The whole body, or why it is not read.
async fn read(mut body: Body, bounds: BodyBounds, room: &BodyRoom) -> Result<Result<Vec<u8>, Unfit>, axum::Error> {
    let BodyBounds { bytes_max, discarded_max, .. } = bounds;
    let announced = body.size_hint().lower();
    if announced > discarded_max as u64 {
        return Ok(Err(Unfit::TooLong(announced)));
    }
    let mut share = RoomShare { room, taken: 0 };
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
    Ok(if seen <= bytes_max { Ok(bytes) } else { Err(Unfit::TooLong(seen as u64)) })
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
    fn status(len: usize, room: &BodyRoom) -> Result<usize, StatusCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bounds = BodyBounds { bytes_max: 1 << 20, discarded_max: 1 << 20, patience: Duration::from_secs(60) };
        let body = whole(Body::from(vec![b' '; len]), bounds, room, |_| String::new());
        runtime.block_on(body).map(|body| body.len()).map_err(|refusal| refusal.status())
    }

    #[test]
    fn long_bodies_share_a_room() {
        let room = BodyRoom::new(100_000);
        let mut other = RoomShare { room: &room, taken: 0 };
        assert!(other.grow_to(FREE_BYTES) && other.grow_to(FREE_BYTES + 60_000));
        assert_eq!(other.taken, 60_000);
        assert_eq!(status(FREE_BYTES, &room), Ok(FREE_BYTES));
        assert_eq!(status(FREE_BYTES + 40_001, &room), Err(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(status(FREE_BYTES + 40_000, &room), Ok(FREE_BYTES + 40_000));
        drop(other);
        assert_eq!(status(FREE_BYTES + 100_000, &room), Ok(FREE_BYTES + 100_000));
        assert_eq!(status((1 << 20) + 1, &room), Err(StatusCode::PAYLOAD_TOO_LARGE));
        assert_eq!(room.left.into_inner(), 100_000);
    }
}
