//! Presents the result of a search, for people and for programs.
//!
//! reads   a [`SearchResult`]
//! writes  text, JSON, and the evidence as comments in a configuration

use std::fmt::Write;

use serde_json::{Value, json};

use super::decide::{PAIRS_LEAST, Verdict};
use super::search::TRIALS_LEAST;
use super::search_result::{NoVerdict, SearchEnd, SearchResult, Step, TrialVerdict, line, words};
use super::space::Space;

/// Returns the result in one sentence.
pub fn answer(space: &Space, found: &SearchResult) -> String {
    let change = || space.change(&found.default, &found.candidate);
    match &found.verdict {
        Ok(Verdict::Better(gain)) => format!(
            "another layout than the default is better: {}, of {} pairs of runs in turn",
            words(&Verdict::Better(*gain)),
            gain.pairs
        ),
        Ok(verdict @ Verdict::TooSmall(gain)) => format!(
            "the default stays: the best that was tried ({}) is {}, in {} pairs of runs",
            change(),
            words(verdict),
            gain.pairs
        ),
        Ok(verdict @ Verdict::NotShown(gain)) => format!(
            "no better layout than the default is shown: the best that was tried ({}) is {} in {} pairs of runs",
            change(),
            words(verdict),
            gain.pairs
        ),
        Err(NoVerdict::NothingTried) => {
            let mean = found.seconds / found.trials.max(1) as f64;
            // One run more, because runs differ in duration.
            let minutes = (10.0 * (TRIALS_LEAST + 1) as f64 * mean / 60.0).ceil() / 10.0;
            format!(
                "the default stays: there was no room to try another layout; as a run takes {mean:.1} s, {TRIALS_LEAST} runs \
                 and {minutes} minutes are the least"
            )
        }
        Err(NoVerdict::NothingBetter) => "the default stays: nothing that was tried seemed better".into(),
        Err(why) => format!(
            "no better layout than the default is shown: one seemed to be ({}), and {}",
            change(),
            no_verdict(why, found.pairs.len())
        ),
    }
}

/// Why there is no verdict, after this many pairs of runs.
fn no_verdict(why: &NoVerdict, pairs: usize) -> String {
    let wanted = format!("the {PAIRS_LEAST} pairs of runs that would tell");
    match why {
        NoVerdict::NothingTried | NoVerdict::NothingBetter => "it was not compared".into(),
        NoVerdict::NoRoom => format!("there was no room for {wanted}"),
        NoVerdict::Disturbed(why) => {
            format!("others disturbed too many runs for {wanted}, one of them since {why}; there are {pairs}")
        }
        NoVerdict::Candidate(why) => {
            format!("it failed when it met the default again, after {pairs} pairs of runs: {why}")
        }
        NoVerdict::Default(why) => {
            format!("the default failed when it met that again, after {pairs} pairs of runs: {why}")
        }
    }
}

/// Returns in words why the search ended.
pub fn ended(found: &SearchResult) -> &'static str {
    match found.ended {
        SearchEnd::NoMoveWins => "no move won any more",
        SearchEnd::NothingLeft => "there was no other layout left to try",
        SearchEnd::Trials => "as many runs as were allowed",
        SearchEnd::Time => "what was left of the time would not have done to try another one and compare it",
        SearchEnd::Busy => "others disturbed whatever was tried from there",
    }
}

/// Returns the evidence as lines without line ends.
pub fn evidence(space: &Space, found: &SearchResult) -> Vec<String> {
    let mut lines = vec![answer(space, found)];
    let noise = found.noise.map_or(String::new(), |noise| {
        format!("; two runs of the same layout differ by {:.1} % (one deviation of a run)", 100.0 * noise)
    });
    let disturbed = match found.disturbed {
        0 => String::new(),
        count => format!(", {count} more that others disturbed"),
    };
    lines.push(format!(
        "{} runs of {} layouts{disturbed} in {:.0} s; it ended since {}{noise}",
        found.trials,
        found.layouts,
        found.seconds,
        ended(found)
    ));
    if found.layout != found.default && found.layout != found.candidate {
        lines.push(format!(
            "the layout goes on from that one ({}), with what runs were left; what it gains beyond it is an estimate: {}",
            space.change(&found.default, &found.candidate),
            space.change(&found.candidate, &found.layout)
        ));
    }
    if !found.pairs.is_empty() {
        let show = |of: &dyn Fn(&(f64, f64)) -> f64| {
            found.pairs.iter().map(|pair| format!("{:.0}", of(pair))).collect::<Vec<_>>().join(" ")
        };
        lines.push(format!("the default, transactions a second: {}", show(&|pair| pair.0)));
        lines.push(format!("the best, in the same pairs: {}", show(&|pair| pair.1)));
    }
    if !found.first.says.is_empty() {
        lines.push(format!("the default's limit: {}", found.first.says));
    }
    if found.is_better() && !found.says.is_empty() {
        lines.push(format!("the limit now: {}", found.says));
    }
    lines
}

/// Returns the path, one line per step.
pub fn path(space: &Space, found: &SearchResult) -> Vec<String> {
    let is_taken = |step: &&Step| step.fate == TrialVerdict::Taken;
    let mut lines: Vec<String> =
        found.steps.iter().filter(is_taken).map(|step| format!("taken: {}", line(space, step))).collect();
    let rest = found.steps.len() - lines.len();
    let failed = found.steps.iter().filter(|step| matches!(step.fate, TrialVerdict::Failed(_))).count();
    let unknown = found.steps.iter().filter(|step| matches!(step.fate, TrialVerdict::NotCompared(_))).count();
    let failures = if failed > 0 { format!(", of which {failed} do not work") } else { String::new() };
    let unknown = if unknown > 0 { format!("; {unknown} were not compared with the best") } else { String::new() };
    lines.push(format!("{rest} others were tried and not taken{failures}{unknown}"));
    lines
}

/// Formats the result for a terminal.
pub fn text(space: &Space, found: &SearchResult) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for step in &found.steps {
        let _ = writeln!(text, "  {}  {}", step.round + 1, line(space, step));
    }
    if !found.steps.is_empty() {
        text = format!("  round and what was tried\n{text}\n");
    }
    for line in evidence(space, found) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Formats the result as JSON.
pub fn json(space: &Space, found: &SearchResult) -> Value {
    let step = |step: &Step| {
        json!({
            "round": step.round + 1,
            "layout": space.text(&step.layout),
            "change": space.change(&step.against, &step.layout),
            "why": step.why,
            "txn_per_s": step.pairs.iter().map(|pair| pair.0).collect::<Vec<_>>(),
            "txn_per_s_best": step.pairs.iter().map(|pair| pair.1).collect::<Vec<_>>(),
            "fate": step.fate,
            "limit": step.says,
        })
    };
    json!({
        "answer": answer(space, found),
        "better": found.is_better(),
        "layout": space.text(&found.layout),
        "default": space.text(&found.default),
        "candidate": space.text(&found.candidate),
        "verdict": found.verdict.as_ref().ok(),
        "no_verdict": found.verdict.as_ref().err(),
        "pairs": { "default": found.pairs.iter().map(|pair| pair.0).collect::<Vec<_>>(),
                   "candidate": found.pairs.iter().map(|pair| pair.1).collect::<Vec<_>>() },
        "ended": ended(found),
        "runs": found.trials,
        "runs_disturbed": found.disturbed,
        "layouts": found.layouts,
        "seconds": found.seconds,
        "noise": found.noise,
        "default_limit": found.first.says,
        "limit": found.says,
        "steps": found.steps.iter().map(step).collect::<Vec<_>>(),
    })
}
