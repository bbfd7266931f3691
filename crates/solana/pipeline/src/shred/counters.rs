//! counters: the counters of shred, in a module of their own so that the stages need not know the tile.

hearth_tile::counters! {
    /// The counters of shred.
    pub struct Counters {
        /// Entries received from poh.
        entries: Counter,
        /// Batches of entries ended.
        batches: Counter,
        /// FEC sets made of entries.
        sets: Counter,
        /// FEC sets signed and stored.
        signed: Counter,
        /// FEC sets of own blocks sent again, because too few nodes have them.
        sets_resent: Counter,
        /// Bytes of entries that were cut into FEC sets.
        bytes: Counter,
        /// Slots whose last FEC set was made.
        slots: Counter,
        /// Transactions of own blocks whose shreds have left the tile; a batch's count with the last of its FEC sets.
        left_transactions: Counter,
        /// FEC sets that wait for their signature.
        unsigned: Gauge,
        /// Shreds given to net, each destination counted.
        shreds_sent: Counter,
        /// Shreds not sent: net had no room, or this node's signature did not come in time.
        dropped_shreds: Counter,
        /// Datagrams received along the turbine tree.
        shreds_received: Counter,
        /// Shreds received as answers to repair requests.
        shreds_repaired: Counter,
        /// Shreds that were requested as a slot's highest one; they count as repaired too.
        shreds_repaired_highest: Counter,
        /// Shreds that were requested as those of a slot's ancestors; they count as repaired too.
        shreds_repaired_orphan: Counter,
        /// Valid new shreds of other nodes.
        shreds_taken: Counter,
        /// Shreds of other nodes that were recovered from the rest of their set.
        shreds_recovered: Counter,
        /// Shreds of other nodes retransmitted, counted for each child.
        shreds_sent_on: Counter,
        /// FEC sets of other nodes that were completed.
        sets_completed: Counter,
        /// Datagrams dropped: not a shred.
        dropped_malformed: Counter,
        /// Shreds dropped: of another shred version.
        dropped_version: Counter,
        /// Shreds dropped: too far ahead of the newest final slot.
        dropped_ahead: Counter,
        /// Shreds dropped: their slot is final, or their parent is impossible.
        dropped_old: Counter,
        /// Shreds dropped: they break the rules of FEC sets.
        dropped_rules: Counter,
        /// Shreds dropped: the leader of their slot is unknown.
        dropped_no_leader: Counter,
        /// Shreds dropped: this node made them.
        dropped_own: Counter,
        /// Shreds dropped: already stored, or no longer needed.
        dropped_duplicate: Counter,
        /// Shreds dropped: their proof leads to no root.
        dropped_proof: Counter,
        /// Shreds dropped: the slot's leader did not sign their root.
        dropped_signature: Counter,
        /// Shreds dropped: the slot's leader signed different ones in their place.
        dropped_equivocation: Counter,
        /// Shreds dropped: no room for another set or slot. Repair requests them again.
        dropped_no_room: Counter,
        /// FEC sets dropped: they do not chain to their neighbours. Also each parity shred, and once its set, if the
        /// parity does not match the data; then only data shreds are accepted.
        dropped_broken_set: Counter,
        /// Shreds dropped: they belong to a dumped block, or do not fit the version that replaces it.
        dropped_dumped: Counter,
        /// Shreds dropped: the retransmitter's signature is missing or wrong.
        dropped_sender: Counter,
        /// Repair answers dropped: not requested, or already received.
        dropped_unasked: Counter,
        /// Unfinished FEC sets evicted for those of other slots. Repair requests them again.
        evicted_sets: Counter,
        /// Slots evicted for others. Repair requests them again.
        evicted_slots: Counter,
        /// Merkle roots of dumped blocks that were forgotten for lack of room. Such a block is accepted again if it
        /// arrives again, and dumped again.
        forgotten_roots: Counter,
        /// Slots whose stored sets were voided, after a start or an eviction, since they may be of another version than
        /// new shreds. Repair requests them again.
        voided_slots: Counter,
        /// Slots whose leader equivocated.
        duplicate_slots: Counter,
        /// Slots whose version of the block was dumped for another one.
        slots_dumped: Counter,
        /// Reports to gossip about single slots that were lost for lack of room.
        reports_lost: Counter,
    }
}
