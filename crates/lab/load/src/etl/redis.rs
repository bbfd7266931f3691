//! Redis as a store.
//!
//! reads   its own keys, under the prefix `hearth:etl`
//! writes  `hearth:etl:block:191` (a row as JSON), `hearth:etl:heights` (a sorted set of them), `hearth:etl:positions`
//!         (a hash from source to position), `hearth:etl:samples` (a sorted set by time)
//! memory  a batch

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use redis::{Client, Connection, RedisError, cmd, pipe};
use serde_json::Value;

use super::row::{Batch, MergeCounts, Row, join};
use super::store::{Position, Sample, Store, StoreError};

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Rows that one command reads.
const TOGETHER: usize = 1000;
/// Attempts at a transaction while others change the same keys.
const TRIES_MAX: usize = 10;

/// A Redis server. Connects on demand, and again after an error.
pub struct Redis {
    client: Client,
    connection: Option<Connection>,
    at: String,
    prefix: String,
}

impl Redis {
    /// Connects to the server at a URL like `redis://:PASSWORD@HOST:PORT/DATABASE` or `redis+unix:///PATH`, and fails
    /// if it does not answer.
    pub fn open(url: &str, prefix: &str) -> Result<Self, StoreError> {
        // A password may stand before the address.
        let at = url.rsplit_once('@').map_or(url, |(_, address)| address).to_owned();
        let client = Client::open(url).map_err(|why| StoreError::Redis { at: at.clone(), why })?;
        let mut redis = Self { client, connection: None, at, prefix: prefix.into() };
        redis.ask(|connection| cmd("PING").exec(connection))?;
        Ok(redis)
    }

    fn ask<T>(&mut self, ask: impl FnOnce(&mut Connection) -> Result<T, RedisError>) -> Result<T, StoreError> {
        let answer = self.connected().and_then(ask);
        answer.map_err(|why| {
            // Dropping the connection also ends a pending WATCH.
            self.connection = None;
            StoreError::Redis { at: self.at.clone(), why }
        })
    }

    fn connected(&mut self) -> Result<&mut Connection, RedisError> {
        if self.connection.is_none() {
            let connection = self.client.get_connection_with_timeout(TIMEOUT)?;
            connection.set_read_timeout(Some(TIMEOUT))?;
            connection.set_write_timeout(Some(TIMEOUT))?;
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("just made"))
    }

    fn key(&self, what: &str) -> String {
        format!("{}:{what}", self.prefix)
    }

    fn block_key(&self, height: u64) -> String {
        format!("{}:block:{height}", self.prefix)
    }

    fn row(&self, height: u64, text: &str) -> Result<Row, StoreError> {
        let row = serde_json::from_str::<Value>(text).ok().and_then(|value| Row::from_json(&value));
        let row = row.filter(|row| row.height == height);
        row.ok_or_else(|| StoreError::Key { at: self.at.clone(), key: self.block_key(height) })
    }

    fn rows(&mut self, heights: &[u64]) -> Result<BTreeMap<u64, Row>, StoreError> {
        let mut rows = BTreeMap::new();
        for heights in heights.chunks(TOGETHER) {
            let keys: Vec<String> = heights.iter().map(|height| self.block_key(*height)).collect();
            let texts: Vec<Option<String>> = self.ask(|connection| cmd("MGET").arg(&keys).query(connection))?;
            for (height, text) in heights.iter().zip(texts) {
                if let Some(text) = text {
                    rows.insert(*height, self.row(*height, &text)?);
                }
            }
        }
        Ok(rows)
    }
}

impl Store for Redis {
    fn position(&mut self, source: &str) -> Result<Option<Position>, StoreError> {
        let key = self.key("positions");
        let text: Option<String> = self.ask(|connection| cmd("HGET").arg(&key).arg(source).query(connection))?;
        let parse = |text: String| serde_json::from_str(&text);
        text.map(parse).transpose().map_err(|_| StoreError::Key { at: self.at.clone(), key })
    }

    fn merge(&mut self, batch: &Batch, position: Option<(&str, &Position)>) -> Result<MergeCounts, StoreError> {
        let (heights_key, positions_key) = (self.key("heights"), self.key("positions"));
        let heights: Vec<u64> = batch.rows.keys().copied().collect();
        for _ in 0..TRIES_MAX {
            // If another client writes these keys from here on, the transaction below does nothing.
            let watched = (heights.iter().map(|height| self.block_key(*height))).chain([positions_key.clone()]);
            let watched: Vec<String> = watched.collect();
            self.ask(|connection| cmd("WATCH").arg(&watched).exec(connection))?;
            let (changed, merged) = join(self.rows(&heights)?, batch);
            let mut all = pipe();
            all.atomic();
            for row in &changed {
                all.cmd("SET").arg(self.block_key(row.height)).arg(row.to_json().to_string()).ignore();
                all.cmd("ZADD").arg(&heights_key).arg(row.height).arg(row.height).ignore();
            }
            if let Some((source, position)) = position {
                let text = serde_json::to_string(position).expect("plain data");
                all.cmd("HSET").arg(&positions_key).arg(source).arg(text).ignore();
            }
            all.cmd("PING").ignore();
            let done: Option<()> = self.ask(|connection| all.query(connection))?;
            if done.is_some() {
                return Ok(merged);
            }
        }
        Err(StoreError::Contended { at: self.at.clone() })
    }

    fn each(&mut self, heights: RangeInclusive<u64>, see: &mut dyn FnMut(&Row) -> bool) -> Result<(), StoreError> {
        let key = self.key("heights");
        let (mut from, to) = (*heights.start(), (*heights.end()).min(i64::MAX as u64));
        while from <= to {
            let found: Vec<u64> = self.ask(|connection| {
                let mut ask = cmd("ZRANGEBYSCORE");
                ask.arg(&key).arg(from).arg(to).arg("LIMIT").arg(0).arg(TOGETHER).query(connection)
            })?;
            let Some(last) = found.last().copied() else { break };
            for row in self.rows(&found)?.values() {
                if !see(row) {
                    return Ok(());
                }
            }
            from = last + 1;
        }
        Ok(())
    }

    fn add_sample(&mut self, sample: &Sample) -> Result<(), StoreError> {
        let (key, text) = (self.key("samples"), serde_json::to_string(sample).expect("plain data"));
        self.ask(|connection| cmd("ZADD").arg(&key).arg(sample.time_ms).arg(&text).exec(connection))
    }

    fn samples(&mut self) -> Result<u64, StoreError> {
        let key = self.key("samples");
        self.ask(|connection| cmd("ZCARD").arg(&key).query(connection))
    }
}
