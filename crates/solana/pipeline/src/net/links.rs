//! links: the file of an emulated network, read at startup and whenever it changes.
//!
//! reads   the file, and the map of node addresses next to it
//! writes  [`Rules`]
//! memory  the text of both files
//! drops   an invalid file: returns an error, and the rules stay as they were
//! source  `docs/cluster.md`

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hearth_netem::{LinksFile, Rules, World};

/// How often to check whether the file has changed, in nanoseconds.
pub const LOOK_NS: u64 = 250_000_000;

/// The path of the file of emulated links, and the node that reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinksConfig {
    /// Path of the file.
    pub file: PathBuf,
    /// The node's address in the file.
    pub own: Ipv4Addr,
}

/// Identifies a version of a file.
type Stamp = (u64, i64, i64, u64);

/// Rereads the file of emulated links when it changes.
pub struct LinksWatch {
    config: LinksConfig,
    seen: Option<Stamp>,
}

impl LinksWatch {
    /// Reads the file.
    ///
    /// # Errors
    /// The file's problem, in words.
    pub fn open(config: &LinksConfig) -> Result<(Self, Rules), String> {
        let seen = stamp(&config.file);
        let rules = read(config)?;
        Ok((Self { config: config.clone(), seen }, rules))
    }

    /// Returns the file's new contents if it has changed since the last call.
    pub fn look(&mut self) -> Option<Result<Rules, String>> {
        let found = stamp(&self.config.file);
        if found == self.seen {
            return None;
        }
        self.seen = found;
        Some(read(&self.config))
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let data = fs::metadata(path).ok()?;
    Some((data.ino(), data.mtime(), data.mtime_nsec(), data.len()))
}

fn read(config: &LinksConfig) -> Result<Rules, String> {
    let path = &config.file;
    let said = |why| format!("{}: {why}", path.display());
    let text = fs::read_to_string(path).map_err(|why| said(why.to_string()))?;
    let file = LinksFile::read(&text).map_err(said)?;
    let world = match &file.map {
        None => World::shipped(),
        Some(map) => {
            let map = path.parent().unwrap_or(Path::new("")).join(map);
            World::load(&map).map_err(|why| said(format!("`map`: {why}")))?
        }
    };
    file.rules(config.own, &world).map_err(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_when_it_changes_and_a_bad_one_is_reported() {
        let folder = std::env::temp_dir().join(format!("hearth-links-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let config = LinksConfig { file: folder.join("links.toml"), own: Ipv4Addr::new(127, 0, 0, 2) };
        let node = |last: u8| format!("[[node]]\naddress = \"127.0.0.{last}\"\nregion = \"London\"\n");
        // Replaces the file atomically, as an operator would.
        let write = |text: String| {
            fs::write(folder.join("new"), text).unwrap();
            fs::rename(folder.join("new"), &config.file).unwrap();
        };
        assert!(LinksWatch::open(&config).err().unwrap().contains("links.toml: No such file"));
        write(node(2) + &node(3));
        let (mut watch, rules) = LinksWatch::open(&config).unwrap();
        assert_eq!((rules.by_address.len(), watch.look()), (1, None));
        write(node(2) + &node(3) + &node(4));
        assert_eq!(watch.look().unwrap().unwrap().by_address.len(), 2);
        write(node(2) + "map = 7\n");
        assert!(watch.look().unwrap().unwrap_err().contains("`map`"));
        assert_eq!(watch.look(), None);
        write("map = \"nowhere.toml\"\n".to_owned() + &node(2));
        let why = watch.look().unwrap().unwrap_err();
        assert!(why.contains("`map`") && why.contains("nowhere.toml"), "{why}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
