//! Block data that a node serves: over Web3, CometBFT's RPC, or its metrics.
//!
//! reads   answers over HTTP
//! writes  rows and samples, and the last height read, to a [`Store`]
//! memory  the answers for [`TOGETHER`] blocks; a page of metrics, 8 MiB at most
//! drops   unknown or malformed parts of an answer; results that a node no longer has are counted

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::DateTime;
use hearth_rpc_client::http::{self, Agent, Patience};
use hearth_tile::clock::unix_time;
use serde_json::{Value, json};

use super::row::{Batch, Column, HEIGHT_MAX, MergeCounts, Row};
use super::store::{Position, Sample, Store, StoreError};
use crate::rpc::{Refusal, Rpc, RpcError};

/// Blocks that are requested and written together.
const TOGETHER: u64 = 20;
/// CometBFT answers at most this many calls in one request.
const BATCH: usize = 10;
/// A node may report its newest heights before it can serve their blocks.
const EARLY: u64 = 16;
/// How many of the newest heights are read if no first height is given and nothing is stored.
pub const NEWEST: u64 = 10_000;
/// The longest page of metrics, and the most values of one.
const PAGE_BYTES_MAX: u64 = 8 << 20;
const VALUES_MAX: usize = 2000;

/// Why reading from a node failed.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The node does not answer, or refuses.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The metrics cannot be read.
    #[error("{url}: {why}")]
    Metrics {
        /// URL of the metrics.
        url: String,
        /// Why they cannot be read.
        why: String,
    },
    /// The URL now serves another chain than before.
    #[error("{url} is of another chain than what was read from there before ({why}); name another --db or prefix")]
    OtherChain {
        /// URL of the node.
        url: String,
        /// The difference that shows it.
        why: String,
    },
    /// The node no longer has these blocks.
    #[error(
        "{url} does not keep height {height} any more{}: name another node, or --from and what it has",
        match first { Some(first) => format!(", its first is {first}"), None => format!(" ({why})") }
    )]
    Pruned {
        /// URL of the node.
        url: String,
        /// The height that was to be read.
        height: u64,
        /// The first height that the node has, if it says so.
        first: Option<u64>,
        /// Why the node does not return the height, in its own words.
        why: String,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The range of wanted heights.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heights {
    /// The first height [default: after the last stored one, or among the newest].
    pub from: Option<u64>,
    /// The last height; `None` follows the chain's end.
    pub to: Option<u64>,
}

/// The protocol of a node.
enum Language {
    Web3,
    Comet,
}

/// A node that serves blocks.
pub struct Blocks {
    rpc: Rpc,
    language: Language,
    wanted: Heights,
    /// The next height to read, once known.
    next: Option<u64>,
    identity: String,
    /// Heights whose results the node does not have.
    pub without_results: u64,
    /// Heights whose blocks the node does not have.
    pub forgotten: u64,
    /// Number of heights that were read.
    pub read: u64,
}

/// A URL without the part that may contain a password.
fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.into() };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}://{}{path}", host.rsplit_once('@').map_or(host, |(_, host)| host))
}

impl Blocks {
    /// A node that speaks Ethereum's JSON-RPC.
    pub fn web3(url: &str, timeout: Duration, wanted: Heights) -> Result<Self, LiveError> {
        Self::new(url, timeout, wanted, Language::Web3)
    }

    /// A node that speaks CometBFT's RPC.
    pub fn comet(url: &str, timeout: Duration, wanted: Heights) -> Result<Self, LiveError> {
        Self::new(url, timeout, wanted, Language::Comet)
    }

    fn new(url: &str, timeout: Duration, wanted: Heights, language: Language) -> Result<Self, LiveError> {
        let rpc = Rpc::new(url, timeout)?;
        Ok(Self {
            rpc,
            language,
            wanted,
            next: None,
            identity: String::new(),
            without_results: 0,
            forgotten: 0,
            read: 0,
        })
    }

    fn source(&self) -> String {
        let language = match self.language {
            Language::Web3 => "web3",
            Language::Comet => "comet",
        };
        format!("{language}:{}", shown(self.rpc.url()))
    }

    /// Reads the chain's identity, the first height that the node has, and its newest.
    fn look(&self) -> Result<(String, u64, u64), LiveError> {
        match self.language {
            Language::Web3 => {
                let newest = self.rpc.number("eth_blockNumber", &json!([]))?;
                if !self.identity.is_empty() {
                    return Ok((self.identity.clone(), 0, newest));
                }
                let chain = self.rpc.number("eth_chainId", &json!([]))?;
                let first = self.rpc.call("eth_getBlockByNumber", &json!(["0x0", false])).unwrap_or_default();
                Ok((format!("{chain} {}", first["hash"].as_str().unwrap_or_default()), 0, newest))
            }
            Language::Comet => {
                let status = self.rpc.call("status", &json!({}))?;
                let sync = &status["sync_info"];
                let newest = self.field("status", sync, "latest_block_height")?;
                let first = number(&sync["earliest_block_height"]).unwrap_or(1);
                Ok((status["node_info"]["network"].as_str().unwrap_or_default().into(), first.max(1), newest))
            }
        }
    }

    fn field(&self, method: &str, object: &Value, name: &str) -> Result<u64, LiveError> {
        let garbled = || RpcError::Garbled {
            url: shown(self.rpc.url()),
            method: method.into(),
            why: format!("`{name}` is not a number"),
        };
        Ok(number(&object[name]).ok_or_else(garbled)?)
    }

    /// Reads the heights that are available and not stored yet.
    pub fn pass(
        &mut self,
        store: &mut dyn Store,
        merged: &mut MergeCounts,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), LiveError> {
        let source = self.source();
        let (identity, first, newest) = self.look()?;
        let known = store.position(&source)?;
        let other = |why: String| LiveError::OtherChain { url: shown(self.rpc.url()), why };
        if let Some(known) = &known {
            if known.identity != identity {
                return Err(other(format!("`{identity}`, not `{}`", known.identity)));
            }
            if newest < known.offset {
                return Err(other(format!("it is at height {newest}, and {} was read", known.offset)));
            }
        }
        self.identity.clone_from(&identity);
        let begin = self.wanted.from.or(known.map(|known| known.offset + 1));
        let begin = begin.unwrap_or_else(|| newest.saturating_sub(NEWEST - 1).max(first));
        let last = newest.min(self.wanted.to.unwrap_or(HEIGHT_MAX));
        let mut next = self.next.unwrap_or(begin).max(self.least());
        if next < first && next <= last {
            return Err(self.pruned(next, Some(first), String::new()));
        }
        while next <= last && !stop() {
            let end = last.min(next + TOGETHER - 1);
            let mut batch = Batch::default();
            let whole = match self.language {
                Language::Web3 => self.web3_rows(next, end, newest, &mut batch)?,
                Language::Comet => self.comet_rows(next, end, &mut batch)?,
            };
            let Some(offset) = whole else { break };
            let position = Position { offset, identity: identity.clone(), before: String::new() };
            *merged += store.merge(&batch, Some((&source, &position)))?;
            self.read += offset + 1 - next;
            next = offset + 1;
            self.next = Some(next);
            if offset < end {
                break;
            }
        }
        Ok(())
    }

    /// The first possible height: CometBFT's chains begin with 1.
    fn least(&self) -> u64 {
        match self.language {
            Language::Web3 => 0,
            Language::Comet => 1,
        }
    }

    fn pruned(&self, height: u64, first: Option<u64>, why: String) -> LiveError {
        LiveError::Pruned { url: shown(self.rpc.url()), height, first, why }
    }

    /// Reads the rows of some heights and returns the last height handled.
    fn web3_rows(&mut self, from: u64, to: u64, newest: u64, batch: &mut Batch) -> Result<Option<u64>, LiveError> {
        const METHOD: &str = "eth_getBlockByNumber";
        let questions: Vec<Value> = (from..=to).map(|height| json!([format!("{height:#x}"), false])).collect();
        let mut last = None;
        for (height, block) in (from..).zip(self.rpc.batch::<Value>(METHOD, &questions)?) {
            let block = match block {
                Ok(block) => block,
                Err(Refusal { code, message, .. }) if is_pruned(code, &message) => {
                    return Err(self.pruned(height, None, message));
                }
                Err(refusal) => return Err(refusal.into_error(METHOD).into()),
            };
            let Some(txs) = block["transactions"].as_array() else {
                // A node may report a new block before it can serve it, and can do so next time. An old block does not
                // come back.
                if height + EARLY > newest {
                    break;
                }
                self.forgotten += 1;
                last = Some(height);
                continue;
            };
            let quantity = |name: &str| hex(&block[name]);
            let row = Row::new(height)
                .with(Column::Txs, txs.len() as i64)
                .with(Column::GasUsed, quantity("gasUsed"))
                .with(Column::GasLimit, quantity("gasLimit"))
                .with(Column::Web3, quantity("timestamp").and_then(|seconds| seconds.checked_mul(1000)));
            batch.add(row);
            last = Some(height);
        }
        Ok(last)
    }

    fn comet_rows(&mut self, from: u64, to: u64, batch: &mut Batch) -> Result<Option<u64>, LiveError> {
        let range = json!({ "minHeight": from.to_string(), "maxHeight": to.to_string() });
        let metas = match self.rpc.call("blockchain", &range) {
            Err(why @ RpcError::Refused { .. }) => {
                // The node may have pruned them since it reported its first height.
                let (_, first, _) = self.look()?;
                return Err(match first > from {
                    true => self.pruned(from, Some(first), why.reason()),
                    false => why.into(),
                });
            }
            answer => answer?,
        };
        let mut rows = BTreeMap::new();
        for meta in metas["block_metas"].as_array().into_iter().flatten() {
            let height = self.field("blockchain", &meta["header"], "height")?;
            let time = meta["header"]["time"].as_str().and_then(|time| DateTime::parse_from_rfc3339(time).ok());
            let row = Row::new(height)
                .with(Column::Header, time.map(|time| time.timestamp_millis()))
                .with(Column::Results, number(&meta["num_txs"]).map(|count| count as i64));
            if (from..=to).contains(&height) {
                rows.insert(height, row);
            }
        }
        let last = rows.keys().last().copied();
        let heights: Vec<u64> = rows.keys().copied().collect();
        for heights in heights.chunks(BATCH) {
            for (height, results) in heights.iter().zip(self.results(heights)?) {
                let row = rows.remove(height).expect("asked for what is there");
                match results {
                    Some(results) => batch.add(with_results(row, &results)),
                    None => {
                        self.without_results += 1;
                        batch.add(row);
                    }
                }
            }
        }
        Ok(last)
    }

    /// Reads the results of each height; none if the node does not have them.
    fn results(&self, heights: &[u64]) -> Result<Vec<Option<Value>>, LiveError> {
        const METHOD: &str = "block_results";
        let question = |height: &u64| json!({ "height": height.to_string() });
        // CometBFT answers a batch of one call without the enclosing array.
        if let [height] = heights {
            return match self.rpc.call(METHOD, &question(height)) {
                Ok(results) => Ok(vec![Some(results)]),
                Err(RpcError::Refused { .. }) => Ok(vec![None]),
                Err(why) => Err(why.into()),
            };
        }
        let questions: Vec<Value> = heights.iter().map(question).collect();
        Ok(self.rpc.batch::<Value>(METHOD, &questions)?.into_iter().map(Result::ok).collect())
    }
}

/// Returns whether a refusal means that the block was pruned: by EIP-4444's code, or by its wording. Messages with "not
/// available" do not count, as they may mean the newest block or a busy node.
fn is_pruned(code: i64, message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    code == 4444 || ["prune", "lowest height", "missing trie node"].iter().any(|it| message.contains(it))
}

fn with_results(row: Row, results: &Value) -> Row {
    let all = results["txs_results"].as_array().map_or(&[][..], Vec::as_slice);
    let invalid = all.iter().filter(|result| number(&result["code"]).unwrap_or(0) != 0).count() as i64;
    let gas = all.iter().filter_map(|result| number(&result["gas_used"])).fold(0_u64, u64::saturating_add);
    row.with(Column::Results, all.len() as i64)
        .with(Column::Valid, all.len() as i64 - invalid)
        .with(Column::Invalid, invalid)
        .with(Column::ResultsGas, i64::try_from(gas).ok())
}

/// Parses a number, or one in a string.
fn number(value: &Value) -> Option<u64> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number.filter(|number| *number <= HEIGHT_MAX)
}

/// Parses a quantity like `"0x1f"`.
fn hex(value: &Value) -> Option<i64> {
    i64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok().filter(|value| *value >= 0)
}

/// A metrics page that is sampled from time to time.
pub struct Metrics {
    agent: Agent,
    url: String,
}

impl Metrics {
    /// The page at a URL.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, LiveError> {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            let expected = "http://HOST:PORT or https://…";
            return Err(RpcError::Url { url: url.into(), expected }.into());
        }
        Ok(Self { agent: http::by_environment(Patience::Whole(timeout)), url: url.into() })
    }

    /// Stores a sample of the current values.
    pub fn sample(&self, store: &mut dyn Store) -> Result<(), LiveError> {
        let failed = |error: http::Error| LiveError::Metrics { url: shown(&self.url), why: http::why(&error) };
        let text = http::get(&self.agent, &self.url, PAGE_BYTES_MAX).map_err(failed)?;
        let values = figures(&text);
        if values.is_empty() {
            let why = "no metrics in Prometheus' text format".into();
            return Err(LiveError::Metrics { url: shown(&self.url), why });
        }
        let time_ms = unix_time().as_millis() as i64;
        Ok(store.add_sample(&Sample { time_ms, url: shown(&self.url), values })?)
    }
}

/// Parses a page in Prometheus' text format into values by name and labels: all finite ones except histogram buckets.
pub fn figures(text: &str) -> BTreeMap<String, f64> {
    let figure = |line: &str| {
        let line = line.trim();
        let end = match line.rfind('}') {
            Some(brace) => brace + 1,
            None => line.find(char::is_whitespace)?,
        };
        let (name, rest) = line.split_at(end);
        let is_bucket = name.split('{').next().is_some_and(|name| name.ends_with("_bucket"));
        let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
        (!is_bucket && !line.starts_with('#') && value.is_finite()).then(|| (name.to_owned(), value))
    };
    text.lines().filter_map(figure).take(VALUES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_page() {
        let page = "# HELP a What.\n# TYPE a counter\na 5\nb{part=\"one two\"} 0.25 1795370416251\nc_bucket{le=\"1\"} 3\n\
                    d NaN\nnonsense\n{\ne{x=\"}\"} 7";
        let found: Vec<(String, f64)> = figures(page).into_iter().collect();
        let expected = [("a", 5.0), ("b{part=\"one two\"}", 0.25), ("e{x=\"}\"}", 7.0)];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn password_is_never_shown() {
        assert_eq!(shown("http://me:secret@node:1/path@x"), "http://node:1/path@x");
        assert_eq!(shown("http://node:1"), "http://node:1");
    }

    #[test]
    fn results_are_valid_or_not() {
        let results = json!({ "txs_results": [
            { "code": 0, "gas_used": "21000" }, { "code": 2, "gas_used": "5" }, { "gas_used": "1" },
        ] });
        let row = with_results(Row::new(1), &results);
        let of = |column| row.get(column).unwrap();
        assert_eq!([of(Column::Results), of(Column::Valid), of(Column::Invalid)], [3, 2, 1]);
        assert_eq!(of(Column::ResultsGas), 21_006);
        assert_eq!(with_results(Row::new(1), &json!({ "txs_results": null })).get(Column::Valid), Some(0));
    }
}
