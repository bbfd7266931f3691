//! Joins a cluster, given only an entrypoint's address.
//!
//! reads   the entrypoint's answers; gossip; a peer's genesis and snapshot or archives, over HTTP
//! writes  `genesis.bin` in the ledger folder, `chain.json` where the peer has one, and a snapshot or archives, each
//!         atomically
//! memory  64 KiB; the genesis; the state, while a snapshot is verified against its hash
//! drops   a genesis that is damaged, is not the expected one or has another shred version than the cluster; a snapshot
//!         that is damaged, does not match its announced hash, or has too few vouchers: the next peer is asked

mod archives;
pub mod scout;
mod trust;

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearth_command::node_rpc;
use hearth_command::output::note;
use hearth_command::stop::StopSignal;
use hearth_gossip::board::AnnouncedSnapshot;
use hearth_keys::{self as keys, Identity};
use hearth_ledger::blockstore::BlockStore;
use hearth_ledger::genesis::{ARCHIVE_NAME, CHAIN_BYTES_MAX, CHAIN_NAME, GENESIS_BYTES_MAX, GENESIS_NAME, unpack};
use hearth_ledger::hard_forks::shred_version_with;
use hearth_ledger::snapshot::prove_on;
use hearth_ledger::{Genesis, GenesisError};
use hearth_pipeline::tower::{root_saved_at, saved_root};
use hearth_rpc::ClusterNode;
use hearth_rpc_client::http::{self, Patience};
use hearth_wire::base58::{decode_32, encode_32};
use hearth_wire::gossip::{ContactInfo, SocketKind, Version};
use hearth_wire::{Hash, Pubkey};
use serde_json::json;

use super::gossip::{self, CLIENT};
use super::socket::PeerLinks;
use super::{ip_echo, now_ms};
use archives::{fetch_archives, take_named};
use scout::{GossipSockets, Scout, Start};
use trust::Trust;

pub use archives::ArchiveUrl;

/// After this many failed snapshots, none is requested from that node: a node may announce any number of them.
const TRIES_MAX: usize = 10;
/// Interval of progress reports while no node answers.
const SAY_EVERY: Duration = Duration::from_secs(5);
/// Interval at which a wait asks again for its result.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time limit for a peer to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum size of a packed genesis in bytes: data that does not compress.
const ARCHIVE_MAX: u64 = GENESIS_BYTES_MAX + (64 << 20);
/// Maximum size of a snapshot in bytes.
const SNAPSHOT_MAX: u64 = 256 << 30;
/// How long to wait for an announcement of a snapshot.
const SNAPSHOTS_FOR: Duration = Duration::from_secs(3);
/// The same if a node is known to have a snapshot: gossip pulls only a part of all values at a time, so the vouchers'
/// values may take a while to arrive.
const PROMISED_FOR: Duration = Duration::from_secs(20);
/// Minimum average rate of a download in bytes per second.
const SLOWEST: u64 = 64 << 10;

/// Why a node cannot join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Gossip's socket cannot be used.
    #[error("gossip cannot listen on {address}: {source} (gossip.port)")]
    Listen {
        /// The address on which gossip should listen.
        address: SocketAddrV4,
        /// Why it cannot be bound, as the system says it.
        source: io::Error,
    },
    /// The name of an entrypoint cannot be resolved.
    #[error("gossip.entrypoints: `{entrypoint}` has no address that is known: {source}")]
    Unresolved {
        /// The entrypoint as configured: `HOST:PORT`.
        entrypoint: String,
        /// Why its name has no address, as the system says it.
        source: io::Error,
    },
    /// The ledger folder cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file or folder.
        path: String,
        /// Why it cannot be written, as the system says it.
        source: io::Error,
    },
    /// The folder has another chain.
    #[error(
        "the chain in the ledger folder has shred version {own}, the cluster at {entrypoint} has {theirs}: name the hard \
         forks of the cluster, if it had some (--hard-fork SLOT, consensus.hard_forks); for another cluster name \
         another folder (--ledger), or remove this one"
    )]
    OtherChain {
        /// The folder's shred version.
        own: u16,
        /// The cluster's shred version.
        theirs: u16,
        /// The address of the entrypoint that named that version.
        entrypoint: SocketAddrV4,
    },
    /// The entrypoint is in another cluster than the operator named.
    #[error(
        "the entrypoint {entrypoint} is in a cluster of shred version {theirs}, and {key} asks for {expected}: name an \
         entrypoint of that cluster, or correct the key; nothing was fetched"
    )]
    OtherCluster {
        /// The address of the entrypoint that was asked.
        entrypoint: SocketAddrV4,
        /// Its cluster's shred version.
        theirs: u16,
        /// The expected shred version.
        expected: u16,
        /// The configuration keys that determine it.
        key: &'static str,
    },
    /// The configured genesis hash is not a hash.
    #[error("consensus.expected_genesis_hash: `{0}` is not a hash in base58")]
    ExpectedGenesis(String),
    /// The folder has another genesis than the operator named.
    #[error(
        "the chain in the ledger folder has the genesis {}, and consensus.expected_genesis_hash is {}: name another folder (--ledger), or remove this one",
        encode_32(own),
        encode_32(expected)
    )]
    OtherGenesis {
        /// The folder's genesis hash.
        own: Hash,
        /// The value of `consensus.expected_genesis_hash`.
        expected: Hash,
    },
    /// The folder's chain has another shred version than the operator named.
    #[error(
        "the chain in the ledger folder has shred version {own}, and consensus.expected_shred_version is {expected}: \
         name another folder (--ledger), or all hard forks of the chain (--hard-fork)"
    )]
    OtherShredVersion {
        /// The folder's shred version.
        own: u16,
        /// The value of `consensus.expected_shred_version`.
        expected: u16,
    },
    /// Only known nodes may serve a snapshot, and none is named.
    #[error(
        "snapshots.only_known_rpc (--only-known-rpc) takes snapshots from known validators only, and none is named: name \
         them (snapshots.known_validators, --known-validator)"
    )]
    NoKnownValidators,
    /// The configured URL of a snapshot is invalid.
    #[error("snapshots.url: {0}")]
    SnapshotUrl(String),
    /// The snapshot that the operator named cannot be taken.
    #[error("no snapshot from {url} (snapshots.url): {why}")]
    NamedSnapshot {
        /// The value of `snapshots.url`.
        url: String,
        /// Why the archive cannot be taken, as a clause.
        why: String,
    },
    /// The downloaded genesis is invalid.
    #[error(transparent)]
    Genesis(GenesisError),
    /// A key cannot be read or created.
    #[error(transparent)]
    Key(#[from] keys::KeyError),
    /// The operator stopped the node.
    #[error("stopped")]
    Stopped,
}

/// Fetches the genesis and a snapshot from a cluster, before the node's tiles run.
pub struct Joiner<'a> {
    /// The ledger folder, into which the genesis is written.
    pub folder: &'a Path,
    /// The snapshot folder, if a snapshot may be downloaded.
    pub snapshots: Option<PathBuf>,
    /// Minimum slots by which a snapshot must be ahead of the final slot here to replace an existing state.
    pub behind_max: u64,
    /// The genesis hash that the chain must have, if the operator named one.
    pub expected_genesis: Option<Hash>,
    /// The shred version that the cluster must have, if the operator named one.
    pub expected_shred_version: Option<u16>,
    /// The archive to take in place of what nodes announce, if the operator named one.
    pub archive: Option<ArchiveUrl>,
    /// Nodes whose announcements of snapshots are trusted; if empty, the stake decides.
    pub known: Vec<Pubkey>,
    /// Whether snapshots are downloaded from these nodes only.
    pub only_known: bool,
    /// Whether to take a snapshot that too little stake announces, if no nodes are known.
    pub takes_unvouched: bool,
    /// The node's identity. No tile runs yet, so it signs its gossip messages itself.
    pub identity: Arc<Identity>,
    /// The node's own gossip address, which it advertises.
    pub gossip: SocketAddrV4,
    /// The gossip addresses of the entrypoints, with their names resolved.
    pub entrypoints: Vec<SocketAddrV4>,
    /// The emulated links of its datagrams.
    pub links: PeerLinks,
    /// Slots of the chain's hard forks.
    pub hard_forks: &'a [u64],
    /// The stop signal (Ctrl-C).
    pub stop: &'a StopSignal,
}

impl Joiner<'_> {
    /// Ensures that the folder has the cluster's genesis, and a snapshot if its own state is missing or old and a peer
    /// has one. Gossips over `sockets` meanwhile, if necessary.
    ///
    /// # Errors
    ///
    /// The folder has another chain or cannot be written, or the node was stopped.
    pub fn join(&self, sockets: GossipSockets) -> Result<(), JoinError> {
        let path = self.folder.join(GENESIS_NAME);
        let takes_snapshot = self.snapshots.is_some() && self.may_be_behind();
        if path.exists() {
            // Only checks that it is the same chain; whether the cluster is still running turns out once the node runs.
            let own = Genesis::load(&path).ok();
            if let (Some(own), Some(expected)) = (&own, &self.expected_genesis)
                && own.hash() != expected
            {
                return Err(JoinError::OtherGenesis { own: *own.hash(), expected: *expected });
            }
            let own = own.map(|genesis| self.shred_version_of(genesis.hash()));
            if let (Some(own), Some(expected)) = (own, self.expected_shred_version)
                && own != expected
            {
                return Err(JoinError::OtherShredVersion { own, expected });
            }
            let theirs = self.entrypoints.iter().find_map(|at| Some((*at, ip_echo::shred_version(*at).ok()??)));
            match (own, theirs) {
                (Some(own), Some((entrypoint, theirs))) if own != theirs => {
                    return Err(JoinError::OtherChain { own, theirs, entrypoint });
                }
                (_, None) => return Ok(()),
                _ if !takes_snapshot => return Ok(()),
                _ => {}
            }
        }
        let entrypoints = &self.entrypoints;
        let (entrypoint, shred_version) = wait(self.stop, &format!("waiting for {entrypoints:?}"), || {
            entrypoints.iter().find_map(|at| Some((*at, ip_echo::shred_version(*at).ok()??)))
        })?;
        self.check_cluster(entrypoint, shred_version)?;
        // Checked before another chain's genesis is written beside the blocks.
        let stored = BlockStore::genesis_hash(&self.folder.join("blocks")).map(|hash| self.shred_version_of(&hash));
        if let Some(own) = stored.filter(|own| *own != shred_version) {
            return Err(JoinError::OtherChain { own, theirs: shred_version, entrypoint });
        }
        let own = contact(&self.identity, shred_version).with(SocketKind::Gossip, self.gossip);
        let start = Start {
            sockets,
            entrypoints: entrypoints.clone(),
            identity: Arc::clone(&self.identity),
            own,
            links: self.links.clone(),
        };
        let scout = Scout::start(start).map_err(|source| JoinError::Listen { address: self.gossip, source })?;
        if !path.exists() {
            self.genesis(&scout, shred_version)?;
        }
        match &self.snapshots {
            Some(snapshots) if takes_snapshot => match &self.archive {
                Some(archive) => self.named_snapshot(archive, snapshots),
                None => self.snapshot(&scout, snapshots),
            },
            _ => Ok(()),
        }
    }

    /// Downloads the archive that the operator named, unless the state here is newer.
    fn named_snapshot(&self, archive: &ArchiveUrl, snapshots: &Path) -> Result<(), JoinError> {
        if saved_root(self.folder).is_some_and(|root| root.slot >= archive.slot()) {
            return Ok(());
        }
        let genesis = Genesis::load(&self.folder.join(GENESIS_NAME)).map_err(JoinError::Genesis)?;
        take_named(archive, snapshots, &genesis, self.hard_forks, self.stop)
    }

    /// Fails if the entrypoint's cluster is not the one that the operator named.
    fn check_cluster(&self, entrypoint: SocketAddrV4, theirs: u16) -> Result<(), JoinError> {
        let of_genesis = self.expected_genesis.map(|hash| self.shred_version_of(&hash));
        let wanted = [
            (self.expected_shred_version, "consensus.expected_shred_version"),
            (of_genesis, "consensus.expected_genesis_hash (with consensus.hard_forks)"),
        ];
        let other = wanted.into_iter().find_map(|(expected, key)| Some((expected.filter(|it| *it != theirs)?, key)));
        match other {
            Some((expected, key)) => Err(JoinError::OtherCluster { entrypoint, theirs, expected, key }),
            None => Ok(()),
        }
    }

    fn shred_version_of(&self, genesis_hash: &Hash) -> u16 {
        shred_version_with(genesis_hash, self.hard_forks)
    }

    /// Whether the cluster may be so far ahead that the blocks in between are not worth replaying, or are gone: not if
    /// a slot became final here a moment ago.
    fn may_be_behind(&self) -> bool {
        if !self.folder.join("blocks").exists() {
            return true;
        }
        let Ok(genesis) = Genesis::load(&self.folder.join(GENESIS_NAME)) else { return true };
        let slots = Duration::from_millis(genesis.config().slot_ms.saturating_mul(self.behind_max));
        // If the clock has been set back since, the elapsed time is unknown.
        let age = root_saved_at(self.folder).and_then(|at| at.elapsed().ok());
        age.is_none_or(|age| age >= slots)
    }

    fn genesis(&self, scout: &Scout, shred_version: u16) -> Result<(), JoinError> {
        let mut failed: Vec<SocketAddr> = vec![];
        let wanted = WantedGenesis { shred_version, genesis: self.expected_genesis, hard_forks: self.hard_forks };
        wait(self.stop, "looking for a node that has the genesis", || {
            let peers = gossip::nodes(&scout.board).into_iter().filter(|node| node.identity != self.identity.public);
            let peer = peers.filter_map(|node| node.rpc).find(|rpc| !failed.contains(rpc))?;
            match fetch_genesis(peer, self.folder, &wanted, self.stop) {
                Ok(()) => Some(Ok(())),
                Err(Fetch::Write(path, source)) => Some(Err(JoinError::Write { path, source })),
                Err(Fetch::Stopped) => Some(Err(JoinError::Stopped)),
                Err(Fetch::Peer(why)) => {
                    note(format_args!("notice: no genesis from {peer}: {why}"));
                    failed.push(peer);
                    None
                }
            }
        })?
    }

    /// Downloads the newest sufficiently vouched snapshot that a peer serves, if it is far enough ahead. Without one
    /// the chain is replayed from its current state, and a notice says so where there are others.
    fn snapshot(&self, scout: &Scout, snapshots: &Path) -> Result<(), JoinError> {
        let genesis = Genesis::load(&self.folder.join(GENESIS_NAME)).map_err(JoinError::Genesis)?;
        let trust = Trust::new(&genesis, &self.known, self.only_known);
        let wanted_from = saved_root(self.folder).map_or(0, |root| root.slot.saturating_add(self.behind_max));
        let (mut failed, mut until): (Vec<AnnouncedSnapshot>, _) = (vec![], Instant::now() + SNAPSHOTS_FOR);
        let (mut asked, mut is_promised) = (vec![], false);
        wait(self.stop, "looking for a snapshot", || {
            let mut offers = scout.board.snapshots();
            offers.retain(|it| it.slot >= wanted_from);
            let may_be_had =
                |it: &AnnouncedSnapshot| it.rpc.is_some() && trust.may_serve(&it.identity) && !is_given_up(&failed, it);
            if !is_promised && (offers.iter().any(may_be_had) || self.is_promised(scout, wanted_from, &mut asked)) {
                (is_promised, until) = (true, Instant::now() + PROMISED_FOR);
            }
            let is_late = Instant::now() >= until;
            let vouched = trust.newest(&offers, may_be_had);
            let unvouched = || self.unvouched(&trust, is_late.then(|| trust.most_reported(&offers, may_be_had))??);
            let Some((newest, rpc)) = vouched.or_else(unvouched).and_then(|newest| Some((newest, newest.rpc?))) else {
                return is_late.then_some(Ok(()));
            };
            // If no full snapshot is vouched for, the incremental one needs no vouchers either.
            let takes = |_: &(u64, Hash)| vouched.is_none() || trust.is_incremental_vouched(&offers, &newest);
            let wanted = AnnouncedSnapshot { incremental: newest.incremental.filter(takes), ..newest };
            note(format_args!("  … taking the snapshot of slot {} from {rpc}", newest.slot));
            match self.fetch_state((rpc, &wanted), snapshots, &genesis) {
                Ok(()) => Some(Ok(())),
                Err(Fetch::Write(path, source)) => Some(Err(JoinError::Write { path, source })),
                Err(Fetch::Stopped) => Some(Err(JoinError::Stopped)),
                Err(Fetch::Peer(why)) => {
                    note(format_args!("notice: no snapshot from {rpc}: {why}"));
                    failed.push(newest);
                    None
                }
            }
        })?
    }

    /// Downloads the archives that a node announces in the cluster's format or, if it has none, Hearth's own snapshot.
    fn fetch_state(
        &self,
        peer: (SocketAddrV4, &AnnouncedSnapshot),
        snapshots: &Path,
        genesis: &Genesis,
    ) -> Result<(), Fetch> {
        if fetch_archives(peer, snapshots, genesis, self.hard_forks, self.stop)? {
            return Ok(());
        }
        fetch_snapshot(peer, snapshots, (genesis.hash(), self.hard_forks), self.stop)
    }

    /// Decides whether to take a snapshot whose vouchers hold only `part` per cent of the stake, and reports it.
    fn unvouched(&self, trust: &Trust, (found, part): (AnnouncedSnapshot, u128)) -> Option<AnnouncedSnapshot> {
        let (taken, notice) = trust.unvouched((found, part), self.takes_unvouched);
        note(format_args!("notice: {notice}"));
        taken
    }

    /// Whether another node's RPC names a snapshot; its announcement in gossip will then follow.
    fn is_promised(&self, scout: &Scout, wanted_from: u64, asked: &mut Vec<SocketAddr>) -> bool {
        let peers = gossip::nodes(&scout.board).into_iter().filter(|node| node.identity != self.identity.public);
        let counts = |node: &ClusterNode| self.known.is_empty() || self.known.contains(&node.identity);
        let Some(rpc) = peers.filter(counts).filter_map(|node| node.rpc).find(|rpc| !asked.contains(rpc)) else {
            return false;
        };
        asked.push(rpc);
        let full =
            node_rpc::at(&format!("http://{rpc}")).and_then(|rpc| rpc.call("getHighestSnapshotSlot", &json!([])));
        full.is_ok_and(|slots| slots["full"].as_u64().is_some_and(|slot| slot >= wanted_from))
    }
}

/// Whether this snapshot is not requested any more: it has failed, or [`TRIES_MAX`] snapshots of its node have.
fn is_given_up(failed: &[AnnouncedSnapshot], it: &AnnouncedSnapshot) -> bool {
    failed.contains(it) || failed.iter().filter(|other| other.identity == it.identity).count() >= TRIES_MAX
}

/// The download path of a snapshot: its slot, and its bank hash.
fn snapshot_path(slot: u64, hash: &Hash) -> String {
    format!("/snapshot-{slot}-{}.hearth", encode_32(hash))
}

/// The slot of the snapshot at a download path.
pub fn snapshot_slot(path: &str) -> Option<u64> {
    let (slot, hash) = path.strip_prefix("/snapshot-")?.strip_suffix(".hearth")?.split_once('-')?;
    decode_32(hash).ok()?;
    slot.parse().ok()
}

/// This node's contact info without sockets.
pub fn contact(identity: &Identity, shred_version: u16) -> ContactInfo {
    let number = |text: &str| text.parse().unwrap_or_default();
    let version = Version {
        major: number(env!("CARGO_PKG_VERSION_MAJOR")),
        minor: number(env!("CARGO_PKG_VERSION_MINOR")),
        patch: number(env!("CARGO_PKG_VERSION_PATCH")),
        commit: 0,
        feature_set: hearth_svm::feature_set_id(),
        client: CLIENT,
    };
    ContactInfo::new(identity.public, now_ms() * 1_000, shred_version, version)
}

/// Polls until there is a result; reports what it waits for.
fn wait<T>(stop: &StopSignal, what: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T, JoinError> {
    let mut said = Instant::now();
    loop {
        if let Some(found) = ask() {
            return Ok(found);
        }
        if stop.is_set() {
            return Err(JoinError::Stopped);
        }
        if said.elapsed() > SAY_EVERY {
            said = Instant::now();
            note(format_args!("  … {what}"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

enum Fetch {
    Peer(String),
    Write(String, io::Error),
    Stopped,
}

/// The genesis that a node wants.
struct WantedGenesis<'a> {
    /// The cluster's shred version.
    shred_version: u16,
    /// Its hash, if the operator named it.
    genesis: Option<Hash>,
    /// Slots of its hard forks, which the shred version covers.
    hard_forks: &'a [u64],
}

impl WantedGenesis<'_> {
    /// Fails if `genesis` is not the wanted one.
    fn check(&self, genesis: &Genesis) -> Result<(), Fetch> {
        if let Some(expected) = self.genesis.filter(|expected| expected != genesis.hash()) {
            let (found, expected) = (encode_32(genesis.hash()), encode_32(&expected));
            return Err(Fetch::Peer(format!("its genesis is {found}, and not {expected}")));
        }
        let (found, wanted) = (shred_version_with(genesis.hash(), self.hard_forks), self.shred_version);
        match found == wanted {
            true => Ok(()),
            false => Err(Fetch::Peer(format!(
                "its shred version is {found}, the cluster's {wanted}; if the cluster had hard forks, start with all of \
                 them (--hard-fork SLOT, consensus.hard_forks)"
            ))),
        }
    }
}

/// Downloads a genesis, and `chain.json` if the peer has it. Keeps both if the genesis is the wanted one.
fn fetch_genesis(peer: SocketAddr, folder: &Path, wanted: &WantedGenesis<'_>, stop: &StopSignal) -> Result<(), Fetch> {
    let joining = folder.join("joining");
    let write = |source| Fetch::Write(joining.display().to_string(), source);
    std::fs::create_dir_all(&joining).map_err(write)?;
    let taken = || {
        let archive = joining.join(ARCHIVE_NAME);
        download(peer, &format!("/{ARCHIVE_NAME}"), &archive, ARCHIVE_MAX, stop)?;
        let packed = BufReader::new(File::open(&archive).map_err(write)?);
        let bytes = unpack(packed, GENESIS_BYTES_MAX).map_err(Fetch::Peer)?;
        let genesis = Genesis::from_bytes(&bytes).map_err(|why| Fetch::Peer(format!("{GENESIS_NAME}: {why}")))?;
        wanted.check(&genesis)?;
        // Only Hearth nodes have this file. It says if the chain began later than at slot 0.
        let chain = joining.join(CHAIN_NAME);
        let chain = match download_if_there(peer, &format!("/{CHAIN_NAME}"), &chain, CHAIN_BYTES_MAX, stop)? {
            true => {
                let text = std::fs::read(&chain).map_err(write)?;
                genesis.with_chain(&text).map_err(|why| Fetch::Peer(format!("{CHAIN_NAME}: {why}")))?;
                Some(text)
            }
            false => None,
        };
        let path = folder.join(GENESIS_NAME);
        Genesis::install(&path, &bytes, chain.as_deref()).map_err(|why| {
            let source = match why {
                GenesisError::Io { source, .. } => source,
                other => io::Error::other(other),
            };
            Fetch::Write(path.display().to_string(), source)
        })
    };
    let taken = taken();
    let removed = std::fs::remove_dir_all(&joining).map_err(write);
    taken.and(removed)
}

/// Downloads a snapshot, and keeps it if it matches its announcement; otherwise removes it.
fn fetch_snapshot(
    (rpc, served): (SocketAddrV4, &AnnouncedSnapshot),
    snapshots: &Path,
    (genesis_hash, hard_forks): (&Hash, &[u64]),
    stop: &StopSignal,
) -> Result<(), Fetch> {
    let AnnouncedSnapshot { slot, hash, .. } = served;
    // Downloads into the folder where the file stays: a rename cannot cross file systems.
    let joining = snapshots.join("joining");
    let write = |source| Fetch::Write(joining.display().to_string(), source);
    std::fs::create_dir_all(&joining).map_err(write)?;
    let part = joining.join("snapshot");
    let taken = || {
        download(rpc.into(), &snapshot_path(*slot, hash), &part, SNAPSHOT_MAX, stop)?;
        let proved = prove_on(&part, genesis_hash, hard_forks).map_err(|why| Fetch::Peer(why.to_string()))?;
        if proved != (*slot, *hash) {
            let (found, hash) = (encode_32(&proved.1), encode_32(hash));
            let of = format!("it is of slot {} with hash {found}, and not of {slot} with {hash}", proved.0);
            return Err(Fetch::Peer(of));
        }
        std::fs::rename(&part, snapshots.join(format!("{slot:012}.snapshot"))).map_err(write)
    };
    let taken = taken();
    let removed = std::fs::remove_dir_all(&joining).map_err(write);
    taken.and(removed)
}

/// Downloads a path from a node's HTTP server to a file.
fn download(peer: SocketAddr, path: &str, to: &Path, size_max: u64, stop: &StopSignal) -> Result<(), Fetch> {
    match download_if_there(peer, path, to, size_max, stop)? {
        true => Ok(()),
        false => Err(Fetch::Peer(format!("{path}: it has no such file (HTTP status 404 or 405)"))),
    }
}

/// The same; returns false if the node has nothing at the path.
fn download_if_there(peer: SocketAddr, path: &str, to: &Path, size_max: u64, stop: &StopSignal) -> Result<bool, Fetch> {
    let failed = |why: &str| Fetch::Peer(format!("{path}: {why}"));
    let answer = http::direct(Patience::Step(PATIENCE)).get(&format!("http://{peer}{path}")).call();
    let answer = answer.map_err(|error| failed(&http::why(&error)))?;
    match answer.status().as_u16() {
        200 => {}
        // Agave and Hearth both answer so if they have no file of that name.
        404 | 405 => return Ok(false),
        status => return Err(failed(&format!("HTTP status {status}"))),
    }
    let size = answer.headers().get("content-length").and_then(|size| size.to_str().ok()?.parse::<u64>().ok());
    let size = size.ok_or_else(|| failed("an answer without a length"))?;
    if size > size_max {
        return Err(failed(&format!("{size} bytes are too many")));
    }
    let write = |source| Fetch::Write(to.display().to_string(), source);
    let mut file = File::create(to).map_err(write)?;
    let mut body = answer.into_body().into_reader();
    let (mut left, mut buffer, mut said) = (size, vec![0; 64 << 10], Instant::now());
    let until = Instant::now() + PATIENCE + Duration::from_secs(size / SLOWEST);
    while left > 0 {
        if stop.is_set() {
            return Err(Fetch::Stopped);
        }
        if Instant::now() > until {
            return Err(failed(&format!("it sends less than {SLOWEST} bytes a second")));
        }
        if said.elapsed() > SAY_EVERY {
            said = Instant::now();
            note(format_args!("  … {path}: {} of {} MB", (size - left) / 1_000_000, size / 1_000_000));
        }
        let wanted = buffer.len().min(left as usize);
        let read = match body.read(&mut buffer[..wanted]) {
            Err(why) if why.kind() != io::ErrorKind::UnexpectedEof => return Err(failed(&why.to_string())),
            Ok(0) | Err(_) => return Err(failed(&format!("it ended {left} bytes short"))),
            Ok(read) => read,
        };
        file.write_all(&buffer[..read]).map_err(write)?;
        left -= read as u64;
    }
    file.sync_all().map_err(write)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::net::{Ipv4Addr, TcpListener};

    use hearth_ledger::GenesisConfig;
    use hearth_ledger::genesis::pack;

    use super::*;

    /// The error for a snapshot from a peer with this response.
    fn fetched(answer: &[u8]) -> String {
        let (listener, folder) = (TcpListener::bind("127.0.0.1:0").unwrap(), tempfile::tempdir().unwrap());
        let rpc = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
        let served = AnnouncedSnapshot { identity: [1; 32], rpc: Some(rpc), slot: 7, hash: [2; 32], incremental: None };
        let snapshots = folder.path().join("snapshots");
        let fetched = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (stream, _) = listener.accept().unwrap();
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                assert!(line.contains(&snapshot_path(7, &[2; 32])), "{line}");
                // The client may have closed the connection early.
                let _ = stream.get_mut().write_all(answer);
            });
            fetch_snapshot((rpc, &served), &snapshots, (&[3; 32], &[]), &StopSignal::default())
        });
        let Err(Fetch::Peer(why)) = fetched else { panic!("it is taken, or the disk is at fault") };
        assert!(std::fs::read_dir(&snapshots).unwrap().next().is_none(), "nothing of it is kept");
        why
    }

    #[test]
    fn peer_is_given_up_after_repeated_failures() {
        let of = |node: u8, slot: u64| {
            let identity = [node; 32];
            AnnouncedSnapshot { identity, rpc: None, slot, hash: [2; 32], incremental: None }
        };
        let mut failed = vec![of(1, 100)];
        assert!(is_given_up(&failed, &of(1, 100)), "it is the same snapshot");
        assert!(!is_given_up(&failed, &of(1, 101)) && !is_given_up(&failed, &of(2, 100)));
        failed.extend((101..).take(TRIES_MAX - 1).map(|slot| of(1, slot)));
        assert!(is_given_up(&failed, &of(1, 900)) && !is_given_up(&failed, &of(2, 900)));
    }

    #[test]
    fn invalid_snapshot_is_refused_and_removed() {
        let garbage = [&b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n"[..], &[7; 64]].concat();
        let tera = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", SNAPSHOT_MAX + 1);
        let many = [&b"HTTP/1.1 200 OK\r\n"[..], b"a: b\r\n".repeat(200).as_slice(), b"\r\n"].concat();
        for (answer, why) in [
            (&garbage[..], "snapshot"),
            (&garbage[..60], "bytes short"),
            (tera.as_bytes(), "are too many"),
            (b"HTTP/1.1 404 Not Found\r\n\r\n", "404"),
            (b"HTTP/1.1 200 OK\r\n\r\n", "without a length"),
            (&many[..], "too many headers"),
            (b"no HTTP\r\n\r\n", "http parse fail"),
            (b"", "disconnected"),
        ] {
            let said = fetched(answer);
            assert!(said.contains(why), "{said}");
        }
    }

    /// Answers each request of a client with what is at its path; 404 if nothing is.
    pub(super) fn serve(listener: &TcpListener, files: &[(&str, Vec<u8>)], requests: usize) {
        for _ in 0..requests {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = BufReader::new(stream);
            let (mut line, mut header) = (String::new(), String::new());
            stream.read_line(&mut line).unwrap();
            while header != "\r\n" {
                header.clear();
                stream.read_line(&mut header).unwrap();
            }
            let path = line.split(' ').nth(1).unwrap();
            let file = files.iter().find(|(name, _)| *name == path);
            let (status, body) = file.map_or(("404 Not Found", &[][..]), |(_, body)| ("200 OK", &body[..]));
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            // The client may have closed the connection early.
            let _ = stream.get_mut().write_all(&[head.as_bytes(), body].concat());
        }
    }

    /// Fetches a genesis from a peer that has these files and answers `requests` requests.
    fn genesis_from(
        files: &[(&str, Vec<u8>)],
        requests: usize,
        folder: &Path,
        wanted: &WantedGenesis<'_>,
    ) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let taken = std::thread::scope(|scope| {
            scope.spawn(|| serve(&listener, files, requests));
            fetch_genesis(peer, folder, wanted, &StopSignal::default())
        });
        assert!(!folder.join("joining").exists(), "what was downloaded is removed");
        match taken {
            Ok(()) => Ok(()),
            Err(Fetch::Peer(why)) => Err(why),
            Err(Fetch::Write(path, why)) => panic!("{path}: {why}"),
            Err(Fetch::Stopped) => panic!("nobody stops it"),
        }
    }

    fn began(genesis_slot: u64) -> Genesis {
        let development = GenesisConfig::development([1; 32], [2; 32], 1_700_000_000);
        let config = GenesisConfig { fund_initial_accounts: 2, genesis_slot, ..development };
        Genesis::create(config, |_| {}).unwrap()
    }

    #[test]
    fn genesis_is_taken_with_chain_json() {
        let (there, here, agave) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let genesis = began(1_000);
        genesis.save(&there.path().join(GENESIS_NAME)).unwrap();
        let chain = std::fs::read(there.path().join(CHAIN_NAME)).unwrap();
        let archive = pack(&genesis.to_bytes()).unwrap();
        let wanted =
            &WantedGenesis { shred_version: genesis.shred_version(), genesis: Some(*genesis.hash()), hard_forks: &[] };
        let files = [("/genesis.tar.bz2", archive.clone()), ("/chain.json", chain)];
        assert_eq!(genesis_from(&files, 2, here.path(), wanted), Ok(()));
        assert_eq!(Genesis::load(&here.path().join(GENESIS_NAME)).unwrap(), genesis);
        // Agave has no such file.
        assert_eq!(genesis_from(&files[..1], 2, agave.path(), wanted), Ok(()));
        let taken = Genesis::load(&agave.path().join(GENESIS_NAME)).unwrap();
        assert_eq!((taken.hash(), taken.config().genesis_slot), (genesis.hash(), 0));
    }

    #[test]
    fn other_genesis_is_refused_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let genesis = began(0);
        let version = genesis.shred_version();
        let archive = || ("/genesis.tar.bz2", pack(&genesis.to_bytes()).unwrap());
        let refused = |files: &[(&str, Vec<u8>)], requests, (shred_version, genesis)| {
            genesis_from(files, requests, folder.path(), &WantedGenesis { shred_version, genesis, hard_forks: &[] })
                .unwrap_err()
        };
        assert!(refused(&[], 1, (version, None)).contains("404"));
        let garbage = refused(&[("/genesis.tar.bz2", vec![7; 500])], 1, (version, None));
        assert!(garbage.contains("unpacked"), "{garbage}");
        let nothing = refused(&[("/genesis.tar.bz2", pack(b"no genesis").unwrap())], 1, (version, None));
        assert!(nothing.contains("genesis.bin: at byte"), "{nothing}");
        let other = refused(&[archive()], 1, (version, Some([9; 32])));
        assert!(other.contains("its genesis is"), "{other}");
        let other = refused(&[archive()], 1, (version.wrapping_add(1), None));
        assert!(other.contains("its shred version is") && other.contains("--hard-fork SLOT"), "{other}");
        let beside = refused(&[archive(), ("/chain.json", b"{}".to_vec())], 2, (version, None));
        assert!(beside.contains("chain.json"), "{beside}");
        assert!(!folder.path().join(GENESIS_NAME).exists() && !folder.path().join(CHAIN_NAME).exists());
    }
}
