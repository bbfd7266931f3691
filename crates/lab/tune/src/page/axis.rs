//! An axis: the position of a value in percent of its length, and the labels of its steps.
//!
//! reads   the values to plot
//! writes  positions and labels

use hearth_page::even;
use hearth_stats::unit::{Dimension, scale};

/// Approximate number of steps.
const STEPS: f64 = 6.0;

/// An axis with its range and unit.
#[derive(Clone, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    step: f64,
    /// The value that is written as 1.
    scale: f64,
    /// Written behind the metric's name: `ms`, `M`; may be empty.
    pub unit: String,
}

impl Axis {
    /// Spans the values with a margin; none if no value is finite.
    pub fn of(values: impl Iterator<Item = f64>, dimension: Dimension) -> Option<Self> {
        let finite = |value: &f64| value.is_finite();
        let (low, high) =
            values.filter(finite).fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return None;
        }
        let size = low.abs().max(high.abs());
        // If all values are equal they are in the middle.
        let room = if high > low { (high - low) * 0.05 } else { (size * 0.01).max(f64::MIN_POSITIVE) };
        let (scale, unit) = scale(size, dimension);
        Some(Self { low: low - room, high: high + room, step: even((high - low + 2.0 * room) / STEPS), scale, unit })
    }

    /// Returns the position of a value, in percent.
    pub fn at(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low) * 100.0).clamp(0.0, 100.0)
    }

    /// Returns the positions of the steps, with their labels.
    pub fn steps(&self) -> Vec<(f64, String)> {
        let first = (self.low / self.step).ceil();
        let all = (0..20).map(|at| (first + f64::from(at)) * self.step).take_while(|value| *value <= self.high);
        all.map(|value| (self.at(value), self.written(value, self.digits()))).collect()
    }

    /// Formats a value with one digit more than the steps have.
    pub fn said(&self, value: f64) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        if value.is_finite() { self.written(value, self.digits() + 1) + &unit } else { "–".into() }
    }

    fn digits(&self) -> usize {
        (-(self.step / self.scale).log10().floor()).clamp(0.0, 9.0) as usize
    }

    fn written(&self, value: f64, digits: usize) -> String {
        let text = format!("{:.digits$}", value / self.scale);
        // Zero gets no minus sign.
        let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
        if is_zero { text.trim_start_matches('-').into() } else { text.replace('-', "−") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(values: &[f64], dimension: Dimension) -> Axis {
        Axis::of(values.iter().copied(), dimension).expect("values")
    }

    #[test]
    fn steps_are_distinct_and_in_order() {
        let axis = axis(&[0.100, 0.110], Dimension::Seconds);
        let steps = axis.steps();
        assert_eq!(
            steps.iter().map(|step| step.1.as_str()).collect::<Vec<_>>(),
            ["100", "102", "104", "106", "108", "110"]
        );
        assert!((steps[0].0 - 100.0 / 22.0).abs() < 1e-9 && (axis.at(0.105) - 50.0).abs() < 1e-9);
        assert_eq!((axis.unit.as_str(), axis.said(0.1051)), ("ms", "105.1 ms".into()));
    }

    #[test]
    fn units_are_those_of_the_size() {
        for (value, dimension, said) in [
            (81_517.0, Dimension::Number, "81517"),
            (3_300_000.0, Dimension::Number, "3.3"),
            (1.6e7, Dimension::Bytes, "16"),
            (0.85, Dimension::Share, "85"),
            (-2.5, Dimension::Number, "−2.5"),
        ] {
            let said_now = axis(&[value], dimension).said(value);
            assert!(said_now.starts_with(said), "{said_now}");
        }
        assert!(Axis::of([f64::NAN].into_iter(), Dimension::Number).is_none());
        let flat = axis(&[0.0, 0.0], Dimension::Number);
        assert!(flat.at(0.0) == 50.0 && flat.steps().len() < 20);
    }
}
