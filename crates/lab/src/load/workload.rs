//! What a load sends: built, and signed.
//!
//! reads   a sender's key and nonce
//! writes  raw transactions of EIP-1559
//! memory  a transaction
//! source  EIP-1559; ERC-20

use std::fmt;

use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use hearth_crypto::secp256k1::Signer;

/// What one transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One wei to another account of the load.
    Transfer,
    /// One unit of an ERC-20 token to another account of the load.
    Erc20,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Transfer => "transfer",
            Self::Erc20 => "erc20",
        })
    }
}

/// The gas of a plain transfer.
pub const TRANSFER_GAS: u64 = 21_000;
/// More gas than any ERC-20 transfer of [`TOKEN_CODE`] uses: one to an account that had none takes 51 thousand.
pub const ERC20_GAS: u64 = 65_000;

/// Fees and chain, the same for all transactions of a run.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The chain's id.
    pub chain_id: u64,
    /// The most wei for a unit of gas.
    pub max_fee: u128,
    /// The tip, in wei for a unit of gas.
    pub tip: u128,
}

/// What is to be sent: a kind, and the token where one is needed.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// What each transaction does.
    pub kind: Kind,
    /// The token's contract; unused by transfers.
    pub token: Address,
}

impl Workload {
    /// The unsigned transaction from whom has `nonce` to `to`.
    pub fn build(&self, terms: &Terms, nonce: u64, to: Address) -> TxEip1559 {
        match self.kind {
            Kind::Transfer => plain(terms, nonce, to, U256::from(1)),
            Kind::Erc20 => call(terms, nonce, self.token, ERC20_GAS, transfer_input(to)),
        }
    }

    /// The most gas one takes.
    pub fn gas(&self) -> u64 {
        match self.kind {
            Kind::Transfer => TRANSFER_GAS,
            Kind::Erc20 => ERC20_GAS,
        }
    }
}

/// A plain transfer.
pub fn plain(terms: &Terms, nonce: u64, to: Address, value: U256) -> TxEip1559 {
    TxEip1559 { value, to: TxKind::Call(to), ..empty(terms, nonce, TRANSFER_GAS) }
}

/// A call of a contract.
pub fn call(terms: &Terms, nonce: u64, contract: Address, gas_limit: u64, input: Bytes) -> TxEip1559 {
    TxEip1559 { to: TxKind::Call(contract), input, ..empty(terms, nonce, gas_limit) }
}

/// The creation of a contract.
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

/// The bytes of a transaction as sent, and their hash.
pub fn sign(transaction: TxEip1559, signer: &Signer) -> (Vec<u8>, B256) {
    let signed = signer.sign(&transaction.signature_hash());
    let signature = Signature::new(U256::from_be_bytes(signed.r), U256::from_be_bytes(signed.s), signed.odd);
    let raw = transaction.into_signed(signature).encoded_2718();
    let hash = keccak256(&raw);
    (raw, hash)
}

/// `transfer(to, 1)`
fn transfer_input(to: Address) -> Bytes {
    let mut input = Vec::with_capacity(68);
    input.extend_from_slice(&[0xa9, 0x05, 0x9c, 0xbb]);
    input.extend_from_slice(to.into_word().as_slice());
    input.extend_from_slice(&U256::from(1).to_be_bytes::<32>());
    input.into()
}

/// `mint(address[] to, uint256 amount)`: so much for each.
pub fn mint_input(to: &[Address], amount: U256) -> Bytes {
    let selector = keccak256("mint(address[],uint256)");
    let mut input = selector[..4].to_vec();
    input.extend_from_slice(&U256::from(64).to_be_bytes::<32>());
    input.extend_from_slice(&amount.to_be_bytes::<32>());
    input.extend_from_slice(&U256::from(to.len()).to_be_bytes::<32>());
    to.iter().for_each(|account| input.extend_from_slice(account.into_word().as_slice()));
    input.into()
}

/// The token's creation code: `contracts/Token.sol` as solc compiles it.
pub fn token_code() -> Bytes {
    TOKEN_CODE.trim().parse().expect("hexadecimal, by the test below")
}

/// As hexadecimal digits.
pub const TOKEN_CODE: &str = include_str!("contracts/Token.hex");

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms { chain_id: 31337, max_fee: 2_000_000_000, tip: 1_000_000_000 };

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
        assert!(token_code().len() > 500);
    }
}
