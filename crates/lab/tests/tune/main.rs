//! Studies of builds from end to end: a small Cargo project is built, measured, stopped, and gone on with.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hearth_lab::tune::build::report::{Layouts, Report};
use hearth_lab::tune::build::spec::Spec;
use hearth_lab::tune::build::study::Study;
use hearth_lab::tune::build::{Control, Judge, StudyError};
use hearth_lab::tune::paired::Verdict;

/// A project whose program says how it was built: `panic` and a feature decide its figures, so that a study has one
/// right answer on every machine.
struct Project {
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// One at a time: a child that another test's thread begins holds, until it is another program, files that were open.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const MAIN: &str = r#"
fn main() {
    let aborts = cfg!(panic = "abort");
    let (plain, round) = (100.0, std::env::args().nth(1).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0));
    let speed = plain + round + if aborts { 50.0 } else { 0.0 } - if cfg!(feature = "slow") { 40.0 } else { 0.0 };
    println!("speed {speed}");
}
"#;

const HEAD: &str = "project = \"app\"\nrounds = 6\nlayouts = 2\nlayout-rounds = 2\nretries = 1\n\
    build-limit-seconds = 120\nrun-limit-seconds = 60\n";

/// Each run's figure is a little greater than the one before it.
const WORKLOAD: &str = "[[workload]]\nrun = \"\"\"echo >> ../count; {bin} 0.$(wc -l < ../count)\"\"\"\n\
    [[workload.metric]]\nname = \"speed\"\nregex = 'speed (\\S+)'\nbetter = \"higher\"\n";

const MATRIX: &str = "[matrix]\npanic = [\"default\", \"abort\"]\nfeatures = [\"default\", \"slow\"]\n";

impl Project {
    fn new() -> Self {
        let _alone = alone();
        let folder = tempfile::tempdir().expect("a folder");
        let project = Self { folder, _alone };
        fs::create_dir_all(project.at("app/src")).expect("made");
        let manifest = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[features]\nslow = []\n\n\
            [workspace]\n";
        fs::write(project.at("app/Cargo.toml"), manifest).expect("written");
        fs::write(project.at("app/src/main.rs"), MAIN).expect("written");
        fs::write(project.at("app/.gitignore"), "target\nCargo.lock\n").expect("written");
        project
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn spec(&self, text: &str) -> Spec {
        Spec::read(text, &self.at("study.toml")).expect("fine")
    }

    /// Runs a study until it has so many rows, where that is said.
    fn study(
        &self,
        text: &str,
        race: bool,
        rows: usize,
        judge: Judge<'_>,
    ) -> (Result<Report, StudyError>, Vec<String>) {
        let spec = self.spec(text);
        let told = RefCell::new(Vec::new());
        let stop = || fs::read_to_string(self.at("out/results.csv")).is_ok_and(|text| text.lines().count() >= rows);
        let tell = |line: &str| told.borrow_mut().push(line.to_owned());
        let control = Control { stop: &stop, tell: &tell, judge };
        let report = Study::open(&spec, &self.at("out"), &control).and_then(|study| study.run(race));
        drop(control);
        (report, told.into_inner())
    }

    fn rows(&self) -> Vec<String> {
        let text = fs::read_to_string(self.at("out/results.csv")).expect("results");
        text.lines().map(str::to_owned).collect()
    }
}

const NEVER: usize = usize::MAX;

fn calm(
    _: &hearth_lab::tune::build::quiet::Counted,
    _: &hearth_lab::tune::build::quiet::Counted,
    _: bool,
) -> Option<String> {
    None
}

/// Build, metric and repetition of the rows that are no times.
fn runs(rows: &[String]) -> Vec<String> {
    let cut = |row: &String| {
        let cells: Vec<&str> = row.split(',').collect();
        let count = cells.len();
        format!("{} {} {}", cells[0], cells[count - 3], cells[count - 1])
    };
    rows.iter().filter(|row| !row.contains("build_seconds")).map(cut).collect()
}

fn verdict(report: &Report, build: &str) -> Verdict {
    let build = report.answer.table.build(build).expect("it took part");
    report.answer.paired.estimates[build][0].verdict
}

#[test]
fn two_by_two_builds_are_told_apart_and_one_is_recommended() {
    let project = Project::new();
    let text = format!("{HEAD}{MATRIX}{WORKLOAD}");
    let (report, told) = project.study(&text, false, NEVER, &calm);
    let report = report.expect("an answer");
    assert_eq!(verdict(&report, "panic=abort"), Verdict::Better);
    assert_eq!(verdict(&report, "features=slow"), Verdict::Worse);
    assert_eq!(verdict(&report, "default (copy)"), Verdict::NoDifference);
    assert_eq!(report.recommended(), Some("panic=abort"), "{}", report.text(true));
    assert!(matches!(&report.layouts, Layouts::Checked { layouts: 2, .. }));
    let said = report.text(true);
    for part in ["panic = abort", "what builds cost", "2 layouts each", "recommended: `panic=abort`"] {
        assert!(said.contains(part), "`{part}` is not in:\n{said}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(project.at("out/report.json")).expect("there")).expect("JSON");
    assert_eq!(json["recommended"], "panic=abort");
    assert_eq!(told.iter().filter(|line| line.starts_with("building")).count(), 4);
    // Five builds, six rounds, two metrics; a time for each, and the header.
    assert_eq!(project.rows().len(), 5 * 6 * 2 + 5 + 1);
    assert!(!project.at("out/target").exists());
    // Once more: nothing is built or run, and the answer is the same.
    let (again, told) = project.study(&text, false, NEVER, &calm);
    assert_eq!(again.expect("an answer").answer.json(), report.answer.json());
    assert!(!told.iter().any(|line| line.starts_with("building") || line.starts_with("round")), "{told:?}");
}

#[test]
fn a_study_that_was_stopped_goes_on_to_the_same_rows() {
    let project = Project::new();
    let text = format!("{HEAD}{MATRIX}{WORKLOAD}");
    let mut wanted = None;
    for stops in [vec![NEVER], vec![0, 3, 6, 21, 40, NEVER]] {
        let _ = fs::remove_dir_all(project.at("out"));
        let _ = fs::remove_file(project.at("count"));
        let mut all = 0;
        for rows in stops {
            match project.study(&text, false, rows, &calm).0 {
                Ok(report) => {
                    let found = (runs(&project.rows()), report.recommended().map(str::to_owned));
                    assert_eq!(wanted.get_or_insert_with(|| found.clone()), &found);
                    all += 1;
                }
                Err(StudyError::Stopped { folder, .. }) => assert!(folder.ends_with("out")),
                Err(other) => panic!("{other}"),
            }
            // The machine's end leaves half a row.
            let path = project.at("out/results.csv");
            let whole = fs::read(&path).expect("there");
            if rows != NEVER && whole.len() > 400 {
                fs::write(&path, &whole[..whole.len() - 9]).expect("torn");
            }
        }
        assert_eq!(all, 1);
    }
}

#[test]
fn a_race_drops_what_is_beaten_and_says_what_it_saved() {
    let project = Project::new();
    let text = format!("{HEAD}{MATRIX}{WORKLOAD}")
        .replace("rounds = 6\n", "rounds = 12\n")
        .replace("layouts = 2", "layouts = 0");
    let report = project.study(&text, true, NEVER, &calm).0.expect("an answer");
    let dropped: Vec<&str> = report.happened.dropped.keys().map(String::as_str).collect();
    assert_eq!(dropped, ["features=slow", "panic=abort+features=slow"], "{}", report.text(true));
    assert_eq!(report.happened.saved, 2 * 6);
    assert!(report.text(true).contains("race: 12 runs ("), "{}", report.text(true));
    let rows = project.rows();
    assert_eq!(rows.iter().filter(|row| row.starts_with("features=slow,") && row.contains(",speed,")).count(), 6);
    assert!(report.conclusion().contains("`layouts = 0`"));
}

#[test]
fn builds_that_fail_or_cannot_be_made_here_are_left_out() {
    let project = Project::new();
    let rows = "[[row]]\nname = \"old\"\nbinary = \"old.sh\"\n[[row]]\nname = \"boxed\"\ncommand = \"sh old.sh\"\n[[row]]\n\
        name = \"gone\"\nbinary = \"gone\"\n[[row]]\nname = \"mute\"\ncommand = \"true\"\n";
    let matrix = "[[include]]\nrustflags = \"--no-such-flag\"\n[[include]]\ntoolchain = \"1.2.3-none\"\n";
    let old = project.at("old.sh");
    fs::write(&old, "echo speed 70.$1$1\n").expect("written");
    let line = format!("echo >> ../count; {{bin}} $(wc -l < ../count)");
    let workload = WORKLOAD.replace("echo >> ../count; {bin} 0.$(wc -l < ../count)", &line);
    let text = format!("{HEAD}{matrix}{rows}{workload}")
        .replace("binary = \"old.sh\"", "command = \"sh ../old.sh\"")
        .replace("sh old.sh", "sh ../old.sh");
    let (report, told) = project.study(&text, false, NEVER, &calm);
    let report = report.expect("an answer");
    assert!(report.failed["rustflags=--no-such-flag"].contains("no-such-flag"), "{:?}", report.failed);
    assert!(report.failed["mute"].contains("it printed nothing"), "{:?}", report.failed);
    let left: Vec<&str> = report.left_out.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(left, ["toolchain=1.2.3-none", "gone"]);
    assert!(told.iter().any(|line| line.contains("`mute` is out")), "{told:?}");
    assert!(report.answer.table.build("boxed").is_some() && report.answer.table.build("mute").is_none());
    assert!(report.conclusion().starts_with("no difference found"), "{}", report.text(true));
}

#[test]
fn what_hangs_is_ended_and_what_says_nothing_useful_is_told() {
    let project = Project::new();
    fs::write(project.at("app/build.rs"), "fn main() { loop { std::thread::park() } }").expect("written");
    let limited = HEAD.replace("build-limit-seconds = 120", "build-limit-seconds = 3");
    let begin = std::time::Instant::now();
    let error = project.study(&format!("{limited}{WORKLOAD}"), false, NEVER, &calm).0.expect_err("hangs");
    let said = error.to_string();
    assert!(said.contains("the reference `default` cannot be built: it was not done after 3 s"), "{said}");
    assert!(begin.elapsed().as_secs() < 60);
    fs::remove_file(project.at("app/build.rs")).expect("removed");
    for (line, said) in [
        ("{bin} 1; sleep 1000", "it was not done after 2 s"),
        ("{bin} 1 > /dev/null", "it printed nothing, so there is no `speed`"),
        ("{bin} 1; {bin} 2", "twice, as `101` and `102`"),
        ("{bin} NaN", "`speed` is `NaN`, which is no number"),
        ("{bin} 1; exit 7", "it ended with exit code 7"),
        ("{bin} 1; kill -9 $$", "ended by a signal"),
    ] {
        let text = format!(
            "{HEAD}[[workload]]\nrun = '{line}'\n[[workload.metric]]\nname = \"speed\"\n\
            regex = 'speed (\\S+)'\nbetter = \"higher\"\n"
        );
        let text = text.replace(
            "run-limit-seconds = 60",
            if line.contains("sleep") { "run-limit-seconds = 2" } else { "run-limit-seconds = 60" },
        );
        let error = project.study(&text, false, NEVER, &calm).0.expect_err(line).to_string();
        assert!(error.contains("with the reference (`default") && error.contains(said), "{line}: {error}");
    }
}

#[test]
fn disturbed_runs_are_done_again_and_a_busy_machine_is_told() {
    let project = Project::new();
    let text = format!("{HEAD}{MATRIX}{WORKLOAD}").replace("layouts = 2", "layouts = 0");
    let error = project.study(&text, false, NEVER, &|_, _, _| Some("others".into())).0.expect_err("busy");
    assert!(matches!(&error, StudyError::Busy { round: 1, .. }), "{error}");
    assert_eq!(runs(&project.rows()).len(), 1, "only the header: nothing is made up");
    // Every third try is disturbed: nothing is lost, and all is said.
    let tries = RefCell::new(0);
    let sometimes = |_: &_, _: &_, _| {
        *tries.borrow_mut() += 1;
        (*tries.borrow() % 3 == 0).then(|| "others".to_owned())
    };
    let (report, told) = project.study(&text, false, NEVER, &sometimes);
    let report = report.expect("an answer");
    let (rejected, given_up) = (report.happened.rejected, report.happened.given_up);
    assert!(rejected >= 10 && given_up * 2 <= rejected, "{rejected}, {given_up}");
    assert_eq!(told.iter().filter(|line| line.contains("was disturbed (others)")).count(), rejected);
    let missing = project.rows().iter().filter(|row| row.contains(",speed,NA,")).count();
    assert_eq!(missing, given_up);
    assert!(report.text(true).contains("runs were disturbed and done again"));
}

#[test]
fn results_of_other_sources_are_not_mixed_with_these() {
    let project = Project::new();
    let text = format!("{HEAD}{WORKLOAD}");
    assert!(project.study(&text, false, NEVER, &calm).0.is_ok());
    fs::write(project.at("app/src/main.rs"), format!("{MAIN}\n// another\n")).expect("written");
    let error = project.study(&text, false, NEVER, &calm).0.expect_err("others").to_string();
    assert!(error.contains("holds a study with other sources") && error.contains("--out"), "{error}");
    fs::write(project.at("app/src/main.rs"), MAIN).expect("written");
    let error = project.study(&text.replace("better = \"higher\"", "better = \"lower\""), false, NEVER, &calm);
    assert!(error.0.expect_err("others").to_string().contains("other workloads"));
    let _held = held(&project.at("out/lock"));
    let error = project.study(&text, false, NEVER, &calm).0.expect_err("held");
    assert!(matches!(error, StudyError::Locked(_)), "{error}");
}

fn held(path: &Path) -> fs::File {
    let lock = fs::File::open(path).expect("there");
    lock.lock().expect("free");
    lock
}
