//! features: which of the cluster's features apply to the shreds of an epoch.
//!
//! reads   the active features, an epoch
//! writes  the cipher of its Turbine trees; whether retransmitters sign shreds
//! memory  none
//! source  `solana-ledger` 4.2.2, `shred/filter.rs` `check_feature_activation`; `docs/cluster-protocol.md`, the head
//!         and sections 1.3 and 2.4
//!
//! A feature applies to shreds from the epoch after its activation. So the result depends on the epoch alone once the
//! ledger has reached the epoch before, and leaders and followers agree.

use hearth_ledger::ActiveFeatures;
use hearth_ledger::epoch::EpochSchedule;
use hearth_ledger::features::{SWITCH_TO_CHACHA8_TURBINE, VERIFY_RETRANSMITTER_SIGNATURE};
use hearth_turbine::Cipher;

/// The features that apply to the shreds of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    /// ChaCha8 draws the trees once the feature `switch_to_chacha8_turbine` applies, ChaCha20 before.
    pub cipher: Cipher,
    /// Whether the feature `verify_retransmitter_signature` applies.
    pub retransmitters_sign: bool,
}

impl Features {
    /// Returns the features of an epoch's shreds on a chain with these active features.
    pub fn of(active: &ActiveFeatures, epoch: u64, schedule: &EpochSchedule) -> Self {
        let applies = |feature| active.applies_to_shreds(feature, epoch, schedule);
        Self {
            cipher: if applies(&SWITCH_TO_CHACHA8_TURBINE) { Cipher::ChaCha8 } else { Cipher::ChaCha20 },
            retransmitters_sign: applies(&VERIFY_RETRANSMITTER_SIGNATURE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_count_from_the_epoch_after() {
        let schedule = EpochSchedule::without_warmup(32);
        let none = Features { cipher: Cipher::ChaCha20, retransmitters_sign: false };
        let both = Features { cipher: Cipher::ChaCha8, retransmitters_sign: true };
        let all = ActiveFeatures::supported();
        assert_eq!(Features::of(&all, 0, &schedule), none);
        for epoch in [1, 2, 1 << 40] {
            assert_eq!(Features::of(&all, epoch, &schedule), both);
        }
        let late = ActiveFeatures::new([(SWITCH_TO_CHACHA8_TURBINE, 32)]);
        assert_eq!(Features::of(&late, 1, &schedule), none);
        assert_eq!(Features::of(&late, 2, &schedule), Features { cipher: Cipher::ChaCha8, ..none });
    }
}
