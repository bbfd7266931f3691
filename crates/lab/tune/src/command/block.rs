//! `hearth tune block`: how long this build takes to execute an empty block and a full one, on one thread.
//!
//! writes  the times, as text and JSON
//! source  see `hearth_workload::block`

use std::path::PathBuf;

use clap::Args;
use hearth_command::output::CommandOutput;
use hearth_command::stop::StopSignal;
use hearth_workload::block::measure;
use hearth_workload::times::Times;

use super::{TuneError, write_answer};

/// The options of `hearth tune block`.
#[derive(Args)]
pub struct Block {
    /// Transfers in the full block.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub transactions: u32,
    /// How often each block is executed and measured.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repeat: u32,
    /// Write the result as JSON to this file, `-` for standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

/// Measures how long blocks take to execute, and prints the times.
pub fn run(options: &Block, stop: &StopSignal, say: &CommandOutput) -> Result<(), TuneError> {
    write_answer(options.json.as_deref(), say, || {
        let blocks = measure(options.transactions, options.repeat, &|| stop.is_set())?;
        let blocks = blocks.ok_or(TuneError::Interrupted)?;
        let row = |name: &str, times: &Times, unit: &str, per: f64| {
            let [median, mean, deviation] = [times.median, times.mean, times.deviation].map(|ns| ns / per);
            format!("{name:<14}{median:>10.2} {unit}   mean {mean:.2}, deviation {deviation:.2}\n")
        };
        let (repeat, transactions) = (options.repeat, options.transactions);
        let head = format!("{repeat} times each, on one thread; the full block has {transactions} transfers\n");
        let text = head
            + &row("empty block", &blocks.empty, "µs", 1e3)
            + &row("full block", &blocks.full, "ms", 1e6)
            + &row("transaction", &blocks.transaction, "µs", 1e3);
        Ok((text, blocks.json()))
    })
}
