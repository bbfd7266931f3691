//! The recorded tests of the execution API: a chain as a file, requests, and what must be answered.
//!
//! reads   `chain.rlp`, `genesis.json` and `METHOD/NAME.io` of a folder of tests
//! writes  the chain's case, and one for each file, in the order of their names
//! memory  a chain and its server; one file; the published schemas
//! source  <https://github.com/ethereum/execution-apis>, and for how answers are compared the program that runs them,
//!         `rpc-compat` of <https://github.com/ethereum/hive>
//!
//! The chain is imported with both paths, and served over HTTP on a loopback address by the server that every node has.
//! A file may leave transactions in the pool that a later one asks for.
//!
//! An answer is valid by the published schema of its method, whatever else a file asks for. Where the recorded answer
//! itself is not valid, it decides alone.

mod compare;
mod schema;
mod shape;

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use hearth_evm::chain::{BlockTime, Chain, ChainConfig, Paths};
use hearth_evm::genesis::Genesis;
use hearth_evm::import::BlockReader;
use hearth_rpc_client::{Options, RpcClient};
use hearth_web3::{Config, Instruments, Server, serve};
use serde_json::Value;

use crate::hex;
use crate::score::Ending;
use compare::Likeness;
use schema::Schemas;

/// Threads of the parallel path.
const THREADS: usize = 2;
/// Folders that the tests may be in, below the folder that is given.
const PLACES: [&str; 3] = ["execution-apis/tests", "tests", "."];
/// Before a comment, a request, an answer.
const COMMENT: &str = "//";
const REQUEST: &str = ">>";
const ANSWER: &str = "<<";
/// In the comment of a file whose answers need only be valid by the schema.
const SCHEMA_ALONE: &str = "speconly";
/// Methods whose schema allows any trace. Their answers must have the form of the recorded ones, too.
const ANY_TRACE: [&str; 3] = ["debug_traceBlockByHash", "debug_traceBlockByNumber", "debug_traceTransaction"];

/// A case that was run.
pub struct CaseResult {
    /// The method that it is about; empty for the chain itself.
    pub method: String,
    /// Its file's path, from the given folder on.
    pub name: String,
    /// How the case ended.
    pub ending: Ending,
}

/// Runs the recorded tests of a folder; nothing where it has none.
pub fn run(folder: &Path) -> Result<Vec<CaseResult>, String> {
    let Some(tests) = PLACES.iter().map(|place| folder.join(place)).find(|at| at.join("chain.rlp").is_file()) else {
        return Ok(Vec::new());
    };
    let name = |path: &Path| path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned();
    let of_chain = |ending| CaseResult { method: String::new(), name: name(&tests.join("chain.rlp")), ending };
    let files = recorded(&tests)?;
    let chain = match imported(&tests) {
        Ok(chain) => chain,
        Err(why) => {
            // Without the chain every answer is another.
            let unrun = |(method, path): (String, PathBuf)| CaseResult {
                method,
                name: name(&path),
                ending: Ending::Failed("its chain cannot be imported".into()),
            };
            return Ok(std::iter::once(of_chain(Ending::Failed(why))).chain(files.into_iter().map(unrun)).collect());
        }
    };
    let schemas = Schemas::published()?;
    let (server, client) = served(&chain)?;
    let mut ran = vec![of_chain(Ending::Passed)];
    for (method, path) in files {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        ran.push(CaseResult { method, name: name(&path), ending: converse(&client, &schemas, &text).into() });
    }
    server.stop();
    chain.stop();
    Ok(ran)
}

/// The files of tests, with the method of each, by name.
fn recorded(tests: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let mut files = Vec::new();
    for folder in entries(tests)?.into_iter().filter(|path| path.is_dir()) {
        let method = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let recorded = entries(&folder)?.into_iter().filter(|path| path.extension().is_some_and(|it| it == "io"));
        files.extend(recorded.map(|path| (method.clone(), path)));
    }
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|it| it.path())).collect::<Result<_, _>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}

/// The chain of the folder, with all its blocks.
fn imported(tests: &Path) -> Result<Chain, String> {
    let text = fs::read_to_string(tests.join("genesis.json")).map_err(|error| format!("genesis.json: {error}"))?;
    let genesis = Genesis::from_json(&text).map_err(|error| error.to_string())?;
    let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
    let chain = Chain::open(config).map_err(|error| error.to_string())?;
    let fed = feed(&chain, tests);
    if fed.is_err() {
        chain.stop();
    }
    fed.map(|()| chain)
}

fn feed(chain: &Chain, tests: &Path) -> Result<(), String> {
    let file = File::open(tests.join("chain.rlp")).map_err(|error| format!("chain.rlp: {error}"))?;
    for block in BlockReader::new(BufReader::new(file)) {
        let block = block.map_err(|error| error.to_string())?;
        chain.import(block, Paths::Both(THREADS)).map_err(|error| error.to_string())?;
    }
    // The consensus client's message that makes the last block the newest.
    let Ok(text) = fs::read_to_string(tests.join("headfcu.json")) else { return Ok(()) };
    let message: Value = serde_json::from_str(&text).map_err(|error| format!("headfcu.json: {error}"))?;
    let last = hex::word(hex::text(&message["params"][0], "headBlockHash")?)?;
    let newest = chain.head().hash;
    if last == newest { Ok(()) } else { Err(format!("the last block is {newest}, not {last}")) }
}

/// A server of the chain, and a client of the server.
fn served(chain: &Chain) -> Result<(Server, RpcClient), String> {
    let config = Config::new(([127, 0, 0, 1], 0).into());
    let server = serve(config, chain.clone(), Instruments::default()).map_err(|error| error.to_string())?;
    let url = format!("http://{}", server.address());
    let client = RpcClient::new(&url, &Options::default()).map_err(|error| error.to_string())?;
    Ok((server, client))
}

/// Sends the requests of a file, and checks each answer.
fn converse(client: &RpcClient, schemas: &Schemas, text: &str) -> Result<(), String> {
    let mut comments = text.lines().filter_map(|line| line.trim().strip_prefix(COMMENT));
    let schema_alone = comments.any(|comment| comment.trim_start().starts_with(SCHEMA_ALONE));
    let mut answered = None;
    let mut compared = 0;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(COMMENT)) {
        if let Some(request) = line.strip_prefix(REQUEST) {
            let asked: Value = serde_json::from_str(request.trim()).map_err(|error| format!("the test: {error}"))?;
            let method = asked["method"].as_str().unwrap_or_default().to_owned();
            let (_, bytes) = client.exchange(request.trim().as_bytes()).map_err(|error| error.to_string())?;
            let answer: Value = serde_json::from_slice(&bytes).map_err(|error| format!("the answer: {error}"))?;
            if answered.replace((method, answer)).is_some() {
                return Err("a request has no answer".into());
            }
        } else if let Some(answer) = line.strip_prefix(ANSWER) {
            let wanted: Value = serde_json::from_str(answer.trim()).map_err(|error| format!("the test: {error}"))?;
            let (method, found) = answered.take().ok_or("an answer comes before its request")?;
            judge(schemas, &method, &found, &wanted, schema_alone)?;
            compared += 1;
        } else {
            return Err(format!("a line is neither a request nor an answer: {line:.60}"));
        }
    }
    match (answered, compared) {
        (None, 1..) => Ok(()),
        _ => Err("a request has no answer".into()),
    }
}

/// Refuses an answer that is not like the recorded one, or not valid where the recorded one is.
fn judge(schemas: &Schemas, method: &str, found: &Value, wanted: &Value, schema_alone: bool) -> Result<(), String> {
    let is_valid = schemas.check(method, wanted).is_ok();
    let likeness = match (schema_alone, is_valid && !ANY_TRACE.contains(&method)) {
        (false, _) => Likeness::Values,
        (true, true) => Likeness::Outcome,
        (true, false) => Likeness::Form,
    };
    compare::answers(found, wanted, likeness)?;
    if is_valid { schemas.check(method, found) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use hearth_evm::builders::rich;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_conversation_is_compared_line_by_line() {
        let genesis = Genesis::dev(7, &rich(1..=1), 30_000_000);
        let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
        let chain = Chain::open(config).expect("it opens");
        let (server, client) = served(&chain).expect("it listens");
        let schemas = Schemas::published().expect("each of their keywords is known");
        let ask = r#">> {"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
        let answer =
            |result: &str| format!("// a chain's id\n{ask}\n<< {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n");
        assert_eq!(converse(&client, &schemas, &answer("\"0x7\"")), Ok(()));
        assert!(converse(&client, &schemas, &answer("\"0x8\"")).is_err());
        assert_eq!(converse(&client, &schemas, &format!("// speconly: form\n{}", answer("\"0x8\""))), Ok(()));
        assert!(converse(&client, &schemas, &format!("// speconly: form\n{}", answer("8"))).is_err());
        assert!(converse(&client, &schemas, ask).is_err(), "nothing is compared");
        let twice = format!("{ask}\n{}", answer("\"0x7\""));
        assert!(converse(&client, &schemas, &twice).is_err(), "one of two is compared");
        assert!(converse(&client, &schemas, "<< {}").is_err(), "nothing was asked");
        assert!(converse(&client, &schemas, &format!("{}?", answer("\"0x7\""))).is_err(), "a line of another kind");
        server.stop();
        chain.stop();
    }

    #[test]
    fn the_schema_decides_where_the_record_is_valid() {
        let schemas = Schemas::published().expect("each of their keywords is known");
        let result = |value: Value| json!({ "jsonrpc": "2.0", "id": 1, "result": value });
        let judge = |method: &str, found: &Value, wanted: &Value, schema_alone: bool| {
            super::judge(&schemas, method, &result(found.clone()), &result(wanted.clone()), schema_alone)
        };
        let (seven, eight, padded) = (json!("0x7"), json!("0x8"), json!("0x07"));
        assert_eq!(judge("eth_chainId", &eight, &seven, true), Ok(()));
        assert!(judge("eth_chainId", &eight, &seven, false).is_err(), "another value");
        assert!(judge("eth_chainId", &padded, &seven, true).is_err(), "not valid");
        // No answer can be equal to a record that is not valid, and be valid.
        assert_eq!(judge("eth_chainId", &padded, &padded, false), Ok(()));
        // By the schema a trace may be anything.
        let traced = |result: Value| json!([{ "txHash": format!("0x{}", "1".repeat(64)), "result": result }]);
        let (steps, number) = (traced(json!({ "gas": 7, "structLogs": [] })), traced(json!(7)));
        assert_eq!(judge("debug_traceBlockByNumber", &steps, &steps, true), Ok(()));
        assert!(judge("debug_traceBlockByNumber", &number, &steps, true).is_err(), "of another form");
    }
}
