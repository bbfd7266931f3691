//! Features in motion, and everything at once.

use super::*;

fn everything() -> Acts {
    vec![
        (50, Box::new(Transfers { most: 2 })),
        (25, Box::new(Accounts::default())),
        (25, Box::new(nonce::Nonces::default())),
        (30, Box::new(table::Tables::default())),
        (30, Box::new(budget::Budgets)),
        (12, Box::new(loader::Programs::default())),
        (20, Box::new(probe::Probes::default())),
        (15, Box::new(configuration::Configurations::default())),
        (35, Box::new(Tokens::spl())),
        (20, Box::new(precompile::Precompiles)),
        (25, Box::new(invalid::Invalid)),
        (30, Box::new(Stakes::default())),
        (20, Box::new(VoteAccounts::default())),
        (8, Box::new(Commissions)),
    ]
}

fn common(rules: Rules) -> Rules {
    with(&[MEMO_3, TOKEN, address_lookup_table::id(), config::id()], rules)
}

/// Features that change what the other acts do, and that a chain may lack.
fn optional() -> Vec<Pubkey> {
    vec![
        features::commission_rate_in_basis_points::id(),
        features::create_account_allow_prefund::id(),
        features::custom_commission_collector::id(),
        features::block_revenue_sharing::id(),
        features::define_ltds_fee_only_semantics::id(),
        features::delay_commission_updates::id(),
        features::deprecate_legacy_vote_ixs::id(),
        features::direct_account_pointers_in_program_input::id(),
        features::disable_sbpf_v0_v1_v2_deployment::id(),
        features::limit_instruction_accounts::id(),
        features::loader_v3_minimum_extend_program_size::id(),
        features::raise_cpi_nesting_limit_to_8::id(),
        features::relax_post_exec_min_balance_check::id(),
        features::vote_account_initialize_v2::id(),
    ]
}

/// Features of the machine that runs programs.
fn machine() -> Vec<Pubkey> {
    vec![
        features::abort_on_invalid_curve::id(),
        features::account_data_direct_mapping::id(),
        features::curve25519_syscall_enabled::id(),
        features::deplete_cu_meter_on_vm_failure::id(),
        features::direct_account_pointers_in_program_input::id(),
        features::enable_alt_bn128_syscall::id(),
        features::enable_get_epoch_stake_syscall::id(),
        features::enable_sha512_syscall::id(),
        features::get_sysvar_syscall_enabled::id(),
        features::remaining_compute_units_syscall_enabled::id(),
        features::syscall_parameter_address_restrictions::id(),
        features::virtual_address_space_adjustments::id(),
    ]
}

/// Features that mainnet had not activated in August 2026.
fn not_on_mainnet() -> Vec<Pubkey> {
    vec![
        features::account_data_direct_mapping::id(),
        features::block_revenue_sharing::id(),
        features::custom_commission_collector::id(),
        features::direct_account_pointers_in_program_input::id(),
        features::disable_sbpf_v0_execution::id(),
        features::disable_sbpf_v0_v1_v2_deployment::id(),
        features::enable_sha512_syscall::id(),
        features::full_inflation::devnet_and_testnet::id(),
        features::reenable_sbpf_v0_execution::id(),
        features::relax_post_exec_min_balance_check::id(),
        features::virtual_address_space_adjustments::id(),
        features::vote_account_initialize_v2::id(),
    ]
}

/// The scenarios of this file.
pub fn scenarios() -> Vec<Scenario> {
    [features_in_motion(), whole()].into_iter().flatten().collect()
}

/// Features that are missing or activate on the way.
fn features_in_motion() -> Vec<Scenario> {
    vec![
        diligent(
            "features-pending",
            "features that activate with epoch 1, and with epoch 3",
            130,
            |_| {
                let late = features::set_lamports_per_byte_to_5080::id();
                let mut pending: Vec<_> = optional().into_iter().map(|id| (id, None)).collect();
                pending.push((late, Some(80)));
                Rules { off: vec![late], pending, ..common(rewarded(32)) }
            },
            everything,
        ),
        diligent(
            "features-machine",
            "the machine that runs programs changes with epoch 1",
            100,
            |_| {
                let pending = machine().into_iter().map(|id| (id, None)).collect();
                Rules { pending, ..epochs(32) }
            },
            || vec![(70, Box::new(probe::Probes::default())), (30, Box::new(loader::Programs::default()))],
        ),
        diligent(
            "mainnet",
            "the features of mainnet, and some more with epoch 1",
            130,
            |rng| {
                let off = not_on_mainnet();
                let pending = off.iter().filter(|_| rng.chance(30)).map(|id| (*id, None)).collect();
                Rules { off, pending, ..common(rewarded(32)) }
            },
            everything,
        ),
        plain(
            "features-rent",
            "rent that falls at boundaries",
            110,
            |_| {
                let (first, second) =
                    (features::set_lamports_per_byte_to_6333::id(), features::set_lamports_per_byte_to_1322::id());
                let last = features::set_lamports_per_byte_to_6960::id();
                // Two at once: the lower one counts. The third is active from slot 50 on without the change of rent.
                let pending = vec![(first, None), (second, None), (last, Some(50))];
                Rules { off: vec![first, second, last], pending, ..epochs(32) }
            },
            || {
                vec![
                    (70, Box::new(Accounts::default())),
                    (50, Box::new(Transfers { most: 2 })),
                    (30, Box::new(invalid::Invalid)),
                ]
            },
        ),
    ]
}

/// Everything at once, under features by lot and under all of them.
fn whole() -> Vec<Scenario> {
    vec![
        diligent(
            "features-random",
            "each optional feature on, off or pending by lot",
            110,
            |rng| {
                let mut rules = common(rewarded(32));
                for id in optional() {
                    match rng.below(3) {
                        0 => rules.off.push(id),
                        1 => rules.pending.push((id, None)),
                        _ => {}
                    }
                }
                rules
            },
            everything,
        ),
        diligent("everything", "all of it", 140, |_| common(with_old_code(rewarded(32))), everything),
        Scenario {
            fork_percent: 6,
            skip_percent: 12,
            hard_forks: vec![50],
            ..diligent(
                "everything-forks",
                "all of it, with forks and a hard fork",
                120,
                |rng| {
                    let hashes_per_tick = rng.chance(50).then(|| rng.between(1, 5));
                    let target_signatures_per_slot = rng.between(5, 40);
                    Rules { hashes_per_tick, target_signatures_per_slot, ..common(with_old_code(rewarded(32))) }
                },
                everything,
            )
        },
        plain(
            "old-memo",
            "a program of the second loader",
            40,
            |_| with(&[MEMO_1], epochs(32)),
            || vec![(100, Box::new(crate::acts::budget::OldMemos))],
        ),
    ]
}
