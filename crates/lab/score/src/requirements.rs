//! Requirements for a machine: a value for each score, and whether it is met.
//!
//! reads   TOML: the name of a score, and a value with its unit
//! writes  whether each requirement is met
//! source  pass and fail as in `polkadot benchmark machine`: a score passes from the minimum less the tolerance on, and
//!         one that is off by a factor of a hundred or more is an error of units

use std::collections::BTreeMap;

use hearth_stats::unit;
use serde::Serialize;
use toml::Spanned;

use super::kind::{Kind, Unit};

/// The name of [`POLKADOT`].
pub const POLKADOT_NAME: &str = "polkadot";
/// The reference hardware of validators, as in `polkadot benchmark machine`.
pub const POLKADOT: &str = include_str!("../../../../config/requirements-polkadot.toml");
/// A score that is off by this factor was required in another unit.
const UNITS_WRONG: f64 = 100.0;

/// The required value of each score: for rates the minimum, for times the maximum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requirements(BTreeMap<Kind, f64>);

impl Requirements {
    /// Parses a requirements file.
    ///
    /// # Errors
    /// The line, what is wrong there, and what was probably meant.
    pub fn parse(text: &str) -> Result<Self, String> {
        let at = |offset: usize| 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
        let values: BTreeMap<Spanned<String>, Spanned<toml::Value>> = toml::from_str(text).map_err(|why| {
            let line = why.span().map_or(1, |span| at(span.start));
            format!("{line}: {}", why.message().trim())
        })?;
        let mut found = BTreeMap::new();
        for (name, value) in &values {
            let kind = Kind::find(name.get_ref()).map_err(|why| format!("{}: {why}", at(name.span().start)))?;
            let wrong = |why: String| format!("{}: `{}`: {why}", at(value.span().start), kind.name());
            found.insert(kind, required(kind, value.get_ref()).map_err(wrong)?);
        }
        if found.is_empty() {
            return Err("1: nothing is required; write, say, `blake2-256 = \"1000 MiB/s\"`".into());
        }
        Ok(Self(found))
    }

    /// Returns the required value of a score, in its unit.
    pub fn of(&self, kind: Kind) -> Option<f64> {
        self.0.get(&kind).copied()
    }

    /// Returns the scores with a requirement.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.0.keys().copied()
    }
}

fn required(kind: Kind, value: &toml::Value) -> Result<f64, String> {
    let unit = kind.unit();
    let text = match value {
        toml::Value::String(text) => text.clone(),
        // A bare number is valid only for a score without a unit.
        toml::Value::Integer(_) | toml::Value::Float(_) if unit == Unit::PerSecond => value.to_string(),
        _ => return Err(format!("`{value}` has no unit; write, say, \"{}\"", unit.example())),
    };
    let (dimension, size) = unit.dimension();
    let (number, is) = match unit::parse(&text) {
        Ok(Some(value)) => value,
        Ok(None) => return Err("there is no value".into()),
        Err(why) => return Err(why.to_string()),
    };
    if is != dimension {
        return Err(format!("`{text}` is {is}, and the score is in {}: \"{}\"", unit.name(), unit.example()));
    }
    if number <= 0.0 {
        return Err(format!("`{text}` is not greater than 0"));
    }
    Ok(number * size)
}

/// The verdict on a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The requirement is met.
    Met,
    /// The requirement is missed.
    Missed,
    /// The score is off by a factor of a hundred or more, either way: one of the two is in another unit.
    UnitsWrong,
}

/// Judges a score; the tolerance is in percent.
pub fn judge(unit: Unit, score: f64, required: f64, tolerance: f64) -> Verdict {
    let ratio = score / required;
    if !(1.0 / UNITS_WRONG..UNITS_WRONG).contains(&ratio) || ratio == 1.0 / UNITS_WRONG {
        return Verdict::UnitsWrong;
    }
    let is_enough = match unit {
        Unit::Nanoseconds => score <= required * (1.0 + tolerance / 100.0),
        Unit::BytesPerSecond | Unit::PerSecond => score >= required * (1.0 - tolerance / 100.0),
    };
    if is_enough { Verdict::Met } else { Verdict::Missed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_polkadot_are_as_it_has_them() {
        let polkadot = Requirements::parse(POLKADOT).expect("good");
        assert_eq!(polkadot.kinds().count(), 6);
        const MIB: f64 = 1048576.0;
        for (kind, mib) in [
            (Kind::Blake2, 1000.0),
            (Kind::Blake2Parallel, 1000.0),
            (Kind::Sr25519Verify, 0.622675781),
            (Kind::Copy, 11768.341),
            (Kind::DiskSequential, 950.0),
            (Kind::DiskRandom, 420.0),
        ] {
            assert_eq!(polkadot.of(kind), Some(mib * MIB), "{}", kind.name());
        }
        assert_eq!(polkadot.of(Kind::UdpLoopback), None);
    }

    #[test]
    fn units_are_those_of_the_score() {
        let text =
            "\ncopy = \"2 GB/s\"\ned25519-verify = 50000\nudp-loopback = \"1e5 packets/s\"\ncore-to-core = '0.2 µs'\n";
        let found = Requirements::parse(text).expect("good");
        assert_eq!(found.of(Kind::Copy), Some(2e9));
        assert_eq!(found.of(Kind::Ed25519Verify), Some(50_000.0));
        assert_eq!(found.of(Kind::UdpLoopback), Some(1e5));
        assert!((found.of(Kind::CoreToCore).expect("there") - 200.0).abs() < 1e-9);
    }

    #[test]
    fn a_mistake_says_its_line_and_what_was_meant() {
        for (text, said) in [
            ("\nblake2-265 = \"1 GiB/s\"\n", "2: no score is called `blake2-265`; did you mean `blake2-256`?"),
            ("copy = 12000\n", "1: `copy`: `12000` has no unit; write, say, \"1000 MiB/s\""),
            ("copy = \"12 s\"\n", "1: `copy`: `12 s` is seconds, and the score is in bytes/s: \"1000 MiB/s\""),
            ("copy = \"12\"\n", "1: `copy`: `12` is a number without a unit, and the score is in bytes/s"),
            ("copy = \"-1 MiB/s\"\n", "1: `copy`: `-1 MiB/s` is not greater than 0"),
            ("copy = \"n/a\"\n", "1: `copy`: there is no value"),
            ("# mine\ncopy = \"fast\"\n", "2: `copy`: `fast` is not a number"),
            ("[copy]\nminimum = 3\n", "1: `copy`: "),
            ("copy = \n", "1: "),
            ("", "1: nothing is required"),
        ] {
            let why = Requirements::parse(text).expect_err(text);
            assert!(why.starts_with(said), "{text}: {why}");
            assert!(!why.contains('\n'), "{why}");
        }
    }

    #[test]
    fn the_tolerance_ends_where_it_says() {
        let rate = |score: f64| judge(Unit::BytesPerSecond, score, 1000.0, 10.0);
        assert_eq!((rate(900.0), rate(899.9), rate(5000.0)), (Verdict::Met, Verdict::Missed, Verdict::Met));
        assert_eq!(judge(Unit::PerSecond, 999.0, 1000.0, 0.0), Verdict::Missed);
        let time = |score: f64| judge(Unit::Nanoseconds, score, 1000.0, 10.0);
        assert_eq!((time(1100.0), time(1100.1), time(50.0)), (Verdict::Met, Verdict::Missed, Verdict::Met));
        // A factor of a hundred either way means another unit.
        assert_eq!((rate(99_999.0), rate(100_000.0)), (Verdict::Met, Verdict::UnitsWrong));
        assert_eq!((rate(10.1), rate(10.0), rate(0.0)), (Verdict::Missed, Verdict::UnitsWrong, Verdict::UnitsWrong));
    }
}
