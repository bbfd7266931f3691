//! Methods for the node's owner: access, parameters, refusals and counters.

use std::sync::Arc;

use hearth_rpc::{Admin, Counters, ProfileFormat, ProfilePlan, ProfileSpan, Profiler};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::common::client::Client;
use crate::common::*;

/// Records the requested plans, and takes one profile.
#[derive(Default)]
struct RecordingProfiler(Mutex<Vec<ProfilePlan>>);

impl Profiler for RecordingProfiler {
    fn start(&self, plan: ProfilePlan) -> Result<Value, String> {
        let mut plans = self.0.lock();
        if !plans.is_empty() {
            return Err("it ends in 3 s".into());
        }
        plans.push(plan);
        Ok(json!({ "state": "running", "id": 1 }))
    }

    fn fetch(&self, format: ProfileFormat, id: Option<u64>) -> Result<Value, String> {
        match id {
            Some(id @ 2..) => Err(format!("there is no profile {id}")),
            id => Ok(json!({ "format": format!("{format:?}"), "id": id })),
        }
    }

    fn stop(&self, id: Option<u64>) -> Result<Value, String> {
        match id {
            Some(id @ 2..) => Err(format!("there is no profile {id}")),
            id => Ok(json!({ "state": "running", "id": id })),
        }
    }
}

fn chain(token: Option<&str>) -> (Chain, Arc<RecordingProfiler>) {
    let profiler = Arc::new(RecordingProfiler::default());
    let admin = Admin { profiler: profiler.clone(), token: token.map(Into::into) };
    (Chain::with_admin(admin), profiler)
}

#[test]
fn a_profile_is_started_once_and_fetched() {
    let (chain, profiler) = chain(None);
    let plan = json!([{ "seconds": 600, "tile": "bank", "hz": 1000 }]);
    assert_eq!(chain.call("hearth_profileStart", plan.clone()), json!({ "state": "running", "id": 1 }));
    let asked = ProfilePlan { span: ProfileSpan::Seconds(600), tile: Some("bank".into()), hz: 1000 };
    assert_eq!(*profiler.0.lock(), [asked]);
    let (code, message, _) = chain.error("hearth_profileStart", plan);
    assert_eq!((code, message.as_str()), (-32041, "it ends in 3 s"));
    for (options, format, id) in [
        (json!([]), "Summary", Value::Null),
        (json!([{ "format": "svg", "id": 1 }]), "Svg", json!(1)),
        (json!([{ "format": "folded" }]), "Folded", Value::Null),
    ] {
        assert_eq!(chain.call("hearth_profileFetch", options), json!({ "format": format, "id": id }));
    }
    for (options, id) in [(json!([]), Value::Null), (json!([{ "id": 1 }]), json!(1))] {
        assert_eq!(chain.call("hearth_profileStop", options), json!({ "state": "running", "id": id }));
    }
    for method in ["hearth_profileFetch", "hearth_profileStop"] {
        let (code, message, _) = chain.error(method, json!([{ "id": 2 }]));
        assert_eq!((code, message.as_str()), (-32041, "there is no profile 2"));
    }
}

#[test]
fn nonsense_is_refused_with_a_suggestion() {
    let (chain, profiler) = chain(None);
    for (options, part) in [
        (json!([{ "seconds": 0 }]), "1 to 600"),
        (json!([{ "seconds": 601 }]), "1 to 600"),
        (json!([{ "seconds": "7" }]), "seconds"),
        (json!([{ "seconds": 7, "nextBlock": true }]), "not both"),
        (json!([{ "hz": 1001 }]), "1 to 1000"),
        (json!([{ "tile": 7 }]), "tile"),
        (json!([7]), "7"),
    ] {
        let (code, message, _) = chain.error("hearth_profileStart", options);
        assert!(code == -32602 && message.contains(part), "{part}: {code} {message}");
    }
    let (code, message, _) = chain.error("hearth_profileFetch", json!([{ "format": "png" }]));
    assert!(code == -32602 && message.contains("`summary`, `svg` or `folded`"), "{message}");
    assert!(profiler.0.lock().is_empty());
    chain.call("hearth_profileStart", json!([{ "nextBlock": true }]));
    let asked = ProfilePlan { span: ProfileSpan::Block, tile: None, hz: 99 };
    assert_eq!(*profiler.0.lock(), [asked]);
}

#[test]
fn others_than_the_owner_are_refused_and_counted() {
    let (chain, profiler) = chain(Some("a secret"));
    for (n, options) in [json!([]), json!([{ "token": "a secreT" }]), json!([{ "token": "" }])].into_iter().enumerate()
    {
        for method in ["hearth_profileStart", "hearth_profileFetch", "hearth_profileStop"] {
            let (code, message, _) = chain.error(method, options.clone());
            assert!(code == -32040 && message.contains("`rpc.admin_token` as `token`"), "{code} {message}");
        }
        assert_eq!(chain.counted(Counters::admin_refused), 3 * (n as u64 + 1));
    }
    assert!(profiler.0.lock().is_empty());
    chain.call("hearth_profileStart", json!([{ "token": "a secret" }]));
    assert_eq!(chain.counted(Counters::admin_refused), 9);
}

#[test]
fn a_web_page_is_not_the_owner() {
    let (open, profiler) = chain(None);
    let (closed, closed_profiler) = chain(Some("a secret"));
    let ask = |chain: &Chain, headers: &str, options: Value| {
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "hearth_profileStart", "params": [options] }).to_string();
        let length = body.len();
        let answer = request(
            chain.http(),
            &format!(
                "POST / HTTP/1.1\r\n{headers}Content-Type: application/json\r\nContent-Length: {length}\r\n\
                 Connection: close\r\n\r\n{body}"
            ),
        );
        serde_json::from_str::<Value>(&answer.body).unwrap()
    };
    // A cross-site request, one from a sandboxed frame, and one by DNS rebinding to loopback.
    let pages = [
        "Host: 127.0.0.1\r\nOrigin: http://a.page\r\n",
        "Host: localhost\r\nOrigin: null\r\n",
        "Host: a.page:8899\r\n",
    ];
    for (n, headers) in pages.into_iter().enumerate() {
        let answer = ask(&open, headers, json!({}));
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(answer["error"]["code"] == -32040 && message.contains("no web page (`Origin`)"), "{headers}: {answer}");
        assert_eq!(open.counted(Counters::admin_refused), n as u64 + 1);
    }
    assert!(profiler.0.lock().is_empty());
    // Only the owner's pages know a node's token.
    assert_eq!(ask(&closed, pages[0], json!({ "token": "a secret" }))["result"]["id"], 1);
    assert_eq!(closed_profiler.0.lock().len(), 1);
    assert_eq!(ask(&open, "Host: [::1]:8899\r\n", json!({}))["result"]["id"], 1);
    // Over WebSocket nobody is the owner, since any web page may open one to any host.
    let answer = Client::new(&open).ask("hearth_profileStart", json!([{}]));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

#[test]
fn a_node_without_an_owner_has_no_such_method() {
    let (code, message, _) = Chain::new().error("hearth_profileStart", json!([]));
    assert!(code == -32601 && message.contains("Method not found"), "{code} {message}");
}
