//! Reads whole streams from the connections in turn, as far as the caller has room.
//!
//! Most transactions arrive in one finished piece, which is lent to the caller straight from the decrypted datagram, so
//! it is copied only once, by the caller. A stream that arrives in parts is gathered beside its connection until it is
//! finished, too long, or too late.
//!
//! reads   streams of connections that have something new
//! writes  transactions
//! memory  `reassembly_bytes_max` for parts, over all connections
//! drops   empty, reset, late and over-long streams, each counted
//! source  Agave 4.2: chunk timeout 2 s; throttle in windows of 100 ms

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{Chunk, Chunks, Dir, ReadError, StreamId};
use rustc_hash::FxHashMap;

use super::{Peer, Server, Stage, THROTTLE_WINDOW};
use crate::config::{STREAM_FRAMES_MAX, ServerConfig};
use crate::stake::Load;
use crate::{close_code, entropy};

/// Transactions read from one connection before the next one's turn.
const TURN: u32 = 32;

/// A stream that is being read and has not ended.
struct Part {
    bytes: Vec<u8>,
    /// Number of its frames after the first.
    frames: u32,
    /// When data last arrived.
    heard: Instant,
    /// Whether it is in `Streams::readable`.
    queued: bool,
}

/// The reading side of one connection.
pub(super) struct Streams {
    parts: FxHashMap<StreamId, Part>,
    /// Frames after the first of streams not yet taken up.
    early: FxHashMap<StreamId, u32>,
    /// Whether a stream has arrived in too many frames.
    fragmented: bool,
    /// Parts with new data, in order of arrival.
    readable: VecDeque<StreamId>,
    /// Parts in the order in which they may time out; entries of finished parts are skipped.
    timeouts: VecDeque<(Instant, StreamId)>,
    held_bytes: usize,
    /// Whether the connection is in `Server::to_read`.
    read_queued: bool,
    turn: u32,
    /// When it may be read again.
    throttled_until: Option<Instant>,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            parts: FxHashMap::default(),
            early: FxHashMap::default(),
            fragmented: false,
            readable: VecDeque::new(),
            timeouts: VecDeque::new(),
            held_bytes: 0,
            read_queued: false,
            turn: 0,
            throttled_until: None,
        }
    }

    /// Number of streams that are being read and have not ended.
    pub(super) fn unfinished(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether a stream has arrived in too many frames.
    pub(super) fn is_fragmented(&self) -> bool {
        self.fragmented
    }

    /// Counts one more frame of a stream: each has an event, except for the one that opens the stream. Returns whether
    /// it must be read; streams that are not taken up yet are found otherwise.
    pub(super) fn on_readable(&mut self, id: StreamId, now: Instant) -> bool {
        let Some(part) = self.parts.get_mut(&id) else {
            let frames = self.early.entry(id).or_default();
            *frames += 1;
            self.fragmented |= *frames >= STREAM_FRAMES_MAX;
            return false;
        };
        part.frames += 1;
        self.fragmented |= part.frames >= STREAM_FRAMES_MAX;
        part.heard = now;
        if !part.queued {
            part.queued = true;
            self.readable.push_back(id);
        }
        true
    }

    /// Whether the connection must now be added to the queue of those to read.
    pub(super) fn queue_read(&mut self) -> bool {
        let queue = !self.read_queued && self.throttled_until.is_none();
        self.read_queued |= queue;
        queue
    }

    /// The part of a stream, created if there is none.
    fn part(&mut self, id: StreamId, frames: u32, now: Instant) -> &mut Part {
        self.parts.entry(id).or_insert_with(|| {
            self.timeouts.push_back((now, id));
            Part { bytes: Vec::new(), frames, heard: now, queued: false }
        })
    }

    /// Removes a part of which `held` bytes were accounted for.
    fn remove(&mut self, id: StreamId, held: usize, total: &mut usize) {
        self.parts.remove(&id);
        self.held_bytes -= held;
        *total -= held;
        // Entries of ended parts linger behind a slow one; keep them in proportion.
        if self.timeouts.len() > 2 * self.parts.len() + 64 {
            self.timeouts.retain(|(_, id)| self.parts.contains_key(id));
        }
    }

    /// Accounts for what a part now holds over `held` bytes.
    fn grow(&mut self, id: StreamId, held: usize, total: &mut usize) {
        let grown = self.parts[&id].bytes.len() - held;
        self.held_bytes += grown;
        *total += grown;
    }

    /// When this side must be woken next.
    pub(super) fn deadline(&mut self, now: Instant, timeout: Duration) -> Option<Instant> {
        while let Some((_, id)) = self.timeouts.front()
            && !self.parts.contains_key(id)
        {
            self.timeouts.pop_front();
        }
        let first = self.timeouts.front().map(|&(heard, _)| (heard + timeout).max(now));
        [first, self.throttled_until].into_iter().flatten().min()
    }
}

/// The result of reading a stream.
enum StreamRead {
    /// A whole transaction in one piece.
    Piece(Bytes),
    /// A whole transaction out of several.
    Gathered(Vec<u8>),
    /// Nothing to give out (yet).
    Nothing,
    /// The stream is longer than a transaction may be.
    Oversize,
}

/// How a stream ended.
enum StreamEnd {
    Whole(Vec<u8>),
    Oversize,
    Reset,
}

/// Appends a stream's data to `bytes`: the two reads already made, then the rest. `None` if the stream is not finished.
fn gather(
    bytes: &mut Vec<u8>,
    limit: usize,
    chunks: &mut Chunks<'_>,
    first: Result<Option<Chunk>, ReadError>,
    mut second: Option<Result<Option<Chunk>, ReadError>>,
) -> Option<StreamEnd> {
    let mut next = first;
    loop {
        match next {
            Ok(Some(chunk)) if bytes.len() + chunk.bytes.len() > limit => {
                return Some(StreamEnd::Oversize);
            }
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
            Ok(None) => return Some(StreamEnd::Whole(std::mem::take(bytes))),
            Err(ReadError::Reset(_)) => return Some(StreamEnd::Reset),
            Err(ReadError::Blocked) => return None,
        }
        next = second.take().unwrap_or_else(|| chunks.next(usize::MAX));
    }
}

/// Streams that a peer with this share of all stake, or none, may have read in a window, if limited. A rate below ten
/// per second still allows one.
fn per_window(config: &ServerConfig, share: Option<f64>, load: &mut Load, now: Instant) -> Option<u32> {
    let unstaked = config.streams_per_second.map(|rate| (rate / 10).max(1));
    let Some(share) = share else { return unstaked };
    let staked = load.per_window(config.staked_streams_per_second?, THROTTLE_WINDOW, share, now);
    Some(staked.max(unstaked.map_or(1, |most| most + 1)))
}

impl Server {
    pub(super) fn read_next<R>(&mut self, now: Instant, take: impl FnOnce(&Peer, &[u8]) -> R) -> Option<R> {
        while let Some(&index) = self.to_read.front() {
            let Some(id) = self.next_stream(index, now) else {
                self.to_read.pop_front();
                continue;
            };
            let read = self.read_stream(index, id, now);
            let (bytes, gathered): (&[u8], bool) = match &read {
                StreamRead::Piece(piece) => (piece, false),
                StreamRead::Gathered(bytes) => (bytes, true),
                StreamRead::Nothing => continue,
                StreamRead::Oversize => {
                    self.counters.streams_oversize += 1;
                    let code = close_code::INVALID_STREAM;
                    self.close(index, now, code, "invalid_stream");
                    continue;
                }
            };
            self.counters.transactions += 1;
            self.counters.transaction_bytes += bytes.len() as u64;
            self.counters.transactions_reassembled += u64::from(gathered);
            let slot = self.slots[index as usize].as_mut().expect("just read from");
            slot.used = now;
            slot.streams.turn += 1;
            let result = take(&slot.peer, bytes);
            if slot.streams.turn >= TURN {
                slot.streams.turn = 0;
                self.to_read.rotate_left(1);
            }
            return Some(result);
        }
        None
    }

    /// The stream of this connection to read next. `None` takes it out of the queue.
    fn next_stream(&mut self, index: u32, now: Instant) -> Option<StreamId> {
        let slot = self.slots.get_mut(index as usize)?.as_deref_mut()?;
        let streams = &mut slot.streams;
        if slot.closing {
            streams.read_queued = false;
            return None;
        }
        while let Some(id) = streams.readable.pop_front() {
            if let Some(part) = streams.parts.get_mut(&id) {
                part.queued = false;
                return Some(id);
            }
        }
        let per_window = per_window(&self.config, slot.share, &mut self.staked_load, now);
        // All connections of a peer share its window.
        let mut window = match slot.counted {
            Some(peer) if per_window.is_some() => Some(self.admission.window(&peer)),
            _ => None,
        };
        if let (Some(window), Some(per_window)) = (&mut window, per_window) {
            if now.saturating_duration_since(window.start) >= THROTTLE_WINDOW {
                window.start = now;
                window.count = 0;
            }
            if window.count >= per_window {
                let until = window.start + THROTTLE_WINDOW;
                streams.throttled_until = Some(until);
                streams.read_queued = false;
                self.counters.throttled += 1;
                self.deadlines.advance(index, until);
                return None;
            }
        }
        if let Some(id) = slot.quic.streams().accept(Dir::Uni) {
            if let Some(window) = window {
                window.count += 1;
            }
            if slot.share.is_some() && self.config.staked_streams_per_second.is_some() {
                self.staked_load.add(now);
            }
            self.counters.streams_accepted += 1;
            return Some(id);
        }
        streams.read_queued = false;
        streams.turn = 0;
        self.release(index);
        let slot = self.slots[index as usize].as_deref_mut().expect("an occupied slot");
        if slot.stage == Stage::Ended {
            if slot.transmit_queued {
                // Its close has yet to be sent.
                slot.closing = true;
            } else {
                self.forget(index);
            }
        }
        None
    }

    /// Reads all that is there of a stream.
    fn read_stream(&mut self, index: u32, id: StreamId, now: Instant) -> StreamRead {
        let limit = self.config.stream_bytes_max;
        let slot = self.slots[index as usize].as_deref_mut().expect("an occupied slot");
        let streams = &mut slot.streams;
        let early = if streams.early.is_empty() { 0 } else { streams.early.remove(&id).unwrap_or(0) };
        let mut stream = slot.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            // Only a stream that we have stopped is gone; its part went with it.
            return StreamRead::Nothing;
        };
        let first = chunks.next(usize::MAX);
        let mut second = None;
        if let Ok(Some(chunk)) = &first
            && chunk.bytes.len() <= limit
            && (streams.parts.is_empty() || !streams.parts.contains_key(&id))
        {
            // The common case: one piece, finished.
            let next = chunks.next(usize::MAX);
            if let Ok(None) = next {
                let piece = StreamRead::Piece(chunk.bytes.clone());
                if chunks.finalize().should_transmit() {
                    self.queue_transmit(index);
                }
                return piece;
            }
            second = Some(next);
        }
        let part = streams.part(id, early, now);
        let held = part.bytes.len();
        let end = gather(&mut part.bytes, limit, &mut chunks, first, second);
        let transmit = chunks.finalize().should_transmit();
        match end {
            Some(_) => streams.remove(id, held, &mut self.reassembly_bytes),
            None => streams.grow(id, held, &mut self.reassembly_bytes),
        }
        if transmit {
            self.queue_transmit(index);
        }
        match end {
            Some(StreamEnd::Whole(bytes)) if bytes.is_empty() => self.counters.streams_empty += 1,
            Some(StreamEnd::Whole(bytes)) => return StreamRead::Gathered(bytes),
            Some(StreamEnd::Oversize) => return StreamRead::Oversize,
            Some(StreamEnd::Reset) => self.counters.streams_reset += 1,
            None if self.reassembly_bytes > self.config.reassembly_bytes_max => {
                self.counters.streams_over_memory += 1;
                self.stop(index, id);
            }
            None => self.deadlines.advance(index, now + self.config.stream_timeout),
        }
        StreamRead::Nothing
    }

    /// Refuses the rest of an unfinished stream and frees what is held of it.
    fn stop(&mut self, index: u32, id: StreamId) {
        let slot = self.slots[index as usize].as_deref_mut().expect("an occupied slot");
        let held = slot.streams.parts.get(&id).map_or(0, |part| part.bytes.len());
        slot.streams.remove(id, held, &mut self.reassembly_bytes);
        // An error means that the stream is gone already, which is what we want.
        let _ = slot.quic.recv_stream(id).stop(entropy::varint(0));
        self.queue_transmit(index);
    }

    /// Stops the streams of a connection that have had no news for too long.
    pub(super) fn stream_timeouts(&mut self, index: u32, now: Instant) {
        let timeout = self.config.stream_timeout;
        loop {
            let Some(slot) = self.slots[index as usize].as_deref_mut() else {
                return;
            };
            let streams = &mut slot.streams;
            let Some(&(heard, id)) = streams.timeouts.front() else {
                return;
            };
            if heard + timeout > now {
                return;
            }
            streams.timeouts.pop_front();
            let Some(part) = streams.parts.get(&id) else {
                continue;
            };
            if part.queued || part.heard + timeout > now {
                // Data arrived meanwhile, or waits for the caller: this delay is not the peer's.
                let heard = if part.queued { now } else { part.heard };
                streams.timeouts.push_back((heard, id));
                continue;
            }
            self.counters.streams_timed_out += 1;
            self.stop(index, id);
        }
    }

    /// Resumes reading a throttled connection when its window is over.
    pub(super) fn unthrottle(&mut self, index: u32, now: Instant) {
        let Some(slot) = self.slots[index as usize].as_deref_mut() else {
            return;
        };
        if slot.streams.throttled_until.is_some_and(|until| until <= now) {
            slot.streams.throttled_until = None;
            if slot.streams.queue_read() {
                self.to_read.push_back(index);
            }
        }
    }
}
