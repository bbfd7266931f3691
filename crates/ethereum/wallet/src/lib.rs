//! wallet: keys, balances and payments on the UTXO ledger of a node: `hearth wallet`.
//!
//! reads   a key's file; a node's RPC
//! writes  a key's file; transactions, signed here: the key never leaves this process

#![deny(clippy::print_stdout, clippy::print_stderr)] // `output` does not panic when nobody reads.

mod node;
mod options;

pub use options::Command;

use std::path::{Path, PathBuf};

use alloy_primitives::{Address, B256, U256};
use hearth_command::exit_code::ExitCode;
use hearth_command::node_rpc::RpcError;
use hearth_command::output::CommandOutput;
use hearth_crypto::ed25519::SigningKey;
use hearth_keys::{self as keys, KeyError};
use hearth_utxo::address::OwnerKey;
use hearth_utxo::amount::{self, AmountError, NATIVE_DECIMALS};
use hearth_utxo::output::MEMO_MAX;
use hearth_utxo::tx::{Action, BuildError, Builder};
use hearth_utxo::{AssetId, Output, asset, prism};
use zeroize::Zeroizing;

use node::Node;
use options::Payer;

/// Why a wallet command failed.
#[derive(Debug, thiserror::Error)]
pub enum WalletError {
    /// The key file cannot be read or written.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The node rejected the request.
    #[error("the node refuses: {0}")]
    Refused(String),
    /// The node cannot be reached.
    #[error("{0}; is a node running there? `hearth evm run` starts one, --url names another")]
    Rpc(RpcError),
    /// The node's answer is not of this form.
    #[error("{0}: the node's answer is not understood: {1}")]
    Answer(&'static str, String),
    /// The amount is invalid.
    #[error(transparent)]
    Amount(#[from] AmountError),
    /// The amount is zero.
    #[error("the amount must not be zero")]
    Nothing,
    /// The memo is longer than allowed.
    #[error("a memo has at most {MEMO_MAX} bytes, and this has {0}")]
    Memo(usize),
    /// The name cannot be an asset's code.
    #[error("'{0}' is not an asset's code: 1 to 16 letters, digits, and any of -._")]
    Code(String),
    /// The transaction cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// No asset has this id.
    #[error("asset {0} was never issued")]
    NoAsset(AssetId),
    /// By no such name.
    #[error("'{0}' is not an asset of this key: `native`, an id, or one of: {1}")]
    UnknownAsset(String, String),
    /// By more than one.
    #[error("more than one asset of this key is named {0}: say which by its id: {1}")]
    WhichAsset(String, String),
    /// Without the contract, a payment to its address would be lost.
    #[error(
        "this chain has no contract of Prism at {address}, so what is sent there would be lost; nothing was sent. A genesis \
         of one's own must name it in `alloc` (docs/wallet.md has the code)",
        address = prism::ADDRESS
    )]
    NoContract,
    /// The node has no key of the account.
    #[error("the node does not sign for {0}: give its key with --evm-key FILE")]
    NotItsAccount(Address),
    /// The node dropped the transaction, so no block will include it.
    #[error("transaction {0:?} was dropped: {1}")]
    Dropped(B256, String),
    /// It is in no block yet.
    #[error("transaction {0:?} waits for more than a minute; ask for it with utxo_getTransaction")]
    Waiting(B256),
    /// More than there can be.
    #[error("{0} units of the native asset are more than one transfer can move")]
    TooMuch(U256),
    /// The outputs to spend are already being spent.
    #[error("a transaction of this key waits for more than a minute")]
    Busy,
    /// The contract reverted the call.
    #[error("transaction {0:?} was reverted: nothing has crossed")]
    Reverted(B256),
    /// The file of an EVM account's key.
    #[error("{}: {why}; expected 64 hexadecimal digits", path.display())]
    EvmKey {
        /// Path of the key file.
        path: PathBuf,
        /// Why it is invalid.
        why: String,
    },
    /// The key is another account's.
    #[error("the key in {} is that of {found}, not of {wanted}", path.display())]
    OtherAccount {
        /// Path of the key file.
        path: PathBuf,
        /// The address of that key.
        found: Address,
        /// The address that was expected.
        wanted: Address,
    },
}

impl ExitCode for WalletError {}

impl From<RpcError> for WalletError {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::Refused { message, .. } => Self::Refused(message),
            other => Self::Rpc(other),
        }
    }
}

/// Runs a wallet command.
pub fn run(command: &Command, say: &CommandOutput) -> Result<(), WalletError> {
    match command {
        Command::New { path } => {
            say.line(OwnerKey(keys::create(path)?.public));
            Ok(())
        }
        Command::Address { path } => {
            say.line(OwnerKey(keys::read(path)?.public));
            Ok(())
        }
        Command::Balance { address, key, node } => {
            let owner = match (address, key) {
                (Some(address), _) => *address,
                (None, Some(path)) => OwnerKey(keys::read(path)?.public),
                (None, None) => unreachable!("the command line asks for one of them"),
            };
            balance(&mut Node::at(&node.url)?, &owner, say)
        }
        Command::Send { to, amount, asset, memo, payer } => {
            let mut purse = Purse::open(payer)?;
            let asset = purse.asset(asset)?;
            let amount = positive(amount, purse.decimals(&asset)?)?;
            if memo.len() > MEMO_MAX {
                return Err(WalletError::Memo(memo.len()));
            }
            let memo = memo.as_bytes().to_vec().into();
            let outputs = vec![Output { asset, amount, owner: *to, memo }];
            let raw = purse.builder(outputs, Action::Transfer).build()?;
            purse.send(&raw, say)
        }
        Command::Issue { code, amount, decimals, open, payer } => {
            let mut purse = Purse::open(payer)?;
            let raw = match code.parse::<AssetId>() {
                Ok(id) => purse.issue_more(id, amount)?,
                Err(_) => purse.issue(code, amount, *decimals, *open, say)?,
            };
            purse.send(&raw, say)
        }
        Command::Prism { amount, to: Some(recipient), payer, .. } => {
            let mut purse = Purse::open(payer)?;
            let raw = purse.prism(*recipient, positive(amount, NATIVE_DECIMALS)?)?;
            purse.send(&raw, say)
        }
        Command::Prism { amount, to: None, from, evm_key, payer } => {
            from_evm(positive(amount, NATIVE_DECIMALS)?, *from, evm_key.as_deref(), payer, say)
        }
    }
}

fn positive(text: &str, decimals: u8) -> Result<u64, WalletError> {
    Some(amount::parse(text, decimals)?).filter(|amount| *amount > 0).ok_or(WalletError::Nothing)
}

fn balance(node: &mut Node, owner: &OwnerKey, say: &CommandOutput) -> Result<(), WalletError> {
    let balances = node.balances(owner)?;
    if balances.is_empty() {
        say.line("nothing");
    }
    for balance in balances {
        let units = balance.amount.saturating_to::<u128>();
        let decimals = balance.decimals.saturating_to::<u8>().min(amount::DECIMALS_MAX);
        let places = if balance.outputs.to::<u64>() == 1 { "output" } else { "outputs" };
        let amount = amount::format(units, decimals);
        let id = if balance.asset == "native" { String::new() } else { format!("{}, ", balance.asset) };
        say.line(format_args!("{amount} {} ({id}{} {places})", balance.code, balance.outputs));
    }
    Ok(())
}

/// A key, its node, and the outputs that it may spend there.
pub struct Purse {
    node: Node,
    key: SigningKey,
    available: Vec<(hearth_utxo::OutPoint, Output)>,
    wait: bool,
}

impl Purse {
    fn open(payer: &Payer) -> Result<Self, WalletError> {
        let mut purse = Self::empty(&payer.key, &payer.node.url)?;
        (purse.available, _) = purse.node.outputs(&purse.owner())?;
        Ok(Self { wait: !payer.no_wait, ..purse })
    }

    /// A key's file, at the node of this RPC, when nothing of the key's is on its way any more.
    pub fn settled(key: &Path, rpc: &str) -> Result<Self, WalletError> {
        let mut purse = Self::empty(key, rpc)?;
        purse.available = purse.node.settled(&purse.owner())?;
        Ok(purse)
    }

    fn empty(key: &Path, rpc: &str) -> Result<Self, WalletError> {
        let identity = keys::read(key)?;
        Ok(Self {
            node: Node::at(rpc)?,
            key: SigningKey::from_seed(identity.keypair.seed()),
            available: vec![],
            wait: true,
        })
    }

    /// A transaction that takes units to an account of the EVM.
    pub fn prism(&self, recipient: Address, amount: u64) -> Result<Vec<u8>, WalletError> {
        Ok(self.builder(vec![], Action::Prism { recipient, amount }).build()?)
    }

    /// Address of the key.
    pub fn owner(&self) -> OwnerKey {
        OwnerKey(self.key.public_key())
    }

    /// The asset of that id, or the one of the owner's that has that name.
    fn asset(&mut self, named: &str) -> Result<AssetId, WalletError> {
        if let Ok(id) = named.parse() {
            return Ok(id);
        }
        let owner = self.owner();
        let issued: Vec<_> = self.node.balances(&owner)?.into_iter().filter(|one| one.asset != "native").collect();
        let ids: Vec<&str> = issued.iter().filter(|one| one.code == named).map(|one| one.asset.as_str()).collect();
        match ids[..] {
            [id] => id.parse().map_err(|why| WalletError::Answer("utxo_getBalances", why)),
            [] => {
                let names: Vec<_> = issued.iter().map(|one| one.code.as_str()).collect();
                let names = if names.is_empty() { "it has none".into() } else { names.join(", ") };
                Err(WalletError::UnknownAsset(named.into(), names))
            }
            _ => Err(WalletError::WhichAsset(named.into(), ids.join(", "))),
        }
    }

    fn decimals(&mut self, asset: &AssetId) -> Result<u8, WalletError> {
        if asset.is_native() {
            return Ok(NATIVE_DECIMALS);
        }
        let decimals = self.node.asset(asset)?.decimals.saturating_to::<u8>();
        Ok(decimals.min(amount::DECIMALS_MAX))
    }

    fn builder(&self, outputs: Vec<Output>, action: Action) -> Builder<'_> {
        Builder { chain_id: self.node.chain_id, key: &self.key, available: &self.available, outputs, action }
    }

    fn issue_more(&mut self, asset: AssetId, amount: &str) -> Result<Vec<u8>, WalletError> {
        let amount = positive(amount, self.decimals(&asset)?)?;
        let outputs = vec![Output { asset, amount, owner: self.owner(), memo: Default::default() }];
        Ok(self.builder(outputs, Action::IssueMore { asset, amount }).build()?)
    }

    fn issue(
        &self,
        code: &str,
        amount: &str,
        decimals: u8,
        open: bool,
        say: &CommandOutput,
    ) -> Result<Vec<u8>, WalletError> {
        if !asset::is_code(code) {
            return Err(WalletError::Code(code.into()));
        }
        let decimals = decimals.min(amount::DECIMALS_MAX);
        let amount = positive(amount, decimals)?;
        let action = Action::Issue { code: code.into(), decimals, open, issuer: self.owner(), amount };
        let raw = self.builder(vec![], action).issue(self.owner())?;
        let decoded = hearth_utxo::tx::decode(&raw, self.node.chain_id);
        if let Some(id) = decoded.ok().and_then(|tx| tx.new_asset()) {
            say.line(format_args!("asset {id}"));
        }
        Ok(raw)
    }

    /// Sends a transaction, and prints its block when it is in one.
    pub fn send(&mut self, raw: &[u8], say: &CommandOutput) -> Result<(), WalletError> {
        let id = self.node.send(raw)?;
        if !self.wait {
            say.line(format_args!("{id:?}"));
            return Ok(());
        }
        let block = self.node.landed(&id)?;
        say.line(format_args!("{id:?} in block {block}"));
        Ok(())
    }
}

/// Takes `amount` units from an account of the EVM, `evm_key`'s or one that the node signs for, to the payer's key.
fn from_evm(
    amount: u64,
    from: Option<Address>,
    evm_key: Option<&Path>,
    payer: &Payer,
    say: &CommandOutput,
) -> Result<(), WalletError> {
    let owner = OwnerKey(keys::read(&payer.key)?.public);
    let signer = evm_key.map(read_evm_key).transpose()?;
    let account = signer.as_ref().map(|signer| Address::from(signer.address()));
    if let (Some(path), Some(found), Some(wanted)) = (evm_key, account, from)
        && found != wanted
    {
        return Err(WalletError::OtherAccount { path: path.into(), found, wanted });
    }
    let mut node = Node::at(&payer.node.url)?;
    if node.code(prism::ADDRESS)? != *prism::CODE {
        return Err(WalletError::NoContract);
    }
    let hash = match (signer, from) {
        (Some(signer), _) => {
            let (nonce, price) = node.nonce_and_price(Address::from(signer.address()))?;
            node.send_evm(&hearth_evm_utxo::prism::call(node.chain_id, nonce, price, &owner, amount, &signer).raw)?
        }
        (None, Some(from)) => {
            if !node.accounts()?.contains(&from) {
                return Err(WalletError::NotItsAccount(from));
            }
            node.call_from(from, prism::ADDRESS, amount::to_wei(amount.into()), &prism::call_data(&owner))?
        }
        (None, None) => unreachable!("the command line asks for one of them"),
    };
    if payer.no_wait {
        say.line(format_args!("{hash:?}"));
        return Ok(());
    }
    let block = node.executed(&hash)?;
    say.line(format_args!("{hash:?} in block {block}"));
    Ok(())
}

fn read_evm_key(path: &Path) -> Result<hearth_crypto::secp256k1::Signer, WalletError> {
    let wrong = |why: String| WalletError::EvmKey { path: path.into(), why };
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?);
    let mut secret = Zeroizing::new([0; 32]);
    alloy_primitives::hex::decode_to_slice(text.trim(), &mut *secret).map_err(|error| wrong(error.to_string()))?;
    hearth_crypto::secp256k1::Signer::new(&secret).map_err(|error| wrong(error.to_string()))
}
