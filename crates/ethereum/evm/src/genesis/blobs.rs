//! How many blobs a block may hold, and how their price moves: by fork, and by forks of these numbers alone.
//!
//! reads   `blobSchedule` and `bpo1Time` to `bpo5Time` of a genesis' `config`
//! writes  the numbers that hold at a time
//! memory  a few words for each fork
//! drops   numbers that cannot be, or a time without numbers: an error that names the field
//! source  EIP-7840, 7892; geth's `params.BlobScheduleConfig` and its checks

use alloy_eips::eip7840::BlobParams;
use alloy_eips::eip7892::BlobScheduleBlobParams;
use alloy_genesis::ChainConfig;
use revm::primitives::hardfork::SpecId;

use super::GenesisError;

/// The numbers of blobs of a chain, by fork. Default: those of Ethereum's mainnet, without forks of the numbers alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobSchedule {
    schedule: BlobScheduleBlobParams,
}

impl BlobSchedule {
    /// The numbers that hold in a block of this time under the rules of `spec`; before Cancun those of Cancun.
    pub fn at(&self, spec: SpecId, timestamp: u64) -> BlobParams {
        let schedule = &self.schedule;
        if spec.is_enabled_in(SpecId::OSAKA) {
            return *schedule.active_scheduled_params_at_timestamp(timestamp).unwrap_or(&schedule.osaka);
        }
        if spec.is_enabled_in(SpecId::PRAGUE) { schedule.prague } else { schedule.cancun }
    }

    /// Those that begin at a time of their own, after Osaka.
    pub fn scheduled(&self) -> &[(u64, BlobParams)] {
        &self.schedule.scheduled
    }

    /// Those of geth's `config`. Refuses a fork of the numbers alone without its numbers, or before its predecessor.
    pub(super) fn from_config(config: &ChainConfig) -> Result<Self, GenesisError> {
        let wrong = |what: String| Err(GenesisError::Blobs(what));
        for (name, params) in &config.blob_schedule {
            let BlobParams { target_blob_count: target, max_blob_count: max, update_fraction: fraction, .. } = *params;
            if max == 0 || target > max || max > BLOBS_MAX || fraction == 0 || fraction > u128::from(u64::MAX) {
                return wrong(format!(
                    "blobSchedule.{name}: target {target}, max {max}, baseFeeUpdateFraction {fraction}: there must be 1 \
                     to {BLOBS_MAX} blobs, of which at most all are the target, and a fraction above 0 of 64 bits"
                ));
            }
        }
        let times = [
            ("osakaTime", "osaka", config.osaka_time),
            ("bpo1Time", "bpo1", config.bpo1_time),
            ("bpo2Time", "bpo2", config.bpo2_time),
            ("bpo3Time", "bpo3", config.bpo3_time),
            ("bpo4Time", "bpo4", config.bpo4_time),
            ("bpo5Time", "bpo5", config.bpo5_time),
        ];
        // Each may be left out; those that are there come in order, and after Osaka.
        let mut before = times[0];
        for fork @ (name, key, time) in times.into_iter().skip(1) {
            let Some(time) = time else { continue };
            if !config.blob_schedule.contains_key(key) {
                return wrong(format!("{name} is set while blobSchedule.{key} is not: it says nothing without"));
            }
            match before {
                (earlier, _, None) => return wrong(format!("{name} is set while {earlier} is not")),
                (earlier, _, Some(begins)) if begins > time => {
                    return wrong(format!("{name} is {time}, before {earlier}, which is {begins}"));
                }
                _ => before = fork,
            }
        }
        let mut schedule = config.blob_schedule_blob_params();
        // By time alone: of two that begin together the later one must win.
        schedule.scheduled.sort_by_key(|(time, _)| *time);
        Ok(Self { schedule })
    }
}

/// More than any chain has, and few enough for their gas to be counted in 64 bits.
const BLOBS_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn config(times: [Option<u64>; 3], schedule: &[(&str, [u64; 3])]) -> ChainConfig {
        let numbers = |[target, max, fraction]: [u64; 3]| BlobParams {
            target_blob_count: target,
            max_blob_count: max,
            update_fraction: u128::from(fraction),
            ..BlobParams::prague()
        };
        let [osaka_time, bpo1_time, bpo2_time] = times;
        let blob_schedule = schedule.iter().map(|(name, three)| ((*name).to_owned(), numbers(*three))).collect();
        ChainConfig { osaka_time, bpo1_time, bpo2_time, blob_schedule, ..ChainConfig::default() }
    }

    #[test]
    fn numbers_change_with_their_time() {
        let forks = [("bpo1", [10, 15, 8_346_193]), ("bpo2", [14, 21, 11_684_671])];
        let schedule = BlobSchedule::from_config(&config([Some(50), Some(100), Some(200)], &forks)).expect("in order");
        let max = |spec, time| schedule.at(spec, time).max_blob_count;
        assert_eq!([max(SpecId::CANCUN, 0), max(SpecId::PRAGUE, 10), max(SpecId::OSAKA, 50)], [6, 9, 9]);
        assert_eq!([99, 100, 199, 200].map(|time| max(SpecId::OSAKA, time)), [9, 15, 15, 21]);
        assert_eq!(schedule.at(SpecId::OSAKA, 100).max_blobs_per_tx, 6, "EIP-7594 holds on");
        let both = BlobSchedule::from_config(&config([Some(0), Some(100), Some(100)], &forks)).expect("together");
        assert_eq!(both.at(SpecId::OSAKA, 100).max_blob_count, 21);
        assert_eq!(BlobSchedule::default().at(SpecId::OSAKA, u64::MAX).max_blob_count, 9);
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        let good = [("bpo1", [10, 15, 8_346_193]), ("bpo2", [14, 21, 11_684_671])];
        let error = |times, schedule: &[(&str, [u64; 3])]| {
            BlobSchedule::from_config(&config(times, schedule)).expect_err("it cannot be").to_string()
        };
        let lacks = error([Some(0), Some(100), Some(200)], &good[..1]);
        assert!(lacks.contains("bpo2Time") && lacks.contains("blobSchedule.bpo2"), "{lacks}");
        let early = error([Some(150), Some(100), None], &good);
        assert!(early.contains("bpo1Time") && early.contains("osakaTime"), "{early}");
        assert!(error([Some(0), Some(100), Some(99)], &good).contains("bpo2Time is 99, before bpo1Time"));
        assert!(error([None, Some(100), None], &good).contains("osakaTime is not"));
        for three in [[0, 0, 1], [7, 6, 1], [6, 9, 0], [6, u64::MAX, 1]] {
            assert!(error([None; 3], &[("cancun", three)]).contains("blobSchedule.cancun"), "{three:?}");
        }
    }
}
