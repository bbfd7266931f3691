//! archives: downloads the cluster's archives from a peer, Agave's or ours, or one that the operator names.
//!
//! reads   a full archive and an incremental one on it, at Agave's paths
//! writes  both into the snapshot folder, once a ledger has started from them
//! memory  the state, while the archives are verified
//! drops   archives that are not those announced, are of another chain or contradict themselves: the peer is left, and
//!         nothing of them stays
//! source  `rpc_service.rs` of `solana-rpc` 4.2 for the paths

use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, io};

use hearth_command::output::note;
use hearth_command::progress::Progress as Shown;
use hearth_command::stop::StopSignal;
use hearth_gossip::board::AnnouncedSnapshot;
use hearth_ledger::archive::{ArchiveName, Progress};
use hearth_ledger::hard_forks::union;
use hearth_ledger::{Genesis, Ledger, LedgerConfig, StatusCacheConfig};

use super::{Fetch, JoinError, SNAPSHOT_MAX, download_if_there};
use crate::restore::archive_progress;

/// The URL of a full archive: `http://HOST:PORT/snapshot-SLOT-HASH.tar.zst`. Its name says what it must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveUrl {
    /// The URL's `HOST:PORT`, without its scheme.
    host: String,
    /// The archive's name; a full archive.
    archive: ArchiveName,
}

impl FromStr for ArchiveUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let (host, file) = text.strip_prefix("http://")?.split_once('/')?;
            let (name, port) = host.rsplit_once(':')?;
            port.parse::<u16>().ok().filter(|_| !name.is_empty())?;
            let archive = ArchiveName::parse(file).ok().filter(|archive| archive.base.is_none())?;
            Some(Self { host: host.to_owned(), archive })
        };
        parsed().ok_or_else(|| format!("`{text}` is not a http://HOST:PORT/snapshot-SLOT-HASH.tar.zst"))
    }
}

impl fmt::Display for ArchiveUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}/{}", self.host, self.archive)
    }
}

impl ArchiveUrl {
    /// Parses the configured URL; `None` if it is empty.
    pub fn configured(text: &str) -> Result<Option<Self>, JoinError> {
        (!text.is_empty()).then(|| text.parse()).transpose().map_err(JoinError::SnapshotUrl)
    }

    /// The slot of its state.
    pub fn slot(&self) -> u64 {
        self.archive.slot
    }

    /// The host's first IPv4 address.
    fn address(&self) -> io::Result<SocketAddrV4> {
        let found = self.host.to_socket_addrs()?.find_map(|address| match address {
            SocketAddr::V4(v4) => Some(v4),
            SocketAddr::V6(_) => None,
        });
        found.ok_or_else(|| io::Error::other("the host has no IPv4 address"))
    }
}

/// Downloads an archive that the operator names, and keeps it if a ledger starts from it.
pub(super) fn take_named(
    url: &ArchiveUrl,
    snapshots: &Path,
    genesis: &Genesis,
    hard_forks: &[u64],
    stop: &StopSignal,
) -> Result<(), JoinError> {
    let refused = |why: String| JoinError::NamedSnapshot { url: url.to_string(), why };
    let rpc = url.address().map_err(|why| refused(why.to_string()))?;
    note(format_args!("  … taking the snapshot of slot {} from {rpc}", url.slot()));
    let ArchiveName { slot, hash, .. } = url.archive;
    let served = AnnouncedSnapshot { identity: [0; 32], rpc: Some(rpc), slot, hash, incremental: None };
    match fetch_archives((rpc, &served), snapshots, genesis, hard_forks, stop) {
        Ok(true) => Ok(()),
        Ok(false) => Err(refused("there is no such file".into())),
        Err(Fetch::Peer(why)) => Err(refused(why)),
        Err(Fetch::Write(path, source)) => Err(JoinError::Write { path, source }),
        Err(Fetch::Stopped) => Err(JoinError::Stopped),
    }
}

/// Downloads the archives that a node announces, and keeps them if a ledger starts from them. Their names have the
/// announced hashes, which everything in them is verified against. Returns false if the node has no such archive.
pub(super) fn fetch_archives(
    (rpc, served): (SocketAddrV4, &AnnouncedSnapshot),
    snapshots: &Path,
    genesis: &Genesis,
    hard_forks: &[u64],
    stop: &StopSignal,
) -> Result<bool, Fetch> {
    let name = |base, slot, hash| ArchiveName { base, slot, hash }.to_string();
    let full = name(None, served.slot, served.hash);
    let incremental = served.incremental.map(|(slot, hash)| name(Some(served.slot), slot, hash));
    let files: Vec<String> = std::iter::once(full).chain(incremental).collect();
    // An earlier start kept them, or the operator copied them there.
    if files.iter().all(|file| snapshots.join(file).exists()) {
        return Ok(true);
    }
    // Download into a subfolder: a rename must stay within the file system.
    let joining = snapshots.join("joining");
    let write = |source| Fetch::Write(joining.display().to_string(), source);
    std::fs::create_dir_all(&joining).map_err(write)?;
    let taken = || -> Result<bool, Fetch> {
        for (at, file) in files.iter().enumerate() {
            let path = format!("/{file}");
            if !download_if_there(rpc.into(), &path, &joining.join(file), SNAPSHOT_MAX, stop)? {
                return if at == 0 { Ok(false) } else { Err(Fetch::Peer(format!("{path}: it is gone"))) };
            }
        }
        let parts: Vec<PathBuf> = files.iter().map(|file| joining.join(file)).collect();
        verify(&parts[0], parts.get(1).map(PathBuf::as_path), genesis, hard_forks)?;
        // Move the full one first: an incremental one is useless without it.
        for (part, file) in parts.iter().zip(&files) {
            std::fs::rename(part, snapshots.join(file)).map_err(write)?;
        }
        Ok(true)
    };
    let taken = taken();
    let removed = std::fs::remove_dir_all(&joining).map_err(write);
    removed.and(taken)
}

/// Starts a ledger from the archives, and drops it. Its hard forks must be those of the cluster, which its shred
/// version has proved: no hash covers the archives' own, and a node keeps them.
fn verify(full: &Path, incremental: Option<&Path>, genesis: &Genesis, hard_forks: &[u64]) -> Result<(), Fetch> {
    let config = LedgerConfig {
        status_cache: StatusCacheConfig { enabled: false, capacity_txns: 0 },
        hard_forks: hard_forks.to_vec(),
        ..LedgerConfig::default()
    };
    let mut shown = Shown::new();
    let mut progress = |archive: &ArchiveName, progress: Progress| {
        shown.tell(|| archive_progress(archive, progress));
    };
    match Ledger::from_archive(genesis, (full, incremental), config, &mut progress) {
        Ok(started) => same_forks(&started.ledger.hard_fork_slots(), hard_forks),
        Err(why) => Err(Fetch::Peer(why.to_string())),
    }
}

/// Fails if a ledger has other hard forks, ascending, than the cluster.
fn same_forks(found: &[u64], clusters: &[u64]) -> Result<(), Fetch> {
    let clusters = union(clusters, &[]);
    match found == clusters {
        true => Ok(()),
        false => Err(Fetch::Peer(format!("its hard forks are {found:?}, the cluster's {clusters:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::super::tests::serve;
    use super::*;

    const FULL: &str = "snapshot-40-8W97YEEgPpCGxhjujZN7C3YcVzmc12CZXMZtJYk6CMPa.tar.zst";
    const INCREMENTAL: &str = "incremental-snapshot-40-60-7Dxa7UimF1MRoadTUZtADBDqECLMpEphCxY12JfyC6De.tar.zst";

    fn recorded(name: &str) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ledger/tests/snapshots");
        std::fs::read(folder.join(name)).unwrap()
    }

    fn genesis() -> Genesis {
        Genesis::from_bytes(&zstd::decode_all(&recorded("transfers.genesis.bin.zst")[..]).unwrap()).unwrap()
    }

    /// Fetches archives from a peer that has these files and announces both. Returns the result, and those that are
    /// kept.
    fn fetched(files: &[(&str, Vec<u8>)], requests: usize, hard_forks: &[u64]) -> (Result<bool, String>, Vec<String>) {
        let (listener, folder) = (TcpListener::bind("127.0.0.1:0").unwrap(), tempfile::tempdir().unwrap());
        let rpc = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
        let [full, newer] = [FULL, INCREMENTAL].map(|name| ArchiveName::parse(name).unwrap());
        let incremental = Some((newer.slot, newer.hash));
        let served =
            AnnouncedSnapshot { identity: [1; 32], rpc: Some(rpc), slot: full.slot, hash: full.hash, incremental };
        let snapshots = folder.path().join("snapshots");
        let fetched = std::thread::scope(|scope| {
            scope.spawn(|| serve(&listener, files, requests));
            fetch_archives((rpc, &served), &snapshots, &genesis(), hard_forks, &StopSignal::default())
        });
        assert!(!snapshots.join("joining").exists(), "what was downloaded is moved or removed");
        let kept = std::fs::read_dir(&snapshots).into_iter().flatten();
        let mut kept: Vec<String> = kept.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        kept.sort();
        match fetched {
            Ok(has) => (Ok(has), kept),
            Err(Fetch::Peer(why)) => (Err(why), kept),
            Err(Fetch::Write(path, why)) => panic!("{path}: {why}"),
            Err(Fetch::Stopped) => panic!("nobody stops it"),
        }
    }

    #[test]
    fn archives_are_kept_once_a_ledger_starts_from_them() {
        let paths = [FULL, INCREMENTAL].map(|name| format!("/{name}"));
        let [full, newer] = [FULL, INCREMENTAL].map(recorded);
        let both = [(paths[0].as_str(), full.clone()), (paths[1].as_str(), newer.clone())];
        assert_eq!(fetched(&both, 2, &[]), (Ok(true), vec![INCREMENTAL.to_owned(), FULL.to_owned()]));
        assert_eq!(fetched(&[], 1, &[]), (Ok(false), vec![]), "a node without archives has a snapshot of our own");
        let refused = |files: &[(&str, Vec<u8>)], hard_forks: &[u64], what: &str| {
            let (fetched, kept) = fetched(files, 2, hard_forks);
            let why = fetched.expect_err("it is refused");
            assert!(why.contains(what) && kept.is_empty(), "{why}, {kept:?}");
        };
        refused(&both[..1], &[], "it is gone");
        refused(&both, &[5], "hard forks");
        refused(&[(paths[0].as_str(), full[..9_000].to_vec()), (paths[1].as_str(), newer.clone())], &[], "cut off");
        // Another state under the announced name.
        refused(&[(paths[0].as_str(), newer.clone()), (paths[1].as_str(), newer)], &[], "tar.zst: ");
    }

    #[test]
    fn archives_with_other_hard_forks_are_refused() {
        assert!(same_forks(&[], &[]).is_ok() && same_forks(&[4, 4, 90], &[90, 4, 4]).is_ok());
        for found in [&[][..], &[4, 90], &[4, 4, 90, 95]] {
            let Err(Fetch::Peer(why)) = same_forks(found, &[90, 4, 4]) else { panic!("{found:?} is taken") };
            assert!(why.ends_with("the cluster's [4, 4, 90]"), "{why}");
        }
    }

    #[test]
    fn url_names_a_full_archive() {
        let text = format!("http://203.0.113.7:8899/{FULL}");
        let url: ArchiveUrl = text.parse().unwrap();
        assert_eq!(url.to_string(), text);
        assert_eq!(url.slot(), 40);
        for wrong in [
            String::new(),
            format!("https://203.0.113.7:8899/{FULL}"),
            format!("http://203.0.113.7/{FULL}"),
            format!("http://:8899/{FULL}"),
            format!("http://203.0.113.7:8899/sub/{FULL}"),
            format!("http://203.0.113.7:8899/{INCREMENTAL}"),
            "http://203.0.113.7:8899/snapshot.tar.bz2".into(),
        ] {
            let why = wrong.parse::<ArchiveUrl>().unwrap_err();
            assert!(why.contains("is not a http://HOST:PORT/snapshot-SLOT-HASH.tar.zst"), "{why}");
        }
    }

    #[test]
    fn named_archive_is_taken_or_is_an_error() {
        let taken = |files: &[(&str, Vec<u8>)]| {
            let (listener, folder) = (TcpListener::bind("127.0.0.1:0").unwrap(), tempfile::tempdir().unwrap());
            let url: ArchiveUrl = format!("http://{}/{FULL}", listener.local_addr().unwrap()).parse().unwrap();
            let snapshots = folder.path().join("snapshots");
            let taken = std::thread::scope(|scope| {
                scope.spawn(|| serve(&listener, files, 1));
                take_named(&url, &snapshots, &genesis(), &[], &StopSignal::default())
            });
            assert_eq!(snapshots.join(FULL).exists(), taken.is_ok());
            taken.map_err(|why| why.to_string())
        };
        let path = format!("/{FULL}");
        assert_eq!(taken(&[(path.as_str(), recorded(FULL))]), Ok(()));
        let missing = taken(&[]).unwrap_err();
        assert!(missing.contains("there is no such file") && missing.contains(FULL), "{missing}");
        let other = taken(&[(path.as_str(), recorded(INCREMENTAL))]).unwrap_err();
        assert!(other.contains("tar.zst: "), "{other}");
    }
}
