//! What travels on the links: names, and the shape of each message.
//!
//! All integers are little endian. Writers fill a link's own memory; readers borrow from it. The links join tiles
//! of one build, so a message that does not decode is a broken invariant and panics.
//!
//! | link | payload |
//! |---|---|
//! | `net_quic` | [`Datagram`] |
//! | `quic_net`, `shred_net` | [`Outgoing`] |
//! | `quic_verify`, `rpc_verify`, `verify_dedup`, `dedup_pack`, `store_pack`, `benchg_benchs` | a transaction's wire bytes; the tag is a hash of its first signature from `verify` on |
//! | `bencho_benchg` | a 32-byte blockhash |
//! | `pack_bank` | [`Microblock`] |
//! | `bank_poh` | [`Executed`] |
//! | `bank_pack` | [`Completion`] |
//! | `poh_pack` | [`LeaderSlot`] |
//! | `pack_poh` | [`DonePacking`]; nothing with [`WORK_WAITS`] |
//! | `poh_shred` | [`PohEntry`] |
//! | `shred_shred` | a 32-byte Merkle root; the tag is the slot that is chained to it |
//! | `shred_sign` | a 32-byte Merkle root; the tag comes back with the answer |
//! | `store_sign` | the message of a vote; the tag comes back with the answer |
//! | `sign_shred`, `sign_store` | a 64-byte signature |
//! | `shred_store` | [`FecSetRecord`], a set as the block store keeps it |
//! | `bank_store` | a piece of a batch of transaction metadata; [`MORE`] when others follow |

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hearth_ledger::blockstore::FecSetRecord;

/// Datagrams received.
pub const NET_QUIC: &str = "net_quic";
/// Datagrams to send, from the QUIC server.
pub const QUIC_NET: &str = "quic_net";
/// Transactions received.
pub const QUIC_VERIFY: &str = "quic_verify";
/// Transactions handed in over RPC.
pub const RPC_VERIFY: &str = "rpc_verify";
/// Transactions whose signatures are valid.
pub const VERIFY_DEDUP: &str = "verify_dedup";
/// Transactions not seen before.
pub const DEDUP_PACK: &str = "dedup_pack";
/// Microblocks to execute, one link per bank.
pub const PACK_BANK: &str = "pack_bank";
/// Executed microblocks.
pub const BANK_POH: &str = "bank_poh";
/// Microblocks finished: locks and unused compute given back.
pub const BANK_PACK: &str = "bank_pack";
/// Slots begin and end.
pub const POH_PACK: &str = "poh_pack";
/// All microblocks of a slot are scheduled.
pub const PACK_POH: &str = "pack_poh";
/// Entries.
pub const POH_SHRED: &str = "poh_shred";
/// The last root of a slot, from the shred tile that has made it to the one that makes the next.
pub const SHRED_SHRED: &str = "shred_shred";
/// Merkle roots to sign.
pub const SHRED_SIGN: &str = "shred_sign";
/// Signatures of Merkle roots.
pub const SIGN_SHRED: &str = "sign_shred";
/// The messages of votes that are to be signed.
pub const STORE_SIGN: &str = "store_sign";
/// Their signatures.
pub const SIGN_STORE: &str = "sign_store";
/// The node's own votes.
pub const STORE_PACK: &str = "store_pack";
/// Signed FEC sets.
pub const SHRED_STORE: &str = "shred_store";
/// What became of transactions, for the history; only where one is kept.
pub const BANK_STORE: &str = "bank_store";
/// Shreds to send to followers.
pub const SHRED_NET: &str = "shred_net";
/// The latest blockhash, for the load generator.
pub const BENCHO_BENCHG: &str = "bencho_benchg";
/// Signed transfers of the load generator.
pub const BENCHG_BENCHS: &str = "benchg_benchs";

/// Control word of a transaction that was handed over before and has not landed: it is no duplicate.
pub const AGAIN: u16 = 1;

/// Largest transaction on a link, bytes: the cluster's packet size.
pub const TXN_MTU: usize = 1232;
/// Largest datagram, bytes (an Ethernet jumbo frame).
pub const DATAGRAM_MTU: usize = 9000;
/// Largest run of datagrams in one send, bytes: the server sends one at a time.
pub const OUTGOING_MTU: usize = DATAGRAM_MTU;
/// Most transactions in a microblock, the cluster's batch size.
pub const MICROBLOCK_TXNS: usize = 64;
/// Largest microblock, executed microblock or entry on a link, bytes.
pub const MICROBLOCK_MTU: usize = 60_000;
/// Largest completion on a link, bytes.
pub const COMPLETION_MTU: usize = Completion::HEADER + 4 * MICROBLOCK_TXNS;
/// Largest FEC set on a link, bytes: its header and 32 × 963 data bytes.
pub const STORED_SET_MTU: usize = SET_HEADER + 32 * 963;

/// Largest piece of a batch of transaction metadata on a link, bytes: a microblock of transfers takes a third.
pub const HISTORY_MTU: usize = 32_768;
/// Control bit of such a piece: it is not the batch's last.
pub const MORE: u16 = 1;

/// Why a message must decode: both ends are of one build.
const TRUSTED: &str = "a message from a tile of this build";

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes<const N: usize>(&mut self) -> &'a [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect(TRUSTED);
        self.0 = rest;
        head
    }

    fn slice(&mut self, len: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at_checked(len).expect(TRUSTED);
        self.0 = rest;
        head
    }

    fn u8(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(*self.bytes())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(*self.bytes())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(*self.bytes())
    }
}

struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    fn u8(&mut self, v: u8) -> &mut Self {
        self.put(&[v])
    }

    fn u16(&mut self, v: u16) -> &mut Self {
        self.put(&v.to_le_bytes())
    }

    fn u32(&mut self, v: u32) -> &mut Self {
        self.put(&v.to_le_bytes())
    }

    fn u64(&mut self, v: u64) -> &mut Self {
        self.put(&v.to_le_bytes())
    }
}

fn writer(buffer: &mut [u8]) -> Writer<'_> {
    Writer { buffer, at: 0 }
}

/// Which of the node's ports a datagram came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PortKind {
    /// TPU over QUIC.
    Quic = 0,
    /// The plain UDP TPU port: a datagram is a transaction.
    Udp = 1,
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Sender.
    pub from: SocketAddr,
    /// The port it came to.
    pub port: PortKind,
    /// Its bytes.
    pub data: &'a [u8],
}

const ADDR: usize = 18;

fn put_addr(w: &mut Writer<'_>, addr: SocketAddr) {
    let ip = match addr.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    w.put(&ip.octets()).u16(addr.port());
}

fn get_addr(r: &mut Reader<'_>) -> SocketAddr {
    let ip = Ipv6Addr::from(*r.bytes::<16>());
    SocketAddr::new(ip.to_canonical(), r.u16())
}

impl<'a> Datagram<'a> {
    /// Bytes before the datagram's own.
    pub const HEADER: usize = ADDR + 1;

    /// Writes the message; returns its size.
    pub fn write(&self, buffer: &mut [u8]) -> usize {
        let mut w = writer(buffer);
        put_addr(&mut w, self.from);
        w.u8(self.port as u8).put(self.data).at
    }

    /// Reads the message.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        let from = get_addr(&mut r);
        let port = if r.u8() == PortKind::Quic as u8 { PortKind::Quic } else { PortKind::Udp };
        Self { from, port, data: r.0 }
    }
}

/// Datagrams to send to one address: equal in size, the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Where to.
    pub to: SocketAddr,
    /// Size of each datagram but the last; 0 where `data` is one datagram.
    pub segment: u16,
    /// All datagrams' bytes.
    pub data: &'a [u8],
}

impl<'a> Outgoing<'a> {
    /// Bytes before the datagrams' own.
    pub const HEADER: usize = ADDR + 2;

    /// Writes the header alone; the caller has put the data behind it. Returns the message's size.
    pub fn write_header(buffer: &mut [u8], to: SocketAddr, segment: u16, data_len: usize) -> usize {
        let mut w = writer(buffer);
        put_addr(&mut w, to);
        w.u16(segment).at + data_len
    }

    /// Reads the message.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        let (to, segment) = (get_addr(&mut r), r.u16());
        Self { to, segment, data: r.0 }
    }
}

/// Transactions for one bank that conflict with nothing in flight.
#[derive(Clone, Copy, Debug)]
pub struct Microblock<'a> {
    /// The slot it belongs to.
    pub slot: u64,
    /// Sequential over all banks within the slot, from 0.
    pub id: u64,
    txns: &'a [u8],
    count: usize,
}

/// One transaction of a microblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroblockTxn<'a> {
    /// Compute units that pack reserved for it.
    pub reserved_cost: u32,
    /// When it entered the node, microseconds; 0 where that is not known.
    pub origin_us: u32,
    /// Wire bytes.
    pub bytes: &'a [u8],
    /// Where it takes accounts from lookup tables: which of them pack has locked, by their digest.
    pub locked: Option<u64>,
}

impl<'a> Microblock<'a> {
    /// Bytes before the first transaction.
    pub const HEADER: usize = 8 + 8 + 2;
    /// Bytes before each transaction's own.
    pub const TXN_HEADER: usize = 2 + 4 + 4;
    /// Bytes more before each transaction with lookup tables.
    pub const LOCKED_HEADER: usize = 8;
    /// Bit of a transaction's length that says so.
    const LOCKED: u16 = 1 << 15;

    /// Writes the message; returns its size. Panics when it does not fit.
    pub fn write<'t>(buffer: &mut [u8], slot: u64, id: u64, txns: impl Iterator<Item = MicroblockTxn<'t>>) -> usize {
        let mut w = Writer { buffer, at: Self::HEADER };
        let mut count = 0u16;
        for txn in txns {
            let flag = if txn.locked.is_some() { Self::LOCKED } else { 0 };
            w.u16(txn.bytes.len() as u16 | flag).u32(txn.reserved_cost).u32(txn.origin_us);
            if let Some(locked) = txn.locked {
                w.u64(locked);
            }
            w.put(txn.bytes);
            count += 1;
        }
        let size = w.at;
        writer(buffer).u64(slot).u64(id).u16(count);
        size
    }

    /// Reads the message.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        let (slot, id, count) = (r.u64(), r.u64(), r.u16());
        Self { slot, id, txns: r.0, count: count.into() }
    }

    /// How many transactions it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its transactions, in order.
    pub fn txns(&self) -> impl Iterator<Item = MicroblockTxn<'a>> + use<'a> {
        let mut r = Reader(self.txns);
        (0..self.count).map(move |_| {
            let (len, reserved_cost, origin_us) = (r.u16(), r.u32(), r.u32());
            let locked = (len & Self::LOCKED != 0).then(|| r.u64());
            MicroblockTxn { reserved_cost, origin_us, bytes: r.slice((len & !Self::LOCKED).into()), locked }
        })
    }
}

/// A microblock after execution: what was committed, in order. Sent for every microblock, even when nothing was
/// committed, since poh takes them in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed<'a> {
    /// The slot it belongs to.
    pub slot: u64,
    /// The microblock's id.
    pub id: u64,
    /// Merkle root over all signatures of the committed transactions; zero when there are none.
    pub mixin: [u8; 32],
    /// How many transactions were committed.
    pub txn_count: u16,
    /// Their wire bytes, one after the other.
    pub txns: &'a [u8],
}

impl<'a> Executed<'a> {
    /// Bytes before the transactions.
    pub const HEADER: usize = 8 + 8 + 32 + 2;

    /// Writes the header alone; the caller has put `txns_len` bytes behind it. Returns the message's size.
    pub fn write_header(
        buffer: &mut [u8],
        slot: u64,
        id: u64,
        mixin: &[u8; 32],
        txn_count: u16,
        txns_len: usize,
    ) -> usize {
        writer(buffer).u64(slot).u64(id).put(mixin).u16(txn_count).at + txns_len
    }

    /// Reads the message.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        let (slot, id, mixin, txn_count) = (r.u64(), r.u64(), *r.bytes(), r.u16());
        Self { slot, id, mixin, txn_count, txns: r.0 }
    }
}

macro_rules! words {
    ($(#[doc = $doc:literal])* pub struct $name:ident { $($(#[doc = $help:literal])+ pub $field:ident: u64,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[doc = $help])+ pub $field: u64,)* }

        impl $name {
            /// Size of the message, bytes.
            pub const SIZE: usize = 8 * [$(stringify!($field)),*].len();

            /// The message.
            pub fn encode(&self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                writer(&mut bytes)$(.u64(self.$field))*;
                bytes
            }

            /// Reads the message.
            pub fn read(payload: &[u8]) -> Self {
                let mut r = Reader(payload);
                Self { $($field: r.u64()),* }
            }
        }
    };
}

/// A bank has finished a microblock and handed it to poh: its locks are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion<'a> {
    /// The slot it belongs to.
    pub slot: u64,
    /// The microblock's id.
    pub id: u64,
    costs: &'a [u8],
}

impl<'a> Completion<'a> {
    /// Bytes before the costs.
    pub const HEADER: usize = 8 + 8;

    /// Writes the message: `costs` are the compute units that each transaction of the microblock really took, in
    /// order, 0 for one that was not committed. Returns its size.
    pub fn write(buffer: &mut [u8], slot: u64, id: u64, costs: impl Iterator<Item = u32>) -> usize {
        let mut w = writer(buffer);
        w.u64(slot).u64(id);
        costs.for_each(|cost| {
            w.u32(cost);
        });
        w.at
    }

    /// Reads the message.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        Self { slot: r.u64(), id: r.u64(), costs: r.0 }
    }

    /// Compute units that each transaction took.
    pub fn costs(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.costs.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
    }
}

/// A leader slot begins (control [`SLOT_BEGINS`]) or is closed (control [`SLOT_ENDED`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderSlot {
    /// The slot.
    pub slot: u64,
    /// Begin, on the host's clock, nanoseconds.
    pub start_ns: u64,
    /// When pack must be done, on the host's clock, nanoseconds.
    pub end_ns: u64,
    /// Microblocks that poh can still mix in.
    pub max_microblocks: u64,
    /// The newest blockhash: at its begin that of the block it builds on, at its end its own.
    pub blockhash: [u8; 32],
}

impl LeaderSlot {
    /// Size of the message, bytes.
    pub const SIZE: usize = 4 * 8 + 32;

    /// The message.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let w = &mut writer(&mut bytes);
        w.u64(self.slot).u64(self.start_ns).u64(self.end_ns).u64(self.max_microblocks).put(&self.blockhash);
        bytes
    }

    /// Reads the message.
    pub fn read(payload: &[u8]) -> Self {
        let mut r = Reader(payload);
        Self { slot: r.u64(), start_ns: r.u64(), end_ns: r.u64(), max_microblocks: r.u64(), blockhash: *r.bytes() }
    }
}

/// Control of a [`LeaderSlot`]: it begins.
pub const SLOT_BEGINS: u16 = 0;
/// Control of a [`LeaderSlot`]: its last entry is out.
pub const SLOT_ENDED: u16 = 1;

/// Control of a [`DonePacking`]: transactions that are not the node's own came for the slot, or wait still.
pub const HAD_WORK: u16 = 1;
/// Control of a frag without payload from pack to poh: there is something to pack, and no slot. Beside [`HAD_WORK`] of
/// a [`DonePacking`]: something is left for the next slot.
pub const WORK_WAITS: u16 = 2;

words! {
    /// Pack schedules no more in this slot.
    pub struct DonePacking {
        /// The slot.
        pub slot: u64,
        /// How many microblocks it has, each of which poh waits for.
        pub microblocks: u64,
    }
}

/// An entry as it leaves poh: a tick, or a microblock with its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PohEntry<'a> {
    /// The slot.
    pub slot: u64,
    /// The block it builds on.
    pub parent_slot: u64,
    /// Ticks of the slot that are complete, this entry included: 0 before the first tick.
    pub tick: u8,
    /// Whether it is the slot's last.
    pub last: bool,
    /// The entry as it stands in a block: num_hashes, hash, transaction count, transactions.
    pub entry: &'a [u8],
}

impl<'a> PohEntry<'a> {
    /// Bytes before the entry's own.
    pub const HEADER: usize = 8 + 8 + 1 + 1;
    /// Bytes of the entry before its transactions.
    pub const ENTRY_HEADER: usize = 8 + 32 + 8;

    /// Writes the message for an entry given in parts; returns its size.
    pub fn write(
        buffer: &mut [u8],
        at: &PohEntryAt,
        num_hashes: u64,
        hash: &[u8; 32],
        txn_count: u64,
        txns: &[u8],
    ) -> usize {
        writer(buffer)
            .u64(at.slot)
            .u64(at.parent_slot)
            .u8(at.tick)
            .u8(u8::from(at.last))
            .u64(num_hashes)
            .put(hash)
            .u64(txn_count)
            .put(txns)
            .at
    }

    /// Reads the message.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        let (slot, parent_slot, tick, last) = (r.u64(), r.u64(), r.u8(), r.u8() != 0);
        Self { slot, parent_slot, tick, last, entry: r.0 }
    }
}

/// Where an entry stands; see the fields of [`PohEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PohEntryAt {
    /// The slot.
    pub slot: u64,
    /// The block it builds on.
    pub parent_slot: u64,
    /// Ticks complete.
    pub tick: u8,
    /// Whether it is the slot's last.
    pub last: bool,
}

/// Bytes of a FEC set's message before its data.
pub const SET_HEADER: usize = 8 + 8 + 4 + 1 + 1 + 32 + 32 + 64;

/// Writes a signed FEC set's message; returns its size.
pub fn write_set(set: &FecSetRecord<'_>, buffer: &mut [u8]) -> usize {
    writer(buffer)
        .u64(set.slot)
        .u64(set.parent_slot)
        .u32(set.fec_set_index)
        .u8(set.reference_tick)
        .u8(u8::from(set.last_in_slot))
        .put(&set.merkle_root)
        .put(&set.chained_root)
        .put(&set.signature)
        .put(set.data)
        .at
}

/// Reads a FEC set's message.
pub fn read_set(payload: &[u8]) -> FecSetRecord<'_> {
    let mut r = Reader(payload);
    FecSetRecord {
        slot: r.u64(),
        parent_slot: r.u64(),
        fec_set_index: r.u32(),
        reference_tick: r.u8(),
        last_in_slot: r.u8() != 0,
        merkle_root: *r.bytes(),
        chained_root: *r.bytes(),
        signature: *r.bytes(),
        data: r.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_keep_their_address() {
        let mut buffer = [0; 64];
        for from in ["127.0.0.1:8001", "[2001:db8::7]:9"] {
            let datagram = Datagram { from: from.parse().unwrap(), port: PortKind::Udp, data: b"abc" };
            let size = datagram.write(&mut buffer);
            assert_eq!(Datagram::read(&buffer[..size]), datagram);
            buffer[Outgoing::HEADER..][..4].copy_from_slice(b"wxyz");
            let size = Outgoing::write_header(&mut buffer, datagram.from, 2, 4);
            let outgoing = Outgoing::read(&buffer[..size]);
            assert_eq!((outgoing.to, outgoing.segment, outgoing.data), (datagram.from, 2, &b"wxyz"[..]));
        }
    }

    #[test]
    fn microblocks_keep_their_transactions() {
        let mut buffer = vec![0; 1000];
        let txns = [
            MicroblockTxn { reserved_cost: 1481, origin_us: 5, bytes: b"first", locked: None },
            MicroblockTxn { reserved_cost: 1, origin_us: u32::MAX, bytes: b"second", locked: Some(u64::MAX - 7) },
            MicroblockTxn { reserved_cost: u32::MAX, origin_us: 0, bytes: b"", locked: None },
        ];
        let size = Microblock::write(&mut buffer, 7, 9, txns.iter().copied());
        let read = Microblock::read(&buffer[..size]);
        assert_eq!((read.slot, read.id, read.len()), (7, 9, 3));
        assert_eq!(read.txns().collect::<Vec<_>>(), txns);
    }

    #[test]
    fn the_rest_round_trips() {
        let mut buffer = vec![0; 1000];
        buffer[Executed::HEADER..][..3].copy_from_slice(b"txs");
        let size = Executed::write_header(&mut buffer, 1, 2, &[3; 32], 4, 3);
        let executed = Executed::read(&buffer[..size]);
        assert_eq!(executed, Executed { slot: 1, id: 2, mixin: [3; 32], txn_count: 4, txns: b"txs" });

        let size = Completion::write(&mut buffer, 1, u64::MAX, (0..64).map(|n| u32::MAX - n));
        assert_eq!(size, COMPLETION_MTU);
        let completion = Completion::read(&buffer[..size]);
        assert_eq!((completion.slot, completion.id), (1, u64::MAX));
        assert!(completion.costs().eq((0..64).map(|n| u32::MAX - n)));

        let slot = LeaderSlot { slot: 1, start_ns: 2, end_ns: 3, max_microblocks: 4, blockhash: [5; 32] };
        assert_eq!(LeaderSlot::read(&slot.encode()), slot);

        let at = PohEntryAt { slot: 5, parent_slot: 4, tick: 63, last: true };
        let size = PohEntry::write(&mut buffer, &at, 1, &[8; 32], 0, b"");
        let entry = PohEntry::read(&buffer[..size]);
        assert_eq!((entry.slot, entry.parent_slot, entry.tick, entry.last), (5, 4, 63, true));
        assert_eq!(entry.entry.len(), PohEntry::ENTRY_HEADER);

        let set = FecSetRecord {
            slot: 9,
            parent_slot: 7,
            fec_set_index: 32,
            reference_tick: 5,
            last_in_slot: true,
            merkle_root: [1; 32],
            chained_root: [2; 32],
            signature: [3; 64],
            data: b"entries",
        };
        let size = write_set(&set, &mut buffer);
        assert_eq!(read_set(&buffer[..size]), set);
    }
}
