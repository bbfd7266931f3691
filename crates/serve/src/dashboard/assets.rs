//! The page's files, as they are in the binary.
//!
//! reads   `page/` beside this file, when it is compiled
//! writes  each with its type and a tag that changes with its text
//! memory  the files' text

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// How the page looks, for other pages that are to look like it.
pub const STYLE: &str = include_str!("page/style.css");

/// One file.
pub(super) struct Asset {
    pub(super) path: &'static str,
    pub(super) content_type: &'static str,
    pub(super) text: &'static str,
    /// As an `ETag` has it, quotes included.
    pub(super) tag: String,
}

macro_rules! files {
    ($($path:literal: $content_type:ident $name:literal,)*) => {
        [$(($path, $content_type, include_str!(concat!("page/", $name)))),*]
    };
}

/// All files; the page itself is the first.
pub(super) fn all() -> Vec<Asset> {
    let files = files![
        "/dashboard": HTML "index.html",
        "/dashboard/style.css": CSS "style.css",
        "/dashboard/icon.svg": ICON "icon.svg",
        "/dashboard/main.mjs": SCRIPT "main.mjs",
        "/dashboard/dom.mjs": SCRIPT "dom.mjs",
        "/dashboard/format.mjs": SCRIPT "format.mjs",
        "/dashboard/live.mjs": SCRIPT "live.mjs",
        "/dashboard/header.mjs": SCRIPT "header.mjs",
        "/dashboard/frame.mjs": SCRIPT "frame.mjs",
        "/dashboard/chart.mjs": SCRIPT "chart.mjs",
        "/dashboard/peers.mjs": SCRIPT "peers.mjs",
        "/dashboard/table.mjs": SCRIPT "table.mjs",
        "/dashboard/tiles.mjs": SCRIPT "tiles.mjs",
        "/dashboard/links.mjs": SCRIPT "links.mjs",
        "/dashboard/latency.mjs": SCRIPT "latency.mjs",
        "/dashboard/theme.mjs": SCRIPT "theme.mjs",
        "/dashboard/rpc.mjs": SCRIPT "rpc.mjs",
        "/dashboard/blocks.mjs": SCRIPT "blocks.mjs",
        "/dashboard/explorer.mjs": SCRIPT "explorer.mjs",
        "/dashboard/views.mjs": SCRIPT "views.mjs",
    ];
    let asset = |(path, content_type, text)| Asset { path, content_type, text, tag: tag(text) };
    files.into_iter().map(asset).collect()
}

/// FNV-1a: it tells builds apart, and need not withstand anybody.
fn tag(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("\"{hash:016x}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_for_what_is_there_and_for_nothing_outside() {
        let files = all();
        let paths: Vec<&str> = files.iter().map(|asset| asset.path).collect();
        let mut asked = 0;
        for asset in &files {
            for quoted in asset.text.split(['"', '\'']).filter(|text| !text.contains(char::is_whitespace)) {
                let path = quoted.strip_prefix("./").map(|name| format!("/dashboard/{name}"));
                let path = path.unwrap_or_else(|| quoted.to_owned());
                if path.starts_with("/dashboard/") && path != "/dashboard/live" {
                    assert!(paths.contains(&&path[..]), "{}: {quoted}", asset.path);
                    asked += 1;
                }
                let is_namespace = quoted.starts_with("http://www.w3.org/");
                assert!(is_namespace || !quoted.contains("://"), "{} asks outside: {quoted}", asset.path);
            }
            // What a browser would refuse under the policy, or what would run what a node says.
            for refused in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=\"", "onclick="]
            {
                assert!(!asset.text.contains(refused), "{}: {refused}", asset.path);
            }
        }
        assert!(asked >= files.len(), "{asked} of {}", files.len());
    }

    #[test]
    fn tags_follow_the_text() {
        assert_eq!(tag(""), "\"cbf29ce484222325\"");
        assert_ne!(tag("a"), tag("b"));
    }
}
