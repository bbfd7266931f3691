//! The rules of a header that follow from its parent and the genesis.
//!
//! reads   a header, its parent's, the genesis
//! writes  the first field that breaks a rule, by its name in JSON-RPC
//! source  the yellow paper, 4.3.4; EIP-1559 (gas limit, base fee, and what holds for the first block with one), 3675
//!         (what is zero since the merge), 4844, 7691, 7892 and 7918 (blobs), 4895, 4788, 7685 (which fork brings which
//!         field)

use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_primitives::{B64, B256, U256};
use revm::primitives::hardfork::SpecId;

use super::rlp::Item;
use super::work::difficulty;
use super::{InvalidBlock, RlpFault, expect};
use crate::blobs::{BlobEnv, GAS_PER_BLOB};
use crate::block::next_base_fee;
use crate::genesis::{FIRST_BASE_FEE, Genesis};

/// Bytes of extra data, at most.
const EXTRA_DATA_MAX: usize = 32;
/// The least gas that a block may allow.
const GAS_LIMIT_MIN: u64 = 5_000;
/// The most: what geth's signed numbers hold.
const GAS_LIMIT_MAX: u64 = i64::MAX as u64;
/// The limit moves by less than this part of the parent's.
const GAS_LIMIT_DIVISOR: u64 = 1_024;

/// The RLP form of a field.
#[derive(Clone, Copy)]
enum Form {
    /// Exactly this many bytes.
    Fixed(usize),
    /// A number without leading zeros, of at most this many bytes.
    Number(usize),
    /// Any bytes.
    Bytes,
}

/// The fields of a header, in order, as JSON-RPC names them. Those from the base fee on came with forks.
const FIELDS: [(&str, Form); 21] = [
    ("parentHash", Form::Fixed(32)),
    ("sha3Uncles", Form::Fixed(32)),
    ("miner", Form::Fixed(20)),
    ("stateRoot", Form::Fixed(32)),
    ("transactionsRoot", Form::Fixed(32)),
    ("receiptsRoot", Form::Fixed(32)),
    ("logsBloom", Form::Fixed(256)),
    ("difficulty", Form::Number(32)),
    ("number", Form::Number(8)),
    ("gasLimit", Form::Number(8)),
    ("gasUsed", Form::Number(8)),
    ("timestamp", Form::Number(8)),
    ("extraData", Form::Bytes),
    ("mixHash", Form::Fixed(32)),
    ("nonce", Form::Fixed(8)),
    ("baseFeePerGas", Form::Number(8)),
    ("withdrawalsRoot", Form::Fixed(32)),
    ("blobGasUsed", Form::Number(8)),
    ("excessBlobGas", Form::Number(8)),
    ("parentBeaconBlockRoot", Form::Fixed(32)),
    ("requestsHash", Form::Fixed(32)),
];
/// How many of them every header has.
const FIELDS_MIN: usize = 15;

/// Refuses a header with a malformed field.
pub(super) fn check_fields(header: &Item<'_>) -> Result<(), RlpFault> {
    // Counted, not collected: there may be as many as the block has bytes.
    let (have, most) = (header.items().count(), FIELDS.len());
    if !(FIELDS_MIN..=most).contains(&have) {
        let what = format!("header: {have} fields; it has {FIELDS_MIN} to {most} under the forks that are known here");
        return Err(RlpFault::new(header.at, what));
    }
    for ((name, form), field) in FIELDS.iter().zip(header.items()) {
        let length = field.payload.len();
        let wrong = match form {
            _ if field.is_list => Some("a list".to_owned()),
            Form::Fixed(bytes) if length != *bytes => Some(format!("{length} bytes, not {bytes}")),
            Form::Number(bytes) if length > *bytes => Some(format!("a number of {length} bytes, more than {bytes}")),
            Form::Number(_) if field.payload.first() == Some(&0) => Some("a number that begins with zeros".to_owned()),
            _ => None,
        };
        if let Some(wrong) = wrong {
            return Err(RlpFault::new(field.at, format!("header: {name}: {wrong}")));
        }
    }
    Ok(())
}

/// Refuses block zero of another chain.
pub fn check_genesis(found: B256, zero: B256) -> Result<(), InvalidBlock> {
    if found == zero {
        return Ok(());
    }
    Err(InvalidBlock::field("hash", found, format!("while this chain's block 0 is {zero}: it is another chain's")))
}

/// Refuses a header that cannot follow `parent`, whose hash is `parent_hash`, in a chain of that genesis.
pub fn check_header(
    header: &Header,
    parent: &Header,
    parent_hash: B256,
    genesis: &Genesis,
) -> Result<(), InvalidBlock> {
    let next = parent.number.checked_add(1).unwrap_or_default();
    expect("number", header.number, next)?;
    expect("parentHash", header.parent_hash, parent_hash)?;
    if header.timestamp <= parent.timestamp {
        let rule = format!("not above the parent's, {}", parent.timestamp);
        return Err(InvalidBlock::field("timestamp", header.timestamp, rule));
    }
    let spec = genesis.spec(header.number, header.timestamp);
    if spec.is_enabled_in(SpecId::MERGE) {
        expect("sha3Uncles", header.ommers_hash, EMPTY_OMMER_ROOT_HASH)?;
        expect("difficulty", header.difficulty, U256::ZERO)?;
        expect("nonce", header.nonce, B64::ZERO)?;
    } else {
        let bomb_delay = genesis.forks.work(header.number).bomb_delay;
        expect("difficulty", header.difficulty, difficulty(spec, bomb_delay, header.timestamp, parent))?;
    }
    if header.extra_data.len() > EXTRA_DATA_MAX {
        let length = format!("{} bytes long", header.extra_data.len());
        return Err(InvalidBlock::field("extraData", length, format!("more than {EXTRA_DATA_MAX}")));
    }
    check_gas(header, parent, spec)?;
    check_presence(header, spec)?;
    if spec.is_enabled_in(SpecId::CANCUN) { check_blobs(header, parent, genesis) } else { Ok(()) }
}

fn check_gas(header: &Header, parent: &Header, spec: SpecId) -> Result<(), InvalidBlock> {
    let from_london = spec.is_enabled_in(SpecId::LONDON);
    let is_first = from_london && parent.base_fee_per_gas.is_none();
    // London made of the limit a target of half as much.
    let before = if is_first { parent.gas_limit.saturating_mul(2) } else { parent.gas_limit };
    let limit = header.gas_limit;
    let bound = before / GAS_LIMIT_DIVISOR;
    let rule = match limit {
        _ if limit.abs_diff(before) >= bound => format!("{bound} or more from the parent's, {before}"),
        0..GAS_LIMIT_MIN => format!("less than {GAS_LIMIT_MIN}"),
        _ if limit > GAS_LIMIT_MAX => format!("more than {GAS_LIMIT_MAX}"),
        _ => String::new(),
    };
    if !rule.is_empty() {
        return Err(InvalidBlock::field("gasLimit", limit, rule));
    }
    if header.gas_used > limit {
        return Err(InvalidBlock::field("gasUsed", header.gas_used, format!("more than the gas limit, {limit}")));
    }
    let next = match parent.base_fee_per_gas {
        Some(base_fee) => next_base_fee(parent.gas_used, parent.gas_limit, base_fee),
        None => FIRST_BASE_FEE,
    };
    match header.base_fee_per_gas {
        Some(found) if from_london => expect("baseFeePerGas", found, next),
        None if from_london => Err(missing("baseFeePerGas", "London")),
        Some(_) => Err(early("baseFeePerGas", "London")),
        None => Ok(()),
    }
}

fn missing(field: &'static str, fork: &str) -> InvalidBlock {
    InvalidBlock::field(field, "missing", format!("though every header from {fork} on has it"))
}

fn early(field: &'static str, fork: &str) -> InvalidBlock {
    InvalidBlock::field(field, "there", format!("though no header before {fork} has it"))
}

/// Each field that a fork has brought is there from this fork on, and not before.
fn check_presence(header: &Header, spec: SpecId) -> Result<(), InvalidBlock> {
    let fields = [
        ("withdrawalsRoot", header.withdrawals_root.is_some(), SpecId::SHANGHAI, "Shanghai"),
        ("blobGasUsed", header.blob_gas_used.is_some(), SpecId::CANCUN, "Cancun"),
        ("excessBlobGas", header.excess_blob_gas.is_some(), SpecId::CANCUN, "Cancun"),
        ("parentBeaconBlockRoot", header.parent_beacon_block_root.is_some(), SpecId::CANCUN, "Cancun"),
        ("requestsHash", header.requests_hash.is_some(), SpecId::PRAGUE, "Prague"),
    ];
    for (field, is_there, from, fork) in fields {
        match (is_there, spec.is_enabled_in(from)) {
            (false, true) => return Err(missing(field, fork)),
            (true, false) => return Err(early(field, fork)),
            _ => {}
        }
    }
    Ok(())
}

fn check_blobs(header: &Header, parent: &Header, genesis: &Genesis) -> Result<(), InvalidBlock> {
    let params = genesis.blob_params(header.number, header.timestamp);
    let excess = header.excess_blob_gas.ok_or_else(|| missing("excessBlobGas", "Cancun"))?;
    expect("excessBlobGas", excess, BlobEnv::after_header(params, parent).excess_gas)?;
    let used = header.blob_gas_used.ok_or_else(|| missing("blobGasUsed", "Cancun"))?;
    let most = params.max_blob_gas_per_block();
    if used > most {
        let rule = format!("more than {most}, the gas of {} blobs", params.max_blob_count);
        return Err(InvalidBlock::field("blobGasUsed", used, rule));
    }
    if !used.is_multiple_of(GAS_PER_BLOB) {
        let rule = format!("no multiple of a blob's gas, {GAS_PER_BLOB}");
        return Err(InvalidBlock::field("blobGasUsed", used, rule));
    }
    Ok(())
}
