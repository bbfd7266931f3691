//! The values that an option of a study's builds has, and which builds have each.
//!
//! memory  a word a build and option

use std::collections::BTreeMap;

use hearth_stats::table::Table;

use crate::options::Key;

/// An option's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Which option.
    pub option: usize,
    /// Its value.
    pub value: String,
    /// The builds that have it.
    pub builds: Vec<usize>,
}

/// The values of an option among the builds that are `there`.
pub fn levels(table: &Table, option: usize, there: &[usize]) -> Vec<Level> {
    let mut all: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let is_lto = Key::named(&table.options[option]) == Some(Key::Lto);
    for at in there {
        let value = &*table.builds[*at].options[option];
        // Cargo takes both for the same.
        let value = if is_lto && value == "true" { "fat" } else { value };
        all.entry(value).or_default().push(*at);
    }
    all.into_iter().map(|(value, builds)| Level { option, value: value.into(), builds }).collect()
}
