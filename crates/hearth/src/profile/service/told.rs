//! What the profiler in the node answers.
//!
//! reads   where it stands
//! writes  objects for the RPC, sentences for its errors

use std::time::Duration;

use hearth_rpc::{ProfileFormat, ProfilePlan, ProfileSpan};
use serde_json::{Value, json};

use super::{BEFORE, KEPT, Stage, State, Taken};

/// Where it stands.
pub fn state(state: &State) -> Value {
    let id = state.id;
    match &state.stage {
        Stage::None => json!({ "state": "none" }),
        Stage::Running { plan, begun } => {
            let left = left(plan, begun.elapsed()).map(|left| left.as_secs_f64());
            json!({ "state": "running", "id": id, "asked": in_words(plan), "endsInSeconds": left })
        }
        Stage::Failed(why) => json!({ "state": "failed", "id": id, "why": why }),
        Stage::Expired => json!({
            "state": "expired",
            "id": id,
            "why": format!("a profile is kept for {} s after its end", KEPT.as_secs()),
        }),
        Stage::Done { taken, at } => {
            let mut told = taken.figures();
            told["id"] = id.into();
            told["expiresInSeconds"] = KEPT.saturating_sub(at.elapsed()).as_secs().into();
            told
        }
    }
}

/// Why none can be started now.
pub fn under_way(id: u64, plan: &ProfilePlan, since: Duration) -> String {
    let until = match left(plan, since) {
        Some(Duration::ZERO) => "it has ended and is being written down".into(),
        Some(left) => format!("it ends in {:.0} s", left.as_secs_f64().ceil()),
        None => "it ends with the block".into(),
    };
    format!("profile {id} is under way ({}): {until}; there is one at a time", in_words(plan))
}

/// Why this one cannot be had.
pub fn not_kept(asked: u64, last: u64) -> String {
    match last {
        0 => format!("there is no profile {asked}: none has been taken"),
        last if asked < last => format!("profile {asked} is gone: profile {last} has replaced it"),
        last => format!("there is no profile {asked}: the last is {last}"),
    }
}

/// What a profile asks for.
fn in_words(plan: &ProfilePlan) -> String {
    let span = match plan.span {
        ProfileSpan::Seconds(seconds) => format!("{seconds} s"),
        ProfileSpan::Block => "the next block".into(),
    };
    match &plan.tile {
        Some(tile) => format!("{span} of {tile}"),
        None => span,
    }
}

/// Until its last sample, where that is known.
fn left(plan: &ProfilePlan, since: Duration) -> Option<Duration> {
    match plan.span {
        ProfileSpan::Seconds(seconds) => Some((BEFORE + Duration::from_secs(seconds)).saturating_sub(since)),
        ProfileSpan::Block => None,
    }
}

impl Taken {
    fn figures(&self) -> Value {
        let Self { profile, plan, slot, stopped, txn_per_s_before, txn_per_s } = self;
        json!({
            "state": "done",
            "asked": in_words(plan),
            "stopped": stopped,
            "slot": slot,
            "seconds": profile.seconds,
            "hz": profile.hz,
            "samples": profile.samples(),
            "samplesTaken": profile.taken,
            "samplesDue": profile.due(),
            "tiles": profile.tiles(),
            "cpuSeconds": profile.cpu_seconds,
            "sampleMicros": profile.sample_ns / 1e3,
            "samplerShare": profile.share_of_sampler(),
            "namingSeconds": profile.naming_seconds,
            "txnPerSecondBefore": txn_per_s_before,
            "txnPerSecond": txn_per_s,
        })
    }

    /// The same with the profile as the format says.
    pub fn drawn(&self, mut told: Value, format: ProfileFormat) -> Value {
        let text = match format {
            ProfileFormat::Summary => return told,
            ProfileFormat::Folded => Ok(self.profile.folded()),
            ProfileFormat::Svg => {
                let early = if self.stopped { ", stopped early" } else { "" };
                self.profile.svg(&format!("hearth: {}{early}", in_words(&self.plan)))
            }
        };
        match text {
            Ok(text) => told["profile"] = text.into(),
            Err(why) => told = json!({ "state": "failed", "id": told["id"], "why": why.to_string() }),
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use hearth_profile::Profile;

    use super::*;

    fn plan(span: ProfileSpan) -> ProfilePlan {
        ProfilePlan { span, tile: None, hz: 99 }
    }

    #[test]
    fn who_asks_twice_learns_until_when_the_other_runs() {
        let of = |since| under_way(3, &plan(ProfileSpan::Seconds(60)), Duration::from_millis(since));
        assert_eq!(of(500), "profile 3 is under way (60 s): it ends in 61 s; there is one at a time");
        assert!(of(61_500).contains("it has ended and is being written down"), "{}", of(61_500));
        let block = under_way(3, &plan(ProfileSpan::Block), Duration::ZERO);
        assert!(block.contains("(the next block): it ends with the block"), "{block}");
    }

    #[test]
    fn what_is_gone_is_told_from_what_never_was() {
        assert_eq!(not_kept(1, 0), "there is no profile 1: none has been taken");
        assert_eq!(not_kept(1, 4), "profile 1 is gone: profile 4 has replaced it");
        assert_eq!(not_kept(5, 4), "there is no profile 5: the last is 4");
        let expired = state(&State { id: 4, stage: Stage::Expired, stopped: false });
        assert!(expired["state"] == "expired" && expired["why"].as_str().unwrap().contains("600 s"), "{expired}");
    }

    #[test]
    fn what_used_no_time_has_figures_and_no_graph() {
        let plan = ProfilePlan { tile: Some("sign".into()), ..plan(ProfileSpan::Seconds(2)) };
        let profile = Profile { seconds: 2.0, ..Profile::default() };
        let (txn_per_s_before, txn_per_s) = (0.0, 0.0);
        let taken = Arc::new(Taken { profile, plan, slot: None, stopped: true, txn_per_s_before, txn_per_s });
        let stage = Stage::Done { taken: taken.clone(), at: Instant::now() };
        let done = state(&State { id: 1, stage, ..State::default() });
        assert!(
            done["stopped"] == true
                && done["state"] == "done"
                && done["samples"] == 0
                && done["asked"] == "2 s of sign",
            "{done}"
        );
        assert_eq!(taken.drawn(done.clone(), ProfileFormat::Summary), done);
        let drawn = taken.drawn(done, ProfileFormat::Svg);
        assert!(drawn["state"] == "failed" && drawn["why"].as_str().unwrap().contains("no sample in 2.0 s"), "{drawn}");
    }
}
