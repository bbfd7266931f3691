//! The workspace file: which processes may create or observe it, and what happens to damaged ones.

use hearth_ring::{
    ConsumerPlan, CountersPlan, HugePages, LinkPlan, Observer, PollResult, SharePlan, Workspace, WorkspaceError,
    WorkspacePlan,
};
use hearth_testkit::{wait_for, wait_until};
use proptest::prelude::*;
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

const NODE_PATH: &str = "HEARTH_RING_TEST_NODE_PATH";

/// A unique path for each test, removed at the end.
struct TestPath(PathBuf);

impl TestPath {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let shm = Path::new("/dev/shm");
        let folder = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        let name = format!("hearth-ring-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self(folder.join(name))
    }
}

impl Drop for TestPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn plan() -> WorkspacePlan {
    let consumers = vec![
        ConsumerPlan { name: "sink".into(), reliable: true },
        ConsumerPlan { name: "spy".into(), reliable: false },
    ];
    let links = vec![LinkPlan { name: "source_sink".into(), depth: 16, mtu: 100, consumers }];
    let counters =
        vec![CountersPlan { name: "source".into(), words: 2 }, CountersPlan { name: "sink".into(), words: 1 }];
    WorkspacePlan { links, counters, topology: b"source -> sink".to_vec(), ..WorkspacePlan::default() }
}

/// Publishes and consumes on a workspace at `path`, in lockstep, until `go_on` returns false.
fn run_node(path: &Path, mut go_on: impl FnMut(u64) -> bool) -> Workspace {
    let workspace = Workspace::create(path, &plan()).unwrap();
    let mut producer = workspace.producer("source_sink").unwrap();
    let mut consumer = workspace.consumer("source_sink", "sink").unwrap();
    let counters = workspace.counters("source").unwrap();
    while go_on(producer.seq()) {
        assert!(producer.credits(1) > 0);
        producer.send(&[7; 10], 1, 0, 0, 0);
        counters.words()[1].store(producer.seq(), Ordering::Relaxed);
        let PollResult::Ready(meta) = consumer.poll() else { panic!("a frag was published") };
        assert_eq!(consumer.payload(&meta).unwrap(), [7; 10]);
        consumer.advance();
        consumer.release();
    }
    workspace
}

/// A mapping of the file at a path in this process: its addresses, its access (`rw-s`), its flags (`mw`: it may be made
/// writable).
fn mappings(path: &Path) -> Vec<(String, String, String)> {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found: Vec<(String, String, String)> = vec![];
    let mut is_of_file = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first().is_some_and(|first| first.contains('-')) {
            is_of_file = words.get(5).is_some_and(|name| Path::new(name) == path);
            if is_of_file {
                found.push((words[0].into(), words[1].into(), String::new()));
            }
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_of_file) {
            found.last_mut().unwrap().2 = flags.into();
        }
    }
    found
}

#[test]
fn another_process_maps_only_its_parts() {
    let path = TestPath::new();
    let link = |name: &str, consumer: &str| {
        let consumers = vec![ConsumerPlan { name: consumer.into(), reliable: true }];
        LinkPlan { name: name.into(), depth: 16, mtu: 100, consumers }
    };
    let links = vec![link("private", "own"), link("question", "other"), link("answer", "own")];
    let counters = ["own", "other"].map(|name| CountersPlan { name: name.into(), words: 3 }).to_vec();
    let share =
        SharePlan { reads: vec!["question".into()], writes: vec!["answer".into()], counters: vec!["other".into()] };
    let plan = WorkspacePlan { links, counters, share: Some(share), ..WorkspacePlan::default() };
    let own = Workspace::create(&path.0, &plan).unwrap();
    let whole = mappings(&path.0);
    let open = |write| File::options().read(true).write(write).open(&path.0).unwrap();
    let other = Workspace::attach(&path.0, &open(false), &open(true), &plan).unwrap();

    let parts: Vec<_> = mappings(&path.0).into_iter().filter(|mapping| !whole.contains(mapping)).collect();
    let access: Vec<_> = parts.iter().map(|(_, access, _)| access.as_str()).collect();
    assert_eq!(access, ["r--s", "rw-s"], "{parts:?}");
    let may_be_written: Vec<_> = parts.iter().map(|(.., flags)| flags.split(' ').any(|flag| flag == "mw")).collect();
    assert_eq!(may_be_written, [false, true], "{parts:?}");

    let mut questions = own.producer("question").unwrap();
    questions.send(b"question", 7, 0, 0, 0);
    let mut asked = other.consumer("question", "other").unwrap();
    let PollResult::Ready(meta) = asked.poll() else { panic!("a question was sent") };
    assert_eq!(asked.payload(&meta).unwrap(), b"question");
    asked.advance();
    asked.release();
    assert_eq!(questions.queued(), 0, "its progress is seen");
    other.producer("answer").unwrap().send(b"answer", 8, 0, 0, 0);
    let mut answers = own.consumer("answer", "own").unwrap();
    let PollResult::Ready(meta) = answers.poll() else { panic!("an answer was sent") };
    assert_eq!(answers.payload(&meta).unwrap(), b"answer");
    other.counters("other").unwrap().words()[2].store(9, Ordering::Relaxed);
    assert_eq!(own.counters("other").unwrap().words()[2].load(Ordering::Relaxed), 9);
    let seen = Observer::attach(&path.0).unwrap().links();
    assert_eq!(seen.iter().map(|link| link.producer_seq).collect::<Vec<_>>(), [0, 1, 1]);

    let larger = WorkspacePlan { topology: vec![0; 10_000], ..plan.clone() };
    let refused = Workspace::attach(&path.0, &open(false), &open(true), &larger);
    assert!(matches!(refused, Err(WorkspaceError::Torn { .. })), "{refused:?}");
    let refused = Workspace::attach(&path.0, &open(false), &open(true), &WorkspacePlan { share: None, ..plan });
    assert!(matches!(refused, Err(WorkspaceError::Unknown { .. })), "{refused:?}");
}

/// On its own, a test of a node that ends cleanly; given a path, the child process that other tests start and kill.
#[test]
fn node() {
    if let Some(path) = std::env::var_os(NODE_PATH) {
        run_node(Path::new(&path), |_| true);
    }
    let path = TestPath::new();
    let workspace = run_node(&path.0, |seq| seq < 1000);
    let observer = Observer::attach(&path.0).unwrap();
    assert!(observer.is_alive());
    drop(workspace);
    assert!(!observer.is_alive());
    assert!(!path.0.exists(), "a node that ends removes its workspace");
    let links = observer.links();
    assert_eq!((links[0].producer_seq, links[0].consumers[0].seq), (1000, 1000));
}

fn start_node(path: &Path) -> (Child, Observer) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    let child = command.args(["--exact", "node"]).env(NODE_PATH, path).stdout(Stdio::null()).spawn().unwrap();
    let observer = wait_for("the node's workspace", || Observer::attach(path).map_err(|error| error.to_string()));
    (child, observer)
}

#[test]
fn another_process_is_observed_while_it_runs_and_after_it_was_killed() {
    let path = TestPath::new();
    let (mut child, observer) = start_node(&path.0);
    assert!(observer.is_alive());
    assert_eq!(observer.pid(), child.id());
    let now = hearth_ring::unix_time().as_nanos() as u64;
    assert!((now - 120_000_000_000..=now).contains(&observer.started_unix_ns()));
    assert_eq!(observer.topology(), b"source -> sink");
    assert_eq!(observer.counter_names().collect::<Vec<_>>(), ["source", "sink"]);
    assert_eq!(std::fs::metadata(&path.0).unwrap().permissions().mode() & 0o777, 0o644);

    let counters = observer.counters("source").unwrap();
    wait_until("frags are counted", || counters[1].load(Ordering::Relaxed) > 10_000);
    let first = observer.links()[0].producer_seq;
    wait_until("frags go on", || observer.links()[0].producer_seq > first + 1000);
    match Workspace::create(&path.0, &plan()) {
        Err(WorkspaceError::InUse { pid, .. }) => assert_eq!(pid, child.id()),
        other => panic!("{other:?} beside a running node"),
    }
    assert!(observer.is_alive());

    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!observer.is_alive());
    let after = Observer::attach(&path.0).unwrap();
    assert!(!after.is_alive());
    let links = after.links();
    assert_eq!(links, observer.links());
    let (link, sink) = (&links[0], &links[0].consumers[0]);
    assert_eq!((link.name.as_str(), link.depth, link.mtu), ("source_sink", 16, 100));
    assert_eq!((sink.name.as_str(), sink.reliable, sink.overrun_poll, sink.overrun_read), ("sink", true, 0, 0));
    assert!(sink.seq <= link.producer_seq && link.producer_seq <= sink.seq + 1);
    assert!(after.counters("source").unwrap()[1].load(Ordering::Relaxed).abs_diff(link.producer_seq) <= 1);

    let next = Workspace::create(&path.0, &plan()).unwrap();
    let fresh = Observer::attach(&path.0).unwrap();
    assert_eq!((fresh.pid(), fresh.links()[0].producer_seq), (std::process::id(), 0));
    assert_eq!(after.links(), links, "who looks at the old one still sees it");
    drop(next);
}

#[test]
fn observers_see_overruns_and_who_held_the_producer() {
    let path = TestPath::new();
    let workspace = Workspace::create(&path.0, &plan()).unwrap();
    let observer = Observer::attach(&path.0).unwrap();
    let mut producer = workspace.producer("source_sink").unwrap();
    let (mut sink, mut spy) =
        (workspace.consumer("source_sink", "sink").unwrap(), workspace.consumer("source_sink", "spy").unwrap());
    for _ in 0..5 {
        while producer.credits(1) > 0 {
            producer.send(b"frag", 0, 0, 0, 0);
        }
        while let PollResult::Ready(meta) = sink.poll() {
            if meta.seq % 2 == 0 {
                sink.skip();
            } else {
                sink.payload(&meta).unwrap();
                sink.advance();
            }
        }
        sink.release();
    }
    let PollResult::Overrun { lost } = spy.poll() else { panic!("80 frags went through a ring of 16") };
    spy.release();
    let link = observer.links().remove(0);
    assert_eq!(link.producer_seq, 80);
    let (sink, spy) = (&link.consumers[0], &link.consumers[1]);
    assert_eq!((sink.seq, sink.filtered, sink.bytes, sink.slow), (80, 40, 160, 5));
    assert_eq!((spy.seq, spy.overrun_poll, spy.overrun_read, spy.reliable), (lost, lost, 0, false));
}

#[test]
fn a_second_workspace_of_the_same_path_is_refused() {
    let path = TestPath::new();
    let first = Workspace::create(&path.0, &plan()).unwrap();
    let error = Workspace::create(&path.0, &plan()).unwrap_err();
    assert!(matches!(error, WorkspaceError::InUse { pid, .. } if pid == std::process::id()));
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    let producer = first.producer("source_sink").unwrap();
    drop(first);
    assert!(Workspace::create(&path.0, &plan()).is_err(), "its producer still uses it");
    drop(producer);
    Workspace::create(&path.0, &plan()).unwrap();
}

#[test]
fn lack_of_room_is_reported_with_figures() {
    let path = TestPath::new();
    let mut vast = plan();
    vast.counters.push(CountersPlan { name: "vast".into(), words: 1 << 50 });
    for _ in 0..2 {
        let error = Workspace::create(&path.0, &vast).unwrap_err();
        let WorkspaceError::NoRoom { needed, available, .. } = error else {
            panic!("{error} for {} bytes", vast.size())
        };
        assert_eq!(needed, vast.size());
        assert!(available < needed);
        assert!(error.to_string().contains(&needed.to_string()) && error.to_string().contains(&available.to_string()));
        assert!(!path.0.exists() && !path.0.with_extension("new").exists());
    }
    // A crashed node's workspace is not replaced by one that cannot be created.
    stale(&path.0);
    assert!(matches!(Workspace::create(&path.0, &vast), Err(WorkspaceError::NoRoom { .. })));
    assert!(Observer::attach(&path.0).is_ok());
}

#[test]
fn other_files_are_left_alone() {
    let path = TestPath::new();
    std::fs::write(&path.0, "the only copy of a diary").unwrap();
    assert!(matches!(Workspace::create(&path.0, &plan()), Err(WorkspaceError::NotWorkspace { .. })));
    assert!(matches!(Observer::attach(&path.0), Err(WorkspaceError::NotWorkspace { .. })));
    assert_eq!(std::fs::read_to_string(&path.0).unwrap(), "the only copy of a diary");
    let nowhere = path.0.join("below-a-file");
    assert!(matches!(Workspace::create(&nowhere, &plan()), Err(WorkspaceError::Io { .. })));
    assert!(matches!(Observer::attach(&nowhere), Err(WorkspaceError::Io { .. })));
}

#[test]
fn huge_pages_need_a_file_system_that_has_them() {
    let path = TestPath::new();
    let plan = WorkspacePlan { huge_pages: HugePages::TwoMiB, ..plan() };
    let error = Workspace::create(&path.0, &plan).unwrap_err();
    assert!(matches!(error, WorkspaceError::HugePages { wanted: 0x20_0000, .. }), "{error}");
    assert!(!path.0.exists());
}

/// Leaves at `path` what a crashed node leaves: a workspace that no process holds.
fn stale(path: &Path) {
    let live = TestPath::new();
    let workspace = Workspace::create(&live.0, &plan()).unwrap();
    std::fs::copy(&live.0, path).unwrap();
    drop(workspace);
}

fn patch(path: &Path, offset: u64, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

#[test]
fn damaged_and_foreign_workspaces_are_refused_with_the_reason() {
    let path = TestPath::new();
    let refused = |offset: u64, value: u64| {
        stale(&path.0);
        patch(&path.0, offset, &value.to_le_bytes());
        Observer::attach(&path.0).map(|_| ()).unwrap_err()
    };
    assert!(matches!(refused(0, 1), WorkspaceError::NotWorkspace { .. }));
    let error = refused(8, 9999);
    assert!(matches!(error, WorkspaceError::Version { found: 9999, .. }));
    assert!(error.to_string().contains("9999"), "{error}");
    for word in [2, 5, 6, 7, 8] {
        for value in [u64::MAX, u64::MAX / 2, 1 << 32] {
            assert!(matches!(refused(word * 8, value), WorkspaceError::Torn { .. }), "header word {word} is {value}");
        }
    }
    stale(&path.0);
    let file = std::fs::OpenOptions::new().write(true).open(&path.0).unwrap();
    file.set_len(5000).unwrap();
    assert!(matches!(Observer::attach(&path.0), Err(WorkspaceError::Torn { .. })));
    file.set_len(100).unwrap();
    assert!(matches!(Observer::attach(&path.0), Err(WorkspaceError::NotWorkspace { .. })));
}

#[test]
fn a_stale_workspace_of_another_version_is_replaced() {
    let path = TestPath::new();
    stale(&path.0);
    patch(&path.0, 8, &9999u64.to_le_bytes());
    let _workspace = Workspace::create(&path.0, &plan()).unwrap();
    assert!(Observer::attach(&path.0).unwrap().is_alive());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a header, a directory or the rings contain, an observer reports an error or a value, and never faults.
    #[test]
    fn hostile_workspaces_do_no_harm(
        patches in proptest::collection::vec(
            (prop_oneof![8..72u64, 4096..4352u64, 4352..6000u64], any::<[u8; 4]>()),
            1..12,
        ),
    ) {
        let path = TestPath::new();
        stale(&path.0);
        for (offset, bytes) in patches {
            patch(&path.0, offset, &bytes);
        }
        if let Ok(observer) = Observer::attach(&path.0) {
            let size = std::fs::metadata(&path.0).unwrap().len();
            prop_assert!(observer.topology().len() as u64 <= size);
            prop_assert!(observer.links().len() as u64 <= size);
            let names: Vec<_> = observer.counter_names().map(str::to_owned).collect();
            let words = names.iter().filter_map(|name| observer.counters(name)).flatten();
            let sum = words.fold(0, |sum: u64, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
            std::hint::black_box(sum);
            prop_assert!(!observer.is_alive());
        }
    }
}
