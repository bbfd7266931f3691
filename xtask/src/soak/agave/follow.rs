//! Agave has all the stake, and our node follows.
//!
//! reads   archives' names, answers of both nodes

use std::time::Instant;

use serde_json::json;

use super::agave_node::Agave;
use super::archive::Newest;
use super::catch_up::{Behind, caught_up};
use super::cluster::Cluster;
use super::genesis::{Genesis, STAKE, Staked};
use super::hearth_node::Ours;
use super::load::BY_RPC;
use super::nodes::{AGAVE, OURS};
use super::{Lab, Outcome, fields};

/// Sysvars whose accounts are compared: clock, epoch schedule, rent, slot hashes, stake history.
const SYSVARS: [&str; 5] = [
    "SysvarC1ock11111111111111111111111111111111",
    "SysvarEpochSchedu1e111111111111111111111111",
    "SysvarRent111111111111111111111111111111111",
    "SysvarS1otHashes111111111111111111111111111",
    "SysvarStakeHistory1111111111111111111111111",
];

/// From genesis, from a full archive, from an incremental one, and from far behind.
pub fn follow(lab: &Lab) -> Result<Outcome, String> {
    lab.keys()?;
    let theirs = lab.folder.join("agave");
    let staked = [Staked::new("agave", STAKE)];
    let epoch_slots = lab.epoch_slots(256);
    Genesis { staked: &staked, epoch_slots, has_pending: false }.by_solana(lab, &theirs)?;
    let agave = Agave::begins(&theirs).start(lab)?;
    let ledger = lab.folder.join("from-genesis");
    let begin = Instant::now();
    let mut ours = Ours { downloads: false, ..Ours::first(&ledger, None, Some(AGAVE)) }.start(lab)?;
    caught_up(lab, &mut ours, AGAVE)?;
    let row = json!({ "caught_up_s": begin.elapsed().as_secs() });
    Ok(Cluster::new(ours, agave).through(|cluster| {
        cluster.add("start from genesis", row, vec![]);
        cluster.together(lab, "from genesis", lab.part(4), &BY_RPC)?;
        from_archive(lab, cluster, "full", |newest| newest.incremental.is_none())?;
        from_archive(lab, cluster, "incremental", |newest| newest.incremental.is_some())?;
        far_behind(lab, cluster)?;
        compare(lab, cluster)
    }))
}

/// Our node joins with an empty folder while Agave's newest archives are such ones.
fn from_archive(lab: &Lab, cluster: &mut Cluster, kind: &str, is_such: fn(Newest) -> bool) -> Result<(), String> {
    cluster.ours.stop()?;
    let theirs = lab.folder.join("agave");
    let before = Newest::of(&theirs);
    let newest = cluster.agave.wait(&format!("a newer archive, {kind}"), lab.within(400), |_| {
        let newest = Newest::of(&theirs);
        (newest.full.is_some() && newest != before && is_such(newest)).then_some(newest)
    })?;
    let name = format!("ours-{kind}");
    let ledger = lab.folder.join(&name);
    let begin = Instant::now();
    cluster.ours = Ours { name: &name, ..Ours::first(&ledger, None, Some(AGAVE)) }.start(lab)?;
    caught_up(lab, &mut cluster.ours, AGAVE)?;
    let taken = cluster.ours.logged(&["taking the snapshot"]);
    let wrong = if taken.is_none() { vec!["our node took no archive".to_owned()] } else { vec![] };
    let row = json!({
        "caught_up_s": begin.elapsed().as_secs(), "archive": newest.full, "incremental": newest.incremental,
    });
    cluster.add(&format!("start from an archive, {kind}"), row, wrong);
    cluster.together(lab, &format!("from an archive, {kind}"), lab.part(4), &BY_RPC)
}

/// Our node is stopped for a while, and started again.
fn far_behind(lab: &Lab, cluster: &mut Cluster) -> Result<(), String> {
    let stopped_at = OURS.slot("confirmed").ok_or("our node does not answer")?;
    cluster.ours.stop()?;
    let behind = Behind::wait(lab, &mut cluster.agave, stopped_at, lab.behind)?;
    let ledger = lab.folder.join("ours-incremental");
    cluster.ours = Ours { name: "ours-incremental", ..Ours::first(&ledger, None, Some(AGAVE)) }.start(lab)?;
    let took = behind.caught_up(lab, &mut cluster.ours, AGAVE)?;
    cluster.add("catches up", json!({ "catch_up_ours": took }), vec![]);
    cluster.together(lab, "after catching up", lab.part(4), &BY_RPC)
}

/// Compares the answers of both nodes, and adds what differs.
fn compare(lab: &Lab, cluster: &mut Cluster) -> Result<(), String> {
    let mut accounts: Vec<String> = SYSVARS.map(str::to_owned).into();
    for name in ["agave-id", "agave-vote", "agave-stake", "faucet"] {
        accounts.push(lab.address(name)?);
    }
    let found = fields::compare(&accounts)?;
    found.print();
    cluster.add("answers compared", found.figures(), found.wrong());
    Ok(())
}
