//! The distribution of stake over nodes.
//!
//! reads   the requested distribution, or a file with a stake in each line
//! writes  lamports for each node, in descending order
//! memory  8 B per node

use std::path::PathBuf;
use std::str::FromStr;

use super::NODES_MAX;

/// Stake of the first node of a synthetic distribution in lamports. The others have no more, so the sum does not
/// overflow.
const FIRST: u64 = 100_000_000_000_000;
const _: () = assert!(FIRST.checked_mul(NODES_MAX as u64).is_some());
/// With this power the first 19 of 2,000 nodes have a third of the stake.
const POWER: f64 = 0.9;

/// A distribution of stake.
#[derive(Clone, Debug, PartialEq)]
pub enum Stakes {
    /// All nodes have the same stake.
    Equal,
    /// The k-th node has 1/k to this power of the first one's.
    Zipf(f64),
    /// A file with a stake as the last word of each line.
    File(PathBuf),
}

impl Default for Stakes {
    fn default() -> Self {
        Self::Zipf(POWER)
    }
}

impl FromStr for Stakes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "equal" => Ok(Self::Equal),
            None if text == "zipf" => Ok(Self::default()),
            Some(("zipf", power)) => match power.parse::<f64>() {
                Ok(power) if (0.0..=3.0).contains(&power) => Ok(Self::Zipf(power)),
                _ => Err(format!("`{power}` is not a power from 0 to 3")),
            },
            _ => Ok(Self::File(text.into())),
        }
    }
}

impl std::fmt::Display for Stakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Equal => write!(f, "equal"),
            Self::Zipf(power) => write!(f, "zipf:{power}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Stakes {
    /// The stakes of `nodes` nodes in descending order; a file determines the number itself.
    ///
    /// # Errors
    ///
    /// The file cannot be read, one of its lines is invalid, or the sum overflows.
    pub fn of(&self, nodes: usize) -> Result<Vec<u64>, String> {
        let mut all: Vec<u64> = match self {
            Self::Equal => vec![FIRST; nodes],
            // At least one lamport: a node without stake would not be a validator.
            Self::Zipf(power) => {
                (1..=nodes).map(|k| (FIRST as f64 / (k as f64).powf(*power)).max(1.0) as u64).collect()
            }
            Self::File(path) => {
                let text = std::fs::read_to_string(path).map_err(|why| match why.kind() {
                    std::io::ErrorKind::NotFound => {
                        format!(
                            "`{}` is neither `equal`, `zipf`, `zipf:POWER` nor a file that is there",
                            path.display()
                        )
                    }
                    _ => format!("{}: {why}", path.display()),
                })?;
                read(&text).map_err(|why| format!("{}: {why}", path.display()))?
            }
        };
        all.sort_unstable_by(|a, b| b.cmp(a));
        Ok(all)
    }
}

fn read(text: &str) -> Result<Vec<u64>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let stake = |(at, line): (usize, &str)| {
        let word = line.split_whitespace().last().unwrap_or_default();
        word.parse::<u64>().map_err(|_| format!("line {}: `{word}` is not a stake in lamports", at + 1))
    };
    let all: Vec<u64> = lines.map(stake).collect::<Result<_, _>>()?;
    match all.iter().try_fold(0u64, |sum, stake| sum.checked_add(*stake)) {
        Some(0) => Err("no node has stake".into()),
        Some(_) => Ok(all),
        None => Err(format!("the stakes are more than {} lamports in all", u64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_match_their_names() {
        assert_eq!(Stakes::Equal.of(3), Ok(vec![100_000_000_000_000; 3]));
        let all = Stakes::default().of(2_000).expect("made up");
        let (sum, first): (u64, u64) = (all.iter().sum(), all[..19].iter().sum());
        assert!((0.32..0.345).contains(&(first as f64 / sum as f64)), "{}", first as f64 / sum as f64);
        assert_eq!("zipf:1".parse::<Stakes>().expect("fine").of(4).expect("fine")[3], 25_000_000_000_000);
        assert_eq!("zipf:x".parse::<Stakes>(), Err("`x` is not a power from 0 to 3".into()));
        assert_eq!("stakes.txt".parse(), Ok(Stakes::File("stakes.txt".into())));
    }

    #[test]
    fn largest_cluster_has_stake_without_overflow() {
        for spread in [Stakes::Equal, Stakes::Zipf(0.0), Stakes::default(), Stakes::Zipf(3.0)] {
            let all = spread.of(NODES_MAX).expect("made up");
            assert!(all.iter().try_fold(0u64, |sum, stake| sum.checked_add(*stake)).is_some(), "{spread}");
            assert!(all.iter().all(|stake| *stake > 0), "{spread}");
        }
    }

    #[test]
    fn a_file_has_a_stake_in_each_line() {
        assert_eq!(read("# identity stake\nabc 7\n\n9\n"), Ok(vec![7, 9]));
        assert_eq!(read("abc 7\nabc\n"), Err("line 2: `abc` is not a stake in lamports".into()));
        assert_eq!(read("# none\nabc 0\n"), Err("no node has stake".into()));
        let much = format!("{}\n1\n", u64::MAX);
        assert_eq!(read(&much), Err(format!("the stakes are more than {} lamports in all", u64::MAX)));
    }
}
