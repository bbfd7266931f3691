//! The genesis of a chain that others began: whether it carries a UTXO ledger.
//!
//! reads   a genesis; the names and sizes of the files in a chain's folder

use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::path::Path;

use hearth_evm::genesis::{Genesis, GenesisError, SIDE_KEY};
use hearth_evm_utxo::prism;
use serde_json::Value;

/// Returns the chain of a genesis. It carries a UTXO ledger if the genesis has one, or the contract that leads to it:
/// otherwise its headers have beacon roots, whose field that ledger uses for its own commitment.
pub(super) fn of_text(text: &str) -> Result<Genesis, GenesisError> {
    let plain = Genesis::from_json(text);
    let names_outputs = serde_json::from_str::<Value>(text).is_ok_and(|json| json.get(SIDE_KEY).is_some());
    let has_contract = plain.as_ref().is_ok_and(|genesis| genesis.alloc.contains_key(&prism::ADDRESS));
    if names_outputs || has_contract { hearth_evm_utxo::genesis::from_json(text) } else { plain }
}

/// Returns whether the blocks in a folder are those of a chain without a UTXO ledger, as `hearth evm import` leaves
/// them. That ledger has files from its first opening on, and any one of them shows that the chain carries it: the
/// chain must not lose its outputs because one file is missing, such as a damaged pool that was moved away.
pub(super) fn is_without_outputs(dir: &Path) -> bool {
    let has_blocks = |file: DirEntry| {
        let is_nonempty = file.metadata().is_ok_and(|metadata| metadata.len() > 0);
        is_nonempty && file.path().extension() == Some(OsStr::new("blocks"))
    };
    // A folder that cannot be read is no evidence that the ledger is missing.
    let Ok(files) = fs::read_dir(dir) else { return false };
    let mut blocks = fs::read_dir(dir.join("blocks")).into_iter().flatten().flatten();
    blocks.any(has_blocks) && !files.flatten().any(is_of_outputs)
}

/// Returns whether the chain in a folder carries a UTXO ledger: `hearth evm run` has begun it, with whatever genesis.
pub(super) fn is_with_outputs(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|files| files.flatten().any(is_of_outputs))
}

/// Whether a file shows that the ledger was opened in its folder. One that could not be opened on the blocks there
/// leaves an empty log behind, and no pool.
fn is_of_outputs(file: DirEntry) -> bool {
    let name = file.file_name();
    let is_empty = file.metadata().is_ok_and(|metadata| metadata.len() == 0);
    name == "utxo.pool" || (!is_empty && name.as_encoded_bytes().starts_with(b"utxo."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_without_any_file_of_the_ledger_have_no_outputs() {
        let folder = tempfile::tempdir().expect("a folder");
        let (dir, blocks) = (folder.path(), folder.path().join("blocks"));
        assert!(!is_without_outputs(dir), "nothing is there");
        fs::create_dir(&blocks).expect("made");
        fs::write(blocks.join("00000000000000000001.blocks"), "").expect("written");
        fs::write(blocks.join("status"), "0").expect("written");
        assert!(!is_without_outputs(dir), "no block is there");
        fs::write(blocks.join("00000000000000000001.blocks"), "1").expect("written");
        assert!(is_without_outputs(dir));
        fs::write(dir.join("pool.log"), "1").expect("written");
        assert!(is_without_outputs(dir), "the pool of the EVM is in either folder");
        for (name, text) in [("utxo.pool", ""), ("utxo.log", "1"), ("utxo.7.base", "1")] {
            fs::write(dir.join(name), text).expect("written");
            assert!(!is_without_outputs(dir) && is_with_outputs(dir), "{name}");
            fs::remove_file(dir.join(name)).expect("removed");
        }
        fs::write(dir.join("utxo.log"), "").expect("written");
        assert!(is_without_outputs(dir) && !is_with_outputs(dir), "a ledger was opened in vain");
    }
}
