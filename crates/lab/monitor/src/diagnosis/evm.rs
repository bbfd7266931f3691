//! Diagnoses what limits an EVM node, and why it does not accept what is sent.
//!
//! reads   a [`Sample`] of an EVM node
//! writes  a [`Diagnosis`]
//!
//! A pool is full because blocks do not take what arrives. So the makers of blocks are checked first: the two threads
//! that execute and commit, then the gas limit of blocks. Then come the pool's refusals, by the most frequent reason.

use super::{Diagnosis, FULL, Finding, NOTABLE, percent};
use crate::evm::EvmSample;
use crate::sample::Sample;

/// Blocks fuller than this have no room for most transactions.
const NO_GAS_LEFT: f64 = 0.95;
/// Fewer per second than this come from manual use.
const FEW: f64 = 0.5;
/// A larger share than this of what is sent counts as all of it.
const NEARLY_ALL: f64 = 0.99;

/// Block production has no time left: one of its two threads, or both in turn while transactions wait.
pub(super) fn making_blocks(sample: &Sample) -> Option<Diagnosis> {
    let evm = sample.evm.as_ref()?;
    let [exec, commit] = making(sample);
    let by_turns = sample.pending > 0 && exec + commit >= FULL;
    if exec.max(commit) < FULL && !by_turns {
        return None;
    }
    let says = format!("making blocks is the limit: {}{}", in_words(exec, commit), waiting(sample, evm));
    let (most, advice) = match exec >= commit {
        true => ("exec", "`--threads` has more of them execute, where cores are free"),
        false => ("commit", "a longer `--block-time` makes roots for more transactions at once"),
    };
    Some(Diagnosis::new(Finding::KindFull, Some(most), says).advise(None, advice))
}

/// Blocks have no gas left for waiting transactions.
pub(super) fn gas(sample: &Sample) -> Option<Diagnosis> {
    let evm = sample.evm.as_ref()?;
    let full = evm.gas_per_s / evm.blocks_per_s / evm.gas_limit as f64;
    if !full.is_finite() || full < NO_GAS_LEFT || sample.pending == 0 {
        return None;
    }
    let says = format!("blocks use {} of the gas that they may{}", percent(full), waiting(sample, evm));
    let advice = "`--gas-limit` lets them use more, a shorter `--block-time` makes more of them";
    Some(Diagnosis::new(Finding::BlockFull, Some("exec"), says).advise(None, advice))
}

/// Sent transactions do not get into the pool.
pub(super) fn refused(sample: &Sample) -> Option<Diagnosis> {
    let evm = sample.evm.as_ref()?;
    let dropped = |reason: &str| sample.dropped_per_s.get(reason).copied().unwrap_or_default();
    let full = dropped("pool_full");
    let reasons = [
        (full, "the pool is full"),
        (dropped("pool_refused"), "their nonce, funds, gas or fees will not do"),
        (dropped("recover_undecodable"), "they do not decode, are of another chain, or nobody has signed them"),
        (evm.known_per_s, "the pool has them already"),
    ];
    let all: f64 = reasons.iter().map(|(rate, _)| rate).sum();
    let share = all / evm.submitted_per_s.max(all);
    if all < FEW || share < NOTABLE {
        return None;
    }
    let (most, why) = reasons.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let what = match share {
        NEARLY_ALL.. => format!("all that is sent is refused, {all:.0} transactions a second"),
        _ => format!("{} of what is sent is refused, {all:.0} transactions a second", percent(share)),
    };
    let mostly = if most < NEARLY_ALL * all { "mostly because " } else { "" };
    let says = format!("{what}: {mostly}{why}{}", if most == full { waiting(sample, evm) } else { String::new() });
    let found = Diagnosis::new(Finding::Refused, Some("pool"), says);
    Some(match why {
        _ if most == full && evm.queued > sample.pending => {
            found.advise(None, "most wait for a nonce that is missing: send that one")
        }
        _ if most == full => found.advise(None, "send what pays more, or wait until blocks have taken what waits"),
        "the pool has them already" => found.advise(None, "send each once"),
        _ => found.advise(None, "the error that each sender gets says what is wrong"),
    })
}

/// Accepted transactions cannot be executed.
pub(super) fn nonce_gaps(sample: &Sample) -> Option<Diagnosis> {
    let evm = sample.evm.as_ref()?;
    if sample.pending > 0 || evm.queued == 0 || sample.txn_per_s >= FEW {
        return None;
    }
    let says = match evm.queued {
        1 => "nothing is executed: the one transaction in the pool waits behind a gap in its account's nonces".into(),
        many => {
            format!(
                "nothing is executed: all {many} transactions in the pool wait behind a gap in their account's nonces"
            )
        }
    };
    let advice = "send the missing ones; `txpool_inspect` lists those that wait";
    Some(Diagnosis::new(Finding::Conflicts, Some("pool"), says).advise(None, advice))
}

/// Nothing limits the node.
pub(super) fn room(sample: &Sample) -> Option<Diagnosis> {
    let evm = sample.evm.as_ref()?;
    let [exec, commit] = making(sample);
    Some(match sample.txn_per_s.max(evm.submitted_per_s) {
        rate if rate < FEW && sample.pending > 0 => {
            let says = format!(
                "nothing is sent to the node, and {} in the pool for the next block, or for a lower base fee",
                wait(sample.pending)
            );
            Diagnosis::new(Finding::Idle, None, says).advise(None, "`hearth why HASH` says what one waits for")
        }
        rate if rate < FEW => Diagnosis::new(Finding::Idle, None, "nothing is sent to the node".into()),
        _ => {
            let says = format!("nothing limits the node: it does all that is sent; {}", in_words(exec, commit));
            Diagnosis::new(Finding::Room, None, says)
        }
    })
}

/// How busy the stages are that execute blocks and commit them.
fn making(sample: &Sample) -> [f64; 2] {
    ["exec", "commit"]
        .map(|kind| sample.tiles.iter().filter(|tile| tile.kind == kind).map(|tile| tile.regimes.busy()).sum())
}

fn in_words(exec: f64, commit: f64) -> String {
    format!("exec is {} busy, commit {}", percent(exec), percent(commit))
}

fn wait(count: u64) -> String {
    if count == 1 { "1 transaction waits".into() } else { format!("{count} transactions wait") }
}

fn waiting(sample: &Sample, evm: &EvmSample) -> String {
    match sample.pending + evm.queued {
        0 => String::new(),
        count => format!("; {count} transactions wait"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::diagnosis::diagnose;
    use crate::sample::{Regimes, TileSample, TileState};

    /// A node with exec and commit this busy, and these drops by reason.
    fn sample(exec: f64, commit: f64, evm: EvmSample, dropped: &[(&str, f64)]) -> Sample {
        let tile = |kind: &str, busy: f64| TileSample {
            tile: kind.into(),
            kind: kind.into(),
            state: TileState::Run,
            stale_s: Some(0.1),
            regimes: Regimes { finish: busy, wait: 1.0 - busy, ..Regimes::default() },
            ..TileSample::default()
        };
        let tiles = [("web3", 0.1), ("recover", 0.1), ("pool", 0.1), ("exec", exec), ("commit", commit)];
        Sample {
            alive: true,
            seconds: 1.0,
            tiles: tiles.map(|(kind, busy)| tile(kind, busy)).into(),
            dropped_per_s: dropped
                .iter()
                .map(|(reason, rate)| ((*reason).to_owned(), *rate))
                .collect::<BTreeMap<_, _>>(),
            evm: Some(evm),
            ..Sample::default()
        }
    }

    fn submitted(submitted_per_s: f64) -> EvmSample {
        EvmSample { submitted_per_s, ..EvmSample::default() }
    }

    #[test]
    fn refusals_of_the_pool_are_named_by_reason() {
        let all = diagnose(&sample(0.0, 0.0, submitted(500.0), &[("pool_refused", 500.0)]));
        assert_eq!(all.finding, Finding::Refused);
        let expected = "all that is sent is refused, 500 transactions a second: their nonce, funds, gas or fees will \
                        not do";
        assert_eq!(all.says, expected);
        let other_chain = diagnose(&sample(0.0, 0.0, submitted(3.0), &[("recover_undecodable", 3.0)]));
        assert!(other_chain.says.contains("of another chain"), "{other_chain}");
        let again = diagnose(&sample(0.0, 0.0, EvmSample { known_per_s: 9.0, ..submitted(9.0) }, &[]));
        assert!(again.says.ends_with("the pool has them already"), "{again}");
        let mut full = sample(0.5, 0.2, submitted(1_000.0), &[("pool_full", 400.0), ("pool_refused", 100.0)]);
        (full.pending, full.txn_per_s) = (20_000, 500.0);
        let full = diagnose(&full);
        let expected = "50 % of what is sent is refused, 500 transactions a second: mostly because the pool is full; \
                        20000 transactions wait";
        assert_eq!((full.finding, &full.says[..]), (Finding::Refused, expected));
        // Manual use with a typo, and a share that is too small to matter.
        assert_eq!(diagnose(&sample(0.0, 0.0, submitted(0.1), &[("pool_refused", 0.1)])).finding, Finding::Idle);
        let mut few = sample(0.5, 0.2, submitted(1_000.0), &[("pool_refused", 5.0)]);
        few.txn_per_s = 995.0;
        assert_eq!(diagnose(&few).finding, Finding::Room);
    }

    #[test]
    fn block_maker_is_named_before_its_full_pool() {
        let mut busy = sample(0.75, 0.2, submitted(1_000.0), &[("pool_full", 900.0)]);
        busy.pending = 100;
        let found = diagnose(&busy);
        let expected = "making blocks is the limit: exec is 75 % busy, commit 20 %; 100 transactions wait";
        assert_eq!((found.finding, &found.says[..]), (Finding::KindFull, expected));
        busy.pending = 0;
        assert_eq!(diagnose(&busy).finding, Finding::Refused, "by turns, and nothing waits for either");
        let alone = diagnose(&sample(0.2, 0.97, submitted(1_000.0), &[]));
        assert_eq!((alone.finding, alone.kind.as_deref()), (Finding::KindFull, Some("commit")));
        let evm = EvmSample { blocks_per_s: 0.5, gas_per_s: 14.9e6, gas_limit: 30_000_000, ..submitted(800.0) };
        let mut full = sample(0.1, 0.1, evm, &[("pool_full", 100.0)]);
        full.pending = 7_000;
        let found = diagnose(&full);
        assert_eq!((found.finding, found.kind.as_deref()), (Finding::BlockFull, Some("exec")));
        assert_eq!(found.says, "blocks use 99 % of the gas that they may; 7000 transactions wait");
    }

    #[test]
    fn gaps_and_rest_are_reported() {
        let gaps = diagnose(&sample(0.0, 0.0, EvmSample { queued: 12, ..EvmSample::default() }, &[]));
        assert!(gaps.says.contains("all 12 transactions in the pool wait behind a gap"), "{gaps}");
        let one = diagnose(&sample(0.0, 0.0, EvmSample { queued: 1, ..EvmSample::default() }, &[]));
        assert!(
            one.says.ends_with("the one transaction in the pool waits behind a gap in its account's nonces"),
            "{one}"
        );
        assert_eq!(diagnose(&sample(0.0, 0.0, EvmSample::default(), &[])).finding, Finding::Idle);
        let mut waits = sample(0.0, 0.0, EvmSample::default(), &[]);
        waits.pending = 3;
        let waits = diagnose(&waits);
        assert!(
            waits.finding == Finding::Idle && waits.says.contains("and 3 transactions wait in the pool"),
            "{waits}"
        );
        let mut few = sample(0.05, 0.05, submitted(3.0), &[]);
        few.txn_per_s = 3.0;
        let few = diagnose(&few);
        assert!(few.finding == Finding::Room && few.says.ends_with("exec is 5 % busy, commit 5 %"), "{few}");
    }
}
