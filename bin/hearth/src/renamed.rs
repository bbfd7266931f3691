//! Options whose names have changed: the old name still works, and a notice says the new one.

use std::ffi::OsString;

use clap::ArgMatches;
use hearth_command::output::note;

/// Commands, an option's old name there, and its name now. The commands declare the old name as a hidden alias.
const RENAMED: &[(&[&str], &str, &str)] = &[
    (&["evm run"], "port", "rpc-port"),
    (&["evm run"], "host", "bind-address"),
    (&["bench", "profile bench"], "target", "url"),
    (&["load fund", "load run", "load profile", "load info", "load block", "load tx", "load etl"], "network", "url"),
    (&["wallet balance", "wallet send", "wallet issue", "wallet prism"], "rpc", "url"),
    (&["load run"], "max-parallelism", "threads"),
    (&["load run", "load etl"], "comet", "comet-rpc"),
    (&["profile", "load profile"], "output", "flame"),
    (&["profile bench"], "output", "html"),
    (&["profile", "load profile"], "seconds", "duration"),
    (&["cluster simulate"], "tps", "rate"),
    (&["evm testnet"], "dir", "folder"),
    (&["tune build", "tune layout"], "out", "folder"),
];

/// Prints a notice for each option that is given by its old name.
pub fn note_old_names(matches: &ArgMatches, words: impl Iterator<Item = OsString>) {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    for (old, new) in old_names(&path(matches), &words) {
        note(format_args!("notice: --{old} is --{new} now; the old name will go"));
    }
}

/// Returns the names of the command and its subcommands, as `evm run`.
fn path(matches: &ArgMatches) -> String {
    let mut names = vec![];
    let mut matches = matches;
    while let Some((name, below)) = matches.subcommand() {
        names.push(name);
        matches = below;
    }
    names.join(" ")
}

/// Returns the old and the new name of each option among the words that has an old name.
fn old_names(path: &str, words: &[String]) -> Vec<(&'static str, &'static str)> {
    let is_given = |old: &str| {
        let options = words.iter().filter_map(|word| word.strip_prefix("--"));
        let mut names = options.map(|option| option.split_once('=').map_or(option, |(name, _)| name));
        names.any(|name| name == old)
    };
    let given = RENAMED.iter().filter(|(commands, old, _)| commands.contains(&path) && is_given(old));
    given.map(|(_, old, new)| (*old, *new)).collect()
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::*;
    use crate::cli::Cli;

    /// Names that one command gave up while another keeps it for something else.
    const STILL_USED: [&str; 1] = ["out"];

    fn each(command: &Command, see: &mut impl FnMut(&Command)) {
        see(command);
        command.get_subcommands().for_each(|sub| each(sub, see));
    }

    #[test]
    fn old_names_are_hidden_aliases() {
        for (commands, old, new) in RENAMED {
            for path in *commands {
                let program = Cli::command();
                let found = path.split(' ').try_fold(&program, |command, name| command.find_subcommand(name));
                let Some(command) = found else {
                    assert!(!cfg!(feature = "lab"), "there is no command `{path}`");
                    continue;
                };
                let option = command.get_arguments().find(|argument| argument.get_long() == Some(*new));
                let option = option.unwrap_or_else(|| panic!("`{path}` has no --{new}"));
                assert!(option.get_all_aliases().unwrap_or_default().contains(old), "`{path}` refuses --{old}");
                assert!(option.get_visible_aliases().unwrap_or_default().is_empty(), "`{path}` shows --{old}");
            }
        }
    }

    #[test]
    fn no_command_keeps_an_old_spelling() {
        each(&Cli::command(), &mut |command| {
            for name in command.get_arguments().filter_map(|argument| argument.get_long()) {
                let is_old = RENAMED.iter().any(|(_, old, _)| *old == name) && !STILL_USED.contains(&name);
                assert!(!is_old, "`{}` spells --{name} otherwise than its siblings", command.get_name());
            }
        });
    }

    #[test]
    fn json_takes_a_file_or_none_everywhere() {
        each(&Cli::command(), &mut |command| {
            for json in command.get_arguments().filter(|argument| argument.get_long() == Some("json")) {
                let values = json.get_num_args().map(|range| (range.min_values(), range.max_values()));
                assert_eq!(values, Some((0, 1)), "{}", command.get_name());
            }
        });
    }

    #[test]
    fn an_old_name_is_noticed_where_it_was_renamed() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let port = [("port", "rpc-port")];
        assert_eq!(old_names("evm run", &words("hearth evm run --port 1")), port);
        assert_eq!(old_names("evm run", &words("hearth evm run --port=1")), port);
        assert!(old_names("evm run", &words("hearth evm run --rpc-port 1")).is_empty());
        assert!(old_names("evm testnet", &words("hearth evm testnet --port 1")).is_empty());
        let matches = Command::new("hearth").subcommand(Command::new("evm").subcommand(Command::new("run")));
        assert_eq!(path(&matches.get_matches_from(["hearth", "evm", "run"])), "evm run");
    }
}
