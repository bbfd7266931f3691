//! The encoding of transactions, which is canonical: decoded bytes are encoded again and compared.

use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::{Decodable, Encodable, Header};
use hearth_crypto::keccak::keccak256;

use super::verify::{UnverifiedTx, Witness};
use super::{Action, FIRST_BYTE, INPUTS_MAX, OUTPUTS_MAX, Payload, SIZE_MAX, Tx, TxError};
use crate::address::OwnerKey;
use crate::amount::{CROSSING_MAX, DECIMALS_MAX};
use crate::asset::{from_wire, is_code, to_wire};
use crate::output::{MEMO_MAX, OutPoint, Output};

const TRANSFER: u64 = 1;
const ISSUE: u64 = 2;
const PRISM: u64 = 3;

/// The transaction of these bytes, for the chain `chain_id`. Its signatures are still to be verified.
pub fn decode(raw: &[u8], chain_id: u64) -> Result<UnverifiedTx, TxError> {
    if raw.len() > SIZE_MAX {
        return Err(TxError::Size(raw.len()));
    }
    let Some((&FIRST_BYTE, mut rest)) = raw.split_first() else {
        return Err(TxError::Rlp(alloy_rlp::Error::Custom("a transaction of this ledger begins with 0x68")));
    };
    let (payload, witnesses) = both(&mut rest).map_err(TxError::Rlp)??;
    if payload.chain_id != chain_id {
        return Err(TxError::ChainId { have: payload.chain_id, want: chain_id });
    }
    check(&payload, &witnesses)?;
    if encode(&payload, &witnesses) != raw {
        return Err(TxError::Form);
    }
    let owners = witnesses.iter().map(|witness| witness.owner).collect();
    let tx = Tx { id: id(&payload), raw: Bytes::copy_from_slice(raw), payload, owners };
    Ok(UnverifiedTx { tx, signatures: witnesses.iter().map(|witness| witness.signature).collect() })
}

/// The bytes of a transaction.
pub(super) fn encode(payload: &Payload, witnesses: &[Witness]) -> Vec<u8> {
    let witnesses = list_of(witnesses, |witness| {
        list(|out| {
            B256::new(witness.owner.0).encode(out);
            witness.signature[..].encode(out);
        })
    });
    let mut raw = vec![FIRST_BYTE];
    raw.extend(list(|out| {
        out.extend(encode_payload(payload));
        out.extend(witnesses);
    }));
    raw
}

/// Returns the id of a transaction: the hash that is signed.
pub(super) fn id(payload: &Payload) -> B256 {
    let mut message = vec![FIRST_BYTE];
    message.extend(encode_payload(payload));
    B256::new(keccak256(&message))
}

fn encode_payload(payload: &Payload) -> Vec<u8> {
    let inputs = list_of(&payload.inputs, |at| {
        list(|out| {
            at.transaction.encode(out);
            at.index.encode(out);
        })
    });
    let outputs = list_of(&payload.outputs, |output| {
        list(|out| {
            to_wire(&output.asset).encode(out);
            output.amount.encode(out);
            B256::new(output.owner.0).encode(out);
            output.memo.encode(out);
        })
    });
    let (kind, detail) = match &payload.action {
        Action::Transfer => (TRANSFER, list(|_| ())),
        Action::Issue { code, decimals, open, issuer, amount } => (
            ISSUE,
            list(|out| {
                code.as_str().encode(out);
                decimals.encode(out);
                open.encode(out);
                B256::new(issuer.0).encode(out);
                amount.encode(out);
            }),
        ),
        Action::IssueMore { asset, amount } => (
            ISSUE,
            list(|out| {
                asset.0.encode(out);
                amount.encode(out);
            }),
        ),
        Action::Prism { recipient, amount } => (
            PRISM,
            list(|out| {
                recipient.encode(out);
                amount.encode(out);
            }),
        ),
    };
    list(|out| {
        payload.chain_id.encode(out);
        kind.encode(out);
        out.extend(inputs);
        out.extend(outputs);
        payload.fee.encode(out);
        out.extend(detail);
    })
}

fn list(fields: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut content = Vec::new();
    fields(&mut content);
    let mut out = Vec::with_capacity(content.len() + 9);
    Header { list: true, payload_length: content.len() }.encode(&mut out);
    out.extend(content);
    out
}

fn list_of<T>(items: &[T], encode: impl Fn(&T) -> Vec<u8>) -> Vec<u8> {
    list(|out| items.iter().for_each(|item| out.extend(encode(item))))
}

type Rlp<T> = Result<T, alloy_rlp::Error>;

/// The outer error concerns the encoding, the inner one the content.
fn both(rest: &mut &[u8]) -> Rlp<Result<(Payload, Vec<Witness>), TxError>> {
    let mut outer = Header::decode_bytes(rest, true)?;
    let payload = payload(&mut Header::decode_bytes(&mut outer, true)?)?;
    let witnesses = items(&mut outer, INPUTS_MAX + 1, |fields| {
        let owner = OwnerKey(B256::decode(fields)?.0);
        let signature = Header::decode_bytes(fields, false)?;
        let signature = signature.try_into().map_err(|_| alloy_rlp::Error::UnexpectedLength)?;
        Ok(Witness { owner, signature })
    })?;
    Ok(payload.map(|payload| (payload, witnesses)))
}

fn payload(fields: &mut &[u8]) -> Rlp<Result<Payload, TxError>> {
    let chain_id = u64::decode(fields)?;
    let kind = u64::decode(fields)?;
    let inputs = items(fields, INPUTS_MAX, |fields| {
        Ok(OutPoint { transaction: B256::decode(fields)?, index: u32::decode(fields)? })
    })?;
    let outputs = items(fields, OUTPUTS_MAX, |fields| {
        let asset = from_wire(Header::decode_bytes(fields, false)?).ok_or(alloy_rlp::Error::UnexpectedLength)?;
        let amount = u64::decode(fields)?;
        let owner = OwnerKey(B256::decode(fields)?.0);
        Ok(Output { asset, amount, owner, memo: Bytes::copy_from_slice(Header::decode_bytes(fields, false)?) })
    })?;
    let fee = u64::decode(fields)?;
    let mut detail = Header::decode_bytes(fields, true)?;
    let action = match (kind, detail.first()) {
        (TRANSFER, _) => Action::Transfer,
        // An asset's id has 32 bytes, a code at most 16, so their first byte distinguishes the two forms.
        (ISSUE, Some(0xa0)) => {
            Action::IssueMore { asset: crate::AssetId(B256::decode(&mut detail)?), amount: u64::decode(&mut detail)? }
        }
        (ISSUE, _) => Action::Issue {
            code: String::decode(&mut detail)?,
            decimals: u8::decode(&mut detail)?,
            open: bool::decode(&mut detail)?,
            issuer: OwnerKey(B256::decode(&mut detail)?.0),
            amount: u64::decode(&mut detail)?,
        },
        (PRISM, _) => Action::Prism { recipient: Address::decode(&mut detail)?, amount: u64::decode(&mut detail)? },
        _ => return Ok(Err(TxError::Kind(kind))),
    };
    Ok(Ok(Payload { chain_id, inputs, outputs, fee, action }))
}

/// A list of at most `max` lists.
fn items<T>(from: &mut &[u8], max: usize, item: impl Fn(&mut &[u8]) -> Rlp<T>) -> Rlp<Vec<T>> {
    let mut content = Header::decode_bytes(from, true)?;
    let mut all = Vec::new();
    while !content.is_empty() {
        if all.len() == max {
            return Err(alloy_rlp::Error::Custom("too many inputs, outputs or signatures"));
        }
        all.push(item(&mut Header::decode_bytes(&mut content, true)?)?);
    }
    Ok(all)
}

/// Checks everything that does not depend on the outputs that are spent.
fn check(payload: &Payload, witnesses: &[Witness]) -> Result<(), TxError> {
    if payload.inputs.is_empty() {
        return Err(TxError::Field("a transaction spends at least one output"));
    }
    let mut inputs: Vec<_> = payload.inputs.iter().collect();
    inputs.sort_unstable();
    if let Some(twice) = inputs.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(TxError::InputTwice(*twice[0]));
    }
    if payload.outputs.iter().any(|output| output.amount == 0) {
        return Err(TxError::Field("an output holds at least one unit"));
    }
    if payload.outputs.iter().any(|output| output.memo.len() > MEMO_MAX) {
        return Err(TxError::Field("a memo has at most 256 bytes"));
    }
    if !witnesses.is_sorted_by(|before, after| before.owner < after.owner) {
        return Err(TxError::Field("owners sign once each, in rising order"));
    }
    match &payload.action {
        Action::Issue { code, .. } if !is_code(code) => {
            Err(TxError::Field("an asset's code is 1 to 16 letters, digits, and any of -._"))
        }
        Action::Issue { decimals, .. } if *decimals > DECIMALS_MAX => {
            Err(TxError::Field("an asset has at most 18 decimals"))
        }
        Action::Issue { amount: 0, .. } | Action::IssueMore { amount: 0, .. } => {
            Err(TxError::Field("at least one unit is issued"))
        }
        Action::IssueMore { asset, .. } if asset.is_native() => {
            Err(TxError::Field("the native asset is not issued by a transaction"))
        }
        Action::Prism { amount, .. } if !(1..=CROSSING_MAX).contains(amount) => {
            Err(TxError::Field("a prism transfer takes at least one unit, and at most 18446744073709551 of them"))
        }
        _ => Ok(()),
    }
}
const _: () = assert!(MEMO_MAX == 256 && CROSSING_MAX == 18_446_744_073_709_551 && DECIMALS_MAX == 18);
