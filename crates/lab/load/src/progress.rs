//! What a run says while it goes on.

/// A step of the run, for whoever watches.
pub enum Progress<'a> {
    /// A line of text.
    Step(&'a str),
    /// So many of so many are signed.
    Signed(u64, u64),
    /// A second: since measuring began (below 0 in the warm-up), included in it, under way.
    Second(f64, u64, usize),
}
