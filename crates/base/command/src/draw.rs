//! The layout as text: which tiles share which core.

use hearth_tile::topology::Topology;

/// A line a core.
pub fn layout(topology: &Topology) -> String {
    let mut lines = vec![];
    let mut floating = vec![];
    for (core, tiles) in topology.by_core() {
        let names: Vec<String> = tiles.iter().map(|t| t.name()).collect();
        match core {
            Some(core) => lines.push(format!("  core {core:<3} {}", names.join(" "))),
            None => floating.extend(names),
        }
    }
    if !floating.is_empty() {
        lines.push(format!("  floating {}", floating.join(" ")));
    }
    lines.join("\n")
}
