//! The protocol line by line, and the socket under hostile clients.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use hearth_pipeline::identity::IdentityWatch;
use hearth_testkit::wait_until;
use hearth_wire::gossip::Version;

use super::server::CALLS_MAX;
use super::*;

fn state() -> (AdminState, StopSignal) {
    let stop = StopSignal::default();
    (AdminState::new(&stop), stop)
}

fn answered(state: &AdminState, line: &str) -> Value {
    let Reply { line, ends_node } = state.answer(line.as_bytes());
    assert!(line.ends_with('\n') && !ends_node, "{line}");
    serde_json::from_str(&line).unwrap()
}

fn request(method: &str) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": [], "id": 7 }).to_string()
}

fn result(state: &AdminState, method: &str) -> Value {
    let answer = answered(state, &request(method));
    assert_eq!(answer["id"], 7, "{answer}");
    answer["result"].clone()
}

fn code(state: &AdminState, line: &str) -> i64 {
    answered(state, line)["error"]["code"].as_i64().unwrap()
}

/// A node that is in a cluster.
fn facts() -> Facts {
    let version = Version { major: 1, minor: 2, patch: 3, commit: 0, feature_set: 0, client: 0 };
    let own = ContactInfo::new([3; 32], 0, 77, version).with(SocketKind::Gossip, "127.0.0.1:8001".parse().unwrap());
    Facts {
        rpc: "127.0.0.1:8899".parse().unwrap(),
        takes_snapshots: true,
        gossip: Some((own, Arc::new(Board::default()))),
        voters: None,
        identity: None,
    }
}

#[test]
fn methods_answer_by_the_stage_of_the_start() {
    let (state, stop) = state();
    assert_eq!(result(&state, "pid"), json!(std::process::id()));
    assert_eq!(result(&state, "startProgress"), json!("Initializing"));
    assert_eq!(result(&state, "rpcAddress"), Value::Null);
    assert!(result(&state, "startTime")["secs_since_epoch"].as_u64() > Some(0));
    for method in ["contactInfo", "isGeneratingSnapshots"] {
        let refused = answered(&state, &request(method));
        assert_eq!(refused["error"]["code"], INVALID_PARAMS);
        assert_eq!(refused["error"]["message"], "Retry once validator start up is complete");
    }
    for (stage, name) in [
        (Stage::Joining, "SearchingForRpcService"),
        (Stage::Loading, "LoadingLedger"),
        (Stage::Starting, "StartingServices"),
        (Stage::Running(facts()), "Running"),
    ] {
        state.enter(stage);
        assert_eq!(result(&state, "startProgress"), json!(name));
    }
    assert_eq!(result(&state, "rpcAddress"), json!("127.0.0.1:8899"));
    assert_eq!(result(&state, "isGeneratingSnapshots"), json!(true));
    let contact = result(&state, "contactInfo");
    assert_eq!(contact["id"], encode_32(&[3; 32]).to_string());
    assert_eq!(contact["gossip"], "127.0.0.1:8001");
    assert_eq!(contact["rpc"], "0.0.0.0:0");
    assert_eq!(contact["shred_version"], 77);
    state.enter(Stage::Running(Facts { gossip: None, ..facts() }));
    assert_eq!(code(&state, &request("contactInfo")), INVALID_PARAMS);
    assert!(!stop.is_set());
}

#[test]
fn exit_ends_the_node_after_its_answer() {
    let (state, stop) = state();
    let reply = state.answer(request("exit").as_bytes());
    assert!(reply.ends_node && !stop.is_set());
    assert_eq!(serde_json::from_str::<Value>(&reply.line).unwrap()["result"], Value::Null);
    state.end_node();
    assert!(stop.is_set());
}

#[test]
fn invalid_request_gets_an_error() {
    let (state, _) = state();
    for line in ["{", "exit", "{\"id\":1,}", "\u{0}", &"[".repeat(10_000)] {
        assert_eq!(code(&state, line), PARSE_ERROR, "{line}");
    }
    for line in [
        "1",
        "null",
        "\"exit\"",
        "[]",
        r#"[{"jsonrpc":"2.0","method":"exit","id":1}]"#,
        r#"{"method":"exit"}"#,
        r#"{"method":"exit","id":null}"#,
        r#"{"method":"exit","id":{}}"#,
        r#"{"method":7,"id":1}"#,
        r#"{"id":1}"#,
    ] {
        assert_eq!(code(&state, line), INVALID_REQUEST, "{line}");
    }
    for method in ["", "Exit", "exit ", "setPublicAddress", "getSlot"] {
        assert_eq!(code(&state, &request(method)), METHOD_NOT_FOUND, "{method}");
    }
    for params in ["[1]", "{\"a\":1}", "7", "\"a\""] {
        let line = format!(r#"{{"method":"exit","id":"a","params":{params}}}"#);
        let refused = answered(&state, &line);
        assert_eq!(refused["error"]["code"], INVALID_PARAMS, "{line}");
        assert_eq!(refused["id"], "a");
    }
    for params in ["null", "[]", "{}"] {
        let line = format!(r#"{{"method":"pid","id":1,"params":{params}}}"#);
        assert!(answered(&state, &line)["result"].is_u64(), "{line}");
    }
}

#[test]
fn every_listed_method_is_served() {
    let (state, _) = state();
    state.enter(Stage::Running(facts()));
    // These two need a desk.
    let has_desk = |method: &str| method.ends_with("AuthorizedVoters") || method == "identityStatus";
    for (method, count) in METHODS.iter().filter(|(method, _)| !has_desk(method)) {
        assert_eq!(state.call(method, &[]).is_ok(), *count == 0, "{method}");
    }
}

#[test]
fn voters_are_added_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("voter.json");
    let voter = keys::create(&path).unwrap().public;
    let (state, _) = state();
    let add = |path: &Path| {
        let line = json!({ "method": "addAuthorizedVoter", "params": [path], "id": 1 }).to_string();
        answered(&state, &line)
    };
    assert_eq!(add(&path)["error"]["message"], "Retry once validator start up is complete");
    state.enter(Stage::Running(facts()));
    assert_eq!(add(&path)["error"]["message"], NO_CLUSTER, "a node alone signs by its identity");
    let (desk, voters, _keys) = VoterDesk::new([3; 32], vec![]);
    state.enter(Stage::Running(Facts { voters: Some(Arc::new(desk)), ..facts() }));
    assert_eq!(add(&path)["result"], Value::Null);
    assert_eq!(voters.choose(Some(&voter), &[3; 32]), Some(voter));
    assert_eq!(add(&path)["error"]["message"], "Authorized voter already present");
    let missing = add(&folder.path().join("none.json"));
    assert!(missing["error"]["message"].as_str().is_some_and(|why| why.contains("none.json")), "{missing}");
    assert_eq!(add(Path::new("/dev/null"))["error"]["message"], "/dev/null is not a file");
    assert_eq!(code(&state, r#"{"method":"addAuthorizedVoter","params":[],"id":1}"#), INVALID_PARAMS);
    assert_eq!(code(&state, r#"{"method":"addAuthorizedVoter","params":[7],"id":1}"#), INVALID_PARAMS);
    assert_eq!(result(&state, "removeAllAuthorizedVoters"), Value::Null);
    assert_eq!(voters.choose(Some(&voter), &[3; 32]), None);
}

#[test]
fn identity_is_changed_by_tower() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("id.json");
    let new = encode_32(&keys::create(&path).unwrap().public).to_string();
    let old = encode_32(&[3; 32]).to_string();
    let (state, _) = state();
    let set = |path: &Path, requires_tower: Value| {
        let params = json!([path, requires_tower, true]);
        answered(&state, &json!({ "method": "setIdentity", "params": params, "id": 1 }).to_string())
    };
    assert_eq!(set(&path, json!(false))["error"]["message"], "Retry once validator start up is complete");
    state.enter(Stage::Running(facts()));
    assert_eq!(set(&path, json!(false))["error"]["message"], NO_CLUSTER);
    assert_eq!(code(&state, &request("identityStatus")), INVALID_PARAMS);
    let watch = IdentityWatch::from([3; 32]);
    let switch = IdentitySwitch::new(watch.desk(), folder.path(), Box::new(|_| None), None, false);
    state.enter(Stage::Running(Facts { identity: Some(Arc::new(switch)), ..facts() }));
    let refused = set(&path, json!(true));
    assert!(refused["error"]["message"].as_str().is_some_and(|why| why.contains("tower-1_9-")), "{refused}");
    assert_eq!(set(Path::new("/dev/null"), json!(false))["error"]["message"], "/dev/null is not a file");
    assert_eq!(set(&path, json!("perhaps"))["error"]["code"], INVALID_PARAMS);
    assert_eq!(code(&state, r#"{"method":"setIdentity","params":["a",true],"id":1}"#), INVALID_PARAMS);
    let status = |is_changing| json!({ "identity": old, "isChanging": is_changing, "failure": null });
    assert_eq!(result(&state, "identityStatus"), status(false));
    assert_eq!(set(&path, json!(false))["result"], Value::Null);
    assert_eq!(result(&state, "identityStatus"), status(true));
    assert_eq!(result(&state, "contactInfo")["id"], old);
    assert_ne!(old, new);
}

fn connect(folder: &Path) -> UnixStream {
    UnixStream::connect(folder.join(SOCKET_NAME)).unwrap()
}

#[test]
fn owner_alone_may_use_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let no_node = AdminClient::connect(&ledger).err().unwrap().to_string();
    assert!(no_node.contains("no validator answers at") && no_node.contains("--ledger"), "{no_node}");
    let (state, stop) = state();
    let server = AdminServer::start(&ledger, Arc::new(state)).unwrap();
    let path = ledger.join(SOCKET_NAME);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(&ledger).unwrap().count(), 1, "nothing else is left there");

    let mut client = AdminClient::connect(&ledger).unwrap();
    assert_eq!(client.call("pid").unwrap(), json!(std::process::id()));
    let refused = client.call("contactInfo").unwrap_err().to_string();
    assert_eq!(refused, "contactInfo: Retry once validator start up is complete (-32602)");
    // A second node in the folder does not take the socket from the first.
    let other = AdminState::new(&StopSignal::default());
    let taken = AdminServer::start(&ledger, Arc::new(other)).err().unwrap().to_string();
    assert!(taken.contains("another node serves it"), "{taken}");
    assert_eq!(client.call("exit").unwrap(), Value::Null);
    wait_until("the stop signal", || stop.is_set());
    drop(server);
    assert!(!path.exists());
}

#[test]
fn folder_may_lie_deeper_than_a_sockets_path_is_long() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("l".repeat(200));
    let (state, _) = state();
    let server = AdminServer::start(&ledger, Arc::new(state)).unwrap();
    assert!(AdminClient::connect(&ledger).unwrap().call("pid").is_ok());
    let second = AdminServer::start(&ledger, Arc::new(AdminState::new(&StopSignal::default())));
    assert!(second.err().unwrap().to_string().contains("another node serves it"));
    drop(server);
    assert_eq!(fs::read_dir(&ledger).unwrap().count(), 0);
}

#[test]
fn socket_of_a_killed_node_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    // A listener that is dropped leaves its file, as a killed process does.
    drop(std::os::unix::net::UnixListener::bind(folder.path().join(SOCKET_NAME)).unwrap());
    fs::create_dir(folder.path().join("admin.new")).unwrap();
    let (state, _) = state();
    let _server = AdminServer::start(folder.path(), Arc::new(state)).unwrap();
    assert!(AdminClient::connect(folder.path()).unwrap().call("pid").is_ok());
}

#[test]
fn hostile_clients_leave_room_for_the_operator() {
    let folder = tempfile::tempdir().unwrap();
    let (state, stop) = state();
    let _server = AdminServer::start(folder.path(), Arc::new(state)).unwrap();
    // Three times as many as are served, each with the beginning of a line.
    let silent: Vec<UnixStream> = (0..3 * CALLS_MAX)
        .map(|_| {
            let mut stream = connect(folder.path());
            // The server may have closed it for a later one.
            let _ = stream.write_all(b"{\"method\"");
            stream
        })
        .collect();
    assert!(AdminClient::connect(folder.path()).unwrap().call("pid").is_ok());
    drop(silent);

    // A line without an end is answered once it is too long, and its connection closed.
    let mut endless = connect(folder.path());
    let mut sender = endless.try_clone().unwrap();
    let writer = std::thread::spawn(move || while sender.write_all(&[b'7'; 4096]).is_ok() {});
    let mut said = vec![];
    // The close may arrive as a reset: what was sent is not all read.
    let _ = endless.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    assert!(said.is_empty() || said.contains("a line has at most 65536 bytes"), "{said}");
    writer.join().unwrap();

    // Several requests at once, with rubbish between them, are answered in order.
    let mut stream = connect(folder.path());
    let lines = format!("{}\n\n  \nrubbish\n{}\n", request("pid"), request("startProgress"));
    stream.write_all(lines.as_bytes()).unwrap();
    let mut answers = BufReader::new(stream).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    assert_eq!(answers.next().unwrap()["result"], json!(std::process::id()));
    assert_eq!(answers.next().unwrap()["error"]["code"], PARSE_ERROR);
    assert_eq!(answers.next().unwrap()["result"], "Initializing");

    // One that never reads its answers is closed when they no longer fit.
    let mut deaf = connect(folder.path());
    let pid = format!("{}\n", request("pid"));
    wait_until("it is closed", || deaf.write_all(pid.as_bytes()).is_err());
    assert!(AdminClient::connect(folder.path()).unwrap().call("pid").is_ok());
    assert!(!stop.is_set());
}
