//! Lists of cores as the kernel writes them: `0-3,8`.
//!
//! reads   a text
//! writes  a text
//! source  "List format" of cpuset(7)

/// Parses a list of cores, ascending. Text that is not a list, such as `(null)`, gives no cores.
pub fn parse(text: &str) -> Vec<usize> {
    /// More cores than any kernel supports: a higher number means that the text is not a list.
    const MOST: usize = 1 << 16;
    let mut cores = vec![];
    for part in text.trim().split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cores.extend(first..=last.min(MOST));
        }
    }
    cores.sort_unstable();
    cores.dedup();
    cores
}

/// Formats a list of cores; `none` if it is empty.
pub fn show(cores: &[usize]) -> String {
    let mut sorted = cores.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut runs: Vec<(usize, usize)> = vec![];
    for core in sorted {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => runs.push((core, core)),
        }
    }
    let run = |(first, last): (usize, usize)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    let text: Vec<String> = runs.into_iter().map(run).collect();
    if text.is_empty() { "none".into() } else { text.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        assert_eq!(parse("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse("5,1, 2"), [1, 2, 5]);
        assert!(parse("").is_empty() && parse("(null)").is_empty() && parse("3-1").is_empty());
        assert_eq!(show(&[8, 0, 1, 2]), "0-2,8");
        assert_eq!(show(&[4]), "4");
        assert_eq!(show(&[0, 1]), "0-1");
        assert_eq!(show(&[]), "none");
    }
}
