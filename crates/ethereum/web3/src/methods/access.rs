//! The contents of accounts: balance, nonce, code, storage, and proofs.
//!
//! reads   the state after a block
//! writes  numbers and bytes
//! memory  a proof's nodes
//! drops   blocks whose state is no longer kept: error -32000
//! source  the execution API of ethereum.org; EIP-1186

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use hearth_evm::chain::StateAt;
use hearth_evm::state::StorageProof;

use super::Caller;
use crate::failure::Failure;
use crate::hexadecimal::{self, HexError};
use crate::json;
use crate::params::{BlockId, Params};

/// Maximum slots of one proof, as in geth.
const PROOF_SLOTS_MAX: usize = 1_024;

/// Storage keys, each with the text that the client wrote.
struct Keys(Vec<(String, U256)>);

impl<'de> serde::Deserialize<'de> for Keys {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let one = |text: String| storage_key(&text).map(|key| (text, key)).map_err(serde::de::Error::custom);
        texts.into_iter().map(one).collect::<Result<_, _>>().map(Self)
    }
}

/// Parses a storage key; the error has the words of the execution API's tests.
fn storage_key(text: &str) -> Result<U256, String> {
    hexadecimal::word(text).map_err(|why| {
        let shown: String = text.chars().take(100).collect();
        match why {
            HexError::Over256 => format!("storage key too long (want at most 32 bytes): {shown:?}"),
            _ => format!("invalid hex in storage key: {shown:?}"),
        }
    })
}

impl Caller<'_> {
    fn block_of(&self, params: &Params<'_>, index: usize) -> Result<BlockId, Failure> {
        Ok(params.optional(index)?.unwrap_or(BlockId::Latest))
    }

    /// Returns the state after a block. A block that must be read from disk is read on the call pool: its state is
    /// gone, and the error names its root. The pending block is executed there.
    async fn view(&self, id: BlockId) -> Result<StateAt, Failure> {
        if self.api.is_at_hand(id) {
            return self.api.view(id);
        }
        let api = Arc::clone(self.api);
        self.api.heavy.run(move |_| api.view(id)).await
    }

    pub(super) async fn eth_get_balance(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let address: Address = params.required(0)?;
        let view = self.view(self.block_of(&params, 1)?).await?;
        Ok(json::quantity_256(&view.account(&address).map_or(U256::ZERO, |account| account.balance)))
    }

    pub(super) async fn eth_get_transaction_count(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let address: Address = params.required(0)?;
        let id = self.block_of(&params, 1)?;
        let nonce = match id {
            BlockId::Pending => self.api.nonce(&address, id)?,
            id => self.view(id).await?.account(&address).map_or(0, |account| account.nonce),
        };
        Ok(json::quantity(nonce))
    }

    pub(super) async fn eth_get_code(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let address: Address = params.required(0)?;
        let view = self.view(self.block_of(&params, 1)?).await?;
        let code = view.account(&address).and_then(|account| view.code(&account.code_hash));
        Ok(json::data(&code.unwrap_or_default()))
    }

    pub(super) async fn eth_get_storage_at(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(3)?;
        let address: Address = params.required(0)?;
        let key: String = params.required(1)?;
        let key = storage_key(&key).map_err(Failure::invalid_params)?;
        let view = self.view(self.block_of(&params, 2)?).await?;
        Ok(json::data(&view.storage(&address, &key).to_be_bytes::<32>()))
    }

    /// Returns an account without its code, and the root of its storage.
    pub(super) async fn eth_get_account(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let address: Address = params.required(0)?;
        let StateAt::Block(view) = self.view(self.block_of(&params, 1)?).await? else {
            return Err(Failure::server("the pending block has no root of storage: ask for that of the latest block"));
        };
        let tell = move |_| {
            let proof = view.proof(&address, &[]).map_err(Failure::state)?;
            Ok(json::object(|object| {
                object.data("codeHash", proof.account.code_hash.as_slice());
                object.data("storageRoot", proof.storage_root.as_slice());
                object.quantity_256("balance", &proof.account.balance);
                object.quantity("nonce", proof.account.nonce);
            }))
        };
        self.api.heavy.run(tell).await
    }

    /// Returns an account with its code.
    pub(super) async fn eth_get_account_info(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let address: Address = params.required(0)?;
        let view = self.view(self.block_of(&params, 1)?).await?;
        let account = view.account(&address).unwrap_or_default();
        Ok(json::object(|object| {
            object.quantity_256("balance", &account.balance);
            object.quantity("nonce", account.nonce);
            object.data("code", &view.code(&account.code_hash).unwrap_or_default());
        }))
    }

    /// Returns the code with this hash, of any account; null if there is none.
    pub(super) fn debug_code_by_hash(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let hash: B256 = params.required(0)?;
        params.optional::<BlockId>(1)?;
        Ok(self.api.chain.view().code(&hash).map_or_else(|| "null".into(), |code| json::data(&code)))
    }

    pub(super) async fn eth_get_storage_values(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let wanted: BTreeMap<String, Keys> = params.shape(0)?;
        let of_account = |(address, Keys(keys)): (String, Keys)| {
            let address = hexadecimal::fixed(&address, "common.Address").map(Address::from);
            address.map(|address| (address, keys)).map_err(|why| Failure::argument(0, why))
        };
        let wanted: Vec<(Address, Vec<(String, U256)>)> =
            wanted.into_iter().map(of_account).collect::<Result<_, _>>()?;
        let count: usize = wanted.iter().map(|(_, keys)| keys.len()).sum();
        if count == 0 {
            return Err(Failure::invalid_params("empty request"));
        }
        if count > PROOF_SLOTS_MAX {
            return Err(Failure::invalid_params(format!("too many slots (max {PROOF_SLOTS_MAX})")));
        }
        let view = self.view(self.block_of(&params, 1)?).await?;
        Ok(json::object(|object| {
            for (address, keys) in &wanted {
                let name = alloy_primitives::hex::encode_prefixed(address);
                object.array(&name, keys, |out, (_, key)| {
                    json::push_data(out, &view.storage(address, key).to_be_bytes::<32>());
                });
            }
        }))
    }

    pub(super) async fn eth_get_proof(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(3)?;
        let address: Address = params.required(0)?;
        let Keys(keys) = params.shape(1)?;
        if keys.len() > PROOF_SLOTS_MAX {
            return Err(Failure::invalid_params(format!("too many slots (max {PROOF_SLOTS_MAX})")));
        }
        let StateAt::Block(view) = self.view(self.block_of(&params, 2)?).await? else {
            let why = "the state of the pending block has no proofs: ask for those of the latest block";
            return Err(Failure::server(why));
        };
        let prove = move |_| {
            let slots: Vec<U256> = keys.iter().map(|(_, key)| *key).collect();
            let proof = view.proof(&address, &slots).map_err(Failure::state)?;
            Ok(json::object(|object| {
                object.data("address", address.as_slice());
                push_nodes(object.name("accountProof"), &proof.proof);
                object.quantity_256("balance", &proof.account.balance);
                object.data("codeHash", proof.account.code_hash.as_slice());
                object.quantity("nonce", proof.account.nonce);
                object.data("storageHash", proof.storage_root.as_slice());
                object.array("storageProof", proof.storage.iter().zip(&keys), |out, (slot, (key, _))| {
                    push_slot(out, slot, key);
                });
            }))
        };
        self.api.heavy.run(prove).await
    }
}

fn push_nodes(out: &mut String, nodes: &[alloy_primitives::Bytes]) {
    json::push_array(out, nodes, |out, node| json::push_data(out, node));
}

/// The key keeps the client's form: a word, or else a number.
fn push_slot(out: &mut String, slot: &StorageProof, key: &str) {
    json::push_object(out, |object| {
        match key.len() {
            66 => object.data("key", B256::from(slot.slot).as_slice()),
            _ => object.quantity_256("key", &slot.slot),
        }
        object.quantity_256("value", &slot.value);
        push_nodes(object.name("proof"), &slot.proof);
    });
}
