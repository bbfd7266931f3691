//! Malformed requests, and the errors that they get.

use std::io::{Read, Write};
use std::sync::atomic::Ordering::Relaxed;

use alloy_consensus::TxEip1559;
use alloy_primitives::{U256, hex};
use hearth_evm::chain::BlockTime;
use hearth_testkit::wait_until;
use hearth_web3::Limits;
use serde_json::{Value, json};

use crate::node::{GWEI, Node, Plan, account, connect, raw, read_answer, send, word};

#[test]
fn bad_transactions_are_refused_in_geths_words() {
    let node = Node::new(BlockTime::Manual);
    let changed = |change: fn(&mut TxEip1559)| {
        let mut tx = Plan::transfer(1, 0).tx();
        change(&mut tx);
        raw(tx, 1)
    };
    let cut = {
        let whole = Plan::transfer(1, 0).raw();
        whole[..whole.len() - 8].to_owned()
    };
    let blob = "0x03f8b1820539806485174876e800825208940000000000000000000000000000000000000000";
    let table = [
        ("0x".to_owned(), "typed transaction too short"),
        ("0x00".into(), "transaction type not supported"),
        ("0xdeadbeef".into(), "rlp: "),
        ("0xc0".into(), "rlp: "),
        (format!("0x{}", "ff".repeat(100)), "rlp: "),
        (cut, "rlp: "),
        (blob.into(), "rlp: "),
        (changed(|tx| tx.chain_id = 1), "invalid chain id for signer: have 1 want 31337"),
        (changed(|tx| tx.nonce = u64::MAX), "nonce has max value"),
        (changed(|tx| tx.gas_limit = u64::MAX), "transaction gas limit too high"),
        (changed(|tx| tx.gas_limit = 20_999), "intrinsic gas too low"),
        (changed(|tx| tx.max_fee_per_gas = u128::MAX), "insufficient funds for gas * price + value"),
        (changed(|tx| tx.value = U256::MAX), "insufficient funds for gas * price + value"),
        (
            changed(|tx| tx.max_priority_fee_per_gas = 200 * GWEI),
            "max priority fee per gas higher than max fee per gas",
        ),
        (changed(|tx| tx.input = vec![1; 200_000].into()), "oversized data"),
        (raw(Plan::transfer(9, 0).tx(), 9), "insufficient funds for gas * price + value"),
    ];
    for (raw, expected) in table {
        let (code, why) = node.fails("eth_sendRawTransaction", json!([raw]));
        assert!(code == -32000 && why.contains(expected), "{:.60}: {code} {why}", raw);
    }
    node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    assert_eq!(node.fails("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()])).1, "already known");
    let other = changed(|tx| tx.value = U256::from(2));
    assert_eq!(node.fails("eth_sendRawTransaction", json!([other])).1, "replacement transaction underpriced");
    assert_eq!(node.call("txpool_status", json!([]))["pending"], "0x1");
}

#[test]
fn bodies_are_bounded() {
    let node = Node::new(BlockTime::Manual);
    let data = "00".repeat(10 * 1024 * 1024);
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [{ "data": format!("0x{data}") }] });
    let stream = connect(&node.server);
    let text = call.to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        text.len()
    );
    let mut writer = &stream;
    writer.write_all(head.as_bytes()).unwrap();
    // The server may close before it has read all.
    let _ = writer.write_all(text.as_bytes());
    let (status, why) = read_answer(&stream);
    assert_eq!(status, 413, "{why}");
    assert!(why.starts_with("content length too large"), "{why}");
    // It still answers.
    node.call("eth_chainId", json!([]));
}

#[test]
fn long_calldata_is_judged_by_its_gas() {
    let node = Node::new(BlockTime::Manual);
    // 2 MiB of data that are not zero: 40 gas each at least (EIP-7623), beyond the bound of a call.
    let data = format!("0x{}", "11".repeat(2 * 1024 * 1024));
    let (code, why) = node.fails("eth_call", json!([{ "to": account(1), "data": data }]));
    assert!(
        code == -32000 && (why.contains("insufficient gas for floor data") || why.contains("intrinsic")),
        "{why:.200}"
    );
}

#[test]
fn a_batch_of_ten_thousand_is_refused() {
    let node = Node::new(BlockTime::Manual);
    let one = json!({ "jsonrpc": "2.0", "id": 5, "method": "eth_chainId", "params": [] });
    let answer = node.ask_value(&Value::Array(vec![one.clone(); 10_000]));
    assert_eq!(
        answer,
        json!([{ "jsonrpc": "2.0", "id": 5, "error": { "code": -32600, "message": "batch too large" } }])
    );
    assert_eq!(node.ask_value(&Value::Array(vec![one; 1_000])).as_array().unwrap().len(), 1_000);
}

#[test]
fn a_query_over_all_blocks_is_bounded() {
    let node = Node::limited(Limits { logs: 20, ..Default::default() });
    let contract = node.deploy(1, 0, crate::node::LOGS);
    for nonce in 1..=21 {
        let to = alloy_primitives::TxKind::Call(contract.parse().unwrap());
        node.run(&Plan { seed: 1, nonce, to, value: 0, gas: 100_000, input: hex::decode(word(nonce)).unwrap().into() });
    }
    let all = json!([{ "fromBlock": "0x0", "toBlock": "latest" }]);
    assert_eq!(node.fails("eth_getLogs", all), (-32005, "query returned more than 20 results".into()));
}

#[test]
fn requests_must_come_as_json_from_here() {
    let node = Node::new(BlockTime::Manual);
    let body = br#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
    let json = "Content-Type: application/json\r\n";
    for (head, expected) in [
        (format!("Host: localhost:8545\r\n{json}"), 200),
        (format!("Host: 127.0.0.1\r\n{json}Origin: http://localhost:3000\r\n"), 200),
        ("Host: localhost\r\nContent-Type: application/json; charset=utf-8\r\n".into(), 200),
        ("Host: localhost\r\nContent-Type: text/plain\r\n".into(), 415),
        ("Host: localhost\r\n".into(), 415),
        (format!("Host: evil.example\r\n{json}"), 403),
        (format!("Host: localhost\r\n{json}Origin: http://evil.example\r\n"), 403),
    ] {
        let (status, _) = send(&connect(&node.server), "POST", &head, body);
        assert_eq!(status, expected, "{head}");
    }
    let (status, _) = send(&connect(&node.server), "OPTIONS", "Host: localhost\r\nOrigin: http://localhost:1\r\n", b"");
    assert_eq!(status, 200);
    let (status, _) = send(&connect(&node.server), "PUT", "Host: localhost\r\n", b"");
    assert_eq!(status, 405);
    // No page of elsewhere opens a WebSocket either.
    let upgrade = "Host: localhost\r\nOrigin: http://evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let (status, _) = send(&connect(&node.server), "GET", upgrade, b"");
    assert_eq!(status, 403);
}

#[test]
fn excess_connection_gets_the_reason() {
    let node = Node::limited(Limits { connections: 0, ..Default::default() });
    let third = connect(&node.server);
    let (status, why) = read_answer(&third);
    assert_eq!(status, 503, "{why}");
    assert_eq!((&third).read(&mut [0; 1]).unwrap_or_default(), 0);
}

#[test]
fn idle_connections_make_room() {
    let node = Node::limited(Limits { connections: 2, ..Default::default() });
    let counters = node.server.counters();
    // One connection asks, and stays.
    node.call("eth_chainId", json!([]));
    let mut silent = vec![];
    for _ in 0..20 {
        silent.push(connect(&node.server));
        // Each is accepted before the next request, so that the connection that asks was idle for less long.
        wait_until("it is accepted", || counters.connections.load(Relaxed) > silent.len() as u64);
        assert_eq!(node.ask("eth_chainId", json!([]))["result"], "0x7a69");
    }
    assert_eq!(counters.connections_refused.load(Relaxed), 0);
    assert!(counters.connections_idle_closed.load(Relaxed) >= 19, "{counters:?}");
}

#[test]
fn exceeded_rate_gets_the_reason() {
    let node = Node::limited(Limits { requests_per_second: 3, ..Default::default() });
    // Each of a batch is a request: it takes minutes to make up for these.
    let one = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId" });
    let answers = node.ask_value(&json!(vec![one; 900]));
    assert!(answers.as_array().unwrap().iter().all(|answer| answer["result"] == "0x7a69"), "{answers}");
    assert_eq!(node.ask("eth_chainId", json!([]))["error"]["code"], -32005);
}

#[test]
fn methods_without_parameters_refuse_any() {
    let node = Node::new(BlockTime::Manual);
    let methods = "eth_blockNumber eth_chainId eth_gasPrice eth_maxPriorityFeePerGas eth_blobBaseFee eth_syncing \
                   eth_mining eth_hashrate eth_protocolVersion eth_coinbase eth_accounts eth_newBlockFilter \
                   net_version net_listening net_peerCount web3_clientVersion rpc_modules txpool_status txpool_content \
                   txpool_inspect debug_getBadBlocks eth_baseFee eth_config eth_capabilities ots_getApiLevel \
                   anvil_getGenesisTime";
    for method in methods.split_whitespace() {
        node.call(method, json!([]));
        let failure = node.fails(method, json!([{}]));
        assert_eq!(failure, (-32602, "too many arguments, want at most 0".into()), "{method}");
    }
}

#[test]
fn errors_have_the_execution_apis_words() {
    let node = Node::new(BlockTime::Manual);
    let long = format!("0x{}", "0".repeat(65));
    let at = |key: &str| node.fails("eth_getStorageAt", json!([account(1), key, "latest"]));
    assert_eq!(at(&long), (-32602, format!("storage key too long (want at most 32 bytes): {long:?}")));
    assert_eq!(at("0xasdf"), (-32602, "invalid hex in storage key: \"0xasdf\"".into()));
    let unknown = word(1);
    let by_hash = node.fails("debug_traceBlockByHash", json!([unknown]));
    assert_eq!(by_hash, (-32000, format!("block {unknown} not found")));
}

#[test]
fn a_creation_needs_data() {
    let node = Node::new(BlockTime::Manual);
    for message in [json!({ "from": account(1) }), json!({ "from": account(1), "gas": "0x186a0", "data": "0x" })] {
        let failure = node.fails("eth_sendTransaction", json!([message]));
        assert_eq!(failure, (-32000, "contract creation without any data provided".into()));
    }
}

#[test]
fn garbage_parameters_are_errors() {
    let node = Node::new(BlockTime::Manual);
    let methods = "eth_getBalance eth_getCode eth_getStorageAt eth_getTransactionCount eth_call eth_estimateGas \
                   eth_getBlockByNumber eth_getBlockByHash eth_getLogs eth_newFilter eth_getFilterChanges eth_getProof \
                   eth_getTransactionByHash eth_getTransactionReceipt eth_feeHistory eth_createAccessList \
                   eth_sendTransaction eth_sendRawTransaction eth_sign eth_signTypedData_v4 debug_traceTransaction \
                   debug_traceCall debug_traceBlockByNumber evm_mine evm_revert hardhat_setBalance anvil_setCode \
                   hardhat_setStorageAt evm_setNextBlockTimestamp txpool_contentFrom web3_sha3 hearth_transactionFate \
                   eth_simulateV1 eth_getStorageValues eth_fillTransaction eth_getAccount trace_block \
                   trace_transaction \
                   trace_get trace_filter trace_call trace_callMany trace_rawTransaction trace_replayTransaction \
                   trace_replayBlockTransactions ots_hasCode ots_getInternalOperations ots_getBlockDetails \
                   ots_getBlockTransactions ots_searchTransactionsBefore ots_getContractCreator debug_traceBlock \
                   debug_storageRangeAt debug_accountRange testing_buildBlockV1";
    let takes_objects = [
        "eth_call",
        "eth_estimateGas",
        "eth_createAccessList",
        "eth_getLogs",
        "eth_newFilter",
        "debug_traceCall",
        "evm_mine",
        "trace_filter",
    ];
    let unknown = json!([{ "a": { "b": [] } }]);
    let garbage = [
        json!(["garbage"]),
        json!([[[[]]]]),
        unknown.clone(),
        json!([-1, -1, -1]),
        json!([1.5]),
        json!(["0x", "0x", "0x"]),
        json!([true, {}, []]),
        json!(["\u{0}\\\"", "\\"]),
        json!([word(1), {}, {}, {}, {}, {}]),
    ];
    for method in methods.split_whitespace() {
        for params in &garbage {
            let answer = node.ask(method, params.clone());
            let code = answer["error"]["code"].as_i64();
            // An object without a field that is known is a message or a query that says nothing, as geth has it.
            let is_taken = params == &unknown && takes_objects.contains(&method);
            let is_right = if is_taken { code.is_none() } else { matches!(code, Some(-32602 | -32000)) };
            assert!(is_right, "{method} {params}: {answer}");
        }
    }
    node.call("eth_chainId", json!([]));
}
