//! The page's files, embedded in the binary.
//!
//! reads   `page/` next to this file, at compile time
//! writes  each with its type, and a tag that depends on its contents
//! memory  the files' contents

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// How the page looks, for other pages that are to look like it.
pub const STYLE: &str = include_str!("page/style.css");

/// A file of the page, with its response headers.
pub(super) struct Asset {
    pub(super) path: &'static str,
    pub(super) content_type: &'static str,
    pub(super) text: &'static str,
    /// Value of the `ETag` header, quotes included.
    pub(super) tag: String,
}

macro_rules! files {
    ($($path:literal: $content_type:ident $name:literal,)*) => {
        &[$(($path, $content_type, include_str!(concat!("page/", $name)))),*]
    };
}

/// Path, content type, contents.
type File = (&'static str, &'static str, &'static str);

/// Whatever the node's ledger is; the page itself is the first.
const COMMON: &[File] = files![
    "/dashboard": HTML "index.html",
    "/dashboard/style.css": CSS "style.css",
    "/dashboard/icon.svg": ICON "icon.svg",
    "/dashboard/main.mjs": SCRIPT "main.mjs",
    "/dashboard/dom.mjs": SCRIPT "dom.mjs",
    "/dashboard/format.mjs": SCRIPT "format.mjs",
    "/dashboard/figures.mjs": SCRIPT "figures.mjs",
    "/dashboard/live.mjs": SCRIPT "live.mjs",
    "/dashboard/header.mjs": SCRIPT "header.mjs",
    "/dashboard/frame.mjs": SCRIPT "frame.mjs",
    "/dashboard/curves.mjs": SCRIPT "curves.mjs",
    "/dashboard/chart.mjs": SCRIPT "chart.mjs",
    "/dashboard/peers.mjs": SCRIPT "peers.mjs",
    "/dashboard/table.mjs": SCRIPT "table.mjs",
    "/dashboard/flow.mjs": SCRIPT "flow.mjs",
    "/dashboard/pipeline.mjs": SCRIPT "pipeline.mjs",
    "/dashboard/tiles.mjs": SCRIPT "tiles.mjs",
    "/dashboard/links.mjs": SCRIPT "links.mjs",
    "/dashboard/latency.mjs": SCRIPT "latency.mjs",
    "/dashboard/stack.mjs": SCRIPT "stack.mjs",
    "/dashboard/cluster.mjs": SCRIPT "cluster.mjs",
    "/dashboard/worldmap.mjs": SCRIPT "worldmap.mjs",
    "/dashboard/land.mjs": SCRIPT "land.mjs",
    "/dashboard/theme.mjs": SCRIPT "theme.mjs",
    "/dashboard/rpc.mjs": SCRIPT "rpc.mjs",
    "/dashboard/blocks.mjs": SCRIPT "blocks.mjs",
    "/dashboard/explorer.mjs": SCRIPT "explorer.mjs",
    "/dashboard/pieces.mjs": SCRIPT "pieces.mjs",
];

const SOLANA: &[File] = files![
    "/dashboard/ledger/ledger.mjs": SCRIPT "solana/ledger.mjs",
    "/dashboard/ledger/blocks.mjs": SCRIPT "solana/blocks.mjs",
    "/dashboard/ledger/confirmed.mjs": SCRIPT "solana/confirmed.mjs",
    "/dashboard/ledger/tokens.mjs": SCRIPT "solana/tokens.mjs",
    "/dashboard/ledger/views.mjs": SCRIPT "solana/views.mjs",
    "/dashboard/ledger/words.mjs": SCRIPT "solana/words.mjs",
];

const ETHEREUM: &[File] = files![
    "/dashboard/ledger/ledger.mjs": SCRIPT "ethereum/ledger.mjs",
    "/dashboard/ledger/blocks.mjs": SCRIPT "ethereum/blocks.mjs",
    "/dashboard/ledger/outputs.mjs": SCRIPT "ethereum/outputs.mjs",
    "/dashboard/ledger/panels.mjs": SCRIPT "ethereum/panels.mjs",
    "/dashboard/ledger/tokens.mjs": SCRIPT "ethereum/tokens.mjs",
    "/dashboard/ledger/views.mjs": SCRIPT "ethereum/views.mjs",
    "/dashboard/ledger/words.mjs": SCRIPT "ethereum/words.mjs",
];

/// The ledger that the page explores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ledger {
    /// A Solana ledger, queried by Solana's JSON-RPC.
    Solana,
    /// An Ethereum ledger, queried by Ethereum's JSON-RPC.
    Ethereum,
}

/// All files of the page about a node of this ledger; the page itself is the first.
pub(super) fn all(ledger: Ledger) -> Vec<Asset> {
    let own = match ledger {
        Ledger::Solana => SOLANA,
        Ledger::Ethereum => ETHEREUM,
    };
    let asset = |&(path, content_type, text): &File| Asset { path, content_type, text, tag: tag(text) };
    COMMON.iter().chain(own).map(asset).collect()
}

/// FNV-1a: it only has to distinguish builds, not to resist attackers.
fn tag(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("\"{hash:016x}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resolves a quoted path relative to a file; `None` if it is not a path.
    fn led_to(from: &str, quoted: &str) -> Option<String> {
        let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
        match (quoted.strip_prefix("./"), quoted.strip_prefix("../")) {
            (Some(name), _) => Some(format!("{folder}/{name}")),
            (_, Some(name)) => Some(format!("{}/{name}", folder.rsplit_once('/').map_or("", |(above, _)| above))),
            _ => quoted.starts_with("/dashboard/").then(|| quoted.to_owned()),
        }
    }

    #[test]
    fn the_page_asks_for_what_is_there_and_for_nothing_outside() {
        for ledger in [Ledger::Solana, Ledger::Ethereum] {
            let files = all(ledger);
            let paths: Vec<&str> = files.iter().map(|asset| asset.path).collect();
            let mut asked = std::collections::BTreeSet::from(["/dashboard".to_owned()]);
            for asset in &files {
                for quoted in asset.text.split(['"', '\'']).filter(|text| !text.contains(char::is_whitespace)) {
                    if let Some(path) = led_to(asset.path, quoted).filter(|path| path != "/dashboard/live") {
                        assert!(paths.contains(&&path[..]), "{}: {quoted}", asset.path);
                        asked.insert(path);
                    }
                    let is_namespace = quoted.starts_with("http://www.w3.org/");
                    assert!(is_namespace || !quoted.contains("://"), "{} asks outside: {quoted}", asset.path);
                }
                // Constructs that the policy would make a browser refuse, or that would execute a node's text.
                for refused in
                    ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=\"", "onclick="]
                {
                    assert!(!asset.text.contains(refused), "{}: {refused}", asset.path);
                }
            }
            assert_eq!(asked.len(), files.len(), "{ledger:?} has files that nothing asks for");
        }
    }

    /// A page that is captured whole would have blank cards, and scripts that measure would find no width.
    #[test]
    fn cards_out_of_sight_are_drawn() {
        assert!(!STYLE.contains("content-visibility"));
    }

    #[test]
    fn tags_follow_the_text() {
        assert_eq!(tag(""), "\"cbf29ce484222325\"");
        assert_ne!(tag("a"), tag("b"));
    }
}
