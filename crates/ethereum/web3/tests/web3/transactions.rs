//! Transactions into the chain and back, blocks, receipts, logs, fees.

use std::time::Duration;

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, TxKind, hex};
use hearth_evm::chain::BlockTime;
use hearth_testkit::wait_until;
use serde_json::{Value, json};

use crate::node::{CHAIN_ID, GWEI, KEEPS, LOGS, Node, Plan, account, creates, number, raw, word};

#[test]
fn the_node_says_who_it_is() {
    let node = Node::new(BlockTime::Manual);
    assert_eq!(number(&node.call("eth_chainId", json!([]))), CHAIN_ID.into());
    assert_eq!(node.call("net_version", json!([])), CHAIN_ID.to_string());
    assert!(node.call("web3_clientVersion", json!([])).as_str().unwrap().starts_with("Hearth/v"));
    let empty = "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
    assert_eq!(node.call("web3_sha3", json!(["0x"])), empty);
    for (method, expected) in [
        ("eth_syncing", json!(false)),
        ("net_listening", json!(true)),
        ("net_peerCount", json!("0x0")),
        ("eth_mining", json!(false)),
        ("eth_hashrate", json!("0x0")),
        ("eth_blobBaseFee", json!("0x1")),
    ] {
        assert_eq!(node.call(method, json!([])), expected, "{method}");
    }
    for method in ["eth_nothing", "debug_nothing", "txpool_nothing", "anvil_nothing", "nothing", "engine_newPayloadV1"]
    {
        assert_eq!(node.fails(method, json!([])).0, -32601, "{method}");
    }
}

#[test]
fn a_transfer_is_found_in_every_way() {
    let node = Node::new(BlockTime::Instant);
    let hash = node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    let receipt = node.receipt(&hash);
    assert_eq!((&receipt["status"], &receipt["gasUsed"]), (&json!("0x1"), &json!("0x5208")));
    assert_eq!(receipt["from"], format!("{:?}", account(1)));
    assert!(receipt["contractAddress"].is_null());
    let tx = node.call("eth_getTransactionByHash", json!([hash]));
    assert_eq!((&tx["hash"], &tx["type"], &tx["nonce"]), (&hash, &json!("0x2"), &json!("0x0")));
    assert_eq!(tx["gasPrice"], receipt["effectiveGasPrice"]);
    let number = receipt["blockNumber"].clone();
    let block = node.call("eth_getBlockByNumber", json!([number, true]));
    assert_eq!(block["transactions"][0], tx);
    let by_hash = node.call("eth_getBlockByHash", json!([block["hash"], false]));
    assert_eq!(by_hash["transactions"][0], hash);
    assert_eq!(node.call("eth_getBlockReceipts", json!([number]))[0], receipt);
    for (method, block) in [
        ("eth_getTransactionByBlockNumberAndIndex", &number),
        ("eth_getTransactionByBlockHashAndIndex", &block["hash"]),
    ] {
        assert_eq!(node.call(method, json!([block, "0x0"])), tx);
        assert!(node.call(method, json!([block, "0x1"])).is_null());
    }
    for (method, block) in
        [("eth_getBlockTransactionCountByNumber", &number), ("eth_getBlockTransactionCountByHash", &block["hash"])]
    {
        assert_eq!(node.call(method, json!([block])), "0x1");
    }
    assert_eq!(node.call("eth_getUncleCountByBlockHash", json!([block["hash"]])), "0x0");
    assert!(node.call("eth_getUncleByBlockHashAndIndex", json!([block["hash"], "0x0"])).is_null());
    assert_eq!(node.call("hearth_transactionFate", json!([hash]))["status"], "included");
    let raw = node.call("eth_getRawTransactionByHash", json!([hash]));
    assert_eq!(raw, node.call("debug_getRawTransaction", json!([hash])));
    assert_eq!(raw, Plan::transfer(1, 0).raw());
}

#[test]
fn unknown_hashes_give_null() {
    let node = Node::new(BlockTime::Manual);
    for (method, params) in [
        ("eth_getTransactionByHash", json!([B256::ZERO])),
        ("eth_getTransactionReceipt", json!([B256::ZERO])),
        ("eth_getBlockByHash", json!([B256::ZERO, true])),
        ("eth_getBlockByNumber", json!(["0x99", true])),
        ("eth_getBlockReceipts", json!(["0x99"])),
        ("eth_getBlockTransactionCountByNumber", json!(["0x99"])),
    ] {
        assert!(node.call(method, params).is_null(), "{method}");
    }
    assert_eq!(node.call("hearth_transactionFate", json!([B256::ZERO]))["status"], "unknown");
}

#[test]
fn blocks_have_the_fields_that_clients_read() {
    let node = Node::new(BlockTime::Manual);
    node.chain.mine().unwrap();
    let block = node.call("eth_getBlockByNumber", json!(["latest", false]));
    for name in "hash parentHash sha3Uncles miner stateRoot transactionsRoot receiptsRoot logsBloom difficulty number \
                 gasLimit gasUsed timestamp extraData mixHash nonce baseFeePerGas withdrawalsRoot withdrawals \
                 blobGasUsed excessBlobGas parentBeaconBlockRoot requestsHash size uncles transactions"
        .split_whitespace()
    {
        assert!(!block[name].is_null(), "{name}: {block}");
    }
    assert!(block.get("totalDifficulty").is_none(), "{block}");
    let header = hex::decode(node.call("debug_getRawHeader", json!(["latest"])).as_str().unwrap()).unwrap();
    assert_eq!(block["hash"], alloy_primitives::keccak256(header).to_string());
    let raw = node.call("debug_getRawBlock", json!(["latest"]));
    assert_eq!(number(&block["size"]), (raw.as_str().unwrap().len() as u128 - 2) / 2);
    assert_eq!(node.call("eth_getHeaderByNumber", json!(["latest"]))["hash"], block["hash"]);
    let pending = node.call("eth_getBlockByNumber", json!(["pending", false]));
    assert!(pending["hash"].is_null() && pending["parentHash"] == block["hash"], "{pending}");
    let genesis = node.call("eth_getBlockByNumber", json!(["earliest", false]));
    assert_eq!(block["parentHash"], genesis["hash"]);
}

#[test]
fn waiting_transaction_is_pending() {
    let node = Node::new(BlockTime::Manual);
    let send = |seed, nonce| node.call("eth_sendRawTransaction", json!([Plan::transfer(seed, nonce).raw()]));
    let (first, gapped) = (send(1, 0), send(2, 5));
    assert!(node.call("eth_getTransactionByHash", json!([first]))["blockHash"].is_null());
    assert_eq!(node.call("eth_getTransactionCount", json!([account(1), "pending"])), "0x1");
    assert_eq!(node.call("eth_getTransactionCount", json!([account(1), "latest"])), "0x0");
    assert_eq!(node.call("txpool_status", json!([])), json!({ "pending": "0x1", "queued": "0x1" }));
    let content = node.call("txpool_content", json!([]));
    assert_eq!(content["pending"][account(1).to_string()]["0"]["hash"], first);
    assert_eq!(content["queued"][account(2).to_string()]["5"]["hash"], gapped);
    let inspect = node.call("txpool_inspect", json!([]));
    assert!(inspect["pending"][account(1).to_string()]["0"].as_str().unwrap().contains("1 wei + 21000 gas"));
    let own = node.call("txpool_contentFrom", json!([account(2)]));
    assert_eq!((&own["queued"]["5"]["hash"], &own["pending"]), (&gapped, &json!({})));
    assert_eq!(node.call("hearth_transactionFate", json!([first]))["status"], "pending");
    let fate = node.call("hearth_transactionFate", json!([gapped]));
    assert_eq!((&fate["status"], &fate["waitsForNonce"]), (&json!("pending"), &json!("0x0")), "{fate}");
    // One that is too cheap holds up those behind it.
    let cheap = TxEip1559 { max_fee_per_gas: 7, max_priority_fee_per_gas: 1, ..Plan::transfer(3, 0).tx() };
    let cheap = node.call("eth_sendRawTransaction", json!([raw(cheap, 3)]));
    let behind = send(3, 1);
    let reason = |hash: &Value| {
        let fate = node.call("hearth_transactionFate", json!([hash]));
        assert!(fate["status"] == "pending" && fate.get("waitsForNonce").is_none(), "{fate}");
        fate["reason"].as_str().unwrap_or_default().to_owned()
    };
    assert!(reason(&cheap).starts_with("it pays at most 7 wei for a unit of gas, and the next block's base fee is "));
    let said = "it waits for its account's transaction with nonce 0, which pays at most 7 wei for a unit of gas";
    assert!(reason(&behind).starts_with(said), "{}", reason(&behind));
    assert_eq!(reason(&first), "");
    assert_eq!(node.call("anvil_dropTransaction", json!([first])), first);
    let fate = node.call("hearth_transactionFate", json!([first]));
    assert_eq!((&fate["status"], &fate["reason"]), (&json!("dropped"), &json!("removed on demand")));
}

#[test]
fn a_batch_of_transactions_is_answered_one_by_one() {
    let node = Node::new(BlockTime::Instant);
    let one = |id: usize, raw: String| {
        let method = "eth_sendRawTransaction";
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": [raw] })
    };
    let batch: Vec<Value> =
        (0..500).map(|id| one(id, Plan::transfer(1 + (id % 8) as u8, id as u64 / 8).raw())).collect();
    let answers = node.ask_value(&json!(batch));
    for (id, answer) in answers.as_array().unwrap().iter().enumerate() {
        assert_eq!(answer["id"], id);
        node.receipt(&answer["result"]);
    }
    let again = node.ask_value(&json!(batch[..3]));
    for answer in again.as_array().unwrap() {
        let why = answer["error"]["message"].as_str().unwrap();
        assert!(why.starts_with("nonce too low") || why == "already known", "{why}");
    }
    let balance = node.call("eth_getBalance", json!([Address::repeat_byte(0x77), "latest"]));
    assert_eq!(number(&balance), 500);
    let counted = node.server.counters();
    assert_eq!(counted.bursts.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[test]
fn logs_are_found_by_range_address_and_topic() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, LOGS);
    let mut blocks = Vec::new();
    for nonce in 1..=5 {
        let input = hex::decode(word(nonce)).unwrap().into();
        let to = TxKind::Call(contract.parse().unwrap());
        blocks.push(node.run(&Plan { seed: 1, nonce, to, value: 0, gas: 100_000, input })["blockNumber"].clone());
    }
    let find = |filter: Value| node.call("eth_getLogs", json!([filter])).as_array().unwrap().clone();
    let all = find(json!({ "fromBlock": "earliest" }));
    assert_eq!(all.len(), 5);
    assert_eq!((&all[2]["data"], &all[2]["blockNumber"]), (&json!(word(3)), &blocks[2]));
    assert_eq!((&all[2]["topics"], &all[2]["removed"]), (&json!([word(1)]), &json!(false)));
    assert_eq!(find(json!({ "fromBlock": blocks[1], "toBlock": blocks[3] })).len(), 3);
    assert_eq!(find(json!({ "fromBlock": "0x0", "address": [contract], "topics": [[null, word(9)]] })).len(), 5);
    assert_eq!(find(json!({ "fromBlock": "0x0", "topics": [word(2)] })).len(), 0);
    assert_eq!(find(json!({ "blockHash": all[0]["blockHash"] })).len(), 1);
    assert_eq!(find(json!({})).len(), 1);
    assert_eq!(
        node.fails("eth_getLogs", json!([{ "fromBlock": "0x5", "toBlock": "0x1" }])).1,
        "invalid block range params"
    );
    assert_eq!(node.fails("eth_getLogs", json!([{ "blockHash": B256::ZERO }])).1, "unknown block");
}

#[test]
fn filters_tell_what_is_new() {
    let node = Node::new(BlockTime::Manual);
    let contract = {
        let raw = json!([{ "from": account(1), "data": format!("0x{}", crate::node::creates(LOGS)) }]);
        let hash = node.call("eth_sendTransaction", raw);
        node.chain.mine().unwrap();
        node.receipt(&hash)["contractAddress"].clone()
    };
    let blocks = node.call("eth_newBlockFilter", json!([]));
    let logs = node.call("eth_newFilter", json!([{ "address": contract }]));
    let pending = node.call("eth_newPendingTransactionFilter", json!([]));
    let changes = |filter: &Value| node.call("eth_getFilterChanges", json!([filter])).as_array().unwrap().clone();
    assert!(changes(&blocks).is_empty() && changes(&logs).is_empty());
    let hash = node.call("eth_sendTransaction", json!([{ "from": account(1), "to": contract, "data": "0x01" }]));
    wait_until("the pending transaction is delivered", || changes(&pending) == [hash.clone()]);
    let block = node.chain.mine().unwrap();
    assert_eq!(changes(&blocks), [json!(block.hash)]);
    assert_eq!(changes(&logs)[0]["transactionHash"], hash);
    assert!(changes(&blocks).is_empty() && changes(&logs).is_empty());
    assert_eq!(node.call("eth_getFilterLogs", json!([logs])).as_array().unwrap().len(), 1);
    assert_eq!(node.call("eth_uninstallFilter", json!([logs])), true);
    assert_eq!(node.call("eth_uninstallFilter", json!([logs])), false);
    assert_eq!(node.fails("eth_getFilterChanges", json!([logs])), (-32000, "filter not found".into()));
}

#[test]
fn fees_follow_the_blocks() {
    let node = Node::new(BlockTime::Manual);
    for nonce in 0..3 {
        node.call("eth_sendRawTransaction", json!([Plan::transfer(1, nonce).raw()]));
        node.chain.mine().unwrap();
    }
    assert_eq!(number(&node.call("eth_maxPriorityFeePerGas", json!([]))), GWEI);
    assert!(number(&node.call("eth_gasPrice", json!([]))) > GWEI);
    let history = node.call("eth_feeHistory", json!(["0x2", "latest", [0, 50.5, 100]]));
    assert_eq!((&history["oldestBlock"], history["baseFeePerGas"].as_array().unwrap().len()), (&json!("0x2"), 3));
    assert_eq!(history["reward"][1], json!(["0x3b9aca00", "0x3b9aca00", "0x3b9aca00"]));
    // The next block pays what was foretold.
    let block = node.chain.mine().unwrap();
    assert_eq!(number(&history["baseFeePerGas"][2]), block.base_fee().into());
    assert_eq!(node.call("eth_feeHistory", json!([1_000, "latest", null]))["oldestBlock"], "0x0");
    assert!(node.fails("eth_feeHistory", json!(["0x1", "latest", [101]])).1.starts_with("invalid reward percentile"));
    assert!(node.fails("eth_feeHistory", json!(["0x1", "0x99", []])).1.starts_with("request beyond head block"));
}

#[test]
fn number_block_receipts_and_nonce_agree_at_any_instant() {
    let node = Node::new(BlockTime::Instant);
    let total = 400;
    std::thread::scope(|scope| {
        let chain = node.chain.clone();
        scope.spawn(move || {
            for nonce in 0..total {
                let raw = hex::decode(Plan::transfer(1, nonce).raw()).unwrap();
                chain.submit(vec![raw.into()]).pop().unwrap().unwrap();
            }
        });
        let mut last = 0;
        wait_until("all transactions are in blocks", || {
            let height = number(&node.call("eth_blockNumber", json!([])));
            assert!(height >= last, "the chain went back from {last} to {height}");
            last = height;
            let at = format!("{height:#x}");
            let block = node.call("eth_getBlockByNumber", json!([at, false]));
            let nonce = number(&node.call("eth_getTransactionCount", json!([account(1), at])));
            let sum: u128 = number(&node.call("eth_getBalance", json!([Address::repeat_byte(0x77), at])));
            assert_eq!(nonce, sum, "one wei a transaction at block {height}");
            let latest = number(&node.call("eth_getTransactionCount", json!([account(1), "latest"])));
            assert!(latest >= nonce, "nonce {latest} after {nonce}");
            for hash in block["transactions"].as_array().unwrap() {
                let receipt = node.call("eth_getTransactionReceipt", json!([hash]));
                assert_eq!(receipt["blockHash"], block["hash"]);
                let tx = node.call("eth_getTransactionByHash", json!([hash]));
                assert!(number(&tx["nonce"]) < nonce);
            }
            latest >= u128::from(total)
        });
    });
}

#[test]
fn filter_delivers_the_rest_later() {
    let node = Node::with(BlockTime::Manual, |config| config.limits.logs = 2);
    let deploy = json!([{ "from": account(1), "data": format!("0x{}", crate::node::creates(LOGS)) }]);
    let deployed = node.call("eth_sendTransaction", deploy);
    node.chain.mine().unwrap();
    let contract = node.receipt(&deployed)["contractAddress"].clone();
    let filter = node.call("eth_newFilter", json!([{ "address": contract }]));
    let logs = |count: usize| {
        for _ in 0..count {
            let call = json!([{ "from": account(1), "to": contract, "data": "0x01", "gas": "0x186a0" }]);
            node.call("eth_sendTransaction", call);
        }
        node.chain.mine().unwrap();
    };
    [1, 2, 1].into_iter().for_each(logs);
    let changes_count = || node.call("eth_getFilterChanges", json!([filter])).as_array().unwrap().len();
    assert_eq!([changes_count(), changes_count(), changes_count(), changes_count()], [1, 2, 1, 0]);
    // One block's logs are delivered whole, even if they exceed the limit for several blocks: else they would never be.
    [3, 1].into_iter().for_each(logs);
    assert_eq!([changes_count(), changes_count(), changes_count()], [3, 1, 0]);
    let head = node.chain.head().number();
    let one = |number: u64| json!([{ "fromBlock": format!("{number:#x}"), "toBlock": format!("{number:#x}") }]);
    assert_eq!(node.call("eth_getLogs", one(head - 1)).as_array().unwrap().len(), 3);
    let hash = node.chain.block(head - 1).unwrap().hash;
    assert_eq!(node.call("eth_getLogs", json!([{ "blockHash": hash }])).as_array().unwrap().len(), 3);
    let both = json!([{ "fromBlock": format!("{:#x}", head - 1), "toBlock": "latest" }]);
    assert_eq!(node.fails("eth_getLogs", both), (-32005, "query returned more than 2 results".into()));
}

#[test]
fn the_block_to_come_lists_what_it_would_hold() {
    let node = Node::new(BlockTime::Manual);
    // Its time, and with it its hash, stays the same until it is made.
    node.call("evm_setNextBlockTimestamp", json!([4_000_000_000_u64]));
    let empty = node.call("eth_getBlockByNumber", json!(["pending", true]));
    assert_eq!((&empty["transactions"], &empty["number"]), (&json!([]), &json!("0x1")));
    let hashes: Vec<Value> = [Plan::transfer(1, 0), Plan::transfer(1, 1), Plan::transfer(2, 5)]
        .iter()
        .map(|plan| node.call("eth_sendRawTransaction", json!([plan.raw()])))
        .collect();
    // The third waits behind a gap.
    let block = node.call("eth_getBlockByNumber", json!(["pending", false]));
    assert_eq!(block["transactions"], json!(hashes[..2]));
    assert_eq!(node.call("eth_getBlockTransactionCountByNumber", json!(["pending"])), "0x2");
    let whole = node.call("eth_getBlockByNumber", json!(["pending", true]));
    let second = node.call("eth_getTransactionByBlockNumberAndIndex", json!(["pending", "0x1"]));
    assert_eq!((&whole["transactions"][1], &second["hash"]), (&second, &hashes[1]));
    assert_eq!((&second["blockNumber"], &second["transactionIndex"]), (&json!("0x1"), &json!("0x1")));
    assert_eq!(second["blockTimestamp"], whole["timestamp"]);
    assert!(node.call("eth_getTransactionByBlockNumberAndIndex", json!(["pending", "0x2"])).is_null());
    let raw = node.call("eth_getRawTransactionByBlockNumberAndIndex", json!(["pending", "0x0"]));
    assert_eq!(raw, Plan::transfer(1, 0).raw());
    node.call("evm_mine", json!([]));
    assert_eq!(node.call("eth_getBlockByNumber", json!(["pending", false]))["transactions"], json!([]));
    let mined = node.call("eth_getTransactionByBlockNumberAndIndex", json!(["0x1", "0x1"]));
    assert_eq!((&mined["hash"], &mined["gasPrice"]), (&hashes[1], &second["gasPrice"]));
}

#[test]
fn the_pending_block_is_executed() {
    let node = Node::new(BlockTime::Manual);
    node.call("evm_setNextBlockTimestamp", json!([4_000_000_000_u64]));
    let deploy = format!("0x{}", creates(KEEPS));
    let deployed = node.call("eth_sendTransaction", json!([{ "from": account(1), "data": deploy }]));
    let contract = account(1).create(0);
    // The gas is estimated on the pending state: on the latest there is no contract yet.
    let set = json!([{ "from": account(1), "to": contract, "data": word(7) }]);
    let called = node.call("eth_sendTransaction", set);
    let at = |method: &str, params: &[Value], block: &str| {
        node.call(method, Value::Array([params, &[json!(block)]].concat()))
    };
    let code = [json!(contract)];
    let slot = [json!(contract), json!("0x0")];
    // PUSH0 SLOAD PUSH0 MSTORE PUSH1 32 PUSH0 RETURN
    let reads = json!({ contract.to_string(): { "code": "0x5f545f5260205ff3" } });
    for (block, expected_code, expected_slot) in [("latest", "0x".into(), 0), ("pending", format!("0x{KEEPS}"), 7)] {
        assert_eq!(at("eth_getCode", &code, block), expected_code);
        assert_eq!(at("eth_getStorageAt", &slot, block), word(expected_slot));
        let read = json!([{ "to": contract }, block, reads]);
        assert_eq!(node.call("eth_call", read), word(expected_slot), "{block}");
    }
    let paid = number(&at("eth_getBalance", &[json!(account(1))], "latest"))
        - number(&at("eth_getBalance", &[json!(account(1))], "pending"));
    let pending = node.call("eth_getBlockByNumber", json!(["pending", false]));
    let receipts = node.call("eth_getBlockReceipts", json!(["pending"]));
    let gas: u128 = receipts.as_array().unwrap().iter().map(|receipt| number(&receipt["gasUsed"])).sum();
    assert_eq!(number(&pending["gasUsed"]), gas);
    assert!(paid > gas, "{paid} {gas}");
    assert_eq!(receipts[1]["transactionHash"], called);
    assert_eq!(receipts[0]["contractAddress"], json!(contract.to_string().to_lowercase()));
    let header = node.call("eth_getHeaderByNumber", json!(["pending"]));
    assert_eq!(header["stateRoot"], pending["stateRoot"]);
    let history = node.call("eth_feeHistory", json!(["0x2", "pending", []]));
    assert_eq!(history["oldestBlock"], "0x0");
    let proof = node.fails("eth_getProof", json!([contract, [], "pending"]));
    assert_eq!(proof.1, "the state of the pending block has no proofs: ask for those of the latest block");
    // The block that is made of the same is the same.
    node.chain.mine().unwrap();
    let mut made = node.call("eth_getBlockByNumber", json!(["latest", false]));
    assert_eq!(made["transactions"], json!([deployed, called]));
    assert_eq!(made["hash"], receipts[0]["blockHash"]);
    ["hash", "nonce", "miner"].into_iter().for_each(|name| made[name] = Value::Null);
    assert_eq!(made, pending);
    assert_eq!(node.call("eth_getBlockReceipts", json!(["latest"])), receipts);
    assert_eq!(node.call("eth_getBlockReceipts", json!(["pending"])), json!([]));
}

#[test]
fn a_transaction_says_when_its_block_was_made() {
    let node = Node::new(BlockTime::Manual);
    let hash = node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    let waiting = node.call("eth_getTransactionByHash", json!([hash]));
    assert_eq!(waiting.get("blockTimestamp"), Some(&Value::Null));
    node.chain.mine().unwrap();
    let block = node.call("eth_getBlockByNumber", json!(["latest", true]));
    let mined = node.call("eth_getTransactionByHash", json!([hash]));
    assert_eq!(mined["blockTimestamp"], block["timestamp"]);
    assert_eq!(mined, block["transactions"][0]);
}

#[test]
fn objects_have_the_execution_apis_fields() {
    let node = Node::new(BlockTime::Manual);
    let deploy = json!([{ "from": account(1), "data": format!("0x{}", creates(LOGS)) }]);
    let deployed = node.call("eth_sendTransaction", deploy);
    node.chain.mine().unwrap();
    let contract = node.receipt(&deployed)["contractAddress"].clone();
    let legacy = json!([{ "from": account(1), "to": contract, "data": "0x01", "gasPrice": "0x174876e800" }]);
    let legacy = node.call("eth_sendTransaction", legacy);
    node.chain.mine().unwrap();
    let fields = |value: &Value, expected: &str| {
        let mut expected: Vec<&str> = expected.split_whitespace().collect();
        let mut fields: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        (expected.sort_unstable(), fields.sort_unstable());
        assert_eq!(fields, expected);
    };
    let of_all = "blockHash blockNumber blockTimestamp chainId from gas gasPrice hash input nonce r s to \
                  transactionIndex type v value";
    let transaction = |hash: &Value| node.call("eth_getTransactionByHash", json!([hash]));
    fields(&transaction(&legacy), of_all);
    fields(&transaction(&deployed), &format!("{of_all} accessList maxFeePerGas maxPriorityFeePerGas yParity"));
    let receipt = node.receipt(&legacy);
    fields(
        &receipt,
        "blockHash blockNumber contractAddress cumulativeGasUsed effectiveGasPrice from gasUsed logs logsBloom \
         status to transactionHash transactionIndex type",
    );
    fields(
        &receipt["logs"][0],
        "address blockHash blockNumber blockTimestamp data logIndex removed topics transactionHash transactionIndex",
    );
    fields(
        &node.call("eth_getBlockByNumber", json!(["latest", true])),
        "baseFeePerGas blobGasUsed difficulty excessBlobGas extraData gasLimit gasUsed hash logsBloom miner mixHash \
         nonce number parentBeaconBlockRoot parentHash receiptsRoot requestsHash sha3Uncles size stateRoot timestamp \
         transactions transactionsRoot uncles withdrawals withdrawalsRoot",
    );
}

#[test]
fn log_ranges_are_refused_in_the_execution_apis_words() {
    let node = Node::new(BlockTime::Manual);
    node.chain.mine_many(3, None).unwrap();
    let range = |from: &str, to: &str| json!([{ "fromBlock": from, "toBlock": to }]);
    let reversed = (-32602, "invalid block range params".to_owned());
    let beyond = (-32602, "block range extends beyond current head block".to_owned());
    assert_eq!(node.fails("eth_getLogs", range("0x3", "0x2")), reversed);
    assert_eq!(node.fails("eth_newFilter", range("0x3", "0x2")), reversed);
    assert_eq!(node.fails("eth_getLogs", range("0x32", "0x2f")), reversed);
    for (from, to) in [("0x2", "0x4"), ("0x4", "0x4"), ("0x4", "latest"), ("earliest", "0x4")] {
        assert_eq!(node.fails("eth_getLogs", range(from, to)), beyond, "{from} {to}");
    }
    assert_eq!(node.call("eth_getLogs", range("0x2", "0x3")), json!([]));
    // A filter may be of blocks to come.
    let filter = node.call("eth_newFilter", range("0x4", "0x9"));
    assert_eq!(node.call("eth_getFilterLogs", json!([filter])), json!([]));
}

#[test]
fn a_transaction_can_be_sent_for_its_receipt() {
    let node = Node::new(BlockTime::Instant);
    let receipt = node.call("eth_sendRawTransactionSync", json!([Plan::transfer(1, 0).raw()]));
    assert_eq!((&receipt["status"], &receipt["blockNumber"]), (&json!("0x1"), &json!("0x1")));
    let receipt = node.call("eth_sendRawTransactionSync", json!([Plan::transfer(1, 1).raw(), 60_000]));
    assert_eq!(receipt, node.call("eth_getTransactionReceipt", json!([receipt["transactionHash"]])));
    assert_eq!(node.fails("eth_sendRawTransactionSync", json!([Plan::transfer(1, 0).raw()])).0, -32000);
    assert_eq!(node.fails("eth_sendRawTransactionSync", json!([])).0, -32602);
    let gap = node.ask("eth_sendRawTransactionSync", json!([Plan::transfer(1, 4).raw()]));
    assert_eq!(gap["error"]["code"], 5);
    assert!(gap["error"]["message"].as_str().unwrap().ends_with("next nonce 2"), "{gap}");
    let node = Node::new(BlockTime::Manual);
    let late = node.ask("eth_sendRawTransactionSync", json!([Plan::transfer(1, 0).raw(), 50]));
    assert_eq!(late["error"]["code"], 4);
    node.call("evm_mine", json!([]));
    let receipt = node.call("eth_getTransactionReceipt", json!([late["error"]["data"]]));
    assert_eq!(receipt["status"], "0x1");
}

#[test]
fn slow_reads_run_beside_the_answering_threads() {
    let dir = tempfile::tempdir().unwrap();
    // No place for anything that takes long: what is answered anyway is answered at once.
    let node = Node::in_folder(dir.path(), |config| {
        config.limits.heavy_at_once = 0;
        config.limits.heavy_time = Duration::from_millis(10);
    });
    let send = |nonce| node.call("eth_sendRawTransaction", json!([Plan::transfer(1, nonce).raw()]));
    let old = send(0);
    let first = node.chain.mine().unwrap();
    node.chain.mine_many(260, None).unwrap();
    let all: Vec<Value> = (1..=201).map(send).collect();
    let busy = node.chain.mine().unwrap().number();
    let busy = format!("{busy:#x}");
    for (method, params) in [
        ("eth_getBlockByNumber", json!(["0x1", false])),
        ("eth_getBlockByHash", json!([first.hash, false])),
        ("eth_getBlockReceipts", json!(["0x1"])),
        ("eth_getTransactionByHash", json!([old])),
        ("eth_getTransactionReceipt", json!([old])),
        ("hearth_transactionFate", json!([old])),
        ("eth_getTransactionByBlockNumberAndIndex", json!(["0x1", "0x0"])),
        ("eth_getBalance", json!([account(1), "0x1"])),
        ("eth_getBlockByNumber", json!([busy, true])),
        ("eth_getBlockReceipts", json!([busy])),
    ] {
        assert_eq!(node.fails(method, params), (-32000, "execution aborted (timeout = 0.01s)".into()), "{method}");
    }
    for (method, params) in [
        ("eth_getBlockByNumber", json!([busy, false])),
        ("eth_getBlockByNumber", json!(["0x0", true])),
        ("eth_getTransactionReceipt", json!([all[200]])),
        ("eth_getTransactionByHash", json!([all[0]])),
        ("eth_getBalance", json!([account(1), busy])),
    ] {
        assert!(!node.call(method, params).is_null(), "{method}");
    }
    assert!(node.call("eth_getTransactionByHash", json!([B256::ZERO])).is_null());
    assert!(node.call("eth_getBlockByHash", json!([B256::ZERO, true])).is_null());
    assert!(node.call("eth_getBlockByNumber", json!(["0xffff", true])).is_null());
}

#[test]
fn disk_and_memory_give_equal_answers() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::in_folder(dir.path(), |_| {});
    let hash = node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    let block = node.chain.mine().unwrap();
    let ask = || {
        [
            ("eth_getBlockByNumber", json!(["0x1", true])),
            ("eth_getBlockByHash", json!([block.hash, false])),
            ("eth_getBlockReceipts", json!(["0x1"])),
            ("eth_getTransactionByHash", json!([hash])),
            ("eth_getTransactionReceipt", json!([hash])),
            ("hearth_transactionFate", json!([hash])),
        ]
        .map(|(method, params)| node.call(method, params))
    };
    let before = ask();
    node.chain.mine_many(260, None).unwrap();
    assert_eq!(ask(), before);
}
