//! The results of a study as an append-only file, except that the rows of a build are removed if their dimension
//! differs from the reference's.
//!
//! reads   an existing file of results, even with a torn end
//! writes  tidy CSV for `tune analyze`; each run's rows at once, synced before anything else is done
//! memory  the rows
//! drops   a torn last row, and rows of an incomplete run: that run is repeated

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::StudyError;
use super::study_dir::write_whole;

/// Stands for a missing value.
pub const NOTHING: &str = "NA";

/// A run: a build's name, a workload, a repetition.
pub type Run = (String, usize, u32);

/// The file of results, and its contents.
pub struct Results {
    path: PathBuf,
    file: File,
    /// For each build its cells of the option columns.
    options: BTreeMap<String, Vec<String>>,
    /// The metrics of each workload's runs.
    metrics: Vec<Vec<String>>,
    /// Values of the recorded runs, in the order of the metrics.
    runs: BTreeMap<Run, Vec<String>>,
    /// The text of the file.
    text: String,
}

impl Results {
    /// Opens a file, or creates it.
    pub fn open(
        path: &Path,
        columns: &[String],
        options: BTreeMap<String, Vec<String>>,
        metrics: Vec<Vec<String>>,
    ) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut header: Vec<&str> = vec!["nb_build"];
        header.extend(columns.iter().map(String::as_str));
        header.extend(["metric", "value", "repetition"]);
        let header = line(&header)?;
        // A torn header is written again.
        let has_header = bytes.starts_with(header.as_bytes());
        if !has_header && bytes.contains(&b'\n') {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is of another study: its columns differ"));
        }
        let mut made = Self { path: path.into(), file, options, metrics, runs: BTreeMap::new(), text: header.clone() };
        if has_header {
            made.take_over(&bytes, header.len())?;
        }
        if made.text.len() != bytes.len() || !has_header {
            made.file.set_len(if has_header { made.text.len() as u64 } else { 0 })?;
            if !has_header {
                made.file.write_all(header.as_bytes())?;
            }
            made.file.sync_all()?;
        }
        Ok(made)
    }

    /// Reads complete runs from the file, up to the first incomplete one.
    fn take_over(&mut self, bytes: &[u8], from: usize) -> io::Result<()> {
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(from, |at| at + 1);
        let text = String::from_utf8_lossy(&bytes[..end.max(from)]).into_owned();
        let lines: Vec<&str> = text[from..].split_inclusive('\n').collect();
        let mut at = 0;
        while at < lines.len() {
            let Some((run, values, taken)) = self.whole_run(&lines[at..])? else { break };
            if self.runs.insert(run, values).is_some() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a run is there twice"));
            }
            lines[at..at + taken].iter().for_each(|line| self.text.push_str(line));
            at += taken;
        }
        Ok(())
    }

    fn whole_run(&self, lines: &[&str]) -> io::Result<Option<(Run, Vec<String>, usize)>> {
        let strange =
            |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("it is of another study: {what}"));
        let Some(first) = cells(lines[0])? else { return Err(strange("a row is none")) };
        let (build, metric, repetition) = (first[0].clone(), &first[first.len() - 3], &first[first.len() - 1]);
        let Ok(repetition) = repetition.parse::<u32>() else { return Err(strange("a repetition is not a number")) };
        if !self.options.contains_key(&build) {
            return Err(strange(&format!("it has a build `{build}`")));
        }
        let Some(workload) = self.metrics.iter().position(|all| all.first() == Some(metric)) else {
            return Err(strange(&format!("it has a metric `{metric}`")));
        };
        let wanted = &self.metrics[workload];
        if lines.len() < wanted.len() {
            return Ok(None);
        }
        let mut values = Vec::new();
        for (line, name) in lines.iter().zip(wanted) {
            let Some(row) = cells(line)? else { return Err(strange("a row is none")) };
            let is_of_it = row.len() == first.len()
                && row[0] == build
                && row[row.len() - 3] == *name
                && row[row.len() - 1].parse() == Ok(repetition);
            if !is_of_it {
                return Err(strange("a run's rows do not belong together"));
            }
            values.push(row[row.len() - 2].clone());
        }
        Ok(Some(((build, workload, repetition), values, wanted.len())))
    }

    /// Returns whether a run is recorded.
    pub fn has(&self, run: &Run) -> bool {
        self.runs.contains_key(run)
    }

    /// Returns whether a run is recorded with values. The last value belongs to a metric; the first may be a size,
    /// which commands lack.
    pub fn has_value(&self, run: &Run) -> bool {
        self.runs.get(run).and_then(|values| values.last()).is_some_and(|value| value != NOTHING)
    }

    /// Returns the number of runs that were given up, and so have no values.
    pub fn given_up(&self, workloads: usize) -> usize {
        self.runs.keys().filter(|run| run.1 < workloads && !self.has_value(run)).count()
    }

    /// Returns the last repetition with a recorded run.
    pub fn last_round(&self, workloads: usize) -> u32 {
        self.runs.keys().filter(|run| run.1 < workloads).map(|run| run.2).max().unwrap_or_default()
    }

    /// Returns whether a build has run with one of the workloads.
    pub fn is_measured(&self, build: &str, workloads: usize) -> bool {
        self.runs.keys().any(|(name, workload, _)| name == build && *workload < workloads)
    }

    /// Returns the first value of a workload's metric among these builds. All others must have the same dimension.
    pub fn first_value(&self, workload: usize, metric: usize, builds: &[&str]) -> Option<&str> {
        let of = self.runs.iter().filter(|((build, one, _), _)| *one == workload && builds.contains(&&**build));
        of.filter_map(|(_, values)| values.get(metric)).map(String::as_str).find(|value| *value != NOTHING)
    }

    /// Returns the runs of a workload, with their values.
    pub fn of_workload(&self, workload: usize) -> impl Iterator<Item = (&str, &[String])> {
        let of = self.runs.iter().filter(move |((_, one, _), _)| *one == workload);
        of.map(|((build, _, _), values)| (build.as_str(), values.as_slice()))
    }

    /// Removes a build's runs of a workload, and replaces the file atomically.
    pub fn void(&mut self, build: &str, workload: usize) -> Result<(), StudyError> {
        self.runs.retain(|(name, one, _), _| name != build || *one != workload);
        let failed = |source| StudyError::Io { path: self.path.clone(), source };
        let mut text = String::new();
        for (at, row) in self.text.split_inclusive('\n').enumerate() {
            let is_its =
                |cells: &Vec<String>| cells[0] == build && self.metrics[workload].contains(&cells[cells.len() - 3]);
            if at == 0 || !cells(row).map_err(failed)?.as_ref().is_some_and(is_its) {
                text.push_str(row);
            }
        }
        write_whole(&self.path, &text)?;
        self.file = OpenOptions::new().read(true).append(true).open(&self.path).map_err(failed)?;
        self.text = text;
        Ok(())
    }

    /// Returns the number of runs.
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    /// Adds a run. It is on disk when this returns.
    pub fn add(&mut self, run: Run, values: Vec<String>) -> io::Result<()> {
        let (build, workload, repetition) = &run;
        let repetition = repetition.to_string();
        let mut rows = String::new();
        for (metric, value) in self.metrics[*workload].iter().zip(&values) {
            let mut row: Vec<&str> = vec![build];
            row.extend(self.options[build].iter().map(String::as_str));
            row.extend([metric.as_str(), value, &repetition]);
            rows.push_str(&line(&row)?);
        }
        self.file.write_all(rows.as_bytes())?;
        self.file.sync_data()?;
        self.text.push_str(&rows);
        self.runs.insert(run, values);
        Ok(())
    }

    /// Returns the text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text of the repetitions up to this one.
    pub fn text_until(&self, repetition: u32) -> String {
        let is_in = |line: &&str| {
            let last = line.trim_end().rsplit(',').next().unwrap_or_default();
            last.parse::<u32>().map_or(true, |of| of <= repetition)
        };
        self.text.split_inclusive('\n').filter(is_in).collect()
    }
}

fn line(cells: &[&str]) -> io::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells).map_err(io::Error::other)?;
    let bytes = writer.into_inner().map_err(|why| io::Error::other(why.to_string()))?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

fn cells(line: &str) -> io::Result<Option<Vec<String>>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let record = reader.records().next().transpose().map_err(io::Error::other)?;
    Ok(record.map(|record| record.iter().map(str::to_owned).collect::<Vec<_>>()).filter(|cells| cells.len() >= 4))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn open(path: &Path) -> io::Result<Results> {
        let options = ["plain", "lto=fat"].map(|name| (name.to_owned(), vec![name.to_owned()])).into();
        Results::open(path, &["lto".into()], options, vec![vec!["tps".into(), "size".into()], vec!["wall".into()]])
    }

    fn run(build: &str, workload: usize, repetition: u32) -> Run {
        (build.into(), workload, repetition)
    }

    #[test]
    fn wherever_the_file_is_torn_whole_runs_stay_and_the_rest_is_done_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.csv");
        let mut results = open(&path).expect("new");
        let runs = [run("plain", 0, 1), run("lto=fat", 1, 1), run("lto=fat", 0, 1), run("plain", 1, 2)];
        let values = |run: &Run| if run.1 == 0 { vec!["1 s".into(), NOTHING.into()] } else { vec!["3".into()] };
        runs.iter().for_each(|run| results.add(run.clone(), values(run)).expect("added"));
        let whole = fs::read(&path).expect("there");
        assert_eq!(whole, results.text().as_bytes());
        for end in 0..=whole.len() {
            fs::write(&path, &whole[..end]).expect("torn");
            let mut results = open(&path).expect("opened");
            let there = results.count();
            assert!(runs[..there].iter().all(|run| results.has(run)), "{end}");
            runs[there..].iter().for_each(|run| results.add(run.clone(), values(run)).expect("added"));
            assert_eq!(fs::read(&path).expect("there"), whole, "{end}");
        }
        let results = open(&path).expect("whole");
        assert_eq!((results.given_up(2), results.last_round(2), results.last_round(1)), (2, 2, 1));
        assert!(!results.has_value(&runs[0]) && results.has_value(&runs[1]));
        assert_eq!(results.text_until(1).lines().count(), 1 + 2 + 1 + 2);
    }

    #[test]
    fn runs_that_are_void_have_never_been() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.csv");
        let mut results = open(&path).expect("new");
        let values = |run: &Run| if run.1 == 0 { vec!["1 s".into(), NOTHING.into()] } else { vec!["3".into()] };
        for one in [run("lto=fat", 0, 1), run("plain", 0, 1), run("lto=fat", 1, 1)] {
            results.add(one.clone(), values(&one)).expect("added");
        }
        results.void("lto=fat", 0).expect("written");
        let last = run("plain", 1, 1);
        results.add(last.clone(), values(&last)).expect("added");
        assert!(!results.has(&run("lto=fat", 0, 1)) && results.has(&run("lto=fat", 1, 1)));
        let again = open(&path).expect("opened");
        assert_eq!((again.text(), again.count()), (results.text(), 3));
        assert_eq!(again.first_value(0, 0, &["lto=fat"]), None);
        assert_eq!(again.first_value(0, 0, &["plain"]), Some("1 s"));
    }

    #[test]
    fn results_of_another_study_are_not_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.csv");
        for (text, said) in [
            ("a,b\n1,2\n", "its columns differ"),
            ("nb_build,lto,metric,value,repetition\nother,x,tps,1,1\n", "it has a build `other`"),
            ("nb_build,lto,metric,value,repetition\nplain,x,speed,1,1\n", "it has a metric `speed`"),
        ] {
            fs::write(&path, text).expect("written");
            let why = open(&path).map(|_| ()).expect_err("another");
            assert!(why.to_string().contains(said), "{why}");
            assert_eq!(fs::read_to_string(&path).expect("there"), text, "it is as it was");
        }
    }
}
