//! A load, and the money for it, on nodes that misbehave.

mod fund;
mod run;
mod stub;
