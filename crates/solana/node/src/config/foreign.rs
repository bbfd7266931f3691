//! Keys of other nodes' configuration files: renamed if there is an equivalent, otherwise ignored with a notice.
//!
//! reads   a parsed file
//! writes  the same without those keys, and a notice for each

use toml::{Table, Value};

/// Keys without a meaning here, and why. Keys that an operator relies on for safety are excluded, such as
/// `consensus.expected_bank_hash`: to ignore one would be noticed too late, so it stays an error.
const WITHOUT_MEANING: [(&str, &str); 40] = [
    ("layout.agave_affinity", "no Agave process runs beside the tiles"),
    ("layout.solana_labs_affinity", "no Agave process runs beside the tiles"),
    ("layout.agave_unified_scheduler_handler_threads", "no Agave process runs beside the tiles"),
    ("layout.resolv_tile_count", "the pack tile resolves lookup tables"),
    ("user", "the node runs as the user that starts it"),
    ("scratch_directory", "the node has no scratch files"),
    ("dynamic_port_range", "every port has a key of its own"),
    ("log", "set RUST_LOG instead"),
    ("reporting", "nothing is reported anywhere"),
    ("ledger.accounts_path", "the accounts are in memory, and in the snapshots"),
    ("ledger.account_indexes", "no index of accounts is kept"),
    ("ledger.account_index_exclude_keys", "no index of accounts is kept"),
    ("ledger.account_index_include_keys", "no index of accounts is kept"),
    ("ledger.enable_accounts_disk_index", "the accounts are in memory"),
    ("ledger.accounts_index_path", "the accounts are in memory"),
    ("ledger.accounts_hash_cache_path", "the accounts' hash is kept up to date in memory"),
    ("ledger.snapshot_archive_format", "snapshots have a format of their own"),
    ("gossip.port_check", "the node does not ask whether its ports can be reached"),
    ("gossip.host", "the node advertises `gossip.bind_address`"),
    ("snapshots.incremental_snapshots", "`snapshots.incremental_snapshot_interval_slots` is 0 for none"),
    ("snapshots.incremental_path", "archives of both kinds are in one folder"),
    ("snapshots.minimum_snapshot_download_speed", "a peer of any speed is taken"),
    ("snapshots.genesis_download", "a node without a genesis always takes the cluster's"),
    ("hugetlbfs.gigantic_page_threshold_mib", "the workspace is one file of one page size"),
    ("hugetlbfs.allow_hugepage_increase", "huge pages are reserved by the administrator"),
    ("rpc.full_api", "the RPC always serves all it has"),
    ("rpc.pubsub_enable_block_subscription", "blockSubscribe is not served"),
    ("rpc.pubsub_enable_vote_subscription", "voteSubscribe is always served"),
    ("tiles.shred.max_pending_shred_sets", "a leader's sets are not held"),
    ("tiles.gui", "the dashboard is served by the RPC: `rpc.dashboard`"),
    ("tiles.bundle", "the node takes no bundles"),
    ("tiles.netlink", "the kernel routes what is sent"),
    ("net.provider", "net uses UDP sockets"),
    ("net.xdp", "net uses UDP sockets"),
    ("tiles.net.xdp_mode", "net uses UDP sockets"),
    ("tiles.net.interface", "net uses UDP sockets"),
    ("development.sandbox", "tiles are threads of one process"),
    ("development.no_clone", "tiles are threads of one process"),
    ("development.no_agave", "no Agave process runs beside the tiles"),
    ("development.netns", "the node makes no network namespace"),
];

/// Removes foreign keys from a file, translating those with an equivalent. Returns a notice for each.
pub fn adapt(file: &mut Table) -> Vec<String> {
    let mut notices = vec![];
    if let Some(Value::Boolean(disabled)) = remove(file, "development.bench.disable_blockstore") {
        notices.push(
            "`development.bench.disable_blockstore` was taken as `disable_blockstore_from_slot = 1`, its newer form"
                .into(),
        );
        if disabled {
            insert(file, "development.bench.disable_blockstore_from_slot", Value::Integer(1));
        }
    }
    if let Some(only_known) = remove(file, "rpc.only_known") {
        notices.push(only_known_rpc(file, only_known));
    }
    for (key, why) in WITHOUT_MEANING {
        if remove(file, key).is_some() {
            notices.push(format!("`{key}` has no meaning here and has no effect: {why}"));
        }
    }
    notices
}

/// Translates `rpc.only_known`, and returns the notice. Without known validators it has no effect there either.
fn only_known_rpc(file: &mut Table, only_known: Value) -> String {
    let known = file.get("snapshots").and_then(|snapshots| snapshots.get("known_validators"));
    if known.and_then(Value::as_array).is_none_or(Vec::is_empty) {
        return "`rpc.only_known` has no effect: `snapshots.known_validators` names nobody".into();
    }
    insert(file, "snapshots.only_known_rpc", only_known);
    "`rpc.only_known` was taken as `snapshots.only_known_rpc`".into()
}

/// Removes a key, and tables that become empty.
pub(super) fn remove(file: &mut Table, path: &str) -> Option<Value> {
    let Some((head, rest)) = path.split_once('.') else { return file.remove(path) };
    let Some(Value::Table(inner)) = file.get_mut(head) else { return None };
    let value = remove(inner, rest);
    if value.is_some() && inner.is_empty() {
        file.remove(head);
    }
    value
}

fn insert(file: &mut Table, path: &str, value: Value) {
    let Some((head, rest)) = path.split_once('.') else {
        file.entry(path).or_insert(value);
        return;
    };
    let inner = file.entry(head).or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(inner) = inner {
        insert(inner, rest, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn no_key_of_ours_is_foreign() {
        let mut ours = Table::try_from(Config::default()).unwrap();
        for (key, _) in WITHOUT_MEANING {
            assert!(remove(&mut ours, key).is_none(), "{key}");
        }
    }

    #[test]
    fn known_validators_alone_serve_if_the_file_says_so() {
        let adapted = |text: &str| {
            let mut file: Table = toml::from_str(text).unwrap();
            let notices = adapt(&mut file);
            assert_eq!(notices.len(), 1, "{notices:?}");
            file
        };
        let known = "[snapshots]\nknown_validators = [\"a\"]\n";
        let with: Table = toml::from_str(&format!("{known}only_known_rpc = true\n")).unwrap();
        assert_eq!(adapted(&format!("{known}[rpc]\nonly_known = true\n")), with);
        assert_eq!(adapted("[rpc]\nonly_known = true\n"), Table::new());
    }

    #[test]
    fn foreign_keys_are_named_and_dropped() {
        let text =
            "[ledger]\naccounts_path = \"/a\"\npath = \"/b\"\n[tiles.gui]\nenabled = true\ngui_listen_port = 80\n";
        let mut file: Table = toml::from_str(text).unwrap();
        let notices = adapt(&mut file);
        assert_eq!(file, toml::from_str("[ledger]\npath = \"/b\"\n").unwrap());
        for key in ["`ledger.accounts_path`", "`tiles.gui`"] {
            assert!(
                notices.iter().any(|notice| notice.starts_with(key) && notice.contains("no effect")),
                "{notices:?}"
            );
        }
        assert_eq!(notices.len(), 2);
    }
}
