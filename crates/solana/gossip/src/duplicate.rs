//! Checks whether two shreds prove that a slot's leader equivocated.
//!
//! reads   the bytes of two shreds, the slot's leader
//! writes  a verdict
//! drops   invalid proofs: a [`NoProof`]
//! source  `solana-gossip` 4.2.2, `duplicate_shred.rs` `check_shreds`; `docs/cluster-protocol.md`, section 2.8

use hearth_crypto::ed25519::Verifier;
use hearth_crypto::merkle::{shred_leaf, shred_root};
use hearth_wire::shred::{Fields, Shred, ShredKind};
use hearth_wire::{Hash, Pubkey};

/// Why two shreds are not a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProof {
    /// The bytes are not a shred.
    #[error("one of them is no shred")]
    Malformed,
    /// They are of two slots, or not of the claimed one.
    #[error("they are not of the slot")]
    Slot,
    /// They are of another chain.
    #[error("one is of another shred version")]
    Version,
    /// The slot's leader has not signed both.
    #[error("the slot's leader has not signed both")]
    Signature,
    /// Both may belong to one block.
    #[error("one block may have both")]
    Consistent,
}

/// The Merkle root of a shred's proof.
fn root(shred: &Shred<'_>) -> Option<Hash> {
    shred_root(shred_leaf(shred.leaf_bytes()), shred.shard_index(), shred.proof())
}

/// Checks a proof that `leader` produced two blocks for `slot`: it has signed both shreds, and no block contains both.
///
/// # Errors
///
/// Why it is not a proof.
pub fn check(
    slot: u64,
    shreds: [&[u8]; 2],
    version: u16,
    leader: &Pubkey,
    verifier: &mut Verifier,
) -> Result<(), NoProof> {
    let [one, other] = shreds.map(Shred::parse);
    let (Ok(one), Ok(other)) = (one, other) else { return Err(NoProof::Malformed) };
    if one.slot() != slot || other.slot() != slot {
        return Err(NoProof::Slot);
    }
    if one.version() != version || other.version() != version {
        return Err(NoProof::Version);
    }
    let roots = [root(&one).ok_or(NoProof::Malformed)?, root(&other).ok_or(NoProof::Malformed)?];
    // The contradiction is cheaper to check than the signatures.
    if !contradict(&one, &other, &roots) {
        return Err(NoProof::Consistent);
    }
    for (shred, root) in [&one, &other].into_iter().zip(&roots) {
        verifier.verify(leader, &shred.signature(), root).map_err(|_| NoProof::Signature)?;
    }
    Ok(())
}

fn contradict(one: &Shred<'_>, other: &Shred<'_>, roots: &[Hash; 2]) -> bool {
    let of_one_set = one.set_index() == other.set_index();
    if of_one_set && roots[0] != roots[1] {
        return true;
    }
    let kind = one.variant().kind;
    if kind != other.variant().kind {
        return false;
    }
    if one.index() == other.index() {
        // The retransmitter's signature is not the leader's.
        let without = |shred: &Shred<'_>| shred.bytes()[..shred.variant().proof().end].to_vec();
        return without(one) != without(other);
    }
    match (kind, one.fields(), other.fields()) {
        (ShredKind::Data, ..) => {
            (one.ends_slot() && other.index() > one.index()) || (other.ends_slot() && one.index() > other.index())
        }
        (ShredKind::Code, Fields::Code(a), Fields::Code(b)) => {
            let first = |shred: &Shred<'_>, position: u16| shred.index() - u32::from(position);
            let of = (a.data_count, a.code_count, first(one, a.position));
            of_one_set && of != (b.data_count, b.code_count, first(other, b.position))
        }
        (ShredKind::Code, ..) => false,
    }
}
