//! The values known of one height, from any source.
//!
//! memory  16 B for each row and each of the [`COLUMNS`]: the value, and whether it is known
//! drops   values that differ from known ones: counted in [`MergeCounts`]

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The kind of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A point in time, in milliseconds since 1970. A node that is restarted after a kill logs its last block again, so
    /// another value is no contradiction.
    Time,
    /// A duration in microseconds. As with times, another value is no contradiction.
    Duration,
    /// A number that the chain fixes: another value belongs to another chain.
    Count,
}

macro_rules! columns {
    ($($name:ident $column:literal $kind:ident $about:literal,)*) => {
        /// A column of a row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Column {
            $(#[doc = $about] $name,)*
        }

        /// All columns: variant, name in every store, kind, description.
        pub const COLUMNS: &[(Column, &str, Kind, &str)] =
            &[$((Column::$name, $column, Kind::$kind, $about),)*];
    };
}

columns! {
    Finalized "finalized_ms" Time "When CometBFT 0.38 logged that the application had executed the block.",
    Executed "executed_ms" Time "When CometBFT or Tendermint logged \"executed block\".",
    Committed "committed_ms" Time "When it logged \"committed state\".",
    Results "results" Count "CometBFT's transactions, valid or not; our node's are envelopes of about a hundred.",
    Valid "valid" Count "Of these, those with code 0.",
    Invalid "invalid" Count "Of these, those with another code.",
    Node "node_ms" Time "When our node logged the block.",
    Txs "txs" Count "Transactions in the EVM's block, by our node's log or by Web3.",
    GasUsed "gas_used" Count "Gas that they used.",
    GasLimit "gas_limit" Count "The gas limit of the EVM's block.",
    Begin "begin_us" Duration "Choosing transactions, and the calls before them.",
    Check "check_us" Duration "CPU time of checking what was submitted since the block before.",
    Deliver "deliver_us" Duration "Executing the transactions.",
    End "end_us" Duration "Receipts and their roots.",
    Commit "commit_us" Duration "Writing and publishing.",
    EvmCommit "evm_commit_us" Duration "The root of the state, and its commit.",
    Header "header_ms" Time "The time in CometBFT's header.",
    Web3 "web3_ms" Time "The time in the EVM's header: whole seconds.",
    ResultsGas "results_gas" Count "Gas by CometBFT's results.",
}

/// The greatest height: Redis sorts by numbers that are exact up to here.
pub const HEIGHT_MAX: u64 = 1 << 53;

/// A height and its known values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The height, [`HEIGHT_MAX`] at most.
    pub height: u64,
    /// A value for each of the [`COLUMNS`].
    pub values: [Option<i64>; COLUMNS.len()],
}

/// Counts of merged rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// Heights that were not known before.
    pub new: u64,
    /// Heights that gained values.
    pub more: u64,
    /// Known times and durations that came with another value.
    pub repeated: u64,
    /// Known counts that came with another value: the first stays.
    pub contradictions: u64,
}

impl std::ops::AddAssign for MergeCounts {
    fn add_assign(&mut self, other: Self) {
        self.new += other.new;
        self.more += other.more;
        self.repeated += other.repeated;
        self.contradictions += other.contradictions;
    }
}

impl Row {
    /// A height without any known value.
    pub fn new(height: u64) -> Self {
        Self { height, values: [None; COLUMNS.len()] }
    }

    /// Returns the row with one more value.
    pub fn with(mut self, column: Column, value: impl Into<Option<i64>>) -> Self {
        self.values[column as usize] = value.into();
        self
    }

    /// Returns the column's value, if known.
    pub fn get(&self, column: Column) -> Option<i64> {
        self.values[column as usize]
    }

    /// Adds the values of another row of the same height that are missing here. Known values stay.
    pub fn merge(&mut self, other: &Self) -> MergeCounts {
        let mut merged = MergeCounts::default();
        let mut gained = false;
        for ((mine, theirs), (_, _, kind, _)) in self.values.iter_mut().zip(&other.values).zip(COLUMNS) {
            match (*mine, *theirs) {
                (None, Some(_)) => (*mine, gained) = (*theirs, true),
                (Some(one), Some(other)) if one != other => match kind {
                    Kind::Count => merged.contradictions += 1,
                    Kind::Time | Kind::Duration => merged.repeated += 1,
                },
                _ => {}
            }
        }
        merged.more = u64::from(gained);
        merged
    }

    /// Returns an object of the known values.
    pub fn to_json(&self) -> Value {
        let known = COLUMNS.iter().zip(self.values).filter_map(|((_, name, ..), value)| Some((*name, value?)));
        let known = known.map(|(name, value)| (name.to_owned(), value.into()));
        Value::Object([("height".to_owned(), self.height.into())].into_iter().chain(known).collect::<Map<_, _>>())
    }

    /// Parses the object that [`Row::to_json`] returns; `None` if it has no valid height.
    pub fn from_json(value: &Value) -> Option<Self> {
        let mut row = Self::new(value.get("height")?.as_u64().filter(|height| *height <= HEIGHT_MAX)?);
        for ((_, name, ..), place) in COLUMNS.iter().zip(&mut row.values) {
            *place = value.get(*name).and_then(Value::as_i64);
        }
        Some(row)
    }
}

/// Rows to be written.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// One row per height, by height.
    pub rows: BTreeMap<u64, Row>,
    /// Counts of values that differed within the batch.
    pub merged: MergeCounts,
}

impl Batch {
    /// Adds a row, merging it with one of the same height.
    pub fn add(&mut self, row: Row) {
        match self.rows.get_mut(&row.height) {
            Some(known) => self.merged += MergeCounts { more: 0, ..known.merge(&row) },
            None => drop(self.rows.insert(row.height, row)),
        }
    }
}

/// Merges a batch with the stored rows. Returns the rows that must be written, and the counts.
pub fn join(mut stored: BTreeMap<u64, Row>, batch: &Batch) -> (Vec<Row>, MergeCounts) {
    let (mut changed, mut merged) = (Vec::new(), batch.merged);
    for row in batch.rows.values() {
        match stored.remove(&row.height) {
            Some(mut known) => {
                let change = known.merge(row);
                merged += change;
                changed.extend((change.more > 0).then_some(known));
            }
            None => {
                merged.new += 1;
                changed.push(row.clone());
            }
        }
    }
    (changed, merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_value_stays() {
        let mut row = Row::new(5).with(Column::Valid, 3).with(Column::Executed, 1000);
        let other = Row::new(5).with(Column::Valid, 4).with(Column::Executed, 2000).with(Column::Txs, 9);
        assert_eq!(row.merge(&other), MergeCounts { new: 0, more: 1, repeated: 1, contradictions: 1 });
        assert_eq!(row, Row::new(5).with(Column::Valid, 3).with(Column::Executed, 1000).with(Column::Txs, 9));
        assert_eq!(row.merge(&row.clone()), MergeCounts::default());
    }

    #[test]
    fn a_row_goes_through_json() {
        let row = Row::new(7).with(Column::Begin, 12).with(Column::Invalid, 0);
        assert_eq!(row.to_json().to_string(), r#"{"begin_us":12,"height":7,"invalid":0}"#);
        assert_eq!(Row::from_json(&row.to_json()), Some(row));
        assert_eq!(Row::from_json(&serde_json::json!({ "height": u64::MAX })), None);
        assert_eq!(Row::from_json(&serde_json::json!([1])), None);
    }

    #[test]
    fn columns_match_their_indices() {
        assert!(COLUMNS.iter().enumerate().all(|(index, (column, ..))| *column as usize == index));
    }
}
