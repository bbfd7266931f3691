//! Each rule by itself; against a model; many threads; nonsense.

mod hostile;
mod model;
mod rules;
mod seam;
