//! The columns of the two tables, for pipes and terminals.
//!
//! reads   a [`Sample`]'s tiles and links
//! writes  cells; which columns fit a width
//! source  the tables of Firedancer's monitor: same names, same meaning; `core`, `% other`, `preempt/s` and `% taken`
//!         are our own

use crate::numbers::scaled;
use crate::sample::{LinkSample, Sample, TileSample};

/// A table as text, for renderers without fixed column widths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The heading of each column, and whether it contains text rather than numbers.
    pub headings: Vec<(&'static str, bool)>,
    /// Rows of cells, one cell per column.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns the table of tiles with every column.
    pub fn of_tiles(sample: &Sample) -> Self {
        Self::of(tiles_of(sample), &sample.tiles)
    }

    /// Returns the table of links with every column.
    pub fn of_links(sample: &Sample) -> Self {
        Self::of(LINKS, &sample.links)
    }

    fn of<T>(columns: &[Column<T>], rows: &[T]) -> Self {
        let cells = |row: &T| columns.iter().map(|column| (column.cell)(row)).collect();
        Self {
            headings: columns.iter().map(|column| (column.heading, column.is_text)).collect(),
            rows: rows.iter().map(cells).collect(),
        }
    }
}

/// One column of a table of `T`.
pub(crate) struct Column<T> {
    pub(crate) heading: &'static str,
    /// Width of the column in characters.
    pub(crate) width: usize,
    /// Columns with the lowest rank are kept longest on a narrow terminal.
    pub(crate) rank: u8,
    /// Text is aligned left, numbers right.
    pub(crate) is_text: bool,
    pub(crate) cell: fn(&T) -> String,
}

const fn text<T>(heading: &'static str, width: usize, rank: u8, cell: fn(&T) -> String) -> Column<T> {
    Column { heading, width, rank, is_text: true, cell }
}

const fn number<T>(heading: &'static str, width: usize, rank: u8, cell: fn(&T) -> String) -> Column<T> {
    Column { heading, width, rank, is_text: false, cell }
}

const TILES: &[Column<TileSample>] = &[
    text("tile", 9, 0, |t| t.tile.clone()),
    number("core", 4, 0, |t| t.core.map_or("f".into(), |core| core.to_string())),
    number("tid", 7, 8, |t| t.tid.to_string()),
    number("stale", 6, 4, |t| t.stale_s.map_or("-".into(), duration)),
    number("heart", 5, 7, |t| if t.heart { "♥" } else { "-" }.into()),
    number("sig", 4, 5, |t| t.state.word().into()),
    number("in backp", 8, 3, |t| if t.in_backpressure { "yes" } else { "-" }.into()),
    number("backp cnt", 9, 6, |t| with_delta(t.backpressure_count, t.backpressure_delta)),
    number("% hkeep", 7, 3, |t| percent(t.regimes.hkeep)),
    number("% backp", 7, 1, |t| percent(t.regimes.backp)),
    number("% wait", 7, 1, |t| percent(t.regimes.wait)),
    number("% ovrnp", 7, 6, |t| percent(t.regimes.ovrnp)),
    number("% ovrnr", 7, 6, |t| percent(t.regimes.ovrnr)),
    number("% filt1", 7, 4, |t| percent(t.regimes.filt1)),
    number("% filt2", 7, 4, |t| percent(t.regimes.filt2)),
    number("% finish", 8, 0, |t| percent(t.regimes.finish)),
    number("% other", 7, 2, |t| percent(t.regimes.elsewhere)),
    number("preempt/s", 9, 5, |t| format!("{:.0}", t.preempted_per_s)),
    number("% taken", 7, 5, |t| t.waited_for_core.map_or("-".into(), percent)),
];

/// For an EVM node: its stages have no core of their own and wait for no link.
const STAGES: &[Column<TileSample>] = &[
    text("stage", 9, 0, |t| t.tile.clone()),
    number("sig", 4, 5, |t| t.state.word().into()),
    number("stale", 6, 4, |t| t.stale_s.map_or("-".into(), duration)),
    number("cores", 6, 2, |t| format!("{:.2}", t.cpu)),
    number("% wait", 7, 1, |t| percent(t.regimes.wait)),
    number("% finish", 8, 0, |t| percent(t.regimes.finish)),
];

/// Returns the columns that apply to this node's tiles.
pub(crate) fn tiles_of(sample: &Sample) -> &'static [Column<TileSample>] {
    if sample.is_evm() { STAGES } else { TILES }
}

pub(crate) const LINKS: &[Column<LinkSample>] = &[
    text("link", 17, 0, |l| l.link.clone()),
    text("consumer", 9, 0, |l| l.consumer.clone()),
    number("tot TPS", 8, 0, |l| scaled(l.total_per_s)),
    number("tot bps", 8, 1, |l| scaled(l.bits_per_s)),
    number("uniq TPS", 8, 2, |l| scaled(l.unique_per_s)),
    number("filt TPS", 8, 2, |l| scaled(l.filtered_per_s)),
    number("waiting", 7, 3, |l| l.waiting.to_string()),
    number("ovrnp cnt", 10, 5, |l| with_delta(l.overrun_poll, l.overrun_poll_delta)),
    number("ovrnr cnt", 10, 5, |l| with_delta(l.overrun_read, l.overrun_read_delta)),
    number("slow cnt", 14, 1, |l| with_delta(l.slow, l.slow_delta)),
    number("tx seq", 20, 4, |l| with_delta(l.sequence, l.sequence_delta)),
];

/// Returns the columns that fit, in order and separated by a space; those of the highest rank are dropped first.
pub(crate) fn fitting<T>(columns: &'static [Column<T>], width: usize) -> Vec<&'static Column<T>> {
    let mut left: Vec<&Column<T>> = columns.iter().collect();
    while left.len() > 1 && left.iter().map(|column| column.width + 1).sum::<usize>() > width + 1 {
        let highest = left.iter().map(|column| column.rank).max().unwrap_or_default();
        let last = left.iter().rposition(|column| column.rank == highest).unwrap_or_default();
        left.remove(last);
    }
    left
}

/// Pads a cell to its column.
pub(crate) fn padded<T>(column: &Column<T>, cell: &str) -> String {
    let width = column.width;
    if column.is_text { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
}

fn percent(share: f64) -> String {
    format!("{:.2}", 100.0 * share)
}

/// Formats `1234 +5`; without growth only the count.
fn with_delta(count: u64, delta: u64) -> String {
    if delta == 0 { count.to_string() } else { format!("{count} +{delta}") }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 360_000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_table_keeps_what_matters_most() {
        let names = |width| -> Vec<&str> { fitting(TILES, width).iter().map(|column| column.heading).collect() };
        assert_eq!(names(300).len(), TILES.len());
        let width: usize = fitting(TILES, 80).iter().map(|column| column.width + 1).sum();
        assert!(width <= 81, "{width}");
        for heading in ["tile", "core", "% backp", "% wait", "% finish", "% other", "in backp"] {
            assert!(names(80).contains(&heading), "{heading} of {:?}", names(80));
        }
        assert!(!names(80).contains(&"tid"));
        assert_eq!(names(30), ["tile", "core", "% finish"]);
        assert_eq!(names(1), ["tile"]);
        let links: Vec<&str> = fitting(LINKS, 80).iter().map(|column| column.heading).collect();
        assert_eq!(links, ["link", "consumer", "tot TPS", "tot bps", "uniq TPS", "filt TPS", "slow cnt"]);
    }

    #[test]
    fn a_table_has_every_column_and_row() {
        let tile = TileSample { tile: "bank:1".into(), ..TileSample::default() };
        let table = Table::of_tiles(&Sample { tiles: vec![tile; 2], ..Sample::default() });
        assert_eq!((table.headings.len(), table.rows.len()), (TILES.len(), 2));
        assert!(table.rows.iter().all(|row| row.len() == TILES.len() && row[0] == "bank:1"), "{table:?}");
        assert_eq!((table.headings[0], table.headings[1]), (("tile", true), ("core", false)));
        let exec = TileSample { tile: "exec:0".into(), kind: "exec".into(), cpu: 0.25, ..TileSample::default() };
        let stages = Table::of_tiles(&Sample { tiles: vec![exec], ..Sample::default() });
        assert_eq!(stages.rows[0], ["exec:0", "boot", "-", "0.25", "0.00", "0.00"]);
        let links = Table::of_links(&Sample::default());
        assert!(links.rows.is_empty() && links.headings.contains(&("uniq TPS", false)));
    }

    #[test]
    fn times_and_gains_are_short() {
        assert_eq!([0.004, 12.0, 600.0, 900_000.0].map(duration), ["4 ms", "12 s", "10 min", "10 d"]);
        assert_eq!((with_delta(7, 0), with_delta(7, 3)), ("7".into(), "7 +3".into()));
    }
}
