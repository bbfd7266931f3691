//! Formats text and numbers as HTML.
//!
//! reads   untrusted text: a node's name, its errors, names of functions
//! writes  HTML that shows the text literally
//! drops   text beyond [`WORDS_MAX`] characters, control characters, and those that change the direction of text

/// Maximum characters of foreign text that are shown.
const WORDS_MAX: usize = 2_000;

/// Text that stands for itself, between tags and in attributes in quotation marks.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len().min(WORDS_MAX) + 16);
    for (at, c) in text.chars().enumerate() {
        if at == WORDS_MAX {
            escaped.push('…');
            break;
        }
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            // Text that turns its direction would change how its neighbours read.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Formats a number for people: three significant digits, thousands separated.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !size.is_finite() => "–".into(),
        _ if size >= 100.0 => grouped(value.round()),
        _ if size >= 10.0 => short(value, 1),
        _ if size >= 0.001 || size == 0.0 => short(value, 2 + usize::from(size < 0.1)),
        _ => format!("{value:.1e}"),
    }
}

fn short(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".into() } else { text.into() }
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("−{text}") } else { text }
}

/// Formats a whole number.
pub fn whole(value: u64) -> String {
    grouped(value as f64)
}

/// A time in the unit that suits it.
pub fn time_ms(ms: f64) -> String {
    match ms {
        _ if ms >= 10_000.0 => format!("{} s", figure(ms / 1e3)),
        _ if ms >= 1.0 => format!("{} ms", figure(ms)),
        _ => format!("{} µs", figure(ms * 1e3)),
    }
}

/// A date and time of the day, in UTC.
pub fn date(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    // Days since the first of March of the year 0, so that a leap day is the last of its year.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3_600, second / 60 % 60)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn figures_are_short() {
        for (value, text) in [
            (1234567.8, "1,234,568"),
            (999.4, "999"),
            (12.34, "12.3"),
            (2.0, "2"),
            (0.0, "0"),
            (0.0123, "0.012"),
            (-1500.0, "−1,500"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!(
            (time_ms(0.25), time_ms(12.5), time_ms(61_000.0)),
            ("250 µs".into(), "12.5 ms".into(), "61 s".into())
        );
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_825_600 + 3_660), "2000-02-29 13:01 UTC");
        assert_eq!(date(1_795_370_400), "2026-11-22 18:00 UTC");
    }

    #[test]
    fn long_words_end() {
        let escaped = escape(&"<".repeat(3 * WORDS_MAX));
        assert_eq!((escaped.matches("&lt;").count(), escaped.ends_with('…')), (WORDS_MAX, true));
    }

    proptest! {
        #[test]
        fn no_text_leaves_its_place(text in "\\PC*|[<>&\"'\u{0}-\u{20}\u{202e}]*") {
            let escaped = escape(&text);
            let marks = ['<', '>', '"', '\'', '\u{0}', '\u{202e}', '\r'];
            prop_assert!(!escaped.contains(marks));
            let entities = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
            let plain = entities.iter().fold(escaped, |text, entity| text.replace(entity, ""));
            prop_assert!(!plain.contains('&'));
        }
    }
}
