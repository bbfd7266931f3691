//! Reused lines, and handshakes that fail unnoticed by quinn.

use super::*;
use crate::{Server, ServerConfig};

fn address() -> SocketAddr {
    "10.0.0.1:8009".parse().unwrap()
}

fn client(now: Instant) -> (Client, ClientConnectionId) {
    let mut client = Client::with_signer(ClientConfig::default(), tls::public_key(&[7; 32]), &[5; 32]).unwrap();
    let id = client.connect(now, address());
    (client, id)
}

/// Exchanges datagrams without delay until there are none.
fn carry(now: Instant, client: &mut Client, server: &mut Server) {
    let from = "10.0.0.2:9000".parse().unwrap();
    let mut buffer = vec![];
    loop {
        let mut is_idle = true;
        while let Some(sent) = client.poll_transmit(now, &mut buffer) {
            for datagram in buffer.chunks(sent.segment_size.unwrap_or(sent.len)) {
                server.handle_datagram(now, from, None, datagram);
            }
            is_idle = false;
        }
        while server.poll_transmit(now, &mut buffer).is_some() {
            client.handle_datagram(now, address(), None, &buffer);
            is_idle = false;
        }
        if is_idle {
            return;
        }
    }
}

#[test]
fn a_failure_behind_the_signature_is_reported_at_once() {
    let now = Instant::now();
    let mut server = Server::new(ServerConfig::agave(), &[3; 32], &[4; 32], now).unwrap();
    let (mut client, id) = client(now);
    carry(now, &mut client, &mut server);
    let (handshake, _) = client.next_to_sign().unwrap();
    // rustls will need another message signed than the one that was.
    client.lines[0].wanted.as_ref().unwrap().spoil_message();
    client.signed(handshake, [1; 64]);
    carry(now, &mut client, &mut server);
    assert_eq!(client.state(id), ConnectionState::Waiting);
    assert_eq!(client.counters().disconnected, 1);
    let error = client.last_error(id).unwrap();
    assert!(error.contains("is not the one that was signed"), "{error}");
    assert_eq!(server.half_open_count(), 0, "the server learns it too");
    assert_eq!(server.counters().handshakes_failed, 1);
    // It tries again after the pause, and that handshake is another.
    let later = now + client.config.reconnect_initial;
    client.handle_timeout(later);
    assert_eq!(client.state(id), ConnectionState::Connecting);
    carry(later, &mut client, &mut server);
    let (again, _) = client.next_to_sign().unwrap();
    assert_ne!(again, handshake);
}

#[test]
fn refused_handshake_ends_and_is_tried_again() {
    let now = Instant::now();
    let mut server = Server::new(ServerConfig::agave(), &[3; 32], &[4; 32], now).unwrap();
    let (mut client, id) = client(now);
    carry(now, &mut client, &mut server);
    let (refused, _) = client.next_to_sign().unwrap();
    client.refused(now, refused);
    carry(now, &mut client, &mut server);
    assert_eq!(client.state(id), ConnectionState::Waiting);
    assert_eq!(client.counters().disconnected, 1);
    let error = client.last_error(id).unwrap();
    assert!(error.contains("refused to sign"), "{error}");
    let later = now + client.config.reconnect_initial;
    client.handle_timeout(later);
    carry(later, &mut client, &mut server);
    let (again, _) = client.next_to_sign().unwrap();
    assert_ne!(again, refused);
    client.refused(later, refused);
    assert_eq!(client.state(id), ConnectionState::Connecting, "an answer for another handshake ends none");
}

#[test]
fn an_id_names_one_connection_for_ever() {
    let now = Instant::now();
    let (mut client, first) = client(now);
    client.close(now, first);
    while client.poll_transmit(now, &mut vec![]).is_some() {}
    let second = client.connect(now, address());
    assert_eq!(client.lines.len(), 1, "the line is used again");
    assert_ne!(first, second);
    assert_eq!(client.state(first), ConnectionState::Closed);
    assert_eq!(client.state(second), ConnectionState::Connecting);
    assert_eq!(client.last_error(first), None);
    assert_eq!(client.send_transaction_on(first, b"for the first"), Err(WouldBlock));
    client.close(now, first);
    assert_eq!(client.state(second), ConnectionState::Connecting, "the second one is not closed with the first");
}

#[test]
fn a_signature_for_a_closed_connection_is_not_used() {
    let now = Instant::now();
    let mut server = Server::new(ServerConfig::agave(), &[3; 32], &[4; 32], now).unwrap();
    let (mut client, first) = client(now);
    carry(now, &mut client, &mut server);
    let (old, _) = client.next_to_sign().unwrap();
    client.close(now, first);
    carry(now, &mut client, &mut server);
    client.connect(now, address());
    client.signed(old, [1; 64]);
    assert!(!client.lines[0].wanted.as_ref().unwrap().is_signed());
    carry(now, &mut client, &mut server);
    let (new, _) = client.next_to_sign().unwrap();
    assert_ne!(new, old);
    client.signed(new, [1; 64]);
    assert!(client.lines[0].wanted.as_ref().unwrap().is_signed());
}
