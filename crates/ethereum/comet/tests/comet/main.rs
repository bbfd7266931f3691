//! The ledger as an application: with requests like CometBFT's, and under CometBFT itself.

mod cometbft;
mod network;
mod snapshots;
mod tx_gossip;
