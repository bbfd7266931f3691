//! Writes the answers to the requests of one text, up to a size limit.

use std::marker::PhantomData;

use super::{Dialect, ErrorObject};
use crate::counters::{CountedEvent, Counts, count};

/// A longer answer's room is given back.
const LONG_BYTES: usize = 64 << 10;

/// The answers so far.
pub(super) struct Answers<'a, F> {
    out: String,
    /// The last answer of a batch, before it is known whether it fits.
    one: String,
    bytes_max: usize,
    /// Whether one did not fit.
    is_full: bool,
    is_batch: bool,
    counts: &'a dyn Counts,
    dialect: PhantomData<fn() -> F>,
}

impl<'a, F: Dialect> Answers<'a, F> {
    pub fn new(is_batch: bool, bytes_max: usize, counts: &'a dyn Counts) -> Self {
        let (out, one) = (String::new(), String::new());
        Self { out, one, bytes_max, is_full: false, is_batch, counts, dialect: PhantomData }
    }

    /// Whether nothing is answered any more but errors.
    pub fn are_full(&self) -> bool {
        self.is_full && F::STOPS_WHEN_FULL
    }

    /// Reserves room for answers of `bytes_each` bytes in addition to these ids. Returns false if they might not fit,
    /// and then counts as full.
    pub fn reserve(&mut self, ids: &[Option<&str>], bytes_each: usize) -> bool {
        let bytes: usize = ids.iter().map(|id| id.map_or(0, str::len) + bytes_each).sum();
        let fits = self.bytes_max.saturating_sub(self.out.len()) >= bytes;
        match fits {
            true => self.out.reserve(bytes),
            false => self.is_full = true,
        }
        fits
    }

    /// Adds the error of a call that is not made, since its answer would not fit.
    pub fn refuse(&mut self, id: Option<&str>) {
        count(self.counts.word(CountedEvent::Errors));
        let Some(id) = id else { return };
        self.separate();
        self.push_too_long(id, 0);
    }

    /// Adds the answer of a request, unless it has no id.
    pub fn push(&mut self, id: Option<&str>, result: Result<String, F>) {
        let is_error = result.is_err();
        if is_error {
            count(self.counts.word(CountedEvent::Errors));
        }
        let Some(id) = id else { return };
        self.separate();
        self.one.clear();
        let result = result.map_err(Into::into);
        // Alone it is written in its place: a long one is not copied.
        let (one, before) = if self.is_batch { (&mut self.one, self.out.len()) } else { (&mut self.out, 0) };
        push_answer(one, F::ID_FIRST, id, result);
        let over = (before + one.len()).saturating_sub(self.bytes_max);
        // Errors can be long, too. After the first that does not fit there are short ones only, where nothing more is
        // executed.
        if over > 0 && !self.are_full() {
            if !is_error {
                count(self.counts.word(CountedEvent::Errors));
            }
            self.is_full = true;
            if !self.is_batch {
                self.out.clear();
            }
            self.push_too_long(id, over);
        } else {
            self.out.push_str(&self.one);
        }
        // Of a long one no room stays taken while the rest of the batch is answered.
        if self.one.capacity() > LONG_BYTES {
            self.one = String::new();
        }
    }

    fn separate(&mut self) {
        if self.is_batch {
            self.out.push(if self.out.is_empty() { '[' } else { ',' });
        }
    }

    fn push_too_long(&mut self, id: &str, over: usize) {
        push_answer(&mut self.out, F::ID_FIRST, id, Err(F::too_long(over).into()));
    }

    /// Returns the text; `None` if no request wanted an answer.
    pub fn end(mut self) -> Option<String> {
        if self.out.is_empty() {
            return None;
        }
        if self.is_batch {
            self.out.push(']');
        }
        Some(self.out)
    }
}

/// Writes a single answer.
pub(super) fn push_answer(out: &mut String, id_first: bool, id: &str, result: Result<String, ErrorObject>) {
    out.push_str("{\"jsonrpc\":\"2.0\",");
    if id_first {
        out.push_str("\"id\":");
        out.push_str(id);
        out.push(',');
    }
    match result {
        Ok(result) => {
            out.push_str("\"result\":");
            out.push_str(&result);
        }
        Err(error) => {
            out.push_str("\"error\":");
            error.push(out);
        }
    }
    if !id_first {
        out.push_str(",\"id\":");
        out.push_str(id);
    }
    out.push('}');
}
