//! What changes at the ends of epochs: stakes by the `solana` command line, and a feature that was pending.
//!
//! reads   stakes and the feature's account, at both nodes

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::json;

use super::cluster::Cluster;
use super::genesis::PENDING;
use super::nodes::{AGAVE, OURS, Remote};
use super::{Lab, solana, votes};

/// SOL of a new stake: less than the 9 % of all stake that may become active in one epoch.
const SOL: &str = "100000";
/// Slots behind the end of an epoch after which both have its stakes.
const BEYOND: u64 = 8;

/// Our vote account gets a new stake, and loses it one epoch later. Both nodes must see the same stakes each time.
pub fn change(lab: &Lab, cluster: &mut Cluster) -> Result<(), String> {
    let file = lab.new_key("new-stake")?;
    let stake = lab.address("new-stake")?;
    let vote = lab.address("ours-vote")?;
    let before = stake_of_ours(lab, OURS)?;
    solana::must(lab, OURS, &["create-stake-account", &file.to_string_lossy(), SOL])?;
    solana::must(lab, AGAVE, &["delegate-stake", "--force", &stake, &vote])?;
    next_epoch(lab, cluster)?;
    let more = same_stakes(lab, cluster, "stake delegated", |now| now > before)?;
    solana::must(lab, AGAVE, &["deactivate-stake", &stake])?;
    next_epoch(lab, cluster)?;
    same_stakes(lab, cluster, "stake deactivated", |now| now < more)?;
    Ok(())
}

/// Waits until both have confirmed blocks of the next epoch.
fn next_epoch(lab: &Lab, cluster: &mut Cluster) -> Result<(), String> {
    let info = OURS.call("getEpochInfo", json!([{ "commitment": "confirmed" }]))?;
    let number = |name: &str| info[name].as_u64().ok_or_else(|| format!("getEpochInfo: no {name}"));
    let left = number("slotsInEpoch")? - number("slotIndex")?;
    let slot = number("absoluteSlot")? + left + BEYOND;
    println!("{left} slots to the end of the epoch");
    cluster.ours.reaches(slot, lab.within(left))?;
    cluster.agave.reaches(slot, lab.within(BEYOND))
}

/// Lamports of our vote account's active stake.
fn stake_of_ours(lab: &Lab, node: Remote) -> Result<u64, String> {
    let id = lab.address("ours-id")?;
    votes::of(node).get(&id).map(|vote| vote.stake).ok_or_else(|| format!("{}: our vote account is unknown", node.0))
}

/// Adds a row: both have the same stake of our vote account, and it is as it must be. Returns it.
fn same_stakes(lab: &Lab, cluster: &mut Cluster, name: &str, holds: impl Fn(u64) -> bool) -> Result<u64, String> {
    let (ours, theirs) = (stake_of_ours(lab, OURS)?, stake_of_ours(lab, AGAVE)?);
    let wrong = if ours == theirs && holds(ours) {
        vec![]
    } else {
        vec![format!("our vote account has {ours} lamports of stake, {theirs} at Agave")]
    };
    cluster.add(name, json!({ "stake": ours }), wrong);
    Ok(ours)
}

/// Adds a row: the pending feature is active since the same slot on both.
pub fn feature(cluster: &mut Cluster) {
    let slots = [OURS, AGAVE].map(activated);
    let wrong = match &slots {
        [Ok(Some(ours)), Ok(Some(theirs))] if ours == theirs => vec![],
        _ => vec![format!("the feature {PENDING} is active since {:?} here, {:?} at Agave", slots[0], slots[1])],
    };
    let slot = slots.into_iter().next().and_then(Result::ok).flatten();
    cluster.add("a feature became active", json!({ "feature": PENDING, "since": slot }), wrong);
}

/// The slot since which the feature is active; `None` while it is pending.
fn activated(node: Remote) -> Result<Option<u64>, String> {
    let options = json!({ "commitment": "confirmed", "encoding": "base64" });
    let account = node.call("getAccountInfo", json!([PENDING, options]))?;
    let data = account["value"]["data"][0].as_str().ok_or("there is no such account")?;
    let data = BASE64_STANDARD.decode(data).map_err(|error| error.to_string())?;
    Ok(active_since(&data))
}

/// Parses a feature's account: whether it is active, and the slot in 8 bytes.
fn active_since(data: &[u8]) -> Option<u64> {
    match data.split_first() {
        Some((1, slot)) => slot.first_chunk().map(|slot| u64::from_le_bytes(*slot)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_account_has_its_slot() {
        assert_eq!(active_since(&[1, 0, 1, 0, 0, 0, 0, 0, 0]), Some(256));
        assert_eq!(active_since(&[0; 9]), None);
        assert_eq!(active_since(&[1, 0]), None);
    }
}
