//! `simulate`: runs seeds of the simulator, one or many.
//!
//! reads   the command line
//! writes  what came of each seed; where one fails, the command that runs it again
//! memory  that of the runs

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hearth_sim::plan::Plan;
use hearth_sim::runs::{Tally, run_seeds, threads};
use hearth_sim::shrink::shrink;
use hearth_sim::world::{Outcome, run};
use parking_lot::Mutex;

const USAGE: &str = "\
Runs a cluster of whole nodes on virtual time, with faults drawn from a seed, and says what did not hold.

simulate [--seeds N] [--first SEED] [--hours H] [--threads N]
  --seeds N       how many seeds (200; without end where there are hours)
  --first SEED    the first of them (0)
  --hours H       begin no seed after so many hours
  --threads N     seeds at a time (as many as there are cores)

simulate --seed SEED [--nodes N] [--slots N] [--faults KIND,... | none] [--trace SLOT] [--shrink]
  --seed SEED     run this one, and print its faults and a digest of all that happened
  --nodes N       nodes, 4 to 32 (4)
  --slots N       slots at least (100)
  --faults KIND   of the seed's faults only those of these kinds
  --trace SLOT    print who knew what of this slot, and when
  --shrink        where it fails, take away faults and nodes as long as it does

The exit code is 1 where an invariant is broken, and 2 where the options are wrong.";
/// Interval between two reports of progress.
const SAY_EVERY: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|arg| arg == "--help" || arg == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let result = options(std::env::args().skip(1)).and_then(|options| match options.contains_key("seed") {
        true => one(&options),
        false => many(&options),
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("simulate: {why}; `simulate --help` lists the options");
            ExitCode::from(2)
        }
    }
}

type Options = BTreeMap<String, String>;

/// `--name VALUE` and `--shrink`.
fn options(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    const NAMES: [&str; 9] = ["seed", "seeds", "first", "hours", "threads", "nodes", "slots", "faults", "trace"];
    let mut options = Options::new();
    while let Some(arg) = args.next() {
        let name = arg.strip_prefix("--").ok_or_else(|| format!("`{arg}` is not an option"))?;
        let value = match name {
            "shrink" => String::new(),
            _ if NAMES.contains(&name) => args.next().ok_or_else(|| format!("--{name} has no value"))?,
            _ => return Err(format!("there is no option --{name}")),
        };
        options.insert(name.to_owned(), value);
    }
    Ok(options)
}

fn number<T: std::str::FromStr>(options: &Options, name: &str) -> Result<Option<T>, String> {
    let Some(value) = options.get(name) else { return Ok(None) };
    value.parse().map(Some).map_err(|_| format!("--{name} {value}: that is not such a number"))
}

/// Runs one seed; whether all held.
fn one(options: &Options) -> Result<bool, String> {
    let mut plan = Plan::of(number(options, "seed")?.expect("it was asked for"));
    if let Some(nodes) = number::<usize>(options, "nodes")? {
        if !(4..=32).contains(&nodes) {
            return Err("a run has 4 to 32 nodes".to_owned());
        }
        plan = plan.with_nodes(nodes);
    }
    if let Some(slots) = number(options, "slots")? {
        plan.slots = slots;
    }
    if let Some(faults) = options.get("faults") {
        plan = plan.only(faults)?;
    }
    for fault in &plan.faults {
        println!("{} from slot {} for {}, {}", fault.kind.name(), fault.from_slot, fault.slots, fault.amount);
    }
    println!("{} nodes, the victim is node {}", plan.nodes, plan.victim);
    let outcome = run(&plan, number(options, "trace")?);
    outcome.trace.iter().for_each(|line| println!("{line}"));
    tell(&outcome);
    let Some((violation, _)) = outcome.violation else { return Ok(true) };
    if options.contains_key("shrink") {
        let least = shrink(plan, violation.invariant, |plan| println!("still fails: simulate {}", plan.options()));
        println!("the least that fails: simulate {}", least.options());
    }
    Ok(false)
}

/// Runs many seeds; whether all held.
fn many(options: &Options) -> Result<bool, String> {
    let hours: Option<f64> = number(options, "hours")?;
    let until = hours.map(|hours| Instant::now() + Duration::from_secs_f64(hours.max(0.0) * 3_600.0));
    let count = number(options, "seeds")?.unwrap_or(if hours.is_some() { u64::MAX } else { 200 });
    let first = number(options, "first")?.unwrap_or(0);
    let threads = number(options, "threads")?.unwrap_or_else(threads);
    let said = Mutex::new(Instant::now());
    let goes_on = |tally: &Tally| {
        let mut said = said.lock();
        if said.elapsed() >= SAY_EVERY {
            *said = Instant::now();
            println!("{}", tally.text());
        }
        until.is_none_or(|until| Instant::now() < until)
    };
    let see = |outcome: &Outcome| {
        if outcome.violation.is_some() {
            tell(outcome);
        }
    };
    let tally = run_seeds((first, count), threads, goes_on, see);
    println!("{}", tally.text());
    Ok(tally.failed.is_empty())
}

/// Says what came of a run, and where it failed the command that runs it again.
fn tell(outcome: &Outcome) {
    let Outcome { plan, digest, virtual_ns, rooted, transactions: (sent, confirmed), starts, traffic, .. } = outcome;
    let Outcome { stake_changes, snapshots: (snapshots, on_snapshot), .. } = outcome;
    println!(
        "seed {}: digest {digest:016x}, {:.1} s, {rooted} blocks rooted, {confirmed} of {sent} transactions seen \
         confirmed, {stake_changes} changes of stake, {snapshots} snapshots, {starts} starts of which {on_snapshot} on \
         a snapshot, {} datagrams sent, {} lost, {} cut off",
        plan.seed,
        *virtual_ns as f64 / 1e9,
        traffic.sent,
        traffic.lost,
        traffic.cut
    );
    if let Some((violation, second)) = &outcome.violation {
        println!("seed {}: {} is broken at {second:.3} s: {}", plan.seed, violation.invariant.name(), violation.what);
        println!("run it again: cargo run --release --package hearth-sim --bin simulate -- {}", plan.options());
    }
}
