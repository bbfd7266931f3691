//! CometBFT's `config.toml` and `genesis.json`, as `cometbft testnet` writes them, changed where this node needs it.
//!
//! The file is changed line by line and keeps its comments: they are CometBFT's own manual of it.
//!
//! reads   the text of a `config.toml` of CometBFT 0.38
//! writes  the same with other values

/// A setting that the file does not have: another version's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("config.toml of CometBFT: no `{key}` in section [{section}]; this needs CometBFT 0.38")]
pub struct SettingError {
    section: String,
    key: String,
}

/// Sets `key` of a section (empty: before the first) to `value`, which is TOML.
pub fn set(text: &str, section: &str, key: &str, value: &str) -> Result<String, SettingError> {
    let (mut here, mut done) = (String::new(), false);
    let mut out = String::with_capacity(text.len() + value.len());
    for line in text.lines() {
        let bare = line.trim();
        if let Some(name) =
            bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).filter(|_| !bare.contains('='))
        {
            here = name.to_owned();
        }
        let is_it = !done && here == section && bare.split_once('=').is_some_and(|(name, _)| name.trim() == key);
        if is_it {
            out.push_str(&format!("{key} = {value}"));
            done = true;
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    if done { Ok(out) } else { Err(SettingError { section: section.into(), key: key.into() }) }
}

/// A string as TOML has it. Paths and addresses hold neither quotes nor controls; those that do are escaped.
pub fn quoted(text: &str) -> String {
    let escaped = text.chars().flat_map(|c| match c {
        '"' | '\\' => vec!['\\', c],
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)).chars().collect(),
        c => vec![c],
    });
    std::iter::once('"').chain(escaped).chain(std::iter::once('"')).collect()
}

/// What one node's CometBFT is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The application's address: `unix:///…`.
    pub application: String,
    /// Where its RPC listens: `tcp://host:port`.
    pub rpc: String,
    /// Where it listens for peers: `tcp://host:port`.
    pub p2p: String,
    /// Between a block's commit and the next one's proposal, in milliseconds.
    pub pause_ms: u64,
    /// Ethereum transactions that wait at most; the mempool's size is in envelopes.
    pub pool: u64,
    /// How to begin from a snapshot, if so.
    pub state_sync: Option<StateSync>,
}

/// Whom a node that begins from a snapshot trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSync {
    /// Two RPCs or one twice, between commas: `http://host:port`.
    pub rpc_servers: String,
    /// Of a block that is trusted.
    pub trust_height: u64,
    /// That block's hash, in hexadecimal.
    pub trust_hash: String,
}

impl Node {
    /// A `config.toml` with this node's values.
    pub fn apply(&self, text: &str) -> Result<String, SettingError> {
        let pause = format!("\"{}ms\"", self.pause_ms);
        let mut settings: Vec<(&str, &str, String)> = vec![
            ("", "proxy_app", quoted(&self.application)),
            ("", "abci", quoted("socket")),
            // Else a line for each step of consensus.
            ("", "log_level", quoted("error")),
            ("rpc", "laddr", quoted(&self.rpc)),
            ("p2p", "laddr", quoted(&self.p2p)),
            ("p2p", "pex", "false".into()),
            ("p2p", "addr_book_strict", "false".into()),
            ("p2p", "allow_duplicate_ip", "true".into()),
            // Both are meant for wide networks and are the greater part of a small one's latency.
            ("p2p", "flush_throttle_timeout", quoted("10ms")),
            ("consensus", "peer_gossip_sleep_duration", quoted("10ms")),
            ("p2p", "send_rate", "51200000".into()),
            ("p2p", "recv_rate", "51200000".into()),
            ("p2p", "max_packet_msg_payload_size", "65536".into()),
            ("mempool", "type", quoted("flood")),
            ("mempool", "recheck", "true".into()),
            // A single transaction takes a place as an envelope does.
            ("mempool", "size", self.pool.to_string()),
            ("mempool", "cache_size", (2 * self.pool).to_string()),
            ("consensus", "timeout_commit", pause),
            ("tx_index", "indexer", quoted("null")),
        ];
        if let Some(sync) = &self.state_sync {
            settings.extend([
                ("statesync", "enable", "true".into()),
                ("statesync", "rpc_servers", quoted(&sync.rpc_servers)),
                ("statesync", "trust_height", sync.trust_height.to_string()),
                ("statesync", "trust_hash", quoted(&sync.trust_hash)),
                // The least that it takes.
                ("statesync", "discovery_time", quoted("5s")),
            ]);
        }
        settings.iter().try_fold(text.to_owned(), |text, (section, key, value)| set(&text, section, key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# laddr = no\nproxy_app = \"a\"\n[rpc]\n# Where.\nladdr = \"x\"\nlist = [\"HEAD\", ]\n[p2p]\nladdr = \"y\"\n";

    #[test]
    fn one_setting_changes_and_all_else_stays() {
        let text = set(TEXT, "p2p", "laddr", &quoted("tcp://127.0.0.2:1")).unwrap();
        assert_eq!(text, TEXT.replace("laddr = \"y\"", "laddr = \"tcp://127.0.0.2:1\""));
        let text = set(TEXT, "", "proxy_app", &quoted("unix:///a")).unwrap();
        assert_eq!(text, TEXT.replace("\"a\"", "\"unix:///a\""));
        assert!(set(TEXT, "", "laddr", "1").is_err());
        assert!(set(TEXT, "mempool", "size", "1").unwrap_err().to_string().contains("[mempool]"));
    }

    #[test]
    fn quotes_are_escaped() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
