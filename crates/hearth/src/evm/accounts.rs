//! The accounts of a development chain.
//!
//! reads   words
//! writes  secret keys, which everybody has who has the words
//! source  BIP-39 and BIP-32; the path is that of anvil, Hardhat and most wallets: m/44'/60'/0'/0/n

use std::fmt::Write;

use alloy_primitives::{Address, U256, hex};
use bip39::{Language, Mnemonic};
use hearth_crypto::secp256k1::{NoSecret, Signer};
use hmac::{Hmac, Mac};
use sha2::Sha512;

use super::EvmError;

/// The words that development chains use by custom.
pub const MNEMONIC: &str = "test test test test test test test test test test test junk";
/// Each account's number comes after it.
const PATH: &str = "m/44'/60'/0'/0";

/// An account and its key.
pub struct DevAccount {
    /// Where it is.
    pub address: Address,
    /// The secret key.
    pub key: [u8; 32],
}

/// The first `count` accounts of `words`.
pub fn derive(words: &str, count: u32) -> Result<Vec<DevAccount>, EvmError> {
    let mnemonic =
        Mnemonic::parse_in(Language::English, words).map_err(|error| EvmError::Mnemonic(error.to_string()))?;
    let unlucky = |_: NoSecret| EvmError::Mnemonic("a key that follows from these words is none".into());
    let mut parent = Extended::root(&mnemonic.to_seed("")).map_err(unlucky)?;
    for index in [HARDENED | 44, HARDENED | 60, HARDENED, 0] {
        parent = parent.child(index).map_err(unlucky)?;
    }
    let account = |number| {
        let Extended { signer, .. } = parent.child(number).map_err(unlucky)?;
        Ok(DevAccount { address: Address::from(signer.address()), key: signer.secret() })
    };
    (0..count).map(account).collect()
}

/// From this index on a child follows from its parent's secret key, not from the public one.
const HARDENED: u32 = 1 << 31;

/// BIP-32's extended key. Once in 2^127 a child is none.
struct Extended {
    signer: Signer,
    chain_code: [u8; 32],
}

impl Extended {
    fn root(seed: &[u8]) -> Result<Self, NoSecret> {
        let (secret, chain_code) = halves(b"Bitcoin seed", &[seed]);
        Ok(Self { signer: Signer::new(&secret)?, chain_code })
    }

    fn child(&self, index: u32) -> Result<Self, NoSecret> {
        let (x, y) = self.signer.public_key().split_at(32);
        // Compressed: the parity of y, and x.
        let public = [&[2 + (y[31] & 1)], x].concat();
        let secret = self.signer.secret();
        let parts: [&[u8]; 3] = match index >= HARDENED {
            true => [&[0], &secret, &index.to_be_bytes()],
            false => [&[], &public, &index.to_be_bytes()],
        };
        let (tweak, chain_code) = halves(&self.chain_code, &parts);
        Ok(Self { signer: self.signer.tweaked(&tweak)?, chain_code })
    }
}

/// HMAC-SHA-512, in halves.
fn halves(key: &[u8], parts: &[&[u8]]) -> ([u8; 32], [u8; 32]) {
    let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("it takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    let bytes = mac.finalize().into_bytes();
    let half = |at: usize| std::array::from_fn(|i| bytes[at + i]);
    (half(0), half(32))
}

/// What anvil and Hardhat print of them.
pub fn listing(accounts: &[DevAccount], balance: U256, words: &str) -> String {
    let mut text = String::from("\nAvailable Accounts\n==================\n\n");
    let wei = U256::from(10u128.pow(18));
    let (whole, rest) = balance.div_rem(wei);
    let amount = match rest.is_zero() {
        true => whole.to_string(),
        false => format!("{whole}.{}", format!("{:0>18}", rest.to_string()).trim_end_matches('0')),
    };
    for (number, account) in accounts.iter().enumerate() {
        let _ = writeln!(text, "({number}) {} ({amount} ETH)", account.address);
    }
    text += "\nPrivate Keys\n==================\n\n";
    for (number, account) in accounts.iter().enumerate() {
        let _ = writeln!(text, "({number}) 0x{}", hex::encode(account.key));
    }
    let _ = write!(text, "\nWallet\n==================\nMnemonic:          {words}\nDerivation path:   {PATH}/\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounts_are_those_of_anvil_and_hardhat() {
        let accounts = derive(MNEMONIC, 10).expect("they are words");
        let first = ["0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"];
        assert_eq!(accounts[0].address.to_string(), first[0]);
        assert_eq!(accounts[1].address.to_string(), first[1]);
        assert_eq!(accounts[9].address.to_string(), "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720");
        let key = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        assert_eq!(hex::encode(accounts[0].key), key);
        let text = listing(&accounts, U256::from(25u128 * 10u128.pow(17)), MNEMONIC);
        assert!(text.contains(&format!("(0) {} (2.5 ETH)", first[0])), "{text}");
        assert!(text.contains(&format!("(0) 0x{key}")));
    }

    #[test]
    fn wrong_words_are_told() {
        for words in ["", "test", "test test test test test test test test test test test test", "hello world"] {
            assert!(derive(words, 1).is_err(), "{words}");
        }
    }
}
