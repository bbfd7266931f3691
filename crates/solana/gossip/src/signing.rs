//! Requests for this node's signature.
//!
//! reads   unsigned messages and their destinations
//! writes  requests in order of creation, with tags for the later handling of the signatures
//! memory  [`REQUESTS_MAX`] requests of at most 1.2 KB; the peers of one pull request; a tag for each request in
//!         flight, which the caller bounds
//! drops   requests over that limit, and those without a signature within [`SIGN_MS`]: both are counted here; refused
//!         requests are counted by the signer
//! source  Firedancer's gossip tile, whose values are signed by the tile that holds the key
//!
//! Gossip holds no key. Its caller takes a [`SignRequest`] from [`Gossip::next_request`], has it signed, and passes the
//! signature to [`Gossip::signed`], which sends the message. A refused request goes to [`Gossip::refused`]. Each
//! request handed out gets exactly one answer, late or not; until then it is in flight, whatever the clock does. A
//! caller with direct access to the key, such as a joining node, uses [`Gossip::sign_with`].

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

/// The kind of message to sign, whose rules the signer checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum SignKind {
    /// The data of a value, tag included.
    Value = 0,
    /// A prune's signed data, without a domain prefix.
    Prune = 1,
    /// The token of a ping that this node sends.
    Ping = 2,
    /// The token of a received ping: its [`pong_hash`] is signed.
    Pong = 3,
}

impl SignKind {
    /// The kind with this number.
    pub fn of(number: u16) -> Option<Self> {
        [Self::Value, Self::Prune, Self::Ping, Self::Pong].into_iter().find(|kind| *kind as u16 == number)
    }
}

/// A request for this node's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignRequest {
    /// The request's sequence number; the signature comes back with it.
    pub tag: u64,
    /// The kind of message.
    pub kind: SignKind,
    /// The bytes to sign: see [`SignKind`].
    pub bytes: Vec<u8>,
}

impl SignRequest {
    /// Signs the bytes, or the [`pong_hash`] of the token in them.
    pub fn sign(&self, key: &SigningKey) -> Signature {
        match self.kind {
            SignKind::Pong => key.sign(&pong_hash(&token(&self.bytes))),
            _ => key.sign(&self.bytes),
        }
    }
}

/// A node to which a pull request may go: its address, stake and key.
pub(super) type PullPeer = (SocketAddrV4, u64, Pubkey);

/// The use of a signature once it arrives.
pub(super) enum Purpose {
    /// Insert the value into the table.
    Value {
        label: Label,
        wallclock: u64,
    },
    /// Send pull requests with the contact info.
    Caller {
        peers: Vec<PullPeer>,
        entrypoint: Option<SocketAddrV4>,
    },
    /// Send the message, completed by its signature, to this address.
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

    /// Bytes before the signed ones: room for the signature of a value.
    fn head(&self) -> usize {
        match self.kind() {
            SignKind::Value => size_of::<Signature>(),
            _ => 0,
        }
    }
}

struct PendingSignature {
    purpose: Purpose,
    bytes: Vec<u8>,
    asked_ms: u64,
}

/// Requests without their signatures, by tag.
#[derive(Default)]
pub(super) struct SignatureRequests {
    pending: BTreeMap<u64, PendingSignature>,
    next_tag: u64,
    /// Requests below this tag were handed out.
    handed_out: u64,
    /// The tags of requests that were handed out and not answered yet, even if expired.
    in_flight: BTreeSet<u64>,
}

impl SignatureRequests {
    /// The number of requests that wait for a signature.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    fn add(&mut self, now: u64, purpose: Purpose, bytes: Vec<u8>) {
        self.pending.insert(self.next_tag, PendingSignature { purpose, bytes, asked_ms: now });
        self.next_tag += 1;
    }

    /// Forgets all requests: another key signs from now on. Those handed out stay in flight.
    pub fn forget(&mut self) {
        self.pending.clear();
    }

    fn take(&mut self, tag: u64) -> Option<PendingSignature> {
        self.pending.remove(&tag)
    }

    /// Own values that are not signed yet.
    pub fn values(&self) -> impl Iterator<Item = (&Label, u64, &[u8])> {
        self.pending.values().filter_map(|pending| match &pending.purpose {
            Purpose::Value { label, wallclock } => Some((label, *wallclock, &pending.bytes[..])),
            _ => None,
        })
    }

    /// The time of the newest value with a label.
    pub fn wallclock(&self, label: &Label) -> Option<u64> {
        self.values().filter(|(other, ..)| *other == label).map(|(_, wallclock, _)| wallclock).max()
    }

    /// Whether the next pull requests wait for a signature.
    pub fn has_caller(&self) -> bool {
        self.pending.values().any(|pending| matches!(pending.purpose, Purpose::Caller { .. }))
    }

    /// Handles a clock that was set back to `now`: clamps request times. Takes out the values with a time after
    /// `latest`.
    pub fn set_back(&mut self, now: u64, latest: u64) -> Vec<Vec<u8>> {
        self.pending.values_mut().for_each(|pending| pending.asked_ms = now.min(pending.asked_ms));
        let is_later = |purpose: &Purpose| matches!(purpose, Purpose::Value { wallclock, .. } if *wallclock > latest);
        let tags: Vec<u64> =
            self.pending.iter().filter(|(_, pending)| is_later(&pending.purpose)).map(|(tag, _)| *tag).collect();
        tags.into_iter().filter_map(|tag| Some(self.take(tag)?.bytes)).collect()
    }

    /// Expires requests without a signature, and returns their number. Those handed out stay in flight: their answer
    /// will still arrive, and needs its room in the link.
    pub fn expire(&mut self, now: u64) -> u64 {
        let is_late = |pending: &PendingSignature| pending.asked_ms.saturating_add(SIGN_MS) <= now;
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
    /// Requests a signature. Messages that others provoke never take the room reserved for this node's own values.
    pub(super) fn have_signed(&mut self, now: u64, purpose: Purpose, bytes: Vec<u8>) {
        let max = if purpose.kind() == SignKind::Value { REQUESTS_MAX } else { ANSWER_REQUESTS_MAX };
        if self.signing.len() >= max {
            self.counters.unsigned_full += 1;
        } else {
            self.signing.add(now, purpose, bytes);
        }
    }

    /// Takes the next request. The caller must answer it once: [`Self::signed`] or [`Self::refused`].
    pub fn next_request(&mut self) -> Option<SignRequest> {
        let SignatureRequests { pending, handed_out, in_flight, .. } = &mut self.signing;
        let (tag, PendingSignature { purpose, bytes, .. }) = pending.range(*handed_out..).next()?;
        *handed_out = tag + 1;
        in_flight.insert(*tag);
        Some(SignRequest { tag: *tag, kind: purpose.kind(), bytes: bytes[purpose.head()..].to_vec() })
    }

    /// The number of requests handed out and not answered.
    pub fn requests_in_flight(&self) -> usize {
        self.signing.in_flight.len()
    }

    /// Drops a request that was refused.
    pub fn refused(&mut self, tag: u64) {
        self.signing.in_flight.remove(&tag);
        self.signing.take(tag);
    }

    /// Completes a signed request: values enter the table, messages are added to `out`. An unknown tag is ignored.
    pub fn signed(&mut self, now: u64, tag: u64, signature: &Signature, out: &mut Outbox) {
        self.signing.in_flight.remove(&tag);
        let Some(PendingSignature { purpose, mut bytes, .. }) = self.signing.take(tag) else { return };
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

    /// Signs all requests with the given key.
    pub fn sign_with(&mut self, now: u64, key: &SigningKey, out: &mut Outbox) {
        while let Some(request) = self.next_request() {
            self.signed(now, request.tag, &request.sign(key), out);
        }
    }
}
