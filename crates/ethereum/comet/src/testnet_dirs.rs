//! The homes of a network's nodes: CometBFT creates keys and files, this module adapts them to the application.
//!
//! reads   the files that `cometbft testnet` writes
//! writes  per node a folder: `config/` and `data/` of CometBFT, and room for the application's `ledger/`
//! memory  one file at a time
//! drops   nothing: a folder that holds something else already is an error

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use serde_json::Value;

use crate::config_toml::{Node, SettingError, StateSync};

/// Maximum length of a Unix socket's path in bytes; a longer one is given relative to the node's folder.
const SOCKET_PATH_MAX: usize = 107;

/// Properties of a network that is to be made.
#[derive(Clone, Debug)]
pub struct Network {
    /// Number of nodes that vote.
    pub validators: u16,
    /// Nodes that only follow.
    pub followers: u16,
    /// Node `i` is at 127.0.0.(1 + i): peers at this port, CometBFT's RPC at the next, ours at the one after it.
    pub base_port: u16,
    /// Between a block's commit and the next one's proposal, in milliseconds.
    pub pause_ms: u64,
    /// Transactions that CometBFT's mempool holds at most.
    pub pool: u64,
    /// The genesis in geth's form; its chain id names the network.
    pub genesis: Value,
}

/// Folder and addresses of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// Its folder: CometBFT's `--home`.
    pub folder: PathBuf,
    /// IP address of the node.
    pub host: String,
    /// Address under which its peers find it.
    pub p2p_port: u16,
}

/// Why there are no homes.
#[derive(Debug, thiserror::Error)]
pub enum HomesError {
    /// The folder exists already, so a new network would overwrite it.
    #[error("{0} is there already; name another folder, or remove it")]
    Exists(PathBuf),
    /// An existing network differs from the requested one.
    #[error("the network in {folder} has {there} {what}, not {wanted}; leave that out, or name another folder")]
    Other {
        /// Folder of the existing network.
        folder: PathBuf,
        /// The property that differs.
        what: &'static str,
        /// Value of the property in the folder's network.
        there: u64,
        /// Value of the property in the request.
        wanted: u64,
    },
    /// No validator, or more than a hundred nodes.
    #[error("{0} nodes; from 1 to 100 are possible")]
    Count(u32),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Why the file cannot be read or written, as the system says it.
        source: io::Error,
    },
    /// `cometbft testnet` failed, or could not be started.
    #[error("{program} testnet: {why}")]
    Program {
        /// Path of CometBFT's program.
        program: PathBuf,
        /// Error message of the program or of the system.
        why: String,
    },
    /// CometBFT's genesis file does not parse.
    #[error("{path}: {source}")]
    Genesis {
        /// Path of the genesis file.
        path: PathBuf,
        /// Position and cause of the parser's failure.
        source: serde_json::Error,
    },
    /// CometBFT's configuration cannot be edited.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

impl Home {
    /// Returns the address on which the application listens, as both programs name it; both run in the folder.
    pub fn application(&self) -> String {
        let path = self.folder.join("abci.sock");
        let path = if path.as_os_str().len() > SOCKET_PATH_MAX { "abci.sock".into() } else { path };
        format!("unix://{}", path.display())
    }

    /// URL of CometBFT's RPC.
    pub fn comet_rpc(&self) -> String {
        format!("http://{}:{}", self.host, self.p2p_port + 1)
    }

    /// The address of our RPC.
    pub fn web3(&self) -> String {
        format!("{}:{}", self.host, self.web3_port())
    }

    /// TCP port of our Web3 RPC.
    pub fn web3_port(&self) -> u16 {
        self.p2p_port + 2
    }

    /// CometBFT's genesis, which holds ours.
    pub fn genesis(&self) -> PathBuf {
        self.folder.join("config/genesis.json")
    }

    /// Folder of the application's ledger.
    pub fn ledger(&self) -> PathBuf {
        self.folder.join("ledger")
    }

    /// Has this node begin from a peer's snapshot.
    pub fn begin_from_snapshot(&self, sync: StateSync, network: &Network) -> Result<(), HomesError> {
        self.configure(network, Some(sync))
    }

    fn configure(&self, network: &Network, state_sync: Option<StateSync>) -> Result<(), HomesError> {
        let path = self.folder.join("config/config.toml");
        let node = Node {
            application: self.application(),
            rpc: format!("tcp://{}:{}", self.host, self.p2p_port + 1),
            p2p: format!("tcp://{}:{}", self.host, self.p2p_port),
            pause_ms: network.pause_ms,
            pool: network.pool,
            state_sync,
        };
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        fs::write(&path, node.apply(&text)?).map_err(at(&path))
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> HomesError {
    move |source| HomesError::File { path: path.into(), source }
}

/// Writes the homes of a network into `folder`, which must not exist.
pub fn write(cometbft: &Path, folder: &Path, network: &Network) -> Result<Vec<Home>, HomesError> {
    let count = u32::from(network.validators) + u32::from(network.followers);
    if network.validators == 0 || count > 100 {
        return Err(HomesError::Count(count));
    }
    if folder.exists() {
        return Err(HomesError::Exists(folder.into()));
    }
    fs::create_dir_all(folder).map_err(at(folder))?;
    let folder = fs::canonicalize(folder).map_err(at(folder))?;
    let homes: Vec<Home> = (0..count).map(|number| home(&folder, number, network.base_port)).collect();
    make(cometbft, &folder, network, &homes)?;
    for home in &homes {
        let path = home.genesis();
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        let text = genesis_with(&text, &network.genesis)
            .map_err(|source| HomesError::Genesis { path: path.clone(), source })?;
        fs::write(&path, text).map_err(at(&path))?;
        home.configure(network, None)?;
    }
    Ok(homes)
}

/// Properties that the user requires of a network that may exist already.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequiredProperties {
    /// Number of nodes that vote; `None` accepts any.
    pub validators: Option<u16>,
    /// Nodes that only follow.
    pub followers: Option<u16>,
    /// Chain id of the EVM; `None` accepts any.
    pub chain_id: Option<u64>,
}

/// The homes of an existing network.
pub struct ExistingNetwork {
    /// Those of the nodes that vote, then those of the others.
    pub homes: Vec<Home>,
    /// Number of nodes that vote.
    pub validators: usize,
    /// Chain id of the EVM, which names the network.
    pub chain_id: u64,
}

/// Returns the homes that already exist in `folder`, if any, with this network's ports. Fails if they do not match
/// `wanted`.
pub fn find(
    folder: &Path,
    network: &Network,
    wanted: &RequiredProperties,
) -> Result<Option<ExistingNetwork>, HomesError> {
    let Ok(folder) = fs::canonicalize(folder) else { return Ok(None) };
    let there = |number: &u32| folder.join(format!("node{number}/config/config.toml")).exists();
    let homes: Vec<Home> = (0..).take_while(there).map(|number| home(&folder, number, network.base_port)).collect();
    let Some(first) = homes.first() else { return Err(HomesError::Exists(folder)) };
    let path = first.genesis();
    let text = fs::read_to_string(&path).map_err(at(&path))?;
    let genesis: Value =
        serde_json::from_str(&text).map_err(|source| HomesError::Genesis { path: path.clone(), source })?;
    let validators = genesis["validators"].as_array().map_or(0, Vec::len) as u64;
    let chain_id = genesis["app_state"]["config"]["chainId"].as_u64().unwrap_or_default();
    for (what, there, wanted) in [
        ("validators", validators, wanted.validators.map(u64::from)),
        ("followers", (homes.len() as u64).saturating_sub(validators), wanted.followers.map(u64::from)),
        ("as its chain's id", chain_id, wanted.chain_id),
    ] {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != there) {
            return Err(HomesError::Other { folder, what, there, wanted });
        }
    }
    homes.iter().try_for_each(|home| home.configure(network, None))?;
    Ok(Some(ExistingNetwork { homes, validators: validators as usize, chain_id }))
}

fn home(folder: &Path, number: u32, base_port: u16) -> Home {
    let host = format!("127.0.0.{}", number + 1);
    Home { folder: folder.join(format!("node{number}")), host, p2p_port: base_port }
}

/// CometBFT's own files, keys and all.
fn make(cometbft: &Path, folder: &Path, network: &Network, homes: &[Home]) -> Result<(), HomesError> {
    let mut command = Command::new(cometbft);
    command.args(["testnet", "--v", &network.validators.to_string(), "--n", &network.followers.to_string()]);
    command.arg("--o").arg(folder).args(["--p2p-port", &network.base_port.to_string()]);
    command.args(homes.iter().flat_map(|home| ["--hostname", &home.host]));
    let failed = |why: String| HomesError::Program { program: cometbft.into(), why };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(())
}

/// CometBFT's genesis with ours in it: the same text for each node, since each has the same from CometBFT.
fn genesis_with(text: &str, ours: &Value) -> Result<String, serde_json::Error> {
    let mut genesis: Value = serde_json::from_str(text)?;
    if let Some(chain_id) = ours["config"]["chainId"].as_u64() {
        genesis["chain_id"] = format!("hearth-{chain_id}").into();
    }
    genesis["app_state"] = ours.clone();
    serde_json::to_string_pretty(&genesis)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn our_genesis_goes_into_cometbfts() {
        let text = genesis_with(r#"{"chain_id": "x", "validators": [1]}"#, &json!({ "config": { "chainId": 7 } }));
        let genesis: Value = serde_json::from_str(&text.unwrap()).unwrap();
        assert_eq!(genesis["chain_id"], "hearth-7");
        assert_eq!(genesis["app_state"]["config"]["chainId"], 7);
        assert_eq!(genesis["validators"], json!([1]));
    }

    #[test]
    fn a_long_path_is_named_from_its_folder() {
        let home = |folder: &str| Home { folder: folder.into(), host: "127.0.0.1".into(), p2p_port: 26656 };
        assert_eq!(home("/a").application(), "unix:///a/abci.sock");
        assert_eq!(home(&format!("/{}", "a".repeat(100))).application(), "unix://abci.sock");
        assert_eq!(home("/a").comet_rpc(), "http://127.0.0.1:26657");
    }

    #[test]
    fn a_network_that_is_there_is_the_one_that_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let network = Network { validators: 4, followers: 0, base_port: 1, pause_ms: 1, pool: 1, genesis: Value::Null };
        for number in 0..3 {
            let config = folder.path().join(format!("node{number}/config"));
            fs::create_dir_all(&config).unwrap();
            fs::write(config.join("config.toml"), "").unwrap();
            let genesis = json!({ "validators": [1, 2], "app_state": { "config": { "chainId": 7 } } });
            fs::write(config.join("genesis.json"), genesis.to_string()).unwrap();
        }
        let why =
            |wanted: RequiredProperties| find(folder.path(), &network, &wanted).err().expect("another").to_string();
        assert!(
            why(RequiredProperties { validators: Some(4), ..RequiredProperties::default() })
                .contains("has 2 validators, not 4")
        );
        assert!(
            why(RequiredProperties { followers: Some(0), ..RequiredProperties::default() })
                .contains("has 1 followers, not 0")
        );
        assert!(
            why(RequiredProperties { chain_id: Some(8), ..RequiredProperties::default() })
                .contains("has 7 as its chain's id, not 8")
        );
        // A match proceeds to the settings, which this file lacks.
        let right = RequiredProperties { validators: Some(2), followers: Some(1), chain_id: Some(7) };
        assert!(why(right).contains("proxy_app"));
    }

    #[test]
    fn existing_files_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let network = Network { validators: 1, followers: 0, base_port: 1, pause_ms: 1, pool: 1, genesis: Value::Null };
        let result = write(Path::new("/nowhere/cometbft"), folder.path(), &network);
        assert!(matches!(result, Err(HomesError::Exists(_))));
        let any = RequiredProperties::default();
        assert!(matches!(find(folder.path(), &network, &any), Err(HomesError::Exists(_))));
        assert!(matches!(find(&folder.path().join("a"), &network, &any), Ok(None)));
        let result = write(Path::new("/nowhere/cometbft"), &folder.path().join("a"), &network);
        assert!(matches!(result, Err(HomesError::Program { .. })));
    }
}
