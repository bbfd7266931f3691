//! Landed transactions and blocks in the cluster's types.
//!
//! reads   a transaction's bytes and its record in the history
//! writes  the cluster's own types, which know every encoding and parse the instructions of known programs
//! memory  one block
//! source  `TransactionStatusMeta` and its neighbours in `solana-transaction-status` 4.2

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hearth_ledger::bank::{InnerCall, TokenAmount};
use hearth_ledger::history::{BlockMeta, Details, TransactionMeta};
use hearth_ledger::{Reward, RewardKind};
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use serde_json::json;
use solana_account_decoder::parse_account_data::SplTokenAdditionalDataV2;
use solana_account_decoder::parse_token::token_amount_to_ui_amount_v3;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::v0::LoadedAddresses;
use solana_transaction_context::transaction::TransactionReturnData;
use solana_transaction_status::{
    ConfirmedBlock, ConfirmedTransactionWithStatusMeta, EncodedTransaction, InnerInstruction, InnerInstructions,
    RewardType, TransactionBinaryEncoding, TransactionStatusMeta, TransactionTokenBalance, TransactionWithStatusMeta,
    VersionedTransactionWithStatusMeta,
};

use crate::jsonrpc::Failure;

/// A transaction with its status.
pub fn with_meta(bytes: &[u8], meta: TransactionMeta) -> Result<TransactionWithStatusMeta, Failure> {
    let text = EncodedTransaction::Binary(BASE64.encode(bytes), TransactionBinaryEncoding::Base64);
    let transaction = text.decode().ok_or_else(|| Failure::internal("a stored transaction does not decode"))?;
    let meta = status_meta(meta)?;
    Ok(TransactionWithStatusMeta::Complete(VersionedTransactionWithStatusMeta { transaction, meta }))
}

/// A transaction with the block that contains it.
pub fn confirmed(
    bytes: &[u8],
    meta: TransactionMeta,
    (slot, index): (u64, u32),
    block_time: i64,
) -> Result<ConfirmedTransactionWithStatusMeta, Failure> {
    let tx_with_meta = with_meta(bytes, meta)?;
    Ok(ConfirmedTransactionWithStatusMeta { slot, tx_with_meta, block_time: Some(block_time), index })
}

/// A block of these transactions.
pub fn block(meta: &BlockMeta, transactions: Vec<TransactionWithStatusMeta>) -> ConfirmedBlock {
    ConfirmedBlock {
        previous_blockhash: encode_32(&meta.previous_blockhash).to_string(),
        blockhash: encode_32(&meta.blockhash).to_string(),
        parent_slot: meta.parent,
        transactions,
        rewards: meta.rewards.iter().map(reward).collect(),
        num_partitions: meta.num_partitions,
        block_time: Some(meta.time),
        block_height: Some(meta.height),
    }
}

fn reward(reward: &Reward) -> solana_transaction_status::Reward {
    let kind = match reward.kind {
        RewardKind::Fee => RewardType::Fee,
        RewardKind::Staking => RewardType::Staking,
        RewardKind::Voting => RewardType::Voting,
        RewardKind::DeactivatedStake => RewardType::DeactivatedStake,
    };
    solana_transaction_status::Reward {
        pubkey: encode_32(&reward.pubkey).to_string(),
        lamports: reward.lamports,
        post_balance: reward.post_balance,
        reward_type: Some(kind),
        commission: reward.commission,
        commission_bps: reward.commission_bps,
    }
}

fn status_meta(meta: TransactionMeta) -> Result<TransactionStatusMeta, Failure> {
    let (logs, inner, return_data) = match meta.details {
        None => (None, None, None),
        Some(Details { logs, inner, return_data }) => (Some(logs), Some(inner), return_data),
    };
    let keys = |keys: Vec<Pubkey>| keys.into_iter().map(Into::into).collect();
    let tokens = |balances: &[TokenAmount]| Some(balances.iter().map(token_balance).collect());
    Ok(TransactionStatusMeta {
        status: match meta.result {
            Ok(()) => Ok(()),
            // Converted through JSON, which both error types share.
            Err(error) => Err(serde_json::from_value(json!(error)).map_err(Failure::internal)?),
        },
        fee: meta.fee,
        pre_balances: meta.balances.iter().map(|balance| balance.0).collect(),
        post_balances: meta.balances.iter().map(|balance| balance.1).collect(),
        inner_instructions: inner.map(|inner| inner.into_iter().map(inner_instructions).collect()),
        log_messages: logs,
        pre_token_balances: tokens(&meta.pre_token_balances),
        post_token_balances: tokens(&meta.post_token_balances),
        rewards: Some(vec![]),
        loaded_addresses: LoadedAddresses {
            writable: keys(meta.loaded_writable),
            readonly: keys(meta.loaded_readonly),
        },
        return_data: return_data
            .map(|(program_id, data)| TransactionReturnData { program_id: program_id.into(), data }),
        compute_units_consumed: Some(meta.compute_units),
        cost_units: Some(meta.cost_units),
    })
}

fn inner_instructions((index, calls): (u8, Vec<InnerCall>)) -> InnerInstructions {
    let instruction = |call: InnerCall| InnerInstruction {
        instruction: CompiledInstruction {
            program_id_index: call.program_id_index,
            accounts: call.accounts,
            data: call.data,
        },
        stack_height: Some(call.stack_height.into()),
    };
    InnerInstructions { index, instructions: calls.into_iter().map(instruction).collect() }
}

fn token_balance(balance: &TokenAmount) -> TransactionTokenBalance {
    let additional = SplTokenAdditionalDataV2::with_decimals(balance.decimals);
    TransactionTokenBalance {
        account_index: balance.account_index,
        mint: encode_32(&balance.mint).to_string(),
        ui_token_amount: token_amount_to_ui_amount_v3(balance.amount, &additional),
        owner: encode_32(&balance.owner).to_string(),
        program_id: encode_32(&balance.program_id).to_string(),
    }
}
