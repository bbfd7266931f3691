//! Which nodes run on this machine, for commands that are about one of them.
//!
//! reads   the workspaces that this user may read

use hearth_command::shell;
use hearth_node::config::LocalNode;

/// Returns the names of the nodes that run on this machine and whose workspace is readable. They use the same
/// configuration as this one.
pub fn running(node: &LocalNode) -> Vec<String> {
    node.running()
}

/// Says that no node of this name runs, which ones do, and how to start one.
pub fn no_node_text(name: &str, running: &[String]) -> String {
    let runs = match running {
        [] => "none does".into(),
        names => format!("these do: {}", names.join(", ")),
    };
    let start = match name.strip_prefix("evm-").filter(|port| port.parse::<u16>().is_ok()) {
        Some(port) => format!("`hearth evm run --rpc-port {port}` starts one"),
        None => {
            let name = shell::word(name);
            format!("`hearth run --name {name}` starts one, `hearth evm run` one of the Ethereum chain")
        }
    };
    format!("no node `{name}` runs on this machine; {runs}; {start}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_node_is_reported_with_running_ones() {
        let message = no_node_text("evm-8546", &["bench".into(), "evm-8545".into()]);
        assert_eq!(
            message,
            "no node `evm-8546` runs on this machine; these do: bench, evm-8545; `hearth evm run --rpc-port 8546` starts one"
        );
        assert!(
            no_node_text("x", &[]).contains("none does; `hearth run --name x` starts one"),
            "{}",
            no_node_text("x", &[])
        );
    }
}
