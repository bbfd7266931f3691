//! Reading a configuration file, and saying what is wrong with it.
//!
//! reads   TOML
//! writes  a [`Config`], notices
//!
//! A mistake names file, line, key and the nearest right key.

use std::path::{Path, PathBuf};

use hearth_ledger::genesis::{SLOT_HASHES_MAX, SLOT_MS_MAX, SLOTS_PER_EPOCH_MAX, TICKS_PER_SLOT_MAX};
use toml::Table;

use super::{Config, Genesis, foreign};
use crate::developer::EPOCH_LEAST;
use crate::ports::Ports;

/// A core that still polls after a minute may as well never sleep.
const PARK_AFTER_MICROS_MAX: u64 = 60_000_000;

/// A configuration and what was noticed while reading it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// For the operator: keys passed over or renamed.
    pub notices: Vec<String>,
}

/// Why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read the configuration {}: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// It is no TOML, or holds a key or value that makes no sense.
    #[error("{}:{line}: {what}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line of the mistake, from 1.
        line: usize,
        /// What is wrong and what was meant.
        what: String,
    },
}

/// Reads a file.
pub fn load(path: &Path) -> Result<Loaded, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|e| ConfigError::Read { path: path.to_owned(), why: e.to_string() })?;
    load_str(&text, path)
}

/// Reads a file's text; `path` is for the messages.
pub fn load_str(text: &str, path: &Path) -> Result<Loaded, ConfigError> {
    let wrong = |line: usize, what: String| ConfigError::Wrong { path: path.to_owned(), line, what };
    let mut table: Table = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |span| line_of(text, span.start));
        wrong(line, e.message().to_owned())
    })?;
    let notices = foreign::adapt(&mut table);
    if let Some(path) = unknown_key(&table) {
        let what = format!("unknown key `{path}`{}", suggestion(&path));
        return Err(wrong(line_of_key(text, &path), what));
    }
    let config: Config = Config::deserialize_table(table.clone()).map_err(|(key, message)| {
        let line = key.as_deref().map_or(1, |key| line_of_key(text, key));
        wrong(line, key.map_or(message.clone(), |key| format!("`{key}`: {message}")))
    })?;
    check(&config).map_err(|(key, what)| wrong(line_of_key(text, key), format!("`{key}`: {what}")))?;
    Ok(Loaded { config, notices })
}

/// Transactions that may be pending at most: more than half a minute of the fastest node, about 7 GB.
const PENDING_MAX: usize = 1 << 22;

/// Values that have the right type and are wrong all the same.
pub fn check(config: &Config) -> Result<(), (&'static str, String)> {
    let one_of = |key, value: &str, allowed: &[&str]| {
        let found = allowed.contains(&value);
        found.then_some(()).ok_or_else(|| (key, format!("`{value}` is none of {}", allowed.join(", "))))
    };
    one_of("hugetlbfs.max_page_size", &config.hugetlbfs.max_page_size, &["normal", "huge", "gigantic"])?;
    one_of("development.slots", &config.development.slots, &["clock", "on-demand"])?;
    one_of("tiles.quic.limits", &config.tiles.quic.limits, &["local", "production"])?;
    one_of("tiles.pack.schedule_strategy", &config.tiles.pack.schedule_strategy, &["perf", "balanced"])?;
    for (key, address) in [
        ("rpc.bind_address", &config.rpc.bind_address),
        ("tiles.net.bind_address", &config.tiles.net.bind_address),
        ("tiles.metric.prometheus_listen_address", &config.tiles.metric.prometheus_listen_address),
    ] {
        address.parse::<std::net::IpAddr>().map_err(|_| (key, format!("`{address}` is no IP address")))?;
    }
    for address in &config.tiles.shred.additional_shred_destinations {
        let parsed = address.parse::<std::net::SocketAddr>();
        parsed.map_err(|_| ("tiles.shred.additional_shred_destinations", format!("`{address}` is no `ip:port`")))?;
    }
    if config.rpc.port == u16::MAX {
        return Err(("rpc.port", "must be below 65535: WebSocket has the port above it".into()));
    }
    if let Some((first, second, port)) = Ports::of(config).clash() {
        let above = if first == "rpc.port" && port != config.rpc.port { " (WebSocket is one above it)" } else { "" };
        return Err((second, format!("{port} is taken by `{first}`{above}; choose another port")));
    }
    if config.layout.park_after_micros > PARK_AFTER_MICROS_MAX {
        return Err(("layout.park_after_micros", format!("must be at most {PARK_AFTER_MICROS_MAX}, or 0: never")));
    }
    let at_least_one = |key, value: u64| (value > 0).then_some(()).ok_or((key, "must be at least 1".to_owned()));
    check_slots(&config.development.genesis)?;
    let slots = config.development.genesis.slots_per_epoch;
    if !(EPOCH_LEAST..=SLOTS_PER_EPOCH_MAX).contains(&slots) {
        let what = format!("must be from {EPOCH_LEAST} to {SLOTS_PER_EPOCH_MAX}");
        return Err(("development.genesis.slots_per_epoch", what));
    }
    at_least_one("rpc.airdrop_slice_secs", config.rpc.airdrop_slice_secs)?;
    at_least_one("snapshots.full_snapshot_interval_slots", config.snapshots.full_snapshot_interval_slots)?;
    let retained = config.snapshots.maximum_full_snapshots_to_retain;
    at_least_one("snapshots.maximum_full_snapshots_to_retain", retained as u64)?;
    at_least_one("development.bench.connections", config.development.bench.connections as u64)?;
    at_least_one("tiles.dedup.signature_cache_size", config.tiles.dedup.signature_cache_size as u64)?;
    at_least_one("tiles.verify.signature_cache_size", config.tiles.verify.signature_cache_size as u64)?;
    let pending = config.tiles.pack.max_pending_transactions;
    if !(1..=PENDING_MAX).contains(&pending) {
        return Err(("tiles.pack.max_pending_transactions", format!("must be from 1 to {PENDING_MAX}")));
    }
    let name_is_plain = config.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if config.name.is_empty() || !name_is_plain {
        return Err(("name", format!("`{}` must be letters, digits, `-`, `_` and `.`: it names files", config.name)));
    }
    Ok(())
}

/// What a chain cannot have: a genesis would keep it, and its node would not start.
fn check_slots(genesis: &Genesis) -> Result<(), (&'static str, String)> {
    let &Genesis { ticks_per_slot, target_tick_duration_micros, hashes_per_tick, .. } = genesis;
    if !(1..=TICKS_PER_SLOT_MAX).contains(&ticks_per_slot) {
        return Err(("development.genesis.ticks_per_slot", format!("must be from 1 to {TICKS_PER_SLOT_MAX}")));
    }
    let slot_micros = ticks_per_slot.checked_mul(target_tick_duration_micros);
    if !slot_micros.is_some_and(|micros| (1_000..=SLOT_MS_MAX * 1_000).contains(&micros)) {
        let what = format!("{ticks_per_slot} of them make a slot, which must be from 1 ms to {SLOT_MS_MAX} ms long");
        return Err(("development.genesis.target_tick_duration_micros", what));
    }
    let slot_hashes = ticks_per_slot.checked_mul(hashes_per_tick);
    if hashes_per_tick == 1 || !slot_hashes.is_some_and(|hashes| hashes <= SLOT_HASHES_MAX) {
        let what = format!("must be 0 for low power, or at least 2, and at most {SLOT_HASHES_MAX} in a slot");
        return Err(("development.genesis.hashes_per_tick", what));
    }
    Ok(())
}

impl Config {
    /// The typed configuration, or the key whose value has the wrong type.
    fn deserialize_table(table: Table) -> Result<Self, (Option<String>, String)> {
        let whole = toml::Value::Table(table);
        whole.clone().try_into().map_err(|error: toml::de::Error| (wrong_value(&whole), in_words(error.message())))
    }
}

/// Types in the words of the file and not of the program.
fn in_words(message: &str) -> String {
    let words = [
        ("a string", "a text in quotes"),
        ("path string", "a text in quotes"),
        ("a boolean", "true or false"),
        ("a sequence", "a list in brackets"),
        ("u16", "a whole number from 0 to 65535"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number, 0 or more"),
        ("usize", "a whole number, 0 or more"),
        ("f64", "a number"),
    ];
    let Some((what, expected)) = message.split_once(", expected ") else { return message.to_owned() };
    let known = words.iter().find(|(program, _)| *program == expected.trim_end()).map(|(_, file)| *file);
    let expected = known.unwrap_or(if expected.starts_with("struct ") { "a table" } else { expected });
    format!("{what}, expected {expected}")
}

/// All keys there are, `layout.affinity`.
fn known_keys() -> Vec<String> {
    let defaults = Table::try_from(Config::default()).expect("the defaults are plain data");
    let mut keys = vec![];
    collect(&defaults, "", &mut keys);
    keys
}

fn collect(table: &Table, path: &str, keys: &mut Vec<String>) {
    for (key, value) in table {
        let path = join(path, key);
        match value {
            toml::Value::Table(inner) => collect(inner, &path, keys),
            _ => keys.push(path),
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The first key of the file that is not known.
fn unknown_key(file: &Table) -> Option<String> {
    let known = known_keys();
    let mut keys = vec![];
    collect(file, "", &mut keys);
    let is_known = |key: &String| known.iter().any(|k| k == key || k.starts_with(&format!("{key}.")));
    keys.into_iter().find(|key| !is_known(key))
}

/// The first key whose value alone makes the configuration fail.
fn wrong_value(file: &toml::Value) -> Option<String> {
    let mut keys = vec![];
    collect(file.as_table()?, "", &mut keys);
    keys.into_iter().find(|key| {
        let leaf = key.split('.').try_fold(file, |value, part| value.get(part)).cloned();
        let alone = key.rsplit('.').fold(leaf, |value, part| {
            let table = Table::from_iter([(part.to_owned(), value?)]);
            Some(toml::Value::Table(table))
        });
        alone.is_some_and(|alone| alone.try_into::<Config>().is_err())
    })
}

/// `; did you mean …?` where a known key is near, by its last part first.
fn suggestion(key: &str) -> String {
    let last = |k: &str| k.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |k: &String| {
        let (whole, tail) = (strsim::damerau_levenshtein(k, key), strsim::damerau_levenshtein(&last(k), &last(key)));
        (tail.min(whole), whole)
    };
    let nearest = known_keys().into_iter().min_by_key(distance);
    match nearest {
        Some(nearest) if distance(&nearest).0 <= 1 + last(key).len() / 3 => format!("; did you mean `{nearest}`?"),
        _ => "; `hearth config show --default` lists all keys".to_owned(),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count()
}

/// Line of a key such as `layout.affinity`, by its table's header and its last part; 1 when it is not there.
fn line_of_key(text: &str, path: &str) -> usize {
    let mut table = String::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            table = header.split('.').map(str::trim).collect::<Vec<_>>().join(".");
            if table == path || table.starts_with(&format!("{path}.")) {
                return number + 1;
            }
        } else if let Some((key, _)) = line.split_once('=') {
            let full = join(&table, &key.trim().replace(['"', ' '], ""));
            if full == path || path.starts_with(&format!("{full}.")) {
                return number + 1;
            }
        }
    }
    1
}
