//! A SQLite database file as a store.
//!
//! reads   a SQLite file
//! writes  the tables `blocks` (a row a height), `positions`, `samples`
//! memory  a batch

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params, params_from_iter};

use super::row::{Batch, COLUMNS, MergeCounts, Row, join};
use super::store::{Position, Sample, Store, StoreError};

/// SQLite stores this in the file's header: "Hrth".
const APPLICATION: i64 = 0x4872_7468;
/// Schema version of the tables.
const VERSION: i64 = 1;
/// How long to wait for another process that locks the file.
const BUSY: Duration = Duration::from_secs(10);

/// An open database file.
pub struct Database {
    path: PathBuf,
    connection: Connection,
}

impl Database {
    /// Opens the file, or creates it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |why| of(path, why);
        let mut connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(BUSY).map_err(failed)?;
        let pragma = |connection: &Connection, name: &str| {
            connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
        };
        let begin = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let tables = begin.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
        if tables.map_err(failed)? == 0 {
            begin.execute_batch(&schema()).map_err(failed)?;
        }
        let (application, version) = pragma(&begin, "application_id")
            .and_then(|id| Ok((id, pragma(&begin, "user_version")?)))
            .map_err(failed)?;
        if application != APPLICATION {
            return Err(StoreError::Foreign(path.into()));
        }
        if version > VERSION {
            return Err(StoreError::Later { path: path.into(), version });
        }
        begin.commit().map_err(failed)?;
        Ok(Self { path: path.into(), connection })
    }

    fn write(
        &mut self,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<MergeCounts>,
    ) -> Result<MergeCounts, StoreError> {
        let behavior = TransactionBehavior::Immediate;
        let all = self.connection.transaction_with_behavior(behavior).and_then(|transaction| {
            let merged = act(&transaction)?;
            transaction.commit()?;
            Ok(merged)
        });
        all.map_err(|why| of(&self.path, why))
    }
}

fn of(path: &Path, why: rusqlite::Error) -> StoreError {
    match why.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => StoreError::Foreign(path.into()),
        _ => StoreError::Database { path: path.into(), why },
    }
}

fn schema() -> String {
    let columns: String = COLUMNS.iter().map(|(_, name, ..)| format!(", {name} INTEGER")).collect();
    format!(
        "CREATE TABLE blocks (height INTEGER PRIMARY KEY{columns});
         CREATE TABLE positions (source TEXT PRIMARY KEY, offset INTEGER NOT NULL, identity TEXT NOT NULL,
                                 before TEXT NOT NULL);
         CREATE TABLE samples (time_ms INTEGER NOT NULL, url TEXT NOT NULL, metrics TEXT NOT NULL,
                               PRIMARY KEY (time_ms, url));
         PRAGMA application_id = {APPLICATION};
         PRAGMA user_version = {VERSION};"
    )
}

fn names() -> String {
    COLUMNS.iter().map(|(_, name, ..)| format!(", {name}")).collect()
}

fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let mut known = Row::new(row.get::<_, i64>(0)?.max(0) as u64);
    for (index, value) in known.values.iter_mut().enumerate() {
        *value = row.get(index + 1)?;
    }
    Ok(known)
}

impl Store for Database {
    fn position(&mut self, source: &str) -> Result<Option<Position>, StoreError> {
        let known = self.connection.query_row(
            "SELECT offset, identity, before FROM positions WHERE source = ?",
            [source],
            |row| {
                let offset = row.get::<_, i64>(0)?.max(0) as u64;
                Ok(Position { offset, identity: row.get(1)?, before: row.get(2)? })
            },
        );
        known.optional().map_err(|why| of(&self.path, why))
    }

    fn merge(&mut self, batch: &Batch, position: Option<(&str, &Position)>) -> Result<MergeCounts, StoreError> {
        self.write(|transaction| {
            let names = names();
            let mut find = transaction.prepare(&format!("SELECT height{names} FROM blocks WHERE height = ?"))?;
            let mut stored = BTreeMap::new();
            for height in batch.rows.keys() {
                if let Some(known) = find.query_row([*height as i64], row).optional()? {
                    stored.insert(*height, known);
                }
            }
            let (changed, merged) = join(stored, batch);
            let places = ", ?".repeat(COLUMNS.len());
            let mut put =
                transaction.prepare(&format!("INSERT OR REPLACE INTO blocks (height{names}) VALUES (?{places})"))?;
            for row in changed {
                put.execute(params_from_iter([Some(row.height as i64)].into_iter().chain(row.values)))?;
            }
            if let Some((source, Position { offset, identity, before })) = position {
                transaction.execute(
                    "INSERT OR REPLACE INTO positions (source, offset, identity, before) VALUES (?, ?, ?, ?)",
                    params![source, *offset as i64, identity, before],
                )?;
            }
            Ok(merged)
        })
    }

    fn each(&mut self, heights: RangeInclusive<u64>, see: &mut dyn FnMut(&Row) -> bool) -> Result<(), StoreError> {
        let within = |height: u64| i64::try_from(height).unwrap_or(i64::MAX);
        let text = format!("SELECT height{} FROM blocks WHERE height BETWEEN ? AND ? ORDER BY height", names());
        let mut all = || -> rusqlite::Result<()> {
            let mut select = self.connection.prepare(&text)?;
            let mut rows = select.query([within(*heights.start()), within(*heights.end())])?;
            while let Some(next) = rows.next()? {
                if !see(&row(next)?) {
                    break;
                }
            }
            Ok(())
        };
        all().map_err(|why| of(&self.path, why))
    }

    fn add_sample(&mut self, sample: &Sample) -> Result<(), StoreError> {
        let metrics = serde_json::to_string(&sample.values).expect("plain data");
        let text = "INSERT OR REPLACE INTO samples (time_ms, url, metrics) VALUES (?, ?, ?)";
        let added = self.connection.execute(text, params![sample.time_ms, sample.url, metrics]);
        added.map(drop).map_err(|why| of(&self.path, why))
    }

    fn samples(&mut self) -> Result<u64, StoreError> {
        let count = self.connection.query_row("SELECT count(*) FROM samples", [], |row| row.get::<_, i64>(0));
        count.map(|count| count as u64).map_err(|why| of(&self.path, why))
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::Column;
    use super::*;

    #[test]
    fn rows_and_position_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load.db");
        let position = Position { offset: 70, identity: "one".into(), before: "two".into() };
        let mut batch = Batch::default();
        batch.add(Row::new(3).with(Column::Valid, 5));
        batch.add(Row::new(1).with(Column::Valid, 2));
        let merged = Database::open(&path).unwrap().merge(&batch, Some(("a log", &position))).unwrap();
        assert_eq!(merged, MergeCounts { new: 2, ..MergeCounts::default() });
        let mut database = Database::open(&path).unwrap();
        assert_eq!(database.position("a log").unwrap(), Some(position));
        assert_eq!(database.position("another").unwrap(), None);
        assert_eq!(database.merge(&batch, None).unwrap(), MergeCounts::default());
        let mut more = Batch::default();
        more.add(Row::new(3).with(Column::Valid, 6).with(Column::Txs, 500));
        assert_eq!(
            database.merge(&more, None).unwrap(),
            MergeCounts { more: 1, contradictions: 1, ..MergeCounts::default() }
        );
        let mut seen = vec![];
        database
            .each(1..=u64::MAX, &mut |row| {
                seen.push(row.clone());
                true
            })
            .unwrap();
        let third = Row::new(3).with(Column::Valid, 5).with(Column::Txs, 500);
        assert_eq!(seen, [Row::new(1).with(Column::Valid, 2), third]);
        let sample = Sample { time_ms: 5, url: "u".into(), values: BTreeMap::from([("a".into(), 1.5)]) };
        database.add_sample(&sample).unwrap();
        database.add_sample(&sample).unwrap();
        assert_eq!(database.samples().unwrap(), 1);
    }

    #[test]
    fn another_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("notes");
        std::fs::write(&text, "not a database, but as long as the header of one would be, and longer, whatever it is")
            .unwrap();
        assert!(matches!(Database::open(&text), Err(StoreError::Foreign(_))));
        let other = folder.path().join("other.db");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE cats (name TEXT)").unwrap();
        assert!(matches!(Database::open(&other), Err(StoreError::Foreign(_))));
        let later = folder.path().join("later.db");
        drop(Database::open(&later).unwrap());
        Connection::open(&later).unwrap().execute_batch("PRAGMA user_version = 9").unwrap();
        assert!(matches!(Database::open(&later), Err(StoreError::Later { version: 9, .. })));
    }
}
