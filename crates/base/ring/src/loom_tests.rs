//! Model checks of the lock-free core: every interleaving, and every value that the memory model lets a load return.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p hearth-ring --lib`. Rings are as short as possible (two
//! entries), so that a few frags suffice to wrap around.

use crate::EventCount;
use crate::protocol::{Entry, Label, PollOutcome, Receiver, Sender, initial_seq, load_words, store_words};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

const DEPTH: usize = 2;
const SLOTS: usize = DEPTH + 1;

fn ring() -> Vec<Entry> {
    let word = |value| AtomicU64::new(value);
    (0..DEPTH).map(|index| Entry([word(initial_seq(index, DEPTH)), word(0), word(0), word(0)])).collect()
}

/// A label that reveals torn metadata: every field follows from the sequence number.
fn label(seq: u64) -> Label {
    Label {
        tag: seq * 3 + 1,
        size: 16,
        control: seq as u16 + 5,
        origin_us: seq as u32 + 7,
        publish_ns: seq as u32 + 11,
    }
}

fn check(meta: &crate::FragMeta) {
    let seq = meta.seq;
    let expected = label(seq);
    assert_eq!((meta.tag, meta.size, meta.control), (expected.tag, expected.size, expected.control));
    assert_eq!((meta.origin_us, meta.publish_ns), (expected.origin_us, expected.publish_ns));
    assert_eq!(u64::from(meta.chunk), seq % SLOTS as u64);
}

struct Reliable {
    entries: Vec<Entry>,
    /// Plain memory: loom reports any access that races with another.
    slots: Vec<UnsafeCell<u64>>,
    progress: Vec<AtomicU64>,
}

fn reliable(consumers: usize) -> Arc<Reliable> {
    let slots = (0..SLOTS).map(|_| UnsafeCell::new(0)).collect();
    let progress = (0..consumers).map(|_| AtomicU64::new(0)).collect();
    Arc::new(Reliable { entries: ring(), slots, progress })
}

fn publish_reliably(link: &Reliable, frags: u64) {
    let mut sender = Sender::new(&link.entries, 1, false, true);
    for seq in 0..frags {
        // Written before there is a credit, as `Producer::buffer` allows.
        link.slots[sender.chunk() as usize].with_mut(|slot| {
            // SAFETY: loom checks that nobody else accesses the slot.
            unsafe { *slot = seq + 100 }
        });
        while sender.cached_credits() == 0 && sender.refresh_credits(link.progress.iter()).0 == 0 {
            thread::yield_now();
        }
        sender.publish(label(seq));
    }
}

/// Takes and verifies one frag, if there is one.
fn take_reliably(link: &Reliable, receiver: &mut Receiver<'_>) -> bool {
    match receiver.poll() {
        PollOutcome::Ready(meta) => {
            assert_eq!(meta.seq, receiver.seq());
            check(&meta);
            let payload = link.slots[meta.chunk as usize].with(|slot| {
                // SAFETY: loom checks that nobody writes the slot meanwhile.
                unsafe { *slot }
            });
            assert_eq!(payload, meta.seq + 100);
            receiver.advance();
            true
        }
        PollOutcome::Empty => false,
        PollOutcome::Overrun(_) => panic!("a reliable consumer was overtaken"),
    }
}

fn consume_reliably(link: &Reliable, frags: u64, burst: u64) {
    let mut receiver = Receiver::new(&link.entries, false);
    while receiver.seq() < frags {
        if !take_reliably(link, &mut receiver) {
            thread::yield_now();
        } else if receiver.seq().is_multiple_of(burst) {
            link.progress[0].store(receiver.seq(), Ordering::Release);
        }
    }
}

fn model(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(body);
}

#[test]
fn every_frag_arrives_once_in_order_and_unread_payloads_are_never_overwritten() {
    model(Some(3), || {
        let link = reliable(1);
        let other = link.clone();
        let producer = thread::spawn(move || publish_reliably(&other, 5));
        consume_reliably(&link, 5, 1);
        producer.join().unwrap();
    });
}

#[test]
fn credits_given_back_in_bursts_suffice() {
    model(Some(3), || {
        let link = reliable(1);
        let other = link.clone();
        let producer = thread::spawn(move || publish_reliably(&other, 4));
        consume_reliably(&link, 4, 2);
        producer.join().unwrap();
    });
}

#[test]
fn the_slowest_of_two_consumers_holds_the_producer() {
    model(Some(3), || {
        let link = reliable(2);
        let other = link.clone();
        let producer = thread::spawn(move || publish_reliably(&other, 4));
        let mut quick = Receiver::new(&link.entries, false);
        let mut slow = Receiver::new(&link.entries, false);
        while slow.seq() < 4 {
            if take_reliably(&link, &mut quick) {
                link.progress[0].store(quick.seq(), Ordering::Release);
            } else if !take_reliably(&link, &mut slow) {
                thread::yield_now();
            }
            if slow.seq().is_multiple_of(2) {
                link.progress[1].store(slow.seq(), Ordering::Release);
            }
        }
        producer.join().unwrap();
    });
}

struct Lossy {
    entries: Vec<Entry>,
    slots: Vec<[AtomicU64; 2]>,
}

fn bytes(seq: u64) -> [u8; 16] {
    std::array::from_fn(|at| (seq as u8 + 1) * 16 + at as u8)
}

fn publish_lossily(link: &Lossy, frags: u64) {
    let mut sender = Sender::new(&link.entries, 1, true, false);
    for seq in 0..frags {
        store_words(&link.slots[sender.chunk() as usize], &bytes(seq));
        sender.publish(label(seq));
    }
}

/// Polls `polls` times, verifies everything accepted, and returns the numbers of frags accepted and lost.
fn consume_lossily(link: &Lossy, polls: usize) -> (u64, u64, u64) {
    let mut receiver = Receiver::new(&link.entries, true);
    let (mut accepted, mut lost) = (0, 0);
    for _ in 0..polls {
        match receiver.poll() {
            PollOutcome::Ready(meta) => {
                assert_eq!(meta.seq, receiver.seq());
                check(&meta);
                let mut copy = [[0; 8]; 2];
                load_words(&link.slots[meta.chunk as usize], &mut copy);
                match receiver.recheck(meta.seq) {
                    Ok(()) => {
                        assert_eq!(copy.as_flattened(), bytes(meta.seq));
                        accepted += 1;
                        receiver.advance();
                    }
                    Err(overrun) => lost += overrun,
                }
            }
            PollOutcome::Empty => {}
            PollOutcome::Overrun(overrun) => lost += overrun,
        }
    }
    (accepted, lost, receiver.seq())
}

fn lossy_model(frags: u64, polls: usize, preemptions: usize) {
    model(Some(preemptions), move || {
        let link = Arc::new(Lossy {
            entries: ring(),
            slots: (0..SLOTS).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect(),
        });
        let other = link.clone();
        let producer = thread::spawn(move || publish_lossily(&other, frags));
        let (accepted, lost, seq) = consume_lossily(&link, polls);
        assert_eq!(accepted + lost, seq, "every frag is either accepted or counted as lost");
        producer.join().unwrap();
    });
}

#[test]
fn no_torn_metadata_or_payload_is_accepted_when_an_entry_is_reused() {
    lossy_model(3, 1, 5);
}

#[test]
fn no_torn_payload_is_accepted_when_a_slot_is_reused() {
    lossy_model(4, 1, 4);
}

#[test]
fn an_overrun_consumer_continues_and_counts_what_it_lost() {
    lossy_model(4, 2, 3);
}

#[test]
fn an_overrun_is_certain_when_the_producer_laps_a_consumer_that_waits() {
    model(None, || {
        let link =
            Lossy { entries: ring(), slots: (0..SLOTS).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect() };
        publish_lossily(&link, 3);
        assert_eq!(consume_lossily(&link, 4), (1, 2, 3));
    });
}

/// Two flags, and the threads that wait for them.
struct Flags {
    events: EventCount,
    flags: [AtomicUsize; 2],
}

impl Flags {
    fn new() -> Arc<Self> {
        Arc::new(Self { events: EventCount::new(), flags: [AtomicUsize::new(0), AtomicUsize::new(0)] })
    }

    fn raise(&self, index: usize) {
        self.flags[index].store(1, Ordering::Relaxed);
        self.events.notify();
    }

    fn wait_for(&self, index: usize) {
        self.events.wait_until(|| self.flags[index].load(Ordering::Relaxed) == 1);
    }
}

/// A lost wake-up leaves a thread asleep for ever, which loom reports as a deadlock.
#[test]
fn no_wake_up_of_an_event_count_is_lost() {
    model(Some(3), || {
        let shared = Flags::new();
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.raise(0);
            other.wait_for(1);
        });
        shared.wait_for(0);
        shared.raise(1);
        thread.join().unwrap();
    });
}

#[test]
fn two_sleepers_of_an_event_count_each_get_their_own() {
    model(Some(2), || {
        let shared = Flags::new();
        let sleepers = [0, 1].map(|index| {
            let other = shared.clone();
            thread::spawn(move || other.wait_for(index))
        });
        shared.raise(1);
        shared.raise(0);
        for sleeper in sleepers {
            sleeper.join().unwrap();
        }
    });
}
