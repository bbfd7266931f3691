//! Statistics of times.

use serde_json::{Value, json};

/// Statistics of times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// The arithmetic mean of all values.
    pub mean: f64,
    /// The standard deviation, over all values.
    pub deviation: f64,
}

impl Times {
    /// Computes the statistics of at least one time.
    pub fn of(mut ns: Vec<f64>) -> Self {
        ns.sort_by(f64::total_cmp);
        let count = ns.len() as f64;
        let mean = ns.iter().sum::<f64>() / count;
        let variance = ns.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count;
        let median = (ns[(ns.len() - 1) / 2] + ns[ns.len() / 2]) / 2.0;
        Self { median, mean, deviation: variance.sqrt() }
    }

    /// Returns the statistics as a JSON object.
    pub fn json(&self) -> Value {
        json!({ "median": self.median, "mean": self.mean, "deviation": self.deviation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_by_hand() {
        let times = Times::of(vec![4.0, 1.0, 3.0, 8.0]);
        assert_eq!((times.median, times.mean), (3.5, 4.0));
        assert!((times.deviation - (26.0f64 / 4.0).sqrt()).abs() < 1e-12);
    }
}
