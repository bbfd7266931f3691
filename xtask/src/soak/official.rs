//! Ethereum's official tests, whole trees of them.
//!
//! reads   the folder
//! memory  the lines of cases that are not as expected

use std::path::Path;

use serde_json::json;

use super::Outcome;
use crate::official;
use crate::run::{Args, run_seeing};

/// `cargo xtask soak official DIR [--page FILE]`
pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let page = args.value("--page")?.map(std::path::absolute).transpose();
    let page = page.map_err(|error| format!("--page: {error}"))?;
    let folder = args.first().ok_or("soak official needs the folder of the tests")?;
    args.end()?;
    let mut command = official::below(Path::new(folder))?;
    if let Some(page) = page {
        command.arg("--page").arg(page);
    }
    let (mut wrong, mut result) = (Vec::new(), None);
    let ended = run_seeing(&mut command, |line| match line.strip_prefix("test result: ") {
        Some(counts) => result = Some(counts.to_owned()),
        None if line.starts_with("FAILED ") || line.starts_with("PASSED ") => wrong.push(line.to_owned()),
        None => {}
    });
    if let Err(why) = ended
        && wrong.is_empty()
    {
        wrong.push(why);
    }
    Ok(Outcome { figures: json!({ "result": result }), wrong })
}
