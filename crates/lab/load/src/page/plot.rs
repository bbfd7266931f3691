//! Plots: shapes as SVG that stretch to the available width, and labels beside them that do not.
//!
//! reads   points
//! writes  HTML without a script: tooltips are title elements
//! memory  at most [`POINTS_MAX`] points of a series: beyond that, points are averaged, and the plot says so

use std::fmt::Write;

use hearth_page::even;
use hearth_page::text::{escape, figure, whole};

/// More points would be narrower than a pixel.
const POINTS_MAX: usize = 300;
/// Size of the drawing in its own units, before it is stretched.
const WIDTH: f64 = 1_000.0;
const HEIGHT: f64 = 240.0;

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A line from point to point.
    Line,
    /// A bar at each point, half as wide as the way to its neighbours; several series are stacked.
    Bars,
}

/// Points drawn in one colour.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name of the series.
    pub name: String,
    /// Class of the style sheet that sets the colour.
    pub colour: &'static str,
    /// Points `(x, y)`, ascending in x.
    pub points: Vec<(f64, f64)>,
}

/// A plot with its axes and series.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Name of the plot, for tests and screen readers.
    pub name: &'static str,
    /// Unit of the y axis.
    pub unit: &'static str,
    /// Label of the x axis.
    pub across: &'static str,
    /// A point is the mean of at most this many values.
    pub of: u64,
    /// How points are drawn.
    pub shape: Shape,
    /// The series to draw.
    pub series: Vec<Series>,
    /// Vertical lines at these x positions, each with a label.
    pub marks: Vec<(f64, String)>,
    /// Whether the x axis is logarithmic, each step ten times the one before.
    pub is_logarithmic: bool,
    /// Range of the x axis, if several plots share it.
    pub span: Option<(f64, f64)>,
    /// Maximum of the y axis, if several plots share it.
    pub top: Option<f64>,
}

impl Plot {
    /// Returns the highest value that is drawn.
    pub fn highest(&self) -> f64 {
        let series = thinned(&self.series).0;
        let of = |index: usize| series.iter().filter_map(|one| Some(one.points.get(index)?.1)).sum::<f64>();
        let sums = (0..series.first().map_or(0, |one| one.points.len())).map(of).fold(0.0, f64::max);
        let points = series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
        let highest = points.filter(|y| y.is_finite()).fold(0.0, f64::max);
        if self.shape == Shape::Bars { sums } else { highest }
    }

    /// Returns the range of x values.
    pub fn reach(&self) -> Option<(f64, f64)> {
        let points = || self.series.iter().flat_map(|series| series.points.iter().map(|point| point.0));
        let (low, high) = (points().fold(f64::INFINITY, f64::min), points().fold(f64::NEG_INFINITY, f64::max));
        (low <= high).then_some((low, high))
    }

    /// Draws the plot, or writes a sentence if there is nothing to draw.
    pub fn html(&self) -> String {
        let Some((low, high)) = self.span.or_else(|| self.reach()) else {
            return format!("<p class=\"quiet\" data-plot=\"{}\">Nothing to be drawn.</p>\n", escape(self.name));
        };
        let top = nice(self.top.unwrap_or_else(|| self.highest()));
        let (series, together) = thinned(&self.series);
        let drawn = PlotArea { plot: self, low, high: if high > low { high } else { low + 1.0 }, top };
        let mut html = format!("<figure class=\"plot\" data-plot=\"{}\">\n", escape(self.name));
        // Writing to a String cannot fail.
        let _ = drawn.write(&mut html, &series, together);
        html + "</figure>\n"
    }
}

/// Averages neighbouring points if there are more than can be seen. Returns how many each point stands for.
fn thinned(series: &[Series]) -> (Vec<Series>, usize) {
    let together = series.iter().map(|one| one.points.len().div_ceil(POINTS_MAX)).max().unwrap_or(1).max(1);
    let mean = |points: &[(f64, f64)]| {
        let count = points.len() as f64;
        (
            points.iter().map(|point| point.0).sum::<f64>() / count,
            points.iter().map(|point| point.1).sum::<f64>() / count,
        )
    };
    let thin = |one: &Series| Series { points: one.points.chunks(together).map(mean).collect(), ..one.clone() };
    (series.iter().map(thin).collect(), together)
}

/// Returns a round number that is not smaller.
fn nice(value: f64) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|round| *round >= value * 0.999_999).unwrap_or(10.0 * power)
}

struct PlotArea<'a> {
    plot: &'a Plot,
    low: f64,
    high: f64,
    top: f64,
}

impl PlotArea<'_> {
    /// Maps an x value to its share of the width.
    fn across(&self, x: f64) -> f64 {
        let scale = |x: f64| if self.plot.is_logarithmic { x.max(1e-9).log10() } else { x };
        (scale(x) - scale(self.low)) / (scale(self.high) - scale(self.low)).max(1e-12)
    }

    fn x(&self, x: f64) -> f64 {
        (self.across(x) * WIDTH).clamp(0.0, WIDTH)
    }

    fn y(&self, y: f64) -> f64 {
        let y = if y.is_finite() { y } else { 0.0 };
        HEIGHT - (y / self.top * HEIGHT).clamp(0.0, HEIGHT)
    }

    fn write(&self, html: &mut String, series: &[Series], together: usize) -> std::fmt::Result {
        let Plot { name, unit, across, .. } = self.plot;
        html.push_str("<figcaption>");
        for one in series {
            write!(html, "<span class=\"key {}\"></span>{} ", one.colour, escape(&one.name))?;
        }
        let means = match (together as u64).saturating_mul(self.plot.of) {
            2.. if self.plot.of > 1 => format!(", means of up to {}", whole(together as u64 * self.plot.of)),
            2.. => format!(", means of {together}"),
            _ => String::new(),
        };
        write!(html, "<small>{}{means}</small>", escape(unit))?;
        for (_, word) in &self.plot.marks {
            write!(html, "<span class=\"word\">{}</span>", escape(word))?;
        }
        html.push_str("</figcaption>\n");
        html.push_str("<div class=\"axes\"><div class=\"up\">");
        for step in 0..=4 {
            let value = self.top * f64::from(step) / 4.0;
            write!(html, "<span style=\"bottom:{}%\">{}</span>", step * 25, figure(value))?;
        }
        write!(
            html,
            "</div>\n<div class=\"field\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" \
             role=\"img\" aria-label=\"{}, {}\">\n",
            escape(name),
            escape(unit)
        )?;
        for step in 1..=4 {
            let y = HEIGHT * (1.0 - f64::from(step) / 4.0);
            writeln!(html, "<line class=\"grid\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{y}\" y2=\"{y}\"/>")?;
        }
        self.warm_up(html)?;
        match self.plot.shape {
            Shape::Line => self.lines(html, series)?,
            Shape::Bars => self.bars(html, series)?,
        }
        for (at, word) in &self.plot.marks {
            let (x, word) = (self.x(*at), escape(word));
            writeln!(
                html,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{HEIGHT}\"><title>{word}</title></line>"
            )?;
        }
        html.push_str("</svg>");
        html.push_str("</div>\n<div class=\"across\">");
        for value in self.steps() {
            write!(html, "<span style=\"left:{:.2}%\">{}</span>", 100.0 * self.across(value), figure(value))?;
        }
        writeln!(html, "</div><div class=\"unit\">{}</div></div>", escape(across))
    }

    /// Shades the time before the measured time.
    fn warm_up(&self, html: &mut String) -> std::fmt::Result {
        if self.plot.is_logarithmic || self.low >= 0.0 {
            return Ok(());
        }
        let width = self.x(0.0);
        writeln!(
            html,
            "<rect class=\"warmup\" x=\"0\" y=\"0\" width=\"{width:.1}\" height=\"{HEIGHT}\"><title>warm-up</title></rect>"
        )
    }

    fn lines(&self, html: &mut String, series: &[Series]) -> std::fmt::Result {
        for one in series {
            write!(html, "<polyline class=\"line {}\" points=\"", one.colour)?;
            one.points.iter().try_for_each(|(x, y)| write!(html, "{:.1},{:.1} ", self.x(*x), self.y(*y)))?;
            html.push_str("\"/>\n");
        }
        // Invisible strips with tooltips.
        let Some(longest) = series.iter().max_by_key(|one| one.points.len()) else { return Ok(()) };
        for (at, (x, _)) in longest.points.iter().enumerate() {
            let (left, right) = self.around(&longest.points, at);
            let values: Vec<_> = series.iter().filter_map(|one| Some((one, nearest(&one.points, *x)?))).collect();
            let title = self.title(*x, values.iter().map(|(one, y)| (one.name.as_str(), *y)));
            writeln!(
                html,
                "<rect class=\"strip\" x=\"{left:.1}\" y=\"0\" width=\"{:.1}\" height=\"{HEIGHT}\"><title>{title}</title></rect>",
                right - left
            )?;
        }
        Ok(())
    }

    fn bars(&self, html: &mut String, series: &[Series]) -> std::fmt::Result {
        let Some(first) = series.first() else { return Ok(()) };
        for (at, (x, _)) in first.points.iter().enumerate() {
            let (left, right) = self.around(&first.points, at);
            // Leaves a gap between bars that are wide enough for one.
            let width = if right - left > 6.0 { right - left - 2.0 } else { right - left };
            let values: Vec<_> = series.iter().filter_map(|one| Some((one, one.points.get(at)?.1))).collect();
            let title = self.title(*x, values.iter().map(|(one, y)| (one.name.as_str(), *y)));
            html.push_str("<g>");
            let mut below = 0.0;
            for (one, y) in &values {
                let (bottom, up) = (self.y(below), self.y(below + y));
                below += y;
                write!(
                    html,
                    "<rect class=\"bar {}\" x=\"{left:.1}\" y=\"{up:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                    one.colour,
                    bottom - up
                )?;
            }
            writeln!(html, "<title>{title}</title></g>")?;
        }
        Ok(())
    }

    /// From halfway to the point before to halfway to the next.
    fn around(&self, points: &[(f64, f64)], at: usize) -> (f64, f64) {
        let x = |index: usize| self.across(points[index].0) * WIDTH;
        let here = x(at);
        let before = at.checked_sub(1).map(x);
        let after = (at + 1 < points.len()).then(|| x(at + 1));
        let half = match (before, after) {
            (Some(before), None) => (here - before) / 2.0,
            (None, Some(after)) => (after - here) / 2.0,
            _ => WIDTH / 20.0,
        };
        let left = before.map_or(here - half, |before| (before + here) / 2.0);
        let right = after.map_or(here + half, |after| (after + here) / 2.0);
        (left.clamp(0.0, WIDTH), right.clamp(0.0, WIDTH).max(left + 0.5))
    }

    fn title<'a>(&self, x: f64, values: impl Iterator<Item = (&'a str, f64)>) -> String {
        let values: Vec<_> = values.map(|(name, y)| format!("{} {}", escape(name), figure(y))).collect();
        format!("{} {}: {}", figure(x), escape(self.plot.across), values.join(", "))
    }

    /// Positions of the labels on the x axis.
    fn steps(&self) -> Vec<f64> {
        if self.plot.is_logarithmic {
            let (low, high) = (self.low.max(1e-9).log10().ceil() as i32, self.high.max(1e-9).log10().floor() as i32);
            let tens: Vec<_> = (low..=high).map(|power| 10f64.powi(power)).collect();
            return if tens.len() > 1 { tens } else { vec![self.low, self.high] };
        }
        let step = even((self.high - self.low) / 6.0);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last.min(first + 20)).map(|at| at as f64 * step).collect()
    }
}

/// The value of a series at the point nearest to `x`.
fn nearest(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = points.partition_point(|point| point.0 < x);
    let distance = |point: &&(f64, f64)| (point.0 - x).abs();
    let around = points[after.saturating_sub(1)..(after + 1).min(points.len())].iter();
    around.min_by(|one, other| distance(one).total_cmp(&distance(other))).map(|point| point.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(shape: Shape, series: &[&[(f64, f64)]]) -> Plot {
        let one = |points: &&[(f64, f64)]| Series { name: "a <b>".into(), colour: "one", points: points.to_vec() };
        Plot {
            name: "test",
            unit: "txn/s",
            across: "s",
            of: 1,
            shape,
            series: series.iter().map(one).collect(),
            marks: vec![],
            is_logarithmic: false,
            span: None,
            top: None,
        }
    }

    #[test]
    fn a_line_goes_through_its_points() {
        let html = plot(Shape::Line, &[&[(0.0, 0.0), (5.0, 50.0), (10.0, 100.0)]]).html();
        assert!(html.contains("points=\"0.0,240.0 500.0,120.0 1000.0,0.0 \""), "{html}");
        assert!(html.contains("<title>5 s: a &lt;b&gt; 50</title>") && !html.contains("<b>"), "{html}");
        assert_eq!(html.matches("class=\"strip\"").count(), 3);
    }

    #[test]
    fn bars_stand_on_each_other() {
        let plot = plot(Shape::Bars, &[&[(0.0, 30.0), (1.0, 60.0)], &[(0.0, 10.0), (1.0, 40.0)]]);
        assert_eq!(plot.highest(), 100.0);
        let html = plot.html();
        assert!(html.contains("y=\"96.0\" width=\"498.0\" height=\"144.0\""), "{html}");
        assert!(html.contains("y=\"0.0\" width=\"498.0\" height=\"96.0\""), "{html}");
        assert!(html.contains("1 s: a &lt;b&gt; 60, a &lt;b&gt; 40"), "{html}");
    }

    #[test]
    fn more_points_than_pixels_are_put_together() {
        let many: Vec<_> = (0..POINTS_MAX * 4).map(|at| (at as f64, (at % 4) as f64)).collect();
        let html = plot(Shape::Line, &[&many]).html();
        assert_eq!(html.matches("class=\"strip\"").count(), POINTS_MAX);
        assert_eq!(plot(Shape::Line, &[&many]).highest(), 1.5, "the axis is that of what is drawn");
        assert!(html.contains("means of 4") && html.contains("a &lt;b&gt; 1.5"), "{html}");
        let of_means = Plot { of: 8, ..plot(Shape::Line, &[&many]) };
        assert!(of_means.html().contains("means of up to 32"), "{}", of_means.html());
    }

    #[test]
    fn nothing_and_nonsense_are_drawn_too() {
        assert!(plot(Shape::Line, &[&[]]).html().contains("Nothing to be drawn"));
        let one = plot(Shape::Bars, &[&[(3.0, 0.0)]]).html();
        assert!(one.contains("<title>3 s") && !one.contains("NaN") && !one.contains("inf"), "{one}");
        let wrong = plot(Shape::Line, &[&[(0.0, f64::NAN), (1.0, f64::INFINITY)]]).html();
        assert!(!wrong.contains("points=\"NaN"), "{wrong}");
        assert_eq!((nice(0.0), nice(101.0), nice(0.19), nice(7.0)), (1.0, 120.0, 0.2, 8.0));
    }

    #[test]
    fn steps_of_ten_and_marks_have_their_places() {
        let mut plot = plot(Shape::Bars, &[&[(1.0, 5.0), (1_000.0, 5.0)]]);
        plot.is_logarithmic = true;
        plot.marks = vec![(10.0, "p50".into()), (999.0, "p99 <".into())];
        let html = plot.html();
        assert!(html.contains("left:33.33%\">10</span>"), "{html}");
        assert_eq!(html.matches("class=\"mark\"").count(), 2);
        assert!(html.contains("<span class=\"word\">p99 &lt;</span>"), "{html}");
        assert_eq!([0.7, 1.0, 1.2, 30.0, 700.0].map(even), [1.0, 1.0, 2.0, 50.0, 1_000.0]);
    }
}
