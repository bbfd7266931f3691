//! Recovery by every path compared with libsecp256k1: the same key, or none, for valid, corrupted and chosen inputs.

use hearth_crypto::secp256k1::{Arithmetic, HighS, PublicKey, RecoverError, RecoverItem, Recoverer, address};
use hearth_testkit::random::Random;
use proptest::prelude::*;
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, Scalar, Secp256k1, SecretKey};

const ORDER: [u8; 32] = secp256k1::constants::CURVE_ORDER;
const ZERO: [u8; 32] = [0; 32];

/// Returns libsecp256k1's result for an item, including its rule for high s.
fn oracle(item: &RecoverItem, high_s: HighS) -> Option<PublicKey> {
    let id = if item.odd { RecoveryId::One } else { RecoveryId::Zero };
    let signature = RecoverableSignature::from_compact(&[item.r, item.s].concat(), id).ok()?;
    let mut standard = signature.to_standard();
    standard.normalize_s();
    if high_s == HighS::Refuse && standard != signature.to_standard() {
        return None;
    }
    let key = Secp256k1::new().recover_ecdsa(Message::from_digest(item.hash), &signature).ok()?;
    Some(key.serialize_uncompressed()[1..].try_into().unwrap())
}

/// Panics unless each path agrees with the oracle on each item, in one burst and one by one.
fn check(items: &[RecoverItem]) {
    for high_s in [HighS::Refuse, HighS::Allow] {
        let want: Vec<_> = items.iter().map(|item| oracle(item, high_s)).collect();
        for arithmetic in [Arithmetic::Detect, Arithmetic::Portable] {
            let mut recoverer = Recoverer::new(arithmetic);
            let mut results = vec![Err(RecoverError::HighS); 3];
            recoverer.recover_burst(items, high_s, &mut results);
            assert_eq!(results.len(), items.len());
            for (i, item) in items.iter().enumerate() {
                let got = &results[i];
                assert_eq!(got.ok(), want[i], "{arithmetic:?}, {high_s:?}, {i} of {}: {item:02x?}", items.len());
                assert_eq!(recoverer.recover(item, high_s), *got, "alone: {item:02x?}");
            }
        }
    }
}

/// The two paths' results, which must be the same, errors included.
fn both(items: &[RecoverItem], high_s: HighS) -> Vec<Result<PublicKey, RecoverError>> {
    let [lanes, portable] = [Arithmetic::Detect, Arithmetic::Portable].map(|arithmetic| {
        let mut results = Vec::new();
        Recoverer::new(arithmetic).recover_burst(items, high_s, &mut results);
        results
    });
    assert_eq!(lanes, portable);
    lanes
}

fn secret(bytes: [u8; 32]) -> SecretKey {
    // Bytes that are no key stand for 1.
    SecretKey::from_byte_array(bytes).unwrap_or_else(|_| small(1))
}

fn small(n: u8) -> SecretKey {
    let mut bytes = ZERO;
    bytes[31] = n;
    SecretKey::from_byte_array(bytes).unwrap()
}

/// Signs `hash` with `key`.
fn signed(key: [u8; 32], hash: [u8; 32]) -> RecoverItem {
    let signature = Secp256k1::new().sign_ecdsa_recoverable(Message::from_digest(hash), &secret(key));
    let (id, bytes) = signature.serialize_compact();
    let (r, s) = (bytes[..32].try_into().unwrap(), bytes[32..].try_into().unwrap());
    RecoverItem { hash, r, s, odd: id == RecoveryId::One }
}

/// Constructs the signature whose key is u1·G + u2·(nonce·G), with u1 = 0 if it is `None`.
fn chosen(nonce: &SecretKey, u1: Option<SecretKey>, u2: &SecretKey) -> RecoverItem {
    let point = nonce.public_key(&Secp256k1::new()).serialize();
    let r = SecretKey::from_byte_array(point[1..].try_into().unwrap()).expect("hardly ever n or above");
    let times = |u: SecretKey| u.mul_tweak(&Scalar::from(r)).unwrap().secret_bytes();
    let hash = u1.map_or(ZERO, |u1| times(u1.negate()));
    RecoverItem { hash, r: r.secret_bytes(), s: times(*u2), odd: point[0] == 3 }
}

fn plus(a: &SecretKey, b: &SecretKey) -> Option<SecretKey> {
    a.add_tweak(&Scalar::from(*b)).ok()
}

fn random_items(count: usize) -> Vec<RecoverItem> {
    let mut random = Random(7);
    (0..count).map(|_| signed(random.key(), random.key())).collect()
}

#[test]
fn partial_bursts_have_a_key_for_each() {
    let items = random_items(300);
    for count in (0..=17).chain([127, 128, 129, 137, 300]) {
        check(&items[..count]);
    }
}

/// One invalid item in every lane, next to valid ones.
#[test]
fn a_bad_item_spoils_its_lane_only() {
    let good = random_items(17);
    let mut no_point = good[0];
    no_point.r = [0; 32];
    no_point.r[31] = 5;
    let g = small(1);
    let infinity = chosen(&g, Some(g.negate()), &g);
    let mut high = good[1];
    high.s = secret(high.s).negate().secret_bytes();
    for bad in [no_point, infinity, high, RecoverItem { r: ORDER, ..no_point }, RecoverItem { s: ZERO, ..good[3] }] {
        for at in 0..good.len() {
            let mut items = good.clone();
            items[at] = bad;
            check(&items);
            check(&items[..at + 1]);
        }
    }
}

#[test]
fn refusals_say_why() {
    let good = signed([3; 32], [9; 32]);
    let last = small(1).negate().secret_bytes();
    let mut five = ZERO;
    five[31] = 5;
    // Half of n, rounded down.
    let half: [u8; 32] = std::array::from_fn(|i| ORDER[i] >> 1 | if i == 0 { 0 } else { ORDER[i - 1] << 7 });
    let above_half = plus(&secret(half), &small(1)).unwrap().secret_bytes();
    let g = small(1);
    let cases = [
        (RecoverItem { r: ZERO, ..good }, Err(RecoverError::ROutOfRange)),
        (RecoverItem { r: ORDER, ..good }, Err(RecoverError::ROutOfRange)),
        (RecoverItem { r: [0xff; 32], ..good }, Err(RecoverError::ROutOfRange)),
        (RecoverItem { s: ZERO, ..good }, Err(RecoverError::SOutOfRange)),
        (RecoverItem { s: ORDER, ..good }, Err(RecoverError::SOutOfRange)),
        (RecoverItem { s: [0xff; 32], ..good }, Err(RecoverError::SOutOfRange)),
        (RecoverItem { s: last, ..good }, Err(RecoverError::HighS)),
        (RecoverItem { s: above_half, ..good }, Err(RecoverError::HighS)),
        (RecoverItem { s: half, ..good }, Ok(())),
        (RecoverItem { r: five, ..good }, Err(RecoverError::NoPoint)),
        (chosen(&g, Some(g.negate()), &g), Err(RecoverError::Infinity)),
        (good, Ok(())),
    ];
    let items = cases.map(|(item, _)| item);
    for (result, (item, want)) in both(&items, HighS::Refuse).iter().zip(&cases) {
        assert_eq!(result.map(|_| ()), *want, "{item:02x?}");
    }
    let allowed = both(&items, HighS::Allow);
    assert!(allowed[6].is_ok() && allowed[7].is_ok());
    check(&items);
}

/// Every bit of a signature and of the hash matters: flipping it gives another key, or none, as the oracle says.
#[test]
fn a_bit_changed_changes_the_key() {
    let good = signed([5; 32], [6; 32]);
    let key = oracle(&good, HighS::Allow);
    let mut items = vec![RecoverItem { odd: !good.odd, ..good }];
    for bit in 0..256 {
        let mut bent = [good; 3];
        bent[0].hash[bit / 8] ^= 1 << (bit % 8);
        bent[1].r[bit / 8] ^= 1 << (bit % 8);
        bent[2].s[bit / 8] ^= 1 << (bit % 8);
        items.extend(bent);
    }
    let results = both(&items, HighS::Allow);
    assert!(results.iter().all(|result| result.ok() != key));
    // Half of all numbers are the abscissa of a point.
    let keys = results.iter().filter(|result| result.is_ok()).count();
    assert!((3 * 256 - 192..3 * 256 - 64).contains(&keys), "{keys}");
    check(&items);
}

/// Sums in which multiples of the same point meet, where the usual formulas fail.
#[test]
fn points_that_meet_are_added_rightly() {
    let random: Vec<SecretKey> = (0..4).map(|seed| secret(Random(seed).key())).collect();
    let lambda = secret([
        0x53, 0x63, 0xad, 0x4c, 0xc0, 0x5c, 0x30, 0xe0, 0xa5, 0x26, 0x1c, 0x02, 0x88, 0x12, 0x64, 0x5a, 0x12, 0x2e,
        0x22, 0xea, 0x20, 0x81, 0x66, 0x78, 0xdf, 0x02, 0x96, 0x7c, 0x1b, 0x23, 0xbd, 0x72,
    ]);
    let mut items = Vec::new();
    for nonce in (1..=33).chain([64, 255]).map(small) {
        for nonce in [nonce, nonce.negate(), nonce.mul_tweak(&Scalar::from(lambda)).unwrap()] {
            for u2 in random.iter().take(2).copied().chain((1..4).map(small)).chain([lambda]) {
                let u2_times_nonce = u2.mul_tweak(&Scalar::from(nonce)).unwrap();
                // u1·G = ± u2·R, and near these.
                for u1 in [u2_times_nonce, u2_times_nonce.negate()] {
                    items.push(chosen(&nonce, Some(u1), &u2));
                    items.push(chosen(&nonce, plus(&u1, &small(1)), &u2));
                    items.push(chosen(&nonce, plus(&u1, &small(2).negate()), &u2.negate()));
                    items.push(chosen(&nonce, plus(&u1, &random[3]), &u2));
                }
                items.push(chosen(&nonce, None, &u2));
                items.push(chosen(&nonce, Some(u2), &u2));
                items.push(chosen(&nonce, Some(small(1)), &small(1)));
            }
        }
    }
    assert!(items.iter().any(|item| oracle(item, HighS::Allow).is_none()));
    check(&items);
}

/// Hashes at the edges: 0, n and their neighbours.
#[test]
fn hashes_are_taken_modulo_the_order() {
    let mut items = Vec::new();
    for hash in [ZERO, ORDER, [0xff; 32], small(1).negate().secret_bytes(), small(1).secret_bytes()] {
        for key in [[1; 32], [2; 32]] {
            items.push(signed(key, hash));
        }
    }
    let mut above = ORDER;
    above[31] += 1;
    items.push(RecoverItem { hash: above, ..items[0] });
    items.push(RecoverItem { hash: small(1).secret_bytes(), ..items[0] });
    let results = both(&items, HighS::Refuse);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(results[10], results[11]);
    check(&items);
}

/// The well-known address of the private key 1.
#[test]
fn an_address_is_that_of_wallets() {
    let key = oracle(&signed(small(1).secret_bytes(), [7; 32]), HighS::Refuse).unwrap();
    let want = [
        0x7e, 0x5f, 0x45, 0x52, 0x09, 0x1a, 0x69, 0x12, 0x5d, 0x5d, 0xfc, 0xb7, 0xb8, 0xc2, 0x65, 0x90, 0x29, 0x39,
        0x5b, 0xdf,
    ];
    assert_eq!(address(&key), want);
    let keys: Vec<PublicKey> =
        both(&random_items(150), HighS::Refuse).into_iter().map(|key| key.unwrap()).chain([key]).collect();
    let mut addresses = Vec::new();
    hearth_crypto::secp256k1::address_burst(&keys, &mut addresses);
    assert_eq!(addresses, keys.iter().map(address).collect::<Vec<_>>());
    assert_eq!(addresses[150], want);
}

#[derive(Clone, Debug)]
enum Bend {
    Leave,
    Parity,
    Hash([u8; 32]),
    R([u8; 32]),
    S([u8; 32]),
    SmallR(u8),
    SmallS(u8),
    HighS,
    LargeR(u8),
}

fn bend(item: &mut RecoverItem, how: &Bend) {
    match how {
        Bend::Leave => {}
        Bend::Parity => item.odd = !item.odd,
        Bend::Hash(hash) => item.hash = *hash,
        Bend::R(r) => item.r = *r,
        Bend::S(s) => item.s = *s,
        Bend::SmallR(r) => item.r = small((*r).max(1)).secret_bytes(),
        Bend::SmallS(s) => item.s = small((*s).max(1)).secret_bytes(),
        Bend::HighS => item.s = secret(item.s).negate().secret_bytes(),
        Bend::LargeR(r) => {
            item.r = ORDER;
            item.r[31] = *r;
        }
    }
}

fn any_bend() -> impl Strategy<Value = Bend> {
    prop_oneof![
        4 => Just(Bend::Leave),
        1 => Just(Bend::Parity),
        1 => any::<[u8; 32]>().prop_map(Bend::Hash),
        1 => any::<[u8; 32]>().prop_map(Bend::R),
        1 => any::<[u8; 32]>().prop_map(Bend::S),
        1 => any::<u8>().prop_map(Bend::SmallR),
        1 => any::<u8>().prop_map(Bend::SmallS),
        1 => Just(Bend::HighS),
        1 => any::<u8>().prop_map(Bend::LargeR),
    ]
}

fn any_item() -> impl Strategy<Value = RecoverItem> {
    (any::<[u8; 32]>(), any::<[u8; 32]>(), any_bend(), any_bend()).prop_map(|(key, hash, first, second)| {
        let mut item = signed(key, hash);
        bend(&mut item, &first);
        bend(&mut item, &second);
        item
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn all_paths_agree_with_libsecp256k1(items in prop::collection::vec(any_item(), 1..40)) {
        check(&items);
    }
}
