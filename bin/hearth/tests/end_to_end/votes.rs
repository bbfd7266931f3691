//! The node votes for its blocks; voted blocks become confirmed, then final.

use hearth_wire::Pubkey;
use serde_json::json;

use super::node::{Rpc, Setup, wait_until};

fn slot(rpc: Rpc, commitment: &str) -> u64 {
    rpc.call("getSlot", json!([{ "commitment": commitment }])).as_u64().expect("a slot")
}

#[test]
fn blocks_are_voted_for_and_become_final() {
    let mut setup = Setup::new("votes");
    setup.with("consensus.vote", true).with("development.genesis.target_tick_duration_micros", 1_000);
    let node = setup.start();
    let rpc = node.rpc();
    let identity: Pubkey = rpc.identity();
    let before = rpc.balance(&identity);
    wait_until("votes that land", || {
        let landed = node.metrics().total("bank_votes");
        if landed >= 40 { Ok(()) } else { Err(format!("{landed} votes")) }
    });
    wait_until("a root of the node's votes", || match slot(rpc, "finalized") {
        0 => Err("none yet".into()),
        _ => Ok(()),
    });
    assert_eq!(node.metrics().committed(), 0, "votes are counted apart");
    assert!(rpc.transaction_count() >= 40, "and are transactions");
    assert!(rpc.balance(&identity) < before, "half of the fee is burned");
    let (finalized, confirmed, processed) = (slot(rpc, "finalized"), slot(rpc, "confirmed"), slot(rpc, "processed"));
    assert!(0 < finalized && finalized < confirmed && confirmed <= processed, "{finalized} {confirmed} {processed}");

    node.kill();
    let node = setup.start();
    let root = slot(node.rpc(), "finalized");
    assert!(root >= finalized, "what is on disk is final");
    wait_until("votes to go on", || {
        let now = slot(node.rpc(), "finalized");
        if now > root { Ok(()) } else { Err(format!("root {now}")) }
    });
    wait_until("a vote that lands on those before", || {
        let accounts = node.rpc().call("getVoteAccounts", json!([]));
        let last_vote = accounts["current"][0]["lastVote"].as_u64();
        if last_vote > Some(processed) { Ok(()) } else { Err(format!("{accounts} after {processed}")) }
    });
    node.stop();
}
