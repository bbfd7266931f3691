//! A client for a node's UTXO ledger, over RPC.
//!
//! reads   answers of `utxo_…` and `eth_…`
//! writes  transactions
//! memory  the outputs of one owner, [`OUTPUTS_MAX`] at most

use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, Bytes, U64, U256, hex};
use hearth_command::node_rpc::{self, Rpc};
use hearth_utxo::{AssetId, OutPoint, Output, OwnerKey};
use serde::Deserialize;
use serde_json::{Value, json};

use super::WalletError;

/// Outputs that are fetched: a transaction spends 256 at most, and the largest come first when it is made.
pub const OUTPUTS_MAX: usize = 20_000;
/// How long a transaction is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(50);

/// An RPC client that also knows the node's chain id.
pub struct Node {
    rpc: Rpc,
    /// Id of the node's chain.
    pub chain_id: u64,
}

/// An owner's balance of one asset.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Balance {
    /// `native`, or an id.
    pub asset: String,
    /// The balance, in the smallest units of the asset.
    pub amount: U256,
    /// Number of outputs that hold it.
    pub outputs: U64,
    /// The asset's short name.
    pub code: String,
    /// Digits after the point.
    pub decimals: U64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UnspentOutput {
    out_point: String,
    asset: String,
    amount: U64,
    owner: String,
    memo: Bytes,
    #[serde(default)]
    spender: Option<B256>,
}

#[derive(Deserialize)]
struct Page {
    outputs: Vec<UnspentOutput>,
    next: Option<String>,
}

/// The part of an asset's record that the wallet needs.
#[derive(Deserialize)]
pub struct AssetInfo {
    /// Digits after the point.
    pub decimals: U64,
}

/// Returns a node's error message, without its code.
fn message(error: &Value) -> String {
    error["message"].as_str().map_or_else(|| error.to_string(), Into::into)
}

impl Node {
    /// Connects to the node whose RPC is at `url`.
    pub fn at(url: &str) -> Result<Self, WalletError> {
        let mut node = Self { rpc: node_rpc::at(url)?, chain_id: 0 };
        node.chain_id = node.ask::<U64>("eth_chainId", json!([]))?.to();
        Ok(node)
    }

    fn ask<T: for<'a> Deserialize<'a>>(&mut self, method: &'static str, params: Value) -> Result<T, WalletError> {
        let answer = self.rpc.call(method, &params)?;
        serde_json::from_value(answer).map_err(|error| WalletError::Answer(method, error.to_string()))
    }

    /// Returns an owner's balances, by asset.
    pub fn balances(&mut self, owner: &OwnerKey) -> Result<Vec<Balance>, WalletError> {
        self.ask("utxo_getBalances", json!([owner.to_string()]))
    }

    /// The outputs of an owner that no transaction waits to spend; and how many others there are.
    pub fn outputs(&mut self, owner: &OwnerKey) -> Result<(Vec<(OutPoint, Output)>, usize), WalletError> {
        let (mut all, mut waiting, mut after) = (Vec::new(), 0, Value::Null);
        loop {
            let page: Page = self.ask("utxo_getOutputs", json!([owner.to_string(), { "after": after }]))?;
            for one in page.outputs {
                match one.spender {
                    Some(_) => waiting += 1,
                    None => all.push(one.read().map_err(|why| WalletError::Answer("utxo_getOutputs", why))?),
                }
            }
            match page.next {
                Some(next) if all.len() < OUTPUTS_MAX => after = next.into(),
                _ => return Ok((all, waiting)),
            }
        }
    }

    /// The outputs of an owner, when no transaction waits to spend any of them.
    pub fn settled(&mut self, owner: &OwnerKey) -> Result<Vec<(OutPoint, Output)>, WalletError> {
        let found = self.wait(|node| {
            let (outputs, waiting) = node.outputs(owner)?;
            Ok((waiting == 0).then_some(outputs))
        })?;
        found.ok_or(WalletError::Busy)
    }

    /// Returns the record of an issued asset.
    pub fn asset(&mut self, id: &AssetId) -> Result<AssetInfo, WalletError> {
        self.ask::<Option<AssetInfo>>("utxo_getAsset", json!([id.to_string()]))?.ok_or(WalletError::NoAsset(*id))
    }

    /// Hands a transaction over; its id.
    pub fn send(&mut self, raw: &[u8]) -> Result<B256, WalletError> {
        self.ask("utxo_sendRawTransaction", json!([hex::encode_prefixed(raw)]))
    }

    /// Waits until a transaction is in a block, and returns its number.
    pub fn landed(&mut self, id: &B256) -> Result<u64, WalletError> {
        self.wait(|node| {
            let answer: Value = node.ask("utxo_getTransaction", json!([id]))?;
            match answer["status"].as_str() {
                Some("included") => node.number(&answer["blockNumber"]).map(Some),
                Some("dropped") => Err(WalletError::Dropped(*id, message(&answer["reason"]))),
                _ => Ok(None),
            }
        })?
        .ok_or(WalletError::Waiting(*id))
    }

    /// Returns an account's bytecode.
    pub fn code(&mut self, of: Address) -> Result<Bytes, WalletError> {
        self.ask("eth_getCode", json!([of, "latest"]))
    }

    /// The accounts of the EVM that the node signs for.
    pub fn accounts(&mut self) -> Result<Vec<Address>, WalletError> {
        self.ask("eth_accounts", json!([]))
    }

    /// Asks the node to sign and send a call for one of its own accounts.
    pub fn call_from(&mut self, from: Address, to: Address, value: U256, data: &[u8]) -> Result<B256, WalletError> {
        let call = json!({ "from": from, "to": to, "value": value, "data": hex::encode_prefixed(data) });
        self.ask("eth_sendTransaction", json!([call]))
    }

    /// Hands a transaction of the EVM over; its hash.
    pub fn send_evm(&mut self, raw: &[u8]) -> Result<B256, WalletError> {
        self.ask("eth_sendRawTransaction", json!([hex::encode_prefixed(raw)]))
    }

    /// Returns an account's next nonce, and the gas price to offer.
    pub fn nonce_and_price(&mut self, of: Address) -> Result<(u64, u128), WalletError> {
        let nonce: U64 = self.ask("eth_getTransactionCount", json!([of, "pending"]))?;
        let price: U256 = self.ask("eth_gasPrice", json!([]))?;
        let wrong = |_| WalletError::Answer("eth_gasPrice", format!("{price} wei"));
        // Twice the current price, since the base fee may rise before the transaction lands; the excess is not charged.
        Ok((nonce.to(), u128::try_from(price).map_err(wrong)?.saturating_mul(2)))
    }

    /// Waits for the receipt of a transaction of the EVM; the block's number, if it took effect.
    pub fn executed(&mut self, hash: &B256) -> Result<u64, WalletError> {
        let receipt = self.wait(|node| {
            let receipt: Value = node.ask("eth_getTransactionReceipt", json!([hash]))?;
            Ok((!receipt.is_null()).then_some(receipt))
        })?;
        let receipt = receipt.ok_or(WalletError::Waiting(*hash))?;
        match receipt["status"].as_str() {
            Some("0x1") => self.number(&receipt["blockNumber"]),
            _ => Err(WalletError::Reverted(*hash)),
        }
    }

    fn number(&self, value: &Value) -> Result<u64, WalletError> {
        let number: Result<U64, _> = serde_json::from_value(value.clone());
        number.map(|number| number.to()).map_err(|error| WalletError::Answer("a block's number", error.to_string()))
    }

    fn wait<T>(
        &mut self,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, WalletError>,
    ) -> Result<Option<T>, WalletError> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(self)? {
                return Ok(Some(found));
            }
            if Instant::now() > end {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl UnspentOutput {
    fn read(self) -> Result<(OutPoint, Output), String> {
        let owner = self.owner.parse().map_err(|error| format!("{error}"))?;
        let output = Output { asset: self.asset.parse()?, amount: self.amount.to(), owner, memo: self.memo };
        Ok((self.out_point.parse()?, output))
    }
}
