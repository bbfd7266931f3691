//! The thread of repair's server: one socket, one state machine.
//!
//! reads   requests, at the node's port for them
//! writes  shreds and pings
//! memory  the server's: [`hearth_pipeline::shred::serve`]; a batch of datagrams, 512 KiB
//! drops   what the server refuses, and what the kernel drops before it, counted there
//! source  –

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

pub use hearth_pipeline::shred::serve::{Counts, Server};
use hearth_tile::CounterSet;
use hearth_tile::sys::udp::{RecvBatch, UdpSocket};

use super::socket::{PeerLinks, PeerSocket};
use super::{Words, now_ms};

/// How often it is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Datagrams, or runs of them, that are taken at once.
const BATCH: usize = 8;

/// The server, running; dropping it stops it.
pub struct RepairThread {
    /// Where it counts.
    pub words: Words,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RepairThread {
    /// Listens at `address`.
    pub fn start(socket: UdpSocket, mut server: Server, links: &PeerLinks) -> io::Result<Self> {
        let words = Words::default();
        let region = Arc::clone(&words);
        let mut socket = PeerSocket::over(socket, links)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("serve-repair".into()).spawn(move || {
            let mut batch = RecvBatch::new(BATCH);
            while !stopped.load(SeqCst) {
                if let Some(words) = region.get() {
                    server.counts.dropped_by_kernel = socket.kernel_drops();
                    server.counts.flush(words.words());
                }
                if !socket.receive(&mut batch, LOOK_EVERY) {
                    continue;
                }
                for (from, request) in batch.datagrams() {
                    let answers = server.answer(from, request, now_ms());
                    answers.iter().for_each(|answer| socket.send(answer, from));
                }
            }
        })?;
        Ok(Self { words, stop, thread: Some(thread) })
    }
}

impl Drop for RepairThread {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}
