//! features: which rules of the cluster are active on a chain, and since which slot.
//!
//! reads   the feature accounts, at the start and at each epoch boundary
//! writes  the slot of activation into the accounts of pending features, at the boundary; the rent sysvar; builtin
//!         programs
//! memory  a slot per active feature, 25 KB
//! drops   a chain with a feature that this program lacks, by name: a [`FeatureError`]
//! source  `compute_active_feature_set` and `compute_and_apply_new_feature_activations` of `bank.rs` of
//!         `solana-runtime` 4.2.2
//!
//! A feature is an account at the feature's address, owned by the feature program: one byte, 1 if the feature is
//! active, and the slot since which it is. Without that slot the feature is pending and becomes active at the next
//! epoch boundary. Since the accounts hold everything, a restart reads the set from them.
//!
//! A chain without a single feature account is a bare one, as tests and benchmarks make it: it has every feature that
//! this program supports. [`ActiveFeatures::check`] refuses such a chain as it refuses any that lacks a required one.

mod docs;
mod rules;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use hearth_wire::Pubkey;
use hearth_wire::consts::FEATURE_PROGRAM;

pub use docs::markdown;
pub(crate) use rules::Rules;
pub use table::MAINNET_AS_OF;

use crate::account::Account;
use crate::accounts::Accounts;
use crate::epoch::EpochSchedule;
use crate::programs::{GatedProgram, gated_programs};
use crate::rent::minimum_balance;
use crate::sysvars;

/// Bytes of a feature's account: whether it is active, and since which slot.
const FEATURE_BYTES: usize = 9;

/// Turbine's trees are shuffled by ChaCha8 instead of ChaCha20.
pub const SWITCH_TO_CHACHA8_TURBINE: Pubkey = agave_feature_set::switch_to_chacha8_turbine::ID.to_bytes();
/// Retransmitters sign the shreds of a block's last FEC set.
pub const VERIFY_RETRANSMITTER_SIGNATURE: Pubkey = agave_feature_set::verify_retransmitter_signature::ID.to_bytes();

/// How this program treats a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It may be active or not, and may become active at any boundary.
    Implemented,
    /// The same, because nothing depends on it.
    NoEffect,
    /// It must be active from the start.
    Required,
    /// It may be active from the start, but must not become active later, unless it would then find no buffer with
    /// which to replace a program.
    FromStart,
    /// It must not be active.
    Unsupported,
}

/// A feature that this program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Address of the account that says whether it is active.
    pub id: Pubkey,
    /// Its name in the cluster's sources.
    pub name: &'static str,
    /// How this program treats it.
    pub support: Support,
    /// The place of its implementation, or the reason for its treatment.
    pub note: &'static str,
}

/// Why this program cannot follow a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    /// A feature is active that this program lacks.
    #[error(
        "the feature {name} is active from slot {slot} on, and this program does not support it ({note}); run a program \
         that does"
    )]
    Unsupported {
        /// The name in the cluster's sources.
        name: &'static str,
        /// The slot of its activation.
        slot: u64,
        /// The reason, or the part that is missing.
        note: &'static str,
    },
    /// A feature is not active that this program takes for granted.
    #[error("the feature {name} is not active at the start of the chain, and this program requires it ({note})")]
    Missing {
        /// The name in the cluster's sources.
        name: &'static str,
        /// The part of this program that depends on it.
        note: &'static str,
    },
}

static FEATURES: LazyLock<Vec<Feature>> = LazyLock::new(|| {
    let mut all = [table::ASKED_FOR, table::FULL_INFLATION, table::SETTLED].concat();
    all.sort_unstable_by_key(|feature| feature.id);
    all
});

/// Every feature that this program knows, sorted by address.
pub fn all() -> &'static [Feature] {
    &FEATURES
}

/// The feature at an address.
pub fn of_id(id: &Pubkey) -> Option<&'static Feature> {
    FEATURES.binary_search_by_key(id, |feature| feature.id).ok().map(|index| &FEATURES[index])
}

/// The features with which a local chain begins: those that were active on mainnet on [`MAINNET_AS_OF`] and are
/// supported here, and the required ones.
pub fn mainnet() -> impl Iterator<Item = &'static Feature> {
    supported().filter(|feature| feature.support == Support::Required || feature.is_on_mainnet())
}

/// The features that may be active from the start.
pub fn supported() -> impl Iterator<Item = &'static Feature> {
    FEATURES.iter().filter(|feature| feature.support != Support::Unsupported)
}

/// The genesis accounts of features that are active from slot 0 on.
pub fn feature_accounts<'a>(features: impl IntoIterator<Item = &'a Feature>) -> Vec<(Pubkey, Account)> {
    features.into_iter().map(|feature| (feature.id, feature_account(Some(0)))).collect()
}

/// The account of a feature that is active since a slot, or pending.
pub fn feature_account(since: Option<u64>) -> Account {
    let data = encode(since);
    Account::with_data(minimum_balance(data.len()), FEATURE_PROGRAM, &data)
}

fn encode(since: Option<u64>) -> [u8; FEATURE_BYTES] {
    let mut data = [0; FEATURE_BYTES];
    if let Some(slot) = since {
        data[0] = 1;
        data[1..].copy_from_slice(&slot.to_le_bytes());
    }
    data
}

/// The state of an account's feature: the slot since which it is active, or that it is pending. `None` if it is no
/// feature account.
pub fn state_of(account: &Account) -> Option<Option<u64>> {
    let (data, _) = account.data().split_first_chunk::<FEATURE_BYTES>()?;
    if account.owner != FEATURE_PROGRAM {
        return None;
    }
    match data {
        [0, ..] => Some(None),
        [1, slot @ ..] => Some(Some(u64::from_le_bytes(*slot))),
        _ => None,
    }
}

impl Feature {
    /// Whether it was active on mainnet on [`MAINNET_AS_OF`].
    pub fn is_on_mainnet(&self) -> bool {
        !table::NOT_ON_MAINNET.contains(&self.name)
    }

    /// Whether it would replace a program by the content of a buffer that is not there: then nothing happens.
    fn lacks_buffer(&self, accounts: &Accounts) -> bool {
        let buffer = table::BUFFERS.iter().find(|(feature, _)| *feature == self.id);
        buffer.is_some_and(|(_, buffer)| accounts.with(buffer, |_| ()).is_none())
    }

    fn unsupported(&self, slot: u64) -> FeatureError {
        FeatureError::Unsupported { name: self.name, slot, note: self.note }
    }
}

/// The features that are active on a chain, with the slots since which they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveFeatures {
    slots: BTreeMap<Pubkey, u64>,
    pub(crate) rules: Rules,
}

impl ActiveFeatures {
    /// A set with these features, each with the slot since which it is active.
    pub fn new(features: impl IntoIterator<Item = (Pubkey, u64)>) -> Self {
        let slots = BTreeMap::from_iter(features);
        let rules = Rules::of(|id| slots.contains_key(id));
        Self { slots, rules }
    }

    /// Every supported feature, active from slot 0 on.
    pub fn supported() -> Self {
        Self::new(supported().map(|feature| (feature.id, 0)))
    }

    /// The features that the accounts say are active in `slot`, and the rent that its sysvar says. If there is no
    /// feature account at all, the supported ones.
    pub(crate) fn load(accounts: &Accounts, slot: u64) -> Self {
        let mut is_bare = true;
        let mut active = vec![];
        for feature in all() {
            let Some(state) = accounts.with(&feature.id, state_of).flatten() else { continue };
            is_bare = false;
            active.extend(state.filter(|since| *since <= slot).map(|since| (feature.id, since)));
        }
        let mut features = if is_bare { Self::supported() } else { Self::new(active) };
        features.rules.lamports_per_byte =
            sysvars::lamports_per_byte(accounts).unwrap_or(features.rules.lamports_per_byte);
        features
    }

    /// Whether a feature is active.
    pub fn is_active(&self, id: &Pubkey) -> bool {
        self.slots.contains_key(id)
    }

    /// The slot since which a feature is active.
    pub fn since(&self, id: &Pubkey) -> Option<u64> {
        self.slots.get(id).copied()
    }

    /// The minimum balance in lamports of an account with `data_len` bytes of data.
    pub fn minimum_balance(&self, data_len: usize) -> u64 {
        self.rules.minimum_balance(data_len)
    }

    /// The lamports that an account must hold for each byte.
    pub fn lamports_per_byte(&self) -> u64 {
        self.rules.lamports_per_byte
    }

    /// Whether a feature applies to the shreds of an epoch: it became active in an earlier one.
    pub fn applies_to_shreds(&self, id: &Pubkey, epoch: u64, schedule: &EpochSchedule) -> bool {
        self.since(id).is_some_and(|slot| schedule.epoch(slot) < epoch)
    }

    /// The active features with their slots, sorted by address.
    pub fn iter(&self) -> impl Iterator<Item = (&Pubkey, u64)> {
        self.slots.iter().map(|(id, slot)| (id, *slot))
    }

    /// Whether this program can run a chain with these features.
    ///
    /// # Errors
    /// The first feature, by address, that is active and unsupported, or required and not active.
    pub fn check(&self) -> Result<(), FeatureError> {
        for feature in all() {
            match (feature.support, self.since(&feature.id)) {
                (Support::Unsupported, Some(slot)) => return Err(feature.unsupported(slot)),
                (Support::Required, None) => {
                    return Err(FeatureError::Missing { name: feature.name, note: feature.note });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// [`ActiveFeatures::check`] of a whole chain, `active` being its set. A bare chain has no features here.
    pub(crate) fn check_chain(active: &Self, accounts: &Accounts) -> Result<(), FeatureError> {
        let is_bare = all().iter().all(|feature| accounts.with(&feature.id, state_of).flatten().is_none());
        if is_bare { Self::new([]).check() } else { active.check() }
    }

    /// The builtin programs that a chain without these features lacks.
    pub(crate) fn absent_programs(&self) -> impl Iterator<Item = GatedProgram> {
        gated_programs().into_iter().filter(|program| !self.is_active(&program.feature))
    }

    /// Begins an epoch in `slot`: pending features become active, which their accounts then say, the rent sysvar
    /// follows, and builtin programs appear. Returns the new set if it differs.
    ///
    /// # Errors
    /// A feature would become active that this program does not support; nothing has changed.
    pub(crate) fn begin_epoch(&self, accounts: &Accounts, slot: u64) -> Result<Option<Arc<Self>>, FeatureError> {
        let UpcomingFeatures { pending, mut active } = self.upcoming(accounts, slot)?;
        if active.is_empty() {
            return Ok(None);
        }
        for id in &pending {
            accounts.update(id, |account| {
                let mut data = account.data().to_vec();
                data[..FEATURE_BYTES].copy_from_slice(&encode(Some(slot)));
                account.set_data(&data);
            });
        }
        active.extend(self.iter().map(|(id, since)| (*id, since)));
        let mut new = Self::new(active);
        new.rules.lamports_per_byte = self.rules.lamports_per_byte_after(&pending);
        if new.lamports_per_byte() != self.lamports_per_byte() {
            sysvars::set_lamports_per_byte(accounts, new.lamports_per_byte());
        }
        // As in the cluster's bank, a feature whose account names its slot in advance has no effect but on rules.
        for program in self.absent_programs().filter(|program| pending.contains(&program.feature)) {
            // No transaction can have written there: the address is reserved.
            accounts.store(&program.key, program.account());
        }
        Ok(Some(Arc::new(new)))
    }

    /// The features that become active if an epoch begins in `slot`.
    ///
    /// # Errors
    /// One of them is not supported.
    pub(crate) fn upcoming(&self, accounts: &Accounts, slot: u64) -> Result<UpcomingFeatures, FeatureError> {
        let mut pending = vec![];
        let mut active: Vec<(Pubkey, u64)> = vec![];
        for feature in all().iter().filter(|feature| !self.is_active(&feature.id)) {
            let since = match accounts.with(&feature.id, state_of).flatten() {
                None => continue,
                Some(None) => {
                    pending.push(feature.id);
                    slot
                }
                Some(Some(since)) if since <= slot => since,
                Some(Some(_)) => continue,
            };
            let is_late = feature.support == Support::FromStart && !feature.lacks_buffer(accounts);
            if feature.support == Support::Unsupported || is_late {
                return Err(feature.unsupported(slot));
            }
            active.push((feature.id, since));
        }
        Ok(UpcomingFeatures { pending, active })
    }
}

/// Features that become active at the beginning of an epoch.
pub(crate) struct UpcomingFeatures {
    /// The features whose accounts do not say a slot yet.
    pending: Vec<Pubkey>,
    /// All, with the slots since which they are active.
    active: Vec<(Pubkey, u64)>,
}
