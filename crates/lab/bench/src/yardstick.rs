//! The yardstick: one stock ed25519-dalek sign and one strict verification, on one thread.
//!
//! reads   the clock
//! writes  nanoseconds per operation
//! source  ed25519-dalek 2: `sign`, and `verify_strict` with the key decoded each time
//!
//! Measured before and after the load while nothing else of ours runs, so that a rate can be given in units that do not
//! depend on the machine's current speed. Rounds of 20 ms, the median of 25.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use hearth_command::stop::StopSignal;

use super::report::YardstickNs;

const ROUNDS: usize = 25;
const ROUND: Duration = Duration::from_millis(20);

/// Measures both operations, in alternating rounds; `None` if interrupted, now or earlier.
pub fn measure(stop: &StopSignal) -> Option<YardstickNs> {
    let key = SigningKey::from_bytes(&[7; 32]);
    let message = [42u8; 150];
    let signature = key.sign(&message);
    let public = key.verifying_key().to_bytes();
    let (mut sign, mut verify) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        if stop.is_set() {
            return None;
        }
        sign.push(per_call(|| {
            black_box(key.sign(black_box(&message)));
        }));
        verify.push(per_call(|| {
            let public = VerifyingKey::from_bytes(black_box(&public)).expect("a valid key");
            public.verify_strict(black_box(&message), &signature).expect("a valid signature");
        }));
    }
    Some(YardstickNs { sign: median(sign), verify_strict: median(verify) })
}

fn per_call(mut call: impl FnMut()) -> f64 {
    let (start, mut calls) = (Instant::now(), 0u32);
    while start.elapsed() < ROUND {
        for _ in 0..16 {
            call();
        }
        calls += 16;
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the mean of the measurements before and after.
pub fn between(before: YardstickNs, after: YardstickNs) -> YardstickNs {
    let mean = |a: f64, b: f64| (a + b) / 2.0;
    YardstickNs { sign: mean(before.sign, after.sign), verify_strict: mean(before.verify_strict, after.verify_strict) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_between() {
        let a = YardstickNs { sign: 10.0, verify_strict: 40.0 };
        let b = YardstickNs { sign: 20.0, verify_strict: 60.0 };
        assert_eq!(between(a, b), YardstickNs { sign: 15.0, verify_strict: 50.0 });
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
