//! Generated inputs: transfers among synthetic accounts, and a ledger.

use std::sync::Arc;

use hearth_ledger::{Account, Genesis, GenesisConfig, Ledger, LedgerConfig};
pub use hearth_wire::transfer::TRANSFER_SIZE;
use hearth_wire::{Pubkey, TransferTemplate};

/// Transfers in each synthetic microblock.
pub const MICROBLOCK: usize = 64;

/// Returns bytes that are different for each `n`.
pub fn bytes<const N: usize>(n: u64) -> [u8; N] {
    let mut bytes = [0; N];
    fastrand::Rng::with_seed(n).fill(&mut bytes);
    bytes
}

/// Returns a transfer from `from` to `to`, with a synthetic signature from `n`.
pub fn transfer(from: &Pubkey, to: &Pubkey, n: u64) -> TransferTemplate {
    let mut template = TransferTemplate::new();
    template.set_from(from);
    template.set_to(to);
    template.set_lamports(n);
    template.set_signature(&bytes(n));
    template
}

/// Returns the bytes of a microblock's transfers, one after the other.
pub fn transfers() -> Vec<u8> {
    (0..MICROBLOCK as u64).flat_map(|n| transfer(&bytes(2 * n), &bytes(2 * n + 1), n).bytes().to_vec()).collect()
}

/// Returns a ledger of wallets that does not hash accounts: hashing is measured in the bench `bank` of the ledger.
pub fn ledger(wallets: &[Pubkey]) -> Arc<Ledger> {
    let config = GenesisConfig { fund_initial_accounts: 0, ..GenesisConfig::development([1; 32], [2; 32], 0) };
    let genesis = Genesis::create(config, |_| {}).expect("a chain");
    let ledger = Ledger::new(&genesis, LedgerConfig { hash_accounts: false, ..LedgerConfig::default() });
    wallets.iter().for_each(|key| ledger.accounts().store(key, Account::wallet(1 << 50)));
    ledger
}
