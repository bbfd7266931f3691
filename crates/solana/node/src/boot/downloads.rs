//! downloads: what a node has for others that join: the genesis, snapshots, and the cluster's archives of these.
//!
//! reads   the ledger folder
//! writes  the packed genesis, at the first request

use std::path::Path;
use std::sync::Arc;

use hearth_ledger::genesis::{ARCHIVE_NAME, CHAIN_NAME, GENESIS_NAME};
use hearth_ledger::snapshot::Snapshots;
use hearth_ledger::{Genesis, Ledger};
use hearth_rpc::{Download, NewestSnapshot, Offer};
use parking_lot::Mutex;

use crate::archives::Archives;
use crate::peers::join::snapshot_slot;
use crate::restore;

/// Downloads for joining nodes: the genesis, which is packed at the first request, what is known beside it, and
/// snapshots, the cluster's archives of them among these.
pub(super) fn offer(folder: &Path, snapshots: Option<Arc<Snapshots>>, archives: Option<Archives>) -> Offer {
    let files = [ARCHIVE_NAME, CHAIN_NAME].map(|name| (format!("/{name}"), folder.join(name)));
    // Until it cannot be packed: who asks again does not make the node try again.
    let unpacked = Mutex::new(Some(folder.join(GENESIS_NAME)));
    Box::new(move |path| {
        let file = files.iter().find(|(name, _)| *name == path).map(|(_, file)| file.clone());
        if file.as_ref().is_some_and(|file| file.ends_with(ARCHIVE_NAME)) {
            let mut unpacked = unpacked.lock();
            let packed = unpacked.as_ref().map_or(Ok(()), |genesis| Genesis::write_archive(genesis));
            if let Err(why) = packed {
                tracing::warn!("the genesis cannot be offered: {why}");
                *unpacked = None;
            }
        }
        let snapshot = || snapshots.as_ref()?.file(snapshot_slot(path)?);
        let archive = || archives.as_ref()?.download(path);
        file.or_else(snapshot).map(Download::File).or_else(archive)
    })
}

/// The newest snapshot that is announced: an archive, if these are served.
pub(super) fn newest_snapshot(
    archives: Option<Archives>,
    ledger: &Ledger,
) -> Box<dyn Fn() -> Option<NewestSnapshot> + Send + Sync> {
    let own: Box<dyn Fn() -> Option<u64> + Send + Sync> = Box::new(restore::newest_slot(ledger.snapshots()));
    Box::new(move || {
        let newest = archives.as_ref().and_then(Archives::newest);
        let archive = newest.map(|newest| {
            let incremental = newest.incremental.map(|name| name.slot);
            NewestSnapshot { full: newest.full.slot, incremental }
        });
        archive.or_else(|| own().map(|full| NewestSnapshot { full, incremental: None }))
    })
}
