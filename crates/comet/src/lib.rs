//! The ledger as an application of CometBFT.
