//! The scenarios: what runs, and what must hold.
//!
//! reads   bank hashes, blocks and votes of both nodes
//! writes  chains into the lab's folder; progress

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::compare::Hashes;
use super::nodes::{self, AGAVE, Load, OURS, Ours, Process};
use super::{Lab, Outcome};
use crate::run;

/// Between two looks at both nodes: `SlotHashes` has 512 slots, so nothing is missed.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Slots of a chain before it is handed over.
const FIRST_SLOTS: u64 = 150;
/// A chain that goes on is given this long for what it has to reach.
const GOES_ON_WITHIN: Duration = Duration::from_secs(300);
/// A node that follows may be so many confirmed slots behind.
const BEHIND_MAX: u64 = 32;
/// The lamports of a bootstrap validator's stake.
const STAKE: &str = "1000000000000000";
/// Of an epoch later than the next one after its root agave-validator knows no leaders: it drops all shreds, and stays
/// where it is. So epochs are longer than what a node is behind after a start, and short enough to see their ends.
const EPOCH_SLOTS: &str = "256";

/// Our chain is handed to Agave as an archive, and Agave's archives to a new node of ours.
pub fn snapshot(lab: &Lab) -> Result<Outcome, String> {
    lab.keys()?;
    let (chain, theirs) = (lab.folder.join("chain"), lab.folder.join("agave"));
    our_genesis(lab, &chain, "agave", EPOCH_SLOTS, &[])?;
    let (slot, hash) = handed_over(lab, &Ours { ledger: &chain, keys: Some("agave"), joins: false }, &theirs)?;
    let mut agave = nodes::agave(lab, &theirs, &["--no-wait-for-vote-to-start-leader"])?;
    let mut wrong = vec![];
    let start = agave.wait("the bank of the snapshot", GOES_ON_WITHIN, |agave| {
        agave.logged(&[&format!("bank frozen: {slot} hash:")])
    })?;
    if !start.contains(&hash) {
        wrong.push(format!("slot {slot}: our bank hash is {hash}, Agave's line {start}"));
    }
    agave.reaches(slot + FIRST_SLOTS, GOES_ON_WITHIN)?;
    agave.wait("archives of its own", GOES_ON_WITHIN, |_| has_newer_archive(&theirs, slot).then_some(()))?;
    let follower = lab.folder.join("follower");
    let begin = Instant::now();
    let mut ours = Ours { ledger: &follower, keys: None, joins: true }.start(lab)?;
    caught_up(&mut ours)?;
    let caught_up_s = begin.elapsed().as_secs_f64();
    let together = together(lab, &mut [&mut ours, &mut agave], lab.seconds)?;
    wrong.extend(together.wrong);
    let figures = json!({ "slot": slot, "bank_hash": hash, "caught_up_s": caught_up_s, "together": together.figures });
    Ok(Outcome { figures, wrong })
}

/// Both have half of the stake, so that neither confirms a block alone.
pub fn turns(lab: &Lab) -> Result<Outcome, String> {
    lab.keys()?;
    let theirs = lab.folder.join("agave");
    their_genesis(lab, &theirs)?;
    let ledger = lab.folder.join("ours");
    let ours = Ours { ledger: &ledger, keys: Some("ours"), joins: true };
    let begin = ["--no-wait-for-vote-to-start-leader"];
    let mut agave = nodes::agave(lab, &theirs, &begin)?;
    let mut node = ours.start(lab)?;
    node.reaches(FIRST_SLOTS, GOES_ON_WITHIN)?;
    let third = lab.seconds / 3;
    let mut parts = vec![("quiet", together(lab, &mut [&mut node, &mut agave], third)?)];
    node.kill()?;
    let mut node = ours.start(lab)?;
    caught_up(&mut node)?;
    parts.push(("ours killed", together(lab, &mut [&mut node, &mut agave], third)?));
    agave.kill()?;
    let mut agave = nodes::agave(lab, &theirs, &begin)?;
    let slot = OURS.slot("confirmed").unwrap_or(0);
    agave.reaches(slot + BEHIND_MAX, GOES_ON_WITHIN)?;
    parts.push(("agave killed", together(lab, &mut [&mut node, &mut agave], third)?));
    let (mut figures, mut wrong) = (json!({}), vec![]);
    for (name, part) in parts {
        let idle = idle_leader(&part.figures["blocks"]);
        wrong.extend(part.wrong.into_iter().chain(idle).map(|why| format!("{name}: {why}")));
        figures[name] = part.figures;
    }
    Ok(Outcome { figures, wrong })
}

/// Agave, with a quarter of the stake, joins our chain over the network.
pub fn join(lab: &Lab) -> Result<Outcome, String> {
    lab.keys()?;
    let (chain, unused) = (lab.folder.join("chain"), lab.folder.join("unused"));
    let theirs = lab.folder.join("agave");
    let accounts = lab.folder.join("validators.yml");
    let account = format!(
        "validator_accounts:\n- balance_lamports: 500000000000\n  stake_lamports: {}\n  identity_account: {}\n  \
         vote_account: {}\n  stake_account: {}\n",
        STAKE.parse::<u64>().unwrap_or(0) / 3,
        lab.address("agave-id")?,
        lab.address("agave-vote")?,
        lab.address("agave-stake")?,
    );
    std::fs::write(&accounts, account).map_err(|error| format!("{}: {error}", accounts.display()))?;
    our_genesis(lab, &chain, "ours", EPOCH_SLOTS, &["--validator-accounts-file", &accounts.to_string_lossy()])?;
    let ours = Ours { ledger: &chain, keys: Some("ours"), joins: false };
    let (slot, hash) = handed_over(lab, &ours, &unused)?;
    let mut node = ours.start(lab)?;
    let entrypoint = format!("{}:8001", OURS.0);
    let mut agave = nodes::agave(lab, &theirs, &["--entrypoint", &entrypoint])?;
    agave.reaches(slot + FIRST_SLOTS, GOES_ON_WITHIN)?;
    let mut outcome = together(lab, &mut [&mut node, &mut agave], lab.seconds)?;
    outcome.figures["slot"] = json!(slot);
    outcome.figures["bank_hash"] = json!(hash);
    outcome.wrong.extend(idle_leader(&outcome.figures["blocks"]));
    Ok(outcome)
}

/// A genesis by `hearth genesis create` with one bootstrap validator.
fn our_genesis(lab: &Lab, ledger: &Path, validator: &str, epoch: &str, more: &[&str]) -> Result<(), String> {
    let mut command = Command::new(&lab.hearth);
    command.args(["genesis", "create", "--usual-programs", "--hashes-per-tick", "sleep"]).arg("--ledger").arg(ledger);
    run::run(genesis_options(lab, command.args(["--slots-per-epoch", epoch]), &[validator])?.args(more))
}

/// A ledger by `solana-genesis` with both as bootstrap validators, without the features that we do not support.
fn their_genesis(lab: &Lab, ledger: &Path) -> Result<(), String> {
    let mut command = Command::new(lab.programs.join("solana-genesis"));
    command.arg("--ledger").arg(ledger).args(["--cluster-type", "development", "--hashes-per-tick", "sleep"]);
    command.args(["--slots-per-epoch", EPOCH_SLOTS]);
    for feature in unsupported_features()? {
        command.args(["--deactivate-feature", &feature]);
    }
    run::run(genesis_options(lab, &mut command, &["agave", "ours"])?)
}

/// The options that both programs have in common.
fn genesis_options<'a>(lab: &Lab, command: &'a mut Command, validators: &[&str]) -> Result<&'a mut Command, String> {
    command.args(["--faucet-pubkey", &lab.address("faucet")?, "--faucet-lamports", "500000000000000000"]);
    command.args(["--bootstrap-validator-stake-lamports", STAKE, "--bootstrap-validator-lamports", "500000000000"]);
    for name in validators {
        let keys = ["id", "vote", "stake"].map(|kind| lab.address(&format!("{name}-{kind}")));
        command.arg("--bootstrap-validator");
        for key in keys {
            command.arg(key?);
        }
    }
    Ok(command)
}

/// The features of docs/features.md that a chain of ours must not have.
fn unsupported_features() -> Result<Vec<String>, String> {
    let page = run::root().join("docs/features.md");
    let text = std::fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    Ok(unsupported(&text))
}

/// The second column of each row whose third is `not supported`.
fn unsupported(page: &str) -> Vec<String> {
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(2);
        let feature = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        (cells.next()? == "not supported").then(|| feature.to_owned())
    });
    rows.collect()
}

/// Runs our node under load until it has a chain, stops it, and makes an archive of it, for itself and for `theirs`.
/// Returns the archive's slot and bank hash.
fn handed_over(lab: &Lab, ours: &Ours<'_>, theirs: &Path) -> Result<(u64, String), String> {
    let mut node = ours.start(lab)?;
    let load = Load::start(lab, "first", OURS, 20)?;
    node.reaches(FIRST_SLOTS, GOES_ON_WITHIN)?;
    load.end()?;
    node.stop()?;
    let mut create = Command::new(&lab.hearth);
    create.args(["ledger", "snapshot", "create", "--ledger"]).arg(ours.ledger).arg("--config").arg(ours.config(lab)?);
    let said = run::output(&mut create)?;
    let archive = said.lines().find_map(|line| line.strip_prefix("archive ")).map(|file| PathBuf::from(file.trim()));
    let (Some(archive), Some(bank)) = (archive, created(&said)) else {
        return Err(format!("`hearth ledger snapshot create` said {said}"));
    };
    std::fs::create_dir_all(theirs).map_err(|error| format!("{}: {error}", theirs.display()))?;
    let files = [archive, ours.ledger.join("genesis.bin"), ours.ledger.join("genesis.tar.bz2")];
    for file in files {
        let name = file.file_name().ok_or("an archive without a name")?;
        std::fs::copy(&file, theirs.join(name)).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    println!("archive of slot {}, bank hash {}", bank.0, bank.1);
    Ok(bank)
}

/// Slot and hash in the line `bank      slot 800, hash HASH`.
fn created(said: &str) -> Option<(u64, String)> {
    let line = said.lines().find_map(|line| line.strip_prefix("bank "))?;
    let (slot, hash) = line.trim().strip_prefix("slot ")?.split_once(", hash ")?;
    Some((slot.parse().ok()?, hash.to_owned()))
}

/// Whether Agave has a full archive of a slot after `slot` and an incremental one.
fn has_newer_archive(ledger: &Path, slot: u64) -> bool {
    let names: Vec<String> = std::fs::read_dir(ledger)
        .into_iter()
        .flatten()
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .collect();
    let full = |name: &String| {
        let rest = name.strip_prefix("snapshot-").and_then(|rest| rest.split_once('-'));
        rest.is_some_and(|(full, _)| full.parse().is_ok_and(|full: u64| full > slot))
    };
    names.iter().any(full) && names.iter().any(|name| name.starts_with("incremental-snapshot-"))
}

/// Waits until our node has confirmed nearly as much as Agave has.
fn caught_up(ours: &mut Process) -> Result<(), String> {
    ours.wait("caught up", GOES_ON_WITHIN, |_| {
        let (ours, theirs) = (OURS.slot("confirmed")?, AGAVE.slot("confirmed")?);
        (ours + BEHIND_MAX >= theirs).then_some(())
    })
}

/// Runs both under load for a time, and compares them.
fn together(lab: &Lab, nodes: &mut [&mut Process; 2], seconds: u64) -> Result<Outcome, String> {
    let begin = OURS.slot("confirmed").ok_or("our node does not answer")?;
    let loads = [Load::start(lab, "ours", OURS, seconds)?, Load::start(lab, "agave", AGAVE, seconds)?];
    let (mut hashes, start) = (Hashes::default(), Instant::now());
    let mut production = json!({});
    while start.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(LOOK_EVERY);
        hashes.look(&OURS, &AGAVE);
        for node in nodes.iter_mut() {
            node.reaches(begin, LOOK_EVERY * 12)?;
        }
        add_production(&mut production);
    }
    let loads = loads.map(Load::end);
    hashes.look(&OURS, &AGAVE);
    let end = OURS.slot("confirmed").ok_or("our node does not answer")?;
    let mut wrong = hashes.wrong(usize::try_from((end - begin) / 2).unwrap_or(usize::MAX).max(1));
    let theirs = AGAVE.slot("confirmed").ok_or("Agave does not answer")?;
    if end.abs_diff(theirs) > BEHIND_MAX {
        wrong.push(format!("our node has confirmed slot {end}, Agave's {theirs}"));
    }
    let mut figures = json!({
        "slots": [begin, end], "hashes": hashes.figures(), "blocks": production, "votes": votes()?, "loads": {},
    });
    for (name, load) in ["ours", "agave"].into_iter().zip(loads) {
        let load = load?;
        if load["included"] != load["sent"] || load["sent"] == 0 {
            wrong.push(format!("the load on {name}: {load}"));
        }
        figures["loads"][name] = load;
    }
    Ok(Outcome { figures, wrong })
}

/// Adds this epoch's blocks of each leader: its slots so far, and the blocks that it made in them.
fn add_production(all: &mut Value) {
    let Ok(now) = OURS.call("getBlockProduction", json!([])) else { return };
    let first = now["value"]["range"]["firstSlot"].to_string();
    for (leader, counts) in now["value"]["byIdentity"].as_object().into_iter().flatten() {
        all[leader][&first] = counts.clone();
    }
}

/// What is wrong if fewer than two leaders have made a block: a leader that skips all its slots is listed, too.
fn idle_leader(production: &Value) -> Option<String> {
    let made = |epochs: &Value| {
        let epochs = epochs.as_object().into_iter().flatten();
        epochs.filter_map(|(_, counts)| counts[1].as_u64()).any(|blocks| blocks > 0)
    };
    let leaders = production.as_object().into_iter().flatten().filter(|entry| made(entry.1)).count();
    (leaders < 2).then(|| format!("only {leaders} of the two made blocks: {production}"))
}

/// The last vote, the root and the credits of each vote account, as our node has them.
fn votes() -> Result<Value, String> {
    let accounts = OURS.call("getVoteAccounts", json!([{ "commitment": "confirmed" }]))?;
    let rows = ["current", "delinquent"].into_iter().flat_map(|kind| {
        let rows = accounts[kind].as_array().cloned().unwrap_or_default();
        rows.into_iter().map(move |row| {
            json!({ "node": row["nodePubkey"], "is": kind, "last": row["lastVote"], "root": row["rootSlot"],
                "credits": row["epochCredits"].as_array().and_then(|epochs| epochs.last().cloned()) })
        })
    });
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archives_line_is_read() {
        let said = "archive   a/snapshot-8-x.tar.zst\nbank      slot 8, hash 2odot\naccounts  370\n";
        assert_eq!(created(said), Some((8, "2odot".into())));
        assert_eq!(created("accounts  370\n"), None);
    }

    #[test]
    fn leader_that_skips_all_its_slots_is_idle() {
        assert_eq!(idle_leader(&json!({ "a": { "64": [4, 4] }, "b": { "0": [8, 0], "64": [8, 1] } })), None);
        let skips = idle_leader(&json!({ "a": { "64": [4, 4] }, "b": { "64": [8, 0] } }));
        assert!(skips.is_some_and(|why| why.contains("only 1 of the two")));
    }

    #[test]
    fn rows_that_are_not_supported_are_found() {
        let page = "- *not supported*: it must not be active.\n| Slots become shorter | not supported |\n\
                    | `alpenglow` | `a1pen` | not supported | – | another consensus |\n| `x` | `y` | implemented | – | |\n";
        assert_eq!(unsupported(page), ["a1pen"]);
        assert!(unsupported_features().is_ok_and(|features| !features.is_empty()));
    }
}
