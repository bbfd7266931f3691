//! After any truncation, flip or zeroed range, and on any failing disk: all acknowledged data is there, and no wrong
//! data.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::IoSlice;
use std::sync::Arc;

use hearth_testkit::damage::Mutation;
use proptest::prelude::*;

use crate::faulty::{Faults, Faulty};
use crate::source::Window;
use crate::*;

/// `mark | length u32 | crc u32 | body | padding`. The checksum covers the record's place and all but itself.
#[derive(Clone, Copy)]
struct Test<const ALIGN: u64, const IS_MARKED: bool>;

const HEAD: usize = 12;

impl<const ALIGN: u64, const IS_MARKED: bool> Framing for Test<ALIGN, IS_MARKED> {
    const HEAD: usize = HEAD;
    const ALIGN: u64 = ALIGN;
    const MARK: &'static [u8] = if IS_MARKED { b"mark".as_slice() } else { b"".as_slice() };

    fn length(&self, head: &[u8], _: u64) -> Result<u64, Fault> {
        let length = u32::from_le_bytes(*head[4..].first_chunk().expect("a head"));
        match () {
            () if IS_MARKED && !head.starts_with(b"mark") => Err(Fault::Magic),
            () if (length as usize) < HEAD || !u64::from(length).is_multiple_of(ALIGN) => Err(Fault::Length(length)),
            () => Ok(length.into()),
        }
    }

    fn verify(&self, record: &[u8], at: u64) -> Result<(), Fault> {
        let stored = u32::from_le_bytes(*record[8..].first_chunk().expect("a head"));
        Fault::unless_equal(stored, crc(&[&at.to_le_bytes(), &record[..8], &record[HEAD..]]))
    }
}

/// The record of a body at a place.
fn record(align: u64, body: &[u8], at: u64) -> Vec<u8> {
    let length = (HEAD + body.len()).next_multiple_of(align as usize);
    let mut bytes = b"mark".to_vec();
    bytes.extend((length as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes.resize(length, 0);
    let sum = crc(&[&at.to_le_bytes(), &bytes[..8], &bytes[HEAD..]]);
    bytes[8..HEAD].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The records of a log by their places.
type Log = BTreeMap<u64, Vec<u8>>;

/// A log of these bodies, and its bytes.
fn log_of(align: u64, bodies: &[Vec<u8>]) -> (Log, Vec<u8>) {
    let (mut log, mut bytes) = (Log::new(), vec![]);
    for body in bodies {
        let at = bytes.len() as u64;
        let record = record(align, body, at);
        bytes.extend(&record);
        log.insert(at, record);
    }
    (log, bytes)
}

/// Returns the records that a walk finds, and the stretches between them.
fn found<F: Framing>(framing: F, bytes: &[u8]) -> (Log, Vec<DamagedRange>) {
    let (mut log, mut stretches) = (Log::new(), vec![]);
    let mut walk = Walk::new(bytes, framing, 0, bytes.len() as u64);
    loop {
        match walk.step().expect("it is in memory") {
            Step::Record { bytes, at, end } => {
                assert_eq!(end - at, bytes.len() as u64);
                log.insert(at, bytes.to_vec());
            }
            Step::Damage(stretch) => stretches.push(stretch),
            Step::Skipped => panic!("all are wanted"),
            Step::End => return (log, stretches),
        }
    }
}

/// Checks a walk over a log whose bytes differ from offset `from` on, and match again from `to` on.
fn check<F: Framing + Copy>(framing: F, log: &Log, bytes: &[u8], (from, to): (u64, u64)) {
    let (records, stretches) = found(framing, bytes);
    for (at, record) in &records {
        assert_eq!(log.get(at), Some(record), "a record at {at} that was never written");
    }
    for (at, record) in log {
        let end = at + record.len() as u64;
        let is_there = end <= from || (*at >= to && end <= bytes.len() as u64);
        assert!(!is_there || records.contains_key(at), "the record at {at} is unharmed and was not found");
        let mut buffer = vec![];
        let read = read_record(bytes, framing, *at, &mut buffer).expect("it is in memory");
        assert_eq!(read.ok(), records.get(at).map(Vec::as_slice));
    }
    // Records and stretches cover all bytes, once.
    let mut pieces: BTreeMap<u64, u64> = records.iter().map(|(at, record)| (*at, record.len() as u64)).collect();
    pieces.extend(stretches.iter().map(|stretch| (stretch.at, stretch.length)));
    let end = pieces.iter().fold(0, |end, (at, length)| {
        assert_eq!(end, *at);
        end + length
    });
    assert_eq!(end, bytes.len() as u64);
    let last = records.last_key_value().map_or(0, |(at, record)| at + record.len() as u64);
    assert!(stretches.iter().all(|stretch| stretch.to_end == (stretch.at >= last)), "{stretches:?}");
    // Later records decide whether an invalid stretch is torn.
    if let Some(first) = stretches.first() {
        let mut walk = Walk::new(bytes, framing, first.at, bytes.len() as u64);
        let mut behind = vec![];
        walk.rest(|bytes, at| behind.push((at, bytes.to_vec()))).expect("it is in memory");
        assert!(behind.iter().map(|(at, bytes)| (at, bytes)).eq(records.range(first.at..)));
    }
}

fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let byte = prop_oneof![3 => any::<u8>(), 1 => Just(0u8), 1 => Just(b'm')];
    prop::collection::vec(prop::collection::vec(byte, 0..80), 1..12)
}

fn damaged(mutation: impl Fn(u64) -> Mutation, bytes: &[u8]) -> (Vec<u8>, (u64, u64)) {
    let mut bytes = bytes.to_vec();
    let length = bytes.len() as u64;
    match mutation(length) {
        Mutation::Flip { at, bit } => {
            bytes[at as usize] ^= 1 << bit;
            (bytes, (at, at + 1))
        }
        Mutation::Zero { at, length } => {
            bytes[at as usize..(at + length) as usize].fill(0);
            (bytes, (at, at + length))
        }
        Mutation::Cut { length } => {
            bytes.truncate(length as usize);
            (bytes, (length, u64::MAX))
        }
    }
}

proptest! {
    #[test]
    fn damage_keeps_the_rest_and_reads_nothing_wrong(
        bodies in bodies(), place in any::<u64>(), size in 1u64..200, kind in 0..3, bit in 0u8..8,
    ) {
        let mutation = |length: u64| {
            let at = place % length;
            match kind {
                0 => Mutation::Flip { at, bit },
                1 => Mutation::Zero { at, length: size.min(length - at) },
                _ => Mutation::Cut { length: at },
            }
        };
        let (log, bytes) = log_of(1, &bodies);
        let (bad, changed) = damaged(mutation, &bytes);
        check(Test::<1, true>, &log, &bad, changed);
        check(Test::<1, false>, &log, &bad, changed);
        let (log, bytes) = log_of(8, &bodies);
        let (bad, changed) = damaged(mutation, &bytes);
        check(Test::<8, true>, &log, &bad, changed);
    }

    /// A disk that fails in any detected way: the file holds all acknowledged data, and nothing else.
    #[test]
    fn a_record_is_appended_whole_or_not_at_all(
        steps in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..60), 0u64..90, 1u64..40, 0..5), 1..20),
    ) {
        let file = Arc::new(Memory::default());
        let faults: Arc<Faults> = Arc::default();
        let mut end = Appender::new(Arc::new(Faulty::over(file.clone(), 0, &faults)), 0);
        let mut log = Log::new();
        for (body, room, piece, fault) in steps {
            faults.leave(if fault < 3 { room } else { u64::MAX });
            faults.shorten(piece);
            faults.refuse_cuts(fault == 1);
            faults.refuse_writes(fault == 3);
            let at = end.end();
            let record = record(1, &body, at);
            let (head, rest) = record.split_at(HEAD);
            let appended = end.append(&mut [IoSlice::new(head), IoSlice::new(&[]), IoSlice::new(rest)]);
            match appended {
                Ok(()) => drop(log.insert(at, record)),
                Err(_) => prop_assert_eq!(end.end(), at),
            }
        }
        faults.refuse_cuts(false);
        end.clear_rest().expect("the disk cuts again");
        let mut bytes = vec![0; file.length().expect("a length") as usize];
        prop_assert_eq!(Source::read(&*file, &mut bytes, 0).expect("it is read"), bytes.len());
        prop_assert_eq!(found(Test::<1, true>, &bytes), (log, vec![]));
    }

    /// A disk that fails silently: torn and misdirected writes are never read as valid records.
    #[test]
    fn silently_lost_write_is_not_read(
        bodies in bodies(), kept in 0u64..600, nth in 0usize..12, to in any::<u64>(),
    ) {
        let file = Arc::new(Memory::default());
        let faults: Arc<Faults> = Arc::default();
        let mut end = Appender::new(Arc::new(Faulty::over(file.clone(), 0, &faults)), 0);
        let (log, whole) = log_of(1, &bodies);
        faults.tear_after(kept);
        log.values().for_each(|record| end.append(&mut [IoSlice::new(record)]).expect("it says that it is written"));
        let kept = kept.min(whole.len() as u64);
        check(Test::<1, true>, &log, &whole[..kept as usize], (kept, u64::MAX));
        prop_assert_eq!(file.length().expect("a length"), kept);
        // The same with one misdirected record.
        let file = Arc::new(Memory::default());
        let faults: Arc<Faults> = Arc::default();
        let mut end = Appender::new(Arc::new(Faulty::over(file.clone(), 0, &faults)), 0);
        for (at, record) in log.values().enumerate() {
            if at == nth {
                faults.misdirect(to % (whole.len() as u64 + 50));
            }
            end.append(&mut [IoSlice::new(record)]).expect("it says that it is written");
        }
        let mut bytes = vec![0; file.length().expect("a length") as usize];
        Source::read(&*file, &mut bytes, 0).expect("it is read");
        let (records, _) = found(Test::<1, true>, &bytes);
        prop_assert!(records.iter().all(|(at, record)| log.get(at) == Some(record)));
    }
}

#[test]
fn unwanted_records_are_passed_over_unread() {
    let (log, mut bytes) = log_of(1, &[vec![1; 9], vec![2; 9], vec![3; 9]]);
    let second = *log.keys().nth(1).expect("there are three");
    bytes[second as usize + HEAD + 4] ^= 1;
    let mut walk = Walk::new(&bytes[..], Test::<1, true>, 0, bytes.len() as u64);
    let mut seen = vec![];
    loop {
        match walk.step_where(HEAD + 1, |head| head[HEAD] != 2).expect("it is in memory") {
            Step::Record { bytes, .. } => seen.push(bytes[HEAD]),
            Step::Skipped => seen.push(0),
            Step::Damage(stretch) => panic!("{stretch:?}"),
            Step::End => break,
        }
    }
    assert_eq!(seen, [1, 0, 3]);
}

#[test]
fn windows_longer_than_a_file_are_an_error() {
    let bytes = [7u8; 10];
    let mut window = Window::new(&bytes[..], 20);
    assert!(window.bytes(4, 3).is_err());
    let mut window = Window::new(&bytes[..], 10);
    assert_eq!(window.bytes(8, 30).expect("there are two"), [7, 7]);
}

#[test]
fn syncs_cover_what_was_written_before_them() {
    let file = tempfile::tempfile().expect("a file");
    let faults: Arc<Faults> = Arc::default();
    let disk = Arc::new(Faulty::sharing(file, &faults));
    let mut end = Appender::new(disk.clone(), 0);
    end.append(&mut [IoSlice::new(&[1; 10])]).expect("written");
    faults.hold_syncs();
    let syncing = std::thread::spawn({
        let disk = disk.clone();
        move || disk.sync()
    });
    assert_eq!(disk.covered(), 0);
    faults.allow_syncs(1);
    syncing.join().expect("no panic").expect("synced");
    assert_eq!(disk.covered(), 10);
    end.append(&mut [IoSlice::new(&[2; 10])]).expect("written");
    faults.refuse_syncs(true);
    faults.allow_syncs(1);
    assert!(disk.sync().expect_err("refused").to_string().contains("broken"));
    assert_eq!(disk.covered(), 10);
    end.cut(4).expect("cut");
    assert_eq!(disk.covered(), 4);
}

#[test]
fn files_are_listed_locked_and_named() {
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["0000000010.log", "9.log", "x.log", "7.index", "log"] {
        File::create(dir.path().join(name)).expect("made");
    }
    assert_eq!(files::numbered(dir.path(), "log").expect("listed"), [9, 10]);
    let path = dir.path().join("lock");
    let held = files::lock(&path).expect("free");
    assert!(matches!(files::lock(&path), Err(std::fs::TryLockError::WouldBlock)));
    drop(held);
    files::lock(&path).expect("free again");
    files::finish(&dir.path().join("9.log"), &dir.path().join("8.log")).expect("renamed");
    assert_eq!(files::numbered(dir.path(), "log").expect("listed"), [8, 10]);
    assert!(is_blank(&[0u8; 70_000][..]).expect("in memory") && !is_blank(&[0, 1u8][..]).expect("in memory"));
}
