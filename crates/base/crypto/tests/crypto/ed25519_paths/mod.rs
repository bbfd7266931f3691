//! Runs one set of signatures through every path of verification and compares with `verify_strict` of
//! ed25519-dalek 2.

use hearth_crypto::ed25519::{Arithmetic, Verifier, VerifierConfig, VerifyItem, verify_strict};

/// A public key, a signature, and the message that it claims to sign.
#[derive(Clone, Debug)]
pub struct Case {
    pub public_key: [u8; 32],
    pub signature: [u8; 64],
    pub message: Vec<u8>,
}

/// dalek's verdict, key decoding included.
pub fn oracle(case: &Case) -> bool {
    let signature = ed25519_dalek::Signature::from_bytes(&case.signature);
    ed25519_dalek::VerifyingKey::from_bytes(&case.public_key)
        .is_ok_and(|key| key.verify_strict(&case.message, &signature).is_ok())
}

fn item(case: &Case) -> VerifyItem<'_> {
    VerifyItem { public_key: &case.public_key, signature: &case.signature, message: &case.message }
}

/// Panics unless all paths agree with the oracle on all cases: stateless, one by one and in one burst, with
/// tables and without, in lanes and portable.
pub fn check_all_paths(cases: &[Case]) {
    let want: Vec<bool> = cases.iter().map(oracle).collect();
    let show = |path: &str, i: usize| format!("{path}, case {i}: {:02x?}", cases[i]);
    for (i, case) in cases.iter().enumerate() {
        let got = verify_strict(&case.public_key, &case.signature, &case.message).is_ok();
        assert_eq!(got, want[i], "{}", show("stateless", i));
    }
    for arithmetic in [Arithmetic::Detect, Arithmetic::FourLanes, Arithmetic::Portable] {
        for build_after in [0, 255] {
            let mut verifier = Verifier::new(VerifierConfig { cache_bytes: 8 << 20, build_after, arithmetic });
            let mut results = Vec::new();
            let items: Vec<_> = cases.iter().map(item).collect();
            // The first pass builds the tables on paths that build them eagerly, the second uses them.
            for pass in 0..2 {
                verifier.verify_burst(&items, &mut results);
                assert_eq!(results.len(), cases.len());
                for i in 0..cases.len() {
                    let path = format!("{arithmetic:?}, build after {build_after}, pass {pass}");
                    assert_eq!(results[i].is_ok(), want[i], "{}", show(&path, i));
                }
            }
            for (i, case) in cases.iter().enumerate() {
                let got = verifier.verify(&case.public_key, &case.signature, &case.message).is_ok();
                assert_eq!(got, want[i], "{}", show("single", i));
            }
        }
    }
}
