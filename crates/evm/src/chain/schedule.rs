//! Under which forks a folder's blocks were made.
//!
//! reads   `forks` in the folder: a line for each fork and when it begins
//! writes  it anew where the forks to come are others
//!
//! The genesis' hash says nothing of the forks after block zero, and the blocks executed under other rules would be
//! others: what has begun cannot be changed any more.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use revm::primitives::hardfork::SpecId;

use super::ChainError;
use crate::block::Block;
use crate::genesis::{Activation, Genesis};

const FIRST_LINE: &str = "hearth forks 1";

/// Refuses a genesis whose forks are not those under which the blocks up to `head` were made; keeps its forks.
pub(super) fn check(dir: &Path, genesis: &Genesis, head: &Block) -> Result<(), ChainError> {
    let path = dir.join("forks");
    let wrong = |what: String| ChainError::Schedule { path: path.clone(), what };
    let failed = |source: io::Error| wrong(format!("cannot be read or written: {source}"));
    let wanted = genesis.forks.scheduled();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    if !text.is_empty() {
        let kept = parse(&text).ok_or_else(|| wrong("it is no list of forks".into()))?;
        let begun = |forks: &[(SpecId, Activation)]| begun(forks, genesis.timestamp, head);
        let (before, now) = (begun(&kept), begun(wanted));
        if before != now {
            let at = before.iter().zip(&now).take_while(|(before, now)| before == now).count();
            let name = |forks: &[(SpecId, Activation)]| forks.get(at).map_or("nothing".into(), line);
            let (before, now, number) = (name(&before), name(&now), head.number());
            return Err(wrong(format!(
                "block {number} was made under \u{ab}{before}\u{bb}, the genesis has \u{ab}{now}\u{bb}"
            )));
        }
    }
    let lines: String = wanted.iter().map(|fork| line(fork) + "\n").collect();
    let lines = format!("{FIRST_LINE}\n{lines}");
    if lines != text {
        write(dir, &path, &lines).map_err(failed)?;
    }
    Ok(())
}

/// The forks that hold or held in some block up to `head`: of those that begin together the last.
fn begun(forks: &[(SpecId, Activation)], zero_s: u64, head: &Block) -> Vec<(SpecId, Activation)> {
    let mut begun: Vec<(SpecId, Activation)> = Vec::new();
    for (spec, from) in forks.iter().filter(|(_, from)| from.is_active(head.number(), head.header.timestamp)) {
        let from = if from.is_active(0, zero_s) { Activation::Height(0) } else { *from };
        if begun.last().is_some_and(|(_, last)| *last == from) {
            begun.pop();
        }
        begun.push((*spec, from));
    }
    begun
}

fn line((spec, from): &(SpecId, Activation)) -> String {
    let name: &str = (*spec).into();
    match from {
        Activation::Height(height) => format!("{name} height {height}"),
        Activation::Time(time) => format!("{name} time {time}"),
    }
}

fn parse(text: &str) -> Option<Vec<(SpecId, Activation)>> {
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) {
        return None;
    }
    let fork = |line: &str| {
        let (rest, at) = line.rsplit_once(' ')?;
        let (name, kind) = rest.rsplit_once(' ')?;
        let (spec, at) = (SpecId::from_str(name).ok()?, at.parse().ok()?);
        match kind {
            "height" => Some((spec, Activation::Height(at))),
            "time" => Some((spec, Activation::Time(at))),
            _ => None,
        }
    };
    lines.map(fork).collect()
}

/// Puts a whole file in the place of the one before.
fn write(dir: &Path, path: &Path, lines: &str) -> io::Result<()> {
    let next = path.with_extension("next");
    let mut file = File::create(&next)?;
    file.write_all(lines.as_bytes())?;
    file.sync_all()?;
    fs::rename(next, path)?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::Forks;

    #[test]
    fn every_fork_is_read_as_it_was_written() {
        let forks = [
            (SpecId::MERGE, Activation::Height(7)),
            (SpecId::SHANGHAI, Activation::Time(1_000)),
            (SpecId::OSAKA, Activation::Time(u64::MAX)),
        ];
        let text: String = forks.iter().map(|fork| line(fork) + "\n").collect();
        assert_eq!(parse(&format!("{FIRST_LINE}\n{text}")), Some(forks.to_vec()));
        for spec in 0..=u8::MAX {
            let Some(spec) = SpecId::try_from_u8(spec) else { continue };
            let text = format!("{FIRST_LINE}\n{}\n", line(&(spec, Activation::Height(1))));
            assert_eq!(parse(&text), Some(vec![(spec, Activation::Height(1))]), "{text}");
        }
        assert_eq!(parse("Osaka height 0"), None);
        assert_eq!(parse(&format!("{FIRST_LINE}\nOsaka depth 0")), None);
        assert_eq!(Forks::newest().scheduled().len(), 1);
    }
}
