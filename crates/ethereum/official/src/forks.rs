//! The networks that the tests name, as a genesis has them.
//!
//! reads   a network's name, as `Cancun` or `PragueToOsakaAtTime15k`; a case's `blobSchedule`
//! writes  a genesis of no accounts
//! source  execution-spec-tests' list of forks

use hearth_evm::exec::SpecId;
use hearth_evm::genesis::{Forks, Genesis};
use serde_json::{Map, Value, json};

use crate::hex;

/// Why a case of an older fork is not run.
pub const BEFORE_MERGE: &str =
    "its fork is before the merge: such rules are run by the RPC tests' chain and by state tests of Berlin and London";

/// The forks from the merge on, and the key of each in a genesis, after `Time`.
const ORDER: [(&str, &str); 10] = [
    ("Paris", ""),
    ("Shanghai", "shanghai"),
    ("Cancun", "cancun"),
    ("Prague", "prague"),
    ("Osaka", "osaka"),
    ("BPO1", "bpo1"),
    ("BPO2", "bpo2"),
    ("BPO3", "bpo3"),
    ("BPO4", "bpo4"),
    ("BPO5", "bpo5"),
];
/// Blobs of forks of their numbers alone, where a case says nothing: target, most, fraction.
const MAINNET: [(&str, [u64; 3]); 2] = [("bpo1", [10, 15, 8_346_193]), ("bpo2", [14, 21, 11_684_671])];
/// When the second of two forks begins.
const SECOND_AT: u64 = 15_000;

/// Forks before the merge under which single transactions are executed.
const OLD: [(&str, SpecId); 2] = [("Berlin", SpecId::BERLIN), ("London", SpecId::LONDON)];

fn place(name: &str) -> Option<usize> {
    let name = if name == "Merge" { "Paris" } else { name };
    ORDER.iter().position(|(fork, _)| *fork == name)
}

/// A genesis without accounts under the rules of a network; nothing where these are of before the merge.
pub fn genesis(network: &str, config: Option<&Value>) -> Result<Option<Genesis>, String> {
    let (first, second) = match network.split_once("To").map(|(first, rest)| (first, rest.strip_suffix("AtTime15k"))) {
        Some((first, Some(second))) => (first, second),
        Some(_) => return Ok(None),
        None => (network, network),
    };
    let (Some(first), Some(second)) = (place(first), place(second)) else { return Ok(None) };
    let chain_id = match config.and_then(|config| config.get("chainid")) {
        Some(id) => hex::small(id.as_str().ok_or("`chainid` is not text")?)?,
        None => 1,
    };
    let mut rules = json!({
        "chainId": chain_id, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
        "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0,
        "londonBlock": 0, "mergeNetsplitBlock": 0, "terminalTotalDifficulty": 0
    });
    let mut blobs = Map::new();
    for (at, (_, key)) in ORDER.iter().enumerate().take(second + 1).skip(1) {
        rules[format!("{key}Time")] = json!(if at <= first { 0 } else { SECOND_AT });
        if let Some((_, [target, max, fraction])) = MAINNET.iter().find(|(name, _)| name == key) {
            blobs.insert((*key).into(), json!({ "target": target, "max": max, "baseFeeUpdateFraction": fraction }));
        }
    }
    for (name, numbers) in config.and_then(|config| config.get("blobSchedule")?.as_object()).into_iter().flatten() {
        let number = |name: &str| hex::small_of(numbers, name);
        let (target, max, fraction) = (number("target")?, number("max")?, number("baseFeeUpdateFraction")?);
        let numbers = json!({ "target": target, "max": max, "baseFeeUpdateFraction": fraction });
        blobs.insert(name.to_ascii_lowercase(), numbers);
    }
    rules["blobSchedule"] = Value::Object(blobs);
    let text = json!({ "config": rules, "alloc": {} }).to_string();
    Genesis::from_json(&text).map(Some).map_err(|error| error.to_string())
}

/// The same for what makes no block of it: also the last forks before the merge.
pub fn of_transactions(network: &str, config: Option<&Value>) -> Result<Option<Genesis>, String> {
    let Some((_, spec)) = OLD.iter().find(|(name, _)| *name == network) else { return genesis(network, config) };
    let forks = Forks::all_until(*spec);
    Ok(genesis("Paris", config)?.map(|rules| Genesis { forks, ..rules }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_their_rules() {
        let spec = |network: &str, time| genesis(network, None).expect("it reads").expect("known").spec(1, time);
        assert_eq!([spec("Paris", 1), spec("Merge", 1)], [SpecId::MERGE; 2]);
        assert_eq!([spec("Cancun", 1), spec("Osaka", 1)], [SpecId::CANCUN, SpecId::OSAKA]);
        let both = [14_999, 15_000].map(|time| spec("ShanghaiToCancunAtTime15k", time));
        assert_eq!(both, [SpecId::SHANGHAI, SpecId::CANCUN]);
        for old in ["London", "Berlin", "ArrowGlacierToParisAtDiffC0000", "Amsterdam"] {
            assert!(genesis(old, None).expect("it reads").is_none(), "{old}");
        }
        let old = |network: &str| of_transactions(network, None).expect("it reads").map(|rules| rules.spec(1, 1));
        assert_eq!([old("London"), old("Berlin")], [Some(SpecId::LONDON), Some(SpecId::BERLIN)]);
        assert_eq!([old("Cancun"), old("Istanbul")], [Some(SpecId::CANCUN), None]);
        let config = json!({ "chainid": "0x07", "blobSchedule": {
            "BPO1": { "target": "0x02", "max": "0x03", "baseFeeUpdateFraction": "0x32f0ed" } } });
        let bpo = genesis("OsakaToBPO1AtTime15k", Some(&config)).expect("it reads").expect("known");
        assert_eq!(bpo.chain_id, 7);
        assert_eq!([14_999, 15_000].map(|time| bpo.blob_params(1, time).max_blob_count), [9, 3]);
    }
}
