//! One of each node at work together, and what is measured of it.
//!
//! reads   RPC and CPU time of both nodes
//! writes  progress, and a row of figures for each part
//! memory  the slots that a scenario confirmed

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::compare::Hashes;
use super::load::{Load, Sent, Way};
use super::nodes::{AGAVE, OURS, Process};
use super::window::{Measured, Window};
use super::{Lab, Outcome, confirmed};

/// Between two looks at both nodes: `SlotHashes` has 512 slots, so nothing is missed.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A node must answer again within this.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// The nodes of a scenario, and what it has shown so far.
pub struct Cluster {
    pub ours: Process,
    pub agave: Process,
    /// More nodes: they must live, and have Agave's bank hashes.
    pub others: Vec<Process>,
    rows: Vec<Value>,
    wrong: Vec<String>,
    /// Slots that either has confirmed.
    confirmed: BTreeSet<u64>,
}

impl Cluster {
    pub fn new(ours: Process, agave: Process) -> Self {
        Self { ours, agave, others: Vec::new(), rows: Vec::new(), wrong: Vec::new(), confirmed: BTreeSet::new() }
    }

    /// Adds a row; `wrong` is what did not hold in that part.
    pub fn add(&mut self, name: &str, mut row: Value, wrong: Vec<String>) {
        row["part"] = json!(name);
        row["passed"] = json!(wrong.is_empty());
        println!("{name}: {row}");
        wrong.iter().for_each(|why| println!("{name}: WRONG: {why}"));
        self.wrong.extend(wrong.into_iter().map(|why| format!("{name}: {why}")));
        self.rows.push(row);
    }

    /// Returns the newest row; null if there is none.
    pub fn last(&self) -> &Value {
        self.rows.last().unwrap_or(&Value::Null)
    }

    /// Notes that something of the last row did not hold.
    pub fn fail(&mut self, why: String) {
        println!("WRONG: {why}");
        if let Some(row) = self.rows.last_mut() {
            row["passed"] = json!(false);
            self.wrong.push(format!("{}: {why}", row["part"].as_str().unwrap_or_default()));
        }
    }

    /// Runs the steps of a scenario, and ends it. If a step fails the rows so far stay.
    pub fn through(mut self, steps: impl FnOnce(&mut Self) -> Result<(), String>) -> Outcome {
        match steps(&mut self) {
            Ok(()) => self.keep_all(),
            Err(why) => self.wrong.push(why),
        }
        Outcome { figures: json!({ "rows": self.rows }), wrong: self.wrong }
    }

    /// Every slot that was ever seen confirmed must still be there, on both nodes.
    fn keep_all(&mut self) {
        for node in [OURS, AGAVE] {
            match confirmed::missing(node, &self.confirmed) {
                Ok(lost) if lost.is_empty() => {}
                Ok(lost) => self.wrong.push(format!("{}: confirmed slots {lost:?} are gone", node.0)),
                Err(why) => self.wrong.push(format!("{}: {why}", node.0)),
            }
        }
    }

    /// Runs both under load for a time, compares them, and adds a row.
    pub fn together(&mut self, lab: &Lab, name: &str, seconds: u64, ways: &[Way]) -> Result<(), String> {
        println!("{name}: under load for {seconds} s");
        let begin = OURS.slot("confirmed").ok_or("our node does not answer")?;
        let mut window = Window::begin(lab, [&self.ours, &self.agave], begin)?;
        let loads = Load::start_all(lab, ways, seconds)?;
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(LOOK_EVERY);
            window.look();
            self.live(begin)?;
            if let Some(slot) = OURS.slot("confirmed") {
                println!("{name}: {} s, slot {slot}", start.elapsed().as_secs());
            }
        }
        let sent = Sent::ended(loads);
        let Measured { row, mut wrong, confirmed } = window.end([&self.ours, &self.agave], sent)?;
        wrong.extend(self.others_differ(begin));
        self.confirmed.extend(confirmed);
        self.add(name, row, wrong);
        Ok(())
    }

    /// Returns the faults in the bank hashes of the other nodes.
    fn others_differ(&self, begin: u64) -> Vec<String> {
        let wrong = self.others.iter().flat_map(|node| {
            let mut hashes = Hashes::since(begin);
            hashes.look(&node.remote(), &AGAVE);
            hashes.wrong(1).into_iter().map(move |why| format!("{}: {why}", node.remote().0))
        });
        wrong.collect()
    }

    /// Fails unless all nodes live and answer.
    fn live(&mut self, slot: u64) -> Result<(), String> {
        let mut nodes = [&mut self.ours, &mut self.agave].into_iter().chain(&mut self.others);
        nodes.try_for_each(|node| node.reaches(slot, ANSWERS_WITHIN))
    }
}

/// The outcomes of several chains as one. A chain that could not begin is what is wrong.
pub fn joined(outcomes: impl Iterator<Item = Result<Outcome, String>>) -> Outcome {
    let mut rows = vec![];
    let mut wrong = vec![];
    for outcome in outcomes {
        match outcome {
            Ok(mut outcome) => {
                rows.extend(outcome.figures["rows"].as_array_mut().map(std::mem::take).unwrap_or_default());
                wrong.extend(outcome.wrong);
            }
            Err(why) => wrong.push(why),
        }
    }
    Outcome { figures: json!({ "rows": rows }), wrong }
}
