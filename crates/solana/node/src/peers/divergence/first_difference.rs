//! Finds the first account in which this node's state differs from another node's, once a block's hash differs here.
//!
//! reads   the ledger; peers' `getSlotChanges`, over HTTP
//! writes  a sentence
//! memory  a page of accounts of each side
//! drops   answers of peers with another hash than the one that was voted for: the next peer is asked
//!
//! A bank hash covers all accounts, and does not say which of them differs. Nodes keep the changes of their recent
//! blocks, so the changes of the first differing block are compared.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hearth_command::node_rpc::{self, Rpc};
use hearth_ledger::{ChangedAccount, Ledger, SlotChanges};
use hearth_rpc::ClusterNode;
use hearth_wire::base58::{decode_32, encode_32};
use hearth_wire::{Hash, Pubkey};
use serde_json::{Value, json};

/// Time limit for a peer's answer, and for all peers together.
const ANSWER_FOR: Duration = Duration::from_secs(3);
const ALL_FOR: Duration = Duration::from_secs(8);
/// How long to wait until gossip knows a peer, and the polling interval.
const KNOWN_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Maximum peers to ask.
const PEERS: usize = 4;
/// Number of blocks in which the first differing one is searched.
const BLOCKS: usize = 64;
/// Maximum accounts of one answer.
const PAGE: usize = 1_000;

/// A block with two hashes.
pub struct DivergentBlock<'a> {
    /// This node's state of the chain.
    pub ledger: &'a Ledger,
    /// This node's identity, so that it does not ask itself.
    pub node: Pubkey,
    /// The slot of the block with two hashes.
    pub slot: u64,
    /// The hash that its leader voted for.
    pub theirs: Hash,
    /// The identity of the leader of that slot.
    pub leader: Pubkey,
}

impl DivergentBlock<'_> {
    /// Returns a sentence, without its full stop, about the first differing account as far as the known nodes can tell.
    pub fn first_difference(&self, nodes: impl Fn() -> Vec<ClusterNode>) -> String {
        let begun = Instant::now();
        let deadline = begun + ALL_FOR;
        let mut peers = self.peers(&nodes());
        // A node that has just started may have others' blocks before gossip knows any node.
        while peers.is_empty() && begun.elapsed() < KNOWN_WITHIN {
            std::thread::sleep(LOOK_EVERY);
            peers = self.peers(&nodes());
        }
        let mut why = "no node of the cluster is known to answer RPC".to_owned();
        for (_, address) in peers.into_iter().take(PEERS) {
            if Instant::now() >= deadline {
                break;
            }
            let found = Peer::at(address, deadline).and_then(|peer| first(self, peer));
            match found {
                Ok(found) => return found.to_string(),
                Err(fault) => why = format!("{address}: {fault}"),
            }
        }
        format!("The first account that differs is unknown ({why})")
    }

    /// The nodes with an RPC address, the leader first.
    fn peers(&self, nodes: &[ClusterNode]) -> Vec<(bool, SocketAddr)> {
        let others = nodes.iter().filter(|node| node.identity != self.node);
        let mut peers: Vec<_> = others.filter_map(|node| Some((node.identity != self.leader, node.rpc?))).collect();
        peers.sort_unstable();
        peers
    }
}

/// The first difference found.
#[derive(Debug, PartialEq)]
struct FirstDifference {
    /// The first block that differs, among those that are kept.
    slot: u64,
    /// The peer with the other version.
    peer: SocketAddr,
    /// The first account that differs; `None` if it is not among those that the block changed.
    account: Option<AccountDifference>,
}

/// An account in the two states that a block left.
#[derive(Debug, PartialEq)]
struct AccountDifference {
    key: Pubkey,
    /// Its state on this node; `None` if the block did not change it here.
    here: Option<ChangedAccount>,
    /// Its state on the other node; `None` if the block did not change it there.
    there: Option<ChangedAccount>,
}

impl fmt::Display for FirstDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, peer, account } = self;
        let Some(AccountDifference { key, here, there }) = account else {
            return write!(
                f,
                "Slot {slot} changed the same accounts here and at {peer}: the states differ since an earlier slot"
            );
        };
        let [here, there] = [here, there].map(|side| side.as_ref().map_or_else(|| "not changed".into(), describe));
        write!(f, "The first account that differs is {} in slot {slot}: here {here}; at {peer} {there}", encode_32(key))
    }
}

fn describe(account: &ChangedAccount) -> String {
    let ChangedAccount { lamports, owner, executable, space, hash, .. } = account;
    if *lamports == 0 {
        return "it does not exist".into();
    }
    let program = if *executable { ", a program" } else { "" };
    let [owner, hash] = [owner, hash].map(encode_32);
    format!("{lamports} lamports, {space} B of data, of {owner}{program} (hash {hash})")
}

/// One side's changes of a block.
trait Side {
    fn page(&mut self, slot: u64, after: Option<&Pubkey>, limit: usize) -> Result<SlotChanges, String>;
}

impl Side for &Ledger {
    fn page(&mut self, slot: u64, after: Option<&Pubkey>, limit: usize) -> Result<SlotChanges, String> {
        let gone = || format!("the changes of slot {slot} are no longer kept here");
        self.slot_changes(slot, after, limit).ok_or_else(gone)
    }
}

/// The side of another node.
struct Peer {
    rpc: Rpc,
    address: SocketAddr,
    deadline: Instant,
}

impl Peer {
    fn at(address: SocketAddr, deadline: Instant) -> Result<Self, String> {
        let rpc = node_rpc::within(&format!("http://{address}"), ANSWER_FOR).map_err(|e| e.to_string())?;
        Ok(Self { rpc, address, deadline })
    }
}

impl Side for Peer {
    fn page(&mut self, slot: u64, after: Option<&Pubkey>, limit: usize) -> Result<SlotChanges, String> {
        if Instant::now() >= self.deadline {
            return Err("it takes too long".into());
        }
        let options = json!({ "after": after.map(|key| encode_32(key).to_string()), "limit": limit });
        let page = self.rpc.call("getSlotChanges", &json!([slot, options])).map_err(|e| e.to_string())?;
        page_of(&page)
            .filter(|page| page.slot == slot && page.accounts.len() <= limit)
            .ok_or_else(|| "the answer has another form".into())
    }
}

fn page_of(page: &Value) -> Option<SlotChanges> {
    let account = |account: &Value| {
        let bytes = |key: &str| decode_32(account[key].as_str()?).ok();
        Some(ChangedAccount {
            key: bytes("pubkey")?,
            lamports: account["lamports"].as_u64()?,
            owner: bytes("owner")?,
            executable: account["executable"].as_bool()?,
            space: usize::try_from(account["space"].as_u64()?).ok()?,
            hash: bytes("hash")?,
        })
    };
    Some(SlotChanges {
        slot: page["slot"].as_u64()?,
        parent: page["parentSlot"].as_u64()?,
        bank_hash: decode_32(page["bankHash"].as_str()?).ok()?,
        accounts: page["accounts"].as_array()?.iter().map(account).collect::<Option<_>>()?,
        more: page["more"].as_bool()?,
    })
}

/// The first account of the first block on which the two sides differ.
fn first(block: &DivergentBlock<'_>, mut peer: Peer) -> Result<FirstDifference, String> {
    let mut ledger = block.ledger;
    let slot = first_slot(&mut ledger, &mut peer, block.slot, block.theirs)?;
    let account = first_account(&mut ledger, &mut peer, slot)?;
    Ok(FirstDifference { slot, peer: peer.address, account })
}

/// The oldest block up to `slot` that both sides have, on the same parent, with two hashes.
fn first_slot(here: &mut dyn Side, there: &mut dyn Side, slot: u64, theirs: Hash) -> Result<u64, String> {
    let mut at = there.page(slot, None, 1)?;
    if at.bank_hash != theirs {
        return Err("it has another hash than the one that was voted for".into());
    }
    here.page(slot, None, 1)?;
    for _ in 0..BLOCKS {
        match (here.page(at.parent, None, 1), there.page(at.parent, None, 1)) {
            (Ok(own), Ok(before)) if own.bank_hash != before.bank_hash => at = before,
            // They agree on the parent, or it is the oldest that both have kept.
            _ => break,
        }
    }
    Ok(at.slot)
}

/// The first account, by address, that a block left in two states; including one that it changed on one side only.
fn first_account(here: &mut dyn Side, there: &mut dyn Side, slot: u64) -> Result<Option<AccountDifference>, String> {
    let (mut here, mut there) = (Walk::new(here, slot), Walk::new(there, slot));
    loop {
        let (own, other) = (here.head()?, there.head()?);
        let Some(key) = own.iter().chain(&other).map(|account| account.key).min() else { return Ok(None) };
        let [own, other] = [own, other].map(|side| side.filter(|account| account.key == key));
        if own != other {
            return Ok(Some(AccountDifference { key, here: own, there: other }));
        }
        here.next += 1;
        there.next += 1;
    }
}

/// The accounts of a block, page by page.
struct Walk<'a> {
    side: &'a mut dyn Side,
    slot: u64,
    page: Vec<ChangedAccount>,
    next: usize,
    more: bool,
}

impl<'a> Walk<'a> {
    fn new(side: &'a mut dyn Side, slot: u64) -> Self {
        Self { side, slot, page: vec![], next: 0, more: true }
    }

    /// Returns the next account of this side without passing it.
    fn head(&mut self) -> Result<Option<ChangedAccount>, String> {
        if self.next == self.page.len() && self.more {
            let page = self.side.page(self.slot, self.page.last().map(|account| &account.key), PAGE)?;
            (self.page, self.next, self.more) = (page.accounts, 0, page.more);
        }
        Ok(self.page.get(self.next).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks that a node keeps: slot, parent, hash, accounts.
    struct KeptBlocks(Vec<SlotChanges>);

    impl Side for KeptBlocks {
        fn page(&mut self, slot: u64, after: Option<&Pubkey>, limit: usize) -> Result<SlotChanges, String> {
            let block = self.0.iter().find(|block| block.slot == slot).ok_or("not kept")?;
            let behind = |account: &&ChangedAccount| after.is_none_or(|after| account.key > *after);
            let mut accounts: Vec<_> = block.accounts.iter().filter(behind).copied().collect();
            let more = accounts.len() > limit;
            accounts.truncate(limit);
            Ok(SlotChanges { accounts, more, ..block.clone() })
        }
    }

    fn account(number: u32, lamports: u64) -> ChangedAccount {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&number.to_be_bytes());
        ChangedAccount { key, lamports, owner: [0; 32], executable: false, space: 0, hash: [lamports as u8; 32] }
    }

    fn block(slot: u64, hash: u8, accounts: &[ChangedAccount]) -> SlotChanges {
        SlotChanges { slot, parent: slot - 2, bank_hash: [hash; 32], accounts: accounts.to_vec(), more: false }
    }

    #[test]
    fn first_block_with_two_hashes_is_found() {
        let mut here = KeptBlocks(vec![block(10, 1, &[]), block(12, 2, &[]), block(14, 3, &[]), block(16, 4, &[])]);
        let mut there = KeptBlocks(vec![block(10, 1, &[]), block(12, 12, &[]), block(14, 13, &[]), block(16, 14, &[])]);
        assert_eq!(first_slot(&mut here, &mut there, 16, [14; 32]), Ok(12));
        assert_eq!(first_slot(&mut here, &mut there, 12, [12; 32]), Ok(12));
        let other = first_slot(&mut here, &mut there, 16, [9; 32]);
        assert!(other.unwrap_err().contains("another hash"));
        // One of them has forgotten the parents.
        here.0.remove(1);
        assert_eq!(first_slot(&mut here, &mut there, 16, [14; 32]), Ok(14));
        there.0.truncate(3);
        assert_eq!(first_slot(&mut here, &mut there, 16, [14; 32]), Err("not kept".into()));
    }

    #[test]
    fn the_first_account_that_differs_is_found_over_pages() {
        let all: Vec<_> = (0..2_500).map(|number| account(number, 7)).collect();
        let find = |own: &[ChangedAccount], other: &[ChangedAccount]| {
            let [mut own, mut other] = [own, other].map(|accounts| KeptBlocks(vec![block(10, 1, accounts)]));
            first_account(&mut own, &mut other, 10).unwrap()
        };
        assert_eq!(find(&all, &all), None);
        assert_eq!(find(&[], &[]), None);
        let mut changed = all.clone();
        changed[2_100].lamports = 8;
        changed[2_300].lamports = 9;
        let differs = AccountDifference { key: all[2_100].key, here: Some(all[2_100]), there: Some(changed[2_100]) };
        assert_eq!(find(&all, &changed), Some(differs));
        let mut fewer = all.clone();
        let gone = fewer.remove(1_000);
        assert_eq!(find(&all, &fewer), Some(AccountDifference { key: gone.key, here: Some(gone), there: None }));
        assert_eq!(find(&fewer, &all), Some(AccountDifference { key: gone.key, here: None, there: Some(gone) }));
        let last = all[2_499];
        assert_eq!(find(&all[..2_499], &all), Some(AccountDifference { key: last.key, here: None, there: Some(last) }));
    }

    #[test]
    fn difference_reads_as_a_sentence() {
        let peer = "127.0.0.1:8899".parse().unwrap();
        let key = account(1, 0).key;
        let of = |here, there| {
            let account = Some(AccountDifference { key, here, there });
            FirstDifference { slot: 7, peer, account }.to_string()
        };
        let text = of(Some(account(1, 5)), None);
        assert!(
            text.contains("in slot 7: here 5 lamports, 0 B of data, of 1111") && text.ends_with("not changed"),
            "{text}"
        );
        let text = of(Some(account(1, 0)), Some(account(1, 6)));
        assert!(text.contains("here it does not exist; at 127.0.0.1:8899 6 lamports"), "{text}");
        assert!(FirstDifference { slot: 7, peer, account: None }.to_string().contains("since an earlier slot"));
        // There is no node to ask.
        let ledger = Ledger::new(
            &hearth_ledger::Genesis::create(hearth_ledger::GenesisConfig::development([1; 32], [2; 32], 0), |_| {})
                .unwrap(),
            hearth_ledger::LedgerConfig::default(),
        );
        let block = DivergentBlock { ledger: &ledger, node: [1; 32], slot: 1, theirs: [0; 32], leader: [3; 32] };
        let own = ClusterNode { identity: [1; 32], rpc: Some(peer), ..ClusterNode::default() };
        assert!(block.first_difference(|| vec![own.clone()]).contains("no node of the cluster is known to answer RPC"));
    }
}
