//! HTTP as a client: agents with this project's defaults, and pages.
//!
//! An agent gives every status as an answer, and hands redirections to its caller unless it goes by the environment.

use std::time::Duration;

pub use ureq::{Agent, Error};

/// The longest head of an answer.
const HEAD_MAX: usize = 16 << 10;
/// Idle connections that are kept: the load asks by that many threads.
const IDLE_MAX: usize = 64;

/// How long an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// From the first step to the answer's last byte.
    Whole(Duration),
    /// For the connection, and again for each part that is written or read: a long answer may take longer.
    Step(Duration),
}

/// An agent that asks the host itself, whatever proxy the environment names.
pub fn direct(patience: Patience) -> Agent {
    let config = Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(HEAD_MAX)
        .http_status_as_error(false)
        .max_idle_connections_per_host(IDLE_MAX)
        .max_idle_connections(IDLE_MAX);
    patience.of(config).build().new_agent()
}

/// An agent that asks through the environment's proxy, where it names one (`HTTP_PROXY`, `NO_PROXY`).
pub fn by_environment(patience: Patience) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_idle_connections_per_host(IDLE_MAX)
        .max_idle_connections(IDLE_MAX);
    patience.of(config).build().new_agent()
}

type Config = ureq::config::ConfigBuilder<ureq::typestate::AgentScope>;

impl Patience {
    fn of(self, config: Config) -> Config {
        match self {
            Self::Whole(time) => config.timeout_global(Some(time)),
            Self::Step(time) => {
                config.timeout_connect(Some(time)).timeout_per_read(Some(time)).timeout_per_write(Some(time))
            }
        }
    }
}

/// The page at a URL, of at most `bytes_max` bytes; a status other than success is an error.
pub fn get(agent: &Agent, url: &str, bytes_max: u64) -> Result<String, Error> {
    let mut answer = agent.get(url).call()?;
    match answer.status().is_success() {
        true => answer.body_mut().with_config().limit(bytes_max).read_to_string(),
        false => Err(Error::StatusCode(answer.status().as_u16())),
    }
}

/// Describes the error, in the system's words if there are no better ones.
pub fn why(error: &Error) -> String {
    match error {
        Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}
