//! Competition for the cores: other guests of the host, and other programs on this machine.
//!
//! reads   `/proc/stat`, `/proc/pressure/cpu`, `/proc/loadavg`
//! source  proc(5); psi.rst of the kernel's documentation

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Root;

/// The machine's clocks at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuSample {
    at: Instant,
    jiffies: Jiffies,
    pressure_us: Option<u64>,
}

/// Jiffies of all cores since boot, in total and by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jiffies {
    /// The sum of all kinds, from `user` to `steal` in `/proc/stat`.
    pub total: u64,
    /// Without anything to do, or waiting for a disk.
    pub idle: u64,
    /// Taken by the hypervisor for others.
    pub stolen: u64,
}

/// Activity of others between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Neighbours {
    /// How long was looked, seconds.
    pub seconds: f64,
    /// Share of the cores' time that the hypervisor gave to others, 0 to 1.
    pub steal: f64,
    /// Share of the cores' time in which any program ran, 0 to 1.
    pub busy: f64,
    /// Share of the time in which some thread waited for a core; `None` if the kernel does not report it.
    pub pressure: Option<f64>,
    /// The same over the last five minutes.
    pub pressure_five_minutes: Option<f64>,
    /// Threads that ran or could have run, on average over the last minute.
    pub load: Option<f64>,
}

impl Jiffies {
    /// Reads the counters; zeros if there are none.
    pub fn read(root: &Root) -> Self {
        let stat = root.text("/proc/stat").unwrap_or_default();
        let line = stat.lines().next().unwrap_or_default();
        // user nice system idle iowait irq softirq steal; later fields are included in these.
        let fields: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|v| v.parse().ok()).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or(0);
        Self { total: fields.iter().sum(), idle: field(3) + field(4), stolen: field(7) }
    }

    /// Share stolen since `before`, 0 to 1.
    pub fn steal_since(&self, before: &Self) -> f64 {
        self.share(before, |jiffies| jiffies.stolen)
    }

    fn share(&self, before: &Self, part: impl Fn(&Self) -> u64) -> f64 {
        let total = self.total.saturating_sub(before.total);
        // Idle time may go back a little between two readings.
        let part = part(self).saturating_sub(part(before));
        if total == 0 { 0.0 } else { (part as f64 / total as f64).min(1.0) }
    }
}

impl CpuSample {
    /// Reads the current counters.
    pub fn take(root: &Root) -> Self {
        Self {
            at: Instant::now(),
            jiffies: Jiffies::read(root),
            pressure_us: pressure(root, "total=").map(|us| us as u64),
        }
    }

    /// Sleeps for `time`, and returns the activity of others meanwhile.
    pub fn sample(root: &Root, time: Duration) -> Neighbours {
        let before = Self::take(root);
        std::thread::sleep(time);
        before.until_now(root)
    }

    /// Returns the activity since this sample was taken.
    pub fn until_now(&self, root: &Root) -> Neighbours {
        let now = Self::take(root);
        self.until(&now, root)
    }

    fn until(&self, now: &Self, root: &Root) -> Neighbours {
        let elapsed = (now.at - self.at).max(Duration::from_micros(1));
        let waited = now.pressure_us.zip(self.pressure_us).map(|(now, before)| now.saturating_sub(before));
        let idle = now.jiffies.share(&self.jiffies, |jiffies| jiffies.idle);
        let (ticked, steal) = (now.jiffies.total > self.jiffies.total, now.jiffies.steal_since(&self.jiffies));
        Neighbours {
            seconds: elapsed.as_secs_f64(),
            steal,
            busy: if ticked { (1.0 - idle - steal).max(0.0) } else { 0.0 },
            pressure: waited.map(|us| (us as f64 / elapsed.as_micros() as f64).min(1.0)),
            pressure_five_minutes: pressure(root, "avg300=").map(|percent| percent / 100.0),
            load: root.text("/proc/loadavg").and_then(|text| text.split_whitespace().next()?.parse().ok()),
        }
    }
}

/// A field of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn pressure(root: &Root, field: &str) -> Option<f64> {
    let text = root.text("/proc/pressure/cpu")?;
    let line = text.lines().find(|line| line.starts_with("some"))?;
    line.split_whitespace().find_map(|word| word.strip_prefix(field)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{board, tree};

    #[test]
    fn activity_between_two_samples() {
        let made = tree(&[
            ("proc/stat", "cpu  100 0 50 800 50 0 0 0 9 9\ncpu0 1 1 1\n"),
            ("proc/pressure/cpu", "some avg10=1.00 avg60=2.00 avg300=30.50 total=1000000\nfull avg10=0.00 total=7\n"),
            ("proc/loadavg", "3.50 1.00 1.00 1/100 5\n"),
        ]);
        let before = CpuSample::take(&made.root);
        assert_eq!(before.jiffies, Jiffies { total: 1000, idle: 850, stolen: 0 });
        made.write("proc/stat", "cpu  120 0 60 840 50 0 0 30 9 9\n");
        made.write("proc/pressure/cpu", "some avg10=1.00 avg60=2.00 avg300=30.50 total=1250000\n");
        let mut after = CpuSample::take(&made.root);
        after.at = before.at + Duration::from_secs(1);
        let seen = before.until(&after, &made.root);
        assert_eq!((seen.steal, seen.pressure, seen.pressure_five_minutes), (0.3, Some(0.25), Some(0.305)));
        assert!((seen.busy - 0.3).abs() < 1e-9 && seen.load == Some(3.5), "{seen:?}");
    }

    #[test]
    fn a_kernel_that_does_not_tell() {
        let made = board();
        let seen = CpuSample::take(&made.root).until_now(&made.root);
        assert_eq!((seen.steal, seen.busy, seen.pressure, seen.load), (0.0, 0.0, None, None));
    }
}
