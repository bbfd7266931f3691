//! Where rows are stored: the interface of every store.
//!
//! Rows and the position up to which a source was read are written atomically. So after any failure the next run
//! continues from what is really stored, and nothing is stored twice.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::row::{Batch, MergeCounts, Row};

/// How far a source was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Bytes of a file, or the last height of a node.
    pub offset: u64,
    /// Identity of the source: a hash of the file's beginning, or the chain.
    pub identity: String,
    /// A hash of the file's last bytes before the offset.
    pub before: String,
}

/// The values of a node's metrics at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Time of the sample, in milliseconds since 1970.
    pub time_ms: i64,
    /// URL of the metrics page.
    pub url: String,
    /// Values by name and labels, as served.
    pub values: BTreeMap<String, f64>,
}

/// Why a store cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database file cannot be opened, read or written.
    #[error("{path}: {why}", path = path.display())]
    Database {
        /// Path of the database file.
        path: PathBuf,
        /// SQLite's error, with its code.
        why: rusqlite::Error,
    },
    /// The file is not such a database.
    #[error("{path} is not a database of `hearth load etl`: name another", path = .0.display())]
    Foreign(PathBuf),
    /// The file was written by a later release.
    #[error("{path} was written by a later release (version {version})", path = path.display())]
    Later {
        /// Path of the database file.
        path: PathBuf,
        /// Schema version of the file, above the one known here.
        version: i64,
    },
    /// Redis cannot be reached, or refuses.
    #[error("Redis at {at}: {why}")]
    Redis {
        /// Address, without the password.
        at: String,
        /// Error of the Redis client: of the connection or of the server.
        why: redis::RedisError,
    },
    /// A key holds another type of value.
    #[error("Redis at {at}: {key} holds something else; name another --redis-prefix")]
    Key {
        /// Address, without the password.
        at: String,
        /// Name of the key.
        key: String,
    },
    /// Another client keeps changing the same keys.
    #[error("Redis at {at}: another program writes under the same prefix")]
    Contended {
        /// Address, without the password.
        at: String,
    },
}

impl StoreError {
    /// Returns whether the error may pass by itself.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Redis { .. } | Self::Contended { .. })
    }
}

/// A store for rows, which can also be read back.
pub trait Store {
    /// Returns how far a source was read.
    fn position(&mut self, source: &str) -> Result<Option<Position>, StoreError>;

    /// Adds new values and the source's position, atomically.
    fn merge(&mut self, batch: &Batch, position: Option<(&str, &Position)>) -> Result<MergeCounts, StoreError>;

    /// Passes each row to `see`, in order of height, until it returns `false`.
    fn each(&mut self, heights: RangeInclusive<u64>, see: &mut dyn FnMut(&Row) -> bool) -> Result<(), StoreError>;

    /// Stores a sample of a node's metrics.
    fn add_sample(&mut self, sample: &Sample) -> Result<(), StoreError>;

    /// Returns the number of samples.
    fn samples(&mut self) -> Result<u64, StoreError>;
}
