//! Delays datagrams: each comes out when it would arrive.
//!
//! reads   datagrams, each with its time; [`Rules`]
//! writes  the same datagrams, at the time when they are due
//! memory  `queue_bytes` of the rules, 72 B for each datagram or run, allocated as they arrive
//! drops   datagrams that the rules lose or cut off, and those that arrive when the queue is full: each is counted
//! source  the map of `hearth cluster simulate`, whose distributions these are
//!
//! Datagrams that leave together form one run: loss is drawn for each datagram, the delay once per run, and once for
//! the runs of a train, which follow each other to one address. Time advances only as the caller says.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::net::SocketAddr;

use super::{Rule, Rules};

/// Bytes of a datagram on the wire besides its payload: IPv4 and UDP.
const HEADER_BYTES: usize = 28;
/// The longest jitter, in means: one of 22,000 datagrams would take longer.
const JITTER_MEANS_MAX: f64 = 10.0;

/// Arrivals are rounded to this or more if a rule's jitter is large, or small on a long link: otherwise the datagrams
/// of one FEC set would wake sender and receiver once each.
const GRID_NS: u64 = 1_000_000;
/// From this delay on a link is long.
const LONG_NS: u64 = 10 * GRID_NS;
/// Arrivals are rounded to the largest power of two of [`GRID_NS`] that fits into a link's delay this often: none is
/// off by more than a thirty-second of the delay, or by half of [`GRID_NS`].
const GRIDS_PER_DELAY: u64 = 16;
/// What follows to the same address within this time is of the same train: the data and the parity of an FEC set.
const TRAIN_NS: u64 = 100_000;

/// A datagram, or a run of equal ones to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagrams<T> {
    /// Destination of the datagrams.
    pub to: SocketAddr,
    /// Payloads of all datagrams, concatenated.
    pub data: Vec<u8>,
    /// The size of each but the last; 0 where it is one datagram.
    pub segment: u16,
    /// Data that the sender attaches to the run.
    pub tag: T,
}

impl<T> Datagrams<T> {
    /// The number of datagrams in `data`: one, or one per segment that begins there.
    pub fn count(&self) -> u64 {
        if self.segment == 0 { 1 } else { self.data.len().div_ceil(self.segment.into()) as u64 }
    }
}

/// Outcomes of datagrams, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Taken, to come out later.
    pub delayed: u64,
    /// Lost, as the rules want it.
    pub lost: u64,
    /// Not sent, as the rules cut it off.
    pub cut: u64,
    /// Dropped, as too much was under way.
    pub full: u64,
}

struct DelayedDatagrams<T> {
    at_ns: u64,
    number: u64,
    datagrams: Datagrams<T>,
}

impl<T> DelayedDatagrams<T> {
    fn key(&self) -> (u64, u64) {
        (self.at_ns, self.number)
    }
}

impl<T> PartialEq for DelayedDatagrams<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for DelayedDatagrams<T> {}

impl<T> PartialOrd for DelayedDatagrams<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for DelayedDatagrams<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Runs that travel together.
#[derive(Clone, Copy)]
struct Train {
    to: SocketAddr,
    /// When the first of them was sent.
    began_ns: u64,
    jitter_ns: u64,
}

/// The emulated network of one node's outgoing datagrams.
pub struct Emulator<T> {
    rules: Rules,
    held: BinaryHeap<Reverse<DelayedDatagrams<T>>>,
    bytes: usize,
    number: u64,
    /// Until when accepted datagrams keep the node's line busy, ns.
    busy_until_ns: u64,
    random: fastrand::Rng,
    /// The train of the last run.
    train: Option<Train>,
    /// How far the machine's time is ahead of the caller's.
    ahead_ns: u64,
    /// How many datagrams were delayed, lost, cut off or dropped for lack of room.
    pub counters: Counters,
}

/// What the arrivals of a rule are rounded to, if they are.
fn grid_ns(rule: &Rule) -> Option<u64> {
    let is_rounded = rule.jitter_ns > GRID_NS / 2 || (rule.jitter_ns > 0 && rule.delay_ns >= LONG_NS);
    let fit = rule.delay_ns / (GRIDS_PER_DELAY * GRID_NS);
    is_rounded.then(|| GRID_NS << fit.checked_ilog2().unwrap_or(0))
}

impl<T> Emulator<T> {
    /// An empty network; all chance comes of `seed`.
    pub fn new(rules: Rules, seed: u64) -> Self {
        Self {
            rules,
            held: BinaryHeap::new(),
            bytes: 0,
            number: 0,
            busy_until_ns: 0,
            random: fastrand::Rng::with_seed(seed),
            train: None,
            ahead_ns: 0,
            counters: Counters::default(),
        }
    }

    /// Replaces the rules. Datagrams in flight arrive as drawn before.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Sets how far the machine's time is ahead of the time that the caller gives. Arrivals are rounded to instants of
    /// the machine's time, so that those of all its nodes fall together: a node that wakes for one finds the others
    /// there.
    pub fn set_ahead(&mut self, ahead_ns: u64) {
        self.ahead_ns = ahead_ns;
    }

    /// Accepts datagrams sent now. Returns them if no rule covers their address: then they go at once.
    pub fn offer(&mut self, now_ns: u64, mut datagrams: Datagrams<T>) -> Option<Datagrams<T>> {
        let Some(&rule) = self.rules.by_address.get(&datagrams.to.ip()) else { return Some(datagrams) };
        if rule.is_cut {
            self.counters.cut += datagrams.count();
            return None;
        }
        // Loss happens on the way, so lost datagrams still take time on the node's line.
        let on_wire = datagrams.data.len() + HEADER_BYTES * datagrams.count() as usize;
        if self.bytes + datagrams.data.len() > self.rules.queue_bytes {
            self.counters.full += datagrams.count();
            return None;
        }
        let begins_ns = now_ns.max(self.busy_until_ns);
        self.busy_until_ns = begins_ns + (on_wire as f64 * 8e9 / self.rules.rate_bps) as u64;
        if !self.lose(&rule, &mut datagrams) {
            return None;
        }
        let mut at_ns = self.busy_until_ns + rule.delay_ns + self.jitter(&rule, datagrams.to, now_ns);
        if let Some(grid_ns) = grid_ns(&rule) {
            let phase_ns = self.ahead_ns % grid_ns;
            at_ns = ((at_ns + phase_ns + grid_ns / 2) / grid_ns * grid_ns).saturating_sub(phase_ns);
        }
        self.counters.delayed += datagrams.count();
        self.bytes += datagrams.data.len();
        self.number += 1;
        self.held.push(Reverse(DelayedDatagrams { at_ns, number: self.number, datagrams }));
        None
    }

    /// The next that is due by now.
    pub fn due(&mut self, now_ns: u64) -> Option<Datagrams<T>> {
        if self.next_ns()? > now_ns {
            return None;
        }
        let Reverse(DelayedDatagrams { datagrams, .. }) = self.held.pop()?;
        self.bytes -= datagrams.data.len();
        Some(datagrams)
    }

    /// Returns when the next is due; `None` if nothing is in flight.
    pub fn next_ns(&self) -> Option<u64> {
        self.held.peek().map(|Reverse(held)| held.at_ns)
    }

    /// The jitter of a run: that of its train, if it is not the first there.
    fn jitter(&mut self, rule: &Rule, to: SocketAddr, now_ns: u64) -> u64 {
        if rule.jitter_ns == 0 {
            return 0;
        }
        let is_of = |train: &Train| train.to == to && now_ns.saturating_sub(train.began_ns) < TRAIN_NS;
        if let Some(train) = self.train.filter(is_of) {
            return train.jitter_ns;
        }
        let means = -(1.0 - self.random.f64()).ln();
        let jitter_ns = (means.min(JITTER_MEANS_MAX) * rule.jitter_ns as f64) as u64;
        self.train = Some(Train { to, began_ns: now_ns, jitter_ns });
        jitter_ns
    }

    /// Removes lost datagrams; returns whether any are left.
    fn lose(&mut self, rule: &Rule, datagrams: &mut Datagrams<T>) -> bool {
        if rule.loss <= 0.0 {
            return true;
        }
        let count = datagrams.count();
        let size = if datagrams.segment == 0 { datagrams.data.len() } else { datagrams.segment.into() };
        let (mut left, mut kept) = (0, 0);
        for number in 0..count as usize {
            let (begin, end) = (number * size, datagrams.data.len().min((number + 1) * size));
            if self.random.f64() < rule.loss {
                self.counters.lost += 1;
                continue;
            }
            datagrams.data.copy_within(begin..end, kept);
            (left, kept) = (left + 1, kept + end - begin);
        }
        datagrams.data.truncate(kept);
        left > 0
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const MS: u64 = 1_000_000;
    const SEED: u64 = 11;

    fn to(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 8_003))
    }

    fn of(rule: Rule, rate_bps: f64, queue_bytes: usize) -> Emulator<u32> {
        let by_address = [(IpAddr::from([127, 0, 0, 3]), rule)].into_iter().collect();
        Emulator::new(Rules { by_address, rate_bps, queue_bytes }, SEED)
    }

    fn one(number: u32, size: usize) -> Datagrams<u32> {
        Datagrams { to: to(3), data: vec![number as u8; size], segment: 0, tag: number }
    }

    /// Makes one that is not of the train of the number before.
    fn apart(number: u64) -> Datagrams<u32> {
        let port = 8_003 + (number % 2) as u16;
        Datagrams { to: SocketAddr::from(([127, 0, 0, 3], port)), ..one(number as u32, 1) }
    }

    /// Returns all datagrams that come out, each exactly at the time announced for it.
    fn drain(emulator: &mut Emulator<u32>) -> Vec<(u64, u32)> {
        let mut out = vec![];
        while let Some(at) = emulator.next_ns() {
            assert!(emulator.due(at - 1).is_none());
            out.push((at, emulator.due(at).expect("it is due").tag));
        }
        out
    }

    const PLAIN: Rule = Rule { delay_ns: 30 * MS, jitter_ns: 0, loss: 0.0, is_cut: false };

    #[test]
    fn datagrams_arrive_delayed_and_in_order() {
        let mut emulator = of(PLAIN, 1e15, 1 << 20);
        for number in 0..100 {
            assert!(emulator.offer(u64::from(number / 10) * MS, one(number, 100)).is_none());
        }
        let out = drain(&mut emulator);
        assert_eq!(out, (0..100).map(|number| (u64::from(number / 10 + 30) * MS, number)).collect::<Vec<_>>());
        assert_eq!((emulator.bytes, emulator.counters.delayed), (0, 100));
        // An address without a rule gets it at once.
        let stranger = Datagrams { to: to(1), ..one(7, 5) };
        assert_eq!(emulator.offer(0, stranger.clone()), Some(stranger));
    }

    #[test]
    fn jitter_has_the_given_mean() {
        let mut emulator = of(Rule { jitter_ns: 2 * MS, ..PLAIN }, 1e15, 1 << 20);
        (0..10_000).for_each(|number| assert!(emulator.offer(0, apart(number)).is_none()));
        let extra: Vec<u64> = drain(&mut emulator).into_iter().map(|(at, _)| at - 30 * MS).collect();
        assert!(extra.is_sorted() && *extra.last().unwrap() <= 20 * MS + GRID_NS / 2);
        assert!(extra.iter().all(|extra| extra.is_multiple_of(GRID_NS)), "they come out together");
        let mean = extra.iter().sum::<u64>() as f64 / extra.len() as f64 / MS as f64;
        // The mean of 10,000 of them is off by 1 % for each standard deviation.
        assert!((1.9..2.1).contains(&mean), "{mean} ms; seed {SEED}");
        // Up to 1.5 ms round down to 1 ms: 52.8 % of an exponential distribution with a mean of 2 ms.
        let below = extra.iter().filter(|extra| **extra <= MS).count();
        assert!((5_120..5_440).contains(&below), "{below} of 10,000; seed {SEED}");
    }

    #[test]
    fn small_jitter_is_rounded_on_long_ways_alone() {
        let small = Rule { jitter_ns: MS / 5, ..PLAIN };
        let arrivals = |rule: Rule| {
            let mut emulator = of(rule, 1e15, 1 << 20);
            // At all instants of a millisecond.
            (0..1_000).for_each(|number| assert!(emulator.offer(number * 1_009, apart(number)).is_none()));
            drain(&mut emulator).into_iter().map(|(at, _)| at).collect::<Vec<u64>>()
        };
        let long = arrivals(small);
        assert!(long.iter().all(|at| at.is_multiple_of(GRID_NS)), "they come out together");
        let mean = |all: &[u64]| all.iter().sum::<u64>() as f64 / all.len() as f64;
        // Sent at 0.5 ms on average, 0.2 ms of jitter; each is off by half a millisecond at most.
        assert!((30.6..30.8).contains(&(mean(&long) / MS as f64)), "{}; seed {SEED}", mean(&long));
        let short = arrivals(Rule { delay_ns: 5 * MS, ..small });
        assert!(short.iter().any(|at| !at.is_multiple_of(GRID_NS)));
        assert!(arrivals(Rule { jitter_ns: 0, ..PLAIN }).iter().any(|at| !at.is_multiple_of(GRID_NS)));
    }

    #[test]
    fn datagrams_sent_together_travel_together() {
        // Of a short link with small jitter the instants are exact.
        let rule = Rule { delay_ns: 5 * MS, jitter_ns: MS / 4, ..PLAIN };
        let mut emulator = of(rule, 1e15, 1 << 20);
        let mut differ = 0;
        for begin in (0..200).map(|number| number * 20 * MS) {
            let times = [0, 1_000, TRAIN_NS - 1, TRAIN_NS].map(|later| begin + later);
            for (at, number) in times.into_iter().zip(0..) {
                assert!(emulator.offer(at, one(number, 1)).is_none());
            }
            let mut jitters = [0; 4];
            drain(&mut emulator)
                .iter()
                .for_each(|(at, n)| jitters[*n as usize] = at - times[*n as usize] - rule.delay_ns);
            assert!(jitters[..3].iter().all(|jitter| *jitter == jitters[0]), "{jitters:?}; seed {SEED}");
            differ += u64::from(jitters[3] != jitters[0]);
        }
        assert!(differ > 190, "{differ} of 200 trains have a jitter of their own; seed {SEED}");
        // Another address, or the same one after another, begins a train.
        let [first, second] = [apart(0), apart(1)].map(|datagrams| datagrams.to);
        assert_ne!(first, second);
        let mut drawn = [(); 2].map(|()| [first, second].map(|to| emulator.jitter(&rule, to, 0)));
        drawn.as_flattened_mut().sort_unstable();
        assert!(drawn.as_flattened().windows(2).all(|pair| pair[0] != pair[1]), "{drawn:?}; seed {SEED}");
    }

    #[test]
    fn longer_links_have_fewer_instants() {
        let grid = |delay_us: u64, jitter_us: u64| {
            grid_ns(&Rule { delay_ns: delay_us * 1_000, jitter_ns: jitter_us * 1_000, ..PLAIN })
        };
        // Links of the shipped map.
        for (delay_us, jitter_us, ms) in
            [(30_000, 500, 1), (37_500, 500, 2), (82_500, 1_000, 4), (87_500, 1_000, 4), (115_000, 1_000, 4)]
        {
            assert_eq!(grid(delay_us, jitter_us), Some(ms * MS), "{delay_us} us");
        }
        assert_eq!([grid(250, 50), grid(7_500, 200), grid(115_000, 0)], [None; 3]);
        assert_eq!(grid(0, 501), Some(MS));
    }

    #[test]
    fn clocks_that_began_apart_share_instants() {
        for ahead_ns in [0, 12_345, 3 * MS + 999_999, 1_700_000_000_123_456_789] {
            let mut emulator = of(Rule { delay_ns: 87 * MS + MS / 2, jitter_ns: MS, ..PLAIN }, 1e15, 1 << 20);
            emulator.set_ahead(ahead_ns);
            (0..1_000).for_each(|number| assert!(emulator.offer(number * 10_009, apart(number)).is_none()));
            let out: Vec<u64> = drain(&mut emulator).into_iter().map(|(at, _)| at).collect();
            assert!(out.iter().all(|at| (at + ahead_ns).is_multiple_of(4 * MS)), "{ahead_ns} ns ahead");
            let mean = out.iter().sum::<u64>() as f64 / out.len() as f64 / MS as f64;
            // Sent at 5 ms on average, 1 ms of jitter, each off by 2 ms at most.
            assert!((93.0..94.0).contains(&mean), "{mean} ms, {ahead_ns} ns ahead; seed {SEED}");
        }
    }

    #[test]
    fn loss_has_the_given_rate() {
        let mut emulator = of(Rule { loss: 0.1, ..PLAIN }, 1e15, 1 << 26);
        (0..10_000).for_each(|number| assert!(emulator.offer(0, one(number, 10)).is_none()));
        let came = drain(&mut emulator).len() as u64;
        assert_eq!((came, came + emulator.counters.lost), (emulator.counters.delayed, 10_000));
        assert!((880..1_120).contains(&emulator.counters.lost), "{:?}; seed {SEED}", emulator.counters);
        // Ten datagrams of four bytes, the last of two: the survivors of a run are whole and in order.
        let data: Vec<u8> = (0..10).flat_map(|number| vec![number; if number == 9 { 2 } else { 4 }]).collect();
        let mut seen = 0;
        for _ in 0..1_000 {
            emulator.offer(0, Datagrams { to: to(3), data: data.clone(), segment: 4, tag: 0 });
            let Some(run) = emulator.due(u64::MAX) else { continue };
            assert!(run.data.chunks(4).all(|one| one.iter().all(|byte| byte == &one[0])), "{run:?}");
            assert!(run.data.chunks(4).map(|one| one[0]).is_sorted_by(|a, b| a < b), "{run:?}");
            seen += run.count();
        }
        assert!((8_850..9_150).contains(&seen), "{seen} of 10,000; seed {SEED}");
        assert_eq!(emulator.counters.lost + emulator.counters.delayed, 20_000);
    }

    #[test]
    fn line_carries_its_rate() {
        // 972 bytes and 28 of the heads at 8 Mb/s: one a millisecond.
        let mut emulator = of(PLAIN, 8e6, 1 << 20);
        (0..50).for_each(|number| assert!(emulator.offer(0, one(number, 972)).is_none()));
        let expected: Vec<_> = (0..50).map(|number| (u64::from(31 + number) * MS, number)).collect();
        assert_eq!(drain(&mut emulator), expected);
        // A line that had nothing to do has saved nothing.
        assert!(emulator.offer(1_000 * MS, one(1, 972)).is_none());
        assert_eq!(drain(&mut emulator), [(1_031 * MS, 1)]);
    }

    #[test]
    fn full_queue_drops_and_counts() {
        let mut emulator = of(PLAIN, 1e15, 1_000);
        (0..25).for_each(|number| assert!(emulator.offer(0, one(number, 100)).is_none()));
        assert_eq!((emulator.counters.delayed, emulator.counters.full), (10, 15));
        assert_eq!(drain(&mut emulator).len(), 10);
        assert!(emulator.offer(0, one(99, 1_000)).is_none());
        assert_eq!(emulator.counters.delayed, 11);
    }

    #[test]
    fn cut_keeps_only_datagrams_under_way() {
        let mut emulator = of(PLAIN, 1e15, 1 << 20);
        assert!(emulator.offer(0, one(1, 10)).is_none());
        let rules = emulator.rules.clone();
        let mut cut = rules.clone();
        cut.by_address.values_mut().for_each(|rule| rule.is_cut = true);
        emulator.set_rules(cut);
        assert!(emulator.offer(0, Datagrams { segment: 4, ..one(2, 10) }).is_none());
        emulator.set_rules(rules);
        assert!(emulator.offer(0, one(3, 10)).is_none());
        assert_eq!(drain(&mut emulator).into_iter().map(|(_, number)| number).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(emulator.counters.cut, 3);
    }
}
