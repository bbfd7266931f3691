//! Source trees that break the rule of layers, and no other rule.

use super::*;

/// The good tree with one package in another folder.
fn moved(name: &str, folder: &str) -> Tree {
    let mut tree = with_package(name, |package| package.folder = folder.into());
    tree.files.push(File::new(&format!("{folder}/Cargo.toml"), MANIFEST));
    tree
}

/// The good tree with one more import, which the table of imports allows.
fn across(name: &str, on: &str, dev: bool) -> Tree {
    let mut tree = depends(&format!("hearth-{name}"), &format!("hearth-{on}"), dev);
    let row = TABLE.lines().find(|line| line.starts_with(&format!("| `{name}` |")) && line.ends_with("| – |")).unwrap();
    let page = tree.files.iter_mut().find(|file| file.path == "ARCHITECTURE.md").unwrap();
    page.text = TABLE.replace(row, &row.replace('–', &format!("`{on}`")));
    tree
}

/// One tree for each way to break the rule.
pub(super) fn broken() -> Vec<Tree> {
    let page = |from: &str, to: &str| {
        assert!(TABLE.contains(from), "{from}");
        with("ARCHITECTURE.md", &TABLE.replace(from, to))
    };
    vec![
        // Imports of a chain by the base, of one chain by the other, of the lab by a chain and by the base.
        across("ring", "wire", false),
        across("evm", "wire", false),
        across("evm", "wire", true),
        across("wire", "evm", false),
        across("wire", "load", false),
        across("ring", "load", true),
        // The lab imports internals of a node without a row, without a reason, or against the layer table.
        page("| `load` | it sends as a client | `quic` |\n", ""),
        page("| it sends as a client |", "| – |"),
        page("`crates/base`, `crates/solana/wire` |", "`crates/base` |"),
        with_package("hearth-load", |package| package.dependencies.retain(|on| on.name != "hearth-quic")),
        // A folder that is no layer, a folder not named like its crate, and layer tables with a gap or a stray name.
        moved("hearth-tile", "crates/other/tile"),
        moved("hearth-tile", "crates/base/tiles"),
        moved("hearth-tile", "crates/base/tile/tile"),
        page("| `crates/ethereum` | another chain | `crates/base` |\n", ""),
        page("`crates/solana/wire` |", "`crates/solana/wire`, `crates/solana/gone` |"),
        page("## Layers\n", "## Folders\n"),
    ]
}
