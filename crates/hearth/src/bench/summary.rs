//! The result of a bench as a person reads it.
//!
//! reads   a [`Report`]
//! writes  the summary

use std::fmt::Write;

use super::report::{Report, Target, Waits};

/// A load that sends less than this share of what was asked, or is later than this, did not keep its rate.
const KEPT: (f64, f64) = (0.99, 0.1);
/// Less polling than this share of the CPU time is not worth a line.
const POLLING: f64 = 0.1;

impl Report {
    /// The summary for a person.
    pub fn summary(&self) -> String {
        let mut s = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_summary(&mut s);
        s
    }

    fn write_summary(&self, s: &mut String) -> std::fmt::Result {
        let r = &self.txn_per_s;
        let (duration, warmup) = (self.duration_s, self.warmup_s);
        writeln!(s)?;
        if self.interrupted {
            writeln!(s, "  interrupted: the figures cover the time until then")?;
        }
        writeln!(
            s,
            "  txn/s      mean {}   median {}   p5–p95 {}–{}   max {}",
            n(r.mean),
            n(r.median),
            n(r.p5),
            n(r.p95),
            n(r.max)
        )?;
        write!(s, "  measured   {duration:.0} s after {warmup:.0} s of warm-up, as getTransactionCount counts them")?;
        match &self.target {
            Some(target) => write!(s, ", less {:.1} a second of others, votes among them", target.others_per_s)?,
            None => write!(s, ", less votes")?,
        }
        match self.longest_stall_s {
            Some(stall) => writeln!(s, "; longest stall {stall:.2} s")?,
            None => writeln!(s)?,
        }
        self.write_load(s)?;
        self.write_balance(s)?;
        if self.presigned_ran_dry {
            writeln!(s, "             all that was signed ahead was sent before the time was up")?;
        }
        self.write_latency(s)?;
        self.write_costs(s)?;
        self.write_verdict(s)
    }

    /// Whether the load was what it was told to be.
    fn write_load(&self, s: &mut String) -> std::fmt::Result {
        let Some(rate) = self.asked.rate.filter(|rate| *rate > 0.0) else { return Ok(()) };
        let (sent, lag) = (self.sent_per_s, self.lag_s_max.unwrap_or(0.0));
        writeln!(s, "  load       {} txn/s sent of {} asked; {lag:.2} s behind at the worst", n(sent), n(rate))?;
        match sent < KEPT.0 * rate || lag > KEPT.1 {
            true => {
                writeln!(s, "             the load could not keep the rate: it waited for the node, or for its core")
            }
            false => Ok(()),
        }
    }

    /// What became of what was sent.
    fn write_balance(&self, s: &mut String) -> std::fmt::Result {
        if let Some(target) = &self.target {
            return writeln!(
                s,
                "  sent       {} = landed {} ({:.1} %) + unresolved {}, by the fees that the senders paid",
                i(self.sent),
                i(self.landed),
                100.0 * target.landed_share,
                i(self.unresolved.max(0) as u64)
            );
        }
        writeln!(
            s,
            "  sent       {} = landed {} + failed {} + dropped {} + unresolved {}{}",
            i(self.sent),
            i(self.landed),
            i(self.failed),
            i(self.dropped.values().sum()),
            if self.unresolved < 0 { "-" } else { "" },
            i(self.unresolved.unsigned_abs())
        )?;
        if self.drain_interrupted && self.unresolved != 0 {
            writeln!(s, "             unresolved: under way when Ctrl-C ended the wait for them")?;
        }
        for (place, count) in self.dropped.iter().filter(|(_, c)| **c > 0) {
            writeln!(s, "             dropped in {}: {}", place.replace('_', " "), i(*count))?;
        }
        Ok(())
    }

    /// How long clients of the RPC waited.
    fn write_latency(&self, s: &mut String) -> std::fmt::Result {
        let Some(Target { latency, .. }) = &self.target else { return Ok(()) };
        let mut line = |name: &str, waits: &Waits| match waits.count {
            0 => Ok(()),
            count => {
                let Waits { p50, p99, max, .. } = waits;
                writeln!(s, "  {name:<10} p50 {p50:.1} ms   p99 {p99:.1} ms   max {max:.1} ms   of {}", i(count))
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

    /// What it cost, in time and memory.
    fn write_costs(&self, s: &mut String) -> std::fmt::Result {
        let cpu = &self.cpu_us_per_txn;
        if self.target.is_some() && self.sent == 0 {
            return Ok(());
        }
        let all = cpu.node.unwrap_or(0.0) + cpu.load;
        match cpu.node {
            Some(node) => write!(s, "  cpu        {all:.1} µs a transaction: node {node:.1}, load {:.1}", cpu.load)?,
            None => write!(s, "  cpu        {all:.1} µs a transaction of the load (`--pid` counts the node's too)")?,
        }
        writeln!(s, "; {:.1} of {} cores used", self.cores_used, self.cores)?;
        if let (Some(node), Some(signatures)) = (cpu.node, cpu.signatures) {
            let beside = node - signatures;
            writeln!(s, "             node: {signatures:.1} µs checking signatures, {beside:.1} µs all else")?;
        }
        if cpu.polling > POLLING * all {
            writeln!(
                s,
                "             {:.1} µs of it polling: a core without work looks for it before it sleeps",
                cpu.polling
            )?;
        }
        write!(s, "  memory     {} MB at most", self.rss_bytes_max / 1_000_000)?;
        match self.rss_growth_bytes {
            Some(growth) => writeln!(s, ", {:+.1} MB after the first 10 s", growth as f64 / 1e6),
            None => writeln!(s),
        }
    }

    /// What limits the rate, what it is in units of this machine, and what is switched off.
    fn write_verdict(&self, s: &mut String) -> std::fmt::Result {
        writeln!(s, "  limit      {}: {}", self.bottleneck.tile, self.bottleneck.why)?;
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
        match self.switched_off.as_slice() {
            [] => writeln!(s, "  off        nothing is switched off"),
            off => writeln!(s, "  off        {}", off.join("\n             ")),
        }
    }
}

/// 12,345
pub fn i(v: u64) -> String {
    let digits = v.to_string();
    let mut out = String::new();
    for (k, c) in digits.chars().enumerate() {
        if k > 0 && (digits.len() - k).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A rate without decimals.
pub fn n(v: f64) -> String {
    i(v.max(0.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::report::{Asked, CpuPerTxn};
    use super::*;

    #[test]
    fn what_was_not_measured_is_not_said() {
        let short = Report { rss_bytes_max: 500_000_000, ..Default::default() };
        assert!(short.summary().contains("  memory     500 MB at most\n"), "{}", short.summary());
        let long = Report { rss_growth_bytes: Some(1_500_000), ..short };
        assert!(long.summary().contains("500 MB at most, +1.5 MB after the first 10 s\n"), "{}", long.summary());
    }

    #[test]
    fn polling_and_what_ctrl_c_left_are_told_apart() {
        let cpu_us_per_txn = CpuPerTxn { node: Some(300.0), load: 120.0, polling: 323.0, ..CpuPerTxn::default() };
        let report =
            Report { sent: 60_000, unresolved: 59_585, drain_interrupted: true, cpu_us_per_txn, ..Default::default() };
        let text = report.summary();
        let parts = ["unresolved 59,585\n", "under way when Ctrl-C", "323.0 µs of it polling"];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        let busy = CpuPerTxn { polling: 1.0, ..cpu_us_per_txn };
        assert!(!Report { cpu_us_per_txn: busy, ..report }.summary().contains("polling"));
    }

    #[test]
    fn a_rate_that_was_not_kept_is_said() {
        let with = |sent_per_s, lag| {
            let asked = Asked { rate: Some(10_000.0), ..Default::default() };
            Report { asked, sent_per_s, lag_s_max: Some(lag), ..Default::default() }.summary()
        };
        let kept = with(9_990.0, 0.01);
        assert!(kept.contains("9,990 txn/s sent of 10,000 asked; 0.01 s behind"), "{kept}");
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
