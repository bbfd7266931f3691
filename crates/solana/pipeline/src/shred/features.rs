//! features: which of the cluster's features apply to the shreds of an epoch.
//!
//! reads   an epoch
//! writes  the cipher of its Turbine trees; whether retransmitters sign shreds
//! memory  none
//! source  `solana-ledger` 4.2.2, `shred/filter.rs` `check_feature_activation`; `docs/cluster-protocol.md`, the head
//!         and sections 1.3 and 2.4
//!
//! A feature applies to shreds from the epoch after its activation. Our chains have all features active from the first
//! slot, so these apply from epoch 1 on. The result depends on the epoch alone, so leaders and followers agree.

use hearth_turbine::Cipher;

/// The epoch in which every feature became active: that of the genesis.
const ACTIVATED_IN: u64 = 0;

/// The features that apply to the shreds of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    /// `switch_to_chacha8_turbine`.
    pub cipher: Cipher,
    /// `verify_retransmitter_signature`.
    pub retransmitters_sign: bool,
}

impl Features {
    /// Returns the features of an epoch.
    pub fn of(epoch: u64) -> Self {
        let count = epoch > ACTIVATED_IN;
        Self { cipher: if count { Cipher::ChaCha8 } else { Cipher::ChaCha20 }, retransmitters_sign: count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_count_from_the_epoch_after() {
        assert_eq!(Features::of(0), Features { cipher: Cipher::ChaCha20, retransmitters_sign: false });
        for epoch in [1, 2, 1 << 40] {
            assert_eq!(Features::of(epoch), Features { cipher: Cipher::ChaCha8, retransmitters_sign: true });
        }
    }
}
