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
        let Some(end) = &self.end else { return Bottleneck::default() };
        bottleneck(&diagnose(&Sample::between(&self.watch, &self.begin, end)))
    }
}

fn bottleneck(diagnosis: &Diagnosis) -> Bottleneck {
    let other = if diagnosis.finding == Finding::CoresTaken { "machine" } else { "none" };
    Bottleneck { tile: diagnosis.kind.clone().unwrap_or(other.into()), why: diagnosis.to_string() }
}

#[cfg(test)]
mod tests {
    use hearth_monitor::Advice;

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
}
