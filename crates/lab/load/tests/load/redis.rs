//! Collects into a real Redis that is killed half way.
//!
//! `HEARTH_REDIS_SERVER` names the server binary. Without it each test reports that it is skipped; `cargo xtask test`
//! fetches it first.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hearth_load::etl::log::Log;
use hearth_load::etl::redis::Redis;
use hearth_load::etl::row::{Batch, MergeCounts, Row};
use hearth_load::etl::sqlite::Database;
use hearth_load::etl::store::{Position, Sample, Store, StoreError};
use hearth_load::etl::{EtlCounts, EtlError, Sources};
use hearth_testkit::{wait_for, wait_until};

/// Blocks of the log, which takes several batches.
const BLOCKS: u64 = 60_000;

/// A server on its own socket with persistent data in a folder; dropping it kills it like kill -9.
struct Server {
    folder: PathBuf,
    child: Child,
}

impl Server {
    /// Returns none if there is no server binary.
    fn start(folder: &Path) -> Option<Self> {
        let Some(program) = std::env::var_os("HEARTH_REDIS_SERVER") else {
            eprintln!("SKIPPED: no Redis; `cargo xtask test --only redis` gets it");
            return None;
        };
        let out = File::options().create(true).append(true).open(folder.join("redis.log")).unwrap();
        let mut command = Command::new(program);
        // Acknowledged writes are durable: every write is synced before the answer.
        command.args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
        command.arg("--unixsocket").arg(folder.join("socket")).arg("--dir").arg(folder);
        if let Some(libraries) = std::env::var_os("HEARTH_REDIS_LIBRARIES") {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        let server = Self { folder: folder.into(), child: command.spawn().unwrap() };
        server.ready();
        Some(server)
    }

    fn url(&self) -> String {
        format!("redis+unix://{}", self.folder.join("socket").display())
    }

    fn open(&self) -> Redis {
        Redis::open(&self.url(), "hearth:etl").unwrap()
    }

    fn ready(&self) {
        wait_for("Redis", || match Redis::open(&self.url(), "hearth:etl") {
            Ok(_) => Ok(()),
            Err(why) => Err(format!("{why}: {}", fs::read_to_string(self.folder.join("redis.log")).unwrap())),
        });
    }

    /// Runs a command like redis-cli.
    fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = redis::Client::open(self.url()).unwrap().get_connection().unwrap();
        redis::cmd(words[0]).arg(&words[1..]).query(&mut connection).unwrap()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A Redis that is killed before a certain write.
struct DyingRedis {
    redis: Redis,
    server: Option<Server>,
    writes: u64,
}

impl Store for DyingRedis {
    fn position(&mut self, source: &str) -> Result<Option<Position>, StoreError> {
        self.redis.position(source)
    }

    fn merge(&mut self, batch: &Batch, position: Option<(&str, &Position)>) -> Result<MergeCounts, StoreError> {
        match self.writes.checked_sub(1) {
            Some(left) => self.writes = left,
            None => self.server.take().into_iter().for_each(Server::kill),
        }
        self.redis.merge(batch, position)
    }

    fn each(&mut self, heights: RangeInclusive<u64>, see: &mut dyn FnMut(&Row) -> bool) -> Result<(), StoreError> {
        self.redis.each(heights, see)
    }

    fn add_sample(&mut self, sample: &Sample) -> Result<(), StoreError> {
        self.redis.add_sample(sample)
    }

    fn samples(&mut self) -> Result<u64, StoreError> {
        self.redis.samples()
    }
}

fn log(folder: &Path) -> PathBuf {
    let path = folder.join("cometbft.log");
    let mut out = BufWriter::new(File::create(&path).unwrap());
    for height in 1..=BLOCKS {
        let (minute, second, ms) = (height / 300 % 60, height / 5 % 60, height % 5 * 200);
        let time = format!("I[2026-11-22|{:02}:{minute:02}:{second:02}.{ms:03}]", height / 18_000);
        let (valid, invalid) = (height % 97, height % 3);
        let counts = format!("num_valid_txs={valid} num_invalid_txs={invalid}");
        writeln!(out, "{time} executed block                module=state height={height} {counts}").unwrap();
        writeln!(out, "{time} Timed out                     module=consensus height={height} round=0").unwrap();
    }
    out.flush().unwrap();
    path
}

fn collect(store: &mut dyn Store, log: &Path) -> (Result<(), EtlError>, EtlCounts) {
    let mut sources = Sources::new(vec![Log::new(log)], vec![], vec![]);
    (sources.pass(store, &|| false), sources.found())
}

fn rows(store: &mut dyn Store) -> BTreeMap<u64, Row> {
    let mut rows = BTreeMap::new();
    store
        .each(0..=u64::MAX, &mut |row| {
            assert!(rows.insert(row.height, row.clone()).is_none(), "{} twice", row.height);
            true
        })
        .unwrap();
    rows
}

#[test]
fn killed_half_way_it_is_completed_and_nothing_is_there_twice() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = Server::start(folder.path()) else { return };
    let log = log(folder.path());
    let mut file = Database::open(&folder.path().join("load.db")).unwrap();
    collect(&mut file, &log).0.unwrap();
    let expected = rows(&mut file);
    assert_eq!(expected.len() as u64, BLOCKS);

    let mut dying = DyingRedis { redis: server.open(), server: Some(server), writes: 3 };
    let (ended, found) = collect(&mut dying, &log);
    let why = ended.unwrap_err();
    assert!(why.may_pass() && why.to_string().starts_with("Redis at "), "{why}");
    let server = Server::start(folder.path()).unwrap();
    let before = rows(&mut server.open()).len() as u64;
    assert_eq!((before, found.new), (30_000, 30_000), "three batches of ten thousand blocks");
    // The old connection is dead; a new one is made.
    let (ended, found) = collect(&mut dying, &log);
    ended.unwrap();
    assert_eq!((found.new, found.more, found.repeated, found.contradictions), (BLOCKS - before, 0, 0, 0));
    assert_eq!(rows(&mut server.open()), expected);
    assert_eq!(server.ask::<u64>(&["ZCARD", "hearth:etl:heights"]), BLOCKS);
    assert_eq!(server.ask::<u64>(&["DBSIZE"]), BLOCKS + 2);
    assert_eq!(collect(&mut server.open(), &log).1, EtlCounts::default());
    server.kill();
}

#[test]
fn killed_at_any_moment_it_is_completed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = Server::start(folder.path()) else { return };
    let log = log(folder.path());
    let mut redis = server.open();
    let collecting = std::thread::spawn({
        let log = log.clone();
        move || collect(&mut redis, &log).0.is_ok()
    });
    wait_until("the first blocks are there", || server.ask::<u64>(&["ZCARD", "hearth:etl:heights"]) > 0);
    server.kill();
    let whole = collecting.join().unwrap();
    let server = Server::start(folder.path()).unwrap();
    let before = rows(&mut server.open()).len() as u64;
    assert!(before > 0 && (whole || before < BLOCKS), "{before}");
    let (ended, found) = collect(&mut server.open(), &log);
    ended.unwrap();
    assert_eq!((found.new, found.repeated, found.contradictions), (BLOCKS - before, 0, 0));
    assert_eq!(rows(&mut server.open()).len() as u64, BLOCKS);
    server.kill();
}

#[test]
fn foreign_values_under_the_keys_stay() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = Server::start(folder.path()) else { return };
    let _: () = server.ask(&["SET", "hearth:etl:block:7", "a cat"]);
    let log = folder.path().join("log");
    fs::write(&log, "I[2022-04-07|02:17:07.759] Executed block module=state height=7 validTxs=3 invalidTxs=6\n")
        .unwrap();
    let why = collect(&mut server.open(), &log).0.unwrap_err();
    assert!(why.to_string().contains("hearth:etl:block:7 holds something else"), "{why}");
    assert_eq!(server.ask::<String>(&["GET", "hearth:etl:block:7"]), "a cat");
    let mut other = Redis::open(&server.url(), "other").unwrap();
    collect(&mut other, &log).0.unwrap();
    let sample = Sample { time_ms: 5, url: "u".into(), values: BTreeMap::from([("a".into(), 1.5)]) };
    other.add_sample(&sample).unwrap();
    other.add_sample(&sample).unwrap();
    assert_eq!((rows(&mut other).len(), other.samples().unwrap()), (1, 1));
    assert!(server.ask::<String>(&["GET", "other:block:7"]).contains("\"valid\":3"));
    server.kill();
    let why = Redis::open(&format!("redis+unix://{}", folder.path().join("socket").display()), "x").err().unwrap();
    assert!(why.may_pass(), "{why}");
}
