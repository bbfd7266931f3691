//! Links that are not there: what a datagram meets on its way to an address, as rules say.
//!
//! reads   datagrams to be sent, with their addresses; rules; the time
//! writes  the same datagrams, when they are due
//! memory  [`QUEUE_BYTES_MAX`] of datagrams and 48 B each
//! drops   what a rule cuts or loses, and what does not fit: counted
//!
//! A datagram waits until those before it to the same address have been sent at the link's rate, then as long as the
//! link's delay, give or take its jitter. Jitter is drawn for each datagram, so that one may overtake another.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, PoisonError, RwLock};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Bytes that may be under way.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;
/// What a datagram takes beside its bytes.
const DATAGRAM_BYTES: usize = 48;

/// What a link does to datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rule {
    /// How long each is under way, nanoseconds.
    pub delay_ns: u64,
    /// By how much that differs at most, to both sides, nanoseconds.
    pub jitter_ns: u64,
    /// The part that is lost.
    pub loss: f64,
    /// Bytes a second; none are not bounded.
    pub bytes_per_s: Option<f64>,
    /// Nothing comes through.
    pub is_cut: bool,
}

/// The rules of all links from a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Where randomness begins.
    pub seed: u64,
    /// By where they lead to. Others are as they are.
    pub to: HashMap<Ipv4Addr, Rule>,
}

/// The newest rules, for whoever sends.
#[derive(Debug)]
pub struct Links {
    rules: RwLock<Arc<Rules>>,
    number: AtomicU64,
}

impl Links {
    /// Begins with these.
    pub fn new(rules: Rules) -> Self {
        Self { rules: RwLock::new(Arc::new(rules)), number: AtomicU64::new(0) }
    }

    /// Replaces them. What is under way stays so.
    pub fn put(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        self.number.fetch_add(1, SeqCst);
    }

    fn newest(&self) -> (u64, Arc<Rules>) {
        let number = self.number.load(SeqCst);
        (number, Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// What became of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Under way for a while.
    pub delayed: u64,
    /// Lost as a link loses some, or as it is cut.
    pub lost: u64,
    /// Without a place among those that are under way.
    pub full: u64,
}

/// A datagram on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram<T> {
    /// Where to.
    pub to: SocketAddr,
    /// What the sender wants to know of it again.
    pub of: T,
    /// Its bytes.
    pub data: Vec<u8>,
}

struct Due<T> {
    at_ns: u64,
    number: u64,
    datagram: Datagram<T>,
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ns, self.number) == (other.at_ns, other.number)
    }
}

impl<T> Eq for Due<T> {}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Due<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

/// The links of one sender.
pub struct Emulator<T> {
    links: Arc<Links>,
    number: u64,
    rules: Arc<Rules>,
    random: ChaCha8Rng,
    /// When a link has sent what was given to it.
    free_at: HashMap<Ipv4Addr, u64>,
    queue: BinaryHeap<Reverse<Due<T>>>,
    bytes: usize,
    next: u64,
    /// What became of datagrams.
    pub counts: Counts,
}

impl<T> Emulator<T> {
    /// By the newest rules. Senders of different names draw other luck.
    pub fn new(links: Arc<Links>, name: u64) -> Self {
        let (number, rules) = links.newest();
        let random = ChaCha8Rng::seed_from_u64(rules.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ name);
        Self {
            links,
            number,
            rules,
            random,
            free_at: HashMap::new(),
            queue: BinaryHeap::new(),
            bytes: 0,
            next: 0,
            counts: Counts::default(),
        }
    }

    /// Gives a datagram to its link; returned is one that no rule is for, to be sent at once.
    pub fn push(&mut self, to: SocketAddr, of: T, data: &[u8], now_ns: u64) -> Option<T> {
        if self.links.number.load(SeqCst) != self.number {
            (self.number, self.rules) = self.links.newest();
        }
        let IpAddr::V4(address) = to.ip() else { return Some(of) };
        let Some(rule) = self.rules.to.get(&address).copied() else { return Some(of) };
        if rule.is_cut || self.draw() < rule.loss {
            self.counts.lost += 1;
            return None;
        }
        if self.bytes + data.len() + DATAGRAM_BYTES > QUEUE_BYTES_MAX {
            self.counts.full += 1;
            return None;
        }
        let free_at = self.free_at.entry(address).or_default();
        let took_ns = rule.bytes_per_s.map_or(0.0, |rate| data.len() as f64 / rate * 1e9) as u64;
        *free_at = now_ns.max(*free_at).saturating_add(took_ns);
        let sent_ns = *free_at;
        let jitter = (self.draw() * 2.0 - 1.0) * rule.jitter_ns as f64;
        let at_ns = sent_ns.saturating_add((rule.delay_ns as f64 + jitter).max(0.0) as u64);
        let datagram = Datagram { to, of, data: data.to_vec() };
        self.bytes += data.len() + DATAGRAM_BYTES;
        self.counts.delayed += 1;
        self.queue.push(Reverse(Due { at_ns, number: self.next, datagram }));
        self.next += 1;
        None
    }

    /// The next datagram that has come through.
    pub fn pop(&mut self, now_ns: u64) -> Option<Datagram<T>> {
        if self.due_ns()? > now_ns {
            return None;
        }
        let Reverse(due) = self.queue.pop()?;
        self.bytes -= due.datagram.data.len() + DATAGRAM_BYTES;
        Some(due.datagram)
    }

    /// When the next one has.
    pub fn due_ns(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse(due)| due.at_ns)
    }

    /// A number from 0 to below 1.
    fn draw(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn emulator(seed: u64, rule: Rule) -> Emulator<u32> {
        let to = HashMap::from([(Ipv4Addr::new(127, 0, 0, 2), rule)]);
        Emulator::new(Arc::new(Links::new(Rules { seed, to })), 1)
    }

    fn to(host: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, host], 8001))
    }

    /// What comes through, and when, looking at every event.
    fn arrivals(emulator: &mut Emulator<u32>) -> Vec<(u64, u32)> {
        let mut all = vec![];
        while let Some(at) = emulator.due_ns() {
            assert!(at == 0 || emulator.pop(at - 1).is_none(), "not before it is due");
            all.push((at, emulator.pop(at).unwrap().of));
        }
        all
    }

    #[test]
    fn what_no_rule_is_for_goes_at_once() {
        let mut emulator = emulator(1, Rule { delay_ns: MS, ..Rule::default() });
        assert_eq!(emulator.push(to(3), 7, b"abc", 0), Some(7));
        assert_eq!(emulator.push("[::1]:1".parse().unwrap(), 8, b"abc", 0), Some(8));
        assert_eq!((emulator.due_ns(), emulator.push(to(2), 9, b"abc", 5)), (None, None));
        assert_eq!(emulator.due_ns(), Some(5 + MS));
        assert_eq!(emulator.pop(5 + MS).unwrap(), Datagram { to: to(2), of: 9, data: b"abc".to_vec() });
        assert_eq!(emulator.counts, Counts { delayed: 1, lost: 0, full: 0 });
    }

    #[test]
    fn jitter_stays_within_its_bounds_and_without_it_all_stay_in_order() {
        let steady = Rule { delay_ns: 30 * MS, ..Rule::default() };
        let mut emulator1 = emulator(1, steady);
        (0..1_000).for_each(|n| drop(emulator1.push(to(2), n, b"x", u64::from(n))));
        let came = arrivals(&mut emulator1);
        assert!(came.iter().enumerate().all(|(n, (at, of))| *of == n as u32 && *at == 30 * MS + n as u64));

        let mut emulator2 = emulator(2, Rule { jitter_ns: 5 * MS, ..steady });
        (0..10_000).for_each(|n| drop(emulator2.push(to(2), n, b"x", 0)));
        let came = arrivals(&mut emulator2);
        let mean = came.iter().map(|(at, _)| *at as f64).sum::<f64>() / came.len() as f64;
        assert!(came.iter().all(|(at, _)| (25 * MS..=35 * MS).contains(at)));
        // The mean of 10,000 has a deviation of 29 µs.
        assert!((mean - 30e6).abs() < 200e3, "{mean}");
        assert!(came.windows(2).any(|pair| pair[0].1 > pair[1].1), "some overtake others");
    }

    #[test]
    fn as_many_are_lost_as_the_rule_says() {
        for seed in 0..20 {
            let mut emulator = emulator(seed, Rule { loss: 0.05, ..Rule::default() });
            (0..20_000).for_each(|n| drop(emulator.push(to(2), n, b"x", 0)));
            let lost = emulator.counts.lost as f64 / 20_000.0;
            // Six deviations.
            assert!((lost - 0.05).abs() < 0.0093, "seed {seed}: {lost}");
        }
    }

    #[test]
    fn a_link_sends_no_faster_than_its_rate() {
        let mut emulator = emulator(1, Rule { bytes_per_s: Some(1e6), delay_ns: MS, ..Rule::default() });
        (0..1_000).for_each(|n| drop(emulator.push(to(2), n, &[0; 1_000], 0)));
        let came = arrivals(&mut emulator);
        assert_eq!((came[0].0, came[999].0), (2 * MS, 1_001 * MS));
        // Later it is free again.
        emulator.push(to(2), 0, &[0; 1_000], 5_000 * MS);
        assert_eq!(arrivals(&mut emulator)[0].0, 5_002 * MS);
    }

    #[test]
    fn rules_change_under_way() {
        let links = Arc::new(Links::new(Rules::default()));
        let mut emulator: Emulator<u32> = Emulator::new(Arc::clone(&links), 0);
        assert_eq!(emulator.push(to(2), 1, b"x", 0), Some(1));
        let cut = Rule { is_cut: true, ..Rule::default() };
        links.put(Rules { seed: 0, to: HashMap::from([(Ipv4Addr::new(127, 0, 0, 2), cut)]) });
        assert_eq!((emulator.push(to(2), 2, b"x", 0), emulator.due_ns(), emulator.counts.lost), (None, None, 1));
        links.put(Rules::default());
        assert_eq!(emulator.push(to(2), 3, b"x", 0), Some(3));
    }

    #[test]
    fn what_is_under_way_is_bounded() {
        let mut emulator = emulator(1, Rule { delay_ns: MS, ..Rule::default() });
        let large = vec![0; 1 << 20];
        (0..100).for_each(|n| drop(emulator.push(to(2), n, &large, 0)));
        assert_eq!((emulator.counts.delayed, emulator.counts.full), (63, 37));
        assert_eq!(arrivals(&mut emulator).len(), 63);
        assert_eq!(emulator.bytes, 0);
    }
}
