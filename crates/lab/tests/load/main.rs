//! A load, and the money for it, on nodes that misbehave.

mod fund;
mod http;
mod run;
mod solana;
mod stub;
