//! Rule on packages: which layer may import which. A crate's folder determines its layer.
//!
//! reads   `cargo metadata` of the packages, ARCHITECTURE.md
//! writes  findings
//! memory  the tables

use super::RuleFindings;
use super::crates::{Row, TABLE, rows};
use super::tree::{Package, Tree};

/// The heading above the layers, and that above the imports which no layer allows.
const LAYERS: &str = "## Layers";
const EXCEPTIONS: &str = "### Exceptions to the layers";

/// The most imports that may be exceptions. Lower it with each that goes.
const EXCEPTIONS_MAX: usize = 10;

/// A crate may import its own layer and the layers in its layer's row; dev-dependencies count too. Exceptions are
/// listed, each with a reason, and must be in use.
pub fn imports(tree: &Tree, found: &mut RuleFindings) {
    // A missing page is reported by the rule on imports.
    let Some(page) = tree.file(TABLE) else { return };
    let layers = rows(&page.text, LAYERS);
    for folder in layers.iter().flat_map(|layer| std::iter::once(&layer.name).chain(&layer.imports)) {
        if !tree.packages.iter().any(|package| is_in(package, folder)) {
            found.at(TABLE, 0, format!("the layers name `{folder}`, which holds no crate"));
        }
    }
    let crossings = crossings(tree, &layers, found);
    let rows = rows(&page.text, EXCEPTIONS);
    for row in rows.iter().filter(|row| matches!(row.text, "" | "–")) {
        found.at(TABLE, 0, format!("`{}` is an exception to the layers without a reason", row.name));
    }
    let exceptions: Vec<(&str, &str)> =
        rows.iter().flat_map(|row| row.imports.iter().map(move |imported| (row.name, *imported))).collect();
    for (package, imported) in &crossings {
        let name = package.short_name();
        if !exceptions.contains(&(name, *imported)) {
            let what = format!("the layer of `{name}` may not import `{imported}`, says {TABLE}");
            found.at(&package.manifest(), 0, what);
        }
    }
    for (name, imported) in &exceptions {
        if !crossings.iter().any(|(package, crossed)| package.short_name() == *name && crossed == imported) {
            found.at(TABLE, 0, format!("`{name}` no longer needs the exception for `{imported}`: take it away"));
        }
    }
    if exceptions.len() > EXCEPTIONS_MAX {
        found.at(TABLE, 0, format!("{} exceptions to the layers, at most {EXCEPTIONS_MAX}", exceptions.len()));
    }
}

/// Returns the imports that no layer allows: the importing package, and the short name of the imported one.
fn crossings<'a>(tree: &'a Tree, layers: &[Row<'_>], found: &mut RuleFindings) -> Vec<(&'a Package, &'a str)> {
    let mut crossings = vec![];
    for package in &tree.packages {
        let Some(layer) = layers.iter().find(|layer| is_of(package, layer.name)) else {
            let name = package.short_name();
            found.at(&package.manifest(), 0, format!("`{name}` is not in a layer's folder under its own name"));
            continue;
        };
        let ours = |name: &str| tree.packages.iter().find(|package| package.name == name);
        let imported = package.dependencies.iter().filter_map(|dependency| ours(&dependency.name));
        let crossing = imported.filter(|imported| !allows(layer, imported));
        crossings.extend(crossing.map(|imported| (package, imported.short_name())));
    }
    crossings
}

/// Whether a crate of this layer may import that package.
fn allows(layer: &Row<'_>, imported: &Package) -> bool {
    layer.all || is_in(imported, layer.name) || layer.imports.iter().any(|folder| is_in(imported, folder))
}

/// Whether a package's folder is this one or below it.
fn is_in(package: &Package, folder: &str) -> bool {
    package.folder.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a package is one of this layer: a folder of the package's name in that of the layer, or the layer itself.
fn is_of(package: &Package, layer: &str) -> bool {
    let below = package.folder.strip_prefix(layer).and_then(|rest| rest.strip_prefix('/'));
    let name = package.short_name();
    below == Some(name) || (package.folder == layer && layer == name)
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Dependency, File};
    use super::*;

    fn package(folder: &str, name: &str) -> Package {
        Package {
            name: name.into(),
            folder: folder.into(),
            license: String::new(),
            features: vec![],
            dependencies: vec![],
        }
    }

    /// Findings when a base crate has this many imports from a chain, each listed as an exception.
    fn findings(exceptions: usize) -> Vec<String> {
        let names: Vec<String> = (0..exceptions).map(|n| format!("chain{n}")).collect();
        let mut ring = package("crates/base/ring", "ring");
        ring.dependencies.extend(names.iter().map(|name| Dependency { name: name.clone(), dev: false }));
        let mut packages = vec![ring, package("crates/solana/wire", "wire")];
        packages.extend(names.iter().map(|name| package(&format!("crates/solana/{name}"), name)));
        let cells: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let page = format!(
            "{LAYERS}\n\n| `crates/base` | no chain | – |\n| `crates/solana` | a chain | `crates/base` |\n\n\
             {EXCEPTIONS}\n\n| `ring` | it carries them | {} |\n",
            cells.join(", ")
        );
        let tree = Tree { files: vec![File::new(TABLE, &page)], packages };
        let mut found = RuleFindings { rule: "layers", findings: vec![] };
        imports(&tree, &mut found);
        found.findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn exceptions_are_capped() {
        assert_eq!(findings(EXCEPTIONS_MAX), [""; 0]);
        let over = EXCEPTIONS_MAX + 1;
        assert_eq!(findings(over), [format!("{over} exceptions to the layers, at most {EXCEPTIONS_MAX}")]);
    }

    #[test]
    fn folders_are_compared_by_whole_names() {
        assert!(is_in(&package("crates/solana/wire", "hearth-wire"), "crates/solana/wire"));
        assert!(!is_in(&package("crates/solana/wires", "hearth-wires"), "crates/solana/wire"));
        assert!(is_of(&package("crates/lab/load", "hearth-load"), "crates/lab"));
        assert!(!is_of(&package("crates/lab/tune", "hearth-load"), "crates/lab"));
        assert!(!is_of(&package("crates/lab", "hearth-load"), "crates/lab"));
        assert!(is_of(&package("xtask", "xtask"), "xtask"));
    }
}
