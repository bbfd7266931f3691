//! Measures the tiles and blocks, and prints the times as JSON: everything that a study of builds needs to run.

use std::env;
use std::process::ExitCode;

use hearth_workload::{block, tiles::Tiles};
use serde_json::json;

/// Rounds of each tile.
const ROUNDS: u32 = 25;
/// Transfers of the full block, and how often it is executed.
const TRANSACTIONS: u32 = 1_000;
const BLOCKS: u32 = 40;

fn main() -> ExitCode {
    if env::args_os().len() > 1 {
        eprintln!("hearth-workload takes no options: it measures the tiles and blocks, and prints JSON");
        return ExitCode::from(2);
    }
    // It can only be stopped by killing it, which leaves nothing behind.
    let never = || false;
    let mut result = Tiles::new().measure(ROUNDS, &never).map_or(json!({}), |taken| taken.json());
    match block::measure(TRANSACTIONS, BLOCKS, &never) {
        Ok(blocks) => {
            result["block"] = blocks.map_or(json!(null), |blocks| blocks.json());
            println!("{result:#}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
