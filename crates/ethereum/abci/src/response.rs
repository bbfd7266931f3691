//! Answers of the application.
//!
//! source  CometBFT's `proto/tendermint/abci/types.proto`, `Response…`

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

use crate::types::{ConsensusParams, Event, ExecTxResult, ProofOps, Snapshot, ValidatorUpdate};

/// An answer frame to CometBFT.
#[derive(Clone, PartialEq, Message)]
pub struct Response {
    /// `Some` in every valid answer.
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 6, 7, 9, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21")]
    pub value: Option<Value>,
}

/// One of the answers, each to the request of its name.
#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    /// A fatal error of the application; CometBFT stops.
    #[prost(message, tag = "1")]
    Exception(Exception),
    /// The request's text, returned unchanged.
    #[prost(message, tag = "2")]
    Echo(Echo),
    /// All earlier answers have been sent.
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
    /// The height below which blocks may be pruned.
    #[prost(message, tag = "12")]
    Commit(Commit),
    /// The snapshots that are there.
    #[prost(message, tag = "13")]
    ListSnapshots(ListSnapshots),
    /// Whether the snapshot is accepted.
    #[prost(message, tag = "14")]
    OfferSnapshot(OfferSnapshot),
    /// A chunk of a snapshot.
    #[prost(message, tag = "15")]
    LoadSnapshotChunk(LoadSnapshotChunk),
    /// Whether the chunk was valid.
    #[prost(message, tag = "16")]
    ApplySnapshotChunk(ApplySnapshotChunk),
    /// Transactions of the block.
    #[prost(message, tag = "17")]
    PrepareProposal(PrepareProposal),
    /// Whether to vote for the block.
    #[prost(message, tag = "18")]
    ProcessProposal(ProcessProposal),
    /// The extension of the vote.
    #[prost(message, tag = "19")]
    ExtendVote(ExtendVote),
    /// Whether the vote counts.
    #[prost(message, tag = "20")]
    VerifyVoteExtension(VerifyVoteExtension),
    /// The results of the block.
    #[prost(message, tag = "21")]
    FinalizeBlock(FinalizeBlock),
}

/// Body of [`Value::Exception`]: the answer to any request that the application cannot carry out.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Exception {
    /// Text of the fatal error, which CometBFT logs before it stops.
    #[prost(string, tag = "1")]
    pub error: String,
}

/// Body of [`Value::Echo`]: the text of the request.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Echo {
    /// The request's text, returned unchanged.
    #[prost(string, tag = "1")]
    pub message: String,
}

/// Data of [`Value::Flush`]: none.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Flush {}

/// Body of [`Value::Info`]: the last block that the application persisted. CometBFT replays those after it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Info {
    /// The application's name, or any other text.
    #[prost(string, tag = "1")]
    pub data: String,
    /// The application's software version.
    #[prost(string, tag = "2")]
    pub version: String,
    /// The rules' version: part of each header.
    #[prost(uint64, tag = "3")]
    pub app_version: u64,
    /// Height of the last persisted block; 0 before the first.
    #[prost(int64, tag = "4")]
    pub last_block_height: i64,
    /// The app hash after that block.
    #[prost(bytes = "bytes", tag = "5")]
    pub last_block_app_hash: Bytes,
}

/// Body of [`Value::InitChain`]: the state that the application made of the genesis.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct InitChain {
    /// Parameters that replace the genesis', if any.
    #[prost(message, optional, tag = "1")]
    pub consensus_params: Option<ConsensusParams>,
    /// Validators that replace the genesis', if any.
    #[prost(message, repeated, tag = "2")]
    pub validators: Vec<ValidatorUpdate>,
    /// The app hash before the first block.
    #[prost(bytes = "bytes", tag = "3")]
    pub app_hash: Bytes,
}

/// Body of [`Value::Query`]: the value that an `abci_query` found, or why there is none.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Query {
    /// Result code: 0 on success, otherwise defined by the application.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// Log text, not deterministic.
    #[prost(string, tag = "3")]
    pub log: String,
    /// Additional text, not deterministic.
    #[prost(string, tag = "4")]
    pub info: String,
    /// Index of the key in its tree.
    #[prost(int64, tag = "5")]
    pub index: i64,
    /// The key that was queried.
    #[prost(bytes = "bytes", tag = "6")]
    pub key: Bytes,
    /// The value found at the path; empty if there is none.
    #[prost(bytes = "bytes", tag = "7")]
    pub value: Bytes,
    /// Proof of the value.
    #[prost(message, optional, tag = "8")]
    pub proof_ops: Option<ProofOps>,
    /// Height of the state that was queried.
    #[prost(int64, tag = "9")]
    pub height: i64,
    /// Namespace of the code.
    #[prost(string, tag = "10")]
    pub codespace: String,
}

/// Body of [`Value::CheckTx`]: whether the mempool may hold the transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CheckTx {
    /// 0 if the transaction may wait.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// Data for the client that sent it.
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
    /// Log text, not deterministic.
    #[prost(string, tag = "3")]
    pub log: String,
    /// Additional text, not deterministic.
    #[prost(string, tag = "4")]
    pub info: String,
    /// Gas counted against the block's limit.
    #[prost(int64, tag = "5")]
    pub gas_wanted: i64,
    /// Gas used by the check.
    #[prost(int64, tag = "6")]
    pub gas_used: i64,
    /// Events of the check.
    #[prost(message, repeated, tag = "7")]
    pub events: Vec<Event>,
    /// Namespace of the code.
    #[prost(string, tag = "8")]
    pub codespace: String,
}

/// Body of [`Value::Commit`]: how much of the past CometBFT must keep.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Commit {
    /// CometBFT may prune blocks below this height; 0: none.
    #[prost(int64, tag = "3")]
    pub retain_height: i64,
}

/// Body of [`Value::ListSnapshots`]: the snapshots that this node offers to its peers.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListSnapshots {
    /// The complete snapshots; one in the making is not among them.
    #[prost(message, repeated, tag = "1")]
    pub snapshots: Vec<Snapshot>,
}

/// Verdict on an offered snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Offer {
    /// Unknown verdict: abort state sync.
    Unknown = 0,
    /// Accept: send the chunks.
    Accept = 1,
    /// Stop state sync altogether; no other snapshot is tried.
    Abort = 2,
    /// Reject this snapshot; try another.
    Reject = 3,
    /// Reject this format; try another.
    RejectFormat = 4,
    /// Reject all snapshots of this sender.
    RejectSender = 5,
}

/// Body of [`Value::OfferSnapshot`]: the verdict on an offered snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct OfferSnapshot {
    /// An [`Offer`], as its number on the wire.
    #[prost(enumeration = "Offer", tag = "1")]
    pub result: i32,
}

/// Body of [`Value::LoadSnapshotChunk`]: the requested chunk.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LoadSnapshotChunk {
    /// Bytes of the chunk; empty if it does not exist.
    #[prost(bytes = "bytes", tag = "1")]
    pub chunk: Bytes,
}

/// Verdict on a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum ApplyChunkResult {
    /// Unknown verdict: abort state sync.
    Unknown = 0,
    /// Accepted: continue with the next chunk.
    Accept = 1,
    /// Stop state sync altogether; no other snapshot is tried.
    Abort = 2,
    /// Fetch this chunk again.
    Retry = 3,
    /// Offer this snapshot again, and apply its chunks from the first.
    RetrySnapshot = 4,
    /// Reject this snapshot; try another.
    RejectSnapshot = 5,
}

/// Body of [`Value::ApplySnapshotChunk`]: the verdict on a chunk, and what to fetch again.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ApplySnapshotChunk {
    /// An [`ApplyChunkResult`], as its number on the wire.
    #[prost(enumeration = "ApplyChunkResult", tag = "1")]
    pub result: i32,
    /// Chunks to fetch again.
    #[prost(uint32, repeated, tag = "2")]
    pub refetch_chunks: Vec<u32>,
    /// Ids of peers whose chunks are no longer accepted.
    #[prost(string, repeated, tag = "3")]
    pub reject_senders: Vec<String>,
}

/// Body of [`Value::PrepareProposal`]: the transactions of the block that this node proposes.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PrepareProposal {
    /// Transactions in the block's order.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub txs: Vec<Bytes>,
}

/// Whether a proposed block is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Proposal {
    /// Unknown verdict: CometBFT stops.
    Unknown = 0,
    /// Vote for the block.
    Accept = 1,
    /// Do not vote for the block.
    Reject = 2,
}

/// Body of [`Value::ProcessProposal`]: the verdict on a proposed block.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ProcessProposal {
    /// A [`Proposal`], as its number on the wire.
    #[prost(enumeration = "Proposal", tag = "1")]
    pub status: i32,
}

/// Body of [`Value::ExtendVote`]: the data that travels with this node's vote.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ExtendVote {
    /// Data to attach to the vote.
    #[prost(bytes = "bytes", tag = "1")]
    pub vote_extension: Bytes,
}

/// Whether a vote counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Verification {
    /// Unknown verdict: CometBFT stops.
    Unknown = 0,
    /// The extension is valid: count the vote.
    Accept = 1,
    /// The extension is invalid: ignore the vote.
    Reject = 2,
}

/// Body of [`Value::VerifyVoteExtension`]: the verdict on another validator's vote.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct VerifyVoteExtension {
    /// A [`Verification`], as its number on the wire.
    #[prost(enumeration = "Verification", tag = "1")]
    pub status: i32,
}

/// Body of [`Value::FinalizeBlock`]: the results of an executed block.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FinalizeBlock {
    /// Events of the block, outside its transactions.
    #[prost(message, repeated, tag = "1")]
    pub events: Vec<Event>,
    /// One result per transaction, in order.
    #[prost(message, repeated, tag = "2")]
    pub tx_results: Vec<ExecTxResult>,
    /// Validator changes, effective two heights later.
    #[prost(message, repeated, tag = "3")]
    pub validator_updates: Vec<ValidatorUpdate>,
    /// Parameter changes, if any.
    #[prost(message, optional, tag = "4")]
    pub consensus_param_updates: Option<ConsensusParams>,
    /// The app hash after the block; goes into the next block's header.
    #[prost(bytes = "bytes", tag = "5")]
    pub app_hash: Bytes,
}
