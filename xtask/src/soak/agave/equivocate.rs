//! Our node leads a slot for which there are two blocks with its signature. Agave gets the one that our node did not
//! make, since what our node sends is withheld meanwhile. Both must come to the same block, and nothing confirmed is
//! lost.
//!
//! agave-validator panics rather than drop a block of its own (`replay_stage.rs`), so our node may end too. It is
//! started once more then, and must follow.
//!
//! reads   metrics of our node, blocks of both
//! writes  a filter on the namespace's loopback; another block, by an example of `hearth-sim`

use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::catch_up::{BEHIND_MAX, caught_up};
use super::cluster::Cluster;
use super::genesis::{Genesis, TICKS_PER_SLOT};
use super::handover::{QUARTER, handed};
use super::hearth_node::Ours;
use super::load::BY_RPC;
use super::nodes::{AGAVE, METRICS_PORT, OURS, OURS_2, Remote};
use super::repairs::{Repairs, sum};
use super::{Lab, Outcome, net};
use crate::rpc;
use crate::run::{self, cargo, target_dir};

/// The address at which the maker of the second block gets the shreds of the first. It is one of ours.
const COPIES: SocketAddrV4 = SocketAddrV4::new(OURS_2.0, 9_500);
/// Slots within which our node leads one that begins with a tick: it has a quarter of the slots.
const SLOTS: u64 = 200;
/// Two blocks are made so many times.
const TIMES: u64 = 3;

pub fn equivocate(lab: &Lab) -> Result<Outcome, String> {
    let program = second_block()?;
    let genesis = Genesis { staked: &QUARTER, epoch_slots: lab.epoch_slots(256), has_pending: false };
    let cluster = handed(lab, &genesis)?;
    Ok(cluster.through(|cluster| {
        cluster.ours.stop()?;
        let ledger = lab.folder.join("ours");
        let ours = Ours { copies_to: Some(COPIES), ..Ours::first(&ledger, Some("ours"), Some(AGAVE)) };
        cluster.ours = ours.start(lab)?;
        caught_up(lab, &mut cluster.ours, AGAVE)?;
        for time in 1..=TIMES {
            two_blocks(lab, cluster, &program, &ours, time)?;
            cluster.together(lab, &format!("after two blocks, {time}"), lab.part(TIMES), &BY_RPC)?;
        }
        let mut repairs = Repairs::default();
        repairs.add()?;
        let figures = repairs.figures(&cluster.agave);
        cluster.add("repair", figures, vec![]);
        Ok(())
    }))
}

/// Builds the maker of the second block.
fn second_block() -> Result<PathBuf, String> {
    let example = ["--package", "hearth-sim", "--example", "second_block"];
    run::run(cargo().args(["build", "--release", "--locked"]).args(example))?;
    Ok(target_dir().join("release/examples/second_block"))
}

/// Makes the second block by a program, and adds a row once both nodes agree on the slot.
fn two_blocks(lab: &Lab, cluster: &mut Cluster, program: &Path, ours: &Ours<'_>, time: u64) -> Result<(), String> {
    let to = tvu(&lab.address("agave-id")?)?;
    let before = noticed()?;
    let seconds = lab.within(SLOTS).as_secs().to_string();
    let mut maker = Command::new(program);
    maker.arg(lab.key("ours-id")).args([COPIES.to_string(), to.to_string(), seconds, TICKS_PER_SLOT.to_string()]);
    net::withhold(to.port())?;
    let said = run::output(&mut maker);
    // The rest of the first block reaches Agave beside the second.
    net::heal()?;
    let said = said?;
    let slot = slot_in(&said).ok_or_else(|| format!("`second_block` said {said}"))?;
    println!("there are two blocks of slot {slot}");
    let beyond = slot + 2 * BEHIND_MAX;
    cluster.agave.reaches(beyond, lab.within(2 * BEHIND_MAX))?;
    let has_ended = follows(lab, cluster, ours, beyond)?;
    let blocks = [OURS, AGAVE].map(|node| hash(node, slot));
    let has_noticed = has_ended || noticed()? > before;
    let wrong = disagreement(&blocks, has_noticed);
    let row = json!({ "slot": slot, "block": blocks[0], "noticed": has_noticed, "ended": has_ended });
    cluster.add(&format!("two blocks of a slot, {time}"), row, wrong);
    Ok(())
}

/// Waits until our node has confirmed a slot, and starts it once more if it has ended by itself, which it returns.
fn follows(lab: &Lab, cluster: &mut Cluster, ours: &Ours<'_>, slot: u64) -> Result<bool, String> {
    let Err(why) = cluster.ours.reaches(slot, lab.within(2 * BEHIND_MAX)) else { return Ok(false) };
    if !cluster.ours.has_ended() {
        return Err(why);
    }
    println!("{why}");
    cluster.ours = ours.start(lab)?;
    caught_up(lab, &mut cluster.ours, AGAVE)?;
    cluster.ours.reaches(slot, lab.within(2 * BEHIND_MAX))?;
    Ok(true)
}

/// The slots of which our node knows a proof that there are two blocks.
fn noticed() -> Result<u64, String> {
    Ok(sum(&rpc::get(OURS.0, METRICS_PORT, "/metrics")?, "hearth_tower_duplicate_slots_total"))
}

/// Returns the address at which a node takes shreds.
fn tvu(id: &str) -> Result<SocketAddrV4, String> {
    let nodes = OURS.call("getClusterNodes", json!([]))?;
    let node = nodes.as_array().into_iter().flatten().find(|node| node["pubkey"] == id);
    let tvu = node.and_then(|node| node["tvu"].as_str()?.parse().ok());
    tvu.ok_or_else(|| format!("the port for shreds of {id} is not known"))
}

/// The slot in the line `slot 7`.
fn slot_in(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.strip_prefix("slot ")?.parse().ok())
}

/// The blockhash of a confirmed block; null if the node has none of that slot.
fn hash(node: Remote, slot: u64) -> Value {
    let options = json!({
        "commitment": "confirmed", "transactionDetails": "none", "rewards": false, "maxSupportedTransactionVersion": 0,
    });
    node.call("getBlock", json!([slot, options])).map_or(Value::Null, |mut block| block["blockhash"].take())
}

/// Returns the faults: two blocks that are confirmed, or that our node has not noticed.
fn disagreement(blocks: &[Value; 2], has_noticed: bool) -> Vec<String> {
    let mut wrong = vec![];
    if blocks[0] != blocks[1] {
        wrong.push(format!("our node has confirmed block {}, Agave's {}", blocks[0], blocks[1]));
    }
    if !has_noticed {
        wrong.push("our node has not noticed that there are two blocks".into());
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_confirmed_blocks_are_wrong() {
        assert_eq!(disagreement(&[json!("a"), json!("a")], true), [""; 0]);
        assert_eq!(disagreement(&[Value::Null, Value::Null], true), [""; 0], "no block is one that both agree on");
        assert_eq!(disagreement(&[json!("a"), json!("b")], false).len(), 2);
    }

    #[test]
    fn slot_is_read() {
        assert_eq!(slot_in("slot 70\n"), Some(70));
        assert_eq!(slot_in("no\n"), None);
    }
}
