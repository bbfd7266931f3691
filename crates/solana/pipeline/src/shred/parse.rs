//! parse: the first stage of a shred's path: parses a shred and applies the rules that need no other shred.
//!
//! reads   a datagram
//! writes  the shred at its start
//! drops   shreds that break a rule: [`ShredRefusal`]
//! source  `solana-ledger` 4.2.2, `shred/filter.rs`, in its order; `docs/cluster-protocol.md`, section 2

use hearth_wire::shred::{Shred, ShredKind, VARIANT, Variant};

use super::arrival::{ShredRefusal, ShredSource};
use crate::repair::request_plan::highest_accepted;

/// Limits on a shred's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The cluster's shred version.
    pub version: u16,
    /// Maximum data shreds per slot.
    pub shreds_per_slot_max: u32,
    /// Slots per epoch, which bound how far ahead a shred's slot may be.
    pub slots_per_epoch: u64,
    /// Slots up to this one are final.
    pub root: u64,
}

/// Parses the shred in a datagram.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn parse<'a>(datagram: &'a [u8], source: ShredSource, limits: &Limits) -> Result<Shred<'a>, ShredRefusal> {
    let shred = leading_shred(datagram)?;
    if source == ShredSource::Repair && shred.variant().kind == ShredKind::Code {
        return Err(ShredRefusal::Malformed);
    }
    if shred.version() != limits.version {
        return Err(ShredRefusal::Version);
    }
    if shred.slot() > highest_accepted(limits.root, limits.slots_per_epoch) {
        return Err(ShredRefusal::Ahead);
    }
    if shred.slot() <= limits.root {
        return Err(ShredRefusal::Old);
    }
    if let Some(parent) = shred.parent_slot()
        && !(limits.root <= parent && parent < shred.slot())
    {
        return Err(ShredRefusal::Old);
    }
    shred.check_set(limits.shreds_per_slot_max).map_err(|_| ShredRefusal::Rules)?;
    Ok(shred)
}

/// Returns the shred at the start of a datagram: Turbine's may have trailing bytes, and repair's have a nonce.
pub(super) fn leading_shred(datagram: &[u8]) -> Result<Shred<'_>, ShredRefusal> {
    let variant = datagram.get(VARIANT).and_then(|byte| Variant::from_byte(*byte)).ok_or(ShredRefusal::Malformed)?;
    let bytes = datagram.get(..variant.kind.size()).ok_or(ShredRefusal::Malformed)?;
    Shred::parse(bytes).map_err(|_| ShredRefusal::Malformed)
}
