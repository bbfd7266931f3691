//! Reads and validates a configuration file.
//!
//! reads   TOML
//! writes  a [`Config`], notices
//!
//! A mistake names file, line, key and the nearest valid key. All mistakes found in one reading are reported at once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hearth_command::exit_code::{ExitCode, WRONG_USE};
use hearth_ledger::genesis::{SLOT_HASHES_MAX, SLOT_MS_MAX, SLOTS_PER_EPOCH_MAX, TICKS_PER_SLOT_MAX};
use hearth_pipeline::voters::VOTERS_MAX;
use toml::Table;

use super::lines::{join, line_of, line_of_key, twice};
use super::{Config, Genesis, Isolation, Ports, SlotTiming, Snapshots, foreign};

/// A core that still polls after a minute may as well never sleep.
const COST_OF_BLOCK: std::ops::RangeInclusive<u64> = 100_000..=100_000_000;
const PARK_AFTER_MICROS_MAX: u64 = 60_000_000;

/// Maximum log bytes kept per transaction: about as many as its compute units can write.
pub const LOG_BYTES_MAX: usize = 1_000_000;

/// Minimum ticks per slot: one to work in, one to end with.
pub const TICKS_LEAST: u64 = 2;
/// Minimum slots per epoch, as on the cluster.
pub const EPOCH_LEAST: u64 = 32;

/// A configuration, and what was noticed while reading it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadedConfig {
    /// The file's values, and the defaults of all other keys.
    pub config: Config,
    /// Notices for the operator: ignored or renamed keys.
    pub notices: Vec<String>,
    /// The keys that the file sets.
    pub keys: Vec<String>,
}

/// Why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {why}", path.display())]
    Read {
        /// The path of the configuration file.
        path: PathBuf,
        /// Why it cannot be read, as the system says it.
        why: String,
    },
    /// The file is not TOML, or has an invalid key or value.
    #[error("{}:{line}: {what}", path.display())]
    Wrong {
        /// The path of the configuration file.
        path: PathBuf,
        /// Line of the mistake, from 1.
        line: usize,
        /// The mistake, and what was probably meant.
        what: String,
    },
    /// The value of the option `--name` is not a valid name.
    #[error("--name: {0}")]
    Name(String),
    /// The file has several mistakes, each of them one of the above.
    #[error("{} mistakes:{}", .0.len(), .0.iter().map(|mistake| format!("\n  {mistake}")).collect::<String>())]
    Several(Vec<ConfigError>),
}

impl ExitCode for ConfigError {
    fn exit_code(&self) -> u8 {
        WRONG_USE
    }
}

/// Reads a configuration file. Several mistakes in it become one error.
pub fn load(path: &Path) -> Result<LoadedConfig, ConfigError> {
    survey(path)?.end()
}

/// Parses a file's text; `path` is for the messages.
pub fn load_str(text: &str, path: &Path) -> Result<LoadedConfig, ConfigError> {
    survey_str(text, path)?.end()
}

/// The valid part of a file, and all its mistakes.
#[derive(Debug, Default)]
pub struct Survey {
    /// The configuration without the invalid keys.
    pub loaded: LoadedConfig,
    /// Line and description of each mistake.
    mistakes: Vec<(usize, String)>,
    /// A key for tiles or their placement is wrong, so the layout is not what was meant.
    pub is_layout_wrong: bool,
    text: String,
    path: PathBuf,
}

impl Survey {
    /// Adds a mistake at the line of this key.
    pub fn add(&mut self, key: &str, what: String) {
        self.mistakes.push((line_of_key(&self.text, key), what));
    }

    /// The configuration, or all mistakes.
    pub fn end(mut self) -> Result<LoadedConfig, ConfigError> {
        self.mistakes.sort();
        let wrong = |(line, what)| ConfigError::Wrong { path: self.path.clone(), line, what };
        let mut mistakes: Vec<_> = self.mistakes.into_iter().map(wrong).collect();
        match mistakes.len() {
            0 => Ok(self.loaded),
            1 => Err(mistakes.remove(0)),
            _ => Err(ConfigError::Several(mistakes)),
        }
    }
}

/// Reads a file, continuing after mistakes. Fails if it cannot be read or is not TOML.
pub fn survey(path: &Path) -> Result<Survey, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|e| ConfigError::Read { path: path.to_owned(), why: e.to_string() })?;
    survey_str(&text, path)
}

fn survey_str(text: &str, path: &Path) -> Result<Survey, ConfigError> {
    let mut table: Table = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |span| line_of(text, span.start));
        let twice = Some(line).filter(|_| e.message().starts_with("duplicate key")).and_then(|line| twice(text, line));
        let what = twice.unwrap_or_else(|| e.message().to_owned());
        ConfigError::Wrong { path: path.to_owned(), line, what }
    })?;
    let mut survey = Survey { text: text.into(), path: path.into(), ..Survey::default() };
    let mut listed = vec![];
    tables_of_lists(&mut table, "", &known_keys(), &mut listed);
    for key in &listed {
        survey.add(key, format!("`{key}`: {}", no_table(key)));
    }
    let notices = foreign::adapt(&mut table);
    let unknown = unknown_keys(&table);
    for key in &unknown {
        let suggestion = suggestion(key, is_table(&table, key));
        survey.add(key, format!("unknown key `{key}`{suggestion}"));
        foreign::remove(&mut table, key);
    }
    let mistyped = mistyped_keys(&table);
    for (key, message) in &mistyped {
        survey.add(key, format!("`{key}`: {message}"));
        foreign::remove(&mut table, key);
    }
    let wrong = || listed.iter().chain(&unknown).chain(mistyped.iter().map(|(key, _)| key));
    let is_of_layout = |key: &String| ["layout", "development.bench"].iter().any(|table| key.starts_with(table));
    let is_nearly = |key: &String| suggestion(key, false).contains("`layout.");
    survey.is_layout_wrong = wrong().any(|key| is_of_layout(key) || is_nearly(key));
    let mut keys = vec![];
    collect(&table, "", &mut keys);
    // The rest is checked without those keys.
    match toml::Value::Table(table).try_into::<Config>() {
        Ok(config) => {
            // A conflict with a key that was removed is not reported.
            let is_about = |what: &str, key: &str| what.contains(&format!("`{key}`"));
            // Two listeners may share a port if their addresses differ.
            let is_address = |key: &str| key.ends_with("bind_address") || key.ends_with("listen_address");
            let are_addresses = !mistyped.iter().any(|(key, _)| is_address(key));
            let found = listeners(&config).filter(|_| are_addresses).into_iter().chain(problems(&config));
            let found = found.map(|(key, what)| (key, format!("`{key}`: {what}")));
            let found = found.filter(|(_, what)| !mistyped.iter().any(|(mistyped, _)| is_about(what, mistyped)));
            found.for_each(|(key, what)| survey.add(key, what));
            survey.loaded = LoadedConfig { config, notices, keys };
        }
        Err(error) if survey.mistakes.is_empty() => survey.mistakes.push((1, in_words(error.message()))),
        Err(_) => survey.is_layout_wrong = true,
    }
    Ok(survey)
}

/// Valid keys without an effect, or without their full effect, because of another key.
pub fn idle_keys(config: &Config) -> Vec<String> {
    let mut found = vec![];
    let (rpc, bench, quic) = (&config.rpc, &config.development.bench, &config.tiles.quic);
    if config.development.idle_slot_ms > 0 && config.development.slots == SlotTiming::Clock {
        found.push("`development.idle_slot_ms` does nothing while `development.slots` is `clock`".into());
    }
    if !config.development.links.file.as_os_str().is_empty() && !config.gossip.enabled {
        found.push(
            "`development.links.file` does nothing without `gossip.enabled`: it is about nodes of a cluster".into(),
        );
    }
    let (one, slice) = (rpc.max_airdrop_lamports, rpc.max_airdrop_lamports_per_slice);
    if slice > 0 && one > slice {
        found.push(
            "an airdrop of `rpc.max_airdrop_lamports` is more than `rpc.max_airdrop_lamports_per_slice` lets through"
                .into(),
        );
    }
    if (1..bench.connections).contains(&quic.max_concurrent_connections) {
        found.push(format!(
            "`hearth bench` makes {} connections (`development.bench.connections`), and \
             `tiles.quic.max_concurrent_connections` allows {}",
            bench.connections, quic.max_concurrent_connections
        ));
    }
    found
}

/// Maximum pending transactions: more than half a minute of the fastest node, about 7 GB.
const PENDING_MAX: usize = 1 << 22;

/// A key, and the problem with its value.
type Problem = (&'static str, String);

/// The first problem of a configuration whose values all have the right type.
pub fn check(config: &Config) -> Result<(), Problem> {
    listeners(config).into_iter().chain(problems(config)).next().map_or(Ok(()), Err)
}

/// Values that have the right type but are invalid.
fn problems(config: &Config) -> Vec<Problem> {
    let mut found = vec![];
    cluster(config, &mut found);
    if config.security.require_isolation && config.security.isolation == Isolation::None {
        let what = "needs `security.isolation` to be `auto`: without it no tile has a process of its own".into();
        found.push(("security.require_isolation", what));
    }
    if config.layout.park_after_micros > PARK_AFTER_MICROS_MAX {
        found.push(("layout.park_after_micros", format!("must be at most {PARK_AFTER_MICROS_MAX}, or 0: never")));
    }
    slots(&config.development.genesis, &mut found);
    for (key, value) in [
        ("rpc.airdrop_slice_secs", config.rpc.airdrop_slice_secs),
        ("snapshots.full_snapshot_interval_slots", config.snapshots.full_snapshot_interval_slots),
        ("snapshots.maximum_full_snapshots_to_retain", config.snapshots.maximum_full_snapshots_to_retain as u64),
        (
            "snapshots.maximum_incremental_snapshots_to_retain",
            config.snapshots.maximum_incremental_snapshots_to_retain as u64,
        ),
        ("development.bench.connections", config.development.bench.connections as u64),
        ("tiles.dedup.signature_cache_size", config.tiles.dedup.signature_cache_size as u64),
        ("tiles.verify.signature_cache_size", config.tiles.verify.signature_cache_size as u64),
    ] {
        if value == 0 {
            found.push((key, "must be at least 1".into()));
        }
    }
    snapshots(&config.snapshots, &mut found);
    if !(1..=PENDING_MAX).contains(&config.tiles.pack.max_pending_transactions) {
        found.push(("tiles.pack.max_pending_transactions", format!("must be from 1 to {PENDING_MAX}")));
    }
    if config.rpc.log_messages_bytes_limit > LOG_BYTES_MAX {
        found.push(("rpc.log_messages_bytes_limit", format!("must be at most {LOG_BYTES_MAX}")));
    }
    if !COST_OF_BLOCK.contains(&config.development.bench.max_cost_per_block) {
        let (least, most) = COST_OF_BLOCK.into_inner();
        found.push(("development.bench.max_cost_per_block", format!("must be from {least} to {most}, the cluster's")));
    }
    let name_is_plain = config.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if config.name.is_empty() || !name_is_plain {
        found.push(("name", format!("`{}` must be letters, digits, `-`, `_` and `.`: it names files", config.name)));
    }
    found
}

/// Checks the keys for a node in a cluster.
fn cluster(config: &Config, found: &mut Vec<Problem>) {
    let address = config.gossip.bind_address;
    if config.gossip.enabled && address.is_unspecified() {
        let what = format!("`{address}` cannot be advertised: name the address at which other nodes reach this one");
        found.push(("gossip.bind_address", what));
    }
    if config.gossip.enabled && config.development.are_slots_on_demand() {
        found.push(("development.slots", "in a cluster (`gossip.enabled = true`) slots come by the clock".into()));
    }
    if config.consensus.authorized_voter_paths.len() > VOTERS_MAX {
        found.push(("consensus.authorized_voter_paths", format!("must be at most {VOTERS_MAX} keys")));
    }
    if config.takes_turns() && config.layout.shred_tile_count > 1 {
        let why = "a node that makes blocks in a cluster has one".into();
        found.push(("layout.shred_tile_count", why));
    }
    if !config.gossip.entrypoints.is_empty() && !config.gossip.enabled {
        found.push((
            "gossip.entrypoints",
            "there are some; with `gossip.enabled = true` the node follows their cluster".into(),
        ));
    }
}

/// Ports that conflict with each other.
fn listeners(config: &Config) -> Option<Problem> {
    if config.rpc.port == u16::MAX {
        return Some(("rpc.port", "must be below 65535: WebSocket has the port above it".into()));
    }
    let (first, second, port) = Ports::of(config).clash()?;
    let above = if first == "rpc.port" && port != config.rpc.port { " (WebSocket is one above it)" } else { "" };
    Some((second, format!("{port} is taken by `{first}`{above}; choose another port")))
}

fn snapshots(snapshots: &Snapshots, found: &mut Vec<Problem>) {
    let (full, incremental) = (snapshots.full_snapshot_interval_slots, snapshots.incremental_snapshot_interval_slots);
    if snapshots.write_archives && incremental >= full {
        let key = "snapshots.incremental_snapshot_interval_slots";
        found.push((key, format!("must be less than full_snapshot_interval_slots, {full}, or 0: none")));
    }
    if snapshots.only_known_rpc && snapshots.known_validators.is_empty() {
        found.push(("snapshots.only_known_rpc", "needs known_validators".into()));
    }
    if snapshots.write_archives && !snapshots.enabled {
        found.push(("snapshots.write_archives", "needs snapshots.enabled".into()));
    }
}

/// Checks the values that a genesis would store, and with which the node could not start.
fn slots(genesis: &Genesis, found: &mut Vec<Problem>) {
    let &Genesis { ticks_per_slot, target_tick_duration_micros, hashes_per_tick, slots_per_epoch, .. } = genesis;
    if !(EPOCH_LEAST..=SLOTS_PER_EPOCH_MAX).contains(&slots_per_epoch) {
        let what = format!("must be from {EPOCH_LEAST} to {SLOTS_PER_EPOCH_MAX}");
        found.push(("development.genesis.slots_per_epoch", what));
    }
    if !(TICKS_LEAST..=TICKS_PER_SLOT_MAX).contains(&ticks_per_slot) {
        let what = format!("must be from {TICKS_LEAST} to {TICKS_PER_SLOT_MAX}");
        found.push(("development.genesis.ticks_per_slot", what));
        // The following checks depend on it.
        return;
    }
    let slot_micros = ticks_per_slot.checked_mul(target_tick_duration_micros);
    if !slot_micros.is_some_and(|micros| (1_000..=SLOT_MS_MAX * 1_000).contains(&micros)) {
        let what = format!("{ticks_per_slot} of them make a slot, which must be from 1 ms to {SLOT_MS_MAX} ms long");
        found.push(("development.genesis.target_tick_duration_micros", what));
    }
    let slot_hashes = ticks_per_slot.checked_mul(hashes_per_tick);
    if hashes_per_tick == 1 || !slot_hashes.is_some_and(|hashes| hashes <= SLOT_HASHES_MAX) {
        let what = format!("must be 0 for low power, or at least 2, and at most {SLOT_HASHES_MAX} in a slot");
        found.push(("development.genesis.hashes_per_tick", what));
    }
}

/// Replaces the program's type names by the file's.
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

/// All valid keys, such as `layout.affinity`.
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

/// Tables without a key: they are not among the keys, but may be misspelt.
fn empty_tables(table: &Table, path: &str, found: &mut Vec<String>) {
    for (key, value) in table {
        let path = join(path, key);
        match value {
            toml::Value::Table(inner) if inner.is_empty() => found.push(path),
            toml::Value::Table(inner) => empty_tables(inner, &path, found),
            _ => {}
        }
    }
}

/// Turns arrays of tables, `[[table]]`, into tables, so that the keys in them are checked too; appends their names to
/// `found`.
fn tables_of_lists(file: &mut Table, path: &str, known: &[String], found: &mut Vec<String>) {
    for (key, value) in file.iter_mut() {
        let path = join(path, key);
        let is_table = known.iter().any(|known| known.starts_with(&format!("{path}.")));
        if let toml::Value::Array(several) = value
            && is_table
            && !several.is_empty()
            && several.iter().all(toml::Value::is_table)
        {
            let mut all = Table::new();
            for one in several.drain(..) {
                if let toml::Value::Table(one) = one {
                    all.extend(one);
                }
            }
            *value = toml::Value::Table(all);
            found.push(path.clone());
        }
        if let toml::Value::Table(inner) = value {
            tables_of_lists(inner, &path, known, found);
        }
    }
}

/// The message that a table's key has a value that is not a table.
fn no_table(key: &str) -> String {
    format!("invalid type, expected a table: `[{key}]`")
}

/// The unknown keys of the file.
fn unknown_keys(file: &Table) -> Vec<String> {
    let known = known_keys();
    let mut keys = vec![];
    collect(file, "", &mut keys);
    empty_tables(file, "", &mut keys);
    let is_known = |key: &String| known.iter().any(|k| k == key || k.starts_with(&format!("{key}.")));
    keys.retain(|key| !is_known(key));
    keys
}

/// The keys whose value alone makes the configuration fail, and why; for a list, each such element.
fn mistyped_keys(file: &Table) -> Vec<(String, String)> {
    let mut keys = vec![];
    collect(file, "", &mut keys);
    let known = known_keys();
    let mistakes = |key: &String| {
        if known.iter().any(|known| known.starts_with(&format!("{key}."))) {
            return vec![no_table(key)];
        }
        let values: Vec<toml::Value> = match value_of(file, key) {
            Some(toml::Value::Array(all)) if !all.is_empty() => {
                all.iter().map(|one| toml::Value::Array(vec![one.clone()])).collect()
            }
            Some(value) => vec![value.clone()],
            None => vec![],
        };
        let mut mistakes: Vec<String> = values.into_iter().filter_map(|value| mistake(key, value)).collect();
        mistakes.dedup();
        mistakes
    };
    keys.iter().flat_map(|key| mistakes(key).into_iter().map(move |what| (key.clone(), what))).collect()
}

/// The mistake in a key's value on its own.
fn mistake(key: &str, value: toml::Value) -> Option<String> {
    let alone = key.rsplit('.').fold(value, |value, part| Table::from_iter([(part.to_owned(), value)]).into());
    alone.try_into::<Config>().err().map(|error| in_words(error.message()))
}

/// The tables of the known keys, including those that contain only tables.
fn tables_of(keys: &[String]) -> Vec<String> {
    let above = |key: &String| key.match_indices('.').map(|(end, _)| key[..end].to_owned()).collect::<Vec<_>>();
    let tables: BTreeSet<String> = keys.iter().flat_map(above).collect();
    tables.into_iter().collect()
}

/// `; did you mean …?` if a table or key has a similar full name.
fn suggestion(name: &str, is_table: bool) -> String {
    let keys = known_keys();
    let tables = tables_of(&keys);
    let moved = || elsewhere(&keys, &tables, name).filter(|_| !is_table).map(|key| format!("`{key}`"));
    if let Some(meant) = meant(&keys, &tables, name, is_table).or_else(moved) {
        return format!("; did you mean {meant}?");
    }
    let table = name.rsplit_once('.').and_then(|(table, _)| nearest(&tables, table)).map(|(_, table)| table);
    match table.filter(|_| !is_table) {
        Some(table) => {
            let in_it = keys.iter().filter_map(|key| key.rsplit_once('.').filter(|(of, _)| *of == table));
            let in_it: Vec<&str> = in_it.map(|(_, key)| key).collect();
            let has = if in_it.is_empty() { String::new() } else { format!(", which has {}", in_it.join(", ")) };
            format!("; did you mean the table `[{table}]`{has}?")
        }
        None => "; `hearth config show --default` lists all keys".to_owned(),
    }
}

/// The table or key with the nearest full name; the table if both are equally near.
pub(super) fn meant(keys: &[String], tables: &[String], name: &str, is_table: bool) -> Option<String> {
    let key = nearest(keys, name).filter(|_| !is_table);
    let is_nearer = |table_off: usize| key.is_none_or(|(off, _)| table_off <= off);
    match nearest(tables, name).filter(|(off, _)| is_nearer(*off)) {
        Some((_, table)) => Some(format!("the table `[{table}]`")),
        None => key.map(|(_, key)| format!("`{key}`")),
    }
}

/// The known name nearest to an unknown one, and the number of wrong letters.
fn nearest<'a>(known: &'a [String], name: &str) -> Option<(usize, &'a str)> {
    let near = known.iter().filter_map(|known| Some((letters_off(known, name).filter(|off| *off > 0)?, known)));
    near.min().map(|(off, known)| (off, known.as_str()))
}

/// The number of wrong letters over all parts of a name. `None` if the number of parts differs, or if more than a third
/// of a part is wrong, which makes it another word.
fn letters_off(known: &str, name: &str) -> Option<usize> {
    if known.split('.').count() != name.split('.').count() {
        return None;
    }
    let off = |(known, own): (&str, &str)| {
        let off = strsim::damerau_levenshtein(known, own);
        (off <= (own.chars().count() / 3).max(1)).then_some(off)
    };
    known.split('.').zip(name.split('.')).map(off).sum()
}

/// The only key of this name, in another table. In an unknown table a key gives no hint.
fn elsewhere<'a>(known: &'a [String], tables: &[String], name: &str) -> Option<&'a str> {
    if name.rsplit_once('.').is_some_and(|(table, _)| !tables.iter().any(|known| known == table)) {
        return None;
    }
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let own = last(name);
    let mut same = known.iter().filter(|key| last(key) == own);
    let first = same.next()?;
    same.next().is_none().then_some(first.as_str())
}

/// Whether the file has a table of this name.
fn is_table(file: &Table, name: &str) -> bool {
    value_of(file, name).is_some_and(toml::Value::is_table)
}

/// The value at a path such as `layout.affinity`.
fn value_of<'a>(file: &'a Table, path: &str) -> Option<&'a toml::Value> {
    let mut parts = path.split('.');
    let top = file.get(parts.next()?)?;
    parts.try_fold(top, |value, part| value.get(part))
}
