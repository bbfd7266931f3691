//! The reasons for dropping a transaction, in tiles and in the RPC, with their counters and explanations.
//!
//! memory  a static table
//! source  the counters of the tiles and of the RPC; a test beside each keeps them in agreement

/// The consequence of a drop for the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropKind {
    /// It will not land in this form.
    Refused,
    /// Someone sent bytes under this signature that it does not sign: the real transaction may be another.
    Unsigned,
    /// A copy of a transaction that the node already has.
    Duplicate,
}

macro_rules! reasons {
    ($($name:ident = $kind:ident $tile:literal $counter:literal : $text:literal, $hint:literal;)*) => {
        /// Why a tile dropped a transaction, or the RPC did not send it on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum DropReason { $(#[doc = $text] $name,)* }

        impl DropReason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What the drop implies for the transaction.
            pub fn kind(self) -> DropKind {
                match self { $(Self::$name => DropKind::$kind,)* }
            }

            /// The kind of tile that drops it, or `rpc`.
            pub fn tile(self) -> &'static str {
                match self { $(Self::$name => $tile,)* }
            }

            /// Name of the tile's counter.
            pub fn counter(self) -> &'static str {
                match self { $(Self::$name => $counter,)* }
            }

            /// An explanation, as a sentence.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Advice for the sender.
            pub fn hint(self) -> &'static str {
                match self { $(Self::$name => $hint,)* }
            }
        }
    };
}

reasons! {
    QuicFull = Unsigned "quic" "udp_dropped_full":
        "It came as a plain UDP datagram when the node had no room.",
        "Send it again; over QUIC or RPC a sender is held back instead.";
    QuicSize = Unsigned "quic" "udp_dropped_size":
        "It came as a plain UDP datagram longer than 1,232 bytes, the most that a transaction may have.",
        "Make it shorter: fewer instructions, or accounts from a lookup table.";
    VerifyMalformed = Unsigned "verify" "dropped_malformed":
        "Its bytes are no transaction of a known version.",
        "Look at how it is serialized; versions are legacy and 0, at most 1,232 bytes.";
    VerifySignature = Unsigned "verify" "dropped_signature":
        "A signature is not that of its signer over this message.",
        "Sign again, after the last change to the message, with every key that has to sign.";
    VerifyDuplicate = Duplicate "verify" "dropped_duplicate":
        "The same transaction came before.",
        "Ask for the fate of the first copy; to do the same thing twice, sign with a newer blockhash.";
    DedupDuplicate = Duplicate "dedup" "dropped_duplicate":
        "The same transaction came before.",
        "Ask for the fate of the first copy; to do the same thing twice, sign with a newer blockhash.";
    PackLookups = Refused "pack" "dropped_lookups":
        "Its address lookup tables do not give the accounts: a table is not there or ended, or has no such index, nor had two slots later.",
        "Wait until the table's last extension is confirmed and the next slot has begun, then sign with a newer blockhash.";
    PackBudget = Refused "pack" "dropped_budget":
        "The compute budget that it asks for is invalid.",
        "Each compute budget instruction may be there once, with values within the limits.";
    PackSize = Refused "pack" "dropped_size":
        "It is too long or names more than 128 accounts.",
        "Split it into several transactions.";
    PackAccountTwice = Refused "pack" "dropped_account_twice":
        "It names an account twice.",
        "Let each account be listed once: a transfer to oneself does that too, and so does an address both listed and taken from a lookup table.";
    PackTooCostly = Refused "pack" "dropped_too_costly":
        "It costs more compute units than a block, or writing one account, may.",
        "Ask for a lower compute unit limit.";
    PackDuplicate = Duplicate "pack" "dropped_duplicate":
        "The same transaction is waiting already.",
        "Wait for the first copy.";
    PackPoolFull = Refused "pack" "dropped_pool_full":
        "The pool of waiting transactions was full of others that pay as well or better.",
        "Send it again later, or sign with a higher compute unit price.";
    PackAccountsFull = Refused "pack" "dropped_accounts_full":
        "The pool of waiting transactions had no room for its accounts.",
        "Send it again later, or sign with a higher compute unit price.";
    PackEvicted = Refused "pack" "dropped_evicted":
        "It was waiting when a transaction came that pays better, and the pool was full.",
        "Send it again later, or sign with a higher compute unit price.";
    PackExpired = Refused "pack" "dropped_expired":
        "Its blockhash is too old, or never was one of this chain.",
        "Sign with the latest blockhash of this chain; one lasts 150 blocks.";
    BankBlockhash = Refused "bank" "dropped_blockhash_not_found":
        "Its blockhash is too old, or never was one of this chain.",
        "Sign with the latest blockhash of this chain; one lasts 150 blocks.";
    BankProcessed = Duplicate "bank" "dropped_already_processed":
        "The same message has landed before.",
        "Nothing is to be done; to do the same thing twice, sign with a newer blockhash.";
    BankFee = Refused "bank" "dropped_insufficient_funds_for_fee":
        "The payer cannot pay the fee and stay rent-exempt.",
        "Fund the payer, or ask for fewer compute units at a lower price.";
    BankAccount = Refused "bank" "dropped_account_not_found":
        "The payer does not exist.",
        "Fund the payer first: an airdrop, or a transfer of at least the rent-exempt minimum.";
    BankOther = Refused "bank" "dropped_other":
        "The rules keep it out of the block.",
        "The error says which rule; simulateTransaction tells the same beforehand.";
    BankUnsupported = Refused "bank" "dropped_unsupported":
        "It needs a program that this node does not run.",
        "Nothing can be done on this chain.";
    BankSlotEnded = Refused "bank" "dropped_slot_ended":
        "The block ended before it was executed.",
        "Send it again.";
    TxsendNoLeader = Refused "txsend" "dropped_no_leader":
        "This node does not lead, and knows of no leader of the next slots that takes transactions over QUIC.",
        "Send it again; getClusterNodes shows which nodes are known, and getLeaderSchedule who leads.";
    TxsendWaiting = Refused "txsend" "dropped_waiting":
        "It waited for a connection to a leader: for 10 seconds, or behind too many, or the node stopped. The other leader may have it.",
        "Send it again where it has not landed.";
    RpcSimulation = Refused "rpc" "preflight_refused":
        "A simulation of it failed, so it was not sent on (preflight).",
        "The answer to sendTransaction has the logs, and so has simulateTransaction; with skipPreflight it lands and pays all the same, where it can.";
    RpcSignature = Unsigned "rpc" "preflight_refused":
        "A signature is not that of its signer over this message, so it was not sent on (preflight).",
        "Sign again, after the last change to the message, with every key that has to sign.";
    RpcLookups = Unsigned "rpc" "preflight_refused":
        "Its address lookup tables do not give the accounts, so it was not sent on: a table is not there or ended, or has no such index.",
        "Wait until the table's last extension is confirmed, then sign with a newer blockhash.";
    RpcUnhealthy = Refused "rpc" "preflight_refused":
        "The node was not well, so it was not sent on (preflight): its disk was behind, or no block was in the making.",
        "Send it again when getHealth says ok.";
    RpcBusy = Unsigned "rpc" "refused_busy":
        "It came over RPC when the node had no room for it.",
        "Send it again.";
}

impl DropReason {
    /// Whether the same bytes may still land.
    pub fn may_land(self) -> bool {
        use DropReason::*;
        let never = [QuicSize, VerifyMalformed, VerifySignature, PackBudget, PackSize, PackAccountTwice, PackTooCostly];
        !never.contains(&self)
    }

    /// The reason with this number, if there is one.
    pub(super) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_reasons_agree() {
        for (number, reason) in (0..).zip(DropReason::ALL) {
            assert_eq!((*reason as u8, DropReason::of_number(number)), (number, Some(*reason)));
            assert!(reason.text().ends_with('.') && reason.hint().ends_with('.'), "{reason:?}");
        }
        assert_eq!(DropReason::of_number(DropReason::ALL.len() as u8), None);
    }
}
