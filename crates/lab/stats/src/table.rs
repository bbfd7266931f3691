//! Results of a study in tidy form: one row per measured value.
//!
//! reads   CSV with the columns `nb_build`, options of any names, `metric`, `value`, and `repetition` if there is one
//! writes  a [`Table`]: for each metric and build a value of each round, or none
//! memory  9 B per value

use std::collections::HashMap;
use std::io::Read;

use crate::unit::{self, Dimension, PrintedValue, UnitError};

/// Accepted names of the columns.
const BUILD: [&str; 2] = ["nb_build", "build"];
const METRIC: [&str; 1] = ["metric"];
const VALUE: [&str; 1] = ["value"];
const REPETITION: [&str; 3] = ["repetition", "rep", "round"];
/// Maximum number of values: as many as fit into a gigabyte.
const VALUES_MAX: usize = 1 << 27;

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The input is not valid CSV.
    #[error("the results are not CSV: {0}")]
    Csv(#[from] csv::Error),
    /// A required column is missing.
    #[error("there is no column `{wanted}`; the columns are {}", list(columns))]
    NoColumn {
        /// Name of the column that is required.
        wanted: &'static str,
        /// Names of all columns in the header.
        columns: Vec<String>,
    },
    /// Two columns have this name.
    #[error("there are two columns `{0}`")]
    TwoColumns(String),
    /// A value cannot be parsed.
    #[error("line {line}: {error}")]
    Value {
        /// Number of the line.
        line: u64,
        /// A description of the fault.
        error: UnitError,
    },
    /// A build or a metric has no name.
    #[error("line {line}: the {column} is empty")]
    Empty {
        /// Number of the line.
        line: u64,
        /// Name of the column whose cell is empty.
        column: &'static str,
    },
    /// Values of one metric have different dimensions.
    #[error("line {line}: metric `{metric}` is in {is} here, and was in {was} in line {first}: give one unit to all")]
    Mixed {
        /// Number of the line.
        line: u64,
        /// Line of the metric's first value.
        first: u64,
        /// Name of the metric.
        metric: String,
        /// Dimension in this line.
        is: Dimension,
        /// Dimension in the first line.
        was: Dimension,
    },
    /// A value is given twice.
    #[error("line {line} gives metric `{metric}` of build `{build}` in repetition `{repetition}` a second time")]
    Twice {
        /// Number of the second line.
        line: u64,
        /// Name of the build.
        build: String,
        /// Name of the metric.
        metric: String,
        /// Name of the repetition.
        repetition: String,
    },
    /// A build's options differ from row to row.
    #[error("line {line}: build `{build}` has {option} = `{is}`, and had `{was}` before")]
    Options {
        /// Number of the line.
        line: u64,
        /// Name of the build.
        build: String,
        /// Name of the option.
        option: String,
        /// Value in this line.
        is: String,
        /// Value in earlier lines.
        was: String,
    },
    /// There are no values.
    #[error("there are no values in the results")]
    Nothing,
    /// There are too many values.
    #[error(
        "{builds} builds, {metrics} metrics and {rounds} repetitions are more values than fit: {VALUES_MAX} at most"
    )]
    TooMany {
        /// Number of builds in the results.
        builds: usize,
        /// Number of metrics in the results.
        metrics: usize,
        /// Number of repetitions in the results.
        rounds: usize,
    },
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// One build of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// Name of the build.
    pub name: String,
    /// Values of its options, in the order of [`Table::options`].
    pub options: Vec<String>,
}

/// One metric of a study.
#[derive(Clone, Debug)]
pub struct Metric {
    /// Name of the metric.
    pub name: String,
    /// Dimension of its values.
    pub dimension: Dimension,
    /// A value for each build and round, a build's rounds together; NaN if missing.
    pub values: Vec<f64>,
    /// For each value, the index in [`Self::units`] of the unit in which it was printed.
    printed: Vec<u8>,
    /// The size of each printed unit, in the base unit.
    units: Vec<f64>,
    /// For each build, the number of rows marked as missing.
    pub missing: Vec<u32>,
}

/// The results of a study.
#[derive(Clone, Debug)]
pub struct Table {
    /// Names of the options.
    pub options: Vec<String>,
    /// The builds in order of appearance.
    pub builds: Vec<Build>,
    /// The metrics in order of appearance.
    pub metrics: Vec<Metric>,
    /// The repetitions in order of appearance.
    pub rounds: Vec<String>,
    /// Whether rows were numbered in order of appearance, because no column identifies repetitions.
    pub numbered: bool,
}

impl Table {
    /// Reads results as CSV in tidy form: a row for each measured value.
    pub fn read(from: impl Read) -> Result<Self, TableError> {
        Reader::new(from)?.read()
    }

    /// A table of numbers that were not printed: for each metric its name and the values of each build, round by round.
    /// Panics if a metric lacks a value for some build and round.
    pub fn of_values(builds: &[&str], metrics: Vec<(String, Vec<f64>)>, rounds: usize) -> Self {
        let metric = |(name, values): (String, Vec<f64>)| {
            assert_eq!(values.len(), builds.len() * rounds, "a value for each build and round of {name}");
            let (printed, missing) = (vec![0; values.len()], vec![0; builds.len()]);
            Metric { name, dimension: Dimension::Number, values, printed, units: vec![1.0], missing }
        };
        Self {
            options: vec![],
            builds: builds.iter().map(|name| Build { name: (*name).into(), options: vec![] }).collect(),
            metrics: metrics.into_iter().map(metric).collect(),
            rounds: (0..rounds).map(|round| round.to_string()).collect(),
            numbered: false,
        }
    }

    /// Returns a build's values of a metric, round by round; NaN if missing.
    pub fn of(&self, metric: usize, build: usize) -> &[f64] {
        let rounds = self.rounds.len();
        &self.metrics[metric].values[build * rounds..(build + 1) * rounds]
    }

    /// Returns a build's existing values of a metric.
    pub fn present(&self, metric: usize, build: usize) -> Vec<f64> {
        self.of(metric, build).iter().copied().filter(|value| !value.is_nan()).collect()
    }

    /// Returns a build's existing values of a metric, each with the size of the unit in which it was printed.
    pub fn printed(&self, metric: usize, build: usize) -> Vec<(f64, f64)> {
        let (metric, rounds) = (&self.metrics[metric], self.rounds.len());
        let all = (build * rounds..(build + 1) * rounds).filter(|at| !metric.values[*at].is_nan());
        all.map(|at| (metric.values[at], metric.units[usize::from(metric.printed[at])])).collect()
    }

    /// Returns the number of rows marked as missing, for builds that have other values of that metric.
    pub fn missing(&self) -> usize {
        let of = |metric: usize| {
            let counts = self.metrics[metric].missing.iter().enumerate();
            counts.filter(move |(build, count)| **count > 0 && !self.present(metric, *build).is_empty())
        };
        (0..self.metrics.len()).flat_map(of).map(|(_, count)| *count as usize).sum()
    }

    /// Returns the index of the build of this name.
    pub fn build(&self, name: &str) -> Option<usize> {
        self.builds.iter().position(|build| build.name == name)
    }

    /// Returns the index of the metric of this name.
    pub fn metric(&self, name: &str) -> Option<usize> {
        self.metrics.iter().position(|metric| metric.name == name)
    }

    /// Returns the table without these builds.
    pub fn without(mut self, builds: &[usize]) -> Self {
        let rounds = self.rounds.len();
        let stays = |at: &usize| !builds.contains(at);
        for metric in &mut self.metrics {
            let kept = (0..self.builds.len()).filter(stays);
            metric.missing = kept.clone().map(|at| metric.missing[at]).collect();
            let of = |at: usize| at * rounds..(at + 1) * rounds;
            metric.printed = kept.clone().flat_map(|at| metric.printed[of(at)].to_vec()).collect();
            metric.values = kept.flat_map(|at| metric.values[of(at)].to_vec()).collect();
        }
        let mut at = 0..;
        self.builds.retain(|_| stays(&at.next().expect("endless")));
        self
    }
}

/// Indexes of the columns.
struct Columns {
    build: usize,
    metric: usize,
    value: usize,
    repetition: Option<usize>,
    options: Vec<usize>,
}

impl Columns {
    fn find(headers: &[String]) -> Result<Self, TableError> {
        let place = |names: &[&'static str]| names.iter().find_map(|name| headers.iter().position(|h| h == name));
        let wanted = |names: &[&'static str]| {
            place(names).ok_or_else(|| TableError::NoColumn { wanted: names[0], columns: headers.to_vec() })
        };
        if let Some(twice) =
            headers.iter().enumerate().find_map(|(at, name)| headers[..at].contains(name).then_some(name))
        {
            return Err(TableError::TwoColumns(twice.clone()));
        }
        let (build, metric, value) = (wanted(&BUILD)?, wanted(&METRIC)?, wanted(&VALUE)?);
        let repetition = place(&REPETITION);
        let taken = [Some(build), Some(metric), Some(value), repetition];
        let options = (0..headers.len()).filter(|at| !taken.contains(&Some(*at))).collect();
        Ok(Self { build, metric, value, repetition, options })
    }
}

/// Names in order of first appearance.
#[derive(Default)]
struct Names {
    places: HashMap<String, usize>,
    all: Vec<String>,
}

impl Names {
    /// Returns the index of a name, and whether it is new.
    fn place(&mut self, name: &str) -> (usize, bool) {
        if let Some(at) = self.places.get(name) {
            return (*at, false);
        }
        let at = self.all.len();
        self.places.insert(name.into(), at);
        self.all.push(name.into());
        (at, true)
    }
}

/// A row with a value.
struct Row {
    metric: u32,
    build: u32,
    round: u32,
    line: u64,
    value: f64,
    /// The size of its unit.
    one: f64,
}

struct Reader<R> {
    csv: csv::Reader<R>,
    headers: Vec<String>,
    columns: Columns,
    builds: Vec<Build>,
    names: Names,
    metrics: Names,
    rounds: Names,
    /// The dimension of each metric, and the line of its first value.
    dimensions: Vec<(Dimension, u64)>,
    /// Rows of each build and metric so far, if they are numbered.
    counts: HashMap<(u32, u32), u32>,
    rows: Vec<Row>,
    /// Metric and build of the rows without a value.
    missing: Vec<(u32, u32)>,
}

impl<R: Read> Reader<R> {
    fn new(from: R) -> Result<Self, TableError> {
        let mut csv = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(from);
        let headers: Vec<String> =
            csv.headers()?.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect();
        let columns = Columns::find(&headers)?;
        Ok(Self {
            csv,
            headers,
            columns,
            builds: Vec::new(),
            names: Names::default(),
            metrics: Names::default(),
            rounds: Names::default(),
            dimensions: Vec::new(),
            counts: HashMap::new(),
            rows: Vec::new(),
            missing: Vec::new(),
        })
    }

    fn read(mut self) -> Result<Table, TableError> {
        let mut record = csv::StringRecord::new();
        while self.csv.read_record(&mut record)? {
            let line = record.position().map_or(0, csv::Position::line);
            self.row(&record, line)?;
        }
        self.finish()
    }

    fn row(&mut self, record: &csv::StringRecord, line: u64) -> Result<(), TableError> {
        let cell = |at: usize| record.get(at).unwrap_or_default();
        let (build, metric) = (cell(self.columns.build), cell(self.columns.metric));
        for (text, column) in [(build, "build"), (metric, "metric")] {
            if text.is_empty() {
                return Err(TableError::Empty { line, column });
            }
        }
        let (build, new) = self.names.place(build);
        if new {
            let options = self.columns.options.iter().map(|at| cell(*at).to_owned()).collect();
            self.builds.push(Build { name: self.names.all[build].clone(), options });
        } else {
            self.same_options(build, record, line)?;
        }
        let (metric, _) = self.metrics.place(metric);
        let (build32, metric32) = (build as u32, metric as u32);
        let repetition = match self.columns.repetition {
            Some(at) => self.rounds.place(cell(at)).0,
            None => {
                let count = self.counts.entry((metric32, build32)).or_default();
                *count += 1;
                self.rounds.place(&count.to_string()).0
            }
        };
        let Some(PrintedValue { value, dimension, one }) =
            unit::printed(cell(self.columns.value)).map_err(|error| TableError::Value { line, error })?
        else {
            self.missing.push((metric32, build32));
            return Ok(());
        };
        if self.dimensions.len() <= metric {
            self.dimensions.resize(metric + 1, (dimension, 0));
        }
        let (was, first) = &mut self.dimensions[metric];
        if *first == 0 {
            (*was, *first) = (dimension, line);
        } else if *was != dimension {
            let metric = self.metrics.all[metric].clone();
            return Err(TableError::Mixed { line, first: *first, metric, is: dimension, was: *was });
        }
        let of = (metric32, build32);
        self.rows.push(Row { metric: of.0, build: of.1, round: repetition as u32, line, value, one });
        Ok(())
    }

    fn same_options(&self, build: usize, record: &csv::StringRecord, line: u64) -> Result<(), TableError> {
        for (option, was) in self.columns.options.iter().zip(&self.builds[build].options) {
            let is = record.get(*option).unwrap_or_default();
            if is != was {
                let (build, option) = (self.builds[build].name.clone(), self.headers[*option].clone());
                return Err(TableError::Options { line, build, option, is: is.into(), was: was.clone() });
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Table, TableError> {
        if self.rows.is_empty() {
            return Err(TableError::Nothing);
        }
        let (builds, metrics, rounds) = (self.builds.len(), self.metrics.all.len(), self.rounds.all.len());
        let size = builds.checked_mul(rounds).and_then(|each| each.checked_mul(metrics));
        if size.is_none_or(|size| size > VALUES_MAX) {
            return Err(TableError::TooMany { builds, metrics, rounds });
        }
        let dimension = |at: usize| self.dimensions.get(at).map_or(Dimension::Number, |(dimension, _)| *dimension);
        let metric = |(at, name): (usize, &String)| Metric {
            name: name.clone(),
            dimension: dimension(at),
            values: vec![f64::NAN; builds * rounds],
            printed: vec![0; builds * rounds],
            units: Vec::new(),
            missing: vec![0; builds],
        };
        let mut all: Vec<Metric> = self.metrics.all.iter().enumerate().map(metric).collect();
        for (metric, build) in &self.missing {
            all[*metric as usize].missing[*build as usize] += 1;
        }
        for row in &self.rows {
            let (metric, at) = (&mut all[row.metric as usize], row.build as usize * rounds + row.round as usize);
            metric.printed[at] = unit_place(&mut metric.units, row.one);
            let place = &mut metric.values[at];
            if !place.is_nan() {
                return Err(TableError::Twice {
                    line: row.line,
                    build: self.builds[row.build as usize].name.clone(),
                    metric: self.metrics.all[row.metric as usize].clone(),
                    repetition: self.rounds.all[row.round as usize].clone(),
                });
            }
            *place = row.value;
        }
        Ok(Table {
            options: self.columns.options.iter().map(|at| self.headers[*at].clone()).collect(),
            builds: self.builds,
            metrics: all,
            rounds: self.rounds.all,
            numbered: self.columns.repetition.is_none(),
        })
    }
}

/// Returns the index of a unit among those in which a metric was printed; there are fewer kinds than fit a byte.
fn unit_place(units: &mut Vec<f64>, one: f64) -> u8 {
    let at = units.iter().position(|unit| *unit == one).unwrap_or_else(|| {
        units.push(one);
        units.len() - 1
    });
    u8::try_from(at).expect("a few dozen units are known")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Table, TableError> {
        Table::read(text.as_bytes())
    }

    fn error(text: &str) -> String {
        read(text).expect_err("wrong").to_string()
    }

    #[test]
    fn rows_become_rounds_of_builds() {
        let table = read(
            "nb_build,lto,metric,value,repetition\n\
             base,off,speed,1.5 MB/s,1\n\
             base,off,speed,NA,2\n\
             fat,fat,speed,2 MB/s,2\n\
             base,off,size,7,1\n",
        )
        .expect("fine");
        assert_eq!((table.options.as_slice(), table.missing(), table.numbered), (&["lto".to_owned()][..], 1, false));
        assert_eq!(table.builds[1], Build { name: "fat".into(), options: vec!["fat".into()] });
        assert_eq!(table.of(0, 0)[0], 1.5e6);
        assert!(table.of(0, 0)[1].is_nan() && table.of(0, 1)[0].is_nan());
        assert_eq!((table.present(0, 1), table.present(1, 1).len()), (vec![2e6], 0));
        let rest = table.without(&[0]);
        assert_eq!((rest.builds.len(), rest.present(0, 0), rest.missing()), (1, vec![2e6], 0));
        let of_a_command = read("build,metric,value\na,size,7\nb,size,NA\nb,size,NA\nb,x,1\n").expect("fine");
        assert_eq!(of_a_command.missing(), 0, "it has no size, and none is missing");
    }

    #[test]
    fn rows_without_repetitions_are_numbered() {
        let table = read("build,metric,value\na,x,1\nb,x,3\na,x,2\n").expect("fine");
        assert!(table.numbered);
        assert_eq!((table.of(0, 0), table.of(0, 1)[0]), (&[1.0, 2.0][..], 3.0));
    }

    #[test]
    fn error_names_its_line() {
        assert!(error("build,metric\n").starts_with("there is no column `value`; the columns are `build`, `metric`"));
        assert_eq!(error("build,metric,value,lto,lto\n"), "there are two columns `lto`");
        assert_eq!(error("build,metric,value\na,x,fast\n"), "line 2: `fast` is not a number");
        assert_eq!(error("build,metric,value\na,x,1\n,x,1\n"), "line 3: the build is empty");
        assert!(error("build,metric,value\na,x,1\na,x,1 s\n").starts_with("line 3: metric `x` is in seconds here"));
        let twice = "build,metric,value,repetition\na,x,1,1\na,x,1,1\n";
        assert_eq!(error(twice), "line 3 gives metric `x` of build `a` in repetition `1` a second time");
        let options = "build,lto,metric,value\na,off,x,1\na,fat,x,1\n";
        assert_eq!(error(options), "line 3: build `a` has lto = `fat`, and had `off` before");
        assert_eq!(error("build,metric,value\n"), "there are no values in the results");
        assert!(error("build,metric,value\na,x\n").starts_with("the results are not CSV"));
    }
}
