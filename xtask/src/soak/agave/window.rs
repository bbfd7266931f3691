//! What is measured while both nodes run: bank hashes, confirmed blocks, votes, CPU time, drops, times to a vote.
//!
//! reads   RPC, CPU time, sockets and logs of both nodes
//! memory  the bank hashes and signatures of the slots of a part; its log lines

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};

use super::catch_up::BEHIND_MAX;
use super::compare::Hashes;
use super::confirmed::Chain;
use super::load::Sent;
use super::nodes::{AGAVE, OURS, Process};
use super::{Lab, socket_drops, vote_times, votes};

/// Slots of one leader in turn. A share of skipped slots is compared with so much room.
const TURN: u64 = 4;
/// Our node has this part of Agave's CPU time for a transaction, at most.
const CPU_SHARE: u64 = 3;

/// The result of a window: the figures, what is wrong, and the slots that either node confirmed.
pub struct Measured {
    pub row: Value,
    pub wrong: Vec<String>,
    pub confirmed: BTreeSet<u64>,
}

/// The measurements while both run.
pub struct Window {
    begin: u64,
    start: Instant,
    /// CPU time at the begin, seconds.
    cpu: [Option<f64>; 2],
    /// Datagrams dropped at their sockets, and bytes of their logs, at the begin.
    drops: [u64; 2],
    logs: [usize; 2],
    hashes: Hashes,
    ours: Chain,
    theirs: Chain,
    /// The identities of our node and of Agave's.
    ids: [String; 2],
    /// Their credits at the begin.
    credits: [u64; 2],
    /// Looks at which either node's RPC called our vote account delinquent.
    delinquent: u64,
}

impl Window {
    /// Begins with the slot that our node has confirmed. `nodes` are ours and Agave's.
    pub fn begin(lab: &Lab, nodes: [&Process; 2], begin: u64) -> Result<Self, String> {
        let ids = [lab.address("ours-id")?, lab.address("agave-id")?];
        Ok(Self {
            begin,
            start: Instant::now(),
            cpu: nodes.map(Process::cpu_s),
            drops: nodes.map(|node| socket_drops::of(node.remote())),
            logs: nodes.map(Process::log_bytes),
            hashes: Hashes::since(begin),
            ours: Chain::from(OURS, begin),
            theirs: Chain::from(AGAVE, begin),
            credits: credits(&ids),
            delinquent: 0,
            ids,
        })
    }

    /// Reads what has come since.
    pub fn look(&mut self) {
        self.hashes.look(&OURS, &AGAVE);
        self.ours.look();
        self.theirs.look();
        let is_delinquent = |node| votes::of(node).get(&self.ids[0]).is_some_and(|vote| vote.is_delinquent);
        self.delinquent += u64::from([OURS, AGAVE].into_iter().any(is_delinquent));
    }

    /// Judges what was seen, once the loads have ended.
    pub fn end(mut self, nodes: [&Process; 2], sent: Sent) -> Result<Measured, String> {
        self.look();
        let end = OURS.slot("confirmed").ok_or("our node does not answer")?;
        let theirs = AGAVE.slot("confirmed").ok_or("Agave does not answer")?;
        let confirmed = self.ours.slots().chain(self.theirs.slots()).collect();
        let at_least = usize::try_from((end - self.begin) / 2).unwrap_or(usize::MAX).max(1);
        let mut wrong = self.hashes.wrong(at_least);
        let lost = self.ours.lost(&self.theirs);
        let read = self.ours.read_to().min(self.theirs.read_to());
        if read + BEHIND_MAX < end.min(theirs) {
            wrong.push(format!("the confirmed blocks of one node are known up to slot {read} alone"));
        }
        if end.abs_diff(theirs) > BEHIND_MAX {
            wrong.push(format!("our node has confirmed slot {end}, Agave's {theirs}"));
        }
        let production = self.ours.production();
        let (ours_led, ours_skipped) = production.of(&self.ids[0]);
        let (agave_led, agave_skipped) = production.of(&self.ids[1]);
        wrong.extend(skips_more((ours_led, ours_skipped), (agave_led, agave_skipped)));
        let mut row = sent.figures();
        merge(&mut row, self.hashes.figures());
        merge(
            &mut row,
            json!({
                "slots": [self.begin, end], "seconds": self.start.elapsed().as_secs(), "lost": lost.len(),
                "led_ours": ours_led, "skipped_ours": ours_skipped, "led_agave": agave_led,
                "skipped_agave": agave_skipped, "stake_ours": votes::share(&votes::of(OURS), &self.ids[0]).round(),
            }),
        );
        let credits = credits(&self.ids);
        row["credits_ours"] = json!(credits[0].saturating_sub(self.credits[0]));
        row["credits_agave"] = json!(credits[1].saturating_sub(self.credits[1]));
        if self.delinquent > 0 {
            wrong.push(format!("our vote account was delinquent at {} looks", self.delinquent));
        }
        let led = [&self.ids[0], &self.ids[1]].map(|id| production.led(id));
        merge(&mut row, self.speed(nodes, &led, sent.landed));
        wrong.extend(costs_more(row["cpu_us_ours"].as_u64(), row["cpu_us_agave"].as_u64()));
        wrong.extend(lost);
        wrong.extend(sent.wrong);
        Ok(Measured { row, wrong, confirmed })
    }

    /// CPU time, times to a vote, and drops of both. `led` are the slots that each led.
    fn speed(&self, nodes: [&Process; 2], led: &[BTreeSet<u64>; 2], landed: u64) -> Value {
        let mut row = json!({});
        let words = [&vote_times::OURS, &vote_times::AGAVE];
        for (at, name) in ["ours", "agave"].into_iter().enumerate() {
            let node = nodes[at];
            row[format!("cpu_us_{name}")] = json!(per_transaction(self.cpu[at], node.cpu_s(), landed));
            let log = node.log_since(self.logs[at]);
            row[format!("last_shred_to_vote_{name}")] = vote_times::figures(&log, words[at], &led[at]);
            let drops = socket_drops::of(node.remote());
            row[format!("socket_drops_{name}")] = json!(drops.saturating_sub(self.drops[at]));
        }
        row
    }
}

/// Returns a sentence if our node needs more than its share of Agave's CPU time.
fn costs_more(ours: Option<u64>, agave: Option<u64>) -> Option<String> {
    let (ours, agave) = (ours?, agave?);
    (ours * CPU_SHARE > agave)
        .then(|| format!("a transaction took {ours} us of CPU, and {agave} us at Agave: not a third of it"))
}

/// The credits of these nodes' vote accounts; 0 for one that has none.
fn credits(ids: &[String; 2]) -> [u64; 2] {
    let votes = votes::of(OURS);
    [0, 1].map(|at: usize| votes.get(&ids[at]).map_or(0, |vote| vote.credits))
}

/// CPU time of each transaction, microseconds.
fn per_transaction(begin: Option<f64>, end: Option<f64>, transactions: u64) -> Option<u64> {
    let seconds = end? - begin?;
    (transactions > 0).then(|| (seconds * 1e6 / transactions as f64).round() as u64)
}

/// What is wrong if our node skips a greater share of its slots than Agave does, by more than one turn, or if either
/// skips all of its slots.
fn skips_more(ours: (u64, u64), agave: (u64, u64)) -> Option<String> {
    let (led, skipped) = ours;
    let share = agave.1 as f64 / agave.0.max(1) as f64;
    let is_more = skipped as f64 > share * led as f64 + TURN as f64;
    let is_idle = [ours, agave].iter().any(|(led, skipped)| *led > TURN && skipped == led);
    (is_more || is_idle)
        .then(|| format!("our node skipped {skipped} of its {led} slots, Agave's {} of {}", agave.1, agave.0))
}

/// Adds the fields of `more`.
fn merge(row: &mut Value, more: Value) {
    if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
        row.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_shared_by_the_transactions() {
        assert_eq!(per_transaction(Some(1.0), Some(3.0), 1_000), Some(2_000));
        assert_eq!(per_transaction(Some(1.0), Some(3.0), 0), None);
        assert_eq!(per_transaction(Some(1.0), None, 9), None);
    }

    #[test]
    fn more_than_a_third_of_agaves_cpu_time_is_wrong() {
        assert_eq!(costs_more(Some(100), Some(300)), None);
        assert_eq!(costs_more(None, Some(300)), None);
        assert!(costs_more(Some(101), Some(300)).is_some());
    }

    #[test]
    fn skipping_more_than_agave_is_wrong() {
        assert_eq!(skips_more((40, 4), (40, 0)), None);
        assert_eq!(skips_more((40, 14), (40, 10)), None);
        assert!(skips_more((40, 15), (40, 10)).is_some());
        assert!(skips_more((8, 8), (8, 8)).is_some(), "it never leads");
        assert_eq!(skips_more((0, 0), (40, 0)), None);
    }
}
