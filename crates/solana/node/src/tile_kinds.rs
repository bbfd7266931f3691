//! The table of tile kinds: `hearth config show --tiles`.
//!
//! reads   the pipeline's table of kinds
//! writes  Markdown
//! memory  the page

use std::fmt::Write;

use hearth_pipeline::kinds::{KINDS, Kind, TileNeed};

/// Renders all kinds as a Markdown page.
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    for kind in &KINDS {
        let count = kind.count_key().map_or("one".into(), |key| format!("`{key}`"));
        let Kind { name, role, weight_us, .. } = kind;
        let needs: Vec<_> = kind.needs.iter().copied().map(TileNeed::text).collect();
        let needs = if needs.is_empty() { "nothing".into() } else { needs.join(", ") };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {name} | {} | {count} | {weight_us} | {needs} |", role.text());
    }
    text
}

const HEAD: &str = "\
# Tiles

The kinds of tiles, in the order of `layout.affinity` and of the data flow. The weight is CPU time for a transfer, by
which `auto` shares the cores out. The last column is what a tile needs besides its links, the clock and chance: the
less it is, the more tightly the tile can be isolated. [How the pipeline works](pipeline.md) says what each does.

| Tile | Runs in | How many | Weight, µs | Needs |
|---|---|---|---|---|
";
