//! The method reference, `docs/rpc.md`, must list exactly the methods that are served.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/rpc.md");

/// The string patterns of all match arms in a source text.
fn arms(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter_map(|line| Some(line.trim().strip_prefix('"')?.split_once("\" => ")?.0))
}

/// Methods in the tables under a heading, filtered by whether they are answered. Our own methods have no such column.
fn rows(heading: &str, answered: bool) -> BTreeSet<&'static str> {
    let from = PAGE.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let section = &PAGE[from + heading.len() + 2..];
    let level = heading.split(' ').next().unwrap_or_default();
    let end = section.find(&format!("\n{level} ")).unwrap_or(section.len());
    let rows = section[..end].lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?, cells.next()?))
    });
    let is_method = |name: &str| name.starts_with(|c: char| c.is_ascii_lowercase());
    rows.filter(|(name, says)| is_method(name) && (*says != "no") == answered).map(|(name, _)| name).collect()
}

#[test]
fn every_method_that_is_served_is_in_the_reference() {
    let of_the_owner = arms(include_str!("methods/admin.rs")).filter(|name| name.starts_with("hearth_"));
    let served: BTreeSet<_> = arms(include_str!("methods/mod.rs")).chain(of_the_owner).collect();
    assert!(served.len() > 50, "{served:?}");
    assert_eq!(rows("## HTTP", true), served);
    assert!(rows("## HTTP", false).is_disjoint(&served));
}

#[test]
fn every_subscription_that_is_served_is_in_the_reference() {
    let served = arms(include_str!("subscriptions/watch.rs")).filter(|name| name.ends_with("Subscribe"));
    let served: BTreeSet<_> = served.collect();
    assert_eq!(rows("## WebSocket", true), served);
    assert!(rows("## WebSocket", false).is_disjoint(&served));
}
