//! HTTP requests: JSON-RPC by POST, `/health`, downloads of joining nodes, and the dashboard.
//!
//! reads   requests that hyper has parsed
//! writes  responses. Any origin may read them, as on a cluster node, except those meant for the node's owner
//! memory  per connection one body of at most [`Limits::request_bytes`](crate::Limits), and one answer; of long ones as
//!         many as fit into a [room](hearth_serve::body::BodyRoom)
//! drops   bodies that are too long (413), too slow (408) or not JSON by their content type (415); requests over an
//!         address's rate (429); long requests and answers without room (503); all counted
//! source  the behaviour of `jsonrpc-http-server` 18, which the cluster's nodes use

use std::net::IpAddr;

use hearth_serve::Body;
use hearth_serve::body::{BodyBounds, held, no_room_for_answer, plain, whole};
use hearth_serve::dashboard;
use hearth_serve::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use hearth_serve::jsonrpc;
use hearth_serve::origin::{is_foreign, may_be_web_page};

use crate::config::Download;
use crate::counters::count;
use crate::jsonrpc::{TOO_MANY_REQUESTS, answer_bounds};
use crate::methods::{Api, Caller};

/// How much of an oversized body is still read, so that a client that has sent it all sees the refusal.
const DISCARDED_MAX: usize = 1024 * 1024;

/// Body of a 405: the supported methods and paths.
const KNOWN: &str = "JSON-RPC is asked by POST; GET knows /health, /dashboard, and of the chain /genesis.tar.bz2, /chain.json and /snapshot\n";

/// Answers one HTTP request: JSON-RPC by POST; health, downloads and the dashboard by GET.
pub async fn handle(api: &Api, address: IpAddr, request: Request<Body>) -> Response<Body> {
    let page = match &api.dashboard {
        Ok(dashboard) => dashboard.answer(&request, is_foreign(address, request.headers())),
        Err(why) => dashboard::refusal(&request, why),
    };
    if let Some(response) = page {
        return response;
    }
    let mut response = match (request.method(), request.uri().path()) {
        (&Method::POST, _) => {
            let may_be_web_page = may_be_web_page(request.headers());
            post(Caller { api, address, may_be_web_page }, request).await
        }
        (&Method::GET, "/health") => plain(StatusCode::OK, if api.health().is_ok() { "ok" } else { "behind" }),
        (&Method::OPTIONS, _) => Response::new(Body::empty()),
        (&Method::HEAD, path) => match (api.offer)(path) {
            Some(Download::File(path)) => api.downloads.head(&path),
            Some(Download::Elsewhere(path)) => see_other(&path),
            None => plain(StatusCode::METHOD_NOT_ALLOWED, KNOWN),
        },
        (&Method::GET, path) => match (api.offer)(path) {
            Some(Download::File(path)) => api.downloads.file(&path).await,
            Some(Download::Elsewhere(path)) => see_other(&path),
            None => plain(StatusCode::METHOD_NOT_ALLOWED, KNOWN),
        },
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, KNOWN),
    };
    let anyone: [(HeaderName, &str); 4] = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, OPTIONS"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "*"),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ];
    let headers = response.headers_mut();
    headers.extend(anyone.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

fn see_other(path: &str) -> Response<Body> {
    let mut response = plain(StatusCode::SEE_OTHER, "");
    // A local path comes from a file name, so it may not be a valid header value.
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}

async fn post(caller: Caller<'_>, request: Request<Body>) -> Response<Body> {
    let api = caller.api;
    let content_type = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let refuse = |response| {
        count(api.counters.bodies_refused());
        response
    };
    if !content_type.to_ascii_lowercase().starts_with(b"application/json") {
        return refuse(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json\n"));
    }
    let limits = &api.limits;
    let (bytes_max, patience) = (limits.request_bytes, limits.patience);
    let bounds = BodyBounds { bytes_max, discarded_max: DISCARDED_MAX, patience };
    let too_long = |_| format!("the body is longer than {bytes_max} bytes\n");
    let body = match whole(request.into_body(), bounds, &api.bodies, too_long).await {
        Ok(body) => body,
        Err(response) => return refuse(response),
    };
    let reply = jsonrpc::answer(&body, answer_bounds(limits), &*api.counters, &caller).await;
    let Some(text) = held(reply.text.unwrap_or_default(), &api.answers) else {
        count(api.counters.errors());
        return no_room_for_answer();
    };
    let mut response = Response::new(text);
    if reply.refused == Some(TOO_MANY_REQUESTS) {
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    response
}
