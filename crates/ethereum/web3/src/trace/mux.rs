//! muxTracer: several tracers of one message, by name.
//!
//! memory  the text of all of them: at most [`Budget`]
//! drops   a mux within a mux, and more tracers than there are kinds: an error
//! source  `eth/tracers/native/mux.go` of go-ethereum 1.16
//!
//! The message is executed once for each tracer, always with the same result.

use hearth_evm::exec::SimulationResult;
use revm::DatabaseRef;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Budget, Options, Subject, TracerConfig};
use crate::failure::Failure;
use crate::json;

/// The suffix of tracers' names.
const TRACER: &str = "Tracer";
/// Maximum tracers of one message.
const TRACERS_MAX: usize = 8;

/// The names of tracers in a configuration, each with its own configuration; other fields are left out.
struct NamedTracers<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for NamedTracers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NamedTracers(Vec::new()))
    }
}

impl<'de: 'a, 'a> Visitor<'de> for NamedTracers<'a> {
    type Value = Self;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Self, A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            if name.ends_with(TRACER) && self.0.len() <= TRACERS_MAX {
                self.0.push((name, fields.next_value()?));
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(self)
    }
}

/// Reads the tracers in a configuration, with the options of each. Nested ones are ignored.
pub(super) fn read(json: &str) -> Result<Vec<(String, TracerConfig)>, serde_json::Error> {
    let NamedTracers(named) = serde_json::from_str(json)?;
    let one = |(name, config): (String, &RawValue)| {
        let config: Option<TracerConfig> = serde_json::from_str(config.get())?;
        Ok((name, config.unwrap_or_default()))
    };
    named.into_iter().map(one).collect()
}

/// Traces one message with each tracer.
pub(super) fn trace<D: DatabaseRef>(
    each: &[(String, TracerConfig)],
    subject: &Subject<'_, D>,
    mut budget: Budget,
) -> Result<(String, SimulationResult), Failure> {
    if each.len() > TRACERS_MAX {
        return Err(Failure::server(format!("muxTracer takes at most {TRACERS_MAX} tracers")));
    }
    let mut done = None;
    let mut texts = Vec::with_capacity(each.len());
    for (name, config) in each {
        if name == "muxTracer" {
            return Err(Failure::server("muxTracer cannot be nested"));
        }
        budget.deadline.check()?;
        let options = Options { tracer: Some(name.clone()), tracer_config: config.clone(), ..Options::default() };
        let (text, simulated) = options.trace(subject, budget)?;
        budget.bytes = budget.bytes.checked_sub(text.len()).ok_or_else(Failure::too_large)?;
        texts.push((name, text));
        done = Some(simulated);
    }
    let done = done.ok_or_else(|| Failure::server("muxTracer needs the names of other tracers in tracerConfig"))?;
    let text = json::object(|object| texts.iter().for_each(|(name, text)| object.raw(name, text)));
    Ok((text, done))
}
