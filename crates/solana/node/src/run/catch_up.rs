//! How far a node that joined is behind its cluster, as it is shown while the node catches up.
//!
//! reads   the newest executed slot, and the newest slot of which shreds are stored
//! writes  standard error: the distance, and once that the node has caught up

use hearth_command::output::note;
use hearth_command::progress::Progress;

/// A node this many slots behind has caught up: shreds of these slots are still on their way.
const SLOTS_NEAR: u64 = 4;

/// The distance of a node from its cluster's newest slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CatchUpPosition {
    /// No shreds of a slot that is newer than at the start have come.
    Alone,
    /// This many slots behind.
    Behind(u64),
    /// Near the cluster's newest slot.
    There,
}

/// The display of the catch-up.
pub struct CatchUp {
    shown: Progress,
    /// The newest slot with shreds at the start.
    began: u64,
    is_over: bool,
}

impl CatchUp {
    /// Begins with the newest slot of which shreds are stored.
    pub fn new(began: u64) -> Self {
        Self { shown: Progress::new(), began, is_over: false }
    }

    /// Shows where the node is: its newest executed slot, and the newest of which shreds are stored.
    pub fn look(&mut self, (executed, newest): (u64, u64)) {
        if self.is_over {
            return;
        }
        match place(self.began, executed, newest) {
            CatchUpPosition::Alone => {
                self.shown.tell(|| format!("at slot {executed}, waiting for shreds of the cluster"))
            }
            CatchUpPosition::Behind(slots) => {
                self.shown.tell(|| format!("catching up: slot {executed} of {newest}, {slots} slots behind"));
            }
            CatchUpPosition::There => {
                self.is_over = true;
                self.shown.clear();
                note(format_args!("  caught up with the cluster at slot {executed}"));
            }
        }
    }
}

fn place(began: u64, executed: u64, newest: u64) -> CatchUpPosition {
    match newest.saturating_sub(executed) {
        _ if newest <= began => CatchUpPosition::Alone,
        behind if behind <= SLOTS_NEAR => CatchUpPosition::There,
        behind => CatchUpPosition::Behind(behind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caught_up_needs_news_of_the_cluster() {
        assert_eq!(place(7, 7, 7), CatchUpPosition::Alone);
        assert_eq!(place(7, 7, 100), CatchUpPosition::Behind(93));
        assert_eq!(place(7, 95, 100), CatchUpPosition::Behind(5));
        assert_eq!(place(7, 96, 100), CatchUpPosition::There);
        assert_eq!(place(7, 101, 100), CatchUpPosition::There);
    }

    #[test]
    fn the_end_is_reported_once() {
        hearth_command::output::take_notes();
        let mut catch_up = CatchUp::new(7);
        for slots in [(7, 7), (7, 100), (98, 100), (99, 101)] {
            catch_up.look(slots);
        }
        assert_eq!(hearth_command::output::take_notes(), ["  caught up with the cluster at slot 98"]);
    }
}
