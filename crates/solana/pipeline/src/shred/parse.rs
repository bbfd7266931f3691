//! The first stage of a shred's path: bytes into a shred, by the rules that one shred alone can break.
//!
//! reads   a datagram
//! writes  the shred in front of it
//! drops   what breaks a rule: [`Refused`]
//! source  `solana-ledger` 4.2.2, `shred/filter.rs`, in its order; `docs/cluster-protocol.md`, section 2

use hearth_wire::shred::{Shred, ShredKind, VARIANT, Variant};

use super::arrival::{Refused, ShredSource};

/// Slots beyond the final one from which shreds are taken, at least; half an epoch where that is more.
const SLOTS_AHEAD_MIN: u64 = 500;

/// What a shred may say of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The cluster's shred version.
    pub version: u16,
    /// Data shreds that a slot may have.
    pub shreds_per_slot_max: u32,
    /// Slots of an epoch.
    pub slots_per_epoch: u64,
    /// Slots up to this one are final.
    pub root: u64,
}

/// Parses the shred in a datagram.
///
/// # Errors
/// Which rule it breaks.
pub(super) fn parse<'a>(datagram: &'a [u8], source: ShredSource, limits: &Limits) -> Result<Shred<'a>, Refused> {
    let shred = leading_shred(datagram)?;
    if source == ShredSource::Repair && shred.variant().kind == ShredKind::Code {
        return Err(Refused::Malformed);
    }
    if shred.version() != limits.version {
        return Err(Refused::Version);
    }
    let ahead = SLOTS_AHEAD_MIN.max(limits.slots_per_epoch / 2);
    if shred.slot() > limits.root.saturating_add(ahead) {
        return Err(Refused::Ahead);
    }
    if shred.slot() <= limits.root {
        return Err(Refused::Old);
    }
    if let Some(parent) = shred.parent_slot()
        && !(limits.root <= parent && parent < shred.slot())
    {
        return Err(Refused::Old);
    }
    shred.check_set(limits.shreds_per_slot_max).map_err(|_| Refused::Rules)?;
    Ok(shred)
}

/// The shred that a datagram begins with: Turbine's may have anything behind it, and repair's have a nonce.
pub(super) fn leading_shred(datagram: &[u8]) -> Result<Shred<'_>, Refused> {
    let variant = datagram.get(VARIANT).and_then(|byte| Variant::from_byte(*byte)).ok_or(Refused::Malformed)?;
    let bytes = datagram.get(..variant.kind.size()).ok_or(Refused::Malformed)?;
    Shred::parse(bytes).map_err(|_| Refused::Malformed)
}
