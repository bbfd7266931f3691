//! HTTP: one request with a body that is JSON-RPC, a look at `/health`, or a browser that wants the dashboard.
//!
//! reads   requests that hyper has parsed
//! writes  answers; any origin may ask, as of a node of the cluster, except for what is the owner's
//! memory  one body of at most [`Limits::request_bytes`](crate::Limits) a connection
//! drops   bodies that are too long (413), too slow (408) or not JSON by their header (415); requests of an address
//!         that asks too often (429); all counted
//! source  what `jsonrpc-http-server` 18 answers, which the cluster's nodes use

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};

use crate::counters::count;
use crate::dashboard;
use crate::jsonrpc;
use crate::methods::{Api, Caller, perhaps_a_page};

/// Bytes of a body that are read though it is too long, so that a client that has sent it all sees the refusal.
const DISCARDED_MAX: usize = 1024 * 1024;

/// Answers one request.
pub async fn handle(api: Arc<Api>, address: IpAddr, request: Request<Body>) -> Result<Response<Body>, Infallible> {
    if let Some(response) = dashboard::answer(&api, address, &request) {
        return Ok(response);
    }
    let mut response = match (request.method(), request.uri().path()) {
        (&Method::POST, _) => {
            let perhaps_a_page = perhaps_a_page(request.headers());
            post(Caller { api: &api, address, perhaps_a_page }, request).await
        }
        (&Method::GET, "/health") => plain(StatusCode::OK, if api.health().is_ok() { "ok" } else { "behind" }),
        (&Method::OPTIONS, _) => Response::new(Body::empty()),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "JSON-RPC is asked by POST; GET knows /health and /dashboard\n"),
    };
    let anyone: [(HeaderName, &str); 4] = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, OPTIONS"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "*"),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ];
    let headers = response.headers_mut();
    headers.extend(anyone.map(|(name, value)| (name, HeaderValue::from_static(value))));
    Ok(response)
}

async fn post(mut caller: Caller<'_>, request: Request<Body>) -> Response<Body> {
    let api = caller.api;
    let refuse = |status, why: String| {
        count(api.counters.bodies_refused());
        plain(status, &why)
    };
    let content_type = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if !content_type.to_ascii_lowercase().starts_with(b"application/json") {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json\n".into());
    }
    let limits = &api.limits;
    let body = match tokio::time::timeout(limits.patience, read(request.into_body(), limits.request_bytes)).await {
        Ok(Ok(Some(body))) => body,
        Ok(Ok(None)) => {
            let why = format!("the body is longer than {} bytes\n", limits.request_bytes);
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, why);
        }
        Ok(Err(error)) => return refuse(StatusCode::BAD_REQUEST, format!("cannot read the body: {error}\n")),
        Err(_) => {
            let why = format!("the body took longer than {} s\n", limits.patience.as_secs_f32());
            return refuse(StatusCode::REQUEST_TIMEOUT, why);
        }
    };
    let answer = jsonrpc::answer_text(&body, limits.answer_bytes, &api.counters, &mut caller).await;
    let mut response = Response::new(Body::from(answer.text.unwrap_or_default()));
    if answer.limited {
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    response
}

/// The whole body; `None` when it is longer than `bytes_max`.
async fn read(mut body: Body, bytes_max: usize) -> Result<Option<Vec<u8>>, axum::Error> {
    let mut bytes = Vec::new();
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
    Ok((seen <= bytes_max).then_some(bytes))
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
