//! gossip: what gossip may have signed.
//!
//! reads   requests, each with the kind that the requester claims
//! writes  signatures
//! drops   requests that do not match their kind, or could be of another kind as well; the tile counts them as refused
//! source  Firedancer's keyguard
//!
//! A value starts with the four bytes of its tag, of which the last three are 0, and names this node. In a
//! transaction's message the fourth byte is the number of accounts, which is at least 1 because of the payer; a
//! versioned message starts with a byte above any tag. Of the repair requests only one for ancestors can be parsed as a
//! contact info, if that has 88 bytes. Values are refused as requests there. Here a value is refused that some node
//! would take for a request: servers answer requests of the last ten minutes alone, and where a request has its time, a
//! contact info has parts of its address and of its list of sockets.
//!
//! A prune starts with this node's key, so the requester controls none of its bytes before byte 40. Parsed as a
//! message, its payer would be a key made of 28 bytes of this node's key and a count, for which nobody can sign; parsed
//! as a value or a request, which name the node four bytes later, this node's key would have to repeat itself.
//!
//! Gossip chooses eight bytes of a ping's token, and the others are 0, which no hash looks like. Pongs sign a hash that
//! is computed here, with a domain prefix.

use hearth_crypto::ed25519::SigningKey;
use hearth_gossip::{SignKind, pong_hash};
use hearth_wire::consts::{Pubkey, Signature};
use hearth_wire::gossip::{CrdsData, PruneData, VALUE_SIZE_MAX};
use hearth_wire::repair::{is_repair_request, signed_time_ms};

/// Requests of this time before now, in milliseconds, are valid at no server, clocks that differ included.
const REQUEST_PAST_MS: u64 = 86_400_000;
/// Requests of this time after now, in milliseconds, are valid only in ten years, which does not matter.
const REQUEST_FUTURE_MS: u64 = 10 * 365 * 86_400_000;
/// Random bytes of a ping's token.
const TOKEN_DRAWN: usize = 8;

/// Signs a request of gossip; returns `None` if it does not match its kind. `now_ms` is the wall clock.
pub(super) fn sign(
    key: &SigningKey,
    own: &Pubkey,
    kind: u16,
    bytes: &[u8],
    now_ms: u64,
) -> Option<(SignKind, Signature)> {
    let kind = SignKind::of(kind)?;
    let is_right = match kind {
        SignKind::Value => is_value_of(bytes, own) && !is_valid_request(bytes, own, now_ms),
        SignKind::Prune => PruneData::parse_signed(bytes).is_ok_and(|prune| prune.pubkey == *own),
        SignKind::Ping => bytes.len() == 32 && bytes[TOKEN_DRAWN..].iter().all(|byte| *byte == 0),
        SignKind::Pong => return Some((kind, key.sign(&pong_hash(bytes.try_into().ok()?)))),
    };
    is_right.then(|| (kind, key.sign(bytes)))
}

/// Whether a server might answer these bytes as a repair request, now or later.
fn is_valid_request(bytes: &[u8], own: &Pubkey, now_ms: u64) -> bool {
    let valid = now_ms.saturating_sub(REQUEST_PAST_MS)..=now_ms.saturating_add(REQUEST_FUTURE_MS);
    is_repair_request(bytes, own) && signed_time_ms(bytes).is_some_and(|time_ms| valid.contains(&time_ms))
}

/// Whether these bytes are the data of a gossip value about `node` itself.
pub(super) fn is_value_of(bytes: &[u8], node: &Pubkey) -> bool {
    let is_said = |data: CrdsData<'_>| data.label().pubkey == *node && !matches!(data, CrdsData::Restart(_));
    bytes.len() <= VALUE_SIZE_MAX - size_of::<Signature>() && CrdsData::parse(bytes).is_ok_and(is_said)
}

#[cfg(test)]
pub(super) mod tests {
    use hearth_crypto::ed25519::verify_strict;
    use hearth_wire::gossip::{ContactInfo, LowestSlot, SocketKind, Version};
    use hearth_wire::repair::{Request, RequestContent, signed_bytes};
    use hearth_wire::vote::{Lockout, TowerSync, VotedBlock};

    use super::*;

    const NOW_MS: u64 = 1_790_000_000_000;

    fn key() -> SigningKey {
        SigningKey::from_seed(&[7; 32])
    }

    fn own() -> Pubkey {
        key().public_key()
    }

    fn written(data: &CrdsData<'_>) -> Vec<u8> {
        let mut bytes = vec![];
        data.write(&mut bytes);
        bytes
    }

    fn contact(node: Pubkey) -> ContactInfo {
        let contact = ContactInfo::new(node, 1_700_000_000_000_000, 7, Version::default());
        ContactInfo { wallclock: 1_700_000_000_000, ..contact }
            .with(SocketKind::Gossip, "127.0.0.1:8001".parse().unwrap())
    }

    /// Makes the bytes that a node signs to prune this many nodes.
    pub fn prune(pubkey: Pubkey, nodes: usize) -> Vec<u8> {
        let prunes = vec![[3; 32]; nodes];
        let data = PruneData { pubkey, prunes: &prunes, signature: [0; 64], destination: [4; 32], wallclock: 5 };
        let mut bytes = vec![];
        data.signed(false, &mut bytes);
        bytes
    }

    fn token() -> Vec<u8> {
        [&[5; TOKEN_DRAWN][..], &[0; 24]].concat()
    }

    /// Whether this is signed as a kind; panics if the signature is wrong.
    fn is_signed(kind: SignKind, bytes: &[u8]) -> bool {
        let signed = sign(&key(), &own(), kind as u16, bytes, NOW_MS);
        let message =
            if kind == SignKind::Pong { pong_hash(bytes.try_into().unwrap()).to_vec() } else { bytes.to_vec() };
        signed.iter().for_each(|(_, signature)| assert!(verify_strict(&own(), signature, &message).is_ok()));
        signed.is_some()
    }

    /// Whether this is signed as any kind that signs the bytes unchanged.
    fn is_signed_as_anything(bytes: &[u8]) -> bool {
        [SignKind::Value, SignKind::Prune, SignKind::Ping].into_iter().any(|kind| is_signed(kind, bytes))
    }

    #[test]
    fn gossip_values_are_signed_by_kind() {
        let value = written(&CrdsData::ContactInfo(contact(own())));
        let all = [
            (SignKind::Value, value),
            (SignKind::Prune, prune(own(), 32)),
            (SignKind::Ping, token()),
            (SignKind::Pong, vec![9; 32]),
        ];
        for (kind, bytes) in &all {
            assert!(is_signed(*kind, bytes), "{kind:?}");
            for other in [SignKind::Value, SignKind::Prune, SignKind::Ping].into_iter().filter(|other| other != kind) {
                assert!(!is_signed(other, bytes), "{kind:?} as {other:?}");
            }
        }
        assert!(sign(&key(), &own(), 4, &token(), NOW_MS).is_none(), "no such kind");
    }

    #[test]
    fn values_of_other_nodes_are_refused() {
        assert!(!is_signed_as_anything(&written(&CrdsData::ContactInfo(contact([3; 32])))));
        let lowest = LowestSlot { from: [3; 32], lowest: 1, wallclock: 2 };
        assert!(!is_signed_as_anything(&written(&CrdsData::LowestSlot(lowest))));
        let lowest = LowestSlot { from: own(), ..lowest };
        let mut bytes = written(&CrdsData::LowestSlot(lowest));
        assert!(is_signed(SignKind::Value, &bytes));
        bytes.push(0);
        assert!(!is_signed_as_anything(&bytes), "and what is behind a value");
    }

    #[test]
    fn prunes_of_other_nodes_are_refused() {
        assert!(!is_signed_as_anything(&prune([3; 32], 2)));
        assert!(!is_signed_as_anything(&prune(own(), 33)), "and longer ones than gossip makes");
        assert!(!is_signed_as_anything(&prune(own(), 2)[..80]));
    }

    #[test]
    fn a_transaction_is_refused() {
        let mut transfer = hearth_wire::transfer::TransferTemplate::new();
        transfer.set_from(&own());
        let transfer = hearth_wire::Txn::parse(transfer.bytes()).unwrap().message().to_vec();
        assert!(!is_signed_as_anything(&transfer));
    }

    #[test]
    fn a_vote_is_refused() {
        let votes = [Lockout { slot: 9, confirmation_count: 1 }];
        let sync = TowerSync { votes: &votes, root: None, timestamp: Some(5), is_switch: false };
        let block = VotedBlock { slot: 9, bank_hash: [1; 32], block_id: [2; 32], blockhash: [3; 32] };
        assert!(!is_signed_as_anything(sync.message(&own(), &[8; 32], &block).bytes()));
    }

    #[test]
    fn a_merkle_root_is_refused() {
        assert!(!is_signed_as_anything(&[1; 32]));
        assert!(!is_signed_as_anything(&[&[1; 31][..], &[0]].concat()));
    }

    #[test]
    fn a_repair_request_is_refused() {
        for wanted in [RequestContent::Shred { slot: 5, index: 7 }, RequestContent::Highest { slot: 5, from: 7 }] {
            let request = Request { sender: own(), recipient: [2; 32], time_ms: 3, nonce: 4, wanted }.write();
            assert!(!is_signed_as_anything(&signed_bytes(&request)));
        }
    }

    /// A contact info of exactly the size of a request for ancestors: the same bytes are both.
    pub fn request_and_value() -> Vec<u8> {
        let both = (1..=14u16).find_map(|sockets| {
            let kinds = [SocketKind::Gossip, SocketKind::Rpc, SocketKind::ServeRepair, SocketKind::Tvu];
            let contact = (0..sockets).fold(contact(own()), |contact, n| {
                let address = std::net::SocketAddrV4::new([127, 0, 0, 1 + (n / 4) as u8].into(), 8_001 + 200 * n);
                contact.with(kinds[usize::from(n) % 4], address)
            });
            let values = [0, 200, 20_000].map(|major| {
                let mut contact = contact;
                contact.version.major = major;
                written(&CrdsData::ContactInfo(contact))
            });
            values.into_iter().find(|bytes| is_repair_request(bytes, &own()))
        });
        both.expect("one of these has 88 bytes")
    }

    #[test]
    fn contact_info_of_a_requests_size_is_signed_unless_it_is_one() {
        let both = request_and_value();
        assert!(is_value_of(&both, &own()) && is_repair_request(&both, &own()));
        assert!(is_signed(SignKind::Value, &both));
        let time_ms = signed_time_ms(&both).unwrap();
        let at = |now_ms| sign(&key(), &own(), SignKind::Value as u16, &both, now_ms).is_some();
        // If its bytes say a time at which a server would answer it, now or one day, it is none.
        for (now_ms, is_signed) in [
            (time_ms, false),
            (time_ms + REQUEST_PAST_MS, false),
            (time_ms + REQUEST_PAST_MS + 1, true),
            (time_ms - REQUEST_FUTURE_MS, false),
            (time_ms - REQUEST_FUTURE_MS - 1, true),
        ] {
            assert_eq!(at(now_ms), is_signed, "{now_ms}");
        }
    }
}
