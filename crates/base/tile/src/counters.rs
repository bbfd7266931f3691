//! counters: declared once per tile, flushed to the workspace, readable by anyone.
//!
//! reads   a tile's plain struct of `u64` fields, made by [`counters!`](crate::counters!)
//! writes  the tile's counters region in the workspace, at each housekeeping and at the end
//! memory  one word per counter
//!
//! The hot loop adds to plain integers; only housekeeping touches shared memory.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Whether a value only grows or can also fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CounterKind {
    /// Only grows while the node runs.
    Counter,
    /// A level that moves both ways.
    Gauge,
}

/// One counter's declaration, which `metric`, `monitor` and the docs show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterDecl {
    /// Name in snake case, units last.
    pub name: &'static str,
    /// Whether the value only grows, or moves both ways.
    pub kind: CounterKind,
    /// Help text, one sentence.
    pub help: &'static str,
}

/// A struct of counters, as [`counters!`](crate::counters!) declares it.
pub trait CounterSet: Default + Send + 'static {
    /// The declarations, in the order of the words.
    const DECLS: &'static [CounterDecl];

    /// Writes each value into the word with its index. Panics if `words` is shorter than [`Self::DECLS`].
    fn flush(&self, words: &[AtomicU64]);
}

/// For tiles without counters.
impl CounterSet for () {
    const DECLS: &'static [CounterDecl] = &[];
    fn flush(&self, _: &[AtomicU64]) {}
}

/// Stores `value` into a counter's word. Only the owning tile writes it, so relaxed is enough.
#[inline]
pub fn put(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// Declares a tile's counters: a struct of public `u64` fields with their kind and help.
///
/// ```
/// hearth_tile::counters! {
///     /// What dedup counts.
///     pub struct Counters {
///         /// Transactions passed on.
///         forwarded: Counter,
///         /// Tags remembered now.
///         remembered: Gauge,
///     }
/// }
/// # use hearth_tile::CounterSet;
/// assert_eq!(Counters::DECLS[1].name, "remembered");
/// assert_eq!(Counters::DECLS[0].help, "Transactions passed on.");
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $( $(#[doc = $help:literal])+ $field:ident : $kind:ident ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $( $(#[doc = $help])+ pub $field: u64, )*
        }

        impl $crate::CounterSet for $name {
            const DECLS: &'static [$crate::CounterDecl] = &[
                $( $crate::CounterDecl {
                    name: stringify!($field),
                    kind: $crate::CounterKind::$kind,
                    help: $crate::counters::trimmed(concat!($($help),+)),
                }, )*
            ];

            fn flush(&self, words: &[std::sync::atomic::AtomicU64]) {
                let values = [$( self.$field ),*];
                assert!(words.len() >= values.len(), "counters region too small");
                for (word, value) in words.iter().zip(values) {
                    $crate::counters::put(word, value);
                }
            }
        }
    };
}

/// Returns a doc comment's text without the space after `///`.
#[doc(hidden)]
pub const fn trimmed(text: &'static str) -> &'static str {
    text.trim_ascii()
}

counters! {
    /// What every tile counts, whatever its job. The regimes follow in [`Regime`](crate::regime::Regime) order.
    pub struct LoopCounters {
        /// Time of the last heartbeat, nanoseconds since the Unix epoch.
        heartbeat_unix_ns: Gauge,
        /// 1 while a reliable consumer downstream has no room.
        in_backpressure: Gauge,
        /// Times the tile entered backpressure.
        backpressures: Counter,
        /// Voluntary context switches of the tile's thread.
        context_switches_voluntary: Counter,
        /// Involuntary context switches of the tile's thread (preemptions).
        context_switches_involuntary: Counter,
        /// CPU time attributed to this tile: its thread's CPU time by the tile's share of busy time, nanoseconds.
        cpu_ns: Counter,
        /// Frags taken from all inputs.
        frags_in: Counter,
        /// Frags published to all outputs.
        frags_out: Counter,
        /// The thread's id as the kernel counts it.
        tid: Gauge,
        /// 1 running, 2 stopped cleanly, 3 died.
        state: Gauge,
        /// Time in which the tile's thread was ready to run and its core ran something else, nanoseconds. Tiles that
        /// share a thread report the same value; 0 if the kernel does not report it.
        waited_for_core_ns: Counter,
        /// Time in housekeeping, nanoseconds.
        regime_hkeep_ns: Counter,
        /// Time in backpressure, nanoseconds.
        regime_backp_ns: Counter,
        /// Time with nothing to do, parked included, nanoseconds.
        regime_wait_ns: Counter,
        /// Time lost to overruns while polling, nanoseconds.
        regime_ovrnp_ns: Counter,
        /// Time lost to overruns while reading, nanoseconds.
        regime_ovrnr_ns: Counter,
        /// Time on frags filtered by metadata, nanoseconds.
        regime_filt1_ns: Counter,
        /// Time on frags dropped after reading, nanoseconds.
        regime_filt2_ns: Counter,
        /// Time of useful work, nanoseconds.
        regime_finish_ns: Counter,
        /// Time that the core gave to other tiles, nanoseconds.
        regime_elsewhere_ns: Counter,
    }
}

impl LoopCounters {
    /// Copies the time line into the regime counters.
    pub fn set_regimes(&mut self, ns: &[u64; crate::regime::REGIMES]) {
        let [hkeep, backp, wait, ovrnp, ovrnr, filt1, filt2, finish, elsewhere] = *ns;
        self.regime_hkeep_ns = hkeep;
        self.regime_backp_ns = backp;
        self.regime_wait_ns = wait;
        self.regime_ovrnp_ns = ovrnp;
        self.regime_ovrnr_ns = ovrnr;
        self.regime_filt1_ns = filt1;
        self.regime_filt2_ns = filt2;
        self.regime_finish_ns = finish;
        self.regime_elsewhere_ns = elsewhere;
    }
}

/// Index of the first regime counter in [`LoopCounters`].
pub const FIRST_REGIME: usize = LoopCounters::DECLS.len() - crate::regime::REGIMES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regime::Regime;

    #[test]
    fn regimes_are_declared_in_order() {
        for (decl, regime) in LoopCounters::DECLS[FIRST_REGIME..].iter().zip(Regime::ALL) {
            assert_eq!(decl.name, format!("regime_{}_ns", regime.column()));
        }
    }

    #[test]
    fn flush_writes_in_declared_order() {
        let words: Vec<AtomicU64> = (0..LoopCounters::DECLS.len()).map(|_| AtomicU64::new(0)).collect();
        let mut counters = LoopCounters { backpressures: 7, ..Default::default() };
        counters.set_regimes(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        counters.flush(&words);
        assert_eq!(words[2].load(Ordering::Relaxed), 7);
        assert_eq!(words[FIRST_REGIME + 8].load(Ordering::Relaxed), 9);
    }
}
