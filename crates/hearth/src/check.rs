//! `hearth config check`: all that is wrong with a configuration, or the layout that it makes.
//!
//! reads   a file, and which cores and pages this machine has
//! writes  every mistake at once: types, unknown keys, values, places of tiles; or who runs where

use std::error::Error;
use std::path::Path;

use hearth_pipeline::topology::LayoutError;
use hearth_tile::topology::Topology;

use crate::boot::{self, BootError};
use crate::config::{self, Config, Survey};
use crate::preflight::PreflightError;
use crate::say::{Say, note};
use crate::{draw, pages};

/// Checks a file, or the defaults. A layout without places for the load is good for `hearth run`.
pub fn run(file: Option<&Path>, say: &Say) -> Result<(), Box<dyn Error>> {
    let mut survey = file.map_or(Ok(Survey::default()), config::survey)?;
    for notice in &survey.loaded.notices {
        note(format_args!("notice: {notice}"));
    }
    let found = layouts(&survey.loaded.config);
    let layouts = match found {
        Ok(layouts) => Some(layouts),
        // What the other keys make of the layout is known when they are right.
        Err(why) if why.is_wrong_use() && survey.is_layout_wrong && !is_sure(&why) => None,
        Err(why) if why.is_wrong_use() && file.is_some() => {
            let what = why.to_string();
            survey.add(what.split_whitespace().next().unwrap_or_default().trim_end_matches(':'), what.clone());
            None
        }
        Err(why) => return Err(why.into()),
    };
    let config = survey.end()?.config;
    let Layouts { run, bench } = layouts.expect("a layout that is wrong is a mistake");
    config::idle_keys(&config).iter().for_each(|idle| note(format_args!("notice: {idle}")));
    say.line(format_args!("hearth run:\n{}", draw::layout(&run)));
    match &bench {
        Ok(bench) => say.line(format_args!("hearth bench:\n{}", draw::layout(bench))),
        Err(why) => note(format_args!("notice: not for `hearth bench`: {why}")),
    }
    say.line(if bench.is_ok() { "the configuration is good" } else { "the configuration is good for `hearth run`" });
    Ok(())
}

/// Who runs where, in a node and in a bench.
struct Layouts {
    run: Topology,
    bench: Result<Topology, LayoutError>,
}

fn layouts(config: &Config) -> Result<Layouts, BootError> {
    let cores = boot::cores(config)?;
    let run = boot::topology(config, &cores, false)?;
    pages::check(config, &run).map_err(PreflightError::from)?;
    let bench = boot::topology(config, &cores, true);
    match bench {
        Err(why @ LayoutError::Load(_)) if config.development.bench.affinity != "auto" => Err(why.into()),
        bench => Ok(Layouts { run, bench }),
    }
}

/// Whether it is wrong whatever the other keys of the layout say.
fn is_sure(why: &BootError) -> bool {
    use hearth_tile::affinity::AffinityError::{NoSuchCore, Syntax, Twice};
    let affinity = match why {
        BootError::Blocklist(_) | BootError::Preflight(_) => return true,
        BootError::Layout(LayoutError::Node(affinity) | LayoutError::Load(affinity)) => affinity,
        _ => return false,
    };
    matches!(affinity, Syntax { .. } | NoSuchCore { .. } | Twice { .. })
}
