//! The transactions that a load sends: builds and signs them.
//!
//! reads   a sender's key and nonce
//! writes  raw EIP-1559 transactions
//! memory  a transaction
//! source  EIP-1559; ERC-20

use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use hearth_crypto::secp256k1::{self, Signer};

use crate::tx_mix::TxKinds;

/// The action of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One wei to another account of the load.
    Transfer,
    /// One unit of an ERC-20 token to another account of the load.
    Erc20,
    /// One in sixteen creates a contract; the others call one, each sender in a slot of its own.
    Contract,
    /// A swap in a pool of two tokens, the same for all senders.
    Swap,
}

impl Kind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Transfer, Self::Erc20, Self::Contract, Self::Swap];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Erc20 => "erc20",
            Self::Contract => "contract",
            Self::Swap => "swap",
        }
    }

    /// Returns an upper bound on the mean gas of one transaction.
    pub fn gas(self) -> u64 {
        match self {
            Self::Transfer => TRANSFER_GAS,
            Self::Erc20 => ERC20_GAS,
            Self::Contract => (CREATE_GAS + (CREATE_EVERY - 1) * STORE_GAS).div_ceil(CREATE_EVERY),
            Self::Swap => SWAP_GAS,
        }
    }
}

impl TxKinds for Kind {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }
}

/// The mix of kinds that a load on Ethereum sends.
pub type Mix = crate::tx_mix::Mix<Kind>;

impl Mix {
    /// Returns an upper bound on the mean gas of one transaction.
    pub fn gas(&self) -> u64 {
        self.mean(Kind::gas)
    }
}

/// Gas of a plain transfer.
pub const TRANSFER_GAS: u64 = 21_000;
/// Above the gas of any ERC-20 transfer of `Token.sol`: a transfer to an account without tokens takes 51 thousand.
pub const ERC20_GAS: u64 = 65_000;
/// One in this many transactions of [`Kind::Contract`] creates a contract.
const CREATE_EVERY: u64 = 16;
/// Above the gas of creating `Store.sol`.
const CREATE_GAS: u64 = 160_000;
/// Above the gas of calling it: 45 thousand the first time.
const STORE_GAS: u64 = 60_000;
/// Above the gas of a swap in `Pool.sol`.
const SWAP_GAS: u64 = 130_000;

/// Fees and chain, the same for all transactions of a run.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Chain id that the transactions are signed for.
    pub chain_id: u64,
    /// Maximum fee per gas, in wei.
    pub max_fee: u128,
    /// Maximum tip per gas, in wei.
    pub tip: u128,
}

/// The most wei that [`Terms::of_one_run`] takes off the maximum fee.
const SALT_MAX: u128 = 1 << 20;

impl Terms {
    /// Returns these terms with a maximum fee lowered by a random amount of up to a thousandth. Transactions follow
    /// from accounts and nonces, so two loads with the same keys would otherwise send the same bytes, and each would
    /// count the other's as its own.
    pub fn of_one_run(self) -> Self {
        let most = SALT_MAX.min(self.max_fee / 1000);
        let max_fee = self.max_fee - fastrand::u128(..=most);
        Self { max_fee, tip: self.tip.min(max_fee), ..self }
    }
}

/// The contracts of a run. Those that its kinds do not need are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contracts {
    /// Address of the ERC-20 token.
    pub token: Address,
    /// The contract that [`Kind::Contract`] calls.
    pub store: Address,
    /// The pool that [`Kind::Swap`] calls.
    pub pool: Address,
}

/// The transactions to send.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The mix of kinds.
    pub mix: Mix,
    /// The contracts that they call.
    pub contracts: Contracts,
}

impl Workload {
    /// Builds the unsigned transaction of `from` with this nonce, to `to` if its kind has a recipient. It depends on
    /// nothing else.
    pub fn build(&self, terms: &Terms, nonce: u64, from: Address, to: Address) -> TxEip1559 {
        let Contracts { token, store, pool } = self.contracts;
        let number = scatter(from, nonce);
        match self.mix.pick(number) {
            Kind::Transfer => plain(terms, nonce, to, U256::from(1)),
            Kind::Erc20 => call(terms, nonce, token, ERC20_GAS, transfer_input(to)),
            Kind::Contract if (number >> 32) % CREATE_EVERY == 0 => create(terms, nonce, CREATE_GAS, code(STORE_CODE)),
            Kind::Contract => call(terms, nonce, store, STORE_GAS, input("add(uint256)", &[U256::from(1)])),
            Kind::Swap => {
                let a_for_b = U256::from((number >> 32) & 1);
                call(terms, nonce, pool, SWAP_GAS, input("swap(bool,uint256)", &[a_for_b, U256::from(1_000_000)]))
            }
        }
    }
}

/// Hashes the account and the nonce into a number that looks random.
fn scatter(from: Address, nonce: u64) -> u64 {
    crate::tx_mix::scatter(u64::from_be_bytes(from[12..].try_into().expect("the last 8 of 20 bytes")), nonce)
}

/// Encodes a call: the function's selector, and its arguments of one word each.
fn input(function: &str, words: &[U256]) -> Bytes {
    let mut input = keccak256(function)[..4].to_vec();
    words.iter().for_each(|word| input.extend_from_slice(&word.to_be_bytes::<32>()));
    input.into()
}

/// Builds a plain transfer.
pub fn plain(terms: &Terms, nonce: u64, to: Address, value: U256) -> TxEip1559 {
    TxEip1559 { value, to: TxKind::Call(to), ..empty(terms, nonce, TRANSFER_GAS) }
}

/// Builds a contract call.
pub fn call(terms: &Terms, nonce: u64, contract: Address, gas_limit: u64, input: Bytes) -> TxEip1559 {
    TxEip1559 { to: TxKind::Call(contract), input, ..empty(terms, nonce, gas_limit) }
}

/// Builds a contract creation.
pub fn create(terms: &Terms, nonce: u64, gas_limit: u64, code: Bytes) -> TxEip1559 {
    TxEip1559 { to: TxKind::Create, input: code, ..empty(terms, nonce, gas_limit) }
}

fn empty(terms: &Terms, nonce: u64, gas_limit: u64) -> TxEip1559 {
    TxEip1559 {
        chain_id: terms.chain_id,
        nonce,
        gas_limit,
        max_fee_per_gas: terms.max_fee,
        max_priority_fee_per_gas: terms.tip,
        to: TxKind::Create,
        value: U256::ZERO,
        access_list: Default::default(),
        input: Bytes::new(),
    }
}

/// Signs a transaction; returns its serialized bytes and their hash.
pub fn sign(transaction: TxEip1559, signer: &Signer) -> (Vec<u8>, B256) {
    let signed = signer.sign(&transaction.signature_hash());
    with_signature(transaction, &signed)
}

/// Returns a transaction's serialized bytes with its signature, and their hash.
pub fn with_signature(transaction: TxEip1559, signed: &secp256k1::Signature) -> (Vec<u8>, B256) {
    let signature = Signature::new(U256::from_be_bytes(signed.r), U256::from_be_bytes(signed.s), signed.odd);
    let raw = transaction.into_signed(signature).encoded_2718();
    let hash = keccak256(&raw);
    (raw, hash)
}

/// Input of `transfer(to, 1)`.
fn transfer_input(to: Address) -> Bytes {
    input("transfer(address,uint256)", &[to.into_word().into(), U256::from(1)])
}

/// Input of `mint(address[] to, uint256 amount)`: `amount` for each.
pub fn mint_input(to: &[Address], amount: U256) -> Bytes {
    let selector = keccak256("mint(address[],uint256)");
    let mut input = selector[..4].to_vec();
    input.extend_from_slice(&U256::from(64).to_be_bytes::<32>());
    input.extend_from_slice(&amount.to_be_bytes::<32>());
    input.extend_from_slice(&U256::from(to.len()).to_be_bytes::<32>());
    to.iter().for_each(|account| input.extend_from_slice(account.into_word().as_slice()));
    input.into()
}

/// Decodes creation code from hexadecimal digits.
pub fn code(digits: &str) -> Bytes {
    digits.trim().parse().expect("hexadecimal, by the test below")
}

/// Creation code as hexadecimal digits: `contracts/Token.sol`, `Store.sol` and `Pool.sol` as solc compiles them.
pub const TOKEN_CODE: &str = include_str!("contracts/Token.hex");
/// Creation code of `contracts/Store.sol`, as [`TOKEN_CODE`].
pub const STORE_CODE: &str = include_str!("contracts/Store.hex");
/// Creation code of `contracts/Pool.sol`, as [`TOKEN_CODE`].
pub const POOL_CODE: &str = include_str!("contracts/Pool.hex");

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms { chain_id: 31337, max_fee: 2_000_000_000, tip: 1_000_000_000 };

    #[test]
    fn two_runs_send_other_bytes() {
        let terms = Terms { chain_id: 1, max_fee: 2_000_000_000, tip: 2_000_000_000 };
        let signer = crate::account::generate(1).unwrap().remove(0);
        let hash = |terms: Terms| sign(plain(&terms, 7, Address::ZERO, U256::ONE), &signer).1;
        let runs: Vec<Terms> = (0..8).map(|_| terms.of_one_run()).collect();
        assert!(runs.iter().all(|run| run.tip <= run.max_fee && run.max_fee * 1000 >= terms.max_fee * 999));
        let hashes: std::collections::HashSet<_> = runs.iter().map(|run| hash(*run)).collect();
        // Two of a million numbers rarely coincide.
        assert!(hashes.len() >= 7, "{runs:?}");
        assert_eq!(hash(runs[0]), hash(runs[0]), "what a run signs again is the same");
    }

    #[test]
    fn the_signature_is_the_senders() {
        let signer = Signer::new(&[7; 32]).unwrap();
        let (raw, hash) = sign(plain(&TERMS, 3, Address::repeat_byte(9), U256::from(1)), &signer);
        use alloy_consensus::{EthereumTxEnvelope, Transaction, TxEip4844};
        use alloy_eips::eip2718::Decodable2718;
        let back = EthereumTxEnvelope::<TxEip4844>::decode_2718(&mut &raw[..]).unwrap();
        assert_eq!((back.nonce(), back.chain_id(), *back.tx_hash()), (3, Some(31337), hash));
        let EthereumTxEnvelope::Eip1559(signed) = back else { panic!("another type") };
        let (r, s) = (signed.signature().r(), signed.signature().s());
        let item = hearth_crypto::secp256k1::RecoverItem {
            hash: signed.signature_hash().0,
            r: r.to_be_bytes(),
            s: s.to_be_bytes(),
            odd: signed.signature().v(),
        };
        use hearth_crypto::secp256k1::{Arithmetic, HighS, Recoverer};
        let key = Recoverer::new(Arithmetic::Portable).recover(&item, HighS::Refuse).unwrap();
        assert_eq!(&key, signer.public_key());
    }

    #[test]
    fn calls_are_encoded_as_solidity_does() {
        let to = [Address::repeat_byte(1), Address::repeat_byte(2)];
        let input = mint_input(&to, U256::from(5));
        assert_eq!(input.len(), 4 + 32 * 5);
        assert_eq!(input[4 + 31], 64, "where the list begins");
        assert_eq!(input[4 + 32 * 2 + 31], 2, "its length");
        assert_eq!(&keccak256("transfer(address,uint256)")[..4], &transfer_input(to[0])[..4]);
        assert_eq!(input[..4], keccak256("mint(address[],uint256)")[..4]);
        assert!([TOKEN_CODE, STORE_CODE, POOL_CODE].map(|digits| code(digits).len()).iter().all(|size| *size > 300));
    }

    #[test]
    fn kinds_come_by_their_weights_and_the_same_again() {
        let mix: Mix = "transfer=3, swap=1".parse().unwrap();
        assert_eq!((mix.to_string().as_str(), mix.has(Kind::Erc20)), ("transfer=3,swap=1", false));
        assert_eq!(mix.gas(), (3 * TRANSFER_GAS + SWAP_GAS).div_ceil(4));
        let workload = Workload { mix, contracts: Contracts { pool: Address::repeat_byte(5), ..Contracts::default() } };
        let (from, to) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let build = |nonce| workload.build(&TERMS, nonce, from, to);
        let swaps = (0..4000).filter(|&nonce| build(nonce).gas_limit == SWAP_GAS).count();
        assert!((900..1100).contains(&swaps), "{swaps}");
        assert_eq!(build(17), build(17));
        let contracts = Workload { mix: Kind::Contract.into(), contracts: Contracts::default() };
        let created = (0..1600).filter(|&nonce| contracts.build(&TERMS, nonce, from, to).to.is_create()).count();
        assert!((60..140).contains(&created), "{created}");
        for wrong in ["", "transfer=0", "transfers", "swap,swap", "swap=x"] {
            let why = wrong.parse::<Mix>().unwrap_err().to_string();
            assert!(why.starts_with(&format!("`{wrong}` is not a kind: expected transfer, erc20")), "{why}");
        }
    }
}
