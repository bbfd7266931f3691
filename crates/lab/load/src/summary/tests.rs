//! Figures and limits of runs whose result is known.

use proptest::prelude::*;

use super::*;
use crate::blocks::{Blocks, tests as blocks};
use crate::ethereum::workload::Kind;
use crate::options::{GiveUp, SendOptions, SideMeasurements, Timing};
use crate::series::Series;

/// The report of a run with these blocks.
fn of(blocks: Blocks, begin: Instant, end: Instant) -> Report {
    report_of(blocks, begin, end, Duration::ZERO)
}

/// The same with a warm-up.
fn report_of(blocks: Blocks, begin: Instant, end: Instant, warmup: Duration) -> Report {
    let timing = Timing {
        warmup,
        duration: Duration::ZERO,
        pids: vec![],
        beside: SideMeasurements::default(),
        give_up: GiveUp::default(),
    };
    let asked = RunOptions {
        networks: vec![],
        timeout: Duration::ZERO,
        patience: Duration::ZERO,
        mix: Kind::Transfer.into(),
        senders: 1,
        pace: SendOptions { rate: None, batch: 1, under_way: 1, count: None, presign: 0 },
        timing,
    };
    report(&ReportInputs {
        client: String::new(),
        asked: &asked,
        way: String::new(),
        accounts: 1,
        window: Window {
            begin,
            began_unix_s: 0,
            end,
            counted: Duration::from_secs(1),
            server: None,
            client: Duration::ZERO,
            resident: None,
            machine: None,
            series: Series::default(),
            profile: None,
            halts: Spans::default(),
        },
        chain: Chain { blocks, ..Chain::default() },
        outcomes: &Outcomes::default(),
        tallies: vec![],
        receipts: Receipts::default(),
    })
}

proptest! {
    #[test]
    fn figures_of_blocks_on_few_lines_are_those_of_all(
        run in blocks::runs(), begin in 0.0..1.0f64, end in 0.0..1.0f64, sent_all: bool,
    ) {
        let (whole, few, begin, end) = blocks::both(&run, (begin, end), sent_all);
        let (whole, few) = (of(whole, begin, end), of(few, begin, end));
        let is_near = |one: f64, other: f64| (one - other).abs() <= 1e-9 * other.abs();
        prop_assert!(is_near(few.tps, whole.tps) && is_near(few.mgas_per_s, whole.mgas_per_s), "{few:?}");
        let apart = few.block_time_s.zip(whole.block_time_s).map_or(0.0, |(few, whole)| (few - whole).abs());
        prop_assert!(apart < 1e-9 && few.block_time_s.is_some() == whole.block_time_s.is_some(), "{few:?}");
        let counts = |report: &Report| (report.block_count(), report.blocks_too_dear);
        prop_assert_eq!(counts(&few), counts(&whole));
        // The transactions of a merged line are spread evenly since the line before, so they may fall into a
        // neighbouring second.
        let sum = |report: &Report| report.per_second().iter().map(|second| second.1).sum::<f64>();
        let most = few.blocks.iter().map(|line| line.ours).max().unwrap_or_default() as f64;
        prop_assert!((sum(&few) - sum(&whole)).abs() <= 2.0 * most + 1e-6, "{} and {}", sum(&few), sum(&whole));
        prop_assert!((few.blocks_together() > 1) == few.text().contains(" on a line of the report)"));
    }
}

fn limit(shares: &Shares, seen: RunObservations) -> Limit {
    Cause::of(shares, &seen).limit()
}

fn shares(busy: f64, answers: f64, idle: f64) -> Shares {
    Shares { busy, answers, idle, ..Shares::default() }
}

/// A run of 20 s without a rate in which no resource was scarce.
const FREE: RunObservations = RunObservations {
    client_cores: 0.1,
    threads: 2.0,
    rate: false,
    kept: true,
    behind: SenderLag { node: Duration::ZERO, own: Duration::ZERO },
    no_room: false,
    reads_late: false,
    reading_lag: Duration::ZERO,
    pause: None,
    gone_from: None,
    stalled: Duration::ZERO,
    halted: Duration::ZERO,
    measured: Duration::from_secs(20),
    emptied: false,
    poor: false,
};

#[test]
fn a_limit_says_why() {
    let why =
        |shares: &Shares, seen: &RunObservations| Cause::of(shares, seen).reason(shares, seen).unwrap_or_default();
    let missed = RunObservations { rate: true, kept: false, ..FREE };
    let stopped = Shares { stalled: 0.2, ..shares(0.05, 0.21, 0.74) };
    let waited = RunObservations {
        behind: SenderLag { node: Duration::from_secs(5), own: Duration::ZERO },
        stalled: Duration::from_secs(4),
        ..missed
    };
    assert!(why(&stopped, &waited).starts_with("it stood still for 4.0 of 20.0 s"), "{}", why(&stopped, &waited));
    // Transactions over QUIC have no answers, but the blocks show it.
    let paused = RunObservations { pause: Some(Duration::from_secs(4)), ..FREE };
    let said = "it stood still for 4.0 of 20.0 s, in which no block came";
    assert_eq!(why(&shares(0.05, 0.0, 0.95), &paused), said);
    // A node that is gone did not just stand still.
    let gone = RunObservations { gone_from: Some(Duration::from_millis(5200)), ..paused };
    assert_eq!(why(&shares(0.05, 0.0, 0.95), &gone), "it gave no answer from 5.2 s on");
    assert_eq!(limit(&shares(0.05, 0.0, 0.95), RunObservations { rate: true, ..gone }), Limit::Node);
    // One thread in four waited for part of the time: the longest wait counts, not the average.
    let half = RunObservations { stalled: Duration::from_secs(3), ..paused };
    assert_eq!(why(&Shares { stalled: 0.06, ..shares(0.05, 0.1, 0.85) }, &half), said);
    let halted = RunObservations { halted: Duration::from_secs(4), ..FREE };
    let itself = why(&shares(0.05, 0.4, 0.5), &halted);
    assert_eq!(itself, "the load's own threads did not run for 4.0 of 20.0 s, as after SIGSTOP");
    assert_eq!(why(&shares(0.05, 0.3, 0.6), &FREE), "", "a node that is full needs no excuse");
    // Neither a thread nor the machine is fully busy, but the load was late.
    let own = SenderLag { node: Duration::from_millis(400), own: Duration::from_millis(3200) };
    let late = why(&shares(0.63, 0.1, 0.27), &RunObservations { behind: own, ..missed });
    assert!(late.contains("behind the rate for 3.2 s while they computed or waited for a core"), "{late}");
    let computes = why(&shares(0.63, 0.35, 0.02), &FREE);
    assert!(computes.contains("computed for longer (63 % of the time) than they waited for answers (35 %)"));
    let reads = RunObservations { reads_late: true, reading_lag: Duration::from_millis(2500), ..FREE };
    let reads = why(&shares(0.3, 0.0, 0.7), &reads);
    assert!(reads.contains("it read blocks 2.5 s after") && reads.ends_with("threads were not late"), "{reads}");
    assert!(why(&shares(0.95, 0.0, 0.05), &FREE).contains("its busiest sending thread"));
    assert!(why(&shares(0.5, 0.3, 0.2), &RunObservations { client_cores: 1.9, ..FREE }).contains("1.9 of the 2 cores"));
}

#[test]
fn a_node_is_gone_from_its_last_answer_on() {
    let zero = Instant::now();
    let at = |seconds| zero + Duration::from_secs(seconds);
    let connection = || RpcError::Connection { url: String::new(), why: String::new() };
    let gone = |lost, last| {
        let chain = Chain { lost: Some(lost), lost_from: Some(at(last)), ..Chain::default() };
        gone_from(&chain, at(5), at(25)).map(|from| from.as_secs())
    };
    assert_eq!(gone(connection(), 10), Some(5));
    assert_eq!(gone(connection(), 2), Some(0), "in the warm-up");
    assert_eq!(gone(connection(), 25), None, "after the measured time");
    assert_eq!(gone(RpcError::Status { url: String::new(), status: 500 }, 10), None, "it answers");
    assert_eq!(gone_from(&Chain::default(), at(5), at(25)), None);
}

#[test]
fn a_pause_is_a_time_without_blocks_that_is_not_usual() {
    let zero = Instant::now();
    let at = |ms: u64| zero + Duration::from_millis(ms);
    let pause_of = |seen: &[u64], end| {
        let blocks: Vec<Block> = seen.iter().zip(1..).map(|(ms, number)| Block::one(number, at(*ms))).collect();
        let blocks: Vec<_> = blocks.iter().collect();
        pause(&blocks, &Spans::default(), zero, at(end)).map(|pause| pause.as_millis())
    };
    let steady: Vec<u64> = (1..50).map(|number| 400 * number).collect();
    assert_eq!(pause_of(&steady, 20_000), None);
    let stopped: Vec<u64> = steady.iter().copied().filter(|ms| !(8_000..12_000).contains(ms)).collect();
    assert_eq!(pause_of(&stopped, 20_000), Some(4_400));
    assert_eq!(pause_of(&steady[..20], 20_000), Some(12_000), "none came any more");
    assert_eq!(pause_of(&[7_000, 19_000, 31_000], 40_000), None, "a block every twelve seconds");
    assert_eq!(pause_of(&[], 20_000), None, "nothing is known of its blocks");
    // The load itself did not run, and reads all blocks of that time when it runs again.
    let blocks: Vec<Block> = stopped.iter().zip(1..).map(|(ms, number)| Block::one(number, at(*ms))).collect();
    let blocks: Vec<_> = blocks.iter().collect();
    let mut halts = Spans::default();
    halts.push(at(7_700), at(11_900));
    assert_eq!(pause(&blocks, &halts, zero, at(20_000)), None);
}

#[test]
fn only_a_node_that_owes_something_stands_still() {
    let mut counts = Counts::default();
    counts.latency_us.record(400_000).unwrap();
    assert!(!is_owed(&counts), "nothing was sent while no block came");
    counts.latency_us.record(3_200_000).unwrap();
    assert!(is_owed(&counts));
    assert!(is_owed(&Counts { unknown: 1, ..Counts::default() }), "it never came back");
}

#[test]
fn a_stall_is_as_long_as_any_thread_waited() {
    let zero = Instant::now();
    let at = |ms| zero + Duration::from_millis(ms);
    // One of four threads waited for nothing, and one had waited since before the measured time.
    let tallies: Vec<SenderTally> = [None, Some((0, 5_000)), Some((2_000, 6_000)), Some((2_100, 5_900))]
        .map(|stall| {
            let mut tally = SenderTally::default();
            stall.into_iter().for_each(|(from, to)| tally.stalls.push(at(from), at(to)));
            tally
        })
        .into();
    let stalled = |halts: &Spans| super::stalled(&tallies, halts, at(1_000), at(9_000));
    assert_eq!(stalled(&Spans::default()), Duration::from_secs(5));
    let mut halts = Spans::default();
    halts.push(at(2_000), at(6_000));
    assert_eq!(stalled(&halts), Duration::from_secs(1), "the load did not run for four of them");
}

#[test]
fn limiting_side_is_named() {
    let [waits, computes] = [(1, 0), (0, 1)]
        .map(|(node, own)| SenderLag { node: Duration::from_secs(node), own: Duration::from_secs(own) });
    let free = FREE;
    // Four senders on two cores cannot use more than two.
    assert_eq!(limit(&shares(0.5, 0.3, 0.2), RunObservations { client_cores: 1.9, ..free }), Limit::Load);
    assert_eq!(limit(&shares(0.95, 0.0, 0.0), free), Limit::Load);
    assert_eq!(limit(&shares(0.05, 0.93, 0.0), free), Limit::RoundTrips);
    assert_eq!(limit(&shares(0.05, 0.3, 0.6), free), Limit::Node);
    let full = RunObservations { emptied: true, ..free };
    assert_eq!(limit(&shares(0.05, 0.3, 0.6), full), Limit::UnderWay);
    // The maximum was under way when the node stood still: with a higher limit it would have stood as long.
    let pause = Some(Duration::from_secs(3));
    assert_eq!(limit(&shares(0.05, 0.0, 0.95), RunObservations { pause, ..full }), Limit::Node);
    let short = Some(Duration::from_millis(900));
    assert_eq!(
        limit(&shares(0.05, 0.0, 0.95), RunObservations { pause: short, ..full }),
        Limit::UnderWay,
        "less than a twentieth"
    );
    // Over QUIC a rate is kept even if the node accepts nothing.
    let kept = RunObservations { rate: true, ..free };
    assert_eq!(limit(&shares(0.05, 0.0, 0.95), kept), Limit::Rate);
    assert_eq!(limit(&shares(0.05, 0.0, 0.95), RunObservations { pause, ..kept }), Limit::Node);
    assert_eq!(limit(&Shares::default(), kept), Limit::Unknown, "stopped in the warm-up");
    let halted = RunObservations { halted: Duration::from_secs(4), ..free };
    assert_eq!(limit(&shares(0.05, 0.4, 0.5), halted), Limit::Load);
    assert_eq!(limit(&shares(0.05, 0.4, 0.5), RunObservations { rate: true, kept: false, ..halted }), Limit::Load);
    let both = RunObservations { pause: Some(Duration::from_secs(6)), ..halted };
    assert_eq!(limit(&shares(0.05, 0.4, 0.5), both), Limit::Node, "the node stood still for longer");
    let stalled = RunObservations { stalled: Duration::from_secs(6), ..halted };
    let owed = Shares { stalled: 0.3, ..shares(0.05, 0.8, 0.15) };
    assert_eq!(limit(&owed, stalled), Limit::Node, "its blocks came, its answers did not");
    let stood_still = Shares { stalled: 0.2, ..shares(0.7, 0.25, 0.05) };
    assert_eq!(limit(&Shares { busy: 0.05, ..stood_still }, free), Limit::Node);
    // Four of twenty seconds, between answers that come at once.
    let paused = Shares { stalled: 0.2, ..shares(0.1, 0.88, 0.02) };
    assert_eq!(limit(&paused, free), Limit::Node);
    assert_eq!(limit(&Shares { stalled: 0.01, ..paused }, free), Limit::RoundTrips, "a hiccup");
    assert_eq!(limit(&Shares::default(), free), Limit::Unknown, "nothing was measured");
    let unread = RunObservations { reads_late: true, emptied: true, ..free };
    assert_eq!(limit(&shares(0.05, 0.0, 0.95), unread), Limit::Load, "what seems under way is in blocks");
    assert_eq!(limit(&shares(0.05, 0.93, 0.0), unread), Limit::Load, "more threads would be read later still");
    assert_eq!(limit(&paused, unread), Limit::Node, "the reading waited, too");
    // A rate was not kept because the machine had no core for the senders, whose threads are seldom busy.
    let missed = RunObservations { rate: true, kept: false, ..free };
    let late = RunObservations { behind: computes, ..missed };
    assert_eq!(limit(&shares(0.05, 0.02, 0.93), late), Limit::Load);
    assert_eq!(limit(&shares(0.88, 0.45, 0.05), late), Limit::Load);
    // A node that answers late: always, or for four of twenty seconds.
    let waited = RunObservations { behind: waits, ..missed };
    assert_eq!(limit(&shares(0.05, 0.97, 0.0), waited), Limit::RoundTrips);
    assert_eq!(limit(&Shares { stalled: 0.95, ..shares(0.05, 0.97, 0.0) }, waited), Limit::Node);
    assert_eq!(limit(&Shares { stalled: 0.2, ..shares(0.05, 0.21, 0.74) }, waited), Limit::Node);
    assert_eq!(limit(&shares(0.05, 0.3, 0.6), RunObservations { emptied: true, ..waited }), Limit::Node, "at a rate");
    assert_eq!(limit(&shares(0.05, 0.5, 0.4), RunObservations { kept: true, ..missed }), Limit::Rate);
    assert_eq!(limit(&shares(0.05, 0.3, 0.6), RunObservations { no_room: true, ..late }), Limit::Node);
    assert_eq!(limit(&shares(0.05, 0.3, 0.6), RunObservations { poor: true, ..missed }), Limit::Funds);
    // Whatever else was observed, there is a limit.
    let all = [missed, late, waited].map(|seen| limit(&shares(0.05, 0.3, 0.6), seen));
    assert!(!all.contains(&Limit::Unknown), "{all:?}");
}

#[test]
fn a_busy_machine_is_reported() {
    let window = |server, machine| Window {
        begin: Instant::now(),
        began_unix_s: 0,
        end: Instant::now(),
        counted: Duration::from_secs(10),
        server,
        client: Duration::from_secs(1),
        resident: None,
        machine,
        series: Series::default(),
        profile: None,
        halts: Spans::default(),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let quiet = Shares { waited: 0.02, ..Shares::default() };
    let starved = Shares { waited: 0.4, ..Shares::default() };
    assert_eq!(noise(&quiet, &window(None, Some((0.9, 0.01)))), None, "that may be the node");
    let text = noise(&quiet, &window(Some(Duration::from_secs(1)), Some((0.2 / cores + 0.5, 0.0)))).unwrap();
    assert_eq!(text, "the machine is not quiet: other programs used 50 % of the cores' time");
    let text = noise(&starved, &window(None, Some((0.9, 0.2)))).unwrap();
    assert!(text.contains("waited 40 % of its time for a core, which the node or other programs had"), "{text}");
    assert!(text.ends_with("the hypervisor gave 20 % of the time to others"), "{text}");
}

/// The measured rate of a load of 100 per second over 30 s, with a block every `each` seconds, the first at `first`.
/// Sending ends with the measured time.
fn measured_rate(each: f64, first: f64, warmup: f64) -> Report {
    let zero = Instant::now();
    let at = |seconds: f64| zero + Duration::from_secs_f64(seconds);
    let (begin, end) = (warmup, warmup + 30.0);
    let mut blocks = Blocks::default();
    let (mut seen, mut before, mut number) = (first, 0.0f64, 1);
    while before < end {
        let ours = (100.0 * (seen.min(end) - before)).round() as u64;
        blocks.push(Block { ours, gas_used: 21_000 * ours, ..Block::one(number, at(seen)) }, &[None, None]);
        (before, seen, number) = (seen, seen + each, number + 1);
    }
    let begin_at = at(begin);
    report_of(blocks, begin_at, at(end), Duration::from_secs_f64(warmup))
}

#[test]
fn a_rate_over_few_blocks_is_not_one_of_whole_blocks() {
    for (each, first, warmup) in
        [(12.0, 7.0, 3.0), (12.0, 12.0, 3.0), (12.0, 1.0, 0.0), (20.0, 5.0, 3.0), (0.5, 0.1, 3.0)]
    {
        let report = measured_rate(each, first, warmup);
        assert!((report.tps - 100.0).abs() < 1.0, "a block every {each} s: {} a second", report.tps);
        assert!((report.mgas_per_s - 2.1).abs() < 0.03);
        assert_eq!(report.text().contains("of few blocks"), each > 5.0, "{}", report.text());
    }
}

#[test]
fn a_full_block_at_the_end_counts_by_its_time() {
    // A node that makes 1,000 every ten seconds and has a backlog: the block after the end is not the load's merit.
    let zero = Instant::now();
    let at = |seconds: u64| zero + Duration::from_secs(seconds);
    let mut blocks = Blocks::default();
    for number in 1..=6u64 {
        let block = Block { ours: 1000, under_way: 20_000, ..Block::one(number, at(10 * number)) };
        blocks.push(block, &[None, None]);
    }
    let report = report_of(blocks, at(5), at(35), Duration::from_secs(5));
    assert!((report.tps - 100.0).abs() < 0.1, "{}", report.tps);
}

#[test]
fn of_no_transaction_there_is_no_cost() {
    let report = of(Blocks::default(), Instant::now(), Instant::now() + Duration::from_secs(1));
    assert_eq!((report.client_cpu_us, report.server_cpu_us), (None, None));
    assert!(!report.text().contains("µs a transaction"), "{}", report.text());
}
