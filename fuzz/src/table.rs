//! The table of targets, by name.
//!
//! source  `docs/fuzzing.md` has the same table, and each target has a folder of `fuzz/corpus`: a test compares them

use crate::{
    Target, accounts, archive, ethereum, files, genesis, gossip_node, messages, quic, repair_server, servers, shreds,
    wire,
};

type Tokens = &'static [&'static str];

const NONE: Tokens = &[];
const ABCI: Tokens = &["/store", "/app/snapshot", "balance", "height", "\x08\x01", "\x12\x00"];
const ARCHIVE: Tokens = &["snapshots/status_cache", "snapshots/70/70", "accounts/3.100", "version", "ustar  \0", "../"];
const TOML: Tokens = &[
    "[layout]\n",
    "[gossip]\n",
    "[tiles.",
    "[[",
    "]]\n",
    "enabled = true\n",
    " = \"\"\n",
    " = -1\n",
    " = []\n",
    "auto",
    "0-3",
    "\"\"\"",
    "18446744073709551615",
    "1e400",
    "{}",
    "\\u0000",
];
const EVM_GENESIS: Tokens = &[
    "\"config\":",
    "\"alloc\":",
    "\"chainId\":",
    "\"hearthOutputs\":",
    "\"blobSchedule\":",
    "\"storage\":",
    "\"code\":",
    "\"number\":",
    "\"pragueTime\":",
    "\"osakaTime\":",
    "\"bpo1Time\":",
    "null",
    "\"0x\"",
    "0xffffffffffffffffffff",
    "-1",
];
const RECORDED: Tokens =
    &["\"err\":", "{\"InstructionError\":[0,", "{\"Custom\":1}", "null", "\"AccountNotFound\"", "\n", "[]", "-1"];
const ETHEREUM_RPC: Tokens = &[
    "\"eth_call\"",
    "\"eth_getLogs\"",
    "\"eth_getProof\"",
    "\"eth_feeHistory\"",
    "\"eth_estimateGas\"",
    "\"eth_newFilter\"",
    "\"eth_createAccessList\"",
    "\"eth_simulateV1\"",
    "\"debug_traceCall\"",
    "\"trace_call\"",
    "\"eth_getBlockByNumber\"",
    "\"utxo_getOutput\"",
    "\"pending\"",
    "\"latest\"",
    "\"0x0\"",
    "\"0x\"",
    "[",
    "]",
    "null",
    "{",
    "}",
    ",",
    "\\ud800",
    "\"0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\"",
    "\"stateDiff\":",
    "\"blobVersionedHashes\":",
];
const ETHEREUM_SUBSCRIPTIONS: Tokens = &[
    "\"eth_subscribe\"",
    "\"eth_unsubscribe\"",
    "\"newHeads\"",
    "\"logs\"",
    "\"newPendingTransactions\"",
    "\"syncing\"",
    "true",
];
const SOLANA_RPC: Tokens = &[
    "\"getAccountInfo\"",
    "\"getProgramAccounts\"",
    "\"getMultipleAccounts\"",
    "\"getBlock\"",
    "\"getSignaturesForAddress\"",
    "\"getTokenAccountsByOwner\"",
    "\"sendTransaction\"",
    "\"simulateTransaction\"",
    "\"getLeaderSchedule\"",
    "\"getSupply\"",
    "\"getInflationReward\"",
    "\"getFeeForMessage\"",
    "\"encoding\":",
    "\"base64+zstd\"",
    "\"jsonParsed\"",
    "\"dataSlice\":",
    "\"filters\":",
    "\"memcmp\":",
    "\"minContextSlot\":",
    "\"commitment\":",
    "[",
    "]",
    "null",
    "{",
    "}",
    ",",
    "18446744073709551615",
    "-1",
    "1e400",
    "\\ud800",
];
const SOLANA_SUBSCRIPTIONS: Tokens = &[
    "\"accountSubscribe\"",
    "\"logsSubscribe\"",
    "\"programSubscribe\"",
    "\"signatureSubscribe\"",
    "\"slotSubscribe\"",
    "\"blockSubscribe\"",
    "\"rootUnsubscribe\"",
    "\"mentions\":",
    "\"all\"",
    "\"encoding\":",
    "\"filters\":",
    "null",
];

/// Every target, by name.
pub static TARGETS: &[Target] = &[
    target(
        "abci_frames",
        "`abci::frame::read_message` of both directions; `comet::App` on requests that change no block",
        ethereum::abci_frames,
        ABCI,
    ),
    target(
        "account_state",
        "`ledger`: `VoteState::read`, `Delegation::read`, `program_header`, `features::state_of`",
        accounts::account_state,
        NONE,
    ),
    target("archive", "`ledger::archive::{read, read_unpacked}`, and its writer", archive_target, ARCHIVE),
    target("comet_chunk", "`comet::snapshot::codec`", ethereum::comet_chunk, NONE),
    target("comet_config", "`comet::config_toml::Node::apply`", ethereum::comet_config, TOML),
    target("comet_envelope", "`comet::envelope::open` and `Sealer`", ethereum::comet_envelope, NONE),
    target("entry", "`wire::entry::Entries` and `Entry`", wire::entry, NONE),
    target("ethereum_rpc", "the server of `web3`, by HTTP", servers::ethereum_rpc, ETHEREUM_RPC),
    target(
        "ethereum_websocket",
        "the server of `web3`, by WebSocket",
        servers::ethereum_websocket,
        ETHEREUM_SUBSCRIPTIONS,
    ),
    target(
        "evm_blocks",
        "`evm::import`: `BlockReader`, `senders`, `check_header`, `check_ommers`, `check_body`",
        ethereum::evm_blocks,
        NONE,
    ),
    target(
        "evm_genesis",
        "`evm::genesis::Genesis::from_json`, `evm_utxo::genesis::from_json`; also the form of `--state`",
        ethereum::evm_genesis,
        EVM_GENESIS,
    ),
    target(
        "evm_transaction",
        "`evm::tx`: `decode_envelope`, `decode_in_block`, `decode_network`, `decode_one`",
        ethereum::evm_transaction,
        NONE,
    ),
    target("genesis", "`ledger::Genesis::from_bytes`, `ledger::genesis::unpack`", genesis_target, NONE),
    target("gossip", "`wire::gossip::Protocol::parse`", wire::gossip, NONE),
    target(
        "gossip_node",
        "`gossip::Gossip::receive`, `tick` and `signed`, with signed values",
        gossip_node::gossip_node,
        NONE,
    ),
    target("ip_echo", "`wire::gossip::ip_echo`", messages::ip_echo, NONE),
    target("key_file", "`keys::parse`", files::key_file, NONE),
    target("log_damage", "`wal::frames` on damaged logs", files::log_damage, NONE),
    target("log_file", "`wal::frames::read`, `wal::Walk`, `wal::read_record`", files::log_file, NONE),
    target("node_config", "`node::config::load_str`", files::node_config, TOML),
    target("quic_server", "`quic::Server`, with a client whose datagrams are damaged", quic::quic_server, NONE),
    target(
        "recorded_blocks",
        "`node::recorded::format::parse_blocks`, the blocks of `hearth ledger replay --recorded`",
        files::recorded_blocks,
        RECORDED,
    ),
    target("repair", "`wire::repair`: requests and answers", wire::repair, NONE),
    target(
        "repair_server",
        "`pipeline::rserve::Server::answer`, with signed requests",
        repair_server::repair_server,
        NONE,
    ),
    target("shred", "`wire::shred::Shred::parse`", wire::shred, NONE),
    target(
        "shred_block",
        "`pipeline::shred`: `Shredder`, `Receiver` and `Deshredder`, with losses and damage",
        shreds::shred_block,
        NONE,
    ),
    target("shred_receiver", "`pipeline::shred::Receiver::take`, with signed shreds", shreds::shred_receiver, NONE),
    target("solana_account", "`getAccountInfo` of `rpc`: the readers of account data", servers::solana_account, NONE),
    target("solana_rpc", "the server of `rpc`, by HTTP", servers::solana_rpc, SOLANA_RPC),
    target("solana_websocket", "the server of `rpc`, by WebSocket", servers::solana_websocket, SOLANA_SUBSCRIPTIONS),
    target("sysvar", "`ledger`: `Clock::load`, `StakeHistory::load`, `SlotHistory::of`", accounts::sysvar, NONE),
    target("text_and_numbers", "`wire::base58`, `wire::compact`", messages::text_and_numbers, NONE),
    target("tower", "`wire::tower_file::TowerFile::parse`", wire::tower, NONE),
    target("txn", "`wire::Txn::parse`", wire::txn, NONE),
    target("utxo_text", "`utxo::OwnerKey` and `utxo::amount` as text", ethereum::utxo_text, NONE),
    target("utxo_transaction", "`utxo::tx::decode` and `verify`", utxo_target, NONE),
    target("vote", "`wire::vote::voted_for`, `is_vote`, `is_vote_message_by`", messages::vote, NONE),
];

const fn target(name: &'static str, drives: &'static str, run: fn(&[u8]), tokens: Tokens) -> Target {
    Target { name, drives, run, tokens }
}

fn archive_target(input: &[u8]) {
    archive::fuzz_archive(input);
}

fn utxo_target(input: &[u8]) {
    ethereum::fuzz_utxo(input);
}

fn genesis_target(input: &[u8]) {
    genesis::fuzz_genesis(input);
}
