//! Overrides of accounts and block fields for one message.
//!
//! reads   the JSON of state overrides and block overrides
//! writes  the state and the block on which the message is executed
//! memory  what the overrides take
//! drops   a field that is unknown, or that has no effect on a message: error -32602 or -32000 that names it
//! source  `internal/ethapi/override` of go-ethereum 1.16; the older names of block fields are anvil's

use std::collections::HashMap;

use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256, Bytes, U256};
use hearth_evm::exec::{AccountOverride, BlockEnv, BlockExtras, Overlay, PrecompileOverrides};
use hearth_evm::genesis::Genesis;
use revm::DatabaseRef;
use revm::primitives::hardfork::SpecId;
use serde::Deserialize;

use crate::failure::Failure;
use crate::params::{Field, StorageKey};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct WireOverride {
    balance: Option<Field<U256>>,
    nonce: Option<Field<u64>>,
    code: Option<Field<Bytes>>,
    state: Option<HashMap<String, Field<StorageKey>>>,
    state_diff: Option<HashMap<String, Field<StorageKey>>>,
    move_precompile_to_address: Option<Field<Address>>,
}

/// State overrides, by account.
#[derive(Debug, Default)]
pub struct StateOverrides(pub(super) Vec<(Address, AccountOverride)>);

impl StateOverrides {
    /// Reads the overrides in the JSON of the parameter at `index`.
    pub fn read(json: Option<&str>, index: usize) -> Result<Self, Failure> {
        let Some(json) = json.filter(|json| *json != "null") else { return Ok(Self::default()) };
        let wrong = |why: String| Failure::argument(index, why);
        let wire: HashMap<String, WireOverride> = serde_json::from_str(json).map_err(|why| wrong(why.to_string()))?;
        let one = |(address, wanted): (String, WireOverride)| {
            let address = crate::hexadecimal::fixed(&address, "common.Address").map(Address::from).map_err(wrong)?;
            Ok((address, wanted.account(address, index)?))
        };
        wire.into_iter().map(one).collect::<Result<_, Failure>>().map(Self)
    }

    /// Applies these overrides to the state `base`, and `block` to `env`.
    pub fn apply<D: DatabaseRef>(
        self,
        base: D,
        block: &BlockOverrides,
        env: &mut BlockEnv,
        genesis: &Genesis,
    ) -> Result<(Overlay<D>, BlockExtras), Failure> {
        let blob_base_fee = block.apply(env, genesis)?;
        let precompiles = PrecompileOverrides::new(env.spec, &self.0).map_err(Failure::server)?;
        Ok((Overlay::new(base, self.0), BlockExtras { blob_base_fee, precompiles }))
    }
}

impl WireOverride {
    fn account(self, address: Address, index: usize) -> Result<AccountOverride, Failure> {
        if self.state.is_some() && self.state_diff.is_some() {
            return Err(Failure::server(format!("account {address} has both 'state' and 'stateDiff'")));
        }
        let slots = |map: HashMap<String, Field<StorageKey>>| {
            let one = |(key, value): (String, Field<StorageKey>)| {
                let key = crate::hexadecimal::word(&key).map_err(|why| Failure::argument(index, why))?;
                Ok((key, value.0.0))
            };
            map.into_iter().map(one).collect::<Result<HashMap<_, _>, Failure>>()
        };
        Ok(AccountOverride {
            balance: self.balance.map(|field| field.0),
            nonce: self.nonce.map(|field| field.0),
            code: self.code.map(|field| field.0),
            state: self.state.map(slots).transpose()?,
            state_diff: self.state_diff.map(slots).transpose()?.unwrap_or_default(),
            move_precompile_to: self.move_precompile_to_address.map(|field| field.0),
        })
    }
}

/// Block overrides: fields of the block that the message sees.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct BlockOverrides {
    pub(super) number: Option<Field<u64>>,
    /// Accepted without effect: after the merge, `PREVRANDAO` takes its place.
    #[serde(rename = "difficulty")]
    _difficulty: Option<Field<U256>>,
    pub(super) time: Option<Field<u64>>,
    pub(super) gas_limit: Option<Field<u64>>,
    #[serde(alias = "coinbase")]
    pub(super) fee_recipient: Option<Field<Address>>,
    #[serde(alias = "random")]
    pub(super) prev_randao: Option<Field<B256>>,
    #[serde(alias = "baseFee")]
    pub(super) base_fee_per_gas: Option<Field<u64>>,
    blob_base_fee: Option<Field<U256>>,
    pub(super) beacon_root: Option<Field<B256>>,
    pub(super) withdrawals: Option<Vec<Withdrawal>>,
}

impl BlockOverrides {
    /// Applies them to `env`; returns the base fee of blob gas, if it is overridden.
    fn apply(&self, env: &mut BlockEnv, genesis: &Genesis) -> Result<Option<u128>, Failure> {
        for (name, is_there) in
            [("beaconRoot", self.beacon_root.is_some()), ("withdrawals", self.withdrawals.is_some())]
        {
            if is_there {
                let why = format!("block override \"{name}\" is not supported for this RPC method");
                return Err(Failure::server(why));
            }
        }
        if self.number.is_some() || self.time.is_some() {
            env.number = self.number.map_or(env.number, |field| field.0);
            env.timestamp = self.time.map_or(env.timestamp, |field| field.0);
            // The rules follow from both; a message after the merge cannot see rules from before it.
            let spec = genesis.spec(env.number, env.timestamp);
            env.spec = if env.spec.is_enabled_in(SpecId::MERGE) { spec.max(SpecId::MERGE) } else { spec };
        }
        env.gas_limit = self.gas_limit.map_or(env.gas_limit, |field| field.0);
        env.beneficiary = self.fee_recipient.map_or(env.beneficiary, |field| field.0);
        env.prevrandao = self.prev_randao.map_or(env.prevrandao, |field| field.0);
        env.base_fee = self.base_fee_per_gas.map_or(env.base_fee, |field| field.0);
        self.blob_base_fee()
    }

    /// Returns the base fee of blob gas, in wei, if it is overridden.
    pub(super) fn blob_base_fee(&self) -> Result<Option<u128>, Failure> {
        let narrow = |fee: Field<U256>| {
            u128::try_from(fee.0)
                .map_err(|_| Failure::server(format!("block override \"blobBaseFee\" is above 2^128-1: {}", fee.0)))
        };
        self.blob_base_fee.map(narrow).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(json: &str) -> Result<(BlockEnv, Option<u128>), String> {
        let overrides: BlockOverrides = serde_json::from_str(json).map_err(|why| why.to_string())?;
        let genesis = Genesis::dev(7, &[], 30_000_000);
        let mut env = BlockEnv {
            number: 1,
            timestamp: 2,
            beneficiary: Address::ZERO,
            gas_limit: 3,
            base_fee: 4,
            prevrandao: B256::ZERO,
            parent_hash: None,
            parent_beacon_block_root: None,
            chain_id: 7,
            spec: SpecId::OSAKA,
            limits: Default::default(),
            blobs: Default::default(),
            deposit_contract: Default::default(),
        };
        let blob_base_fee = overrides.apply(&mut env, &genesis).map_err(|why| why.message().to_owned())?;
        Ok((env, blob_base_fee))
    }

    #[test]
    fn block_fields_have_geths_and_anvils_names() {
        let address = Address::repeat_byte(9);
        let word = B256::repeat_byte(8);
        for (recipient, random, fee) in
            [("feeRecipient", "prevRandao", "baseFeePerGas"), ("coinbase", "random", "baseFee")]
        {
            let json = format!(
                r#"{{"number":"0x64","difficulty":"0x5","time":"0x65","gasLimit":"0x66","{recipient}":"{address}",
                "{random}":"{word}","{fee}":"0x67","blobBaseFee":"0x68"}}"#
            );
            let (env, blob_base_fee) = block(&json).unwrap();
            assert_eq!(env.number, 0x64, "{json}");
            assert_eq!(env.timestamp, 0x65);
            assert_eq!(env.gas_limit, 0x66);
            assert_eq!(env.beneficiary, address);
            assert_eq!(env.prevrandao, word);
            assert_eq!(env.base_fee, 0x67);
            assert_eq!(blob_base_fee, Some(0x68));
        }
    }

    #[test]
    fn block_fields_without_effect_are_refused_by_name() {
        let root = format!(r#"{{"beaconRoot":"{}"}}"#, B256::ZERO);
        for (json, expected) in [
            (root.as_str(), "\"beaconRoot\" is not supported"),
            (r#"{"withdrawals":[]}"#, "\"withdrawals\" is not supported"),
            (r#"{"nmber":"0x1"}"#, "unknown field `nmber`"),
            (r#"{"coinbase":"0x0909090909090909090909090909090909090909","feeRecipient":null}"#, "duplicate field"),
            (r#"{"blobBaseFee":"0x100000000000000000000000000000000"}"#, "\"blobBaseFee\" is above 2^128-1"),
        ] {
            let why = block(json).unwrap_err();
            assert!(why.contains(expected), "{json}: {why}");
        }
    }

    #[test]
    fn rules_follow_overridden_number_and_time() {
        let text = r#"{"config": {"chainId": 7, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0,
            "eip158Block": 0, "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0,
            "berlinBlock": 0, "londonBlock": 0, "terminalTotalDifficulty": 0, "shanghaiTime": 100}, "alloc": {}}"#;
        let genesis = Genesis::from_json(text).unwrap();
        let (mut env, _) = block("{}").unwrap();
        env.spec = SpecId::MERGE;
        let overrides: BlockOverrides = serde_json::from_str(r#"{"time":"0x64"}"#).unwrap();
        overrides.apply(&mut env, &genesis).unwrap();
        assert_eq!(env.spec, SpecId::SHANGHAI);
    }
}
