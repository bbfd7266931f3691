//! A node that is killed at any moment, again and again: the test starts this program as the process that it kills.

mod ahead;
