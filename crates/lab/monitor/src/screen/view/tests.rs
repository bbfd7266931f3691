//! The view on simulated terminals of several sizes.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::sample::Regimes;
use crate::{Advice, Bandwidth, PeerSample, Stage};

fn sample() -> Sample {
    let tile = |name: &str, finish: f64, backp: f64| TileSample {
        tile: name.into(),
        kind: name.split(':').next().unwrap().into(),
        core: Some(0),
        regimes: Regimes { finish, backp, ..Regimes::default() },
        ..TileSample::default()
    };
    let link = |name: &str, consumer: &str, total_per_s: f64| LinkSample {
        link: name.into(),
        consumer: consumer.into(),
        total_per_s,
        ..LinkSample::default()
    };
    Sample {
        node: "hearth".into(),
        pid: 7,
        alive: true,
        slot: 42,
        txn_per_s: 98_765.0,
        bandwidth: Bandwidth {
            received_bits_per_s: 2e8,
            peers: vec![PeerSample { peer: "192.0.2.7".into(), received_bits_per_s: 2e8, sent_bits_per_s: 0.0 }],
            ..Bandwidth::default()
        },
        tiles: vec![tile("quic:0", 0.2, 0.7), tile("verify:0", 0.99, 0.0), tile("bank:0", 0.5, 0.1)],
        links: vec![link("quic_verify:0", "verify:0", 99_000.0), link("verify_dedup:0", "dedup:0", 98_000.0)],
        ..Sample::default()
    }
}

fn diagnosis() -> Diagnosis {
    Diagnosis {
        finding: Finding::KindFull,
        kind: Some("verify".into()),
        says: "verify is the limit: 1 of 1 tiles are 99 % busy".into(),
        advice: Some(Advice {
            key: Some("layout.verify_tile_count".into()),
            value: None,
            says: "add verify tiles".into(),
        }),
    }
}

fn shown() -> View {
    let mut view = View::default();
    view.take(sample(), diagnosis(), &[1.0, 2.0, 4.0]);
    view
}

fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let cell = |x, y| buffer[(x, y)].symbol().to_owned();
    (0..height).map(|y| (0..width).map(|x| cell(x, y)).collect::<String>().trim_end().to_owned()).collect()
}

/// The rows of the tiles' table by their first word.
fn tiles(view: &mut View) -> Vec<String> {
    let lines = drawn(view, 160, 40);
    let begin = lines.iter().position(|line| line.starts_with("tile ")).expect("the tiles' table") + 1;
    let rows = lines[begin..].iter().take_while(|line| !line.is_empty());
    rows.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn eighty_columns_have_all_that_matters() {
    let lines = drawn(&mut shown(), 80, 24);
    assert_eq!(lines[0], "hearth (pid 7)  slot 42  98,765 txn/s");
    assert_eq!(lines[1], "▃▅█");
    let all = lines.join("\n");
    for text in [
        "verify is the limit",
        "`layout.verify_tile_count`",
        "% finish",
        "tot TPS",
        "99.0K",
        "192.0.2.7 100 %",
        "q leave",
    ] {
        assert!(all.contains(text), "{text}\n{all}");
    }
}

#[test]
fn a_small_terminal_has_the_sentence() {
    for (width, height) in [(40, 10), (40, 30), (120, 8)] {
        let all = drawn(&mut shown(), width, height).join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(all.contains("98,765 txn/s") && all.contains("verify is the limit: 1 of 1 tiles"), "{all}");
        assert!(all.contains("tables: 50×14 and more") && !all.contains("tot TPS"), "{all}");
    }
    // A terminal without room must not cause a panic.
    for (width, height) in [(1, 1), (3, 2), (50, 14), (51, 15)] {
        drawn(&mut shown(), width, height);
    }
}

/// However long the diagnosis is, and whatever else is shown.
#[test]
fn the_smallest_terminal_with_tables_has_a_tile() {
    let stage = |stage: &str| Stage { stage: stage.into(), count: 9, p50_us: 1.0, ..Stage::default() };
    let mut sample = sample();
    sample.latency = ["quic", "verify", "dedup", "pack", "bank", "executed", "durable"].map(stage).into();
    let all = "core 1 is the limit: it is 97 % busy, 63 % of it with verify:0, which shares it with ".to_owned();
    let says = all + &["benchg:0"; 20].join(", ");
    let mut view = View::default();
    view.take(sample, Diagnosis { says, ..diagnosis() }, &[1.0]);
    for (width, height) in [(60, 14), (50, 14), (80, 14), (60, 20)] {
        let lines = drawn(&mut view, width, height);
        let heading = lines.iter().position(|line| line.starts_with("tile ")).unwrap_or_else(|| panic!("{lines:#?}"));
        assert!(lines[heading + 1].starts_with("quic:0"), "{width}×{height}: {lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("core 1 is the limit")), "{lines:#?}");
        assert!(lines.last().unwrap().starts_with("p pause"), "{lines:#?}");
    }
}

#[test]
fn a_node_that_is_gone_is_waited_for() {
    let mut view = View::new(Some("2 nodes run here".into()));
    view.take(Sample { alive: false, ..sample() }, diagnosis(), &[]);
    let last = |view: &mut View| drawn(view, 80, 24).last().unwrap().clone();
    assert_eq!(last(&mut view), "2 nodes run here");
    view.key(KeyCode::Char('s'));
    assert_eq!(last(&mut view), "GONE, waiting for `hearth` to start again  h help  q leave");
    view.take(sample(), diagnosis(), &[]);
    assert!(last(&mut view).starts_with("p pause"));
}

#[test]
fn a_note_gives_way_to_the_keys() {
    let mut view = View::new(Some("2 nodes run here".into()));
    let last = |view: &mut View| drawn(view, 80, 24).last().unwrap().clone();
    for _ in 0..NOTE_SAMPLES {
        view.take(sample(), diagnosis(), &[]);
        assert_eq!(last(&mut view), "2 nodes run here");
    }
    view.take(sample(), diagnosis(), &[]);
    assert!(last(&mut view).starts_with("p pause"));
}

#[test]
fn keys_sort_filter_pause_help_and_leave() {
    let mut view = shown();
    assert_eq!(tiles(&mut view), ["quic:0", "verify:0", "bank:0"]);
    view.key(KeyCode::Char('s'));
    assert_eq!(tiles(&mut view), ["verify:0", "bank:0", "quic:0"]);
    view.key(KeyCode::Char('s'));
    assert_eq!(tiles(&mut view), ["quic:0", "bank:0", "verify:0"]);
    view.key(KeyCode::Char('s'));
    assert_eq!(tiles(&mut view), ["bank:0", "quic:0", "verify:0"]);
    view.key(KeyCode::Char('f'));
    "verifyq".chars().for_each(|letter| assert!(!view.key(KeyCode::Char(letter)), "q is a letter of the filter"));
    view.key(KeyCode::Backspace);
    view.key(KeyCode::Enter);
    assert_eq!(tiles(&mut view), ["verify:0"]);
    view.key(KeyCode::Char('/'));
    view.key(KeyCode::Esc);
    assert_eq!(tiles(&mut view).len(), 3);

    view.key(KeyCode::Char('p'));
    let later = Sample { slot: 43, ..sample() };
    view.take(later.clone(), diagnosis(), &[]);
    let lines = drawn(&mut view, 80, 24);
    assert!(lines[0].contains("slot 42") && lines[23].starts_with("PAUSED"), "{lines:?}");
    view.key(KeyCode::Char('p'));
    view.take(later, diagnosis(), &[]);
    assert!(drawn(&mut view, 80, 24)[0].contains("slot 43"));

    view.key(KeyCode::Char('h'));
    assert!(drawn(&mut view, 80, 24).join("\n").contains("keys and columns"));
    assert!(!view.key(KeyCode::Esc), "Esc closes the help first");
    assert!(!drawn(&mut view, 80, 24).join("\n").contains("keys and columns"));
    assert!(view.key(KeyCode::Char('q')));
}

#[test]
fn links_scroll_to_their_end_and_no_further() {
    let mut many = sample();
    many.links = (0..50).map(|i| LinkSample { link: format!("link:{i}"), ..LinkSample::default() }).collect();
    let mut view = View::default();
    view.take(many, diagnosis(), &[]);
    for _ in 0..9 {
        view.key(KeyCode::PageDown);
    }
    let lines = drawn(&mut view, 100, 30);
    assert!(lines.iter().any(|line| line.starts_with("link:49")), "{lines:?}");
    view.key(KeyCode::Up);
    assert!(!drawn(&mut view, 100, 30).iter().any(|line| line.starts_with("link:49")));
}

/// A node's tiles on a standard terminal, which has no room for all of them.
#[test]
fn every_tile_can_be_reached() {
    let mut many = sample();
    many.tiles = (0..14).map(|i| TileSample { tile: format!("tile:{i}"), ..TileSample::default() }).collect();
    many.links = (0..20).map(|i| LinkSample { link: format!("link:{i}"), ..LinkSample::default() }).collect();
    let mut view = View::default();
    view.take(many, diagnosis(), &[]);
    let rows = |lines: &[String], prefix: &str| -> Vec<String> {
        let words = lines.iter().filter_map(|line| line.split_whitespace().next());
        words.filter(|word| word.starts_with(prefix)).map(str::to_owned).collect()
    };
    let first = drawn(&mut view, 80, 24);
    let shown = rows(&first, "tile:").len();
    assert!((2..14).contains(&shown), "{first:#?}");
    let line = format!("tiles 1–{shown} of 14, ↑↓ scroll");
    assert!(first.contains(&line), "{line}: {first:#?}");
    let links = rows(&first, "link:");
    // The tiles scroll first, and the links stay in place meanwhile.
    let mut seen = rows(&first, "tile:");
    for _ in 0..14 - shown {
        view.key(KeyCode::Down);
        let lines = drawn(&mut view, 80, 24);
        assert_eq!(rows(&lines, "link:"), links);
        seen.extend(rows(&lines, "tile:").pop());
    }
    assert_eq!(seen, (0..14).map(|i| format!("tile:{i}")).collect::<Vec<_>>());
    let last = drawn(&mut view, 80, 24);
    assert!(last.contains(&format!("tiles {}–14 of 14, ↑↓ scroll", 15 - shown)), "{last:#?}");
    view.key(KeyCode::PageDown);
    view.key(KeyCode::PageDown);
    let end = drawn(&mut view, 80, 24);
    assert!(rows(&end, "link:").contains(&"link:19".to_owned()), "{end:#?}");
    for _ in 0..4 {
        view.key(KeyCode::PageUp);
    }
    assert_eq!(drawn(&mut view, 80, 24), first);
}

#[test]
fn all_quantiles_are_shown_where_there_is_room_and_two_of_them_where_not() {
    let stage =
        |stage: &str| Stage { stage: stage.into(), count: 9, p50_us: 1.0, p90_us: 20.0, p99_us: 300.0, max_us: 4e3 };
    let mut sample = sample();
    sample.latency = ["quic", "verify", "bank", "executed"].map(stage).into();
    let mut view = View::default();
    view.take(sample, diagnosis(), &[1.0]);
    let on = |view: &mut View, width, height| drawn(view, width, height).join("\n");
    let wide = on(&mut view, 200, 24);
    assert!(
        wide.contains("p50 / p90 / p99 / max from receipt to quic 1 µs / 20 µs / 300 µs / 4.00 ms, verify"),
        "{wide}"
    );
    let tall = on(&mut view, 80, 24);
    assert!(tall.contains("p90") && tall.contains("verify_dedup:0"), "{tall}");
    let small = on(&mut view, 80, 14);
    assert!(
        small.contains("p50 / p99 from receipt to quic 1 µs / 300 µs, verify") && !small.contains("p90"),
        "{small}"
    );
    assert!(small.contains("tile ") && small.contains("link "), "{small}");
}
