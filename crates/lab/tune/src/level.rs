//! The levels of an option: its values in a study, and which builds have each.
//!
//! memory  a word per build and option

use std::collections::BTreeMap;

use hearth_stats::table::Table;

use crate::options::Key;

/// One value of an option, with its builds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Index of the option.
    pub option: usize,
    /// Value of the option, as in the table; `true` of `lto` is `fat`.
    pub value: String,
    /// Indexes of the builds that have it.
    pub builds: Vec<usize>,
}

/// Returns the levels of an option among the builds in `there`.
pub fn levels(table: &Table, option: usize, there: &[usize]) -> Vec<Level> {
    let mut all: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let is_lto = Key::named(&table.options[option]) == Some(Key::Lto);
    for at in there {
        let value = &*table.builds[*at].options[option];
        // Cargo treats both the same.
        let value = if is_lto && value == "true" { "fat" } else { value };
        all.entry(value).or_default().push(*at);
    }
    all.into_iter().map(|(value, builds)| Level { option, value: value.into(), builds }).collect()
}
