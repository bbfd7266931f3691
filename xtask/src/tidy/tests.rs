//! Every rule can fail: one tree that passes, and for each rule changes that it alone must find.

use super::tree::{Dependency, File, Package};
use super::*;

mod layers;

const TABLE: &str = "\
# Architecture

## Layers

| Layer | Knows | May import |
|---|---|---|
| `bin` | everything | all |
| `crates/base` | no chain | – |
| `crates/solana` | a chain | `crates/base` |
| `crates/ethereum` | another chain | `crates/base` |
| `crates/lab` | nodes from outside | `crates/base`, `crates/solana/wire` |

### Exceptions to the layers

| Crate | Why | Imports |
|---|---|---|
| `load` | it sends as a client | `quic` |

## Who may import whom

| Crate | For | May import |
|---|---|---|
| `ring` | links | – |
| `tile` | tiles | `ring` |
| `wire` | bytes | – |
| `quic` | streams | – |
| `evm` | state | – |
| `load` | load | `quic`, `tile`, `wire` |
| `hearth` | the binary | all |
| `testkit` | tests | – |
| `rpc-client` | questions | – |

## Next
";

const TILE: &str = "\
//! Tile.
//!
//! reads   `a_b`
//! writes  `b_c`
//! memory  16 B
//! drops   nothing

impl Tile for A {}
";

const MANIFEST: &str = "[package]\n\n[lints]\nworkspace = true\n";

fn package(folder: &str, name: &str, dependencies: &[(&str, bool)]) -> Package {
    let dependency = |(name, dev): &(&str, bool)| Dependency { name: (*name).into(), dev: *dev };
    Package {
        name: name.into(),
        folder: folder.into(),
        license: "Apache-2.0".into(),
        features: vec!["default".into()],
        dependencies: dependencies.iter().map(dependency).collect(),
    }
}

fn packages() -> Vec<Package> {
    vec![
        package("crates/base/ring", "hearth-ring", &[("libc", false), ("hearth-testkit", true)]),
        package("crates/base/tile", "hearth-tile", &[("hearth-ring", false)]),
        package("crates/solana/wire", "hearth-wire", &[("tokio", true)]),
        package("crates/solana/quic", "hearth-quic", &[]),
        package("crates/ethereum/evm", "hearth-evm", &[("hearth-testkit", true), ("hearth-rpc-client", true)]),
        package(
            "crates/lab/load",
            "hearth-load",
            &[("hearth-tile", false), ("hearth-wire", false), ("hearth-quic", false)],
        ),
        package("bin/hearth", "hearth", &[("hearth-tile", false), ("hearth-wire", false)]),
        package("crates/base/testkit", "hearth-testkit", &[]),
        package("crates/base/rpc-client", "hearth-rpc-client", &[]),
    ]
}

/// A tree that keeps every rule, some of them narrowly.
fn good() -> Tree {
    let packages = packages();
    let mut files = vec![
        File::new("ARCHITECTURE.md", TABLE),
        File::new("LICENSE", "Apache License\nVersion 2.0\n"),
        File::new(
            "docs/page.md",
            "# Here\n\nSee [the table](../ARCHITECTURE.md), [docs](.), [this](#here), [Rust](https://rust-lang.org/a).",
        ),
        File::new("docs/SUMMARY.md", "- [A page](page.md)\n"),
        File::new("notes/old.md", &"Whoever was told begins anew.\n".repeat(90)),
        File::new(
            "crates/ethereum/evm/src/short.rs",
            &format!("//! Short.\n{}", "/// A number.\nconst A: u8 = 0;\n".repeat(60)),
        ),
        File::new("bin/hearth/src/cli.rs", "//! Cli.\nuse clap::Args;\n/// The options.\n#[derive(Args)]\nstruct A;\n"),
        File::new(
            "crates/base/ring/src/lib.rs",
            "//! Ring.\nfn f() {\n    // SAFETY: nothing is read.\n    unsafe {}\n}\n",
        ),
        File::new("crates/base/tile/src/sys/mod.rs", "//! Sys.\n// SAFETY: as above.\nunsafe impl Send for A {}\n"),
        File::new("crates/base/tile/src/sys/cpu.rs", "//! Cpu.\nuse super::super::core::Core;\n"),
        File::new("crates/base/tile/src/core.rs", "//! Core.\n"),
        File::new("crates/base/tile/src/rig.rs", "//! Rig.\nuse crate::{core::Core, sys};\n"),
        File::new(
            "crates/solana/wire/src/lib.rs",
            "//! Wire: unsafe is a word here, accounted for nowhere, {root}/mnt/ is a part.\nconst A: &str = \"unsafe\";\n",
        ),
        File::new(
            "crates/solana/wire/tests/a.rs",
            "/// It sleeps.\nfn f() { waker.sleep(1); }\nfn g() { let a = b.recv_timeout(c(TIME)).unwrap(); }\n",
        ),
        File::new("crates/solana/pipeline/src/dedup/mod.rs", TILE),
        File::new(
            "crates/solana/pipeline/src/dedup/cache.rs",
            "//! Cache.\n//!\n//! memory  8 B\nstruct A<'a> {\n    a: &'a Vec<u8>,\n}\nfn f(a: Vec<u8>) {}\n",
        ),
        File::new("crates/solana/pipeline/src/links/gaps.rs", "//! Gaps.\nstruct A(Vec<u8>);\n"),
        File::new("crates/solana/pipeline/src/dedup/tests.rs", "//! Tests.\n"),
        File::new("crates/solana/pipeline/src/links.rs", "//! Links.\n"),
        File::new("crates/solana/pipeline/src/net/mod.rs", &format!("{TILE}use std::net::UdpSocket;\n")),
        File::new(
            "crates/solana/quic/src/lib.rs",
            "//! Quic: `Instant::now` is the host's.\n#[cfg(test)]\nmod tests {\n    /// It runs.\n    fn f() { Instant::now(); }\n}\n",
        ),
        File::new(
            "crates/solana/quic/src/map.rs",
            "//! Map.\nfn f(a: &mut HashMap<u8, u8>) {\n    a.retain(g);\n    a.get(&1);\n    for b in a.get(&2) {}\n}\n",
        ),
        File::new("crates/solana/pipeline/src/replay/pool.rs", "//! Pool.\nfn f() { std::thread::scope(g); }\n"),
        File::new("crates/solana/netsim/src/lib.rs", "//! Host.\nfn f() { std::thread::scope(g); }\n"),
        File::new(
            "bin/hearth/src/main.rs",
            "//! Hearth.\nfn poll() {\n    std::thread::sleep(TURN);\n    let _ = a.recv_timeout(TURN);\n}\n",
        ),
        File::new("crates/base/ring/src/unix_time.rs", "//! Time.\nfn f() { SystemTime::now(); }\n"),
        File::new("crates/solana/svm/src/engine.rs", "//! Engine.\nuse std::sync::{Arc, RwLock};\n"),
        File::new(
            "crates/ethereum/evm/src/lib.rs",
            "//! Evm.\nuse parking_lot::Mutex;\nuse std::sync::Arc;\nuse tokio::sync::RwLock;\n",
        ),
    ];
    files.extend(packages.iter().map(|package| File::new(&package.manifest(), MANIFEST)));
    Tree { files, packages }
}

/// The good tree with one file put in or replaced.
fn with(path: &str, text: &str) -> Tree {
    let mut tree = good();
    tree.files.retain(|file| file.path != path);
    tree.files.push(File::new(path, text));
    tree
}

/// The good tree with one package changed.
fn with_package(name: &str, change: impl FnOnce(&mut Package)) -> Tree {
    let mut tree = good();
    change(tree.packages.iter_mut().find(|package| package.name == name).unwrap());
    tree
}

fn depends(name: &str, on: &str, dev: bool) -> Tree {
    with_package(name, |package| package.dependencies.push(Dependency { name: on.into(), dev }))
}

fn without(paths: &[&str]) -> Tree {
    let mut tree = good();
    tree.files.retain(|file| !paths.contains(&file.path.as_str()));
    tree
}

fn incomplete_headers() -> Vec<Tree> {
    let tile = |text: &str| with("crates/solana/pipeline/src/dedup/tile.rs", text);
    vec![
        tile("//! Dedup.\nimpl Tile for Dedup {}\n"),
        tile(&TILE.replace("drops", "drop")),
        tile(&TILE.replace("drops", "drop").replace("impl Tile", "impl<const N: usize> Tile")),
        tile(&TILE.replacen("//!\n", "\n", 1)),
        with("crates/solana/pipeline/src/dedup/cache.rs", "//! Cache.\n//!\n//! source  –\n"),
        with("crates/solana/pipeline/src/dedup/cache.rs", "//! Cache.\n//!\n//! memory  8 B\nstruct A(u8, Vec<u8>);\n"),
        with("crates/solana/pipeline/src/dedup/cache.rs", "//! Cache.\nstruct A {\n    a: [VecDeque<u8>; 2],\n}\n"),
        with("crates/solana/wire/src/a.rs", "//! A.\n//!\n//! memory\n"),
    ]
}

fn calls_past_the_host() -> Vec<Tree> {
    vec![
        with("crates/solana/quic/src/a.rs", "//! A.\nfn f() { Instant::now(); }\n"),
        with("crates/solana/gossip/src/a.rs", "//! A.\nuse std::fs;\n"),
        with("crates/solana/pipeline/src/dedup/mod.rs", &format!("{TILE}fn f() -> File {{ File::open(PATH) }}\n")),
        with("crates/solana/pipeline/src/net/mod.rs", &format!("{TILE}fn f() {{ getrandom(); }}\n")),
        with("crates/solana/wire/src/a.rs", "//! A.\nfn f() { std::thread::spawn(g); }\n"),
        with("crates/solana/gossip/src/board.rs", "//! A.\nfn f(a: Instant) { a.elapsed(); }\n"),
        with("crates/base/crypto/src/a.rs", "//! A.\nfn f() { RandomState::new(); }\n"),
        with("crates/solana/pipeline/src/replay/pool.rs", "//! A.\nfn f() { File::create(PATH); }\n"),
        with("crates/solana/pipeline/src/dedup/a.rs", "//! A.\nuse hearth_tile::sys::udp;\n"),
    ]
}

fn circles() -> Vec<Tree> {
    vec![with("crates/base/tile/src/core.rs", "//! Core.\nuse crate::sys;\n")]
}

fn loops_without_order() -> Vec<Tree> {
    let map = |body: &str| with("crates/solana/quic/src/map.rs", &format!("//! A.\n{body}"));
    vec![
        map("fn f(a: &HashMap<u8, u8>) {\n    a.iter();\n}\n"),
        map("fn f() {\n    let mut b = std::collections::HashSet::new();\n    b\n        .drain();\n}\n"),
        map("struct A {\n    b: HashSet<u8>,\n}\nfn f(a: A) {\n    for c in &a.b {}\n}\n"),
        map("fn f(a: &mut HashMap<u8, u8>) {\n    for b in a {}\n}\n"),
        // It has nothing to except.
        with("crates/solana/quic/src/stake.rs", "//! A.\n"),
    ]
}

fn sleeps_in_tests() -> Vec<Tree> {
    let test = |text: &str| with("crates/solana/wire/tests/b/c.rs", text);
    vec![
        test("fn f() { std::thread::sleep(TIME); }\n"),
        with("crates/solana/wire/src/a.rs", "//! A.\n#[cfg(test)]\nmod tests {\n    fn f() { sleep(TIME); }\n}\n"),
        test("fn f() { std::thread::park_timeout(TIME); }\n"),
        test("fn f() {\n    let _ = a.recv_timeout(TIME);\n}\n"),
        test("fn f() { assert!(a.recv_timeout(g(TIME)).is_err()); }\n"),
    ]
}

/// A rule's name, and trees that it must find fault with.
fn broken() -> Vec<(&'static str, Vec<Tree>)> {
    let source = |text: &str| with("crates/solana/wire/src/a.rs", text);
    vec![
        (
            "imports",
            vec![
                depends("hearth-ring", "hearth-tile", false),
                depends("hearth-wire", "hearth-ring", true),
                depends("hearth", "hearth-testkit", false),
                depends("hearth-wire", "hearth-rpc-client", false),
                with("ARCHITECTURE.md", &TABLE.replace("| `wire` | bytes | – |\n", "")),
                with("ARCHITECTURE.md", &TABLE.replace("`ring` |\n", "`ring`, `gone` |\n")),
                without(&["ARCHITECTURE.md", "docs/page.md", "docs/SUMMARY.md"]),
            ],
        ),
        ("layers", layers::broken()),
        ("circles", circles()),
        ("outside-crates", vec![depends("hearth-wire", "tokio", false), depends("hearth", "libc", false)]),
        ("features", vec![with_package("hearth", |package| package.features.extend(('a'..='f').map(String::from)))]),
        ("license", vec![with_package("hearth", |package| package.license.clear()), without(&["LICENSE"])]),
        (
            "lints",
            vec![with("crates/solana/wire/Cargo.toml", "[package]\n"), without(&["crates/base/ring/Cargo.toml"])],
        ),
        (
            "unsafe",
            vec![
                source("//! A.\n// SAFETY: none.\nunsafe fn f() {}\n"),
                source("//! A.\n#![allow(unsafe_code)]\n"),
                with("crates/base/tile/src/system.rs", "//! A.\nunsafe fn f() {}\n"),
                with("crates/solana/wire/tests/b/c.rs", "unsafe fn f() {}\n"),
            ],
        ),
        (
            "safety-comment",
            vec![
                with("crates/base/ring/src/a.rs", "//! A.\nfn f() {\n    unsafe { g() }\n}\n"),
                with("crates/base/crypto/src/a.rs", "//! A.\nunsafe impl Send for A {}\n"),
            ],
        ),
        ("module-doc", vec![source("fn f() {}\n"), with("xtask/src/a.rs", "// A.\n"), source("")]),
        ("header-fields", incomplete_headers()),
        ("file-size", vec![source(&format!("//! A.\n{}", "const A: u8 = 0;\n".repeat(900)))]),
        ("line-width", vec![source(&format!("//! A.\nfn {}() {{}}\n", "f".repeat(120)))]),
        (
            "ignored-test",
            vec![
                source("//! A.\n#[ignore = \"slow\"]\nfn f() {}\n"),
                source("//! A.\n/// ```ignore\n/// f()\n/// ```\nfn f() {}\n"),
            ],
        ),
        ("sleep-in-test", sleeps_in_tests()),
        ("test-programs", second_programs()),
        ("function-size", vec![source(&format!("//! A.\nfn f() {{\n{}}}\n", "    g();\n".repeat(70)))]),
        ("host", calls_past_the_host()),
        ("map-order", loops_without_order()),
        ("clock", second_clocks()),
        ("locks", locks_of_std()),
    ]
    .into_iter()
    .chain(broken_text())
    .collect()
}

fn second_clocks() -> Vec<Tree> {
    vec![
        with("crates/ethereum/evm/src/a.rs", "//! A.\nfn f() { std::time::SystemTime::now(); }\n"),
        with("xtask/src/a.rs", "//! A.\nfn f() { SystemTime::UNIX_EPOCH.elapsed(); }\n"),
    ]
}

fn locks_of_std() -> Vec<Tree> {
    vec![
        with("crates/ethereum/evm/src/a.rs", "//! A.\nuse std::sync::{Arc, RwLock};\n"),
        with("crates/ethereum/evm/tests/a.rs", "use std::{fs, sync::Mutex as Lock};\n"),
        with("xtask/src/a.rs", "//! A.\nfn f() { std::sync::Condvar::new(); }\n"),
        // It has nothing to except.
        with("crates/solana/svm/src/engine.rs", "//! A.\nuse parking_lot::Mutex;\n"),
    ]
}

/// A crate with a second program of tests.
fn second_programs() -> Vec<Tree> {
    ["b.rs", "b/main.rs"].map(|name| with(&format!("crates/solana/wire/tests/{name}"), "fn f() {}\n")).into()
}

/// The same for the rules on text.
fn broken_text() -> Vec<(&'static str, Vec<Tree>)> {
    let source = |text: &str| with("crates/solana/wire/src/a.rs", text);
    vec![
        (
            "words",
            vec![
                source("//! A.\nfn f() { todo!() }\n"),
                source("//! A: XXX.\n"),
                with("notes/a.md", "Good enough For Now.\n"),
                with("tests/a.mjs", "// A dummy.\n"),
            ],
        ),
        ("paths", vec![source("//! A.\nconst A: &str = \"/home/me\";\n"), with("notes/a.md", "Look in /mnt/data.\n")]),
        (
            "dialect",
            vec![
                with("notes/a.md", "As I was Told.\n"),
                source("//! A.\n// It begins anew.\n"),
                with("notes/a.md", "It said \u{ab}no\u{bb}.\n"),
                source("//! A.\nconst A: &str = \"\u{ab}\";\n"),
            ],
        ),
        (
            "short-docs",
            vec![
                source("//! A.\n/// It returns B.\nfn f() {}\n"),
                source("//! A.\nstruct A {\n    /// Bytes.\n    a: u8,\n}\n"),
                with("xtask/src/a.rs", "//! A.\n///\nfn f() {}\n"),
            ],
        ),
        (
            "links",
            vec![
                with("docs/page.md", "See [that](gone.md).\n"),
                with("docs/page.md", "[a](page.md) [b](../page.md)\n"),
                with("docs/page.md", "# A\n\n[a](#a) [b](page.md#b)\n"),
            ],
        ),
        ("book", vec![with("docs/b.md", "B.\n"), with("docs/SUMMARY.md", "[a](page.md) [b](page.md)\n")]),
    ]
}

#[test]
fn a_good_tree_passes() {
    assert_eq!(check(&good()), []);
}

#[test]
fn every_rule_finds_what_breaks_it_and_no_other_rule_does() {
    for (rule, trees) in broken() {
        for (index, tree) in trees.iter().enumerate() {
            let findings = check(tree);
            assert!(!findings.is_empty(), "{rule}, tree {index}: nothing found");
            assert!(findings.iter().all(|finding| finding.rule == rule), "{rule}, tree {index}: {findings:?}");
        }
    }
}

#[test]
fn no_rule_is_without_a_tree_that_breaks_it() {
    let rules: Vec<_> = RULES.iter().map(|(rule, _)| *rule).collect();
    let broken: Vec<_> = broken().iter().map(|(rule, _)| *rule).collect();
    assert_eq!(rules, broken);
}

#[test]
fn a_finding_names_its_line() {
    let findings = check(&with("notes/a.md", "One.\n\nA placeholder.\n"));
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.path.as_str(), finding.line), ("notes/a.md", 3));
}

#[test]
fn short_docs_are_counted_by_file() {
    let text = "//! A.\n/// One.\nfn f() {}\n/// Two.\n///\n/// Three.\nfn g() {}\n/// It is long enough.\nfn h() {}\n";
    let findings = check(&with("xtask/src/a.rs", text));
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.rule, finding.path.as_str(), finding.line), ("short-docs", ".", 0));
    assert!(finding.what.starts_with("61 doc comments"), "{}", finding.what);
    assert!(finding.what.ends_with(": crates/ethereum/evm/src/short.rs 60, xtask/src/a.rs 1"), "{}", finding.what);
}
