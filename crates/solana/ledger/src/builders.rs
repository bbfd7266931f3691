//! Shared by tests and benches here and in the crates above: a small chain, and transfers on it.

use std::sync::Arc;

use hearth_crypto::ed25519::SigningKey;
use hearth_wire::{Hash, Pubkey, TransferTemplate};

use crate::genesis::{Genesis, GenesisConfig};
use crate::ledger::{Ledger, LedgerConfig};

/// A genesis with node `[1; 32]` and faucet `[2; 32]` at time 0, and the first `funded` accounts of a development
/// chain.
pub fn genesis(funded: usize) -> Genesis {
    let config = GenesisConfig { fund_initial_accounts: funded, ..GenesisConfig::development([1; 32], [2; 32], 0) };
    Genesis::create(config, |_| {}).expect("a chain")
}

/// A ledger at [`genesis`], before its first slot.
pub fn ledger(funded: usize) -> Arc<Ledger> {
    Ledger::new(&genesis(funded), LedgerConfig::default())
}

/// The bytes of a signed transfer.
pub fn transfer(from: &SigningKey, to: &Pubkey, lamports: u64, blockhash: &Hash) -> Vec<u8> {
    let mut template = TransferTemplate::new();
    template.set_from(&from.public_key());
    template.set_to(to);
    template.set_lamports(lamports);
    template.set_recent_blockhash(blockhash);
    template.sign_with(|message| from.sign(message)).to_vec()
}
