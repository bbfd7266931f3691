//! The workloads of a study, and the numbers that are read from them.
//!
//! reads   a command's output, its duration, its CPU time
//! writes  values, each with its unit
//!
//! An expression must match exactly once: with two matches either could be meant.

use hearth_stats::unit::{self, Dimension};
use regex::Regex;

use hearth_command::did_you_mean::meant;

/// Characters of output that a message quotes.
const QUOTED: usize = 300;

/// The source of a metric's values.
#[derive(Clone, Debug)]
pub enum Source {
    /// The output: the first group of the expression, or the whole match.
    Regex(Regex),
    /// Wall time in seconds.
    Wall,
    /// CPU time in seconds of all processes that the command has waited for.
    Cpu,
}

impl Source {
    /// Compiles an expression; `^` and `$` match at line ends.
    pub fn regex(text: &str) -> Result<Self, String> {
        let made = regex::RegexBuilder::new(text).multi_line(true).build();
        let last = |why: regex::Error| why.to_string().lines().last().unwrap_or_default().trim().to_owned();
        made.map(Self::Regex).map_err(|why| format!("`{text}` is not an expression: {}", last(why)))
    }
}

/// A metric of a workload.
#[derive(Clone, Debug)]
pub struct Metric {
    /// Name of the metric.
    pub name: String,
    /// The source of its values.
    pub source: Source,
    /// Whether more is better, or less; none if it is only reported.
    pub more: Option<bool>,
}

impl Metric {
    /// Validates a name and the direction.
    pub fn new(name: &str, source: Source, better: Option<&str>) -> Result<Self, String> {
        if name.is_empty() || name.trim() != name || name.contains([',', '\n', '"']) {
            return Err(format!("`name`: `{name}` is not a name of a metric"));
        }
        let more = match better {
            None => None,
            Some("higher") => Some(true),
            Some("lower") => Some(false),
            Some(other) => {
                let near = meant(other, &["higher", "lower"]);
                let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                return Err(format!("`better`: `{other}` is none of higher, lower{near}"));
            }
        };
        Ok(Self { name: name.into(), source, more })
    }

    /// Parses a metric of the command line: `NAME=regex`.
    pub fn parse(text: &str, better: Option<&str>) -> Result<Self, String> {
        let (name, regex) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=REGEX"))?;
        Self::new(name.trim(), Source::regex(regex)?, better)
    }
}

/// A command that is run with each build.
#[derive(Clone, Debug)]
pub struct Workload {
    /// A shell command; `{bin}` is the build, `{scratch}` an empty folder, `{project}` the project's.
    pub run: String,
    /// The metrics to read from it.
    pub metrics: Vec<Metric>,
}

/// The result of a run.
pub struct RunOutput<'a> {
    /// Standard output, followed by standard error.
    pub printed: &'a str,
    /// Wall time in seconds.
    pub wall_s: f64,
    /// CPU time in seconds, if known.
    pub cpu_s: Option<f64>,
}

impl Workload {
    /// Our own workloads: a node under load for some seconds; execution of empty and full blocks; each tile alone; and
    /// the machine scores, as far as a build affects them.
    pub fn ours() -> Vec<Self> {
        let metric = |name: &str, part: &str, field: &str, more: bool| {
            let text = format!(r#""{part}":\s*\{{[^}}]*"{field}":\s*([0-9.eE+-]+)"#);
            let source = Source::regex(&text).expect("as written here");
            Metric { name: name.into(), source, more: Some(more) }
        };
        let load = vec![
            metric("txn_per_s", "txn_per_s", "mean", true),
            metric("cpu_us_per_txn", "cpu_us_per_txn", "node", false),
        ];
        let block = vec![
            metric("block_ns_per_txn", "transaction_ns", "median", false),
            metric("empty_block_ns", "empty_block_ns", "median", false),
        ];
        let source = Source::regex(r#""tiles_ns":\s*([0-9.eE+-]+)"#).expect("as written here");
        let tiles = vec![Metric { name: "tiles_ns_per_txn".into(), source, more: Some(false) }];
        let score = |name: &str| {
            let source = Source::regex(&format!(r#""{name}":\s*([0-9.eE+-]+)"#)).expect("as written here");
            Metric { name: name.replace('-', "_"), source, more: Some(true) }
        };
        let scores = ["blake2-256", "sr25519-verify", "ed25519-verify"];
        vec![
            Self { run: "cd {scratch} && {bin} bench --warmup 1 --duration 4 --json -".into(), metrics: load },
            Self { run: "{bin} tune block --json -".into(), metrics: block },
            Self { run: "{bin} tune tiles --json -".into(), metrics: tiles },
            // The study decides whether a run was disturbed; the score itself must never fall back to CPU time.
            Self {
                run: format!(
                    "{{bin}} tune machine --only {} --duration 1 --steal 1 --foreign 1 --pressure 1 --json -",
                    scores.join(",")
                ),
                metrics: scores.map(score).into(),
            },
        ]
    }

    /// Returns the command with the build and folders filled in.
    pub fn line(&self, bin: &str, scratch: &str, project: &str) -> String {
        self.run.replace("{bin}", bin).replace("{scratch}", scratch).replace("{project}", project)
    }

    /// Reads all metrics, or says what is wrong with the output.
    pub fn values(&self, shown: &RunOutput<'_>) -> Result<Vec<String>, String> {
        self.metrics.iter().map(|metric| value(metric, shown)).collect()
    }
}

fn value(metric: &Metric, shown: &RunOutput<'_>) -> Result<String, String> {
    let regex = match &metric.source {
        Source::Regex(regex) => regex,
        Source::Wall => return Ok(format!("{} s", shown.wall_s)),
        Source::Cpu => {
            let no = || format!("`{}`: this kernel does not count CPU time", metric.name);
            return shown.cpu_s.map(|seconds| format!("{seconds} s")).ok_or_else(no);
        }
    };
    let name = &metric.name;
    if shown.printed.trim().is_empty() {
        return Err(format!("it printed nothing, so there is no `{name}`"));
    }
    let found: Vec<&str> = regex
        .captures_iter(shown.printed)
        .take(3)
        .filter_map(|all| Some(all.get(1).or_else(|| all.get(0))?.as_str().trim()))
        .collect();
    let text = match found[..] {
        [one] => one,
        [] => return Err(format!("it printed no `{name}`: `{regex}` matches nothing in {}", quoted(shown.printed))),
        _ => {
            return Err(format!(
                "it printed `{name}` twice, as `{}` and `{}`: make `{regex}` match once",
                found[0], found[1]
            ));
        }
    };
    match unit::parse(text) {
        // Kept in the printed unit, because the number of digits is significant.
        Ok(Some((value, Dimension::Number))) => Ok(format!("{value}")),
        Ok(Some(_)) => Ok(text.into()),
        Ok(None) => Err(format!("`{name}` is `{text}`, which is not a number")),
        Err(why) => Err(format!("`{name}`: {why}")),
    }
}

/// Quotes the end of an output on one line.
pub fn quoted(printed: &str) -> String {
    let one: String = printed.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let skipped = one.chars().count().saturating_sub(QUOTED);
    let tail: String = one.chars().skip(skipped).collect();
    if skipped > 0 { format!("\"… {tail}\"") } else { format!("\"{tail}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(printed: &str) -> Result<Vec<String>, String> {
        let metrics = vec![Metric::parse(r"tps=^tps:? (.+)$", Some("higher")).expect("fine")];
        Workload { run: "{bin}".into(), metrics }.values(&RunOutput { printed, wall_s: 1.5, cpu_s: None })
    }

    #[test]
    fn values_are_read_with_their_unit() {
        assert_eq!(read("hello\ntps: 1200.5\n").expect("fine"), ["1200.5"]);
        assert_eq!(read("tps 2.00 MiB/s").expect("fine"), ["2.00 MiB/s"]);
        assert_eq!(read("tps 85 %").expect("fine"), ["85 %"]);
    }

    #[test]
    fn invalid_value_is_reported() {
        let wrong = |printed: &str| read(printed).expect_err("wrong");
        assert!(wrong(" \n").starts_with("it printed nothing"));
        assert!(wrong("speed 3\n").contains("matches nothing in \"speed 3\""));
        assert!(wrong("tps 1\ntps 2\n").contains("twice, as `1` and `2`"));
        assert_eq!(wrong("tps NaN\n"), "`tps` is `NaN`, which is not a number");
        assert!(wrong("tps inf\n").contains("`inf` is not a number"));
        assert!(wrong("tps 3 parsecs\n").contains("not a unit"));
        assert!(quoted(&"x".repeat(1_000)).chars().count() < 320);
        assert!(Metric::parse("tps", None).expect_err("no expression").contains("NAME=REGEX"));
    }

    #[test]
    fn external_measurements_are_in_seconds() {
        let metric = |name: &str, source| Metric { name: name.into(), source, more: Some(false) };
        let metrics = vec![metric("wall", Source::Wall), metric("cpu", Source::Cpu)];
        let workload = Workload { run: "{bin} > {scratch}/x".into(), metrics };
        let shown = RunOutput { printed: "", wall_s: 1.5, cpu_s: Some(0.25) };
        assert_eq!(workload.values(&shown).expect("fine"), ["1.5 s", "0.25 s"]);
        assert_eq!(workload.line("'/a b'", "/s", "/p"), "'/a b' > /s/x");
    }

    #[test]
    fn our_own_result_is_read() {
        for (workload, printed, values) in [
            (
                0,
                r#"{ "cpu_us_per_txn": { "load": 4.0, "node": 10.5 }, "txn_per_s": { "max": 9, "mean": 7.25 } }"#,
                &["7.25", "10.5"][..],
            ),
            (
                1,
                r#"{ "empty_block_ns": { "mean": 4.0, "median": 3.5 }, "transaction_ns": { "mean": 9, "median": 8.5 } }"#,
                &["8.5", "3.5"],
            ),
            (2, r#"{ "tiles": { "bank": { "median": 1.5 } }, "tiles_ns": 11049.5 }"#, &["11049.5"]),
            (
                3,
                r#"{ "values": { "blake2-256": 1e9, "ed25519-verify": 9.5, "sr25519-verify": 7 }, "scores": [] }"#,
                &["1000000000", "7", "9.5"],
            ),
        ] {
            let shown = RunOutput { printed, wall_s: 1.0, cpu_s: None };
            assert_eq!(Workload::ours()[workload].values(&shown).expect("fine"), values);
        }
    }
}
