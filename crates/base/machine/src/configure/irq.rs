//! Interrupts of network cards belong on cores without tiles.
//!
//! reads   `/proc/irq`, the names of running programs
//! source  irq-affinity.rst of the kernel's documentation, irqbalance(1)

use super::{Fault, MachineRequirements, Remedy, StageVerdict};
use crate::core_list::show;
use crate::network::{Interrupt, listening};
use crate::{Machine, Root};

pub fn look(root: &Root, machine: &Machine, wants: &MachineRequirements) -> StageVerdict {
    let names = listening(root, &machine.network, wants.listens);
    if names.is_empty() {
        return StageVerdict::Well(format!(
            "the node listens on {} (tiles.net.bind_address): no network card is involved",
            wants.listens
        ));
    }
    let (own, free) = (wants.own_cores(machine), wants.free_cores(machine));
    if own.is_empty() {
        return StageVerdict::Well(
            "tiles share all cores with everything else: interrupts have nowhere better to go".into(),
        );
    }
    let cards = machine.network.iter().filter(|card| names.contains(&card.name));
    let disturbs = |interrupt: &&Interrupt| interrupt.cores().iter().any(|core| own.contains(core));
    let disturbing: Vec<&Interrupt> = cards.flat_map(|card| &card.interrupts).filter(disturbs).collect();
    let mut faults = vec![];
    if !disturbing.is_empty() {
        let each: Vec<String> = disturbing.iter().map(|i| format!("{} on {}", i.name, show(i.cores()))).collect();
        faults.push(Fault {
            what: format!("interrupts go to cores of tiles ({}); cores {} have none", each.join(", "), show(&free)),
            costs: "each packet's interrupt delays the tile on that core; not measured".into(),
            remedy: Remedy::Write { paths: disturbing.iter().map(|i| i.file()).collect(), value: show(&free) },
        });
    }
    if is_running(root, "irqbalance") {
        faults.push(Fault {
            what: "irqbalance runs".into(),
            costs: "it moves interrupts to cores of tiles again".into(),
            remedy: Remedy::ByHand("sudo systemctl disable --now irqbalance".into()),
        });
    }
    StageVerdict::of(faults, format!("interrupts of {} are on cores without tiles", names.join(", ")))
}

fn is_running(root: &Root, program: &str) -> bool {
    let processes = root.numbered("/proc", "");
    processes.into_iter().any(|pid| root.text(format!("/proc/{pid}/comm")).as_deref() == Some(program))
}
