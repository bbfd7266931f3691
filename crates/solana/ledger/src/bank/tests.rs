//! Tests of each rule on its own, against a model, with many threads, and with malformed input.

mod hostile;
mod model;
mod rules;
mod seam;
