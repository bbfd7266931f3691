//! Faults: loss, a partition, kill -9, and what changes at the ends of epochs. Hearth has a quarter of the stake, so
//! Agave goes on without it.
//!
//! reads   votes of both nodes, what was repaired between them
//! writes  filters on the namespace's loopback

use std::time::Instant;

use serde_json::json;

use super::agave_node::Agave;
use super::archive::Newest;
use super::catch_up::{BEHIND_MAX, caught_up};
use super::cluster::Cluster;
use super::compare::Hashes;
use super::genesis::{Genesis, STAKE, Staked};
use super::handover::{QUARTER, handed};
use super::hearth_node::Ours;
use super::load::BY_RPC;
use super::nodes::{AGAVE, AGAVE_2, OURS, OURS_2};
use super::repairs::Repairs;
use super::{Lab, Outcome, net, solana, stakes, votes};

/// With two nodes of each kind the first of Agave's still has more than two thirds of the stake.
const FOUR: [Staked; 4] = [
    Staked::new("agave", STAKE),
    Staked::new("ours", STAKE / 4),
    Staked::new("agave2", STAKE / 10),
    Staked::new("ours2", STAKE / 10),
];
/// Percent of datagrams that are lost.
const LOST: u32 = 5;
/// Slots that the larger side confirms during the partition. The smaller one then has voted for its own blocks a few
/// times, and its tower keeps it from the others' for as many slots as those votes lock out.
const CUT: u64 = 24;
/// Slots within which our node must vote again after that.
const VOTES_AGAIN: u64 = 300;
/// The parts under load.
const PARTS: u64 = 7;

pub fn faults(lab: &Lab) -> Result<Outcome, String> {
    let staked: &[Staked] = if lab.nodes > 1 { &FOUR } else { &QUARTER };
    let genesis = Genesis { staked, epoch_slots: lab.epoch_slots(256), has_pending: true };
    let cluster = handed(lab, &genesis)?;
    Ok(cluster.through(|cluster| {
        let done = steps(lab, cluster);
        // The next scenario has the same loopback.
        done.inspect_err(|_| net::heal().unwrap_or_else(|why| println!("{why}")))
    }))
}

fn steps(lab: &Lab, cluster: &mut Cluster) -> Result<(), String> {
    if lab.nodes > 1 {
        second_nodes(lab, cluster)?;
    }
    cluster.together(lab, "quiet", lab.part(PARTS), &BY_RPC)?;
    net::lose(LOST)?;
    cluster.together(lab, &format!("{LOST} % loss"), lab.part(PARTS), &BY_RPC)?;
    net::heal()?;
    partition(lab, cluster)?;
    let mut repairs = Repairs::default();
    repairs.add()?;
    kill_ours(lab, cluster)?;
    kill_agave(lab, cluster)?;
    repairs.add()?;
    let figures = repairs.figures(&cluster.agave);
    let wrong = repairs.wrong(&figures);
    cluster.add("repair", figures, wrong);
    if lab.nodes == 1 {
        joins_meanwhile(lab, cluster)?;
        agave_joins_meanwhile(lab, cluster)?;
    }
    if !solana::is_there(lab) {
        println!("stakes: skipped, there is no `solana` in {}", lab.programs.display());
        return Ok(());
    }
    stakes::change(lab, cluster)?;
    stakes::feature(cluster);
    cluster.together(lab, "after the stakes changed", lab.part(PARTS), &BY_RPC)
}

/// One more node of each kind, with stake: they take genesis and archives from the first of Agave.
fn second_nodes(lab: &Lab, cluster: &mut Cluster) -> Result<(), String> {
    let (theirs, ledger) = (lab.folder.join("agave2"), lab.folder.join("ours2"));
    let agave = Agave { name: "agave2", host: AGAVE_2, ..Agave::joins(&theirs, AGAVE) };
    let ours = Ours { name: "ours2", host: OURS_2, ..Ours::first(&ledger, Some("ours2"), Some(AGAVE)) };
    let mut nodes = [agave.start(lab)?, ours.start(lab)?];
    for node in &mut nodes {
        caught_up(lab, node, AGAVE)?;
    }
    cluster.others.extend(nodes);
    Ok(())
}

/// Cuts the two kinds of nodes apart and lets them meet again.
fn partition(lab: &Lab, cluster: &mut Cluster) -> Result<(), String> {
    let begin = AGAVE.slot("confirmed").ok_or("Agave does not answer")?;
    net::cut()?;
    let goes_on = cluster.agave.reaches(begin + CUT, lab.within(2 * CUT));
    let alone = OURS.slot("confirmed");
    net::heal()?;
    goes_on?;
    let wrong = alone.and_then(|slot| not_apart(begin, slot)).into_iter().collect();
    let start = Instant::now();
    caught_up(lab, &mut cluster.ours, AGAVE)?;
    let caught_up_s = start.elapsed().as_secs();
    let id = lab.address("ours-id")?;
    let credits = |id: &str| votes::of(AGAVE).get(id).map_or(0, |vote| vote.credits);
    let before = credits(&id);
    cluster.ours.wait("votes again", lab.within(VOTES_AGAIN), |_| (credits(&id) > before + CUT).then_some(()))?;
    let row = json!({ "slots": [begin, begin + CUT], "caught_up_s": caught_up_s, "votes_again_s": start.elapsed().as_secs() });
    cluster.add("partition", row, wrong);
    cluster.together(lab, "after the partition", lab.part(PARTS), &BY_RPC)
}

/// Returns a sentence if our node, whose stake is too little to confirm anything alone, confirmed slots all the same.
fn not_apart(begin: u64, confirmed: u64) -> Option<String> {
    (confirmed > begin + CUT / 2)
        .then(|| format!("the nodes were not apart: ours confirmed slot {confirmed}, from slot {begin} on"))
}

fn kill_ours(lab: &Lab, cluster: &mut Cluster) -> Result<(), String> {
    cluster.ours.kill()?;
    let ledger = lab.folder.join("ours");
    let start = Instant::now();
    let ours = Ours { writes_archives: true, ..Ours::first(&ledger, Some("ours"), Some(AGAVE)) };
    cluster.ours = ours.start(lab)?;
    caught_up(lab, &mut cluster.ours, AGAVE)?;
    cluster.add("kill -9 of Hearth", json!({ "caught_up_s": start.elapsed().as_secs() }), vec![]);
    cluster.together(lab, "after kill -9 of Hearth", lab.part(PARTS), &BY_RPC)
}

fn kill_agave(lab: &Lab, cluster: &mut Cluster) -> Result<(), String> {
    let slot = OURS.slot("confirmed").ok_or("our node does not answer")?;
    cluster.agave.kill()?;
    let theirs = lab.folder.join("agave");
    let start = Instant::now();
    cluster.agave = Agave::begins(&theirs).start(lab)?;
    cluster.agave.reaches(slot + BEHIND_MAX, lab.within(4 * BEHIND_MAX))?;
    caught_up(lab, &mut cluster.ours, AGAVE)?;
    cluster.add("kill -9 of Agave", json!({ "caught_up_s": start.elapsed().as_secs() }), vec![]);
    cluster.together(lab, "after kill -9 of Agave", lab.part(PARTS), &BY_RPC)
}

/// A node of ours without stake joins a running cluster by Agave's archives. Its bank hashes are Agave's.
fn joins_meanwhile(lab: &Lab, cluster: &mut Cluster) -> Result<(), String> {
    let ledger = lab.folder.join("ours2");
    let mut node = Ours { name: "ours2", host: OURS_2, ..Ours::first(&ledger, None, Some(AGAVE)) }.start(lab)?;
    let reached = caught_up(lab, &mut node, AGAVE)?;
    node.reaches(reached + BEHIND_MAX, lab.within(2 * BEHIND_MAX))?;
    let mut hashes = Hashes::default();
    hashes.look(&OURS_2, &AGAVE);
    let mut wrong = hashes.wrong(8);
    if node.logged(&["taking the snapshot"]).is_none() {
        wrong.push("it took no archive".into());
    }
    cluster.add("a node joins meanwhile", hashes.figures(), wrong);
    Ok(())
}

/// A node of Agave without stake joins a running cluster by an archive that ours has written since its start.
fn agave_joins_meanwhile(lab: &Lab, cluster: &mut Cluster) -> Result<(), String> {
    let archives = lab.folder.join("ours/snapshots/archives");
    let slot = cluster.ours.wait("an archive of its own", lab.within(400), |_| Newest::of(&archives).full)?;
    let (ledger, id) = (lab.folder.join("agave2"), lab.address("ours-id")?);
    let joins = Agave { name: "agave2", host: AGAVE_2, known: Some(&id), votes: false, ..Agave::joins(&ledger, OURS) };
    let mut node = joins.start(lab)?;
    let reached = caught_up(lab, &mut node, OURS)?;
    node.reaches(reached + BEHIND_MAX, lab.within(2 * BEHIND_MAX))?;
    let mut hashes = Hashes::default();
    hashes.look(&OURS, &AGAVE_2);
    let mut figures = hashes.figures();
    figures["archive"] = json!(slot);
    cluster.add("an Agave joins meanwhile", figures, hashes.wrong(8));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_side_of_a_partition_confirms_nothing() {
        assert_eq!(not_apart(100, 102), None);
        assert!(not_apart(100, 100 + CUT).is_some());
    }
}
