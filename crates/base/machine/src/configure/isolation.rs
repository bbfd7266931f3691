//! Cores that a tile has for itself are best kept from other programs and from the timer.
//!
//! reads   the machine
//! writes  nothing: it takes a start of the machine
//! source  isolcpus, nohz_full, rcu_nocbs in kernel-parameters.txt; cpuset(7)

use super::{Fault, MachineRequirements, Remedy, StageVerdict};
use crate::Machine;
use crate::core_list::show;

pub fn look(machine: &Machine, wants: &MachineRequirements) -> StageVerdict {
    let cores = &machine.cores;
    let unused: Vec<usize> =
        cores.isolated.iter().copied().filter(|c| cores.online.contains(c) && !cores.allowed.contains(c)).collect();
    let mut faults = vec![];
    if !unused.is_empty() {
        faults.push(Fault {
            what: format!("cores {} are isolated, and programs do not get them by themselves", show(&unused)),
            costs: format!("the layout does without them, with {} cores", cores.allowed.len()),
            remedy: Remedy::ByHand(format!("taskset -c {} hearth run", show(&cores.online))),
        });
    }
    let own = wants.own_cores(machine);
    let without = |list: &[usize]| own.iter().copied().filter(|core| !list.contains(core)).collect::<Vec<_>>();
    let (shared, ticking) = (without(&cores.isolated), without(&cores.tickless));
    if !shared.is_empty() || !ticking.is_empty() {
        let all = show(&own);
        let mut lacking = vec![];
        lacking.extend((!shared.is_empty()).then(|| format!("cores {} are open to other programs", show(&shared))));
        lacking.extend((!ticking.is_empty()).then(|| format!("the timer interrupts cores {}", show(&ticking))));
        faults.push(Fault {
            what: format!("each of cores {all} is one tile's, but {}", lacking.join(", and ")),
            costs: "a tile stands still while something else has its core: the longest latencies come from there; not \
                    measured"
                .into(),
            remedy: Remedy::ByHand(format!(
                "add `isolcpus=domain,managed_irq,{all} nohz_full={all} rcu_nocbs={all}` to the kernel's command line, \
                 start the machine again, and begin with `taskset -c {} hearth run`",
                show(&cores.online)
            )),
        });
    }
    let note =
        if own.is_empty() { "tiles share the cores: there is none to keep for one" } else { "kept for the tiles" };
    StageVerdict::of(faults, note)
}
