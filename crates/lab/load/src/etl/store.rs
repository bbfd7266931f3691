//! Where rows are kept: what every target can do.
//!
//! Rows and the position up to which a source was read are written together or not at all. So whatever breaks, the
//! next time goes on from what is really there, and nothing is there twice.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::row::{Batch, Merged, Row};

/// How far a source was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Bytes of a file, or the last height of a node.
    pub offset: u64,
    /// What the source was: a hash of the file's beginning, or the chain.
    pub identity: String,
    /// A hash of the file's last bytes before the offset.
    pub before: String,
}

/// What a node's metrics were at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// Whose.
    pub url: String,
    /// By name and labels, as they are served.
    pub values: BTreeMap<String, f64>,
}

/// Why a target gives or takes nothing.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database file.
    #[error("{path}: {why}", path = path.display())]
    Database {
        /// Which.
        path: PathBuf,
        /// What SQLite says.
        why: rusqlite::Error,
    },
    /// A file that is something else.
    #[error("{path} is no database of `hearth load etl`: name another", path = .0.display())]
    Foreign(PathBuf),
    /// Written by a later release.
    #[error("{path} was written by a later release (version {version})", path = path.display())]
    Later {
        /// Which.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// Redis is not there, or says no.
    #[error("Redis at {at}: {why}")]
    Redis {
        /// Where, without the password.
        at: String,
        /// What went wrong.
        why: redis::RedisError,
    },
    /// A key that holds something else.
    #[error("Redis at {at}: {key} holds something else; name another --redis-prefix")]
    Key {
        /// Where.
        at: String,
        /// Which.
        key: String,
    },
    /// Somebody else writes the same keys time and again.
    #[error("Redis at {at}: somebody else writes under the same prefix")]
    Contended {
        /// Where.
        at: String,
    },
}

impl StoreError {
    /// Whether it may be well again by itself.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Redis { .. } | Self::Contended { .. })
    }
}

/// A target that is read, too.
pub trait Store {
    /// How far a source was read.
    fn position(&mut self, source: &str) -> Result<Option<Position>, StoreError>;

    /// Adds what is new, and the source's position, both or neither.
    fn merge(&mut self, batch: &Batch, position: Option<(&str, &Position)>) -> Result<Merged, StoreError>;

    /// Gives each row in order of height, until it is told to stop by `false`.
    fn each(&mut self, heights: RangeInclusive<u64>, see: &mut dyn FnMut(&Row) -> bool) -> Result<(), StoreError>;

    /// Keeps a sample.
    fn add_sample(&mut self, sample: &Sample) -> Result<(), StoreError>;

    /// How many samples there are.
    fn samples(&mut self) -> Result<u64, StoreError>;
}
