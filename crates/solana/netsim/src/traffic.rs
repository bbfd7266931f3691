//! The network traffic of blocks.
//!
//! reads   transactions per second
//! writes  FEC sets, bytes, and bits per second
//! source  sizes: `hearth_wire::shred`; the demonstration's figures: its dashboards, as they were shown

use hearth_wire::shred::{CODE_PER_SET, DATA_PER_SET, ShredKind, Variant};
use hearth_wire::transfer::TRANSFER_SIZE;

/// Size of the IP and UDP headers.
const HEADERS: u64 = 28;
/// QUIC's share of a datagram with one stream: a short header (flags 1, connection id 8, packet number 4), the stream
/// frame's type 1 and id 4, and the authentication tag 16.
const QUIC: u64 = 1 + 8 + 4 + 1 + 4 + 16;
/// Size of a repair request, and of the nonce in its response.
const REQUEST: u64 = 160;
const NONCE: u64 = 4;

/// The leader's other traffic in bits per second: responses to the load generator. Two parameters are fitted to two
/// figures of the demonstration, so the agreement proves nothing.
const OTHER: f64 = 350e6;
/// The same per transaction.
const OTHER_PER_TRANSACTION: f64 = 135.0;

/// Size of a shred's datagram in bytes.
pub fn shred(kind: ShredKind) -> u64 {
    kind.size() as u64 + HEADERS
}

/// Size of a repair request's datagram in bytes.
pub fn request() -> u64 {
    REQUEST + HEADERS
}

/// Size of a repair response's datagram in bytes.
pub fn answer() -> u64 {
    shred(ShredKind::Data) + NONCE
}

/// Size of all datagrams of a set in bytes.
pub fn set() -> u64 {
    DATA_PER_SET as u64 * shred(ShredKind::Data) + CODE_PER_SET as u64 * shred(ShredKind::Code)
}

/// Transfers that fit into a set. The entries' overhead is less than one in 200.
pub fn transfers_per_set() -> u64 {
    let capacity = Variant::of_full_set(ShredKind::Data, false).capacity();
    (DATA_PER_SET * capacity / TRANSFER_SIZE) as u64
}

/// FEC sets of a slot.
pub fn sets(transactions_per_s: f64, slot_s: f64) -> u64 {
    (transactions_per_s * slot_s / transfers_per_set() as f64).ceil().max(1.0) as u64
}

/// Returns what a load generator sends, bits per second: each transfer is a stream of its own, alone in a datagram.
pub fn load_generator(transactions_per_s: f64) -> f64 {
    (TRANSFER_SIZE as u64 + QUIC + HEADERS) as f64 * 8.0 * transactions_per_s
}

/// The leader's traffic besides shreds, in bits per second.
pub fn leader_other(transactions_per_s: f64) -> f64 {
    OTHER + OTHER_PER_TRANSACTION * transactions_per_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_has_64_datagrams_and_143_transfers() {
        assert_eq!((shred(ShredKind::Data), shred(ShredKind::Code), set()), (1_231, 1_256, 79_584));
        assert_eq!(transfers_per_set(), 143);
        assert_eq!((sets(1e6, 0.4), sets(0.0, 0.4), sets(143.0, 1.0)), (2_798, 1, 1));
    }
}
