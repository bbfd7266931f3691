//! The forks under which a folder's blocks were made.
//!
//! reads   `forks` in the folder: a line for each fork and when it begins, one for the bounds on blobs of each, one for
//!         the contract of deposits, one for each limit that is not the usual one, and a checksum
//! writes  the file again, if the forks to come have changed
//!
//! The genesis' hash does not cover the forks after block zero nor the limits. Blocks executed under other rules would
//! differ, so a fork that has begun cannot be changed any more.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

use alloy_primitives::Address;
use hearth_wal::store_file;
use revm::primitives::hardfork::SpecId;

use super::ChainError;
use crate::blobs::{BlobParams, BlobSchedule};
use crate::block::Block;
use crate::blocks::BlocksError;
use crate::checksummed::{verified, with_checksum};
use crate::genesis::{Activation, Genesis};
use crate::limits::TxLimits;

/// Name of the file in the chain's folder.
const FILE: &str = "forks";
const FIRST_LINE: &str = "hearth forks 4";
/// First line of a file that does not name the contract of deposits.
const FIRST_LINE_WITHOUT_DEPOSITS: &str = "hearth forks 3";
/// First line of a file without bounds on blobs: there were none in blocks.
const FIRST_LINE_WITHOUT_BLOBS: &str = "hearth forks 2";
/// First line of a file that has no checksum either.
const FIRST_LINE_BEFORE: &str = "hearth forks 1";
/// Before the name of the bounds, and their target, most and pace.
const BLOBS: &str = "blobs ";
/// Prefix of the contract whose logs are deposits from Prague on.
const DEPOSITS: &str = "deposits ";
/// Before the bytes that a contract's code may have.
const CODE_SIZE: &str = "code size ";
const NO_GAS_CAP: &str = "transactions without a gas cap";

/// The rules of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rules {
    forks: Vec<(SpecId, Activation)>,
    /// Nothing in a file that says nothing of them.
    blobs: Option<BlobSchedule>,
    /// The same of the contract of deposits.
    deposits: Option<Address>,
    limits: TxLimits,
}

/// Returns the limits under which the blocks in a chain's folder were made; by default the usual ones.
pub fn limits_in_folder(dir: &Path) -> TxLimits {
    let text = fs::read_to_string(dir.join(FILE)).unwrap_or_default();
    parse(&text).map_or_else(TxLimits::default, |rules| rules.limits)
}

/// Refuses a genesis whose forks differ from those under which the blocks up to `head` were made; stores its forks.
pub(super) fn check(dir: &Path, genesis: &Genesis, head: &Block) -> Result<(), ChainError> {
    let path = dir.join(FILE);
    let wrong = |what: String| ChainError::Schedule { path: path.clone(), what };
    let failed = |source: io::Error| wrong(format!("cannot be read or written: {source}"));
    let wanted = genesis.forks.scheduled();
    let text = match fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    if let Some(bytes) = &text {
        let what = "it is not a list of forks, or its checksum is wrong";
        let damaged = || BlocksError::Damaged { path: path.clone(), offset: 0, what };
        let Rules { forks: kept, blobs, deposits, limits } =
            std::str::from_utf8(bytes).ok().and_then(parse).ok_or_else(damaged)?;
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
        if let Some(kept) = blobs.filter(|_| head.number() > 0) {
            let [before, now] =
                [&kept, &genesis.blobs].map(|blobs| bounds(blobs, [&kept, &genesis.blobs], genesis, head));
            if let Some(((from, before), (_, now))) = before.iter().zip(&now).find(|(before, now)| before != now) {
                let number = head.number();
                return Err(wrong(format!(
                    "block {number} was made with bounds on blobs of {before} from time {from} on, the genesis has \
                     {now}"
                )));
            }
        }
        let has_deposits = genesis.spec(head.number(), head.header.timestamp).is_enabled_in(SpecId::PRAGUE);
        if let Some(kept) =
            deposits.filter(|kept| has_deposits && head.number() > 0 && *kept != genesis.deposit_contract)
        {
            let (number, now) = (head.number(), genesis.deposit_contract);
            let what = format!("block {number} was made with deposits at {kept}, the genesis has them at {now}");
            return Err(wrong(what));
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
    let rules = Rules {
        forks: wanted.to_vec(),
        blobs: Some(genesis.blobs.clone()),
        deposits: Some(genesis.deposit_contract),
        limits: genesis.limits,
    };
    let lines = list(&rules);
    if text.as_deref() != Some(lines.as_bytes()) {
        store_file::put(&path.with_extension("next"), &path, lines.as_bytes()).map_err(failed)?;
    }
    Ok(())
}

/// The file's text: the first line, a line for each fork, bounds on blobs and limit, and the checksum of these.
fn list(rules: &Rules) -> String {
    let mut lines = format!("{FIRST_LINE}\n");
    rules.forks.iter().for_each(|fork| lines += &(line(fork) + "\n"));
    for (name, params) in rules.blobs.iter().flat_map(BlobSchedule::named) {
        lines += &format!("{BLOBS}{name} {}\n", bound(params));
    }
    let deposits = rules.deposits.map(|contract| format!("{DEPOSITS}{contract}\n"));
    with_checksum(&(lines + &deposits.unwrap_or_default() + &limit_lines(&rules.limits)))
}

fn bound(params: &BlobParams) -> String {
    format!("{} {} {}", params.target_blob_count, params.max_blob_count, params.update_fraction)
}

/// The bounds on blobs in `blobs` at each time up to `head` at which rules begin, or bounds of one of `both`.
fn bounds(blobs: &BlobSchedule, both: [&BlobSchedule; 2], genesis: &Genesis, head: &Block) -> Vec<(u64, String)> {
    let forks = genesis.forks.scheduled().iter().filter_map(|(_, from)| match from {
        Activation::Time(time) => Some(*time),
        Activation::Height(_) => None,
    });
    let times: BTreeSet<u64> = forks.chain(both.into_iter().flat_map(BlobSchedule::times)).collect();
    let times = times.into_iter().filter(|time| (genesis.timestamp..=head.header.timestamp).contains(time));
    let begun = std::iter::once(genesis.timestamp).chain(times).map(|time| (time, genesis.spec(head.number(), time)));
    let with_blobs = begun.filter(|(_, spec)| spec.is_enabled_in(SpecId::CANCUN));
    with_blobs.map(|(time, spec)| (time, bound(&blobs.params(spec, time)))).collect()
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

fn parse(text: &str) -> Option<Rules> {
    let (first, mut rest) = text.split_once('\n')?;
    let mut rules = Rules::default();
    match first {
        FIRST_LINE_BEFORE => {}
        FIRST_LINE | FIRST_LINE_WITHOUT_DEPOSITS | FIRST_LINE_WITHOUT_BLOBS => {
            rest = verified(text.as_bytes())?.get(first.len() + 1..)?;
            rules.blobs = (first != FIRST_LINE_WITHOUT_BLOBS).then(BlobSchedule::default);
        }
        _ => return None,
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
    for line in rest.lines() {
        if let Some(bytes) = line.strip_prefix(CODE_SIZE) {
            rules.limits.code_size = Some(bytes.parse().ok()?);
        } else if let Some(contract) = line.strip_prefix(DEPOSITS) {
            rules.deposits = Some(contract.parse().ok()?);
        } else if line == NO_GAS_CAP {
            rules.limits.without_gas_cap = true;
        } else if let Some(bounds) = line.strip_prefix(BLOBS) {
            let words: [&str; 4] = bounds.split(' ').collect::<Vec<_>>().try_into().ok()?;
            let [name, target, max, fraction] = words;
            let (target, max, fraction) = (target.parse().ok()?, max.parse().ok()?, fraction.parse().ok()?);
            rules.blobs.as_mut()?.set(name, target, max, fraction)?;
        } else {
            rules.forks.push(fork(line)?);
        }
    }
    Some(rules)
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
        let rules = |blobs| Rules { forks: forks.to_vec(), blobs, ..Rules::default() };
        assert_eq!(parse(&format!("{FIRST_LINE_BEFORE}\n{text}")), Some(rules(None)));
        let before_blobs = with_checksum(&format!("{FIRST_LINE_WITHOUT_BLOBS}\n{text}"));
        assert_eq!(parse(&before_blobs), Some(rules(None)));
        let mut blobs = BlobSchedule::default();
        for (name, max) in [("cancun", 7), ("prague", 8), ("osaka", 10), ("1700000000", 11)] {
            blobs.set(name, 5, max, 5_000_000).unwrap();
        }
        let before_deposits = rules(Some(blobs));
        let older = list(&before_deposits).replacen(FIRST_LINE, FIRST_LINE_WITHOUT_DEPOSITS, 1);
        let older = with_checksum(older.rsplit_once("crc ").map_or("", |(lines, _)| lines));
        assert_eq!(parse(&older).as_ref(), Some(&before_deposits));
        let rules = Rules { deposits: Some(Address::repeat_byte(7)), ..before_deposits };
        let whole = list(&rules);
        assert_eq!(parse(&whole), Some(rules));
        for at in 0..whole.len() {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(std::str::from_utf8(&bytes).ok().and_then(parse), None, "byte {at}");
            assert_eq!(parse(&whole[..at]), None, "cut at byte {at}");
        }
        let of = |forks: &[(SpecId, Activation)], limits| {
            let blobs = Some(BlobSchedule::default());
            let rules = Rules { forks: forks.to_vec(), blobs, deposits: None, limits };
            assert_eq!(parse(&list(&rules)), Some(rules));
        };
        for spec in 0..=u8::MAX {
            let Some(spec) = SpecId::try_from_u8(spec) else { continue };
            of(&[(spec, Activation::Height(1))], TxLimits::default());
        }
        assert_eq!(parse("Osaka height 0"), None);
        assert_eq!(parse(&format!("{FIRST_LINE_BEFORE}\nOsaka depth 0")), None);
        assert_eq!(Forks::newest().scheduled().len(), 1);
        of(&forks[..1], TxLimits { code_size: Some(100_000), without_gas_cap: true });
    }
}
