//! What of a development chain's block zero changes from start to start: its time, and whether a contract is there.
//!
//! reads   `beginning` in the chain's folder
//! writes  the same file, once, before anything else of a new chain
//! memory  a few words
//! source  the deployer of <https://github.com/Arachnid/deterministic-deployment-proxy>, which anvil has at this
//!         address
//!
//! Block zero is not stored: each start makes it again from the options. The file has these too, so that a start with
//! others can say which of them differ. A folder from before this file was written has
//! a block zero of time 0, without the deployer.

use std::fs;
use std::io;
use std::path::Path;

use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, Bytes, address, bytes};
use hearth_wal::store_file;

use super::Genesis;
use crate::checksummed::{verified, with_checksum};

/// The address of the contract that creates others by `CREATE2`, at addresses that are the same on every chain.
pub const CREATE2_DEPLOYER: Address = address!("4e59b44847b379578588920ca78fbf26c0b4956c");
const CREATE2_DEPLOYER_CODE: Bytes = bytes!(
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe036016000816020823780358282"
    "34f58015156039578182fd5b8082525050506014600cf3"
);

const FILE: &str = "beginning";
const FIRST_LINE: &str = "hearth beginning 1";
/// Before an option's name and value.
const OPTION: &str = "option ";

/// The parts of block zero that the options alone do not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockZeroOptions {
    /// Its time, in seconds since 1970.
    pub timestamp_s: u64,
    /// Whether the deployer is there.
    pub create2_deployer: bool,
}

impl BlockZeroOptions {
    /// Reads the beginning of the chain in `dir`. If there is no chain yet, it is `new`, and `dir` stores that, with
    /// the options that block zero is made from: their names and values, each a word or words on one line.
    pub fn in_folder(dir: &Path, new: Self, options: &[(&str, String)]) -> io::Result<Self> {
        let path = dir.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => {
                let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", path.display()));
                return verified(&bytes).and_then(Self::parse).ok_or_else(wrong);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if dir.join("blocks").exists() || dir.join("state").exists() {
            return Ok(Self { timestamp_s: 0, create2_deployer: false });
        }
        fs::create_dir_all(dir)?;
        let next = path.with_extension("next");
        store_file::put(&next, &path, new.text(options).as_bytes())?;
        Ok(new)
    }

    /// The options with which the chain in `dir` began, by name; none where its folder is from before they were kept.
    pub fn options_in_folder(dir: &Path) -> Vec<(String, String)> {
        let bytes = fs::read(dir.join(FILE)).unwrap_or_default();
        let lines = verified(&bytes).unwrap_or_default().lines();
        let options = lines.filter_map(|line| line.strip_prefix(OPTION)?.split_once(' '));
        options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn text(&self, options: &[(&str, String)]) -> String {
        let Self { timestamp_s, create2_deployer } = self;
        let options: String = options.iter().map(|(name, value)| format!("{OPTION}{name} {value}\n")).collect();
        let lines = format!("{FIRST_LINE}\ntimestamp {timestamp_s}\ncreate2-deployer {create2_deployer}\n{options}");
        with_checksum(&lines)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        (lines.next()? == FIRST_LINE).then_some(())?;
        let timestamp_s = lines.next()?.strip_prefix("timestamp ")?.parse().ok()?;
        let create2_deployer = lines.next()?.strip_prefix("create2-deployer ")?.parse().ok()?;
        Some(Self { timestamp_s, create2_deployer })
    }
}

/// Returns the deployer's account.
pub(super) fn create2_deployer() -> GenesisAccount {
    // As on other chains, where a transaction has created it.
    GenesisAccount { nonce: Some(1), code: Some(CREATE2_DEPLOYER_CODE), ..Default::default() }
}

impl Genesis {
    /// The same chain with another beginning.
    #[must_use]
    pub fn with_beginning(mut self, beginning: BlockZeroOptions) -> Self {
        self.timestamp = beginning.timestamp_s;
        if !beginning.create2_deployer {
            self.alloc.remove(&CREATE2_DEPLOYER);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_keeps_its_beginning() {
        let folder = tempfile::tempdir().expect("a folder");
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        let first = BlockZeroOptions { timestamp_s: 1_700_000_000, create2_deployer: true };
        let options = [("--accounts", "10".to_owned()), ("--balance", "1 ether".to_owned())];
        let later = BlockZeroOptions { timestamp_s: 1_800_000_000, create2_deployer: false };
        assert_eq!(BlockZeroOptions::in_folder(&new, first, &options).expect("written"), first);
        assert_eq!(BlockZeroOptions::in_folder(&new, later, &[]).expect("read"), first);
        let kept = BlockZeroOptions::options_in_folder(&new);
        assert_eq!(kept, [("--accounts", "10"), ("--balance", "1 ether")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        // A chain of an earlier version.
        fs::create_dir_all(old.join("blocks")).expect("made");
        let before = BlockZeroOptions { timestamp_s: 0, create2_deployer: false };
        assert_eq!(BlockZeroOptions::in_folder(&old, first, &options).expect("read"), before);
        assert_eq!(BlockZeroOptions::options_in_folder(&old), []);
        let text = fs::read_to_string(new.join("beginning")).expect("written");
        fs::write(new.join("beginning"), text.replace("1700000000", "1700000001")).expect("written");
        assert!(BlockZeroOptions::in_folder(&new, first, &[]).is_err(), "a damaged file would make another chain");
    }

    #[test]
    fn the_deployer_has_its_known_code() {
        let genesis = Genesis::dev(31337, &[], 30_000_000);
        let code = genesis.alloc[&CREATE2_DEPLOYER].code.clone().expect("it has code");
        // Its hash on Ethereum's mainnet.
        let hash = alloy_primitives::keccak256(code);
        assert_eq!(hash.to_string(), "0x2fa86add0aed31f33a762c9d88e807c475bd51d0f52bd0955754b2608f7e4989");
        let without = BlockZeroOptions { timestamp_s: 7, create2_deployer: false };
        let genesis = genesis.with_beginning(without);
        assert_eq!(genesis.timestamp, 7);
        assert!(!genesis.alloc.contains_key(&CREATE2_DEPLOYER));
    }
}
