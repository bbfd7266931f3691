//! The failures that are expected, with their causes.
//!
//! reads   `expected.txt`, which is compiled in
//! memory  its lines

/// A line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedFailure {
    /// The name of a cause that the list defines.
    pub cause: &'static str,
    /// A part of the names of the cases.
    pub part: &'static str,
}

/// The expected failures and their causes.
#[derive(Debug, Default)]
pub struct ExpectedFailures {
    /// Names and words of the causes.
    pub causes: Vec<(&'static str, &'static str)>,
    /// The lines, in order.
    pub lines: Vec<ExpectedFailure>,
}

impl ExpectedFailures {
    /// The list that is compiled in.
    pub fn listed() -> Result<Self, String> {
        Self::of(include_str!("expected.txt"))
    }

    /// Parses a list; each line must name a cause that the list defines.
    fn of(text: &'static str) -> Result<Self, String> {
        let mut expected = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (first, rest) = line.split_once(' ').ok_or_else(|| format!("expected.txt: {line:?} is one word"))?;
            match rest.split_once(' ') {
                Some((name, words)) if first == "cause" => expected.causes.push((name, words)),
                _ => expected.lines.push(ExpectedFailure { cause: first, part: rest.trim() }),
            }
        }
        for ExpectedFailure { cause, .. } in &expected.lines {
            if !expected.causes.iter().any(|(name, _)| name == cause) {
                return Err(format!("expected.txt: there is no cause {cause}"));
            }
        }
        Ok(expected)
    }

    /// The place of the line that a case's name is meant by.
    pub fn line_of(&self, name: &str) -> Option<usize> {
        self.lines.iter().position(|line| name.contains(line.part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_reads_and_names_cases() {
        let listed = ExpectedFailures::listed().expect("it reads");
        assert!(listed.line_of("tests/GeneralStateTests/stSStoreTest/InitCollisionParis.json/x").is_some());
        assert!(listed.line_of("tests/GeneralStateTests/stExample/add11.json/x").is_none());
        assert!(ExpectedFailures::of("nowhere a/b").is_err());
        let own = ExpectedFailures::of("cause why two words\nwhy a/b").expect("it reads");
        assert_eq!(
            (own.causes[0], own.lines[0]),
            (("why", "two words"), ExpectedFailure { cause: "why", part: "a/b" })
        );
    }
}
