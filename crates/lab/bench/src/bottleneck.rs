//! Finds what limits the rate: the monitor's diagnosis of the measured time.
//!
//! reads   the node's workspace, as `hearth monitor` does
//! writes  [`Bottleneck`]
//! memory  two looks at the workspace

use hearth_machine::process::CoresHad;
use hearth_monitor::{Diagnosis, Finding, NodeCounters, Sample, Watch, diagnose};
use hearth_pipeline::node::Node;

use super::report::Bottleneck;

/// A node, with its counters when measuring began and at the end of the last measured second.
#[derive(Debug)]
pub struct WatchedNode {
    watch: Watch,
    begin: NodeCounters,
    end: Option<NodeCounters>,
}

impl WatchedNode {
    /// Starts watching when measuring begins. `None` if the node's workspace is gone or belongs to another node by now.
    pub fn begin(node: &Node) -> Option<Self> {
        let watch = Watch::attach(&[node.workspace().path().to_owned()]).ok()?;
        Some(Self { begin: watch.look(), watch, end: None })
    }

    /// Records the end of a measured second.
    pub fn second(&mut self) {
        self.end = Some(self.watch.look());
    }

    /// Returns what limited the node.
    pub fn bottleneck(&self) -> Bottleneck {
        self.diagnosis().as_ref().map(bottleneck).unwrap_or_default()
    }

    /// Returns the monitor's diagnosis; none before the first second is over.
    pub fn diagnosis(&self) -> Option<Diagnosis> {
        let end = self.end.as_ref()?;
        Some(diagnose(&Sample::between(&self.watch, &self.begin, end)))
    }
}

/// A node that accepted nothing for this many seconds stood still: nothing else explains the load's wait.
const STOOD_STILL_S: f64 = 1.0;
/// A stall of this share of the measured time takes precedence over a full part of the load.
const STALL_SHARE: f64 = 0.05;

/// If more than this share of the cores was waited for, other programs had them.
const WAITED: f64 = 0.1;

/// Settings and results of a load whose node is another process.
#[derive(Clone, Copy, Debug)]
pub struct LoadSummary {
    /// The requested rate in transactions per second; `None` for as many as the node accepts.
    pub rate: Option<f64>,
    /// Whether the rate was kept.
    pub is_kept: bool,
    /// Transactions sent per second.
    pub sent_per_s: f64,
    /// The worst lag behind the schedule, in seconds.
    pub lag_s_max: f64,
    /// Cores that the load may use.
    pub cores: f64,
    /// CPU time that the load got, in cores.
    pub had: CoresHad,
    /// The longest time in which the node acknowledged or executed nothing, in seconds.
    pub stall_s: f64,
    /// The measured time, in seconds.
    pub measured_s: f64,
}

/// Returns what limited a load whose node cannot be observed: a full part of its own; the requested rate, if it was
/// kept; or what the load waited for, cores or the node.
pub fn limit_of_load(load: Option<&Diagnosis>, driven: LoadSummary) -> Bottleneck {
    let is_full =
        |load: &&Diagnosis| matches!(load.finding, Finding::KindFull | Finding::CoreFull | Finding::AllCoresFull);
    let LoadSummary { rate, is_kept, sent_per_s, lag_s_max, cores, had: CoresHad { had, waited_for }, .. } = driven;
    let missed = rate.map_or(String::new(), |rate| {
        format!("the load sent {sent_per_s:.0} of {rate} txn/s and was {lag_s_max:.1} s late at most; ")
    });
    let stood_still = (driven.stall_s >= STOOD_STILL_S).then(|| {
        let why = format!("{missed}the node stood still: it took no transaction for {:.1} s", driven.stall_s);
        Bottleneck { tile: "target".into(), why }
    });
    let is_long = driven.stall_s >= STALL_SHARE * driven.measured_s;
    let is_kept = is_kept && stood_still.is_none();
    match (load.filter(is_full), rate) {
        _ if stood_still.is_some() && is_long => {}
        (Some(load), _) => return bottleneck(load),
        (None, Some(rate)) if is_kept => {
            return Bottleneck { tile: "none".into(), why: format!("the load was held at {rate} txn/s") };
        }
        _ => {}
    }
    if let Some(target) = stood_still {
        return target;
    }
    // Without a rate the load takes all available cores, and so does a node on the same machine.
    let is_starved = rate.is_some() && waited_for > WAITED * cores;
    let cores = format!(
        "it got {had:.1} of {cores} cores and waited for {waited_for:.1} more, which the node or other programs had"
    );
    match is_starved {
        true => {
            Bottleneck { tile: "machine".into(), why: format!("{missed}none of its tiles is saturated, but {cores}") }
        }
        false => {
            let why = format!("{missed}the target accepts no more: no tile of the load is saturated; {cores}");
            Bottleneck { tile: "target".into(), why }
        }
    }
}

fn bottleneck(diagnosis: &Diagnosis) -> Bottleneck {
    let other = if diagnosis.finding == Finding::CoresTaken { "machine" } else { "none" };
    Bottleneck { tile: diagnosis.kind.clone().unwrap_or(other.into()), why: diagnosis.to_string() }
}

#[cfg(test)]
mod tests {
    use hearth_monitor::{Advice, CoreSample, LinkSample, Regimes, TileSample, TileState};

    use super::*;

    #[test]
    fn the_sentence_is_the_monitors() {
        let key = Some("layout.verify_tile_count".into());
        let advice = Some(Advice { key, value: Some("5".into()), says: "add a verify tile".into() });
        let says = "verify is the limit".to_owned();
        let of = |finding, kind: Option<&str>| {
            bottleneck(&Diagnosis { finding, kind: kind.map(Into::into), says: says.clone(), advice: advice.clone() })
        };
        let full = of(Finding::KindFull, Some("verify"));
        assert_eq!(
            (&full.tile[..], &full.why[..]),
            ("verify", "verify is the limit; add a verify tile (`layout.verify_tile_count = 5`)")
        );
        assert_eq!(of(Finding::CoresTaken, None).tile, "machine");
        assert_eq!(of(Finding::Room, None).tile, "none");
    }

    /// A load alone, with a core for each tile. Its first tile is busy and blocked for these shares of the time.
    fn load(busy: f64, blocked: f64) -> Diagnosis {
        let tile = |kind: &str, core, regimes| TileSample {
            tile: format!("{kind}:0"),
            kind: kind.into(),
            core: Some(core),
            load: true,
            state: TileState::Run,
            regimes,
            ..TileSample::default()
        };
        let core = |core, kind: &str, busy| CoreSample { core, tiles: vec![format!("{kind}:0")], busy, taken: 0.0 };
        let (producer, consumer) = ("benchg:0".to_owned(), "benchs:0".to_owned());
        diagnose(&Sample {
            alive: true,
            txn_per_s: 9e4,
            cores_allowed: 4,
            tiles: vec![
                tile("benchg", 0, Regimes { finish: busy, backp: blocked, ..Regimes::default() }),
                tile("benchs", 1, Regimes { finish: 0.06, wait: 0.94, ..Regimes::default() }),
            ],
            cores: vec![core(0, "benchg", busy), core(1, "benchs", 0.06)],
            links: vec![LinkSample { producer, consumer, slow_per_s: 900.0, ..LinkSample::default() }],
            ..Sample::default()
        })
    }

    #[test]
    fn a_load_that_waits_is_limited_by_its_target_and_one_that_is_full_by_itself() {
        let kept = LoadSummary {
            rate: None,
            is_kept: true,
            sent_per_s: 500.0,
            lag_s_max: 0.01,
            cores: 4.0,
            had: CoresHad { had: 0.9, waited_for: 0.1 },
            stall_s: 0.2,
            measured_s: 20.0,
        };
        let limit = |load: Option<&Diagnosis>, rate| limit_of_load(load, LoadSummary { rate, ..kept });
        let waits = load(0.1, 0.8);
        assert_eq!((waits.finding, waits.kind.as_deref()), (Finding::WaitsOutside, Some("benchs")), "{waits}");
        let target = limit(Some(&waits), None);
        assert_eq!(target.tile, "target");
        assert!(
            target.why.starts_with("the target accepts no more: no tile of the load is saturated; it got 0.9"),
            "{target:?}"
        );
        assert_eq!(limit(Some(&waits), Some(500.0)).tile, "none");
        let full = load(0.99, 0.0);
        assert_eq!(limit(Some(&full), None).tile, "benchg", "{full}");
        assert_eq!(limit(Some(&full), Some(500.0)).tile, "benchg", "it did not keep up");
        assert_eq!(limit(None, None).tile, "target");
    }

    #[test]
    fn a_rate_that_was_not_kept_is_no_limit() {
        let missed = LoadSummary {
            rate: Some(8000.0),
            is_kept: false,
            sent_per_s: 5820.4,
            lag_s_max: 7.04,
            cores: 2.0,
            had: CoresHad { had: 0.4, waited_for: 0.1 },
            stall_s: 0.2,
            measured_s: 20.0,
        };
        let waits = load(0.1, 0.8);
        let found = limit_of_load(Some(&waits), missed);
        assert_eq!(found.tile, "target");
        let said = "the load sent 5820 of 8000 txn/s and was 7.0 s late at most; the target accepts no more";
        assert!(found.why.starts_with(said), "{}", found.why);
        let starved = LoadSummary { had: CoresHad { had: 0.9, waited_for: 0.8 }, ..missed };
        let found = limit_of_load(None, starved);
        assert_eq!(found.tile, "machine");
        assert!(
            found.why.contains("none of its tiles is saturated, but it got 0.9 of 2 cores and waited for 0.8"),
            "{found:?}"
        );
        assert_eq!(limit_of_load(Some(&load(0.99, 0.0)), starved).tile, "benchg", "the load itself was full");
    }

    #[test]
    fn a_node_that_stood_still_is_the_limit() {
        let still = LoadSummary {
            rate: Some(8000.0),
            is_kept: false,
            sent_per_s: 6400.0,
            lag_s_max: 4.0,
            cores: 2.0,
            had: CoresHad { had: 0.5, waited_for: 0.9 },
            stall_s: 4.02,
            measured_s: 20.0,
        };
        let said = "the node stood still: it took no transaction for 4.0 s";
        for (load, rate) in [(None, Some(8000.0)), (None, None), (Some(load(0.99, 0.0)), None)] {
            let found = limit_of_load(load.as_ref(), LoadSummary { rate, ..still });
            assert!(found.tile == "target" && found.why.ends_with(said), "{found:?}");
        }
        let short = LoadSummary { rate: None, measured_s: 600.0, ..still };
        assert_eq!(limit_of_load(Some(&load(0.99, 0.0)), short).tile, "benchg", "most of the time it was full");
        let kept = LoadSummary { is_kept: true, lag_s_max: 0.0, stall_s: 0.1, ..still };
        assert_eq!(limit_of_load(None, kept).tile, "none");
    }
}
