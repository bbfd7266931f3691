//! Where the identity key is: a node's memory holds its seed once, in a page that is locked and in no core dump. It is
//! searched once everything has been signed that a node signs.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hearth_ledger::genesis::funded_account_key;
use serde_json::json;

use super::client::{base64_of, fresh_address, transfer};
use super::follow::{follower, leader, reaches};
use super::node::{Node, Setup, wait_until};

/// Bytes of a page.
const PAGE: u64 = 4_096;
/// Bytes of memory per read.
const CHUNK: u64 = 4 << 20;
/// Mappings of the kernel's own, which cannot be read.
const OF_KERNEL: [&str; 3] = ["[vvar]", "[vvar_vclock]", "[vsyscall]"];

/// A range of a process's addresses.
#[derive(Debug)]
struct Mapping {
    from: u64,
    to: u64,
    name: String,
    flags: String,
}

/// The memory of a child process. Its parent may read it where `kernel.yama.ptrace_scope` is 0 or 1.
struct Memory {
    mappings: Vec<Mapping>,
    pages: File,
    bytes: File,
}

impl Memory {
    fn of(pid: u32) -> Self {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let open = |name: &str| {
            let hint = "a parent may read its child's where kernel.yama.ptrace_scope is 0 or 1";
            File::open(folder.join(name)).unwrap_or_else(|why| panic!("/proc/{pid}/{name}: {why}; {hint}"))
        };
        let mut text = String::new();
        open("smaps").read_to_string(&mut text).expect("the mappings are text");
        Self { mappings: mappings(&text), pages: open("pagemap"), bytes: open("mem") }
    }

    /// Ranges of pages that are in memory or in swap; other pages hold no data.
    fn present(&self, mapping: &Mapping) -> Vec<(u64, u64)> {
        let mut entries = vec![0; ((mapping.to - mapping.from) / PAGE * 8) as usize];
        self.pages.read_exact_at(&mut entries, mapping.from / PAGE * 8).expect("an entry for each page");
        let mut ranges: Vec<(u64, u64)> = vec![];
        for (page, entry) in entries.as_chunks::<8>().0.iter().enumerate() {
            // Bits 63 and 62: present, swapped.
            if u64::from_le_bytes(*entry) >> 62 == 0 {
                continue;
            }
            let at = mapping.from + page as u64 * PAGE;
            match ranges.last_mut().filter(|(_, to)| *to == at) {
                Some((_, to)) => *to = at + PAGE,
                None => ranges.push((at, at + PAGE)),
            }
        }
        ranges
    }

    /// Calls `found` with each address at which one of `needles` begins, and its number.
    fn search(&self, needles: &[&[u8]], mut found: impl FnMut(usize, u64)) {
        let overlap = needles.iter().map(|needle| needle.len()).max().expect("something is looked for") as u64 - 1;
        let mut buffer = vec![0; (CHUNK + overlap) as usize];
        for mapping in self.mappings.iter().filter(|mapping| !OF_KERNEL.contains(&mapping.name.as_str())) {
            for (from, to) in self.present(mapping) {
                for at in (from..to).step_by(CHUNK as usize) {
                    let chunk = &mut buffer[..(to - at).min(CHUNK + overlap) as usize];
                    let is_gone = self.bytes.read_exact_at(chunk, at).is_err();
                    // A range may be unmapped meanwhile; the heap and the stacks of tiles are not.
                    if is_gone {
                        continue;
                    }
                    let own = (to - at).min(CHUNK) as usize;
                    for (number, needle) in needles.iter().enumerate() {
                        places(chunk, needle)
                            .take_while(|place| *place < own)
                            .for_each(|p| found(number, at + p as u64));
                    }
                }
            }
        }
    }

    fn mapping(&self, at: u64) -> &Mapping {
        self.mappings.iter().find(|mapping| (mapping.from..mapping.to).contains(&at)).expect("it was read there")
    }
}

/// The mappings of a file `smaps`.
fn mappings(text: &str) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = vec![];
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            all.last_mut().expect("a mapping's flags come behind it").flags = flags.trim().to_owned();
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let range = words.first().and_then(|range| range.split_once('-'));
        let number = |text| u64::from_str_radix(text, 16).ok();
        if let Some((from, to)) = range.and_then(|(from, to)| Some((number(from)?, number(to)?))) {
            let name = words.get(5).copied().unwrap_or_default().to_owned();
            all.push(Mapping { from, to, name, flags: String::new() });
        }
    }
    all
}

/// The offsets of `needle` in `bytes`.
fn places(bytes: &[u8], needle: &[u8]) -> impl Iterator<Item = usize> {
    let head: [u8; 8] = *needle.first_chunk().expect("a needle has eight bytes");
    let starts = bytes.windows(8).enumerate().filter(move |(_, window)| **window == head).map(|(at, _)| at);
    starts.filter(move |at| bytes[*at..].starts_with(needle))
}

/// Asserts that a node's identity is in its memory once, and well kept.
fn key_is_in_one_place(node: &Node, ledger: &Path) {
    key_is_in_places(node.process.id(), ledger, 1);
}

/// Asserts that the identity of the node with this ledger is in a process's memory so many times, and well kept.
pub fn key_is_in_places(pid: u32, ledger: &Path, count: usize) {
    let text = std::fs::read_to_string(ledger.join("identity.json")).expect("a node writes its key there");
    let numbers: Vec<u8> = serde_json::from_str(&text).expect("64 numbers");
    let (seed, public) = numbers.split_at(32);
    // The seed as written in the file: 32 numbers take at least 64 bytes.
    let written = &text.as_bytes()[..64];
    let memory = Memory::of(pid);
    let mut found = [vec![], vec![], vec![]];
    memory.search(&[seed, written, public], |number, at| found[number].push(at));
    let [seeds, texts, publics] = found;
    assert!(!publics.is_empty(), "the search finds what is there: {publics:x?}");
    let of =
        |places: &[u64]| places.iter().map(|at| format!("{at:x} in {:?}", memory.mapping(*at))).collect::<Vec<_>>();
    assert!(texts.is_empty(), "the file's text is wiped: {:#?}", of(&texts));
    assert_eq!(seeds.len(), count, "so often is the seed there: {:#?}", of(&seeds));
    for mapping in seeds.iter().map(|seed| memory.mapping(*seed)) {
        // Locked, in no core dump, in no child process.
        for flag in ["lo", "dd", "dc"] {
            assert!(mapping.flags.split(' ').any(|other| other == flag), "{flag}: {mapping:?}");
        }
    }
}

/// How often the seed of a key's file is in a node's memory.
pub fn seeds_in(node: &Node, key: &Path) -> usize {
    seeds_of(node.process.id(), key)
}

/// How often the seed of a key's file is in a process's memory.
pub fn seeds_of(pid: u32, key: &Path) -> usize {
    let text = std::fs::read_to_string(key).expect("a key's file");
    let numbers: Vec<u8> = serde_json::from_str(&text).expect("64 numbers");
    let mut count = 0;
    Memory::of(pid).search(&[&numbers[..32]], |_, _| count += 1);
    count
}

/// Waits until sign has signed something of each of these kinds.
pub fn has_signed(node: &Node, kinds: &[&str]) {
    for kind in kinds {
        wait_until(kind, || match node.metrics().total(&format!("sign_signed_{kind}")) {
            0 => Err("none is signed".into()),
            _ => Ok(()),
        });
    }
}

#[test]
fn node_alone_has_its_seed_once() {
    let mut setup = Setup::new("keys-alone");
    setup.with("consensus.vote", true);
    let node = setup.start();
    let rpc = node.rpc();
    let bytes = transfer(&funded_account_key(1), &fresh_address(3, 1), 1_000_000, &rpc.latest_blockhash());
    rpc.call("sendTransaction", json!([base64_of(&bytes), { "encoding": "base64" }]));
    wait_until("the transfer lands", || match rpc.balance(&fresh_address(3, 1)) {
        0 => Err("nothing is there".into()),
        _ => Ok(()),
    });
    has_signed(&node, &["shred", "votes"]);
    key_is_in_one_place(&node, &setup.ledger());
    // The same when the key is not made but read.
    node.stop();
    let node = setup.start();
    has_signed(&node, &["shred"]);
    key_is_in_one_place(&node, &setup.ledger());
    node.stop();
}

#[test]
fn nodes_of_a_cluster_have_their_seeds_once() {
    let (mut setup, gossip) = leader("keys-leader");
    // From epoch 1 on nodes sign for the last sets that they send on.
    setup.with("development.genesis.slots_per_epoch", 32);
    let leader = setup.start();
    reaches(&leader, 4);
    // The nodes join by gossip before they have tiles, and repair missing slots. Each receives gossip by three paths
    // and has one of them pruned.
    let follow = [1, 2, 3].map(|number| follower(&format!("keys-follower-{number}"), gossip));
    let followers = follow.each_ref().map(Setup::start);
    reaches(&followers[0], 36);
    // A transaction sent to a follower goes to the leader by QUIC.
    let bytes = transfer(&funded_account_key(1), &fresh_address(3, 2), 1_000_000, &leader.rpc().latest_blockhash());
    let encoding = json!({ "encoding": "base64", "skipPreflight": true });
    followers[0].rpc().call("sendTransaction", json!([base64_of(&bytes), encoding]));
    has_signed(&leader, &["shred", "votes", "values", "gossip_pings", "pings"]);
    // A follower makes no blocks: its shred signatures are for the last FEC sets that it retransmits.
    for node in &followers {
        has_signed(node, &["shred", "repair", "pongs", "values", "gossip_pings"]);
    }
    has_signed(&followers[0], &["handshakes"]);
    wait_until("prunes", || {
        let prunes = |node: &Node| node.metrics().total("sign_signed_prunes");
        let all = prunes(&leader) + followers.iter().map(prunes).sum::<u64>();
        if all > 0 { Ok(()) } else { Err("none is signed".into()) }
    });
    key_is_in_one_place(&leader, &setup.ledger());
    for (node, setup) in followers.iter().zip(&follow) {
        key_is_in_one_place(node, &setup.ledger());
    }
    followers.into_iter().for_each(Node::stop);
    leader.stop();
}
