//! Output files of a load: JSON, an HTML page, a flame graph with its stacks.
//!
//! reads   saved reports
//! writes  files
//! memory  one report, its page

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hearth_command::output::{self, CommandOutput, note};
use hearth_command::stop::StopSignal;
use hearth_profile::Stack;
use serde::Serialize;

use super::CommandError;
use super::options::{self, Run};
use crate::page::{self, PageReport};
use crate::profile::{Plan, Profile, Span, take};
use crate::ramp::RampResult;

/// Variable with the admin token of the node, the same as for `hearth profile`.
const TOKEN: &str = "HEARTH_ADMIN_TOKEN";

/// Verifies before the run that its files can be written.
pub fn can_be_written(options: &Run) -> Result<(), CommandError> {
    let json = options.json.as_deref().filter(|path| path.as_os_str() != "-");
    let flame = options.profile.map(|_| options.flame.as_path());
    json.into_iter().chain(options.html.as_deref()).chain(flame).try_for_each(output::can_be_written)?;
    Ok(())
}

/// Writes the output of a run: all of `report` as JSON, `shown` on the page. Returns lines that name the other files.
pub fn write(options: &Run, report: &impl Serialize, shown: Option<&PageReport>) -> Result<String, CommandError> {
    if let Some(path) = &options.json {
        let json = serde_json::to_string_pretty(report).expect("plain data") + "\n";
        if path.as_os_str() == "-" {
            let data = CommandOutput::default();
            data.text(json);
            data.end().map_err(|why| CommandError::File(path.into(), why))?;
        } else {
            save(path, &json)?;
        }
    }
    let mut places = String::new();
    let Some(shown) = shown else { return Ok(places) };
    if let Some(path) = &options.html {
        save(path, &page::html(std::slice::from_ref(shown)))?;
        places += &format!("page              file://{}\n", absolute(path).display());
    }
    if let Some(profile) = &shown.report.profile {
        places += &draw(profile, &options.flame)?;
    }
    Ok(places)
}

/// The page's view of a search, if it found a rate.
pub fn shown_of(found: &RampResult) -> Option<PageReport> {
    let report = found.report.clone()?;
    Some(PageReport { name: String::new(), report, steps: Some((found.steps.clone(), found.p99_ms_max)) })
}

fn save(path: &Path, text: &str) -> Result<(), CommandError> {
    fs::write(path, text).map_err(|why| CommandError::File(path.into(), why))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

/// Writes the flame graph and its stacks. Returns lines that name the files.
fn draw(profile: &Profile, path: &Path) -> Result<String, CommandError> {
    let stacks = path.with_extension("folded");
    save(&stacks, &profile.folded)?;
    let drawn = hearth_profile::Profile { stacks: stacks_of(&profile.folded), ..hearth_profile::Profile::default() };
    let mut places = String::new();
    match drawn.drawn(&format!("{}, {}", profile.asked, profile.source), &format!("{} samples", drawn.samples())) {
        Ok(svg) => {
            save(path, &svg)?;
            places += &format!("flame graph       file://{}\n", absolute(path).display());
        }
        Err(why) => note(format_args!("no flame graph is drawn: {why}; {} is not of this profile", path.display())),
    }
    Ok(places + &format!("stacks            {}\n", stacks.display()))
}

/// Parses folded stacks and skips lines that are not folded stacks.
fn stacks_of(folded: &str) -> BTreeMap<Stack, u64> {
    let mut stacks = BTreeMap::new();
    for line in folded.lines() {
        let Some((stack, samples)) = line.rsplit_once(' ') else { continue };
        let mut names = stack.split(';').map(str::to_owned);
        let thread = names.next().unwrap_or_default();
        let sum: &mut u64 = stacks.entry(Stack { thread, tile: None, calls: names.collect() }).or_default();
        *sum += samples.parse::<u32>().map_or(0, u64::from);
    }
    stacks
}

/// The profile that the run's options ask for.
pub fn plan(options: &Run) -> Option<Plan> {
    let span = match options.profile? {
        options::ProfileSpan::Run => Span::Time(std::time::Duration::from_secs(options.duration)),
        options::ProfileSpan::NextBlock => Span::NextBlock,
    };
    Some(Plan { node: options.target.url[0].clone(), token: token(), pprof: options.pprof.clone(), span })
}

fn token() -> Option<String> {
    std::env::var(TOKEN).ok().filter(|token| !token.is_empty())
}

/// Carries out `hearth load profile`.
pub fn profile(options: &options::Profile, stop: &StopSignal, say: &CommandOutput) -> Result<(), CommandError> {
    output::can_be_written(&options.flame)?;
    let span = match options.next_block {
        true => Span::NextBlock,
        false => Span::Time(std::time::Duration::from_secs(options.duration)),
    };
    let node = options.target.url[0].clone();
    note(format_args!("profiling {}; Ctrl-C ends it early", options.pprof.as_deref().unwrap_or(&node)));
    let plan = Plan { node, token: token(), pprof: options.pprof.clone(), span };
    let taken = take(&plan, &|| {}, &|| stop.is_set())?;
    say.line(format_args!("profile           {}, {}, {:.1} s", taken.asked, taken.source, taken.seconds));
    say.text(draw(&taken, &options.flame)?);
    Ok(())
}

/// Carries out `hearth load report`.
pub fn report(options: &options::Report, say: &CommandOutput) -> Result<(), CommandError> {
    let shown = options.reports.iter().map(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(page::read(&name, super::read(path)?)?)
    });
    let shown = shown.collect::<Result<Vec<PageReport>, CommandError>>()?;
    let Some(path) = &options.html else {
        let texts: Vec<_> = shown.iter().map(|one| format!("{}\n{}", one.name, one.report.text())).collect();
        say.text(texts.join("\n"));
        return Ok(());
    };
    save(path, &page::html(&shown))?;
    say.line(format_args!("page              file://{}", absolute(path).display()));
    Ok(())
}

/// Describes this machine in one line.
pub fn machine() -> String {
    let root = hearth_machine::Root::default();
    let cores = hearth_machine::cores::usable(&root).map_or(String::new(), |cores| format!("{cores:.1} cores of "));
    let cpu = hearth_machine::processor::Processor::read(&root).model;
    let memory = hearth_machine::memory::Memory::read(&root).total_bytes / 1_000_000_000;
    let kernel = hearth_machine::settings::Settings::read(&root).kernel;
    format!("{cores}{cpu}, {memory} GB, Linux {kernel}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_lines_are_stacks_again() {
        let stacks = stacks_of("main;a;b 3\nio 4\nio 1\nnonsense\nx y\n");
        let rendered: Vec<_> = stacks.iter().map(|(stack, samples)| format!("{stack} {samples}")).collect();
        assert_eq!(rendered, ["io 5", "main;a;b 3", "x 0"]);
    }
}
