//! The dashboard: one page about the node, and a stream of what the node does.
//!
//! reads   GET requests of a browser; [`Live`]'s samples
//! writes  the page's files, which are in the binary; server-sent events
//! memory  the files; of each stream what [`live`] bounds
//! drops   streams over the limit (503), those whose client does not read, requests by a foreign name (403): counted;
//!         requests with a query (400), since it knows no parameter
//!
//! The page asks JSON-RPC of the same address for blocks, transactions and accounts, like any client.

mod assets;
mod live;

use axum::body::Body;
use std::net::IpAddr;

use axum::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};

use crate::counters::count;
use crate::methods::{Api, is_foreign};
use assets::Asset;
pub use assets::STYLE;
pub(crate) use live::Live;
pub use live::{LookAt, Second};

/// What a browser may do with the page: run its own scripts and ask this address, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The answer, where the request is for the dashboard. `address` is the client's.
pub(crate) fn answer(api: &Api, address: IpAddr, request: &Request<Body>) -> Option<Response<Body>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let path = request.uri().path();
    let live = match (&api.live, path) {
        (Some(live), "/") if wants_html(request) => Some(live),
        (_, "/") => return None,
        (live, _) if path == "/dashboard" || path.starts_with("/dashboard/") => live.as_ref(),
        _ => return None,
    };
    Some(match (live, path) {
        (None, _) => plain(StatusCode::NOT_FOUND, "the dashboard is off: [rpc] dashboard\n".into()),
        _ if is_foreign(address, request.headers()) => {
            count(api.counters.dashboards_refused());
            plain(StatusCode::FORBIDDEN, "the dashboard is not at this name: ask by localhost or an address\n".into())
        }
        _ if let Some(parameter) = parameter(request) => {
            let why = format!("`{parameter}` is no parameter of the dashboard: {path} takes none\n");
            plain(StatusCode::BAD_REQUEST, why)
        }
        (Some(live), "/") => file(live.page(), request),
        (Some(live), "/dashboard/live") if request.method() == Method::GET => stream(live, api),
        (Some(live), _) => match live.asset(path) {
            Some(asset) => file(asset, request),
            None => plain(StatusCode::NOT_FOUND, "the dashboard has no such file\n".into()),
        },
    })
}

/// The name of the first parameter of a query, its beginning where it is long.
fn parameter(request: &Request<Body>) -> Option<String> {
    let first = request.uri().query()?.split('&').find(|pair| !pair.is_empty())?;
    Some(first.split('=').next().unwrap_or_default().chars().take(40).collect())
}

/// Whether a browser asks, and not a client that looks whether somebody answers.
fn wants_html(request: &Request<Body>) -> bool {
    let accepts = request.headers().get_all(header::ACCEPT);
    accepts.iter().any(|accepts| accepts.as_bytes().windows(9).any(|part| part == b"text/html"))
}

fn file(asset: &Asset, request: &Request<Body>) -> Response<Body> {
    let known = request.headers().get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let is_known = known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == asset.tag));
    let mut response = Response::new(if is_known { Body::empty() } else { Body::from(asset.text) });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    set(&mut response, header::CONTENT_TYPE, asset.content_type);
    let tag = HeaderValue::from_str(&asset.tag).expect("digits");
    response.headers_mut().insert(header::ETAG, tag);
    // Asked for anew each time, sent anew only where the node is of another build.
    set(&mut response, header::CACHE_CONTROL, "no-cache");
    guarded(response)
}

fn stream(live: &Live, api: &Api) -> Response<Body> {
    let Some(events) = live.join(&api.counters) else {
        let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, "too many dashboards are open\n".into());
        set(&mut response, header::RETRY_AFTER, "5");
        return response;
    };
    let mut response = Response::new(Body::new(events));
    set(&mut response, header::CONTENT_TYPE, "text/event-stream");
    set(&mut response, header::CACHE_CONTROL, "no-store");
    guarded(response)
}

fn plain(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    set(&mut response, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    guarded(response)
}

fn guarded(mut response: Response<Body>) -> Response<Body> {
    set(&mut response, header::CONTENT_SECURITY_POLICY, POLICY);
    set(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(&mut response, header::REFERRER_POLICY, "no-referrer");
    set(&mut response, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    response
}

fn set(response: &mut Response<Body>, name: HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}
