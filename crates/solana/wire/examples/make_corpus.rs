//! Writes the corpus of the fuzz targets: `cargo run --release -p hearth-wire --example make_corpus`.
//!
//! reads   nothing; keys and contents are derived from constants, so that each run writes the same bytes
//! writes  `fuzz/corpus/{txn,entry,shred,gossip,repair,tower}/NAME` beside the crates, or under the path given
//! memory  the corpus, some 50 KB
//! source  transactions built and signed as clients do; entries of them; shreds with the entries, whose parity and
//!         proofs are noise, because the parser does not check them
//!
//! `tests/wire/replay_corpus.rs` checks that the committed files are what this writes.

#[path = "make_corpus/gossip.rs"]
pub mod gossip;
#[path = "make_corpus/repair.rs"]
pub mod repair;
#[path = "make_corpus/tower.rs"]
pub mod tower;

use ed25519_dalek::{Signer, SigningKey};
use hearth_wire::consts::{SYSTEM_PROGRAM, VOTE_PROGRAM};
use hearth_wire::entry::{write_batch_header, write_entry};
use hearth_wire::message::{AccountMeta, Instruction, Message};
use hearth_wire::program::compute_budget::ComputeBudgetInstruction;
use hearth_wire::program::{memo, system};
use hearth_wire::shred::{
    CODE_PER_SET, CodeHeader, CommonHeader, DATA_PER_SET, DataHeader, ShredKind, Variant, flags_for,
};
use hearth_wire::{PACKET_DATA_SIZE, Pubkey, TransferTemplate, hash64};

/// One file: folder, name, bytes.
pub type File = (&'static str, String, Vec<u8>);

fn key(n: u8) -> SigningKey {
    SigningKey::from_bytes(&[n; 32])
}

fn address(n: u8) -> Pubkey {
    key(n).verifying_key().to_bytes()
}

fn noise(seed: u64, bytes: &mut [u8]) {
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = hash64(seed, &i.to_le_bytes()) as u8;
    }
}

const BLOCKHASH: [u8; 32] = [0xb1; 32];

/// Compiles and signs with the keys 1..=30.
fn signed(instructions: &[Instruction]) -> Vec<u8> {
    let message = Message::compile(&address(1), instructions, &BLOCKHASH).expect("fits a packet");
    message.sign_with(|signer, message| {
        let signing = (1..=30).map(key).find(|key| key.verifying_key().as_bytes() == signer);
        signing.expect("a key of this file").sign(message).to_bytes()
    })
}

/// A version 0 transaction that loads two accounts writable and one read-only.
fn version_0(lookups: bool) -> Vec<u8> {
    let legacy = Message::compile(&address(1), &[system::transfer(&address(1), &address(2), 5)], &BLOCKHASH);
    let mut message = [&[0x80], legacy.expect("fits a packet").bytes()].concat();
    message.push(u8::from(lookups));
    if lookups {
        message.extend(address(40));
        message.extend([2, 7, 9, 1, 200]);
        // The receiver of the transfer is the second loaded account.
        let receiver = message.len() - 38 - 1 - 12 - 1;
        message[receiver] = 4;
    }
    let signature = key(1).sign(&message).to_bytes();
    [&[1], &signature[..], &message].concat()
}

fn transfer(lamports: u64) -> Vec<u8> {
    let mut template = TransferTemplate::new();
    template.set_from(&address(1));
    template.set_to(&address(2));
    template.set_lamports(lamports);
    template.set_recent_blockhash(&BLOCKHASH);
    template.sign_with(|message| key(1).sign(message).to_bytes()).to_vec()
}

fn transactions() -> Vec<(&'static str, Vec<u8>)> {
    let [a, b, c] = [1, 2, 3].map(address);
    let limits = [
        ComputeBudgetInstruction::SetLoadedAccountsDataSizeLimit(65_536).instruction(),
        ComputeBudgetInstruction::SetComputeUnitLimit(450).instruction(),
        ComputeBudgetInstruction::SetComputeUnitPrice(1_000).instruction(),
        system::transfer(&a, &b, 1),
    ];
    let nonce = [system::advance_nonce_account(&b, &c), system::transfer(&a, &b, 1)];
    let create = [system::create_account(&a, &b, 890_880, 0, &SYSTEM_PROGRAM), system::allocate(&b, 10)];
    let vote = Instruction {
        program_id: VOTE_PROGRAM,
        accounts: vec![AccountMeta::writable(b, false), AccountMeta::readonly(a, true)],
        data: [&[14, 0, 0, 0][..], &[0x5a; 120]].concat(),
    };
    let eleven: Vec<Pubkey> = (1..=11).map(address).collect();
    let many: Vec<Instruction> = (0..30).map(|n| system::transfer(&a, &address(2 + n % 5), n.into())).collect();
    // Everything but the text takes 170 bytes; its length takes two.
    let full = [memo::memo(&"m".repeat(PACKET_DATA_SIZE - 170), &[])];
    vec![
        ("transfer", transfer(1)),
        ("transfer-with-limits", signed(&limits)),
        ("nonce", signed(&nonce)),
        ("create-account", signed(&create)),
        ("vote", signed(&[vote])),
        ("eleven-signers", signed(&[memo::memo("", &eleven)])),
        ("thirty-instructions", signed(&many)),
        ("largest", signed(&full)),
        ("no-instruction", signed(&[])),
        ("transfer-to-self-twice", signed(&[system::transfer(&a, &a, 1), system::transfer(&a, &a, 2)])),
        ("version-0", version_0(false)),
        ("version-0-lookup", version_0(true)),
    ]
}

/// A batch with an entry for each number: that many transfers, or a tick if it is 0.
fn batch(transfers: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_batch_header(transfers.len(), &mut bytes);
    for (i, &count) in transfers.iter().enumerate() {
        let wire: Vec<u8> = (0..count as u64).flat_map(|n| transfer(100 * i as u64 + n)).collect();
        let mut hash = [0; 32];
        noise(1000 + i as u64, &mut hash);
        write_entry(if count == 0 { 12_500 } else { 1 }, &hash, count, &wire, &mut bytes);
    }
    bytes
}

/// A shred with a valid header; what depends on the set's other shreds (parity, proof) is noise.
fn shred(kind: ShredKind, place: usize, resigned: bool, entries: &[u8], flags: u8) -> Vec<u8> {
    let mut bytes = vec![0; kind.size()];
    noise(place as u64, &mut bytes);
    let variant = Variant::of_full_set(kind, resigned);
    let common = CommonHeader { variant, slot: 77, index: 64 + place as u32, version: 50_093, set_index: 64 };
    match kind {
        ShredKind::Data => {
            bytes[kind.header_size()..][..variant.capacity()].fill(0);
            bytes[kind.header_size()..][..entries.len()].copy_from_slice(entries);
            let entry_bytes = entries.len() as u16;
            DataHeader { common, parent_offset: 1, flags, entry_bytes }.write(&mut bytes);
        }
        ShredKind::Code => {
            let (data_count, code_count) = (DATA_PER_SET as u16, CODE_PER_SET as u16);
            CodeHeader { common, data_count, code_count, position: place as u16 }.write(&mut bytes);
        }
    }
    let signature = key(1).sign(&bytes[64..]).to_bytes();
    bytes[..64].copy_from_slice(&signature);
    bytes
}

/// Every file of the corpus.
pub fn files() -> Vec<File> {
    use ShredKind::{Code, Data};
    let tick = batch(&[0]);
    let some = batch(&[3, 0, 1]);
    let shreds = [
        ("data-first", shred(Data, 0, false, &some[..900], flags_for(5, false, false))),
        ("data-tick", shred(Data, 31, false, &tick, flags_for(63, true, false))),
        ("data-empty", shred(Data, 30, false, &[], flags_for(0, false, false))),
        ("data-last-in-slot", shred(Data, 31, true, &tick, flags_for(63, true, true))),
        ("code-first", shred(Code, 0, false, &[], 0)),
        ("code-last-resigned", shred(Code, 31, true, &[], 0)),
    ];
    let entries = [
        ("tick", tick),
        ("sixty-four-ticks", batch(&[0; 64])),
        ("one-transfer", batch(&[1])),
        ("transfers-and-ticks", some),
        ("one-entry", batch(&[2])[8..].to_vec()),
        ("block-marker", vec![0; 8]),
    ];
    let named = |folder, files: Vec<(&str, Vec<u8>)>| {
        files.into_iter().map(move |(name, bytes)| (folder, name.to_owned(), bytes)).collect::<Vec<File>>()
    };
    let messages = named("gossip", gossip::messages());
    let datagrams = named("repair", repair::datagrams());
    let [entries, shreds] = [named("entry", entries.into()), named("shred", shreds.into())];
    let towers = named("tower", tower::files());
    [named("txn", transactions()), entries, shreds, messages, datagrams, towers].concat()
}

/// The corpus folder in the repository.
pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus");

#[allow(dead_code, reason = "the test that takes this file as a module has a main of its own")]
fn main() -> std::io::Result<()> {
    let root = std::env::args().nth(1).unwrap_or_else(|| FOLDER.to_owned());
    for (folder, name, bytes) in files() {
        let path = std::path::Path::new(&root).join(folder);
        std::fs::create_dir_all(&path)?;
        std::fs::write(path.join(&name), &bytes)?;
        println!("{folder}/{name} {} bytes", bytes.len());
    }
    Ok(())
}
