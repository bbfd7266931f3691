//! archives: the cluster's snapshot archives in a node's snapshot folder, which it serves if it is configured to.
//!
//! reads   the names in the folder, and in the one below it with the archives that the node wrote: at the start and
//!         with each of these for gossip, and at each request for one of the newest
//! writes  nothing: `hearth ledger snapshot create` and the snapshot thread make archives
//! memory  a name per file
//! drops   requests for archives that are not there
//! source  `RpcRequestMiddleware` of `rpc_service.rs` of `solana-rpc` 4.2 for the paths

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_ledger::archive::ArchiveName;
use hearth_pipeline::gossip::{AnnouncedArchives, ServedArchives};
use hearth_rpc::Download;

use crate::config::Config;
use crate::restore;

/// The first slot that no chain reaches, and that gossip does not take.
const SLOT_END: u64 = 1 << 40;

/// The path that leads to the newest full archive.
const FULL: &str = "/snapshot.tar.bz2";
/// The path that leads to the newest archive that builds on it.
const INCREMENTAL: &str = "/incremental-snapshot.tar.bz2";

/// The archives in the folders.
#[derive(Clone, Debug)]
pub struct Archives {
    folders: [PathBuf; 2],
}

/// The archives with the highest slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestArchives {
    /// The full archive with the highest slot.
    pub full: ArchiveName,
    /// The newest of those that build on it.
    pub incremental: Option<ArchiveName>,
}

impl Archives {
    /// The archives of the chain in `folder`; `None` if this node must not serve them.
    pub fn served(config: &Config, folder: &Path) -> Option<Self> {
        let folders = [restore::folder(config, folder), restore::archive_folder(config, folder)];
        config.snapshots.serve_archives.then_some(Self { folders })
    }

    /// The newest archives; `None` if there is no full one. A folder that cannot be read has none.
    pub fn newest(&self) -> Option<NewestArchives> {
        let entries = self.folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        let names = entries.flatten().filter_map(|entry| ArchiveName::of_path(&entry.path()).ok());
        let names: Vec<ArchiveName> = names.filter(|name| name.slot < SLOT_END).collect();
        let newest = |base: Option<u64>| {
            let of_base = names.iter().filter(|name| name.base == base);
            of_base.max_by_key(|name| (name.slot, name.hash)).copied()
        };
        let full = newest(None)?;
        Some(NewestArchives { full, incremental: newest(Some(full.slot)) })
    }

    /// The archive to which a path of the RPC port leads; `None` if it leads to none.
    pub fn download(&self, path: &str) -> Option<Download> {
        let elsewhere = |name: ArchiveName| Download::Elsewhere(format!("/{name}"));
        match path {
            FULL => self.newest().map(|newest| elsewhere(newest.full)),
            INCREMENTAL => self.newest()?.incremental.map(elsewhere),
            _ => {
                // A name has no folders, so that a path does not lead out of this one.
                let name = ArchiveName::parse(path.strip_prefix('/')?).ok()?;
                let mut files = self.folders.iter().map(|folder| folder.join(name.to_string()));
                // A link is none, since it may lead elsewhere.
                files.find(|file| file.symlink_metadata().is_ok_and(|there| there.is_file())).map(Download::File)
            }
        }
    }

    /// The newest archives, as gossip announces them.
    pub fn announced(&self) -> Option<ServedArchives> {
        let newest = self.newest()?;
        let of = |name: ArchiveName| (name.slot, name.hash);
        Some(ServedArchives { full: of(newest.full), incremental: newest.incremental.map(of) })
    }
}

/// The announcement of the archives that are served, and the function to call when they have changed.
pub fn announce(archives: Option<Archives>) -> (Arc<AnnouncedArchives>, impl Fn() + Send + 'static) {
    let announced = Arc::new(AnnouncedArchives::default());
    let to = Arc::clone(&announced);
    let update = move || to.set(archives.as_ref().and_then(Archives::announced));
    update();
    (announced, update)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(base: Option<u64>, slot: u64) -> ArchiveName {
        ArchiveName { base, slot, hash: [slot as u8; 32] }
    }

    #[test]
    fn the_newest_and_the_named_are_served() {
        let folder = tempfile::tempdir().unwrap();
        let [own, written] = [folder.path().join("snapshots"), folder.path().join("snapshots/archives")];
        let archives = Archives { folders: [own.clone(), written.clone()] };
        assert_eq!((archives.newest(), archives.download(FULL)), (None, None), "there is no folder");
        std::fs::create_dir_all(&written).unwrap();
        let put = |name: &str| std::fs::write(own.join(name), name).unwrap();
        put("000000000200.snapshot");
        put("tmp-snapshot-archive-300.tar.zst");
        // One without its base is of no use.
        put(&name(Some(90), 120).to_string());
        assert_eq!((archives.newest(), archives.announced(), archives.download(FULL)), (None, None, None));
        for (base, slot) in [(None, 80), (None, 100), (Some(80), 130), (Some(100), 110), (Some(100), 125)] {
            put(&name(base, slot).to_string());
        }
        let (full, incremental) = (name(None, 100), name(Some(100), 125));
        assert_eq!(archives.newest(), Some(NewestArchives { full, incremental: Some(incremental) }));
        let announced = ServedArchives { full: (100, [100; 32]), incremental: Some((125, [125; 32])) };
        assert_eq!(archives.announced(), Some(announced));
        assert_eq!(archives.download(FULL), Some(Download::Elsewhere(format!("/{full}"))));
        assert_eq!(archives.download(INCREMENTAL), Some(Download::Elsewhere(format!("/{incremental}"))));
        for name in [name(None, 80), full, incremental] {
            let file = own.join(name.to_string());
            assert_eq!(archives.download(&format!("/{name}")), Some(Download::File(file)));
        }
        // The node has written a newer one on it meanwhile.
        let newer = name(Some(100), 140);
        let file = written.join(newer.to_string());
        std::fs::write(&file, "newer").unwrap();
        assert_eq!(archives.newest(), Some(NewestArchives { full, incremental: Some(newer) }));
        let (announced, update) = announce(Some(archives.clone()));
        assert_eq!(announced.get().unwrap().incremental, Some((140, newer.hash)));
        std::fs::remove_file(&file).unwrap();
        update();
        assert_eq!(announced.get().unwrap().incremental, Some((125, incremental.hash)));
        std::fs::write(&file, "newer").unwrap();
        assert_eq!(archives.download(&format!("/{newer}")), Some(Download::File(file)));
        std::fs::write(folder.path().join(full.to_string()), "outside").unwrap();
        for path in [
            format!("/{}", name(None, 81)),
            format!("/../{full}"),
            format!("//{full}"),
            format!("/./{full}"),
            full.to_string(),
            "/000000000200.snapshot".to_owned(),
            "/tmp-snapshot-archive-300.tar.zst".to_owned(),
            "/".to_owned(),
        ] {
            assert_eq!(archives.download(&path), None, "{path}");
        }
        let link = name(None, 70);
        std::os::unix::fs::symlink(folder.path().join(full.to_string()), own.join(link.to_string())).unwrap();
        assert_eq!(archives.download(&format!("/{link}")), None);
    }

    #[test]
    fn archives_are_served_if_asked_to() {
        let mut config = Config::default();
        assert!(Archives::served(&config, Path::new("chain")).is_none());
        config.snapshots.serve_archives = true;
        let folders = Archives::served(&config, Path::new("chain")).unwrap().folders;
        assert_eq!(folders, ["chain/snapshots", "chain/snapshots/archives"].map(PathBuf::from));
    }
}
