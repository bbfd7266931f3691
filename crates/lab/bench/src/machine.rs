//! Describes the machine for a bench's report.
//!
//! reads   the machine

use hearth_machine::memory::Memory;
use hearth_machine::neighbours::Jiffies;
use hearth_machine::processor::Processor;
use hearth_machine::settings::Settings;
use hearth_machine::{Root, cores};

use super::report::Machine;

/// Returns the cores that the process may use: its affinity, or a smaller quota of its control group or of a parent
/// group.
pub fn cores() -> std::io::Result<f64> {
    cores::usable(&Root::default())
}

/// Reads the jiffies of all cores.
pub fn jiffies() -> Jiffies {
    Jiffies::read(&Root::default())
}

/// Describes the machine, with the stolen share since `before`.
pub fn describe(before: Jiffies) -> Machine {
    let root = Root::default();
    Machine {
        cpu: Processor::read(&root).model,
        kernel: Settings::read(&root).kernel,
        memory_bytes: Memory::read(&root).total_bytes,
        steal: jiffies().steal_since(&before),
    }
}
