//! Formats the result of a bench for people.
//!
//! reads   a [`Report`]
//! writes  the summary

use std::fmt::Write;

use hearth_command::numbers::{grouped, grouped_rate};
use hearth_machine::process::CoresHad;
use hearth_monitor::write_stages;

use super::disturbance::{CpuAllowance, noise};
use super::report::{Bottleneck, Report, SECONDS_LEAST, TIMES_LEAST, Target, WaitEnd, WaitTimes};

/// A load did not keep its rate if it sent less than this share of it, or was later than this many seconds.
const KEPT: (f64, f64) = (0.99, 0.1);
/// Returns whether a load kept its rate, by what it sent and its worst lag.
pub fn is_kept(rate: f64, sent_per_s: f64, lag_s_max: f64) -> bool {
    sent_per_s >= KEPT.0 * rate && lag_s_max <= KEPT.1
}

/// Polling below this share of the CPU time is not reported.
const POLLING: f64 = 0.1;

impl Report {
    /// Returns the summary that the bench prints for people, in several lines.
    pub fn summary(&self) -> String {
        let mut s = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_summary(&mut s);
        s
    }

    fn write_summary(&self, s: &mut String) -> std::fmt::Result {
        writeln!(s)?;
        if self.interrupted {
            writeln!(s, "  interrupted: the figures cover the time until then")?;
        }
        let (duration, warmup) = (self.duration_s, self.warmup_s);
        if self.is_without_load() {
            writeln!(s, "  measured   {duration:.0} s after {warmup:.0} s of waiting; no load was sent (--rate 0)")?;
        } else {
            self.write_rate(s)?;
            write!(s, "  measured   {duration:.0} s after {warmup:.0} s of warm-up, by getTransactionCount")?;
            match &self.target {
                Some(target) => write!(s, " minus {:.1} txn/s of others, votes included", target.others_per_s)?,
                None => write!(s, " minus votes")?,
            }
            match self.longest_stall_s {
                Some(stall) => writeln!(s, "; longest stall {stall:.2} s")?,
                None => writeln!(s)?,
            }
            self.write_load(s)?;
            self.write_balance(s)?;
        }
        if self.presigned_ran_dry {
            writeln!(s, "             all presigned transfers were sent before the time was up")?;
        }
        self.write_latency(s)?;
        write_stages(s, &self.latency)?;
        self.write_costs(s)?;
        self.write_verdict(s)
    }

    /// Returns whether only probes and queries were sent.
    fn is_without_load(&self) -> bool {
        self.asked.rate == Some(0.0)
    }

    /// Writes how the rate varied over the seconds, and whether the machine disturbed it.
    fn write_rate(&self, s: &mut String) -> std::fmt::Result {
        let r = &self.txn_per_s;
        write!(s, "  txn/s      mean {}   median {}   ", grouped_rate(r.mean), grouped_rate(r.median))?;
        let count = self.seconds.len();
        if count >= SECONDS_LEAST {
            writeln!(s, "p5–p95 {}–{}   max {}", grouped_rate(r.p5), grouped_rate(r.p95), grouped_rate(r.max))?;
        } else {
            let min = self.seconds.iter().copied().fold(f64::INFINITY, f64::min);
            let min = if min.is_finite() { min } else { 0.0 };
            let seconds = if count == 1 { "second" } else { "seconds" };
            writeln!(
                s,
                "min {}   max {}   of {count} {seconds}: too few for p5–p95",
                grouped_rate(min),
                grouped_rate(r.max)
            )?;
        }
        let had = CoresHad { had: self.cores_used, waited_for: self.cores_waited_for };
        let noise = noise(&CpuAllowance { cores: self.cores, had }, self.machine.steal, self.target.is_some());
        match noise.filter(|_| self.asked.rate.is_none() || self.is_rate_missed()) {
            Some(noise) => writeln!(s, "             {noise}"),
            None => Ok(()),
        }
    }

    /// Returns whether a rate was requested and not kept.
    fn is_rate_missed(&self) -> bool {
        self.asked.rate.is_some_and(|rate| !is_kept(rate, self.sent_per_s, self.lag_s_max.unwrap_or(0.0)))
    }

    /// Writes whether the load kept the requested rate.
    fn write_load(&self, s: &mut String) -> std::fmt::Result {
        let Some(rate) = self.asked.rate.filter(|rate| *rate > 0.0) else { return Ok(()) };
        let (sent, lag) = (self.sent_per_s, self.lag_s_max.unwrap_or(0.0));
        writeln!(
            s,
            "  load       {} txn/s sent of {} asked; at most {lag:.2} s late",
            grouped_rate(sent),
            grouped_rate(rate)
        )?;
        match self.is_rate_missed() {
            true => {
                writeln!(s, "             the load could not keep the rate: it waited for the node or for a CPU core")
            }
            false => Ok(()),
        }
    }

    /// Writes what happened to the sent transactions.
    fn write_balance(&self, s: &mut String) -> std::fmt::Result {
        if let Some(target) = &self.target {
            writeln!(
                s,
                "  sent       {} = landed {} ({:.1} %) + unresolved {}; landed is counted by the fees that were charged",
                grouped(self.sent),
                grouped(self.landed),
                100.0 * target.landed_share,
                grouped(self.unresolved.max(0) as u64)
            )?;
            self.write_warmup(s)?;
            return match target.waited {
                _ if self.unresolved <= 0 => Ok(()),
                WaitEnd::AllLanded | WaitEnd::Interrupted => self.write_interrupted(s),
                WaitEnd::Expired => writeln!(
                    s,
                    "             unresolved: their blockhashes have expired, so they can no longer land; the RPC reports no reason"
                ),
                WaitEnd::StoodStill => writeln!(
                    s,
                    "             unresolved: landing stopped while the last blockhash was still valid: the node holds or lost them"
                ),
            };
        }
        writeln!(
            s,
            "  sent       {} = landed {} + failed {} + dropped {} + unresolved {}{}",
            grouped(self.sent),
            grouped(self.landed),
            grouped(self.failed),
            grouped(self.dropped.values().sum()),
            if self.unresolved < 0 { "-" } else { "" },
            grouped(self.unresolved.unsigned_abs())
        )?;
        self.write_warmup(s)?;
        self.write_interrupted(s)?;
        for (place, count) in self.dropped.iter().filter(|(_, c)| **c > 0) {
            writeln!(s, "             dropped in {}: {}", place.replace('_', " "), grouped(*count))?;
        }
        Ok(())
    }

    fn write_warmup(&self, s: &mut String) -> std::fmt::Result {
        match self.warmup_s > 0.0 {
            true => writeln!(s, "             counted over the whole run, warm-up included"),
            false => Ok(()),
        }
    }

    fn write_interrupted(&self, s: &mut String) -> std::fmt::Result {
        match self.drain_interrupted && self.unresolved != 0 {
            true => writeln!(s, "             unresolved: in flight when Ctrl-C ended the wait for them"),
            false => Ok(()),
        }
    }

    /// Writes how long clients of the RPC waited.
    fn write_latency(&self, s: &mut String) -> std::fmt::Result {
        let Some(Target { latency, .. }) = &self.target else { return Ok(()) };
        let mut line = |name: &str, waits: &WaitTimes| match waits.count {
            0 => Ok(()),
            count => {
                let WaitTimes { p50, p99, max, .. } = waits;
                // With fewer, the 99th percentile is just the longest.
                let p99 = if count < TIMES_LEAST { String::new() } else { format!("   p99 {p99:.1} ms") };
                writeln!(s, "  {name:<10} p50 {p50:.1} ms{p99}   max {max:.1} ms   of {}", grouped(count))
            }
        };
        line("submitted", &latency.submitted_ms)?;
        line("processed", &latency.processed_ms)?;
        line("confirmed", &latency.confirmed_ms)?;
        line("answers", &latency.answers_ms)?;
        let bad = [
            (latency.probes_refused, "probes refused"),
            (latency.probes_lost, "probes never confirmed"),
            (latency.questions_failed, "questions without an answer"),
        ];
        bad.iter()
            .filter(|(count, _)| *count > 0)
            .try_for_each(|(count, what)| writeln!(s, "             {count} {what}"))
    }

    /// Writes the cost in time and memory.
    fn write_costs(&self, s: &mut String) -> std::fmt::Result {
        let cpu = &self.cpu_us_per_txn;
        if let Some(target) = &self.target {
            return self.write_costs_apart(s, target);
        }
        let all = cpu.node.unwrap_or(0.0) + cpu.load;
        let (node, load) = (cpu.node.unwrap_or(0.0), cpu.load);
        match all > 0.0 {
            true => write!(s, "  cpu        {all:.1} µs a transaction: node {node:.1}, load {load:.1}; ")?,
            false => write!(s, "  cpu        ")?,
        }
        writeln!(s, "{:.1} of {} cores used", self.cores_used, self.cores)?;
        if let (Some(node), Some(signatures)) = (cpu.node, cpu.signatures) {
            let beside = node - signatures;
            writeln!(
                s,
                "             node: {signatures:.1} µs signature verification, {beside:.1} µs everything else"
            )?;
        }
        if cpu.polling > POLLING * all {
            writeln!(s, "             {:.1} µs of it polling: an idle core spins before it sleeps", cpu.polling)?;
        }
        write!(s, "  memory     {} MB at most", self.rss_bytes_max / 1_000_000)?;
        if let Some(statuses) = self.rss_statuses_bytes.filter(|bytes| *bytes > 0) {
            write!(s, ", {} MB of it preallocated for the status cache, by --duration", statuses / 1_000_000)?;
        }
        match self.rss_growth_bytes {
            Some(growth) => writeln!(s, ", {:+.1} MB after the first 10 s", growth as f64 / 1e6),
            None => writeln!(s),
        }
    }

    /// Writes the costs of load and node as separate processes: the node's are known if its process was named.
    fn write_costs_apart(&self, s: &mut String, target: &Target) -> std::fmt::Result {
        let (cpu, without_load) = (&self.cpu_us_per_txn, self.is_without_load() || self.sent == 0);
        if !without_load {
            let each =
                if cpu.load > 0.0 { format!("{:.1} µs of CPU a transaction; ", cpu.load) } else { String::new() };
            write!(s, "  load       {each}{:.1} of {} cores used", self.cores_used, self.cores)?;
            writeln!(s, "; {} MB of memory at most", self.rss_bytes_max / 1_000_000)?;
        }
        let (Some(cores), Some(rss)) = (target.cores_used, target.rss_bytes_max) else {
            return writeln!(s, "  node       CPU time and memory are not known; --pid PID measures them");
        };
        let each =
            cpu.node.filter(|_| !without_load).map_or(String::new(), |us| format!("{us:.1} µs of CPU a transaction; "));
        writeln!(s, "  node       {each}{cores:.2} cores used; {} MB of memory at most", rss / 1_000_000)
    }

    /// Writes what limits the rate, the rate in units of this machine, and what is switched off.
    fn write_verdict(&self, s: &mut String) -> std::fmt::Result {
        if !self.is_without_load() {
            let Bottleneck { tile, why } = &self.bottleneck;
            // The sentence itself names the tile, the core or the block; for a target it says what was observed.
            let of = if self.target.is_some() { format!("{tile}: ") } else { String::new() };
            writeln!(s, "  limit      {of}{why}")?;
        }
        if let (Some(y), Some(e)) = (&self.yardstick_ns, self.efficiency) {
            writeln!(
                s,
                "  yardstick  sign {:.1} µs, verify_strict {:.1} µs (stock ed25519-dalek, one thread)",
                y.sign / 1e3,
                y.verify_strict / 1e3
            )?;
            let work = if self.presigned { "verify_strict" } else { "(sign + verify_strict)" };
            writeln!(
                s,
                "  efficiency {e:.2} = txn/s × {work} ÷ cores; 1 is stock ed25519 on all cores and nothing else"
            )?;
        }
        if self.target.is_some() {
            writeln!(s, "  off        not known: an external node does not report which checks and work it skips")?;
            return self.switched_off.iter().try_for_each(|line| writeln!(s, "             of the load: {line}"));
        }
        match self.switched_off.as_slice() {
            [] => writeln!(s, "  off        nothing is switched off"),
            off => writeln!(s, "  off        {}", off.join("\n             ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::{CpuPerTxn, Latency, LoadSettings};
    use super::*;

    #[test]
    fn unmeasured_lines_are_left_out() {
        let short = Report { rss_bytes_max: 500_000_000, ..Default::default() };
        assert!(short.summary().contains("  memory     500 MB at most\n"), "{}", short.summary());
        let planned = Report { rss_statuses_bytes: Some(398_000_000), ..short.clone() };
        let said = "  memory     500 MB at most, 398 MB of it preallocated for the status cache, by --duration\n";
        assert!(planned.summary().contains(said), "{}", planned.summary());
        let long = Report { rss_growth_bytes: Some(1_500_000), ..short };
        assert!(long.summary().contains("500 MB at most, +1.5 MB after the first 10 s\n"), "{}", long.summary());
    }

    #[test]
    fn percentiles_are_reported_where_defined() {
        let of = |count: usize| {
            let seconds: Vec<f64> = (0..count).map(|n| 1000.0 + n as f64).collect();
            let txn_per_s = super::super::report::Rate::of(&seconds, 0, 0.0);
            Report { seconds, txn_per_s, ..Default::default() }.summary()
        };
        assert!(of(20).contains("p5–p95 1,000–1,018   max 1,019\n"), "{}", of(20));
        assert!(of(19).contains("min 1,000   max 1,018   of 19 seconds: too few for p5–p95\n"), "{}", of(19));
        let waits = |count| {
            let latency =
                Latency { confirmed_ms: WaitTimes { count, p50: 1.0, p99: 2.0, max: 3.0 }, ..Default::default() };
            Report { target: Some(Target { latency, ..Default::default() }), ..Default::default() }.summary()
        };
        assert!(waits(100).contains("confirmed  p50 1.0 ms   p99 2.0 ms   max 3.0 ms   of 100"), "{}", waits(100));
        assert!(waits(99).contains("confirmed  p50 1.0 ms   max 3.0 ms   of 99"), "{}", waits(99));
    }

    #[test]
    fn noisy_machine_is_reported_with_the_rate() {
        let noisy = Report { cores: 2.0, cores_used: 1.0, cores_waited_for: 0.9, ..Default::default() };
        let text = noisy.summary();
        let rate = text.lines().position(|line| line.starts_with("  txn/s")).unwrap();
        assert!(
            text.lines().nth(rate + 1).unwrap().contains("the machine is not quiet: node and load got 1.0"),
            "{text}"
        );
        // A rate that was kept is the requested one.
        let asked = LoadSettings { rate: Some(10.0), ..Default::default() };
        assert!(!Report { asked, sent_per_s: 10.0, ..noisy }.summary().contains("quiet"));
    }

    #[test]
    fn report_of_an_unknown_node_has_known_facts_only() {
        let target = Target { waited: WaitEnd::StoodStill, ..Default::default() };
        let report =
            Report { sent: 10, landed: 7, unresolved: 3, warmup_s: 1.0, target: Some(target), ..Default::default() };
        let text = report.summary();
        for part in
            ["whole run, warm-up included", "the last blockhash was still valid", "off        not known", "--pid PID"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let target = Target {
            waited: WaitEnd::Expired,
            cores_used: Some(0.5),
            rss_bytes_max: Some(7 << 20),
            ..Default::default()
        };
        let text = Report { target: Some(target), ..report }.summary();
        assert!(text.contains("blockhashes have expired") && text.contains("0.50 cores used; 7 MB"), "{text}");
        // Without a load there is no rate to report.
        let target = Some(Target::default());
        let text =
            Report { target, asked: LoadSettings { rate: Some(0.0), ..Default::default() }, ..Default::default() }
                .summary();
        assert!(!text.contains("txn/s") && !text.contains("limit") && text.contains("no load was sent"), "{text}");
    }

    #[test]
    fn polling_differs_from_remains_of_ctrl_c() {
        let cpu_us_per_txn = CpuPerTxn { node: Some(300.0), load: 120.0, polling: 323.0, ..CpuPerTxn::default() };
        let report =
            Report { sent: 60_000, unresolved: 59_585, drain_interrupted: true, cpu_us_per_txn, ..Default::default() };
        let text = report.summary();
        let parts = ["unresolved 59,585\n", "in flight when Ctrl-C", "323.0 µs of it polling"];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        let busy = CpuPerTxn { polling: 1.0, ..cpu_us_per_txn };
        assert!(!Report { cpu_us_per_txn: busy, ..report }.summary().contains("polling"));
    }

    #[test]
    fn of_no_transaction_there_is_no_cost() {
        let none = Report { cores: 2.0, cores_used: 1.4, ..Default::default() };
        assert!(none.summary().contains("  cpu        1.4 of 2 cores used\n"), "{}", none.summary());
        let target = Report { sent: 7, target: Some(Target::default()), ..none };
        assert!(target.summary().contains("  load       1.4 of 2 cores used; 0 MB"), "{}", target.summary());
        let cpu_us_per_txn = CpuPerTxn { node: Some(9.5), load: 2.5, ..CpuPerTxn::default() };
        let some = Report { cores: 2.0, cores_used: 1.4, cpu_us_per_txn, ..Default::default() }.summary();
        assert!(some.contains("12.0 µs a transaction: node 9.5, load 2.5; 1.4 of 2 cores used"), "{some}");
    }

    #[test]
    fn a_rate_that_was_not_kept_is_reported() {
        let with = |sent_per_s, lag| {
            let asked = LoadSettings { rate: Some(10_000.0), ..Default::default() };
            Report { asked, sent_per_s, lag_s_max: Some(lag), ..Default::default() }.summary()
        };
        let kept = with(9_990.0, 0.01);
        assert!(kept.contains("9,990 txn/s sent of 10,000 asked; at most 0.01 s late"), "{kept}");
        assert!(!kept.contains("could not keep"), "{kept}");
        for (sent, lag) in [(9_800.0, 0.01), (10_000.0, 0.2)] {
            assert!(with(sent, lag).contains("could not keep the rate"));
        }
        assert!(!Report::default().summary().contains("asked"), "flat out, nothing was asked");
    }

    #[test]
    fn the_summary_says_what_is_off() {
        let off = vec!["a".to_owned(), "b".to_owned()];
        let report = Report { sent: 1_234_567, switched_off: off, ..Default::default() };
        let text = report.summary();
        assert!(text.contains("sent       1,234,567 =") && text.contains("off        a\n             b\n"), "{text}");
    }
}
