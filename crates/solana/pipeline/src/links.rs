//! links: names of the links, and the format of their messages.
//!
//! All integers are little endian. Writers fill a link's own memory; readers borrow from it. Both ends of a link belong
//! to the same build, so a message that does not decode is a broken invariant and panics.
//!
//! | link | payload |
//! |---|---|
//! | `net_quic`, `net_shred`, `net_repair`, `net_gossip`, `net_rserve`, `net_txsend` | [`Datagram`] |
//! | `quic_net`, `shred_net`, `repair_net`, `gossip_net`, `rserve_net`, `txsend_net` | [`Outgoing`] |
//! | `quic_verify`, `rpc_verify`, `rpc_txsend`, `tower_txsend`, `txsend_verify`, `verify_dedup`, `dedup_pack`, `tower_pack`, `benchg_benchs` | a transaction's wire bytes; the tag is a hash of its first signature from `verify` on |
//! | `bencho_benchg` | a 32-byte blockhash |
//! | `pack_bank` | [`Microblock`] |
//! | `bank_poh` | [`ExecutedMicroblock`] |
//! | `bank_pack` | [`Completion`] |
//! | `poh_pack` | [`LeaderSlot`] |
//! | `pack_poh` | [`DonePacking`]; nothing with [`WORK_WAITS`] |
//! | `poh_shred` | [`PohEntry`] |
//! | `shred_shred` | a 32-byte Merkle root; the tag is the slot that is chained to it |
//! | `shred_repair` | [`SlotGaps`], with [`SLOT_GAPS`], [`SLOT_WHOLE`] or [`SLOT_GONE`] |
//! | `shred_sign` | a 32-byte Merkle root; the tag comes back with the answer |
//! | `repair_sign` | the signed part of a repair request, or a ping's token after [`PONG`]; the tag comes back with the answer |
//! | `tower_sign` | the message of a vote; the tag comes back with the answer |
//! | `gossip_sign` | a message of the [kind](hearth_gossip::SignKind) in the control word, to sign; the tag comes back with the answer |
//! | `gossip_shred`, `gossip_repair`, `gossip_txsend` | [`PeerNews`] |
//! | `gossip_tower` | [`TowerNews`] |
//! | `shred_gossip` | [`SlotNews`] |
//! | `tower_gossip` | [`Statement`] |
//! | `txsend_quic` | [`StakesPiece`] |
//! | `rserve_sign` | the 8 random bytes of a ping's token: [`ping_token`]; the tag comes back with the answer |
//! | `txsend_sign` | what a TLS client signs in its handshake; the tag comes back with the answer |
//! | `sign_shred`, `sign_repair`, `sign_gossip`, `sign_rserve`, `sign_txsend`, `sign_tower` | a 64-byte signature; nothing if `sign` refuses the request. The tag is the request's |
//! | `shred_store` | [`FecSetRecord`](hearth_ledger::blockstore::FecSetRecord), a set as the block store keeps it |
//! | `store_replay`, `replay_shred`, `tower_shred`, `rpc_poh` | nothing; the tag is the slot |
//! | `store_poh` | nothing, with [`DISK_FULL`] or without |
//! | `store_tower` | the 32-byte id of a block, the Merkle root of its last FEC set; the tag is its slot |
//! | `tower_rserve` | the 32-byte bank hash of a confirmed block; the tag is its slot |
//! | `replay_tower` | chunks of an [`Event`](crate::tower::Event), all but the last with [`MORE`]; nothing with [`FAILED`] |
//! | `tower_replay` | a [`Command`](crate::tower::Command) |
//! | `tower_txsend` | a signed vote |
//! | `tower_repair` | an [`AncestorQuestion`]; nothing with [`VOTED`], and the tag is the slot |
//! | `repair_tower` | an [`AncestorAnswer`] |
//! | `replay_poh` | a [`LeaderOrder`](crate::poh::LeaderOrder) |
//! | `poh_replay` | a [`LeaderAnswer`](crate::poh::LeaderAnswer) |
//! | `replay_exec` | an [`ExecOrder`](crate::exec::ExecOrder); the tag is its id |
//! | `exec_replay` | chunks of a batch of transaction metadata with [`MORE`], then an [`ExecVerdict`](crate::exec::ExecVerdict); the tag is the order's id |
//! | `bank_store` | a chunk of a batch of transaction metadata; [`MORE`] if others follow |
//! | `replay_store` | the same; 8 bytes, a number of transactions, with [`HISTORY_BEGINS`]; nothing with [`CONFIRMED`]. The tag is the slot |

use hearth_wire::repair::{HASHES_SIZE_MAX, REQUEST_SIZE_MAX};

mod ancestors;
pub(crate) mod codec;
mod datagrams;
mod gaps;
mod gossip;
mod microblocks;
mod slots;
mod stakes;

pub use ancestors::{AncestorAnswer, AncestorQuestion};
pub use datagrams::{Datagram, Outgoing, PortKind};
pub use gaps::{GAPS_MAX, SLOT_GAPS, SLOT_GONE, SLOT_WHOLE, SlotGaps};
pub use gossip::{
    PEER_NEWS_MTU, PeerNews, SLOT_NEWS_MTU, STATEMENT_MTU, SlotNews, Statement, TOWER_NEWS_MTU, TowerNews,
};
pub use microblocks::{Completion, ExecutedMicroblock, Microblock, MicroblockTxn};
pub use slots::{
    CHAINS_TO, DonePacking, HAD_WORK, LeaderSlot, PohEntry, PohEntryAt, SET_HEADER, SLOT_BEGINS, SLOT_ENDED,
    WORK_WAITS, read_set, write_set,
};
pub use stakes::{STAKED_MAX, StakesPiece};

/// Datagrams of the QUIC port and of the plain UDP TPU port.
pub const NET_QUIC: &str = "net_quic";
/// Shreds from Turbine and from repair.
pub const NET_SHRED: &str = "net_shred";
/// Datagrams to send, from the QUIC server.
pub const QUIC_NET: &str = "quic_net";
/// Whole transactions from the QUIC and UDP ports, their signatures not verified yet.
pub const QUIC_VERIFY: &str = "quic_verify";
/// Transactions submitted over RPC.
pub const RPC_VERIFY: &str = "rpc_verify";
/// Transactions submitted over RPC if other nodes make blocks too: to be sent to the leaders.
pub const RPC_TXSEND: &str = "rpc_txsend";
/// The node's own votes, to be sent to the leaders.
pub const TOWER_TXSEND: &str = "tower_txsend";
/// Transactions and votes for the node itself, when it leads.
pub const TXSEND_VERIFY: &str = "txsend_verify";
/// The stakes of the current epoch.
pub const TXSEND_QUIC: &str = "txsend_quic";
/// Datagrams received from leaders.
pub const NET_TXSEND: &str = "net_txsend";
/// Datagrams to send to leaders.
pub const TXSEND_NET: &str = "txsend_net";
/// Handshakes with leaders, to be signed.
pub const TXSEND_SIGN: &str = "txsend_sign";
/// Signatures of the handshakes with leaders.
pub const SIGN_TXSEND: &str = "sign_txsend";
/// Transactions whose signatures are valid.
pub const VERIFY_DEDUP: &str = "verify_dedup";
/// Transactions not seen before.
pub const DEDUP_PACK: &str = "dedup_pack";
/// Microblocks to execute, one link per bank.
pub const PACK_BANK: &str = "pack_bank";
/// Executed microblocks, to be mixed into the hash chain.
pub const BANK_POH: &str = "bank_poh";
/// Finished microblocks: locks and unused compute are returned.
pub const BANK_PACK: &str = "bank_pack";
/// Requested slots, if slots come on demand.
pub const RPC_POH: &str = "rpc_poh";
/// Starts and ends of slots.
pub const POH_PACK: &str = "poh_pack";
/// Announces that all microblocks of a slot are scheduled.
pub const PACK_POH: &str = "pack_poh";
/// Entries of the current block.
pub const POH_SHRED: &str = "poh_shred";
/// The last root of a slot, from the shred tile that made it to the one that makes the next.
pub const SHRED_SHRED: &str = "shred_shred";
/// Merkle roots to sign.
pub const SHRED_SIGN: &str = "shred_sign";
/// Signatures of Merkle roots.
pub const SIGN_SHRED: &str = "sign_shred";
/// Messages of votes, to be signed.
pub const TOWER_SIGN: &str = "tower_sign";
/// Signatures of the votes that tower asked for.
pub const SIGN_TOWER: &str = "sign_tower";
/// The votes of a lone node, straight to pack: they do not count as work that starts a slot, and never wait for room.
pub const TOWER_PACK: &str = "tower_pack";
/// FEC sets to store: this node's own once signed, and other nodes' once complete.
pub const SHRED_STORE: &str = "shred_store";
/// Outcomes of transactions, for the history; only if one is kept.
pub const BANK_STORE: &str = "bank_store";
/// Slots with new data in the store.
pub const STORE_REPLAY: &str = "store_replay";
/// Transaction metadata of other nodes' blocks, and which slots the cluster has confirmed.
pub const REPLAY_STORE: &str = "replay_store";
/// Whether the disk has room for blocks: while it has none, no slot starts.
pub const STORE_POH: &str = "store_poh";
/// The newest block of a lone node that is durable with all before it.
pub const STORE_TOWER: &str = "store_tower";
/// Slots whose block must be replaced by another.
pub const REPLAY_SHRED: &str = "replay_shred";
/// Which block to build on, and which slot to produce.
pub const REPLAY_POH: &str = "replay_poh";
/// The outcome of such an order.
pub const POH_REPLAY: &str = "poh_replay";
/// Datagrams received at the gossip port.
pub const NET_GOSSIP: &str = "net_gossip";
/// The nodes of the cluster, for the tiles that receive and retransmit shreds.
pub const GOSSIP_SHRED: &str = "gossip_shred";
/// The same, for the tile that requests missing shreds.
pub const GOSSIP_REPAIR: &str = "gossip_repair";
/// The same, for the tile that sends transactions to leaders.
pub const GOSSIP_TXSEND: &str = "gossip_txsend";
/// Other nodes' news, for consensus.
pub const GOSSIP_TOWER: &str = "gossip_tower";
/// Whole slots and equivocating leaders, for gossip to publish.
pub const SHRED_GOSSIP: &str = "shred_gossip";
/// The node's own votes, for gossip to publish, and its root.
pub const TOWER_GOSSIP: &str = "tower_gossip";
/// Datagrams that gossip sends.
pub const GOSSIP_NET: &str = "gossip_net";
/// Gossip's messages to sign.
pub const GOSSIP_SIGN: &str = "gossip_sign";
/// Signatures of the messages that gossip asked for.
pub const SIGN_GOSSIP: &str = "sign_gossip";
/// Parts of a block to execute, one link per exec tile.
pub const REPLAY_EXEC: &str = "replay_exec";
/// Their records and verdicts.
pub const EXEC_REPLAY: &str = "exec_replay";
/// Replay's reports to tower: executed blocks, what is stored.
pub const REPLAY_TOWER: &str = "replay_tower";
/// Tower's commands to replay.
pub const TOWER_REPLAY: &str = "tower_replay";
/// Own blocks to send again.
pub const TOWER_SHRED: &str = "tower_shred";
/// Confirmed blocks, for requests about ancestors.
pub const TOWER_RSERVE: &str = "tower_rserve";
/// Shreds to send to followers.
pub const SHRED_NET: &str = "shred_net";
/// Pings of repair servers, and hashes of ancestors.
pub const NET_REPAIR: &str = "net_repair";
/// Requests for shreds, and pongs.
pub const REPAIR_NET: &str = "repair_net";
/// Repair requests and pongs to sign.
pub const REPAIR_SIGN: &str = "repair_sign";
/// Signatures of repair requests and pongs.
pub const SIGN_REPAIR: &str = "sign_repair";
/// Which shreds of partial slots are missing.
pub const SHRED_REPAIR: &str = "shred_repair";
/// Slots with votes, to be requested, and which nodes to ask for the ancestors of which block.
pub const TOWER_REPAIR: &str = "tower_repair";
/// The answers of nodes that were asked for ancestors.
pub const REPAIR_TOWER: &str = "repair_tower";
/// Repair requests and pongs of other nodes.
pub const NET_RSERVE: &str = "net_rserve";
/// Responses to repair requests, and pings.
pub const RSERVE_NET: &str = "rserve_net";
/// Nonces of the repair server's pings, from which sign derives the tokens that it signs.
pub const RSERVE_SIGN: &str = "rserve_sign";
/// Signatures of the repair server's pings.
pub const SIGN_RSERVE: &str = "sign_rserve";
/// The latest blockhash, for the load generator.
pub const BENCHO_BENCHG: &str = "bencho_benchg";
/// Signed transfers of the load generator.
pub const BENCHG_BENCHS: &str = "benchg_benchs";

/// Prefix of a ping's token in a request to sign a pong.
pub const PONG: [u8; 4] = *b"PONG";
/// Longest message of repair to sign, in bytes: a request without its signature.
pub const REPAIR_SIGN_MTU: usize = REQUEST_SIZE_MAX - 64;
/// Longest datagram of a repair server other than a shred, in bytes: hashes of ancestors.
pub const REPAIR_DATAGRAM_MTU: usize = Datagram::HEADER + HASHES_SIZE_MAX;
/// Longest datagram of repair, bytes: a request.
pub const REPAIR_OUTGOING_MTU: usize = Outgoing::HEADER + REQUEST_SIZE_MAX;
/// Longest datagram to the repair server, in bytes: a longer one is no request.
pub const RSERVE_DATAGRAM_MTU: usize = Datagram::HEADER + REQUEST_SIZE_MAX;
/// Longest response of the repair server, in bytes.
pub const RSERVE_OUTGOING_MTU: usize = Outgoing::HEADER + TXN_MTU;
/// Random bytes of a ping's token.
pub const PING_NONCE: usize = 8;
/// Longest datagram with a shred, in bytes: the largest shred, and the repair nonce.
pub const SHRED_DATAGRAM_MTU: usize = Datagram::HEADER + TXN_MTU;

/// Longest incoming gossip datagram, in bytes.
pub const GOSSIP_DATAGRAM_MTU: usize = Datagram::HEADER + TXN_MTU;
/// Longest outgoing gossip datagram, in bytes.
pub const GOSSIP_OUTGOING_MTU: usize = Outgoing::HEADER + TXN_MTU;
/// Maximum requests of gossip in flight to sign: as many answers as their link holds, so that sign never waits for
/// gossip.
pub const GOSSIP_SIGN_DEPTH: usize = 64;
/// Bytes that a TLS client signs.
pub const TXSEND_SIGN_MTU: usize = hearth_quic::deferred::TO_SIGN_BYTES;
/// Longest QUIC datagram from a leader, in bytes: an Ethernet frame's.
pub const TXSEND_DATAGRAM_MTU: usize = Datagram::HEADER + 1_472;

/// Control word of a frag without payload from shred to store: void what is stored of the tag's slot.
pub const DUMP: u16 = 1;

/// Control word of a frag from store to poh: the disk has no room for blocks. Without it: there is room again.
pub const DISK_FULL: u16 = 1;

/// Control word of a resubmitted transaction that has not landed: it is no duplicate.
pub const AGAIN: u16 = 1;

/// Largest transaction on a link, bytes: the cluster's packet size.
pub const TXN_MTU: usize = 1232;
/// Largest datagram, bytes (an Ethernet jumbo frame).
pub const DATAGRAM_MTU: usize = 9000;
/// Largest run of datagrams in one send, bytes: the server sends one at a time.
pub const OUTGOING_MTU: usize = DATAGRAM_MTU;
/// Maximum transactions in a microblock, the cluster's batch size.
pub const MICROBLOCK_TXNS: usize = 64;
/// Largest microblock, executed microblock or entry on a link, bytes.
pub const MICROBLOCK_MTU: usize = 60_000;
/// Largest completion on a link, bytes.
pub const COMPLETION_MTU: usize = Completion::HEADER + 4 * MICROBLOCK_TXNS;
/// Largest FEC set on a link, bytes: its header and 32 × 963 data bytes.
pub const STORED_SET_MTU: usize = SET_HEADER + 32 * 963;

/// Largest chunk of a batch of transaction metadata on a link, in bytes: a microblock of transfers takes a third.
pub const HISTORY_MTU: usize = 32_768;
/// Control bit of a chunk of a batch, or of an event: it is not the last.
pub const MORE: u16 = 1;
/// Control word of a frag without payload from replay to store: the cluster has confirmed the block of the tag's slot
/// and its ancestors. All metadata of those blocks came before.
pub const CONFIRMED: u16 = 2;
/// Control word of a frag from replay to store: batches of a block of the tag's slot follow, and replace those of any
/// other block of it. The payload is the number of its transactions whose metadata was dropped.
pub const HISTORY_BEGINS: u16 = 4;
/// Control word of a frag without payload from tower to repair: other nodes have voted for the tag's slot, however far
/// ahead it is.
pub const VOTED: u16 = 1;
/// Control word of a frag without payload from replay to tower: the node can no longer follow its cluster. No vote may
/// leave, and no slot may start.
pub const FAILED: u16 = 2;
/// Largest chunk of an event of replay: that of a block has all the vote accounts that it changed.
pub const REPLAY_TOWER_MTU: usize = 8_192;
/// Largest command of tower: a vote of another node.
pub const TOWER_REPLAY_MTU: usize = 1 + 8 + 3 * 32;
/// Largest message of a vote to be signed.
pub const TOWER_SIGN_MTU: usize = TXN_MTU;
/// Bytes of the signatures of a vote: the identity's, and that of an authorized voter that is another key.
pub const SIGN_TOWER_MTU: usize = 2 * 64;

/// Builds the token of a ping of the repair server. It is 32 bytes long, like a Merkle root, but its zeros distinguish
/// it from a root and from everything else that the identity key signs.
pub fn ping_token(nonce: &[u8; PING_NONCE]) -> [u8; 32] {
    let mut token = [0; 32];
    token[..PING_NONCE].copy_from_slice(nonce);
    token
}

#[cfg(test)]
mod tests {
    use hearth_ledger::blockstore::FecSetRecord;

    use super::*;

    #[test]
    fn datagrams_keep_their_address() {
        let mut buffer = [0; 64];
        for from in ["127.0.0.1:8001", "[2001:db8::7]:9"] {
            let datagram = Datagram { from: from.parse().unwrap(), port: PortKind::Udp, data: b"abc" };
            let size = datagram.write(&mut buffer);
            assert_eq!(Datagram::read(&buffer[..size]), datagram);
            buffer[Outgoing::HEADER..][..4].copy_from_slice(b"wxyz");
            let size = Outgoing::write_header(&mut buffer, (datagram.from, PortKind::Repair), 2, 4);
            let outgoing = Outgoing::read(&buffer[..size]);
            let wanted = Outgoing { to: datagram.from, port: PortKind::Repair, segment: 2, data: b"wxyz" };
            assert_eq!(outgoing, wanted);
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
        buffer[ExecutedMicroblock::HEADER..][..3].copy_from_slice(b"txs");
        let size = ExecutedMicroblock::write_header(&mut buffer, 1, 2, &[3; 32], 4, 3);
        let executed = ExecutedMicroblock::read(&buffer[..size]);
        assert_eq!(executed, ExecutedMicroblock { slot: 1, id: 2, mixin: [3; 32], txn_count: 4, txns: b"txs" });

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
        assert_eq!((entry.entry.len(), entry.transaction_count()), (PohEntry::ENTRY_HEADER, 0));
        let size = PohEntry::write(&mut buffer, &at, 1, &[8; 32], 300, b"300 of them");
        assert_eq!(PohEntry::read(&buffer[..size]).transaction_count(), 300);

        let set = FecSetRecord {
            slot: 9,
            parent_slot: 7,
            fec_set_index: 32,
            reference_tick: 5,
            last_in_slot: true,
            ends_batch: Some(true),
            merkle_root: [1; 32],
            chained_root: [2; 32],
            signature: [3; 64],
            data: b"entries",
        };
        let size = write_set(&set, &mut buffer);
        assert_eq!(read_set(&buffer[..size]), set);
    }
}
