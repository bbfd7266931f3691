//! dedup: drops a transaction whose first signature was seen in the last second.
//!
//! reads   `verify_dedup` ×V, reliable: one verified transaction per frag, tag = keyed hash of its first signature,
//!         under the same key in every verify tile
//! writes  `dedup_pack`, reliable: the same bytes and tag
//! memory  [`TagCache::bytes`] of `history`, allocated in `new`
//! drops   duplicates, counted; false-drop odds history / 2^64 per transaction
//! source  the oracle `matches_model` beside [`TagCache`]
//!
//! All verify tiles lead here, because copies of a transaction may pass through different ones. No order is guaranteed
//! among their transactions: pack orders by pay.

use hearth_ledger::drop_log::DropReason;
use hearth_tile::latency::TAKEN;
use hearth_tile::{Frag, Host, InitError, LatencyDecl, Out, Port, Tile};

use crate::drops::DropLog;
use crate::links::{AGAIN, DEDUP_PACK};
use crate::tag_cache::TagCache;

hearth_tile::counters! {
    /// The counters of dedup.
    pub struct Counters {
        /// Transactions passed on to pack.
        forwarded: Counter,
        /// Transactions dropped: the same one was passed on before.
        dropped_duplicate: Counter,
        /// Tags of transactions that are remembered now.
        remembered: Gauge,
    }
}

/// How much dedup remembers.
#[derive(Clone, Debug)]
pub struct Config {
    /// Maximum transactions remembered, the latest, each for about a second at most.
    pub history: usize,
    /// Receives the tag and reason of each dropped transaction.
    pub drops: DropLog,
}

impl Default for Config {
    /// The defaults of `tiles.dedup`.
    fn default() -> Self {
        Self { history: 1 << 20, drops: DropLog::default() }
    }
}

/// Filters duplicates by tag.
pub struct Dedup {
    seen: TagCache,
    drops: DropLog,
    pack: Port,
}

impl Tile for Dedup {
    const NAME: &'static str = "dedup";
    const LATENCIES: &'static [LatencyDecl] = &[TAKEN];
    const BURST: usize = 1;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let seen = TagCache::new(config.history, host.entropy()).map_err(|why| host.error(why))?;
        Ok(Self { seen, drops: config.drops, pack: host.output(DEDUP_PACK)? })
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        // A resubmitted transaction did not land the first time.
        if self.seen.insert(frag.tag()) || frag.control() & AGAIN != 0 {
            out.publish(self.pack, frag.tag(), frag.payload());
            out.count.forwarded += 1;
        } else {
            out.count.dropped_duplicate += 1;
            self.drops.tell(frag.tag(), DropReason::DedupDuplicate, out);
            out.filtered();
        }
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        self.seen.forget_old(out.now());
        out.count.remembered = self.seen.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hearth_tile::rig::Rig;

    use super::*;

    fn rig(history: usize) -> Rig<Dedup> {
        Rig::new(Config { history, ..Config::default() }, &["verify_dedup:0", "verify_dedup:1"], &["dedup_pack"])
    }

    #[test]
    fn passes_each_transaction_once_over_all_verify_tiles() {
        let mut rig = rig(100);
        rig.give("verify_dedup:0", 7, b"one");
        rig.run();
        rig.give("verify_dedup:1", 7, b"one");
        rig.give("verify_dedup:1", 8, b"two");
        rig.run();
        rig.give("verify_dedup:0", 8, b"two");
        rig.run();
        assert_eq!(rig.take("dedup_pack"), [(7, b"one".to_vec()), (8, b"two".to_vec())]);
        assert_eq!((rig.count().forwarded, rig.count().dropped_duplicate), (2, 2));
    }

    #[test]
    fn resent_transaction_passes() {
        let mut rig = rig(100);
        for control in [0, AGAIN, 0] {
            rig.give_control("verify_dedup:0", 7, control, b"one");
        }
        rig.run();
        assert_eq!((rig.count().forwarded, rig.count().dropped_duplicate), (2, 1));
    }

    #[test]
    fn forgets_what_is_older_than_its_history() {
        let mut rig = rig(2);
        for tag in [1, 2, 3, 1, 3] {
            rig.give("verify_dedup:0", tag, &[tag as u8]);
        }
        rig.run();
        let tags: Vec<u64> = rig.take("dedup_pack").into_iter().map(|(tag, _)| tag).collect();
        assert_eq!(tags, [1, 2, 3, 1]);
    }

    #[test]
    fn forgets_what_is_old() {
        let mut rig = rig(100);
        let mut forwarded = vec![];
        for milliseconds in [0, 250, 750, 500] {
            rig.advance(Duration::from_millis(milliseconds));
            rig.run();
            rig.give("verify_dedup:0", 7, b"one");
            rig.run();
            forwarded.push(rig.count().forwarded);
        }
        assert_eq!(forwarded, [1, 1, 1, 2]);
        for _ in 0..20 {
            rig.advance(Duration::from_secs(1));
            rig.run();
        }
        assert_eq!(rig.count().remembered, 0);
    }

    #[test]
    fn duplicate_passes_after_two_seconds() {
        let mut rig = rig(100);
        rig.give("verify_dedup:0", 7, b"one");
        // An idle tile wakes this often.
        for _ in 0..40 {
            rig.run();
            rig.advance(Duration::from_millis(50));
        }
        rig.give("verify_dedup:1", 7, b"one");
        rig.run();
        assert_eq!((rig.count().forwarded, rig.count().dropped_duplicate), (2, 0));
    }

    #[test]
    fn no_history_is_refused_in_words() {
        let made =
            Rig::<Dedup>::try_new(Config { history: 0, ..Config::default() }, &["verify_dedup"], &["dedup_pack"]);
        assert!(made.is_err_and(|error| error.to_string().contains("history")));
    }
}
