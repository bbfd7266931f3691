//! End-to-end studies: builds of a small project, and searches for layouts on simulated machines.

mod layout;
mod matrix;
