//! The table of features for the documentation.
//!
//! reads   the features that this program knows
//! writes  a page's text

use std::fmt::Write;

use hearth_wire::base58::encode_32;

use super::{Feature, MAINNET_AS_OF, Support, table};

/// The generated part of `docs/features.md`: the features by name, each with its address, its treatment and whether
/// mainnet had it.
pub fn markdown() -> String {
    let mut page =
        format!("| Feature | Address | Here | Mainnet {MAINNET_AS_OF} | Where or why |\n|---|---|---|---|---|\n");
    for feature in by_name([table::ASKED_FOR, table::FULL_INFLATION].concat()) {
        let mainnet = if feature.is_on_mainnet() { "active" } else { "–" };
        let (name, here, note) = (feature.name, word(feature.support), feature.note);
        let address = encode_32(&feature.id);
        writeln!(page, "| `{name}` | `{}` | {here} | {mainnet} | {note} |", &*address).expect("a string takes all");
    }
    let settled = by_name(table::SETTLED.to_vec());
    let (count, note) = (settled.len(), settled[0].note);
    write!(page, "\n{count} more are without effect: {note}.\n\n| Feature | Address |\n|---|---|\n")
        .expect("a string takes all");
    for feature in settled {
        writeln!(page, "| `{}` | `{}` |", feature.name, &*encode_32(&feature.id)).expect("a string takes all");
    }
    page
}

fn by_name(mut features: Vec<Feature>) -> Vec<Feature> {
    features.sort_unstable_by_key(|feature| feature.name);
    features
}

fn word(support: Support) -> &'static str {
    match support {
        Support::Implemented => "implemented",
        Support::NoEffect => "no effect",
        Support::Required => "required",
        Support::FromStart => "from the start only",
        Support::Unsupported => "not supported",
    }
}
