//! Measures how long a client waits: transactions submitted over RPC until their status shows, and queries until their
//! answers, at fixed rates while the load runs.
//!
//! reads   statuses of the pending probes, every 2 ms; answers
//! writes  probes: transfers from their own accounts, with preflight as clients send them; queries
//! memory  a number for each probe and each answer
//! source  open loop: times count from the due time, so that a node that delays one probe is also charged for those
//!         behind it

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hearth_command::node_rpc::Rpc;
use hearth_wire::base58::encode_32;
use hearth_wire::{Hash, Pubkey};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::fund::{self, Payer};
use crate::BenchError;
use crate::report::{Latency, WaitTimes};

/// How often the statuses of probes are requested.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The longest wait for a probe.
const GIVEN_UP: Duration = Duration::from_secs(30);
/// How long a blockhash is used.
const BLOCKHASH_FOR: Duration = Duration::from_secs(2);
/// Connections for queries.
const CONNECTIONS: u32 = 4;
/// Signatures per `getSignatureStatuses` request.
const STATUSES: usize = 256;

/// A probe that was submitted and is not confirmed.
struct PendingProbe {
    signature: String,
    due: Instant,
    processed: bool,
}

#[derive(Default)]
struct ProbeTimes {
    submitted_ms: Vec<f64>,
    processed_ms: Vec<f64>,
    confirmed_ms: Vec<f64>,
    answers_ms: Vec<f64>,
    probes: u64,
    refused: u64,
    questions_failed: u64,
}

#[derive(Default)]
struct Shared {
    under: Mutex<Vec<PendingProbe>>,
    found: Mutex<ProbeTimes>,
    sent_all: AtomicBool,
    quit: AtomicBool,
}

/// The measuring threads. They run while the plan's flag is set, and end on request.
pub struct Prober {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The probes and queries to send, and when.
pub struct Plan {
    /// Probes per second.
    pub probes: f64,
    /// Queries per second.
    pub questions: f64,
    /// The payer of the probes.
    pub payer: Payer,
    /// The receiver of the probes, and the subject of the queries.
    pub receiver: Pubkey,
    /// Set while measuring.
    pub measuring: Arc<AtomicBool>,
}

/// The due times at a rate, while measuring.
struct Schedule {
    measuring: Arc<AtomicBool>,
    every: Duration,
    next: Option<Instant>,
    offset: Duration,
}

impl Schedule {
    fn new(measuring: &Arc<AtomicBool>, rate: f64, offset: Duration) -> Self {
        Self { measuring: measuring.clone(), every: Duration::from_secs_f64(1.0 / rate), next: None, offset }
    }

    /// Waits for the next due time; `None` when the measurement is over.
    fn next(&mut self, quit: &AtomicBool) -> Option<Instant> {
        while self.next.is_none() && !self.measuring.load(Ordering::Relaxed) {
            if quit.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let due = *self.next.get_or_insert_with(|| Instant::now() + self.offset);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        self.next = Some(due + self.every);
        self.measuring.load(Ordering::Relaxed).then_some(due)
    }
}

impl Prober {
    /// Starts the threads.
    pub fn start(rpc: &Rpc, plan: Plan) -> Result<Self, BenchError> {
        let shared = Arc::new(Shared::default());
        let mut threads = vec![];
        let Plan { probes, questions, payer, receiver, measuring } = plan;
        for n in (0..CONNECTIONS).filter(|_| questions > 0.0) {
            let offset = Duration::from_secs_f64(f64::from(n) / questions);
            let schedule = Schedule::new(&measuring, questions / f64::from(CONNECTIONS), offset);
            let (shared, rpc) = (shared.clone(), rpc.clone());
            threads.push(std::thread::spawn(move || ask(rpc, schedule, &shared, &receiver)));
        }
        if probes > 0.0 {
            let schedule = Schedule::new(&measuring, probes, Duration::ZERO);
            let (to, by) = (shared.clone(), rpc.clone());
            let hash = fund::blockhash(&by)?;
            threads.push(std::thread::spawn(move || submit(by, schedule, &to, &payer, &receiver, hash)));
            let (shared, rpc) = (shared.clone(), rpc.clone());
            threads.push(std::thread::spawn(move || watch(rpc, &shared)));
        } else {
            shared.sent_all.store(true, Ordering::Relaxed);
        }
        Ok(Self { shared, threads })
    }

    /// Returns a function that describes what was found since its previous call.
    pub fn each_second(&self) -> Box<dyn Fn() -> String> {
        let (shared, before) = (self.shared.clone(), Cell::new([0; 4]));
        Box::new(move || {
            let found = shared.found.lock();
            let times = [&found.submitted_ms, &found.processed_ms, &found.confirmed_ms, &found.answers_ms];
            let before = before.replace(times.map(Vec::len));
            let names = ["submitted", "processed", "confirmed", "answered"].into_iter().zip(times);
            let part = |((name, times), from): ((&str, &Vec<f64>), usize)| {
                let WaitTimes { count, p50, max, .. } = WaitTimes::of(&mut times[from..].to_vec());
                (count > 0).then(|| format!("{count} {name} p50 {p50:.1} max {max:.1} ms"))
            };
            let parts: Vec<String> = names.zip(before).filter_map(part).collect();
            if parts.is_empty() { "–".into() } else { parts.join("   ") }
        })
    }

    /// Returns the results once the pending probes have an outcome.
    pub fn end(self) -> Latency {
        self.shared.quit.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        let mut found = self.shared.found.lock();
        Latency {
            probes: found.probes,
            probes_refused: found.refused,
            probes_lost: found.probes.saturating_sub(found.confirmed_ms.len() as u64 + found.refused),
            submitted_ms: WaitTimes::of(&mut found.submitted_ms),
            processed_ms: WaitTimes::of(&mut found.processed_ms),
            confirmed_ms: WaitTimes::of(&mut found.confirmed_ms),
            questions_failed: found.questions_failed,
            answers_ms: WaitTimes::of(&mut found.answers_ms),
        }
    }
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Submits a probe whenever one is due.
fn submit(rpc: Rpc, mut schedule: Schedule, shared: &Shared, payer: &Payer, to: &Pubkey, hash: Hash) {
    let (mut hash, mut hash_at, mut count) = (hash, Instant::now(), 0);
    while let Some(due) = schedule.next(&shared.quit) {
        count += 1;
        // Each with another amount, so that no two are the same transaction.
        let sent = payer.send(&rpc, &[(*to, count)], &hash, true);
        let mut found = shared.found.lock();
        found.probes += 1;
        match sent {
            Ok(signature) => {
                found.submitted_ms.push(ms(due));
                let under = PendingProbe { signature, due, processed: false };
                shared.under.lock().push(under);
            }
            Err(_) => found.refused += 1,
        }
        drop(found);
        if hash_at.elapsed() > BLOCKHASH_FOR
            && let Ok(fresh) = fund::blockhash(&rpc)
        {
            (hash, hash_at) = (fresh, Instant::now());
        }
    }
    shared.sent_all.store(true, Ordering::Relaxed);
}

/// Requests the statuses of the pending probes until all have an outcome.
fn watch(rpc: Rpc, shared: &Shared) {
    loop {
        let sent_all = shared.sent_all.load(Ordering::Relaxed);
        let asked: Vec<String> = {
            let under = shared.under.lock();
            under.iter().take(STATUSES).map(|probe| probe.signature.clone()).collect()
        };
        if asked.is_empty() && sent_all {
            return;
        }
        if !asked.is_empty()
            && let Ok(answer) = rpc.call("getSignatureStatuses", &json!([asked]))
        {
            note(&answer["value"], shared);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Processes the statuses of the first pending probes.
fn note(statuses: &Value, shared: &Shared) {
    let mut found = shared.found.lock();
    let mut under = shared.under.lock();
    let mut statuses = statuses.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    under.retain_mut(|probe| {
        // Probes submitted since the request have no status yet.
        let status = statuses.next().unwrap_or(&Value::Null);
        if !status.is_null() && !std::mem::replace(&mut probe.processed, true) {
            found.processed_ms.push(ms(probe.due));
        }
        let is_confirmed = matches!(status["confirmationStatus"].as_str(), Some("confirmed" | "finalized"));
        if is_confirmed {
            found.confirmed_ms.push(ms(probe.due));
        }
        !is_confirmed && probe.due.elapsed() < GIVEN_UP
    });
}

/// Sends one of four queries whenever one is due.
fn ask(rpc: Rpc, mut schedule: Schedule, shared: &Shared, about: &Pubkey) {
    let commitment = json!({ "commitment": "processed" });
    let about = encode_32(about).to_string();
    let questions = [
        ("getBalance", json!([about, commitment])),
        ("getAccountInfo", json!([about, { "commitment": "processed", "encoding": "base64" }])),
        ("getLatestBlockhash", json!([commitment])),
        ("getSlot", json!([commitment])),
    ];
    for (method, params) in questions.iter().cycle() {
        let Some(due) = schedule.next(&shared.quit) else { return };
        let answer = rpc.call(method, params);
        let mut found = shared.found.lock();
        match answer {
            Ok(_) => found.answers_ms.push(ms(due)),
            Err(_) => found.questions_failed += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_taken_in_once_and_in_order() {
        let shared = Shared::default();
        let due = Instant::now();
        let probe = |name: &str| PendingProbe { signature: name.into(), due, processed: false };
        *shared.under.lock() = vec![probe("a"), probe("b"), probe("c")];
        note(&json!([null, { "confirmationStatus": "processed" }]), &shared);
        note(&json!([null, { "confirmationStatus": "confirmed" }, { "confirmationStatus": "finalized" }]), &shared);
        let found = shared.found.lock();
        assert_eq!((found.processed_ms.len(), found.confirmed_ms.len()), (2, 2));
        assert_eq!(shared.under.lock()[0].signature, "a");
    }

    #[test]
    fn each_second_tells_what_is_new() {
        let prober = Prober { shared: Arc::new(Shared::default()), threads: vec![] };
        let line = prober.each_second();
        assert_eq!(line(), "–");
        prober.shared.found.lock().confirmed_ms = vec![5.0, 1.0, 3.0];
        assert_eq!(line(), "3 confirmed p50 3.0 max 5.0 ms");
        prober.shared.found.lock().confirmed_ms.push(9.0);
        prober.shared.found.lock().answers_ms.push(0.5);
        assert_eq!(line(), "1 confirmed p50 9.0 max 9.0 ms   1 answered p50 0.5 max 0.5 ms");
        assert_eq!(line(), "–");
    }

    #[test]
    fn latency_counts_from_the_due_time() {
        let measuring = Arc::new(AtomicBool::new(true));
        let mut schedule = Schedule::new(&measuring, 1000.0, Duration::ZERO);
        let quit = AtomicBool::new(false);
        let first = schedule.next(&quit).unwrap();
        let second = schedule.next(&quit).unwrap();
        assert_eq!(second - first, Duration::from_millis(1));
        measuring.store(false, Ordering::Relaxed);
        assert_eq!(schedule.next(&quit), None);
    }
}
