//! Unguessable numbers of filters and subscriptions.
//!
//! source  the hash function of the standard library under two keys of the system's randomness

use std::hash::{BuildHasher, RandomState};

/// Returns a new random number.
pub fn unguessable() -> [u8; 16] {
    let mut bytes = [0; 16];
    for half in bytes.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().hash_one(0_u8).to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_are_the_same() {
        let numbers: std::collections::HashSet<_> = (0..1_000).map(|_| super::unguessable()).collect();
        assert_eq!(numbers.len(), 1_000);
    }
}
