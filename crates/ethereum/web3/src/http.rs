//! HTTP: JSON-RPC requests, WebSocket upgrades, metrics, blobs of the beacon API, and the dashboard's page.
//!
//! reads   requests that hyper has parsed
//! writes  answers
//! memory  one body of at most [`Limits::request_bytes`](crate::Limits) a connection, and one answer; of long ones as
//!         many as fit into a [room](hearth_serve::body::BodyRoom)
//! drops   requests of foreign pages and names (403), bodies that are too long (413), too slow (408) or not JSON by
//!         their header (415); long requests and answers without room (503); counted
//! source  `rpc/http.go` and `node/rpcstack.go` of go-ethereum 1.16; for blobs the beacon API of ethereum.org

use std::net::IpAddr;
use std::sync::Arc;

use hearth_serve::Body;
use hearth_serve::Connection;
use hearth_serve::body::{BodyBounds, held, no_room_for_answer, plain, whole};
use hearth_serve::dashboard;
use hearth_serve::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use hearth_serve::jsonrpc;

use crate::cors;
use crate::counters::count;
use crate::methods::{Api, Caller};
use crate::websocket;

/// How much of a too long body is still read, so that a client that has sent it all sees the refusal.
const DISCARDED_MAX: usize = 16 * 1024 * 1024;

/// The path of the beacon API at which a consensus client serves a block's blobs.
const BLOBS: &str = "/eth/v1/beacon/blobs/";

/// Answers an HTTP request: JSON-RPC, a WebSocket's upgrade, metrics, blobs, or a page of the dashboard.
pub async fn handle(api: &Arc<Api>, connection: &Arc<Connection>, request: Request<Body>) -> Response<Body> {
    if let Err(why) = cors::admits(request.headers(), &api.config.hosts, &api.config.origins) {
        count(&api.counters.pages_refused);
        return plain(StatusCode::FORBIDDEN, why);
    }
    if !is_upgrade(request.headers())
        && let Some(page) = page(api, &request)
    {
        return page;
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let mut response = match *request.method() {
        Method::POST => post(api, connection.peer, request).await,
        Method::GET if is_upgrade(request.headers()) => return websocket::upgrade(api, connection, request).await,
        Method::GET if request.uri().path() == "/metrics" => {
            metrics(&crate::metrics::text(&api.chain.metrics(), &api.counters))
        }
        Method::GET if let Some(id) = request.uri().path().strip_prefix(BLOBS) => {
            let id = id.to_owned();
            let (status, text) = api.beacon_blobs(connection.peer, &id).await;
            let mut response = json(text);
            *response.status_mut() = status;
            response
        }
        // A probe that looks whether a server is there.
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
    response
}

/// Serves the dashboard. Refused hosts never get here; pages of other origins may send a request, but cannot read the
/// answer.
fn page(api: &Api, request: &Request<Body>) -> Option<Response<Body>> {
    match &api.dashboard {
        Ok(dashboard) => dashboard.answer(request, false),
        Err(why) => dashboard::refusal(request, why),
    }
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

async fn post(api: &Arc<Api>, address: IpAddr, request: Request<Body>) -> Response<Body> {
    let refuse = |response| {
        count(&api.counters.bodies_refused);
        response
    };
    let content_type = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if !is_json(content_type) {
        let why = "invalid content type, only application/json is supported\n";
        return refuse(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let limits = &api.config.limits;
    let (bytes_max, patience) = (limits.request_bytes, limits.patience);
    let bounds = BodyBounds { bytes_max, discarded_max: DISCARDED_MAX, patience };
    let too_long = |seen| format!("content length too large ({seen}>{bytes_max})\n");
    let body = match whole(request.into_body(), bounds, &api.bodies, too_long).await {
        Ok(body) => body,
        Err(response) => return refuse(response),
    };
    let caller = Caller { api, address, connection: None };
    let reply = jsonrpc::answer(&body, limits.of_answer(), &*api.counters, &caller).await;
    let Some(text) = held(reply.text.unwrap_or_default(), &api.answers) else {
        count(&api.counters.errors);
        return no_room_for_answer();
    };
    json(text)
}

fn json(text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn is_json(content_type: &[u8]) -> bool {
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    [&b"application/json"[..], b"application/json-rpc", b"application/jsonrequest"]
        .iter()
        .any(|known| kind.eq_ignore_ascii_case(known))
}

/// Serves the metrics for Prometheus.
fn metrics(text: &str) -> Response<Body> {
    let mut response = plain(StatusCode::OK, text);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
