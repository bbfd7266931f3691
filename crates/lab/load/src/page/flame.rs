//! A flame graph from folded stacks, drawn as nested bars of text.
//!
//! reads   folded lines, `thread;caller;callee 17`, from an untrusted source
//! writes  HTML; the page's script zooms and searches, and without it the graph is complete but static
//! memory  [`NODES_MAX`] bars, at most [`DEPTH_MAX`] deep
//! drops   bars narrower than a 2000th of the graph: their callers show the time as their own

use std::collections::BTreeMap;
use std::fmt::Write;

use hearth_page::text::{escape, figure, whole};

const NODES_MAX: usize = 6_000;
const DEPTH_MAX: usize = 128;
/// Bars with a smaller share are not drawn.
const SHARE_MIN: f64 = 1.0 / 2_000.0;
/// The longest name that is shown.
const NAME_MAX: usize = 300;

/// A function at one place in the call tree.
#[derive(Default)]
struct Node<'a> {
    samples: u64,
    calls: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    fn of(folded: &'a str) -> Self {
        let mut root = Self::default();
        for line in folded.lines() {
            let Some((stack, samples)) = line.trim_end().rsplit_once(' ') else { continue };
            let Ok(samples) = samples.parse::<u32>() else { continue };
            let mut node = &mut root;
            node.samples += u64::from(samples);
            for name in stack.split(';').filter(|name| !name.is_empty()).take(DEPTH_MAX) {
                node = node.calls.entry(name).or_default();
                node.samples += u64::from(samples);
            }
        }
        root
    }
}

/// A bar: its name, first sample, number of samples and depth.
struct Bar<'a> {
    name: &'a str,
    from: u64,
    samples: u64,
    depth: usize,
}

fn lay<'a>(node: &Node<'a>, from: u64, depth: usize, least: u64, bars: &mut Vec<Bar<'a>>) {
    let mut at = from;
    for (name, call) in &node.calls {
        if call.samples >= least && bars.len() < NODES_MAX {
            bars.push(Bar { name, from: at, samples: call.samples, depth });
            lay(call, at, depth + 1, least, bars);
        }
        at += call.samples;
    }
}

/// Returns the functions with the most samples of their own, highest first: name and samples.
pub fn heaviest(folded: &str, most: usize) -> Vec<(String, u64)> {
    let mut own: BTreeMap<&str, u64> = BTreeMap::new();
    for line in folded.lines() {
        let Some((stack, samples)) = line.trim_end().rsplit_once(' ') else { continue };
        let leaf = stack.rsplit(';').next().unwrap_or_default();
        *own.entry(leaf).or_default() += samples.parse::<u32>().map_or(0, u64::from);
    }
    let mut own: Vec<_> = own.into_iter().filter(|(_, samples)| *samples > 0).collect();
    own.sort_by_key(|(name, samples)| (std::cmp::Reverse(*samples), *name));
    own.into_iter().take(most).map(|(name, samples)| (name.to_owned(), samples)).collect()
}

/// Returns the total number of samples.
pub fn samples(folded: &str) -> u64 {
    Node::of(folded).samples
}

/// Draws folded stacks as a flame graph of HTML elements.
pub fn html(folded: &str) -> String {
    let root = Node::of(folded);
    if root.samples == 0 {
        return "<p class=\"quiet\">No sample.</p>\n".into();
    }
    let mut bars = vec![Bar { name: "all", from: 0, samples: root.samples, depth: 0 }];
    lay(&root, 0, 1, ((root.samples as f64 * SHARE_MIN).ceil() as u64).max(1), &mut bars);
    let rows = bars.iter().map(|bar| bar.depth).max().unwrap_or_default() + 1;
    let mut html = String::from(
        "<div class=\"flame\"><div class=\"tools\"><label>Search \
         <input type=\"search\"></label><button type=\"button\" hidden>whole graph</button><output></output></div>\n",
    );
    let _ = writeln!(html, "<div class=\"bars\" data-plot=\"flame graph\" style=\"--rows:{rows}\">");
    for bar in &bars {
        let _ = write_bar(&mut html, bar, root.samples);
    }
    html + "</div></div>\n"
}

fn write_bar(html: &mut String, bar: &Bar<'_>, all: u64) -> std::fmt::Result {
    let Bar { name, from, samples, depth } = bar;
    let name: String = name.chars().take(NAME_MAX).collect();
    let share = |samples: u64| 100.0 * samples as f64 / all as f64;
    let (left, width, name) = (share(*from), share(*samples), escape(&name));
    writeln!(
        html,
        "<i class=\"c{}\" data-l=\"{left:.4}\" data-w=\"{width:.4}\" data-d=\"{depth}\" \
         style=\"left:{left:.4}%;width:{width:.4}%;--d:{depth}\" title=\"{name}&#10;{} samples, {} %\">{name}</i>",
        colour(&name),
        whole(*samples),
        figure(width)
    )
}

/// Returns one of eight colours, the same for a module in every report.
fn colour(name: &str) -> u32 {
    let module = name.rsplit_once("::").map_or(name, |(module, _)| module);
    let module = module.split("::").next().unwrap_or(module).split(['.', '(']).next().unwrap_or(module);
    module.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)) % 8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn callers_are_below_and_as_wide_as_what_they_call() {
        let html = html("main;a::f;g 30\nmain;h 10\nio 60\n");
        for bar in [
            "style=\"left:0.0000%;width:100.0000%;--d:0\" title=\"all&#10;100 samples, 100 %\"",
            "style=\"left:0.0000%;width:60.0000%;--d:1\" title=\"io",
            "style=\"left:60.0000%;width:40.0000%;--d:1\" title=\"main&#10;40 samples, 40 %\"",
            "style=\"left:60.0000%;width:30.0000%;--d:3\" title=\"g",
            "style=\"left:90.0000%;width:10.0000%;--d:2\" title=\"h",
        ] {
            assert!(html.contains(bar), "{bar} in {html}");
        }
        assert!(html.contains("--rows:4"));
        assert_eq!(heaviest("a;b 3\nb 4\nc 5\nd x\n", 2), [("b".into(), 7), ("c".into(), 5)]);
        assert_eq!(samples("a;b 3\nb 4\nnone\n"), 7);
    }

    #[test]
    fn no_samples_are_a_sentence() {
        assert!(html("").contains("No sample") && html("x y z\n;;; 0\n").contains("No sample"));
    }

    proptest! {
        #[test]
        fn hostile_lines_stay_in_their_places(lines in "([a-z<>\"'&;]{0,40} [0-9]{1,12}\n){0,40}") {
            let html = html(&lines);
            let bars = html.matches("<i class=").count();
            prop_assert_eq!(html.matches("<i ").count(), bars);
            prop_assert_eq!(html.matches("</i>").count(), bars);
            prop_assert!(!html.contains("<script") && bars <= NODES_MAX + 1);
        }

        #[test]
        fn deep_stacks_end(depth in 1usize..2_000) {
            let bars = html(&format!("{} 5\n", "f;".repeat(depth))).matches("<i ").count();
            prop_assert_eq!(bars, depth.min(DEPTH_MAX) + 1);
        }
    }
}
