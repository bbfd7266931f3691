//! The parsers and builders: against the cluster's own crates, and on the corpus of the fuzz targets.

#[path = "../../../../../fuzz/src/wire.rs"]
mod checks;
mod gossip;
#[path = "../../examples/make_corpus.rs"]
mod make_corpus;
mod replay_corpus;
mod sdk_build;
mod sdk_differential;
mod support;
