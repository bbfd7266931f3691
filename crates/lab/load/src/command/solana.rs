//! `hearth load` on a node that speaks Solana's JSON-RPC.
//!
//! reads   the node's RPC; a key file of a load, and one of the Solana tools
//! writes  transactions; a key file; the report, as text and JSON
//! memory  see `crate::solana`

use std::path::Path;

use hearth_command::output::{CommandOutput, note};
use hearth_command::stop::StopSignal;
use hearth_keys as key_files;
use hearth_wire::base58::{decode_32, decode_64};

use super::key_file::{KeyFile, Keys};
use super::options::{Block, Fund, Run};
use super::{CommandError, check_chains, measure, note_keys, progress, run_options, say_others, say_stopped, watch};
use crate::account::KeyLock;
use crate::retry::{Caller, NoAnswer};
use crate::series::Pool;
use crate::solana::fund::{FundError, fund};
use crate::solana::keys::{self, Account};
use crate::solana::node::marks;
use crate::solana::retry::RetryingNode;
use crate::solana::run::{self, SendVia};
use crate::solana::workload::{Kind, Mix};
use crate::solana::{Node, inspect, setup};

/// Balance that keeps an account alive, in lamports: above today's rent exemption for an account without data.
const RESERVE: u64 = 1_000_000;
/// Number of transactions whose fees a new account gets if no count is given.
const TRANSACTIONS: u64 = 100_000;

fn address(text: &str) -> Result<[u8; 32], CommandError> {
    let wrong =
        |why| CommandError::Option(format!("`{text}` is not an address of Solana's, which the node speaks: {why}"));
    decode_32(text).map_err(wrong)
}

/// Parses an amount of SOL into lamports.
fn lamports(text: &str) -> Result<u64, CommandError> {
    let wrong = || CommandError::Option(format!("--amount: `{text}` is not an amount of SOL, as 1 or 0.5"));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.chars().all(|digit| digit.is_ascii_digit());
    if part.len() > 9 || !is_number(whole) || !is_number(part) || whole.is_empty() {
        return Err(wrong());
    }
    let lamports = format!("{whole}{part:0<9}").parse().map_err(|_| wrong())?;
    if lamports < RESERVE {
        return Err(CommandError::Option(format!(
            "--amount: an account with less than {} ({RESERVE} lamports) cannot stay",
            inspect::sol(RESERVE)
        )));
    }
    Ok(lamports)
}

fn funder(path: Option<&str>) -> Result<Option<Account>, CommandError> {
    let identity = path.map(|path| key_files::read(Path::new(path))).transpose()?;
    Ok(identity.map(|identity| Account::new(*identity.keypair.seed())))
}

/// Carries out `hearth load info`.
pub fn info(node: &Node, account: Option<&str>) -> Result<String, CommandError> {
    Ok(match account {
        None => inspect::node(node)?,
        Some(text) => inspect::account(node, &address(text)?)?,
    })
}

/// Carries out `hearth load block`.
pub fn blocks(node: &Node, block: &Block) -> Result<String, CommandError> {
    let (from, to) = block.numbers(node.slot()?).map_err(CommandError::Option)?;
    Ok(inspect::blocks(node, from, to)?)
}

/// Carries out `hearth load tx`.
pub fn transaction(node: &Node, text: &str) -> Result<String, CommandError> {
    let wrong =
        |why| CommandError::Option(format!("`{text}` is not a signature of Solana's, which the node speaks: {why}"));
    Ok(inspect::transaction(node, &decode_64(text).map_err(wrong)?)?)
}

/// Carries out `hearth load fund`.
pub fn make_accounts(node: &Node, options: &Fund, stop: &StopSignal, say: &CommandOutput) -> Result<(), CommandError> {
    if options.utxo_key.is_some() {
        return Err(CommandError::Option(
            "--utxo-key: the node speaks Solana's JSON-RPC, and has no such ledger".into(),
        ));
    }
    say.line(&node.client);
    let amount = lamports(&options.amount)?;
    let file = KeyFile::open(options, Keys { generate: keys::generate, load: keys::load, save: keys::save })?;
    say_others(&file, options, say);
    let funder = funder(options.funder.as_deref())?;
    let stopped = || stop.is_set();
    let before_paying = || file.before_paying();
    let caller = Caller { stop: &stopped, before_paying: &before_paying, says: &|text| note(text) };
    let short = match fund(node, funder.as_ref(), file.funded(), amount, caller, progress()) {
        Err(FundError::Stopped { done, count }) => {
            say_stopped(&file, options, (done, count), say);
            return Ok(());
        }
        Err(why) => {
            if matches!(why, FundError::Airdrop { .. }) {
                file.nothing_was_paid();
            }
            note_keys(&file, options);
            return Err(why.into());
        }
        Ok(short) => short,
    };
    let (count, amount, keys) = (file.funded().len(), &options.amount, options.keys.display());
    say.line(format_args!("{count} accounts have {amount} SOL or more, {short} of them were short; keys: {keys}"));
    Ok(())
}

/// Carries out `hearth load run`.
pub fn drive(node: &Node, options: &Run, stop: &StopSignal, say: &CommandOutput) -> Result<(), CommandError> {
    let mix: Mix = options.kind.of_chain("Solana").map_err(CommandError::Option)?;
    if options.comet_rpc.is_some() {
        return Err(CommandError::Option(
            "--comet-rpc: the node speaks Solana's JSON-RPC, and no CometBFT is below it".into(),
        ));
    }
    let by = match (options.rpc_send, options.tpu) {
        (true, _) => SendVia::Rpc,
        (false, Some(address)) => SendVia::Tpu(address),
        (false, None) => SendVia::Leaders,
    };
    check_chains(&node.rpc, &options.target, marks)?;
    if by != SendVia::Rpc && options.target.url.len() > 1 {
        note("transactions go by QUIC, blocks are read from the first node: --rpc-send sends to all of --url");
    }
    say.line(&node.client);
    // Held until the run ends: another load with these keys would send the same transactions.
    let _lock = options.keys.as_deref().map(KeyLock::take).transpose()?;
    let accounts = accounts(node, options, &mix, stop)?;
    let asked = run_options(options, mix, Pool::Silent, stop);
    let mut progress = watch(say);
    let stopped = || stop.is_set();
    let tokens = run::set_up(node, &accounts, &asked.mix, &stopped, &mut progress)?;
    measure(options, &asked, stop, progress, say, |asked, on_progress| {
        run::drive(asked, by, node, &tokens, &accounts, &stopped, on_progress)
    })
}

/// The key file's accounts, or new ones funded with the most they will need.
fn accounts(node: &Node, options: &Run, mix: &Mix, stop: &StopSignal) -> Result<Vec<Account>, CommandError> {
    if let Some(path) = &options.keys {
        return Ok(keys::load(path)?);
    }
    let accounts = keys::generate(options.accounts)?;
    let funder = funder(options.funder.as_deref())?;
    let stop: &dyn Fn() -> bool = &|| stop.is_set();
    let amount = amount(&RetryingNode { node, stop }, options, mix).map_err(|why| match why {
        NoAnswer::Stopped => CommandError::Stopped { done: 0, count: accounts.len() },
        NoAnswer::Rpc(why) => why.into(),
    })?;
    note(format_args!("{} accounts get {} ({amount} lamports) each", accounts.len(), inspect::sol(amount)));
    match fund(node, funder.as_ref(), &accounts, amount, Caller::new(stop), progress()) {
        Ok(_) => Ok(accounts),
        // The new keys are lost, so a repeated call starts from zero.
        Err(FundError::Stopped { done, count }) => Err(CommandError::Stopped { done, count }),
        Err(why) => Err(why.into()),
    }
}

/// The most that each new account will need, in lamports.
fn amount(ask: &RetryingNode<'_>, options: &Run, mix: &Mix) -> Result<u64, NoAnswer> {
    let number = options.count.unwrap_or(TRANSACTIONS).max(options.presign);
    let token = if mix.has(Kind::Token) { setup::cost(ask)? } else { 0 };
    // Besides the fees, transfers move a few lamports back and forth.
    Ok(number.saturating_mul(2 * ask.ask(Node::fee)?) + RESERVE + token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_sol_are_read_exactly() {
        let read = |text| lamports(text).ok();
        assert_eq!(
            (read("1"), read("0.5"), read("12.000000001")),
            (Some(1_000_000_000), Some(500_000_000), Some(12_000_000_001))
        );
        assert!(
            ["", "x", "1.0000000001", "-1", ".5", "0", "1e9", "99999999999999"].iter().all(|text| read(text).is_none())
        );
    }
}
