//! A chain that carries the UTXO ledger in addition to its EVM: blocks of both, and transfers between them.
//!
//! `evm` knows side ledgers only by [`SideLedger`](hearth_evm::side::SideLedger), and `utxo` knows no chain. This crate
//! joins the two. A chain carries the ledger if its genesis says so ([`genesis`]), and [`UtxoChain`] reads it.
//!
//! Within a block, the UTXO ledger's transactions execute before the EVM's: transfers to the EVM are credited at the
//! end as withdrawals, and transfers from it are known once its transactions have run. [`prism`] is the EVM's side of
//! these transfers.
//!
//! ```
//! use hearth_evm::chain::{Chain, ChainConfig};
//! use hearth_evm_utxo::{UtxoChain, genesis};
//!
//! let chain = Chain::open(ChainConfig::new(genesis::dev(31337, &[], 30_000_000)))?;
//! assert_eq!(chain.outputs().totals().outputs, 0);
//! # Ok::<(), hearth_evm::chain::ChainError>(())
//! ```

pub mod genesis;
mod ledger;
pub mod prism;
#[cfg(test)]
mod tests;

use std::any::Any;

use hearth_evm::chain::Chain;
use hearth_utxo::{Ledger, Pool};

use ledger::Utxo;

/// The UTXO ledger's additions to a chain.
///
/// # Panics
/// All methods, if the chain's genesis has no UTXO ledger.
pub trait UtxoChain {
    /// The UTXO ledger, as it is after [`Chain::head`] or, for a moment, the block after it.
    fn outputs(&self) -> &Ledger;

    /// Transactions of the UTXO ledger that wait.
    fn outputs_pool(&self) -> &Pool;
}

impl UtxoChain for Chain {
    fn outputs(&self) -> &Ledger {
        utxo(self).ledger()
    }

    fn outputs_pool(&self) -> &Pool {
        utxo(self).pool()
    }
}

fn utxo(chain: &Chain) -> &Utxo {
    let side: &dyn Any = chain.side().expect("its genesis has a side ledger");
    side.downcast_ref().expect("the UTXO ledger is the only kind")
}
