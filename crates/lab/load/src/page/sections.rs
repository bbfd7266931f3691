//! The sections of the page, from the most important figures to the explanations.
//!
//! reads   reports
//! writes  HTML

use std::fmt::Write;

use hearth_page::text::{date, escape, figure, time_ms, whole};

use super::plot::{Plot, Series, Shape};
use super::{PageReport, flame};
use crate::report::{BlockLine, Percentiles, Report};

/// Number of functions that are listed beside the flame graph.
const HEAVIEST: usize = 12;

/// Writes the body of the page.
pub fn all(reports: &[PageReport]) -> String {
    let mut html = String::new();
    // Writing to a String cannot fail.
    let _ = head(&mut html, reports);
    html.push_str("<main>\n");
    let _ = figures(&mut html, reports);
    let _ = search(&mut html, reports);
    let plots: [(&str, &str, fn(&Report) -> Plot); 6] = [
        ("Transactions a second", "of the load, in blocks; those of a block came evenly since the one before", rate),
        ("Transactions in blocks", "of the load", blocks),
        ("Block time", "from when the block before could be read to when this one could", block_time),
        (
            "Latency",
            "from when a transaction was due to when its block could be read; each step ten times as long",
            latency,
        ),
        ("Waiting", "taken and not in a block: as the load counts, and as the node tells of its pool", waiting),
        ("CPU time", "cores in use; of the node where its process is named with --pid", cpu),
    ];
    // The plots of one report stand in pairs; those of several reports stand beside each other.
    html.push_str(if reports.len() > 1 { "<div>\n" } else { "<div class=\"plots\">\n" });
    for (title, note, plot) in plots {
        let _ = plotted(&mut html, reports, (title, note), plot);
    }
    html.push_str("</div>\n");
    let _ = errors(&mut html, reports);
    let _ = profiles(&mut html, reports);
    let _ = options_section(&mut html, reports);
    html.push_str("</main>\n");
    html
}

fn head(html: &mut String, reports: &[PageReport]) -> std::fmt::Result {
    let title = if reports.len() > 1 { "Loads side by side" } else { "Load on a node" };
    writeln!(html, "<header><h1>{title}</h1>")?;
    for PageReport { name, report, .. } in reports {
        let rate = report.rate.map_or("as many as it takes".into(), |rate| format!("{} a second", figure(rate)));
        let named = if reports.len() > 1 { format!("<b>{}</b>: ", escape(name)) } else { String::new() };
        let when = if report.began_unix_s > 0 { format!(" · {}", date(report.began_unix_s)) } else { String::new() };
        writeln!(
            html,
            "<p class=\"quiet\">{named}{} · {} from {} accounts, {rate}{when}</p>",
            escape(&report.client),
            escape(&report.kind),
            whole(report.accounts as u64)
        )?;
    }
    html.push_str("</header>\n");
    Ok(())
}

/// The figures of a report, with their names.
fn rows(report: &Report) -> Vec<(&'static str, String)> {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "–".into());
    let latency = |of: fn(&Percentiles) -> f64| or_none(report.latency.as_ref().map(|all| time_ms(of(all))));
    let failed = report.failed.map(|failed| match report.receipts_seen >= report.included {
        true => whole(failed),
        false => format!("{} of {} looked at", whole(failed), whole(report.receipts_seen)),
    });
    let pool = report.pool_depth();
    let cores = |cores: f64, us: Option<f64>| {
        let each = us.map_or(String::new(), |us| format!(", {} µs a transaction", figure(us)));
        format!("{} cores{each}", figure(cores))
    };
    vec![
        ("transactions a second", figure(report.tps)),
        ("median second", figure(report.tps_median)),
        ("latency p50", latency(|all| all.p50_ms)),
        ("latency p90", latency(|all| all.p90_ms)),
        ("latency p99", latency(|all| all.p99_ms)),
        ("latency p99.9", latency(|all| all.p999_ms)),
        ("latency, longest", latency(|all| all.max_ms)),
        ("send lag p99", or_none(report.send_lag.map(|lag| time_ms(lag.p99_ms)))),
        ("blocks", whole(report.block_count())),
        ("block time, mean", or_none(report.block_time_s.map(|time| time_ms(time * 1e3)))),
        ("gas a second", format!("{} million", figure(report.mgas_per_s))),
        ("measured", format!("{} s", figure(report.seconds))),
        ("sent", whole(report.sent)),
        ("included", whole(report.included)),
        ("of these, failed in their block", or_none(failed)),
        ("rejected", whole(report.rejected)),
        ("dropped", whole(report.dropped)),
        ("unknown at the end", whole(report.unknown)),
        ("due and not sent", whole(report.unsent)),
        (
            "node's pool, median and most",
            or_none(pool.map(|(median, most)| format!("{} and {}", whole(median), whole(most)))),
        ),
        ("node's CPU", or_none(report.server_cores.map(|all| cores(all, report.server_cpu_us)))),
        ("node's memory", or_none(report.server_resident.map(|bytes| format!("{} MB", whole(bytes / 1_000_000))))),
        ("load's CPU", cores(report.client_cores, report.client_cpu_us)),
        ("load's threads, busiest", format!("{} % busy", figure(100.0 * report.senders_busy))),
    ]
}

fn figures(html: &mut String, reports: &[PageReport]) -> std::fmt::Result {
    html.push_str("<section class=\"card\" id=\"figures\"><h2>Figures</h2>\n");
    if let [one] = reports {
        html.push_str("<dl class=\"big\">");
        let latency = |of: fn(&Percentiles) -> f64| one.report.latency.map_or("–".into(), |all| time_ms(of(&all)));
        for (name, value) in [
            ("transactions a second", figure(one.report.tps)),
            ("latency p50", latency(|all| all.p50_ms)),
            ("latency p99", latency(|all| all.p99_ms)),
            ("block time", one.report.block_time_s.map_or("–".into(), |time| time_ms(time * 1e3))),
            ("in blocks", whole(one.report.included)),
            ("refused, dropped, unknown", whole(one.report.rejected + one.report.dropped + one.report.unknown)),
        ] {
            write!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>")?;
        }
        html.push_str("</dl>\n");
    }
    for PageReport { name, report, .. } in reports {
        let named = if reports.len() > 1 { format!("{}: ", escape(name)) } else { String::new() };
        writeln!(html, "<p class=\"says\">{named}The limit was <b>{}</b>.</p>", escape(&report.limit_text()))?;
        if let Some(noise) = &report.noise {
            writeln!(html, "<p class=\"says\">{named}{}.</p>", escape(noise))?;
        }
    }
    match reports {
        [one] => pairs(html, &one.report)?,
        several => columns(html, several)?,
    }
    html.push_str("</section>\n");
    Ok(())
}

/// Writes the figures of one report.
fn pairs(html: &mut String, report: &Report) -> std::fmt::Result {
    html.push_str("<dl class=\"pairs\">\n");
    for (name, value) in rows(report) {
        writeln!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value))?;
    }
    html.push_str("</dl>");
    Ok(())
}

/// Writes the figures of several reports, one per column.
fn columns(html: &mut String, reports: &[PageReport]) -> std::fmt::Result {
    html.push_str("<p></p><div class=\"scroll\"><table><thead><tr><th></th>");
    reports.iter().try_for_each(|shown| write!(html, "<th scope=\"col\">{}</th>", escape(&shown.name)))?;
    html.push_str("</tr></thead><tbody>\n");
    let columns: Vec<_> = reports.iter().map(|shown| rows(&shown.report)).collect();
    for (at, (name, _)) in columns.first().into_iter().flatten().enumerate() {
        write!(html, "<tr><th scope=\"row\">{name}</th>")?;
        columns.iter().try_for_each(|column| write!(html, "<td>{}</td>", escape(&column[at].1)))?;
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>");
    Ok(())
}

/// Writes the steps of a search for the highest rate.
fn search(html: &mut String, reports: &[PageReport]) -> std::fmt::Result {
    for PageReport { name, steps, .. } in reports {
        let Some((steps, bound)) = steps else { continue };
        let named = if reports.len() > 1 { escape(name) } else { String::new() };
        writeln!(
            html,
            "<section class=\"card\"><h2>Search for the highest rate <small>{named} with p99 below {}; the rest of the \
             page is of the best</small></h2>\n<div class=\"scroll\"><table><thead><tr><th>asked a second</th>\
             <th>in blocks</th><th>p99</th><th class=\"words\"></th></tr></thead><tbody>",
            time_ms(*bound)
        )?;
        for step in steps {
            let (class, words) = match &step.wrong {
                Some(why) if step.again => ("words bad", escape(&format!("{why}; tried again"))),
                Some(why) => ("words bad", escape(why)),
                None => ("words", "good".into()),
            };
            writeln!(
                html,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{words}</td></tr>",
                figure(step.rate),
                figure(step.tps),
                step.p99_ms.map_or("–".into(), time_ms)
            )?;
        }
        html.push_str("</tbody></table></div></section>\n");
    }
    Ok(())
}

/// Draws the same plot for each report, all on one scale.
fn plotted(
    html: &mut String,
    reports: &[PageReport],
    (title, note): (&str, &str),
    plot: fn(&Report) -> Plot,
) -> std::fmt::Result {
    let mut plots: Vec<_> = reports.iter().map(|shown| plot(&shown.report)).collect();
    let top = plots.iter().map(Plot::highest).fold(0.0, f64::max);
    let span = plots.iter().filter_map(Plot::reach).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    writeln!(html, "<section class=\"card\"><h2>{title} <small>{note}</small></h2>\n<div class=\"beside\">")?;
    for (plot, PageReport { name, .. }) in plots.iter_mut().zip(reports) {
        (plot.top, plot.span) = (Some(top), span);
        let named = if reports.len() > 1 { format!("<h3>{}</h3>", escape(name)) } else { String::new() };
        write!(html, "<div>{named}{}</div>", plot.html())?;
    }
    html.push_str("</div></section>\n");
    Ok(())
}

fn series(name: impl Into<String>, colour: &'static str, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), colour, points }
}

fn plot(name: &'static str, unit: &'static str, shape: Shape, series: Vec<Series>) -> Plot {
    let series = series.into_iter().filter(|one| !one.points.is_empty()).collect();
    Plot { name, unit, across: "s", of: 1, shape, series, marks: vec![], is_logarithmic: false, span: None, top: None }
}

fn rate(report: &Report) -> Plot {
    let middle = |(second, count): (f64, f64)| (second + 0.5, count);
    let points = report.per_second().into_iter().map(middle).collect();
    plot("transactions a second", "txn/s", Shape::Bars, vec![series("in blocks", "one", points)])
}

/// The plot of blocks. A line that stands for several blocks shows their mean.
fn blocks(report: &Report) -> Plot {
    let failed = |line: &BlockLine| line.failed.unwrap_or_default().min(line.ours);
    let of = |count: &dyn Fn(&BlockLine) -> u64| -> Vec<(f64, f64)> {
        let mean = |line: &BlockLine| (line.seen_s, count(line) as f64 / line.count.max(1) as f64);
        report.blocks.iter().map(mean).collect()
    };
    let succeeded_name =
        if report.blocks.iter().any(|block| block.failed.is_some()) { "succeeded" } else { "in the block" };
    let all = vec![
        series(succeeded_name, "one", of(&|line| line.ours - failed(line))),
        series("failed", "failed", of(&failed)),
    ];
    Plot { of: report.blocks_together(), ..plot("transactions in blocks", "transactions", Shape::Bars, all) }
}

fn block_time(report: &Report) -> Plot {
    let mean = |pair: &[BlockLine]| {
        let ms = (pair[1].seen_s - pair[0].seen_s) * 1e3;
        (pair[1].seen_s, ms / pair[1].count.max(1) as f64)
    };
    let points = report.blocks.windows(2).map(mean).collect();
    let all = vec![series("between blocks", "three", points)];
    Plot { of: report.blocks_together(), ..plot("block time", "ms", Shape::Line, all) }
}

fn latency(report: &Report) -> Plot {
    let bins = report.latency_distribution.iter();
    let points = bins.map(|bin| ((bin.from_ms * bin.to_ms).sqrt(), bin.count as f64)).collect();
    let mut plot = plot("latency", "transactions", Shape::Bars, vec![series("measured", "one", points)]);
    (plot.across, plot.is_logarithmic) = ("ms", true);
    if let Some(Percentiles { p50_ms, p90_ms, p99_ms, p999_ms, .. }) = report.latency {
        let marks = [("p50", p50_ms), ("p90", p90_ms), ("p99", p99_ms), ("p99.9", p999_ms)];
        plot.marks = marks.map(|(name, at)| (at, format!("{name} {}", time_ms(at)))).to_vec();
    }
    plot
}

fn waiting(report: &Report) -> Plot {
    let moments = || report.moments.iter();
    let source = report.pool_source.as_deref().unwrap_or("not available from this node");
    let pending = moments().filter_map(|at| Some((at.at_s, at.pool_pending? as f64))).collect();
    let queued: Vec<_> = moments().filter_map(|at| Some((at.at_s, at.pool_queued? as f64))).collect();
    let is_queued = queued.iter().any(|(_, waits)| *waits > 0.0);
    let all = vec![
        series("under way", "one", moments().map(|at| (at.at_s, at.under_way as f64)).collect()),
        series(format!("in the pool ({source})"), "two", pending),
        series("behind a gap", "failed", if is_queued { queued } else { vec![] }),
    ];
    plot("waiting", "transactions", Shape::Line, all)
}

fn cpu(report: &Report) -> Plot {
    let moments = || report.moments.iter();
    let server = moments().filter_map(|at| Some((at.at_s, at.server_cores?))).collect();
    let client = moments().map(|at| (at.at_s, at.client_cores)).collect();
    plot("CPU", "cores", Shape::Line, vec![series("node", "one", server), series("load", "two", client)])
}

fn errors(html: &mut String, reports: &[PageReport]) -> std::fmt::Result {
    html.push_str("<section class=\"card\" id=\"errors\"><h2>Errors and oddities</h2>\n<div class=\"beside\">");
    for PageReport { name, report, .. } in reports {
        let named = if reports.len() > 1 { format!("<h3>{}</h3>", escape(name)) } else { String::new() };
        write!(html, "<div>{named}")?;
        let refused = report.reasons.iter().map(|(why, count)| (*count, format!("rejected: {why}")));
        let odd = report.odd_counts().into_iter().map(|(_, what, count)| (count, what.to_owned()));
        let ends = [(report.dropped, "dropped: taken, and known no more"), (report.unknown, "unknown at the end")];
        let ends = ends.into_iter().map(|(count, what)| (count, what.to_owned()));
        let failed = [(report.failed.unwrap_or_default(), "failed in their block".to_owned())];
        let all = refused.chain(ends).chain(failed).chain(odd).filter(|(count, _)| *count > 0);
        let all: Vec<_> = all.collect();
        if all.is_empty() {
            html.push_str("<p class=\"quiet\">None.</p>");
        } else {
            html.push_str("<table><tbody>");
            for (count, what) in all {
                write!(html, "<tr><td class=\"words\">{}</td><td>{}</td></tr>", escape(&what), whole(count))?;
            }
            html.push_str("</tbody></table>");
        }
        for (_, what, words) in report.odd_words() {
            if let Some(words) = words {
                write!(html, "<p class=\"quiet\">{what}: {}</p>", escape(words))?;
            }
        }
        if let Some(clock) = report.clock_text() {
            write!(html, "<p class=\"quiet\">the chain's clock: {}</p>", escape(&clock))?;
        }
        html.push_str("</div>\n");
    }
    html.push_str("</div></section>\n");
    Ok(())
}

fn profiles(html: &mut String, reports: &[PageReport]) -> std::fmt::Result {
    for PageReport { name, report, .. } in reports {
        let named = if reports.len() > 1 { format!("{}: ", escape(name)) } else { String::new() };
        if let Some(why) = &report.no_profile {
            writeln!(
                html,
                "<section class=\"card\"><h2>Flame graph</h2><p>{named}None: {}.</p></section>",
                escape(why)
            )?;
        }
        let Some(profile) = &report.profile else { continue };
        let samples = flame::samples(&profile.folded);
        writeln!(
            html,
            "<section class=\"card\" id=\"flame\"><h2>Flame graph <small>{named}{}, {}; {} samples in {} s. A bar is a \
             function, what lies on it is what it called, its width is its share of the samples; a click \
             zooms.</small></h2>",
            escape(&profile.asked),
            escape(&profile.source),
            whole(samples),
            figure(profile.seconds)
        )?;
        html.push_str(&flame::html(&profile.folded));
        html.push_str("<details><summary>Functions that ran most themselves</summary><table><tbody>\n");
        for (function, own) in flame::heaviest(&profile.folded, HEAVIEST) {
            let share = 100.0 * own as f64 / samples.max(1) as f64;
            writeln!(html, "<tr><td class=\"words\">{}</td><td>{} %</td></tr>", escape(&function), figure(share))?;
        }
        html.push_str("</tbody></table></details></section>\n");
    }
    Ok(())
}

fn options_section(html: &mut String, reports: &[PageReport]) -> std::fmt::Result {
    html.push_str(
        "<section class=\"card\" id=\"configuration\"><h2>Configuration and machine</h2>\n<div class=\"beside\">",
    );
    for PageReport { name, report, .. } in reports {
        let named = if reports.len() > 1 { format!("<h3>{}</h3>", escape(name)) } else { String::new() };
        write!(html, "<div>{named}<table><tbody>\n")?;
        let machine = report.machine.iter().map(|machine| ("machine of the load", machine.as_str()));
        let asked = report.configuration.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (what, value) in asked.chain(machine) {
            writeln!(
                html,
                "<tr><th scope=\"row\">{}</th><td class=\"words\">{}</td></tr>",
                escape(what),
                escape(value)
            )?;
        }
        let text = escape(report.text().trim_end());
        write!(
            html,
            "</tbody></table><details><summary>As the terminal has it</summary><div class=\"scroll\"><pre>{text}</pre></div>\
             </details></div>\n"
        )?;
    }
    html.push_str("</div></section>\n");
    Ok(())
}
