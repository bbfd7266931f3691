//! Carries events of the chain and the pool to subscriptions and filters.
//!
//! reads   the chain's events, the pool's hashes
//! writes  to the hub's and the filters' readers
//! memory  the events since the last read, which chain and pool bound
//! drops   events that came while this thread was too late: chain and pool report how many, and they are counted
//!
//! Two threads sleep until something comes: a slow reader of the one does not delay the other.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hearth_evm::chain::{ChainEvent, Events};
use hearth_evm::pool::Feed;
use tokio::sync::watch;

use crate::methods::Api;

/// How often a sleeping thread checks whether the server still runs.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Starts both threads; they end when `stopped` says so.
pub fn start(api: &Arc<Api>, stopped: watch::Receiver<bool>) -> std::io::Result<()> {
    // Subscribed now, not when the threads come to run.
    let (events, hashes) = (api.chain.subscribe(), api.chain.pool().subscribe());
    let (heads, pending) = (Arc::downgrade(api), Arc::downgrade(api));
    let until = stopped.clone();
    std::thread::Builder::new().name("web3-heads".into()).spawn(move || forward_heads(&heads, &events, &until))?;
    std::thread::Builder::new()
        .name("web3-pending".into())
        .spawn(move || publish_pending(&pending, hashes, &stopped))?;
    Ok(())
}

/// A weak reference: the server may be gone without having stopped this thread.
fn live(api: &Weak<Api>, stopped: &watch::Receiver<bool>) -> Option<Arc<Api>> {
    if *stopped.borrow() { None } else { api.upgrade() }
}

fn forward_heads(api: &Weak<Api>, events: &Events, stopped: &watch::Receiver<bool>) {
    // The newest block that was published, and whether events are missing since.
    let (mut newest, mut has_gap) = (None, false);
    while live(api, stopped).is_some() {
        let Some((number, event)) = events.next_numbered_within(LOOK_EVERY) else { continue };
        let Some(api) = live(api, stopped) else { return };
        match event {
            ChainEvent::Block(block) => {
                // Subscribers get every block, also those whose events did not fit.
                let missed = newest.filter(|_| has_gap).map_or(0..0, |newest| newest + 1..block.number());
                for block in missed.filter_map(|number| api.chain.block(number)) {
                    api.hub.publish_block(number, &block);
                }
                api.hub.publish_block(number, &block);
                (newest, has_gap) = (Some(block.number()), false);
            }
            ChainEvent::Reorg(head, gone) => {
                (newest, has_gap) = (Some(head.number()), false);
                gone.iter().for_each(|block| api.hub.publish_removed(number, block));
                api.filters.rewind(number, head.number() + 1);
            }
            ChainEvent::Lagged => {
                has_gap = true;
                api.counters.notifications_missed.fetch_add(1, Relaxed);
                // A missed event may be a reorganization.
                api.filters.rewind(number, api.chain.head().number() + 1);
            }
        }
    }
}

fn publish_pending(api: &Weak<Api>, mut hashes: Feed, stopped: &watch::Receiver<bool>) {
    while live(api, stopped).is_some() {
        if !hashes.wait(LOOK_EVERY) {
            continue;
        }
        let news = hashes.take();
        let Some(api) = live(api, stopped) else { return };
        api.counters.notifications_missed.fetch_add(news.missed, Relaxed);
        api.filters.publish_pending(news.before, &news.hashes);
        if api.hub.wants_pending() {
            api.hub.publish_pending(news.before, &news.hashes, |hash| {
                // It may be in a block by now.
                let waiting = api.chain.pool().get(hash);
                waiting.or_else(|| api.chain.tx(hash).map(|(block, index)| Arc::clone(&block.txs[index])))
            });
        }
    }
}
