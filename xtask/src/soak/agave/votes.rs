//! The vote accounts, as a node's RPC has them.
//!
//! reads   `getVoteAccounts`

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::nodes::Remote;

/// A node's vote account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    pub is_delinquent: bool,
    pub stake: u64,
    /// All credits that it has ever earned.
    pub credits: u64,
    /// The newest slot that its votes have rooted.
    pub root: u64,
}

/// The vote accounts by the address of their node; empty if the node does not answer.
pub fn of(node: Remote) -> BTreeMap<String, Vote> {
    let options = json!([{ "commitment": "confirmed", "keepUnstakedDelinquents": true }]);
    node.call("getVoteAccounts", options).map(|answer| parsed(&answer)).unwrap_or_default()
}

fn parsed(answer: &Value) -> BTreeMap<String, Vote> {
    let rows = ["current", "delinquent"].into_iter().flat_map(|kind| {
        let rows = answer[kind].as_array().into_iter().flatten();
        rows.map(move |row| {
            let epochs = row["epochCredits"].as_array();
            let vote = Vote {
                is_delinquent: kind == "delinquent",
                stake: row["activatedStake"].as_u64().unwrap_or(0),
                credits: epochs.and_then(|epochs| epochs.last()?[1].as_u64()).unwrap_or(0),
                root: row["rootSlot"].as_u64().unwrap_or(0),
            };
            (row["nodePubkey"].as_str().unwrap_or_default().to_owned(), vote)
        })
    });
    rows.collect()
}

/// The share of the stake that a node has, in per cent.
pub fn share(votes: &BTreeMap<String, Vote>, node: &str) -> f64 {
    let all: u64 = votes.values().map(|vote| vote.stake).sum();
    let own = votes.get(node).map_or(0, |vote| vote.stake);
    100.0 * own as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_are_read() {
        let row = |node: &str, stake: u64| {
            json!({ "nodePubkey": node, "activatedStake": stake, "rootSlot": 7,
                    "epochCredits": [[0, 100, 0], [1, 160, 100]] })
        };
        let votes = parsed(&json!({ "current": [row("a", 30)], "delinquent": [row("b", 10)] }));
        assert_eq!(votes["a"], Vote { is_delinquent: false, stake: 30, credits: 160, root: 7 });
        assert!(votes["b"].is_delinquent);
        assert_eq!(share(&votes, "b"), 25.0);
        assert_eq!(share(&votes, "c"), 0.0);
    }
}
