//! Profiles of the running node, for its owner only.
//!
//! reads   requests of programs on the node's own machine
//! writes  commands to the profiler; its answers
//! memory  one answer
//! drops   requests of other machines, and all requests without a profiler: with an error
//!
//! `hearth_profileStart [{ seconds | nextBlock | fromNextBlock, hz }]` starts one; with `fromNextBlock`, `seconds` is
//! the maximum. `hearth_profileStop [{ id }]` ends it; `hearth_profileFetch [{ format, id }]` returns its status and,
//! once it has ended, the profile as `summary`, `svg` or `folded`. Each accepts the `token` that a Solana node
//! requires, and ignores it.

use serde::Deserialize;

use super::Caller;
use crate::failure::Failure;
use crate::params::Params;
use crate::profiler::{PROFILE_SECONDS_MAX as SECONDS_MAX, ProfileFormat, ProfileSpan as Span};

const SECONDS: u64 = 10;
const HZ: u32 = 99;
const HZ_MAX: u32 = 1000;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Start {
    seconds: Option<u64>,
    next_block: bool,
    from_next_block: bool,
    hz: Option<u32>,
    /// Only one kind of tile: here only `null` is valid.
    tile: Option<String>,
    #[serde(rename = "token")]
    _token: Option<String>,
}

impl Start {
    fn span(&self) -> Result<Span, Failure> {
        if let Some(tile) = &self.tile {
            let why = format!("`tile` is `{tile}`: the stages of this node share threads, and are profiled together");
            return Err(Failure::invalid_params(why));
        }
        let seconds = |default: u64| match self.seconds.unwrap_or(default) {
            seconds @ 1..=SECONDS_MAX => Ok(seconds),
            other => Err(Failure::invalid_params(format!("`seconds` is {other}: 1 to {SECONDS_MAX}"))),
        };
        match (self.next_block, self.from_next_block, self.seconds) {
            (true, false, None) => Ok(Span::Block),
            (true, ..) => Err(Failure::invalid_params("`seconds`, `nextBlock` or `fromNextBlock`, not all")),
            (false, true, _) => Ok(Span::FromBlock(seconds(SECONDS_MAX)?)),
            (false, false, _) => Ok(Span::Seconds(seconds(SECONDS)?)),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Fetch {
    format: Option<String>,
    id: Option<u64>,
    #[serde(rename = "token")]
    _token: Option<String>,
}

impl Caller<'_> {
    pub(super) async fn profile(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        if !self.address.to_canonical().is_loopback() {
            return Err(Failure::server(format!("{method} is for programs on the node's own machine")));
        }
        let Some(profiler) = self.api.profiler.clone() else { return Err(Failure::method_not_found(method)) };
        let params = params.at_most(1)?;
        let answer = match method {
            "hearth_profileStart" => {
                let options: Start = params.shape_or_none(0)?.unwrap_or_default();
                let hz = match options.hz.unwrap_or(HZ) {
                    hz @ 1..=HZ_MAX => hz,
                    other => return Err(Failure::invalid_params(format!("`hz` is {other}: 1 to {HZ_MAX}"))),
                };
                profiler.start(options.span()?, hz)
            }
            "hearth_profileStop" => {
                let options: Fetch = params.shape_or_none(0)?.unwrap_or_default();
                profiler.stop(options.id)
            }
            "hearth_profileFetch" => {
                let options: Fetch = params.shape_or_none(0)?.unwrap_or_default();
                let format = ProfileFormat::of(options.format.as_deref()).map_err(Failure::invalid_params)?;
                // Drawing thousands of stacks takes a while.
                let drawing = tokio::task::spawn_blocking(move || profiler.fetch(format, options.id));
                drawing.await.map_err(Failure::internal)?
            }
            unknown => return Err(Failure::method_not_found(unknown)),
        };
        answer.map(|answer| answer.to_string()).map_err(Failure::server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_asked_for_in_one_way() {
        let span = |text: &str| serde_json::from_str::<Start>(text).unwrap().span();
        for (text, expected) in [
            ("{}", Span::Seconds(10)),
            (r#"{"seconds": 3, "hz": 5}"#, Span::Seconds(3)),
            (r#"{"nextBlock": true, "tile": null, "hz": 99, "token": "x"}"#, Span::Block),
            (r#"{"fromNextBlock": true}"#, Span::FromBlock(600)),
            (r#"{"fromNextBlock": true, "seconds": 7}"#, Span::FromBlock(7)),
        ] {
            assert_eq!(span(text).unwrap(), expected, "{text}");
        }
        for wrong in
            [r#"{"seconds": 0}"#, r#"{"seconds": 601}"#, r#"{"nextBlock": true, "seconds": 1}"#, r#"{"tile": "bank"}"#]
        {
            assert_eq!(span(wrong).unwrap_err().code(), -32602, "{wrong}");
        }
        assert!(serde_json::from_str::<Start>(r#"{"second": 1}"#).is_err());
    }
}
