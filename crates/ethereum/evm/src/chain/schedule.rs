//! Under which forks a folder's blocks were made.
//!
//! reads   `forks` in the folder: a line for each fork and when it begins, one for each limit that is not the usual
//!         one, and a checksum
//! writes  it anew where the forks to come are others
//!
//! The genesis' hash says nothing of the forks after block zero nor of the limits, and the blocks executed under other
//! rules would be others: what has begun cannot be changed any more.

use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

use hearth_wal::store_file;
use revm::primitives::hardfork::SpecId;

use super::ChainError;
use crate::block::Block;
use crate::blocks::BlocksError;
use crate::checksummed::{verified, with_checksum};
use crate::genesis::{Activation, Genesis};
use crate::limits::TxLimits;

const FIRST_LINE: &str = "hearth forks 2";
/// Of files without a checksum.
const FIRST_LINE_BEFORE: &str = "hearth forks 1";
/// Before the bytes that a contract's code may have.
const CODE_SIZE: &str = "code size ";
const NO_GAS_CAP: &str = "transactions without a gas cap";

/// Refuses a genesis whose forks are not those under which the blocks up to `head` were made; keeps its forks.
pub(super) fn check(dir: &Path, genesis: &Genesis, head: &Block) -> Result<(), ChainError> {
    let path = dir.join("forks");
    let wrong = |what: String| ChainError::Schedule { path: path.clone(), what };
    let failed = |source: io::Error| wrong(format!("cannot be read or written: {source}"));
    let wanted = genesis.forks.scheduled();
    let text = match fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    if let Some(bytes) = &text {
        let what = "it is no list of forks, or its checksum is wrong";
        let damaged = || BlocksError::Damaged { path: path.clone(), offset: 0, what };
        let (kept, limits) = std::str::from_utf8(bytes).ok().and_then(parse).ok_or_else(damaged)?;
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
        if limits != genesis.limits && head.number() > 0 {
            let name = |limits: &TxLimits| match limit_lines(limits) {
                lines if lines.is_empty() => "the usual limits".to_owned(),
                lines => lines.trim_end().replace('\n', ", "),
            };
            let (before, now, number) = (name(&limits), name(&genesis.limits), head.number());
            return Err(wrong(format!("block {number} was made under \"{before}\", the options say \"{now}\"")));
        }
    }
    let lines = list(wanted, &genesis.limits);
    if text.as_deref() != Some(lines.as_bytes()) {
        store_file::put(&path.with_extension("next"), &path, lines.as_bytes()).map_err(failed)?;
    }
    Ok(())
}

/// The file's text: the first line, a line for each fork and each limit, and the checksum of these.
fn list(forks: &[(SpecId, Activation)], limits: &TxLimits) -> String {
    let lines: String = forks.iter().map(|fork| line(fork) + "\n").collect();
    let lines = format!("{FIRST_LINE}\n{lines}{}", limit_lines(limits));
    with_checksum(&lines)
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

/// The limits that are not the usual ones.
fn limit_lines(limits: &TxLimits) -> String {
    let code = limits.code_size.map(|bytes| format!("{CODE_SIZE}{bytes}\n"));
    let gas = limits.without_gas_cap.then(|| format!("{NO_GAS_CAP}\n"));
    [code, gas].into_iter().flatten().collect()
}

fn parse(text: &str) -> Option<(Vec<(SpecId, Activation)>, TxLimits)> {
    let (first, mut rest) = text.split_once('\n')?;
    match first {
        FIRST_LINE_BEFORE => {}
        FIRST_LINE => {
            rest = verified(text.as_bytes())?.get(first.len() + 1..)?;
        }
        _ => return None,
    }
    let (mut forks, mut limits) = (Vec::new(), TxLimits::default());
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
    for line in rest.lines() {
        if let Some(bytes) = line.strip_prefix(CODE_SIZE) {
            limits.code_size = Some(bytes.parse().ok()?);
        } else if line == NO_GAS_CAP {
            limits.without_gas_cap = true;
        } else {
            forks.push(fork(line)?);
        }
    }
    Some((forks, limits))
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
        let usual = TxLimits::default();
        assert_eq!(parse(&format!("{FIRST_LINE_BEFORE}\n{text}")), Some((forks.to_vec(), usual.clone())));
        let whole = list(&forks, &usual);
        assert_eq!(parse(&whole), Some((forks.to_vec(), usual.clone())));
        for at in 0..whole.len() {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(std::str::from_utf8(&bytes).ok().and_then(parse), None, "byte {at}");
            assert_eq!(parse(&whole[..at]), None, "cut at byte {at}");
        }
        for spec in 0..=u8::MAX {
            let Some(spec) = SpecId::try_from_u8(spec) else { continue };
            let text = list(&[(spec, Activation::Height(1))], &usual);
            assert_eq!(parse(&text), Some((vec![(spec, Activation::Height(1))], usual.clone())), "{text}");
        }
        assert_eq!(parse("Osaka height 0"), None);
        assert_eq!(parse(&format!("{FIRST_LINE_BEFORE}\nOsaka depth 0")), None);
        assert_eq!(Forks::newest().scheduled().len(), 1);
        let limits = TxLimits { code_size: Some(100_000), without_gas_cap: true };
        assert_eq!(parse(&list(&forks[..1], &limits)), Some((vec![forks[0]], limits)));
    }
}
