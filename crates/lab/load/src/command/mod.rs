//! `hearth load`: funds accounts and generates load, on any node that speaks Ethereum's JSON-RPC or Solana's.
//!
//! reads   the node's RPC; a key file; for `etl` see there
//! writes  transactions; a key file; the report, as text and JSON

#![deny(clippy::print_stdout, clippy::print_stderr)] // `output` does not panic when nobody reads.

mod etl;
mod files;
mod key_file;
mod options;
mod prism;
mod solana;

pub use options::Options;
pub use prism::{CoinTransfer, OpenPurse, Purse, PurseError};

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use alloy_primitives::utils::{format_ether, parse_ether};
use alloy_primitives::{Address, U256};
use hearth_command::bar::Bar;
use hearth_command::exit_code::{ExitCode, FAILED, MISSED, WRONG_USE};
use hearth_command::output::{CommandOutput, WriteError, note};
use hearth_command::secrets;
use hearth_command::shell;
use hearth_command::stop::{GRACE, StopSignal};
use hearth_crypto::secp256k1::Signer;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::account::{self, AccountError, KeyLock, address};
use crate::chain;
use crate::compare::{CompareError, Comparison, compare};
use crate::connect::{self, ConnectError, ConnectedNode};
use crate::error::LoadError;
use crate::ethereum::fund::{self, FundError};
use crate::ethereum::node::{self, Node};
use crate::ethereum::workload::Mix;
use crate::ethereum::{inspect, run};
use crate::options::{GiveUp, RunOptions, SideMeasurements, Timing};
use crate::page::{PageError, PageReport};
use crate::profile::ProfileError;
use crate::progress::Progress;
use crate::ramp::{Bound, ramp};
use crate::report::Report;
use crate::retry::{Caller, RetryingRpc};
use crate::rpc::{Rpc, RpcError};
use crate::series::Pool;
use crate::tx_mix::TxKinds;
use key_file::{KeyFile, Keys};
use options::{Fund, Run, Target};

/// The first development account of anvil, hardhat and `hearth evm run`. Its key is published in their documentation.
const DEVELOPMENT_SECRET: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

/// How long a node may be silent during a run before it is considered dead.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a node may take to start.
const STARTING: Duration = Duration::from_secs(5);

/// More gas per second than any measured node uses: ours takes 40,000 transfers, 0.84e9.
const GAS_PER_SECOND: f64 = 1.5e9;
/// At least as many steps as a ramp takes.
const RAMP_STEPS: f64 = 14.0;
/// An account starts only with money for at least this many transactions.
const FEWEST: u64 = 20;

/// The first rate of a ramp.
const RAMP_BEGIN: f64 = 100.0;

/// Why a load fails.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// An option contradicts another, or its value is invalid.
    #[error("{0}")]
    Option(String),
    /// Accounts cannot be read, written or made.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The node cannot be reached.
    #[error("{0}{advice}", advice = advice(.0))]
    Connect(ConnectError),
    /// Funding on an Ethereum chain failed.
    #[error(transparent)]
    Fund(#[from] FundError),
    /// Funding on Solana failed.
    #[error(transparent)]
    SolanaFund(#[from] crate::solana::fund::FundError),
    /// The key of the paying account on Solana cannot be read.
    #[error("--funder: {0}")]
    Funder(#[from] hearth_keys::KeyError),
    /// Ctrl-C while the new accounts of a run were funded.
    #[error(
        "stopped: {done} of {count} new accounts were funded, and their keys are lost; \
         `hearth load fund` keeps keys, and goes on where it was stopped"
    )]
    Stopped {
        /// How many accounts were funded.
        done: usize,
        /// How many were to be funded.
        count: usize,
    },
    /// The run failed, so there is no report.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The node stopped answering, so the report covers only what was read until then.
    #[error("the run failed, and its report is of what was read until then: {0}")]
    Lost(String),
    /// The result cannot be written.
    #[error(transparent)]
    Out(#[from] WriteError),
    /// The reports cannot be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// With `--fail-on-worse`: the figures that are worse.
    #[error("worse, beyond the noise: {0}")]
    Worse(String),
    /// With `--fail-on-worse`: why it is undecided whether any figure is worse.
    #[error("--fail-on-worse: {0}")]
    Undecided(String),
    /// A file is not a report.
    #[error(transparent)]
    Page(#[from] PageError),
    /// The node's profile could not be taken.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A report or the result cannot be read or written.
    #[error("{path}: {why}", path = .0.display(), why = .1)]
    File(PathBuf, std::io::Error),
    /// The transfer from the UTXO ledger failed.
    #[error("--utxo-key: {0}")]
    Prism(PurseError),
    /// Collecting failed or is incomplete.
    #[error(transparent)]
    Etl(#[from] etl::EtlCommandError),
}

impl From<RpcError> for CommandError {
    fn from(why: RpcError) -> Self {
        LoadError::from(why).into()
    }
}

/// Advice for a connection error: which command starts a node.
fn advice(why: &ConnectError) -> &'static str {
    match why {
        ConnectError::Rpc(RpcError::Connection { .. }) => {
            "; a node must be listening there: `hearth evm run` or `hearth run` starts one"
        }
        _ => "",
    }
}

impl ExitCode for CommandError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Option(_) | Self::Compare(_) | Self::Page(_) => WRONG_USE,
            Self::Connect(ConnectError::Rpc(RpcError::Url { .. })) => WRONG_USE,
            Self::Account(AccountError::There(_)) => WRONG_USE,
            Self::Worse(_) => MISSED,
            Self::Etl(why) => why.exit_code(),
            _ => FAILED,
        }
    }
}

/// Runs the command. `open_purse` opens a key of the UTXO ledger, if money is to come from there.
pub fn run(
    options: &Options,
    open_purse: OpenPurse,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<(), CommandError> {
    match options {
        Options::Fund(fund) => make_accounts(fund, open_purse, stop, say),
        Options::Run(options) => drive(options, stop, say),
        Options::Profile(options) => files::profile(options, stop, say),
        Options::Report(options) => files::report(options, say),
        Options::Info(info) => {
            say.text(match connect(&info.target, stop)? {
                ConnectedNode::Solana(node) => solana::info(&node, info.account.as_deref())?,
                ConnectedNode::Ethereum(node) => match info.account.as_deref() {
                    None => inspect::node(&node)?,
                    Some(text) => inspect::account(&node.rpc, ethereum(text)?)?,
                },
            });
            Ok(())
        }
        Options::Block(block) => {
            say.text(match connect(&block.target, stop)? {
                ConnectedNode::Solana(node) => solana::blocks(&node, block)?,
                ConnectedNode::Ethereum(node) => {
                    let newest = node.rpc.number("eth_blockNumber", &json!([]))?;
                    let (from, to) = block.numbers(newest).map_err(CommandError::Option)?;
                    inspect::blocks(&node.rpc, from, to)?
                }
            });
            Ok(())
        }
        Options::Tx(tx) => {
            say.text(match connect(&tx.target, stop)? {
                ConnectedNode::Solana(node) => solana::transaction(&node, &tx.hash)?,
                ConnectedNode::Ethereum(node) => inspect::transaction(&node.rpc, ethereum(&tx.hash)?)?,
            });
            Ok(())
        }
        Options::Etl(options) => Ok(etl::run(options, stop, say)?),
        Options::Compare(options) => {
            let read = |paths: &[PathBuf]| paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>();
            let found = compare(&read(&options.before.0)?, &read(&options.after.0)?)?;
            say.text(found.text());
            if options.fail_on_worse { gate(&found) } else { Ok(()) }
        }
    }
}

/// The result of a comparison under `--fail-on-worse`.
fn gate(found: &Comparison) -> Result<(), CommandError> {
    let worse = found.worse();
    match found.undecided() {
        _ if !worse.is_empty() => Err(CommandError::Worse(worse.join("; "))),
        Some(why) => Err(CommandError::Undecided(why)),
        None => Ok(()),
    }
}

/// Reads a saved report.
fn read(path: &Path) -> Result<Value, CommandError> {
    let text = fs::read_to_string(path).map_err(|why| CommandError::File(path.into(), why))?;
    serde_json::from_str(&text).map_err(|why| CommandError::Option(format!("{}: no report: {why}", path.display())))
}

/// Connects to the node, and waits a few seconds for one that is just starting.
fn connect(target: &Target, stop: &StopSignal) -> Result<ConnectedNode, CommandError> {
    let on_retry = &mut |why: &ConnectError| note(format_args!("{why}; trying again for {} s", STARTING.as_secs()));
    connect::connect_patiently(&target.url[0], target.timeout(), STARTING, &|| stop.is_set(), on_retry)
        .map_err(CommandError::Connect)
}

/// Parses an Ethereum address or hash.
fn ethereum<T: std::str::FromStr>(text: &str) -> Result<T, CommandError> {
    let wrong = |_| format!("`{text}` is not an address or hash of Ethereum's, which the node speaks: expected 0x…");
    text.parse().map_err(wrong).map_err(CommandError::Option)
}

/// The paying account on an Ethereum chain: from a secret key, or from a file that holds one.
fn payer(given: Option<&str>) -> Result<Signer, CommandError> {
    let Some(given) = given else { return Ok(account::parse_secret(DEVELOPMENT_SECRET)?) };
    if let Ok(signer) = account::parse_secret(given) {
        return Ok(signer);
    }
    let path = Path::new(given);
    let text = Zeroizing::new(fs::read_to_string(path).map_err(|why| CommandError::File(path.into(), why))?);
    // The error must not reveal the file's contents.
    account::parse_secret(&text)
        .map_err(|_| CommandError::Option(format!("--funder: {given} does not hold a secret key of 64 digits")))
}

/// Checks `--funder` before the chain is known: it is an Ethereum secret key, or a key file of either chain.
fn check_funder(given: Option<&str>) -> Result<(), CommandError> {
    let Some(given) = given else { return Ok(()) };
    match account::parse_secret(given) {
        Ok(_) => {
            secrets::warn_of_arguments("--funder", given, "in a file, or in the variable HEARTH_FUNDER");
            Ok(())
        }
        Err(_) if Path::new(given).exists() => Ok(()),
        Err(why) => Err(CommandError::Option(format!("--funder: {why}; nor is there a key file of that name"))),
    }
}

fn ether(text: &str) -> Result<U256, CommandError> {
    parse_ether(text)
        .map_err(|_| CommandError::Option(format!("--amount: `{text}` is not an amount of ether, as 1 or 0.5")))
}

/// Carries out `hearth load fund`.
fn make_accounts(
    options: &Fund,
    open_purse: OpenPurse,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<(), CommandError> {
    options.check().map_err(CommandError::Option)?;
    check_funder(options.funder.as_deref())?;
    if !options.uses_file() && options.keys.exists() {
        return Err(AccountError::There(options.keys.clone()).into());
    }
    // Connect before generating keys, so that the same command can be repeated once a node runs.
    let node = match connect(&options.target, stop)? {
        ConnectedNode::Ethereum(node) => node,
        ConnectedNode::Solana(node) => return solana::make_accounts(&node, options, stop, say),
    };
    let amount = ether(&options.amount)?;
    let keys = Keys { generate: account::generate, load: account::load, save: account::save };
    let file = KeyFile::open(options, keys)?;
    say.line(format_args!("{}, chain {}", node.client, node.terms.chain_id));
    say_others(&file, options, say);
    let funded = fund_file(options, open_purse, &node, &file, amount, stop, say);
    let short = match funded {
        Ok(short) => short,
        Err(CommandError::Fund(FundError::Stopped { done, count })) => {
            say_stopped(&file, options, (done, count), say);
            return Ok(());
        }
        Err(why) => {
            note_keys(&file, options);
            return Err(why);
        }
    };
    let (count, amount, keys) = (file.funded().len(), short_ether(amount), options.keys.display());
    say.line(format_args!("{count} accounts have {amount} ether or more, {short} of them were short; keys: {keys}"));
    Ok(())
}

/// Funds the accounts of the file. Returns how many were short.
fn fund_file(
    options: &Fund,
    open_purse: OpenPurse,
    node: &Node,
    file: &KeyFile<Signer>,
    amount: U256,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<usize, CommandError> {
    let stopped = || stop.is_set();
    let before_paying = || file.before_paying();
    let caller = Caller { stop: &stopped, before_paying: &before_paying, says: &|text| note(text) };
    let payer = match (&options.utxo_key, &options.funder, file.funded().first()) {
        // The payer's key is in the file, so money that crosses is never lost, whenever this is stopped.
        (Some(_), None, Some(first)) => first.clone(),
        (_, funder, _) => payer(funder.as_deref())?,
    };
    let brought = match &options.utxo_key {
        Some(key) => {
            let purse = open_purse(key, node.rpc.url()).map_err(CommandError::Prism)?;
            prism::bring(purse, node, &payer, file.funded(), amount, caller, say)?
        }
        None => 0,
    };
    let short = run::prepare(node, &payer, file.funded(), amount, caller, progress())?;
    Ok(brought + short)
}

/// Prints that the file has more accounts than are funded.
fn say_others<A>(file: &KeyFile<A>, options: &Fund, say: &CommandOutput) {
    let (count, keys) = (file.funded().len(), options.keys.display());
    if file.others() > 0 {
        say.line(format_args!("{keys} has {} accounts: its first {count} are funded", count + file.others()));
    }
}

/// Prints how far a stopped funding got.
fn say_stopped<A>(file: &KeyFile<A>, options: &Fund, (done, count): (usize, usize), say: &CommandOutput) {
    let keys = options.keys.display();
    match file.is_kept() {
        true => say.line(format_args!(
            "stopped: {done} of {count} accounts funded; `--load --keys {}` goes on from there",
            shell::path(&options.keys)
        )),
        false => say.line(format_args!("stopped before any money went out; no new key was written to {keys}")),
    }
}

/// Prints where the keys are if funding fails, if any account may have money.
fn note_keys<A>(file: &KeyFile<A>, options: &Fund) {
    if file.is_kept() {
        let keys = options.keys.display();
        let file = shell::path(&options.keys);
        note(format_args!("the keys are in {keys}: `--load --keys {file}` goes on from what the accounts have"));
    }
}

/// Formats ether with at most six decimals, without trailing zeros.
fn short_ether(wei: U256) -> String {
    let text = format_ether(wei);
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let rest = rest[..rest.len().min(6)].trim_end_matches('0');
    if rest.is_empty() && wei > U256::ZERO && whole == "0" {
        return text;
    }
    if rest.is_empty() { whole.to_owned() } else { format!("{whole}.{rest}") }
}

/// Shows how many accounts are funded.
fn progress() -> impl FnMut(usize, usize) {
    let mut bar = Bar::new("accounts funded");
    move |done, all| bar.tell(done, all)
}

/// Carries out `hearth load run`.
fn drive(options: &Run, stop: &StopSignal, say: &CommandOutput) -> Result<(), CommandError> {
    options.check().map_err(CommandError::Option)?;
    files::can_be_written(options)?;
    check_funder(options.funder.as_deref())?;
    // With `--json -`, standard output carries only the JSON.
    let to_stderr = CommandOutput::stderr();
    let say = if options.json.as_deref().is_some_and(|path| path.as_os_str() == "-") { &to_stderr } else { say };
    let node = match connect(&options.target, stop)? {
        ConnectedNode::Ethereum(node) => node,
        ConnectedNode::Solana(node) => return solana::drive(&node, options, stop, say),
    };
    if let Some(wrong) = options.only_solana() {
        return Err(CommandError::Option(format!("{wrong}: the node speaks Ethereum's JSON-RPC, not Solana's")));
    }
    let mix: Mix = options.kind.of_chain("Ethereum").map_err(CommandError::Option)?;
    let payer = payer(options.funder.as_deref())?;
    check_chains(&node.rpc, &options.target, node::marks)?;
    say.line(format_args!("{}, chain {}", node.client, node.terms.chain_id));
    // Held until the run ends: another load with these keys would use its nonces.
    let _lock = options.keys.as_deref().map(KeyLock::take).transpose()?;
    let signers = match &options.keys {
        Some(path) => account::load(path)?,
        None => account::generate(options.accounts)?,
    };
    if options.keys.is_none() {
        fund_for_run(options, &mix, &node, &payer, &signers, stop)?;
    }
    let pool = Pool::of(&options.target.url[0], options.comet_rpc.as_deref())?;
    let asked = run_options(options, mix, pool, stop);
    let mut progress = watch(say);
    let stopped = || stop.is_set();
    let contracts = run::set_up(&node, &payer, &signers, &asked.mix, &stopped, &mut progress)?;
    measure(options, &asked, stop, progress, say, |asked, on_progress| {
        run::drive(asked, &node, contracts, &signers, &stopped, on_progress)
    })
}

/// Verifies that further nodes belong to the first one's chain, and prints which do not answer.
fn check_chains(
    first: &Rpc,
    target: &Target,
    marks: fn(&Rpc) -> Result<chain::Marks, RpcError>,
) -> Result<(), CommandError> {
    for silent in chain::check_chains(first, &target.url[1..], target.timeout(), marks)? {
        note(format_args!("{silent}; it is tried again while the load runs"));
    }
    Ok(())
}

/// Runs the load once, or searches for the highest rate, and writes the results.
fn measure<K: TxKinds, T: FnMut(Progress<'_>)>(
    options: &Run,
    asked: &RunOptions<K>,
    stop: &StopSignal,
    mut progress: T,
    say: &CommandOutput,
    drive: impl Fn(&RunOptions<K>, &mut T) -> Result<Report, LoadError>,
) -> Result<(), CommandError> {
    // After Ctrl-C four requests in a row may time out on a node that does not answer: the pending one, one of a
    // sender, one of the block reader, and the one for the last block.
    let save = stop.save("the report", 4 * options.target.timeout() + GRACE);
    let (text, written, lost) = match options.ramp {
        Some(p99_ms) => {
            let bound = Bound { p99: Duration::from_millis(p99_ms), begin: options.rate.unwrap_or(RAMP_BEGIN) };
            let mut found = ramp(asked, bound, &|| stop.is_set(), progress, drive)?;
            found.report.iter_mut().for_each(|report| report.machine = Some(files::machine()));
            save.progress();
            let written = files::write(options, &found, files::shown_of(&found).as_ref());
            (found.text(), written, found.reading_ended)
        }
        None => {
            let mut report = drive(asked, &mut progress)?;
            report.machine = Some(files::machine());
            save.progress();
            let shown = PageReport { name: String::new(), report, steps: None };
            let lost = shown.report.reading_ended.clone();
            (shown.report.text(), files::write(options, &shown.report, Some(&shown)), lost)
        }
    };
    // Released only now, because printing may block or fail if the reader is gone.
    drop(save);
    say.text(text);
    say.text(written?);
    // A run ended by Ctrl-C is a success, whatever the node does.
    lost.filter(|_| !stop.is_set()).map_or(Ok(()), |why| Err(CommandError::Lost(why)))
}

/// Prints the progress of a run.
fn watch(say: &CommandOutput) -> impl FnMut(Progress<'_>) {
    move |progress: Progress<'_>| match progress {
        Progress::Step(text) => note(text),
        Progress::Signed(done, all) => note(format_args!("signed {done} of {all}")),
        Progress::Second(at, included, under_way) => {
            let phase = if at <= 0.0 { " (warm-up)" } else { "" };
            say.line(format_args!("{at:>6.1} s  {included:>7} included  {under_way:>7} under way{phase}"));
        }
    }
}

/// Returns the wei that each account needs for a run, at the highest fee that the load pays: for the transactions
/// that were requested or follow from the rate; otherwise for more gas than any known node uses in that time.
fn needed(options: &Run, mix: &Mix, max_fee: u128) -> U256 {
    let seconds = (options.warmup + options.duration) as f64;
    let steps = if options.ramp.is_some() { RAMP_STEPS } else { 1.0 };
    let all = match options.rate.filter(|_| options.ramp.is_none()) {
        Some(rate) => rate * seconds,
        None => GAS_PER_SECOND / mix.gas() as f64 * seconds * steps,
    };
    let each = options.count.unwrap_or((all / options.accounts as f64).ceil() as u64 + 1).max(options.presign);
    price(mix, max_fee) * U256::from(each)
}

/// The most that one transaction costs, in wei.
fn price(mix: &Mix, max_fee: u128) -> U256 {
    U256::from(mix.gas()) * U256::from(max_fee) + U256::from(1)
}

/// Gives new accounts the most they will need, or an equal share of what the payer has.
fn fund_for_run(
    options: &Run,
    mix: &Mix,
    node: &Node,
    payer: &Signer,
    signers: &[Signer],
    stop: &StopSignal,
) -> Result<(), CommandError> {
    let needed = needed(options, mix, node.terms.max_fee);
    let richest: Address = address(payer);
    let ask = RetryingRpc { rpc: &node.rpc, stop: &|| stop.is_set() };
    let purse = fund::purse(&ask, richest).map_err(LoadError::from)?;
    // A tenth stays with the payer for the fees of these transfers and for later runs.
    let share = purse / U256::from(10) * U256::from(9) / U256::from(signers.len());
    let amount = if share >= price(mix, node.terms.max_fee) * U256::from(FEWEST) { needed.min(share) } else { needed };
    note(format_args!("{} accounts get {} ether each from {richest}", signers.len(), short_ether(amount)));
    if amount < needed {
        let needed = short_ether(needed);
        note(format_args!(
            "that is their share of what there is; at the highest fees the run would need {needed} each"
        ));
    }
    let stopped = || stop.is_set();
    let caller = Caller { says: &|text| note(text), ..Caller::new(&stopped) };
    match run::prepare(node, payer, signers, amount, caller, progress()) {
        Err(FundError::Stopped { done, count }) => Err(CommandError::Stopped { done, count }),
        prepared => Ok(prepared.map(drop)?),
    }
}

fn run_options<K>(options: &Run, mix: crate::tx_mix::Mix<K>, pool: Pool, stop: &StopSignal) -> RunOptions<K> {
    let stop = stop.clone();
    RunOptions {
        networks: options.target.url.clone(),
        timeout: options.target.timeout(),
        patience: PATIENCE,
        mix,
        senders: options.threads,
        pace: options.pace(),
        timing: Timing {
            warmup: Duration::from_secs(options.warmup),
            duration: Duration::from_secs(options.duration),
            pids: options.pid.clone(),
            beside: SideMeasurements { pool, profile: files::plan(options) },
            give_up: GiveUp::when(move || stop.presses() > 1),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_that_cannot_be_decided_fails_its_gate() {
        let report = |tps: f64| json!({ "kind": "transfer", "accounts": 1, "rate": null, "tps": tps });
        let runs = |tps: f64, pairs: u32| (0..pairs).map(|pair| report(tps + f64::from(pair))).collect::<Vec<_>>();
        let gate = |before, after, pairs| gate(&compare(&runs(before, pairs), &runs(after, pairs)).unwrap());
        assert!(gate(1000.0, 1000.0, 8).is_ok());
        assert!(gate(1000.0, 1100.0, 8).is_ok(), "better is no failure");
        let worse = gate(1000.0, 900.0, 8).unwrap_err();
        assert!(worse.exit_code() == MISSED && worse.to_string() == "worse, beyond the noise: txn/s", "{worse}");
        let few = gate(1000.0, 500.0, 3).unwrap_err();
        assert!(few.exit_code() == FAILED && few.to_string().contains("3 pairs are there, 6 are needed"), "{few}");
        // No transaction was included any more.
        let none = gate_of_nothing();
        assert!(none.exit_code() == FAILED && none.to_string().contains("not in every report: txn/s"), "{none}");
    }

    fn gate_of_nothing() -> CommandError {
        let report = |tps: f64| json!({ "kind": "transfer", "accounts": 1, "rate": null, "tps": tps });
        let [before, after] = [1000.0, 0.0].map(|tps| (0..8).map(|_| report(tps)).collect::<Vec<_>>());
        gate(&compare(&before, &after).unwrap()).unwrap_err()
    }

    #[test]
    fn a_payer_is_a_key_or_a_file_of_one() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().to_str().expect("a path");
        fs::write(path, format!("0x{DEVELOPMENT_SECRET}\n")).expect("written");
        let address = |given| payer(given).map(|signer| signer.address());
        let expected = address(None).expect("the development account");
        assert_eq!(address(Some(path)).expect("a file"), expected);
        assert_eq!(address(Some(DEVELOPMENT_SECRET)).expect("a key"), expected);
        assert!(check_funder(Some(path)).is_ok());
        fs::write(path, "words that are no key").expect("written");
        let why = payer(Some(path)).err().expect("it is no key").to_string();
        assert!(why.contains(path) && !why.contains("words"), "{why}");
        assert!(check_funder(Some("no such file")).is_err());
    }
}
