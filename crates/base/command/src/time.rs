//! Points in time as a person reads them.

const DAY_S: i64 = 86_400;
/// Days of 400 years, after which leap years come in the same order again.
const CYCLE_DAYS: i64 = 146_097;
/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_BEFORE_1970: i64 = 719_468;

/// Formats Unix seconds as RFC 3339 writes a time in UTC: `2026-01-31T12:00:00Z`.
pub fn utc(unix_s: i64) -> String {
    let (days, seconds) = (unix_s.div_euclid(DAY_S), unix_s.rem_euclid(DAY_S));
    // A year begins in March here, so that a leap day is its last.
    let days = days + DAYS_BEFORE_1970;
    let (cycle, mut day) = (days.div_euclid(CYCLE_DAYS), days.rem_euclid(CYCLE_DAYS));
    let years = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    day -= 365 * years + years / 4 - years / 100;
    // Five months have 153 days, over and over.
    let months = (5 * day + 2) / 153;
    day -= (153 * months + 2) / 5;
    let is_next_year = months >= 10;
    let month = if is_next_year { months - 9 } else { months + 3 };
    let year = 400 * cycle + years + i64::from(is_next_year);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_rfc_3339_writes_them() {
        for (unix_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (1_750_000_000, "2025-06-15T15:06:40Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(unix_s), text);
        }
        // Whatever a file says is shown.
        assert!(!utc(i64::MAX).is_empty() && !utc(i64::MIN).is_empty());
    }
}
