//! The exit codes of errors that hold other errors.

use hearth_bench::BenchError;
use hearth_bench::profile::ReportError;
use hearth_command::exit_code::{FAILED, Failure, INTERRUPTED, MISSED};
use hearth_load::CommandError;
use hearth_tune::TuneError;

use crate::configure::Ended;
use crate::why::WhyError;

#[test]
fn error_within_error_keeps_its_code() {
    let interrupted = || BenchError::Interrupted { landed: 0 };
    let cases: [(Failure, u8); 5] = [
        (interrupted().into(), INTERRUPTED),
        (ReportError::Bench(interrupted()).into(), INTERRUPTED),
        (TuneError::Interrupted.into(), INTERRUPTED),
        (TuneError::Worse("a".into()).into(), MISSED),
        (CommandError::Worse("a".into()).into(), MISSED),
    ];
    for (failure, code) in cases {
        assert_eq!(failure.exit_code(), code, "{failure}");
        assert!(!failure.is_printed(), "{failure}");
    }
}

#[test]
fn printed_result_needs_no_message() {
    for (failure, code) in [(Failure::from(WhyError::Told(4)), 4), (Ended::ToMend.into(), FAILED)] {
        assert_eq!(failure.exit_code(), code, "{failure}");
        assert!(failure.is_printed(), "{failure}");
    }
}
