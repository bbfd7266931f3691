//! HTTP: reads a request's body, and builds plain text answers.
//!
//! reads   bodies that hyper delivers in pieces
//! writes  error responses
//! memory  one body of at most [`BodyBounds::bytes_max`] per connection
//! drops   bodies that are too long (413), too slow (408) or incomplete (400); the caller counts them

use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, Response, StatusCode, header};

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
    too_long: impl FnOnce(u64) -> String,
) -> Result<Vec<u8>, Response<Body>> {
    let refuse = |status, why: String| Err(plain(status, why));
    match tokio::time::timeout(bounds.patience, read(body, bounds)).await {
        Ok(Ok(Ok(body))) => Ok(body),
        Ok(Ok(Err(seen))) => refuse(StatusCode::PAYLOAD_TOO_LARGE, too_long(seen)),
        Ok(Err(error)) => refuse(StatusCode::BAD_REQUEST, format!("cannot read the body: {error}\n")),
        Err(_) => {
            let why = format!("the body took longer than {} s\n", bounds.patience.as_secs_f32());
            refuse(StatusCode::REQUEST_TIMEOUT, why)
        }
    }
}

/// The whole body; how many bytes it has at least, when they are too many.
async fn read(mut body: Body, bounds: BodyBounds) -> Result<Result<Vec<u8>, u64>, axum::Error> {
    let BodyBounds { bytes_max, discarded_max, .. } = bounds;
    let announced = body.size_hint().lower();
    if announced > discarded_max as u64 {
        return Ok(Err(announced));
    }
    let mut bytes = Vec::with_capacity((announced as usize).min(bytes_max));
    let mut seen = 0;
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame?.into_data() else { continue };
        seen += data.len();
        if seen <= bytes_max {
            bytes.extend_from_slice(&data);
        } else if seen > bytes_max.max(discarded_max) {
            break;
        }
    }
    Ok(if seen <= bytes_max { Ok(bytes) } else { Err(seen as u64) })
}

/// An answer in words.
pub fn plain(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    let mut response = Response::new(Body::from(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
