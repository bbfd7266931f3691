//! The rules of each block: forks by height up to the merge, by time after it.
//!
//! source  geth's `params.ChainConfig`: the order of forks, and that a fork by time presupposes London

use std::collections::BTreeSet;

use alloy_genesis::ChainConfig;
use alloy_primitives::{B256, U256};
use revm::primitives::hardfork::SpecId;

use super::GenesisError;

/// The block reward before Byzantium, in ether.
const FIRST_REWARD: u64 = 5;

/// The beginning of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// With the block of this height.
    Height(u64),
    /// The first block whose time is this or later, in seconds of the Unix epoch.
    Time(u64),
}

impl Activation {
    /// Whether it holds for a block of this height and time.
    pub fn is_active(self, number: u64, timestamp: u64) -> bool {
        match self {
            Self::Height(height) => number >= height,
            Self::Time(time) => timestamp >= time,
        }
    }
}

/// The rules of proof of work from a height on, as far as the forks of execution do not say them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRules {
    /// The first block's number.
    pub from: u64,
    /// By how many blocks the difficulty bomb is put off.
    pub bomb_delay: u64,
    /// The block reward, in ether.
    pub reward: u64,
}

/// The forks of a chain, oldest first. What no entry names is Frontier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forks {
    scheduled: Vec<(SpecId, Activation)>,
    /// The proof-of-work rules, the earliest first.
    work: Vec<WorkRules>,
}

impl Forks {
    /// Every fork that this node knows, from block zero.
    pub fn newest() -> Self {
        Self::all_until(SpecId::OSAKA)
    }

    /// The rules of `spec` from block zero.
    pub fn all_until(spec: SpecId) -> Self {
        Self { scheduled: vec![(spec, Activation::Height(0))], work: Vec::new() }
    }

    /// The forks and their beginnings, oldest first.
    pub fn scheduled(&self) -> &[(SpecId, Activation)] {
        &self.scheduled
    }

    /// The rules of the block of this height and time. Times count from the merge on, so that no block before it brings
    /// a later fork by the time that it names.
    pub fn spec(&self, number: u64, timestamp: u64) -> SpecId {
        let is_active = |from: Activation| from.is_active(number, timestamp);
        let is_worked = self.scheduled.iter().any(|(spec, from)| *spec == SpecId::MERGE && !is_active(*from));
        let counts = |from: Activation| !is_worked || matches!(from, Activation::Height(_));
        let active = self.scheduled.iter().rev().find(|(_, from)| is_active(*from) && counts(*from));
        active.map_or(SpecId::FRONTIER, |(spec, _)| *spec)
    }

    /// The rules of work of the block of this height.
    pub fn work(&self, number: u64) -> WorkRules {
        let first = WorkRules { from: 0, bomb_delay: 0, reward: FIRST_REWARD };
        self.work.iter().rev().find(|rules| number >= rules.from).copied().unwrap_or(first)
    }

    /// The checksum over block zero and the forks that hold for a block of this height and time (EIP-2124). `zero` is
    /// the hash of block zero, `zero_time` its time: what holds from there on counts for nothing. `blob_times` are
    /// those at which the bounds on blobs alone change (EIP-7892).
    pub fn id(
        &self,
        zero: &B256,
        zero_time: u64,
        blob_times: impl Iterator<Item = u64>,
        number: u64,
        timestamp: u64,
    ) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(zero.as_slice());
        let (mut heights, mut times) = (BTreeSet::new(), BTreeSet::new());
        let blobs = blob_times.map(Activation::Time);
        let work = self.work.iter().map(|rules| Activation::Height(rules.from));
        for from in self.scheduled.iter().map(|(_, from)| *from).chain(work).chain(blobs) {
            match from {
                _ if !from.is_active(number, timestamp) => {}
                Activation::Height(height) if height > 0 => {
                    heights.insert(height);
                }
                Activation::Time(time) if time > zero_time => {
                    times.insert(time);
                }
                _ => {}
            }
        }
        heights.iter().chain(&times).for_each(|point: &u64| hasher.update(&point.to_be_bytes()));
        hasher.finalize()
    }

    /// The forks of geth's `config`. Refuses a fork without the one it builds on.
    pub(super) fn from_config(config: &ChainConfig) -> Result<Self, GenesisError> {
        for (name, time) in [("amsterdamTime", config.amsterdam_time), ("bogotaTime", config.bogota_time)] {
            if time.is_some() {
                return Err(GenesisError::UnknownFork(name));
            }
        }
        let mut heights = [
            ("homesteadBlock", config.homestead_block, Some(SpecId::HOMESTEAD)),
            ("eip150Block", config.eip150_block, Some(SpecId::TANGERINE)),
            ("eip155Block", config.eip155_block, None),
            ("eip158Block", config.eip158_block, Some(SpecId::SPURIOUS_DRAGON)),
            ("byzantiumBlock", config.byzantium_block, Some(SpecId::BYZANTIUM)),
            ("constantinopleBlock", config.constantinople_block, None),
            // By default it came with Constantinople, as in geth.
            ("petersburgBlock", config.petersburg_block.or(config.constantinople_block), Some(SpecId::PETERSBURG)),
            ("istanbulBlock", config.istanbul_block, Some(SpecId::ISTANBUL)),
            ("muirGlacierBlock", config.muir_glacier_block, None),
            ("berlinBlock", config.berlin_block, Some(SpecId::BERLIN)),
            ("londonBlock", config.london_block, Some(SpecId::LONDON)),
            ("arrowGlacierBlock", config.arrow_glacier_block, None),
            ("grayGlacierBlock", config.gray_glacier_block, None),
            ("mergeNetsplitBlock", config.merge_netsplit_block, None),
        ];
        let times = [
            ("shanghaiTime", config.shanghai_time, Some(SpecId::SHANGHAI)),
            ("cancunTime", config.cancun_time, Some(SpecId::CANCUN)),
            ("pragueTime", config.prague_time, Some(SpecId::PRAGUE)),
            ("osakaTime", config.osaka_time, Some(SpecId::OSAKA)),
        ];
        check_order(&heights)?;
        check_order(&times)?;
        if config.london_block.is_none() && config.shanghai_time.is_some() {
            let how = "is not set";
            return Err(GenesisError::ForkOrder { earlier: "londonBlock", later: "shanghaiTime", how });
        }
        let mut scheduled: Vec<(SpecId, Activation)> = Vec::new();
        for (name, at, _) in &mut heights {
            // Constantinople runs by the rules of Petersburg, which took one of its changes back at once.
            if *name == "petersburgBlock" {
                *at = config.constantinople_block.or(*at);
            }
        }
        scheduled.extend(heights.iter().filter_map(|(_, at, spec)| Some(((*spec)?, Activation::Height((*at)?)))));
        scheduled.extend(merge(config).map(|height| (SpecId::MERGE, Activation::Height(height))));
        scheduled.extend(times.iter().filter_map(|(_, at, spec)| Some(((*spec)?, Activation::Time((*at)?)))));
        Ok(Self { scheduled, work: work(config) })
    }
}

/// Returns how the forks before the merge change the rules of proof of work.
fn work(config: &ChainConfig) -> Vec<WorkRules> {
    let forks = [
        (config.byzantium_block, 3_000_000, 3),
        (config.constantinople_block, 5_000_000, 2),
        (config.petersburg_block, 5_000_000, 2),
        (config.muir_glacier_block, 9_000_000, 2),
        (config.london_block, 9_700_000, 2),
        (config.arrow_glacier_block, 10_700_000, 2),
        (config.gray_glacier_block, 11_400_000, 2),
    ];
    let rules =
        |(from, bomb_delay, reward): (Option<u64>, u64, u64)| Some(WorkRules { from: from?, bomb_delay, reward });
    forks.into_iter().filter_map(rules).collect()
}

/// The height of the merge: named, or that of London where no work was ever to be proven.
fn merge(config: &ChainConfig) -> Option<u64> {
    let at_london = config.terminal_total_difficulty == Some(U256::ZERO) || config.terminal_total_difficulty_passed;
    config.merge_netsplit_block.or(at_london.then_some(config.london_block).flatten())
}

type Fork = (&'static str, Option<u64>, Option<SpecId>);

/// Forks that a chain may leave out: they change the difficulty bomb alone, or name the merge's height.
const OPTIONAL: [&str; 4] = ["muirGlacierBlock", "arrowGlacierBlock", "grayGlacierBlock", "mergeNetsplitBlock"];

/// Each fork needs all before it that are not optional, and none begins before its predecessor.
fn check_order(forks: &[Fork]) -> Result<(), GenesisError> {
    let counts = |(name, at, _): &&Fork| at.is_some() || !OPTIONAL.contains(name);
    let forks: Vec<&Fork> = forks.iter().filter(counts).collect();
    for pair in forks.windows(2) {
        let (&(earlier, before, _), &(later, after, _)) = (pair[0], pair[1]);
        let how = match (before, after) {
            (None, Some(_)) => "is not set",
            (Some(before), Some(after)) if after < before => "begins later",
            _ => continue,
        };
        return Err(GenesisError::ForkOrder { earlier, later, how });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(last_height: usize, shanghai: Option<u64>) -> ChainConfig {
        let at = |index: usize| (index <= last_height).then_some(index as u64 * 10);
        ChainConfig {
            homestead_block: at(0),
            eip150_block: at(1),
            eip155_block: at(2),
            eip158_block: at(2),
            byzantium_block: at(3),
            constantinople_block: at(4),
            istanbul_block: at(5),
            berlin_block: at(6),
            london_block: at(7),
            terminal_total_difficulty: Some(U256::ZERO),
            shanghai_time: shanghai,
            ..Default::default()
        }
    }

    #[test]
    fn a_fork_begins_with_its_height_or_time() {
        let forks = Forks::from_config(&config(7, Some(1_000))).expect("in order");
        assert_eq!(forks.spec(0, 5), SpecId::HOMESTEAD);
        assert_eq!(forks.spec(19, 5), SpecId::TANGERINE);
        assert_eq!(forks.spec(39, 5), SpecId::BYZANTIUM);
        assert_eq!(forks.spec(40, 5), SpecId::PETERSBURG);
        assert_eq!(forks.spec(70, 999), SpecId::MERGE);
        assert_eq!(forks.spec(70, 1_000), SpecId::SHANGHAI);
        assert_eq!(forks.spec(69, 1_000), SpecId::BERLIN, "no time counts before the merge");
    }

    #[test]
    fn work_pays_less_and_the_bomb_is_put_off() {
        let config = ChainConfig { muir_glacier_block: Some(55), arrow_glacier_block: Some(80), ..config(7, None) };
        let forks = Forks::from_config(&config).expect("in order");
        let rules = [0, 29, 30, 40, 54, 55, 70, 79, 80].map(|number| {
            let WorkRules { bomb_delay, reward, .. } = forks.work(number);
            (bomb_delay / 100_000, reward)
        });
        let first = [(0, 5), (0, 5), (30, 3), (50, 2), (50, 2)];
        assert_eq!(rules[..5], first);
        assert_eq!(rules[5..], [(90, 2), (97, 2), (97, 2), (107, 2)]);
        // A fork of the bomb alone is one all the same.
        let without = Forks { work: Vec::new(), ..forks.clone() };
        let id = |forks: &Forks| forks.id(&B256::ZERO, 0, std::iter::empty(), 60, 0);
        assert_ne!(id(&forks), id(&without));
    }

    #[test]
    fn the_checksum_is_that_of_eip_2124() {
        // Ethereum's own: block zero, and the first two forks after it.
        let zero: B256 = "0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3".parse().unwrap();
        let scheduled = vec![
            (SpecId::FRONTIER, Activation::Height(0)),
            (SpecId::HOMESTEAD, Activation::Height(1_150_000)),
            (SpecId::TANGERINE, Activation::Height(1_920_000)),
        ];
        let forks = Forks { scheduled, work: Vec::new() };
        let id = |number| forks.id(&zero, 0, std::iter::empty(), number, 0);
        assert_eq!(id(0), 0xfc64_ec04);
        assert_eq!(id(1_150_000), 0x97c2_c34c);
        assert_eq!(id(u64::MAX), 0x91d1_f948);
        let later = |blob_times: &[u64]| forks.id(&zero, 5, blob_times.iter().copied(), 0, 10);
        assert_eq!(later(&[5, 11]), later(&[]), "one begins with block zero, the other has not begun");
        assert_ne!(later(&[6]), later(&[]));
    }

    #[test]
    fn a_fork_without_its_predecessor_is_refused() {
        let mut missing = config(7, None);
        missing.byzantium_block = None;
        let error = Forks::from_config(&missing).expect_err("no Byzantium");
        assert!(matches!(error, GenesisError::ForkOrder { earlier: "byzantiumBlock", .. }));
        let mut swapped = config(7, None);
        swapped.berlin_block = Some(71);
        let error = Forks::from_config(&swapped).expect_err("Berlin after London");
        assert!(matches!(error, GenesisError::ForkOrder { earlier: "berlinBlock", how: "begins later", .. }));
        assert!(Forks::from_config(&config(3, Some(5))).is_err(), "time without London");
        let early = ChainConfig { arrow_glacier_block: Some(69), ..config(7, None) };
        let error = Forks::from_config(&early).expect_err("a glacier before London");
        assert!(matches!(error, GenesisError::ForkOrder { later: "arrowGlacierBlock", how: "begins later", .. }));
        let merged = ChainConfig { merge_netsplit_block: Some(70), gray_glacier_block: Some(71), ..config(7, None) };
        let error = Forks::from_config(&merged).expect_err("the merge before a glacier");
        assert!(matches!(error, GenesisError::ForkOrder { earlier: "grayGlacierBlock", .. }));
        let without = ChainConfig { merge_netsplit_block: Some(70), ..config(7, None) };
        assert!(Forks::from_config(&without).is_ok(), "glaciers may be left out");
        let future = ChainConfig { amsterdam_time: Some(9), ..config(7, Some(1)) };
        assert!(matches!(Forks::from_config(&future), Err(GenesisError::UnknownFork("amsterdamTime"))));
    }

    #[test]
    fn without_any_fork_it_is_frontier() {
        assert_eq!(Forks::default().spec(5, 5), SpecId::FRONTIER);
        assert_eq!(Forks::newest().spec(0, 0), SpecId::OSAKA);
    }
}
