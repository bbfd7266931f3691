//! The hash of all accounts: a sum with one hash per account, so that a change costs two hashes, however many accounts
//! there are.
//!
//! reads   accounts
//! writes  the sum, and from it the hash of a bank
//! memory  2 KiB
//! source  `solana-lattice-hash` 4.2, `accounts_db.rs` of `solana-accounts-db` 4.2 (which fields of an account are
//!         hashed), `bank.rs` of `solana-runtime` 4.2 (the hash of a bank)

use hearth_crypto::sha256::sha256;
use hearth_wire::{Hash, Pubkey};

use crate::account::Account;

/// Number of 16-bit lanes.
const LANES: usize = 1024;

/// A sum of account hashes: 1,024 lanes of 16 bits, each modulo 2^16.
#[derive(Clone, PartialEq, Eq)]
pub struct Lattice(Box<[u16; LANES]>);

impl std::fmt::Debug for Lattice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lattice({})", hearth_wire::base58::encode_32(&self.checksum()))
    }
}

impl Default for Lattice {
    /// The sum over no accounts.
    fn default() -> Self {
        Self(Box::new([0; LANES]))
    }
}

impl Lattice {
    /// Adds an account; one without lamports adds nothing.
    pub fn add(&mut self, key: &Pubkey, account: &Account) {
        self.change(key, account, u16::wrapping_add);
    }

    /// Subtracts an account that was added.
    pub fn subtract(&mut self, key: &Pubkey, account: &Account) {
        self.change(key, account, u16::wrapping_sub);
    }

    /// Adds another sum, lane by lane.
    pub fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(lane, value)| *lane = lane.wrapping_add(*value));
    }

    /// Subtracts another sum, lane by lane.
    pub fn subtract_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(lane, value)| *lane = lane.wrapping_sub(*value));
    }

    #[inline]
    fn change(&mut self, key: &Pubkey, account: &Account, change: impl Fn(u16, u16) -> u16) {
        if account.lamports == 0 {
            return;
        }
        let mut bytes = [0; 2 * LANES];
        hash_account(key, account, &mut bytes);
        let values = bytes.as_chunks::<2>().0;
        self.0.iter_mut().zip(values).for_each(|(lane, value)| *lane = change(*lane, u16::from_le_bytes(*value)));
    }

    /// The lanes in little-endian order.
    pub fn to_bytes(&self) -> [u8; 2 * LANES] {
        let mut bytes = [0; 2 * LANES];
        bytes.as_chunks_mut::<2>().0.iter_mut().zip(self.0.iter()).for_each(|(to, lane)| *to = lane.to_le_bytes());
        bytes
    }

    /// The inverse of [`Lattice::to_bytes`]; `None` if the length is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let lanes = bytes.as_chunks::<2>().0.iter().map(|lane| u16::from_le_bytes(*lane));
        let lanes: Box<[u16]> = lanes.collect();
        (bytes.len() == 2 * LANES).then(|| Self(lanes.try_into().expect("so many lanes")))
    }

    /// A digest of the sum, 32 bytes.
    pub fn checksum(&self) -> Hash {
        *blake3::hash(&self.to_bytes()).as_bytes()
    }

    /// The hash of the bank with these accounts, over the parent bank's hash, the number of signatures in its block,
    /// and the hash of its last entry.
    pub fn bank_hash(&self, parent: &Hash, signatures: u64, blockhash: &Hash) -> Hash {
        let block = sha256(&[parent, &signatures.to_le_bytes(), blockhash]);
        sha256(&[&block, &self.to_bytes()])
    }
}

/// A digest of an account: the first 32 of its 2,048 bytes in the sum. All zero if it has no lamports.
pub fn account_hash(key: &Pubkey, account: &Account) -> Hash {
    match account.lamports {
        0 => [0; 32],
        _ => *hasher(key, account).finalize().as_bytes(),
    }
}

/// Expands an account's hash to 2,048 bytes.
fn hash_account(key: &Pubkey, account: &Account, into: &mut [u8; 2 * LANES]) {
    hasher(key, account).finalize_xof().fill(into);
}

fn hasher(key: &Pubkey, account: &Account) -> blake3::Hasher {
    /// Accounts up to this size are hashed from one buffer; token and stake accounts are.
    const SMALL: usize = 200;
    let data = account.data();
    let mut hasher = blake3::Hasher::new();
    let mut buffer = [0; 8 + SMALL + 1 + 32 + 32];
    buffer[..8].copy_from_slice(&account.lamports.to_le_bytes());
    let mut at = 8;
    if data.len() <= SMALL {
        buffer[at..at + data.len()].copy_from_slice(data);
        at += data.len();
    } else {
        hasher.update(&buffer[..at]);
        hasher.update(data);
        at = 0;
    }
    buffer[at] = account.executable.into();
    buffer[at + 1..at + 33].copy_from_slice(&account.owner);
    buffer[at + 33..at + 65].copy_from_slice(key);
    hasher.update(&buffer[..at + 65]);
    hasher
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: usize) -> (Pubkey, Account) {
        let data: Vec<u8> = (0..n).map(|at| (at * 7 + n) as u8).collect();
        let mut account = Account::with_data(1 + n as u64, [n as u8; 32], &data);
        account.executable = n % 2 == 1;
        ([n as u8 ^ 0x55; 32], account)
    }

    #[test]
    fn equals_the_cluster_s_own() {
        use solana_lattice_hash::lt_hash::LtHash;
        let (mut ours, mut theirs) = (Lattice::default(), LtHash::identity());
        for n in [0, 1, 2, 165, 199, 200, 201, 202, 1023, 4096, 131_097] {
            let (key, account) = sample(n);
            let mut hasher = blake3::Hasher::new();
            hasher.update(&account.lamports.to_le_bytes()).update(account.data());
            hasher.update(&[account.executable.into()]).update(&account.owner).update(&key);
            theirs.mix_in(&LtHash::with(&hasher));
            ours.add(&key, &account);
            assert_eq!((&theirs.0, theirs.checksum().0), (&*ours.0, ours.checksum()), "{n} bytes");
        }
        let (key, account) = sample(165);
        ours.subtract(&key, &account);
        assert_ne!(theirs.0, *ours.0);
        ours.add(&key, &account);
        assert_eq!(theirs.0, *ours.0);
    }

    #[test]
    fn an_account_without_lamports_is_none() {
        let mut lattice = Lattice::default();
        lattice.add(&[1; 32], &Account::with_data(0, [1; 32], b"data"));
        assert_eq!(lattice, Lattice::default());
    }
}
