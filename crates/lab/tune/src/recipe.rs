//! How to make the recommended build: lines for `Cargo.toml`, flags and a command.
//!
//! reads   names and values of a build's options, as a study's columns have them
//! writes  a [`CargoRecipe`]
//! memory  the lines

use std::fmt;

use crate::options::{DEFAULT, Key, NO_OPTION};

/// The default profile for options.
const PROFILE: &str = "release";

/// The settings and commands for one build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CargoRecipe {
    /// Name of the profile; `None` means [`PROFILE`].
    profile: Option<String>,
    /// Lines of the profile.
    settings: Vec<String>,
    rustflags: Vec<String>,
    toolchain: Option<String>,
    features: Vec<String>,
    /// Steps that no flag performs.
    steps: Vec<String>,
}

impl CargoRecipe {
    /// Returns how to build with these options, or none if none of them is an option of Cargo's.
    pub fn of<'a>(options: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let mut recipe = Self::default();
        for (name, value) in options.filter(|(_, value)| ![DEFAULT, NO_OPTION, ""].contains(value)) {
            recipe.add(Key::named(name), value);
        }
        (recipe != Self::default()).then_some(recipe)
    }

    fn add(&mut self, key: Option<Key>, value: &str) {
        let setting = |key: Key| {
            let value = if key == Key::Lto && value == "true" { "fat" } else { value };
            match value.parse::<u32>().is_ok() || value == "false" {
                true => format!("{} = {value}", key.name()),
                false => format!("{} = \"{value}\"", key.name()),
            }
        };
        match key {
            Some(Key::Profile) => self.profile = Some(value.into()),
            Some(Key::Toolchain) => self.toolchain = Some(value.into()),
            Some(Key::TargetCpu) => self.rustflags.push(format!("-C target-cpu={value}")),
            Some(Key::Rustflags) => self.rustflags.push(value.into()),
            Some(key @ (Key::OptLevel | Key::CodegenUnits | Key::Lto | Key::Panic)) => self.settings.push(setting(key)),
            Some(Key::Features) => self.features.push(value.into()),
            Some(Key::Allocator) => {
                self.steps.push(format!("the feature of the spec that brings the allocator {value}"))
            }
            Some(key @ (Key::Pgo | Key::Bolt)) if value == "true" => {
                let what = if key == Key::Pgo { "profile-guided optimisation" } else { "layout by BOLT" };
                self.steps.push(format!("{what}: `hearth tune build` does it, and keeps the program in its folder"));
            }
            Some(Key::Pgo | Key::Bolt) | None => {}
        }
    }
}

impl fmt::Display for CargoRecipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profile = self.profile.as_deref().unwrap_or(PROFILE);
        if !self.settings.is_empty() {
            writeln!(f, "  Cargo.toml:\n    [profile.{profile}]")?;
            self.settings.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        let flags = match self.rustflags.is_empty() {
            true => String::new(),
            false => format!("RUSTFLAGS=\"{}\" ", self.rustflags.join(" ")),
        };
        let toolchain = self.toolchain.as_ref().map_or(String::new(), |name| format!("+{name} "));
        let profile = if profile == PROFILE { "--release".into() } else { format!("--profile {profile}") };
        let features = match self.features.is_empty() {
            true => String::new(),
            false => format!(" --features \"{}\"", self.features.join(" ")),
        };
        writeln!(f, "  build:\n    {flags}cargo {toolchain}build {profile}{features}")?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  and {step}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(options: &[(&str, &str)]) -> String {
        CargoRecipe::of(options.iter().copied()).map_or(String::new(), |recipe| recipe.to_string())
    }

    #[test]
    fn recipe_has_profile_flags_and_command() {
        let all = [
            ("toolchain", "nightly"),
            ("target-cpu", "native"),
            ("codegen-units", "1"),
            ("lto", "fat"),
            ("panic", "abort"),
            ("opt-level", "s"),
            ("rustflags", "-C link-arg=-s"),
            ("features", "a,b"),
        ];
        assert_eq!(
            text(&all),
            "  Cargo.toml:\n    [profile.release]\n    codegen-units = 1\n    lto = \"fat\"\n    panic = \"abort\"\n    \
             opt-level = \"s\"\n  build:\n    RUSTFLAGS=\"-C target-cpu=native -C link-arg=-s\" cargo +nightly build --release \
             --features \"a,b\"\n"
        );
    }

    #[test]
    fn defaults_and_other_columns_are_left_out() {
        assert_eq!(text(&[("lto", "default"), ("pgo", "false"), ("machine", "a"), ("panic", "-")]), "");
        let profile = text(&[("profile", "fast"), ("lto", "false"), ("pgo", "true")]);
        assert!(profile.contains("[profile.fast]\n    lto = false\n"), "{profile}");
        assert!(profile.contains("cargo build --profile fast\n"), "{profile}");
        assert!(profile.contains("profile-guided optimisation"), "{profile}");
    }

    #[test]
    fn columns_of_other_tools_are_understood() {
        assert!(text(&[("codegen_units", "1"), ("LTO", "true")]).contains("codegen-units = 1\n    lto = \"fat\""));
    }
}
