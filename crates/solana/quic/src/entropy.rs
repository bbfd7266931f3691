//! Everything random or secret that a side needs besides TLS itself, from one 32-byte seed.
//!
//! With a seed from the operating system this is as unpredictable as the seed; with a fixed seed
//! the connection ids, packet-number gaps and tokens repeat exactly, which tests rely on. (TLS draws
//! its own randomness from the system.)
//!
//! reads   the seed, and the caller's time
//! writes  keys, connection ids, the time that Retry tokens are stamped with
//! memory  a few hundred bytes
//! source  keys and ids by HMAC-SHA-256 under the seed, with a label and a counter

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use quinn_proto::{ConnectionId, ConnectionIdGenerator, EndpointConfig, InvalidCid, TimeSource, VarInt};
use ring::{hkdf, hmac};

/// Bytes of a connection id: a nonce and a tag over it.
const CID_BYTES: usize = NONCE_BYTES + TAG_BYTES;
const NONCE_BYTES: usize = 5;
const TAG_BYTES: usize = 3;
const _: () = assert!(CID_BYTES == 8);

/// Draws labelled secrets from one seed.
pub(crate) struct Entropy(hmac::Key);

impl Entropy {
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, seed))
    }

    pub(crate) fn secret(&self, label: &str) -> [u8; 32] {
        let tag = hmac::sign(&self.0, label.as_bytes());
        tag.as_ref().try_into().expect("HMAC-SHA-256 has 32 bytes")
    }

    /// Key of Retry tokens.
    pub(crate) fn token_key(&self) -> hkdf::Prk {
        hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&self.secret("token"))
    }

    /// Endpoint settings whose every random choice follows from the seed.
    pub(crate) fn endpoint(&self, udp_payload_max: u16) -> EndpointConfig {
        let reset = hmac::Key::new(hmac::HMAC_SHA256, &self.secret("reset"));
        let cid_key = self.secret("connection id");
        let mut config = EndpointConfig::new(Arc::new(reset));
        config.rng_seed(Some(self.secret("endpoint"))).cid_generator(move || {
            Box::new(CidGenerator { key: hmac::Key::new(hmac::HMAC_SHA256, &cid_key), count: 0 })
        });
        config.max_udp_payload_size(udp_payload_max).expect("checked by the configuration");
        config
    }
}

/// Connection ids that no outsider can predict, and that we can recognise as ours.
struct CidGenerator {
    key: hmac::Key,
    count: u64,
}

impl CidGenerator {
    fn tag(&self, nonce: &[u8]) -> [u8; TAG_BYTES] {
        let tag = hmac::sign(&self.key, nonce);
        tag.as_ref()[..TAG_BYTES].try_into().expect("a prefix of the tag")
    }
}

impl ConnectionIdGenerator for CidGenerator {
    fn generate_cid(&mut self) -> ConnectionId {
        self.count += 1;
        let mut id = [0; CID_BYTES];
        let nonce = hmac::sign(&self.key, &self.count.to_le_bytes());
        id[..NONCE_BYTES].copy_from_slice(&nonce.as_ref()[..NONCE_BYTES]);
        let tag = self.tag(&id[..NONCE_BYTES]);
        id[NONCE_BYTES..].copy_from_slice(&tag);
        ConnectionId::new(&id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        if id.len() == CID_BYTES && id[NONCE_BYTES..] == self.tag(&id[..NONCE_BYTES]) {
            Ok(())
        } else {
            Err(InvalidCid)
        }
    }

    fn cid_len(&self) -> usize {
        CID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Client-chosen first destination ids, 20 bytes as RFC 9000 allows at most.
pub(crate) fn initial_cids(entropy: &Entropy) -> Arc<dyn Fn() -> ConnectionId + Send + Sync> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &entropy.secret("initial id"));
    let count = AtomicU64::new(0);
    Arc::new(move || {
        let n = count.fetch_add(1, Ordering::Relaxed);
        ConnectionId::new(&hmac::sign(&key, &n.to_le_bytes()).as_ref()[..20])
    })
}

/// The caller's time as the wall clock that Retry tokens are stamped with.
pub(crate) struct TokenClock {
    start: Instant,
    elapsed_ns: AtomicU64,
}

impl TokenClock {
    pub(crate) fn new(start: Instant) -> Arc<Self> {
        Arc::new(Self { start, elapsed_ns: AtomicU64::new(0) })
    }

    pub(crate) fn set(&self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.start).as_nanos() as u64;
        self.elapsed_ns.store(elapsed, Ordering::Relaxed);
    }
}

impl TimeSource for TokenClock {
    fn now(&self) -> SystemTime {
        // Tokens never leave this process's lifetime, so any fixed epoch will do.
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.elapsed_ns.load(Ordering::Relaxed))
    }
}

/// `n` as a QUIC integer, for the small constants of this crate.
pub(crate) fn varint(n: u32) -> VarInt {
    VarInt::from_u32(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_ids_repeat_with_the_seed_and_are_recognised() {
        let make = |seed: u8| {
            let key = Entropy::new(&[seed; 32]).secret("connection id");
            CidGenerator { key: hmac::Key::new(hmac::HMAC_SHA256, &key), count: 0 }
        };
        let (mut a, mut b, mut c) = (make(1), make(1), make(2));
        for _ in 0..100 {
            let id = a.generate_cid();
            assert_eq!(id, b.generate_cid());
            assert_ne!(id, c.generate_cid());
            assert!(b.validate(&id).is_ok());
            assert!(c.validate(&id).is_err(), "a foreign id is not ours (odds 2^-24)");
        }
    }
}
