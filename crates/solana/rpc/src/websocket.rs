//! WebSocket sessions: subscribe and unsubscribe requests.
//!
//! reads   messages of at most [`Limits::request_bytes`](crate::Limits)
//! writes  responses; subscriptions of the hub, which fills the connection's queue
//! memory  one response, which is complete before it is sent
//! drops   unknown methods: error -32601
//! source  `rpc_pubsub_service.rs` of `solana-rpc` 4.2

use std::net::IpAddr;
use std::sync::Arc;

use hearth_serve::Connection;
use hearth_serve::http::{Request, Response};
use hearth_serve::jsonrpc::{self, Answerer, Call};
use hearth_serve::websocket::{self, Bounds};
use hearth_serve::{Body, Bytes};
use serde_json::{Value, json};

use crate::jsonrpc::{Failure, Request as RpcRequest, answer_bounds, params};
use crate::methods::Api;
use crate::params::Params;
use crate::subscriptions::{SubscriptionHub, Watch, unsubscribes};

/// Upgrades a request to a WebSocket connection and serves it until it ends.
pub async fn handle(
    api: &Arc<Api>,
    hub: &Arc<SubscriptionHub>,
    connection: &Arc<Connection>,
    request: Request<Body>,
) -> Response<Body> {
    let (message_bytes, patience) = (api.limits.request_bytes, api.limits.patience);
    let bounds = Bounds { message_bytes, patience, calls_at_once: 1 };
    let (api, hub, address) = (Arc::clone(api), Arc::clone(hub), connection.peer);
    let begin = move || {
        let (number, queue) = hub.join();
        (Session(Caller { api, hub, address, number }), queue)
    };
    websocket::upgrade(request, Arc::clone(connection), bounds, begin).await
}

/// One WebSocket connection. Dropping it ends the client's subscriptions.
struct Session(Caller);

/// The client of a connection, as the hub knows it.
#[derive(Clone)]
struct Caller {
    api: Arc<Api>,
    hub: Arc<SubscriptionHub>,
    address: IpAddr,
    number: u64,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.0.hub.leave(self.0.number);
    }
}

impl websocket::Session for Session {
    fn reply(&self, text: Bytes) -> impl Future<Output = Option<String>> + Send + 'static {
        let caller = self.0.clone();
        async move {
            let bounds = answer_bounds(&caller.api.limits);
            jsonrpc::answer(&text, bounds, &*caller.api.counters, &caller).await.text
        }
    }

    fn is_subscribed(&self) -> bool {
        self.0.hub.is_subscribed(self.0.number)
    }

    fn may_subscribe(&self, _: &[u8]) -> bool {
        // Any request may subscribe, so its response is sent before any notification.
        true
    }
}

impl Caller {
    fn subscribe(&self, watch: Watch) -> Result<Value, Failure> {
        self.hub.subscribe(self.number, watch).map(Value::from)
    }

    fn unsubscribe(&self, name: &str, params: Params<'_>) -> Result<Value, Failure> {
        let id = params.at_most(1)?.number(0, "subscription")?;
        match self.hub.unsubscribe(self.number, name, id) {
            true => Ok(json!(true)),
            false => Err(Failure::refused_params("Invalid subscription id.")),
        }
    }

    fn answer(&self, request: RpcRequest<'_>) -> Result<Value, Failure> {
        let params = Params::of(request.params);
        if let Some(kind) = unsubscribes(request.method) {
            return self.unsubscribe(kind, params?);
        }
        if request.method.ends_with("Subscribe")
            && let Some(watch) = Watch::of(request.method, params.clone()?)?
        {
            // Without transaction statuses a signature cannot be watched.
            if matches!(watch, Watch::Signature { .. }) && !self.api.transaction_history {
                return Err(Failure::no_history());
            }
            return self.subscribe(watch);
        }
        match request.method {
            "getVersion" => self.api.get_version(params?),
            // web3.js sends this every five seconds to keep the connection alive.
            "ping" => params.map(|_| Value::Null),
            unknown => Err(Failure::method_not_found(unknown)),
        }
    }
}

impl Answerer for Caller {
    type Failure = Failure;

    fn admit(&self, requests: usize) -> Result<(), Failure> {
        self.api.admit(self.address, requests)
    }

    async fn call(&self, call: Call<'_>) -> Result<String, Failure> {
        let params = params(&call)?;
        let result = self.answer(RpcRequest { method: &call.method, params: params.as_ref() })?;
        Ok(result.to_string())
    }
}
