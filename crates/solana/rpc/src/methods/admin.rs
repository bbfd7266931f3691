//! Methods for the node's owner: profiles of the running node.
//!
//! reads   requests from loopback that no web page has made, or that carry the configured token
//! writes  commands to the profiler
//! memory  one response
//! drops   all other requests, with an error, counted
//!
//! `hearth_profileStart [{ seconds | nextBlock, tile, hz, token }]` starts a profile; `hearth_profileFetch [{ format,
//! id, token }]` reports its progress and, once it has ended, returns it; `hearth_profileStop [{ id, token }]` ends it
//! early with the samples so far. One profile runs at a time; the last is kept for a while, until the next starts.

use std::net::IpAddr;

use serde_json::Value;

use super::{Api, Caller};
use crate::counters::count;
use crate::jsonrpc::{Failure, Request};
use crate::params::{Options, Params};
use crate::profiler::{Admin, ProfileFormat, ProfilePlan, ProfileSpan, Profiler};

/// Longest profile, in seconds.
pub const SECONDS_MAX: u64 = 600;
/// Maximum samples per second of CPU time.
pub const PROFILE_HZ_MAX: u64 = 1000;
const SECONDS: u64 = 10;
const HZ: u64 = 99;

impl Caller<'_> {
    /// Answers an admin request; `None` for any other method.
    pub async fn admin(&self, request: &Request<'_>) -> Option<Result<Value, Failure>> {
        if !["hearth_profileStart", "hearth_profileFetch", "hearth_profileStop"].contains(&request.method) {
            return None;
        }
        let Some(admin) = &self.api.admin else { return Some(Err(Failure::method_not_found(request.method))) };
        let options = match self.of_owner(admin, request) {
            Ok(options) => options,
            Err(why) => return Some(Err(why)),
        };
        let profiler = &*admin.profiler;
        Some(match request.method {
            "hearth_profileStart" => start(profiler, options),
            "hearth_profileStop" => options.number("id").and_then(|id| profiler.stop(id).map_err(Failure::not_now)),
            "hearth_profileFetch" => fetch(self.api, profiler, options).await,
            method => Err(Failure::method_not_found(method)),
        })
    }

    /// The options of an admin request; refused unless it comes from the owner.
    fn of_owner<'a>(&self, admin: &Admin, request: &Request<'a>) -> Result<Options<'a>, Failure> {
        let options = Params::of(request.params)?.at_most(1)?.options(0)?;
        let token = options.text("token")?;
        if !is_owner(admin, self.address, self.may_be_web_page, token) {
            count(self.api.counters.admin_refused());
            return Err(Failure::forbidden(request.method, admin.token.is_some()));
        }
        Ok(options)
    }
}

fn is_owner(admin: &Admin, address: IpAddr, may_be_web_page: bool, token: Option<&str>) -> bool {
    match (&admin.token, token) {
        (Some(expected), Some(given)) => is_same(expected.as_bytes(), given.as_bytes()),
        // A configured token is required of everyone, because a request from loopback may come through a proxy.
        (Some(_), None) => false,
        (None, _) => address.to_canonical().is_loopback() && !may_be_web_page,
    }
}

/// Compares in constant time for equal lengths, so that timing does not leak the token.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

fn start(profiler: &dyn Profiler, options: Options<'_>) -> Result<Value, Failure> {
    let (seconds, block) = (options.number("seconds")?, options.flag("nextBlock")?);
    let span = match (seconds, block) {
        (Some(_), true) => return Err(Failure::invalid_params("`seconds` or `nextBlock`, not both")),
        (None, true) => ProfileSpan::Block,
        (seconds, false) => match seconds.unwrap_or(SECONDS) {
            seconds @ 1..=SECONDS_MAX => ProfileSpan::Seconds(seconds),
            other => return Err(Failure::invalid_params(format!("`seconds` is {other}: 1 to {SECONDS_MAX}"))),
        },
    };
    let hz = match options.number("hz")?.unwrap_or(HZ) {
        hz @ 1..=PROFILE_HZ_MAX => hz as u32,
        other => return Err(Failure::invalid_params(format!("`hz` is {other}: 1 to {PROFILE_HZ_MAX}"))),
    };
    let tile = options.text("tile")?.map(Into::into);
    profiler.start(ProfilePlan { span, tile, hz }).map_err(Failure::not_now)
}

async fn fetch(api: &Api, profiler: &dyn Profiler, options: Options<'_>) -> Result<Value, Failure> {
    let format = match options.text("format")? {
        None | Some("summary") => ProfileFormat::Summary,
        Some("svg") => ProfileFormat::Svg,
        Some("folded") => ProfileFormat::Folded,
        Some(other) => {
            return Err(Failure::invalid_params(format!("`format` is `{other}`: `summary`, `svg` or `folded`")));
        }
    };
    let id = options.number("id")?;
    let fetched = match format {
        ProfileFormat::Summary => profiler.fetch(format, id),
        // Drawing thousands of stacks takes a while.
        ProfileFormat::Svg | ProfileFormat::Folded => api.at_length(|| profiler.fetch(format, id)).await,
    };
    fetched.map_err(Failure::not_now)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct NoProfiler;

    impl Profiler for NoProfiler {
        fn start(&self, _: ProfilePlan) -> Result<Value, String> {
            Ok(Value::Null)
        }

        fn fetch(&self, _: ProfileFormat, _: Option<u64>) -> Result<Value, String> {
            Ok(Value::Null)
        }

        fn stop(&self, _: Option<u64>) -> Result<Value, String> {
            Ok(Value::Null)
        }
    }

    #[test]
    fn owners_are_on_loopback_or_have_the_token() {
        let at = |address: &str| address.parse::<IpAddr>().unwrap();
        let open = Admin { profiler: Arc::new(NoProfiler), token: None };
        for (address, owner) in
            [("127.0.0.1", true), ("127.8.8.8", true), ("::1", true), ("::ffff:127.0.0.1", true), ("10.0.0.1", false)]
        {
            assert_eq!(is_owner(&open, at(address), false, None), owner, "{address}");
            assert_eq!(is_owner(&open, at(address), false, Some("")), owner, "{address}");
        }
        assert!(!is_owner(&open, at("127.0.0.1"), true, None));
        let closed = Admin { token: Some("secret".into()), ..open };
        assert!(is_owner(&closed, at("10.0.0.1"), true, Some("secret")));
        for wrong in [None, Some(""), Some("secre"), Some("secreT"), Some("secrets")] {
            assert!(!is_owner(&closed, at("127.0.0.1"), false, wrong), "{wrong:?}");
        }
    }
}
