//! The exit codes of the lab's errors that hold other errors.

use hearth_bench::BenchError;
use hearth_bench::profile::ReportError;
use hearth_command::exit_code::{Failure, INTERRUPTED, MISSED};
use hearth_load::CommandError;
use hearth_tune::TuneError;

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
