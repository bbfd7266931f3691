//! Genesis: how a chain begins. Its file, its hash, and the accounts that a development chain funds.
//!
//! reads   a [`GenesisConfig`], or a genesis file
//! writes  the genesis file, and beside it a file of the further accounts; the accounts of height 0
//! memory  32 bytes a funded account, and the further accounts
//! drops   a file that is cut, changed or of another version: a [`GenesisError`] that says so
//! source  the hash is SHA-256 of our own serialisation (see [`Genesis::hash`]); the shred version is
//!         folded from it as `solana-shred-version` does
//!
//! The funded accounts of a development chain have public seeds: whoever knows the number of one can
//! sign for it. That is their purpose; such a chain holds no value.

mod extra;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hearth_crypto::ed25519::SigningKey;
use hearth_crypto::sha256::sha256;
use hearth_wire::base58::{decode_32, encode_32};
use hearth_wire::{Hash, Pubkey};
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::programs::builtin_accounts;
use crate::rent::minimum_balance;

/// The layout of the genesis file that this program writes and reads.
const FILE_VERSION: u32 = 2;
/// Ends the name of the file of further accounts.
const EXTRA_EXTENSION: &str = "accounts";
/// The latest slot at which a chain may begin: enough is left for ten million years, and sums of slots stay numbers.
const GENESIS_SLOT_MAX: u64 = 1 << 50;
/// What begins the serialisation that is hashed, so that the hash is of nothing else.
const HASH_DOMAIN: &[u8] = b"hearth genesis 2";

/// What a new chain shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenesisConfig {
    /// How many accounts with public seeds to fund.
    pub fund_initial_accounts: usize,
    /// Lamports for each of them.
    pub initial_lamports: u64,
    /// The node's identity: produces the blocks and gets the fees.
    pub identity: Pubkey,
    /// Lamports of the identity.
    pub identity_lamports: u64,
    /// Who gives lamports away on request.
    pub faucet: Pubkey,
    /// Lamports of the faucet.
    pub faucet_lamports: u64,
    /// Hashes in a tick; `None` is low power: a tick is one hash and is timed by the clock.
    pub hashes_per_tick: Option<u64>,
    /// Ticks in a slot.
    pub ticks_per_slot: u64,
    /// Length of a slot, in milliseconds.
    pub slot_ms: u64,
    /// Slots in an epoch.
    pub slots_per_epoch: u64,
    /// The slot that the genesis stands for: the first block is of the one after it. 0 but for a chain that begins
    /// late, so that programs see a later slot and epoch.
    pub genesis_slot: u64,
    /// Seconds since 1970 at which the chain begins.
    pub creation_time: u64,
    /// Programs and accounts beyond the wallets and the node's own programs. Of one address the last
    /// counts, and goes before what the chain would have there.
    pub extra_accounts: Vec<(Pubkey, Account)>,
}

impl GenesisConfig {
    /// A development chain of one node: 1,024 accounts with 500 SOL each, low power, slots of 400 ms.
    pub fn development(identity: Pubkey, faucet: Pubkey, creation_time: u64) -> Self {
        use hearth_wire::consts::LAMPORTS_PER_SOL;
        Self {
            fund_initial_accounts: 1024,
            initial_lamports: 500 * LAMPORTS_PER_SOL,
            identity,
            identity_lamports: 500 * LAMPORTS_PER_SOL,
            faucet,
            faucet_lamports: 500_000_000 * LAMPORTS_PER_SOL,
            hashes_per_tick: None,
            ticks_per_slot: 64,
            slot_ms: 400,
            slots_per_epoch: 432_000,
            genesis_slot: 0,
            creation_time,
            extra_accounts: vec![],
        }
    }
}

/// Why there is no genesis.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The file cannot be read or written.
    #[error("cannot {action} the genesis file {}: {source}", path.display())]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what this program writes.
    #[error("the genesis file {} is damaged: {what}; delete it to begin a new chain", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The configuration makes no chain.
    #[error("no such chain can begin: {0}")]
    Config(String),
}

/// How a chain began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    config: GenesisConfig,
    funded: Vec<Pubkey>,
    hash: Hash,
}

/// The seed of funded account `index`. It is public: the account is there for measuring and trying.
pub fn funded_account_seed(index: usize) -> [u8; 32] {
    sha256(&[b"hearth funded account", &(index as u64).to_le_bytes()])
}

/// The key of funded account `index`.
pub fn funded_account_key(index: usize) -> SigningKey {
    SigningKey::from_seed(&funded_account_seed(index))
}

/// The addresses of the first `count` funded accounts, derived on every core. `progress` is called
/// with how many are done, from the calling thread, every so often and at the end.
pub fn derive_funded_accounts(count: usize, mut progress: impl FnMut(usize)) -> Vec<Pubkey> {
    const PART: usize = 256;
    let mut funded = vec![[0; 32]; count];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let parts = std::sync::Mutex::new(funded.chunks_mut(PART).enumerate());
    let done = AtomicUsize::new(0);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (tell, parts, done) = (tell.clone(), &parts, &done);
            scope.spawn(move || {
                loop {
                    let part = parts.lock().map_or(None, |mut parts| parts.next());
                    let Some((part, keys)) = part else { break };
                    let first = part * PART;
                    let count = keys.len();
                    keys.iter_mut().zip(first..).for_each(|(key, n)| *key = funded_account_key(n).public_key());
                    // The receiver lives until every sender is gone.
                    let _ = tell.send(done.fetch_add(count, Relaxed) + count);
                }
            });
        }
        drop(tell);
        let mut most = 0;
        told.iter().for_each(|done| {
            if done > most {
                most = done;
                progress(done);
            }
        });
    });
    funded
}

impl Genesis {
    /// A chain as `config` says. Derives the funded accounts; `progress` as in
    /// [`derive_funded_accounts`].
    pub fn create(config: GenesisConfig, progress: impl FnMut(usize)) -> Result<Self, GenesisError> {
        check(&config).map_err(GenesisError::Config)?;
        let funded = derive_funded_accounts(config.fund_initial_accounts, progress);
        let hash = hash_of(&config, &funded);
        Ok(Self { config, funded, hash })
    }

    /// What the chain was made from.
    pub fn config(&self) -> &GenesisConfig {
        &self.config
    }

    /// The addresses of the funded accounts, by number.
    pub fn funded_accounts(&self) -> &[Pubkey] {
        &self.funded
    }

    /// Names the chain, and is its first blockhash: SHA-256 over the text `hearth genesis 2`, then,
    /// each as 8 bytes little endian, hashes per tick (0 for none), ticks per slot, milliseconds a
    /// slot, slots an epoch, creation time, and the count of accounts; then each account by address:
    /// address, lamports, owner, executable (1 byte), length of its data (8 bytes), data. At the end the genesis slot,
    /// where it is not 0.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// The 16 bits by which a node knows the shreds of its chain.
    pub fn shred_version(&self) -> u16 {
        shred_version(&self.hash)
    }

    /// Every account of height 0, by address.
    pub fn accounts(&self) -> Vec<(Pubkey, Account)> {
        accounts_of(&self.config, &self.funded)
    }

    /// Writes the file, whole or not at all, after that of the further accounts.
    pub fn save(&self, path: &Path) -> Result<(), GenesisError> {
        let extra = extra::encode(&self.config.extra_accounts);
        write_whole(&path.with_extension(EXTRA_EXTENSION), &extra)?;
        let body = Body::of(self);
        let file = File { checksum: body.checksum(), genesis: body };
        let mut text = serde_json::to_string(&file).expect("a genesis has only numbers and texts");
        text.push('\n');
        write_whole(path, text.as_bytes())
    }

    /// Reads a file that [`Genesis::save`] wrote.
    pub fn load(path: &Path) -> Result<Self, GenesisError> {
        let failed = |source| GenesisError::Io { action: "read", path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let damaged = |path: &Path| {
            let path = path.to_owned();
            move |what| GenesisError::Damaged { path, what }
        };
        let mut genesis = parse(&text).map_err(damaged(path))?;
        let extra_path = path.with_extension(EXTRA_EXTENSION);
        let failed = |source| GenesisError::Io { action: "read", path: extra_path.clone(), source };
        let bytes = std::fs::read(&extra_path).map_err(failed)?;
        genesis.config.extra_accounts = extra::decode(&bytes).map_err(damaged(&extra_path))?;
        check(&genesis.config).map_err(damaged(path))?;
        let hash = hash_of(&genesis.config, &genesis.funded);
        if hash != genesis.hash {
            let (found, said) = (encode_32(&hash), encode_32(&genesis.hash));
            return Err(damaged(path)(format!("its content has the hash {found}, it says {said}")));
        }
        Ok(genesis)
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), GenesisError> {
    let failed = |source| GenesisError::Io { action: "write", path: path.to_owned(), source };
    let part = path.with_extension("part");
    std::fs::write(&part, bytes).map_err(failed)?;
    std::fs::File::open(&part).and_then(|file| file.sync_all()).map_err(failed)?;
    std::fs::rename(&part, path).map_err(failed)
}

/// The shred version of a chain without hard forks.
pub fn shred_version(genesis_hash: &Hash) -> u16 {
    let folded = genesis_hash.as_chunks::<2>().0.iter().fold([0; 2], |sum, pair| [sum[0] ^ pair[0], sum[1] ^ pair[1]]);
    u16::from_be_bytes(folded).saturating_add(1)
}

/// Ticks of a slot at most: a tick's number travels in a byte.
pub const TICKS_PER_SLOT_MAX: u64 = 255;
/// Slots of an epoch at most: who leads each of them is kept in memory.
pub const SLOTS_PER_EPOCH_MAX: u64 = 1 << 24;
/// The longest slot: an hour.
pub const SLOT_MS_MAX: u64 = 3_600_000;
/// Hashes of a slot at most, so that sums of them stay far from overflow.
pub const SLOT_HASHES_MAX: u64 = 1 << 40;

fn check(config: &GenesisConfig) -> Result<(), String> {
    let least = minimum_balance(0);
    let amounts = [
        ("each funded account", config.initial_lamports, config.fund_initial_accounts > 0),
        ("the identity", config.identity_lamports, config.identity_lamports > 0),
        ("the faucet", config.faucet_lamports, config.faucet_lamports > 0),
    ];
    for (who, lamports, exists) in amounts {
        if exists && lamports < least {
            return Err(format!("{who} would hold {lamports} lamports, an account needs at least {least}"));
        }
    }
    let extra = config.extra_accounts.iter().map(|(_, account)| u128::from(account.lamports)).sum::<u128>();
    let total = extra
        + u128::from(config.initial_lamports) * config.fund_initial_accounts as u128
        + u128::from(config.identity_lamports)
        + u128::from(config.faucet_lamports);
    if total > u128::from(u64::MAX / 2) {
        return Err(format!("{total} lamports are more than a chain can count"));
    }
    for (what, value) in [
        ("ticks_per_slot", config.ticks_per_slot),
        ("slot_ms", config.slot_ms),
        ("slots_per_epoch", config.slots_per_epoch),
        ("hashes_per_tick", config.hashes_per_tick.unwrap_or(1)),
    ] {
        if value == 0 {
            return Err(format!("{what} is 0"));
        }
    }
    if config.genesis_slot > GENESIS_SLOT_MAX {
        return Err(format!("slot {} is too late to begin at: at most {GENESIS_SLOT_MAX}", config.genesis_slot));
    }
    let (ticks, hashes) = (config.ticks_per_slot, config.hashes_per_tick.unwrap_or(2));
    if ticks > TICKS_PER_SLOT_MAX {
        return Err(format!("ticks_per_slot is {ticks}, more than {TICKS_PER_SLOT_MAX}"));
    }
    if config.slots_per_epoch > SLOTS_PER_EPOCH_MAX {
        return Err(format!("slots_per_epoch is {}, more than {SLOTS_PER_EPOCH_MAX}", config.slots_per_epoch));
    }
    if config.slot_ms > SLOT_MS_MAX {
        return Err(format!("slot_ms is {}, more than {SLOT_MS_MAX}", config.slot_ms));
    }
    if hashes == 1 || hashes.saturating_mul(ticks) > SLOT_HASHES_MAX {
        return Err(format!("hashes_per_tick is {hashes}: at least 2, and at most {SLOT_HASHES_MAX} in a slot"));
    }
    if config.identity == config.faucet {
        return Err("identity and faucet are the same key".to_owned());
    }
    Ok(())
}

fn accounts_of(config: &GenesisConfig, funded: &[Pubkey]) -> Vec<(Pubkey, Account)> {
    let mut accounts: Vec<_> = config.extra_accounts.iter().rev().cloned().collect();
    accounts.extend(builtin_accounts());
    accounts.push((config.identity, Account::wallet(config.identity_lamports)));
    accounts.push((config.faucet, Account::wallet(config.faucet_lamports)));
    accounts.extend(funded.iter().map(|key| (*key, Account::wallet(config.initial_lamports))));
    accounts.retain(|(_, account)| account.lamports != 0);
    accounts.sort_by_key(|(key, _)| *key);
    // The sort keeps the order of what has one address: the first counts.
    accounts.dedup_by_key(|(key, _)| *key);
    accounts
}

fn hash_of(config: &GenesisConfig, funded: &[Pubkey]) -> Hash {
    let accounts = accounts_of(config, funded);
    let mut bytes = HASH_DOMAIN.to_vec();
    for number in [
        config.hashes_per_tick.unwrap_or(0),
        config.ticks_per_slot,
        config.slot_ms,
        config.slots_per_epoch,
        config.creation_time,
        accounts.len() as u64,
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for (key, account) in &accounts {
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(&account.lamports.to_le_bytes());
        bytes.extend_from_slice(&account.owner);
        bytes.push(account.executable.into());
        bytes.extend_from_slice(&(account.data().len() as u64).to_le_bytes());
        bytes.extend_from_slice(account.data());
    }
    if config.genesis_slot > 0 {
        bytes.extend_from_slice(&config.genesis_slot.to_le_bytes());
    }
    sha256(&[&bytes])
}

/// The genesis file: its content and a checksum over it. The hash is over the further accounts too.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    checksum: u32,
    genesis: Body,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    version: u32,
    hash: String,
    hashes_per_tick: Option<u64>,
    ticks_per_slot: u64,
    slot_ms: u64,
    slots_per_epoch: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    genesis_slot: u64,
    creation_time: u64,
    identity: String,
    identity_lamports: u64,
    faucet: String,
    faucet_lamports: u64,
    initial_lamports: u64,
    funded_accounts: Vec<String>,
}

impl Body {
    fn of(genesis: &Genesis) -> Self {
        let config = &genesis.config;
        Self {
            version: FILE_VERSION,
            hash: encode_32(&genesis.hash).to_string(),
            hashes_per_tick: config.hashes_per_tick,
            ticks_per_slot: config.ticks_per_slot,
            slot_ms: config.slot_ms,
            slots_per_epoch: config.slots_per_epoch,
            genesis_slot: config.genesis_slot,
            creation_time: config.creation_time,
            identity: encode_32(&config.identity).to_string(),
            identity_lamports: config.identity_lamports,
            faucet: encode_32(&config.faucet).to_string(),
            faucet_lamports: config.faucet_lamports,
            initial_lamports: config.initial_lamports,
            funded_accounts: genesis.funded.iter().map(|key| encode_32(key).to_string()).collect(),
        }
    }

    fn checksum(&self) -> u32 {
        crc32fast::hash(serde_json::to_string(self).expect("a genesis has only numbers and texts").as_bytes())
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a file says; the further accounts are elsewhere, and the hash is not checked yet.
fn parse(text: &str) -> Result<Genesis, String> {
    let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let body = file.genesis;
    if body.version != FILE_VERSION {
        let version = body.version;
        return Err(format!("it has version {version}, of another release; this program reads {FILE_VERSION}"));
    }
    let checksum = body.checksum();
    if checksum != file.checksum {
        return Err(format!("its checksum is {checksum}, it says {}", file.checksum));
    }
    let key = |what: &str, text: &str| decode_32(text).map_err(|error| format!("{what} {text:?}: {error}"));
    let funded: Vec<Pubkey> =
        body.funded_accounts.iter().map(|text| key("funded account", text)).collect::<Result<_, _>>()?;
    let config = GenesisConfig {
        fund_initial_accounts: funded.len(),
        initial_lamports: body.initial_lamports,
        identity: key("identity", &body.identity)?,
        identity_lamports: body.identity_lamports,
        faucet: key("faucet", &body.faucet)?,
        faucet_lamports: body.faucet_lamports,
        hashes_per_tick: body.hashes_per_tick,
        ticks_per_slot: body.ticks_per_slot,
        slot_ms: body.slot_ms,
        slots_per_epoch: body.slots_per_epoch,
        genesis_slot: body.genesis_slot,
        creation_time: body.creation_time,
        extra_accounts: vec![],
    };
    let hash = key("hash", &body.hash)?;
    Ok(Genesis { config, funded, hash })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn development(accounts: usize) -> GenesisConfig {
        let config = GenesisConfig::development([1; 32], [2; 32], 1_700_000_000);
        GenesisConfig { fund_initial_accounts: accounts, ..config }
    }

    #[test]
    fn begins_with_what_the_configuration_says() {
        let mut progress = vec![];
        let genesis = Genesis::create(development(700), |done| progress.push(done)).unwrap();
        assert_eq!(progress.last(), Some(&700));
        assert!(progress.is_sorted());
        let accounts = genesis.accounts();
        assert_eq!(accounts.len(), 700 + 2 + builtin_accounts().len());
        let lamports: u64 = accounts.iter().map(|(_, account)| account.lamports).sum();
        let config = genesis.config();
        let given = 700 * config.initial_lamports + config.identity_lamports + config.faucet_lamports;
        assert_eq!(lamports, given + builtin_accounts().len() as u64);
        assert_eq!(genesis.funded_accounts()[699], funded_account_key(699).public_key());
        assert_eq!(SigningKey::from_seed(&funded_account_seed(3)).public_key(), genesis.funded_accounts()[3]);
    }

    #[test]
    fn everything_that_matters_changes_the_hash() {
        let base = *Genesis::create(development(1), |_| {}).unwrap().hash();
        assert_eq!(base, *Genesis::create(development(1), |_| {}).unwrap().hash());
        let changes: [fn(&mut GenesisConfig); 11] = [
            |config| config.genesis_slot = 1,
            |config| config.fund_initial_accounts = 2,
            |config| config.initial_lamports += 1,
            |config| config.identity = [3; 32],
            |config| config.identity_lamports += 1,
            |config| config.faucet_lamports += 1,
            |config| config.hashes_per_tick = Some(62_500),
            |config| config.ticks_per_slot = 65,
            |config| config.slot_ms = 200,
            |config| config.creation_time += 1,
            |config| config.extra_accounts.push(([9; 32], Account::wallet(1_000_000))),
        ];
        for change in changes {
            let mut config = development(1);
            change(&mut config);
            assert_ne!(*Genesis::create(config, |_| {}).unwrap().hash(), base);
        }
    }

    #[test]
    fn the_shred_version_is_folded_as_the_cluster_does() {
        let pairs = |pairs: &[u8]| {
            let mut hash = [0; 32];
            hash[..pairs.len()].copy_from_slice(pairs);
            shred_version(&hash)
        };
        assert_eq!(pairs(&[]), 1, "never 0");
        assert_eq!(pairs(&[0xa5, 0xa5, 0x5a, 0x5a]), 0xffff, "saturates");
        assert_eq!(pairs(&[0x12, 0x34, 0x01, 0x00]), 0x1335);
    }

    #[test]
    fn survives_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("genesis.json");
        let mut config = development(50);
        config.hashes_per_tick = Some(62_500);
        config.genesis_slot = 1_000;
        config.extra_accounts = vec![([9; 32], Account::with_data(1_000_000, [8; 32], b"program"))];
        let genesis = Genesis::create(config, |_| {}).unwrap();
        genesis.save(&path).unwrap();
        assert_eq!(Genesis::load(&path).unwrap(), genesis);
        assert!(!dir.path().join("genesis.part").exists());
    }

    #[test]
    fn a_damaged_file_is_told_from_a_missing_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("genesis.json");
        let error = Genesis::load(&path).unwrap_err();
        assert!(matches!(error, GenesisError::Io { action: "read", .. }) && error.to_string().contains("genesis.json"));
        Genesis::create(development(5), |_| {}).unwrap().save(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let changes = [
            text[..text.len() / 2].to_owned(),
            text.replace("\"ticks_per_slot\":64", "\"ticks_per_slot\":63"),
            text.replace("\"version\":2", "\"version\":1"),
            text.replace("\"slot_ms\"", "\"slot_s\""),
        ];
        for changed in changes {
            std::fs::write(&path, &changed).unwrap();
            let error = Genesis::load(&path).unwrap_err();
            assert!(matches!(error, GenesisError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains("delete it"), "{error}");
        }
    }

    #[test]
    fn the_last_extra_account_of_an_address_counts() {
        let mut config = development(1);
        let extra = |lamports| (config.identity, Account::wallet(lamports));
        config.extra_accounts = vec![extra(1_000_000), extra(2_000_000)];
        let accounts = Genesis::create(config, |_| {}).unwrap().accounts();
        let found: Vec<_> = accounts.iter().filter(|(key, _)| *key == [1; 32]).collect();
        assert_eq!(found, [&([1; 32], Account::wallet(2_000_000))]);
    }

    #[test]
    fn damaged_extra_accounts_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("genesis.json");
        let with = |lamports| {
            let extra_accounts = vec![([9; 32], Account::wallet(lamports))];
            Genesis::create(GenesisConfig { extra_accounts, ..development(1) }, |_| {}).unwrap()
        };
        with(1_000_000).save(&path).unwrap();
        let extra = path.with_extension(EXTRA_EXTENSION);
        let right = std::fs::read(&extra).unwrap();
        std::fs::write(&extra, &right[1..]).unwrap();
        let error = Genesis::load(&path).unwrap_err().to_string();
        assert!(error.contains("genesis.accounts is damaged"), "{error}");
        // Whole, but of another chain.
        std::fs::write(&extra, extra::encode(&with(2_000_000).config.extra_accounts)).unwrap();
        let error = Genesis::load(&path).unwrap_err().to_string();
        assert!(error.contains("genesis.json is damaged: its content has the hash"), "{error}");
        std::fs::remove_file(&extra).unwrap();
        assert!(matches!(Genesis::load(&path), Err(GenesisError::Io { action: "read", .. })));
    }

    #[test]
    fn impossible_chains_are_refused() {
        let refused = |change: fn(&mut GenesisConfig)| {
            let mut config = development(2);
            change(&mut config);
            matches!(Genesis::create(config, |_| {}), Err(GenesisError::Config(_)))
        };
        assert!(refused(|config| config.initial_lamports = 890_879));
        assert!(refused(|config| config.faucet_lamports = u64::MAX));
        assert!(refused(|config| config.ticks_per_slot = 0));
        assert!(refused(|config| config.ticks_per_slot = 256));
        assert!(refused(|config| config.slots_per_epoch = SLOTS_PER_EPOCH_MAX + 1));
        assert!(refused(|config| config.slot_ms = SLOT_MS_MAX + 1));
        assert!(refused(|config| config.hashes_per_tick = Some(0)));
        assert!(refused(|config| config.hashes_per_tick = Some(1)));
        assert!(refused(|config| config.faucet = config.identity));
        assert!(refused(|config| config.genesis_slot = u64::MAX));
    }
}
