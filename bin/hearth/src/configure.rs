//! `hearth configure`: finds machine settings that are not ideal for a node of this configuration, and corrects them.
//!
//! reads   the configuration, the machine
//! writes  a report; `init` and `fini` also change machine settings and keep the previous values in `configure.path`
//! source  Firedancer's `configure`

use clap::{Args, Subcommand};
use hearth_command::exit_code::{ExitCode, FAILED};
use hearth_command::output::CommandOutput;
use hearth_machine::Machine;
use hearth_machine::configure::{self, ConfigureError, MachineRequirements, Outcome, Pages, Seat, Stage, Step};
use hearth_node::apart;
use hearth_node::boot::{self, BootError};
use hearth_node::config::{Config, ConfigFile, huge_pages, workspace_path};
use hearth_pipeline::kinds::Kind;
use hearth_ring::HugePages;
use hearth_tile::affinity::Cores;
use hearth_tile::topology::Topology;

use crate::machine::RootOption;

/// Files that a node keeps open in addition to client connections: sockets, blocks, history, snapshots, links.
const OTHER_FILES: u64 = 256;

/// The subcommands of `hearth configure`.
#[derive(Subcommand)]
pub enum Command {
    /// List settings that are not ideal, their cost, and the command that corrects them. Changes nothing, needs no
    /// privileges.
    ///
    /// Exit code 0: all is ideal; 1: some setting is not.
    Check(Options),
    /// Correct what a command can, and remember the previous values. Needs root if there is something to change.
    ///
    /// Ideal settings are left alone. Changes that need a reboot or your decision are only listed. Exit code 1: a
    /// change failed, or is not permitted.
    Init(Options),
    /// Restore what `init` changed, except settings that were changed since. Needs root.
    Fini(Options),
}

/// The options of the subcommands.
#[derive(Args)]
pub struct Options {
    /// Stages: hugetlbfs, sysctl, ethtool, irq, cpu-isolation, hyperthreads, governor, limits; `all`, and without
    /// one, is all of them.
    #[arg(value_name = "STAGE", value_parser = choice)]
    stages: Vec<Choice>,
    /// The configuration file, if one is given.
    #[command(flatten)]
    pub config: ConfigFile,
    /// The folder of another machine's files, if one is given.
    #[command(flatten)]
    root: RootOption,
}

#[derive(Clone, Copy)]
enum Choice {
    All,
    One(Stage),
}

fn choice(text: &str) -> Result<Choice, String> {
    if text == "all" {
        return Ok(Choice::All);
    }
    let names = || Stage::ALL.map(Stage::name).join(", ");
    Stage::of(text).map(Choice::One).ok_or_else(|| format!("the stages are {} and `all`", names()))
}

impl Options {
    fn stages(&self) -> Vec<Stage> {
        let is_chosen = |stage: &Stage| {
            self.stages
                .iter()
                .any(|choice| matches!(choice, Choice::All) || matches!(choice, Choice::One(s) if s == stage))
        };
        Stage::ALL.into_iter().filter(|stage| self.stages.is_empty() || is_chosen(stage)).collect()
    }
}

impl Command {
    /// Returns the options that all three subcommands share.
    pub fn options(&self) -> &Options {
        match self {
            Self::Check(options) | Self::Init(options) | Self::Fini(options) => options,
        }
    }
}

/// How the command ends where it does not end well.
#[derive(Debug, thiserror::Error)]
pub enum CommandFailure {
    /// `check` has already reported the settings to correct.
    #[error("some settings are not ideal")]
    NotIdeal,
    /// The configuration's layout does not fit the machine.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The machine was not set up, or not set back.
    #[error(transparent)]
    Configure(#[from] ConfigureError),
}

impl ExitCode for CommandFailure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Boot(why) => why.exit_code(),
            Self::NotIdeal | Self::Configure(_) => FAILED,
        }
    }

    fn is_printed(&self) -> bool {
        matches!(self, Self::NotIdeal)
    }
}

/// Runs a subcommand. Fails if a setting is not ideal or cannot be changed.
pub fn run(config: &Config, command: &Command, say: &CommandOutput) -> Result<(), CommandFailure> {
    let options = command.options();
    let (root, stages, folder) = (options.root.root(), options.stages(), &config.configure.path);
    let mut steps = 0;
    let mut tell = |step: &Step| {
        steps += 1;
        say.line(described(step));
    };
    match command {
        Command::Check(_) => {
            let machine = Machine::read(&root);
            let reports = configure::check(&root, &machine, &wants(config, &machine)?, &stages);
            say.text(configure::reports(&reports));
            if options.root.root.is_none() && options.stages.is_empty() {
                say.line(format_args!("a tile's process: this machine has {}", apart::abilities()));
            }
            let faulty = reports.iter().filter(|report| !report.faults.is_empty()).count();
            if faulty > 0 {
                say.line(format_args!("not ideal: {faulty} of {} stages", reports.len()));
                return Err(CommandFailure::NotIdeal);
            }
        }
        Command::Init(_) => {
            let wants = wants(config, &Machine::read(&root))?;
            configure::init(&root, &wants, &stages, folder, &mut tell)?;
            if steps == 0 {
                say.line("all is ideal already: nothing was changed");
            }
        }
        Command::Fini(_) => {
            configure::fini(&root, &stages, folder, &mut tell)?;
            if steps == 0 {
                say.line(format_args!("{} remembers no change: there is nothing to put back", folder.display()));
            }
        }
    }
    Ok(())
}

fn described(step: &Step) -> String {
    let (what, stage) = (&step.what, step.stage.name());
    match &step.outcome {
        Outcome::Done => format!("{stage:14} done     {what}"),
        Outcome::Left(why) => format!("{stage:14} left     {what}: {why}"),
        Outcome::ByHand => format!("{stage:14} by hand  {what}"),
        Outcome::Failed(why) => format!("{stage:14} failed   {what}: {why}"),
    }
}

/// Returns what the configuration requires of the machine.
fn wants(config: &Config, machine: &Machine) -> Result<MachineRequirements, BootError> {
    let allowed = machine.cores.allowed.clone();
    let siblings = allowed.iter().map(|core| (*core, machine.cores.siblings_of(*core))).collect();
    let cores = Cores { allowed, siblings }.without(&config.layout.blocklist_cores).map_err(BootError::Blocklist)?;
    let topology = boot::topology(config, &cores, false)?;
    let seat = |tile: &hearth_tile::topology::TileSpec| Seat {
        name: tile.name(),
        core: tile.core,
        quiet: Kind::named(&tile.kind).is_some_and(|kind| kind.quiet),
    };
    Ok(MachineRequirements {
        pages: pages(config, &topology),
        listens: config.tiles.net.bind_address,
        net_tiles: topology.count("net"),
        socket_buffer_bytes: config.tiles.net.socket_buffer_bytes as u64,
        open_files: (config.rpc.max_http_connections + config.rpc.max_websocket_connections) as u64 + OTHER_FILES,
        tiles: topology.tiles.iter().map(seat).collect(),
    })
}

fn pages(config: &Config, topology: &Topology) -> Option<Pages> {
    let pages = huge_pages(&config.hugetlbfs);
    (pages != HugePages::None).then(|| Pages {
        page_bytes: pages.page_size(),
        count: topology.workspace_plan(pages).size().div_ceil(pages.page_size()),
        mount: config.hugetlbfs.mount_path.clone(),
        held: workspace_path(config).exists(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use hearth_node::config::PageSize;

    #[test]
    fn wishes_are_those_of_the_configuration() {
        let mut config = Config::default();
        let mut machine = Machine::default();
        machine.cores.allowed = vec![3, 5];
        let modest = wants(&config, &machine).unwrap();
        let seats: BTreeSet<_> = modest.tiles.iter().filter_map(|seat| seat.core).collect();
        assert_eq!(seats, [3, 5].into());
        assert!(modest.pages.is_none() && modest.listens.is_loopback());
        assert_eq!((modest.socket_buffer_bytes, modest.open_files), (4 << 20, 512 + 256 + 256));
        let quiet: Vec<_> = modest.tiles.iter().filter(|seat| seat.quiet).map(|seat| seat.name.as_str()).collect();
        assert_eq!(quiet, ["pack:0", "poh:0"]);
        config.hugetlbfs.max_page_size = PageSize::Huge;
        config.hugetlbfs.mount_path = "/does/not/exist".into();
        let pages = wants(&config, &machine).unwrap().pages.unwrap();
        assert_eq!((pages.page_bytes, pages.held), (2 << 20, false));
        assert!(pages.count > 10, "{pages:?}");
        config.layout.blocklist_cores = "0-9".into();
        assert!(matches!(wants(&config, &machine), Err(BootError::Blocklist(_))));
    }

    #[test]
    fn stages_by_name() {
        let of = |names: &[&str]| {
            let stages = names.iter().map(|name| choice(name).unwrap()).collect();
            Options { stages, config: ConfigFile::default(), root: RootOption::default() }.stages()
        };
        assert_eq!(of(&[]), Stage::ALL);
        assert_eq!(of(&["irq", "all"]), Stage::ALL);
        assert_eq!(of(&["limits", "sysctl"]), [Stage::Sysctl, Stage::Limits]);
        assert!(choice("huge").err().unwrap().contains("hugetlbfs, sysctl"));
    }
}
