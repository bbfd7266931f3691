//! A chain with the cluster's programs that changes hands: ours, then Agave's, then both have it.
//!
//! reads   bank hashes, archives, the root of our node's votes
//! writes  both ledgers into the scenario's folder

use std::time::Instant;

use serde_json::json;

use super::agave_node::Agave;
use super::archive::{self, Newest};
use super::catch_up::caught_up;
use super::cluster::Cluster;
use super::genesis::{Genesis, STAKE, Staked};
use super::hearth_node::Ours;
use super::load::BY_RPC;
use super::nodes::AGAVE;
use super::{Lab, Outcome, votes};

/// Our node leads alone up to this slot: far from the end of the first epoch.
const ALONE: u64 = 50;
/// Slots within which the node that joined has a vote of its own rooted. That takes 32 votes.
const ROOTS_WITHIN: u64 = 200;

/// The stakes with one node of each kind: a quarter is ours.
pub const QUARTER: [Staked; 2] = [Staked::new("agave", STAKE), Staked::new("ours", STAKE / 3)];

/// An archive of ours starts Agave, and Agave's archives start a node of ours.
pub fn scenario(lab: &Lab) -> Result<Outcome, String> {
    let genesis = Genesis { staked: &QUARTER, epoch_slots: lab.epoch_slots(256), has_pending: false };
    let cluster = handed(lab, &genesis)?;
    Ok(cluster.through(|cluster| cluster.together(lab, "after the handover", lab.part(1), &BY_RPC)))
}

/// Our node begins a chain with the keys of Agave's node, which has more than two thirds of the stake. Agave goes on
/// from an archive of it, and our node joins with keys of its own. It has no tower, so like Agave's by default it leads
/// only once a vote that it cast since is rooted: that is waited for.
pub fn handed(lab: &Lab, genesis: &Genesis<'_>) -> Result<Cluster, String> {
    lab.keys()?;
    let chain = lab.folder.join("chain");
    let theirs = lab.folder.join("agave");
    genesis.by_hearth(lab, &chain)?;
    let begins = Ours { name: "ours-alone", ..Ours::first(&chain, Some("agave"), None) };
    let (slot, hash) = archive::handed_over(lab, &begins, ALONE, &theirs)?;
    let mut agave = Agave::begins(&theirs).start(lab)?;
    let frozen = format!("bank frozen: {slot} hash:");
    let line = agave.wait("the bank of the snapshot", lab.within(0), |agave| agave.logged(&[&frozen]))?;
    agave.wait("an archive of its own", lab.within(400), |_| (Newest::of(&theirs).full > Some(slot)).then_some(()))?;
    let follower = lab.folder.join("ours");
    let mut ours = Ours::first(&follower, Some("ours"), Some(AGAVE)).start(lab)?;
    let joined = caught_up(lab, &mut ours, AGAVE)?;
    let begin = Instant::now();
    let id = lab.address("ours-id")?;
    ours.wait("a rooted vote of its own", lab.within(ROOTS_WITHIN), |_| {
        votes::of(AGAVE).get(&id).is_some_and(|vote| vote.root >= joined).then_some(())
    })?;
    let leads_after_s = begin.elapsed().as_secs();
    let mut cluster = Cluster::new(ours, agave);
    let wrong =
        if line.contains(&hash) { vec![] } else { vec![format!("our bank hash is {hash}, Agave's line {line}")] };
    cluster.add("handover", json!({ "slots": [0, slot], "bank_hash": hash, "leads_after_s": leads_after_s }), wrong);
    Ok(cluster)
}
