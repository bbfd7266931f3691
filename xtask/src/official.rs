//! Runs Ethereum's official tests on the EVM ledger, from a folder that the user has fetched: they are too large for
//! the repository.
//!
//! reads   `HEARTH_OFFICIAL_TESTS`, the folder
//! memory  one line of output at a time

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{cargo, run_seeing};

/// Environment variable with the folder.
const VARIABLE: &str = "HEARTH_OFFICIAL_TESTS";

/// Runs the tests of the variable's folder, if it is set.
pub fn test(see: impl FnMut(&str)) -> Result<(), String> {
    let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) else {
        println!("\n!! SKIPPED: {VARIABLE} names no folder with Ethereum's official tests.");
        println!("!! They are at https://github.com/ethereum/tests (BlockchainTests, GeneralStateTests, RLPTests,");
        println!("!! TransactionTests, TrieTests) and, of newer forks, among the releases of");
        println!("!! https://github.com/ethereum/execution-spec-tests (fixtures_stable.tar.gz). RPC tests are");
        println!("!! the folder `tests` of https://github.com/ethereum/execution-apis, as execution-apis/tests.\n");
        return Ok(());
    };
    run_seeing(&mut below(&PathBuf::from(folder))?, see)
}

/// Returns the program that runs the tests below a folder.
pub fn below(folder: &Path) -> Result<Command, String> {
    // Cargo runs it in another folder.
    let whole = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = cargo();
    command.args(["run", "--release", "--locked", "--quiet", "--package", "hearth-official", "--"]).arg(whole);
    Ok(command)
}
