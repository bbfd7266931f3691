//! CometBFT's `config.toml` and `genesis.json`, as `cometbft testnet` writes them, changed where this node needs it.
//!
//! The rest of the file stays as it is, including comments: they are CometBFT's own manual.
//!
//! reads   the text of a `config.toml` of CometBFT 0.38
//! writes  the same with other values

use toml_edit::{Document, Item, TomlError, Value, value};

/// Why a setting cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// A setting that the file does not have: another version's file.
    #[error("config.toml of CometBFT: no `{key}` in section [{section}]; this needs CometBFT 0.38")]
    Missing {
        /// The section; empty before the first.
        section: &'static str,
        /// The key in it.
        key: &'static str,
    },
    /// The file is not TOML.
    #[error("config.toml of CometBFT: {0}")]
    Toml(#[from] TomlError),
}

/// Sets `key` of a section (empty: before the first).
fn set(file: &mut Document, section: &'static str, key: &'static str, to: Value) -> Result<(), SettingError> {
    let table = match section {
        "" => Some(file.as_table_mut()),
        _ => file.get_mut(section).and_then(Item::as_table_mut),
    };
    let setting = table.and_then(|table| table.get_mut(key)).filter(|setting| setting.is_value());
    *setting.ok_or(SettingError::Missing { section, key })? = value(to);
    Ok(())
}

/// Settings of one node's CometBFT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The application's address: `unix:///…`.
    pub application: String,
    /// Address on which its RPC listens: `tcp://host:port`.
    pub rpc: String,
    /// Address on which it listens for peers: `tcp://host:port`.
    pub p2p: String,
    /// Between a block's commit and the next one's proposal, in milliseconds.
    pub pause_ms: u64,
    /// Ethereum transactions that wait at most; the mempool's size is in envelopes.
    pub pool: u64,
    /// How to begin from a snapshot, if so.
    pub state_sync: Option<StateSync>,
}

/// The trust anchor of a node that starts from a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSync {
    /// Two RPCs or one twice, between commas: `http://host:port`.
    pub rpc_servers: String,
    /// Height of a block that is trusted.
    pub trust_height: u64,
    /// That block's hash, in hexadecimal.
    pub trust_hash: String,
}

impl Node {
    /// A `config.toml` with this node's values.
    pub fn apply(&self, text: &str) -> Result<String, SettingError> {
        let number = |count: u64| Value::from(i64::try_from(count).unwrap_or(i64::MAX));
        let mut settings: Vec<(&'static str, &'static str, Value)> = vec![
            ("", "proxy_app", (&self.application).into()),
            ("", "abci", "socket".into()),
            // Otherwise CometBFT logs a line for each step of consensus.
            ("", "log_level", "error".into()),
            ("rpc", "laddr", (&self.rpc).into()),
            ("p2p", "laddr", (&self.p2p).into()),
            ("p2p", "pex", false.into()),
            ("p2p", "addr_book_strict", false.into()),
            ("p2p", "allow_duplicate_ip", true.into()),
            // Both are meant for wide networks and are the greater part of a small one's latency.
            ("p2p", "flush_throttle_timeout", "10ms".into()),
            ("consensus", "peer_gossip_sleep_duration", "10ms".into()),
            ("p2p", "send_rate", 51_200_000.into()),
            ("p2p", "recv_rate", 51_200_000.into()),
            ("p2p", "max_packet_msg_payload_size", 65_536.into()),
            ("mempool", "type", "flood".into()),
            ("mempool", "recheck", true.into()),
            // A single transaction takes a place as an envelope does.
            ("mempool", "size", number(self.pool)),
            ("mempool", "cache_size", number(2 * self.pool)),
            ("consensus", "timeout_commit", format!("{}ms", self.pause_ms).into()),
            ("tx_index", "indexer", "null".into()),
        ];
        if let Some(sync) = &self.state_sync {
            settings.extend([
                ("statesync", "enable", true.into()),
                ("statesync", "rpc_servers", (&sync.rpc_servers).into()),
                ("statesync", "trust_height", number(sync.trust_height)),
                ("statesync", "trust_hash", (&sync.trust_hash).into()),
                // The least that it takes.
                ("statesync", "discovery_time", "5s".into()),
            ]);
        }
        let mut file: Document = text.parse()?;
        for (section, key, to) in settings {
            set(&mut file, section, key, to)?;
        }
        Ok(file.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# laddr = no\nproxy_app = \"a\"\n[rpc]\n# Where.\nladdr = \"x\"\nlist = [\"HEAD\", ]\n[p2p]\nladdr = \"y\"\n";

    fn changed(section: &'static str, key: &'static str, to: Value) -> Result<String, SettingError> {
        let mut file: Document = TEXT.parse().unwrap();
        set(&mut file, section, key, to).map(|()| file.to_string())
    }

    #[test]
    fn one_setting_changes_and_all_else_stays() {
        let text = changed("p2p", "laddr", "tcp://127.0.0.2:1".into()).unwrap();
        assert_eq!(text, TEXT.replace("laddr = \"y\"", "laddr = \"tcp://127.0.0.2:1\""));
        let text = changed("", "proxy_app", "unix:///a".into()).unwrap();
        assert_eq!(text, TEXT.replace("\"a\"", "\"unix:///a\""));
        assert!(changed("", "laddr", 1.into()).is_err());
        assert!(changed("", "p2p", 1.into()).is_err(), "a section is no setting");
        assert!(changed("mempool", "size", 1.into()).unwrap_err().to_string().contains("[mempool]"));
    }

    #[test]
    fn quotes_come_back() {
        let path = "a\"b\\c\n";
        let file: Document = changed("rpc", "laddr", path.into()).unwrap().parse().unwrap();
        assert_eq!(file["rpc"]["laddr"].as_str(), Some(path));
    }
}
