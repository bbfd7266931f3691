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
/// them: the pool of that ledger has a file from the first opening on.
pub(super) fn is_without_outputs(dir: &Path) -> bool {
    let has_blocks = |file: DirEntry| {
        let is_nonempty = file.metadata().is_ok_and(|metadata| metadata.len() > 0);
        is_nonempty && file.path().extension() == Some(OsStr::new("blocks"))
    };
    let mut files = fs::read_dir(dir.join("blocks")).into_iter().flatten().flatten();
    files.any(has_blocks) && !dir.join("utxo.pool").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_without_the_file_of_the_pool_have_no_outputs() {
        let folder = tempfile::tempdir().expect("a folder");
        let (dir, blocks) = (folder.path(), folder.path().join("blocks"));
        assert!(!is_without_outputs(dir), "nothing is there");
        fs::create_dir(&blocks).expect("made");
        fs::write(blocks.join("00000000000000000001.blocks"), "").expect("written");
        fs::write(blocks.join("status"), "0").expect("written");
        assert!(!is_without_outputs(dir), "no block is there");
        fs::write(blocks.join("00000000000000000001.blocks"), "1").expect("written");
        assert!(is_without_outputs(dir));
        fs::write(dir.join("utxo.pool"), "").expect("written");
        assert!(!is_without_outputs(dir));
    }
}
