//! Cores that always run at their highest frequency.
//!
//! reads   `/sys/devices/system/cpu`
//! source  cpufreq.rst of the kernel's documentation

use super::{Fault, MachineRequirements, Remedy, StageVerdict};
use crate::core_list::show;
use crate::processor::BOOST;
use crate::{Machine, Root};

pub fn look(root: &Root, machine: &Machine, wants: &MachineRequirements) -> StageVerdict {
    let processor = &machine.processor;
    if processor.governors.is_empty() && processor.boost.is_none() {
        return StageVerdict::Well("this kernel does not govern the frequency: the host or the firmware does".into());
    }
    let mut cores: Vec<usize> = wants.by_core().into_keys().collect();
    if cores.is_empty() {
        cores = machine.cores.allowed.clone();
    }
    let mut faults = vec![];
    for (governor, governed) in processor.governors.iter().filter(|(name, _)| *name != "performance") {
        let slow: Vec<usize> = governed.iter().copied().filter(|core| cores.contains(core)).collect();
        if slow.is_empty() {
            continue;
        }
        let file = |core: &usize| format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor");
        faults.push(Fault {
            what: format!("cores {} with tiles have the governor `{governor}`", show(&slow)),
            costs: "a core that had nothing to do begins slowly: latencies, and rates that rise only after a while; \
                    not measured"
                .into(),
            remedy: Remedy::Write { paths: slow.iter().map(file).collect(), value: "performance".into() },
        });
    }
    let switch = BOOST.iter().find(|(path, _)| root.text(path).is_some());
    if let Some((path, on)) = switch.filter(|_| processor.boost == Some(false)) {
        faults.push(Fault {
            what: "frequencies above the nominal one are switched off".into(),
            costs: "everything is slower by the ratio of the two frequencies".into(),
            remedy: Remedy::Write { paths: vec![(*path).into()], value: (*on).into() },
        });
    }
    StageVerdict::of(faults, format!("cores {} run as fast as they can", show(&cores)))
}
