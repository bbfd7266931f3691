//! A storm of scrapers and dashboards: each has a clear answer, the node's memory is bounded, and transactions land.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use hearth_ledger::genesis::funded_account_key;
use parking_lot::Mutex;

use super::client::{Sender, fresh_address, transfer};
use super::node::{DEADLINE, Setup, same, wait_until};

/// Scrapers that repeat at once after every answer: twice as many as are served concurrently.
const SCRAPERS: usize = 2 * SERVED;
/// Scrapers, and dashboards, that ask and never read.
const SILENT: usize = 40;
/// Concurrent requests that the node serves of each kind.
const SERVED: usize = 16;
const TRANSFERS: usize = 500;
/// Allowed memory growth: sixteen texts, and eight seconds for each of sixteen pages, are 10 MB.
const MORE_KIB: u64 = 64 << 10;

fn ask(port: u16, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the node takes connections");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    // A client that is disconnected early can already read the reason.
    let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream
}

/// Returns the status and the whole answer; `None` if the connection broke.
fn answer(mut stream: TcpStream) -> Option<(u16, String)> {
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some((text.split(' ').nth(1)?.parse().ok()?, text))
}

/// The answer to a page that was refused; one that is served never ends.
fn refusal(mut stream: TcpStream) -> Option<String> {
    let mut beginning = [0; 12];
    stream.read_exact(&mut beginning).expect("an answer");
    let mut text = String::new();
    (&beginning == b"HTTP/1.1 503").then(|| stream.read_to_string(&mut text).expect("all of it"))?;
    Some(text)
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the node runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Statuses by how often they came, and one refusal.
#[derive(Default)]
struct Answers {
    served: usize,
    refused: usize,
    refusal: String,
}

/// Sets a flag that ends the storm, after a failed check too.
pub struct EndOnDrop<'a>(pub &'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks again and again until the end.
fn scrape(port: u16, answers: &Mutex<Answers>, end: &AtomicBool) {
    while !end.load(Ordering::Relaxed) {
        let Some((status, text)) = answer(ask(port, "/metrics")) else { continue };
        let mut answers = answers.lock();
        match status {
            200 => answers.served += 1,
            503 => (answers.refused, answers.refusal) = (answers.refused + 1, text),
            other => panic!("{other}: {text}"),
        }
    }
}

#[test]
fn a_storm_of_scrapers_and_dashboards_is_bounded_and_answered() {
    let setup = Setup::new("storm");
    let node = setup.start();
    let rpc = node.rpc();
    let (answers, end) = (Mutex::<Answers>::default(), AtomicBool::new(false));
    // Warm up: one-time allocations of a first page and a first scrape are not growth.
    assert_eq!(answer(ask(node.ports.metrics, "/metrics")).expect("an answer").0, 200);
    let before_kib = resident_kib(node.process.id());
    let count = rpc.transaction_count();
    std::thread::scope(|scope| {
        let _ends = EndOnDrop(&end);
        let silent: Vec<TcpStream> = (0..SILENT).map(|_| ask(node.ports.metrics, "/metrics")).collect();
        let pages: Vec<TcpStream> = (0..SILENT).map(|_| ask(node.ports.rpc, "/dashboard/live")).collect();
        for _ in 0..SCRAPERS {
            scope.spawn(|| scrape(node.ports.metrics, &answers, &end));
        }
        let blockhash = rpc.latest_blockhash();
        let transfers: Vec<Vec<u8>> = (0..TRANSFERS)
            .map(|n| transfer(&funded_account_key(n % 64), &fresh_address(9, n), 1_000_000, &blockhash))
            .collect();
        Sender::connect(node.quic(), 9).send_all(&transfers);
        wait_until("the transfers land", || same(rpc.transaction_count() - count, TRANSFERS as u64));
        wait_until("some scrapers are served and some refused", || {
            let answers = answers.lock();
            let seen = answers.served > 0 && answers.refused > 0;
            seen.then_some(()).ok_or(format!("{} served, {} refused", answers.served, answers.refused))
        });
        let more_kib = resident_kib(node.process.id()).saturating_sub(before_kib);
        assert!(more_kib < MORE_KIB, "{more_kib} KiB");
        // Excess requests got a 503, whether the client read it or not.
        let refused: Vec<String> = pages.into_iter().filter_map(refusal).collect();
        assert_eq!(refused.len(), SILENT - SERVED);
        assert!(refused.iter().all(|text| text.ends_with("too many dashboards are open\n")), "{refused:?}");
        drop(silent);
    });
    let answers = answers.into_inner();
    let text = answers.refusal;
    assert!(
        text.contains("\r\nRetry-After: 1\r\n") && text.ends_with("16 scrapes are under way: try again\n"),
        "{text}"
    );
    // After the storm, requests are served again and the counters record it.
    wait_until("a scrape", || same(answer(ask(node.ports.metrics, "/metrics")).map(|(status, _)| status), Some(200)));
    let metrics = node.metrics();
    assert!(metrics.total("metric_refused_connections") >= answers.refused as u64);
    assert_eq!(metrics.total("rpc_dashboards_refused"), (SILENT - SERVED) as u64);
    assert_eq!(metrics.committed(), TRANSFERS as u64);
    node.stop();
}
