//! How long after a block's last shred a node votes for it, by its log.
//!
//! reads   the lines that a node has logged in a part
//! memory  the blocks that are whole and not voted for yet
//!
//! Agave's thread for metrics logs each point up to 5 ms late, of the last shred and of the vote alike.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;

/// The words before the slot in a node's lines.
pub struct Words {
    /// All shreds of a block of another leader are here.
    whole: &'static str,
    /// The node votes for it.
    vote: &'static str,
}

pub const OURS: Words = Words { whole: "shred::deliver: slot ", vote: "the vote for slot " };
pub const AGAVE: Words =
    Words { whole: "datapoint: shred_insert_is_full slot=", vote: "datapoint: tower-vote latest=" };

/// The times in lines of a log, but for slots that the node led itself; null if it voted for none.
pub fn figures(log: &str, words: &Words, led: &BTreeSet<u64>) -> Value {
    let mut times = times(log, words, led);
    times.sort_unstable();
    let Some(last) = times.len().checked_sub(1) else { return Value::Null };
    let of = |percent: usize| times[last * percent / 100] as f64 / 1_000.0;
    json!({ "blocks": times.len(), "p50_ms": of(50), "p99_ms": of(99) })
}

/// Microseconds from a block's last shred to the first vote for it.
fn times(log: &str, words: &Words, led: &BTreeSet<u64>) -> Vec<u64> {
    let mut whole = BTreeMap::new();
    let mut times = vec![];
    for line in log.lines() {
        let Some(at) = time_us(line) else { continue };
        if let Some(slot) = slot_after(line, words.whole).filter(|slot| !led.contains(slot)) {
            whole.entry(slot).or_insert(at);
        } else if let Some(begin) = slot_after(line, words.vote).and_then(|slot| whole.remove(&slot)) {
            times.push((at + DAY_US - begin) % DAY_US);
        }
    }
    times
}

fn slot_after(line: &str, words: &str) -> Option<u64> {
    let (_, rest) = line.split_once(words)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Microseconds of the day at the begin of a line, which may have a bracket before it.
fn time_us(line: &str) -> Option<u64> {
    let stamp = line.trim_start_matches('[').split(' ').next()?.strip_suffix('Z')?;
    let (_, time) = stamp.split_once('T')?;
    let mut parts = time.split(':');
    let hours: u64 = parts.next()?.parse().ok()?;
    let minutes: u64 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next()?.parse().ok()?;
    Some((hours * 60 + minutes) * 60_000_000 + (seconds * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_logs_have_the_time_from_the_last_shred_to_the_vote() {
        let ours = "\
2026-11-28T23:59:59.990000Z DEBUG hearth_pipeline::shred::deliver: slot 7 is whole
2026-11-28T23:59:59.999000Z DEBUG hearth_pipeline::shred::deliver: slot 8 is whole
2026-11-29T00:00:00.010000Z DEBUG hearth_pipeline::tower::core: the vote for slot 7 is signed
2026-11-29T00:00:00.011000Z DEBUG hearth_pipeline::tower::core: the vote for slot 7 is signed
  … replayed to slot 12
2026-11-29T00:00:00.012000Z DEBUG hearth_pipeline::tower::core: the vote for slot 9 is signed
";
        assert_eq!(times(ours, &OURS, &BTreeSet::new()), [20_000]);
        let theirs = "\
[2026-11-28T05:57:05.100000000Z INFO  solana_metrics::metrics] datapoint: shred_insert_is_full slot=7i total_time_ms=3i
[2026-11-28T05:57:05.102000000Z INFO  solana_metrics::metrics] datapoint: shred_insert_is_full slot=8i total_time_ms=3i
[2026-11-28T05:57:05.150000000Z INFO  solana_metrics::metrics] datapoint: tower-vote latest=7i root=0i
[2026-11-28T05:57:05.151000000Z INFO  solana_metrics::metrics] datapoint: tower-vote latest=8i root=0i
";
        assert_eq!(times(theirs, &AGAVE, &BTreeSet::from([8])), [50_000]);
        assert_eq!(figures(theirs, &AGAVE, &BTreeSet::new()), json!({ "blocks": 2, "p50_ms": 49.0, "p99_ms": 49.0 }));
        assert_eq!(figures("", &OURS, &BTreeSet::new()), Value::Null);
    }
}
