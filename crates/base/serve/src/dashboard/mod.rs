//! The dashboard: a page about the node, and a stream of its activity.
//!
//! reads   GET requests of a browser; the caller's samples, through [`LookAt`]
//! writes  the page's files, which are in the binary; server-sent events
//! memory  the files; per stream as much as [`live`] allows
//! drops   streams over the limit (503), those whose client does not read, requests under a foreign host name (403):
//!         counted; requests with a query (400), since there are no parameters
//!
//! The page asks JSON-RPC of the same address for blocks, transactions and accounts, like any client.

mod assets;
mod live;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use tokio::sync::watch;

use crate::body;
use crate::counters::{CountedEvent, Counts, count};
use assets::Asset;
pub use assets::{Ledger, STYLE};
use live::Live;
pub use live::{LookAt, Second};

/// A node's dashboard, or why it has none: the switch that is off, or the missing part.
pub type View = Result<LookAt, &'static str>;

/// Content security policy: the page may run its own scripts and query this address, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves a node's dashboard page and its event streams.
pub struct Dashboard {
    live: Live,
    files: Vec<Asset>,
}

/// Whether a request is for the dashboard, whether there is one or not.
pub fn is_asked(request: &Request<Body>) -> bool {
    let path = request.uri().path();
    let is_look = matches!(*request.method(), Method::GET | Method::HEAD);
    is_look && (path == "/" && wants_html(request) || path == "/dashboard" || path.starts_with("/dashboard/"))
}

/// Returns the response of a node without a dashboard, if the request is for its files; `why` is the reason.
pub fn refusal(request: &Request<Body>, why: &str) -> Option<Response<Body>> {
    let says = || plain(StatusCode::NOT_FOUND, format!("the dashboard is off: {why}\n"));
    (is_asked(request) && request.uri().path() != "/").then(says)
}

impl Dashboard {
    /// A page about the node that `look_at` sees.
    pub fn new(ledger: Ledger, look_at: LookAt, counters: Arc<dyn Counts>) -> Self {
        Self { live: Live::new(look_at, counters), files: assets::all(ledger) }
    }

    /// Observes the node while there are subscribers, until the server stops.
    pub async fn watch(&self, stopped: watch::Receiver<bool>) {
        self.live.watch(stopped).await;
    }

    /// Answers a request for the dashboard; `None` for other requests. `is_foreign`: the request came under a foreign
    /// host name.
    pub fn answer(&self, request: &Request<Body>, is_foreign: bool) -> Option<Response<Body>> {
        if !is_asked(request) {
            return None;
        }
        let path = request.uri().path();
        Some(match path {
            _ if is_foreign => {
                count(self.live.counters.word(CountedEvent::DashboardsRefused));
                let why = "the dashboard is not at this name: ask by localhost or an address\n";
                plain(StatusCode::FORBIDDEN, why.into())
            }
            _ if let Some(parameter) = parameter(request) => {
                let why = format!("`{parameter}` is not a parameter of the dashboard: {path} takes none\n");
                plain(StatusCode::BAD_REQUEST, why)
            }
            // The page itself is the first file.
            "/" => file(&self.files[0], request),
            "/dashboard/live" if request.method() == Method::GET => self.stream(),
            _ => match self.files.iter().find(|asset| asset.path == path) {
                Some(asset) => file(asset, request),
                None => plain(StatusCode::NOT_FOUND, "the dashboard has no such file\n".into()),
            },
        })
    }

    fn stream(&self) -> Response<Body> {
        let Some(events) = self.live.join() else {
            let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, "too many dashboards are open\n".into());
            set(&mut response, header::RETRY_AFTER, "5");
            return response;
        };
        let mut response = Response::new(Body::new(events));
        set(&mut response, header::CONTENT_TYPE, "text/event-stream");
        set(&mut response, header::CACHE_CONTROL, "no-store");
        guarded(response)
    }
}

/// Returns the name of the first parameter of a query, truncated if it is long.
fn parameter(request: &Request<Body>) -> Option<String> {
    let first = request.uri().query()?.split('&').find(|pair| !pair.is_empty())?;
    Some(first.split('=').next().unwrap_or_default().chars().take(40).collect())
}

/// Returns whether the client is a browser and not a program that checks for a server.
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
    // Revalidated on each request, but sent again only by a node of another build.
    set(&mut response, header::CACHE_CONTROL, "no-cache");
    guarded(response)
}

fn plain(status: StatusCode, text: String) -> Response<Body> {
    guarded(body::plain(status, text))
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
