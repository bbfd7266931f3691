//! A sampled stack: the thread, the tile, and the calls.
//!
//! reads   functions and their source files, innermost first, as the sampler resolves them
//! writes  thread, tile, and calls from the outermost in, without the frames that every stack has
//!
//! The binary's line tables contain a function's name with its type parameters and its file, but not its module, which
//! follows from the file. For third-party code the binary has no line tables, only names with their modules. A tile's
//! turn is `turn_at<hearth_pipeline::verify::Verify>` of the run loop. The frames above it are the same for all tiles
//! and left out. Time between the tiles of a core belongs to the loop.

use std::fmt;

/// How the name of the run loop's function for a tile's turn begins.
const TURN: &str = "turn_at<hearth_pipeline::";
/// Source paths of a core's thread and the run loop.
const LOOP: [&str; 2] = ["tile/src/core", "tile/src/runner"];
/// Functions at the bottom of a thread's stack.
const THREAD_STARTS: [&str; 4] = ["clone3", "start_thread", "thread_start", "__rust_begin_short_backtrace"];

/// A function on a sampled stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// Its source file, empty if unknown.
    pub(crate) file: String,
}

/// A sampled stack, shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stack {
    /// The thread's name; the kernel truncates it to 15 bytes.
    pub thread: String,
    /// The kind of tile whose turn it was; `loop` between the tiles of a core.
    pub tile: Option<String>,
    /// Functions from the outermost caller in.
    pub calls: Vec<String>,
}

impl Stack {
    /// Builds a stack from calls, innermost first.
    pub(crate) fn of(thread: &str, calls: impl IntoIterator<Item = Call>) -> Self {
        let mut calls: Vec<Call> = calls.into_iter().collect();
        calls.reverse();
        let begin = match calls.iter().rposition(is_loop) {
            // In the loop's own code, the loop itself is the only frame to show.
            Some(last) => (last + 1).min(calls.len() - 1),
            None => calls.iter().rposition(is_thread_start).map_or(0, |last| last + 1),
        };
        let tile = tile_of(&calls).map(Into::into);
        Self { thread: tidy(thread), tile, calls: calls[begin..].iter().map(Call::in_words).collect() }
    }
}

fn is_loop(call: &Call) -> bool {
    LOOP.iter().any(|file| call.file.contains(file))
}

fn is_thread_start(call: &Call) -> bool {
    THREAD_STARTS.iter().any(|start| call.name.starts_with(start))
}

/// The kind of the tile in whose turn these calls were.
fn tile_of(calls: &[Call]) -> Option<&str> {
    let turn = calls.iter().filter(|call| is_loop(call)).find_map(|call| call.name.strip_prefix(TURN));
    let kind = turn.and_then(|rest| rest.split("::").next());
    kind.or(calls.iter().any(is_loop).then_some("loop"))
}

impl Call {
    /// The name with its module in short form: `verify::end_burst` rather than `pipeline::verify::end_burst`.
    fn in_words(&self) -> String {
        let name = tidy(&without_parameters(&self.name));
        match module_of(&self.file) {
            Some(module) => format!("{module}::{name}"),
            None => name,
        }
    }
}

/// `pipeline::verify` for `…/solana/pipeline/src/verify/mod.rs`; for third-party code the crate without its version. A
/// module with its parent's name appears once.
fn module_of(file: &str) -> Option<String> {
    let (before, inside) = file.rsplit_once("/src/")?;
    let folder = before.rsplit('/').next()?;
    let krate = match folder.rsplit_once('-') {
        Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => name,
        _ => folder,
    };
    let inside = inside.strip_suffix(".rs").unwrap_or(inside);
    let parts = std::iter::once(krate).chain(inside.split('/')).filter(|part| !["mod", "lib", "main"].contains(part));
    let mut parts: Vec<&str> = parts.collect();
    // `tile::tile::turn` says no more than `tile::turn`.
    parts.dedup();
    Some(tidy(&parts.join("::")))
}

/// `fold` for `fold<core::ops::range::Range<u64>, u64>`, and `sbpf::Vm::run` for `sbpf::Vm<C>::run`; a name that begins
/// with a parameter stays.
fn without_parameters(name: &str) -> String {
    if name.starts_with('<') {
        return name.into();
    }
    let (mut depth, mut before, mut kept) = (0_usize, ' ', String::with_capacity(name.len()));
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            // The `>` of an arrow does not close parameters.
            '>' if before != '-' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
        before = letter;
    }
    kept.replace("::::", "::").trim_end_matches("::").into()
}

/// Replaces characters with a meaning in folded lines.
fn tidy(name: &str) -> String {
    name.replace(';', ",").replace(['\n', '\r'], " ")
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.thread)?;
        let calls = self.calls.iter();
        self.tile.iter().chain(calls).try_for_each(|part| write!(f, ";{part}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BELOW: [(&str, &str); 5] = [
        ("clone3", ""),
        ("thread_start", "/rustc/59807616e1/library/std/src/sys/thread/unix.rs"),
        ("__rust_begin_short_backtrace<{closure#0}, ()>", "/rustc/59807616e1/library/std/src/sys/backtrace.rs"),
        ("turns", "crates/base/tile/src/core.rs"),
        ("one_pass", "crates/base/tile/src/core.rs"),
    ];
    const TURN: (&str, &str) = ("turn_at<hearth_pipeline::verify::Verify>", "crates/base/tile/src/runner.rs");

    /// Builds a stack from calls, outermost first.
    fn stack(calls: &[&[(&str, &str)]]) -> Stack {
        let calls = calls.concat();
        let calls = calls.iter().rev().map(|(name, file)| Call { name: (*name).into(), file: (*file).into() });
        Stack::of("core 0", calls)
    }

    #[test]
    fn a_tiles_calls_begin_where_its_turn_does() {
        let own = [
            TURN,
            ("end_burst", "crates/base/tile/src/runner.rs"),
            ("end_burst", "crates/solana/pipeline/src/verify/mod.rs"),
            ("verify_burst<8>", "crates/base/crypto/src/ed25519/burst.rs"),
        ];
        let found = stack(&[&BELOW, &own]);
        assert_eq!(found.tile.as_deref(), Some("verify"));
        assert_eq!(found.to_string(), "core 0;verify;pipeline::verify::end_burst;crypto::ed25519::burst::verify_burst");
    }

    #[test]
    fn loop_time_is_reported_by_tile_or_core() {
        assert_eq!(stack(&[&BELOW]).to_string(), "core 0;loop;tile::core::one_pass");
        let reads = ("read_frags<hearth_pipeline::verify::Verify>", "crates/base/tile/src/runner.rs");
        assert_eq!(stack(&[&BELOW, &[TURN, reads]]).to_string(), "core 0;verify;tile::runner::read_frags");
    }

    #[test]
    fn other_threads_begin_after_their_start() {
        let polls = ("poll<a::B>", "/x/registry/src/index.crates.io-1949/hyper-util-0.1.20/src/rt/tokio.rs");
        let found = stack(&[&BELOW[..3], &[polls]]);
        assert_eq!((found.tile.as_deref(), found.to_string().as_str()), (None, "core 0;hyper-util::rt::tokio::poll"));
        assert_eq!(Stack::of("idle; x", []).to_string(), "idle, x");
    }

    #[test]
    fn names_are_short_and_keep_lines_whole() {
        assert_eq!(without_parameters("{closure#0}<u8>"), "{closure#0}");
        assert_eq!(without_parameters("<T as U>::f"), "<T as U>::f");
        // Names as in the symbol table.
        assert_eq!(without_parameters("sbpf::Vm<fn(u8) -> C>::run"), "sbpf::Vm::run");
        assert_eq!(without_parameters("sort::<u8>::{closure#0}"), "sort::{closure#0}");
        assert_eq!(tidy("f::[u8; 4]"), "f::[u8, 4]");
        assert_eq!(module_of("/rustc/5/library/core/src/ops/function.rs").as_deref(), Some("core::ops::function"));
        assert_eq!(module_of("crates/solana/ledger/src/lib.rs").as_deref(), Some("ledger"));
        assert_eq!(module_of("crates/base/tile/src/tile.rs").as_deref(), Some("tile"));
        assert_eq!(module_of("/x/registry/src/y/rand-0.9.1/src/rng/rng.rs").as_deref(), Some("rand::rng"));
        assert_eq!(module_of("x.c"), None);
    }
}
