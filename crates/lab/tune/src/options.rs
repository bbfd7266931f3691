//! The options of a build: the axes of a matrix, and their values.
//!
//! reads   keys and values of a spec
//! writes  validated [`Options`]; every combination of a matrix

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use toml::Value;

use hearth_command::did_you_mean::meant;

/// Maximum builds of one study.
pub const BUILDS_MAX: usize = 2_000;
/// Stands for the project's own setting.
pub const DEFAULT: &str = "default";
/// Stands for the value of each option of a program that was not built from options.
pub const NO_OPTION: &str = "-";

/// An option of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Profile of Cargo, such as `release`.
    Profile,
    /// Toolchain by its rustup name.
    Toolchain,
    /// Flag `-C target-cpu` of rustc.
    TargetCpu,
    /// Setting `opt-level` of the profile.
    OptLevel,
    /// Setting `codegen-units` of the profile.
    CodegenUnits,
    /// Setting `lto` of the profile. `false` is not `"off"`: it still optimises over the units of one crate.
    Lto,
    /// Setting `panic` of the profile.
    Panic,
    /// Allocator, enabled by a feature that the spec names.
    Allocator,
    /// Cargo features, separated by commas or spaces.
    Features,
    /// More flags for rustc.
    Rustflags,
    /// Profile-guided optimization, trained with the workloads.
    Pgo,
    /// BOLT: relayout after linking, by a profile of the workloads.
    Bolt,
}

impl Key {
    /// All options, in the order of output.
    pub const ALL: [Self; 12] = [
        Self::Profile,
        Self::Toolchain,
        Self::TargetCpu,
        Self::OptLevel,
        Self::CodegenUnits,
        Self::Lto,
        Self::Panic,
        Self::Allocator,
        Self::Features,
        Self::Rustflags,
        Self::Pgo,
        Self::Bolt,
    ];

    /// Returns the name in a spec and in a column of the results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Toolchain => "toolchain",
            Self::TargetCpu => "target-cpu",
            Self::OptLevel => "opt-level",
            Self::CodegenUnits => "codegen-units",
            Self::Lto => "lto",
            Self::Panic => "panic",
            Self::Allocator => "allocator",
            Self::Features => "features",
            Self::Rustflags => "rustflags",
            Self::Pgo => "pgo",
            Self::Bolt => "bolt",
        }
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Returns the option that a column of results names, also in other programs' spelling: `codegen_units`, `LTO`.
    pub fn named(column: &str) -> Option<Self> {
        Self::of(&column.trim().to_lowercase().replace(['_', ' '], "-"))
    }

    /// Returns the allowed values, if they form a list.
    fn allowed(self) -> Option<&'static [&'static str]> {
        match self {
            Self::OptLevel => Some(&["0", "1", "2", "3", "s", "z"]),
            Self::Lto => Some(&["off", "false", "thin", "fat", "true"]),
            Self::Panic => Some(&["unwind", "abort"]),
            Self::Pgo | Self::Bolt => Some(&["false", "true"]),
            _ => None,
        }
    }

    /// Converts a value to text; none if it means the project's own setting.
    pub(super) fn value(self, value: &Value) -> Result<Option<String>, String> {
        let text = match value {
            Value::String(text) => text.trim().to_owned(),
            Value::Integer(number) => number.to_string(),
            Value::Boolean(is) => is.to_string(),
            other => return Err(format!("`{}`: {other} is not a valid value", self.name())),
        };
        let is_plain = matches!(self, Self::Pgo | Self::Bolt) && text == "false";
        if text == DEFAULT || text.is_empty() || is_plain {
            return Ok(None);
        }
        if text.contains(['\n', '\r', '\0']) {
            return Err(format!("`{}`: a value has a line break in it", self.name()));
        }
        if let Some(allowed) = self.allowed().filter(|allowed| !allowed.contains(&&*text)) {
            let meant = meant(&text, allowed).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(format!("`{}`: `{text}` is none of default, {}{meant}", self.name(), allowed.join(", ")));
        }
        let is_count = text.parse::<u32>().is_ok_and(|count| count > 0);
        if self == Self::CodegenUnits && !is_count {
            return Err(format!("`codegen-units`: `{text}` is not a number from 1"));
        }
        Ok(Some(if self == Self::Lto && text == "true" { "fat".into() } else { text }))
    }
}

/// The options of one build; those that are absent are as the project sets them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Options(BTreeMap<Key, String>);

impl Options {
    /// Reads a table of options.
    pub fn read(table: &toml::Table) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for (name, value) in table {
            let key = key(name)?;
            if let Some(text) = key.value(value)? {
                all.insert(key, text);
            }
        }
        Ok(Self(all))
    }

    /// Returns an option's value, if it is set.
    pub fn get(&self, key: Key) -> Option<&str> {
        self.0.get(&key).map(String::as_str)
    }

    /// Returns whether an option is set.
    pub fn has(&self, key: Key) -> bool {
        self.0.contains_key(&key)
    }

    /// Returns all options that are set.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &str)> {
        self.0.iter().map(|(key, value)| (*key, value.as_str()))
    }
}

impl fmt::Display for Options {
    /// Formats the options as a build name: `lto=fat+codegen-units=1`, or `default`. No commas, because these separate
    /// names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self
            .iter()
            .map(|(key, value)| if value == "true" { key.name().into() } else { format!("{}={value}", key.name()) })
            .collect();
        f.write_str(&if all.is_empty() { DEFAULT.into() } else { all.join("+").replace(',', ";") })
    }
}

fn key(name: &str) -> Result<Key, String> {
    Key::of(name).ok_or_else(|| {
        let names = Key::ALL.map(Key::name);
        let meant = meant(name, &names).map_or_else(
            || format!("; the options are {}", names.join(", ")),
            |near| format!("; did you mean `{near}`?"),
        );
        format!("unknown option `{name}`{meant}")
    })
}

/// A matrix: for each option the values to try.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    axes: Vec<(Key, Vec<Option<String>>)>,
    include: Vec<Options>,
    exclude: Vec<Vec<(Key, Option<String>)>>,
}

impl Matrix {
    /// Reads a matrix from its tables.
    pub fn read(matrix: &toml::Table, include: &[toml::Table], exclude: &[toml::Table]) -> Result<Self, String> {
        let mut axes = Vec::new();
        for (name, value) in matrix {
            let key = key(name)?;
            let one = std::slice::from_ref(value);
            let values = value.as_array().map_or(one, Vec::as_slice);
            let mut axis: Vec<Option<String>> = Vec::new();
            for value in values {
                let value = key.value(value)?;
                if axis.contains(&value) {
                    let text = value.as_deref().unwrap_or(DEFAULT);
                    return Err(format!("`{name}`: `{text}` is there twice"));
                }
                axis.push(value);
            }
            if axis.is_empty() {
                return Err(format!("`{name}`: no value is given"));
            }
            axes.push((key, axis));
        }
        axes.sort_by_key(|(key, _)| *key);
        let count = axes.iter().try_fold(1usize, |count, (_, axis)| count.checked_mul(axis.len()));
        if count.is_none_or(|count| count > BUILDS_MAX) {
            return Err(format!("the matrix has more than {BUILDS_MAX} combinations"));
        }
        let include = include.iter().map(Options::read).collect::<Result<_, _>>()?;
        let exclude = exclude.iter().map(|table| pairs(table)).collect::<Result<Vec<_>, _>>()?;
        if exclude.iter().any(Vec::is_empty) {
            return Err("an `exclude` without an option would leave nothing".into());
        }
        Ok(Self { axes, include, exclude })
    }

    /// Returns every combination without the excluded ones, plus the included ones, without duplicates.
    pub fn expand(&self) -> Vec<Options> {
        let mut all = if self.axes.is_empty() { Vec::new() } else { vec![BTreeMap::new()] };
        for (key, axis) in &self.axes {
            let with = |made: &BTreeMap<Key, String>, value: &Option<String>| {
                let mut made = made.clone();
                made.extend(value.clone().map(|value| (*key, value)));
                made
            };
            all = all.iter().flat_map(|made| axis.iter().map(move |value| with(made, value))).collect();
        }
        let is_excluded = |made: &BTreeMap<Key, String>| {
            self.exclude.iter().any(|rule| rule.iter().all(|(key, value)| made.get(key) == value.as_ref()))
        };
        all.retain(|made| !is_excluded(made));
        let mut seen = BTreeSet::new();
        let all = all.into_iter().map(Options).chain(self.include.iter().cloned());
        all.filter(|options| seen.insert(options.clone())).collect()
    }
}

fn pairs(table: &toml::Table) -> Result<Vec<(Key, Option<String>)>, String> {
    table.iter().map(|(name, value)| key(name).and_then(|key| Ok((key, key.value(value)?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(text: &str) -> Result<Vec<String>, String> {
        let table: toml::Table = toml::from_str(text).expect("TOML");
        let list = |name: &str| -> Vec<toml::Table> {
            let all = table.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
            all.into_iter().map(|one| one.as_table().expect("a table").clone()).collect()
        };
        let axes = table.get("matrix").and_then(Value::as_table).cloned().unwrap_or_default();
        let made = Matrix::read(&axes, &list("include"), &list("exclude"))?;
        Ok(made.expand().iter().map(Options::to_string).collect())
    }

    #[test]
    fn matrix_expands_with_includes_and_excludes() {
        let made = matrix(
            "[matrix]\nlto = [\"off\", true]\ncodegen-units = [16, 1]\npgo = false\n\
             [[exclude]]\nlto = \"off\"\ncodegen-units = 1\n\
             [[include]]\nlto = \"fat\"\ncodegen-units = 1\n\
             [[include]]\ntarget-cpu = \"native\"\nbolt = true\n",
        );
        let wanted = [
            "codegen-units=16+lto=off",
            "codegen-units=16+lto=fat",
            "codegen-units=1+lto=fat",
            "target-cpu=native+bolt",
        ];
        assert_eq!(made.expect("fine"), wanted);
        assert_eq!(matrix("[matrix]\nlto = [\"default\", \"thin\"]\n").expect("fine"), ["default", "lto=thin"]);
        assert_eq!(matrix("").expect("fine"), [""; 0]);
        let only = "[matrix]\nlto = [\"default\", \"thin\"]\n[[exclude]]\nlto = \"default\"\n";
        assert_eq!(matrix(only).expect("fine"), ["lto=thin"], "the default can be left out, too");
    }

    #[test]
    fn unsupported_build_option_is_reported() {
        let wrong = |text: &str| matrix(text).expect_err("wrong");
        assert_eq!(wrong("[matrix]\nlot = 1\n"), "unknown option `lot`; did you mean `lto`?");
        assert!(wrong("[matrix]\nspeed = 1\n").contains("the options are profile, toolchain"));
        assert!(wrong("[matrix]\nlto = \"fta\"\n").ends_with("did you mean `fat`?"));
        assert!(wrong("[matrix]\nlto = [\"fat\", true]\n").contains("`fat` is there twice"));
        assert!(wrong("[matrix]\ncodegen-units = 0\n").contains("not a number from 1"));
        assert!(wrong("[matrix]\npanic = 1.5\n").contains("not a valid value"));
        assert!(wrong("[[exclude]]\n").contains("without an option"));
        assert!(wrong("[matrix]\nlto = []\n").contains("no value is given"));
    }
}
