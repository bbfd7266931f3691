use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::time::Duration;

use hearth_tile::rig::Rig;

use super::*;

/// Answers one connection's requests from a list, then hangs up.
fn server(answers: Vec<String>) -> (SocketAddr, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = vec![];
        for answer in answers {
            let mut buffer = [0; 4096];
            let size = stream.read(&mut buffer).unwrap();
            asked.push(String::from_utf8_lossy(&buffer[..size]).into_owned());
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
            stream.write_all((head + &answer).as_bytes()).unwrap();
        }
        asked
    });
    (address, thread)
}

fn until(rig: &mut Rig<Bencho>, done: impl Fn(&Counters) -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    while !done(rig.count()) {
        rig.turn();
        assert!(std::time::Instant::now() < deadline, "{:?}", rig.count());
    }
}

#[test]
fn answers_become_samples_and_blockhashes() {
    let text = hearth_wire::base58::encode_32(&[8; 32]);
    let hash = format!(r#"{{"result":{{"value":{{"blockhash":"{}"}}}}}}"#, &*text);
    let (rpc, asked) = server(vec![r#"{"result":42}"#.into(), hash]);
    let (sender, samples) = channel();
    let mut rig = Rig::<Bencho>::new(&Config { rpc, samples: sender }, &[], &["bencho_benchg"]);
    until(&mut rig, |count| count.answers == 2);
    assert_eq!(samples.try_recv().unwrap(), Sample { at_ns: 0, transaction_count: 42 });
    assert_eq!(rig.take("bencho_benchg"), [(0, vec![8; 32])]);
    let asked = asked.join().unwrap();
    assert!(asked[0].contains("getTransactionCount") && asked[1].contains("getLatestBlockhash"), "{asked:?}");
}

#[test]
fn a_server_that_answers_nonsense_or_goes_away_is_counted() {
    let (rpc, asked) = server(vec![r#"{"error":"no"}"#.into()]);
    let (sender, samples) = channel();
    let mut rig = Rig::<Bencho>::new(&Config { rpc, samples: sender }, &[], &["bencho_benchg"]);
    until(&mut rig, |count| count.failed == 1);
    asked.join().unwrap();
    // The listener is gone: the next question cannot even be asked.
    until(&mut rig, |count| count.failed == 2);
    assert!(samples.try_recv().is_err());
    assert_eq!(rig.count().answers, 0);
}
