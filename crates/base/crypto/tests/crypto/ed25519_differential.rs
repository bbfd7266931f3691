//! Every path against `verify_strict` of ed25519-dalek 2: the same verdict on whatever is signed, bent or forged.

use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::CompressedEdwardsY;
use hearth_crypto::ed25519::SigningKey;
use proptest::prelude::*;

use crate::ed25519_paths::{Case, check_all_paths};

const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

/// Adds L to S, where 256 bits can hold it.
fn add_order(signature: &mut [u8; 64]) {
    let mut carry = 0u16;
    for (byte, l) in signature[32..].iter_mut().zip(ORDER) {
        carry += u16::from(*byte) + u16::from(l);
        *byte = carry as u8;
        carry >>= 8;
    }
}

/// Adds a point of small order to an encoded point; leaves invalid encodings unchanged.
fn add_torsion(bytes: &mut [u8], which: u8) {
    let encoded = CompressedEdwardsY(bytes.try_into().unwrap());
    if let Some(point) = encoded.decompress() {
        bytes.copy_from_slice(&(point + EIGHT_TORSION[which as usize % 8]).compress().0);
    }
}

/// An encoding with y in p..2^255, of the numbers that are below 19 modulo p.
fn non_canonical(which: u8) -> [u8; 32] {
    let mut bytes = [0xff; 32];
    bytes[0] = 0xed + which % 19;
    bytes[31] = if which & 0x80 == 0 { 0x7f } else { 0xff };
    bytes
}

#[derive(Clone, Debug)]
enum Bend {
    Leave,
    FlipSignature(u16),
    FlipKey(u16),
    FlipMessage(u16),
    OtherKey([u8; 32]),
    TorsionR(u8),
    TorsionKey(u8),
    AddOrder,
    NonCanonicalR(u8),
    NonCanonicalKey(u8),
    SmallOrderR(u8),
    SmallOrderKey(u8),
    ZeroS,
    Noise([u8; 32]),
}

fn bend(case: &mut Case, how: &Bend) {
    match how {
        Bend::Leave => {}
        Bend::FlipSignature(bit) => case.signature[*bit as usize / 8 % 64] ^= 1 << (bit % 8),
        Bend::FlipKey(bit) => case.public_key[*bit as usize / 8 % 32] ^= 1 << (bit % 8),
        Bend::FlipMessage(bit) if case.message.is_empty() => case.message.push(*bit as u8),
        Bend::FlipMessage(bit) => {
            let len = case.message.len();
            case.message[*bit as usize / 8 % len] ^= 1 << (bit % 8);
        }
        Bend::OtherKey(seed) => case.public_key = SigningKey::from_seed(seed).public_key(),
        Bend::TorsionR(which) => add_torsion(&mut case.signature[..32], *which),
        Bend::TorsionKey(which) => add_torsion(&mut case.public_key, *which),
        Bend::AddOrder => add_order(&mut case.signature),
        Bend::NonCanonicalR(which) => case.signature[..32].copy_from_slice(&non_canonical(*which)),
        Bend::NonCanonicalKey(which) => case.public_key = non_canonical(*which),
        Bend::SmallOrderR(which) => {
            case.signature[..32].copy_from_slice(&EIGHT_TORSION[*which as usize % 8].compress().0);
        }
        Bend::SmallOrderKey(which) => case.public_key = EIGHT_TORSION[*which as usize % 8].compress().0,
        Bend::ZeroS => case.signature[32..].fill(0),
        Bend::Noise(noise) => case.signature[32..].copy_from_slice(noise),
    }
}

fn any_bend() -> impl Strategy<Value = Bend> {
    prop_oneof![
        6 => Just(Bend::Leave),
        1 => any::<u16>().prop_map(Bend::FlipSignature),
        1 => any::<u16>().prop_map(Bend::FlipKey),
        1 => any::<u16>().prop_map(Bend::FlipMessage),
        1 => any::<[u8; 32]>().prop_map(Bend::OtherKey),
        1 => any::<u8>().prop_map(Bend::TorsionR),
        1 => any::<u8>().prop_map(Bend::TorsionKey),
        1 => Just(Bend::AddOrder),
        1 => any::<u8>().prop_map(Bend::NonCanonicalR),
        1 => any::<u8>().prop_map(Bend::NonCanonicalKey),
        1 => any::<u8>().prop_map(Bend::SmallOrderR),
        1 => any::<u8>().prop_map(Bend::SmallOrderKey),
        1 => Just(Bend::ZeroS),
        1 => any::<[u8; 32]>().prop_map(Bend::Noise),
    ]
}

fn any_case() -> impl Strategy<Value = Case> {
    let message = prop::collection::vec(any::<u8>(), 0..300);
    (any::<[u8; 32]>(), message, any_bend(), any_bend()).prop_map(|(seed, message, first, second)| {
        let key = SigningKey::from_seed(&seed);
        let mut case = Case { public_key: key.public_key(), signature: key.sign(&message), message };
        bend(&mut case, &first);
        if !matches!(first, Bend::Leave) {
            bend(&mut case, &second);
        }
        case
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn all_paths_agree_with_dalek(cases in prop::collection::vec(any_case(), 1..34)) {
        check_all_paths(&cases);
    }
}
