//! The epoch schedule: how slots are grouped into epochs for stakes and leaders.
//!
//! memory  40 bytes
//! source  `solana-epoch-schedule` 3.2

/// Slots of the first epoch, while epochs double in length.
pub(crate) const MINIMUM_SLOTS_PER_EPOCH: u64 = 32;

/// The division of slots into epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochSchedule {
    /// Slots of an epoch of full length.
    pub slots_per_epoch: u64,
    /// How many slots before an epoch its leader schedule is computed.
    pub leader_schedule_slot_offset: u64,
    /// Whether the first epochs are shorter.
    pub warmup: bool,
    /// The first epoch of full length.
    pub first_normal_epoch: u64,
    /// The first slot of that epoch.
    pub first_normal_slot: u64,
}

impl EpochSchedule {
    /// A schedule in which all epochs have the same length.
    pub const fn without_warmup(slots_per_epoch: u64) -> Self {
        Self {
            slots_per_epoch,
            leader_schedule_slot_offset: slots_per_epoch,
            warmup: false,
            first_normal_epoch: 0,
            first_normal_slot: 0,
        }
    }

    /// A schedule whose first epoch has 32 slots and each of the next twice as many, up to `slots_per_epoch`, which is
    /// at least 32.
    pub const fn with_warmup(slots_per_epoch: u64) -> Self {
        let end = slots_per_epoch.next_power_of_two();
        let epochs = end.trailing_zeros().saturating_sub(MINIMUM_SLOTS_PER_EPOCH.trailing_zeros());
        Self {
            warmup: true,
            first_normal_epoch: epochs as u64,
            first_normal_slot: end.saturating_sub(MINIMUM_SLOTS_PER_EPOCH),
            ..Self::without_warmup(slots_per_epoch)
        }
    }

    /// The epoch of a slot, and the slot's index in it.
    pub fn epoch_and_index(&self, slot: u64) -> (u64, u64) {
        if slot < self.first_normal_slot {
            let ended = slot.saturating_add(MINIMUM_SLOTS_PER_EPOCH + 1).next_power_of_two();
            let epoch = u64::from(ended.trailing_zeros() - MINIMUM_SLOTS_PER_EPOCH.trailing_zeros() - 1);
            return (epoch, slot - self.first_slot(epoch));
        }
        let index = slot - self.first_normal_slot;
        (self.first_normal_epoch + index / self.slots_per_epoch, index % self.slots_per_epoch)
    }

    /// The epoch of a slot.
    pub fn epoch(&self, slot: u64) -> u64 {
        self.epoch_and_index(slot).0
    }

    /// The number of slots in an epoch.
    pub fn slots_in_epoch(&self, epoch: u64) -> u64 {
        match epoch < self.first_normal_epoch {
            true => MINIMUM_SLOTS_PER_EPOCH << epoch,
            false => self.slots_per_epoch,
        }
    }

    /// The first slot of an epoch.
    pub fn first_slot(&self, epoch: u64) -> u64 {
        match epoch < self.first_normal_epoch {
            true => ((1 << epoch) - 1) * MINIMUM_SLOTS_PER_EPOCH,
            false => (epoch - self.first_normal_epoch)
                .saturating_mul(self.slots_per_epoch)
                .saturating_add(self.first_normal_slot),
        }
    }

    /// The last slot of an epoch.
    pub fn last_slot(&self, epoch: u64) -> u64 {
        self.first_slot(epoch).saturating_add(self.slots_in_epoch(epoch) - 1)
    }

    /// The epoch whose leaders are computed during the epoch of `slot`.
    pub fn leader_schedule_epoch(&self, slot: u64) -> u64 {
        if slot < self.first_normal_slot {
            return self.epoch(slot) + 1;
        }
        let after = (slot - self.first_normal_slot).saturating_add(self.leader_schedule_slot_offset);
        self.first_normal_epoch + after / self.slots_per_epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_cluster_s_own() {
        let lengths =
            [(32, false), (8192, false), (432_000, false), (32, true), (100, true), (8192, true), (432_000, true)];
        for (slots, warmup) in lengths {
            let theirs = solana_epoch_schedule::EpochSchedule::custom(slots, slots, warmup);
            let ours = match warmup {
                true => EpochSchedule::with_warmup(slots),
                false => EpochSchedule::without_warmup(slots),
            };
            assert_eq!(ours.first_normal_epoch, theirs.first_normal_epoch);
            assert_eq!(ours.first_normal_slot, theirs.first_normal_slot);
            for slot in (0..2_000).chain((2_000..3_000_000).step_by(997)) {
                assert_eq!(ours.epoch_and_index(slot), theirs.get_epoch_and_slot_index(slot));
                assert_eq!(ours.leader_schedule_epoch(slot), theirs.get_leader_schedule_epoch(slot));
            }
            for epoch in 0..40 {
                assert_eq!(ours.first_slot(epoch), theirs.get_first_slot_in_epoch(epoch));
                assert_eq!(ours.last_slot(epoch), theirs.get_last_slot_in_epoch(epoch));
                assert_eq!(ours.slots_in_epoch(epoch), theirs.get_slots_in_epoch(epoch));
            }
        }
    }
}
