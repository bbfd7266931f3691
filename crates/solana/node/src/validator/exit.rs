//! `hearth validator exit`: ends a running node at a good time.
//!
//! reads   the node's admin socket and RPC; `/proc`, for the end of its process
//! writes  the request to end

use std::path::Path;
use std::time::Duration;

use clap::Args;
use hearth_command::output::CommandOutput;
use hearth_command::progress::Progress;

use super::ValidatorError;
use super::restart_window::{self, Window};
use crate::admin::AdminClient;

/// Interval of looks for the end of the process.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The arguments of `hearth validator exit`.
#[derive(Args)]
pub struct Exit {
    /// Ask at once, without waiting for a restart window.
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Do not wait until the process has ended.
    #[arg(long)]
    pub no_wait_for_exit: bool,
    /// The conditions of a restart window.
    #[command(flatten)]
    pub window: Window,
}

impl Exit {
    /// Ends the node of this ledger folder.
    pub(super) fn run(&self, folder: &Path, say: &CommandOutput) -> Result<(), ValidatorError> {
        if !self.force {
            restart_window::wait(folder, &self.window, None, say)?;
        }
        let mut admin = AdminClient::connect(folder)?;
        let answer = admin.call("pid")?;
        let pid =
            answer.as_u64().ok_or_else(|| ValidatorError::Garbled { method: "pid", answer: answer.to_string() })?;
        admin.call("exit")?;
        say.line(format_args!("Exit request sent to process {pid}, whose ledger is {}", folder.display()));
        if self.no_wait_for_exit {
            return Ok(());
        }
        let mut shown = Progress::new();
        while is_alive(pid) {
            shown.tell(|| format!("waiting for process {pid} to end"));
            std::thread::sleep(LOOK_EVERY);
        }
        shown.clear();
        say.line(format_args!("Process {pid} has ended"));
        Ok(())
    }
}

/// Whether a process runs. One that has ended is listed until its parent has asked for its exit code.
fn is_alive(pid: u64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the name, which may hold anything, in parentheses.
    let state = stat.rsplit_once(')').and_then(|(_, state)| state.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_that_has_ended_is_not_alive() {
        assert!(is_alive(std::process::id().into()));
        assert!(!is_alive(u64::MAX));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // Nobody has asked for its exit code so far.
        hearth_testkit::wait_until("its end", || !is_alive(child.id().into()));
        child.wait().unwrap();
        assert!(!is_alive(child.id().into()));
    }
}
