//! Loads and funding on misbehaving nodes, and collecting block data into a real Redis.

mod fund;
mod profile;
mod redis;
mod run;
mod solana;
mod stub;

use std::time::Duration;

use hearth_load::options::{GiveUp, RunOptions, SendOptions, SideMeasurements, Timing};
use serde_json::Value;

/// How long a node may take to answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A load of this kind with two threads, a minute long unless it ends before.
fn asked<K>(url: &str, kind: K) -> RunOptions<K> {
    RunOptions {
        networks: vec![url.into()],
        timeout: TIMEOUT,
        patience: TIMEOUT,
        mix: kind.into(),
        senders: 2,
        pace: SendOptions { rate: None, batch: 10, under_way: 100, count: None, presign: 0 },
        timing: Timing {
            warmup: Duration::ZERO,
            duration: Duration::from_secs(60),
            pids: vec![],
            beside: SideMeasurements::default(),
            give_up: GiveUp::default(),
        },
    }
}

/// Returns whether a request, or the first of a batch, calls this method.
fn is_send(request: &Value, method: &str) -> bool {
    request.get(0).unwrap_or(request)["method"] == method
}
