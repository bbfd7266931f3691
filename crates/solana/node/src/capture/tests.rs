//! A session is read as it was written, and whatever is cut or changed in its file is named.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use hearth_ledger::{Genesis, GenesisConfig, Ledger, LedgerConfig};
use hearth_pipeline::capture::{CapturedPacket, PacketSource, Tap, UNKNOWN};

use super::CaptureError;
use super::folder::{self, Beginning};
use super::format::{FormatError, HEADS, Session, SessionEvent, SessionHeader, SessionWriter};
use super::recorder::{Limits, Recorder};
use super::sets::read;

pub(super) fn header() -> SessionHeader {
    SessionHeader {
        seed: [1; 32],
        unix_ns: 1_700_000_000_000_000_007,
        ip: [127, 0, 0, 9].into(),
        identity: [2; 32],
        vote_account: Some([3; 32]),
        genesis: [4; 32],
        shred_version: 77,
        shreds_per_slot_max: 32_768,
        entrypoints: vec!["127.0.0.1:8001".parse().unwrap(), "10.1.2.3:9".parse().unwrap()],
    }
}

pub(super) fn packet(at_ns: u64, source: PacketSource, data: Vec<u8>) -> SessionEvent {
    SessionEvent::Packet(CapturedPacket { at_ns, source, from: "[2001:db8::7]:4000".parse().unwrap(), data })
}

fn events() -> Vec<SessionEvent> {
    vec![
        packet(5, PacketSource::Turbine, vec![7; 1_203]),
        SessionEvent::Rooted { slot: 3, bank_hash: [8; 32] },
        packet(6, PacketSource::Gossip, vec![]),
        SessionEvent::Packet(CapturedPacket {
            at_ns: 6,
            source: PacketSource::Turbine,
            from: UNKNOWN,
            data: vec![6; 64],
        }),
        packet(u64::MAX, PacketSource::Own, vec![1]),
        packet(0, PacketSource::Transaction, vec![2; 300]),
    ]
}

/// The file of a session.
pub(super) fn file(header: &SessionHeader, events: &[SessionEvent], dropped: u64) -> Vec<u8> {
    let mut writer = SessionWriter::new(vec![], header, 3).unwrap();
    events.iter().for_each(|event| writer.add(event).unwrap());
    writer.end(40, dropped).unwrap()
}

#[test]
fn session_is_read_as_written() {
    for vote_account in [Some([3; 32]), None] {
        let header = SessionHeader { vote_account, ..header() };
        let read = read(&file(&header, &events(), 2)).unwrap();
        assert_eq!(read, Session { header, events: events(), end_ns: 40, dropped: 2 });
    }
}

#[test]
fn long_session_has_many_chunks() {
    let events: Vec<_> = (0..100).map(|at| packet(at, PacketSource::Gossip, vec![at as u8; 65_535])).collect();
    let file = file(&header(), &events, 0);
    assert!(file.len() < 1 << 20, "it is compressed: {}", file.len());
    assert_eq!(read(&file).unwrap().events, events);
}

#[test]
fn cut_file_is_refused_at_every_length() {
    let file = file(&header(), &events(), 0);
    for length in 0..file.len() {
        let why = read(&file[..length]).unwrap_err();
        let expected = match length {
            0..8 => FormatError::Magic,
            8..12 => FormatError::Cut(0),
            12 => FormatError::NoEnd,
            _ => FormatError::Cut(HEADS.0),
        };
        assert_eq!(why, expected, "{length} bytes");
    }
    // A recording without its end, as a kill leaves it.
    let mut writer = SessionWriter::new(vec![], &header(), 3).unwrap();
    let long = packet(1, PacketSource::Gossip, vec![1; 65_535]);
    (0..64).for_each(|_| writer.add(&long).unwrap());
    let whole = writer.end(1, 0).unwrap();
    let second = HEADS.0 + HEADS.1 + u32::from_le_bytes(*whole[HEADS.0..].first_chunk().unwrap()) as usize;
    assert_eq!(read(&whole[..second]), Err(FormatError::NoEnd));
}

#[test]
fn changed_byte_is_refused_wherever_it_is() {
    let file = file(&header(), &events(), 0);
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 0x10;
        let why = read(&changed).unwrap_err();
        let is_expected = match at {
            0..8 => why == FormatError::Magic,
            8..12 => matches!(why, FormatError::Version(_)),
            _ => matches!(why, FormatError::Checksum(12) | FormatError::Cut(12) | FormatError::Length(12)),
        };
        assert!(is_expected, "byte {at}: {why}");
    }
}

#[test]
fn full_disk_is_an_error() {
    let mut room = [0u8; 100];
    let mut writer = SessionWriter::new(&mut room[..], &header(), 3).unwrap();
    writer.add(&events()[0]).unwrap();
    assert_eq!(writer.end(1, 0).unwrap_err().kind(), std::io::ErrorKind::WriteZero);
    assert!(SessionWriter::new(&mut [0u8; 5][..], &header(), 3).is_err());
}

/// The same file, with other lengths in its only chunk and the checksum that goes with them.
fn with_lengths(file: &[u8], packed: u32, bytes: u32) -> Vec<u8> {
    let (head, chunk) = file.split_at(HEADS.0);
    let content = &chunk[HEADS.1..];
    let lengths = [packed.to_le_bytes(), bytes.to_le_bytes()].concat();
    let checksum = hearth_crypto::sha256::sha256(&[&lengths, content]);
    [head, &lengths[..], &checksum[..], content].concat()
}

#[test]
fn lying_length_is_refused() {
    let file = file(&header(), &events(), 0);
    let word = |at: usize| u32::from_le_bytes(*file[at..].first_chunk().unwrap());
    let (packed, bytes) = (word(HEADS.0), word(HEADS.0 + 4));
    assert_eq!(with_lengths(&file, packed, bytes), file);
    for wrong in [0, bytes - 1, bytes + 1, 1 << 30, u32::MAX] {
        assert_eq!(read(&with_lengths(&file, packed, wrong)), Err(FormatError::Length(12)), "{wrong} bytes");
    }
    assert_eq!(read(&with_lengths(&file, u32::MAX, bytes)), Err(FormatError::Length(12)));
    assert_eq!(read(&with_lengths(&file, packed + 1, bytes)), Err(FormatError::Cut(12)));
    assert_eq!(read(&with_lengths(&file, packed - 1, bytes)), Err(FormatError::Checksum(12)));
}

/// All records of a file with one chunk.
pub(super) fn records(file: &[u8]) -> Vec<u8> {
    let length = u32::from_le_bytes(*file[HEADS.0 + 4..].first_chunk().unwrap()) as usize;
    zstd::bulk::decompress(&file[HEADS.0 + HEADS.1..], length).unwrap()
}

/// A file with one chunk of these bytes.
pub(super) fn of_bytes(bytes: &[u8]) -> Vec<u8> {
    let packed = zstd::bulk::compress(bytes, 3).unwrap();
    let whole = file(&header(), &[], 0);
    let chunk = [&whole[..HEADS.0], &[0u8; 40][..], &packed[..]].concat();
    with_lengths(&chunk, packed.len() as u32, bytes.len() as u32)
}

#[test]
fn record_that_is_none_is_refused() {
    // No record; an event before the header; an unknown record; a record that claims more bytes than there are.
    let wrong: [&[u8]; 3] = [&[9], &[3; 41], &[0; 5]];
    for bytes in wrong {
        assert_eq!(read(&of_bytes(bytes)), Err(FormatError::Record(12)), "{bytes:?}");
    }
    let mut records = records(&file(&header(), &events()[..1], 0));
    assert_eq!(read(&of_bytes(&records)).unwrap().events, events()[..1]);
    // The packet is followed by the record of the end, of 17 bytes; its length precedes its 1,203 bytes, as a varint.
    let at = records.len() - 17 - 1_203 - 2;
    assert_eq!(records[at..at + 2], [0xb3, 0x09]);
    records[at + 1] = 0x7f;
    assert_eq!(read(&of_bytes(&records)), Err(FormatError::Record(12)));
    // A varint of more than 64 bits.
    let more = records[..at].iter().copied().chain([0xff; 20]).collect::<Vec<_>>();
    assert_eq!(read(&of_bytes(&more)), Err(FormatError::Record(12)));
    // Something behind the end.
    records[at + 1] = 0x09;
    records.push(3);
    assert_eq!(read(&of_bytes(&records)), Err(FormatError::Record(12)));
}

#[test]
fn folder_gives_back_what_the_node_began_with() {
    let folders = tempfile::tempdir().unwrap();
    let ledger = &folders.path().join("ledger");
    let session = folders.path().join("sessions/first");
    let again = folders.path().join("again");
    let files = ["genesis.bin", "chain.json", "identity.json", "snapshot-5-abc.tar.zst", "snapshots/5.snap"];
    fs::create_dir_all(ledger.join("snapshots")).unwrap();
    for name in files {
        fs::write(ledger.join(name), name).unwrap();
    }
    fs::write(ledger.join("faucet.json"), "no part of it").unwrap();
    let snapshots = ledger.join("snapshots");
    let identity = ledger.join("identity.json");
    let beginning = Beginning { ledger, snapshots: &snapshots, identity: &identity };
    beginning.copy_to(&session).unwrap();
    folder::restore_ledger(&session, &again).unwrap();
    for name in files.iter().filter(|name| **name != "identity.json") {
        assert_eq!(fs::read_to_string(again.join(name)).unwrap(), **name);
    }
    assert_eq!(fs::read_to_string(session.join(folder::IDENTITY)).unwrap(), "identity.json");
    let mode = fs::metadata(session.join(folder::IDENTITY)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the key is private, although the first file is not");
    assert!(!session.join("faucet.json").exists());
    // Without packets it is no session.
    let parent = session.parent().unwrap();
    assert!(folder::sessions_below(parent).unwrap().is_empty());
    fs::write(session.join(folder::SESSION), file(&header(), &events()[..3], 0)).unwrap();
    assert_eq!(folder::sessions_below(parent).unwrap(), [session.clone()]);
    assert_eq!(folder::read(&session).unwrap().events, events()[..3]);
    assert!(matches!(beginning.copy_to(&session), Err(CaptureError::NotEmpty(_))));
    assert!(folder::sessions_below(&session.join("nowhere")).unwrap().is_empty());
}

#[test]
fn recording_ends_with_what_its_tap_copied() {
    let folder = tempfile::tempdir().unwrap();
    let genesis = Genesis::create(GenesisConfig::development([1; 32], [2; 32], 0), |_| {}).unwrap();
    let ledger = Ledger::new(&genesis, LedgerConfig::default());
    let limits = Limits { slots: None, bytes: u64::MAX };
    let tap = Tap::default();
    let mut recorder = Recorder::begin(folder.path(), &header(), tap.clone(), ledger, limits).unwrap();
    tap.transaction(1, &[1]);
    assert!(!recorder.step().unwrap());
    tap.transaction(2, &[2]);
    tap.close();
    tap.transaction(3, &[3]);
    assert!(recorder.step().unwrap(), "it is over");
    let totals = recorder.end(4).unwrap();
    assert_eq!((totals.packets, totals.dropped), (2, 0));
    let session = folder::read(folder.path()).unwrap();
    let times = session.events.iter().map(|event| match event {
        SessionEvent::Packet(packet) => packet.at_ns,
        SessionEvent::Rooted { slot, .. } => panic!("slot {slot} is not rooted"),
    });
    assert_eq!(times.collect::<Vec<u64>>(), [1, 2]);
}
