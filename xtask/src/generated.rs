//! `cargo xtask gen`: documentation pages generated from the binary.
//!
//! reads   the output of `hearth config show` and `hearth … --help`; `docs/agave.json`, `docs/hostile.json`
//! writes  `docs/configuration.md`, `docs/counters.md`, `docs/tiles.md`, `docs/commands.md`, `docs/agave-results.md`,
//!         `docs/hostile-results.md`
//! memory  the pages

use std::path::Path;
use std::process::Command;

use crate::run::{self, Args};
use crate::soak;

/// One generated page and how to make it.
struct Page {
    path: &'static str,
    /// Generates the page's text with the binary.
    make: fn(&Path) -> Result<String, String>,
}

const PAGES: [Page; 6] = [
    Page { path: "docs/configuration.md", make: configuration },
    Page { path: "docs/counters.md", make: counters },
    Page { path: "docs/tiles.md", make: tiles },
    Page { path: "docs/commands.md", make: commands },
    Page { path: "docs/agave-results.md", make: agave_results },
    Page { path: "docs/hostile-results.md", make: hostile_results },
];

const GENERATED: &str = "<!-- Written by `cargo xtask gen`. Do not edit: change the code that it documents. -->";

fn configuration(binary: &Path) -> Result<String, String> {
    let file = run::output(Command::new(binary).args(["config", "show", "--default"]))?;
    let file = file.trim_end();
    Ok(format!(
        "{GENERATED}\n\n# Configuration\n\nNo file is needed. One that is given with `--config` may hold any of these \
         keys; what it leaves out has the value\nshown. An unknown key is refused, with the nearest right one. This is \
         the output of `hearth config show --default`.\n\n```toml\n{file}\n```\n"
    ))
}

fn counters(binary: &Path) -> Result<String, String> {
    let page = run::output(Command::new(binary).args(["config", "show", "--counters"]))?;
    Ok(format!("{GENERATED}\n\n{}\n", page.trim()))
}

fn tiles(binary: &Path) -> Result<String, String> {
    let page = run::output(Command::new(binary).args(["config", "show", "--tiles"]))?;
    Ok(format!("{GENERATED}\n\n{}\n", page.trim()))
}

fn commands(binary: &Path) -> Result<String, String> {
    let mut page = format!(
        "{GENERATED}\n\n# Commands\n\nWhat each command prints with `--help`; with `-h` it is shorter. Exit code 0: success; 2: wrong \
         use; 1: anything else,\nunless a command lists its own.\n"
    );
    add_command(binary, &[], &mut page)?;
    Ok(page)
}

/// The results of `cargo xtask soak agave --json docs/agave.json`.
fn agave_results(_: &Path) -> Result<String, String> {
    results("docs/agave.json", soak::agave_page)
}

/// The results of `cargo xtask soak hostile --json docs/hostile.json`.
fn hostile_results(_: &Path) -> Result<String, String> {
    results("docs/hostile.json", soak::hostile_page)
}

/// The page of a soak's file of results.
fn results(file: &str, page: fn(&str) -> Result<String, String>) -> Result<String, String> {
    let path = run::root().join(file);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let page = page(&text).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(format!("{GENERATED}\n\n{}\n", page.trim()))
}

/// A command and those below it, in the order in which its help has them.
fn add_command(binary: &Path, path: &[&str], page: &mut String) -> Result<(), String> {
    let help = run::output(Command::new(binary).args(path).arg("--help"))?;
    let title = ["hearth"].iter().chain(path).copied().collect::<Vec<_>>().join(" ");
    page.push_str(&format!("\n## {title}\n\n```text\n{}\n```\n", trimmed(&help)));
    let below = if path.is_empty() { commands_of_screen(&help) } else { subcommands(&help) };
    for name in below {
        add_command(binary, &[path, &[name]].concat(), page)?;
    }
    Ok(())
}

/// Without spaces at the ends of lines, which the parser of the command line leaves under some options.
fn trimmed(help: &str) -> String {
    help.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The commands that a help lists, but `help`.
fn subcommands(help: &str) -> Vec<&str> {
    let listed = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let lines = listed.lines().take_while(|line| line.starts_with("  "));
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

/// The commands that the program's own help lists: `  GROUP  NAME  WHAT IT DOES`, with no group on some lines.
fn commands_of_screen(help: &str) -> Vec<&str> {
    let lines = help.lines().filter(|line| line.starts_with("  "));
    // From the right, as the group is on the first of its lines alone.
    let names = lines.filter_map(|line| line.rsplit("  ").map(str::trim).filter(|column| !column.is_empty()).nth(1));
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase())).collect()
}

/// `cargo xtask gen [--check] [--binary FILE]`
pub fn run(args: &[&str]) -> Result<(), String> {
    let mut args = Args::new(args);
    let (check, binary) = (args.switch("--check"), args.value("--binary")?);
    args.end()?;
    let binary = run::hearth(binary)?;
    if check { self::check(&binary, &run::root()) } else { write(&binary, &run::root()) }
}

fn pages(binary: &Path) -> Result<Vec<(&'static str, String)>, String> {
    PAGES.iter().map(|page| Ok((page.path, (page.make)(binary)?))).collect()
}

fn write(binary: &Path, root: &Path) -> Result<(), String> {
    for (path, text) in pages(binary)? {
        std::fs::write(root.join(path), text).map_err(|error| format!("cannot write {path}: {error}"))?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Fails if a page differs from what [`run()`] would write.
pub fn check(binary: &Path, root: &Path) -> Result<(), String> {
    for (path, text) in pages(binary)? {
        let found = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        if found != text {
            let line = 1 + found.lines().zip(text.lines()).take_while(|(found, text)| found == text).count();
            return Err(format!("{path} is out of date from line {line} on: run `cargo xtask gen` and commit it"));
        }
        println!("{path} is up to date");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_a_help_are_found() {
        let help = "Does it.\n\nUsage: x\n\nCommands:\n  bench   Measure\n          all of it\n  run     Run\n  help    Print\n\nOptions:\n  -h\n";
        assert_eq!(subcommands(help), ["bench", "run"]);
        assert_eq!(subcommands("Usage: x\n\nOptions:\n  -h\n"), [""; 0]);
        let screen = "Hearth\nUsage: hearth COMMAND\n\n  Run a node   run  Run it\n               evm  Run an EVM\n\n`x` begins\n";
        assert_eq!(commands_of_screen(screen), ["run", "evm"]);
        assert_eq!(trimmed("a  \n\n  b\n\n"), "a\n\n  b");
    }

    #[test]
    fn a_page_is_checked_against_what_the_binary_prints() {
        let folder = run::TempFolder::new("gen").unwrap();
        // Prints its arguments, as the binary prints its pages.
        let binary = Path::new("echo");
        std::fs::create_dir(folder.path().join("docs")).unwrap();

        assert!(check(binary, folder.path()).is_err(), "no pages yet");
        write(binary, folder.path()).unwrap();
        assert_eq!(check(binary, folder.path()), Ok(()));
        let page = folder.path().join("docs/counters.md");
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains("\nconfig show --counters\n"), "{text}");
        std::fs::write(&page, text.replace("--counters\n", "--counter\n")).unwrap();
        assert!(check(binary, folder.path()).unwrap_err().contains("docs/counters.md is out of date from line 3"));
    }
}
