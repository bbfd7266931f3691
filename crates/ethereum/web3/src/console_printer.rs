//! Prints what the transactions of new blocks send to Hardhat's console.
//!
//! reads   the blocks whose contracts called it
//! writes  lines to the node's terminal
//! memory  the lines of one block
//! drops   blocks whose state is no longer kept

use std::sync::{Arc, Weak};

use alloy_primitives::B256;
use hearth_evm::block::Block;
use hearth_evm::exec::{BlockExecutor, BlockExtras, Checks, simulate};
use hearth_evm::tx::to_tx_env;

use crate::console::{Listener, text};
use crate::methods::Api;
use crate::trace::Watcher;

/// Starts the thread that prints what the transactions of new blocks send to the console, if configured.
pub fn start(api: &Arc<Api>) -> std::io::Result<()> {
    let Some(print) = api.config.console else { return Ok(()) };
    let Some(blocks) = api.chain.console() else { return Ok(()) };
    let api = Arc::downgrade(api);
    std::thread::Builder::new().name("web3-console".into()).spawn(move || {
        for block in blocks {
            let Some(api) = Weak::upgrade(&api) else { return };
            for (hash, lines) in of_block(&api, &block) {
                print(&text(&format!("transaction {hash}"), &lines));
            }
        }
    })?;
    Ok(())
}

/// Returns what each transaction of a block sends to the console, if anything.
fn of_block(api: &Api, block: &Block) -> Vec<(B256, Vec<String>)> {
    let view = block.number().checked_sub(1).and_then(|number| api.chain.view_at(number));
    let Some(view) = view else { return Vec::new() };
    let env = api.chain.env_of(block);
    let mut executor = BlockExecutor::new(&view, &env);
    executor.begin();
    let mut heard = Vec::new();
    for tx in &block.txs {
        let mut listener = Listener::default();
        let done = simulate(
            &*executor.database(),
            &env,
            &BlockExtras::default(),
            to_tx_env(tx),
            Checks::of(tx),
            &mut listener as &mut Watcher<'_>,
        );
        let Ok(done) = done else { break };
        executor.database().absorb(done.state);
        if !listener.lines.is_empty() {
            heard.push((tx.hash, listener.lines));
        }
    }
    heard
}
