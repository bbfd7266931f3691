//! The counters of server and client: plain numbers that only grow.
//!
//! memory  one struct per side
//! source  every field names the one place where it is incremented

/// Counts of what a [`crate::Server`] has done and refused since it was made.
///
/// `streams_accepted` = `transactions` + `streams_empty` + `streams_reset` + `streams_timed_out` +
/// `streams_over_memory` + `streams_oversize` + `streams_abandoned` + the streams now unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// UDP datagrams that the caller handed in.
    pub datagrams_in: u64,
    /// Datagrams that belong to no connection and start none: garbage, strays, stale.
    pub datagrams_ignored: u64,
    /// First packets dropped unread: more than `initials_per_second`.
    pub initials_dropped: u64,
    /// Datagrams given out to be sent.
    pub datagrams_out: u64,
    /// Answers outside a connection that found the response queue full.
    pub responses_dropped: u64,
    /// Connection attempts seen (an attempt that answers a Retry counts again).
    pub connects: u64,
    /// Attempts that were answered with a Retry, to have the address proven.
    pub retries_sent: u64,
    /// Attempts left unanswered: too many half-open connections.
    pub refused_half_open: u64,
    /// Attempts refused, and connections closed after the handshake (code 4): all are taken, and none is idle.
    pub refused_connections_max: u64,
    /// Attempts left unanswered: too many new connections in all.
    pub refused_rate: u64,
    /// Attempts left unanswered: too many new connections from the address.
    pub refused_ip_rate: u64,
    /// Connections closed after the handshake: too many from the address (code 4).
    pub refused_ip_count: u64,
    /// Attempts left unanswered: the table of addresses is full.
    pub refused_ip_table: u64,
    /// Attempts whose first packet was malformed.
    pub refused_malformed: u64,
    /// Connections closed after the handshake: too many with the same key, which has stake (code 4).
    pub refused_key_count: u64,
    /// Handshakes begun, those included whose first message TLS refuses.
    pub handshakes_begun: u64,
    /// Handshakes that failed: wrong protocol name, bad signature, transport error.
    pub handshakes_failed: u64,
    /// Handshakes given up after `handshake_timeout`.
    pub handshakes_timed_out: u64,
    /// Handshakes done, those of connections closed right after it included.
    pub connections_opened: u64,
    /// Handshakes done in which the peer showed no usable key.
    pub connections_without_key: u64,
    /// Handshakes done by a peer with stake.
    pub connections_with_stake: u64,
    /// Open connections closed to make room (code 1).
    pub connections_evicted: u64,
    /// Open connections that the peer closed.
    pub connections_closed_by_peer: u64,
    /// Open connections silent for 30 s.
    pub connections_timed_out: u64,
    /// Open connections ended by a protocol violation of the peer.
    pub connections_violated: u64,
    /// Open connections closed because their unread datagrams held too much memory (code 5).
    pub connections_over_memory: u64,
    /// Open connections closed because a stream, or the handshake, came in too many frames (code 5).
    pub connections_fragmented: u64,
    /// Streams that the peer opened and the server began to read.
    pub streams_accepted: u64,
    /// Transactions given to the caller.
    pub transactions: u64,
    /// Bytes of the transactions read from streams.
    pub transaction_bytes: u64,
    /// Transactions put together from several reads.
    pub transactions_reassembled: u64,
    /// Streams that ended without a byte.
    pub streams_empty: u64,
    /// Streams that the peer took back.
    pub streams_reset: u64,
    /// Streams never finished, stopped after `stream_timeout`.
    pub streams_timed_out: u64,
    /// Streams stopped because `reassembly_bytes_max` was reached.
    pub streams_over_memory: u64,
    /// Streams longer than `stream_bytes_max`; each closed its connection (code 5).
    pub streams_oversize: u64,
    /// Streams unfinished when their connection ended.
    pub streams_abandoned: u64,
    /// Streams not yet taken up when their connection ended by us: evicted, or closed for an
    /// over-long stream.
    pub streams_unread: u64,
    /// Times that a connection was not read until the next window of 100 ms.
    pub throttled: u64,
}

/// Counts of what a [`crate::Client`] has done since it was made.
///
/// `sent` = `acknowledged` + `stopped` + `lost` + the transactions now in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// Transactions taken by `send_transaction`.
    pub sent: u64,
    /// Transactions that the server's transport acknowledged in full.
    pub acknowledged: u64,
    /// Transactions that the server refused to read on.
    pub stopped: u64,
    /// Transactions without acknowledgement when their connection ended: they may have arrived.
    pub lost: u64,
    /// `send_transaction` calls that found no room.
    pub would_block: u64,
    /// Connection attempts, the first and the repeated.
    pub connects: u64,
    /// Handshakes that were completed.
    pub connected: u64,
    /// Connections that ended, or could not be made.
    pub disconnected: u64,
    /// UDP datagrams that the caller handed in.
    pub datagrams_in: u64,
    /// Datagrams that belong to no connection.
    pub datagrams_ignored: u64,
    /// Datagrams given out to be sent.
    pub datagrams_out: u64,
}
