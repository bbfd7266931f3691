//! The genesis: a chain before its first block.
//!
//! reads   geth's JSON, or the few values of a development chain
//! writes  the state's first changes and the header of block zero
//! memory  the alloc, as long as the genesis is held
//! source  geth's `core/genesis.go` and `params/config.go` for what a field means and what a missing one means;
//!         EIP-1559, 4788, 4895, 7685 for the header's later fields; EIP-2935, 4788, 7002, 7251 for the contracts

pub mod block_zero;
pub mod dump;
mod forks;
mod side;

pub use forks::{Activation, Forks, WorkRules};
pub use side::{KEY as SIDE_KEY, SideGenesis};

use std::collections::BTreeMap;

use alloy_consensus::{Header, constants};
use alloy_eips::{eip2935, eip4788, eip6110, eip7002, eip7251, eip7685};
use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B64, B256, Bytes, KECCAK256_EMPTY, Sealable, Sealed, U256};
use revm::primitives::hardfork::SpecId;
use revm::state::AccountInfo;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::blobs::{BlobParams, BlobSchedule};
use crate::limits::TxLimits;
use crate::side::SideKind;
use crate::state::{Account, AccountChange, BlockZero, Changes, Entry, bytecode};

/// The base fee of the first block under EIP-1559 where the genesis names none: 1 gwei.
pub const FIRST_BASE_FEE: u64 = 1_000_000_000;
/// The block gas limit where the genesis names none, as geth has it.
const DEFAULT_GAS_LIMIT: u64 = 4_712_388;

/// Why a genesis is refused.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// Not JSON, or not of the genesis' form.
    #[error("genesis: {0}")]
    Json(#[from] serde_json::Error),
    /// A field without which it is no genesis: a slip of the pen would make another chain.
    #[error("genesis: {0} is missing")]
    Missing(&'static str),
    /// The chain's id is zero.
    #[error("genesis: config.chainId is 0; give it an id of its own")]
    ChainId,
    /// A fork is active before the one it builds on.
    #[error("genesis: {later} is set while {earlier}, on which it builds, {how}")]
    ForkOrder {
        /// The fork that must come first.
        earlier: &'static str,
        /// The fork that must come after.
        later: &'static str,
        /// The problem with the earlier one.
        how: &'static str,
    },
    /// A fork that this node does not know.
    #[error("genesis: config.{0}: a fork that this node does not know")]
    UnknownFork(&'static str),
    /// Numbers of blobs that cannot be.
    #[error("genesis: config.blobSchedule.{0}")]
    Blobs(String),
    /// A contract without which there is no block from Prague on.
    #[error(
        "genesis: alloc has no contract at {contract}, which each block calls from pragueTime on ({eip}). Add it with \
         the code that the EIP gives, or let pragueTime come after the transaction that creates it"
    )]
    NoSystemContract {
        /// The address that the EIP assigns to the contract.
        contract: Address,
        /// The EIP that requires it.
        eip: &'static str,
    },
    /// A value beyond what its field of the header holds.
    #[error("genesis: {0} is too large")]
    TooLarge(&'static str),
    /// A side ledger that cannot be.
    #[error("genesis: {key}: {0}", key = side::KEY)]
    Side(String),
    /// A block zero that has another number.
    #[error("genesis: number is {0}; a chain begins at 0")]
    Number(u64),
}

/// A chain's state, rules and header before its first block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    /// The chain's id, EIP-155.
    pub chain_id: u64,
    /// The forks and their beginnings.
    pub forks: Forks,
    /// How many blobs blocks may hold, by fork.
    pub blobs: BlobSchedule,
    /// The limits that the forks' rules leave to the chain.
    pub limits: TxLimits,
    /// The contract whose logs are deposits from Prague on (EIP-6110). The default is that of Ethereum's mainnet,
    /// 0x00000000219ab540356cBB839Cbe05303d7705Fa.
    pub deposit_contract: Address,
    /// The accounts of block zero.
    pub alloc: BTreeMap<Address, GenesisAccount>,
    /// Block zero's gas limit.
    pub gas_limit: u64,
    /// Block zero's base fee in wei; without meaning before London.
    pub base_fee: u64,
    /// Block zero's time, seconds of the Unix epoch.
    pub timestamp: u64,
    /// Block zero's extra data.
    pub extra_data: Bytes,
    /// Block zero's fee recipient: the header's `beneficiary`.
    pub coinbase: Address,
    /// Block zero's difficulty; under proof of work, block 1's is computed from it.
    pub difficulty: U256,
    /// Block zero's mix hash.
    pub mix_hash: B256,
    /// Block zero's nonce: the header's 8 bytes, as a big-endian number.
    pub nonce: u64,
    /// Block zero's parent: zero but in tests of consensus.
    pub parent_hash: B256,
    /// Block zero's excess blob gas, where Cancun is active.
    pub excess_blob_gas: u64,
    /// Block zero's blob gas used, where Cancun is active.
    pub blob_gas_used: u64,
    /// The side ledger, where the chain carries one.
    pub side: Option<SideGenesis>,
    /// Seconds that a developer had set the chain's time ahead of the clock, where the genesis is a dump. It is no part
    /// of block zero.
    pub clock_offset_s: i64,
}

/// The required fields of a genesis.
#[derive(Deserialize)]
struct RequiredFields {
    config: Option<NamedConfig>,
    alloc: Option<IgnoredAny>,
    // As in `side::KEY`.
    #[serde(rename = "hearthOutputs")]
    side: Option<Value>,
    // As in `dump::CLOCK_OFFSET`.
    #[serde(rename = "hearthClockOffset", default)]
    clock_offset_s: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedConfig {
    chain_id: Option<IgnoredAny>,
}

impl Genesis {
    /// Reads geth's JSON form, of a chain without a side ledger.
    pub fn from_json(text: &str) -> Result<Self, GenesisError> {
        Self::from_json_with(text, None)
    }

    /// Reads geth's JSON form, and in addition the side ledger's beginning, of this kind.
    pub fn from_json_with(text: &str, kind: Option<&'static dyn SideKind>) -> Result<Self, GenesisError> {
        let named: RequiredFields = serde_json::from_str(text)?;
        if !named.config.as_ref().is_some_and(|config| config.chain_id.is_some()) {
            return Err(GenesisError::Missing("config.chainId"));
        }
        if named.alloc.is_none() {
            return Err(GenesisError::Missing("alloc"));
        }
        let read: alloy_genesis::Genesis = serde_json::from_str(text)?;
        if read.config.chain_id == 0 {
            return Err(GenesisError::ChainId);
        }
        if let Some(number) = read.number.filter(|number| *number != 0) {
            return Err(GenesisError::Number(number));
        }
        let base_fee = read.base_fee_per_gas.unwrap_or(u128::from(FIRST_BASE_FEE));
        let forks = Forks::from_config(&read.config)?;
        let blobs = BlobSchedule::from_config(&read.config).map_err(GenesisError::Blobs)?;
        let side = match (kind, named.side) {
            (Some(kind), Some(form)) => Some(SideGenesis::from_json(kind, form)?),
            (Some(kind), None) => Some(SideGenesis::empty(kind)),
            (None, Some(_)) => return Err(GenesisError::Side("this chain carries no such ledger".into())),
            (None, None) => None,
        };
        check_side(side.as_ref(), forks.spec(0, read.timestamp))?;
        Ok(Self {
            chain_id: read.config.chain_id,
            forks,
            blobs,
            limits: TxLimits::default(),
            deposit_contract: read.config.deposit_contract_address.unwrap_or(eip6110::MAINNET_DEPOSIT_CONTRACT_ADDRESS),
            alloc: read.alloc,
            gas_limit: if read.gas_limit == 0 { DEFAULT_GAS_LIMIT } else { read.gas_limit },
            base_fee: u64::try_from(base_fee).map_err(|_| GenesisError::TooLarge("baseFeePerGas"))?,
            timestamp: read.timestamp,
            extra_data: read.extra_data,
            coinbase: read.coinbase,
            difficulty: read.difficulty,
            mix_hash: read.mix_hash,
            nonce: read.nonce,
            parent_hash: read.parent_hash.unwrap_or_default(),
            excess_blob_gas: read.excess_blob_gas.unwrap_or(0),
            blob_gas_used: read.blob_gas_used.unwrap_or(0),
            side,
            clock_offset_s: named.clock_offset_s,
        })
    }

    /// Creates a development chain: the newest rules from block zero, the system contracts of EIP-2935, 4788, 7002 and
    /// 7251, the deployer that uses `CREATE2`, and `accounts` with their balances in wei. [`Genesis::under`] selects
    /// older rules.
    pub fn dev(chain_id: u64, accounts: &[(Address, U256)], gas_limit: u64) -> Self {
        let mut alloc: BTreeMap<Address, GenesisAccount> = BTreeMap::new();
        for (address, code) in system_contracts() {
            // As a deployed contract, each has nonce 1.
            let contract = GenesisAccount { nonce: Some(1), code: Some(code), ..Default::default() };
            alloc.insert(address, contract);
        }
        alloc.insert(block_zero::CREATE2_DEPLOYER, block_zero::create2_deployer());
        for (address, balance) in accounts {
            alloc.entry(*address).or_default().balance = *balance;
        }
        Self {
            chain_id,
            forks: Forks::newest(),
            blobs: BlobSchedule::default(),
            limits: TxLimits::default(),
            deposit_contract: eip6110::MAINNET_DEPOSIT_CONTRACT_ADDRESS,
            alloc,
            gas_limit,
            base_fee: FIRST_BASE_FEE,
            timestamp: 0,
            extra_data: Bytes::new(),
            coinbase: Address::ZERO,
            difficulty: U256::ZERO,
            mix_hash: B256::ZERO,
            nonce: 0,
            parent_hash: B256::ZERO,
            excess_blob_gas: 0,
            blob_gas_used: 0,
            side: None,
            clock_offset_s: 0,
        }
    }

    /// The same with a side ledger that begins empty, and the contract that takes value there in place.
    #[must_use]
    pub fn with_side(mut self, kind: &'static dyn SideKind) -> Self {
        let account = self.alloc.entry(kind.address()).or_default();
        *account = GenesisAccount { balance: account.balance, ..kind.contract() };
        self.side = Some(SideGenesis::empty(kind));
        self
    }

    /// The same by the rules of `spec` from block zero, which must be of the merge or later.
    pub fn under(mut self, spec: SpecId) -> Result<Self, GenesisError> {
        check_side(self.side.as_ref(), spec)?;
        if let Some(side) = self.side.as_ref().filter(|_| !spec.is_enabled_in(SpecId::CANCUN)) {
            // Funds sent there could never come back.
            self.alloc.remove(&side.kind().address());
        }
        self.forks = Forks::all_until(spec);
        Ok(self)
    }

    /// The rules of the block of this height and time.
    pub fn spec(&self, number: u64, timestamp: u64) -> SpecId {
        self.forks.spec(number, timestamp)
    }

    /// Returns the bounds on the blobs of the block of this height and time.
    pub fn blob_params(&self, number: u64, timestamp: u64) -> BlobParams {
        self.blobs.params(self.spec(number, timestamp), timestamp)
    }

    /// Refuses a beginning under the rules of Prague or later without the contracts that each block then calls.
    pub fn check_system_contracts(&self) -> Result<(), GenesisError> {
        if !self.spec(0, self.timestamp).is_enabled_in(SpecId::PRAGUE) {
            return Ok(());
        }
        let needed = [
            (eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, "EIP-7002"),
            (eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, "EIP-7251"),
        ];
        let has_code = |address: &Address| self.alloc.get(address).and_then(GenesisAccount::non_empty_code).is_some();
        let missing = needed.into_iter().find(|(address, _)| !has_code(address));
        missing.map_or(Ok(()), |(contract, eip)| Err(GenesisError::NoSystemContract { contract, eip }))
    }

    /// The alloc as the changes of block zero. An account without anything is an account all the same, as in geth.
    pub fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        for (address, account) in &self.alloc {
            let code = account.non_empty_code().map(|code| bytecode(code.clone()));
            let mut info =
                AccountInfo { balance: account.balance, nonce: account.nonce.unwrap_or(0), ..Default::default() };
            if let Some(code) = code {
                info.code_hash = B256::from(hearth_crypto::keccak::keccak256(code.original_byte_slice()));
                info.code = Some(code);
            }
            let storage = account.storage_slots().filter(|(_, value)| !value.is_zero());
            let storage = storage.map(|(slot, value)| (U256::from_be_bytes(slot.0), value)).collect();
            let change = AccountChange { info: Some(info), storage_cleared: false, storage };
            changes.accounts.insert(*address, change);
        }
        changes
    }

    /// The header of block zero over the root of its state, with its hash.
    pub fn block_zero(&self, state_root: B256) -> Sealed<Header> {
        let spec = self.spec(0, self.timestamp);
        let from = |fork: SpecId| spec.is_enabled_in(fork);
        let side = self.side.as_ref().map_or(B256::ZERO, SideGenesis::commitment);
        let header = Header {
            parent_hash: self.parent_hash,
            ommers_hash: constants::EMPTY_OMMER_ROOT_HASH,
            beneficiary: self.coinbase,
            state_root,
            transactions_root: constants::EMPTY_TRANSACTIONS,
            receipts_root: constants::EMPTY_RECEIPTS,
            difficulty: self.difficulty,
            gas_limit: self.gas_limit,
            timestamp: self.timestamp,
            extra_data: self.extra_data.clone(),
            mix_hash: self.mix_hash,
            nonce: B64::from(self.nonce),
            base_fee_per_gas: from(SpecId::LONDON).then_some(self.base_fee),
            withdrawals_root: from(SpecId::SHANGHAI).then_some(constants::EMPTY_WITHDRAWALS),
            blob_gas_used: from(SpecId::CANCUN).then_some(self.blob_gas_used),
            excess_blob_gas: from(SpecId::CANCUN).then_some(self.excess_blob_gas),
            parent_beacon_block_root: from(SpecId::CANCUN).then_some(side),
            requests_hash: from(SpecId::PRAGUE).then_some(eip7685::EMPTY_REQUESTS_HASH),
            ..Default::default()
        };
        header.seal_slow()
    }
}

impl BlockZero for Genesis {
    /// Iterates over the alloc, account by account: [`Genesis::changes`] without a map of all.
    fn entries(&self) -> impl Iterator<Item = Entry> {
        self.alloc.iter().flat_map(|(address, account)| {
            let address = *address;
            let code =
                account.non_empty_code().map(|code| (hearth_crypto::keccak::keccak256(code).into(), code.clone()));
            let code_hash = code.as_ref().map_or(KECCAK256_EMPTY, |(hash, _)| *hash);
            let state = Account { nonce: account.nonce.unwrap_or(0), balance: account.balance, code_hash };
            let storage = account.storage_slots().filter(|(_, value)| !value.is_zero());
            let storage = storage.map(move |(slot, value)| {
                let slot = U256::from_be_bytes(slot.0);
                Entry::Storage { address, slot, value }
            });
            let code = code.map(|(hash, code)| Entry::Code { hash, code });
            code.into_iter().chain([Entry::Account { address, account: state }]).chain(storage)
        })
    }

    fn hash_over(&self, state_root: B256) -> B256 {
        self.block_zero(state_root).hash()
    }
}

/// Before Cancun no header has a place for what stands for a side ledger.
fn check_side(side: Option<&SideGenesis>, spec: SpecId) -> Result<(), GenesisError> {
    if side.is_some_and(|side| !side.is_empty()) && !spec.is_enabled_in(SpecId::CANCUN) {
        return Err(GenesisError::Side("there is such a ledger from Cancun on".into()));
    }
    Ok(())
}

/// The contracts that a block's processing itself calls, by address.
pub fn system_contracts() -> [(Address, Bytes); 4] {
    [
        (eip2935::HISTORY_STORAGE_ADDRESS, eip2935::HISTORY_STORAGE_CODE.clone()),
        (eip4788::BEACON_ROOTS_ADDRESS, eip4788::BEACON_ROOTS_CODE.clone()),
        (eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE.clone()),
        (eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;

    #[test]
    fn the_header_of_an_allocless_genesis_has_the_hash_that_its_fields_have() {
        let genesis = Genesis::dev(31337, &[], 30_000_000);
        let zero = genesis.block_zero(B256::ZERO);
        assert_eq!(zero.hash(), zero.inner().hash_slow());
        assert_eq!(zero.inner().base_fee_per_gas, Some(FIRST_BASE_FEE));
        assert_eq!(zero.inner().requests_hash, Some(eip7685::EMPTY_REQUESTS_HASH));
        assert_eq!(genesis.spec(0, 0), SpecId::OSAKA);
    }

    #[test]
    fn a_genesis_of_geths_form_has_geths_hash() {
        // Sepolia's, whose hash is well known.
        let text = r#"{
            "config": {"chainId": 11155111, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
                "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0,
                "muirGlacierBlock": 0, "berlinBlock": 0, "londonBlock": 0, "mergeNetsplitBlock": 1735371,
                "terminalTotalDifficulty": 17000000000000000, "terminalTotalDifficultyPassed": true,
                "shanghaiTime": 1677557088, "cancunTime": 1706655072, "pragueTime": 1741159776, "ethash": {}},
            "nonce": "0x0", "timestamp": "0x6159af19",
            "extraData": "0x5365706f6c69612c20417468656e732c204174746963612c2047726565636521",
            "gasLimit": "0x1c9c380", "difficulty": "0x20000",
            "mixHash": "0x0000000000000000000000000000000000000000000000000000000000000000",
            "coinbase": "0x0000000000000000000000000000000000000000",
            "alloc": {
                "0xa2A6d93439144FFE4D27c9E088dCD8b783946263": {"balance": "0xD3C21BCECCEDA1000000"},
                "0xBc11295936Aa79d594139de1B2e12629414F3BDB": {"balance": "0xD3C21BCECCEDA1000000"},
                "0x7cF5b79bfe291A67AB02b393E456cCc4c266F753": {"balance": "0xD3C21BCECCEDA1000000"},
                "0xaaec86394441f915bce3e6ab399977e9906f3b69": {"balance": "0xD3C21BCECCEDA1000000"},
                "0xF47CaE1CF79ca6758Bfc787dbD21E6bdBe7112B8": {"balance": "0xD3C21BCECCEDA1000000"},
                "0xd7eDDB78ED295B3C9629240E8924fb8D8874ddD8": {"balance": "0xD3C21BCECCEDA1000000"},
                "0x8b7F0977Bb4f0fBE7076FA22bC24acA043583F5e": {"balance": "0xD3C21BCECCEDA1000000"},
                "0xe2e2659028143784d557bcec6ff3a0721048880a": {"balance": "0xD3C21BCECCEDA1000000"},
                "0xd9a5179f091d85051d3c982785efd1455cec8699": {"balance": "0xD3C21BCECCEDA1000000"},
                "0xbeef32ca5b9a198d27B4e02F4c70439fE60356Cf": {"balance": "0xD3C21BCECCEDA1000000"},
                "0x0000006916a87b82333f4245046623b23794c65c": {"balance": "0x84595161401484A000000"},
                "0xb21c33de1fab3fa15499c62b59fe0cc3250020d1": {"balance": "0x52B7D2DCC80CD2E4000000"},
                "0x10F5d45854e038071485AC9e402308cF80D2d2fE": {"balance": "0x52B7D2DCC80CD2E4000000"},
                "0xd7d76c58b3a519e9fA6Cc4D22dC017259BC49F1E": {"balance": "0x52B7D2DCC80CD2E4000000"},
                "0x799D329e5f583419167cD722962485926E338F4a": {"balance": "0xDE0B6B3A7640000"}
            }}"#;
        let genesis = Genesis::from_json(text).expect("it is of geth's form");
        let state = State::open(None, &genesis).expect("a state in memory");
        let zero = genesis.block_zero(state.head().state_root());
        let known = "0x25a5cc106eea7138acab33231d7160d69cb777ee0c2c553fcddf5138993e6dd9";
        assert_eq!(zero.hash().to_string(), known);
        assert_eq!(genesis.spec(1_735_370, 1_655_733_600), SpecId::LONDON);
        assert_eq!(genesis.spec(1_735_371, 1_655_733_601), SpecId::MERGE);
        assert_eq!(genesis.spec(3_000_000, 1_741_159_776), SpecId::PRAGUE);
    }

    #[test]
    fn genesis_errors_are_named() {
        let of = |config: &str| Genesis::from_json(&format!(r#"{{"config": {config}, "alloc": {{}}}}"#));
        assert!(matches!(of(r#"{"chainId": 0}"#), Err(GenesisError::ChainId)));
        let message = of(r#"{"chainId": 7, "londonBlock": 0}"#).expect_err("London alone").to_string();
        assert!(message.contains("londonBlock") && message.contains("berlinBlock"), "{message}");
        assert!(matches!(Genesis::from_json("{"), Err(GenesisError::Json(_))));
        assert!(matches!(Genesis::from_json("{}"), Err(GenesisError::Missing("config.chainId"))));
        let slip = r#"{"config": {"chainId": 7}, "allocc": {}}"#;
        assert!(matches!(Genesis::from_json(slip), Err(GenesisError::Missing("alloc"))));
        let other = r#"{"config": {"chainId": 7}, "alloc": {}, "hearthOutputs": {"version": 1}}"#;
        assert!(Genesis::from_json(other).expect_err("of another ledger").to_string().contains("no such ledger"));
    }
}
