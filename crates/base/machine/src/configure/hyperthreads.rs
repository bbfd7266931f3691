//! Pack and poh are sequential, and need a physical core each.
//!
//! reads   the machine
//! writes  nothing: it takes a core from every program, or another layout
//! source  cputopology.rst of the kernel's documentation

use super::{Fault, MachineRequirements, Remedy, StageVerdict};
use crate::Machine;

pub fn look(machine: &Machine, wants: &MachineRequirements) -> StageVerdict {
    let by_core = wants.by_core();
    let own = wants.own_cores(machine);
    if machine.cores.siblings.iter().all(|group| group.len() < 2) {
        return StageVerdict::Well("one hyperthread a core, or the machine does not tell".into());
    }
    let mut faults = vec![];
    let quiet =
        own.iter().filter_map(|core| by_core[core].first().filter(|seat| seat.quiet).map(|seat| (*core, *seat)));
    for (core, seat) in quiet {
        for sibling in machine.cores.siblings_of(core) {
            let costs = format!("{} is slower whenever the other hyperthread computes; not measured", seat.name);
            let fault = |what: String, by_hand: String| Fault { what, costs, remedy: Remedy::ByHand(by_hand) };
            faults.extend(match by_core.get(&sibling) {
                Some(others) => Some(fault(
                    format!(
                        "{} on core {core} shares its physical core with {} on {sibling}",
                        seat.name, others[0].name
                    ),
                    format!(
                        "leave core {sibling} free: layout.blocklist_cores = \"{sibling}\", or another layout.affinity"
                    ),
                )),
                None if !machine.cores.isolated.contains(&sibling) => Some(fault(
                    format!("{} on core {core} shares its physical core with whatever runs on {sibling}", seat.name),
                    format!("echo 0 | sudo tee /sys/devices/system/cpu/cpu{sibling}/online  # no program has it then"),
                )),
                None => None,
            });
        }
    }
    let note = if own.is_empty() { "tiles share the cores" } else { "pack and poh have a physical core each" };
    StageVerdict::of(faults, note)
}
