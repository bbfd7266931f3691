//! Converts a message to a transaction that can be signed.
//!
//! reads   a message, and values for its missing fields
//! writes  a transaction of the type that its fields ask for
//! memory  a copy of the message's data and lists

use alloy_consensus::{TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy};
use alloy_primitives::{Address, Signature, TxKind, U256};
use hearth_evm::tx::{Tx, TxEnvelope, TypedTransaction};

use super::call::Message;
use crate::failure::Failure;

/// The fees of a transaction, in wei per unit of gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fees {
    /// A gas price, as before EIP-1559.
    Price(u128),
    /// A tip and a fee cap (EIP-1559).
    Dynamic {
        /// Wei per unit of gas to the block's fee recipient.
        tip: u128,
        /// The maximum with the base fee.
        cap: u128,
    },
}

/// Values for fields that a message may lack.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldDefaults {
    pub nonce: u64,
    pub gas_limit: u64,
    pub fees: Fees,
}

/// Converts a fee to the width of a transaction's field.
pub(super) fn narrow(wide: U256) -> Result<u128, Failure> {
    u128::try_from(wide).map_err(|_| Failure::server("max fee per gas higher than 2^128-1"))
}

/// Builds the transaction of a message on the chain `chain_id`.
pub(super) fn typed(message: &Message, chain_id: u64, chosen: FieldDefaults) -> Result<TypedTransaction, Failure> {
    let FieldDefaults { nonce, gas_limit, fees } = chosen;
    let to = message.to.map_or(TxKind::Create, |to| TxKind::Call(to.0));
    let value = message.value.map_or(U256::ZERO, |value| value.0);
    let input = message.input()?;
    if let (Some(hashes), TxKind::Call(to), None) = (&message.blob_versioned_hashes, to, &message.authorization_list) {
        let (max_priority_fee_per_gas, max_fee_per_gas) = match fees {
            Fees::Price(price) => (price, price),
            Fees::Dynamic { tip, cap } => (tip, cap),
        };
        return Ok(TypedTransaction::Eip4844(TxEip4844 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas,
            max_priority_fee_per_gas,
            to,
            value,
            access_list: message.access_list.clone().unwrap_or_default(),
            blob_versioned_hashes: hashes.iter().map(|hash| hash.0).collect(),
            max_fee_per_blob_gas: message.max_fee_per_blob_gas.map_or(Ok(0), |fee| narrow(fee.0))?,
            input,
        }));
    }
    let (max_priority_fee_per_gas, max_fee_per_gas) = match fees {
        Fees::Price(gas_price) => {
            return Ok(match message.access_list.clone() {
                None => TxLegacy { chain_id: Some(chain_id), nonce, gas_price, gas_limit, to, value, input }.into(),
                Some(access_list) => {
                    TxEip2930 { chain_id, nonce, gas_price, gas_limit, to, value, input, access_list }.into()
                }
            });
        }
        Fees::Dynamic { tip, cap } => (tip, cap),
    };
    let access_list = message.access_list.clone().unwrap_or_default();
    Ok(match (message.authorization_list.clone(), to) {
        (Some(authorization_list), TxKind::Call(to)) => TxEip7702 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas,
            max_priority_fee_per_gas,
            to,
            value,
            access_list,
            authorization_list,
            input,
        }
        .into(),
        (Some(_), TxKind::Create) => {
            return Err(Failure::server("EIP-7702 transaction cannot be used to create contract"));
        }
        (None, to) => TxEip1559 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas,
            max_priority_fee_per_gas,
            to,
            value,
            access_list,
            input,
        }
        .into(),
    })
}

/// Builds an unsigned transaction of `sender`: its signature is zeros.
pub(super) fn unsigned(transaction: TypedTransaction, sender: Address) -> Tx {
    let nobody = Signature::new(U256::ZERO, U256::ZERO, false);
    Tx::with_sender(TxEnvelope::new_unhashed(transaction, nobody), sender)
}
