//! Unmodified clients of Solana and of Ethereum, at their released versions, against a node of ours.
//!
//! reads   `tests/clients/`; npm and PyPI, until their packages are installed
//! writes  `node_modules` next to the scripts; a Python environment among the build outputs; a node in a temporary
//!         folder

use std::path::{Path, PathBuf};
use std::process::Command;

use sbpf_assembler::{Assembler, AssemblerOption, SbpfArch};

use crate::node::{self, Node};
use crate::run::{self, TempFolder, cargo, target_dir};

/// The scripts for Node.js, in the order in which they run.
const NPM: [&str; 5] = ["web3js.mjs", "kit.mjs", "tokens.mjs", "programs.mjs", "tables.mjs"];

fn folder() -> PathBuf {
    run::root().join("tests/clients")
}

/// Names that a browser may have: `CHROMIUM` names another.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The scripts for Ethereum's clients, in the order they run. Developer methods change the chain in ways that no other
/// implementation can replay, so verification comes before them.
const ETHEREUM: [&str; 5] = ["ethers.mjs", "web3js.mjs", "verify.mjs", "viem.mjs", "schemas.mjs"];
/// The first keys derived from the well-known development mnemonic.
const KEYS: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80,\
                    0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d,\
                    0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a";

/// Ethereum's clients from npm: ethers, web3.js, viem; ethereumjs, which executes every block again; and the published
/// schemas, to which every answer is held.
pub fn ethereum_npm(binary: &Path) -> Result<(), String> {
    let scripts = installed("ethereum")?;
    with_evm("ethereum-npm", binary, &[], |_, url| {
        ETHEREUM.iter().try_for_each(|script| {
            let mut client = Command::new("node");
            run::run(client.arg(script).current_dir(&scripts).env("RPC_URL", url).env("KEYS", KEYS))
        })
    })?;
    with_evm("ethereum-older", binary, &["--hardfork", "paris"], |_, url| {
        let mut client = Command::new("node");
        run::run(client.arg("older.mjs").current_dir(&scripts).env("RPC_URL", url).env("KEYS", KEYS))
    })
}

/// Ethereum's client from PyPI: web3.py.
pub fn ethereum_python(binary: &Path) -> Result<(), String> {
    let scripts = installed("ethereum")?;
    let python = python_with("clients-python-ethereum", &scripts)?;
    with_evm("ethereum-python", binary, &[], |folder, url| {
        let contracts = folder.join("contracts.json");
        let with_all = |command: &mut Command| {
            command.current_dir(&scripts).env("RPC_URL", url).env("KEYS", KEYS).env("CONTRACTS", &contracts);
            run::run(command)
        };
        with_all(Command::new("node").arg("contracts.mjs"))?;
        with_all(Command::new(&python).arg("client.py"))
    })
}

/// The suites for a node that calls itself Hardhat's, in the order they run: errors of failed transactions, Hardhat's
/// sample project with Ignition, OpenZeppelin's upgrades, each network helper.
const HARDHAT_NAMED: [&str; 4] = ["named/failures.cjs", "named/lock.cjs", "named/upgrades.cjs", "named/helpers.cjs"];

/// Runs Ethereum developer tools from npm: Foundry's cast and forge, viem's test actions in both modes, and Hardhat,
/// whose network helpers refuse a node with an unknown client name.
pub fn ethereum_tools(binary: &Path) -> Result<(), String> {
    let (contracts_of, tools) = (installed("ethereum")?, installed("tools")?);
    let name = ["--client-version", "anvil/hearth"];
    with_evm("ethereum-tools", binary, &name, |folder, url| {
        let contracts = folder.join("contracts.json");
        let with_all = |command: &mut Command, scripts: &Path| {
            command.current_dir(scripts).env("RPC_URL", url).env("KEYS", KEYS).env("CONTRACTS", &contracts);
            run::run(command)
        };
        with_all(Command::new("node").arg("contracts.mjs"), &contracts_of)?;
        with_all(Command::new("node").arg("interval.mjs"), &contracts_of)?;
        with_all(Command::new("node").arg("actions.mjs").env("MODE", "anvil"), &contracts_of)?;
        with_all(Command::new("node").arg("cast.mjs"), &tools)?;
        with_all(Command::new("node").arg("forge.mjs"), &tools)?;
        with_all(&mut hardhat_test(&[]), &tools)
    })?;
    // Where the node calls itself Hardhat's, a failure is an error.
    with_evm("hardhat-named", binary, &["--client-version", "HardhatNetwork/hearth"], |_, url| {
        let mut actions = Command::new("node");
        actions.arg("actions.mjs").current_dir(&contracts_of).env("RPC_URL", url).env("KEYS", KEYS);
        run::run(actions.env("MODE", "hardhat"))?;
        run::run(hardhat_test(&HARDHAT_NAMED).current_dir(&tools).env("RPC_URL", url))?;
        // Hardhat's own network forks the chain.
        let fork = ["--network", "hardhat", "named/fork.cjs"];
        run::run(hardhat_test(&fork).current_dir(&tools).env("RPC_URL", url).env("FORK_URL", url))
    })
}

fn hardhat_test(files: &[&str]) -> Command {
    let mut hardhat = Command::new("node");
    hardhat.args(["node_modules/.bin/hardhat", "test"]).args(files);
    hardhat.env("CI", "1").env("HARDHAT_DISABLE_TELEMETRY_PROMPT", "true");
    hardhat
}

/// Loads on nodes of others from npm: anvil, and Hardhat's.
pub fn loads(binary: &Path) -> Result<(), String> {
    let (tools, scratch) = (installed("tools")?, TempFolder::new("loads")?);
    let mut script = Command::new("node");
    script.arg("load.mjs").current_dir(tools).env("HEARTH", binary).env("FOLDER", scratch.path());
    // Hardhat's configuration names a node, which is not used here.
    run::run(script.env("RPC_URL", "http://127.0.0.1:1").env("HARDHAT_DISABLE_TELEMETRY_PROMPT", "true"))
}

/// The clients from npm: web3.js, kit, SPL Token, Anchor.
pub fn npm(binary: &Path) -> Result<(), String> {
    let scripts = installed("npm")?;
    with_node("npm", binary, |folder, url| {
        let (program, by_ten) = (folder.join("counter.so"), folder.join("counter-by-ten.so"));
        assemble("counter.s", &program, |source| source)?;
        assemble("counter.s", &by_ten, |source| source.replace("add64 r4, 1\n", "add64 r4, 10\n"))?;
        NPM.iter().try_for_each(|script| {
            let mut client = Command::new("node");
            client.arg(script).current_dir(&scripts).env("RPC_URL", url);
            client.env("PROGRAM", &program).env("PROGRAM_BY_TEN", &by_ten);
            run::run(&mut client)
        })
    })
}

/// A folder of scripts for Node.js, with the packages that they need.
fn installed(name: &str) -> Result<PathBuf, String> {
    let scripts = folder().join(name);
    if !run::answers(Command::new("npm").arg("--version")) || !run::answers(Command::new("node").arg("--version")) {
        return Err("node and npm are needed: `apt-get install nodejs npm`, or see https://nodejs.org".into());
    }
    // Skips the packages' install scripts: they build optional parts that none of these needs.
    let install = ["ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
    run::run(Command::new("npm").args(install).current_dir(&scripts))?;
    Ok(scripts)
}

/// Opens the dashboard in a headless browser. The script stops and restarts the node itself, so it gets the command to
/// do that; its screenshots are kept.
pub fn browser(binary: &Path) -> Result<(), String> {
    let (scripts, browser) = (installed("npm")?, a_browser()?);
    let pictures = target_dir().join("dashboard");
    let folder = TempFolder::new("browser")?;
    let port = node::free_ports()?;
    let node = Node::start(binary, folder.path(), port)?;
    let mut script = Command::new("node");
    script.arg("dashboard.mjs").current_dir(&scripts).env("RPC_URL", format!("http://127.0.0.1:{port}"));
    script
        .env("BROWSER", &browser)
        .env("HEARTH", binary)
        .env("HEARTH_FOLDER", folder.path())
        .env("PICTURES", &pictures);
    run::run(&mut script).map_err(|why| node.explain(&format!("{why} (pictures in {})", pictures.display())))
}

/// The same before an EVM chain.
pub fn browser_ethereum(binary: &Path) -> Result<(), String> {
    let (scripts, browser) = (installed("npm")?, a_browser()?);
    let pictures = target_dir().join("dashboard");
    with_evm("browser-ethereum", binary, &[], |_, url| {
        let mut script = Command::new("node");
        script.arg("dashboard-ethereum.mjs").current_dir(&scripts).env("RPC_URL", url);
        run::run(script.env("BROWSER", &browser).env("PICTURES", &pictures))
            .map_err(|why| format!("{why} (pictures in {})", pictures.display()))
    })
}

/// Like `browser` for a cluster: the script kills a node and partitions the network, so it gets the commands for that.
pub fn browser_cluster(binary: &Path) -> Result<(), String> {
    let (scripts, browser) = (installed("npm")?, a_browser()?);
    let pictures = target_dir().join("dashboard");
    let (temporary, name) = (TempFolder::new("browser-cluster")?, format!("browser-{}", std::process::id()));
    let folder = temporary.path().join("cluster");
    let cluster = |command: &str, options: &[&str]| {
        let mut process = Command::new(binary);
        process.args(["cluster", command, "--name", &name, "--folder"]).arg(&folder).args(options);
        run::run(&mut process)
    };
    // Addresses that no cluster or test uses by default, and that no interrupted run has left in use.
    let process = std::process::id();
    let address = format!("127.99.{}.{}", process / 25 % 256, 1 + process % 25 * 10);
    cluster("up", &["--nodes", "6", "--address", &address])?;
    let mut script = Command::new("node");
    script.arg("cluster.mjs").current_dir(&scripts).env("RPC_URL", format!("http://{address}:8899"));
    script.env("BROWSER", &browser).env("HEARTH", binary).env("HEARTH_FOLDER", &folder).env("PICTURES", &pictures);
    let shown = run::run(&mut script).map_err(|why| format!("{why} (pictures in {})", pictures.display()));
    cluster("down", &[])?;
    shown
}

/// The page of a load on an EVM chain, with the node's flame graph, and that of two side by side.
pub fn browser_load(binary: &Path) -> Result<(), String> {
    let (scripts, browser) = (installed("npm")?, a_browser()?);
    let pictures = target_dir().join("load-report");
    with_evm("browser-load", binary, &["--block-time", "1"], |folder, url| {
        let file = |name: &str| folder.join(name);
        let load = |name: &str, more: &[&str]| {
            let mut load = Command::new(binary);
            load.args(["load", "run", "--url", url, "--accounts", "40", "--warmup", "1", "--duration", "5"]);
            load.arg("--json").arg(file(name)).args(more).current_dir(folder);
            run::run(&mut load)
        };
        load("one.json", &["--html", "one.html", "--profile"])?;
        load("two.json", &["--rate", "200"])?;
        let mut both = Command::new(binary);
        run::run(both.args(["load", "report", "one.json", "two.json", "--html", "both.html"]).current_dir(folder))?;
        let mut script = Command::new("node");
        script.arg("load-report.mjs").current_dir(&scripts).env("RPC_URL", url).env("BROWSER", &browser);
        script.env("REPORT", file("one.html")).env("PAIR", file("both.html")).env("JSON", file("one.json"));
        run::run(script.env("PICTURES", &pictures)).map_err(|why| format!("{why} (pictures in {})", pictures.display()))
    })
}

/// Checks the page of a study: a matrix of twelve builds whose figures follow from their options, with occasional
/// outliers.
pub fn browser_tune(binary: &Path) -> Result<(), String> {
    let (scripts, browser) = (installed("npm")?, a_browser()?);
    let pictures = target_dir().join("tune-report");
    let folder = TempFolder::new("browser-tune")?;
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("results.csv"), a_study()).map_err(|why| format!("results.csv: {why}"))?;
    let mut analyze = Command::new(binary);
    analyze.args(["tune", "analyze", "results.csv", "--max", "tps", "--min", "cpu", "--min", "size"]);
    analyze.args([
        "--reference",
        "default",
        "--copy",
        "default (copy)",
        "--html",
        "study.html",
        "--json",
        "study.json",
    ]);
    run::run(analyze.current_dir(folder.path()))?;
    let mut script = Command::new("node");
    script.arg("tune-report.mjs").current_dir(&scripts).env("RPC_URL", "http://127.0.0.1:1").env("BROWSER", &browser);
    script.env("REPORT", file("study.html")).env("JSON", file("study.json")).env("PICTURES", &pictures);
    run::run(&mut script).map_err(|why| format!("{why} (pictures in {})", pictures.display()))
}

/// Results in tidy form.
fn a_study() -> String {
    let mut text = "nb_build,lto,codegen-units,target-cpu,metric,value,repetition\n".to_owned();
    let mut noise = 7u32;
    let mut next = || {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(noise >> 16) / 65_536.0 - 0.5
    };
    for round in 1..=20 {
        let drift = 1.0 + 0.05 * next();
        for (lto, fast, large) in [("default", 1.0, 1.0), ("thin", 1.04, 1.02), ("fat", 1.09, 0.96)] {
            for (units, faster, larger) in [("default", 1.0, 1.0), ("1", 1.03, 0.97)] {
                for (cpu, fastest, largest) in [("default", 1.0, 1.0), ("native", 0.97, 1.04)] {
                    let parts = [("lto", lto), ("codegen-units", units), ("target-cpu", cpu)];
                    let named = parts.into_iter().filter(|(_, value)| *value != "default");
                    let named: Vec<String> = named.map(|(key, value)| format!("{key}={value}")).collect();
                    let name = if named.is_empty() { "default".into() } else { named.join("+") };
                    let names = if named.is_empty() { vec![name, "default (copy)".into()] } else { vec![name] };
                    for name in names {
                        let odd = if next() > 0.47 { 0.85 } else { 1.0 };
                        let tps = 81_500.0 * fast * faster * fastest * drift * odd * (1.0 + 0.03 * next());
                        let cpu_s = 11.5e-6 / (fast * faster) / drift * (1.0 + 0.02 * next());
                        let size = 17_300_000.0 * large * larger * largest;
                        for (metric, value) in
                            [("tps", format!("{tps}")), ("cpu", format!("{cpu_s} s")), ("size", format!("{size:.0} B"))]
                        {
                            text.push_str(&format!("{name},{lto},{units},{cpu},{metric},{value},{round}\n"));
                        }
                    }
                }
            }
        }
    }
    text
}

/// Follows the README only: a bench, its bottleneck by monitor and browser, the change that these name, a better rate.
/// This is one of the binary's tests, with the browser that cargo alone does not provide.
pub fn walk(see: impl FnMut(&str)) -> Result<(), String> {
    installed("npm")?;
    let mut test = cargo();
    test.args(["test", "--release", "--locked", "--package", "hearth", "--test", "end_to_end", "--"]);
    test.args(["--nocapture", "walk::"]).env("BROWSER", a_browser()?);
    run::run_seeing(test.env("PICTURES", target_dir().join("dashboard")), see)
}

/// A browser that is installed.
pub fn a_browser() -> Result<String, String> {
    let named = std::env::var("CHROMIUM").ok();
    let mut browsers = named.into_iter().chain(BROWSERS.map(Into::into));
    let found = browsers.find(|browser| run::answers(Command::new(browser).arg("--version")));
    found.ok_or_else(|| "a browser is needed: `apt-get install chromium`, or CHROMIUM=/path/to/one".into())
}

/// The clients from PyPI: solana-py and solders.
pub fn python(binary: &Path) -> Result<(), String> {
    let scripts = folder().join("python");
    let python = python_with("clients-python", &scripts)?;
    with_node("python", binary, |_, url| {
        run::run(Command::new(&python).arg("client.py").current_dir(&scripts).env("RPC_URL", url))
    })
}

/// Compares `hearth tune analyze` with independent computations in numpy.
pub fn statistics(binary: &Path) -> Result<(), String> {
    let scripts = folder().join("statistics");
    let python = python_with("clients-statistics", &scripts)?;
    run::run(Command::new(&python).arg("client.py").current_dir(&scripts).env("HEARTH", binary))
}

/// Returns the Python of a virtual environment of this name, with the scripts' requirements installed.
fn python_with(name: &str, scripts: &Path) -> Result<PathBuf, String> {
    let environment = target_dir().join(name);
    let python = environment.join("bin/python");
    if !run::answers(Command::new(&python).args(["-m", "pip", "--version"])) {
        run::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))
            .map_err(|why| format!("{why}; Python is needed: `apt-get install python3 python3-venv`"))?;
    }
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run::run(Command::new(&python).args(install).arg(scripts.join("requirements.txt")))?;
    Ok(python)
}

/// Runs clients against an EVM chain of their own.
fn with_evm(
    name: &str,
    binary: &Path,
    options: &[&str],
    clients: impl FnOnce(&Path, &str) -> Result<(), String>,
) -> Result<(), String> {
    let folder = TempFolder::new(name)?;
    let port = node::free_ports()?;
    let node = Node::start_evm(binary, folder.path(), port, options)?;
    let url = format!("http://127.0.0.1:{port}");
    clients(folder.path(), &url).map_err(|why| node.explain(&format!("{why} (RPC_URL={url})")))?;
    node.stop()
}

/// Runs clients against a node of their own.
fn with_node(name: &str, binary: &Path, clients: impl FnOnce(&Path, &str) -> Result<(), String>) -> Result<(), String> {
    let folder = TempFolder::new(name)?;
    let port = node::free_ports()?;
    let node = Node::start(binary, folder.path(), port)?;
    let url = format!("http://127.0.0.1:{port}");
    clients(folder.path(), &url).map_err(|why| node.explain(&format!("{why} (RPC_URL={url})")))?;
    node.stop()
}

/// Assembles one of `tests/clients/programs`, `changed`, into an ELF that a node takes.
pub fn assemble(name: &str, elf: &Path, changed: impl FnOnce(String) -> String) -> Result<(), String> {
    let source = folder().join("programs").join(name);
    let cannot = |what: &str, path: &Path, error| format!("cannot {what} {}: {error}", path.display());
    let text = std::fs::read_to_string(&source).map_err(|error| cannot("read", &source, error))?;
    let assembler = Assembler::new(AssemblerOption::default().with_arch(SbpfArch::V3));
    let bytes = assembler.assemble(&changed(text)).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("{}: {}", source.display(), errors.join("; "))
    })?;
    std::fs::write(elf, bytes).map_err(|error| cannot("write", elf, error))
}
