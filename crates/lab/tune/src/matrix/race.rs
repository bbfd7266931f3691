//! Finds builds that need no more rounds.
//!
//! reads   the results so far
//! writes  names of builds that another beats in every goal beyond the noise
//! source  Bonferroni over the looks, so that repeated looks drop no more good builds than one look
//!
//! Uses [`dominance`]. The intervals hold simultaneously for all builds and goals, with a smaller error probability at
//! each look.

use hearth_stats::paired_bootstrap::{ROUNDS_MIN, Settings};
use hearth_stats::table::Table;

use crate::analysis::{Question, analyze};
use crate::dominance;

/// Returns the rounds after which to look, less and less often.
pub fn looks(rounds: u32) -> Vec<u32> {
    let next = |round: &u32| Some(*round + (*round / 2).max(1));
    std::iter::successors(Some(ROUNDS_MIN as u32), next).take_while(|round| *round < rounds).collect()
}

/// Returns the beaten builds, by results up to one of the looks. The reference and its copy are never dropped.
pub fn beaten(text: &str, question: &Question, looks: usize) -> Vec<String> {
    let settings = Settings { level: 1.0 - (1.0 - question.settings.level) / looks.max(1) as f64, ..question.settings };
    let Ok(table) = Table::read(text.as_bytes()) else { return Vec::new() };
    let known = |name: &String| table.build(name).is_some();
    let exclude = question.exclude.iter().filter(|name| known(name)).cloned().collect();
    let question = Question { settings, exclude, ..question.clone() };
    let Ok(answer) = analyze(table, &question) else { return Vec::new() };
    let stays = |build: &usize| Some(*build) == answer.reference || Some(*build) == answer.copy;
    let is_beaten = dominance::beaten(&answer.paired, &answer.goals, answer.reference);
    let found: Vec<usize> = (0..is_beaten.len()).filter(|build| is_beaten[*build] && !stays(build)).collect();
    answer.names(&found).into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(builds: &[(&str, f64, f64)], rounds: u32, seed: u64) -> String {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut text = "nb_build,metric,value,repetition\n".to_owned();
        for round in 1..=rounds {
            let drift = 1.0 + random.f64() * 0.2;
            for (name, speed, size) in builds {
                let speed = speed * drift * (1.0 + (random.f64() - 0.5) * 0.04);
                text.push_str(&format!("{name},speed,{speed},{round}\n{name},size,{size},{round}\n"));
            }
        }
        text
    }

    fn question(min: &[&str]) -> Question {
        Question {
            max: vec!["speed".into()],
            min: min.iter().map(|name| (*name).into()).collect(),
            reference: Some("plain".into()),
            copy: Some("copy".into()),
            ..Question::default()
        }
    }

    #[test]
    fn one_looks_rarer_and_rarer() {
        assert_eq!(looks(30), [6, 9, 13, 19, 28]);
        assert_eq!(looks(6), [0; 0]);
    }

    #[test]
    fn only_what_is_beaten_in_every_goal_goes() {
        let builds = [
            ("plain", 100.0, 9.0),
            ("copy", 100.0, 9.0),
            ("slow", 60.0, 9.0),
            ("small", 60.0, 5.0),
            ("fast", 130.0, 9.0),
        ];
        let text = study(&builds, 8, 1);
        assert_eq!(beaten(&text, &question(&["size"]), 3), ["slow"]);
        assert_eq!(beaten(&text, &question(&[]), 3), ["slow", "small"]);
        assert_eq!(beaten(&study(&builds, 4, 1), &question(&[]), 3), [""; 0], "too few rounds");
    }

    #[test]
    fn of_equal_builds_hardly_any_goes() {
        let builds = [("plain", 100.0, 9.0), ("copy", 100.0, 9.0), ("a", 100.0, 9.0), ("b", 100.0, 9.0)];
        let looks = looks(20);
        let studies = 100;
        let wrong = (0..studies).filter(|seed| {
            let text = study(&builds, 20, *seed);
            looks.iter().any(|look| {
                let is_in = |line: &&str| {
                    line.rsplit(',').next().and_then(|one| one.parse().ok()).is_none_or(|at: u32| at <= *look)
                };
                let text: Vec<&str> = text.lines().filter(is_in).collect();
                !beaten(&text.join("\n"), &question(&[]), looks.len()).is_empty()
            })
        });
        let wrong = wrong.count();
        assert!(wrong <= 5, "{wrong} of {studies}");
    }
}
