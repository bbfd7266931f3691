//! Two consumers and a producer on their own threads, with payloads of random sizes whose checksum is the tag: the
//! reliable consumer gets every frag; the lossy one is overtaken repeatedly and accepts nothing torn.

use super::{Consumer, PollResult, link};
use hearth_testkit::random::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MTU: usize = if cfg!(miri) { 100 } else { 1232 };
const FRAGS: u64 = if cfg!(miri) { 300 } else { 100_000 };
/// Maximum time without progress. The threads yield but never sleep, because they should meet at the ring's ends.
const DEADLINE: Duration = Duration::from_secs(300);

fn mix(seed: u64) -> u64 {
    Random(seed).word()
}

fn fill(payload: &mut [u8], seq: u64) -> usize {
    let size = mix(seq) as usize % (MTU + 1);
    for (at, bytes) in payload[..size].chunks_mut(8).enumerate() {
        bytes.copy_from_slice(&mix(seq << 8 ^ at as u64).to_le_bytes()[..bytes.len()]);
    }
    size
}

fn checksum(payload: &[u8]) -> u64 {
    payload
        .iter()
        .fold(payload.len() as u64, |sum, &byte| sum.rotate_left(5).wrapping_mul(0x100_0000_01b3) ^ u64::from(byte))
}

fn consume(consumer: &mut Consumer, done: &AtomicBool, mut before_each: impl FnMut(u64)) -> (u64, u64) {
    let (mut accepted, mut lost) = (0, 0);
    let mut last = None;
    let mut since = Instant::now();
    loop {
        before_each(consumer.seq());
        // Read before polling: if it is set, `Empty` means that no more frags come.
        let finished = done.load(Ordering::Acquire);
        match consumer.poll() {
            PollResult::Ready(meta) => {
                since = Instant::now();
                assert!(last < Some(meta.seq), "in order, once");
                last = Some(meta.seq);
                match consumer.payload(&meta) {
                    Ok(payload) => {
                        assert_eq!(checksum(payload), meta.tag, "the payload of frag {}", meta.seq);
                        assert_eq!(payload.len(), mix(meta.seq) as usize % (MTU + 1));
                        accepted += 1;
                        consumer.advance();
                    }
                    Err(overrun) => lost += overrun.lost,
                }
            }
            PollResult::Overrun { lost: more } => lost += more,
            PollResult::Empty if finished => {
                consumer.release();
                return (accepted, lost);
            }
            PollResult::Empty => {
                consumer.release();
                thread::yield_now();
                assert!(since.elapsed() < DEADLINE, "the producer came to a stop");
            }
        }
        if consumer.seq().is_multiple_of(16) {
            consumer.release();
        }
    }
}

fn stress(depth: u32) {
    let (mut producer, mut consumers) = link(depth, MTU as u32, &[("reliable", true), ("lossy", false)]);
    let (mut lossy, mut reliable) = (consumers.pop().unwrap(), consumers.pop().unwrap());
    let (done, published) = (AtomicBool::new(false), AtomicU64::new(0));
    let lap = u64::from(depth);
    thread::scope(|scope| {
        let reliable = scope.spawn(|| consume(&mut reliable, &done, |_| {}));
        let lossy = scope.spawn(|| {
            // Every few laps, waits until it is more than a lap behind.
            let mut next_wait = 0;
            consume(&mut lossy, &done, |seq| {
                if seq < next_wait {
                    return;
                }
                while published.load(Ordering::Acquire) < (seq + lap + 1).min(FRAGS) {
                    thread::yield_now();
                }
                next_wait = seq + 4 * lap;
            })
        });
        for seq in 0..FRAGS {
            let since = Instant::now();
            while producer.credits(1) == 0 {
                assert!(since.elapsed() < DEADLINE, "the reliable consumer came to a stop");
                thread::yield_now();
            }
            let size = fill(producer.buffer(), seq);
            let tag = checksum(&producer.buffer()[..size]);
            producer.publish(size, tag, 0, 0, 0);
            published.store(producer.seq(), Ordering::Release);
        }
        done.store(true, Ordering::Release);
        assert_eq!(reliable.join().unwrap(), (FRAGS, 0));
        let (accepted, lost) = lossy.join().unwrap();
        assert_eq!(accepted + lost, FRAGS);
        assert!(lost > lap / 2, "it was overtaken ({lost} lost)");
        assert!(accepted > 0, "it went on");
    });
}

#[test]
fn short_ring_under_stress() {
    stress(4);
}

#[test]
fn long_ring_under_stress() {
    stress(128);
}
