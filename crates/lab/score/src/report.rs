//! The report of scores, as a table and as JSON.
//!
//! reads   the scores, and the requirements
//! writes  text; JSON, whose member `values` has each score under its name alone

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::kind::{Kind, Unit};
use super::requirements::{Requirements, Verdict, judge};
use super::{Clock, Detail, Outcome, Plan, Score};

/// SR25519's score counts bytes: a message of this many is one verification.
const SR25519_MESSAGE_BYTES: f64 = 32.0;

/// The requirements to check.
#[derive(Clone, Debug)]
pub struct ScoreRequirements {
    /// Name of the requirements.
    pub name: String,
    /// The required value of each score that has one.
    pub requirements: Requirements,
    /// By how many percent a score may be worse.
    pub tolerance: f64,
}

/// The scores, with everything that belongs to them.
#[derive(Clone, Debug)]
pub struct Report {
    /// The scores that were to be measured.
    pub plan: Plan,
    /// The measured scores, and those that failed.
    pub outcome: Outcome,
    /// The requirements, if any.
    pub asked: Option<ScoreRequirements>,
    /// The type of the folder's file system.
    pub file_system: Option<String>,
    /// The hyperthread siblings of each core.
    pub siblings: BTreeMap<usize, Vec<usize>>,
    /// The optimization level of this program.
    pub opt_level: &'static str,
    /// Version of this program.
    pub version: &'static str,
}

impl Report {
    fn verdict(&self, score: &Score) -> Option<(f64, Verdict)> {
        let asked = self.asked.as_ref()?;
        let required = asked.requirements.of(score.kind)?;
        Some((required, judge(score.kind.unit(), score.value, required, asked.tolerance)))
    }

    /// Returns the required scores whose verdict is wanted.
    pub fn judged(&self, wanted: impl Fn(Verdict) -> bool) -> Vec<Kind> {
        let is_wanted = |score: &&Score| self.verdict(score).is_some_and(|(_, verdict)| wanted(verdict));
        self.outcome.scores.iter().filter(is_wanted).map(|score| score.kind).collect()
    }

    /// Returns the requirements that are not met.
    pub fn missed(&self) -> Vec<Kind> {
        self.judged(|verdict| verdict != Verdict::Met)
    }

    /// Returns the requirements whose score was not measured.
    pub fn not_measured(&self) -> Vec<Kind> {
        let is_there = |kind: &Kind| self.outcome.scores.iter().any(|score| score.kind == *kind);
        let asked = self.asked.iter().flat_map(|asked| asked.requirements.kinds());
        asked.filter(|kind| !is_there(kind)).collect()
    }

    /// Returns the whole report as JSON, with exact numbers.
    pub fn json(&self) -> Value {
        let scores = &self.outcome.scores;
        let values: Map<String, Value> =
            scores.iter().map(|score| (score.kind.name().to_owned(), score.value.into())).collect();
        let failed: Vec<Value> =
            self.outcome.failed.iter().map(|(kind, why)| json!({ "name": kind, "why": why })).collect();
        let writes = self.plan.kinds.iter().any(|kind| kind.is_of_disk());
        json!({
            "values": values,
            "scores": scores.iter().map(|score| self.score(score)).collect::<Vec<_>>(),
            "failed": failed,
            "is_stopped": self.outcome.is_stopped,
            "is_watched": self.outcome.is_watched,
            "seconds": self.plan.duration.as_secs_f64(),
            "disk": writes.then(|| json!({
                "folder": self.plan.folder,
                "file_system": self.file_system,
                "seconds": self.plan.disk_duration.as_secs_f64(),
            })),
            "requirements": self.asked.as_ref().map(|asked| json!({
                "of": asked.name,
                "tolerance_percent": asked.tolerance,
                "met": self.judged(|verdict| verdict == Verdict::Met),
                "missed": self.missed(),
                "not_measured": self.not_measured(),
            })),
            "program": { "version": self.version, "opt_level": self.opt_level },
        })
    }

    fn score(&self, score: &Score) -> Value {
        let [p5, median, p95] = score.spread;
        let mut value = json!({
            "name": score.kind,
            "value": score.value,
            "unit": score.kind.unit(),
            "clock": score.clock,
            "by_wall_time": score.wall,
            "by_cpu_time": score.cpu,
            "p5": p5,
            "median": median,
            "p95": p95,
            "calls": score.calls,
            "disturbed": score.disturbed,
        });
        if let Some((required, verdict)) = self.verdict(score) {
            value["required"] = required.into();
            value["verdict"] = json!(verdict);
        }
        if score.kind == Kind::Sr25519Verify {
            value["verifications_per_second"] = (score.value / SR25519_MESSAGE_BYTES).into();
        }
        match &score.detail {
            Detail::None => {}
            Detail::Sent(sent) => value["sent_per_second"] = (*sent).into(),
            Detail::Between(between) => {
                value["cores"] = json!(between.cores);
                value["cores_left_out"] = json!(between.left_out);
                value["matrix_ns"] = json!(between.matrix);
                value["same_physical_core"] = json!(self.siblings_among(&between.cores));
            }
        }
        value
    }

    /// Pairs of cores that are hyperthreads of one physical core.
    fn siblings_among(&self, cores: &[usize]) -> Vec<[usize; 2]> {
        let pairs = self.siblings.iter().flat_map(|(core, others)| others.iter().map(move |other| [*core, *other]));
        pairs.filter(|pair| pair[0] < pair[1] && pair.iter().all(|core| cores.contains(core))).collect()
    }

    /// Formats the scores as a table, with notes below it.
    pub fn text(&self) -> String {
        let is_asked = self.asked.is_some();
        let mut text = format!(
            "{:<23}{:>18}{:>18}{:>18}{:>18}{:>9}",
            "score", "value", "5 % of slices", "median", "95 %", "calls"
        );
        text += if is_asked { "   required\n" } else { "\n" };
        for score in &self.outcome.scores {
            self.row(&mut text, score);
        }
        for (kind, why) in &self.outcome.failed {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:<23}{:>18}   {why}", kind.name(), "none");
        }
        for note in self.notes() {
            let _ = writeln!(text, "\n{note}");
        }
        text
    }

    fn row(&self, text: &mut String, score: &Score) {
        let unit = score.kind.unit();
        let [slow, median, fast] = score.spread.map(|value| unit.text(value));
        let value = unit.text(score.value);
        let _ = write!(text, "{:<23}{value:>18}{slow:>18}{median:>18}{fast:>18}{:>9}", score.kind.name(), score.calls);
        if let Some((required, verdict)) = self.verdict(score) {
            let difference = (score.value / required - 1.0) * 100.0;
            let required = unit.text(required);
            let _ = match verdict {
                Verdict::Met => write!(text, "   {required}: met"),
                Verdict::Missed => write!(text, "   {required}: MISSED, {difference:+.1} %"),
                Verdict::UnitsWrong => write!(text, "   {required}: off by a hundred times or more, see its unit"),
            };
        }
        text.push('\n');
        if score.kind == Kind::Sr25519Verify {
            let count = Unit::PerSecond.text(score.value / SR25519_MESSAGE_BYTES);
            let _ = writeln!(text, "  bytes of messages: {count} verifications");
        }
        match &score.detail {
            Detail::None => {}
            Detail::Sent(sent) => {
                let _ = writeln!(text, "  received; sent meanwhile: {}", unit.text(*sent));
            }
            Detail::Between(between) => {
                let [least, _, most] = between.range().map(|ns| unit.text(ns));
                let cores = between.cores.len();
                let _ = write!(text, "  one way; from {least} to {most} among the pairs of {cores} cores");
                let left_out = between.left_out.len();
                let _ = match left_out {
                    0 => writeln!(text),
                    _ => writeln!(text, ", of {} that are allowed", cores + left_out),
                };
            }
        }
        if let Some(why) = &score.disturbed {
            let _ = match score.clock {
                Clock::Cpu => writeln!(text, "  CPU time: {why}; by wall time {}", unit.text(score.wall)),
                Clock::Wall => writeln!(text, "  disturbed: {why}"),
            };
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.outcome.is_stopped {
            let (done, all) = (self.outcome.scores.len(), self.plan.kinds.len());
            notes.push(format!("Stopped: {done} of {all} scores."));
        }
        if !self.outcome.is_watched {
            notes.push("Whether other programs disturbed this is unknown: /proc/stat is not readable.".into());
        }
        let has_disk = self.outcome.scores.iter().any(|score| score.kind.is_of_disk());
        if let Some(kind) = self.file_system.as_ref().filter(|kind| has_disk && is_of_memory(kind)) {
            let folder = self.plan.folder.display();
            notes.push(format!("{folder} is on {kind}, which is memory and no disk: name another --disk-folder."));
        }
        if let Some(asked) = &self.asked {
            let (met, missed) = (self.judged(|verdict| verdict == Verdict::Met).len(), self.missed().len());
            let mut line = format!("Requirements of {}: {met} met, {missed} missed", asked.name);
            let absent: Vec<&str> = self.not_measured().into_iter().map(Kind::name).collect();
            if !absent.is_empty() {
                let _ = write!(line, ", not measured: {}", absent.join(", "));
            }
            let _ = write!(line, " (tolerance {} %).", asked.tolerance);
            notes.push(line);
        }
        if self.opt_level != "3" {
            let level = self.opt_level;
            notes.push(format!("This program is compiled with opt-level {level}: only those with 3 compare."));
        }
        notes
    }
}

/// Whether a file system has no disk.
fn is_of_memory(kind: &str) -> bool {
    matches!(kind, "tmpfs" | "ramfs" | "devtmpfs")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hearth_stats::quiet::DisturbanceLimits;

    use super::super::cores::CoreMatrix;
    use super::*;

    const MIB: f64 = 1048576.0;

    fn score(kind: Kind, value: f64) -> Score {
        Score {
            kind,
            value,
            clock: Clock::Wall,
            wall: value,
            cpu: Some(value),
            spread: [value * 0.9, value, value * 1.1],
            calls: 7,
            disturbed: None,
            detail: Detail::None,
        }
    }

    fn report(scores: Vec<Score>, asked: Option<&str>) -> Report {
        let plan = Plan {
            kinds: Kind::ALL.to_vec(),
            duration: Duration::from_secs(5),
            disk_duration: Duration::from_millis(2500),
            folder: "/some/where".into(),
            quiet: DisturbanceLimits::default(),
        };
        Report {
            plan,
            outcome: Outcome { scores, is_watched: true, ..Outcome::default() },
            asked: asked.map(|text| ScoreRequirements {
                name: "mine".into(),
                requirements: Requirements::parse(text).expect("good"),
                tolerance: 10.0,
            }),
            file_system: Some("ext4".into()),
            siblings: BTreeMap::from([(0, vec![1]), (1, vec![0]), (2, vec![3]), (3, vec![2])]),
            opt_level: "3",
            version: "1",
        }
    }

    #[test]
    fn each_value_is_found_once_and_exactly() {
        let exact = 1_048_575_123.456_789;
        let found =
            report(vec![score(Kind::Blake2, exact), score(Kind::Blake2Parallel, 5.5)], Some("blake2-256 = '1 GB/s'"));
        for text in [format!("{:#}", found.json()), found.json().to_string()] {
            let pattern = regex::Regex::new(r#""blake2-256": ?([0-9.]+)"#).expect("a pattern");
            let all: Vec<_> = pattern.captures_iter(&text).collect();
            assert_eq!(all.len(), 1, "{text}");
            assert_eq!(all[0][1].parse::<f64>(), Ok(exact));
        }
        let json = found.json();
        assert_eq!(json["scores"][0]["unit"], "bytes/s");
        assert_eq!(json["scores"][0]["clock"], "wall");
        assert_eq!(json["scores"][0]["verdict"], "met");
        assert_eq!(json["requirements"]["met"], json!(["blake2-256"]));
        assert_eq!((&json["disk"]["folder"], &json["disk"]["seconds"]), (&json!("/some/where"), &json!(2.5)));
    }

    #[test]
    fn missed_and_missing_scores_are_reported() {
        let asked = "blake2-256 = '1000 MiB/s'\ncopy = '9 GiB/s'\nsha256-chain = 1\ndisk-random-write = '420 MiB/s'\n";
        let scores = vec![
            score(Kind::Blake2, 900.0 * MIB),
            score(Kind::Copy, 800.0 * MIB),
            score(Kind::Sha256Chain, 1e7),
            score(Kind::Sr25519Verify, 640.0 * 1024.0),
        ];
        let found = report(scores, Some(asked));
        assert_eq!(found.missed(), [Kind::Copy, Kind::Sha256Chain]);
        assert_eq!(found.not_measured(), [Kind::DiskRandom]);
        let text = found.text();
        for part in [
            "900.00 MiB/s",
            "1000.00 MiB/s: met",
            "9216.00 MiB/s: MISSED, -91.3 %",
            "1.00 /s: off by a hundred times or more",
            "bytes of messages: 20480 /s verifications",
            "Requirements of mine: 1 met, 2 missed, not measured: disk-random-write (tolerance 10 %).",
        ] {
            assert!(text.contains(part), "`{part}` is not in\n{text}");
        }
        assert_eq!(found.json()["scores"][3]["verifications_per_second"], 20480.0);
        assert!(!report(vec![], None).text().contains("equired"));
    }

    #[test]
    fn disturbance_and_non_disk_are_reported() {
        let busy = Score {
            value: 1000.0 * MIB,
            clock: Clock::Cpu,
            disturbed: Some("other programs used 30 % of the machine".into()),
            ..score(Kind::Blake2, 500.0 * MIB)
        };
        let disk = Score { disturbed: Some("others".into()), cpu: None, ..score(Kind::DiskRandom, 5.0 * MIB) };
        let mut found = report(vec![busy, disk], None);
        found.file_system = Some("tmpfs".into());
        found.opt_level = "2";
        found.outcome.is_watched = false;
        found.outcome.is_stopped = true;
        found.outcome.failed.push((Kind::CoreToCore, "one core".into()));
        let text = found.text();
        for part in [
            "CPU time: other programs used 30 % of the machine; by wall time 500.00 MiB/s",
            "disturbed: others",
            "/some/where is on tmpfs, which is memory and no disk",
            "opt-level 2",
            "is unknown: /proc/stat",
            "Stopped: 2 of 13 scores.",
            "none   one core",
        ] {
            assert!(text.contains(part), "`{part}` is not in\n{text}");
        }
        let json = found.json();
        assert_eq!((&json["is_stopped"], &json["is_watched"]), (&json!(true), &json!(false)));
        assert_eq!(json["failed"], json!([{ "name": "core-to-core", "why": "one core" }]));
        assert_eq!(json["scores"][0]["clock"], "cpu");
        assert_eq!(json["requirements"], Value::Null);
        assert_eq!(json["program"]["opt_level"], "2");
    }

    #[test]
    fn pairs_of_cores_and_datagrams_are_reported() {
        let between = CoreMatrix {
            cores: vec![0, 1, 4],
            left_out: vec![5],
            matrix: vec![
                vec![None, Some(20.0), Some(90.0)],
                vec![Some(20.0), None, Some(95.0)],
                vec![Some(90.0), Some(95.0), None],
            ],
            spread: [20.0, 90.0, 99.0],
            calls: 30,
        };
        assert_eq!(between.range(), [20.0, 90.0, 95.0]);
        let cores = Score { detail: Detail::Between(between), ..score(Kind::CoreToCore, 90.0) };
        let udp = Score { detail: Detail::Sent(2e6), ..score(Kind::UdpLoopback, 1e6) };
        let found = report(vec![cores, udp], None);
        let text = found.text();
        assert!(text.contains("from 20.0 ns to 95.0 ns among the pairs of 3 cores, of 4 that are allowed"), "{text}");
        assert!(text.contains("sent meanwhile: 2000000 /s"), "{text}");
        let json = found.json();
        assert_eq!(json["scores"][0]["same_physical_core"], json!([[0, 1]]));
        assert_eq!(json["scores"][0]["matrix_ns"][1], json!([20.0, null, 95.0]));
        assert_eq!(json["scores"][1]["sent_per_second"], 2e6);
    }
}
