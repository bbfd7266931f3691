//! Signing for wallets and load generators, by libsecp256k1.
//!
//! reads   a secret key, hashes
//! writes  signatures whose s is low, with the parity of R
//! memory  32 B a key, its public key; one context of the library, shared
//! source  RFC 6979 for the nonce; the crate `secp256k1`, whose time does not depend on the key

use super::{PublicKey, address};
use secp256k1::{Message, Scalar, Secp256k1, SecretKey, SignOnly};
use std::sync::LazyLock;

static CURVE: LazyLock<Secp256k1<SignOnly>> = LazyLock::new(Secp256k1::signing_only);

/// The bytes are no secret key: 0, or not below the group's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these 32 bytes are no secp256k1 secret key: 0, or not below the group's order")]
pub struct NoSecret;

/// A signature as Ethereum writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The abscissa of R, big-endian.
    pub r: [u8; 32],
    /// s, big-endian, in the lower half of the group's order.
    pub s: [u8; 32],
    /// Whether the ordinate of R is odd.
    pub odd: bool,
}

/// A secret key and values derived from it. `Debug` shows the address alone.
#[derive(Clone)]
pub struct Signer {
    secret: SecretKey,
    key: PublicKey,
}

impl Signer {
    /// The signer of a secret, big-endian.
    pub fn new(secret: &[u8; 32]) -> Result<Self, NoSecret> {
        let secret = SecretKey::from_byte_array(*secret).map_err(|_| NoSecret)?;
        let bytes = secret.public_key(&CURVE).serialize_uncompressed();
        Ok(Self { secret, key: std::array::from_fn(|i| bytes[1 + i]) })
    }

    /// The signer whose secret is this one's plus `tweak`, modulo the group's order: a child key of BIP-32.
    pub fn tweaked(&self, tweak: &[u8; 32]) -> Result<Self, NoSecret> {
        let tweak = Scalar::from_be_bytes(*tweak).map_err(|_| NoSecret)?;
        Self::new(&self.secret.add_tweak(&tweak).map_err(|_| NoSecret)?.secret_bytes())
    }

    /// Signs a hash; the same hash gives the same signature.
    pub fn sign(&self, hash: &[u8; 32]) -> Signature {
        let (id, bytes) = CURVE.sign_ecdsa_recoverable(Message::from_digest(*hash), &self.secret).serialize_compact();
        let half = |at: usize| std::array::from_fn(|i| bytes[at + i]);
        // R's abscissa is r + n with probability 2^-128; Ethereum cannot represent that, and no such signature is
        // known.
        Signature { r: half(0), s: half(32), odd: i32::from(id) & 1 == 1 }
    }

    /// The public key, x ‖ y.
    pub fn public_key(&self) -> &PublicKey {
        &self.key
    }

    /// Address of the account.
    pub fn address(&self) -> [u8; 20] {
        address(&self.key)
    }

    /// The secret, big-endian: for a key file.
    pub fn secret(&self) -> [u8; 32] {
        self.secret.secret_bytes()
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Signer(0x")?;
        self.address().iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
        write!(out, ")")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arithmetic, HighS, RecoverItem, Recoverer};
    use super::*;

    #[test]
    fn signature_recovers_to_the_signer() {
        let mut recoverer = Recoverer::new(Arithmetic::Detect);
        for seed in 1..=40u8 {
            let signer = Signer::new(&[seed; 32]).unwrap();
            let hash = crate::keccak::keccak256(&[seed, 7]);
            let Signature { r, s, odd } = signer.sign(&hash);
            let key = recoverer.recover(&RecoverItem { hash, r, s, odd }, HighS::Refuse);
            assert_eq!(key.as_ref(), Ok(signer.public_key()));
        }
    }

    #[test]
    fn the_first_account_of_the_well_known_mnemonic() {
        // "test test test test test test test test test test test junk", m/44'/60'/0'/0/0
        let secret = 0xac09_74be_c39a_17e3_6ba4_a6b4_d238_ff94_u128.to_be_bytes();
        let rest = 0x4bac_b478_cbed_5efc_ae78_4d7b_f4f2_ff80_u128.to_be_bytes();
        let signer = Signer::new(&std::array::from_fn(|i| if i < 16 { secret[i] } else { rest[i - 16] })).unwrap();
        assert_eq!(format!("{signer:?}"), "Signer(0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266)");
    }

    #[test]
    fn a_tweak_is_added_modulo_the_order() {
        let number = |last: u8| std::array::from_fn(|i| if i == 31 { last } else { 0 });
        let three = Signer::new(&number(1)).unwrap().tweaked(&number(2)).unwrap();
        assert_eq!(three.public_key(), Signer::new(&number(3)).unwrap().public_key());
        // The order less one, and one.
        let order_high = 0xffff_ffff_ffff_ffff_ffff_ffff_ffff_fffe_u128.to_be_bytes();
        let order_low = 0xbaae_dce6_af48_a03b_bfd2_5e8c_d036_4140_u128.to_be_bytes();
        let last =
            Signer::new(&std::array::from_fn(|i| if i < 16 { order_high[i] } else { order_low[i - 16] })).unwrap();
        assert_eq!(last.tweaked(&number(1)).unwrap_err(), NoSecret);
        assert_eq!(last.tweaked(&number(5)).unwrap().secret(), number(4));
        assert_eq!(last.tweaked(&[0xff; 32]).unwrap_err(), NoSecret);
    }

    #[test]
    fn invalid_secret_is_refused() {
        assert_eq!(Signer::new(&[0; 32]).unwrap_err(), NoSecret);
        assert_eq!(Signer::new(&[0xff; 32]).unwrap_err(), NoSecret);
    }
}
