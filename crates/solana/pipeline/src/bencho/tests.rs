//! Tile tests: a fake RPC server, samples and blockhashes out.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hearth_tile::rig::Rig;

use super::*;

/// The tile, and a server answered by hand. The clock is virtual; sockets are real.
struct World {
    rig: Rig<Bencho>,
    samples: Receiver<Sample>,
    listener: TcpListener,
    stream: Option<TcpStream>,
}

impl World {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let (sender, samples) = channel();
        let config = Config { rpc: listener.local_addr().unwrap(), samples: sender };
        let rig = Rig::<Bencho>::new(config, &[], &[BENCHO_BENCHG]);
        Self { rig, samples, listener, stream: None }
    }

    /// Runs turns until `done`.
    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + hearth_testkit::PATIENCE;
        while !done(self) {
            assert!(Instant::now() < deadline, "not in time: {what}; {:?}", self.rig.count());
            self.rig.turn();
        }
    }

    /// Waits for the next request and returns its body.
    fn request(&mut self) -> String {
        let mut bytes = vec![];
        self.until("a request", |world| {
            if let Ok((stream, _)) = world.listener.accept() {
                stream.set_nonblocking(true).unwrap();
                world.stream = Some(stream);
            }
            let Some(stream) = &mut world.stream else { return false };
            let mut buffer = [0; 1024];
            if let Ok(n) = stream.read(&mut buffer) {
                bytes.extend_from_slice(&buffer[..n]);
            }
            bytes.ends_with(b"}")
        });
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST / HTTP/1.1\r\n") && head.contains(&format!("Content-Length: {}", body.len())));
        body.into()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.as_mut().expect("a request came").write_all(bytes).unwrap();
    }

    fn answer(&mut self, body: &str) {
        self.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    fn settled(&self) -> u64 {
        self.rig.count().answers + self.rig.count().failed
    }

    /// Waits for a request, lets `reply` handle it, and waits until the tile has decided. Returns whether it counts as
    /// an answer.
    fn exchange(&mut self, reply: impl FnOnce(&mut Self, &str)) -> bool {
        let (before, answers) = (self.settled(), self.rig.count().answers);
        let question = self.request();
        reply(self, &question);
        self.until("a verdict", |world| world.settled() > before);
        self.rig.count().answers > answers
    }
}

const BLOCKHASH: &str = "4sGjMW1sUnHzSxGspuhpqLDx6wiyjNtZAMdL4VZHirAn";

fn good(question: &str) -> String {
    if question.contains("getTransactionCount") {
        r#"{"jsonrpc":"2.0","id":1,"result":268}"#.into()
    } else {
        assert!(question.contains("getLatestBlockhash"), "{question}");
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"context":{{"slot":1}},"value":{{"blockhash":"{BLOCKHASH}"}}}}}}"#
        )
    }
}

#[test]
fn asks_both_questions_every_second_over_one_connection() {
    let mut world = World::new();
    for second in 0..3u64 {
        for _ in 0..2 {
            assert!(world.exchange(|world, question| world.answer(&good(question))));
            // Slow responses do not shift the grid.
            world.rig.advance(Duration::from_millis(100));
        }
        world.rig.run();
        let sample = world.samples.try_recv().unwrap();
        assert_eq!((sample.transaction_count, sample.at_ns / 1_000_000_000), (268, second));
        assert!(world.samples.try_recv().is_err(), "once a second");
        let hashes = world.rig.take(BENCHO_BENCHG);
        assert_eq!(hashes, [(0, hearth_wire::base58::decode_32(BLOCKHASH).unwrap().to_vec())]);
        assert_eq!(world.rig.count().answers, 2 * (second + 1));
        world.rig.advance(Duration::from_millis(800));
    }
    assert_eq!((world.rig.count().failed, world.rig.count().chain_transactions), (0, 268));
}

#[test]
fn an_answer_may_come_byte_by_byte() {
    let mut world = World::new();
    assert!(world.exchange(|world, question| {
        let body = good(question);
        for byte in format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).bytes() {
            world.write(&[byte]);
            world.rig.turn();
        }
    }));
}

#[test]
fn broken_answers_are_counted_and_the_next_one_counts_again() {
    let mut world = World::new();
    let bodies = [
        "",
        "not JSON",
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"behind"}}"#,
        r#"{"result":-1}"#,
        r#"{"result":"268"}"#,
        r#"{"result":{"value":null}}"#,
        r#"{"result":{"value":{"blockhash":"0OIl"}}}"#,
        r#"{"result":{"value":{"blockhash":7}}}"#,
    ];
    let mut replies: Vec<Vec<u8>> = bodies
        .iter()
        .map(|body| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
        .collect();
    replies.push(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec());
    replies.push(b"HTTP/1.1 200 OK\r\n\r\n".to_vec());
    replies.push(b"\xff\xfe\r\n\r\n".to_vec());
    replies.push(vec![b'x'; 70_000]);
    let mut failed = 0;
    for reply in &replies {
        for _ in 0..2 {
            // The tile may close the connection before it has read all of an oversized reply.
            assert!(!world.exchange(|world, _| drop(world.stream.as_mut().unwrap().write_all(reply))));
            failed += 1;
        }
        assert_eq!(world.rig.count().failed, failed);
        world.rig.advance(Duration::from_secs(1));
    }
    for _ in 0..2 {
        assert!(world.exchange(|world, question| world.answer(&good(question))));
    }
    assert_eq!((world.rig.count().answers, world.rig.count().failed), (2, failed));
    assert_eq!(world.rig.take(BENCHO_BENCHG).len(), 1);
}

#[test]
fn a_server_that_hangs_up_is_called_again() {
    let mut world = World::new();
    assert!(!world.exchange(|world, _| drop(world.stream.take())));
    assert!(!world.exchange(|world, question| {
        let half = &good(question)[..10];
        world.answer(half);
        world.stream = None;
    }));
    world.rig.advance(Duration::from_secs(1));
    for _ in 0..2 {
        assert!(world.exchange(|world, question| world.answer(&good(question))));
    }
}

#[test]
fn an_answer_counts_though_the_server_hangs_up_behind_it() {
    let mut world = World::new();
    for _ in 0..2 {
        assert!(world.exchange(|world, question| {
            world.answer(&good(question));
            world.stream = None;
        }));
    }
}

#[test]
fn silence_is_given_up_after_two_seconds() {
    let mut world = World::new();
    world.request();
    world.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{");
    world.rig.advance(Duration::from_millis(1999));
    world.rig.run();
    assert_eq!(world.settled(), 0);
    world.rig.advance(Duration::from_millis(1));
    world.until("it gives up", |world| world.rig.count().failed == 1);
    // A late response on the old connection is not taken for one on the new.
    let old = world.stream.take();
    assert!(world.exchange(|world, question| world.answer(&good(question))));
    drop(old);
}

#[test]
fn a_server_that_is_not_there_costs_two_failures_a_second() {
    let mut world = World::new();
    world.listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for second in 0..3u64 {
        world.until("both fail", |world| world.rig.count().failed == 2 * (second + 1));
        world.rig.run();
        assert_eq!(world.rig.count().failed, 2 * (second + 1));
        world.rig.advance(Duration::from_secs(1));
    }
}

/// The server's connection queue is full: the tile continues, checks again soon, and finally gives up.
#[test]
fn pending_connection_delays_no_other() {
    let mut world = World::new();
    let addr = world.listener.local_addr().unwrap();
    let mut others = vec![];
    loop {
        let mut stream = hearth_tile::sys::tcp::connect(addr).unwrap();
        let made = stream.write(b"x").is_ok();
        others.push(stream);
        assert!(others.len() < 10_000, "the queue has an end");
        if !made {
            break;
        }
    }
    // The connection never succeeds: a tile that waited for it would return with a failure.
    world.rig.run();
    assert_eq!(world.settled(), 0);
    let now = world.rig.clock().now();
    assert_eq!(world.rig.waits_for().deadline, Some(now + RETRY_NS));
    world.rig.advance(Duration::from_secs(2));
    world.rig.turn();
    assert_eq!(world.rig.count().failed, 1);
}

#[test]
fn missing_reader_of_samples_is_no_fault() {
    let mut world = World::new();
    world.samples = channel().1;
    for _ in 0..2 {
        assert!(world.exchange(|world, question| world.answer(&good(question))));
    }
    assert_eq!(world.rig.count().failed, 0);
}
