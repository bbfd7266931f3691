//! Formats of the EVM chain: transactions, blocks, a genesis, the ledger of outputs, and what CometBFT sends.
//!
//! reads   arbitrary bytes
//! writes  nothing; panics if a property does not hold
//! memory  what an input decodes to; a chain in memory, whose blocks are executed and never appended

use std::hint::black_box;
use std::sync::OnceLock;

use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, U256, b256};
use bytes::Bytes;
use hearth_abci::request::{Request, Value};
use hearth_abci::response::Response;
use hearth_abci::{application, frame};
use hearth_comet::config_toml::Node;
use hearth_comet::envelope::{self, Content, Sealer};
use hearth_comet::snapshot::codec;
use hearth_comet::{App, app};
use hearth_crypto::ed25519::{SigningKey, Verifier, VerifierConfig};
use hearth_evm::chain::{BlockTime, Chain, ChainConfig};
use hearth_evm::exec::SpecId;
use hearth_evm::genesis::Genesis;
use hearth_evm::import::{BlockReader, GivenBlock, check_body, check_header, check_ommers, env_of, senders};
use hearth_evm::tx;
use hearth_evm_utxo::genesis;
use hearth_utxo::{OwnerKey, amount};

/// The chain's id in the corpus.
const CHAIN_ID: u64 = 31_337;
/// An account with a balance.
const RICH: Address = Address::repeat_byte(0x11);
const GAS_LIMIT: u64 = 30_000_000;
/// The longest frame of CometBFT that is read.
const FRAME_BYTES_MAX: u64 = 1 << 20;
/// The seed of the owner who signs in the corpus: the first of RFC 8032, §7.1.
const OWNER_SEED: B256 = b256!("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
/// The words that an owner signs, with the transaction's id after them.
const SPEND: &[u8] = b"hearth utxo spend 1";
/// Forks under which a transaction is looked at.
const FORKS: [SpecId; 4] = [SpecId::SHANGHAI, SpecId::CANCUN, SpecId::PRAGUE, SpecId::OSAKA];

/// A chain for development with an account, before its first block.
pub fn dev_genesis() -> Genesis {
    genesis::dev(CHAIN_ID, &[(RICH, U256::from(10u128.pow(21)))], GAS_LIMIT)
}

/// Opens that chain in memory. It makes no block by itself.
pub fn dev_chain() -> Chain {
    let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(dev_genesis()) };
    Chain::open(config).expect("a chain in memory")
}

fn shared_genesis() -> &'static Genesis {
    static GENESIS: OnceLock<Genesis> = OnceLock::new();
    GENESIS.get_or_init(dev_genesis)
}

/// A raw transaction, of a block and as a client sends it.
pub fn evm_transaction(input: &[u8]) {
    let decoded = tx::decode_envelope(input);
    assert_eq!(decoded.is_ok(), tx::decode_in_block(input).is_ok());
    if let Ok(envelope) = decoded {
        let mut written = Vec::new();
        envelope.encode_2718(&mut written);
        assert_eq!(tx::decode_envelope(&written), Ok(envelope));
    }
    for fork in FORKS {
        black_box(tx::decode_network(input, CHAIN_ID, fork).is_ok());
    }
    black_box(tx::decode_one_as_sent(input, CHAIN_ID).is_ok());
    if let Ok(tx) = tx::decode_one(input, CHAIN_ID) {
        assert_eq!(&tx.raw[..], input);
        black_box((tx::to_tx_env(&tx), tx.effective_gas_price(7), tx.is_impersonated()));
    }
}

/// The file of blocks that an import reads.
pub fn evm_blocks(input: &[u8]) {
    let genesis = shared_genesis();
    let zero = genesis.block_zero(B256::ZERO);
    let (mut parent, mut parent_hash) = (zero.inner().clone(), zero.hash());
    let mut size = 0;
    for block in BlockReader::new(input).map_while(Result::ok) {
        size += block.size;
        assert!(size <= input.len() as u64);
        let GivenBlock { header, hash, txs, ommers, withdrawals, size } = block;
        let env = env_of(&header, genesis);
        black_box(check_header(&header, &parent, parent_hash, genesis).is_ok());
        black_box(check_ommers(&header, &ommers, &[], genesis).is_ok());
        if let Ok(txs) = senders(txs) {
            black_box(check_body(&header, env.spec, &txs, withdrawals.as_deref(), size).is_ok());
        }
        (parent, parent_hash) = (header, hash);
    }
}

/// The text of a genesis, which is also the form of a dump of the state, with and without a ledger of outputs.
pub fn evm_genesis(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for read in [Genesis::from_json(text), genesis::from_json(text)] {
        let Ok(genesis) = read else { continue };
        assert_ne!(genesis.chain_id, 0);
        assert_eq!(genesis.changes().accounts.len(), genesis.alloc.len());
        black_box(genesis.block_zero(B256::ZERO));
        for (number, timestamp) in [(0, 0), (1, genesis.timestamp), (u64::MAX, u64::MAX)] {
            black_box((genesis.spec(number, timestamp), genesis.blob_params(number, timestamp)));
        }
        black_box(genesis.check_system_contracts().is_ok());
        for fork in FORKS {
            black_box(genesis.clone().under(fork).is_ok());
        }
    }
}

/// A transaction of the ledger of outputs. It has one encoding. No mutation guesses a signature, so it is also looked
/// at with the owner's in place of the last one. Returns whether its signatures are right then.
pub fn fuzz_utxo(input: &[u8]) -> bool {
    let Ok(unverified) = hearth_utxo::tx::decode(input, CHAIN_ID) else { return false };
    let message = [SPEND, unverified.id().as_slice()].concat();
    let mut signed = input.to_vec();
    if let Some(last) = signed.last_chunk_mut::<64>() {
        *last = SigningKey::from_seed(&OWNER_SEED.0).sign(&message);
    }
    verify_utxo(input);
    verify_utxo(&signed)
}

/// Returns whether bytes are a transaction with right signatures.
fn verify_utxo(raw: &[u8]) -> bool {
    let Ok(unverified) = hearth_utxo::tx::decode(raw, CHAIN_ID) else { return false };
    let id = unverified.id();
    black_box(unverified.new_asset());
    let mut verifier = Verifier::new(VerifierConfig { cache_bytes: 0, ..VerifierConfig::default() });
    let verified = hearth_utxo::tx::verify(&mut verifier, vec![unverified]);
    assert_eq!(verified.len(), 1);
    let right = verified.iter().flatten();
    right.clone().for_each(|tx| {
        assert_eq!((&tx.raw[..], tx.id), (raw, id));
        assert!(tx.fee_min() >= raw.len() as u64);
    });
    right.count() == 1
}

/// An owner's address, or an amount, as a person writes it.
pub fn utxo_text(input: &[u8]) {
    let Some((decimals, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(owner) = text.parse::<OwnerKey>() {
        assert_eq!(owner.to_string().parse::<OwnerKey>(), Ok(owner));
    }
    let decimals = decimals % (amount::DECIMALS_MAX + 1);
    if let Ok(units) = amount::parse(text, decimals) {
        let written = amount::format(units.into(), decimals);
        assert_eq!(amount::parse(&written, decimals), Ok(units));
    }
}

/// The application that frames are given to.
fn shared_app() -> &'static App {
    static APP: OnceLock<App> = OnceLock::new();
    APP.get_or_init(|| App::new(dev_chain(), app::Config { retain_blocks: 0 }))
}

/// Frames of a connection from CometBFT, and of one to it. Requests that change no block are answered.
pub fn abci_frames(input: &[u8]) {
    let mut from = input;
    while let Ok(Some(request)) = frame::read_message::<Request>(&mut from, FRAME_BYTES_MAX) {
        let mut written = Vec::new();
        frame::append(&request, &mut written);
        let again = frame::read_message::<Request>(&mut &written[..], u64::MAX);
        assert_eq!(again.expect("what was written"), Some(request.clone()));
        if let Some(value) = request.value.filter(changes_nothing) {
            black_box(application::answer(shared_app(), value).is_ok());
        }
    }
    let mut from = input;
    while let Ok(Some(response)) = frame::read_message::<Response>(&mut from, FRAME_BYTES_MAX) {
        let mut written = Vec::new();
        frame::append(&response, &mut written);
        let again = frame::read_message::<Response>(&mut &written[..], u64::MAX);
        assert_eq!(again.expect("what was written"), Some(response));
    }
}

fn changes_nothing(value: &Value) -> bool {
    matches!(
        value,
        Value::Echo(_)
            | Value::Flush(_)
            | Value::Info(_)
            | Value::Query(_)
            | Value::CheckTx(_)
            | Value::ListSnapshots(_)
            | Value::LoadSnapshotChunk(_)
            | Value::PrepareProposal(_)
            | Value::ProcessProposal(_)
            | Value::ExtendVote(_)
            | Value::VerifyVoteExtension(_)
    )
}

/// An envelope of transactions.
pub fn comet_envelope(input: &[u8]) {
    let Ok(content) = envelope::open(&Bytes::copy_from_slice(input)) else { return };
    assert_eq!(envelope::is_envelope(input), matches!(content, Content::Batch(_)));
    let mut sealer = Sealer::default();
    let mut envelopes: Vec<Bytes> = content.txs().iter().filter_map(|tx| sealer.push(tx)).collect();
    envelopes.extend(sealer.close());
    let mut again = Vec::new();
    for sealed in &envelopes {
        again.extend_from_slice(envelope::open(sealed).expect("what was sealed").txs());
    }
    assert_eq!(again, content.txs());
}

/// A chunk of a snapshot for state sync. It has one encoding.
pub fn comet_chunk(input: &[u8]) {
    let (mut reader, mut entries) = (codec::Reader::default(), Vec::new());
    if reader.read(&Bytes::copy_from_slice(input), |entry| entries.push(entry)).is_ok() {
        let (mut writer, mut written) = (codec::Writer::default(), Vec::new());
        for entry in &entries {
            written.extend(writer.push(entry).into_iter().flatten());
        }
        written.extend(writer.close().into_iter().flatten());
        assert_eq!(written, input);
    }
    if let Ok(headers) = codec::decode_headers(input) {
        assert_eq!(codec::decode_headers(&codec::encode_headers(&headers)), Ok(headers));
    }
}

/// CometBFT's `config.toml`, in which a node's settings are changed.
pub fn comet_config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let node = Node {
        application: "unix:///a \"b\"".into(),
        rpc: "tcp://127.0.0.1:26657".into(),
        p2p: "tcp://127.0.0.1:26656".into(),
        pause_ms: 100,
        pool: 5_000,
        state_sync: None,
    };
    if let Ok(changed) = node.apply(text) {
        assert!(node.apply(&changed).is_ok(), "{changed}");
    }
}
