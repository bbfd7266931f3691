//! The builders, program instructions, entries and addresses against the cluster's own crates.

use bincode::Options;
use hearth_wire::consts;
use hearth_wire::entry::{Entries, write_batch_header, write_entry};
use hearth_wire::message::{AccountMeta, BuildError, Instruction, Message};
use hearth_wire::program::compute_budget::ComputeBudgetInstruction;
use hearth_wire::program::system::{self, SystemInstruction};
use hearth_wire::{PACKET_DATA_SIZE, Pubkey, Txn};
use proptest::prelude::*;
use solana_compute_budget_interface::ComputeBudgetInstruction as SdkBudget;
use solana_message::{Address, Hash};
use solana_system_interface::instruction::{self as sdk_system, SystemInstruction as SdkSystem};
use solana_transaction::versioned::VersionedTransaction;

use crate::support::{address, transaction};

fn meta() -> impl Strategy<Value = AccountMeta> {
    (address(), any::<bool>(), any::<bool>()).prop_map(|(pubkey, is_signer, is_writable)| AccountMeta {
        pubkey,
        is_signer,
        is_writable,
    })
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let data = prop::collection::vec(any::<u8>(), 0..150);
    (address(), prop::collection::vec(meta(), 0..6), data).prop_map(|(program_id, accounts, data)| Instruction {
        program_id,
        accounts,
        data,
    })
}

fn sdk_instruction(ours: &Instruction) -> solana_transaction::Instruction {
    let accounts = ours.accounts.iter().map(|meta| solana_transaction::AccountMeta {
        pubkey: Address::from(meta.pubkey),
        is_signer: meta.is_signer,
        is_writable: meta.is_writable,
    });
    solana_transaction::Instruction {
        program_id: Address::from(ours.program_id),
        accounts: accounts.collect(),
        data: ours.data.clone(),
    }
}

fn ours_of(system: &SdkSystem) -> SystemInstruction<'_> {
    let key = Address::to_bytes;
    match system {
        SdkSystem::CreateAccount { lamports, space, owner } => {
            SystemInstruction::CreateAccount { lamports: *lamports, space: *space, owner: key(owner) }
        }
        SdkSystem::Assign { owner } => SystemInstruction::Assign { owner: key(owner) },
        SdkSystem::Transfer { lamports } => SystemInstruction::Transfer { lamports: *lamports },
        SdkSystem::CreateAccountWithSeed { base, seed, lamports, space, owner } => {
            SystemInstruction::CreateAccountWithSeed {
                base: key(base),
                seed,
                lamports: *lamports,
                space: *space,
                owner: key(owner),
            }
        }
        SdkSystem::AdvanceNonceAccount => SystemInstruction::AdvanceNonceAccount,
        SdkSystem::WithdrawNonceAccount(lamports) => SystemInstruction::WithdrawNonceAccount { lamports: *lamports },
        SdkSystem::InitializeNonceAccount(authority) => {
            SystemInstruction::InitializeNonceAccount { authority: key(authority) }
        }
        SdkSystem::AuthorizeNonceAccount(authority) => {
            SystemInstruction::AuthorizeNonceAccount { authority: key(authority) }
        }
        SdkSystem::Allocate { space } => SystemInstruction::Allocate { space: *space },
        SdkSystem::AllocateWithSeed { base, seed, space, owner } => {
            SystemInstruction::AllocateWithSeed { base: key(base), seed, space: *space, owner: key(owner) }
        }
        SdkSystem::AssignWithSeed { base, seed, owner } => {
            SystemInstruction::AssignWithSeed { base: key(base), seed, owner: key(owner) }
        }
        SdkSystem::TransferWithSeed { lamports, from_seed, from_owner } => {
            SystemInstruction::TransferWithSeed { lamports: *lamports, from_seed, from_owner: key(from_owner) }
        }
        SdkSystem::UpgradeNonceAccount => SystemInstruction::UpgradeNonceAccount,
        SdkSystem::CreateAccountAllowPrefund { lamports, space, owner } => {
            SystemInstruction::CreateAccountAllowPrefund { lamports: *lamports, space: *space, owner: key(owner) }
        }
    }
}

/// Decodes as the system program does: little-endian fixed integers, a limit, trailing bytes allowed.
fn sdk_decode(data: &[u8]) -> Option<SdkSystem> {
    let options = bincode::options().with_limit(PACKET_DATA_SIZE as u64).with_fixint_encoding();
    options.allow_trailing_bytes().deserialize(data).ok()
}

/// Bytes with a tag of 0..=14, and often a seed's length that fits.
fn system_data() -> impl Strategy<Value = Vec<u8>> {
    (0u8..15, any::<bool>(), 0u8..20, prop::collection::vec(prop_oneof![any::<u8>(), 0x20u8..0x7f], 0..150)).prop_map(
        |(tag, fit, len, mut rest)| {
            let seed_at = if tag == 11 { 8 } else { 32 };
            if fit && rest.len() > seed_at + 8 {
                rest[seed_at..seed_at + 8].copy_from_slice(&u64::from(len).to_le_bytes());
            }
            [&[tag, 0, 0, 0], &rest[..]].concat()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn messages_are_the_sdks_to_the_byte(
        payer in address(),
        instructions in prop::collection::vec(instruction(), 0..5),
        blockhash in any::<[u8; 32]>(),
    ) {
        let sdk_instructions: Vec<_> = instructions.iter().map(sdk_instruction).collect();
        let (sdk_payer, hash) = (Address::from(payer), Hash::new_from_array(blockhash));
        let sdk = solana_message::Message::new_with_blockhash(&sdk_instructions, Some(&sdk_payer), &hash);
        let sdk_bytes = bincode::serialize(&sdk).unwrap();
        let total = 1 + 64 * usize::from(sdk.header.num_required_signatures) + sdk_bytes.len();
        match Message::compile(&payer, &instructions, &blockhash) {
            Ok(message) => {
                prop_assert_eq!(message.bytes(), &sdk_bytes[..]);
                let bytes = message.sign_with(|signer, _| [signer[0]; 64]);
                if let Ok(txn) = Txn::parse(&bytes) {
                    prop_assert_eq!(txn.signer_keys(), message.signers());
                    prop_assert!(txn.signatures().iter().zip(message.signers()).all(|(s, k)| *s == [k[0]; 64]));
                } else {
                    // The payer is called as a program: the SDK builds that too, and refuses it.
                    prop_assert!(instructions.iter().any(|i| i.program_id == payer));
                }
            }
            Err(error) => {
                prop_assert_eq!(error, BuildError::TooLong(total));
                prop_assert!(total > PACKET_DATA_SIZE);
            }
        }
    }

    #[test]
    fn system_instructions_read_as_the_program_reads_them(data in system_data()) {
        let sdk = sdk_decode(&data);
        prop_assert_eq!(SystemInstruction::decode(&data), sdk.as_ref().map(ours_of));
        if let Some(sdk) = sdk {
            prop_assert_eq!(ours_of(&sdk).encode(), bincode::serialize(&sdk).unwrap());
        }
    }

    #[test]
    fn batches_of_entries_are_the_sdks(
        batch in prop::collection::vec(
            (any::<u64>(), any::<[u8; 32]>(), prop::collection::vec(transaction(), 0..4)), 1..4),
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        // An entry of `solana-entry` consists of these three fields.
        type SdkEntry = (u64, [u8; 32], Vec<VersionedTransaction>);
        let small = |t: &VersionedTransaction| bincode::serialized_size(t).unwrap() <= PACKET_DATA_SIZE as u64;
        let batch: Vec<SdkEntry> = batch
            .into_iter()
            .map(|(hashes, hash, txns)| (hashes, hash, txns.into_iter().filter(small).collect()))
            .collect();
        let mut bytes = bincode::serialize(&batch).unwrap();
        let mut ours = Vec::new();
        write_batch_header(batch.len(), &mut ours);
        for (hashes, hash, txns) in &batch {
            let wire: Vec<u8> = txns.iter().flat_map(|t| bincode::serialize(t).unwrap()).collect();
            write_entry(*hashes, hash, txns.len(), &wire, &mut ours);
        }
        prop_assert_eq!(&ours, &bytes);

        for (at, to) in noise {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        let fits = |t: &VersionedTransaction| {
            small(t) && t.sanitize().is_ok() && !matches!(t.message, solana_message::VersionedMessage::V1(_))
        };
        let oracle = bincode::deserialize::<Vec<SdkEntry>>(&bytes).ok().filter(|entries| {
            let whole = bincode::serialized_size(entries).unwrap() == bytes.len() as u64;
            whole && !entries.is_empty() && entries.iter().all(|(_, _, txns)| txns.iter().all(fits))
        });
        let parsed = Entries::parse(&bytes).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        prop_assert_eq!(parsed.is_ok(), oracle.is_some(), "{:?}", parsed.err());
        for (ours, (hashes, hash, txns)) in parsed.into_iter().flatten().zip(oracle.into_iter().flatten()) {
            prop_assert_eq!((ours.num_hashes, *ours.hash, ours.transactions().len()), (hashes, hash, txns.len()));
            for (ours, theirs) in ours.transactions().zip(txns) {
                prop_assert_eq!(ours.bytes(), &bincode::serialize(&theirs).unwrap()[..]);
            }
        }
    }
}

#[test]
fn system_builders_are_the_sdks() {
    let keys: [Pubkey; 4] = [[1; 32], [2; 32], [3; 32], [4; 32]];
    let [a, b, c, d] = keys.map(Address::from);
    let [ka, kb, kc, kd] = &keys;
    let same = |ours: Instruction, theirs: solana_transaction::Instruction| {
        assert_eq!(sdk_instruction(&ours), theirs);
    };
    same(system::transfer(ka, kb, 7), sdk_system::transfer(&a, &b, 7));
    same(system::create_account(ka, kb, 7, 8, kc), sdk_system::create_account(&a, &b, 7, 8, &c));
    same(system::assign(ka, kb), sdk_system::assign(&a, &b));
    same(system::allocate(ka, 9), sdk_system::allocate(&a, 9));
    same(system::advance_nonce_account(ka, kb), sdk_system::advance_nonce_account(&a, &b));
    same(system::withdraw_nonce_account(ka, kb, kc, 5), sdk_system::withdraw_nonce_account(&a, &b, &c, 5));
    same(system::authorize_nonce_account(ka, kb, kd), sdk_system::authorize_nonce_account(&a, &b, &d));
    let created = sdk_system::create_nonce_account(&a, &b, &c, 5);
    same(system::initialize_nonce_account(kb, kc), created[1].clone());
}

#[test]
fn compute_budget_instructions_are_the_sdks() {
    let cases = [
        (ComputeBudgetInstruction::RequestHeapFrame(1024), SdkBudget::request_heap_frame(1024)),
        (ComputeBudgetInstruction::SetComputeUnitLimit(300), SdkBudget::set_compute_unit_limit(300)),
        (ComputeBudgetInstruction::SetComputeUnitPrice(1 << 40), SdkBudget::set_compute_unit_price(1 << 40)),
        (
            ComputeBudgetInstruction::SetLoadedAccountsDataSizeLimit(65_536),
            SdkBudget::set_loaded_accounts_data_size_limit(65_536),
        ),
    ];
    for (ours, theirs) in cases {
        assert_eq!(sdk_instruction(&ours.instruction()), theirs);
        let mut data = theirs.data;
        for len in 0..data.len() {
            assert_eq!(ComputeBudgetInstruction::decode(&data[..len]), None);
        }
        data.push(0);
        assert_eq!(ComputeBudgetInstruction::decode(&data), Some(ours));
    }
    assert_eq!(ComputeBudgetInstruction::decode(&[0; 9]), None);
    assert_eq!(ComputeBudgetInstruction::decode(&[5; 9]), None);
}

#[test]
fn addresses_are_the_sdks() {
    use solana_sdk_ids as ids;
    let pairs = [
        (consts::SYSTEM_PROGRAM, ids::system_program::ID),
        (consts::COMPUTE_BUDGET_PROGRAM, ids::compute_budget::ID),
        (consts::VOTE_PROGRAM, ids::vote::ID),
        (consts::STAKE_PROGRAM, ids::stake::ID),
        (consts::CONFIG_PROGRAM, ids::config::ID),
        (consts::ADDRESS_LOOKUP_TABLE_PROGRAM, ids::address_lookup_table::ID),
        (consts::ED25519_PROGRAM, ids::ed25519_program::ID),
        (consts::SECP256K1_PROGRAM, ids::secp256k1_program::ID),
        (consts::SECP256R1_PROGRAM, ids::secp256r1_program::ID),
        (consts::NATIVE_LOADER, ids::native_loader::ID),
        (consts::BPF_LOADER_DEPRECATED, ids::bpf_loader_deprecated::ID),
        (consts::BPF_LOADER, ids::bpf_loader::ID),
        (consts::BPF_LOADER_UPGRADEABLE, ids::bpf_loader_upgradeable::ID),
        (consts::LOADER_V4, ids::loader_v4::ID),
        (consts::FEATURE_PROGRAM, ids::feature::ID),
        (consts::INCINERATOR, ids::incinerator::ID),
        (consts::SYSVAR_OWNER, ids::sysvar::ID),
        (consts::SYSVAR_CLOCK, ids::sysvar::clock::ID),
        (consts::SYSVAR_EPOCH_REWARDS, ids::sysvar::epoch_rewards::ID),
        (consts::SYSVAR_EPOCH_SCHEDULE, ids::sysvar::epoch_schedule::ID),
        (consts::SYSVAR_FEES, ids::sysvar::fees::ID),
        (consts::SYSVAR_INSTRUCTIONS, ids::sysvar::instructions::ID),
        (consts::SYSVAR_LAST_RESTART_SLOT, ids::sysvar::last_restart_slot::ID),
        (consts::SYSVAR_RECENT_BLOCKHASHES, ids::sysvar::recent_blockhashes::ID),
        (consts::SYSVAR_RENT, ids::sysvar::rent::ID),
        (consts::SYSVAR_REWARDS, ids::sysvar::rewards::ID),
        (consts::SYSVAR_SLOT_HASHES, ids::sysvar::slot_hashes::ID),
        (consts::SYSVAR_SLOT_HISTORY, ids::sysvar::slot_history::ID),
        (consts::SYSVAR_STAKE_HISTORY, ids::sysvar::stake_history::ID),
    ];
    for (ours, theirs) in pairs {
        assert_eq!(ours, theirs.to_bytes(), "{theirs}");
    }
}
