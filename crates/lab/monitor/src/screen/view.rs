//! The contents of the screen: headline, diagnosis, tables, and how keys change them.
//!
//! reads   a sample and keys
//! writes  a frame of any size: if the tables do not fit, only the figures and the diagnosis

use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use crate::columns::{Column, LINKS, fitting, padded, tiles_of};
use crate::diagnosis::{Diagnosis, Finding};
use crate::sample::{LinkSample, Sample, TileSample};
use crate::text::{headline, latencies, latencies_in_short, sparkline};

/// The smallest terminal with room for a table.
const TABLES_NEED: (u16, u16) = (50, 14);

/// The minimum for the table of links: an empty line, the heading, a row.
const LINKS_NEED: u16 = 3;
/// How many samples, at one per second, a note replaces the line of keys.
const NOTE_SAMPLES: u32 = 8;

const HELP: &str = "\
s      sort: data flow, % finish, % backp, name
f      filter by name: type, Enter keeps it, Esc ends it
p      pause, and go on
↑ ↓    scroll: the tiles, then the links (PgUp, PgDn by ten)
h ?    this help
q      leave

stale  time since the tile's last heartbeat; heart whether one came
backp  a reliable consumer has no room; wait: nothing to do
ovrn   overtaken by the producer (p: polling, r: reading)
filt1  filtered by its metadata; filt2: dropped after reading
finish useful work; other: the core ran another tile
taken  ready, while another program had the core: time by the
       clock, which is in finish as well
slow   times that this consumer held its producer up";

/// The order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RowOrder {
    #[default]
    Flow,
    Finish,
    Backpressure,
    Name,
}

impl RowOrder {
    fn next(self) -> Self {
        match self {
            Self::Flow => Self::Finish,
            Self::Finish => Self::Backpressure,
            Self::Backpressure => Self::Name,
            Self::Name => Self::Flow,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Flow => "data flow",
            Self::Finish => "% finish",
            Self::Backpressure => "% backp",
            Self::Name => "name",
        }
    }
}

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct View {
    shown: Option<(Sample, Diagnosis, Vec<f64>)>,
    order: RowOrder,
    filter: String,
    typing: bool,
    paused: bool,
    helping: bool,
    scroll: usize,
    /// A note to the user, shown until the first key or for [`NOTE_SAMPLES`], because the keys must be visible, too.
    note: Option<String>,
    note_samples: u32,
}

impl View {
    pub(super) fn new(note: Option<String>) -> Self {
        Self { note, ..Self::default() }
    }

    /// Takes the next sample; a paused view keeps the one it shows.
    pub(super) fn take(&mut self, sample: Sample, diagnosis: Diagnosis, rates: &[f64]) {
        self.note_samples += 1;
        if self.note_samples > NOTE_SAMPLES {
            self.note = None;
        }
        if !self.paused || self.shown.is_none() {
            self.shown = Some((sample, diagnosis, rates.to_vec()));
        }
    }

    /// Handles a key. Returns true if the user quits.
    pub(super) fn key(&mut self, key: KeyCode) -> bool {
        self.note = None;
        if self.typing {
            self.key_of_filter(key);
            return false;
        }
        match key {
            KeyCode::Char('q') => return true,
            KeyCode::Esc if !self.helping => return true,
            KeyCode::Char('h' | '?') => self.helping = !self.helping,
            _ if self.helping => self.helping = false,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('f' | '/') => (self.typing, self.scroll) = (true, 0),
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll += 10,
            _ => {}
        }
        false
    }

    fn key_of_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.typing = false;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let Some((sample, diagnosis, rates)) = &self.shown else { return };
        let (head, says) = (headline(sample), diagnosis.to_string());
        let heights = (lines_at(&head, area.width), lines_at(&says, area.width));
        let head = Paragraph::new(head).wrap(Wrap { trim: true });
        let says = Paragraph::new(says).style(style_of(diagnosis.finding)).wrap(Wrap { trim: true });
        if area.width < TABLES_NEED.0 || area.height < TABLES_NEED.1 {
            let rows = Layout::vertical([Constraint::Length(heights.0), Constraint::Min(1), Constraint::Length(1)]);
            let [top, middle, bottom] = rows.areas(area);
            frame.render_widget(head, top);
            frame.render_widget(says, middle);
            let tables = format!("tables: {}×{} and more", TABLES_NEED.0, TABLES_NEED.1);
            frame.render_widget(Paragraph::new(tables), bottom);
            return;
        }
        let peers = sample.bandwidth.line();
        let (tiles, links) = (self.tiles(sample), self.links(sample));
        let mut wanted =
            Heights { head: heights.0, says: heights.1, tiles: tiles.len() as u16 + 1, ..Heights::default() };
        wanted.peers = u16::from(!peers.is_empty());
        wanted.links = if sample.links.is_empty() { 0 } else { LINKS_NEED };
        let rest = usize::from(wanted.head + wanted.says + wanted.peers) + 4;
        let (latencies, latency_lines) = latencies_at(sample, area, rest + tiles.len() + links.len() + 2);
        wanted.latency = latency_lines;
        let heights = wanted.fit(area.height);
        let [top, bars, says_at, latency_at, peers_at, above, tiles_at, links_at, bottom] = heights.areas(area);
        frame.render_widget(head, top);
        frame.render_widget(Paragraph::new(sparkline(rates, usize::from(area.width))).style(Color::Cyan), bars);
        frame.render_widget(says, says_at);
        frame.render_widget(Paragraph::new(latencies).wrap(Wrap { trim: true }), latency_at);
        // What does not fit belongs to the smallest peers.
        frame.render_widget(Paragraph::new(peers), peers_at);
        // Below the line that separates the tables.
        let (between, links_at) = apart(links_at);
        let [of_tiles, of_links] = [Rows::of(tiles.len(), tiles_at), Rows::of(links.len(), links_at)];
        self.scroll = self.scroll.min(of_tiles.hidden() + of_links.hidden());
        let skip_tiles = self.scroll.min(of_tiles.hidden());
        let skip_links = self.scroll - skip_tiles;
        frame.render_widget(of_tiles.line("tiles", skip_tiles), above);
        frame.render_widget(table(tiles_of(sample), &tiles, tiles_at, skip_tiles), tiles_at);
        if heights.links > 0 {
            frame.render_widget(of_links.line("links", skip_links), between);
            frame.render_widget(table(LINKS, &links, links_at, skip_links), links_at);
        }
        frame.render_widget(Paragraph::new(self.footer()).style(Modifier::DIM), bottom);
        if self.helping {
            help(frame, area);
        }
    }

    fn footer(&self) -> String {
        if self.typing {
            return format!("filter: {}_   Enter keeps it, Esc ends it", self.filter);
        }
        if let Some(note) = &self.note {
            return note.clone();
        }
        if let Some((Sample { alive: false, node, .. }, ..)) = &self.shown {
            return format!("GONE, waiting for `{node}` to start again  h help  q leave");
        }
        let filter = if self.filter.is_empty() { String::new() } else { format!(" ({})", self.filter) };
        let paused = if self.paused { "PAUSED, p goes on" } else { "p pause" };
        format!("{paused}  s sort ({})  f filter{filter}  ↑↓ scroll  h help  q leave", self.order.word())
    }

    fn tiles<'a>(&self, sample: &'a Sample) -> Vec<&'a TileSample> {
        let mut tiles: Vec<&TileSample> = sample.tiles.iter().filter(|t| t.tile.contains(&self.filter)).collect();
        match self.order {
            RowOrder::Flow => {}
            RowOrder::Finish => tiles.sort_by(|a, b| b.regimes.finish.total_cmp(&a.regimes.finish)),
            RowOrder::Backpressure => tiles.sort_by(|a, b| b.regimes.backp.total_cmp(&a.regimes.backp)),
            RowOrder::Name => tiles.sort_by(|a, b| a.tile.cmp(&b.tile)),
        }
        tiles
    }

    fn links<'a>(&self, sample: &'a Sample) -> Vec<&'a LinkSample> {
        let fits = |link: &&LinkSample| [&link.link, &link.consumer].iter().any(|name| name.contains(&self.filter));
        let mut links: Vec<&LinkSample> = sample.links.iter().filter(fits).collect();
        match self.order {
            RowOrder::Flow => {}
            RowOrder::Finish => links.sort_by(|a, b| b.total_per_s.total_cmp(&a.total_per_s)),
            RowOrder::Backpressure => links.sort_by(|a, b| b.slow_per_s.total_cmp(&a.slow_per_s)),
            RowOrder::Name => links.sort_by(|a, b| a.link.cmp(&b.link)),
        }
        links
    }
}

/// Lines of each part, from the top to the line of the keys.
#[derive(Clone, Copy, Debug, Default)]
struct Heights {
    head: u16,
    bars: u16,
    says: u16,
    latency: u16,
    peers: u16,
    tiles: u16,
    /// Includes the empty line above; the wanted height, if there are links, is [`LINKS_NEED`].
    links: u16,
}

impl Heights {
    /// Fits the parts to the height: every terminal with tables shows the diagnosis and the first tile; the rest
    /// appears while there is room.
    fn fit(self, height: u16) -> Self {
        // An empty line, the heading, a tile, the keys.
        let says = self.says.min(height.saturating_sub(self.head + 4)).max(1);
        let mut left = height.saturating_sub(self.head + says + 4);
        let mut take = |lines: u16| {
            let taken = if lines <= left { lines } else { 0 };
            left -= taken;
            taken
        };
        let (bars, links) = (take(1), take(self.links));
        let (latency, peers) = (take(self.latency), take(self.peers));
        let room = height.saturating_sub(self.head + says + bars + latency + peers + 2);
        let tiles = match links {
            0 => room,
            // The links get a heading and some rows, however many tiles there are.
            _ => self.tiles.min((room - 1).saturating_sub(4).max((room - 1) / 2)).max(2),
        };
        Self { says, bars, latency, peers, tiles, links: room - tiles, ..self }
    }

    fn areas(&self, area: Rect) -> [Rect; 9] {
        let Self { head, bars, says, latency, peers, tiles, links } = *self;
        Layout::vertical([head, bars, says, latency, peers, 1, tiles, links, 1].map(Constraint::Length)).areas(area)
    }
}

/// The rows of a table, and how many fit.
#[derive(Clone, Copy, Debug)]
struct Rows {
    all: usize,
    shown: usize,
}

impl Rows {
    fn of(all: usize, area: Rect) -> Self {
        // The first line is the heading.
        Self { all, shown: usize::from(area.height).saturating_sub(1).min(all) }
    }

    /// Rows that do not fit. A table that is not shown cannot be scrolled.
    fn hidden(self) -> usize {
        if self.shown == 0 { 0 } else { self.all - self.shown }
    }

    /// Says which rows are shown, if not all.
    fn line(self, what: &str, skipped: usize) -> Paragraph<'static> {
        let text = match self.hidden() {
            0 => String::new(),
            _ => format!("{what} {}–{} of {}, ↑↓ scroll", skipped + 1, skipped + self.shown, self.all),
        };
        Paragraph::new(text).style(Modifier::DIM)
    }
}

/// Splits an area into its first line and the rest.
fn apart(area: Rect) -> (Rect, Rect) {
    let first = area.height.min(1);
    (Rect { height: first, ..area }, Rect { y: area.y + first, height: area.height - first, ..area })
}

fn style_of(finding: Finding) -> Style {
    let color = match finding {
        Finding::Gone | Finding::TileDied | Finding::TileStuck => Color::Red,
        Finding::Room | Finding::Idle => Color::Green,
        _ => Color::Yellow,
    };
    Style::new().fg(color).add_modifier(Modifier::BOLD)
}

/// Estimates the lines of a text at a width; slightly too many for unfavourable line breaks.
fn lines_at(text: &str, width: u16) -> u16 {
    let paragraph = Paragraph::new(text).wrap(Wrap { trim: true });
    paragraph.line_count(width).clamp(1, 6) as u16
}

/// The latency of each stage, and the lines it takes: all quantiles if every row of the tables still fits.
fn latencies_at(sample: &Sample, area: Rect, rest: usize) -> (String, u16) {
    let of = |text: String| {
        let lines = if text.is_empty() { 0 } else { lines_at(text.trim_end(), area.width) };
        (text, lines)
    };
    let (all, short) = (of(latencies(sample)), of(latencies_in_short(sample)));
    if all.1 == short.1 || rest + usize::from(all.1) <= usize::from(area.height) { all } else { short }
}

fn table<T>(columns: &'static [Column<T>], rows: &[&T], area: Rect, scroll: usize) -> Paragraph<'static> {
    let columns = fitting(columns, usize::from(area.width));
    let join = |cells: Vec<String>| cells.join(" ");
    let heading = join(columns.iter().map(|column| padded(column, column.heading)).collect());
    let mut lines = vec![Line::styled(heading, Modifier::BOLD | Modifier::UNDERLINED)];
    let shown = rows.iter().skip(scroll).take(usize::from(area.height));
    lines.extend(shown.map(|row| {
        let cells = columns.iter().map(|column| padded(column, &(column.cell)(row)));
        Line::raw(join(cells.collect()))
    }));
    Paragraph::new(Text::from(lines))
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (70.min(area.width), (HELP.lines().count() as u16 + 2).min(area.height));
    let at = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, at);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" keys and columns ")), at);
}

#[cfg(test)]
mod tests;
