//! Requests from CometBFT.
//!
//! source  CometBFT's `proto/tendermint/abci/types.proto`, `Request…`

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

use crate::types::{
    CommitInfo, ConsensusParams, ExtendedCommitInfo, Misbehavior, Snapshot, Timestamp, ValidatorUpdate,
};

/// A request frame from CometBFT.
#[derive(Clone, PartialEq, Message)]
pub struct Request {
    /// `None` for a request of a later version that is unknown here.
    #[prost(oneof = "Value", tags = "1, 2, 3, 5, 6, 8, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20")]
    pub value: Option<Value>,
}

/// One of the requests.
#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    /// Echo a message back.
    #[prost(message, tag = "1")]
    Echo(Echo),
    /// Send all buffered answers.
    #[prost(message, tag = "2")]
    Flush(Flush),
    /// How far is the application?
    #[prost(message, tag = "3")]
    Info(Info),
    /// Initialize the chain from the genesis.
    #[prost(message, tag = "5")]
    InitChain(InitChain),
    /// A question of a client's.
    #[prost(message, tag = "6")]
    Query(Query),
    /// May this transaction wait in the mempool?
    #[prost(message, tag = "8")]
    CheckTx(CheckTx),
    /// Persist the decided block.
    #[prost(message, tag = "11")]
    Commit(Commit),
    /// Which snapshots are there?
    #[prost(message, tag = "12")]
    ListSnapshots(ListSnapshots),
    /// Begin with this one?
    #[prost(message, tag = "13")]
    OfferSnapshot(OfferSnapshot),
    /// A part of a snapshot for another node.
    #[prost(message, tag = "14")]
    LoadSnapshotChunk(LoadSnapshotChunk),
    /// A part of the snapshot that was accepted.
    #[prost(message, tag = "15")]
    ApplySnapshotChunk(ApplySnapshotChunk),
    /// Choose the contents of a block to propose.
    #[prost(message, tag = "16")]
    PrepareProposal(PrepareProposal),
    /// Is a proposed block good?
    #[prost(message, tag = "17")]
    ProcessProposal(ProcessProposal),
    /// Provide data to attach to this node's vote.
    #[prost(message, tag = "18")]
    ExtendVote(ExtendVote),
    /// Judge another validator's vote extension.
    #[prost(message, tag = "19")]
    VerifyVoteExtension(VerifyVoteExtension),
    /// This block is decided: execute it.
    #[prost(message, tag = "20")]
    FinalizeBlock(FinalizeBlock),
}

/// Body of [`Value::Echo`]: a text that the answer repeats.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Echo {
    /// The message to echo.
    #[prost(string, tag = "1")]
    pub message: String,
}

/// Data of [`Value::Flush`]: none.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Flush {}

/// Body of [`Value::Info`]: the versions that CometBFT speaks, sent when it starts.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Info {
    /// CometBFT's software version, like `0.38.17`.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Version of the block protocol.
    #[prost(uint64, tag = "2")]
    pub block_version: u64,
    /// Version of the peer protocol.
    #[prost(uint64, tag = "3")]
    pub p2p_version: u64,
    /// Version of ABCI that CometBFT speaks, like `2.0.0`.
    #[prost(string, tag = "4")]
    pub abci_version: String,
}

/// Body of [`Value::InitChain`]: the genesis, sent once, before the first block of a chain.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct InitChain {
    /// Time of the genesis.
    #[prost(message, optional, tag = "1")]
    pub time: Option<Timestamp>,
    /// CometBFT's name of the chain.
    #[prost(string, tag = "2")]
    pub chain_id: String,
    /// Consensus parameters of the genesis.
    #[prost(message, optional, tag = "3")]
    pub consensus_params: Option<ConsensusParams>,
    /// Validators of the genesis.
    #[prost(message, repeated, tag = "4")]
    pub validators: Vec<ValidatorUpdate>,
    /// The genesis' `app_state`, JSON.
    #[prost(bytes = "bytes", tag = "5")]
    pub app_state_bytes: Bytes,
    /// The first block's height.
    #[prost(int64, tag = "6")]
    pub initial_height: i64,
}

/// Body of [`Value::Query`]: the `abci_query` of a client of CometBFT's RPC.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Query {
    /// Argument whose form depends on the path.
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
    /// Path that selects the kind of query.
    #[prost(string, tag = "2")]
    pub path: String,
    /// Height of the state to query; 0 is the newest.
    #[prost(int64, tag = "3")]
    pub height: i64,
    /// Whether the client wants a proof.
    #[prost(bool, tag = "4")]
    pub prove: bool,
}

/// Why a transaction is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum CheckTxType {
    /// The transaction has just arrived.
    New = 0,
    /// A recheck after a block.
    Recheck = 1,
}

/// Body of [`Value::CheckTx`]: a transaction that wants to enter or stay in CometBFT's mempool.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CheckTx {
    /// The transaction as CometBFT carries it, which is opaque bytes to CometBFT.
    #[prost(bytes = "bytes", tag = "1")]
    pub tx: Bytes,
    /// A [`CheckTxType`], as its number on the wire.
    #[prost(enumeration = "CheckTxType", tag = "2")]
    pub r#type: i32,
}

/// Data of [`Value::Commit`]: none.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Commit {}

/// Data of [`Value::ListSnapshots`]: none.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ListSnapshots {}

/// Body of [`Value::OfferSnapshot`]: a peer's snapshot, offered to a node that syncs its state.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct OfferSnapshot {
    /// The snapshot that a peer offers.
    #[prost(message, optional, tag = "1")]
    pub snapshot: Option<Snapshot>,
    /// The app hash at this height, verified by the light client.
    #[prost(bytes = "bytes", tag = "2")]
    pub app_hash: Bytes,
}

/// Body of [`Value::LoadSnapshotChunk`]: names the chunk that a peer wants from this node.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LoadSnapshotChunk {
    /// Height of the snapshot.
    #[prost(uint64, tag = "1")]
    pub height: u64,
    /// Format of the snapshot.
    #[prost(uint32, tag = "2")]
    pub format: u32,
    /// Index of the chunk, from 0.
    #[prost(uint32, tag = "3")]
    pub chunk: u32,
}

/// Body of [`Value::ApplySnapshotChunk`]: a chunk of the snapshot that the application accepted.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ApplySnapshotChunk {
    /// Index of the chunk, from 0.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// Bytes of the chunk.
    #[prost(bytes = "bytes", tag = "2")]
    pub chunk: Bytes,
    /// Id of the peer that sent it.
    #[prost(string, tag = "3")]
    pub sender: String,
}

/// Body of [`Value::PrepareProposal`]: the block that CometBFT would propose, for the application to change.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PrepareProposal {
    /// Limit for the answer's transactions, in bytes.
    #[prost(int64, tag = "1")]
    pub max_tx_bytes: i64,
    /// Transactions from CometBFT's mempool.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub txs: Vec<Bytes>,
    /// The votes of the block before.
    #[prost(message, optional, tag = "3")]
    pub local_last_commit: Option<ExtendedCommitInfo>,
    /// Evidence in the block, which CometBFT has verified.
    #[prost(message, repeated, tag = "4")]
    pub misbehavior: Vec<Misbehavior>,
    /// Height of the block.
    #[prost(int64, tag = "5")]
    pub height: i64,
    /// Time of the block.
    #[prost(message, optional, tag = "6")]
    pub time: Option<Timestamp>,
    /// Hash of the validators after the block.
    #[prost(bytes = "bytes", tag = "7")]
    pub next_validators_hash: Bytes,
    /// Address of this node's validator.
    #[prost(bytes = "bytes", tag = "8")]
    pub proposer_address: Bytes,
}

/// Body of [`Value::ProcessProposal`]: a proposed block, to be accepted or rejected.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ProcessProposal {
    /// Transactions of the block.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub txs: Vec<Bytes>,
    /// The votes of the block before.
    #[prost(message, optional, tag = "2")]
    pub proposed_last_commit: Option<CommitInfo>,
    /// Evidence in the block, which CometBFT has verified.
    #[prost(message, repeated, tag = "3")]
    pub misbehavior: Vec<Misbehavior>,
    /// Hash of the block.
    #[prost(bytes = "bytes", tag = "4")]
    pub hash: Bytes,
    /// Height of the block.
    #[prost(int64, tag = "5")]
    pub height: i64,
    /// Time of the block.
    #[prost(message, optional, tag = "6")]
    pub time: Option<Timestamp>,
    /// Hash of the validators after the block.
    #[prost(bytes = "bytes", tag = "7")]
    pub next_validators_hash: Bytes,
    /// Address of the proposer.
    #[prost(bytes = "bytes", tag = "8")]
    pub proposer_address: Bytes,
}

/// Body of [`Value::ExtendVote`]: the block for which this node is about to precommit.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ExtendVote {
    /// Hash of the block.
    #[prost(bytes = "bytes", tag = "1")]
    pub hash: Bytes,
    /// Height of the block.
    #[prost(int64, tag = "2")]
    pub height: i64,
    /// Time of the block.
    #[prost(message, optional, tag = "3")]
    pub time: Option<Timestamp>,
    /// Transactions of the block.
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub txs: Vec<Bytes>,
    /// The votes of the block before.
    #[prost(message, optional, tag = "5")]
    pub proposed_last_commit: Option<CommitInfo>,
    /// Evidence in the block, which CometBFT has verified.
    #[prost(message, repeated, tag = "6")]
    pub misbehavior: Vec<Misbehavior>,
    /// Hash of the validators after the block.
    #[prost(bytes = "bytes", tag = "7")]
    pub next_validators_hash: Bytes,
    /// Address of the proposer.
    #[prost(bytes = "bytes", tag = "8")]
    pub proposer_address: Bytes,
}

/// Body of [`Value::VerifyVoteExtension`]: the extension of another validator's precommit.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct VerifyVoteExtension {
    /// Hash of the block.
    #[prost(bytes = "bytes", tag = "1")]
    pub hash: Bytes,
    /// Address of the voting validator.
    #[prost(bytes = "bytes", tag = "2")]
    pub validator_address: Bytes,
    /// Height of the block.
    #[prost(int64, tag = "3")]
    pub height: i64,
    /// Data that the validator's application attached to its vote.
    #[prost(bytes = "bytes", tag = "4")]
    pub vote_extension: Bytes,
}

/// Body of [`Value::FinalizeBlock`]: a decided block, to be executed.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FinalizeBlock {
    /// Transactions of the block.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub txs: Vec<Bytes>,
    /// The votes of the block before.
    #[prost(message, optional, tag = "2")]
    pub decided_last_commit: Option<CommitInfo>,
    /// Evidence in the block, which CometBFT has verified.
    #[prost(message, repeated, tag = "3")]
    pub misbehavior: Vec<Misbehavior>,
    /// Hash of the block.
    #[prost(bytes = "bytes", tag = "4")]
    pub hash: Bytes,
    /// Height of the block.
    #[prost(int64, tag = "5")]
    pub height: i64,
    /// Time of the block.
    #[prost(message, optional, tag = "6")]
    pub time: Option<Timestamp>,
    /// Hash of the validators after the block.
    #[prost(bytes = "bytes", tag = "7")]
    pub next_validators_hash: Bytes,
    /// Address of the proposer.
    #[prost(bytes = "bytes", tag = "8")]
    pub proposer_address: Bytes,
}
