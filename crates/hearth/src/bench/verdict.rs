//! What limits the rate: the monitor's diagnosis of the time that was measured.
//!
//! reads   the node's workspace, as `hearth monitor` does
//! writes  [`Bottleneck`]
//! memory  two looks

use hearth_monitor::{Diagnosis, Finding, Look, Sample, Watch, diagnose};
use hearth_pipeline::node::Node;

use super::report::Bottleneck;

/// A node and what it had done when measuring began and at the end of the last measured second.
#[derive(Debug)]
pub struct Watched {
    watch: Watch,
    begin: Look,
    end: Option<Look>,
}

impl Watched {
    /// Measuring begins. `None` where the node's workspace is gone, or is another's by now.
    pub fn begin(node: &Node) -> Option<Self> {
        let watch = Watch::attach(&[node.workspace().path().to_owned()]).ok()?;
        Some(Self { begin: watch.look(), watch, end: None })
    }

    /// A measured second is over.
    pub fn second(&mut self) {
        self.end = Some(self.watch.look());
    }

    /// What limited the node meanwhile.
    pub fn bottleneck(&self) -> Bottleneck {
        self.diagnosis().as_ref().map(bottleneck).unwrap_or_default()
    }

    /// What was told of it; nothing before the first second is over.
    pub fn diagnosis(&self) -> Option<Diagnosis> {
        let end = self.end.as_ref()?;
        Some(diagnose(&Sample::between(&self.watch, &self.begin, end)))
    }
}

/// What limited a load of whose node nothing is seen: what of its own was full, or the rate that it was held at, or
/// else the node, of which `target` tells. That the load waits, or that others have its cores, is the node's doing.
pub fn limit_of_load(load: Option<&Diagnosis>, rate: Option<f64>, target: impl FnOnce() -> String) -> Bottleneck {
    let is_full =
        |load: &&Diagnosis| matches!(load.finding, Finding::KindFull | Finding::CoreFull | Finding::AllCoresFull);
    match (load.filter(is_full), rate) {
        (Some(load), _) => bottleneck(load),
        (None, Some(rate)) => Bottleneck { tile: "none".into(), why: format!("the load was held at {rate} txn/s") },
        (None, None) => Bottleneck { tile: "target".into(), why: target() },
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

    /// A load alone, each tile with a core: its first tile is so busy, and blocked for so much of the time.
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
        let limit = |load: Option<&Diagnosis>, rate| limit_of_load(load, rate, || "it takes no more".into());
        let waits = load(0.1, 0.8);
        assert_eq!((waits.finding, waits.kind.as_deref()), (Finding::WaitsOutside, Some("benchs")), "{waits}");
        assert_eq!(limit(Some(&waits), None), Bottleneck { tile: "target".into(), why: "it takes no more".into() });
        assert_eq!(limit(Some(&waits), Some(500.0)).tile, "none");
        let full = load(0.99, 0.0);
        assert_eq!(limit(Some(&full), None).tile, "benchg", "{full}");
        assert_eq!(limit(Some(&full), Some(500.0)).tile, "benchg", "it did not keep up");
        assert_eq!(limit(None, None).tile, "target");
    }
}
