//! The command line of `hearth wallet`.

use std::path::PathBuf;

use alloy_primitives::Address;
use clap::{Args, Subcommand};
use hearth_utxo::{AssetId, OwnerKey};

/// `hearth wallet`
#[derive(Subcommand)]
pub enum Command {
    /// Make a key, and say its address.
    ///
    /// The file is one of `hearth keys`, readable by its owner alone; a file that is there is never overwritten.
    New {
        /// The file to write.
        #[arg(value_name = "KEY")]
        path: PathBuf,
    },
    /// Say a key's address.
    Address {
        /// The key's file.
        #[arg(value_name = "KEY")]
        path: PathBuf,
    },
    /// Say what an address has, of each asset.
    Balance {
        /// The address [default: the key's].
        #[arg(value_name = "ADDRESS", required_unless_present = "key")]
        address: Option<OwnerKey>,
        /// The key's file.
        #[arg(long, value_name = "KEY", conflicts_with = "address")]
        key: Option<PathBuf>,
        /// The node.
        #[command(flatten)]
        node: Node,
    },
    /// Pay to an address.
    Send {
        /// To whom: `hearth1…`.
        #[arg(value_name = "ADDRESS")]
        to: OwnerKey,
        /// How much, as 1.5.
        amount: String,
        /// Of which asset: `native`, or its id.
        #[arg(long, value_name = "ASSET", default_value = "native")]
        asset: AssetId,
        /// A text that everybody can read, at most 256 bytes.
        #[arg(long, value_name = "TEXT", default_value = "")]
        memo: String,
        /// Who pays.
        #[command(flatten)]
        payer: Payer,
    },
    /// Issue a new asset, or more of one.
    Issue {
        /// The asset's short name: up to 16 letters, digits, and `-._`; its id where there is to be more of it.
        code: String,
        /// How much, as 1.5.
        amount: String,
        /// Digits after the point that the new asset has.
        #[arg(long, value_name = "N", default_value_t = 0)]
        decimals: u8,
        /// More of the new asset may be issued later.
        #[arg(long)]
        open: bool,
        /// Who issues it, and pays the fee.
        #[command(flatten)]
        payer: Payer,
    },
    /// Take native assets to an account of the EVM, or from one.
    ///
    /// Either way it is one step: the amount is on both sides, or on neither.
    Prism {
        /// How much, as 1.5; six digits after the point at most.
        amount: String,
        /// To this account.
        #[arg(long, value_name = "ACCOUNT", required_unless_present = "from", conflicts_with = "from")]
        to: Option<Address>,
        /// From this account, which the node signs for, as `hearth evm run` does for those that it prints; or
        /// --evm-key's.
        #[arg(long, value_name = "ACCOUNT")]
        from: Option<Address>,
        /// Sign for the account with the key in this file, 64 hexadecimal digits.
        #[arg(long, value_name = "FILE", requires = "from")]
        evm_key: Option<PathBuf>,
        /// Whose outputs.
        #[command(flatten)]
        payer: Payer,
    },
}

/// Which node.
#[derive(Args)]
pub struct Node {
    /// The node's JSON-RPC.
    #[arg(long, value_name = "URL", env = "HEARTH_RPC", default_value = "http://127.0.0.1:8545")]
    pub rpc: String,
}

/// Who spends.
#[derive(Args)]
pub struct Payer {
    /// The key's file, as `hearth wallet new` writes it.
    #[arg(long, value_name = "KEY")]
    pub key: PathBuf,
    /// The node.
    #[command(flatten)]
    pub node: Node,
    /// Do not wait until it is in a block.
    #[arg(long)]
    pub no_wait: bool,
}
