//! Formats numbers for people.
//!
//! reads   a number
//! writes  a few characters

/// Formats with about three digits: `950`, `12.3K`, `4.56M`.
pub(crate) fn scaled(value: f64) -> String {
    match value {
        v if v < 10.0 && v > 0.0 => format!("{v:.1}"),
        v if v < 1e3 => format!("{v:.0}"),
        v if v < 1e6 => format!("{:.1}K", v / 1e3),
        v if v < 1e9 => format!("{:.2}M", v / 1e6),
        v => format!("{:.2}G", v / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 2.5, 950.0, 12_345.0, 4.56e6, 1.2e9].map(scaled),
            ["0", "2.5", "950", "12.3K", "4.56M", "1.20G"]
        );
    }
}
