//! parse: the first stage of a shred's path: parses a shred and applies the rules that need no other shred.
//!
//! reads   a datagram
//! writes  the shred at its start
//! drops   shreds that break a rule: [`Refused`]
//! source  `solana-ledger` 4.2.2, `shred/filter.rs`, in its order; `docs/cluster-protocol.md`, section 2

use hearth_wire::shred::{Shred, ShredKind, VARIANT, Variant};

use super::arrival::{Refused, ShredSource};
use crate::repair::wanted::highest_accepted;

/// Limits on a shred's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The cluster's shred version.
    pub version: u16,
    /// Maximum data shreds per slot.
    pub shreds_per_slot_max: u32,
    /// Slots per epoch.
    pub slots_per_epoch: u64,
    /// Slots up to this one are final.
    pub root: u64,
}

/// Parses the shred in a datagram.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn parse<'a>(datagram: &'a [u8], source: ShredSource, limits: &Limits) -> Result<Shred<'a>, Refused> {
    let shred = leading_shred(datagram)?;
    if source == ShredSource::Repair && shred.variant().kind == ShredKind::Code {
        return Err(Refused::Malformed);
    }
    if shred.version() != limits.version {
        return Err(Refused::Version);
    }
    if shred.slot() > highest_accepted(limits.root, limits.slots_per_epoch) {
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

/// Returns the shred at the start of a datagram: Turbine's may have trailing bytes, and repair's have a nonce.
pub(super) fn leading_shred(datagram: &[u8]) -> Result<Shred<'_>, Refused> {
    let variant = datagram.get(VARIANT).and_then(|byte| Variant::from_byte(*byte)).ok_or(Refused::Malformed)?;
    let bytes = datagram.get(..variant.kind.size()).ok_or(Refused::Malformed)?;
    Shred::parse(bytes).map_err(|_| Refused::Malformed)
}
