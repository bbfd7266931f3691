//! Both nodes lead in turn, with half of the stake each.
//!
//! reads   the leaders of the first slots, fees of transactions

use serde_json::{Value, json};

use super::agave_node::Agave;
use super::archive::copied;
use super::catch_up::caught_up;
use super::cluster::{Cluster, joined};
use super::genesis::{Genesis, STAKE, Staked};
use super::hearth_node::Ours;
use super::load::{BY_ALL, BY_RPC};
use super::nodes::{AGAVE, OURS, Remote};
use super::{Lab, Outcome, solana};
use crate::node::wait_for;

/// Half of the stake each, so that neither confirms a block alone.
const HALVES: [Staked; 2] = [Staked::new("agave", STAKE), Staked::new("ours", STAKE)];
/// The epochs are short, so that a part sees the end of one.
const EPOCH_SLOTS: u64 = 128;
/// Slots that both must have confirmed before anything is measured.
const SETTLES: u64 = 32;
/// Transfers with a price for compute units, handed to each node, and their price in micro-lamports.
const PRICED: usize = 3;
const PRICE: &str = "100000";
/// The fee of one signature.
const BASE_FEE: u64 = 5_000;

/// Agave begins, then another chain that Hearth begins.
pub fn lead(lab: &Lab) -> Result<Outcome, String> {
    let parts: [fn(&Lab) -> Result<Outcome, String>; 2] = [agave_begins, hearth_begins];
    Ok(joined(parts.into_iter().map(|part| part(lab))))
}

fn genesis(lab: &Lab) -> Genesis<'static> {
    Genesis { staked: &HALVES, epoch_slots: lab.epoch_slots(EPOCH_SLOTS), has_pending: false }
}

fn agave_begins(lab: &Lab) -> Result<Outcome, String> {
    lab.keys()?;
    let theirs = lab.folder.join("agave");
    genesis(lab).by_solana(lab, &theirs)?;
    let agave = Agave::begins(&theirs).start(lab)?;
    let ledger = lab.folder.join("ours");
    let mut ours = Ours::first(&ledger, Some("ours"), Some(AGAVE)).start(lab)?;
    ours.reaches(SETTLES, lab.within(4 * SETTLES))?;
    caught_up(lab, &mut ours, AGAVE)?;
    Ok(Cluster::new(ours, agave).through(|cluster| {
        cluster.together(lab, "in turn", lab.part(2).max(epoch_seconds(lab)), &BY_ALL)?;
        if let Some(why) = no_boundary(&cluster.last()["slots"], lab.epoch_slots(EPOCH_SLOTS)) {
            cluster.fail(why);
        }
        for led in ["led_ours", "led_agave"] {
            if cluster.last()[led].as_u64().unwrap_or(0) == 0 {
                cluster.fail(format!("{led}: no slot"));
            }
        }
        if !solana::is_there(lab) {
            println!("priority fees: skipped, there is no `solana` in {}", lab.programs.display());
            return Ok(());
        }
        priced(lab, cluster)
    }))
}

/// Seconds that see the end of an epoch, although some slots take longer.
fn epoch_seconds(lab: &Lab) -> u64 {
    lab.epoch_slots(EPOCH_SLOTS) * lab.slot_ms * 5 / 4_000 + 10
}

/// Returns a sentence if no epoch ended between two slots.
fn no_boundary(slots: &Value, epoch_slots: u64) -> Option<String> {
    let (begin, end) = (slots[0].as_u64()?, slots[1].as_u64()?);
    (begin / epoch_slots == end / epoch_slots)
        .then(|| format!("slots {begin} to {end} see no end of an epoch of {epoch_slots} slots: run for longer"))
}

/// Hands transfers with a price to each node; both must have them, with the same fee.
fn priced(lab: &Lab, cluster: &mut Cluster) -> Result<(), String> {
    let receiver = lab.address("ours-id")?;
    let mut wrong = vec![];
    for node in [OURS, AGAVE] {
        for number in 0..PRICED {
            let amount = format!("0.{}", number + 1);
            let words =
                ["transfer", "--allow-unfunded-recipient", "--with-compute-unit-price", PRICE, &receiver, &amount];
            let said = solana::must(lab, node, &words)?;
            let signature = said.signature().ok_or_else(|| format!("no signature in {:?}", said.text))?;
            let fees = [OURS, AGAVE].map(|node| fee(lab, node, &signature));
            if fees[0] != fees[1] || fees[0].as_ref().is_ok_and(|fee| *fee <= BASE_FEE) {
                wrong.push(format!("{signature}: the fee is {:?} here, {:?} at Agave", fees[0], fees[1]));
            }
        }
    }
    cluster.add("priority fees", json!({ "sent": 2 * PRICED, "landed": 2 * PRICED - wrong.len() }), wrong);
    Ok(())
}

/// The fee of a transaction once the node has it confirmed.
fn fee(lab: &Lab, node: Remote, signature: &str) -> Result<u64, String> {
    let params = json!([signature, { "commitment": "confirmed", "maxSupportedTransactionVersion": 0 }]);
    wait_for(&format!("{}: transaction {signature}", node.0), lab.within(0), || {
        node.call("getTransaction", params.clone()).ok()?["meta"]["fee"].as_u64()
    })
}

/// Hearth begins a chain of solana-genesis, alone from slot 1 on; Agave, with the same genesis, joins it. So the first
/// leader's slots follow on slot 0, which each node makes for itself.
fn hearth_begins(lab: &Lab) -> Result<Outcome, String> {
    lab.keys()?;
    let theirs = lab.folder.join("agave-joins");
    let ledger = lab.folder.join("ours-begins");
    genesis(lab).by_solana(lab, &theirs)?;
    copied(&[theirs.join("genesis.bin")], &ledger)?;
    let mut ours = Ours { name: "ours-begins", ..Ours::first(&ledger, Some("ours"), None) }.start(lab)?;
    let joins = Agave { fetches: false, ..Agave::joins(&theirs, OURS) };
    let mut agave = joins.start(lab)?;
    ours.reaches(SETTLES, lab.within(8 * SETTLES))?;
    agave.reaches(SETTLES, lab.within(8 * SETTLES))?;
    caught_up(lab, &mut agave, OURS)?;
    let leaders = OURS.call("getSlotLeaders", json!([0, 8]))?;
    let id = lab.address("ours-id")?;
    let led: Vec<usize> = (0..8).filter(|slot: &usize| leaders[*slot] == json!(id)).collect();
    Ok(Cluster::new(ours, agave).through(|cluster| {
        cluster.add("Hearth begins", json!({ "led_of_the_first_eight": led }), vec![]);
        cluster.together(lab, "in turn, Hearth began", lab.part(2), &BY_RPC)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_an_epoch_is_between_the_slots() {
        assert_eq!(no_boundary(&json!([100, 130]), 128), None);
        assert!(no_boundary(&json!([130, 250]), 128).is_some());
    }
}
