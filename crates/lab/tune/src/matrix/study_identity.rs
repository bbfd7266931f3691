//! The files in a study's folder that say what its results belong to, so that nothing else is mixed in.
//!
//! reads   `study.json`, `programs.json`
//! writes  the same, each atomically
//! memory  the digest of each source file

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::StudyError;
use super::round_plan::Subject;
use super::source::Sources;
use super::spec::SECONDS;
use super::study_dir::write_whole;
use crate::run::identity::digest;

/// The parts of `study.json` that must agree.
const PARTS: [&str; 8] = ["format", "sources", "reference", "builds", "workloads", "seed", "machine", "limits"];
/// Version of the format of results and events. Those of another version are not continued.
pub const FORMAT: u32 = 3;
/// Refuses to continue with results of other sources, builds or workloads. Records them if there are no results.
pub fn same_study(folder: &Path, now: &Value, sources: Option<&Sources>) -> Result<(), StudyError> {
    let path = folder.join("study.json");
    let is_measured = is_measured(folder);
    let before: Option<Value> = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok());
    let differs = before.as_ref().map(|before| PARTS.into_iter().find(|part| before[part] != now[part]));
    match differs {
        Some(None) => return Ok(()),
        None if is_measured => return Err(StudyError::Unknown(folder.into())),
        Some(Some(part)) if is_measured => {
            let which = before.as_ref().and_then(|before| differs_in(part, before, now, sources));
            let what = which.map_or(part.into(), |which| format!("{part} ({which})"));
            return Err(StudyError::Other { folder: folder.into(), what });
        }
        // Builds stay valid, each under its key; their build times are measured again.
        _ => ["results.csv", "events.csv", "programs.json"].iter().for_each(|name| {
            let _ = fs::remove_file(folder.join(name));
        }),
    }
    write_whole(&path, &format!("{now:#}\n"))
}

/// Describes what differs in a part.
fn differs_in(part: &str, before: &Value, now: &Value, sources: Option<&Sources>) -> Option<String> {
    match part {
        "sources" => sources?.differs(&serde_json::from_value(before["files"].clone()).ok()?),
        "format" => Some("another version of this program began it".into()),
        "limits" => {
            let (was, is) = (before[part].as_object()?, now[part].as_object()?);
            let key = is.keys().find(|key| was.get(*key) != is.get(*key))?;
            let was = was.get(key).map_or("not known".into(), Value::to_string);
            Some(format!("`{key}` is {} and was {was}", is[key]))
        }
        _ => None,
    }
}

/// Returns whether a run was measured in this folder, not only a build timed.
pub fn is_measured(folder: &Path) -> bool {
    let text = fs::read_to_string(folder.join("results.csv")).unwrap_or_default();
    text.lines().skip(1).any(|row| !row.contains(SECONDS))
}

/// Refuses to continue if programs differ from those that were measured; records which they are.
pub fn same_programs(
    folder: &Path,
    subjects: &[Subject],
    is_measured: &dyn Fn(&str) -> bool,
) -> Result<(), StudyError> {
    let path = folder.join("programs.json");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let before: BTreeMap<String, String> = serde_json::from_str(&text).unwrap_or_default();
    let mut now = before.clone();
    for subject in subjects {
        let Some((_, digest)) = &subject.program else { continue };
        if before.get(&subject.name).is_some_and(|was| was != digest) && is_measured(&subject.name) {
            return Err(StudyError::Replaced { build: subject.name.clone(), folder: folder.into() });
        }
        now.insert(subject.name.clone(), digest.clone());
    }
    match now == before {
        true => Ok(()),
        false => write_whole(&path, &format!("{:#}\n", serde_json::json!(now))),
    }
}

/// Verifies that the programs are still those of the beginning of the rounds.
pub fn still_there(folder: &Path, subjects: &[Subject]) -> Result<(), StudyError> {
    let is_other = |subject: &&Subject| {
        subject.program.as_ref().is_some_and(|(path, was)| digest(path).ok().as_ref() != Some(was))
    };
    match subjects.iter().find(is_other) {
        Some(subject) => Err(StudyError::Replaced { build: subject.name.clone(), folder: folder.into() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_that_differ_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let now = |steal: f64, rounds: u32| json!({ "format": FORMAT, "limits": { "steal": steal }, "rounds": rounds });
        same_study(folder.path(), &now(0.02, 20), None).expect("new");
        fs::write(folder.path().join("results.csv"), "head\ndefault,tps,1,1\n").expect("written");
        same_study(folder.path(), &now(0.02, 40), None).expect("more rounds are the same study");
        let why = same_study(folder.path(), &now(0.5, 20), None).expect_err("another").to_string();
        assert!(why.contains("other limits (`steal` is 0.5 and was 0.02)"), "{why}");
        let why = same_study(folder.path(), &json!({ "format": 1 }), None).expect_err("another").to_string();
        assert!(why.contains("another version of this program"), "{why}");
    }

    #[test]
    fn results_without_what_they_belong_to_are_not_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let now = json!({ "sources": "a", "seed": 1 });
        fs::write(at("results.csv"), "head\ndefault,build_seconds,1,1\n").expect("written");
        same_study(folder.path(), &now, None).expect("only a build was timed");
        assert!(!at("results.csv").exists(), "of whatever it was");
        fs::write(at("results.csv"), "head\ndefault,tps,1,1\n").expect("written");
        same_study(folder.path(), &now, None).expect("its own");
        let whole = fs::read_to_string(at("study.json")).expect("there");
        for torn in ["", &whole[..whole.len() / 2]] {
            fs::write(at("study.json"), torn).expect("torn");
            let why = same_study(folder.path(), &now, None).expect_err("unknown");
            assert!(matches!(why, StudyError::Unknown(_)), "{why}");
            assert!(at("results.csv").exists());
        }
    }
}
