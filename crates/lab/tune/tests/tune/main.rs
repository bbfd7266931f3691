//! Studies from end to end: builds of a small project, and searches for layouts on machines that are made up.

mod layout;
mod matrix;
