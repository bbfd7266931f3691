//! The UTXO ledger: outputs, assets, signatures, and the transfer to the EVM.
