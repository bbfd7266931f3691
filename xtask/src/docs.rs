//! `cargo xtask docs`: the pages that the binary knows best.
//!
//! reads   `hearth config show --default` and `hearth config show --counters`
//! writes  `docs/configuration.md`, `docs/counters.md`
//! memory  the pages

use std::path::Path;
use std::process::Command;

use crate::run::{self, Args};

/// One generated page.
struct Page {
    path: &'static str,
    /// Arguments that make the binary print it.
    args: [&'static str; 3],
    render: fn(&str) -> String,
}

const PAGES: [Page; 2] = [
    Page { path: "docs/configuration.md", args: ["config", "show", "--default"], render: configuration },
    Page { path: "docs/counters.md", args: ["config", "show", "--counters"], render: counters },
];

const GENERATED: &str = "<!-- Written by `cargo xtask docs`. Do not edit: change the code that it documents. -->";

fn configuration(file: &str) -> String {
    let file = file.trim_end();
    format!(
        "{GENERATED}\n\n# Configuration\n\nNo file is needed. One that is given with `--config` may hold any of these \
         keys; what it leaves out has the value\nshown. An unknown key is refused, with the nearest right one. This is \
         the output of `hearth config show --default`.\n\n```toml\n{file}\n```\n"
    )
}

fn counters(page: &str) -> String {
    format!("{GENERATED}\n\n{}\n", page.trim())
}

/// `cargo xtask docs [--check] [--binary FILE]`
pub fn run(args: &[&str]) -> Result<(), String> {
    let mut args = Args::new(args);
    let (check, binary) = (args.switch("--check"), args.value("--binary")?);
    args.end()?;
    let binary = run::hearth(binary)?;
    if check { self::check(&binary, &run::root()) } else { write(&binary, &run::root()) }
}

fn pages(binary: &Path) -> Result<Vec<(&'static str, String)>, String> {
    let page = |page: &Page| Ok((page.path, (page.render)(&run::output(Command::new(binary).args(page.args))?)));
    PAGES.iter().map(page).collect()
}

fn write(binary: &Path, root: &Path) -> Result<(), String> {
    for (path, text) in pages(binary)? {
        std::fs::write(root.join(path), text).map_err(|error| format!("cannot write {path}: {error}"))?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Fails when a page is not what [`run()`] would write.
pub fn check(binary: &Path, root: &Path) -> Result<(), String> {
    for (path, text) in pages(binary)? {
        let found = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        if found != text {
            let line = 1 + found.lines().zip(text.lines()).take_while(|(found, text)| found == text).count();
            return Err(format!("{path} is out of date from line {line} on: run `cargo xtask docs` and commit it"));
        }
        println!("{path} is up to date");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_checked_against_what_the_binary_prints() {
        let folder = run::TempFolder::new("docs").unwrap();
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
