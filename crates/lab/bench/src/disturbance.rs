//! Detects what others took of the machine, if so much that another run would measure something else.
//!
//! reads   the CPU time of the process, and the time that the hypervisor gave to others
//! writes  a sentence

use hearth_machine::process::CoresHad;

/// If this share of the cores was taken away, it is unknown what the tiles could have done with them.
const TAKEN: f64 = 0.1;

/// A stolen share above this is reported.
const STOLEN: f64 = 0.05;

/// The cores that the process may use, and its CPU time.
pub struct CpuAllowance {
    /// The intersection of affinity and quota, in cores.
    pub cores: f64,
    /// CPU time in cores, and time spent waiting for cores.
    pub had: CoresHad,
}

impl CpuAllowance {
    /// Describes what others took of the cores, if it is much.
    fn taken(&self) -> Option<String> {
        let CoresHad { had, waited_for } = self.had;
        let taken = had < (1.0 - TAKEN) * self.cores && waited_for > TAKEN * self.cores;
        taken.then(|| {
            format!(
                "node and load got {had:.1} of {} cores, and {waited_for:.1} of their threads waited for one on average: \
                 other programs took the rest",
                (10.0 * self.cores).round() / 10.0
            )
        })
    }
}

/// Describes what others took of the machine, if so much that another run would measure something else. If the node is
/// another process, only the hypervisor's share can be separated from the node's use.
pub fn noise(machine: &CpuAllowance, stolen: f64, is_outside: bool) -> Option<String> {
    let taken = machine.taken().filter(|_| !is_outside);
    let stolen =
        (stolen > STOLEN).then(|| format!("the hypervisor gave {:.0} % of the time to others", 100.0 * stolen));
    let parts: Vec<String> = taken.into_iter().chain(stolen).collect();
    (!parts.is_empty()).then(|| format!("the machine is not quiet: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_not_quiet_is_reported() {
        let quiet = CpuAllowance { cores: 2.0, had: CoresHad { had: 1.9, waited_for: 0.1 } };
        assert_eq!(noise(&quiet, 0.01, false), None);
        let warning = noise(&quiet, 0.12, false).unwrap();
        assert_eq!(warning, "the machine is not quiet: the hypervisor gave 12 % of the time to others");
        let shared = CpuAllowance { cores: 2.0, had: CoresHad { had: 1.1, waited_for: 0.8 } };
        assert!(noise(&shared, 0.0, false).unwrap().contains("got 1.1 of 2 cores, and 0.8 of their threads waited"));
        assert_eq!(noise(&shared, 0.0, true), None, "that is the node");
        let idle = CpuAllowance { cores: 2.0, had: CoresHad { had: 0.3, waited_for: 0.0 } };
        assert_eq!(noise(&idle, 0.0, false), None);
    }
}
