//! Datagrams to send, in one buffer for `sendmmsg`.
//!
//! memory  that of the largest batch; the caller clears and reuses it

use std::net::SocketAddrV4;

use hearth_wire::gossip::{Carrier, VALUES_HEADER, write_values_header};
use hearth_wire::{PACKET_DATA_SIZE, Pubkey};

/// Datagrams to send, in order.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// The destination of each, and where it ends in `bytes`.
    datagrams: Vec<(SocketAddrV4, u32)>,
}

impl Outbox {
    /// The number of datagrams.
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Payload bytes of all datagrams together.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Each datagram with its destination.
    pub fn iter(&self) -> impl Iterator<Item = (SocketAddrV4, &[u8])> {
        let ends = self.datagrams.iter();
        ends.scan(0, |start, (to, end)| {
            let bytes = &self.bytes[*start as usize..*end as usize];
            *start = *end;
            Some((*to, bytes))
        })
    }

    /// Removes all datagrams, but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams.clear();
    }

    /// Adds a datagram that `write` appends.
    pub(super) fn send(&mut self, to: SocketAddrV4, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.datagrams.push((to, self.bytes.len() as u32));
    }

    /// Adds values, as many per datagram as fit. Returns the number of values.
    pub(super) fn send_values<'a>(
        &mut self,
        carrier: Carrier,
        from: &Pubkey,
        to: SocketAddrV4,
        values: impl Iterator<Item = &'a [u8]>,
    ) -> u64 {
        let (mut start, mut count, mut total) = (self.bytes.len(), 0u64, 0);
        for value in values {
            if count > 0 && self.bytes.len() - start + value.len() > PACKET_DATA_SIZE {
                self.finish(to, start, count);
                (start, count) = (self.bytes.len(), 0);
            }
            if count == 0 {
                write_values_header(carrier, from, 0, &mut self.bytes);
            }
            self.bytes.extend_from_slice(value);
            (count, total) = (count + 1, total + 1);
        }
        if count > 0 {
            self.finish(to, start, count);
        }
        total
    }

    fn finish(&mut self, to: SocketAddrV4, start: usize, count: u64) {
        self.bytes[start + VALUES_HEADER - 8..start + VALUES_HEADER].copy_from_slice(&count.to_le_bytes());
        self.datagrams.push((to, self.bytes.len() as u32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fill_datagrams_and_none_is_cut() {
        let to: SocketAddrV4 = "10.0.0.1:5".parse().unwrap();
        let values: Vec<Vec<u8>> = [500, 500, 188, 1, 1_188, 1_187, 1].iter().map(|len| vec![7; *len]).collect();
        let mut out = Outbox::default();
        out.send(to, |bytes| bytes.push(9));
        let sent = out.send_values(Carrier::Push, &[3; 32], to, values.iter().map(Vec::as_slice));
        assert_eq!(out.send_values(Carrier::Push, &[3; 32], to, [].into_iter()), 0);
        let found: Vec<(usize, u64)> = out
            .iter()
            .skip(1)
            .map(|(_, bytes)| (bytes.len() - VALUES_HEADER, u64::from_le_bytes(bytes[36..44].try_into().unwrap())))
            .collect();
        assert_eq!((sent, found), (7, vec![(1_188, 3), (1, 1), (1_188, 1), (1_188, 2)]));
        assert_eq!((out.len(), out.size()), (5, 1 + 4 * 44 + 1_188 * 3 + 1));
    }
}
