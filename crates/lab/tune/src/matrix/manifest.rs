//! Reads what a project's own Cargo.toml sets for a profile: the values behind `default`.
//!
//! reads   `Cargo.toml` of the workspace's root
//! writes  values of options, as a study's matrix would name them
//!
//! Without this, a project with `lto = true` has two names for one program, `default` and `lto=fat`, and the analysis
//! treats them as two values of the option.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::options::Key;

/// The options that a profile sets.
const SETTINGS: [Key; 4] = [Key::OptLevel, Key::CodegenUnits, Key::Lto, Key::Panic];

/// Returns what the project in a folder sets for a profile, including what the profile inherits. An unreadable manifest
/// sets nothing: cargo itself will report what is wrong with it.
pub fn own_settings(root: &Path, profile: &str) -> BTreeMap<Key, String> {
    let text = fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    settings(&text.parse().unwrap_or_default(), profile)
}

fn settings(manifest: &toml::Table, profile: &str) -> BTreeMap<Key, String> {
    let profiles = manifest.get("profile").and_then(toml::Value::as_table);
    let (mut found, mut seen, mut next) = (BTreeMap::new(), BTreeSet::new(), Some(profile));
    while let Some(name) = next.filter(|name| seen.insert(*name)) {
        let Some(of) = profiles.and_then(|all| all.get(name)).and_then(toml::Value::as_table) else { break };
        for key in SETTINGS {
            if let Some(Ok(Some(value))) = of.get(key.name()).map(|value| key.value(value)) {
                found.entry(key).or_insert(value);
            }
        }
        next = of.get("inherits").and_then(toml::Value::as_str);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_inherits_and_lto_true_is_fat() {
        let manifest: toml::Table = "[profile.release]\nlto = true\ncodegen-units = 16\n\
            [profile.fast]\ninherits = \"release\"\ncodegen-units = 1\npanic = \"abort\"\n\
            [profile.loop]\ninherits = \"loop\"\nopt-level = \"s\"\n"
            .parse()
            .expect("TOML");
        let text = |profile: &str| {
            let all = settings(&manifest, profile);
            all.iter().map(|(key, value)| format!("{}={value}", key.name())).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text("release"), "codegen-units=16 lto=fat");
        assert_eq!(text("fast"), "codegen-units=1 lto=fat panic=abort");
        assert_eq!(text("loop"), "opt-level=s");
        assert_eq!(text("dev"), "");
        assert_eq!(own_settings(Path::new("/nowhere"), "release"), BTreeMap::new());
    }
}
