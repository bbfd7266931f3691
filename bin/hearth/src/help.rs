//! The program's help: a screen of commands by purpose, and an example at the head of each command's own.
//!
//! The short texts are those that the commands have; a test holds the screen to 24 lines of 80 columns.

use clap::Command;

use crate::examples::EXAMPLES;

/// Commands by what a person wants to do, in the order of the screen.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run a node", &["run", "validator", "evm", "cluster"]),
    ("Look at it", &["monitor", "why", "profile", "catchup"]),
    ("Measure, tune", &["bench", "load", "tune"]),
    ("Chains and keys", &["genesis", "ledger", "keys", "wallet"]),
    ("Set up", &["machine", "configure", "config", "completions", "man"]),
];

/// Adds examples to a command's help, at the place that it has for them.
type AddExamples = fn(Command, String) -> Command;

/// Gives the command line its screen, and examples at the head of each help.
pub fn program(program: Command) -> Command {
    let program = examples(program, "", |command, text| command.before_help(text));
    let screen = screen(&program);
    program.override_help(screen)
}

/// Gives the command line examples at the end of each help, where a man page has them.
pub fn manual(program: Command) -> Command {
    examples(program, "", |command, text| command.after_help(text))
}

/// Adds the examples of the command with this path and of all below it.
fn examples(command: Command, path: &str, place: AddExamples) -> Command {
    let command = match EXAMPLES.iter().find(|(of, _)| *of == path) {
        Some((_, lines)) => place(command, text(lines)),
        None => command,
    };
    command.mut_subcommands(|sub| {
        let below = format!("{path} {}", sub.get_name());
        examples(sub, below.trim_start(), place)
    })
}

fn text(lines: &[&str]) -> String {
    let title = if lines.len() == 1 { "Example:" } else { "Examples:" };
    lines.iter().fold(title.to_owned(), |text, line| format!("{text}\n  {line}"))
}

/// Returns the help of the program itself.
fn screen(program: &Command) -> String {
    let about = program.get_about().map(ToString::to_string).unwrap_or_default();
    let mut screen = format!("{about}\nUsage: hearth COMMAND, as in `hearth bench`, which needs no preparation\n\n");
    for (title, names) in GROUPS {
        let commands = names.iter().filter_map(|name| program.find_subcommand(name));
        for (index, command) in commands.enumerate() {
            let title = if index == 0 { title } else { "" };
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            screen += &format!("  {title:<15}  {:<11}  {about}\n", command.get_name());
        }
    }
    screen + "`hearth COMMAND --help` begins with an example. Options: -h, --help, --version\n"
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::cli::{self, Cli};

    /// Calls `see` for each command with its path, the program's own excepted.
    fn each(command: &Command, path: &str, see: &mut impl FnMut(&str, &Command)) {
        for sub in command.get_subcommands() {
            let below = format!("{path} {}", sub.get_name());
            see(below.trim_start(), sub);
            each(sub, below.trim_start(), see);
        }
    }

    #[test]
    fn screen_has_24_lines_of_80_columns() {
        let screen = screen(&Cli::command());
        assert!(screen.lines().count() <= 24, "{screen}");
        for line in screen.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn screen_has_every_command_once() {
        let named: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let times = named.iter().filter(|name| **name == command.get_name()).count();
            assert_eq!(times, 1, "{}", command.get_name());
        }
    }

    #[test]
    fn every_command_has_an_example() {
        each(&cli::program(), "", &mut |path, command| {
            let help = command.clone().render_long_help().to_string();
            assert!(help.starts_with("Example"), "{path} has no example: {help}");
        });
    }

    #[test]
    fn every_example_parses() {
        let mut paths = vec![];
        each(&Cli::command(), "", &mut |path, _| paths.push(path.to_owned()));
        for (path, lines) in EXAMPLES {
            if !paths.iter().any(|known| known == path) {
                assert!(!cfg!(feature = "lab"), "there is no command `{path}`");
                continue;
            }
            for line in *lines {
                assert!(line.starts_with(&format!("hearth {path}")), "{path}: {line}");
                let words = line.split_whitespace().map(|word| word.trim_matches('\''));
                let parsed =
                    cli::program().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
                assert!(parsed.is_ok(), "{line}: {}", parsed.err().map(|why| why.to_string()).unwrap_or_default());
            }
        }
    }
}
