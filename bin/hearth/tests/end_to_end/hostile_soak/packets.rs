//! The attacker's packets. Each is right in every respect but one, so that it reaches the check that must refuse it.

use std::net::{SocketAddr, SocketAddrV4};

use hearth_crypto::ed25519::SigningKey;
use hearth_testkit::random::Random;
use hearth_wire::Signature;
use hearth_wire::gossip::{
    BloomFilter, Carrier, ContactInfo, CrdsData, MASK_BITS_MIN, Ping, SocketKind, Version, write_ping,
    write_pull_request, write_values_header,
};
use hearth_wire::repair::{Request, set_signature, signed_bytes};
use hearth_wire::shred::SLOT;

/// The offset of the highest byte of an Ed25519 signature's scalar.
const SCALAR_TOP: usize = 63;
/// The bytes of a shred that [`altered_shred`] changes: entries in a data shred, parity in the others.
const ALTERED: std::ops::Range<usize> = 200..208;

/// How a message is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// By the key that it names.
    Signed,
    /// By nobody: random bytes in the form of a signature.
    Forged,
}

impl Seal {
    fn signature(self, key: &SigningKey, message: &[u8], random: &mut Random) -> Signature {
        match self {
            Self::Signed => key.sign(message),
            Self::Forged => forged_signature(random),
        }
    }
}

/// Returns random bytes whose scalar is below the group's order. A larger one is refused before any arithmetic.
pub fn forged_signature(random: &mut Random) -> Signature {
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&random.key());
    signature[32..].copy_from_slice(&random.key());
    signature[SCALAR_TOP] &= 0x0f;
    signature
}

/// Returns a fresh key.
pub fn key(random: &mut Random) -> SigningKey {
    SigningKey::from_seed(&random.key())
}

/// Noise: random bytes, of which some begin like a packet of QUIC version 1 or of another version.
pub fn garbage(random: &mut Random, number: usize) -> Vec<u8> {
    let len = random.index(1473);
    let mut bytes = random.bytes(len);
    let head: &[u8] = match number % 4 {
        0 => &[0xc0, 0, 0, 0, 1, 8],
        1 => &[0xcf, 0, 0, 0, 1, 20],
        2 => &[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8],
        _ => &[],
    };
    for (byte, begins) in bytes.iter_mut().zip(head) {
        *byte = *begins;
    }
    bytes
}

/// Returns a transaction of one signature with a forged one.
pub fn forged_transaction(transaction: &[u8], random: &mut Random) -> Vec<u8> {
    let mut forged = transaction.to_vec();
    forged[1..=64].copy_from_slice(&forged_signature(random));
    forged
}

/// A gossip node that the attacker makes up.
pub struct GossipNode {
    key: SigningKey,
    contact: ContactInfo,
}

impl GossipNode {
    /// A node of the chain with this shred version, at `address`. `time_ms` is Unix time.
    pub fn new(random: &mut Random, address: SocketAddrV4, shred_version: u16, time_ms: u64) -> Self {
        let key = key(random);
        let version = Version { major: 4, minor: 2, patch: 2, ..Version::default() };
        let contact = ContactInfo::new(key.public_key(), time_ms * 1_000, shred_version, version);
        let contact = ContactInfo { wallclock: time_ms, ..contact.with(SocketKind::Gossip, address) };
        Self { key, contact }
    }

    fn value(&self, seal: Seal, random: &mut Random) -> Vec<u8> {
        let mut data = vec![];
        CrdsData::ContactInfo(self.contact).write(&mut data);
        [&seal.signature(&self.key, &data, random)[..], &data].concat()
    }

    /// A push of the node's contact info.
    pub fn push(&self, seal: Seal, random: &mut Random) -> Vec<u8> {
        let mut bytes = vec![];
        write_values_header(Carrier::Push, &self.contact.pubkey, 1, &mut bytes);
        bytes.extend(self.value(seal, random));
        bytes
    }

    /// A pull request for whatever the node does not have, which is everything.
    pub fn pull(&self, random: &mut Random) -> Vec<u8> {
        let caller = self.value(Seal::Signed, random);
        let mut bytes = vec![];
        let part = random.below(1 << MASK_BITS_MIN);
        write_pull_request(&BloomFilter::new(64, vec![1]), part, MASK_BITS_MIN, &caller, &mut bytes);
        bytes
    }

    /// A ping, which the receiver has to sign an answer for.
    pub fn ping(&self, random: &mut Random) -> Vec<u8> {
        let token = random.key();
        let mut bytes = vec![];
        write_ping(&Ping { from: self.key.public_key(), token, signature: self.key.sign(&token) }, &mut bytes);
        bytes
    }
}

/// A repair request by `key`, which must be its sender's.
pub fn repair_request(request: &Request, key: &SigningKey, seal: Seal, random: &mut Random) -> Vec<u8> {
    let mut bytes = request.write();
    let signature = seal.signature(key, &signed_bytes(&bytes), random);
    set_signature(&mut bytes, &signature);
    bytes
}

/// Returns a shred with other contents, and so with another Merkle root than the one signed.
pub fn altered_shred(shred: &[u8], random: &mut Random) -> Vec<u8> {
    let mut altered = shred.to_vec();
    altered[ALTERED].copy_from_slice(&random.word().to_le_bytes());
    altered
}

/// Returns a shred that claims to be of another slot.
pub fn moved_shred(shred: &[u8], slot: u64) -> Vec<u8> {
    let mut moved = shred.to_vec();
    moved[SLOT..SLOT + 8].copy_from_slice(&slot.to_le_bytes());
    moved
}

/// A JSON-RPC request over HTTP, on a connection that is kept.
pub fn http_request(to: SocketAddr, body: &str) -> Vec<u8> {
    let len = body.len();
    format!("POST / HTTP/1.1\r\nHost: {to}\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}")
        .into_bytes()
}

/// A request that becomes a WebSocket.
pub fn upgrade_request(to: SocketAddr) -> Vec<u8> {
    format!(
        "GET / HTTP/1.1\r\nHost: {to}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes()
}

/// A text of at most 65,535 bytes as a frame of a WebSocket's client (RFC 6455, section 5.2). The mask is zero, which
/// leaves the text as it is.
pub fn text_frame(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81];
    match text.len() {
        len @ 0..126 => frame.push(0x80 | len as u8),
        len => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(len).expect("a short text").to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use hearth_crypto::ed25519::verify_strict;
    use hearth_ledger::genesis::funded_account_key;
    use hearth_wire::gossip::Protocol;
    use hearth_wire::repair::{RepairDatagram, RequestContent};
    use hearth_wire::shred::Shred;
    use hearth_wire::txn::Txn;

    use super::super::super::client::{fresh_address, transfer};
    use super::super::super::two_blocks::other_block;
    use super::*;

    #[test]
    fn forged_transaction_is_wrong_in_its_signature_alone() {
        let mut random = Random(1);
        let signed = transfer(&funded_account_key(0), &fresh_address(1, 0), 1, &[7; 32]);
        let forged = forged_transaction(&signed, &mut random);
        let verdict = |bytes: &[u8]| {
            let txn = Txn::parse(bytes).expect("it parses");
            verify_strict(txn.fee_payer(), txn.first_signature(), txn.message()).is_ok()
        };
        assert!(verdict(&signed));
        assert!(!verdict(&forged));
        assert_eq!(forged[65..], signed[65..]);
    }

    #[test]
    fn gossip_messages_parse_and_are_signed_where_they_say_so() {
        let mut random = Random(2);
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9);
        let node = GossipNode::new(&mut random, address, 7, 1_700_000_000_000);
        for (seal, is_signed) in [(Seal::Signed, true), (Seal::Forged, false)] {
            let push = node.push(seal, &mut random);
            let Ok(Protocol::Push { from, values }) = Protocol::parse(&push) else { panic!("{push:?}") };
            let verdict = verify_strict(&from, values[0].signature(), values[0].signed());
            assert_eq!(verdict.is_ok(), is_signed);
        }
        let pull = node.pull(&mut random);
        let Ok(Protocol::PullRequest { caller, .. }) = Protocol::parse(&pull) else { panic!("{pull:?}") };
        assert!(verify_strict(&caller.label().pubkey, caller.signature(), caller.signed()).is_ok());
        let ping = node.ping(&mut random);
        let Ok(Protocol::Ping(ping)) = Protocol::parse(&ping) else { panic!("{ping:?}") };
        assert!(verify_strict(&ping.from, &ping.signature, &ping.token).is_ok());
    }

    #[test]
    fn repair_requests_parse_and_are_signed_where_they_say_so() {
        let mut random = Random(3);
        let key = key(&mut random);
        let wanted = RequestContent::Shred { slot: 5, index: 6 };
        let request =
            Request { sender: key.public_key(), recipient: [9; 32], time_ms: 1_700_000_000_000, nonce: 4, wanted };
        for (seal, is_signed) in [(Seal::Signed, true), (Seal::Forged, false)] {
            let bytes = repair_request(&request, &key, seal, &mut random);
            let Ok(RepairDatagram::Request(parsed, signature)) = RepairDatagram::parse(&bytes) else {
                panic!("{bytes:?}")
            };
            assert_eq!(parsed, request);
            assert_eq!(verify_strict(&request.sender, &signature, &signed_bytes(&bytes)).is_ok(), is_signed);
        }
    }

    #[test]
    fn shreds_parse_after_every_change() {
        let mut random = Random(4);
        let shreds = other_block(40, 7, &key(&mut random));
        for shred in &shreds {
            let altered = altered_shred(shred, &mut random);
            assert_ne!(&altered, shred);
            assert_eq!(Shred::parse(&altered).map(|shred| shred.slot()), Ok(40));
            for slot in [1, 1 << 40] {
                assert_eq!(Shred::parse(&moved_shred(shred, slot)).map(|shred| shred.slot()), Ok(slot));
            }
        }
    }

    #[test]
    fn requests_have_the_length_that_they_name() {
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 8899));
        let request = String::from_utf8(http_request(to, "[1, 2]")).expect("text");
        assert!(request.contains("\r\nContent-Length: 6\r\n") && request.ends_with("\r\n\r\n[1, 2]"), "{request}");
        assert!(upgrade_request(to).ends_with(b"\r\n\r\n"));
        assert_eq!(text_frame("abc"), [&[0x81, 0x83, 0, 0, 0, 0][..], b"abc"].concat());
        let long = "a".repeat(300);
        assert_eq!(text_frame(&long)[..8], [0x81, 0xfe, 1, 44, 0, 0, 0, 0]);
        assert_eq!(text_frame(&long).len(), 8 + 300);
    }

    #[test]
    fn garbage_is_the_same_from_the_same_seed() {
        let made = |seed| {
            let mut random = Random(seed);
            (0..8).map(|number| garbage(&mut random, number)).collect::<Vec<_>>()
        };
        assert_eq!(made(5), made(5));
        assert_ne!(made(5), made(6));
        assert!(made(5).iter().all(|bytes| bytes.len() <= 1472));
    }
}
