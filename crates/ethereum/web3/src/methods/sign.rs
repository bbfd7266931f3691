//! Accounts whose keys the node has: on a development chain these are well known.
//!
//! reads   secret keys from the configuration
//! writes  signatures; signed transactions into the chain
//! memory  a key an account; [`TURNS`] locks
//! drops   requests for accounts that are not here: error -32000, `unknown account`
//! source  `internal/ethapi` of go-ethereum 1.16; EIP-191, EIP-712

use std::sync::Arc;

use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes};
use hearth_crypto::keccak::keccak256;
use hearth_crypto::secp256k1::Signer;
use hearth_evm::tx::{Tx, TypedTransaction};
use parking_lot::{Mutex, MutexGuard};

use super::call::Message;
use super::typed::{Fees, FieldDefaults, narrow, typed, unsigned};
use super::{Caller, typed_data};
use crate::call_pool::Deadline;
use crate::error::ServeError;
use crate::failure::Failure;
use crate::json;
use crate::params::{BlockId, Params};
use crate::shapes;

/// Locks shared by the accounts.
const TURNS: usize = 64;

/// The accounts that the node signs for.
pub struct Accounts {
    signers: Vec<(Address, Signer)>,
    /// Held from the choice of a nonce until the pool knows of it, so that no two transactions get one.
    turns: [Mutex<()>; TURNS],
}

impl Accounts {
    /// Creates the accounts of these keys.
    pub fn new(secrets: &[[u8; 32]]) -> Result<Self, ServeError> {
        let one = |(index, secret): (usize, &[u8; 32])| {
            let signer = Signer::new(secret).map_err(|_| ServeError::Account(index))?;
            Ok((Address::from(signer.address()), signer))
        };
        let signers = secrets.iter().enumerate().map(one).collect::<Result<_, _>>()?;
        Ok(Self { signers, turns: std::array::from_fn(|_| Mutex::default()) })
    }

    fn turn(&self, address: &Address) -> MutexGuard<'_, ()> {
        self.turns[usize::from(address[19]) % TURNS].lock()
    }

    fn signer(&self, address: &Address) -> Result<&Signer, Failure> {
        let found = self.signers.iter().find(|(own, _)| own == address);
        found.map(|(_, signer)| signer).ok_or_else(|| Failure::server("unknown account"))
    }

    fn sign(&self, address: &Address, hash: &[u8; 32]) -> Result<String, Failure> {
        let signature = self.signer(address)?.sign(hash);
        let mut bytes = [0; 65];
        bytes[..32].copy_from_slice(&signature.r);
        bytes[32..64].copy_from_slice(&signature.s);
        bytes[64] = 27 + u8::from(signature.odd);
        Ok(json::data(&bytes))
    }
}

/// Formats a signed transaction: its bytes, and its fields.
fn raw_and_shape(tx: &Tx) -> String {
    json::object(|object| {
        object.data("raw", &tx.raw);
        shapes::push_transaction(object.name("tx"), tx, None);
    })
}

/// Returns the hash that EIP-191 signs for a message.
fn message_hash(message: &[u8]) -> [u8; 32] {
    let mut text = format!("\x19Ethereum Signed Message:\n{}", message.len()).into_bytes();
    text.extend_from_slice(message);
    keccak256(&text)
}

impl Caller<'_> {
    pub(super) fn eth_accounts(&self) -> String {
        let own = self.api.accounts.signers.iter().map(|(address, _)| address);
        json::array(own, |out, address| json::push_data(out, address.as_slice()))
    }

    pub(super) async fn signing(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        let accounts = &self.api.accounts;
        match method {
            "eth_sign" => {
                let params = params.at_most(2)?;
                let message: Bytes = params.required(1)?;
                accounts.sign(&params.required(0)?, &message_hash(&message))
            }
            // The parameters are in the other order, as in wallets.
            "personal_sign" => {
                let params = params.at_most(3)?;
                let message: Bytes = params.required(0)?;
                accounts.sign(&params.required(1)?, &message_hash(&message))
            }
            "eth_signTypedData" | "eth_signTypedData_v3" | "eth_signTypedData_v4" => {
                let params = params.at_most(2)?;
                let address: Address = params.required(0)?;
                let json =
                    params.json(1).ok_or_else(|| Failure::invalid_params("missing value for required argument 1"))?;
                accounts.signer(&address)?;
                let (api, json) = (Arc::clone(self.api), json.to_owned());
                let sign = move |deadline: Deadline| {
                    let hash = typed_data::hash(&json, deadline).map_err(|why| match deadline.has_passed() {
                        true => deadline.failure(),
                        false => Failure::argument(1, why),
                    })?;
                    api.accounts.sign(&address, &hash)
                };
                self.api.heavy.run(sign).await
            }
            "eth_signTransaction" => {
                let message: Message = params.at_most(1)?.shape(0)?;
                let from = message.from.map(|from| from.0).unwrap_or_default();
                let signer = accounts.signer(&from)?;
                let gas_limit = self.gas_limit(&message, from).await?;
                let tx = Tx::signed(self.fill(&message, from, gas_limit)?, signer);
                Ok(raw_and_shape(&tx))
            }
            // The transaction without a signature.
            "eth_fillTransaction" => {
                let message: Message = params.at_most(1)?.shape(0)?;
                let from = message.from.map(|from| from.0).unwrap_or_default();
                let gas_limit = self.gas_limit(&message, from).await?;
                let tx = unsigned(self.fill(&message, from, gas_limit)?, from);
                Ok(raw_and_shape(&tx))
            }
            "eth_sendUnsignedTransaction" if !self.api.config.dev => Err(Failure::method_not_found(method)),
            _ => {
                let hash = self.send_own(params, method == "eth_sendUnsignedTransaction").await?;
                self.api.as_hardhat(Ok(hash)).await.map(|hash| json::data(hash.as_slice()))
            }
        }
    }

    /// Sends a message for an account whose key the node has, or that is impersonated; `for_anyone`: treats each as
    /// impersonated.
    pub(super) async fn send_own(&self, params: Params<'_>, for_anyone: bool) -> Result<B256, Failure> {
        let message: Message = params.at_most(1)?.shape(0)?;
        let own = self.api.accounts.signers.first().map(|(address, _)| *address);
        let from = message.from.map(|from| from.0).or(own).ok_or_else(|| Failure::server("unknown account"))?;
        let api = self.api;
        let signer = match for_anyone || api.chain.is_impersonated(&from) {
            true => None,
            // An account with code cannot sign (EIP-3607), but developers give code to such accounts, and send from
            // them.
            false => Some(api.accounts.signer(&from)?).filter(|_| !(api.config.dev && api.is_contract(&from))),
        };
        let gas_limit = self.gas_limit(&message, from).await?;
        // No await from here on: a client that goes away leaves no nonce half used.
        let hash = tokio::task::block_in_place(|| {
            let _turn = api.accounts.turn(&from);
            let transaction = self.fill(&message, from, gas_limit)?;
            let Some(signer) = signer else {
                return api.chain.submit_as(from, transaction).map_err(Failure::submit);
            };
            api.send_now(Tx::signed(transaction, signer).envelope.encoded_2718().into())
        })?;
        api.mined(hash).await;
        Ok(hash)
    }

    /// Returns the gas limit of a message, or an estimate.
    async fn gas_limit(&self, message: &Message, from: Address) -> Result<u64, Failure> {
        message.check(self.api.chain_id())?;
        message.refuse_blobs()?;
        if message.to.is_none() && message.input()?.is_empty() {
            return Err(Failure::server("contract creation without any data provided"));
        }
        match message.gas {
            Some(gas) => Ok(gas.0),
            None => self.estimated(message.sent_by(from)).await,
        }
    }

    /// Converts a message to a transaction, with defaults for nonce and fees.
    fn fill(&self, message: &Message, from: Address, gas_limit: u64) -> Result<TypedTransaction, Failure> {
        let api = self.api;
        let chain_id = api.chain_id();
        let nonce = match message.nonce {
            Some(nonce) => nonce.0,
            None => api.nonce(&from, BlockId::Pending)?,
        };
        let tip = message.max_priority_fee_per_gas.map(|tip| narrow(tip.0)).transpose()?;
        let cap = message.max_fee_per_gas.map(|cap| narrow(cap.0)).transpose()?;
        let price = message.gas_price.map(|price| narrow(price.0)).transpose()?;
        let head = api.chain.head();
        let is_dynamic = price.is_none() && head.header.base_fee_per_gas.is_some();
        let fees = if is_dynamic {
            let tip = tip.unwrap_or_else(|| api.suggested_tip().min(cap.unwrap_or(u128::MAX)));
            let double = 2 * u128::from(head.base_fee().max(api.base_fee_after(&head)));
            Fees::Dynamic { tip, cap: cap.unwrap_or(tip.saturating_add(double)) }
        } else {
            Fees::Price(price.unwrap_or_else(|| api.suggested_price()))
        };
        typed(message, chain_id, FieldDefaults { nonce, gas_limit, fees })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_hashed_as_wallets_do() {
        // The vector of the documentation of web3.js for `hashMessage`.
        let hash = alloy_primitives::hex::encode(message_hash(b"Hello World"));
        assert_eq!(hash, "a1de988600a42c4b4ab089b619297c17d53cffae5d5120d82d8a92d0bb3b78f2");
    }

    #[test]
    fn unknown_accounts_sign_nothing() {
        let accounts = Accounts::new(&[[1; 32]]).unwrap();
        let own = accounts.signers[0].0;
        assert_eq!(accounts.sign(&own, &[2; 32]).unwrap().len(), 2 + 2 + 130);
        assert_eq!(accounts.sign(&Address::ZERO, &[2; 32]).unwrap_err().message(), "unknown account");
        assert!(matches!(Accounts::new(&[[1; 32], [0; 32]]), Err(ServeError::Account(1))));
    }
}
