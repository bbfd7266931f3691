//! The code that server and client share for quinn.
//!
//! reads   quinn's events for its endpoint, datagrams outside connections
//! writes  the endpoint's events for the connection, and those datagrams for the caller
//! memory  as many datagrams as the caller allows
//! drops   a datagram beyond those; the caller counts it
//! source  `quinn_proto`'s protocol between an endpoint and its connections

use std::collections::VecDeque;

use quinn_proto::{Connection, ConnectionHandle, Endpoint};

use crate::Transmit;

/// Datagrams outside any connection that wait to be sent.
#[derive(Default)]
pub(crate) struct Responses(VecDeque<(Transmit, Box<[u8]>)>);

impl Responses {
    /// Queues the datagram that quinn has written to `scratch`; false if `max` wait already.
    pub(crate) fn push(&mut self, transmit: quinn_proto::Transmit, scratch: &[u8], max: usize) -> bool {
        let room = self.0.len() < max;
        if room {
            let payload = scratch[..transmit.size].into();
            self.0.push_back((Transmit::from_quinn(transmit), payload));
        }
        room
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the next datagram to `buffer`.
    pub(crate) fn pop(&mut self, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let (transmit, payload) = self.0.pop_front()?;
        buffer.extend_from_slice(&payload);
        Some(transmit)
    }
}

/// Exchanges events between a connection and its endpoint; returns whether there were any, in which case the connection
/// may have something to send. The end of a connection is not forwarded: the code that frees it tells the endpoint.
pub(crate) fn pass_events(endpoint: &mut Endpoint, handle: ConnectionHandle, quic: &mut Connection) -> bool {
    let mut answered = false;
    while let Some(event) = quic.poll_endpoint_events() {
        if event.is_drained() {
            continue;
        }
        if let Some(event) = endpoint.handle_event(handle, event) {
            quic.handle_event(event);
            answered = true;
        }
    }
    answered
}
