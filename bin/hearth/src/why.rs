//! `hearth why`: what became of a transaction.
//!
//! reads   the running node's workspace, to find its RPC; its `getTransactionFate` answer over HTTP; for an
//!         Ethereum hash see [`ethereum`]
//! writes  the fate, in words
//! memory  one answer

mod ethereum;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use clap::Args;
use hearth_command::exit_code::{ExitCode, FAILED, WRONG_USE};
use hearth_command::node_rpc::{self, RpcError};
use hearth_command::output::{self, CommandOutput, WriteError};
use hearth_evm_node::WEB3;
use hearth_machine::port::reachable;
use hearth_node::boot;
use hearth_node::config::{ConfigFile, LocalNode};
use hearth_ring::{Observer, unix_time};
use hearth_tile::topology::Topology;
use hearth_wire::base58::{Base58Error, decode_32, decode_64};
use serde_json::{Value, json};

use crate::local_nodes;

/// The options of `hearth why`.
#[derive(Args)]
pub struct Options {
    /// The file; it says on which port the node's JSON-RPC is.
    #[command(flatten)]
    pub config: ConfigFile,
    /// The transaction's first signature, in base58; or the hash (`0x…`) of a transaction of the EVM chain or its UTXO
    /// ledger.
    pub signature: String,
    /// The URL of the node's JSON-RPC [default: that of the running node of that name].
    #[arg(short = 'u', long, value_name = "URL", conflicts_with = "name")]
    pub url: Option<String>,
    /// Which node to ask, by the name that it was started with (`hearth run --name`); by default that of the
    /// configuration, or else the only one that runs.
    #[arg(long, value_name = "NODE")]
    pub name: Option<String>,
    /// Write the node's answer as JSON to FILE, or to standard output without FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

/// Why no fate can be printed.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// The argument is not a transaction signature.
    #[error("`{0}` is not a signature: {1}; clients print it after sending")]
    Signature(String, Base58Error),
    /// The argument is an address rather than a signature.
    #[error(
        "`{0}` is an address (32 bytes) and no signature (64 bytes). The signatures of the transactions that named it: \
         getSignaturesForAddress, or `solana transaction-history {0}`"
    )]
    Address(String),
    /// The argument, where it begins as a hash does.
    #[error(
        "`{0}` is not a hash of a transaction: that is 0x and 64 hexadecimal digits, as clients print it after sending"
    )]
    Hash(String),
    /// An address of the Ethereum chain.
    #[error("`{0}` is an address (20 bytes) and no hash of a transaction (32 bytes)")]
    EthereumAddress(String),
    /// `--url` is not a usable address.
    #[error("--url {0}: not an address as http://127.0.0.1:8899")]
    Url(String),
    /// No node answers at this URL.
    #[error("no answer from {0}: {1}; does the node run? --name, --url or --config says which")]
    Connection(String, String),
    /// No node of the Ethereum chain there.
    #[error(
        "no answer from {0}: {1}; a transaction 0x… is of the Ethereum chain. Does `hearth evm run` run? --name or --url \
         says where"
    )]
    NoEthereumNode(String, String),
    /// Several Ethereum nodes run, and the options single out none.
    #[error("{} nodes of the Ethereum chain run on this machine: {}; --name says which", .0.len(), .0.join(", "))]
    SeveralEthereum(Vec<String>),
    /// The node runs the other ledger.
    #[error(
        "the node at {url} does not know such transactions: this is {what}, for which a node of `{node}` answers; --url \
         says where one is"
    )]
    OtherChain {
        /// URL of the node.
        url: String,
        /// The kind of argument that was given.
        what: &'static str,
        /// The command that starts a node of the right kind.
        node: &'static str,
    },
    /// No node of that name.
    #[error("{}", local_nodes::no_node_text(.0, .1))]
    NoNode(String, Vec<String>),
    /// Several nodes run, none with the configuration's name.
    #[error("several nodes run on this machine: {}; --name says which to ask", .0.join(", "))]
    Several(Vec<String>),
    /// The node refused the request.
    #[error("the node at {0} refuses: {1}")]
    Refused(String, String),
    /// Something other than a node answered.
    #[error("the answer of {0} is not that of a node: {1}")]
    Answer(String, String),
    /// The answer cannot be written to its file.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The transaction did not succeed; holds the exit code for its fate. The answer has been printed.
    #[error("it did not land successfully")]
    Verdict(u8),
}

/// JSON-RPC error code for a method that the node does not have.
const NONE_HERE: i64 = -32601;
/// Exit code: it landed and failed.
const LANDED_FAILED: u8 = 3;
/// Exit code: it was dropped, or refused.
const DROPPED: u8 = 4;
/// Exit code: nothing is known of it.
const UNKNOWN: u8 = 5;

impl ExitCode for WhyError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Signature(..) | Self::Address(_) | Self::Hash(_) | Self::EthereumAddress(_) => WRONG_USE,
            Self::Url(_) | Self::Several(_) | Self::SeveralEthereum(_) => WRONG_USE,
            Self::Verdict(code) => *code,
            _ => FAILED,
        }
    }

    fn is_printed(&self) -> bool {
        matches!(self, Self::Verdict(_))
    }
}

/// Asks the node selected by the options, among those like `node`, and prints its answer.
pub fn run(node: &LocalNode, options: &Options, say: &CommandOutput) -> Result<(), WhyError> {
    let text = &options.signature;
    let fate = if ethereum::is_hash(text)? { of_hash(node, options)? } else { of_signature(node, options)? };
    match &options.json {
        Some(path) => output::json(path, format_args!("{fate:#}"), say)?,
        None => say.text(in_words(&fate)),
    }
    match fate["fate"].as_str() {
        Some("landed") if fate["err"].is_null() => Ok(()),
        Some("landed") => Err(WhyError::Verdict(LANDED_FAILED)),
        Some("pending") => Ok(()),
        Some("dropped") => Err(WhyError::Verdict(DROPPED)),
        _ => Err(WhyError::Verdict(UNKNOWN)),
    }
}

fn of_hash(node: &LocalNode, options: &Options) -> Result<Value, WhyError> {
    let url = match (&options.url, &options.name) {
        (Some(url), _) => url.clone(),
        (None, Some(_)) => format!("http://{}", place(node, true)?),
        (None, None) => ethereum::usual_place(node)?,
    };
    ethereum::fate(&url, &options.signature.to_lowercase())
}

fn of_signature(node: &LocalNode, options: &Options) -> Result<Value, WhyError> {
    let text = &options.signature;
    decode_64(text).map_err(|why| match decode_32(text) {
        Ok(_) => WhyError::Address(text.clone()),
        Err(_) => WhyError::Signature(text.clone(), why),
    })?;
    let url = match &options.url {
        Some(url) => url.clone(),
        None => format!("http://{}", place_of(node, options)?),
    };
    ask(&url, &options.signature)
}

/// Returns the node's RPC address while it runs: the port may have moved. A node that was named must run.
pub fn place(node: &LocalNode, is_named: bool) -> Result<SocketAddr, WhyError> {
    let usual = reachable(node.rpc);
    let running = Observer::attach(&node.workspace()).ok().filter(Observer::is_alive);
    match running {
        Some(node) => Ok(rpc_of(&node, usual.ip()).unwrap_or(usual)),
        None if is_named => Err(WhyError::NoNode(node.name.clone(), local_nodes::running(node))),
        None => Ok(usual),
    }
}

/// Returns the RPC address of the node that the options select: if they name none and the default node does not run,
/// the only node that does.
fn place_of(node: &LocalNode, options: &Options) -> Result<SocketAddr, WhyError> {
    let is_named = options.name.is_some();
    match place(node, true) {
        Err(WhyError::NoNode(_, running)) if !is_named && options.config.config.is_none() => match only(&running)? {
            Some(name) => place(&node.named(name), false),
            None => place(node, false),
        },
        _ => place(node, is_named),
    }
}

/// Returns the only running node, or `None` if none runs.
fn only(running: &[String]) -> Result<Option<&str>, WhyError> {
    // Nodes of the Ethereum chain have no Solana signatures.
    let running: Vec<&str> = running.iter().map(String::as_str).filter(|name| !name.starts_with("evm-")).collect();
    match running[..] {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        _ => Err(WhyError::Several(running.into_iter().map(str::to_owned).collect())),
    }
}

/// Returns the address that a running node reports for its RPC, or for Web3 on an EVM node, whose name holds the
/// address if that is not the usual one.
fn rpc_of(observer: &Observer, usual: IpAddr) -> Option<SocketAddr> {
    // As the node's own build has its counters.
    let topology = Topology::from_workspace(observer.topology()).ok()?;
    let service = topology.services.iter().find(|service| [boot::RPC, WEB3].contains(&&service.name[..]))?;
    let at = service.counters.iter().position(|counter| counter.name == "http_port")?;
    let words = observer.counters(&service.name)?;
    let port = u16::try_from(words.get(at)?.load(Relaxed)).ok().filter(|port| *port != 0)?;
    let host = match service.name == WEB3 {
        true => address_of(&topology.name).unwrap_or(Ipv4Addr::LOCALHOST.into()),
        false => usual,
    };
    Some(reachable(SocketAddr::new(host, port)))
}

/// The address in `evm-10.0.0.1-8545`.
fn address_of(name: &str) -> Option<IpAddr> {
    let (host, _) = name.strip_prefix("evm-")?.rsplit_once('-')?;
    host.parse().or_else(|_| host.replace('-', ":").parse()).ok()
}

fn ask(url: &str, signature: &str) -> Result<Value, WhyError> {
    let asked = node_rpc::at(url).and_then(|rpc| rpc.call("getTransactionFate", &json!([signature])));
    let answer = asked.map_err(|why| match why {
        RpcError::Url { .. } | RpcError::Host(_) => WhyError::Url(url.into()),
        RpcError::Refused { code: NONE_HERE, .. } => {
            let what = "a signature of the Solana chain";
            WhyError::OtherChain { url: url.into(), what, node: "hearth run" }
        }
        RpcError::Refused { message, .. } => WhyError::Refused(url.into(), message),
        why => WhyError::Connection(url.into(), why.reason()),
    })?;
    let fate = &answer["value"];
    match fate["explanation"].is_string() {
        true => Ok(fate.clone()),
        false => Err(WhyError::Answer(url.into(), "it has no explanation".into())),
    }
}

/// Formats the fate for a person.
fn in_words(fate: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut words = format!("{}: {}\n", text(&fate["fate"]), text(&fate["explanation"]));
    if let Some(time) = fate["drop"]["unixTimestamp"].as_u64() {
        words += &format!("when:    {} s ago\n", unix_time().as_secs().saturating_sub(time));
        words += &format!("counter: {}\n", text(&fate["drop"]["counter"]));
    }
    if let Some(count) = fate["duplicates"]["count"].as_u64() {
        let last = text(&fate["duplicates"]["lastCounter"]);
        words += &format!("copies:  {count} more came and went as duplicates, the last counted by {last}\n");
    }
    if let Some(hint) = fate["hint"].as_str() {
        words += &format!("hint:    {hint}\n");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_evm_node_says_where_it_listens() {
        let address = |name: &str| address_of(name).map(|address| address.to_string());
        assert_eq!(address("evm-0.0.0.0-8545").as_deref(), Some("0.0.0.0"));
        assert_eq!(address("evm---1-8545").as_deref(), Some("::1"));
        assert_eq!((address("evm-8545"), address("hearth")), (None, None));
    }

    #[test]
    fn missing_signature_is_reported_once() {
        let said = WhyError::Signature("abc".into(), decode_64("abc").unwrap_err()).to_string();
        assert_eq!(said.matches("64 bytes").count(), 1, "{said}");
    }

    #[test]
    fn the_only_node_needs_no_name() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        assert_eq!(only(&names(&["other"])).unwrap(), Some("other"));
        assert_eq!(only(&[]).unwrap(), None);
        let said = only(&names(&["a", "b"])).unwrap_err().to_string();
        assert_eq!(said, "several nodes run on this machine: a, b; --name says which to ask");
    }

    #[test]
    fn a_drop_in_words() {
        let fate = json!({
            "fate": "dropped",
            "explanation": "It did not land: pack dropped it (dropped_expired). Its blockhash is too old.",
            "drop": { "counter": "pack_dropped_expired", "unixTimestamp": u64::MAX },
            "duplicates": { "count": 2, "lastCounter": "dedup_dropped_duplicate" },
            "hint": "Sign with the latest blockhash.",
        });
        let expected = "dropped: It did not land: pack dropped it (dropped_expired). Its blockhash is too old.\n\
            when:    0 s ago\n\
            counter: pack_dropped_expired\n\
            copies:  2 more came and went as duplicates, the last counted by dedup_dropped_duplicate\n\
            hint:    Sign with the latest blockhash.\n";
        assert_eq!(in_words(&fate), expected);
        let landed = json!({ "fate": "landed", "explanation": "It landed in slot 1 (processed).", "hint": null });
        assert_eq!(in_words(&landed), "landed: It landed in slot 1 (processed).\n");
    }
}
