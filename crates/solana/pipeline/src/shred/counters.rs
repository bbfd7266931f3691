//! counters: the counters of shred, in a module of their own so that the stages need not know the tile.

hearth_tile::counters! {
    /// What shred counts.
    pub struct Counters {
        /// Entries taken from poh.
        entries: Counter,
        /// Batches of entries ended.
        batches: Counter,
        /// FEC sets made of entries.
        sets: Counter,
        /// FEC sets signed and stored.
        signed: Counter,
        /// FEC sets of own blocks sent again, since too few nodes were seen to have them.
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
        /// Shreds not sent since net had no room, or this node's signature that they need was not to be had in time.
        dropped_shreds: Counter,
        /// Datagrams that came down Turbine's tree.
        shreds_received: Counter,
        /// Shreds that came since they were asked for.
        shreds_repaired: Counter,
        /// Shreds of others that were right and new.
        shreds_taken: Counter,
        /// Shreds of others that did not come, and were recovered from those that did.
        shreds_recovered: Counter,
        /// Shreds of others sent on down the tree, each child counted.
        shreds_sent_on: Counter,
        /// FEC sets of others that became complete.
        sets_completed: Counter,
        /// Datagrams dropped: no shred.
        dropped_malformed: Counter,
        /// Shreds dropped: of another shred version.
        dropped_version: Counter,
        /// Shreds dropped: too far ahead of what is final.
        dropped_ahead: Counter,
        /// Shreds dropped: of a slot that is final, or on a parent that cannot be.
        dropped_old: Counter,
        /// Shreds dropped: they break the rules of FEC sets.
        dropped_rules: Counter,
        /// Shreds dropped: who leads their slot is not known.
        dropped_no_leader: Counter,
        /// Shreds dropped: this node made them.
        dropped_own: Counter,
        /// Shreds dropped: there already, or no longer needed.
        dropped_duplicate: Counter,
        /// Shreds dropped: their proof leads to no root.
        dropped_proof: Counter,
        /// Shreds dropped: the slot's leader did not sign their root.
        dropped_signature: Counter,
        /// Shreds dropped: the slot's leader signed them, and something else in their place.
        dropped_equivocation: Counter,
        /// Shreds dropped: there was no room for another set or slot; they come again by repair.
        dropped_no_room: Counter,
        /// FEC sets dropped: they are not chained to their neighbours. Parity dropped: it is none of the data of its
        /// set, of which only data shreds are taken then; and the set, once.
        dropped_broken_set: Counter,
        /// Shreds dropped: of a block that was dumped, or not beside what is there of the one that is taken instead.
        dropped_dumped: Counter,
        /// Shreds dropped: who sent them on has not signed for them.
        dropped_sender: Counter,
        /// Answers of repair dropped: nobody asked for them, or they have come.
        dropped_unasked: Counter,
        /// FEC sets that were begun and had to make room for those of other slots; they come again by repair.
        evicted_sets: Counter,
        /// Slots of which something was known and that had to make room for others; they come again by repair.
        evicted_slots: Counter,
        /// Roots of FEC sets of dumped blocks that were forgotten for want of room: such a block is taken again where
        /// it comes again, and dumped again.
        forgotten_roots: Counter,
        /// Slots of which sets were stored before a start, or before the slot had to make room: what is stored is void
        /// and comes again by repair, since it may be of another block than what comes.
        voided_slots: Counter,
        /// Slots whose leader was found to have made two blocks.
        duplicate_slots: Counter,
        /// Slots whose block was given up so that another one is taken.
        slots_dumped: Counter,
        /// News of single slots to gossip that were lost since there was no room.
        reports_lost: Counter,
    }
}
