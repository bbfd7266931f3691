//! The order of simulated blocks: each has a number and a time, and gaps are filled with empty ones.

use super::{BLOCKS_MAX, BlockRequest, TOO_MUCH};
use crate::failure::Failure;
use crate::params::Field;

/// Seconds between blocks by default.
const SECONDS: u64 = 12;
const WRONG_NUMBER: i64 = -38_020;
const WRONG_TIME: i64 = -38_021;

/// Returns all blocks after this number and time, each with its own number and time.
pub(super) fn in_order(
    asked: Vec<BlockRequest>,
    base_number: u64,
    base_time: u64,
) -> Result<Vec<BlockRequest>, Failure> {
    let mut number = base_number;
    let mut time = base_time;
    let mut all = Vec::with_capacity(asked.len());
    for mut block in asked {
        let next = block.overrides.number.map_or(number.saturating_add(1), |field| field.0);
        if next <= number {
            let why = format!("block numbers must be in order: {next} <= {number}");
            return Err(Failure::simulation(WRONG_NUMBER, why));
        }
        if next - base_number > BLOCKS_MAX as u64 {
            return Err(Failure::simulation(TOO_MUCH, "too many blocks"));
        }
        for between in number + 1..next {
            time = time.saturating_add(SECONDS);
            let mut empty = BlockRequest::default();
            empty.overrides.number = Some(Field(between));
            empty.overrides.time = Some(Field(time));
            all.push(empty);
        }
        let then = block.overrides.time.map_or(time.saturating_add(SECONDS), |field| field.0);
        if then <= time {
            let why = format!("block timestamps must be in order: {then} <= {time}");
            return Err(Failure::simulation(WRONG_TIME, why));
        }
        block.overrides.number = Some(Field(next));
        block.overrides.time = Some(Field(then));
        number = next;
        time = then;
        all.push(block);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(wanted: &[(Option<u64>, Option<u64>)]) -> Result<Vec<(u64, u64)>, (i64, String)> {
        let one = |(number, time): &(Option<u64>, Option<u64>)| {
            let mut asked = BlockRequest::default();
            asked.overrides.number = number.map(Field);
            asked.overrides.time = time.map(Field);
            asked
        };
        let planned = in_order(wanted.iter().map(one).collect(), 54, 540);
        let planned = planned.map_err(|why| (why.code(), why.message().to_owned()))?;
        let place = |asked: &BlockRequest| (asked.overrides.number.unwrap().0, asked.overrides.time.unwrap().0);
        Ok(planned.iter().map(place).collect())
    }

    #[test]
    fn gaps_are_filled_and_time_continues() {
        assert_eq!(plan(&[(None, None), (None, Some(600)), (None, None)]), Ok(vec![(55, 552), (56, 600), (57, 612)]));
        assert_eq!(plan(&[(Some(57), None)]), Ok(vec![(55, 552), (56, 564), (57, 576)]));
        assert_eq!(plan(&[(Some(310), None)]).map(|all| all.len()), Ok(256));
    }

    #[test]
    fn invalid_block_order_is_refused_as_by_geth() {
        let number = |why: &str| Err((-38_020, format!("block numbers must be in order: {why}")));
        let time = |why: &str| Err((-38_021, format!("block timestamps must be in order: {why}")));
        assert_eq!(plan(&[(Some(54), None)]), number("54 <= 54"));
        assert_eq!(plan(&[(Some(57), None), (Some(56), None)]), number("56 <= 57"));
        assert_eq!(plan(&[(None, Some(540))]), time("540 <= 540"));
        assert_eq!(plan(&[(Some(59), Some(550))]), time("550 <= 588"));
        let too_many = Err((-38_026, "too many blocks".to_owned()));
        assert_eq!(plan(&[(Some(311), None)]), too_many);
        assert_eq!(plan(&[(Some(u64::MAX), None), (None, None)]), too_many);
    }
}
