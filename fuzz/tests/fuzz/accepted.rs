//! Formats accept files of their corpus: a target whose parser refuses all of them would check nothing.

use std::path::Path;

use bytes::Bytes;
use hearth_abci::frame;
use hearth_abci::request::Request;
use hearth_comet::envelope::{self, Content};
use hearth_comet::snapshot::codec;
use hearth_evm::genesis::Genesis;
use hearth_evm::import::BlockReader;
use hearth_evm::tx;
use hearth_fuzz::archive::fuzz_archive;
use hearth_fuzz::ethereum::fuzz_utxo;
use hearth_fuzz::genesis::fuzz_genesis;
use hearth_fuzz::{find, runner};
use hearth_ledger::stakes::Delegation;
use hearth_node::config::load_str;
use hearth_node::recorded::format::parse_blocks;
use hearth_utxo::{OwnerKey, amount};
use hearth_wal::frames;
use hearth_wire::Txn;
use hearth_wire::base58::decode_32;
use hearth_wire::entry::Entries;
use hearth_wire::gossip::Protocol;
use hearth_wire::gossip::ip_echo::IpEchoRequest;
use hearth_wire::repair::RepairDatagram;
use hearth_wire::shred::Shred;
use hearth_wire::tower_file::TowerFile;
use hearth_wire::vote::voted_for;

/// The chain's id in the corpus.
const CHAIN_ID: u64 = 31_337;
/// The name of an input in messages.
const NAME: &str = "input";

/// A target, and whether its format accepts an input.
type Format = (&'static str, fn(&[u8]) -> bool);

const FORMATS: [Format; 25] = [
    ("abci_frames", |input| matches!(frame::read_message::<Request>(&mut &input[..], 1 << 20), Ok(Some(_)))),
    ("account_state", |input| Delegation::read(&input[1..]).is_some()),
    ("archive", fuzz_archive),
    ("comet_chunk", has_entries),
    ("comet_chunk", |input| codec::decode_headers(input).is_ok()),
    ("comet_envelope", |input| matches!(envelope::open(&Bytes::copy_from_slice(input)), Ok(Content::Batch(_)))),
    ("entry", |input| Entries::parse(input).is_ok_and(|mut entries| entries.next().is_some_and(|entry| entry.is_ok()))),
    ("evm_blocks", |input| BlockReader::new(input).next().is_some_and(|block| block.is_ok())),
    ("evm_genesis", |input| text(input).is_some_and(|text| Genesis::from_json(text).is_ok())),
    ("evm_transaction", |input| tx::decode_one(input, CHAIN_ID).is_ok()),
    ("genesis", fuzz_genesis),
    ("gossip", |input| Protocol::parse(input).is_ok()),
    ("ip_echo", |input| IpEchoRequest::parse(input).is_ok()),
    ("key_file", |input| text(input).is_some_and(|text| hearth_keys::parse(text, Path::new(NAME)).is_ok())),
    ("log_file", |input| frames::read(input).is_ok_and(|contents| !contents.records.is_empty())),
    ("node_config", |input| text(input).is_some_and(|text| load_str(text, Path::new(NAME)).is_ok())),
    ("recorded_blocks", |input| parse_blocks(input, Path::new(NAME)).is_ok()),
    ("repair", |input| matches!(RepairDatagram::parse(input), Ok(RepairDatagram::Request(..)))),
    ("shred", |input| Shred::parse(input).is_ok()),
    ("text_and_numbers", |input| text(input).is_some_and(|text| decode_32(text).is_ok())),
    ("tower", |input| TowerFile::parse(input).is_ok()),
    ("utxo_text", |input| text(&input[1..]).is_some_and(|text| text.parse::<OwnerKey>().is_ok())),
    ("utxo_text", |input| text(&input[1..]).is_some_and(|text| amount::parse(text, input[0]).is_ok())),
    ("utxo_transaction", fuzz_utxo),
    ("vote", |input| Txn::parse(input).is_ok_and(|txn| voted_for(&txn).is_some())),
];

fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// Whether an input is a chunk with entries.
fn has_entries(input: &[u8]) -> bool {
    let mut count = 0;
    let read = codec::Reader::default().read(&Bytes::copy_from_slice(input), |_| count += 1);
    read.is_ok() && count > 0
}

#[test]
fn each_format_accepts_a_file_of_its_corpus() {
    let refused: Vec<&str> = FORMATS
        .iter()
        .filter(|&&(target, accepts)| {
            assert!(find(target).is_some(), "{target} is a target");
            let files = runner::corpus(target);
            !files.iter().any(|(_, input)| !input.is_empty() && accepts(input))
        })
        .map(|&(target, _)| target)
        .collect();
    assert!(refused.is_empty(), "{refused:?} accept none of their files: they check nothing");
}
