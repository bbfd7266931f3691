//! How many frags a link carries: `cargo bench -p hearth-ring`.
//!
//! Two threads on two cores (0 and 1): the producer publishes as fast as credits allow, the consumer reads every frag
//! and releases once per burst. A round is four million frags, with the threads already running. If the system permits,
//! both run at real-time priority: if either loses its core, both stand still, and the result would measure the
//! machine's load. `same thread` alternates bursts of publishing and consuming on one core, as tiles do that share one.

#![allow(unsafe_code)]

use hearth_ring::{Consumer, ConsumerPlan, LinkPlan, PollResult, Producer, Workspace, WorkspacePlan};
use hearth_testkit::bench::{Bench, Unit};
use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const DEPTH: u32 = 1024;
const DEEP: u32 = 16384;
const BURST: usize = 64;
/// Frags per round of two threads.
const FRAGS: u64 = 4_000_000;
const PAYLOAD: usize = 200;

fn main() {
    let bench = Bench::from_args();
    two_cores(&bench, "ring 1→1, metadata only", None, DEPTH, 0, true);
    two_cores(&bench, "ring 1→1, metadata only, depth 16384", None, DEEP, 0, true);
    two_cores(&bench, "ring 1→1, 200 B written and read", Some(20e6), DEPTH, PAYLOAD, true);
    two_cores(&bench, "ring 1→1, 200 B, depth 16384", None, DEEP, PAYLOAD, true);
    two_cores(&bench, "ring 1→1 lossy, 200 B written and copied", None, DEPTH, PAYLOAD, false);
    same_thread(&bench, "ring same thread, metadata only", 0);
    same_thread(&bench, "ring same thread, 200 B written and read", PAYLOAD);
}

fn link(depth: u32, mtu: u32, reliable: bool) -> (Workspace, Producer, Consumer) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("hearth-bench-ring-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::path::Path::new("/dev/shm").join(name);
    let consumers = vec![ConsumerPlan { name: "b".into(), reliable }];
    let links = vec![LinkPlan { name: "a_b".into(), depth, mtu, consumers }];
    let workspace =
        Workspace::create(&path, &WorkspacePlan { links, ..WorkspacePlan::default() }).expect("room in /dev/shm");
    let (producer, consumer) =
        (workspace.producer("a_b").expect("free"), workspace.consumer("a_b", "b").expect("free"));
    (workspace, producer, consumer)
}

/// Publishes up to a burst, as far as credits allow; returns how many.
#[inline(always)]
fn publish_burst(producer: &mut Producer, most: usize, size: usize) -> usize {
    let burst = producer.credits(1).min(most);
    for _ in 0..burst {
        let seq = producer.seq();
        if size > 0 {
            for word in producer.buffer()[..size].as_chunks_mut::<8>().0 {
                *word = seq.to_le_bytes();
            }
        }
        producer.publish(size, seq, 0, 0, 0);
    }
    burst
}

/// Reads up to a burst, every byte of every payload; returns how many frags, and whether it ran out of them.
#[inline(always)]
fn consume_burst(consumer: &mut Consumer, sum: &mut u64) -> usize {
    for taken in 0..BURST {
        match consumer.poll() {
            PollResult::Ready(meta) => {
                *sum = sum.wrapping_add(meta.tag);
                if meta.size > 0 {
                    match consumer.payload(&meta) {
                        Ok(payload) => {
                            *sum = payload
                                .as_chunks::<8>()
                                .0
                                .iter()
                                .fold(*sum, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
                        }
                        Err(_) => continue,
                    }
                }
                consumer.advance();
            }
            PollResult::Empty => {
                consumer.release();
                return taken;
            }
            PollResult::Overrun { .. } => {}
        }
    }
    consumer.release();
    BURST
}

fn two_cores(bench: &Bench, name: &str, floor: Option<f64>, depth: u32, size: usize, reliable: bool) {
    let (_workspace, mut producer, mut consumer) = link(depth, size as u32, reliable);
    let (start, target) = (Barrier::new(2), AtomicU64::new(0));
    thread::scope(|scope| {
        let (start, target) = (&start, &target);
        scope.spawn(move || {
            take_core(1);
            let mut sum = 0;
            loop {
                start.wait();
                let until = target.load(Ordering::Acquire);
                if until == u64::MAX {
                    return black_box(sum);
                }
                while consumer.seq() < until {
                    if consume_burst(&mut consumer, &mut sum) == 0 {
                        (0..8).for_each(|_| spin_loop());
                    }
                }
                start.wait();
            }
        });
        take_core(0);
        bench.run(name, Unit::PerSecond, floor, || {
            let until = producer.seq() + FRAGS;
            target.store(until, Ordering::Release);
            start.wait();
            while producer.seq() < until {
                let most = BURST.min((until - producer.seq()) as usize);
                if publish_burst(&mut producer, most, size) == 0 {
                    (0..8).for_each(|_| spin_loop());
                }
            }
            start.wait();
            FRAGS
        });
        target.store(u64::MAX, Ordering::Release);
        start.wait();
        schedule(libc::SCHED_OTHER, 0);
    });
}

fn same_thread(bench: &Bench, name: &str, size: usize) {
    let (_workspace, mut producer, mut consumer) = link(DEPTH, size as u32, true);
    let mut sum = 0;
    bench.run(name, Unit::PerSecond, None, || {
        for _ in 0..1000 {
            publish_burst(&mut producer, BURST, size);
            consume_burst(&mut consumer, &mut sum);
        }
        1000 * BURST as u64
    });
    black_box(sum);
}

/// Pins this thread to `core` and requests real-time priority.
fn take_core(core: usize) {
    // SAFETY: plain bits; an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: within the set as long as `core` is below 1024.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: a system call that reads `set`.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    if result != 0 {
        println!("ring: cannot pin a thread to core {core}; figures will be lower");
    }
    schedule(libc::SCHED_FIFO, 1);
}

/// Sets this thread's scheduling policy if permitted; without the privilege it is unchanged.
fn schedule(policy: libc::c_int, priority: libc::c_int) {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: a system call that reads `parameters`.
    unsafe { libc::sched_setscheduler(0, policy, &parameters) };
}
