//! Our node begins, and Agave joins over the network.
//!
//! reads   confirmed slots

use serde_json::json;

use super::agave_node::Agave;
use super::archive::handed_over;
use super::catch_up::{Behind, caught_up};
use super::cluster::Cluster;
use super::genesis::{Genesis, STAKE, Staked};
use super::hearth_node::Ours;
use super::load::BY_RPC;
use super::nodes::{AGAVE, OURS};
use super::{Lab, Outcome};

/// Our node leads alone up to this slot.
const ALONE: u64 = 50;
/// Slots that Agave follows before anything is measured: its first votes land.
const SETTLES: u64 = 60;
/// A quarter of the stake is Agave's, so that ours goes on alone.
const STAKED: [Staked; 2] = [Staked::new("ours", STAKE), Staked::new("agave", STAKE / 3)];

/// Agave takes genesis and archive from our RPC, follows, votes and leads; then it is stopped for a while.
pub fn join(lab: &Lab) -> Result<Outcome, String> {
    lab.keys()?;
    let (chain, theirs) = (lab.folder.join("chain"), lab.folder.join("agave"));
    Genesis { staked: &STAKED, epoch_slots: lab.epoch_slots(256), has_pending: false }.by_hearth(lab, &chain)?;
    let begins = Ours::first(&chain, Some("ours"), None);
    let (slot, hash) = handed_over(lab, &begins, ALONE, &lab.folder.join("unused"))?;
    let ours = begins.start(lab)?;
    let joins = Agave::joins(&theirs, OURS);
    let mut agave = joins.start(lab)?;
    agave.reaches(slot + SETTLES, lab.within(4 * SETTLES))?;
    caught_up(lab, &mut agave, OURS)?;
    Ok(Cluster::new(ours, agave).through(|cluster| {
        cluster.add("Agave joins", json!({ "slots": [0, slot], "bank_hash": hash }), vec![]);
        cluster.together(lab, "both lead", lab.part(2), &BY_RPC)?;
        let stopped_at = AGAVE.slot("confirmed").ok_or("Agave does not answer")?;
        cluster.agave.kill()?;
        let behind = Behind::wait(lab, &mut cluster.ours, stopped_at, lab.behind)?;
        cluster.agave = joins.start(lab)?;
        let took = behind.caught_up(lab, &mut cluster.agave, OURS)?;
        cluster.add("Agave catches up", json!({ "catch_up_agave": took }), vec![]);
        cluster.together(lab, "after catching up", lab.part(2), &BY_RPC)
    }))
}
