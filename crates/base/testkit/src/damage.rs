//! Damage to files, from a seed: a flipped bit, a range of zeros, a cut.
//!
//! reads   a file's length
//! writes  the file, in place
//! memory  one range of zeros
//!
//! A test of a log makes a file with known content, damages a copy at each kind of place, opens it, and classifies the
//! outcome: refused by name, rebuilt, or truncated and reported. Anything else is a silent loss.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::random::Random;

/// The longest range that is zeroed: two pages, so that it may span any header and the record behind it.
const ZEROS_MAX: u64 = 8192;

/// One change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// One bit has the other value.
    Flip {
        /// Offset of its byte.
        at: u64,
        /// Which bit of the byte, 0 to 7.
        bit: u8,
    },
    /// A range of bytes is zero.
    Zero {
        /// Offset of the first byte.
        at: u64,
        /// How many bytes become zero.
        length: u64,
    },
    /// The file ends here.
    Cut {
        /// Its new length, bytes.
        length: u64,
    },
}

impl Mutation {
    /// Returns a mutation of a file of `length` bytes, at least 1. Half of them are at its head or its end, where
    /// headers and torn tails are; the others anywhere.
    pub fn random(random: &mut Random, length: u64) -> Self {
        assert!(length > 0, "an empty file has no place to damage");
        let near = length.min(128);
        let at = match random.below(4) {
            0 => random.below(near),
            1 => length - 1 - random.below(near),
            _ => random.below(length),
        };
        match random.below(3) {
            0 => Self::Flip { at, bit: random.below(8) as u8 },
            1 => Self::Zero { at, length: 1 + random.below(ZEROS_MAX.min(length - at)) },
            _ => Self::Cut { length: at },
        }
    }

    /// Returns a mutation of each kind at each of `places`, which are offsets in a file of `length` bytes: at the
    /// place itself, and at the bytes before and behind it.
    pub fn around(places: &[u64], length: u64) -> Vec<Self> {
        let mut offsets: Vec<u64> =
            places.iter().flat_map(|at| [at.saturating_sub(1), *at, at + 1]).filter(|at| *at < length).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let each = |at: u64| {
            let zeros = 64.min(length - at);
            [Self::Flip { at, bit: (at % 8) as u8 }, Self::Zero { at, length: zeros }, Self::Cut { length: at }]
        };
        offsets.into_iter().flat_map(each).collect()
    }

    /// Changes the file. Returns whether its content differs afterwards: zeros may have been zeros before.
    ///
    /// # Errors
    /// The file system's.
    pub fn apply(&self, path: &Path) -> io::Result<bool> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        match *self {
            Self::Flip { at, bit } => {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at)?;
                file.write_all_at(&[byte[0] ^ (1 << bit)], at)?;
                Ok(true)
            }
            Self::Zero { at, length } => {
                let mut before = vec![0; length as usize];
                file.read_exact_at(&mut before, at)?;
                file.write_all_at(&vec![0; length as usize], at)?;
                Ok(before.iter().any(|byte| *byte != 0))
            }
            Self::Cut { length } => {
                let before = file.metadata()?.len();
                file.set_len(length)?;
                Ok(length != before)
            }
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flip { at, bit } => write!(f, "bit {bit} of byte {at} flipped"),
            Self::Zero { at, length } => write!(f, "{length} bytes from byte {at} on zeroed"),
            Self::Cut { length } => write!(f, "cut to {length} bytes"),
        }
    }
}

/// Outcome of opening a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The start ended with an error that names the file.
    Refused,
    /// Everything that was acknowledged is there.
    Whole,
    /// The start succeeded; a request for the missing data gets an error that names the file.
    Named,
    /// Data is missing; the start reported it and named the file.
    Cut,
    /// Data is missing without any report: the only failure.
    Silent,
}

impl Outcome {
    const ALL: [Self; 5] = [Self::Refused, Self::Whole, Self::Named, Self::Cut, Self::Silent];
}

/// How often each kind of file had each outcome; shown as a table.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    counts: BTreeMap<(String, Outcome), u64>,
    silent: Vec<String>,
}

impl Tally {
    /// Counts a trial on a file of this kind. `what` names the file and the mutation.
    pub fn add(&mut self, kind: &str, outcome: Outcome, what: impl fmt::Display) {
        *self.counts.entry((kind.to_owned(), outcome)).or_default() += 1;
        if outcome == Outcome::Silent {
            self.silent.push(what.to_string());
        }
    }

    /// How many trials there were.
    pub fn trials(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The trials in which data was missing without a report.
    pub fn silent(&self) -> &[String] {
        &self.silent
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<28}", "file")?;
        Outcome::ALL.iter().try_for_each(|outcome| write!(f, " {:>8}", format!("{outcome:?}").to_lowercase()))?;
        let mut kinds: Vec<&String> = self.counts.keys().map(|(kind, _)| kind).collect();
        kinds.dedup();
        for kind in kinds {
            write!(f, "\n{kind:<28}")?;
            for outcome in Outcome::ALL {
                write!(f, " {:>8}", self.counts.get(&(kind.clone(), outcome)).copied().unwrap_or(0))?;
            }
        }
        Ok(())
    }
}

/// Lists the nonempty files below `folder`, as paths relative to it, by kind: the folder's name and the extension, or
/// the file's own name if it has none or is at the top. Locks are left out.
///
/// # Errors
/// The file system's.
pub fn files(folder: &Path) -> io::Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut kinds = BTreeMap::<String, Vec<PathBuf>>::new();
    let mut places = vec![PathBuf::new()];
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(folder.join(&place))? {
            let entry = entry?;
            let (name, metadata) = (entry.file_name(), entry.metadata()?);
            let path = place.join(&name);
            if metadata.is_dir() {
                places.push(path);
                continue;
            }
            if metadata.len() == 0 || name.to_string_lossy().contains("lock") {
                continue;
            }
            let kind = match path.extension().filter(|_| !place.as_os_str().is_empty()) {
                Some(extension) => place.join(format!("*.{}", extension.to_string_lossy())),
                None => path.clone(),
            };
            kinds.entry(kind.display().to_string()).or_default().push(path);
        }
    }
    kinds.values_mut().for_each(|files| files.sort());
    Ok(kinds)
}

/// Copies a folder with all of its contents.
///
/// # Errors
/// The file system's.
pub fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mutation_changes_what_it_says() {
        let path = std::env::temp_dir().join(format!("hearth-damage-{}", std::process::id()));
        let content: Vec<u8> = (0..=255).collect();
        let after = |mutation: Mutation| {
            std::fs::write(&path, &content).unwrap();
            (mutation.apply(&path).unwrap(), std::fs::read(&path).unwrap())
        };
        let (changed, bytes) = after(Mutation::Flip { at: 200, bit: 3 });
        assert!(changed && bytes[200] == 200 ^ 8 && bytes[..200] == content[..200] && bytes[201..] == content[201..]);
        let (changed, bytes) = after(Mutation::Zero { at: 9, length: 5 });
        assert!(changed && bytes[9..14] == [0; 5] && bytes[8] == 8 && bytes[14..] == content[14..]);
        assert_eq!(after(Mutation::Cut { length: 40 }), (true, content[..40].to_vec()));
        assert!(!after(Mutation::Zero { at: 0, length: 1 }).0, "it was zero");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn files_are_distinguished_by_folder_and_extension() {
        let folder = std::env::temp_dir().join(format!("hearth-damage-files-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("from/blocks")).unwrap();
        for name in ["from/a.json", "from/blocks/2.log", "from/blocks/1.log", "from/blocks/lock"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        copy_folder(&folder.join("from"), &folder.join("to")).unwrap();
        let found = files(&folder.join("to")).unwrap();
        let expected = [("a.json", vec!["a.json"]), ("blocks/*.log", vec!["blocks/1.log", "blocks/2.log"])];
        let expected = expected.map(|(kind, files)| (kind.to_owned(), files.iter().map(PathBuf::from).collect()));
        assert_eq!(found, BTreeMap::from(expected));
        std::fs::remove_dir_all(&folder).unwrap();
        let mut tally = Tally::default();
        tally.add("blocks/*.log", Outcome::Whole, "x");
        tally.add("blocks/*.log", Outcome::Silent, "1.log: cut");
        assert_eq!((tally.trials(), tally.silent()), (2, &["1.log: cut".to_owned()][..]));
        assert!(tally.to_string().ends_with("0        1        0        0        1"), "{tally}");
    }

    #[test]
    fn mutations_lie_within_the_file() {
        let mut random = Random(7);
        for length in [1, 2, 100, 5000] {
            for _ in 0..500 {
                match Mutation::random(&mut random, length) {
                    Mutation::Flip { at, bit } => assert!(at < length && bit < 8),
                    Mutation::Zero { at, length: zeros } => assert!(zeros > 0 && at + zeros <= length),
                    Mutation::Cut { length: left } => assert!(left < length),
                }
            }
        }
        assert_eq!(Mutation::around(&[0, 64], 65).len(), 3 * 4, "bytes 0, 1, 63 and 64");
    }
}
