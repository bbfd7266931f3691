//! The tables of the base point B, one of each kind for the process.
//!
//! writes  tables, at first use
//! memory  4.3 MB for addresses that may depend on the scalar, 49 KB for those that may not
//! source  RFC 8032 §5.1 for B

use super::comb::Comb;
use super::field::Fe;
use super::point::{Entry, Point};
use std::sync::LazyLock;

/// The comb of B for verification, where addresses may depend on the scalar.
pub(super) type VerifyingComb = Comb<12, 1>;

/// The comb of B for secret scalars: small tables, each read whole.
pub(super) type SigningComb = Comb<4, 1>;

static SIGNING: LazyLock<Box<[Entry]>> = LazyLock::new(|| {
    let mut entries = vec![Entry::NEUTRAL; SigningComb::ENTRIES].into_boxed_slice();
    SigningComb::build(&base_point(), &mut entries);
    entries
});

static VERIFYING: LazyLock<Box<[Entry]>> = LazyLock::new(|| {
    let mut entries = vec![Entry::NEUTRAL; VerifyingComb::ENTRIES].into_boxed_slice();
    VerifyingComb::build(&base_point(), &mut entries);
    entries
});

/// The table of B for [`VerifyingComb`].
pub(super) fn verifying_table() -> &'static [Entry] {
    &VERIFYING
}

/// The table of B for [`SigningComb`].
pub(super) fn signing_table() -> &'static [Entry] {
    &SIGNING
}

/// B: y = 4/5, x even.
fn base_point() -> Point<Fe> {
    let mut bytes = [0x66; 32];
    bytes[0] = 0x58;
    Point::decode(&bytes).expect("the base point is on the curve")
}
