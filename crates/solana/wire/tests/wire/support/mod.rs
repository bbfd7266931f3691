//! Shared by the differential tests: random transactions of the SDK's types, and the SDK's verdict on bytes.

pub mod mutate;

use hearth_wire::PACKET_DATA_SIZE;
use hearth_wire::consts::{BPF_LOADER_UPGRADEABLE, SYSTEM_PROGRAM, SYSVAR_CLOCK};
use proptest::prelude::*;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::v0::{self, MessageAddressTableLookup};
use solana_message::{Address, Hash, Message, MessageHeader, VersionedMessage};
use solana_transaction::Signature;
use solana_transaction::versioned::VersionedTransaction;

/// Whether the SDK deserialises and sanitizes the bytes completely, and they fit into a packet.
pub fn sdk_accepts(bytes: &[u8]) -> bool {
    if bytes.len() > PACKET_DATA_SIZE {
        return false;
    }
    let Ok(transaction) = bincode::deserialize::<VersionedTransaction>(bytes) else { return false };
    // Version 1 has another wire format, which serde does not know.
    let versioned = matches!(transaction.message, VersionedMessage::V1(_));
    let whole = bincode::serialized_size(&transaction).unwrap() == bytes.len() as u64;
    whole && !versioned && transaction.sanitize().is_ok()
}

/// Addresses from a small pool, so that some are repeated.
pub fn address() -> impl Strategy<Value = [u8; 32]> {
    prop_oneof![
        1 => Just(SYSTEM_PROGRAM),
        1 => Just(BPF_LOADER_UPGRADEABLE),
        1 => Just(SYSVAR_CLOCK),
        2 => (1u8..6).prop_map(|n| [n; 32]),
        12 => any::<[u8; 32]>(),
    ]
}

fn sdk_address() -> impl Strategy<Value = Address> {
    address().prop_map(Address::from)
}

/// A lookup; one in 25 loads nothing, which the SDK refuses.
fn lookup() -> impl Strategy<Value = MessageAddressTableLookup> {
    let indexes = || prop::collection::vec(any::<u8>(), 0..5);
    (sdk_address(), indexes(), indexes()).prop_map(|(account_key, writable_indexes, readonly_indexes)| {
        MessageAddressTableLookup { account_key, writable_indexes, readonly_indexes }
    })
}

/// Instructions whose indexes are drawn as fractions and scaled to the accounts.
fn instructions(static_count: usize, total: usize) -> impl Strategy<Value = Vec<CompiledInstruction>> {
    let data = prop_oneof![9 => 0usize..40, 1 => 120usize..300];
    let one = (1..static_count.max(2), prop::collection::vec(0..total, 0..6), data, any::<u8>()).prop_map(
        |(program, accounts, data_len, fill)| CompiledInstruction {
            program_id_index: program as u8,
            accounts: accounts.into_iter().map(|index| index as u8).collect(),
            data: vec![fill; data_len],
        },
    );
    // With the payer alone there is no program to call.
    prop::collection::vec(one, 0..if static_count > 1 { 5 } else { 1 })
}

/// A transaction, legacy or version 0. Nearly all are accepted; some have over 1232 bytes, and some
/// a lookup that loads nothing.
pub fn transaction() -> impl Strategy<Value = VersionedTransaction> {
    let counts = (any::<bool>(), 1usize..5, 0usize..9, prop::collection::vec(lookup(), 0..4));
    counts
        .prop_flat_map(|(versioned, signers, others, lookups)| {
            let lookups = if versioned { lookups } else { Vec::new() };
            let loaded: usize = lookups.iter().map(|l| l.writable_indexes.len() + l.readonly_indexes.len()).sum();
            let count = signers + others;
            (
                Just((versioned, signers, lookups)),
                (0..signers, 0..=others),
                prop::collection::vec(sdk_address(), count),
                any::<[u8; 32]>(),
                instructions(count, count + loaded),
                prop::collection::vec(prop::collection::vec(any::<u8>(), 64), signers),
            )
        })
        .prop_map(|((versioned, signers, lookups), readonly, account_keys, hash, instructions, signatures)| {
            let header = MessageHeader {
                num_required_signatures: signers as u8,
                num_readonly_signed_accounts: readonly.0 as u8,
                num_readonly_unsigned_accounts: readonly.1 as u8,
            };
            let recent_blockhash = Hash::new_from_array(hash);
            let message = if versioned {
                let address_table_lookups = lookups;
                VersionedMessage::V0(v0::Message {
                    header,
                    account_keys,
                    recent_blockhash,
                    instructions,
                    address_table_lookups,
                })
            } else {
                VersionedMessage::Legacy(Message { header, account_keys, recent_blockhash, instructions })
            };
            let signatures = signatures.iter().map(|s| Signature::try_from(&s[..]).unwrap()).collect();
            VersionedTransaction { signatures, message }
        })
}
