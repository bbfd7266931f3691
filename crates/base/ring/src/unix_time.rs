//! unix_time: the machine's clock: the only function of these crates that reads Unix time.
//!
//! It is here because the workspace records its creation time, and no crate is below this one. Tiles and protocol cores
//! do not call it: their host gives them the time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since the Unix epoch by the machine's clock, which may step backwards; zero before 1970.
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
