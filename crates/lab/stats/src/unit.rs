//! Parses values as people and tools print them: a number, and a unit if there is one.
//!
//! reads   text such as `1.02 GiB/s`, `637.62KiBs`, `12 ms`, `85 %`, `3`
//! writes  the number in the base unit of its dimension: bytes, bytes per second, seconds, a fraction, or unchanged
//! source  IEC 80000-13 for binary prefixes, the SI for decimal ones

use std::fmt;

/// The dimension of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// A number without a unit, or with an unknown one that is not part of the value.
    Number,
    /// An amount of data, in bytes.
    Bytes,
    /// A data rate, in bytes per second.
    ByteRate,
    /// A duration, in seconds.
    Seconds,
    /// A fraction; 1 is all.
    Share,
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "a number without a unit",
            Self::Bytes => "bytes",
            Self::ByteRate => "bytes a second",
            Self::Seconds => "seconds",
            Self::Share => "a percentage",
        })
    }
}

impl Dimension {
    /// Returns the base unit, in which values are stored.
    pub fn base(self) -> &'static str {
        match self {
            Self::Number => "",
            Self::Bytes => "B",
            Self::ByteRate => "B/s",
            Self::Seconds => "s",
            Self::Share => "of 1",
        }
    }
}

/// Why a text is not a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text does not begin with a number.
    #[error("`{0}` is not a number")]
    NotANumber(String),
    /// The number is infinite.
    #[error("`{0}` is not a finite number")]
    NotFinite(String),
    /// The number is followed by an unknown unit.
    #[error(
        "`{unit}` in `{text}` is not a unit that is known here: B, KiB, MB, GiB/s, ns, µs, ms, s, % and the like are"
    )]
    Unknown {
        /// The text after the number.
        unit: String,
        /// The value as it stands in the results, with its number.
        text: String,
    },
}

/// Words for a missing value.
const MISSING: [&str; 7] = ["", "na", "n/a", "nan", "null", "none", "-"];

/// A value, and the unit in which it was printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrintedValue {
    /// The value in its base unit.
    pub value: f64,
    /// The dimension of the value.
    pub dimension: Dimension,
    /// The size of its printed unit, in the base unit.
    pub one: f64,
}

/// Parses a value; none if the text says that it is missing.
pub fn parse(text: &str) -> Result<Option<(f64, Dimension)>, UnitError> {
    Ok(printed(text)?.map(|printed| (printed.value, printed.dimension)))
}

/// Parses a value together with its unit.
pub fn printed(text: &str) -> Result<Option<PrintedValue>, UnitError> {
    let text = text.trim();
    if MISSING.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Ok(None);
    }
    let end = number_end(text);
    let (number, unit) = (&text[..end], text[end..].trim());
    let number: f64 = number.parse().map_err(|_| UnitError::NotANumber(text.into()))?;
    if !number.is_finite() {
        return Err(UnitError::NotFinite(text.into()));
    }
    let (one, dimension) = unit_of(unit).ok_or_else(|| UnitError::Unknown { unit: unit.into(), text: text.into() })?;
    Ok(Some(PrintedValue { value: number * one, dimension, one }))
}

/// Names of units for output; the first of two synonyms.
const NAMES: [&str; 25] = [
    "ns", "µs", "ms", "s", "min", "h", "%", "B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "B/s", "kB/s",
    "MB/s", "GB/s", "TB/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s",
];

/// Returns the name of a unit by its size in the base unit; none for a plain number.
pub fn named(one: f64, dimension: Dimension) -> Option<&'static str> {
    NAMES.into_iter().find(|name| unit_of(name) == Some((one, dimension)))
}

/// Returns where the number at the beginning ends.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    end += digits(end);
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let power = digits(end + 1 + sign);
        // `3E` alone is a number and something else.
        end += if power > 0 { 1 + sign + power } else { 0 };
    }
    end
}

/// Returns the factor and the name of the unit for values of this size.
pub fn scale(size: f64, dimension: Dimension) -> (f64, String) {
    if dimension == Dimension::Share {
        return (0.01, "%".into());
    }
    let base = if dimension == Dimension::Number { "" } else { dimension.base() };
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")];
    // Plain numbers in the thousands are as readable as they are.
    let is_plain = dimension == Dimension::Number && (0.001..1e5).contains(&size);
    let found = steps.into_iter().find(|(step, _)| size >= *step && !is_plain).unwrap_or((1.0, ""));
    (found.0, format!("{}{base}", found.1))
}

fn unit_of(unit: &str) -> Option<(f64, Dimension)> {
    match unit {
        "" => return Some((1.0, Dimension::Number)),
        "%" => return Some((0.01, Dimension::Share)),
        "ns" => return Some((1e-9, Dimension::Seconds)),
        "us" | "µs" | "μs" => return Some((1e-6, Dimension::Seconds)),
        "ms" => return Some((1e-3, Dimension::Seconds)),
        "s" | "sec" => return Some((1.0, Dimension::Seconds)),
        "min" => return Some((60.0, Dimension::Seconds)),
        "h" => return Some((3600.0, Dimension::Seconds)),
        // Rates of things other than bytes: the number stays as it is.
        "/s" | "txn/s" | "tx/s" | "tps" | "TPS" | "ops/s" | "packets/s" | "H/s" => {
            return Some((1.0, Dimension::Number));
        }
        _ => {}
    }
    let (size, dimension) = ["/s", "ps", "s"]
        .iter()
        .find_map(|end| unit.strip_suffix(end))
        .filter(|size| size.ends_with('B'))
        .map_or((unit, Dimension::Bytes), |size| (size, Dimension::ByteRate));
    let factor = match size.strip_suffix('B')? {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((factor, dimension))
}

/// Formats four digits, or all before the point.
pub fn figure(value: f64) -> String {
    let digits = (3 - value.abs().max(1e-12).log10().floor() as i32).clamp(0, 9) as usize;
    if value == 0.0 { "0".into() } else { format!("{value:.digits$}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits() {
        let said: Vec<String> = [0.0, 1.0, 0.01234567, 123.456, 81_517.3, -2.5].map(figure).to_vec();
        assert_eq!(said, ["0", "1.000", "0.01235", "123.5", "81517", "-2.500"]);
    }

    fn read(text: &str) -> (f64, Dimension) {
        parse(text).expect("a value").expect("there")
    }

    #[test]
    fn values_are_kept_in_their_base() {
        assert_eq!(read("1.5"), (1.5, Dimension::Number));
        assert_eq!(read(" -2e-3 "), (-0.002, Dimension::Number));
        assert_eq!(read("1.02 GiBs"), (1.02 * 1073741824.0, Dimension::ByteRate));
        assert_eq!(read("637.62KiB/s"), (637.62 * 1024.0, Dimension::ByteRate));
        assert_eq!(read("2 MB"), (2e6, Dimension::Bytes));
        assert_eq!(read("7 B"), (7.0, Dimension::Bytes));
        assert_eq!(read("250 µs"), (250.0 * 1e-6, Dimension::Seconds));
        assert_eq!(read("3 s"), (3.0, Dimension::Seconds));
        assert_eq!(read("50 %"), (0.5, Dimension::Share));
        assert_eq!(read("81517 txn/s"), (81517.0, Dimension::Number));
    }

    #[test]
    fn a_unit_is_known_by_what_one_of_it_is() {
        for name in NAMES {
            let one = printed(&format!("1{name}")).expect("a value").expect("there");
            assert_eq!(named(one.one, one.dimension), Some(name));
        }
        assert_eq!(named(1.0, Dimension::Number), None);
    }

    #[test]
    fn missing_value_is_not_zero() {
        for text in ["", " ", "NA", "NaN", "null", "-"] {
            assert_eq!(parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn invalid_value_is_reported() {
        assert_eq!(parse("fast"), Err(UnitError::NotANumber("fast".into())));
        assert_eq!(parse("1e999"), Err(UnitError::NotFinite("1e999".into())));
        assert_eq!(parse("inf"), Err(UnitError::NotANumber("inf".into())));
        assert!(
            parse("3 parsecs").expect_err("no unit").to_string().starts_with("`parsecs` in `3 parsecs` is not a unit")
        );
        assert!(parse("3E").is_err() && parse("1.2.3").is_err() && parse("1,2").is_err());
    }
}
