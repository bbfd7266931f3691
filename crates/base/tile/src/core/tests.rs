//! A core's thread: turns, parking and waking of the tiles that share it.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use hearth_testkit::{PATIENCE, wait_until};

use super::*;
use crate::Poll;
use crate::testing::{ScriptedTile, Shared as Script, Wire, Wires, look, script};

const NEVER_PARK: IdlePolicy = IdlePolicy { park_after_ns: u64::MAX, sleep_max_ns: IdlePolicy::SLEEP_MAX_NS };
const PARK_AT_ONCE: IdlePolicy = IdlePolicy { park_after_ns: 0, ..NEVER_PARK };
/// Without a wake-up, a core sleeps for longer than a test waits.
const SLEEP_UNTIL_WOKEN: IdlePolicy = IdlePolicy { sleep_max_ns: 10 * PATIENCE.as_nanos() as u64, ..PARK_AT_ONCE };

fn waker() -> Waker {
    Waker::new().unwrap()
}

fn core(name: &str, tiles: Vec<Box<dyn Runnable>>, waker: &Waker, wires: &Wires, idle: IdlePolicy) -> Core {
    Core { name: name.into(), pin: None, tiles, waker: waker.clone(), clock: wires.clock.clone(), idle, lends: false }
}

fn alone(names: &[&str]) -> Wires {
    Wires::new(Clock::real(), names, &[])
}

fn tile(wires: &Wires, name: &str, script: &Script) -> Box<dyn Runnable> {
    Box::new(wires.runner::<ScriptedTile<1>>(name, script.clone(), &waker(), &[]))
}

/// A producer on one core and a consumer on another.
struct Pair {
    wires: Wires,
    fleet: Fleet,
    wakers: [Waker; 2],
    taken: Script,
    /// The producer publishes until it has published this many.
    wanted: Arc<AtomicU64>,
}

impl Pair {
    fn start(idle: IdlePolicy) -> Self {
        Self::of(idle, false)
    }

    /// Two cores that lend each other tiles: the first borrows.
    fn lending(idle: IdlePolicy) -> Self {
        Self::of(idle, true)
    }

    fn of(idle: IdlePolicy, lends: bool) -> Self {
        let wire = Wire { name: "out", from: "a:0", to: "b:0", reliable: true };
        let wires = Wires::new(Clock::real(), &["a:0", "b:0"], &[wire]);
        let (given, taken, wanted) = (script(), script(), Arc::new(AtomicU64::new(0)));
        {
            let (wanted, mut published) = (wanted.clone(), 0);
            let mut script = look(&given);
            script.publish = [0, 0, 1];
            script.on_poll = Box::new(move || {
                let more = published < wanted.load(Ordering::Acquire);
                published += u64::from(more);
                if more { Poll::Busy } else { Poll::Idle }
            });
        }
        let wakers = [waker(), waker()];
        let producer = wires.runner::<ScriptedTile<1>>("a:0", given, &wakers[0], &[("b:0", &wakers[1])]);
        let consumer = wires.runner::<ScriptedTile<1>>("b:0", taken.clone(), &wakers[1], &[("a:0", &wakers[0])]);
        let cores = [("a", Box::new(producer) as Box<dyn Runnable>), ("b", Box::new(consumer))];
        let cores = cores.into_iter().zip(&wakers);
        let cores = cores.map(|((name, tile), waker)| Core { lends, ..core(name, vec![tile], waker, &wires, idle) });
        let cores = cores.collect();
        Self { fleet: Fleet::start(cores).unwrap(), wires, wakers, taken, wanted }
    }

    /// Requests frags until `count` were moved in all, and waits for them.
    fn move_until(&self, count: u64) {
        self.wanted.store(count, Ordering::Release);
        self.wakers[0].wake();
        wait_until("frags arrive", || look(&self.taken).taken.len() as u64 == count);
        let taken = look(&self.taken);
        assert!(taken.taken.iter().zip(0u64..).all(|(byte, n)| *byte == n as u8), "each once and in order");
    }
}

#[test]
fn two_spinning_cores_move_every_frag() {
    let pair = Pair::start(NEVER_PARK);
    pair.move_until(2_000);
    assert!(!pair.wakers.iter().any(Waker::is_parked), "this policy never sleeps");
    let Pair { fleet, wires, .. } = pair;
    fleet.stop().unwrap();
    assert_eq!((wires.word("a:0", "frags_out"), wires.word("b:0", "frags_in")), (2_000, 2_000));
    assert_eq!((wires.word("a:0", "state"), wires.word("b:0", "state")), (2, 2));
}

/// Repeatedly: both cores sleep, the producer continues, and more frags than the link holds must pass. One
/// missed wake-up of the four involved would block them.
#[test]
fn sleeping_cores_are_woken_by_frags_and_by_room() {
    let pair = Pair::start(SLEEP_UNTIL_WOKEN);
    for round in 1..=60 {
        wait_until("both sleep", || pair.wakers.iter().all(Waker::is_parked));
        pair.move_until(round * 30);
    }
    pair.fleet.stop().unwrap();
}

#[test]
fn a_deadline_wakes_a_sleeping_core() {
    let wires = alone(&["a:0"]);
    let (script, polls) = (script(), Arc::new(AtomicU64::new(0)));
    let (clock, counted) = (wires.clock.clone(), polls.clone());
    look(&script).on_poll = Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Poll::Idle
    });
    // Much sooner than the longest sleep; each sleep is followed by two polls.
    look(&script).wait_for =
        Box::new(move || crate::WaitFor { deadline: Some(clock.now() + 1_000_000), ..Default::default() });
    let sleeps = core("a", vec![tile(&wires, "a:0", &script)], &waker(), &wires, SLEEP_UNTIL_WOKEN);
    let fleet = Fleet::start(vec![sleeps]).unwrap();
    wait_until("fifty sleeps", || polls.load(Ordering::Relaxed) >= 100);
    fleet.stop().unwrap();
}

/// What the tiles do before a sleep takes time, which the sleep is shorter by: here all of it.
#[test]
fn a_deadline_does_not_move_while_a_core_prepares_its_sleep() {
    let wires = Wires::new(Clock::manual(), &["a:0"], &[]);
    let (script, asked) = (script(), Arc::new(AtomicU64::new(0)));
    let (clock, counted, far) = (wires.clock.clone(), asked.clone(), 10 * PATIENCE);
    look(&script).wait_for = Box::new(move || {
        if counted.fetch_add(1, Ordering::Relaxed) >= 3 {
            return crate::WaitFor::default();
        }
        let deadline = Some(clock.now() + far.as_nanos() as u64);
        clock.advance(far);
        crate::WaitFor { deadline, ..Default::default() }
    });
    let sleeps = core("a", vec![tile(&wires, "a:0", &script)], &waker(), &wires, SLEEP_UNTIL_WOKEN);
    let fleet = Fleet::start(vec![sleeps]).unwrap();
    wait_until("three sleeps", || asked.load(Ordering::Relaxed) > 3);
    fleet.stop().unwrap();
}

#[test]
fn a_descriptor_wakes_a_sleeping_core() {
    use std::os::fd::AsRawFd;
    let wires = alone(&["a:0"]);
    let (mut here, there) = std::os::unix::net::UnixStream::pair().unwrap();
    there.set_nonblocking(true).unwrap();
    let (script, seen) = (script(), Arc::new(AtomicU64::new(0)));
    let (fd, counted) = (there.as_raw_fd(), seen.clone());
    look(&script).wait_for = Box::new(move || crate::WaitFor { readable: vec![fd], ..Default::default() });
    look(&script).on_poll = Box::new(move || {
        let read = std::io::Read::read(&mut &there, &mut [0; 8]).unwrap_or(0);
        counted.fetch_add(read as u64, Ordering::Relaxed);
        if read > 0 { Poll::Busy } else { Poll::Idle }
    });
    let waker = waker();
    let sleeps = core("a", vec![tile(&wires, "a:0", &script)], &waker, &wires, SLEEP_UNTIL_WOKEN);
    let fleet = Fleet::start(vec![sleeps]).unwrap();
    for round in 1..=40 {
        wait_until("it sleeps", || waker.is_parked());
        std::io::Write::write_all(&mut here, b"x").unwrap();
        wait_until("it reads", || seen.load(Ordering::Relaxed) == round);
    }
    fleet.stop().unwrap();
}

/// Readable descriptors that nobody reads end each sleep at once, so the core sleeps often.
#[test]
fn a_sleep_reports_to_each_tile_which_of_its_descriptors_are_readable() {
    use std::os::fd::AsRawFd;
    let wires = alone(&["a:0", "b:0"]);
    let pairs = [(); 3].map(|()| std::os::unix::net::UnixStream::pair().unwrap());
    let [first, second, loud] = pairs.each_ref().map(|(here, _)| here.as_raw_fd());
    std::io::Write::write_all(&mut &pairs[2].1, b"x").unwrap();
    let scripts = [script(), script()];
    look(&scripts[0]).wait_for = Box::new(move || crate::WaitFor { readable: vec![first], ..Default::default() });
    look(&scripts[1]).wait_for =
        Box::new(move || crate::WaitFor { readable: vec![second, loud], ..Default::default() });
    let tiles = vec![tile(&wires, "a:0", &scripts[0]), tile(&wires, "b:0", &scripts[1])];
    let fleet = Fleet::start(vec![core("one", tiles, &waker(), &wires, SLEEP_UNTIL_WOKEN)]).unwrap();
    wait_until("a sleep", || !look(&scripts[1]).slept.is_empty());
    fleet.stop().unwrap();
    let slept = scripts.each_ref().map(|script| look(script).slept.clone());
    assert!(slept[0].iter().all(|readable| *readable == 0) && slept[0].len() == slept[1].len());
    // The sleep that `stop` ends may find nothing else.
    assert!(slept[1][..slept[1].len() - 1].iter().all(|readable| *readable == 0b10) && slept[1][0] == 0b10);
}

/// Each sleep is too short for the counters to be written before it: housekeeping writes them.
#[test]
fn counters_of_a_core_with_short_sleeps_are_written() {
    let wires = alone(&["a:0"]);
    let script = script();
    let (clock, mut polls) = (wires.clock.clone(), 0);
    look(&script).on_poll = Box::new(move || {
        polls += 1;
        if polls == 50 { Poll::Busy } else { Poll::Idle }
    });
    look(&script).wait_for =
        Box::new(move || crate::WaitFor { deadline: Some(clock.now() + 100_000), ..Default::default() });
    let sleeps = core("a", vec![tile(&wires, "a:0", &script)], &waker(), &wires, SLEEP_UNTIL_WOKEN);
    let fleet = Fleet::start(vec![sleeps]).unwrap();
    wait_until("its work is written", || wires.word("a:0", "regime_finish_ns") > 0);
    fleet.stop().unwrap();
}

#[test]
fn a_panic_stops_the_fleet_and_names_the_tile() {
    let wires = alone(&["good:0", "bad:0", "far:0"]);
    let scripts = [script(), script(), script()];
    let ready = Arc::new(AtomicBool::new(false));
    let go = ready.clone();
    look(&scripts[1]).on_poll = Box::new(move || {
        assert!(!go.load(Ordering::Acquire), "the {} account is missing", "fee");
        Poll::Idle
    });
    let [near, far] = [waker(), waker()];
    let tiles = vec![tile(&wires, "good:0", &scripts[0]), tile(&wires, "bad:0", &scripts[1])];
    let cores = vec![
        core("near", tiles, &near, &wires, NEVER_PARK),
        core("far", vec![tile(&wires, "far:0", &scripts[2])], &far, &wires, PARK_AT_ONCE),
    ];
    let fleet = Fleet::start(cores).unwrap();
    assert!(fleet.died().is_none());
    wait_until("the other core sleeps", || far.is_parked());
    ready.store(true, Ordering::Release);
    wait_until("every other tile is stopped", || look(&scripts[0]).stops + look(&scripts[2]).stops == 2);
    let died = fleet.stop().unwrap_err();
    assert_eq!(died.to_string(), "tile bad:0 died: the fee account is missing");
    assert_eq!(scripts.each_ref().map(|s| look(s).stops), [1, 0, 1], "each once, the dead one not at all");
    assert_eq!(["good:0", "bad:0", "far:0"].map(|name| wires.word(name, "state")), [2, 3, 2]);
}

#[test]
fn a_panic_before_sleeping_names_the_right_tile() {
    let wires = alone(&["bad:0", "good:0"]);
    let scripts = [script(), script()];
    look(&scripts[0]).wait_for = Box::new(|| panic!("no deadline"));
    let tiles = vec![tile(&wires, "bad:0", &scripts[0]), tile(&wires, "good:0", &scripts[1])];
    let fleet = Fleet::start(vec![core("one", tiles, &waker(), &wires, PARK_AT_ONCE)]).unwrap();
    wait_until("it dies", || fleet.died().is_some());
    assert_eq!(fleet.stop().unwrap_err().tile, "bad:0");
    assert_eq!([look(&scripts[0]).stops, look(&scripts[1]).stops], [0, 1]);
}

#[test]
fn cpu_time_goes_to_the_tile_that_used_it() {
    let wires = alone(&["busy:0", "idle:0"]);
    let (busy, idle) = (script(), script());
    look(&busy).on_poll = Box::new(|| {
        let end = Instant::now() + Duration::from_micros(300);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        Poll::Busy
    });
    let tiles = vec![tile(&wires, "busy:0", &busy), tile(&wires, "idle:0", &idle)];
    let fleet = Fleet::start(vec![core("one", tiles, &waker(), &wires, NEVER_PARK)]).unwrap();
    let cpu = |name| wires.word(name, "cpu_ns");
    wait_until("it has used 60 ms", || cpu("busy:0") >= 60_000_000);
    fleet.stop().unwrap();
    assert!(cpu("idle:0") * 10 < cpu("busy:0"), "{} and {} ns", cpu("busy:0"), cpu("idle:0"));
    assert!(wires.word("busy:0", "tid") > 0 && wires.word("busy:0", "tid") == wires.word("idle:0", "tid"));
}

#[test]
fn an_idle_fleet_uses_nearly_no_cpu() {
    let pair = Pair::start(IdlePolicy { park_after_ns: 50_000, ..NEVER_PARK });
    pair.move_until(10);
    let used = || pair.wires.word("a:0", "cpu_ns") + pair.wires.word("b:0", "cpu_ns");
    wait_until("both sleep", || pair.wakers.iter().all(Waker::is_parked));
    let (before, beat) = (used(), pair.wires.word("a:0", "heartbeat_unix_ns"));
    // Heartbeats continue: for 300 ms, or longer if other programs use the cores.
    let beats = || pair.wires.word("a:0", "heartbeat_unix_ns").min(pair.wires.word("b:0", "heartbeat_unix_ns"));
    wait_until("300 ms pass", || beats() >= beat + 300_000_000);
    let (used, passed) = (used() - before, beats() - beat);
    let share = used as f64 / (2.0 * passed as f64);
    assert!(share < 0.1, "two idle cores used {:.1} % of their time", share * 100.0);
    pair.fleet.stop().unwrap();
}

#[test]
fn floating_threads_sleep_longer() {
    let longer = IdlePolicy { sleep_max_ns: 1_000_000_000, ..NEVER_PARK };
    assert_eq!(NEVER_PARK.for_core(true), NEVER_PARK);
    assert_eq!(NEVER_PARK.for_core(false).sleep_max_ns, IdlePolicy::FLOATING_SLEEP_MAX_NS);
    assert_eq!(longer.for_core(false), longer);
}

#[test]
fn a_core_that_is_not_there_is_an_error_and_stops_what_ran() {
    let wires = alone(&["a:0", "b:0"]);
    for missing in [libc::CPU_SETSIZE as usize - 1, usize::MAX] {
        let scripts = [script(), script()];
        let mut first = core("a", vec![tile(&wires, "a:0", &scripts[0])], &waker(), &wires, PARK_AT_ONCE);
        let mut second = core("b", vec![tile(&wires, "b:0", &scripts[1])], &waker(), &wires, PARK_AT_ONCE);
        second.pin = Some(missing);
        // The first may lend its tiles to the second, which never starts.
        (first.lends, second.lends) = (true, true);
        let (_here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&there);
        look(&scripts[1]).wait_for = Box::new(move || crate::WaitFor { readable: vec![fd], ..Default::default() });
        let error = Fleet::start(vec![first, second]).err().expect("there is no such core");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
        assert_eq!([look(&scripts[0]).stops, look(&scripts[1]).stops], [1, 0], "the one that ran was stopped");
    }
}

#[test]
fn pinned_core_runs_where_configured() {
    let wires = alone(&["a:0"]);
    let allowed = sys::thread::allowed_cores().unwrap();
    let (script, cores) = (script(), Arc::new(Mutex::new(vec![])));
    let seen = cores.clone();
    look(&script).on_poll = Box::new(move || {
        *seen.lock() = sys::thread::allowed_cores().unwrap();
        Poll::Idle
    });
    let mut pinned = core("a", vec![tile(&wires, "a:0", &script)], &waker(), &wires, PARK_AT_ONCE);
    pinned.pin = allowed.last().copied();
    let fleet = Fleet::start(vec![pinned]).unwrap();
    wait_until("it runs", || !cores.lock().is_empty());
    fleet.stop().unwrap();
    assert_eq!(*cores.lock(), allowed[allowed.len() - 1..]);
}

#[test]
fn idle_cores_run_on_one_thread() {
    let pair = Pair::lending(IdlePolicy { park_after_ns: 50_000, ..NEVER_PARK });
    for round in 1..=20 {
        wait_until("the second core lends", || pair.wakers[1].is_lent() && pair.wakers[1].is_parked());
        pair.move_until(round);
    }
    wait_until("both say that they run on one thread", || {
        pair.wires.word("a:0", "tid") == pair.wires.word("b:0", "tid")
    });
    pair.fleet.stop().unwrap();
    assert_eq!((pair.wires.word("a:0", "state"), pair.wires.word("b:0", "state")), (2, 2));
    assert_eq!(look(&pair.taken).stops, 1);
}

#[test]
fn no_wake_up_is_lost_while_tiles_change_threads() {
    let pair = Pair::lending(SLEEP_UNTIL_WOKEN);
    let mut count = 0;
    for round in 0..30u64 {
        // Some frags arrive while the tiles are on their way, some while everything sleeps, and some until one core is
        // overloaded.
        if round % 3 == 0 {
            // The decision to lend precedes a sleep, which is endless here.
            wait_until("the second core lends", || {
                pair.wakers.iter().for_each(Waker::wake);
                pair.wakers[1].is_lent()
            });
        }
        count += [1, 7, 3_000][(round % 3) as usize];
        pair.move_until(count);
        // If other programs use the cores, it may never be overloaded.
        for _ in 0..if round % 9 == 2 { 50 } else { 0 } {
            if !pair.wakers[1].is_lent() {
                break;
            }
            count += 3_000;
            pair.move_until(count);
        }
    }
    pair.fleet.stop().unwrap();
    assert_eq!(look(&pair.taken).stops, 1);
}

#[test]
fn a_busy_borrower_gives_back() {
    let wires = alone(&["a:0", "b:0"]);
    let (busy, other) = (script(), script());
    let is_busy = Arc::new(AtomicBool::new(false));
    let works = is_busy.clone();
    look(&busy).on_poll = Box::new(move || if works.load(Ordering::Acquire) { Poll::Busy } else { Poll::Idle });
    let wakers = [waker(), waker()];
    let cores =
        [("a", "a:0", &busy), ("b", "b:0", &other)].into_iter().zip(&wakers).map(|((name, of, script), waker)| Core {
            lends: true,
            ..core(name, vec![tile(&wires, of, script)], waker, &wires, PARK_AT_ONCE)
        });
    let fleet = Fleet::start(cores.collect()).unwrap();
    let is_shared = || wires.word("a:0", "tid") == wires.word("b:0", "tid");
    for _ in 0..5 {
        is_busy.store(false, Ordering::Release);
        wait_until("one thread runs both", || wakers[1].is_lent() && is_shared());
        is_busy.store(true, Ordering::Release);
        wakers[0].wake();
        wait_until("each has its own", || !wakers[1].is_lent() && !is_shared());
    }
    fleet.stop().unwrap();
    assert_eq!([look(&busy).stops, look(&other).stops], [1, 1]);
}

#[test]
fn a_panic_of_a_lent_tile_names_it() {
    let wires = alone(&["a:0", "b:0", "c:0"]);
    let scripts = [script(), script(), script()];
    let ready = Arc::new(AtomicBool::new(false));
    let go = ready.clone();
    look(&scripts[1]).on_poll = Box::new(move || {
        assert!(!go.load(Ordering::Acquire), "no block");
        Poll::Idle
    });
    let wakers = [waker(), waker(), waker()];
    let cores = ["a:0", "b:0", "c:0"].into_iter().zip(&scripts).zip(&wakers).map(|((name, script), waker)| Core {
        lends: true,
        ..core(name, vec![tile(&wires, name, script)], waker, &wires, PARK_AT_ONCE)
    });
    let fleet = Fleet::start(cores.collect()).unwrap();
    wait_until("the first runs all", || wakers[1].is_lent() && wakers[2].is_lent());
    ready.store(true, Ordering::Release);
    wakers[1].wake();
    wait_until("it dies", || fleet.died().is_some());
    let died = fleet.stop().unwrap_err();
    assert_eq!((died.tile.as_str(), died.message.as_str()), ("b:0", "no block"));
    assert_eq!(scripts.each_ref().map(|script| look(script).stops), [1, 0, 1]);
}

/// The core that waits for the network borrows, wherever it stands.
#[test]
fn the_core_with_a_descriptor_borrows() {
    let wires = alone(&["a:0", "b:0"]);
    let scripts = [script(), script()];
    let (_here, there) = std::os::unix::net::UnixStream::pair().unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&there);
    look(&scripts[1]).wait_for = Box::new(move || crate::WaitFor { readable: vec![fd], ..Default::default() });
    let cores = |lends: [bool; 2]| -> Vec<Core> {
        let cores = ["a:0", "b:0"].into_iter().zip(&scripts).zip(lends);
        let core = |((name, script), lends)| Core {
            lends,
            ..core(name, vec![tile(&wires, name, script)], &waker(), &wires, PARK_AT_ONCE)
        };
        cores.map(core).collect()
    };
    assert_eq!(lending::choose_borrower(&cores([true, true])), Some(1));
    assert_eq!(lending::choose_borrower(&cores([true, false])), Some(0));
    assert_eq!(lending::choose_borrower(&cores([false, false])), None);
}
