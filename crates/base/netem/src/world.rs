//! A map: regions, and the network between them.
//!
//! reads   TOML
//! writes  latency, jitter and loss of each pair of regions, the send rate of a node per region
//! memory  one entry per pair

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Network properties between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// There and back, ms.
    pub rtt_ms: f64,
    /// Mean additional one-way delay of a datagram, ms; drawn from an exponential distribution.
    pub jitter_ms: f64,
    /// The part of the datagrams that do not arrive.
    pub loss: f64,
}

/// A place with nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Name of the region.
    pub name: String,
    /// Share of the nodes, relative to the other regions' weights.
    pub weight: u32,
    /// Send rate of a node here, Gb/s.
    pub rate_gbps: f64,
    /// Degrees north, for drawings alone; with `longitude` or not at all.
    pub latitude: Option<f64>,
    /// Longitude in degrees east.
    pub longitude: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegionLink {
    between: [String; 2],
    rtt_ms: f64,
    jitter_ms: f64,
    loss: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    region: Vec<Region>,
    within: Link,
    #[serde(default)]
    link: Vec<RegionLink>,
}

/// Regions and the network between them.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The regions, in the order of the file.
    pub regions: Vec<Region>,
    links: Vec<Link>,
}

/// Why a map is invalid.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Why the file could not be read, as the system says it.
        source: std::io::Error,
    },
    /// The contents are invalid.
    #[error("{}: {why}", path.display())]
    Said {
        /// Path of the file.
        path: PathBuf,
        /// The wrong key, and the reason.
        why: String,
    },
}

impl World {
    /// The text of the map that is shipped: `config/world.toml`.
    pub const SHIPPED: &str = include_str!("../../../../config/world.toml");

    /// The map that is shipped.
    pub fn shipped() -> Self {
        Self::read(Self::SHIPPED).unwrap_or_else(|why| unreachable!("a test reads it: {why}"))
    }

    /// Reads a map from a file.
    pub fn load(path: &Path) -> Result<Self, WorldError> {
        let text = std::fs::read_to_string(path).map_err(|source| WorldError::Io { path: path.into(), source })?;
        Self::read(&text).map_err(|why| WorldError::Said { path: path.into(), why })
    }

    /// Parses TOML.
    ///
    /// # Errors
    /// The wrong key, and a suggestion.
    pub fn read(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|why| why.to_string())?;
        let count = file.region.len();
        if count == 0 {
            return Err("there is no [[region]]".into());
        }
        for (at, region) in file.region.iter().enumerate() {
            let Region { name, weight, rate_gbps, .. } = region;
            if file.region[..at].iter().any(|other| other.name == *name) {
                return Err(format!("`region`: `{name}` is there twice"));
            }
            if *weight == 0 || !(rate_gbps.is_finite() && *rate_gbps > 0.0) {
                return Err(format!("`region`: `{name}` needs a `weight` and a `rate_gbps` that are greater than 0"));
            }
            region.check_place()?;
        }
        check("within", &file.within)?;
        let mut links = vec![None; count * count];
        (0..count).for_each(|region| links[region * count + region] = Some(file.within));
        for RegionLink { between, rtt_ms, jitter_ms, loss } in file.link {
            let link = Link { rtt_ms, jitter_ms, loss };
            let [a, b] = &between;
            check(&format!("{a} – {b}"), &link)?;
            let place = |name: &String| place(name, &file.region).map_err(|why| format!("`link`: {why}"));
            let (a, b) = (place(a)?, place(b)?);
            if links[a * count + b].replace(link).is_some() {
                let why = if a == b { "is one region: that is [within]" } else { "is there twice" };
                return Err(format!("`link`: {} – {} {why}", between[0], between[1]));
            }
            links[b * count + a] = Some(link);
        }
        let missing = |at: usize| {
            let name = |region: usize| &file.region[region].name;
            format!("there is no [[link]] between \"{}\" and \"{}\"", name(at / count), name(at % count))
        };
        let links: Result<_, _> =
            links.into_iter().enumerate().map(|(at, link)| link.ok_or_else(|| missing(at))).collect();
        Ok(Self { links: links?, regions: file.region })
    }

    /// The network from one region to another.
    pub fn link(&self, from: usize, to: usize) -> &Link {
        &self.links[from * self.regions.len() + to]
    }

    /// Returns the index of the region with this name.
    ///
    /// # Errors
    /// No such region, with a suggestion.
    pub fn place(&self, name: &str) -> Result<usize, String> {
        place(name, &self.regions)
    }

    /// The same without loss.
    pub fn without_loss(mut self) -> Self {
        self.links.iter_mut().for_each(|link| link.loss = 0.0);
        self
    }

    /// The same with this loss everywhere.
    pub fn with_loss(mut self, loss: f64) -> Self {
        self.links.iter_mut().for_each(|link| link.loss = loss);
        self
    }
}

impl Region {
    fn check_place(&self) -> Result<(), String> {
        let Self { name, latitude, longitude, .. } = self;
        if latitude.is_some() != longitude.is_some() {
            return Err(format!("`region`: `{name}` needs both `latitude` and `longitude`, or neither"));
        }
        for (key, value, most) in [("latitude", latitude, 90.0), ("longitude", longitude, 180.0)] {
            if let Some(value) = value.filter(|value| !(-most..=most).contains(value)) {
                return Err(format!("`{key}` of {name}: {value} is not from -{most} to {most}"));
            }
        }
        Ok(())
    }
}

fn check(name: &str, link: &Link) -> Result<(), String> {
    for (key, value, most) in
        [("rtt_ms", link.rtt_ms, 60_000.0), ("jitter_ms", link.jitter_ms, 60_000.0), ("loss", link.loss, 1.0)]
    {
        if !(0.0..=most).contains(&value) {
            return Err(format!("`{key}` of {name}: {value} is not from 0 to {most}"));
        }
    }
    Ok(())
}

fn place(name: &str, regions: &[Region]) -> Result<usize, String> {
    if let Some(place) = regions.iter().position(|region| region.name == name) {
        return Ok(place);
    }
    let distance = |region: &&Region| strsim::damerau_levenshtein(name, &region.name);
    let near = regions.iter().min_by_key(distance).filter(|region| distance(region) <= 1 + name.len() / 3);
    let near = near.map_or(String::new(), |region| format!("; did you mean `{}`?", region.name));
    Err(format!("`{name}` is not a region{near}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "region = [{ name = \"A\", weight = 1, rate_gbps = 1 }, { name = \"Berlin\", weight = 2, rate_gbps = 10 }]\n\
        within = { rtt_ms = 1, jitter_ms = 0, loss = 0 }\n\
        link = [{ between = [\"A\", \"Berlin\"], rtt_ms = 40, jitter_ms = 1, loss = 0.1 }]\n";

    #[test]
    fn shipped_map_has_the_shown_round_trips() {
        let world = World::shipped();
        let place = |name: &str| world.regions.iter().position(|region| region.name == name).expect("a region");
        let rtt = |a: &str, b: &str| world.link(place(a), place(b)).rtt_ms;
        assert_eq!(rtt("London", "New York"), 60.0);
        assert_eq!((rtt("London", "Singapore"), rtt("Singapore", "London")), (175.0, 175.0));
        assert_eq!(rtt("New York", "Singapore"), 230.0);
        assert_eq!(rtt("Frankfurt", "Frankfurt"), 0.5);
        assert!(world.regions.iter().all(|region| region.latitude.is_some() && region.longitude.is_some()));
    }

    #[test]
    fn a_mistake_says_what_was_meant() {
        assert!(World::read(TWO).is_ok());
        for (from, to, why) in [
            ("\"A\", \"Berlin\"]", "\"A\", \"Brelin\"]", "`link`: `Brelin` is not a region; did you mean `Berlin`?"),
            ("\"A\", \"Berlin\"]", "\"A\", \"A\"]", "`link`: A – A is one region: that is [within]"),
            (
                "link = [{ between = [\"A\", \"Berlin\"], rtt_ms = 40, jitter_ms = 1, loss = 0.1 }]",
                "",
                "there is no [[link]] between \"A\" and \"Berlin\"",
            ),
            ("loss = 0.1", "loss = 1.5", "`loss` of A – Berlin: 1.5 is not from 0 to 1"),
            (
                "weight = 2",
                "weight = 0",
                "`region`: `Berlin` needs a `weight` and a `rate_gbps` that are greater than 0",
            ),
            ("name = \"Berlin\"", "name = \"A\"", "`region`: `A` is there twice"),
            (
                "weight = 2",
                "latitude = 52.5, weight = 2",
                "`region`: `Berlin` needs both `latitude` and `longitude`, or neither",
            ),
            (
                "weight = 2",
                "latitude = 91, longitude = 13.4, weight = 2",
                "`latitude` of Berlin: 91 is not from -90 to 90",
            ),
            (
                "weight = 2",
                "latitude = 52.5, longitude = 193.4, weight = 2",
                "`longitude` of Berlin: 193.4 is not from -180 to 180",
            ),
        ] {
            assert!(TWO.contains(from), "{from}");
            assert_eq!(World::read(&TWO.replacen(from, to, 1)).expect_err(to), why);
        }
        let why = World::read(&TWO.replace("jitter_ms = 1", "jiter_ms = 1")).expect_err("a typo");
        assert!(why.contains("jiter_ms") && why.contains("jitter_ms"), "{why}");
    }
}
