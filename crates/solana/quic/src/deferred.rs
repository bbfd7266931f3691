//! deferred: a client's handshake whose signature is made elsewhere, later.
//!
//! In TLS 1.3 a client signs once it has the server's last message, Finished. That message is held back here until the
//! signature has arrived; then rustls receives it and uses the signature. The bytes to sign follow from the messages so
//! far, so nothing has to wait inside rustls.
//!
//! reads   handshake messages in the clear, as quinn passes them between the peer and rustls
//! writes  the 130 bytes that prove the client's identity, once signed; the same messages
//! memory  a server's flight: [`MESSAGE_MAX`] at most
//! drops   a handshake with a longer message, or with a HelloRetryRequest: it fails
//! source  RFC 8446, sections 4.4.1 to 4.4.3

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::crypto::{
    ClientConfig as CryptoConfig, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use ring::digest::{Context, SHA256};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

use crate::tls;

/// The client signs 64 spaces, this, a zero byte, and the hash of the messages so far.
const CONTEXT: &[u8; 33] = b"TLS 1.3, client CertificateVerify";
/// Length of the bytes that a client signs.
pub const TO_SIGN_BYTES: usize = 64 + CONTEXT.len() + 1 + 32;

const SERVER_HELLO: u8 = 2;
const CERTIFICATE: u8 = 11;
const CERTIFICATE_REQUEST: u8 = 13;
const FINISHED: u8 = 20;
/// The random bytes that mark a ServerHello as a HelloRetryRequest.
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11,
    0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
/// Maximum size of a reassembled message in bytes.
const MESSAGE_MAX: usize = 64 << 10;

/// Whether these bytes are what the client's side of a TLS 1.3 handshake signs.
pub fn is_client_handshake(bytes: &[u8]) -> bool {
    bytes.len() == TO_SIGN_BYTES
        && bytes[..64].iter().all(|byte| *byte == b' ')
        && bytes[64..].starts_with(CONTEXT)
        && bytes[64 + CONTEXT.len()] == 0
}

/// The signature of one handshake: first requested, then available.
#[derive(Default)]
pub(crate) struct HandshakeSignature(Mutex<State>);

#[derive(Default)]
struct State {
    message: Option<[u8; TO_SIGN_BYTES]>,
    is_asked: bool,
    signature: Option<[u8; 64]>,
    /// Why the handshake failed after it was signed, or because it will not be.
    failure: Option<String>,
}

impl fmt::Debug for HandshakeSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a handshake's signature")
    }
}

impl HandshakeSignature {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Takes the bytes to sign; returns them once.
    pub(crate) fn take_message(&self) -> Option<[u8; TO_SIGN_BYTES]> {
        let mut state = self.state();
        state.message.filter(|_| !std::mem::replace(&mut state.is_asked, true))
    }

    /// Supplies the Ed25519 signature, with which the handshake can go on.
    pub(crate) fn sign(&self, signature: [u8; 64]) {
        self.state().signature = Some(signature);
    }

    /// Declares that there will be no signature.
    pub(crate) fn refuse(&self) {
        self.state().failure = Some("the holder of the key refused to sign the handshake".into());
    }

    /// Takes the reason why the handshake failed after it was signed, or because it will not be; returns it once.
    pub(crate) fn take_failure(&self) -> Option<String> {
        self.state().failure.take()
    }

    pub(crate) fn is_signed(&self) -> bool {
        self.state().signature.is_some()
    }

    /// Alters the message, so that it differs from the one that rustls will need signed.
    #[cfg(test)]
    pub(crate) fn spoil_message(&self) {
        self.state().message = Some([0; TO_SIGN_BYTES]);
    }
}

/// The identity for one handshake, in rustls' interface.
#[derive(Debug)]
pub(crate) struct Identity {
    certificate: Vec<u8>,
    wanted: Arc<HandshakeSignature>,
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let key = Arc::new(Key(Arc::clone(&self.wanted)));
        Some(Arc::new(CertifiedKey::new(vec![CertificateDer::from(self.certificate.clone())], key)))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Key(Arc<HandshakeSignature>);

impl SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&SignatureScheme::ED25519).then(|| Box::new(Key(Arc::clone(&self.0))) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let state = self.0.state();
        match (&state.message, &state.signature) {
            (Some(wanted), Some(signature)) if wanted == message => Ok(signature.to_vec()),
            _ => Err(rustls::Error::General("the handshake is not the one that was signed".into())),
        }
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

/// The TLS settings of one handshake by the holder of `public_key`, and its pending signature.
pub(crate) fn config(
    public_key: &[u8; 32],
    alpn: &[u8],
) -> Result<(Arc<dyn CryptoConfig>, Arc<HandshakeSignature>), crate::ConfigError> {
    let wanted = Arc::new(HandshakeSignature::default());
    let certificate = tls::certificate(public_key);
    let identity = Identity { certificate: certificate.clone(), wanted: Arc::clone(&wanted) };
    let inner = Arc::new(QuicClientConfig::try_from(tls::client_of(Arc::new(identity), alpn)?)?);
    Ok((Arc::new(Config { inner, certificate, wanted: Arc::clone(&wanted) }), wanted))
}

struct Config {
    inner: Arc<QuicClientConfig>,
    certificate: Vec<u8>,
    wanted: Arc<HandshakeSignature>,
}

impl CryptoConfig for Config {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = Arc::clone(&self.inner).start_session(version, server_name, params)?;
        Ok(Box::new(DeferredSession {
            inner,
            certificate: self.certificate.clone(),
            wanted: Arc::clone(&self.wanted),
            transcript: Context::new(&SHA256),
            has_hello: false,
            partial: vec![],
            context: None,
            held: None,
            is_over: false,
        }))
    }
}

/// quinn's rustls session, which passes the server's Finished to rustls once the signature is available.
struct DeferredSession {
    inner: Box<dyn Session>,
    certificate: Vec<u8>,
    wanted: Arc<HandshakeSignature>,
    /// All messages so far.
    transcript: Context,
    has_hello: bool,
    /// The received part of a message.
    partial: Vec<u8>,
    /// The context of the server's certificate request; `None` if there was none.
    context: Option<Vec<u8>>,
    /// The server's Finished, while it is held back.
    held: Option<Vec<u8>>,
    /// Whether rustls has all messages of the handshake.
    is_over: bool,
}

impl DeferredSession {
    /// The bytes that the client signs, once the transcript contains the server's Finished.
    fn to_sign(&self, context: &[u8]) -> [u8; TO_SIGN_BYTES] {
        let length = |bytes: usize| [(bytes >> 16) as u8, (bytes >> 8) as u8, bytes as u8];
        let certificate = &self.certificate;
        let list = 3 + certificate.len() + 2;
        let mut message = vec![CERTIFICATE];
        message.extend(length(1 + context.len() + 3 + list));
        message.push(context.len() as u8);
        message.extend(context);
        message.extend(length(list));
        message.extend(length(certificate.len()));
        message.extend(certificate);
        // No extensions.
        message.extend([0, 0]);
        let mut transcript = self.transcript.clone();
        transcript.update(&message);
        let mut bytes = [b' '; TO_SIGN_BYTES];
        bytes[64..][..CONTEXT.len()].copy_from_slice(CONTEXT);
        bytes[64 + CONTEXT.len()] = 0;
        bytes[TO_SIGN_BYTES - 32..].copy_from_slice(transcript.finish().as_ref());
        bytes
    }

    /// The next whole message of the received bytes.
    fn next_message(&mut self) -> Result<Option<Vec<u8>>, TransportError> {
        let Some(head) = self.partial.first_chunk::<4>() else { return Ok(None) };
        let length = 4 + usize::from(head[1]) * 65_536 + usize::from(head[2]) * 256 + usize::from(head[3]);
        if length > MESSAGE_MAX {
            return Err(failure("a message that is too long"));
        }
        if self.partial.len() < length {
            return Ok(None);
        }
        let rest = self.partial.split_off(length);
        Ok(Some(std::mem::replace(&mut self.partial, rest)))
    }
}

/// The error of a failed handshake: TLS alert 40, `handshake_failure`, with `why` as its reason.
fn failure(why: &str) -> TransportError {
    TransportError { code: TransportErrorCode::crypto(40), frame: None, reason: why.into() }
}

impl Session for DeferredSession {
    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        if self.is_over {
            return self.inner.read_handshake(bytes);
        }
        if self.held.is_some() {
            return Err(failure("a message behind the last"));
        }
        self.partial.extend_from_slice(bytes);
        let mut is_ready = false;
        while let Some(message) = self.next_message()? {
            self.transcript.update(&message);
            // The keys change after these two. rustls gets whole messages, so it cannot see what arrived with them.
            if [SERVER_HELLO, FINISHED].contains(&message[0]) && !self.partial.is_empty() {
                return Err(failure("a message that spans a change of keys"));
            }
            match message[0] {
                SERVER_HELLO if message.get(6..38) == Some(&RETRY) => {
                    return Err(failure("the server wants another hello"));
                }
                CERTIFICATE_REQUEST => {
                    let context = message.get(5..).and_then(|rest| rest.get(..usize::from(message[4])));
                    self.context = Some(context.ok_or_else(|| failure("a broken request"))?.to_vec());
                }
                FINISHED => match &self.context {
                    Some(context) => {
                        self.wanted.state().message = Some(self.to_sign(context));
                        self.held = Some(message);
                        return Ok(is_ready);
                    }
                    None => self.is_over = true,
                },
                _ => {}
            }
            is_ready |= self.inner.read_handshake(&message)?;
        }
        Ok(is_ready)
    }

    fn write_handshake(&mut self, buffer: &mut Vec<u8>) -> Option<Keys> {
        if self.held.is_some() && self.wanted.is_signed() {
            let held = self.held.take().expect("it is there");
            self.is_over = true;
            // quinn does not accept an error here, so the client polls for it.
            self.wanted.state().failure = self.inner.read_handshake(&held).err().map(|error| error.to_string());
        }
        let before = buffer.len();
        let keys = self.inner.write_handshake(buffer);
        if !self.has_hello && buffer.len() > before {
            self.has_hello = true;
            self.transcript.update(&buffer[before..]);
        }
        keys
    }

    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.inner.next_1rtt_keys()
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session that accepts every message but Finished.
    struct RefusesFinished;

    impl Session for RefusesFinished {
        fn read_handshake(&mut self, message: &[u8]) -> Result<bool, TransportError> {
            if message[0] == FINISHED { Err(failure("refused")) } else { Ok(false) }
        }

        fn write_handshake(&mut self, _: &mut Vec<u8>) -> Option<Keys> {
            None
        }

        fn initial_keys(&self, _: &ConnectionId, _: Side) -> Keys {
            unreachable!()
        }

        fn handshake_data(&self) -> Option<Box<dyn Any>> {
            None
        }

        fn peer_identity(&self) -> Option<Box<dyn Any>> {
            None
        }

        fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
            None
        }

        fn early_data_accepted(&self) -> Option<bool> {
            None
        }

        fn is_handshaking(&self) -> bool {
            true
        }

        fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
            Ok(None)
        }

        fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
            None
        }

        fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
            false
        }

        fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
            Err(ExportKeyingMaterialError)
        }
    }

    fn deferred() -> DeferredSession {
        DeferredSession {
            inner: Box::new(RefusesFinished),
            certificate: vec![],
            wanted: Arc::default(),
            transcript: Context::new(&SHA256),
            has_hello: true,
            partial: vec![],
            context: None,
            held: None,
            is_over: false,
        }
    }

    fn message(kind: u8) -> Vec<u8> {
        [&[kind, 0, 0, 40][..], &[0; 40]].concat()
    }

    #[test]
    fn a_message_must_not_span_a_change_of_keys() {
        for before in [vec![message(SERVER_HELLO)], vec![message(CERTIFICATE_REQUEST), message(FINISHED)]] {
            let whole = before.concat();
            assert!(deferred().read_handshake(&whole).is_ok());
            let mut longer = whole.clone();
            longer.push(CERTIFICATE);
            let error = deferred().read_handshake(&longer).unwrap_err();
            assert!(error.reason.contains("spans a change of keys"), "{error}");
            // In pieces it is the same.
            let mut session = deferred();
            assert!(session.read_handshake(&longer[..10]).is_ok());
            assert!(session.read_handshake(&longer[10..]).is_err());
        }
    }

    #[test]
    fn failure_after_the_signature_is_reported_once() {
        let mut session = deferred();
        session.read_handshake(&[message(CERTIFICATE_REQUEST), message(FINISHED)].concat()).unwrap();
        assert!(session.wanted.take_message().is_some());
        session.write_handshake(&mut vec![]);
        assert_eq!(session.wanted.take_failure(), None, "nothing goes on without the signature");
        session.wanted.sign([1; 64]);
        session.write_handshake(&mut vec![]);
        assert!(session.wanted.take_failure().unwrap().contains("refused"));
        assert_eq!(session.wanted.take_failure(), None);
    }

    #[test]
    fn only_a_handshake_is_one() {
        let mut bytes = [b' '; TO_SIGN_BYTES];
        bytes[64..97].copy_from_slice(CONTEXT);
        bytes[97] = 0;
        assert!(is_client_handshake(&bytes));
        assert!(!is_client_handshake(&bytes[1..]));
        for at in [0, 63, 64, 80, 97] {
            let mut other = bytes;
            other[at] ^= 1;
            assert!(!is_client_handshake(&other), "{at}");
        }
        // A server's has another context.
        let mut server = bytes;
        server[73..79].copy_from_slice(b"server");
        assert!(!is_client_handshake(&server));
    }
}
