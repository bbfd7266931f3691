//! A node that is killed without warning keeps what it has confirmed.
//!
//! reads   transaction count and balances over RPC, before each kill and after the next start
//! writes  airdrops to fresh addresses; the seed that they come from
//! memory  one balance per airdrop

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Outcome;
use crate::node::{self, Node, wait_for};
use crate::rpc::{Rpc, base58};
use crate::run::{self, Args, TempFolder};

/// Airdrops of one round.
const AIRDROPS: u64 = 40;
/// Each is of so many lamports and a few more, so that no two rounds look alike.
const LAMPORTS: u64 = 1_000_000_000;
/// The kill comes within so long after all are confirmed, at any moment of a slot: more airdrops are under way.
const KILL_WITHIN_MS: u64 = 1000;
/// One airdrop must be confirmed within this.
const CONFIRM_WITHIN: Duration = Duration::from_secs(20);

/// SplitMix64: the same seed gives the same addresses and the same moments of the kill.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn address(&mut self) -> String {
        let bytes: Vec<u8> = (0..4).flat_map(|_| self.next().to_le_bytes()).collect();
        base58(&bytes)
    }
}

/// What was confirmed before a kill.
#[derive(Default)]
struct Confirmed {
    transactions: u64,
    balances: Vec<(String, u64)>,
}

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let rounds = args.number("--rounds", 20)?;
    let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |now| now.as_secs());
    let seed = args.number("--seed", clock)?;
    let binary = args.value("--binary")?;
    args.end()?;
    let binary = run::hearth(binary)?;
    let folder = TempFolder::new("soak-kill9")?;
    let port = node::free_ports()?;
    println!("seed {seed}, ports from {port}, chain in {}", folder.path().display());

    let (mut random, mut confirmed, mut wrong) = (Random(seed), Confirmed::default(), Vec::new());
    let mut starts_ms = Vec::new();
    for round in 0..=rounds {
        let start = Instant::now();
        let node = Node::start(&binary, folder.path(), port)?;
        starts_ms.push(start.elapsed().as_millis() as u64);
        let lost = compare(node.rpc(), &confirmed).map_err(|why| node.explain(&why))?;
        wrong.extend(lost.into_iter().map(|what| format!("round {round}: {what}")));
        if round == rounds {
            node.stop()?;
            break;
        }
        load(node.rpc(), &mut random, &mut confirmed).map_err(|why| node.explain(&why))?;
        println!("round {round}: {} transactions, {} balances", confirmed.transactions, confirmed.balances.len());
        node.kill()?;
    }
    starts_ms.sort_unstable();
    let figures = json!({
        "seed": seed, "rounds": rounds, "transactions": confirmed.transactions, "balances": confirmed.balances.len(),
        "start_ms_median": starts_ms[starts_ms.len() / 2], "start_ms_max": starts_ms[starts_ms.len() - 1],
    });
    Ok(Outcome { figures, wrong })
}

fn at_confirmed() -> Value {
    json!({ "commitment": "confirmed" })
}

/// Sends airdrops and awaits them; then sends more, which are under way when the node is killed.
fn load(rpc: Rpc, random: &mut Random, confirmed: &mut Confirmed) -> Result<(), String> {
    let mut airdrop = || {
        let (address, lamports) = (random.address(), LAMPORTS + random.next() % LAMPORTS);
        let signature = rpc.call("requestAirdrop", json!([address, lamports]))?;
        Ok::<_, String>((address, lamports, signature))
    };
    let sent: Vec<_> = (0..AIRDROPS).map(|_| airdrop()).collect::<Result<_, _>>()?;
    for (address, lamports, signature) in sent {
        let landed = || match rpc.call("getSignatureStatuses", json!([[signature]])) {
            Ok(statuses) => landed(&statuses["value"][0]).map(Ok),
            Err(why) => Some(Err(why)),
        };
        wait_for(&format!("the airdrop to {address}"), CONFIRM_WITHIN, landed)??;
        confirmed.balances.push((address, lamports));
    }
    confirmed.transactions = rpc.number("getTransactionCount", json!([at_confirmed()]))?;
    let until = Instant::now() + Duration::from_millis(random.next() % KILL_WITHIN_MS);
    while Instant::now() < until {
        rpc.call("requestAirdrop", json!([random.address(), LAMPORTS]))?;
    }
    Ok(())
}

/// Whether a status says that the transaction has landed for good: nothing lower than confirmed outlives a kill.
fn landed(status: &Value) -> Option<()> {
    (["confirmed", "finalized"].contains(&status["confirmationStatus"].as_str()?) && status["err"].is_null())
        .then_some(())
}

/// What is not as it was.
fn compare(rpc: Rpc, confirmed: &Confirmed) -> Result<Vec<String>, String> {
    let mut lost = Vec::new();
    let transactions = rpc.number("getTransactionCount", json!([at_confirmed()]))?;
    if transactions < confirmed.transactions {
        lost.push(format!("{transactions} transactions, {} had been confirmed", confirmed.transactions));
    }
    for (address, lamports) in &confirmed.balances {
        let balance = rpc.number("getBalance", json!([address]))?;
        if balance != *lamports {
            lost.push(format!("{address} has {balance} lamports, {lamports} had been confirmed"));
        }
    }
    Ok(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_confirmed_counts() {
        let status = |commitment: &str, err: Value| landed(&json!({ "confirmationStatus": commitment, "err": err }));
        assert_eq!(status("confirmed", Value::Null), Some(()));
        assert_eq!(status("finalized", Value::Null), Some(()));
        assert_eq!(status("processed", Value::Null), None);
        assert_eq!(status("confirmed", json!("AccountNotFound")), None);
        assert_eq!(landed(&Value::Null), None);
    }

    #[test]
    fn a_seed_gives_its_addresses_again() {
        let (mut one, mut other) = (Random(7), Random(7));
        let first = one.address();
        assert_eq!(first, other.address());
        assert_ne!(first, one.address());
        assert!((32..=44).contains(&first.len()), "{first}");
    }
}
