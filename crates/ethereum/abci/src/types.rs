//! What requests and answers are made of: times, votes, snapshots, events, parameters.
//!
//! source  CometBFT's `proto/tendermint/{abci,types,crypto}`; the numbers of fields are the protocol's

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

/// A moment, as Protobuf has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Message)]
pub struct Timestamp {
    /// Seconds since 1970.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds after that, below 10⁹.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// A span of time, as Protobuf has it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Duration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds more.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// A validator's key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PublicKey {
    /// Of which kind, and the key.
    #[prost(oneof = "Key", tags = "1, 2")]
    pub sum: Option<Key>,
}

/// The kinds of keys.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Key {
    /// 32 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    Ed25519(Bytes),
    /// 33 bytes, compressed.
    #[prost(bytes = "bytes", tag = "2")]
    Secp256k1(Bytes),
}

/// A validator and the power it is to have; 0 removes it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ValidatorUpdate {
    /// Its key.
    #[prost(message, optional, tag = "1")]
    pub pub_key: Option<PublicKey>,
    /// Its votes.
    #[prost(int64, tag = "2")]
    pub power: i64,
}

/// A validator that voted, or should have.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Validator {
    /// The first 20 bytes of SHA-256 over its key.
    #[prost(bytes = "bytes", tag = "1")]
    pub address: Bytes,
    /// Its votes.
    #[prost(int64, tag = "3")]
    pub power: i64,
}

/// How a validator voted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum BlockIdFlag {
    /// An error.
    Unknown = 0,
    /// No vote came.
    Absent = 1,
    /// For the block.
    Commit = 2,
    /// For no block.
    Nil = 3,
}

/// One vote of the last commit.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct VoteInfo {
    /// Whose.
    #[prost(message, optional, tag = "1")]
    pub validator: Option<Validator>,
    /// For what: see [`BlockIdFlag`].
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
    /// Whose.
    #[prost(message, optional, tag = "1")]
    pub validator: Option<Validator>,
    /// What the validator's application said.
    #[prost(bytes = "bytes", tag = "3")]
    pub vote_extension: Bytes,
    /// CometBFT's signature of it.
    #[prost(bytes = "bytes", tag = "4")]
    pub extension_signature: Bytes,
    /// For what: see [`BlockIdFlag`].
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

/// What a validator did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum MisbehaviorType {
    /// Not said.
    Unknown = 0,
    /// It voted twice in one round.
    DuplicateVote = 1,
    /// It signed a block for light clients that is not of the chain.
    LightClientAttack = 2,
}

/// Evidence against a validator.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Misbehavior {
    /// See [`MisbehaviorType`].
    #[prost(enumeration = "MisbehaviorType", tag = "1")]
    pub r#type: i32,
    /// Who.
    #[prost(message, optional, tag = "2")]
    pub validator: Option<Validator>,
    /// At which height.
    #[prost(int64, tag = "3")]
    pub height: i64,
    /// When.
    #[prost(message, optional, tag = "4")]
    pub time: Option<Timestamp>,
    /// The power of all validators then.
    #[prost(int64, tag = "5")]
    pub total_voting_power: i64,
}

/// A key and its value, told to those that follow events.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct EventAttribute {
    /// What.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
    /// Whether CometBFT's indexer keeps it.
    #[prost(bool, tag = "3")]
    pub index: bool,
}

/// Something that happened in a block or a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Event {
    /// Its name.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// What there is to say about it.
    #[prost(message, repeated, tag = "2")]
    pub attributes: Vec<EventAttribute>,
}

/// What became of one transaction of a block.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ExecTxResult {
    /// 0 where it did what it was to do.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// What it returned.
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
    /// For people; no part of what validators agree on.
    #[prost(string, tag = "3")]
    pub log: String,
    /// For people; no part of what validators agree on.
    #[prost(string, tag = "4")]
    pub info: String,
    /// Gas asked for.
    #[prost(int64, tag = "5")]
    pub gas_wanted: i64,
    /// Gas used.
    #[prost(int64, tag = "6")]
    pub gas_used: i64,
    /// What happened.
    #[prost(message, repeated, tag = "7")]
    pub events: Vec<Event>,
    /// Whose codes these are.
    #[prost(string, tag = "8")]
    pub codespace: String,
}

/// A state that a new node can begin from.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Snapshot {
    /// After the block of this height.
    #[prost(uint64, tag = "1")]
    pub height: u64,
    /// The application's form.
    #[prost(uint32, tag = "2")]
    pub format: u32,
    /// Into how many chunks it is cut.
    #[prost(uint32, tag = "3")]
    pub chunks: u32,
    /// Equal only for equal snapshots.
    #[prost(bytes = "bytes", tag = "4")]
    pub hash: Bytes,
    /// What else the application needs to know.
    #[prost(bytes = "bytes", tag = "5")]
    pub metadata: Bytes,
}

/// A step of a proof of a query's answer.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProofOp {
    /// Its kind.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// What it proves.
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
    /// The proof.
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
    /// Of the whole block; −1 is CometBFT's most, 100 MiB.
    #[prost(int64, tag = "1")]
    pub max_bytes: i64,
    /// −1 is no limit.
    #[prost(int64, tag = "2")]
    pub max_gas: i64,
}

/// What evidence against validators is taken.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct EvidenceParams {
    /// The oldest, in blocks.
    #[prost(int64, tag = "1")]
    pub max_age_num_blocks: i64,
    /// The oldest, in time.
    #[prost(message, optional, tag = "2")]
    pub max_age_duration: Option<Duration>,
    /// In a block.
    #[prost(int64, tag = "3")]
    pub max_bytes: i64,
}

/// What keys validators may have.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ValidatorParams {
    /// Their kinds, such as `ed25519`.
    #[prost(string, repeated, tag = "1")]
    pub pub_key_types: Vec<String>,
}

/// The application's version, part of each block's header.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct VersionParams {
    /// It.
    #[prost(uint64, tag = "1")]
    pub app: u64,
}

/// What CometBFT asks of the application.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AbciParams {
    /// From which height votes carry extensions; 0 is never.
    #[prost(int64, tag = "1")]
    pub vote_extensions_enable_height: i64,
}

/// What all validators agree on beside the state.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ConsensusParams {
    /// Limits of a block.
    #[prost(message, optional, tag = "1")]
    pub block: Option<BlockParams>,
    /// What evidence is taken.
    #[prost(message, optional, tag = "2")]
    pub evidence: Option<EvidenceParams>,
    /// What keys validators may have.
    #[prost(message, optional, tag = "3")]
    pub validator: Option<ValidatorParams>,
    /// The application's version.
    #[prost(message, optional, tag = "4")]
    pub version: Option<VersionParams>,
    /// What CometBFT asks of the application.
    #[prost(message, optional, tag = "5")]
    pub abci: Option<AbciParams>,
}
