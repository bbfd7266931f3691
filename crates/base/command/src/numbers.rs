//! Numbers as a person reads them.

/// Returns a whole number with its digits in groups of three: `12,345`.
pub fn grouped(v: u64) -> String {
    let digits = v.to_string();
    let mut out = String::new();
    for (k, c) in digits.chars().enumerate() {
        if k > 0 && (digits.len() - k).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Returns a rate without decimals, its digits in groups of three. Less than nothing is `0`.
pub fn grouped_rate(v: f64) -> String {
    grouped(v.max(0.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_in_groups_of_three() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([-0.6, 999.4, 999.5].map(grouped_rate), ["0", "999", "1,000"]);
    }
}
