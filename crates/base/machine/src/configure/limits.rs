//! Limits of the process.
//!
//! reads   the machine
//! writes  nothing: the limits are those of the user who starts the node
//! source  getrlimit(2), limits.conf(5), systemd.exec(5)

use super::{Fault, MachineRequirements, Remedy, StageVerdict};
use crate::Machine;

pub fn look(machine: &Machine, wants: &MachineRequirements) -> StageVerdict {
    let Some(limit) = machine.settings.open_files else {
        return StageVerdict::Well("the machine does not tell".into());
    };
    let needed = wants.open_files;
    if limit.soft >= needed {
        return StageVerdict::Well(format!("{} open files, {needed} are needed", limit.soft));
    }
    let by_hand = if limit.hard >= needed {
        format!("ulimit -n {needed}  # in the shell that starts the node; LimitNOFILE={needed} in a systemd unit")
    } else {
        format!(
            "a line `* hard nofile {needed}` in /etc/security/limits.conf and a new login; then `ulimit -n {needed}`"
        )
    };
    StageVerdict::Faults(vec![Fault {
        what: format!("{} files may be open; connections and files at their limits are {needed}", limit.soft),
        costs: "clients beyond that are refused though rpc.max_http_connections and rpc.max_websocket_connections let \
                them in"
            .into(),
        remedy: Remedy::ByHand(by_hand),
    }])
}
