//! The features that `agave-feature-set` 4.2.2 knows, and what each means here.
//!
//! source  `agave-feature-set` 4.2.2; the sources of Agave 4.2.2, for which of them its code still asks; for mainnet,
//!         `app/entities/feature-gate/feature-gates.json` of solana-foundation/explorer at commit 808ff1a

use hearth_wire::Pubkey;

use super::{Feature, Support};

/// The day of the list of mainnet's features.
pub const MAINNET_AS_OF: &str = "2026-08-20";

macro_rules! rows {
    ($($name:ident $support:ident $note:literal;)*) => {
        &[$(Feature {
            id: agave_feature_set::$name::ID.to_bytes(),
            name: stringify!($name),
            support: Support::$support,
            note: $note,
        }),*]
    };
}

/// Says the same of every feature named.
macro_rules! all_alike {
    ($support:ident $note:literal: $($name:ident)*) => {
        rows! { $($name $support $note;)* }
    };
}

const fn full_inflation(id: [u8; 32], name: &'static str) -> Feature {
    Feature { id, name, support: Support::Implemented, note: "ledger: rewards/inflation.rs" }
}

/// Features in modules of their own.
pub(super) const FULL_INFLATION: &[Feature] = &[
    full_inflation(
        agave_feature_set::full_inflation::devnet_and_testnet::ID.to_bytes(),
        "full_inflation::devnet_and_testnet",
    ),
    full_inflation(
        agave_feature_set::full_inflation::mainnet::certusone::vote::ID.to_bytes(),
        "full_inflation::mainnet::certusone::vote",
    ),
    full_inflation(
        agave_feature_set::full_inflation::mainnet::certusone::enable::ID.to_bytes(),
        "full_inflation::mainnet::certusone::enable",
    ),
];

/// Features for which the code of Agave 4.2.2 asks.
pub(super) const ASKED_FOR: &[Feature] = rows! {
    pico_inflation Implemented "ledger: rewards/inflation.rs";
    blake3_syscall_enabled Implemented "svm: system calls";
    disable_fees_sysvar Implemented "svm: system calls";
    zk_token_sdk_enabled Implemented "ledger: the program appears with it; svm";
    curve25519_syscall_enabled Implemented "svm: system calls";
    increase_tx_account_lock_limit Implemented "ledger: bank/checks.rs";
    enable_bpf_loader_set_authority_checked_ix Implemented "svm: upgradeable loader";
    enable_alt_bn128_syscall Implemented "svm: system calls";
    enable_big_mod_exp_syscall Implemented "svm: system calls";
    syscall_parameter_address_restrictions Implemented "svm: virtual machine";
    virtual_address_space_adjustments Implemented "svm: virtual machine";
    account_data_direct_mapping Implemented "svm: virtual machine";
    last_restart_slot_sysvar Implemented "svm: system calls";
    reduce_stake_warmup_cooldown Required "ledger: stakes warm up by 9 % an epoch, never by 25 %";
    enable_poseidon_syscall Implemented "svm: system calls";
    remaining_compute_units_syscall_enabled Implemented "svm: system calls";
    enable_alt_bn128_compression_syscall Implemented "svm: system calls";
    abort_on_invalid_curve Implemented "svm: system calls";
    get_sysvar_syscall_enabled Implemented "svm: system calls";
    enable_get_epoch_stake_syscall Implemented "svm: system calls";
    zk_elgamal_proof_program_enabled Implemented "ledger: the program appears with it; svm";
    verify_retransmitter_signature Implemented "pipeline: shred/features.rs, from the epoch after";
    deprecate_legacy_vote_ixs Implemented "svm: vote program";
    disable_sbpf_v0_execution Implemented "svm: virtual machine";
    reenable_sbpf_v0_execution Implemented "svm: virtual machine";
    enable_sbpf_v1_deployment_and_execution Implemented "svm: virtual machine";
    enable_sbpf_v2_deployment_and_execution Implemented "svm: virtual machine";
    enable_sbpf_v3_deployment_and_execution Implemented "svm: virtual machine";
    disable_sbpf_v0_v1_v2_deployment Implemented "svm: loaders";
    deplete_cu_meter_on_vm_failure Implemented "svm: virtual machine";
    alpenglow Unsupported "another consensus";
    reduce_slot_time_to_350ms Unsupported "slots keep the length that the genesis says";
    reduce_slot_time_to_300ms Unsupported "slots keep the length that the genesis says";
    reduce_slot_time_to_250ms Unsupported "slots keep the length that the genesis says";
    reduce_slot_time_to_200ms Unsupported "slots keep the length that the genesis says";
    disable_zk_elgamal_proof_program Implemented "svm: proof program";
    reenable_zk_elgamal_proof_program Implemented "svm: proof program";
    raise_block_limits_to_100m Required "ledger: the limits in cost.rs";
    raise_cpi_nesting_limit_to_8 Implemented "svm: compute budget";
    create_account_allow_prefund Implemented "svm: system program; ledger: the bytes that it allocates";
    discard_unexpected_data_complete_shreds Required "pipeline: the rule holds for every shred";
    switch_to_chacha8_turbine Implemented "pipeline: shred/features.rs, from the epoch after";
    delay_commission_updates Implemented "ledger: rewards; svm: vote program";
    deprecate_rent_exemption_threshold Required "ledger: the minimum balance is that of one byte, times the bytes";
    poseidon_enforce_padding Implemented "svm: system calls";
    replace_spl_token_with_p_token FromStart "no effect from the start, nor later without its buffer; replacing the program is missing";
    alt_bn128_little_endian Implemented "svm: system calls";
    bls_pubkey_management_in_vote_account Required "ledger: the default compute units in budget.rs; svm: vote program";
    relax_programdata_account_check_migration NoEffect "concerns programs replaced at a boundary, which is refused";
    enable_alt_bn128_g2_syscalls Implemented "svm: system calls";
    commission_rate_in_basis_points Implemented "ledger: rewards; svm: vote program";
    custom_commission_collector Implemented "ledger: the collector of fees; svm: vote program";
    enable_bls12_381_syscall Implemented "svm: system calls";
    set_lamports_per_byte_to_6333 Implemented "ledger: features/rules.rs; from the start the genesis says it";
    set_lamports_per_byte_to_5080 Implemented "ledger: features/rules.rs; from the start the genesis says it";
    set_lamports_per_byte_to_2575 Implemented "ledger: features/rules.rs; from the start the genesis says it";
    set_lamports_per_byte_to_1322 Implemented "ledger: features/rules.rs; from the start the genesis says it";
    set_lamports_per_byte_to_696 Implemented "ledger: features/rules.rs; from the start the genesis says it";
    limit_instruction_accounts Implemented "ledger: bank/checks.rs; svm";
    block_revenue_sharing Implemented "ledger: rewards; svm: vote program";
    vote_account_initialize_v2 Implemented "svm: vote program";
    validate_chained_block_id Required "pipeline: every block must name its parent's id";
    validator_admission_ticket Unsupported "vote accounts pay no tickets (SIMD-0357)";
    direct_account_pointers_in_program_input Implemented "svm: virtual machine";
    upgrade_bpf_stake_program_to_v5 FromStart "no effect from the start, nor later without its buffer; replacing the program is missing";
    loader_v3_minimum_extend_program_size Implemented "svm: upgradeable loader";
    enable_sha512_syscall Implemented "svm: system calls";
    relax_post_exec_min_balance_check Implemented "ledger: features/rules.rs; svm";
    enable_tx_v1 Unsupported "transactions are legacy ones or of version 0 (SIMD-0385)";
    define_ltds_fee_only_semantics Implemented "ledger: bank/transfer.rs; svm";
    set_lamports_per_byte_to_6960 Implemented "ledger: features/rules.rs; from the start the genesis says it";
    validate_chained_block_id_2 Required "pipeline: every block must name its parent's id";
    upgrade_bpf_stake_program_to_v5_1 Required "ledger: stakes warm up in fixed-point arithmetic";
    alpenglow_fast_leader_handover Unsupported "another consensus";
};

/// Features for which the code of Agave 4.2.2 no longer asks.
pub(super) const SETTLED: &[Feature] = all_alike! {
    NoEffect "Agave 4.2.2 has its rules with and without it, and so has Hearth":
    secp256k1_program_enabled deprecate_rewards_sysvar spl_token_v2_multisig_fix no_overflow_rent_distribution
    filter_stake_delegation_accounts require_custodian_for_locked_stake_authorize spl_token_v2_self_transfer_fix
    warp_timestamp_again check_init_vote_data secp256k1_recover_syscall_enabled system_transfer_zero_check
    dedupe_config_program_signers verify_tx_signatures_len vote_stake_checked_instructions rent_for_sysvars
    libsecp256k1_0_5_upgrade_enabled tx_wide_compute_cap spl_token_v2_set_authority_fix
    merge_nonce_error_into_system_error stake_merge_with_unmatched_credits_observed versioned_tx_message_enabled
    libsecp256k1_fail_on_bad_count libsecp256k1_fail_on_bad_count2 instructions_sysvar_owned_by_sysvar
    stake_program_advance_activating_credits_observed credits_auto_rewind demote_program_write_locks
    ed25519_program_enabled return_data_syscall_enabled reduce_required_deploy_balance
    sol_log_data_syscall_enabled stakes_remove_delegation_if_inactive do_support_realloc
    prevent_calling_precompiles_as_programs optimize_epoch_boundary_updates remove_native_loader
    send_to_tpu_vote_port requestable_heap_size disable_fee_calculator add_compute_budget_program
    nonce_must_be_writable spl_token_v3_3_0_release leave_nonce_on_success
    reject_empty_instruction_without_program fixed_memcpy_nonoverlapping_check
    reject_non_rent_exempt_vote_withdraws evict_invalid_stakes_cache_entries
    allow_votes_to_directly_update_vote_state max_tx_account_locks require_rent_exempt_accounts
    filter_votes_outside_slot_hashes update_syscall_base_costs stake_deactivate_delinquent_instruction
    vote_withdraw_authority_may_change_authorized_voter spl_associated_token_account_v1_0_4
    reject_vote_account_close_unless_zero_credit_epoch add_get_processed_sibling_instruction_syscall
    bank_transaction_count_fix disable_bpf_deprecated_load_instructions
    disable_bpf_unresolved_symbols_at_runtime record_instruction_in_transaction_context_push
    syscall_saturated_math check_physical_overlapping limit_secp256k1_recovery_id disable_deprecated_loader
    check_slice_translation_size stake_split_uses_rent_sysvar
    add_get_minimum_delegation_instruction_to_stake_program error_on_syscall_bpf_function_hash_collisions
    reject_callx_r10 drop_redundant_turbine_path executables_incur_cpi_data_cost fix_recent_blockhashes
    update_rewards_from_cached_accounts spl_token_v3_4_0 spl_associated_token_account_v1_1_0
    default_units_per_instruction stake_allow_zero_undelegated_amount require_static_program_ids_in_transaction
    stake_raise_minimum_delegation_to_1_sol add_set_compute_unit_price_ix disable_deploy_of_alloc_free_syscall
    include_account_index_in_rent_error add_shred_type_to_shred_seed warp_timestamp_with_a_vengeance
    separate_nonce_from_blockhash enable_durable_nonce vote_state_update_credit_per_dequeue quick_bail_on_panic
    nonce_must_be_authorized nonce_must_be_advanceable vote_authorize_with_seed
    preserve_rent_epoch_for_rent_exempt_accounts enable_bpf_loader_extend_program_ix skip_rent_rewrites
    enable_early_verification_of_account_modifications disable_rehash_for_rent_epoch account_hash_ignore_slot
    set_exempt_rent_epoch_max on_load_preserve_rent_epoch_for_rent_exempt_accounts
    prevent_crediting_accounts_that_end_rent_paying cap_bpf_program_instruction_accounts
    loosen_cpi_size_restriction use_default_units_in_fee_calculation compact_vote_state_updates
    incremental_snapshot_only_incremental_hash_calculation disable_cpi_setting_executable_and_rent_epoch
    relax_authority_signer_check_for_lookup_table_creation stop_sibling_instruction_search_at_parent
    vote_state_update_root_fix cap_accounts_data_allocations_per_transaction epoch_accounts_hash
    remove_deprecated_request_unit_ix limit_max_instruction_trace_length check_syscall_outputs_do_not_overlap
    simplify_alt_bn128_syscall_error_codes enable_program_redeployment_cooldown
    commission_updates_only_allowed_in_first_half_of_epoch enable_turbine_fanout_experiments
    disable_turbine_fanout_experiments move_serialized_len_ptr_in_cpi update_hashes_per_tick
    disable_builtin_loader_ownership_chains cap_transaction_accounts_data_size
    remove_congestion_multiplier_from_fee_calculation enable_request_heap_frame_ix
    prevent_rent_paying_rent_recipients delay_visibility_of_program_deployment apply_cost_tracker_during_replay
    add_set_tx_loaded_accounts_data_size_instruction switch_to_new_elf_parser round_up_heap_size
    remove_bpf_loader_incorrect_program_id include_loaded_accounts_data_size_in_fee_calculation
    native_programs_consume_cu simplify_writable_program_account_check stop_truncating_strings_in_syscalls
    clean_up_delegation_errors vote_state_add_vote_latency checked_arithmetic_in_fee_validation
    revise_turbine_epoch_stakes timely_vote_credits enable_loader_v4 require_rent_exempt_split_destination
    better_error_codes_for_tx_lamport_check update_hashes_per_tick2 update_hashes_per_tick3
    update_hashes_per_tick4 update_hashes_per_tick5 update_hashes_per_tick6 validate_fee_collector_account
    disable_rent_fees_collection enable_zk_transfer_with_fee drop_legacy_shreds
    allow_commission_decrease_at_any_time consume_blockstore_duplicate_proofs add_new_reserved_account_keys
    index_erasure_conflict_duplicate_proofs merkle_conflict_duplicate_proofs disable_bpf_loader_instructions
    enable_zk_proof_from_account curve25519_restrict_msm_length cost_model_requested_write_lock_cost
    enable_gossip_duplicate_proof_ingestion enable_chained_merkle_shreds remove_rounding_in_fee_calculation
    deprecate_unused_legacy_vote_plumbing enable_tower_sync_ix chained_merkle_conflict_duplicate_proofs
    reward_full_priority_fee migrate_feature_gate_program_to_core_bpf vote_only_full_fec_sets
    migrate_config_program_to_core_bpf migrate_address_lookup_table_program_to_core_bpf
    move_stake_and_move_lamports_ixs ed25519_precompile_verify_strict vote_only_retransmitter_signed_fec_sets
    move_precompile_verification_to_svm enable_transaction_loading_failure_fees
    enable_turbine_extended_fanout_experiments partitioned_epoch_rewards_superfeature
    remove_accounts_executable_flag_checks disable_account_loader_special_case accounts_lt_hash
    snapshots_lt_hash remove_accounts_delta_hash enable_secp256r1_precompile migrate_stake_program_to_core_bpf
    reserve_minimal_cus_for_builtin_instructions raise_block_limits_to_50m
    fix_alt_bn128_multiplication_input_length drop_unchained_merkle_shreds relax_intrabatch_account_locks
    disable_partitioned_rent_collection enable_vote_address_leader_schedule require_static_nonce_account
    raise_block_limits_to_60m mask_out_rent_epoch_in_vm_serialization enable_extend_program_checked
    formalize_loaded_transaction_data_size raise_account_cu_limit enforce_fixed_fec_set
    provide_instruction_data_offset_in_vm_r2 static_instruction_limit vote_state_v4
    increase_cpi_account_info_limit fix_alt_bn128_pairing_length_check remove_simple_vote_from_cost_model
};

/// The features that replace a program, and the buffers that they take it from.
pub(super) const BUFFERS: [(Pubkey, Pubkey); 2] = [
    (
        agave_feature_set::replace_spl_token_with_p_token::ID.to_bytes(),
        agave_feature_set::replace_spl_token_with_p_token::PTOKEN_PROGRAM_BUFFER.to_bytes(),
    ),
    (
        agave_feature_set::upgrade_bpf_stake_program_to_v5::ID.to_bytes(),
        agave_feature_set::upgrade_bpf_stake_program_to_v5::buffer::ID.to_bytes(),
    ),
];

/// Features that were not active on mainnet on [`MAINNET_AS_OF`]: those that the list has without an epoch, and newer
/// ones and the other clusters' that it lacks.
pub(super) const NOT_ON_MAINNET: &[&str] = &[
    "full_inflation::devnet_and_testnet",
    "account_data_direct_mapping",
    "alpenglow",
    "alpenglow_fast_leader_handover",
    "block_revenue_sharing",
    "custom_commission_collector",
    "direct_account_pointers_in_program_input",
    "disable_sbpf_v0_execution",
    "disable_sbpf_v0_v1_v2_deployment",
    "enable_sha512_syscall",
    "enable_tx_v1",
    "reduce_slot_time_to_200ms",
    "reduce_slot_time_to_250ms",
    "reduce_slot_time_to_300ms",
    "reenable_sbpf_v0_execution",
    "relax_post_exec_min_balance_check",
    "set_lamports_per_byte_to_1322",
    "set_lamports_per_byte_to_2575",
    "set_lamports_per_byte_to_5080",
    "set_lamports_per_byte_to_6333",
    "set_lamports_per_byte_to_696",
    "set_lamports_per_byte_to_6960",
    "upgrade_bpf_stake_program_to_v5_1",
    "virtual_address_space_adjustments",
    "vote_account_initialize_v2",
];
