//! Proof of work without the proof: a block's required difficulty, and its rewards.
//!
//! reads   a block's header and its ommers, its parent's header, the genesis
//! writes  a difficulty; rewards by address
//! source  the yellow paper, 4.3.4 and 11.3; EIP-2 (Homestead), 100 (Byzantium); 649 and 1234 (later bomb, lower
//!         reward), 2384, 3554, 4345 and 5133 (later bomb)

use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_primitives::{Address, U256};
use revm::primitives::hardfork::SpecId;

use crate::genesis::Genesis;

/// The least difficulty before the bomb is added.
const DIFFICULTY_MIN: u64 = 131_072;
/// The difficulty moves in multiples of the parent's, divided by this.
const DIFFICULTY_DIVISOR: u64 = 2_048;
/// The most of these multiples by which the difficulty falls.
const FALL_MAX: u64 = 99;
/// Blocks after which the bomb doubles.
const BOMB_PERIOD: u64 = 100_000;
const WEI_PER_ETHER: u64 = 1_000_000_000_000_000_000;

/// The difficulty of a block at `timestamp` after `parent`, with the bomb put off by `bomb_delay` blocks.
pub(super) fn difficulty(spec: SpecId, bomb_delay: u64, timestamp: u64, parent: &Header) -> U256 {
    let seconds = timestamp.saturating_sub(parent.timestamp);
    let (rise, fall) = if spec.is_enabled_in(SpecId::BYZANTIUM) {
        let rise = if parent.ommers_hash == EMPTY_OMMER_ROOT_HASH { 1 } else { 2 };
        (rise, (seconds / 9).min(rise + FALL_MAX))
    } else if spec.is_enabled_in(SpecId::HOMESTEAD) {
        (1, (seconds / 10).min(1 + FALL_MAX))
    } else if seconds < 13 {
        (1, 0)
    } else {
        (0, 1)
    };
    let step = parent.difficulty / U256::from(DIFFICULTY_DIVISOR);
    let risen = parent.difficulty.saturating_add(step.saturating_mul(U256::from(rise)));
    let moved = risen.saturating_sub(step.saturating_mul(U256::from(fall))).max(U256::from(DIFFICULTY_MIN));
    match parent.number.saturating_add(1).saturating_sub(bomb_delay) / BOMB_PERIOD {
        0 | 1 => moved,
        period => moved.saturating_add(U256::from(2).saturating_pow(U256::from(period - 2))),
    }
}

/// Returns the rewards of a block before the merge, in wei: to the beneficiaries of its ommers by their age, then to
/// its own, including a part for each ommer. None since the merge.
pub fn rewards(header: &Header, ommers: &[Header], genesis: &Genesis) -> Vec<(Address, U256)> {
    if genesis.spec(header.number, header.timestamp).is_enabled_in(SpecId::MERGE) {
        return Vec::new();
    }
    let whole = U256::from(genesis.forks.work(header.number).reward) * U256::from(WEI_PER_ETHER);
    let of_ommer = |ommer: &Header| {
        let age = header.number.saturating_sub(ommer.number).min(8);
        (ommer.beneficiary, whole * U256::from(8 - age) / U256::from(8))
    };
    let of_miner = whole + whole / U256::from(32) * U256::from(ommers.len());
    ommers.iter().map(of_ommer).chain([(header.beneficiary, of_miner)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::Forks;

    /// The difficulty of a block `seconds` after a parent of this difficulty and height.
    fn after(spec: SpecId, before: u64, number: u64, seconds: u64) -> u64 {
        let parent = Header { difficulty: U256::from(before), number, timestamp: 1_000, ..Default::default() };
        let delay = if spec.is_enabled_in(SpecId::BYZANTIUM) { 3_000_000 } else { 0 };
        difficulty(spec, delay, 1_000 + seconds, &parent).to()
    }

    #[test]
    fn difficulty_follows_the_time_since_the_parent() {
        let million = 1 << 20;
        let step = million / 2_048;
        assert_eq!(after(SpecId::FRONTIER, million, 5, 12), million + step);
        assert_eq!(after(SpecId::FRONTIER, million, 5, 13), million - step);
        let homestead = [9, 10, 19, 20, 5_000].map(|seconds| after(SpecId::HOMESTEAD, million, 5, seconds));
        assert_eq!(homestead, [million + step, million, million, million - step, million - 99 * step]);
        let byzantium = [8, 9, 18, 5_000].map(|seconds| after(SpecId::BYZANTIUM, million, 5, seconds));
        assert_eq!(byzantium, [million + step, million, million - step, million - 99 * step]);
        assert_eq!(after(SpecId::HOMESTEAD, DIFFICULTY_MIN, 5, 20), DIFFICULTY_MIN);
        let of_ommers =
            Header { ommers_hash: Default::default(), difficulty: U256::from(million), ..Default::default() };
        assert_eq!(difficulty(SpecId::BYZANTIUM, 0, 9, &of_ommers), U256::from(million + step));
    }

    #[test]
    fn the_bomb_begins_with_the_third_period() {
        let bomb = |spec, number| after(spec, DIFFICULTY_MIN, number, 10) - DIFFICULTY_MIN;
        assert_eq!([199_998, 199_999, 299_999].map(|number| bomb(SpecId::HOMESTEAD, number)), [0, 1, 2]);
        assert_eq!([299_999, 3_199_998, 3_199_999].map(|number| bomb(SpecId::BYZANTIUM, number)), [0, 0, 1]);
    }

    #[test]
    fn ommers_are_paid_by_their_age() {
        let genesis = Genesis { forks: Forks::all_until(SpecId::HOMESTEAD), ..Genesis::dev(7, &[], 30_000_000) };
        let [miner, young, old] = [1, 2, 3].map(Address::repeat_byte);
        let header = |number, beneficiary| Header { number, beneficiary, ..Default::default() };
        let paid = rewards(&header(10, miner), &[header(9, young), header(4, old)], &genesis);
        let eighths = |count: u64| U256::from(5 * count) * U256::from(WEI_PER_ETHER / 8);
        let of_miner = U256::from(5 * WEI_PER_ETHER) + U256::from(WEI_PER_ETHER / 32 * 10);
        assert_eq!(paid, [(young, eighths(7)), (old, eighths(2)), (miner, of_miner)]);
        assert!(rewards(&header(10, miner), &[], &Genesis::dev(7, &[], 30_000_000)).is_empty());
    }
}
