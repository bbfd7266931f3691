//! The machine, as a bench's report has it.
//!
//! reads   the machine
//! writes  nothing

use hearth_machine::memory::Memory;
use hearth_machine::neighbours::Jiffies;
use hearth_machine::processor::Processor;
use hearth_machine::settings::Settings;
use hearth_machine::{Root, cores};

use super::report::Machine;

/// Cores the process may use: its affinity, or less if its control group, or one around that, has a smaller quota.
pub fn cores() -> std::io::Result<f64> {
    cores::usable(&Root::default())
}

/// Jiffies of all cores.
pub fn jiffies() -> Jiffies {
    Jiffies::read(&Root::default())
}

/// The machine's description; the stolen share since `before`.
pub fn describe(before: Jiffies) -> Machine {
    let root = Root::default();
    Machine {
        cpu: Processor::read(&root).model,
        kernel: Settings::read(&root).kernel,
        memory_bytes: Memory::read(&root).total_bytes,
        steal: jiffies().steal_since(&before),
    }
}
