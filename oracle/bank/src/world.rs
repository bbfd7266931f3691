//! The keys of a ledger: the rich, the users, the validators. Every key is derived from the seed.

use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_sha256_hasher::hashv;
use solana_signer::Signer;

use crate::rng::Rng;

/// Lamports in a SOL.
pub const SOL: u64 = 1_000_000_000;

/// The keys of a validator that the genesis knows.
pub struct Validator {
    pub identity: Keypair,
    pub vote: Keypair,
    pub stake: Pubkey,
    /// The authority that signs votes: the identity, or for each third validator a key of its own.
    pub voter: Keypair,
    /// The authority that withdraws and sets commissions.
    pub withdrawer: Keypair,
}

/// The keys of a ledger.
pub struct World {
    seed: u64,
    made: u64,
    /// Pays for what others could not afford.
    pub mint: Keypair,
    pub users: Vec<Keypair>,
    pub validators: Vec<Validator>,
}

impl World {
    pub fn new(seed: u64, users: usize, validators: usize) -> Self {
        let named = |name: &str, n: usize| derive(seed, name, n as u64);
        let validator = |n: usize| Validator {
            identity: named("identity", n),
            vote: named("vote", n),
            stake: named("stake", n).pubkey(),
            voter: named(if n % 3 == 2 { "voter" } else { "identity" }, n),
            withdrawer: named("withdrawer", n),
        };
        Self {
            seed,
            made: 0,
            mint: named("mint", 0),
            users: (0..users).map(|n| named("user", n)).collect(),
            validators: (0..validators).map(validator).collect(),
        }
    }

    /// Makes a key that nobody has used.
    pub fn fresh(&mut self) -> Keypair {
        self.made += 1;
        derive(self.seed, "fresh", self.made)
    }

    /// Returns the addresses of `count` stake accounts of the genesis.
    pub fn extra_stakes(&self, count: usize) -> impl Iterator<Item = Pubkey> {
        let seed = self.seed;
        (0..count).map(move |n| Pubkey::new_from_array(digest(seed, "extra stake", n as u64).to_bytes()))
    }

    /// Returns the key of an address, if it is one of the named ones.
    pub fn key_of(&self, address: &Pubkey) -> Option<Keypair> {
        let known = self.users.iter().chain(std::iter::once(&self.mint));
        known.into_iter().find(|key| key.pubkey() == *address).map(Keypair::insecure_clone)
    }

    /// Returns one of the users.
    pub fn user(&self, rng: &mut Rng) -> Keypair {
        rng.pick(&self.users).insecure_clone()
    }

    /// Returns two users, which may be the same.
    pub fn pair(&self, rng: &mut Rng) -> (Keypair, Keypair) {
        (self.user(rng), self.user(rng))
    }
}

fn derive(seed: u64, name: &str, n: u64) -> Keypair {
    Keypair::new_from_array(digest(seed, name, n).to_bytes())
}

/// Returns a digest that depends on the seed, a name and a number.
pub fn digest(seed: u64, name: &str, n: u64) -> Hash {
    hashv(&[&seed.to_le_bytes(), name.as_bytes(), &n.to_le_bytes()])
}
