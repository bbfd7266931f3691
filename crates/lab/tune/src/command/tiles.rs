//! `hearth tune tiles`: how long this build takes for a transaction in each tile, links included.
//!
//! writes  the times, as text and JSON
//! source  see `hearth_workload::tiles`

use std::path::PathBuf;

use clap::Args;
use hearth_command::output::CommandOutput;
use hearth_command::stop::StopSignal;
use hearth_workload::tiles::Tiles as Loads;

use super::{TuneError, write_answer};

/// The options of `hearth tune tiles`.
#[derive(Args)]
pub struct Tiles {
    /// Rounds of 20 ms for each tile.
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: u32,
    /// Write the result as JSON to this file, `-` for standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

/// Measures each tile's time per transaction, and prints the times.
pub fn run(options: &Tiles, stop: &StopSignal, say: &CommandOutput) -> Result<(), TuneError> {
    write_answer(options.json.as_deref(), say, || {
        let taken = Loads::new().measure(options.rounds, &|| stop.is_set()).ok_or(TuneError::Interrupted)?;
        let mut text = format!("{} rounds each, on one thread, for a transaction\n", options.rounds);
        for (name, times) in taken.each() {
            text += &format!(
                "{name:<10}{:>10.0} ns   mean {:.0}, deviation {:.0}\n",
                times.median, times.mean, times.deviation
            );
        }
        text += &format!("{:<10}{:>10.0} ns\n", "all", taken.sum());
        Ok((text, taken.json()))
    })
}
