//! The genesis accounts that options request, and the check that an existing chain has them.
//!
//! reads   options, the files that they name, the node at `--url`
//! writes  accounts
//! memory  the accounts
//! drops   all but the last account of an address that is requested more than once, with a notice
//! source  `solana-test-validator` 4.2 for the meaning of each option, and for which of two accounts with one address
//!         counts. It lets accounts and programs override the builtin ones silently; this does so with a notice
//!
//! A program from another chain contains its deployment slot there, which this chain may reach only in years. Here it
//! counts as deployed before genesis.

use std::collections::HashMap;
use std::path::Path;

use hearth_command::shell;
use hearth_keys as keys;
use hearth_ledger::features::Feature;
use hearth_ledger::program_header::{clear_deployment_slot, code_address};
use hearth_ledger::programs::is_reserved;
use hearth_ledger::rent::minimum_balance;
use hearth_ledger::{Account, Genesis, GenesisConfig};
use hearth_svm::programs::{self, upgradeable_program};
use hearth_wire::Pubkey;
use hearth_wire::base58::{decode_32, encode_32};
use hearth_wire::consts::LAMPORTS_PER_SOL;

use super::dump::{self, Dump};
use super::feature_set::FeatureRequest;
use super::remote::{self, AS_OF, COMMITMENT};
use super::{FlagError, Flags};

/// Lamports of the mint.
const MINT_LAMPORTS: u64 = 500_000_000 * LAMPORTS_PER_SOL;
/// The upgrade authority of an immutable program.
const NOBODY: Pubkey = [0; 32];

/// The genesis accounts that the options request.
#[derive(Default)]
pub struct GenesisOverrides {
    accounts: Vec<AccountRequest>,
    /// Requests that were overridden.
    replaced: Vec<String>,
    numbers: Vec<(&'static str, fn(&GenesisConfig) -> u64)>,
    features: FeatureRequest,
}

/// An account that an option requests.
struct AccountRequest {
    flag: &'static str,
    /// Its source file or node; empty if it comes from the option alone.
    from: String,
    key: Pubkey,
    /// `None`: the account as another node had it when the chain was created.
    account: Option<Account>,
}

impl GenesisOverrides {
    /// The requests of `flags`. If the chain `exists`, accounts of other nodes are not fetched again.
    pub fn of(flags: &Flags, exists: bool) -> Result<Self, FlagError> {
        let mut beginning = Self { features: FeatureRequest::of(flags, exists)?, ..Self::default() };
        beginning.numbers(flags);
        // In order of precedence: the last account of an address counts.
        beginning.files(flags)?;
        beginning.clones(flags, exists)?;
        beginning.programs(flags)?;
        if let Some(mint) = &flags.mint {
            beginning.add("--mint", String::new(), address("--mint", mint)?, Account::wallet(MINT_LAMPORTS));
        }
        beginning.refuse_own()?;
        beginning.keep_last();
        Ok(beginning)
    }

    /// Keeps the last account of each address, and records those that it overrides.
    fn keep_last(&mut self) {
        let mut kept: Vec<Option<AccountRequest>> = Vec::with_capacity(self.accounts.len());
        let mut index_of = HashMap::with_capacity(self.accounts.len());
        for request in std::mem::take(&mut self.accounts) {
            let earlier = index_of.insert(request.key, kept.len());
            if let Some(other) = earlier.and_then(|index: usize| kept[index].take()) {
                let text = encode_32(&request.key);
                self.replaced.push(format!(
                    "{text} is asked for twice, by {} and by {}; the latter counts",
                    other.origin(),
                    request.origin()
                ));
            }
            kept.push(Some(request));
        }
        self.accounts = kept.into_iter().flatten().collect();
    }

    /// Refuses accounts that the chain creates itself.
    fn refuse_own(&self) -> Result<(), FlagError> {
        for AccountRequest { flag, key, .. } in &self.accounts {
            let text = encode_32(key);
            let is_own = is_reserved(key) && !programs::is_replaceable(key);
            if is_own || (*flag == "--mint" && programs::is_replaceable(key)) {
                let what = format!("{text} is a program or an account of the chain itself; it cannot be another");
                return Err(FlagError::value(flag, what));
            }
        }
        Ok(())
    }

    /// Notices for the user about a chain that starts this way.
    pub fn notices(&self) -> Vec<String> {
        let notice = |AccountRequest { flag, key, account, .. }: &AccountRequest| {
            let (text, account) = (encode_32(key), account.as_ref()?);
            let least = minimum_balance(account.data().len());
            if programs::is_replaceable(key) {
                return Some(format!("{flag}: {text} is a program that every chain begins with; this one has yours"));
            }
            (account.lamports < least).then(|| {
                format!(
                    "{flag}: {text} has {} lamports, below the {least} that an account of {} bytes must have; a \
                     transaction that writes it has to raise it (as on a cluster)",
                    account.lamports,
                    account.data().len()
                )
            })
        };
        let replaced = self.replaced.iter().cloned().chain(self.features.notices());
        replaced.chain(self.accounts.iter().filter_map(notice)).collect()
    }

    /// How many accounts were read from the node at `--url`, and at which commitment; `None` if none was.
    pub fn cloned(&self, flags: &Flags) -> Option<String> {
        let url = flags.url.as_ref()?;
        let count = self.accounts.iter().filter(|request| request.account.is_some() && request.from == *url).count();
        let accounts = if count == 1 { "account" } else { "accounts" };
        (count > 0).then(|| format!("{count} {accounts} of {url} at commitment `{COMMITMENT}`"))
    }

    /// The features that are active in a new chain from its start.
    pub fn features(&self) -> Vec<&'static Feature> {
        self.features.features()
    }

    /// The accounts for a new chain.
    pub fn accounts(&self) -> impl Iterator<Item = (Pubkey, Account)> {
        self.accounts.iter().filter_map(|request| Some((request.key, request.account.clone()?)))
    }

    /// Checks that the chain in `folder` was created as the options request: the values in `wanted`, and the accounts.
    pub fn check(&self, genesis: &Genesis, folder: &Path, wanted: &GenesisConfig) -> Result<(), FlagError> {
        let began = |flag, what| Err(FlagError::Began { flag, folder: folder.into(), what });
        for (flag, of) in &self.numbers {
            let (wanted, has) = (of(wanted), of(genesis.config()));
            if wanted != has {
                return began(flag, format!("with {has} and not {wanted}"));
            }
        }
        if let Some((flag, what)) = self.features.difference(genesis) {
            return began(flag, what);
        }
        if self.accounts.is_empty() {
            return Ok(());
        }
        let accounts = genesis.accounts();
        let found = |key: &Pubkey| Some(&accounts[accounts.binary_search_by_key(key, |(key, _)| *key).ok()?].1);
        for AccountRequest { flag, key, account, .. } in &self.accounts {
            // Chains of earlier versions started with the deployment slots of other chains.
            match (found(key).cloned().map(begun), account) {
                (None, _) => return began(flag, format!("without an account at {}", encode_32(key))),
                (Some(has), Some(wanted)) if has != *wanted => {
                    return began(flag, format!("with another account at {}", encode_32(key)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, flag: &'static str, from: String, key: Pubkey, account: Account) {
        self.accounts.push(AccountRequest { flag, from, key, account: Some(begun(account)) });
    }

    fn numbers(&mut self, flags: &Flags) {
        let all: [(_, _, fn(&GenesisConfig) -> u64); 5] = [
            ("--ticks-per-slot", flags.ticks_per_slot.is_some(), |genesis| genesis.ticks_per_slot),
            ("--slot-ms", flags.slot_ms.is_some(), |genesis| genesis.slot_ms),
            ("--slots-per-epoch", flags.slots_per_epoch.is_some(), |genesis| genesis.slots_per_epoch),
            ("--faucet-sol", flags.faucet_sol.is_some(), |genesis| genesis.faucet_lamports),
            ("--warp-slot", flags.warp_slot.flatten().is_some(), |genesis| genesis.genesis_slot),
        ];
        self.numbers = all.into_iter().filter(|(_, given, _)| *given).map(|(flag, _, of)| (flag, of)).collect();
    }

    fn programs(&mut self, flags: &Flags) -> Result<(), FlagError> {
        for values in flags.bpf_program.chunks_exact(2) {
            let flag = "--bpf-program";
            self.program(flag, address(flag, &values[0])?, Path::new(&values[1]), &NOBODY)?;
        }
        for values in flags.upgradeable_program.chunks_exact(3) {
            let flag = "--upgradeable-program";
            let authority = if values[2] == "none" { NOBODY } else { address(flag, &values[2])? };
            self.program(flag, address(flag, &values[0])?, Path::new(&values[1]), &authority)?;
        }
        Ok(())
    }

    fn program(&mut self, flag: &'static str, key: Pubkey, path: &Path, authority: &Pubkey) -> Result<(), FlagError> {
        let elf = dump::read_program(path).map_err(|why| FlagError::value(flag, why))?;
        self.elf(flag, key, path, &elf, authority)
    }

    fn elf(
        &mut self,
        flag: &'static str,
        key: Pubkey,
        path: &Path,
        elf: &[u8],
        authority: &Pubkey,
    ) -> Result<(), FlagError> {
        programs::verify(elf).map_err(|why| {
            FlagError::value(flag, format!("{} is not a program that runs here: {why}", path.display()))
        })?;
        let from = path.display().to_string();
        for (key, account) in upgradeable_program(&key, elf, authority) {
            self.add(flag, from.clone(), key, account);
        }
        Ok(())
    }

    fn files(&mut self, flags: &Flags) -> Result<(), FlagError> {
        for values in flags.account.chunks_exact(2) {
            let flag = "--account";
            let key = if values[0] == "-" { None } else { Some(address(flag, &values[0])?) };
            self.file(flag, key, Path::new(&values[1]))?;
        }
        for folder in &flags.account_dir {
            let flag = "--account-dir";
            let wrong = |why| FlagError::value(flag, format!("cannot read {}: {why}", folder.display()));
            let mut files = vec![];
            for entry in std::fs::read_dir(folder).map_err(wrong)? {
                files.push(entry.map_err(wrong)?.path());
            }
            files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
            files.sort();
            files.iter().try_for_each(|path| self.file(flag, None, path))?;
        }
        Ok(())
    }

    /// Adds one account; its address is in the file if `key` is `None`.
    fn file(&mut self, flag: &'static str, key: Option<Pubkey>, path: &Path) -> Result<(), FlagError> {
        match dump::read(path).map_err(|why| FlagError::value(flag, why))? {
            Dump::Account(has, account) => self.add(flag, path.display().to_string(), key.unwrap_or(has), account),
            Dump::Program(_) => {
                let what = format!("{} is a program; give it as --bpf-program ADDRESS FILE", path.display());
                return Err(FlagError::value(flag, what));
            }
        }
        Ok(())
    }

    fn clones(&mut self, flags: &Flags, exists: bool) -> Result<(), FlagError> {
        let flag = "--clone";
        let mut values = flags.clone.iter().peekable();
        while let Some(value) = values.next() {
            let key = address(flag, value)?;
            match values.next_if(|next| decode_32(next).is_err()) {
                Some(file) => match dump::read(Path::new(file)).map_err(|why| FlagError::value(flag, why))? {
                    Dump::Account(_, account) => self.add(flag, file.clone(), key, account),
                    Dump::Program(elf) => self.elf(flag, key, Path::new(file), &elf, &NOBODY)?,
                },
                None => self.remote(flags, flag, key, exists)?,
            }
        }
        for value in &flags.maybe_clone {
            let flag = "--maybe-clone";
            let key = address(flag, value)?;
            if exists {
                // The chain may have started with either the other node's account or this one.
                if self.accounts.iter().any(|request| request.key == key) {
                    self.accounts.push(AccountRequest { flag, from: there(flags), key, account: None });
                }
            } else if let Some(account) = fetch(flags, flag, &key)? {
                self.add(flag, there(flags), key, account);
            }
        }
        for value in &flags.clone_upgradeable_program {
            let flag = "--clone-upgradeable-program";
            let key = address(flag, value)?;
            self.remote(flags, flag, key, exists)?;
            if !exists {
                let account = self.accounts.last().and_then(|request| request.account.as_ref());
                let data = account.and_then(code_address).ok_or_else(|| {
                    let what = format!("{} is not a program that can be upgraded there ({AS_OF})", encode_32(&key));
                    FlagError::value(flag, what)
                })?;
                self.remote(flags, flag, data, exists)?;
            }
        }
        Ok(())
    }

    fn remote(&mut self, flags: &Flags, flag: &'static str, key: Pubkey, exists: bool) -> Result<(), FlagError> {
        let account = match exists {
            true => None,
            false => Some(fetch(flags, flag, &key)?.ok_or_else(|| {
                let what = format!("there is no account {} at {} ({AS_OF})", encode_32(&key), there(flags));
                FlagError::value(flag, what)
            })?),
        };
        self.accounts.push(AccountRequest { flag, from: there(flags), key, account: account.map(begun) });
        Ok(())
    }
}

impl AccountRequest {
    /// The option, and its source.
    fn origin(&self) -> String {
        match self.from.is_empty() {
            true => self.flag.to_owned(),
            false => format!("{} from {}", self.flag, self.from),
        }
    }
}

/// The node from which accounts are fetched.
fn there(flags: &Flags) -> String {
    flags.url.clone().unwrap_or_default()
}

/// The account in the form in which a chain starts with it.
fn begun(mut account: Account) -> Account {
    clear_deployment_slot(&mut account);
    account
}

fn fetch(flags: &Flags, flag: &'static str, key: &Pubkey) -> Result<Option<Account>, FlagError> {
    let Some(url) = &flags.url else {
        let what = format!("{} needs the file of a dump, or --url of a node that has the account", encode_32(key));
        return Err(FlagError::value(flag, what));
    };
    remote::account(url, key).map_err(|why| FlagError::value(flag, why))
}

/// Parses an address, or reads that of a key file.
pub(crate) fn address(flag: &'static str, text: &str) -> Result<Pubkey, FlagError> {
    if let Ok(key) = decode_32(text) {
        return Ok(key);
    }
    if !Path::new(text).exists() {
        let what = match text.contains('/') || text.ends_with(".json") {
            true => {
                let file = shell::word(text);
                format!("there is no key file {text}; `hearth keys new {file}` makes one, or give an address")
            }
            false => format!("`{text}` is neither an address in base58 nor a key file"),
        };
        return Err(FlagError::value(flag, what));
    }
    keys::read(Path::new(text)).map(|identity| identity.public).map_err(|why| FlagError::value(flag, why.to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hearth_wire::consts::{BPF_LOADER_UPGRADEABLE, LOADER_V4};
    use serde_json::json;

    use super::*;

    /// Writes the dump of an account to a file in the folder.
    fn dumped(folder: &Path, name: &str, owner: &Pubkey, data: &[u8]) -> String {
        let account = json!({
            "lamports": 1_000_000_000, "data": [base58_of(data), "base58"], "owner": &*encode_32(owner),
            "executable": false,
        });
        let path = folder.join(name);
        let pubkey = encode_32(&[name.len() as u8; 32]);
        std::fs::write(&path, json!({ "pubkey": &*pubkey, "account": account }).to_string()).unwrap();
        path.display().to_string()
    }

    fn base58_of(data: &[u8]) -> String {
        bs58::encode(data).into_string()
    }

    #[test]
    fn programs_of_other_chains_begin_in_slot_zero() {
        let folder = tempfile::tempdir().unwrap();
        let accounts = folder.path().join("accounts");
        std::fs::create_dir(&accounts).unwrap();
        let slot = 300_000_000u64.to_le_bytes();
        let code = [&3u32.to_le_bytes()[..], &slot, &[0; 40], b"code"].concat();
        let version_4 = [&slot[..], &[0; 40], b"code"].concat();
        let account = dumped(folder.path(), "a", &BPF_LOADER_UPGRADEABLE, &code);
        let clone = dumped(folder.path(), "bb", &LOADER_V4, &version_4);
        dumped(&accounts, "ccc.json", &BPF_LOADER_UPGRADEABLE, &code);
        let flags = Flags {
            account: vec!["-".into(), account],
            clone: vec![encode_32(&[9; 32]).to_string(), clone],
            account_dir: vec![accounts],
            ..Flags::default()
        };
        let beginning = GenesisOverrides::of(&flags, false).unwrap();
        let slots: Vec<_> =
            beginning.accounts().map(|(_, account)| hearth_ledger::program_header::deployment_slot(&account)).collect();
        assert_eq!(slots, [Some(0); 3]);
        // A chain that started with the other chain's slots still matches these options.
        let mut config = GenesisConfig { fund_initial_accounts: 0, ..GenesisConfig::development([1; 32], [2; 32], 0) };
        let has_slot = |(key, account): (Pubkey, Account)| {
            let mut data = account.data().to_vec();
            data[if account.owner == LOADER_V4 { 0..8 } else { 4..12 }].copy_from_slice(&slot);
            (key, Account::with_data(account.lamports, account.owner, &data))
        };
        config.extra_accounts = beginning.accounts().map(has_slot).collect();
        let genesis = Genesis::create(config.clone(), |_| {}).unwrap();
        beginning.check(&genesis, folder.path(), &config).unwrap();
    }

    const OWNER: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";

    fn dump(path: &Path, key: &Pubkey, lamports: u64) {
        let account =
            serde_json::json!({ "lamports": lamports, "data": ["", "base64"], "owner": OWNER, "executable": false });
        let key = encode_32(key).to_string();
        fs::write(path, serde_json::json!({ "pubkey": key, "account": account }).to_string()).unwrap();
    }

    /// On the first start the other node's account may have counted; on a later one it is not read again.
    #[test]
    fn maybe_clone_beside_another_option_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let (file, key) = (folder.path().join("account.json"), [7; 32]);
        dump(&file, &key, 1_000_000);
        let mut config = GenesisConfig { fund_initial_accounts: 0, ..GenesisConfig::development([1; 32], [2; 32], 0) };
        config.extra_accounts = vec![(key, Account::wallet(2_000_000))];
        let genesis = Genesis::create(config.clone(), |_| {}).unwrap();
        let flags = Flags {
            account: vec!["-".into(), file.display().to_string()],
            maybe_clone: vec![encode_32(&key).to_string()],
            url: Some("http://127.0.0.1:1".into()),
            ..Flags::default()
        };
        let beginning = GenesisOverrides::of(&flags, true).unwrap();
        beginning.check(&genesis, folder.path(), &config).unwrap();
        assert_eq!(beginning.cloned(&flags), None);
        // Without the account of either option it is another chain.
        let other = Genesis::create(GenesisConfig { extra_accounts: vec![], ..config.clone() }, |_| {}).unwrap();
        assert!(beginning.check(&other, folder.path(), &config).is_err());
    }

    #[test]
    fn the_last_account_of_an_address_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let text = |name: &str| file(name).display().to_string();
        let (twice, once) = ([7; 32], [8; 32]);
        fs::create_dir(file("accounts")).unwrap();
        dump(&file("accounts/a.json"), &twice, 1_000_000);
        dump(&file("accounts/b.json"), &twice, 2_000_000);
        dump(&file("accounts/c.json"), &once, 3_000_000);
        let flags = Flags { account_dir: vec![file("accounts")], ..Flags::default() };
        let begins = GenesisOverrides::of(&flags, false).unwrap();
        let lamports = |begins: &GenesisOverrides, wanted: &Pubkey| -> Vec<u64> {
            begins.accounts().filter(|(key, _)| key == wanted).map(|(_, account)| account.lamports).collect()
        };
        assert_eq!((lamports(&begins, &twice), lamports(&begins, &once)), (vec![2_000_000], vec![3_000_000]));
        let notices = begins.notices();
        assert_eq!(notices.len(), 1, "{notices:?}");
        for part in [&*encode_32(&twice), "--account-dir", &text("accounts/a.json"), &text("accounts/b.json")] {
            assert!(notices[0].contains(part), "{part}: {}", notices[0]);
        }
        assert!(notices[0].ends_with(&format!("{}; the latter counts", text("accounts/b.json"))), "{}", notices[0]);
        // Whatever the options are: files of one account, of folders, dumps to clone, the mint.
        dump(&file("one.json"), &twice, 4_000_000);
        dump(&file("clone.json"), &twice, 5_000_000);
        let both = Flags {
            account: vec!["-".into(), text("one.json"), "-".into(), text("one.json")],
            clone: vec![encode_32(&twice).to_string(), text("clone.json")],
            ..flags
        };
        let begins = GenesisOverrides::of(&both, true).unwrap();
        assert_eq!(lamports(&begins, &twice), [5_000_000]);
        assert_eq!(begins.notices().len(), 4);
        let minted = Flags { mint: Some(encode_32(&twice).to_string()), ..both };
        let begins = GenesisOverrides::of(&minted, false).unwrap();
        assert_eq!(lamports(&begins, &twice), [MINT_LAMPORTS]);
        let said = begins.notices().concat();
        assert!(said.contains(&format!("--clone from {} and by --mint; the latter", text("clone.json"))), "{said}");
    }
}
