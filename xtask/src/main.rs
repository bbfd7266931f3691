//! xtask: the repository's chores, run as `cargo xtask <command>`.
//!
//! reads   the command line, the working tree
//! writes  standard output; the pages under `docs/` that are generated
//! memory  the text of the working tree

mod agave;
mod clients;
mod cometbft;
mod debian;
mod dependencies;
mod dist;
mod fuzz;
mod generated;
mod node;
mod official;
mod prometheus;
mod redis;
mod rpc;
mod run;
mod soak;
mod test;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
Chores of the repository.

  cargo xtask test [--only WORD]   Pass every test: tidy, cargo test, loom, Miri, documentation, end to end;
                                   or only the steps whose names hold a word. `--list` names the steps, and runs none.
  cargo xtask tidy                 Check the rules of the house: imports, unsafe, sizes, words.
  cargo xtask gen [--check]        Write the pages that the binary knows best; or check that they are up to date.
  cargo xtask dist                 Pack the program, its man pages, completions and bill of materials for installation.
  cargo xtask oracle agave         Build Agave's programs, beside which the test command then runs our nodes.
  cargo xtask soak list            The long runs, by hand.
  cargo xtask without-lab          Check that the node compiles without the lab, as the test command does.

Build outputs go to $CARGO_TARGET_DIR, by default ${XDG_CACHE_HOME:-~/.cache}/hearth/target.
`gen`, `dist` and `soak` take `--binary FILE` to use a hearth that is built already.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.split_first() {
        Some((&"test", rest)) => test::run(rest),
        Some((&"tidy", [])) => tidy::run(),
        Some((&"gen", rest)) => generated::run(rest),
        Some((&"dist", rest)) => dist::run(rest),
        Some((&"oracle", rest)) => agave::build(rest),
        Some((&"soak", rest)) => soak::run(rest),
        Some((&"without-lab", [])) => dependencies::compile_without_lab(),
        Some((&("help" | "--help" | "-h"), _)) => {
            print!("{HELP}");
            Ok(())
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
