//! The software bill of materials: every crate that is compiled into the program, or runs while it is built.
//!
//! reads   the output of `cargo metadata`
//! writes  CycloneDX 1.5 as JSON
//! source  <https://cyclonedx.org/docs/1.5/json/>

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Returns the bill of the workspace's package `program`. It has neither time nor random number: the same metadata give
/// the same bill.
pub fn of(metadata: &Value, program: &str) -> Result<Value, String> {
    let packages = by_id(&metadata["packages"]);
    let nodes = by_id(&metadata["resolve"]["nodes"]);
    let is_root = |package: &&&Value| package["name"] == program && package["source"].is_null();
    let root = *packages.values().find(is_root).ok_or(format!("`cargo metadata` has no package {program}"))?;
    let needed = needed(root, &nodes)?;
    let mut components = BTreeMap::new();
    let mut dependencies = BTreeMap::new();
    for id in &needed {
        let package = *packages.get(id).ok_or(format!("`cargo metadata` lacks the package {id}"))?;
        let below = below(nodes[id]).filter_map(|id| packages.get(id)).map(|package| reference(package));
        let below: BTreeSet<String> = below.collect();
        dependencies.insert(reference(package), json!({ "ref": reference(package), "dependsOn": below }));
        if components.insert(reference(package), component(package, "library")).is_some() {
            return Err(format!("two packages are {}", reference(package)));
        }
    }
    components.remove(&reference(root));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(root, "application") },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    }))
}

/// Objects of an array by their `id`.
fn by_id(array: &Value) -> BTreeMap<&str, &Value> {
    let objects = array.as_array().into_iter().flatten();
    objects.filter_map(|object| Some((object["id"].as_str()?, object))).collect()
}

/// Returns the ids of the root and of all packages that it needs, directly or through others.
fn needed<'a>(root: &'a Value, nodes: &BTreeMap<&'a str, &'a Value>) -> Result<BTreeSet<&'a str>, String> {
    let mut needed = BTreeSet::new();
    let mut waiting: Vec<&str> = root["id"].as_str().into_iter().collect();
    while let Some(id) = waiting.pop() {
        if needed.insert(id) {
            let node = *nodes.get(id).ok_or(format!("`cargo metadata` has no dependencies of {id}"))?;
            waiting.extend(below(node));
        }
    }
    Ok(needed)
}

/// Returns the ids of a package's dependencies, without those of its tests.
fn below(node: &Value) -> impl Iterator<Item = &str> {
    let is_needed = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
    };
    let all = node["deps"].as_array().into_iter().flatten();
    all.filter(is_needed).filter_map(|dependency| dependency["pkg"].as_str())
}

/// A package's name in the bill.
fn reference(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("{}@{}", text("name"), text("version"))
}

fn component(package: &Value, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
    });
    if let Some(license) = package["license"].as_str() {
        // Older manifests have `MIT/Apache-2.0`, which is no expression of SPDX.
        let parts: Vec<&str> = license.split('/').map(str::trim).collect();
        component["licenses"] = json!([{ "expression": parts.join(" OR ") }]);
    }
    if !package["source"].is_null() {
        component["purl"] = format!("pkg:cargo/{}", reference(package)).into();
    }
    if let Some(url) = package["repository"].as_str() {
        component["externalReferences"] = json!([{ "type": "vcs", "url": url }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRY: &str = "registry+https://example.org/index";

    fn package(id: &str, name: &str, source: Option<&str>) -> Value {
        json!({ "id": id, "name": name, "version": "1.2.3", "source": source, "license": "MIT/Apache-2.0" })
    }

    fn node(id: &str, deps: &[(&str, Option<&str>)]) -> Value {
        let deps = deps.iter().map(|(pkg, kind)| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] }));
        json!({ "id": id, "deps": deps.collect::<Vec<_>>() })
    }

    fn metadata() -> Value {
        json!({
            "packages": [
                package("p", "program", None),
                package("a", "alpha", Some(REGISTRY)),
                package("b", "beta", Some(REGISTRY)),
                package("t", "tester", Some(REGISTRY)),
                package("o", "other", None),
            ],
            "resolve": { "nodes": [
                node("p", &[("a", None), ("t", Some("dev"))]),
                node("a", &[("b", Some("build"))]),
                node("b", &[]),
                node("t", &[]),
                node("o", &[("t", None)]),
            ] },
        })
    }

    #[test]
    fn bill_has_what_the_program_needs() {
        let bill = of(&metadata(), "program").unwrap();
        assert_eq!(bill["bomFormat"], "CycloneDX");
        assert_eq!(bill["specVersion"], "1.5");
        assert_eq!(bill["metadata"]["component"]["bom-ref"], "program@1.2.3");
        assert_eq!(bill["metadata"]["component"]["type"], "application");
        assert!(bill["metadata"]["component"]["purl"].is_null(), "it is in no registry");
        let names: Vec<&str> =
            bill["components"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["alpha", "beta"], "neither crates of tests nor those of another program");
    }

    #[test]
    fn component_names_its_license_and_origin() {
        let bill = of(&metadata(), "program").unwrap();
        let alpha = &bill["components"][0];
        assert_eq!(alpha["licenses"], json!([{ "expression": "MIT OR Apache-2.0" }]));
        assert_eq!(alpha["purl"], "pkg:cargo/alpha@1.2.3");
    }

    #[test]
    fn every_dependency_is_a_component() {
        let bill = of(&metadata(), "program").unwrap();
        let expected = json!([
            { "ref": "alpha@1.2.3", "dependsOn": ["beta@1.2.3"] },
            { "ref": "beta@1.2.3", "dependsOn": [] },
            { "ref": "program@1.2.3", "dependsOn": ["alpha@1.2.3"] },
        ]);
        assert_eq!(bill["dependencies"], expected);
    }

    #[test]
    fn metadata_without_the_program_are_refused() {
        assert!(of(&metadata(), "alpha").unwrap_err().contains("no package alpha"), "it is not of the workspace");
        let mut broken = metadata();
        broken["resolve"]["nodes"].as_array_mut().unwrap().retain(|node| node["id"] != "b");
        assert!(of(&broken, "program").unwrap_err().contains("no dependencies of b"));
    }
}
