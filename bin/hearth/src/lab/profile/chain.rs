//! The profiler in an EVM node: samples its own process when its owner asks.
//!
//! reads   this process's stacks; the chain's blocks and its count of transactions
//! writes  profiles, served through [`Control`]
//! memory  none before the first profile; then the last profile, at most [`STACKS_MAX`] stacks, and the sampler's table
//! drops   the previous profile when another begins
//! source  the methods of the node that speaks Solana's RPC
//!
//! Samples are taken by CPU time, so an idle process yields none.

use std::time::{Duration, Instant};

use hearth_bench::profile::STACKS_MAX;
use hearth_evm::chain::{Chain, ChainEvent};
use hearth_profile::Sampling;
use hearth_profile::control::{Control, FinishedProfile, Format, ProfileRequest, STOPPED_AT_ONCE, UnderWay};
use hearth_web3::{ProfileFormat, ProfileSpan as Span, Profiler};
use serde_json::{Value, json};

use super::BLOCK_MAX;

/// How often a wait for a block checks whether to give up.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Samples the process that it is in.
pub struct ChainService {
    chain: Chain,
    control: Control,
}

impl ChainService {
    /// For a node that has this chain.
    pub fn new(chain: Chain) -> Self {
        Self { chain, control: Control::default() }
    }
}

impl Profiler for ChainService {
    fn start(&self, span: Span, hz: u32) -> Result<Value, String> {
        let chain = self.chain.clone();
        self.control.start(request_of(span), move |under_way| take(&chain, under_way, span, hz))
    }

    fn fetch(&self, format: ProfileFormat, id: Option<u64>) -> Result<Value, String> {
        let format = match format {
            ProfileFormat::Summary => Format::Summary,
            ProfileFormat::Svg => Format::Svg,
            ProfileFormat::Folded => Format::Folded,
        };
        self.control.fetch(format, id)
    }

    fn stop(&self, id: Option<u64>) -> Result<Value, String> {
        self.control.stop(id)
    }
}

/// Translates a requested span into the profiler's terms.
fn request_of(span: Span) -> ProfileRequest {
    let (words, lasts) = match span {
        Span::Seconds(seconds) => (format!("{seconds} s"), Some(Duration::from_secs(seconds))),
        Span::Block => ("until the next block".into(), None),
        Span::FromBlock(seconds) => {
            (format!("{seconds} s from the next block on"), Some(BLOCK_MAX + Duration::from_secs(seconds)))
        }
    };
    ProfileRequest { words, lasts }
}

fn take(chain: &Chain, under_way: &UnderWay<'_>, span: Span, hz: u32) -> Result<FinishedProfile, String> {
    let events = chain.subscribe();
    let next_block = || {
        let until = Instant::now() + BLOCK_MAX;
        while !under_way.is_stopped() {
            if let Some(ChainEvent::Block(block)) = events.next_within(LOOK_EVERY) {
                return Ok(Some(block.number()));
            }
            if Instant::now() >= until {
                return Err(format!("no block came within {} s", BLOCK_MAX.as_secs()));
            }
        }
        Ok(None)
    };
    let first = if let Span::FromBlock(_) = span { next_block()? } else { None };
    if under_way.is_stopped() {
        return Err(STOPPED_AT_ONCE.into());
    }
    let (begun, txs) = (Instant::now(), chain.metrics().txs);
    let sampling = Sampling::start(hz).map_err(|why| why.to_string())?;
    under_way.samples_begin();
    let block = match span {
        Span::Block => next_block()?,
        Span::Seconds(seconds) | Span::FromBlock(seconds) => {
            under_way.sleep(Duration::from_secs(seconds));
            first
        }
    };
    let txn_per_s = chain.metrics().txs.saturating_sub(txs) as f64 / begun.elapsed().as_secs_f64().max(1e-9);
    let profile = sampling.end().map_err(|why| why.to_string())?.name(STACKS_MAX);
    let figures = [("block".into(), json!(block)), ("txnPerSecond".into(), json!(txn_per_s))];
    Ok(FinishedProfile { profile, figures: figures.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use hearth_evm::chain::{BlockTime, ChainConfig};
    use hearth_evm_utxo::genesis;
    use hearth_web3::PROFILE_SECONDS_MAX;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn profile_starts_at_the_next_block_and_stops_on_request() {
        let genesis = genesis::dev(5, &[], 500_000_000);
        let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
        let chain = Chain::open(config).expect("it opens");
        let service = ChainService::new(chain.clone());
        let control = &service.control;
        let begun = service.start(Span::FromBlock(PROFILE_SECONDS_MAX), 99).unwrap();
        assert_eq!(begun["asked"], "600 s from the next block on");
        let busy = service.start(Span::Block, 99).unwrap_err();
        assert!(busy.contains("profile 1 is under way (600 s from the next block on)"), "{busy}");
        // Its subscription may come after a block or two.
        let deadline = Instant::now() + PATIENCE;
        while control.fetch(Format::Summary, None).unwrap()["sampling"] != true {
            assert!(Instant::now() < deadline);
            chain.mine().expect("it is made");
        }
        control.stop(Some(1)).unwrap();
        assert!(control.wait(PATIENCE, |summary| summary["state"] == "done"));
        let done = control.fetch(Format::Folded, Some(1)).unwrap();
        assert!(done["stopped"] == true && done["profile"].is_string() && done["txnPerSecond"].is_number(), "{done}");
        assert!(done["block"].as_u64() >= Some(1), "{done}");
        // One that is stopped while it waits has nothing.
        service.start(Span::FromBlock(1), 99).unwrap();
        control.stop(None).unwrap();
        assert!(control.wait(PATIENCE, |summary| summary["why"] == STOPPED_AT_ONCE));
    }
}
