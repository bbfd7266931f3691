//! voting: decides whether a node in a cluster may vote when it starts.
//!
//! reads   the newest slot of its tower; its account's node and votes in the bank that it starts from
//! writes  a verdict, and its text
//!
//! An account that has voted has binding votes, and the newest may not be in the bank yet. A node without a tower does
//! not know them and could violate their lockouts, so an identity from another machine or from Agave must bring its
//! tower along. A tower is saved before its vote is sent, so one that is older than the account's votes is a copy from
//! before the last of them: the identity has voted elsewhere since. Such a node takes the account's votes, as Agave
//! does, and begins to vote once these are so old that none that it does not know can still land below its own.

use std::path::Path;

use hearth_consensus::{AccountVotes, SETTLED_SLOTS};
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;

/// Whether the node votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VotingDecision {
    /// It votes from its start on.
    Votes,
    /// It votes once it has taken the votes of its account: these go up to this slot, and the tower does not reach it.
    Settles {
        /// The newest slot voted for or rooted.
        newest: u64,
    },
    /// It only follows: its account has voted up to this slot, or rooted it, and there is no tower.
    Follows {
        /// The newest slot voted for or rooted.
        newest: u64,
    },
}

/// The verdict for a node whose account has `votes` in the bank that it starts from; `None` if the bank has no such
/// account. `tower` is the newest slot of the tower, if there is one; `is_told`: the operator allows voting without a
/// tower.
pub(super) fn verdict(tower: Option<u64>, is_told: bool, votes: Option<&AccountVotes>) -> VotingDecision {
    let newest = votes.and_then(|votes| votes.last_vote().max(votes.root)).filter(|_| !is_told);
    match (newest, tower) {
        (Some(newest), None) => VotingDecision::Follows { newest },
        (Some(newest), Some(tower)) if tower < newest => VotingDecision::Settles { newest },
        _ => VotingDecision::Votes,
    }
}

/// The notice that the node only follows, and how to change that.
pub(super) fn notice(folder: &Path, account: &Pubkey, newest: u64, tower: Option<u64>) -> String {
    let (account, folder) = (encode_32(account), folder.display());
    let lacks = match tower {
        None => format!("there is no tower.bin in {folder}"),
        Some(tower) => format!("the tower.bin in {folder} goes only to slot {tower}"),
    };
    format!(
        "notice: this node does not vote, it only follows: its vote account {account} has voted, up to slot {newest}, \
         and {lacks}. Put the newest tower back, or take that of Agave by `hearth ledger tower import`; \
         --vote-without-tower (consensus.vote_without_tower) votes all the same, and may violate lost lockouts"
    )
}

/// The notice that the node lacks votes of its account, and takes them.
pub(super) fn notice_of_settling(folder: &Path, account: &Pubkey, newest: u64, tower: u64) -> String {
    format!(
        "notice: the vote account {} has voted up to slot {newest}, and the tower.bin in {} goes only to slot {tower}: \
         this identity has voted elsewhere since. The node takes the account's votes, and votes once the newest of \
         them is {SETTLED_SLOTS} slots old. One identity is one node: no other process may vote with it",
        encode_32(account),
        folder.display()
    )
}

/// The notice that the node only follows, since the vote account names another node. A spare has the keys of the node
/// whose place it may take, and must not vote beside it.
pub(super) fn notice_of_other(account: &Pubkey, node: &Pubkey) -> String {
    format!(
        "notice: this node does not vote, it only follows: its vote account {} is that of the node {}; to take its \
         place, give that one another identity or end it, and then this one its identity by `hearth validator \
         set-identity`",
        encode_32(account),
        encode_32(node)
    )
}

#[cfg(test)]
mod tests {
    use hearth_wire::vote::Lockout;

    use super::*;

    #[test]
    fn a_node_votes_where_its_tower_goes_as_far_as_its_account() {
        use VotingDecision::{Follows, Settles, Votes};
        let account = |slot: Option<u64>, root: Option<u64>| {
            let votes = slot.map(|slot| Lockout { slot, confirmation_count: 1 }).into_iter().collect();
            Some(AccountVotes { votes, root, ..AccountVotes::default() })
        };
        let table = [
            // The account in the bank; the verdict without a tower.
            (None, Votes),
            (account(None, None), Votes),
            (account(Some(7), None), Follows { newest: 7 }),
            (account(Some(0), None), Follows { newest: 0 }),
            (account(None, Some(5)), Follows { newest: 5 }),
            (account(Some(7), Some(5)), Follows { newest: 7 }),
        ];
        for (account, without) in table {
            assert_eq!(verdict(None, false, account.as_ref()), without, "{account:?}");
            for (tower, is_told) in [(Some(7), false), (Some(8), false), (None, true), (Some(0), true)] {
                assert_eq!(verdict(tower, is_told, account.as_ref()), Votes, "{account:?}");
            }
        }
        assert_eq!(verdict(Some(6), false, account(Some(7), Some(5)).as_ref()), Settles { newest: 7 });
        assert_eq!(verdict(Some(6), true, account(Some(7), Some(5)).as_ref()), Votes);
    }

    #[test]
    fn the_notice_is_a_line_that_says_what_to_do() {
        for (tower, lacks) in [(None, "there is no tower.bin in my chain"), (Some(70), "only to slot 70")] {
            let said = notice(Path::new("my chain"), &[1; 32], 77, tower);
            for part in ["slot 77,", "my chain", lacks, "hearth ledger tower import", "--vote-without-tower"] {
                assert!(said.contains(part), "{said}");
            }
            assert_eq!(said.lines().count(), 1);
        }
        let said = notice_of_settling(Path::new("my chain"), &[1; 32], 77, 70);
        assert!(said.contains("up to slot 77,") && said.contains("only to slot 70:"), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
}
