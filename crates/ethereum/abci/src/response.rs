//! What the application answers.
//!
//! source  CometBFT's `proto/tendermint/abci/types.proto`, `Response…`

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

use crate::types::{ConsensusParams, Event, ExecTxResult, ProofOps, Snapshot, ValidatorUpdate};

/// A frame to CometBFT.
#[derive(Clone, PartialEq, Message)]
pub struct Response {
    /// Always there.
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 6, 7, 9, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21")]
    pub value: Option<Value>,
}

/// One of the answers, each to the request of its name.
#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    /// The application cannot go on; CometBFT stops.
    #[prost(message, tag = "1")]
    Exception(Exception),
    /// The same.
    #[prost(message, tag = "2")]
    Echo(Echo),
    /// All before is sent.
    #[prost(message, tag = "3")]
    Flush(Flush),
    /// How far the application is.
    #[prost(message, tag = "4")]
    Info(Info),
    /// The state of the genesis.
    #[prost(message, tag = "6")]
    InitChain(InitChain),
    /// The answer to a client.
    #[prost(message, tag = "7")]
    Query(Query),
    /// Whether a transaction may wait.
    #[prost(message, tag = "9")]
    CheckTx(CheckTx),
    /// What may be forgotten.
    #[prost(message, tag = "12")]
    Commit(Commit),
    /// The snapshots that are there.
    #[prost(message, tag = "13")]
    ListSnapshots(ListSnapshots),
    /// Whether it is taken.
    #[prost(message, tag = "14")]
    OfferSnapshot(OfferSnapshot),
    /// A part of it.
    #[prost(message, tag = "15")]
    LoadSnapshotChunk(LoadSnapshotChunk),
    /// Whether the part was good.
    #[prost(message, tag = "16")]
    ApplySnapshotChunk(ApplySnapshotChunk),
    /// The block's transactions.
    #[prost(message, tag = "17")]
    PrepareProposal(PrepareProposal),
    /// Whether to vote for it.
    #[prost(message, tag = "18")]
    ProcessProposal(ProcessProposal),
    /// What goes with the vote.
    #[prost(message, tag = "19")]
    ExtendVote(ExtendVote),
    /// Whether the vote counts.
    #[prost(message, tag = "20")]
    VerifyVoteExtension(VerifyVoteExtension),
    /// What the block came to.
    #[prost(message, tag = "21")]
    FinalizeBlock(FinalizeBlock),
}

/// See [`Value::Exception`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Exception {
    /// What happened.
    #[prost(string, tag = "1")]
    pub error: String,
}

/// See [`Value::Echo`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Echo {
    /// What was said.
    #[prost(string, tag = "1")]
    pub message: String,
}

/// See [`Value::Flush`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Flush {}

/// See [`Value::Info`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Info {
    /// The application's name, or anything else.
    #[prost(string, tag = "1")]
    pub data: String,
    /// The program's version.
    #[prost(string, tag = "2")]
    pub version: String,
    /// The rules' version: part of each header.
    #[prost(uint64, tag = "3")]
    pub app_version: u64,
    /// Of the last block that is kept; 0 before the first.
    #[prost(int64, tag = "4")]
    pub last_block_height: i64,
    /// After it.
    #[prost(bytes = "bytes", tag = "5")]
    pub last_block_app_hash: Bytes,
}

/// See [`Value::InitChain`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct InitChain {
    /// Other ones than the genesis', if any.
    #[prost(message, optional, tag = "1")]
    pub consensus_params: Option<ConsensusParams>,
    /// Other ones than the genesis', if any.
    #[prost(message, repeated, tag = "2")]
    pub validators: Vec<ValidatorUpdate>,
    /// Before the first block.
    #[prost(bytes = "bytes", tag = "3")]
    pub app_hash: Bytes,
}

/// See [`Value::Query`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Query {
    /// 0 where there is an answer.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// For people.
    #[prost(string, tag = "3")]
    pub log: String,
    /// For people.
    #[prost(string, tag = "4")]
    pub info: String,
    /// Of the key in its tree.
    #[prost(int64, tag = "5")]
    pub index: i64,
    /// What was asked for.
    #[prost(bytes = "bytes", tag = "6")]
    pub key: Bytes,
    /// The answer.
    #[prost(bytes = "bytes", tag = "7")]
    pub value: Bytes,
    /// That it is so.
    #[prost(message, optional, tag = "8")]
    pub proof_ops: Option<ProofOps>,
    /// After which block it is so.
    #[prost(int64, tag = "9")]
    pub height: i64,
    /// Whose codes these are.
    #[prost(string, tag = "10")]
    pub codespace: String,
}

/// See [`Value::CheckTx`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CheckTx {
    /// 0 where it may.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// For the client that sent it.
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
    /// For people.
    #[prost(string, tag = "3")]
    pub log: String,
    /// For people.
    #[prost(string, tag = "4")]
    pub info: String,
    /// Counted against the block's limit of gas.
    #[prost(int64, tag = "5")]
    pub gas_wanted: i64,
    /// Gas that checking used.
    #[prost(int64, tag = "6")]
    pub gas_used: i64,
    /// What happened.
    #[prost(message, repeated, tag = "7")]
    pub events: Vec<Event>,
    /// Whose codes these are.
    #[prost(string, tag = "8")]
    pub codespace: String,
}

/// See [`Value::Commit`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Commit {
    /// CometBFT may forget the blocks below; 0 is none.
    #[prost(int64, tag = "3")]
    pub retain_height: i64,
}

/// See [`Value::ListSnapshots`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListSnapshots {
    /// All that are whole.
    #[prost(message, repeated, tag = "1")]
    pub snapshots: Vec<Snapshot>,
}

/// What to do with an offered snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Offer {
    /// Stop it all.
    Unknown = 0,
    /// Send its chunks.
    Accept = 1,
    /// Stop it all.
    Abort = 2,
    /// Try another.
    Reject = 3,
    /// Try another form.
    RejectFormat = 4,
    /// Try another peer's.
    RejectSender = 5,
}

/// See [`Value::OfferSnapshot`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct OfferSnapshot {
    /// See [`Offer`].
    #[prost(enumeration = "Offer", tag = "1")]
    pub result: i32,
}

/// See [`Value::LoadSnapshotChunk`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LoadSnapshotChunk {
    /// Empty where it is not there.
    #[prost(bytes = "bytes", tag = "1")]
    pub chunk: Bytes,
}

/// What to do after a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Applied {
    /// Stop it all.
    Unknown = 0,
    /// Go on.
    Accept = 1,
    /// Stop it all.
    Abort = 2,
    /// Send this one again.
    Retry = 3,
    /// Begin this snapshot again.
    RetrySnapshot = 4,
    /// Try another snapshot.
    RejectSnapshot = 5,
}

/// See [`Value::ApplySnapshotChunk`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ApplySnapshotChunk {
    /// See [`Applied`].
    #[prost(enumeration = "Applied", tag = "1")]
    pub result: i32,
    /// Chunks to send again.
    #[prost(uint32, repeated, tag = "2")]
    pub refetch_chunks: Vec<u32>,
    /// Peers to take nothing from any more.
    #[prost(string, repeated, tag = "3")]
    pub reject_senders: Vec<String>,
}

/// See [`Value::PrepareProposal`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PrepareProposal {
    /// In the block's order.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub txs: Vec<Bytes>,
}

/// Whether a proposed block is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Proposal {
    /// CometBFT stops.
    Unknown = 0,
    /// It is.
    Accept = 1,
    /// It is not.
    Reject = 2,
}

/// See [`Value::ProcessProposal`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ProcessProposal {
    /// See [`Proposal`].
    #[prost(enumeration = "Proposal", tag = "1")]
    pub status: i32,
}

/// See [`Value::ExtendVote`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ExtendVote {
    /// What to say.
    #[prost(bytes = "bytes", tag = "1")]
    pub vote_extension: Bytes,
}

/// Whether a vote counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Verification {
    /// CometBFT stops.
    Unknown = 0,
    /// It does.
    Accept = 1,
    /// It does not.
    Reject = 2,
}

/// See [`Value::VerifyVoteExtension`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct VerifyVoteExtension {
    /// See [`Verification`].
    #[prost(enumeration = "Verification", tag = "1")]
    pub status: i32,
}

/// See [`Value::FinalizeBlock`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FinalizeBlock {
    /// What happened in the block, outside its transactions.
    #[prost(message, repeated, tag = "1")]
    pub events: Vec<Event>,
    /// One for each of its transactions, in order.
    #[prost(message, repeated, tag = "2")]
    pub tx_results: Vec<ExecTxResult>,
    /// Changes of the validators, from two heights later.
    #[prost(message, repeated, tag = "3")]
    pub validator_updates: Vec<ValidatorUpdate>,
    /// Changes of the parameters, if any.
    #[prost(message, optional, tag = "4")]
    pub consensus_param_updates: Option<ConsensusParams>,
    /// Of the state after the block; stands in the next block's header.
    #[prost(bytes = "bytes", tag = "5")]
    pub app_hash: Bytes,
}
