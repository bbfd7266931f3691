//! The exit codes of errors that hold other errors.

use hearth_command::exit_code::{FAILED, Failure};

use crate::configure::CommandFailure;
use crate::why::WhyError;

#[test]
fn printed_result_needs_no_message() {
    for (failure, code) in [(Failure::from(WhyError::Verdict(4)), 4), (CommandFailure::NotIdeal.into(), FAILED)] {
        assert_eq!(failure.exit_code(), code, "{failure}");
        assert!(failure.is_printed(), "{failure}");
    }
}
