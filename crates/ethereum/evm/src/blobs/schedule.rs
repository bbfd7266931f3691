//! The number of blobs per block and the change of their price, by fork.
//!
//! source  EIP-7840 for `blobSchedule`, EIP-7892 for blob-parameter-only forks; mainnet's values by default

use alloy_eips::eip7892::BlobScheduleBlobParams;
use alloy_genesis::ChainConfig;
use revm::primitives::hardfork::SpecId;

use super::BlobParams;

/// More blobs in a block than any network has in mind: a slip of the pen.
const BLOBS_MAX: u64 = 4096;

/// The parameters of each fork.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobSchedule(BlobScheduleBlobParams);

impl BlobSchedule {
    /// Reads those of geth's `config`; the error says what is wrong.
    pub fn from_config(config: &ChainConfig) -> Result<Self, String> {
        for (fork, params) in &config.blob_schedule {
            let BlobParams { target_blob_count: target, max_blob_count: max, update_fraction, .. } = params;
            if *max == 0 || *max > BLOBS_MAX || target > max || *update_fraction == 0 {
                return Err(format!(
                    "{fork}: target {target}, max {max}, baseFeeUpdateFraction {update_fraction}: max is from 1 to \
                     {BLOBS_MAX}, target at most max, the fraction above 0"
                ));
            }
        }
        check_times(config)?;
        Ok(Self(config.blob_schedule_blob_params()))
    }

    /// The times at which the bounds alone change, after Osaka; the earliest first.
    pub fn times(&self) -> impl Iterator<Item = u64> {
        self.0.scheduled.iter().map(|(time, _)| *time)
    }

    /// All, each with what [`BlobSchedule::set`] takes as its name: that of a fork, or the time at which it begins.
    pub(crate) fn named(&self) -> impl Iterator<Item = (String, &BlobParams)> {
        let forks = [("cancun", self.0.cancun()), ("prague", self.0.prague()), ("osaka", self.0.osaka())];
        let forks = forks.map(|(fork, params)| (fork.to_owned(), params));
        forks.into_iter().chain(self.0.scheduled.iter().map(|(time, params)| (time.to_string(), params)))
    }

    /// Sets target, most and pace of one; `None` where nothing has that name.
    pub(crate) fn set(&mut self, name: &str, target: u64, max: u64, update_fraction: u128) -> Option<()> {
        let bounds =
            |of: BlobParams| BlobParams { target_blob_count: target, max_blob_count: max, update_fraction, ..of };
        match name {
            "cancun" => self.0.cancun = bounds(BlobParams::cancun()).with_max_blobs_per_tx(max),
            "prague" => self.0.prague = bounds(BlobParams::prague()).with_max_blobs_per_tx(max),
            "osaka" => self.0.osaka = bounds(BlobParams::osaka()),
            time => self.0.scheduled.push((time.parse().ok()?, bounds(BlobParams::osaka()))),
        }
        Some(())
    }

    /// Returns the bounds of a block of fork `spec` at this time. Before Cancun there are no blobs, and nothing asks.
    pub fn params(&self, spec: SpecId, timestamp: u64) -> BlobParams {
        if spec.is_enabled_in(SpecId::OSAKA) {
            return *self.0.active_scheduled_params_at_timestamp(timestamp).unwrap_or(self.0.osaka());
        }
        *if spec.is_enabled_in(SpecId::PRAGUE) { self.0.prague() } else { self.0.cancun() }
    }
}

/// Refuses a fork of blobs alone without its numbers, or before the one that it builds on.
fn check_times(config: &ChainConfig) -> Result<(), String> {
    let forks = [
        ("bpo1", config.bpo1_time),
        ("bpo2", config.bpo2_time),
        ("bpo3", config.bpo3_time),
        ("bpo4", config.bpo4_time),
        ("bpo5", config.bpo5_time),
    ];
    let mut before = ("osaka", config.osaka_time);
    for fork @ (name, time) in forks {
        let Some(time) = time else { continue };
        if !config.blob_schedule.contains_key(name) {
            return Err(format!("{name}: is not set while {name}Time is"));
        }
        match before {
            (earlier, None) => return Err(format!("{name}: {name}Time is set while {earlier}Time is not")),
            (earlier, Some(begins)) if begins > time => {
                return Err(format!("{name}: {name}Time is {time}, before {earlier}Time, which is {begins}"));
            }
            _ => before = fork,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(target: u64, max: u64) -> BlobParams {
        BlobParams { target_blob_count: target, max_blob_count: max, ..BlobParams::osaka() }
    }

    fn config(blobs: &[(&str, BlobParams)]) -> ChainConfig {
        let blob_schedule = blobs.iter().map(|(fork, params)| ((*fork).to_owned(), *params)).collect();
        let time = |fork: &str, time: u64| blobs.iter().any(|(name, _)| *name == fork).then_some(time);
        let (bpo1_time, bpo2_time) = (time("bpo1", 100), time("bpo2", 200));
        ChainConfig { blob_schedule, osaka_time: Some(50), bpo1_time, bpo2_time, ..Default::default() }
    }

    #[test]
    fn each_fork_has_its_own_bounds() {
        let forks = [("prague", params(5, 8)), ("bpo1", params(10, 15)), ("bpo2", params(14, 21))];
        let schedule = BlobSchedule::from_config(&config(&forks)).expect("a good one");
        let max = |spec, time| schedule.params(spec, time).max_blob_count;
        assert_eq!(max(SpecId::CANCUN, 500), 6, "the mainnet's, as none is named");
        assert_eq!(max(SpecId::PRAGUE, 500), 8);
        assert_eq!(max(SpecId::OSAKA, 99), 9);
        assert_eq!((max(SpecId::OSAKA, 100), max(SpecId::OSAKA, 200)), (15, 21));
        assert_eq!(schedule.params(SpecId::OSAKA, 200).max_blobs_per_tx, 6);
    }

    #[test]
    fn forks_of_blobs_alone_need_numbers_and_come_in_order() {
        let good = config(&[("bpo1", params(10, 15)), ("bpo2", params(14, 21))]);
        let said = |config: &ChainConfig| BlobSchedule::from_config(config).expect_err("it cannot be");
        BlobSchedule::from_config(&good).expect("it can");
        let without = ChainConfig { bpo3_time: Some(300), ..good.clone() };
        assert!(said(&without).contains("bpo3: is not set while bpo3Time is"));
        let early = ChainConfig { bpo2_time: Some(99), ..good.clone() };
        assert!(said(&early).contains("bpo2Time is 99, before bpo1Time"));
        let alone = ChainConfig { osaka_time: None, ..good };
        assert!(said(&alone).contains("osakaTime is not"));
    }

    #[test]
    fn bounds_that_contradict_are_refused() {
        for wrong in [params(0, 0), params(7, 6), params(1, BLOBS_MAX + 1)] {
            assert!(BlobSchedule::from_config(&config(&[("osaka", wrong)])).is_err(), "{wrong:?}");
        }
        let still = BlobParams { update_fraction: 0, ..params(1, 2) };
        assert!(BlobSchedule::from_config(&config(&[("osaka", still)])).is_err());
    }
}
