//! Each rule by itself; against a model; many threads.

mod model;
mod rules;
mod seam;
