//! One program, or one part of the transaction path, each.

use super::*;

/// The scenarios of this file.
pub fn scenarios() -> Vec<Scenario> {
    [native(), deployed()].into_iter().flatten().collect()
}

/// The scenarios that need no program beyond the native ones, and lookup tables.
fn native() -> Vec<Scenario> {
    vec![
        plain(
            "transfers",
            "transfers that succeed and fail",
            100,
            |_| epochs(32),
            || vec![(90, Box::new(Transfers { most: 5 }))],
        ),
        plain(
            "transfer-errors",
            "transfers that are refused, and payers that may not pay",
            120,
            |_| epochs(64),
            || vec![(100, Box::new(RefusedTransfers::default())), (100, Box::new(RefusedTransfers::default()))],
        ),
        plain(
            "accounts",
            "accounts created, allocated and assigned",
            100,
            |_| epochs(64),
            || vec![(90, Box::new(Accounts::default())), (60, Box::new(Accounts::default()))],
        ),
        plain(
            "nonces",
            "nonce accounts and transactions on them",
            110,
            |_| epochs(64),
            || vec![(90, Box::new(nonce::Nonces::default())), (60, Box::new(nonce::Nonces::default()))],
        ),
        plain(
            "tables",
            "lookup tables, and transactions that load through them",
            110,
            |_| with(&[address_lookup_table::id()], epochs(64)),
            || vec![(100, Box::new(table::Tables::default())), (70, Box::new(table::Tables::default()))],
        ),
        plain(
            "budgets",
            "requests to the compute budget",
            100,
            |_| with(&[MEMO_3, TOKEN], epochs(64)),
            || vec![(100, Box::new(budget::Budgets)), (100, Box::new(budget::Budgets))],
        ),
    ]
}

/// Programs that are deployed, and transactions that are wrong.
fn deployed() -> Vec<Scenario> {
    vec![
        plain(
            "loader",
            "programs deployed, upgraded, called, closed",
            90,
            |_| with_old_code(epochs(64)),
            || vec![(60, Box::new(loader::Programs::default()))],
        ),
        plain(
            "probes",
            "random programs: system calls, memory, accounts, calls of programs",
            130,
            |_| epochs(64),
            || vec![(70, Box::new(probe::Probes::default())), (40, Box::new(probe::Probes::default()))],
        ),
        plain(
            "loader-refuses",
            "programs of a version that no longer deploys",
            40,
            |_| epochs(64),
            || vec![(50, Box::new(loader::Programs::default()))],
        ),
        plain(
            "loader-v4",
            "programs of the loader that was abandoned",
            40,
            |_| Rules { accounts: loader_v4::accounts(), ..epochs(32) },
            || vec![(100, Box::new(Abandoned)), (60, Box::new(Abandoned))],
        ),
        plain(
            "configurations",
            "the config program",
            60,
            |_| with(&[config::id()], epochs(32)),
            || vec![(100, Box::new(configuration::Configurations::default()))],
        ),
        plain(
            "tokens",
            "SPL Token and memos",
            110,
            |_| with(&[MEMO_3, TOKEN], epochs(64)),
            || vec![(100, Box::new(Tokens::spl())), (60, Box::new(Tokens::spl()))],
        ),
        plain(
            "tokens-2022",
            "Token-2022 with extensions, associated accounts",
            100,
            |_| with(&[TOKEN_2022, ASSOCIATED, MEMO_3], epochs(64)),
            || vec![(100, Box::new(token_2022::Extended::default())), (50, Box::new(Tokens::of(TOKEN_2022)))],
        ),
        plain(
            "precompiles",
            "signatures checked by precompiles",
            90,
            |_| with(&[MEMO_3], epochs(64)),
            || vec![(100, Box::new(precompile::Precompiles)), (100, Box::new(precompile::Precompiles))],
        ),
        plain(
            "invalid",
            "transactions that are wrong as a whole",
            190,
            |_| with(&[MEMO_3], epochs(64)),
            || vec![(100, Box::new(invalid::Invalid)), (60, Box::new(invalid::Invalid))],
        ),
    ]
}
