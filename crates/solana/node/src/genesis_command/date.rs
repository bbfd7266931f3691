//! Points in time as RFC 3339 writes them: `2026-01-31T12:00:00Z`.
//!
//! reads   a text
//! writes  seconds since 1970

const DAY_S: i64 = 86_400;
/// Days of the months before each month in a year without a leap day.
const DAYS_BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Parses a point in time from 1970 on; parts of seconds are dropped. `None` if it is none.
pub fn unix_time(text: &str) -> Option<u64> {
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(clock, ':')?;
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let is_leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let leap_day = i64::from(is_leap(year));
    let (before, index) = (year - 1, (month - 1) as usize);
    let next = DAYS_BEFORE.get(index + 1).copied().unwrap_or(365);
    let days_in_month = next - DAYS_BEFORE[index] + if month == 2 { leap_day } else { 0 };
    if !(1..=days_in_month).contains(&day) {
        return None;
    }
    // Leap days since year 1; 1970 began 719,162 days after that did.
    let years = before * 365 + before / 4 - before / 100 + before / 400 - 719_162;
    let days = years + DAYS_BEFORE[index] + if month > 2 { leap_day } else { 0 } + day - 1;
    let seconds = days * DAY_S + hour * 3_600 + minute * 60 + second;
    u64::try_from(seconds - zone(part(rest)?)?).ok()
}

/// Skips the part of a second.
fn part(text: &str) -> Option<&str> {
    let Some(digits) = text.strip_prefix('.') else { return Some(text) };
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < digits.len()).then_some(rest)
}

/// The seconds by which a zone's clocks are ahead.
fn zone(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let (sign, text) = match text.split_at_checked(1)? {
        ("+", text) => (1, text),
        ("-", text) => (-1, text),
        _ => return None,
    };
    let [hours, minutes] = numbers(text, ':')?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

fn numbers<const N: usize>(text: &str, between: char) -> Option<[i64; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split(between);
    for number in &mut numbers {
        let part = parts.next()?;
        let is_number = !part.is_empty() && part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = if is_number { part.parse().ok()? } else { return None };
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2020-03-16T14:29:00+00:00", 1_584_368_940),
            ("2023-11-14T22:13:20Z", 1_700_000_000),
            ("2023-11-15T00:13:20.75+02:00", 1_700_000_000),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2100-03-01t00:00:00z", 4_107_542_400),
        ] {
            assert_eq!(unix_time(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn others_are_refused() {
        for text in [
            "",
            "2023-11-14",
            "2023-11-14T22:13:20",
            "2023-13-14T22:13:20Z",
            "2023-02-29T22:13:20Z",
            "2100-02-29T00:00:00Z",
            "2023-11-14T24:13:20Z",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:20+2",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "2023-11-14T22:13:20Z ",
            "éééééééééééééééé",
        ] {
            assert_eq!(unix_time(text), None, "{text}");
        }
    }
}
