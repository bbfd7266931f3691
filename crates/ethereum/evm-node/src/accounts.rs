//! The accounts of a development chain.
//!
//! reads   the mnemonic: from a file, the environment or the command line
//! writes  secret keys, known to anyone who knows the mnemonic
//! source  BIP-39 and BIP-32; the path is that of anvil, Hardhat and most wallets: m/44'/60'/0'/0/n

use std::fmt::Write;
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, U256, hex};
use bip39::Language;
use clap::Args;
use hearth_command::secrets;
use hearth_crypto::secp256k1::{NoSecret, Signer};
use hmac::{Hmac, Mac};
use sha2::Sha512;
use zeroize::Zeroizing;

use super::EvmError;

/// The variable with the words if no option gives them: only this user's processes can read it.
pub const VARIABLE: &str = "HEARTH_MNEMONIC";

/// The words that development chains use by custom.
const MNEMONIC: &str = "test test test test test test test test test test test junk";
/// Each account's number comes after it.
const PATH: &str = "m/44'/60'/0'/0";

/// The place of the accounts' words.
#[derive(Args)]
pub struct MnemonicOptions {
    /// The words (BIP-39) that the accounts follow from [default: `test test … junk`, which development chains share].
    ///
    /// Every user of this machine can read a command line. Give words of your own by --mnemonic-file, or in the
    /// variable HEARTH_MNEMONIC: neither they nor their keys are printed.
    #[arg(long, value_name = "WORDS")]
    pub mnemonic: Option<String>,
    /// Read the words from this file.
    #[arg(long, value_name = "FILE", conflicts_with = "mnemonic")]
    pub mnemonic_file: Option<PathBuf>,
}

/// The words of the accounts.
pub struct Mnemonic(Zeroizing<String>);

impl MnemonicOptions {
    /// Returns the mnemonic of the options or the environment, or else the well-known development one.
    pub fn words(&self) -> Result<Mnemonic, EvmError> {
        let words = match (&self.mnemonic_file, &self.mnemonic) {
            (Some(path), _) => Mnemonic::of_file(path)?,
            (None, Some(words)) => Mnemonic::of("--mnemonic", words)?,
            (None, None) => match std::env::var(VARIABLE).map(Zeroizing::new) {
                Ok(words) if !words.trim().is_empty() => Mnemonic::of(VARIABLE, &words)?,
                Err(std::env::VarError::NotUnicode(_)) => {
                    return Err(EvmError::Mnemonic { from: VARIABLE.into(), what: "it is not text".into() });
                }
                _ => Mnemonic::of("--mnemonic", MNEMONIC)?,
            },
        };
        if let (Some(given), false) = (&self.mnemonic, words.are_public()) {
            let instead = "by --mnemonic-file, or in the variable HEARTH_MNEMONIC";
            secrets::warn_of_arguments("--mnemonic", given, instead);
        }
        Ok(words)
    }
}

impl Mnemonic {
    fn of(source: &str, text: &str) -> Result<Self, EvmError> {
        let words = Zeroizing::new(text.split_whitespace().collect::<Vec<_>>().join(" "));
        match bip39::Mnemonic::parse_in(Language::English, &*words) {
            Ok(_) => Ok(Self(words)),
            Err(error) => Err(EvmError::Mnemonic { from: source.into(), what: in_words(&error) }),
        }
    }

    fn of_file(path: &Path) -> Result<Self, EvmError> {
        let failed = |what: String| EvmError::File { option: "--mnemonic-file", path: path.to_owned(), what };
        let text = std::fs::read_to_string(path).map(Zeroizing::new).map_err(|error| failed(error.to_string()))?;
        let words = Self::of(&format!("--mnemonic-file {}", path.display()), &text)?;
        secrets::warn_of_permissions(path);
        Ok(words)
    }

    /// Whether the mnemonic is the well-known one.
    pub fn are_public(&self) -> bool {
        *self.0 == MNEMONIC
    }

    /// The mnemonic itself, which must not be shown unless it is public.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Explains an error in a mnemonic; words are counted from 1.
fn in_words(error: &bip39::Error) -> String {
    match error {
        bip39::Error::UnknownWord(index) => format!("word {} is not in the English list of BIP-39", index + 1),
        other => other.to_string(),
    }
}

/// An account and its key.
pub struct DevAccount {
    /// Address of the account.
    pub address: Address,
    /// The secret key on secp256k1.
    pub key: [u8; 32],
}

/// The first `count` accounts of `words`.
pub fn derive(words: &Mnemonic, count: u32) -> Result<Vec<DevAccount>, EvmError> {
    let wrong = |what: String| EvmError::Mnemonic { from: "the words of the accounts".into(), what };
    let mnemonic =
        bip39::Mnemonic::parse_in(Language::English, words.text()).map_err(|error| wrong(in_words(&error)))?;
    let unlucky = |_: NoSecret| wrong("a key that follows from them is none".into());
    let mut parent = ExtendedKey::root(&mnemonic.to_seed("")).map_err(unlucky)?;
    for index in [HARDENED | 44, HARDENED | 60, HARDENED, 0] {
        parent = parent.child(index).map_err(unlucky)?;
    }
    let account = |number| {
        let ExtendedKey { signer, .. } = parent.child(number).map_err(unlucky)?;
        Ok(DevAccount { address: Address::from(signer.address()), key: signer.secret() })
    };
    (0..count).map(account).collect()
}

/// From this index on a child follows from its parent's secret key, not from the public one.
const HARDENED: u32 = 1 << 31;

/// BIP-32's extended key. A derived child is invalid with probability 2^-127.
struct ExtendedKey {
    signer: Signer,
    chain_code: [u8; 32],
}

impl ExtendedKey {
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

/// HMAC-SHA-512, split into halves.
fn halves(key: &[u8], parts: &[&[u8]]) -> ([u8; 32], [u8; 32]) {
    let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("it takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    let bytes = mac.finalize().into_bytes();
    let half = |at: usize| std::array::from_fn(|i| bytes[at + i]);
    (half(0), half(32))
}

/// Lists accounts as anvil and Hardhat do; for a private mnemonic, only the addresses.
pub fn listing(accounts: &[DevAccount], balance: U256, words: &Mnemonic) -> String {
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
    if !words.are_public() {
        text += "\nThe keys follow from words of your own and are not shown. The node signs for these accounts,\n";
        text += "for everybody who reaches it.\n\n";
        return text;
    }
    text += "\nPrivate Keys\n==================\n\n";
    for (number, account) in accounts.iter().enumerate() {
        let _ = writeln!(text, "({number}) 0x{}", hex::encode(account.key));
    }
    let words = words.text();
    let _ = write!(text, "\nWallet\n==================\nMnemonic:          {words}\nDerivation path:   {PATH}/\n");
    text += "\nEverybody knows these keys: on a real network, whatever is sent there is lost.\n\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounts_are_those_of_anvil_and_hardhat() {
        let words = Mnemonic::of("--mnemonic", MNEMONIC).expect("they are words");
        let accounts = derive(&words, 10).expect("they are words");
        let first = ["0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"];
        assert_eq!(accounts[0].address.to_string(), first[0]);
        assert_eq!(accounts[1].address.to_string(), first[1]);
        assert_eq!(accounts[9].address.to_string(), "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720");
        let key = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        assert_eq!(hex::encode(accounts[0].key), key);
        let text = listing(&accounts, U256::from(25u128 * 10u128.pow(17)), &words);
        assert!(text.contains(&format!("(0) {} (2.5 ETH)", first[0])), "{text}");
        assert!(text.contains(&format!("(0) 0x{key}")));
    }

    #[test]
    fn an_unknown_word_is_counted_from_one() {
        let wrong = MNEMONIC.split(' ').take(11).chain(["junks"]).collect::<Vec<_>>().join(" ");
        let said = Mnemonic::of("--mnemonic", &wrong).err().expect("the last word is none").to_string();
        assert!(said.contains("word 12 is not in the English list"), "{said}");
    }

    #[test]
    fn wrong_words_are_refused() {
        for words in ["", "test", "test test test test test test test test test test test test", "hello world"] {
            assert!(Mnemonic::of("--mnemonic", words).is_err(), "{words}");
        }
    }

    #[test]
    fn own_words_and_keys_are_never_shown() {
        let own = "legal winner thank year wave sausage worth useful legal winner thank yellow";
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), format!("  {}\n", own.replace(' ', "\n "))).expect("written");
        let options = MnemonicOptions { mnemonic: None, mnemonic_file: Some(file.path().into()) };
        let words = options.words().expect("they are words");
        assert_eq!((words.text(), words.are_public()), (own, false));
        let accounts = derive(&words, 2).expect("they are words");
        let text = listing(&accounts, U256::ZERO, &words);
        assert!(accounts.iter().all(|account| text.contains(&account.address.to_string())), "{text}");
        assert!(accounts.iter().all(|account| !text.contains(&hex::encode(account.key))), "{text}");
        assert!(!text.contains("legal") && !text.contains("Everybody knows"), "{text}");
        let missing = MnemonicOptions { mnemonic: None, mnemonic_file: Some(file.path().join("none")) };
        let error = missing.words().err().expect("it is not there").to_string();
        assert!(error.starts_with("--mnemonic-file "), "{error}");
    }

    #[test]
    fn the_shared_words_are_public_however_they_are_spaced() {
        let spaced = format!(" {}\n", MNEMONIC.replace(' ', "  "));
        assert!(Mnemonic::of("--mnemonic", &spaced).expect("they are words").are_public());
    }
}
