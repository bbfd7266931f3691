//! The files of tests below a folder, and which suite a case is of.
//!
//! reads   the folder, in the order of names
//! memory  the files' names
//!
//! The content of a case identifies its suite, and is the same in both public repositories; RLP and trie tests, whose
//! cases look alike, are identified by the folder's or the file's name.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Folders of the repositories that hold other things than cases.
const OTHERS: [&str; 5] = ["execution-apis", ".git", "src", ".meta", "ABITests"];

/// A kind of tests, known by the form of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// Chains of blocks; with forks that begin on the way, transition tests.
    Blocks,
    /// One transaction in one state.
    State,
    /// Encoded transactions, to be decoded or refused.
    Transactions,
    /// Encodings in RLP, valid or invalid.
    Rlp,
    /// Keys and values of a trie, and its root.
    Trie(Keys),
    /// Recorded requests and answers.
    Rpc,
    /// A file of no other kind.
    Unknown,
}

/// How a trie's test means its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keys {
    /// They are hashed first.
    Hashed,
    /// They are as they stand, of any length.
    Plain,
    /// It is about which keys are neighbours.
    Neighbours,
}

impl Suite {
    /// Returns the name that the score shows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blockchain",
            Self::State => "state",
            Self::Transactions => "transaction",
            Self::Rlp => "RLP",
            Self::Trie(_) => "trie",
            Self::Rpc => "RPC",
            Self::Unknown => "unknown",
        }
    }
}

/// How a file begins that names content which is kept elsewhere.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Why a file has no cases.
#[derive(Debug)]
pub enum NoCases {
    /// It is a Git LFS pointer: what it names was not fetched.
    Pointer,
    /// It cannot be read, or is no file of tests.
    Unreadable(String),
}

/// A file of tests.
pub struct TestFile {
    path: PathBuf,
    /// From the folder on.
    pub name: String,
}

impl TestFile {
    /// The cases by name.
    ///
    /// # Errors
    /// It has none.
    pub fn cases(&self) -> Result<Vec<(String, Value)>, NoCases> {
        let unreadable = |why: &dyn std::fmt::Display| NoCases::Unreadable(why.to_string());
        let text = fs::read(&self.path).map_err(|error| unreadable(&error))?;
        if text.starts_with(LFS_POINTER) {
            return Err(NoCases::Pointer);
        }
        match serde_json::from_slice(&text).map_err(|error| unreadable(&error))? {
            // The one file of tries whose cases have no names.
            Value::Object(one) if one.contains_key("tests") => Ok(vec![(String::new(), Value::Object(one))]),
            Value::Object(cases) => Ok(cases.into_iter().collect()),
            _ => Err(unreadable(&"it holds no cases by name")),
        }
    }

    /// The suite of one of its cases.
    pub fn suite(&self, case: &Value) -> Suite {
        let has = |name: &str| case.get(name).is_some();
        let is_below = |folder: &str| self.name.split('/').any(|part| part == folder);
        if has("blocks") {
            Suite::Blocks
        } else if has("post") && has("transaction") {
            Suite::State
        } else if has("txbytes") {
            Suite::Transactions
        } else if is_below("RLPTests") {
            Suite::Rlp
        } else if is_below("TrieTests") {
            let file = self.name.to_ascii_lowercase();
            let is_hashed = file.contains("secure");
            let others = if file.contains("nextprev") { Keys::Neighbours } else { Keys::Plain };
            Suite::Trie(if is_hashed { Keys::Hashed } else { others })
        } else {
            Suite::Unknown
        }
    }
}

/// All files of tests below a folder, by name.
pub fn below(folder: &Path) -> Result<Vec<TestFile>, String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let failed = |error: std::io::Error| format!("{}: {error}", next.display());
        for entry in fs::read_dir(&next).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, name) = (entry.path(), entry.file_name());
            if path.is_dir() {
                if !OTHERS.iter().any(|other| *other == name) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "json") {
                let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
                files.push(TestFile { path, name });
            }
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn suites_are_recognized_by_their_cases() {
        let suite = |name: &str, case: Value| TestFile { path: PathBuf::new(), name: name.into() }.suite(&case);
        assert_eq!(suite("a/b.json", json!({ "blocks": [], "pre": {} })), Suite::Blocks);
        assert_eq!(suite("a/b.json", json!({ "post": {}, "transaction": {} })), Suite::State);
        assert_eq!(suite("a/b.json", json!({ "txbytes": "0x" })), Suite::Transactions);
        let plain = json!({ "in": [], "root": "0x" });
        assert_eq!(suite("tests/RLPTests/x.json", plain.clone()), Suite::Rlp);
        assert_eq!(suite("tests/TrieTests/trietest.json", plain.clone()), Suite::Trie(Keys::Plain));
        assert_eq!(suite("tests/TrieTests/trietest_secureTrie.json", plain.clone()), Suite::Trie(Keys::Hashed));
        assert_eq!(suite("a/b.json", plain), Suite::Unknown);
    }
}
