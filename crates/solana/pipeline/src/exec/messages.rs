//! messages: the wire format of orders to an exec tile and of its reports.
//!
//! reads   messages
//! writes  messages
//! memory  the link's; the places of one order; the costs of one report's transactions
//! drops   nothing

use hearth_ledger::{LandedCost, Outcome, TransactionError};

use super::order::{Failure, ORDER_ENTRIES, TransactionRange, Work, WorkOrder};
use crate::links::codec::{Reader, TRUSTED, Writer, writer};
use crate::links::{HISTORY_MTU, MICROBLOCK_MTU, MICROBLOCK_TXNS};
use crate::poh::check::ChainEntry;

/// An order: work on a block for one worker.
pub struct ExecOrder;

impl ExecOrder {
    /// Bytes before the transactions or the entries.
    const HEADER: usize = 8 + 8 + 1 + 2;
    /// Bytes before each transaction.
    pub const TXN_HEADER: usize = 2;
    /// Maximum bytes of an order's transactions, each with its [`ExecOrder::TXN_HEADER`].
    pub const TXNS_MAX: usize = MICROBLOCK_MTU - Self::HEADER;
    /// Bytes of one entry.
    const ENTRY: usize = 8 + 1 + 32 + 32;

    const IS_HASH: u8 = 1;
    const IS_KNOWN: u8 = 2;
    const RECORDS: u8 = 4;

    /// Writes an order whose places refer to `data`; returns its size.
    pub fn write(buffer: &mut [u8], order: &WorkOrder, data: &[u8]) -> usize {
        let mut w = writer(buffer);
        w.u64(order.slot).u64(order.id);
        match &order.work {
            Work::Execute { txns, is_known, records } => {
                let known = if *is_known { Self::IS_KNOWN } else { 0 };
                let recorded = if *records { Self::RECORDS } else { 0 };
                w.u8(known | recorded).u16(txns.len() as u16);
                for place in txns {
                    w.u16(place.len).put(place.of(data));
                }
            }
            Work::Hash { before, entries } => {
                w.u8(Self::IS_HASH).u16(entries.len() as u16).put(before);
                for entry in entries {
                    w.u64(entry.num_hashes).u8(entry.mixin.is_some().into());
                    w.put(&entry.mixin.unwrap_or_default()).put(&entry.hash);
                }
            }
        }
        w.at
    }

    /// Reads an order whose places refer to `payload`.
    pub fn read(payload: &[u8]) -> WorkOrder {
        let mut r = Reader(payload);
        let (slot, id, flags, count) = (r.u64(), r.u64(), r.u8(), r.u16());
        let work = if flags & Self::IS_HASH != 0 {
            let before = *r.bytes();
            let mut entry = || {
                let (num_hashes, is_mixed) = (r.u64(), r.u8() != 0);
                let (mixin, hash) = (*r.bytes(), *r.bytes());
                ChainEntry { num_hashes, mixin: is_mixed.then_some(mixin), hash }
            };
            Work::Hash { before, entries: (0..count).map(|_| entry()).collect() }
        } else {
            let mut place = || {
                let len = r.u16();
                let at = (payload.len() - r.0.len()) as u32;
                r.slice(len.into());
                TransactionRange { at, len }
            };
            let txns = (0..count).map(|_| place()).collect();
            Work::Execute { txns, is_known: flags & Self::IS_KNOWN != 0, records: flags & Self::RECORDS != 0 }
        };
        WorkOrder { id, slot, work }
    }
}

const _: () = assert!(ExecOrder::HEADER + 32 + ORDER_ENTRIES * ExecOrder::ENTRY <= MICROBLOCK_MTU);

/// The outcome of an order. The history, if any, precedes it in frags with the same tag, which is the order's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecVerdict {
    /// Why the block is wrong, if it is.
    pub failure: Option<Failure>,
    /// The cost of every transaction before the failure; empty if the block is known.
    pub costs: Vec<LandedCost>,
}

impl ExecVerdict {
    /// Maximum bytes of a verdict.
    pub const SIZE_MAX: usize = 1 + 4 + 8 + 2 + MICROBLOCK_TXNS * (4 + 4);

    /// Writes a verdict; returns its size.
    pub fn write(buffer: &mut [u8], failure: Option<Failure>, costs: &[LandedCost]) -> usize {
        let (kind, place, error) = match failure {
            None => (0, 0, 0),
            Some(Failure::Hash { entry }) => (1, entry, 0),
            Some(Failure::Signature { txn }) => (2, txn, 0),
            Some(Failure::Outcome { txn, outcome }) => match outcome {
                Outcome::SlotEnded => (3, txn, 0),
                Outcome::Unsupported => (4, txn, 0),
                Outcome::NotCommitted(error) => (5, txn, error.to_bits()),
                Outcome::Committed(_) => unreachable!("what lands is no failure"),
            },
        };
        let mut w = Writer { buffer, at: 0 };
        w.u8(kind).u32(place).u64(error).u16(costs.len() as u16);
        for cost in costs {
            w.u32(cost.units).u32(cost.allocated_bytes);
        }
        w.at
    }

    /// Reads a verdict that [`ExecVerdict::write`] wrote.
    pub fn read(payload: &[u8]) -> Self {
        let mut r = Reader(payload);
        let (kind, place, error, count) = (r.u8(), r.u32(), r.u64(), r.u16());
        let outcome = |outcome| Some(Failure::Outcome { txn: place, outcome });
        let failure = match kind {
            0 => None,
            1 => Some(Failure::Hash { entry: place }),
            2 => Some(Failure::Signature { txn: place }),
            3 => outcome(Outcome::SlotEnded),
            4 => outcome(Outcome::Unsupported),
            _ => outcome(Outcome::NotCommitted(TransactionError::from_bits(error).expect(TRUSTED))),
        };
        let costs = (0..count).map(|_| LandedCost { units: r.u32(), allocated_bytes: r.u32() }).collect();
        Self { failure, costs }
    }
}

const _: () = assert!(ExecVerdict::SIZE_MAX <= HISTORY_MTU);

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_ledger::InstructionError;

    fn round_trip(order: &WorkOrder, data: &[u8]) -> (WorkOrder, Vec<u8>) {
        let mut buffer = vec![0; MICROBLOCK_MTU];
        let size = ExecOrder::write(&mut buffer, order, data);
        buffer.truncate(size);
        (ExecOrder::read(&buffer), buffer)
    }

    #[test]
    fn orders_keep_their_bytes() {
        let data = b"first and second";
        let txns = vec![TransactionRange { at: 0, len: 5 }, TransactionRange { at: 10, len: 6 }];
        for (is_known, records) in [(false, false), (true, false), (false, true)] {
            let work = Work::Execute { txns: txns.clone(), is_known, records };
            let (read, payload) = round_trip(&WorkOrder { id: 7, slot: 9, work }, data);
            let Work::Execute { txns, is_known: known, records: recorded } = read.work else { panic!("another kind") };
            let bytes: Vec<&[u8]> = txns.iter().map(|place| place.of(&payload)).collect();
            assert_eq!(bytes, [&b"first"[..], b"second"]);
            assert_eq!((read.id, read.slot), (7, 9));
            assert_eq!((known, recorded), (is_known, records));
        }
        let tick = ChainEntry { num_hashes: u64::MAX, mixin: None, hash: [1; 32] };
        let mixed = ChainEntry { num_hashes: 1, mixin: Some([0; 32]), hash: [2; 32] };
        let work = Work::Hash { before: [3; 32], entries: vec![tick, mixed] };
        let order = WorkOrder { id: u64::MAX, slot: 1, work };
        assert_eq!(round_trip(&order, &[]).0, order);
    }

    #[test]
    fn verdicts_keep_their_place_and_error() {
        let outcomes = [
            Outcome::SlotEnded,
            Outcome::Unsupported,
            Outcome::NotCommitted(TransactionError::AlreadyProcessed),
            Outcome::NotCommitted(TransactionError::InstructionError(200, InstructionError::Custom(u32::MAX))),
        ];
        let failures = outcomes.map(|outcome| Failure::Outcome { txn: 63, outcome }).into_iter();
        let failures = failures.chain([Failure::Hash { entry: 255 }, Failure::Signature { txn: 1 }]).map(Some);
        let all: Vec<_> =
            (0..MICROBLOCK_TXNS as u32).map(|n| LandedCost { units: u32::MAX - n, allocated_bytes: n }).collect();
        for (count, failure) in failures.chain([None]).enumerate() {
            let costs = if failure.is_none() { &all[..] } else { &all[..count] };
            let mut buffer = [0; ExecVerdict::SIZE_MAX];
            let size = ExecVerdict::write(&mut buffer, failure, costs);
            assert_eq!(ExecVerdict::read(&buffer[..size]), ExecVerdict { failure, costs: costs.to_vec() });
        }
    }
}
