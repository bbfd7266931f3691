//! What waits for this node's signature.
//!
//! reads   what the node has to say, and whom it is for
//! writes  requests, in the order in which they were made; by their tags, what is to be done with the signatures
//! memory  [`REQUESTS_MAX`] requests of at most 1.2 KB; the peers of one pull request; a tag for each request in
//!         flight, which whoever drives it bounds
//! drops   requests beyond that, and those whose signature does not come within [`SIGN_MS`]: both are counted here;
//!         refused ones: whoever refuses counts them
//! source  Firedancer's gossip tile, which has its own values signed by the tile that holds the key
//!
//! Gossip holds no key. Whoever drives it takes a [`SignRequest`] by [`Gossip::next_request`], has it signed, and gives
//! the signature back by [`Gossip::signed`]: what was to be said is said then. A request that is refused is given back
//! by [`Gossip::refused`]. Each request that is handed out has one answer, late or not; until then it counts as in
//! flight, by whatever clock. One that has the key at hand, as a node that only just joins, uses [`Gossip::sign_with`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;

use hearth_crypto::ed25519::SigningKey;
use hearth_crypto::sha256::sha256;
use hearth_wire::Pubkey;
use hearth_wire::consts::Signature;
use hearth_wire::gossip::{CrdsData, CrdsValue, Label, Ping, Pong, PruneData, write_ping, write_pong, write_prune};

use super::config::{ANSWER_REQUESTS_MAX, REQUESTS_MAX, SIGN_MS};
use super::pings::pong_hash;
use super::table::Route;
use super::{Gossip, Outbox};

/// What kind of thing is to be signed: whoever signs holds it against the rules of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum SignKind {
    /// The data of a value, tag included.
    Value = 0,
    /// What a prune signs, without a domain before it.
    Prune = 1,
    /// A ping's token.
    Ping = 2,
    /// The token of a ping that is answered: its [`pong_hash`] is signed.
    Pong = 3,
}

impl SignKind {
    /// The kind of this number.
    pub fn of(number: u16) -> Option<Self> {
        [Self::Value, Self::Prune, Self::Ping, Self::Pong].into_iter().find(|kind| *kind as u16 == number)
    }
}

/// Something that this node has to have signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignRequest {
    /// By which the signature is known.
    pub tag: u64,
    /// What it is.
    pub kind: SignKind,
    /// See [`SignKind`].
    pub bytes: Vec<u8>,
}

impl SignRequest {
    /// Signs it.
    pub fn sign(&self, key: &SigningKey) -> Signature {
        match self.kind {
            SignKind::Pong => key.sign(&pong_hash(&token(&self.bytes))),
            _ => key.sign(&self.bytes),
        }
    }
}

/// A node that a pull request may go to: its address, its stake, its key.
pub(super) type PullPeer = (SocketAddrV4, u64, Pubkey);

/// What is done with a signature.
pub(super) enum Purpose {
    /// The value enters the table.
    Value {
        label: Label,
        wallclock: u64,
    },
    /// The contact info goes with pull requests.
    Caller {
        peers: Vec<PullPeer>,
        entrypoint: Option<SocketAddrV4>,
    },
    /// A message goes out.
    Prune(SocketAddrV4),
    Ping(SocketAddrV4),
    Pong(SocketAddrV4),
}

impl Purpose {
    fn kind(&self) -> SignKind {
        match self {
            Self::Value { .. } | Self::Caller { .. } => SignKind::Value,
            Self::Prune(_) => SignKind::Prune,
            Self::Ping(_) => SignKind::Ping,
            Self::Pong(_) => SignKind::Pong,
        }
    }

    /// Bytes before those that are signed: room for the signature of a value.
    fn head(&self) -> usize {
        match self.kind() {
            SignKind::Value => size_of::<Signature>(),
            _ => 0,
        }
    }
}

struct Pending {
    purpose: Purpose,
    bytes: Vec<u8>,
    asked_ms: u64,
}

/// Requests without their signatures, by tag.
#[derive(Default)]
pub(super) struct Signing {
    pending: BTreeMap<u64, Pending>,
    next_tag: u64,
    /// Requests below this tag were handed out.
    handed_out: u64,
    /// The tags of requests that were handed out and have no answer yet, waited for or not.
    in_flight: BTreeSet<u64>,
}

impl Signing {
    /// How many wait for their signature.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    fn add(&mut self, now: u64, purpose: Purpose, bytes: Vec<u8>) {
        self.pending.insert(self.next_tag, Pending { purpose, bytes, asked_ms: now });
        self.next_tag += 1;
    }

    fn take(&mut self, tag: u64) -> Option<Pending> {
        self.pending.remove(&tag)
    }

    /// Own values that are yet to be signed.
    pub fn values(&self) -> impl Iterator<Item = (&Label, u64, &[u8])> {
        self.pending.values().filter_map(|pending| match &pending.purpose {
            Purpose::Value { label, wallclock } => Some((label, *wallclock, &pending.bytes[..])),
            _ => None,
        })
    }

    /// The time of the newest value of a label.
    pub fn wallclock(&self, label: &Label) -> Option<u64> {
        self.values().filter(|(other, ..)| *other == label).map(|(_, wallclock, _)| wallclock).max()
    }

    /// Whether the next pull requests wait for their signature.
    pub fn has_caller(&self) -> bool {
        self.pending.values().any(|pending| matches!(pending.purpose, Purpose::Caller { .. }))
    }

    /// The clock was set back to `now`: nothing was asked for later. Takes the values out whose time is after `latest`.
    pub fn set_back(&mut self, now: u64, latest: u64) -> Vec<Vec<u8>> {
        self.pending.values_mut().for_each(|pending| pending.asked_ms = now.min(pending.asked_ms));
        let is_later =
            |pending: &Pending| matches!(pending.purpose, Purpose::Value { wallclock, .. } if wallclock > latest);
        let tags: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| is_later(pending)).map(|(tag, _)| *tag).collect();
        tags.into_iter().filter_map(|tag| Some(self.take(tag)?.bytes)).collect()
    }

    /// Gives requests up whose signature did not come. Returns how many. Those that were handed out stay in flight: the
    /// answer is still to come, and needs its room in the link.
    pub fn expire(&mut self, now: u64) -> u64 {
        let is_late = |pending: &Pending| pending.asked_ms.saturating_add(SIGN_MS) <= now;
        let mut count = 0;
        while let Some((tag, _)) = self.pending.first_key_value().filter(|(_, pending)| is_late(pending)) {
            self.take(*tag);
            count += 1;
        }
        count
    }
}

/// A value with room for its signature.
pub(super) fn unsigned(data: &CrdsData<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    data.write(&mut bytes);
    bytes
}

fn token(bytes: &[u8]) -> [u8; 32] {
    bytes.try_into().expect("a token has 32 bytes")
}

impl Gossip {
    /// Has something signed. Of what others make this node say there is never so much that there is no room for what it
    /// has to say of itself.
    pub(super) fn have_signed(&mut self, now: u64, purpose: Purpose, bytes: Vec<u8>) {
        let max = if purpose.kind() == SignKind::Value { REQUESTS_MAX } else { ANSWER_REQUESTS_MAX };
        if self.signing.len() >= max {
            self.counters.unsigned_full += 1;
        } else {
            self.signing.add(now, purpose, bytes);
        }
    }

    /// Takes the next request for a signature. The caller gives one answer back: [`Self::signed`] or [`Self::refused`].
    pub fn next_request(&mut self) -> Option<SignRequest> {
        let Signing { pending, handed_out, in_flight, .. } = &mut self.signing;
        let (tag, Pending { purpose, bytes, .. }) = pending.range(*handed_out..).next()?;
        *handed_out = tag + 1;
        in_flight.insert(*tag);
        Some(SignRequest { tag: *tag, kind: purpose.kind(), bytes: bytes[purpose.head()..].to_vec() })
    }

    /// How many requests were handed out whose answers have not come.
    pub fn requests_in_flight(&self) -> usize {
        self.signing.in_flight.len()
    }

    /// A request is refused: what was to be said is not.
    pub fn refused(&mut self, tag: u64) {
        self.signing.in_flight.remove(&tag);
        self.signing.take(tag);
    }

    /// Says what was to be said once it was signed: values enter the table, messages are added to `out`. A tag that is
    /// not waited for is passed over.
    pub fn signed(&mut self, now: u64, tag: u64, signature: &Signature, out: &mut Outbox) {
        self.signing.in_flight.remove(&tag);
        let Some(Pending { purpose, mut bytes, .. }) = self.signing.take(tag) else { return };
        let (from, signature) = (self.own.pubkey, *signature);
        let head = purpose.head();
        bytes[..head].copy_from_slice(&signature[..head]);
        match purpose {
            Purpose::Value { .. } => {
                let value = CrdsValue::parse(&bytes).expect("it was parsed before it was signed");
                self.table.insert(&value, sha256(&[&bytes]), now, Route::Own);
            }
            Purpose::Caller { peers, entrypoint } => self.ask(&bytes, &peers, entrypoint, out),
            Purpose::Prune(to) => {
                let data = PruneData::parse_signed(&bytes).expect("it was written for that");
                out.send(to, |message| write_prune(&PruneData { signature, ..data }, message));
                self.counters.prunes_sent += 1;
            }
            Purpose::Ping(to) => {
                let ping = Ping { from, token: token(&bytes), signature };
                out.send(to, |message| write_ping(&ping, message));
                self.counters.pings_sent += 1;
            }
            Purpose::Pong(to) => {
                let pong = Pong { from, hash: pong_hash(&token(&bytes)), signature };
                out.send(to, |message| write_pong(&pong, message));
                self.counters.pongs_sent += 1;
            }
        }
    }

    /// Signs all that waits, with a key at hand.
    pub fn sign_with(&mut self, now: u64, key: &SigningKey, out: &mut Outbox) {
        while let Some(request) = self.next_request() {
            self.signed(now, request.tag, &request.sign(key), out);
        }
    }
}
