//! Settings of the kernel.
//!
//! reads   `/proc/sys`
//! source  socket(7), udp(7); numa_balancing and max_map_count in the kernel's documentation

use super::{Fault, MachineRequirements, Remedy, StageVerdict};
use crate::settings::file;
use crate::{Machine, Root};

/// Every kernel's default number of memory mappings; a lower value was set deliberately.
const MAPPINGS: u64 = 65_530;

pub fn look(root: &Root, machine: &Machine, wants: &MachineRequirements) -> StageVerdict {
    let buffer = wants.socket_buffer_bytes;
    let asked = format!("net's sockets ask for {buffer} (tiles.net.socket_buffer_bytes)");
    let mut faults = vec![];
    let mut at_least = |name: &str, least: u64, why: &str, costs: &str| {
        if let Some(value) = root.value::<u64>(file(name)).filter(|value| *value < least) {
            faults.push(fault(name, least, format!("{name} is {value}; {why}"), costs));
        }
    };
    at_least(
        "net.core.rmem_max",
        buffer,
        &asked,
        "while net is held up the kernel has room for less, and drops the rest: counter `dropped_by_kernel` of net",
    );
    at_least("net.core.wmem_max", buffer, &asked, "sends meet a full buffer sooner, and wait for another turn of net");
    at_least(
        "vm.max_map_count",
        MAPPINGS,
        &format!("kernels give {MAPPINGS}"),
        "compiled programs and mapped files take one each; at the limit the node gets no more memory",
    );
    if machine.memory.nodes.len() > 1 && root.value::<u64>(file("kernel.numa_balancing")).is_some_and(|on| on > 0) {
        let what = "kernel.numa_balancing is on, on a machine of several NUMA nodes".into();
        let costs = "the kernel unmaps pages now and then to see who uses them: page faults in tiles, which stay on \
                     their cores anyway; not measured";
        faults.push(fault("kernel.numa_balancing", 0, what, costs));
    }
    StageVerdict::of(faults, "buffers of sockets, mappings and NUMA are as the node wants them")
}

fn fault(name: &str, value: u64, what: String, costs: &str) -> Fault {
    Fault { what, costs: costs.into(), remedy: Remedy::Write { paths: vec![file(name)], value: value.to_string() } }
}
