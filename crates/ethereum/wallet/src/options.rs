//! The command line of `hearth wallet`.

use std::path::PathBuf;

use alloy_primitives::Address;
use clap::{Args, Subcommand};
use hearth_utxo::OwnerKey;

/// The subcommands of `hearth wallet`.
#[derive(Subcommand)]
pub enum Command {
    /// Create a key, and print its address.
    ///
    /// The file is one of `hearth keys`, readable only by its owner; an existing file is never overwritten.
    New {
        /// The file to write.
        #[arg(value_name = "KEY")]
        path: PathBuf,
    },
    /// Print a key's address.
    Address {
        /// The key's file.
        #[arg(value_name = "KEY")]
        path: PathBuf,
    },
    /// Print an address's balance of each asset.
    Balance {
        /// The address [default: the key's].
        #[arg(value_name = "ADDRESS", required_unless_present = "key", value_parser = owner)]
        address: Option<OwnerKey>,
        /// The key's file.
        #[arg(long, value_name = "KEY", conflicts_with = "address")]
        key: Option<PathBuf>,
        /// The node that is asked.
        #[command(flatten)]
        node: Node,
    },
    /// Pay to an address.
    Send {
        /// The recipient: `hearth1…`.
        #[arg(value_name = "ADDRESS", value_parser = owner)]
        to: OwnerKey,
        /// The amount, such as 1.5.
        amount: String,
        /// The asset: `native`, its id, or its name if the key has only one asset of that name.
        #[arg(long, value_name = "ASSET", default_value = "native")]
        asset: String,
        /// A public text, at most 256 bytes.
        #[arg(long, value_name = "TEXT", default_value = "")]
        memo: String,
        /// The key that pays, and the node.
        #[command(flatten)]
        payer: Payer,
    },
    /// Issue a new asset, or more of one.
    Issue {
        /// The asset's short name: up to 16 letters, digits, and `-._`; to issue more of an existing asset, its id.
        code: String,
        /// The amount, such as 1.5.
        amount: String,
        /// Decimal digits of the new asset.
        #[arg(long, value_name = "N", default_value_t = 0)]
        decimals: u8,
        /// Allow more of the new asset to be issued later.
        #[arg(long)]
        open: bool,
        /// The key that issues it and pays the fee, and the node.
        #[command(flatten)]
        payer: Payer,
    },
    /// Move native assets to an EVM account, or from one.
    ///
    /// The transfer is atomic: the amount arrives on the other side, or stays.
    Prism {
        /// The amount, such as 1.5; at most six decimal digits.
        amount: String,
        /// The receiving EVM account.
        #[arg(long, value_name = "ACCOUNT", value_parser = account, conflicts_with_all = ["from", "evm_key"])]
        #[arg(required_unless_present_any = ["from", "evm_key"])]
        to: Option<Address>,
        /// The sending EVM account, for which the node signs, as `hearth evm run` does for the accounts it prints.
        #[arg(long, value_name = "ACCOUNT", value_parser = account)]
        from: Option<Address>,
        /// A file with the key of the sending EVM account, 64 hexadecimal digits.
        #[arg(long, value_name = "FILE")]
        evm_key: Option<PathBuf>,
        /// The key whose outputs are spent, and the node.
        #[command(flatten)]
        payer: Payer,
    },
}

/// The node that a command talks to.
#[derive(Args)]
pub struct Node {
    /// The node's JSON-RPC.
    #[arg(short = 'u', long, alias = "rpc", value_name = "URL", env = "HEARTH_RPC")]
    #[arg(default_value = "http://127.0.0.1:8545")]
    pub url: String,
}

/// The key that spends, and the node to send to.
#[derive(Args)]
pub struct Payer {
    /// The key's file, as `hearth wallet new` writes it.
    #[arg(long, value_name = "KEY")]
    pub key: PathBuf,
    /// The node to send to.
    #[command(flatten)]
    pub node: Node,
    /// Do not wait until the transaction is in a block.
    #[arg(long)]
    pub no_wait: bool,
}

/// An address of the ledger of outputs.
fn owner(text: &str) -> Result<OwnerKey, String> {
    if text.starts_with("0x") {
        return Err("that is an account of the EVM, and an address here begins with `hearth1`; `hearth wallet prism \
                    AMOUNT --to ACCOUNT` pays to such an account"
            .into());
    }
    text.parse()
        .map_err(|error| format!("{error}; `hearth wallet address KEY` says a key's, which begins with `hearth1`"))
}

/// An account of the EVM.
fn account(text: &str) -> Result<Address, String> {
    text.parse().map_err(|_| "an account of the EVM is 0x and 40 hexadecimal digits".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_the_other_ledger_is_named_as_such() {
        let evm = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
        assert!(owner(evm).is_err_and(|why| why.contains("--to")));
        assert!(owner("a.json").is_err_and(|why| why.contains("hearth wallet address")));
        assert!(account(evm).is_ok());
        assert!(account("hearth1").is_err_and(|why| why.contains("40 hexadecimal")));
    }
}
