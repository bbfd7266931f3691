//! session: begins to record the node's session, if the configuration asks for that.
//!
//! reads   the configuration, the ledger folder, an opened chain
//! writes  the folder of the session

use std::net::Ipv4Addr;
use std::path::{self, Path, PathBuf};

use hearth_tile::Clock;
use hearth_wire::Pubkey;

use super::consensus::Consensus;
use super::{BootError, Chain, Desks, Peers, block_limits};
use crate::capture::folder::{Beginning, make_empty};
use crate::capture::format::SessionHeader;
use crate::capture::recorder::Limits;
use crate::capture::{Capture, CaptureError, Recording};
use crate::config::Config;
use crate::peers;
use crate::restore;

/// Files of a node that has voted or rooted a block.
const VOTED: [&str; 2] = ["tower.bin", "root.bin"];

/// The folder of the session, if it is recorded.
fn folder(config: &Config) -> Option<PathBuf> {
    let given = &config.development.capture.folder;
    (!given.as_os_str().is_empty()).then(|| config.expand(given))
}

/// Checks before anything starts that a session can be recorded, if the configuration asks for that, and makes its
/// folder. `resets`: the ledger folder is emptied. A node that has blocks and neither a vote nor a root is found once
/// its chain is open, by [`begin`].
///
/// # Errors
/// The node is alone, or has voted or rooted a block in `ledger`; the session's folder has files, cannot be made, or is
/// to have files of the node's own.
pub fn check(config: &Config, ledger: &Path, resets: bool) -> Result<(), CaptureError> {
    let Some(folder) = folder(config) else { return Ok(()) };
    if !config.gossip.enabled {
        return Err(CaptureError::Alone);
    }
    if !resets && has_voted(ledger) {
        return Err(CaptureError::NotNew(ledger.to_owned()));
    }
    let snapshots = restore::folder(config, ledger);
    if is_within(ledger, &folder) || is_within(&snapshots, &folder) {
        return Err(CaptureError::Shared(folder));
    }
    make_empty(&folder)
}

/// Whether a path is that of a folder, or of something in it.
fn is_within(path: &Path, folder: &Path) -> bool {
    let whole = |path: &Path| path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole(path).starts_with(whole(folder))
}

/// Begins the recording, which `peers` then holds. Returns what the tiles need of it. `clock` is the tiles'. When the
/// identity changes, `desks` ends the session.
///
/// # Errors
/// The node is alone, or not new; the session's folder is not empty; a file cannot be written.
pub(super) fn begin(
    config: &Config,
    chain: &Chain,
    peers: Option<&mut Peers>,
    consensus: Option<&Consensus>,
    desks: &Desks,
    clock: &Clock,
) -> Result<Option<Recording>, BootError> {
    let Some(folder) = folder(config) else { return Ok(None) };
    let options = &config.development.capture;
    let peers = peers.ok_or(CaptureError::Alone)?;
    let ledger = &chain.folder;
    if !is_new(chain) {
        return Err(CaptureError::NotNew(ledger.clone()).into());
    }
    let given = config.expand(&config.consensus.identity_path);
    let identity = if given.as_os_str().is_empty() { ledger.join("identity.json") } else { given };
    let snapshots = restore::folder(config, ledger);
    Beginning { ledger, snapshots: &snapshots, identity: &identity }.copy_to(&folder)?;
    let vote_account = consensus.and_then(|consensus| consensus.vote_account);
    let header = header(config, chain, peers.ip, vote_account, clock)?;
    let limits = Limits { slots: Some(options.slots).filter(|slots| *slots > 0), bytes: options.limit_size };
    let capture = Capture::start(&folder, header, chain.ledger.clone(), limits, clock.clone())?;
    let recording = capture.recording().clone();
    if let Some((identity, tap)) = desks.identity.as_ref().zip(recording.tap.clone()) {
        identity.close_before_change(tap);
    }
    peers.capture = Some(capture);
    Ok(Some(recording))
}

/// Whether a node has nothing but what it began with: a genesis, and a snapshot that it was given.
fn is_new(chain: &Chain) -> bool {
    let stored = chain.recovery.last_whole_slot.unwrap_or(0);
    chain.replayed.blocks == 0 && stored <= chain.replayed.last_slot && !has_voted(&chain.folder)
}

fn has_voted(ledger: &Path) -> bool {
    VOTED.iter().any(|name| ledger.join(name).exists())
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn unfit_folders_are_refused_before_a_start() {
        let home = tempfile::tempdir().unwrap();
        let ledger = home.path().join("ledger");
        let session = home.path().join("session");
        let mut config = Config::default();
        check(&config, &ledger, false).unwrap();
        config.development.capture.folder.clone_from(&session);
        assert!(matches!(check(&config, &ledger, false), Err(CaptureError::Alone)));
        assert!(!session.exists());
        config.gossip.enabled = true;
        check(&config, &ledger, false).unwrap();
        assert!(session.is_dir());
        fs::write(session.join("file"), "").unwrap();
        assert!(matches!(check(&config, &ledger, false), Err(CaptureError::NotEmpty(_))));
        fs::remove_file(session.join("file")).unwrap();
        fs::create_dir(&ledger).unwrap();
        fs::write(ledger.join("tower.bin"), "").unwrap();
        assert!(matches!(check(&config, &ledger, false), Err(CaptureError::NotNew(_))));
        check(&config, &ledger, true).unwrap();
        for shared in [home.path(), ledger.as_path()] {
            config.development.capture.folder = shared.to_owned();
            assert!(matches!(check(&config, &ledger, true), Err(CaptureError::Shared(_))), "{}", shared.display());
        }
        config.development.capture.folder = ledger.join("tower.bin/below");
        assert!(matches!(check(&config, &ledger, true), Err(CaptureError::Io { .. })));
    }
}
