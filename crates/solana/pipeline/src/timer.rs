//! timer: aligns the deadlines at which tiles poll without any input.
//!
//! reads   the time of a tile's host
//! writes  the next deadline
//!
//! A core sleeps until the first deadline of its tiles. Tiles that poll at multiples of the same interval, or of a
//! fraction of it, have their deadlines at the same instants, so that one wake-up serves all of them.

/// The next instant after `now` that is a multiple of `every`. Both are in the same unit.
pub(crate) fn next_look(now: u64, every: u64) -> u64 {
    (now / every + 1) * every
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_look_is_the_multiple_after_now() {
        assert_eq!(next_look(0, 5), 5);
        assert_eq!(next_look(4, 5), 5);
        assert_eq!(next_look(5, 5), 10, "a look that is over is not due again");
    }

    #[test]
    fn longer_intervals_share_instants_with_shorter_ones() {
        let next = next_look(23, 50);
        assert_eq!(next, 50);
        assert_eq!(next_look(next - 1, 5), next);
    }
}
