//! `docs/simulation.md` has a row for each fault and invariant that there is, and for no other.

use std::collections::BTreeSet;

use hearth_sim::check::Invariant;
use hearth_sim::plan::Kind;

#[test]
fn the_page_has_every_fault_and_every_invariant() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/simulation.md")).unwrap();
    let rows = |heading: &str| {
        let section = page.split(heading).nth(1).unwrap_or_else(|| panic!("the page has no {heading}"));
        let section = section.split("\n## ").next().unwrap_or_default();
        let names = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        names.map(ToOwned::to_owned).collect::<BTreeSet<_>>()
    };
    let of = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(rows("\n## Faults"), of(&Kind::ALL.map(|(_, name)| name)));
    assert_eq!(rows("\n## Invariants"), of(&Invariant::ALL.map(|(_, name)| name)));
    for (invariant, name) in Invariant::ALL {
        assert_eq!(invariant.name(), name);
    }
}
