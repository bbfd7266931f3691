//! ancestors: asks others which blocks they have below one that cannot be executed here.
//!
//! reads   answers, at a socket of its own
//! writes  questions
//! memory  what [`Questions`] keeps; a batch of datagrams, 256 KiB
//! drops   what it drops, counted there
//! source  –

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use hearth_cluster::ancestors::{Counters, Questions};
use hearth_cluster::consensus::BankId;
use hearth_cluster::gossip::RepairPeer;
use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::Ledger;
use hearth_pipeline::tower::AncestorClient;
use hearth_tile::sys::udp::RecvBatch;
use hearth_wire::Pubkey;

use crate::peers::now_ms;
use crate::peers::socket::{PeerLinks, PeerSocket};
use crate::say::note;

/// Datagrams, or runs of them, that are taken at once, and how often in a turn.
const BATCH: usize = 4;
const BATCHES_MAX: usize = 16;

/// The questions, and their socket.
pub struct Asker {
    /// The chain, for stakes.
    ledger: Arc<Ledger>,
    questions: Questions,
    socket: PeerSocket,
    batch: RecvBatch,
}

impl Asker {
    /// Asks from any port of `ip`.
    pub fn open(ledger: Arc<Ledger>, key: SigningKey, ip: Ipv4Addr, links: &PeerLinks) -> io::Result<Self> {
        let mut seed = [0; 32];
        hearth_tile::sys::random::fill(&mut seed);
        let socket = PeerSocket::bind(SocketAddrV4::new(ip, 0), links)?;
        Ok(Self { ledger, questions: Questions::new(key, seed), socket, batch: RecvBatch::new(BATCH) })
    }
}

impl AncestorClient for Asker {
    fn ask(&mut self, slot: u64) {
        note(format_args!(
            "the cluster has a block for slot {slot} that is not executed here: asking which ones it is built on"
        ));
        self.questions.ask(slot);
    }

    fn set_root(&mut self, root: u64) {
        self.questions.set_root(root);
    }

    fn counters(&self) -> Counters {
        self.questions.counters
    }

    fn turn(&mut self, peers: &[RepairPeer]) -> Option<Vec<BankId>> {
        if self.questions.is_idle() {
            return None;
        }
        for (to, bytes) in self.questions.due(now_ms(), peers) {
            self.socket.send(&bytes, to);
        }
        for _ in 0..BATCHES_MAX {
            if !self.socket.receive(&mut self.batch, Duration::ZERO) {
                break;
            }
            for (from, bytes) in self.batch.datagrams() {
                for answer in self.questions.receive(now_ms(), from, bytes) {
                    self.socket.send(&answer, from);
                }
            }
        }
        let ledger = &self.ledger;
        let stakes = |slot| ledger.epoch_stakes(ledger.epoch_schedule().epoch(slot));
        let of = |slot, node: &Pubkey| {
            let stakes = stakes(slot);
            let votes = stakes.iter().flat_map(|stakes| &stakes.votes).filter(|vote| vote.node == *node);
            votes.map(|vote| vote.stake).sum()
        };
        self.questions.agreed(of, |slot| stakes(slot).map_or(0, |stakes| stakes.total()))
    }
}
