//! The ledger as an application: asked as CometBFT asks it, and by CometBFT itself.

mod cometbft;
mod network;
mod snapshots;
mod tx_gossip;
