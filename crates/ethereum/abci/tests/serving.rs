//! The server as CometBFT uses it: four connections, flushes, invalid frames, an application that fails.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hearth_abci::application::Answer;
use hearth_abci::client::ClientError;
use hearth_abci::server::Limits;
use hearth_abci::{Address, Application, Bytes, Client, Exception, Server, request, response};
use hearth_testkit::wait_until;
use parking_lot::{Condvar, Mutex};
use proptest::prelude::*;

/// An application whose blocks wait at a gate, so that a test can observe concurrent requests.
#[derive(Default)]
struct GatedApplication {
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default)]
struct Gate {
    is_open: bool,
    /// Whether a block has reached the gate.
    is_reached: bool,
}

impl GatedApplication {
    fn set_open(&self) {
        self.gate.lock().is_open = true;
        self.changed.notify_all();
    }
}

impl Application for GatedApplication {
    fn info(&self, _: request::Info) -> Answer<response::Info> {
        Ok(response::Info { last_block_height: 7, ..Default::default() })
    }
    fn init_chain(&self, _: request::InitChain) -> Answer<response::InitChain> {
        Err(Exception::new("no such genesis"))
    }
    fn query(&self, request: request::Query) -> Answer<response::Query> {
        assert_ne!(request.path, "/panic", "asked for");
        Ok(response::Query::found(request.data.clone(), request.data, request.height))
    }
    fn check_tx(&self, request: request::CheckTx) -> Answer<response::CheckTx> {
        Ok(response::CheckTx { data: request.tx, ..Default::default() })
    }
    fn prepare_proposal(&self, request: request::PrepareProposal) -> Answer<response::PrepareProposal> {
        Ok(response::PrepareProposal { txs: request.txs })
    }
    fn process_proposal(&self, _: request::ProcessProposal) -> Answer<response::ProcessProposal> {
        Ok(response::ProcessProposal { status: response::Proposal::Accept.into() })
    }
    fn finalize_block(&self, _: request::FinalizeBlock) -> Answer<response::FinalizeBlock> {
        let mut gate = self.gate.lock();
        gate.is_reached = true;
        self.changed.notify_all();
        self.changed.wait_while(&mut gate, |gate| !gate.is_open);
        Ok(response::FinalizeBlock { app_hash: Bytes::from_static(&[9; 32]), ..Default::default() })
    }
    fn commit(&self, _: request::Commit) -> Answer<response::Commit> {
        Ok(response::Commit { retain_height: 3 })
    }
}

fn served(address: &str) -> (Arc<GatedApplication>, Server) {
    let application = Arc::new(GatedApplication::default());
    let server = Server::start(&address.parse().unwrap(), application.clone(), Limits::default()).unwrap();
    (application, server)
}

fn echo(client: &mut Client, word: &str) -> Result<String, ClientError> {
    match client.call(request::Value::Echo(request::Echo { message: word.into() }))? {
        response::Value::Echo(echo) => Ok(echo.message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn check_continues_while_a_block_is_executed() {
    let folder = tempfile::tempdir().unwrap();
    for address in [format!("unix://{}/a.sock", folder.path().display()), "tcp://127.0.0.1:0".into()] {
        let (application, server) = served(&address);
        let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(server.address()).unwrap()).collect();
        let [consensus, mempool, query, snapshot] = &mut clients[..] else { unreachable!() };
        consensus.send(request::Value::FinalizeBlock(request::FinalizeBlock::default())).unwrap();
        consensus.flush().unwrap();
        application.changed.wait_while(&mut application.gate.lock(), |gate| !gate.is_reached);
        // The block waits at its gate.
        let check = request::CheckTx { tx: Bytes::from_static(b"transfer"), r#type: 0 };
        let checked = mempool.call(request::Value::CheckTx(check)).unwrap();
        assert!(matches!(checked, response::Value::CheckTx(check) if check.data == b"transfer"[..]));
        let asked = request::Query { height: 5, ..Default::default() };
        let asked = query.call(request::Value::Query(asked)).unwrap();
        assert!(matches!(asked, response::Value::Query(answer) if answer.height == 5));
        let listed = snapshot.call(request::Value::ListSnapshots(request::ListSnapshots {})).unwrap();
        assert!(matches!(listed, response::Value::ListSnapshots(_)));
        application.set_open();
        let done = consensus.receive().unwrap();
        assert!(matches!(done, response::Value::FinalizeBlock(done) if done.app_hash == [9; 32][..]));
        assert!(matches!(consensus.receive().unwrap(), response::Value::Flush(_)));
    }
}

#[test]
fn many_requests_before_one_flush_are_answered_in_order() {
    let (_application, server) = served("tcp://127.0.0.1:0");
    let mut client = Client::connect(server.address()).unwrap();
    let tx = |number: u32| Bytes::copy_from_slice(&number.to_be_bytes());
    for number in 0..5_000 {
        client.send(request::Value::CheckTx(request::CheckTx { tx: tx(number), r#type: 0 })).unwrap();
    }
    client.flush().unwrap();
    for number in 0..5_000 {
        let answer = client.receive().unwrap();
        assert!(matches!(answer, response::Value::CheckTx(check) if check.data == tx(number)));
    }
    assert!(matches!(client.receive().unwrap(), response::Value::Flush(_)));
}

#[test]
fn a_bad_frame_closes_its_connection_and_no_other() {
    let (_application, server) = served("tcp://127.0.0.1:0");
    let mut good = Client::connect(server.address()).unwrap();
    for (count, bytes) in [&[0xff; 12][..], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[3, 0x42, 9, 9]].iter().enumerate() {
        let mut bad = Client::connect(server.address()).unwrap();
        bad.send_bytes(bytes).unwrap();
        assert!(matches!(bad.receive(), Err(ClientError::Closed | ClientError::Frame(_))));
        wait_until("the frame is counted", || server.counters().frames_bad.load(Ordering::Relaxed) == count as u64 + 1);
        assert_eq!(echo(&mut good, "still").unwrap(), "still");
    }
    // A request of a later protocol.
    let mut later = Client::connect(server.address()).unwrap();
    later.send_bytes(&[3, 0xf2, 0x07, 0]).unwrap();
    assert!(matches!(later.receive(), Err(ClientError::Exception(_))));
    assert!(matches!(later.receive(), Err(ClientError::Closed)));
}

#[test]
fn an_exception_and_a_panic_end_their_connection() {
    let (_application, server) = served("tcp://127.0.0.1:0");
    let mut first = Client::connect(server.address()).unwrap();
    first.send(request::Value::InitChain(request::InitChain::default())).unwrap();
    assert!(matches!(first.receive(), Err(ClientError::Exception(why)) if why == "no such genesis"));
    assert!(matches!(first.receive(), Err(ClientError::Closed)));
    let mut second = Client::connect(server.address()).unwrap();
    let request = request::Query { path: "/panic".into(), ..Default::default() };
    assert!(second.call(request::Value::Query(request)).is_err());
    wait_until("both are gone", || server.connections() == 0);
    let mut third = Client::connect(server.address()).unwrap();
    assert_eq!(echo(&mut third, "here").unwrap(), "here");
}

#[test]
fn connections_are_bounded_and_a_stop_ends_them() {
    let folder = tempfile::tempdir().unwrap();
    let address = Address::Unix(folder.path().join("a.sock"));
    let limits = Limits { connections_max: 2, ..Limits::default() };
    let mut server = Server::start(&address, Arc::new(GatedApplication::default()), limits).unwrap();
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(&address).unwrap()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(echo(client, "a").unwrap(), "a"));
    let mut third = Client::connect(&address).unwrap();
    assert!(echo(&mut third, "b").is_err());
    clients.pop();
    wait_until("there is room", || server.connections() == 1);
    assert_eq!(echo(&mut Client::connect(&address).unwrap(), "c").unwrap(), "c");
    server.stop();
    assert!(echo(&mut clients[0], "d").is_err());
    assert!(Client::connect(&address).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_comes_the_server_lives(bytes in prop::collection::vec(any::<u8>(), 1..400)) {
        let (_application, server) = served("tcp://127.0.0.1:0");
        let mut bad = Client::connect(server.address()).unwrap();
        // It may be closed half way.
        let _ = bad.send_bytes(&bytes);
        drop(bad);
        wait_until("it is gone", || server.connections() == 0);
        let mut good = Client::connect(server.address()).unwrap();
        prop_assert_eq!(echo(&mut good, "here").unwrap(), "here");
    }
}
