//! apart: the process of the tile sign, from both sides.
//!
//! reads   in the tile's process: what the node's process writes to its standard input, the workspace file
//! writes  in the node's process: that process, and its keys; in the tile's: what its sandbox lacks, and why it ended
//! memory  in the tile's process: its parts of the workspace, a locked page for each key
//! source  Firedancer, which runs each tile in a process with a sandbox
//!
//! The node executes its own program again as `hearth tile sign`, with pipes for standard input and output and the
//! events of its cores. On the input come a [`StartMessage`], then the keys, which the node then no longer has, and
//! later changes of the identity and of the voters' keys, by writes that never wait. On the output goes a `Report` just
//! before the first turn, and a second one if the tile dies.
//!
//! The process makes everything that it needs, and gives up what it does not need any more, before it handles the first
//! request. The node's process asks it to stop after all other tiles; it ignores requests of a terminal.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::{ExitStatusExt, parent_id};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};

use hearth_pipeline::node::TileConfigs;
use hearth_pipeline::node::apart::{ApartError, ApartProcess, ApartTile, StartApart, StartMessage};
use hearth_pipeline::sign::{self, SYSTEM_CALLS, Sign};
use hearth_ring::Workspace;
use hearth_tile::core::TilePanic;
use hearth_tile::sys::event::EventFd;
use hearth_tile::sys::process::{end_now, inherited, never_wait_for, start_self};
use hearth_tile::sys::sandbox::{self, Step};
use hearth_tile::topology::Topology;
use hearth_tile::{Clock, Tile};
use serde::{Deserialize, Serialize};

use crate::config::{Isolation, Security};

/// The arguments by which the program knows that it is the process of the tile.
const ARGUMENTS: [&str; 2] = ["tile", "sign"];
/// The tile's full name.
const TILE: &str = "sign:0";
/// Standard input and output.
const INPUT: i32 = 0;
const OUTPUT: i32 = 1;
/// Maximum bytes of a message between the two processes: a topology has some 60 KB.
const MESSAGE_BYTES_MAX: u32 = 16 << 20;
/// Steps that are taken before the keys arrive; the others before the first turn.
const FIRST_STEPS: [Step; 2] = [Step::NoNewPrivileges, Step::NoDumps];

/// Whether this program is the process of a tile where it is asked to.
static CAN_START: AtomicBool = AtomicBool::new(false);

/// Becomes the process of a tile if this process was started for that, and then does not return. A program that calls
/// it, first of all, can run nodes with a tile apart.
pub fn become_tile_if_asked() {
    let arguments: Vec<String> = std::env::args_os().skip(1).filter_map(|word| word.into_string().ok()).collect();
    if arguments == ARGUMENTS {
        end_now(i32::from(!runs_well()));
    }
    CAN_START.store(true, Ordering::Relaxed);
}

/// Sets the tile apart if the configuration says so and this program can start its process.
pub fn place(security: &Security, topology: &mut Topology) {
    let is_wanted = security.isolation == Isolation::Auto && CAN_START.load(Ordering::Relaxed);
    if is_wanted && topology.tile(TILE).is_some() {
        topology.set_apart(TILE);
    }
}

/// Returns what starts the tile's process, with this configuration of the tile.
pub fn starter(config: sign::Config, security: &Security) -> StartApart {
    let requires_all = security.require_isolation;
    Box::new(move |message: StartMessage| -> Result<Box<dyn ApartProcess>, ApartError> {
        let process = SignProcess::start(&message, config, requires_all);
        let process = process.map_err(|why| ApartError { tile: TILE.into(), why })?;
        Ok(Box::new(process))
    })
}

/// Describes in one line the means for a sandbox that this machine has.
pub fn abilities() -> String {
    let landlock = match sandbox::landlock_version() {
        Ok(version) => format!("Landlock {version}"),
        Err(_) => "no Landlock".into(),
    };
    let filter = if sandbox::has_system_call_filters() { "system-call filters" } else { "no system-call filters" };
    let namespaces = if sandbox::has_namespaces() { "namespaces" } else { "no namespaces for this user" };
    format!("{filter}, {landlock}, {namespaces}")
}

/// The report of the tile's process.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Report {
    /// Why the process ends, if an error ends it.
    error: Option<String>,
    /// Steps of the sandbox that the machine refuses, with the reasons.
    missing: Vec<(String, String)>,
}

impl Report {
    fn failed(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    fn read(from: &mut impl Read) -> io::Result<Self> {
        Ok(serde_json::from_slice(&read_message(from)?)?)
    }

    fn write(&self, mut to: &File) -> io::Result<()> {
        write_message(&mut to, &serde_json::to_vec(self)?)
    }
}

fn write_message(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u32).to_le_bytes())?;
    to.write_all(bytes)
}

fn read_message(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut size = [0; 4];
    from.read_exact(&mut size)?;
    let size = u32::from_le_bytes(size);
    if size > MESSAGE_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; size as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The process of sign, as the node's process sees it.
struct SignProcess {
    child: Child,
    reports: ChildStdout,
    missing: Vec<(String, String)>,
    /// How it ended, if it has.
    end: Option<TilePanic>,
}

impl SignProcess {
    /// Starts it and waits until it is about to run. Fails with the reason, in words.
    fn start(message: &StartMessage, config: sign::Config, requires_all: bool) -> Result<Self, String> {
        let no_process = |why: io::Error| format!("cannot start a process: {why}");
        let mut child = start_self(&ARGUMENTS, message.events.clone()).map_err(no_process)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, reports) = input.zip(output).expect("it has pipes");
        // From here on it is ended where this returns early.
        let mut process = Self { child, reports, missing: vec![], end: None };
        let message = serde_json::to_vec(message).expect("a topology is plain data");
        // Where the process has ended it says why.
        let sent = hand_over(input, &message, config);
        let report = Report::read(&mut process.reports);
        match (sent, report) {
            (_, Ok(Report { error: Some(error), .. })) => return Err(error),
            (Ok(()), Ok(report)) => process.missing = report.missing,
            (Err(why), _) | (_, Err(why)) => {
                let ended = process.ended().map_or_else(|| why.to_string(), |ended| ended.message);
                return Err(format!("it did not come up: {ended}"));
            }
        }
        if requires_all && !process.missing.is_empty() {
            let missing = process.missing_text();
            return Err(format!(
                "this machine lacks steps of its sandbox ({missing}), and --require-isolation \
                 (security.require_isolation) does not go on without; `hearth configure check` shows what it has"
            ));
        }
        Ok(process)
    }

    fn missing_text(&self) -> String {
        self.missing.iter().map(|(step, why)| format!("{step}: {why}")).collect::<Vec<_>>().join("; ")
    }

    /// Remembers how it ended, and returns that in the words of an error.
    fn has_ended(&mut self, status: ExitStatus) -> TilePanic {
        let said = Report::read(&mut self.reports).ok().and_then(|report| report.error);
        let message = said.unwrap_or_else(|| ending(status));
        self.end.insert(TilePanic { tile: TILE.into(), message }).clone()
    }
}

/// Writes to the process what it begins with. Later changes of keys follow on the same pipe.
fn hand_over(mut input: ChildStdin, message: &[u8], config: sign::Config) -> io::Result<()> {
    // Both are one pipe. This one is closed when this function returns, so that the process sees its end if it fails.
    let same = input.as_fd().try_clone_to_owned()?;
    write_message(&mut input, message)?;
    config.hand_over(Box::new(input))?;
    // A process that takes no keys must not stop the tile or the thread that changes them.
    never_wait_for(same.as_raw_fd())
}

/// How a process ended that said nothing of it.
fn ending(status: ExitStatus) -> String {
    const SIGSYS: i32 = 31;
    match status.signal() {
        Some(SIGSYS) => "its process made a system call that its sandbox forbids (signal 31, SIGSYS)".into(),
        Some(signal) => format!("its process was ended by signal {signal}"),
        None => format!("its process ended with code {}", status.code().unwrap_or_default()),
    }
}

impl ApartProcess for SignProcess {
    fn summary(&self) -> String {
        let pid = self.child.id();
        match self.missing.is_empty() {
            true => format!("sign in a process of its own ({pid}), in a whole sandbox"),
            false => format!("sign in a process of its own ({pid}); its sandbox lacks {}", self.missing_text()),
        }
    }

    fn ended(&mut self) -> Option<TilePanic> {
        if self.end.is_some() {
            return self.end.clone();
        }
        let status = self.child.try_wait().ok().flatten()?;
        Some(self.has_ended(status))
    }

    fn wait(mut self: Box<Self>) -> Result<(), TilePanic> {
        // It ended before it was asked to.
        if let Some(end) = self.end.clone() {
            return Err(end);
        }
        let waited = self.child.wait();
        let status = waited.map_err(|why| TilePanic { tile: TILE.into(), message: why.to_string() })?;
        let end = self.has_ended(status);
        if status.success() { Ok(()) } else { Err(end) }
    }
}

impl Drop for SignProcess {
    fn drop(&mut self) {
        if self.end.is_none() {
            // It has ended by itself where this fails.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Is the process of the tile until it stops. Returns whether it ended well; where not, it has said why.
fn runs_well() -> bool {
    let reports = match inherited(OUTPUT) {
        Ok(output) => File::from(output),
        Err(_) => return false,
    };
    match run(&reports) {
        Ok(()) => true,
        Err(why) => {
            // Without the node's process nobody reads it.
            let _ = Report::failed(why).write(&reports);
            false
        }
    }
}

/// Runs the tile; fails with the reason, in words.
fn run(reports: &File) -> Result<(), String> {
    std::panic::set_hook(Box::new(|panic| {
        // A panic of the tile is caught, and its message is reported.
        if !hearth_tile::panics::is_caught() {
            hearth_command::output::note(panic);
        }
    }));
    let parent = parent_id();
    let mut missing = take(&FIRST_STEPS);
    let mut input = File::from(inherited(INPUT).map_err(|why| format!("it has no input: {why}"))?);
    let message = read_message(&mut input).map_err(|why| format!("cannot read the start message: {why}"))?;
    let message: StartMessage =
        serde_json::from_slice(&message).map_err(|why| format!("the start message has another form: {why}"))?;
    if let Err(why) = sandbox::close_others(&message.events) {
        missing.push(("closed descriptors".into(), why.to_string()));
    }
    let config = sign::Config::take_over(Box::new(input)).map_err(|why| why.to_string())?;
    never_wait_for(INPUT).map_err(|why| format!("cannot set up its input: {why}"))?;
    let events = events(&message).map_err(|why| format!("cannot take its events over: {why}"))?;
    let workspace = attach(&message)?;
    let configs = TileConfigs::default().one::<Sign>(config);
    let tile = ApartTile::make(&message, &workspace, events, &Clock::real(), configs).map_err(|why| why.to_string())?;
    if let Some(core) = tile.pin() {
        hearth_tile::sys::thread::pin_to(&[core]).map_err(|why| format!("cannot run on core {core}: {why}"))?;
    }
    let begin = || {
        let is_later = |step: &Step| !FIRST_STEPS.contains(step) && *step != Step::SystemCalls;
        let others: Vec<Step> = Step::ALL.into_iter().filter(is_later).collect();
        missing.extend(take(&others));
        // Both are asked for again, since a change of rights may cancel them.
        missing.extend(take(&[Step::NoDumps]));
        if let Err(why) = sandbox::end_with_parent() {
            missing.push(("end with its parent".into(), why.to_string()));
        }
        if parent_id() != parent {
            // The node's process ended meanwhile: nobody would end this one.
            end_now(1);
        }
        missing.extend(take(&[Step::SystemCalls]));
        // Where the node's process has ended nobody reads it.
        let _ = Report { error: None, missing }.write(reports);
    };
    tile.run(begin).map_err(|died| died.message)
}

/// Takes steps of the sandbox; returns those that the machine refuses, with the reasons.
fn take(steps: &[Step]) -> Vec<(String, String)> {
    let refused = |step: &Step| Some((step.name().to_owned(), step.take(&SYSTEM_CALLS).err()?.to_string()));
    steps.iter().filter_map(refused).collect()
}

fn events(message: &StartMessage) -> io::Result<Vec<EventFd>> {
    message.events.iter().map(|event| inherited(*event).map(EventFd::from_owned)).collect()
}

/// Maps the tile's parts of the workspace; its file is closed again.
fn attach(message: &StartMessage) -> Result<Workspace, String> {
    let path = &message.workspace;
    let open = |writes| File::options().read(true).write(writes).open(path);
    let files = open(false).and_then(|read| Ok((read, open(true)?)));
    let (read, write) = files.map_err(|why| format!("cannot open {}: {why}", path.display()))?;
    Workspace::attach(path, &read, &write, &message.plan()).map_err(|why| why.to_string())
}

/// The name of the tile that can be apart.
const _: () = assert!(matches!(Sign::NAME.as_bytes(), b"sign"));

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn reports_cross_a_pipe() {
        let report = Report { error: None, missing: vec![("Landlock".into(), "not here".into())] };
        let mut bytes = vec![];
        write_message(&mut bytes, &serde_json::to_vec(&report).unwrap()).unwrap();
        assert_eq!(Report::read(&mut &bytes[..]).unwrap(), report);
        assert!(Report::read(&mut &bytes[..bytes.len() - 1]).is_err());
        let huge = u32::MAX.to_le_bytes();
        assert_eq!(Report::read(&mut &huge[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn ends_are_named_by_signal_or_code() {
        let end = |command: &str| ending(Command::new("sh").args(["-c", command]).status().unwrap());
        assert_eq!(end("exit 3"), "its process ended with code 3");
        assert_eq!(end("kill -9 $$"), "its process was ended by signal 9");
        assert!(end("kill -31 $$").contains("its sandbox forbids"));
    }

    #[test]
    fn only_a_program_that_can_start_it_sets_it_apart() {
        let security = Security { isolation: Isolation::Auto, ..Security::default() };
        let sign = hearth_tile::topology::TileSpec::of::<Sign>(0);
        let mut topology = Topology { tiles: vec![sign], ..Topology::default() };
        // This program cannot.
        place(&security, &mut topology);
        assert!(topology.apart().is_none());
    }
}
