//! Reads and analyzes a large study: 10,000 builds, 20 repetitions, 5 metrics, in at most 5 s.
//!
//! writes  the seconds of reading and of analysis, next to the goal
//! memory  some 200 MB
//!
//! cargo bench -p hearth-tune --bench analyze

use std::fmt::Write;
use std::time::Instant;

use hearth_stats::table::Table;
use hearth_tune::analysis::{Question, analyze};

const BUILDS: usize = 10_000;
const REPETITIONS: usize = 20;
const METRICS: usize = 5;
/// Upper bound in seconds.
const GOAL: f64 = 5.0;

fn results() -> String {
    let mut random = fastrand::Rng::with_seed(7);
    let mut text = "nb_build,lto,units,cpu,metric,value,repetition\n".to_owned();
    for build in 0..BUILDS {
        let (lto, units, cpu) = (build % 3, build / 3 % 5, build / 15 % 4);
        let speed = 1.0 + 0.02 * lto as f64 + 0.01 * cpu as f64 + 0.1 * random.f64();
        for metric in 0..METRICS {
            for repetition in 0..REPETITIONS {
                let value = 1000.0 * speed * (1.0 + 0.05 * random.f64());
                let _ = writeln!(text, "b{build},{lto},{units},{cpu},m{metric},{value},{repetition}");
            }
        }
    }
    text
}

fn main() {
    let text = results();
    let begun = Instant::now();
    let table = Table::read(text.as_bytes()).expect("results");
    let read = begun.elapsed().as_secs_f64();
    let question = Question {
        max: (0..3).map(|metric| format!("m{metric}")).collect(),
        min: (3..5).map(|metric| format!("m{metric}")).collect(),
        reference: Some("b0".into()),
        ..Question::default()
    };
    let answer = analyze(table, &question).expect("an answer");
    let all = begun.elapsed().as_secs_f64();
    println!("{BUILDS} builds, {REPETITIONS} repetitions, {METRICS} metrics; {} resamples", answer.paired.resamples);
    println!("  read      {read:6.2} s");
    println!("  answered  {:6.2} s, {} builds near the front", all - read, answer.near.len());
    let verdict = if all <= GOAL { "met" } else { "MISSED" };
    println!("  both      {all:6.2} s   goal {GOAL} s at most: {verdict}");
}
