//! HTTP: one request with a body that is JSON-RPC, the beginning of a WebSocket, or a look at the metrics.
//!
//! reads   requests that hyper has parsed
//! writes  answers
//! memory  one body of at most [`Limits::request_bytes`](crate::Limits) a connection
//! drops   requests of foreign pages and names (403), bodies that are too long (413), too slow (408) or not JSON by
//!         their header (415); counted
//! source  `rpc/http.go` and `node/rpcstack.go` of go-ethereum 1.16

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};

use crate::counters::count;
use crate::gate;
use crate::jsonrpc;
use crate::methods::{Api, Caller};
use crate::server::Connection;
use crate::websocket;

/// Bytes of a body that are read though it is too long, so that a client that has sent it all sees the refusal.
const DISCARDED_MAX: usize = 16 * 1024 * 1024;

/// Answers one request.
pub async fn handle(
    api: Arc<Api>,
    connection: Arc<Connection>,
    address: IpAddr,
    request: Request<Body>,
) -> Result<Response<Body>, Infallible> {
    if let Err(why) = gate::admits(request.headers(), &api.config.hosts, &api.config.origins) {
        count(&api.counters.pages_refused);
        return Ok(plain(StatusCode::FORBIDDEN, why));
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response = match *request.method() {
        Method::POST => post(&api, address, request).await,
        Method::GET if is_upgrade(request.headers()) => {
            return Ok(websocket::upgrade(api, connection, address, request).await);
        }
        Method::GET if request.uri().path() == "/metrics" => {
            metrics(&crate::metrics::text(&api.chain.metrics(), &api.counters))
        }
        // Whoever looks whether somebody is there.
        Method::GET | Method::HEAD => plain(StatusCode::OK, ""),
        Method::OPTIONS => Response::new(Body::empty()),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n"),
    };
    if let Some(origin) = origin {
        let page: [(HeaderName, HeaderValue); 5] = [
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin),
            (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, GET, OPTIONS")),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*")),
            (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
            (header::VARY, HeaderValue::from_static("Origin")),
        ];
        response.headers_mut().extend(page);
    }
    Ok(response)
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

async fn post(api: &Arc<Api>, address: IpAddr, request: Request<Body>) -> Response<Body> {
    let refuse = |status, why: String| {
        count(&api.counters.bodies_refused);
        plain(status, &why)
    };
    let content_type = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if !is_json(content_type) {
        let why = "invalid content type, only application/json is supported\n";
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, why.into());
    }
    let limits = &api.config.limits;
    let body = match tokio::time::timeout(limits.patience, read(request.into_body(), limits.request_bytes)).await {
        Ok(Ok(Ok(body))) => body,
        Ok(Ok(Err(seen))) => {
            let why = format!("content length too large ({seen}>{})\n", limits.request_bytes);
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, why);
        }
        Ok(Err(error)) => return refuse(StatusCode::BAD_REQUEST, format!("cannot read the body: {error}\n")),
        Err(_) => {
            let why = format!("the body took longer than {} s\n", limits.patience.as_secs_f32());
            return refuse(StatusCode::REQUEST_TIMEOUT, why);
        }
    };
    let caller = Caller { api, address, connection: None };
    let answer = jsonrpc::answer(&body, limits, &api.counters, &caller).await;
    let mut response = Response::new(Body::from(answer.unwrap_or_default()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn is_json(content_type: &[u8]) -> bool {
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    [&b"application/json"[..], b"application/json-rpc", b"application/jsonrequest"]
        .iter()
        .any(|known| kind.eq_ignore_ascii_case(known))
}

/// The whole body; how many bytes it has at least, when they are more than `bytes_max`.
async fn read(mut body: Body, bytes_max: usize) -> Result<Result<Vec<u8>, u64>, axum::Error> {
    let announced = body.size_hint().lower();
    if announced > DISCARDED_MAX as u64 {
        return Ok(Err(announced));
    }
    let mut bytes = Vec::with_capacity((announced as usize).min(bytes_max));
    let mut seen = 0;
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame?.into_data() else { continue };
        seen += data.len();
        if seen <= bytes_max {
            bytes.extend_from_slice(&data);
        } else if seen > bytes_max.max(DISCARDED_MAX) {
            break;
        }
    }
    Ok(if seen <= bytes_max { Ok(bytes) } else { Err(seen as u64) })
}

/// What Prometheus reads.
fn metrics(text: &str) -> Response<Body> {
    let mut response = plain(StatusCode::OK, text);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
