//! `hearth run`: the node as a lasting local chain.

use std::time::{Duration, Instant};

use crate::boot::{self, BootError};
use crate::config::Config;
use crate::developer::{self, Beginning, FlagError, Flags};
use crate::preflight;
use crate::replay::{Go, ReplayError, Replayed};
use crate::say::{Say, note};
use crate::stop::StopSignal;

/// How often the node's health is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often it is said how far a replay has come.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// Why a node ends other than by Ctrl-C.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It does not come up.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The options.
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// A tile died.
    #[error(transparent)]
    Died(#[from] hearth_tile::core::Died),
}

/// Runs until Ctrl-C. Goes on where nobody reads what it says: the node is what it is for.
pub fn run(config: &Config, flags: &Flags, stop: &StopSignal, say: &Say) -> Result<(), RunError> {
    let cores = boot::cores(config)?;
    let topology = boot::topology(config, &cores, false).map_err(BootError::Layout)?;
    preflight::check(config, &topology).map_err(BootError::from)?;
    let folder = config.expand(&config.ledger.path);
    let exists = folder.join("genesis.json").exists() && !flags.reset;
    let beginning = Beginning::of(flags, exists)?;
    if flags.reset {
        developer::reset(config, &folder)?;
    }
    let mut said = Instant::now();
    let replaying = |replayed: &Replayed| {
        if said.elapsed() > SAY_EVERY {
            said = Instant::now();
            note(format_args!("  … replayed to slot {}", replayed.last_slot));
        }
        if stop.is_set() { Go::Break(()) } else { Go::Continue(()) }
    };
    let chain = match boot::open_chain(config, &folder, &beginning, |_| {}, replaying) {
        Err(BootError::Replay(ReplayError::Stopped(_))) => {
            say.line("  stopping");
            return Ok(());
        }
        opened => opened?,
    };
    let found = match chain.recovery.segment_count {
        0 | 1 if chain.recovery.last_whole_slot.is_none() && chain.recovery.torn.is_none() => "a new chain".into(),
        _ => chain.recovery.to_string(),
    };
    say.line(format_args!("  ledger    {} ({found})", folder.display()));
    let r = &chain.replayed;
    if r.from_slot > 0 {
        say.line(format_args!("  snapshot  of slot {}", r.from_slot));
    }
    if r.blocks > 0 {
        say.line(format_args!(
            "  replayed  {} blocks, {} transactions, to slot {}, bank hash {}",
            r.blocks,
            r.transactions,
            r.last_slot,
            hearth_wire::base58::encode_32(&r.bank_hash)
        ));
    }
    say.line(crate::draw::layout(&topology));
    let running = boot::boot(config, topology, chain, None)?;
    say.line(format_args!("  rpc       http://{}", running.rpc));
    say.line("  ready; Ctrl-C stops the node");
    while !stop.is_set() && running.node.died().is_none() {
        std::thread::sleep(LOOK_EVERY);
    }
    say.line("  stopping");
    Ok(running.stop()?)
}
