//! The lanes of [`super::BurstSigner`].
//!
//! reads   secret keys, hashes
//! writes  signatures
//! memory  as [`OctetSums`]; 64 B for each of a burst up to 128
//! source  SEC 1 §4.1.3; RFC 6979, §3.2; HMAC: RFC 2104

use super::modular::{ORDER, add, bytes_of, is_high, sub, words_of};
use super::octets::OctetSums;
use super::table::GENERATOR;
use super::{SignItem, Signature};
use crate::sha256::Sha256State;

/// Signatures that share one inversion.
const TOGETHER: usize = 128;
/// The constant c of k·G = (k − c)·G + c·G: the first digits of π, below the group's order.
const SPLIT: [u64; 4] = [0x082e_fa98_ec4e_6c89, 0xa409_3822_299f_31d0, 0x1319_8a2e_0370_7344, 0x243f_6a88_85a3_08d3];

/// Eight signatures at a time.
pub(super) struct SignLanes {
    sums: OctetSums,
    inverses: Vec<[u64; 4]>,
}

impl SignLanes {
    /// Returns `None` if the processor lacks the lanes' instructions.
    pub(super) fn new() -> Option<Self> {
        Some(Self { sums: OctetSums::new()?, inverses: Vec::new() })
    }

    /// Appends the signature of each item.
    pub(super) fn sign(&mut self, items: &[SignItem<'_>], signatures: &mut Vec<Signature>) {
        for items in items.chunks(TOGETHER) {
            let nonces: Option<Vec<[u64; 4]>> =
                items.iter().map(|item| nonce(&item.signer.secret(), &item.hash)).collect();
            let Some(nonces) = nonces else {
                // A first nonce outside the group's order, with probability 2^-128.
                signatures.extend(items.iter().map(|item| item.signer.sign(&item.hash)));
                continue;
            };
            self.sign_with(items, &nonces, signatures);
        }
    }

    fn sign_with(&mut self, items: &[SignItem<'_>], nonces: &[[u64; 4]], signatures: &mut Vec<Signature>) {
        ORDER.invert_all(nonces.iter(), &mut self.inverses);
        let (sums, points) = self.sums.compute(items.len(), |at, octet, lane| {
            octet.set(lane, &GENERATOR[0], false, &difference(&nonces[at], &SPLIT), &SPLIT);
        });
        for (at, (item, inverse)) in items.iter().zip(&self.inverses).enumerate() {
            let (octet, lane) = (at / 8, at % 8);
            let is_unknown = (sums[octet].unknown | sums[octet].off_curve) >> lane & 1 == 1;
            let signature = if is_unknown { None } else { signature(item, inverse, &points[octet][lane]) };
            signatures.push(signature.unwrap_or_else(|| item.signer.sign(&item.hash)));
        }
    }
}

/// The signature with the nonce whose inverse and whose point these are; `None` where the nonce is of no use, with
/// probability 2^-128.
fn signature(item: &SignItem<'_>, inverse: &[u64; 4], [x, y]: &[[u64; 4]; 2]) -> Option<Signature> {
    if *x == [0; 4] || !ORDER.contains(x) {
        return None;
    }
    let (z, secret) = (ORDER.reduce(words_of(&item.hash)), words_of(&item.signer.secret()));
    let s = ORDER.mul(inverse, &sum(&z, &ORDER.mul(x, &secret)));
    if s == [0; 4] {
        return None;
    }
    let (is_odd, is_flipped) = (y[0] & 1 == 1, is_high(&s));
    let s = if is_flipped { ORDER.negate(&s) } else { s };
    Some(Signature { r: bytes_of(x), s: bytes_of(&s), odd: is_odd != is_flipped })
}

/// a − b modulo n; b is not 0.
fn difference(a: &[u64; 4], b: &[u64; 4]) -> [u64; 4] {
    if a.iter().rev().ge(b.iter().rev()) { sub(a, b) } else { add(a, &ORDER.negate(b)) }
}

/// a + b modulo n.
fn sum(a: &[u64; 4], b: &[u64; 4]) -> [u64; 4] {
    if *b == [0; 4] { *a } else { difference(a, &ORDER.negate(b)) }
}

/// The first nonce of RFC 6979, as libsecp256k1 computes it; `None` if it is 0 or not below the group's order.
fn nonce(secret: &[u8; 32], hash: &[u8; 32]) -> Option<[u64; 4]> {
    let z = bytes_of(&ORDER.reduce(words_of(hash)));
    let (mut key, mut value) = ([0u8; 32], [1u8; 32]);
    for round in [0, 1] {
        let mut message = [0u8; 97];
        message[..32].copy_from_slice(&value);
        message[32] = round;
        message[33..65].copy_from_slice(secret);
        message[65..].copy_from_slice(&z);
        key = hmac(&key, &message);
        value = hmac(&key, &value);
    }
    let nonce = words_of(&hmac(&key, &value));
    (nonce != [0; 4] && ORDER.contains(&nonce)).then_some(nonce)
}

fn hmac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let keyed = |pad: u8| {
        let mut state = Sha256State::new();
        let block: [u8; 64] = std::array::from_fn(|i| pad ^ key.get(i).copied().unwrap_or_default());
        state.absorb(&block);
        state
    };
    keyed(0x5c).finish(&keyed(0x36).finish(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_is_rfc_4231s() {
        // Test case 1, whose key of 20 bytes is padded with zeros as any shorter one.
        let key = std::array::from_fn(|i| if i < 20 { 0x0b } else { 0 });
        let digits: String = hmac(&key, b"Hi There").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    }

    #[test]
    fn sums_and_differences_are_modulo_the_order() {
        let minus_one = ORDER.negate(&[1, 0, 0, 0]);
        assert_eq!(sum(&minus_one, &[1, 0, 0, 0]), [0; 4]);
        assert_eq!(sum(&minus_one, &minus_one), ORDER.negate(&[2, 0, 0, 0]));
        assert_eq!(sum(&[5, 0, 0, 0], &[0; 4]), [5, 0, 0, 0]);
        assert_eq!(difference(&[1, 0, 0, 0], &[2, 0, 0, 0]), minus_one);
        assert_eq!(difference(&[2, 0, 0, 0], &[2, 0, 0, 0]), [0; 4]);
        assert!(ORDER.contains(&SPLIT));
    }
}
