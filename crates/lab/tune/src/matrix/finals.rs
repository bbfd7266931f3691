//! The last part of a study: links better builds with several function orders, and measures those.
//!
//! reads   the answer of the rounds
//! writes  [`Layouts`]; `layouts-….csv` in the study's folder
//! memory  the results of the layouts

use std::collections::BTreeMap;

use hearth_stats::objective::Goal;
use hearth_stats::paired_bootstrap::{Estimate, Verdict};
use hearth_stats::table::Table;

use super::make::Failure;
use super::report::Layouts;
use super::results::Results;
use super::round_plan::Subject;
use super::rounds::RoundEvents;
use super::study::{Entry, Study, metrics};
use super::{StudyError, layout, quote, study_identity};
use crate::analysis::Answer;
use crate::run::identity::digest_of;

impl Study<'_> {
    /// Builds that are better than the reference in something and worse in nothing, the most certain first: those made
    /// here, and the names of the others.
    fn finalists(&self, answer: &Answer, dropped: &BTreeMap<String, u32>) -> (Vec<&Entry>, Vec<String>) {
        let place = |entry: &&Entry| answer.table.build(&entry.name);
        let is_finalist = |entry: &&Entry| {
            let Some(build) = place(entry).filter(|build| Some(*build) != answer.reference) else { return false };
            let verdicts: Vec<Verdict> = answer.paired.estimates[build].iter().map(|one| one.verdict).collect();
            let is_better = verdicts.contains(&Verdict::Better) && !verdicts.contains(&Verdict::Worse);
            is_better && !dropped.contains_key(&entry.name)
        };
        let sure = |entry: &&Entry| {
            let build = place(entry).unwrap_or_default();
            // An unknown gain counts as none.
            let gain = |(one, goal): (&Estimate, &Goal)| {
                Some(goal.gain(one.value)).filter(|gain| !gain.is_nan()).unwrap_or_default()
            };
            let gains: f64 = answer.paired.estimates[build].iter().zip(&answer.goals).map(gain).sum();
            (answer.paired.better.as_ref().map_or(0.0, |all| all[build]), gains)
        };
        let mut all: Vec<&Entry> = self.entries.iter().filter(is_finalist).collect();
        all.sort_by(|a, b| {
            let (one, other) = (sure(b), sure(a));
            one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        let (mut own, others): (Vec<&Entry>, Vec<&Entry>) = all.into_iter().partition(|one| one.options().is_some());
        own.truncate(self.spec.finalists);
        (own, others.into_iter().map(|entry| entry.name.clone()).collect())
    }

    /// Links the reference and the finalists with several function orders, and measures those.
    pub(super) fn layouts(&self, answer: &Answer, before: &RoundEvents, done: usize) -> Result<Layouts, StudyError> {
        let (own, others) = self.finalists(answer, &before.dropped);
        if own.is_empty() && others.is_empty() {
            return Ok(Layouts::NoFinalist);
        }
        let names: Vec<String> = own.iter().map(|entry| entry.name.clone()).collect();
        let all_names = [names.clone(), others.clone()].concat();
        let not = |why: &str| Ok(Layouts::NotChecked { finalists: all_names.clone(), why: why.into() });
        let (Some(maker), Some(_)) = (&self.maker, self.entries[0].options()) else {
            return not("the reference is not built here");
        };
        if own.is_empty() {
            return not("it is not built here");
        }
        if self.spec.layouts == 0 {
            return not("the spec has `layouts = 0`");
        }
        let all: Vec<&Entry> = [&self.entries[0]].into_iter().chain(own).collect();
        let mut subjects = Vec::new();
        for entry in &all {
            let Some(options) = entry.options() else { continue };
            let Some(linker) = maker.shuffling_linker(options) else {
                return not("the linker cannot put functions in another order: install lld");
            };
            (self.control.tell)(&format!("linking `{}` in {} layouts", entry.name, self.spec.layouts));
            let made = match maker.layouts(options, &linker, self.spec.layouts) {
                Ok(made) => made,
                Err(Failure::Stopped) => return Err(StudyError::Stopped { done, folder: self.folder.clone() }),
                Err(Failure::Io(error)) => return Err(error),
                Err(Failure::Failed(why)) => return not(&format!("`{}` cannot be linked so: {why}", entry.name)),
            };
            if made.iter().all(|one| one.digest == made[0].digest) {
                return not("the linker was asked to put functions in another order, and the program is the same");
            }
            subjects.extend(made.iter().enumerate().map(|(at, built)| Subject {
                name: layout::name(&entry.name, at + 1),
                bin: quote(&built.path),
                bytes: Some(built.bytes),
                is_elsewhere: false,
                is_needed: false,
                is_base: entry.name == self.entries[0].name,
                program: Some((built.path.clone(), built.digest.clone())),
            }));
        }
        self.measure_layouts(answer, &names, others, &subjects)
    }

    fn measure_layouts(
        &self,
        answer: &Answer,
        names: &[String],
        others: Vec<String>,
        subjects: &[Subject],
    ) -> Result<Layouts, StudyError> {
        let spec = self.spec;
        // Other programs, or another number of layouts, make a separate study of layouts.
        let digests = subjects.iter().filter_map(|one| Some([one.name.clone(), one.program.clone()?.1])).flatten();
        let texts: Vec<String> = digests.chain([spec.layouts.to_string(), spec.seed.to_string()]).collect();
        let name = &digest_of(&texts.iter().map(String::as_str).collect::<Vec<_>>())[..8];
        let path = self.folder.join(format!("layouts-{name}.csv"));
        let mut events = self.events(&format!("layouts-{name}.events.csv"))?;
        let options = subjects.iter().map(|one| (one.name.clone(), Vec::new())).collect();
        let failed = |source| StudyError::Io { path: path.clone(), source };
        let mut results = Results::open(&path, &[], options, metrics(spec)).map_err(failed)?;
        let rounds = self.rounds(subjects, spec.layout_rounds, spec.seed.wrapping_add(1));
        let happened = rounds.run(&mut results, &mut events, None)?;
        study_identity::still_there(&self.folder, subjects)?;
        let table = Table::read(results.text().as_bytes())?;
        // Build time does not depend on the layout.
        let goals: Vec<(usize, Goal)> = (0..answer.goals.len())
            .filter_map(|at| {
                let metric = table.metric(answer.name(at))?;
                Some((at, Goal { metric, ..answer.goals[at].clone() }))
            })
            .collect();
        let scales: Vec<_> = goals.iter().map(|(at, _)| answer.paired.scales[*at]).collect();
        let only: Vec<_> = goals.iter().map(|(_, goal)| goal.clone()).collect();
        let gains = layout::gains(&table, &only, &scales, &self.entries[0].name, names, spec.layouts as usize);
        let goals = goals.iter().map(|(at, _)| answer.name(*at).to_owned()).collect();
        Ok(Layouts::Checked {
            finalists: names.to_vec(),
            others,
            goals,
            gains,
            layouts: spec.layouts,
            rejected: happened.rejected,
        })
    }
}
