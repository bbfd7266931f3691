//! The servers of both chains, over real connections: the text of a request, and its answer.
//!
//! reads   a request's body; messages of a WebSocket; the data of an account
//! writes  nothing; panics if a property does not hold
//! memory  two chains and their servers, which live as long as the process
//!
//! The servers keep state between inputs: filters, transactions to send again, and the pool. A failure that depends on
//! it needs the inputs before, so the seed of the run.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hearth_ledger::genesis::funded_account_key;
use hearth_ledger::{Account, DropTable, Genesis, GenesisConfig, Ledger, LedgerConfig};
use hearth_rpc::{Busy, Liveness, RpcConfig, RpcNode, RpcServer, TransactionInlet};
use hearth_web3::Instruments;
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use hearth_wire::consts::{
    ADDRESS_LOOKUP_TABLE_PROGRAM, BPF_LOADER_UPGRADEABLE, CONFIG_PROGRAM, STAKE_PROGRAM, SYSTEM_PROGRAM, SYSVAR_OWNER,
    TOKEN_PROGRAM, VOTE_PROGRAM,
};
use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::ethereum::dev_chain;
use crate::loopback::{Answer, Connection, panics};
use crate::pieces::pieces;

/// Owners of accounts whose data the RPC parses.
const OWNERS: [Pubkey; 8] = [
    SYSTEM_PROGRAM,
    VOTE_PROGRAM,
    STAKE_PROGRAM,
    ADDRESS_LOOKUP_TABLE_PROGRAM,
    BPF_LOADER_UPGRADEABLE,
    CONFIG_PROGRAM,
    SYSVAR_OWNER,
    TOKEN_PROGRAM,
];
/// The account whose data is the input.
const ACCOUNT: Pubkey = [0x5a; 32];
/// Messages of an input that are sent over a WebSocket.
const MESSAGES_MAX: usize = 24;
/// The id of the request after all messages.
const LAST: &str = "the last request";

/// An inlet that drops what it takes. One without room would hold each request up for a while.
struct Discarding;

impl TransactionInlet for Discarding {
    fn send(&mut self, _: &[u8], _: bool) -> Result<(), Busy> {
        Ok(())
    }
}

/// A Solana chain in its first slot, with its server.
struct Solana {
    ledger: Arc<Ledger>,
    http: SocketAddr,
    websocket: SocketAddr,
}

fn solana() -> &'static Solana {
    static SOLANA: OnceLock<Solana> = OnceLock::new();
    SOLANA.get_or_init(|| {
        let key = |n| funded_account_key(n).public_key();
        let genesis = Genesis::create(GenesisConfig::development(key(1), key(2), 0), |_| {}).expect("a chain");
        let ledger = Ledger::new(&genesis, LedgerConfig::default());
        ledger.begin_slot(1, 0).expect("the first slot");
        let config = RpcConfig::new(([127, 0, 0, 1], 0).into());
        let server = RpcServer::start(config, node(Arc::clone(&ledger))).expect("a free port");
        let (http, websocket) = (server.local_addr(), server.websocket_addr());
        // It serves until the process ends.
        std::mem::forget(server);
        Solana { ledger, http, websocket }
    })
}

fn node(ledger: Arc<Ledger>) -> RpcNode {
    let key = |n| funded_account_key(n).public_key();
    let faucet = funded_account_key(2);
    RpcNode {
        ledger,
        inlet: Box::new(Discarding),
        identity: Box::new(move || key(1)),
        faucet: key(2),
        chain_faucet: key(2),
        sign_as_faucet: Box::new(move |message| faucet.sign(message)),
        verify: |_| true,
        shred_version: 1,
        offer: Box::new(|_| None),
        cluster_nodes: Box::new(Vec::new),
        gossip: ([127, 0, 0, 1], 8_001).into(),
        tpu: ([127, 0, 0, 1], 9_001).into(),
        tpu_quic: ([127, 0, 0, 1], 9_007).into(),
        transaction_history: true,
        slot_ms: 400,
        counters: Arc::default(),
        blocks: None,
        feature_set: Some(7),
        call_for_slot: Box::new(|_| {}),
        admin: None,
        newest_snapshot: Box::new(|| None),
        liveness: Box::new(Liveness::default),
        look_at: Err("[rpc] dashboard"),
        history: None,
        fates: Arc::new(DropTable::new(0, 1)),
        began_unix_s: 1_000,
        genesis_time: 0,
        genesis_slot: 0,
    }
}

/// The address of an EVM chain's server.
fn ethereum() -> SocketAddr {
    static ETHEREUM: OnceLock<SocketAddr> = OnceLock::new();
    *ETHEREUM.get_or_init(|| {
        let config = hearth_web3::Config { dev: false, ..hearth_web3::Config::new(([127, 0, 0, 1], 0).into()) };
        let server = hearth_web3::serve(config, dev_chain(), Instruments::default()).expect("a free port");
        let address = server.address();
        // It serves until the process ends.
        std::mem::forget(server);
        address
    })
}

/// A connection that is kept from input to input.
type Kept = Mutex<Option<Connection>>;

/// Posts a body; once more on a new connection, where the server had ended an idle one.
fn post(kept: &Kept, address: SocketAddr, body: &[u8]) -> Answer {
    let before = panics();
    let mut kept = kept.lock();
    let answer = kept.as_mut().and_then(|connection| connection.post(body));
    let answer = answer.or_else(|| kept.insert(Connection::open(address)).post(body));
    let Some(answer) = answer else { panic!("the server ended the connection without an answer") };
    if !answer.is_kept {
        *kept = None;
    }
    assert_eq!(panics(), before, "a thread of a server panicked");
    assert!((200..500).contains(&answer.status), "status {}", answer.status);
    if answer.status == 200 && !answer.body.is_empty() {
        let text = String::from_utf8_lossy(&answer.body);
        assert!(serde_json::from_slice::<&RawValue>(&answer.body).is_ok(), "an answer that is no JSON: {text}");
    }
    answer
}

/// The body of a request to a Solana node.
pub fn solana_rpc(input: &[u8]) {
    static KEPT: Kept = Mutex::new(None);
    post(&KEPT, solana().http, input);
}

/// An account's owner, as an index, and its data, which the RPC parses: nonces, votes, stakes, lookup tables, tokens.
pub fn solana_account(input: &[u8]) {
    static KEPT: Kept = Mutex::new(None);
    let Some((owner, data)) = input.split_first() else { return };
    let Solana { ledger, http, .. } = solana();
    let owner = OWNERS[usize::from(*owner) % OWNERS.len()];
    ledger.accounts().store(&ACCOUNT, Account::with_data(5, owner, data));
    let body = |encoding: &str| {
        let config = format!(r#"{{"commitment":"processed","encoding":"{encoding}"}}"#);
        let key = encode_32(&ACCOUNT);
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"getAccountInfo","params":["{key}",{config}]}}"#)
    };
    post(&KEPT, *http, body("jsonParsed").as_bytes());
    let answer = post(&KEPT, *http, body("base64").as_bytes());
    let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let found = &answer["result"]["value"];
    assert_eq!(found["owner"], encode_32(&owner).to_string());
    assert_eq!(found["data"][0], STANDARD.encode(data));
}

/// Messages of a WebSocket: each is the first byte of its frame, and its payload. A first byte of zero sends the rest
/// without a frame, as the last message.
fn websocket(address: SocketAddr, input: &[u8], last: &str) {
    let before = panics();
    let mut connection = Connection::open(address);
    // Once more on a new connection: a server does not wait long for a client that gets no core.
    if !connection.upgrade() {
        connection = Connection::open(address);
        assert!(connection.upgrade(), "the server refuses a WebSocket");
    }
    for piece in pieces(input).take(MESSAGES_MAX) {
        let Some((first, payload)) = piece.split_first() else { continue };
        if *first == 0 {
            connection.break_off(payload);
            assert_eq!(panics(), before, "a thread of a server panicked");
            return;
        }
        if connection.send_frame(*first, payload).is_none() {
            break;
        }
    }
    let request = format!(r#"{{"jsonrpc":"2.0","id":"{LAST}","method":"{last}"}}"#);
    // A server may end the connection of a client that breaks the protocol.
    if connection.send_frame(0x81, request.as_bytes()).is_some() {
        while let Some((_, payload)) = connection.read_frame() {
            if payload.windows(LAST.len()).any(|part| part == LAST.as_bytes()) {
                break;
            }
        }
        connection.close();
    }
    assert_eq!(panics(), before, "a thread of a server panicked");
}

/// Messages of a WebSocket of a Solana node.
pub fn solana_websocket(input: &[u8]) {
    websocket(solana().websocket, input, "getVersion");
}

/// The body of a request to a node of the EVM.
pub fn ethereum_rpc(input: &[u8]) {
    static KEPT: Kept = Mutex::new(None);
    post(&KEPT, ethereum(), input);
}

/// Messages of a WebSocket of a node of the EVM.
pub fn ethereum_websocket(input: &[u8]) {
    websocket(ethereum(), input, "web3_clientVersion");
}
