//! Archives: ours that Agave starts from, and Agave's own.
//!
//! reads   the output of `hearth ledger snapshot create`, the names of files
//! writes  an archive and the genesis into Agave's folder

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Lab;
use super::hearth_node::Ours;
use super::load::{BY_OURS, Load, Sent};
use crate::run;

/// Seconds of load on a chain before it is handed over.
const LOADED_S: u64 = 15;

/// Runs our node under load until it has confirmed a slot, stops it, and makes an archive of its chain, for itself and
/// for `theirs`. Returns the archive's slot and bank hash.
pub fn handed_over(lab: &Lab, ours: &Ours<'_>, slot: u64, theirs: &Path) -> Result<(u64, String), String> {
    let mut node = ours.start(lab)?;
    let load = Load::start_all(lab, &BY_OURS, LOADED_S)?;
    node.reaches(slot, lab.within(slot))?;
    let sent = Sent::ended(load);
    if let Some(why) = sent.wrong.into_iter().next() {
        return Err(format!("on our chain alone: {why}"));
    }
    node.stop()?;
    let mut create = Command::new(&lab.hearth);
    create.args(["ledger", "snapshot", "create", "--ledger"]).arg(ours.ledger).arg("--config").arg(ours.config(lab)?);
    let said = run::output(&mut create)?;
    let archive = said.lines().find_map(|line| line.strip_prefix("archive ")).map(|file| PathBuf::from(file.trim()));
    let (Some(archive), Some(bank)) = (archive, created(&said)) else {
        return Err(format!("`hearth ledger snapshot create` said {said}"));
    };
    copied(&[archive, ours.ledger.join("genesis.bin"), ours.ledger.join("genesis.tar.bz2")], theirs)?;
    println!("archive of slot {}, bank hash {}", bank.0, bank.1);
    Ok(bank)
}

/// Copies files into a folder that it makes.
pub fn copied(files: &[PathBuf], folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for file in files {
        let name = file.file_name().ok_or("a file without a name")?;
        std::fs::copy(file, folder.join(name)).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// Slot and hash in the line `bank      slot 800, hash HASH`.
fn created(said: &str) -> Option<(u64, String)> {
    let line = said.lines().find_map(|line| line.strip_prefix("bank "))?;
    let (slot, hash) = line.trim().strip_prefix("slot ")?.split_once(", hash ")?;
    Some((slot.parse().ok()?, hash.to_owned()))
}

/// The newest archives in a folder: the slot of the full one, and of the newest incremental one that builds on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Newest {
    pub full: Option<u64>,
    pub incremental: Option<u64>,
}

impl Newest {
    pub fn of(ledger: &Path) -> Self {
        let files = std::fs::read_dir(ledger).into_iter().flatten();
        let names: Vec<String> = files.filter_map(|file| file.ok()?.file_name().into_string().ok()).collect();
        Self::among(&names)
    }

    fn among(names: &[String]) -> Self {
        let slot = |text: &str| text.split('-').next().and_then(|slot| slot.parse::<u64>().ok());
        let full = names.iter().filter_map(|name| slot(name.strip_prefix("snapshot-")?)).max();
        let incremental = names.iter().filter_map(|name| {
            let (base, rest) = name.strip_prefix("incremental-snapshot-")?.split_once('-')?;
            (base.parse::<u64>().ok() == full).then(|| slot(rest)).flatten()
        });
        Self { full, incremental: incremental.max() }
    }
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
    fn incremental_archive_belongs_to_the_newest_full_one() {
        let names = ["snapshot-100-a.tar.zst", "snapshot-200-b.tar.zst", "incremental-snapshot-100-150-c.tar.zst"];
        let mut names: Vec<String> = names.map(str::to_owned).into();
        assert_eq!(Newest::among(&names), Newest { full: Some(200), incremental: None });
        names.push("incremental-snapshot-200-250-d.tar.zst".into());
        assert_eq!(Newest::among(&names), Newest { full: Some(200), incremental: Some(250) });
        assert_eq!(Newest::among(&[]), Newest::default());
    }
}
