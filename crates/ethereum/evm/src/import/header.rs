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
    /// Any number of bytes.
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
    let words = format!("genesis block mismatch: {found} (ours {zero}): it is another chain's");
    Err(InvalidBlock::field("hash", words))
}

/// Refuses a header that cannot follow `parent`, whose hash is `parent_hash`, in a chain of that genesis.
pub fn check_header(
    header: &Header,
    parent: &Header,
    parent_hash: B256,
    genesis: &Genesis,
) -> Result<(), InvalidBlock> {
    let next = parent.number.checked_add(1).unwrap_or_default();
    expect("number", &header.number, &next, |_, _| "invalid block number".into())?;
    expect("parentHash", &header.parent_hash, &parent_hash, |_, _| "unknown ancestor".into())?;
    let spec = genesis.spec(header.number, header.timestamp);
    let is_merged = spec.is_enabled_in(SpecId::MERGE);
    if header.timestamp <= parent.timestamp {
        let words = if is_merged { "invalid timestamp" } else { "timestamp older than parent" };
        return Err(InvalidBlock::field("timestamp", words));
    }
    let wanted = if is_merged {
        expect("sha3Uncles", &header.ommers_hash, &EMPTY_OMMER_ROOT_HASH, |_, _| "invalid uncle hash".into())?;
        expect("nonce", &header.nonce, &B64::ZERO, |_, _| "invalid nonce".into())?;
        U256::ZERO
    } else {
        difficulty(spec, genesis.forks.work(header.number).bomb_delay, header.timestamp, parent)
    };
    expect("difficulty", &header.difficulty, &wanted, |found, wanted| {
        format!("invalid difficulty: have {found}, want {wanted}")
    })?;
    let length = header.extra_data.len();
    if length > EXTRA_DATA_MAX {
        let merged = || format!("extra-data longer than {EXTRA_DATA_MAX} bytes ({length})");
        let words = if is_merged { merged() } else { format!("extra-data too long: {length} > {EXTRA_DATA_MAX}") };
        return Err(InvalidBlock::field("extraData", words));
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
    let broken = match limit {
        _ if limit > GAS_LIMIT_MAX => Some(format!("invalid gasLimit: have {limit}, max {GAS_LIMIT_MAX}")),
        _ if limit.abs_diff(before) >= bound => {
            let most = bound.saturating_sub(1);
            Some(format!("invalid gas limit: have {limit}, want {before} +-= {most}"))
        }
        0..GAS_LIMIT_MIN => Some(format!("invalid gas limit below {GAS_LIMIT_MIN}")),
        _ => None,
    };
    if let Some(words) = broken {
        return Err(InvalidBlock::field("gasLimit", words));
    }
    if header.gas_used > limit {
        let words = format!("invalid gasUsed: have {}, gasLimit {limit}", header.gas_used);
        return Err(InvalidBlock::field("gasUsed", words));
    }
    let next = match parent.base_fee_per_gas {
        Some(base_fee) => next_base_fee(parent.gas_used, parent.gas_limit, base_fee),
        None => FIRST_BASE_FEE,
    };
    match header.base_fee_per_gas {
        Some(found) if from_london => expect("baseFeePerGas", &found, &next, |found, next| {
            let before = parent.base_fee_per_gas.map_or_else(|| "<nil>".to_owned(), |fee| fee.to_string());
            let used = parent.gas_used;
            format!("invalid baseFee: have {found}, want {next}, parentBaseFee {before}, parentGasUsed {used}")
        }),
        None if from_london => Err(InvalidBlock::field("baseFeePerGas", "header is missing baseFee")),
        Some(found) => Err(InvalidBlock::field(
            "baseFeePerGas",
            format!("invalid baseFee before fork: have {found}, expected 'nil'"),
        )),
        None => Ok(()),
    }
}

/// Each field that a fork has brought is there from this fork on, and not before.
fn check_presence(header: &Header, spec: SpecId) -> Result<(), InvalidBlock> {
    let hash = |hash: Option<B256>| hash.map(|hash| format!("{hash:x}"));
    let gas = |gas: Option<u64>| gas.map(|gas| gas.to_string());
    let fields = [
        ("withdrawalsRoot", "withdrawalsHash", hash(header.withdrawals_root), SpecId::SHANGHAI),
        ("excessBlobGas", "excessBlobGas", gas(header.excess_blob_gas), SpecId::CANCUN),
        ("blobGasUsed", "blobGasUsed", gas(header.blob_gas_used), SpecId::CANCUN),
        ("parentBeaconBlockRoot", "beaconRoot", hash(header.parent_beacon_block_root), SpecId::CANCUN),
        ("requestsHash", "requestsHash", hash(header.requests_hash), SpecId::PRAGUE),
    ];
    for (field, name, found, from) in fields {
        let words = match (found, spec.is_enabled_in(from)) {
            (None, true) if from == SpecId::SHANGHAI => format!("missing {name}"),
            (None, true) => format!("header is missing {name}"),
            // The one field with its prefix, another name and a comma.
            (Some(found), false) if name == "beaconRoot" => {
                format!("invalid parentBeaconRoot, have 0x{found}, expected nil")
            }
            (Some(found), false) => format!("invalid {name}: have {found}, expected nil"),
            _ => continue,
        };
        return Err(InvalidBlock::field(field, words));
    }
    Ok(())
}

fn check_blobs(header: &Header, parent: &Header, genesis: &Genesis) -> Result<(), InvalidBlock> {
    let params = genesis.blob_params(header.number, header.timestamp);
    // Both are there: [`check_presence`] came before.
    let (used, excess) = (header.blob_gas_used.unwrap_or_default(), header.excess_blob_gas.unwrap_or_default());
    let most = params.max_blob_gas_per_block();
    if used > most {
        let words = format!("blob gas used {used} exceeds maximum allowance {most}");
        return Err(InvalidBlock::field("blobGasUsed", words));
    }
    if !used.is_multiple_of(GAS_PER_BLOB) {
        let words = format!("blob gas used {used} not a multiple of blob gas per blob {GAS_PER_BLOB}");
        return Err(InvalidBlock::field("blobGasUsed", words));
    }
    expect("excessBlobGas", &excess, &BlobEnv::after_header(params, parent).excess_gas, |found, wanted| {
        format!("invalid excessBlobGas: have {found}, want {wanted}")
    })
}
