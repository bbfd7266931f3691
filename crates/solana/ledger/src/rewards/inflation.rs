//! inflation: how many lamports an epoch adds.
//!
//! reads   the genesis, the features that switch inflation on, the epoch schedule
//! source  `calculate_epoch_inflation_rewards` and its neighbours in `bank.rs` of `solana-runtime` 4.2,
//!         `solana-time-utils`; floating point, so the order of the operations counts

use agave_feature_set::{full_inflation, pico_inflation};
use solana_inflation::Inflation;

use crate::epoch::EpochSchedule;
use crate::features::{ActiveFeatures, state_of};
use crate::genesis::GenesisConfig;

/// Seconds in a year, as the cluster counts it.
const SECONDS_PER_YEAR: f64 = 365.242_199 * 24.0 * 60.0 * 60.0;
/// Nanoseconds in a second.
const NS_PER_SECOND: f64 = 1_000_000_000.0;

/// The inflation of a chain at some point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct InflationPoint {
    /// The yearly rates, and how they fall.
    pub(crate) inflation: Inflation,
    /// The slot in which the feature was activated that switched inflation on; 0 for that of the genesis.
    pub(crate) start_slot: u64,
    /// Slots in a year.
    pub(crate) slots_per_year: f64,
    named: NamedAtGenesis,
}

/// Which of the features that switch inflation on have a slot in the genesis, be it a later one. They are never
/// pending, and only a pending feature that becomes active replaces the inflation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NamedAtGenesis {
    pico: bool,
    full_on_testnets: bool,
    full_enable: bool,
}

impl NamedAtGenesis {
    fn of(genesis: &GenesisConfig) -> Self {
        let is_named = |id: [u8; 32]| {
            let account = genesis.extra_accounts.iter().rev().find(|(key, _)| *key == id);
            account.is_some_and(|(_, account)| state_of(account).flatten().is_some())
        };
        Self {
            pico: is_named(pico_inflation::ID.to_bytes()),
            full_on_testnets: is_named(full_inflation::devnet_and_testnet::ID.to_bytes()),
            full_enable: is_named(full_inflation::mainnet::certusone::enable::ID.to_bytes()),
        }
    }
}

/// The slots in which the features that switch inflation on were activated; `None` for those that are not active.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InflationFeatures {
    /// `pico_inflation`: a hundredth of a percent a year.
    pub(crate) pico: Option<u64>,
    /// `full_inflation::devnet_and_testnet`: the full rates on test clusters.
    pub(crate) full_on_testnets: Option<u64>,
    /// `full_inflation::mainnet::certusone::enable`, which counts only with the next one.
    pub(crate) full_enable: Option<u64>,
    /// `full_inflation::mainnet::certusone::vote`, which counts only with the previous one.
    pub(crate) full_vote: Option<u64>,
}

impl InflationFeatures {
    /// The features of a block.
    pub(crate) fn of(features: &ActiveFeatures) -> Self {
        let since = |id: [u8; 32]| features.since(&id);
        Self {
            pico: since(pico_inflation::ID.to_bytes()),
            full_on_testnets: since(full_inflation::devnet_and_testnet::ID.to_bytes()),
            full_enable: since(full_inflation::mainnet::certusone::enable::ID.to_bytes()),
            full_vote: since(full_inflation::mainnet::certusone::vote::ID.to_bytes()),
        }
    }

    /// All are active from genesis on, which leaves the inflation of the genesis.
    #[cfg(test)]
    pub(crate) const AT_GENESIS: Self =
        Self { pico: Some(0), full_on_testnets: Some(0), full_enable: Some(0), full_vote: Some(0) };
}

impl InflationPoint {
    /// The inflation of a new chain.
    pub(crate) fn of(genesis: &GenesisConfig) -> Self {
        let slots_per_year =
            SECONDS_PER_YEAR * (NS_PER_SECOND / genesis.tick_ns() as f64) / genesis.ticks_per_slot as f64;
        Self { inflation: genesis.inflation, start_slot: 0, slots_per_year, named: NamedAtGenesis::of(genesis) }
    }

    /// The inflation once these features are active, on a chain that began with this one. Only a feature that was
    /// pending and became active replaces the inflation. One whose account has a slot since the genesis leaves it, and
    /// moves the beginning of the years alone.
    pub(crate) fn with_features(self, features: &InflationFeatures) -> Self {
        let InflationFeatures { pico, full_on_testnets, full_enable, full_vote } = *features;
        let enabled = full_enable.filter(|_| full_vote.is_some());
        let start_slot = enabled.into_iter().chain(full_on_testnets).min().or(pico).unwrap_or(0);
        // The activation that enables needs the vote, which may be of the same slot but not of a later one.
        let switched = enabled.filter(|at| full_vote.is_some_and(|vote| vote <= *at) && !self.named.full_enable);
        let on_testnets = full_on_testnets.filter(|_| !self.named.full_on_testnets);
        let full = switched.into_iter().chain(on_testnets).filter(|at| *at > 0).max();
        let inflation = match (full, pico.filter(|at| *at > 0 && !self.named.pico)) {
            (None, None) => self.inflation,
            (Some(full), pico) if pico.is_none_or(|pico| pico <= full) => Inflation::full(),
            _ => Inflation::pico(),
        };
        Self { inflation, start_slot, ..self }
    }

    /// The years of inflation that have passed when `epoch` begins. They start an epoch before that of the activation.
    pub(crate) fn years(&self, schedule: &EpochSchedule, epoch: u64) -> f64 {
        let from = schedule.first_slot(schedule.epoch(self.start_slot).saturating_sub(1));
        schedule.first_slot(epoch).saturating_sub(from) as f64 / self.slots_per_year
    }

    /// The lamports for validators and stakes that are added when `epoch` begins, for the epoch `rewarded`.
    pub(crate) fn lamports(&self, schedule: &EpochSchedule, capitalization: u64, rewarded: u64, epoch: u64) -> u64 {
        let rate = self.inflation.validator(self.years(schedule, epoch));
        let duration = schedule.slots_in_epoch(rewarded) as f64 / self.slots_per_year;
        (rate * capitalization as f64 * duration) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::feature_account;

    fn chain() -> InflationPoint {
        let genesis =
            GenesisConfig { inflation: Inflation::default(), ..GenesisConfig::development([1; 32], [2; 32], 0) };
        InflationPoint::of(&genesis)
    }

    /// Slots of 400 ms: 31,556,925.9936 seconds / 0.4, which is the cluster's own constant for such slots. The rate of
    /// the first year of full inflation is 8 %, of which the foundation gets 5 %; so in epoch 1 of 8,192 slots it is
    /// 0.08 · 0.85^(8192 / 78892314.984) · 0.95 of the lamports, for 8192 / 78892314.984 of a year.
    #[test]
    fn an_epoch_adds_its_part_of_the_year() {
        let chain = chain();
        assert_eq!(chain.slots_per_year, 78_892_314.984);
        let schedule = EpochSchedule::without_warmup(8_192);
        assert_eq!((chain.years(&schedule, 0), chain.years(&schedule, 1)), (0.0, 8_192.0 / 78_892_314.984));
        let capitalization = 500_000_000_000_000_000u64;
        let years = 8_192.0 / 78_892_314.984;
        let total = 0.08 * 0.85f64.powf(years);
        let expected = ((total - total * 0.05) * 500_000_000_000_000_000f64 * years) as u64;
        assert_eq!(chain.lamports(&schedule, capitalization, 0, 1), expected);
        // By hand: 3.8e16 · 1.03838e-4 = 3.94585e12, less 1.7e-5 of it for the taper.
        assert!(expected.abs_diff(3_945_780_000_000) < 100_000_000, "{expected}");
        let none = InflationPoint { inflation: Inflation::new_disabled(), ..chain };
        assert_eq!(none.lamports(&schedule, u64::MAX, 0, 1), 0);
    }

    #[test]
    fn features_switch_inflation_on() {
        let none = InflationPoint { inflation: Inflation::new_disabled(), ..chain() };
        let of = |features: InflationFeatures| {
            let switched = none.with_features(&features);
            (switched.inflation, switched.start_slot)
        };
        let (all, off) = (InflationFeatures::default(), Inflation::new_disabled());
        assert_eq!(of(all), (off, 0));
        assert_eq!(of(InflationFeatures::AT_GENESIS), (off, 0));
        assert_eq!(of(InflationFeatures { pico: Some(64), ..all }), (Inflation::pico(), 64));
        let full = InflationFeatures { pico: Some(64), full_on_testnets: Some(96), ..all };
        assert_eq!(of(full), (Inflation::full(), 96));
        assert_eq!(of(InflationFeatures { full_on_testnets: Some(64), ..full }), (Inflation::full(), 64));
        assert_eq!(of(InflationFeatures { full_on_testnets: Some(32), ..full }), (Inflation::pico(), 32));
        let both = InflationFeatures { full_enable: Some(96), full_vote: Some(64), ..all };
        assert_eq!(of(both), (Inflation::full(), 96));
        assert_eq!(of(InflationFeatures { full_vote: None, ..both }), (off, 0));
        assert_eq!(of(InflationFeatures { full_vote: Some(128), ..both }), (off, 96), "the vote came too late");
    }

    #[test]
    fn a_slot_named_at_genesis_switches_nothing() {
        let switched = |id: [u8; 32], at: Option<u64>, features: InflationFeatures| {
            let genesis = GenesisConfig {
                inflation: Inflation::new_disabled(),
                extra_accounts: vec![(id, feature_account(at))],
                ..GenesisConfig::development([1; 32], [2; 32], 0)
            };
            let inflating = InflationPoint::of(&genesis).with_features(&features);
            (inflating.inflation, inflating.start_slot)
        };
        let (all, off) = (InflationFeatures::default(), Inflation::new_disabled());
        let pico = InflationFeatures { pico: Some(40), ..all };
        let full = InflationFeatures { full_on_testnets: Some(40), ..all };
        let both = InflationFeatures { full_enable: Some(40), full_vote: Some(40), ..all };
        let enable = full_inflation::mainnet::certusone::enable::ID.to_bytes();
        for (id, features, on) in [
            (pico_inflation::ID.to_bytes(), pico, Inflation::pico()),
            (full_inflation::devnet_and_testnet::ID.to_bytes(), full, Inflation::full()),
            (enable, both, Inflation::full()),
        ] {
            assert_eq!(switched(id, Some(40), features), (off, 40));
            assert_eq!(switched(id, None, features), (on, 40), "it was pending");
        }
        // The vote only allows the switch: it may be there from the start.
        let vote = full_inflation::mainnet::certusone::vote::ID.to_bytes();
        assert_eq!(switched(vote, Some(33), both), (Inflation::full(), 40));
    }

    #[test]
    fn years_start_an_epoch_before_the_activation() {
        let schedule = EpochSchedule::without_warmup(32);
        let late = InflationPoint { start_slot: 100, ..chain() };
        assert_eq!(late.years(&schedule, 4), 64.0 / 78_892_314.984);
    }
}
