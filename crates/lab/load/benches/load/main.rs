//! How much load one core generates: a whole run on one core, against a sink that accepts everything on another.
//!
//!     cargo bench -p hearth-load --bench load              # all of it
//!     cargo bench -p hearth-load --bench load -- http      # Ethereum's JSON-RPC, in batches
//!     cargo bench -p hearth-load --bench load -- quic      # Solana's TPU
//!
//! The sink is a separate process: this program, started again with the sink's name as its first argument. It puts what
//! it receives into blocks that the run reads back, so the rates count transactions that were read in blocks. Each
//! protocol then runs open loop at half its rate, which shows how late the sends are.

mod ethereum;
mod sink;
mod solana;

use std::time::Duration;

use hearth_load::options::{GiveUp, RunOptions, SendOptions, SideMeasurements, Timing};
use hearth_load::report::Report;

/// Upper bound on the p99 send lag at half the rate, in milliseconds.
const LAG_MS_GOAL: f64 = 2.0;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    match arguments.first().map(String::as_str) {
        Some("sink-http") => ethereum::sink(),
        Some("sink-quic") => solana::sink(),
        only => {
            let wants = |name: &str| only.is_none_or(|only| only == name);
            sink::pin(0);
            if wants("http") {
                tell("HTTP, batches of 100", 20_000.0, ethereum::run);
            }
            if wants("quic") {
                tell("QUIC to a TPU", 40_000.0, solana::run);
            }
        }
    }
}

/// The options of a four-second run that measures the last three seconds.
fn asked<K>(url: &str, kind: K, senders: usize, presign: u64, rate: Option<f64>) -> RunOptions<K> {
    RunOptions {
        networks: vec![url.into()],
        timeout: Duration::from_secs(10),
        patience: Duration::from_secs(10),
        mix: kind.into(),
        senders,
        pace: SendOptions { rate, batch: 100, under_way: 1_000_000, count: None, presign },
        timing: Timing {
            warmup: Duration::from_secs(1),
            duration: Duration::from_secs(3),
            pids: vec![],
            beside: SideMeasurements::default(),
            give_up: GiveUp::default(),
        },
    }
}

/// Runs at full speed, then at half the rate that this reached.
fn tell(name: &str, goal: f64, run: fn(Option<f64>) -> Report) {
    let most = run(None);
    let cost = most.client_cpu_us.expect("some were included");
    println!(
        "{name}: {:.0} txn/s in blocks, {cost:.1} µs of the load's core each, limit: {:?} (goal: {goal} txn/s)",
        most.tps, most.limit
    );
    assert_eq!(most.included, most.sent, "all came back\n{}", most.text());
    let half = run(Some(most.tps / 2.0));
    let lag = half.send_lag.expect("a rate has a lag");
    println!(
        "{name}, half of it: {:.0} txn/s, send lag p50 {:.3} ms, p99 {:.3}, max {:.3} (goal: p99 below {LAG_MS_GOAL} ms)",
        half.tps, lag.p50_ms, lag.p99_ms, lag.max_ms
    );
}
