//! Progress reports of a run.

/// One progress report of a run.
pub enum Progress<'a> {
    /// A line of text.
    Step(&'a str),
    /// Transactions signed so far, and in all.
    Signed(u64, u64),
    /// A second has passed: seconds since measuring began (below 0 in the warm-up), transactions included in it,
    /// transactions under way.
    Second(f64, u64, usize),
}
