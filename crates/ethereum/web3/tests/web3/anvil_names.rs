//! Every method name that anvil has: served here, or named in the docs as missing.
//!
//! reads   the names of foundry's `EthRequest`, of August 2026; `docs/web3.md`
//! memory  a small chain

use std::collections::BTreeSet;

use hearth_evm::chain::BlockTime;
use serde_json::json;

use crate::node::Node;

const PAGE: &str = include_str!("../../../../../docs/web3.md");
/// How many names anvil has, and how many of them must be served at least.
const NAMES: usize = 215;
const SERVED_MIN: usize = 190;
/// Methods that need a WebSocket; the tests of subscriptions call both.
const BY_SOCKET: [&str; 2] = ["eth_subscribe", "eth_unsubscribe"];
const SERVED: &str = "\
    anvil_addBalance anvil_autoImpersonateAccount anvil_dealERC20 anvil_dropAllTransactions anvil_dropTransaction \
    anvil_dumpState anvil_getAutomine anvil_getBlobByHash anvil_getBlobsByTransactionHash anvil_getGenesisTime \
    anvil_getIntervalMining anvil_impersonateAccount anvil_increaseTime anvil_loadState anvil_metadata anvil_mine \
    anvil_mine_detailed anvil_nodeInfo anvil_removeBlockTimestampInterval anvil_removePoolTransactions anvil_reset \
    anvil_revert anvil_rollback anvil_setAutomine anvil_setBalance anvil_setBlockGasLimit \
    anvil_setBlockTimestampInterval anvil_setCode anvil_setCoinbase anvil_setERC20Allowance anvil_setERC20Balance \
    anvil_setIntervalMining anvil_setLoggingEnabled anvil_setMinGasPrice anvil_setNextBlockBaseFeePerGas \
    anvil_setNextBlockPrevRandao anvil_setNextBlockTimestamp anvil_setNonce anvil_setRpcUrl anvil_setStorageAt \
    anvil_setTime anvil_snapshot anvil_stopImpersonatingAccount debug_clearTxpool debug_codeByHash \
    debug_freeOSMemory debug_getRawBlock debug_getRawHeader debug_getRawReceipts debug_getRawTransaction \
    debug_getRawTransactions debug_traceBlock debug_traceBlockByHash debug_traceBlockByNumber debug_traceCall \
    debug_traceTransaction erigon_getHeaderByNumber eth_accounts eth_baseFee eth_blobBaseFee eth_blockNumber \
    eth_call eth_chainId eth_coinbase eth_config eth_createAccessList eth_estimateGas eth_feeHistory \
    eth_fillTransaction eth_gasPrice eth_getAccount eth_getAccountInfo eth_getBalance eth_getBlockByHash \
    eth_getBlockByNumber eth_getBlockReceipts eth_getBlockTransactionCountByHash \
    eth_getBlockTransactionCountByNumber eth_getCode eth_getFilterChanges eth_getFilterLogs eth_getHeaderByHash \
    eth_getHeaderByNumber eth_getLogs eth_getProof eth_getRawTransactionByBlockHashAndIndex \
    eth_getRawTransactionByBlockNumberAndIndex eth_getRawTransactionByHash eth_getStorageAt eth_getStorageValues \
    eth_getTransactionByBlockHashAndIndex eth_getTransactionByBlockNumberAndIndex eth_getTransactionByHash \
    eth_getTransactionBySenderAndNonce eth_getTransactionCount eth_getTransactionReceipt \
    eth_getUncleByBlockHashAndIndex eth_getUncleByBlockNumberAndIndex eth_getUncleCountByBlockHash \
    eth_getUncleCountByBlockNumber eth_hashrate eth_maxPriorityFeePerGas eth_networkId eth_newBlockFilter \
    eth_newFilter eth_newPendingTransactionFilter eth_pendingTransactions eth_protocolVersion eth_requestAccounts \
    eth_sendRawTransaction eth_sendRawTransactionSync eth_sendTransaction eth_sendTransactionSync \
    eth_sendUnsignedTransaction eth_sign eth_signTransaction eth_signTypedData eth_signTypedData_v3 \
    eth_signTypedData_v4 eth_simulateV1 eth_submitHashrate eth_submitWork eth_syncing eth_uninstallFilter \
    evm_increaseTime evm_mine evm_mine_detailed evm_revert evm_setAccountNonce evm_setAutomine evm_setBlockGasLimit \
    evm_setIntervalMining evm_setNextBlockTimestamp evm_setTime evm_snapshot hardhat_addBalance \
    hardhat_autoImpersonateAccount hardhat_dealERC20 hardhat_dropAllTransactions hardhat_dropTransaction \
    hardhat_dumpState hardhat_getAutomine hardhat_impersonateAccount hardhat_loadState hardhat_metadata hardhat_mine \
    hardhat_reset hardhat_setBalance hardhat_setCode hardhat_setCoinbase hardhat_setLoggingEnabled \
    hardhat_setMinGasPrice hardhat_setNextBlockBaseFeePerGas hardhat_setNonce hardhat_setStorageAt \
    hardhat_stopImpersonatingAccount net_listening net_version ots_getApiLevel ots_getBlockDetails \
    ots_getBlockDetailsByHash ots_getBlockTransactions ots_getContractCreator ots_getInternalOperations \
    ots_getTransactionBySenderAndNonce ots_getTransactionError ots_hasCode ots_searchTransactionsAfter \
    ots_searchTransactionsBefore ots_traceTransaction personal_sign tenderly_addBalance tenderly_setBalance \
    trace_block trace_blockOpcodeGas trace_call trace_callMany trace_filter trace_get trace_rawTransaction \
    trace_replayBlockTransactions trace_replayTransaction trace_transaction trace_transactionOpcodeGas \
    txpool_content txpool_contentFrom txpool_inspect txpool_status web3_clientVersion web3_sha3";
const MISSING: &str = "\
    anvil_classifyTransaction anvil_dealTIP20 anvil_getLastBlockWallTime anvil_impersonateSignature anvil_reorg \
    anvil_setChainId anvil_setFeeAmmLiquidity anvil_setFeeToken anvil_setValidatorFeeToken debug_accountInfoAt \
    debug_dbGet debug_executionWitness debug_getModifiedAccountsByNumber eth_callBundle eth_callMany \
    eth_getBlockAccessList eth_getBlockAccessListByBlockHash eth_getBlockAccessListByBlockNumber \
    eth_getBlockAccessListRaw eth_getWork eth_resend eth_sendRawTransactionConditional eth_signRawTransaction";

#[test]
fn anvils_names_are_served_or_listed() {
    let node = Node::new(BlockTime::Manual);
    let served: BTreeSet<&str> = SERVED.split_whitespace().collect();
    let missing: BTreeSet<&str> = MISSING.split_whitespace().collect();
    assert!(served.is_disjoint(&missing));
    assert_eq!(served.len() + missing.len() + BY_SOCKET.len(), NAMES);
    assert!(served.len() + BY_SOCKET.len() >= SERVED_MIN);
    // A known method says that these are no parameters of it, or needs none; an unknown one is unknown before that.
    let garbage = json!([{ "not": "a parameter" }, { "nor": 1 }, "x", "y", "z", "w", "v", "u"]);
    for (names, is_served) in [(&served, true), (&missing, false)] {
        for method in names {
            let answer = node.ask(method, garbage.clone());
            assert_eq!(answer["error"]["code"] != -32601, is_served, "{method}: {answer}");
        }
    }
    let unnamed: Vec<_> = missing.iter().filter(|name| !PAGE.contains(&format!("`{name}`"))).collect();
    assert!(unnamed.is_empty(), "docs/web3.md does not say why these are missing: {unnamed:?}");
    let counted = format!("{} of anvil's {NAMES} methods", missing.len());
    assert!(PAGE.contains(&counted), "docs/web3.md does not have {counted:?}");
}
