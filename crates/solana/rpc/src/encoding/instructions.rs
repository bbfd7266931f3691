//! Inner instructions and token balances as JSON.
//!
//! reads   records of transactions
//! memory  one record
//! source  `parse_ui_instruction` of `solana-transaction-status` 4.2 parses the instructions; an instruction without a
//!         parser is written with its addresses and its data in base58

use hearth_ledger::bank::{InnerCall, Record, TokenAmount};
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use serde_json::{Value, json};
use solana_account_decoder::parse_account_data::SplTokenAdditionalDataV2;
use solana_account_decoder::parse_token::token_amount_to_ui_amount_v3;
use solana_message::AccountKeys;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_transaction_status::parse_ui_instruction;

/// The inner instructions of a transaction; `keys` are its addresses, the loaded ones last.
pub fn inner_json(record: &Record, keys: &[Pubkey]) -> Value {
    let keys: Vec<solana_pubkey::Pubkey> = keys.iter().map(|key| (*key).into()).collect();
    let keys = AccountKeys::new(&keys, None);
    let call = |call: &InnerCall| {
        let instruction = CompiledInstruction {
            program_id_index: call.program_id_index,
            accounts: call.accounts.clone(),
            data: call.data.clone(),
        };
        parse_ui_instruction(&instruction, &keys, Some(call.stack_height.into()))
    };
    let of_one = |(index, calls): &(u8, Vec<InnerCall>)| {
        let calls: Vec<_> = calls.iter().map(call).collect();
        json!({ "index": index, "instructions": calls })
    };
    record.inner.iter().map(of_one).collect()
}

/// The balances of token accounts.
pub fn token_balances_json(amounts: &[TokenAmount]) -> Value {
    let one = |held: &TokenAmount| {
        let mint = SplTokenAdditionalDataV2::with_decimals(held.decimals);
        json!({
            "accountIndex": held.account_index,
            "mint": &*encode_32(&held.mint),
            "owner": &*encode_32(&held.owner),
            "programId": &*encode_32(&held.program_id),
            "uiTokenAmount": token_amount_to_ui_amount_v3(held.amount, &mint),
        })
    };
    amounts.iter().map(one).collect()
}

/// Addresses as base58 strings.
pub fn addresses_json(addresses: &[Pubkey]) -> Value {
    addresses.iter().map(|address| json!(&*encode_32(address))).collect()
}
