//! session: begins to record the node's session, if the configuration asks for that.
//!
//! reads   the configuration, an opened chain
//! writes  the folder of the session

use std::net::Ipv4Addr;
use std::path::Path;

use hearth_tile::Clock;
use hearth_wire::Pubkey;

use super::consensus::Consensus;
use super::{BootError, Chain, Peers, block_limits};
use crate::capture::folder::Beginning;
use crate::capture::format::SessionHeader;
use crate::capture::recorder::Limits;
use crate::capture::{Capture, CaptureError, Recording};
use crate::config::Config;
use crate::peers;
use crate::restore;

/// Files of a node that has voted or rooted a block.
const VOTED: [&str; 2] = ["tower.bin", "root.bin"];

/// Begins the recording, which `peers` then holds. Returns what the tiles need of it. `clock` is the tiles'.
///
/// # Errors
/// The node is alone, or not new; the session's folder is not empty; a file cannot be written.
pub(super) fn begin(
    config: &Config,
    chain: &Chain,
    peers: Option<&mut Peers>,
    consensus: Option<&Consensus>,
    clock: &Clock,
) -> Result<Option<Recording>, BootError> {
    let options = &config.development.capture;
    if options.folder.as_os_str().is_empty() {
        return Ok(None);
    }
    let peers = peers.ok_or(CaptureError::Alone)?;
    let ledger = &chain.folder;
    if !is_new(chain) {
        return Err(CaptureError::NotNew(ledger.clone()).into());
    }
    let folder = config.expand(&options.folder);
    let given = config.expand(&config.consensus.identity_path);
    let identity = if given.as_os_str().is_empty() { ledger.join("identity.json") } else { given };
    let snapshots = restore::folder(config, ledger);
    Beginning { ledger, snapshots: &snapshots, identity: &identity }.copy_to(&folder)?;
    let vote_account = consensus.and_then(|consensus| consensus.vote_account);
    let header = header(config, chain, peers.ip, vote_account, clock)?;
    let limits = Limits { slots: Some(options.slots).filter(|slots| *slots > 0), bytes: options.limit_size };
    let capture = Capture::start(&folder, header, chain.ledger.clone(), limits, clock.clone())?;
    let recording = capture.recording().clone();
    peers.capture = Some(capture);
    Ok(Some(recording))
}

/// Whether a node has nothing but what it began with: a genesis, and a snapshot that it was given.
fn is_new(chain: &Chain) -> bool {
    let stored = chain.recovery.last_whole_slot.unwrap_or(0);
    let has_voted = |folder: &Path| VOTED.iter().any(|name| folder.join(name).exists());
    chain.replayed.blocks == 0 && stored <= chain.replayed.last_slot && !has_voted(&chain.folder)
}

fn header(
    config: &Config,
    chain: &Chain,
    ip: Ipv4Addr,
    vote_account: Option<Pubkey>,
    clock: &Clock,
) -> Result<SessionHeader, BootError> {
    let mut seed = [0; 32];
    hearth_tile::sys::random::fill(&mut seed);
    Ok(SessionHeader {
        seed,
        unix_ns: clock.unix_ns(0),
        ip,
        identity: chain.identity.public,
        vote_account,
        genesis: *chain.genesis.hash(),
        shred_version: chain.ledger.shred_version(),
        shreds_per_slot_max: block_limits(&config.development.bench).shreds as u32,
        entrypoints: peers::entrypoints(&config.gossip.entrypoints)?,
    })
}
