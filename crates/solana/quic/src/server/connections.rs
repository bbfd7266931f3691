//! Connections from their first datagram to their end.
//!
//! reads   datagrams, timeouts
//! writes  slots of the server, answers outside a connection
//! memory  a slot a connection, at most [`slots_max`](crate::ServerConfig::slots_max); `responses_max` answers
//! drops   attempts over a limit, handshakes that fail or take too long; all counted
//! source  RFC 9000 sections 5, 8.1 and 10

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use quinn_proto::{ConnectionError, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Event, Incoming, StreamEvent};
use rustls::pki_types::CertificateDer;

use super::{HeldDatagrams, Peer, Server, Slot, Stage, Streams, marked_copy};
use crate::admission::{PeerId, Refusal};
use crate::config::STREAM_FRAMES_MAX;
use crate::transport::pass_events;
use crate::{close_code, entropy, tls};

/// CRYPTO frames that a connection may send in all: a handshake takes about four. Like [`STREAM_FRAMES_MAX`], it bounds
/// the pieces that wait for those before them.
const CRYPTO_FRAMES_MAX: u64 = 4 * STREAM_FRAMES_MAX as u64;

impl Server {
    pub(super) fn receive(&mut self, now: Instant, from: SocketAddr, ecn: Option<EcnCodepoint>, payload: &[u8]) {
        self.scratch.clear();
        let (copy, mark) = marked_copy(payload);
        match self.endpoint.handle(now, from, None, ecn, copy, &mut self.scratch) {
            None => self.counters.datagrams_ignored += 1,
            Some(DatagramEvent::Response(transmit)) => self.respond(transmit),
            Some(DatagramEvent::NewConnection(incoming)) => self.admit(now, incoming),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let index = handle.0 as u32;
                if let Some(slot) = self.slot(index) {
                    slot.quic.handle_event(event);
                    self.take_events(index, now);
                    self.queue_transmit(index);
                    self.hold(index, now, mark, payload.len());
                }
            }
        }
    }

    /// Accounts for what a connection holds of the latest datagram, and closes it if that is too much.
    fn hold(&mut self, index: u32, now: Instant, mark: Bytes, length: usize) {
        let slot = self.slots[index as usize].as_deref_mut().expect("an occupied slot");
        self.held_bytes -= slot.held.bytes();
        let within = slot.held.push(mark, length);
        self.held_bytes += slot.held.bytes();
        if slot.closing || slot.stage == Stage::Ended {
            return;
        }
        if !within {
            self.counters.connections_over_memory += 1;
            self.close(index, now, close_code::INVALID_STREAM, "too_much_unread");
        } else if slot.streams.is_fragmented() || slot.quic.stats().frame_rx.crypto > CRYPTO_FRAMES_MAX {
            self.counters.connections_fragmented += 1;
            self.close(index, now, close_code::INVALID_STREAM, "too_many_fragments");
        }
    }

    /// Queues the datagram in `scratch`.
    fn respond(&mut self, transmit: quinn_proto::Transmit) {
        if !self.responses.push(transmit, &self.scratch, self.config.responses_max) {
            self.counters.responses_dropped += 1;
        }
    }

    /// Decides on a connection attempt.
    fn admit(&mut self, now: Instant, incoming: Incoming) {
        self.counters.connects += 1;
        let from = incoming.remote_address();
        // Under load an address must be proven before anything is stored for it.
        if self.half_open >= self.config.half_open_retry && !incoming.remote_address_validated() && incoming.may_retry()
        {
            self.counters.retries_sent += 1;
            let retry = self.endpoint.retry(incoming, &mut self.scratch);
            return self.respond(retry.expect("may_retry was asked"));
        }
        if self.half_open >= self.config.half_open_max {
            self.counters.refused_half_open += 1;
            return self.endpoint.ignore(incoming);
        }
        if let Err(refusal) = self.admission.enter(from.ip(), now) {
            let count = &mut self.counters;
            match refusal {
                Refusal::Rate => count.refused_rate += 1,
                Refusal::IpRate => count.refused_ip_rate += 1,
                Refusal::IpTable => count.refused_ip_table += 1,
            }
            return self.endpoint.ignore(incoming);
        }
        if self.slot_count >= self.config.slots_max() {
            self.counters.refused_connections_max += 1;
            self.admission.leave(from.ip());
            return self.refuse(incoming);
        }
        self.begin(now, incoming)
    }

    fn refuse(&mut self, incoming: Incoming) {
        let transmit = self.endpoint.refuse(incoming, &mut self.scratch);
        self.respond(transmit);
    }

    /// Makes room for connection `newcomer` by closing the connection that has been unused for longest, if that is long
    /// enough; one with stake only if there is none without. Those in the share of the staked stay.
    fn evict(&mut self, newcomer: u32, now: Instant) -> bool {
        if now < self.evict_not_before {
            return false;
        }
        let open = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(i, s)| Some((i as u32, s.as_deref()?)))
            .filter(|(i, s)| *i != newcomer && s.stage == Stage::Open && s.counted.is_some() && !s.is_staked);
        let Some((index, slot)) = open.min_by_key(|(_, slot)| (slot.share.is_some(), slot.used)) else {
            return false;
        };
        let used = slot.used;
        // Until then a flood of newcomers need not repeat the search, since use only grows.
        self.evict_not_before = used + self.config.evict_idle;
        if now < self.evict_not_before {
            return false;
        }
        self.counters.connections_evicted += 1;
        self.close(index, now, close_code::DROPPED, "dropped");
        // The newcomer needs the room now, so the close is sent outside the connection.
        let slot = self.slots[index as usize].as_mut().expect("just closed");
        self.scratch.clear();
        if let Some(transmit) = slot.quic.poll_transmit(now, 1, &mut self.scratch) {
            self.respond(transmit);
        }
        self.forget(index);
        self.scratch.clear();
        true
    }

    /// Starts the handshake of an admitted connection.
    fn begin(&mut self, now: Instant, incoming: Incoming) {
        let address = incoming.remote_address();
        match self.endpoint.accept(incoming, now, &mut self.scratch, None) {
            Ok((handle, quic)) => {
                let index = handle.0;
                if self.slots.len() <= index {
                    self.slots.resize_with(index + 1, || None);
                }
                let deadline = now + self.config.handshake_timeout;
                let connection = self.connection_next;
                self.connection_next += 1;
                self.slots[index] = Some(Box::new(Slot {
                    quic,
                    peer: Peer { connection, address, key: None },
                    stage: Stage::HalfOpen(deadline),
                    share: None,
                    counted: None,
                    is_staked: false,
                    transmit_queued: false,
                    closing: false,
                    used: now,
                    streams: Streams::new(),
                    held: HeldDatagrams::new(0),
                }));
                self.slot_count += 1;
                self.half_open += 1;
                self.counters.handshakes_begun += 1;
                self.deadlines.set(index as u32, Some(deadline));
                self.take_events(index as u32, now);
                self.queue_transmit(index as u32);
            }
            Err(error) => {
                // A ClientHello that TLS refuses fails here already.
                if is_tls_alert(&error.cause) {
                    self.counters.handshakes_begun += 1;
                    self.counters.handshakes_failed += 1;
                } else {
                    self.counters.refused_malformed += 1;
                }
                self.admission.leave(address.ip());
                if let Some(transmit) = error.response {
                    self.respond(transmit);
                }
            }
        }
    }

    /// Processes a connection's events after a datagram or a timeout.
    pub(super) fn take_events(&mut self, index: u32, now: Instant) {
        let mut readable = false;
        loop {
            let Some(slot) = self.slots[index as usize].as_mut() else {
                return;
            };
            match slot.quic.poll() {
                Some(Event::Stream(StreamEvent::Opened { dir: Dir::Uni })) => readable = true,
                Some(Event::Stream(StreamEvent::Readable { id })) => {
                    readable |= slot.streams.on_readable(id, now);
                }
                Some(Event::Connected) => self.opened(index, now),
                Some(Event::ConnectionLost { reason }) => {
                    readable = true;
                    self.lost(index, &reason);
                }
                Some(_) => {}
                None => break,
            }
        }
        let Some(slot) = self.slots[index as usize].as_mut() else {
            return;
        };
        if readable && slot.streams.queue_read() {
            self.to_read.push_back(index);
        }
    }

    /// Completes a handshake: determines the peer's key, and lets it open streams.
    fn opened(&mut self, index: u32, now: Instant) {
        let slot = self.slots[index as usize].as_mut().expect("an occupied slot");
        if slot.closing {
            return;
        }
        slot.stage = Stage::Open;
        self.half_open -= 1;
        self.counters.connections_opened += 1;
        let certificates = slot.quic.crypto_session().peer_identity();
        let certificates = certificates.and_then(|c| c.downcast::<Vec<CertificateDer<'static>>>().ok());
        slot.peer.key = match certificates.as_deref().map(Vec::as_slice) {
            Some([only]) => tls::peer_key(only),
            _ => None,
        };
        match slot.peer.key {
            None => self.counters.connections_without_key += 1,
            Some(key) => slot.share = self.config.stakes.counted_share(&key),
        }
        self.counters.connections_with_stake += u64::from(slot.share.is_some());
        if !self.count(index, now) {
            self.close(index, now, close_code::TOO_MANY, "too_many");
            return;
        }
        let slot = self.slots[index as usize].as_mut().expect("an occupied slot");
        let streams = self.config.streams_of(slot.share);
        slot.held.raise_streams(streams);
        slot.quic.set_max_concurrent_streams(Dir::Uni, entropy::varint(streams));
    }

    /// Counts an open connection with the others of its peer, and of all peers with stake or without. Returns false if
    /// there are too many.
    fn count(&mut self, index: u32, now: Instant) -> bool {
        let slot = self.slots[index as usize].as_ref().expect("an occupied slot");
        let key = slot.peer.key.filter(|key| self.config.stakes.share(key).is_some());
        let peer = key.map_or_else(|| PeerId::of_address(slot.peer.address.ip()), PeerId::Key);
        let is_staked = slot.share.is_some() && self.staked_open < self.config.staked_connections_max;
        let max = match slot.share {
            Some(_) => self.config.connections_per_staked_key,
            None => self.config.connections_per_ip,
        };
        if !self.admission.enter_peer(peer, max, now) {
            match peer {
                PeerId::Key(_) => self.counters.refused_key_count += 1,
                PeerId::Address(_) => self.counters.refused_ip_count += 1,
            }
            return false;
        }
        if !is_staked && self.unstaked_open >= self.config.connections_max && !self.evict(index, now) {
            self.admission.leave_peer(&peer);
            self.counters.refused_connections_max += 1;
            return false;
        }
        let open = if is_staked { &mut self.staked_open } else { &mut self.unstaked_open };
        *open += 1;
        let slot = self.slots[index as usize].as_mut().expect("an occupied slot");
        slot.counted = Some(peer);
        slot.is_staked = is_staked;
        true
    }

    /// Ends a connection. Its finished streams can still be read.
    fn lost(&mut self, index: u32, reason: &ConnectionError) {
        let slot = self.slots[index as usize].as_mut().expect("an occupied slot");
        let count = &mut self.counters;
        match slot.stage {
            Stage::Ended => return,
            Stage::HalfOpen(_) => {
                self.half_open -= 1;
                count.handshakes_failed += 1;
            }
            Stage::Open => match reason {
                ConnectionError::TimedOut => count.connections_timed_out += 1,
                ConnectionError::TransportError(_)
                | ConnectionError::VersionMismatch
                | ConnectionError::CidsExhausted => count.connections_violated += 1,
                ConnectionError::ConnectionClosed(_)
                | ConnectionError::ApplicationClosed(_)
                | ConnectionError::Reset
                | ConnectionError::LocallyClosed => count.connections_closed_by_peer += 1,
            },
        }
        slot.stage = Stage::Ended;
    }

    /// A deadline of the connection has passed: the handshake's, the transport's, a stream's or
    /// the throttle's.
    pub(super) fn timeout(&mut self, index: u32, now: Instant) {
        let Some(slot) = self.slot(index) else { return };
        if let Stage::HalfOpen(deadline) = slot.stage
            && deadline <= now
        {
            self.counters.handshakes_timed_out += 1;
            return self.forget(index);
        }
        slot.quic.handle_timeout(now);
        self.take_events(index, now);
        self.stream_timeouts(index, now);
        self.unthrottle(index, now);
        self.queue_transmit(index);
        self.after_activity(index, now);
    }

    /// Keeps the endpoint and the deadline of a connection up to date.
    pub(super) fn after_activity(&mut self, index: u32, now: Instant) {
        let Some(slot) = self.slots[index as usize].as_deref_mut() else {
            return;
        };
        // `forget` tells the endpoint of the end, once the streams are read.
        if pass_events(&mut self.endpoint, ConnectionHandle(index as usize), &mut slot.quic) && !slot.transmit_queued {
            slot.transmit_queued = true;
            self.to_transmit.push_back(index);
        }
        let handshake = match slot.stage {
            Stage::HalfOpen(deadline) => Some(deadline),
            _ => None,
        };
        let streams = slot.streams.deadline(now, self.config.stream_timeout);
        for at in [slot.quic.poll_timeout(), handshake, streams].into_iter().flatten() {
            self.deadlines.advance_after(index, at, now);
        }
    }
}

/// Whether a connection failed by a TLS alert: codes 0x100 to 0x1ff of RFC 9000, section 20.1.
fn is_tls_alert(error: &ConnectionError) -> bool {
    let ConnectionError::TransportError(error) = error else {
        return false;
    };
    (0x100..0x200).contains(&u64::from(error.code))
}
