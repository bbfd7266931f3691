//! Files: valid, truncated, altered, of another version, of another chain, and on a full disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::format::{CHUNK_HEAD_SIZE, CHUNK_SIZE_MAX, EndChunk, Kind, decode_head, encode_chunk, unpack};
use super::writer::Medium;
use super::*;
use crate::account::Account;
use crate::bank_hash::Hashes;
use crate::block::BlockSummary;
use crate::epochs::KeptEpochs;
use crate::performance::{Mark, Samples};
use crate::seed::Seed;
use crate::status_cache::{LandedStatus, StatusCache, StatusCacheConfig};
use crate::{BankCounts, TransactionError};

const GENESIS: [u8; 32] = [42; 32];
const SMALL: StatusCacheConfig = StatusCacheConfig { enabled: true, capacity_txns: 0 };
const ACCOUNTS: u64 = 30_000;
const SLOT: u64 = 77;

fn manifest(slot: u64) -> Manifest {
    let block = |slot: u64| BlockSummary {
        slot,
        parent: slot - 1,
        height: slot,
        blockhash: [slot as u8; 32],
        transaction_count: 5 * slot,
        counts: BankCounts { committed: 5, ..BankCounts::default() },
        reward: None,
        has_rewards: false,
        bank_hash: None,
        unix_timestamp: 1_000,
    };
    let blocks = (1..=slot).map(block).collect::<Vec<_>>();
    let blockhashes = blocks.iter().map(|block| (block.blockhash, 5_000)).collect();
    let (hashes, samples) = (Hashes::sample(slot), Samples::new(Mark::default()));
    let epochs = KeptEpochs::sample();
    Manifest {
        blocks,
        blockhashes,
        block_id: [3; 32],
        burned_lamports: 9,
        hashes,
        epochs,
        samples,
        hard_forks: Some(vec![(3, 2)]),
    }
}

#[test]
fn a_manifest_may_lack_hard_forks() {
    let older = Manifest { hard_forks: None, ..manifest(4) };
    let text = serde_json::to_string(&older).unwrap();
    assert!(!text.contains("hard_forks"), "as older versions wrote it");
    assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap().hard_forks, None);
    let text = serde_json::to_string(&manifest(4)).unwrap();
    assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap().hard_forks, Some(vec![(3, 2)]));
}

fn address(n: u64) -> [u8; 32] {
    let mut address = [9; 32];
    address[..8].copy_from_slice(&n.to_le_bytes());
    address
}

fn account(n: u64) -> Account {
    match n % 3 {
        0 => Account::wallet(n + 1),
        1 => Account::with_data(n + 1, [n as u8; 32], &n.to_le_bytes().repeat(20)),
        _ => Account::native_program("some program"),
    }
}

fn statuses() -> StatusCache {
    let cache = StatusCache::new(&SMALL);
    for n in 0..50_000u64 {
        let mut signature = [1; 64];
        signature[..8].copy_from_slice(&n.to_le_bytes());
        cache.record(&signature, LandedStatus { slot: n, result: Err(TransactionError::AccountNotFound) }, SLOT);
    }
    cache
}

/// Some chunks of statuses and accounts.
fn fill(mut writer: Writer, cache: &StatusCache) -> Result<SnapshotFile, SnapshotError> {
    cache.cut();
    for shard in 0..StatusCache::SHARDS {
        let (claims, statuses) = cache.read_cut(shard, SLOT + 1);
        claims.iter().try_for_each(|entry| writer.claim(entry))?;
        statuses.iter().try_for_each(|entry| writer.status(entry))?;
    }
    (0..ACCOUNTS).try_for_each(|n| writer.account(&address(n), &account(n)))?;
    let big = Account::with_data(5, [1; 32], &vec![7; 10 << 20]);
    writer.account(&address(ACCOUNTS), &big)?;
    writer.finish(&manifest(SLOT)).map(|(file, _)| file)
}

fn written(folder: &Folder) -> (SnapshotFile, StatusCache) {
    let cache = statuses();
    let writer = Writer::create(folder, &GENESIS, (SLOT, SLOT), cache.seed()).unwrap();
    (fill(writer, &cache).unwrap(), cache)
}

fn names(folder: &Folder) -> Vec<PathBuf> {
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

fn fault(path: &Path) -> Fault {
    let (loaded, verified) = (load(path, &GENESIS, &SMALL), verify(path, Some(&GENESIS)));
    match (loaded.map(|_| ()), verified.map(|_| ())) {
        (Err(SnapshotError::Damaged { fault, file, .. }), Err(SnapshotError::Damaged { fault: same, .. })) => {
            assert_eq!((&*file, &fault), (path, &same));
            fault
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn everything_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(&dir.path().join("deep/snapshots")).unwrap();
    let (file, cache) = written(&folder);
    assert_eq!(names(&folder), [folder.path().join("000000000077.snapshot")]);
    assert_eq!(folder.files().unwrap(), std::slice::from_ref(&file));
    let loaded = load(&file.path, &GENESIS, &SMALL).unwrap();
    assert_eq!(loaded.manifest, manifest(SLOT));
    assert_eq!(loaded.accounts.count() as u64, ACCOUNTS + 1);
    assert!((0..ACCOUNTS).all(|n| loaded.accounts.load(&address(n)) == Some(account(n))));
    assert_eq!(loaded.accounts.load(&address(ACCOUNTS)).unwrap().data().len(), 10 << 20);
    for n in [0, 49_999u64] {
        let mut signature = [1; 64];
        signature[..8].copy_from_slice(&n.to_le_bytes());
        assert_eq!(loaded.statuses.status(&signature, SLOT + 1), cache.status(&signature, SLOT + 1));
    }
    let (_, summary) = verify(&file.path, None).unwrap();
    assert_eq!(summary, loaded.summary);
    assert_eq!((summary.slot, summary.accounts, summary.statuses), (SLOT, ACCOUNTS + 1, 50_000));
    assert_eq!(summary.bytes, fs::metadata(&file.path).unwrap().len());
}

#[test]
fn a_cut_anywhere_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    let bytes = fs::read(written(&folder).0.path).unwrap();
    let path = dir.path().join("cut.snapshot");
    let lengths = (0..40).map(|n| bytes.len() * n / 40).chain([1, CHUNK_HEAD_SIZE, bytes.len() - 1]);
    for length in lengths {
        fs::write(&path, &bytes[..length]).unwrap();
        assert_eq!(fault(&path), Fault::Cut, "{length} bytes");
    }
    fs::write(&path, [&bytes[..], b"x"].concat()).unwrap();
    assert_eq!(fault(&path), Fault::Content("bytes after its end"));
}

#[test]
fn a_changed_bit_anywhere_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    let mut bytes = fs::read(written(&folder).0.path).unwrap();
    let path = dir.path().join("bit.snapshot");
    // Each bit of the first chunk, and some of each part of the rest.
    let head_bits = 0..(CHUNK_HEAD_SIZE + 100) * 8;
    let len = bytes.len();
    let spread = (0..150).map(|n| len * n / 150 * 8 + n % 8);
    let end_bits = (len - 80) * 8..len * 8;
    for bit in head_bits.step_by(3).chain(spread).chain(end_bits.step_by(5)) {
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bytes).unwrap();
        let (loaded, verified) = (load(&path, &GENESIS, &SMALL).is_err(), verify(&path, None).is_err());
        assert!(loaded && verified, "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

/// The chunks of a file.
fn chunks(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut chunks, mut rest) = (vec![], bytes);
    while !rest.is_empty() {
        let stored = u32::from_le_bytes(*rest[16..].first_chunk().unwrap()) as usize;
        let (chunk, after) = rest.split_at(CHUNK_HEAD_SIZE + stored);
        chunks.push(chunk.to_vec());
        rest = after;
    }
    chunks
}

#[test]
fn chunks_cannot_be_moved_left_out_or_mixed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    let whole = chunks(&fs::read(written(&folder).0.path).unwrap());
    assert!(whole.len() > 6, "{} chunks", whole.len());
    let path = dir.path().join("mixed.snapshot");
    let put = |chunks: &[Vec<u8>]| {
        fs::write(&path, chunks.concat()).unwrap();
        fault(&path)
    };
    let mut moved = whole.clone();
    moved.swap(1, 2);
    assert_eq!(put(&moved), Fault::Order { found: 2, expected: 1 });
    let mut without = whole.clone();
    without.remove(3);
    assert_eq!(put(&without), Fault::Order { found: 4, expected: 3 });
    // A chunk of another file, valid in itself.
    let mut mixed = whole.clone();
    let mut content = vec![];
    account::encode(&mut content, &address(1), &account(1));
    mixed[3] = encode_chunk(Kind::Accounts, 3, &content);
    assert_eq!(put(&mixed), Fault::Digest);
    let mut odd = whole.clone();
    odd[2] = encode_chunk(Kind::Accounts, 2, &content[1..]);
    assert_eq!(put(&odd), Fault::Content("an account"));
    let end = whole.len() - 1;
    let mut headless = whole.clone();
    headless[0] = encode_chunk(Kind::Accounts, 0, &content);
    assert_eq!(put(&headless), Fault::Content("it does not begin with its head"));
    let mut twice = whole[..end].to_vec();
    twice.push(encode_chunk(Kind::Manifest, end as u32, b"{}"));
    assert_eq!(put(&twice), Fault::Content("a chunk out of place"));
    let mut no_manifest = whole[..end - 1].to_vec();
    no_manifest.push(encode_chunk(Kind::Manifest, end as u32 - 1, b"{}"));
    assert_eq!(put(&no_manifest), Fault::Content("its manifest"));
}

#[test]
fn the_vote_accounts_are_those_of_the_stakes() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    let whole = chunks(&fs::read(written(&folder).0.path).unwrap());
    let path = dir.path().join("votes.snapshot");
    let of_kind = |chunk: &Vec<u8>, kind: Kind| chunk[4] == kind as u8 + 1;
    let at = whole.iter().position(|chunk| of_kind(chunk, Kind::VoteAccounts)).unwrap();
    // The end vouches for the headers of all chunks: this one is made to fit each change.
    let put = |content: &[u8]| {
        let mut changed = whole.clone();
        changed[at] = encode_chunk(Kind::VoteAccounts, at as u32, content);
        let end = changed.len() - 1;
        let heads: Vec<u8> = changed[..end].iter().flat_map(|chunk| chunk[..CHUNK_HEAD_SIZE].to_vec()).collect();
        let accounts = ACCOUNTS + 1;
        let lamports = (0..ACCOUNTS).map(|n| u128::from(account(n).lamports)).sum::<u128>() + 5;
        let end_of = EndChunk { accounts, lamports, digest: hearth_crypto::sha256::sha256(&[&heads]) };
        changed[end] = encode_chunk(Kind::End, end as u32, &end_of.encode());
        fs::write(&path, changed.concat()).unwrap();
    };
    let mut content = vec![];
    for (epoch, key, account) in KeptEpochs::sample().vote_accounts() {
        content.extend_from_slice(&epoch.to_le_bytes());
        account::encode(&mut content, key, account);
    }
    put(&content);
    assert_eq!(load(&path, &GENESIS, &SMALL).unwrap().manifest, manifest(SLOT));
    let one = content.len() / 4;
    put(&content[..3 * one]);
    assert_eq!(fault(&path), Fault::Content("other vote accounts than those of its epochs' stakes"));
    put(&[&content[..], &content[..one]].concat());
    assert_eq!(fault(&path), Fault::Content("a vote account of an epoch that is there twice"));
    put(&content[..content.len() - 1]);
    assert_eq!(fault(&path), Fault::Content("a vote account"));
    put(&[&content[..], &[1]].concat());
    assert_eq!(fault(&path), Fault::Content("a vote account"));
}

#[test]
fn another_version_and_another_chain_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    let (file, _) = written(&folder);
    let other = load(&file.path, &[1; 32], &SMALL).unwrap_err();
    assert!(matches!(&other, SnapshotError::OtherChain { file: named } if *named == file.path), "{other}");
    let mut later = chunks(&fs::read(&file.path).unwrap());
    let mut head = later[0][CHUNK_HEAD_SIZE..].to_vec();
    head[0] += 1;
    later[0] = encode_chunk(Kind::Head, 0, &head);
    fs::write(&file.path, later.concat()).unwrap();
    let error = load(&file.path, &GENESIS, &SMALL).unwrap_err();
    let SnapshotError::Version { found, expected, .. } = error else { panic!("{error}") };
    assert_eq!((found, expected), (VERSION + 1, VERSION));
    assert!(error.to_string().contains("000000000077.snapshot"), "{error}");
}

/// A file on a device with limited room.
struct Full {
    file: File,
    left: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.left);
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.left -= taken;
        self.file.write(&bytes[..taken])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Medium for Full {
    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    let (whole, cache) = written(&folder);
    let len = fs::metadata(&whole.path).unwrap().len() as usize;
    for left in [0, 50, len / 3, len - 1] {
        let (part, _) = folder.names(SLOT + 1);
        let medium = Box::new(Full { file: File::create(&part).unwrap(), left });
        let writer = Writer::on(medium, &folder, &GENESIS, (SLOT + 1, SLOT + 1), cache.seed());
        let error = writer.and_then(|writer| fill(writer, &cache)).unwrap_err();
        assert!(matches!(error, SnapshotError::NoRoom { .. }), "{error}");
        assert_eq!(names(&folder), [&*whole.path], "{left} bytes of room");
    }
}

#[test]
fn a_kill_leaves_a_part_file_that_the_next_start_removes() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    let writer = Writer::create(&folder, &GENESIS, (5, 5), Seed::random()).unwrap();
    assert_eq!(names(&folder), [writer.part()]);
    std::mem::forget(writer);
    assert_eq!(folder.files().unwrap(), [], "not a snapshot yet");
    let folder = Folder::open(dir.path()).unwrap();
    assert!(names(&folder).is_empty());
}

#[test]
fn the_newest_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    for slot in [900, 1000, 20, 7] {
        Writer::create(&folder, &GENESIS, (slot, 1), Seed::random()).unwrap().finish(&manifest(1)).unwrap();
    }
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let slots = || folder.files().unwrap().iter().map(|file| file.slot).collect::<Vec<_>>();
    assert_eq!(slots(), [1000, 900, 20, 7]);
    assert_eq!(folder.prune(2).unwrap().unwrap().slot, 900);
    assert_eq!(slots(), [1000, 900]);
    assert_eq!(folder.prune(0).unwrap().unwrap().slot, 1000, "one at least");
    assert!(dir.path().join("notes.txt").exists());
}

/// A snapshot of the moment when 100,000 stakes wait for their rewards has a manifest of about 25 MB.
#[test]
fn a_manifest_may_be_longer_than_other_chunks() {
    let content: Vec<u8> = (0..2 * CHUNK_SIZE_MAX).map(|at| (at / 1000) as u8).collect();
    let (manifest, accounts) = (encode_chunk(Kind::Manifest, 0, &content), encode_chunk(Kind::Accounts, 0, &content));
    let (head_bytes, stored) = manifest.split_first_chunk::<CHUNK_HEAD_SIZE>().unwrap();
    let head = decode_head(head_bytes, 0).unwrap();
    assert!(unpack(&head, head_bytes, stored.to_vec()).unwrap() == content);
    assert!(decode_head(accounts.first_chunk().unwrap(), 0).is_err(), "of accounts this is too much");
}
