//! Writes rows as tables for other programs: CSV, Parquet.
//!
//! reads   all rows of the store
//! writes  the file, under a temporary name until it is complete
//! memory  for Parquet a group of rows

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Repetition, Type as Physical};
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::row::{COLUMNS, Row};
use super::store::{Store, StoreError};

/// Rows per Parquet group, whose columns are stored together.
const GROUP_ROWS: usize = 65_536;

/// Why a table cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file cannot be written.
    #[error("{path}: {why}", path = path.display())]
    File {
        /// Path of the table.
        path: PathBuf,
        /// Why the file could not be written, as the system says it.
        why: io::Error,
    },
    /// The Parquet writer failed.
    #[error("{path}: {why}", path = path.display())]
    Parquet {
        /// Path of the table.
        path: PathBuf,
        /// Error of the Parquet writer, such as an I/O error.
        why: ParquetError,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes a file under a temporary name, and renames it once it is complete.
fn whole<T>(path: &Path, write: impl FnOnce(File) -> Result<T, TableError>) -> Result<T, TableError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    let failed = |why| TableError::File { path: path.into(), why };
    let written = File::create(&part).map_err(failed).and_then(write);
    let named = written.and_then(|written| fs::rename(&part, path).map_err(failed).map(|()| written));
    if named.is_err() {
        let _ = fs::remove_file(&part);
    }
    named
}

/// Writes `height,` and all columns, one row per line; unknown values are empty. Returns the number of rows.
pub fn csv(path: &Path, store: &mut dyn Store, heights: RangeInclusive<u64>) -> Result<u64, TableError> {
    whole(path, |file| {
        let mut out = BufWriter::new(file);
        let names: String = COLUMNS.iter().map(|(_, name, ..)| format!(",{name}")).collect();
        let mut written = writeln!(out, "height{names}");
        let mut rows = 0;
        store.each(heights, &mut |row| {
            let values = row.values.map(|value| value.map_or_else(String::new, |value| value.to_string()));
            rows += 1;
            written = written.as_mut().map_or(Ok(()), |()| writeln!(out, "{},{}", row.height, values.join(",")));
            written.is_ok()
        })?;
        let ended = written.and_then(|()| out.flush());
        ended.map_err(|why| TableError::File { path: path.into(), why })?;
        Ok(rows)
    })
}

fn schema() -> Result<Type, ParquetError> {
    let column = |name: &str, repetition| {
        Type::primitive_type_builder(name, Physical::INT64).with_repetition(repetition).build().map(Arc::new)
    };
    let height = [column("height", Repetition::REQUIRED)];
    let others = COLUMNS.iter().map(|(_, name, ..)| column(name, Repetition::OPTIONAL));
    let fields = height.into_iter().chain(others).collect::<Result<_, _>>()?;
    Type::group_type_builder("blocks").with_fields(fields).build()
}

/// Writes the same as Parquet: 64-bit integers, null for unknown values. Returns the number of rows.
pub fn parquet(path: &Path, store: &mut dyn Store, heights: RangeInclusive<u64>) -> Result<u64, TableError> {
    let failed = |why| TableError::Parquet { path: path.into(), why };
    whole(path, |file| {
        let out = BufWriter::new(file);
        let schema = Arc::new(schema().map_err(failed)?);
        let mut writer = SerializedFileWriter::new(out, schema, Default::default()).map_err(failed)?;
        let (mut group, mut rows, mut written) = (Vec::new(), 0, Ok(()));
        store.each(heights, &mut |row| {
            group.push(row.clone());
            rows += 1;
            if group.len() == GROUP_ROWS {
                written = add(&mut writer, &group);
                group.clear();
            }
            written.is_ok()
        })?;
        written.map_err(failed)?;
        if !group.is_empty() {
            add(&mut writer, &group).map_err(failed)?;
        }
        let mut out = writer.into_inner().map_err(failed)?;
        out.flush().map_err(|why| TableError::File { path: path.into(), why })?;
        Ok(rows)
    })
}

fn add(writer: &mut SerializedFileWriter<BufWriter<File>>, rows: &[Row]) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    let mut index = 0;
    while let Some(mut column) = group.next_column()? {
        let typed = column.typed::<Int64Type>();
        match index {
            0 => {
                let heights: Vec<i64> = rows.iter().map(|row| row.height as i64).collect();
                typed.write_batch(&heights, None, None)?;
            }
            _ => {
                let values = rows.iter().map(|row| row.values[index - 1]);
                let levels: Vec<i16> = values.clone().map(|value| i16::from(value.is_some())).collect();
                let known: Vec<i64> = values.flatten().collect();
                typed.write_batch(&known, Some(&levels), None)?;
            }
        }
        column.close()?;
        index += 1;
    }
    group.close().map(drop)
}
