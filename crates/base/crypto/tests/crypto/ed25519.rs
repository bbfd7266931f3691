//! Ed25519 against published vectors: RFC 8032, Project Wycheproof, "Taming the many EdDSAs".

use hearth_crypto::ed25519::{SigningKey, Verifier, VerifierConfig, VerifyError, verify_strict};

use crate::ed25519_paths::{Case, check_all_paths, oracle};

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// RFC 8032 §7.1: seed, public key, message, signature.
const RFC8032: [[&str; 4]; 3] = [
    [
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ],
    [
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ],
    [
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ],
];

#[test]
fn rfc8032_vectors_sign_and_verify() {
    for [seed, public, message, signature] in RFC8032 {
        let key = SigningKey::from_seed(&unhex(seed).try_into().unwrap());
        let public: [u8; 32] = unhex(public).try_into().unwrap();
        let signature: [u8; 64] = unhex(signature).try_into().unwrap();
        let message = unhex(message);
        assert_eq!(key.public_key(), public);
        assert_eq!(key.sign(&message), signature);
        assert_eq!(verify_strict(&public, &signature, &message), Ok(()));
        let mut verifier = Verifier::new(VerifierConfig::default());
        for _ in 0..5 {
            assert_eq!(verifier.verify(&public, &signature, &message), Ok(()));
        }
        let mut broken = signature;
        broken[63] ^= 1;
        assert_eq!(verify_strict(&public, &broken, &message), Err(VerifyError::Mismatch));
    }
}

/// The fields of each line that is no comment.
fn lines(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect())
}

fn bytes(field: &str) -> Vec<u8> {
    if field == "-" { Vec::new() } else { unhex(field) }
}

#[test]
fn wycheproof_vectors_have_their_verdicts_on_every_path() {
    let mut cases = Vec::new();
    let mut of_another_length = 0;
    for fields in lines(include_str!("../vectors/ed25519_wycheproof.txt")) {
        let [public_key, signature, message, verdict] = fields[..] else { panic!("four fields: {fields:?}") };
        let Ok(signature) = <[u8; 64]>::try_from(bytes(signature)) else {
            // The interface takes 64 bytes; other lengths are rejected when the transaction is parsed.
            assert_eq!(verdict, "invalid");
            of_another_length += 1;
            continue;
        };
        let case = Case { public_key: bytes(public_key).try_into().unwrap(), signature, message: bytes(message) };
        assert_eq!(oracle(&case), verdict == "valid", "{case:02x?}");
        cases.push(case);
    }
    assert_eq!((cases.len(), of_another_length), (139, 12));
    check_all_paths(&cases);
}

#[test]
fn edge_cases_have_the_strict_verdicts_on_every_path() {
    let cases: Vec<Case> = lines(include_str!("../vectors/ed25519_speccheck.txt"))
        .map(|fields| Case {
            public_key: bytes(fields[0]).try_into().unwrap(),
            signature: bytes(fields[1]).try_into().unwrap(),
            message: bytes(fields[2]),
        })
        .collect();
    assert_eq!(cases.len(), 14);
    check_all_paths(&cases);
    // Of the twelve published cases, the strict rule accepts number 3, whose key has mixed order and whose cofactorless
    // equation holds, and rejects all others.
    let accepted: Vec<usize> = (0..cases.len()).filter(|i| oracle(&cases[*i])).collect();
    assert_eq!(accepted, [3]);
}
