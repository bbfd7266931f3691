//! Extracts programs from Debian packages without installing what comes with them, such as daemons.
//!
//! reads   Debian's archive
//! writes  a folder among the build outputs

use std::path::Path;
use std::process::Command;

use crate::run;

/// Downloads packages and unpacks them into a folder.
pub fn unpack(folder: &Path, packages: &[&str]) -> Result<(), String> {
    let cannot = |error| format!("cannot use {}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(cannot)?;
    let download =
        || run::run(Command::new("apt-get").args(["--quiet", "download"]).args(packages).current_dir(folder));
    if download().is_err() {
        // A machine that has installed nothing yet has no list of packages.
        let update = ["apt-get", "--quiet", "update"];
        run::run(Command::new(update[0]).args(&update[1..]))
            .or_else(|_| run::run(Command::new("sudo").args(update)))?;
        download()?;
    }
    let files = std::fs::read_dir(folder).map_err(cannot)?.filter_map(|entry| Some(entry.ok()?.path()));
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|it| it == "deb")).collect();
    if files.len() < packages.len() {
        return Err("apt-get left no package".into());
    }
    for file in files {
        run::run(Command::new("dpkg-deb").arg("--extract").args([&file, folder]))?;
        // The package is unpacked, so its file is no longer needed.
        std::fs::remove_file(&file).map_err(cannot)?;
    }
    Ok(())
}
