//! TLS as the TPU protocol uses it: keys are identities, certificates only carry them.
//!
//! Each side shows a certificate of one fixed form whose only meaningful field is an ed25519 public
//! key. Its own signature is 64 bytes of 0xff, invalid on purpose; what proves possession of the key
//! is TLS 1.3's CertificateVerify, which both verifiers here do check.
//!
//! reads   a 32-byte ed25519 seed; the peer's certificate
//! writes  rustls configurations; the peer's key
//! memory  one certificate (249 B) and key a side
//! drops   a handshake with a bad CertificateVerify or another ALPN fails inside rustls and is counted
//!         by the server as `handshakes_failed`
//! source  RFC 5280 and 8410 for the DER; the certificate form of Agave's solana-tls-utils

use std::sync::Arc;

use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WantsClientCert};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CipherSuite, ConfigBuilder, DigitallySignedStruct, DistinguishedName, Error, NamedGroup, PeerIncompatible,
    SignatureScheme,
};

use crate::ALPN_TPU;

/// Everything before the public key: the outer headers, version 3, serial 0x01 × 8, ed25519,
/// issuer CN "Solana node", validity 1970 to 4096, empty subject, the key's own header.
const CERTIFICATE_HEAD: [u8; 100] = *b"\
\x30\x81\xf6\
\x30\x81\xa9\
\xa0\x03\x02\x01\x02\
\x02\x08\x01\x01\x01\x01\x01\x01\x01\x01\
\x30\x05\x06\x03\x2b\x65\x70\
\x30\x16\x31\x14\x30\x12\x06\x03\x55\x04\x03\x0c\x0bSolana node\
\x30\x20\x17\x0d700101000000Z\x18\x0f40960101000000Z\
\x30\x00\
\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

/// Everything between the key and the signature: SAN "localhost", empty basic constraints (both
/// critical), the signature's algorithm and header.
const CERTIFICATE_TAIL: [u8; 53] = *b"\
\xa3\x29\x30\x27\
\x30\x17\x06\x03\x55\x1d\x11\x01\x01\xff\x04\x0d\x30\x0b\x82\x09localhost\
\x30\x0c\x06\x03\x55\x1d\x13\x01\x01\xff\x04\x02\x30\x00\
\x30\x05\x06\x03\x2b\x65\x70\x03\x41\x00";

/// PKCS#8 version 1 header of an ed25519 private key (RFC 8410, section 7).
const PKCS8_HEAD: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";

const CERTIFICATE_BYTES: usize = CERTIFICATE_HEAD.len() + 32 + CERTIFICATE_TAIL.len() + 64;
const _: () = assert!(CERTIFICATE_BYTES == 3 + 0xf6, "the outer length must match");

/// The certificate that carries `public_key`, in DER.
pub fn certificate(public_key: &[u8; 32]) -> Vec<u8> {
    let mut der = Vec::with_capacity(CERTIFICATE_BYTES);
    der.extend_from_slice(&CERTIFICATE_HEAD);
    der.extend_from_slice(public_key);
    der.extend_from_slice(&CERTIFICATE_TAIL);
    der.extend_from_slice(&[0xff; 64]);
    der
}

/// The private key of `seed`, as PKCS#8 version 1 DER.
pub fn private_key(seed: &[u8; 32]) -> Vec<u8> {
    [&PKCS8_HEAD[..], seed].concat()
}

/// The ed25519 public key of `seed`.
pub fn public_key(seed: &[u8; 32]) -> [u8; 32] {
    let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("any 32 bytes are a seed");
    pair.public_key().as_ref().try_into().expect("an ed25519 key has 32 bytes")
}

/// The ed25519 key in the SubjectPublicKeyInfo of a certificate, if it holds one.
///
/// Any certificate will do, not only our own form. `None` for another kind of key or broken DER.
pub fn peer_key(certificate: &[u8]) -> Option<[u8; 32]> {
    const SEQUENCE: u8 = 0x30;
    const ED25519: &[u8] = b"\x06\x03\x2b\x65\x70";
    let (outer, _) = element(certificate, SEQUENCE)?;
    let (mut tbs, _) = element(outer, SEQUENCE)?;
    if let Some((_, rest)) = element(tbs, 0xa0) {
        tbs = rest; // version, absent in version 1
    }
    // Serial number, signature algorithm, issuer, validity, subject.
    for tag in [0x02, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE] {
        tbs = element(tbs, tag)?.1;
    }
    let (info, _) = element(tbs, SEQUENCE)?;
    let (algorithm, info) = element(info, SEQUENCE)?;
    let (bits, rest) = element(info, 0x03)?;
    if algorithm != ED25519 || !rest.is_empty() {
        return None;
    }
    let (&unused_bits, key) = bits.split_first()?;
    if unused_bits != 0 { None } else { key.try_into().ok() }
}

/// Splits a DER element with this tag off `der`: its content, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&have, der) = der.split_first()?;
    let (&first, mut der) = der.split_first()?;
    if have != tag {
        return None;
    }
    let mut length = usize::from(first);
    if first >= 0x80 {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 3 {
            return None;
        }
        let (bytes, rest) = der.split_at_checked(count)?;
        length = bytes.iter().fold(0, |n, &b| n << 8 | usize::from(b));
        der = rest;
    }
    der.split_at_checked(length)
}

/// *ring*'s algorithms: X25519 only, and the cheapest cipher first.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.kx_groups.retain(|group| group.name() == NamedGroup::X25519);
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

fn identity(seed: &[u8; 32]) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from(certificate(&public_key(seed)));
    (certificate, PrivatePkcs8KeyDer::from(private_key(seed)).into())
}

/// The server's TLS settings. `seed` is the server's own, best ephemeral, key.
pub(crate) fn server(seed: &[u8; 32]) -> Result<rustls::ServerConfig, Error> {
    let provider = provider();
    let (certificate, key) = identity(seed);
    let mut config = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(KeyIsIdentity(provider)))
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![ALPN_TPU.to_vec()];
    config.ignore_client_order = true;
    // A resumed session would save the peer 100 µs and cost us memory for each.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(config)
}

/// The client's TLS settings. `seed` is its identity key; without one it shows no certificate.
pub(crate) fn client(seed: Option<&[u8; 32]>, alpn: &[u8]) -> Result<rustls::ClientConfig, Error> {
    let builder = client_builder(provider())?;
    let config = match seed {
        Some(seed) => {
            let (certificate, key) = identity(seed);
            builder.with_client_auth_cert(vec![certificate], key)?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(for_tpu(config, alpn))
}

/// The TLS settings of a client whose signature `identity` knows: its transcripts are hashed by SHA-256.
pub(crate) fn client_of(identity: Arc<dyn ResolvesClientCert>, alpn: &[u8]) -> Result<rustls::ClientConfig, Error> {
    let mut provider = CryptoProvider::clone(&provider());
    provider.cipher_suites.retain(|suite| suite.suite() != CipherSuite::TLS13_AES_256_GCM_SHA384);
    let config = client_builder(Arc::new(provider))?.with_client_cert_resolver(identity);
    Ok(for_tpu(config, alpn))
}

fn client_builder(
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<rustls::ClientConfig, WantsClientCert>, Error> {
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(KeyIsIdentity(provider))))
}

fn for_tpu(mut config: rustls::ClientConfig, alpn: &[u8]) -> rustls::ClientConfig {
    config.alpn_protocols = vec![alpn.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    config
}

/// Takes any certificate, and checks that the peer holds the private key of the one it shows.
#[derive(Debug)]
struct KeyIsIdentity(Arc<CryptoProvider>);

/// The part that both verifiers have in common: what the key must have signed.
macro_rules! checks_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ClientCertVerifier for KeyIsIdentity {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    checks_signatures!();
}

impl ServerCertVerifier for KeyIsIdentity {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    checks_signatures!();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn key_round_trips(key: [u8; 32]) {
            prop_assert_eq!(peer_key(&certificate(&key)), Some(key));
        }

        #[test]
        fn cut_or_changed_certificates_never_panic(
            key: [u8; 32], cut in 0usize..249, at in 0usize..249, value: u8,
        ) {
            let mut der = certificate(&key);
            prop_assert_eq!(peer_key(&der[..cut]), None);
            der[at] = value;
            let _ = peer_key(&der);
        }

        #[test]
        fn any_bytes_never_panic(der in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = peer_key(&der);
        }
    }

    /// Object identifier 1.3.101.110 is X25519 (RFC 8410, section 3): a key, but no identity.
    #[test]
    fn key_kind_matters() {
        let mut der = certificate(&[7; 32]);
        let algorithm = CERTIFICATE_HEAD.len() - 4;
        assert_eq!(der[algorithm], 0x70);
        der[algorithm] = 0x6e;
        assert_eq!(peer_key(&der), None);
    }
}
