//! `hearth config check`: reports all mistakes in a configuration, or the layout that it produces.
//!
//! reads   a file, and this machine's cores and pages
//! writes  every mistake at once: types, unknown keys, values, tile placement; or which tile runs where

use std::collections::BTreeSet;
use std::path::Path;

use hearth_command::exit_code::{ExitCode, Failure, WRONG_USE};
use hearth_command::output::{self, CommandOutput, note};
use hearth_pipeline::topology::LayoutError;
use hearth_tile::affinity::Blocklist;
use hearth_tile::topology::Topology;

use crate::boot::{self, BootError};
use crate::config::{self, Config, Layout, Survey};
use crate::hugepages;
use crate::start_checks::PreflightError;

/// Checks a file, or the defaults. A layout without places for the load is valid for `hearth run`.
pub fn run(file: Option<&Path>, say: &CommandOutput) -> Result<(), Failure> {
    let mut survey = file.map_or(Ok(Survey::default()), config::survey)?;
    for notice in &survey.loaded.notices {
        note(format_args!("notice: {notice}"));
    }
    let found = layouts(&survey.loaded.config);
    for why in found.wrong {
        match why.exit_code() == WRONG_USE {
            // The effect of the other keys on the layout is known only once they are right.
            true if survey.is_layout_wrong && !is_sure(&why) => {}
            true if file.is_some() => {
                let what = why.to_string();
                survey.add(what.split_whitespace().next().unwrap_or_default().trim_end_matches(':'), what.clone());
            }
            _ => return Err(why.into()),
        }
    }
    let layouts = found.layouts;
    let config = survey.end()?.config;
    let Layouts { run, bench } = layouts.expect("a layout that is wrong is a mistake");
    config::idle_keys(&config).iter().for_each(|idle| note(format_args!("notice: {idle}")));
    let unused =
        [Some(&run), bench.as_ref().ok()].into_iter().flatten().flat_map(|it| boot::unused_places(&config, it));
    let unused: BTreeSet<String> = unused.collect();
    unused.iter().for_each(|unused| note(format_args!("notice: {unused}")));
    say.line(format_args!("hearth run:\n{}", output::layout(&run)));
    match &bench {
        Ok(bench) => say.line(format_args!("hearth bench:\n{}", output::layout(bench))),
        Err(why) => note(format_args!("notice: not for `hearth bench`: {why}")),
    }
    say.line(if bench.is_ok() { "the configuration is good" } else { "the configuration is good for `hearth run`" });
    Ok(())
}

/// The tile placement of a node and of a bench.
struct Layouts {
    run: Topology,
    bench: Result<Topology, LayoutError>,
}

/// The layouts of a configuration, and its mistakes.
struct CheckResult {
    /// The layouts, if there is no mistake.
    layouts: Option<Layouts>,
    wrong: Vec<BootError>,
}

fn layouts(config: &Config) -> CheckResult {
    let mut wrong = vec![];
    let cores = match boot::cores(&config.layout).or_else(|why| {
        wrong.push(why);
        // Continues without the blocklist, to find further mistakes.
        boot::cores(&Layout { blocklist_cores: Blocklist::default(), ..config.layout.clone() })
    }) {
        Ok(cores) => cores,
        Err(_) => return CheckResult { layouts: None, wrong },
    };
    let run = boot::topology(config, &cores, false).map_err(|why| wrong.push(why.into())).ok();
    if let Some(run) = &run
        && let Err(why) = hugepages::check(config, run)
    {
        wrong.push(PreflightError::from(why).into());
    }
    let bench = match boot::topology(config, &cores, true) {
        Err(why @ LayoutError::Load(_)) if !config.development.bench.affinity.is_auto() => {
            wrong.push(why.into());
            None
        }
        bench => Some(bench),
    };
    let layouts = match (run, bench) {
        (Some(run), Some(bench)) if wrong.is_empty() => Some(Layouts { run, bench }),
        _ => None,
    };
    CheckResult { layouts, wrong }
}

/// Whether the mistake remains whatever the other layout keys are.
fn is_sure(why: &BootError) -> bool {
    use hearth_tile::affinity::Mistake::{NoSuchCore, Syntax, Twice};
    let affinity = match why {
        BootError::Blocklist(_) | BootError::Preflight(_) => return true,
        BootError::Layout(LayoutError::Node(affinity) | LayoutError::Load(affinity)) => affinity,
        _ => return false,
    };
    let is_sure = |mistake| matches!(mistake, &Syntax { .. } | &NoSuchCore { .. } | &Twice { .. });
    affinity.mistakes.iter().any(is_sure)
}
