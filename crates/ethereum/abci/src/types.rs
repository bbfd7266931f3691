//! Types shared by requests and answers: times, votes, snapshots, events, parameters.
//!
//! source  CometBFT's `proto/tendermint/{abci,types,crypto}`; the numbers of fields are the protocol's

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

/// A point in time, as in Protobuf.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Message)]
pub struct Timestamp {
    /// Seconds since 1970 in UTC; negative before.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds within the second, below 10⁹.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// A span of time, as in Protobuf.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Duration {
    /// Whole seconds of the span, rounded toward zero.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds besides the whole seconds, below 10⁹, with the sign of the seconds.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// Public key of a validator.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PublicKey {
    /// The key, by kind.
    #[prost(oneof = "Key", tags = "1, 2")]
    pub sum: Option<Key>,
}

/// The kinds of keys.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Key {
    /// Ed25519 key, 32 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    Ed25519(Bytes),
    /// Compressed secp256k1 key, 33 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    Secp256k1(Bytes),
}

/// A validator and the power it is to have; 0 removes it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ValidatorUpdate {
    /// Public key of the validator.
    #[prost(message, optional, tag = "1")]
    pub pub_key: Option<PublicKey>,
    /// Voting power; 0 removes the validator.
    #[prost(int64, tag = "2")]
    pub power: i64,
}

/// A validator that voted, or should have.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Validator {
    /// The first 20 bytes of SHA-256 over its key.
    #[prost(bytes = "bytes", tag = "1")]
    pub address: Bytes,
    /// Voting power; a commit needs more than two thirds of the sum over all validators.
    #[prost(int64, tag = "3")]
    pub power: i64,
}

/// How a validator voted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum BlockIdFlag {
    /// Protobuf's default value, which is invalid here.
    Unknown = 0,
    /// No vote was received.
    Absent = 1,
    /// A vote for the block.
    Commit = 2,
    /// A vote for no block.
    Nil = 3,
}

/// One vote of the last commit.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct VoteInfo {
    /// The validator that voted.
    #[prost(message, optional, tag = "1")]
    pub validator: Option<Validator>,
    /// The vote: a [`BlockIdFlag`].
    #[prost(enumeration = "BlockIdFlag", tag = "3")]
    pub block_id_flag: i32,
}

/// The votes that made the block before this one final.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CommitInfo {
    /// The round in which they were given.
    #[prost(int32, tag = "1")]
    pub round: i32,
    /// In the order of the validator set.
    #[prost(message, repeated, tag = "2")]
    pub votes: Vec<VoteInfo>,
}

/// One vote with its extension.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ExtendedVoteInfo {
    /// The validator that voted.
    #[prost(message, optional, tag = "1")]
    pub validator: Option<Validator>,
    /// Data from the validator's application.
    #[prost(bytes = "bytes", tag = "3")]
    pub vote_extension: Bytes,
    /// CometBFT's signature of it.
    #[prost(bytes = "bytes", tag = "4")]
    pub extension_signature: Bytes,
    /// The vote: a [`BlockIdFlag`].
    #[prost(enumeration = "BlockIdFlag", tag = "5")]
    pub block_id_flag: i32,
}

/// [`CommitInfo`] for the proposer alone, with extensions.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ExtendedCommitInfo {
    /// The round in which the votes were given.
    #[prost(int32, tag = "1")]
    pub round: i32,
    /// In the order of the validator set.
    #[prost(message, repeated, tag = "2")]
    pub votes: Vec<ExtendedVoteInfo>,
}

/// The kinds of misbehavior that CometBFT can prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum MisbehaviorType {
    /// Protobuf's default value, for evidence of no known kind.
    Unknown = 0,
    /// Voted twice in one round.
    DuplicateVote = 1,
    /// Signed a block for light clients that is not on the chain.
    LightClientAttack = 2,
}

/// Evidence against a validator.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Misbehavior {
    /// A [`MisbehaviorType`], as its number on the wire.
    #[prost(enumeration = "MisbehaviorType", tag = "1")]
    pub r#type: i32,
    /// The validator at fault.
    #[prost(message, optional, tag = "2")]
    pub validator: Option<Validator>,
    /// Height of the misbehavior.
    #[prost(int64, tag = "3")]
    pub height: i64,
    /// Time of the misbehavior.
    #[prost(message, optional, tag = "4")]
    pub time: Option<Timestamp>,
    /// Total voting power at that height.
    #[prost(int64, tag = "5")]
    pub total_voting_power: i64,
}

/// A key and its value, sent to subscribers of events.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct EventAttribute {
    /// Key of the attribute.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value of the attribute.
    #[prost(string, tag = "2")]
    pub value: String,
    /// Whether CometBFT's indexer keeps it.
    #[prost(bool, tag = "3")]
    pub index: bool,
}

/// Something that happened in a block or a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Event {
    /// Type of the event.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// Attributes of the event.
    #[prost(message, repeated, tag = "2")]
    pub attributes: Vec<EventAttribute>,
}

/// Result of one transaction of a block.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ExecTxResult {
    /// Result code: 0 on success, otherwise defined by the application.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// Value that the transaction returned; a part of consensus.
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
    /// Log text, not part of consensus.
    #[prost(string, tag = "3")]
    pub log: String,
    /// Additional text, not part of consensus.
    #[prost(string, tag = "4")]
    pub info: String,
    /// Gas limit that the transaction requested.
    #[prost(int64, tag = "5")]
    pub gas_wanted: i64,
    /// Gas that the transaction used, in the same units.
    #[prost(int64, tag = "6")]
    pub gas_used: i64,
    /// Events of the transaction.
    #[prost(message, repeated, tag = "7")]
    pub events: Vec<Event>,
    /// Namespace of the code.
    #[prost(string, tag = "8")]
    pub codespace: String,
}

/// A state that a new node can begin from.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Snapshot {
    /// After the block of this height.
    #[prost(uint64, tag = "1")]
    pub height: u64,
    /// Format number, defined by the application.
    #[prost(uint32, tag = "2")]
    pub format: u32,
    /// Number of chunks, which are numbered from 0.
    #[prost(uint32, tag = "3")]
    pub chunks: u32,
    /// Hash, equal only for equal snapshots.
    #[prost(bytes = "bytes", tag = "4")]
    pub hash: Bytes,
    /// Additional data for the application.
    #[prost(bytes = "bytes", tag = "5")]
    pub metadata: Bytes,
}

/// A step of a proof of a query's answer.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProofOp {
    /// Kind of the step.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// The key that the step proves.
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
    /// Data of the proof.
    #[prost(bytes = "bytes", tag = "3")]
    pub data: Bytes,
}

/// A proof of a query's answer.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProofOps {
    /// From the value up to the app hash.
    #[prost(message, repeated, tag = "1")]
    pub ops: Vec<ProofOp>,
}

/// Limits of a block.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct BlockParams {
    /// Maximum size of the whole block in bytes; −1 is CometBFT's maximum, 100 MiB.
    #[prost(int64, tag = "1")]
    pub max_bytes: i64,
    /// Maximum gas of a block; −1 is no limit.
    #[prost(int64, tag = "2")]
    pub max_gas: i64,
}

/// Limits on evidence against validators.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct EvidenceParams {
    /// Maximum age in blocks.
    #[prost(int64, tag = "1")]
    pub max_age_num_blocks: i64,
    /// Maximum age in time.
    #[prost(message, optional, tag = "2")]
    pub max_age_duration: Option<Duration>,
    /// Maximum bytes of evidence in a block.
    #[prost(int64, tag = "3")]
    pub max_bytes: i64,
}

/// Rules for validators' keys.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ValidatorParams {
    /// Allowed kinds, such as `ed25519`.
    #[prost(string, repeated, tag = "1")]
    pub pub_key_types: Vec<String>,
}

/// The application's version, part of each block's header.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct VersionParams {
    /// Version of the application's rules, copied into each block's header.
    #[prost(uint64, tag = "1")]
    pub app: u64,
}

/// Parameters of ABCI itself.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AbciParams {
    /// First height with vote extensions; 0: never.
    #[prost(int64, tag = "1")]
    pub vote_extensions_enable_height: i64,
}

/// Parameters that all validators agree on, besides the state.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ConsensusParams {
    /// Limits of a block.
    #[prost(message, optional, tag = "1")]
    pub block: Option<BlockParams>,
    /// Limits on evidence; `None` leaves them as they are.
    #[prost(message, optional, tag = "2")]
    pub evidence: Option<EvidenceParams>,
    /// Rules for validators' keys.
    #[prost(message, optional, tag = "3")]
    pub validator: Option<ValidatorParams>,
    /// Version of the application.
    #[prost(message, optional, tag = "4")]
    pub version: Option<VersionParams>,
    /// Parameters of ABCI itself.
    #[prost(message, optional, tag = "5")]
    pub abci: Option<AbciParams>,
}
