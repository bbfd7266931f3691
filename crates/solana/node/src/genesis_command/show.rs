//! What a genesis says, in lines.

use hearth_command::numbers::grouped;
use hearth_command::output::CommandOutput;
use hearth_command::time::utc;
use hearth_ledger::Genesis;
use hearth_ledger::hard_forks::shred_version_with;
use hearth_ledger::stakes::stakes_at_genesis;
use hearth_pipeline::shred::Slot0;
use hearth_wire::base58::encode_32;
use hearth_wire::consts::FEATURE_PROGRAM;

/// Prints a genesis, of a chain that has had hard forks at these slots.
pub fn genesis(genesis: &Genesis, hard_forks: &[u64], say: &CommandOutput) {
    let config = genesis.config();
    let hashes = config.hashes_per_tick.map_or("timed, not hashed".to_owned(), |hashes| format!("{hashes} hashes"));
    let (prices, inflation) = (&config.fee_rate_governor, &config.inflation);
    say.line(format_args!("genesis hash    {}", encode_32(genesis.hash())));
    say.line(format_args!("shred version   {}", shred_version_with(genesis.hash(), hard_forks)));
    if !hard_forks.is_empty() {
        let without = genesis.shred_version();
        say.line(format_args!("                with the hard forks at {hard_forks:?}; {without} without them"));
    }
    say.line(format_args!("cluster         {:?}", config.cluster_type));
    say.line(format_args!("creation time   {}", utc(config.creation_time as i64)));
    say.line(format_args!("tick            {} µs, {hashes}", config.tick_ns() as f64 / 1e3));
    say.line(format_args!("slot            {} ticks, {} ms", config.ticks_per_slot, config.slot_ns() as f64 / 1e6));
    let warmup = if config.warmup_epochs { "; the first has 32, and each of the next twice as many" } else { "" };
    say.line(format_args!("epoch           {} slots{warmup}", grouped(config.slots_per_epoch)));
    say.line(format_args!(
        "signature       {} lamports at {} a slot, {} % burned",
        prices.target_lamports_per_signature, prices.target_signatures_per_slot, prices.burn_percent
    ));
    say.line(format_args!("rent            {} lamports a byte", config.lamports_per_byte()));
    say.line(format_args!(
        "inflation       {} a year at first, {} less each year, {} in the end; {} of it to a foundation for {} years",
        inflation.initial, inflation.taper, inflation.terminal, inflation.foundation, inflation.foundation_term
    ));
    let accounts = genesis.accounts();
    let lamports: u128 = accounts.iter().map(|(_, account)| u128::from(account.lamports)).sum();
    let features = accounts.iter().filter(|(_, account)| account.owner == FEATURE_PROGRAM).count();
    say.line(format_args!("accounts        {}, {features} of them features", accounts.len()));
    say.line(format_args!("lamports        {lamports}"));
    for (node, stake) in stakes_at_genesis(genesis) {
        say.line(format_args!("stake           {} has {stake} lamports", encode_32(&node)));
    }
    say.line(format_args!("slot 0          ends with {}", encode_32(genesis.slot_0_hash())));
    say.line(format_args!("                its block is {}", encode_32(Slot0::of(genesis).block_id())));
    if config.genesis_slot > 0 {
        say.line(format_args!("begins          after slot {}", config.genesis_slot));
    }
}
