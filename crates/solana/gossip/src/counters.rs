//! Counters of received, sent and dropped messages.
//!
//! memory  8 B per counter

/// Declares counters once: the struct and their names.
macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counters of gossip, from its start on.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Every counter's name and what it says, in the order of their declaration.
            pub const HELP: &[(&str, &str)] = &[$((stringify!($name), concat!($($doc),*).trim_ascii()),)*];

            /// Every counter with its name, in the order of their declaration.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Datagrams received by gossip.
    datagrams,
    /// Datagrams that are no message: cut, oversize, not canonical, out of range.
    malformed,
    /// Datagrams with a kind of value that is no longer in use.
    deprecated_kind,
    /// Pull requests whose filter covers too much.
    coarse_filter,
    /// Datagrams from an address that cannot be answered, or may not.
    source_refused,
    /// Datagrams with a signature that does not match.
    bad_signature,
    /// Pings received by gossip.
    pings_received,
    /// Pings that went.
    pings_sent,
    /// Pongs received that answer a ping.
    pongs_received,
    /// Pongs that answer no ping that is waited for.
    pongs_unexpected,
    /// Pongs that went.
    pongs_sent,
    /// Pull requests received.
    pull_requests_received,
    /// Pull requests that went.
    pull_requests_sent,
    /// Pull requests of callers with another shred version.
    pull_shred_version,
    /// Pull requests of this node itself.
    pull_from_self,
    /// Pull requests of callers that have not answered a ping yet.
    pull_unverified,
    /// Pull requests of callers whose clock is off.
    pull_wallclock,
    /// Pull requests beyond the scan budget of their host.
    pull_scan_budget,
    /// Values that were not sent, because the bytes for answers had run out.
    pull_over_budget,
    /// Values that were sent in answers.
    pull_values_sent,
    /// Pull responses received.
    pull_responses_received,
    /// Push messages received.
    pushes_received,
    /// Values times nodes that were pushed.
    push_values_sent,
    /// Valid prune messages received.
    prunes_received,
    /// Prune messages for another node.
    prune_destination,
    /// Prune messages that are too old.
    prune_wallclock,
    /// Prune messages that went.
    prunes_sent,
    /// Values received by gossip.
    values_received,
    /// Values that were new.
    values_new,
    /// Values that were there already.
    values_duplicate,
    /// Values older than the stored ones.
    values_stale,
    /// Values of kinds that are read but not used.
    values_unused_kind,
    /// Values of nodes with too little stake for their kind.
    values_stake,
    /// Pushed values whose time is off.
    values_wallclock,
    /// Values in answers that are too old.
    values_timeout,
    /// Contact infos with another shred version.
    values_shred_version,
    /// Values of nodes without contact info.
    values_unknown_origin,
    /// Contact infos without a gossip address that may be sent to.
    values_gossip_address,
    /// Contact infos of nodes that have not answered a ping yet; they wait for the pong.
    values_unverified,
    /// Values beyond the bytes that a node may have.
    values_origin_full,
    /// Contact infos beyond the nodes that an IP address may have.
    values_host_full,
    /// Values that ran out.
    values_purged,
    /// Values of nodes that went because there were too many, or too many bytes.
    values_trimmed,
    /// Contact infos of this node that another process has signed later.
    duplicate_instance,
    /// Pieces of proofs that were not buffered: of another slot, too large, of a node with too many.
    proof_pieces_refused,
    /// Proofs of others that a leader made two blocks, found right.
    proofs_right,
    /// Such proofs that prove nothing.
    proofs_wrong,
    /// Such proofs of slots whose leader is not known.
    proofs_unknown_leader,
    /// Times that this node's clock was set back by more than a second.
    clock_set_back,
    /// Events that no reader took in time.
    events_lost,
    /// Own values not published, because too many waited for a signature.
    unsigned_full,
    /// Own values not published, because the signature did not come within five seconds.
    unsigned_late,
}
