//! `hearth evm run --consensus cometbft`: the same ledger as the application of a CometBFT node.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use hearth_abci::{Address, Server};
use hearth_comet::rpc::Rpc;
use hearth_comet::{App, Spreader};
use hearth_evm::chain::Chain;

use super::EvmError;

/// After this long without a connection the node asks whether CometBFT is up, and again after as long.
const PATIENCE: Duration = Duration::from_secs(15);

/// The consensus that decides on blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Consensus {
    /// This process alone.
    #[default]
    Embedded,
    /// The CometBFT node that connects to `--abci`.
    Cometbft,
}

/// The options of CometBFT's application.
#[derive(Args)]
pub struct CometOptions {
    /// The source of block decisions: this process alone, or the CometBFT node that connects to `--abci`.
    #[arg(long, value_enum, default_value_t, value_name = "WHO")]
    pub consensus: Consensus,
    /// The address on which CometBFT connects, `unix:///PATH` or `tcp://HOST:PORT`: its `proxy_app` [default:
    /// tcp://127.0.0.1:26658].
    #[arg(long, value_name = "ADDRESS")]
    pub abci: Option<Address>,
    /// CometBFT's RPC, through which this node's transactions reach the others [default: http://127.0.0.1:26657].
    #[arg(long, value_name = "URL")]
    pub comet_rpc: Option<String>,
    /// Keep at least this many of the last blocks, and let CometBFT prune others that no snapshot needs; 0: keep all.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = retained)]
    pub retain_blocks: u64,
    /// Under CometBFT, make a snapshot of both ledgers every N blocks, for joining nodes; 0: never [default: 1000, in
    /// --data-dir].
    #[arg(long, value_name = "N")]
    pub snapshot_interval: Option<u64>,
    /// Keep this many snapshots [default: 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub snapshots_kept: Option<u16>,
}

/// Default number of blocks between snapshots.
const SNAPSHOT_INTERVAL: u64 = 1000;
/// Default number of snapshots that are kept.
const SNAPSHOTS_KEPT: u16 = 2;

/// Minimum number of blocks kept when pruning: the range of BLOCKHASH.
const RETAINED_MIN: u64 = 256;

fn retained(text: &str) -> Result<u64, String> {
    let blocks = text.parse::<u64>().ok().filter(|blocks| *blocks == 0 || *blocks >= RETAINED_MIN);
    blocks.ok_or_else(|| format!("it must be 0, or at least {RETAINED_MIN}"))
}

impl CometOptions {
    /// Whether CometBFT decides blocks.
    pub fn is_cometbft(&self) -> bool {
        self.consensus == Consensus::Cometbft
    }

    /// Rejects options that only have an effect under CometBFT, if CometBFT is not in use.
    pub fn check(&self) -> Result<(), EvmError> {
        let given = [
            ("--abci", self.abci.is_some()),
            ("--comet-rpc", self.comet_rpc.is_some()),
            ("--snapshot-interval", self.snapshot_interval.is_some()),
            ("--snapshots-kept", self.snapshots_kept.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given && !self.is_cometbft()) {
            Some((option, _)) => Err(EvmError::Idle(option, "without --consensus cometbft")),
            None => Ok(()),
        }
    }

    /// Returns the address that CometBFT connects to.
    pub fn abci(&self) -> Address {
        self.abci.clone().unwrap_or_else(|| "tcp://127.0.0.1:26658".parse().expect("an address"))
    }

    /// URL of CometBFT's RPC.
    fn comet_rpc(&self) -> &str {
        self.comet_rpc.as_deref().unwrap_or("http://127.0.0.1:26657")
    }
}

/// The ABCI server for CometBFT; stops when dropped.
pub struct Engine {
    // The server ends first: nothing new comes then.
    server: Server,
    _spreader: Spreader,
    rpc: Rpc,
    solitude: DisconnectTimer,
}

impl Engine {
    /// Returns a warning for the operator, once, if CometBFT is up but does not connect.
    pub fn complaint(&mut self) -> Option<String> {
        let (connections, rpc) = (self.server.connections(), &self.rpc);
        self.solitude.is_forsaken(Instant::now(), connections, || rpc.status().is_ok()).then(|| {
            format!(
                "CometBFT answers at {} and does not connect to {}: one that has lost its application has to be \
                 started again, and killed first where it does not end by itself",
                rpc.url(),
                self.server.address()
            )
        })
    }
}

/// Tracks how long CometBFT has been disconnected. CometBFT is meant to exit when it loses its application, but it can
/// hang on its way out: it answers its RPC and never connects again. Before its first handshake it answers nothing.
#[derive(Default)]
struct DisconnectTimer {
    since: Option<Instant>,
    is_answered: bool,
}

impl DisconnectTimer {
    /// Whether CometBFT answers but has not connected for a while. Reported once per disconnection.
    fn is_forsaken(&mut self, now: Instant, connections: usize, answers: impl FnOnce() -> bool) -> bool {
        if connections > 0 {
            *self = Self::default();
            return false;
        }
        if self.is_answered || now.duration_since(*self.since.get_or_insert(now)) < PATIENCE {
            return false;
        }
        self.since = Some(now);
        self.is_answered = answers();
        self.is_answered
    }
}

/// Serves CometBFT; snapshots are in the folder `dir` where there is one.
pub fn start(chain: &Chain, options: &CometOptions, dir: Option<&Path>) -> Result<Engine, EvmError> {
    // CometBFT would stop at the first block.
    chain.check_is_merged()?;
    let config = hearth_comet::app::Config { retain_blocks: options.retain_blocks };
    let mut app = App::new(chain.clone(), config);
    if let Some(path) = dir.map(|dir| dir.join("snapshots")) {
        let interval = options.snapshot_interval.unwrap_or(SNAPSHOT_INTERVAL);
        let kept = options.snapshots_kept.unwrap_or(SNAPSHOTS_KEPT);
        let begun = app.with_snapshots(&path, interval, kept.into());
        app = begun.map_err(|source| EvmError::Snapshots { path, source })?;
    }
    let app = Arc::new(app);
    let failed = |source| EvmError::Abci { address: options.abci().to_string(), source };
    let spread = app.spread().clone();
    let server = Server::start(&options.abci(), app, Default::default()).map_err(failed)?;
    let rpc = Rpc::at(options.comet_rpc())?;
    let spreader = Spreader::start(chain.clone(), rpc.clone(), spread).map_err(failed)?;
    Ok(Engine { server, _spreader: spreader, rpc, solitude: DisconnectTimer::default() })
}

/// The genesis in a file: geth's form, or CometBFT's, which holds it in `app_state`.
pub fn genesis_text(text: String) -> String {
    let file = serde_json::from_str::<serde_json::Value>(&text);
    match file.as_ref().ok().and_then(|file| file.get("app_state")) {
        Some(ours) => ours.to_string(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_blocks_are_kept_as_contracts_ask_for() {
        assert_eq!(["0", "256", "100000"].map(retained), [Ok(0), Ok(256), Ok(100_000)]);
        assert!(["255", "-1", "all"].iter().all(|text| retained(text).is_err()));
    }

    #[test]
    fn a_genesis_is_found_in_cometbfts() {
        assert_eq!(genesis_text(r#"{"app_state": {"a": 1}}"#.into()), r#"{"a":1}"#);
        assert_eq!(genesis_text(r#"{"alloc": {}}"#.into()), r#"{"alloc": {}}"#);
        assert_eq!(genesis_text("{".into()), "{");
    }
}
