//! The features with which `hearth run` begins a chain.
//!
//! reads   options; the feature accounts of the node at `--url`
//! writes  features that are active from slot 0 on
//! memory  their addresses
//! drops   features that are active at that node and not supported here, with a notice
//! source  `--deactivate-feature` and `--clone-feature-set` of `solana-test-validator` 4.2

use hearth_ledger::Genesis;
use hearth_ledger::features::{self, Feature, Support, state_of};
use hearth_wire::Pubkey;
use hearth_wire::base58::{decode_32, encode_32};

use super::{FlagError, Flags, remote};

const DEACTIVATE: &str = "--deactivate-feature";
const CLONE: &str = "--clone-feature-set";

/// The features that options request.
#[derive(Default)]
pub struct FeatureRequest {
    deactivated: Vec<&'static Feature>,
    /// The features that are active at the other node; `None`: those of mainnet.
    there: Option<Vec<&'static Feature>>,
}

impl FeatureRequest {
    /// The request of `flags`. If the chain `exists`, no other node is asked.
    pub fn of(flags: &Flags, exists: bool) -> Result<Self, FlagError> {
        let deactivated = flags.deactivate_feature.iter().map(|text| deactivated(text)).collect::<Result<_, _>>()?;
        let there = match &flags.url {
            Some(url) if flags.clone_feature_set && !exists => Some(active_at(url)?),
            _ => None,
        };
        Ok(Self { deactivated, there })
    }

    /// The features of a new chain.
    pub fn features(&self) -> Vec<&'static Feature> {
        let is_wanted = |feature: &&Feature| match &self.there {
            Some(there) => feature.support == Support::Required || there.contains(feature),
            None => feature.support == Support::Required || feature.is_on_mainnet(),
        };
        features::supported().filter(is_wanted).filter(|feature| !self.deactivated.contains(feature)).collect()
    }

    /// Notices about features in which the new chain differs from the other node's.
    pub fn notices(&self) -> Vec<String> {
        let Some(there) = &self.there else { return vec![] };
        let absent = there.iter().filter(|feature| feature.support == Support::Unsupported);
        let absent = absent.map(|feature| {
            format!("{CLONE}: {} is active there and not supported here: {}", feature.name, feature.note)
        });
        let own = features::supported().filter(|feature| feature.support == Support::Required);
        let own = own.filter(|feature| !there.contains(feature));
        let own = own.map(|feature| {
            format!("{CLONE}: {} is not active there and required here: {}", feature.name, feature.note)
        });
        absent.chain(own).collect()
    }

    /// Why a chain that exists did not begin without the deactivated features: the option, and what differs.
    pub fn difference(&self, genesis: &Genesis) -> Option<(&'static str, String)> {
        if self.deactivated.is_empty() {
            return None;
        }
        let accounts = genesis.accounts();
        let has = |feature: &&&Feature| {
            let found = accounts.binary_search_by_key(&feature.id, |(key, _)| *key);
            found.is_ok_and(|index| state_of(&accounts[index].1).is_some())
        };
        let feature = self.deactivated.iter().find(has)?;
        Some((DEACTIVATE, format!("with the feature {}", feature.name)))
    }
}

/// Parses the address of a feature that may be left out.
fn deactivated(text: &str) -> Result<&'static Feature, FlagError> {
    let wrong = |what: String| FlagError::value(DEACTIVATE, what);
    let id = decode_32(text).map_err(|_| wrong(format!("`{text}` is not an address in base58")))?;
    let feature = features::of_id(&id).ok_or_else(|| {
        wrong(format!("{text} is not a feature that this program knows; docs/features.md lists them"))
    })?;
    match feature.support {
        Support::Required => Err(wrong(format!("{} is required here: {}", feature.name, feature.note))),
        _ => Ok(feature),
    }
}

/// The features that are active at the node at `url`.
fn active_at(url: &str) -> Result<Vec<&'static Feature>, FlagError> {
    let ids: Vec<Pubkey> = features::all().iter().map(|feature| feature.id).collect();
    let accounts = remote::accounts(url, &ids).map_err(|why| FlagError::value(CLONE, why))?;
    let both = features::all().iter().zip(accounts);
    let active: Vec<_> = both
        .filter(|(_, account)| account.as_ref().and_then(state_of).flatten().is_some())
        .map(|(feature, _)| feature)
        .collect();
    if active.is_empty() {
        let first = encode_32(&ids[0]);
        return Err(FlagError::value(CLONE, format!("{url} has no active feature, not even {first}")));
    }
    Ok(active)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use hearth_ledger::GenesisConfig;
    use hearth_testkit::http::{Reply, serve};
    use serde_json::{Value, json};

    use super::*;

    fn named(name: &str) -> &'static Feature {
        features::all().iter().find(|feature| feature.name == name).expect("a feature")
    }

    fn without(names: &[&str]) -> Result<FeatureRequest, FlagError> {
        let deactivate_feature = names.iter().map(|name| encode_32(&named(name).id).to_string()).collect();
        FeatureRequest::of(&Flags { deactivate_feature, ..Flags::default() }, false)
    }

    #[test]
    fn a_chain_begins_as_mainnet_less_what_is_deactivated() {
        let all = FeatureRequest::default().features();
        assert_eq!(all, features::mainnet().collect::<Vec<_>>());
        assert!(!all.contains(&named("disable_sbpf_v0_v1_v2_deployment")), "programs of version 0 deploy");
        let less = without(&["enable_alt_bn128_syscall"]).unwrap().features();
        assert_eq!(less.len(), all.len() - 1);
        assert!(!less.contains(&named("enable_alt_bn128_syscall")));
        let error = without(&["bls_pubkey_management_in_vote_account"]).err().expect("it is required").to_string();
        assert!(
            error.contains("--deactivate-feature: bls_pubkey_management_in_vote_account is required here"),
            "{error}"
        );
        for (text, what) in [("x", "not an address"), ("11111111111111111111111111111111", "not a feature")] {
            let flags = Flags { deactivate_feature: vec![text.to_owned()], ..Flags::default() };
            let error = FeatureRequest::of(&flags, false).err().expect("it is refused").to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_chain_that_began_with_the_feature_is_another() {
        let genesis = |request: &FeatureRequest| {
            let extra_accounts = features::feature_accounts(request.features());
            let config = GenesisConfig {
                fund_initial_accounts: 0,
                extra_accounts,
                ..GenesisConfig::development([1; 32], [2; 32], 0)
            };
            Genesis::create(config, |_| {}).unwrap()
        };
        let less = without(&["enable_alt_bn128_syscall"]).unwrap();
        assert_eq!(less.difference(&genesis(&less)), None);
        assert_eq!(FeatureRequest::default().difference(&genesis(&less)), None);
        let (flag, what) = less.difference(&genesis(&FeatureRequest::default())).expect("it differs");
        assert_eq!((flag, what.as_str()), (DEACTIVATE, "with the feature enable_alt_bn128_syscall"));
    }

    #[test]
    fn the_other_node_s_features_are_taken() {
        let active = ["enable_sha512_syscall", "alpenglow"].map(|name| encode_32(&named(name).id).to_string());
        let url = serve(move |body| {
            let request: Value = serde_json::from_slice(body).expect("a request");
            let account = |key: &Value| {
                let key = key.as_str().expect("an address");
                let since = active.iter().any(|active| active == key).then_some(7);
                let account = features::feature_account(since);
                let data = BASE64_STANDARD.encode(account.data());
                json!({
                    "lamports": account.lamports, "data": [data, "base64"], "owner": &*encode_32(&account.owner),
                    "executable": false,
                })
            };
            let keys = request["params"][0].as_array().expect("addresses");
            assert!(keys.len() <= 100, "a node answers for no more");
            let value: Vec<_> = keys.iter().map(account).collect();
            Reply::Answer(json!({ "jsonrpc": "2.0", "id": 1, "result": { "value": value } }).to_string())
        });
        let flags = Flags { clone_feature_set: true, url: Some(url), ..Flags::default() };
        let request = FeatureRequest::of(&flags, false).unwrap();
        let features = request.features();
        assert!(features.contains(&named("enable_sha512_syscall")));
        assert!(
            features
                .iter()
                .all(|feature| { feature.support == Support::Required || feature.name == "enable_sha512_syscall" })
        );
        let notices = request.notices().join("\n");
        assert!(notices.contains("alpenglow is active there and not supported here"), "{notices}");
        assert!(
            notices.contains("bls_pubkey_management_in_vote_account is not active there and required here"),
            "{notices}"
        );
    }
}
