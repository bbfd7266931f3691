//! `hearth completions` and `hearth man`: files for shells and for `man`, made from the command line's own definition.
//!
//! writes  a script on standard output; man pages in a folder

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use hearth_command::output::{CommandOutput, WriteError};

/// Name of the program.
const PROGRAM: &str = "hearth";

/// The options of `hearth completions`.
#[derive(Args)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// The options of `hearth man`.
#[derive(Args)]
pub struct Man {
    /// The folder, which is created if it is missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the script that completes the program's commands and options in a shell.
pub fn completions(options: &Completions, program: Command, say: &CommandOutput) {
    say.text(script(options.shell, program));
}

fn script(shell: Shell, mut program: Command) -> String {
    let mut script: Vec<u8> = vec![];
    clap_complete::generate(shell, &mut program, PROGRAM, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes the program's man pages.
pub fn man(options: &Man, program: Command, say: &CommandOutput) -> Result<(), WriteError> {
    let folder = &options.folder;
    let pages = write_pages(folder, program).map_err(|source| WriteError { path: folder.clone(), source })?;
    say.line(format_args!("{pages} pages in {}", folder.display()));
    Ok(())
}

/// Writes all pages to a folder; returns how many it holds then.
fn write_pages(folder: &Path, program: Command) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(program, folder)?;
    Ok(fs::read_dir(folder)?.count())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::cli::{manual, program};

    #[test]
    fn every_shell_completes_subcommands() {
        for shell in Shell::value_variants() {
            let script = script(*shell, program());
            for word in ["cluster", "partition", "completions", "rpc-port"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn every_subcommand_has_a_page_with_its_example() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("man1");
        let count = write_pages(&pages, manual()).unwrap();
        assert!(count > 40, "{count}");
        for (page, example) in [("hearth-evm-run.1", "hearth evm run"), ("hearth-keys-new.1", "hearth keys new")] {
            let text = fs::read_to_string(pages.join(page)).unwrap();
            assert!(text.contains("Example") && text.contains(example), "{text}");
        }
        assert!(pages.join("hearth.1").exists());
        assert_eq!(write_pages(&pages, manual()).unwrap(), count, "pages are replaced");
    }
}
