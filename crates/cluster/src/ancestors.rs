//! ancestors: which blocks the cluster has below one that is not executed here.
//!
//! reads   answers and pings of repair's servers; blocks that are confirmed here, for those who ask
//! writes  questions, pongs; the blocks that stake of more than 52 % agrees on
//! memory  [`QUESTIONS_MAX`] × [`ASKED_MAX`] × 1.3 KB; [`CONFIRMED_MAX`] × 40 B of confirmed blocks
//! drops   datagrams of who was not asked, answers to another question, pings that come too often: counted
//! source  `docs/cluster-protocol.md`, sections 3.2 to 3.4: `solana-core` 4.2.2, `repair/ancestor_hashes_service.rs`
//!
//! The cluster's nodes ask 21 others and believe 11. Here all that have much stake are asked, and what is believed is
//! what more than 52 % of the stake say: as much as confirms a version of a slot.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use hearth_crypto::ed25519::{SigningKey, verify_strict};
use hearth_wire::gossip::Pong;
use hearth_wire::repair::{self, ANCESTORS_MAX, AncestorHashes, Request, Wanted};
use hearth_wire::{Hash, Pubkey};

use crate::consensus::{BankId, DUPLICATE_THRESHOLD, exceeds};
use crate::gossip::{Random, RepairPeer, pong_hash};

/// Slots that are asked about at a time, the lowest first.
const QUESTIONS_MAX: usize = 32;
/// Nodes that are asked about a slot, those with the most stake.
const ASKED_MAX: usize = 128;
/// After how long who has not answered is asked again, ms.
const AGAIN_MS: u64 = 5_000;
/// The least time between two pings of a node that are answered, ms.
const PING_MS: u64 = 1_000;
/// Confirmed blocks that are kept.
pub const CONFIRMED_MAX: usize = 4_096;

/// The blocks that the cluster has confirmed, as this node tells others of them.
#[derive(Debug, Default)]
pub struct ConfirmedBlocks(VecDeque<BankId>);

impl ConfirmedBlocks {
    /// A block is confirmed; those below it were told before.
    pub fn push(&mut self, id: BankId) {
        let blocks = &mut self.0;
        if blocks.back().is_none_or(|newest| newest.slot < id.slot) {
            blocks.push_back(id);
        }
        if blocks.len() > CONFIRMED_MAX {
            blocks.pop_front();
        }
    }

    /// The block of a slot and those below it, the newest first, [`ANCESTORS_MAX`] at most; none if it is not
    /// confirmed.
    pub fn ancestors(&self, slot: u64) -> Vec<(u64, Hash)> {
        let Ok(place) = self.0.binary_search_by_key(&slot, |id| id.slot) else { return vec![] };
        let below = self.0.range(..=place).rev().take(ANCESTORS_MAX);
        below.map(|id| (id.slot, id.hash)).collect()
    }
}

/// What became of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Questions sent, again ones included.
    pub asked: u64,
    /// Answers that were waited for.
    pub answers: u64,
    /// Datagrams that were not: of who was not asked, of no known form, pings unsigned or too soon.
    pub dropped: u64,
}

/// Who was asked about a slot.
struct Asked {
    node: Pubkey,
    nonce: u32,
    pinged_at: u64,
    /// Empty where the node has not confirmed the slot, or has not answered.
    told: Vec<(u64, Hash)>,
}

#[derive(Default)]
struct Question {
    asked: BTreeMap<SocketAddr, Asked>,
    due_at: u64,
}

/// Questions about slots, without their socket.
pub struct Questions {
    key: SigningKey,
    own: Pubkey,
    random: Random,
    open: BTreeMap<u64, Question>,
    /// What became of datagrams.
    pub counters: Counters,
}

impl Questions {
    /// Nobody may guess the seed: nonces come from it.
    pub fn new(key: SigningKey, seed: [u8; 32]) -> Self {
        let own = key.public_key();
        Self { key, own, random: Random::new(seed), open: BTreeMap::new(), counters: Counters::default() }
    }

    /// Asks about a slot until there is an answer, or it is rooted.
    pub fn ask(&mut self, slot: u64) {
        self.open.entry(slot).or_default();
        if self.open.len() > QUESTIONS_MAX {
            self.open.pop_last();
        }
    }

    /// Whether there is anything to do.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Slots up to this one are of no interest any more.
    pub fn set_root(&mut self, root: u64) {
        self.open = self.open.split_off(&root.saturating_add(1));
    }

    /// The questions that are to be sent now.
    pub fn due(&mut self, now_ms: u64, peers: &[RepairPeer]) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut heaviest: Vec<&RepairPeer> = peers.iter().filter(|peer| peer.stake > 0).collect();
        heaviest.sort_unstable_by_key(|peer| (std::cmp::Reverse(peer.stake), peer.identity));
        heaviest.truncate(ASKED_MAX);
        let mut sent = vec![];
        for (slot, question) in &mut self.open {
            if now_ms < question.due_at {
                continue;
            }
            question.due_at = now_ms + AGAIN_MS;
            for peer in heaviest.iter().filter(|peer| peer.lowest <= *slot) {
                let has_room = question.asked.len() < ASKED_MAX;
                let new =
                    || Asked { node: peer.identity, nonce: self.random.word() as u32, pinged_at: 0, told: vec![] };
                let at = SocketAddr::from(peer.serve_repair);
                if !has_room && !question.asked.contains_key(&at) {
                    continue;
                }
                // Who moves is one node still, and has one voice.
                question.asked.retain(|other, asked| *other == at || asked.node != peer.identity);
                let asked = question.asked.entry(at).or_insert_with(new);
                if asked.told.is_empty() {
                    self.counters.asked += 1;
                    sent.push((at, request(&self.key, &self.own, *slot, asked, now_ms)));
                }
            }
        }
        sent
    }

    /// Takes a datagram; what is to be sent back for it.
    pub fn receive(&mut self, now_ms: u64, from: SocketAddr, datagram: &[u8]) -> Vec<Vec<u8>> {
        match AncestorHashes::parse(datagram) {
            Some(AncestorHashes::Hashes(told, nonce)) => {
                let is_it = |slot: u64, asked: &Asked| {
                    let is_of_slot = told.first().is_none_or(|(first, _)| *first == slot);
                    asked.nonce == nonce && is_of_slot && told.is_sorted_by(|newer, older| newer.0 > older.0)
                };
                let found = self
                    .open
                    .iter_mut()
                    .find_map(|(slot, question)| question.asked.get_mut(&from).filter(|asked| is_it(*slot, asked)));
                match found {
                    Some(asked) => {
                        asked.told = told;
                        self.counters.answers += 1;
                    }
                    None => self.counters.dropped += 1,
                }
                vec![]
            }
            Some(AncestorHashes::Ping(ping)) => {
                let mut answers = vec![];
                let of_node = self.open.iter_mut().filter_map(|(slot, question)| {
                    Some((*slot, question.asked.get_mut(&from).filter(|asked| asked.node == ping.from)?))
                });
                let mut waiting: Vec<(u64, &mut Asked)> = of_node.collect();
                let is_soon = waiting.iter().any(|(_, asked)| now_ms < asked.pinged_at + PING_MS);
                if waiting.is_empty() || is_soon {
                    self.counters.dropped += 1;
                    return answers;
                }
                waiting.iter_mut().for_each(|(_, asked)| asked.pinged_at = now_ms);
                if verify_strict(&ping.from, &ping.signature, &ping.token).is_err() {
                    self.counters.dropped += 1;
                    return answers;
                }
                let hash = pong_hash(&ping.token);
                let pong = Pong { from: self.own, hash, signature: self.key.sign(&hash) };
                answers.push(repair::write_pong(&pong));
                for (slot, asked) in waiting.iter().filter(|(_, asked)| asked.told.is_empty()) {
                    self.counters.asked += 1;
                    answers.push(request(&self.key, &self.own, *slot, asked, now_ms));
                }
                answers
            }
            None => {
                self.counters.dropped += 1;
                vec![]
            }
        }
    }

    /// The blocks, the newest first, that more than 52 % of the stake say are a slot's and its ancestors; the question
    /// is answered then. `stake` is a node's in the slot's epoch, of `total`.
    pub fn agreed(&mut self, stake: impl Fn(u64, &Pubkey) -> u64, total: impl Fn(u64) -> u64) -> Option<Vec<BankId>> {
        let (slot, chain) = self.open.iter().find_map(|(slot, question)| {
            let mut said: BTreeMap<BankId, u64> = BTreeMap::new();
            for asked in question.asked.values() {
                let stake = stake(*slot, &asked.node);
                for (slot, hash) in &asked.told {
                    let said = said.entry(BankId { slot: *slot, hash: *hash }).or_default();
                    *said = said.saturating_add(stake);
                }
            }
            said.retain(|_, stake| exceeds(*stake, total(*slot), DUPLICATE_THRESHOLD));
            let chain: Vec<BankId> = said.into_keys().rev().collect();
            chain.first().is_some_and(|id| id.slot == *slot).then_some((*slot, chain))
        })?;
        self.open.remove(&slot);
        Some(chain)
    }
}

fn request(key: &SigningKey, own: &Pubkey, slot: u64, asked: &Asked, now_ms: u64) -> Vec<u8> {
    let wanted = Wanted::Ancestors { slot };
    let request = Request { sender: *own, recipient: asked.node, time_ms: now_ms, nonce: asked.nonce, wanted };
    let mut bytes = request.write();
    let signature = key.sign(&repair::signed_bytes(&bytes));
    repair::set_signature(&mut bytes, &signature);
    bytes
}

#[cfg(test)]
mod tests {
    use hearth_wire::gossip::Ping;
    use hearth_wire::repair::Asked as Datagram;

    use super::*;

    fn key(number: u8) -> SigningKey {
        SigningKey::from_seed(&[number; 32])
    }

    /// Node `number`, of 10 lamports for each number.
    fn peer(number: u8) -> RepairPeer {
        let serve_repair = format!("127.0.0.{number}:8107").parse().unwrap();
        RepairPeer { identity: key(number).public_key(), serve_repair, stake: 10 * u64::from(number), lowest: 0 }
    }

    fn stake_of(_: u64, node: &Pubkey) -> u64 {
        (1..=9).map(peer).find(|peer| peer.identity == *node).map_or(0, |peer| peer.stake)
    }

    /// What a question asks, once its signature was checked.
    fn read(bytes: &[u8]) -> Request {
        let Ok(Datagram::Request(request, signature)) = Datagram::parse(bytes) else { panic!("{bytes:?}") };
        assert!(verify_strict(&request.sender, &signature, &repair::signed_bytes(bytes)).is_ok());
        request
    }

    fn chain(version: u8) -> Vec<(u64, Hash)> {
        vec![(9, [version; 32]), (7, [7; 32]), (6, [6; 32])]
    }

    #[test]
    fn what_more_than_52_percent_say_is_believed() {
        let peers: Vec<RepairPeer> = (1..=4).map(peer).collect();
        let mut questions = Questions::new(key(9), [5; 32]);
        questions.ask(9);
        let sent = questions.due(1_000, &peers);
        assert_eq!(sent.len(), 4);
        assert!(questions.due(2_000, &peers).is_empty(), "not so soon");
        let answer = |questions: &mut Questions, at: usize, told: Vec<(u64, Hash)>| {
            let (to, bytes) = &sent[at];
            let request = read(bytes);
            assert_eq!((request.wanted, request.recipient), (Wanted::Ancestors { slot: 9 }, peers[3 - at].identity));
            questions.receive(1_100, *to, &AncestorHashes::Hashes(told, request.nonce).write())
        };
        // 40 of 100 say one thing, 30 another.
        answer(&mut questions, 0, chain(1));
        answer(&mut questions, 1, chain(2));
        assert_eq!(questions.agreed(stake_of, |_| 100), None);
        // 60 of 100, with 20 that know less of the past.
        answer(&mut questions, 2, chain(1)[..2].to_vec());
        let id = |slot, hash| BankId { slot, hash: [hash; 32] };
        // Those below are named by 90 and by 70 of 100.
        assert_eq!(questions.agreed(stake_of, |_| 100), Some(vec![id(9, 1), id(7, 7), id(6, 6)]));
        assert!(questions.is_idle());
        assert_eq!((questions.counters.asked, questions.counters.answers, questions.counters.dropped), (4, 3, 0));
    }

    #[test]
    fn who_moves_has_one_voice() {
        let mut questions = Questions::new(key(9), [5; 32]);
        questions.ask(9);
        for port in 1..=9 {
            let mut moved = peer(3);
            moved.serve_repair.set_port(port);
            let (to, bytes) = questions.due(u64::from(port) * 10_000, &[moved]).remove(0);
            let told = AncestorHashes::Hashes(chain(1), read(&bytes).nonce).write();
            questions.receive(u64::from(port) * 10_000 + 1, to, &told);
            assert_eq!(questions.agreed(stake_of, |_| 100), None, "30 of 100");
        }
    }

    #[test]
    fn who_has_nothing_to_say_is_asked_again_and_a_ping_is_answered() {
        let peers = [peer(3)];
        let mut questions = Questions::new(key(9), [5; 32]);
        questions.ask(9);
        let (to, bytes) = questions.due(10_000, &peers).remove(0);
        let nonce = read(&bytes).nonce;
        let token = [4; 32];
        let ping = |signature| AncestorHashes::Ping(Ping { from: peers[0].identity, token, signature }).write();
        assert!(questions.receive(10_010, to, &ping([1; 64])).is_empty(), "it is not signed");
        let answers = questions.receive(11_010, to, &ping(key(3).sign(&token)));
        let Ok(Datagram::Pong(pong)) = Datagram::parse(&answers[0]) else { panic!("{answers:?}") };
        assert!(pong.hash == pong_hash(&token) && verify_strict(&pong.from, &pong.signature, &pong.hash).is_ok());
        assert_eq!((answers.len(), read(&answers[1]).nonce), (2, nonce));
        assert!(questions.receive(11_020, to, &ping(key(3).sign(&token))).is_empty(), "so soon");
        // It has not confirmed the slot yet.
        questions.receive(11_030, to, &AncestorHashes::Hashes(vec![], nonce).write());
        assert_eq!(questions.due(15_000, &peers).len(), 1);
        questions.receive(15_010, to, &AncestorHashes::Hashes(chain(1), nonce).write());
        assert!(questions.due(30_000, &peers).is_empty());
        assert!(questions.agreed(stake_of, |_| 50).is_some());
    }

    #[test]
    fn what_nobody_asked_for_changes_nothing() {
        let peers = [peer(3)];
        let mut questions = Questions::new(key(9), [5; 32]);
        questions.ask(9);
        let (to, bytes) = questions.due(1_000, &peers).remove(0);
        let nonce = read(&bytes).nonce;
        let elsewhere = SocketAddr::from(peer(2).serve_repair);
        let told = |told, nonce| AncestorHashes::Hashes(told, nonce).write();
        let ping = |by: u8| {
            AncestorHashes::Ping(Ping { from: key(by).public_key(), token: [4; 32], signature: key(by).sign(&[4; 32]) })
        };
        let wrong = [
            (to, told(chain(1), nonce.wrapping_add(1))),
            (elsewhere, told(chain(1), nonce)),
            (to, told(vec![(8, [1; 32])], nonce)),
            (to, told(vec![(9, [1; 32]), (9, [2; 32])], nonce)),
            (to, vec![0; 7]),
            (elsewhere, ping(3).write()),
            (to, ping(2).write()),
        ];
        for (from, datagram) in &wrong {
            assert!(questions.receive(1_100, *from, datagram).is_empty());
        }
        assert_eq!((questions.counters.dropped, questions.counters.answers), (wrong.len() as u64, 0));
        assert_eq!(questions.agreed(stake_of, |_| 30), None);
        // Questions are bounded, the lowest stay, and what is rooted is not asked about.
        (10..200).for_each(|slot| questions.ask(slot));
        assert_eq!((questions.open.len(), questions.open.contains_key(&9)), (QUESTIONS_MAX, true));
        questions.set_root(1_000);
        assert!(questions.is_idle());
    }

    #[test]
    fn confirmed_blocks_are_told_newest_first() {
        let mut blocks = ConfirmedBlocks::default();
        let id = |slot: u64| BankId { slot, hash: [slot as u8; 32] };
        for slot in (0..2 * CONFIRMED_MAX as u64 + 100).filter(|slot| slot % 2 == 1) {
            blocks.push(id(slot));
        }
        blocks.push(id(3));
        assert_eq!(blocks.0.len(), CONFIRMED_MAX);
        let told = blocks.ancestors(1_001);
        assert_eq!((told.len(), told[0], told[29].0), (30, (1_001, [233; 32]), 943));
        assert!(blocks.ancestors(1_000).is_empty() && blocks.ancestors(1).is_empty(), "skipped; gone");
        assert_eq!(blocks.ancestors(103), [(103, [103; 32]), (101, [101; 32])], "no more are kept");
    }
}
