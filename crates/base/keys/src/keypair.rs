//! A key pair whose secret half exists in one place in memory.
//!
//! reads   a seed, written in place by the caller
//! writes  signatures
//! memory  a locked page: `hearth_tile::sys::locked`
//! source  RFC 8032
//!
//! The seed and its expansion are in one page that is locked, and excluded from core dumps and child processes; moving
//! a [`Keypair`] moves a pointer. Expanding the seed copies it to the stack, which is wiped afterwards. Signing leaves
//! copies of the expansion, not of the seed, on the stack of the signing thread.

use std::io;

use hearth_crypto::ed25519::SigningKey;
use hearth_tile::sys::locked::{Locked, wipe_stack};

/// Contents of the locked page.
struct Secret {
    seed: [u8; 32],
    key: SigningKey,
}

/// A key has no locked page to be in.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot lock a page of memory for a key, so that it is never written to swap: {0}. Each key in use takes one page \
     (4 KiB on x86-64); `ulimit -l` shows how many KiB this user may lock. Raise it: 64 are enough for a node"
)]
pub struct LockError(io::Error);

/// An ed25519 key pair; wiped when dropped.
pub struct Keypair(Locked<Secret>);

impl Keypair {
    /// Creates the key pair of the seed that `fill` writes in place.
    ///
    /// # Errors
    /// No page can be locked, or `fill` fails.
    pub fn new<E: From<LockError>>(fill: impl FnOnce(&mut [u8; 32]) -> Result<(), E>) -> Result<Self, E> {
        // A key of no worth, in the place of the one to come.
        let seed = [0; 32];
        let mut secret = Locked::new(Secret { key: SigningKey::from_seed(&seed), seed }).map_err(LockError)?;
        let filled = fill_and_expand(&mut secret, fill);
        wipe_stack();
        filled.map(|()| Self(secret))
    }

    /// Creates the key pair of a seed of which the caller has a copy.
    ///
    /// # Errors
    /// No page can be locked.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, LockError> {
        Self::new(|place| {
            place.copy_from_slice(seed);
            Ok(())
        })
    }

    /// The secret seed, in the locked page.
    pub fn seed(&self) -> &[u8; 32] {
        &self.0.seed
    }

    /// The expanded signing key.
    pub fn key(&self) -> &SigningKey {
        &self.0.key
    }

    /// The public key, 32 bytes.
    pub fn public_key(&self) -> [u8; 32] {
        self.0.key.public_key()
    }

    /// A signature over a message.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.key.sign(message)
    }
}

/// Runs code that handles the secret in a stack frame of its own, which is wiped once it has returned.
#[inline(never)]
fn fill_and_expand<E>(secret: &mut Secret, fill: impl FnOnce(&mut [u8; 32]) -> Result<(), E>) -> Result<(), E> {
    fill(&mut secret.seed)?;
    secret.key = SigningKey::from_seed(&secret.seed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_pair_is_that_of_its_seed() {
        let pair = Keypair::from_seed(&[7; 32]).unwrap();
        let plain = SigningKey::from_seed(&[7; 32]);
        assert_eq!(pair.seed(), &[7; 32]);
        assert_eq!(pair.public_key(), plain.public_key());
        assert_eq!(pair.sign(b"message"), plain.sign(b"message"));
        let place = pair.seed().as_ptr();
        let moved = [pair];
        assert_eq!(moved[0].seed().as_ptr(), place, "the seed does not move");
        let failed = Keypair::new(|_| Err(LockError(io::Error::other("none"))));
        assert!(failed.is_err_and(|LockError(why)| why.to_string() == "none"));
    }
}
