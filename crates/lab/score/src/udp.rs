//! Measures datagrams per second from one thread to another over 127.0.0.1, in batches like those of the net tile.
//!
//! reads   datagrams of a transfer's size from the sender
//! writes  those datagrams
//! memory  the batch's buffers, 4 MiB, and the kernel's socket buffers
//! drops   datagrams that the kernel has no room for; counted as the difference
//! source  `recvmmsg` and `sendmmsg` with at most 64 messages, see `hearth_tile::sys::udp`

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hearth_tile::sys::udp::{MAX_BATCH, Message, Options, PortSharing, RecvBatch, UdpSocket};
use hearth_wire::transfer::TRANSFER_SIZE;

use super::ScoreError;
use super::measure::{Measurement, measure};

/// Datagrams received per call; their number over the time is the score.
const PER_CALL: u64 = 4096;
/// Buffer size that the sockets request from the kernel.
const BUFFER_BYTES: usize = 4 << 20;
/// After this long without a datagram, no more will come.
const SILENCE: Duration = Duration::from_secs(10);

/// Received and sent datagrams.
#[derive(Clone, Debug, PartialEq)]
pub struct Loopback {
    /// Datagrams received per second, with the spread.
    pub received: Measurement,
    /// Datagrams per second that the kernel accepted from the sender.
    pub sent: f64,
}

/// Sends as fast as one thread can and counts what another receives.
///
/// # Errors
/// Sockets that cannot be opened or used, and silence.
pub fn loopback(limit: Duration, is_stopped: &dyn Fn() -> bool) -> Result<Option<Loopback>, ScoreError> {
    let failed = |source| ScoreError::System { what: "UDP over 127.0.0.1", source };
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = Options { sharing: PortSharing::None, buffer_bytes: BUFFER_BYTES };
    let (from, to) = (UdpSocket::bind(here, options).map_err(failed)?, UdpSocket::bind(here, options).map_err(failed)?);
    let (sent, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let sending = thread::Builder::new()
            .spawn_scoped(scope, || send(&from, to.local_addr(), &sent, &is_over))
            .map_err(|source| ScoreError::System { what: "a thread", source })?;
        let mut receiver = Receiver { socket: &to, from: from.local_addr(), batch: RecvBatch::new(MAX_BATCH), over: 0 };
        let mut calls = 0;
        let (mut begin, mut sent_before) = (Instant::now(), 0);
        let received = measure(PER_CALL as f64, limit, is_stopped, || {
            receiver.call(is_stopped).map_err(failed)?;
            if calls == 0 {
                // The first call is not measured.
                (begin, sent_before) = (Instant::now(), sent.load(Ordering::Acquire));
            }
            calls += 1;
            Ok(())
        });
        let passed = begin.elapsed().as_secs_f64();
        let sent = sent.load(Ordering::Acquire) - sent_before;
        is_over.store(true, Ordering::Release);
        let sender_failed = sending.join().expect("sending does not panic").err();
        match (received, sender_failed) {
            (received, None) => Ok(received?.map(|received| Loopback { received, sent: sent as f64 / passed })),
            (_, Some(why)) => Err(failed(why)),
        }
    })
}

fn send(from: &UdpSocket, to: SocketAddr, sent: &AtomicU64, is_over: &AtomicBool) -> std::io::Result<()> {
    let data = [0x66; TRANSFER_SIZE];
    let messages = [Message { to, data: &data, segment: None }; MAX_BATCH];
    while !is_over.load(Ordering::Acquire) {
        match from.send(&messages)? {
            0 => thread::yield_now(),
            count => _ = sent.fetch_add(count as u64, Ordering::AcqRel),
        }
    }
    Ok(())
}

struct Receiver<'a> {
    socket: &'a UdpSocket,
    from: SocketAddr,
    batch: RecvBatch,
    /// Datagrams that the previous call received in excess.
    over: u64,
}

impl Receiver<'_> {
    /// Receives the datagrams of one call.
    fn call(&mut self, is_stopped: &dyn Fn() -> bool) -> std::io::Result<()> {
        let mut heard = Instant::now();
        while self.over < PER_CALL {
            if self.socket.receive(&mut self.batch)? > 0 {
                let ours = |(from, data): &(SocketAddr, &[u8])| *from == self.from && data.len() == TRANSFER_SIZE;
                self.over += self.batch.datagrams().filter(ours).count() as u64;
                heard = Instant::now();
                continue;
            }
            if is_stopped() {
                return Ok(());
            }
            if heard.elapsed() > SILENCE {
                return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "nothing arrives"));
            }
            thread::yield_now();
        }
        self.over -= PER_CALL;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_datagrams_were_sent() {
        let score = loopback(Duration::from_millis(50), &|| false).expect("sockets").expect("not stopped");
        assert!(score.received.calls > 0 && score.received.wall > 0.0);
        // Datagrams sent before the measurement may arrive during it: at most what fits into the receiver's buffer.
        let seconds = score.received.calls as f64 * PER_CALL as f64 / score.received.wall;
        let waiting = (2 * BUFFER_BYTES / TRANSFER_SIZE) as f64;
        assert!(score.sent * seconds + waiting >= score.received.wall * seconds * 0.99, "{score:?}");
        assert!(loopback(Duration::from_secs(3600), &|| true).expect("no error").is_none());
    }

    #[test]
    fn foreign_datagrams_are_not_counted() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options { sharing: PortSharing::None, buffer_bytes: BUFFER_BYTES };
        let (to, from) = (UdpSocket::bind(here, options).unwrap(), UdpSocket::bind(here, options).unwrap());
        let other = UdpSocket::bind(here, options).unwrap();
        let whole = [0; TRANSFER_SIZE];
        let mut receiver = Receiver { socket: &to, from: from.local_addr(), batch: RecvBatch::new(8), over: 0 };
        for (socket, data) in [(&other, &whole[..]), (&from, &whole[1..]), (&from, &whole)] {
            let message = Message { to: to.local_addr(), data, segment: None };
            let begin = Instant::now();
            while socket.send(&[message]).unwrap() == 0 {
                assert!(begin.elapsed() < SILENCE);
            }
        }
        // All datagrams are already in the socket: the stop flag is checked only when it is empty.
        receiver.call(&|| true).unwrap();
        assert_eq!(receiver.over, 1);
    }
}
