//! End-to-end studies of builds: a small Cargo project is built, measured, stopped, and resumed.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use hearth_stats::paired_bootstrap::Verdict;
use hearth_stats::quiet::RunConditions;
use hearth_tune::matrix::report::{Layouts, Report};
use hearth_tune::matrix::spec::Spec;
use hearth_tune::matrix::study::Study;
use hearth_tune::matrix::{Control, Judge, StudyError};
use parking_lot::{Mutex, MutexGuard};

/// A project whose program reports how it was built: `panic` and a feature determine its figures, so that a study has
/// one right answer on every machine.
struct Project {
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// One test at a time: a child that another test's thread starts holds inherited open files until it executes another
/// program.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
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

/// Each run's figure is a little greater than the one before.
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

    /// Runs a study, and stops it after the given number of rows, if any.
    fn study(
        &self,
        text: &str,
        race: bool,
        rows: usize,
        judge: Judge<'_>,
    ) -> (Result<Report, StudyError>, Vec<String>) {
        let spec = self.spec(text);
        let printed = RefCell::new(Vec::new());
        let stop = || fs::read_to_string(self.at("out/results.csv")).is_ok_and(|text| text.lines().count() >= rows);
        let tell = |line: &str| printed.borrow_mut().push(line.to_owned());
        let control = Control { stop: &stop, tell: &tell, judge };
        let report = Study::open(&spec, &self.at("out"), &control).and_then(|study| study.run(race));
        drop(control);
        (report, printed.into_inner())
    }

    fn rows(&self) -> Vec<String> {
        let text = fs::read_to_string(self.at("out/results.csv")).expect("results");
        text.lines().map(str::to_owned).collect()
    }
}

impl Project {
    /// Returns the rounds in which a build was measured.
    fn rounds(&self, build: &str) -> Vec<u32> {
        let of = |row: &String| {
            let cells: Vec<&str> = row.split(',').collect();
            let is_its = cells[0] == build && cells[cells.len() - 3] == "speed";
            is_its.then(|| cells[cells.len() - 1].parse().expect("a number"))
        };
        let mut all: Vec<u32> = self.rows().iter().filter_map(of).collect();
        all.sort_unstable();
        all
    }
}

const NEVER: usize = usize::MAX;

fn calm(_: &RunConditions) -> Option<String> {
    None
}

/// Build, metric and repetition of the rows that are not build times.
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
fn four_builds_are_ranked_and_one_recommended() {
    let project = Project::new();
    let text = format!("{HEAD}{MATRIX}{WORKLOAD}");
    let (report, printed) = project.study(&text, false, NEVER, &calm);
    let report = report.expect("an answer");
    assert_eq!(verdict(&report, "panic=abort"), Verdict::Better);
    assert_eq!(verdict(&report, "features=slow"), Verdict::Worse);
    assert_eq!(verdict(&report, "default (copy)"), Verdict::NoDifference);
    let said = report.text(true);
    for part in ["panic = abort", "what builds cost"] {
        assert!(said.contains(part), "`{part}` is not in:\n{said}");
    }
    let page = hearth_tune::page::of_study(&report);
    for part in ["id=\"costs\"", "data-plot=\"values of speed\"", "data-plot=\"effects on speed\"", "<td>panic=abort"] {
        assert!(page.contains(part), "`{part}` is not in the page");
    }
    assert_eq!(page.contains("id=\"layouts\""), shuffles());
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(project.at("out/report.json")).expect("there")).expect("JSON");
    assert_eq!(json["recommended"], serde_json::json!(report.recommended()));
    if shuffles() {
        assert_eq!(report.recommended(), Some("panic=abort"), "{said}");
        assert!(matches!(&report.layouts, Layouts::Checked { layouts: 2, .. }));
        assert!(said.contains("2 layouts each") && said.contains("recommended: `panic=abort`"), "{said}");
    } else {
        assert!(said.contains("nothing is recommended: `panic=abort` is better") && said.contains("lld"), "{said}");
    }
    assert_eq!(printed.iter().filter(|line| line.starts_with("building")).count(), 4);
    // Five builds, six rounds, two metrics; a build time for each compiled build, and the header.
    assert_eq!(project.rows().len(), 5 * 6 * 2 + 4 + 1);
    assert!(!said.contains("no value"), "nothing is missing:\n{said}");
    assert!(!project.at("out/target").exists());
    // A second time nothing is built or run, and the answer is the same.
    let (again, printed) = project.study(&text, false, NEVER, &calm);
    assert_eq!(again.expect("an answer").answer.json(), report.answer.json());
    assert!(!printed.iter().any(|line| line.starts_with("building") || line.starts_with("round")), "{printed:?}");
    // Another number of layouts is a new study of layouts on the same rounds.
    let (more, _) = project.study(&text.replace("layouts = 2", "layouts = 3"), false, NEVER, &calm);
    let is_checked = matches!(&more.expect("an answer").layouts, Layouts::Checked { layouts: 3, .. });
    assert_eq!(is_checked, shuffles());
}

/// Whether the linker here can shuffle functions.
fn shuffles() -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("main.rs"), "fn main() {}").expect("written");
    let links = |more: &[&str]| {
        let mut command = std::process::Command::new("rustc");
        command.current_dir(folder.path()).args(["main.rs", "-Clink-arg=-Wl,--shuffle-sections=.text*=1"]);
        command.args(more).output().is_ok_and(|output| output.status.success())
    };
    links(&[]) || links(&["-Clink-arg=-fuse-ld=lld"])
}

#[test]
fn a_study_that_was_stopped_continues_to_the_same_rows() {
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
                Err(StudyError::Stopped { folder, .. }) => {
                    assert!(folder.ends_with("out"));
                    // At most the run in progress is added after the stop. Builds are timed before.
                    let there = project.rows().len();
                    assert!(rows < 6 || there <= rows + 2, "{there} rows, and it was to stop at {rows}");
                }
                Err(other) => panic!("{other}"),
            }
            // A crash leaves half a row.
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
fn readmitted_build_is_measured_beside_the_reference() {
    let project = Project::new();
    // By the second day the machine is ten times as fast.
    fs::write(project.at("day"), "0").expect("written");
    let line = WORKLOAD.replace("{bin} 0.$(", "{bin} $(cat ../day).$(");
    let text =
        format!("{HEAD}{MATRIX}{line}").replace("rounds = 6\n", "rounds = 7\n").replace("layouts = 2", "layouts = 0");
    let report = project.study(&text, true, NEVER, &calm).0.expect("an answer");
    assert_eq!(report.happened.dropped["features=slow"], 6, "{}", report.text(true));
    let dropped = ["features=slow", "panic=abort+features=slow"];
    assert_eq!(project.rounds("features=slow"), (1..=6).collect::<Vec<_>>());
    // The same without --race, and stopped once more.
    fs::write(project.at("day"), "900").expect("written");
    let before = project.rows().len();
    let stopped = project.study(&text, false, before + 3, &calm).0.expect_err("stopped");
    assert!(matches!(stopped, StudyError::Stopped { .. }), "{stopped}");
    let report = project.study(&text, false, NEVER, &calm).0.expect("an answer");
    for build in dropped {
        assert_eq!(project.rounds(build), (1..=6).chain([8]).collect::<Vec<_>>(), "{build}");
        let at = report.answer.table.build(build).expect("there");
        assert_eq!(report.answer.paired.estimates[at][0].rounds, 7);
    }
    for build in ["default", "default (copy)"] {
        assert_eq!(project.rounds(build), (1..=8).collect::<Vec<_>>(), "{build}");
    }
    assert_eq!(project.rounds("panic=abort"), (1..=7).collect::<Vec<_>>(), "it has all of its rounds");
    assert_eq!(verdict(&report, "features=slow"), Verdict::Worse, "{}", report.text(true));
    // More rounds are new rounds for all builds.
    let more = text.replace("rounds = 7\n", "rounds = 9\n");
    let report = project.study(&more, false, NEVER, &calm).0.expect("an answer");
    assert_eq!(project.rounds("panic=abort"), (1..=7).chain([9, 10]).collect::<Vec<_>>());
    assert_eq!(project.rounds("features=slow"), (1..=6).chain(8..=10).collect::<Vec<_>>());
    assert_eq!(verdict(&report, "features=slow"), Verdict::Worse, "{}", report.text(true));
    assert_eq!(verdict(&report, "panic=abort"), Verdict::Better, "{}", report.text(true));
}

#[test]
fn the_copy_is_timed_for_itself() {
    let project = Project::new();
    let text = format!("objectives = [\"build_seconds\"]\nbuild-repetitions = 6\n{HEAD}{WORKLOAD}")
        .replace("layouts = 2", "layouts = 0");
    project.study(&text, false, NEVER, &calm).0.expect("an answer");
    let times = |build: &str| -> Vec<String> {
        let rows = project.rows();
        let cells = rows.iter().map(|row| row.split(',').map(str::to_owned).collect::<Vec<_>>());
        let of = cells.filter(|cells| cells[0] == build && cells[cells.len() - 3] == "build_seconds");
        of.map(|cells| cells[cells.len() - 2].clone()).collect()
    };
    let (own, copy) = (times("default"), times("default (copy)"));
    assert_eq!((own.len(), copy.len()), (6, 6));
    assert!(own.iter().all(|one| one.ends_with(" s") && !copy.contains(one)), "{own:?}, {copy:?}");
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
    let (report, printed) = project.study(&text, false, NEVER, &calm);
    let report = report.expect("an answer");
    assert!(report.failed["rustflags=--no-such-flag"].contains("no-such-flag"), "{:?}", report.failed);
    assert!(report.failed["mute"].contains("it printed nothing"), "{:?}", report.failed);
    let left: Vec<&str> = report.left_out.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(left, ["toolchain=1.2.3-none", "gone"]);
    assert!(printed.iter().any(|line| line.contains("`mute` is out")), "{printed:?}");
    assert!(report.answer.table.build("boxed").is_some() && report.answer.table.build("mute").is_none());
    assert!(report.conclusion().starts_with("no difference found"), "{}", report.text(true));
}

#[test]
fn hang_is_ended_and_useless_output_reported() {
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
        ("{bin} NaN", "`speed` is `NaN`, which is not a number"),
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
fn disturbed_runs_are_done_again_and_a_busy_machine_is_reported() {
    let project = Project::new();
    let text = format!("{HEAD}{MATRIX}{WORKLOAD}").replace("layouts = 2", "layouts = 0");
    let error = project.study(&text, false, NEVER, &|_| Some("others".into())).0.expect_err("busy");
    assert!(matches!(&error, StudyError::Busy { round: 1, .. }), "{error}");
    assert_eq!(runs(&project.rows()).len(), 1, "only the header: nothing is made up");
    // Every third try is disturbed: nothing is lost, and everything is reported.
    let tries = RefCell::new(0);
    let sometimes = |_: &RunConditions| {
        *tries.borrow_mut() += 1;
        (*tries.borrow() % 3 == 0).then(|| "others".to_owned())
    };
    let (report, printed) = project.study(&text, false, NEVER, &sometimes);
    let report = report.expect("an answer");
    let (rejected, given_up) = (report.happened.rejected, report.happened.given_up);
    assert!(rejected >= 20 && given_up * 2 <= rejected, "{rejected}, {given_up}");
    // Ten belong to the study before it was stopped: five builds, each tried twice.
    assert_eq!(printed.iter().filter(|line| line.contains("was disturbed (others)")).count() + 10, rejected);
    let missing = project.rows().iter().filter(|row| row.contains(",speed,NA,")).count();
    assert_eq!(missing, given_up);
    assert!(report.text(true).contains("runs were disturbed and done again"));
    // All of that is still known when the study runs again.
    let again = project.study(&text, false, NEVER, &calm).0.expect("an answer");
    assert_eq!((again.happened.rejected, again.happened.given_up), (rejected, given_up));
}

#[test]
fn disturbance_is_no_fault_of_the_build() {
    let project = Project::new();
    // Every third run fails, and each time others were disturbing it.
    let line = "echo >> ../count; n=$(wc -l < ../count); test $((n % 3)) != 0 && {bin} 0.$n";
    let text = format!("{HEAD}[matrix]\npanic = [\"default\", \"abort\"]\n{WORKLOAD}")
        .replace("echo >> ../count; {bin} 0.$(wc -l < ../count)", line)
        .replace("layouts = 2", "layouts = 0")
        .replace("retries = 1", "retries = 9");
    let count = || fs::read_to_string(project.at("count")).map_or(0, |text| text.lines().count());
    let judge = |_: &RunConditions| (count() % 3 == 0).then(|| "others".to_owned());
    let report = project.study(&text, false, NEVER, &judge).0.expect("an answer");
    assert!(report.failed.is_empty() && report.happened.given_up == 0, "{:?}", report.failed);
    assert_eq!(runs(&project.rows()).len(), 3 * 6 * 2 + 1);
    // A run that fails each time counts as failed in the end.
    fs::remove_dir_all(project.at("out")).expect("there");
    let always = text.replace("test $((n % 3)) != 0 && {bin} 0.$n", "{bin} 0.$n; exit 7").replace("= 9", "= 1");
    let error = project.study(&always, false, NEVER, &|_| Some("others".into())).0.expect_err("fails");
    assert!(error.to_string().contains("exit code 7"), "{error}");
}

#[test]
fn each_run_is_judged_by_the_pace_of_the_cores_and_that_is_kept() {
    let project = Project::new();
    let line = "sleep 1; echo >> ../count";
    let text = format!("{HEAD}{WORKLOAD}").replace("echo >> ../count", line).replace("layouts = 2", "layouts = 0");
    let seen = RefCell::new(Vec::new());
    let judge = |run: &RunConditions| {
        seen.borrow_mut().push((run.pace.piece_ns, run.best_ns));
        None
    };
    for rows in [4, 8] {
        let stopped = project.study(&text, false, rows, &judge).0.expect_err("stopped");
        assert!(matches!(stopped, StudyError::Stopped { .. }), "{stopped}");
    }
    let seen = seen.into_inner();
    let events = fs::read_to_string(project.at("out/events.csv")).expect("there");
    assert_eq!(events.lines().filter(|line| line.starts_with("pace,")).count(), seen.len());
    assert!(seen.len() >= 3, "{seen:?}");
    let mut best = None;
    for (ns, printed) in seen {
        assert_eq!(printed, best, "of all before, also of those before the stop");
        // As written to the file: whole nanoseconds.
        best = Some(ns.expect("a second is long enough").round().min(best.unwrap_or(f64::INFINITY)));
    }
}

#[test]
fn too_few_rounds_or_an_unequal_copy_recommend_nothing() {
    let project = Project::new();
    let text = format!("{HEAD}{MATRIX}{WORKLOAD}").replace("rounds = 6\n", "rounds = 5\n");
    let report = project.study(&text, false, NEVER, &calm).0.expect("an answer");
    let conclusion = report.conclusion();
    assert!(conclusion.starts_with("nothing can be said") && conclusion.contains("6 are needed"), "{conclusion}");
    let cheapest = report.cheapest().map(|cost| cost.name.as_str());
    assert_eq!(cheapest, Some("default"), "of no other it is known that it is not worse");
    // The program that runs first stays faster.
    fs::remove_dir_all(project.at("out")).expect("there");
    let line = "echo >> ../count; test -e ../first || echo {bin} > ../first; \
        if test \"$(cat ../first)\" = {bin}; then echo speed 170.$(wc -l < ../count); else {bin} 0.$(wc -l < ../count); fi";
    let text = format!("{HEAD}{WORKLOAD}").replace("echo >> ../count; {bin} 0.$(wc -l < ../count)", line);
    let report = project.study(&text, false, NEVER, &calm).0.expect("an answer");
    assert_eq!(report.answer.copy_differs_in(), ["speed"]);
    assert!(
        report.conclusion().contains("nothing is recommended: the reference and its copy"),
        "{}",
        report.text(true)
    );
}

#[test]
fn tradeoff_is_reported_as_such() {
    let project = Project::new();
    let large = "#[cfg(panic = \"abort\")]\nstatic LARGE: [u8; 1 << 17] = [7; 1 << 17];\n";
    let used = "fn main() {\n    #[cfg(panic = \"abort\")]\n    std::hint::black_box(&LARGE);\n";
    fs::write(project.at("app/src/main.rs"), format!("{large}{}", MAIN.replace("fn main() {\n", used)))
        .expect("written");
    let text = format!("{HEAD}objectives = [\"binary_bytes\"]\n{MATRIX}{WORKLOAD}");
    let report = project.study(&text, false, NEVER, &calm).0.expect("an answer");
    let found = report.trade_offs();
    assert_eq!(found[0].build, "panic=abort", "{}", report.text(true));
    assert!(
        found[0].p_front.is_some_and(|chance| chance > 0.9) && found[0].better[0].starts_with("speed +"),
        "{found:?}"
    );
    assert!(found[0].worse[0].starts_with("binary_bytes +"), "{found:?}");
    let conclusion = report.conclusion();
    assert!(conclusion.starts_with("no build is better without a price. Better at one: `panic=abort` (speed +"));
    assert!(conclusion.contains("at the price of binary_bytes +") && conclusion.contains("; P(front) "));
    // A few more bytes, as in every other build, are no price.
    let tens =
        text.replace("[matrix]", "[matters]\nbinary_bytes = 0.9\n[matrix]").replace("layouts = 2", "layouts = 0");
    let report = project.study(&tens, false, NEVER, &calm).0.expect("an answer");
    assert!(report.trade_offs().is_empty(), "{:?}", report.trade_offs());
    let conclusion = report.conclusion();
    assert!(conclusion.starts_with("nothing is recommended: `panic=abort`, "), "{}", report.text(true));
}

#[test]
fn sources_that_change_while_builds_are_made_end_the_study() {
    let project = Project::new();
    let script = "fn main() { std::fs::write(\"src/left.txt\", \"x\").unwrap() }";
    fs::write(project.at("app/build.rs"), script).expect("written");
    let error = project.study(&format!("{HEAD}{WORKLOAD}"), false, NEVER, &calm).0.expect_err("changed");
    assert!(matches!(&error, StudyError::Changed { what } if what == "`src/left.txt` is new"), "{error}");
    let kept = fs::read_dir(project.at("out/builds")).expect("there");
    let is_kept = |entry: std::io::Result<fs::DirEntry>| entry.expect("there").path().join("build.json").exists();
    assert!(!kept.into_iter().any(is_kept), "nothing of it is kept");
    // Once the file exists it is a source like any other.
    assert!(project.study(&format!("{HEAD}{WORKLOAD}"), false, NEVER, &calm).0.is_ok());
}

#[test]
fn another_program_under_a_measured_name_is_refused() {
    let project = Project::new();
    let text = format!("{HEAD}{WORKLOAD}");
    let stopped = project.study(&text, false, 8, &calm).0.expect_err("stopped");
    assert!(matches!(stopped, StudyError::Stopped { .. }), "{stopped}");
    let digest = |text: &str| -> String {
        let json: serde_json::Value = serde_json::from_str(text).expect("JSON");
        json["digest"].as_str().expect("text").to_owned()
    };
    for entry in fs::read_dir(project.at("out/builds")).expect("there") {
        let folder = entry.expect("there").path();
        let Ok(built) = fs::read_to_string(folder.join("build.json")) else { continue };
        // As if it had been built again with different bytes.
        let mut program = fs::read(folder.join("program")).expect("there");
        program.push(0);
        fs::write(folder.join("program"), &program).expect("written");
        let new = hearth_tune::run::identity::digest(&folder.join("program")).expect("read");
        fs::write(folder.join("build.json"), built.replace(&digest(&built), &new)).expect("written");
    }
    let error = project.study(&text, false, NEVER, &calm).0.expect_err("another");
    assert!(matches!(&error, StudyError::Replaced { build, .. } if build.starts_with("default")), "{error}");
}

#[test]
fn failed_build_stays_out_and_beaten_ones_return() {
    let project = Project::new();
    fs::write(project.at("quick.sh"), "echo >> ../quick; test $(wc -l < ../quick) -lt 8 && echo speed 500.${1#0.}\n")
        .expect("written");
    fs::write(project.at("mid.sh"), "echo speed 120.${1#0.}\n").expect("written");
    let rows = "[[row]]\nname = \"quick\"\ncommand = \"sh ../quick.sh\"\n[[row]]\nname = \"mid\"\n\
        command = \"sh ../mid.sh\"\n";
    let text = format!("{HEAD}{rows}{WORKLOAD}").replace("rounds = 6\n", "rounds = 12\n");
    let (report, printed) = project.study(&text, true, NEVER, &calm);
    let report = report.expect("an answer");
    assert!(printed.iter().any(|line| line.contains("`mid` is beaten beyond doubt")), "{printed:?}");
    assert!(report.failed["quick"].contains("exit code 1"), "{:?}", report.failed);
    assert!(report.happened.dropped.is_empty() && report.happened.saved == 0, "{:?}", report.happened);
    // Not in the finished rounds but in new ones, together with the reference and its copy.
    assert_eq!(project.rounds("mid"), (1..=6).chain(9..=14).collect::<Vec<_>>());
    assert_eq!((project.rounds("default"), project.rounds("default (copy)")), ((1..=14).collect(), (1..=14).collect()));
    assert!(printed.iter().any(|line| line.starts_with("`mid` is measured after all")), "{printed:?}");
    assert!(report.conclusion().contains("it is not built here"), "{}", report.conclusion());
    // It would succeed now, but results must not depend on when the study is run.
    fs::write(project.at("quick.sh"), "echo speed 500.${1#0.}\n").expect("written");
    let (again, printed) = project.study(&text, true, NEVER, &calm);
    assert_eq!(again.expect("an answer").answer.json(), report.answer.json());
    assert!(printed.iter().any(|line| line.starts_with("`quick` failed before, and stays out")), "{printed:?}");
}

#[test]
fn a_plan_leaves_nothing_behind() {
    let project = Project::new();
    let spec = project.spec(&format!("{HEAD}{MATRIX}{WORKLOAD}"));
    let control = Control { stop: &|| false, tell: &|_| {}, judge: &calm };
    let plan = Study::look(&spec, &project.at("out"), &control).expect("planned").plan();
    assert!(plan.starts_with("5 builds, 6 rounds, 30 runs:") && plan.contains("  default (reference)\n"), "{plan}");
    assert!(!project.at("out").exists());
}

#[test]
fn results_of_other_sources_are_not_mixed_with_these() {
    let project = Project::new();
    let text = format!("{HEAD}{WORKLOAD}");
    assert!(project.study(&text, false, NEVER, &calm).0.is_ok());
    fs::write(project.at("app/src/main.rs"), format!("{MAIN}\n// another\n")).expect("written");
    let error = project.study(&text, false, NEVER, &calm).0.expect_err("others").to_string();
    assert!(error.contains("holds a study with other sources") && error.contains("--folder"), "{error}");
    fs::write(project.at("app/src/main.rs"), MAIN).expect("written");
    let error = project.study(&text.replace("retries = 1", "retries = 2"), false, NEVER, &calm).0;
    assert!(error.expect_err("others").to_string().contains("other limits (`retries` is 2 and was 1)"));
    let error = project.study(&text.replace("better = \"higher\"", "better = \"lower\""), false, NEVER, &calm);
    assert!(error.0.expect_err("others").to_string().contains("other workloads"));
    let _held = held(&project.at("out/lock"));
    let error = project.study(&text, false, NEVER, &calm).0.expect_err("held");
    assert!(matches!(error, StudyError::Locked(_)), "{error}");
}

#[test]
fn only_what_a_program_is_made_of_is_its_source() {
    let project = Project::new();
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.arg("-C").arg(project.folder.path()).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        command.args(arguments).output().is_ok_and(|output| output.status.success())
    };
    let with = format!("const TEXT: &str = include_str!(\"../../shared.txt\");\n{MAIN}")
        .replace("println!(", "assert!(!TEXT.is_empty());\n    println!(");
    fs::write(project.at("app/src/main.rs"), with).expect("written");
    fs::write(project.at("shared.txt"), "shared").expect("written");
    fs::write(project.at("notes.md"), "first").expect("written");
    // The study and its run counters are ignored by git.
    fs::write(project.at(".gitignore"), "count\nout\nstudy.toml\n").expect("written");
    if !git(&["init", "-q"]) {
        return;
    }
    let text = format!("{HEAD}{WORKLOAD}");
    let stopped = project.study(&text, false, 12, &calm).0.expect_err("stopped");
    assert!(matches!(stopped, StudyError::Stopped { .. }), "{stopped}");
    // Notes and results are committed while the study runs.
    fs::write(project.at("notes.md"), "second").expect("written");
    fs::copy(project.at("out/results.csv"), project.at("results.csv")).expect("copied");
    assert!(git(&["add", "."]) && git(&["commit", "-qm", "notes"]));
    let (report, printed) = project.study(&text, false, NEVER, &calm);
    assert!(report.is_ok(), "{:?}", report.err().map(|why| why.to_string()));
    assert!(!printed.iter().any(|line| line.starts_with("building")), "{printed:?}");
    // A file that the program includes is one of its sources, wherever it is.
    fs::write(project.at("shared.txt"), "other").expect("written");
    let error = project.study(&text, false, NEVER, &calm).0.expect_err("others").to_string();
    assert!(error.contains("other sources (`") && error.contains("shared.txt` changed"), "{error}");
    fs::write(project.at("shared.txt"), "shared").expect("written");
    assert!(project.study(&text, false, NEVER, &calm).0.is_ok());
}

fn held(path: &Path) -> fs::File {
    let lock = fs::File::open(path).expect("there");
    lock.lock().expect("free");
    lock
}
