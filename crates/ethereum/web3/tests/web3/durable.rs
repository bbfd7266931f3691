//! What is acknowledged while the disk is slow: what the tags name, and what waits with `durable`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hearth_testkit::{wait_for, wait_until};
use serde_json::json;

use super::node::{Node, Plan, account, number};

/// Numbers of the blocks that tags name.
fn tagged(node: &Node) -> [u128; 3] {
    ["latest", "safe", "finalized"].map(|tag| number(&node.call("eth_getBlockByNumber", json!([tag, false]))["number"]))
}

#[test]
fn safe_and_finalized_are_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::in_folder(dir.path(), |_| {});
    node.chain.mine().unwrap();
    wait_until("the first block is on disk", || tagged(&node) == [1, 1, 1]);
    let held = node.chain.hold_syncs();
    node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    let hash = node.chain.mine().unwrap().txs[0].hash;
    node.chain.mine_many(2, None).unwrap();
    assert_eq!(tagged(&node), [4, 1, 1]);
    let nonce = |tag: &str| number(&node.call("eth_getTransactionCount", json!([account(1), tag])));
    assert_eq!(["latest", "safe", "finalized"].map(nonce), [1, 0, 0]);
    let number_of_call = |tag: &str| number(&node.call("eth_feeHistory", json!(["0x1", tag, []]))["oldestBlock"]);
    assert_eq!(["latest", "finalized"].map(number_of_call), [4, 1]);
    let beyond = json!([{ "fromBlock": "0x2", "toBlock": "finalized" }]);
    assert_eq!(node.fails("eth_getLogs", beyond).1, "invalid block range params");
    // Who has not asked to wait does not.
    assert_eq!(node.call("eth_getTransactionReceipt", json!([hash]))["blockNumber"], "0x2");
    drop(held);
    wait_until("all is on disk", || tagged(&node) == [4, 4, 4]);
    // In memory there is no disk to wait for.
    let node = Node::new(hearth_evm::chain::BlockTime::Manual);
    node.chain.mine_many(3, None).unwrap();
    assert_eq!(tagged(&node), [3, 3, 3]);
}

#[test]
fn durable_receipts_wait_for_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::in_folder(dir.path(), |config| config.durable = true);
    node.chain.mine().unwrap();
    wait_until("the first block is on disk", || node.chain.synced() == 1);
    let held = node.chain.hold_syncs();
    let hash = node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    assert!(node.call("eth_getTransactionReceipt", json!([hash])).is_null(), "it is in no block");
    let block = node.chain.mine().unwrap();
    // What does not acknowledge does not wait.
    assert_eq!(node.call("eth_getTransactionByHash", json!([hash]))["blockNumber"], "0x2");
    assert_eq!(node.call("hearth_transactionFate", json!([hash]))["status"], "included");
    assert!(node.call("eth_getBlockReceipts", json!(["0x5"])).is_null(), "there is no such block");
    let patience = node.ask("eth_sendRawTransactionSync", json!([Plan::transfer(1, 1).raw(), 50]));
    assert_eq!(patience["error"]["code"], 4);
    node.chain.mine().unwrap();
    let asks = [
        ("eth_getTransactionReceipt", json!([hash])),
        ("eth_getBlockReceipts", json!(["0x2"])),
        ("eth_getBlockReceipts", json!([block.hash])),
        ("eth_getBlockReceipts", json!(["latest"])),
    ];
    let read = || node.server.counters().all().into_iter().find(|(name, ..)| *name == "requests").unwrap().2;
    let before = read();
    std::thread::scope(|scope| {
        let answers: Vec<_> = asks
            .iter()
            .map(|(method, params)| {
                let other = node.another();
                scope.spawn(move || {
                    // A disk that takes too long is no answer, and the client asks again.
                    wait_for("an answer", || match other.call(method, params.clone()) {
                        answer if answer.is_null() => Err((*method).into()),
                        answer => Ok((answer, other.synced())),
                    })
                })
            })
            .collect();
        wait_until("all requests are read", || read() >= before + asks.len() as u64);
        assert!(answers.iter().all(|answer| !answer.is_finished()));
        assert_eq!(node.chain.synced(), 1);
        drop(held);
        for answer in answers {
            let (answer, synced) = answer.join().unwrap();
            assert!(synced >= 2, "{synced}: {answer}");
        }
    });
    let held = node.chain.hold_syncs();
    std::thread::scope(|scope| {
        let other = node.another();
        let raw = Plan::transfer(1, 2).raw();
        let receipt =
            scope.spawn(move || (other.call("eth_sendRawTransactionSync", json!([raw, 60_000])), other.synced()));
        wait_until("it waits for a block", || node.chain.pool().status().pending == 1);
        let block = node.chain.mine().unwrap().number();
        wait_until("the pool has let go of it", || node.chain.pool().status().pending == 0);
        assert!(!receipt.is_finished());
        drop(held);
        let (receipt, synced) = receipt.join().unwrap();
        assert_eq!(number(&receipt["blockNumber"]), u128::from(block));
        assert!(synced >= block);
    });
}

/// Ends the thread that makes blocks, also where the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn no_durable_receipt_is_ahead_of_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::in_folder(dir.path(), |config| config.durable = true);
    let (chain, done) = (node.chain.clone(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let stop = Stop(&done);
        scope.spawn(|| {
            while !done.load(Relaxed) {
                chain.mine().unwrap();
            }
        });
        // Blocks come while receipts are asked for: some between the two looks that an answer takes.
        for nonce in 0..300 {
            let hash = node.call("eth_sendRawTransaction", json!([Plan::transfer(1, nonce).raw()]));
            let receipt = node.receipt(&hash);
            let synced = node.chain.synced();
            assert!(u128::from(synced) >= number(&receipt["blockNumber"]), "{synced} is on disk: {receipt}");
        }
        drop(stop);
    });
}
